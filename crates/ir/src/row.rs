//! Whether handlers can stand in stages one behind the other, each with a queue in front of it.
//!
//! Such a row takes an outside event, and what it leads to, from stage to stage: a stage runs the
//! handlers of all events that are for it, one at a time, before the next stage does, and has the
//! next outside event meanwhile. Queues keep order, tables belong to one stage, and what leaves is
//! put in order by outside event and stage. The definition is first in, first out for all internal
//! events of an outside event. Both are the same if
//!
//! * outside events enter at the first stage, and events go to later stages or stay in their own;
//! * no two stages use a table that changes;
//! * as long as one internal event waits at most: two stages draw random numbers only if the first
//!   one does so before it sends;
//! * where several may wait: stages that do something ordered handle events that are equally far
//!   from the outside one, farther ones later; a stage has one sender, and one stage draws random
//!   numbers.
//!
//! The last point says more than it would have to; who merges stages until nothing is left has a
//! row in any case, of one stage in the end. Cost: linear in the program, but for pairs of stages.

use cranelift_entity::SecondaryMap;

use crate::Direction;
use crate::critical::{accessed, mutable_tables};
use crate::ops::Op;
use crate::program::{BlockId, Body, EventId, Handler, HandlerId, Program, TableId};

/// Two stages that have to be one, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Together {
    pub stages: (usize, usize),
    /// The handler at which that shows.
    pub handler: HandlerId,
    pub why: String,
}

/// Most internal events that one run of a body generates, by event; loops count their trips.
pub fn generated(program: &Program, body: &Body) -> Vec<(EventId, u32)> {
    let counted = |event: EventId| (event, most(body, body.entry(), &|other| other == event));
    internal(program).map(counted).filter(|(_, count)| *count > 0).collect()
}

fn internal(program: &Program) -> impl Iterator<Item = EventId> {
    program.events.keys().filter(|event| program.events[*event].direction == Direction::Internal)
}

/// Most events of those wanted that one run of a region generates.
fn most(body: &Body, block: BlockId, wanted: &dyn Fn(EventId) -> bool) -> u32 {
    let mut total = 0u32;
    for &inst in &body.blocks[block].insts {
        let op = &body.insts[inst].op;
        let inner = op.regions().map(|region| most(body, region, wanted)).max().unwrap_or(0);
        total = total.saturating_add(match op {
            Op::Generate { event, .. } => u32::from(wanted(*event)),
            Op::Loop { max_trips, .. } => inner.saturating_mul(*max_trips),
            _ => inner,
        });
    }
    total
}

/// A stage's effects that matter for order.
struct Stage {
    tables: Vec<TableId>,
    /// Outputs, logs, drops.
    ordered: bool,
    random: bool,
    /// A random number may be drawn behind an internal event.
    late: bool,
    /// Stages it sends to, itself perhaps among them.
    to: Vec<usize>,
}

