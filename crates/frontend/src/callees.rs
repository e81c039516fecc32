//! Parameters whose arguments functions have to know where they are called: pointers whose memory
//! is the caller's, and integers that decide when loops end.

use std::collections::HashSet;

use crate::assigned::is_memory_function;
use crate::ast::Node;
use crate::functions::parameters;
use crate::unit::Unit;

impl<'a> Unit<'a> {
    /// The parameters that lead to memory which each call knows.
    pub fn memory_params(&mut self, node: &'a Node) -> Vec<bool> {
        if let Some(known) = self.memory_params.get(&node.id) {
            return known.clone();
        }
        // What is said of a function that calls itself does not matter.
        self.memory_params.insert(node.id, Vec::new());
        let body = node.inner.iter().find(|child| child.kind == "CompoundStmt");
        let is = |param: &Node| {
            let of_void = param.ty.trim_end_matches("const").trim_end().ends_with("void *");
            let mut used = || body.is_some_and(|body| self.uses_elements(body, param.id));
            param.ty.contains('*') && (of_void || used())
        };
        let found: Vec<bool> = parameters(node).map(is).collect();
        self.memory_params.insert(node.id, found.clone());
        found
    }

    /// The parameters that may decide when loops end without `NF_BOUND`: the function's own, those
    /// of functions that it calls, and of callers, by what it puts into structs.
    pub fn ends_loops(&mut self, node: &'a Node) -> Vec<bool> {
        if let Some(known) = self.ends_loops.get(&node.id) {
            return known.clone();
        }
        self.ends_loops.insert(node.id, Vec::new());
        let mut deciding = HashSet::new();
        let mut calls = Vec::new();
        let bounded = is_bounded(node) || !has_loop(node);
        // Callers know what is in their structs if it is known which way the function goes, and
        // what it sets members to.
        let gives = |param: &Node| param.ty.contains('*') && !param.ty.starts_with("const ");
        let gives = parameters(node).any(gives);
        node.walk(&mut |node| {
            let condition = match node.kind.as_str() {
                "ForStmt" => node.inner.get(2),
                "WhileStmt" => node.inner.first(),
                "DoStmt" => node.inner.last(),
                "CallExpr" => {
                    calls.push(node);
                    None
                }
                // It may be that of `if (…) break;`.
                "IfStmt" => node.inner.first().filter(|_| node.inner.iter().any(leaves)),
                _ => None,
            };
            if let ("=", [member, value], true) = (node.opcode.as_str(), &node.inner[..], gives)
                && member.strip().kind == "MemberExpr"
                && member.strip().flags.arrow
            {
                reads(value, &mut deciding);
            }
            let decides = !bounded || gives && node.kind == "IfStmt";
            condition.filter(|_| decides).into_iter().for_each(|c| reads(c, &mut deciding));
        });
        for call in calls {
            if let (Some(callee), Some(count)) = (call.callee(), call.inner.get(3))
                && is_memory_function(&callee.name)
            {
                reads(count, &mut deciding);
            }
            let called = call.callee().and_then(|of| self.index.functions.get(&of.name)).copied();
            let ends = called.map(|called| self.ends_loops(called)).unwrap_or_default();
            for (arg, ends) in call.inner.iter().skip(1).zip(ends) {
                if ends {
                    reads(arg, &mut deciding);
                }
            }
        }
        add_sources(node, &mut deciding);
        let found: Vec<bool> = parameters(node).map(|param| deciding.contains(&param.id)).collect();
        self.ends_loops.insert(node.id, found.clone());
        found
    }

    /// True if elements of what a pointer leads to are used, or it is taken for another one.
    fn uses_elements(&mut self, node: &'a Node, param: u64) -> bool {
        let is_param = |node: &Node| {
            let mut node = node.strip();
            while matches!(node.cast.as_str(), "BitCast" | "NoOp" | "LValueToRValue") {
                node = node.inner[0].strip();
            }
            node.referenced.as_ref().is_some_and(|of| of.id == param)
        };
        let used = match node.kind.as_str() {
            // Indexed, compared, subtracted.
            "ArraySubscriptExpr" | "BinaryOperator" => node.inner.iter().any(is_param),
            "CallExpr" => {
                let callee = node.callee();
                let known =
                    callee.and_then(|callee| self.index.functions.get(&callee.name)).copied();
                let is_memory = callee.is_some_and(|callee| {
                    let name = &callee.name;
                    is_memory_function(name) || self.index.declared.contains_key(name)
                });
                let args = node.inner.iter().skip(1).enumerate();
                args.filter(|(_, arg)| is_param(arg)).any(|(number, _)| match known {
                    Some(known) => self.memory_params(known).get(number).copied().unwrap_or(false),
                    None => is_memory,
                }) || known.is_some()
                    && node.inner[1..].iter().any(|arg| is_param(arg) && is_cast(arg))
            }
            // `*(uint32_t *)p`, `((struct t *)p)->member`.
            "UnaryOperator" if node.opcode == "*" => {
                is_param(&node.inner[0]) && is_cast(&node.inner[0])
            }
            "MemberExpr" if node.flags.arrow => is_param(&node.inner[0]) && is_cast(&node.inner[0]),
            _ => false,
        };
        used || node.inner.iter().any(|child| self.uses_elements(child, param))
    }
}

/// True if a pointer is taken for one to another type.
fn is_cast(node: &Node) -> bool {
    let mut node = node.strip();
    let mut cast = false;
    while matches!(node.cast.as_str(), "BitCast" | "NoOp" | "LValueToRValue") {
        cast |= node.cast == "BitCast" && !node.ty.ends_with("void *");
        node = node.inner[0].strip();
    }
    cast
}

fn has_loop(node: &Node) -> bool {
    let mut found = false;
    node.walk(&mut |n| found |= matches!(n.kind.as_str(), "ForStmt" | "WhileStmt" | "DoStmt"));
    found
}

/// True if a function says how often a loop of its own runs.
fn is_bounded(node: &Node) -> bool {
    let mut bounded = false;
    node.walk(&mut |node| bounded |= node.callee().is_some_and(|of| of.name == "__nf_bound"));
    bounded
}

/// True if a statement ends with a way out of a loop.
fn leaves(node: &Node) -> bool {
    match node.kind.as_str() {
        "BreakStmt" | "ReturnStmt" | "GotoStmt" => true,
        "CompoundStmt" => node.inner.last().is_some_and(leaves),
        _ => false,
    }
}

/// Adds the variables that an expression names.
fn reads(node: &Node, found: &mut HashSet<u64>) {
    node.walk(&mut |node| found.extend(node.referenced.as_ref().map(|of| of.id)));
}

/// Adds what the variables are set to.
fn add_sources(function: &Node, found: &mut HashSet<u64>) {
    let mut before = usize::MAX;
    while before != found.len() {
        before = found.len();
        function.walk(&mut |node| {
            let assigns = node.kind == "CompoundAssignOperator" || node.opcode == "=";
            let target = node.inner.first().and_then(|to| to.strip().referenced.as_ref());
            let is_set = match node.kind.as_str() {
                "VarDecl" => found.contains(&node.id),
                _ => assigns && target.is_some_and(|of| found.contains(&of.id)),
            };
            if is_set {
                node.inner.iter().for_each(|value| reads(value, found));
            }
        });
    }
}
