//! Programs in the interface of Alkali against themselves as plain C, compiled by clang with a
//! header that shares nothing with us (`runtime/alkali`).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nicforge_ir::{Input, InputEvent, Interp, Output, Program, Verified, verify};
use nicforge_run::alkali;
use nicforge_run::compile::Effort;
use nicforge_tests::root;
use nicforge_tests::targets::{Case, Subject, TARGETS, Verdict, judge};

fn programs() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(root().join("tests/alkali")).expect("programs");
    let mut found: Vec<PathBuf> = folder.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| path.extension().is_some_and(|e| e == "c"));
    found.sort();
    found
}

fn compile(path: &Path) -> Verified<Program> {
    let options = nicforge_frontend::Options::new(root().join("runtime/include"));
    let output = nicforge_frontend::compile(path, &options).unwrap_or_else(|e| panic!("{e}"));
    verify(output.program).expect("it verifies")
}

/// Frames as events.
fn events(frames: &[Vec<u8>]) -> Vec<InputEvent> {
    let event = |(i, frame): (usize, &Vec<u8>)| {
        let input = Input::Net { port: 0, frame: frame.clone() };
        InputEvent { time_ns: i as u64, seed: 0, input }
    };
    frames.iter().enumerate().map(event).collect()
}

#[test]
fn programs_do_what_they_do_as_plain_c() {
    let frames = alkali::frames(7, 3000);
    let mut kinds = BTreeSet::new();
    for path in programs() {
        let program = compile(&path);
        let received = program.event_named("net_recv").and_then(|event| program.handler_of(event));
        let name = program.handlers[received.expect("a handler")].name.clone();
        let want = alkali::run(&path, &name, &root().join("runtime/alkali"), &frames)
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(want.len(), frames.len());
        let mut interp = Interp::new(&program);
        for (i, (event, want)) in events(&frames).iter().zip(&want).enumerate() {
            let mut got = interp.run(event).expect("the interpreter runs");
            kinds.extend(got.iter().map(|output| format!("{:?}", std::mem::discriminant(output))));
            got.retain(|output| !matches!(output, Output::Drop { .. }));
            assert_eq!(&got, want, "{}: frame {i}", path.display());
        }
    }
    // Sent, written to memory, dropped: otherwise this compares too little.
    assert_eq!(kinds.len(), 3);
}

#[test]
fn programs_do_the_same_on_targets() {
    let frames = alkali::frames(8, 400);
    let events = events(&frames);
    let mut ran = BTreeSet::new();
    for path in programs() {
        let program = Subject::new(compile(&path));
        let effort = Effort::Full;
        let case = Case { program: &program, entries: &[], events: &events, effort };
        for target in TARGETS {
            match judge(target, &case) {
                Verdict::Same => {
                    ran.insert(target);
                }
                // What targets lack, and what this machine does.
                Verdict::Lacks(why) | Verdict::Left(why) => println!("{target}: {why}"),
                other => panic!("{} on {target}: {other:?}", path.display()),
            }
        }
    }
    assert!(ran.contains("host") && ran.len() > 4, "{ran:?}");
}
