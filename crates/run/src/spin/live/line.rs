//! A line that loses, doubles and reorders frames, for what the kernel's netem does where it has
//! one. The same seed does the same to the same frames.

use std::time::{Duration, Instant};

use nicforge_util::Random;

/// Frequency of each fault of a frame, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LineFaults {
    pub loss: f64,
    pub duplicate: f64,
    /// The frame comes behind the next one, or a little later.
    pub reorder: f64,
    pub seed: u64,
}

/// A frame that is held back is given on after this at the latest.
const HELD: Duration = Duration::from_millis(2);

/// One direction.
#[derive(Debug)]
pub struct Line {
    faults: LineFaults,
    random: Random,
    held: Option<(Instant, Vec<u8>)>,
    /// Frames lost, doubled and held back.
    pub counts: [u64; 3],
}

impl Line {
    pub fn new(faults: LineFaults, direction: u64) -> Line {
        let random = Random::new(faults.seed.wrapping_mul(2).wrapping_add(direction));
        Line { faults, random, held: None, counts: [0; 3] }
    }

    /// Outputs when a frame goes in.
    pub fn pass(&mut self, frame: Vec<u8>) -> Vec<Vec<u8>> {
        let [loss, duplicate, reorder] = [(); 3].map(|()| self.random.unit());
        if loss < self.faults.loss {
            self.counts[0] += 1;
            return self.held.take().map(|(_, held)| held).into_iter().collect();
        }
        if reorder < self.faults.reorder && self.held.is_none() {
            self.counts[2] += 1;
            self.held = Some((Instant::now(), frame));
            return Vec::new();
        }
        let mut out = vec![frame];
        if duplicate < self.faults.duplicate {
            self.counts[1] += 1;
            out.push(out[0].clone());
        }
        out.extend(self.held.take().map(|(_, held)| held));
        out
    }

    /// A frame that nothing has come behind for a while.
    pub fn overdue(&mut self) -> Option<Vec<u8>> {
        self.held.take_if(|(since, _)| since.elapsed() >= HELD).map(|(_, frame)| frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_lost_doubled_and_reordered_as_often_as_asked_and_none_is_made_up() {
        let faults = LineFaults { loss: 0.1, duplicate: 0.2, reorder: 0.3, seed: 7 };
        let run = || {
            let mut line = Line::new(faults, 0);
            let mut out: Vec<u32> = Vec::new();
            for at in 0..10_000u32 {
                let frames = line.pass(at.to_le_bytes().to_vec());
                out.extend(
                    frames.iter().map(|frame| u32::from_le_bytes(frame[..].try_into().unwrap())),
                );
            }
            std::thread::sleep(HELD);
            out.extend(
                line.overdue().map(|frame| u32::from_le_bytes(frame[..].try_into().unwrap())),
            );
            (out, line.counts)
        };
        let (out, counts) = run();
        assert_eq!(out.len() as u64, 10_000 - counts[0] + counts[1]);
        assert!((900..1100).contains(&counts[0]), "{counts:?}");
        let late = out.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64;
        assert!(late >= counts[2] * 8 / 10 && late <= counts[2], "{late} of {counts:?}");
        assert_eq!(run(), (out, counts), "the same seed");
        let mut plain = Line::new(LineFaults::default(), 0);
        assert_eq!(plain.pass(vec![1]), [[1]]);
    }
}
