//! `event-params`: internal events carry what their handler needs, and no more.
//!
//! For every event between handlers, one parameter after the other, until none of the rules
//! applies. A parameter goes if
//!
//! * the handler does not use it;
//! * every place that generates the event gives it the same constant: the handler makes the
//!   constant itself;
//! * every place gives it the value that it gives another parameter too;
//! * every place computes it by the same cheap pure op from other parameters and constants: the
//!   handler computes it (a tenth of a cycle against bytes to carry);
//! * the handler uses it only in cheap pure ops with constants besides, and their results take
//!   fewer bytes than it does: the places compute the results, which are carried instead. So a
//!   struct of which two members are read becomes these two.
//!
//! Each rule takes bytes away from an event, so repeating them ends. Greedy: rules are tried in
//! this order, parameters in theirs; the smallest set of values to carry is found when the handler
//! is cut, this pass only follows what simplifying uncovers later, across any number of cuts.
//! Packets always stay.

use nicforge_ir::{
    BinOp, BlockId, Body, Direction, EventId, FuncId, HandlerId, Inst, InstId, Op, Param, Program,
    Span, Type, Value, ValueDef, ValueId,
};

use crate::Pass;
use crate::rewrite::{Replacements, constant, new_inst};

pub struct EventParams;

impl Pass for EventParams {
    fn name(&self) -> &'static str {
        "event-params"
    }

    fn description(&self) -> &'static str {
        "lets internal events carry no more than their handlers need"
    }

    fn run(&self, program: &mut Program) -> bool {
        let mut changed = false;
        for (event, handler) in internal(program) {
            while reduce(program, event, handler) {
                changed = true;
            }
        }
        changed
    }
}

/// Events inside the program that have a handler.
pub(crate) fn internal(program: &Program) -> Vec<(EventId, HandlerId)> {
    let inside = |event: &EventId| program.events[*event].direction == Direction::Internal;
    program
        .events
        .keys()
        .filter(inside)
        .filter_map(|event| Some((event, program.handler_of(event)?)))
        .collect()
}

/// Whose body an instruction is in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Handler(HandlerId),
    Func(FuncId),
}

/// A place that generates the event.
#[derive(Clone, Copy)]
pub(crate) struct Site {
    pub(crate) owner: Owner,
    pub(crate) block: BlockId,
    pub(crate) inst: InstId,
}

fn body_of(program: &Program, owner: Owner) -> &Body {
    match owner {
        Owner::Handler(id) => &program.handlers[id].body,
        Owner::Func(id) => &program.funcs[id].body,
    }
}

pub(crate) fn body_mut(program: &mut Program, owner: Owner) -> &mut Body {
    match owner {
        Owner::Handler(id) => &mut program.handlers[id].body,
        Owner::Func(id) => &mut program.funcs[id].body,
    }
}

pub(crate) fn sites(program: &Program, event: EventId) -> Vec<Site> {
    let handlers = program.handlers.keys().map(Owner::Handler);
    let mut found = Vec::new();
    for owner in handlers.chain(program.funcs.keys().map(Owner::Func)) {
        let body = body_of(program, owner);
        collect(body, body.entry(), &mut |block, inst| {
            if matches!(body.insts[inst].op, Op::Generate { event: e, .. } if e == event) {
                found.push(Site { owner, block, inst });
            }
        });
    }
    found
}

fn collect(body: &Body, block: BlockId, visit: &mut impl FnMut(BlockId, InstId)) {
    for &inst in &body.blocks[block].insts {
        visit(block, inst);
        for region in body.insts[inst].op.regions() {
            collect(body, region, visit);
        }
    }
}

pub(crate) fn args<'p>(program: &'p Program, site: &Site) -> &'p [ValueId] {
    match &body_of(program, site.owner).insts[site.inst].op {
        Op::Generate { args, .. } => args,
        _ => &[],
    }
}

/// Applies the first rule that fits a parameter.
fn reduce(program: &mut Program, event: EventId, handler: HandlerId) -> bool {
    let sites = sites(program, event);
    if sites.is_empty() {
        return false;
    }
    for (at, users) in users(program, handler).into_iter().enumerate() {
        if program.events[event].params[at].ty == Type::Packet {
            continue;
        }
        if users.is_empty() {
            remove(program, event, handler, &sites, at);
            return true;
        }
        if let Some(recipe) = recipe(program, &sites, at) {
            compute_in_handler(program, handler, at, &recipe);
            remove(program, event, handler, &sites, at);
            return true;
        }
        if results_are_smaller(program, handler, at, &users) {
            compute_at_sites(program, event, handler, &sites, at, &users);
            remove(program, event, handler, &sites, at);
            return true;
        }
    }
    false
}

