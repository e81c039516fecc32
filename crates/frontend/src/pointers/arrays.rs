//! Arrays of pointers that nothing changes: of strings they become arrays of arrays, and an element
//! of others a choice between what they are initialised with.

use std::collections::{HashMap, HashSet};

use super::make::Fresh;
use super::shape::{INDEX, is_pointer, variable};
use crate::ast::Node;
use crate::effects::is_pure;

/// Most elements that are chosen between.
const MOST: usize = 16;

/// Takes them out of a file.
pub fn resolve(root: &mut Node, fresh: &mut Fresh) {
    let mut arrays = HashMap::new();
    root.walk(&mut |node| {
        arrays.extend(Array::of(node).map(|array| (node.id, array)));
    });
    if arrays.is_empty() {
        return;
    }
    let mut named = HashSet::new();
    other_uses(root, &arrays, &mut named);
    arrays.retain(|id, _| !named.contains(id));
    rewrite(root, &arrays, fresh);
}

/// An array of pointers.
struct Array {
    elements: Vec<Node>,
    /// Bytes of the longest string, with its end, if all are strings.
    longest: Option<usize>,
}

impl Array {
    fn of(node: &Node) -> Option<Array> {
        let (element, _) = node.ty.strip_suffix(']')?.rsplit_once('[')?;
        let init = node.inner.iter().find(|of| !of.kind.ends_with("Attr"))?.strip();
        let is_array = node.kind == "VarDecl" && is_pointer(element);
        if !is_array || init.kind != "InitListExpr" || init.flags.has_filler {
            return None;
        }
        let lengths: Option<Vec<usize>> = init.inner.iter().map(string_length).collect();
        let longest = lengths.and_then(|lengths| lengths.into_iter().max());
        let elements = init.inner.clone();
        let is_short = elements.len() <= MOST && elements.iter().all(is_pure);
        (longest.is_some() || is_short).then_some(Array { elements, longest })
    }
}

/// The bytes of a string, with its end.
fn string_length(node: &Node) -> Option<usize> {
    let string = string(node)?;
    string.ty.rsplit_once('[')?.1.strip_suffix(']')?.parse().ok()
}

fn string(node: &Node) -> Option<&Node> {
    let node = node.strip_casts();
    (node.kind == "StringLiteral").then_some(node)
}

/// The array and the index that a pointer is read from.
fn element(node: &Node) -> Option<(u64, &Node)> {
    let place = node.inner.first().filter(|_| node.cast == "LValueToRValue")?.strip();
    let [base, index] = &place.inner[..] else { return None };
    let array = base.strip();
    let decays = array.cast == "ArrayToPointerDecay";
    let id = variable(array.inner.first().filter(|_| decays)?)?.id;
    (place.kind == "ArraySubscriptExpr").then_some((id, index))
}

/// Finds the arrays that are used in other ways than by reading elements.
fn other_uses(node: &Node, arrays: &HashMap<u64, Array>, found: &mut HashSet<u64>) {
    if node.kind == "UnaryExprOrTypeTraitExpr" {
        return;
    }
    if let Some((id, index)) = element(node).filter(|(id, _)| arrays.contains_key(id)) {
        found.extend((arrays[&id].longest.is_none() && !is_pure(index)).then_some(id));
        return other_uses(index, arrays, found);
    }
    found.extend(node.referenced.as_ref().map(|of| of.id).filter(|id| arrays.contains_key(id)));
    node.inner.iter().for_each(|child| other_uses(child, arrays, found));
}

fn rewrite(node: &mut Node, arrays: &HashMap<u64, Array>, fresh: &mut Fresh) {
    node.inner.iter_mut().for_each(|child| rewrite(child, arrays, fresh));
    if let Some(array) = arrays.get(&node.id).filter(|_| node.kind == "VarDecl") {
        match array.longest {
            Some(longest) => declare_strings(node, longest),
            None => {
                node.kind = "EmptyDecl".to_string();
                node.inner.clear();
            }
        }
        return;
    }
    let Some((array, index)) =
        element(node).and_then(|(id, index)| Some((arrays.get(&id)?, index)))
    else {
        return;
    };
    if let Some(longest) = array.longest {
        let row = format!("const char[{longest}]");
        let place = node.inner[0].strip().clone();
        let mut base = place.inner[0].strip().clone();
        let all = format!("const char[{}][{longest}]", array.elements.len());
        base.inner[0] = Node { ty: all, ..base.inner[0].strip().clone() };
        base.ty = format!("const char (*)[{longest}]");
        let inner = vec![base, index.clone()];
        node.inner = vec![Node { ty: row, inner, ..place }];
        node.cast = "ArrayToPointerDecay".to_string();
        return;
    }
    let (index, ty) = (index.clone(), node.ty.clone());
    let elements: Vec<Node> =
        array.elements.iter().map(|of| Node { ty: ty.clone(), ..of.clone() }).collect();
    let mut numbered = elements.into_iter().enumerate().rev();
    let Some((_, last)) = numbered.next() else { return };
    *node = numbered.fold(last, |last, (number, element)| {
        let number = fresh.number(&index, number as u64, INDEX);
        let at = fresh.cast(index.clone(), INDEX);
        let cond = fresh.binary(&index, "==", "int", vec![at, number]);
        fresh.conditional(cond, element, last)
    });
}

/// Makes an array of pointers to strings one of strings.
fn declare_strings(node: &mut Node, longest: usize) {
    let Some(list) = node.inner.iter_mut().find(|of| !of.kind.ends_with("Attr")) else { return };
    let row = format!("char[{longest}]");
    for element in &mut list.inner {
        if let Some(string) = string(element).cloned() {
            *element = Node { ty: row.clone(), ..string };
        }
    }
    node.ty = format!("const char[{}][{longest}]", list.inner.len());
    list.ty = node.ty.clone();
}
