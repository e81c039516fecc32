//! Which stage every wire is in.
//!
//! A wire is in the first stage in which its operands are there in time (`arrival`). Tables that
//! are changed are the exception: one shows its entry in a stage, `first`, late enough that
//! everything else which decides about its change is there before; from there on what depends on
//! the entry is scheduled like all else, and in stage `last` the change is made. If that is the
//! same stage a packet may follow in the next cycle; else, so that it sees the change, it follows
//! so many cycles later: all packets, or only those of the same entry, if these are told apart in
//! front of the table (`gate`). Packets use every table in their order, so each table has stages of
//! its own, one behind those on whose entries its key or its change depends (`order`); tables that
//! decide about each other have the same, or stages one behind the other if one says another's key.
//! Where a packet changes several entries of a table, one memory shows them in turn, each some
//! cycles after the one before, and packets follow when it is free again.

use std::collections::{BTreeSet, HashMap};

use super::super::SLOTS;
use super::super::expr::{Wire, used};
use super::super::tables::bits_below;
use super::arrival::Arrivals;
use super::at_once;
use super::dag::beside::{Question, latencies, room, share};
use super::dag::patches::Patches;
use super::dag::{Dag, NoPipe};
use super::exits::positions;
use super::gate::{self, Gate, Lock, Queue};
use super::leave::{Command, Commit, aligned, command, commits};
use super::levels::Levels;
use super::order::{self, Group, above, cone};
use super::ports::{Port, allot};
use super::string_lock::StringLock;
use crate::artifact::LogFormat;
use crate::c::names::Names;

/// Most slots of the packet buffer: 6144 lines, some 90 block memories.
const MOST_SLOTS: u32 = 256;
/// Cycles that a packet has its slot beside those in the stages: while it comes in, in queues, and
/// while it leaves.
const BESIDE_STAGES: u32 = 11;
/// Cycles that it is in each queue in front of a gate.
const QUEUE_CYCLES: u32 = 2;
/// When signals of a table are there in their stage: they come from registers.
const FROM_REGISTER: u32 = 0;
/// When a packet's description is there in the first stage: it comes from a queue in distributed
/// memory.
const FROM_QUEUE: u32 = 400;
/// What comes from there.
const DESCRIPTION: [&str; 8] =
    ["for_frame", "for_message", "length", "now", "port", "seed", "tick", "window"];

/// Handlers with a stage for everything.
#[derive(Clone, Debug)]
pub struct Pipe {
    pub wires: Vec<Wire>,
    pub constants: Vec<Wire>,
    /// Stage by name.
    pub stages: HashMap<String, u32>,
    pub ports: Vec<Port>,
    pub commits: Vec<Commit>,
    /// Cycles between packets, and between those that use the same entries.
    pub interval: u32,
    pub meeting: u32,
    /// Cycles between packets that enter.
    pub at_entry: u32,
    /// Slots of the packet buffer: packets that are on their way at most.
    pub slots: u32,
    /// Where packets wait, one behind the other.
    pub gates: Vec<Gate>,
    /// Why packets ask for several entries of a table in turn.
    pub in_turn: Vec<NoPipe>,
    /// Stage in which the command to the deparser is complete.
    pub exit: u32,
    /// Commands to the deparser, one behind the other.
    pub commands: Vec<Command>,
    /// Bytes that commands put into payload.
    pub patches: Patches,
    pub logs: Vec<LogFormat>,
    /// What modules beside the pipe are asked.
    pub asked: Vec<Question>,
    pub header_bytes: u32,
    /// Of all packets that leave, see [`aligned`].
    pub aligned: u32,
    pub window_bytes: u32,
    pub message_bytes: Option<u32>,
    /// True if random numbers are drawn.
    pub random: bool,
    pub notes: HashMap<String, String>,
}

impl Pipe {
    /// Bits of a slot's number.
    pub fn slot_bits(&self) -> u32 {
        bits_below(self.slots)
    }

    /// Of a table, how many cycles after its entry is shown it is changed while others are shown.
    pub fn apart(&self, table: usize) -> u32 {
        let lock = self.gates.iter().flat_map(|gate| &gate.locks).find(|lock| lock.table == table);
        lock.map_or(0, |lock| lock.apart)
    }

    /// The gate whose stages a stage is one of.
    pub fn holding(&self, stage: u32) -> Option<&Gate> {
        self.gates.iter().find(|gate| (gate.first()..=gate.stage).contains(&stage))
    }

    /// The queue between the stage before and this one.
    pub fn queue_before(&self, stage: u32) -> Option<&Queue> {
        self.gates
            .iter()
            .filter_map(|gate| gate.queue.as_ref())
            .find(|queue| queue.stage + 1 == stage)
    }
}

