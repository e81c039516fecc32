//! Packets that interfaces received, as the system counts them: what a run reports where it may not
//! count runs of programs.

use std::cell::RefCell;

use crate::xdp::attach::index_of;

/// An interface's index and the packets it received.
pub(super) type Count = (u32, u64);

/// What the system counts for each interface of the calling thread's network namespace that is
/// there (proc(5), /proc/net/dev).
pub(super) fn now(names: &[String]) -> Vec<Option<Count>> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let packets = |name: &String| {
        let mut lines = text.lines().filter_map(|line| line.trim_start().split_once(':'));
        let (_, counts) = lines.find(|(known, _)| known == name)?;
        counts.split_whitespace().nth(1)?.parse().ok()
    };
    let count = |name: &String| Some((index_of(name).ok()?, packets(name)?));
    names.iter().map(count).collect()
}

/// Packets that came between two looks. An interface with another index is a new one, which counts
/// from zero.
pub(super) fn between(before: &[Option<Count>], now: &[Option<Count>]) -> u64 {
    let more = |(before, now): (&Option<Count>, &Option<Count>)| {
        let (index, count) = (*now)?;
        let known = before.filter(|(known, _)| *known == index);
        Some(count.saturating_sub(known.map_or(0, |(_, count)| count)))
    };
    before.iter().zip(now).filter_map(more).sum()
}

/// Packets received, and `total` from before.
#[derive(Debug)]
pub(super) struct Received {
    names: Vec<String>,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    last: Vec<Option<Count>>,
    total: u64,
}

impl Received {
    /// Counts from a look at the interfaces on.
    pub(super) fn since(names: Vec<String>, last: Vec<Option<Count>>, total: u64) -> Received {
        Received { names, state: RefCell::new(State { last, total }) }
    }

    pub(super) fn packets(&self) -> u64 {
        let mut state = self.state.borrow_mut();
        let now = now(&self.names);
        state.total += between(&state.last, &now);
        // What is not there now may come back as it was.
        let known = state.last.iter().zip(&now).map(|(last, now)| now.or(*last)).collect();
        state.last = known;
        state.total
    }
}

#[cfg(test)]
mod tests {
    use super::between;

    #[test]
    fn interfaces_go_and_come_back() {
        assert_eq!(between(&[Some((1, 3)), Some((2, 5))], &[Some((1, 8)), Some((2, 7))]), 5 + 2);
        assert_eq!(between(&[Some((1, 3)), Some((2, 7))], &[None, Some((2, 8))]), 1);
        assert_eq!(between(&[Some((1, 3)), None], &[Some((9, 4)), Some((2, 8))]), 4 + 8);
    }
}
