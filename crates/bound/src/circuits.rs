//! Terms as circuits, circuits as clauses of a SAT solver (batsat).
//!
//! Each term is translated once. Loads from an initial memory are variables, of which any two of
//! one region are equal where their addresses are (Ackermann's reduction), so no theory of arrays
//! is needed.

mod gates;

use std::rc::Rc;

use batsat::clause::Kind;
use batsat::{Callbacks, Lit, Solver as Sat, SolverInterface, SolverOpts, lbool};

use crate::hash::HashMap;
use crate::solver::{Model, Outcome};
use crate::term::{Mem, MemNode, Node, Op, Term, Terms, Var};
use gates::Gate;

/// Tells a query to give up. Once it has said so it keeps saying so: circuits that were begun then
/// are not whole.
pub type Stop = Rc<dyn Fn() -> bool>;

/// Conflicts of a query before [`Decide::Inputs`] gives up: a few milliseconds.
const MOST_CONFLICTS: u32 = 2000;

/// Decisions of the SAT solver: on which variables it makes them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Decide {
    /// Variables and loads alone; gates follow. Nearly all queries are answered at once, in about
    /// half the time, but refutations of arithmetic may become exponentially longer.
    Inputs,
    /// Gates, too.
    Everything,
}

/// Ends a query that is stopped, or that takes more conflicts than it may.
struct Watch {
    stop: Stop,
    left: u32,
}

impl Callbacks for Watch {
    fn stop(&self) -> bool {
        self.left == 0 || (self.stop)()
    }

    fn on_new_clause(&mut self, _: &[Lit], _: Kind) {
        self.left = self.left.saturating_sub(1);
    }
}

/// A read of a region's initial contents.
struct Read {
    address: Term,
    byte: Term,
}

/// Circuits of the terms asked for so far.
pub struct Circuits {
    sat: Sat<Watch>,
    decide: Decide,
    stop: Stop,
    yes: Lit,
    terms: HashMap<Term, Rc<[Lit]>>,
    gates: HashMap<Gate, Lit>,
    /// A clause in the making.
    spare: Vec<Lit>,
    reads: HashMap<u32, Vec<Read>>,
}

impl Circuits {
    /// No terms yet.
    pub fn new(stop: Stop, decide: Decide) -> Circuits {
        let mut sat = Sat::new(SolverOpts::default(), Watch { stop: Rc::clone(&stop), left: 1 });
        let yes = Lit::new(sat.new_var_default(), true);
        sat.add_clause_reuse(&mut vec![yes]);
        Circuits {
            sat,
            decide,
            stop,
            yes,
            terms: HashMap::default(),
            gates: HashMap::default(),
            spare: Vec::new(),
            reads: HashMap::default(),
        }
    }

    /// The literals of a term, lowest bit first.
    fn bits(&mut self, terms: &Terms, term: Term) -> Rc<[Lit]> {
        if let Some(known) = self.terms.get(&term) {
            return known.clone();
        }
        let width = usize::from(terms.bits(term));
        if (self.stop)() {
            // Nobody asks the solver any more; making gates may take longer than its answers.
            return vec![self.yes; width].into();
        }
        let lits: Vec<Lit> = match terms.node(term) {
            Node::Const(value) => {
                (0..width).map(|bit| self.constant(value >> bit & 1 != 0)).collect()
            }
            Node::Var(var) => {
                let lits: Vec<Lit> = (0..width).map(|_| self.fresh()).collect();
                match terms.var_info(var) {
                    Var::Size(_) | Var::Base(_) => self.bound(terms, term, &lits),
                    Var::Byte { region, .. } => self.read(terms, region, None, term, &lits),
                    Var::Fresh(_) => {}
                }
                lits
            }
            // Resolved terms have no phis; a free value would only weaken the answer.
            Node::Phi { .. } => (0..width).map(|_| self.fresh()).collect(),
            Node::Extract(a, low) => {
                let a = self.bits(terms, a);
                a[usize::from(low)..usize::from(low) + width].to_vec()
            }
            Node::Ite(c, a, b) => {
                let (c, a, b) = (self.bits(terms, c)[0], self.bits(terms, a), self.bits(terms, b));
                a.iter().zip(b.iter()).map(|(x, y)| self.choose(c, *x, *y)).collect()
            }
            Node::Load(mem, address) => self.load(terms, mem, address, term),
            Node::Op(op, a, b) => {
                let (a, b) = (self.bits(terms, a), self.bits(terms, b));
                self.operation(op, &a, &b, width)
            }
        };
        let lits: Rc<[Lit]> = lits.into();
        self.terms.insert(term, lits.clone());
        lits
    }

