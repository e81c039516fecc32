//! Runs passes and checks what they leave.

use std::time::{Duration, Instant};

use nicforge_ir::{Program, Verified, VerifyError, verify};

use crate::Pass;
use crate::registry::{EXPAND, MAX_ROUNDS, PREPARE, SIMPLIFY, pass_named};

/// Why passes could not be run.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    #[error("there is no pass `{name}`; there are {known}")]
    Unknown { name: String, known: String },
    /// A bug in a pass. `program` is what went into it: the reproducer.
    #[error("internal error: pass `{pass}` left a program that does not verify: {}", first(.errors))]
    Broken { pass: &'static str, errors: Vec<VerifyError>, program: Box<Program> },
}

fn first(errors: &[VerifyError]) -> String {
    errors.first().map_or(String::new(), VerifyError::to_string)
}

/// Time of a pass, all its runs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassTime {
    pub pass: &'static str,
    pub runs: u32,
    pub total: Duration,
}

/// Sees the program after every run of a pass.
type Hook<'a> = Box<dyn FnMut(&'static str, &Program) + 'a>;

/// Runs passes.
#[derive(Default)]
pub struct PassManager<'a> {
    after: Option<Hook<'a>>,
    times: Vec<PassTime>,
}

impl<'a> PassManager<'a> {
    pub fn new() -> PassManager<'a> {
        PassManager::default()
    }

    /// Calls `hook` with a pass's name and the program after each run of a pass.
    pub fn print_after(&mut self, hook: impl FnMut(&'static str, &Program) + 'a) {
        self.after = Some(Box::new(hook));
    }

    /// Times of the passes so far, in the order of their first runs.
    pub fn times(&self) -> &[PassTime] {
        &self.times
    }

    /// Runs the default pipeline: see [`crate::registry`].
    pub fn run_default(
        &mut self,
        program: Verified<Program>,
    ) -> Result<Verified<Program>, PassError> {
        let mut program = self.run(program, &PREPARE)?;
        program = self.simplify(program)?;
        for name in EXPAND {
            let (next, changed) = self.run_one(program, find(name)?)?;
            program = if changed { self.simplify(next)? } else { next };
        }
        Ok(program)
    }

    /// Runs the simplifying passes until nothing changes.
    pub fn simplify(
        &mut self,
        mut program: Verified<Program>,
    ) -> Result<Verified<Program>, PassError> {
        for _ in 0..MAX_ROUNDS {
            let mut changed = false;
            for name in SIMPLIFY {
                let pass = find(name)?;
                let (next, pass_changed) = self.run_one(program, pass)?;
                program = next;
                changed |= pass_changed;
            }
            if !changed {
                break;
            }
        }
        Ok(program)
    }

    /// Runs passes by name, each once, in this order.
    pub fn run(
        &mut self,
        mut program: Verified<Program>,
        names: &[&str],
    ) -> Result<Verified<Program>, PassError> {
        for name in names {
            program = self.run_one(program, find(name)?)?.0;
        }
        Ok(program)
    }

    fn run_one(
        &mut self,
        program: Verified<Program>,
        pass: &'static dyn Pass,
    ) -> Result<(Verified<Program>, bool), PassError> {
        let before = program.clone();
        let mut program = program.into_inner();
        let start = Instant::now();
        let changed = pass.run(&mut program);
        self.note(pass.name(), start.elapsed());
        if let Some(hook) = &mut self.after {
            hook(pass.name(), &program);
        }
        match verify(program) {
            Ok(program) => Ok((program, changed)),
            Err(errors) => {
                let program = Box::new(before.into_inner());
                Err(PassError::Broken { pass: pass.name(), errors, program })
            }
        }
    }

    /// Checks what a transformation outside the registry left.
    ///
    /// # Errors
    /// The rules that the program breaks, under the name of what broke them.
    pub fn reverify(
        &self,
        name: &'static str,
        program: Program,
    ) -> Result<Verified<Program>, PassError> {
        let copy = Box::new(program.clone());
        verify(program).map_err(|errors| PassError::Broken { pass: name, errors, program: copy })
    }

    fn note(&mut self, pass: &'static str, time: Duration) {
        match self.times.iter_mut().find(|entry| entry.pass == pass) {
            Some(entry) => {
                entry.runs += 1;
                entry.total += time;
            }
            None => self.times.push(PassTime { pass, runs: 1, total: time }),
        }
    }
}

fn find(name: &str) -> Result<&'static dyn Pass, PassError> {
    pass_named(name).ok_or_else(|| {
        let known: Vec<&str> = crate::registry::PASSES.iter().map(|pass| pass.name()).collect();
        PassError::Unknown { name: name.to_string(), known: known.join(", ") }
    })
}
