//! Rules for integers.

use nicforge_ir::build::mask;
use nicforge_ir::interp::arith;
use nicforge_ir::{BinOp, CmpOp, InstId, Op, Type, UnOp, ValueId};

use super::{Folder, Simpler};
use crate::rewrite::new_inst;

/// `a op b = b op a`
fn commutes(op: BinOp) -> bool {
    matches!(op, BinOp::Add | BinOp::Mul | BinOp::And | BinOp::Or | BinOp::Xor)
}

impl Folder<'_> {
    fn width(&self, value: ValueId) -> Option<(u8, bool)> {
        match self.body.ty(value) {
            Type::Int { bits, signed } => Some((bits, signed)),
            _ => None,
        }
    }

    pub(super) fn integer(&mut self, inst: InstId, op: &Op, ty: Type) -> Option<Simpler> {
        match *op {
            Op::Bin(op, a, b) => self.bin(inst, op, a, b, ty),
            Op::Cmp(op, a, b) => self.cmp(inst, op, a, b),
            Op::Un(op, a) => self.un(op, a),
            Op::Cast(a) => self.cast(a, ty),
            Op::Select { cond, then, other } => self.select(cond, then, other, ty),
            Op::ConstElem { array, index } => {
                let def = &self.program.consts[array];
                let size = self.program.size_of(def.elem) as usize;
                let index = self.known(index)?;
                let start = usize::try_from(index).ok().and_then(|i| i.checked_mul(size));
                match start.and_then(|start| def.bytes.get(start..)?.get(..size)) {
                    Some(bytes) if ty.is_int() => {
                        let mut raw = [0; 8];
                        raw[..size].copy_from_slice(bytes);
                        Some(Simpler::Int(u64::from_le_bytes(raw)))
                    }
                    Some(_) => None,
                    None if ty.is_int() => Some(Simpler::Int(0)),
                    None => Some(Simpler::Op(Op::Zero)),
                }
            }
            _ => None,
        }
    }

    fn bin(
        &mut self,
        inst: InstId,
        op: BinOp,
        a: ValueId,
        b: ValueId,
        ty: Type,
    ) -> Option<Simpler> {
        let (bits, signed) = self.width(a)?;
        let ones = mask(u64::MAX, bits);
        match (self.known(a), self.known(b)) {
            (Some(x), Some(y)) => return Some(Simpler::Int(arith::bin(op, bits, signed, x, y))),
            (Some(_), None) if commutes(op) => return Some(Simpler::Op(Op::Bin(op, b, a))),
            // 0 / b, 0 % b, 0 << b, 0 >> b: zero even for b = 0.
            (Some(0), None) if !matches!(op, BinOp::Sub) => return Some(Simpler::Int(0)),
            (None, Some(y)) => {
                let found = match (op, y) {
                    (
                        BinOp::Add
                        | BinOp::Sub
                        | BinOp::Or
                        | BinOp::Xor
                        | BinOp::Shl
                        | BinOp::Shr
                        | BinOp::Rem,
                        0,
                    ) => Some(Simpler::Value(a)),
                    (BinOp::Mul | BinOp::And | BinOp::Div, 0) => Some(Simpler::Int(0)),
                    (BinOp::And, y) if y == ones => Some(Simpler::Value(a)),
                    (BinOp::Or, y) if y == ones => Some(Simpler::Int(ones)),
                    // In i1 the constant is -1, but there x and -x are one value too.
                    (BinOp::Mul | BinOp::Div, 1) => Some(Simpler::Value(a)),
                    (BinOp::Rem, 1) => Some(Simpler::Int(0)),
                    (BinOp::Shl, y) if y >= bits as u64 => Some(Simpler::Int(0)),
                    (BinOp::Shr, y) if y >= bits as u64 && !signed => Some(Simpler::Int(0)),
                    _ => None,
                };
                return found
                    .or_else(|| self.reassociate(inst, op, a, y, ty))
                    .or_else(|| self.narrowed_bits(inst, op, a, y));
            }
            _ => {}
        }
        if a == b {
            return match op {
                BinOp::Sub | BinOp::Xor => Some(Simpler::Int(0)),
                BinOp::And | BinOp::Or => Some(Simpler::Value(a)),
                // 0 % 0 is the dividend, 0.
                BinOp::Rem => Some(Simpler::Int(0)),
                _ => None,
            };
        }
        None
    }

    /// `(x op c) op d` is `x op (c op d)` where the op is associative.
    fn reassociate(
        &mut self,
        inst: InstId,
        op: BinOp,
        a: ValueId,
        d: u64,
        ty: Type,
    ) -> Option<Simpler> {
        let (bits, signed) = self.width(a)?;
        if !commutes(op) {
            return None;
        }
        match self.body.def_op(a) {
            Some(&Op::Bin(inner, x, c)) if inner == op => {
                let c = self.known(c)?;
                let both = self.int(inst, arith::bin(op, bits, signed, c, d), ty);
                Some(Simpler::Op(Op::Bin(op, x, both)))
            }
            _ => None,
        }
    }

    /// C masks a widened value: mask it before widening. What `and` would keep above the value's
    /// width is zero; `or` and `xor` need a constant that has nothing there.
    fn narrowed_bits(&mut self, inst: InstId, op: BinOp, a: ValueId, y: u64) -> Option<Simpler> {
        let (bits, _) = self.width(a)?;
        let Some(&Op::Cast(x)) = self.body.def_op(a) else { return None };
        let (inner_bits, inner_signed) = self.width(x)?;
        let low = mask(y, inner_bits);
        let fits = match op {
            BinOp::And => true,
            BinOp::Or | BinOp::Xor => low == y,
            _ => false,
        };
        if inner_signed || inner_bits >= bits || !fits {
            return None;
        }
        let ty = self.body.ty(x);
        let constant = self.int(inst, low, ty);
        let span = self.body.insts[inst].span;
        let narrow = new_inst(self.body, Op::Bin(op, x, constant), &[ty], span);
        self.fresh.push(narrow);
        Some(Simpler::Op(Op::Cast(self.body.insts[narrow].results[0])))
    }

    fn cmp(&mut self, inst: InstId, op: CmpOp, a: ValueId, b: ValueId) -> Option<Simpler> {
        let (bits, signed) = self.width(a)?;
        if a == b {
            return Some(Simpler::Int(arith::cmp(op, bits, signed, 0, 0) as u64));
        }
        let y = match (self.known(a), self.known(b)) {
            (Some(x), Some(y)) => {
                return Some(Simpler::Int(arith::cmp(op, bits, signed, x, y) as u64));
            }
            (Some(_), None) => return Some(Simpler::Op(Op::Cmp(op.mirrored(), b, a))),
            (None, Some(y)) => y,
            (None, None) => return None,
        };
        if !signed {
            match (op, y) {
                (CmpOp::Lt, 0) => return Some(Simpler::Int(0)),
                (CmpOp::Ge, 0) => return Some(Simpler::Int(1)),
                (CmpOp::Gt, y) if y == mask(u64::MAX, bits) => return Some(Simpler::Int(0)),
                (CmpOp::Le, y) if y == mask(u64::MAX, bits) => return Some(Simpler::Int(1)),
                _ => {}
            }
        }
        if self.body.ty(a) == Type::BOOL {
            match (op, y) {
                (CmpOp::Ne, 0) | (CmpOp::Eq, 1) => return Some(Simpler::Value(a)),
                (CmpOp::Eq, 0) | (CmpOp::Ne, 1) => return Some(Simpler::Op(Op::Un(UnOp::Not, a))),
                _ => {}
            }
        }
        self.narrowed(inst, op, a, y)
    }

    /// C compares a widened value with a constant: compare before widening, if the constant fits.
    /// The widened value is not negative in either type, so all orders stay.
    fn narrowed(&mut self, inst: InstId, op: CmpOp, a: ValueId, y: u64) -> Option<Simpler> {
        let (bits, _) = self.width(a)?;
        let Some(&Op::Cast(x)) = self.body.def_op(a) else { return None };
        let (inner_bits, inner_signed) = self.width(x)?;
        if inner_signed || inner_bits >= bits || mask(y, inner_bits) != y {
            return None;
        }
        let constant = self.int(inst, y, self.body.ty(x));
        Some(Simpler::Op(Op::Cmp(op, x, constant)))
    }

    fn un(&mut self, op: UnOp, a: ValueId) -> Option<Simpler> {
        let (bits, _) = self.width(a)?;
        if let Some(x) = self.known(a) {
            return Some(Simpler::Int(arith::un(op, bits, x)));
        }
        match self.body.def_op(a) {
            Some(&Op::Un(inner, x)) if inner == op && op.undoes_itself() => Some(Simpler::Value(x)),
            Some(&Op::Cmp(cmp, x, y)) if op == UnOp::Not => {
                Some(Simpler::Op(Op::Cmp(cmp.inverse(), x, y)))
            }
            _ => None,
        }
    }

    fn cast(&mut self, a: ValueId, ty: Type) -> Option<Simpler> {
        let (bits, signed) = self.width(a)?;
        let to = ty.bits()?;
        if let Some(x) = self.known(a) {
            return Some(Simpler::Int(arith::cast(x, bits, signed, to)));
        }
        if self.body.ty(a) == ty {
            return Some(Simpler::Value(a));
        }
        let Some(&Op::Cast(x)) = self.body.def_op(a) else { return None };
        let (first, first_signed) = self.width(x)?;
        // From `first` over `bits` to `to`: what the middle type adds or cuts must not show.
        let direct = if to <= bits {
            // The low bits of an extension are those of the value, and those of a cut are too.
            true
        } else if first > bits {
            false
        } else if first == bits {
            first_signed == signed
        } else {
            !first_signed || signed
        };
        direct.then_some(Simpler::Op(Op::Cast(x)))
    }

    fn select(
        &mut self,
        cond: ValueId,
        then: ValueId,
        other: ValueId,
        ty: Type,
    ) -> Option<Simpler> {
        match self.known(cond) {
            Some(0) => return Some(Simpler::Value(other)),
            Some(_) => return Some(Simpler::Value(then)),
            None if then == other => return Some(Simpler::Value(then)),
            None => {}
        }
        if let Some(&Op::Un(UnOp::Not, x)) = self.body.def_op(cond) {
            return Some(Simpler::Op(Op::Select { cond: x, then: other, other: then }));
        }
        let bits = ty.bits()?;
        match (self.known(then)?, self.known(other)?) {
            (1, 0) if ty == Type::BOOL => Some(Simpler::Value(cond)),
            (0, 1) if ty == Type::BOOL => Some(Simpler::Op(Op::Un(UnOp::Not, cond))),
            (1, 0) if bits > 1 => Some(Simpler::Op(Op::Cast(cond))),
            _ => None,
        }
    }
}
