//! Programs as SystemVerilog, simulated cycle by cycle, against the interpreter: every example that
//! fits, with streams that wait at random.
//!
//! `NICFORGE_RANDOM_DESIGNS` sets how many random programs of each kind there are (default 1),
//! `NICFORGE_RANDOM_SEED` the first seed.

use std::sync::Mutex;

use nicforge_codegen::rtl::{Form, Wanted};
use nicforge_ir::generate::{self, decisions, generate_from, shrink};
use nicforge_ir::text::{PrintOptions, print};
use nicforge_ir::{Input, InputEvent};
use nicforge_passes::PassManager;
use nicforge_run::rtl::{Drive, RtlError, RtlProgram, takes};
use nicforge_target::support;
use nicforge_tests::designs::{Piped, is_accepted};
use nicforge_tests::example::{Example, for_each_of};
use nicforge_tests::{packets, root, setting, verilator_is_missing};

/// Events of each example that are run.
const EVENTS: usize = 300;
/// Random programs of each kind.
const RANDOM: u64 = 1;

/// Seeds of random programs, from `first` unless another one is asked for.
fn seeds(first: u64) -> std::ops::Range<u64> {
    let first = setting("NICFORGE_RANDOM_SEED", first);
    first..first + setting("NICFORGE_RANDOM_DESIGNS", RANDOM)
}

fn check(example: &Example) -> usize {
    let name = &example.name;
    let compiled = PassManager::new()
        .run_default(example.program.clone())
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let design = RtlProgram::new(&compiled, Wanted::Best).unwrap_or_else(|e| panic!("{name}: {e}"));
    let events: Vec<InputEvent> =
        example.events.iter().filter(|e| takes(e)).take(EVENTS).cloned().collect();
    is_accepted(&design, name);
    for pressure in [0, 1] {
        let drive = Drive { pressure, ..Drive::default() };
        let (run, found) = design
            .verify(&example.program, &example.entries, &events, &drive)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(found.is_empty(), "{name}, pressure {pressure}: {:?}", found[0]);
        let stats = run.stats;
        println!(
            "{name}: {} events in {} cycles, {:?}",
            stats.events,
            stats.busy_cycles,
            design.artifact().form
        );
    }
    events.len()
}

#[test]
fn examples_do_what_the_interpreter_does() {
    if verilator_is_missing() {
        return;
    }
    let target = nicforge_target::find("u280").unwrap_or_else(|e| panic!("{e}"));
    let ran = Mutex::new(Vec::new());
    let every = if std::env::var_os("NICFORGE_EXAMPLE").is_some() { 1 } else { 6 };
    for_each_of(every, |example| {
        if std::env::var("NICFORGE_EXAMPLE").is_ok_and(|only| only != example.name) {
            return;
        }
        if support::missing(&example.program, &target).is_empty() {
            println!("{} starts", example.name);
            check(example);
            ran.lock().unwrap_or_else(|e| e.into_inner()).push(example.name.clone());
        }
    });
    let ran = ran.into_inner().unwrap_or_else(|e| e.into_inner());
    assert!(std::env::var("NICFORGE_EXAMPLE").is_ok() || ran.len() >= 3, "only {ran:?} ran");
}

/// Timers tick at the right places when the design makes the ticks itself, in a pipe and in an
/// engine.
#[test]
fn designs_make_ticks_themselves() {
    if verilator_is_missing() {
        return;
    }
    for name in ["telemetry", "codel"] {
        let example = Example::load(root().join("examples").join(name));
        let compiled = PassManager::new()
            .run_default(example.program.clone())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let design =
            RtlProgram::new(&compiled, Wanted::Best).unwrap_or_else(|e| panic!("{name}: {e}"));
        let events: Vec<InputEvent> =
            example.events.iter().filter(|e| takes(e)).take(EVENTS).cloned().collect();
        let ticks = |event: &&InputEvent| matches!(event.input, Input::Tick { .. });
        assert!(events.iter().filter(ticks).count() > 20, "{name}");
        let drive = Drive { pressure: 1, own_ticks: true, ..Drive::default() };
        let (_, found) = design
            .verify(&example.program, &example.entries, &events, &drive)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(found.is_empty(), "{name}: {:?}", found[0]);
    }
}

