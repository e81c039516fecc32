//! `split-structs`: a struct that an event carries becomes its members, where its handler changes
//! some of them.
//!
//! `event-params` takes away the members that a handler does not read, if it sees nothing but
//! reads. A handler that writes one on some ways (`if (c) state->a = 9;`) makes a new struct of the
//! one that came and lets both meet behind the `if`, and then all members seem to be needed. So,
//! for a parameter whose values only flow through `set`, `select`, `if`s and loops and end in
//! `get`s: every such value gets a value for each member beside it, the event carries the members,
//! and the simplifying passes and `event-params` remove what nobody needs then. The members that
//! stay are those that live on some way, and a write on some ways does not end a life.
//!
//! Values that meet are found by closure in both directions, so each is split or none. A value that
//! is used as a whole (a table's entry, an argument of another event) keeps the struct together;
//! another event's argument comes apart when that event was split, and the planner asks again.
//! Members that are structs are parameters then, and split the next time. Each run gets rid of one
//! struct parameter, so that ends.

use std::collections::{HashMap, HashSet};

use nicforge_ir::build::mask;
use nicforge_ir::{
    BinOp, BlockId, Body, EventId, HandlerId, InstId, Op, Param, Program, Proj, Span, Type, Value,
    ValueDef, ValueId,
};

use crate::Pass;
use crate::event_params::{args, body_mut, internal, sites, users};
use crate::rewrite::{Replacements, for_each_exit, new_inst};

pub struct SplitStructs;

impl Pass for SplitStructs {
    fn name(&self) -> &'static str {
        "split-structs"
    }

    fn description(&self) -> &'static str {
        "lets internal events carry the members of structs that their handlers change"
    }

    fn run(&self, program: &mut Program) -> bool {
        let mut changed = false;
        for (event, handler) in internal(program) {
            let count = program.events[event].params.len();
            for at in 0..count {
                changed |= split(program, event, handler, at);
            }
        }
        changed
    }
}

/// Splits a parameter; whether it is worth while and can be.
pub(crate) fn split(program: &mut Program, event: EventId, handler: HandlerId, at: usize) -> bool {
    let Type::Struct(of) = program.events[event].params[at].ty else { return false };
    let body = &program.handlers[handler].body;
    let reads = |inst: &InstId| matches!(body.insts[*inst].op, Op::Get { .. });
    if sites(program, event).is_empty() || users(program, handler)[at].iter().all(reads) {
        return false;
    }
    let param = body.blocks[body.entry()].params[at];
    let Some(values) = component(body, param) else { return false };
    let members: Vec<(String, Type)> =
        program.structs[of].fields.iter().map(|field| (field.name.clone(), field.ty)).collect();
    let widths = program.structs[of].fields.iter().map(|field| field.bit_width).collect();
    let numbered: Vec<(u32, (String, Type))> = (0..).zip(members.clone()).collect();
    carry_members(program, event, at, &numbered);
    let body = &mut program.handlers[handler].body;
    let entry = body.entry();
    let mut fields = Vec::new();
    for (name, ty) in &members {
        let number = body.blocks[entry].params.len() as u32;
        let value =
            Value { ty: *ty, name: Some(name.clone()), def: ValueDef::Param(entry, number) };
        let value = body.values.push(value);
        body.blocks[entry].params.push(value);
        fields.push(value);
    }
    let mut splitter = Splitter {
        values,
        members,
        widths,
        fields: HashMap::new(),
        replaced: Replacements::default(),
    };
    splitter.fields.insert(param, fields);
    splitter.block(body, entry);
    splitter.replaced.apply(body);
    hand_on(body);
    true
}

