//! Order restored where replicas of one stage feed one that must see arrival order.
//!
//! Every packet that is accepted has a number. The point keeps, per number from the oldest open one
//! on, how many events of the packet may still send to the stage behind, and the messages that
//! came. Messages leave in order of numbers; a number is closed when no event of it is left before
//! the point. A sender whose number is too far ahead waits, so that the point holds a bounded
//! number of messages; the oldest number is never made to wait, so the point never stops for ever.

use std::collections::VecDeque;

use crate::engine::Item;

/// One point.
#[derive(Debug, Default)]
pub struct Reorder {
    /// Number of the front entry.
    first: u64,
    entries: VecDeque<Entry>,
    /// When the last message left.
    last: u64,
    /// Contexts that are too far ahead.
    pub waiting: VecDeque<u32>,
}

#[derive(Debug, Default)]
struct Entry {
    live: u32,
    messages: VecDeque<(Item, u64)>,
}

impl Reorder {
    /// A packet was accepted; numbers come without gaps.
    pub fn enter(&mut self, sequence: u64) {
        if self.entries.is_empty() {
            self.first = sequence;
        }
        self.entries.push_back(Entry { live: 1, messages: VecDeque::new() });
    }

    fn entry(&mut self, sequence: u64) -> Option<&mut Entry> {
        self.entries.get_mut(sequence.checked_sub(self.first)? as usize)
    }

    /// The packet has one more event before the point.
    pub fn more(&mut self, sequence: u64) {
        if let Some(entry) = self.entry(sequence) {
            entry.live += 1;
        }
    }

    /// It has one less.
    pub fn less(&mut self, sequence: u64) {
        if let Some(entry) = self.entry(sequence) {
            entry.live -= 1;
        }
    }

    /// True if a message of this number may be held, if so many numbers may be open.
    pub fn admits(&self, sequence: u64, window: u64) -> bool {
        sequence < self.first + window
    }

    /// Keeps a message until its turn; it is there at `arrives`.
    pub fn hold(&mut self, sequence: u64, item: Item, arrives: u64) {
        if let Some(entry) = self.entry(sequence) {
            entry.messages.push_back((item, arrives));
        }
    }

    /// The message whose turn it is. Numbers that are closed and empty go.
    pub fn front(&mut self) -> Option<Item> {
        while let Some(front) = self.entries.front() {
            if let Some((item, _)) = front.messages.front() {
                return Some(*item);
            }
            if front.live > 0 {
                return None;
            }
            self.entries.pop_front();
            self.first += 1;
        }
        None
    }

    /// Takes the message of [`Reorder::front`], with the time it leaves at the earliest.
    pub fn leave(&mut self, now: u64) -> Option<(Item, u64)> {
        let (item, arrives) = self.entries.front_mut()?.messages.pop_front()?;
        // A message never overtakes the one before it on the link.
        self.last = self.last.max(arrives).max(now);
        Some((item, self.last))
    }

    /// Messages that are held, for counting packets.
    pub fn held(&self) -> impl Iterator<Item = &Item> {
        self.entries.iter().flat_map(|entry| entry.messages.iter().map(|(item, _)| item))
    }
}
