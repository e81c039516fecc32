//! The walk over an opaque function's tree, along the order in which C evaluates it.
//!
//! With it goes the set of paths that every way to here has written (*done*): straight code adds to
//! it, branches keep what both arms have, loops and `switch` what was there before them. It starts
//! empty and is asked at each read: what is not done is read from before. At each `return` and at
//! the end, what is written somewhere and not done is kept. A `goto` or a label makes the order
//! unknown: then nothing is ever done. So every answer errs to one side: too much is read and kept,
//! never too little. A state whose address goes anywhere is read and written as a whole, a member
//! whose address is taken likewise.
//!
//! Every expression is visited once, so the cost is that of the tree.

use std::collections::{BTreeMap, BTreeSet};

use nicforge_ir::{Diagnostic, Span};

use super::Use;
use super::shape::{computed, hides_labels, labels};
use crate::ast::Node;
use crate::diagnostics::codes;

pub(super) type Members = Vec<String>;
pub(super) type Done = BTreeSet<Members>;

/// Results in a function.
pub struct Found {
    pub uses: Vec<Use>,
    pub statics: Vec<Span>,
    pub diagnostics: Vec<Diagnostic>,
}

/// Ways on: what they have done. None if there is no way.
pub(super) type Ways = Option<Done>;

#[derive(Default)]
pub(super) struct Walk {
    pub(super) state: u64,
    pub(super) packets: Vec<u64>,
    /// Order cannot be told.
    pub(super) jumps: bool,
    read: BTreeMap<Members, Span>,
    written: BTreeMap<Members, Span>,
    /// What was done at each place where the function ends.
    ends: Vec<Done>,
    /// For each loop and `switch` around: what was done when it was entered, and where it is left.
    entered: Vec<Done>,
    breaks: Vec<Vec<Done>>,
    statics: Vec<Span>,
    diagnostics: Vec<Diagnostic>,
}

/// Walks over a function.
pub fn function(node: &Node) -> Found {
    let mut walk = Walk::default();
    for param in node.inner.iter().filter(|n| n.kind == "ParmVarDecl") {
        if param.ty == "nf_pkt" {
            walk.packets.push(param.id);
        } else if param.name == "state" {
            walk.state = param.id;
        }
    }
    for body in node.inner.iter().filter(|n| n.kind == "CompoundStmt") {
        body.walk(&mut |n| {
            let jump = ["LabelStmt", "GotoStmt", "IndirectGotoStmt", "GCCAsmStmt"]
                .contains(&n.kind.as_str());
            walk.jumps |= jump || hides_labels(n);
            // What an array's length reads is not in the tree.
            if computed(&n.ty) || computed(&n.arg_ty) {
                walk.read.entry(Vec::new()).or_insert(n.span);
            }
        });
        let mut ways = Some(Done::new());
        walk.statement(body, &mut ways);
        walk.ends.extend(ways);
    }
    walk.finish()
}

/// True if a path or what it is inside of is done.
fn covered(done: &Done, path: &[String]) -> bool {
    (0..=path.len()).any(|length| done.contains(&path[..length]))
}

fn meet(a: Ways, b: Ways) -> Ways {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.intersection(&b).cloned().collect()),
        (a, b) => a.or(b),
    }
}

impl Walk {
    fn finish(self) -> Found {
        let paths: BTreeSet<&Members> = self.read.keys().chain(self.written.keys()).collect();
        let uses = paths.into_iter().map(|path| Use {
            path: path.clone(),
            read: self.read.get(path).copied(),
            written: self.written.get(path).copied(),
            kept: self.written.contains_key(path)
                && !self.ends.iter().all(|done| covered(done, path)),
        });
        Found { uses: uses.collect(), statics: self.statics, diagnostics: self.diagnostics }
    }

    pub(super) fn refuse(&mut self, span: Span, message: String, help: &str) {
        self.diagnostics.push(Diagnostic::error(codes::OPAQUE.id, span, message).help(help));
    }

    pub(super) fn reads(&mut self, path: Members, span: Span, done: &Done) {
        if !covered(done, &path) {
            self.read.entry(path).or_insert(span);
        }
    }

    pub(super) fn writes(&mut self, path: Members, span: Span, whole: bool, done: &mut Done) {
        if whole && !self.jumps {
            done.insert(path.clone());
        }
        self.written.entry(path).or_insert(span);
    }

    pub(super) fn statement(&mut self, node: &Node, ways: &mut Ways) {
        let label =
            matches!(node.kind.as_str(), "CompoundStmt" | "LabelStmt" | "CaseStmt" | "DefaultStmt");
        if ways.is_some() || label {
            self.reached(node, ways);
        } else {
            // Nothing leads here but what the tree does not show; it counts as if it were the
            // function's first statement.
            self.reached(node, &mut Some(Done::new()));
        }
        if self.jumps && ways.is_none() {
            *ways = Some(Done::new());
        }
    }

