//! `regex-loops`: writes searches for regular expressions as loops over bytes.
//!
//! A set of patterns becomes the two arrays of its automaton ([`nicforge_ir::patterns`]): classes
//! of bytes and where they lead. A search is a loop that takes a byte a trip until the automaton
//! has ended. Its last step, for the end of the bytes, stands behind the loop.

use std::collections::BTreeMap;
use std::rc::Rc;

use nicforge_ir::patterns::{Automaton, Patterns};
use nicforge_ir::program::ConstArray;
use nicforge_ir::verify::MAX_FRAME;
use nicforge_ir::{
    BinOp, BlockId, Body, CmpOp, ConstId, Op, Program, Span, Type, ValueDef, ValueId,
};

use crate::Pass;
use crate::rewrite::{Replacements, constant, for_each_body, new_inst};

pub struct RegexLoops;

const BYTE: Type = Type::U8;
const STATE: Type = Type::U16;

/// An automaton in a program.
struct Arrays {
    automaton: Rc<Automaton>,
    classes: ConstId,
    next: ConstId,
}

/// Automata by their patterns.
type Known = BTreeMap<String, Arrays>;

impl Pass for RegexLoops {
    fn name(&self) -> &'static str {
        "regex-loops"
    }

    fn description(&self) -> &'static str {
        "writes searches for regular expressions as loops over bytes"
    }

    fn run(&self, program: &mut Program) -> bool {
        let mut wanted = BTreeMap::new();
        for_each_body(program, |_, body| {
            body.for_each_inst(body.entry(), &mut |inst| {
                let inst = &body.insts[inst];
                if let Op::Regex { patterns, .. } = &inst.op {
                    wanted.entry(patterns.clone()).or_insert(inst.span);
                }
            });
            false
        });
        let known: Known = wanted
            .into_iter()
            .map(|(patterns, span)| {
                let arrays = arrays(program, &patterns, span);
                (patterns, arrays)
            })
            .collect();
        for_each_body(program, |_, body| {
            let mut changed = false;
            for block in body.blocks.keys().collect::<Vec<_>>() {
                changed |= expand_in(body, block, &known);
            }
            changed
        })
    }
}

/// Puts the automaton of a set of patterns into the program.
fn arrays(program: &mut Program, patterns: &str, span: Span) -> Arrays {
    let automaton = Patterns::of(patterns).and_then(|patterns| patterns.automaton());
    let automaton = automaton.expect("the verifier has made it");
    let mut add = |what: &str, elem: Type, bytes: Vec<u8>| {
        let mut names = (program.consts.len()..).map(|number| format!("regex_{what}_{number}"));
        let free = |name: &String| program.consts.values().all(|array| array.name != *name);
        let name = names.find(free).expect("there are more numbers than arrays");
        program.consts.push(ConstArray { name, elem, bytes, span })
    };
    let classes = add("classes", BYTE, automaton.classes.to_vec());
    let next = automaton.next.iter().flat_map(|next| next.to_le_bytes()).collect();
    let next = add("next", STATE, next);
    Arrays { automaton, classes, next }
}

/// Expands the searches of one block; those of regions in it have blocks of their own.
fn expand_in(body: &mut Body, block: BlockId, known: &Known) -> bool {
    let before = std::mem::take(&mut body.blocks[block].insts);
    let mut replaced = Replacements::default();
    for inst in before {
        // What no region of the program leads to was not looked at.
        let search = match &body.insts[inst].op {
            Op::Regex { pkt, patterns, len } => known.get(patterns).map(|of| (*pkt, *len, of)),
            _ => None,
        };
        let Some((pkt, len, arrays)) = search else {
            body.blocks[block].insts.push(inst);
            continue;
        };
        let span = body.insts[inst].span;
        let which = Search { body, span, block }.search(pkt, len, arrays);
        let result = body.insts[inst].results[0];
        replaced.add(body, result, which);
    }
    replaced.apply(body);
    replaced.any()
}

/// A search while it is written at the end of a block.
struct Search<'a> {
    body: &'a mut Body,
    span: Span,
    block: BlockId,
}

