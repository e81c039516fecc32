//! `fuse`: handlers of internal events run where the events are generated, so that what was several
//! handlers becomes one.
//!
//! Targets whose programs are one stage (a BPF program on an interface, a design on an FPGA, one
//! image) have no queues between handlers. An internal event is queued behind the handler that
//! generates it, so its handler may run at once only if nobody can tell: for every place that
//! generates it, what may still run in that handler
//!
//! * writes no table entry the other reads or writes (commuting writes on both sides are fine), and
//!   reads none it writes;
//! * does nothing ordered (outputs, logs, random numbers) if the other does, where an internal
//!   event counts only if the other one generates some itself: those would be queued in another
//!   order;
//!
//! and the place is in no loop. Where several internal events may wait at a time the same must hold
//! between the handler and those of the other events, as it no longer waits its turn. Handlers of
//! another side of the host link stay by themselves. It is no part of the default pipeline: plans
//! want handlers apart.

use std::collections::BTreeSet;

use nicforge_ir::{
    BlockId, Body, Direction, EventId, Func, HandlerId, InstId, Op, Program, TableId, Verified,
};

use crate::manager::{PassError, PassManager};

/// Fuses all handlers that can be, in a program of any kind.
///
/// # Errors
/// Those of the passes it uses: bugs.
pub fn fuse(program: Verified<Program>) -> Result<Verified<Program>, PassError> {
    let internal = |program: &Program| {
        let of = |event: EventId| program.events[event].direction == Direction::Internal;
        program.handlers.values().any(|handler| of(handler.event))
    };
    if !internal(&program) {
        return Ok(program);
    }
    let mut manager = PassManager::new();
    let mut program = manager.run(program, &["inline"])?;
    while let Some((handler, sites)) = next(&program) {
        let mut open = program.into_inner();
        let inlined = open.handlers[handler].clone();
        let func = open.funcs.push(Func {
            name: inlined.name.clone(),
            results: Vec::new(),
            body: inlined.body,
            span: inlined.span,
        });
        for (owner, inst) in sites {
            let op = &mut open.handlers[owner].body.insts[inst].op;
            if let Op::Generate { args, .. } = op {
                *op = Op::Call { func, args: std::mem::take(args) };
            }
        }
        let handlers = std::mem::take(&mut open.handlers);
        open.handlers =
            handlers.into_iter().filter(|(id, _)| *id != handler).map(|(_, kept)| kept).collect();
        program = manager.reverify("fuse", open)?;
        program = manager.run(program, &["inline"])?;
    }
    Ok(program)
}

/// Most internal events that one run of a body generates; 2 for several.
fn most_queued(program: &Program, body: &Body, block: BlockId) -> u32 {
    let mut total = 0;
    for &inst in &body.blocks[block].insts {
        let op = &body.insts[inst].op;
        let inner =
            op.regions().map(|region| most_queued(program, body, region)).max().unwrap_or(0);
        total += match op {
            Op::Generate { event, .. } => {
                u32::from(program.events[*event].direction == Direction::Internal)
            }
            Op::Loop { max_trips, .. } if *max_trips > 1 => inner * 2,
            _ => inner,
        };
    }
    total.min(2)
}

/// A handler that can be fused, and the places that generate its event.
fn next(program: &Program) -> Option<(HandlerId, Vec<(HandlerId, InstId)>)> {
    let queued =
        |handler: &nicforge_ir::Handler| most_queued(program, &handler.body, handler.body.entry());
    let several = program.handlers.values().any(|handler| queued(handler) > 1);
    program.handlers.keys().find_map(|handler| {
        let event = program.handlers[handler].event;
        if program.events[event].direction != Direction::Internal || !program.funcs.is_empty() {
            return None;
        }
        let body = &program.handlers[handler].body;
        let own = Summary::of(program, body);
        let waits = |other: &HandlerId| {
            let of = &program.handlers[*other];
            program.events[of.event].direction == Direction::Internal && *other != handler
        };
        let mut others = program.handlers.keys().filter(waits);
        if several
            && others
                .any(|other| Summary::of(program, &program.handlers[other].body).conflicts(&own))
        {
            return None;
        }
        let mut sites = Vec::new();
        let fusable = program.handlers.keys().all(|owner| {
            let found = places(&program.handlers[owner].body, event);
            let side = program.handlers[owner].side == program.handlers[handler].side;
            sites.extend(found.iter().map(|place| (owner, place.inst)));
            found.is_empty()
                || (owner != handler
                    && side
                    && found.iter().all(|place| place.allows(program, owner, &own)))
        });
        (fusable && !sites.is_empty()).then_some((handler, sites))
    })
}

