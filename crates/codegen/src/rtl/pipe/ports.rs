//! Lookup ports of tables, and which keys each is given.
//!
//! A table that nothing changes is there once for every key. One that is changed is there once and
//! has a port for every key of one event: keys that are asked for on ways that exclude each other
//! share a port, which is given the one that is meant. What tells the ways apart must be known
//! before tables answer, so conditions that depend on entries do not count. Keys get the first port
//! that takes them.
//!
//! Arrays have parts: keys whose ranges meet, directly or by others, are in one, which has a memory
//! and a port of its own. So a part is asked for one entry of a packet, and changes one.

use std::collections::{BTreeSet, HashMap};

use nicforge_ir::{Span, TableKind};

use super::super::device::{MEMORY_BITS, kib};
use super::super::expr::{Wire, mark, resolve, used};
use super::super::timing;
use super::dag::{Dag, Given, Key, NoPipe, under};
use super::exclusive::{exclude, select};
use crate::c::names::Names;

/// What a table says of an entry.
pub const FIELDS: [&str; 4] = ["hit", "value", "room", "place"];
/// Most ports of a table.
const MOST_PORTS: usize = 16;

/// A lookup port of a table.
#[derive(Clone, Debug)]
pub struct Port {
    /// Number of the table.
    pub table: usize,
    /// Nothing changes the table.
    pub fixed: bool,
    /// What the names of the port's signals end with.
    pub end: String,
    pub key: String,
    /// Of an array with parts: the first number of this one, which goes on to the next one's first.
    pub from: u64,
    /// Which one in turn it is, of a table whose keys are asked for one behind the other.
    pub turn: u32,
    /// Something reads the entry's value.
    pub valued: bool,
    /// Stage in which the key is given.
    pub ask: u32,
    /// Stage in which the entry is there.
    pub answer: u32,
}

impl Port {
    /// Signals of the entry.
    pub fn answers(&self, dag: &Dag) -> Vec<String> {
        let signals = &dag.tables[self.table].signals;
        let there = |field: &&&str| !self.fixed || **field != "room";
        FIELDS.iter().filter(there).map(|field| format!("{signals}_{field}{}", self.end)).collect()
    }

    /// The signal of the entry's place.
    pub fn place(&self, dag: &Dag) -> String {
        format!("{}_place{}", dag.tables[self.table].signals, self.end)
    }
}

/// Ports, and the port of every key by table.
pub struct Ports {
    pub list: Vec<Port>,
    of_keys: Vec<Vec<usize>>,
    ends: Vec<Vec<String>>,
}

impl Ports {
    /// Endings of the names of a table's ports.
    pub fn ends(&self, table: usize) -> &[String] {
        &self.ends[table]
    }

    /// The number of a key's port.
    pub fn of_key(&self, table: usize, key: usize) -> usize {
        self.of_keys[table][key]
    }

    /// Puts ports' signals in the place of keys'; those in `behind` in the place of ports'.
    pub fn put_in(&self, dag: &mut Dag, behind: &HashMap<String, String>) {
        let mut names: HashMap<String, String> = HashMap::new();
        for (table, keys) in self.of_keys.iter().enumerate() {
            let signals = &dag.tables[table].signals;
            for (key, port) in keys.iter().enumerate() {
                for field in FIELDS {
                    let end = &self.ends[table][*port];
                    let shown = format!("{signals}_{field}{end}");
                    let name = behind.get(&shown).unwrap_or(&shown).clone();
                    names.insert(under(signals, field, key), name);
                }
            }
        }
        for wire in dag.wires.iter_mut().filter(|wire| wire.value.contains('#')) {
            wire.value =
                resolve(&wire.value, |name| mark(names.get(name).map_or(name, String::as_str)));
        }
    }
}

