//! Internet checksums when an address changes (RFC 1071, RFC 1624).
//!
//! A checksum is the complement of the ones' complement sum of all 16-bit words. If words m become
//! m', equation 3 of RFC 1624 gives HC' = ~(~HC + Σ(~m + m')). The sum over an address is the same
//! for all packets, so it is computed once, when the addresses are configured: the *delta*. A
//! packet then costs one addition and two folds per checksum.

pub use nicforge_util::checksum::{fold, sum};

/// The change of the complement of a checksum when `old` is replaced by `new` (of equal, even
/// length).
pub fn delta(old: &[u8], new: &[u8]) -> u16 {
    debug_assert!(old.len() == new.len() && old.len().is_multiple_of(2));
    fold(
        sum(new)
            + old
                .chunks(2)
                .map(|pair| u64::from(!u16::from_be_bytes([pair[0], pair[1]])))
                .sum::<u64>(),
    )
}

/// A checksum after the change that `delta` stands for.
pub fn patch(checksum: u16, delta: u16) -> u16 {
    !fold(u64::from(!checksum) + u64::from(delta))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1624() {
        // Section 4: a word 0x5555 becomes 0x3285, the checksum 0xdd2f becomes 0x0000.
        assert_eq!(patch(0xdd2f, delta(&[0x55, 0x55], &[0x32, 0x85])), 0x0000);
    }
}
