//! Loops that halve what lies between two variables, as binary searches do:
//! `while (lo < hi) { mid = (lo + hi) / 2; if (…) lo = mid + 1; else hi = mid; }`.
//!
//! Every way through a trip sets one of both variables to the middle, or beyond it, so that at most
//! half of what was between them is left.

use std::collections::HashSet;

use crate::ast::Node;
use crate::bounds::{Counter, LoopParts};
use crate::consts::limits;
use crate::ctypes::CType;
use crate::func::FnLower;
use crate::intervals::Range;
use crate::steps::{Spot, Walk, touches, writes};

/// Comparison under which such a loop goes on.
#[derive(Clone, Copy, PartialEq)]
enum Between {
    /// `lo < hi`
    Less,
    /// `lo <= hi`
    LessOrEqual,
    /// `hi - lo > 1`, `lo + 1 < hi`
    Apart,
}

impl<'a> FnLower<'_, 'a, '_> {
    /// Most trips of such a loop, and what it counts in; `None` if it is none, or may wrap.
    pub fn bound_by_halving(
        &mut self,
        condition: &Node,
        parts: &LoopParts,
    ) -> Option<(i128, [Counter; 2])> {
        let (between, lo, hi) = self.between(condition)?;
        let (low, high) = (Spot::counted(&lo)?, Spot::counted(&hi)?);
        // Members of structs are not taken for one another.
        let plain = low.members.is_empty() && high.members.is_empty();
        if parts.is_do || parts.step.is_some() || low == high || !plain {
            return None;
        }
        let tested = parts.condition?;
        if touches(tested, &low) || touches(tested, &high) {
            return None;
        }
        let (mid, of_mid) = self.middle(parts.body, &low, &high)?;
        let changes = self.halving_changes(parts.body, &mid, between, &low, &high);
        let mut body = parts.body.clone();
        unite(&mut body, &high, &low);
        let mut once = |node: &Node| changes.contains(&node.id).then_some(1);
        let each = Walk { spot: &low, by: &mut once }.of_trip(&body, None).ok()?;
        if each.is_some_and(|each| each.0 < 1) {
            return None;
        }
        let (from, to) = (self.range(&lo), self.range(&hi));
        let mut wholes = vec![of_mid];
        for node in [&lo, &hi] {
            for node in [node, node.strip_casts()] {
                let CType::Int { bits, signed, .. } = self.ctype(node) else { return None };
                wholes.push(limits(bits, signed));
            }
        }
        // `hi = mid - 1` may come to one below where `lo` begins.
        let least = from.0 - i128::from(between == Between::LessOrEqual);
        let fits = |whole: &Range| least >= whole.0 && 2 * to.1 < whole.1;
        if from.0 < 0 || !wholes.iter().all(fits) {
            return None;
        }
        let most = match between {
            Between::Less | Between::Apart => to.1 - from.0,
            Between::LessOrEqual => to.1 - from.0 + 1,
        };
        let counter = |spot: &Spot, range| {
            let (var, path) = self.part(spot)?;
            Some(Counter { var, path, ahead: range, behind: range })
        };
        let far = (from.1.max(to.1 + 1), from.0.min(to.0).min(least));
        let counters = [counter(&low, (from.0, far.0))?, counter(&high, (far.1, to.1))?];
        // Of n at most n / 2 are left, rounded up where the middle itself stays.
        let trips = i128::from(128 - most.max(0).leading_zeros());
        Some((trips + i128::from(between == Between::Apart), counters))
    }

    /// The two variables that a condition compares, the lower one first.
    fn between(&mut self, condition: &Node) -> Option<(Between, Node, Node)> {
        let node = condition.strip_casts();
        let [left, right] = &node.inner[..] else { return None };
        let one = |f: &mut Self, node: &Node| f.unit.eval(node) == Some(1);
        let counted = |node: &Node| Spot::counted(node).is_some();
        let (between, lo, hi) = match node.opcode.as_str() {
            "<" => (Between::Less, left, right),
            "<=" => (Between::LessOrEqual, left, right),
            ">" => (Between::Less, right, left),
            ">=" => (Between::LessOrEqual, right, left),
            _ => return None,
        };
        if counted(lo) && counted(hi) {
            return Some((between, lo.clone(), hi.clone()));
        }
        let (sum, difference) = (lo.strip_casts(), hi.strip_casts());
        match (&sum.inner[..], &difference.inner[..]) {
            ([lo, by], _) if sum.opcode == "+" && one(self, by) && counted(lo) && counted(hi) => {
                (between == Between::Less).then(|| (Between::Apart, lo.clone(), hi.clone()))
            }
            (_, [hi, lo]) if difference.opcode == "-" && one(self, sum) && counted(lo) => {
                let both = between == Between::Less && counted(hi);
                both.then(|| (Between::Apart, lo.clone(), hi.clone()))
            }
            _ => None,
        }
    }

