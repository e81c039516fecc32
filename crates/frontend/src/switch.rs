//! `switch`.
//!
//! The body is cut into *groups*: statements behind one or more labels. If every group ends by
//! leaving (or is the last) and no other `break` is inside, the switch is a chain of `if`s.
//! Otherwise it is a loop of one trip that `break` leaves, with a flag that says whether control
//! falls through into the next group: `if (fall || value matches) { group; fall = 1; }`.

use nicforge_ir::{BinOp, CmpOp, Op, Type, UnOp, ValueId};

use crate::ast::Node;
use crate::consts::wrap;
use crate::diagnostics::codes;
use crate::func::{ControlKind, FnLower, VarKind};
use crate::stmt::has_break;
use crate::unit::{Failed, Lowered};

/// Groups of the longest `if` chain: each nests in the `else` of the one before.
const MAX_CHAIN: usize = 32;

/// A label: `case low:`, `case low ... high:` or `default:`.
struct Label<'a> {
    node: &'a Node,
    /// `None` for `default`.
    values: Option<(i128, i128)>,
}

struct Group<'a> {
    labels: Vec<Label<'a>>,
    stmts: Vec<&'a Node>,
}

impl Group<'_> {
    fn is_default(&self) -> bool {
        self.labels.iter().any(|label| label.values.is_none())
    }
}

impl<'a> FnLower<'_, 'a, '_> {
    pub fn switch_stmt(&mut self, node: &'a Node) -> Lowered<()> {
        let [selector, body] = &node.inner[..] else { return Err(Failed) };
        let value = self.expr(selector)?;
        // They are in scope in all groups, wherever they are declared.
        self.declare_scope(&body.inner);
        let groups = self.groups(body)?;
        if groups.len() <= MAX_CHAIN && is_chain(&groups) {
            self.chain(value, &groups, 0)
        } else {
            self.falling(value, node, &groups)
        }
    }