/// The first two stages that have to be one; none if the row does what the program means.
pub fn together(program: &Program, stages: &[Vec<HandlerId>]) -> Option<Together> {
    let of =
        |handler: HandlerId| stages.iter().position(|stage| stage.contains(&handler)).unwrap_or(0);
    let name = |handler: HandlerId| &program.handlers[handler].name;
    let found = |a: usize, b: usize, handler, why| {
        Some(Together { stages: (a.min(b), a.max(b)), handler, why })
    };
    for (at, stage) in stages.iter().enumerate().skip(1) {
        let outside = |h: &&HandlerId| {
            program.events[program.handlers[**h].event].direction != Direction::Internal
        };
        if let Some(handler) = stage.iter().find(outside) {
            return found(
                0,
                at,
                *handler,
                format!("`{}` takes events from outside behind the first stage", name(*handler)),
            );
        }
    }
    let rows: Vec<Stage> = stages.iter().map(|handlers| summary(program, handlers, &of)).collect();
    for (a, stage) in rows.iter().enumerate() {
        for (b, other) in rows.iter().enumerate().skip(a + 1) {
            if let Some(table) = stage.tables.iter().find(|table| other.tables.contains(table)) {
                let table = &program.tables[*table].name;
                let why = format!(
                    "`{}` and `{}` share table `{table}`, which changes",
                    name(stages[a][0]),
                    name(stages[b][0])
                );
                return found(a, b, stages[b][0], why);
            }
        }
        if let Some(to) = stage.to.iter().find(|to| **to < a) {
            let why =
                format!("`{}` sends events back to `{}`", name(stages[a][0]), name(stages[*to][0]));
            return found(a, *to, stages[a][0], why);
        }
    }
    let any = |event: EventId| program.events[event].direction == Direction::Internal;
    let several = program
        .handlers
        .values()
        .any(|handler| most(&handler.body, handler.body.entry(), &any) > 1);
    let depths = depths(program, stages);
    for (b, second) in rows.iter().enumerate() {
        for (a, first) in rows.iter().enumerate().take(b) {
            if first.random && second.random && (several || first.late) {
                let why = format!(
                    "`{}` and `{}` draw random numbers in an order of their own",
                    name(stages[a][0]),
                    name(stages[b][0])
                );
                return found(a, b, stages[b][0], why);
            }
            let behind = depths[a].1 < depths[b].0;
            if several && first.ordered && second.ordered && !behind {
                let why = format!(
                    "several events of a packet wait at a time, and `{}` and `{}` both do what can be seen from outside",
                    name(stages[a][0]),
                    name(stages[b][0])
                );
                return found(a, b, stages[b][0], why);
            }
        }
        let mut senders = (0..rows.len()).filter(|from| *from != b && rows[*from].to.contains(&b));
        if let (true, Some(one), Some(two)) = (several, senders.next(), senders.next()) {
            let why = format!(
                "several events of a packet wait at a time, and `{}` gets such from `{}` and `{}`",
                name(stages[b][0]),
                name(stages[one][0]),
                name(stages[two][0])
            );
            return found(one, two, stages[two][0], why);
        }
    }
    None
}

/// How far from the outside event the events of each stage are, least and most; what goes round has
/// no most.
fn depths(program: &Program, stages: &[Vec<HandlerId>]) -> Vec<(u32, u32)> {
    let sends: Vec<(HandlerId, HandlerId)> = program
        .handlers
        .iter()
        .flat_map(|(from, handler)| {
            generated(program, &handler.body).into_iter().map(move |sent| (from, sent.0))
        })
        .filter_map(|(from, event)| Some((from, program.handler_of(event)?)))
        .collect();
    let outside =
        |handler: &Handler| program.events[handler.event].direction != Direction::Internal;
    let mut depth: SecondaryMap<HandlerId, Option<(u32, u32)>> = SecondaryMap::new();
    for (id, handler) in &program.handlers {
        depth[id] = outside(handler).then_some((0, 0));
    }
    let rounds = program.handlers.len() as u32 + 1;
    for round in 0..=2 * rounds {
        for (from, to) in &sends {
            let Some((least, most)) = depth[*from] else { continue };
            let (least, most) = (least.saturating_add(1), most.saturating_add(1));
            let old = depth[*to].unwrap_or((least, 0));
            // Whatever still becomes farther after so many rounds goes round.
            let most = if round > rounds && most > old.1 { u32::MAX } else { most };
            depth[*to] = Some((old.0.min(least), old.1.max(most)));
        }
    }
    let of = |stage: &Vec<HandlerId>| {
        let mut all = stage.iter().filter_map(|handler| depth[*handler]);
        let first = all.next().unwrap_or((0, 0));
        all.fold(first, |sum, one| (sum.0.min(one.0), sum.1.max(one.1)))
    };
    stages.iter().map(of).collect()
}

fn summary(program: &Program, handlers: &[HandlerId], of: &impl Fn(HandlerId) -> usize) -> Stage {
    let mut stage = Stage {
        tables: mutable_tables(program, handlers),
        ordered: false,
        random: false,
        late: false,
        to: Vec::new(),
    };
    for handler in handlers {
        let body = &program.handlers[*handler].body;
        let mut sent = false;
        // In the order in which they stand; a loop may come to the first again.
        let mut loops = false;
        body.for_each_inst(body.entry(), &mut |inst| match &body.insts[inst].op {
            Op::Generate { event, .. }
                if program.events[*event].direction == Direction::Internal =>
            {
                sent = true;
                stage.to.extend(program.handler_of(*event).map(of));
            }
            op if op.draws() => {
                stage.random = true;
                stage.late |= sent;
            }
            Op::Loop { max_trips, .. } => loops |= *max_trips > 1,
            op => stage.ordered |= op.effects().ordered,
        });
        stage.late |= loops && sent && stage.random;
    }
    // Byte strings lie in one memory, also where nothing changes them.
    let strings: Vec<TableId> =
        program.tables.keys().filter(|table| program.tables[*table].buf.is_some()).collect();
    for handler in handlers {
        let body = &program.handlers[*handler].body;
        body.for_each_inst(body.entry(), &mut |inst| {
            stage.tables.extend(accessed(&body.insts[inst].op, &strings));
        });
    }
    stage.to.sort_unstable();
    stage.to.dedup();
    stage
}

