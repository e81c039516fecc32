//! Which program runs where: `check --target`.

use nicforge_target::accelerate;
use nicforge_target::support;
use nicforge_target::{AcceleratedOp, Target};
use serde_json::{Value, json};

use crate::by_target::Programs;
use crate::tried::Refused;
use crate::{Failure, Runtime, backend, planning};

/// A construct of a program at its place, as `file:line:column`.
#[derive(Clone, Debug)]
pub struct Construct {
    pub what: String,
    pub place: String,
}

/// An op that runs on an accelerator of the target.
#[derive(Clone, Debug)]
pub struct Accelerated {
    pub accelerator: String,
    pub op: AcceleratedOp,
    pub place: String,
}

/// A target's answer to whether a program runs there.
#[derive(Debug)]
pub struct Support {
    pub target: String,
    /// What the program asks for and the target lacks.
    pub missing: Vec<Construct>,
    pub accelerated: Vec<Accelerated>,
    /// What else stands against it: this machine's kernel, where that is the target, or that no
    /// plan fits.
    pub refused: Option<Refused>,
}

impl Support {
    /// True if the program runs there.
    pub fn runs(&self) -> bool {
        self.missing.is_empty() && self.refused.is_none()
    }

    /// The answer as JSON.
    pub fn json(&self) -> Value {
        let missing = self.missing.iter();
        let missing: Vec<Value> =
            missing.map(|one| json!({ "construct": one.what, "place": one.place })).collect();
        let accelerated = self.accelerated.iter();
        let accelerated: Vec<Value> = accelerated
            .map(|one| {
                let Accelerated { accelerator, op, place } = one;
                json!({ "accelerator": accelerator, "op": op.name(), "place": place })
            })
            .collect();
        let mut row = json!({
            "target": self.target, "runs": self.runs(), "missing": missing,
            "accelerated": accelerated,
        });
        if let Some(refused) = &self.refused {
            row["refused"] = refused.json();
        }
        row
    }
}

/// Asks each target.
///
/// # Errors
/// A pass failed.
pub fn of(
    programs: &Programs,
    targets: &[Target],
    runtime: &Runtime,
) -> Result<Vec<Support>, Failure> {
    targets.iter().enumerate().map(|(at, target)| one(programs, at, target, runtime)).collect()
}

fn one(
    programs: &Programs,
    number: usize,
    target: &Target,
    runtime: &Runtime,
) -> Result<Support, Failure> {
    let loaded = programs.of(number);
    let program = &loaded.program;
    let place = |span| program.place(span).to_string();
    let missing: Vec<Construct> = support::missing(program, target)
        .into_iter()
        .map(|one| Construct { place: place(one.span), what: one.what })
        .collect();
    let accelerated = accelerate::uses(program, target)
        .into_iter()
        .map(|(accelerator, op, span)| Accelerated { accelerator, op, place: place(span) })
        .collect();
    let refused = if missing.is_empty() {
        let here = backend::of(target).ok().and_then(|on| on.refused(target, loaded, runtime));
        let unfit = |(reason, remedy): (String, &str)| Refused {
            place: program.name.clone(),
            reason: format!("no plan fits: {reason}"),
            remedy: remedy.to_string(),
        };
        match here {
            Some(refused) => Some(refused),
            None => planning::unfit(program, target)?.map(unfit),
        }
    } else {
        None
    };
    Ok(Support { target: target.name.clone(), missing, accelerated, refused })
}
