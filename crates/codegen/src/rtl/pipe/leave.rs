//! How handlers end: what is changed in tables, and what becomes of the packet.

use std::collections::BTreeMap;

use nicforge_ir::TableKind;

use super::super::expr::{Wire, mark};
use super::super::shape::number;
use super::super::timing;
use super::dag::patches::Patches;
use super::dag::{Change, Dag, Exit, Given};
use super::exclusive::select;
use super::ports::Ports;
use crate::abi::left as kind;
use crate::c::names::Names;

/// A table's change, signals in stage `last`.
#[derive(Clone, Debug)]
pub struct Commit {
    pub table: usize,
    /// By port, and what their signals' names end with.
    pub writes: Vec<String>,
    pub deletes: Vec<String>,
    pub ends: Vec<String>,
    /// By port, where each may be written; else one.
    pub values: Vec<String>,
    /// Of LRU tables, by port where they take turns, else one: the entry is used, if it is there.
    pub used: Vec<String>,
    pub refused: String,
    /// Of tables that hash and are asked in turn: how many insertions are made, of 8 bits.
    pub inserted: Option<String>,
    /// Of tables of which a packet changes several entries: how many insertions are refused, of 8
    /// bits.
    pub refusals: Option<String>,
    /// Stage in which entries are there, and stage in which they are changed.
    pub first: u32,
    pub last: u32,
    /// Where ports take turns: stages from one's to the next one's; else 0.
    pub pace: u32,
    /// Each port may be given every key, and all are changed at once.
    pub at_once: bool,
    /// And keys are hashed.
    pub hashes: bool,
}

impl Commit {
    /// Counts that are known when the packet leaves.
    pub fn counted(&self) -> impl Iterator<Item = &String> {
        self.inserted.iter().chain(&self.refusals)
    }

    /// Endings of names of values' signals.
    pub fn value_ends(&self) -> impl Iterator<Item = &str> {
        let several = self.values.len() > 1;
        (0..self.values.len()).map(move |at| if several { self.ends[at].as_str() } else { "" })
    }

    /// Endings of names of signals of uses.
    pub fn used_ends(&self) -> impl Iterator<Item = &str> {
        let several = self.used.len() > 1;
        (0..self.used.len()).map(move |at| if several { self.ends[at].as_str() } else { "" })
    }

    /// Ports by which entries are changed.
    pub fn changing(&self) -> Vec<bool> {
        let never = |text: &String| text == "1'b0";
        self.writes
            .iter()
            .zip(&self.deletes)
            .map(|(write, delete)| !never(write) || !never(delete))
            .collect()
    }

    /// Memories of the table's size.
    pub fn copies(&self) -> u32 {
        let changing = self.changing().iter().filter(|changing| **changing).count();
        // Where keys are hashed a port that changes entries reads its own memory once more.
        let reading = self.ends.len() + usize::from(self.hashes);
        if self.at_once { (changing * reading) as u32 } else { 1 }
    }

    /// Of how many keys places for new entries are found beside the lookup, if of any.
    pub fn placed(&self) -> Option<usize> {
        (self.at_once && self.hashes).then_some(self.ends.len())
    }

    /// The stage in which a port's entry is changed.
    pub fn changed(&self, port: usize) -> u32 {
        self.last + self.pace * port as u32
    }

    /// The last such stage.
    pub fn end(&self) -> u32 {
        self.changed(self.ends.len() - 1)
    }

    /// Cycles in which no other packet may ask for what this one does.
    pub fn cycles(&self) -> u32 {
        (self.last - self.first + 1).max(self.pace * self.ends.len() as u32)
    }

    /// Signals that decide about the change of a port's entry.
    pub fn deciding_at(&self, port: usize) -> impl Iterator<Item = &String> {
        let value = if self.values.len() > 1 { port } else { 0 };
        let used = if self.used.len() > 1 { port } else { 0 };
        [&self.writes[port], &self.deletes[port], &self.values[value]]
            .into_iter()
            .chain(self.used.get(used))
    }

    /// Signals that decide about the change.
    pub fn deciding(&self) -> impl Iterator<Item = &String> {
        self.writes.iter().chain(&self.deletes).chain(&self.used).chain(&self.values)
    }
}

