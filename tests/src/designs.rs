//! Small programs as designs, against the interpreter.

use std::process::Command;

use nicforge_codegen::rtl::{Form, Wanted};
use nicforge_ir::{Input, InputEvent};
use nicforge_passes::PassManager;
use nicforge_run::rtl::{Drive, RtlProgram, RtlRun, RtlStats};
use nicforge_run::tools;

use crate::example::Example;
use crate::{packets, root, verilator_is_missing};

/// A design is what Verilator and slang take without a word.
///
/// # Panics
/// One of them says something, or is not there.
pub fn is_accepted(design: &RtlProgram, name: &str) {
    assert_eq!(design.lint().unwrap_or_else(|e| panic!("{name}: {e}")), "", "{name}");
    let folder = tempfile::tempdir().unwrap_or_else(|e| panic!("{name}: {e}"));
    design.write(folder.path()).unwrap_or_else(|e| panic!("{name}: {e}"));
    let slang = tools::in_python("lib/python3*/site-packages/pyslang/__init__.py")
        .unwrap_or_else(|| panic!("slang is missing: run scripts/bootstrap.sh"));
    let python = slang.ancestors().nth(5).expect("an environment").join("bin/python");
    let files = std::fs::read_dir(folder.path()).unwrap_or_else(|e| panic!("{name}: {e}"));
    let files = files.flatten().map(|file| file.path());
    let slang = Command::new(python)
        .arg(root().join("rtl/tests/accepted.py"))
        .args(files.filter(|file| file.extension().is_some_and(|e| e == "sv")))
        .output()
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let said = String::from_utf8_lossy(&slang.stderr);
    assert!(slang.status.success() && said.is_empty(), "{name}: {said}");
}

/// A program of `tests/programs` that is a pipe.
pub struct Piped {
    example: Example,
    design: RtlProgram,
}

impl Piped {
    /// The pipe of a folder's program, linted; none if Verilator is missing, which is said.
    ///
    /// # Panics
    /// It is none, or Verilator complains about it.
    pub fn of(folder: &str) -> Option<Piped> {
        if verilator_is_missing() {
            return None;
        }
        let example = Example::load(root().join(folder));
        let compiled = PassManager::new()
            .run_default(example.program.clone())
            .unwrap_or_else(|e| panic!("{e}"));
        let design = RtlProgram::new(&compiled, Wanted::Best).unwrap_or_else(|e| panic!("{e}"));
        assert!(
            matches!(design.artifact().form, Form::Pipe { .. }),
            "{folder}: {:?}",
            design.artifact().form
        );
        is_accepted(&design, folder);
        Some(Piped { example, design })
    }

    /// Cycles between packets, and between those that may use the same entry.
    pub fn cycles(&self) -> (u32, u32) {
        match &self.design.artifact().form {
            Form::Pipe { interval, meeting, .. } => (*interval, *meeting),
            form => unreachable!("{form:?}"),
        }
    }

    /// Frames by number do what they do in the interpreter, with streams that do not wait and with
    /// some that do. What the runs counted.
    ///
    /// # Panics
    /// They do not.
    pub fn does_the_same(&self, frame: impl Fn(u64) -> Vec<u8>) -> [RtlStats; 2] {
        self.runs(frame).map(|run| run.stats)
    }

    /// The same; the runs.
    ///
    /// # Panics
    /// They do not.
    pub fn runs(&self, frame: impl Fn(u64) -> Vec<u8>) -> [RtlRun; 2] {
        let Piped { example, design } = self;
        let input = |n| Input::Net { port: n as u32 % example.program.ports, frame: frame(n) };
        let events: Vec<InputEvent> = (0..packets(1000, 3000))
            .map(|n| InputEvent { time_ns: n, seed: 0, input: input(n) })
            .collect();
        [0, 1].map(|pressure| {
            let drive = Drive { pressure, ..Drive::default() };
            let (run, found) = design
                .verify(&example.program, &example.entries, &events, &drive)
                .unwrap_or_else(|e| panic!("{}: {e}", example.name));
            assert!(found.is_empty(), "{}, pressure {pressure}: {:?}", example.name, found[0]);
            run
        })
    }
}

/// Cycles a packet.
pub fn each(stats: &RtlStats) -> f64 {
    stats.busy_cycles as f64 / stats.events as f64
}
