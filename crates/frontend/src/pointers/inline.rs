//! Functions that change their callers' pointers: those that take a pointer to a pointer, or take
//! or give a struct with pointers in it. Each call becomes the function's statements, in which the
//! caller's own variables stand, so that it is seen where their pointers lead.

use std::collections::{HashMap, HashSet};

use super::make::Fresh;
use super::members::{WithPointers, is_data_pointer, is_packet};
use super::rewrite::is_null;
use super::shape::{is_unary, pointee, unqualified, variable_read};
use super::without::{make_null, sets};
use crate::ast::Node;
use crate::effects::is_pure;

/// Most nodes that a function may have once calls in it are its callees' statements.
const MOST: usize = 100_000;

/// Puts the statements of such functions in the place of their calls.
pub fn calls(root: &mut Node, order: &[usize], structs: &WithPointers, fresh: &mut Fresh) {
    let (functions, declared) = (HashMap::new(), Vec::new());
    let mut inliner = Inliner { functions, structs, declared, fresh };
    for number in order {
        let function = &mut root.inner[*number];
        inliner.aliases(function);
        inliner.node(function);
        let declared = std::mem::take(&mut inliner.declared);
        inliner.fresh.declare(function, declared);
        if inliner.wants(function) && !is_recursive(function) && size(function) < MOST {
            inliner.functions.insert(function.name.clone(), function.clone());
        }
    }
}

struct Inliner<'i> {
    functions: HashMap<String, Node>,
    structs: &'i WithPointers,
    /// Variables for pointers that calls give back.
    declared: Vec<Node>,
    fresh: &'i mut Fresh,
}

fn size(node: &Node) -> usize {
    let mut count = 0;
    node.walk(&mut |_| count += 1);
    count
}

/// True for a function that calls itself.
fn is_recursive(function: &Node) -> bool {
    let mut found = false;
    function.walk(&mut |node| {
        found |= node.callee().is_some_and(|callee| callee.name == function.name);
    });
    found
}

/// True for the address of a variable's member, or of what a pointer that never changes leads to.
fn is_fixed(function: &Node, address: &Node) -> bool {
    let mut fixed = is_pure(address);
    address.walk(&mut |node| {
        fixed &= node.kind != "ArraySubscriptExpr" && node.kind != "ConditionalOperator";
        fixed &= !variable_read(node).is_some_and(|id| sets(function, id));
    });
    fixed && (is_unary(unqualified(address), "&") || variable_read(address).is_some())
}

/// Takes the declaration of a variable away.
fn undeclare(node: &mut Node, id: u64) {
    if node.kind == "DeclStmt" {
        node.inner.retain(|of| of.id != id);
    }
    node.inner.iter_mut().for_each(|child| undeclare(child, id));
}

fn params(function: &Node) -> impl Iterator<Item = &Node> {
    function.inner.iter().filter(|node| node.kind == "ParmVarDecl")
}

