//! Expressions and effects of instructions on a state.

use super::conditions::bounds;
use super::locate::range;
use super::unchecked::{Access, Flow, MOST_CELLS};
use super::{Cell, Node, Read, State, UnrollError, Walk};
use crate::graph::{Contents, Effect, Expr};
use crate::term::{Op, Term};
use crate::values;

impl Walk<'_> {
    pub(super) fn evaluate(&mut self, state: &mut State, expr: &Expr) -> Term {
        values::evaluate(self.terms, self.graph, &mut state.slots, expr)
    }

    pub(super) fn effect(
        &mut self,
        state: &mut State,
        effect: &Effect,
        place: u32,
        node: &mut Node,
    ) -> Result<Flow, UnrollError> {
        match effect {
            Effect::Set(slot, value) => {
                let value = self.evaluate(state, value);
                state.slots[slot.0 as usize] = Some(value);
            }
            Effect::Load { slot, address, bytes } if self.graph.unchecked.is_some() => {
                let access =
                    Access { address: self.evaluate(state, address), bytes: *bytes, place };
                let value = self.load_unchecked(state, access, node)?;
                let value = self.terms.zext(value, self.graph.slots[slot.0 as usize]);
                state.slots[slot.0 as usize] = Some(value);
            }
            Effect::Store { address, bytes, value } if self.graph.unchecked.is_some() => {
                let access =
                    Access { address: self.evaluate(state, address), bytes: *bytes, place };
                let value = self.evaluate(state, value);
                self.store_unchecked(state, access, value, node)?;
            }
            Effect::Fill(address) => {
                let address = self.evaluate(state, address);
                let region = self.region(state, address, place)?;
                if self.graph.regions[region].contents != Contents::Shared {
                    let name = &self.graph.regions[region].name;
                    return Err(UnrollError::Address {
                        place: self.graph.describe(place),
                        detail: format!(
                            "in {name}: a helper writes there, and how many bytes is not known"
                        ),
                    });
                }
            }
            Effect::Access { address, bytes, write } => {
                let access =
                    Access { address: self.evaluate(state, address), bytes: *bytes, place };
                return Ok(self.time(state, access, *write, node));
            }
            Effect::Delay(cycles) => {
                let cycles = self.evaluate(state, cycles);
                self.delay(state, cycles, node);
            }
            Effect::Call { .. } | Effect::Presume(_) | Effect::Forget(_) | Effect::Open(_) => {
                return Err(UnrollError::Address {
                    place: self.graph.describe(place),
                    detail: "that a call left open gives is not known".to_string(),
                });
            }
            Effect::Returns(to, expected) => {
                let to = self.evaluate(state, to);
                self.returns(to, *expected, place)?;
            }
            Effect::Load { slot, address, bytes } => {
                let address = self.evaluate(state, address);
                let region = self.region(state, address, place)?;
                let value = self.load(state, address, *bytes, region, place)?;
                let contents = self.graph.regions[region].contents;
                if matches!(contents, Contents::Table | Contents::Shared) {
                    node.reads.push(Read { place, region: region as u32, address, value });
                }
                let value = self.terms.zext(value, self.graph.slots[slot.0 as usize]);
                state.slots[slot.0 as usize] = Some(value);
            }
            Effect::Store { address, bytes, value } => {
                let address = self.evaluate(state, address);
                let value = self.evaluate(state, value);
                let region = self.region(state, address, place)?;
                if self.graph.regions[region].contents == Contents::Private {
                    self.store_private(state, address, *bytes, value, place)?;
                    return Ok(Flow::On);
                }
                for byte in 0..*bytes {
                    let at = self.offset(address, byte.into());
                    let part = self.terms.extract(value, 8 * byte, 8);
                    let kept = matches!(
                        self.graph.regions[region].contents,
                        Contents::Packet | Contents::Kept
                    );
                    // Others see the rest; nothing read later is taken from it.
                    if let Some(mem) = state.mems[region].filter(|_| kept) {
                        state.mems[region] = Some(self.terms.store(mem, at, part));
                    }
                }
            }
        }
        Ok(Flow::On)
    }

    fn load(
        &mut self,
        state: &mut State,
        address: Term,
        bytes: u8,
        region: usize,
        place: u32,
    ) -> Result<Term, UnrollError> {
        let contents = self.graph.regions[region].contents;
        match contents {
            Contents::Shared => return Ok(self.terms.fresh(8 * bytes)),
            Contents::Private => return self.load_private(state, address, bytes, place),
            _ => {}
        }
        let mut value = None;
        for byte in 0..bytes {
            let at = self.offset(address, byte.into());
            let part = match state.mems[region] {
                Some(mem) => self.terms.load(mem, at),
                None => self.terms.fresh(8),
            };
            value = Some(match value {
                None => part,
                Some(low) => self.terms.concat(part, low),
            });
        }
        Ok(value.unwrap_or_else(|| self.terms.constant(8, 0)))
    }

    pub(super) fn offset(&mut self, address: Term, by: u64) -> Term {
        let by = self.terms.constant(self.terms.bits(address), by);
        self.terms.binary(Op::Add, address, by)
    }

    /// The bytes of private memory that an address may be.
    fn places(&self, state: &State, address: Term, place: u32) -> Result<Vec<u64>, UnrollError> {
        if let Some(at) = self.terms.value(address) {
            return Ok(vec![at]);
        }
        let (rest, by) = self.terms.linear(address);
        let varies = rest.unwrap_or(address);
        let span = range(self.terms, state, varies);
        let list = self.candidates(varies, span, MOST_CELLS);
        let list = list.map(|list| list.iter().map(|at| at.wrapping_add(by)).collect());
        list.ok_or_else(|| UnrollError::Address {
            place: self.graph.describe(place),
            detail: format!(
                "in private memory (the stack) may be any of more than {MOST_CELLS} on this way"
            ),
        })
    }

    fn load_private(
        &mut self,
        state: &mut State,
        address: Term,
        bytes: u8,
        place: u32,
    ) -> Result<Term, UnrollError> {
        let mut values = Vec::new();
        for at in self.places(state, address, place)? {
            values.push((at, self.cells(state, at, bytes)));
        }
        Ok(self.choice(address, values).unwrap_or(address))
    }

    fn store_private(
        &mut self,
        state: &mut State,
        address: Term,
        bytes: u8,
        value: Term,
        place: u32,
    ) -> Result<(), UnrollError> {
        let places = self.places(state, address, place)?;
        let only = places.len() == 1;
        for at in places {
            let here = self.terms.constant(self.terms.bits(address), at);
            let hit = self.terms.eq(address, here);
            for byte in 0..bytes {
                let (key, new) = (at + u64::from(byte), Cell { whole: value, at: byte });
                let cell = match state.cells.get(&key).copied() {
                    _ if only => new,
                    old => {
                        let new = new.byte(self.terms);
                        let old = match old {
                            Some(old) => old.byte(self.terms),
                            None => self.terms.fresh(8),
                        };
                        Cell { whole: self.terms.ite(hit, new, old), at: 0 }
                    }
                };
                state.cells.insert(key, cell);
            }
        }
        Ok(())
    }

    /// The region an address points into: that of its constant part, since what is added stays
    /// inside.
    fn region(&self, state: &State, address: Term, place: u32) -> Result<usize, UnrollError> {
        let (rest, base) = self.terms.linear(address);
        let find = |at: u64| {
            self.graph
                .regions
                .iter()
                .position(|region| at >= region.base && at - region.base < region.size)
        };
        let facts = self.terms.facts(address);
        let mut found = find(facts.low).filter(|region| find(facts.high) == Some(*region));
        if found.is_none() && rest.is_some() {
            found = find(base).or(find(facts.low));
        }
        if found.is_none()
            && let Some(rest) = rest
        {
            let (low, high) = bounds(self.terms, state, rest);
            let at = |value: u64| find(value.wrapping_add(base));
            found = at(low).filter(|region| at(high) == Some(*region));
        }
        found.ok_or_else(|| UnrollError::Address {
            place: self.graph.describe(place),
            detail: match rest {
                None => format!("{base:#x} is in no memory the program has"),
                Some(_) => "cannot be told from this program: no base is known".to_string(),
            },
        })
    }
}
