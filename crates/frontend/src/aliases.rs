//! Pointers that are names for one place: variables which are set where they are declared, to the
//! address of something that does not depend on other variables, and never again. They are taken
//! out of the tree, so that nobody behind has to know of them.

use std::collections::{HashMap, HashSet};

use crate::ast::Node;

/// Puts what pointers point to in the place of the pointers.
pub fn resolve(root: &mut Node) {
    let functions = |node: &&mut Node| node.kind == "FunctionDecl" && node.has("CompoundStmt");
    for function in root.inner.iter_mut().filter(functions) {
        let changed = changed_in(function);
        Resolver { changed, known: HashMap::new() }.node(function);
    }
}

/// Variables that are assigned, or whose own address is taken.
fn changed_in(function: &Node) -> HashSet<u64> {
    let mut found = HashSet::new();
    function.walk(&mut |node| {
        let changes = match node.kind.as_str() {
            "BinaryOperator" => node.opcode == "=",
            "CompoundAssignOperator" => true,
            "UnaryOperator" => matches!(node.opcode.as_str(), "++" | "--" | "&"),
            _ => false,
        };
        let target = node.inner.first().map(Node::strip).and_then(|node| node.referenced.as_ref());
        if let (true, Some(variable)) = (changes, target) {
            found.insert(variable.id);
        }
    });
    found
}

struct Resolver {
    changed: HashSet<u64>,
    /// Initialisers by declaration.
    known: HashMap<u64, Node>,
}

impl Resolver {
    fn node(&mut self, node: &mut Node) {
        let pointer = variable_read(node).and_then(|id| self.known.get(&id));
        if let Some(target) = pointer {
            let span = node.span;
            *node = Node { span, ..target.clone() };
            return;
        }
        let is_known =
            |child: &Node| variable_read(child).is_some_and(|id| self.known.contains_key(&id));
        let goes = node.inner.first().map(Node::strip).is_some_and(is_known);
        node.inner.iter_mut().for_each(|child| self.node(child));
        if goes {
            undo_address(node);
        }
        let local = node.kind == "VarDecl" && !matches!(node.storage.as_str(), "static" | "extern");
        if !local || !is_pointer(&node.ty) || self.changed.contains(&node.id) {
            return;
        }
        let Some(init) = node.inner.iter().find(|child| !child.kind.ends_with("Attr")) else {
            return;
        };
        if self.is_address(init) {
            self.known.insert(node.id, init.clone());
            node.kind = "EmptyDecl".to_string();
            node.inner.clear();
        }
    }

    /// True if a pointer leads to the same place wherever it is written.
    fn is_address(&self, node: &Node) -> bool {
        let node = node.strip();
        let Some(inner) = node.inner.first() else { return false };
        match (node.kind.as_str(), node.cast.as_str()) {
            ("ImplicitCastExpr" | "CStyleCastExpr", "BitCast" | "NoOp") => self.is_address(inner),
            ("ImplicitCastExpr", "ArrayToPointerDecay") => self.is_place(inner),
            // A parameter.
            ("ImplicitCastExpr", "LValueToRValue") => {
                let of = inner.strip().referenced.as_ref();
                of.is_some_and(|of| of.kind == "ParmVarDecl" && !self.changed.contains(&of.id))
            }
            ("UnaryOperator", _) => node.opcode == "&" && self.is_place(inner),
            _ => false,
        }
    }

    fn is_place(&self, node: &Node) -> bool {
        let node = node.strip();
        match (node.kind.as_str(), &node.inner[..]) {
            ("DeclRefExpr", _) => true,
            ("MemberExpr", [base]) if node.flags.arrow => self.is_address(base),
            ("MemberExpr", [base]) => self.is_place(base),
            ("UnaryOperator", [pointer]) if node.opcode == "*" => self.is_address(pointer),
            ("ArraySubscriptExpr", [base, index]) => {
                let mut fixed = true;
                index.walk(&mut |n| {
                    let of = n.referenced.as_ref().map(|of| of.kind.as_str());
                    fixed &= matches!(of, None | Some("EnumConstantDecl")) && n.kind != "CallExpr";
                });
                fixed && self.is_address(base)
            }
            _ => false,
        }
    }
}

/// Makes `*&x` `x`, and `(&x)->m` `x.m`: who takes an address may write there.
fn undo_address(node: &mut Node) {
    let follows = node.kind == "UnaryOperator" && node.opcode == "*"
        || node.kind == "MemberExpr" && node.flags.arrow;
    let Some(mut pointer) = node.inner.first().filter(|_| follows).map(Node::strip) else { return };
    while pointer.cast == "NoOp" {
        pointer = pointer.inner[0].strip();
    }
    if pointer.kind != "UnaryOperator" || pointer.opcode != "&" {
        return;
    }
    let place = pointer.inner[0].clone();
    if node.kind == "MemberExpr" {
        node.flags.arrow = false;
        node.inner[0] = place;
    } else {
        *node = Node { span: node.span, ..place };
    }
}

/// The variable whose value an expression is.
fn variable_read(node: &Node) -> Option<u64> {
    let read = node.kind == "ImplicitCastExpr" && node.cast == "LValueToRValue";
    let inner = node.inner.first().filter(|_| read)?.strip();
    inner.referenced.as_ref().filter(|of| of.kind == "VarDecl").map(|of| of.id)
}

/// True for `struct t *`, `const char *const`; packets are no memory.
fn is_pointer(ty: &str) -> bool {
    let base = ty.trim_end_matches("const").trim_end_matches("restrict").trim_end();
    base.strip_suffix('*').is_some_and(|to| !to.contains(['*', '(']) && !to.contains("nf_packet"))
}
