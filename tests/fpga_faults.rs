//! Simulated designs under what goes wrong: bad frames, more frames than they have room for, resets
//! with packets in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use nicforge_codegen::rtl::{Form, Wanted};
use nicforge_ir::io::random;
use nicforge_ir::{Entry, Input, InputEvent, Interp, Output, Program, TableId, Verified};
use nicforge_passes::PassManager;
use nicforge_planner::stages::in_a_row;
use nicforge_run::rtl::{Drive, RtlProgram, takes};
use nicforge_tests::example::Example;
use nicforge_tests::{internal, packets, root, share, verilator_is_missing};

fn design(example: &Example, wanted: Wanted) -> RtlProgram {
    let name = &example.name;
    let compiled = PassManager::new()
        .run_default(example.program.clone())
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    RtlProgram::new(&compiled, wanted).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// A program, its tables and its design.
struct Subject {
    name: String,
    program: Verified<Program>,
    entries: Vec<(TableId, Entry)>,
    design: RtlProgram,
}

fn of_example(name: &str, wanted: Wanted) -> Subject {
    of_folder(&format!("examples/{name}"), wanted)
}

fn of_folder(folder: &str, wanted: Wanted) -> Subject {
    let example = Example::load(root().join(folder));
    let design = design(&example, wanted);
    Subject { name: example.name, program: example.program, entries: example.entries, design }
}

/// Handlers joined by internal events, as stages or as a pipe.
fn of_events(name: &str, wanted: Wanted) -> Subject {
    let program = internal(name);
    let compiled =
        PassManager::new().run_default(program.clone()).unwrap_or_else(|e| panic!("{e}"));
    let design = RtlProgram::in_stages(&compiled, &in_a_row(&compiled), wanted)
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    match (&design.artifact().form, wanted) {
        (Form::Stages { stages, .. }, Wanted::Engine) => assert_eq!(stages.len(), 2, "{name}"),
        (form, _) => assert!(matches!(form, Form::Pipe { .. }), "{name}: {form:?}"),
    }
    Subject { name: name.to_string(), program, entries: Vec::new(), design }
}

/// A UDP packet from one of 50 flows whose last four bytes are its number.
fn numbered(number: u32, length: usize) -> InputEvent {
    let mut frame: Vec<u8> = (0..length).map(|at| (at as u32 * 31 + number) as u8).collect();
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, (length - 14) as u8, 0, 0, 0, 0, 64, 17]);
    frame[16] = ((length - 14) >> 8) as u8;
    frame[26..34].copy_from_slice(&[10, 0, 0, (number % 50) as u8, 192, 0, 2, 1]);
    frame[length - 4..].copy_from_slice(&number.to_be_bytes());
    InputEvent { time_ns: u64::from(number), seed: 0, input: Input::Net { port: 0, frame } }
}

/// Programs of `tests/programs` whose packets say by the bytes in front what is done with them.
const TOLD: [&str; 14] = [
    "copied",
    "recents",
    "anywhere",
    "appended",
    "options",
    "resummed",
    "many_sums",
    "looked_into",
    "assigned",
    "two_keys",
    "boxes",
    "chained",
    "leased",
    "spelled",
];

/// The same for one of them: all kinds of what is done that leave the packet's end as it is.
fn doing(folder: &str, number: u32, length: usize) -> InputEvent {
    let mut event = numbered(number, length);
    let Input::Net { frame, .. } = &mut event.input else { return event };
    let random = |at| random(u64::from(number), at);
    (0..8).for_each(|at| frame[at] = random(at as u64) as u8);
    // Two keys, half of the time the same one twice.
    let few =
        |most: u32| [(random(20) % most) as u8, (random(21 - random(22) as u64 % 2) % most) as u8];
    match folder {
        "copied" => {
            frame[1..3].copy_from_slice(&few(40));
            frame[4..8].copy_from_slice(&[0, random(4) as u8 % 100, 0, random(6) as u8 % 100]);
        }
        "recents" => (1..6).step_by(2).for_each(|at| frame[at] = 0),
        "anywhere" => frame[2..6].copy_from_slice(&[0, random(2) as u8 % 20, 0, 0]),
        // Known by these: the packet itself goes nowhere.
        "appended" => {
            (frame[1], frame[2], frame[3]) = (few(40)[0], (number >> 8) as u8, number as u8);
        }
        "options" => {
            frame[0] &= !2;
            for at in (2..20).step_by(3) {
                let kind = [1, 3, 5, 9][random(at as u64) as usize % 4];
                frame[at..at + 3].copy_from_slice(&[kind, 2 + random(at as u64) as u8 % 2, 3]);
            }
            frame[20..40].fill(0);
        }
        "resummed" => {
            frame[0] &= if length < 70 { !4 } else { 255 };
            (frame[1], frame[4], frame[5]) = (frame[1] & 127, frame[4] % 20, frame[5] % 8);
        }
        "many_sums" => (frame[0], frame[1]) = (frame[0] % 16, frame[1] % 24),
        "looked_into" => {
            frame[0] |= 32;
            (frame[1], frame[2], frame[4]) = (few(30)[0], 0, frame[4] % 40);
        }
        "assigned" => frame[1] = 0,
        "chained" | "leased" => frame[..4].copy_from_slice(&[few(40)[0], 0, few(40)[1], 0]),
        "spelled" => frame[4..8].copy_from_slice(&[few(20)[0], 0, few(20)[1], 0]),
        _ => {
            frame[1..3].copy_from_slice(&few(14));
            frame[4] %= 50;
        }
    }
    event
}

