//! Loops of a program: what a jump back repeats.

use std::collections::BTreeSet;

/// One loop.
pub struct Loop {
    /// Where its trips begin.
    pub header: usize,
    body: BTreeSet<usize>,
}

impl Loop {
    pub fn contains(&self, at: usize) -> bool {
        self.body.contains(&at)
    }

    /// In this trip, at the next one, or behind the loop.
    pub fn phase(&self, at: usize) -> u8 {
        match at {
            _ if at == self.header => 1,
            _ if self.body.contains(&at) => 0,
            _ => 2,
        }
    }
}

/// All loops of a program.
pub struct Loops {
    pub all: Vec<Loop>,
    /// Loops around every instruction, outer ones first.
    around: Vec<Vec<usize>>,
}

impl Loops {
    /// The loops of a graph whose jumps back go to a place of lower rank, or to themselves.
    pub fn of(next: &[[Option<usize>; 2]], rank: &[usize]) -> Loops {
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); next.len()];
        let mut back: Vec<(usize, usize)> = Vec::new();
        for (at, to) in next.iter().enumerate() {
            for to in to.iter().flatten().filter(|to| **to < next.len()) {
                before[*to].push(at);
                if rank[*to] <= rank[at] {
                    back.push((*to, at));
                }
            }
        }
        back.sort_unstable();
        let mut all: Vec<Loop> = Vec::new();
        for (header, from) in back {
            if all.last().is_none_or(|last| last.header != header) {
                all.push(Loop { header, body: BTreeSet::from([header]) });
            }
            let Some(Loop { body, .. }) = all.last_mut() else { continue };
            let mut open = vec![from];
            while let Some(at) = open.pop() {
                // A way into the loop that is not by its header ends there too.
                if rank[at] >= rank[header] && body.insert(at) {
                    open.extend(&before[at]);
                }
            }
        }
        all.sort_by_key(|one| std::cmp::Reverse(one.body.len()));
        let mut around = vec![Vec::new(); next.len()];
        for (nth, one) in all.iter().enumerate() {
            one.body.iter().for_each(|at| around[*at].push(nth));
        }
        Loops { all, around }
    }

    /// Loops around an instruction, outer ones first.
    pub fn around(&self, at: usize) -> &[usize] {
        self.around.get(at).map_or(&[], Vec::as_slice)
    }
}