impl Search<'_> {
    fn push(&mut self, op: Op, results: &[Type]) -> Vec<ValueId> {
        let inst = new_inst(self.body, op, results, self.span);
        self.body.blocks[self.block].insts.push(inst);
        self.body.insts[inst].results.clone()
    }

    fn value(&mut self, op: Op, ty: Type) -> ValueId {
        self.push(op, &[ty])[0]
    }

    fn int(&mut self, raw: u64, ty: Type) -> ValueId {
        self.value(Op::Int(raw), ty)
    }

    fn bin(&mut self, op: BinOp, a: ValueId, b: ValueId, ty: Type) -> ValueId {
        self.value(Op::Bin(op, a, b), ty)
    }

    fn at_least(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.value(Op::Cmp(CmpOp::Ge, a, b), Type::BOOL)
    }

    /// A new region with parameters.
    fn region(&mut self, params: &[Type]) -> (BlockId, Vec<ValueId>) {
        let region = self.body.blocks.push(Default::default());
        let value = |(at, ty): (usize, &Type)| {
            let def = ValueDef::Param(region, at as u32);
            self.body.values.push(nicforge_ir::Value { ty: *ty, name: None, def })
        };
        let params: Vec<ValueId> = params.iter().enumerate().map(value).collect();
        self.body.blocks[region].params = params.clone();
        (region, params)
    }

    /// Leaves the loop with `state` if `condition` is `on`.
    fn leave_if(&mut self, condition: ValueId, on: bool, state: ValueId, at: ValueId) {
        let leaves = Op::Break { depth: 0, values: vec![state, at] };
        let regions = [leaves, Op::Yield(Vec::new())].map(|op| {
            let (region, _) = self.region(&[]);
            let inst = new_inst(self.body, op, &[], self.span);
            self.body.blocks[region].insts.push(inst);
            region
        });
        let [leaves, stays] = regions;
        let (then, other) = if on { (leaves, stays) } else { (stays, leaves) };
        self.push(Op::If { cond: condition, then, other, likely: None }, &[]);
    }

    /// Writes a search; the number of the pattern that matched.
    fn search(&mut self, pkt: ValueId, len: ValueId, arrays: &Arrays) -> ValueId {
        let known = constant(self.body, len);
        let most = known.map_or(MAX_FRAME, |len| len.min(MAX_FRAME.into()) as u32);
        let (start, zero) = (self.int(0, STATE), self.int(0, Type::U32));
        let (region, params) = self.region(&[STATE, Type::U32]);
        let outer = std::mem::replace(&mut self.block, region);
        self.trip(pkt, known.is_none().then_some(len), arrays, params[0], params[1]);
        self.block = outer;
        let op = Op::Loop { init: vec![start, zero], max_trips: most, body: region };
        let state = self.push(op, &[STATE, Type::U32])[0];
        let ends = self.int(arrays.automaton.ends().into(), STATE);
        let over = self.at_least(state, ends);
        let last = self.int(arrays.automaton.last.into(), STATE);
        let end = self.step(arrays, state, last);
        let end = self.value(Op::Select { cond: over, then: state, other: end }, STATE);
        let which = self.bin(BinOp::Sub, end, ends, STATE);
        self.value(Op::Cast(which), Type::U32)
    }

    /// The next state, by a class.
    fn step(&mut self, arrays: &Arrays, state: ValueId, class: ValueId) -> ValueId {
        let index = self.bin(BinOp::Add, state, class, STATE);
        self.value(Op::ConstElem { array: arrays.next, index }, STATE)
    }

    /// One trip: the byte at `at`, which must be in front of `len` if that is given.
    fn trip(
        &mut self,
        pkt: ValueId,
        len: Option<ValueId>,
        arrays: &Arrays,
        state: ValueId,
        at: ValueId,
    ) {
        if let Some(len) = len {
            let over = self.at_least(at, len);
            self.leave_if(over, true, state, at);
        }
        let read = self.push(Op::Load { pkt, off: at }, &[Type::BOOL, BYTE]);
        self.leave_if(read[0], false, state, at);
        let class = self.value(Op::ConstElem { array: arrays.classes, index: read[1] }, BYTE);
        let class = self.value(Op::Cast(class), STATE);
        let next = self.step(arrays, state, class);
        let ends = self.int(arrays.automaton.ends().into(), STATE);
        let over = self.at_least(next, ends);
        self.leave_if(over, true, next, at);
        let one = self.int(1, Type::U32);
        let after = self.bin(BinOp::Add, at, one, Type::U32);
        self.push(Op::Continue { depth: 0, values: vec![next, after] }, &[]);
    }
}
