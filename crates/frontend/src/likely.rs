//! Probabilities of conditions, from NF_LIKELY and clang's builtins behind it.

use crate::ast::Node;

impl crate::func::FnLower<'_, '_, '_> {
    /// The probability NF_LIKELY gives a condition.
    pub fn likely(&self, node: &Node) -> Option<f32> {
        let node = node.strip();
        if let Some(p) = likely_of(node) {
            return Some(p);
        }
        let inverted = |p: f32| 1.0 - p;
        match node.kind.as_str() {
            "BinaryOperator" if node.opcode == "!=" && is_zero(node.inner.get(1)?) => {
                self.likely(node.inner.first()?)
            }
            "UnaryOperator" if node.opcode == "!" => self.likely(node.inner.first()?).map(inverted),
            "ImplicitCastExpr" => self.likely(node.inner.first()?),
            _ => None,
        }
    }
}

fn is_zero(node: &Node) -> bool {
    node.strip_casts().value.as_deref() == Some("0")
}

/// The probability of truth that `__builtin_expect(x, c)` or `__builtin_expect_with_probability(x,
/// c, p)` states.
pub fn likely_of(node: &Node) -> Option<f32> {
    let name = &node.callee()?.name;
    let expected = match node.inner.get(2)?.strip_casts().value.as_deref()? {
        "0" => false,
        "1" => true,
        _ => return None,
    };
    let p: f32 = match name.as_str() {
        // What clang itself assumes (LikelyBranchWeight 2000 to 1).
        "__builtin_expect" => 2000.0 / 2001.0,
        "__builtin_expect_with_probability" => {
            node.inner.get(3)?.strip_casts().value.as_deref()?.parse().ok()?
        }
        _ => return None,
    };
    Some(if expected { p } else { 1.0 - p })
}
