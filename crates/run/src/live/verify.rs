//! A live run of a planned program against the interpreter.
//!
//! Frames that left are known by the number of their event, so each event's own outputs are
//! compared, and their order: what passed the same replicas must leave in the order in which it
//! came. What went to the stack or the host side carries no number and is compared as a set. Drops
//! are counters. Which insert a full table refuses depends on which replica came first; the run
//! recorded it and the interpreter repeats it. A table's first refusal must come when it is full
//! but for what is in flight.

use std::collections::{BTreeSet, HashMap, HashSet};

use nicforge_ir::{
    Entry, Interp, Output, Program, ReasonId, TableBackend, TableId, TableKind, Verified,
};

use super::LARGEST_WINDOW;
use super::report::{LiveError, LiveOutputs, LiveRun, Streams};
use crate::control;
use crate::xdp::{Refusal, Tables, XdpError};

/// Where a run differs from the interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// What an event led to, by its index.
    Outputs {
        event: usize,
        want: Vec<Output>,
        got: Vec<Output>,
    },
    /// Something came out that no event leads to.
    Surplus(Output),
    /// Two frames that took the same way left in the wrong order; the later event's index came
    /// before.
    Order {
        port: u32,
        before: usize,
        after: usize,
    },
    Drops {
        reason: ReasonId,
        want: u64,
        got: u64,
    },
    Table {
        table: TableId,
        want: Vec<Entry>,
        got: Vec<Entry>,
    },
    /// The interpreter could not run an event, or a table take an entry.
    Interpreter {
        event: usize,
        message: String,
    },
}

/// What differs between a run, which began with `entries` in the tables, and the interpreter on the
/// same events.
pub fn differences(
    program: &Verified<Program>,
    entries: &[(TableId, Entry)],
    run: &LiveRun,
    tables: &Tables,
) -> Result<Vec<Difference>, LiveError> {
    let mut found = Vec::new();
    let mut interp = Interp::new(program);
    let problem = |event, message| Difference::Interpreter { event, message };
    if let Err(error) = control::apply(&mut interp, entries) {
        return Ok(vec![problem(0, error.to_string())]);
    }
    let mut refused: Vec<Vec<Refusal>> = vec![Vec::new(); run.seen.len()];
    for refusal in &run.refusals {
        if let Some(list) = refused.get_mut(refusal.event as usize) {
            list.push(*refusal);
        }
    }
    let mut first_refusals = HashSet::new();
    let mut expected = Vec::new();
    for (i, event) in run.seen.iter().enumerate() {
        repeat(&mut interp, &refused[i]);
        match interp.run(event) {
            Ok(outputs) => expected.push(outputs),
            Err(error) => return Ok(vec![problem(i, error.to_string())]),
        }
        for Refusal { table, .. } in &refused[i] {
            let data = &program.tables[*table];
            if data.kind != TableKind::Hash || !first_refusals.insert(*table) {
                continue;
            }
            let entries = interp.dump(*table).map_or(0, |list| list.len());
            if entries + LARGEST_WINDOW < data.capacity as usize {
                let (name, most) = (&data.name, data.capacity);
                found.push(problem(
                    i,
                    format!("`{name}` refused an insert at {entries} of {most} entries"),
                ));
            }
        }
    }
    if let LiveOutputs::Streams(streams) = &run.outputs {
        sends(&expected, streams, &mut found);
        sets(&expected, streams, &mut found);
    }
    let mut wanted: HashMap<ReasonId, u64> = HashMap::new();
    for output in expected.iter().flatten() {
        if let Output::Drop { reason } = output {
            *wanted.entry(*reason).or_default() += 1;
        }
    }
    for (reason, _, got) in &run.report.drops {
        let Some(reason) = *reason else { continue };
        let want = wanted.get(&reason).copied().unwrap_or(0);
        if want != *got {
            found.push(Difference::Drops { reason, want, got: *got });
        }
    }
    for (id, table) in &program.tables {
        let fail = |error: nicforge_ir::TableError| XdpError::Contract(error.to_string());
        let (want, got) = (interp.dump(id).map_err(fail)?, tables.dump(id).map_err(fail)?);
        // Capacity is a minimum: an LRU table may keep what the other evicted.
        let full = table.kind == TableKind::Lru && want.len() as u32 >= table.capacity;
        let same = if full { want.iter().all(|entry| got.contains(entry)) } else { want == got };
        if !same {
            found.push(Difference::Table { table: id, want, got });
        }
    }
    Ok(found)
}