/// Signals of every changed table's change.
pub fn commits(dag: &mut Dag, names: &mut Names, ports: &Ports) -> Vec<Commit> {
    let mut list = Vec::new();
    for (table, access) in dag.access.clone().into_iter().enumerate() {
        if access.keys.is_empty() {
            continue;
        }
        let width = dag.tables[table].value_bits;
        let mut add = |wanted: &str, width: u32, value: String, delay: u32| {
            let name = names.fresh(wanted);
            dag.wires.push(Wire { name: name.clone(), width, value, delay });
            mark(&name)
        };
        let mut some = |wanted: &str, list: Vec<String>| match list.is_empty() {
            true => "1'b0".to_string(),
            false => add(wanted, 1, list.join(" || "), timing::tree(2 * list.len() as u32)),
        };
        let taken = |change: &Change| {
            let but: String = change.unless.iter().map(|later| format!(" && !{later}")).collect();
            if but.is_empty() { change.when.clone() } else { format!("({}{but})", change.when) }
        };
        let ends = ports.ends(table).to_vec();
        let mut by_port = |wanted: &str, writes: bool| -> Vec<String> {
            let of = |port: usize| {
                let here = |change: &&Change| {
                    ports.of_key(table, change.key) == port && change.value.is_some() == writes
                };
                access.changes.iter().filter(here).map(taken).collect()
            };
            (0..ends.len()).map(|port| some(wanted, of(port))).collect()
        };
        let (writes, deletes) = (by_port("write", true), by_port("delete", false));
        let refusals: Vec<String> = access.refused.iter().map(|(when, _)| when.clone()).collect();
        let refused = some("refused", refusals.clone());
        let mut uses: Vec<Vec<String>> = match access.uses.is_empty() {
            true => Vec::new(),
            false if dag.in_turn.contains(&table) => vec![Vec::new(); ends.len()],
            false => vec![Vec::new()],
        };
        let last = uses.len().saturating_sub(1);
        for (key, way) in &access.uses {
            let list = &mut uses[ports.of_key(table, *key).min(last)];
            if !list.contains(way) {
                list.push(way.clone());
            }
        }
        let used = uses.into_iter().map(|ways| some("used", ways)).collect();
        let sets: Vec<Vec<Change>> = match dag.tables[table].kind {
            _ if dag.tables[table].kind == TableKind::Array || dag.in_turn.contains(&table) => {
                let of = |port: usize| {
                    let here = |change: &&Change| ports.of_key(table, change.key) == port;
                    access.changes.iter().filter(here).cloned().collect()
                };
                (0..ends.len()).map(of).collect()
            }
            _ => vec![access.changes.clone()],
        };
        let values = sets
            .iter()
            .map(|changes| {
                let (value, delay) = new_value(changes, width);
                add("new_entry", width, value, delay)
            })
            .collect();
        let mut count = |wanted: &str, list: &[String]| {
            let terms: Vec<String> = list.iter().map(|one| format!("{{7'd0, {one}}}")).collect();
            add(wanted, 8, terms.join(" + "), timing::carry(8) * terms.len() as u32 / 2)
        };
        let inserted = (!access.inserted.is_empty()).then(|| count("inserted", &access.inserted));
        let several = dag.in_turn.contains(&table) && refusals.len() > 1;
        let refusals = several.then(|| count("refusals", &refusals));
        list.push(Commit {
            table,
            writes,
            deletes,
            ends,
            values,
            used,
            refused,
            inserted,
            refusals,
            first: 0,
            last: 0,
            pace: 0,
            at_once: dag.at_once.contains(&table),
            hashes: dag.tables[table].pipe_hashes(),
        });
    }
    list
}

/// The value that is written, if one is.
fn new_value(changes: &[Change], width: u32) -> (String, u32) {
    let mut values: Vec<&String> =
        changes.iter().filter_map(|change| change.value.as_ref()).collect();
    values.sort();
    values.dedup();
    let given = |value: &&String| -> Vec<Given> {
        let same = |change: &&Change| change.value.as_ref() == Some(*value);
        changes.iter().filter(same).map(|change| change.given.clone()).collect()
    };
    let Some(last) = values.last() else { return (number(width, 0), 0) };
    let mut text = String::new();
    match select(&values.iter().map(given).collect::<Vec<_>>()) {
        Some(conditions) => {
            for (condition, value) in conditions.iter().zip(&values) {
                text.push_str(&format!("({condition}) ? {value} : "));
            }
            text.push_str(last);
        }
        // Later changes take the place of earlier ones.
        None => {
            let written: Vec<&Change> =
                changes.iter().filter(|change| change.value.is_some()).collect();
            for change in written[1..].iter().rev() {
                text.push_str(&format!(
                    "{} ? {} : ",
                    change.when,
                    change.value.as_deref().unwrap_or_default()
                ));
            }
            text.push_str(written[0].value.as_deref().unwrap_or_default());
        }
    }
    (text, timing::mux(values.len() as u32))
}

/// A command to the deparser: signals of its fields, and room for its header. `kind` 15: there is
/// none.
#[derive(Clone, Debug)]
pub struct Command {
    pub fields: BTreeMap<&'static str, String>,
    pub header_bytes: u32,
    pub patches: Patches,
    /// True if it may be one beside what becomes of the packet.
    pub beside: bool,
}

