//! Expressions that change nothing when they are evaluated.

use std::collections::HashSet;

use crate::assigned::assigned_decls;
use crate::ast::Node;
use crate::unit::Unit;

/// True for an expression that changes nothing; any call counts as a change.
pub fn is_pure(node: &Node) -> bool {
    let mut pure = true;
    node.walk(&mut |node| pure &= node.kind != "CallExpr" && !is_change(node));
    pure
}

impl Unit<'_> {
    /// True for an expression that may change something, by the functions that it calls as well.
    pub fn may_change(&self, node: &Node) -> bool {
        self.may_change_within(node, &mut HashSet::new())
    }

    fn may_change_within(&self, node: &Node, seen: &mut HashSet<u64>) -> bool {
        let mut changes = false;
        let mut callees = Vec::new();
        node.walk(&mut |node| {
            changes |= is_change(node);
            if node.kind == "CallExpr" {
                callees.push(node.callee().map(|callee| callee.name.as_str()));
            }
        });
        changes || self.calls_change(&callees, seen)
    }

    fn calls_change(&self, callees: &[Option<&str>], seen: &mut HashSet<u64>) -> bool {
        callees.iter().any(|name| {
            let function = name.and_then(|name| self.index.functions.get(name));
            match function {
                Some(function) => seen.insert(function.id) && self.function_changes(function, seen),
                None => !name.is_some_and(only_reads),
            }
        })
    }

    /// True for a function that may change more than its own variables.
    fn function_changes(&self, function: &Node, seen: &mut HashSet<u64>) -> bool {
        let mut assigned = HashSet::new();
        assigned_decls(function, &mut assigned);
        let mut callees = Vec::new();
        function.walk(&mut |node| match node.kind.as_str() {
            "VarDecl" if !matches!(node.storage.as_str(), "static" | "extern") => {
                assigned.remove(&node.id);
            }
            "ParmVarDecl" if !node.ty.contains('*') => {
                assigned.remove(&node.id);
            }
            "CallExpr" => callees.push(node.callee().map(|callee| callee.name.as_str())),
            _ => {}
        });
        !assigned.is_empty() || self.calls_change(&callees, seen)
    }
}

fn is_change(node: &Node) -> bool {
    match node.kind.as_str() {
        "AtomicExpr" | "StmtExpr" | "CompoundAssignOperator" => true,
        "BinaryOperator" => node.opcode == "=",
        "UnaryOperator" => matches!(node.opcode.as_str(), "++" | "--"),
        _ => false,
    }
}

/// True for functions of `nicforge.h` and of the compiler that only compute or read.
fn only_reads(name: &str) -> bool {
    let orders = ["nf_hton", "nf_ntoh", "hton", "ntoh", "nf_csum_"];
    let reading = ["nf_len", "nf_port", "nf_now", "nf_hash"];
    let of_compiler = name.starts_with("__builtin_") && !name.ends_with("_overflow");
    orders.iter().any(|order| name.starts_with(order))
        || reading.contains(&name)
        || of_compiler && !name.contains("mem")
}
