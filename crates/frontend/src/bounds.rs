//! Proving how often a loop's body runs.
//!
//! A loop is bounded if its condition compares an *induction variable* (a variable or a member of
//! one), which every way through a trip changes by a sum of constants in one direction
//! ([`steps`](crate::steps)), with a limit. With the variable's range on entry and the limit's
//! range, the number of trips follows; the variable must not wrap before the condition fails. One
//! conjunct of `a && b` suffices. The limit may change from trip to trip: only its range counts,
//! and that holds always.

use nicforge_ir::{Diagnostic, Proj, Span};

use crate::ast::Node;
use crate::conditions::{Changing, changing, conjuncts, exits, plain};
use crate::consts::limits;
use crate::ctypes::CType;
use crate::diagnostics::codes;
use crate::func::{FnLower, VarIndex};
use crate::intervals::Range;
use crate::steps::{Spot, Walk, has_continue, touches, writes};
use crate::trips::{Step, Test, mirrored, reach, test_of, trips};
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

/// A variable, or a member of one, that a loop counts in.
#[derive(Clone, Debug)]
pub struct Counter {
    pub var: VarIndex,
    /// Of the member.
    pub path: Vec<Proj>,
    /// Its range at the start of each trip, and behind the loop.
    pub ahead: Range,
    pub behind: Range,
}

/// Most trips by one condition, and what it counts in.
type Counted = (i128, Counter);

/// Changes of a place by trips.
struct Steps {
    /// The shortest and the longest step from trip to trip; `None` if there is no second one.
    each: Option<(Step, Step)>,
    /// The sums that any part of a trip may have come to.
    within: Option<Range>,
}

impl LoopParts<'_> {
    /// True if the loop may change the place that an expression is; also if it is none.
    pub fn change(&self, node: &Node) -> bool {
        let parts = || self.condition.into_iter().chain(self.step).chain([self.body]);
        Spot::of(node).is_none_or(|(spot, _)| parts().any(|part| touches(part, &spot)))
    }
}

