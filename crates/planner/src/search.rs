//! The search for a pipeline: map, find what limits, cut that, and again.
//!
//! The program as it is, one stage per event, is the first candidate. Each step takes the best
//! candidate that was not tried yet, cuts the handler that limits its rate in every way the cutter
//! offers, and maps what comes out. A cut may make things worse before a second one makes them
//! better (a parser on its own costs a hand-over; only the next cut gives stages that replicate),
//! so candidates are never thrown away for being slow: the search ends when nothing is left to cut,
//! at the ports' rate, or at a limit on candidates or time. It is deterministic but for the time
//! limit. (Alkali, NSDI'25, section 5; its prototype stops at the first cut that does not help.)

use std::collections::{BTreeSet, HashSet};
use std::time::Instant;

use nicforge_ir::{Direction, HandlerId, Program, Side, Verified, alive, text, verify};
use nicforge_plan::Step;
use nicforge_target::{LinkKind, Reorder, Target, cost};

use crate::cut::{self, Cutter, Objective, Options, Weights};
use crate::instance::{self, Config};
use crate::mapping::{self, Edge, Goal, Instance, Limit, Mapping, Score, better};
use crate::shard::{self, Steer};
use crate::stages;
use crate::start::only_forward;
use crate::tables;

/// Limits of a search.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Candidates that are mapped.
    pub candidates: u32,
    pub until: Option<Instant>,
    /// Go on when the ports' rate is reached, to see other pipelines.
    pub beyond_ceiling: bool,
}

/// Enough for every published program; the best plans come early.
pub const CANDIDATES: u32 = 100;

/// A pipeline and its mapping.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub program: Verified<Program>,
    pub stages: Vec<Vec<HandlerId>>,
    pub steers: Vec<Steer>,
    pub instance: Instance,
    pub mapping: Mapping,
    pub score: Score,
}

