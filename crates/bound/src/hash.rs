//! Maps and sets of small keys: ids, pairs of ids, literals.
//!
//! A multiplication and a rotation per word in place of SipHash. Keys come from programs that are
//! analysed once, so nobody gains by making them collide, and order never shows: the maps are not
//! iterated where it would.

use std::hash::{BuildHasherDefault, Hasher};

pub type HashMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<Words>>;
pub type HashSet<K> = std::collections::HashSet<K, BuildHasherDefault<Words>>;

/// Hashes word by word.
#[derive(Clone, Copy, Default)]
pub struct Words(u64);

/// 2^64 divided by the golden ratio, odd.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for Words {
    fn finish(&self) -> u64 {
        // Tables take their slot from the low bits and their tag from the high ones.
        self.0.rotate_left(26)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(FACTOR);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}
