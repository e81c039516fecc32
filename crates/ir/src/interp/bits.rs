//! Integers inside the bytes of an aggregate, at any bit: bit 0 is the least significant of the
//! first byte.

/// The `bits` (at most 64) bits that start at bit `at`. They must lie within `bytes`.
pub fn get(bytes: &[u8], at: u32, bits: u32) -> u64 {
    let (first, shift) = ((at / 8) as usize, at % 8);
    let last = ((at + bits).div_ceil(8) as usize).min(bytes.len());
    let mut wide = [0u8; 16];
    wide[..last - first].copy_from_slice(&bytes[first..last]);
    crate::build::mask((u128::from_le_bytes(wide) >> shift) as u64, bits as u8)
}

/// Replaces the `bits` (at most 64) bits that start at bit `at` by the low ones of `value`.
pub fn set(bytes: &mut [u8], at: u32, bits: u32, value: u64) {
    let (first, shift) = ((at / 8) as usize, at % 8);
    let last = ((at + bits).div_ceil(8) as usize).min(bytes.len());
    let mut wide = [0u8; 16];
    wide[..last - first].copy_from_slice(&bytes[first..last]);
    let ones = crate::build::mask(u64::MAX, bits as u8) as u128;
    let kept = u128::from_le_bytes(wide) & !(ones << shift);
    let new = kept | ((value as u128 & ones) << shift);
    bytes[first..last].copy_from_slice(&new.to_le_bytes()[..last - first]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_read_and_neighbours_stay() {
        for at in 0..20 {
            for bits in 1..=64 {
                for background in [0u8, 0xff, 0xa5] {
                    let mut bytes = [background; 16];
                    let value = 0x9e37_79b9_7f4a_7c15;
                    set(&mut bytes, at, bits, value);
                    assert_eq!(get(&bytes, at, bits), crate::build::mask(value, bits as u8));
                    for bit in (0..128).filter(|b| *b < at || *b >= at + bits) {
                        let expected = get(&[background; 16], bit, 1);
                        assert_eq!(get(&bytes, bit, 1), expected, "bit {bit} around {at}+{bits}");
                    }
                }
            }
        }
    }

    #[test]
    fn ipv4_version_is_the_upper_half_of_the_first_byte() {
        assert_eq!((get(&[0x45], 0, 4), get(&[0x45], 4, 4)), (5, 4));
    }
}
