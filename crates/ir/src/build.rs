//! Building a body op by op.
//!
//! The builder appends to one region at a time: [`BodyBuilder::switch_to`] picks it. Result types
//! that follow from the operands are worked out here, so that front ends and passes cannot get them
//! wrong.

use crate::ops::{CmpOp, Op};
use crate::program::{
    Block, BlockId, Body, Inst, InstId, Program, ReasonId, Value, ValueDef, ValueId,
};
use crate::span::Span;
use crate::types::Type;

/// Appends instructions to the regions of a [`Body`].
pub struct BodyBuilder<'a> {
    pub body: &'a mut Body,
    at: BlockId,
    /// Given to every instruction made from here on.
    pub span: Span,
}

impl<'a> BodyBuilder<'a> {
    /// A builder at the end of `body`'s entry region, which it makes if there is none.
    pub fn new(body: &'a mut Body) -> BodyBuilder<'a> {
        let at = match body.entry {
            Some(entry) => entry,
            None => {
                let entry = body.blocks.push(Block::default());
                body.entry = Some(entry);
                entry
            }
        };
        BodyBuilder { body, at, span: Span::default() }
    }

    /// A new region, owned by nobody yet.
    pub fn new_block(&mut self) -> BlockId {
        self.body.blocks.push(Block::default())
    }

    /// Appends to `block` from here on.
    pub fn switch_to(&mut self, block: BlockId) {
        self.at = block;
    }

    /// The region that is being appended to.
    pub fn current(&self) -> BlockId {
        self.at
    }

    /// True if the current region has its terminator.
    pub fn is_terminated(&self) -> bool {
        self.body.terminator(self.at).is_some_and(|inst| inst.op.is_terminator())
    }

    /// Adds a parameter to a region.
    pub fn param(&mut self, block: BlockId, ty: Type, name: Option<&str>) -> ValueId {
        let index = self.body.blocks[block].params.len() as u32;
        let value = self.body.values.push(Value {
            ty,
            name: name.map(str::to_string),
            def: ValueDef::Param(block, index),
        });
        self.body.blocks[block].params.push(value);
        value
    }

    /// Appends an op with results of the given types.
    pub fn push(&mut self, op: Op, results: &[Type]) -> InstId {
        let inst = self.body.insts.push(Inst { op, results: Vec::new(), span: self.span });
        let results = results
            .iter()
            .enumerate()
            .map(|(i, &ty)| {
                self.body.values.push(Value {
                    ty,
                    name: None,
                    def: ValueDef::Result(inst, i as u32),
                })
            })
            .collect();
        self.body.insts[inst].results = results;
        self.body.blocks[self.at].insts.push(inst);
        inst
    }

    /// Appends an op with one result.
    pub fn push1(&mut self, op: Op, ty: Type) -> ValueId {
        let inst = self.push(op, &[ty]);
        self.body.insts[inst].results[0]
    }

    /// Appends an op with two results, such as `(ok, value)`.
    pub fn push2(&mut self, op: Op, first: Type, second: Type) -> (ValueId, ValueId) {
        let inst = self.push(op, &[first, second]);
        let results = &self.body.insts[inst].results;
        (results[0], results[1])
    }

    /// Appends an op without results.
    pub fn push0(&mut self, op: Op) -> InstId {
        self.push(op, &[])
    }

    /// Gives a packet up.
    pub fn drop(&mut self, pkt: ValueId, reason: ReasonId) {
        self.push0(Op::Drop { pkt, reason });
    }

    /// An integer constant; bits above the type's width are cut off.
    pub fn int(&mut self, value: u64, ty: Type) -> ValueId {
        let bits = ty.bits().expect("an integer constant has an integer type");
        self.push1(Op::Int(mask(value, bits)), ty)
    }

    /// Integer conversion; nothing if the types are the same.
    pub fn cast(&mut self, value: ValueId, ty: Type) -> ValueId {
        if self.body.ty(value) == ty { value } else { self.push1(Op::Cast(value), ty) }
    }

    /// Comparison: `u1`.
    pub fn cmp(&mut self, op: CmpOp, a: ValueId, b: ValueId) -> ValueId {
        self.push1(Op::Cmp(op, a, b), Type::BOOL)
    }

    /// C's truth of an integer: itself if it is `u1`, else whether it differs from zero.
    pub fn truth(&mut self, value: ValueId) -> ValueId {
        let ty = self.body.ty(value);
        if ty == Type::BOOL {
            return value;
        }
        let zero = self.int(0, ty);
        self.cmp(CmpOp::Ne, value, zero)
    }

    /// Names a value after the source variable it holds, unless it has a name.
    pub fn name(&mut self, value: ValueId, name: &str) {
        self.body.values[value].name.get_or_insert_with(|| name.to_string());
    }
}

/// The low `bits` bits of `value`.
pub fn mask(value: u64, bits: u8) -> u64 {
    if bits >= 64 { value } else { value & ((1u64 << bits) - 1) }
}

impl Program {
    /// The type at the end of a path into an aggregate, or `None` if the path does not fit the
    /// type.
    pub fn project(&self, mut ty: Type, path: &[crate::ops::Proj]) -> Option<Type> {
        use crate::ops::Proj;
        for step in path {
            ty = match (ty, step) {
                (Type::Struct(id), Proj::Field(i)) => self.structs[id].fields.get(*i as usize)?.ty,
                (Type::Array(id), Proj::Index(_)) => self.arrays[id].elem,
                _ => return None,
            };
        }
        Some(ty)
    }

    /// Width of the bit-field at the end of a path, if there is one.
    pub fn bit_width(&self, ty: Type, path: &[crate::ops::Proj]) -> Option<u8> {
        let (last, before) = path.split_last()?;
        match (self.project(ty, before)?, last) {
            (Type::Struct(id), crate::ops::Proj::Field(i)) => {
                self.structs[id].fields.get(*i as usize)?.bit_width
            }
            _ => None,
        }
    }
}