/// Replaces what loops carry unchanged by what they began with.
fn hand_on(body: &mut Body) {
    let mut loops = Vec::new();
    body.for_each_inst(body.entry(), &mut |inst| {
        loops.extend(matches!(body.insts[inst].op, Op::Loop { .. }).then_some(inst));
    });
    let mut gone = HashSet::new();
    loop {
        let mut replaced = Replacements::default();
        for inst in &loops {
            let Op::Loop { init, body: region, .. } = &body.insts[*inst].op else { continue };
            let (params, results) = (&body.blocks[*region].params, &body.insts[*inst].results);
            let mut same = vec![true; init.len()];
            for_each_exit(body, *region, 0, &mut |exit, inside| {
                let (Op::Break { depth, values } | Op::Continue { depth, values }) =
                    &body.insts[exit].op
                else {
                    return;
                };
                for (at, value) in values.iter().enumerate().filter(|_| *depth == inside) {
                    same[at] &= [params[at], init[at]].contains(value);
                }
            });
            let kept = (0..init.len()).filter(|at| same[*at]);
            let kept = kept.flat_map(|at| [(params[at], init[at]), (results[at], init[at])]);
            for (from, to) in kept.collect::<Vec<_>>() {
                if gone.insert(from) {
                    replaced.add(body, from, to);
                }
            }
        }
        if !replaced.any() {
            return;
        }
        replaced.apply(body);
    }
}

/// Every place that generates the event gives these members of the struct too.
pub(crate) fn carry_members(
    program: &mut Program,
    event: EventId,
    at: usize,
    members: &[(u32, (String, Type))],
) {
    for site in sites(program, event) {
        let arg = args(program, &site)[at];
        let body = body_mut(program, site.owner);
        let span = body.insts[site.inst].span;
        let mut gets = Vec::new();
        for (number, (_, ty)) in members {
            gets.push(new_inst(
                body,
                Op::Get { agg: arg, path: vec![Proj::Field(*number)] },
                &[*ty],
                span,
            ));
        }
        let values: Vec<ValueId> = gets.iter().map(|inst| body.insts[*inst].results[0]).collect();
        let insts = &mut body.blocks[site.block].insts;
        let place = insts.iter().position(|inst| *inst == site.inst).unwrap_or(0);
        insts.splice(place..place, gets);
        if let Op::Generate { args, .. } = &mut body.insts[site.inst].op {
            args.extend(values);
        }
    }
    for (_, (name, ty)) in members {
        let params = &program.events[event].params;
        let free = |word: &String| !params.iter().any(|param| param.name == *word);
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let name = std::iter::once(name.clone()).chain(numbered).find(free).unwrap_or_default();
        program.events[event].params.push(Param { name, ty: *ty, borrowed: false });
    }
}

/// Flow of values: for each, those that it may become or come from.
#[derive(Default)]
struct Flow {
    with: HashMap<ValueId, Vec<ValueId>>,
    /// Values that are used as a whole.
    whole: HashSet<ValueId>,
}

impl Flow {
    fn meet(&mut self, one: ValueId, other: ValueId) {
        self.with.entry(one).or_default().push(other);
        self.with.entry(other).or_default().push(one);
    }

    fn meet_all(&mut self, ones: &[ValueId], others: &[ValueId]) {
        ones.iter().zip(others).for_each(|(one, other)| self.meet(*one, *other));
    }

