//! When to wake the host before it is needed, and when to let it sleep.
//!
//! A host that is woken by the first packet makes that packet wait for it. The rate is followed by
//! a fast and a slow mean; the line through them says where the rate will be when a wake-up that
//! begins now is over. If that is above the threshold, the host is woken. It stays awake for a
//! minimum time, so that a rate around the threshold does not wake it all the time.

/// Messages to the host about power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    Awake,
    MaySleep,
}

/// Predicts.
#[derive(Clone, Debug)]
pub struct Wake {
    /// How long a wake-up takes, ns.
    wake_ns: f64,
    /// Least time awake, ns.
    residency_ns: f64,
    fast: f64,
    slow: f64,
    awake_for_ns: Option<f64>,
}

/// Weights of the newest value in the means.
const FAST: f64 = 0.5;
const SLOW: f64 = 0.1;

impl Wake {
    pub fn new(wake_ns: f64, residency_ns: f64) -> Wake {
        Wake { wake_ns, residency_ns, fast: 0.0, slow: 0.0, awake_for_ns: None }
    }

    /// Takes the rate of the last period (bit/s), the period and the threshold (bit/s).
    pub fn observe(&mut self, received: f64, period_ns: f64, threshold: f64) -> Power {
        self.fast += FAST * (received - self.fast);
        self.slow += SLOW * (received - self.slow);
        // The means lag behind a ramp by (1 - w) / w periods: their distance over the difference of
        // lags is the slope.
        let lag = (1.0 - SLOW) / SLOW - (1.0 - FAST) / FAST;
        let slope = (self.fast - self.slow) / (lag * period_ns);
        let at_wake = received + slope * (self.wake_ns + period_ns);
        let needed = at_wake > threshold || received > threshold;
        self.awake_for_ns = match (needed, self.awake_for_ns) {
            (true, _) => Some(0.0),
            (false, Some(past)) if past + period_ns < self.residency_ns => Some(past + period_ns),
            _ => None,
        };
        if self.awake_for_ns.is_some() { Power::Awake } else { Power::MaySleep }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ramp_wakes_the_host_ahead_and_noise_does_not() {
        let mut wake = Wake::new(5e6, 20e6);
        // 1 Gbit/s per ms towards a threshold of 40.
        let woken = (0..60)
            .find(|ms| wake.observe(f64::from(*ms) * 1e9, 1e6, 40e9) == Power::Awake)
            .unwrap();
        assert!((30..40).contains(&woken), "{woken}");
        let mut wake = Wake::new(5e6, 20e6);
        for ms in 0..1000 {
            let rate = if ms % 2 == 0 { 20e9 } else { 24e9 };
            assert_eq!(wake.observe(rate, 1e6, 40e9), Power::MaySleep);
        }
    }

    #[test]
    fn it_stays_awake_for_the_residency() {
        let mut wake = Wake::new(0.0, 20e6);
        wake.observe(50e9, 1e6, 40e9);
        let awake = (0..100).take_while(|_| wake.observe(0.0, 1e6, 40e9) == Power::Awake).count();
        assert_eq!(awake, 19);
    }
}
