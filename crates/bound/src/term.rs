//! Hash-consed bit-vector terms of up to 64 bits, and byte memories.
//!
//! A term is built once however often it is written, and is simplified when it is built: constants fold, comparisons with
//! constants lose the additions and extensions around their variable, loads walk past stores that cannot matter. Every
//! term knows which of its bits are certain and the interval its value lies in; a term whose interval is one value is a
//! constant. So most branches of a program are decided here, and what is left for a solver is small.
//!
//! Phis stand for values that differ between the ways into a node of the unrolled program; resolving a path replaces them.

use std::collections::HashMap;

/// A term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Term(pub u32);

/// A state of a byte memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mem(pub u32);

/// Operations; the second column of operands is unused where there is one only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Add,
    Mul,
    UDiv,
    URem,
    And,
    Or,
    Xor,
    Shl,
    Lshr,
    Ashr,
    Eq,
    Ult,
    Slt,
    /// First operand above the second.
    Concat,
    Zext,
    Sext,
}

/// What a term is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    Const(u64),
    /// A value from outside: see [`Var`].
    Var(u32),
    /// Value `index` that differs between the edges into a node of the unrolled program.
    Phi {
        node: u32,
        index: u32,
    },
    Op(Op, Term, Term),
    /// Bits from `low` on.
    Extract(Term, u8),
    Ite(Term, Term, Term),
    /// One byte.
    Load(Mem, Term),
}

/// What a memory state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemNode {
    /// A region as the packet found it.
    Init(u32),
    Store(Mem, Term, Term),
    Phi {
        node: u32,
        index: u32,
    },
}

/// Values from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Var {
    /// Length of the packet in bytes.
    Size,
    /// Byte of a region's initial contents, by its address.
    Byte { region: u32, address: u64 },
    /// A value nothing is known about: undefined registers, table contents that others may change, helpers' results.
    Fresh(u32),
}

/// Bits and interval of a term.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    pub bits: u8,
    pub zeros: u64,
    pub ones: u64,
    pub low: u64,
    pub high: u64,
}

/// All terms of an analysis.
#[derive(Default)]
pub struct Terms {
    nodes: Vec<Node>,
    facts: Vec<Facts>,
    known: HashMap<(Node, u8), Term>,
    mems: Vec<MemNode>,
    known_mems: HashMap<MemNode, Mem>,
    /// What phis of memories stand for.
    operands: HashMap<(u32, u32), Vec<Mem>>,
    loads: HashMap<(Mem, Term), Term>,
    vars: Vec<Var>,
    known_vars: HashMap<Var, u32>,
    fresh: u32,
    /// Interval of the packet size.
    size: (u64, u64),
    /// Bytes of initial contents that are given.
    given: HashMap<(u32, u64), u8>,
}

/// Most places of given contents one load may choose from.
const MOST_CHOICES: u64 = 2048;

/// The lowest `bits` bits.
pub fn ones(bits: u8) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// A value's sign extended from `bits`.
pub fn signed(value: u64, bits: u8) -> i64 {
    let shift = 64 - u32::from(bits);
    (value << shift) as i64 >> shift
}

impl Terms {
    /// No terms yet; the packet's size lies in this interval.
    pub fn new(smallest: u64, largest: u64) -> Terms {
        Terms { size: (smallest, largest), ..Terms::default() }
    }

    /// From here on a byte of a region's initial contents is known.
    pub fn give(&mut self, region: u32, address: u64, byte: u8) {
        self.given.insert((region, address), byte);
    }

