//! Hash-consed bit-vector terms of up to 64 bits, and byte memories.
//!
//! A term is built once however often it is written, and is simplified when it is built: constants
//! fold, comparisons with constants lose the additions and extensions around their variable, loads
//! walk past stores that cannot matter. Every term knows which of its bits are certain and the
//! interval its value lies in; a term whose interval is one value is a constant. So most branches
//! of a program are decided here, and what is left for a solver is small.
//!
//! Phis stand for values that differ between the ways into a node of the unrolled program;
//! resolving a path replaces them.

mod base;
mod memory;
mod rules;
mod shape;
mod value;

use crate::hash::HashMap;

pub use value::{evaluate, ones, signed};

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

/// Kinds of terms.
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

/// Kinds of memory states.
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
    Size(u32),
    /// Byte of a region's initial contents, by its address.
    Byte { region: u32, address: u64 },
    /// Where a memory begins: a number in an interval, of which addresses in that memory are sums.
    Base(u32),
    /// A value nothing is known about: undefined registers, table contents that others may change,
    /// helpers' results.
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
    bases: HashMap<u32, Term>,
    /// Sums as a base and an offset, see [`Terms::strip`].
    stripped: HashMap<Term, Option<(u32, Term)>>,
}

/// Most places of given contents one load may choose from.
const MOST_CHOICES: u64 = 2048;

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

    /// True if there are none.
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
        let facts =
            Facts { bits, zeros: !value & ones(bits), ones: value, low: value, high: value };
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

    /// A packet's size, 16 bits.
    pub fn packet_size(&mut self, packet: u32) -> Term {
        let (low, high) = self.size;
        let facts = Facts { low, high, ..Self::unknown(16) };
        self.variable(Var::Size(packet), facts)
    }

    /// A new unknown value.
    pub fn fresh(&mut self, bits: u8) -> Term {
        self.fresh += 1;
        self.variable(Var::Fresh(self.fresh), Self::unknown(bits))
    }

    /// A value that nothing is known about in place of a term, from here on wherever it would be
    /// built again. More may seem possible then than is, never less.
    pub fn opaque(&mut self, term: Term) -> Term {
        match self.node(term) {
            Node::Const(_) | Node::Var(_) => term,
            node => {
                let bits = self.bits(term);
                let value = self.fresh(bits);
                self.known.insert((node, bits), value);
                value
            }
        }
    }

    /// A value that differs by the edge into `node`; `low..=high` holds for all of them.
    pub fn phi(&mut self, node: u32, index: u32, bits: u8, (low, high): (u64, u64)) -> Term {
        self.intern(Node::Phi { node, index }, Facts { low, high, ..Self::unknown(bits) })
    }

    /// True if two addresses are certainly different.
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
        if let Some((x, y)) = self.same_base(a, b) {
            return self.sub(x, y);
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
