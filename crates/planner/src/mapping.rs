//! Mapping: replicas per stage, a unit group per stage, a memory per table, so that the slowest
//! part is as fast as can be.
//!
//! # The problem
//!
//! Stages `s` see `w_s` events per packet and cost `c_s` cycles of a unit each; `c_s` depends on
//! the unit group, on the memories of the stage's tables, on how many senders it polls (incast)
//! and, under locks, on how many replicas contend. With `n_s` replicas at clock `f_s` the program
//! keeps up with
//!
//! ```text
//! R = min( min_s  v_s(n_s) · f_s / (w_s · c_s),   min_t  k_t / (w_s · h_t),   min_m  operations_m / operations per packet on m,
//!          ceiling of the ports )
//! ```
//!
//! What `n` replicas are worth, `v(n)`, is `n` where events go to them in turn and less where keys
//! choose ([`skew`](crate::skew)). `h_t` is how long an event keeps an entry of a table that it
//! writes, and `k_t` how many entries are in use: one flow is served no faster than its entry,
//! however many threads and replicas there are.
//!
//! subject to units per group, memory sizes, entries of associative memories, and what may be
//! replicated (Alkali, NSDI'25, section 5, states the problem; it hands it to an SMT solver with a
//! target to reach).
//!
//! # Why this is exact
//!
//! Units of one group are interchangeable, so only counts matter. For a given rate `R` the fewest
//! replicas of a stage follow from the counts of the stages that feed it; going through the stages
//! in event order, each as small as possible, gives the smallest vector of counts, because every
//! cost grows with the counts before it. So `R` is reachable with given memories if and only if
//! that least vector fits. The best `R` is found by starting from one replica each and asking again
//! and again for "a little more than what this vector reaches": every answer has more replicas, so
//! this ends, and no rate in between is missed, since between two least vectors the rate cannot
//! change. Memories, groups and locks are enumerated depth first; a branch is left when even the
//! fastest memory for every open table, capacities ignored, would not beat the best answer. (Long
//! pipelines have too many assignments to groups and programs too many tables for that; see
//! `MOST_ASSIGNMENTS` and `MOST_LOOKS`.) Tables that are alike go to memories in the order in which
//! these are tried: to exchange two of them changes nothing. With capacities that do
//! not matter (the usual case) the first descent meets the bound and ends the search. Ties are
//! broken by fewest units, then least cycles, then first in order: the answer is the same on every
//! run.
//!
//! Counts are then made for [`HEADROOM`] times what ports and memories take, as far as units reach.
//!
//! `tests` compares with enumeration of everything on random instances.

mod view;

use nicforge_ir::TableId;
use nicforge_target::cost::{self, Load, TableAccess};
use nicforge_target::{Device, Locks, Memory, Scope, UnitGroup};

use view::View;

/// A program and a target to be mapped. Stages come in event order: senders before receivers.
#[derive(Clone, Debug)]
pub struct Instance {
    pub stages: Vec<StageNeed>,
    pub tables: Vec<TableNeed>,
    pub groups: Vec<UnitGroup>,
    pub memories: Vec<Memory>,
    /// From group to group: what a message costs, or nothing if there is no way.
    pub links: Vec<Vec<Option<LinkCost>>>,
    /// Events between stages.
    pub edges: Vec<Edge>,
    /// Bits per second between NIC and host.
    pub host_link: f64,
    pub locks: Option<Locks>,
    /// How many there are of each of the target's accelerators.
    pub accelerators: Vec<u32>,
    /// Packets per second beyond which more is of no use.
    pub ceiling: f64,
    /// A shard is as large as its table, and memories that replicas share must have room for all of
    /// them.
    pub whole_shards: bool,
}

/// Cycles per message.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkCost {
    pub send: f64,
    pub receive: f64,
    /// Of both ends, per byte.
    pub byte: f64,
    /// Of the receiver, for every sender beyond the first.
    pub incast: f64,
    /// Of the receiver, where order is restored.
    pub reorder: f64,
    /// Bytes a message carries at most.
    pub max_bytes: u32,
}

