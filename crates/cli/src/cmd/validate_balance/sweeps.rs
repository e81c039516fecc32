//! Constant rates: Fig. 9 with its text, and what policies take where the NIC is enough.

use super::*;
use crate::cmd::balance::policies::{PolicyName, make, usual_objective_us};

/// A share of packets lost that counts as dropping.
const DROPS: f64 = 1e-3;
/// Simulated: a second in which a policy learns, and one that counts.
const LEARN: usize = 1;

/// Published for NAT and REM: where the NIC begins to drop (Gbit/s), its p99 over the host's at 80
/// Gbit/s, the least and the largest saving of HAL's power above the knee.
const CLAIMS: [(&str, f64, f64, [f64; 2]); 2] =
    [("NAT", 41.0, 120.0, [0.11, 0.24]), ("REM", 30.0, 56.0, [0.12, 0.27])];

fn steady(gbps: f64) -> Trace {
    Trace { bin_ns: 1e9, gbps: vec![gbps; LEARN + 1], ..constant(gbps, 1.0) }
}

/// The largest rate that the NIC serves without drops, Gbit/s.
pub fn knee(profile: &Profile) -> f64 {
    let (mut fits, mut fails) = (0.5 * profile.nic.gbps, 1.2 * profile.nic.gbps);
    let drops = |gbps| run(profile, &constant(gbps, 0.2), System::NicOnly).lost > DROPS;
    for _ in 0..8 {
        let middle = (fits + fails) / 2.0;
        if drops(middle) {
            fails = middle;
        } else {
            fits = middle;
        }
    }
    fits
}

pub fn rows(rows: &mut Vec<Row>) -> Result<(), Failure> {
    for (name, drops_from, ratio_at_80, savings) in CLAIMS {
        let profile = profile_of(name)?;
        let mut push = |case: String, metric, published, ours, calibrated| {
            let source = "HAL Fig. 9 and text";
            rows.push(Row { source, case, metric, published, ours, calibrated });
        };
        let calibrated = name == "NAT";
        push(format!("{name} NIC"), "drops from, Gbit/s", drops_from, knee(&profile), calibrated);
        let ratio = |gbps: f64, above: Setup, below: Setup| {
            let p99 = |setup: Setup| setup.run(&profile, &steady(gbps)).bins[LEARN].p99_us;
            p99(above) / p99(below)
        };
        let over = ratio(80.0, Setup::Nic, Setup::Host);
        push(format!("{name} NIC at 80 Gbit/s"), "p99 over the host's", ratio_at_80, over, false);
        let over = ratio(0.7 * drops_from, Setup::Hal, Setup::Nic);
        push(format!("{name} HAL below the knee"), "p99 over the NIC's", 1.03, over, false);
        let rates: Vec<f64> = (1..=10).map(|tens| 10.0 * f64::from(tens)).collect();
        let runs =
            parallel::each(&rates, |gbps| SETUPS.map(|setup| setup.run(&profile, &steady(*gbps))));
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for (gbps, reports) in rates.iter().zip(&runs) {
            for (setup, report) in SETUPS.iter().zip(reports) {
                let case = format!("{name} {} at {gbps} Gbit/s", setup.name());
                let bin = report.bins[LEARN];
                push(case.clone(), "served Gbit/s", f64::NAN, bin.served_gbps, false);
                push(case.clone(), "p99 over packets, us", f64::NAN, bin.p99_us, false);
                push(case.clone(), "power, W", f64::NAN, bin.watts, false);
                if *setup == Setup::Hal {
                    push(case, "threshold Gbit/s", f64::NAN, bin.threshold_gbps, false);
                }
            }
            let watts = |at: usize| reports[at].bins[LEARN].watts;
            if *gbps > drops_from {
                let saved = 1.0 - watts(2) / watts(1);
                (least, most) = (least.min(saved), most.max(saved));
            }
        }
        let case = format!("{name} HAL above the knee");
        push(case.clone(), "least power saved over the host", savings[0], least, false);
        push(case.clone(), "most power saved over the host", savings[1], most, false);
        // The scripts' threshold is in the frames' bytes; Algorithm 1 is not told.
        let threshold = runs[9][2].bins[LEARN].threshold_gbps;
        let scripts = profile.published_threshold_gbps();
        push(case, "threshold it finds, Gbit/s (scripts)", scripts, threshold, false);
        if name == "REM" {
            let [_, host, hal, _] = &runs[9];
            let over = host.packet_p99_us / hal.host_p99_us.unwrap_or(f64::NAN);
            let case = format!("{name} host alone at 100 Gbit/s");
            push(case, "p99 over HAL's host", 3.1, over, false);
        }
    }
    low(rows)
}

/// Power over that of the NIC alone, at rates up to nine tenths of the threshold.
fn low(rows: &mut Vec<Row>) -> Result<(), Failure> {
    let mut cases = Vec::new();
    for name in ["NAT", "Count", "EMA", "KNN", "REM", "Crypto"] {
        let profile = profile_of(name)?;
        let objective = usual_objective_us(&profile, 1);
        for part in [0.1, 0.3, 0.5, 0.7, 0.9] {
            cases.push((profile.clone(), part, objective));
        }
    }
    let policies = [PolicyName::Fixed, PolicyName::Published, PolicyName::Paper, PolicyName::Gate];
    let results = parallel::each(&cases, |(profile, part, objective)| {
        let trace = steady(part * profile.published_threshold_gbps());
        let alone = run(profile, &trace, System::NicOnly).bins[LEARN].watts;
        policies.map(|name| {
            let director = Director { lazy: !name.is_published(), ..Director::default() };
            let mut policy = make(name, profile, *objective, LINE_GBPS)?;
            let report = play(profile, &trace, System::Balanced(director), policy.as_mut());
            Ok(report.bins[LEARN].watts / alone)
        })
    });
    for ((profile, part, _), result) in cases.iter().zip(results) {
        for (name, ours) in policies.iter().zip(result) {
            let rate = part * profile.published_threshold_gbps();
            let case = format!("{} {} at {rate:.1} Gbit/s", profile.function, name.name());
            let (source, metric) = ("HAL text", "power over the NIC's");
            rows.push(Row { source, case, metric, published: 1.0, ours: ours?, calibrated: false });
        }
    }
    Ok(())
}
