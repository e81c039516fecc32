//! Which stage every wire is in.
//!
//! A wire is in the first stage in which its operands are there in time (`arrival`). Tables that are changed are the exception: all of them show their entries in one stage, `first`, late enough that everything else which decides about
//! changes is there before; from there on what depends on entries is scheduled like all else, and in stage `last` the changes are made.
//! If that is the same stage a packet may follow in the next cycle; else, so that it sees the changes, it follows `interval` cycles later,
//! the stages from `first` to `last`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::super::engine::kind;
use super::super::expr::{Wire, mark, used};
use super::super::shape::number;
use super::super::timing;
use super::arrival::Arrivals;
use super::dag::{Change, Dag, Exit, NoPipe};
use crate::c::names::Names;

/// What a hash function takes of the stage in which a key is given.
const HASHING: u32 = 1200;
/// When signals of a table are there in their stage: they come from registers.
const FROM_REGISTER: u32 = 0;

/// A lookup port of a table.
#[derive(Clone, Debug)]
pub struct Port {
    /// Number of the table, and of the lookup if nothing changes the table.
    pub table: usize,
    pub lookup: Option<usize>,
    pub key: String,
    /// Stage in which the key is given.
    pub ask: u32,
    /// Stage in which the entry is there.
    pub answer: u32,
}

/// A table's change, signals in stage `last`.
#[derive(Clone, Debug)]
pub struct Commit {
    pub table: usize,
    pub write: String,
    pub delete: String,
    pub value: String,
    pub refused: String,
}

/// Handlers with a stage for everything.
#[derive(Clone, Debug)]
pub struct Pipe {
    pub wires: Vec<Wire>,
    pub constants: Vec<Wire>,
    /// Stage by name.
    pub stages: HashMap<String, u32>,
    pub ports: Vec<Port>,
    pub commits: Vec<Commit>,
    pub first: u32,
    pub last: u32,
    /// Cycles between packets.
    pub interval: u32,
    /// Stage in which the command to the deparser is complete.
    pub exit: u32,
    /// The command's fields and their signals.
    pub command: BTreeMap<&'static str, String>,
    pub header_bytes: u32,
    pub window_bytes: u32,
    pub message_bytes: Option<u32>,
    pub notes: HashMap<String, String>,
}

/// Names that a signal depends on, itself included.
fn cone<'a>(wires: &HashMap<&'a str, &'a Wire>, roots: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut stack: Vec<&str> = roots.collect();
    while let Some(name) = stack.pop() {
        if found.insert(name)
            && let Some(wire) = wires.get(name)
        {
            stack.extend(used(&wire.value));
        }
    }
    found
}

