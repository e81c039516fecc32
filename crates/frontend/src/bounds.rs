//! Proving how often a loop's body runs.
//!
//! A loop is bounded if its condition compares an *induction variable*, which one statement changes by a constant on
//! every trip, with a limit. With the variable's range on entry and the limit's range, the number of trips follows; the
//! variable must not wrap before the condition fails. One conjunct of `a && b` suffices. The limit may change from trip
//! to trip: only its range counts, and that holds always.

use std::collections::HashSet;

use nicforge_ir::{Diagnostic, Span};

use crate::ast::Node;
use crate::consts::limits;
use crate::ctypes::CType;
use crate::diagnostics::codes;
use crate::func::{FnLower, VarIndex, assigned_decls, root_decl};
use crate::ranges::Range;
use crate::unit::Lowered;

/// Most trips a loop may have: more would take longer than any packet may.
pub const MAX_TRIPS: i128 = 65_536;

/// The parts of a C loop.
#[derive(Clone, Copy)]
pub struct LoopParts<'a> {
    /// The keyword, or all of the head.
    pub span: Span,
    pub condition: Option<&'a Node>,
    pub step: Option<&'a Node>,
    pub body: &'a Node,
    /// The condition stands behind the body.
    pub is_do: bool,
}

/// Most trips by one condition, and its variable's range.
type Counted = (i128, (VarIndex, Range));

/// What is known of a loop.
#[derive(Clone, Debug)]
pub struct Bound {
    pub max_trips: u32,
    /// Induction variables and their ranges at the start of each trip.
    pub counters: Vec<(VarIndex, Range)>,
}

/// How a trip changes the induction variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Add(i128),
    /// `>>=`, by bits.
    Shift(i128),
    /// `/=`
    Divide(i128),
}

/// How the induction variable compares with the limit while the loop goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    NotEqual,
}

/// Trips of a loop whose variable starts in `start`, changes by `step` while `test` against a limit in `limit` holds;
/// `whole` is the range of the variable's type. An error says why there is no bound.
pub fn trips(start: Range, step: Step, test: Test, limit: Range, whole: Range) -> Result<i128, String> {
    let up_to = |value: i128, by: i128| if value <= 0 { 0 } else { (value + by - 1) / by };
    match (step, test) {
        (Step::Add(0), _) => Err("the variable does not change".into()),
        (Step::Add(by), Test::Less | Test::LessOrEqual) if by > 0 => {
            let end = if test == Test::Less { limit.1 } else { limit.1 + 1 };
            if end - 1 + by > whole.1 {
                return Err(format!(
                    "the limit can be {}, and the variable would wrap before it ends",
                    limit.1
                ));
            }
            Ok(up_to(end - start.0, by))
        }
        (Step::Add(by), Test::Greater | Test::GreaterOrEqual) if by < 0 => {
            let end = if test == Test::Greater { limit.0 } else { limit.0 - 1 };
            if end + 1 + by < whole.0 {
                return Err(format!(
                    "the limit can be {}, and the variable would wrap before it ends",
                    limit.0
                ));
            }
            Ok(up_to(start.1 - end, -by))
        }
        (Step::Add(1), Test::NotEqual) if start.1 <= limit.0 => Ok(limit.1 - start.0),
        (Step::Add(-1), Test::NotEqual) if start.0 >= limit.1 => Ok(start.1 - limit.0),
        (Step::Add(by), Test::NotEqual)
            if start.0 == start.1
                && limit.0 == limit.1
                && (limit.0 - start.0) % by == 0
                && (limit.0 - start.0) / by >= 0 =>
        {
            Ok((limit.0 - start.0) / by)
        }
        (Step::Add(_), Test::NotEqual) => {
            Err("the variable may step over the value it is compared with".into())
        }
        (Step::Add(_), _) => Err("the variable moves away from the limit".into()),
        (Step::Shift(_) | Step::Divide(_), Test::NotEqual | Test::Greater)
            if start.0 >= 0 && limit.0 >= 0 =>
        {
            if test == Test::NotEqual && limit != (0, 0) {
                return Err("the variable may step over the value it is compared with".into());
            }
            let (mut value, mut count) = (start.1, 0);
            while value > 0 {
                value = match step {
                    Step::Shift(by) => value >> by.clamp(0, 127),
                    Step::Divide(by) => value / by,
                    Step::Add(_) => 0,
                };
                count += 1;
            }
            Ok(count)
        }
        _ => Err("the variable does not reach the limit".into()),
    }
}

