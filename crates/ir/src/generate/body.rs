//! Random bodies: scopes, regions, ways out.

use super::{Decisions, Options};
use crate::build::BodyBuilder;
use crate::ops::{CmpOp, Op};
use crate::program::{BlockId, Body, Program, ReasonId, ValueId};
use crate::types::Type;

/// Makes one body.
pub struct Gen<'a, 'd, 'l> {
    pub program: &'a Program,
    pub b: BodyBuilder<'a>,
    pub d: &'d mut Decisions<'l>,
    pub options: Options,
    pub types: &'a [Type],
    /// Values that are visible here, outer ones first.
    pub scope: Vec<ValueId>,
    pub pkt: Option<ValueId>,
    /// The packet must be given away before `return`.
    pub gives: bool,
    results: Vec<Type>,
    /// Carried types of the loops around.
    pub loops: Vec<Vec<Type>>,
    /// Statements that may still be made.
    budget: usize,
    depth: usize,
}

impl<'a, 'd, 'l> Gen<'a, 'd, 'l> {
    pub fn new(
        program: &'a Program,
        body: &'a mut Body,
        d: &'d mut Decisions<'l>,
        options: Options,
        types: &'a [Type],
    ) -> Gen<'a, 'd, 'l> {
        Gen {
            program,
            b: BodyBuilder::new(body),
            d,
            options,
            types,
            scope: Vec::new(),
            pkt: None,
            gives: false,
            results: Vec::new(),
            loops: Vec::new(),
            budget: 0,
            depth: 0,
        }
    }

    pub fn handler(mut self) {
        let entry = self.b.current();
        self.pkt = Some(self.b.param(entry, Type::Packet, Some("pkt")));
        self.gives = true;
        if self.options.arithmetic_only {
            return self.arithmetic();
        }
        self.take();
        if self.options.byte_loops {
            self.take_bytes();
        }
        self.budget = 40;
        self.statements(40);
        self.leave();
    }

    /// Values of the packet for what follows: it would be about constants without.
    fn take(&mut self) {
        let Some(pkt) = self.pkt else { return };
        for _ in 0..self.d.below(5) {
            let ty = if self.d.one_in(3) { self.any_type() } else { self.int_type() };
            self.push_ok_and_kept(Op::Extract { pkt }, ty);
        }
        if self.d.one_in(2) {
            self.b.push0(Op::Reset { pkt });
        }
    }

    /// Values from the packet, arithmetic, and a hash of everything.
    fn arithmetic(mut self) {
        let Some(pkt) = self.pkt else { return };
        for _ in 0..4 {
            let ty = self.any_type();
            let (_, value) = self.b.push2(Op::Extract { pkt }, Type::BOOL, ty);
            self.keep(value);
            self.b.push0(Op::Reset { pkt });
        }
        for _ in 0..10 + self.d.below(15) {
            self.arithmetic_statement();
        }
        let value = self.digest(usize::MAX);
        self.emit(pkt, value);
        let event = self.program.event_named("stack_recv").expect("the generator declares it");
        self.b.push0(Op::Generate { event, args: vec![pkt] });
        self.b.push0(Op::Return(Vec::new()));
    }

    pub fn function(mut self, params: &[Type], results: &[Type], gives: bool) {
        let entry = self.b.current();
        for ty in params {
            let name = if *ty == Type::Packet { "pkt" } else { "arg" };
            let value = self.b.param(entry, *ty, Some(name));
            if *ty == Type::Packet {
                self.pkt = Some(value);
            } else {
                self.scope.push(value);
            }
        }
        self.results = results.to_vec();
        self.gives = gives;
        self.budget = 6;
        self.statements(6);
        self.leave();
    }

    // ---- values ----------------------------------------------------------------------------------------

    /// A visible value of the type, or one made of another, or a constant.
    pub fn pick(&mut self, ty: Type) -> ValueId {
        self.pick_beside(ty, None)
    }

    /// Picks another value than one, if there is: what is done with a value and itself is folded as
    /// a rule.
    pub fn pick_beside(&mut self, ty: Type, beside: Option<ValueId>) -> ValueId {
        let of_type = |value: &ValueId| self.b.body.ty(*value) == ty && Some(*value) != beside;
        let known: Vec<ValueId> = self.scope.iter().copied().filter(of_type).collect();
        if known.is_empty()
            && self.d.are_left()
            && let Some(value) = self.made(ty)
        {
            return value;
        }
        if known.is_empty() || self.d.one_in(10) {
            return self.constant(ty);
        }
        // Later values are better: they depend on more.
        let back = self.d.below(known.len().min(8));
        known[known.len() - 1 - back]
    }

    /// A value of a type of which none is visible: a visible number cast, or bytes of the packet.
    fn made(&mut self, ty: Type) -> Option<ValueId> {
        let value = match (ty.is_int(), self.pkt) {
            (true, _) if self.d.one_in(3) => return None,
            (true, _) => {
                let of = self.last_int()?;
                self.b.cast(of, ty)
            }
            (false, Some(pkt)) => {
                let off = self.b.int(self.d.below(20) as u64, Type::U32);
                self.b.push2(Op::Load { pkt, off }, Type::BOOL, ty).1
            }
            (false, None) => return None,
        };
        Some(self.keep(value))
    }

    pub fn constant(&mut self, ty: Type) -> ValueId {
        if !ty.is_int() {
            let value = self.b.push1(Op::Zero, ty);
            return self.keep(value);
        }
        let raw = match self.d.below(6) {
            0 => 0,
            1 => 1,
            2 => self.d.below(9) as u64,
            3 => u64::MAX,
            4 => 1 << self.d.below(64),
            _ => (self.d.raw() as u64) << 32 | self.d.raw() as u64,
        };
        let value = self.b.int(raw, ty);
        self.keep(value)
    }

    /// Makes a value visible; some get a name.
    pub fn keep(&mut self, value: ValueId) -> ValueId {
        if self.d.one_in(4) {
            self.b.name(value, ["x", "count", "next", "x"][self.d.below(4)]);
        }
        self.scope.push(value);
        value
    }

    pub fn any_type(&mut self) -> Type {
        self.types[self.d.below(self.types.len())]
    }

    pub fn int_type(&mut self) -> Type {
        let ints: Vec<Type> = self.types.iter().copied().filter(|ty| ty.is_int()).collect();
        ints[self.d.below(ints.len())]
    }

    /// A hash of up to `count` values that became visible last.
    fn digest(&mut self, count: usize) -> ValueId {
        let last: Vec<ValueId> = self.scope.iter().rev().take(count).copied().collect();
        let mut seed = self.b.int(0, Type::U32);
        for value in last {
            seed = self.hash(seed, value);
        }
        seed
    }

    /// The integer that became visible last.
    pub fn last_int(&self) -> Option<ValueId> {
        self.scope.iter().rev().copied().find(|v| self.b.body.ty(*v).is_int())
    }

    /// In a region that is about to end, lets what it computed last show.
    pub fn show(&mut self) {
        if let (true, true, Some(value)) = (self.options.logs, self.d.one_in(2), self.last_int()) {
            self.log("last {}", vec![value]);
        }
    }

    fn picks(&mut self, types: &[Type]) -> Vec<ValueId> {
        types.iter().map(|ty| self.pick(*ty)).collect()
    }

    /// A truth value, often one that depends on the packet.
    fn condition(&mut self) -> ValueId {
        if self.d.one_in(3) {
            return self.pick(Type::BOOL);
        }
        let ty = self.int_type();
        let a = self.pick(ty);
        let b = self.pick_beside(ty, Some(a));
        let op =
            [CmpOp::Ne, CmpOp::Lt, CmpOp::Eq, CmpOp::Ge, CmpOp::Gt, CmpOp::Le][self.d.below(6)];
        let value = self.b.cmp(op, a, b);
        self.keep(value)
    }

    // ---- control ---------------------------------------------------------------------------------------

    /// Up to `most` statements.
    fn statements(&mut self, most: usize) {
        let count = most / 2 + self.d.below(most / 2 + 1);
        for _ in 0..count {
            if self.budget == 0 || !self.d.are_left() {
                return;
            }
            self.budget -= 1;
            if self.options.byte_loops && self.depth < 4 && self.d.one_in(3) {
                self.byte_loop();
                continue;
            }
            if let (true, Some(pkt), true) = (self.options.copies, self.pkt, self.d.one_in(5)) {
                self.copy(pkt);
                continue;
            }
            match self.d.below(12) {
                9 if self.depth < 4 => self.if_statement(),
                10 if self.depth < 4 => self.loop_statement(),
                11 if self.depth < 4 => self.leave_sometimes(),
                _ => self.plain_statement(),
            }
        }
    }

    /// Fills a new region; what it defines goes out of sight behind it.
    pub fn region(&mut self, fill: impl FnOnce(&mut Self)) -> BlockId {
        let block = self.b.new_block();
        self.fill(block, fill);
        block
    }

    pub fn fill(&mut self, block: BlockId, fill: impl FnOnce(&mut Self)) {
        let (before, visible) = (self.b.current(), self.scope.len());
        self.b.switch_to(block);
        self.depth += 1;
        fill(self);
        self.depth -= 1;
        self.scope.truncate(visible);
        self.b.switch_to(before);
    }

    fn if_statement(&mut self) {
        let cond = self.condition();
        let results: Vec<Type> = (0..self.d.below(3)).map(|_| self.any_type()).collect();
        let arm = |outer: &mut Self| {
            outer.region(|inner| {
                inner.statements(4);
                inner.show();
                if inner.d.one_in(5) {
                    inner.leave();
                } else {
                    let values = inner.picks(&results);
                    inner.b.push0(Op::Yield(values));
                }
            })
        };
        let then = arm(self);
        let other = arm(self);
        let likely = if self.d.one_in(4) { Some(0.25) } else { None };
        let inst = self.b.push(Op::If { cond, then, other, likely }, &results);
        for value in self.b.body.insts[inst].results.clone() {
            self.keep(value);
        }
    }

    fn loop_statement(&mut self) {
        let carried: Vec<Type> = (0..1 + self.d.below(2)).map(|_| self.any_type()).collect();
        let init = self.picks(&carried);
        // Loops in loops with many trips are too much for the kernel's verifier.
        let most = if self.loops.is_empty() { 8 } else { 3 };
        let max_trips = [3, 1, 2, most, 0][self.d.below(5)];
        let body = self.b.new_block();
        let params: Vec<ValueId> = carried.iter().map(|ty| self.b.param(body, *ty, None)).collect();
        self.loops.push(carried.clone());
        self.fill(body, |inner| {
            inner.scope.extend(params);
            inner.statements(5);
            inner.show();
            let values = inner.picks(&carried);
            let ends = inner.d.one_in(6);
            inner.b.push0(if ends {
                Op::Break { depth: 0, values }
            } else {
                Op::Continue { depth: 0, values }
            });
        });
        self.loops.pop();
        let inst = self.b.push(Op::Loop { init, max_trips, body }, &carried);
        for value in self.b.body.insts[inst].results.clone() {
            self.keep(value);
        }
    }

    /// A copy of the packet as it is, often with a value in front of it.
    fn copy(&mut self, pkt: ValueId) {
        if self.d.one_in(2) {
            let ty = self.int_type();
            let value = self.pick(ty);
            self.emit(pkt, value);
        }
        let (name, args) = match self.d.one_in(3) {
            true => ("host_copy", vec![pkt]),
            false => ("net_copy", vec![pkt, self.in_port(pkt)]),
        };
        let event = self.program.event_named(name).expect("the generator declares it");
        self.b.push0(Op::Generate { event, args });
    }

    /// `if c { way out }`
    fn leave_sometimes(&mut self) {
        let cond = self.condition();
        let then = self.region(|inner| {
            inner.statements(2);
            inner.leave();
        });
        let other = self.region(|inner| {
            inner.b.push0(Op::Yield(Vec::new()));
        });
        self.b.push0(Op::If { cond, then, other, likely: None });
    }

    /// Ends the region: out of a loop, or out of the body with the packet given away.
    pub fn leave(&mut self) {
        let loops = self.loops.len();
        if loops > 0 && !self.d.one_in(4) {
            let depth = if loops > 1 { self.d.below(2) } else { 0 };
            let values = self.picks(&self.loops[loops - 1 - depth].clone());
            let depth = depth as u32;
            let goes_on = self.d.one_in(3);
            self.b.push0(if goes_on {
                Op::Continue { depth, values }
            } else {
                Op::Break { depth, values }
            });
            return;
        }
        if let (true, Some(pkt)) = (self.gives, self.pkt) {
            self.give_away(pkt);
        }
        let values = self.picks(&self.results.clone());
        self.b.push0(Op::Return(values));
    }

    fn give_away(&mut self, pkt: ValueId) {
        // What was computed shows in the frame: one hash of several values, and some values as they
        // are.
        if !self.d.one_in(4) {
            let count = 8 + self.d.below(20);
            let value = self.digest(count);
            self.emit(pkt, value);
        }
        for _ in 0..self.d.below(3) {
            let ty = self.any_type();
            let value = self.pick(ty);
            self.emit(pkt, value);
        }
        let event = |name| self.program.event_named(name).expect("the generator declares it");
        let finish =
            self.program.funcs.iter().find(|(_, func)| func.name == "finish").map(|(id, _)| id);
        let op = match (self.d.below(6), finish) {
            (0, _) => {
                let reason = ReasonId::from_u32(self.d.below(2) as u32);
                return self.b.drop(pkt, reason);
            }
            (1, _) => Op::Generate { event: event("stack_recv"), args: vec![pkt] },
            (2, Some(func)) => Op::Call { func, args: vec![pkt] },
            _ => {
                let port = self.in_port(pkt);
                Op::Generate { event: event("net_send"), args: vec![pkt, port] }
            }
        };
        self.b.push0(op);
    }
}
