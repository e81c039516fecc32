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
//! and the place is in no loop that goes on behind it. Where that does not hold, it may hold at the
//! end of the path there, to which the place is moved first ([`crate::sink`]). Where several
//! internal events may wait at a time, and this one is not always the first, the same must hold
//! between the handler and those of the other events, as it no longer waits its turn. Handlers of
//! another side of the host link stay by themselves. It is no part of the default pipeline: plans
//! want handlers apart.

use std::collections::BTreeSet;

use nicforge_ir::{
    BlockId, Body, Direction, EventId, Func, HandlerId, InstId, Op, Program, TableId, Verified,
};

use crate::manager::{PassError, PassManager};
use crate::rewrite::{copy_region, size};
use crate::sink::{ends_handler, sink};

/// Instructions to which a body may grow by what is put into it.
const MOST_SPLICED: usize = 10_000;

/// Fuses all handlers that can be, in a program of any kind.
///
/// # Errors
/// Those of the passes it uses: bugs.
pub fn fuse(program: Verified<Program>) -> Result<Verified<Program>, PassError> {
    fuse_where(program, &|_, _, _| true)
}

/// Says whether a handler, the second one, may be fused into one that generates its event.
pub type Allowed<'a> = &'a dyn Fn(&Program, HandlerId, HandlerId) -> bool;

/// Fuses the handlers that can be and that may be into all that generate their events.
///
/// # Errors
/// Those of the passes it uses: bugs.
pub fn fuse_where(
    program: Verified<Program>,
    allowed: Allowed,
) -> Result<Verified<Program>, PassError> {
    let internal = |program: &Program| {
        let of = |event: EventId| program.events[event].direction == Direction::Internal;
        program.handlers.values().any(|handler| of(handler.event))
    };
    if !internal(&program) {
        return Ok(program);
    }
    let mut manager = PassManager::new();
    let mut program = manager.run(program, &["inline"])?;
    loop {
        let mut found = next(&program, allowed);
        if found.is_none()
            && let Some(sunk) = sunk(&program, allowed)
        {
            program = manager.reverify("fuse", sunk)?;
            found = next(&program, allowed);
        }
        let Some((handler, sites)) = found else { return Ok(program) };
        let mut open = program.into_inner();
        let inlined = open.handlers[handler].clone();
        let func = open.funcs.push(Func {
            name: inlined.name.clone(),
            results: Vec::new(),
            body: inlined.body.clone(),
            span: inlined.span,
        });
        for (owner, inst) in sites {
            let body = &mut open.handlers[owner].body;
            if splice(body, inst, &inlined.body) {
                continue;
            }
            if let Op::Generate { args, .. } = &mut body.insts[inst].op {
                body.insts[inst].op = Op::Call { func, args: std::mem::take(args) };
            }
        }
        let handlers = std::mem::take(&mut open.handlers);
        open.handlers =
            handlers.into_iter().filter(|(id, _)| *id != handler).map(|(_, kept)| kept).collect();
        program = manager.reverify("fuse", open)?;
        program = manager.run(program, &["inline"])?;
    }
}

/// Puts a handler's body, with its `return`s, in the place of its event and of the `return` right
/// behind it: a call would leave by loops that other passes cannot all do away with. False if
/// something else follows.
fn splice(body: &mut Body, inst: InstId, inlined: &Body) -> bool {
    let found = body.blocks.iter().find_map(|(block, data)| match data.insts[..] {
        [.., last, _] if last == inst && ends_handler(body, block) => Some(block),
        _ => None,
    });
    let (Some(block), Op::Generate { args, .. }) = (found, body.insts[inst].op.clone()) else {
        return false;
    };
    if size(body, body.entry()) + size(inlined, inlined.entry()) > MOST_SPLICED {
        return false;
    }
    let params = inlined.blocks[inlined.entry()].params.iter().copied();
    let copy = copy_region(Some(inlined), inlined.entry(), body, &mut params.zip(args).collect());
    let mut copied = std::mem::take(&mut body.blocks[copy].insts);
    let insts = &mut body.blocks[block].insts;
    insts.truncate(insts.len() - 2);
    insts.append(&mut copied);
    true
}

