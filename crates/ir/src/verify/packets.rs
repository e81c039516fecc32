//! Round three: every packet is given away exactly once on every path.
//!
//! Packets come in as parameters of a body and no op makes or carries one, so the state at a point
//! is the set of parameters that are gone. A forward walk computes it: both arms of an `if` that go
//! on must agree, every `continue` of a loop that can run again must leave the state as the loop
//! found it, and all ways out of a loop must agree. A handler's `return` needs all packets gone; a
//! function's needs every parameter gone on all returns or on none, which is what its callers see.
//! Functions are walked before their callers (no recursion: round one), which also gives how deep
//! regions nest through calls.

use cranelift_entity::SecondaryMap;

use super::{Checker, decls};
use crate::ops::Op;
use crate::program::{BlockId, Body, FuncId, InstId, Program, ValueId};
use crate::text::MAX_NESTING;
use crate::types::Type;

/// For each function: which parameters it consumes. The program must be verified.
pub fn consumed_params(program: &Program) -> SecondaryMap<FuncId, Vec<bool>> {
    let mut checker = Checker { program, errors: Vec::new(), item: String::new() };
    let known = functions(&mut checker);
    let mut consumed = SecondaryMap::new();
    program.funcs.keys().for_each(|id| consumed[id] = known[id].consumed.clone());
    consumed
}

/// Facts that callers need of a function.
#[derive(Clone, Default)]
struct Summary {
    /// For each parameter.
    consumed: Vec<bool>,
    /// Regions nest this deep in it and what it calls.
    depth: usize,
}

pub fn check(c: &mut Checker) {
    let known = functions(c);
    let program = c.program;
    for handler in program.handlers.values() {
        c.item = format!("handler `{}`", handler.name);
        walk_body(c, &handler.body, &known, true);
    }
}

/// Walks all functions, callees first.
fn functions(c: &mut Checker) -> SecondaryMap<FuncId, Summary> {
    let mut known = SecondaryMap::new();
    let mut done: SecondaryMap<FuncId, bool> = SecondaryMap::new();
    let program = c.program;
    // A stack instead of recursion: call chains may be long.
    for root in program.funcs.keys() {
        let mut stack = vec![root];
        while let Some(&id) = stack.last() {
            if done[id] {
                stack.pop();
                continue;
            }
            let body = &program.funcs[id].body;
            let before = stack.len();
            let open = |func: &FuncId| program.funcs.is_valid(*func) && !done[*func];
            stack.extend(decls::called(body).into_iter().filter(open));
            if stack.len() == before {
                c.item = format!("func `{}`", program.funcs[id].name);
                known[id] = walk_body(c, body, &known, false);
                done[id] = true;
                stack.pop();
            }
        }
    }
    known
}

/// The packets that are gone; `None`: control does not come here.
type State = Option<Vec<ValueId>>;

struct LoopState {
    /// Gone when the loop starts.
    before: Vec<ValueId>,
    /// Gone where the loop is left.
    after: State,
    trips: u32,
}

struct Walk<'c, 'p, 'b> {
    c: &'c mut Checker<'p>,
    body: &'b Body,
    known: &'b SecondaryMap<FuncId, Summary>,
    /// Handlers must consume everything.
    params: Option<Vec<ValueId>>,
    loops: Vec<LoopState>,
    returned: State,
    depth: usize,
    deepest: usize,
}

fn walk_body(
    c: &mut Checker,
    body: &Body,
    known: &SecondaryMap<FuncId, Summary>,
    all: bool,
) -> Summary {
    let params = &body.blocks[body.entry()].params;
    let packets: Vec<ValueId> =
        params.iter().copied().filter(|v| body.ty(*v) == Type::Packet).collect();
    let params_to_consume = all.then_some(packets);
    let mut walk = Walk {
        c,
        body,
        known,
        params: params_to_consume,
        loops: Vec::new(),
        returned: None,
        depth: 0,
        deepest: 0,
    };
    walk.block(body.entry(), Some(Vec::new()));
    let gone = walk.returned.unwrap_or_default();
    Summary {
        consumed: params.iter().map(|param| gone.contains(param)).collect(),
        depth: walk.deepest,
    }
}

