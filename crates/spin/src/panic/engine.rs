//! What an engine beside a core computes.

/// Ones-complement sum of half words as they lie in memory (RFC 1071), the last byte alone where
/// their number is odd.
pub(super) fn sum(bytes: &[u8]) -> u32 {
    let half = |pair: &[u8]| u64::from(pair[0]) | u64::from(*pair.get(1).unwrap_or(&0)) << 8;
    let mut sum: u64 = bytes.chunks(2).map(half).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u32
}

/// CRC32C (RFC 3720, appendix B.4) of a word and the bytes behind it, as a register that begins
/// with ones holds it: not inverted at the end.
pub(super) fn crc(first: u32, bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        let turn = |crc: u32, _| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
        (0..8).fold(crc ^ u32::from(*byte), turn)
    };
    first.to_le_bytes().iter().chain(bytes).fold(!0, step)
}

#[cfg(test)]
mod tests {
    /// The example of RFC 1071, section 3, in the other byte order, and the check value of CRC32C.
    #[test]
    fn engines_compute_what_the_standards_say() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(super::sum(&bytes), 0xf2dd);
        assert_eq!(super::sum(&[1, 2, 3]), 0x0204);
        assert_eq!(!super::crc(u32::from_le_bytes(*b"1234"), b"56789"), 0xe306_9283);
    }
}
