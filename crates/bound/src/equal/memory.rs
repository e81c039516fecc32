//! Loads and stores.
//!
//! The stack, records and where the packet is are bytes by address; the packet, the context and what
//! maps hold are memories that begin unknown, and the same for both programs.

use crate::ebpf::{CONTEXT, RESERVED, STACK, VALUES, VALUES_EACH, XDP};
use crate::term::{Mem, Term};
use crate::unroll::Cell;

use super::Prover;
use super::state::State;

/// Kinds of maps whose keys are prefixes: different keys may find one entry.
pub const LPM: u32 = 11;

/// Where an address points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Bytes that nobody else has; the address has to be a constant.
    Own,
    /// A memory by region.
    Shared(u32),
}

impl Prover<'_> {
    fn place(&self, state: &State, address: Term) -> Option<Place> {
        let facts = self.terms.facts(address);
        let find = |at: u64| {
            let within = |from: u64, size: u64| at >= from && at - from < size;
            self.regions.iter().position(|region| within(region.base, region.size))
        };
        let (rest, base) = self.terms.linear(address);
        let region = find(facts.low)
            .filter(|region| find(facts.high) == Some(*region))
            .or_else(|| state.path.fixed.get(&address).and_then(|at| find(*at)))
            .or_else(|| rest.and_then(|_| find(base)))
            .or_else(|| {
                let facts = self.terms.facts(rest?);
                find(facts.low).filter(|region| find(facts.high) == Some(*region))
            })
            .or_else(|| find(facts.low))?;
        let base = self.regions[region].base;
        let own =
            base == STACK || base == RESERVED || XDP.ends().iter().any(|end| base == CONTEXT + end);
        Some(if own { Place::Own } else { Place::Shared(region as u32) })
    }

    /// The address of bytes that nobody else has, or a state for each that it may be.
    fn own(&mut self, state: State, address: Term) -> Result<(State, u64), Vec<State>> {
        let known = self.terms.value(address).or_else(|| state.path.fixed.get(&address).copied());
        match known {
            Some(at) => Ok((state, at)),
            None => {
                let ways = self.split(state, address, "where the stack is written or read");
                Err(ways.into_iter().map(|(_, state)| state).collect())
            }
        }
    }

    /// Bytes at an address as one number; or the states to go on with, at the same effect.
    pub fn load(
        &mut self,
        state: State,
        address: Term,
        bytes: u8,
    ) -> Result<(State, Term), Vec<State>> {
        match self.place(&state, address) {
            Some(Place::Own) => {
                let (mut state, at) = self.own(state, address)?;
                let value = self.cells(&mut state, at, bytes);
                Ok((state, value))
            }
            Some(Place::Shared(region)) => {
                let mem = self.mem(&state, region);
                let value = self.bytes(mem, address, bytes);
                Ok((state, value))
            }
            None => Err(vec![state.stuck("a load from an address that is not known here")]),
        }
    }

    /// Writes a number; or the states to go on with, at the same effect.
    pub fn store(&mut self, state: State, address: Term, value: Term) -> Result<State, Vec<State>> {
        let bytes = self.terms.bits(value) / 8;
        match self.place(&state, address) {
            Some(Place::Own) => {
                let (mut state, at) = self.own(state, address)?;
                for byte in 0..bytes {
                    state.cells.insert(at + u64::from(byte), Cell { whole: value, at: byte });
                }
                Ok(state)
            }
            Some(Place::Shared(region)) => {
                let base = self.regions[region as usize].base;
                if (CONTEXT..STACK).contains(&base) {
                    return Err(vec![state.stuck("a store to the context")]);
                }
                if base >= VALUES {
                    let map = ((base - VALUES) / VALUES_EACH) as usize;
                    let keys = state.keys.iter().filter(|key| key.map == map).count();
                    if self.maps[map].kind == Some(LPM) && keys > 1 {
                        return Err(vec![state.stuck("a store to one of several LPM entries")]);
                    }
                }
                let mut state = state;
                self.write(&mut state, region, address, value);
                Ok(state)
            }
            None => Err(vec![state.stuck("a store to an address that is not known here")]),
        }
    }

    /// Writes a number to a memory.
    pub fn write(&mut self, state: &mut State, region: u32, address: Term, value: Term) {
        let mut mem = self.mem(state, region);
        let (at, bytes) = (self.fixed(state, address), self.terms.bits(value) / 8);
        state.copied.retain(|copied| copied.stays(region, at, bytes.into()));
        for byte in 0..bytes {
            let at = self.beyond(address, byte.into());
            let part = self.terms.extract(value, 8 * byte, 8);
            mem = self.terms.store(mem, at, part);
            let written = state.written.entry(region).or_default();
            if !written.contains(&at) {
                written.push(at);
            }
        }
        state.mems.insert(region, mem);
    }

    /// A memory as it is now.
    pub fn mem(&mut self, state: &State, region: u32) -> Mem {
        match state.mems.get(&region) {
            Some(mem) => *mem,
            None => self.terms.initial(region),
        }
    }

    /// A memory that nothing is known about.
    pub fn unknown(&mut self) -> Mem {
        self.unknown += 1;
        self.terms.initial(self.regions.len() as u32 + self.unknown)
    }

    /// Some bytes of a memory as one number.
    pub fn bytes(&mut self, mem: Mem, address: Term, bytes: u8) -> Term {
        let mut value = None;
        for byte in 0..bytes {
            let at = self.beyond(address, byte.into());
            let part = self.terms.load_resolved(mem, at);
            value = Some(match value {
                None => part,
                Some(low) => self.terms.concat(part, low),
            });
        }
        value.unwrap_or_else(|| self.terms.constant(8, 0))
    }

    pub fn beyond(&mut self, address: Term, by: u64) -> Term {
        let bits = self.terms.bits(address);
        let by = self.terms.constant(bits, by);
        self.terms.binary(crate::term::Op::Add, address, by)
    }

    /// Bytes that nobody else has; those that were never written are anything.
    pub fn cells(&mut self, state: &mut State, at: u64, bytes: u8) -> Term {
        let mut list = Vec::new();
        for at in at..at + u64::from(bytes) {
            let terms = &mut self.terms;
            let cell =
                state.cells.entry(at).or_insert_with(|| Cell { whole: terms.fresh(8), at: 0 });
            list.push(*cell);
        }
        let first = list[0];
        let follows =
            |(by, cell): (u8, &Cell)| cell.whole == first.whole && cell.at == first.at + by;
        if (0..).zip(&list).all(follows) {
            return self.terms.extract(first.whole, 8 * first.at, 8 * bytes);
        }
        let mut value = first.byte(&mut self.terms);
        for cell in &list[1..] {
            let part = cell.byte(&mut self.terms);
            value = self.terms.concat(part, value);
        }
        value
    }

    /// Where the packet begins, ends, or its metadata begins: 32 bits.
    pub fn end_of_packet(&mut self, state: &mut State, member: u64) -> Term {
        self.cells(state, CONTEXT + member, 4)
    }

    /// Moves one of them.
    pub fn set_end(&mut self, state: &mut State, member: u64, value: Term) {
        for at in 0..4 {
            state.cells.insert(CONTEXT + member + u64::from(at), Cell { whole: value, at });
        }
    }

    /// Some bytes in words of up to eight, from an address on; or the states to go on with.
    pub fn words(
        &mut self,
        mut state: State,
        address: Term,
        mut bytes: u64,
    ) -> Result<(State, Vec<Term>), Vec<State>> {
        let (mut list, mut at) = (Vec::new(), 0);
        while bytes > 0 {
            let size = [8, 4, 2, 1].into_iter().find(|size| *size <= bytes).unwrap_or(1);
            let from = self.beyond(address, at);
            let value;
            (state, value) = self.load(state, from, size as u8)?;
            list.push(value);
            (at, bytes) = (at + size, bytes - size);
        }
        Ok((state, list))
    }
}
