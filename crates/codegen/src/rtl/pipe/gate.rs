//! Where packets wait for those before them that may still change what they are about to read.
//!
//! Where the decision about a table's change takes `last - first` stages from its entry, the next
//! packet of the same entry must follow that many cycles later, and one; others need not. A pipe
//! has no stages that stop but its gates and those in front of each in which keys are compared
//! (`nf_pipe_lock`), in which there is only logic; tables, and modules beside the pipe, are asked
//! behind a gate, in stages that do not stop. Where keys depend on what is asked, that is asked in
//! front of the gate, and a queue with credits stands between it and the stages of the gate: who
//! comes out of a stage that does not stop has room there. So a key may depend on a table that has
//! a gate of its own (`levels`). All packets wait, in the gate in front of it or at the entry, for
//! a table whose keys are always the same, or that is asked in turn. Readers of byte strings wait
//! in gates too (`string_lock`).

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use nicforge_ir::TableKind;

use super::super::expr::{Wire, used};
use super::super::module::Body;
use super::super::tables::{TableForm, bits_below};
use super::super::timing;
use super::arrival::Arrivals;
use super::dag::{Change, Dag, Given};
use super::leave::Commit;
use super::levels::{Levels, string_tables};
use super::order::{self, Group, cone};
use super::ports::{Port, Ports};
use super::string_lock::{self, Early, StringLock};
use crate::c::names::Names;

/// Entries from which on packets may be told apart.
const FEWEST: u32 = 2;
/// What is left of a stage for conditions under which a key counts to be joined, in picoseconds:
/// three levels.
const USE: u32 = 1200;

/// A stage in which packets wait, and what for.
#[derive(Clone, Debug)]
pub struct Gate {
    pub stage: u32,
    pub locks: Vec<Lock>,
    pub strings: Vec<StringLock>,
    pub queue: Option<Queue>,
    /// Cycles from one packet to the next behind it.
    pub interval: u32,
    /// Its signals: a packet is there, stays, leaves; cycles until the next one may.
    pub at_gate: String,
    pub hold: String,
    pub sent: String,
    pause: String,
}

/// Where packets stand in a row in front of a gate's stages.
#[derive(Clone, Debug)]
pub struct Queue {
    /// The last stage in front of it.
    pub stage: u32,
    /// The first stage of those that do not stop in front of it.
    from: u32,
    /// Its signals: a packet is there, is taken; how many are on their way into it or in it; its
    /// slot, all its bits, room for more.
    pub valid: String,
    pub take: String,
    pub open: String,
    pub slot: String,
    pub data: String,
    pub more: String,
}

impl Queue {
    /// Packets in it and in the stages in front of it, at most: as many as there are on their way
    /// if nobody waits, and more.
    pub fn depth(&self) -> u32 {
        (self.stage - self.from + 4).next_power_of_two()
    }

    /// Bits of the number of these.
    pub fn open_bits(&self) -> u32 {
        bits_below(self.depth() + 1)
    }
}

/// A table whose entries are changed so many cycles after they are read.
#[derive(Clone, Debug)]
pub struct Lock {
    pub table: usize,
    pub apart: u32,
    /// By port: keys, whether their entries may be asked for, and changed; and the stage in which
    /// they are given.
    pub keys: Vec<String>,
    pub uses: Vec<String>,
    pub changes: Vec<String>,
    /// Ports of an array may be given the same number.
    pub shared: bool,
    pub stage: u32,
    /// The lock says wait.
    pub waits: String,
}

impl Lock {
    /// All that it is given.
    pub fn given(&self) -> impl Iterator<Item = &String> {
        self.keys.iter().chain(&self.uses).chain(&self.changes)
    }
}

/// Tables, by number, whose packets wait for those of the same entry only.
pub struct ToldApart {
    /// Because they are changed later than they show an entry.
    pub locked: BTreeSet<usize>,
    /// Because of that, or of bytes of strings: their keys are known in front of a gate.
    pub compared: BTreeSet<usize>,
}

