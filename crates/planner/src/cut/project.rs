//! From a division to two handlers.
//!
//! Both are the handler's body in working form, with the same nested `if`s, projected on the nodes
//! of one stage.
//!
//! *Upstream* keeps its nodes and those `if`s whose place and condition it knows; what follows the
//! others is downstream work altogether. Every `return` behind which downstream work may remain
//! generates the event. A value that crosses is visible there, or is handed out of the `if`s it
//! stands in (zero from arms without it), or could not have been computed on the paths to there and
//! goes as zero.
//!
//! *Downstream* keeps its nodes; every other value it uses, conditions included, becomes a
//! parameter. An arm whose exits never generate the event cannot be entered, so the condition of
//! its `if` is a constant. Simplifying then shows which parameters are needed. Where the packet is
//! read again, it starts by putting the cursor back (`restart`), and what both stages do to the
//! cursor stands in both.
//!
//! Right because a run takes the same way through both: downstream sees the same conditions, and on
//! that way each node runs in one stage in the same order, or is pure and may run in both. What the
//! rules of [`super::graph`] keep is that everything with an effect that was before something else
//! with one still is.

use cranelift_entity::SecondaryMap;
use nicforge_ir::{
    BlockId, Body, EventId, InstId, Op, Param, Program, Type, Value, ValueDef, ValueId,
};
use nicforge_passes::registry::pass_named;
use nicforge_passes::rewrite::{Replacements, new_inst, zero_of};

use super::crossing::name_of;
use super::graph::Division;
use super::nodes::{NodeId, What, Work};
use super::restart::start_over;

/// For each exit's region, whether its `return` generates the event.
pub fn generating(work: &Work, division: &Division) -> SecondaryMap<BlockId, bool> {
    let mut found = SecondaryMap::new();
    for exit in &work.exits {
        let remains = |id: NodeId| {
            let node = &work.nodes[id];
            // What is done in both stages only reads the packet.
            division.down[id]
                && !division.up[id]
                && node.touches.effect
                && work.share_path(&node.place, &exit.place)
        };
        found[exit.block] = !division.reached[exit.point] || (0..work.nodes.len()).any(remains);
    }
    found
}

/// Nodes by instruction, and by result of `if`s.
struct Index {
    inst: SecondaryMap<InstId, Option<NodeId>>,
    result: SecondaryMap<ValueId, Option<NodeId>>,
}

impl Index {
    fn new(work: &Work) -> Index {
        let mut index = Index { inst: SecondaryMap::new(), result: SecondaryMap::new() };
        for (id, node) in work.nodes.iter().enumerate() {
            match node.what {
                What::Inst(inst) => index.inst[inst] = Some(id),
                What::Result(..) => index.result[node.gives[0]] = Some(id),
            }
        }
        index
    }

    fn keeps(&self, inst: InstId, side: &[bool]) -> bool {
        self.inst[inst].is_none_or(|id| side[id])
    }

    /// Drops the results of an `if` that are not computed on this side.
    fn filter_results(&self, body: &mut Body, inst: InstId, arms: [BlockId; 2], side: &[bool]) {
        let results = std::mem::take(&mut body.insts[inst].results);
        let keep: Vec<bool> =
            results.iter().map(|v| self.result[*v].is_some_and(|id| side[id])).collect();
        for arm in arms {
            let Some(&end) = body.blocks[arm].insts.last() else { continue };
            if let Op::Yield(values) = &mut body.insts[end].op {
                let mut flags = keep.iter();
                values.retain(|_| flags.next().copied().unwrap_or(true));
            }
        }
        for (result, keep) in results.into_iter().zip(keep) {
            if keep {
                let at = body.insts[inst].results.len() as u32;
                body.values[result].def = ValueDef::Result(inst, at);
                body.insts[inst].results.push(result);
            }
        }
    }
}

// ---- downstream ----------------------------------------------------------------------------------------

/// The downstream handler.
pub struct Downstream {
    pub body: Body,
    /// The values of the working form that its parameters stand for, in order, without the packet.
    pub crossing: Vec<ValueId>,
    /// True if the packet is its first parameter.
    pub takes_packet: bool,
    pub params: Vec<Param>,
}

