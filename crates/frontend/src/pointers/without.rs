//! Calls with null pointers: the function is copied without those parameters, and without what it
//! does only where they are not null.

use std::collections::{HashMap, HashSet};

use super::make::Fresh;
use super::nulls::Nulls;
use super::rewrite::{conditions, is_null};
use super::shape::{element_type, pointee, variable, variable_read};
use crate::ast::Node;

/// Functions that ask whether parameters are null, as they are written, and their copies.
#[derive(Default)]
pub struct Without {
    written: HashMap<String, Node>,
    /// Names of copies, by those of functions and the numbers of the parameters that are null.
    copies: HashMap<(String, Vec<usize>), String>,
    /// All names of functions.
    names: HashSet<String>,
}

impl Without {
    /// Functions of a file.
    pub fn of(root: &Node, nulls: &Nulls) -> Without {
        let mut without = Without::default();
        for node in root.inner.iter().filter(|node| node.kind == "FunctionDecl") {
            without.names.insert(node.name.clone());
            if node.has("CompoundStmt") && nulls.asks(&node.name) {
                without.written.insert(node.name.clone(), node.clone());
            }
        }
        without
    }

    /// Lets calls in a function that hand null pointers over call copies, and gives those copies
    /// that are new. What `settled` names gives numbers of its own back already.
    pub fn calls(
        &mut self,
        node: &mut Node,
        settled: &dyn Fn(&str) -> bool,
        fresh: &mut Fresh,
    ) -> Vec<Node> {
        let mut made = Vec::new();
        for child in &mut node.inner {
            made.extend(self.calls(child, settled, fresh));
        }
        let Some(callee) = node.callee().filter(|callee| !settled(&callee.name)) else {
            return made;
        };
        let Some(function) = self.written.get(&callee.name) else { return made };
        let args = node.inner.iter().skip(1).enumerate();
        let null: Vec<usize> =
            args.filter(|(_, arg)| is_null(arg)).map(|(number, _)| number).collect();
        if null.is_empty() {
            return made;
        }
        for number in null.iter().rev() {
            node.inner.remove(number + 1);
        }
        let key = (function.name.clone(), null);
        if let Some(name) = self.copies.get(&key) {
            rename(&mut node.inner[0], name);
            return made;
        }
        let mut copy = without(function, &key.1, fresh);
        copy.name = format!("{}_without", function.name);
        key.1.iter().for_each(|number| copy.name.push_str(&format!("_{}", number + 1)));
        while !self.names.insert(copy.name.clone()) {
            copy.name.push('_');
        }
        rename(&mut node.inner[0], &copy.name);
        self.copies.insert(key, copy.name.clone());
        // It may be called with fewer pointers still.
        self.written.insert(copy.name.clone(), copy.clone());
        made.push(copy);
        made
    }
}

/// A function without some of its parameters, which are null. Those that it sets are variables.
fn without(function: &Node, null: &[usize], fresh: &mut Fresh) -> Node {
    let mut copy = Node { id: fresh.id(), ..function.clone() };
    let is_param = |node: &&Node| node.kind == "ParmVarDecl";
    let params: Vec<Node> = copy.inner.iter().filter(is_param).cloned().collect();
    let params: Vec<&Node> = null.iter().filter_map(|number| params.get(*number)).collect();
    let mut gone: HashSet<u64> = params.iter().map(|param| param.id).collect();
    copy.inner.retain(|node| !gone.contains(&node.id));
    for param in params.into_iter().filter(|param| sets(function, param.id)) {
        gone.remove(&param.id);
        let null = fresh.null(param, &param.ty);
        let variable = fresh.variable(param, param.id, &param.ty, Some(null));
        is_variable(&mut copy, param.id);
        fresh.declare(&mut copy, vec![variable]);
    }
    let declared = make_null(&mut copy, &gone, fresh);
    fresh.declare(&mut copy, declared);
    copy
}

/// Makes parameters null in statements; variables that these then name.
pub fn make_null(node: &mut Node, params: &HashSet<u64>, fresh: &mut Fresh) -> Vec<Node> {
    let mut nowhere = Nowhere::default();
    clear(node, params, &mut nowhere, fresh);
    nowhere.declared
}

/// Variables for what null pointers lead to, by type: C leaves open what is read there.
#[derive(Default)]
struct Nowhere {
    ids: HashMap<String, u64>,
    declared: Vec<Node>,
}

impl Nowhere {
    /// The variable for a null pointer; nothing for another one.
    fn of(&mut self, pointer: &Node, fresh: &mut Fresh) -> Option<Node> {
        if !is_null(pointer) || pointee(&pointer.ty).is_none() {
            return None;
        }
        let ty = element_type(&pointer.ty);
        let ty = ty.strip_prefix("const ").unwrap_or(&ty).to_string();
        let id = *self.ids.entry(ty.clone()).or_insert_with(|| {
            let id = fresh.id();
            self.declared.push(fresh.variable(pointer, id, &ty, None));
            id
        });
        Some(fresh.named(pointer, id, "nowhere", &ty))
    }
}

