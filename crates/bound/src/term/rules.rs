//! Simplification of operations: constants move outwards, comparisons lose what surrounds their
//! variable, and every result gets the bits and the interval that follow from its operands.

use super::{Facts, Node, Op, Term, Terms, evaluate, ones};

/// Most summands that are put in order.
const MOST_SUMMANDS: usize = 64;

impl Terms {
    pub(super) fn add(&mut self, a: Term, b: Term) -> Term {
        let bits = self.bits(a);
        let (a, b) = if self.value(a).is_some() || (self.value(b).is_none() && a > b) {
            (b, a)
        } else {
            (a, b)
        };
        let ((x, c), (y, d)) = (self.linear(a), self.linear(b));
        // Constants move to the outside: (x + c) + (y + d) = (x + y) + (c + d).
        if self.value(b).is_some() {
            if d == 0 {
                return a;
            }
            if c != 0
                && let Some(x) = x
            {
                let sum = self.constant(bits, c.wrapping_add(d));
                return self.binary(Op::Add, x, sum);
            }
        } else if (c != 0 || d != 0)
            && let (Some(x), Some(y)) = (x, y)
        {
            let (sum, constant) =
                (self.binary(Op::Add, x, y), self.constant(bits, c.wrapping_add(d)));
            return self.binary(Op::Add, sum, constant);
        }
        let (a, b) = self.in_order(a, b).unwrap_or((a, b));
        self.added(a, b)
    }

    /// A sum of more than two extended numbers, as sums of checksums are, in one order however it
    /// was written: what stands before the last of them, and the last.
    fn in_order(&mut self, a: Term, b: Term) -> Option<(Term, Term)> {
        let (mut open, mut leaves) = (vec![a, b], Vec::new());
        while let Some(term) = open.pop() {
            match self.node(term) {
                Node::Op(Op::Add, x, y) => open.extend([x, y]),
                Node::Op(Op::Zext, ..) => leaves.push(term),
                _ => return None,
            }
            if leaves.len() + open.len() > MOST_SUMMANDS {
                return None;
            }
        }
        if leaves.len() < 3 {
            return None;
        }
        leaves.sort_unstable();
        let last = leaves.pop()?;
        let mut whole = leaves[0];
        for leaf in &leaves[1..] {
            whole = self.added(whole, *leaf);
        }
        Some((whole, last))
    }

    /// A sum as it is, with what is known of it.
    fn added(&mut self, a: Term, b: Term) -> Term {
        let bits = self.bits(a);
        let (f, g) = (self.facts(a), self.facts(b));
        // Operands without a bit in common cannot carry, and `or` shows its bits.
        let mut facts = Self::unknown(bits);
        if let (Some(low), Some(high)) = (f.low.checked_add(g.low), f.high.checked_add(g.high))
            && high <= ones(bits)
        {
            (facts.low, facts.high) = (low, high);
        } else if let (Some(value), true) = (
            self.value(b),
            f.low.wrapping_add(g.low) & ones(bits) <= f.high.wrapping_add(g.high) & ones(bits),
        ) && f.low as u128 + value as u128 > ones(bits) as u128
        {
            // All values wrap.
            (facts.low, facts.high) =
                (f.low.wrapping_add(value) & ones(bits), f.high.wrapping_add(value) & ones(bits));
        }
        let trailing = (f.zeros.trailing_ones().min(g.zeros.trailing_ones()) as u8).min(bits);
        facts.zeros |= ones(trailing);
        self.make(Node::Op(Op::Add, a, b), facts)
    }

    pub(super) fn multiply(&mut self, a: Term, b: Term) -> Term {
        let bits = self.bits(a);
        let (a, b) = if self.value(a).is_some() || (self.value(b).is_none() && a > b) {
            (b, a)
        } else {
            (a, b)
        };
        match self.value(b) {
            Some(0) => return b,
            Some(1) => return a,
            Some(value) if value.is_power_of_two() => {
                let amount = self.constant(bits, value.trailing_zeros().into());
                return self.binary(Op::Shl, a, amount);
            }
            _ => {}
        }
        let (f, g) = (self.facts(a), self.facts(b));
        let mut facts = Self::unknown(bits);
        if let Some(high) = f.high.checked_mul(g.high)
            && high <= ones(bits)
        {
            (facts.low, facts.high) = (f.low * g.low, high);
        }
        self.make(Node::Op(Op::Mul, a, b), facts)
    }

