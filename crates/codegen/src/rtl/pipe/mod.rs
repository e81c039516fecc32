//! Handlers as a pipe: a packet each cycle.
//!
//! `dag` makes the handlers one piece of logic without control flow, `ports` gives the keys of tables lookup ports, `leave` says what is
//! changed and sent (`several`, if that is more than one thing), `schedule` puts registers into it all by what `arrival` knows of times, and `print` writes it down; `tables` and `top`
//! are what stands around it. `at_once` joins several entries of a table that one packet changes. `gate` is where packets wait, if a table is changed later than it is read. What a program changes in a table it changes in one place of the pipe, so the next packet finds it changed;
//! programs for which that cannot be done run on an engine.

mod arrival;
mod at_once;
pub mod dag;
mod exclusive;
mod gate;
pub mod leave;
mod order;
pub mod ports;
pub mod print;
pub mod schedule;
mod several;
mod tables;
pub mod top;
mod tournament;

use std::collections::{BTreeMap, BTreeSet};

use nicforge_ir::{Direction, Handler, Program, TableKind};

use self::dag::{Dag, NoPipe, Walk};
use self::schedule::{Pipe, schedule};
use super::expr::Lower;
use super::limits;
use super::shape::Bits;
use super::tables::TableForm;
use crate::c::names::Names;

/// The pipe of a program, or why there is none.
pub fn pipe(program: &Program, bits: &Bits, tables: &[TableForm], names: Names) -> Result<Pipe, NoPipe> {
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
    let array = |table: &usize| tables[*table].kind == TableKind::Array;
    let mut at_once: BTreeSet<usize> = in_turn.iter().copied().filter(array).collect();
    let mut refused: BTreeMap<usize, NoPipe> = BTreeMap::new();
    while !at_once.is_empty() {
        let mut dag = Dag::new(program, bits, &tables);
        dag.in_turn.clone_from(&in_turn);
        dag.at_once.clone_from(&at_once);
        let made = attempt(&mut dag, names.clone());
        let (table, why) = match (made, &dag.not_at_once) {
            (_, Some(found)) => found.clone(),
            (Err(_), None) => break,
            (Ok(made), None) => match limits::copies(program, &tables, &made.commits) {
                Some(found) => found,
                None => {
                    let cycles = |pipe: &Pipe| (pipe.interval, pipe.meeting);
                    let sooner = turns.as_ref().map_or(true, |turns| cycles(&made) < cycles(turns));
                    if sooner {
                        return Ok(Pipe { in_turn: refused.into_values().collect(), ..made });
                    }
                    break;
                }
            },
        };
        at_once.remove(&table);
        refused.insert(table, why);
    }
    turns.map(|turns| Pipe { in_turn: refused.into_values().collect(), ..turns })
}

fn attempt(dag: &mut Dag, mut names: Names) -> Result<Pipe, NoPipe> {
    let (program, bits) = (dag.program, dag.bits);
    let mut message_bytes = None;
    let mut constants = Vec::new();
    // Internal events are handled with those that lead to them.
    let outside = |handler: &&Handler| program.events[handler.event].direction != Direction::Internal;
    for handler in program.handlers.values().filter(outside) {
        let message = program.events[handler.event].name == "host_send";
        if message {
            let params = &program.events[handler.event].params;
            message_bytes = Some(params.iter().map(|param| bits.bytes(param.ty)).sum::<u32>());
        }
        let low = Lower::new(bits, &handler.body, names);
        let mut low = Walk::handler(dag, low, &handler.body, message)?;
        constants.append(&mut low.declared);
        names = low.names;
    }
    tournament::trees(&mut dag.wires, &mut names);
    schedule(dag, constants, names, message_bytes)
}
