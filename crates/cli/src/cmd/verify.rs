//! `nicforge verify`: a target against the interpreter, packet by packet, then table by table.

use nicforge_codegen::rtl::{LONGEST as MOST, SHORTEST};
use nicforge_codegen::{LineStyle, xdp};
use nicforge_ir::interp::Interp;
use nicforge_ir::{Output, Program};
use nicforge_plan::Plan;
use nicforge_run::compile::{Mode, compile_bpf};
use nicforge_run::netns::LARGEST_FRAME;
use nicforge_run::spin::LONGEST;
use nicforge_run::xdp::{HEADROOM, LARGEST_TEST_FRAME, LoadOptions, Loaded, SMALLEST_FRAME, XdpError};
use serde_json::json;

use super::compare::{self, Agreement};
use super::{beyond, fpga, matrix, pipelines, verify_dpdk, verify_xdp};
use crate::args::{Target, Verify};
use crate::context::{Failure, Runtime};
use crate::{by_target, events, program};

/// Runs every event on both sides and reports the first differences.
pub fn run(args: Verify) -> Result<(), Failure> {
    let runtime = Runtime::unpack()?;
    if args.sim.is_none() && args.target == Target::Interp {
        return Err(Failure::usage("the interpreter is the reference; verify another target against it"));
    }
    let (loaded, subject) = by_target::pair(&args.source, &matrix::find(args.what().0)?, &runtime)?;
    let events = events::captures(&args.inputs, &loaded.program, &loaded.path)?;
    let entries = events::tables(&args.inputs, &loaded.program, &loaded.path)?;
    if let Some(target) = &args.sim {
        return verify_dpdk::run_sim(&args, target, (&loaded.program, &subject), &events, &entries);
    }
    match args.target {
        Target::Xdp => {}
        Target::U280 => return fpga::verify(&args, (&loaded.program, &subject), &events, &entries),
        _ => return verify_dpdk::run(&args, (&loaded.program, &subject), &events, &entries),
    }
    if let Some(mut job) = pipelines::xdp(&args.planned, &subject)? {
        return verify_xdp::run(&args, &loaded.program, &mut job, &events, &entries, &runtime);
    }
    let compiled = program::lower(&subject)?;
    let artifact =
        xdp::generate(&compiled, LineStyle::Directives).map_err(|e| program::unsupported(&compiled, &e))?;
    let of = |e: XdpError| Failure::of(e.fault(), e);
    let object = compile_bpf(&compiled.name, &artifact.source, Mode::Replay, &runtime.target_headers("xdp"))
        .map_err(|e| Failure::of(e.fault(), e))?;
    let options = LoadOptions { mode: Mode::Replay, ifindex: Vec::new() };
    let target = Loaded::load(&compiled, &artifact, &object, &options)
        .map_err(|e| program::kernel_failure(&compiled, e))?;
    drop(runtime);
    let mut interp = Interp::new(&loaded.program);
    let mut tables = target.tables();
    events::fill(&mut interp, &entries)?;
    events::fill(&mut tables, &entries)?;

    let lengths = SMALLEST_FRAME..=LARGEST_TEST_FRAME;
    let taken = beyond::taken(&loaded.program, &entries, &events, &lengths, HEADROOM)?;
    let mut result = Agreement::default();
    for &i in &taken {
        let event = &events[i];
        let want = interp.run(event).map_err(|e| Failure::user(format!("event {}: {e}", i + 1)))?;
        result.events += 1;
        let text = match target.test_run(event) {
            Ok(got) if want == got => {
                result.matching += 1;
                continue;
            }
            Ok(got) => differences(&loaded.program, &want, &got),
            // The frame is one that the kernel takes as it comes and as it should leave, so this is generated code's fault.
            Err(error @ XdpError::NoRoom(_)) => format!("{error}"),
            Err(e) => return Err(of(e)),
        };
        if result.differences.len() < 5 {
            result.differences.push(format!("event {}: {text}", i + 1));
        }
    }
    compare::tables(&loaded.program, &interp, &tables, &mut result)?;
    let left_out = events.len() - taken.len();
    report(&args, &result, left_out, None);
    end(&result, left_out)
}

pub fn differences(program: &Program, want: &[Output], got: &[Output]) -> String {
    if let ([Output::Send { port: a, frame: x }], [Output::Send { port: b, frame: y }]) = (want, got)
        && a == b
    {
        return compare::frame_difference(x, y);
    }
    let list = |outputs: &[Output]| {
        let items: Vec<String> = outputs.iter().map(|o| compare::describe(program, o)).collect();
        if items.is_empty() { "nothing".to_string() } else { items.join(", ") }
    };
    format!("expected {}; got {}", list(want), list(got))
}

/// Prints a comparison; `plan` says what ran where that is not obvious.
pub fn report(args: &Verify, result: &Agreement, beyond: usize, plan: Option<&Plan>) {
    let (target, stands_in) = args.what();
    if args.json {
        let mut value = json!({
            "schema": "nicforge/verify", "version": 1, "target": target,
            "ok": result.passes(), "events": result.events, "matching": result.matching,
            "tables": result.tables, "matching_tables": result.matching_tables,
            "beyond_target": beyond, "differences": result.differences,
        });
        if let Some(plan) = plan {
            let stages = plan.stages.iter().map(|s| json!({ "name": s.name, "replicas": s.replicas }));
            value["stages"] = stages.collect();
            value["functional"] = stands_in.into();
        }
        outln!("{value:#}");
        return;
    }
    for difference in &result.differences {
        outln!("{difference}");
    }
    if beyond > 0 {
        let why = match args.sim {
            Some(_) => "the simulator takes (they come from the host side)".to_string(),
            None if args.target == Target::U280 => {
                format!("the design takes (frames under {SHORTEST} or over {MOST} bytes)")
            }
            None if args.target.is_bare() => format!("its cores take (over {LONGEST} bytes)"),
            None => {
                let most = if plan.is_some() { LARGEST_FRAME } else { LARGEST_TEST_FRAME };
                format!(
                    "the kernel takes (frames under {SMALLEST_FRAME} or over {most} bytes as they come or leave, or \
                     longer by more than {HEADROOM})"
                )
            }
        };
        outln!("{beyond} events are beyond what {why} and were left out");
    }
    let stages = plan.map_or(String::new(), |plan| {
        let list: Vec<String> = plan.stages.iter().map(|s| format!("{} x{}", s.name, s.replicas)).collect();
        format!(" ({})", list.join(", "))
    });
    let how = stands_in.map_or(String::new(), |how| format!(" ({how})"));
    outln!("{target}{stages} {}{how}", result.verdict());
}

/// How a check ends: a failure where something differs, or nothing was compared, which proves nothing.
pub fn end(result: &Agreement, beyond: usize) -> Result<(), Failure> {
    match (result.passes(), result.complete(), beyond) {
        (true, ..) => Ok(()),
        (_, false, _) => Err(Failure::rendered(String::new())),
        (_, _, 0) => Err(Failure::user(
            "nothing was compared: the captures have no packets; give others with --pcap, or messages with --events",
        )),
        _ => Err(Failure::user(
            "nothing was compared: every event is beyond what the target takes; give other packets with --pcap",
        )),
    }
}