/// Finds them.
pub fn told_apart(
    dag: &Dag,
    wires: &HashMap<&str, &Wire>,
    (of_keys, ports, commits): (&Ports, &[Port], &[Commit]),
) -> ToldApart {
    // Of tables that decide about each other some have keys that others of them say: no gate can be
    // between these.
    let among = |group: &Group| match group {
        Group::Fixed(_) => Vec::new(),
        Group::Changed(tables, between) => {
            let changed = ports.iter().filter(|port| !port.fixed && tables.contains(&port.table));
            let all = changed.clone().chain(between.iter().map(|port| &ports[*port]));
            let answers: BTreeSet<String> = all.flat_map(|port| port.answers(dag)).collect();
            let said = |port: &&Port| {
                cone(wires, used(&port.key)).iter().any(|name| answers.contains(*name))
            };
            changed.filter(said).map(|port| port.table).collect()
        }
    };
    let among: BTreeSet<usize> =
        order::order(dag, wires, ports, commits).iter().flat_map(among).collect();
    let can = |commit: &&Commit| {
        let own = ports.iter().filter(|port| !port.fixed && port.table == commit.table);
        // A key that is always the same is what all packets have in common that ask for it.
        let apart = |(at, port): (usize, &Port)| {
            dag.tables[commit.table].capacity >= FEWEST && !cone(wires, used(&port.key)).is_empty()
                || ways(dag, of_keys, commit.table, at).all(|way| !way.is_empty())
        };
        commit.last > commit.first
            && commit.pace == 0
            && !among.contains(&commit.table)
            && own.enumerate().all(apart)
    };
    // All wait for others anyhow.
    let apart = commits.iter().filter(|commit| !can(commit)).map(Commit::cycles).max().unwrap_or(1);
    let needed = |commit: &&Commit| commit.cycles() > apart || (commit.at_once && commit.hashes);
    let locked: BTreeSet<usize> =
        commits.iter().filter(can).filter(needed).map(|commit| commit.table).collect();
    let strings = string_tables(dag).filter(|table| !among.contains(table));
    let compared = locked.iter().copied().chain(strings).collect();
    ToldApart { locked, compared }
}

/// Ways on which a port's entry is asked for.
fn ways<'a>(
    dag: &'a Dag,
    of_keys: &Ports,
    table: usize,
    port: usize,
) -> impl Iterator<Item = &'a Given> {
    let keys = dag.access[table].keys.iter().enumerate();
    keys.filter(move |(key, _)| of_keys.of_key(table, *key) == port).flat_map(|(_, key)| &key.given)
}

