//! Where packets wait for those before them that may still change what they are about to read.
//!
//! Where the decision about a table's change takes `last - first` stages from its entry, the next packet of the same entry must follow
//! that many cycles later, and one; others need not. A pipe has no stage that stops but the gate and those in front of it, in which
//! there is only logic: keys are compared there (`nf_pipe_lock`), and everything else is asked for behind it. That can be done where
//! keys come from the packet alone, or from that, from what modules beside the pipe say of it, and from tables that nothing changes or that
//! are changed in the cycle in which they show an entry: then all these are asked in front of the gate, in stages that do not stop, and
//! packets stand in a queue between them and it. For tables whose keys depend on what others say all packets wait. Readers of byte strings
//! wait there too (`string_lock`).

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use nicforge_ir::TableKind;

use super::super::expr::{Wire, used};
use super::super::tables::TableForm;
use super::super::timing;
use super::dag::Dag;
use super::leave::Commit;
use super::order::cone;
use super::ports::{Port, Ports};
use super::schedule::asked;
use super::string_lock::{self, StringLock};
use crate::c::names::Names;

use super::arrival::Arrivals;

/// Stages from the one in which any lock is given keys to the gate.
const MOST_STAGES_OF_LOCK: u32 = 2;
/// Entries from which on packets may be told apart.
const FEWEST: u32 = 2;

/// The stage in which packets wait, and the tables they wait for.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    pub stage: u32,
    pub locks: Vec<Lock>,
    pub strings: Vec<StringLock>,
    pub queue: Option<Queue>,
}

/// Where packets stand in a row between what answers about keys and the gate.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// The last stage in front of it, in which the last answer is there.
    pub stage: u32,
    /// Names of answers that come in front of it.
    pub answers: BTreeSet<String>,
}

impl Queue {
    /// Packets in it and in the stages in front of it, at most: as many as there are on their way if nobody waits, and more.
    pub fn depth(&self) -> u32 {
        (self.stage + 4).next_power_of_two()
    }
}

/// A table whose entries are changed so many cycles after they are read.
#[derive(Clone, Debug)]
pub struct Lock {
    pub table: usize,
    pub apart: u32,
    /// Keys by port, and the stage in which they are given.
    pub keys: Vec<String>,
    /// Ports of an array may be given the same number.
    pub shared: bool,
    pub stage: u32,
    /// The lock says wait.
    pub waits: String,
}

/// Tables for which packets need not all wait, and the stage of the gate; none if there are no such.
pub fn gate(
    dag: &Dag,
    wires: &HashMap<&str, &Wire>,
    arrivals: &mut Arrivals,
    (of_keys, ports, commits): (&Ports, &[Port], &[Commit]),
    (names, queued): (&mut Names, bool),
) -> Option<Gate> {
    let answers = ports.iter().flat_map(|port| port.answers(dag));
    let answers: BTreeSet<String> = answers.chain(dag.asked.iter().map(|asked| asked.name.clone())).collect();
    let mut gate = Gate::default();
    for commit in commits.iter().filter(|commit| commit.last > commit.first && commit.pace == 0) {
        let form = &dag.tables[commit.table];
        let own: Vec<&Port> = ports.iter().filter(|port| !port.fixed && port.table == commit.table).collect();
        let early = own.iter().all(|port| {
            let below = cone(wires, used(&port.key));
            // A key that is always the same is what all packets have in common.
            !below.is_empty() && below.iter().all(|name| !answers.contains(*name))
        });
        let behind =
            if early { Some(BTreeSet::new()) } else { answers_of(dag, wires, (ports, commits), &own) };
        let Some(behind) = behind.filter(|list| form.capacity >= FEWEST && (queued || list.is_empty()))
        else {
            continue;
        };
        gate.queue_behind(behind, arrivals);
        let mut given = own.iter().map(|port| asked(dag, arrivals, port)).max().unwrap_or(0);
        if !form.pipe_hashes() {
            // Numbers are compared as they are, in the stage in front of the gate.
            let latest = own.iter().map(|port| arrivals.expression(&port.key)).filter(|time| time.0 == given);
            let pairs = if commit.at_once { own.len() * own.len() } else { own.len() };
            let compared = timing::tree(2 * form.number_bits()) + timing::tree(pairs as u32);
            given += u32::from(latest.map(|time| time.1).max().unwrap_or(0) + compared > timing::BUDGET);
        }
        gate.stage = gate.stage.max(given + form.stages_of_lock());
        let keys = own.iter().map(|port| port.key.clone()).collect();
        let waits = names.fresh("waits");
        let shared = commit.at_once;
        gate.locks.push(Lock { table: commit.table, apart: 0, keys, shared, stage: 0, waits });
    }
    for table in string_lock::tables(dag).filter(|_| queued) {
        let own: Vec<&Port> = ports.iter().filter(|port| !port.fixed && port.table == table).collect();
        if let Some(behind) = answers_of(dag, wires, (ports, commits), &own) {
            gate.queue_behind(behind, arrivals);
        }
    }
    // What is asked in front of the queue is known there.
    let early = gate.queue.as_ref().map(|queue| &queue.answers);
    let late = answers.into_iter().filter(|name| early.is_none_or(|early| !early.contains(name))).collect();
    let (strings, stage) = string_lock::locks(dag, wires, arrivals, (of_keys, ports), (&late, names));
    gate.strings = strings;
    gate.stage = gate.stage.max(stage);
    if let Some(queue) = &gate.queue {
        // All locks are given keys behind the queue.
        gate.stage = gate.stage.max(queue.stage + 1 + MOST_STAGES_OF_LOCK);
    }
    gate.is_needed().then_some(gate)
}