/// A TCP SYN of 60 bytes (64 with the checksum of the line) from a flow with this number.
fn syn(time_ns: u64, flow: u32) -> InputEvent {
    let mut frame = vec![0u8; 60];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 1, (flow % 16) as u8]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..24].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 6]);
    let source = 0x0a00_0000 + flow % 1000;
    frame[26..30].copy_from_slice(&source.to_be_bytes());
    frame[30..34].copy_from_slice(&[192, 0, 2, 1]);
    frame[34..36].copy_from_slice(&((1024 + flow % 50_000) as u16).to_be_bytes());
    frame[36..38].copy_from_slice(&[0, 80]);
    let words = frame[14..34].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    frame[24..26].copy_from_slice(&(!(sum + (sum >> 16)) as u16).to_be_bytes());
    frame[46] = 0x50;
    frame[47] = 2;
    InputEvent { time_ns, seed: 0, input: Input::Net { port: 0, frame } }
}

/// Cycles of a SYN, back to back; what they lead to is the interpreter's.
fn cycles_per_packet(example: &Example, bytes: usize, flows: impl Fn(u64) -> u32) -> f64 {
    cycles_per_segment(example, bytes, 2, flows)
}

/// The same with these flags.
fn cycles_per_segment(
    example: &Example,
    bytes: usize,
    flags: u8,
    flows: impl Fn(u64) -> u32,
) -> f64 {
    let name = &example.name;
    let compiled = PassManager::new()
        .run_default(example.program.clone())
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let design = RtlProgram::new(&compiled, Wanted::Best).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut events: Vec<InputEvent> =
        (0..packets(1000, 3000)).map(|n| syn(n * 7, flows(n))).collect();
    for event in &mut events {
        if let Input::Net { frame, .. } = &mut event.input {
            frame.resize(bytes, 0);
            frame[47] = flags;
        }
    }
    if name == "jsq_steering" {
        // Packets for one service are one flow: its number is the destination's last four bits.
        for (n, event) in (0..).zip(&mut events) {
            if let Input::Net { frame, .. } = &mut event.input {
                frame[5] = flows(n) as u8;
            }
        }
    }
    let (run, found) = design
        .verify(&example.program, &example.entries, &events, &Drive::default())
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(found.is_empty(), "{name}: {:?}", found[0]);
    let lost: u64 = ["marked_bad", "too_short", "too_long", "no_slot"]
        .iter()
        .map(|c| run.stats.counters[*c])
        .sum();
    assert_eq!(lost, 0, "{name}: packets were lost");
    let each = run.stats.busy_cycles as f64 / run.stats.events as f64;
    let least = run.stats.latencies.first().copied().unwrap_or(0);
    println!(
        "{name}: {each:.3} cycles a packet, latency from {least} cycles, {:?}",
        design.artifact().form
    );
    each
}

/// 148.8 million packets of 64 bytes a second at 250 MHz are one in 1.68 cycles. Cycles are the
/// simulation's, so this is exact.
#[test]
fn pipes_keep_up_with_the_line() {
    if verilator_is_missing() {
        return;
    }
    for name in ["l2_forward", "firewall", "nat", "conn_limiter", "jsq_steering"] {
        let example = Example::load(root().join("examples").join(name));
        let random = |n: u64| nicforge_ir::io::random(7, n);
        // A packet for the same service must find what the one before made of the 32 cores' loads.
        let waits = if name == "jsq_steering" { 2.1 } else { 1.1 };
        for (each, most) in [
            (cycles_per_packet(&example, 60, random), 1.1),
            (cycles_per_packet(&example, 60, |_| 1), waits),
        ] {
            assert!(each <= most, "{name}: {each:.3} cycles a packet, {most} at most");
        }
    }
    // 128 bytes with the checksum are two beats, also with the descriptor that goes to the host.
    let example = Example::load(root().join("examples/jsq_steering"));
    let each = cycles_per_packet(&example, 124, |n| n as u32);
    assert!(each <= 2.1, "jsq_steering: {each:.3} cycles a packet of 128 bytes");
}

/// What a packet makes of its flow takes stages to decide: the next one of the same flow follows
/// when it is there, others in the next cycle.
#[test]
fn only_packets_of_one_flow_wait() {
    if verilator_is_missing() {
        return;
    }
    let example = Example::load(root().join("examples/tcp_rx_offload"));
    const ACK: u8 = 0x10;
    let random = cycles_per_segment(&example, 60, ACK, |n| nicforge_ir::io::random(7, n));
    let same = cycles_per_segment(&example, 60, ACK, |_| 1);
    assert!(
        random <= 1.1 && (2.9..=3.1).contains(&same),
        "{random:.3} and {same:.3} cycles a packet"
    );
    // A SYN only looks at its flow.
    let same = cycles_per_packet(&example, 60, |_| 1);
    assert!(same <= 1.1, "{same:.3} cycles a SYN");
}