impl Walk<'_, '_, '_> {
    fn error(&mut self, inst: InstId, message: String) {
        self.c.error_at(self.body, inst, message);
    }

    fn name(&self, value: ValueId) -> String {
        self.body.values[value].name.clone().unwrap_or_else(|| "without a name".to_string())
    }

    /// Walks a region; the state where it yields.
    fn block(&mut self, block: BlockId, mut state: State) -> State {
        let body = self.body;
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        for &inst in &body.blocks[block].insts {
            state = self.inst(inst, state);
        }
        self.depth -= 1;
        state
    }

    fn inst(&mut self, inst: InstId, state: State) -> State {
        // What cannot be reached has no packets to lose.
        let mut gone = state?;
        let body = self.body;
        let op = &body.insts[inst].op;
        for value in op.operands() {
            if body.ty(value) == Type::Packet && gone.contains(&value) {
                let message =
                    format!("packet `{}` is used here but was given away before", self.name(value));
                self.error(inst, message);
                return Some(gone);
            }
        }
        if let Op::Call { func, args } = op {
            self.call(inst, *func, args);
        }
        for value in self.given_away(op) {
            if gone.contains(&value) {
                let message = format!("packet `{}` is given away twice", self.name(value));
                self.error(inst, message);
            } else {
                gone.push(value);
                gone.sort();
            }
        }
        match op {
            Op::If { then, other, .. } => {
                let first = self.block(*then, Some(gone.clone()));
                let second = self.block(*other, Some(gone));
                self.join(inst, first, second, "in one arm of this `if` but not in the other")
            }
            Op::Loop { max_trips, body: region, .. } => {
                let after = (*max_trips == 0).then(|| gone.clone());
                self.loops.push(LoopState { before: gone.clone(), after, trips: *max_trips });
                if *max_trips > 0 {
                    self.block(*region, Some(gone));
                }
                self.loops.pop().and_then(|state| state.after)
            }
            Op::Yield(_) => Some(gone),
            Op::Break { depth, .. } => {
                self.leave_loop(inst, *depth, gone);
                None
            }
            Op::Continue { depth, .. } => {
                let target = &self.loops[self.loops.len() - 1 - *depth as usize];
                if target.trips > 1 && target.before != gone {
                    let lost = gone.iter().find(|v| !target.before.contains(v)).copied();
                    let name = lost.map_or(String::new(), |v| self.name(v));
                    self.error(
                        inst,
                        format!("packet `{name}` was given away, and the loop may run once more"),
                    );
                } else {
                    self.leave_loop(inst, *depth, gone);
                }
                None
            }
            Op::Return(_) => {
                if let Some(params) = &self.params {
                    if let Some(kept) = params.iter().find(|v| !gone.contains(v)).copied() {
                        let name = self.name(kept);
                        self.error(
                            inst,
                            format!("packet `{name}` is not given away on a path to here: send, pass, deliver or drop it"),
                        );
                    }
                } else {
                    let before = self.returned.take();
                    self.returned = self.join(
                        inst,
                        before,
                        Some(gone),
                        "on one way to return but not on another",
                    );
                }
                None
            }
            _ => Some(gone),
        }
    }

    /// Rules that a call adds: no packet twice, no endless nesting.
    fn call(&mut self, inst: InstId, func: FuncId, args: &[ValueId]) {
        let packets = args.iter().enumerate().filter(|(_, v)| self.body.ty(**v) == Type::Packet);
        let twice = packets.map(|(i, v)| (v, &args[i + 1..])).find(|(v, rest)| rest.contains(v));
        if let Some((value, _)) = twice {
            let message = format!("packet `{}` is passed twice", self.name(*value));
            self.error(inst, message);
        }
        self.deepest = self.deepest.max(self.depth + self.known[func].depth);
        if self.depth + self.known[func].depth > MAX_NESTING + 1 {
            self.error(
                inst,
                format!(
                    "regions nest deeper than {MAX_NESTING}, counting those of called functions"
                ),
            );
        }
    }

    fn leave_loop(&mut self, inst: InstId, depth: u32, gone: Vec<ValueId>) {
        let index = self.loops.len() - 1 - depth as usize;
        let before = self.loops[index].after.take();
        let after =
            self.join(inst, before, Some(gone), "on one way out of the loop but not on another");
        self.loops[index].after = after;
    }

    fn join(&mut self, inst: InstId, a: State, b: State, when: &str) -> State {
        match (a, b) {
            (Some(a), Some(b)) => {
                let differs =
                    a.iter().find(|v| !b.contains(v)).or(b.iter().find(|v| !a.contains(v)));
                if let Some(value) = differs.copied() {
                    let message = format!("packet `{}` is given away {when}", self.name(value));
                    self.error(inst, message);
                }
                Some(a)
            }
            (a, b) => a.or(b),
        }
    }

    /// Packets that an op takes for good, repeated if it takes one twice.
    fn given_away(&self, op: &Op) -> Vec<ValueId> {
        match op {
            op if op.drops() => op.packet().into_iter().collect(),
            Op::Generate { event, args } => {
                let params = &self.c.program.events[*event].params;
                let taken =
                    args.iter().zip(params).filter(|(_, p)| p.ty == Type::Packet && !p.borrowed);
                taken.map(|(value, _)| *value).collect()
            }
            Op::Call { func, args } => {
                let consumed = &self.known[*func].consumed;
                args.iter().zip(consumed).filter(|(_, c)| **c).map(|(value, _)| *value).collect()
            }
            _ => Vec::new(),
        }
    }
}
