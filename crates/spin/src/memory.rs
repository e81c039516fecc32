//! Packet memory: where a packet lies until its handlers are done with it.
//!
//! [`Slots`] is FPsPIN's: classes of slots of one size, each with a list of free ones, first freed
//! first used. [`Ring`] is PsPIN's: pieces one behind the other, given back to the ring in the
//! order they were taken, whatever order they are freed in. Taking costs constant time, and so does
//! freeing a slot; freeing a piece of a ring costs a look at the older ones.

use std::collections::VecDeque;

/// Pieces are multiples of this many bytes, the width of the memory.
pub const GRAIN: u32 = 64;

/// Why a packet gets no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Comes free later; the packet waits, and those behind it.
    #[error("packet memory is full")]
    Full,
    /// Never fits.
    #[error(
        "a packet of {length} bytes is longer than the {most} bytes that packet memory holds in one piece"
    )]
    TooLong { length: u32, most: u32 },
}

/// Nothing was taken at an address that is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no packet lies at {address:#010x}; each is freed once, by the address it was given")]
pub struct NotTaken {
    pub address: u32,
}

/// Amounts in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    pub packets: u32,
    pub bytes: u32,
    /// Most bytes at any time.
    pub most_bytes: u32,
}

impl Use {
    fn take(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += bytes;
        self.most_bytes = self.most_bytes.max(self.bytes);
    }

    fn give(&mut self, bytes: u32) {
        self.packets -= 1;
        self.bytes -= bytes;
    }
}

#[derive(Clone, Debug)]
struct Class {
    start: u32,
    bytes: u32,
    free: VecDeque<u32>,
    taken: Vec<bool>,
}

/// Classes of equal slots.
#[derive(Clone, Debug)]
pub struct Slots {
    /// By size.
    classes: Vec<Class>,
    /// A packet gets a slot only while every class has a free one, as in hardware; else while its
    /// own has.
    all_classes: bool,
    usage: Use,
}

impl Slots {
    /// Slots from an address on: `(how many, bytes of each)` by ascending size.
    pub fn new(base: u32, classes: &[(u32, u32)], all_classes: bool) -> Slots {
        let mut start = base;
        let classes = classes
            .iter()
            .map(|&(count, bytes)| {
                let class = Class {
                    start,
                    bytes,
                    free: (0..count).collect(),
                    taken: vec![false; count as usize],
                };
                start = start.wrapping_add(count.wrapping_mul(bytes));
                class
            })
            .collect();
        Slots { classes, all_classes, usage: Use::default() }
    }

    /// FPsPIN's 512 KiB: 1024 slots of 128 bytes and 256 of 1536.
    pub fn fpspin(base: u32, all_classes: bool) -> Slots {
        Slots::new(base, &[(1024, 128), (256, 1536)], all_classes)
    }

    /// A place for a packet.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn take(&mut self, length: u32) -> Result<u32, Refused> {
        let most = self.classes.last().map_or(0, |class| class.bytes);
        let Some(at) = self.classes.iter().position(|class| length <= class.bytes) else {
            return Err(Refused::TooLong { length, most });
        };
        if self.all_classes && self.classes.iter().any(|class| class.free.is_empty()) {
            return Err(Refused::Full);
        }
        let class = &mut self.classes[at];
        let slot = class.free.pop_front().ok_or(Refused::Full)?;
        class.taken[slot as usize] = true;
        self.usage.take(class.bytes);
        Ok(class.start + slot * class.bytes)
    }

    /// Frees the place that was given.
    ///
    /// # Errors
    /// There is no packet.
    pub fn free(&mut self, address: u32) -> Result<(), NotTaken> {
        for class in &mut self.classes {
            let Some(offset) = address.checked_sub(class.start) else { continue };
            let (slot, rest) = (offset / class.bytes.max(1), offset % class.bytes.max(1));
            let Some(taken) = class.taken.get_mut(slot as usize) else { continue };
            if rest != 0 || !std::mem::take(taken) {
                return Err(NotTaken { address });
            }
            class.free.push_back(slot);
            self.usage.give(class.bytes);
            return Ok(());
        }
        Err(NotTaken { address })
    }

    /// How much is in use, whole slots counted.
    pub fn usage(&self) -> Use {
        self.usage
    }
}

#[derive(Clone, Debug)]
struct Piece {
    start: u32,
    bytes: u32,
    /// Bytes left out before it, where the ring's end was too near.
    skipped: u32,
    freed: bool,
}

/// Pieces one behind the other, around and around.
#[derive(Clone, Debug)]
pub struct Ring {
    base: u32,
    size: u32,
    /// Offset of the next piece.
    head: u32,
    /// Bytes between the oldest piece and the head, left out ones too.
    held: u32,
    pieces: VecDeque<Piece>,
    usage: Use,
}

impl Ring {
    /// A ring of bytes from an address on; a size that is no multiple of [`GRAIN`] is rounded down.
    pub fn new(base: u32, size: u32) -> Ring {
        let size = size / GRAIN * GRAIN;
        Ring { base, size, head: 0, held: 0, pieces: VecDeque::new(), usage: Use::default() }
    }

