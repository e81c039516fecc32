//! Queues of `runtime/host/nf_link.h` in shared memory: entries that say themselves whose they are.
//!
//! An entry begins with its turn, `4 * laps + state`, then length, channel and payload. Free
//! entries of the right lap are the producer's, full ones the consumer's. Plain form: payload is
//! contiguous.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::unix::SharedFile;

const LINE: usize = 64;
/// Counters in front of the entries, which this form does not use.
const FRONT: usize = 2 * LINE;
const FREE: u32 = 0;
const FULL: u32 = 1;

/// Bytes of memory that a queue needs, a multiple of a line.
pub(super) fn bytes(count: u32, entry_bytes: u32) -> usize {
    (FRONT + count as usize * entry_bytes as usize).next_multiple_of(LINE)
}

/// Words and bytes of memory that somebody else has mapped too.
pub(super) struct Memory(pub SharedFile);

impl Memory {
    /// A word at an offset that is a multiple of four.
    pub fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= self.0.bytes(), "a word of the mapping");
        // SAFETY: within the mapping, aligned, and alive as long as it.
        unsafe { &*self.0.address().add(at).cast::<AtomicU32>() }
    }

    fn pair(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.0.bytes(), "two words of the mapping");
        // SAFETY: as above.
        unsafe { &*self.0.address().add(at).cast::<AtomicU64>() }
    }

    /// Says at an offset that we sleep. What was put into the queue before is seen by a look after
    /// this.
    pub fn sleep(&self, at: usize) {
        self.word(at).store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// True if the other side said that it sleeps; it is awake from now on.
    pub fn taken_from_sleep(&self, at: usize) -> bool {
        fence(Ordering::SeqCst);
        self.word(at).load(Ordering::SeqCst) != 0 && self.word(at).swap(0, Ordering::SeqCst) != 0
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.0.bytes(), "bytes of the mapping");
        // SAFETY: within the mapping, which is no Rust object; the other side may see some of the
        // bytes earlier than others.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.address().add(at), bytes.len())
        };
    }

    fn read(&self, at: usize, length: usize) -> Vec<u8> {
        assert!(at + length <= self.0.bytes(), "bytes of the mapping");
        let mut bytes = vec![0; length];
        // SAFETY: as above.
        unsafe {
            std::ptr::copy_nonoverlapping(self.0.address().add(at), bytes.as_mut_ptr(), length)
        };
        bytes
    }
}

/// Where a queue's entries are.
struct Circle {
    start: usize,
    count: u32,
    entry_bytes: u32,
    /// Next entry to fill or to take.
    at: u64,
}

impl Circle {
    fn new(start: usize, count: u32, entry_bytes: u32) -> Circle {
        Circle { start: start + FRONT, count, entry_bytes, at: 0 }
    }

    fn entry(&self) -> usize {
        self.start + (self.at % u64::from(self.count)) as usize * self.entry_bytes as usize
    }

    /// The turn of the next entry in a state, `laps` laps from now.
    fn turn(&self, laps: u32, state: u32) -> u32 {
        ((self.at / u64::from(self.count)) as u32).wrapping_add(laps).wrapping_mul(4) + state
    }
}

/// The end that fills.
pub(super) struct Producer(Circle);

impl Producer {
    pub fn new(start: usize, count: u32, entry_bytes: u32) -> Producer {
        Producer(Circle::new(start, count, entry_bytes))
    }

    /// Puts bytes into the queue; whether there was room.
    pub fn put(&mut self, memory: &Memory, channel: u8, bytes: &[u8]) -> bool {
        let circle = &mut self.0;
        let at = circle.entry();
        let fits = bytes.len() <= circle.entry_bytes as usize - 8;
        if !fits || memory.word(at).load(Ordering::Acquire) != circle.turn(0, FREE) {
            return false;
        }
        memory.write(at + 8, bytes);
        let about = (bytes.len() as u64) << 32 | u64::from(channel) << 48;
        memory.pair(at).store(about | u64::from(circle.turn(0, FULL)), Ordering::Release);
        circle.at += 1;
        true
    }
}

/// The end that takes.
pub(super) struct Consumer(Circle);

impl Consumer {
    pub fn new(start: usize, count: u32, entry_bytes: u32) -> Consumer {
        Consumer(Circle::new(start, count, entry_bytes))
    }

    /// True if something is there.
    pub fn ready(&self, memory: &Memory) -> bool {
        memory.word(self.0.entry()).load(Ordering::Acquire) == self.0.turn(0, FULL)
    }

    /// Takes the next entry: its channel and payload.
    pub fn take(&mut self, memory: &Memory) -> Option<(u8, Vec<u8>)> {
        let circle = &mut self.0;
        let at = circle.entry();
        let head = memory.pair(at).load(Ordering::Acquire);
        let length = (head >> 32) as u16 as usize;
        if head as u32 != circle.turn(0, FULL) || length > circle.entry_bytes as usize - 8 {
            return None;
        }
        let bytes = memory.read(at + 8, length);
        memory.word(at).store(circle.turn(1, FREE), Ordering::Release);
        circle.at += 1;
        Some(((head >> 48) as u8, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The other side may write anything at any time.
    #[test]
    fn garbage_in_the_memory_is_never_more_than_a_wrong_message() {
        let (count, entry_bytes) = (8, 40);
        let all = bytes(count, entry_bytes);
        let memory = Memory(SharedFile::new(c"garbage", 2 * all).unwrap());
        let (mut up, mut down) =
            (Producer::new(0, count, entry_bytes), Consumer::new(all, count, entry_bytes));
        let mut taken = 0;
        for turn in 0..200_000u64 {
            let random = |n| nicforge_ir::io::random(turn, n);
            // Small numbers are turns and lengths that could be true.
            let value = if random(0).is_multiple_of(2) { random(1) } else { random(1) % 64 };
            memory.word(random(2) as usize % (2 * all / 4) * 4).store(value, Ordering::Relaxed);
            up.put(&memory, 1, &[7; 32]);
            if let Some((_, bytes)) = down.take(&memory) {
                assert!(bytes.len() <= 32);
                taken += 1;
            }
            down.ready(&memory);
        }
        assert!(taken > 0, "some garbage looks like an entry");
    }
}
