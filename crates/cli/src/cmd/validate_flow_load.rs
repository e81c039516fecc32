//! The load of `nicforge validate flow`: 100,000 keys, Zipf with exponent 0.9, 90 % reads, as keys
//! and as frames.

use nicforge_ir::{Input, InputEvent};

pub const KEYS: usize = 100_000;
const SKEW: f64 = 0.9;
const READS: f64 = 0.9;

/// The paper's load: keys by Zipf's law.
pub struct Load {
    sums: Vec<f64>,
}

impl Load {
    pub fn new() -> Load {
        let mut sum = 0.0;
        let next = |rank: usize| {
            sum += 1.0 / (rank as f64).powf(SKEW);
            sum
        };
        Load { sums: (1..=KEYS).map(next).collect() }
    }

    /// Keys and whether they are written, always the same.
    pub fn requests(&self) -> impl Iterator<Item = (u32, bool)> + '_ {
        let total = self.sums.last().copied().unwrap_or(1.0);
        let uniform =
            |n: u64| f64::from(nicforge_ir::io::random(7, n)) / (f64::from(u32::MAX) + 1.0);
        (0u64..).map(move |n| {
            let rank = self.sums.partition_point(|sum| *sum < uniform(2 * n) * total);
            (rank.min(KEYS - 1) as u32, uniform(2 * n + 1) >= READS)
        })
    }
}

/// A request of memcached's binary protocol for a key of 32 bytes, with a value of 64 where it
/// writes.
pub fn request(number: usize, key: u32, write: bool) -> InputEvent {
    let mut data = vec![0, number as u8, 0, 0, 0, 1, 0, 0];
    data.extend([0x80, u8::from(write), 0, 32, if write { 8 } else { 0 }, 0, 0, 0, 0, 0, 0]);
    data.push(if write { 8 + 32 + 64 } else { 32 });
    data.extend([0; 12]);
    if write {
        data.extend([0; 8]);
    }
    data.extend(format!("key-{key:028}").into_bytes());
    if write {
        data.extend([b'x'; 64]);
    }
    event(number, datagram(11211, &data))
}

/// A tuple of examples/flow/analytics from the other node, for a task of this one.
pub fn tuple(number: usize) -> Vec<u8> {
    let mut data = vec![0, 2, 0, 1];
    for word in [number as u32, 2, 1] {
        data.extend(word.to_be_bytes());
    }
    data.extend(format!("{:<24}", number % 1000).into_bytes());
    datagram(5356, &data)
}

fn datagram(port: u16, data: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    frame.extend((28 + data.len() as u16).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 2, 10, 9, 0, 1]);
    frame.extend([0x9c, 0x40]);
    frame.extend(port.to_be_bytes());
    frame.extend((8 + data.len() as u16).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(data);
    frame
}

/// A frame that comes in by the first port.
pub fn event(number: usize, frame: Vec<u8>) -> InputEvent {
    InputEvent { input: Input::Net { port: 0, frame }, time_ns: number as u64, seed: number as u64 }
}
