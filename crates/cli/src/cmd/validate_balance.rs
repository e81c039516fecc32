//! `nicforge validate balance`: the published figures of HAL (ISCA'24) beside those of the
//! simulator.
//!
//! HAL is its Algorithm 1 with the constants of its public code; the constant threshold that the
//! code's scripts set is called fixed. Table V is simulated cell by cell, with the traces by the
//! paper's text (*stated*) and by the law that fits its averages (*effective*). The published p99
//! is over time (one sample a millisecond and queue); p99 over packets is shown beside it.
//! Capacities, rings and host power of the profiles come from some of the cells, which are marked
//! calibrated. Then come what the text states about rate sweeps, the software balancer and coherent
//! sharing, all ten functions, and how many cells reach the goals for such a model.

mod functions;
mod sweeps;

use nicforge_balance::director::meter::Mode;
use nicforge_balance::policy::{Fixed, Policy};
use nicforge_balance::profile::{Profile, Side, built_in};
use nicforge_balance::sim::{Director, Report, Scenario, System, simulate};
use nicforge_balance::traffic::{self, LINE_GBPS, Law, Trace, constant, published};
use nicforge_driver::Failure;

use super::balance::policies::algorithm_1;
use super::rows::{Row, records};
use crate::parallel;

const TABLE_V: &str = include_str!("../../../../docs/validation/hal_table5.csv");
/// What the paper calls the base of its power figures, W.
const BASE_WATTS: f64 = 200.0;

/// Published and simulated figures of NIC, host and HAL in one line of Table V.
struct Line {
    function: String,
    workload: &'static str,
    effective: bool,
    /// Maxima, averages (Gbit/s), p99 (us), power (W): NIC, host, HAL each.
    published: [[f64; 3]; 4],
    /// And with the fixed threshold.
    ours: [Report; 4],
}

/// Setups that are compared; the first three are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setup {
    Nic,
    Host,
    Hal,
    Fixed,
}

const SETUPS: [Setup; 4] = [Setup::Nic, Setup::Host, Setup::Hal, Setup::Fixed];

impl Setup {
    fn name(self) -> &'static str {
        match self {
            Setup::Nic => "NIC",
            Setup::Host => "host",
            Setup::Hal => "HAL",
            Setup::Fixed => "fixed",
        }
    }

    fn run(self, profile: &Profile, trace: &Trace) -> Report {
        let both = System::Balanced(Director::default());
        match self {
            Setup::Nic => run(profile, trace, System::NicOnly),
            Setup::Host => run(profile, trace, System::HostOnly),
            Setup::Fixed => run(profile, trace, both),
            Setup::Hal => play(profile, trace, both, &mut algorithm_1(profile, LINE_GBPS * 1e9)),
        }
    }
}

fn play(profile: &Profile, trace: &Trace, system: System, policy: &mut dyn Policy) -> Report {
    simulate(&Scenario { profile, trace, system, seed: 1, exact: false }, policy)
}

/// With the fixed threshold, if the system has one.
fn run(profile: &Profile, trace: &Trace, system: System) -> Report {
    let threshold = profile.published_threshold_gbps() * 1e9;
    play(profile, trace, system, &mut Fixed { threshold, mode: Mode::Window })
}

fn profile_of(name: &str) -> Result<Profile, Failure> {
    let profile = built_in(name)
        .ok_or_else(|| Failure::user(format!("internal error: no profile of {name}")))?;
    profile.map_err(|e| Failure::user(format!("internal error: {e}")))
}

/// All rows.
pub fn rows() -> Result<Vec<Row>, Failure> {
    let lines = table_v()?;
    let mut rows = Vec::new();
    for line in &lines {
        cells(line, &mut rows);
    }
    sweeps::rows(&mut rows)?;
    software(&mut rows)?;
    sharing(&mut rows)?;
    functions::rows(&mut rows)?;
    goals(&lines, &mut rows);
    Ok(rows)
}

