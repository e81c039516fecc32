//! What a run reports, for people, as JSON and as Prometheus text.

use nicforge_ir::{Output, Program, TableBackend};
use serde_json::{Value, json};

use crate::cmd::compare::Agreement;
use crate::context::Failure;
use crate::text;

/// Counts and measurements of a run.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub target: &'static str,
    /// How the program was run, in a few words.
    pub setting: String,
    pub packets_in: u64,
    pub messages_in: u64,
    pub sent: Vec<u64>,
    pub stack: u64,
    pub host_packets: u64,
    pub host_messages: u64,
    pub dma_writes: u64,
    pub logs: u64,
    pub drops: Vec<(String, u64)>,
    pub refused: Vec<(String, u64)>,
    pub tables: Vec<TableSize>,
    /// Seconds and packets per second of the whole run; sockets feed it, so it is no measure of the program.
    pub seconds: Option<f64>,
    /// Cost of one packet in the kernel, harness subtracted: mean over the sampled packets, and the most expensive.
    pub cost: Option<Cost>,
    pub agreement: Option<Agreement>,
    pub stopped: bool,
}

/// Nanoseconds per packet by the kernel's test run.
#[derive(Clone, Debug)]
pub struct Cost {
    pub mean_ns: f64,
    pub worst_ns: f64,
    pub harness_ns: f64,
    pub packets: usize,
}

/// How full a table is.
#[derive(Clone, Debug)]
pub struct TableSize {
    pub name: String,
    pub kind: &'static str,
    pub entries: usize,
    pub capacity: u32,
}

impl Summary {
    /// An empty summary for a program's ports.
    pub fn new(target: &'static str, setting: String, program: &Program) -> Summary {
        Summary { target, setting, sent: vec![0; program.ports as usize], ..Summary::default() }
    }

    /// Adds one output event.
    pub fn count(&mut self, program: &Program, output: &Output) {
        match output {
            Output::Send { port, .. } => {
                let at = *port as usize;
                if self.sent.len() <= at {
                    self.sent.resize(at + 1, 0);
                }
                self.sent[at] += 1;
            }
            Output::Stack { .. } => self.stack += 1,
            Output::HostPacket { .. } => self.host_packets += 1,
            Output::HostMessage { .. } => self.host_messages += 1,
            Output::DmaWrite { .. } => self.dma_writes += 1,
            Output::Log { .. } => self.logs += 1,
            Output::Drop { reason } => {
                let text = &program.reasons[*reason].text;
                match self.drops.iter_mut().find(|(known, _)| known == text) {
                    Some((_, n)) => *n += 1,
                    None => self.drops.push((text.clone(), 1)),
                }
            }
        }
    }

    /// Reads how full the tables are.
    pub fn read_tables(&mut self, program: &Program, backend: &dyn TableBackend) -> Result<(), Failure> {
        self.tables.clear();
        for (id, table) in &program.tables {
            let entries = backend.dump(id).map_err(|e| Failure::environment(e.to_string()))?.len();
            self.tables.push(TableSize {
                name: table.name.clone(),
                kind: table.kind.name(),
                entries,
                capacity: table.capacity,
            });
        }
        Ok(())
    }

    /// The report for people.
    pub fn print(&self, program: &Program) {
        println!("{} on {} ({})\n", program.name, self.target, self.setting);
        let mut rows: Vec<(String, u64, String)> =
            vec![("packets in".into(), self.packets_in, String::new())];
        if self.messages_in > 0 {
            rows.push(("messages from the host".into(), self.messages_in, String::new()));
        }
        let ports: Vec<String> = self
            .sent
            .iter()
            .enumerate()
            .filter(|(_, n)| **n > 0)
            .map(|(p, n)| format!("port {p}: {n}"))
            .collect();
        rows.push(("sent".into(), self.sent.iter().sum(), ports.join(", ")));
        rows.push(("to the operating system".into(), self.stack, String::new()));
        for (name, n) in [
            ("packets to the host side", self.host_packets),
            ("messages to the host side", self.host_messages),
            ("DMA writes", self.dma_writes),
            ("log lines", self.logs),
        ] {
            if n > 0 {
                rows.push((name.into(), n, String::new()));
            }
        }
        rows.push(("dropped".into(), self.drops.iter().map(|d| d.1).sum(), String::new()));
        rows.extend(
            self.drops.iter().filter(|d| d.1 > 0).map(|(text, n)| (format!("  {text}"), *n, String::new())),
        );
        let width = rows.iter().map(|row| row.0.chars().count()).max().unwrap_or(0);
        for (name, n, more) in rows {
            println!("{}", format!("  {name:<width$}{n:>10}  {more}").trim_end());
        }
        if !self.tables.is_empty() {
            let row = |t: &TableSize| {
                let refused = self.refused.iter().find(|(name, _)| *name == t.name).map_or(0, |r| r.1);
                let refused = if refused > 0 { refused.to_string() } else { String::new() };
                vec![
                    t.name.clone(),
                    t.kind.to_string(),
                    t.entries.to_string(),
                    t.capacity.to_string(),
                    refused,
                ]
            };
            let rows: Vec<_> = self.tables.iter().map(row).collect();
            println!(
                "\n{}",
                text::table(&["table", "kind", "entries", "capacity", "refused"], &rows).trim_end()
            );
        }
        println!();
        if let Some(cost) = &self.cost {
            println!(
                "  cost: {:.0} ns/packet (mean of {} packets in the kernel's test run; worst {:.0} ns; {:.0} ns of harness subtracted)",
                cost.mean_ns, cost.packets, cost.worst_ns, cost.harness_ns
            );
            if cost.mean_ns > 0.0 {
                println!("  that is {}packets/s on one core", text::si(1e9 / cost.mean_ns));
            }
        }
        if let Some(seconds) = self.seconds.filter(|s| *s > 0.0) {
            println!(
                "  the capture took {seconds:.3} s: {}packets/s through the test network, sockets included",
                text::si(self.packets_in as f64 / seconds)
            );
        }
        if let Some(a) = &self.agreement {
            for difference in &a.differences {
                println!("  {difference}");
            }
            let verdict = if a.complete() { "matches the reference" } else { "DIFFERS from the reference" };
            println!(
                "  {verdict}: {} of {} events, {} of {} tables",
                a.matching, a.events, a.matching_tables, a.tables
            );
        }
        if self.stopped {
            println!("  stopped early");
        }
    }

