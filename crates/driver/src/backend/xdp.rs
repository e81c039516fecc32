//! XDP programs for the Linux kernel, and for NICs that take such programs.

use std::time::Duration;

use nicforge_codegen::{LineStyle, xdp};
use nicforge_ir::{Input, Program, Verified};
use nicforge_plan::Plan;
use nicforge_planner::instance;
use nicforge_run::compile::Mode;
use nicforge_run::live::Session;
use nicforge_run::xdp::XdpError;
use nicforge_run::xdp::compile_bpf;
use nicforge_target::cost::handler_cost;
use nicforge_target::{Bpf, Device, Generator, OpCosts, Target};

use super::{Backend, Build, Count, Counted, Measured, Product, first};
use crate::bench::{Bench, Failed, RUNS, Traffic, differs};
use crate::options::Inputs;
use crate::pipelines::Job;
use crate::tried::{self, Refused};
use crate::verify::{Case, Comparison, StageCycles, kernel};
use crate::{
    Failure, Loaded, Runtime, cost, events, executed, pipelines, program, simulation, stop,
};

/// Stages as the kernel counts their time.
const IN_KERNEL: Bench = Bench { place: "in this kernel", runs: RUNS, measure };

pub struct Xdp;

/// True if the target's programs run in the kernel, which this machine has.
fn in_kernel(target: &Target) -> bool {
    // The hook is device `nic` of the kernel's spec, whose other units are processes beside it.
    target.units.iter().any(|group| group.codegen == Generator::Host)
}

impl Backend for Xdp {
    fn generates(&self) -> Generator {
        Generator::Xdp
    }

    fn accepts(&self, target: &Target) -> Result<(), String> {
        let group = first(target);
        match group.device {
            Device::Nic => Ok(()),
            Device::Host => Err(format!(
                "units `{}` have codegen xdp, whose hook is on the NIC's side: write device = \"nic\"",
                group.name
            )),
        }
    }

    fn stands_in(&self, target: &Target) -> Option<&'static str> {
        (!in_kernel(target)).then_some("functional: in this kernel")
    }

    fn has_interfaces(&self, target: &Target) -> bool {
        in_kernel(target)
    }

    fn takes(&self, target: &Target, program: &Program) -> Result<(), Failure> {
        if in_kernel(target) { Ok(()) } else { program::taken(program, target) }
    }

    fn build(
        &self,
        target: &Target,
        build: &Build,
        loaded: &Loaded,
        runtime: &Runtime,
    ) -> Result<Product, Failure> {
        self.takes(target, &loaded.program)?;
        let job = pipelines::xdp(build.planned, &loaded.program, target)?;
        let compiled = program::required((build.passes)(loaded.program.clone())?)?;
        let lines = if build.text { LineStyle::Comments } else { LineStyle::Directives };
        let artifact = match job {
            Some(job) => pipelines::xdp_artifact(&job, target, lines)?,
            None => {
                xdp::generate(&compiled, lines).map_err(|e| program::unsupported(&compiled, &e))?
            }
        };
        if build.text {
            return Ok(Product::Text(artifact.source.plain));
        }
        let headers = runtime.target_headers("xdp");
        let object = compile_bpf(&compiled.name, &artifact.source, Mode::Live, &headers)
            .map_err(|e| Failure::of(e.fault(), e))?;
        let path = build.path(&format!("{}.o", compiled.name));
        std::fs::write(&path, object)
            .map_err(|e| Failure::user(format!("{}: {e}", path.display())))?;
        Ok(Product::Written(path, None))
    }

    fn verify(&self, target: &Target, case: &Case) -> Result<Comparison, Failure> {
        self.takes(target, case.subject)?;
        let stands_in = self.stands_in(target);
        match pipelines::xdp(case.planned, case.subject, target)? {
            Some(mut job) => kernel::staged(target, stands_in, case, &mut job),
            None => kernel::one_stage(target, stands_in, case),
        }
    }

    fn bench(&self, target: &Target) -> Option<Bench> {
        in_kernel(target).then_some(IN_KERNEL)
    }

    fn measures(&self, target: &Target) -> bool {
        in_kernel(target)
    }

    fn measured(&self, target: &Target, loaded: &Loaded, inputs: &Inputs) -> Option<Measured> {
        in_kernel(target).then(|| cost::measured(loaded, inputs))
    }

    fn counted(
        &self,
        target: &Target,
        loaded: &Loaded,
        plan: &Plan,
        traffic: &simulation::Traffic,
    ) -> Option<Counted> {
        let bpf = target.bpf.as_ref().filter(|_| in_kernel(target))?;
        // Of several stages each would have to be run on what the one before gives it.
        let [_] = &plan.stages[..] else { return None };
        Some(counted(target, bpf, loaded, plan, traffic))
    }

    fn refused(&self, target: &Target, loaded: &Loaded, runtime: &Runtime) -> Option<Refused> {
        let whole = in_kernel(target) && !pipelines::split(&loaded.program, target);
        whole.then(|| tried::in_kernel(loaded, runtime)).flatten()
    }
}