impl<'a> FnLower<'_, 'a, '_> {
    /// Most trips of a loop about to be entered.
    ///
    /// # Errors
    /// Reports loops without a bound, or with one that is too large.
    pub fn bound(&mut self, parts: &LoopParts<'a>) -> Lowered<Bound> {
        let mut counters = Vec::new();
        if let Some(max_trips) = self.declared_bound(parts.body)? {
            return Ok(Bound { max_trips, counters });
        }
        let mut reason = "it has no condition".to_string();
        let mut best: Option<i128> = None;
        if let Some(condition) = parts.condition {
            if self.unit.eval(condition) == Some(0) {
                return Ok(Bound { max_trips: 1, counters });
            }
            reason =
                "its condition does not compare a variable that every trip changes by a constant".to_string();
            let mut conjuncts = vec![condition.strip()];
            while let Some(part) = conjuncts.pop() {
                if part.opcode == "&&" {
                    conjuncts.extend(part.inner.iter().map(Node::strip));
                    continue;
                }
                match self.bound_by(part, parts) {
                    Some(Ok((trips, counter))) => {
                        best = Some(best.map_or(trips, |b| b.min(trips)));
                        counters.push(counter);
                    }
                    Some(Err(why)) => reason = why,
                    None => {}
                }
            }
        }
        match best {
            Some(trips) if trips > MAX_TRIPS => {
                let diagnostic = Diagnostic::error(
                    codes::LONG_LOOP.id,
                    parts.span,
                    format!("this loop may run {trips} times, and {MAX_TRIPS} are the most"),
                )
                .help("limit it: compare with a constant as well, or mask the limit (`n & 63`)")
                .help("if it never runs so often, say NF_BOUND(n) as the body's first statement");
                Err(self.report(diagnostic))
            }
            Some(trips) => Ok(Bound { max_trips: trips.max(1) as u32, counters }),
            None => {
                let diagnostic = Diagnostic::error(
                    codes::UNBOUNDED.id,
                    parts.span,
                    "cannot see how often this loop runs at most",
                )
                .note(reason)
                .help("count to a constant: `for (int i = 0; i < 16; i++)`")
                .help("or say NF_BOUND(n) as the body's first statement: it ends after n trips");
                Err(self.report(diagnostic))
            }
        }
    }

    /// The bound that NF_BOUND declares.
    pub fn declared_bound(&mut self, body: &'a Node) -> Lowered<Option<u32>> {
        let first = if body.kind == "CompoundStmt" { body.inner.first() } else { Some(body) };
        let Some(call) = first.filter(|n| is_bound(n)) else { return Ok(None) };
        match self.unit.eval(&call.inner[1]) {
            Some(trips @ 1..=MAX_TRIPS) => Ok(Some(trips as u32)),
            Some(trips) => {
                let message = format!("a loop may run 1 to {MAX_TRIPS} times, not {trips}");
                Err(self.refuse(codes::BOUND_MISUSE, call.span, message, "give the largest number of trips"))
            }
            None => {
                let help = "write a number, an enumerator or a constant";
                Err(self.refuse(codes::BOUND_MISUSE, call.span, "NF_BOUND needs a constant", help))
            }
        }
    }

