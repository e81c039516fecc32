//! Cutting a handler in two: the same program with one more stage.
//!
//! A *cut* divides what a handler does into an upstream part, which keeps its name and event, and a
//! downstream part. They are joined by an internal event whose parameters are the values that
//! cross, and the packet. What the program means does not change: outputs, tables and counters are
//! the same for any input.
//!
//! The steps, each in its own file:
//!
//! 1. `nodes` takes the body apart: nodes, the conditions under which each runs, the ways out;
//! 2. `graph` states which divisions are right and what they carry, as a network;
//! 3. `choose` finds the division: balanced by an [`Objective`], with the fewest bytes carried;
//! 4. `project` makes the two handlers, `restart` lets packets start over where that is allowed or
//!    needed;
//! 5. the pass `event-params` and the simplifying passes clean up across the cut.
//!
//! Internal events are queued behind the handler that generates them and see the time and the
//! random stream of the event from outside, so `now` may be asked in any stage. Random numbers are
//! all drawn in one stage, in order, because a target has a stream per stage.
//!
//! # No if-conversion
//!
//! The published method (Alkali, NSDI '25, section 5) first turns control flow into guarded
//! straight-line code, cuts that, and has to find the branches again; its prototype loses
//! conditions on the way back. Here nodes stay where they are in the nested `if`s and conditions
//! are dependences like others, so there is nothing to turn back: early returns are points in
//! `nodes`, several exits are several places that generate the event, a loop is one node. What
//! if-conversion would add is freedom to compute an op upstream although its condition is known
//! downstream only; that freedom buys wasted work, except for table accesses, which must not be
//! speculated anyway.

mod choose;
mod crossing;
mod cursor;
mod cutter;
mod flow;
mod graph;
mod nodes;
mod project;
mod restart;
mod weigh;

use nicforge_ir::{Body, EventId, HandlerId, InstId, Program, Verified};
use nicforge_passes::registry::PREPARE;
use nicforge_passes::{PassError, PassManager};

pub use crossing::{Crossing, crossing};
pub use cursor::{Cursor, cursor_at_event};
pub use cutter::Cutter;

use nodes::Work;

/// Weights of nodes when the two parts are balanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// Bytes of the tables a part accesses.
    State,
    /// Cycles per event.
    Instructions,
    /// Number of tables.
    Tables,
}

impl Objective {
    pub const ALL: [Objective; 3] = [Objective::State, Objective::Instructions, Objective::Tables];

    /// Its word on command lines and in plans.
    pub fn name(self) -> &'static str {
        match self {
            Objective::State => "state",
            Objective::Instructions => "instructions",
            Objective::Tables => "tables",
        }
    }
}

/// Costs, from the target.
pub struct Weights<'a> {
    /// Cycles of one op without its regions.
    pub op: &'a dyn Fn(&Program, &Body, InstId) -> f64,
}

/// Options of a cut.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub objective: Objective,
    /// Wanted share of the weight upstream, between 0 and 1.
    pub balance: f64,
    /// Shares this far from it are as good; among them the fewest bytes win.
    pub tolerance: f64,
    /// The event may go without the packet, behind what was done with it: for targets whose stages
    /// need not pass packets.
    pub without_packet: bool,
    /// Downstream may read the packet's headers again instead of being given them, where nothing
    /// changed the packet before. Each read counts as this many carried bytes; `None`: never.
    pub reread_bytes: Option<u32>,
    /// Both parts are simplified, and the event carries only what is left.
    pub clean: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            objective: Objective::Instructions,
            balance: 0.5,
            tolerance: 0.15,
            without_packet: true,
            reread_bytes: None,
            clean: true,
        }
    }
}

/// A program with one more stage.
#[derive(Clone, Debug)]
pub struct Cut {
    pub program: Verified<Program>,
    pub upstream: HandlerId,
    pub downstream: HandlerId,
    pub event: EventId,
    /// Carried per event: the parameters' sizes, without the packet.
    pub bytes: u32,
    /// Upstream's and downstream's part of the weight; what is computed twice counts twice.
    pub shares: (f64, f64),
}

