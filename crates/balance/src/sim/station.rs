//! One side: queues with a server each.
//!
//! A queue is known by the time at which its server will be free (Lindley's recursion): a packet
//! that comes at t waits max(0, free - t), is lost if that is more than the queue holds, and makes
//! the server busy for its service time. Receive-side scaling is a random queue. On a side that may
//! sleep every core does so by itself, when its queue has been empty for `idle_ns`; the packet that
//! wakes it waits `wake_ns`.

use crate::profile::Side;
use crate::rng::Rng;

/// When a side sleeps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sleep {
    /// Idle time before it sleeps, ns.
    pub idle_ns: f64,
    /// Time until it works again, ns.
    pub wake_ns: f64,
}

/// A side in the middle of a simulation.
#[derive(Clone, Debug)]
pub struct Station {
    free: Vec<f64>,
    /// Next time of a latency sample per queue, and how often there is one, ns.
    sample: Vec<f64>,
    sample_every: f64,
    /// When samples are taken has its own random numbers: it is not to change what packets meet.
    sample_rng: Rng,
    mean_ns: f64,
    /// Half width of the uniform service times over their mean, or for larger variations the long
    /// one of two services.
    spread: f64,
    rare: Option<(f64, f64)>,
    longest_wait_ns: f64,
    base_ns: f64,
    sleep: Option<Sleep>,
    /// Up to when the sleep of a core is in `slept`.
    counted: Vec<f64>,
    /// Time that cores slept, ns, all together.
    slept: f64,
}

/// Fates of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    Lost,
    /// Latency in ns, and whether it is the queue's sample of this period.
    Served {
        ns: f64,
        sample: bool,
    },
}

impl Station {
    /// A side for packets of `bits` on the wire; a share of its capacity may be missing. `extra_ns`
    /// is added to latencies.
    pub fn new(side: &Side, bits: f64, share: f64, extra_ns: f64, sleep: Option<Sleep>) -> Station {
        let queues = ((f64::from(side.queues) * share).round() as usize).max(1);
        let mean_ns = bits * queues as f64 / (side.gbps * share);
        // Uniform up to a variation of 1/sqrt(3); beyond, one packet in ten takes long.
        let uniform = side.cv * 3f64.sqrt() <= 1.0;
        let rare = (!uniform).then(|| {
            let (part, cv) = (0.1f64, side.cv.min(2.9));
            let long = 1.0 + cv * ((1.0 - part) / part).sqrt();
            (long, (1.0 - part * long) / (1.0 - part))
        });
        Station {
            free: vec![0.0; queues],
            sample: vec![0.0; queues],
            sample_every: 1e6,
            sample_rng: Rng::new(1),
            mean_ns,
            spread: if uniform { side.cv * 3f64.sqrt() } else { 0.0 },
            rare,
            longest_wait_ns: f64::from(side.ring) * mean_ns,
            base_ns: side.base_us * 1000.0 + extra_ns,
            sleep,
            counted: vec![0.0; queues],
            slept: 0.0,
        }
    }

    fn service(&self, rng: &mut Rng) -> f64 {
        match self.rare {
            None => self.mean_ns * (1.0 + self.spread * (2.0 * rng.unit() - 1.0)),
            Some((long, short)) => self.mean_ns * if rng.unit() < 0.1 { long } else { short },
        }
    }

    /// Takes a latency sample of every queue each `ns` from now on, instead of each millisecond.
    pub fn sample_every(&mut self, ns: f64) {
        self.sample_every = ns;
        self.sample.fill(0.0);
    }

    pub fn queues(&self) -> usize {
        self.free.len()
    }

    /// Throughput with packets of `bits`, Gbit/s.
    pub fn gbps(&self, bits: f64) -> f64 {
        bits * self.free.len() as f64 / self.mean_ns
    }

    /// A packet at `now`. Of every queue the first packet after a random time in each millisecond
    /// is a sample.
    pub fn packet(&mut self, now: f64, rng: &mut Rng) -> Fate {
        let queue = rng.below(self.free.len() as u32) as usize;
        self.wake(queue, now);
        let wait = (self.free[queue] - now).max(0.0);
        if wait > self.longest_wait_ns {
            return Fate::Lost;
        }
        let service = self.service(rng);
        let end = now + wait + service;
        self.free[queue] = end;
        let sample = now >= self.sample[queue];
        if sample {
            let next = (now / self.sample_every).floor() + 1.0 + self.sample_rng.unit();
            self.sample[queue] = next * self.sample_every;
        }
        Fate::Served { ns: self.base_ns + wait + service, sample }
    }