    /// The variable that a trip sets to the middle of two others before all else, with the range
    /// of its type.
    fn middle(&mut self, body: &Node, low: &Spot, high: &Spot) -> Option<(Spot, Range)> {
        let first = body.inner.first().filter(|_| body.kind == "CompoundStmt")?;
        let (mid, of, value, times) = match (first.kind.as_str(), &first.inner[..]) {
            ("DeclStmt", [declared]) => {
                let value = declared.inner.iter().find(|of| !of.kind.ends_with("Attr"))?;
                (Spot { decl: declared.id, members: Vec::new() }, declared, value, 0)
            }
            ("BinaryOperator", [target, value]) if first.opcode == "=" => {
                (Spot::counted(target)?, target, value, 1)
            }
            _ => return None,
        };
        let CType::Int { bits, signed, .. } = self.ctype(of) else { return None };
        let is_set_once = writes(body, &mid) == times;
        (is_set_once && self.is_middle(value, low, high)).then(|| (mid, limits(bits, signed)))
    }

    /// True for `(lo + hi) / 2` and `lo + (hi - lo) / 2`.
    fn is_middle(&mut self, node: &Node, low: &Spot, high: &Spot) -> bool {
        let node = node.strip_casts();
        let [left, right] = &node.inner[..] else { return false };
        let is = |node: &Node, spot: &Spot| Spot::counted(node).as_ref() == Some(spot);
        let pair = |node: &Node, opcode: &str, a: &Spot, b: &Spot| {
            let node = node.strip_casts();
            let [left, right] = &node.inner[..] else { return false };
            node.opcode == opcode && is(left, a) && is(right, b)
        };
        let sum = |node: &Node| pair(node, "+", low, high) || pair(node, "+", high, low);
        let half = self.half_of(node);
        if let Some(half) = half {
            return sum(half);
        }
        let (a, b) = (self.half_of(left), self.half_of(right));
        node.opcode == "+"
            && (is(left, low) && b.is_some_and(|of| pair(of, "-", high, low))
                || is(right, low) && a.is_some_and(|of| pair(of, "-", high, low)))
    }

    /// Operand of which an expression is half.
    fn half_of<'n>(&mut self, node: &'n Node) -> Option<&'n Node> {
        let node = node.strip_casts();
        let [left, right] = &node.inner[..] else { return None };
        let by = self.unit.eval(right);
        let halves = matches!((node.opcode.as_str(), by), ("/", Some(2)) | (">>", Some(1)));
        halves.then_some(left)
    }

    /// The assignments that leave at most half.
    fn halving_changes(
        &mut self,
        body: &Node,
        mid: &Spot,
        between: Between,
        low: &Spot,
        high: &Spot,
    ) -> HashSet<u64> {
        let mut found = HashSet::new();
        let mut assigned = Vec::new();
        body.walk(&mut |node| assigned.extend((node.opcode == "=").then_some(node)));
        for node in assigned {
            let [target, value] = &node.inner[..] else { continue };
            let Some(target) = Spot::counted(target) else { continue };
            let Some(by) = self.beyond(value, mid) else { continue };
            let leaves_half = match between {
                Between::Less => target == *low && by == 1 || target == *high && by == 0,
                Between::LessOrEqual => target == *low && by == 1 || target == *high && by == -1,
                Between::Apart => (target == *low || target == *high) && by == 0,
            };
            found.extend(leaves_half.then_some(node.id));
        }
        found
    }

    /// Distance of an expression from the middle.
    fn beyond(&mut self, node: &Node, mid: &Spot) -> Option<i128> {
        if Spot::counted(node).as_ref() == Some(mid) {
            return Some(0);
        }
        let node = node.strip_casts();
        let [left, right] = &node.inner[..] else { return None };
        let by = self.unit.eval(right).filter(|_| Spot::counted(left).as_ref() == Some(mid))?;
        match node.opcode.as_str() {
            "+" => Some(by),
            "-" => Some(-by),
            _ => None,
        }
    }
}

/// Lets one variable be another one, so that changes of both are those of one.
fn unite(node: &mut Node, from: &Spot, to: &Spot) {
    if let Some(of) = node.referenced.as_mut().filter(|of| of.id == from.decl) {
        of.id = to.decl;
    }
    node.inner.iter_mut().for_each(|child| unite(child, from, to));
}
