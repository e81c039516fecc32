//! Designs of several stages, simulated against the interpreter: programs whose handlers stay
//! apart, with streams that wait at random.

use nicforge_codegen::rtl::{Form, Wanted};
use nicforge_ir::io::random;
use nicforge_ir::text::{PrintOptions, print};
use nicforge_ir::{HandlerId, Input, InputEvent, Room, Verified, generate, verify};
use nicforge_passes::PassManager;
use nicforge_planner::cut;
use nicforge_planner::stages::in_a_row;
use nicforge_run::rtl::{Drive, RtlError, RtlProgram, takes};
use nicforge_tests::designs::is_accepted;
use nicforge_tests::{internal, verilator_is_missing};

/// Frames of any bytes, many of them short, with few first bytes.
fn frames(count: u64) -> Vec<InputEvent> {
    let frame = |i: u64| {
        let number = u64::from(random(3, i));
        let length = if number.is_multiple_of(3) { 14 + number % 10 } else { 60 + number % 300 };
        let mut frame: Vec<u8> = (0..length).map(|at| random(number, at) as u8).collect();
        frame[0] = (number >> 16) as u8 % 8;
        frame
    };
    let event = |i: u64| {
        let input = Input::Net { port: (i / 10) as u32 % 2, frame: frame(i) };
        InputEvent { time_ns: i * 7, seed: i, input }
    };
    (0..count).map(event).collect()
}

/// The same, as a pipe, also without `fuse`: what handlers share is found again by those behind, in
/// the interpreter's order.
fn check_pipe(
    name: &str,
    program: &Verified<nicforge_ir::Program>,
    must: bool,
    events: &[InputEvent],
) {
    let compiled =
        PassManager::new().run_default(program.clone()).unwrap_or_else(|e| panic!("{name}: {e}"));
    let row: Vec<Vec<HandlerId>> = in_a_row(&compiled);
    let design = RtlProgram::in_stages(&compiled, &row, Wanted::Best);
    let design = match design {
        Ok(design) if matches!(design.artifact().form, Form::Pipe { .. }) => design,
        Ok(design) if must => panic!("{name}: {:?}", design.artifact().form),
        Err(e) if must => panic!("{name}: {e}"),
        _ => return,
    };
    is_accepted(&design, name);
    for pressure in [0, 1] {
        let drive = Drive { pressure, ..Drive::default() };
        let (run, found) =
            design.verify(program, &[], events, &drive).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(found.is_empty(), "{name}, pressure {pressure}: {:?}", found[0]);
        println!("{name}: {} events in {} cycles", run.stats.events, run.stats.busy_cycles);
    }
}

/// Events with packets, headers and values, from several places; entries and random numbers that
/// several handlers use, in the order of the queue and not in that of the calls; what leaves beside
/// packets.
#[test]
fn handlers_of_internal_events_are_a_pipe() {
    if verilator_is_missing() {
        return;
    }
    for name in ["beside", "chain", "exits", "keyed", "order", "spread"] {
        check_pipe(name, &internal(name), true, &frames(300));
    }
}

fn check(
    name: &str,
    program: &Verified<nicforge_ir::Program>,
    stages: Option<usize>,
    events: &[InputEvent],
) {
    let compiled =
        PassManager::new().run_default(program.clone()).unwrap_or_else(|e| panic!("{name}: {e}"));
    let row: Vec<Vec<HandlerId>> = in_a_row(&compiled);
    let design = match RtlProgram::in_stages(&compiled, &row, Wanted::Engine) {
        Err(RtlError::Unsupported(_)) if stages.is_none() => return,
        other => other.unwrap_or_else(|e| {
            panic!("{name}: {e}\n{}", print(&compiled, PrintOptions::default()))
        }),
    };
    let Form::Stages { stages: made, .. } = &design.artifact().form else {
        panic!("{name}: not in stages")
    };
    assert!(stages.is_none_or(|wanted| wanted == made.len()), "{name}: {made:?}");
    is_accepted(&design, name);
    for pressure in [0, 1] {
        let drive = Drive { pressure, ..Drive::default() };
        let (run, found) =
            design.verify(program, &[], events, &drive).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(found.is_empty(), "{name}, pressure {pressure}: {:?}", found[0]);
        for stage in made {
            let counter = |what: &str| run.stats.counters[&format!("stage_{}_{what}", stage.name)];
            assert_eq!(counter("events"), events.len() as u64, "{name}: {}", stage.name);
        }
        println!(
            "{name}: {} events in {} cycles, {made:?}",
            run.stats.events, run.stats.busy_cycles
        );
    }
}

/// Events with packets, emitted headers and values; without packets; several at a time; round and
/// round; drops in several stages.
#[test]
fn handlers_of_internal_events_are_stages() {
    if verilator_is_missing() {
        return;
    }
    for (name, stages) in [("chain", 2), ("exits", 2), ("keyed", 3), ("spread", 4), ("wide", 2)] {
        check(name, &internal(name), Some(stages), &frames(300));
    }
}

/// Queues have the room that their handlers say, up to a power of two; others that of the target.
#[test]
fn queues_have_the_room_that_is_said() {
    let program = internal("relay");
    for (said, depth) in
        [(None, 16), (Some(1), 2), (Some(64), 64), (Some(65), 128), (Some(100_000), 256)]
    {
        let mut open = program.clone().into_inner();
        for handler in open.handlers.values_mut().filter(|handler| handler.name == "second") {
            handler.room = said.map(|entries| Room { entries, loses: false });
        }
        let compiled = PassManager::new().run_default(verify(open).unwrap()).unwrap();
        let design =
            RtlProgram::in_stages(&compiled, &in_a_row(&compiled), Wanted::Engine).unwrap();
        let (_, top) =
            design.artifact().files.iter().find(|(name, _)| name == "nf_top.sv").unwrap();
        let wanted = format!(".DEPTH({depth})\n  ) u_to_second (");
        assert!(top.contains(&wanted), "{said:?}: no {wanted}");
    }
}

/// Random programs, cut in two.
#[test]
fn random_programs_in_stages() {
    if verilator_is_missing() {
        return;
    }
    for seed in [2, 8] {
        let program = generate::generate_from(&generate::decisions(seed), generate::Options::ALL);
        let prepared = cut::prepare(&program).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let Some(handler) = prepared.handlers.keys().next() else { continue };
        let weights = cut::Weights { op: &|_, _, _| 1.0 };
        let Ok(cut) = cut::cut(&prepared, handler, &weights, &cut::Options::default()) else {
            continue;
        };
        let events: Vec<InputEvent> =
            generate::events(seed, 150).into_iter().filter(takes).collect();
        check(&format!("seed {seed}"), &cut.program, None, &events);
        check_pipe(&format!("seed {seed}"), &cut.program, false, &events);
    }
}
