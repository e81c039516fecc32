//! What a run reports, for people, as JSON and as Prometheus text.

use nicforge_driver::compare::Agreement;
use nicforge_driver::cost::Cost;
use nicforge_driver::{Failure, rates};
use nicforge_ir::{Output, Program, TableBackend};
use nicforge_plan::Plan;
use nicforge_run::attach::AttachCounts;
use nicforge_target::Target;
use serde_json::{Value, json};

use crate::{out, text};

/// Counts and measurements of a run.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub target: String,
    /// How the program was run, in a few words.
    pub setting: String,
    pub packets_in: u64,
    pub messages_in: u64,
    /// How often timers fired.
    pub ticks: u64,
    pub sent: Vec<u64>,
    pub stack: u64,
    /// On interfaces, instead of `sent` and `stack`: packets neither dropped nor for the host side.
    /// The kernel does not say which of the two became of them.
    pub forwarded: Option<u64>,
    /// Packets that ended in no way that is counted; 0 if all is well.
    pub unaccounted: u64,
    /// On DPDK's ports: packets lost, and how.
    pub losses: Vec<(String, u64)>,
    /// Packets came from ports that are not ours to feed.
    pub on_ports: bool,
    pub host_packets: u64,
    pub host_messages: u64,
    pub dma_writes: u64,
    /// Copies of packets that the process sent, and those that it could not.
    pub copies: (u64, u64),
    pub logs: u64,
    pub drops: Vec<(String, u64)>,
    pub refused: Vec<(String, u64)>,
    pub tables: Vec<TableSize>,
    /// Seconds and packets per second of the whole run; sockets feed it, so it is no measure of the
    /// program.
    pub seconds: Option<f64>,
    /// Cost of one packet in the kernel, harness subtracted: mean over the sampled packets, and the
    /// most expensive.
    pub cost: Option<Cost>,
    /// Nanoseconds per packet on interfaces, the kernel's counting included.
    pub busy: Option<f64>,
    /// What the plan promises: packets per second expected and guaranteed.
    pub promised: Option<Promised>,
    pub agreement: Option<Agreement>,
    pub stopped: bool,
    /// With a socket for the host side: what went through it.
    pub attached: Option<AttachCounts>,
    /// With a host side in a process: events that came to it, by name.
    pub to_host: Vec<(String, u64)>,
}

/// Promises of a plan on its target, which may be another machine than this one.
#[derive(Clone, Debug)]
pub struct Promised {
    pub expected_pps: f64,
    /// With one flow; the words say whether it is exact, and what decides it.
    pub guaranteed_pps: f64,
    pub words: String,
}

impl Promised {
    /// The promise of a plan, if a bound is found at once.
    pub fn of(plan: &Plan, source: &Program, target: &Target) -> Option<Promised> {
        let found = rates::quick(plan, source, target)?;
        Some(Promised {
            expected_pps: plan.predicted.rate_pps,
            guaranteed_pps: found.one_flow,
            words: rates::words(&found),
        })
    }
}

/// Fill of a table.
#[derive(Clone, Debug)]
pub struct TableSize {
    pub name: String,
    pub kind: &'static str,
    pub entries: usize,
    pub capacity: u32,
}

