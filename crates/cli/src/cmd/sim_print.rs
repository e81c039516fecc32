//! Simulation reports for people.

use nicforge_plan::Plan;
use nicforge_sim::{MemoryLoad, Report};

use crate::out;
use crate::text::table;

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn mpps(rate: f64) -> String {
    format!("{:.3}", rate / 1e6)
}

/// Everything about one run.
pub fn report(report: &Report, plan: &Plan) {
    let stopped = if report.interrupted { ", stopped" } else { "" };
    outln!(
        "{} on {}: {} frames in {:.3} ms{stopped}",
        report.program,
        report.target,
        report.packets.offered,
        report.seconds * 1e3
    );
    let flow = |what: &str, flow: &nicforge_sim::report::Flow| {
        vec![what.to_string(), mpps(flow.pps), format!("{:.2}", flow.bps / 1e9)]
    };
    let planned = vec![
        "plan".to_string(),
        mpps(plan.predicted.rate_pps),
        format!("{:.2}", plan.predicted.bit_rate_bps / 1e9),
    ];
    let rows = [flow("offered", &report.offered), flow("delivered", &report.delivered), planned];
    out::text(&table(&["", "Mpps", "Gbit/s"], &rows));
    outln!("loss {:.3} %", report.loss * 100.0);
    let packets = &report.packets;
    let mut counts = vec![("sent", packets.sent), ("made from byte strings", packets.made)];
    counts.extend([("to the operating system", packets.stack), ("to the host side", packets.host)]);
    counts.extend([("messages to the host", packets.messages), ("under way", packets.in_flight)]);
    let named = counts.into_iter().filter(|(_, n)| *n > 0).map(|(name, n)| (name.to_string(), n));
    let dropped = packets.dropped.iter().map(|(reason, n)| (format!("dropped: {reason}"), *n));
    let lost = packets.lost.iter().map(|(place, n)| (format!("lost: {place}"), *n));
    let rows: Vec<Vec<String>> =
        named.chain(dropped).chain(lost).map(|(name, n)| vec![name, n.to_string()]).collect();
    out::text(&table(&["frames", ""], &rows));
    if let Some(l) = &report.latency {
        let list = [l.min, l.p50, l.p90, l.p99, l.p999, l.max].map(|ns| format!("{:.3}", ns / 1e3));
        out::text(&table(
            &["latency us: min", "p50", "p90", "p99", "p99.9", "max"],
            &[list.to_vec()],
        ));
    }
    let rows: Vec<Vec<String>> = report
        .stages
        .iter()
        .map(|s| {
            vec![
                s.name.clone(),
                format!("{} {}", s.replicas, s.group),
                mpps(s.events_per_second),
                percent(s.busy),
                percent(s.occupied),
                format!("{:.0}", s.cycles),
                format!("{:.1}", s.queue_mean),
                format!("{} of {}", s.queue_max, s.queue_depth),
            ]
        })
        .collect();
    let header = ["stage", "units", "M events/s", "busy", "occupied", "cycles", "queue", "longest"];
    out::text(&table(&header, &rows));
    for (what, counted, list) in [
        ("memory", "M accesses/s", &report.memories),
        ("accelerator", "M ops/s", &report.accelerators),
    ] {
        if list.is_empty() {
            continue;
        }
        let row = |m: &MemoryLoad| {
            vec![
                m.name.clone(),
                percent(m.busy),
                mpps(m.accesses_per_second),
                format!("{:.1}", m.wait_mean),
                format!("{:.0}", m.wait_max),
            ]
        };
        let rows: Vec<Vec<String>> = list.iter().map(row).collect();
        out::text(&table(&[what, "busy", counted, "wait ns", "longest ns"], &rows));
    }
    if let Some([to_host, to_nic]) = report.host_link.filter(|link| link.iter().sum::<f64>() > 0.0)
    {
        outln!("host link: {} to the host, {} back", percent(to_host), percent(to_nic));
    }
    outln!("{:.1} W, {:.0} nJ a packet", report.power.watts, report.power.nj_per_packet);
    outln!(
        "{} events in {:.3} s: {:.0} ns each",
        report.events,
        report.wall_seconds,
        report.wall_ns_per_event()
    );
}

/// A line per run.
pub fn sweep(reports: &[(String, Report)], plan: &Plan) {
    let rows: Vec<Vec<String>> = reports
        .iter()
        .map(|(at, report)| {
            let latency = |of: fn(&nicforge_sim::report::Latency) -> f64| {
                report.latency.as_ref().map_or(String::new(), |l| format!("{:.3}", of(l) / 1e3))
            };
            vec![
                at.clone(),
                mpps(report.offered.pps),
                mpps(report.delivered.pps),
                format!("{:.3}", report.loss * 100.0),
                latency(|l| l.p50),
                latency(|l| l.p99),
                format!("{:.1}", report.power.watts),
                format!("{:.0}", report.power.nj_per_packet),
            ]
        })
        .collect();
    let header =
        ["at", "offered Mpps", "delivered", "loss %", "p50 us", "p99 us", "W", "nJ/packet"];
    out::text(&table(&header, &rows));
    outln!("the plan predicts {} Mpps", mpps(plan.predicted.rate_pps));
}