impl Inliner<'_> {
    /// True for a function that takes a pointer to a pointer, or takes or gives structs with
    /// pointers.
    fn wants(&self, function: &Node) -> bool {
        let given = function.ty.split_once('(').map_or("", |(given, _)| given);
        self.has(given) || params(function).any(|param| self.is_deep(&param.ty))
    }

    fn is_deep(&self, ty: &str) -> bool {
        self.has(ty) || pointee(ty).is_some_and(|to| is_data_pointer(to) || self.has(to))
    }

    /// True for a struct with pointers.
    fn has(&self, ty: &str) -> bool {
        self.structs.contains_key(ty.trim_start_matches("const ").trim())
    }

    /// Puts `&s` and `&s.m` in the place of pointers that lead to such structs all the time.
    fn aliases(&self, function: &mut Node) {
        let mut found = Vec::new();
        function.walk(&mut |node| {
            if let ("VarDecl", [init]) = (node.kind.as_str(), &node.inner[..])
                && pointee(&node.ty).is_some_and(|to| self.has(to))
                && node.storage.is_empty()
                && is_fixed(function, init)
                && !sets(function, node.id)
            {
                found.push(node.id);
            }
        });
        for id in found {
            // One may be made of those before it.
            let mut init = None;
            function.walk(&mut |node| {
                if node.kind == "VarDecl" && node.id == id {
                    init = node.inner.first().cloned();
                }
            });
            init.iter().for_each(|init| substitute(function, id, init));
            undeclare(function, id);
        }
    }

    fn node(&mut self, node: &mut Node) {
        node.inner.iter_mut().for_each(|child| self.node(child));
        let Some(function) = node.callee().and_then(|callee| self.functions.get(&callee.name))
        else {
            return;
        };
        let function = function.clone();
        if let Some(inlined) = self.inlined(&function, node) {
            *node = inlined;
        }
    }

    /// The statements of a function with the arguments of a call.
    fn inlined(&mut self, function: &Node, call: &Node) -> Option<Node> {
        let args = call.inner.get(1..)?;
        let body = function.inner.iter().find(|node| node.kind == "CompoundStmt")?;
        if params(function).count() != args.len() {
            return None;
        }
        let mut body = body.clone();
        let mut statements = Vec::new();
        let mut names = HashMap::new();
        rename_all(&mut body, &mut names, self.fresh);
        for (param, arg) in params(function).zip(args) {
            let is_pointer = pointee(&param.ty).is_some();
            let is_packet = is_packet(&param.ty);
            if is_packet || is_pointer && self.is_deep(&param.ty) {
                if sets(&body, param.id) || !is_pure(arg) {
                    return None;
                }
                if is_null(arg) {
                    let declared = make_null(&mut body, &HashSet::from([param.id]), self.fresh);
                    if !declared.is_empty() {
                        statements.push(self.fresh.statement(call, "DeclStmt", declared));
                    }
                } else {
                    substitute(&mut body, param.id, arg);
                }
                continue;
            }
            let id = self.fresh.id();
            let variable = self.fresh.variable(param, id, &param.ty, Some(arg.clone()));
            let is_variable = HashMap::from([(param.id, id)]);
            refer(&mut body, &is_variable);
            statements.push(self.fresh.statement(call, "DeclStmt", vec![variable]));
        }
        let gives = call.ty != "void";
        let gives_pointer = is_data_pointer(&call.ty) || self.has(&call.ty);
        let result = self.fresh.id();
        if gives {
            let variable = Node {
                name: format!("{}_result", function.name),
                ..self.fresh.variable(call, result, &call.ty, None)
            };
            match gives_pointer {
                true => self.declared.push(variable),
                false => statements.push(self.fresh.statement(call, "DeclStmt", vec![variable])),
            }
        }
        let label = self.fresh.id();
        let mut returns = Returns { result, gives, ty: call.ty.clone(), label, jumps: false };
        returns.statements(&mut body.inner, true, self.fresh);
        statements.append(&mut body.inner);
        let nothing = self.fresh.statement(call, "NullStmt", Vec::new());
        if returns.jumps {
            let labelled = self.fresh.statement(call, "LabelStmt", vec![nothing.clone()]);
            statements.push(Node { member: label, name: "done".to_string(), ..labelled });
        }
        if gives_pointer || !gives {
            statements.push(nothing);
            let block = self.fresh.statement(call, "CompoundStmt", statements);
            let done = self.fresh.of_kind("StmtExpr", "void", block);
            if !gives {
                return Some(done);
            }
            let read = returns.read(call, self.fresh);
            return Some(self.fresh.comma(done, read));
        }
        statements.push(returns.read(call, self.fresh));
        let block = self.fresh.statement(call, "CompoundStmt", statements);
        Some(self.fresh.of_kind("StmtExpr", &call.ty, block))
    }
}

