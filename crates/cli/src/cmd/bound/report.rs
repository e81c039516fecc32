//! The result for people and for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nicforge_bound::analysis::{PathReport, Record, Report, cycles};
use nicforge_bound::graph::Graph;
use nicforge_bound::search::{By, Machine};
use nicforge_bound::witness;
use serde_json::{Value, json};

use super::load::Subject;
use super::measure::Measured;
use super::need::Needed;
use super::rate;
use super::row::Row;
use crate::args::{Bound, RequiredRate};
use crate::text::{si, table};

/// Everything a report needs.
pub struct View<'a> {
    pub args: &'a Bound,
    pub subject: &'a Subject,
    pub report: &'a Report,
    pub measured: Option<Measured>,
    pub needed: Option<Needed>,
    pub row: Option<Row>,
}

/// The first line: what is bounded, on what.
pub fn heading(args: &Bound, subject: &Subject) -> String {
    let cores = machine(args, subject).cores;
    format!(
        "{} on {} ({cores} core{}; {})\n",
        args.file.display(),
        subject.target,
        if cores == 1.0 { "" } else { "s" },
        subject.label
    )
}

fn machine(args: &Bound, subject: &Subject) -> Machine {
    let cores = args.cores.map_or(subject.machine.cores, f64::from);
    Machine { cores, ..subject.machine }
}

/// A record as rates: packets and bits a second, and what limits them.
struct Rates {
    pps: f64,
    bps: f64,
    limit: &'static str,
}

