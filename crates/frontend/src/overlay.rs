//! Bytes that several types lie over: members of a union, and memory that is copied.
//!
//! There is no memory behind values. A union is kept as one of its members, and the others are read
//! from its integers and written to them, bit by bit as they lie in memory.

use std::ops::Range;

use nicforge_ir::{BinOp, Op, Program, Proj, Span, Type, ValueId};

use crate::diagnostics::codes;
use crate::func::FnLower;
use crate::place::Place;
use crate::unit::{Failed, Lowered};

/// Most integers whose bytes are taken apart, or put together, at once.
pub const MOST: usize = 512;

/// A step from a value to a part of it.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Field(u32),
    Index(u32),
}

/// An integer in a value.
#[derive(Clone, Debug)]
pub struct Leaf {
    pub path: Vec<Step>,
    pub ty: Type,
    /// Bits from the start of the value.
    pub at: u64,
    pub bits: u64,
    pub bit_field: bool,
}

/// Bits of memory in a value: `bits` of them, from bit `from` of `value` on.
#[derive(Clone, Copy)]
pub struct Piece {
    at: u64,
    bits: u64,
    /// Unsigned.
    value: ValueId,
    from: u64,
}

/// The integers of a type, without unnamed ones; of a long type more than [`MOST`], but not all.
pub fn leaves(program: &Program, ty: Type) -> Vec<Leaf> {
    leaves_within(program, ty, 0..u64::MAX)
}

/// Those of them that have any of some bits.
fn leaves_within(program: &Program, ty: Type, bits: Range<u64>) -> Vec<Leaf> {
    let mut found = Vec::new();
    collect(program, ty, &mut Vec::new(), 0, &bits, &mut found);
    found
}

fn collect(
    program: &Program,
    ty: Type,
    path: &mut Vec<Step>,
    at: u64,
    within: &Range<u64>,
    found: &mut Vec<Leaf>,
) {
    let is_there = |at: u64, bits: u64| at < within.end && within.start < at + bits;
    if found.len() > MOST {
        return;
    }
    match ty {
        Type::Struct(id) => {
            let (_, slots) = program.struct_layout(id);
            for ((number, field), slot) in (0..).zip(&program.structs[id].fields).zip(slots) {
                let at = at + u64::from(slot.bit_offset);
                path.push(Step::Field(number));
                match field.bit_width {
                    Some(_) if field.is_padding() => {}
                    Some(bits) if is_there(at, bits.into()) => found.push(Leaf {
                        path: path.clone(),
                        ty: field.ty,
                        at,
                        bits: bits.into(),
                        bit_field: true,
                    }),
                    Some(_) => {}
                    None => collect(program, field.ty, path, at, within, found),
                }
                path.pop();
            }
        }
        Type::Array(id) => {
            let def = program.arrays[id];
            let size = 8 * u64::from(program.size_of(def.elem));
            let first = within.start.saturating_sub(at) / size;
            let behind = within.end.saturating_sub(at).div_ceil(size).min(def.len.into());
            for index in (first..behind).take(MOST + 1) {
                path.push(Step::Index(index as u32));
                collect(program, def.elem, path, at + index * size, within, found);
                path.pop();
            }
        }
        ty => {
            let bits = 8 * u64::from(program.size_of(ty));
            if is_there(at, bits) {
                found.push(Leaf { path: path.clone(), ty, at, bits, bit_field: false });
            }
        }
    }
}

/// True if integers fill a type, and none is a bit-field.
pub fn is_dense(program: &Program, ty: Type) -> bool {
    match ty {
        Type::Struct(id) => {
            let fields = &program.structs[id].fields;
            let own: u64 = fields.iter().map(|field| u64::from(program.size_of(field.ty))).sum();
            fields.iter().all(|f| f.bit_width.is_none() && is_dense(program, f.ty))
                && own == u64::from(program.size_of(ty))
        }
        Type::Array(id) => is_dense(program, program.arrays[id].elem),
        ty => ty.is_int() && ty != Type::BOOL,
    }
}

impl<'a> FnLower<'_, 'a, '_> {
    /// The unsigned integer as wide as another one is in memory.
    pub fn as_unsigned(&self, ty: Type) -> Type {
        Type::u(8 * self.unit.prog.size_of(ty) as u8)
    }

