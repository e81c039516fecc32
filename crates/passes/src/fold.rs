//! `fold`: what can be known without running.
//!
//! One walk in order of execution. Each op is looked at with its operands already simplified and
//! becomes a constant, another value, or a simpler op. The rules are in `integers` and
//! `aggregates`; every one holds for all inputs under αIR's own arithmetic (division by zero is 0,
//! wide shifts are 0), and constants are computed by the interpreter's functions, so folding and
//! running cannot disagree. The walk terminates as it visits each instruction once, and rules that
//! make a new op look at that again only while it gets simpler.

mod aggregates;
mod integers;

use nicforge_ir::{BlockId, Body, InstId, Op, Program, Type, ValueId};

use crate::Pass;
use crate::rewrite::{Replacements, constant, for_each_body, new_inst};

pub struct Fold;

impl Pass for Fold {
    fn name(&self) -> &'static str {
        "fold"
    }

    fn description(&self) -> &'static str {
        "computes constants, applies algebra, forwards what was set into an aggregate to where it is read"
    }

    fn run(&self, program: &mut Program) -> bool {
        for_each_body(program, |program, body| {
            let entry = body.entry();
            let mut fold = Folder {
                program,
                body,
                replaced: Replacements::default(),
                changed: false,
                fresh: Vec::new(),
            };
            fold.block(entry);
            fold.changed
        })
    }
}

/// Simpler forms that an op turns out to have.
enum Simpler {
    /// An existing value.
    Value(ValueId),
    /// A constant of the result's type.
    Int(u64),
    /// Another op with the same result.
    Op(Op),
}

struct Folder<'a> {
    program: &'a Program,
    body: &'a mut Body,
    replaced: Replacements,
    changed: bool,
    /// Constants that the simpler op needs, to be put in front of it.
    fresh: Vec<InstId>,
}

impl Folder<'_> {
    fn block(&mut self, block: BlockId) {
        let mut kept = Vec::new();
        for inst in std::mem::take(&mut self.body.blocks[block].insts) {
            let mut op = std::mem::replace(&mut self.body.insts[inst].op, Op::Zero);
            self.replaced.apply_to(&mut op);
            self.body.insts[inst].op = op;
            let gone = self.inst(inst);
            kept.append(&mut self.fresh);
            if !gone {
                kept.push(inst);
            }
            for region in self.body.insts[inst].op.regions() {
                self.block(region);
            }
        }
        self.body.blocks[block].insts = kept;
    }

    /// Simplifies one instruction; whether nothing of it is left.
    fn inst(&mut self, inst: InstId) -> bool {
        let [result] = self.body.insts[inst].results[..] else { return false };
        // Rules lower the number of ops that the value hangs on or turn constants to the right, so
        // few suffice.
        for _ in 0..16 {
            let op = self.body.insts[inst].op.clone();
            let ty = self.body.ty(result);
            let simpler = self.integer(inst, &op, ty).or_else(|| self.aggregate(&op, ty));
            match simpler {
                None => return false,
                Some(Simpler::Value(value)) => {
                    self.replaced.add(self.body, result, value);
                    self.changed = true;
                    return true;
                }
                Some(Simpler::Int(raw)) => {
                    self.body.insts[inst].op = Op::Int(raw);
                    self.changed = true;
                    return false;
                }
                Some(Simpler::Op(op)) => {
                    self.body.insts[inst].op = op;
                    self.changed = true;
                }
            }
        }
        false
    }

    /// The constant that a value is.
    fn known(&self, value: ValueId) -> Option<u64> {
        constant(self.body, value)
    }

    /// A new constant in front of the op being looked at.
    fn int(&mut self, inst: InstId, raw: u64, ty: Type) -> ValueId {
        let span = self.body.insts[inst].span;
        let made = new_inst(self.body, Op::Int(raw), &[ty], span);
        self.fresh.push(made);
        self.body.insts[made].results[0]
    }
}