pub fn downstream(program: &Program, work: &Work, division: &Division) -> Downstream {
    let index = Index::new(work);
    let mut body = work.body.clone();
    let generating = generating(work, division);
    let mut leads = SecondaryMap::new();
    leads_on(work, body.entry(), false, &generating, &mut leads);
    let entry = body.entry();
    keep_down(&index, division, &leads, &mut body, entry);

    let mut crossing = Vec::new();
    body.for_each_inst(entry, &mut |inst| crossing.extend(body.insts[inst].op.operands()));
    crossing.retain(|value| match body.values[*value].def {
        ValueDef::Param(block, _) => block == entry && Some(*value) != work.packet,
        ValueDef::Result(..) => work.giver(*value).is_some_and(|giver| !division.down[giver]),
    });
    crossing
        .sort_by_key(|value| (std::cmp::Reverse(program.layout(body.ty(*value)).align), *value));
    crossing.dedup();

    let packet = work.packet.filter(|_| division.rules.packet_crosses);
    let mut replaced = Replacements::default();
    let mut params: Vec<ValueId> = packet.into_iter().collect();
    for &value in &crossing {
        let (ty, name) = (body.ty(value), Some(name_of(program, &work.body, value)));
        let param = body.values.push(Value { ty, name, def: ValueDef::Param(entry, 0) });
        replaced.add(&mut body, value, param);
        params.push(param);
    }
    replaced.apply(&mut body);
    set_params(&mut body, params);
    if let (Some(packet), Some(reread)) = (packet, division.rules.reread) {
        start_over(&mut body, packet, reread.from);
    }
    let mut body = simplified(program, body);
    clean_tail(&mut body, entry);
    let mut body = simplified(program, body);

    let mut used = SecondaryMap::new();
    body.for_each_inst(entry, &mut |inst| {
        body.insts[inst].op.operands().for_each(|value| used[value] = true);
    });
    let params = body.blocks[entry].params.clone();
    let (first, rest) = params.split_at(packet.is_some() as usize);
    let kept: Vec<(ValueId, ValueId)> =
        rest.iter().copied().zip(crossing).filter(|(param, _)| used[*param]).collect();
    let all = first.iter().copied().chain(kept.iter().map(|(param, _)| *param)).collect();
    set_params(&mut body, all);
    let params = named_params(&body);
    let crossing = kept.into_iter().map(|(_, value)| value).collect();
    Downstream { body, crossing, takes_packet: packet.is_some(), params }
}

/// True if control at the start of a region may come to an exit that generates, for the region and
/// those inside; `behind`: whether it may from behind the region's owner.
fn leads_on(
    work: &Work,
    block: BlockId,
    behind: bool,
    generating: &SecondaryMap<BlockId, bool>,
    leads: &mut SecondaryMap<BlockId, bool>,
) -> bool {
    let mut on = behind;
    for &inst in work.body.blocks[block].insts.iter().rev() {
        match work.body.insts[inst].op {
            Op::Return(_) => on = generating[block],
            Op::If { then, other, .. } => {
                let first = leads_on(work, then, on, generating, leads);
                let second = leads_on(work, other, on, generating, leads);
                on = first || second;
            }
            _ => {}
        }
    }
    leads[block] = on;
    on
}

fn keep_down(
    index: &Index,
    division: &Division,
    leads: &SecondaryMap<BlockId, bool>,
    body: &mut Body,
    block: BlockId,
) {
    let mut kept = Vec::new();
    for inst in std::mem::take(&mut body.blocks[block].insts) {
        if let Op::If { then, other, .. } = body.insts[inst].op {
            keep_down(index, division, leads, body, then);
            keep_down(index, division, leads, body, other);
            index.filter_results(body, inst, [then, other], &division.down);
            if leads[then] != leads[other] {
                let span = body.insts[inst].span;
                let known = new_inst(body, Op::Int(leads[then] as u64), &[Type::BOOL], span);
                kept.push(known);
                let value = body.insts[known].results[0];
                if let Op::If { cond, .. } = &mut body.insts[inst].op {
                    *cond = value;
                }
            }
        } else if !index.keeps(inst, &division.down) {
            continue;
        }
        kept.push(inst);
    }
    body.blocks[block].insts = kept;
}

