//! Which of the states that arrive at a position become one node.

use super::{State, Walk};
use crate::graph::Slot;
use crate::hash::HashMap;

/// Most that the unknown part of an offset into a packet adds to it.
const MOST_OFFSET: u64 = 1 << 16;
/// Differences that keep the nodes of a position apart, from most to least.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Apart {
    /// Constants, and the least values of offsets that are not constant: how large a packet must be
    /// follows from them.
    Offsets,
    /// Constants.
    Constants,
    /// Constants of slots that reach addresses or leave loops.
    Steering,
}

impl Walk<'_> {
    /// Indices of states that agree on what keeps nodes apart, in order of arrival.
    pub(super) fn group(
        &mut self,
        arrivals: &[(Option<u32>, State)],
        apart: Apart,
    ) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut known: HashMap<Vec<(u64, u64)>, usize> = HashMap::default();
        for (index, (_, state)) in arrivals.iter().enumerate() {
            let mut key = Vec::new();
            for (slot, value) in state.slots.iter().enumerate() {
                let steers = self.steering.contains(Slot(slot as u32));
                let Some(term) = *value else { continue };
                match self.terms.value(term) {
                    Some(value) if apart != Apart::Steering || steers => {
                        key.push((slot as u64, value))
                    }
                    None => {
                        let (base, term) = match self.terms.strip(term) {
                            Some((base, rest)) => (u64::from(base) + 1, rest),
                            None => (0, term),
                        };
                        // An address at a constant offset is as good as a constant.
                        if let (Some(offset), true) =
                            (self.terms.value(term), apart != Apart::Steering || steers)
                        {
                            key.push((slot as u64 | 1 << 61, base << 32 | offset));
                            continue;
                        }
                        if apart != Apart::Offsets || !steers {
                            continue;
                        }
                        let facts = self.terms.facts(term);
                        if facts.low > 0 && facts.high - facts.low <= MOST_OFFSET {
                            key.push((slot as u64 | 1 << 62, facts.low));
                        }
                    }
                    _ => {}
                }
            }
            for (address, cell) in &state.cells {
                let byte = cell.byte(self.terms);
                if let Some(value) = self.terms.value(byte) {
                    key.push((*address | 1 << 63, value));
                } else if let Some((base, rest)) = self.terms.strip(cell.whole)
                    && let Some(offset) = self.terms.value(rest)
                {
                    key.push((*address | 1 << 60, u64::from(base) << 32 | offset));
                }
            }
            let group = *known.entry(key).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[group].push(index);
        }
        groups
    }
}
