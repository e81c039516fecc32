//! Feed-forward: when the function (or its phase) changes, a policy begins where it was when that
//! function ran last, instead of finding its threshold anew. The published policy needs seconds for
//! that.

use std::collections::BTreeMap;

use super::{Decision, Observation, Policy};

/// A policy per function, made when the function is first seen.
pub struct Remembering<P> {
    known: BTreeMap<u32, P>,
    make: Box<dyn FnMut(u32) -> P + Send>,
    settled: bool,
}

impl<P: Policy> Remembering<P> {
    /// `make` gives the policy of a function that is new.
    pub fn new(make: impl FnMut(u32) -> P + Send + 'static) -> Remembering<P> {
        Remembering { known: BTreeMap::new(), make: Box::new(make), settled: false }
    }
}

impl<P: Policy> Policy for Remembering<P> {
    fn observe(&mut self, seen: &Observation) -> Decision {
        let policy = self.known.entry(seen.function).or_insert_with(|| (self.make)(seen.function));
        let decision = policy.observe(seen);
        self.settled = policy.settled();
        decision
    }

    fn settled(&self) -> bool {
        self.settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::published::{Constants, Published};

    #[test]
    fn a_function_that_returns_has_its_threshold_at_once() {
        let make = |_| Published::new(Constants::artifact(100e9, 1024), 1e9);
        let mut policy = Remembering::new(make);
        let seen =
            |function, nic_done| Observation { function, nic_done, ..Observation::default() };
        let mut learnt = 0.0;
        for _ in 0..5500 {
            learnt = policy.observe(&seen(1, 50e9)).threshold;
        }
        assert!(learnt > 40e9, "{learnt}");
        assert!(policy.observe(&seen(2, 50e9)).threshold < 2e9);
        assert!(policy.observe(&seen(1, 0.0)).threshold >= learnt);
    }
}
