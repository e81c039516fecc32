//! Terms by their bits: extensions, parts, concatenations and choices. Parts pass through what is
//! inside, so that words taken apart and put together again are the same word.

use super::{Facts, Node, Op, Term, Terms, ones, signed};

impl Terms {
    pub fn zext(&mut self, a: Term, bits: u8) -> Term {
        let have = self.bits(a);
        if have == bits {
            return a;
        }
        if have > bits {
            return self.extract(a, 0, bits);
        }
        if let Node::Op(Op::Zext, inner, _) = self.node(a) {
            return self.zext(inner, bits);
        }
        let facts = self.facts(a);
        let zeros = facts.zeros | ones(bits) & !ones(have);
        self.make(Node::Op(Op::Zext, a, a), Facts { bits, zeros, ..facts })
    }

    pub fn sext(&mut self, a: Term, bits: u8) -> Term {
        let have = self.bits(a);
        if have >= bits {
            return self.extract(a, 0, bits);
        }
        let facts = self.facts(a);
        if facts.zeros >> (have - 1) & 1 != 0 {
            return self.zext(a, bits);
        }
        if let Some(value) = self.value(a) {
            return self.constant(bits, signed(value, have) as u64);
        }
        self.make(Node::Op(Op::Sext, a, a), Self::unknown(bits))
    }

    /// True if the low bits of one of two terms are a number of their own.
    fn ends_in(&self, bits: u8, both: [Term; 2]) -> bool {
        both.iter().any(|term| match self.node(*term) {
            Node::Op(Op::Concat, _, low) => self.bits(low) == bits,
            _ => false,
        })
    }

    /// `bits` bits of a term from bit `low` on.
    pub fn extract(&mut self, a: Term, low: u8, bits: u8) -> Term {
        let have = self.bits(a);
        debug_assert!(low + bits <= have);
        if bits == have {
            return a;
        }
        match self.node(a) {
            Node::Const(value) => return self.constant(bits, value >> low),
            Node::Extract(inner, at) => return self.extract(inner, low + at, bits),
            Node::Op(Op::Zext, inner, _) => {
                let width = self.bits(inner);
                if low >= width {
                    return self.constant(bits, 0);
                }
                let part = bits.min(width - low);
                let part = self.extract(inner, low, part);
                return self.zext(part, bits);
            }
            Node::Op(Op::Sext, inner, _) if low + bits <= self.bits(inner) => {
                return self.extract(inner, low, bits);
            }
            Node::Op(Op::Concat, high, lower) => {
                let width = self.bits(lower);
                if low >= width {
                    return self.extract(high, low - width, bits);
                }
                if low + bits <= width {
                    return self.extract(lower, low, bits);
                }
                let (below, above) = (width - low, low + bits - width);
                let (lower, high) = (self.extract(lower, low, below), self.extract(high, 0, above));
                return self.concat(high, lower);
            }
            Node::Op(op @ (Op::And | Op::Or | Op::Xor), x, y) => {
                let (x, y) = (self.extract(x, low, bits), self.extract(y, low, bits));
                return self.binary(op, x, y);
            }
            // The low bits of a sum or product depend on the low bits only.
            Node::Op(op @ (Op::Add | Op::Mul), x, y) if low == 0 => {
                let (x, y) = (self.extract(x, 0, bits), self.extract(y, 0, bits));
                return self.binary(op, x, y);
            }
            // And others on those below them, which counts where the rest is another number.
            Node::Op(op @ (Op::Add | Op::Mul), x, y)
                if low + bits < have && self.ends_in(low + bits, [x, y]) =>
            {
                let (x, y) = (self.extract(x, 0, low + bits), self.extract(y, 0, low + bits));
                let whole = self.binary(op, x, y);
                return self.extract(whole, low, bits);
            }
            Node::Op(Op::Shl, x, n) if self.value(n).is_some() => {
                let n = self.value(n).unwrap_or(0).min(64) as u8;
                if low >= n {
                    return self.extract(x, low - n, bits);
                }
                if low + bits <= n {
                    return self.constant(bits, 0);
                }
                let (part, zero) = (self.extract(x, 0, low + bits - n), self.constant(n - low, 0));
                return self.concat(part, zero);
            }
            Node::Op(Op::Lshr, x, n) if self.value(n).is_some() => {
                let n = self.value(n).unwrap_or(0).min(64) as u8;
                let width = self.bits(x);
                if low + n >= width {
                    return self.constant(bits, 0);
                }
                let part = bits.min(width - low - n);
                let part = self.extract(x, low + n, part);
                return self.zext(part, bits);
            }
            Node::Ite(c, x, y) if self.value(x).is_some() || self.value(y).is_some() => {
                let (x, y) = (self.extract(x, low, bits), self.extract(y, low, bits));
                return self.ite(c, x, y);
            }
            _ => {}
        }
        let facts = self.facts(a);
        let (zeros, ones_) = (facts.zeros >> low & ones(bits), facts.ones >> low & ones(bits));
        let mut new = Facts { zeros, ones: ones_, ..Self::unknown(bits) };
        if facts.high >> low <= ones(bits) {
            (new.low, new.high) = (facts.low >> low, facts.high >> low);
        }
        self.make(Node::Extract(a, low), new)
    }

