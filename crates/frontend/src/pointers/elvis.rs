//! `a ?: b` of pointers: `a` goes to a variable, `p = a, p ? p : b`.

use super::make::Fresh;
use super::shape::is_pointer;
use crate::ast::Node;

/// Takes them out of a function.
pub fn resolve(function: &mut Node, fresh: &mut Fresh) {
    let mut declared = Vec::new();
    rewrite(function, &mut declared, fresh);
    fresh.declare(function, declared);
}

fn rewrite(node: &mut Node, declared: &mut Vec<Node>, fresh: &mut Fresh) {
    if node.kind != "BinaryConditionalOperator" || !is_pointer(&node.ty) {
        return node.inner.iter_mut().for_each(|child| rewrite(child, declared, fresh));
    }
    // Between both clang repeats the first.
    let (Some(mut last), Some(mut first)) = (node.inner.pop(), node.inner.drain(..).next()) else {
        return;
    };
    rewrite(&mut first, declared, fresh);
    rewrite(&mut last, declared, fresh);
    let id = fresh.id();
    declared.push(fresh.variable(node, id, &node.ty, None));
    let name = fresh.named(node, id, "first", &node.ty);
    let read = fresh.value(name.clone());
    let cond = fresh.compared_with_null(read.clone(), "!=");
    let set = fresh.assign(name, first);
    let choice = fresh.conditional(cond, read, last);
    *node = fresh.comma(set, choice);
}