    /// A place for a packet, in one piece.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn take(&mut self, length: u32) -> Result<u32, Refused> {
        let too_long = Refused::TooLong { length, most: self.size };
        let bytes = length.max(1).checked_next_multiple_of(GRAIN).ok_or(too_long)?;
        if bytes > self.size {
            return Err(too_long);
        }
        if self.pieces.is_empty() {
            self.head = 0;
        }
        let to_end = self.size - self.head;
        let skipped = if bytes > to_end { to_end } else { 0 };
        if skipped + bytes > self.size - self.held {
            return Err(Refused::Full);
        }
        let start = if skipped > 0 { 0 } else { self.head };
        self.head = (start + bytes) % self.size;
        self.held += skipped + bytes;
        self.pieces.push_back(Piece { start, bytes, skipped, freed: false });
        self.usage.take(bytes);
        Ok(self.base + start)
    }

    /// Frees the place that was given. Its bytes come back when all older ones have.
    ///
    /// # Errors
    /// There is no packet.
    pub fn free(&mut self, address: u32) -> Result<(), NotTaken> {
        let missing = NotTaken { address };
        let start = address.checked_sub(self.base).ok_or(missing)?;
        let piece = self
            .pieces
            .iter_mut()
            .find(|piece| piece.start == start && !piece.freed)
            .ok_or(missing)?;
        piece.freed = true;
        self.usage.give(piece.bytes);
        while let Some(oldest) = self.pieces.pop_front_if(|piece| piece.freed) {
            self.held -= oldest.skipped + oldest.bytes;
        }
        Ok(())
    }

    /// How much is in use, without what waits for older pieces.
    pub fn usage(&self) -> Use {
        self.usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u32 = 0x1c10_0000;

    #[test]
    fn slots_fit_the_length_and_come_back() {
        let mut slots = Slots::fpspin(BASE, false);
        assert_eq!(slots.take(128), Ok(BASE));
        assert_eq!(slots.take(129), Ok(BASE + 1024 * 128));
        assert_eq!(slots.take(1537), Err(Refused::TooLong { length: 1537, most: 1536 }));
        assert_eq!(slots.usage(), Use { packets: 2, bytes: 1664, most_bytes: 1664 });
        assert_eq!(slots.free(BASE), Ok(()));
        assert_eq!(slots.free(BASE), Err(NotTaken { address: BASE }));
        assert_eq!(
            slots.free(BASE + 1024 * 128 + 64),
            Err(NotTaken { address: BASE + 1024 * 128 + 64 })
        );
        assert_eq!(slots.free(BASE + (512 << 10)), Err(NotTaken { address: BASE + (512 << 10) }));
        assert_eq!(slots.usage().packets, 1);
    }

    #[test]
    fn the_last_large_slot_stops_small_packets_only_in_hardware() {
        for all_classes in [false, true] {
            let mut slots = Slots::fpspin(BASE, all_classes);
            for _ in 0..256 {
                slots.take(1500).unwrap();
            }
            assert_eq!(slots.take(1500), Err(Refused::Full));
            assert_eq!(slots.take(64).is_err(), all_classes);
        }
    }

    #[test]
    fn rings_go_around_and_free_in_order() {
        let mut ring = Ring::new(BASE, 256);
        let (first, second) = (ring.take(100).unwrap(), ring.take(64).unwrap());
        assert_eq!((first, second), (BASE, BASE + 128));
        assert_eq!(ring.take(100), Err(Refused::Full));
        ring.free(second).unwrap();
        assert_eq!(ring.take(100), Err(Refused::Full), "the first is older");
        ring.free(first).unwrap();
        assert_eq!(ring.take(256), Ok(BASE));
        assert_eq!(ring.free(BASE + 64), Err(NotTaken { address: BASE + 64 }));
        assert!(matches!(ring.take(257), Err(Refused::TooLong { .. })));
        assert!(matches!(ring.take(u32::MAX), Err(Refused::TooLong { .. })));
    }

    /// Pieces never overlap, everything fits where there is room, and all comes back, for a few
    /// thousand random packets.
    #[test]
    fn random_packets_never_overlap() {
        let (mut ring, mut slots) =
            (Ring::new(BASE, 4096), Slots::new(BASE, &[(8, 128), (4, 768)], false));
        let mut random = nicforge_util::Random::new(1);
        let mut held: [Vec<(u32, u32)>; 2] = [Vec::new(), Vec::new()];
        for _ in 0..5000 {
            let (length, which) = (random.below(512) as u32, random.index(1 << 12));
            for (held, is_ring) in held.iter_mut().zip([true, false]) {
                if which % 2 == 0 && !held.is_empty() {
                    let (address, _) = held.swap_remove(which / 2 % held.len());
                    let freed = if is_ring { ring.free(address) } else { slots.free(address) };
                    freed.unwrap();
                } else if let Ok(address) =
                    if is_ring { ring.take(length) } else { slots.take(length) }
                {
                    assert!(address >= BASE && address + length <= BASE + 4096);
                    let apart = |&(other, size): &(u32, u32)| {
                        address + length <= other || other + size <= address
                    };
                    assert!(held.iter().all(apart), "{address:#x}");
                    held.push((address, length));
                }
            }
        }
        for (address, _) in held[0].drain(..) {
            ring.free(address).unwrap();
        }
        for (address, _) in held[1].drain(..) {
            slots.free(address).unwrap();
        }
        assert_eq!((ring.usage().bytes, slots.usage().bytes), (0, 0));
        assert_eq!(ring.take(4096), Ok(BASE));
    }
}
