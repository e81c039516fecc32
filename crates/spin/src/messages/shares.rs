//! Weighted fair sharing of handler units between execution contexts.
//!
//! A context's virtual time is the unit cycles its handlers took, divided by its weight; whoever is
//! furthest behind goes next. How long a handler runs is known when it ends: until then the mean of
//! the context's earlier ones is charged, and then corrected. A context that had nothing to start
//! comes back no further behind than the last one that started, so nobody saves up time.
//!
//! With `u` units and handlers of at most `d` cycles, two contexts of weights `a` and `b` that
//! always have something to start differ in cycles by weight by at most `(2u + 1) d (1/a + 1/b)`:
//! whoever is ahead got there with one more task, corrections of running ones, and what those are
//! not charged for yet, and is not chosen again until the other has caught up. Cost: a look at
//! every context a task.
//!
//! Source: start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996); borrowed virtual time as
//! OSMOSIS has it (arXiv 2309.03628).

use std::num::NonZeroU32;

/// Virtual time of one cycle at weight 1, so that division by weights leaves something.
const SCALE: u128 = 1 << 32;

#[derive(Clone, Copy, Debug)]
struct Share {
    weight: NonZeroU32,
    /// Virtual time, charges of running handlers included.
    time: u128,
    /// Cycles a handler takes.
    mean: u64,
}

/// Charges to a running handler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge(u128);

/// Virtual times by context.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    contexts: Vec<Share>,
    /// Virtual time of the context that started last, before it did.
    time: u128,
}

impl Shares {
    pub(crate) fn new(weights: impl Iterator<Item = NonZeroU32>) -> Shares {
        let mut shares = Shares { contexts: Vec::new(), time: 0 };
        weights.for_each(|weight| shares.add(weight));
        shares
    }

    /// One more, which is not behind.
    pub(crate) fn add(&mut self, weight: NonZeroU32) {
        self.contexts.push(Share { weight, time: self.time, mean: 1 });
    }

    /// Who goes next, of those that have something to start.
    pub(crate) fn least(&self, waiting: impl Iterator<Item = usize>) -> Option<usize> {
        waiting.min_by_key(|&context| (self.contexts[context].time, context))
    }

    /// A context has something to start again.
    pub(crate) fn wake(&mut self, context: usize) {
        let share = &mut self.contexts[context];
        share.time = share.time.max(self.time);
    }

    pub(crate) fn start(&mut self, context: usize) -> Charge {
        let share = &mut self.contexts[context];
        self.time = share.time;
        let charge = price(share.mean, share.weight);
        share.time += charge;
        Charge(charge)
    }

    pub(crate) fn end(&mut self, context: usize, Charge(charged): Charge, cycles: u64) {
        let share = &mut self.contexts[context];
        share.time = share.time - charged + price(cycles, share.weight);
        share.mean = (share.mean - share.mean / 8 + cycles / 8).max(1);
    }
}

/// Even a handler of no cycles is charged one, so that turns go around.
fn price(cycles: u64, weight: NonZeroU32) -> u128 {
    u128::from(cycles.max(1)) * SCALE / u128::from(weight.get())
}