/// The command of whichever of these exits is taken.
pub fn command(dag: &mut Dag, names: &mut Names, exits: &[Exit], patches: Patches) -> Command {
    let bytes = |exit: &Exit| exit.header.iter().map(|part| part.1).sum();
    let header_bytes: u32 = exits.iter().map(bytes).max().unwrap_or(0).max(1);
    let room = 8 * header_bytes;
    let mut add = |wanted: &str, width: u32, value: String, delay: u32| {
        let name = names.fresh(wanted);
        dag.wires.push(Wire { name: name.clone(), width, value, delay });
        mark(&name)
    };
    let delay = timing::mux(exits.len() as u32) + timing::carry(16);
    let mut choose =
        |wanted: &str, width: u32, field: &dyn Fn(&Exit) -> String, otherwise: String| {
            let mut text = String::new();
            let mut same = true;
            for exit in exits {
                same &= field(exit) == field(&exits[0]);
                text.push_str(&format!(
                    "{} ? {}\n      : ",
                    exit.when.as_deref().unwrap_or("1'b1"),
                    field(exit)
                ));
            }
            if same && !exits.is_empty() && field(&exits[0]) == otherwise {
                text.clear();
            }
            text.push_str(&otherwise);
            add(wanted, width, text, delay)
        };
    let header = |exit: &Exit| {
        let bytes: u32 = exit.header.iter().map(|part| part.1).sum();
        let mut parts: Vec<String> = exit.header.iter().rev().map(|part| part.0.clone()).collect();
        if bytes < header_bytes {
            parts.insert(0, number(8 * (header_bytes - bytes), 0));
        }
        format!("{{{}}}", parts.join(", "))
    };
    let silent = |exit: &Exit| exit.kind == kind::DROP;
    let mut fields = BTreeMap::new();
    fields.insert("hdr", choose("x_hdr", room, &header, number(room, 0)));
    let length = |exit: &Exit| match silent(exit) {
        true => number(16, 0),
        false => exit.hlen.clone(),
    };
    fields.insert("hlen", choose("x_hlen", 16, &length, number(16, 0)));
    fields.insert("from", choose("x_from", 16, &|exit| exit.from.clone(), number(16, 0)));
    let rest = |exit: &Exit| match silent(exit) {
        true => number(16, 0),
        false if exit.from == number(16, 0) => exit.end.clone(),
        false => format!("{} - {}", exit.end, exit.from),
    };
    fields.insert("rest", choose("x_rest", 16, &rest, number(16, 0)));
    let sent = |exit: &Exit| number(4, if exit.kind == kind::STORE { 0 } else { exit.kind + 8 });
    fields.insert("kind", choose("x_kind", 4, &sent, number(4, kind::END + 8)));
    fields.insert("number", choose("x_number", 32, &|exit| exit.number.clone(), number(32, 0)));
    if exits.iter().any(|exit| exit.addr.is_some()) {
        let addr = |exit: &Exit| exit.addr.clone().unwrap_or_else(|| number(64, 0));
        fields.insert("addr", choose("x_addr", 64, &addr, number(64, 0)));
    }
    if exits.iter().any(|exit| !exit.patches.is_empty()) {
        let bits = patches.bits();
        fields.insert(
            "patch",
            choose("x_patch", bits, &|exit| patches.text(&exit.patches), number(bits, 0)),
        );
    }
    if exits.iter().any(|exit| exit.moved.is_some()) {
        let memory = |exit: &Exit| number(4, exit.moved.as_ref().map_or(0, |moved| moved.memory));
        fields.insert("mem", choose("x_mem", 4, &memory, number(4, 0)));
        let line =
            |exit: &Exit| exit.moved.as_ref().map_or(number(20, 0), |moved| moved.line.clone());
        fields.insert("line", choose("x_line", 20, &line, number(20, 0)));
    }
    Command { fields, header_bytes, patches, beside: exits.iter().any(Exit::beside) }
}

/// Where packets' payload lies before they leave, in the words of nf_egress: 0 anywhere, 1 where it
/// leaves, 2 and no header is put in front of it.
pub fn aligned(exits: &[Exit]) -> u32 {
    let mut least = 2;
    for exit in exits.iter().filter(|exit| exit.kind != kind::DROP) {
        // What was overwritten in place leaves where it lies, in front of the payload.
        let (edited, header) =
            (exit.header.iter().map(|part| part.1).sum::<u32>() > exit.emitted, exit.emitted);
        // A short header of a packet to the host is beside the stream, unless nothing is left of
        // the packet.
        let beside = exit.kind == kind::HOST_PACKET && header <= 8;
        let whole = exit.cursor == Some(0) && exit.end == mark("length") && !edited;
        let fits = |header: u32| exit.cursor.is_some_and(|at| at % 64 == header % 64);
        least = least.min(match () {
            () if exit.moved.is_some() => 0,
            // Nothing of the packet.
            () if exit.end == number(16, 0) => 1,
            () if edited && beside => 0,
            () if whole && (header == 0 || beside) => 2,
            () if beside && header > 0 && !fits(0) => 0,
            () if fits(header) || (beside && fits(0)) => 1,
            () => 0,
        });
    }
    least
}