/// Facts about a loop.
#[derive(Clone, Debug)]
pub struct Bound {
    pub max_trips: u32,
    pub counters: Vec<Counter>,
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
                "its condition does not compare a variable that every trip changes by a constant"
                    .to_string();
            let mut changes = false;
            for part in conjuncts(condition) {
                changes |= self.unit.may_change(&part);
                // What the test that ends the loop changes before it fails is in a trip of its own.
                let last = changes && !parts.is_do && changing(&part).is_none();
                match self.bound_by(&part, parts) {
                    Some(Ok((trips, counter))) => {
                        let trips = trips + i128::from(last);
                        best = Some(best.map_or(trips, |b| b.min(trips)));
                        counters.push(counter);
                    }
                    Some(Err(why)) => reason = why,
                    None => {}
                }
                if let Some((trips, both)) = self.bound_by_halving(&part, parts) {
                    let trips = trips + i128::from(last);
                    best = Some(best.map_or(trips, |b| b.min(trips)));
                    counters.extend(both);
                }
            }
        }
        for (condition, before) in exits(parts.body) {
            let (before, behind) = parts.body.inner.split_at(before);
            let changes = |stmt: &Node| changes_sides(stmt, &condition);
            // The value that a trip starts with is tested, or the one that it ends with.
            let moved = before.iter().any(changes);
            if moved && behind.iter().chain(parts.step).any(changes) {
                continue;
            }
            let tested = LoopParts { is_do: moved, ..*parts };
            if let Some(Ok((trips, counter))) = self.bound_by(&condition, &tested) {
                let begun = trips + i128::from(!moved);
                best = Some(best.map_or(begun, |b| b.min(begun)));
                counters.push(counter);
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
                Err(self.refuse(
                    codes::BOUND_MISUSE,
                    call.span,
                    message,
                    "give the largest number of trips",
                ))
            }
            None => {
                let help = "write a number, an enumerator or a constant";
                Err(self.refuse(codes::BOUND_MISUSE, call.span, "NF_BOUND needs a constant", help))
            }
        }
    }

    /// Trips by one conjunct of the condition; `None` if it has not the form of a bound.
    fn bound_by(&mut self, condition: &Node, parts: &LoopParts) -> Option<Result<Counted, String>> {
        match changing(condition) {
            Some(changing) => self.bound_by_changing(&changing, parts),
            None => self.bound_by_pure(condition, parts),
        }
    }

    /// Trips by `i-- > 0` or `--n`: those by the condition without the change, if that is made
    /// where trips end. The test that ends the loop changes the place as well, so it is in a trip
    /// of its own.
    fn bound_by_changing(
        &mut self,
        Changing { pure, change, first }: &Changing,
        parts: &LoopParts,
    ) -> Option<Result<Counted, String>> {
        let spot = Spot::counted(&change.inner[0])?;
        let once = parts.condition.is_some_and(|all| writes(all, &spot) == 1);
        if !once || parts.is_do && !first {
            return None;
        }
        let inner = parts.step.into_iter().chain([change]).cloned().collect();
        let step = Node { kind: "BinaryOperator".into(), inner, ..Node::default() };
        let is_do = parts.is_do || *first;
        let moved = LoopParts { condition: Some(pure), step: Some(&step), is_do, ..*parts };
        let counted = self.bound_by_pure(pure, &moved)?;
        let CType::Int { signed, bits, .. } = self.ctype(&change.inner[0]) else { return None };
        let whole = limits(bits, signed);
        // The last test changes it once more.
        let by = if change.opcode == "++" { 1 } else { -1 };
        let behind = |Counter { ahead, behind, .. }: &Counter| match *first {
            true => *behind,
            false => {
                let low = behind.0.min(ahead.0 + by);
                let high = behind.1.max(ahead.1 + by);
                if low < whole.0 || high > whole.1 { whole } else { (low, high) }
            }
        };
        Some(counted.map(|(trips, counter)| {
            let behind = behind(&counter);
            (trips + i128::from(!first), Counter { behind, ..counter })
        }))
    }

    fn bound_by_pure(
        &mut self,
        condition: &Node,
        parts: &LoopParts,
    ) -> Option<Result<Counted, String>> {
        let condition = condition.strip_casts();
        match (condition.kind.as_str(), condition.opcode.as_str(), &condition.inner[..]) {
            ("BinaryOperator", "<" | "<=" | ">" | ">=" | "!=", [left, right]) => {
                let test = test_of(&condition.opcode)?;
                let counts = |node: &Node| Spot::counted(node).is_some() && parts.change(node);
                let sides = [(left, test, right), (right, mirrored(test), left)];
                let mut refused = None;
                for (variable, test, limit) in sides.into_iter().filter(|side| counts(side.0)) {
                    match self.bound_by_side(variable, test, Some(limit), parts) {
                        Some(Err(why)) => refused = refused.or(Some(Err(why))),
                        Some(found) => return Some(found),
                        None => {}
                    }
                }
                refused
            }
            ("DeclRefExpr" | "MemberExpr", ..) => {
                self.bound_by_side(condition, Test::NotEqual, None, parts)
            }
            _ => None,
        }
    }

    /// Trips by the comparison of a variable with a limit, which is zero if there is none.
    fn bound_by_side(
        &mut self,
        variable: &Node,
        test: Test,
        limit: Option<&Node>,
        parts: &LoopParts,
    ) -> Option<Result<Counted, String>> {
        let spot = Spot::counted(variable)?;
        let (var, path) = self.part(&spot)?;
        let CType::Int { signed, bits, .. } = self.ctype(variable) else { return None };
        let place = variable.strip_casts();
        let CType::Int { signed: own_sign, bits: own_bits, .. } = self.ctype(place) else {
            return None;
        };
        let whole = match place.kind.as_str() {
            "MemberExpr" => self.range_of_member(place),
            _ => limits(own_bits, own_sign),
        };
        let steps = match self.steps(&spot, parts) {
            Ok(steps) => steps,
            Err(why) => return Some(Err(why)),
        };
        // A limit that changes may be stepped over by a test for inequality.
        let steady = limit.is_none_or(|node| {
            let known = Spot::counted(node).is_some_and(|spot| self.part(&spot).is_some());
            self.unit.eval(node).is_some() || known && !parts.change(node)
        });
        if test == Test::NotEqual && !steady {
            return Some(Err("the variable may step over the value it is compared with".into()));
        }
        let multiple = limit.map_or(1 << 63, |node| self.multiple_of(node));
        let start = self.range(variable);
        let start = (start.0.max(whole.0), start.1.min(whole.1));
        let limit = limit.map_or((0, 0), |node| {
            let coming = self.coming_limit(node, test, parts, start);
            coming.unwrap_or_else(|| self.range_without(node, &|place| parts.change(place)))
        });
        // A negative number compared with an unsigned one is a large one.
        if !signed && start.0 < 0 || limits(bits, signed).1 < limit.1 {
            return Some(Err(
                "a signed variable that may be negative is compared with an unsigned one".into(),
            ));
        }
        let Some((nearest, farthest)) = steps.each else {
            // No way leads to a second trip.
            return Some(Ok((1, Counter { var, path, ahead: start, behind: whole })));
        };
        if let (true, Step::Add(by)) = (parts.is_do, farthest)
            && (start.0 + by < whole.0 || start.1 + by > whole.1)
        {
            return Some(Err(
                "the first trip, which no condition precedes, may wrap the variable".into()
            ));
        }
        if nearest != farthest && test == Test::NotEqual {
            return Some(Err("the variable may step over the value it is compared with".into()));
        }
        // What is tested first: of a `do` loop the value behind the first trip.
        let (tested, begun) = match (parts.is_do, nearest, farthest) {
            (true, Step::Add(a), Step::Add(b)) => ((start.0 + a.min(b), start.1 + a.max(b)), 1),
            _ => (start, 0),
        };
        // Multiples of the step from 0 on are all met.
        let met = match (test, nearest) {
            (Test::NotEqual, Step::Add(by)) if tested == (0, 0) && by > 1 => {
                limit.0 >= 0 && i128::from(multiple) % by == 0
            }
            _ => false,
        };
        let test = if met { Test::Less } else { test };
        // The longest step must not wrap; the shortest takes the most trips.
        let counted = trips(tested, farthest, test, limit, whole)
            .and_then(|_| trips(tested, nearest, test, limit, whole))
            .map(|trips| trips + begun);
        // What passes the test; a test for inequality is met from one side.
        let pass = match test {
            Test::LessOrEqual | Test::GreaterOrEqual => limit,
            _ => (limit.0.saturating_add(1), limit.1.saturating_sub(1)),
        };
        let first = parts.is_do.then_some(start);
        let (ahead, behind) = reach(start, first, farthest, pass, steps.within, whole);
        Some(counted.map(|trips| (trips, Counter { var, path, ahead, behind })))
    }

    /// The range of a limit that trips bring nearer, as in `for (…; i < j; i++, j--)`: it is
    /// never farther than it begins, since what passes the test cannot wrap by a trip's changes.
    fn coming_limit(
        &mut self,
        node: &Node,
        test: Test,
        parts: &LoopParts,
        start: Range,
    ) -> Option<Range> {
        let spot = Spot::counted(node).filter(|_| !parts.is_do && parts.change(node))?;
        self.part(&spot)?;
        // Neither as itself nor as what is compared.
        let mut whole = (i128::MIN, i128::MAX);
        for node in [node, node.strip_casts()] {
            let CType::Int { signed, bits, .. } = self.ctype(node) else { return None };
            let of_type = limits(bits, signed);
            whole = (whole.0.max(of_type.0), whole.1.min(of_type.1));
        }
        let (down, up) = self.changes_within(&spot, parts).ok()?;
        let now = self.range(node);
        match test {
            Test::Less if up <= 0 && start.0 + 1 + down >= whole.0 => Some((whole.0, now.1)),
            Test::Greater if down >= 0 && start.1 - 1 + up <= whole.1 => Some((now.0, whole.1)),
            _ => None,
        }
    }

    /// The variable and the path of a place that loops count in.
    pub fn part(&self, spot: &Spot) -> Option<(VarIndex, Vec<Proj>)> {
        let var = *self.var_of.get(&spot.decl).filter(|var| !self.views.contains(var))?;
        let path: Option<Vec<Proj>> =
            spot.members.iter().map(|member| self.unit.field(*member).map(Proj::Field)).collect();
        Some((var, path?))
    }

    /// How trips change a place.
    fn steps(&mut self, spot: &Spot, parts: &LoopParts) -> Result<Steps, String> {
        if parts.condition.is_some_and(|condition| touches(condition, spot)) {
            return Err("its variable is changed by the condition".into());
        }
        let count: usize =
            parts.step.into_iter().chain([parts.body]).map(|node| writes(node, spot)).sum();
        if let (1, Some(step)) = (count, self.scaling(spot, parts)?) {
            return Ok(Steps { each: Some((step, step)), within: None });
        }
        let mut by = |node: &Node| self.addend(node, spot);
        let each = Walk { spot, by: &mut by }.of_trip(parts.body, parts.step)?;
        let within = Some(self.changes_within(spot, parts)?);
        let each = match each {
            Some((0, 0)) if count == 0 => return Err("no trip changes its variable".into()),
            Some((low, high)) if low > 0 => Some((Step::Add(low), Step::Add(high))),
            Some((low, high)) if high < 0 => Some((Step::Add(high), Step::Add(low))),
            Some(_) if has_continue(parts.body) => {
                return Err("`continue` may skip the statement that changes its variable".into());
            }
            Some(_) => return Err("some way through its body leaves its variable as it was".into()),
            None => None,
        };
        Ok(Steps { each, within })
    }

    /// The sums of constants that parts of a trip may change a place by.
    fn changes_within(&mut self, spot: &Spot, parts: &LoopParts) -> Result<Range, String> {
        let mut by = |node: &Node| self.addend(node, spot);
        let mut walk = Walk { spot, by: &mut by };
        let body = walk.at_most(parts.body)?;
        let step = parts.step.map_or(Ok((0, 0)), |step| walk.at_most(step))?;
        Ok((body.0.saturating_add(step.0), body.1.saturating_add(step.1)))
    }

    /// The constant that an assignment adds to the place.
    fn addend(&mut self, node: &Node, spot: &Spot) -> Option<i128> {
        match self.step_of(node, spot)? {
            Step::Add(by) => Some(by),
            _ => None,
        }
    }

    /// The one division, shift or multiplication of the place, if that is what every trip does to
    /// it.
    fn scaling(&mut self, spot: &Spot, parts: &LoopParts) -> Result<Option<Step>, String> {
        let mut found = None;
        for node in parts.step.into_iter().chain([parts.body]) {
            node.walk(&mut |n| found = found.or_else(|| self.step_of(n, spot)));
        }
        let Some(step) = found.filter(|step| !matches!(step, Step::Add(_))) else {
            return Ok(None);
        };
        // Counted as one, a change that every way makes has the interval from one to one.
        let mut once = |_: &Node| Some(1);
        let each = Walk { spot, by: &mut once }.of_trip(parts.body, parts.step)?;
        if parts.is_do && matches!(step, Step::DivideLess(_) | Step::Multiply(..)) {
            return Err("the first trip, which no condition precedes, may wrap the variable".into());
        }
        if each.is_none_or(|each| each == (1, 1)) {
            return Ok(Some(step));
        }
        Err("its variable is changed under a condition only".into())
    }

    /// Effect of an assignment to the place.
    fn step_of(&mut self, node: &Node, spot: &Spot) -> Option<Step> {
        if Spot::counted(node.inner.first()?)? != *spot {
            return None;
        }
        let constant = |f: &mut Self, node: &Node| f.unit.eval(node);
        match (node.kind.as_str(), node.opcode.as_str()) {
            ("UnaryOperator", "++") => Some(Step::Add(1)),
            ("UnaryOperator", "--") => Some(Step::Add(-1)),
            ("CompoundAssignOperator", "&=") => clears_lowest(node.inner.get(1)?, spot),
            ("CompoundAssignOperator", op) => {
                let by = constant(self, node.inner.get(1)?)?;
                step_by(op.trim_end_matches('='), by)
            }
            ("BinaryOperator", "=") => {
                let value = node.inner.get(1)?.strip_casts();
                let [left, right] = &value.inner[..] else { return None };
                if value.opcode == "&" && Spot::counted(left).as_ref() == Some(spot) {
                    return clears_lowest(right, spot);
                }
                if Spot::counted(left).as_ref() == Some(spot) {
                    let by = constant(self, right)?;
                    return step_by(&value.opcode, by);
                }
                if let Some(step) = self.multiplied(value, spot) {
                    return Some(step);
                }
                if value.opcode == "+" && Spot::counted(right).as_ref() == Some(spot) {
                    return constant(self, left).map(Step::Add);
                }
                None
            }
            _ => None,
        }
    }

    /// The step of `(i - 1) / n` and `i * n + m`.
    fn multiplied(&mut self, value: &Node, spot: &Spot) -> Option<Step> {
        let [left, right] = &value.inner[..] else { return None };
        let is_spot = |node: &Node| Spot::counted(node).as_ref() == Some(spot);
        let by = self.unit.eval(right);
        let inner = left.strip_casts();
        match (value.opcode.as_str(), &inner.inner[..], by) {
            ("/" | ">>", [place, one], Some(by)) if inner.opcode == "-" && is_spot(place) => {
                let by = if value.opcode == "/" { by } else { 1 << by.clamp(0, 64) };
                (self.unit.eval(one) == Some(1) && by >= 2).then_some(Step::DivideLess(by))
            }
            ("+", _, Some(more)) if more >= 0 => match self.multiplied(inner, spot)? {
                Step::Multiply(by, so_far) => Some(Step::Multiply(by, so_far + more)),
                _ => None,
            },
            ("*", _, _) if is_spot(right) => {
                let by = self.unit.eval(left).filter(|by| *by >= 2)?;
                Some(Step::Multiply(by, 0))
            }
            ("*" | "<<", _, Some(by)) if is_spot(left) => step_by(&value.opcode, by),
            _ => None,
        }
    }
}

