//! Variables of static storage duration in the tree: which declarations are one variable, which
//! variables change, and how they are kept.

use std::collections::{HashMap, HashSet};

use nicforge_ir::ConstId;

use crate::assigned::assigned_decls;
use crate::ast::Node;

/// A variable of static storage duration, which is a table.
#[derive(Clone, Debug)]
pub struct Static {
    /// Dimensions of the array that it is, outermost first.
    pub dims: Vec<u32>,
    pub begins: Begins,
}

/// Numbers that a variable begins with.
#[derive(Clone, Copy, Debug)]
pub enum Begins {
    Zero,
    With(u64),
    /// By entry.
    Elements(ConstId),
}

/// Makes all declarations of a variable outside functions its definition.
pub fn unite(root: &mut Node) {
    let mut declared: HashMap<&str, Vec<&Node>> = HashMap::new();
    for node in root.inner.iter().filter(|node| node.kind == "VarDecl") {
        declared.entry(&node.name).or_default().push(node);
    }
    let begins = |node: &Node| node.inner.iter().any(|child| !child.kind.ends_with("Attr"));
    let mut definitions = HashMap::new();
    for (name, nodes) in declared {
        let defined = nodes.iter().filter(|node| node.storage != "extern");
        if let Some(definition) = defined.max_by_key(|node| begins(node)) {
            definitions.insert(name.to_string(), definition.id);
        }
    }
    let mut of = HashMap::new();
    root.walk(&mut |node| {
        let is_other = |id: &&u64| **id != node.id;
        let outside = || root.inner.iter().any(|other| other.id == node.id);
        if node.kind == "VarDecl"
            && let Some(id) = definitions.get(&node.name).filter(is_other)
            && (node.storage == "extern" || outside())
        {
            of.insert(node.id, *id);
        }
    });
    if !of.is_empty() {
        redirect(root, &of);
    }
}

/// Takes declarations away, and lets what names them name others.
fn redirect(node: &mut Node, to: &HashMap<u64, u64>) {
    node.inner.retain(|child| !to.contains_key(&child.id));
    if let Some(named) = &mut node.referenced {
        named.id = to.get(&named.id).copied().unwrap_or(named.id);
    }
    node.inner.iter_mut().for_each(|child| redirect(child, to));
}

/// Variables of static storage duration that something changes: any function that is called may.
pub fn changing(root: &Node) -> HashSet<u64> {
    let mut found: HashSet<u64> =
        root.inner.iter().filter(|node| node.kind == "VarDecl").map(|node| node.id).collect();
    let mut changed = HashSet::new();
    root.walk(&mut |node| {
        found.extend((node.kind == "VarDecl" && node.storage == "static").then_some(node.id));
    });
    assigned_decls(root, &mut changed);
    found.retain(|id| changed.contains(id));
    found
}