    pub(super) fn logical(&mut self, op: Op, a: Term, b: Term) -> Term {
        let bits = self.bits(a);
        let (a, b) = if self.value(a).is_some() || (self.value(b).is_none() && a > b) {
            (b, a)
        } else {
            (a, b)
        };
        if a == b {
            return if op == Op::Xor { self.constant(bits, 0) } else { a };
        }
        let (f, g) = (self.facts(a), self.facts(b));
        if let Some(value) = self.value(b) {
            match (op, value) {
                (Op::And, 0) => return b,
                (Op::Or | Op::Xor, 0) => return a,
                (Op::Or, all) if all == ones(bits) => return b,
                (Op::And, mask) if f.zeros | mask == ones(bits) => return a,
                // (x op c) op d = x op (c op d)
                (_, value) => {
                    if let Node::Op(inner, x, y) = self.node(a)
                        && inner == op
                        && let Some(constant) = self.value(y)
                    {
                        let folded = self.constant(bits, evaluate(op, constant, value, bits));
                        return self.binary(op, x, folded);
                    }
                }
            }
            // Rounding down passes by a summand that is round.
            if let (Op::And, Node::Op(Op::Add, x, y)) = (op, self.node(a)) {
                let low = !value & ones(bits);
                for (round, other) in [(x, y), (y, x)] {
                    if low & low.wrapping_add(1) == 0 && self.facts(round).zeros & low == low {
                        let other = self.binary(Op::And, other, b);
                        return self.binary(Op::Add, round, other);
                    }
                }
            }
            // Rounding down shifts out and back, so that tests against multiples count one by one.
            let low = (!value & ones(bits)).trailing_ones() as u8;
            if self.based()
                && op == Op::And
                && low > 0
                && low < bits
                && value == !ones(low) & ones(bits)
            {
                let part = self.extract(a, low, bits - low);
                let (part, by) = (self.zext(part, bits), self.constant(bits, low.into()));
                return self.binary(Op::Shl, part, by);
            }
            // A mask of low bits is an extract, which passes through what is inside.
            if op == Op::And && value & value.wrapping_add(1) == 0 {
                let part = self.extract(a, 0, value.trailing_ones() as u8);
                return self.zext(part, bits);
            }
            // Operations on an extension that do not reach above it.
            if let Node::Op(Op::Zext, inner, _) = self.node(a) {
                let width = self.bits(inner);
                if op == Op::And || value <= ones(width) {
                    let constant = self.constant(width, value);
                    let inside = self.binary(op, inner, constant);
                    return self.zext(inside, bits);
                }
            }
        } else if let (Node::Op(Op::Zext, x, _), Node::Op(Op::Zext, y, _)) =
            (self.node(a), self.node(b))
            && self.bits(x) == self.bits(y)
        {
            let inside = self.binary(op, x, y);
            return self.zext(inside, bits);
        }
        // A shifted-up part `or`ed with what fits below it is a concatenation.
        if op != Op::And && f.zeros | g.zeros == ones(bits) {
            for (x, y, g) in [(a, b, g), (b, a, f)] {
                let low = (64 - g.high.leading_zeros()) as u8;
                if low > 0
                    && low < bits
                    && self.facts(x).zeros & ones(low) == ones(low)
                    && self.value(x).is_none()
                {
                    let (high, low) = (self.extract(x, low, bits - low), self.extract(y, 0, low));
                    return self.concat(high, low);
                }
            }
        }
        if op == Op::Xor
            && let Some(sorted) = self.sorted(a, b)
        {
            return sorted;
        }
        self.made(op, a, b)
    }

    /// A sum without carries in one order, however it was written; `None` if there is one only.
    fn sorted(&mut self, a: Term, b: Term) -> Option<Term> {
        let sum = |term: Term| matches!(self.node(term), Node::Op(Op::Xor, ..));
        if !sum(a) && !sum(b) {
            return None;
        }
        let (mut open, mut leaves, mut constant) = (vec![a, b], Vec::new(), 0);
        while let Some(term) = open.pop() {
            match self.node(term) {
                Node::Op(Op::Xor, x, y) => open.extend([x, y]),
                Node::Const(value) => constant ^= value,
                _ => leaves.push(term),
            }
            if leaves.len() + open.len() > MOST_SUMMANDS {
                return None;
            }
        }
        leaves.sort_unstable();
        let bits = self.bits(a);
        let mut whole: Option<Term> = None;
        for equal in leaves.chunk_by(|x, y| x == y).filter(|equal| equal.len() % 2 == 1) {
            whole = Some(match whole {
                None => equal[0],
                Some(whole) => self.made(Op::Xor, whole, equal[0]),
            });
        }
        let constant = self.constant(bits, constant);
        Some(match whole {
            None => constant,
            Some(whole) if self.value(constant) == Some(0) => whole,
            Some(whole) => self.made(Op::Xor, whole, constant),
        })
    }