    /// Wakes a core if it sleeps.
    fn wake(&mut self, queue: usize, now: f64) {
        let Some(sleep) = self.sleep else { return };
        let since = self.free[queue] + sleep.idle_ns;
        if now > since {
            self.slept += now - since.max(self.counted[queue]);
            self.free[queue] = now + sleep.wake_ns;
        }
    }

    /// Keeps all cores awake, or wakes them now.
    pub fn stay_awake(&mut self, now: f64) {
        for queue in 0..self.free.len() {
            self.wake(queue, now);
            self.free[queue] = self.free[queue].max(now);
        }
    }

    /// Mean time that a core slept since this was asked last, ns. A side that cannot sleep never
    /// does.
    pub fn slept(&mut self, now: f64) -> f64 {
        if let Some(sleep) = self.sleep {
            for (free, counted) in self.free.iter().zip(&mut self.counted) {
                let since = counted.max(free + sleep.idle_ns);
                if now > since {
                    self.slept += now - since;
                    *counted = now;
                }
            }
        }
        std::mem::take(&mut self.slept) / self.free.len() as f64
    }

    /// Packets in the fullest queue.
    pub fn fullest(&self, now: f64) -> u32 {
        let longest = self.free.iter().map(|free| free - now).fold(0.0, f64::max);
        (longest / self.mean_ns) as u32
    }

    /// Packets in all queues.
    pub fn waiting(&self, now: f64) -> f64 {
        self.free.iter().map(|free| (free - now).max(0.0)).sum::<f64>() / self.mean_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(cv: f64) -> Side {
        Side { gbps: 12.0, queues: 1, ring: 1_000_000, base_us: 0.0, cv, measured_p99_us: 0.0 }
    }

    #[test]
    fn queues_wait_as_long_as_theory_says() {
        // Pollaczek and Khinchine: W = rho (1 + cv²) / (2 (1 - rho)) services.
        for cv in [0.0, 0.5, 1.5] {
            let mut station = Station::new(&side(cv), 12_000.0, 1.0, 0.0, None);
            let (mut rng, mut now, mut sum) = (Rng::new(1), 0.0, 0.0);
            let (load, packets) = (0.7, 1_000_000);
            for _ in 0..packets {
                now += rng.exponential() * 1000.0 / load;
                if let Fate::Served { ns, .. } = station.packet(now, &mut rng) {
                    sum += ns;
                }
            }
            let want = 1000.0 * (1.0 + load * (1.0 + cv * cv) / (2.0 * (1.0 - load)));
            let got = sum / f64::from(packets);
            assert!((got / want - 1.0).abs() < 0.03, "cv {cv}: {got}, want {want}");
        }
    }

    #[test]
    fn a_sleeper_makes_the_first_packet_wait() {
        let sleep = Sleep { idle_ns: 1e6, wake_ns: 20e3 };
        let mut station = Station::new(&side(0.0), 12_000.0, 1.0, 0.0, Some(sleep));
        let mut rng = Rng::new(1);
        assert_eq!(station.slept(5e6), 4e6);
        let Fate::Served { ns, .. } = station.packet(6e6, &mut rng) else { panic!() };
        assert_eq!((ns, station.slept(6e6)), (21e3, 1e6));
        let Fate::Served { ns, .. } = station.packet(6.5e6, &mut rng) else { panic!() };
        assert_eq!((ns, station.slept(7e6)), (1e3, 0.0));
        station.stay_awake(8e6);
        assert!((station.slept(10e6) - (499e3 + 980e3)).abs() < 2.0);
    }

    #[test]
    fn cores_sleep_one_by_one() {
        let sleep = Sleep { idle_ns: 10e3, wake_ns: 0.0 };
        let two = Side { queues: 2, ..side(0.0) };
        let mut station = Station::new(&two, 12_000.0, 1.0, 0.0, Some(sleep));
        let mut rng = Rng::new(1);
        station.slept(1e6);
        // One packet keeps one of two cores awake for its service of 2 us and 10 us more.
        station.packet(1e6, &mut rng);
        assert_eq!(station.slept(2e6), (1e6 + 1e6 - 12e3) / 2.0);
    }
}
