//! Programs: read, checked, interpreted, planned, compared and built.

use std::path::PathBuf;
use std::sync::Arc;

use nicforge_driver::backend::{self, Build, Product};
use nicforge_driver::by_target::{self, Programs};
use nicforge_driver::options::{Inputs, Planned, Planning, Source};
use nicforge_driver::verify::Case;
use nicforge_driver::{
    Failure, Loaded, Runtime, compare, events, planning, program, support, targets,
};
use nicforge_ir::{Interp, TableBackend, json};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::Value;

use crate::compared::Comparison;
use crate::plan::Plan;
use crate::support::Support;
use crate::value::to_python;
use crate::work::work;

/// A program: C, an XDP object, αIR text, or a folder with a source of the same name.
#[pyclass(frozen, module = "nicforge")]
pub struct Program {
    source: Source,
    inputs: Inputs,
    general: Arc<Loaded>,
}

/// A table of a program.
#[pyclass(frozen, get_all, module = "nicforge")]
#[derive(Clone)]
pub struct Table {
    name: String,
    kind: &'static str,
    capacity: u32,
    key_bytes: u32,
    value_bytes: u32,
}

#[pymethods]
impl Table {
    fn __repr__(&self) -> String {
        format!("<Table {}: {}, {} entries>", self.name, self.kind, self.capacity)
    }
}

/// Outputs of an event.
#[pyclass(frozen, get_all, module = "nicforge")]
pub struct Output {
    /// The event's number, from 0.
    event: usize,
    /// `send`, `stack`, `host`, `message`, `dma`, `drop` or `log`.
    kind: &'static str,
    port: Option<u32>,
    data: Py<PyBytes>,
    /// Why a packet was dropped.
    reason: Option<String>,
    /// The output in words.
    text: String,
}

#[pymethods]
impl Output {
    fn __repr__(&self) -> String {
        format!("<Output of event {}: {}>", self.event, self.text)
    }
}

/// A run in the interpreter.
#[pyclass(frozen, module = "nicforge")]
pub struct Run {
    #[pyo3(get)]
    events: usize,
    outputs: Vec<Py<Output>>,
    tables: Vec<(String, Value)>,
}

#[pymethods]
impl Run {
    /// Outputs of the events, in order.
    #[getter]
    fn outputs(&self, py: Python) -> Vec<Py<Output>> {
        self.outputs.iter().map(|one| one.clone_ref(py)).collect()
    }

    /// Contents of a table at the end: entries with `key` and `value`.
    fn table<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        match self.tables.iter().find(|(own, _)| own == name) {
            Some((_, entries)) => to_python(py, entries),
            None => Err(PyIndexError::new_err(format!("the program has no table `{name}`"))),
        }
    }

    fn __repr__(&self) -> String {
        format!("<Run of {} events, {} outputs>", self.events, self.outputs.len())
    }
}

/// Diagnostics of a program as `nicforge check --json` prints them.
#[pyfunction]
#[pyo3(signature = (path, *, define = Vec::new(), target = None))]
pub fn diagnose(
    py: Python,
    path: PathBuf,
    define: Vec<String>,
    target: Option<String>,
) -> PyResult<Bound<PyAny>> {
    let source = Source { program: path, define, ..Source::default() };
    let found = work(py, move || {
        let targets = target.as_deref().map(targets::named).transpose()?;
        nicforge_driver::diagnose::check(&source, targets.as_deref(), &Runtime::unpack()?)
    })?;
    to_python(py, &found)
}

/// Tells what a function of C outside the subset does with its state.
#[pyfunction]
#[pyo3(signature = (path, function, *, define = Vec::new()))]
pub fn opaque(
    py: Python,
    path: PathBuf,
    function: String,
    define: Vec<String>,
) -> PyResult<Bound<PyAny>> {
    let source = Source { program: path, define, ..Source::default() };
    let found = work(py, move || {
        Ok(nicforge_driver::diagnose::opaque(&source, &function, &Runtime::unpack()?))
    })?;
    to_python(py, &found)
}

impl Program {
    /// The source and inputs where packets are given in place of those beside the program.
    fn inputs(&self, pcap: Option<Vec<String>>, tables: Option<PathBuf>) -> Inputs {
        Inputs {
            pcap: pcap.unwrap_or_else(|| self.inputs.pcap.clone()),
            tables: tables.or_else(|| self.inputs.tables.clone()),
        }
    }