    /// The way to a part, as operations have it.
    pub fn projections(&mut self, path: &[Step]) -> Vec<Proj> {
        path.iter()
            .map(|step| match step {
                Step::Field(number) => Proj::Field(*number),
                Step::Index(index) => Proj::Index(self.b.int((*index).into(), Type::U32)),
            })
            .collect()
    }

    /// The bits of an integer that lies at bit `at`.
    pub fn piece(&mut self, at: u64, bits: u64, value: ValueId) -> Piece {
        let ty = self.as_unsigned(self.b.body.ty(value));
        Piece { at, bits, value: self.b.cast(value, ty), from: 0 }
    }

    /// The bits of a value that lies at bit `at`.
    fn pieces_of_value(&mut self, at: u64, value: ValueId) -> Vec<Piece> {
        let place = Place::of_value(value, self.b.body.ty(value));
        self.pieces(&place, 0..u64::MAX)
            .into_iter()
            .map(|piece| Piece { at: at + piece.at, ..piece })
            .collect()
    }

    /// The integers at a place that have any of these bits.
    fn pieces(&mut self, place: &Place, bits: Range<u64>) -> Vec<Piece> {
        let mut found = Vec::new();
        for leaf in leaves_within(&self.unit.prog, place.ty, bits) {
            let value = self.read_leaf(place, &leaf);
            found.push(self.piece(leaf.at, leaf.bits, value));
        }
        found
    }

    fn read_leaf(&mut self, place: &Place, leaf: &Leaf) -> ValueId {
        let path = self.projections(&leaf.path);
        self.read(&place.part(&path, leaf.ty))
    }

    /// An integer of type `ty` from `bits` bits at bit `at`; what no piece has is zero.
    pub fn put_together(&mut self, at: u64, bits: u64, ty: Type, pieces: &[Piece]) -> ValueId {
        let own = self.as_unsigned(ty);
        let own_bits = 8 * u64::from(self.unit.prog.size_of(ty));
        let mut whole = None;
        for piece in pieces {
            let low = piece.at.max(at);
            let high = (piece.at + piece.bits).min(at + bits);
            if low >= high {
                continue;
            }
            let from = self.b.body.ty(piece.value);
            let (width, down) = (high - low, piece.from + (low - piece.at));
            let mut value = piece.value;
            if down > 0 {
                let down = self.b.int(down, from);
                value = self.op(Op::Bin(BinOp::Shr, value, down), from);
            }
            // What is above goes where the value is cast or shifted, or has to be taken away.
            let above = u64::from(from.bits().unwrap_or(64)) > down + width;
            if above && low - at + width < own_bits {
                let mask = self.b.int((1u64 << width) - 1, from);
                value = self.op(Op::Bin(BinOp::And, value, mask), from);
            }
            value = self.b.cast(value, own);
            if low > at {
                let up = self.b.int(low - at, own);
                value = self.op(Op::Bin(BinOp::Shl, value, up), own);
            }
            whole = Some(match whole {
                None => value,
                Some(whole) => self.op(Op::Bin(BinOp::Or, whole, value), own),
            });
        }
        let whole = whole.unwrap_or_else(|| self.b.int(0, own));
        self.b.cast(whole, ty)
    }

    /// The value of type `ty` that lies from bit `at` of a place on. Too long ones are reported.
    pub fn read_over(&mut self, place: &Place, at: u64, ty: Type) -> ValueId {
        let end = at + 8 * u64::from(self.unit.prog.size_of(ty));
        if self.is_too_long(place.ty, at..end, ty) {
            self.failed = true;
            self.too_long(self.b.span);
            return self.zero(ty);
        }
        let pieces = self.pieces(place, at..end);
        self.value_of(&pieces, at, ty)
    }

    /// True if some bits of a place, or a value of type `ty` over them, are more than [`MOST`]
    /// integers.
    fn is_too_long(&self, place: Type, bits: Range<u64>, ty: Type) -> bool {
        let program = &self.unit.prog;
        leaves_within(program, place, bits).len() > MOST || leaves(program, ty).len() > MOST
    }

    fn too_long(&mut self, span: Span) -> Failed {
        let message =
            format!("more than {MOST} integers are read or written at once as another type");
        let help = "copy them in a loop, one after the other";
        self.refuse(codes::TOO_LARGE, span, message, help)
    }

