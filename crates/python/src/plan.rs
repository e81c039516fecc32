//! Plans: what they predict, guarantee and do in the simulator.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nicforge_driver::options::Inputs;
use nicforge_driver::simulation::{Offered, Ready};
use nicforge_driver::{Failure, Loaded, rates, simulation};
use nicforge_plan::{self as plans, Replication};
use nicforge_sim::Report;
use nicforge_sim::workload;
use nicforge_target::Target;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use crate::value::to_python;
use crate::work::work;

/// A program on a target: stages, replicas, memories, and the rate that is expected.
#[pyclass(frozen, module = "nicforge")]
pub struct Plan {
    plan: plans::Plan,
    target: Target,
    loaded: Arc<Loaded>,
    inputs: Inputs,
}

/// A stage of a plan and its replicas.
#[pyclass(frozen, get_all, module = "nicforge")]
#[derive(Clone)]
pub struct Stage {
    name: String,
    /// The unit group that it runs on.
    group: String,
    replicas: u32,
    tables: Vec<String>,
    /// Cycles of a unit for an event.
    cycles: f64,
    /// Packets per second that all replicas keep up with.
    rate_pps: f64,
    /// Why it may have so many replicas, or one: `free`, `sharded`, `locked` or `single`.
    replication: &'static str,
}

#[pymethods]
impl Stage {
    fn __repr__(&self) -> String {
        let rate = self.rate_pps / 1e6;
        format!("<Stage {} x{} on {}: {rate:.2} Mpps>", self.name, self.replicas, self.group)
    }
}

/// A table's place in a plan.
#[pyclass(frozen, get_all, module = "nicforge")]
#[derive(Clone)]
pub struct Memory {
    table: String,
    memory: String,
    bytes: u64,
    per_replica: bool,
}

#[pymethods]
impl Memory {
    fn __repr__(&self) -> String {
        format!("<Memory {} of table {}: {} bytes>", self.memory, self.table, self.bytes)
    }
}

/// The rate that no packets make a plan fall below.
#[pyclass(frozen, get_all, module = "nicforge")]
pub struct Guarantee {
    /// Packets per second whatever comes.
    one_flow_pps: f64,
    /// Packets per second where keys spread evenly.
    spread_pps: f64,
    /// Every stage's slowest packet was found.
    exact: bool,
    /// The stage, memory or link that decides.
    limit: String,
}

#[pymethods]
impl Guarantee {
    fn __repr__(&self) -> String {
        let least = if self.exact { "" } else { "at least " };
        format!("<Guarantee {least}{:.2} Mpps by {}>", self.one_flow_pps / 1e6, self.limit)
    }
}

/// Results of a simulation.
#[pyclass(frozen, module = "nicforge")]
pub struct Simulation {
    report: Report,
}

#[pymethods]
impl Simulation {
    /// Packets per second that were offered.
    #[getter]
    fn offered_pps(&self) -> f64 {
        self.report.offered.pps
    }

    /// Packets per second that left.
    #[getter]
    fn delivered_pps(&self) -> f64 {
        self.report.delivered.pps
    }

    #[getter]
    fn delivered_bps(&self) -> f64 {
        self.report.delivered.bps
    }

    /// Share of the offered packets that queues lost.
    #[getter]
    fn loss(&self) -> f64 {
        self.report.loss
    }

    /// Nanoseconds from port to port that half of the packets take at most, if any left.
    #[getter]
    fn latency_p50_ns(&self) -> Option<f64> {
        self.report.latency.map(|latency| latency.p50)
    }

    #[getter]
    fn latency_p99_ns(&self) -> Option<f64> {
        self.report.latency.map(|latency| latency.p99)
    }

    #[getter]
    fn watts(&self) -> f64 {
        self.report.power.watts
    }

    /// All of it, as `nicforge sim --json` prints it.
    fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.report.json())
    }

    fn __repr__(&self) -> String {
        let Report { program, target, delivered, loss, .. } = &self.report;
        let (rate, loss) = (delivered.pps / 1e6, loss * 100.0);
        format!("<Simulation of {program} on {target}: {rate:.2} Mpps, {loss:.2} % lost>")
    }
}

impl Plan {
    /// A plan of a program as it is for the target.
    pub fn new(plan: plans::Plan, target: Target, loaded: Arc<Loaded>, inputs: Inputs) -> Plan {
        Plan { plan, target, loaded, inputs }
    }
}

#[pymethods]
impl Plan {
    #[getter]
    fn program(&self) -> &str {
        &self.plan.program
    }

    #[getter]
    fn target(&self) -> &str {
        &self.plan.target
    }

    /// Packets per second that are expected, ports included.
    #[getter]
    fn rate_pps(&self) -> f64 {
        self.plan.predicted.rate_pps
    }

    #[getter]
    fn rate_bps(&self) -> f64 {
        self.plan.predicted.bit_rate_bps
    }

    /// Nanoseconds from port to port without load.
    #[getter]
    fn latency_ns(&self) -> f64 {
        self.plan.predicted.latency_ns
    }

