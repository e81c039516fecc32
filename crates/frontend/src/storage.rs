//! Variables of static storage duration in the tree: which declarations are one variable, which
//! variables change, and how they are kept.

use std::collections::{HashMap, HashSet};

use nicforge_ir::{ConstId, TableId, Type};

use crate::assigned::{assigned_decls, is_memory_function};
use crate::ast::Node;

/// A variable of static storage duration, or a part of it: elements in a table.
#[derive(Clone, Debug)]
pub struct Static {
    /// Dimensions of all arrays that its elements are in, outermost first.
    pub dims: Vec<u32>,
    /// Number of those, the last ones, that are arrays of its own.
    pub own: usize,
    /// The type of an element.
    pub element: Type,
    /// The table of the elements, or of what is left of them; none if nothing is.
    pub table: Option<(TableId, Begins)>,
    /// Members of an element, as they are kept; empty if they are together.
    pub members: Vec<Member>,
}

impl Static {
    /// The table that stands for the variable.
    pub fn first_table(&self) -> Option<TableId> {
        let of_members = self.members.iter().filter_map(|member| match member {
            Member::Apart(part) => part.first_table(),
            Member::Rest(_) => None,
        });
        self.table.map(|(table, _)| table).into_iter().chain(of_members).next()
    }
}

/// A member of a struct with long arrays.
#[derive(Clone, Debug)]
pub enum Member {
    /// In the table of what is left, by this number.
    Rest(u32),
    /// In a table of its own.
    Apart(Static),
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

/// Members that are arrays of which an element is taken by a number that varies, or which are
/// handed to a function.
pub fn indexed_members(root: &Node) -> HashSet<u64> {
    let mut found = HashSet::new();
    add_indexed(root, &mut found);
    found
}

fn add_indexed(node: &Node, found: &mut HashSet<u64>) {
    let quiet: &[Node] = match (node.kind.as_str(), &node.inner[..]) {
        ("UnaryExprOrTypeTraitExpr", _) => return,
        ("ArraySubscriptExpr", [base, index]) => {
            if index.strip_casts().kind == "IntegerLiteral" {
                std::slice::from_ref(base)
            } else {
                found.extend(array_member(base));
                &[]
            }
        }
        ("CallExpr", [_, args @ ..])
            if node.callee().is_some_and(|callee| is_memory_function(&callee.name)) =>
        {
            args
        }
        _ => &[],
    };
    let is_array = |node: &Node| node.kind == "MemberExpr" && node.ty.contains('[');
    found.extend(is_array(node).then_some(node.member));
    for child in &node.inner {
        let whole = child.strip_casts();
        let is_quiet = quiet.iter().any(|node| std::ptr::eq(node, child)) && is_array(whole);
        let inner = if is_quiet { &whole.inner[..] } else { std::slice::from_ref(child) };
        inner.iter().for_each(|node| add_indexed(node, found));
    }
}

/// The member that an array, or one of its rows, is.
fn array_member(node: &Node) -> Option<u64> {
    let node = node.strip_casts();
    match node.kind.as_str() {
        "MemberExpr" => Some(node.member),
        "ArraySubscriptExpr" => array_member(node.inner.first()?),
        _ => None,
    }
}
