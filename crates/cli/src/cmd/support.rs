//! Which program runs where, as lines: `check --target`.

use nicforge_driver::support::{Accelerated, Construct, Support};
use nicforge_driver::tried::Refused;

/// Prints one line per target; what is missing below it, with its place.
pub fn print(answers: &[Support]) {
    let width = answers.iter().map(|answer| answer.target.len()).max().unwrap_or(0);
    for answer in answers {
        let verdict = if answer.runs() { "yes" } else { "no" };
        outln!("  {:width$}  {verdict}", answer.target);
        for Accelerated { accelerator, op, place } in &answer.accelerated {
            outln!("  {:width$}      {place}: {} on {accelerator}", "", op.name());
        }
        for Construct { what, place } in &answer.missing {
            outln!("  {:width$}      {place}: lacks {what}", "");
        }
        if let Some(Refused { place, reason, remedy }) = &answer.refused {
            outln!("  {:width$}      {place}: {reason}", "");
            outln!("  {:width$}      help: {remedy}", "");
        }
    }
}
