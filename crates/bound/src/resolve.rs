//! Resolving: what a term means on one path.
//!
//! Phis are replaced by their value on the path's edge into their node, recursively. The edges that
//! decided are what a learned clause must contain: any path with the same edges gives the same
//! terms.

use std::rc::Rc;

use crate::hash::HashMap;
use crate::term::{Mem, MemNode, Node, Op, Term, Terms};
use crate::unroll::Dag;

/// Edges that were asked, sorted.
pub type Used = Rc<[u32]>;

/// Terms on one path.
pub struct Resolver<'a> {
    dag: &'a Dag,
    /// Index of the path's edge among those into each node it visits.
    choice: HashMap<u32, u32>,
    terms: HashMap<Term, (Term, Used)>,
    mems: HashMap<Mem, (Mem, Used)>,
    none: Used,
}

impl<'a> Resolver<'a> {
    /// For a path, given by its edges.
    pub fn new(dag: &'a Dag, path: &[u32]) -> Resolver<'a> {
        let choice = path
            .iter()
            .filter_map(|edge| {
                dag.edges[*edge as usize].to.map(|to| (to, dag.edges[*edge as usize].slot))
            })
            .collect();
        Resolver {
            dag,
            choice,
            terms: HashMap::default(),
            mems: HashMap::default(),
            none: Rc::from([]),
        }
    }

    fn join(&self, sets: &[&Used]) -> Used {
        let mut all: Vec<u32> = Vec::new();
        let mut filled: Option<&Used> = None;
        for set in sets.iter().filter(|set| !set.is_empty()) {
            filled = Some(set);
            all.extend(set.iter());
        }
        let Some(last) = filled else { return self.none.clone() };
        all.sort_unstable();
        all.dedup();
        if all.len() == last.len() { last.clone() } else { all.into() }
    }

    /// The term on this path, and the edges that decided.
    pub fn term(&mut self, terms: &mut Terms, term: Term) -> (Term, Used) {
        if let Some(known) = self.terms.get(&term) {
            return known.clone();
        }
        let result = match terms.node(term) {
            Node::Const(_) | Node::Var(_) => (term, self.none.clone()),
            Node::Phi { node, index } => {
                let dag = self.dag;
                let way = self.choice.get(&node).copied().unwrap_or(0);
                let operands = &dag.nodes[node as usize].phis[index as usize];
                let (value, used) = self.term(terms, operands[way as usize]);
                let edge: Used = Rc::from([dag.nodes[node as usize].into[way as usize]]);
                let used = self.join(&[&used, &edge]);
                (value, used)
            }
            Node::Op(op, a, b) => {
                let (x, used_x) = self.term(terms, a);
                let (y, used_y) = self.term(terms, b);
                let used = self.join(&[&used_x, &used_y]);
                let bits = terms.bits(term);
                let value = match op {
                    Op::Zext => terms.zext(x, bits),
                    Op::Sext => terms.sext(x, bits),
                    Op::Concat => terms.concat(x, y),
                    _ => terms.binary(op, x, y),
                };
                (value, used)
            }
            Node::Extract(a, low) => {
                let (x, used) = self.term(terms, a);
                let bits = terms.bits(term);
                (terms.extract(x, low, bits), used)
            }
            Node::Ite(c, a, b) => {
                let (c, used_c) = self.term(terms, c);
                match terms.value(c) {
                    Some(value) => {
                        let (value, used) = self.term(terms, if value == 1 { a } else { b });
                        let used = self.join(&[&used_c, &used]);
                        (value, used)
                    }
                    None => {
                        let (x, used_x) = self.term(terms, a);
                        let (y, used_y) = self.term(terms, b);
                        let used = self.join(&[&used_c, &used_x, &used_y]);
                        (terms.ite(c, x, y), used)
                    }
                }
            }
            Node::Load(mem, address) => {
                let (mem, used_mem) = self.mem(terms, mem);
                let (address, used_address) = self.term(terms, address);
                let used = self.join(&[&used_mem, &used_address]);
                (terms.load_resolved(mem, address), used)
            }
        };
        self.terms.insert(term, result.clone());
        result
    }

    fn mem(&mut self, terms: &mut Terms, mem: Mem) -> (Mem, Used) {
        if let Some(known) = self.mems.get(&mem) {
            return known.clone();
        }
        let result = match terms.mem(mem) {
            MemNode::Init(_) => (mem, self.none.clone()),
            MemNode::Store(below, address, byte) => {
                let (below, used_below) = self.mem(terms, below);
                let (address, used_address) = self.term(terms, address);
                let (byte, used_byte) = self.term(terms, byte);
                let used = self.join(&[&used_below, &used_address, &used_byte]);
                (terms.store(below, address, byte), used)
            }
            MemNode::Phi { node, index } => {
                let dag = self.dag;
                let way = self.choice.get(&node).copied().unwrap_or(0);
                let operands = &dag.nodes[node as usize].mem_phis[index as usize];
                let (value, used) = self.mem(terms, operands[way as usize]);
                let edge: Used = Rc::from([dag.nodes[node as usize].into[way as usize]]);
                let used = self.join(&[&used, &edge]);
                (value, used)
            }
        };
        self.mems.insert(mem, result.clone());
        result
    }
}
