//! `memcpy`, `memmove`, `memset` and `memcmp`: bytes of variables, member by member. There is no
//! memory behind variables, so bytes of members that lie differently on the two sides are taken out
//! of them and put together again.

use nicforge_ir::{BinOp, CmpOp, Op, Program, Proj, Span, Type, UnOp, ValueId};

use crate::ast::Node;
use crate::diagnostics::codes;
use crate::func::FnLower;
use crate::overlay::{self, MOST, leaves};
use crate::place::{Memory, Place};
use crate::steps::Spot;
use crate::unit::{Failed, Lowered};

/// Most bytes that are compared member by member.
const LONG_COMPARISON: i128 = 64;

/// Most bytes of a call if their number varies.
const MOST_BYTES: i128 = 4096;

/// An integer in it.
struct Leaf {
    path: Vec<Proj>,
    ty: Type,
    /// Bits from the start.
    at: u64,
    bits: u64,
    bit_field: bool,
}

impl<'a> FnLower<'_, 'a, '_> {
    /// A call of one of the memory functions; its result, of `memcmp`.
    pub fn memory_call(
        &mut self,
        name: &str,
        node: &'a Node,
        args: &'a [Node],
    ) -> Option<Lowered<Option<ValueId>>> {
        let name = name.strip_prefix("__builtin_").unwrap_or(name);
        if let Some(result) = self.loop_over_memory(name, node, args) {
            return Some(result);
        }
        Some(match name {
            "memcpy" | "memmove" => self.copy_memory(node, args).map(|()| None),
            "memset" => self.fill_memory(node, args).map(|()| None),
            "memcmp" => self.compare_memory(args).map(Some),
            _ => return None,
        })
    }

    /// A call with a number of bytes that varies, or with such a byte, or a long comparison: a
    /// function of `nicforge.h` has a loop for it.
    fn loop_over_memory(
        &mut self,
        name: &str,
        node: &'a Node,
        args: &'a [Node],
    ) -> Option<Lowered<Option<ValueId>>> {
        let looped = match name {
            "memcpy" => "__nf_memcpy",
            "memmove" if self.are_apart(args) => "__nf_memcpy",
            "memset" => "__nf_memset",
            "memcmp" => "__nf_memcmp",
            _ => return None,
        };
        let [_, byte, count] = args else { return None };
        let (least, most) = self.range(count);
        let varies = least != most
            || name == "memset" && self.unit.eval(byte).is_none()
            || name == "memcmp" && most > LONG_COMPARISON;
        let known = least >= 0 && most <= MOST_BYTES;
        (varies && known).then(|| self.user_call(looped, node, args))
    }

    /// True if two pointers surely lead to different variables, or members.
    fn are_apart(&self, args: &'a [Node]) -> bool {
        let [to, from, ..] = args else { return false };
        let (Some((a, _)), Some((b, _))) = (Spot::of(to), Spot::of(from)) else { return false };
        let var = |spot: &Spot| self.var_of.get(&spot.decl);
        !a.overlaps(&b) && (a.decl == b.decl || var(&a) != var(&b))
    }

    fn copy_memory(&mut self, node: &'a Node, args: &'a [Node]) -> Lowered<()> {
        let bytes = self.byte_count(&args[2])?;
        let to = self.memory_of(&args[0], bytes)?;
        let from = self.memory_of(&args[1], bytes)?;
        let whole = |memory: &Memory, prog: &Program| {
            memory.first.is_none() && u64::from(prog.size_of(memory.place.ty)) == bytes
        };
        if to.place.ty == from.place.ty
            && whole(&to, &self.unit.prog)
            && whole(&from, &self.unit.prog)
        {
            let value = self.read(&from.place);
            return self.write(&to.place, value, node.span);
        }
        if self.ends_inside(&to, bytes) || self.ends_inside(&from, bytes) {
            let array = self.unit.prog.array_of(Type::u(8), bytes as u32);
            let from = self.seen_as(from, array, args[1].span)?;
            let to = self.seen_as(to, array, args[0].span)?;
            let value = self.read(&from);
            return self.write(&to, value, node.span);
        }
        let (into, out) = self.leaves_of((&to, &args[0]), (&from, &args[1]), bytes)?;
        let values = self.values_as(&from, &out, &into);
        for (leaf, value) in into.iter().zip(values) {
            self.write(&to.part(leaf), value, node.span)?;
        }
        Ok(())
    }