/// Schedules all handlers.
pub fn schedule(
    dag: &mut Dag,
    constants: Vec<Wire>,
    mut names: Names,
    message_bytes: Option<u32>,
) -> Result<Pipe, NoPipe> {
    share(dag, &mut names);
    let mut allotted = allot(dag, &mut names)?;
    let mut commits = commits(dag, &mut names, &allotted);
    let aligned = aligned(&dag.exits);
    let span =
        dag.program.handlers.values().next().map_or_else(Default::default, |handler| handler.span);
    let patches = Patches::of(&dag.exits);
    let positions = positions(&dag.exits, span)?;
    let commands: Vec<Command> =
        positions.iter().map(|exits| command(dag, &mut names, exits, patches)).collect();
    let header_bytes = commands.iter().map(|command| command.header_bytes).max().unwrap_or(1);
    let behind = at_once::join(dag, &mut names, &allotted, &mut commits);
    allotted.put_in(dag, &behind);
    let mut ports = std::mem::take(&mut allotted.list);
    let wires: HashMap<&str, &Wire> =
        dag.wires.iter().map(|wire| (wire.name.as_str(), wire)).collect();
    let mut arrivals =
        answered(dag, &wires, (&mut ports, &mut commits), (&Levels::default(), &[]))?;
    let told_apart = gate::told_apart(dag, &wires, (&allotted, &ports, &commits));
    let levels = Levels::of(dag, &wires, (&ports, &commits), &told_apart.compared);
    let mut gates: Vec<Gate> = Vec::new();
    for _ in 0..levels.gates {
        let here = (&levels, &told_apart, &gates[..]);
        gates.push(gate::next(
            dag,
            &wires,
            &mut arrivals,
            (&allotted, &ports, &commits),
            here,
            &mut names,
        ));
        arrivals = answered(dag, &wires, (&mut ports, &mut commits), (&levels, &gates))?;
    }
    let level = |commit: &Commit| levels.of_table(dag, &ports, commit.table);
    for (at, gate) in gates.iter_mut().enumerate() {
        gate.settle(commits.iter().filter(|commit| level(commit) == at + 1));
    }
    let at_entry =
        commits.iter().filter(|commit| level(commit) == 0).map(Commit::cycles).max().unwrap_or(1);
    let interval = gates.iter().map(|gate| gate.interval).max().unwrap_or(1).max(at_entry);
    let last = commits.iter().map(Commit::end).max().unwrap_or(0);
    let mut exit = last;
    let leaving: Vec<String> =
        commands.iter().flat_map(|command| command.fields.values().cloned()).collect();
    // Tables are asked even where nothing that leaves depends on the answer.
    let asked = ports.iter().map(|port| &port.key);
    let told =
        commits.iter().flat_map(|commit| [&commit.refused].into_iter().chain(commit.counted()));
    for text in leaving.iter().chain(asked).chain(told) {
        exit = exit.max(arrivals.expression(text).0);
    }
    let changes = commits.iter().map(Commit::cycles).max().unwrap_or(1);
    let meeting = gates.iter().map(|gate| gate.meeting(exit)).max().unwrap_or(1).max(changes);
    // Packets on their way need a slot, and a place in the queue behind them.
    let queue = QUEUE_CYCLES * gates.iter().filter(|gate| gate.queue.is_some()).count() as u32;
    let slots = (exit + queue + BESIDE_STAGES).next_power_of_two().max(SLOTS);
    if slots > MOST_SLOTS {
        let most = MOST_SLOTS - BESIDE_STAGES + 1;
        let reason = format!("it would have {} stages; a pipe has {most} at most", exit + 1);
        return Err(NoPipe { reason, span });
    }
    // What no table, command or counter needs is left out.
    let outputs = commits.iter().flat_map(|commit| {
        commit.deciding().chain([&commit.refused]).chain(commit.counted()).map(String::as_str)
    });
    let texts: Vec<&str> = outputs
        .chain(leaving.iter().map(String::as_str))
        .chain(ports.iter().map(|port| port.key.as_str()))
        .chain(gates.iter().flat_map(|gate| &gate.locks).flat_map(Lock::given).map(String::as_str))
        .chain(
            gates
                .iter()
                .flat_map(|gate| &gate.strings)
                .flat_map(StringLock::given)
                .map(String::as_str),
        )
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
    let asked: Vec<Question> =
        dag.asked.iter().filter(|asked| live.contains(asked.name.as_str())).cloned().collect();
    room(&asked, slots, dag.tables)?;
    let random = live.contains("seed");
    let stages = arrivals.stages();
    for (port, valued) in ports.iter_mut().zip(valued) {
        port.valued = valued;
    }
    kept.sort_by_key(|wire| stages.get(&wire.name).copied().unwrap_or(0));
    Ok(Pipe {
        constants,
        stages,
        ports,
        commits,
        interval,
        at_entry,
        meeting,
        slots,
        gates,
        in_turn: Vec::new(),
        exit,
        commands,
        patches,
        asked,
        header_bytes,
        aligned,
        window_bytes: dag.window.next_multiple_of(64),
        message_bytes,
        random,
        logs: dag.logs.clone(),
        notes: dag.notes.clone(),
        wires: kept,
    })
}

