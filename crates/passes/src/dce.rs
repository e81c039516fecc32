//! `dce`: removes what nothing needs.
//!
//! Marking starts from ops with effects (an `extract` moves the cursor, so it stays even when
//! nobody uses what it read) and from `return`, and follows operands. A value that an `if` gives
//! marks that operand of both `yield`s; a value that a loop carries marks that place in the initial
//! values, in every `continue` and `break` of the loop and in the results, as these come and go
//! together. An op that is needed makes the `if` or loop around it needed, and a needed loop needs
//! its `break`s and `continue`s. All else goes, loops too: they are bounded, so dropping one cannot
//! turn a program that ends into one that does not or the other way round.
//!
//! Marking visits every value and instruction at most once, and stays linear.
//!
//! Reads of tables may go when unused, except of LRU tables, where a read counts as a use and
//! decides what is evicted.

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use nicforge_ir::{BlockId, Body, InstId, Op, Program, TableKind, ValueDef, ValueId};

use crate::Pass;
use crate::rewrite::{for_each_body, for_each_exit};

pub struct Dce;

impl Pass for Dce {
    fn name(&self) -> &'static str {
        "dce"
    }

    fn description(&self) -> &'static str {
        "removes what nothing needs: unused ops, results and carried values"
    }

    fn run(&self, program: &mut Program) -> bool {
        for_each_body(program, |program, body| {
            let mut marks = Marks::default();
            marks.owners(body, body.entry(), None);
            marks.roots(program, body, body.entry());
            while let Some(work) = marks.work.pop() {
                match work {
                    Work::Inst(inst) => marks.follow(body, inst),
                    Work::Value(value) => marks.follow_value(body, value),
                }
            }
            sweep(&marks, body, body.entry())
        })
    }
}

enum Work {
    Inst(InstId),
    Value(ValueId),
}

#[derive(Default)]
struct Marks {
    insts: SecondaryMap<InstId, bool>,
    values: SecondaryMap<ValueId, bool>,
    /// The `if` or loop around an instruction.
    around: SecondaryMap<InstId, PackedOption<InstId>>,
    /// The loop that a region belongs to.
    loop_of: SecondaryMap<BlockId, PackedOption<InstId>>,
    work: Vec<Work>,
}

impl Marks {
    fn owners(&mut self, body: &Body, block: BlockId, owner: Option<InstId>) {
        for &inst in &body.blocks[block].insts {
            self.around[inst] = owner.into();
            if let Op::Loop { body: region, .. } = body.insts[inst].op {
                self.loop_of[region] = inst.into();
            }
            body.insts[inst].op.regions().for_each(|region| self.owners(body, region, Some(inst)));
        }
    }

    fn roots(&mut self, program: &Program, body: &Body, block: BlockId) {
        for &inst in &body.blocks[block].insts {
            let op = &body.insts[inst].op;
            match op {
                Op::Return(_) | Op::Call { .. } => self.inst(inst),
                Op::If { .. } | Op::Loop { .. } => {
                    op.regions().for_each(|region| self.roots(program, body, region));
                }
                Op::Yield(_) | Op::Break { .. } | Op::Continue { .. } => {}
                _ => {
                    let effects = op.effects();
                    let lru = effects
                        .table_read
                        .is_some_and(|t| program.tables[t].kind == TableKind::Lru);
                    if !effects.only_reads() || lru {
                        self.inst(inst);
                    }
                }
            }
        }
    }

    fn inst(&mut self, inst: InstId) {
        if !std::mem::replace(&mut self.insts[inst], true) {
            self.work.push(Work::Inst(inst));
        }
    }

    fn value(&mut self, value: ValueId) {
        if !std::mem::replace(&mut self.values[value], true) {
            self.work.push(Work::Value(value));
        }
    }

    /// Marks what a needed instruction needs.
    fn follow(&mut self, body: &Body, inst: InstId) {
        if let Some(owner) = self.around[inst].expand() {
            self.inst(owner);
        }
        match &body.insts[inst].op {
            // Which of the values are needed, their users decide.
            Op::Yield(_) | Op::Break { .. } | Op::Continue { .. } => {}
            Op::Loop { body: region, .. } => {
                let mut exits = Vec::new();
                for_each_exit(body, *region, 0, &mut |exit, inside| exits.push((exit, inside)));
                for (exit, inside) in exits {
                    if exit_depth(&body.insts[exit].op) == inside {
                        self.inst(exit);
                    }
                }
            }
            op => op.operands().for_each(|operand| self.value(operand)),
        }
    }

