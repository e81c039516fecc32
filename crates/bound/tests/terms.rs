//! Random terms: what simplification makes of them has the value the operations say, and the solver
//! agrees.

use std::rc::Rc;

use nicforge_bound::sat::BitBlaster;
use nicforge_bound::solver::{Model, Outcome, Solver};
use nicforge_bound::term::{Op, Term, Terms, evaluate, ones, signed};
use nicforge_util::Random;

const OPS: [Op; 13] = [
    Op::Add,
    Op::Add,
    Op::Mul,
    Op::UDiv,
    Op::URem,
    Op::And,
    Op::Or,
    Op::Xor,
    Op::Shl,
    Op::Lshr,
    Op::Ashr,
    Op::Concat,
    Op::Zext,
];

/// A term, and its value under the assignment.
type Pair = (Term, u64);

fn constant(random: &mut Random, terms: &mut Terms, bits: u8) -> Pair {
    let value = match random.below(4) {
        0 => random.below(8),
        1 => ones(random.below(u64::from(bits) + 1) as u8),
        2 => 1 << random.below(bits.into()),
        _ => random.next(),
    } & ones(bits);
    (terms.constant(bits, value), value)
}

/// A random term of some width over the variables.
fn grow(random: &mut Random, terms: &mut Terms, vars: &[Pair], bits: u8, depth: u32) -> Pair {
    if depth == 0 || random.below(8) == 0 {
        if random.below(3) == 0 {
            return constant(random, terms, bits);
        }
        let (var, value) = vars[random.below(vars.len() as u64) as usize];
        let have = terms.bits(var);
        return match have.cmp(&bits) {
            std::cmp::Ordering::Less if random.below(2) == 0 => {
                (terms.sext(var, bits), signed(value, have) as u64 & ones(bits))
            }
            std::cmp::Ordering::Less => (terms.zext(var, bits), value),
            _ => {
                let low = random.below(u64::from(have - bits) + 1) as u8;
                (terms.extract(var, low, bits), value >> low & ones(bits))
            }
        };
    }
    let depth = depth - 1;
    match random.below(7) {
        0 => {
            let (c, x) = compare(random, terms, vars, depth);
            let (a, y) = grow(random, terms, vars, bits, depth);
            let (b, z) = grow(random, terms, vars, bits, depth);
            (terms.ite(c, a, b), if x == 1 { y } else { z })
        }
        1 if bits < 64 => {
            let wide = bits + 1 + random.below(u64::from(64 - bits)) as u8;
            let (a, x) = grow(random, terms, vars, wide, depth);
            let low = random.below(u64::from(wide - bits) + 1) as u8;
            (terms.extract(a, low, bits), x >> low & ones(bits))
        }
        2 => {
            let (a, x) = grow(random, terms, vars, bits, depth);
            let (b, y) = grow(random, terms, vars, bits, depth);
            (terms.sub(a, b), x.wrapping_sub(y) & ones(bits))
        }
        _ => {
            let op = OPS[random.below(OPS.len() as u64) as usize];
            match op {
                Op::Concat | Op::Zext if bits > 1 => {
                    let low = 1 + random.below(u64::from(bits) - 1) as u8;
                    let (b, y) = grow(random, terms, vars, low, depth);
                    if op == Op::Zext {
                        return (terms.zext(b, bits), y);
                    }
                    let (a, x) = grow(random, terms, vars, bits - low, depth);
                    (terms.concat(a, b), x << low | y)
                }
                Op::Concat | Op::Zext => constant(random, terms, bits),
                _ => {
                    let (a, x) = grow(random, terms, vars, bits, depth);
                    let (mut b, mut y) = grow(random, terms, vars, bits, depth);
                    if matches!(op, Op::Shl | Op::Lshr | Op::Ashr) && random.below(2) == 0 {
                        y = random.below(u64::from(bits) + 2) & ones(bits);
                        b = terms.constant(bits, y);
                    }
                    (terms.binary(op, a, b), evaluate(op, x, y, bits))
                }
            }
        }
    }
}

