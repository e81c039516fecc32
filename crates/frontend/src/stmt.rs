//! Statements. One that fails has reported why; lowering goes on behind it, so that one run finds
//! several errors.

use nicforge_ir::{Op, Type, UnOp, ValueId};

use crate::ast::Node;
use crate::bounds::{Bound, LoopParts, is_bound};
use crate::ctypes::CType;
use crate::diagnostics::codes;
use crate::expr::only_addresses;
use crate::func::{ControlKind, FnLower, VarKind};
use crate::steps::has_continue;
use crate::unit::{Failed, Lowered};

impl<'a> FnLower<'_, 'a, '_> {
    /// A statement; nothing if it is not reached.
    pub fn stmt(&mut self, node: &'a Node) {
        if self.reachable {
            self.failed |= self.at(node.span, |f| f.try_stmt(node)).is_err();
        }
    }

    fn try_stmt(&mut self, node: &'a Node) -> Lowered<()> {
        match node.kind.as_str() {
            "CompoundStmt" => self.block(&node.inner),
            "NullStmt" => {}
            "DeclStmt" => node.inner.iter().try_for_each(|decl| self.local(decl))?,
            "IfStmt" => self.if_stmt(node)?,
            "ForStmt" | "WhileStmt" | "DoStmt" => self.loop_stmt(node)?,
            "SwitchStmt" => self.switch_stmt(node)?,
            "ReturnStmt" => self.return_stmt(node)?,
            "BreakStmt" => {
                let is_left = |kind: &ControlKind| !matches!(kind, ControlKind::Label(_));
                let index = self.controls.iter().rposition(|c| is_left(&c.kind)).ok_or(Failed)?;
                self.leave(index);
            }
            "ContinueStmt" => self.continue_stmt()?,
            "AttributedStmt" => {
                node.inner.iter().filter(|n| !n.kind.ends_with("Attr")).for_each(|n| self.stmt(n))
            }
            "GotoStmt" => self.goto_stmt(node)?,
            "LabelStmt" => node.inner.last().into_iter().for_each(|inner| self.stmt(inner)),
            "IndirectGotoStmt" => {
                let help = "use `switch`";
                let message = "a goto to what is computed is outside the subset";
                return Err(self.refuse(codes::GOTO, node.span, message, help));
            }
            "GCCAsmStmt" | "MSAsmStmt" => {
                let help = "write it with C's operators: the same program runs on very different processors";
                return Err(self.refuse(
                    codes::ASM,
                    node.span,
                    "inline assembly is outside the subset",
                    help,
                ));
            }
            "CaseStmt" | "DefaultStmt" => {
                let help = "put every `case` directly into the switch's braces";
                let message = "a case label inside another statement is outside the subset";
                return Err(self.refuse(codes::SWITCH_SHAPE, node.span, message, help));
            }
            kind if kind.ends_with("Stmt") => {
                let message = format!("this statement is outside the subset ({kind})");
                return Err(self.refuse(
                    codes::INTERNAL,
                    node.span,
                    message,
                    "use if, switch, loops and expressions",
                ));
            }
            _ => self.effect(node)?,
        }
        Ok(())
    }

    /// `({ ... })`: its value is the last statement's.
    pub fn statement_expr(&mut self, node: &'a Node) -> Lowered<Option<ValueId>> {
        let leaving = leaving(node);
        if let Some(leaving) = leaving {
            let message = "a statement leaves the expression that it is in";
            let help = "write a static inline function";
            return Err(self.refuse(codes::EXPRESSION, leaving.span, message, help));
        }
        let statements = node.inner.first().map_or(&[][..], |block| &block.inner);
        let Some((last, before)) = statements.split_last() else { return Ok(None) };
        self.block(before);
        if last.kind.ends_with("Stmt") {
            self.stmt(last);
            return Ok(None);
        }
        self.expr_or_nothing(last)
    }

