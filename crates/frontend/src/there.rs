//! Elements of memory that is seen as an array of another type, at an index that varies: where they
//! lie in what is there, so that not all of it has to be read.

use nicforge_ir::{BinOp, CmpOp, Op, Proj, Span, Type, UnOp, ValueId};

use crate::func::FnLower;
use crate::place::{Inside, Place, Root, There};
use crate::unit::Lowered;

impl<'a> FnLower<'_, 'a, '_> {
    /// The place of an element, if it lies in an array of integers.
    pub fn element_there(&mut self, place: &Place) -> Option<There> {
        let Root::Over(kept, first) = &place.root else { return None };
        let (at, ty, rest) = self.known_part(place);
        let (Type::Array(view), [Proj::Index(index), inner @ ..]) = (ty, rest) else { return None };
        let (index, inner) = (*index, inner.to_vec());
        let elem = self.unit.prog.arrays[view].elem;
        let bits = 8 * self.unit.size_of(ty);
        let (kept, at) = self.narrowed(kept, first + at, bits);
        let Type::Array(there) = kept.ty else { return None };
        let word = self.unit.prog.arrays[there].elem;
        let (own, size) = (self.unit.size_of(elem), self.unit.size_of(word));
        if !word.is_int() || word == Type::BOOL || !at.is_multiple_of(8 * own.min(size)) {
            return None;
        }
        if own.is_multiple_of(size) {
            let index = self.scaled(index, own / size, at / (8 * size), (ty, kept.ty));
            let element = match elem == word {
                true => kept.part(&[Proj::Index(index)], elem),
                false => kept.from(index, elem),
            };
            return Some(There::Place(element.part(&inner, place.ty)));
        }
        if !size.is_multiple_of(own) || !elem.is_int() {
            return None;
        }
        let index = self.scaled(index, 1, at / (8 * own), (ty, kept.ty));
        let ratio = self.b.int(size / own, Type::U32);
        let number = self.op(Op::Bin(BinOp::Div, index, ratio), Type::U32);
        let part = self.op(Op::Bin(BinOp::Rem, index, ratio), Type::U32);
        let wide = self.as_unsigned(word);
        let (part, bits) = (self.b.cast(part, wide), self.b.int(8 * own, wide));
        let shift = self.op(Op::Bin(BinOp::Mul, part, bits), wide);
        let whole = kept.part(&[Proj::Index(number)], word);
        Some(There::Inside(Inside { whole, shift, ty: elem }))
    }

    /// `index * by + first`; beyond any end where the index is beyond the first type's end, though
    /// there may be more of the second one.
    fn scaled(&mut self, seen: ValueId, by: u64, first: u64, types: (Type, Type)) -> ValueId {
        let (mut index, Type::Array(view)) = (seen, types.0) else { return seen };
        if by > 1 {
            let by = self.b.int(by, Type::U32);
            index = self.op(Op::Bin(BinOp::Mul, index, by), Type::U32);
        }
        if first > 0 {
            let first = self.b.int(first, Type::U32);
            index = self.op(Op::Bin(BinOp::Add, index, first), Type::U32);
        }
        let is_alike = self.unit.size_of(types.0) == self.unit.size_of(types.1);
        let len = self.unit.prog.arrays[view].len;
        if index == seen && is_alike || self.range_of_value(seen).1 < i128::from(len) {
            return index;
        }
        let len = self.b.int(len.into(), Type::U32);
        let is_inside = self.b.cmp(CmpOp::Lt, seen, len);
        let beyond = self.b.int(u32::MAX.into(), Type::U32);
        self.op(Op::Select { cond: is_inside, then: index, other: beyond }, Type::U32)
    }

    /// The smallest part of a place that has all of these bits, and where they begin in it.
    pub fn narrowed(&mut self, place: &Place, mut at: u64, bits: u64) -> (Place, u64) {
        let mut place = place.clone();
        loop {
            let inner = match place.ty {
                Type::Struct(id) => {
                    let slots = self.unit.prog.struct_layout(id).1;
                    let fields = self.unit.prog.structs[id].fields.iter().zip(slots);
                    let found = fields.enumerate().find(|(_, (field, slot))| {
                        let from = u64::from(slot.bit_offset);
                        let behind = from + u64::from(slot.bits);
                        field.bit_width.is_none() && from <= at && at + bits <= behind
                    });
                    found.map(|(number, (field, slot))| {
                        (Proj::Field(number as u32), field.ty, u64::from(slot.bit_offset))
                    })
                }
                Type::Array(id) => {
                    let elem = self.unit.prog.arrays[id].elem;
                    let size = 8 * self.unit.size_of(elem);
                    let number = at / size;
                    (at + bits <= (number + 1) * size).then(|| {
                        let index = self.b.int(number, Type::U32);
                        (Proj::Index(index), elem, number * size)
                    })
                }
                _ => None,
            };
            let Some((step, ty, from)) = inner else { return (place, at) };
            place = place.part(&[step], ty);
            at -= from;
        }
    }

    pub fn read_inside(&mut self, part: &Inside) -> ValueId {
        let wide = self.as_unsigned(part.whole.ty);
        let value = self.read(&part.whole);
        let value = self.b.cast(value, wide);
        let value = self.op(Op::Bin(BinOp::Shr, value, part.shift), wide);
        self.b.cast(value, part.ty)
    }

    /// Puts `value` into a part of an integer.
    ///
    /// # Errors
    /// Reports places that cannot change.
    pub fn write_inside(&mut self, part: &Inside, value: ValueId, span: Span) -> Lowered<()> {
        let wide = self.as_unsigned(part.whole.ty);
        let own = self.as_unsigned(part.ty);
        let old = self.read(&part.whole);
        let old = self.b.cast(old, wide);
        let value = self.b.cast(value, own);
        let value = self.b.cast(value, wide);
        let mask = self.b.int(nicforge_ir::build::mask(u64::MAX, own.bits().unwrap_or(64)), wide);
        let mask = self.op(Op::Bin(BinOp::Shl, mask, part.shift), wide);
        let others = self.op(Op::Un(UnOp::Not, mask), wide);
        let kept = self.op(Op::Bin(BinOp::And, old, others), wide);
        let new = self.op(Op::Bin(BinOp::Shl, value, part.shift), wide);
        let new = self.op(Op::Bin(BinOp::Or, kept, new), wide);
        let new = self.b.cast(new, part.whole.ty);
        self.write(&part.whole, new, span)
    }
}
