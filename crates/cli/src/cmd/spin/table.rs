//! What a simulation of handlers is shown as: a table, JSON, and a timeline.

use std::fmt::Write as _;

use nicforge_run::spin::{Simulated, throughput};
use nicforge_spin::machine::Machine;
use nicforge_spin::messages::Handler;
use nicforge_spin::nic::{Fault, Record, Times};
use serde_json::{Value, json};

/// Least, middle and most of some cycles.
struct Spread {
    least: u64,
    median: u64,
    most: u64,
    mean: f64,
}

fn spread(mut values: Vec<u64>) -> Option<Spread> {
    values.sort_unstable();
    let (least, most) = (*values.first()?, *values.last()?);
    let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
    Some(Spread { least, median: values[values.len() / 2], most, mean })
}

/// A stage's name, and its cycles of a packet.
type Stage = (&'static str, fn(&Times) -> u64);

/// Stages of a packet before its first handler.
const STAGES: [Stage; 3] = [
    ("NIC to task", |times| times.described.saturating_sub(times.written)),
    ("task to copy", |times| times.copied.saturating_sub(times.described)),
    ("copy to handler", |times| times.started.saturating_sub(times.copied)),
];

fn name_of(handler: Handler) -> &'static str {
    match handler {
        Handler::Header => "header",
        Handler::Payload => "packet",
        Handler::Completion => "tail",
    }
}

fn of_kind(simulated: &Simulated, handler: Handler) -> Vec<&Record> {
    simulated.handlers.iter().filter(|record| record.handler == handler).collect()
}

const KINDS: [Handler; 3] = [Handler::Header, Handler::Payload, Handler::Completion];

/// Cycles of a handler: from its start to its doorbell.
fn cycles(record: &Record) -> u64 {
    record.times.ended.saturating_sub(record.times.started)
}

fn feedback_rate(simulated: &Simulated, machine: &Machine) -> Option<f64> {
    throughput(
        simulated.freed.iter().map(|freed| (freed.times.feedback, u64::from(freed.bytes))),
        machine.cycle_ns(),
    )
}

fn sent_rate(simulated: &Simulated, machine: &Machine) -> Option<f64> {
    throughput(
        simulated.sent.iter().map(|(time, frame)| (*time, frame.len() as u64)),
        machine.cycle_ns(),
    )
}

fn latencies(simulated: &Simulated) -> Vec<u64> {
    simulated
        .freed
        .iter()
        .map(|freed| freed.times.feedback.saturating_sub(freed.times.arrived))
        .collect()
}

fn gbit(rate: Option<f64>) -> String {
    rate.map_or_else(String::new, |rate| format!(", {:.1} Gbit/s", rate / 1e9))
}

/// Faults by what is wrong where, each group with the first in front.
fn grouped(faults: &[Fault]) -> Vec<Vec<&Fault>> {
    let mut groups: Vec<Vec<&Fault>> = Vec::new();
    for fault in faults {
        match groups.iter_mut().find(|group| group[0].is_like(fault)) {
            Some(group) => group.push(fault),
            None => groups.push(vec![fault]),
        }
    }
    groups
}

/// The table.
pub fn text(
    simulated: &Simulated,
    machine: &Machine,
    name: &str,
    what: &str,
    timed: bool,
) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_text(&mut text, simulated, machine, name, what, timed);
    if timed {
        let _ = write_cycles(&mut text, simulated, machine);
    }
    text
}