/// The gate behind those that are there, its stages and locks; `arrivals` say what is known in
/// front of it.
pub fn next(
    dag: &Dag,
    wires: &HashMap<&str, &Wire>,
    arrivals: &mut Arrivals,
    (of_keys, ports, commits): (&Ports, &[Port], &[Commit]),
    (levels, told_apart, before): (&Levels, &ToldApart, &[Gate]),
    names: &mut Names,
) -> Gate {
    let level = before.len() + 1;
    let mut name = |wanted: &str| match before {
        [] => wanted.to_string(),
        _ => names.fresh(wanted),
    };
    let mut gate = Gate {
        stage: 0,
        locks: Vec::new(),
        strings: Vec::new(),
        queue: None,
        interval: 1,
        at_gate: name("at_gate"),
        hold: name("hold"),
        sent: name("sent"),
        pause: names.fresh("pause"),
    };
    // What is asked behind the gate before, or in front of the first one.
    let asked_here = ports.iter().filter(|port| levels.of_port(dag, port) == level - 1);
    let mut last: Vec<u32> = asked_here.map(|port| port.answer).collect();
    let known = dag.asked.iter().filter(|asked| levels.level(&asked.name) == level - 1);
    last.extend(known.map(|asked| arrivals.time(&asked.name).0));
    let changed =
        commits.iter().filter(|commit| levels.of_table(dag, ports, commit.table) == level - 1);
    last.extend(changed.map(Commit::end));
    if let Some(last) = last.into_iter().max() {
        let from = before.last().map_or(0, |gate| gate.stage + 1);
        let mut name = |wanted: &str| names.fresh(wanted);
        gate.queue = Some(Queue {
            stage: last.max(from),
            from,
            valid: name("row_valid"),
            take: name("row_take"),
            open: name("row_open"),
            slot: name("row_slot"),
            data: name("row_data"),
            more: name("row_more"),
        });
    }
    let earliest = gate.queue.as_ref().map_or(0, |queue| queue.stage + 1);
    for commit in commits {
        if !told_apart.locked.contains(&commit.table)
            || levels.of_table(dag, ports, commit.table) != level
        {
            continue;
        }
        let form = &dag.tables[commit.table];
        let own: Vec<&Port> =
            ports.iter().filter(|port| !port.fixed && port.table == commit.table).collect();
        let mut given = own.iter().map(|port| arrivals.asked(dag, port)).max().unwrap_or(0);
        if !form.pipe_hashes() {
            // Numbers are compared as they are, in the stage in front of the gate.
            let latest = own
                .iter()
                .map(|port| arrivals.expression(&port.key))
                .filter(|time| time.0 == given);
            let pairs = if commit.at_once { own.len() * own.len() } else { own.len() };
            let compared = timing::tree(2 * form.number_bits()) + timing::tree(pairs as u32);
            given +=
                u32::from(latest.map(|time| time.1).max().unwrap_or(0) + compared > timing::BUDGET);
        }
        gate.stage = gate.stage.max(given.max(earliest) + form.stages_of_lock());
        let keys = own.iter().map(|port| port.key.clone()).collect();
        let waits = names.fresh("waits");
        gate.locks.push(Lock {
            table: commit.table,
            apart: 0,
            keys,
            uses: Vec::new(),
            changes: Vec::new(),
            shared: commit.at_once,
            stage: 0,
            waits,
        });
    }
    let here = |table: &usize| levels.of_table(dag, ports, *table) == level;
    let readers: Vec<usize> = string_tables(dag).filter(here).collect();
    let late = ports.iter().flat_map(|port| port.answers(dag));
    let late = late.chain(dag.asked.iter().map(|asked| asked.name.clone()));
    let late: BTreeSet<String> = late.filter(|name| levels.level(name) >= level).collect();
    let (strings, stage) = string_lock::locks(
        dag,
        wires,
        arrivals,
        (of_keys, ports),
        (&readers, &told_apart.compared, earliest),
        (&late, names),
    );
    gate.strings = strings;
    gate.stage = gate.stage.max(stage).max(earliest + 1);
    let early = Early { wires, answers: &late };
    for lock in &mut gate.locks {
        lock.stage = gate.stage - dag.tables[lock.table].stages_of_lock();
        // What comes too late for the lock does not count.
        let mut known = |atom: &str| {
            early.knows(atom) && {
                let (stage, ps) = arrivals.expression(atom);
                stage < lock.stage || (stage == lock.stage && ps + USE <= timing::BUDGET)
            }
        };
        for port in 0..lock.keys.len() {
            lock.uses.push(string_lock::any(ways(dag, of_keys, lock.table, port), &mut known));
            // Where use has an order whoever uses an entry changes it.
            let changing = |change: &&Change| of_keys.of_key(lock.table, change.key) == port;
            let changes =
                dag.access[lock.table].changes.iter().filter(changing).map(|change| &change.given);
            lock.changes.push(match dag.tables[lock.table].kind {
                TableKind::Lru => lock.uses[port].clone(),
                _ => string_lock::any(changes, &mut known),
            });
        }
    }
    gate
}