/// True if statements give a variable another value, or its address away.
pub fn sets(function: &Node, id: u64) -> bool {
    let mut found = false;
    function.walk(&mut |node| {
        let changes = matches!(
            (node.kind.as_str(), node.opcode.as_str()),
            ("BinaryOperator", "=")
                | ("CompoundAssignOperator", _)
                | ("UnaryOperator", "++" | "--" | "&")
        );
        let target = node.inner.first().filter(|_| changes).and_then(variable);
        found |= target.is_some_and(|of| of.id == id);
    });
    found
}

/// Makes what names a parameter name a variable.
fn is_variable(node: &mut Node, id: u64) {
    if let Some(of) = node.referenced.as_mut().filter(|of| of.id == id) {
        of.kind = "VarDecl".to_string();
    }
    node.inner.iter_mut().for_each(|child| is_variable(child, id));
}

fn rename(callee: &mut Node, name: &str) {
    if let Some(of) = &mut callee.referenced {
        of.name = name.to_string();
    }
    callee.inner.iter_mut().for_each(|inner| rename(inner, name));
}

/// Makes pointers null, and folds what follows from it.
fn clear(node: &mut Node, gone: &HashSet<u64>, nowhere: &mut Nowhere, fresh: &mut Fresh) {
    if variable_read(node).is_some_and(|id| gone.contains(&id)) && node.kind.ends_with("CastExpr") {
        *node = fresh.null(node, &node.ty);
        return;
    }
    node.inner.iter_mut().for_each(|child| clear(child, gone, nowhere, fresh));
    match node.kind.as_str() {
        "MemberExpr" if node.flags.arrow => {
            if let Some(variable) = nowhere.of(&node.inner[0], fresh) {
                node.flags.arrow = false;
                node.inner[0] = variable;
            }
        }
        "ArraySubscriptExpr" | "UnaryOperator" if node.opcode.is_empty() || node.opcode == "*" => {
            let variable = node.inner.iter().find_map(|pointer| nowhere.of(pointer, fresh));
            *node = variable.unwrap_or_else(|| std::mem::take(node));
        }
        _ => {}
    }
    for number in conditions(node) {
        let condition = &mut node.inner[number];
        if is_null(condition) {
            *condition = fresh.number(condition, 0, "int");
        }
    }
    let truth = match (node.opcode.as_str(), &node.inner[..]) {
        ("==" | "!=", [left, right]) if is_null(left) && is_null(right) => {
            Some(node.opcode == "==")
        }
        ("!", [pointer]) if is_null(pointer) => Some(true),
        ("!", [truth]) => number(truth).map(|value| value == 0),
        ("&&", [left, _]) if number(left) == Some(0) => Some(false),
        ("||", [left, _]) if number(left).is_some_and(|value| value != 0) => Some(true),
        (_, [pointer]) if node.cast == "PointerToBoolean" && is_null(pointer) => Some(false),
        _ => None,
    };
    if let Some(truth) = truth {
        *node = fresh.number(node, truth.into(), &node.ty);
    }
    if node.kind == "CompoundStmt" {
        leave_out_behind(&mut node.inner);
    }
}

/// Leaves out what stands behind a way out that is always taken.
fn leave_out_behind(statements: &mut Vec<Node>) {
    let taken = statements.iter().position(|statement| match &statement.inner[..] {
        [condition, then, rest @ ..] if statement.kind == "IfStmt" => {
            let arm = match number(condition) {
                Some(0) => rest.first(),
                Some(_) => Some(then),
                None => None,
            };
            arm.is_some_and(leaves)
        }
        _ => false,
    });
    let Some(taken) = taken else { return };
    let mut is_named = false;
    for statement in &statements[taken + 1..] {
        statement.walk(&mut |node| {
            is_named |= matches!(node.kind.as_str(), "LabelStmt" | "CaseStmt" | "DefaultStmt");
        });
    }
    if !is_named {
        statements.truncate(taken + 1);
    }
}

fn leaves(statement: &Node) -> bool {
    match statement.kind.as_str() {
        "ReturnStmt" | "BreakStmt" | "ContinueStmt" | "GotoStmt" => true,
        "CompoundStmt" => statement.inner.last().is_some_and(leaves),
        _ => false,
    }
}

fn number(node: &Node) -> Option<u64> {
    let node = node.strip_casts();
    let is_number = node.kind == "IntegerLiteral";
    node.value.as_ref().filter(|_| is_number).and_then(|value| value.parse().ok())
}
