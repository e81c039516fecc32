//! How back ends measure plans on this machine.

use nicforge_ir::{Entry, InputEvent, Program, TableId, Verified};
use nicforge_plan::Plan;
use nicforge_target::Target;

use crate::Failure;

/// Runs of each plan on this machine.
pub const RUNS: usize = 3;

pub struct Traffic {
    pub events: Vec<InputEvent>,
    pub entries: Vec<(TableId, Entry)>,
}

/// A bench: a back end measures plans on this machine by it.
pub struct Bench {
    pub place: &'static str,
    /// Of which the fastest counts; one where figures are exact.
    pub runs: usize,
    pub measure: Measure,
}

/// Packets per second of a plan's busiest stage: of `program` as it was planned, made of `source`.
pub type Measure = fn(
    &Target,
    &Plan,
    &Verified<Program>,
    &Verified<Program>,
    &Traffic,
    bool,
) -> Result<f64, Failed>;

/// Why there is no figure.
pub enum Failed {
    /// This plan does not run here; another one may.
    CannotRun(String),
    /// Somebody has to look at it.
    Wrong(Failure),
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        // What the machine lacks, all plans lack.
        if failure.code == 1 {
            Failed::CannotRun(failure.reason().trim_end().to_string())
        } else {
            Failed::Wrong(failure)
        }
    }
}

/// The failure of a plan that does something else than the interpreter, in so many places.
pub fn differs(plan: &Plan, number_of: usize) -> Failed {
    let stages: Vec<&str> = plan.stages.iter().map(|stage| stage.name.as_str()).collect();
    Failed::Wrong(Failure::user(format!(
        "{} on {} as {} does not do what the interpreter does: {number_of} differences; \
         `nicforge verify --plan` shows them",
        plan.program,
        plan.target,
        stages.join(", ")
    )))
}
