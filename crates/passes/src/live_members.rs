//! `live-members`: of a struct that an event carries, the members that live behind it cross, and
//! the handler makes the struct again.
//!
//! Where stacks are small, members apart (`split-structs`) take more of them than the struct that
//! they were. So nothing changes in the handler but its beginning: zero, with the members that
//! came. Which of them live is what `split-structs` would leave after simplifying, tried on a copy
//! of the program: a member that is written on all ways before it is read does not. If a struct is
//! used as a whole, all do, and it crosses as it is; an argument of another event is none once that
//! event carries members. Every change takes bytes away from an event, so repeating it ends.

use nicforge_ir::{Body, EventId, HandlerId, Op, Program, Proj, Span, Type, ValueDef};

use crate::Pass;
use crate::cse::Cse;
use crate::dce::Dce;
use crate::event_params::{internal, remove, sites, users};
use crate::fold::Fold;
use crate::rewrite::{Replacements, new_inst};
use crate::simplify_control::SimplifyControl;
use crate::split_structs::{carry_members, split};

pub struct LiveMembers;

impl Pass for LiveMembers {
    fn name(&self) -> &'static str {
        "live-members"
    }

    fn description(&self) -> &'static str {
        "lets internal events carry the members of structs that live in their handlers"
    }

    fn run(&self, program: &mut Program) -> bool {
        let mut changed = false;
        for (event, handler) in internal(program) {
            let mut at = 0;
            while at < program.events[event].params.len() {
                let narrowed = narrow(program, event, handler, at);
                changed |= narrowed;
                at += usize::from(!narrowed);
            }
        }
        changed
    }
}

/// True if a parameter is a struct that went, and some of its members came.
fn narrow(program: &mut Program, event: EventId, handler: HandlerId, at: usize) -> bool {
    let Type::Struct(of) = program.events[event].params[at].ty else { return false };
    let places = sites(program, event);
    if places.is_empty() || users(program, handler)[at].is_empty() {
        return false;
    }
    let Some(live) = living(program, event, handler, at, program.structs[of].fields.len()) else {
        return false;
    };
    if live.iter().all(|live| *live) {
        return false;
    }
    let fields = program.structs[of].fields.iter().map(|field| (field.name.clone(), field.ty));
    let members: Vec<(u32, (String, Type))> =
        (0..).zip(fields).filter(|(n, _)| live[*n as usize]).collect();
    carry_members(program, event, at, &members);
    let mut body = std::mem::take(&mut program.handlers[handler].body);
    make_again(&mut body, at, Type::Struct(of), &members);
    program.handlers[handler].body = body;
    remove(program, event, handler, &places, at);
    true
}

/// Which members a handler may read as they came; none if it uses the struct as a whole.
fn living(
    program: &Program,
    event: EventId,
    handler: HandlerId,
    at: usize,
    count: usize,
) -> Option<Vec<bool>> {
    let body = &program.handlers[handler].body;
    let mut live = vec![false; count];
    let mut only_read = true;
    for inst in &users(program, handler)[at] {
        match &body.insts[*inst].op {
            Op::Get { path, .. } => match path.first() {
                Some(Proj::Field(field)) => live[*field as usize] = true,
                _ => return None,
            },
            _ => only_read = false,
        }
    }
    if only_read {
        return Some(live);
    }
    let mut trial = program.clone();
    if !split(&mut trial, event, handler, at) {
        return None;
    }
    let passes: [&dyn Pass; 4] = [&Fold, &SimplifyControl, &Cse, &Dce];
    while passes.into_iter().any(|pass| pass.run(&mut trial)) {}
    let all = users(&trial, handler);
    Some(all[all.len() - count..].iter().map(|users| !users.is_empty()).collect())
}

/// Parameters for the members, and the struct of them in place of the one that came.
fn make_again(body: &mut Body, at: usize, ty: Type, members: &[(u32, (String, Type))]) {
    let entry = body.entry();
    let came = body.blocks[entry].params[at];
    let mut insts = vec![new_inst(body, Op::Zero, &[ty], Span::default())];
    for (number, (name, member)) in members {
        let index = body.blocks[entry].params.len() as u32;
        let def = ValueDef::Param(entry, index);
        let value =
            body.values.push(nicforge_ir::Value { ty: *member, name: Some(name.clone()), def });
        body.blocks[entry].params.push(value);
        let agg = body.insts[insts[insts.len() - 1]].results[0];
        let set = Op::Set { agg, path: vec![Proj::Field(*number)], value };
        insts.push(new_inst(body, set, &[ty], Span::default()));
    }
    let made = body.insts[insts[insts.len() - 1]].results[0];
    let mut replaced = Replacements::default();
    replaced.add(body, came, made);
    replaced.apply(body);
    body.blocks[entry].insts.splice(0..0, insts);
}
