//! Accesses of unchecked programs: what they read, what they change, how long they take (see
//! [`super::locate`]).

use std::collections::BTreeSet;

use super::locate::{Found, range};
use super::{Cell, Node, Read, State, UnrollError, Walk};
use crate::graph::{Contents, Effect, Unchecked, Wait};
use crate::term::{Node as TermNode, Op, Term};

/// Most places one access to private memory, or to given contents, may choose from.
pub(super) const MOST_CELLS: usize = 64;
const MOST_GIVEN: usize = 1024;

/// What is said of addresses that are not known.
const ANY_LOAD: &str = "a load from an address that is not known: any value";
const ANY_STORE: &str =
    "a store to an address that is not known: it may change the stack and the packet";

/// An access.
#[derive(Clone, Copy)]
pub(super) struct Access {
    pub address: Term,
    pub bytes: u8,
    pub place: u32,
}

/// Ways in which a block goes on behind an access.
pub(super) enum Flow {
    On,
    /// There is no memory at the address.
    Fault,
}

impl<'a> Walk<'a> {
    fn unchecked(&self) -> Option<&'a Unchecked> {
        self.graph.unchecked.as_ref()
    }

    fn note(&mut self, place: u32, what: &'static str) {
        self.dag.notes.insert((place, what));
    }

    /// Counts the time of an access.
    pub(super) fn time(
        &mut self,
        state: &State,
        access: Access,
        write: bool,
        node: &mut Node,
    ) -> Flow {
        let Some(unchecked) = self.unchecked() else { return Flow::On };
        let wait = |wait: &Wait| if write { wait.store } else { wait.load };
        let of = |region: &usize| unchecked.waits.get(*region).map_or(0, wait);
        let most = match self.locate(state, access.address, access.bytes) {
            Found::Inside { region, .. } => of(&region),
            Found::Several(regions) => {
                let (least, most) = (regions.iter().map(of).min(), regions.iter().map(of).max());
                node.uncertain += most.unwrap_or(0) - least.unwrap_or(0);
                most.unwrap_or(0)
            }
            Found::Anywhere => {
                let most = unchecked.waits.iter().map(wait).max().unwrap_or(0);
                node.uncertain += most;
                most
            }
            Found::Nowhere => {
                node.waits += unchecked.fault_cycles;
                return Flow::Fault;
            }
        };
        node.waits += most;
        // What crosses a word is accessed twice.
        let within = self.terms.extract(access.address, 0, 2);
        let last = 4 - u64::from(access.bytes).min(4);
        let facts = self.terms.facts(within);
        if facts.high > last {
            node.waits += most + 1;
            if facts.low <= last {
                let limit = self.terms.constant(2, last);
                let crosses = self.terms.ult(limit, within);
                let (once, twice) = (self.terms.constant(32, 0), self.terms.constant(32, most + 1));
                let needed = self.terms.ite(crosses, twice, once);
                node.delays.push((needed, most + 1));
            }
        }
        Flow::On
    }

    /// Counts cycles that may depend on values.
    pub(super) fn delay(&mut self, state: &State, cycles: Term, node: &mut Node) {
        let most = range(self.terms, state, cycles).1;
        node.waits += most;
        if self.terms.value(cycles).is_none() {
            node.delays.push((cycles, most));
        }
    }

    /// The candidates of an address, if they are few.
    pub(super) fn candidates(
        &self,
        address: Term,
        (low, high): (u64, u64),
        most: usize,
    ) -> Option<Vec<u64>> {
        let facts = self.terms.facts(address);
        if high - low > 64 * most as u64 {
            return None;
        }
        let possible = |at: &u64| at & facts.zeros == 0 && !at & facts.ones == 0;
        let list: Vec<u64> = (low..=high).filter(possible).take(most + 1).collect();
        (list.len() <= most && !list.is_empty()).then_some(list)
    }

    /// One of several values, by address.
    pub(super) fn choice(&mut self, address: Term, mut values: Vec<(u64, Term)>) -> Option<Term> {
        let (_, mut value) = values.pop()?;
        for (at, other) in values.into_iter().rev() {
            let at = self.terms.constant(self.terms.bits(address), at);
            let hit = self.terms.eq(address, at);
            value = self.terms.ite(hit, other, value);
        }
        Some(value)
    }

    fn fresh_read(&mut self, access: Access, region: u32, address: Term, node: &mut Node) -> Term {
        let value = self.terms.fresh(8 * access.bytes);
        node.reads.push(Read { place: access.place, region, address, value });
        value
    }

    pub(super) fn load_unchecked(
        &mut self,
        state: &mut State,
        access: Access,
        node: &mut Node,
    ) -> Result<Term, UnrollError> {
        let anywhere = self.unchecked().map_or(0, |unchecked| unchecked.anywhere);
        let (region, address, span) = match self.locate(state, access.address, access.bytes) {
            Found::Inside { region, address, span } => (region, address, span),
            Found::Several(regions) => {
                let shared =
                    |region: &usize| self.graph.regions[*region].contents == Contents::Shared;
                if !regions.iter().all(shared) {
                    self.note(access.place, ANY_LOAD);
                }
                return Ok(self.fresh_read(access, anywhere, access.address, node));
            }
            Found::Anywhere | Found::Nowhere => {
                self.note(access.place, ANY_LOAD);
                return Ok(self.fresh_read(access, anywhere, access.address, node));
            }
        };
        if let Some(effects) = self.device(region, false) {
            for effect in effects {
                self.effect(state, effect, access.place, node)?;
            }
            let port = self.unchecked().map_or_else(Default::default, |unchecked| unchecked.port);
            let value = state.slots[port.0 as usize].unwrap_or_else(|| self.terms.constant(32, 0));
            return Ok(self.terms.extract(value, 0, 8 * access.bytes));
        }
        let region_id = region as u32;
        match (self.graph.regions[region].contents, state.mems[region]) {
            (Contents::Packet, Some(mem)) => {
                let byte = |walk: &mut Self, at: u64| {
                    let at = walk.offset(address, at);
                    walk.terms.load(mem, at)
                };
                Ok(self.word(access.bytes, byte))
            }
            (Contents::Table, Some(mem)) => match self.candidates(address, span, MOST_GIVEN) {
                Some(list) => {
                    let mut values = Vec::new();
                    for at in list {
                        let byte = |walk: &mut Self, by: u64| {
                            let at = walk.terms.constant(32, at + by);
                            walk.terms.load(mem, at)
                        };
                        values.push((at, self.word(access.bytes, byte)));
                    }
                    Ok(self.choice(address, values).unwrap_or(address))
                }
                None => {
                    self.note(access.place, ANY_LOAD);
                    Ok(self.fresh_read(access, region_id, address, node))
                }
            },
            (Contents::Private, _) => match self.candidates(address, span, MOST_CELLS) {
                Some(list) => {
                    let (mut values, mut whole) = (Vec::new(), true);
                    for at in list {
                        whole &= !state.lost;
                        let word = self.cells(state, at, access.bytes);
                        values.push((at, word));
                    }
                    let value = self.choice(address, values).unwrap_or(address);
                    if !whole {
                        node.reads.push(Read {
                            place: access.place,
                            region: region_id,
                            address,
                            value,
                        });
                    }
                    Ok(value)
                }
                None => {
                    self.note(access.place, ANY_LOAD);
                    Ok(self.fresh_read(access, region_id, address, node))
                }
            },
            _ => Ok(self.fresh_read(access, region_id, address, node)),
        }
    }

    /// Bytes as one value, the first lowest.
    fn word(&mut self, bytes: u8, mut byte: impl FnMut(&mut Self, u64) -> Term) -> Term {
        let mut value = byte(self, 0);
        for at in 1..u64::from(bytes) {
            let part = byte(self, at);
            value = self.terms.concat(part, value);
        }
        value
    }

    /// A byte of private memory as it was at the start.
    fn at_start(&mut self, at: u64) -> Cell {
        let regions = &self.graph.regions;
        let region =
            regions.iter().position(|region| at >= region.base && at - region.base < region.size);
        let (mem, at) =
            (self.terms.initial(region.unwrap_or(0) as u32), self.terms.constant(32, at));
        Cell { whole: self.terms.load(mem, at), at: 0 }
    }

    /// Lists in every state the bytes that one of them lists.
    pub(super) fn fill(&mut self, arrivals: &mut [(Option<u32>, State)]) {
        let mut listed: BTreeSet<u64> = BTreeSet::new();
        for (_, state) in arrivals.iter() {
            listed.extend(state.cells.keys());
        }
        let lacks = |state: &State| !state.lost && state.cells.len() < listed.len();
        for (_, state) in arrivals.iter_mut().filter(|(_, state)| lacks(state)) {
            for at in &listed {
                if !state.cells.contains_key(at) {
                    let cell = self.at_start(*at);
                    state.cells.insert(*at, cell);
                }
            }
        }
    }

    /// Some bytes of private memory as one value; those that may have been overwritten are new.
    pub(super) fn cells(&mut self, state: &mut State, at: u64, bytes: u8) -> Term {
        let mut list: Vec<Cell> = Vec::new();
        for at in at..at + u64::from(bytes) {
            let known = state.cells.get(&at).copied();
            let cell = match known {
                Some(cell) => cell,
                None if state.lost || self.graph.unchecked.is_none() => {
                    Cell { whole: self.terms.fresh(8), at: 0 }
                }
                None => self.at_start(at),
            };
            state.cells.insert(at, cell);
            list.push(cell);
        }
        let first = list[0];
        let follows =
            |(by, cell): (u8, &Cell)| cell.whole == first.whole && cell.at == first.at + by;
        if (0..).zip(&list).all(follows) {
            return self.terms.extract(first.whole, 8 * first.at, 8 * bytes);
        }
        self.word(bytes, |walk, by| list[by as usize].byte(walk.terms))
    }

    fn device(&self, region: usize, write: bool) -> Option<&'a [Effect]> {
        let device =
            self.unchecked()?.devices.iter().find(|device| device.region as usize == region)?;
        Some(if write { &device.store } else { &device.load })
    }

    pub(super) fn store_unchecked(
        &mut self,
        state: &mut State,
        access: Access,
        value: Term,
        node: &mut Node,
    ) -> Result<(), UnrollError> {
        let (region, address, span) = match self.locate(state, access.address, access.bytes) {
            Found::Inside { region, address, span } => (region, address, span),
            Found::Several(regions) => {
                if regions
                    .iter()
                    .any(|region| self.graph.regions[*region].contents != Contents::Shared)
                {
                    self.note(access.place, ANY_STORE);
                }
                regions.iter().for_each(|region| self.forget(state, *region, (0, u64::MAX)));
                return Ok(());
            }
            Found::Anywhere | Found::Nowhere => {
                self.note(access.place, ANY_STORE);
                (0..state.mems.len()).for_each(|region| self.forget(state, region, (0, u64::MAX)));
                return Ok(());
            }
        };
        if let Some(effects) = self.device(region, true) {
            let port = self.unchecked().map_or_else(Default::default, |unchecked| unchecked.port);
            state.slots[port.0 as usize] = Some(self.terms.zext(value, 32));
            for effect in effects {
                self.effect(state, effect, access.place, node)?;
            }
            return Ok(());
        }
        let fixed = self
            .unchecked()
            .and_then(|unchecked| unchecked.waits.get(region))
            .is_some_and(|wait| wait.fixed);
        match (self.graph.regions[region].contents, state.mems[region]) {
            _ if fixed => {}
            (Contents::Packet, Some(mut mem)) => {
                for byte in 0..access.bytes {
                    let at = self.offset(address, byte.into());
                    let part = self.terms.extract(value, 8 * byte, 8);
                    mem = self.terms.store(mem, at, part);
                }
                state.mems[region] = Some(mem);
            }
            (Contents::Private, _) => match self.candidates(address, span, MOST_CELLS) {
                Some(list) => {
                    for at in list {
                        let here = self.terms.constant(32, at);
                        let hit = self.terms.eq(address, here);
                        for byte in 0..access.bytes {
                            let key = at + u64::from(byte);
                            let new = Cell { whole: value, at: byte };
                            match state.cells.get(&key).copied() {
                                _ if self.terms.value(hit) == Some(1) => {
                                    state.cells.insert(key, new);
                                }
                                Some(old) => {
                                    let (new, old) = (new.byte(self.terms), old.byte(self.terms));
                                    let whole = self.terms.ite(hit, new, old);
                                    state.cells.insert(key, Cell { whole, at: 0 });
                                }
                                None if state.lost => {}
                                None => {
                                    let (new, old) =
                                        (new.byte(self.terms), self.at_start(key).whole);
                                    let whole = self.terms.ite(hit, new, old);
                                    state.cells.insert(key, Cell { whole, at: 0 });
                                }
                            }
                        }
                    }
                }
                None => {
                    self.note(access.place, ANY_STORE);
                    self.forget(state, region, (span.0, span.1 + u64::from(access.bytes)));
                }
            },
            // Others see it; nothing read later is taken from it.
            _ => {}
        }
        Ok(())
    }

    /// Makes a region's contents unknown. Return addresses stay: that calls return is taken for
    /// granted.
    fn forget(&mut self, state: &mut State, region: usize, span: (u64, u64)) {
        let Some(unchecked) = self.unchecked() else { return };
        if unchecked.waits.get(region).is_some_and(|wait| wait.fixed) {
            return;
        }
        match self.graph.regions[region].contents {
            Contents::Packet | Contents::Kept => state.mems[region] = None,
            Contents::Private => {
                state.lost = true;
                let (from, to) = (self.graph.regions[region].base, self.graph.regions[region].size);
                let (from, to) = (from.max(span.0), (from + to).min(span.1));
                let terms = &mut *self.terms;
                state.cells.retain(|at, cell| {
                    let back =
                        terms.strip(cell.whole).is_some_and(|(base, _)| base == unchecked.code);
                    *at < from || *at >= to || back
                });
            }
            Contents::Table | Contents::Shared => {}
        }
    }

    /// Checks that a call returns to where it came from.
    pub(super) fn returns(
        &mut self,
        to: Term,
        expected: u64,
        place: u32,
    ) -> Result<(), UnrollError> {
        let found = self.terms.strip(to).map(|(base, rest)| (base, self.terms.value(rest)));
        match self.unchecked() {
            Some(unchecked) if found == Some((unchecked.code, Some(expected))) => Ok(()),
            _ => Err(UnrollError::Address {
                place: self.graph.describe(place),
                detail: "this returns to is not the caller's".to_string(),
            }),
        }
    }

    /// The values of a switch, each with the condition for it.
    pub(super) fn cases(&mut self, value: Term) -> Option<Vec<(u64, Term)>> {
        let (mut values, mut queue) = (Vec::new(), vec![value]);
        while let Some(term) = queue.pop() {
            match self.terms.node(term) {
                TermNode::Const(value) => values.push(value),
                TermNode::Ite(_, a, b) => queue.extend([a, b]),
                TermNode::Op(Op::Add, a, b) if self.terms.value(b).is_some() => {
                    let by = self.terms.value(b)?;
                    let inner = self.cases(a)?;
                    values.extend(
                        inner.iter().map(|(value, _)| value.wrapping_add(by) & 0xffff_ffff),
                    );
                }
                TermNode::Phi { node, index } => {
                    queue.extend(match self.dag.nodes.get(node as usize) {
                        Some(node) => &node.phis[index as usize],
                        None => self.joined.get(index as usize)?,
                    })
                }
                _ => return None,
            }
        }
        values.sort_unstable();
        values.dedup();
        let condition = |number: &u64| {
            let constant = self.terms.constant(32, *number);
            (*number, self.terms.eq(value, constant))
        };
        Some(values.iter().map(condition).collect())
    }
}