    #[getter]
    fn nj_per_packet(&self) -> f64 {
        self.plan.predicted.nj_per_packet
    }

    /// True if the rate is that of the ports.
    #[getter]
    fn line_rate(&self) -> bool {
        self.plan.predicted.line_rate
    }

    /// The rate's limit, in words.
    #[getter]
    fn limit(&self) -> &str {
        &self.plan.predicted.limit
    }

    #[getter]
    fn frame_bytes(&self) -> u32 {
        self.plan.frame_bytes
    }

    #[getter]
    fn stages(&self) -> Vec<Stage> {
        let stage = |stage: &plans::Stage| Stage {
            name: stage.name.clone(),
            group: stage.group.clone(),
            replicas: stage.replicas,
            tables: stage.tables.clone(),
            cycles: stage.cycles,
            rate_pps: stage.rate_pps,
            replication: match stage.replication {
                Replication::Free => "free",
                Replication::Sharded { .. } => "sharded",
                Replication::Locked { .. } => "locked",
                Replication::Single { .. } => "single",
            },
        };
        self.plan.stages.iter().map(stage).collect()
    }

    #[getter]
    fn memories(&self) -> Vec<Memory> {
        let memory = |table: &plans::TablePlan| Memory {
            table: table.name.clone(),
            memory: table.memory.clone(),
            bytes: table.bytes,
            per_replica: table.per_replica,
        };
        self.plan.tables.iter().map(memory).collect()
    }

    /// Finds the rate that no packets make the plan fall below, in so many seconds a stage.
    #[pyo3(signature = (seconds = 3.0))]
    fn guarantee(&self, py: Python, seconds: f64) -> PyResult<Guarantee> {
        let time = Duration::try_from_secs_f64(seconds)
            .map_err(|_| PyValueError::new_err("seconds: a time that is not negative"))?;
        let program = &self.loaded.program;
        let found = work(py, || rates::guaranteed(&self.plan, program, &self.target, time))?;
        Ok(Guarantee {
            one_flow_pps: found.one_flow,
            spread_pps: found.spread,
            exact: found.exact,
            limit: found.limit,
        })
    }

    /// Simulates it: `rate` as `50G` or `10Mpps` (default: one port's line), `workload` as for
    /// `nicforge sim`, so many simulated seconds.
    #[pyo3(signature = (*, rate = None, workload = None, duration = 2e-3, packets = None,
                        replay = false))]
    fn simulate(
        &self,
        py: Python,
        rate: Option<&str>,
        workload: Option<&str>,
        duration: f64,
        packets: Option<u64>,
        replay: bool,
    ) -> PyResult<Simulation> {
        let report = work(py, || {
            let offered = Offered {
                spec: workload::parse(workload.unwrap_or_default()).map_err(Failure::usage)?,
                rate: rate.map(workload::parse_rate).transpose().map_err(Failure::usage)?,
                replay,
                rates: Vec::new(),
                duration,
                packets,
                interpreted: false,
            };
            let needed = replay || !self.inputs.pcap.is_empty();
            let ready = Ready::of(&self.plan, &self.loaded, &self.inputs, needed)?;
            let mut run = simulation::Simulation::new(offered, &self.target, &self.plan, &ready)?;
            run.run(run.rate)
        })?;
        Ok(Simulation { report })
    }

    /// The greatest rate in packets per second with a loss below 0.1 %; None if every rate loses
    /// packets.
    #[pyo3(signature = (*, workload = None, duration = 0.5e-3))]
    fn max_rate(&self, py: Python, workload: Option<&str>, duration: f64) -> PyResult<Option<f64>> {
        work(py, || {
            let usual = format!("size={}", self.plan.frame_bytes);
            let spec = workload::parse(workload.unwrap_or(&usual)).map_err(Failure::usage)?;
            let offered = Offered {
                spec,
                rate: None,
                replay: false,
                rates: Vec::new(),
                duration,
                packets: None,
                interpreted: false,
            };
            let (plan, inputs) = (&self.plan, &self.inputs);
            simulation::greatest(&offered, inputs, &self.target, plan, &self.loaded)
        })
    }

    /// All of it, as `nicforge plan --json` prints it.
    fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &serde_json::to_value(&self.plan).unwrap_or_default())
    }

    /// Writes it as JSON, which `--plan` of the command takes.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        let text = serde_json::to_string_pretty(&self.plan).unwrap_or_default();
        std::fs::write(&path, text)
            .map_err(|error| PyOSError::new_err(format!("{}: {error}", path.display())))
    }

    fn __repr__(&self) -> String {
        let stages: Vec<String> =
            self.plan.stages.iter().map(|s| format!("{} x{}", s.name, s.replicas)).collect();
        let rate = self.plan.predicted.rate_pps / 1e6;
        let (program, target) = (&self.plan.program, &self.plan.target);
        format!("<Plan {program} on {target}: {rate:.2} Mpps, {}>", stages.join(", "))
    }
}
