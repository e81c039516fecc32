//! Which handlers run together, in which order stages stand, and who sends to whom.

use std::collections::BTreeSet;

use nicforge_ir::row::together;
use nicforge_ir::{Direction, EventId, HandlerId, Op, Program, Side, TableId, Type};

use nicforge_target::Target;

use crate::tables::{mutable, table_of};

/// The first function of C with state that a handler calls.
pub(crate) fn calls_c(program: &Program, handler: HandlerId) -> Option<&str> {
    let body = &program.handlers[handler].body;
    let mut found = None;
    body.for_each_inst(body.entry(), &mut |inst| {
        if let Op::Extern { name, pure: false, .. } = &body.insts[inst].op {
            found.get_or_insert(name.as_str());
        }
    });
    found
}

/// Handlers that run together because they share tables, or whatever state functions of C have, in
/// event order.
pub fn stages(program: &Program) -> Vec<Vec<HandlerId>> {
    let mutable = mutable(program);
    let mut groups: Vec<(Vec<HandlerId>, BTreeSet<Option<TableId>>)> = Vec::new();
    for handler in order(program) {
        let body = &program.handlers[handler].body;
        let mut tables = BTreeSet::new();
        body.for_each_inst(body.entry(), &mut |inst| {
            tables.extend(
                table_of(&body.insts[inst].op).filter(|table| mutable.contains(table)).map(Some),
            );
        });
        tables.extend(calls_c(program, handler).map(|_| None));
        // The first group that shares a table takes this handler, and every other such group with
        // it.
        let mut merged = (vec![], tables);
        let mut at = None;
        let mut n = 0;
        while n < groups.len() {
            if groups[n].1.is_disjoint(&merged.1) {
                n += 1;
                continue;
            }
            let (handlers, tables) = groups.remove(n);
            merged.0.extend(handlers);
            merged.1.extend(tables);
            at.get_or_insert(n);
        }
        merged.0.push(handler);
        groups.insert(at.unwrap_or(groups.len()), merged);
    }
    forward(program, groups.into_iter().map(|(handlers, _)| handlers).collect())
}

/// Stages of a program on a target. Cores of a sPIN NIC all run whatever a packet starts.
pub fn on(program: &Program, target: &Target) -> Vec<Vec<HandlerId>> {
    if target.in_a_row() {
        in_a_row(program)
    } else if target.spin.is_some() {
        vec![order(program)]
    } else {
        stages(program)
    }
}

/// Stages for a target whose stages stand in a row ([`nicforge_ir::row`]): those that have to be
/// one are.
pub fn in_a_row(program: &Program) -> Vec<Vec<HandlerId>> {
    let mut stages = stages(program);
    while let Some(found) = together(program, &stages) {
        let (first, second) = found.stages;
        let handlers = stages.remove(second);
        stages[first].extend(handlers);
    }
    stages
}

/// Stages so that events go to later ones, which merging may have undone; ways back from the host
/// do not count. Where events go round on one side there is no such order, and the rest stays as it
/// is.
fn forward(program: &Program, mut stages: Vec<Vec<HandlerId>>) -> Vec<Vec<HandlerId>> {
    let on_host =
        |stage: &[HandlerId]| stage.iter().all(|h| program.handlers[*h].side == Some(Side::Host));
    let leads = |from: &[HandlerId], to: &[HandlerId]| {
        let back = on_host(from) && !on_host(to);
        !back && sends_to(program, from, to)
    };
    let mut ordered = Vec::with_capacity(stages.len());
    while !stages.is_empty() {
        let first = (0..stages.len()).find(|to| {
            (0..stages.len()).all(|from| from == *to || !leads(&stages[from], &stages[*to]))
        });
        ordered.push(stages.remove(first.unwrap_or(0)));
    }
    ordered
}

/// Handlers so that senders come before receivers; those of outside events in program order.
fn order(program: &Program) -> Vec<HandlerId> {
    fn visit(
        program: &Program,
        handler: HandlerId,
        seen: &mut BTreeSet<HandlerId>,
        last: &mut Vec<HandlerId>,
    ) {
        if !seen.insert(handler) {
            return;
        }
        let body = &program.handlers[handler].body;
        let mut next: Vec<HandlerId> = Vec::new();
        body.for_each_inst(body.entry(), &mut |inst| {
            if let Op::Generate { event, .. } = &body.insts[inst].op {
                next.extend(program.handler_of(*event));
            }
        });
        // What comes first is visited last, so that it stays first among equals when the list is
        // turned round.
        for receiver in next.into_iter().rev() {
            visit(program, receiver, seen, last);
        }
        last.push(handler);
    }
    let outside =
        |h: &HandlerId| program.events[program.handlers[*h].event].direction != Direction::Internal;
    let entries: Vec<HandlerId> = program.handlers.keys().filter(outside).collect();
    let (mut seen, mut last) = (BTreeSet::new(), Vec::new());
    for handler in entries.into_iter().rev() {
        visit(program, handler, &mut seen, &mut last);
    }
    let unreached: Vec<HandlerId> = program.handlers.keys().filter(|h| !seen.contains(h)).collect();
    for handler in unreached {
        visit(program, handler, &mut seen, &mut last);
    }
    last.reverse();
    last
}

/// True if a stage of the NIC hands packets to handlers that are pinned to the host.
pub(crate) fn gives_to_host(program: &Program, stage: &[HandlerId]) -> bool {
    let pinned = |h: &HandlerId| program.handlers[*h].side == Some(Side::Host);
    let takes = |h: &HandlerId| {
        program.events[program.handlers[*h].event]
            .params
            .iter()
            .any(|param| param.ty == Type::Packet)
    };
    let hosts: Vec<HandlerId> = program.handlers.keys().filter(pinned).filter(takes).collect();
    !stage.iter().any(pinned) && sends_to(program, stage, &hosts)
}

/// True if one stage sends events to another.
pub(crate) fn sends_to(program: &Program, from: &[HandlerId], to: &[HandlerId]) -> bool {
    generates(program, from, |event| {
        program.handler_of(event).is_some_and(|handler| to.contains(&handler))
    })
}

/// True if a stage sends packets to the network.
pub(crate) fn sends_out(program: &Program, stage: &[HandlerId]) -> bool {
    does(program, stage, |op| program.sends(op))
}

/// True if a stage generates an event like this.
fn generates(program: &Program, stage: &[HandlerId], like: impl Fn(EventId) -> bool) -> bool {
    does(program, stage, |op| matches!(op, Op::Generate { event, .. } if like(*event)))
}

/// True if a stage has an op like this.
fn does(program: &Program, stage: &[HandlerId], like: impl Fn(&Op) -> bool) -> bool {
    stage.iter().any(|h| {
        let body = &program.handlers[*h].body;
        let mut found = false;
        body.for_each_inst(body.entry(), &mut |inst| found |= like(&body.insts[inst].op));
        found
    })
}

/// Stages that send to a stage; the outside counts as one.
pub(crate) fn senders(program: &Program, stages: &[Vec<HandlerId>], s: usize) -> usize {
    let outside = takes_packets(program, &stages[s]);
    let others = (0..stages.len())
        .filter(|other| *other != s && sends_to(program, &stages[*other], &stages[s]));
    others.count() + usize::from(outside)
}

pub(crate) fn takes_packets(program: &Program, handlers: &[HandlerId]) -> bool {
    handlers.iter().any(|h| program.events[program.handlers[*h].event].direction == Direction::In)
}
