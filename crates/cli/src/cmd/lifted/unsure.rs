//! Results that a comparison with the kernel leaves out, since chance decides them: the time,
//! random numbers, and which entries a full LRU map gives up.

use std::collections::BTreeSet;

use nicforge_driver::given_up::{ROOMY, with_capacity};
use nicforge_driver::{Failure, events};
use nicforge_ir::interp::Interp;
use nicforge_ir::{
    Entry, Input, InputEvent, Output, Program, TableBackend, TableId, TableKind, Verified,
};
use nicforge_run::xdp::Original;

use super::{Subject, key};

impl Subject {
    /// Runs the events at other times and with other random numbers, and forgets what is not the
    /// same then: results of events, entries of tables. Several times, since something may be the
    /// same by chance: twice, and then as long as something differs from what the kernel did, 16
    /// times at most.
    pub(super) fn forget_unsure(
        &self,
        entries: &[(TableId, Entry)],
        events: &mut [Compared],
        tables: &mut [Held],
    ) -> Result<(), Failure> {
        const LEAST: u64 = 2;
        const MOST: u64 = 16;
        for nth in 1..=MOST {
            let differs = events.iter().any(|one| one.is_sure && one.difference.is_some())
                || tables.iter().any(|table| table.want != table.got);
            if nth > LEAST && !differs {
                break;
            }
            let other = rerun(&self.program, entries, events, |event| at_another_time(event, nth))?;
            self.keep_same(other, events, tables)?;
        }
        Ok(())
    }

    /// Forgets what hangs on the entries that full LRU maps gave up, of which the kernel chooses
    /// others than the interpreter: what is not the same where they give up none, and where they
    /// give up all but the newest.
    pub(super) fn forget_given_up(
        &self,
        entries: &[(TableId, Entry)],
        events: &mut [Compared],
        tables: &mut [Held],
    ) -> Result<(), Failure> {
        let lru = |table: &TableId| self.program.tables[*table].kind == TableKind::Lru;
        if !self.program.tables.keys().any(|table| lru(&table)) {
            return Ok(());
        }
        let roomy = with_capacity(&self.program, ROOMY)?;
        let narrow = with_capacity(&self.program, 1)?;
        let all = rerun(&roomy, entries, events, InputEvent::clone)?;
        let mut is_full = false;
        for table in self.program.tables.keys().filter(lru) {
            let held = contents(&all.0, table)?.len();
            is_full |= may_give_up(held as u64, self.program.tables[table].capacity.into());
        }
        if is_full {
            self.keep_same(all, events, tables)?;
            let few = rerun(&narrow, entries, events, InputEvent::clone)?;
            self.keep_same(few, events, tables)?;
        }
        Ok(())
    }

    /// Keeps what is the same in another run.
    fn keep_same(
        &self,
        (other, outputs): (Interp, Vec<Vec<Output>>),
        events: &mut [Compared],
        tables: &mut [Held],
    ) -> Result<(), Failure> {
        for (one, found) in events.iter_mut().zip(outputs) {
            one.is_sure &= found == one.want;
        }
        for table in tables {
            let mut other = contents(&other, table.table)?;
            self.since_first(table.name, &mut other);
            table.forget(&other);
        }
        Ok(())
    }

