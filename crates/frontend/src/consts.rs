//! Constant expressions and constant initialisers.
//!
//! Values are mathematical integers, wrapped to their C type after every step, so that no step can
//! overflow.

use nicforge_ir::Type;

use crate::ast::Node;
use crate::ctypes::CType;
use crate::diagnostics::codes;
use crate::strings;
use crate::unit::{Failed, Global, Lowered, Unit};

/// The value of an integer type that is congruent to `value`.
pub fn wrap(value: i128, bits: u8, signed: bool) -> i128 {
    let modulus = 1i128 << bits;
    let low = value.rem_euclid(modulus);
    if signed && low >= modulus / 2 { low - modulus } else { low }
}

/// Smallest and largest value of an integer type.
pub fn limits(bits: u8, signed: bool) -> (i128, i128) {
    if signed {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    } else {
        (0, (1i128 << bits) - 1)
    }
}

impl<'a> Unit<'a> {
    /// The value of a constant integer expression, if it is one.
    pub fn eval(&mut self, node: &Node) -> Option<i128> {
        // Every level of an expression is asked; remembering the answer keeps that linear.
        if self.not_constant.contains(&node.id) {
            return None;
        }
        let value = self.eval_raw(node).and_then(|value| match self.ctype(&node.ty) {
            CType::Int { bits, signed, .. } => Some(wrap(value, bits, signed)),
            _ => None,
        });
        if value.is_none() && node.id != 0 {
            self.not_constant.insert(node.id);
        }
        value
    }

    fn eval_raw(&mut self, node: &Node) -> Option<i128> {
        match node.kind.as_str() {
            "IntegerLiteral" | "CharacterLiteral" => node.value.as_ref()?.parse().ok(),
            "ConstantExpr" => match node.value.as_ref().and_then(|v| v.parse().ok()) {
                Some(value) => Some(value),
                None => self.eval(node.inner.first()?),
            },
            "ParenExpr" | "OpaqueValueExpr" => self.eval(node.inner.first()?),
            "ImplicitCastExpr" | "CStyleCastExpr" => {
                let inner = node.inner.first()?;
                match node.cast.as_str() {
                    "IntegralCast" | "NoOp" | "NonAtomicToAtomic" | "AtomicToNonAtomic" => {
                        self.eval(inner)
                    }
                    "IntegralToBoolean" => self.eval(inner).map(|v| (v != 0).into()),
                    "LValueToRValue" => self.eval_object(inner),
                    _ => None,
                }
            }
            // Calls are inlined, so much is; what stands there for others is often assembly.
            "CallExpr" if node.callee()?.name == "__builtin_constant_p" => Some(1),
            "DeclRefExpr" => {
                let referenced = node.referenced.as_ref()?;
                self.index.enumerators.get(&referenced.id).copied()
            }
            "UnaryOperator" => {
                let value = |unit: &mut Self| unit.eval(node.inner.first()?);
                match node.opcode.as_str() {
                    "-" => value(self).map(|v| -v),
                    "+" | "__extension__" => value(self),
                    "~" => value(self).map(|v| !v),
                    "!" => value(self).map(|v| (v == 0).into()),
                    _ => None,
                }
            }
            "BinaryOperator" => self.eval_binary(node),
            "ConditionalOperator" => {
                let cond = self.eval(node.inner.first()?)?;
                self.eval(node.inner.get(if cond != 0 { 1 } else { 2 })?)
            }
            "UnaryExprOrTypeTraitExpr" if node.name == "sizeof" => {
                let text =
                    if node.arg_ty.is_empty() { &node.inner.first()?.ty } else { &node.arg_ty };
                let ty = self.ctype(text);
                self.eval_size_of(&ty)
            }
            "OffsetOfExpr" => self.eval_offset_of(node),
            _ => None,
        }
    }

    /// The bytes that a type has in plain C.
    fn eval_size_of(&mut self, ty: &CType) -> Option<i128> {
        match ty {
            CType::Pointer { .. } => Some(8),
            CType::Array(of, len) if matches!(**of, CType::Pointer { .. } | CType::Array(..)) => {
                Some(self.eval_size_of(of)? * i128::from(*len))
            }
            ty => {
                let ty = self.ir_type(ty)?;
                Some(self.size_of(ty).into())
            }
        }
    }

    fn eval_object(&mut self, node: &Node) -> Option<i128> {
        let referenced = node.strip().referenced.as_ref()?;
        match self.globals.get(&referenced.id) {
            Some(Global::ConstInt(value)) => Some(*value),
            _ => None,
        }
    }

    fn eval_binary(&mut self, node: &Node) -> Option<i128> {
        let [left, right] = &node.inner[..] else { return None };
        let a = self.eval(left)?;
        match node.opcode.as_str() {
            "&&" if a == 0 => return Some(0),
            "||" if a != 0 => return Some(1),
            _ => {}
        }
        let b = self.eval(right)?;
        let CType::Int { bits, signed, .. } = self.ctype(&left.ty) else { return None };
        let fill = if signed && a < 0 { -1 } else { 0 };
        Some(match node.opcode.as_str() {
            "+" => a + b,
            "-" => a - b,
            "*" => a.checked_mul(b)?,
            "/" => a.checked_div(b).unwrap_or(0),
            "%" => a.checked_rem(b).unwrap_or(a),
            "&" => a & b,
            "|" => a | b,
            "^" => a ^ b,
            "<<" if (0..bits.into()).contains(&b) => wrap(a, bits, false) << b,
            "<<" => 0,
            ">>" if (0..bits.into()).contains(&b) => a >> b,
            ">>" => fill,
            "==" => (a == b).into(),
            "!=" => (a != b).into(),
            "<" => (a < b).into(),
            "<=" => (a <= b).into(),
            ">" => (a > b).into(),
            ">=" => (a >= b).into(),
            "&&" | "||" => (b != 0).into(),
            _ => return None,
        })
    }