/// Why a handler is not cut.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NoCut {
    #[error(
        "handler `{handler}` calls functions; prepare the program first (`cut::prepare` inlines them)"
    )]
    Calls { handler: String },
    #[error(
        "handler `{handler}` takes more than one packet, and an event between stages carries one"
    )]
    Packets { handler: String },
    #[error(
        "handler `{handler}` accesses {tables}, so stages cannot share its {what}; cut it by instructions"
    )]
    OneSided { handler: String, tables: String, what: &'static str },
    #[error("handler `{handler}` cannot be divided: {reason}")]
    Indivisible { handler: String, reason: String },
    /// A bug here.
    #[error(
        "internal error: cutting handler `{handler}` left a program that does not verify: {error}"
    )]
    Broken { handler: String, error: String },
}

/// Brings a program into the form that cuts well: functions inlined and everything simplified, but
/// nothing copied for speed, as copies of a table access would have to stay together.
///
/// # Errors
///
/// If a pass is broken.
pub fn prepare(program: &Verified<Program>) -> Result<Verified<Program>, PassError> {
    let mut manager = PassManager::new();
    let program = manager.run(program.clone(), &PREPARE)?;
    manager.simplify(program)
}

/// As [`prepare`], and queues carry the members of structs that live behind them; there they are
/// structs again.
///
/// # Errors
///
/// If a pass is broken.
pub fn narrowed(program: &Verified<Program>) -> Result<Verified<Program>, PassError> {
    cutter::narrow(prepare(program)?)
}

/// As [`prepare`], and queues carry what lives behind them only.
///
/// # Errors
///
/// If a pass is broken.
pub fn trimmed(program: &Verified<Program>) -> Result<Verified<Program>, PassError> {
    cutter::clean_up(prepare(program)?)
}

/// Cuts a handler in two. Who cuts it in several ways keeps a [`Cutter`].
///
/// # Errors
///
/// If it has no two parts, or none that the objective can weigh; the error says why.
pub fn cut(
    program: &Verified<Program>,
    handler: HandlerId,
    weights: &Weights,
    options: &Options,
) -> Result<Cut, NoCut> {
    Cutter::new(program, handler, weights)?.cut(options)
}

/// Names for the new event and handler: the handler's, numbered as stages are, from 2.
fn stage_names(program: &Program, handler: HandlerId) -> (String, String) {
    let name = &program.handlers[handler].name;
    let base = match name.rsplit_once("_stage") {
        Some((base, number)) if number.parse::<u32>().is_ok() => base,
        _ => name,
    };
    let taken = |name: &String| {
        program.events.values().any(|event| event.name == *name)
            || program.handlers.values().any(|handler| handler.name == *name)
    };
    let free = (2..).map(|number| format!("{base}_stage{number}")).find(|name| !taken(name));
    let free = free.unwrap_or_default();
    (free.clone(), free)
}

/// Why there is no candidate.
fn no_cut(program: &Program, handler: String, work: &Work, objective: Objective) -> NoCut {
    let mut tables: Vec<&str> = Vec::new();
    for table in work.nodes.iter().flat_map(|node| &node.touches.tables) {
        let name = program.tables[*table].name.as_str();
        if !tables.contains(&name) {
            tables.push(name);
        }
    }
    match (objective, &tables[..]) {
        (Objective::Instructions, _) => NoCut::Indivisible {
            handler,
            reason: "everything with an effect depends on the rest in a circle, or must stay in one stage"
                .to_string(),
        },
        (_, []) => NoCut::OneSided { handler, tables: "no table".into(), what: objective.name() },
        (_, [one]) => {
            NoCut::OneSided { handler, tables: format!("table `{one}` only"), what: objective.name() }
        }
        (_, several) => NoCut::Indivisible {
            handler,
            reason: format!(
                "what it does to the tables {} depends on each other both ways",
                several.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            ),
        },
    }
}
