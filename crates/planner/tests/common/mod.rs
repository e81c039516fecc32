//! What the tests of the cut share.

use std::collections::BTreeMap;

use nicforge_ir::text::{PrintOptions, print};
use nicforge_ir::{
    Body, Class, InputEvent, InstId, Interp, Output, Program, TableBackend, TableId, TableKind,
    Verified, Work,
};
use nicforge_planner::cut::{Cut, NoCut, Options, Weights, cut};

/// Cycles of an op on no target in particular: what reaches memory is dear.
pub fn cycles(_: &Program, body: &Body, inst: InstId) -> f64 {
    let op = &body.insts[inst].op;
    match (op.work(), op.class()) {
        (Work::Free | Work::Member, Class::Value) => 0.0,
        (Work::Entry, _) => {
            if op.effects().commutes {
                40.0
            } else {
                60.0
            }
        }
        (Work::Append | Work::Bytes, _) | (Work::Leave, Class::Bytes) => 40.0,
        (Work::Read | Work::Write, _) => 4.0,
        (Work::Hash | Work::Sum | Work::PacketSum | Work::Crypto, _) => 12.0,
        (Work::Leave, _) => 10.0,
        _ => 1.0,
    }
}

pub fn cut_with(
    program: &Verified<Program>,
    handler: nicforge_ir::HandlerId,
    options: &Options,
) -> Result<Cut, NoCut> {
    cut(program, handler, &Weights { op: &cycles }, options)
}

pub fn text(program: &Program) -> String {
    print(program, PrintOptions::default())
}

/// Everything that a run leaves: outputs, tables, counters, evictions by table.
pub fn behaviour(
    program: &Verified<Program>,
    events: &[InputEvent],
    fill: &dyn Fn(&mut Interp),
) -> Vec<String> {
    let mut interp = Interp::new(program);
    fill(&mut interp);
    let mut seen = Vec::new();
    for event in events {
        let outputs: Result<Vec<Output>, _> = interp.run(event);
        // Two tables are two memories: which of them evicted first cannot be seen.
        let mut evictions: BTreeMap<TableId, Vec<String>> = BTreeMap::new();
        for eviction in interp.evictions() {
            evictions.entry(eviction.table).or_default().push(format!("{eviction:?}"));
        }
        seen.push(format!("{outputs:?} {evictions:?}"));
    }
    for (table, data) in &program.tables {
        let (refused, evicted) =
            (interp.counters().refused[table], interp.counters().evicted[table]);
        seen.push(format!("{}: {:?} {refused} {evicted}", data.name, interp.dump(table)));
    }
    seen
}

/// The first difference, with both programs.
pub fn difference(
    before: &[String],
    program: &Verified<Program>,
    events: &[InputEvent],
    fill: &dyn Fn(&mut Interp),
) -> Option<String> {
    let now = behaviour(program, events, fill);
    let (at, (want, got)) = before.iter().zip(&now).enumerate().find(|(_, (a, b))| a != b)?;
    Some(format!("at {at}\nwant {want}\ngot  {got}\n{}", text(program)))
}

/// A mutable table that two stages of one event share, which no cut may cause.
pub fn shared_table(program: &Program) -> Option<String> {
    for (table, data) in &program.tables {
        let mut writes = false;
        let mut users = Vec::new();
        for handler in program.handlers.values() {
            let mut uses = false;
            handler.body.for_each_inst(handler.body.entry(), &mut |inst| {
                let effects = handler.body.insts[inst].op.effects();
                let touched = [effects.table_read, effects.table_write].contains(&Some(table));
                uses |= touched;
                writes |=
                    effects.table_write == Some(table) || (touched && data.kind == TableKind::Lru);
            });
            // Stages of one event have names `event` and `event_stageN`.
            let base = handler.name.split("_stage").next().unwrap_or_default().to_string();
            if uses {
                users.push((base, handler.name.clone()));
            }
        }
        let doubled =
            users.iter().enumerate().find(|(i, a)| users[..*i].iter().any(|b| a.0 == b.0));
        if let (true, Some((_, (_, name)))) = (writes, doubled) {
            return Some(format!("table {} is accessed in {name} and in another stage", data.name));
        }
    }
    None
}