    /// `arm`: the `if` whose region it is; `loops`: the loops around, outermost first.
    fn block(&mut self, body: &Body, block: BlockId, arm: Option<InstId>, loops: &mut Vec<InstId>) {
        for &inst in &body.blocks[block].insts {
            let (op, results) = (&body.insts[inst].op, &body.insts[inst].results);
            match op {
                Op::Get { agg, path } if matches!(path.first(), Some(Proj::Field(_))) => {
                    let indices = op.operands().filter(|value| value != agg);
                    self.whole.extend(indices);
                }
                Op::Set { agg, path, value } if matches!(path.first(), Some(Proj::Field(_))) => {
                    self.meet(*agg, results[0]);
                    self.whole.insert(*value);
                }
                Op::Select { then, other, .. } => {
                    self.meet(*then, results[0]);
                    self.meet(*other, results[0]);
                }
                Op::If { then, other, .. } => {
                    self.block(body, *then, Some(inst), loops);
                    self.block(body, *other, Some(inst), loops);
                }
                Op::Loop { init, body: region, .. } => {
                    self.meet_all(init, &body.blocks[*region].params);
                    self.meet_all(init, results);
                    loops.push(inst);
                    self.block(body, *region, None, loops);
                    loops.pop();
                }
                Op::Yield(values) => {
                    if let Some(arm) = arm {
                        self.meet_all(values, &body.insts[arm].results);
                    }
                }
                Op::Break { depth, values } | Op::Continue { depth, values } => {
                    let around = loops[loops.len() - 1 - *depth as usize];
                    self.meet_all(values, &body.insts[around].results);
                }
                op => self.whole.extend(op.operands()),
            }
        }
    }
}

/// The values that a parameter meets, itself included; none if one of them is used as a whole.
fn component(body: &Body, param: ValueId) -> Option<HashSet<ValueId>> {
    let mut flow = Flow::default();
    flow.block(body, body.entry(), None, &mut Vec::new());
    let (mut found, mut left) = (HashSet::from([param]), vec![param]);
    while let Some(value) = left.pop() {
        if flow.whole.contains(&value) {
            return None;
        }
        for other in flow.with.get(&value).into_iter().flatten() {
            if found.insert(*other) {
                left.push(*other);
            }
        }
    }
    Some(found)
}

struct Splitter {
    values: HashSet<ValueId>,
    members: Vec<(String, Type)>,
    /// Bits of those members that are bit-fields.
    widths: Vec<Option<u8>>,
    /// The values of the members of each value that was reached.
    fields: HashMap<ValueId, Vec<ValueId>>,
    replaced: Replacements,
}

impl Splitter {
    /// The members of those among the values that come apart, behind one another.
    fn more(&self, values: &[ValueId]) -> Vec<ValueId> {
        values.iter().filter_map(|value| self.fields.get(value)).flatten().copied().collect()
    }

    /// New values for the members of `values`; `def` says where number so-and-so comes from.
    fn fresh(
        &mut self,
        body: &mut Body,
        values: &[ValueId],
        mut at: u32,
        def: impl Fn(u32) -> ValueDef,
    ) -> Vec<ValueId> {
        let mut all = Vec::new();
        for value in values.iter().filter(|value| self.values.contains(value)) {
            let mut fields = Vec::new();
            for (name, ty) in &self.members {
                fields.push(body.values.push(Value {
                    ty: *ty,
                    name: Some(name.clone()),
                    def: def(at),
                }));
                at += 1;
            }
            all.extend(&fields);
            self.fields.insert(*value, fields);
        }
        all
    }

    /// The part of a value that a member keeps: a bit-field its low bits.
    fn in_bits(
        &self,
        body: &mut Body,
        at: usize,
        value: ValueId,
        span: Span,
        done: &mut Vec<InstId>,
    ) -> ValueId {
        let (Some(width), ty) = (self.widths[at], self.members[at].1) else { return value };
        let bits = ty.bits().unwrap_or(64);
        if width >= bits {
            return value;
        }
        let mut made = |op: Op| {
            let inst = new_inst(body, op, &[ty], span);
            done.push(inst);
            body.insts[inst].results[0]
        };
        if !ty.is_signed() {
            let low = made(Op::Int(mask(u64::MAX, width)));
            return made(Op::Bin(BinOp::And, value, low));
        }
        let by = made(Op::Int(u64::from(bits - width)));
        let high = made(Op::Bin(BinOp::Shl, value, by));
        made(Op::Bin(BinOp::Shr, high, by))
    }