/// Programs that take a packet a cycle: without state, also where options are skipped and ways with
/// different headers join; and with several entries of an array for each packet, or tables of which
/// one says what is asked for in the next.
#[test]
fn programs_that_are_pipes() {
    for name in [
        "quic_lb",
        "vxlan_gw",
        "icmp_echo",
        "nf_chain",
        "flow_stats",
        "l4lb",
        "dns_cache",
        "kv_cache",
    ] {
        let example = Example::load(root().join("examples").join(name));
        let compiled = PassManager::new().run_default(example.program.clone()).unwrap();
        let design = RtlProgram::new(&compiled, Wanted::Best).unwrap();
        assert!(
            matches!(design.artifact().form, Form::Pipe { interval: 1, .. }),
            "{name}: {:?}",
            design.artifact().form
        );
    }
    // What is kept of a flow depends on what is known of it by stages of sums and comparisons: the
    // next packet of the same flow waits.
    for (name, most) in [("tcp_rx_offload", 3), ("rpc_reassembly", 2)] {
        let example = Example::load(root().join("examples").join(name));
        let compiled = PassManager::new().run_default(example.program.clone()).unwrap();
        let form = RtlProgram::new(&compiled, Wanted::Best).unwrap().artifact().form.clone();
        assert!(
            matches!(form, Form::Pipe { interval: 1, meeting, .. } if meeting <= most),
            "{name}: {form:?}"
        );
    }
}

/// Quotients and remainders of a pipe: numbers at the ends of their ranges, zeros, and random ones.
#[test]
fn divisions_of_pipes() {
    if verilator_is_missing() {
        return;
    }
    let example = Example::load(root().join("tests/programs/divisions"));
    let compiled =
        PassManager::new().run_default(example.program.clone()).unwrap_or_else(|e| panic!("{e}"));
    let design = RtlProgram::new(&compiled, Wanted::Best).unwrap_or_else(|e| panic!("{e}"));
    assert!(
        matches!(design.artifact().form, Form::Pipe { interval: 1, .. }),
        "{:?}",
        design.artifact().form
    );
    let ends = [0, 1, 2, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, u32::MAX, u32::MAX - 1];
    let events: Vec<InputEvent> = (0..1500u64)
        .map(|n| {
            let number = |at: u64| match (n + at) % 3 {
                0 => ends[nicforge_ir::io::random(n, at) as usize % ends.len()],
                1 => nicforge_ir::io::random(n, at),
                _ => nicforge_ir::io::random(n, at) >> (n % 32),
            };
            let mut frame: Vec<u8> = (0..8).flat_map(|at| number(at).to_le_bytes()).collect();
            frame.resize(60, 0);
            InputEvent { time_ns: n, seed: 0, input: Input::Net { port: 0, frame } }
        })
        .collect();
    let (_, found) = design
        .verify(&example.program, &[], &events, &Drive::default())
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(found.is_empty(), "{:?}", found[0]);
}

/// A program is a pipe of so many cycles a packet at most, and does what the interpreter does; also
/// with streams that wait.
fn pipe_does_what_the_interpreter_does(folder: &str, cycles: u32, frame: impl Fn(u64) -> Vec<u8>) {
    let Some(piped) = Piped::of(folder) else { return };
    assert!(piped.cycles().0 <= cycles, "{folder}: {:?}", piped.cycles());
    piped.does_the_same(frame);
}

/// Bytes overwritten in place, in frames that end before, in and behind them.
#[test]
fn bytes_are_overwritten_in_place() {
    pipe_does_what_the_interpreter_does("tests/programs/overwritten", 1, |n| {
        let length = 14 + nicforge_ir::io::random(1, n) as usize % 80;
        (0..length as u64).map(|at| nicforge_ir::io::random(n, at) as u8).collect()
    });
}