/// The handler's instructions that use each parameter.
pub(crate) fn users(program: &Program, handler: HandlerId) -> Vec<Vec<InstId>> {
    let body = &program.handlers[handler].body;
    let params = &body.blocks[body.entry()].params;
    let mut found = vec![Vec::new(); params.len()];
    body.for_each_inst(body.entry(), &mut |inst| {
        for operand in body.insts[inst].op.operands() {
            if let Some(at) = params.iter().position(|param| *param == operand)
                && found[at].last() != Some(&inst)
            {
                found[at].push(inst);
            }
        }
    });
    found
}

/// Ways in which a parameter follows from others.
#[derive(Clone, Debug, PartialEq)]
enum Recipe {
    Constant(u64),
    Zero,
    Same(usize),
    /// An op, its operands all set to value 0, and what they are.
    Computed(Op, Vec<Operand>),
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Param(usize),
    Constant(u64, Type),
}

/// The recipe that holds at every place.
fn recipe(program: &Program, sites: &[Site], at: usize) -> Option<Recipe> {
    let first = recipes(program, &sites[0], at);
    first
        .into_iter()
        .find(|recipe| sites[1..].iter().all(|site| recipes(program, site, at).contains(recipe)))
}

/// The recipes that hold at one place.
fn recipes(program: &Program, site: &Site, at: usize) -> Vec<Recipe> {
    let (body, args) = (body_of(program, site.owner), args(program, site));
    let value = args[at];
    let mut found = Vec::new();
    match body.def_op(value) {
        Some(Op::Int(raw)) => found.push(Recipe::Constant(*raw)),
        Some(Op::Zero) if body.ty(value).is_int() => found.push(Recipe::Constant(0)),
        Some(Op::Zero) => found.push(Recipe::Zero),
        _ => {}
    }
    // Only earlier ones, or two equal parameters would replace each other.
    found.extend((0..at).filter(|other| args[*other] == value).map(Recipe::Same));
    let Some(op) = body.def_op(value).filter(|op| is_cheap(op)) else { return found };
    let operand = |operand: ValueId| match constant(body, operand) {
        Some(raw) => Some(Operand::Constant(raw, body.ty(operand))),
        None => {
            args.iter().position(|arg| *arg == operand).filter(|p| *p != at).map(Operand::Param)
        }
    };
    let operands: Option<Vec<Operand>> = op.operands().map(operand).collect();
    if let Some(operands) = operands.filter(|operands| !operands.is_empty()) {
        let mut shape = op.clone();
        shape.map_operands(&mut |_| ValueId::from_u32(0));
        found.push(Recipe::Computed(shape, operands));
    }
    found
}

/// Pure ops of about a cycle.
fn is_cheap(op: &Op) -> bool {
    match op {
        Op::Bin(op, ..) => !matches!(op, BinOp::Div | BinOp::Rem | BinOp::Mul),
        Op::Cmp(..) | Op::Un(..) | Op::Cast(_) | Op::Select { .. } | Op::Get { .. } => true,
        _ => false,
    }
}

fn compute_in_handler(program: &mut Program, handler: HandlerId, at: usize, recipe: &Recipe) {
    let body = &mut program.handlers[handler].body;
    let entry = body.entry();
    let params = body.blocks[entry].params.clone();
    let (ty, name) = (body.ty(params[at]), body.values[params[at]].name.clone());
    let span = Span::default();
    let mut added = Vec::new();
    let mut add = |body: &mut Body, op: Op, ty: Type| {
        let inst = new_inst(body, op, &[ty], span);
        added.push(inst);
        body.insts[inst].results[0]
    };
    let value = match recipe {
        Recipe::Constant(raw) => add(body, Op::Int(*raw), ty),
        Recipe::Zero => add(body, Op::Zero, ty),
        Recipe::Same(other) => params[*other],
        Recipe::Computed(shape, operands) => {
            let operands: Vec<ValueId> = operands
                .iter()
                .map(|operand| match operand {
                    Operand::Param(other) => params[*other],
                    Operand::Constant(raw, ty) => add(body, Op::Int(*raw), *ty),
                })
                .collect();
            let (mut op, mut rest) = (shape.clone(), operands.into_iter());
            op.map_operands(&mut |value| rest.next().unwrap_or(value));
            let value = add(body, op, ty);
            body.values[value].name = name;
            value
        }
    };
    body.blocks[entry].insts.splice(0..0, added);
    let mut replaced = Replacements::default();
    replaced.add(body, params[at], value);
    replaced.apply(body);
}