fn write_text(
    out: &mut String,
    simulated: &Simulated,
    machine: &Machine,
    name: &str,
    what: &str,
    timed: bool,
) -> std::fmt::Result {
    let stats = &simulated.stats;
    for (hpu, line) in &simulated.printed {
        writeln!(out, "[{}.{}] {line}", hpu / machine.cores, hpu % machine.cores)?;
    }
    for group in grouped(&simulated.faults) {
        let first = group[0];
        let unit = format!("{}.{}", first.hpu / machine.cores, first.hpu % machine.cores);
        writeln!(out, "{}: {}", first.place(), first.cause)?;
        writeln!(
            out,
            "    {} time{}: {}, first in cycle {} on unit {unit}, message {:#x}, pc {:#010x}",
            group.len(),
            if group.len() == 1 { "" } else { "s" },
            first.handler.name(),
            first.time,
            first.message,
            first.pc
        )?;
    }
    writeln!(
        out,
        "{name} on {}: {} clusters of {} units, {} MHz ({})\n{what}\n",
        machine.name,
        machine.clusters,
        machine.cores,
        machine.hertz / 1e6,
        if timed {
            "cycle-approximate"
        } else {
            "functional: handlers run on this computer, without cycles"
        }
    )?;
    let gbit = |rate: Option<f64>| gbit(rate.filter(|_| timed));
    let bytes: u64 = simulated.freed.iter().map(|freed| u64::from(freed.bytes)).sum();
    let rate = gbit(feedback_rate(simulated, machine));
    writeln!(out, "handled     {:8} packets, {bytes} bytes{rate}", simulated.freed.len())?;
    let bytes: usize = simulated.sent.iter().map(|(_, frame)| frame.len()).sum();
    let rate = gbit(sent_rate(simulated, machine));
    writeln!(out, "sent        {:8} packets, {bytes} bytes{rate}", simulated.sent.len())?;
    writeln!(
        out,
        "host        {:8} packets not for handlers, {} bytes written, {} read",
        simulated.to_host, stats.host_written_bytes, stats.host_read_bytes
    )?;
    writeln!(
        out,
        "dropped     {:8} packets, {} messages given up",
        simulated.dropped.len(),
        simulated.abandoned
    )?;
    let failed: u64 = stats.faults.iter().sum();
    writeln!(out, "handlers    {:8} of {} failed", failed, stats.handlers)?;
    writeln!(
        out,
        "commands    {:8}, {} refused, {} waits of units for their own",
        stats.commands, stats.commands_refused, stats.stalls
    )
}

/// Writes what took how long, and where.
fn write_cycles(out: &mut String, simulated: &Simulated, machine: &Machine) -> std::fmt::Result {
    let stats = &simulated.stats;
    if let Some(overlap) = simulated.overlap() {
        writeln!(
            out,
            "overlap     {:7.1}% of the host's time is for its own work",
            100.0 * overlap
        )?;
    }

    writeln!(out, "\n{:18}{:>8}{:>8}{:>8}{:>10}", "cycles", "least", "median", "most", "mean")?;
    let mut row = |label: &str, values: Vec<u64>| match spread(values) {
        Some(s) => {
            writeln!(out, "{label:18}{:>8}{:>8}{:>8}{:>10.1}", s.least, s.median, s.most, s.mean)
        }
        None => Ok(()),
    };
    for (label, stage) in STAGES {
        row(label, simulated.freed.iter().map(|freed| stage(&freed.times)).collect())?;
    }
    for kind in KINDS {
        let label = format!("{} handler", name_of(kind));
        row(&label, of_kind(simulated, kind).into_iter().map(cycles).collect())?;
    }
    row("NIC to feedback", latencies(simulated))?;
    for kind in KINDS {
        let label = format!("{} instrs.", name_of(kind));
        row(&label, of_kind(simulated, kind).iter().map(|record| record.instructions).collect())?;
    }

    if !simulated.counters.is_empty() {
        writeln!(out, "\n{:<8}{:>10}{:>12}{:>10}", "counter", "times", "sum", "mean")?;
        for (at, count, sum) in &simulated.counters {
            writeln!(
                out,
                "{at:<8}{count:>10}{sum:>12}{:>10.1}",
                f64::from(*sum) / f64::from(*count)
            )?;
        }
    }

    writeln!(out, "\n{:<8}{:>10}{:>12}{:>8}", "unit", "handlers", "cycles", "busy")?;
    for (hpu, busy) in stats.busy.iter().enumerate().filter(|(_, busy)| **busy > 0) {
        let ran = simulated.handlers.iter().filter(|record| record.hpu == hpu).count();
        let share = 100.0 * *busy as f64 / simulated.cycles.max(1) as f64;
        let unit = format!("{}.{}", hpu / machine.cores, hpu % machine.cores);
        writeln!(out, "{unit:<8}{ran:>10}{busy:>12}{share:>7.1}%")?;
    }
    Ok(())
}

/// Results with every handler as JSON. Without times there are no cycles in it.
pub fn json(simulated: &Simulated, machine: &Machine, timed: bool) -> Value {
    let mut value = all(simulated, machine);
    if let (false, Some(members)) = (timed, value.as_object_mut()) {
        const TIMES: [&str; 9] = [
            "cycles",
            "feedback_bps",
            "sent_bps",
            "stages",
            "latency",
            "header",
            "packet",
            "tail",
            "busy",
        ];
        TIMES.iter().for_each(|name| drop(members.remove(*name)));
        members.insert("speed".to_string(), json!("functional"));
        let handlers = members.get_mut("handlers").and_then(Value::as_array_mut);
        for handler in handlers.into_iter().flatten().filter_map(Value::as_object_mut) {
            ["start", "cycles", "instructions"].iter().for_each(|name| drop(handler.remove(*name)));
        }
    }
    value
}

