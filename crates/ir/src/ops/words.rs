//! Kinds of an op that the text form names by a word.

use super::field::{Arg, Field, Kind, Part};

/// An enumeration of which every variant has a word.
pub trait Words: Copy + PartialEq + Sized + 'static {
    /// Every variant with its word and what it means.
    const ALL: &'static [(Self, &'static str, &'static str)];

    /// The word of the text form.
    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(one, ..)| *one == self).map_or("?", |(_, word, _)| word)
    }
}

/// Makes an enumeration from its rows: documentation, variant, word.
macro_rules! words {
    ($(#[$outer:meta])* $set:ident: $what:literal { $($(#[doc = $doc:literal])* $name:ident $word:literal,)* }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $set {
            $($(#[doc = $doc])* $name,)*
        }

        impl Words for $set {
            const ALL: &'static [($set, &'static str, &'static str)] =
                &[$(($set::$name, $word, concat!($($doc, "\n"),*)),)*];
        }

        impl Field for $set {
            const KIND: Kind = Kind::Word { words: &[$($word),*], what: $what };

            fn arg(&self) -> Arg<'_> {
                Arg::Word(self.word())
            }

            fn take(part: Part) -> Option<$set> {
                let Part::Word(index) = part else { return None };
                <$set as Words>::ALL.get(index).map(|(one, ..)| *one)
            }
        }
    };
}

words! {
    /// Two-operand integer arithmetic; operands and result have one type.
    BinOp: "an operation" {
        /// Sum; wraps.
        Add "add",
        /// Difference; wraps.
        Sub "sub",
        /// Product; wraps.
        Mul "mul",
        /// Quotient; by zero it is 0. `iN`: truncates, and MIN / -1 = MIN.
        Div "div",
        /// Remainder; by zero it is the dividend. `iN`: sign of the dividend, and MIN % -1 = 0.
        Rem "rem",
        /// Bitwise and.
        And "and",
        /// Bitwise or.
        Or "or",
        /// Bitwise exclusive or.
        Xor "xor",
        /// Shift left; by the width or more it is 0. The amount is read as unsigned.
        Shl "shl",
        /// Shift right, logical for `uN`, arithmetic for `iN`; by the width or more it is 0 (or
        /// the sign).
        Shr "shr",
    }
}

words! {
    /// Integer comparison by the operands' signedness; gives `u1`.
    CmpOp: "a comparison" {
        /// Equal.
        Eq "eq",
        /// Not equal.
        Ne "ne",
        /// Less.
        Lt "lt",
        /// Less or equal.
        Le "le",
        /// Greater.
        Gt "gt",
        /// Greater or equal.
        Ge "ge",
    }
}

words! {
    /// One-operand integer operations; operand and result have one type.
    UnOp: "an operation" {
        /// Bitwise complement.
        Not "not",
        /// Two's complement negation.
        Neg "neg",
        /// Byte swap of a 16-, 32- or 64-bit integer.
        Bswap "bswap",
        /// How many bits are one.
        Popcount "popcount",
    }
}

words! {
    /// Commutative read-modify-write of one integer member of a table entry.
    CommuteOp: "add, min, max or or" {
        /// Sum.
        Add "add",
        /// The lesser, by the member's signedness.
        Min "min",
        /// The greater, by the member's signedness.
        Max "max",
        /// Bitwise or.
        Or "or",
    }
}

words! {
    /// A function of cryptography over bytes of a packet. Arguments stand in the order of its text.
    CryptoOp: "a function of cryptography" {
        /// Counter mode (NIST SP 800-38A, 6.5), either way: a key of 16, 24 or 32 bytes and
        /// a first counter block of 16.
        AesCtr "aes_ctr",
        /// Cipher block chaining (NIST SP 800-38A, 6.2): a key and an IV of 16
        /// bytes. It refuses bytes that are no whole blocks of 16.
        AesCbcEncrypt "aes_cbc_encrypt",
        /// The way back of `aes_cbc_encrypt`.
        AesCbcDecrypt "aes_cbc_decrypt",
        /// Galois/counter mode (NIST SP 800-38D): a key, a nonce of 12 bytes and data
        /// that is authenticated only. It gives a tag of 16 bytes.
        AesGcmSeal "aes_gcm_seal",
        /// The way back of `aes_gcm_seal`, with the tag as a fourth argument. It
        /// refuses what the tag does not fit.
        AesGcmOpen "aes_gcm_open",
        /// A digest of 32 bytes (FIPS 180-4).
        Sha256 "sha256",
        /// A digest of 32 bytes with a key of any length (RFC 2104).
        HmacSha256 "hmac_sha256",
        /// CRC-32 as Ethernet and zlib have it (IEEE 802.3): 4 bytes, the low one first.
        Crc32 "crc32",
    }
}

impl UnOp {
    /// True if it applied twice gives the operand back.
    pub fn undoes_itself(self) -> bool {
        matches!(self, UnOp::Not | UnOp::Neg | UnOp::Bswap)
    }

    /// True if it exists for integers of `bits` bits.
    pub fn fits(self, bits: u8) -> bool {
        self != UnOp::Bswap || matches!(bits, 16 | 32 | 64)
    }
}

impl CmpOp {
    /// The comparison with its operands in the other order.
    pub fn mirrored(self) -> CmpOp {
        match self {
            CmpOp::Lt => CmpOp::Gt,
            CmpOp::Le => CmpOp::Ge,
            CmpOp::Gt => CmpOp::Lt,
            CmpOp::Ge => CmpOp::Le,
            CmpOp::Eq | CmpOp::Ne => self,
        }
    }

    /// The comparison that holds where this one does not.
    pub fn inverse(self) -> CmpOp {
        match self {
            CmpOp::Eq => CmpOp::Ne,
            CmpOp::Ne => CmpOp::Eq,
            CmpOp::Lt => CmpOp::Ge,
            CmpOp::Le => CmpOp::Gt,
            CmpOp::Gt => CmpOp::Le,
            CmpOp::Ge => CmpOp::Lt,
        }
    }
}
