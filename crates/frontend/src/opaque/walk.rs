//! The walk over an opaque function's tree, along the order in which C evaluates it.
//!
//! With it goes the set of paths that every way to here has written (*done*): straight code adds to it, branches keep what both arms
//! have, loops and `switch` what was there before them. It starts empty and is asked at each read: what is not done is read from before.
//! At each `return` and at the end, what is written somewhere and not done is kept. A `goto` or a label makes the order unknown: then
//! nothing is ever done. So every answer errs to one side: too much is read and kept, never too little. A state whose address goes
//! anywhere is read and written as a whole, a member whose address is taken likewise.
//!
//! Every expression is visited once, so the cost is that of the tree.

use std::collections::{BTreeMap, BTreeSet};

use nicforge_ir::{Diagnostic, Span};

use super::Use;
use crate::ast::Node;
use crate::diagnostics::codes;

/// What opaque code may call of Nicforge's: arithmetic, nothing of packets, tables or time.
const ARITHMETIC: [&str; 9] = [
    "nf_ntohs",
    "nf_ntohl",
    "nf_ntohll",
    "nf_htons",
    "nf_htonl",
    "nf_htonll",
    "nf_csum_fold",
    "nf_csum_replace16",
    "nf_csum_replace32",
];

/// What outputs are called.
const OUTPUT: &str = "nf_called_";

type Members = Vec<String>;
type Done = BTreeSet<Members>;

/// What was found in a function.
pub struct Found {
    pub uses: Vec<Use>,
    pub statics: Vec<Span>,
    pub diagnostics: Vec<Diagnostic>,
}

/// Ways on: what they have done. None if there is no way.
type Ways = Option<Done>;