impl Gate {
    /// Says how long packets wait, when the stages of changes are known: those of the same entry,
    /// and all of them, where that is so for one of the tables that are `asked` behind this gate.
    pub fn settle<'a>(&mut self, asked: impl Iterator<Item = &'a Commit> + Clone) {
        for lock in &mut self.locks {
            let commit = asked.clone().find(|commit| commit.table == lock.table);
            lock.apart = commit.map_or(0, |commit| commit.last - commit.first);
        }
        self.locks.retain(|lock| lock.apart > 0);
        let locked = |commit: &&Commit| self.locks.iter().all(|lock| lock.table != commit.table);
        self.interval = asked.filter(locked).map(Commit::cycles).max().unwrap_or(1);
    }

    /// Cycles between packets of the same entries in a pipe whose last stage is `exit`.
    pub fn meeting(&self, exit: u32) -> u32 {
        let locks = self.locks.iter().map(|lock| lock.apart + 1);
        let strings = self.strings.iter().map(|_| StringLock::cycles(exit - self.stage));
        locks.chain(strings).max().unwrap_or(1).max(self.interval)
    }

    /// The first stage that stops if a packet in the gate stays.
    pub fn first(&self) -> u32 {
        self.queue.as_ref().map_or(0, |queue| queue.stage) + 1
    }

    /// Its locks as text, in a pipe with so many slots; `at` gives an expression as a stage sees
    /// it, `next` is the gate behind.
    pub fn print(
        &self,
        out: &mut Body,
        tables: &[TableForm],
        (slots, next): (u32, Option<&Gate>),
        at: impl Fn(&str, u32) -> String,
    ) {
        let Gate { stage, at_gate, hold, sent, pause, .. } = self;
        let _ = writeln!(
            out,
            "\n  // ---- the gate, stage {stage}: who reads what one before may still change waits, and all behind"
        );
        out.bits(&[at_gate, hold, sent]);
        for lock in &self.locks {
            let form = &tables[lock.table];
            let all = |texts: &[String]| -> String {
                let texts: Vec<String> =
                    texts.iter().rev().map(|text| at(text, lock.stage)).collect();
                texts.join(", ")
            };
            out.bits(&[&lock.waits]);
            let _ = writeln!(
                out,
                "  nf_pipe_lock #(\n      {}\n  ) u_lock_{} (\n      .clk(clk),\n      .rst(rst),\n      .k_key({{{}}}),\n      .k_used({{{}}}),\n      .k_changed({{{}}}),\n      \
                 .hold({hold}),\n      .sent({sent}),\n      .waits({waits})\n  );",
                form.lock_parameters(lock.keys.len(), lock.apart, lock.shared),
                form.signals,
                all(&lock.keys),
                all(&lock.uses),
                all(&lock.changes),
                waits = lock.waits,
            );
        }
        for lock in &self.strings {
            lock.print(out, tables, (self, slots), &at);
        }
        let strings = self.strings.iter().map(|lock| &lock.waits);
        let mut all: Vec<String> =
            self.locks.iter().map(|lock| &lock.waits).chain(strings).cloned().collect();
        if self.interval > 1 {
            let bits = bits_below(self.interval + 1);
            out.logic(bits, pause);
            let _ = write!(
                out,
                "  // Behind it the next packet may only see tables that this one has changed.\n  always_ff @(posedge clk) begin\n    \
                 if (rst) {pause} <= '0;\n    else if ({sent}) {pause} <= {bits}'d{};\n    else if ({pause} != '0) {pause} <= {pause} - 1'b1;\n  end\n",
                self.interval - 1
            );
            all.push(format!("{pause} != '0"));
        }
        // The queue in front of the next gate has no room.
        let queue = next.and_then(|next| next.queue.as_ref());
        all.extend(queue.map(|queue| format!("{}[{}]", queue.open, queue.open_bits() - 1)));
        if all.is_empty() {
            all.push("1'b0".to_string());
        }
        let _ = writeln!(
            out,
            "  assign {hold} = {at_gate} && ({});\n  assign {sent} = {at_gate} && !{hold};",
            all.join(" || ")
        );
    }
}
