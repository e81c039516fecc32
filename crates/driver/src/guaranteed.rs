//! The objective `guaranteed-rate`: of all pipelines the search found, the one whose rate no
//! traffic can push down furthest.
//!
//! Bounding a pipeline takes far longer than predicting its rate, so candidates are bounded in the
//! order of their predicted rates without the ports' ceiling. Worst cases are seldom faster than
//! means: once the best guarantee, itself not above its prediction, reaches the next prediction,
//! the candidates left are not tried. (Predictions also count events that are no packets, so a
//! guarantee may be above; then all are tried.)

use std::time::{Duration, Instant};

use nicforge_ir::{Program, Verified};
use nicforge_plan::{Objective, Plan};
use nicforge_planner::assemble;
use nicforge_planner::instance::Config;
use nicforge_planner::search::Found;
use nicforge_target::Target;

use crate::rates::{self, Guaranteed};
use crate::{Failure, stop};

/// A choice and its reasons.
pub struct Choice {
    pub plan: Plan,
    pub guaranteed: Guaranteed,
    /// How many candidates were bounded, in words.
    pub note: String,
}

/// Time for all candidates if none was given.
const WHOLE_TIME: Duration = Duration::from_secs(30);
/// Time the bound of one stage may take, and the least that is worth a try.
pub const STAGE_TIME: Duration = Duration::from_secs(3);
const LEAST_TIME: Duration = Duration::from_millis(50);
/// Guarantees that differ by less are equal; the pipeline with fewer stages is taken.
const EQUAL: f64 = 1e-3;

/// Bounds candidates until the best is known or time is over.
///
/// # Errors
/// No candidate could be bounded: the reason of the first.
pub fn choose(
    source: &Verified<Program>,
    target: &Target,
    config: &Config,
    found: &Found,
    until: Option<Instant>,
) -> Result<Choice, Failure> {
    let until = until.unwrap_or_else(|| Instant::now() + WHOLE_TIME);
    let predicted = |number: usize| found.candidates[number].mapping.unlimited;
    let stages = |number: usize| found.candidates[number].stages.len();
    let mut order: Vec<usize> = (0..found.candidates.len()).collect();
    order.sort_by(|a, b| {
        predicted(*b).total_cmp(&predicted(*a)).then(stages(*a).cmp(&stages(*b))).then(a.cmp(b))
    });
    let mut best: Option<(usize, Plan, Guaranteed)> = None;
    let (mut bounded, mut refused) = (0, None);
    let mut rest = "";
    for number in order {
        let left = until.saturating_duration_since(Instant::now());
        if let Some((chosen, _, known)) = &best {
            if known.one_flow >= predicted(number)
                && known.one_flow <= (1.0 + EQUAL) * predicted(*chosen)
            {
                rest = "; the others are not even expected to be faster than that";
                break;
            }
            if left < LEAST_TIME || stop::stopped() {
                rest = "; then time was over";
                break;
            }
        }
        let plan = assemble::plan(source, target, config, Objective::GuaranteedRate, found, number);
        match rates::guaranteed(&plan, source, target, STAGE_TIME.min(left.max(LEAST_TIME))) {
            Ok(guaranteed) => {
                bounded += 1;
                let beats = best.as_ref().is_none_or(|(other, _, known)| {
                    let close = (guaranteed.one_flow / known.one_flow - 1.0).abs() <= EQUAL;
                    if close {
                        stages(number) < stages(*other)
                    } else {
                        guaranteed.one_flow > known.one_flow
                    }
                });
                if beats {
                    best = Some((number, plan, guaranteed));
                }
            }
            Err(failure) => refused = refused.or(Some(failure)),
        }
    }
    let Some((_, mut plan, guaranteed)) = best else {
        let none = || Failure::user("the search found no pipeline to bound".to_string());
        return Err(refused.unwrap_or_else(none));
    };
    plan.predicted.guaranteed_pps = Some(guaranteed.one_flow);
    let note = format!("{bounded} of {} candidates bounded{rest}", found.candidates.len());
    Ok(Choice { plan, guaranteed, note })
}
