//! From SSA values to C: which become part of an expression, and which share a variable.
//!
//! A pure scalar with one use in its own region is printed where it is used. All other values get
//! variables. Values that are versions of one thing (an aggregate before and after a member was
//! set, what goes into and comes out of a region) share one if they are never live together, so
//! that `c.packets = c.packets + 1` comes out as that and not as a chain of copies. Merging is
//! greedy, in-place updates first; each merge is checked against the [`Interference`] of whole
//! classes, so the result is right in any order.

use std::collections::HashMap;

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use nicforge_ir::{BlockId, Body, Class, InstId, Op, Proj, Type, ValueDef, ValueId, Work};

use super::liveness::{Interference, interference};
use super::names::Names;

/// Spellings of a body's values.
pub struct Vars {
    inline: SecondaryMap<ValueId, bool>,
    /// Of a value that gave its variable up: one that shares it, nearer to the representative.
    class: SecondaryMap<ValueId, PackedOption<ValueId>>,
    names: HashMap<ValueId, String>,
    /// Classes to declare in front of an instruction.
    pub declare_at: HashMap<InstId, Vec<ValueId>>,
}

impl Vars {
    /// Decides for a whole body. `names` must know every name in scope outside.
    pub fn new(body: &Body, names: &mut Names) -> Vars {
        let inline = choose_inline(body);
        let mut vars = Vars {
            inline,
            class: SecondaryMap::new(),
            names: HashMap::new(),
            declare_at: HashMap::new(),
        };
        vars.coalesce(body);
        vars.place(body, names);
        vars
    }

    /// True if the value is printed as an expression at its use.
    pub fn is_inline(&self, value: ValueId) -> bool {
        self.inline[value]
    }

    /// The representative of the values that share this one's variable.
    pub fn class(&self, value: ValueId) -> ValueId {
        let mut at = value;
        while let Some(next) = self.class[at].expand() {
            at = next;
        }
        at
    }

    /// The representative as well; shortens the way for the next one who asks.
    fn find(&mut self, value: ValueId) -> ValueId {
        let (found, mut at) = (self.class(value), value);
        while let Some(next) = self.class[at].expand() {
            self.class[at] = found.into();
            at = next;
        }
        found
    }

    /// The C variable of a value that has one.
    pub fn name(&self, value: ValueId) -> &str {
        self.names.get(&self.class(value)).map_or("", String::as_str)
    }

    /// From now on C of a place that is there already is written for a value and those that share
    /// its variable.
    pub fn lies_at(&mut self, value: ValueId, place: String) {
        self.names.insert(self.class(value), place);
    }

    /// Makes variables that are declared in the body, and parameters, members of something declared
    /// elsewhere, which `prefix` leads to: aggregates, and numbers too if asked. Gives their names
    /// and types.
    pub fn move_out(&mut self, body: &Body, prefix: &str, numbers: bool) -> Vec<(String, Type)> {
        let mut moved = Vec::new();
        for list in self.declare_at.values_mut() {
            moved.extend(list.extract_if(.., |class| numbers || body.ty(*class).is_aggregate()));
        }
        let params = body.blocks[body.entry()].params.iter().map(|param| self.class(*param));
        moved.extend(params.filter(|class| body.ty(*class).is_aggregate()));
        // In the order of the body, whatever the map's.
        moved.sort();
        moved.dedup();
        let member = |class: &ValueId| {
            let name = self.names[class].clone();
            self.names.insert(*class, format!("{prefix}{name}"));
            (name, body.ty(*class))
        };
        moved.iter().map(member).collect()
    }

    /// True if two values are one variable.
    pub fn same(&self, a: ValueId, b: ValueId) -> bool {
        !self.inline[a] && !self.inline[b] && self.class(a) == self.class(b)
    }