/// By what a packet is known again: the last four bytes of what left last.
fn mark_of(outputs: &[Output]) -> Option<[u8; 4]> {
    let bytes = outputs.iter().rev().find_map(|output| match output {
        Output::Send { frame, .. } => Some(frame),
        Output::HostMessage { bytes } => Some(bytes),
        _ => None,
    })?;
    bytes[bytes.len() - 4..].try_into().ok()
}

/// A storm that is longer than all buffers, beside a MAC that cannot wait: whole frames are lost
/// and counted, and those that are not are handled as if the lost ones had never been sent.
#[test]
fn storms_lose_whole_frames() {
    if verilator_is_missing() {
        return;
    }
    let lengths = [60, 60, 64, 65, 128, 1500, 300];
    let length = |n: u32| lengths[random(3, u64::from(n)) as usize % lengths.len()];
    let storm = packets(500, 2000) as u32;
    let events: Vec<InputEvent> = (0..storm).map(|n| numbered(n, length(n))).collect();
    let told = TOLD.map(|folder| {
        let events = (0..storm).map(|n| doing(folder, n, length(n))).collect();
        (of_folder(&format!("tests/programs/{folder}"), Wanted::Best), events)
    });
    let subjects = [
        of_example("l2_forward", Wanted::Best),
        of_example("l2_forward", Wanted::Engine),
        of_example("conn_limiter", Wanted::Best),
        of_example("flow_stats", Wanted::Best),
        of_events("relay", Wanted::Engine),
        of_events("relay", Wanted::Best),
        of_folder("tests/programs/summed", Wanted::Best),
        of_folder("tests/programs/classes", Wanted::Best),
        of_folder("tests/programs/in_turn", Wanted::Best),
        of_folder("tests/programs/compacted", Wanted::Best),
        of_folder("tests/programs/transfers", Wanted::Best),
        of_folder("tests/programs/pairs", Wanted::Best),
        of_folder("tests/programs/remembered", Wanted::Best),
        of_folder("tests/programs/metered", Wanted::Best),
    ];
    let subjects = subjects.into_iter().map(|subject| (subject, events.clone())).chain(told);
    for (subject, events) in share(subjects, 4) {
        let Subject { name, program, entries, design } = &subject;
        let mark = |event: &InputEvent| {
            let Input::Net { frame, .. } = &event.input else { unreachable!("a frame") };
            let at = if name == "appended" { 0 } else { frame.len() - 4 };
            frame[at..at + 4].try_into().expect("four bytes")
        };
        let numbers: BTreeMap<[u8; 4], usize> =
            events.iter().enumerate().map(|(number, event)| (mark(event), number)).collect();
        assert_eq!(numbers.len(), events.len(), "{name}: frames that nobody could tell apart");
        let mut storms = 0;
        for pressure in [0, 1, 2, 3] {
            let drive = Drive { pressure, lossy: true, ..Drive::default() };
            let run =
                design.run(&events, entries, &drive).unwrap_or_else(|e| panic!("{name}: {e}"));
            let counters = &run.stats.counters;
            let (taken, lost) = (counters["frames"] as usize, counters["no_slot"] as usize);
            assert_eq!(taken + lost, events.len(), "{name}: frames that are nowhere");
            let (mut at, mut kept) = (0, Vec::new());
            for outputs in &run.run.outputs[..taken] {
                let Some(&number) = mark_of(outputs).and_then(|mark| numbers.get(&mark)) else {
                    panic!("{name}: {outputs:?} of a frame that is to be sent")
                };
                assert!(number >= at, "{name}: {number} left behind {at}");
                kept.push(events[number].clone());
                at = number + 1;
            }
            let found = design.differences(&run, program, entries, &kept);
            assert!(found.is_empty(), "{name}, pressure {pressure}: {:?}", found[0]);
            assert!(run.run.outputs[taken..].iter().all(Vec::is_empty));
            println!("{name}, pressure {pressure}: {lost} of {} frames lost", events.len());
            storms += usize::from(lost > 0);
        }
        assert!(storms > 1, "{name}: the storms found room");
    }
}

