//! Random loops of one byte a trip: copies, comparisons, moves from and to the packet, and loops
//! that differ from these in a little.

use super::body::Gen;
use crate::ops::{BinOp, CmpOp, Op, Proj, UnOp};
use crate::program::ValueId;
use crate::types::Type;

/// A loop's trip, as its body knows it.
struct Trip {
    /// The counter, as it is carried.
    counter: ValueId,
    /// An array, or a struct with one; carried, if the loop writes to it.
    carried: Option<ValueId>,
}

impl Gen<'_, '_, '_> {
    /// Arrays that hold bytes of the packet, and counters that it sets.
    pub fn take_bytes(&mut self) {
        let Some(pkt) = self.pkt else { return };
        for ty in self.byte_holders() {
            self.push_ok_and_kept(Op::Extract { pkt }, ty);
            if self.d.one_in(2) {
                self.push_ok_and_kept(Op::Extract { pkt }, ty);
            }
        }
        if self.d.one_in(2) {
            self.b.push0(Op::Reset { pkt });
        }
    }

    /// Arrays of bytes, and structs with one.
    fn byte_holders(&self) -> Vec<Type> {
        self.types.iter().copied().filter(|ty| self.byte_path(*ty).is_some()).collect()
    }

    /// The way from a type to its array of bytes.
    fn byte_path(&self, ty: Type) -> Option<Vec<Proj>> {
        let bytes = |ty| match ty {
            Type::Array(id) => self.program.arrays[id].elem == Type::U8,
            _ => false,
        };
        match ty {
            Type::Struct(id) => {
                let fields = &self.program.structs[id].fields;
                let at = fields.iter().position(|field| bytes(field.ty))?;
                Some(vec![Proj::Field(at as u32)])
            }
            ty => bytes(ty).then(Vec::new),
        }
    }

    pub fn byte_loop(&mut self) {
        let holders = self.byte_holders();
        let any = |inner: &mut Self| {
            let ty = holders[inner.d.below(holders.len())];
            inner.pick(ty)
        };
        let kind = self.d.below(10);
        let count = [Type::U32, Type::U8, Type::U16, Type::i(32), Type::U64][self.d.below(5)];
        let first = self.d.below(4) as u64;
        let mut init =
            vec![if self.d.one_in(8) { self.pick(count) } else { self.b.int(first, count) }];
        match kind {
            0 | 1 => init.push(any(self)),
            2 => init.push(any(self)),
            3 => init.push(self.pick(Type::U8)),
            4 => init.push(self.pick(Type::U32)),
            5 => init.push(self.pick(Type::BOOL)),
            _ => {}
        }
        // What a loop reads is often what it writes, too.
        let (a, b) = (any(self), any(self));
        let trips = if self.loops.is_empty() {
            [8, 4, 16, 12, 1, 17, 3, 0]
        } else {
            [4, 2, 3, 1, 1, 5, 2, 0]
        };
        let max_trips = trips[self.d.below(8)];
        let body = self.b.new_block();
        let types: Vec<Type> = init.iter().map(|value| self.b.body.ty(*value)).collect();
        let params: Vec<ValueId> = types.iter().map(|ty| self.b.param(body, *ty, None)).collect();
        self.loops.push(types.clone());
        self.fill(body, |inner| {
            inner.scope.extend(&params);
            let trip = Trip { counter: params[0], carried: params.get(1).copied() };
            for _ in 0..inner.d.below(3) {
                inner.count_exit(&trip);
            }
            let next = inner.byte_effect(kind, &trip, a, b);
            let one = inner.b.int(if inner.d.one_in(12) { 2 } else { 1 }, types[0]);
            let op = if inner.d.one_in(12) { BinOp::Sub } else { BinOp::Add };
            let sides = if inner.d.one_in(3) { (one, trip.counter) } else { (trip.counter, one) };
            let counter = inner.b.push1(Op::Bin(op, sides.0, sides.1), types[0]);
            let values = [counter].into_iter().chain(next).collect();
            inner.b.push0(Op::Continue { depth: 0, values });
        });
        self.loops.pop();
        let inst = self.b.push(Op::Loop { init, max_trips, body }, &types);
        for value in self.b.body.insts[inst].results.clone() {
            self.keep(value);
        }
    }

    /// The counter, a little further or back, widened or not.
    fn near_counter(&mut self, trip: &Trip) -> ValueId {
        let ty = self.b.body.ty(trip.counter);
        let mut value = trip.counter;
        if self.d.one_in(3) {
            let by = self.b.int(self.d.below(5) as u64, ty);
            let op = if self.d.one_in(3) { BinOp::Sub } else { BinOp::Add };
            value = self.b.push1(Op::Bin(op, value, by), ty);
        }
        value
    }

    /// `if (counter op limit) leave`
    fn count_exit(&mut self, trip: &Trip) {
        let mut count = self.near_counter(trip);
        if self.d.one_in(4) {
            let ty = [Type::U32, Type::i(32), Type::U64, Type::U16][self.d.below(4)];
            count = self.b.cast(count, ty);
        }
        let ty = self.b.body.ty(count);
        let limit = if self.d.one_in(3) {
            self.b.int(self.d.below(14) as u64, ty)
        } else {
            // Lengths are small as a rule.
            let (any, most) = (self.pick(ty), self.b.int(15, ty));
            self.b.push1(Op::Bin(BinOp::And, any, most), ty)
        };
        let ops = [CmpOp::Ge, CmpOp::Eq, CmpOp::Gt, CmpOp::Lt, CmpOp::Ne, CmpOp::Le];
        let op = ops[self.d.below(ops.len())];
        let sides = if self.d.one_in(3) { (limit, count) } else { (count, limit) };
        let cond = self.b.cmp(op, sides.0, sides.1);
        self.exit(trip, cond);
    }

    /// Leaves the loop if a condition holds, or if it does not.
    fn exit(&mut self, trip: &Trip, cond: ValueId) {
        let leaves = self.region(|inner| {
            if inner.gives && inner.d.one_in(8) {
                return inner.leave();
            }
            let mut values: Vec<ValueId> =
                [Some(trip.counter), trip.carried].into_iter().flatten().collect();
            if inner.d.one_in(8) {
                let ty = inner.b.body.ty(trip.counter);
                values[0] = inner.pick(ty);
            }
            inner.b.push0(Op::Break { depth: 0, values });
        });
        let stays = self.region(|inner| {
            if inner.d.one_in(10) {
                inner.show();
            }
            inner.b.push0(Op::Yield(Vec::new()));
        });
        let (then, other) = if self.d.one_in(3) { (stays, leaves) } else { (leaves, stays) };
        self.b.push0(Op::If { cond, then, other, likely: None });
    }

    /// The element of this trip: the way to it in an aggregate.
    fn element(&mut self, trip: &Trip, agg: ValueId) -> Vec<Proj> {
        let ty = self.b.body.ty(agg);
        let mut path = self.byte_path(ty).unwrap_or_default();
        let mut index = self.near_counter(trip);
        if self.b.body.ty(index) != Type::U32 {
            index = self.b.cast(index, Type::U32);
        }
        path.push(Proj::Index(index));
        path
    }

    fn read_element(&mut self, trip: &Trip, agg: ValueId) -> ValueId {
        let path = self.element(trip, agg);
        self.b.push1(Op::Get { agg, path }, Type::U8)
    }

    fn write_element(&mut self, trip: &Trip, agg: ValueId, value: ValueId) -> ValueId {
        let (path, ty) = (self.element(trip, agg), self.b.body.ty(agg));
        self.b.push1(Op::Set { agg, path, value }, ty)
    }

    /// Two bytes, widened or not.
    fn two(&mut self, trip: &Trip, a: ValueId, b: ValueId) -> (ValueId, ValueId) {
        let (mut a, mut b) = (self.read_element(trip, a), self.read_element(trip, b));
        if self.d.one_in(3) {
            let ty = [Type::U32, Type::i(32), Type::i(8)][self.d.below(3)];
            (a, b) = (self.b.cast(a, ty), self.b.cast(b, ty));
        }
        (a, b)
    }

    /// `a != b` or `a == b`
    fn compared(&mut self, trip: &Trip, a: ValueId, b: ValueId) -> (ValueId, bool) {
        let (a, b) = self.two(trip, a, b);
        let equal = self.d.one_in(2);
        (self.b.cmp(if equal { CmpOp::Eq } else { CmpOp::Ne }, a, b), equal)
    }

    /// A place in the packet that goes along with the counter.
    fn place(&mut self, trip: &Trip) -> ValueId {
        let counter = self.near_counter(trip);
        let mut off = self.b.cast(counter, Type::U32);
        for _ in 0..self.d.below(3) {
            let more = self.small();
            off = self.b.push1(Op::Bin(BinOp::Add, off, more), Type::U32);
        }
        off
    }

    /// Effect of a trip; gives the next value of what is carried beside the counter.
    fn byte_effect(&mut self, kind: usize, trip: &Trip, a: ValueId, b: ValueId) -> Option<ValueId> {
        let checks = self.d.one_in(2);
        let there = |inner: &mut Self, ok: ValueId| {
            if checks {
                let cond = if inner.d.one_in(2) {
                    inner.b.push1(Op::Un(UnOp::Not, ok), Type::BOOL)
                } else {
                    ok
                };
                inner.exit(trip, cond);
            }
        };
        match (kind, trip.carried, self.pkt) {
            // From the packet to an array.
            (0, Some(to), Some(pkt)) => {
                let off = self.place(trip);
                let (ok, byte) = self.b.push2(Op::Load { pkt, off }, Type::BOOL, Type::U8);
                there(self, ok);
                Some(self.write_element(trip, to, byte))
            }
            // From array to array; one byte to all.
            (1, Some(to), _) => {
                let from = if self.d.one_in(3) && self.byte_path(self.b.body.ty(to)).is_some() {
                    to
                } else {
                    a
                };
                let byte = self.read_element(trip, from);
                Some(self.write_element(trip, to, byte))
            }
            (2, Some(to), _) => {
                let byte = if self.d.one_in(3) {
                    self.pick(Type::U8)
                } else {
                    self.b.int(self.d.below(256) as u64, Type::U8)
                };
                Some(self.write_element(trip, to, byte))
            }
            // Differences, collected.
            (3 | 4, Some(sum), _) => {
                let ty = self.b.body.ty(sum);
                let (x, y) = self.two(trip, a, b);
                let of = self.b.body.ty(x);
                let op = if self.d.one_in(8) { BinOp::Add } else { BinOp::Xor };
                let differs = self.b.push1(Op::Bin(op, x, y), of);
                let differs = if of == ty { differs } else { self.b.cast(differs, ty) };
                let sides = if self.d.one_in(2) { (sum, differs) } else { (differs, sum) };
                Some(self.b.push1(Op::Bin(BinOp::Or, sides.0, sides.1), ty))
            }
            (5, Some(verdict), _) => {
                let (cond, equal) = self.compared(trip, a, b);
                let said = self.b.int(self.d.below(2) as u64, Type::BOOL);
                Some(match self.d.below(3) {
                    0 => self.b.push1(Op::Bin(BinOp::And, verdict, cond), Type::BOOL),
                    1 => {
                        let (then, other) = if equal != self.d.one_in(5) {
                            (verdict, said)
                        } else {
                            (said, verdict)
                        };
                        self.b.push1(Op::Select { cond, then, other }, Type::BOOL)
                    }
                    _ => {
                        let no = self.b.int(0, Type::BOOL);
                        self.b
                            .push1(Op::Select { cond: verdict, then: cond, other: no }, Type::BOOL)
                    }
                })
            }
            // To the packet, or to new headers.
            (6, _, Some(pkt)) => {
                let byte = self.read_element(trip, a);
                self.emit(pkt, byte);
                None
            }
            (7, _, Some(pkt)) => {
                let (off, value) = (self.place(trip), self.read_element(trip, a));
                let ok = self.b.push1(Op::Store { pkt, off, value }, Type::BOOL);
                there(self, ok);
                None
            }
            (8, _, Some(pkt)) => {
                let off = self.place(trip);
                let (ok, byte) = self.b.push2(Op::Load { pkt, off }, Type::BOOL, Type::U8);
                there(self, ok);
                self.emit(pkt, byte);
                None
            }
            // To the first difference.
            _ => {
                let (cond, _) = self.compared(trip, a, b);
                self.exit(trip, cond);
                trip.carried
            }
        }
    }
}