    /// A logical operation as it is, with what is known of its bits.
    fn made(&mut self, op: Op, a: Term, b: Term) -> Term {
        let bits = self.bits(a);
        let (f, g) = (self.facts(a), self.facts(b));
        let mut facts = Self::unknown(bits);
        match op {
            Op::And => {
                (facts.zeros, facts.ones) = (f.zeros | g.zeros, f.ones & g.ones);
                facts.high = f.high.min(g.high);
            }
            Op::Or => {
                (facts.zeros, facts.ones) = (f.zeros & g.zeros, f.ones | g.ones);
                facts.low = f.low.max(g.low);
            }
            _ => {
                facts.zeros = f.zeros & g.zeros | f.ones & g.ones;
                facts.ones = f.zeros & g.ones | f.ones & g.zeros;
            }
        }
        self.make(Node::Op(op, a, b), facts)
    }

    pub(super) fn shift(&mut self, op: Op, a: Term, b: Term) -> Term {
        let bits = self.bits(a);
        let f = self.facts(a);
        let Some(amount) = self.value(b) else {
            let mut facts = Self::unknown(bits);
            if op == Op::Lshr {
                facts.high = f.high;
            }
            return self.make(Node::Op(op, a, b), facts);
        };
        if amount == 0 {
            return a;
        }
        if op == Op::Ashr && f.zeros >> (bits - 1) & 1 == 0 {
            let amount = amount.min(u64::from(bits) - 1) as u8;
            let part = self.extract(a, amount, bits - amount);
            return self.sext(part, bits);
        }
        if amount >= bits.into() {
            return self.constant(bits, 0);
        }
        let n = amount as u8;
        if op == Op::Shl {
            let (part, zero) = (self.extract(a, 0, bits - n), self.constant(n, 0));
            // Shown as a shift: concatenations with constants would hide sums inside.
            if self.value(part).is_some() {
                return self.concat(part, zero);
            }
            let mut facts = Facts {
                zeros: f.zeros << n & ones(bits) | ones(n),
                ones: f.ones << n & ones(bits),
                ..Self::unknown(bits)
            };
            if f.high <= ones(bits) >> n {
                (facts.low, facts.high) = (f.low << n, f.high << n);
            }
            return self.make(Node::Op(Op::Shl, a, b), facts);
        }
        let part = self.extract(a, n, bits - n);
        self.zext(part, bits)
    }

    pub(super) fn equal(&mut self, a: Term, b: Term) -> Term {
        if a == b {
            return self.boolean(true);
        }
        if self.differ(a, b) {
            return self.boolean(false);
        }
        if let Some((x, y)) = self.same_base(a, b) {
            return self.eq(x, y);
        }
        if let Some((x, y)) = self.without_common(a, b) {
            return self.eq(x, y);
        }
        let (a, b) = if self.value(a).is_some() || (self.value(b).is_none() && a > b) {
            (b, a)
        } else {
            (a, b)
        };
        let bits = self.bits(a);
        if bits == 1 {
            let different = self.binary(Op::Xor, a, b);
            return self.not(different);
        }
        if let Some(value) = self.value(b) {
            match self.node(a) {
                Node::Op(Op::Zext, x, _) => {
                    let width = self.bits(x);
                    let value = self.constant(width, value);
                    return self.eq(x, value);
                }
                Node::Op(Op::Add, x, y) if self.value(y).is_some() => {
                    let rest = self.constant(bits, value.wrapping_sub(self.value(y).unwrap_or(0)));
                    return self.eq(x, rest);
                }
                Node::Op(Op::Xor, x, y) => {
                    if let Some(mask) = self.value(y) {
                        let value = self.constant(bits, value ^ mask);
                        return self.eq(x, value);
                    }
                    if value == 0 {
                        return self.eq(x, y);
                    }
                }
                Node::Op(Op::Shl, x, n) if self.value(n).is_some() => {
                    let n = self.value(n).unwrap_or(0) as u8;
                    if n < bits {
                        let (part, value) =
                            (self.extract(x, 0, bits - n), self.constant(bits - n, value >> n));
                        return self.eq(part, value);
                    }
                }
                Node::Op(Op::Or, x, y) if value == 0 => {
                    let zero = self.constant(bits, 0);
                    let (x, y) = (self.eq(x, zero), self.eq(y, zero));
                    return self.and(x, y);
                }
                Node::Op(Op::Concat, high, low) => {
                    let width = self.bits(low);
                    let (top, below) =
                        (self.constant(bits - width, value >> width), self.constant(width, value));
                    let (x, y) = (self.eq(high, top), self.eq(low, below));
                    return self.and(x, y);
                }
                Node::Ite(c, x, y) if self.value(x).is_some() => {
                    let (x, y) = (self.eq(x, b), self.eq(y, b));
                    return self.ite(c, x, y);
                }
                _ => {}
            }
        }
        self.make(Node::Op(Op::Eq, a, b), Self::unknown(1))
    }

