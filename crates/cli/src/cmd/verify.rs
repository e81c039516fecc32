//! `nicforge verify`: a target against the interpreter, packet by packet, then table by table.

use nicforge_codegen::{LineStyle, xdp};
use nicforge_ir::interp::Interp;
use nicforge_ir::{Entry, InputEvent, Output, Program, TableId, Verified};
use nicforge_plan::Plan;
use nicforge_run::compile::{Mode, compile_bpf};
use nicforge_run::xdp::{
    HEADROOM, LARGEST_TEST_FRAME, LoadOptions, Loaded, SMALLEST_FRAME, XdpError,
};
use nicforge_target::Target;
use serde_json::json;

use super::compare::{self, Agreement};
use super::{beyond, equal, lifted, matrix, verify_dpdk, verify_exec};
use crate::args::Verify;
use crate::backend::{self, Case, Chosen};
use crate::context::{Failure, Runtime};
use crate::{by_target, events, program};

/// What a comparison calls what is compared.
pub struct Subject<'a> {
    pub target: &'a str,
    /// What stands in for its hardware, if something does.
    pub stands_in: Option<&'static str>,
    /// What it takes, in words behind "events are beyond what".
    pub limits: String,
}

/// Runs every event on both sides and reports the first differences.
pub fn run(args: Verify) -> Result<(), Failure> {
    if args.proof.against.is_some() || args.proof.prove {
        return equal::run(&args);
    }
    let proof = &args.proof;
    if proof.time.is_some() || proof.out.is_some() || !proof.ignore_map.is_empty() {
        let message = "--time, --out and --ignore-map are for --against and --prove";
        return Err(Failure::usage(message));
    }
    let runtime = Runtime::unpack()?;
    let (target, backend) = match &args.sim {
        Some(target) => (matrix::find(target)?, None),
        None => match backend::find(&args.target)? {
            Some(Chosen { target, backend }) => (target, Some(backend)),
            None => {
                let message = "the interpreter is the reference; verify another target against it";
                return Err(Failure::usage(message));
            }
        },
    };
    let (loaded, subject) = by_target::pair(&args.source, &target, &runtime)?;
    let entries = events::tables(&args.inputs, &loaded.program, &loaded.path)?;
    let original = program::object_of(&args.source)
        .map(|(path, function)| lifted::Subject::read(&path, function, &args.source.loader))
        .transpose()?;
    let events = match &original {
        Some(original) if args.inputs.pcap.is_empty() => original.events(),
        _ => events::captures(&args.inputs, &loaded.program, &loaded.path)?,
    };
    if let Some(reason) = original.as_ref().and_then(lifted::Subject::not_alone) {
        if !args.json {
            outln!("the object in the kernel {reason}");
        }
    } else if let Some(original) = &original {
        let result = original.judge(&events, &entries)?;
        if !args.json {
            result.differences.iter().for_each(|difference| outln!("{difference}"));
            outln!("the object in the kernel {}", result.verdict());
            outln!("{}", lifted::Subject::coverage(&args.source, &events)?);
        }
        end(&result, 0)?;
    }
    let case = Case {
        args: &args,
        source: &loaded.program,
        subject: &subject,
        events: &events,
        entries: &entries,
        runtime,
    };
    match backend {
        Some(backend) if args.exec.is_some() && !backend.has_images() => {
            verify_exec::run(&target, &case)
        }
        Some(backend) => backend.verify(&target, case),
        None => verify_dpdk::run_sim(&target, &case),
    }
}

/// What the kernel takes of frames of up to so many bytes.
pub fn kernel_limits(most: usize) -> String {
    format!(
        "the kernel takes (frames under {SMALLEST_FRAME} or over {most} bytes as they come or leave, or longer by more than {HEADROOM})"
    )
}

/// Runs a program of one stage in the kernel's test run and prints how it went.
///
/// # Errors
/// It cannot be made or run there, or does something else.
pub fn in_kernel(
    target: &Target,
    stands_in: Option<&'static str>,
    case: Case,
) -> Result<(), Failure> {
    let Case { args, source, subject, events, entries, runtime } = case;
    let (result, left_out) = compared_in_kernel(source, subject, (events, entries), &runtime)?;
    let what =
        Subject { target: &target.name, stands_in, limits: kernel_limits(LARGEST_TEST_FRAME) };
    report(args, &what, &result, left_out, None);
    end(&result, left_out)
}

