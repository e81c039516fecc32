//! Receive-side scaling keys.
//!
//! A NIC that spreads by hash computes a Toeplitz hash of the fields chosen as its input set (Microsoft's receive-side scaling
//! specification; input sets by `rte_flow` or `ethtool -U`, such as source address only): the exclusive or of key windows `k[i .. i+32]`
//! over the input bits `x_i` that are set. The low bits of the hash choose the queue.
//!
//! Which packets meet is therefore decided twice: by the input set, which is the steering key and may differ between ports (so that both
//! directions of a connection meet), and by the key, which is synthesised so that the low seven bits, an indirection table of
//! 128 entries, depend on every bit of the input: consecutive addresses of one subnet and addresses of far subnets both spread. One whole-frame
//! key that is blind to other fields does not do: a window has 32 bits, so a blind neighbour leaves one key bit, and the low bits of the
//! hash would be the high bits of the address.

use nicforge_plan::PortFields;

/// Bytes of a key.
pub const KEY: usize = 40;

/// A key per port, hexadecimal. All ports have the same one: equal fields hash equally by whatever port they come.
pub fn keys(fields: &[PortFields]) -> Vec<String> {
    fields.iter().map(|_| hex(&key())).collect()
}

/// Every stretch of seven bits from the 26th on has some and lacks some, and no two such stretches in a row are equal: the low seven
/// bits of windows `i`, which are `k[i+25 .. i+32]`, are different from their neighbours'.
fn key() -> [u8; KEY] {
    let mut key = [0u8; KEY];
    let mut state = 0x6d5a_56da_255b_0ec2u64;
    for byte in &mut key {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *byte = (state >> 56) as u8;
    }
    key
}

/// The hash of an input under a key.
pub fn hash(key: &[u8; KEY], input: &[u8]) -> u32 {
    let bit = |n: usize| u32::from(key[n / 8] >> (7 - n % 8) & 1);
    let window = |at: usize| (0..32).fold(0u32, |w, n| w << 1 | bit(at + n));
    let mut hash = 0;
    for (n, byte) in input.iter().enumerate() {
        for b in 0..8 {
            if byte >> (7 - b) & 1 == 1 {
                hash ^= window(n * 8 + b);
            }
        }
    }
    hash
}

fn hex(key: &[u8; KEY]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a key as plans write it.
pub fn parse(text: &str) -> Option<[u8; KEY]> {
    let mut key = [0; KEY];
    if text.len() != 2 * KEY || !text.is_ascii() {
        return None;
    }
    for (n, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * n..2 * n + 2], 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queues that inputs go to, of eight, by the indirection table; a queue counts with at least half of its share.
    fn spread(inputs: impl Iterator<Item = Vec<u8>>) -> usize {
        let mut queues = [0usize; 8];
        for input in inputs {
            queues[(hash(&key(), &input) % 128 % 8) as usize] += 1;
        }
        let all: usize = queues.iter().sum();
        queues.iter().filter(|count| **count * 16 > all).count()
    }

    #[test]
    fn addresses_of_one_subnet_and_of_many_spread() {
        assert_eq!(spread((0..256u32).map(|n| (0x0a00_0100 + n).to_be_bytes().to_vec())), 8);
        assert_eq!(spread((0..256u32).map(|n| (0x0a00_0001 + (n << 8)).to_be_bytes().to_vec())), 8);
        assert_eq!(spread((0..256u32).map(|n| (n << 24 | 1).to_be_bytes().to_vec())), 8);
        assert_eq!(spread((0..4096u32).map(|n| n.wrapping_mul(0x9e37_79b9).to_be_bytes().to_vec())), 8);
    }

    #[test]
    fn every_port_has_the_same_key() {
        let ports = [0, 1].map(|port| PortFields { port, fields: vec![] });
        let keys = keys(&ports);
        assert_eq!(keys[0], keys[1]);
    }

    #[test]
    fn the_published_key_gives_the_published_hash() {
        // The hash function itself. Microsoft's verification suite: 66.9.149.187:2794 to 161.142.100.80:1766 is 0x51ccc178.
        let key: [u8; KEY] = [
            0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
            0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
            0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
        ];
        let input = [66, 9, 149, 187, 161, 142, 100, 80, 0x0a, 0xea, 0x06, 0xe6];
        assert_eq!(hash(&key, &input), 0x51cc_c178);
        assert_eq!(parse(&hex(&key)), Some(key));
    }
}
