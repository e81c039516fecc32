//! Where a packet's cursor stands when an event hands it on.
//!
//! The packet brings its cursor and its emitted bytes along; code generators want both as
//! constants. A forward walk over each handler that generates the event follows them: `extract` and
//! `skip` by a constant move the cursor if they succeed, which is known in the arms of an `if` on
//! their result (or its complement); where two ways meet, what differs is unknown. Handlers of
//! internal events start where their own event stands. The handler graph has no cycles in planned
//! programs; in one that has, nothing is known. Linear in the size of the handlers on the way.

use cranelift_entity::SecondaryMap;
use nicforge_ir::{BlockId, Body, Direction, EventId, Op, Program, Type, UnOp, ValueId};
use nicforge_passes::rewrite::constant;

/// Progress in reading and writing a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Bytes of the frame before the cursor.
    pub consumed: u32,
    /// Bytes emitted and not sent yet.
    pub emitted: u32,
}

/// Bytes that were consumed and emitted; `None` where paths may differ.
#[derive(Clone, Copy)]
struct Known {
    consumed: Option<u32>,
    emitted: Option<u32>,
}

/// Where the packet of `event` stands, if that is the same on every path that generates the event;
/// `None` if it is not or if the event carries no packet or nobody generates it.
pub fn cursor_at_event(program: &Program, event: EventId) -> Option<Cursor> {
    let cursor = at_event(program, event, &mut Vec::new())?;
    Some(Cursor { consumed: cursor.consumed?, emitted: cursor.emitted? })
}

fn at_event(program: &Program, event: EventId, path: &mut Vec<EventId>) -> Option<Known> {
    if program.events[event].direction == Direction::In {
        return Some(Known { consumed: Some(0), emitted: Some(0) });
    }
    if path.contains(&event) {
        return Some(Known { consumed: None, emitted: None });
    }
    path.push(event);
    let mut found = None;
    for handler in program.handlers.values() {
        let body = &handler.body;
        let params = &body.blocks[body.entry()].params;
        let Some(packet) = params.iter().copied().find(|v| body.ty(*v) == Type::Packet) else {
            continue;
        };
        let mut generates = false;
        body.for_each_inst(body.entry(), &mut |inst| {
            generates |= matches!(body.insts[inst].op, Op::Generate { event: e, .. } if e == event);
        });
        if !generates {
            continue;
        }
        let Some(start) = at_event(program, handler.event, path) else { continue };
        let mut walk = Walk { program, body, packet, event, found, decided: SecondaryMap::new() };
        let start = State { consumed: start.consumed, emitted: start.emitted, pending: None };
        walk.block(body.entry(), Some(start));
        found = walk.found;
    }
    path.pop();
    found
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    consumed: Option<u32>,
    emitted: Option<u32>,
    /// The cursor moved by this many bytes if the value is true.
    pending: Option<(ValueId, u32)>,
}

struct Walk<'a> {
    program: &'a Program,
    body: &'a Body,
    packet: ValueId,
    event: EventId,
    found: Option<Known>,
    /// What conditions are on the way to here.
    decided: SecondaryMap<ValueId, Option<bool>>,
}

fn meet<T: PartialEq>(a: Option<T>, b: Option<T>) -> Option<T> {
    if a == b { a } else { None }
}

/// Both ways, or the one that control comes by.
fn join(a: Option<State>, b: Option<State>) -> Option<State> {
    match (a, b) {
        (Some(a), Some(b)) if a == b => Some(a),
        (Some(a), Some(b)) => {
            let (a, b) = (settle(a), settle(b));
            let (consumed, emitted) = (meet(a.consumed, b.consumed), meet(a.emitted, b.emitted));
            Some(State { consumed, emitted, pending: None })
        }
        (a, b) => a.or(b),
    }
}

/// Without a pending move: if there was one, nothing is known.
fn settle(state: State) -> State {
    match state.pending {
        Some(_) => State { consumed: None, pending: None, ..state },
        None => state,
    }
}

impl Walk<'_> {
    fn block(&mut self, block: BlockId, mut state: Option<State>) -> Option<State> {
        let body = self.body;
        for &inst in &body.blocks[block].insts {
            let mut now = state?;
            let data = &body.insts[inst];
            match &data.op {
                Op::If { cond, then, other, .. } => {
                    let first = self.arm(*then, *cond, true, now);
                    let second = self.arm(*other, *cond, false, now);
                    state = join(first, second);
                    continue;
                }
                Op::Loop { body: region, .. } => {
                    let mut touched = false;
                    body.for_each_inst(*region, &mut |inner| {
                        let op = &body.insts[inner].op;
                        let moves = op.effects().packet_write.is_some();
                        touched |= moves
                            || matches!(op, Op::Generate { event, .. } if *event == self.event);
                    });
                    if touched {
                        now = State { consumed: None, emitted: None, pending: None };
                        self.block(*region, Some(now));
                    }
                }
                Op::Extract { .. } => {
                    let size = self.program.size_of(body.ty(data.results[1]));
                    now = State { pending: Some((data.results[0], size)), ..self.settled(now) };
                }
                Op::Skip { len, .. } => {
                    now = self.settled(now);
                    match constant(body, *len) {
                        Some(len) => now.pending = Some((data.results[0], len as u32)),
                        None => now.consumed = None,
                    }
                }
                Op::Reset { .. } => {
                    now = State { consumed: Some(0), emitted: Some(0), pending: None }
                }
                Op::Emit { value, .. } => {
                    let size = self.program.size_of(body.ty(*value));
                    now.emitted = now.emitted.map(|before| before + size);
                }
                Op::Generate { event, args }
                    if *event == self.event && args.contains(&self.packet) =>
                {
                    let here = self.settled(now);
                    let here = Known { consumed: here.consumed, emitted: here.emitted };
                    self.found = Some(match self.found {
                        Some(before) => Known {
                            consumed: meet(before.consumed, here.consumed),
                            emitted: meet(before.emitted, here.emitted),
                        },
                        None => here,
                    });
                }
                Op::Yield(_) => return Some(now),
                op if op.is_terminator() => return None,
                _ => {}
            }
            state = Some(now);
        }
        state
    }

    /// Applies a pending move whose outcome is known.
    fn settled(&self, state: State) -> State {
        match state.pending {
            Some((ok, size)) => match self.decided[ok] {
                Some(true) => State {
                    consumed: state.consumed.map(|before| before + size),
                    pending: None,
                    ..state
                },
                Some(false) => State { pending: None, ..state },
                None => settle(state),
            },
            None => state,
        }
    }

    /// Walks an arm, in which the condition is known. Behind an `if` whose other arm leaves it is
    /// known too.
    fn arm(&mut self, arm: BlockId, cond: ValueId, holds: bool, state: State) -> Option<State> {
        let (value, holds) = self.plain(cond, holds);
        let before = self.decided[value].replace(holds);
        let end = self.block(arm, Some(self.settled_if(state, value)));
        let end = end.map(|end| self.settled_if(end, value));
        self.decided[value] = before;
        end
    }

    /// Applies the pending move if it hangs on this value.
    fn settled_if(&self, state: State, value: ValueId) -> State {
        if state.pending.is_some_and(|(ok, _)| ok == value) { self.settled(state) } else { state }
    }

    /// The value that a condition is or is the complement of.
    fn plain(&self, cond: ValueId, holds: bool) -> (ValueId, bool) {
        match self.body.def_op(cond) {
            Some(Op::Un(UnOp::Not, inner)) => self.plain(*inner, !holds),
            _ => (cond, holds),
        }
    }
}