/// Schedules all handlers.
pub fn schedule(
    mut dag: Dag,
    constants: Vec<Wire>,
    mut names: Names,
    message_bytes: Option<u32>,
) -> Result<Pipe, NoPipe> {
    let commits = commits(&mut dag, &mut names);
    let header_bytes =
        dag.exits.iter().map(|exit| exit.header.iter().map(|part| part.1).sum()).max().unwrap_or(0);
    let header_bytes: u32 = u32::max(header_bytes, 1);
    let command = command(&mut dag, &mut names, header_bytes);
    let mut ports = Vec::new();
    for (table, access) in dag.access.iter().enumerate() {
        if access.written {
            let key = match &access.keys {
                [Some(frame), None] => frame.clone(),
                [None, Some(message)] => message.clone(),
                [Some(frame), Some(message)] => {
                    let name = names.fresh("key");
                    let value = format!("{} ? {message} : {frame}", mark("for_message"));
                    let width = dag.tables[table].key_bits;
                    dag.wires.push(Wire { name: name.clone(), width, value, delay: timing::CHOOSE });
                    mark(&name)
                }
                [None, None] => continue,
            };
            ports.push(Port { table, lookup: None, key, ask: 0, answer: 0 });
        }
        for (number, key) in access.lookups.iter().enumerate() {
            ports.push(Port { table, lookup: Some(number), key: key.clone(), ask: 0, answer: 0 });
        }
    }
    let stages_of = |table: usize| dag.tables[table].pipe_stages();
    let wires: HashMap<&str, &Wire> = dag.wires.iter().map(|wire| (wire.name.as_str(), wire)).collect();
    let changed: BTreeSet<String> = ports
        .iter()
        .filter(|port| port.lookup.is_none())
        .flat_map(|port| {
            let signals = &dag.tables[port.table].signals;
            ["hit", "value", "room"].map(|field| format!("{signals}_{field}"))
        })
        .collect();
    let mut arrivals = Arrivals::new(wires.clone());
    // Answers of tables that nothing changes, keys of which may be answers of others.
    let mut open: Vec<usize> = (0..ports.len()).filter(|at| ports[*at].lookup.is_some()).collect();
    while !open.is_empty() {
        let answers = |port: &Port| -> Vec<String> {
            let signals = &dag.tables[port.table].signals;
            let number = port.lookup.unwrap_or(0);
            ["hit", "value"].map(|field| format!("{signals}_{field}{number}")).to_vec()
        };
        let waiting: BTreeSet<String> = open.iter().flat_map(|at| answers(&ports[*at])).collect();
        let ready = open.iter().position(|at| {
            let needs = cone(&wires, used(&ports[*at].key));
            !needs.iter().any(|name| waiting.contains(*name))
        });
        let Some(ready) = ready else { break };
        let at = open.remove(ready);
        let needs = cone(&wires, used(&ports[at].key));
        if needs.iter().any(|name| changed.contains(*name)) {
            let table = &dag.program.tables[nicforge_ir::TableId::from_u32(ports[at].table as u32)];
            let reason = format!("a key of table `{}` depends on a table that is changed", table.name);
            return Err(NoPipe { reason, span: table.span });
        }
        let hashing = if dag.tables[ports[at].table].pipe_hashes() { HASHING } else { 0 };
        let (stage, ps) = arrivals.expression(&ports[at].key.clone());
        let ask = if ps + hashing > timing::BUDGET { stage + 1 } else { stage };
        (ports[at].ask, ports[at].answer) = (ask, ask + stages_of(ports[at].table));
        for name in answers(&ports[at]) {
            arrivals.set(&name, (ports[at].answer, FROM_REGISTER));
        }
    }
    // The stage in which changed tables answer: behind everything else that decides about changes.
    let mut first = 0;
    for port in ports.iter().filter(|port| port.lookup.is_none()) {
        let needs = cone(&wires, used(&port.key));
        if needs.iter().any(|name| changed.contains(*name)) {
            let table = &dag.program.tables[nicforge_ir::TableId::from_u32(port.table as u32)];
            let reason = format!(
                "the key of table `{}`, which is changed, depends on a table that is changed",
                table.name
            );
            return Err(NoPipe { reason, span: table.span });
        }
        let hashing = if dag.tables[port.table].pipe_hashes() { HASHING } else { 0 };
        let (stage, ps) = arrivals.expression(&port.key.clone());
        let ask = if ps + hashing > timing::BUDGET { stage + 1 } else { stage };
        first = first.max(ask + stages_of(port.table));
    }
    let decided = |commit: &Commit| [&commit.write, &commit.delete, &commit.value].map(|text| text.clone());
    let roots: Vec<String> = commits.iter().flat_map(decided).collect();
    let deciding = cone(&wires, roots.iter().flat_map(|text| used(text)));
    let depends =
        |name: &str| cone(&wires, std::iter::once(name)).iter().any(|below| changed.contains(*below));
    let stateful: BTreeSet<&str> = deciding.iter().copied().filter(|name| depends(name)).collect();
    for name in &stateful {
        let Some(wire) = wires.get(name) else { continue };
        for below in used(&wire.value).filter(|below| !stateful.contains(below)) {
            first = first.max(arrivals.time(below).0 + 1);
        }
    }
    for name in &changed {
        arrivals.set(name, (first, FROM_REGISTER));
    }
    for port in ports.iter_mut().filter(|port| port.lookup.is_none()) {
        (port.ask, port.answer) = (first - stages_of(port.table), first);
    }
    let mut last = first;
    for text in &roots {
        last = last.max(arrivals.expression(text).0);
    }
    let mut exit = last;
    for text in command.values() {
        exit = exit.max(arrivals.expression(text).0);
    }
    for commit in &commits {
        exit = exit.max(arrivals.expression(&commit.refused).0);
    }
    // What no table, command or counter needs is left out.
    let outputs = commits.iter().flat_map(|commit| {
        [&commit.write, &commit.delete, &commit.value, &commit.refused].map(|text| text.as_str())
    });
    let texts: Vec<&str> = outputs
        .chain(command.values().map(String::as_str))
        .chain(ports.iter().map(|port| port.key.as_str()))
        .collect();
    let live = cone(&wires, texts.iter().flat_map(|text| used(text)));
    let mut kept: Vec<Wire> =
        dag.wires.iter().filter(|wire| live.contains(wire.name.as_str())).cloned().collect();
    let stages = arrivals.stages();
    kept.sort_by_key(|wire| stages.get(&wire.name).copied().unwrap_or(0));
    let interval = if ports.iter().any(|port| port.lookup.is_none()) { last - first + 1 } else { 1 };
    Ok(Pipe {
        constants,
        stages,
        ports,
        commits,
        first,
        last,
        interval,
        exit,
        command,
        header_bytes,
        window_bytes: dag.window.next_multiple_of(64),
        message_bytes,
        notes: dag.notes,
        wires: kept,
    })
}