/// Events from one stage to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edge {
    pub from: usize,
    pub to: usize,
    /// Events per packet.
    pub weight: f64,
    /// Carried besides the packet.
    pub bytes: u32,
    /// Of these what does not cross to another device, in the mean.
    pub zeros: u32,
    /// Bytes that cross the link if the stages are on different devices: the packet, back again if
    /// it is sent from there.
    pub wire_bytes: f64,
    /// Order is restored before `to`.
    pub reorder: bool,
}

#[derive(Clone, Debug)]
pub struct StageNeed {
    /// Per unit group: the cost there, or nothing if it cannot run there.
    pub cost: Vec<Option<UnitCost>>,
    /// Per unit group: accelerators that an event uses, with the seconds it keeps one of them busy.
    pub served: Vec<Vec<(usize, f64)>>,
    /// Events per packet.
    pub weight: f64,
    pub max_replicas: u32,
    /// Replicas it is to have even if fewer keep up, as far as there are units: instances that the
    /// program asks for.
    pub asked_replicas: u32,
    /// What 1, 2, ... replicas are worth; counts beyond the list are worth themselves.
    pub worth: Vec<f64>,
    /// Flows at a time, for the entries that events wait for.
    pub flows: f64,
    /// Replicas may share tables under locks where this many are not allowed otherwise.
    pub lockable: bool,
    /// Tables of `uses` for which a lock on each entry is enough; the others have one lock.
    pub by_entry: Vec<usize>,
    /// Index into `tables`, and the accesses of one event.
    pub uses: Vec<(usize, TableAccess)>,
}

/// Processing of one event on a unit of a group, tables apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnitCost {
    pub cycles: f64,
    /// A thread's waiting for accelerators, and how often it does.
    pub wait_ns: f64,
    pub waits: f64,
    /// Writes an entry that it reads: hardware pipelines have another interval for that.
    pub updates: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TableNeed {
    /// Of one instance.
    pub bytes: u64,
    pub entries: u32,
    /// Filled from outside only: copies are equal.
    pub read_only: bool,
    /// Only added to, or the like: partial values are merged when read.
    pub commutative: bool,
    pub buffers: bool,
    /// Pinned by the user.
    pub only: Option<usize>,
}

/// Limits of the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Stage(usize),
    Memory(usize),
    Accelerator(usize),
    HostLink,
    Ports,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapping {
    /// Index of the unit group, per stage.
    pub groups: Vec<usize>,
    pub replicas: Vec<u32>,
    pub locked: Vec<bool>,
    /// Index of the memory, per table.
    pub memories: Vec<usize>,
    /// Cycles per event of a stage as mapped.
    pub cycles: Vec<f64>,
    /// Packets per second that each stage keeps up with.
    pub rates: Vec<f64>,
    /// Processing alone, and nanoseconds of waiting.
    pub loads: Vec<Load>,
    /// Packets per second, below the ceiling or equal to it.
    pub rate: f64,
    /// The rate without the ports' ceiling.
    pub unlimited: f64,
    pub limit: Limit,
}

/// Stages get so much more than what ports and memories take if units are there: what they cost is
/// a mean, queues need some slack, and a memory near its limit answers late, which takes more
/// threads to hide (the simulator shows both).
pub const HEADROOM: f64 = 1.25;

/// Goals of a mapping.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    Rate,
    /// Fewest units at a rate.
    Footprint(f64),
    /// Least sum of stage times, at any rate.
    Latency,
    /// Least active power per packet; `base` watts are there anyway.
    Energy {
        base: f64,
    },
}

/// Choices that a search node has made: `None` is still open.
struct Partial {
    groups: Vec<usize>,
    locked: Vec<bool>,
    memories: Vec<Option<usize>>,
}

/// Assignments of stages to groups that are tried all; with more, stages are moved one at a time
/// and the answer may not be the best.
const MOST_ASSIGNMENTS: usize = 1 << 14;