fn compare(random: &mut Random, terms: &mut Terms, vars: &[Pair], depth: u32) -> Pair {
    let bits = [1, 8, 13, 16, 32, 33, 64][random.below(7) as usize];
    let (a, x) = grow(random, terms, vars, bits, depth);
    let (b, y) = if random.below(2) == 0 {
        constant(random, terms, bits)
    } else {
        grow(random, terms, vars, bits, depth)
    };
    let op = [Op::Eq, Op::Ult, Op::Slt][random.below(3) as usize];
    (terms.binary(op, a, b), evaluate(op, x, y, bits))
}

#[test]
fn simplified_terms_keep_their_value() {
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    for round in 0..3000 {
        let mut terms = Terms::new(60, 1500);
        let mut model = Model::default();
        let mut vars = Vec::new();
        for bits in [1, 8, 8, 16, 32, 64] {
            let var = terms.fresh(bits);
            let value =
                if random.below(3) == 0 { random.below(4) } else { random.next() } & ones(bits);
            model.values.insert(var, value);
            vars.push((var, value));
        }
        for _ in 0..8 {
            let (term, value) = compare(&mut random, &mut terms, &vars, 4);
            assert_eq!(model.value(&terms, term), value, "round {round}");
            let facts = terms.facts(term);
            assert!(facts.low <= value && value <= facts.high && value & facts.zeros == 0);
        }
        let bits = [8, 16, 32, 64][random.below(4) as usize];
        let (term, value) = grow(&mut random, &mut terms, &vars, bits, 5);
        assert_eq!(model.value(&terms, term), value, "round {round}");
        let facts = terms.facts(term);
        assert!(facts.low <= value && value <= facts.high, "round {round}: {value:#x} {facts:x?}");
        assert!(
            value & facts.zeros == 0 && value & facts.ones == facts.ones,
            "round {round}: {value:#x} {facts:x?}"
        );
    }
}

#[test]
fn the_solver_agrees() {
    let mut random = Random::new(77);
    for round in 0..120 {
        let mut terms = Terms::new(60, 1500);
        let mut solver = BitBlaster::new(Rc::new(|| false));
        let mut vars = Vec::new();
        let mut assumptions = Vec::new();
        for bits in [1, 8, 16, 32] {
            let var = terms.fresh(bits);
            let value = random.next() & ones(bits);
            let number = terms.constant(bits, value);
            assumptions.push(terms.eq(var, number));
            vars.push((var, value));
        }
        for _ in 0..4 {
            let (term, value) = compare(&mut random, &mut terms, &vars, 3);
            let not = terms.not(term);
            for (claim, holds) in [(term, value == 1), (not, value == 0)] {
                let mut query = assumptions.clone();
                query.push(claim);
                let sat = matches!(solver.check(&terms, &query), Outcome::Sat);
                assert_eq!(sat, holds, "round {round}");
            }
        }
    }
}

/// More conflicts than deciding on inputs alone may take: a prime has no factors, and a product of
/// two primes has those.
#[test]
fn hard_arithmetic_is_answered_too() {
    let mut terms = Terms::new(60, 1500);
    let mut solver = BitBlaster::new(Rc::new(|| false));
    let factors = [terms.fresh(14), terms.fresh(14)];
    let [x, y] = factors.map(|factor| terms.zext(factor, 28));
    let product = terms.binary(Op::Mul, x, y);
    let one = terms.constant(14, 1);
    let proper = factors.map(|factor| terms.ult(one, factor));
    let mut ask = |number: u64| {
        let number = terms.constant(28, number);
        let equal = terms.eq(product, number);
        match solver.check(&terms, &[proper[0], proper[1], equal]) {
            Outcome::Sat => {
                let model = solver.model(&terms, &factors);
                let mut found = factors.map(|factor| model.value(&terms, factor));
                found.sort_unstable();
                Some(found)
            }
            Outcome::Unsat(_) => None,
            Outcome::Unknown => panic!("nobody stopped it"),
        }
    };
    // 2^27 - 39 is a prime.
    assert_eq!(ask((1 << 27) - 39), None);
    assert_eq!(ask(10007 * 12289), Some([10007, 12289]));
}
