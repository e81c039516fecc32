//! Generated programs on the targets, each against the interpreter: the same, refused with a reason, or different.

use nicforge_codegen::dpdk::Pipeline;
use nicforge_codegen::nfp::{Engines, Placement};
use nicforge_codegen::rtl::Wanted;
use nicforge_codegen::{LineStyle, xdp};
use nicforge_ir::{Entry, Input, InputEvent, Interp, Output, Program, TableBackend, TableId, Verified};
use nicforge_passes::PassManager;
use nicforge_passes::fuse::fuse;
use nicforge_run::compile::{CompileError, Mode, compile_bpf};
use nicforge_run::control;
use nicforge_run::dpdk::{Difference, DpdkError, verify_dpdk};
use nicforge_run::host::{HostError, HostProgram};
use nicforge_run::nfp::EnginesProgram;
use nicforge_run::rtl::{Drive, RtlProgram};
use nicforge_run::spin::{CoresError, CoresProgram};
use nicforge_run::xdp::{LoadOptions, Loaded, SMALLEST_FRAME, XdpError};

use crate::root;

/// Where programs run here.
pub const TARGETS: [&str; 8] = ["host", "xdp", "dpdk", "liquidio", "agilio-cx", "pspin", "panic", "u280"];

/// Bytes by which a frame may grow in the kernel: what is in front of it, less what the kernel keeps there.
const MOST_GROWTH: usize = 128;

/// What came of a program on a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Same,
    /// The target does not take the program; why.
    Refused(String),
    /// It gives something else, or our own code fails.
    Wrong(String),
}

/// A program with what it is run on.
pub struct Case<'c> {
    pub program: &'c Verified<Program>,
    pub entries: &'c [(TableId, Entry)],
    pub events: &'c [InputEvent],
}

/// Runs a program on a target and in the interpreter.
pub fn judge(target: &str, case: &Case) -> Verdict {
    let fused = match target {
        "xdp" | "u280" | "pspin" => fuse(case.program.clone()),
        _ => Ok(case.program.clone()),
    };
    let compiled = match fused.and_then(|program| PassManager::new().run_default(program)) {
        Ok(compiled) => compiled,
        Err(error) => return Verdict::Wrong(error.to_string()),
    };
    match target {
        "host" => on_host(case, &compiled),
        "xdp" => on_xdp(case, &compiled),
        "dpdk" => {
            let pipeline = Pipeline::single(&compiled);
            let ran = verify_dpdk(case.program, &compiled, &pipeline, case.entries, case.events);
            of_differences(ran.map(|(_, found)| found))
        }
        "liquidio" | "agilio-cx" => {
            let engines = if target == "liquidio" { Engines::Threads } else { Engines::Nfp };
            let memories = vec!["emem".to_string(); compiled.tables.len()];
            let placement = match engines {
                Engines::Nfp => Placement { memories, units: Vec::new() },
                Engines::Threads => Placement::default(),
            };
            let made = EnginesProgram::new(&compiled, &Pipeline::single(&compiled), &placement, engines);
            let ran = made.and_then(|made| made.verify(case.program, case.entries, case.events));
            of_differences(ran.map(|(_, found)| found))
        }
        "pspin" | "panic" => on_cores(target, case, &compiled),
        _ => on_rtl(case, &compiled),
    }
}

fn first(found: &[Difference]) -> Verdict {
    found.first().map_or(Verdict::Same, |difference| Verdict::Wrong(format!("{difference:?}")))
}

fn of_differences(ran: Result<Vec<Difference>, DpdkError>) -> Verdict {
    match ran {
        Ok(found) => first(&found),
        Err(error @ DpdkError::Unsupported(_)) => Verdict::Refused(error.to_string()),
        Err(error) => Verdict::Wrong(error.to_string()),
    }
}

fn on_host(case: &Case, compiled: &Verified<Program>) -> Verdict {
    let mut host = match HostProgram::build(compiled) {
        Ok(host) => host,
        Err(error @ HostError::Unsupported(_)) => return Verdict::Refused(error.to_string()),
        Err(error) => return Verdict::Wrong(error.to_string()),
    };
    let mut interp = Interp::new(case.program);
    let filled = control::apply(&mut interp, case.entries)
        .and_then(|()| control::apply(host.tables_mut(), case.entries));
    if let Err(error) = filled {
        return Verdict::Wrong(error.to_string());
    }
    for (i, event) in case.events.iter().enumerate() {
        let want = interp.run(event).map_err(|e| e.to_string());
        let got = host.run_one(event).map_err(|e| e.to_string());
        if want != got {
            return Verdict::Wrong(format!("event {i} {event:?}\ninterpreter {want:?}\nhost        {got:?}"));
        }
    }
    same_tables(case.program, &interp, host.tables())
}

fn same_tables(program: &Program, interp: &Interp, tables: &dyn TableBackend) -> Verdict {
    for (id, table) in &program.tables {
        let (want, got) = (interp.dump(id), tables.dump(id));
        if want != got {
            return Verdict::Wrong(format!(
                "table {}\ninterpreter {want:?}\ntarget      {got:?}",
                table.name
            ));
        }
    }
    Verdict::Same
}

