//! Events and entries that hang on what a full LRU table gives up. A table holds at least its
//! capacity: targets keep more, and kernels give up others than the least recently used.

use std::collections::{BTreeMap, BTreeSet};

use nicforge_ir::interp::Interp;
use nicforge_ir::{Entry, InputEvent, Output, Program, TableBackend, TableId, TableKind, Verified};

use crate::compare::{Held, expected};
use crate::{Failure, events, program};

/// A capacity above what the events of a comparison make.
pub const ROOMY: u32 = 1 << 24;

/// Events and entries that are not the same where full LRU tables give up nothing, or all but the
/// newest entry.
pub struct GivenUp {
    events: BTreeSet<usize>,
    /// Outputs of those events.
    outputs: Vec<Output>,
    entries: BTreeMap<TableId, BTreeSet<Vec<u8>>>,
}

/// Results of a run: outputs of each event, and tables.
type Ran = (Vec<Vec<Output>>, Vec<(TableId, Vec<Entry>)>);

impl GivenUp {
    /// Runs the events with LRU tables of two other sizes. None if no table would hold more than
    /// its capacity.
    ///
    /// # Errors
    /// The interpreter cannot run an event.
    pub fn find(
        source: &Verified<Program>,
        entries: &[(TableId, Entry)],
        events: &[InputEvent],
    ) -> Result<Option<GivenUp>, Failure> {
        let is_lru = |table: TableId| source.tables[table].kind == TableKind::Lru;
        if !source.tables.keys().any(is_lru) {
            return Ok(None);
        }
        let roomy = run(source, Some(ROOMY), entries, events)?;
        let is_full = |(table, held): &(TableId, Vec<Entry>)| {
            is_lru(*table) && held.len() > source.tables[*table].capacity as usize
        };
        if !roomy.1.iter().any(is_full) {
            return Ok(None);
        }
        let own = run(source, None, entries, events)?;
        let narrow = run(source, Some(1), entries, events)?;
        let others = [&roomy, &narrow];
        let differs = |event: &usize| others.iter().any(|other| other.0[*event] != own.0[*event]);
        let decided: BTreeSet<usize> = (0..events.len()).filter(differs).collect();
        let runs = [&own, &roomy, &narrow];
        let outputs = |event: &usize| runs.map(|run| run.0[*event].clone()).into_iter().flatten();
        let mut found = GivenUp {
            outputs: decided.iter().flat_map(outputs).collect(),
            events: decided,
            entries: BTreeMap::new(),
        };
        for (at, (table, own)) in own.1.iter().enumerate() {
            let keys = found.entries.entry(*table).or_default();
            for other in others.map(|other| &other.1[at].1) {
                let only = |one: &[Entry], two: &[Entry]| -> Vec<Vec<u8>> {
                    let lacks = |entry: &&Entry| !two.contains(entry);
                    one.iter().filter(lacks).map(|entry| entry.key.clone()).collect()
                };
                keys.extend(only(own, other).into_iter().chain(only(other, own)));
            }
        }
        Ok(Some(found))
    }

    /// Number of those events.
    pub fn events(&self) -> usize {
        self.events.len()
    }

    /// True if what comes of the event hangs on it.
    pub fn decides(&self, event: usize) -> bool {
        self.events.contains(&event)
    }

    /// True if an event that hangs on it may have such an output.
    pub fn explains(&self, output: &Output) -> bool {
        self.outputs.contains(output)
    }

    /// True if an event that hangs on it may be a drop for such a reason.
    pub fn drops(&self, program: &Program, text: &str) -> bool {
        self.outputs.iter().any(|output| match output {
            Output::Drop { reason } => program.reasons[*reason].text == text,
            _ => false,
        })
    }

    /// Leaves out entries whose being there or value hang on it.
    pub fn keep_sure(&self, held: &mut Held) {
        let keys = self.entries.get(&held.table);
        let is_sure = |entry: &Entry| keys.is_none_or(|keys| !keys.contains(&entry.key));
        held.want.retain(is_sure);
        held.got.retain(is_sure);
    }
}

/// The program with LRU tables of a capacity.
///
/// # Errors
/// The program breaks αIR's rules.
pub fn with_capacity(
    source: &Verified<Program>,
    capacity: u32,
) -> Result<Verified<Program>, Failure> {
    let mut other = Program::clone(source);
    let lru = other.tables.values_mut().filter(|def| def.kind == TableKind::Lru);
    lru.for_each(|def| def.capacity = capacity);
    program::check(other)
}

/// Runs events in the interpreter, with LRU tables of another capacity.
fn run(
    source: &Verified<Program>,
    capacity: Option<u32>,
    entries: &[(TableId, Entry)],
    list: &[InputEvent],
) -> Result<Ran, Failure> {
    let other = capacity.map(|capacity| with_capacity(source, capacity)).transpose()?;
    let other = other.as_ref().unwrap_or(source);
    let mut interp = Interp::new(other);
    events::fill(&mut interp, entries)?;
    let outputs = expected(&mut interp, list)?;
    let fail = |e: nicforge_ir::TableError| Failure::environment(e.to_string());
    let dump = |table| Ok((table, interp.dump(table).map_err(fail)?));
    let tables = source.tables.keys().map(dump).collect::<Result<_, Failure>>()?;
    Ok((outputs, tables))
}