/// The `return`s of a function that becomes statements.
struct Returns {
    result: u64,
    gives: bool,
    ty: String,
    label: u64,
    jumps: bool,
}

impl Returns {
    fn read(&self, like: &Node, fresh: &mut Fresh) -> Node {
        let name = fresh.named(like, self.result, "result", &self.ty);
        fresh.value(name)
    }

    /// Rewrites statements; the last one of `is_end` needs no jump.
    fn statements(&mut self, statements: &mut [Node], is_end: bool, fresh: &mut Fresh) {
        let last = statements.len().saturating_sub(1);
        for (number, statement) in statements.iter_mut().enumerate() {
            self.statement(statement, is_end && number == last, fresh);
        }
    }

    fn statement(&mut self, node: &mut Node, is_end: bool, fresh: &mut Fresh) {
        match node.kind.as_str() {
            "ReturnStmt" => {
                let mut steps = Vec::new();
                if let Some(value) = node.inner.pop() {
                    steps.push(match self.gives {
                        true => {
                            let name = fresh.named(&value, self.result, "result", &self.ty);
                            fresh.assign(name, value)
                        }
                        false => value,
                    });
                }
                if !is_end {
                    self.jumps = true;
                    let goto = fresh.statement(node, "GotoStmt", Vec::new());
                    steps.push(Node { member: self.label, ..goto });
                }
                *node = fresh.statement(node, "CompoundStmt", steps);
            }
            "CompoundStmt" => self.statements(&mut node.inner, is_end, fresh),
            "IfStmt" => {
                for arm in node.inner.iter_mut().skip(1) {
                    self.statement(arm, is_end, fresh);
                }
            }
            kind if kind.ends_with("Stmt") => {
                for inner in &mut node.inner {
                    self.statement(inner, false, fresh);
                }
            }
            _ => {}
        }
    }
}

/// Gives what is declared in a copy of statements numbers of its own; variables that outlive calls
/// are the same in all copies.
fn rename_all(body: &mut Node, names: &mut HashMap<u64, u64>, fresh: &mut Fresh) {
    body.walk(&mut |node| {
        let label = (node.kind == "LabelStmt").then_some(node.member);
        let is_own = node.kind == "VarDecl" && node.storage != "static";
        let declared = is_own.then_some(node.id);
        for id in label.into_iter().chain(declared) {
            names.insert(id, fresh.id());
        }
    });
    refer(body, names);
}

/// Lets what names declarations name others, and these be declared.
fn refer(node: &mut Node, names: &HashMap<u64, u64>) {
    let new = |id: u64| names.get(&id).copied();
    if let Some(of) = &mut node.referenced
        && let Some(id) = new(of.id)
    {
        (of.id, of.kind) = (id, "VarDecl".to_string());
    }
    match node.kind.as_str() {
        "VarDecl" => node.id = new(node.id).unwrap_or(node.id),
        "LabelStmt" | "GotoStmt" => node.member = new(node.member).unwrap_or(node.member),
        _ => {}
    }
    node.inner.iter_mut().for_each(|child| refer(child, names));
}

/// Puts an argument in the place of a parameter; `*&x` and `(&x)->m` are `x` and `x.m`.
fn substitute(node: &mut Node, param: u64, arg: &Node) {
    if node.kind == "ImplicitCastExpr" && variable_read(node) == Some(param) {
        *node = Node { span: node.span, ..arg.clone() };
        return;
    }
    node.inner.iter_mut().for_each(|child| substitute(child, param, arg));
    let Some(pointer) = node.inner.first().map(unqualified) else { return };
    if !is_unary(pointer, "&") {
        return;
    }
    let place = pointer.inner[0].clone();
    if is_unary(node, "*") {
        *node = Node { kind: "ParenExpr".to_string(), inner: vec![place], ..node.clone() };
        node.opcode.clear();
    } else if node.kind == "MemberExpr" && node.flags.arrow {
        node.flags.arrow = false;
        node.inner[0] = place;
    }
}