#[derive(Default)]
struct Walk {
    state: u64,
    packets: Vec<u64>,
    /// Order cannot be told.
    jumps: bool,
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

/// A member of the state that an expression names.
struct Named<'a> {
    path: Members,
    /// An element of it, not all of it.
    part: bool,
    indices: Vec<&'a Node>,
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
            let jump = ["LabelStmt", "GotoStmt", "IndirectGotoStmt", "GCCAsmStmt"].contains(&n.kind.as_str());
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

/// Whether a path or what it is inside of is done.
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
            kept: self.written.contains_key(path) && !self.ends.iter().all(|done| covered(done, path)),
        });
        Found { uses: uses.collect(), statics: self.statics, diagnostics: self.diagnostics }
    }

    fn refuse(&mut self, span: Span, message: String, help: &str) {
        self.diagnostics.push(Diagnostic::error(codes::OPAQUE.id, span, message).help(help));
    }

    fn reads(&mut self, path: Members, span: Span, done: &Done) {
        if !covered(done, &path) {
            self.read.entry(path).or_insert(span);
        }
    }

    fn writes(&mut self, path: Members, span: Span, whole: bool, done: &mut Done) {
        if whole && !self.jumps {
            done.insert(path.clone());
        }
        self.written.entry(path).or_insert(span);
    }

    fn statement(&mut self, node: &Node, ways: &mut Ways) {
        let label = matches!(node.kind.as_str(), "CompoundStmt" | "LabelStmt" | "CaseStmt" | "DefaultStmt");
        if ways.is_some() || label {
            self.reached(node, ways);
        } else {
            // Nothing leads here but what the tree does not show; it counts as if it were the function's first statement.
            self.reached(node, &mut Some(Done::new()));
        }
        if self.jumps && ways.is_none() {
            *ways = Some(Done::new());
        }
    }

    fn reached(&mut self, node: &Node, ways: &mut Ways) {
        let at = |n: usize| node.inner.get(n).filter(|n| !n.is_absent());
        match node.kind.as_str() {
            "CompoundStmt" | "LabelStmt" => node.inner.iter().for_each(|each| self.statement(each, ways)),
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

    /// `while` and `for`: behind them is what was done when the condition was looked at first, as each trip only does more. One
    /// without end is left by `break` only.
    fn trips(&mut self, cond: Option<&Node>, step: Option<&Node>, body: Option<&Node>, ways: &mut Ways) {
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
        *ways = if endless { left.into_iter().fold(None, |met, done| meet(met, Some(done))) } else { before };
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

    fn evaluate(&mut self, node: Option<&Node>, ways: &mut Ways) {
        let Some(node) = node else { return };
        match ways {
            Some(done) => self.expr(node, done),
            None => self.expr(node, &mut Done::new()),
        }
    }

    /// What is evaluated in no order that is known: none sees what the others did.
    fn all<'a>(&mut self, nodes: impl IntoIterator<Item = &'a Node>, done: &mut Done) {
        let before = done.clone();
        for node in nodes {
            let mut own = before.clone();
            self.expr(node, &mut own);
            done.extend(own);
        }
    }

    fn expr(&mut self, node: &Node, done: &mut Done) {
        let inner = &node.inner;
        match (node.kind.as_str(), node.opcode.as_str()) {
            // Not evaluated; types whose sizes are are looked for by `function`.
            ("UnaryExprOrTypeTraitExpr", _) => {}
            ("ImplicitCastExpr", _) if node.cast == "LValueToRValue" => match self.named(&inner[0]) {
                Some(named) => {
                    self.all(named.indices, done);
                    self.reads(named.path, node.span, done);
                }
                None => self.all(inner, done),
            },
            ("CStyleCastExpr", _) if node.cast == "ToVoid" && self.is_packet(&inner[0]) => {}
            ("BinaryOperator", "=") | ("CompoundAssignOperator", _) if inner.len() == 2 => {
                self.assignment(node, done)
            }
            ("UnaryOperator", "++" | "--") => match self.named(&inner[0]) {
                Some(named) => {
                    self.all(named.indices, done);
                    self.reads(named.path.clone(), node.span, done);
                    self.writes(named.path, node.span, !named.part, done);
                }
                None => self.all(inner, done),
            },
            ("BinaryOperator", "&&" | "||") if inner.len() == 2 => {
                self.expr(&inner[0], done);
                self.expr(&inner[1], &mut done.clone());
            }
            ("BinaryOperator", ",") => inner.iter().for_each(|each| self.expr(each, done)),
            ("ConditionalOperator", _) if inner.len() == 3 => {
                self.expr(&inner[0], done);
                let mut other = done.clone();
                self.expr(&inner[1], done);
                self.expr(&inner[2], &mut other);
                done.retain(|path| other.contains(path));
            }
            ("BinaryConditionalOperator", _) => {
                inner.iter().for_each(|each| self.expr(each, &mut done.clone()))
            }
            ("CallExpr", _) => self.call(node, done),
            ("StmtExpr", _) => {
                let mut ways = Some(std::mem::take(done));
                inner.iter().for_each(|each| self.statement(each, &mut ways));
                *done = ways.unwrap_or_default();
            }
            ("DeclRefExpr", _) if self.is_packet(node) => {
                let help =
                    "hand over what it needs as values: an element in front reads them from the packet";
                self.refuse(
                    node.span,
                    "opaque C knows nothing of a packet but which output it takes".to_string(),
                    help,
                );
            }
            // The state as a whole goes somewhere.
            ("DeclRefExpr", _) if self.is_state(node) => self.touched(Members::new(), node.span, done),
            _ => match self.named(node) {
                Some(named) => {
                    self.all(named.indices, done);
                    self.touched(named.path, node.span, done);
                }
                None => self.all(inner, done),
            },
        }
    }

    /// What is known by its address: anything may happen to it.
    fn touched(&mut self, path: Members, span: Span, done: &mut Done) {
        self.reads(path.clone(), span, done);
        self.writes(path, span, false, done);
    }

    fn assignment(&mut self, node: &Node, done: &mut Done) {
        let named = self.named(&node.inner[0]);
        let to = named.as_ref().map_or_else(|| vec![&node.inner[0]], |named| named.indices.clone());
        self.all(to.into_iter().chain([&node.inner[1]]), done);
        let Some(named) = named else { return };
        if node.kind == "CompoundAssignOperator" {
            self.reads(named.path.clone(), node.span, done);
        }
        self.writes(named.path, node.span, !named.part, done);
    }

    fn call(&mut self, node: &Node, done: &mut Done) {
        let name = node.callee().map(|callee| callee.name.as_str()).unwrap_or_default();
        let output = name.strip_prefix(OUTPUT);
        if output.is_none()
            && (name.starts_with("nf_") || name.starts_with("__nf_"))
            && !ARITHMETIC.contains(&name)
        {
            let help = "let an element in front of it or behind it do that, and hand over values";
            self.refuse(node.span, format!("opaque C cannot call `{name}`: that is not a process's"), help);
            return;
        }
        let mut rest = Vec::new();
        let mut packet = false;
        for arg in node.inner.iter().skip(usize::from(!name.is_empty())) {
            if output.is_some() && self.is_packet(arg) {
                packet = true;
            } else if let Some(named) = self.lent(arg) {
                rest.extend(named.indices.iter().copied());
                self.reads(named.path, arg.span, done);
            } else {
                rest.push(arg);
            }
        }
        self.all(rest, done);
        let mut once = |walk: &mut Self, what: &str, message: String| {
            // No member has an empty name, so this is none.
            if !walk.jumps && !done.insert(vec![String::new(), what.to_string()]) {
                walk.refuse(
                    node.span,
                    message,
                    "the values of one call are handed on: call it once on each way",
                );
            }
        };
        if let Some(output) = output {
            once(self, output, format!("output `{output}` is called a second time on this way"));
        }
        if packet {
            once(self, "", "the packet is given to a second output on this way".to_string());
        }
    }

    /// A member whose address goes to a parameter that is a pointer to `const`: it is read.
    fn lent<'a>(&self, arg: &'a Node) -> Option<Named<'a>> {
        if !(arg.ty.starts_with("const ") && arg.ty.matches('*').count() == 1 && arg.ty.ends_with('*')) {
            return None;
        }
        let mut node = arg.strip();
        while matches!(node.kind.as_str(), "ImplicitCastExpr" | "CStyleCastExpr")
            && node.cast != "ArrayToPointerDecay"
        {
            node = node.inner.first()?.strip();
        }
        let address =
            node.cast == "ArrayToPointerDecay" || node.kind == "UnaryOperator" && node.opcode == "&";
        if address { self.named(&node.inner[0]) } else { None }
    }

    fn is_packet(&self, node: &Node) -> bool {
        node.strip_casts().referenced.as_ref().is_some_and(|of| self.packets.contains(&of.id))
    }

    fn is_state(&self, node: &Node) -> bool {
        self.state != 0 && node.strip_casts().referenced.as_ref().is_some_and(|of| of.id == self.state)
    }

    /// The member of the state that an expression names, or all of it (`*state`).
    fn named<'a>(&self, node: &'a Node) -> Option<Named<'a>> {
        let node = node.strip();
        let base = node.inner.first();
        match node.kind.as_str() {
            "MemberExpr" if node.flags.arrow && self.is_state(base?) => {
                Some(Named { path: vec![node.name.clone()], part: false, indices: Vec::new() })
            }
            "MemberExpr" if !node.flags.arrow => {
                let mut named = self.named(base?)?;
                if !named.part {
                    named.path.push(node.name.clone());
                }
                Some(named)
            }
            "ArraySubscriptExpr" if base?.cast == "ArrayToPointerDecay" => {
                let mut named = self.named(&base?.inner[0])?;
                named.part = true;
                named.indices.push(&node.inner[1]);
                Some(named)
            }
            "UnaryOperator" if node.opcode == "*" && self.is_state(base?) => {
                Some(Named { path: Vec::new(), part: false, indices: Vec::new() })
            }
            _ => None,
        }
    }
}

/// The labels of a `switch`'s body that are statements of it, each with those it labels.
fn labels(body: &Node) -> Vec<&Node> {
    let mut found = Vec::new();
    for each in &body.inner {
        let mut at = Some(each);
        while let Some(label) = at.filter(|n| matches!(n.kind.as_str(), "CaseStmt" | "DefaultStmt")) {
            found.push(label);
            at = label.inner.last();
        }
    }
    found
}

/// Whether a `switch` has labels elsewhere: inside loops, say.
fn hides_labels(node: &Node) -> bool {
    fn count(node: &Node) -> usize {
        let own = usize::from(matches!(node.kind.as_str(), "CaseStmt" | "DefaultStmt"));
        let inner = node.inner.iter().filter(|n| n.kind != "SwitchStmt");
        own + inner.map(count).sum::<usize>()
    }
    let Some(body) = node.inner.last().filter(|_| node.kind == "SwitchStmt") else { return false };
    body.kind != "CompoundStmt" || count(body) != labels(body).len()
}

/// Whether a type's size is computed: an array whose length is no number.
fn computed(ty: &str) -> bool {
    ty.match_indices('[').any(|(at, _)| ty[at + 1..].starts_with(|c: char| !c.is_ascii_digit() && c != ']'))
}