fn on_xdp(case: &Case, compiled: &Verified<Program>) -> Verdict {
    if evicts(case) {
        return Verdict::Refused("the kernel's LRU tables do not always evict the oldest entry".into());
    }
    let artifact = match xdp::generate(compiled, LineStyle::Comments) {
        Ok(artifact) => artifact,
        Err(errors) => return Verdict::Refused(errors[0].to_string()),
    };
    let object = match compile_bpf("generated", &artifact.source, Mode::Replay, &[root().join("runtime/xdp")])
    {
        Ok(object) => object,
        Err(error @ CompileError::Stack { .. }) => return Verdict::Refused(error.to_string()),
        Err(error) => return Verdict::Wrong(error.to_string()),
    };
    let options = LoadOptions { mode: Mode::Replay, ifindex: Vec::new() };
    let kernel = match Loaded::load(compiled, &artifact, &object, &options) {
        Ok(kernel) => kernel,
        Err(error @ XdpError::Refused { .. }) => return Verdict::Refused(error.to_string()),
        Err(error) => return Verdict::Wrong(error.to_string()),
    };
    let mut interp = Interp::new(case.program);
    let mut tables = kernel.tables();
    let filled =
        control::apply(&mut interp, case.entries).and_then(|()| control::apply(&mut tables, case.entries));
    if let Err(error) = filled {
        return Verdict::Wrong(error.to_string());
    }
    for (i, event) in kernel_takes(case).into_iter().enumerate() {
        let want = interp.run(event).map_err(|e| e.to_string());
        let got = kernel.test_run(event).map_err(|e| e.to_string());
        if want != got {
            return Verdict::Wrong(format!("event {i} {event:?}\ninterpreter {want:?}\nxdp         {got:?}"));
        }
    }
    same_tables(case.program, &interp, &tables)
}

/// Whether an LRU table gives entries up.
fn evicts(case: &Case) -> bool {
    let mut interp = Interp::new(case.program);
    let _ = control::apply(&mut interp, case.entries);
    for event in case.events {
        let _ = interp.run(event);
    }
    case.program.tables.keys().any(|table| interp.counters().evicted[table] > 0)
}

/// Events whose frames the kernel can take and make: at least a header long, and grown by no more than the room in front. One that is
/// left out changes no tables, so what later ones make is found anew.
fn kernel_takes<'c>(case: &Case<'c>) -> Vec<&'c InputEvent> {
    let came = |event: &InputEvent| match &event.input {
        Input::Net { frame, .. } => frame.len(),
        Input::Host { .. } => SMALLEST_FRAME,
    };
    let mut left: Vec<&InputEvent> =
        case.events.iter().filter(|event| came(event) >= SMALLEST_FRAME).collect();
    loop {
        let mut interp = Interp::new(case.program);
        let _ = control::apply(&mut interp, case.entries);
        let unfit = left.iter().position(|event| {
            let outputs = interp.run(event).unwrap_or_default();
            outputs.iter().any(|output| match output {
                Output::Send { frame, .. } | Output::Stack { frame } | Output::HostPacket { frame } => {
                    !(SMALLEST_FRAME..=came(event) + MOST_GROWTH).contains(&frame.len())
                }
                _ => false,
            })
        });
        match unfit {
            Some(at) => drop(left.remove(at)),
            None => return left,
        }
    }
}

fn on_cores(target: &str, case: &Case, compiled: &Verified<Program>) -> Verdict {
    let target = nicforge_target::find(target).unwrap_or_else(|e| panic!("{e}"));
    let pipeline = Pipeline::single(compiled);
    let made = CoresProgram::new(compiled, &pipeline, &Placement::default(), &target);
    let events: Vec<InputEvent> =
        case.events.iter().filter(|event| nicforge_run::spin::takes(event)).cloned().collect();
    match made.and_then(|made| made.verify(case.program, case.entries, &events)) {
        Ok((_, found)) => first(&found),
        Err(error @ (CoresError::Unsupported(_) | CoresError::Place { .. })) => {
            Verdict::Refused(error.to_string())
        }
        Err(error) => Verdict::Wrong(error.to_string()),
    }
}

fn on_rtl(case: &Case, compiled: &Verified<Program>) -> Verdict {
    let design = match RtlProgram::new(compiled, Wanted::Best) {
        Ok(design) => design,
        Err(error) => return Verdict::Refused(error.to_string()),
    };
    let events: Vec<InputEvent> =
        case.events.iter().filter(|event| nicforge_run::rtl::takes(event)).cloned().collect();
    match design.verify(case.program, case.entries, &events, &Drive::default()) {
        Ok((_, found)) => found.first().map_or(Verdict::Same, |found| Verdict::Wrong(format!("{found:?}"))),
        Err(error) => Verdict::Wrong(error.to_string()),
    }
}
