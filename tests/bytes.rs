//! Loops that move a byte a trip, and that back ends do at once (`codegen::c::runs`): on every
//! target that runs C they do what the interpreter does, whatever of the packet is there.

use nicforge_ir::{Input, InputEvent, Program, Verified, io, verify};
use nicforge_run::compile::Effort;
use nicforge_tests::targets::{Case, Subject, Verdict, judge};
use nicforge_tests::{kernel_is_missing, root};

const PROGRAMS: [&str; 5] = ["loads", "emits", "copies", "compares", "beyond"];

fn program(name: &str) -> Verified<Program> {
    let options = nicforge_frontend::Options::new(root().join("runtime/include"));
    let path = root().join(format!("tests/programs/runs/{name}.c"));
    let output = nicforge_frontend::compile(&path, &options)
        .unwrap_or_else(|e| panic!("{}", e.render(false)));
    verify(output.program).unwrap_or_else(|e| panic!("{e:?}"))
}

/// Packets of all lengths that a run may find too short; the first bytes say how many trips, and
/// from where. Some have two halves that are alike but for one byte.
fn packets() -> Vec<InputEvent> {
    let mut found = Vec::new();
    for length in 14..90u64 {
        for kind in 0..6u64 {
            let mut at = 0;
            let mut byte = |most: u32| {
                at += 1;
                (io::random(length * 8 + kind, at) % most) as u8
            };
            let (count, from) = (byte(32), byte(if kind < 4 { 40 } else { 256 }));
            let mut frame = vec![if kind == 5 { byte(255) } else { count }, from];
            frame.extend((2..length).map(|_| if kind < 2 { byte(2) } else { byte(255) }));
            if kind == 3 && length > 58 {
                frame.copy_within(2..29, 29);
                let differs = usize::from(byte(28));
                frame[29 + differs] ^= byte(2) << byte(8);
            }
            found.push(InputEvent { time_ns: 0, seed: 0, input: Input::Net { port: 0, frame } });
        }
    }
    found
}

fn on(target: &str) {
    let events = packets();
    for name in PROGRAMS {
        let program = Subject::new(program(name));
        let effort = Effort::Full;
        let case = Case { program: &program, entries: &[], events: &events, effort };
        let verdict = judge(target, &case);
        assert_eq!(verdict, Verdict::Same, "{name} on {target}");
    }
}

#[test]
fn runs_of_bytes_are_what_their_loops_do() {
    for target in ["host", "dpdk", "liquidio", "agilio-cx", "pspin", "panic", "plan:dpdk"] {
        on(target);
    }
}

#[test]
fn runs_of_bytes_are_what_their_loops_do_in_the_kernel() {
    if let Some(why) = kernel_is_missing() {
        println!("skipped: {why}");
        return;
    }
    on("xdp");
}