/// Results of the search.
#[derive(Clone, Debug)]
pub struct Found {
    /// All candidates in the order in which they were found.
    pub candidates: Vec<Candidate>,
    /// The best one.
    pub best: usize,
    pub steps: Vec<Step>,
    /// The time limit or an interruption ended it.
    pub interrupted: bool,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum NoPlan {
    #[error("{program} does not fit on {target}: {reason}")]
    DoesNotFit { program: String, target: String, reason: String },
    /// Queues that the target has not.
    #[error("{program} does not run on {target}: {reason}; {remedy}")]
    NoWay { program: String, target: String, reason: String, remedy: &'static str },
    #[error(transparent)]
    Pass(#[from] nicforge_passes::PassError),
}

/// Carried bytes that reading a header again counts as.
const REREAD_BYTES: u32 = 8;
/// Advice where a stage would have to send to itself or to an earlier one.
const AT_THE_END: &str =
    "enqueue once, in no loop, or let the two handlers share no table that either writes";
/// Shares upstream that are tried.
const BALANCES: [f64; 3] = [0.5, 0.25, 0.75];

/// Searches. `stop` is asked between candidates.
pub fn search(
    program: &Verified<Program>,
    target: &Target,
    config: &Config,
    goal: Goal,
    limits: Limits,
    stop: &dyn Fn() -> bool,
) -> Result<Found, NoPlan> {
    // Members of large structs apart take more of BPF's stack than the structs.
    let small_stack = target.links.iter().any(|link| link.kind == LinkKind::AfXdp);
    let mut prepared =
        if small_stack { cut::narrowed(program)? } else { cut::trimmed(program)? }.into_inner();
    cost::annotate(&mut prepared);
    let prepared = verify(prepared).map_err(|errors| NoPlan::DoesNotFit {
        program: program.name.clone(),
        target: target.name.clone(),
        reason: format!(
            "internal error: {}",
            errors.first().map_or(String::new(), ToString::to_string)
        ),
    })?;
    let mut search = Search {
        target,
        config,
        goal,
        candidates: vec![],
        steps: vec![],
        best: None,
        seen: HashSet::new(),
        back: None,
    };
    if search.add(prepared, None, "the program as it is".to_string()).is_none() {
        let (name, on) = (program.name.clone(), target.name.clone());
        return Err(match search.back {
            Some((reason, remedy)) => NoPlan::NoWay { program: name, target: on, reason, remedy },
            None => {
                let reason = why_not(program, target, config);
                NoPlan::DoesNotFit { program: name, target: on, reason }
            }
        });
    }
    let mut open: BTreeSet<usize> = BTreeSet::from([0]);
    let mut interrupted = false;
    // Every way out leaves the best candidate so far.
    while let Some(next) = search.most_promising(&open) {
        if search.at_ceiling() && !limits.beyond_ceiling {
            break;
        }
        if search.candidates.len() as u32 >= limits.candidates {
            break;
        }
        if stop() || limits.until.is_some_and(|until| Instant::now() >= until) {
            interrupted = true;
            break;
        }
        open.remove(&next);
        open.extend(search.expand(next, limits.candidates));
    }
    let best = search.best.unwrap_or(0);
    search.steps[best].chosen = true;
    Ok(Found { candidates: search.candidates, best, steps: search.steps, interrupted })
}

struct Search<'a> {
    target: &'a Target,
    config: &'a Config,
    goal: Goal,
    candidates: Vec<Candidate>,
    steps: Vec<Step>,
    best: Option<usize>,
    seen: HashSet<String>,
    /// Why a program was left out whose events go where the target has no queue for them, and what
    /// helps; the last one.
    back: Option<(String, &'static str)>,
}

impl Search<'_> {
    /// Maps a program and keeps it, unless it was there before or does not fit.
    fn add(
        &mut self,
        program: Verified<Program>,
        parent: Option<usize>,
        action: String,
    ) -> Option<usize> {
        if !self.seen.insert(text::print(&program, text::PrintOptions { spans: false })) {
            return None;
        }
        let stages = stages::on(&program, self.target);
        let steers = shard::steer(&program, &stages, self.target);
        let instance = instance::instance(&program, self.target, self.config, &stages, &steers);
        // Stages that share tables were merged; what lies between them would wait for itself.
        let mut back = instance.edges.iter().filter(|edge| edge.from > edge.to);
        if let Some(reason) = self.cannot_hand_on(&program, &stages) {
            self.back = Some((reason, AT_THE_END));
            return None;
        }
        let refused = match back.clone().find(|edge| !self.way_back(&program, &stages, edge)) {
            Some(edge) => Some((self.goes_round(&program, &stages, edge), AT_THE_END)),
            None => back.next().and_then(|edge| self.wants_order(&program, &stages, &steers, edge)),
        };
        let can_reorder = self.target.links.iter().any(|link| link.reorder != Reorder::None);
        if refused.is_some() || !can_reorder && steers.iter().any(|steer| steer.reorder) {
            self.back = refused.or(self.back.take());
            return None;
        }
        let mapping = mapping::map(&instance, self.goal)?;
        let score = mapping::score(&instance, self.goal, &mapping);
        let number = self.candidates.len();
        let name = |handlers: &Vec<HandlerId>| program.handlers[handlers[0]].name.clone();
        let step = Step {
            iteration: number as u32,
            parent: parent.map(|parent| parent as u32),
            action,
            stages: stages.iter().map(name).collect(),
            replicas: mapping.replicas.clone(),
            rate_pps: mapping.rate,
            measured_pps: None,
            limit: limit_words(&program, &stages, self.target, &mapping),
            best_pps: 0.0,
            chosen: false,
        };
        self.candidates.push(Candidate { program, stages, steers, instance, mapping, score });
        if self.best.is_none_or(|best| self.beats(number, best)) {
            self.best = Some(number);
        }
        let best_pps = self.best.map_or(0.0, |best| self.candidates[best].mapping.rate);
        self.steps.push(Step { best_pps, ..step });
        Some(number)
    }

    /// Why a stage cannot send what it sends, in words, where units have no links, or links that
    /// only lead to later stages.
    fn cannot_hand_on(&self, program: &Program, stages: &[Vec<HandlerId>]) -> Option<String> {
        let on_nic = |stage: &[HandlerId]| {
            stage.iter().all(|handler| program.handlers[*handler].side != Some(Side::Host))
        };
        let name = |stage: &[HandlerId]| program.handlers[stage[0]].name.clone();
        if self.target.in_a_row() {
            return None;
        }
        if self.target.links.is_empty() && stages.len() > 1 {
            let sends = |from: &&Vec<HandlerId>| {
                stages.iter().any(|to| *from != to && stages::sends_to(program, from, to))
            };
            return stages.iter().find(sends).map(|from| {
                format!(
                    "`{}` sends to another stage, and units of this target have no links",
                    name(from)
                )
            });
        }
        let itself =
            |stage: &&Vec<HandlerId>| on_nic(stage) && stages::sends_to(program, stage, stage);
        let found = stages.iter().find(itself).filter(|_| only_forward(self.target))?;
        Some(format!(
            "`{}` shares tables with a handler that it sends to, and events of this target only go \
             to later stages",
            name(found)
        ))
    }

    /// True if an edge to an earlier stage leads from the host's side to the NIC, as in the answers
    /// that a cache learns from. Where queues lose what does not fit, nothing waits. Elsewhere so
    /// many packets are let in that there is room for all they lead to, which has to have a bound
    /// ([`alive`]).
    fn way_back(&self, program: &Program, stages: &[Vec<HandlerId>], edge: &Edge) -> bool {
        let pinned = |stage: usize| {
            stages[stage].iter().all(|h| program.handlers[*h].side == Some(Side::Host))
        };
        let bounded = || alive::most_alive(program).is_some_and(|most| most <= alive::MOST_ROUND);
        pinned(edge.from) && !pinned(edge.to) && (self.loses() || bounded())
    }

    /// Queues of the target lose what does not fit.
    fn loses(&self) -> bool {
        self.target.links.iter().any(|link| link.kind == LinkKind::AfXdp)
    }

    /// Why an edge to an earlier stage cannot be, in words.
    fn goes_round(&self, program: &Program, stages: &[Vec<HandlerId>], edge: &Edge) -> String {
        let name = |stage: usize| &program.handlers[stages[stage][0]].name;
        format!(
            "`{}` sends to `{}`, which sends there: queues of this target wait when they are full, so each would wait for the other",
            name(edge.from),
            name(edge.to)
        )
    }

    /// Order is restored by what stages say they will send no more, which nobody can say where
    /// events come back.
    fn wants_order(
        &self,
        program: &Program,
        stages: &[Vec<HandlerId>],
        steers: &[Steer],
        edge: &Edge,
    ) -> Option<(String, &'static str)> {
        let stage =
            (!self.loses()).then(|| steers.iter().rposition(|steer| steer.reorder)).flatten()?;
        let name = |stage: usize| &program.handlers[stages[stage][0]].name;
        let reason = format!(
            "events reach `{}` by several ways, and nothing puts them in order again where events \
             come back, as from `{}` to `{}`",
            name(stage),
            name(edge.from),
            name(edge.to)
        );
        Some((reason, "write NF_UNORDERED before it if packets may overtake one another"))
    }

    /// Better for the goal; fewer stages where rates hardly differ.
    fn beats(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.candidates[a], &self.candidates[b]);
        let close =
            (a.score[0] - b.score[0]).abs() <= 1e-3 * a.score[0].abs().max(b.score[0].abs());
        if close && a.stages.len() != b.stages.len() {
            return a.stages.len() < b.stages.len();
        }
        better(a.score, b.score)
    }

    fn most_promising(&self, open: &BTreeSet<usize>) -> Option<usize> {
        open.iter().copied().reduce(|a, b| {
            if better(self.candidates[b].score, self.candidates[a].score) { b } else { a }
        })
    }

    /// Nothing is faster than the ports.
    fn at_ceiling(&self) -> bool {
        let Some(best) = self.best else { return false };
        let candidate = &self.candidates[best];
        self.goal == Goal::Rate && candidate.mapping.limit == Limit::Ports
    }

    /// Cuts what limits a candidate in every way; gives what is new.
    fn expand(&mut self, number: usize, most: u32) -> Vec<usize> {
        // What handlers cost as hardware only their generator knows: it replicates engines where
        // cutting would help.
        if self.target.in_a_row() {
            return vec![];
        }
        let candidate = self.candidates[number].clone();
        let Some(handler) = self.limiting(&candidate) else { return vec![] };
        let name = candidate.program.handlers[handler].name.clone();
        let (target, traffic) = (self.target, self.config.traffic);
        let op = |program: &Program, body: &nicforge_ir::Body, inst| {
            instance::op_weight(program, body, inst, target, traffic)
        };
        let weights = Weights { op: &op };
        let Ok(mut cutter) = Cutter::new(&candidate.program, handler, &weights) else {
            return vec![];
        };
        let mut fresh = Vec::new();
        for objective in Objective::ALL {
            for balance in BALANCES {
                if self.candidates.len() as u32 >= most {
                    return fresh;
                }
                // Packets stay with their events where frames cannot be sent from elsewhere.
                let without_packet =
                    self.target.links.iter().all(|link| link.kind != LinkKind::Cpumap);
                let on = self.config.optimisations;
                let options = Options {
                    objective,
                    balance,
                    without_packet: without_packet && on.without_packet,
                    reread_bytes: on.reread.then_some(REREAD_BYTES),
                    clean: on.clean,
                    ..Options::default()
                };
                let Ok(cut) = cutter.cut(&options) else { continue };
                let action = format!(
                    "cut `{name}` by {}, {:.0} % upstream",
                    objective.name(),
                    balance * 100.0
                );
                fresh.extend(self.add(cut.program, Some(number), action));
            }
        }
        fresh
    }

    /// The handler to cut: of the stage that limits, or that uses the limiting memory most.
    fn limiting(&self, candidate: &Candidate) -> Option<HandlerId> {
        let mapping = &candidate.mapping;
        let stage = match mapping.limit {
            Limit::Stage(stage) => stage,
            Limit::Memory(memory) => {
                let accesses = |s: usize| -> f64 {
                    let uses = candidate.instance.stages[s].uses.iter();
                    uses.filter(|(t, _)| mapping.memories[*t] == memory)
                        .map(|(_, a)| a.reads + a.writes)
                        .sum()
                };
                (0..candidate.stages.len()).max_by(|a, b| accesses(*a).total_cmp(&accesses(*b)))?
            }
            Limit::Accelerator(a) => {
                let busy = |s: usize| -> f64 {
                    let served = &candidate.instance.stages[s].served[mapping.groups[s]];
                    served.iter().filter(|(of, _)| *of == a).map(|(_, seconds)| seconds).sum()
                };
                (0..candidate.stages.len()).max_by(|a, b| busy(*a).total_cmp(&busy(*b)))?
            }
            Limit::HostLink | Limit::Ports => (0..candidate.stages.len())
                .max_by(|a, b| mapping.cycles[*a].total_cmp(&mapping.cycles[*b]))?,
        };
        let size = |handler: &HandlerId| candidate.program.handlers[*handler].body.insts.len();
        candidate.stages[stage].iter().copied().max_by_key(size)
    }
}

/// A mapping's limit, in words.
pub fn limit_words(
    program: &Program,
    stages: &[Vec<HandlerId>],
    target: &Target,
    mapping: &Mapping,
) -> String {
    match mapping.limit {
        Limit::Stage(s) => {
            let name = &program.handlers[stages[s][0]].name;
            let group = &target.units[mapping.groups[s]];
            let n = mapping.replicas[s];
            format!(
                "`{name}`: {:.0} cycles an event on {n} of {} {}",
                mapping.cycles[s], group.count, group.name
            )
        }
        Limit::Memory(m) => format!("accesses to {}", target.memories[m].name),
        Limit::Accelerator(a) => format!("the accelerator {}", target.accelerators[a].name),
        Limit::HostLink => "the link between NIC and host".to_string(),
        Limit::Ports => "the ports".to_string(),
    }
}

fn why_not(program: &Verified<Program>, target: &Target, config: &Config) -> String {
    for table in program.tables.keys() {
        let bytes = instance::table_bytes(program, table, target);
        let data = &program.tables[table];
        let holds = |memory: &&nicforge_target::Memory| {
            memory.size.value >= bytes as f64
                && memory.max_entries.is_none_or(|most| data.capacity <= most)
                && (data.buf.is_none() || memory.buffers)
        };
        if !target.memories.iter().any(|memory| holds(&memory)) {
            return format!("no memory holds table `{}` of {bytes} bytes", data.name);
        }
    }
    for stage in stages::on(program, target) {
        let outside =
            |h: &HandlerId| program.events[program.handlers[*h].event].direction == Direction::In;
        let side = |h: &HandlerId| program.handlers[*h].side.or(outside(h).then_some(Side::Nic));
        let on = |wanted: Side| stage.iter().find(|h| side(h) == Some(wanted));
        if let (Some(nic), Some(host)) = (on(Side::Nic), on(Side::Host)) {
            let tables = tables::of_handler(program, *nic);
            let both =
                tables::of_handler(program, *host).into_iter().find(|table| tables.contains(table));
            let what = both
                .map_or("tables".to_string(), |table| format!("`{}`", program.tables[table].name));
            return format!(
                "`{}` must run on the NIC and `{}` on the host, but they share {what}, and a table that changes lives on one \
                 side; keep it on one side and enqueue to a handler there",
                program.handlers[*nic].name, program.handlers[*host].name
            );
        }
    }
    let stages = stages::on(program, target);
    let steers = shard::steer(program, &stages, target);
    let can_reorder = target.links.iter().any(|link| link.reorder != Reorder::None);
    if let Some((stage, _)) =
        stages.iter().zip(&steers).find(|(_, steer)| steer.reorder && !can_reorder)
    {
        let last = stage[stage.len() - 1];
        return format!(
            "events reach `{}` by several ways, and nothing there puts them in order again; write NF_UNORDERED before \
             it if packets may overtake one another",
            program.handlers[last].name
        );
    }
    if !config.pin_tables.is_empty() {
        return "the tables do not fit where they are pinned".to_string();
    }
    let most: u32 = target.units.iter().map(|group| group.count).sum();
    format!("its tables do not fit together, or it needs more than {most} units")
}
