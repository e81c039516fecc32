//! A cluster's instruction cache: which lines of which image are there, and from when on.
//!
//! Four ways, filled in turn. Lines are named by image and address. Who asks for a line that is on
//! its way waits for that, so cores that run the same new code one after the other arrive together,
//! as logs of RTL simulations have it.

use crate::machine::CACHE_LINE;

const WAYS: usize = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// Zero is none.
    tag: u64,
    /// When it is there.
    from: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Cache {
    sets: Vec<[Line; WAYS]>,
    turns: Vec<u8>,
    miss: u64,
    pub misses: u64,
}

impl Cache {
    /// An empty cache of so many bytes, of which a miss takes so many cycles.
    pub fn new(bytes: u32, miss: u32) -> Cache {
        let sets = (bytes / CACHE_LINE) as usize / WAYS;
        let sets = if sets.is_power_of_two() { sets } else { sets.next_power_of_two() / 2 }.max(1);
        let lines = vec![[Line::default(); WAYS]; sets];
        Cache { sets: lines, turns: vec![0; sets], miss: miss.into(), misses: 0 }
    }

    /// Cycles until the line at an address is there.
    #[inline]
    pub fn wait(&mut self, space: usize, address: u32, now: u64) -> u32 {
        let tag = (space as u64 + 1) << 32 | u64::from(address);
        let at = (address / CACHE_LINE) as usize & (self.sets.len() - 1);
        if let Some(line) = self.sets[at].iter().find(|line| line.tag == tag) {
            return line.from.saturating_sub(now) as u32;
        }
        let turn = &mut self.turns[at];
        self.sets[at][usize::from(*turn) % WAYS] = Line { tag, from: now + self.miss };
        *turn = (*turn + 1) % WAYS as u8;
        self.misses += 1;
        self.miss as u32
    }

    /// Empties it, as it is when the image has started: in logs of RTL simulations the first
    /// handler waits for the runtime's lines, too.
    pub fn clear(&mut self) {
        self.sets.iter_mut().for_each(|set| *set = [Line::default(); WAYS]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_lines_of_a_set_stay_and_the_fifth_pushes_the_first_out() {
        let mut cache = Cache::new(4096, 9);
        let lines: Vec<u32> = (0..5).map(|way| 0x1d00_0000 + way * 1024).collect();
        assert!(lines[..4].iter().all(|line| cache.wait(0, *line, 0) == 9));
        assert!(lines[..4].iter().all(|line| cache.wait(0, *line, 9) == 0));
        assert_eq!(cache.wait(1, lines[0], 9), 9, "another image's line");
        assert_eq!((cache.wait(0, lines[0], 18), cache.wait(0, lines[3], 18)), (9, 0));
        assert_eq!(cache.misses, 6);
    }

    #[test]
    fn a_line_on_its_way_is_waited_for() {
        let mut cache = Cache::new(4096, 9);
        assert_eq!(
            (cache.wait(0, 16, 100), cache.wait(0, 16, 103), cache.wait(0, 16, 109)),
            (9, 6, 0)
        );
        cache.wait(0, 32, 1000);
        cache.clear();
        assert_eq!(cache.wait(0, 16, 2000), 9, "nothing is left");
    }
}