    fn groups(&mut self, body: &'a Node) -> Lowered<Vec<Group<'a>>> {
        let mut groups: Vec<Group> = Vec::new();
        let single = std::slice::from_ref(body);
        let stmts = if body.kind == "CompoundStmt" { &body.inner[..] } else { single };
        for stmt in stmts {
            let mut stmt = stmt;
            let mut labels = Vec::new();
            // `case 1: case 2: x;` nests: each label holds what follows it.
            while matches!(stmt.kind.as_str(), "CaseStmt" | "DefaultStmt") {
                labels.push(self.label(stmt)?);
                match stmt.inner.last() {
                    Some(inner) => stmt = inner,
                    None => return Err(Failed),
                }
            }
            if !labels.is_empty() {
                match groups.last_mut() {
                    // Labels behind labels without a statement are one group.
                    Some(group) if group.stmts.is_empty() => group.labels.extend(labels),
                    _ => groups.push(Group { labels, stmts: Vec::new() }),
                }
            }
            // Statements before the first label are never reached.
            if let Some(group) = groups.last_mut()
                && stmt.kind != "NullStmt"
            {
                group.stmts.push(stmt);
            }
        }
        Ok(groups)
    }

    fn label(&mut self, node: &'a Node) -> Lowered<Label<'a>> {
        if node.kind == "DefaultStmt" {
            return Ok(Label { node, values: None });
        }
        let low = self.unit.eval(&node.inner[0]);
        let high = if node.flags.gnu_range { self.unit.eval(&node.inner[1]) } else { low };
        match (low, high) {
            (Some(low), Some(high)) => Ok(Label { node, values: Some((low, high)) }),
            _ => {
                let help =
                    "write a number, an enumerator or a constant; for network order NF_HTONS(...)";
                Err(self.refuse(
                    codes::SWITCH_SHAPE,
                    node.inner[0].span,
                    "a case label must be constant",
                    help,
                ))
            }
        }
    }

    /// A value that is true if `value` matches a label of the group.
    fn matches(&mut self, value: ValueId, group: &Group<'a>) -> ValueId {
        let mut any = None;
        for label in &group.labels {
            let Some((low, high)) = label.values else { continue };
            let hit = self.at(label.node.inner[0].span, |f| f.matches_label(value, low, high));
            any = Some(match any {
                None => hit,
                Some(before) => self.op(Op::Bin(BinOp::Or, before, hit), Type::BOOL),
            });
        }
        any.unwrap_or_else(|| self.b.int(0, Type::BOOL))
    }

    fn matches_label(&mut self, value: ValueId, low: i128, high: i128) -> ValueId {
        let ty = self.b.body.ty(value);
        if low > high {
            return self.b.int(0, Type::BOOL);
        }
        let (bits, signed) = (ty.bits().unwrap_or(64), ty.is_signed());
        let low_value = self.b.int(wrap(low, bits, signed) as u64, ty);
        if low == high {
            return self.b.cmp(CmpOp::Eq, value, low_value);
        }
        let high_value = self.b.int(wrap(high, bits, signed) as u64, ty);
        let above = self.b.cmp(CmpOp::Ge, value, low_value);
        let below = self.b.cmp(CmpOp::Le, value, high_value);
        self.op(Op::Bin(BinOp::And, above, below), Type::BOOL)
    }

    /// Groups from `from` on as nested `if`s; the default group is the last `else`, wherever it
    /// stands.
    fn chain(&mut self, value: ValueId, groups: &[Group<'a>], from: usize) -> Lowered<()> {
        let Some(next) = (from..groups.len()).find(|g| !groups[*g].is_default()) else {
            if let Some(default) = groups.iter().find(|g| g.is_default()) {
                self.group_body(default);
            }
            return Ok(());
        };
        let cond = self.matches(value, &groups[next]);
        let then = |f: &mut Self| {
            f.group_body(&groups[next]);
            Ok(Vec::new())
        };
        let other = |f: &mut Self| f.chain(value, groups, next + 1).map(|()| Vec::new());
        self.branch(cond, None, &[], then, other).map(|_| ())
    }

    /// A group's statements without the `break` that ends it.
    fn group_body(&mut self, group: &Group<'a>) {
        for stmt in &group.stmts {
            match stmt.kind.as_str() {
                "BreakStmt" => return,
                // `case 1: { ...; break; }`
                "CompoundStmt" if ends_in_break(stmt) => {
                    let count = stmt.inner.len() - 1;
                    stmt.inner[..count].iter().for_each(|inner| self.stmt(inner));
                    return;
                }
                _ => self.stmt(stmt),
            }
        }
    }

    fn falling(&mut self, value: ValueId, node: &'a Node, groups: &[Group<'a>]) -> Lowered<()> {
        let mut none_matches = None;
        let mut conds = Vec::new();
        for group in groups {
            let cond = self.matches(value, group);
            conds.push(cond);
            none_matches = Some(match none_matches {
                None => cond,
                Some(before) => self.op(Op::Bin(BinOp::Or, before, cond), Type::BOOL),
            });
        }
        let Some(any) = none_matches else { return Ok(()) };
        let none = self.op(Op::Un(UnOp::Not, any), Type::BOOL);
        // The flag is a variable like others, so that the merges below see it. Its id cannot be a
        // declaration's.
        let start = self.b.int(0, Type::BOOL);
        let flag = self.declare(u64::MAX, "fall", Type::BOOL, VarKind::Local, start);
        let stmts: Vec<&Node> = vec![&node.inner[1]];
        let carried = self.assigned_in(&stmts);
        let result = self.trips(1, carried, ControlKind::Switch, |f| {
            let mut result = Ok(());
            for (group, cond) in groups.iter().zip(conds) {
                if !f.reachable {
                    break;
                }
                let mut enter = cond;
                if group.is_default() {
                    enter = f.op(Op::Bin(BinOp::Or, enter, none), Type::BOOL);
                }
                enter = f.op(Op::Bin(BinOp::Or, f.env[flag], enter), Type::BOOL);
                let body = |f: &mut Self| {
                    group.stmts.iter().for_each(|stmt| f.stmt(stmt));
                    if f.reachable {
                        let one = f.b.int(1, Type::BOOL);
                        f.assign(flag, one);
                    }
                    Ok(Vec::new())
                };
                result =
                    result.and(f.branch(enter, None, &[], body, |_| Ok(Vec::new())).map(|_| ()));
            }
            result
        });
        self.var_of.remove(&u64::MAX);
        result
    }
}

/// True if the groups are an `if` chain: none falls into the next, and `break` ends groups only.
fn is_chain(groups: &[Group]) -> bool {
    groups.iter().enumerate().all(|(number, group)| {
        let leaves = group.stmts.last().is_some_and(|last| always_leaves(last));
        let inner_breaks = group.stmts.iter().any(|stmt| match stmt.kind.as_str() {
            "BreakStmt" => false,
            "CompoundStmt" if ends_in_break(stmt) => {
                stmt.inner[..stmt.inner.len() - 1].iter().any(has_break)
            }
            _ => has_break(stmt),
        });
        (leaves || number + 1 == groups.len()) && !inner_breaks
    })
}

fn ends_in_break(stmt: &Node) -> bool {
    stmt.inner.last().is_some_and(|last| last.kind == "BreakStmt")
}

/// True if control never gets behind a statement.
fn always_leaves(stmt: &Node) -> bool {
    match stmt.kind.as_str() {
        "BreakStmt" | "ReturnStmt" | "ContinueStmt" | "GotoStmt" => true,
        "CompoundStmt" => stmt.inner.last().is_some_and(always_leaves),
        "IfStmt" => stmt.inner.len() == 3 && stmt.inner[1..].iter().all(always_leaves),
        _ => false,
    }
}