    /// As it is for a target, which may see another text of it.
    fn on(&self, target: &nicforge_target::Target) -> Result<Loaded, Failure> {
        let runtime = Runtime::unpack()?;
        let targets = std::slice::from_ref(target);
        Ok(Programs::load(&self.source, targets, &runtime)?.into(0))
    }

    fn product(
        &self,
        py: Python,
        target: String,
        text: bool,
        output: Option<PathBuf>,
    ) -> PyResult<Product> {
        work(py, || {
            let Some(on) = backend::find(&target)? else {
                return Err(Failure::usage("the interpreter has no code: name a target"));
            };
            let runtime = Runtime::unpack()?;
            let loaded = program::load(&self.source.on(&on.target), &runtime)?;
            let build = Build {
                planned: &Planned::default(),
                text,
                output: output.as_ref(),
                passes: &|program| program::lower(&program),
            };
            on.backend.build(&on.target, &build, &loaded, &runtime)
        })
    }
}

#[pymethods]
impl Program {
    #[new]
    #[pyo3(signature = (path, *, define = Vec::new(), include = Vec::new(), libraries = Vec::new(),
                        function = None, pcap = Vec::new(), tables = None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python,
        path: PathBuf,
        define: Vec<String>,
        include: Vec<PathBuf>,
        libraries: Vec<String>,
        function: Option<String>,
        pcap: Vec<String>,
        tables: Option<PathBuf>,
    ) -> PyResult<Program> {
        let source = Source {
            program: path,
            function,
            define,
            include,
            with: libraries,
            ..Source::default()
        };
        let general = work(py, || program::load(&source, &Runtime::unpack()?))?;
        Ok(Program { source, inputs: Inputs { pcap, tables }, general: Arc::new(general) })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.general.program.name
    }

    #[getter]
    fn path(&self) -> &std::path::Path {
        &self.general.path
    }

    /// Warnings of the front end, rendered.
    #[getter]
    fn warnings(&self) -> &str {
        &self.general.warnings
    }

    #[getter]
    fn ports(&self) -> u32 {
        self.general.program.ports
    }

    #[getter]
    fn handlers(&self) -> Vec<&str> {
        self.general.program.handlers.values().map(|handler| handler.name.as_str()).collect()
    }

    #[getter]
    fn tables(&self) -> Vec<Table> {
        let program = &self.general.program;
        let table = |table: &nicforge_ir::Table| Table {
            name: table.name.clone(),
            kind: table.kind.name(),
            capacity: table.capacity,
            key_bytes: program.size_of(table.key),
            value_bytes: program.size_of(table.value),
        };
        program.tables.values().map(table).collect()
    }

    /// αIR as text.
    fn air(&self) -> String {
        let options = nicforge_ir::text::PrintOptions { spans: false };
        nicforge_ir::text::print(&self.general.program, options)
    }

    /// Asks a target, or `all`, whether the program runs there.
    #[pyo3(signature = (target = "all"))]
    fn check(&self, py: Python, target: &str) -> PyResult<Vec<Support>> {
        let found = work(py, || {
            let runtime = Runtime::unpack()?;
            let targets = targets::named(target)?;
            let programs = Programs::load(&self.source, &targets, &runtime)?;
            support::of(&programs, &targets, &runtime)
        })?;
        Ok(found.into_iter().map(Support::from).collect())
    }

    /// Runs a capture in the interpreter.
    #[pyo3(signature = (*, pcap = None, tables = None))]
    fn run(&self, py: Python, pcap: Option<Vec<String>>, tables: Option<PathBuf>) -> PyResult<Run> {
        let inputs = self.inputs(pcap, tables);
        let program = &self.general.program;
        let (events, found, tables) = work(py, || {
            let list = events::captures(&inputs, program, &self.general.path)?;
            let entries = events::tables(&inputs, program, &self.general.path)?;
            let mut interp = Interp::new(program);
            events::fill(&mut interp, &entries)?;
            let outputs = compare::expected(&mut interp, &list)?;
            let dump = |(id, table): (_, &nicforge_ir::Table)| {
                let held = interp.dump(id).map_err(|e| Failure::environment(e.to_string()))?;
                Ok((table.name.clone(), json::entries(program, id, &held)))
            };
            let tables = program.tables.iter().map(dump).collect::<Result<Vec<_>, Failure>>()?;
            Ok((list.len(), outputs, tables))
        })?;
        let mut outputs = Vec::new();
        for (event, list) in found.iter().enumerate() {
            for output in list {
                outputs.push(Py::new(py, described(py, program, event, output))?);
            }
        }
        Ok(Run { events, outputs, tables })
    }

    /// Finds the pipeline, replicas and memories for a target.
    #[pyo3(signature = (target, *, objective = "rate", frame = 256, flows = 1024, host_cores = 0,
                        pin = Vec::new(), iterations = None, timeout = None, profile = false))]
    #[allow(clippy::too_many_arguments)]
    fn plan(
        &self,
        py: Python,
        target: &str,
        objective: &str,
        frame: u32,
        flows: u32,
        host_cores: u32,
        pin: Vec<String>,
        iterations: Option<u32>,
        timeout: Option<f64>,
        profile: bool,
    ) -> PyResult<Plan> {
        let usual = Planning::default();
        let planning = Planning {
            objective: objective.to_string(),
            pin,
            host_cores,
            profile,
            frame,
            flows,
            iterations: iterations.unwrap_or(usual.iterations),
            timeout: timeout.map(std::time::Duration::try_from_secs_f64).transpose().map_err(
                |_| pyo3::exceptions::PyValueError::new_err("timeout: a time that is not negative"),
            )?,
            ..usual
        };
        let (target, loaded, plan) = work(py, || {
            let target = targets::find(target)?;
            let mut loaded = self.on(&target)?;
            planning::profile(&mut loaded, &planning, &self.inputs)?;
            let (plan, _) = planning::find(&loaded, &target, &planning)?;
            Ok((target, loaded, plan))
        })?;
        Ok(Plan::new(plan, target, Arc::new(loaded), self.inputs.clone()))
    }

    /// Compares a target with the interpreter, packet by packet, then table by table.
    #[pyo3(signature = (target = "xdp", *, pcap = None, tables = None))]
    fn verify(
        &self,
        py: Python,
        target: &str,
        pcap: Option<Vec<String>>,
        tables: Option<PathBuf>,
    ) -> PyResult<Comparison> {
        let inputs = self.inputs(pcap, tables);
        let found = work(py, || {
            let Some(on) = backend::find(target)? else {
                let message = "the interpreter is the reference; verify another target against it";
                return Err(Failure::usage(message));
            };
            let runtime = Runtime::unpack()?;
            let (loaded, subject) = by_target::pair(&self.source, &on.target, &runtime)?;
            let events = events::captures(&inputs, &loaded.program, &loaded.path)?;
            let entries = events::tables(&inputs, &loaded.program, &loaded.path)?;
            let case = Case {
                planned: &Planned::default(),
                exec: None,
                source: &loaded.program,
                subject: &subject,
                events: &events,
                entries: &entries,
                runtime: &runtime,
            };
            on.backend.verify(&on.target, &case)
        })?;
        Ok(Comparison::from(found))
    }

    /// Generated code for a target, as text.
    fn code(&self, py: Python, target: String) -> PyResult<String> {
        match self.product(py, target, true, None)? {
            Product::Text(text) => Ok(text),
            Product::Written(path, _) => Ok(path.display().to_string()),
        }
    }

    /// Builds the program for a target into a file or folder; gives its path.
    fn build(&self, py: Python, target: String, output: PathBuf) -> PyResult<PathBuf> {
        match self.product(py, target, false, Some(output))? {
            Product::Written(path, _) => Ok(path),
            Product::Text(_) => Ok(PathBuf::new()),
        }
    }

    fn __repr__(&self) -> String {
        let program = &self.general.program;
        let (handlers, tables) = (program.handlers.len(), program.tables.len());
        let (name, ports) = (&program.name, program.ports);
        format!("<Program {name}: handlers: {handlers}, tables: {tables}, ports: {ports}>")
    }
}

/// An output as Python has it.
fn described(
    py: Python,
    program: &nicforge_ir::Program,
    event: usize,
    output: &nicforge_ir::Output,
) -> Output {
    use nicforge_ir::Output as Made;
    let nothing: &[u8] = &[];
    let (kind, port, data, reason) = match output {
        Made::Send { port, frame } => ("send", Some(*port), frame.as_slice(), None),
        Made::Stack { frame } => ("stack", None, frame.as_slice(), None),
        Made::HostPacket { frame } => ("host", None, frame.as_slice(), None),
        Made::HostMessage { bytes } => ("message", None, bytes.as_slice(), None),
        Made::DmaWrite { data, .. } => ("dma", None, data.as_slice(), None),
        Made::Drop { reason } => {
            ("drop", None, nothing, Some(program.reasons[*reason].text.clone()))
        }
        Made::Log { text } => ("log", None, text.as_bytes(), None),
    };
    let data = PyBytes::new(py, data).unbind();
    let text = compare::describe(program, output);
    Output { event, kind, port, data, reason, text }
}
