//! L1 cache and branch predictor of a processor.

/// A cache of lines, by sets of which each forgets its line that was not used for longest.
#[derive(Clone, Debug)]
pub struct Cache {
    sets: Vec<Vec<u64>>,
}

const SETS: usize = 64;

impl Cache {
    /// An empty cache of so many KiB.
    pub fn new(kib: f64) -> Cache {
        let ways = ((kib * 1024.0 / 64.0 / SETS as f64) as usize).max(1);
        Cache { sets: vec![vec![u64::MAX; ways]; SETS] }
    }

    /// Uses a line; true if it was there.
    pub fn touch(&mut self, line: u64) -> bool {
        let hash = line.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let set = &mut self.sets[(hash >> 58) as usize % SETS];
        let at = set.iter().position(|one| *one == line);
        let found = at.unwrap_or(set.len() - 1);
        set[found] = line;
        set[..=found].rotate_right(1);
        at.is_some()
    }
}

/// A gshare branch predictor: two-bit counters by place and history (McFarling, "Combining branch
/// predictors", 1993).
#[derive(Clone, Debug)]
pub struct Predictor {
    counters: Vec<u8>,
    history: usize,
}

/// Bits of the table's index, and jumps that are remembered.
const BITS: u32 = 16;

impl Predictor {
    /// A predictor without history.
    pub fn new() -> Predictor {
        Predictor { counters: vec![1; 1 << BITS], history: 0 }
    }

    /// Takes a jump into account; true if it was predicted.
    pub fn update(&mut self, place: usize, taken: bool) -> bool {
        let mask = (1 << BITS) - 1;
        let at = (place.wrapping_mul(0x9e37_79b1) >> 4 ^ self.history) & mask;
        let counter = &mut self.counters[at];
        let predicted = (*counter >= 2) == taken;
        *counter = if taken { (*counter + 1).min(3) } else { counter.saturating_sub(1) };
        self.history = (self.history << 1 | usize::from(taken)) & mask;
        predicted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_keeps_what_fits() {
        let mut cache = Cache::new(48.0);
        let mut missed = |lines: u64| (0..lines).filter(|line| !cache.touch(*line)).count();
        assert_eq!(missed(256), 256);
        assert_eq!(missed(256), 0);
        assert!(missed(4096) > 3500);
    }

    #[test]
    fn what_repeats_is_predicted_and_what_is_random_is_not() {
        let mut predictor = Predictor::new();
        let mut wrong = |taken: &mut dyn FnMut(u32) -> bool| {
            let mut right = |at: &u32| predictor.update(7, taken(*at));
            (0..3000).filter(|at| !right(at) && *at >= 2000).count()
        };
        assert_eq!(wrong(&mut |_| true), 0);
        assert_eq!(wrong(&mut |at| at % 4 == 0), 0);
        let mut random = nicforge_util::Random::new(1);
        let half = wrong(&mut |_| random.next() & 1 == 0);
        assert!((400..600).contains(&half), "{half}");
    }
}