/// A reset while packets are on their way: nothing of before is left, neither in tables nor in
/// counters nor in a cycle more or less.
#[test]
fn resets_with_packets_in_flight() {
    if verilator_is_missing() {
        return;
    }
    let few = packets(60, 300) as usize;
    let traffic = |name: &str| {
        let example = Example::load(root().join("examples").join(name));
        let list = example.events.iter().filter(|event| takes(event)).take(few);
        list.cloned().collect::<Vec<InputEvent>>()
    };
    let examples = [
        "l2_forward",
        "conn_limiter",
        "firewall",
        "flow_stats",
        "l4lb",
        "kv_cache",
        "tcp_rx_offload",
        "rpc_reassembly",
    ];
    let mut subjects: Vec<(Subject, Vec<InputEvent>)> =
        examples.iter().map(|name| (of_example(name, Wanted::Best), traffic(name))).collect();
    subjects.push((of_example("flow_stats", Wanted::Engine), traffic("flow_stats")));
    subjects.push((of_events("relay", Wanted::Engine), traffic("flow_stats")));
    subjects.push((of_events("beside", Wanted::Best), traffic("flow_stats")));
    for folder in ["masked", "transfers", "pairs", "scribbled", "remembered", "metered"] {
        let subject = of_folder(&format!("tests/programs/{folder}"), Wanted::Best);
        subjects.push((subject, (0..few as u32).map(|n| numbered(n, 60)).collect()));
    }
    for folder in TOLD {
        let subject = of_folder(&format!("tests/programs/{folder}"), Wanted::Best);
        subjects.push((
            subject,
            (0..few as u32).map(|n| doing(folder, n, [60, 150][n as usize % 2])).collect(),
        ));
    }
    for (Subject { name, program, entries, design }, events) in &share(subjects, 7) {
        let fresh = design
            .run(events, entries, &Drive::default())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        for pressure in [0, 1] {
            // In the middle of everything, wherever that is.
            for part in [7, 3, 2] {
                let reset_at = NonZeroU64::new(fresh.stats.cycles / part + part);
                let drive = Drive { pressure, reset_at, ..Drive::default() };
                let (run, found) = design
                    .verify(program, entries, events, &drive)
                    .unwrap_or_else(|e| panic!("{name}: {e}"));
                assert!(
                    found.is_empty(),
                    "{name}, pressure {pressure}, at {reset_at:?}: {:?}",
                    found[0]
                );
                assert_eq!(run.stats.counters, fresh.stats.counters, "{name}");
                if pressure == 0 {
                    assert_eq!(run.stats, fresh.stats, "{name}, reset at {reset_at:?}");
                }
            }
        }
    }
}

/// Frames that are too short, too long or marked as bad are dropped whole and counted; those around
/// them are as if they had not been there.
#[test]
fn bad_frames_are_dropped_and_counted() {
    if verilator_is_missing() {
        return;
    }
    let frame = |n: u64, length: usize| {
        let bytes = (0..length).map(|at| (at as u64 * 31 + n) as u8).collect();
        InputEvent { time_ns: n, seed: 0, input: Input::Net { port: 0, frame: bytes } }
    };
    // Lengths around the limits, and every third frame bad besides.
    let lengths = [60, 1, 13, 14, 64, 65, 1518, 1519, 4000, 128, 1536, 9000, 200];
    let events: Vec<InputEvent> =
        (0..390).map(|n| frame(n, lengths[n as usize % lengths.len()])).collect();
    let bad: BTreeSet<usize> = (0..events.len()).filter(|at| at % 7 == 3).collect();
    for Subject { name, program, design, .. } in [
        of_example("l2_forward", Wanted::Best),
        of_example("l2_forward", Wanted::Engine),
        of_folder("tests/programs/summed", Wanted::Best),
    ] {
        let drive = Drive { pressure: 5, bad: bad.clone(), ..Drive::default() };
        let run = design.run(&events, &[], &drive).unwrap_or_else(|e| panic!("{e}"));
        let mut interp = Interp::new(&program);
        let mut counts =
            BTreeMap::from([("marked_bad", 0), ("too_short", 0), ("too_long", 0), ("no_slot", 0)]);
        for (at, event) in events.iter().enumerate() {
            let Input::Net { frame, .. } = &event.input else { continue };
            let why = match () {
                () if bad.contains(&at) => Some("marked_bad"),
                () if frame.len() > 1518 => Some("too_long"),
                () if frame.len() < 14 => Some("too_short"),
                () => None,
            };
            let want = match why {
                Some(why) => {
                    counts.entry(why).and_modify(|count| *count += 1);
                    Vec::new()
                }
                None => interp.run(event).unwrap_or_else(|e| panic!("{e}")),
            };
            assert_eq!(run.run.outputs[at], want, "{name}, event {at} of {} bytes", frame.len());
        }
        for (counter, count) in counts {
            assert_eq!(run.stats.counters[counter], count, "{name}: {counter}");
        }
    }
}
