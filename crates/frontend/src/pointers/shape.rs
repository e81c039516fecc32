//! Expressions for addresses: `base` or `&base[index]`.

use crate::ast::{Node, Referenced};

/// The type of indices that stand for pointers.
pub const INDEX: &str = "unsigned int";

/// True for `struct t *`, `const char *const`; packets are no memory.
pub fn is_pointer(ty: &str) -> bool {
    pointee(ty).is_some_and(|to| !to.contains(['*', '(']) && !to.contains("nf_packet"))
}

/// The type that a pointer type leads to, as clang spells it.
pub fn pointee(ty: &str) -> Option<&str> {
    let mut base = ty.trim_end();
    for qualifier in ["const", "restrict", "__restrict", "volatile"] {
        base = base.strip_suffix(qualifier).unwrap_or(base).trim_end();
    }
    base.strip_suffix('*').map(str::trim_end)
}

/// The type of what a pointer leads to; of `void` its bytes.
pub fn element_type(ty: &str) -> String {
    match pointee(ty).unwrap_or(ty) {
        "void" => "unsigned char".to_string(),
        "const void" => "const unsigned char".to_string(),
        to => to.to_string(),
    }
}

/// The variable that an expression names.
pub fn variable(node: &Node) -> Option<&Referenced> {
    let named = node.strip().referenced.as_ref();
    named.filter(|of| matches!(of.kind.as_str(), "VarDecl" | "ParmVarDecl"))
}

/// The variable whose value an expression is.
pub fn variable_read(node: &Node) -> Option<u64> {
    let node = node.strip();
    let read = node.kind == "ImplicitCastExpr" && node.cast == "LValueToRValue";
    variable(node.inner.first().filter(|_| read)?).map(|of| of.id)
}

/// An address without the conversions that only add or take away qualifiers.
pub fn unqualified(node: &Node) -> &Node {
    let mut node = node.strip();
    while node.kind.ends_with("CastExpr") && keeps_type(node) {
        node = node.inner[0].strip();
    }
    node
}

/// True for a conversion that only adds or takes away qualifiers; what `void *` leads to are bytes.
fn keeps_type(cast: &Node) -> bool {
    let bare = |node: &Node| {
        let words = pointee(&node.ty)?.split_whitespace().filter(|word| *word != "const");
        let bare = words.collect::<Vec<_>>().join(" ");
        Some(match bare.as_str() {
            "void" | "uint8_t" => "unsigned char".to_string(),
            _ => bare,
        })
    };
    match cast.cast.as_str() {
        "NoOp" => true,
        "BitCast" => bare(cast).is_some() && bare(cast) == bare(&cast.inner[0]),
        _ => false,
    }
}

/// Base and index of `&base[index]`; of another address itself.
pub fn split(node: &Node) -> (&Node, Option<&Node>) {
    let node = unqualified(node);
    let place = node.inner.first().filter(|_| is_unary(node, "&")).map(Node::strip);
    match place.map(|place| (place.kind.as_str(), &place.inner[..])) {
        Some(("ArraySubscriptExpr", [base, index])) if !is_integer(base) => (base, Some(index)),
        _ => (node, None),
    }
}

/// The variable that an address leads into; nothing if a pointer says which.
pub fn object(address: &Node) -> Option<u64> {
    let node = address.strip();
    match (node.kind.as_str(), &node.inner[..]) {
        ("DeclRefExpr", _) => variable(node).filter(|_| !is_pointer(&node.ty)).map(|of| of.id),
        ("ImplicitCastExpr" | "CStyleCastExpr", [inner]) if node.cast != "LValueToRValue" => {
            object(inner)
        }
        ("MemberExpr" | "UnaryOperator", [inner]) => object(inner),
        ("ArraySubscriptExpr", [left, right]) => {
            object(if is_address_type(&left.ty) { left } else { right })
        }
        _ => None,
    }
}

/// True for the type of a pointer or of an array.
pub fn is_address_type(ty: &str) -> bool {
    ty.contains(['*', '['])
}

/// The node at the end of a way: numbers of children.
pub fn follow<'n>(node: &'n Node, way: &[usize]) -> &'n Node {
    way.iter().fold(node, |node, number| &node.inner[*number])
}

/// That node, to change it.
pub fn follow_mut<'n>(node: &'n mut Node, way: &[usize]) -> &'n mut Node {
    way.iter().fold(node, |node, number| &mut node.inner[*number])
}

pub fn is_unary(node: &Node, opcode: &str) -> bool {
    node.kind == "UnaryOperator" && node.opcode == opcode
}

fn is_integer(node: &Node) -> bool {
    !is_address_type(&node.ty)
}

/// True if two addresses are written alike.
pub fn same(a: &Node, b: &Node) -> bool {
    let (a, b) = (unqualified(a), unqualified(b));
    let id = |node: &Node| node.referenced.as_ref().map(|of| of.id);
    let own = |node: &Node| (id(node), node.member, node.flags.arrow);
    let text = |node: &'_ Node| (node.kind.clone(), node.opcode.clone(), node.cast.clone());
    (own(a), text(a), &a.value) == (own(b), text(b), &b.value)
        && (a.kind != "CStyleCastExpr" || a.ty == b.ty)
        && a.inner.len() == b.inner.len()
        && a.inner.iter().zip(&b.inner).all(|(a, b)| same(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointer_types_lose_their_qualifiers() {
        assert!(is_pointer("const uint8_t *restrict"));
        assert!(!is_pointer("uint8_t **"));
        assert!(!is_pointer("struct nf_packet *"));
        assert_eq!(element_type("const struct s *const"), "const struct s");
        assert_eq!(element_type("void *"), "unsigned char");
    }
}
