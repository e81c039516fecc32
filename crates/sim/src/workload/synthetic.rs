//! Made-up traffic: flows by popularity, sizes by distribution, at a rate.

use super::frames::{Rewrite, Templates, resize, rewrite};
use super::{Arrival, Arrivals, Rate, Sizes, Spec, Workload};
use nicforge_util::Random;

/// Sizes of the simple Internet mix, without CRC, by twelfths.
const IMIX: [u32; 12] = [60, 60, 60, 60, 60, 60, 60, 590, 590, 590, 590, 1514];

/// Frames by a [`Spec`], for ever or for a number of them.
pub struct Synthetic {
    spec: Spec,
    random: Random,
    templates: Templates,
    /// Frames by size, then by conversation and place in it; sizes are made when they first come.
    made: Vec<Option<Vec<Vec<Made>>>>,
    smallest: u32,
    /// Next frame of each flow's conversation.
    places: Vec<u16>,
    /// Cumulated popularity of flows, for uneven ones.
    popularity: Vec<f64>,
    /// When the next frame comes, in picoseconds, and how many more come with it.
    at: f64,
    together: u32,
    /// Time a byte on the wire or a frame stands for.
    byte_ps: f64,
    frame_ps: f64,
    overhead: u32,
    left: u64,
    number: u64,
    rates: Vec<(f64, Rate)>,
    next_rate: usize,
    frame: Vec<u8>,
}

struct Made {
    port: u32,
    answer: bool,
    frame: Vec<u8>,
}

impl Synthetic {
    /// Frames at `rate`; `overhead` is what a frame takes on the wire besides its bytes, `most` how
    /// many there are.
    pub fn new(
        spec: Spec,
        rate: Rate,
        templates: Templates,
        overhead: u32,
        most: u64,
    ) -> Synthetic {
        let largest = match spec.sizes {
            Sizes::Between(low, high) => high - low + 1,
            _ => IMIX.len() as u32,
        };
        let smallest = if let Sizes::Between(low, _) = spec.sizes { low } else { 0 };
        let mut popularity = Vec::new();
        if spec.zipf > 0.0 {
            let mut sum = 0.0;
            for rank in 1..=spec.flows {
                sum += f64::from(rank).powf(-spec.zipf);
                popularity.push(sum);
            }
        }
        let mut made = Synthetic {
            random: Random::new(spec.seed),
            made: (0..largest).map(|_| None).collect(),
            smallest,
            places: vec![0; spec.flows as usize],
            popularity,
            at: 0.0,
            together: spec.burst,
            byte_ps: 0.0,
            frame_ps: 0.0,
            overhead,
            left: most,
            number: 0,
            rates: Vec::new(),
            next_rate: 0,
            frame: Vec::new(),
            spec,
            templates,
        };
        made.set_rate(rate);
        made
    }

    /// The rate changes at these times, in seconds.
    pub fn with_rates(mut self, rates: Vec<(f64, Rate)>) -> Synthetic {
        self.rates = rates;
        self
    }

    fn set_rate(&mut self, rate: Rate) {
        (self.byte_ps, self.frame_ps) = match rate {
            Rate::Wire(bits) => (8e12 / bits, 0.0),
            Rate::Frames(frames) => (0.0, 1e12 / frames),
        };
    }

    fn flow(&mut self) -> u32 {
        match self.popularity.last() {
            None => self.random.below(u64::from(self.spec.flows)) as u32,
            Some(total) => {
                let wanted = self.random.unit() * total;
                self.popularity.partition_point(|sum| *sum <= wanted).min(self.popularity.len() - 1)
                    as u32
            }
        }
    }

    /// The size's number and bytes; 0 leaves frames as they are.
    fn size(&mut self) -> (usize, u32) {
        match self.spec.sizes {
            Sizes::Fixed(bytes) => (0, bytes),
            Sizes::Capture => (0, 0),
            Sizes::Imix => {
                let at = self.random.below(IMIX.len() as u64) as usize;
                (at, IMIX[at])
            }
            Sizes::Between(low, high) => {
                let bytes = low + self.random.below(u64::from(high - low + 1)) as u32;
                ((bytes - self.smallest) as usize, bytes)
            }
        }
    }

    fn make(&mut self, number: usize, bytes: u32) {
        let one = |template: &super::frames::Template| Made {
            port: template.port,
            answer: template.answer,
            frame: if bytes == 0 { template.frame.clone() } else { resize(&template.frame, bytes) },
        };
        let conversations = self.templates.conversations.iter();
        self.made[number] =
            Some(conversations.map(|c| c.frames.iter().map(one).collect()).collect());
    }

    /// Moves to when the next frame comes; whether there is one.
    fn advance(&mut self, bytes: u32) {
        self.at +=
            (self.byte_ps * f64::from(bytes + self.overhead) + self.frame_ps) * self.stretch();
    }

    fn stretch(&mut self) -> f64 {
        match self.spec.arrivals {
            Arrivals::Even => 1.0,
            Arrivals::Poisson => -(1.0 - self.random.unit()).ln(),
        }
    }

    /// Applies the rates whose time has come; a rate of zero waits for the next one. False at the
    /// end of the trace.
    fn follow_rates(&mut self) -> bool {
        while let Some((time, rate)) = self.rates.get(self.next_rate).copied() {
            let silent =
                self.frame_ps.is_infinite() || self.byte_ps.is_infinite() || !self.at.is_finite();
            if !silent && time * 1e12 > self.at {
                break;
            }
            if silent || self.at < time * 1e12 {
                self.at = time * 1e12;
            }
            self.next_rate += 1;
            self.set_rate(rate);
        }
        self.at.is_finite()
    }
}

impl Workload for Synthetic {
    fn next(&mut self) -> Option<Arrival> {
        if self.left == 0 || self.templates.conversations.is_empty() {
            return None;
        }
        if !self.rates.is_empty() && !self.follow_rates() {
            return None;
        }
        self.left -= 1;
        self.number += 1;
        let flow = self.flow();
        let (number, bytes) = self.size();
        if self.made[number].is_none() {
            self.make(number, bytes);
        }
        let count = self.templates.conversations.len() as u32;
        let (conversation, copy) = ((flow % count) as usize, flow / count);
        let made = self.made[number].as_ref()?;
        let list = &made[conversation];
        let place = &mut self.places[flow as usize];
        let one = &list[usize::from(*place) % list.len()];
        *place = if usize::from(*place) + 1 >= list.len() { 0 } else { *place + 1 };
        self.frame.clear();
        self.frame.extend_from_slice(&one.frame);
        let mode = self.templates.conversations[conversation].rewrite;
        if mode != Rewrite::Nothing {
            rewrite(&mut self.frame, mode, one.answer, copy);
        }
        let port = one.port;
        let at = self.at as u64;
        let bytes = self.frame.len() as u32;
        if self.together > 1 {
            self.together -= 1;
        } else {
            self.together = self.spec.burst;
            for _ in 0..self.spec.burst {
                self.advance(bytes);
            }
        }
        Some(Arrival { at, port, bytes, time_ns: at / 1000, seed: self.number, timer: None })
    }

    fn frame(&self) -> &[u8] {
        &self.frame
    }
}
