//! What happens when: events by time, those of equal times in the order in which they were put in.
//!
//! Nearly all events are less than [`SPAN`] cycles away. They lie in a ring of lists, one a cycle,
//! with a bit for each list that is not empty; the others in a heap. The earlier of the first of
//! the ring and the first of the heap comes next, so nothing ever moves between them. Putting in
//! and taking out cost a constant, but for the heap's few. The ring is right because all its events
//! lie within `SPAN` of `base`, the time last taken out, and times taken out never go back beyond
//! it: what is put in for an earlier time goes into the heap.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::Event;

/// Cycles of the ring; a power of two.
const SPAN: u64 = 1024;
const WORDS: usize = (SPAN / 64) as usize;

#[derive(Debug)]
pub(super) struct Events {
    base: u64,
    ring: Vec<VecDeque<(u64, Event)>>,
    some: [u64; WORDS],
    /// Time of the first event in the ring; the last cycle of all if there is none.
    first: u64,
    far: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
}

impl Events {
    pub fn new() -> Events {
        Events {
            base: 0,
            ring: (0..SPAN).map(|_| VecDeque::new()).collect(),
            some: [0; WORDS],
            first: u64::MAX,
            far: BinaryHeap::new(),
            order: 0,
        }
    }

    pub fn put(&mut self, time: u64, event: Event) {
        self.order += 1;
        if time < self.base || time - self.base >= SPAN {
            return self.far.push(Reverse((time, self.order, event)));
        }
        let slot = (time % SPAN) as usize;
        self.ring[slot].push_back((self.order, event));
        self.some[slot / 64] |= 1 << (slot % 64);
        self.first = self.first.min(time);
    }

    /// When the first one happens.
    #[inline]
    pub fn next(&self) -> Option<u64> {
        let far = self.far.peek().map_or(u64::MAX, |Reverse((time, ..))| *time);
        Some(far.min(self.first)).filter(|time| *time < u64::MAX)
    }

    /// Takes the first one out.
    pub fn take(&mut self) -> Option<Event> {
        let slot = (self.first % SPAN) as usize;
        let near = self.ring[slot]
            .front()
            .filter(|_| self.first < u64::MAX)
            .map(|(order, _)| (self.first, *order));
        let far = self.far.peek().map(|Reverse((time, order, _))| (*time, *order));
        if far.is_some_and(|far| near.is_none_or(|near| far < near)) {
            let Reverse((time, _, event)) = self.far.pop()?;
            self.base = self.base.max(time);
            return Some(event);
        }
        let (_, event) = self.ring[slot].pop_front()?;
        self.base = self.first;
        if self.ring[slot].is_empty() {
            self.some[slot / 64] &= !(1 << (slot % 64));
            self.first = self.search();
        }
        Some(event)
    }

    /// Time of the first event in the ring, from `base` on.
    fn search(&self) -> u64 {
        let start = (self.base % SPAN) as usize;
        for step in 0..=WORDS {
            let word = (start / 64 + step) % WORDS;
            // The first word is looked at twice: from the start on, and last what lies before it.
            let before = (1u64 << (start % 64)) - 1;
            let mask = match step {
                0 => !before,
                WORDS => before,
                _ => u64::MAX,
            };
            let bits = self.some[word] & mask;
            if bits != 0 {
                let slot = (word * 64) as u64 + u64::from(bits.trailing_zeros());
                return self.base + (slot + SPAN - start as u64) % SPAN;
            }
        }
        u64::MAX
    }

    pub fn is_empty(&self) -> bool {
        self.first == u64::MAX && self.far.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a sorted list, with times near, far and before what was taken last.
    #[test]
    fn events_come_by_time_and_then_in_the_order_put_in() {
        let mut events = Events::new();
        let mut list: Vec<(u64, u64, Event)> = Vec::new();
        let mut random = nicforge_util::Random::new(1);
        let mut now = 0;
        for step in 0..50_000u64 {
            let choice = random.below(1 << 31);
            if choice.is_multiple_of(2) || list.is_empty() {
                let time = match choice / 2 % 16 {
                    0 => now + choice % 100_000,
                    1 => (now + choice % 3).saturating_sub(3),
                    2 => now + 1022 + choice % 4,
                    _ => now + choice % 40,
                };
                list.push((time, step, Event::Loaded(step)));
                events.put(time, Event::Loaded(step));
            } else {
                let at = (0..list.len()).min_by_key(|at| list[*at]).unwrap();
                let (time, _, event) = list.remove(at);
                assert_eq!(events.next(), Some(time));
                assert_eq!(events.take(), Some(event));
                now = now.max(time);
            }
            assert_eq!(events.is_empty(), list.is_empty());
        }
        while events.take().is_some() {}
        assert_eq!((events.next(), events.is_empty()), (None, true));
    }
}
