//! Indices in the middle of an address, as in `int *row = rows[hash % 4]` and `&flows[n].sizes[i]`.
//! They are those of the pointer's declaration, whatever changes later: each that may change gets a
//! variable of its own in front of it.

use std::collections::HashSet;

use super::make::Fresh;
use super::shape::{is_pointer, is_unary};
use crate::ast::Node;

/// Gives them variables, in a function in which `changed` are assigned somewhere.
pub fn indices(node: &mut Node, changed: &HashSet<u64>, fresh: &mut Fresh) {
    node.inner.iter_mut().for_each(|child| indices(child, changed, fresh));
    if node.kind != "DeclStmt" {
        return;
    }
    let mut declared = Vec::new();
    for mut child in std::mem::take(&mut node.inner) {
        let is_local = !matches!(child.storage.as_str(), "static" | "extern");
        if child.kind == "VarDecl" && is_local && is_pointer(&child.ty) {
            let init = child.inner.iter_mut().find(|inner| !inner.kind.ends_with("Attr"));
            let mut hoisting = Hoisting { changed, fresh, found: &mut declared };
            init.into_iter().for_each(|init| hoisting.address(init));
        }
        declared.push(child);
    }
    node.inner = declared;
}

struct Hoisting<'h> {
    changed: &'h HashSet<u64>,
    fresh: &'h mut Fresh,
    found: &'h mut Vec<Node>,
}

impl Hoisting<'_> {
    /// The outermost index of an address is the pointer's own, and may change with it.
    fn address(&mut self, node: &mut Node) {
        let is_cast = node.kind.ends_with("CastExpr") && node.cast != "ArrayToPointerDecay";
        if is_cast || matches!(node.kind.as_str(), "ParenExpr" | "ConstantExpr") {
            return node.inner.iter_mut().for_each(|inner| self.address(inner));
        }
        let is_sum = node.kind == "BinaryOperator" && matches!(node.opcode.as_str(), "+" | "-");
        let is_address = is_unary(node, "&");
        let of = match &mut node.inner[..] {
            [left, right] if is_sum => {
                return self.address(if is_pointer(&right.ty) { right } else { left });
            }
            [place] if is_address => strip(place),
            _ => return self.place(node),
        };
        match &mut of.inner[..] {
            [base, _] if of.kind == "ArraySubscriptExpr" => self.address(base),
            _ => self.place(of),
        }
    }

    /// All indices of a place.
    fn place(&mut self, node: &mut Node) {
        match (node.kind.as_str(), &mut node.inner[..]) {
            ("ArraySubscriptExpr", [base, index]) => {
                self.place(base);
                if !index.ty.contains('*') && !self.is_fixed(index) {
                    self.hoist(index);
                }
            }
            ("MemberExpr" | "ParenExpr" | "ImplicitCastExpr" | "CStyleCastExpr", [inner]) => {
                self.place(inner);
            }
            _ => {}
        }
    }

    fn is_fixed(&self, index: &Node) -> bool {
        let mut fixed = true;
        index.walk(&mut |node| {
            fixed &= match node.kind.as_str() {
                "CallExpr" | "MemberExpr" | "ArraySubscriptExpr" | "StmtExpr" => false,
                "UnaryOperator" => !matches!(node.opcode.as_str(), "*" | "++" | "--"),
                _ => node.referenced.as_ref().is_none_or(|of| !self.changed.contains(&of.id)),
            };
        });
        fixed
    }

    fn hoist(&mut self, index: &mut Node) {
        let id = self.fresh.id();
        let name = self.fresh.name(index, id, "index");
        let read = self.fresh.value(Node { ty: index.ty.clone(), ..name });
        let value = std::mem::replace(index, read);
        self.found.push(Node {
            id,
            kind: "VarDecl".to_string(),
            name: "index".to_string(),
            span: value.span,
            name_span: value.span,
            ty: value.ty.clone(),
            inner: vec![value],
            ..Node::default()
        });
    }
}

fn strip(node: &mut Node) -> &mut Node {
    match node.kind.as_str() {
        "ParenExpr" | "ConstantExpr" if node.inner.len() == 1 => strip(&mut node.inner[0]),
        _ => node,
    }
}