/// Tables that are looked at for one assignment to groups, each once for every choice among
/// memories; then the best answer so far counts.
const MOST_LOOKS: usize = 1 << 17;
/// Tables that are looked at where there is no answer yet.
const MOST_LOOKS_AT_ALL: usize = 1 << 22;

/// The best mapping, or nothing if the program does not fit.
pub fn map(instance: &Instance, goal: Goal) -> Option<Mapping> {
    map_within(instance, goal, MOST_ASSIGNMENTS)
}

/// The best mapping, where up to `most` assignments are all tried.
fn map_within(instance: &Instance, goal: Goal, most: usize) -> Option<Mapping> {
    let alike = alike(instance);
    let mut search = Search { instance, goal, alike, best: None, looks: 0 };
    let mut partial = Partial {
        groups: vec![usize::MAX; instance.stages.len()],
        locked: vec![false; instance.stages.len()],
        memories: vec![None; instance.tables.len()],
    };
    let ways = search.ways();
    let assignments: usize =
        ways.iter().fold(1, |product, here| product.saturating_mul(here.len()));
    if assignments <= most {
        search.all(&mut partial, &ways, 0);
    } else {
        search.descend(&mut partial, &ways);
    }
    search.best.map(|(_, mapping)| mapping)
}

/// The mapping with everything chosen: what a plan that a person wrote is worth.
pub fn evaluate(
    instance: &Instance,
    groups: &[usize],
    memories: &[usize],
    replicas: &[u32],
) -> Option<Mapping> {
    let partial = Partial {
        groups: groups.to_vec(),
        locked: instance
            .stages
            .iter()
            .zip(replicas)
            .map(|(stage, n)| *n > stage.max_replicas)
            .collect(),
        memories: memories.iter().map(|memory| Some(*memory)).collect(),
    };
    let view = View::new(instance, &partial)?;
    Some(view.mapping(instance, &partial, replicas.to_vec()))
}

/// Larger is better, element by element.
pub type Score = [f64; 3];

/// True if `a` is better, rounding apart.
pub fn better(a: Score, b: Score) -> bool {
    for (a, b) in a.into_iter().zip(b) {
        // Rates that differ by rounding are equal.
        let close = (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
        if !close {
            return a > b;
        }
    }
    false
}

struct Search<'a> {
    instance: &'a Instance,
    goal: Goal,
    /// By table, the last one before it that is as it is.
    alike: Vec<Option<usize>>,
    best: Option<(Score, Mapping)>,
    /// At tables, for this assignment to groups.
    looks: usize,
}