    /// Bytes of initial contents that are given: region, address, byte.
    pub fn given(&self) -> impl Iterator<Item = (u32, u64, u8)> + '_ {
        self.given.iter().map(|((region, address), byte)| (*region, *address, *byte))
    }

    pub fn node(&self, term: Term) -> Node {
        self.nodes[term.0 as usize]
    }

    pub fn mem(&self, mem: Mem) -> MemNode {
        self.mems[mem.0 as usize]
    }

    pub fn bits(&self, term: Term) -> u8 {
        self.facts[term.0 as usize].bits
    }

    pub fn facts(&self, term: Term) -> Facts {
        self.facts[term.0 as usize]
    }

    pub fn var_info(&self, var: u32) -> Var {
        self.vars[var as usize]
    }

    /// How many terms there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The value of a constant.
    pub fn value(&self, term: Term) -> Option<u64> {
        match self.node(term) {
            Node::Const(value) => Some(value),
            _ => None,
        }
    }

    pub fn constant(&mut self, bits: u8, value: u64) -> Term {
        let value = value & ones(bits);
        let facts = Facts { bits, zeros: !value & ones(bits), ones: value, low: value, high: value };
        self.intern(Node::Const(value), facts)
    }

    pub fn boolean(&mut self, value: bool) -> Term {
        self.constant(1, value.into())
    }

    fn intern(&mut self, node: Node, facts: Facts) -> Term {
        if let Some(term) = self.known.get(&(node, facts.bits)) {
            return *term;
        }
        let term = Term(self.nodes.len() as u32);
        self.nodes.push(node);
        self.facts.push(facts);
        self.known.insert((node, facts.bits), term);
        term
    }

    /// Interns with what is known; a value that can be only one becomes a constant.
    fn make(&mut self, node: Node, mut facts: Facts) -> Term {
        let mask = ones(facts.bits);
        // Certain leading zeroes and ones bound the value, and the other way round.
        facts.low = facts.low.max(facts.ones);
        facts.high = facts.high.min(!facts.zeros & mask);
        if facts.high != u64::MAX {
            let top = 64 - facts.high.leading_zeros() as u8;
            facts.zeros |= mask & !ones(top);
        }
        if facts.low == facts.high {
            return self.constant(facts.bits, facts.low);
        }
        self.intern(node, facts)
    }

    fn unknown(bits: u8) -> Facts {
        Facts { bits, zeros: 0, ones: 0, low: 0, high: ones(bits) }
    }

    fn variable(&mut self, var: Var, facts: Facts) -> Term {
        let id = match self.known_vars.get(&var) {
            Some(id) => *id,
            None => {
                let id = self.vars.len() as u32;
                self.vars.push(var);
                self.known_vars.insert(var, id);
                id
            }
        };
        self.intern(Node::Var(id), facts)
    }

    /// The packet's size, 16 bits.
    pub fn packet_size(&mut self) -> Term {
        let (low, high) = self.size;
        let facts = Facts { low, high, ..Self::unknown(16) };
        self.variable(Var::Size, facts)
    }

    /// A new unknown value.
    pub fn fresh(&mut self, bits: u8) -> Term {
        self.fresh += 1;
        self.variable(Var::Fresh(self.fresh), Self::unknown(bits))
    }

    /// A value that differs by the edge into `node`; `low..=high` holds for all of them.
    pub fn phi(&mut self, node: u32, index: u32, bits: u8, (low, high): (u64, u64)) -> Term {
        self.intern(Node::Phi { node, index }, Facts { low, high, ..Self::unknown(bits) })
    }

    fn intern_mem(&mut self, node: MemNode) -> Mem {
        if let Some(mem) = self.known_mems.get(&node) {
            return *mem;
        }
        let mem = Mem(self.mems.len() as u32);
        self.mems.push(node);
        self.known_mems.insert(node, mem);
        mem
    }

    /// A region's initial contents.
    pub fn initial(&mut self, region: u32) -> Mem {
        self.intern_mem(MemNode::Init(region))
    }

    /// A memory that differs by the edge into `node`.
    pub fn mem_phi(&mut self, node: u32, index: u32, operands: Vec<Mem>) -> Mem {
        self.operands.insert((node, index), operands);
        self.intern_mem(MemNode::Phi { node, index })
    }

    /// A memory with one byte replaced.
    pub fn store(&mut self, mem: Mem, address: Term, byte: Term) -> Mem {
        if let MemNode::Store(below, at, _) = self.mem(mem)
            && at == address
        {
            return self.store(below, address, byte);
        }
        self.intern_mem(MemNode::Store(mem, address, byte))
    }

    /// A byte of a memory.
    pub fn load(&mut self, mut mem: Mem, address: Term) -> Term {
        loop {
            match self.mem(mem) {
                MemNode::Store(below, at, byte) => {
                    if at == address {
                        return byte;
                    }
                    if !self.differ(at, address) {
                        break;
                    }
                    mem = below;
                }
                MemNode::Init(region) => {
                    if let Some(address) = self.value(address) {
                        if let Some(byte) = self.given.get(&(region, address)) {
                            return self.constant(8, (*byte).into());
                        }
                        return self.variable(Var::Byte { region, address }, Self::unknown(8));
                    }
                    if let Some(byte) = self.choose_given(region, mem, address) {
                        return byte;
                    }
                    break;
                }
                MemNode::Phi { node, index } => {
                    if let Some(known) = self.loads.get(&(mem, address)) {
                        return *known;
                    }
                    // What no way changed is the same on all of them.
                    let operands = self.operands.get(&(node, index)).cloned().unwrap_or_default();
                    let mut values =
                        operands.iter().map(|operand| self.load(*operand, address)).collect::<Vec<_>>();
                    values.dedup();
                    let load = match values[..] {
                        [value] => value,
                        _ => self.intern(Node::Load(mem, address), Self::unknown(8)),
                    };
                    self.loads.insert((mem, address), load);
                    return load;
                }
            }
        }
        self.intern(Node::Load(mem, address), Self::unknown(8))
    }

    /// A byte of given contents at an address that may be several, as a choice by address.
    fn choose_given(&mut self, region: u32, mem: Mem, address: Term) -> Option<Term> {
        let Facts { bits, zeros, ones, low, high } = self.facts(address);
        let possible = high.checked_sub(low).filter(|more| *more < MOST_CHOICES)?;
        if let Some(known) = self.loads.get(&(mem, address)) {
            return Some(*known);
        }
        let candidates = (low..=low + possible).filter(|at| at & zeros == 0 && !at & ones == 0);
        let bytes: Option<Vec<(u64, u8)>> =
            candidates.map(|at| Some((at, *self.given.get(&(region, at))?))).collect();
        let mut bytes = bytes?;
        let (_, last) = bytes.pop()?;
        let mut value = self.constant(8, last.into());
        for (at, byte) in bytes.into_iter().rev() {
            let (at, byte) = (self.constant(bits, at), self.constant(8, byte.into()));
            let hit = self.eq(address, at);
            value = self.ite(hit, byte, value);
        }
        self.loads.insert((mem, address), value);
        Some(value)
    }

    /// A byte of a memory without phis, stores that may or may not matter written out as choices.
    pub fn load_resolved(&mut self, mem: Mem, address: Term) -> Term {
        let load = self.load(mem, address);
        let Node::Load(at, _) = self.node(load) else { return load };
        let MemNode::Store(below, target, byte) = self.mem(at) else { return load };
        let (hit, rest) = (self.eq(target, address), self.load_resolved(below, address));
        self.ite(hit, byte, rest)
    }

    /// Whether two addresses are certainly different.
    pub fn differ(&self, a: Term, b: Term) -> bool {
        let ((x, c), (y, d)) = (self.linear(a), self.linear(b));
        if x == y {
            return c != d;
        }
        let (f, g) = (self.facts(a), self.facts(b));
        f.high < g.low || g.high < f.low || f.ones & g.zeros != 0 || f.zeros & g.ones != 0
    }

    /// A term as something plus a constant.
    pub fn linear(&self, term: Term) -> (Option<Term>, u64) {
        match self.node(term) {
            Node::Const(value) => (None, value),
            Node::Op(Op::Add, a, b) => match self.value(b) {
                Some(value) => (Some(a), value),
                None => (Some(term), 0),
            },
            _ => (Some(term), 0),
        }
    }

    pub fn not(&mut self, a: Term) -> Term {
        let bits = self.bits(a);
        let all = self.constant(bits, u64::MAX);
        self.binary(Op::Xor, a, all)
    }

    pub fn negate(&mut self, a: Term) -> Term {
        let bits = self.bits(a);
        let (inverted, one) = (self.not(a), self.constant(bits, 1));
        self.binary(Op::Add, inverted, one)
    }

    pub fn sub(&mut self, a: Term, b: Term) -> Term {
        if a == b {
            let bits = self.bits(a);
            return self.constant(bits, 0);
        }
        let negative = match self.value(b) {
            Some(value) => {
                let bits = self.bits(b);
                self.constant(bits, value.wrapping_neg())
            }
            None => self.negate(b),
        };
        // x + (~x' + 1): the base of two pointers into one region cancels.
        let ((x, c), (y, d)) = (self.linear(a), self.linear(b));
        if x == y {
            let bits = self.bits(a);
            return self.constant(bits, c.wrapping_sub(d));
        }
        self.binary(Op::Add, a, negative)
    }

    pub fn and(&mut self, a: Term, b: Term) -> Term {
        self.binary(Op::And, a, b)
    }

    pub fn or(&mut self, a: Term, b: Term) -> Term {
        self.binary(Op::Or, a, b)
    }

    pub fn eq(&mut self, a: Term, b: Term) -> Term {
        self.binary(Op::Eq, a, b)
    }

    pub fn ult(&mut self, a: Term, b: Term) -> Term {
        self.binary(Op::Ult, a, b)
    }

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

    fn concat_raw(&mut self, high: Term, low: Term) -> Term {
        let (f, g) = (self.facts(high), self.facts(low));
        if let (Node::Extract(x, at), Node::Op(Op::Concat, middle, rest)) = (self.node(high), self.node(low))
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

    /// A binary operation of operands of one width (shifts: the amount has the value's width).
    pub fn binary(&mut self, op: Op, a: Term, b: Term) -> Term {
        debug_assert_eq!(self.bits(a), self.bits(b), "{op:?}");
        if let (Some(x), Some(y)) = (self.value(a), self.value(b)) {
            let bits = self.bits(a);
            let width = if matches!(op, Op::Eq | Op::Ult | Op::Slt) { 1 } else { bits };
            return self.constant(width, evaluate(op, x, y, bits));
        }
        match op {
            Op::Add => self.add(a, b),
            Op::And | Op::Or | Op::Xor => self.logical(op, a, b),
            Op::Shl | Op::Lshr | Op::Ashr => self.shift(op, a, b),
            Op::Eq => self.equal(a, b),
            Op::Ult => self.less(a, b),
            Op::Slt => self.less_signed(a, b),
            Op::Mul => self.multiply(a, b),
            Op::UDiv | Op::URem => {
                let f = self.facts(a);
                self.make(
                    Node::Op(op, a, b),
                    Facts { high: f.high, ..Self::unknown(f.bits) }.for_division(op),
                )
            }
            Op::Concat => self.concat(a, b),
            Op::Zext | Op::Sext => a,
        }
    }

    fn add(&mut self, a: Term, b: Term) -> Term {
        let bits = self.bits(a);
        let (a, b) =
            if self.value(a).is_some() || (self.value(b).is_none() && a > b) { (b, a) } else { (a, b) };
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
            let (sum, constant) = (self.binary(Op::Add, x, y), self.constant(bits, c.wrapping_add(d)));
            return self.binary(Op::Add, sum, constant);
        }
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

    fn multiply(&mut self, a: Term, b: Term) -> Term {
        let bits = self.bits(a);
        let (a, b) =
            if self.value(a).is_some() || (self.value(b).is_none() && a > b) { (b, a) } else { (a, b) };
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

    fn logical(&mut self, op: Op, a: Term, b: Term) -> Term {
        let bits = self.bits(a);
        let (a, b) =
            if self.value(a).is_some() || (self.value(b).is_none() && a > b) { (b, a) } else { (a, b) };
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
        } else if let (Node::Op(Op::Zext, x, _), Node::Op(Op::Zext, y, _)) = (self.node(a), self.node(b))
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

    fn shift(&mut self, op: Op, a: Term, b: Term) -> Term {
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

    fn equal(&mut self, a: Term, b: Term) -> Term {
        if a == b {
            return self.boolean(true);
        }
        if self.differ(a, b) {
            return self.boolean(false);
        }
        let (a, b) =
            if self.value(a).is_some() || (self.value(b).is_none() && a > b) { (b, a) } else { (a, b) };
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

    fn less(&mut self, a: Term, b: Term) -> Term {
        let (f, g) = (self.facts(a), self.facts(b));
        if f.high < g.low {
            return self.boolean(true);
        }
        if a == b || f.low >= g.high {
            return self.boolean(false);
        }
        let bits = f.bits;
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
                Node::Op(Op::Concat, high, x) if self.value(high) == Some(limit >> self.bits(x)) => {
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
            // c < x is not (x < c + 1); c is below the largest value, or the interval would have decided.
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

    fn less_const(&mut self, a: Term, limit: Term) -> Term {
        match self.value(a) {
            Some(value) => {
                let limit = self.value(limit).unwrap_or(0);
                self.boolean(value < limit)
            }
            None => self.less(a, limit),
        }
    }

    fn less_signed(&mut self, a: Term, b: Term) -> Term {
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

impl Facts {
    fn for_division(mut self, op: Op) -> Facts {
        // Division by zero gives all ones in the logic; programs that rely on it test first.
        if op == Op::UDiv {
            self.high = ones(self.bits);
        }
        self
    }
}

/// An operation on constants.
pub fn evaluate(op: Op, x: u64, y: u64, bits: u8) -> u64 {
    let mask = ones(bits);
    (match op {
        Op::Add => x.wrapping_add(y),
        Op::Mul => x.wrapping_mul(y),
        Op::UDiv => x.checked_div(y).unwrap_or(mask),
        Op::URem => x.checked_rem(y).unwrap_or(x),
        Op::And => x & y,
        Op::Or => x | y,
        Op::Xor => x ^ y,
        Op::Shl => {
            if y >= bits.into() {
                0
            } else {
                x << y
            }
        }
        Op::Lshr => {
            if y >= bits.into() {
                0
            } else {
                x >> y
            }
        }
        Op::Ashr => (signed(x, bits) >> y.min(u64::from(bits) - 1)) as u64,
        Op::Eq => (x == y).into(),
        Op::Ult => (x < y).into(),
        Op::Slt => (signed(x, bits) < signed(y, bits)).into(),
        Op::Concat | Op::Zext | Op::Sext => x,
    }) & mask
}