fn all(simulated: &Simulated, machine: &Machine) -> Value {
    let summary = |values: Vec<u64>| {
        spread(values)
            .map(|s| json!({ "min": s.least, "median": s.median, "max": s.most, "mean": s.mean }))
    };
    let stages = |stage: fn(&Times) -> u64| {
        summary(simulated.freed.iter().map(|freed| stage(&freed.times)).collect())
    };
    let stats = &simulated.stats;
    let of = |kind| summary(of_kind(simulated, kind).into_iter().map(cycles).collect());
    json!({
        "machine": machine.name,
        "speed": "modelled",
        "cycles": simulated.cycles,
        "cycle_ns": machine.cycle_ns(),
        "packets": stats.frames,
        "handled": simulated.freed.len(),
        "sent": simulated.sent.len(),
        "to_host": simulated.to_host,
        "dropped": simulated.dropped.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "abandoned": simulated.abandoned,
        "feedback_bps": feedback_rate(simulated, machine),
        "sent_bps": sent_rate(simulated, machine),
        "host_written_bytes": stats.host_written_bytes,
        "host_read_bytes": stats.host_read_bytes,
        "commands": stats.commands,
        "commands_refused": stats.commands_refused,
        "stages": {
            "nic_to_task": stages(STAGES[0].1),
            "task_to_copy": stages(STAGES[1].1),
            "copy_to_handler": stages(STAGES[2].1),
        },
        "overlap": simulated.overlap(),
        "latency": summary(latencies(simulated)),
        "header": of(Handler::Header),
        "packet": of(Handler::Payload),
        "tail": of(Handler::Completion),
        "handlers": simulated.handlers.iter().map(|record| json!({
            "handler": name_of(record.handler),
            "message": record.message,
            "packet": record.user,
            "unit": record.hpu,
            "start": record.times.started,
            "cycles": cycles(record),
            "instructions": record.instructions,
            "failed": record.failed,
        })).collect::<Vec<_>>(),
        "counters": simulated.counters.iter().map(|(at, count, sum)| json!({
            "counter": at, "count": count, "sum": sum,
        })).collect::<Vec<_>>(),
        "busy": stats.busy,
        "faults": simulated.faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "mistakes": grouped(&simulated.faults).iter().map(|group| json!({
            "line": group[0].line,
            "symbol": group[0].symbol,
            "handler": name_of(group[0].handler),
            "cause": group[0].cause.to_string(),
            "times": group.len(),
        })).collect::<Vec<_>>(),
        "output": simulated.printed.iter().map(|(unit, text)| json!({ "unit": unit, "text": text })).collect::<Vec<_>>(),
    })
}

/// Handlers and packets over time, in the format of Chrome's trace viewer; times in microseconds.
pub fn timeline(simulated: &Simulated, machine: &Machine) -> Value {
    let us = |cycles: u64| cycles as f64 * machine.cycle_ns() / 1000.0;
    let mut events = Vec::new();
    for hpu in 0..machine.hpus() {
        let (cluster, core) = (hpu / machine.cores, hpu % machine.cores);
        if core == 0 {
            let name = format!("cluster {cluster}");
            events.push(
                json!({ "ph": "M", "name": "process_name", "pid": cluster + 1, "args": { "name": name } }),
            );
        }
        let name = format!("unit {cluster}.{core}");
        events.push(
            json!({ "ph": "M", "name": "thread_name", "pid": cluster + 1, "tid": core, "args": { "name": name } }),
        );
    }
    events.push(
        json!({ "ph": "M", "name": "process_name", "pid": 0, "args": { "name": "packets" } }),
    );
    for record in &simulated.handlers {
        events.push(json!({
            "ph": "X", "name": name_of(record.handler),
            "pid": record.hpu / machine.cores + 1, "tid": record.hpu % machine.cores,
            "ts": us(record.times.started), "dur": us(cycles(record)),
            "args": { "message": record.message, "packet": record.user, "instructions": record.instructions },
        }));
    }
    for freed in &simulated.freed {
        let latency = freed.times.feedback.saturating_sub(freed.times.arrived);
        events.push(json!({
            "ph": "X", "name": format!("packet {}", freed.user), "pid": 0, "tid": freed.user,
            "ts": us(freed.times.arrived), "dur": us(latency), "args": { "bytes": freed.bytes },
        }));
    }
    json!({ "traceEvents": events, "displayTimeUnit": "ns" })
}
