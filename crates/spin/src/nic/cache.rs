//! A cluster's instruction cache: which lines of which image are there.
//!
//! Four ways, filled in turn. Lines are named by image and address.

use crate::machine::CACHE_LINE;

const WAYS: usize = 4;

#[derive(Clone, Debug)]
pub(crate) struct Cache {
    /// Tags by set; zero is none.
    sets: Vec<[u64; WAYS]>,
    turns: Vec<u8>,
    pub misses: u64,
}

impl Cache {
    pub fn new(bytes: u32) -> Cache {
        let sets = (bytes / CACHE_LINE) as usize / WAYS;
        let sets = if sets.is_power_of_two() { sets } else { sets.next_power_of_two() / 2 }.max(1);
        Cache { sets: vec![[0; WAYS]; sets], turns: vec![0; sets], misses: 0 }
    }

    /// Whether the line at an address is there; it is afterwards.
    #[inline]
    pub fn hit(&mut self, space: usize, line: u32) -> bool {
        let tag = (space as u64 + 1) << 32 | u64::from(line);
        let at = (line / CACHE_LINE) as usize & (self.sets.len() - 1);
        if self.sets[at].contains(&tag) {
            return true;
        }
        let turn = &mut self.turns[at];
        self.sets[at][usize::from(*turn) % WAYS] = tag;
        *turn = (*turn + 1) % WAYS as u8;
        self.misses += 1;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_lines_of_a_set_stay_and_the_fifth_pushes_the_first_out() {
        let mut cache = Cache::new(4096);
        let lines: Vec<u32> = (0..5).map(|way| 0x1d00_0000 + way * 1024).collect();
        assert!(lines[..4].iter().all(|line| !cache.hit(0, *line)));
        assert!(lines[..4].iter().all(|line| cache.hit(0, *line)));
        assert!(!cache.hit(1, lines[0]), "another image's line");
        assert!(!cache.hit(0, lines[0]) && cache.hit(0, lines[3]));
        assert_eq!(cache.misses, 6);
    }
}
