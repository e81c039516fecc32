//! Random numbers: SplitMix64 (Steele, Lea, Flood, OOPSLA'14), one addition and two
//! multiplications a number, equal on every machine.

/// A stream of numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

/// What the state grows by: 2^64 over the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// Equal seeds give equal numbers.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    #[allow(clippy::should_implement_trait)] // The stream has no end, and callers want no option.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number from 0 to `below`, which it does not reach. The bias is below `below` / 2^64.
    pub fn below(&mut self, below: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(below)) >> 64) as u64
    }

    /// An index of a list of `len`.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// One of a list.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.index(list.len())]
    }

    /// From 0 to 1, which it does not reach.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The `n`-th number (from 0) of the stream that starts at `seed`.
pub fn nth(seed: u64, n: u64) -> u64 {
    mix(seed.wrapping_add((n + 1).wrapping_mul(STEP)))
}

/// SplitMix64's output function: a bijection without structure.
pub fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_paper() {
        let mut random = Random::new(1_234_567);
        let first = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!([random.next(), random.next()], first);
        assert_eq!([nth(1_234_567, 0), nth(1_234_567, 1)], first);
        assert!((0..1000).all(|_| random.below(7) < 7 && random.unit() < 1.0));
    }
}