/// Signals that depend on tables that are changed.
pub fn stateful(dag: &Dag) -> BTreeSet<String> {
    let mut users: HashMap<&str, Vec<&str>> = HashMap::new();
    for wire in &dag.wires {
        used(&wire.value).for_each(|name| users.entry(name).or_default().push(&wire.name));
    }
    let mut open: Vec<String> = Vec::new();
    for (table, access) in dag.access.iter().enumerate() {
        let signals = &dag.tables[table].signals;
        for key in 0..access.keys.len() {
            open.extend(FIELDS.map(|field| under(signals, field, key)));
        }
    }
    let mut found = BTreeSet::new();
    while let Some(name) = open.pop() {
        open.extend(users.get(name.as_str()).into_iter().flatten().map(|user| user.to_string()));
        found.insert(name);
        open.retain(|name| !found.contains(name));
    }
    found
}

/// Gives every key a port.
pub fn allot(dag: &mut Dag, names: &mut Names) -> Result<Ports, NoPipe> {
    let stateful = stateful(dag);
    let early = |given: &Given| -> Given {
        given
            .iter()
            .filter(|atom| !used(atom).any(|name| stateful.contains(name)))
            .cloned()
            .collect()
    };
    let mut ports = Ports { list: Vec::new(), of_keys: Vec::new(), ends: Vec::new() };
    for table in 0..dag.tables.len() {
        let access = &mut dag.access[table];
        for key in &mut access.keys {
            key.given = key.given.iter().map(early).collect();
        }
        for change in &mut access.changes {
            change.given = early(&change.given);
        }
        let keys = access.keys.clone();
        let in_turn = dag.in_turn.contains(&table);
        let (groups, starts) = match dag.tables[table].kind {
            TableKind::Array | TableKind::Hash | TableKind::Lru if in_turn => {
                turns(dag, table, &keys)?
            }
            TableKind::Array => parts(dag, table, &keys)?,
            _ => by_ways(dag, table, &keys)?,
        };
        let made = |fixed: bool, end: &str, key: String, (from, turn): (u64, u32)| Port {
            table,
            fixed,
            end: end.to_string(),
            key,
            from,
            turn,
            valued: true,
            ask: 0,
            answer: 0,
        };
        let port =
            |key: usize| groups.iter().position(|group| group.contains(&key)).unwrap_or_default();
        let of_key = (0..keys.len()).map(port).collect();
        let single = groups.len() == 1;
        let ends: Vec<String> = (0..groups.len())
            .map(|port| if single { String::new() } else { port.to_string() })
            .collect();
        for (at, ((group, end), from)) in groups.iter().zip(&ends).zip(starts).enumerate() {
            let turn = if in_turn && !dag.at_once.contains(&table) { at as u32 } else { 0 };
            let key =
                chosen(dag, names, table, &group.iter().map(|key| &keys[*key]).collect::<Vec<_>>());
            ports.list.push(made(false, end, key, (from, turn)));
        }
        ports.of_keys.push(of_key);
        ports.ends.push(ends);
        for (number, key) in dag.access[table].lookups.iter().enumerate() {
            ports.list.push(made(true, &number.to_string(), key.clone(), (0, 0)));
        }
    }
    Ok(ports)
}

/// Keys by port, and where the ports' parts of the table start.
type Groups = (Vec<Vec<usize>>, Vec<u64>);

/// Keys on ways that exclude each other together.
fn by_ways(dag: &mut Dag, table: usize, keys: &[Key]) -> Result<Groups, NoPipe> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        let free =
            |group: &Vec<usize>| group.iter().all(|other| exclude(&key.given, &keys[*other].given));
        let port = groups.iter().position(free).unwrap_or(groups.len());
        if port == groups.len() {
            groups.push(Vec::new());
            if groups.len() > 1 && dag.tables[table].kind == TableKind::Lru {
                dag.again = Some(table);
            }
            check(dag, table, groups.len(), key.span)?;
        }
        groups[port].push(at);
    }
    let starts = vec![0; groups.len()];
    Ok((groups, starts))
}