    /// True if bytes end inside an integer that is longer.
    fn ends_inside(&self, memory: &Memory, bytes: u64) -> bool {
        let place = &memory.place;
        let all = match place.ty {
            Type::Array(id) if memory.first.is_some() => {
                let def = self.unit.prog.arrays[id];
                return def.elem.is_int() && !bytes.is_multiple_of(self.unit.size_of(def.elem));
            }
            ty => leaves(&self.unit.prog, ty),
        };
        let inside = |leaf: &overlay::Leaf| leaf.at < 8 * bytes && 8 * bytes < leaf.at + leaf.bits;
        !place.narrow && all.iter().any(inside)
    }

    fn fill_memory(&mut self, node: &'a Node, args: &'a [Node]) -> Lowered<()> {
        let bytes = self.byte_count(&args[2])?;
        let Some(byte) = self.unit.eval(&args[1]) else {
            let help = "write a constant, or a loop over the bytes";
            return Err(self.memory_refused(args[1].span, "the byte is not constant", help));
        };
        let to = self.memory_of(&args[0], bytes)?;
        let size = u64::from(self.unit.prog.size_of(to.place.ty));
        if byte as u8 == 0 && to.first.is_none() && size == bytes {
            let zero = self.zero(to.place.ty);
            return self.write(&to.place, zero, node.span);
        }
        let leaves = self.leaves(&to, bytes, &args[0])?;
        for leaf in &leaves {
            let bits = u64::from(byte as u8) * 0x0101_0101_0101_0101;
            let ty = self.as_unsigned(leaf.ty);
            let value = self.b.int(nicforge_ir::build::mask(bits, ty.bits().unwrap_or(64)), ty);
            let value = self.b.cast(value, leaf.ty);
            self.write(&to.part(leaf), value, node.span)?;
        }
        Ok(())
    }

    /// As `memcmp`: the first byte that differs decides.
    fn compare_memory(&mut self, args: &'a [Node]) -> Lowered<ValueId> {
        let bytes = self.byte_count(&args[2])?;
        let left = self.memory_of(&args[0], bytes)?;
        let right = self.memory_of(&args[1], bytes)?;
        let (a, b) = self.leaves_of((&left, &args[0]), (&right, &args[1]), bytes)?;
        let ours: Vec<ValueId> = a.iter().map(|leaf| self.read(&left.part(leaf))).collect();
        let theirs = self.values_as(&right, &b, &a);
        let int = Type::i(32);
        let mut result = self.b.int(0, int);
        let (less, more) = (self.b.int(u32::MAX.into(), int), self.b.int(1, int));
        for ((leaf, a), b) in a.iter().zip(ours).zip(theirs).rev() {
            let ordered = |lower: &mut Self, value: ValueId| {
                let ty = lower.as_unsigned(leaf.ty);
                let value = lower.b.cast(value, ty);
                match leaf.bits {
                    8 => value,
                    _ => lower.op(Op::Un(UnOp::Bswap, value), ty),
                }
            };
            let differ = self.b.cmp(CmpOp::Ne, a, b);
            let (a, b) = (ordered(self, a), ordered(self, b));
            let below = self.b.cmp(CmpOp::Lt, a, b);
            let sign = self.op(Op::Select { cond: below, then: less, other: more }, int);
            result = self.op(Op::Select { cond: differ, then: sign, other: result }, int);
        }
        Ok(result)
    }

    fn byte_count(&mut self, node: &'a Node) -> Lowered<u64> {
        let (least, most) = self.range(node);
        match u64::try_from(least) {
            Ok(count) if least == most => Ok(count),
            _ => {
                let help = "limit it: a constant, a mask (`n & 63`), or a comparison in front";
                let message = "it cannot be seen how many bytes these are at most";
                Err(self.memory_refused(node.span, message, help))
            }
        }
    }

    /// Memory that a pointer argument leads to, of which `bytes` bytes are used.
    fn memory_of(&mut self, node: &'a Node, bytes: u64) -> Lowered<Memory> {
        let memory = self.memory(node)?;
        let size = match memory.place.ty {
            Type::Array(id) if memory.first.is_some() => self.unit.prog.arrays[id].elem,
            ty => ty,
        };
        match memory.first.is_some() && bytes <= self.unit.size_of(size) {
            true => Ok(Memory { place: self.element_of(memory), first: None }),
            false => Ok(memory),
        }
    }

