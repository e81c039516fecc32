//! Gates, and the arithmetic made of them. Equal gates are made once; gates of constants are none.
//!
//! A carry is one majority gate and a choice is one gate, not three of two inputs each: what a
//! query costs goes with the number of variables.

use batsat::{Lit, SolverInterface, lbool};

use super::{Circuits, Decide};
use crate::term::Op;

/// Gate by its inputs, in the order that makes equal ones equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Gate {
    And(Lit, Lit),
    Xor(Lit, Lit),
    Majority([Lit; 3]),
    Choose(Lit, Lit, Lit),
}

impl Circuits {
    pub(super) fn fresh(&mut self) -> Lit {
        Lit::new(self.sat.new_var_default(), true)
    }

    pub(super) fn clause(&mut self, lits: &[Lit]) {
        self.spare.clear();
        self.spare.extend_from_slice(lits);
        self.sat.add_clause_reuse(&mut self.spare);
    }

    pub(super) fn constant(&self, bit: bool) -> Lit {
        if bit { self.yes } else { !self.yes }
    }

    /// The output of a gate, and whether its clauses are still to come.
    fn gate(&mut self, gate: Gate) -> (Lit, bool) {
        if let Some(known) = self.gates.get(&gate) {
            return (*known, false);
        }
        let out = Lit::new(self.sat.new_var(lbool::UNDEF, self.decide == Decide::Everything), true);
        self.gates.insert(gate, out);
        (out, true)
    }

    pub(super) fn and(&mut self, a: Lit, b: Lit) -> Lit {
        let (yes, no) = (self.yes, !self.yes);
        match (a, b) {
            _ if a == no || b == no || a == !b => return no,
            _ if a == yes || a == b => return b,
            _ if b == yes => return a,
            _ => {}
        }
        let (out, new) = self.gate(Gate::And(a.min(b), a.max(b)));
        if new {
            self.clause(&[!out, a]);
            self.clause(&[!out, b]);
            self.clause(&[out, !a, !b]);
        }
        out
    }

    pub(super) fn or(&mut self, a: Lit, b: Lit) -> Lit {
        !self.and(!a, !b)
    }

    pub(super) fn xor(&mut self, a: Lit, b: Lit) -> Lit {
        let (yes, no) = (self.yes, !self.yes);
        match (a, b) {
            _ if a == no => return b,
            _ if b == no => return a,
            _ if a == yes => return !b,
            _ if b == yes => return !a,
            _ if a == b => return no,
            _ if a == !b => return yes,
            _ => {}
        }
        let (out, new) = self.gate(Gate::Xor(a.min(b), a.max(b)));
        if new {
            self.clause(&[!out, a, b]);
            self.clause(&[!out, !a, !b]);
            self.clause(&[out, !a, b]);
            self.clause(&[out, a, !b]);
        }
        out
    }

    /// Majority of three: whether at least two hold.
    pub(super) fn majority(&mut self, mut inputs: [Lit; 3]) -> Lit {
        inputs.sort_unstable();
        let [a, b, c] = inputs;
        for (x, y, z) in [(a, b, c), (b, c, a), (a, c, b)] {
            match () {
                () if z == self.yes => return self.or(x, y),
                () if z == !self.yes => return self.and(x, y),
                () if x == y => return x,
                () if x == !y => return z,
                () => {}
            }
        }
        let (out, new) = self.gate(Gate::Majority(inputs));
        if new {
            for (x, y) in [(a, b), (b, c), (a, c)] {
                self.clause(&[!x, !y, out]);
                self.clause(&[x, y, !out]);
            }
        }
        out
    }

