//! Events as they enter and leave a program: what the interpreter, every target and the test
//! harnesses exchange.

use nicforge_util::checksum;

use crate::program::ReasonId;

/// One event from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputEvent {
    /// Arrival time in nanoseconds; what `nf_now()` reads.
    pub time_ns: u64,
    /// Start of the event's random stream, see [`random`].
    pub seed: u64,
    pub input: Input,
}

/// Events from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A frame came in by a port (`net_recv`).
    Net { port: u32, frame: Vec<u8> },
    /// The host side sent a message (`host_send`): the bytes of the handler's parameter.
    Host { message: Vec<u8> },
    /// A timer of this name was due; see [`timers`](crate::timers).
    Tick { timer: String },
}

impl Input {
    /// Name of the event.
    pub fn event(&self) -> &str {
        match self {
            Input::Net { .. } => "net_recv",
            Input::Host { .. } => "host_send",
            Input::Tick { timer } => timer,
        }
    }

    /// Bytes that came in: the frame or the message.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Input::Net { frame, .. } => frame,
            Input::Host { message } => message,
            Input::Tick { .. } => &[],
        }
    }
}

/// One event to outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// `net_send`, `net_copy`
    Send { port: u32, frame: Vec<u8> },
    /// `stack_recv`: to the operating system.
    Stack { frame: Vec<u8> },
    /// `host_recv`, `host_copy`: to the program's host side.
    HostPacket { frame: Vec<u8> },
    /// `host_msg`
    HostMessage { bytes: Vec<u8> },
    /// `dma_write`
    DmaWrite { addr: u64, data: Vec<u8> },
    /// A packet was given up.
    Drop { reason: ReasonId },
    /// `nf_log`
    Log { text: String },
}

/// The `n`-th number (from 0) of the random stream that starts at `seed`: SplitMix64's output
/// function, upper half. Generated code computes the same, so that a recorded seed replays a run.
pub fn random(seed: u64, n: u64) -> u32 {
    (nicforge_util::random::nth(seed, n) >> 32) as u32
}

/// `nf_hash`: CRC-32C (Castagnoli, reflected, initial value ~0, final complement) of the seed's
/// four little-endian bytes followed by the value's bytes, then MurmurHash3's 32-bit finaliser. CRC
/// alone is linear: without the finaliser two keys that collide under one seed would collide under
/// all.
pub fn hash(seed: u32, bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in seed.to_le_bytes().iter().chain(bytes) {
        crc = (crc >> 8) ^ CRC32C[((crc ^ *byte as u32) & 0xff) as usize];
    }
    let mut h = !crc ^ seed;
    h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

/// The first four bytes, the least first, as a number.
pub fn number(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// Byte-wise table of CRC-32C, reflected polynomial 0x82F63B78.
pub const CRC32C: [u32; 256] = {
    let mut table = [0u32; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

/// Bytes at a string's end that do not cross between NIC and host: those behind the last word of 8
/// that is not zero.
pub fn string_zeros(string: &[u8]) -> u32 {
    let counts = string.iter().rposition(|byte| *byte != 0).map_or(0, |last| (last / 8 + 1) * 8);
    string.len().saturating_sub(counts) as u32
}

/// Adds bytes to a ones-complement sum as 16-bit words in network order and folds it to 16 bits; an
/// odd last byte is the high half of a word (RFC 1071).
pub fn checksum_add(sum: u32, bytes: &[u8]) -> u32 {
    checksum::fold(u64::from(sum) + checksum::sum(bytes)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_end_with_a_word() {
        let mut string = [0; 20];
        assert_eq!(string_zeros(&string), 20);
        for (at, zeros) in [(0, 12), (7, 12), (8, 4), (15, 4), (16, 0), (19, 0)] {
            string[at] = 1;
            assert_eq!(string_zeros(&string), zeros, "byte {at}");
        }
    }

    #[test]
    fn crc_table_is_castagnoli() {
        // CRC-32C of "123456789" is 0xE3069283 (RFC 3720, appendix B.4 lists others).
        let crc = b"123456789"
            .iter()
            .fold(!0u32, |c, b| (c >> 8) ^ CRC32C[((c ^ *b as u32) & 0xff) as usize]);
        assert_eq!(!crc, 0xe306_9283);
    }

    #[test]
    fn hash_seeds_are_independent() {
        // Keys that collide under one seed must not collide under another more often than chance.
        let keys: Vec<[u8; 4]> = (0..2000u32).map(|k| k.to_le_bytes()).collect();
        let collide = |seed| {
            let mut pairs = std::collections::BTreeSet::new();
            for (i, a) in keys.iter().enumerate() {
                for b in &keys[..i] {
                    if hash(seed, a) % 1024 == hash(seed, b) % 1024 {
                        pairs.insert((*a, *b));
                    }
                }
            }
            pairs
        };
        let (first, second) = (collide(1), collide(2));
        let both = first.intersection(&second).count();
        assert!(both < 3 * first.len() / 1024 + 10, "{both} of {} collide twice", first.len());
    }

    #[test]
    fn checksum_of_rfc1071_example() {
        assert_eq!(checksum_add(0, &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        assert_eq!(checksum_add(0, &[0xab]), 0xab00);
    }
}
