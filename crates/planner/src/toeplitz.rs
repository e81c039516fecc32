//! Receive-side scaling keys.
//!
//! A NIC that spreads by hash computes a Toeplitz hash of the fields chosen as its input set
//! (Microsoft's receive-side scaling specification; input sets by `rte_flow` or `ethtool -U`, such
//! as source address only): the exclusive or of key windows `k[i .. i+32]` over the input bits
//! `x_i` that are set. The low bits of the hash choose the queue.
//!
//! Which packets meet is therefore decided twice: by the input set, which is the steering key and
//! may differ between ports (so that both directions of a connection meet), and by the key, which
//! is synthesised so that the low seven bits, an indirection table of 128 entries, depend on every
//! bit of the input: consecutive addresses of one subnet and addresses of far subnets both spread.
//! One whole-frame key that is blind to other fields does not do: a window has 32 bits, so a blind
//! neighbour leaves one key bit, and the low bits of the hash would be the high bits of the
//! address.

use nicforge_plan::PortFields;

/// Bytes of a key.
pub const KEY: usize = 40;

/// A key per port, hexadecimal. All ports have the same one: equal fields hash equally by whatever
/// port they come.
pub fn keys(fields: &[PortFields]) -> Vec<String> {
    fields.iter().map(|_| hex(&BYTES)).collect()
}

/// Every stretch of seven bits from the 26th on has some and lacks some, and no two such stretches
/// in a row are equal: the low seven bits of windows `i`, which are `k[i+25 .. i+32]`, are
/// different from their neighbours'.
const BYTES: [u8; KEY] = [
    0x24, 0x0a, 0x46, 0x34, 0x64, 0x69, 0x2b, 0x5e, 0x95, 0x6d, 0x08, 0x9c, 0x37, 0xee, 0xa4, 0xaa,
    0x82, 0x22, 0x6a, 0xbb, 0x2d, 0x3c, 0xa2, 0x5a, 0x83, 0x02, 0x9e, 0x84, 0xc7, 0xc9, 0xea, 0xac,
    0x05, 0xcf, 0xf0, 0xa9, 0x91, 0xb8, 0x57, 0x76,
];

fn hex(key: &[u8; KEY]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nicforge_plan::HeaderField;
    use nicforge_sim::steer::Toeplitz;

    fn by_source() -> PortFields {
        let field = HeaderField { name: "ip.src".to_string(), offset: 26, bytes: 4 };
        PortFields { port: 0, fields: vec![field] }
    }

    /// Queues that inputs go to, of eight, by the indirection table; a queue counts with at least
    /// half of its share.
    fn spread(addresses: impl Iterator<Item = u32>) -> usize {
        let fields = by_source();
        let key = Toeplitz::parse(&keys(std::slice::from_ref(&fields))[0]).unwrap();
        let mut queues = [0usize; 8];
        let mut frame = [0u8; 60];
        frame[12] = 8;
        for address in addresses {
            frame[26..30].copy_from_slice(&address.to_be_bytes());
            queues[(key.hash(&frame, &fields) % 128 % 8) as usize] += 1;
        }
        let all: usize = queues.iter().sum();
        queues.iter().filter(|count| **count * 16 > all).count()
    }

    #[test]
    fn addresses_of_one_subnet_and_of_many_spread() {
        assert_eq!(spread((0..256u32).map(|n| 0x0a00_0100 + n)), 8);
        assert_eq!(spread((0..256u32).map(|n| 0x0a00_0001 + (n << 8))), 8);
        assert_eq!(spread((0..256u32).map(|n| n << 24 | 1)), 8);
        assert_eq!(spread((0..4096u32).map(|n| n.wrapping_mul(0x9e37_79b9))), 8);
    }

    #[test]
    fn every_port_has_the_same_key() {
        let ports = [0, 1].map(|port| PortFields { port, fields: vec![] });
        let keys = keys(&ports);
        assert_eq!(keys[0], keys[1]);
    }
}