/// Keys in turn: each behind those before it that may be asked for together with it.
fn turns(dag: &Dag, table: usize, keys: &[Key]) -> Result<Groups, NoPipe> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        let meets = |group: &Vec<usize>| {
            group.iter().any(|other| !exclude(&key.given, &keys[*other].given))
        };
        let turn = groups.iter().rposition(meets).map_or(0, |before| before + 1);
        if turn == groups.len() {
            groups.push(Vec::new());
        }
        groups[turn].push(at);
        if groups.len() > MOST_PORTS {
            let name = &dag.tables[table].name;
            let reason = format!(
                "a packet asks for more than {MOST_PORTS} entries of table `{name}`, which it changes"
            );
            return Err(NoPipe { reason, span: key.span });
        }
    }
    let starts = vec![0; groups.len()];
    Ok((groups, starts))
}

/// Keys whose ranges meet together, in the order of their numbers.
fn parts(dag: &mut Dag, table: usize, keys: &[Key]) -> Result<Groups, NoPipe> {
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by_key(|key| keys[*key].range);
    let (mut groups, mut starts): Groups = (Vec::new(), Vec::new());
    let mut end = 0;
    for key in order {
        let (low, high) = keys[key].range;
        match groups.last_mut() {
            Some(group) if low <= end => {
                let exclusive =
                    group.iter().all(|other| exclude(&keys[key].given, &keys[*other].given));
                if !exclusive {
                    dag.again = Some(table);
                    check(dag, table, 2, keys[key].span)?;
                }
                group.push(key);
            }
            // Numbers before the first key belong to its part, behind the last one to its.
            last => {
                starts.push(if last.is_some() { low } else { 0 });
                groups.push(vec![key]);
            }
        }
        end = end.max(high);
    }
    // What lies behind the table is one part: an entry that is never there.
    let capacity = u64::from(dag.tables[table].capacity);
    if let Some(start) = starts.iter().find(|start| **start >= capacity) {
        let reason = format!(
            "array `{}` has {capacity} entries, and is asked for number {start}",
            dag.tables[table].name
        );
        let span = keys
            [groups[starts.iter().position(|other| other == start).unwrap_or_default()][0]]
            .span;
        return Err(NoPipe { reason, span });
    }
    if groups.len() > MOST_PORTS {
        return Err(NoPipe {
            reason: format!(
                "array `{}` is asked for {} keys at once; {MOST_PORTS} at most",
                dag.tables[table].name,
                groups.len()
            ),
            span: keys[groups[MOST_PORTS][0]].span,
        });
    }
    Ok((groups, starts))
}

/// Checks that a table that is changed can have so many ports.
fn check(dag: &Dag, table: usize, count: usize, span: Span) -> Result<(), NoPipe> {
    let form = &dag.tables[table];
    let bits = form.pipe_memory_bits(count as u64);
    let reason = match form.kind {
        TableKind::Array | TableKind::Lru if count > 1 => {
            format!(
                "two keys of table `{}`, which is changed and of kind {}",
                form.name,
                form.kind.name()
            )
        }
        _ if count > MOST_PORTS => {
            format!("table `{}` is asked for {count} keys at once; {MOST_PORTS} at most", form.name)
        }
        _ if bits > MEMORY_BITS => format!(
            "table `{}` is asked for {count} key(s) at once, which takes {} KiB of memory; the device has {} KiB",
            form.name,
            kib(bits),
            kib(MEMORY_BITS)
        ),
        _ => return Ok(()),
    };
    Err(NoPipe { reason, span })
}

/// The key that a port is given.
fn chosen(dag: &mut Dag, names: &mut Names, table: usize, keys: &[&Key]) -> String {
    let places: Vec<Vec<Given>> = keys.iter().map(|key| key.given.clone()).collect();
    let mut text = String::new();
    for (condition, key) in select(&places).unwrap_or_default().iter().zip(keys) {
        text.push_str(&format!("({condition}) ? {} : ", key.text));
    }
    let Some(last) = keys.last() else { return text };
    if keys.len() == 1 {
        return last.text.clone();
    }
    text.push_str(&last.text);
    let (name, width) = (names.fresh("key"), dag.tables[table].key_bits);
    let delay = timing::mux(2 * keys.len() as u32 - 1).max(timing::CHOOSE);
    dag.wires.push(Wire { name: name.clone(), width, value: text, delay });
    mark(&name)
}
