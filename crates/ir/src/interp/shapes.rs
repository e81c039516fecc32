//! Layouts of all types of a program, worked out once, and values to and from their bytes.

use std::sync::Arc;

use cranelift_entity::SecondaryMap;

use super::Val;
use super::arith::sign_extend;
use super::bits;
use crate::build::mask;
use crate::layout::{FieldSlot, int_layout};
use crate::ops::Proj;
use crate::program::{Program, ValueId};
use crate::types::{ArrayId, Field, StructId, Type};

/// Layouts of a program's types. The types must be finite, as the verifier's are.
#[derive(Clone, Debug)]
pub struct Shapes {
    structs: SecondaryMap<StructId, StructShape>,
    arrays: SecondaryMap<ArrayId, ArrayShape>,
}

#[derive(Clone, Debug, Default)]
struct StructShape {
    size: u32,
    slots: Vec<(FieldSlot, Option<Type>)>,
    /// By member: it is an unnamed bit-field.
    padding: Vec<bool>,
    /// Every bit of its bytes means something.
    dense: bool,
}

#[derive(Clone, Debug, Default)]
struct ArrayShape {
    elem: Option<Type>,
    elem_size: u32,
    len: u32,
}

/// A part of an aggregate: `bits` bits from bit `at`, holding a value of type `ty`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub at: u32,
    pub bits: u32,
    pub ty: Type,
}

impl Shapes {
    pub fn new(program: &Program) -> Shapes {
        let mut shapes = Shapes { structs: SecondaryMap::new(), arrays: SecondaryMap::new() };
        for (id, def) in &program.structs {
            let (layout, slots) = program.struct_layout(id);
            let slots = slots
                .into_iter()
                .zip(&def.fields)
                .map(|(slot, field)| (slot, Some(field.ty)))
                .collect();
            let padding = def.fields.iter().map(Field::is_padding).collect();
            shapes.structs[id] = StructShape { size: layout.size, slots, padding, dense: false };
        }
        for (id, def) in &program.arrays {
            let elem_size = program.size_of(def.elem);
            shapes.arrays[id] = ArrayShape { elem: Some(def.elem), elem_size, len: def.len };
        }
        // Members may be declared after the structs that hold them: repeat until nothing changes.
        loop {
            let newly: Vec<StructId> = program
                .structs
                .keys()
                .filter(|id| !shapes.structs[*id].dense && shapes.struct_is_dense(*id))
                .collect();
            if newly.is_empty() {
                return shapes;
            }
            newly.into_iter().for_each(|id| shapes.structs[id].dense = true);
        }
    }

    fn struct_is_dense(&self, id: StructId) -> bool {
        let shape = &self.structs[id];
        let mut covered = 0;
        for ((slot, ty), padding) in shape.slots.iter().zip(&shape.padding) {
            let full = match ty {
                _ if *padding => false,
                Some(Type::Int { bits, .. }) => *bits as u32 >= slot.bits,
                Some(ty) => self.is_dense(*ty),
                None => false,
            };
            if slot.bit_offset != covered || !full {
                return false;
            }
            covered += slot.bits;
        }
        covered == shape.size * 8
    }

    /// True if every bit of the type's bytes means something.
    fn is_dense(&self, ty: Type) -> bool {
        match ty {
            Type::Int { bits, .. } => bits as u32 == int_layout(bits).size * 8,
            Type::Struct(id) => self.structs[id].dense,
            Type::Array(id) => self.arrays[id].elem.is_some_and(|elem| self.is_dense(elem)),
            Type::Packet => true,
        }
    }

    /// Size in bytes of a type.
    pub fn size(&self, ty: Type) -> usize {
        match ty {
            Type::Int { bits, .. } => int_layout(bits).size as usize,
            Type::Struct(id) => self.structs[id].size as usize,
            Type::Array(id) => self.arrays[id].elem_size as usize * self.arrays[id].len as usize,
            Type::Packet => 0,
        }
    }

    /// The zero value of a type.
    pub fn zero(&self, ty: Type) -> Val {
        match ty {
            Type::Int { .. } | Type::Packet => Val::Int(0),
            _ => Val::Bytes(vec![0; self.size(ty)].into()),
        }
    }

    /// Which bits of a value's bytes mean something; the others are zero in every value.
    pub fn meaning(&self, ty: Type) -> Vec<u8> {
        self.encode(ty, &self.decode(ty, &vec![0xff; self.size(ty)])).to_vec()
    }