/// A place that generates the event, and what may still run behind it.
struct Place {
    inst: InstId,
    rest: Vec<InstId>,
    in_loop: bool,
}

impl Place {
    fn allows(&self, program: &Program, owner: HandlerId, handler: &Summary) -> bool {
        let body = &program.handlers[owner].body;
        let mut rest = Summary::default();
        for &inst in &self.rest {
            rest.add_all(program, body, inst);
        }
        !self.in_loop && !rest.conflicts(handler)
    }
}

fn places(body: &Body, event: EventId) -> Vec<Place> {
    let mut found = Vec::new();
    walk(body, body.entry(), &mut Vec::new(), false, event, &mut found);
    found
}

/// Goes through a region; `behind` is what runs behind it.
fn walk(
    body: &Body,
    block: BlockId,
    behind: &mut Vec<InstId>,
    in_loop: bool,
    event: EventId,
    found: &mut Vec<Place>,
) {
    let insts = &body.blocks[block].insts;
    for (at, &inst) in insts.iter().enumerate() {
        let op = &body.insts[inst].op;
        let before = behind.len();
        behind.extend(&insts[at + 1..]);
        if matches!(op, Op::Generate { event: e, .. } if *e == event) {
            found.push(Place { inst, rest: behind.clone(), in_loop });
        }
        // One trip is what early returns of functions leave.
        let in_loop = in_loop || matches!(op, Op::Loop { max_trips, .. } if *max_trips > 1);
        for region in op.regions() {
            walk(body, region, behind, in_loop, event, found);
        }
        behind.truncate(before);
    }
}

/// Effects of code that other code could tell.
#[derive(Default)]
struct Summary {
    reads: BTreeSet<TableId>,
    writes: BTreeSet<TableId>,
    commutes: BTreeSet<TableId>,
    /// Outputs, logs, drops, random numbers.
    ordered: bool,
    /// Generates internal events.
    queues: bool,
}

impl Summary {
    fn of(program: &Program, body: &Body) -> Summary {
        let mut summary = Summary::default();
        for &inst in &body.blocks[body.entry()].insts {
            summary.add_all(program, body, inst);
        }
        summary
    }

    /// Adds an instruction and those in its regions.
    fn add_all(&mut self, program: &Program, body: &Body, inst: InstId) {
        let op = &body.insts[inst].op;
        let effects = op.effects();
        self.reads.extend(effects.table_read);
        match effects.table_write {
            Some(table) if effects.commutes => drop(self.commutes.insert(table)),
            table => self.writes.extend(table),
        }
        let inside = matches!(op, Op::Generate { event, .. } if program.events[*event].direction == Direction::Internal);
        self.queues |= inside;
        self.ordered |= effects.ordered && !inside;
        for region in op.regions() {
            for &inner in &body.blocks[region].insts {
                self.add_all(program, body, inner);
            }
        }
    }

