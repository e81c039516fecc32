//! `goto` forward, to a label directly in a block around it: `goto out;`, as C has it for errors.
//!
//! Statements in front of such a label are a loop of one trip, which a `goto` leaves. Passes turn
//! that into branches. Of two labels in a block the first one's loop is inside the other's.

use crate::ast::Node;
use crate::diagnostics::codes;
use crate::func::{ControlKind, FnLower, VarKind};
use crate::unit::Lowered;

impl<'a> FnLower<'_, 'a, '_> {
    /// The statements of a block.
    pub fn block(&mut self, stmts: &'a [Node]) {
        let is_target = |at: &usize| {
            let label = &stmts[*at];
            label.kind == "LabelStmt" && stmts[..*at].iter().any(|stmt| goes_to(stmt, label))
        };
        let Some(at) = (0..stmts.len()).rev().find(is_target) else {
            return stmts.iter().for_each(|stmt| self.stmt(stmt));
        };
        let (before, behind) = stmts.split_at(at);
        self.failed |= self.up_to(&behind[0], before).is_err();
        behind.iter().for_each(|stmt| self.stmt(stmt));
    }

    /// The statements in front of a label.
    fn up_to(&mut self, label: &'a Node, before: &'a [Node]) -> Lowered<()> {
        // What they declare is in scope behind the label.
        self.declare_scope(before);
        let mut carried = self.assigned_in(&before.iter().collect::<Vec<_>>());
        let declared = before.iter().flat_map(|stmt| &stmt.inner);
        carried.extend(declared.filter_map(|decl| self.var_of.get(&decl.id)));
        carried.retain(|var| self.vars[*var].kind != VarKind::Packet);
        carried.sort_unstable();
        carried.dedup();
        self.trips(1, carried, ControlKind::Label(label), |f| {
            f.block(before);
            if f.reachable {
                f.leave(f.controls.len() - 1);
            }
            Ok(())
        })
    }

    /// Declares the variables of a scope, wherever in it they are declared.
    pub fn declare_scope(&mut self, stmts: &'a [Node]) {
        for stmt in stmts {
            let mut stmt = stmt;
            while let ("CaseStmt" | "DefaultStmt", Some(inner)) =
                (stmt.kind.as_str(), stmt.inner.last())
            {
                stmt = inner;
            }
            let declares = |n: &&Node| n.kind == "VarDecl" && n.storage.is_empty();
            let known = |n: &&Node| self.var_of.contains_key(&n.id);
            let decls: Vec<&Node> = match stmt.kind.as_str() {
                "DeclStmt" => stmt.inner.iter().filter(declares).filter(|n| !known(n)).collect(),
                _ => continue,
            };
            for decl in decls {
                let ty = self.unit.ctype(&decl.ty);
                // A type that values cannot have is reported where the declaration is lowered.
                if let Some(ty) = self.unit.ir_type(&ty) {
                    let zero = self.at(decl.span, |f| f.zero(ty));
                    self.declare(decl.id, &decl.name, ty, VarKind::Local, zero);
                }
            }
        }
    }

    pub fn goto_stmt(&mut self, node: &'a Node) -> Lowered<()> {
        let is_there = |kind: &ControlKind| match kind {
            ControlKind::Label(label) => names(label, node.member),
            ControlKind::Loop { .. } | ControlKind::Switch => false,
        };
        match self.controls.iter().rposition(|control| is_there(&control.kind)) {
            Some(index) => self.leave(index),
            None => {
                let message = "this goto does not lead forward to a label in a block around it";
                let help =
                    "write a loop to go back; put the label ahead, in braces around the goto";
                return Err(self.refuse(codes::GOTO, node.span, message, help));
            }
        }
        Ok(())
    }
}

/// True if a labelled statement, or the one that it labels, has this label.
pub fn names(label: &Node, declaration: u64) -> bool {
    label.kind == "LabelStmt"
        && (label.member == declaration
            || label.inner.last().is_some_and(|inner| names(inner, declaration)))
}

/// The labels that `goto`s below a node lead to.
pub fn gotos(node: &Node) -> Vec<u64> {
    let mut found = Vec::new();
    node.walk(&mut |n| found.extend((n.kind == "GotoStmt").then_some(n.member)));
    found
}

fn goes_to(stmt: &Node, label: &Node) -> bool {
    gotos(stmt).into_iter().any(|declaration| names(label, declaration))
}

/// True if a `goto` in a statement leads out of it, to a label of the block that it is in or of one
/// inside that.
pub fn leads_on(stmt: &Node, block: &Node) -> bool {
    let labels = |node: &Node| {
        let mut found = Vec::new();
        node.walk(&mut |n| found.extend((n.kind == "LabelStmt").then_some(n.member)));
        found
    };
    let gotos = gotos(stmt);
    if gotos.is_empty() {
        return false;
    }
    let (inside, all) = (labels(stmt), labels(block));
    gotos.iter().any(|label| all.contains(label) && !inside.contains(label))
}
