//! A target against the interpreter, packet by packet, then table by table.

pub mod command;
pub mod kernel;
pub mod simulated;

use std::collections::BTreeSet;

use nicforge_ir::{Entry, InputEvent, Output, Program, TableId, Verified};
use nicforge_plan::Plan;
use nicforge_run::dpdk::{Difference, DpdkStats};
use nicforge_target::Target;
use serde_json::{Value, json};

use crate::compare::{self, Agreement, Held};
use crate::given_up::GivenUp;
use crate::options::Planned;
use crate::{Failure, Runtime};

/// A comparison that is asked for: the program without a target, and as it is for this one, with
/// packets and table contents.
pub struct Case<'a> {
    pub planned: &'a Planned,
    /// The user's command that runs images.
    pub exec: Option<&'a str>,
    pub source: &'a Verified<Program>,
    pub subject: &'a Verified<Program>,
    pub events: &'a [InputEvent],
    pub entries: &'a [(TableId, Entry)],
    pub runtime: &'a Runtime,
}

impl Case<'_> {
    /// Inputs of both sides, with those events that the target takes.
    pub fn given<'a>(&'a self, taken: &'a [InputEvent]) -> Given<'a> {
        Given { source: self.source, entries: self.entries, events: taken }
    }
}

/// Results of a comparison.
#[derive(Clone, Debug)]
pub struct Comparison {
    pub target: String,
    /// What stands in for the target's hardware, if something does.
    pub stands_in: Option<&'static str>,
    /// What it takes, in words behind "events are beyond what".
    pub limits: String,
    pub agreement: Agreement,
    /// Events that were left out, since they are beyond what the target takes.
    pub beyond: usize,
    /// What ran, where that is not obvious.
    pub plan: Option<Plan>,
    /// What stages took on simulated cores.
    pub cycles: Vec<StageCycles>,
    /// Tables were not compared, since the other side cannot say what they hold.
    pub without_tables: bool,
}

/// Cycles of a stage, an event, beside those of its plan.
#[derive(Clone, Debug)]
pub struct StageCycles {
    pub stage: String,
    pub events: u64,
    pub counted: f64,
    pub planned: f64,
}

impl Comparison {
    /// A comparison with a target, with nothing more to say of it.
    pub fn of(target: &Target, agreement: Agreement, beyond: usize) -> Comparison {
        Comparison {
            target: target.name.clone(),
            stands_in: None,
            limits: String::new(),
            agreement,
            beyond,
            plan: None,
            cycles: Vec::new(),
            without_tables: false,
        }
    }

    /// The comparison as JSON, schema `nicforge/verify`.
    pub fn json(&self) -> Value {
        let result = &self.agreement;
        let mut value = json!({
            "schema": "nicforge/verify", "version": 1, "target": self.target,
            "ok": result.passes(), "events": result.events, "matching": result.matching,
            "tables": result.tables, "matching_tables": result.matching_tables,
            "beyond_target": self.beyond, "given_up": result.given_up,
            "differences": result.differences,
        });
        if let Some(plan) = &self.plan {
            let stages =
                plan.stages.iter().map(|s| json!({ "name": s.name, "replicas": s.replicas }));
            value["stages"] = stages.collect();
            value["functional"] = self.stands_in.into();
        }
        value
    }

    /// How a check ends.
    ///
    /// # Errors
    /// Something differs, or nothing was compared, which proves nothing.
    pub fn end(&self) -> Result<(), Failure> {
        self.agreement.end(self.beyond)
    }
}

/// Cycles of each stage that events came to.
pub fn cycles(plan: &Plan, stats: &DpdkStats) -> Vec<StageCycles> {
    let of = |(at, stage): (usize, &nicforge_plan::Stage)| {
        let workers = || stats.workers.iter().filter(|worker| worker.stage == Some(at));
        let events: u64 = workers().map(|worker| worker.events).sum();
        let cycles: u64 = workers().map(|worker| worker.cycles).sum();
        (events > 0).then(|| StageCycles {
            stage: stage.name.clone(),
            events,
            counted: cycles as f64 / events as f64,
            planned: stage.cycles,
        })
    };
    plan.stages.iter().enumerate().filter_map(of).collect()
}