    fn operation(&mut self, op: Op, a: &[Lit], b: &[Lit], width: usize) -> Vec<Lit> {
        match op {
            Op::Add => {
                let no = !self.yes;
                self.add(a, b, no).0
            }
            Op::Mul => self.multiply(a, b),
            Op::UDiv => self.divide(a, b).0,
            Op::URem => self.divide(a, b).1,
            Op::And => a.iter().zip(b).map(|(x, y)| self.and(*x, *y)).collect(),
            Op::Or => a.iter().zip(b).map(|(x, y)| self.or(*x, *y)).collect(),
            Op::Xor => a.iter().zip(b).map(|(x, y)| self.xor(*x, *y)).collect(),
            Op::Shl | Op::Lshr | Op::Ashr => self.shift(op, a, b),
            Op::Eq => vec![self.equal(a, b)],
            Op::Ult => vec![self.less(a, b)],
            Op::Slt => {
                // Flipping the signs makes it unsigned.
                let flip = |bits: &[Lit]| {
                    let mut bits = bits.to_vec();
                    if let Some(sign) = bits.last_mut() {
                        *sign = !*sign;
                    }
                    bits
                };
                vec![self.less(&flip(a), &flip(b))]
            }
            Op::Concat => b.iter().chain(a).copied().collect(),
            Op::Zext => (0..width).map(|i| a.get(i).copied().unwrap_or(!self.yes)).collect(),
            Op::Sext => (0..width).map(|i| a.get(i).copied().unwrap_or(a[a.len() - 1])).collect(),
        }
    }

    /// A value from outside lies in its interval and has its certain zeros.
    fn bound(&mut self, terms: &Terms, term: Term, lits: &[Lit]) {
        let facts = terms.facts(term);
        let number = |me: &Self, value: u64| {
            (0..lits.len()).map(|bit| me.constant(value >> bit & 1 != 0)).collect::<Vec<_>>()
        };
        let (low, high) = (number(self, facts.low), number(self, facts.high));
        let (below, above) = (self.less(lits, &low), self.less(&high, lits));
        self.clause(&[!below]);
        self.clause(&[!above]);
        for (bit, lit) in lits.iter().enumerate() {
            if facts.zeros >> bit & 1 != 0 {
                self.clause(&[!*lit]);
            }
        }
    }

    fn load(&mut self, terms: &Terms, mem: Mem, address: Term, term: Term) -> Vec<Lit> {
        // Reads inside the address come first, so that this one is tied to them too.
        self.bits(terms, address);
        let value: Vec<Lit> = (0..8).map(|_| self.fresh()).collect();
        // Resolved loads are from initial contents; stores have become choices.
        if let MemNode::Init(region) = terms.mem(mem) {
            self.read(terms, region, Some(address), term, &value);
        }
        value
    }