    fn conflicts(&self, other: &Summary) -> bool {
        let against = |a: &Summary, b: &Summary| {
            let touched = |table: &TableId| {
                b.reads.contains(table) || b.writes.contains(table) || b.commutes.contains(table)
            };
            let seen = |table: &TableId| b.reads.contains(table) || b.writes.contains(table);
            a.writes.iter().any(touched) || a.commutes.iter().any(seen)
        };
        against(self, other)
            || against(other, self)
            || (self.ordered && other.ordered)
            || (self.queues && other.queues)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nicforge_ir::{Input, InputEvent, Interp, TableBackend, text, verify};

    fn read(source: &str) -> Verified<Program> {
        verify(text::parse(source).unwrap_or_else(|e| panic!("{e:?}")))
            .unwrap_or_else(|e| panic!("{}", e[0]))
    }

    const HEAD: &str = "program t ports 2\ntable seen: array[u32 -> u64] capacity 4\ntable sums: hash[u32 -> u64] capacity 4\n\
        event net_recv(pkt: packet) in\nevent first(which: u32) internal\nevent second(pkt: packet, which: u32) internal\n\
        event net_send(pkt: packet, port: u32) out\n";
    const FIRST: &str = "handler first on first(%which: u32) {\n  %one: u64 = 1\n  commute add seen[%which], %one\n  return\n}\n";
    const SECOND: &str = "handler second on second(%pkt: packet, %which: u32) {\n  %hit: u1, %n: u64 = lookup sums[%which]\n\
        %one: u64 = 1\n  %m: u64 = add %n, %one\n  %ok: u1 = update sums[%which], %m\n  emit %pkt, %m\n\
        generate net_send(%pkt, %which)\n  return\n}\n";

    fn with(body: &str) -> String {
        format!(
            "{HEAD}handler net_recv on net_recv(%pkt: packet) {{\n  %ok: u1, %b: u8 = extract %pkt\n  %one: u8 = 1\n\
            %low: u8 = and %b, %one\n  %w: u32 = cast %low\n{body}  return\n}}\n{FIRST}{SECOND}"
        )
    }

    #[test]
    fn handlers_become_one_where_nobody_can_tell() {
        let program = read(&with("  generate first(%w)\n  generate second(%pkt, %w)\n"));
        let fused = fuse(program.clone()).unwrap();
        assert_eq!(fused.handlers.len(), 1);
        let (mut before, mut after) = (Interp::new(&program), Interp::new(&fused));
        for number in 0..20u8 {
            let frame = vec![number; 20];
            let event = InputEvent {
                input: Input::Net { port: 0, frame },
                time_ns: 5,
                seed: u64::from(number),
            };
            assert_eq!(before.run(&event).unwrap(), after.run(&event).unwrap());
        }
        for table in program.tables.keys() {
            assert_eq!(before.dump(table), after.dump(table));
        }
    }

    /// What calls were is still among a handler's instructions when it becomes a function.
    #[test]
    fn handlers_that_called_functions_become_one() {
        let called = "func twice(%x: u64) -> (u64) {\n  %y: u64 = add %x, %x\n  return %y\n}\n";
        let first = "handler first on first(%which: u32) {\n  %one: u64 = 1\n  %two: u64 = call twice(%one)\n  commute add seen[%which], %two\n  return\n}\n";
        let text = with("  generate first(%w)\n  generate second(%pkt, %w)\n")
            .replace(FIRST, &format!("{called}{first}"));
        let fused = fuse(read(&text)).unwrap();
        assert_eq!(fused.handlers.values().filter(|handler| handler.name == "first").count(), 0);
    }

    #[test]
    fn what_could_be_told_apart_stays_apart() {
        for body in [
            // Reads what the handler counts; writes what it reads; in a loop.
            "  generate first(%w)\n  %hit: u1, %n: u64 = lookup seen[%w]\n  emit %pkt, %n\n  generate second(%pkt, %w)\n",
            "  generate first(%w)\n  %x: u64 = 3\n  %u: u1 = update seen[%w], %x\n  generate second(%pkt, %w)\n",
            "  loop 2 (%i: u32 = %w) -> (%j: u32) {\n    generate first(%i)\n    continue 0 (%i)\n  }\n  generate second(%pkt, %j)\n",
        ] {
            let fused = fuse(read(&with(body))).unwrap();
            assert_eq!(fused.handlers.len(), 2, "{body}");
        }
    }
}