    fn coalesce(&mut self, body: &Body) {
        let inline = self.inline.clone();
        let uses = |inst: InstId| {
            let mut found = Vec::new();
            for operand in body.insts[inst].op.operands() {
                leaves(body, &inline, operand, &mut found);
            }
            found
        };
        let inlined = |inst: InstId| {
            body.insts[inst].results.first().is_some_and(|v| inline[*v]) && is_simple(body, inst)
        };
        let mut conflicts = interference(body, &uses, &inlined);
        let told = told(body);
        for (a, b) in copies(body) {
            if !self.would_hide(body, &told, a, b) {
                self.try_merge(body, &mut conflicts, a, b);
            }
        }
        for value in body.values.keys() {
            self.find(value);
        }
    }

    /// Two values that must not share a variable: one says whether a read moved the packet's cursor,
    /// the other is the result of an `if` behind it, which would write over that. No operand shows
    /// that the first is still needed. (Loops settle the cursor first.)
    fn would_hide(&self, body: &Body, told: &[Told], a: ValueId, b: ValueId) -> bool {
        let classes = [self.class(a), self.class(b)];
        let is_in = |value: ValueId| classes.contains(&self.class(value));
        let told: Vec<&Told> = told.iter().filter(|told| is_in(told.value)).collect();
        let later = |value: ValueId| match body.values[value].def {
            ValueDef::Result(inst, _) if matches!(body.insts[inst].op, Op::If { .. }) => {
                told.iter().any(|told| !told.inside.contains(&inst))
            }
            _ => false,
        };
        !told.is_empty() && body.values.keys().any(|value| is_in(value) && later(value))
    }

    fn try_merge(&mut self, body: &Body, conflicts: &mut Interference, a: ValueId, b: ValueId) {
        if self.inline[a]
            || self.inline[b]
            || body.ty(a) != body.ty(b)
            || body.ty(a) == Type::Packet
        {
            return;
        }
        let (ra, rb) = (self.find(a), self.find(b));
        if ra == rb {
            return;
        }
        // Representatives carry the conflicts of their whole class; compare class by class.
        if conflicts.of(ra).any(|other| self.class(other) == rb) {
            return;
        }
        let different_names = match (&body.values[ra].name, &body.values[rb].name) {
            (Some(x), Some(y)) => x != y && body.ty(a).is_int(),
            _ => false,
        };
        if different_names {
            return;
        }
        let (keep, gone) = if body.values[ra].name.is_some() { (ra, rb) } else { (rb, ra) };
        conflicts.merge(keep, gone);
        self.class[gone] = keep.into();
    }

    /// Names every class and finds the innermost region that holds all its definitions.
    fn place(&mut self, body: &Body, names: &mut Names) {
        let parents = parents(body);
        // Region where each class is declared, and the instruction of that region with its first
        // definition.
        let mut home: HashMap<ValueId, (BlockId, InstId)> = HashMap::new();
        let mut order: Vec<ValueId> = Vec::new();
        let entry = body.entry();
        let mut sites: Vec<(ValueId, BlockId, InstId)> = Vec::new();
        walk(body, entry, &mut |block, inst| {
            for &result in &body.insts[inst].results {
                sites.push((result, block, inst));
            }
            if let Op::Loop { body: region, .. } = body.insts[inst].op {
                for &param in &body.blocks[region].params {
                    sites.push((param, block, inst));
                }
            }
        });
        for (value, block, inst) in sites {
            if self.inline[value] || body.ty(value) == Type::Packet {
                continue;
            }
            let class = self.class(value);
            match home.get(&class).copied() {
                None => {
                    order.push(class);
                    home.insert(class, (block, inst));
                }
                Some(known) => {
                    home.insert(class, common(&parents, known, (block, inst)));
                }
            }
        }
        // The entry region's parameters are filled in before the body; the emitter declares them.
        for &param in &body.blocks[entry].params {
            let class = self.class(param);
            let wanted = body.values[param].name.clone().unwrap_or_else(|| "message".to_string());
            self.names.insert(class, names.fresh(&wanted));
            order.retain(|other| *other != class);
        }
        for class in order {
            let wanted = body.values[class].name.clone().unwrap_or_else(|| "tmp".to_string());
            let name = names.fresh(&wanted);
            self.names.insert(class, name);
            self.declare_at.entry(home[&class].1).or_default().push(class);
        }
    }
}

