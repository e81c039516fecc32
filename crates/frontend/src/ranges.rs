//! Ranges of integer values, for loop bounds and for keys and values that fit.
//!
//! An interval is computed from an expression's operators or, for a variable, from the SSA value it
//! holds; then it is cut by the *facts* that hold at this place: conditions of the `if`s around it,
//! and of earlier `if`s whose arm left (`if (n > 16) return;`).

use std::cell::Cell;

use nicforge_ir::{BinOp, Op, Proj, Type, ValueId};

use crate::ast::Node;
use crate::bounds::MAX_TRIPS;
use crate::consts::limits;
use crate::ctypes::CType;
use crate::func::FnLower;
use crate::intervals::{DEPTH, MOST, Range, Values, interval};
use crate::parts::{Parts, Returned, join, leaves, path};
use crate::steps::Spot;

impl<'a> FnLower<'_, 'a, '_> {
    /// Range of an integer expression here.
    pub fn range(&mut self, node: &Node) -> Range {
        self.range_without(node, &|_| false)
    }

    /// Range of an expression if the places for which `changes` holds may have any value.
    pub fn range_without(&mut self, node: &Node, changes: &dyn Fn(&Node) -> bool) -> Range {
        let node = node.strip();
        if let Some(value) = self.unit.eval(node) {
            return (value, value);
        }
        let CType::Int { bits, signed, .. } = self.ctype(node) else {
            return (i128::MIN, i128::MAX);
        };
        let whole = limits(bits, signed);
        let fit =
            |range: Range| if range.0 >= whole.0 && range.1 <= whole.1 { range } else { whole };
        match node.kind.as_str() {
            "ImplicitCastExpr" | "CStyleCastExpr"
                if matches!(node.cast.as_str(), "IntegralCast" | "NoOp") =>
            {
                fit(self.range_without(&node.inner[0], changes))
            }
            "ImplicitCastExpr" if node.cast == "LValueToRValue" => {
                fit(self.range_of_object(&node.inner[0], changes))
            }
            "BinaryOperator" => {
                let [left, right] = &node.inner[..] else { return whole };
                let Some(op) = bin_op(&node.opcode) else { return fit((0, 1)) };
                let a = self.range_without(left, changes);
                let b = self.range_without(right, changes);
                fit(interval(op, a, b).unwrap_or(whole))
            }
            "ConditionalOperator" => {
                let [cond, then, other] = &node.inner[..] else { return whole };
                let (a, b) =
                    (self.range_without(then, changes), self.range_without(other, changes));
                let joined = (a.0.min(b.0), a.1.max(b.1));
                fit(if is_minimum(cond, then, other) { (joined.0, a.1.min(b.1)) } else { joined })
            }
            "DeclRefExpr" | "MemberExpr" => fit(self.range_of_object(node, changes)),
            "UnaryOperator" if node.opcode == "!" => (0, 1),
            "UnaryOperator" if node.opcode == "-" => {
                let inner = self.range_without(&node.inner[0], changes);
                fit(interval(BinOp::Sub, (0, 0), inner).unwrap_or(whole))
            }
            _ => whole,
        }
    }

    fn range_of_object(&mut self, node: &Node, changes: &dyn Fn(&Node) -> bool) -> Range {
        let node = node.strip();
        if node.kind == "MemberExpr" {
            let declared = self.range_of_member(node);
            if changes(node) {
                return declared;
            }
            let mut range = declared;
            let cut = |range: &mut Range, known: Range| {
                *range = (range.0.max(known.0), range.1.min(known.1));
            };
            if let Some(value) = self.known_member(node) {
                cut(&mut range, self.range_of_value(value));
            }
            if let Some((var, path)) = Spot::counted(node).and_then(|spot| self.part(&spot))
                && let Some(known) = self.range_of_part(self.env[var], &path)
                && known.0 >= declared.0
                && known.1 <= declared.1
            {
                cut(&mut range, known);
            }
            return range;
        }
        let everything = (i128::MIN, i128::MAX);
        let Some(referenced) = &node.referenced else { return everything };
        match self.var_of.get(&referenced.id) {
            Some(&var) if !changes(node) => self.range_of_value(self.env[var]),
            _ => everything,
        }
    }