/// The program with the internal events of one handler moved to its end, if something can be fused
/// then.
fn sunk(program: &Program, allowed: Allowed) -> Option<Program> {
    program.handlers.keys().find_map(|owner| {
        let mut sunk = program.clone();
        let mut body = std::mem::take(&mut sunk.handlers[owner].body);
        let changed = sink(&sunk, &mut body);
        sunk.handlers[owner].body = body;
        (changed && next(&sunk, allowed).is_some()).then_some(sunk)
    })
}

/// Most internal events that one run of a body generates; 2 for several.
fn most_queued(program: &Program, body: &Body, block: BlockId) -> u32 {
    let (through, returned) = queued(program, body, block);
    through.max(returned).min(2)
}

/// Most internal events on the ways to a block's end, and on those that `return` before.
fn queued(program: &Program, body: &Body, block: BlockId) -> (u32, u32) {
    let (mut through, mut returned) = (0, 0);
    for &inst in &body.blocks[block].insts {
        let op = &body.insts[inst].op;
        let inner: Vec<_> = op.regions().map(|region| queued(program, body, region)).collect();
        let (mut goes_on, mut leaves) =
            inner.iter().fold((0, 0), |most, one| (most.0.max(one.0), most.1.max(one.1)));
        match op {
            Op::Generate { event, .. } => {
                goes_on = u32::from(program.events[*event].direction == Direction::Internal);
            }
            Op::Loop { max_trips, .. } if *max_trips > 1 => {
                leaves += goes_on;
                goes_on *= 2;
            }
            _ => {}
        }
        returned = returned.max(through + leaves).min(2);
        through = (through + goes_on).min(2);
    }
    if ends_handler(body, block) { (0, returned.max(through)) } else { (through, returned) }
}

/// A handler that can be fused, and the places that generate its event; one of an event that nobody
/// generates has none, and goes.
fn next(program: &Program, allowed: Allowed) -> Option<(HandlerId, Vec<(HandlerId, InstId)>)> {
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
            && !is_first(program, event)
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
                    && allowed(program, owner, handler)
                    && found.iter().all(|place| place.allows(program, owner, &own)))
        });
        fusable.then_some((handler, sites))
    })
}

/// True if no other internal event waits where one of these is generated: handlers of outside
/// events begin with empty queues.
fn is_first(program: &Program, event: EventId) -> bool {
    program.handlers.values().all(|owner| {
        let outside = program.events[owner.event].direction != Direction::Internal;
        let mut waits = !outside;
        is_first_in(program, &owner.body, owner.body.entry(), &mut waits, event)
    })
}