/// True if an instruction may be printed as an expression: pure, one scalar result, no statement of
/// its own needed.
fn is_simple(body: &Body, inst: InstId) -> bool {
    let data = &body.insts[inst];
    data.results.len() == 1
        && body.ty(data.results[0]).is_int()
        && data.op.class() == Class::Value
        && data.op.effects().is_pure()
        && !matches!(data.op.work(), Work::Hash | Work::Sum)
}

/// Ops in one expression, one around the other: compilers count brackets.
const DEEPEST: u32 = 60;

fn choose_inline(body: &Body) -> SecondaryMap<ValueId, bool> {
    let mut count: SecondaryMap<ValueId, u32> = SecondaryMap::new();
    let mut used_in: SecondaryMap<ValueId, Option<(BlockId, usize)>> = SecondaryMap::new();
    let mut set_at: HashMap<ValueId, Vec<(BlockId, usize)>> = HashMap::new();
    // Passes leave regions behind in the arena that nothing owns any more; they do not count.
    let mut reached = vec![body.entry()];
    walk(body, body.entry(), &mut |_, inst| reached.extend(body.insts[inst].op.regions()));
    for &block in &reached {
        for (at, &inst) in body.blocks[block].insts.iter().enumerate() {
            for operand in body.insts[inst].op.operands() {
                count[operand] += 1;
                used_in[operand] = Some((block, at));
            }
            if let Op::Set { agg, .. } = &body.insts[inst].op {
                set_at.entry(*agg).or_default().push((block, at));
            }
        }
    }
    let mut inline = SecondaryMap::new();
    let mut depth: SecondaryMap<ValueId, u32> = SecondaryMap::new();
    for &block in &reached {
        for (at, &inst) in body.blocks[block].insts.iter().enumerate() {
            let Some(&result) = body.insts[inst].results.first() else { continue };
            if !is_simple(body, inst) {
                continue;
            }
            let op = &body.insts[inst].op;
            let constant = matches!(op, Op::Int(_) | Op::Zero);
            let once_here = count[result] == 1
                && body.values[result].name.is_none()
                && used_in[result].is_some_and(|(b, _)| b == block);
            // Reading a member later than its aggregate is updated in place would force a copy of
            // the aggregate.
            let before_update = match op {
                Op::Get { agg, .. } => set_at.get(agg).is_none_or(|sets| {
                    sets.iter().all(|(b, s)| {
                        *b == block && (*s < at || used_in[result].is_some_and(|(_, u)| u <= *s))
                    })
                }),
                _ => true,
            };
            let inner = op.operands().filter(|operand| inline[*operand]);
            depth[result] = 1 + inner.map(|operand| depth[operand]).max().unwrap_or(0);
            let fits = once_here && before_update && !through_index(op) && depth[result] < DEEPEST;
            inline[result] = constant || fits;
        }
    }
    // An inlined read whose use is itself inlined later moves further down; such chains keep their
    // aggregate alive, which liveness sees, so this is only a matter of taste, never of
    // correctness.
    inline
}

/// Paths with computed indices need a bounds check and read better as a statement of their own.
fn through_index(op: &Op) -> bool {
    matches!(op, Op::Get { path, .. } if path.iter().any(|p| matches!(p, Proj::Index(_))))
}

fn leaves(
    body: &Body,
    inline: &SecondaryMap<ValueId, bool>,
    value: ValueId,
    found: &mut Vec<ValueId>,
) {
    match body.def_op(value) {
        Some(op) if inline[value] => {
            for operand in op.operands() {
                leaves(body, inline, operand, found);
            }
        }
        _ => found.push(value),
    }
}