/// Cycles of a plan of one stage by the eBPF that is executed, and what the spec says of the
/// driver; the ports bound the rate.
fn counted(
    target: &Target,
    bpf: &Bpf,
    loaded: &Loaded,
    plan: &Plan,
    traffic: &simulation::Traffic,
) -> Counted {
    let simulation::Traffic { entries, before, events, .. } = traffic;
    let executed = executed::count(loaded, bpf, entries, before, events)?;
    let sizes = nicforge_target::Traffic { frame_bytes: plan.frame_bytes, ..Default::default() };
    let program = loaded.profiled.as_ref().unwrap_or(&loaded.program);
    let prices = target.costs[&first(target).costs];
    let driver = |handler| {
        let of = |prices: &OpCosts| handler_cost(program, handler, prices, sizes).cycles;
        prices.receive + of(&prices) - of(&OpCosts { send: 0.0, ..prices })
    };
    let comes = program.handlers.iter().find(|(_, h)| program.events[h.event].name == "net_recv");
    let cycles = executed + comes.map_or(0.0, |(handler, _)| driver(handler));
    let stage = &plan.stages[0];
    let rate = f64::from(stage.replicas) * first(target).clock.value / cycles;
    let stages = vec![StageCycles {
        stage: stage.name.clone(),
        events: events.len() as u64,
        counted: cycles,
        planned: stage.cycles,
    }];
    Ok(Count { rate: rate.min(instance::line_rate(target, program.ports, sizes)), stages })
}

/// Packets per second of the busiest stage in the kernel: once compared with the interpreter, then
/// timed without recording.
fn measure(
    target: &Target,
    plan: &Plan,
    program: &Verified<Program>,
    source: &Verified<Program>,
    traffic: &Traffic,
    _: bool,
) -> Result<f64, Failed> {
    let mut job: Job = pipelines::of_plan(plan.clone(), program, false)?;
    job.without_locks();
    let runtime = Runtime::unpack()?;
    let reference = job.room_for_shards(target, source, &traffic.entries, &traffic.events)?;
    let mut session =
        kernel::session(source, target, &job, &traffic.entries, &runtime, Mode::Record)?;
    let result = kernel::live(&mut session, &traffic.events)?;
    let agreement = kernel::agreement(&reference, &traffic.entries, &result, &session)?;
    if !agreement.complete() && !result.report.stopped {
        return Err(differs(plan, agreement.differences.len()));
    }
    drop(session);
    let packets = traffic
        .events
        .iter()
        .filter(|event| matches!(event.input, Input::Net { .. }))
        .count()
        .max(1);
    // Compiled once, loaded for each run: tables begin as they are.
    let artifact = pipelines::xdp_artifact(&job, target, LineStyle::Directives)?;
    let headers = runtime.target_headers("xdp");
    let failed = |error: XdpError| program::kernel_failure(source, error);
    let object = compile_bpf(&job.program.name, &artifact.source, Mode::Live, &headers)
        .map_err(|error| failed(error.into()))?;
    let mut fastest: f64 = 0.0;
    for _ in 0..RUNS {
        if stop::stopped() {
            break;
        }
        let session = Session::of_object(&job.program, &artifact, &object, Mode::Live, &headers);
        let mut session = session.map_err(failed)?;
        events::fill(&mut session.loaded().tables(), &traffic.entries)?;
        let report = kernel::live(&mut session, &traffic.events)?.report;
        let busiest = report.stages.iter().map(|stage| {
            stage.ns_per_packet * stage.packets_in as f64 / f64::from(stage.replicas.max(1))
        });
        let ns = busiest.fold(0.0, f64::max) / packets as f64;
        if ns > 0.0 {
            fastest = fastest.max(Duration::from_secs(1).as_nanos() as f64 / ns);
        }
    }
    if fastest > 0.0 {
        Ok(fastest)
    } else {
        Err(Failed::CannotRun("no stage had anything to do".to_string()))
    }
}
