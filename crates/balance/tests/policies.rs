//! The bars for policies: the best of ours against the published one on the same traces.

use nicforge_balance::director::meter::Mode;
use nicforge_balance::policy::gate::Gate;
use nicforge_balance::policy::{Fixed, Policy};
use nicforge_balance::profile::{Profile, built_in};
use nicforge_balance::sim::limit::largest_within;
use nicforge_balance::sim::{Director, Report, Scenario, System, simulate};
use nicforge_balance::traffic::{Law, Trace, published, workloads};

fn run(profile: &Profile, trace: &Trace, system: System, policy: &mut dyn Policy) -> Report {
    simulate(&Scenario { profile, trace, system, seed: 1, exact: false }, policy)
}

fn ours(profile: &Profile, trace: &Trace, objective_us: f64) -> Report {
    let limit = largest_within(profile, objective_us, 0.9, 1).unwrap_or(0.1 * profile.nic.gbps);
    let (nic, host) = (profile.nic.gbps * 1e9, profile.host.gbps * 1e9);
    let mut gate = Gate::new(nic, host, limit * 1e9, objective_us * 1e3);
    run(profile, trace, System::Balanced(Director { lazy: true, ..Director::default() }), &mut gate)
}

/// p99 over packets. Over time (one sample a millisecond), web and cache spend little more than 1 %
/// of the time above what the NIC does alone, so there all policies are near the floor, the latency
/// of an idle NIC; on hadoop that p99 gains as much.
fn our_best_policy_beats_the_published_one(name: &str) {
    let profile = built_in(name).unwrap().unwrap();
    for workload in workloads() {
        let trace = published(workload, Law::Effective, 300, 1).unwrap();
        let threshold = profile.published_threshold_gbps() * 1e9;
        let mut fixed = Fixed { threshold, mode: Mode::Window };
        let theirs = run(&profile, &trace, System::Balanced(Director::default()), &mut fixed);
        let host = run(&profile, &trace, System::HostOnly, &mut fixed);
        let ours = ours(&profile, &trace, 1.1 * host.packet_p99_us);
        let case = format!("{name}, {workload}: {theirs:.3?} {host:.3?} {ours:.3?}")
            .split("bins: [")
            .map(|part| part.split(']').next_back().unwrap_or(""))
            .collect::<String>();
        assert!(ours.packet_p99_us <= 0.6 * theirs.packet_p99_us, "{case}");
        assert!(ours.watts <= 1.01 * theirs.watts, "{case}");
        assert!(ours.packet_p99_us <= 1.1 * host.packet_p99_us, "{case}");
        assert!(theirs.watts > 0.8 * host.watts || ours.watts <= 0.8 * host.watts, "{case}");
        assert!(workload != "hadoop" || ours.time_p99_us <= 0.6 * theirs.time_p99_us, "{case}");
        assert!(ours.lost < 1e-3, "{case}");
    }
}

#[test]
fn for_nat() {
    our_best_policy_beats_the_published_one("nat");
}

#[test]
fn for_count() {
    our_best_policy_beats_the_published_one("count");
}
