//! Handlers as a pipe: a packet each cycle.
//!
//! `dag` makes the handlers one piece of logic without control flow, `ports` gives the keys of
//! tables lookup ports, `leave` says what is changed and sent (`several`, if that is more than one
//! thing), `schedule` puts registers into it all by what `arrival` knows of times, and `print`
//! writes it down; `tables` and `top` are what stands around it. `at_once` joins several entries of
//! a table that one packet changes. `gate` is where packets wait, if a table is changed later than
//! it is read, or bytes of a string are still on their way (`string_lock`); `levels` says of
//! everything how many gates lie in front of it. What a program changes in a table it changes in
//! one place of the pipe, so the next packet finds it changed; programs for which that cannot be
//! done run on an engine.

mod arrival;
mod at_once;
pub mod dag;
mod exclusive;
mod exits;
mod gate;
pub mod leave;
mod levels;
mod order;
pub mod ports;
pub mod print;
pub mod schedule;
mod several;
mod string_lock;
mod tables;
pub mod top;
mod tournament;

use std::collections::{BTreeMap, BTreeSet};

use nicforge_ir::{Direction, Handler, HandlerId, Program, TableId, TableKind};

use self::dag::{Dag, NoPipe, Walk};
use self::leave::Commit;
use self::schedule::{Pipe, schedule};
use super::expr::Lower;
use super::limits;
use super::shape::Bits;
use super::tables::TableForm;
use super::trigger::Trigger;
use crate::c::names::Names;

/// The pipe of a program, or why there is none.
pub fn pipe(
    program: &Program,
    bits: &Bits,
    tables: &[TableForm],
    names: Names,
) -> Result<Pipe, NoPipe> {
    let tables: Vec<TableForm> = tables.iter().map(TableForm::in_pipe).collect();
    let mut in_turn = BTreeSet::new();
    let turns = loop {
        let mut dag = Dag::new(program, bits, &tables);
        dag.in_turn.clone_from(&in_turn);
        match attempt(&mut dag, names.clone()) {
            // Of this table a packet needs several entries one behind the other.
            Err(_) if dag.again.is_some_and(|table| in_turn.insert(table)) => {}
            found => break found,
        }
    };
    if in_turn.is_empty() {
        return turns;
    }
    // All of them at once, where there is memory for that, if packets follow sooner then.
    let can = |table: &usize| matches!(tables[*table].kind, TableKind::Array | TableKind::Hash);
    let mut at_once: BTreeSet<usize> = in_turn.iter().copied().filter(can).collect();
    let mut refused: BTreeMap<usize, NoPipe> = BTreeMap::new();
    while !at_once.is_empty() {
        let mut dag = Dag::new(program, bits, &tables);
        dag.in_turn.clone_from(&in_turn);
        dag.at_once.clone_from(&at_once);
        let Ok(made) = attempt(&mut dag, names.clone()) else { break };
        let slower = || {
            let turns = turns.as_ref().ok()?;
            (expected(&made, &tables) >= expected(turns, &tables))
                .then(|| no_sooner(&made, turns, program, &tables))
        };
        let refusal = limits::copies(program, &tables, &made.commits)
            .or_else(|| not_told_apart(&made, program));
        match refusal.or_else(slower) {
            None => return Ok(Pipe { in_turn: refused.into_values().collect(), ..made }),
            Some((table, why)) => {
                at_once.remove(&table);
                refused.insert(table, why);
            }
        }
    }
    turns.map(|turns| Pipe { in_turn: refused.into_values().collect(), ..turns })
}

/// Cycles from a packet to the next if keys are random. Readers of byte strings wait for others
/// whether entries are given at once or not.
fn expected(pipe: &Pipe, tables: &[TableForm]) -> f64 {
    let at_once = || pipe.commits.iter().filter(|commit| commit.at_once);
    let meeting = at_once().map(Commit::cycles).max().unwrap_or(1);
    let more = f64::from(meeting.saturating_sub(pipe.interval));
    // One that follows `d` cycles behind another one waits for the rest.
    let of = |commit: &Commit| {
        let chance = tables[commit.table].meeting_chance(commit.ends.len());
        (1..commit.cycles()).map(|behind| chance * f64::from(commit.cycles() - behind)).sum::<f64>()
    };
    f64::from(pipe.interval) + more.min(at_once().map(of).sum())
}

/// A table, by number, that hashes and finds places for new entries, though no gate tells packets
/// of other entries apart.
fn not_told_apart(made: &Pipe, program: &Program) -> Option<(usize, NoPipe)> {
    let apart = |table| made.apart(table) > 0;
    let found = made
        .commits
        .iter()
        .find(|commit| commit.at_once && commit.hashes && !apart(commit.table))?;
    let table = &program.tables[TableId::from_u32(found.table as u32)];
    let reason = format!(
        "packets of other entries of table `{}` cannot be told apart before it is asked",
        table.name
    );
    Some((found.table, NoPipe { reason, span: table.span }))
}

/// The table in which packets meet most often, of which they follow no sooner if given all entries
/// at once.
fn no_sooner(
    made: &Pipe,
    turns: &Pipe,
    program: &Program,
    tables: &[TableForm],
) -> (usize, NoPipe) {
    let chance = |commit: &Commit| tables[commit.table].meeting_chance(commit.ends.len());
    let at_once = made.commits.iter().filter(|commit| commit.at_once);
    let most =
        at_once.max_by(|a, b| chance(a).total_cmp(&chance(b))).expect("a table is given at once");
    let table = &program.tables[TableId::from_u32(most.table as u32)];
    let reason = format!(
        "{} entries of table `{}` at once would take {:.2} cycles a packet of random keys ({} where they meet), in turn {}",
        most.ends.len(),
        table.name,
        expected(made, tables),
        made.meeting,
        turns.interval
    );
    (most.table, NoPipe { reason, span: table.span })
}

fn attempt(dag: &mut Dag, mut names: Names) -> Result<Pipe, NoPipe> {
    let (program, bits) = (dag.program, dag.bits);
    let mut bytes = None;
    let mut constants = Vec::new();
    // Internal events are handled with those that lead to them.
    let outside = |(_, handler): &(HandlerId, &Handler)| {
        program.events[handler.event].direction != Direction::Internal
    };
    for (id, handler) in program.handlers.iter().filter(outside) {
        let Some(trigger) = Trigger::of(program, bits, id) else {
            let name = &program.events[handler.event].name;
            let reason = format!("hardware has no event `{name}`");
            return Err(NoPipe { reason, span: handler.span });
        };
        bytes = bytes.or(trigger.message());
        let low = Lower::new(bits, &handler.body, names);
        let mut low = Walk::handler(dag, low, &handler.body, trigger)?;
        constants.append(&mut low.declared);
        names = low.names;
    }
    tournament::trees(&mut dag.wires, &mut names);
    schedule(dag, constants, names, bytes)
}
