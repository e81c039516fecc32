//! `split-paths`: headers of different lengths go separate ways.
//!
//! Where the arms of an `if` read different headers (IPv4 or IPv6, TCP or UDP), the packet's cursor
//! behind it is no longer a constant, and a code generator has to compute every address, check
//! every bound again and move emitted headers byte by byte. If what follows still needs the cursor,
//! one arm gets a copy of it and leaves:
//!
//! ```text
//! %r = if %tcp { extract 20; yield } else { extract 8; yield }       if %tcp { extract 20; rest; return }
//! rest; return                                                  ==>  extract 8; rest; return
//! ```
//!
//! The same is done for a short rest (at most [`MOST_FOR_STORES`] instructions) if a header that is
//! emitted in it is not the same from both arms: each copy then stores only the members that its
//! own path changed, instead of all that any path changed.
//!
//! What was known in an arm (the condition, members that are zero) is then known in its copy of the
//! rest as well, which `fold` and `simplify-control` make use of. Only what follows up to a
//! `return` is copied, so no value has to be carried out of the copy. A copy may have at most
//! [`MOST_COPIED`] instructions and the whole body at most [`MOST_IN_ALL`]; each step removes a
//! place where different cursors meet and no step is taken beyond that size, so repeating them
//! ends.

use std::collections::HashMap;

use nicforge_ir::{BlockId, Body, InstId, Op, Program, ValueId};

use crate::Pass;
use crate::rewrite::{constant, copy_region, for_each_body, size};

/// Instructions that one copy may have.
const MOST_COPIED: usize = 400;
/// Instructions that one copy may have that only saves stores.
const MOST_FOR_STORES: usize = 128;
/// Instructions that a body may grow to.
const MOST_IN_ALL: usize = 2000;

pub struct SplitPaths;

impl Pass for SplitPaths {
    fn name(&self) -> &'static str {
        "split-paths"
    }

    fn description(&self) -> &'static str {
        "gives each arm that leaves the packet's cursor elsewhere its own copy of what follows"
    }

    fn run(&self, program: &mut Program) -> bool {
        for_each_body(program, |program, body| {
            let mut changed = false;
            let mut blocks = vec![body.entry()];
            while let Some(block) = blocks.pop() {
                // The last place first, so that what it copies is copied once by those before it.
                for at in (0..body.blocks[block].insts.len()).rev() {
                    if worth_splitting(program, body, block, at) {
                        split(body, block, at);
                        changed = true;
                    }
                }
                for inst in &body.blocks[block].insts {
                    blocks.extend(body.insts[*inst].op.regions());
                }
            }
            changed
        })
    }
}

fn worth_splitting(program: &Program, body: &Body, block: BlockId, at: usize) -> bool {
    let insts = &body.blocks[block].insts;
    let Op::If { then, other, .. } = body.insts[insts[at]].op else { return false };
    // Before anything that looks at all that follows.
    if insts.len() - at - 1 > MOST_COPIED {
        return false;
    }
    let ends_here = matches!(body.terminator(block).map(|end| &end.op), Some(Op::Return(_)));
    if !ends_here || !goes_on(body, then) || !goes_on(body, other) {
        return false;
    }
    let (a, b) = (moves(program, body, then), moves(program, body, other));
    let apart =
        a != b && (a.is_some() || b.is_some()) && needs_cursor(body, block, at + 1) == Some(true);
    let most = if apart {
        MOST_COPIED
    } else if emits_result(body, block, at) {
        MOST_FOR_STORES
    } else {
        return false;
    };
    let rest: usize = insts[at + 1..].iter().map(|inst| size_of_inst(body, *inst)).sum();
    rest <= most && size(body, body.entry()) + rest <= MOST_IN_ALL
}

/// True if what an `if` gives is emitted behind it, perhaps with some members changed on the way.
fn emits_result(body: &Body, block: BlockId, at: usize) -> bool {
    let insts = &body.blocks[block].insts;
    let comes_from_here = |mut value: ValueId| loop {
        match body.def_inst(value) {
            Some(inst) if inst == insts[at] => return true,
            Some(inst) => match body.insts[inst].op {
                Op::Set { agg, .. } => value = agg,
                _ => return false,
            },
            None => return false,
        }
    };
    let mut found = false;
    for &inst in &insts[at + 1..] {
        let mut look = |inst: InstId| {
            if let Op::Emit { value, .. } = body.insts[inst].op {
                found |= body.ty(value).is_aggregate() && comes_from_here(value);
            }
        };
        look(inst);
        for region in body.insts[inst].op.regions() {
            body.for_each_inst(region, &mut look);
        }
    }
    found
}