/// Lets the next event refuse what was refused.
fn repeat(interp: &mut Interp, refused: &[Refusal]) {
    let first = refused.iter().filter(|refusal| refusal.key.is_none());
    interp.refuse_next(&first.map(|refusal| refusal.table).collect::<Vec<_>>());
    let tables: BTreeSet<TableId> = refused.iter().map(|refusal| refusal.table).collect();
    for table in tables {
        let here = refused.iter().filter(|refusal| refusal.table == table);
        interp.refuse_keys(table, here.filter_map(|refusal| refusal.key).collect());
    }
}

/// Frames by event, and their order.
fn sends(expected: &[Vec<Output>], streams: &Streams, found: &mut Vec<Difference>) {
    let mut got: Vec<Vec<Output>> = vec![Vec::new(); expected.len()];
    for ((port, frames), trips) in (0u32..).zip(&streams.sent).zip(&streams.trips) {
        let mut last: HashMap<u32, usize> = HashMap::new();
        for (at, frame) in frames.iter().enumerate() {
            let output = Output::Send { port, frame: frame.clone() };
            let Some((trip, list)) =
                trips.get(at).and_then(|trip| Some((trip, got.get_mut(trip.event)?)))
            else {
                found.push(Difference::Surplus(output));
                continue;
            };
            list.push(output);
            if let Some(before) = last.insert(trip.route, trip.event)
                && before > trip.event
            {
                found.push(Difference::Order { port, before, after: trip.event });
            }
        }
    }
    // Copies carry no number: those of an event are what it was to send and did not by itself.
    let mut copies = streams.copies.clone();
    for (event, (want, got)) in expected.iter().zip(got).enumerate() {
        let want: Vec<Output> =
            want.iter().filter(|o| matches!(o, Output::Send { .. })).cloned().collect();
        let mut left = got.iter().peekable();
        let copied =
            |output: &Output| left.next_if_eq(&output).is_some() || take(&mut copies, output);
        if !want.iter().all(copied) || left.next().is_some() {
            found.push(Difference::Outputs { event, want, got });
        }
    }
    found.extend(copies.into_iter().map(Difference::Surplus));
}

/// Takes one like `output` out of a list, if there is one.
fn take(list: &mut Vec<Output>, output: &Output) -> bool {
    let at = list.iter().position(|one| one == output);
    at.map(|at| list.remove(at)).is_some()
}

/// Everything else that came out, without its order.
fn sets(expected: &[Vec<Output>], streams: &Streams, found: &mut Vec<Difference>) {
    let text = |output: &Output| format!("{output:?}");
    let mut rest: HashMap<String, Vec<Output>> = HashMap::new();
    let stack = streams.stack.iter().map(|frame| Output::Stack { frame: frame.clone() });
    for output in stack.chain(streams.host.iter().cloned()) {
        rest.entry(text(&output)).or_default().push(output);
    }
    for (event, outputs) in expected.iter().enumerate() {
        for want in
            outputs.iter().filter(|o| !matches!(o, Output::Send { .. } | Output::Drop { .. }))
        {
            if rest.get_mut(&text(want)).and_then(Vec::pop).is_none() {
                found.push(Difference::Outputs { event, want: vec![want.clone()], got: vec![] });
            }
        }
    }
    found.extend(rest.into_values().flatten().map(Difference::Surplus));
}
