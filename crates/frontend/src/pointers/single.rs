//! Local arrays of one element, `struct state s[1];`, declared so to be passed without `&`: each
//! becomes the element.

use std::collections::HashMap;

use super::make::Fresh;
use super::shape::{pointee, unqualified, variable};
use crate::ast::Node;

/// Makes such arrays their elements, and `array->member` of others `array[0].member`.
pub fn resolve(root: &mut Node, fresh: &mut Fresh) {
    for function in root.inner.iter_mut().filter(|node| node.kind == "FunctionDecl") {
        let mut found = HashMap::new();
        function.walk(&mut |node| {
            if let Some(ty) = node.ty.strip_suffix("[1]")
                && node.kind == "VarDecl"
                && node.storage.is_empty()
                && pointee(ty).is_none()
                && !ty.ends_with(']')
                && node.inner.iter().all(is_single)
            {
                found.insert(node.id, ty.trim_end().to_string());
            }
        });
        // What is named otherwise than as a pointer stays an array.
        other_uses(function, &mut found);
        Rewriter { found, fresh }.node(function);
    }
}

/// True for the initialiser of an array of one element, as it is written.
fn is_single(init: &Node) -> bool {
    let init = init.strip();
    init.kind == "InitListExpr" && init.inner.len() == 1
}

fn other_uses(node: &Node, found: &mut HashMap<u64, String>) {
    if node.cast == "ArrayToPointerDecay" && variable(&node.inner[0]).is_some() {
        return;
    }
    if node.kind == "DeclRefExpr" {
        node.referenced.iter().for_each(|of| _ = found.remove(&of.id));
    }
    node.inner.iter().for_each(|child| other_uses(child, found));
}

struct Rewriter<'r> {
    found: HashMap<u64, String>,
    fresh: &'r mut Fresh,
}

impl Rewriter<'_> {
    /// The element that such an array is, where it is named as a pointer.
    fn whole(&self, pointer: &Node) -> Option<Node> {
        let pointer = unqualified(pointer);
        let array = pointer.inner.first().filter(|_| pointer.cast == "ArrayToPointerDecay")?;
        let ty = self.found.get(&variable(array)?.id)?;
        Some(Node { ty: ty.clone(), ..array.strip().clone() })
    }

    fn node(&mut self, node: &mut Node) {
        if let ("VarDecl", Some(ty)) = (node.kind.as_str(), self.found.get(&node.id)) {
            node.ty = ty.clone();
            node.inner.iter_mut().for_each(|init| *init = init.strip().inner[0].clone());
        }
        let is_zero = |index: &Node| index.strip_casts().value.as_deref() == Some("0");
        match (node.kind.as_str(), &node.inner[..]) {
            ("MemberExpr", [base]) if node.flags.arrow => {
                let pointer = unqualified(base).clone();
                if let Some(whole) = self.whole(&pointer) {
                    node.inner[0] = whole;
                    node.flags.arrow = false;
                } else if pointer.cast == "ArrayToPointerDecay" {
                    let zero = self.fresh.number(&pointer, 0, super::shape::INDEX);
                    node.inner[0] = self.fresh.element(&pointer.clone(), pointer, Some(zero));
                    node.flags.arrow = false;
                }
            }
            ("UnaryOperator", [pointer]) if node.opcode == "*" => {
                if let Some(whole) = self.whole(pointer) {
                    *node = Node { span: node.span, ..whole };
                }
            }
            ("ArraySubscriptExpr", [pointer, index]) if is_zero(index) => {
                if let Some(whole) = self.whole(pointer) {
                    *node = Node { span: node.span, ..whole };
                }
            }
            _ => {}
        }
        if node.cast == "ArrayToPointerDecay"
            && let Some(whole) = self.whole(node)
        {
            *node = self.fresh.address_of(node, whole);
        }
        node.inner.iter_mut().for_each(|child| self.node(child));
    }
}