impl Summary {
    /// An empty summary for a program's ports.
    pub fn new(target: &str, setting: String, program: &Program) -> Summary {
        // All reasons in the program's order, so that every target lists them the same way.
        let drops = program.reasons.values().map(|reason| (reason.text.clone(), 0)).collect();
        let target = target.to_string();
        Summary {
            target,
            setting,
            sent: vec![0; program.ports as usize],
            drops,
            ..Summary::default()
        }
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
    pub fn read_tables(
        &mut self,
        program: &Program,
        backend: &dyn TableBackend,
    ) -> Result<(), Failure> {
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
        outln!("{} on {} ({})\n", program.name, self.target, self.setting);
        let rows = self.rows();
        let width = rows.iter().map(|row| row.0.chars().count()).max().unwrap_or(0);
        for (name, n, more) in rows {
            outln!("{}", format!("  {name:<width$}{n:>10}  {more}").trim_end());
        }
        self.print_tables();
        outln!();
        self.print_speed();
        self.print_agreement();
        if self.stopped {
            outln!("  stopped early");
        }
    }

    /// Fates of the packets: name, count, details.
    fn rows(&self) -> Vec<(String, u64, String)> {
        let row = |name: &str, n: u64| (name.to_string(), n, String::new());
        let mut rows = vec![row("packets in", self.packets_in)];
        if self.messages_in > 0 {
            rows.push(row("messages from the host", self.messages_in));
        }
        if self.ticks > 0 {
            rows.push(row("ticks of timers", self.ticks));
        }
        match self.forwarded {
            Some(n) => rows.push(row("sent, or to the operating system", n)),
            None => {
                let ports = self.sent.iter().enumerate().filter(|(_, n)| **n > 0);
                let ports: Vec<String> = ports.map(|(p, n)| format!("port {p}: {n}")).collect();
                rows.push(("sent".to_string(), self.sent.iter().sum(), ports.join(", ")));
                rows.push(row("to the operating system", self.stack));
            }
        }
        let host = [
            row("packets to the host side", self.host_packets),
            row("messages to the host side", self.host_messages),
            row("DMA writes", self.dma_writes),
            row("copies sent by the process", self.copies.0),
            row("copies that no interface took", self.copies.1),
            row("log lines", self.logs),
        ];
        rows.extend(host.into_iter().filter(|row| row.1 > 0));
        if let Some(counts) = self.attached {
            let programs = format!("{} attached", counts.attached);
            rows.push(("given at the host socket".to_string(), counts.given, programs));
            rows.push(row("taken there", counts.taken));
            let bad = [
                row("  lost, its queue was full", counts.lost),
                row("  of a wrong size", counts.wrong),
            ];
            rows.extend(bad.into_iter().filter(|row| row.1 > 0));
        }
        rows.push(row("dropped", self.drops.iter().map(|d| d.1).sum()));
        rows.extend(
            self.drops.iter().filter(|d| d.1 > 0).map(|(text, n)| row(&format!("  {text}"), *n)),
        );
        if self.unaccounted > 0 {
            let why = "sent by a port the program does not have, or the host side's ring was full";
            rows.push(("lost".to_string(), self.unaccounted, why.to_string()));
        }
        if !self.losses.is_empty() {
            rows.push(row("lost", self.losses.iter().map(|loss| loss.1).sum()));
            rows.extend(self.losses.iter().map(|(why, n)| row(&format!("  {why}"), *n)));
        }
        rows
    }

    fn print_tables(&self) {
        if self.tables.is_empty() {
            return;
        }
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
        let text = text::table(&["table", "kind", "entries", "capacity", "refused"], &rows);
        outln!("\n{}", text.trim_end());
    }

    fn print_speed(&self) {
        if let Some(cost) = &self.cost {
            outln!(
                "  cost: {:.0} ns/packet (mean of {} packets in the kernel's test run; {:.0} ns \
                 of harness subtracted)",
                cost.mean_ns,
                cost.packets,
                cost.harness_ns
            );
            // The kernel's clock has whole nanoseconds and the harness varies by some of them.
            if cost.mean_ns < 10.0 {
                outln!("  that is less than this way of measuring can tell");
            } else {
                outln!("  that is {}packets/s on one core", text::si(1e9 / cost.mean_ns));
            }
        }
        if let Some((most, exact)) = self.cost.as_ref().and_then(|cost| cost.most_instructions) {
            let exact = if exact { "; some packet takes so many" } else { "" };
            outln!(
                "  guaranteed: no packet takes more than {most} instructions, helper calls one each{exact}"
            );
        }
        if let Some(promised) = &self.promised {
            outln!(
                "  expected: {:.2} Mpps by the plan; {}",
                promised.expected_pps / 1e6,
                promised.words
            );
        }
        let Some(seconds) = self.seconds.filter(|s| *s > 0.0) else { return };
        let rate = text::si(self.packets_in as f64 / seconds);
        match self.forwarded {
            Some(_) => {
                let busy = self.busy.map(|ns| format!(", {ns:.0} ns each")).unwrap_or_default();
                outln!("  {seconds:.1} s: {rate}packets/s{busy}");
            }
            None if self.on_ports => outln!("  {seconds:.1} s: {rate}packets/s"),
            None => outln!(
                "  the capture took {seconds:.3} s: {rate}packets/s through the test network, sockets included"
            ),
        }
    }

    fn print_agreement(&self) {
        let Some(a) = &self.agreement else { return };
        for difference in &a.differences {
            outln!("  {difference}");
        }
        if let Some(text) = a.left_out() {
            outln!("  {text}");
        }
        outln!("  {}", a.verdict());
    }

    /// Counts as JSON.
    pub fn json(&self, program: &Program) -> Value {
        let list = |items: &[(String, u64)]| -> Value {
            items
                .iter()
                .map(|(k, v)| (k.clone(), json!(v)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        json!({
            "schema": "nicforge/run", "version": 1,
            "program": program.name, "target": self.target,
            "packets_in": self.packets_in, "messages_in": self.messages_in, "ticks": self.ticks,
            "sent": self.forwarded.is_none().then_some(&self.sent),
            "stack": self.forwarded.is_none().then_some(self.stack),
            "forwarded": self.forwarded, "unaccounted": self.unaccounted, "host_packets": self.host_packets,
            "host_messages": self.host_messages, "dma_writes": self.dma_writes,
            "copies": self.copies.0, "copies_lost": self.copies.1, "logs": self.logs,
            "dropped": self.drops.iter().map(|d| d.1).sum::<u64>(),
            "losses": list(&self.losses),
            "drops": list(&self.drops), "refused": list(&self.refused),
            "tables": self.tables.iter().map(|t| json!({
                "table": t.name, "kind": t.kind, "entries": t.entries, "capacity": t.capacity,
            })).collect::<Vec<_>>(),
            "seconds": self.seconds,
            "cost": self.cost.as_ref().map(|c| json!({
                "mean_ns": c.mean_ns, "harness_ns": c.harness_ns, "packets": c.packets,
                "most_instructions": c.most_instructions.map(|most| most.0),
                "most_instructions_exact": c.most_instructions.map(|most| most.1),
            })),
            "expected_pps": self.promised.as_ref().map(|promised| promised.expected_pps),
            "guaranteed_pps": self.promised.as_ref().map(|promised| promised.guaranteed_pps),
            "reference": self.agreement.as_ref().map(|a| json!({
                "ok": a.complete(), "events": a.events, "matching": a.matching, "tables": a.tables,
                "matching_tables": a.matching_tables, "given_up": a.given_up,
                "differences": a.differences,
            })),
            "stopped": self.stopped,
            "to_host": self.to_host.iter().cloned().collect::<std::collections::BTreeMap<String, u64>>(),
            "attached": self.attached.map(|counts| json!({
                "programs": counts.attached, "given": counts.given, "taken": counts.taken, "lost": counts.lost,
                "wrong": counts.wrong,
            })),
        })
    }

    /// Counters in the Prometheus text format.
    pub fn prometheus(&self, program: &Program) -> String {
        let mut text = Prometheus { program: label(&program.name), text: String::new() };
        let by = |key: &str, list: &[(String, u64)]| -> Vec<(String, u64)> {
            list.iter().map(|(name, n)| (format!(",{key}=\"{}\"", label(name)), *n)).collect()
        };
        let one = |n: u64| vec![(String::new(), n)];
        text.metric("packets_in_total", "counter", "Packets that came in.", &one(self.packets_in));
        match self.forwarded {
            Some(n) => {
                let help = "Packets sent or given to the operating system.";
                text.metric("packets_forwarded_total", "counter", help, &one(n));
            }
            None => {
                let sent: Vec<_> =
                    (0..).zip(&self.sent).map(|(p, n): (u32, _)| (p.to_string(), *n)).collect();
                text.metric(
                    "packets_sent_total",
                    "counter",
                    "Packets sent, by port.",
                    &by("port", &sent),
                );
                let help = "Packets to the operating system.";
                text.metric("packets_stack_total", "counter", help, &one(self.stack));
            }
        }
        let host = [
            ("packet", self.host_packets),
            ("message", self.host_messages),
            ("dma", self.dma_writes),
        ];
        let host = host.map(|(kind, n)| (kind.to_string(), n));
        let help = "Events for the host side, by kind.";
        text.metric("host_events_total", "counter", help, &by("kind", &host));
        let help = "Events that came to the process of the host side, by name.";
        text.metric("to_host_total", "counter", help, &by("event", &self.to_host));
        let help = "Packets dropped, by reason.";
        text.metric("packets_dropped_total", "counter", help, &by("reason", &self.drops));
        let help = "Inserts that full tables refused.";
        text.metric("table_refused_total", "counter", help, &by("table", &self.refused));
        let sizes: Vec<_> =
            self.tables.iter().map(|t| (t.name.clone(), t.entries as u64)).collect();
        text.metric("table_entries", "gauge", "Entries in each table.", &by("table", &sizes));
        text.text
    }

    /// The control socket's answer to `metrics`.
    pub fn metrics(&self, program: &Program) -> Value {
        json!({ "summary": self.json(program), "prometheus": self.prometheus(program) })
    }

    /// Prints in the form that was asked for.
    pub fn show(&self, program: &Program, as_json: bool, metrics: bool) {
        if metrics {
            out::text(&self.prometheus(program));
        } else if as_json {
            outln!("{:#}", self.json(program));
        } else {
            self.print(program);
        }
    }
}

/// Metrics in the text format, as far as they are written.
struct Prometheus {
    program: String,
    text: String,
}

impl Prometheus {
    /// A metric with its lines: further labels (each with a comma before it) and the value.
    fn metric(&mut self, name: &str, kind: &str, help: &str, lines: &[(String, u64)]) {
        self.text
            .push_str(&format!("# HELP nicforge_{name} {help}\n# TYPE nicforge_{name} {kind}\n"));
        for (labels, value) in lines {
            self.text.push_str(&format!(
                "nicforge_{name}{{program=\"{}\"{labels}}} {value}\n",
                self.program
            ));
        }
    }
}

/// Text inside the quotes of a label.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
