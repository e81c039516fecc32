//! Who may read bytes of a string waits in the gate for packets that may have appended some under
//! the same key (`nf_string_lock`).
//!
//! When these bytes are in memory no stage says: the deparser does, by giving a packet's slot back.
//! What a packet may do is said by conditions that are known in front of the gate, also by what is
//! asked in front of its queue. Where its keys are not, since what the table says decides about
//! what says them, readers wait for all that may append.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use super::super::expr::{Wire, used};
use super::super::module::Body;
use super::super::shape::number;
use super::super::tables::{TableForm, bits_below};
use super::super::timing;
use super::arrival::Arrivals;
use super::dag::{Dag, Given};
use super::gate::Gate;
use super::order::cone;
use super::ports::{Port, Ports};
use crate::c::names::Names;

/// Stages from the one in which a lock is given keys to the gate.
const STAGES: u32 = 2;
/// Cycles from the last stage until the deparser has given back the slot of a packet that appends a
/// line, if nothing waits.
const STORING: u32 = 5;

/// A table of whose byte strings packets read what others append.
#[derive(Clone, Debug)]
pub struct StringLock {
    table: usize,
    /// By port: keys, and conditions under which bytes may be read, and appended.
    pub keys: Vec<String>,
    pub reads: Vec<String>,
    pub stores: Vec<String>,
    /// The lock says wait.
    pub waits: String,
}

/// What is known in front of a gate: all that does not depend on these answers.
pub struct Early<'a> {
    pub wires: &'a HashMap<&'a str, &'a Wire>,
    pub answers: &'a BTreeSet<String>,
}

impl Early<'_> {
    pub fn knows(&self, text: &str) -> bool {
        cone(self.wires, used(text)).iter().all(|name| !self.answers.contains(*name))
    }
}

/// The condition that one of these ways is taken, by what is `known`.
pub fn any<'a>(
    ways: impl Iterator<Item = &'a Given>,
    known: &mut impl FnMut(&str) -> bool,
) -> String {
    let mut early =
        |way: &Given| -> Given { way.iter().filter(|atom| known(atom)).cloned().collect() };
    let ways: BTreeSet<Given> = ways.map(&mut early).collect();
    let within = |way: &&Given| ways.iter().any(|other| other != *way && other.is_subset(way));
    let all = |way: &Given| match way.is_empty() {
        true => "1'b1".to_string(),
        false => format!("({})", way.iter().cloned().collect::<Vec<_>>().join(" && ")),
    };
    let texts: Vec<String> = ways.iter().filter(|way| !within(way)).map(all).collect();
    if texts.is_empty() { "1'b0".to_string() } else { texts.join(" || ") }
}

/// The locks of these tables, whose gate is to be behind stage `earliest`, and the first stage in
/// which it can be. Of those that are not `told_apart` keys are not known there. `answers` are what
/// is only known behind the gate.
pub fn locks(
    dag: &Dag,
    wires: &HashMap<&str, &Wire>,
    arrivals: &mut Arrivals,
    (of_keys, ports): (&Ports, &[Port]),
    (readers, told_apart, earliest): (&[usize], &BTreeSet<usize>, u32),
    (answers, names): (&BTreeSet<String>, &mut Names),
) -> (Vec<StringLock>, u32) {
    let early = Early { wires, answers };
    let (mut locks, mut stage) = (Vec::new(), 0);
    for table in readers.iter().copied() {
        let access = &dag.access[table];
        let own: Vec<&Port> =
            ports.iter().filter(|port| !port.fixed && port.table == table).collect();
        let by_port = |places: &[(usize, Given)]| -> Vec<String> {
            let of = |port: usize| {
                let here = places.iter().filter(|(key, _)| of_keys.of_key(table, *key) == port);
                any(here.map(|(_, given)| given), &mut |atom| early.knows(atom))
            };
            (0..own.len()).map(of).collect()
        };
        let keys: Vec<String> = match told_apart.contains(&table) {
            true => own.iter().map(|port| port.key.clone()).collect(),
            false => vec![number(dag.tables[table].key_bits, 0); own.len()],
        };
        let lock = StringLock {
            table,
            keys,
            reads: by_port(&access.read),
            stores: by_port(&access.stored),
            waits: names.fresh("waits"),
        };
        let mut given = earliest;
        for port in own.iter().filter(|_| told_apart.contains(&table)) {
            given = given.max(arrivals.asked(dag, port));
        }
        for text in lock.reads.iter().chain(&lock.stores) {
            let (last, ps) = arrivals.expression(text);
            let late = ps + timing::tree(used(text).count() as u32) > timing::BUDGET;
            given = given.max(last + u32::from(late));
        }
        stage = stage.max(given + STAGES);
        locks.push(lock);
    }
    (locks, stage)
}

impl StringLock {
    /// Cycles between packets of one key that all read and append, at least; `stages` lie from the
    /// gate to the last one.
    pub fn cycles(stages: u32) -> u32 {
        stages + STORING
    }

    /// The stage in which it is given keys, if the gate is in this one.
    pub fn stage(&self, gate: u32) -> u32 {
        gate - STAGES
    }

    /// All that it is given there.
    pub fn given(&self) -> impl Iterator<Item = &String> {
        self.keys.iter().chain(&self.reads).chain(&self.stores)
    }

    /// The lock of a gate as text, of a pipe with so many slots; `at` gives an expression as a
    /// stage sees it.
    pub fn print(
        &self,
        out: &mut Body,
        tables: &[TableForm],
        (gate, slots): (&Gate, u32),
        at: impl Fn(&str, u32) -> String,
    ) {
        let form = &tables[self.table];
        let all = |texts: &[String]| -> String {
            let texts: Vec<String> =
                texts.iter().rev().map(|text| at(text, self.stage(gate.stage))).collect();
            texts.join(", ")
        };
        let (waits, ports) = (&self.waits, self.keys.len());
        out.bits(&[waits]);
        let _ = writeln!(
            out,
            "  nf_string_lock #(\n      .KEY({}), .PORTS({ports}), .SLOTS({slots}), .SW({}),\n      {}\n  ) u_strings_{} (\n      \
             .clk(clk),\n      .rst(rst),\n      .k_key({{{}}}),\n      .k_reads({{{}}}),\n      .k_stores({{{}}}),\n      .slot(slot_s{}),\n      \
             .hold({}),\n      .sent({}),\n      .done(p_done),\n      .done_slot(p_slot),\n      .waits({waits})\n  );",
            form.key_bits,
            bits_below(slots),
            form.string_lock_masks(),
            form.signals,
            all(&self.keys),
            all(&self.reads),
            all(&self.stores),
            gate.stage,
            gate.hold,
            gate.sent,
        );
    }
}
