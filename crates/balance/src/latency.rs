//! A histogram of latencies whose bins grow with the value, less than 1 % wide; within a bin,
//! latencies count as spread evenly. A bin is a floating-point number's exponent and first bits of
//! its fraction: no logarithm for each packet.

/// Latencies from 64 ns to 17 s; 128 bins for each factor of two.
const LOWEST_NS: f64 = 64.0;
const SHIFT: u32 = 52 - 7;
const LOWEST: u64 = LOWEST_NS.to_bits() >> SHIFT;
const BINS: usize = 28 << 7;

/// Weights of latencies.
#[derive(Clone, Debug)]
pub struct Histogram {
    bins: Vec<f64>,
    total: f64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { bins: vec![0.0; BINS], total: 0.0 }
    }
}

impl Histogram {
    /// Counts a latency.
    pub fn add(&mut self, ns: f64) {
        let bin = ((ns.max(LOWEST_NS).to_bits() >> SHIFT) - LOWEST) as usize;
        self.bins[bin.min(BINS - 1)] += 1.0;
        self.total += 1.0;
    }

    /// Counts everything in `other` `weight` times.
    pub fn merge(&mut self, other: &Histogram, weight: f64) {
        for (to, from) in self.bins.iter_mut().zip(&other.bins) {
            *to += weight * from;
        }
        self.total += weight * other.total;
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.bins.fill(0.0);
        self.total = 0.0;
    }

    /// Sum of weights.
    pub fn count(&self) -> f64 {
        self.total
    }

    /// The latency that a share `q` of all does not exceed, in ns; none if nothing was counted.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let wanted = q * self.total;
        let mut seen = 0.0;
        for (bin, weight) in self.bins.iter().enumerate() {
            if *weight > 0.0 && seen + weight >= wanted {
                let part = (wanted - seen) / weight;
                let edge = |bin: usize| f64::from_bits((LOWEST + bin as u64) << SHIFT);
                return Some(edge(bin) + part * (edge(bin + 1) - edge(bin)));
            }
            seen += weight;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_per_cent() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        (1..=10_000).for_each(|us| histogram.add(f64::from(us) * 1000.0));
        for q in [0.01, 0.5, 0.99, 1.0] {
            let got = histogram.quantile(q).unwrap();
            assert!((got / (q * 1e7) - 1.0).abs() < 0.01, "{q}: {got}");
        }
        let mut twice = Histogram::default();
        twice.add(5e8);
        twice.merge(&histogram, 2.0);
        assert_eq!(twice.count(), 20_001.0);
    }
}