/// Headers of which the packet says how many bytes they are, in frames that end before, in and
/// behind them.
#[test]
fn loops_emit_what_the_packet_says() {
    pipe_does_what_the_interpreter_does("tests/programs/ragged", 1, |n| {
        let length = 14 + nicforge_ir::io::random(1, n) as usize % 80;
        let byte = |at| match nicforge_ir::io::random(n, 2 * at) % 8 {
            few @ 0..2 if at > 1 => few as u8,
            _ => nicforge_ir::io::random(n, 2 * at + 1) as u8,
        };
        (0..length as u64).map(byte).collect()
    });
}

/// Loops that emit in some trips only, behind others, and more different headers than are kept
/// apart.
#[test]
fn headers_are_put_together() {
    pipe_does_what_the_interpreter_does("tests/programs/compacted", 1, |n| {
        let length = 14 + nicforge_ir::io::random(1, n) as usize % 60;
        (0..length as u64).map(|at| nicforge_ir::io::random(n, at) as u8).collect()
    });
}

/// Loops that copy bytes and are left after any trip: over zeros, over other bytes, out of order,
/// and not all of them.
#[test]
fn what_loops_copied_is_chosen_byte_by_byte() {
    pipe_does_what_the_interpreter_does("tests/programs/picked", 1, |n| {
        let length = 14 + nicforge_ir::io::random(1, n) as usize % 20;
        let byte = |at| match at {
            0 => nicforge_ir::io::random(n, at) as u8 % 12,
            3 => nicforge_ir::io::random(n, at) as u8,
            _ => nicforge_ir::io::random(n, at) as u8 % 16,
        };
        (0..length as u64).map(byte).collect()
    });
}

/// Checksums over payload that a pipe does not see, from and to any place, also over zeros and
/// words of ones; and packets that lead to several things, in this order, with what tables evict
/// and refuse.
#[test]
fn payload_is_added_up_as_it_comes_in() {
    pipe_does_what_the_interpreter_does("tests/programs/payload", 10, |n| {
        let random = |at| nicforge_ir::io::random(n, at);
        let length = 14 + random(0) as usize % if n % 4 == 0 { 1400 } else { 200 };
        let byte = |at| match random(1) % 8 {
            0 => 0,
            1 => 0xff,
            _ => random(at) as u8,
        };
        let mut frame: Vec<u8> = (0..length as u64).map(byte).collect();
        (frame[0], frame[1]) = (random(2) as u8, (random(3) % 80) as u8);
        for at in [2, 4, 6] {
            let place = random(at) as usize % if random(at + 1) % 4 == 0 { 2000 } else { length };
            frame[at as usize..][..2].copy_from_slice(&(place as u16).to_be_bytes());
        }
        frame
    });
}

/// Checksums over bytes that were overwritten in place before, also where a write into the host's
/// memory and headers of any length stand in front of them.
#[test]
fn overwritten_bytes_are_added_up() {
    pipe_does_what_the_interpreter_does("tests/programs/resummed", 1, |n| {
        let random = |at| nicforge_ir::io::random(n, at);
        let length = 14 + random(0) as usize % 100;
        let byte = |at| match random(1) % 8 {
            0 => 0,
            1 => 0xff,
            _ => random(at) as u8,
        };
        let mut frame: Vec<u8> = (0..length as u64).map(byte).collect();
        let covered = random(2) as u16 % if random(3) % 4 == 0 { u16::MAX } else { 90 };
        (frame[0], frame[1]) = (random(4) as u8, random(5) as u8);
        frame[2..4].copy_from_slice(&covered.to_be_bytes());
        (frame[4], frame[5]) = ((random(6) % 90) as u8, (random(7) % 8) as u8);
        frame
    });
}

/// As many sums at once as the device has memory for; more are said with their number.
#[test]
fn sums_are_bounded_by_memory() {
    pipe_does_what_the_interpreter_does("tests/programs/many_sums", 1, |n| {
        let random = |at| nicforge_ir::io::random(n, at);
        let mut frame: Vec<u8> =
            (0..14 + random(0) as u64 % 120).map(|at| random(at) as u8).collect();
        (frame[0], frame[1]) = ((random(1) % 16) as u8, (random(2) % 24) as u8);
        frame
    });
    let source = root().join("tests/programs/many_sums/too_many.c");
    let options = nicforge_frontend::Options::new(root().join("runtime/include"));
    let program = nicforge_frontend::compile(&source, &options)
        .unwrap_or_else(|e| panic!("{}", e.render(false)));
    let program = nicforge_ir::verify(program.program).unwrap_or_else(|e| panic!("{e:?}"));
    let compiled = PassManager::new().run_default(program).unwrap_or_else(|e| panic!("{e}"));
    let design = RtlProgram::new(&compiled, Wanted::Best).unwrap_or_else(|e| panic!("{e}"));
    let form = &design.artifact().form;
    let said = |why: &str| why.contains("needs 128 sums") && why.contains("for 83 of them");
    assert!(matches!(form, Form::Engine { why, .. } if said(&why.reason)), "{form:?}");
}