    /// Runs events in the kernel again that differ there, after all others: what it does otherwise
    /// now is decided by chance, if that is what the lifted program does.
    pub(super) fn ask_again(
        &self,
        kernel: &Original,
        events: &mut [Compared],
    ) -> Result<(), Failure> {
        const TIMES: usize = 64;
        for one in events.iter_mut().filter(|one| one.is_sure && one.difference.is_some()) {
            let Input::Net { frame, .. } = &one.event.input else { continue };
            for _ in 0..TIMES {
                let ran = kernel.run(frame).map_err(|e| Failure::of(e.fault(), e))?;
                let is_same = |ran| self.difference(&one.want, &ran).is_none();
                if ran.is_some_and(is_same) {
                    one.is_sure = false;
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Runs events in the interpreter; the tables afterwards, and what came of each event.
fn rerun<'a>(
    program: &'a Verified<Program>,
    entries: &[(TableId, Entry)],
    events: &[Compared],
    like: impl Fn(&InputEvent) -> InputEvent,
) -> Result<(Interp<'a>, Vec<Vec<Output>>), Failure> {
    let mut interp = Interp::new(program);
    events::fill(&mut interp, entries)?;
    let mut run = |one: &Compared| {
        let fail = |e| Failure::user(format!("event {}: {e}", one.nth + 1));
        interp.run(&like(one.event)).map_err(fail)
    };
    let outputs = events.iter().map(&mut run).collect::<Result<_, _>>()?;
    Ok((interp, outputs))
}

/// True if the kernel may have given up entries of an LRU map that would hold so many with room for
/// all. A CPU takes free entries 128 at a time, and makes those that are missing to 128
/// (`LOCAL_FREE_TARGET` of kernel/bpf/bpf_lru_list.c).
fn may_give_up(held: u64, capacity: u64) -> bool {
    const TAKEN: u64 = 128;
    held >= capacity.min(TAKEN) && held + TAKEN > capacity
}

/// An event that both the lifted program and the object had.
pub(super) struct Compared<'a> {
    pub nth: usize,
    pub event: &'a InputEvent,
    pub want: Vec<Output>,
    pub difference: Option<String>,
    /// False if the time, random numbers or full LRU maps decide it.
    pub is_sure: bool,
}

impl Compared<'_> {
    pub fn said(&self) -> Option<String> {
        self.difference.as_ref().map(|text| format!("event {}: {text}", self.nth + 1))
    }
}

/// A map's entries afterwards: those of the lifted program, and those of the kernel.
pub(super) struct Held<'a> {
    pub table: TableId,
    pub name: &'a str,
    pub want: Contents,
    pub got: Contents,
}

impl Held<'_> {
    /// Leaves out what depends on the time or random numbers: entries that only one of two runs
    /// has, and bytes that they have otherwise.
    fn forget(&mut self, other: &Contents) {
        blank(&mut self.got, &self.want, other);
        let own = self.want.clone();
        blank(&mut self.want, &own, other);
    }

    pub fn difference(&self) -> Option<String> {
        let Held { want, got, name, .. } = self;
        if want == got {
            return None;
        }
        let kernel = |key: &[u8]| {
            let found = got.iter().find(|(own, _)| own == key);
            found.map_or("nothing".to_string(), |(_, value)| format!("{value:x?}"))
        };
        let say = |one: &(Vec<u8>, Vec<u8>)| {
            format!("lifted has {one:x?}, the kernel {}", kernel(&one.0))
        };
        let other = want.iter().find(|one| !got.contains(one)).map(say).or_else(|| {
            let more = got.iter().find(|one| !want.contains(one));
            more.map(|one| format!("the kernel has {one:x?}"))
        });
        Some(format!("map {name}: {}", other.unwrap_or_default()))
    }
}

pub(super) type Contents = Vec<(Vec<u8>, Vec<u8>)>;

pub(super) fn contents(interp: &Interp, table: TableId) -> Result<Contents, Failure> {
    let found = interp.dump(table).map_err(|e| Failure::user(e.to_string()))?;
    let mut found: Contents = found.into_iter().map(|entry| (key(&entry), entry.value)).collect();
    found.sort();
    Ok(found)
}

/// Leaves out of a list entries that only one of two runs has, and bytes that they have otherwise;
/// where their keys differ, as those that times are, also entries that neither has.
fn blank(list: &mut Contents, one: &Contents, other: &Contents) {
    let find = |all: &Contents, key: &[u8]| {
        all.iter().find(|(own, _)| own == key).map(|(_, value)| value.clone())
    };
    let keys = |all: &Contents| all.iter().map(|(key, _)| key.clone()).collect::<BTreeSet<_>>();
    let are_keys_sure = keys(one) == keys(other);
    list.retain(|(key, _)| match (find(one, key), find(other, key)) {
        (None, None) => are_keys_sure,
        (one, other) => one.is_some() == other.is_some(),
    });
    for (key, value) in list {
        let (Some(one), Some(other)) = (find(one, key), find(other, key)) else { continue };
        for (at, byte) in value.iter_mut().enumerate() {
            *byte = if one.get(at) == other.get(at) { *byte } else { 0 };
        }
    }
}

/// The event as if it had come at another time, and with other random numbers.
fn at_another_time(event: &InputEvent, nth: u64) -> InputEvent {
    // Most bytes are other ones than in times that are small.
    let time_ns = 0x2b2b_2b2b_2b2b_2b2b_u64.wrapping_mul(nth);
    let time_ns = time_ns.wrapping_add(event.time_ns.wrapping_mul(977 + 2 * nth));
    let seed = event.seed.wrapping_add(nth.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    InputEvent { time_ns, seed, input: event.input.clone() }
}
