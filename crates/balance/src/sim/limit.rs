//! The largest rate that the NIC alone serves within an objective, by simulation.

use super::{Director, Scenario, System, simulate};
use crate::director::meter::Mode;
use crate::policy::Fixed;
use crate::profile::Profile;
use crate::traffic::constant;

/// Seconds that a rate is tried: some 10^5 packets at 10 Gbit/s.
const SECONDS: f64 = 0.1;
/// Steps of the bisection: a thousandth of the capacity.
const STEPS: u32 = 10;

/// p99 over packets on the NIC behind a director at a rate, µs; infinite if packets are lost.
pub fn nic_p99_us(profile: &Profile, gbps: f64, seed: u64) -> f64 {
    let mut policy = Fixed { threshold: f64::MAX, mode: Mode::TokenBucket };
    let trace = constant(gbps, SECONDS);
    let director = Director { burst: u64::MAX >> 32, lazy: true, ..Director::default() };
    let system = System::Balanced(director);
    let report =
        simulate(&Scenario { profile, trace: &trace, system, seed, exact: true }, &mut policy);
    if report.lost > 1e-3 { f64::INFINITY } else { report.packet_p99_us }
}

/// The largest rate (Gbit/s) with p99 within `objective_us`, at most `most` of the capacity; none
/// if not even a small one is.
pub fn largest_within(profile: &Profile, objective_us: f64, most: f64, seed: u64) -> Option<f64> {
    let (mut fits, mut fails) = (0.01 * profile.nic.gbps, most * profile.nic.gbps);
    if nic_p99_us(profile, fits, seed) > objective_us {
        return None;
    }
    if nic_p99_us(profile, fails, seed) <= objective_us {
        return Some(fails);
    }
    for _ in 0..STEPS {
        let middle = (fits + fails) / 2.0;
        if nic_p99_us(profile, middle, seed) <= objective_us {
            fits = middle
        } else {
            fails = middle
        }
    }
    Some(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::built_in;

    #[test]
    fn the_limit_grows_with_the_objective() {
        let profile = built_in("nat").unwrap().unwrap();
        let limit = |us| largest_within(&profile, us, 0.9, 1);
        assert_eq!(limit(5.0), None);
        let (tight, loose, any) = (limit(16.0).unwrap(), limit(30.0).unwrap(), limit(1e6).unwrap());
        assert!(
            tight < loose && loose < any && any == 0.9 * profile.nic.gbps,
            "{tight} {loose} {any}"
        );
        assert!(nic_p99_us(&profile, tight, 2) < 16.5);
    }
}
