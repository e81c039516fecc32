use super::*;
use crate::policy::Fixed;
use crate::policy::headroom::Headroom;
use crate::policy::published::Published;
use crate::profile::built_in;
use crate::traffic::constant;

fn nat() -> Profile {
    built_in("nat").unwrap().unwrap()
}

fn fixed(gbps: f64) -> Fixed {
    Fixed { threshold: gbps * 1e9, mode: Mode::Window }
}

fn run(
    profile: &Profile,
    trace: &Trace,
    system: System,
    policy: &mut dyn Policy,
    exact: bool,
) -> Report {
    simulate(&Scenario { profile, trace, system, seed: 1, exact }, policy)
}

#[test]
fn sides_do_what_their_profiles_say() {
    let profile = nat();
    let over = constant(80.0, 1.0);
    let nic = run(&profile, &over, System::NicOnly, &mut fixed(0.0), false);
    assert!((nic.average_gbps / profile.nic.gbps - 1.0).abs() < 0.02, "{nic:?}");
    assert!((nic.time_p99_us / 343.0 - 1.0).abs() < 0.1, "{nic:?}");
    let host = run(&profile, &over, System::HostOnly, &mut fixed(0.0), false);
    assert!(host.lost < 2e-3 && host.awake == 1.0 && (host.watts - 275.9).abs() < 0.1);
    let both = run(&profile, &over, System::Balanced(Director::default()), &mut fixed(40.3), false);
    assert!(both.lost < 1e-3 && (both.to_host - (1.0 - 40.3 / 80.0)).abs() < 0.02, "{both:?}");
    let low = constant(10.0, 1.0);
    let both = run(&profile, &low, System::Balanced(Director::default()), &mut fixed(40.3), false);
    assert!(both.to_host == 0.0 && both.awake < 0.01 && both.watts < 201.0, "{both:?}");
}

/// Seconds of very different rates, for sides far from and near saturation, and asleep between
/// packets. Every quantity and quantile.
#[test]
fn aggregation_is_within_one_per_cent_of_exact() {
    let profile = nat();
    let gbps = [2.0, 55.0, 8.0, 34.0, 1.0, 70.0, 12.0, 0.3].repeat(2);
    let poisson = Trace { gbps, ..constant(1.0, 1.0) };
    let bursts = Trace { gbps: vec![2.0, 20.0, 8.0], ..constant(1.0, 1.0) }.in_bursts(25.0);
    let both = System::Balanced(Director::default());
    let sleep = Sleep { idle_ns: 2e6, wake_ns: 20e3 };
    let runs: [(&str, System, f64, &Trace, f64); 6] = [
        ("both", both, 35.0, &poisson, 0.2),
        ("near saturation", both, 40.3, &poisson, 0.8),
        ("host", System::HostOnly, 0.0, &poisson, 0.2),
        ("sleeping host", System::HostSleeping(sleep), 0.0, &poisson, 0.2),
        ("nic", System::NicOnly, 0.0, &poisson, 0.2),
        ("bursts are not aggregated", both, 35.0, &bursts, 1.1),
    ];
    for (name, system, threshold, trace, part) in runs {
        let exact = run(&profile, trace, system, &mut fixed(threshold), true);
        let fast = run(&profile, trace, system, &mut fixed(threshold), false);
        let simulated = fast.simulated as f64 / exact.simulated as f64;
        assert!(simulated < part, "{name}: {simulated}");
        let pairs = [
            ("average", exact.average_gbps, fast.average_gbps),
            ("max", exact.max_gbps, fast.max_gbps),
            ("p99 over packets", exact.packet_p99_us, fast.packet_p99_us),
            ("p99 over time", exact.time_p99_us, fast.time_p99_us),
            ("watts", exact.watts, fast.watts),
            ("awake", exact.awake + 1.0, fast.awake + 1.0),
            ("lost", exact.lost + 1.0, fast.lost + 1.0),
            ("to host", exact.to_host + 1.0, fast.to_host + 1.0),
        ];
        for (what, exact, fast) in pairs {
            assert!((fast / exact - 1.0).abs() < 0.01, "{name}, {what}: {fast}, exactly {exact}");
        }
    }
}

#[test]
fn the_published_policy_needs_seconds_and_ours_does_not() {
    let profile = nat();
    let trace = Trace { gbps: vec![80.0; 8], bin_ns: 1e9, ..constant(80.0, 1.0) };
    let mut published = Published::artifact(LINE_GBPS * 1e9, profile.nic.ring);
    let theirs =
        run(&profile, &trace, System::Balanced(Director::default()), &mut published, false);
    assert!(
        theirs.bins[0].threshold_gbps < 10.0 && theirs.bins[7].threshold_gbps > 35.0,
        "{theirs:?}"
    );
    let director = Director { lazy: true, ..Director::default() };
    let mut headroom = Headroom::new(profile.nic.gbps * 1e9, 0.1, 64);
    let ours = run(&profile, &trace, System::Balanced(director), &mut headroom, false);
    assert!((ours.bins[0].threshold_gbps - 0.9 * 42.4).abs() < 0.5, "{ours:?}");
    assert!(ours.packet_p99_us < theirs.packet_p99_us);
}

#[test]
fn a_software_balancer_is_limited_by_its_cores() {
    let profile = Profile { packet_bytes: 556, ..nat() };
    let trace = constant(80.0, 0.5);
    let run = |cores, threshold_gbps| {
        let system = System::Software { cores, gbps_per_core: 33.0, threshold_gbps };
        run(&profile, &trace, system, &mut fixed(0.0), false)
    };
    assert!((run(1, 20.0).average_gbps - 33.0).abs() < 1.0);
    assert!(run(4, 60.0).average_gbps < run(4, 20.0).average_gbps);
}

#[test]
fn bursts_have_the_mean_rate() {
    let trace = constant(20.0, 0.5).in_bursts(25.0);
    let director = Director { lazy: true, predictive_ns: Some(5e6), ..Director::default() };
    let profile = nat();
    let report = run(&profile, &trace, System::Balanced(director), &mut fixed(40.3), true);
    assert!((report.offered_gbps / 20.0 - 1.0).abs() < 0.05, "{}", report.offered_gbps);
}