/// True if a statement may change what a comparison compares.
fn changes_sides(stmt: &Node, comparison: &Node) -> bool {
    comparison.inner.iter().any(|side| {
        let side = plain(side).strip_casts();
        Spot::of(side).is_some_and(|(spot, _)| touches(stmt, &spot))
    })
}

/// The step of `x &= x - 1`, which takes no more trips than a shift by one.
fn clears_lowest(mask: &Node, spot: &Spot) -> Option<Step> {
    let mask = mask.strip_casts();
    let [left, right] = &mask.inner[..] else { return None };
    let one = right.strip_casts().value.as_deref() == Some("1");
    let less = mask.opcode == "-" && one && Spot::counted(left).as_ref() == Some(spot);
    less.then_some(Step::Shift(1))
}

fn step_by(opcode: &str, by: i128) -> Option<Step> {
    match opcode {
        "+" => Some(Step::Add(by)),
        "-" => Some(Step::Add(-by)),
        ">>" if by >= 1 => Some(Step::Shift(by)),
        "/" if by >= 2 => Some(Step::Divide(by)),
        "*" if by >= 2 => Some(Step::Multiply(by, 0)),
        "<<" if (1..64).contains(&by) => Some(Step::Multiply(1 << by, 0)),
        _ => None,
    }
}

/// True if a statement is NF_BOUND.
pub fn is_bound(node: &Node) -> bool {
    node.strip().callee().is_some_and(|callee| callee.name == "__nf_bound")
}