impl Search<'_> {
    /// Groups in which every stage may be, without and with locks.
    fn ways(&self) -> Vec<Vec<(usize, bool)>> {
        let of = |need: &StageNeed| {
            let groups =
                (0..self.instance.groups.len()).filter(|group| need.cost[*group].is_some());
            let locks = need.lockable && self.instance.locks.is_some();
            groups
                .flat_map(|group| [(group, false), (group, true)])
                .filter(|way| locks || !way.1)
                .collect()
        };
        self.instance.stages.iter().map(of).collect()
    }

    /// Every assignment of stages to groups.
    fn all(&mut self, partial: &mut Partial, ways: &[Vec<(usize, bool)>], stage: usize) {
        let Some(here) = ways.get(stage) else {
            self.memories(partial);
            return;
        };
        for way in here {
            (partial.groups[stage], partial.locked[stage]) = *way;
            self.all(partial, ways, stage + 1);
        }
    }

    /// From all stages in one group as far as they can be there, one stage is moved at a time, as
    /// long as that makes the best one better.
    fn descend(&mut self, partial: &mut Partial, ways: &[Vec<(usize, bool)>]) {
        for start in 0..self.instance.groups.len() {
            for (stage, here) in ways.iter().enumerate() {
                let Some(first) = here.iter().find(|way| way.0 == start).or(here.first()) else {
                    return;
                };
                (partial.groups[stage], partial.locked[stage]) = *first;
            }
            self.memories(partial);
            let mut improved = true;
            while improved {
                improved = false;
                for (stage, here) in ways.iter().enumerate() {
                    let mut kept = (partial.groups[stage], partial.locked[stage]);
                    for way in here {
                        (partial.groups[stage], partial.locked[stage]) = *way;
                        let before = self.best.as_ref().map(|best| best.0);
                        self.memories(partial);
                        if self.best.as_ref().map(|best| best.0) != before {
                            (kept, improved) = (*way, true);
                        }
                    }
                    (partial.groups[stage], partial.locked[stage]) = kept;
                }
            }
        }
    }

    /// Memories for all tables under an assignment to groups.
    fn memories(&mut self, partial: &mut Partial) {
        self.looks = 0;
        self.tables(partial, 0);
    }

    fn tables(&mut self, partial: &mut Partial, table: usize) {
        let most = if self.best.is_some() { MOST_LOOKS } else { MOST_LOOKS_AT_ALL };
        if self.looks > most {
            return;
        }
        self.looks += self.instance.tables.len();
        // An upper bound once something is open, the value itself once nothing is.
        let Some(view) = View::new(self.instance, partial) else { return };
        let Some(replicas) = view.best(self.instance, self.goal) else { return };
        let mapping = view.mapping(self.instance, partial, replicas);
        let score = self.score(&mapping);
        if self.best.as_ref().is_some_and(|(best, _)| !better(score, *best)) {
            return;
        }
        if table == self.instance.tables.len() {
            self.best = Some((score, mapping));
            return;
        }
        let memories = 0..self.instance.memories.len();
        let mut order: Vec<(f64, usize)> =
            memories.map(|memory| (self.table_time(partial, table, memory), memory)).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let before = self.alike[table].and_then(|table| partial.memories[table]);
        let from = order.iter().position(|(_, memory)| Some(*memory) == before).unwrap_or(0);
        for (_, memory) in order.split_off(from) {
            if !self.fits(partial, table, memory) {
                continue;
            }
            partial.memories[table] = Some(memory);
            self.tables(partial, table + 1);
        }
        partial.memories[table] = None;
    }

    /// Time that all stages together spend on a table in a memory, for the order in which memories
    /// are tried.
    fn table_time(&self, partial: &Partial, table: usize, memory: usize) -> f64 {
        let uses = self.instance.stages.iter().enumerate().flat_map(|(s, stage)| {
            stage
                .uses
                .iter()
                .filter(move |(t, _)| *t == table)
                .map(move |(_, access)| (s, stage.weight, access))
        });
        uses.map(|(stage, weight, access)| {
            let group = &self.instance.groups[partial.groups[stage]];
            let mut load = Load::default();
            load.add_access(group, &self.instance.memories[memory], access);
            weight * (load.wait_ns + load.cycles / group.clock.value * 1e9)
        })
        .sum()
    }

    fn fits(&self, partial: &mut Partial, table: usize, memory: usize) -> bool {
        partial.memories[table] = Some(memory);
        let fits = fits(self.instance, partial, table, memory);
        partial.memories[table] = None;
        fits
    }

    fn score(&self, mapping: &Mapping) -> Score {
        score(self.instance, self.goal, mapping)
    }
}

/// By table, the last one before it that needs and is used as it is.
fn alike(instance: &Instance) -> Vec<Option<usize>> {
    let uses = |table: usize| {
        let of_stage = |stage: &StageNeed| -> Vec<(TableAccess, bool)> {
            let uses = stage.uses.iter().filter(|(used, _)| *used == table);
            let nameless =
                |access: &TableAccess| TableAccess { table: TableId::from_u32(0), ..*access };
            uses.map(|(_, access)| (nameless(access), stage.by_entry.contains(&table))).collect()
        };
        instance.stages.iter().map(of_stage).collect::<Vec<_>>()
    };
    let all: Vec<_> = (0..instance.tables.len()).map(uses).collect();
    let same = |a: usize, b: usize| instance.tables[a] == instance.tables[b] && all[a] == all[b];
    (0..all.len()).map(|table| (0..table).rev().find(|other| same(*other, table))).collect()
}