    /// Trips by one conjunct of the condition; `None` if it has not the form of a bound.
    fn bound_by(&mut self, condition: &Node, parts: &LoopParts) -> Option<Result<Counted, String>> {
        let condition = condition.strip_casts();
        let (variable, test, limit) = match (condition.kind.as_str(), condition.opcode.as_str()) {
            ("BinaryOperator", "<" | "<=" | ">" | ">=" | "!=") => {
                let [left, right] = &condition.inner[..] else { return None };
                let test = test_of(&condition.opcode)?;
                if self.changes_in(left, parts) {
                    (left, test, Some(right))
                } else if self.changes_in(right, parts) {
                    (right, mirrored(test), Some(left))
                } else {
                    return None;
                }
            }
            ("DeclRefExpr", _) => (condition, Test::NotEqual, None),
            _ => return None,
        };
        let decl = variable_of(variable)?;
        let var = *self.var_of.get(&decl)?;
        let whole = match self.vars[var].ty {
            nicforge_ir::Type::Int { bits, signed } => limits(bits, signed),
            _ => return None,
        };
        let step = match self.only_step(decl, parts) {
            Ok(step) => step,
            Err(why) => return Some(Err(why)),
        };
        let mut changed = HashSet::new();
        for node in parts.condition.iter().chain(&parts.step).chain(std::iter::once(&parts.body)) {
            assigned_decls(node, &mut changed);
        }
        // A limit that changes may be stepped over by a test for inequality.
        let steady = limit.is_none_or(|node| {
            self.unit.eval(node).is_some() || variable_of(node).is_some_and(|decl| !changed.contains(&decl))
        });
        if test == Test::NotEqual && !steady {
            return Some(Err("the variable may step over the value it is compared with".into()));
        }
        let limit = limit.map_or((0, 0), |node| self.range_without(node, &|decl| changed.contains(&decl)));
        let start = self.range_of_value(self.env[var]);
        // A negative number compared with an unsigned one is a large one.
        let CType::Int { signed, bits, .. } = self.ctype(variable) else { return None };
        if !signed && start.0 < 0 || limits(bits, signed).1 < limit.1 {
            return Some(Err(
                "a signed variable that may be negative is compared with an unsigned one".into()
            ));
        }
        if let (true, Step::Add(by)) = (parts.is_do, step)
            && (start.0 + by < whole.0 || start.1 + by > whole.1)
        {
            return Some(Err("the first trip, which no condition precedes, may wrap the variable".into()));
        }
        // Within the proved number of trips the variable does not wrap, so it moves in one direction.
        let moves = match step {
            Step::Add(by) if by > 0 => (start.0, whole.1),
            _ => (whole.0, start.1),
        };
        Some(trips(start, step, test, limit, whole).map(|trips| (trips, (var, moves))))
    }

    /// Whether an operand of the condition is a variable that the loop changes.
    fn changes_in(&self, node: &Node, parts: &LoopParts) -> bool {
        let Some(decl) = variable_of(node) else { return false };
        let mut changed = HashSet::new();
        for part in parts.step.iter().chain(std::iter::once(&parts.body)) {
            assigned_decls(part, &mut changed);
        }
        changed.contains(&decl)
    }

    /// The one change every trip makes to a variable.
    fn only_step(&mut self, decl: u64, parts: &LoopParts) -> Result<Step, String> {
        let mut changes = 0;
        for part in parts.condition.iter().chain(&parts.step).chain(std::iter::once(&parts.body)) {
            part.walk(&mut |n| changes += usize::from(changes_decl(n, decl)));
        }
        if changes != 1 {
            return Err("its variable is changed at several places".into());
        }
        let mut places: Vec<&Node> = parts.step.into_iter().collect();
        if parts.step.is_none_or(|step| !subtree_changes(step, decl)) {
            if has_continue(parts.body) {
                return Err("`continue` may skip the statement that changes its variable".into());
            }
            places = match parts.body.kind.as_str() {
                "CompoundStmt" => parts.body.inner.iter().collect(),
                _ => vec![parts.body],
            };
        }
        while let Some(place) = places.pop() {
            let place = place.strip();
            if place.opcode == "," {
                places.extend(&place.inner);
            } else if changes_decl(place, decl) {
                return self.step_of(place, decl).ok_or("its variable does not change by a constant".into());
            }
        }
        Err("its variable is changed under a condition only".into())
    }

    fn step_of(&mut self, node: &Node, decl: u64) -> Option<Step> {
        let constant = |f: &mut Self, node: &Node| f.unit.eval(node);
        match (node.kind.as_str(), node.opcode.as_str()) {
            ("UnaryOperator", "++") => Some(Step::Add(1)),
            ("UnaryOperator", "--") => Some(Step::Add(-1)),
            ("CompoundAssignOperator", op) => {
                let by = constant(self, node.inner.get(1)?)?;
                step_by(op.trim_end_matches('='), by)
            }
            ("BinaryOperator", "=") => {
                let value = node.inner.get(1)?.strip_casts();
                let [left, right] = &value.inner[..] else { return None };
                if variable_of(left) == Some(decl) {
                    let by = constant(self, right)?;
                    return step_by(&value.opcode, by);
                }
                if value.opcode == "+" && variable_of(right) == Some(decl) {
                    return constant(self, left).map(Step::Add);
                }
                None
            }
            _ => None,
        }
    }
}

fn step_by(opcode: &str, by: i128) -> Option<Step> {
    match opcode {
        "+" => Some(Step::Add(by)),
        "-" => Some(Step::Add(-by)),
        ">>" if by >= 1 => Some(Step::Shift(by)),
        "/" if by >= 2 => Some(Step::Divide(by)),
        _ => None,
    }
}

/// Whether a statement is NF_BOUND.
pub fn is_bound(node: &Node) -> bool {
    node.strip().callee().is_some_and(|callee| callee.name == "__nf_bound")
}

