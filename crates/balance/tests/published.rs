//! The model against published figures where they should meet: NAT on hadoop in Table V of HAL
//! (ISCA'24). `nicforge validate balance` prints all cells.

use nicforge_balance::director::meter::Mode;
use nicforge_balance::policy::published::{Constants, Published};
use nicforge_balance::policy::{Fixed, Policy};
use nicforge_balance::profile::built_in;
use nicforge_balance::sim::{Director, Scenario, System, simulate};
use nicforge_balance::traffic::{Law, SECONDS, published};

#[test]
fn nat_on_hadoop_is_as_published() {
    let profile = built_in("nat").unwrap().unwrap();
    let trace = published("hadoop", Law::Effective, SECONDS, 1).unwrap();
    // Maximum, average (Gbit/s), p99 over time (us), power (W).
    let cells = [
        (System::NicOnly, [45.5, 9.2, 343.4, 199.6]),
        (System::HostOnly, [91.6, 10.6, 48.8, 280.4]),
        (System::Balanced(Director::default()), [97.9, 10.9, 61.3, 205.8]),
    ];
    for (system, want) in cells {
        // HAL runs its Algorithm 1; nothing tells it the published threshold.
        let mut policy: Box<dyn Policy> = match system {
            System::Balanced(_) => {
                Box::new(Published::new(Constants::paper(100e9, profile.nic.ring), 0.0))
            }
            _ => Box::new(Fixed { threshold: 0.0, mode: Mode::Window }),
        };
        let scenario = Scenario { profile: &profile, trace: &trace, system, seed: 1, exact: false };
        let report = simulate(&scenario, policy.as_mut());
        let ours = [report.max_gbps, report.average_gbps, report.time_p99_us, report.watts];
        for ((ours, want), most) in ours.iter().zip(want).zip([0.1, 0.1, 0.25, 0.03]) {
            assert!((ours / want - 1.0).abs() <= most, "{system:?}: {ours}, published {want}");
        }
    }
}
