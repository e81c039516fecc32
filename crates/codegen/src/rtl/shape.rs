//! Values as vectors of bits: an integer has its bits, an aggregate eight times its bytes, byte 0
//! in the lowest bits.

use nicforge_ir::interp::Shapes;
use nicforge_ir::{Program, Proj, Type, ValueId};

/// Widths of a program's types.
pub struct Bits<'a> {
    pub program: &'a Program,
    shapes: Shapes,
}

/// The part at the end of a path: `bits` bits from bit `at` plus, for each index that is a value,
/// its stride times the value.
#[derive(Clone, Debug)]
pub struct Part {
    pub at: u32,
    pub bits: u32,
    pub ty: Type,
    pub indices: Vec<Index>,
}

/// An index that is a value.
#[derive(Clone, Debug)]
pub struct Index {
    pub value: ValueId,
    pub stride: u32,
    pub len: u32,
}

impl<'a> Bits<'a> {
    pub fn new(program: &'a Program) -> Bits<'a> {
        Bits { program, shapes: Shapes::new(program) }
    }

    /// Bits of a value; 0 for packets.
    pub fn width(&self, ty: Type) -> u32 {
        match ty {
            Type::Int { bits, .. } => u32::from(bits),
            _ => self.bytes(ty) * 8,
        }
    }

    /// Bytes of a value where it lies in packets, tables and messages.
    pub fn bytes(&self, ty: Type) -> u32 {
        self.shapes.size(ty) as u32
    }

    /// Which bits of a value's bytes mean something, least significant first; `None` if all do.
    pub fn meaning(&self, ty: Type) -> Option<Vec<u8>> {
        let meaning = self.shapes.meaning(ty);
        meaning.iter().any(|byte| *byte != 0xff).then_some(meaning)
    }

    /// The part at the end of a path into a value of type `ty`. Constant indices are found by
    /// `constant`; `None` if one is beyond its array.
    pub fn locate(
        &self,
        ty: Type,
        path: &[Proj],
        constant: impl Fn(ValueId) -> Option<u64>,
    ) -> Option<Part> {
        let mut part = Part { at: 0, bits: self.width(ty), ty, indices: Vec::new() };
        for step in path {
            match (part.ty, step) {
                (Type::Struct(id), Proj::Field(number)) => {
                    let slot = self.program.struct_layout(id).1[*number as usize];
                    part.at += slot.bit_offset;
                    part.bits = slot.bits;
                    part.ty = self.program.structs[id].fields[*number as usize].ty;
                }
                (Type::Array(id), Proj::Index(value)) => {
                    let def = self.program.arrays[id];
                    let stride = self.bytes(def.elem) * 8;
                    match constant(*value) {
                        Some(index) if index < u64::from(def.len) => {
                            part.at += index as u32 * stride
                        }
                        Some(_) => return None,
                        None => part.indices.push(Index { value: *value, stride, len: def.len }),
                    }
                    part.bits = stride;
                    part.ty = def.elem;
                }
                // The verifier checked that the path fits.
                _ => return None,
            }
        }
        Some(part)
    }
}

/// A constant of `bits` bits from bytes, least significant first.
pub fn literal(bits: u32, bytes: &[u8]) -> String {
    let digits: String = bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect();
    let digits = digits.trim_start_matches('0');
    format!("{bits}'h{}", if digits.is_empty() { "0" } else { digits })
}

/// A small constant of `bits` bits.
pub fn number(bits: u32, value: u64) -> String {
    let value = if bits < 64 { value & ((1 << bits) - 1) } else { value };
    format!("{bits}'h{value:x}")
}