    fn local(&mut self, node: &'a Node) -> Lowered<()> {
        if node.kind == "StaticAssertDecl" {
            let text = node
                .inner
                .iter()
                .find_map(|n| n.value.as_deref().filter(|_| n.kind == "StringLiteral"));
            if text.is_some_and(|text| text.starts_with("\"nf.")) {
                let help = "put it before the handler or the NF_TABLE";
                let message = "this annotation stands inside a function";
                return Err(self.refuse(codes::ANNOTATION, node.name_span, message, help));
            }
        }
        if node.kind != "VarDecl" {
            // Types and enumerators declared here are known already; asserts were clang's.
            return Ok(());
        }
        let ty = self.unit.ctype(&node.ty);
        if ty == CType::Packet && self.unit.alkali.is {
            return self.local_buffer(node);
        }
        let ir = match (node.storage.as_str(), &ty) {
            ("static" | "extern", _) => {
                // As one outside the function, whatever the function is called with.
                if !self.unit.globals.contains_key(&node.id) {
                    self.unit.global(node);
                }
                return Ok(());
            }
            _ => self.unit.value_type_of(&ty, node.name_span),
        };
        let init = node.inner.iter().find(|n| !n.kind.ends_with("Attr"));
        let Ok(ir) = ir else {
            // Uses are not reported again.
            self.unit.globals.insert(node.id, crate::unit::Global::Broken);
            return Err(Failed);
        };
        let names_itself = init.is_some_and(|init| {
            let mut found = false;
            init.walk(&mut |n| {
                found |= n.referenced.as_ref().is_some_and(|to| to.id == node.id);
            });
            found
        });
        if names_itself && !self.var_of.contains_key(&node.id) {
            let zero = self.zero(ir);
            self.declare(node.id, &node.name, ir, VarKind::Local, zero);
        }
        let value = self.at(node.span, |f| match init {
            Some(init) => f.initial_value(init, ir),
            None => Ok(f.zero(ir)),
        });
        let failed = value.is_err();
        let value = value.unwrap_or_else(|Failed| self.zero(ir));
        // The scope of a switch's braces is declared before its groups.
        match self.var_of.get(&node.id).copied() {
            Some(var) => self.assign(var, value),
            None => {
                self.declare(node.id, &node.name, ir, VarKind::Local, value);
            }
        }
        if failed { Err(Failed) } else { Ok(()) }
    }

    fn if_stmt(&mut self, node: &'a Node) -> Lowered<()> {
        let [cond, arms @ ..] = &node.inner[..] else { return Err(Failed) };
        // What a constant leaves out may be outside the subset, as for another machine.
        if let Some(truth) = self.unit.eval(cond) {
            if let Some(arm) = arms.get(usize::from(truth == 0)) {
                self.stmt(arm);
            }
            return Ok(());
        }
        let likely = self.likely(cond);
        // Both arms are looked at even if the condition has an error.
        let cond = match self.cond(cond) {
            Ok(cond) => cond,
            Err(Failed) => {
                self.failed = true;
                self.b.int(0, Type::BOOL)
            }
        };
        let arm = |f: &mut Self, number: usize| {
            if let Some(stmt) = arms.get(number) {
                f.stmt(stmt);
            }
            Ok(Vec::new())
        };
        // What a call's arguments leave out may be what other calls need.
        if let Some(truth) = self.decided(cond).filter(|_| self.by_call) {
            return arm(self, usize::from(!truth)).map(|_| ());
        }
        self.branch(cond, likely, &[], |f| arm(f, 0), |f| arm(f, 1)).map(|_| ())
    }

    fn return_stmt(&mut self, node: &'a Node) -> Lowered<()> {
        let value = match (node.inner.first(), self.result) {
            (Some(value), Some(ty)) => match self.expr(value) {
                Ok(value) => Some(value),
                Err(Failed) => {
                    self.failed = true;
                    Some(self.zero(ty))
                }
            },
            // What is given back is an argument's address.
            (Some(value), None) if only_addresses(value) => None,
            (Some(value), None) => {
                // `return f();` in a void function.
                self.effect(value)?;
                None
            }
            (None, Some(ty)) => Some(self.zero(ty)),
            (None, None) => None,
        };
        self.emit_return(value);
        Ok(())
    }

    /// Leaves loop or switch number `index` with the carried values.
    pub fn leave(&mut self, index: usize) {
        let op = Op::Break { depth: self.depth_of(index), values: self.carried_values(index) };
        self.controls[index].left = true;
        self.terminate(op);
    }

    fn continue_stmt(&mut self) -> Lowered<()> {
        let is_loop = |kind: &ControlKind| matches!(kind, ControlKind::Loop { .. });
        let Some(index) = self.controls.iter().rposition(|c| is_loop(&c.kind)) else {
            return Err(Failed);
        };
        if let ControlKind::Loop { step, condition } = self.controls[index].kind {
            if let Some(step) = step {
                self.effect(step)?;
            }
            if let Some(condition) = condition {
                self.leave_unless(condition, index)?;
            }
        }
        let op = Op::Continue { depth: self.depth_of(index), values: self.carried_values(index) };
        self.terminate(op);
        Ok(())
    }

    /// Leaves loop number `index` if `condition` does not hold.
    fn leave_unless(&mut self, condition: &'a Node, index: usize) -> Lowered<()> {
        if self.unit.eval(condition).is_some_and(|value| value != 0) {
            return Ok(());
        }
        let cond = self.cond(condition)?;
        self.at(condition.span, |f| {
            let done = f.op(Op::Un(UnOp::Not, cond), Type::BOOL);
            f.branch(
                done,
                None,
                &[],
                |f| {
                    f.leave(index);
                    Ok(Vec::new())
                },
                |_| Ok(Vec::new()),
            )
        })?;
        Ok(())
    }

