//! Addresses that are counted with as integers, as `(T *)((uintptr_t)p + n)`: they are pointers to
//! bytes.

use super::make::Fresh;
use super::shape::{element_type, is_pointer};
use crate::ast::Node;

/// Makes them so.
pub fn as_pointers(node: &mut Node, fresh: &mut Fresh) {
    node.inner.iter_mut().for_each(|child| as_pointers(child, fresh));
    if node.cast != "IntegralToPointer" || !is_pointer(&node.ty) {
        return;
    }
    let sum = value(&node.inner[0]);
    if let Some(pointer) = address(sum) {
        *node = fresh.reinterpreted(pointer.clone(), &node.ty);
        return;
    }
    let [left, right] = &sum.inner[..] else { return };
    let (pointer, more) = match (sum.opcode.as_str(), address(left), address(right)) {
        ("+" | "-", Some(pointer), None) => (pointer, right),
        ("+", None, Some(pointer)) => (pointer, left),
        _ => return,
    };
    let ty = if element_type(&pointer.ty).contains("const ") { "const void *" } else { "void *" };
    let bytes = fresh.reinterpreted(pointer.clone(), ty);
    let moved = fresh.binary(node, &sum.opcode, ty, vec![bytes, more.clone()]);
    *node = fresh.reinterpreted(moved, &node.ty);
}

/// An integer without conversions.
fn value(node: &Node) -> &Node {
    let mut node = node.strip();
    while node.cast == "IntegralCast" || node.cast == "NoOp" {
        node = node.inner[0].strip();
    }
    node
}

/// The pointer whose address an integer is.
fn address(node: &Node) -> Option<&Node> {
    let node = value(node);
    node.inner.first().filter(|pointer| node.cast == "PointerToIntegral" && is_pointer(&pointer.ty))
}