/// How good a mapping is for a goal; larger is better, element by element.
pub fn score(instance: &Instance, goal: Goal, mapping: &Mapping) -> Score {
    let units: f64 = mapping.replicas.iter().map(|n| f64::from(*n)).sum();
    let time = |s: usize| {
        let group = &instance.groups[mapping.groups[s]];
        let load = mapping.loads[s];
        instance.stages[s].weight * (load.wait_ns + load.cycles / group.clock.value * 1e9)
    };
    let latency: f64 = (0..mapping.groups.len()).map(time).sum();
    match goal {
        Goal::Rate => [mapping.rate, -units, -latency],
        Goal::Footprint(_) => [-units, mapping.rate, -latency],
        Goal::Latency => [-latency, mapping.rate, -units],
        Goal::Energy { base } => {
            let power: f64 = (0..mapping.groups.len())
                .map(|s| {
                    f64::from(mapping.replicas[s])
                        * instance.groups[mapping.groups[s]].active_power.value
                })
                .sum();
            [-(base + power) / mapping.rate.max(1.0), mapping.rate, -units]
        }
    }
}

/// True if a table may live in a memory, with the tables placed so far.
fn fits(instance: &Instance, partial: &Partial, table: usize, memory: usize) -> bool {
    rejection(instance, &partial.groups, &partial.locked, &partial.memories, table, memory)
        .is_none()
}

/// Why a table may not live in a memory; `memories` holds where it and the others are.
pub fn rejection(
    instance: &Instance,
    groups: &[usize],
    locked: &[bool],
    memories: &[Option<usize>],
    table: usize,
    memory: usize,
) -> Option<String> {
    let need = &instance.tables[table];
    let place = &instance.memories[memory];
    let users = || {
        instance.stages.iter().enumerate().filter(|(_, s)| s.uses.iter().any(|(t, _)| *t == table))
    };
    if need.only.is_some_and(|only| only != memory) {
        return Some("it is pinned elsewhere".to_string());
    }
    if need.buffers && !place.buffers {
        return Some("it does not hold byte strings".to_string());
    }
    if need.bytes as f64 > place.size.value {
        return Some(format!("{} bytes do not fit into {}", need.bytes, place.size));
    }
    if place.max_entries.is_some_and(|most| need.entries > most) {
        return Some(format!(
            "{} entries, it holds {}",
            need.entries,
            place.max_entries.unwrap_or(0)
        ));
    }
    for (s, _) in users() {
        if device(instance, groups[s]) != place.device {
            return Some("it is on the other side of the host link".to_string());
        }
        if locked[s] && place.scope == Scope::Unit {
            return Some("replicas share the table, this memory is private to a unit".to_string());
        }
    }
    // Tables that share an instance: of one stage in a unit's memory, all of them otherwise.
    let together = |other: usize| {
        memories[other] == Some(memory)
            && (place.scope != Scope::Unit
                || users().any(|(_, stage)| stage.uses.iter().any(|(t, _)| *t == other)))
    };
    let others: Vec<usize> =
        (0..instance.tables.len()).filter(|other| *other != table && together(*other)).collect();
    let bytes: u64 = others.iter().map(|t| instance.tables[*t].bytes).sum::<u64>() + need.bytes;
    if bytes as f64 > place.size.value {
        return Some(format!(
            "with the tables placed there before it would hold {bytes} bytes, it has {}",
            place.size
        ));
    }
    let entries: u32 =
        others.iter().map(|t| instance.tables[*t].entries).sum::<u32>() + need.entries;
    if place.max_entries.is_some_and(|most| entries > most) {
        return Some(format!(
            "with the tables placed there before it would have {entries} entries"
        ));
    }
    None
}

fn device(instance: &Instance, group: usize) -> Device {
    instance.groups[group].device
}

#[cfg(test)]
#[path = "mapping_tests.rs"]
mod tests;