/// Values at any place of a frame: before, in and behind the window and the frame's end, behind
/// headers of any length.
#[test]
fn values_are_read_anywhere() {
    pipe_does_what_the_interpreter_does("tests/programs/anywhere", 1, |n| {
        let random = |at| nicforge_ir::io::random(n, at);
        let length = 14 + random(0) as usize % if n % 3 == 0 { 1500 } else { 150 };
        let mut frame: Vec<u8> = (0..length as u64).map(|at| random(at) as u8).collect();
        let place = |at| match random(at) % 8 {
            0 => random(at + 1),
            1 => random(at + 1) % 0x1_0000,
            _ => random(at + 1) % (length as u32 + 8),
        };
        frame[2..4].copy_from_slice(&(place(2) as u16).to_be_bytes());
        frame[4..8].copy_from_slice(&place(4).to_be_bytes());
        frame
    });
}

/// Bytes at any place of a frame are overwritten, over one another, over others in the window and
/// across lines; read again, added up, appended to strings, written into the host's memory, and
/// sent.
#[test]
fn bytes_are_overwritten_anywhere() {
    pipe_does_what_the_interpreter_does("tests/programs/scribbled", 10, |n| {
        let random = |at| nicforge_ir::io::random(n, at);
        let length = 14 + random(0) as usize % if n % 3 == 0 { 1500 } else { 150 };
        let mut frame: Vec<u8> = (0..length as u64).map(|at| random(at) as u8).collect();
        let place = |at| match random(at) % 8 {
            0 => random(at + 1) % 0x1_0000,
            1 => random(at + 1) % 70,
            2 => place_near(random(at + 2)),
            _ => random(at + 1) % (length as u32 + 8),
        };
        frame[2..4].copy_from_slice(&(place(10) as u16).to_be_bytes());
        frame[4..8].copy_from_slice(&place(20).to_be_bytes());
        frame[8] = (random(9) % 5) as u8;
        frame
    });
}

/// Places about the ends of lines.
fn place_near(random: u32) -> u32 {
    (random >> 8) % 4 * 64 + random % 8 - (random % 8).min(4)
}

/// Byte strings that pipes append to, empty and give out, from and to any place of a line, of
/// entries that come and go.
#[test]
fn bytes_go_into_strings_and_out() {
    pipe_does_what_the_interpreter_does("tests/programs/strings", 10, |n| {
        let random = |at| nicforge_ir::io::random(n, at);
        let length = 14 + random(0) as usize % if n % 4 == 0 { 700 } else { 150 };
        let mut frame: Vec<u8> = (0..length as u64).map(|at| random(at) as u8).collect();
        // Few keys and many, so that strings grow and entries go.
        frame[1] = (random(1) % if n / 300 % 2 == 0 { 4 } else { 60 }) as u8;
        let bytes = random(3) as usize % if random(4) % 4 == 0 { 2000 } else { length };
        frame[4..6].copy_from_slice(&(bytes as u16).to_be_bytes());
        frame
    });
}

/// Values, and payload of which bytes were overwritten, that pipes append to byte strings, from any
/// place of a line on.
#[test]
fn values_go_into_strings() {
    pipe_does_what_the_interpreter_does("tests/programs/appended", 10, |n| {
        let random = |at| nicforge_ir::io::random(n, at);
        let length = 14 + random(0) as usize % 150;
        let mut frame: Vec<u8> = (0..length as u64).map(|at| random(at) as u8).collect();
        frame[1] = (random(1) % if n / 300 % 2 == 0 { 4 } else { 40 }) as u8;
        frame[3] = (random(2) % 120) as u8;
        frame
    });
}