/// Most events that wait in a stage because its own handlers sent them, for one outside event; none
/// if no bound below `limit` is found.
///
/// Waves are counted: what one wave leads to is the next. Two neighbours wait together at most.
/// Where events go round, waves that have not grown past the limit in so many waves never do: their
/// number is linear in a number that decides nothing.
pub fn waiting(program: &Program, stages: &[Vec<HandlerId>], at: usize, limit: u32) -> Option<u32> {
    let sends = |from: HandlerId, to: HandlerId| -> u32 {
        let list = generated(program, &program.handlers[from].body);
        list.iter()
            .filter(|(event, _)| program.handler_of(*event) == Some(to))
            .map(|(_, count)| *count)
            .fold(0, u32::saturating_add)
    };
    let own = &stages[at];
    if own.iter().all(|from| own.iter().all(|to| sends(*from, *to) == 0)) {
        return Some(0);
    }
    // What arrives from outside the stage.
    let mut arrived: Vec<u32> = own
        .iter()
        .map(|handler| {
            u32::from(
                program.events[program.handlers[*handler].event].direction != Direction::Internal,
            )
        })
        .collect();
    if at > 0 {
        let runs = runs(program, stages, at, limit, &sends)?;
        for (count, handler) in arrived.iter_mut().zip(own) {
            for (from, times) in &runs {
                *count = count.saturating_add(times.saturating_mul(sends(*from, *handler)));
            }
        }
    }
    most_waiting(own, arrived, limit, &sends).map(|(most, _)| most)
}

/// Most runs of every handler of the stages before one.
fn runs(
    program: &Program,
    stages: &[Vec<HandlerId>],
    before: usize,
    limit: u32,
    sends: &impl Fn(HandlerId, HandlerId) -> u32,
) -> Option<Vec<(HandlerId, u32)>> {
    let mut list: Vec<(HandlerId, u32)> = Vec::new();
    for (at, stage) in stages.iter().enumerate().take(before) {
        let arrived = stage.iter().map(|to| {
            let outside = u32::from(
                at == 0
                    && program.events[program.handlers[*to].event].direction != Direction::Internal,
            );
            list.iter().fold(outside, |sum, (from, times)| {
                sum.saturating_add(times.saturating_mul(sends(*from, *to)))
            })
        });
        let (_, runs) = most_waiting(stage, arrived.collect(), limit, sends)?;
        list.extend(stage.iter().copied().zip(runs));
    }
    Some(list)
}

