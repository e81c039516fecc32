//! Random numbers of the laws that the models draw from, equal on every machine. Their bits are of
//! xoshiro256+ (Blackman and Vigna), seeded by SplitMix64.

use std::sync::LazyLock;

use rand_xoshiro::Xoshiro256Plus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// The ziggurat of 256 layers: where its tail begins, and the area of each layer.
const TAIL: f64 = 7.697_117_470_131_05;
const AREA: f64 = 3.949_659_822_581_572e-3;

/// Right ends of the layers, the lowest first (as wide as if it had no tail), then 0.
static LAYERS: LazyLock<[f64; 257]> = LazyLock::new(|| {
    let mut ends = [0.0; 257];
    (ends[0], ends[1]) = (AREA / (-TAIL).exp(), TAIL);
    for layer in 2..256 {
        ends[layer] = -((-ends[layer - 1]).exp() + AREA / ends[layer - 1]).ln();
    }
    ends
});

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng(Xoshiro256Plus);

impl Rng {
    /// Equal seeds give equal numbers.
    pub fn new(seed: u64) -> Rng {
        Rng(Xoshiro256Plus::seed_from_u64(seed))
    }

    /// 64 random bits (the lowest few are weaker).
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in 0..n; `n` is far below 2^32.
    pub fn below(&mut self, n: u32) -> u32 {
        (((self.bits() >> 32) * u64::from(n)) >> 32) as u32
    }

    /// Exponential with mean 1, exactly, by a ziggurat (Marsaglia and Tsang, 2000): layers of equal
    /// area below the density, so that 98 of 100 draws need no logarithm.
    pub fn exponential(&mut self) -> f64 {
        let layers = &*LAYERS;
        loop {
            let bits = self.bits();
            let layer = (bits >> 56) as usize;
            let x = (bits << 8 >> 11) as f64 / (1u64 << 53) as f64 * layers[layer];
            if x < layers[layer + 1] {
                return x;
            }
            if layer == 0 {
                // Beyond the last layer the distribution is the same again.
                return TAIL - (1.0 - self.unit()).ln();
            }
            let (low, high) = ((-layers[layer]).exp(), (-layers[layer + 1]).exp());
            if low + (high - low) * self.unit() < (-x).exp() {
                return x;
            }
        }
    }

    /// Normal with mean 0 and deviation 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (2.0 * self.exponential()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_draws_have_their_law() {
        let mut rng = Rng::new(7);
        let mut draws: Vec<f64> = (0..400_000).map(|_| rng.exponential()).collect();
        draws.sort_by(f64::total_cmp);
        // Kolmogorov and Smirnov: 1.95 / sqrt(n) is passed once in a thousand times.
        let n = draws.len() as f64;
        let off = (0..).zip(&draws).map(|(at, x)| (1.0 - (-x).exp() - f64::from(at) / n).abs());
        assert!(off.fold(0.0, f64::max) < 1.95 / n.sqrt());
        let tail = draws.iter().filter(|x| **x > TAIL).count() as f64;
        assert!((tail / n / (-TAIL).exp() - 1.0).abs() < 0.3, "{tail}");
    }

    #[test]
    fn moments_are_right() {
        let mut rng = Rng::new(1);
        let n = 200_000;
        let mean = |f: &mut dyn FnMut() -> f64| (0..n).map(|_| f()).sum::<f64>() / f64::from(n);
        assert!((mean(&mut || rng.unit()) - 0.5).abs() < 0.01);
        assert!((mean(&mut || rng.exponential()) - 1.0).abs() < 0.01);
        assert!(mean(&mut || rng.normal()).abs() < 0.01);
        assert!((mean(&mut || rng.normal().powi(2)) - 1.0).abs() < 0.02);
        assert!((mean(&mut || f64::from(rng.below(10))) - 4.5).abs() < 0.05);
    }
}
