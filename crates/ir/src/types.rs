//! Types of values. Structs and arrays are interned in the program; [`Type`] is a small `Copy` key.

use cranelift_entity::entity_impl;

/// A struct type of the program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StructId(u32);
entity_impl!(StructId, "s");

/// A fixed-length array type of the program (interned: equal arrays have equal ids).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArrayId(u32);
entity_impl!(ArrayId, "a");

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// `uN` or `iN`, 1 ≤ N ≤ 64. `u1` is the truth value.
    Int {
        bits: u8,
        signed: bool,
    },
    Struct(StructId),
    Array(ArrayId),
    /// A linear packet handle.
    Packet,
}

impl Type {
    pub const BOOL: Type = Type::u(1);
    pub const U8: Type = Type::u(8);
    pub const U16: Type = Type::u(16);
    pub const U32: Type = Type::u(32);
    pub const U64: Type = Type::u(64);

    /// The unsigned integer of `bits` bits.
    pub const fn u(bits: u8) -> Type {
        Type::Int { bits, signed: false }
    }

    /// The signed integer of `bits` bits.
    pub const fn i(bits: u8) -> Type {
        Type::Int { bits, signed: true }
    }

    /// Width in bits of an integer type.
    pub fn bits(self) -> Option<u8> {
        match self {
            Type::Int { bits, .. } => Some(bits),
            _ => None,
        }
    }

    pub fn is_int(self) -> bool {
        matches!(self, Type::Int { .. })
    }

    pub fn is_signed(self) -> bool {
        matches!(self, Type::Int { signed: true, .. })
    }

    pub fn is_aggregate(self) -> bool {
        matches!(self, Type::Struct(_) | Type::Array(_))
    }
}

/// A struct as the user declared it. Offsets follow from [`crate::layout`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StructDef {
    pub name: String,
    /// `__attribute__((packed))`: no padding, alignment 1.
    pub packed: bool,
    pub fields: Vec<Field>,
}

/// One member of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Empty for an unnamed bit-field, which is padding.
    pub name: String,
    pub ty: Type,
    /// Width of a bit-field (clang's x86 layout: least significant bits first); `None` for an
    /// ordinary member.
    pub bit_width: Option<u8>,
    /// Declared `nf_be16/32/64`: the bytes are in network order. The value an op sees is still the
    /// little-endian reading of those bytes; only dumps, table files and the byte-order warnings
    /// look at this.
    pub big_endian: bool,
}

impl Field {
    /// True if the member is an unnamed bit-field: bits that are set aside and always read as zero.
    pub fn is_padding(&self) -> bool {
        self.bit_width.is_some() && self.name.is_empty()
    }
}

/// Element type and length of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArrayDef {
    pub elem: Type,
    pub len: u32,
}
