//! One order from several queues: events for the process are numbered as they are made and come by
//! several sockets and a ring buffer.
//!
//! Each queue keeps its order, so an event waits until all with smaller numbers were here. A number
//! may never come: a full queue lost it. Those losses are counted by whoever lost them, so a gap is
//! given up when as many losses are known as numbers are missing in everything that is here; until
//! then it is an event on its way. An event that comes after its gap was given up (a loss further
//! on was taken for it) is run at once: it is late but not lost.

use std::collections::BTreeMap;

/// Events that wait for those before them.
pub struct Merge<T> {
    waiting: BTreeMap<u64, T>,
    /// The number that is run next.
    next: u64,
    /// Numbers that were given up.
    given_up: u64,
}

impl<T> Merge<T> {
    /// Begins with number `next`.
    pub fn new(next: u64) -> Merge<T> {
        Merge { waiting: BTreeMap::new(), next, given_up: 0 }
    }

    /// An event arrived; `number` are the low bits of its number.
    pub fn insert(&mut self, number: u32, event: T) {
        let distance = number.wrapping_sub(self.next as u32) as i32;
        self.waiting.insert(self.next.wrapping_add_signed(i64::from(distance)), event);
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The number after the last one that was run or given up.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The event whose turn it is. `lost` asks how many events were lost so far.
    pub fn pop(&mut self, lost: impl FnOnce() -> u64) -> Option<T> {
        let first = *self.waiting.first_key_value()?.0;
        if first > self.next {
            let last = *self.waiting.last_key_value()?.0;
            let missing = last + 1 - self.next - self.waiting.range(self.next..).count() as u64;
            if lost() < self.given_up + missing {
                return None;
            }
            self.given_up += first - self.next;
        }
        self.next = self.next.max(first + 1);
        self.waiting.remove(&first)
    }

    /// Gives up what never came, when nothing waits: `made` events were made, all that are not lost
    /// are here.
    pub fn close(&mut self, made: u64, lost: u64) {
        if self.waiting.is_empty() && made > self.next && lost >= self.given_up + (made - self.next)
        {
            self.given_up += made - self.next;
            self.next = made;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(merge: &mut Merge<u32>, lost: u64) -> Vec<u32> {
        std::iter::from_fn(|| merge.pop(|| lost)).collect()
    }

    #[test]
    fn queues_that_overtake_each_other_are_put_in_order() {
        let mut merge = Merge::new(0);
        [0, 2, 3].iter().for_each(|n| merge.insert(*n, *n));
        assert_eq!(all(&mut merge, 0), [0]);
        merge.insert(1, 1);
        assert_eq!(all(&mut merge, 0), [1, 2, 3]);
        assert_eq!((merge.next(), merge.is_empty()), (4, true));
    }

    #[test]
    fn a_gap_is_given_up_only_for_a_known_loss() {
        let mut merge = Merge::new(0);
        [1, 4].iter().for_each(|n| merge.insert(*n, *n));
        assert_eq!(all(&mut merge, 2), [] as [u32; 0], "three are missing");
        assert_eq!(all(&mut merge, 3), [1, 4]);
        // The same three losses excuse no other gap.
        merge.insert(6, 6);
        assert_eq!(all(&mut merge, 3), [] as [u32; 0]);
        merge.insert(5, 5);
        assert_eq!(all(&mut merge, 3), [5, 6]);
    }

    #[test]
    fn what_comes_late_is_run_all_the_same() {
        let mut merge = Merge::new(0);
        merge.insert(1, 1);
        assert_eq!(all(&mut merge, 1), [1]);
        merge.insert(0, 0);
        assert_eq!(all(&mut merge, 1), [0]);
        assert_eq!(merge.next(), 2);
    }

    #[test]
    fn losses_at_the_end_are_closed() {
        let mut merge: Merge<u32> = Merge::new(0);
        merge.close(3, 2);
        assert_eq!(merge.next(), 0);
        merge.close(3, 3);
        assert_eq!(merge.next(), 3);
    }

    #[test]
    fn numbers_wrap() {
        let mut merge = Merge::new(u64::from(u32::MAX) - 1);
        [u32::MAX - 1, u32::MAX, 0, 1].iter().for_each(|n| merge.insert(*n, *n));
        assert_eq!(all(&mut merge, 0), [u32::MAX - 1, u32::MAX, 0, 1]);
    }
}
