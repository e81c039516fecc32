//! A target against the interpreter.

use nicforge_driver::verify;
use pyo3::prelude::*;

/// What a comparison found; true if all is equal and there was something to compare.
#[pyclass(frozen, get_all, module = "nicforge")]
pub struct Comparison {
    target: String,
    ok: bool,
    events: usize,
    matching: usize,
    tables: usize,
    matching_tables: usize,
    /// Events that were left out, since they are beyond what the target takes.
    beyond: usize,
    /// Events that were left out, since they hang on entries that a full LRU table gave up.
    given_up: usize,
    /// The first differences, in words.
    differences: Vec<String>,
    /// What stands in for the target's hardware, if something does.
    stands_in: Option<&'static str>,
    /// The result in words.
    verdict: String,
}

impl From<verify::Comparison> for Comparison {
    fn from(from: verify::Comparison) -> Comparison {
        let agreement = from.agreement;
        Comparison {
            ok: agreement.passes(),
            verdict: agreement.verdict(),
            target: from.target,
            events: agreement.events,
            matching: agreement.matching,
            tables: agreement.tables,
            matching_tables: agreement.matching_tables,
            beyond: from.beyond,
            given_up: agreement.given_up,
            differences: agreement.differences,
            stands_in: from.stands_in,
        }
    }
}

#[pymethods]
impl Comparison {
    fn __bool__(&self) -> bool {
        self.ok
    }

    fn __repr__(&self) -> String {
        format!("<Comparison {} {}>", self.target, self.verdict)
    }
}