/// True if all users are pure ops of this parameter and constants, with results of fewer bytes than
/// it has.
fn results_are_smaller(program: &Program, handler: HandlerId, at: usize, users: &[InstId]) -> bool {
    let body = &program.handlers[handler].body;
    let param = body.blocks[body.entry()].params[at];
    let computable = |inst: &InstId| {
        let Inst { op, results, .. } = &body.insts[*inst];
        let known = |value: ValueId| value == param || constant(body, value).is_some();
        is_cheap(op) && results.len() == 1 && op.operands().all(known)
    };
    if !users.iter().all(computable) {
        return false;
    }
    let bytes: u32 =
        users.iter().map(|inst| program.size_of(body.ty(body.insts[*inst].results[0]))).sum();
    bytes < program.size_of(body.ty(param))
}

/// Moves the users of a parameter to the places that generate the event; their results become
/// parameters.
fn compute_at_sites(
    program: &mut Program,
    event: EventId,
    handler: HandlerId,
    sites: &[Site],
    at: usize,
    users: &[InstId],
) {
    for &user in users {
        let body = &program.handlers[handler].body;
        let entry = body.entry();
        let param = body.blocks[entry].params[at];
        let Inst { op, results, span } = body.insts[user].clone();
        let constants: Vec<Option<(u64, Type)>> = op
            .operands()
            .map(|value| constant(body, value).map(|raw| (raw, body.ty(value))))
            .collect();
        let Value { ty, name, .. } = body.values[results[0]].clone();
        for site in sites {
            let arg = args(program, site)[at];
            let body = body_mut(program, site.owner);
            let mut added = Vec::new();
            let (mut moved, mut constants) = (op.clone(), constants.iter());
            moved.map_operands(&mut |value| match constants.next() {
                Some(Some((raw, ty))) => {
                    let inst = new_inst(body, Op::Int(*raw), &[*ty], span);
                    added.push(inst);
                    body.insts[inst].results[0]
                }
                _ if value == param => arg,
                _ => value,
            });
            let inst = new_inst(body, moved, &[ty], span);
            added.push(inst);
            let value = body.insts[inst].results[0];
            body.values[value].name = name.clone();
            let insts = &mut body.blocks[site.block].insts;
            let place = insts.iter().position(|inst| *inst == site.inst).unwrap_or(0);
            insts.splice(place..place, added);
            if let Op::Generate { args, .. } = &mut body.insts[site.inst].op {
                args.push(value);
            }
        }
        let taken =
            |word: &str| program.events[event].params.iter().any(|param| param.name == word);
        let base = name.clone().unwrap_or_else(|| "value".to_string());
        let mut word = base.clone();
        let mut number = 2;
        while taken(&word) {
            word = format!("{base}_{number}");
            number += 1;
        }
        program.events[event].params.push(Param { name: word, ty, borrowed: false });
        let body = &mut program.handlers[handler].body;
        let index = body.blocks[entry].params.len() as u32;
        let new = body.values.push(Value { ty, name, def: ValueDef::Param(entry, index) });
        body.blocks[entry].params.push(new);
        let mut replaced = Replacements::default();
        replaced.add(body, results[0], new);
        replaced.apply(body);
        remove_inst(body, entry, user);
    }
}

fn remove_inst(body: &mut Body, block: BlockId, inst: InstId) {
    body.blocks[block].insts.retain(|other| *other != inst);
    for inner in body.blocks[block].insts.clone() {
        for region in body.insts[inner].op.regions() {
            remove_inst(body, region, inst);
        }
    }
}

/// Takes a parameter that is not used any more out of the event, its handler and all places.
pub(crate) fn remove(
    program: &mut Program,
    event: EventId,
    handler: HandlerId,
    sites: &[Site],
    at: usize,
) {
    program.events[event].params.remove(at);
    let body = &mut program.handlers[handler].body;
    let entry = body.entry();
    body.blocks[entry].params.remove(at);
    for (index, param) in body.blocks[entry].params.clone().into_iter().enumerate() {
        body.values[param].def = ValueDef::Param(entry, index as u32);
    }
    for site in sites {
        if let Op::Generate { args, .. } = &mut body_mut(program, site.owner).insts[site.inst].op {
            args.remove(at);
        }
    }
}
