//! Hashes and random numbers as generated code computes them: by tables, since that is how an
//! object shows them to a proof. What the tables hold is checked against what they should.

use nicforge_ir::io::CRC32C;

use super::Front;
use super::packet::{joined, word};
use crate::ebpf::{VALUES, VALUES_EACH};
use crate::graph::{Effect, Expr};
use crate::term::Op as TermOp;

/// Tables for bytes that so many others follow.
const SLICES: usize = 8;

/// The tables of a CRC32C that takes eight bytes at a time, as they lie in memory.
pub fn crc_tables() -> Vec<u8> {
    let mut all = CRC32C.to_vec();
    for slice in 1..SLICES {
        for byte in 0..256 {
            let before = all[256 * (slice - 1) + byte];
            all.push(before >> 8 ^ CRC32C[before as usize & 0xff]);
        }
    }
    all.into_iter().flat_map(u32::to_le_bytes).collect()
}

fn xor(a: Expr, b: Expr) -> Expr {
    Expr::binary(TermOp::Xor, a, b)
}

/// `x ^ x >> by` for any width.
fn shifted(x: &Expr, bits: u8, by: u64) -> Expr {
    xor(x.clone(), Expr::binary(TermOp::Lshr, x.clone(), Expr::Const(bits, by)))
}

impl Front<'_> {
    /// An expression in a slot, so that it is written once.
    fn held(&mut self, effects: &mut Vec<Effect>, bits: u8, value: Expr) -> Expr {
        let slot = self.out.slot(bits);
        effects.push(Effect::Set(slot, value));
        Expr::Slot(slot)
    }

    /// An expression that no solver sees through, in a slot.
    fn forgotten(&mut self, effects: &mut Vec<Effect>, bits: u8, value: Expr) -> Expr {
        let slot = self.out.slot(bits);
        effects.extend([Effect::Set(slot, value), Effect::Forget(slot)]);
        Expr::Slot(slot)
    }

    /// What a byte does to the sum that so many bytes behind it find.
    fn crc_part(
        &mut self,
        effects: &mut Vec<Effect>,
        table: (usize, u64),
        behind: u64,
        byte: Expr,
    ) -> Expr {
        let (map, offset) = table;
        let base = VALUES + map as u64 * VALUES_EACH + offset + 1024 * behind;
        let at = Expr::binary(TermOp::Shl, Expr::zext(byte, 64), word(2));
        let slot = self.out.slot(32);
        effects.push(Effect::Load { slot, address: Expr::add(at, word(base)), bytes: 4 });
        Expr::Slot(slot)
    }

    /// A CRC32C's part of four bytes.
    fn crc_word(
        &mut self,
        effects: &mut Vec<Effect>,
        table: (usize, u64),
        behind: u64,
        four: Expr,
    ) -> Expr {
        let four = self.held(effects, 32, four);
        let parts: Vec<Expr> = (0..4)
            .map(|at| {
                let byte = Expr::extract(four.clone(), 8 * at, 8);
                self.crc_part(effects, table, behind + 3 - u64::from(at), byte)
            })
            .collect();
        let whole = parts.into_iter().reduce(xor).unwrap_or(Expr::Const(32, 0));
        self.held(effects, 32, whole)
    }

    /// `nf_hash(seed, bytes)` (see [`nicforge_ir::io::hash`]): what computes it, and the hash.
    pub fn hashed(
        &mut self,
        table: (usize, u64),
        seed: Expr,
        bytes: &[Expr],
    ) -> (Vec<Effect>, Expr) {
        let mut effects = Vec::new();
        let effects_of = &mut effects;
        let mut crc = self.crc_word(effects_of, table, 0, Expr::not(seed.clone()));
        let mut rest = bytes;
        while let Some((eight, more)) = rest.split_first_chunk::<8>() {
            let first = xor(crc, joined(&eight[..4]));
            let first = self.crc_word(effects_of, table, 4, first);
            let second = self.crc_word(effects_of, table, 0, joined(&eight[4..]));
            crc = self.held(effects_of, 32, xor(first, second));
            rest = more;
        }
        if let Some((four, more)) = rest.split_first_chunk::<4>() {
            crc = self.crc_word(effects_of, table, 0, xor(crc, joined(four)));
            rest = more;
        }
        for byte in rest {
            let at = xor(Expr::extract(crc.clone(), 0, 8), byte.clone());
            let part = self.crc_part(effects_of, table, 0, at);
            let moved = Expr::binary(TermOp::Lshr, crc, Expr::Const(32, 8));
            crc = self.held(effects_of, 32, xor(moved, part));
        }
        let mut mixed = self.held(effects_of, 32, xor(Expr::not(crc), seed));
        for (by, factor) in [(16, 0x85eb_ca6b), (13, 0xc2b2_ae35)] {
            let product =
                Expr::binary(TermOp::Mul, shifted(&mixed, 32, by), Expr::Const(32, factor));
            mixed = self.held(effects_of, 32, product);
        }
        let hash = self.forgotten(&mut effects, 32, shifted(&mixed, 32, 16));
        (effects, hash)
    }

    /// The number that follows `drawn` others of a random stream (see [`nicforge_ir::io::random`]).
    pub fn random_at(&mut self, seed: Expr, drawn: Expr) -> (Vec<Effect>, Expr) {
        let mut effects = Vec::new();
        let one_more = Expr::add(Expr::zext(drawn, 64), word(1));
        let steps = Expr::binary(TermOp::Mul, one_more, word(0x9e37_79b9_7f4a_7c15));
        let mut mixed = self.held(&mut effects, 64, Expr::add(seed, steps));
        for (by, factor) in [(30, 0xbf58_476d_1ce4_e5b9), (27, 0x94d0_49bb_1331_11eb)] {
            let product = Expr::binary(TermOp::Mul, shifted(&mixed, 64, by), word(factor));
            mixed = self.held(&mut effects, 64, product);
        }
        let last = self.forgotten(&mut effects, 64, shifted(&mixed, 64, 31));
        (effects, Expr::extract(last, 32, 32))
    }
}