    /// `high` above `low`.
    pub fn concat(&mut self, high: Term, low: Term) -> Term {
        let (a, b) = (self.bits(high), self.bits(low));
        let bits = a + b;
        if self.value(high) == Some(0) {
            return self.zext(low, bits);
        }
        if let (Some(x), Some(y)) = (self.value(high), self.value(low)) {
            return self.constant(bits, x << b | y);
        }
        if let (Node::Extract(x, at), Node::Extract(y, below)) = (self.node(high), self.node(low))
            && x == y
            && at == below + b
        {
            return self.extract(x, below, bits);
        }
        // A zero-extended upper part: the extension moves outwards.
        if let Node::Op(Op::Zext, inner, _) = self.node(high) {
            let part = self.concat(inner, low);
            return self.zext(part, bits);
        }
        if let Node::Op(Op::Concat, top, middle) = self.node(high) {
            // Right-nested, so that equal words meet however they were put together.
            let lower = self.concat(middle, low);
            return self.concat_raw(top, lower);
        }
        self.concat_raw(high, low)
    }

    pub(super) fn concat_raw(&mut self, high: Term, low: Term) -> Term {
        let (f, g) = (self.facts(high), self.facts(low));
        if let (Node::Extract(x, at), Node::Op(Op::Concat, middle, rest)) =
            (self.node(high), self.node(low))
            && let Node::Extract(y, below) = self.node(middle)
            && x == y
            && at == below + self.bits(middle)
        {
            let bits = f.bits + self.bits(middle);
            let joined = self.extract(x, below, bits);
            return self.concat_raw(joined, rest);
        }
        let facts = Facts {
            bits: f.bits + g.bits,
            zeros: f.zeros << g.bits | g.zeros,
            ones: f.ones << g.bits | g.ones,
            low: f.low << g.bits | g.low,
            high: f.high << g.bits | g.high,
        };
        self.make(Node::Op(Op::Concat, high, low), facts)
    }

    pub fn ite(&mut self, cond: Term, a: Term, b: Term) -> Term {
        if a == b || self.value(cond) == Some(1) {
            return a;
        }
        if self.value(cond) == Some(0) {
            return b;
        }
        let (f, g) = (self.facts(a), self.facts(b));
        if f.bits == 1
            && let (Some(x), Some(_)) = (self.value(a), self.value(b))
        {
            return if x == 1 { cond } else { self.not(cond) };
        }
        let facts = Facts {
            bits: f.bits,
            zeros: f.zeros & g.zeros,
            ones: f.ones & g.ones,
            low: f.low.min(g.low),
            high: f.high.max(g.high),
        };
        self.make(Node::Ite(cond, a, b), facts)
    }
}