/// Most events that wait, and the runs of each handler, if these arrive.
fn most_waiting(
    own: &[HandlerId],
    arrived: Vec<u32>,
    limit: u32,
    sends: &impl Fn(HandlerId, HandlerId) -> u32,
) -> Option<(u32, Vec<u32>)> {
    let total = |wave: &[u32]| wave.iter().fold(0u32, |sum, n| sum.saturating_add(*n));
    let (mut wave, mut runs, mut most) = (arrived.clone(), arrived, 0);
    for number in 0..=2 * limit {
        let next: Vec<u32> = own
            .iter()
            .map(|to| {
                own.iter().zip(&wave).fold(0u32, |sum, (from, times)| {
                    sum.saturating_add(times.saturating_mul(sends(*from, *to)))
                })
            })
            .collect();
        // The first wave waits in the queue in front of the stage.
        let before = if number == 0 { 0 } else { total(&wave) };
        most = most.max(before.saturating_add(total(&next)));
        if most > limit {
            return None;
        }
        if total(&next) == 0 {
            return Some((most, runs));
        }
        runs.iter_mut().zip(&next).for_each(|(sum, n)| *sum = sum.saturating_add(*n));
        wave = next;
    }
    // They go round.
    runs.iter_mut().zip(&wave).filter(|(_, n)| **n > 0).for_each(|(sum, _)| *sum = u32::MAX);
    Some((most, runs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{text, verify};

    const HEAD: &str = "program t ports 2\ntable seen: array[u32 -> u32] capacity 4\nevent net_recv(pkt: packet) in\n\
        event one(pkt: packet, n: u32) internal\nevent two(pkt: packet, n: u32) internal\nevent note(n: u32) internal\n\
        event net_send(pkt: packet, port: u32) out\n";
    const ONE: &str = "handler one on one(%p: packet, %n: u32) { generate two(%p, %n) return }\n";
    const TWO: &str =
        "handler two on two(%p: packet, %n: u32) { generate net_send(%p, %n) return }\n";
    const NOTE: &str = "handler note on note(%n: u32) { %h: u1, %v: u32 = lookup seen[%n] %u: u1 = update seen[%n], %n return }\n";

    fn program(recv: &str, rest: &[&str]) -> Program {
        let recv =
            format!("handler net_recv on net_recv(%p: packet) {{ %n: u32 = 1 {recv} return }}\n");
        let source = format!("{HEAD}{recv}{}", rest.concat());
        verify(text::parse(&source).unwrap_or_else(|e| panic!("{e:?}")))
            .unwrap_or_else(|e| panic!("{}", e[0]))
            .into_inner()
    }

    /// Every handler by itself, in program order.
    fn apart(program: &Program) -> Vec<Vec<HandlerId>> {
        program.handlers.keys().map(|handler| vec![handler]).collect()
    }

    fn why(recv: &str, rest: &[&str]) -> Option<String> {
        let program = program(recv, rest);
        together(&program, &apart(&program)).map(|found| found.why)
    }

    #[test]
    fn a_chain_may_stand_in_a_row() {
        assert_eq!(why("generate one(%p, %n)", &[ONE, TWO]), None);
        // What is sent behind by one handler is handled behind.
        assert_eq!(
            why("generate note(%n) generate note(%n) generate one(%p, %n)", &[ONE, TWO, NOTE]),
            None
        );
    }

    #[test]
    fn what_could_be_seen_is_refused() {
        let note_sends = "handler note on note(%n: u32) { log \"{}\"(%n) return }\n";
        let found = why("generate note(%n) generate two(%p, %n)", &[TWO, note_sends]).unwrap();
        assert!(found.contains("both do what can be seen"), "{found}");
        let back = "handler two on two(%p: packet, %n: u32) { generate one(%p, %n) return }\n";
        assert!(
            why("generate one(%p, %n)", &[ONE, back])
                .unwrap()
                .contains("sends events back to `one`")
        );
        let same = "handler two on two(%p: packet, %n: u32) { %u: u1 = update seen[%n], %n generate net_send(%p, %n) return }\n";
        assert!(
            why("generate note(%n) generate two(%p, %n)", &[NOTE, same])
                .unwrap()
                .contains("share table `seen`")
        );
        let late = "generate one(%p, %n) %r: u32 = random %u: u1 = update seen[%r], %n";
        let draws = "handler two on two(%p: packet, %n: u32) { %r: u32 = random generate net_send(%p, %r) return }\n";
        assert!(why(late, &[ONE, draws]).unwrap().contains("draw random numbers"));
    }

    #[test]
    fn how_many_wait() {
        let count = |recv: &str, rest: &[&str]| {
            let program = program(recv, rest);
            let all = vec![program.handlers.keys().collect()];
            waiting(&program, &all, 0, 64)
        };
        assert_eq!(count("generate net_send(%p, %n)", &[]), Some(0));
        assert_eq!(count("generate note(%n) generate one(%p, %n)", &[ONE, TWO, NOTE]), Some(3));
        let round = "handler one on one(%p: packet, %n: u32) { generate note(%n) generate one(%p, %n) return }\n";
        assert_eq!(count("generate one(%p, %n)", &[round, NOTE]), Some(4));
        let more = "handler note on note(%n: u32) { generate note(%n) generate note(%n) return }\n";
        assert_eq!(count("generate note(%n) generate net_send(%p, %n)", &[more]), None);
        let many = "loop 100 (%i: u32 = %n) -> (%j: u32) { generate note(%i) continue 0 (%i) } generate net_send(%p, %n)";
        assert_eq!(count(many, &[NOTE]), None);
    }
}