/// Loops that move the cursor, overwrite, trim, tell the host, and end the packet, as lists of
/// options are read; and one of 78 trips.
#[test]
fn loops_walk_through_packets() {
    pipe_does_what_the_interpreter_does("tests/programs/options", 1, |n| {
        let random = |at| nicforge_ir::io::random(n, at);
        let length = 14 + random(0) as usize % 120;
        let mut frame: Vec<u8> = (0..length as u64).map(|at| random(at) as u8).collect();
        let mut at = 2;
        while at + 2 < length {
            frame[at] = (random(1000 + at as u64) % 6) as u8;
            frame[at + 1] = 2 + (random(2000 + at as u64) % 7) as u8;
            at += if frame[at] == 1 { 1 } else { frame[at + 1] as usize };
        }
        frame[1] = if n % 4 == 0 { frame[length / 2] } else { frame[1] };
        frame
    });
}

/// Bytes at places that conditions bound, in frames that end before, in and behind them.
#[test]
fn conditions_bound_places() {
    pipe_does_what_the_interpreter_does("tests/programs/guarded", 1, |n| {
        let length = 14 + nicforge_ir::io::random(1, n) as usize % 140;
        let mut frame: Vec<u8> =
            (0..length as u64).map(|at| nicforge_ir::io::random(n, at) as u8).collect();
        let far = nicforge_ir::io::random(2, n).is_multiple_of(16);
        frame[0] = if far { frame[0] } else { 0 };
        frame[1] = if n % 9 == 0 { 7 } else { frame[1] % 100 };
        frame
    });
}

/// Entries of one array whose numbers lie apart, and keys that other tables' entries decide.
#[test]
fn arrays_have_parts() {
    pipe_does_what_the_interpreter_does("tests/programs/array_parts", 1, |n| {
        // Few numbers and all of them in turn.
        let spread = if n / 300 % 2 == 0 { 3 } else { u32::MAX };
        let number = |at| nicforge_ir::io::random(n, at) % spread;
        let mut frame: Vec<u8> = (0..2).flat_map(|at| number(at).to_le_bytes()).collect();
        frame.resize(60, 0);
        frame
    });
}

/// How long ago an entry was changed, compared by bounds: numbers at the ends of their range, next
/// to each other, and random ones.
#[test]
fn differences_are_compared_by_bounds() {
    pipe_does_what_the_interpreter_does("tests/programs/elapsed", 1, |n| {
        let number = |at: u64| match nicforge_ir::io::random(n, 2 * at) % 4 {
            0 => nicforge_ir::io::random(n, 2 * at + 1),
            1 => u32::MAX - nicforge_ir::io::random(n, 2 * at + 1) % 4,
            _ => nicforge_ir::io::random(n, 2 * at + 1) % 8,
        };
        let mut frame: Vec<u8> = (0..3).flat_map(|at| number(at).to_le_bytes()).collect();
        frame.resize(60, 0);
        frame
    });
}

/// What an entry says is looked up in other tables before the entry is changed: packets follow when
/// it is.
#[test]
fn lookups_between_an_entry_and_its_change() {
    pipe_does_what_the_interpreter_does("tests/programs/classes", 10, |n| {
        let flow = nicforge_ir::io::random(n, 0) % if n / 200 % 2 == 0 { 2 } else { 400 };
        let mut frame: Vec<u8> =
            [flow, nicforge_ir::io::random(n, 1)].iter().flat_map(|w| w.to_le_bytes()).collect();
        frame.resize(60, 0);
        frame
    });
}

/// Rows with masks are compared at once; keys that rows share, and any.
#[test]
fn rows_with_masks_are_compared_at_once() {
    pipe_does_what_the_interpreter_does("tests/programs/masked", 1, |n| {
        let number =
            |at| nicforge_ir::io::random(n, at) % if n / 200 % 2 == 0 { 16 } else { u32::MAX };
        let mut frame: Vec<u8> = (0..2).flat_map(|at| number(at).to_le_bytes()).collect();
        frame.resize(60, 0);
        frame
    });
}

/// Several engines do what one does, in the same order: tables of all kinds and byte strings that
/// events use in turn.
#[test]
fn engines_take_turns() {
    if verilator_is_missing() {
        return;
    }
    for (folder, replicas) in [("tests/programs/every_table", 3), ("examples/rpc_reassembly", 2)] {
        let example = Example::load(root().join(folder));
        let name = &example.name;
        let compiled = PassManager::new().run_default(example.program.clone()).unwrap();
        let design = RtlProgram::replicated(&compiled, Wanted::Engine, replicas).unwrap();
        assert!(
            matches!(design.artifact().form, Form::Engine { replicas: made, .. } if made == replicas)
        );
        is_accepted(&design, name);
        let events: Vec<InputEvent> =
            example.events.iter().filter(|e| takes(e)).take(EVENTS).cloned().collect();
        for pressure in [0, 1, 2] {
            let drive = Drive { pressure, ..Drive::default() };
            let (_, found) = design
                .verify(&example.program, &example.entries, &events, &drive)
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(found.is_empty(), "{name}, pressure {pressure}: {:?}", found[0]);
        }
    }
}

