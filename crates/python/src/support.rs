//! Which target takes a program.

use nicforge_driver::support as driver;
use pyo3::prelude::*;

/// A construct that a target lacks, at its place.
#[pyclass(frozen, get_all, module = "nicforge")]
#[derive(Clone)]
pub struct Construct {
    what: String,
    place: String,
}

#[pymethods]
impl Construct {
    fn __repr__(&self) -> String {
        format!("<Construct {}: {}>", self.place, self.what)
    }
}

/// A target's answer to whether a program runs there; true if it does.
#[pyclass(frozen, get_all, module = "nicforge")]
#[derive(Clone)]
pub struct Support {
    target: String,
    runs: bool,
    missing: Vec<Construct>,
    /// Ops that run on accelerators: the accelerator, the op and its place.
    accelerated: Vec<(String, String, String)>,
    /// Why else it does not run, and what helps.
    refused: Option<String>,
    remedy: Option<String>,
}

impl From<driver::Support> for Support {
    fn from(from: driver::Support) -> Support {
        let construct = |one: driver::Construct| Construct { what: one.what, place: one.place };
        let accelerated =
            |one: driver::Accelerated| (one.accelerator, one.op.name().to_string(), one.place);
        let (refused, remedy) = match &from.refused {
            Some(refused) => {
                (Some(format!("{}: {}", refused.place, refused.reason)), Some(&refused.remedy))
            }
            None => (None, None),
        };
        Support {
            runs: from.runs(),
            refused,
            remedy: remedy.cloned(),
            target: from.target,
            missing: from.missing.into_iter().map(construct).collect(),
            accelerated: from.accelerated.into_iter().map(accelerated).collect(),
        }
    }
}

#[pymethods]
impl Support {
    fn __bool__(&self) -> bool {
        self.runs
    }

    fn __repr__(&self) -> String {
        let why = self.missing.first().map(|one| format!("lacks {} ({})", one.what, one.place));
        let why = why.or_else(|| self.refused.clone());
        format!("<Support {}: {}>", self.target, why.unwrap_or_else(|| "yes".to_string()))
    }
}
