//! Internet checksums (RFC 1071): ones' complement sums of 16-bit words in network order.

/// The sum of bytes as words, without folding; an odd last byte is the high half of a word.
pub fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(2).map(|pair| match pair {
        [high, low] => u64::from(u16::from_be_bytes([*high, *low])),
        [high] => u64::from(*high) << 8,
        _ => 0,
    });
    words.sum()
}

/// Adds the carries back in, so that 16 bits remain.
pub fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        // Section 3: these bytes sum to 0xddf2.
        assert_eq!(fold(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), 0xddf2);
        assert_eq!((sum(&[1]), fold(0x1_ffff)), (0x100, 1));
    }
}
