//! Packets are linear: on every path each packet is given away exactly once.
//!
//! The check walks a lowered body in execution order with one state per packet: *held*, *gone*
//! (given away at a place) or *maybe* (on some of the paths that met here). Structured control flow
//! makes this one pass: arms of an `if` start with copies and are joined; a loop's body must leave
//! the packets it goes round with as it found them. Uses of a packet that is not held are errors,
//! and so is a path's end with a packet not gone.

use std::collections::HashSet;

use nicforge_ir::{BlockId, Body, Diagnostic, Event, FuncId, HandlerId, Op, Span, Type, ValueId};

use crate::diagnostics::codes;
use crate::unit::{Failed, Lowered, Unit};

/// Where a packet is on the paths that lead here.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Held,
    /// Given away at this place on all paths.
    Gone(Span),
    /// Given away at this place on some paths.
    Maybe(Span),
}

impl State {
    fn join(self, other: State) -> State {
        match (self, other) {
            (State::Held, State::Held) => State::Held,
            (State::Gone(at), State::Gone(_)) => State::Gone(at),
            (State::Gone(at) | State::Maybe(at), _) | (_, State::Gone(at) | State::Maybe(at)) => {
                State::Maybe(at)
            }
        }
    }
}

/// State of each packet; `None` where no path leads.
type States = Option<Vec<State>>;

fn join(a: States, b: States) -> States {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.into_iter().zip(b).map(|(a, b)| a.join(b)).collect()),
        (one, other) => one.or(other),
    }
}

struct Checker<'u> {
    body: &'u Body,
    packets: Vec<ValueId>,
    events: &'u cranelift_entity::PrimaryMap<nicforge_ir::EventId, Event>,
    consumes: &'u std::collections::HashMap<FuncId, Vec<Option<Span>>>,
    /// For each loop around: the states with which it was left so far.
    breaks: Vec<States>,
    /// For each loop around: the states with which it is entered.
    entries: Vec<Vec<State>>,
    /// For each loop around: true if some path gets to a further trip, or has used them up.
    goes_round: Vec<bool>,
    /// States and place of each return.
    returns: Vec<(Vec<State>, Span)>,
    found: Vec<Diagnostic>,
    /// Packets already complained about: one message each.
    reported: HashSet<usize>,
}

impl Checker<'_> {
    fn name(&self, packet: usize) -> &str {
        self.body.values[self.packets[packet]].name.as_deref().unwrap_or("packet")
    }

    fn report(&mut self, packet: usize, diagnostic: Diagnostic) {
        if self.reported.insert(packet) {
            self.found.push(diagnostic);
        }
    }

    fn block(&mut self, block: BlockId, mut states: States) -> States {
        for &inst in &self.body.blocks[block].insts {
            // Behind an `if` whose arms both leave there is a terminator that nothing reaches.
            let now = states.as_mut()?;
            let inst = &self.body.insts[inst];
            match &inst.op {
                Op::If { then, other, .. } => {
                    let (then, other) = (*then, *other);
                    let first = self.block(then, states.clone());
                    let second = self.block(other, states);
                    states = join(first, second);
                }
                Op::Loop { body, max_trips, .. } => {
                    states = self.trips(*body, *max_trips, now.clone())
                }
                Op::Return(_) => {
                    self.returns.push((now.clone(), inst.span));
                    return None;
                }
                Op::Break { depth, .. } => {
                    let level = self.breaks.len() - 1 - *depth as usize;
                    let before = self.breaks[level].take();
                    self.breaks[level] = join(before, states);
                    return None;
                }
                Op::Continue { depth, .. } => {
                    let level = self.entries.len() - 1 - *depth as usize;
                    self.go_round(level, now.clone());
                    return None;
                }
                op => self.straight(op, inst.span, now),
            }
        }
        states
    }

    fn trips(&mut self, body: BlockId, max_trips: u32, entry: Vec<State>) -> States {
        self.breaks.push(None);
        self.entries.push(entry.clone());
        self.goes_round.push(max_trips == 0);
        let end = self.block(body, Some(entry.clone()));
        if let Some(end) = end {
            self.go_round(self.entries.len() - 1, end);
        }
        self.entries.pop();
        let broken = self.breaks.pop().flatten();
        // Running out of trips leaves the states as they were on entry, which going round
        // preserves.
        let used_up = self.goes_round.pop().unwrap_or(true);
        join(broken, used_up.then_some(entry))
    }

    fn go_round(&mut self, level: usize, states: Vec<State>) {
        self.goes_round[level] = true;
        for (packet, state) in states.iter().enumerate() {
            let (State::Gone(at) | State::Maybe(at)) = *state else { continue };
            if self.entries[level][packet] == State::Held {
                let message = format!(
                    "`{}` is given away in a loop that may go round again",
                    self.name(packet)
                );
                let diagnostic = Diagnostic::error(codes::PACKET_LOOP.id, at, message)
                    .label("given away here")
                    .help("leave the loop behind it: `break` or `return`");
                self.report(packet, diagnostic);
            }
        }
    }

    fn straight(&mut self, op: &Op, span: Span, states: &mut [State]) {
        for (value, taken) in self.uses(op) {
            let Some(packet) = self.packets.iter().position(|p| *p == value) else { continue };
            match states[packet] {
                State::Held => {}
                State::Gone(at) => self.gone(packet, span, at, "was given away"),
                State::Maybe(at) => self.gone(packet, span, at, "may have been given away"),
            }
            if taken {
                states[packet] = State::Gone(span);
            }
        }
    }

    fn gone(&mut self, packet: usize, span: Span, at: Span, how: &str) {
        let diagnostic = Diagnostic::error(
            codes::PACKET_GONE.id,
            span,
            format!("`{}` {how} before", self.name(packet)),
        )
        .label("used here")
        .also(at, "given away here")
        .help("give it away last, and return behind it");
        self.report(packet, diagnostic);
    }

    /// Packets an op uses, and whether it gives them away.
    fn uses(&self, op: &Op) -> Vec<(ValueId, bool)> {
        let is_packet = |value: &ValueId| self.body.ty(*value) == Type::Packet;
        match op {
            op if op.drops() => op.packet().map(|pkt| (pkt, true)).into_iter().collect(),
            Op::Generate { event, args } => {
                let params = &self.events[*event].params;
                let pairs = args.iter().zip(params);
                pairs
                    .filter(|(a, _)| is_packet(a))
                    .map(|(a, param)| (*a, !param.borrowed))
                    .collect()
            }
            Op::Call { func, args } => {
                let consumed = self.consumes.get(func);
                let taken =
                    |at: usize| consumed.is_some_and(|c| c.get(at).is_some_and(Option::is_some));
                let pairs = args.iter().enumerate();
                pairs.filter(|(_, a)| is_packet(a)).map(|(at, a)| (*a, taken(at))).collect()
            }
            op => op.operands().filter(|v| is_packet(v)).map(|v| (v, false)).collect(),
        }
    }
}