/// Simulates Table V.
fn table_v() -> Result<Vec<Line>, Failure> {
    let mut jobs = Vec::new();
    for law in [Law::Effective, Law::Stated] {
        for fields in records(TABLE_V) {
            let workload = traffic::workloads().find(|name| fields[0].eq_ignore_ascii_case(name));
            let numbers: Vec<f64> =
                fields[2..].iter().filter_map(|field| field.parse().ok()).collect();
            let (Some(workload), &[m0, m1, h0, h1, b0, b1, p0, p1, p2, w0, w1, w2]) =
                (workload, &numbers[..])
            else {
                return Err(Failure::user(format!("internal error: hal_table5.csv: {fields:?}")));
            };
            let table = [[m0, h0, b0], [m1, h1, b1], [p0, p1, p2], [w0, w1, w2]];
            jobs.push((fields[1].to_string(), workload, law, table, profile_of(fields[1])?));
        }
    }
    let lines = parallel::each(&jobs, |(function, workload, law, published_table, profile)| {
        let trace = published(workload, *law, traffic::SECONDS, 1)?;
        Some(Line {
            function: function.clone(),
            workload,
            effective: *law == Law::Effective,
            published: *published_table,
            ours: SETUPS.map(|setup| setup.run(profile, &trace)),
        })
    });
    Ok(lines.into_iter().flatten().collect())
}

/// Share of the host's power that a total means.
fn awake(watts: f64, host: f64) -> f64 {
    (watts - BASE_WATTS) / (host - BASE_WATTS)
}

fn cells(line: &Line, rows: &mut Vec<Row>) {
    let law = if line.effective { "effective" } else { "stated" };
    let [maxima, averages, p99s, watts] = line.published;
    let host = &line.ours[1];
    for (at, (setup, ours)) in SETUPS.iter().zip(&line.ours).enumerate() {
        let mut push = |metric, published: Option<&f64>, ours, calibrated| {
            let case = format!("{} ({law}) {} {}", line.workload, line.function, setup.name());
            let published = published.copied().unwrap_or(f64::NAN);
            rows.push(Row { source: "HAL Table V", case, metric, published, ours, calibrated });
        };
        let side = at < 2;
        if *setup != Setup::Fixed {
            push("max Gbit/s", maxima.get(at), ours.max_gbps, side);
            push("average Gbit/s", averages.get(at), ours.average_gbps, false);
        }
        let ring = side && line.workload == "hadoop";
        push("p99 over time, us", p99s.get(at), ours.time_p99_us, ring);
        push("p99 over packets, us", None, ours.packet_p99_us, false);
        push("power, W", watts.get(at), ours.watts, *setup == Setup::Host);
        if !side {
            let published = watts.get(at).map(|total| awake(*total, watts[1]));
            let ours = awake(ours.watts, host.watts);
            push("share awake", published.as_ref(), ours, false);
        }
    }
}

/// The software balancer (Fig. 5): 532-byte packets, 80 Gbit/s offered.
fn software(rows: &mut Vec<Row>) -> Result<(), Failure> {
    let nat = profile_of("NAT")?;
    // All packets to one side of that size: 66.2 and 80.0 Gbit/s.
    let profile = Profile {
        packet_bytes: 556,
        nic: Side { gbps: 66.2, ..nat.nic.clone() },
        host: Side { gbps: 92.0, ..nat.host.clone() },
        ..nat
    };
    /// What one core forwards: from the loss with one core.
    const CORE_GBPS: f64 = 32.4;
    let trace = constant(80.0, 0.2);
    let cases = [
        ("1 core, threshold 20", 1, 20.0, "lost", 0.595, true),
        ("4 cores, threshold 20", 4, 20.0, "served Gbit/s", 77.0, false),
        ("4 cores, threshold 60", 4, 60.0, "served Gbit/s", 53.0, false),
    ];
    for (case, cores, threshold_gbps, metric, published, calibrated) in cases {
        let report = run(
            &profile,
            &trace,
            System::Software { cores, gbps_per_core: CORE_GBPS, threshold_gbps },
        );
        let ours = if metric == "lost" { report.lost } else { report.average_gbps };
        rows.push(Row {
            source: "HAL Fig. 5, software balancer",
            case: case.to_string(),
            metric,
            published,
            ours,
            calibrated,
        });
    }
    let on_host = run(&profile, &trace, System::HostOnly);
    rows.push(Row {
        source: "HAL Fig. 5, software balancer",
        case: "on the host, all awake".to_string(),
        metric: "power, W",
        published: f64::NAN,
        ours: on_host.watts,
        calibrated: false,
    });
    Ok(())
}

/// State shared by both sides: every packet has a coherent access to it.
fn sharing(rows: &mut Vec<Row>) -> Result<(), Failure> {
    for name in ["Count", "EMA"] {
        let profile = profile_of(name)?;
        let trace = constant(0.5 * profile.nic.gbps, 0.5);
        let apart = run(&profile, &trace, System::Balanced(Director::default()));
        // A cache line from the other socket, for the share of packets whose line was there last:
        // half.
        let director = Director { shared_state_ns: 0.5 * 500.0, ..Director::default() };
        let shared = run(&profile, &trace, System::Balanced(director));
        for (metric, published, ours) in [
            ("throughput of shared state", 0.9965, shared.average_gbps / apart.average_gbps),
            ("p99 of shared state", 1.0255, shared.packet_p99_us / apart.packet_p99_us),
        ] {
            let case = format!("{name}, coherent state");
            rows.push(Row { source: "HAL text", case, metric, published, ours, calibrated: false });
        }
    }
    Ok(())
}

