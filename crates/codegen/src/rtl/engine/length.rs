//! Turns of an engine, and how many cycles an event takes on it: what deciding on the number of
//! engines needs.
//!
//! An event uses a table that is changed, or sends something, in its turn, which begins when all
//! older events are done with that. Its turn at a table ends where no way leads to another use; its
//! turn to send ends with the event. So engines follow one another from table to table.
//!
//! Cycles are estimated: the longest way through the states, with what states wait if nobody is in
//! their way. Loops that can only end with their last trip take all trips, others a third of them:
//! what they go through, such as names and keys, is sized for the longest. From its first use to
//! its last one is what engines cannot do at the same time.

use nicforge_ir::TableKind;

use super::super::shape::number;
use super::super::state::{State, StateId, States};
use super::super::tables::TableForm;

/// Cycles of a frame or message on its longest way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    pub states: u32,
    pub cycles: u32,
    /// Of these, the longest in which no other engine can have the same turn.
    pub in_turn: u32,
    /// Cycles of a second that ticks of timers take, in which nothing else is done.
    pub ticking: u64,
}

/// Cycles a state waits: bytes (nf_access: a write takes 3, a read 6 for a piece), a table's answer
/// (nf_table_*), a division (nf_divider).
fn cycles(state: &State, tables: &[TableForm]) -> u32 {
    let asks = |form: &&TableForm| {
        state.outputs.iter().any(|(name, _)| *name == format!("{}_req", form.signals))
    };
    let writes =
        || state.outputs.iter().any(|(name, value)| name == "a_op" && *value == number(2, 1));
    match state.until.as_deref() {
        Some("a_done") if writes() => 4,
        Some("a_done") => 7,
        Some("div_done") => 66,
        Some(_) => match tables.iter().find(asks) {
            Some(form) if form.kind == TableKind::Array => 3,
            Some(_) => 5,
            None => 1,
        },
        None => 1,
    }
}

/// True if a state uses a table or its byte strings.
fn uses(state: &State, form: &TableForm) -> bool {
    let asked = format!("{}_req", form.signals);
    let memory = form.bytes.as_ref().map(|store| number(4, store.memory));
    state.outputs.iter().any(|(name, value)| {
        *name == asked
            || (matches!(name.as_str(), "a_mem" | "a_to_mem" | "c_mem")
                && Some(value) == memory.as_ref())
    })
}

/// States from which a way leads to one of these, themselves included.
fn before(states: &States, wanted: &[bool]) -> Vec<bool> {
    let mut list = wanted.to_vec();
    loop {
        let leads =
            |at: &StateId| !list[*at] && states.list[*at].arms.iter().any(|arm| list[arm.to]);
        // Waiting for the next event, the first state, is no part of a way.
        let more: Vec<StateId> = (1..list.len()).filter(leads).collect();
        if more.is_empty() {
            return list;
        }
        more.into_iter().for_each(|at| list[at] = true);
    }
}

/// States in which an event may still use a table.
fn turn(states: &States, form: &TableForm) -> Vec<bool> {
    let used: Vec<bool> = states.list.iter().map(|state| uses(state, form)).collect();
    before(states, &used)
}

/// Has every state say which turns are over.
pub fn passed(states: &mut States, tables: &[TableForm]) {
    for form in tables.iter().filter(|form| form.changed) {
        let within = turn(states, form);
        for (state, within) in states.list.iter_mut().zip(within).skip(1) {
            if !within {
                state.outputs.push((format!("{}_passed", form.signals), "1'b1".to_string()));
            }
        }
    }
}

/// Cycles from states to the end of the event or of a turn, by depth first search; ways back are
/// loops and end there.
struct Ways<'a> {
    states: &'a States,
    tables: &'a [TableForm],
    /// States that count.
    within: &'a [bool],
    /// Of the cycles of all ways on, which.
    choose: fn(u32, u32) -> u32,
    /// Cycles that a state is passed for more than once, where a loop begins.
    more: &'a [u32],
    known: Vec<Option<u32>>,
    open: Vec<bool>,
}

impl Ways<'_> {
    fn from(&mut self, at: StateId) -> u32 {
        if let Some(known) = self.known[at] {
            return known;
        }
        self.open[at] = true;
        let state = &self.states.list[at];
        let goes = |to: &StateId| !self.open[*to] && self.within[*to];
        let next: Vec<StateId> = state.arms.iter().map(|arm| arm.to).filter(goes).collect();
        let choose = self.choose;
        let rest = next.into_iter().map(|to| self.from(to)).reduce(choose).unwrap_or(0);
        self.open[at] = false;
        let all = (cycles(state, self.tables) + self.more[at]).saturating_add(rest);
        self.known[at] = Some(all);
        all
    }
}