/// Results of one walk over a body.
struct Walked {
    packets: Vec<ValueId>,
    /// States at every return.
    returns: Vec<(Vec<State>, Span)>,
    found: Vec<Diagnostic>,
    reported: HashSet<usize>,
}

fn check(unit: &Unit, body: &Body) -> Walked {
    let params = &body.blocks[body.entry()].params;
    let packets: Vec<ValueId> =
        params.iter().copied().filter(|p| body.ty(*p) == Type::Packet).collect();
    let start = vec![State::Held; packets.len()];
    let mut checker = Checker {
        body,
        packets,
        events: &unit.prog.events,
        consumes: &unit.consumes,
        breaks: Vec::new(),
        entries: Vec::new(),
        goes_round: Vec::new(),
        returns: Vec::new(),
        found: Vec::new(),
        reported: HashSet::new(),
    };
    checker.block(body.entry(), Some(start));
    let Checker { packets, returns, found, reported, .. } = checker;
    Walked { packets, returns, found, reported }
}

impl Unit<'_> {
    /// Checks a handler's packets.
    pub fn check_handler_packets(&mut self, handler: HandlerId) {
        let body = &self.prog.handlers[handler].body;
        let Walked { packets, returns, mut found, mut reported } = check(self, body);
        for (states, span) in &returns {
            for (packet, state) in states.iter().enumerate() {
                if matches!(state, State::Gone(_)) || !reported.insert(packet) {
                    continue;
                }
                let name = body.values[packets[packet]].name.as_deref().unwrap_or("packet");
                let message = format!("a path ends here without giving `{name}` away");
                let mut diagnostic = Diagnostic::error(codes::PACKET_KEPT.id, *span, message)
                    .label("ends here")
                    .help("call nf_send, nf_pass, nf_to_host or nf_drop on every path");
                if let State::Maybe(at) = state {
                    diagnostic = diagnostic.also(*at, "given away on other paths");
                }
                found.push(diagnostic);
            }
        }
        self.diagnostics.extend(found);
    }

    /// Checks a function's packets. Returns, for each parameter, where it is given away if every
    /// path does so.
    ///
    /// # Errors
    /// If something was reported: then callers cannot be checked.
    pub fn check_function_packets(&mut self, func: FuncId) -> Lowered<Vec<Option<Span>>> {
        let def = &self.prog.funcs[func];
        let body = &def.body;
        let Walked { packets, returns, mut found, reported } = check(self, body);
        let params = &body.blocks[body.entry()].params;
        let mut consumes = vec![None; params.len()];
        for (packet, value) in packets.iter().enumerate() {
            let place = |want: fn(&State) -> bool| returns.iter().find(|(s, _)| want(&s[packet]));
            let kept = place(|s| *s == State::Held);
            let gone = returns.iter().find_map(|(s, _)| match s[packet] {
                State::Gone(at) | State::Maybe(at) => Some(at),
                State::Held => None,
            });
            let mixed = kept.map(|(_, span)| *span).filter(|_| gone.is_some());
            let maybe = place(|s| matches!(s, State::Maybe(_))).map(|(_, span)| *span);
            let index = params.iter().position(|p| p == value).unwrap_or_default();
            consumes[index] = gone;
            if let (Some(kept), Some(gone), false) =
                (mixed.or(maybe), gone, reported.contains(&packet))
            {
                let name = body.values[*value].name.as_deref().unwrap_or("packet");
                let message = format!("`{}` gives `{name}` away on some paths only", def.name);
                found.push(
                    Diagnostic::error(codes::PACKET_MIXED.id, kept, message)
                        .label("still held here")
                        .also(gone, "given away here")
                        .help(
                            "give it away on all paths or on none, and return a value that tells the caller",
                        ),
                );
            }
        }
        let clean = found.is_empty();
        self.diagnostics.extend(found);
        if clean { Ok(consumes) } else { Err(Failed) }
    }
}
