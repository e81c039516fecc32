//! `merge-checksums`: several words change, one checksum update folds once.
//!
//! A ones-complement sum is folded to 16 bits by adding its upper to its lower half until nothing
//! is above (RFC 1071). Helpers that update a checksum for one changed word (RFC 1624) fold each
//! time:
//!
//! ```text
//! fold(fold(c + a) + b)   ==>   fold(c + a + b)
//! ```
//!
//! Why that is the same number, bit for bit: a *step* `(x & 0xffff) + (x >> 16)` keeps x modulo
//! 65535, since 65536 ≡ 1, and is zero only for x = 0. So a chain of steps that provably ends at or
//! below 0xffff (call it complete) is determined by its base: zero for zero, else the
//! representative of the base's residue in 1..=65535. Putting the inner chain's base in the place
//! of the inner chain changes neither the outer base's residue nor whether it is zero, provided no
//! sum wraps, which the ranges below prove (64 bits are taken where 32 do not suffice). The steps
//! are then made anew, as many as the range of the new base needs.
//!
//! Between the chains stand casts and complements, `(u16)~(u16)~x`, of which only an even number
//! counts.
//!
//! A step whose upper half is zero adds nothing and is left out. Each rewrite takes a step or one
//! chain out of another one's base, so repeating them ends.

use nicforge_ir::build::mask;
use nicforge_ir::{BinOp, BlockId, Body, InstId, Op, Program, Type, UnOp, ValueId};

use crate::Pass;
use crate::rewrite::{Replacements, constant, for_each_body, new_inst};

/// How far definitions are followed; checksums of more words are merged in several rounds.
const DEPTH: u32 = 64;
/// What a complete chain is at most.
const FOLDED: u64 = 0xffff;

pub struct MergeChecksums;

impl Pass for MergeChecksums {
    fn name(&self) -> &'static str {
        "merge-checksums"
    }

    fn description(&self) -> &'static str {
        "folds a checksum once for all words that change"
    }

    fn run(&self, program: &mut Program) -> bool {
        for_each_body(program, |_, body| {
            let mut merge = Merge { replaced: Replacements::default() };
            merge.block(body, body.entry());
            merge.replaced.apply(body);
            merge.replaced.any()
        })
    }
}

struct Merge {
    replaced: Replacements,
}

impl Merge {
    fn block(&mut self, body: &mut Body, block: BlockId) {
        let mut kept = Vec::new();
        for inst in std::mem::take(&mut body.blocks[block].insts) {
            let mut op = body.insts[inst].op.clone();
            self.replaced.apply_to(&mut op);
            body.insts[inst].op = op;
            kept.push(inst);
            if let [result] = body.insts[inst].results[..] {
                self.merge(body, inst, result, &mut kept);
            }
            for region in body.insts[inst].op.regions() {
                self.block(body, region);
            }
        }
        body.blocks[block].insts = kept;
    }

    /// Leaves out a step that has nothing to add. Else replaces `result` by a chain over a base
    /// without chains in it, if it is a complete chain over one with.
    fn merge(&mut self, body: &mut Body, inst: InstId, result: ValueId, kept: &mut Vec<InstId>) {
        let ty = body.ty(result);
        if let Some(base) = step(body, result).filter(|base| most(body, *base, DEPTH) <= FOLDED) {
            self.replaced.add(body, result, base);
            return;
        }
        let Some(base) = complete(body, result) else { return };
        let mut terms = Vec::new();
        collect_terms(body, base, &mut terms, DEPTH);
        let inner: Vec<Option<ValueId>> =
            terms.iter().map(|term| inner_base(body, *term)).collect();
        if inner.iter().all(Option::is_none) {
            return;
        }
        let bases: Vec<ValueId> =
            terms.iter().zip(&inner).map(|(term, inner)| inner.unwrap_or(*term)).collect();
        let total =
            bases.iter().try_fold(0u64, |sum, base| sum.checked_add(most(body, *base, DEPTH)));
        let Some(total) = total else { return };
        let wide = if total > limit(ty) { Type::U64 } else { ty };
        let span = body.insts[inst].span;
        let mut make = |body: &mut Body, op: Op, ty: Type| {
            let made = new_inst(body, op, &[ty], span);
            kept.push(made);
            body.insts[made].results[0]
        };
        let mut sum: Option<ValueId> = None;
        for base in bases {
            let base = if body.ty(base) == wide { base } else { make(body, Op::Cast(base), wide) };
            sum = Some(match sum {
                None => base,
                Some(sum) => make(body, Op::Bin(BinOp::Add, sum, base), wide),
            });
        }
        let Some(mut folded) = sum else { return };
        let (low, half) = (make(body, Op::Int(FOLDED), wide), make(body, Op::Int(16), wide));
        while most(body, folded, DEPTH) > FOLDED {
            let lower = make(body, Op::Bin(BinOp::And, folded, low), wide);
            let upper = make(body, Op::Bin(BinOp::Shr, folded, half), wide);
            folded = make(body, Op::Bin(BinOp::Add, lower, upper), wide);
        }
        if wide != ty {
            folded = make(body, Op::Cast(folded), ty);
        }
        self.replaced.add(body, result, folded);
    }
}