/// Inputs of a target and of the interpreter beside it.
pub struct Given<'a> {
    pub source: &'a Verified<Program>,
    pub entries: &'a [(TableId, Entry)],
    pub events: &'a [InputEvent],
}

impl Given<'_> {
    /// Events and entries that hang on what full LRU tables gave up, if some did.
    ///
    /// # Errors
    /// The interpreter cannot run an event.
    pub fn given_up(&self) -> Result<Option<GivenUp>, Failure> {
        GivenUp::find(self.source, self.entries, self.events)
    }

    /// Agreement in all of so many events that does not hang on what full LRU tables gave up.
    fn all_equal(&self, events: usize, given_up: Option<&GivenUp>) -> Agreement {
        let left_out = given_up.map_or(0, GivenUp::events);
        let (compared, tables) = (events.saturating_sub(left_out), self.source.tables.len());
        Agreement {
            events: compared,
            matching: compared,
            tables,
            matching_tables: tables,
            given_up: left_out,
            differences: vec![],
        }
    }

    /// Compares tables.
    pub fn compare_tables(
        &self,
        given_up: Option<&GivenUp>,
        held: &[Held],
        result: &mut Agreement,
    ) {
        (result.tables, result.matching_tables) = (held.len(), held.len());
        for held in held {
            let lines = self.table_differences(given_up, held.clone());
            result.matching_tables -= usize::from(!lines.is_empty());
            lines.into_iter().for_each(|line| result.differ(line));
        }
    }

    fn table_differences(&self, given_up: Option<&GivenUp>, mut held: Held) -> Vec<String> {
        if let Some(given_up) = given_up {
            given_up.keep_sure(&mut held);
        }
        compare::table_differences(self.source, &held)
    }
}

/// How well a run agrees with the interpreter, from what differs between them.
///
/// # Errors
/// The interpreter cannot run an event.
pub fn of_differences(
    given: &Given,
    events: usize,
    differences: Vec<Difference>,
) -> Result<Agreement, Failure> {
    let source = given.source;
    let given_up = if differences.is_empty() { None } else { given.given_up()? };
    let decides = |event| given_up.as_ref().is_some_and(|all| all.decides(event));
    let mut result = given.all_equal(events, given_up.as_ref());
    // An event that differs in several ways is one event.
    let mut wrong = BTreeSet::new();
    for difference in differences {
        let text = match difference {
            Difference::Outputs { event, .. } if decides(event) => continue,
            Difference::Order { before, after } if decides(before) || decides(after) => continue,
            Difference::Outputs { event, want, got } => {
                wrong.insert(event);
                format!("event {}: {}", event + 1, outputs(source, &want, &got))
            }
            Difference::Order { before, after } => {
                wrong.insert(after);
                format!("event {} left before event {}", before + 1, after + 1)
            }
            Difference::Table { table, want, got } => {
                let lines = given.table_differences(given_up.as_ref(), Held { table, want, got });
                if lines.is_empty() {
                    continue;
                }
                result.matching_tables -= 1;
                lines.join("\n")
            }
            Difference::Interpreter { event, message } => {
                return Err(Failure::user(format!("event {}: {message}", event + 1)));
            }
        };
        if result.differences.len() < 5 {
            result.differences.push(text);
        }
    }
    result.matching -= wrong.len();
    Ok(result)
}

/// The outputs of an event that differ, in words.
pub fn outputs(program: &Program, want: &[Output], got: &[Output]) -> String {
    if let ([Output::Send { port: a, frame: x }], [Output::Send { port: b, frame: y }]) =
        (want, got)
        && a == b
    {
        return compare::frame_difference(x, y);
    }
    let list = |outputs: &[Output]| {
        let items: Vec<String> = outputs.iter().map(|o| compare::describe(program, o)).collect();
        if items.is_empty() { "nothing".to_string() } else { items.join(", ") }
    };
    format!("expected {}; got {}", list(want), list(got))
}
