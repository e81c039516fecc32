//! `cse`: computes equal things once.
//!
//! A walk in order of execution remembers every op without effects by what it is and what it works
//! on. A later equal op is replaced by the earlier result, if that is visible: what a region
//! computed is forgotten at its end. Names of operands are replaced before looking, so one walk
//! finds chains too.

use std::collections::HashMap;

use nicforge_ir::{BlockId, Body, Op, Program, Type, ValueId};

use crate::Pass;
use crate::rewrite::{Replacements, for_each_body};

pub struct Cse;

impl Pass for Cse {
    fn name(&self) -> &'static str {
        "cse"
    }

    fn description(&self) -> &'static str {
        "computes equal things once (ops without effects only)"
    }

    fn run(&self, program: &mut Program) -> bool {
        for_each_body(program, |_, body| {
            let mut walk = Walk { known: HashMap::new(), replaced: Replacements::default() };
            walk.block(body, body.entry());
            walk.replaced.any()
        })
    }
}

struct Walk {
    /// Text of the op, and the type of its result: `Op` holds a probability and so has no hash of
    /// its own.
    known: HashMap<(String, Type), ValueId>,
    replaced: Replacements,
}

impl Walk {
    fn block(&mut self, body: &mut Body, block: BlockId) {
        let mut added = Vec::new();
        let mut kept = Vec::new();
        for inst in std::mem::take(&mut body.blocks[block].insts) {
            let mut op = std::mem::replace(&mut body.insts[inst].op, Op::Zero);
            self.replaced.apply_to(&mut op);
            let pure = op.effects().is_pure();
            let regions = op.regions();
            body.insts[inst].op = op;
            if let (true, [result]) = (pure, &body.insts[inst].results[..]) {
                let result = *result;
                let key = (format!("{:?}", body.insts[inst].op), body.ty(result));
                match self.known.get(&key) {
                    Some(&earlier) => {
                        if matches!(body.insts[inst].op, Op::Int(_) | Op::Zero) {
                            // The name of one variable would mislead where the constant is
                            // another's.
                            body.values[earlier].name = None;
                        }
                        self.replaced.add(body, result, earlier);
                        continue;
                    }
                    None => {
                        self.known.insert(key.clone(), result);
                        added.push(key);
                    }
                }
            }
            regions.for_each(|region| self.block(body, region));
            kept.push(inst);
        }
        body.blocks[block].insts = kept;
        for key in added {
            self.known.remove(&key);
        }
    }
}