    pub(super) fn less(&mut self, a: Term, b: Term) -> Term {
        let (f, g) = (self.facts(a), self.facts(b));
        if f.high < g.low {
            return self.boolean(true);
        }
        if a == b || f.low >= g.high {
            return self.boolean(false);
        }
        let bits = f.bits;
        if let Some((x, y)) = self.offsets(a, b) {
            return self.less(x, y);
        }
        // A difference hidden by one base: x + c < x + d without wrapping.
        if let ((Some(x), c), (Some(y), d)) = (self.linear(a), self.linear(b))
            && x == y
            && let high = self.facts(x).high
            && high.checked_add(c).is_some_and(|sum| sum <= ones(bits))
            && high.checked_add(d).is_some_and(|sum| sum <= ones(bits))
        {
            return self.boolean(c < d);
        }
        if let Some(limit) = self.value(b) {
            // x < 1 is x == 0
            if limit == 1 {
                let zero = self.constant(bits, 0);
                return self.eq(a, zero);
            }
            match self.node(a) {
                Node::Op(Op::Zext, x, _) => {
                    let limit = self.constant(self.bits(x), limit);
                    return self.less_const(x, limit);
                }
                // The limit has the same upper part, or the interval would have decided.
                Node::Op(Op::Concat, high, x)
                    if self.value(high) == Some(limit >> self.bits(x)) =>
                {
                    let limit = self.constant(self.bits(x), limit);
                    return self.less_const(x, limit);
                }
                Node::Op(Op::Add, x, y) => {
                    let h = self.facts(x).high;
                    if let Some(c) = self.value(y)
                        && h.checked_add(c).is_some_and(|sum| sum <= ones(bits))
                    {
                        // limit > c, or the interval would have decided.
                        let limit = self.constant(bits, limit - c);
                        return self.less_const(x, limit);
                    }
                }
                _ => {}
            }
            return self.make(Node::Op(Op::Ult, a, b), Self::unknown(1));
        }
        if let Some(limit) = self.value(a) {
            // c < x is not (x < c + 1); c is below the largest value, or the interval would have
            // decided.
            let above = self.constant(bits, limit + 1);
            let not = self.less(b, above);
            return self.not(not);
        }
        if let (Node::Op(Op::Zext, x, _), Node::Op(Op::Zext, y, _)) = (self.node(a), self.node(b))
            && self.bits(x) == self.bits(y)
        {
            return self.less(x, y);
        }
        self.make(Node::Op(Op::Ult, a, b), Self::unknown(1))
    }

    pub(super) fn less_const(&mut self, a: Term, limit: Term) -> Term {
        match self.value(a) {
            Some(value) => {
                let limit = self.value(limit).unwrap_or(0);
                self.boolean(value < limit)
            }
            None => self.less(a, limit),
        }
    }

    pub(super) fn less_signed(&mut self, a: Term, b: Term) -> Term {
        let (f, g) = (self.facts(a), self.facts(b));
        let sign = 1u64 << (f.bits - 1);
        if f.zeros & sign != 0 && g.zeros & sign != 0 {
            return self.less(a, b);
        }
        if f.ones & sign != 0 && g.zeros & sign != 0 {
            return self.boolean(true);
        }
        if f.zeros & sign != 0 && g.ones & sign != 0 || a == b {
            return self.boolean(false);
        }
        if self.value(b) == Some(0) {
            return self.extract(a, f.bits - 1, 1);
        }
        self.make(Node::Op(Op::Slt, a, b), Self::unknown(1))
    }
}