/// An order as files and JSON call it.
pub fn name(by: By) -> &'static str {
    match by {
        By::PacketRate => "packet-rate",
        By::BitRate => "bit-rate",
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Cycles of each line on a path, dearest first.
fn hot_spots(graph: &Graph, path: &PathReport) -> Vec<(String, u64)> {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for place in &path.witness.places {
        *lines.entry(graph.describe(*place)).or_default() += 1;
    }
    let mut list: Vec<(String, u64)> = lines.into_iter().collect();
    list.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    list
}

impl View<'_> {
    fn machine(&self) -> Machine {
        machine(self.args, self.subject)
    }

    fn rates(&self, record: &Record) -> Rates {
        let machine = self.machine();
        match record.slowest.as_ref().filter(|_| record.exact) {
            Some(path) => {
                let (pps, limit) = rate(&machine, path, self.subject.engine);
                Rates { pps, bps: 8.0 * pps * path.size as f64, limit }
            }
            // Only the bound holds: for bits by its own order, for packets by the smallest packet.
            None => match record.by {
                By::BitRate => {
                    let bps = 8.0 / record.bound;
                    Rates { pps: bps / (8.0 * self.args.mtu as f64), bps, limit: "not determined" }
                }
                By::PacketRate => {
                    let pps = 1.0 / record.bound;
                    Rates { pps, bps: 8.0 * 60.0 * pps, limit: "not determined" }
                }
            },
        }
    }

    /// True if a rate is exact, and not only its path.
    fn exact(&self, record: &Record) -> bool {
        record.exact && !self.subject.timers
    }

    fn status(&self, record: &Record) -> &'static str {
        if self.exact(record) { "exact" } else { "lower_bound" }
    }

    fn naive_bps(record: &Record) -> f64 {
        match record.by {
            By::BitRate => 8.0 / record.naive,
            By::PacketRate => 8.0 * 60.0 / record.naive,
        }
    }

    fn path_json(&self, path: &PathReport) -> Value {
        let graph = &self.report.graph;
        let blocks = path.witness.visits.iter().map(|visit| {
            let line = visit.first.map(|place| graph.describe(place));
            json!({ "block": visit.block, "first_instruction": visit.first, "line": line, "taken": visit.taken })
        });
        Value::Array(blocks.collect())
    }

    fn witness_json(&self, path: &PathReport) -> Value {
        let reads = path.witness.reads.iter().map(|read| {
            let region = &self.report.graph.regions[read.region as usize];
            json!({ "table": region.name, "offset": read.address - region.base, "bytes": hex(&read.bytes) })
        });
        json!({
            "packet": hex(&path.witness.packet),
            "mask": hex(&path.witness.mask),
            "tables": reads.collect::<Vec<_>>(),
        })
    }

    fn record_json(&self, record: &Record) -> Value {
        let rates = self.rates(record);
        let mut value = json!({
            "by": name(record.by),
            "status": self.status(record),
            "packet_rate_pps": rates.pps,
            "bit_rate_bps": rates.bps,
            "naive_bit_rate_bps": Self::naive_bps(record),
            "limit": rates.limit,
            "cycles": Value::Null,
            "instructions": Value::Null,
            "resources": Value::Null,
            "min_packet_bytes": Value::Null,
            "path": Value::Null,
            "witness": Value::Null,
            "seconds": record.seconds,
        });
        if let Some(path) = &record.slowest {
            let (core, engine) = cycles(path.witness.work);
            let total = core + self.machine().base_cycles;
            value["cycles"] = json!(total);
            value["instructions"] = json!(self.subject.executed(&path.witness));
            value["resources"] =
                json!({ "processing": total, self.subject.engine.to_lowercase(): engine });
            value["min_packet_bytes"] = json!(path.size);
            value["path"] = self.path_json(path);
            value["witness"] = self.witness_json(path);
        }
        value
    }

    /// The result as JSON: the first record at top level, all of them under `records`.
    pub fn json(&self) -> Value {
        let mut value = json!({ "schema": "nicforge/bound", "version": 1, "target": self.subject.target, "basis": self.subject.label });
        if let (Value::Object(all), Value::Object(first)) =
            (&mut value, self.record_json(&self.report.records[0]))
        {
            all.extend(first);
        }
        let records: serde_json::Map<String, Value> = self
            .report
            .records
            .iter()
            .map(|record| (name(record.by).to_string(), self.record_json(record)))
            .collect();
        value["records"] = Value::Object(records);
        if let Some((_, lowered)) = &self.subject.air {
            let places = lowered.unknown.iter();
            let places = places.map(
                |(place, what)| json!({ "line": self.report.graph.describe(*place), "what": what }),
            );
            value["unknown"] = Value::Array(places.collect());
        }
        if self.subject.handler.is_some() {
            let notes = self.report.notes.iter();
            let notes = notes.map(
                |(place, what)| json!({ "line": self.report.graph.describe(*place), "what": what }),
            );
            value["unknown"] = Value::Array(notes.collect());
        }
        value["presumed"] = json!(self.subject.presumed);
        value["margin"] = json!(self.subject.margin);
        value["cut_by_unroll"] = json!(self.report.cut);
        value["paths_checked"] = json!(self.report.paths_checked);
        value["solver_calls"] = json!(self.report.solver_calls);
        value["seconds"] = json!(self.report.seconds);
        let list = |paths: &[PathReport]| {
            let one = |path: &PathReport| {
                let (pps, limit) = rate(&self.machine(), path, self.subject.engine);
                let (core, engine) = cycles(path.witness.work);
                json!({
                    "packet_rate_pps": pps,
                    "bit_rate_bps": 8.0 * pps * path.size as f64,
                    "limit": limit,
                    "cycles": core + self.machine().base_cycles,
                    "dram_cycles": engine,
                    "instructions": self.subject.executed(&path.witness),
                    "min_packet_bytes": path.size,
                    "witness": self.witness_json(path),
                })
            };
            Value::Array(paths.iter().map(one).collect())
        };
        value["gave_up"] = json!(self.report.gave_up.as_ref().map(ToString::to_string));
        if let Some(needed) = &self.needed {
            let [cores, shared, ports] = needed.nics;
            value["needed"] = json!({
                "cores": needed.cores,
                "nics": needed.whole(),
                "nics_for_cores": cores,
                "nics_for_shared": shared,
                "nics_for_ports": ports,
                "exact": needed.exact,
            });
        }
        if let Some(row) = &self.row {
            value["in_a_row"] = row.json();
        }
        if let Some(measured) = &self.measured {
            value["measured"] = measured.json();
        }
        if !self.report.top.is_empty() {
            value["top"] = list(&self.report.top);
        }
        if let Some((paths, whole)) = &self.report.all {
            value["all"] = list(paths);
            value["all_complete"] = json!(whole);
        }
        if let Some(path) = &self.report.records[0].slowest {
            let spots = hot_spots(&self.report.graph, path);
            let total: u64 = spots.iter().map(|(_, count)| count).sum();
            let spots = spots.iter().take(10).map(
                |(line, count)| json!({ "line": line, "share": *count as f64 / total as f64 }),
            );
            value["hot_spots"] = Value::Array(spots.collect());
        }
        value
    }

    /// The result for people, below the heading.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for record in &self.report.records {
            self.record_text(record, &mut text);
        }
        if let Some(reason) = &self.report.gave_up {
            let _ = writeln!(text, "  no better bound: {reason}");
        } else if self.args.require.is_none()
            && self.report.records.iter().any(|record| !record.exact)
        {
            text.push_str("  the time was over before more was proved (--timeout)\n");
        }
        self.needed_text(&mut text);
        if let Some(row) = &self.row {
            text.push_str(&row.text());
        }
        if let Some(margin) = self.subject.margin {
            let _ = writeln!(
                text,
                "  hardware was at most {:.0} % slower than these costs say",
                100.0 * margin
            );
        }
        if let Some((_, lowered)) =
            self.subject.air.as_ref().filter(|(_, lowered)| !lowered.unknown.is_empty())
        {
            let mut kinds: Vec<&str> = lowered.unknown.iter().map(|(_, what)| *what).collect();
            kinds.sort_unstable();
            kinds.dedup();
            let _ = writeln!(
                text,
                "  taken as unknown, so that they may be anything on the slowest path: {}",
                kinds.join(", ")
            );
        }
        for what in &self.subject.presumed {
            let _ = writeln!(text, "  presumed: {what}");
        }
        for (place, what) in self.report.notes.iter().take(8) {
            let _ = writeln!(text, "  {}: {what}", self.report.graph.describe(*place));
        }
        if self.report.notes.len() > 8 {
            let _ =
                writeln!(text, "  and {} more such places (--json)", self.report.notes.len() - 8);
        }
        if self.report.cut {
            text.push_str(
                "  loops were cut off by --unroll: this holds for packets that need no more iterations\n",
            );
        }
        if let Some(path) = &self.report.records[0].slowest {
            self.path_text(path, &mut text);
        }
        let list = if self.report.top.is_empty() {
            self.report.all.as_ref().map(|(all, _)| all)
        } else {
            Some(&self.report.top)
        };
        if let Some(paths) = list {
            text.push('\n');
            text.push_str(&self.list_text(paths));
            if self.report.all.as_ref().is_some_and(|(_, whole)| !whole) {
                text.push_str("  stopped: there are more paths\n");
            }
        }
        if let Some(measured) = &self.measured {
            let _ = writeln!(text, "\nmeasured in the kernel:");
            for (name, ns) in &measured.list {
                let _ = writeln!(text, "  {name:<16} {ns:>8.0} ns");
            }
            let _ = writeln!(
                text,
                "  the slowest takes {:.1} times the others' mean",
                measured.slowdown()
            );
            if measured.verdicts[0] == measured.verdicts[1] {
                let _ = writeln!(
                    text,
                    "  the kernel decides as its path says: {}",
                    measured.verdicts[0]
                );
            }
            if measured.entries > 0 {
                let _ =
                    writeln!(text, "  with {} table entries that its path needs", measured.entries);
            }
            if measured.more_needed {
                text.push_str(
                    "  its path also depends on what is in no table: it may have been shorter here\n",
                );
            }
        }
        let _ = writeln!(
            text,
            "\n{} paths checked, {} solver calls, {} clauses learned, {} nodes, {:.2} s",
            self.report.paths_checked,
            self.report.solver_calls,
            self.report.clauses,
            self.report.nodes,
            self.report.seconds
        );
        text
    }

    fn needed_text(&self, text: &mut String) {
        let (Some(needed), Some(rate)) = (&self.needed, self.args.need) else { return };
        let rate = match rate {
            RequiredRate::BitsPerSecond(rate) => format!("{}bit/s", si(rate)),
            RequiredRate::PacketsPerSecond(rate) => format!("{}packet/s", si(rate)),
        };
        let most = if needed.exact { "" } else { "at most " };
        let (nics, cores) = (needed.whole(), self.machine().cores);
        let _ = match nics {
            1 => writeln!(text, "  {rate} needs {most}{} of {cores} cores", needed.cores),
            _ => writeln!(
                text,
                "  {rate} needs {most}{nics} NICs: {} for {} cores, {} for {}, {} for ports",
                needed.nics[0], needed.cores, needed.nics[1], self.subject.engine, needed.nics[2]
            ),
        };
    }

    /// The first record's rate, in one line.
    pub fn headline(&self) -> String {
        let mut text = String::new();
        if let Some(record) = self.report.records.first() {
            self.record_text(record, &mut text);
        }
        let text = text.trim();
        text.split(" (without").next().unwrap_or(text).to_string()
    }

    fn record_text(&self, record: &Record, text: &mut String) {
        let rates = self.rates(record);
        let (what, value, unit) = match record.by {
            By::BitRate => ("bit rate", rates.bps, "bit/s"),
            By::PacketRate => ("packet rate", rates.pps, "packet/s"),
        };
        let relation = if self.exact(record) { "exactly" } else { "at least" };
        match self.args.path {
            Some(_) => {
                let _ = write!(text, "  this path's {what}: {}{unit}", si(value));
            }
            None => {
                let _ = write!(text, "  worst {what}: {relation} {}{unit}", si(value));
            }
        }
        if let Some(path) = record.slowest.as_ref().filter(|_| record.exact) {
            let (core, engine) = cycles(path.witness.work);
            let _ = write!(
                text,
                ", limited by {}: {} cycles",
                rates.limit,
                core + self.machine().base_cycles
            );
            if let Some(executed) = self.subject.executed(&path.witness) {
                let _ = write!(text, " for {executed} instructions");
            }
            if engine > 0.0 {
                let _ = write!(text, ", {engine:.2} of {}", self.subject.engine);
            }
            let _ = write!(text, ", packets of {} bytes", path.size);
        }
        let naive = match record.by {
            By::BitRate => 8.0 / record.naive,
            By::PacketRate => 1.0 / record.naive,
        };
        let _ = writeln!(text, " (without checking paths: {}{unit})", si(naive));
    }

    fn path_text(&self, path: &PathReport, text: &mut String) {
        let graph = &self.report.graph;
        let lines = witness::lines(graph, &path.witness.places);
        if !lines.is_empty() {
            let _ = writeln!(text, "\npath, by first visit:\n{}", wrapped(&ranges(&lines)));
        }
        let spots = hot_spots(graph, path);
        let total: u64 = spots.iter().map(|(_, count)| count).sum();
        let top: u64 = spots.iter().take(3).map(|(_, count)| count).sum();
        let _ = writeln!(
            text,
            "dearest lines ({} % of the path's instructions):",
            100 * top / total.max(1)
        );
        for (line, count) in spots.iter().take(3) {
            let _ = writeln!(text, "  {:>3} %  {line}", 100 * count / total.max(1));
        }
        let _ = writeln!(text, "packet (.. does not matter):");
        for (row, (bytes, mask)) in
            path.witness.packet.chunks(16).zip(path.witness.mask.chunks(16)).enumerate()
        {
            let byte = |(byte, mask): (&u8, &u8)| {
                if *mask == 0 { "..".to_string() } else { format!("{byte:02x}") }
            };
            let shown: Vec<String> = bytes.iter().zip(mask).map(byte).collect();
            if mask.iter().any(|mask| *mask != 0) {
                let _ = writeln!(text, "  {:04x}  {}", 16 * row, shown.join(" "));
            }
        }
        if !path.witness.reads.is_empty() {
            let _ = writeln!(text, "table reads:");
            for read in path.witness.reads.iter().take(16) {
                let region = &graph.regions[read.region as usize];
                let _ = writeln!(
                    text,
                    "  {} + {:#x}: {}",
                    region.name,
                    read.address - region.base,
                    hex(&read.bytes)
                );
            }
            if path.witness.reads.len() > 16 {
                let _ = writeln!(text, "  and {} more (--json)", path.witness.reads.len() - 16);
            }
        }
    }

    fn list_text(&self, paths: &[PathReport]) -> String {
        let row = |(number, path): (usize, &PathReport)| {
            let (pps, limit) = rate(&self.machine(), path, self.subject.engine);
            let (core, engine) = cycles(path.witness.work);
            vec![
                (number + 1).to_string(),
                format!("{}bit/s", si(8.0 * pps * path.size as f64)),
                format!("{}packet/s", si(pps)),
                format!("{}", core + self.machine().base_cycles),
                format!("{engine:.2}"),
                path.size.to_string(),
                limit.to_string(),
            ]
        };
        let rows: Vec<Vec<String>> = paths.iter().enumerate().map(row).collect();
        table(
            &["path", "bit rate", "packet rate", "cycles", self.subject.engine, "bytes", "limit"],
            &rows,
        )
    }
}

/// Neighbouring lines of one file as ranges.
fn ranges(lines: &[String]) -> Vec<String> {
    let mut result: Vec<(String, u64, u64)> = Vec::new();
    for line in lines {
        let Some((file, number)) = line.rsplit_once(':') else { continue };
        let number = number.parse().unwrap_or(0);
        match result.last_mut() {
            Some((last, _, end)) if last == file && number == *end + 1 => *end = number,
            _ => result.push((file.to_string(), number, number)),
        }
    }
    let mut before = String::new();
    let show = |(file, from, to): (String, u64, u64)| {
        let numbers = if from == to { from.to_string() } else { format!("{from}-{to}") };
        let text = if file == before { numbers } else { format!("{file}:{numbers}") };
        before = file;
        text
    };
    result.into_iter().map(show).collect()
}

fn wrapped(items: &[String]) -> String {
    let mut lines = vec![String::from(" ")];
    for item in items {
        let last = lines.last_mut();
        match last {
            Some(line) if line.len() + item.len() < 100 => {
                line.push(' ');
                line.push_str(item);
            }
            _ => lines.push(format!("  {item}")),
        }
    }
    lines.join("\n")
}