/// Cycles of all trips of loops but the first, at the states where they begin; inner loops come
/// before those around them.
fn trips(states: &States, tables: &[TableForm]) -> Vec<u32> {
    let count = states.list.len();
    let mut more = vec![0u32; count];
    let mut loops: Vec<(Vec<bool>, StateId, StateId, u32)> = states
        .loops
        .iter()
        .map(|&(head, last, most)| {
            let mut wanted = vec![false; count];
            wanted[last] = true;
            let mut inside = before(states, &wanted);
            let from = after(states, head);
            inside.iter_mut().zip(from).for_each(|(inside, from)| *inside &= from);
            (inside, head, last, most)
        })
        .collect();
    loops.sort_by_key(|(inside, ..)| inside.iter().filter(|one| **one).count());
    for (inside, head, last, most) in loops {
        let leaves = |at: &StateId| {
            inside[*at] && *at != last && states.list[*at].arms.iter().any(|arm| !inside[arm.to])
        };
        let mean = if (0..count).any(|at| leaves(&at)) { most.div_ceil(3) } else { most };
        let known = more.clone();
        let mut trip = Ways {
            states,
            tables,
            within: &inside,
            choose: u32::max,
            more: &known,
            known: vec![None; count],
            open: vec![false; count],
        };
        more[head] =
            more[head].saturating_add(trip.from(head).saturating_mul(mean.saturating_sub(1)));
    }
    more
}

/// States to which a way leads from one, itself included.
fn after(states: &States, from: StateId) -> Vec<bool> {
    let mut list = vec![false; states.list.len()];
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        // Waiting for the next event, the first state, is no part of a way.
        if at != 0 && !std::mem::replace(&mut list[at], true) {
            open.extend(states.list[at].arms.iter().map(|arm| arm.to));
        }
    }
    list
}

/// Cycles from each of these states on.
fn ways(
    states: &States,
    tables: &[TableForm],
    from: impl Fn(StateId) -> bool,
    within: &[bool],
    choose: fn(u32, u32) -> u32,
) -> Vec<u32> {
    let count = states.list.len();
    let more = trips(states, tables);
    let mut ways = Ways {
        states,
        tables,
        within,
        choose,
        more: &more,
        known: vec![None; count],
        open: vec![false; count],
    };
    let list = (0..count).filter(|at| from(*at));
    list.map(|at| ways.from(at)).collect()
}

/// Of states whose first one waits for events.
pub fn length(states: &States, tables: &[TableForm]) -> Length {
    let is_tick = |at: StateId| states.ticks.iter().any(|(start, _)| *start == at);
    // The end leads to the beginning.
    let mut all = vec![true; states.list.len()];
    all[0] = false;
    // Ticks have ways of their own.
    let mut ticks_only = vec![false; states.list.len()];
    for (start, _) in &states.ticks {
        ticks_only.iter_mut().zip(after(states, *start)).for_each(|(only, one)| *only |= one);
    }
    let starts = states.list.first().into_iter().flat_map(|idle| &idle.arms).map(|arm| arm.to);
    for start in starts.filter(|start| !is_tick(*start)) {
        ticks_only.iter_mut().zip(after(states, start)).for_each(|(only, one)| *only &= !one);
    }
    let ticking = states.ticks.iter().fold(0u64, |sum, (start, period)| {
        let begins = |at: usize| at == *start;
        let cycles = ways(states, tables, begins, &all, u32::max).into_iter().max().unwrap_or(0);
        sum.saturating_add(u64::from(cycles) * 1_000_000_000 / period.max(&1))
    });
    let leaves = |at: usize| {
        let sends = |(name, _): &(String, String)| name == "c_valid" || name == "rec_kind";
        !ticks_only[at] && states.list[at].outputs.iter().any(sends)
    };
    // Behind what leaves ways join others that begin with something else, so of these the mean of
    // the shortest.
    let leaving = ways(states, tables, leaves, &all, u32::min);
    let mut in_turn = leaving.iter().sum::<u32>().div_ceil(leaving.len().max(1) as u32);
    for form in tables.iter().filter(|form| form.changed) {
        let using = |at: usize| !ticks_only[at] && uses(&states.list[at], form);
        let using = ways(states, tables, using, &turn(states, form), u32::max);
        in_turn = using.into_iter().fold(in_turn, u32::max);
    }
    let waits = |at: usize| states.list[at].outputs.iter().any(|(name, _)| name == "idle");
    all.iter_mut().zip(&ticks_only).for_each(|(all, only)| *all &= !only);
    let cycles = ways(states, tables, waits, &all, u32::max).into_iter().max().unwrap_or(0);
    Length { states: states.list.len() as u32, cycles, in_turn, ticking }
}