/// [`is_first`] for a region. `waits` says whether internal events wait before it, and afterwards
/// behind it.
fn is_first_in(
    program: &Program,
    body: &Body,
    block: BlockId,
    waits: &mut bool,
    event: EventId,
) -> bool {
    let ok = body.blocks[block].insts.iter().all(|inst| {
        let op = &body.insts[*inst].op;
        if let Op::Generate { event: generated, .. } = op
            && program.events[*generated].direction == Direction::Internal
        {
            return !(std::mem::replace(waits, true) && *generated == event);
        }
        // What one trip of a loop leaves waiting the next one finds.
        let rounds = if matches!(op, Op::Loop { .. }) { 2 } else { 1 };
        (0..rounds).all(|_| {
            let before = *waits;
            op.regions().all(|region| {
                let mut inside = before;
                let ok = is_first_in(program, body, region, &mut inside, event);
                *waits |= inside;
                ok
            })
        })
    });
    if ends_handler(body, block) {
        *waits = false;
    }
    ok
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
    // What is around runs no more, and no loop once more.
    let returns = ends_handler(body, block);
    let (behind, in_loop) = (if returns { &mut Vec::new() } else { behind }, in_loop && !returns);
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

    /// Fuses a program, which does the same for some packets then; gives its handlers.
    fn same_when_fused(source: &str) -> usize {
        let program = read(source);
        let fused = fuse(program.clone()).unwrap();
        let (mut before, mut after) = (Interp::new(&program), Interp::new(&fused));
        for number in 0..20u8 {
            let frame = vec![number; 20];
            let event = InputEvent {
                input: Input::Net { port: 0, frame },
                time_ns: 5,
                seed: u64::from(number),
            };
            assert_eq!(before.run(&event).unwrap(), after.run(&event).unwrap(), "{source}");
        }
        for table in program.tables.keys() {
            assert_eq!(before.dump(table), after.dump(table), "{source}");
        }
        fused.handlers.len()
    }

    #[test]
    fn handlers_become_one_where_nobody_can_tell() {
        assert_eq!(
            same_when_fused(&with("  generate first(%w)\n  generate second(%pkt, %w)\n")),
            1
        );
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

    /// Code behind the place reads what the handler counts, writes what it reads, or is on one path
    /// only; on another there is a `return` before it.
    #[test]
    fn handlers_that_would_be_told_apart_run_at_the_end() {
        let count = "  %hit: u1, %n: u64 = lookup seen[%w]\n  %x: u64 = 3\n  %y: u64 = add %n, %x\n\
            %u: u1 = update seen[%w], %y\n";
        let arms = "  %odd: u1 = cast %b\n  if %odd {\n    generate first(%w)\n\
            generate second(%pkt, %w)\n    yield\n  } else {\n    drop %pkt, \"even\"\n\
            yield\n  }\n";
        let leaves = "  generate first(%w)\n  %odd: u1 = cast %b\n  if %odd -> (%z: u64) {\n\
            generate second(%pkt, %w)\n    return\n  } else {\n    generate net_send(%pkt, %w)\n\
            %v: u64 = 4\n    yield %v\n  }\n";
        let behind = [
            format!("  generate first(%w)\n{count}  generate second(%pkt, %w)\n"),
            format!("  generate first(%w)\n  generate second(%pkt, %w)\n{count}"),
            format!("{arms}{count}"),
            format!("{leaves}{count}  %u2: u1 = update sums[%w], %z\n"),
        ];
        for body in behind {
            let source =
                with(&body).replacen("event net_send", "reason \"even\"\nevent net_send", 1);
            assert_eq!(same_when_fused(&source), 1, "{body}");
        }
    }

    #[test]
    fn handlers_of_events_in_loops_stay_unless_they_leave_it() {
        // What waits first may run first though both count the same; nothing may in a loop that
        // goes on.
        let body = "  generate second(%pkt, %w)\n  generate first(%w)\n";
        let counts =
            SECOND.replace("  emit", "  %hot: u1, %old: u64 = lookup seen[%which]\n  emit");
        assert_eq!(same_when_fused(&with(body).replace(SECOND, &counts)), 1);
        let left = "  loop 3 (%i: u32 = %w) -> (%j: u32) {\n    %o: u1 = cast %i\n    if %o {\n\
            generate first(%i)\n    generate second(%pkt, %i)\n    return\n    }\n\
            %k: u32 = 1\n    %l: u32 = add %i, %k\n    commute add seen[%k], %seven\n\
            continue 0 (%l)\n  }\n  drop %pkt, \"even\"\n";
        let left = format!("  %seven: u64 = 7\n{left}");
        let source = with(&left).replacen("event net_send", "reason \"even\"\nevent net_send", 1);
        assert_eq!(same_when_fused(&source), 1);
        let body = "  loop 2 (%i: u32 = %w) -> (%j: u32) {\n    generate first(%i)\n\
            continue 0 (%i)\n  }\n  generate second(%pkt, %j)\n";
        assert_eq!(same_when_fused(&with(body)), 2);
    }
}