/// Removes what does nothing before a `return`: pure ops, and `if`s that only decide which `return`
/// it is.
fn clean_tail(body: &mut Body, block: BlockId) {
    while let [.., last, _] = body.blocks[block].insts[..] {
        let removable = match body.insts[last].op {
            Op::If { then, other, .. } => {
                // Only what was removed used its results.
                body.insts[last].results.clear();
                for arm in [then, other] {
                    if let Some(&end) = body.blocks[arm].insts.last()
                        && let Op::Yield(values) = &mut body.insts[end].op
                    {
                        values.clear();
                    }
                    clean_tail(body, arm);
                }
                let ends =
                    [then, other].map(|arm| match &body.insts[body.blocks[arm].insts[0]].op {
                        Op::Yield(_) | Op::Return(_) => body.blocks[arm].insts.len() == 1,
                        _ => false,
                    });
                ends == [true, true]
            }
            ref op => op.effects().is_pure(),
        };
        if !removable {
            break;
        }
        let at = body.blocks[block].insts.len() - 2;
        body.blocks[block].insts.remove(at);
    }
}

fn set_params(body: &mut Body, params: Vec<ValueId>) {
    let entry = body.entry();
    for (at, param) in params.iter().enumerate() {
        body.values[*param].def = ValueDef::Param(entry, at as u32);
    }
    body.blocks[entry].params = params;
}

/// The body after removing what cannot be reached and what nothing needs.
pub fn simplified(program: &Program, body: Body) -> Body {
    // A program of this body alone, as passes run on programs.
    let mut alone =
        Program { funcs: Default::default(), handlers: Default::default(), ..program.clone() };
    let id = alone.handlers.push(nicforge_ir::Handler {
        name: String::new(),
        event: EventId::from_u32(0),
        body,
        max_replicas: None,
        unordered: false,
        side: None,
        room: None,
        span: Default::default(),
    });
    for name in ["simplify-control", "dce", "simplify-control", "dce"] {
        if let Some(pass) = pass_named(name) {
            pass.run(&mut alone);
        }
    }
    std::mem::take(&mut alone.handlers[id].body)
}

/// Parameters of an event for a body: named after its values, each name once.
fn named_params(body: &Body) -> Vec<Param> {
    let mut params: Vec<Param> = Vec::new();
    for &value in &body.blocks[body.entry()].params {
        let data = &body.values[value];
        let base = data.name.as_deref().unwrap_or("value");
        let taken = |name: &str| params.iter().any(|param| param.name == name);
        let mut name = base.to_string();
        let mut number = 2;
        while taken(&name) {
            name = format!("{base}_{number}");
            number += 1;
        }
        params.push(Param { name, ty: data.ty, borrowed: false });
    }
    params
}

// ---- upstream ------------------------------------------------------------------------------------------

/// The upstream handler: what it carries are the values `crossing`.
pub fn upstream(work: &Work, division: &Division, down: &Downstream, event: EventId) -> Body {
    let index = Index::new(work);
    let mut generating = generating(work, division);
    let mut body = work.body.clone();
    let entry = body.entry();
    keep_up(work, &index, division, &mut generating, &mut body, entry);
    let mut lifted: Vec<Vec<Version>> = Vec::new();
    for value in &down.crossing {
        let versions = lift(work, &mut body, *value);
        lifted.push(versions);
    }
    for exit in &work.exits {
        let returns = matches!(body.terminator(exit.block).map(|end| &end.op), Some(Op::Return(_)));
        if !returns || !generating[exit.block] {
            continue;
        }
        let span = body.terminator(exit.block).map(|end| end.span).unwrap_or_default();
        let mut added = Vec::new();
        let mut args: Vec<ValueId> =
            work.packet.filter(|_| down.takes_packet).into_iter().collect();
        for (value, versions) in down.crossing.iter().zip(&lifted) {
            let visible = versions.iter().find(|version| {
                exit.place.iter().any(|(block, at)| {
                    *block == version.block && version.after.is_none_or(|p| p < *at)
                })
            });
            args.push(match visible {
                Some(version) => version.value,
                None => {
                    let ty = body.ty(*value);
                    let zero = new_inst(&mut body, zero_of(ty), &[ty], span);
                    added.push(zero);
                    body.insts[zero].results[0]
                }
            });
        }
        added.push(new_inst(&mut body, Op::Generate { event, args }, &[], span));
        let insts = &mut body.blocks[exit.block].insts;
        let end = insts.len() - 1;
        insts.splice(end..end, added);
    }
    body
}