/// A program of one stage in the kernel's test run beside `source` in the interpreter, and how many
/// events are beyond what the kernel takes.
///
/// # Errors
/// It cannot be made or run there.
pub fn compared_in_kernel(
    source: &Verified<Program>,
    subject: &Verified<Program>,
    (events, entries): (&[InputEvent], &[(TableId, Entry)]),
    runtime: &Runtime,
) -> Result<(Agreement, usize), Failure> {
    let compiled = program::lower(subject)?;
    let artifact = xdp::generate(&compiled, LineStyle::Directives)
        .map_err(|e| program::unsupported(&compiled, &e))?;
    let of = |e: XdpError| Failure::of(e.fault(), e);
    let object =
        compile_bpf(&compiled.name, &artifact.source, Mode::Replay, &runtime.target_headers("xdp"))
            .map_err(|e| Failure::of(e.fault(), e))?;
    let options = LoadOptions { mode: Mode::Replay, ifindex: Vec::new() };
    let kernel = Loaded::load(&compiled, &artifact, &object, &options)
        .map_err(|e| program::kernel_failure(&compiled, e))?;
    let mut interp = Interp::new(source);
    let mut tables = kernel.tables();
    events::fill(&mut interp, entries)?;
    events::fill(&mut tables, entries)?;

    let lengths = SMALLEST_FRAME..=LARGEST_TEST_FRAME;
    let taken = beyond::taken(source, entries, events, &lengths, HEADROOM)?;
    let mut result = Agreement::default();
    for &i in &taken {
        let event = &events[i];
        let want = interp.run(event).map_err(|e| Failure::user(format!("event {}: {e}", i + 1)))?;
        result.events += 1;
        let text = match kernel.test_run(event) {
            Ok(got) if want == got => {
                result.matching += 1;
                continue;
            }
            Ok(got) => differences(source, &want, &got),
            // The frame is one that the kernel takes as it comes and as it should leave, so this is
            // generated code's fault.
            Err(error @ XdpError::NoRoom(_)) => format!("{error}"),
            Err(e) => return Err(of(e)),
        };
        if result.differences.len() < 5 {
            result.differences.push(format!("event {}: {text}", i + 1));
        }
    }
    compare::tables(source, &interp, &tables, &mut result)?;
    Ok((result, events.len() - taken.len()))
}

pub fn differences(program: &Program, want: &[Output], got: &[Output]) -> String {
    if let ([Output::Send { port: a, frame: x }], [Output::Send { port: b, frame: y }]) =
        (want, got)
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
pub fn report(
    args: &Verify,
    what: &Subject,
    result: &Agreement,
    beyond: usize,
    plan: Option<&Plan>,
) {
    let Subject { target, stands_in, limits } = what;
    if args.json {
        let mut value = json!({
            "schema": "nicforge/verify", "version": 1, "target": target,
            "ok": result.passes(), "events": result.events, "matching": result.matching,
            "tables": result.tables, "matching_tables": result.matching_tables,
            "beyond_target": beyond, "differences": result.differences,
        });
        if let Some(plan) = plan {
            let stages =
                plan.stages.iter().map(|s| json!({ "name": s.name, "replicas": s.replicas }));
            value["stages"] = stages.collect();
            value["functional"] = (*stands_in).into();
        }
        outln!("{value:#}");
        return;
    }
    for difference in &result.differences {
        outln!("{difference}");
    }
    if beyond > 0 {
        outln!("{beyond} events are beyond what {limits} and were left out");
    }
    let stages = plan.map_or(String::new(), |plan| {
        let list: Vec<String> =
            plan.stages.iter().map(|s| format!("{} x{}", s.name, s.replicas)).collect();
        format!(" ({})", list.join(", "))
    });
    let how = stands_in.map_or(String::new(), |how| format!(" ({how})"));
    outln!("{target}{stages} {}{how}", result.verdict());
}

/// How a check ends: a failure where something differs, or nothing was compared, which proves
/// nothing.
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