/// Four engines that share nothing but the order of what leaves are more than two and a half times
/// as fast as one: packets take different times, and the quick ones wait for their turn.
#[test]
fn engines_run_side_by_side() {
    if verilator_is_missing() {
        return;
    }
    let example = Example::load(root().join("examples/quic_lb"));
    let compiled = PassManager::new().run_default(example.program.clone()).unwrap();
    let events: Vec<InputEvent> =
        example.events.iter().filter(|e| takes(e)).take(EVENTS).cloned().collect();
    let cycles = [1, 4].map(|replicas| {
        let design = RtlProgram::replicated(&compiled, Wanted::Engine, replicas).unwrap();
        let (run, found) =
            design.verify(&example.program, &example.entries, &events, &Drive::default()).unwrap();
        assert!(found.is_empty(), "{replicas} engines: {:?}", found[0]);
        run.stats.busy_cycles
    });
    assert!(cycles[0] as f64 > 2.5 * cycles[1] as f64, "{cycles:?} cycles with 1 and 4 engines");
}

/// Random programs on engines, which do everything: odd widths, evictions, byte strings, messages
/// to the developer.
#[test]
fn random_programs_on_engines() {
    random_programs(Wanted::Engine, generate::Options::ALL, seeds(0));
}

/// And in whatever form is best: ways that a pipe joins.
#[test]
fn random_programs_in_their_best_form() {
    random_programs(Wanted::Best, generate::Options::ARITHMETIC, seeds(100));
}

/// Programs with everything, of which few are pipes.
#[test]
fn any_random_programs_in_their_best_form() {
    random_programs(Wanted::Best, generate::Options::ALL, seeds(200));
}

/// How often a failing program is made smaller: each time a model is built.
const SMALLER: u32 = 150;

fn random_programs(wanted: Wanted, options: generate::Options, seeds: std::ops::Range<u64>) {
    if verilator_is_missing() {
        return;
    }
    let (mut ran, tried) = (0, seeds.end - seeds.start);
    for seed in seeds {
        let (list, options) = (
            decisions(seed),
            generate::Options { copies: seed % 4 == 1, made: seed % 4 >= 2, ..options },
        );
        let found = match difference(seed, &list, wanted, options) {
            Ok(found) => found,
            // More headers, or larger tables, than there is room for.
            Err(RtlError::Unsupported(_)) => continue,
            Err(error) => panic!("seed {seed}: {error}"),
        };
        if let Some(what) = found {
            println!("seed {seed}: {what}\nLooking for a smaller program ...");
            let mut tries = 0;
            let small = shrink(&list, |list| {
                tries += 1;
                tries <= SMALLER && matches!(difference(seed, list, wanted, options), Ok(Some(_)))
            });
            let what = difference(seed, &small, wanted, options);
            panic!(
                "seed {seed}: {what:?} for\n{}",
                print(&generate_from(&small, options), PrintOptions::default())
            );
        }
        ran += 1;
    }
    assert!(ran * 2 >= tried, "only {ran} of {tried} random programs fit");
}

/// What a program does otherwise in hardware, if anything.
fn difference(
    seed: u64,
    list: &[u32],
    wanted: Wanted,
    options: generate::Options,
) -> Result<Option<String>, RtlError> {
    let program = generate_from(list, options);
    let compiled =
        PassManager::new().run_default(program.clone()).unwrap_or_else(|e| panic!("{e}"));
    let events: Vec<InputEvent> = generate::events(seed, 150).into_iter().filter(takes).collect();
    let design = RtlProgram::replicated(&compiled, wanted, 1 + seed as u32 % 3)?;
    println!("seed {seed}: {:?}", design.artifact().form);
    let drive = Drive { pressure: seed, ..Drive::default() };
    let (_, found) = design.verify(&program, &[], &events, &drive)?;
    Ok(found.first().map(|what| format!("{what:?}")))
}