    /// `a` if the condition holds, else `b`.
    pub(super) fn choose(&mut self, cond: Lit, a: Lit, b: Lit) -> Lit {
        let (yes, no) = (self.yes, !self.yes);
        match () {
            () if cond == yes || a == b => return a,
            () if cond == no => return b,
            () if a == yes || a == cond => return self.or(cond, b),
            () if a == no || a == !cond => return self.and(!cond, b),
            () if b == yes || b == !cond => return self.or(!cond, a),
            () if b == no || b == cond => return self.and(cond, a),
            () if a == !b => return !self.xor(cond, a),
            () => {}
        }
        let (cond, a, b) = if cond.sign() { (cond, a, b) } else { (!cond, b, a) };
        let (out, new) = self.gate(Gate::Choose(cond, a, b));
        if new {
            self.clause(&[!cond, !a, out]);
            self.clause(&[!cond, a, !out]);
            self.clause(&[cond, !b, out]);
            self.clause(&[cond, b, !out]);
            self.clause(&[!a, !b, out]);
            self.clause(&[a, b, !out]);
        }
        out
    }

    pub(super) fn add(&mut self, a: &[Lit], b: &[Lit], mut carry: Lit) -> (Vec<Lit>, Lit) {
        let mut sum = Vec::with_capacity(a.len());
        for (x, y) in a.iter().zip(b) {
            let half = self.xor(*x, *y);
            sum.push(self.xor(half, carry));
            carry = self.majority([*x, *y, carry]);
        }
        (sum, carry)
    }

    pub(super) fn equal(&mut self, a: &[Lit], b: &[Lit]) -> Lit {
        let mut all = self.yes;
        for (x, y) in a.iter().zip(b) {
            let differs = self.xor(*x, *y);
            all = self.and(all, !differs);
        }
        all
    }

    /// a < b: subtracting borrows.
    pub(super) fn less(&mut self, a: &[Lit], b: &[Lit]) -> Lit {
        let mut less = !self.yes;
        for (x, y) in a.iter().zip(b) {
            less = self.majority([!*x, *y, less]);
        }
        less
    }

    pub(super) fn shift(&mut self, op: Op, a: &[Lit], by: &[Lit]) -> Vec<Lit> {
        let fill = if op == Op::Ashr { a[a.len() - 1] } else { !self.yes };
        let mut value = a.to_vec();
        for (stage, bit) in by.iter().enumerate() {
            let distance = if stage < 16 { 1usize << stage } else { usize::MAX };
            let moved: Vec<Lit> = (0..value.len())
                .map(|i| {
                    let from = if op == Op::Shl {
                        i.checked_sub(distance)
                    } else {
                        i.checked_add(distance)
                    };
                    from.and_then(|from| value.get(from).copied()).unwrap_or(fill)
                })
                .collect();
            value =
                moved.iter().zip(&value.clone()).map(|(x, y)| self.choose(*bit, *x, *y)).collect();
        }
        value
    }

    pub(super) fn multiply(&mut self, a: &[Lit], b: &[Lit]) -> Vec<Lit> {
        let width = a.len();
        let mut sum = vec![!self.yes; width];
        for (i, bit) in b.iter().enumerate() {
            if *bit == !self.yes {
                continue;
            }
            let mut row = vec![!self.yes; i];
            for x in &a[..width - i] {
                row.push(self.and(*x, *bit));
            }
            let no = !self.yes;
            sum = self.add(&sum, &row, no).0;
        }
        sum
    }

    /// Quotient and remainder by schoolbook division; by zero: all ones, and the dividend.
    pub(super) fn divide(&mut self, a: &[Lit], b: &[Lit]) -> (Vec<Lit>, Vec<Lit>) {
        let (width, no) = (a.len(), !self.yes);
        let mut wide = b.to_vec();
        wide.push(no);
        let inverted: Vec<Lit> = wide.iter().map(|lit| !*lit).collect();
        let (mut quotient, mut rest) = (vec![no; width], vec![no; width + 1]);
        for i in (0..width).rev() {
            rest.insert(0, a[i]);
            rest.pop();
            let yes = self.yes;
            let (difference, fits) = self.add(&rest, &inverted, yes);
            quotient[i] = fits;
            rest = difference
                .iter()
                .zip(&rest.clone())
                .map(|(x, y)| self.choose(fits, *x, *y))
                .collect();
        }
        rest.pop();
        (quotient, rest)
    }
}