/// Signals of every changed table's change.
fn commits(dag: &mut Dag, names: &mut Names) -> Vec<Commit> {
    let mut list = Vec::new();
    for (table, access) in dag.access.clone().into_iter().enumerate() {
        if !access.written || access.keys == [None, None] {
            continue;
        }
        let width = dag.tables[table].value_bits;
        let count = access.changes.len() as u32;
        let mut add = |wanted: &str, width: u32, value: String, delay: u32| {
            let name = names.fresh(wanted);
            dag.wires.push(Wire { name: name.clone(), width, value, delay });
            mark(&name)
        };
        let some = |list: Vec<String>| if list.is_empty() { "1'b0".to_string() } else { list.join(" || ") };
        let changes = &access.changes;
        let writes = changes
            .iter()
            .filter(|c| c.hit != "1'b0")
            .map(|c| format!("({} && {})", c.when, c.hit))
            .collect();
        // An update's way is taken only if the entry is there then; what says otherwise deletes.
        let deleting = |c: &&Change| !c.when_there;
        let deletes =
            changes.iter().filter(deleting).map(|c| format!("({} && !{})", c.when, c.hit)).collect();
        let write = add("write", 1, some(writes), timing::tree(2 * count));
        let delete = add("delete", 1, some(deletes), timing::tree(count));
        let mut value = String::new();
        let written: Vec<_> = changes.iter().filter(|c| c.hit != "1'b0").collect();
        for (at, change) in written.iter().enumerate() {
            if at + 1 < written.len() {
                value.push_str(&format!("{} ? {} : ", change.when, change.value));
            } else {
                value.push_str(&change.value);
            }
        }
        if value.is_empty() {
            value = number(width, 0);
        }
        let value = add("new_entry", width, value, timing::mux(written.len() as u32));
        let refused =
            add("refused", 1, some(access.refused.clone()), timing::tree(access.refused.len() as u32));
        list.push(Commit { table, write, delete, value, refused });
    }
    list
}

/// The command to the deparser: the fields of whichever exit is taken; none: the packet is given up.
fn command(dag: &mut Dag, names: &mut Names, header_bytes: u32) -> BTreeMap<&'static str, String> {
    let room = 8 * header_bytes;
    let exits: Vec<Exit> = dag.exits.clone();
    let mut add = |wanted: &str, width: u32, value: String, delay: u32| {
        let name = names.fresh(wanted);
        dag.wires.push(Wire { name: name.clone(), width, value, delay });
        mark(&name)
    };
    let delay = timing::mux(exits.len() as u32) + timing::carry(16);
    let mut choose = |wanted: &str, width: u32, field: &dyn Fn(&Exit) -> String, otherwise: String| {
        let mut text = String::new();
        let mut same = true;
        for exit in &exits {
            same &= field(exit) == field(&exits[0]);
            text.push_str(&format!("{} ? {}\n      : ", exit.when.as_deref().unwrap_or("1'b1"), field(exit)));
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
        false => number(16, exit.header.iter().map(|part| u64::from(part.1)).sum()),
    };
    fields.insert("hlen", choose("x_hlen", 16, &length, number(16, 0)));
    fields.insert("from", choose("x_from", 16, &|exit| exit.from.clone(), number(16, 0)));
    let rest = |exit: &Exit| match silent(exit) {
        true => number(16, 0),
        false if exit.from == number(16, 0) => exit.end.clone(),
        false => format!("{} - {}", exit.end, exit.from),
    };
    fields.insert("rest", choose("x_rest", 16, &rest, number(16, 0)));
    let sent = |exit: &Exit| number(4, exit.kind + 8);
    fields.insert("kind", choose("x_kind", 4, &sent, number(4, kind::END + 8)));
    fields.insert("number", choose("x_number", 32, &|exit| exit.number.clone(), number(32, 0)));
    fields
}
