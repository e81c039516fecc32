//! Which packets stay on the NIC, by bytes: integers only, so that every director counts alike.
//!
//! Reading the clock costs more than all else on the way of a packet (36 ns in XDP), so meters are
//! *lazy*: they read it only when what they may keep is used up. A lazy token bucket keeps at most
//! rate·T + 2·burst bytes in any time T, a lazy window at most two credits a window. A window that
//! is not lazy starts on multiples of its length, as in the published hardware.

/// Shift of rates and shares: they are in units of 2^-20 and 2^-16.
pub const RATE_SHIFT: u32 = 20;
pub const SHARE_SHIFT: u32 = 16;
/// No more time than this refills a bucket, ns; keeps products within 64 bits.
pub const LONGEST_REFILL_NS: u64 = 1 << 24;

/// Ways to meter bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The first bytes of every window stay on the NIC (the published hardware).
    Window,
    /// A token bucket: what exceeds the rate is spread evenly.
    TokenBucket,
    /// A share of all bytes goes to the host, evenly.
    Proportional,
    /// All packets of a flow go the same way; see [`super::flows`].
    FlowAffine,
}

impl Mode {
    /// All of them with their names.
    pub const ALL: [(Mode, &str); 4] = [
        (Mode::Window, "window"),
        (Mode::TokenBucket, "token-bucket"),
        (Mode::Proportional, "proportional"),
        (Mode::FlowAffine, "flow-affine"),
    ];

    /// By name.
    pub fn named(name: &str) -> Option<Mode> {
        Mode::ALL.iter().find(|(_, known)| *known == name).map(|(mode, _)| *mode)
    }

    pub fn name(self) -> &'static str {
        Mode::ALL.iter().find(|(mode, _)| *mode == self).map_or("", |(_, name)| name)
    }
}

/// Settings of the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// Length of a window, ns.
    pub window_ns: u64,
    /// Bytes kept per window.
    pub credit: u64,
    /// Bytes per ns, times 2^20.
    pub rate: u64,
    /// Bytes a bucket holds.
    pub burst: u64,
    /// Share of bytes for the host, times 2^16; at most 2^16.
    pub host_share: u64,
}

/// A threshold as the meters need it.
///
/// `threshold` and `received` are bytes a second on the wire: what the NIC may get, and what came
/// in last.
pub fn setting(threshold: f64, received: f64, window_ns: u64, burst: u64) -> Setting {
    let threshold = threshold.clamp(0.0, 1e12);
    let excess = if received > threshold { 1.0 - threshold / received } else { 0.0 };
    Setting {
        window_ns,
        credit: (threshold * window_ns as f64 / 1e9).round() as u64,
        rate: (threshold / 1e9 * f64::from(1 << RATE_SHIFT)).round() as u64,
        burst,
        host_share: (excess * f64::from(1 << SHARE_SHIFT)).round() as u64,
    }
}

/// The state of a meter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// Bytes left: tokens, or credit of this window.
    pub left: u64,
    /// Time of the last refill, or number of the window.
    pub at: u64,
    /// Accumulated share, times 2^16.
    pub owed: u64,
}

impl Meter {
    /// True if a packet of `bytes` on the wire stays on the NIC. `now` reads a clock in ns.
    pub fn keep(
        &mut self,
        mode: Mode,
        set: &Setting,
        lazy: bool,
        bytes: u64,
        now: impl FnOnce() -> u64,
    ) -> bool {
        match mode {
            Mode::Window => {
                if !lazy || self.left == 0 {
                    let window = now() / set.window_ns.max(1);
                    if window != self.at {
                        self.at = window;
                        self.left = set.credit;
                    }
                }
                // The packet that reaches the limit still stays.
                let keep = self.left > 0;
                self.left = self.left.saturating_sub(bytes);
                keep
            }
            Mode::TokenBucket => {
                if !lazy || self.left < bytes {
                    let now = now();
                    let passed = now.saturating_sub(self.at).min(LONGEST_REFILL_NS);
                    self.at = now;
                    self.left = (self.left + ((passed * set.rate) >> RATE_SHIFT)).min(set.burst);
                }
                let keep = self.left >= bytes;
                if keep {
                    self.left -= bytes;
                }
                keep
            }
            Mode::Proportional => {
                self.owed += bytes * set.host_share;
                let whole = bytes << SHARE_SHIFT;
                let host = self.owed >= whole && set.host_share > 0;
                if host {
                    self.owed -= whole;
                }
                !host
            }
            Mode::FlowAffine => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Bytes kept when packets of random sizes come at `rate` bytes a second for `ns`.
    fn kept(mode: Mode, lazy: bool, threshold: f64, rate: f64, ns: u64) -> (f64, f64) {
        let set = setting(threshold, rate, 100_000, 8 * 1524);
        let (mut meter, mut rng) = (Meter::default(), Rng::new(3));
        let (mut now, mut kept, mut all) = (1e6, 0u64, 0u64);
        while (now as u64) < ns + 1_000_000 {
            let bytes = 84 + u64::from(rng.below(1440));
            all += bytes;
            if meter.keep(mode, &set, lazy, bytes, || now as u64) {
                kept += bytes;
            }
            now += bytes as f64 / rate * 1e9;
        }
        (kept as f64 / ns as f64 * 1e9, all as f64 / ns as f64 * 1e9)
    }

    #[test]
    fn the_threshold_is_kept_and_no_more_is_diverted() {
        for (mode, _) in &Mode::ALL[..3] {
            for lazy in [false, true] {
                let (nic, _) = kept(*mode, lazy, 5e9, 10e9, 20_000_000);
                assert!((nic / 5e9 - 1.0).abs() < 0.03, "{mode:?} {lazy}: {nic}");
                let (nic, all) = kept(*mode, lazy, 5e9, 3e9, 20_000_000);
                assert!(nic / all > 0.999, "{mode:?} {lazy}: {nic} of {all}");
                let (nic, _) = kept(*mode, lazy, 0.0, 3e9, 20_000_000);
                assert_eq!(nic, 0.0, "{mode:?} {lazy}");
            }
        }
    }

    #[test]
    fn a_lazy_bucket_rarely_reads_the_clock() {
        let set = setting(5e9, 0.0, 100_000, 8 * 1524);
        let (mut meter, mut reads) = (Meter::default(), 0);
        for packet in 0..10_000u64 {
            assert!(meter.keep(Mode::TokenBucket, &set, true, 1524, || {
                reads += 1;
                1_000_000 + packet * 1000
            }));
        }
        assert!(reads <= 10_000 / 8 + 1, "{reads}");
    }

    #[test]
    fn a_bucket_spreads_and_a_window_does_not() {
        let longest = |mode| {
            let set = setting(5e9, 10e9, 100_000, 2 * 1524);
            let (mut meter, mut run, mut longest) = (Meter::default(), 0, 0);
            for packet in 0..100_000u64 {
                if meter.keep(mode, &set, true, 1524, || packet * 152) {
                    run += 1
                } else {
                    run = 0
                }
                longest = longest.max(run);
            }
            longest
        };
        assert!(longest(Mode::TokenBucket) <= 4 && longest(Mode::Proportional) <= 2);
        assert!(longest(Mode::Window) > 300);
    }
}