/// When tables are asked and answer, each behind as many of these gates as its level says, and when
/// everything else is there.
fn answered<'a>(
    dag: &Dag,
    wires: &HashMap<&'a str, &'a Wire>,
    (ports, commits): (&mut [Port], &mut [Commit]),
    (levels, gates): (&Levels, &[Gate]),
) -> Result<Arrivals<'a>, NoPipe> {
    let earliest = [0].into_iter().chain(gates.iter().map(|gate| gate.stage)).collect();
    let mut arrivals =
        Arrivals::new(wires.clone(), latencies(&dag.asked), (earliest, levels.clone()));
    for name in DESCRIPTION {
        arrivals.set(name, (0, FROM_QUEUE));
    }
    for group in order::order(dag, wires, ports, commits) {
        match group {
            Group::Fixed(at) => fixed(dag, &mut arrivals, &mut ports[at]),
            Group::Changed(..) => changed(dag, wires, &mut arrivals, &group, (ports, commits))?,
        }
    }
    Ok(arrivals)
}

/// A lookup in a table that nothing changes: as soon as its key is there.
fn fixed(dag: &Dag, arrivals: &mut Arrivals, port: &mut Port) {
    let earliest = port.answers(dag).first().map_or(0, |answer| arrivals.earliest(answer));
    port.ask = arrivals.asked(dag, port).max(earliest);
    port.answer = port.ask + dag.tables[port.table].pipe_stages();
    for name in port.answers(dag) {
        arrivals.set(&name, (port.answer, FROM_REGISTER));
    }
}

/// Tables that are changed and decide about each other's changes: one stage for their entries,
/// behind everything else that decides. Lookups by what these say, in tables that nothing changes,
/// lie between the entries and the changes; so do tables of the group whose keys what others of it
/// say, which have a stage for their entries behind those.
fn changed(
    dag: &Dag,
    wires: &HashMap<&str, &Wire>,
    arrivals: &mut Arrivals,
    group: &Group,
    (ports, commits): (&mut [Port], &mut [Commit]),
) -> Result<(), NoPipe> {
    let Group::Changed(tables, between) = group else { return Ok(()) };
    if let Some(table) = tables.iter().find(|table| dag.asks_in_turn(**table))
        && (tables.len() > 1 || !between.is_empty())
    {
        return together(dag, *table);
    }
    let (mut open, mut looked_up) = (tables.clone(), between.clone());
    // Tables by the stage of their entries.
    let mut firsts: Vec<(u32, Vec<usize>)> = Vec::new();
    while !open.is_empty() || !looked_up.is_empty() {
        let answers_of = |port: &Port| port.answers(dag);
        let own = |port: &&Port| !port.fixed && open.contains(&port.table);
        let mut waiting: Vec<String> = ports.iter().filter(own).flat_map(answers_of).collect();
        waiting.extend(looked_up.iter().flat_map(|port| ports[*port].answers(dag)));
        let depends = above(wires, &waiting);
        let known = |key: &str| !cone(wires, used(key)).iter().any(|name| depends.contains(name));
        if let Some(ready) = looked_up.iter().position(|port| known(&ports[*port].key)) {
            fixed(dag, arrivals, &mut ports[looked_up.remove(ready)]);
            continue;
        }
        let ready = |table: &usize| {
            ports
                .iter()
                .filter(|port| !port.fixed && port.table == *table)
                .all(|port| known(&port.key))
        };
        let (here, others): (Vec<usize>, Vec<usize>) = open.iter().copied().partition(ready);
        if here.is_empty() {
            let table = &dag.program.tables[nicforge_ir::TableId::from_u32(tables[0] as u32)];
            let reason = format!(
                "a key of table `{}`, which is changed, depends on an entry about whose change what is found decides",
                table.name
            );
            return Err(NoPipe { reason, span: table.span });
        }
        let keys: Vec<String> = looked_up.iter().map(|port| ports[*port].key.clone()).collect();
        let first = entries(dag, wires, arrivals, (&here, &keys, &depends), (ports, commits));
        if let [table] = here[..]
            && dag.asks_in_turn(table)
        {
            let own = ports.iter_mut().filter(|port| !port.fixed && port.table == table).collect();
            let commit = commits.iter_mut().find(|commit| commit.table == table);
            return in_turn(dag, arrivals, first, own, commit);
        }
        for port in ports.iter_mut().filter(|port| !port.fixed && here.contains(&port.table)) {
            (port.ask, port.answer) = (first - dag.tables[port.table].pipe_stages(), first);
            for name in port.answers(dag) {
                arrivals.set(&name, (first, FROM_REGISTER));
            }
            let commit = commits.iter().find(|commit| commit.table == port.table);
            if let Some(keys) = commit.and_then(Commit::placed) {
                arrivals.set(&port.place(dag), (first + at_once::places(keys), FROM_REGISTER));
            }
        }
        firsts.push((first, here));
        open = others;
    }
    for (first, tables) in firsts {
        let here = |commit: &&Commit| tables.contains(&commit.table);
        let places =
            commits.iter().filter(here).filter_map(Commit::placed).map(at_once::places).max();
        let roots: Vec<String> =
            commits.iter().filter(here).flat_map(|commit| commit.deciding().cloned()).collect();
        let decided = roots.iter().map(|text| arrivals.expression(text).0).max().unwrap_or(0);
        let last = decided.max(first + places.unwrap_or(0));
        for commit in commits.iter_mut().filter(|commit| tables.contains(&commit.table)) {
            (commit.first, commit.last) = (first, last);
        }
    }
    Ok(())
}

