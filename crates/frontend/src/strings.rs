//! Strings: the bytes of literals.

use crate::ast::Node;

/// The bytes of a C string literal as clang prints it, quotes included; without the zero behind.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_literals_lose_their_escapes() {
        assert_eq!(unescape(r#""a \"b\"\n\x41\101\\\0""#), b"a \"b\"\nAA\\\0");
        assert_eq!(unescape(r#"u8"é""#), "é".as_bytes());
    }
}