    /// The value of an earlier read of this member of the same value of its variable: facts speak
    /// about that.
    fn known_member(&mut self, node: &Node) -> Option<ValueId> {
        let (mut place, mut path) = (node, Vec::new());
        while place.kind == "MemberExpr" {
            path.insert(0, Proj::Field(self.unit.field(place.member)?));
            place = place.inner.first()?.strip_casts();
        }
        let decl = place.referenced.as_ref()?.id;
        let var = *self.var_of.get(&decl)?;
        let read = Op::Get { agg: self.env[var], path };
        let inst = self.b.body.insts.values().find(|inst| inst.op == read)?;
        inst.results.first().copied()
    }

    /// A bit-field has few values; other members those of their type.
    pub fn range_of_member(&mut self, node: &Node) -> Range {
        let mut base = self.ctype(&node.inner[0]);
        if let CType::Pointer { to, .. } = base {
            base = *to;
        }
        let (CType::Struct(id), Some(field)) = (base, self.unit.field(node.member)) else {
            return match self.ctype(node).int_type() {
                Some(Type::Int { bits, signed }) if node.flags.in_union => limits(bits, signed),
                _ => (i128::MIN, i128::MAX),
            };
        };
        let field = &self.unit.prog.structs[id].fields[field as usize];
        match (field.ty, field.bit_width) {
            (Type::Int { signed, bits }, width) => limits(width.unwrap_or(bits), signed),
            _ => (i128::MIN, i128::MAX),
        }
    }

    /// A power of two that a variable is a multiple of.
    pub fn multiple_of(&self, node: &Node) -> u64 {
        let spot = Spot::counted(node).and_then(|spot| self.part(&spot));
        let Some((var, _)) = spot.filter(|(_, path)| path.is_empty()) else { return 1 };
        self.values(&|_, _| None).multiple(self.env[var], DEPTH)
    }

    fn values<'v>(&'v self, fields: &'v dyn Fn(Type, &[Proj]) -> Option<Range>) -> Values<'v> {
        let (facts, counters, kept) = (&self.facts[..], &self.counters, &self.kept);
        Values { body: self.b.body, facts, counters, kept, fields, left: Cell::new(MOST) }
    }

    /// Range of a value, by its definition and the facts that hold here.
    pub fn range_of_value(&self, value: ValueId) -> Range {
        self.values(&|agg, path| self.bit_field_range(agg, path)).range(value, DEPTH)
    }

    /// Truth of a condition here, if ranges leave no choice.
    pub fn decided(&self, cond: ValueId) -> Option<bool> {
        self.values(&|agg, path| self.bit_field_range(agg, path)).truth(cond, DEPTH)
    }

    /// Range of a part of a value; none if it is not known how the part came there. What a
    /// bit-field has no room for is not cut off here.
    pub fn range_of_part(&self, value: ValueId, path: &[Proj]) -> Option<Range> {
        if path.is_empty() {
            return Some(self.range_of_value(value));
        }
        self.values(&|agg, path| self.bit_field_range(agg, path)).part(value, path, DEPTH)
    }

    /// True if a value's part is that of another value, in which other parts were set.
    pub fn is_kept(&self, value: ValueId, of: ValueId, path: &[Proj]) -> bool {
        self.values(&|_, _| None).is_kept(value, of, path, DEPTH)
    }