/// The stage of the entries of these tables: behind all else that decides about their changes, or
/// that these keys need, but for what depends on entries that are not there yet.
fn entries(
    dag: &Dag,
    wires: &HashMap<&str, &Wire>,
    arrivals: &mut Arrivals,
    (tables, keys, depends): (&[usize], &[String], &BTreeSet<&str>),
    (ports, commits): (&[Port], &[Commit]),
) -> u32 {
    let mut first = 0;
    for port in ports.iter().filter(|port| !port.fixed && tables.contains(&port.table)) {
        let earliest = port.answers(dag).first().map_or(0, |answer| arrivals.earliest(answer));
        first = first
            .max(arrivals.asked(dag, port).max(earliest) + dag.tables[port.table].pipe_stages());
    }
    let roots: Vec<&String> = commits
        .iter()
        .filter(|commit| tables.contains(&commit.table))
        .flat_map(Commit::deciding)
        .chain(keys)
        .collect();
    let deciding = cone(wires, roots.iter().flat_map(|text| used(text)));
    let depending =
        deciding.iter().filter(|name| depends.contains(*name)).filter_map(|name| wires.get(name));
    let texts = depending.map(|wire| &wire.value).chain(roots);
    for below in texts.flat_map(|text| used(text)).filter(|below| !depends.contains(below)) {
        first = first.max(arrivals.time(below).0 + 1);
    }
    first
}

/// Most cycles from one entry of a table to the next that a packet changes.
const MOST_PACE: u32 = 8;

/// A table whose entries a packet asks for in turn: each is changed before the next is there.
fn in_turn(
    dag: &Dag,
    arrivals: &mut Arrivals,
    first: u32,
    ports: Vec<&mut Port>,
    commit: Option<&mut Commit>,
) -> Result<(), NoPipe> {
    let Some(commit) = commit else { return Ok(()) };
    for pace in 1..=MOST_PACE {
        let mut tried = arrivals.clone();
        for port in &ports {
            for name in port.answers(dag) {
                tried.set(&name, (first + port.turn * pace, FROM_REGISTER));
            }
        }
        let mut late = 0;
        for port in 0..ports.len() {
            let shown = first + pace * port as u32;
            let decided = commit.deciding_at(port).map(|text| tried.expression(text).0).max();
            late = late.max(decided.unwrap_or(0).saturating_sub(shown));
        }
        if late < pace {
            *arrivals = tried;
            (commit.first, commit.last, commit.pace) = (first, first + late, pace);
            for port in ports {
                port.answer = first + port.turn * pace;
                port.ask = port.answer - dag.tables[commit.table].pipe_stages();
            }
            return Ok(());
        }
    }
    let table = &dag.program.tables[nicforge_ir::TableId::from_u32(commit.table as u32)];
    let reason = format!(
        "a packet changes several entries of table `{}`, and each takes more than {MOST_PACE} cycles to decide",
        table.name
    );
    Err(NoPipe { reason, span: table.span })
}

/// Several entries of a table, about whose change other tables decide.
fn together(dag: &Dag, table: usize) -> Result<(), NoPipe> {
    let table = &dag.program.tables[nicforge_ir::TableId::from_u32(table as u32)];
    let reason = format!(
        "a packet changes several entries of table `{}`, and what they say is looked up in other tables before",
        table.name
    );
    Err(NoPipe { reason, span: table.span })
}