    fn loop_stmt(&mut self, node: &'a Node) -> Lowered<()> {
        let present = |n: &'a Node| (!n.is_absent()).then_some(n);
        let parts = match (node.kind.as_str(), &node.inner[..]) {
            ("ForStmt", [init, _, condition, step, body]) => {
                if !init.is_absent() {
                    self.stmt(init);
                }
                let (condition, step) = (present(condition), present(step));
                LoopParts { span: node.span, condition, step, body, is_do: false }
            }
            ("WhileStmt", [condition, body]) => LoopParts {
                span: node.span,
                condition: Some(condition),
                step: None,
                body,
                is_do: false,
            },
            ("DoStmt", [body, condition]) => LoopParts {
                span: node.span,
                condition: Some(condition),
                step: None,
                body,
                is_do: true,
            },
            _ => return Err(Failed),
        };
        let parts = LoopParts { span: self.head_span(&parts), ..parts };
        let never_again = parts.condition.is_some_and(|c| self.unit.eval(c) == Some(0));
        if parts.is_do && never_again && !has_continue(parts.body) && !has_break(parts.body) {
            // `do { ... } while (0)`, as macros are written. A bound that is said must be one.
            if parts.body.inner.first().is_some_and(is_bound) || is_bound(parts.body) {
                self.bound(&parts)?;
            }
            self.loop_body(parts.body);
            return Ok(());
        }
        // Errors in the body are found even if the loop has no bound.
        let bound = self.bound(&parts);
        let failed = bound.is_err();
        let trips =
            self.emit_loop(&parts, bound.unwrap_or(Bound { max_trips: 1, counters: Vec::new() }));
        if failed { Err(Failed) } else { trips }
    }

    fn emit_loop(&mut self, parts: &LoopParts<'a>, bound: Bound) -> Lowered<()> {
        let changing: Vec<&Node> = parts
            .condition
            .into_iter()
            .chain(parts.step)
            .chain(std::iter::once(parts.body))
            .collect();
        let carried = self.assigned_in(&changing);
        let behind = parts.condition.filter(|_| parts.is_do);
        let kind = ControlKind::Loop { step: parts.step, condition: behind };
        let parts = *parts;
        let counters = bound.counters;
        let looped = self.trips(bound.max_trips, carried, kind, |f| {
            let index = f.controls.len() - 1;
            for counter in &counters {
                f.counters.insert((f.env[counter.var], counter.path.clone()), counter.ahead);
            }
            if let Some(condition) = parts.condition.filter(|_| !parts.is_do) {
                f.leave_unless(condition, index)?;
            }
            f.loop_body(parts.body);
            if f.reachable {
                if let Some(step) = parts.step {
                    f.effect(step)?;
                }
                if let Some(condition) = behind {
                    f.leave_unless(condition, index)?;
                }
            }
            Ok(())
        });
        for counter in counters {
            self.counters.insert((self.env[counter.var], counter.path), counter.behind);
        }
        looped
    }

    /// A loop's body without its NF_BOUND.
    fn loop_body(&mut self, body: &'a Node) {
        if is_bound(body) {
            return;
        }
        if body.kind != "CompoundStmt" {
            return self.stmt(body);
        }
        let skip = usize::from(body.inner.first().is_some_and(is_bound));
        self.block(&body.inner[skip..]);
    }

    /// The loop's head: from the keyword to where its body starts.
    fn head_span(&self, parts: &LoopParts) -> nicforge_ir::Span {
        let (whole, body) = (parts.span, parts.body.span);
        if parts.is_do {
            return nicforge_ir::Span { end: whole.start + 2, ..whole };
        }
        if body.file != whole.file || body.start <= whole.start {
            return whole;
        }
        let text = whole.file.map_or("", |file| self.unit.prog.files[file].text.as_str());
        let head = text.get(whole.start as usize..body.start as usize).unwrap_or_default();
        nicforge_ir::Span { end: whole.start + head.trim_end().len() as u32, ..whole }
    }
}

/// True if a `break` of this loop's or switch's own is in its body.
pub fn has_break(node: &Node) -> bool {
    match node.kind.as_str() {
        "BreakStmt" => true,
        "ForStmt" | "WhileStmt" | "DoStmt" | "SwitchStmt" => false,
        _ => node.inner.iter().any(has_break),
    }
}

/// The statement that leaves the expression that it is in.
fn leaving(expression: &Node) -> Option<&Node> {
    let mut labels = Vec::new();
    expression.walk(&mut |n| labels.extend((n.kind == "LabelStmt").then_some(n.member)));
    leaving_from(expression, &labels, (false, false))
}

/// The statement below a node that leaves; `labels` are inside, and a `break` or `continue` may be.
fn leaving_from<'n>(
    node: &'n Node,
    labels: &[u64],
    (breaks, continues): (bool, bool),
) -> Option<&'n Node> {
    let leaves = match node.kind.as_str() {
        "ReturnStmt" => true,
        "BreakStmt" => !breaks,
        "ContinueStmt" => !continues,
        "GotoStmt" => !labels.contains(&node.member),
        _ => false,
    };
    let inside = match node.kind.as_str() {
        "ForStmt" | "WhileStmt" | "DoStmt" => (true, true),
        "SwitchStmt" => (true, continues),
        _ => (breaks, continues),
    };
    let within = || node.inner.iter().find_map(|inner| leaving_from(inner, labels, inside));
    if leaves { Some(node) } else { within() }
}
