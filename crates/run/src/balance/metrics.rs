//! What a balancer does, as Prometheus text and as one line for a terminal.

use std::fmt::Write as _;

use nicforge_balance::policy::failover::State;

use super::daemon::Status;

fn name(state: State) -> &'static str {
    match state {
        State::Both => "both",
        State::NicDead => "nic-dead",
        State::HostDead => "host-dead",
        State::BothSilent => "both-silent",
        State::HeartbeatLost => "heartbeat-lost",
    }
}

/// Prometheus' text format 0.0.4.
pub fn prometheus(status: &Status) -> String {
    let mut text = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, values: &[(&str, f64)]| {
        let _ = writeln!(
            text,
            "# HELP nicforge_balance_{name} {help}\n# TYPE nicforge_balance_{name} {kind}"
        );
        for (labels, value) in values {
            let _ = writeln!(text, "nicforge_balance_{name}{labels} {value}");
        }
    };
    let (nic, host) = ("{side=\"nic\"}", "{side=\"host\"}");
    let counters = &status.counters;
    let sides = |of_nic: u64, of_host: u64| [(nic, of_nic as f64), (host, of_host as f64)];
    metric(
        "packets_total",
        "counter",
        "Packets to each side.",
        &sides(counters.nic_packets, counters.host_packets),
    );
    metric(
        "bytes_total",
        "counter",
        "Bytes on the wire to each side.",
        &sides(counters.nic_bytes, counters.host_bytes),
    );
    metric(
        "merged_total",
        "counter",
        "Answers of the host that were rewritten.",
        &[("", counters.merged as f64)],
    );
    metric("received_bits_per_second", "gauge", "Eligible traffic.", &[("", status.received)]);
    metric(
        "threshold_bits_per_second",
        "gauge",
        "What the NIC may get.",
        &[("", status.threshold)],
    );
    let seconds = |ns: u64| ns as f64 / 1e9;
    let p99 = [(nic, seconds(status.nic.p99_ns)), (host, seconds(status.host.p99_ns))];
    metric("p99_seconds", "gauge", "99th percentile of latency; 0: too few packets.", &p99);
    metric(
        "queue_packets",
        "gauge",
        "Packets in the fullest queue.",
        &sides(status.nic.queue, status.host.queue),
    );
    metric(
        "host_awake",
        "gauge",
        "Whether the host is awake.",
        &[("", f64::from(!status.host.asleep))],
    );
    metric(
        "alive",
        "gauge",
        "Whether a side is thought alive.",
        &[
            (nic, f64::from(!matches!(status.state, State::NicDead | State::BothSilent))),
            (host, f64::from(!matches!(status.state, State::HostDead | State::BothSilent))),
        ],
    );
    metric("shadow", "gauge", "Whether nothing is diverted.", &[("", f64::from(status.shadow))]);
    metric(
        "state_changes_total",
        "counter",
        "Fail-overs and returns.",
        &[("", status.changes.len() as f64)],
    );
    metric(
        "heartbeats_refused_total",
        "counter",
        "Datagrams that were no heartbeats.",
        &[("", status.refused_beats as f64)],
    );
    if let Some(watts) = status.watts {
        metric("watts", "gauge", "Power by the profile (modelled).", &[("", watts)]);
    }
    text
}

/// A line for a terminal.
pub fn line(status: &Status) -> String {
    let counters = &status.counters;
    let all = (counters.nic_packets + counters.host_packets).max(1);
    let us = |ns: u64| if ns == 0 { "-".to_string() } else { format!("{:.0} us", ns as f64 / 1e3) };
    let mut line = format!(
        "{:>9.3} Mbit/s, threshold {:>9.3}, NIC {} (p99 {}), host {} ({:.1} %, p99 {}, {}), {}",
        status.received / 1e6,
        status.threshold / 1e6,
        counters.nic_packets,
        us(status.nic.p99_ns),
        counters.host_packets,
        100.0 * counters.host_packets as f64 / all as f64,
        us(status.host.p99_ns),
        if status.host.asleep { "asleep" } else { "awake" },
        name(status.state),
    );
    if let Some(watts) = status.watts {
        let _ = write!(line, ", {watts:.1} W (modelled)");
    }
    if status.shadow {
        line.push_str(", shadow");
    }
    line
}