/// What keys depend on of what is asked, if all of that may be in front of the gate: answers about the packet, of tables that nothing changes,
/// and of those that are changed in the cycle in which they show an entry. None if others are among it, or if some key depends on nothing.
fn answers_of(
    dag: &Dag,
    wires: &HashMap<&str, &Wire>,
    (ports, commits): (&[Port], &[Commit]),
    own: &[&Port],
) -> Option<BTreeSet<String>> {
    if own.iter().any(|port| used(&port.key).next().is_none()) {
        return None;
    }
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = own.iter().map(|port| port.key.as_str()).collect();
    while let Some(text) = open.pop() {
        let below = cone(wires, used(text));
        for asked in dag.asked.iter().filter(|asked| below.contains(asked.name.as_str())) {
            // Bytes of strings may be waited for in the gate.
            if asked.what.stored().is_some() {
                return None;
            }
            found.insert(asked.name.clone());
        }
        for port in ports {
            let answers = port.answers(dag);
            if found.contains(&answers[0]) || !answers.iter().any(|name| below.contains(name.as_str())) {
                continue;
            }
            found.extend(answers);
            open.push(&port.key);
            if let Some(commit) = commits.iter().find(|commit| !port.fixed && commit.table == port.table) {
                // What an LRU table evicts is told by when it does so.
                let at_once = commit.last == commit.first && commit.pace == 0;
                if !at_once || dag.tables[port.table].kind == TableKind::Lru {
                    return None;
                }
                open.extend(commit.deciding().map(String::as_str));
                // Its other entries are changed there too.
                for other in ports.iter().filter(|other| !other.fixed && other.table == port.table) {
                    if found.insert(other.answers(dag)[0].clone()) {
                        found.extend(other.answers(dag));
                        open.push(&other.key);
                    }
                }
            }
        }
    }
    Some(found)
}

impl Gate {
    /// Puts the queue behind these answers, if there are any.
    fn queue_behind(&mut self, answers: BTreeSet<String>, arrivals: &mut Arrivals) {
        if answers.is_empty() {
            return;
        }
        let queue = self.queue.get_or_insert_default();
        for name in &answers {
            queue.stage = queue.stage.max(arrivals.time(name).0);
        }
        queue.answers.extend(answers);
    }

    /// Whether somebody may have to wait in it.
    pub fn is_needed(&self) -> bool {
        !self.locks.is_empty() || !self.strings.is_empty()
    }

    /// Says how long packets wait, when the stages of changes are known; the cycles that all others need between them.
    pub fn settle(&mut self, tables: &[TableForm], commits: &[Commit]) -> u32 {
        let apart = |commit: &Commit| commit.last - commit.first;
        for lock in &mut self.locks {
            let commit = commits.iter().find(|commit| commit.table == lock.table);
            lock.apart = commit.map_or(0, apart);
            lock.stage = self.stage - tables[lock.table].stages_of_lock();
        }
        self.locks.retain(|lock| lock.apart > 0);
        let locked = |commit: &&Commit| self.locks.iter().all(|lock| lock.table != commit.table);
        commits.iter().filter(locked).map(Commit::cycles).max().unwrap_or(1)
    }

    /// Of a table, how many cycles after its entry is shown it is changed while others are shown.
    pub fn apart(&self, table: usize) -> u32 {
        self.locks.iter().find(|lock| lock.table == table).map_or(0, |lock| lock.apart)
    }

    /// The locks of a pipe with so many slots as text; `at` gives an expression as a stage sees it.
    pub fn print(
        &self,
        out: &mut String,
        tables: &[TableForm],
        slots: u32,
        at: impl Fn(&str, u32) -> String,
    ) {
        let stage = self.stage;
        let _ = writeln!(
            out,
            "\n  // ---- the gate, stage {stage}: who reads what one before may still change waits, and all behind\n  logic at_gate, hold, sent;"
        );
        for lock in &self.locks {
            let form = &tables[lock.table];
            let keys: Vec<String> = lock.keys.iter().rev().map(|key| at(key, lock.stage)).collect();
            let _ = writeln!(
                out,
                "  logic {waits};\n  nf_pipe_lock #(\n      {}\n  ) u_lock_{} (\n      .clk(clk),\n      .rst(rst),\n      .k_key({{{}}}),\n      \
                 .hold(hold),\n      .sent(sent),\n      .waits({waits})\n  );",
                form.lock_parameters(lock.keys.len(), lock.apart, lock.shared),
                form.signals,
                keys.join(", "),
                waits = lock.waits,
            );
        }
        for lock in &self.strings {
            lock.print(out, tables, (stage, slots), &at);
        }
        let strings = self.strings.iter().map(|lock| lock.waits.as_str());
        let all: Vec<&str> = self.locks.iter().map(|lock| lock.waits.as_str()).chain(strings).collect();
        let _ = writeln!(
            out,
            "  assign hold = at_gate && ({});\n  assign sent = at_gate && !hold;",
            all.join(" || ")
        );
    }
}
