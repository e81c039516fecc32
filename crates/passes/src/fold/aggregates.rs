//! Rules for structs and arrays: reading what was set, setting over what was set.
//!
//! Two paths into one aggregate are *the same*, *inside* one another, *apart*, or nobody knows,
//! which is the case as soon as an index decides that is neither the same value nor two different
//! constants. Paths are compared step by step: `.dst.b[%i]`.
//!
//! Out-of-range indices need care. A read of what was set at index `%i` is the set value only if
//! `%i` is in range: beyond the end the set changed nothing and the read is zero. Bit-fields cut
//! off what they have no room for, so a read does not simply give the value that was set.

use nicforge_ir::interp::arith::bit_field;
use nicforge_ir::{BlockId, Op, Proj, Type, ValueDef, ValueId};

use super::{Folder, Simpler};

/// Relation of a path that is set to one that is read.
enum Relation {
    Same,
    /// What is read lies in what was set, at this rest of its path.
    Inside(Vec<Proj>),
    Apart,
    Unknown,
}

/// Where a part of an aggregate comes from.
#[derive(PartialEq, Eq)]
enum Origin {
    Zero,
    /// It is this part of a value.
    Part(ValueId, Vec<Proj>),
}

impl Folder<'_> {
    pub(super) fn aggregate(&mut self, op: &Op, ty: Type) -> Option<Simpler> {
        match op {
            Op::Get { agg, path } => self.get(*agg, path, ty),
            Op::Set { agg, path, value } => self.set(*agg, path, *value),
            _ => None,
        }
    }

    fn get(&self, agg: ValueId, path: &[Proj], ty: Type) -> Option<Simpler> {
        if path.is_empty() {
            return Some(Simpler::Value(agg));
        }
        if self.surely_outside(self.body.ty(agg), path) {
            return Some(zero(ty));
        }
        match self.body.def_op(agg)? {
            Op::Zero => Some(zero(ty)),
            Op::Get { agg, path: first } => {
                let path = first.iter().chain(path).copied().collect();
                Some(Simpler::Op(Op::Get { agg: *agg, path }))
            }
            Op::Set { agg: before, path: set, value } => {
                let read = |agg: ValueId, path: Vec<Proj>| Some(Simpler::Op(Op::Get { agg, path }));
                match self.relation(self.body.ty(agg), set, path) {
                    Relation::Apart => read(*before, path.to_vec()),
                    Relation::Same => match self.program.bit_width(self.body.ty(agg), set) {
                        None => Some(Simpler::Value(*value)),
                        Some(width) => {
                            Some(Simpler::Int(bit_field(self.known(*value)?, width, ty)))
                        }
                    },
                    Relation::Inside(rest) => read(*value, rest),
                    Relation::Unknown => None,
                }
            }
            Op::If { .. } => match self.origin(agg, path)? {
                Origin::Zero => Some(zero(ty)),
                Origin::Part(value, path) if path.is_empty() => Some(Simpler::Value(value)),
                Origin::Part(agg, path) => Some(Simpler::Op(Op::Get { agg, path })),
            },
            _ => None,
        }
    }

    /// Where the part of `agg` at `path` comes from, whichever way was taken: what both arms of an
    /// `if` yield comes from outside of it, as both see it.
    fn origin(&self, agg: ValueId, path: &[Proj]) -> Option<Origin> {
        match self.body.def_op(agg) {
            Some(Op::Zero) => Some(Origin::Zero),
            Some(Op::Set { agg: before, path: set, value }) => {
                match self.relation(self.body.ty(agg), set, path) {
                    Relation::Apart => self.origin(*before, path),
                    Relation::Same if self.program.bit_width(self.body.ty(agg), set).is_none() => {
                        Some(Origin::Part(*value, Vec::new()))
                    }
                    Relation::Inside(rest) => self.origin(*value, &rest),
                    _ => None,
                }
            }
            Some(Op::If { then, other, .. }) => {
                let ValueDef::Result(_, index) = self.body.values[agg].def else { return None };
                let arm = |region: BlockId| match &self.body.terminator(region)?.op {
                    Op::Yield(values) => self.origin(values[index as usize], path),
                    _ => None,
                };
                let first = arm(*then)?;
                (first == arm(*other)?).then_some(first)
            }
            _ => Some(Origin::Part(agg, path.to_vec())),
        }
    }

    fn set(&self, agg: ValueId, path: &[Proj], value: ValueId) -> Option<Simpler> {
        if path.is_empty() {
            return Some(Simpler::Value(value));
        }
        if self.surely_outside(self.body.ty(agg), path) {
            return Some(Simpler::Value(agg));
        }
        // What is put back where it came from.
        if let Some(Op::Get { agg: from, path: read }) = self.body.def_op(value)
            && *from == agg
            && read == path
        {
            return Some(Simpler::Value(agg));
        }
        let zero =
            self.known(value) == Some(0) || matches!(self.body.def_op(value), Some(Op::Zero));
        match self.body.def_op(agg)? {
            Op::Zero if zero => Some(Simpler::Value(agg)),
            // Set again, in whole or with more around it: the first time does not show. If an index
            // of `path` is beyond the end, both change nothing.
            Op::Set { agg: before, path: first, .. } if first.starts_with(path) => {
                Some(Simpler::Op(Op::Set { agg: *before, path: path.to_vec(), value }))
            }
            _ => None,
        }
    }

    /// How `set` lies to `read`, both paths into a value of type `ty`.
    fn relation(&self, ty: Type, set: &[Proj], read: &[Proj]) -> Relation {
        for (i, (a, b)) in set.iter().zip(read).enumerate() {
            let apart = match (a, b) {
                (Proj::Field(a), Proj::Field(b)) => a != b,
                (Proj::Index(a), Proj::Index(b)) if a == b => false,
                (Proj::Index(a), Proj::Index(b)) => match (self.known(*a), self.known(*b)) {
                    (Some(a), Some(b)) => a != b,
                    _ => return Relation::Unknown,
                },
                _ => return Relation::Unknown,
            };
            if apart {
                return Relation::Apart;
            }
            if !self.surely_in_range(ty, &set[..=i]) {
                return Relation::Unknown;
            }
        }
        match read.get(set.len()..) {
            Some([]) => Relation::Same,
            Some(rest) => Relation::Inside(rest.to_vec()),
            None => Relation::Unknown,
        }
    }

    /// True if the last step of a path is a member or an index known to be in range.
    fn surely_in_range(&self, ty: Type, path: &[Proj]) -> bool {
        match path.split_last() {
            Some((Proj::Index(index), before)) => {
                let len = self.array_len(ty, before);
                self.known(*index).zip(len).is_some_and(|(index, len)| index < len)
            }
            _ => true,
        }
    }

    /// True if an index of the path is known to be beyond its array's end.
    fn surely_outside(&self, ty: Type, path: &[Proj]) -> bool {
        path.iter().enumerate().any(|(i, step)| match step {
            Proj::Index(index) => self
                .known(*index)
                .zip(self.array_len(ty, &path[..i]))
                .is_some_and(|(index, len)| index >= len),
            Proj::Field(_) => false,
        })
    }

    fn array_len(&self, ty: Type, path: &[Proj]) -> Option<u64> {
        match self.program.project(ty, path)? {
            Type::Array(id) => Some(self.program.arrays[id].len as u64),
            _ => None,
        }
    }
}

fn zero(ty: Type) -> Simpler {
    if ty.is_int() { Simpler::Int(0) } else { Simpler::Op(Op::Zero) }
}