    /// A value whose members are read from it.
    fn source(&mut self, body: &mut Body, value: ValueId, span: Span) -> Vec<InstId> {
        let mut gets = Vec::new();
        for (number, (_, ty)) in (0..).zip(&self.members) {
            gets.push(new_inst(
                body,
                Op::Get { agg: value, path: vec![Proj::Field(number)] },
                &[*ty],
                span,
            ));
        }
        self.fields.insert(value, gets.iter().map(|inst| body.insts[*inst].results[0]).collect());
        gets
    }

    fn block(&mut self, body: &mut Body, block: BlockId) {
        let mut done = Vec::new();
        for param in body.blocks[block].params.clone() {
            if self.values.contains(&param) && !self.fields.contains_key(&param) {
                done.extend(self.source(body, param, Span::default()));
            }
        }
        for inst in std::mem::take(&mut body.blocks[block].insts) {
            self.inst(body, inst, &mut done);
        }
        body.blocks[block].insts = done;
    }

    fn inst(&mut self, body: &mut Body, inst: InstId, done: &mut Vec<InstId>) {
        let (mut op, results) = (body.insts[inst].op.clone(), body.insts[inst].results.clone());
        let span = body.insts[inst].span;
        match &mut op {
            Op::Get { agg, path } => {
                if let (Some(fields), Some(Proj::Field(at))) = (self.fields.get(agg), path.first())
                {
                    let field = fields[*at as usize];
                    if path.len() == 1 {
                        self.replaced.add(body, results[0], field);
                        return;
                    }
                    path.remove(0);
                    *agg = field;
                    body.insts[inst].op = op;
                }
                done.push(inst);
                // A struct that was a member of another one.
                if self.values.contains(&results[0]) {
                    done.extend(self.source(body, results[0], span));
                }
                return;
            }
            Op::Set { agg, path, value } if self.values.contains(&results[0]) => {
                let (mut fields, Proj::Field(at)) = (self.fields[agg].clone(), path[0]) else {
                    return;
                };
                let at = at as usize;
                if path.len() == 1 {
                    fields[at] = self.in_bits(body, at, *value, span, done);
                } else {
                    let part = Op::Set { agg: fields[at], path: path[1..].to_vec(), value: *value };
                    let part = new_inst(body, part, &[self.members[at].1], span);
                    done.push(part);
                    fields[at] = body.insts[part].results[0];
                }
                self.fields.insert(results[0], fields);
            }
            Op::Select { cond, then, other } if self.values.contains(&results[0]) => {
                let mut fields = Vec::new();
                for (at, (_, ty)) in self.members.iter().enumerate() {
                    let (then, other) = (self.fields[then][at], self.fields[other][at]);
                    let part =
                        new_inst(body, Op::Select { cond: *cond, then, other }, &[*ty], span);
                    done.push(part);
                    fields.push(body.insts[part].results[0]);
                }
                self.fields.insert(results[0], fields);
            }
            Op::If { then, other, .. } => {
                self.block(body, *then);
                self.block(body, *other);
                let first = results.len() as u32;
                let more = self.fresh(body, &results, first, |at| ValueDef::Result(inst, at));
                body.insts[inst].results.extend(more);
            }
            Op::Loop { init, body: region, .. } => {
                init.extend(self.more(init));
                let (params, region) = (body.blocks[*region].params.clone(), *region);
                let first = params.len() as u32;
                let more = self.fresh(body, &params, first, |at| ValueDef::Param(region, at));
                body.blocks[region].params.extend(more);
                body.insts[inst].op = op;
                self.block(body, region);
                let more = self.fresh(body, &results, first, |at| ValueDef::Result(inst, at));
                body.insts[inst].results.extend(more);
            }
            Op::Yield(values) | Op::Break { values, .. } | Op::Continue { values, .. } => {
                values.extend(self.more(values));
                body.insts[inst].op = op;
            }
            _ => {
                done.push(inst);
                for value in results {
                    if self.values.contains(&value) {
                        done.extend(self.source(body, value, span));
                    }
                }
                return;
            }
        }
        done.push(inst);
    }
}