fn size_of_inst(body: &Body, inst: InstId) -> usize {
    1 + body.insts[inst].op.regions().map(|region| size(body, region)).sum::<usize>()
}

fn goes_on(body: &Body, block: BlockId) -> bool {
    matches!(body.terminator(block).map(|end| &end.op), Some(Op::Yield(_)))
}

/// Effects of a region on a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Moves {
    /// Bytes that the cursor went on; absolute behind a reset.
    cursor: u64,
    reset: bool,
    emitted: u64,
}

/// Moves of a region on a packet, on every path to its end; `None` if they are not always the same.
fn moves(program: &Program, body: &Body, block: BlockId) -> Option<Moves> {
    let mut all = Moves::default();
    for &inst in &body.blocks[block].insts {
        let data = &body.insts[inst];
        match &data.op {
            Op::Extract { .. } => {
                all.cursor += u64::from(program.size_of(body.ty(data.results[1])))
            }
            Op::Skip { len, .. } => all.cursor += constant(body, *len)?,
            Op::Emit { value, .. } => all.emitted += u64::from(program.size_of(body.ty(*value))),
            Op::Reset { .. } => all = Moves { reset: true, ..Moves::default() },
            Op::If { then, other, .. } => {
                let arms: Vec<BlockId> =
                    [*then, *other].into_iter().filter(|arm| goes_on(body, *arm)).collect();
                let mut inside = None;
                for arm in arms {
                    let arm = moves(program, body, arm)?;
                    if inside.is_some_and(|first| first != arm) {
                        return None;
                    }
                    inside = Some(arm);
                }
                match inside {
                    Some(Moves { reset: true, .. }) => all = inside?,
                    Some(arm) => {
                        all.cursor += arm.cursor;
                        all.emitted += arm.emitted;
                    }
                    None => {}
                }
            }
            Op::Loop { body: region, .. }
                if moves(program, body, *region) != Some(Moves::default()) =>
            {
                return None;
            }
            _ => {}
        }
    }
    Some(all)
}

/// True if something from `from` on in a region depends on where the cursor is: `Some(false)` if
/// all paths forget it or end before, `None` if the region's end is reached without either.
fn needs_cursor(body: &Body, block: BlockId, from: usize) -> Option<bool> {
    for &inst in &body.blocks[block].insts[from..] {
        match &body.insts[inst].op {
            Op::Generate { args, .. }
                if args.iter().any(|arg| body.ty(*arg) == nicforge_ir::Type::Packet) =>
            {
                return Some(true);
            }
            Op::Reset { .. } | Op::Return(_) => return Some(false),
            op if op.effects().packet_read.is_some() => return Some(true),
            Op::If { then, other, .. } => {
                let arms = [needs_cursor(body, *then, 0), needs_cursor(body, *other, 0)];
                if arms.contains(&Some(true)) {
                    return Some(true);
                }
                if arms == [Some(false); 2] {
                    return Some(false);
                }
            }
            Op::Loop { body: region, .. } if needs_cursor(body, *region, 0) == Some(true) => {
                return Some(true);
            }
            _ => {}
        }
    }
    None
}

/// Ends the first arm of the `if` with a copy of what follows it.
fn split(body: &mut Body, block: BlockId, at: usize) {
    let insts = body.blocks[block].insts.clone();
    let Op::If { then, .. } = body.insts[insts[at]].op else { return };
    let Some(end) = body.blocks[then].insts.pop() else { return };
    let Op::Yield(values) = body.insts[end].op.clone() else { return };
    let results = body.insts[insts[at]].results.clone();
    let mut map: HashMap<_, _> = results.into_iter().zip(values).collect();
    let rest = body
        .blocks
        .push(nicforge_ir::Block { params: Vec::new(), insts: insts[at + 1..].to_vec() });
    let copy = copy_region(None, rest, body, &mut map);
    let copied = std::mem::take(&mut body.blocks[copy].insts);
    body.blocks[then].insts.extend(copied);
    body.blocks[rest].insts.clear();
}