    /// Registers a read of initial contents: it equals every other read of the same address.
    fn read(
        &mut self,
        terms: &Terms,
        region: u32,
        address: Option<Term>,
        term: Term,
        value: &[Lit],
    ) {
        self.terms.insert(term, value.to_vec().into());
        let others: Vec<(Term, Term)> = self
            .reads
            .get(&region)
            .map(|reads| reads.iter().map(|read| (read.address, read.byte)).collect())
            .unwrap_or_default();
        let address = address.unwrap_or(term);
        for (other, byte) in others {
            if (self.stop)() {
                return;
            }
            self.tie(terms, (address, value), (other, byte));
        }
        self.reads.entry(region).or_default().push(Read { address, byte: term });
    }

    /// Equal addresses, equal bytes. Bytes at constant addresses stand for their address
    /// themselves.
    fn tie(
        &mut self,
        terms: &Terms,
        (address, value): (Term, &[Lit]),
        (other, byte): (Term, Term),
    ) {
        let constant = |term: Term| match terms.node(term) {
            Node::Var(var) => match terms.var_info(var) {
                Var::Byte { address, .. } => Some(address),
                _ => None,
            },
            _ => None,
        };
        let hit = match (constant(address), constant(other)) {
            (Some(_), Some(_)) => return,
            (None, None) => {
                if terms.differ(address, other) {
                    return;
                }
                let (x, y) = (self.bits(terms, address), self.bits(terms, other));
                self.equal(&x, &y)
            }
            (number, theirs) => {
                let (term, number) =
                    if number.is_some() { (other, number) } else { (address, theirs) };
                let (facts, number) = (terms.facts(term), number.unwrap_or(0));
                let impossible = number < facts.low
                    || number > facts.high
                    || facts.ones & !number != 0
                    || facts.zeros & number != 0;
                if impossible {
                    return;
                }
                let bits = self.bits(terms, term);
                let number: Vec<Lit> =
                    (0..bits.len()).map(|bit| self.constant(number >> bit & 1 != 0)).collect();
                self.equal(&bits, &number)
            }
        };
        let byte = self.bits(terms, byte);
        for (x, y) in value.iter().zip(byte.iter()) {
            self.clause(&[!hit, !*x, *y]);
            self.clause(&[!hit, *x, !*y]);
        }
    }
}

impl Circuits {
    /// How many of some one-bit terms have no circuit yet.
    pub fn missing(&self, roots: &[Term]) -> usize {
        roots.iter().filter(|term| !self.terms.contains_key(term)).count()
    }

    /// Decides whether all assumptions can hold together. [`Decide::Inputs`] may give up on what
    /// another answers.
    pub fn check(&mut self, terms: &Terms, assumptions: &[Term]) -> Outcome {
        let lits: Vec<Lit> = assumptions.iter().map(|term| self.bits(terms, *term)[0]).collect();
        if (self.stop)() {
            return Outcome::Unknown;
        }
        self.sat.cb_mut().left = match self.decide {
            Decide::Inputs => MOST_CONFLICTS,
            Decide::Everything => u32::MAX,
        };
        match self.sat.solve_limited(&lits) {
            answer if answer == lbool::TRUE => Outcome::Sat,
            answer if answer == lbool::FALSE => {
                let used = |(_, lit): &(usize, &Lit)| self.sat.unsat_core_contains_var(lit.var());
                Outcome::Unsat(
                    lits.iter().enumerate().filter(used).map(|(index, _)| index).collect(),
                )
            }
            _ => Outcome::Unknown,
        }
    }

    /// Values of variables and loads after a check that was satisfiable.
    pub fn model(&self, terms: &Terms, wanted: &[Term]) -> Model {
        let mut model = Model::default();
        for term in wanted {
            let Some(lits) = self.terms.get(term) else { continue };
            let value = lits.iter().enumerate().map(|(bit, lit)| {
                let set = *lit == self.yes
                    || *lit != !self.yes && self.sat.value_lit(*lit) == lbool::TRUE;
                u64::from(set) << bit
            });
            debug_assert!(matches!(terms.node(*term), Node::Var(_) | Node::Load(..)));
            model.values.insert(*term, value.sum());
        }
        model
    }
}
