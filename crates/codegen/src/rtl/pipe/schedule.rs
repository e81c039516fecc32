//! Which stage every wire is in.
//!
//! A wire is in the first stage in which its operands are there in time (`arrival`). Tables that are changed are the exception: all of
//! them show their entries in one stage, `first`, late enough that everything else which decides about changes is there before; from there
//! on what depends on entries is scheduled like all else, and in stage `last` the changes are made. If that is the same stage a packet may
//! follow in the next cycle; else, so that it sees the changes, it follows `interval` cycles later, the stages from `first` to `last`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::super::expr::{Wire, used};
use super::super::timing;
use super::arrival::Arrivals;
use super::dag::{Dag, NoPipe};
use super::leave::{Commit, aligned, command, commits};
use super::ports::{FIELDS, Port, allot};
use super::print::MOST_STAGES;
use crate::c::names::Names;

/// What a hash function takes of the stage in which a key is given.
const HASHING: u32 = 1200;
/// When signals of a table are there in their stage: they come from registers.
const FROM_REGISTER: u32 = 0;
/// When a packet's description is there in the first stage: it comes from a queue in distributed memory.
const FROM_QUEUE: u32 = 400;
/// What comes from there.
const DESCRIPTION: [&str; 6] = ["for_frame", "for_message", "length", "now", "port", "window"];

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
    /// Of all packets that leave, see [`aligned`].
    pub aligned: u32,
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
    let mut ports = allot(&mut dag, &mut names)?;
    let commits = commits(&mut dag, &mut names, &ports);
    let header_bytes =
        dag.exits.iter().map(|exit| exit.header.iter().map(|part| part.1).sum()).max().unwrap_or(0);
    let header_bytes: u32 = u32::max(header_bytes, 1);
    let aligned = aligned(&dag.exits);
    let command = command(&mut dag, &mut names, header_bytes);
    ports.put_in(&mut dag);
    let mut ports = std::mem::take(&mut ports.list);
    let stages_of = |table: usize| dag.tables[table].pipe_stages();
    let wires: HashMap<&str, &Wire> = dag.wires.iter().map(|wire| (wire.name.as_str(), wire)).collect();
    let changed: BTreeSet<String> = ports
        .iter()
        .filter(|port| !port.fixed)
        .flat_map(|port| {
            let signals = &dag.tables[port.table].signals;
            FIELDS.map(|field| format!("{signals}_{field}{}", port.end))
        })
        .collect();
    let mut arrivals = Arrivals::new(wires.clone());
    for name in DESCRIPTION {
        arrivals.set(name, (0, FROM_QUEUE));
    }
    // Answers of tables that nothing changes, keys of which may be answers of others.
    let mut open: Vec<usize> = (0..ports.len()).filter(|at| ports[*at].fixed).collect();
    while !open.is_empty() {
        let answers = |port: &Port| -> Vec<String> {
            let signals = &dag.tables[port.table].signals;
            ["hit", "value"].map(|field| format!("{signals}_{field}{}", port.end)).to_vec()
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
    for port in ports.iter().filter(|port| !port.fixed) {
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
    let roots: Vec<String> = commits.iter().flat_map(|commit| commit.deciding().cloned()).collect();
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
    for port in ports.iter_mut().filter(|port| !port.fixed) {
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
    // A packet on its way needs a place in the queue behind.
    if exit >= MOST_STAGES {
        let span = dag.program.handlers.values().next().map_or_else(Default::default, |handler| handler.span);
        let reason = format!("it would have {} stages; a pipe has {MOST_STAGES} at most", exit + 1);
        return Err(NoPipe { reason, span });
    }
    // What no table, command or counter needs is left out.
    let outputs =
        commits.iter().flat_map(|commit| commit.deciding().chain([&commit.refused]).map(String::as_str));
    let texts: Vec<&str> = outputs
        .chain(command.values().map(String::as_str))
        .chain(ports.iter().map(|port| port.key.as_str()))
        .collect();
    let live = cone(&wires, texts.iter().flat_map(|text| used(text)));
    let valued: Vec<bool> = ports
        .iter()
        .map(|port| {
            let value = format!("{}_value{}", dag.tables[port.table].signals, port.end);
            live.contains(value.as_str())
        })
        .collect();
    let mut kept: Vec<Wire> =
        dag.wires.iter().filter(|wire| live.contains(wire.name.as_str())).cloned().collect();
    let stages = arrivals.stages();
    for (port, valued) in ports.iter_mut().zip(valued) {
        port.valued = valued;
    }
    kept.sort_by_key(|wire| stages.get(&wire.name).copied().unwrap_or(0));
    let interval = if ports.iter().any(|port| !port.fixed) { last - first + 1 } else { 1 };
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
        aligned,
        window_bytes: dag.window.next_multiple_of(64),
        message_bytes,
        notes: dag.notes,
        wires: kept,
    })
}