    /// The integers of both sides.
    fn leaves_of(
        &mut self,
        a: (&Memory, &'a Node),
        b: (&Memory, &'a Node),
        bytes: u64,
    ) -> Lowered<(Vec<Leaf>, Vec<Leaf>)> {
        Ok((self.leaves(a.0, bytes, a.1)?, self.leaves(b.0, bytes, b.1)?))
    }

    fn leaves(&mut self, memory: &Memory, bytes: u64, node: &Node) -> Lowered<Vec<Leaf>> {
        let mut found = Vec::new();
        let mut end = u64::from(self.unit.prog.size_of(memory.place.ty));
        match (memory.first, memory.place.ty) {
            (Some(first), Type::Array(id)) => {
                let def = self.unit.prog.arrays[id];
                let size = u64::from(self.unit.prog.size_of(def.elem)).max(1);
                let known = match self.b.body.def_op(first) {
                    Some(Op::Int(first)) => *first,
                    _ => 0,
                };
                end = u64::from(def.len).saturating_sub(known) * size;
                for at in 0..bytes.div_ceil(size).min(MOST as u64 + 1) {
                    let more = self.b.int(at, Type::U32);
                    let index = self.op(Op::Bin(BinOp::Add, first, more), Type::U32);
                    let path = vec![Proj::Index(index)];
                    self.collect(def.elem, &path, 8 * at * size, 8 * bytes, &mut found);
                }
            }
            (_, ty) => self.collect(ty, &[], 0, 8 * bytes, &mut found),
        }
        let what = if bytes > end {
            Some(("there are not so many bytes", "copy no more than the variable has"))
        } else if found.len() > MOST {
            Some(("these are too many members for one call", "assign the whole, or write a loop"))
        } else if found.iter().any(|leaf| leaf.bit_field) {
            Some(("bit-fields are among the bytes", "assign the whole, or member by member"))
        } else if found.last().is_some_and(|last| last.at + last.bits > 8 * bytes) {
            Some(("the bytes end inside a member", "end behind a member"))
        } else {
            None
        };
        match what {
            Some((what, help)) => Err(self.memory_refused(node.span, what, help)),
            None => Ok(found),
        }
    }

    fn collect(&mut self, ty: Type, path: &[Proj], at: u64, end: u64, found: &mut Vec<Leaf>) {
        for leaf in leaves(&self.unit.prog, ty) {
            if at + leaf.at >= end || found.len() > MOST {
                return;
            }
            let path = [path, &self.projections(&leaf.path)].concat();
            let overlay::Leaf { ty, bits, bit_field, .. } = leaf;
            found.push(Leaf { path, ty, at: at + leaf.at, bits, bit_field });
        }
    }

    /// Values that lie in `from`, as integers that lie like `wanted`.
    fn values_as(&mut self, from: &Memory, leaves: &[Leaf], wanted: &[Leaf]) -> Vec<ValueId> {
        let same = leaves.len() == wanted.len()
            && leaves.iter().zip(wanted).all(|(a, b)| (a.at, a.bits) == (b.at, b.bits));
        let read: Vec<ValueId> = leaves.iter().map(|leaf| self.read(&from.part(leaf))).collect();
        if same {
            let cast = |(value, leaf): (ValueId, &Leaf)| self.b.cast(value, leaf.ty);
            return read.into_iter().zip(wanted).map(cast).collect();
        }
        let pieces: Vec<_> = leaves
            .iter()
            .zip(read)
            .map(|(leaf, value)| self.piece(leaf.at, leaf.bits, value))
            .collect();
        let together = |leaf: &Leaf| self.put_together(leaf.at, leaf.bits, leaf.ty, &pieces);
        wanted.iter().map(together).collect()
    }

    fn memory_refused(&mut self, span: Span, what: &str, help: &str) -> Failed {
        self.refuse(codes::MEM_FUNCTION, span, what, help)
    }
}

impl Memory {
    fn part(&self, leaf: &Leaf) -> Place {
        self.place.part(&leaf.path, leaf.ty)
    }
}
