//! Sizes and offsets in bytes: one layout for every target.
//!
//! C's natural alignment on x86-64 with clang's bit-field rule (a bit-field goes into the next
//! bits, unless it would cross a boundary of its declared type; then it starts at that boundary).
//! Integers of widths that are not 8, 16, 32 or 64 occupy the next such size. Padding is part of
//! the value and always zero.

use crate::program::Program;
use crate::types::{StructDef, StructId, Type};

/// Size and alignment in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub size: u32,
    pub align: u32,
}

/// Where a struct member sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldSlot {
    /// Bits from the start of the struct (bytes × 8 for ordinary members).
    pub bit_offset: u32,
    /// Bits of the member.
    pub bits: u32,
}

/// Size and alignment in bytes of an integer of `bits` bits.
pub fn int_layout(bits: u8) -> Layout {
    let size = match bits {
        0..=8 => 1,
        9..=16 => 2,
        17..=32 => 4,
        _ => 8,
    };
    Layout { size, align: size }
}

impl Program {
    /// Size and alignment of a type. Packets have no layout: size 0.
    pub fn layout(&self, ty: Type) -> Layout {
        match ty {
            Type::Int { bits, .. } => int_layout(bits),
            Type::Struct(id) => self.struct_layout(id).0,
            Type::Array(id) => {
                let def = self.arrays[id];
                let elem = self.layout(def.elem);
                Layout { size: elem.size * def.len, align: elem.align }
            }
            Type::Packet => Layout { size: 0, align: 1 },
        }
    }

    /// Size in bytes of a type.
    pub fn size_of(&self, ty: Type) -> u32 {
        self.layout(ty).size
    }

    /// Layout of a struct and the slot of each member, in declaration order.
    pub fn struct_layout(&self, id: StructId) -> (Layout, Vec<FieldSlot>) {
        self.layout_fields(&self.structs[id])
    }

    fn layout_fields(&self, def: &StructDef) -> (Layout, Vec<FieldSlot>) {
        let (mut bit, mut align) = (0u32, 1u32);
        let mut slots = Vec::with_capacity(def.fields.len());
        for field in &def.fields {
            let own = self.layout(field.ty);
            let field_align = if def.packed { 1 } else { own.align };
            let (start, bits) = match field.bit_width {
                Some(width) => {
                    let unit = own.size * 8;
                    let crosses = bit / unit != (bit + width as u32 - 1) / unit;
                    let start =
                        if crosses && !def.packed { bit.next_multiple_of(unit) } else { bit };
                    (start, width as u32)
                }
                None => (bit.next_multiple_of(field_align * 8), own.size * 8),
            };
            slots.push(FieldSlot { bit_offset: start, bits });
            bit = start + bits;
            align = align.max(field_align);
        }
        (Layout { size: bit.div_ceil(8).next_multiple_of(align), align }, slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Field;

    fn field(name: &str, ty: Type, bit_width: Option<u8>) -> Field {
        Field { name: name.into(), ty, bit_width, big_endian: false }
    }

    #[test]
    fn natural_alignment_and_tail_padding() {
        let mut p = Program::new("t");
        let s = p.add_struct(StructDef {
            name: "s".into(),
            packed: false,
            fields: vec![
                field("a", Type::U8, None),
                field("b", Type::U32, None),
                field("c", Type::U16, None),
            ],
        });
        let (layout, slots) = p.struct_layout(s);
        assert_eq!(layout, Layout { size: 12, align: 4 });
        assert_eq!(slots.iter().map(|f| f.bit_offset / 8).collect::<Vec<_>>(), [0, 4, 8]);
    }

    #[test]
    fn bit_fields_share_a_unit_until_they_would_cross_it() {
        let mut p = Program::new("t");
        let s = p.add_struct(StructDef {
            name: "s".into(),
            packed: false,
            fields: vec![
                field("a", Type::U8, Some(4)),
                field("b", Type::U8, Some(3)),
                field("c", Type::U8, Some(2)),
                field("d", Type::U16, Some(9)),
            ],
        });
        let (layout, slots) = p.struct_layout(s);
        assert_eq!(slots.iter().map(|f| f.bit_offset).collect::<Vec<_>>(), [0, 4, 8, 16]);
        assert_eq!(layout, Layout { size: 4, align: 2 });
    }

    #[test]
    fn packed_structs_have_no_holes() {
        let mut p = Program::new("t");
        let s = p.add_struct(StructDef {
            name: "s".into(),
            packed: true,
            fields: vec![field("a", Type::U8, None), field("b", Type::U64, None)],
        });
        assert_eq!(p.struct_layout(s).0, Layout { size: 9, align: 1 });
    }
}
