//! Variables that source may change.

use std::collections::HashSet;

use crate::ast::Node;

/// Collects the declarations that the source below `node` may change: assignments, increments, and
/// whatever is handed over by pointer.
pub fn assigned_decls(node: &Node, found: &mut HashSet<u64>) {
    node.walk(&mut |n| {
        let target = match n.kind.as_str() {
            "BinaryOperator" if n.opcode == "=" => n.inner.first(),
            "CompoundAssignOperator" => n.inner.first(),
            "UnaryOperator" if matches!(n.opcode.as_str(), "++" | "--" | "&") => n.inner.first(),
            // A pointer parameter handed on.
            "CallExpr" => {
                n.inner.iter().skip(1).filter(|arg| arg.ty.ends_with('*')).for_each(|arg| {
                    found.extend(root_decl(arg));
                });
                None
            }
            _ => None,
        };
        if let Some(target) = target {
            found.extend(root_decl(target));
        }
    });
}

/// The variable a place expression is a part of.
pub fn root_decl(node: &Node) -> Option<u64> {
    let node = node.strip_casts();
    match node.kind.as_str() {
        "DeclRefExpr" => node.referenced.as_ref().map(|r| r.id),
        "MemberExpr" | "ArraySubscriptExpr" => root_decl(node.inner.first()?),
        "UnaryOperator" if matches!(node.opcode.as_str(), "*" | "&") => {
            root_decl(node.inner.first()?)
        }
        "CStyleCastExpr" => root_decl(node.inner.first()?),
        // An array from an element on.
        "BinaryOperator" if node.opcode == "+" => root_decl(node.inner.first()?),
        _ => None,
    }
}

/// True for functions that copy, set and compare memory.
pub fn is_memory_function(name: &str) -> bool {
    let name = name.strip_prefix("__builtin_").unwrap_or(name);
    matches!(name, "memcpy" | "memmove" | "memset" | "memcmp")
}