    fn reached(&mut self, node: &Node, ways: &mut Ways) {
        let at = |n: usize| node.inner.get(n).filter(|n| !n.is_absent());
        match node.kind.as_str() {
            "CompoundStmt" | "LabelStmt" => {
                node.inner.iter().for_each(|each| self.statement(each, ways))
            }
            "AttributedStmt" => {
                let inner = node.inner.iter().filter(|n| !n.kind.ends_with("Attr"));
                inner.for_each(|each| self.statement(each, ways));
            }
            "IfStmt" => {
                self.evaluate(at(0), ways);
                let mut other = ways.clone();
                at(1).into_iter().for_each(|then| self.statement(then, ways));
                at(2).into_iter().for_each(|arm| self.statement(arm, &mut other));
                *ways = meet(ways.take(), other);
            }
            "WhileStmt" => self.trips(at(0), None, at(1), ways),
            "ForStmt" => {
                at(0).into_iter().for_each(|init| self.statement(init, ways));
                self.trips(at(2), at(3), at(4), ways);
            }
            "DoStmt" => self.do_loop(at(0), at(1), ways),
            "SwitchStmt" => self.switch(node, ways),
            "CaseStmt" | "DefaultStmt" => {
                *ways = self.entered.last().cloned();
                node.inner.last().into_iter().for_each(|inner| self.statement(inner, ways));
            }
            "BreakStmt" => {
                if let (Some(done), Some(level)) = (ways.take(), self.breaks.last_mut()) {
                    level.push(done);
                }
            }
            "ContinueStmt" => *ways = None,
            "ReturnStmt" => {
                self.evaluate(at(0), ways);
                self.ends.extend(ways.take());
            }
            "DeclStmt" => node.inner.iter().for_each(|each| self.declaration(each, ways)),
            _ => self.evaluate(Some(node), ways),
        }
    }

    fn declaration(&mut self, node: &Node, ways: &mut Ways) {
        if node.kind != "VarDecl" {
            return;
        }
        if node.storage == "static" && !node.ty.starts_with("const ") {
            self.statics.push(node.name_span);
        }
        for each in node.inner.iter().filter(|n| !n.kind.ends_with("Attr")) {
            self.evaluate(Some(each), ways);
        }
    }

    /// `while` and `for`: behind them is what was done when the condition was looked at first, as
    /// each trip only does more. One without end is left by `break` only.
    fn trips(
        &mut self,
        cond: Option<&Node>,
        step: Option<&Node>,
        body: Option<&Node>,
        ways: &mut Ways,
    ) {
        self.evaluate(cond, ways);
        let before = ways.clone();
        self.breaks.push(Vec::new());
        body.into_iter().for_each(|body| self.statement(body, ways));
        self.evaluate(step, &mut before.clone());
        let left = self.breaks.pop().unwrap_or_default();
        let literal = |cond: &Node| {
            cond.strip_casts().value.clone().filter(|_| cond.strip_casts().kind == "IntegerLiteral")
        };
        let endless = cond.is_none_or(|cond| literal(cond).is_some_and(|value| value != "0"));
        *ways = if endless {
            left.into_iter().fold(None, |met, done| meet(met, Some(done)))
        } else {
            before
        };
    }

    fn do_loop(&mut self, body: Option<&Node>, cond: Option<&Node>, ways: &mut Ways) {
        let before = ways.clone();
        self.breaks.push(Vec::new());
        let mut goes_on = false;
        if let Some(body) = body {
            self.statement(body, ways);
            body.walk(&mut |n| goes_on |= n.kind == "ContinueStmt");
        }
        if goes_on {
            *ways = before;
        }
        self.evaluate(cond, ways);
        for done in self.breaks.pop().unwrap_or_default() {
            *ways = meet(ways.take(), Some(done));
        }
    }

    fn switch(&mut self, node: &Node, ways: &mut Ways) {
        self.evaluate(node.inner.first(), ways);
        let before = ways.take().unwrap_or_default();
        self.entered.push(before.clone());
        self.breaks.push(Vec::new());
        let mut default = false;
        if let Some(body) = node.inner.last() {
            self.statement(body, ways);
            default = labels(body).iter().any(|label| label.kind == "DefaultStmt");
        }
        self.entered.pop();
        for done in self.breaks.pop().unwrap_or_default() {
            *ways = meet(ways.take(), Some(done));
        }
        if !default {
            *ways = meet(ways.take(), Some(before));
        }
    }
}