/// Pairs of values that would like to be one variable, the most valuable first.
fn copies(body: &Body) -> Vec<(ValueId, ValueId)> {
    let (mut updates, mut moves) = (Vec::new(), Vec::new());
    let mut pair = |targets: &[ValueId], sources: &[ValueId]| {
        moves.extend(targets.iter().copied().zip(sources.iter().copied()));
    };
    fn visit(
        body: &Body,
        block: BlockId,
        owner: &[ValueId],
        loops: &mut Vec<(Vec<ValueId>, Vec<ValueId>)>,
        updates: &mut Vec<(ValueId, ValueId)>,
        pair: &mut dyn FnMut(&[ValueId], &[ValueId]),
    ) {
        for &inst in &body.blocks[block].insts {
            let data = &body.insts[inst];
            match &data.op {
                Op::Set { agg, .. } => updates.push((*agg, data.results[0])),
                Op::Yield(values) => pair(owner, values),
                Op::Break { depth, values } => {
                    pair(&loops[loops.len() - 1 - *depth as usize].1.clone(), values)
                }
                Op::Continue { depth, values } => {
                    pair(&loops[loops.len() - 1 - *depth as usize].0.clone(), values)
                }
                Op::If { then, other, .. } => {
                    visit(body, *then, &data.results, loops, updates, pair);
                    visit(body, *other, &data.results, loops, updates, pair);
                }
                Op::Loop { init, body: region, .. } => {
                    let params = body.blocks[*region].params.clone();
                    pair(&params, init);
                    pair(&data.results, &params);
                    loops.push((params, data.results.clone()));
                    visit(body, *region, &[], loops, updates, pair);
                    loops.pop();
                }
                _ => {}
            }
        }
    }
    visit(body, body.entry(), &[], &mut Vec::new(), &mut updates, &mut pair);
    updates.extend(moves);
    updates
}

/// A value that says whether a packet's cursor was moved, and the instructions it lies inside.
struct Told {
    value: ValueId,
    inside: Vec<InstId>,
}

/// All of them in a body.
fn told(body: &Body) -> Vec<Told> {
    fn visit(body: &Body, block: BlockId, inside: &mut Vec<InstId>, found: &mut Vec<Told>) {
        for &inst in &body.blocks[block].insts {
            let data = &body.insts[inst];
            if matches!(data.op, Op::Extract { .. } | Op::Skip { .. }) {
                found.push(Told { value: data.results[0], inside: inside.clone() });
            }
            inside.push(inst);
            data.op.regions().for_each(|region| visit(body, region, inside, found));
            inside.pop();
        }
    }
    let mut found = Vec::new();
    visit(body, body.entry(), &mut Vec::new(), &mut found);
    found
}

type Site = (BlockId, InstId);

/// For every region, the region and instruction that own it.
fn parents(body: &Body) -> HashMap<BlockId, Site> {
    let mut found = HashMap::new();
    walk(body, body.entry(), &mut |block, inst| {
        for region in body.insts[inst].op.regions() {
            found.insert(region, (block, inst));
        }
    });
    found
}

fn walk(body: &Body, block: BlockId, visit: &mut dyn FnMut(BlockId, InstId)) {
    for &inst in &body.blocks[block].insts {
        visit(block, inst);
        for region in body.insts[inst].op.regions() {
            walk(body, region, visit);
        }
    }
}

/// The innermost region around both sites, with the first of the two instructions that lead there.
fn common(parents: &HashMap<BlockId, Site>, first: Site, second: Site) -> Site {
    let chain = |mut site: Site| {
        let mut sites = vec![site];
        while let Some(&up) = parents.get(&site.0) {
            sites.push(up);
            site = up;
        }
        sites
    };
    let seconds = chain(second);
    for site in chain(first) {
        if seconds.iter().any(|other| other.0 == site.0) {
            // Sites come in program order, so the earlier definition decides the place.
            return site;
        }
    }
    first
}

/// True if a value is defined by an instruction, rather than being a region's parameter.
pub fn is_result(body: &Body, value: ValueId) -> bool {
    matches!(body.values[value].def, ValueDef::Result(..))
}
