//! Strings: the bytes of literals, and arrays that they initialise.

use nicforge_ir::{ConstArray, Op, Proj, Type, ValueId};

use crate::ast::Node;
use crate::diagnostics::codes;
use crate::func::FnLower;
use crate::place::Place;
use crate::unit::Lowered;

/// The bytes of a C string literal as clang prints it, quotes included; without the zero at its end.
pub fn unescape(literal: &str) -> Vec<u8> {
    let inner = literal.split_once('"').map_or(literal, |(_, rest)| rest);
    let inner = inner.strip_suffix('"').unwrap_or(inner);
    let mut bytes = Vec::new();
    let mut chars = inner.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            bytes.extend(c.to_string().bytes());
            continue;
        }
        match chars.next() {
            Some('n') => bytes.push(b'\n'),
            Some('t') => bytes.push(b'\t'),
            Some('r') => bytes.push(b'\r'),
            Some('x') => {
                let mut value = 0u32;
                while let Some(digit) = chars.peek().and_then(|c| c.to_digit(16)) {
                    value = value * 16 + digit;
                    chars.next();
                }
                bytes.push(value as u8);
            }
            Some(digit @ '0'..='7') => {
                let mut value = digit.to_digit(8).unwrap_or(0);
                for _ in 0..2 {
                    let Some(digit) = chars.peek().and_then(|c| c.to_digit(8)) else { break };
                    value = value * 8 + digit;
                    chars.next();
                }
                bytes.push(value as u8);
            }
            Some(other) => bytes.extend(other.to_string().bytes()),
            None => {}
        }
    }
    bytes
}

/// The literal that an array is initialised with, in braces or without.
pub fn initialiser(node: &Node) -> Option<&Node> {
    let node = node.strip();
    match (node.kind.as_str(), &node.inner[..]) {
        ("StringLiteral", _) => Some(node),
        ("InitListExpr", [only]) if node.ty.ends_with(']') => {
            Some(only.strip()).filter(|only| only.kind == "StringLiteral" && only.ty == node.ty)
        }
        _ => None,
    }
}

impl FnLower<'_, '_, '_> {
    /// The constant array that a literal is, of type `ty`.
    pub fn text(&mut self, literal: &Node, ty: Type) -> Lowered<Place> {
        let elem = match ty {
            Type::Array(id) => self.unit.prog.arrays[id].elem,
            ty => ty,
        };
        if self.unit.size_of(elem) != 1 {
            let help = "write its characters as numbers: { 'a', 'b' }";
            let message = "a string of wide characters cannot be a value";
            return Err(self.refuse(codes::STRING, literal.span, message, help));
        }
        let mut bytes = unescape(literal.value.as_deref().unwrap_or_default());
        bytes.resize(self.unit.size_of(ty) as usize, 0);
        let same = |array: &ConstArray| array.elem == elem && array.bytes == bytes;
        if let Some((id, _)) = self.unit.prog.consts.iter().find(|(_, array)| same(array)) {
            return Ok(self.constant(id));
        }
        let is_taken = |name: &String| self.unit.prog.consts.values().any(|c| c.name == *name);
        let mut names = (1..).map(|number| format!("text_{number}"));
        let name = names.find(|name| !is_taken(name)).unwrap_or_default();
        let id = self.unit.prog.consts.push(ConstArray { name, elem, bytes, span: literal.span });
        Ok(self.constant(id))
    }

    /// An array of characters that begins with a literal's; the rest is zero.
    pub fn characters(&mut self, literal: &Node, ty: Type) -> Option<ValueId> {
        let Type::Array(id) = ty else { return None };
        let def = self.unit.prog.arrays[id];
        let bytes = unescape(literal.value.as_deref()?);
        if self.unit.size_of(def.elem) != 1 {
            return None;
        }
        Some(self.at(literal.span, |f| {
            let mut agg = f.zero(ty);
            for (number, byte) in (0..def.len).zip(bytes) {
                let index = f.b.int(number.into(), Type::U32);
                let value = f.b.int(byte.into(), def.elem);
                agg = f.op(Op::Set { agg, path: vec![Proj::Index(index)], value }, ty);
            }
            agg
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_literals_lose_their_escapes() {
        assert_eq!(unescape(r#""a \"b\"\n\x41\101\\\0""#), b"a \"b\"\nAA\\\0");
        assert_eq!(unescape(r#"u8"é""#), "é".as_bytes());
    }
}