    /// The value of type `ty` that lies from bit `at` on.
    fn value_of(&mut self, pieces: &[Piece], at: u64, ty: Type) -> ValueId {
        if !ty.is_aggregate() {
            let end = at + 8 * u64::from(self.unit.prog.size_of(ty));
            return self.put_together(at, end - at, ty, pieces);
        }
        let mut value = self.zero(ty);
        for leaf in leaves(&self.unit.prog, ty) {
            let part = self.put_together(at + leaf.at, leaf.bits, leaf.ty, pieces);
            let path = self.projections(&leaf.path);
            value = self.op(Op::Set { agg: value, path, value: part }, ty);
        }
        value
    }

    /// Writes a value over what lies from bit `at` of a place on.
    ///
    /// # Errors
    /// Reports places that cannot change, and values that are too long.
    pub fn write_over(
        &mut self,
        place: &Place,
        at: u64,
        value: ValueId,
        span: Span,
    ) -> Lowered<()> {
        let ty = self.b.body.ty(value);
        let end = at + 8 * u64::from(self.unit.prog.size_of(ty));
        if self.is_too_long(place.ty, at..end, ty) {
            return Err(self.too_long(span));
        }
        let new = self.pieces_of_value(at, value);
        for leaf in leaves_within(&self.unit.prog, place.ty, at..end) {
            let behind = leaf.at + leaf.bits;
            let mut pieces = new.clone();
            if leaf.at < at || end < behind {
                let old = self.read_leaf(place, &leaf);
                let old = self.piece(leaf.at, leaf.bits, old);
                let before = Piece { bits: at.saturating_sub(leaf.at), ..old };
                let from = end.saturating_sub(leaf.at).min(leaf.bits);
                pieces.extend([
                    before,
                    Piece { at: leaf.at + from, bits: leaf.bits - from, from, ..old },
                ]);
            }
            let value = self.put_together(leaf.at, leaf.bits, leaf.ty, &pieces);
            let path = self.projections(&leaf.path);
            self.write(&place.part(&path, leaf.ty), value, span)?;
        }
        Ok(())
    }

    /// The elements of an array of integers from `first` on that have `bytes` bytes, each with
    /// the bit it lies at.
    fn elements(&mut self, array: &Place, first: ValueId, bytes: u32) -> Vec<(u64, Place)> {
        let Type::Array(id) = array.ty else { return Vec::new() };
        let elem = self.unit.prog.arrays[id].elem;
        let size = self.unit.prog.size_of(elem);
        let element = |lower: &mut Self, number: u32| {
            let more = lower.b.int(number.into(), Type::U32);
            let index = lower.op(Op::Bin(BinOp::Add, first, more), Type::U32);
            let at = u64::from(8 * number * size);
            (at, array.part(&[Proj::Index(index)], elem))
        };
        (0..bytes / size).map(|number| element(self, number)).collect()
    }

    /// The value of type `ty` that lies in an array of integers from an element on.
    pub fn read_from(&mut self, array: &Place, first: ValueId, ty: Type) -> ValueId {
        let mut pieces = Vec::new();
        for (at, element) in self.elements(array, first, self.unit.prog.size_of(ty)) {
            let value = self.read(&element);
            let bits = 8 * u64::from(self.unit.prog.size_of(element.ty));
            pieces.push(self.piece(at, bits, value));
        }
        self.value_of(&pieces, 0, ty)
    }

    /// Writes a value over elements of an array of integers.
    ///
    /// # Errors
    /// Reports places that cannot change.
    pub fn write_from(
        &mut self,
        array: &Place,
        first: ValueId,
        value: ValueId,
        span: Span,
    ) -> Lowered<()> {
        let pieces = self.pieces_of_value(0, value);
        let bytes = self.unit.prog.size_of(self.b.body.ty(value));
        for (at, element) in self.elements(array, first, bytes) {
            let bits = 8 * u64::from(self.unit.prog.size_of(element.ty));
            let part = self.put_together(at, bits, element.ty, &pieces);
            self.write(&element, part, span)?;
        }
        Ok(())
    }

    /// A value of type `ty` that begins with the bytes of another one; the rest is zero.
    pub fn laid_over(&mut self, value: ValueId, ty: Type) -> ValueId {
        let place = Place::of_value(value, self.b.body.ty(value));
        self.read_over(&place, 0, ty)
    }
}