    /// Marks what gives a needed value.
    fn follow_value(&mut self, body: &Body, value: ValueId) {
        match body.values[value].def {
            ValueDef::Param(block, index) => {
                if let Some(inst) = self.loop_of[block].expand() {
                    self.carried(body, inst, index as usize);
                }
            }
            ValueDef::Result(inst, index) => {
                self.inst(inst);
                match body.insts[inst].op {
                    Op::If { then, other, .. } => {
                        for region in [then, other] {
                            if let Some(Op::Yield(values)) =
                                body.terminator(region).map(|last| &last.op)
                            {
                                self.value(values[index as usize]);
                            }
                        }
                    }
                    Op::Loop { .. } => self.carried(body, inst, index as usize),
                    _ => {}
                }
            }
        }
    }

    /// Marks place `index` of everything that a loop carries.
    fn carried(&mut self, body: &Body, inst: InstId, index: usize) {
        let Op::Loop { init, body: region, .. } = &body.insts[inst].op else { return };
        self.inst(inst);
        self.value(init[index]);
        self.value(body.blocks[*region].params[index]);
        self.value(body.insts[inst].results[index]);
        for_each_exit(body, *region, 0, &mut |exit, inside| {
            let op = &body.insts[exit].op;
            if let (true, Op::Break { values, .. } | Op::Continue { values, .. }) =
                (exit_depth(op) == inside, op)
            {
                self.value(values[index]);
            }
        });
    }
}

fn exit_depth(op: &Op) -> u32 {
    match op {
        Op::Break { depth, .. } | Op::Continue { depth, .. } => *depth,
        _ => u32::MAX,
    }
}

/// Removes from a region what is not marked; whether there was anything.
fn sweep(marks: &Marks, body: &mut Body, block: BlockId) -> bool {
    let mut changed = false;
    let mut kept = Vec::new();
    for inst in std::mem::take(&mut body.blocks[block].insts) {
        let op = &body.insts[inst].op;
        if !marks.insts[inst] && !op.is_terminator() {
            changed = true;
            continue;
        }
        kept.push(inst);
        match op.clone() {
            Op::If { then, other, .. } => {
                let keep: Vec<bool> =
                    body.insts[inst].results.iter().map(|v| marks.values[*v]).collect();
                changed |= sweep(marks, body, then) | sweep(marks, body, other);
                if keep.contains(&false) {
                    changed = true;
                    keep_results(body, inst, &keep);
                    for region in [then, other] {
                        let last = body.blocks[region].insts.last().copied();
                        if let Some(Op::Yield(values)) = last.map(|last| &mut body.insts[last].op) {
                            keep_marked(values, &keep);
                        }
                    }
                }
            }
            Op::Loop { body: region, .. } => {
                let params = body.blocks[region].params.clone();
                let keep: Vec<bool> = params.iter().map(|v| marks.values[*v]).collect();
                changed |= sweep(marks, body, region);
                if keep.contains(&false) {
                    changed = true;
                    keep_results(body, inst, &keep);
                    keep_carried(body, inst, region, &keep);
                }
            }
            _ => {}
        }
    }
    body.blocks[block].insts = kept;
    changed
}

fn keep_marked(values: &mut Vec<ValueId>, keep: &[bool]) {
    let mut flags = keep.iter();
    values.retain(|_| flags.next().copied().unwrap_or(true));
}

fn keep_results(body: &mut Body, inst: InstId, keep: &[bool]) {
    keep_marked(&mut body.insts[inst].results, keep);
    for (i, value) in body.insts[inst].results.clone().into_iter().enumerate() {
        body.values[value].def = ValueDef::Result(inst, i as u32);
    }
}

/// Drops the unmarked places of initial values, parameters, `break`s and `continue`s.
fn keep_carried(body: &mut Body, inst: InstId, region: BlockId, keep: &[bool]) {
    if let Op::Loop { init, .. } = &mut body.insts[inst].op {
        keep_marked(init, keep);
    }
    keep_marked(&mut body.blocks[region].params, keep);
    for (i, value) in body.blocks[region].params.clone().into_iter().enumerate() {
        body.values[value].def = ValueDef::Param(region, i as u32);
    }
    let mut exits = Vec::new();
    for_each_exit(body, region, 0, &mut |exit, inside| exits.push((exit, inside)));
    for (exit, inside) in exits {
        if exit_depth(&body.insts[exit].op) == inside
            && let Op::Break { values, .. } | Op::Continue { values, .. } = &mut body.insts[exit].op
        {
            keep_marked(values, keep);
        }
    }
}
