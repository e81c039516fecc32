//! Choices from a seed: a stream of numbers that is the same everywhere.

use nicforge_ir::io;

#[derive(Clone, Debug)]
pub struct Rng {
    seed: u64,
    drawn: u64,
}

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng { seed, drawn: 0 }
    }

    pub fn bits(&mut self) -> u32 {
        self.drawn += 1;
        io::random(self.seed, self.drawn)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((u64::from(self.bits()) * n as u64) >> 32) as usize
    }

    /// True if something of `n` percent happens.
    pub fn percent(&mut self, n: u32) -> bool {
        self.below(100) < n as usize
    }

    pub fn of<'s, T: ?Sized>(&mut self, some: &[&'s T]) -> &'s T {
        some[self.below(some.len())]
    }

    pub fn pick<'v, T>(&mut self, some: &'v [T]) -> &'v T {
        &some[self.below(some.len())]
    }
}
