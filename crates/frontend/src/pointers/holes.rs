//! Addresses without their indices: what is left says whether two lead to the same place but for
//! those.

use super::make::Fresh;
use super::shape::{is_address_type, variable};
use crate::ast::Node;

/// The kind of a node that stands where an index was taken out.
const HOLE: &str = "Hole";

/// Takes the indices out of an address; nothing if it is not seen where it leads.
pub fn take_indices(address: &mut Node) -> Option<Vec<Node>> {
    let mut found = Vec::new();
    let hole = || Node { kind: HOLE.to_string(), ..Node::default() };
    indices_of(address, &mut |index| found.push(std::mem::replace(index, hole())))?;
    Some(found)
}

/// Puts something in the place of each index that was taken out.
pub fn fill_indices(
    address: &mut Node,
    fresh: &mut Fresh,
    make: &mut dyn FnMut(&mut Fresh) -> Node,
) {
    if address.kind == HOLE {
        *address = make(fresh);
        return;
    }
    address.inner.iter_mut().for_each(|child| fill_indices(child, fresh, make));
}

/// Visits the indices of an address that are not constant.
fn indices_of(node: &mut Node, visit: &mut dyn FnMut(&mut Node)) -> Option<()> {
    match (node.kind.as_str(), &mut node.inner[..]) {
        ("DeclRefExpr", _) => {
            let of = node.referenced.as_ref()?;
            matches!(of.kind.as_str(), "VarDecl" | "ParmVarDecl").then_some(())
        }
        ("StringLiteral", _) => Some(()),
        ("ImplicitCastExpr", [place]) if node.cast == "LValueToRValue" => {
            variable(place).filter(|of| of.kind == "ParmVarDecl").map(|_| ())
        }
        ("ImplicitCastExpr" | "CStyleCastExpr", [inner])
            if matches!(node.cast.as_str(), "NoOp" | "BitCast" | "ArrayToPointerDecay") =>
        {
            indices_of(inner, visit)
        }
        ("ParenExpr" | "ConstantExpr" | "MemberExpr", [inner]) => indices_of(inner, visit),
        ("UnaryOperator", [inner]) if matches!(node.opcode.as_str(), "&" | "*") => {
            indices_of(inner, visit)
        }
        ("ArraySubscriptExpr", [left, right]) => {
            let left_first = is_address_type(&left.ty);
            let (base, index) = if left_first { (left, right) } else { (right, left) };
            indices_of(base, visit)?;
            if index.strip_casts().kind != "IntegerLiteral" {
                visit(index);
            }
            Some(())
        }
        _ => None,
    }
}