/// Shares of cells that reach each goal, with effective traces; and the relative claims.
fn goals(lines: &[Line], rows: &mut Vec<Row>) {
    let effective: Vec<&Line> = lines.iter().filter(|line| line.effective).collect();
    let mut push = |case: &str, metric, published, ours| {
        rows.push(Row {
            source: "goals",
            case: case.to_string(),
            metric,
            published,
            ours,
            calibrated: false,
        });
    };
    let share = |hits: &mut dyn Iterator<Item = bool>| {
        let hits: Vec<bool> = hits.collect();
        hits.iter().filter(|hit| **hit).count() as f64 / hits.len() as f64
    };
    let near = |ours: f64, published: f64, most: f64| (ours / published - 1.0).abs() <= most;
    let cells = || effective.iter().flat_map(|line| (0..3).map(move |at| (*line, at)));
    let simple = |line: &Line| ["NAT", "Count"].contains(&line.function.as_str());
    let p99 = |line: &Line, at: usize| (line.ours[at].time_p99_us, line.published[2][at]);
    push(
        "max within 10 %",
        "share of cells",
        1.0,
        share(
            &mut cells().map(|(line, at)| near(line.ours[at].max_gbps, line.published[0][at], 0.1)),
        ),
    );
    push(
        "average within 10 %",
        "share of cells",
        1.0,
        share(
            &mut cells()
                .map(|(line, at)| near(line.ours[at].average_gbps, line.published[1][at], 0.1)),
        ),
    );
    push(
        "power within 3 %",
        "share of cells",
        1.0,
        share(
            &mut cells().map(|(line, at)| near(line.ours[at].watts, line.published[3][at], 0.03)),
        ),
    );
    let awake_off = |line: &Line| {
        let [.., watts] = line.published;
        awake(line.ours[2].watts, line.ours[1].watts) - awake(watts[2], watts[1])
    };
    push(
        "share awake within 0.05",
        "share of cells",
        1.0,
        share(&mut effective.iter().map(|line| awake_off(line).abs() <= 0.05)),
    );
    let good = share(&mut cells().filter(|(line, _)| simple(line)).map(|(line, at)| {
        let (ours, published) = p99(line, at);
        near(ours, published, 0.25)
    }));
    push("p99 within 25 %, NAT and Count", "share of cells", 0.8, good);
    let good = share(&mut cells().filter(|(line, _)| !simple(line)).map(|(line, at)| {
        let (ours, published) = p99(line, at);
        ours <= 2.0 * published && published <= 2.0 * ours
    }));
    push("p99 within a factor of 2, others", "share of cells", 1.0, good);
    // Relative claims: how far p99 falls from the NIC to HAL, and efficiency over the host.
    let fall = |nic: f64, hal: f64| 1.0 - hal / nic;
    let good = share(&mut effective.iter().filter(|line| simple(line)).map(|line| {
        let ours = fall(line.ours[0].time_p99_us, line.ours[2].time_p99_us);
        (ours - fall(line.published[2][0], line.published[2][2])).abs() <= 0.05
    }));
    push("fall of p99 by HAL within 5 points, NAT and Count", "share of cells", 1.0, good);
    let gain = |line: &Line, ours: bool| {
        let (rate, watts) = match ours {
            true => {
                ([1, 2].map(|at| line.ours[at].average_gbps), [1, 2].map(|at| line.ours[at].watts))
            }
            false => {
                ([1, 2].map(|at| line.published[1][at]), [1, 2].map(|at| line.published[3][at]))
            }
        };
        rate[1] / watts[1] / (rate[0] / watts[0])
    };
    let mean = |ours| {
        let all: Vec<f64> = effective.iter().map(|line| gain(line, ours).ln()).collect();
        (all.iter().sum::<f64>() / all.len() as f64).exp()
    };
    push(
        "energy efficiency of HAL over the host, all of Table V",
        "geometric mean",
        mean(false),
        mean(true),
    );
    push("energy efficiency of HAL over the host, headline", "geometric mean", 1.31, mean(true));
}