    /// The integers of a value of which more is known than their types say.
    pub fn parts_of(&self, value: ValueId) -> Parts {
        let mut ways = Vec::new();
        leaves(&self.unit.prog, self.b.body.ty(value), &mut Vec::new(), &mut ways);
        let known = |way: Vec<u32>| {
            let (low, high) = self.range_of_part(value, &path(&way))?;
            (high.saturating_sub(low) <= MAX_TRIPS).then_some((way, (low, high)))
        };
        ways.into_iter().filter_map(known).collect()
    }

    /// Adds what is known of values that are returned here; `entered` are those of the variables
    /// that the last ones are of.
    pub fn note_returned(&mut self, values: &[ValueId]) {
        let results = values.len() - self.entered.len();
        let of = |(number, value): (usize, &ValueId)| {
            let mut kept = Vec::new();
            if let Some(entered) = number.checked_sub(results).map(|at| self.entered[at]) {
                leaves(&self.unit.prog, self.b.body.ty(*value), &mut Vec::new(), &mut kept);
                kept.retain(|way| self.is_kept(*value, entered, &path(way)));
            }
            Returned { parts: self.parts_of(*value), kept }
        };
        let here: Vec<Returned> = values.iter().enumerate().map(of).collect();
        if self.returned.is_empty() {
            self.returned = here;
            return;
        }
        for (all, here) in self.returned.iter_mut().zip(&here) {
            join(&mut all.parts, &here.parts);
            all.kept.retain(|way| here.kept.contains(way));
        }
    }

    /// Notes what is known of what a call gave for a variable, or as its result.
    pub fn note_result(&mut self, value: ValueId, of: &Returned, before: Option<ValueId>) {
        if let Some(before) = before {
            self.kept.insert(value, (before, of.kept.iter().map(|way| path(way)).collect()));
        }
        self.note_parts(value, &of.parts);
    }

    /// Notes what is known of a value.
    pub fn note_parts(&mut self, value: ValueId, parts: &Parts) {
        for (way, range) in parts {
            self.counters.insert((value, path(way)), *range);
        }
    }

    fn bit_field_range(&self, agg: Type, path: &[Proj]) -> Option<Range> {
        let (last, front) = path.split_last()?;
        let Some(Type::Struct(id)) = self.unit.prog.project(agg, front) else { return None };
        let Proj::Field(number) = last else { return None };
        let field = self.unit.prog.structs[id].fields.get(*number as usize)?;
        Some(limits(field.bit_width?, field.ty.is_signed()))
    }
}

fn bin_op(opcode: &str) -> Option<BinOp> {
    Some(match opcode {
        "+" => BinOp::Add,
        "-" => BinOp::Sub,
        "*" => BinOp::Mul,
        "/" => BinOp::Div,
        "%" => BinOp::Rem,
        "&" => BinOp::And,
        "|" => BinOp::Or,
        "^" => BinOp::Xor,
        "<<" => BinOp::Shl,
        ">>" => BinOp::Shr,
        _ => return None,
    })
}

/// True if `cond ? then : other` is the smaller of the two: `a < b ? a : b`.
fn is_minimum(cond: &Node, then: &Node, other: &Node) -> bool {
    let cond = cond.strip();
    let [left, right] = &cond.inner[..] else { return false };
    let (first, second) = match cond.opcode.as_str() {
        "<" | "<=" => (left, right),
        ">" | ">=" => (right, left),
        _ => return false,
    };
    same_text(first, then) && same_text(second, other)
}

/// True if two effect-free expressions are written the same.
fn same_text(a: &Node, b: &Node) -> bool {
    let (a, b) = (a.strip_casts(), b.strip_casts());
    let name = |n: &Node| n.referenced.as_ref().map(|r| r.id);
    let plain = matches!(a.kind.as_str(), "DeclRefExpr" | "IntegerLiteral" | "MemberExpr");
    plain
        && a.kind == b.kind
        && name(a) == name(b)
        && a.value == b.value
        && a.member == b.member
        && a.inner.len() == b.inner.len()
        && a.inner.iter().zip(&b.inner).all(|(x, y)| same_text(x, y))
}
