//! Another solver: what the one inside says of random conditions, z3 says too.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::rc::Rc;

use nicforge_bound::sat::BitBlaster;
use nicforge_bound::solver::{Outcome, Solver};
use nicforge_bound::term::{MemNode, Node, Op, Term, Terms};
use nicforge_util::Random;

/// A term as SMT-LIB; one-bit terms are bit-vectors of length one. Variables and loads are
/// collected.
fn smt(terms: &Terms, term: Term, declared: &mut Vec<Term>) -> String {
    let bits = terms.bits(term);
    let truth = |text: String| format!("(ite {text} #b1 #b0)");
    match terms.node(term) {
        Node::Const(value) => format!("(_ bv{value} {bits})"),
        Node::Var(_) | Node::Load(..) | Node::Phi { .. } => {
            if !declared.contains(&term) {
                declared.push(term);
            }
            format!("v{}", term.0)
        }
        Node::Extract(a, low) => {
            format!("((_ extract {} {low}) {})", low + bits - 1, smt(terms, a, declared))
        }
        Node::Ite(c, a, b) => {
            let c = smt(terms, c, declared);
            format!("(ite (= {c} #b1) {} {})", smt(terms, a, declared), smt(terms, b, declared))
        }
        Node::Op(op, a, b) => {
            let (x, more) = (smt(terms, a, declared), bits.wrapping_sub(terms.bits(a)));
            let y = smt(terms, b, declared);
            let name = match op {
                Op::Zext => return format!("((_ zero_extend {more}) {x})"),
                Op::Sext => return format!("((_ sign_extend {more}) {x})"),
                Op::Eq => return truth(format!("(= {x} {y})")),
                Op::Ult => return truth(format!("(bvult {x} {y})")),
                Op::Slt => return truth(format!("(bvslt {x} {y})")),
                Op::Add => "bvadd",
                Op::Mul => "bvmul",
                Op::UDiv => "bvudiv",
                Op::URem => "bvurem",
                Op::And => "bvand",
                Op::Or => "bvor",
                Op::Xor => "bvxor",
                Op::Shl => "bvshl",
                Op::Lshr => "bvlshr",
                Op::Ashr => "bvashr",
                Op::Concat => "concat",
            };
            format!("({name} {x} {y})")
        }
    }
}

/// True if z3 finds the conditions satisfiable. Loads from one initial memory are equal where their
/// addresses are.
fn z3(terms: &Terms, conditions: &[Term]) -> bool {
    let mut declared = Vec::new();
    let mut body = String::new();
    for condition in conditions {
        let text = smt(terms, *condition, &mut declared);
        writeln!(body, "(assert (= {text} #b1))").unwrap();
    }
    let mut at = 0;
    while at < declared.len() {
        if let Node::Load(mem, address) = terms.node(declared[at]) {
            assert!(matches!(terms.mem(mem), MemNode::Init(_)));
            let text = smt(terms, address, &mut declared);
            writeln!(body, "(assert (= v{} (select memory {text})))", declared[at].0).unwrap();
        }
        at += 1;
    }
    let mut script =
        "(set-logic QF_ABV)\n(declare-const memory (Array (_ BitVec 64) (_ BitVec 8)))\n"
            .to_string();
    for term in &declared {
        writeln!(script, "(declare-const v{} (_ BitVec {}))", term.0, terms.bits(*term)).unwrap();
    }
    script.push_str(&body);
    script.push_str("(check-sat)\n");
    let mut child = Command::new("z3")
        .arg("-in")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("z3 starts (apt-get install z3)");
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let said = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    match said.trim() {
        "sat" => true,
        "unsat" => false,
        other => panic!("{other}\n{script}"),
    }
}

#[test]
fn z3_agrees() {
    let mut random = Random::new(0x51ab_3c5d_1e2f_7788);
    let (mut yes, mut no) = (0, 0);
    for round in 0..60 {
        let mut terms = Terms::new(0, 0xffff);
        let mut solver = BitBlaster::new(Rc::new(|| false));
        let memory = terms.initial(0);
        let mut values: Vec<Term> = (0..3).map(|_| terms.fresh(8)).collect();
        for step in 0..10 {
            let pick = |random: &mut Random, values: &[Term]| values[random.index(values.len())];
            let (a, mut b) = (pick(&mut random, &values), pick(&mut random, &values));
            if random.below(3) == 0 {
                b = terms.constant(8, random.below(256));
            }
            let value = if step % 4 == 3 {
                // A byte of memory at one of a few addresses.
                let few = terms.constant(8, 7);
                let (low, base) = (terms.and(a, few), terms.constant(64, 1 << 31));
                let wide = terms.zext(low, 64);
                let address = terms.binary(Op::Add, wide, base);
                terms.load_resolved(memory, address)
            } else {
                let ops = [
                    Op::Add,
                    Op::Mul,
                    Op::And,
                    Op::Or,
                    Op::Xor,
                    Op::Shl,
                    Op::Lshr,
                    Op::Ashr,
                    Op::UDiv,
                    Op::URem,
                ];
                terms.binary(ops[random.below(10) as usize], a, b)
            };
            values.push(value);
        }
        let mut conditions = Vec::new();
        for _ in 0..4 {
            let a = values[random.index(values.len())];
            let b = if random.below(2) == 0 {
                terms.constant(8, random.below(256))
            } else {
                values[random.index(values.len())]
            };
            let op = [Op::Eq, Op::Ult, Op::Slt][random.below(3) as usize];
            let condition = terms.binary(op, a, b);
            conditions.push(if random.below(2) == 0 { condition } else { terms.not(condition) });
        }
        let ours = matches!(solver.check(&terms, &conditions), Outcome::Sat);
        assert_eq!(ours, z3(&terms, &conditions), "round {round}");
        *(if ours { &mut yes } else { &mut no }) += 1;
    }
    assert!(yes > 5 && no > 5, "{yes} satisfiable, {no} not");
}