/// The variable an expression is, conversions aside.
fn variable_of(node: &Node) -> Option<u64> {
    let node = node.strip_casts();
    (node.kind == "DeclRefExpr").then(|| node.referenced.as_ref().map(|r| r.id)).flatten()
}

fn changes_decl(node: &Node, decl: u64) -> bool {
    let target = match (node.kind.as_str(), node.opcode.as_str()) {
        ("BinaryOperator", "=") | ("CompoundAssignOperator", _) | ("UnaryOperator", "++" | "--" | "&") => {
            node.inner.first()
        }
        _ => None,
    };
    target.and_then(root_decl) == Some(decl)
}

fn subtree_changes(node: &Node, decl: u64) -> bool {
    let mut found = false;
    node.walk(&mut |n| found |= changes_decl(n, decl));
    found
}

/// Whether a `continue` of this loop's own is in its body.
pub fn has_continue(node: &Node) -> bool {
    match node.kind.as_str() {
        "ContinueStmt" => true,
        "ForStmt" | "WhileStmt" | "DoStmt" => false,
        _ => node.inner.iter().any(has_continue),
    }
}

fn test_of(opcode: &str) -> Option<Test> {
    Some(match opcode {
        "<" => Test::Less,
        "<=" => Test::LessOrEqual,
        ">" => Test::Greater,
        ">=" => Test::GreaterOrEqual,
        "!=" => Test::NotEqual,
        _ => return None,
    })
}

fn mirrored(test: Test) -> Test {
    match test {
        Test::Less => Test::Greater,
        Test::LessOrEqual => Test::GreaterOrEqual,
        Test::Greater => Test::Less,
        Test::GreaterOrEqual => Test::LessOrEqual,
        Test::NotEqual => Test::NotEqual,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const I32: Range = (-(1 << 31), (1 << 31) - 1);
    const U8: Range = (0, 255);

    /// Trips by running the loop.
    fn run(start: i128, step: Step, test: Test, limit: i128) -> i128 {
        let (mut value, mut count) = (start, 0);
        let holds = |value: i128| match test {
            Test::Less => value < limit,
            Test::LessOrEqual => value <= limit,
            Test::Greater => value > limit,
            Test::GreaterOrEqual => value >= limit,
            Test::NotEqual => value != limit,
        };
        while holds(value) {
            value = match step {
                Step::Add(by) => value + by,
                Step::Shift(by) => value >> by,
                Step::Divide(by) => value / by,
            };
            count += 1;
            assert!(count < 10_000, "endless");
        }
        count
    }

    #[test]
    fn constant_loops_are_counted_exactly() {
        for (start, step, test, limit) in [
            (0, Step::Add(1), Test::Less, 10),
            (0, Step::Add(3), Test::Less, 10),
            (0, Step::Add(1), Test::LessOrEqual, 10),
            (10, Step::Add(-1), Test::Greater, 0),
            (10, Step::Add(-3), Test::GreaterOrEqual, 0),
            (0, Step::Add(2), Test::NotEqual, 10),
            (10, Step::Add(-1), Test::NotEqual, 0),
            (100, Step::Shift(1), Test::NotEqual, 0),
            (100, Step::Divide(10), Test::Greater, 0),
            (5, Step::Add(1), Test::Less, 3),
        ] {
            let found = trips((start, start), step, test, (limit, limit), I32);
            assert_eq!(found, Ok(run(start, step, test, limit)), "{start} {step:?} {test:?} {limit}");
        }
    }

    #[test]
    fn wrapping_loops_have_no_bound() {
        assert!(trips((0, 0), Step::Add(1), Test::Less, (0, 256), U8).is_err());
        assert!(trips((0, 0), Step::Add(1), Test::LessOrEqual, (0, 255), U8).is_err());
        assert!(trips((10, 10), Step::Add(-1), Test::GreaterOrEqual, (0, 0), U8).is_err());
        assert!(trips((0, 0), Step::Add(2), Test::NotEqual, (5, 5), I32).is_err());
        assert!(trips((0, 0), Step::Add(-1), Test::Less, (5, 5), I32).is_err());
        assert_eq!(trips((0, 0), Step::Add(1), Test::Less, (0, 255), U8), Ok(255));
    }

    #[test]
    fn ranges_give_the_worst_case() {
        assert_eq!(trips((2, 4), Step::Add(1), Test::Less, (0, 15), I32), Ok(13));
        assert_eq!(trips((0, 9), Step::Add(-1), Test::NotEqual, (0, 0), I32), Ok(9));
    }
}