    /// The value whose bytes these are; padding and bits above an integer's width read as zero.
    pub fn decode(&self, ty: Type, bytes: &[u8]) -> Val {
        match ty {
            Type::Int { bits, .. } => {
                Val::Int(mask(bits::get(bytes, 0, int_layout(bits).size * 8), bits))
            }
            _ if self.is_dense(ty) => Val::Bytes(bytes.into()),
            _ => {
                let mut clean = vec![0; bytes.len()];
                self.copy_meaning(ty, bytes, &mut clean);
                Val::Bytes(clean.into())
            }
        }
    }

    /// A value's bytes.
    pub fn encode(&self, ty: Type, value: &Val) -> Arc<[u8]> {
        match value {
            Val::Bytes(bytes) => bytes.clone(),
            Val::Int(raw) => raw.to_le_bytes()[..self.size(ty)].into(),
            Val::Packet(_) => [].into(),
        }
    }

    /// True if padding and bits above an integer's width are zero.
    pub fn is_canonical(&self, ty: Type, bytes: &[u8]) -> bool {
        match self.decode(ty, bytes) {
            Val::Bytes(clean) => *clean == *bytes,
            value => *self.encode(ty, &value) == *bytes,
        }
    }

    /// Copies everything but padding.
    fn copy_meaning(&self, ty: Type, from: &[u8], to: &mut [u8]) {
        match ty {
            Type::Int { .. } | Type::Packet => {
                let clean = self.encode(ty, &self.decode(ty, from));
                to.copy_from_slice(&clean);
            }
            Type::Array(id) => {
                let shape = &self.arrays[id];
                let size = shape.elem_size.max(1) as usize;
                if let Some(elem) = shape.elem {
                    from.chunks(size)
                        .zip(to.chunks_mut(size))
                        .for_each(|(a, b)| self.copy_meaning(elem, a, b));
                }
            }
            Type::Struct(id) => {
                let shape = &self.structs[id];
                for ((slot, ty), padding) in shape.slots.iter().zip(&shape.padding) {
                    match ty {
                        _ if *padding => {}
                        Some(Type::Int { bits, .. }) => {
                            let raw = bits::get(from, slot.bit_offset, slot.bits);
                            bits::set(to, slot.bit_offset, slot.bits, mask(raw, *bits));
                        }
                        Some(ty) => {
                            let (start, end) = byte_range(slot.bit_offset, slot.bits);
                            self.copy_meaning(*ty, &from[start..end], &mut to[start..end]);
                        }
                        None => {}
                    }
                }
            }
        }
    }

    /// The part at the end of a path into a value of type `ty`; `None` if an index is beyond its
    /// array.
    pub fn locate(&self, ty: Type, path: &[Proj], index: impl Fn(ValueId) -> u64) -> Option<Part> {
        let mut part = Part { at: 0, bits: self.size(ty) as u32 * 8, ty };
        for step in path {
            part = match (part.ty, step) {
                (Type::Struct(id), Proj::Field(i)) => {
                    let (slot, ty) = self.structs[id].slots[*i as usize];
                    Part { at: part.at + slot.bit_offset, bits: slot.bits, ty: ty? }
                }
                (Type::Array(id), Proj::Index(i)) => {
                    let shape = &self.arrays[id];
                    let i = u32::try_from(index(*i)).ok().filter(|i| *i < shape.len)?;
                    let bits = shape.elem_size * 8;
                    Part { at: part.at + i * bits, bits, ty: shape.elem? }
                }
                // The verifier checked that the path fits.
                _ => return None,
            };
        }
        Some(part)
    }

    /// Reads a part of an aggregate. Signed bit-fields are sign-extended to their type.
    pub fn read(&self, bytes: &[u8], part: Part) -> Val {
        match part.ty {
            Type::Int { bits, signed } => {
                let raw = bits::get(bytes, part.at, part.bits);
                let short = signed && part.bits < bits as u32;
                Val::Int(mask(
                    if short { sign_extend(raw, part.bits as u8) as u64 } else { raw },
                    bits,
                ))
            }
            _ => {
                let (start, end) = byte_range(part.at, part.bits);
                Val::Bytes(bytes[start..end].into())
            }
        }
    }

    /// Replaces a part of an aggregate; what a bit-field has no room for is cut off.
    pub fn write(&self, bytes: &mut [u8], part: Part, value: &Val) {
        match value {
            Val::Int(raw) => bits::set(bytes, part.at, part.bits, *raw),
            Val::Bytes(new) => {
                let (start, end) = byte_range(part.at, part.bits);
                bytes[start..end].copy_from_slice(new);
            }
            Val::Packet(_) => {}
        }
    }
}

fn byte_range(at: u32, bits: u32) -> (usize, usize) {
    ((at / 8) as usize, ((at + bits) / 8) as usize)
}