fn limit(ty: Type) -> u64 {
    mask(u64::MAX, ty.bits().unwrap_or(64))
}

/// x, if `value` is `(x & 0xffff) + (x >> 16)` of unsigned type.
fn step(body: &Body, value: ValueId) -> Option<ValueId> {
    let Type::Int { signed: false, .. } = body.ty(value) else { return None };
    let Some(Op::Bin(BinOp::Add, a, b)) = body.def_op(value) else { return None };
    [(*a, *b), (*b, *a)].into_iter().find_map(|(lower, upper)| {
        let Some(Op::Bin(BinOp::And, x, low)) = body.def_op(lower) else { return None };
        let Some(Op::Bin(BinOp::Shr, y, half)) = body.def_op(upper) else { return None };
        (x == y && constant(body, *low) == Some(FOLDED) && constant(body, *half) == Some(16))
            .then_some(*x)
    })
}

/// The base of a chain of steps that ends at or below 0xffff.
fn complete(body: &Body, value: ValueId) -> Option<ValueId> {
    let mut base = step(body, value)?;
    if most(body, value, DEPTH) > FOLDED {
        return None;
    }
    while let Some(before) = step(body, base) {
        base = before;
    }
    Some(base)
}

/// The base of the complete chain that a term equals, through casts and an even number of
/// complements.
fn inner_base(body: &Body, term: ValueId) -> Option<ValueId> {
    if most(body, term, DEPTH) > FOLDED {
        return None;
    }
    let (mut at, mut inverted) = (term, false);
    for _ in 0..DEPTH {
        if !inverted && let Some(base) = complete(body, at) {
            return Some(base);
        }
        // Below 16 bits something would get lost on the way.
        let wide = |value: ValueId| body.ty(value).bits().is_some_and(|bits| bits >= 16);
        match body.def_op(at) {
            Some(Op::Cast(from)) if wide(*from) && wide(at) => at = *from,
            Some(Op::Un(UnOp::Not, from)) => (at, inverted) = (*from, !inverted),
            _ => return None,
        }
    }
    None
}

/// The terms of a sum that cannot wrap.
fn collect_terms(body: &Body, value: ValueId, terms: &mut Vec<ValueId>, depth: u32) {
    match body.def_op(value) {
        Some(Op::Bin(BinOp::Add, a, b))
            if depth > 0
                && step(body, value).is_none()
                && most(body, *a, DEPTH)
                    .checked_add(most(body, *b, DEPTH))
                    .is_some_and(|sum| sum <= limit(body.ty(value))) =>
        {
            collect_terms(body, *a, terms, depth - 1);
            collect_terms(body, *b, terms, depth - 1);
        }
        _ => terms.push(value),
    }
}

/// An upper bound of a value, read as unsigned.
fn most(body: &Body, value: ValueId, depth: u32) -> u64 {
    let limit = limit(body.ty(value));
    let Some(op) = body.def_op(value).filter(|_| depth > 0) else { return limit };
    let unsigned = |value: ValueId| !body.ty(value).is_signed();
    let bound = match op {
        Op::Int(raw) => *raw,
        Op::Zero => 0,
        Op::Cast(from) if unsigned(*from) => most(body, *from, depth - 1),
        Op::Bin(BinOp::And, a, b) => most(body, *a, depth - 1).min(most(body, *b, depth - 1)),
        Op::Bin(BinOp::Shr, a, by) if unsigned(*a) => match constant(body, *by) {
            Some(by) if by < 64 => most(body, *a, depth - 1) >> by,
            _ => limit,
        },
        Op::Bin(BinOp::Add, a, b) => match step(body, value) {
            Some(base) => most_after_step(most(body, base, depth - 1)),
            None => most(body, *a, depth - 1).saturating_add(most(body, *b, depth - 1)),
        },
        _ => limit,
    };
    // A sum or cast that may exceed its type wraps to anything.
    if bound > limit { limit } else { bound }
}

/// The most that a step gives for values up to `most`: the largest upper half with what it leaves
/// for the lower one, or one less with a full lower one.
fn most_after_step(most: u64) -> u64 {
    match most >> 16 {
        0 => most,
        upper => (upper + (most & FOLDED)).max(upper - 1 + FOLDED),
    }
}
