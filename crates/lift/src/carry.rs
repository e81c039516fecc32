//! What one way brings to where two meet, and the other way does not have.

use std::collections::BTreeSet;

use nicforge_ir::{Op, ValueId};

use crate::join::Meeting;
use crate::state::{State, Target};
use crate::value::{Abs, Cond, Num, Place};

impl Meeting<'_, '_> {
    /// Writes of only one way that the other never reads.
    pub fn unread(&mut self, one: Abs, first: bool) -> Abs {
        let mut number = |num: Num| self.unread_number(num, first);
        let mut place = |place: Place| Place { var: place.var.map(&mut number), ..place };
        match one {
            Abs::Num(num) => Abs::Num(number(num)),
            Abs::Packet { place: at, epoch } => Abs::Packet { place: place(at), epoch },
            Abs::Stack { frame, place: at } => Abs::Stack { frame, place: place(at) },
            Abs::Constant { map, place: at } => Abs::Constant { map, place: place(at) },
            Abs::Record { record, place: at } => Abs::Record { record, place: place(at) },
            Abs::Value { lookup, place: at } => {
                let place = place(at);
                let both = self.sides.iter().all(|side| side.contains_key(&lookup))
                    || self.lifter.is_global(lookup);
                let other = both.then_some(lookup);
                let found = if first {
                    self.lookup(Some(lookup), other)
                } else {
                    self.lookup(other, Some(lookup))
                };
                found.map_or(Abs::Mixed(self.name), |lookup| Abs::Value { lookup, place })
            }
            other => other,
        }
    }

    /// A number that only one way wrote: known, or seen outside, it is itself; trips of a loop
    /// that count keep a number that is known.
    pub fn unread_number(&mut self, num: Num, first: bool) -> Num {
        if num.id.is_none_or(|id| id.as_u32() < self.inner) {
            return num;
        }
        let zero = Num::known(0);
        let found = if first { self.number(num, zero) } else { self.number(zero, num) };
        Num { lo: num.lo, hi: num.hi, ..found }
    }

    /// The state at a place that one way comes to, and the other never.
    pub fn carried(&mut self, place: usize, mut state: State, first: bool) -> State {
        let live = self.lifter.live(&[place]);
        for (at, slot) in state.regs.iter_mut().enumerate() {
            if live >> at & 1 == 0 && at != 10 {
                *slot = Abs::Nothing;
            }
        }
        let mut used = BTreeSet::new();
        state.each(&mut |abs| match abs {
            Abs::Num(num) => *num = self.unread_number(*num, first),
            Abs::Packet { place, .. }
            | Abs::Stack { place, .. }
            | Abs::Constant { place, .. }
            | Abs::Record { place, .. }
            | Abs::Value { place, .. } => {
                place.var = place.var.map(|var| self.unread_number(var, first));
                if let Abs::Value { lookup, .. } = abs {
                    used.insert(*lookup);
                }
            }
            _ => {}
        });
        state.redirect = match state.redirect {
            Some(Target::Port(port)) => Some(Target::Port(self.unread_number(port, first))),
            Some(Target::Ports { map, others }) => {
                Some(Target::Ports { map, others: self.unread_number(others, first) })
            }
            other => other,
        };
        state.lookups.retain(|id, found| found.dirty || used.contains(id));
        for found in state.lookups.values_mut() {
            found.key = self.carried_value(found.key, first);
            found.bits = found.bits.map(|bits| self.carried_value(bits, first));
            found.value = found.value.map(|value| self.carried_value(value, first));
            found.kept = found.kept.map(|kept| self.carried_value(kept, first));
            found.gone = self.carried_cond(found.gone, first);
            for part in &mut found.parts {
                *part = self.unread_number(*part, first);
            }
            found.hit = self.carried_cond(found.hit, first);
        }
        state
    }

    /// A condition that only one way knows.
    fn carried_cond(&mut self, cond: Cond, first: bool) -> Cond {
        match cond {
            Cond::Value(id) if id.as_u32() >= self.inner => {
                let other = Cond::Known(false);
                if first { self.cond(cond, other) } else { self.cond(other, cond) }
            }
            cond => cond,
        }
    }

    /// A value that only one way has; the other gives a zero of its type.
    fn carried_value(&mut self, value: ValueId, first: bool) -> ValueId {
        if value.as_u32() < self.inner {
            return value;
        }
        let ty = self.lifter.body.ty(value);
        self.lifter.at = self.lifter.opposite(self.inst, first);
        let zero = self.lifter.push1(Op::Zero, ty);
        if first { self.raw(value, zero) } else { self.raw(zero, value) }
    }
}