    /// `offsetof(type, member)`: clang's JSON leaves the operands out, so they are read from the
    /// source text.
    fn eval_offset_of(&mut self, node: &Node) -> Option<i128> {
        let file = &self.prog.files[node.span.file?];
        let rest = file.text.get(node.span.start as usize..)?;
        let (_, rest) = rest.split_once('(')?;
        let (arguments, _) = rest.split_once(')')?;
        let (ty, path) = arguments.split_once(',')?;
        let (ty, path) = (ty.trim().to_string(), path.trim().to_string());
        let mut ty = self.ctype(&ty);
        let mut bits = 0i128;
        for step in path.split('.') {
            let CType::Struct(id) = ty else { return None };
            let number = self.prog.structs[id].fields.iter().position(|f| f.name == step.trim())?;
            let field = &self.prog.structs[id].fields[number];
            bits += i128::from(self.prog.struct_layout(id).1[number].bit_offset);
            ty = match field.ty {
                Type::Struct(inner) => CType::Struct(inner),
                _ => CType::Void,
            };
        }
        Some(bits / 8)
    }

    /// The bytes of a constant initialiser of type `ty`.
    ///
    /// # Errors
    /// Reports parts that are not constant.
    pub fn init_bytes(&mut self, node: &Node, ty: Type) -> Lowered<Vec<u8>> {
        let mut bytes = vec![0; self.size_of(ty) as usize];
        self.init_at(node, ty, &mut bytes, 0, None)?;
        Ok(bytes)
    }

    fn init_at(
        &mut self,
        node: &Node,
        ty: Type,
        bytes: &mut [u8],
        bit: usize,
        width: Option<u8>,
    ) -> Lowered<()> {
        let node = node.strip();
        if let (Type::Array(id), Some(literal)) = (ty, strings::initialiser(node))
            && self.size_of(self.prog.arrays[id].elem) == 1
        {
            let text = strings::unescape(literal.value.as_deref().unwrap_or_default());
            for (to, byte) in bytes[bit / 8..][..self.size_of(ty) as usize].iter_mut().zip(text) {
                *to = byte;
            }
            return Ok(());
        }
        match (ty, node.kind.as_str()) {
            (_, "ImplicitValueInitExpr") => Ok(()),
            (_, "CompoundLiteralExpr") if !node.inner.is_empty() => {
                self.init_at(&node.inner[0], ty, bytes, bit, width)
            }
            (_, "ImplicitCastExpr") if ty.is_aggregate() && !node.inner.is_empty() => {
                self.init_at(&node.inner[0], ty, bytes, bit, width)
            }
            (Type::Struct(_), "InitListExpr")
                if let Some(over) = self.lies_over.get(&node.member) =>
            {
                let ty = over.ty;
                node.inner.first().map_or(Ok(()), |first| self.init_at(first, ty, bytes, bit, None))
            }
            (Type::Struct(id), "InitListExpr") => {
                let slots = self.prog.struct_layout(id).1;
                let fields = self.prog.structs[id].fields.clone();
                // Initialisers skip unnamed bit-fields.
                let named = fields.iter().zip(slots).filter(|(f, _)| !f.is_padding());
                for (child, (field, slot)) in node.inner.iter().zip(named) {
                    self.init_at(
                        child,
                        field.ty,
                        bytes,
                        bit + slot.bit_offset as usize,
                        field.bit_width,
                    )?;
                }
                Ok(())
            }
            (Type::Array(id), "InitListExpr") => {
                let elem = self.prog.arrays[id].elem;
                let stride = self.size_of(elem) as usize * 8;
                for (number, child) in
                    node.inner.iter().skip(node.flags.has_filler.into()).enumerate()
                {
                    self.init_at(child, elem, bytes, bit + number * stride, None)?;
                }
                Ok(())
            }
            (Type::Int { bits, .. }, _) => {
                let Some(value) = self.eval(node) else {
                    return Err(self.refuse_initialiser(node));
                };
                let size = if bits == 1 { 1 } else { bits };
                put_bits(bytes, bit, width.unwrap_or(size), value as u64);
                Ok(())
            }
            _ => Err(self.refuse_initialiser(node)),
        }
    }

    fn refuse_initialiser(&mut self, node: &Node) -> Failed {
        if node.kind == "StringLiteral" {
            let help = "write the characters as numbers: { 'a', 'b' }";
            return self.refuse(codes::STRING, node.span, "a string cannot be a value", help);
        }
        let help = "write constants; what changes belongs into a table (NF_TABLE)";
        self.refuse(codes::CONST_INIT, node.span, "this initialiser is not constant", help)
    }
}

fn put_bits(bytes: &mut [u8], at: usize, width: u8, value: u64) {
    for bit in 0..usize::from(width) {
        if value >> bit & 1 == 1 {
            bytes[(at + bit) / 8] |= 1 << ((at + bit) % 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapping_follows_twos_complement() {
        assert_eq!(wrap(300, 8, false), 44);
        assert_eq!(wrap(200, 8, true), -56);
        assert_eq!(wrap(-1, 64, false), u64::MAX.into());
        assert_eq!(wrap(3, 1, false), 1);
    }

    #[test]
    fn bits_are_put_least_significant_first() {
        let mut bytes = [0; 2];
        put_bits(&mut bytes, 4, 8, 0xa5);
        assert_eq!(bytes, [0x50, 0x0a]);
    }
}
