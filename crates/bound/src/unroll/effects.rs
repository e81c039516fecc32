//! Expressions and effects of instructions on a state.

use super::unchecked::{Access, Flow};
use super::{Cell, Node, Read, State, UnrollError, Walk};
use crate::graph::{Contents, Effect, Expr};
use crate::term::{Op, Term};

impl Walk<'_> {
    pub(super) fn evaluate(&mut self, state: &mut State, expr: &Expr) -> Term {
        match expr {
            Expr::Const(bits, value) => self.terms.constant(*bits, *value),
            Expr::Slot(slot) => {
                let bits = self.graph.slots[slot.0 as usize];
                match state.slots[slot.0 as usize] {
                    Some(value) => value,
                    None => {
                        let value = self.terms.fresh(bits);
                        state.slots[slot.0 as usize] = Some(value);
                        value
                    }
                }
            }
            Expr::Size => self.terms.packet_size(),
            Expr::Fresh(bits) => self.terms.fresh(*bits),
            Expr::Base(index) => {
                let unchecked = self.graph.unchecked.as_ref();
                match unchecked.and_then(|unchecked| unchecked.bases.get(*index as usize)) {
                    Some(base) => self.terms.base(*index, (base.low, base.high), base.aligned),
                    None => self.terms.fresh(32),
                }
            }
            Expr::Binary(op, a, b) => {
                let (a, b) = (self.evaluate(state, a), self.evaluate(state, b));
                self.terms.binary(*op, a, b)
            }
            Expr::Sub(a, b) => {
                let (a, b) = (self.evaluate(state, a), self.evaluate(state, b));
                self.terms.sub(a, b)
            }
            Expr::Not(a) => {
                let a = self.evaluate(state, a);
                self.terms.not(a)
            }
            Expr::Zext(a, bits) => {
                let a = self.evaluate(state, a);
                self.terms.zext(a, *bits)
            }
            Expr::Sext(a, bits) => {
                let a = self.evaluate(state, a);
                self.terms.sext(a, *bits)
            }
            Expr::Extract(a, low, bits) => {
                let a = self.evaluate(state, a);
                self.terms.extract(a, *low, *bits)
            }
            Expr::Concat(a, b) => {
                let (a, b) = (self.evaluate(state, a), self.evaluate(state, b));
                self.terms.concat(a, b)
            }
            Expr::Ite(c, a, b) => {
                let c = self.evaluate(state, c);
                let (a, b) = (self.evaluate(state, a), self.evaluate(state, b));
                self.terms.ite(c, a, b)
            }
        }
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
            Effect::Access { address, bytes, write } => {
                let access =
                    Access { address: self.evaluate(state, address), bytes: *bytes, place };
                return Ok(self.time(state, access, *write, node));
            }
            Effect::Delay(cycles) => {
                let cycles = self.evaluate(state, cycles);
                self.delay(state, cycles, node);
            }
            Effect::Returns(to, expected) => {
                let to = self.evaluate(state, to);
                self.returns(to, *expected, place)?;
            }
            Effect::Load { slot, address, bytes } => {
                let address = self.evaluate(state, address);
                let region = self.region(address, place)?;
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
                let region = self.region(address, place)?;
                for byte in 0..*bytes {
                    let at = self.offset(address, byte.into());
                    let part = self.terms.extract(value, 8 * byte, 8);
                    match (self.graph.regions[region].contents, state.mems[region]) {
                        (Contents::Private, _) => {
                            let at = self.private(at, place)?;
                            state.cells.insert(at, Cell { whole: part, at: 0 });
                        }
                        (Contents::Packet, Some(mem)) => {
                            state.mems[region] = Some(self.terms.store(mem, at, part))
                        }
                        // Others see it; nothing read later is taken from it.
                        _ => {}
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
        if contents == Contents::Shared {
            return Ok(self.terms.fresh(8 * bytes));
        }
        let mut value = None;
        for byte in 0..bytes {
            let at = self.offset(address, byte.into());
            let part = match (contents, state.mems[region]) {
                (Contents::Private, _) => {
                    let at = self.private(at, place)?;
                    match state.cells.get(&at) {
                        Some(cell) => cell.whole,
                        None => {
                            let part = self.terms.fresh(8);
                            state.cells.insert(at, Cell { whole: part, at: 0 });
                            part
                        }
                    }
                }
                (_, Some(mem)) => self.terms.load(mem, at),
                _ => self.terms.fresh(8),
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

    fn private(&self, address: Term, place: u32) -> Result<u64, UnrollError> {
        self.terms.value(address).ok_or_else(|| UnrollError::Address {
            place: self.graph.describe(place),
            detail: "in private memory (the stack) is not a constant on this way".to_string(),
        })
    }

    /// The region an address points into: that of its constant part, since what is added stays
    /// inside.
    fn region(&self, address: Term, place: u32) -> Result<usize, UnrollError> {
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
        found.ok_or_else(|| UnrollError::Address {
            place: self.graph.describe(place),
            detail: match rest {
                None => format!("{base:#x} is in no memory the program has"),
                Some(_) => "cannot be told from this program: no base is known".to_string(),
            },
        })
    }
}