/// Projects a region. `generating` is corrected where arms that end alike go on together.
fn keep_up(
    work: &Work,
    index: &Index,
    division: &Division,
    generating: &mut SecondaryMap<BlockId, bool>,
    body: &mut Body,
    block: BlockId,
) {
    let mut kept = Vec::new();
    for inst in std::mem::take(&mut body.blocks[block].insts) {
        if let Op::If { cond, then, other, .. } = body.insts[inst].op {
            let known = work.giver(cond).is_none_or(|giver| division.up[giver]);
            if !known || !division.reached[work.point_of(inst)] {
                continue;
            }
            keep_up(work, index, division, generating, body, then);
            keep_up(work, index, division, generating, body, other);
            index.filter_results(body, inst, [then, other], &division.up);
            if work.pushed[inst] {
                generating[block] = generating[then];
                if generating[then] == generating[other] {
                    rejoin(body, [then, other]);
                }
            }
        } else if !index.keeps(inst, &division.up) {
            continue;
        }
        kept.push(inst);
    }
    body.blocks[block].insts = kept;
}

/// The arms go on behind the `if` again, where a `return` stands.
fn rejoin(body: &mut Body, arms: [BlockId; 2]) {
    for arm in arms {
        if let Some(&end) = body.blocks[arm].insts.last() {
            body.insts[end].op = Op::Yield(Vec::new());
        }
    }
}

/// A value that stands for one that crosses, in a region, from behind instruction `after` on (of
/// the working form).
struct Version {
    block: BlockId,
    after: Option<u32>,
    value: ValueId,
}

/// Hands a value out of the `if`s it stands in, as far as control goes on behind them.
fn lift(work: &Work, body: &mut Body, value: ValueId) -> Vec<Version> {
    let Some(giver) = work.giver(value) else {
        return vec![Version { block: body.entry(), after: None, value }];
    };
    let place = &work.nodes[giver].place;
    let mut versions = Vec::new();
    let mut current = value;
    for (depth, (block, at)) in place.iter().enumerate().rev() {
        versions.push(Version { block: *block, after: Some(*at), value: current });
        let falls = matches!(body.terminator(*block).map(|end| &end.op), Some(Op::Yield(_)));
        if depth == 0 || !falls {
            break;
        }
        let (outer, owner_at) = place[depth - 1];
        let owner = work.body.blocks[outer].insts[owner_at as usize];
        current = hand_out(body, owner, *block, current);
    }
    versions
}

/// A new result of an `if`: `value` from one arm, zero from the other.
fn hand_out(body: &mut Body, owner: InstId, from: BlockId, value: ValueId) -> ValueId {
    let Value { ty, name, .. } = body.values[value].clone();
    let span = body.insts[owner].span;
    for arm in body.insts[owner].op.regions().collect::<Vec<_>>() {
        let Some(&end) = body.blocks[arm].insts.last() else { continue };
        if !matches!(body.insts[end].op, Op::Yield(_)) {
            continue;
        }
        let given = if arm == from {
            value
        } else {
            let zero = new_inst(body, zero_of(ty), &[ty], span);
            let insts = &mut body.blocks[arm].insts;
            insts.insert(insts.len() - 1, zero);
            body.insts[zero].results[0]
        };
        if let Op::Yield(values) = &mut body.insts[end].op {
            values.push(given);
        }
    }
    let at = body.insts[owner].results.len() as u32;
    let result = body.values.push(Value { ty, name, def: ValueDef::Result(owner, at) });
    body.insts[owner].results.push(result);
    result
}