    /// The same as JSON.
    pub fn json(&self, program: &Program) -> Value {
        let list = |items: &[(String, u64)]| -> Value {
            items.iter().map(|(k, v)| (k.clone(), json!(v))).collect::<serde_json::Map<_, _>>().into()
        };
        json!({
            "schema": "nicforge/run", "version": 1,
            "program": program.name, "target": self.target,
            "packets_in": self.packets_in, "messages_in": self.messages_in,
            "sent": self.sent, "stack": self.stack, "host_packets": self.host_packets,
            "host_messages": self.host_messages, "dma_writes": self.dma_writes, "logs": self.logs,
            "dropped": self.drops.iter().map(|d| d.1).sum::<u64>(),
            "drops": list(&self.drops), "refused": list(&self.refused),
            "tables": self.tables.iter().map(|t| json!({
                "table": t.name, "kind": t.kind, "entries": t.entries, "capacity": t.capacity,
            })).collect::<Vec<_>>(),
            "seconds": self.seconds,
            "cost": self.cost.as_ref().map(|c| json!({
                "mean_ns": c.mean_ns, "worst_ns": c.worst_ns, "harness_ns": c.harness_ns, "packets": c.packets,
            })),
            "reference": self.agreement.as_ref().map(|a| json!({
                "ok": a.complete(), "events": a.events, "matching": a.matching, "tables": a.tables,
                "matching_tables": a.matching_tables, "differences": a.differences,
            })),
            "stopped": self.stopped,
        })
    }

    /// Counters in the Prometheus text format.
    pub fn prometheus(&self, program: &Program) -> String {
        let mut out = String::new();
        let label = |s: &str| s.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " ");
        let name = label(&program.name);
        let mut metric = |metric: &str, kind: &str, help: &str, lines: &[(String, f64)]| {
            out.push_str(&format!("# HELP nicforge_{metric} {help}\n# TYPE nicforge_{metric} {kind}\n"));
            for (labels, value) in lines {
                out.push_str(&format!("nicforge_{metric}{{program=\"{name}\"{labels}}} {value}\n"));
            }
        };
        metric(
            "packets_in_total",
            "counter",
            "Packets that came in.",
            &[(String::new(), self.packets_in as f64)],
        );
        let sent: Vec<_> =
            self.sent.iter().enumerate().map(|(p, n)| (format!(",port=\"{p}\""), *n as f64)).collect();
        metric("packets_sent_total", "counter", "Packets sent, by port.", &sent);
        metric(
            "packets_stack_total",
            "counter",
            "Packets to the operating system.",
            &[(String::new(), self.stack as f64)],
        );
        let host = [("packet", self.host_packets), ("message", self.host_messages), ("dma", self.dma_writes)];
        let host: Vec<_> = host.iter().map(|(k, n)| (format!(",kind=\"{k}\""), *n as f64)).collect();
        metric("host_events_total", "counter", "Events for the host side, by kind.", &host);
        let drops: Vec<_> =
            self.drops.iter().map(|(text, n)| (format!(",reason=\"{}\"", label(text)), *n as f64)).collect();
        metric("packets_dropped_total", "counter", "Packets dropped, by reason.", &drops);
        let refused: Vec<_> =
            self.refused.iter().map(|(t, n)| (format!(",table=\"{}\"", label(t)), *n as f64)).collect();
        metric("table_refused_total", "counter", "Inserts that full tables refused.", &refused);
        let sizes: Vec<_> = self
            .tables
            .iter()
            .map(|t| (format!(",table=\"{}\"", label(&t.name)), t.entries as f64))
            .collect();
        metric("table_entries", "gauge", "Entries in each table.", &sizes);
        out
    }

    /// Prints in the form that was asked for.
    pub fn show(&self, program: &Program, as_json: bool, metrics: bool) {
        if metrics {
            print!("{}", self.prometheus(program));
        } else if as_json {
            println!("{:#}", self.json(program));
        } else {
            self.print(program);
        }
    }
}
