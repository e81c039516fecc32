//! Receive-side scaling keys: which packets meet is chosen by choosing the Toeplitz key.
//!
//! A Toeplitz hash of input bits `x_i` is the exclusive or of key windows `k[i .. i+32]` over the bits that are set (Microsoft's
//! receive-side scaling specification). A window of zeros makes the hash blind to its bit. To spread by some fields only,
//! the key needs non-zero windows under their bits and zero windows under all others; to send both directions of a
//! connection to the same queue with the fields swapped per port, every port gets a key of its own (Maestro, NSDI'24, section 4,
//! solves the general case with a solver; whole fields need none).
//!
//! The input is that of IPv4 with ports: source address, destination address, source port, destination port, 12 bytes. The low bits of
//! the hash choose the queue, so windows are made such that their low bits differ.

use nicforge_plan::PortFields;

/// Bytes of the hash input, and of a key.
const INPUT: usize = 12;
pub const KEY: usize = 40;

/// Where a field of the frame is in the hash input.
fn input_offset(frame_offset: u32) -> Option<usize> {
    match frame_offset {
        26..=33 => Some(frame_offset as usize - 26),
        34..=37 => Some(frame_offset as usize - 26),
        _ => None,
    }
}

/// A key per port, hexadecimal.
///
/// Windows of neighbouring bits share key bits, so a key bit may be one only if every input bit whose window covers it is to be seen.
/// For a field of 32 bits among hidden ones that leaves exactly one key bit, the one in all 32 windows; each of the field's
/// bits then decides one bit of the hash, which is the field itself. Fields of the same width get the same function wherever they are, which
/// is what lets both directions of a connection meet. Where everything is to be seen the key repeats every 16 bits, so that swapped
/// fields give the same hash (Woo and Park's symmetric key).
pub fn keys(fields: &[PortFields]) -> Vec<String> {
    fields.iter().map(|port| hex(&key(port))).collect()
}

/// Repeated every 16 bits.
const SYMMETRIC: u16 = 0x6d5a;

fn key(port: &PortFields) -> [u8; KEY] {
    let mut visible = [false; INPUT * 8];
    for field in &port.fields {
        if let Some(start) = input_offset(field.offset) {
            let bits = start * 8..(start + field.bytes as usize).min(INPUT) * 8;
            visible[bits].fill(true);
        }
    }
    let mut key = [0u8; KEY];
    let all = visible.iter().all(|bit| *bit);
    for bit in 0..INPUT * 8 + 31 {
        let one = if all {
            SYMMETRIC >> (15 - bit % 16) & 1 == 1
        } else {
            (31..INPUT * 8).contains(&bit) && (bit - 31..=bit).all(|input| visible[input])
        };
        if one {
            key[bit / 8] |= 0x80 >> (bit % 8);
        }
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
    use nicforge_plan::HeaderField;

    fn fields(list: &[(u32, u32)]) -> PortFields {
        let field = |(offset, bytes): &(u32, u32)| HeaderField {
            name: String::new(),
            offset: *offset,
            bytes: *bytes,
        };
        PortFields { port: 0, fields: list.iter().map(field).collect() }
    }

    /// Queues that 4096 inputs go to, by their low 3 bits; inputs differ in the given bytes only.
    fn spread(key: &[u8; KEY], bytes: std::ops::Range<usize>) -> usize {
        let mut queues = [0u32; 8];
        for n in 0..4096u32 {
            let mut input = [10, 0, 0, 1, 10, 0, 0, 2, 0x12, 0x34, 0, 80];
            let value = n.wrapping_mul(0x9e37_79b9).to_be_bytes();
            for (at, byte) in bytes.clone().zip(value) {
                input[at] = byte;
            }
            queues[(hash(key, &input) & 7) as usize] += 1;
        }
        queues.iter().filter(|count| **count > 256).count()
    }

    #[test]
    fn only_the_fields_asked_for_decide_the_queue() {
        let by_source = key(&fields(&[(26, 4)]));
        assert_eq!(spread(&by_source, 0..4), 8, "source addresses spread");
        assert_eq!(spread(&by_source, 4..8), 1, "destination addresses do not");
        assert_eq!(spread(&by_source, 8..12), 1, "ports do not");
        let by_destination = key(&fields(&[(30, 4)]));
        assert_eq!(spread(&by_destination, 0..4), 1);
        assert_eq!(spread(&by_destination, 4..8), 8);
        assert_eq!(spread(&by_destination, 8..12), 1);
        let by_flow = key(&fields(&[(26, 4), (30, 4), (34, 2), (36, 2)]));
        assert_eq!(spread(&by_flow, 0..4), 8);
        assert_eq!(spread(&by_flow, 4..8), 8);
        assert_eq!(spread(&by_flow, 8..12), 8);
    }

    #[test]
    fn both_directions_meet_when_ports_have_swapped_keys() {
        let towards = key(&fields(&[(26, 4)]));
        let back = key(&fields(&[(30, 4)]));
        for n in 0..1000u32 {
            let client = n.wrapping_mul(0x9e37_79b9).to_be_bytes();
            let server = (!n).to_be_bytes();
            let mut out = [0; 12];
            out[..4].copy_from_slice(&client);
            out[4..8].copy_from_slice(&server);
            let mut answer = [0; 12];
            answer[..4].copy_from_slice(&server);
            answer[4..8].copy_from_slice(&client);
            assert_eq!(hash(&towards, &out), hash(&back, &answer));
        }
    }

    #[test]
    fn the_published_key_gives_the_published_hash() {
        // Microsoft's verification suite: 66.9.149.187:2794 to 161.142.100.80:1766 is 0x51ccc178.
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
