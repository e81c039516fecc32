//! Divisions as wires.
//!
//! By a constant: the quotient of a number of `n` bits by `d` is the top of its product with `m`,
//! the least whole number not below 2^(n+l) / d, where l is the number of bits of d - 1 (Granlund
//! and Montgomery, 1994); `m` has n + 1 bits. By anything else, and for more than 32 bits: a bit at
//! a time, as on paper; each step is a subtraction and a choice, and the schedule puts as many into
//! a stage as fit.
//!
//! Signed numbers are divided without their signs. A quotient by zero is zero and the remainder the
//! dividend, as in the interpreter; the least number by -1 wraps around.

use nicforge_ir::BinOp;

use super::*;

/// Most bits of a number that is divided by multiplying.
const MOST_PRODUCT: u32 = 32;

impl Walk<'_, '_, '_> {
    /// The wires of a `div` or `rem`.
    pub(super) fn divide(&mut self, id: InstId) {
        let inst = &self.body.insts[id];
        let Op::Bin(op, a, b) = inst.op else { return };
        let (width, signed) = (self.low.width(a), self.low.ty(a).is_signed());
        let constant = self.low.constant(b);
        let (x, y) = (self.low.operand(a), self.low.operand(b));
        let negate = timing::carry(width) + timing::CHOOSE;
        let mut size = |text: &str, name: &str| match signed {
            // A shift of all bits but the sign's away, so that numbers may stand here as well.
            true => {
                let value = format!("$signed({text}) < 0 ? -{text} : {text}");
                self.wire(name, width, value, negate)
            }
            false => text.to_string(),
        };
        let (n, d) = (size(&x, "dividend"), size(&y, "divisor"));
        let (quotient, rest) = match constant {
            Some(by) if width <= MOST_PRODUCT && (!signed || by >> (width - 1) == 0) && by > 1 => {
                self.by_product(width, &n, by)
            }
            _ => self.by_steps(width, &n, &d),
        };
        let zero = number(width, 0);
        let (value, turned) = match op {
            BinOp::Div => (quotient, format!("(($signed({x}) < 0) != ($signed({y}) < 0))")),
            _ => (rest, format!("($signed({x}) < 0)")),
        };
        let (value, mut delay) = match signed {
            true => (format!("{turned} ? -{value} : {value}"), negate + timing::CHOOSE),
            false => (value, 0),
        };
        let value = match (constant, op) {
            (Some(by), _) if by != 0 => value,
            (_, BinOp::Div) => {
                delay += timing::CHOOSE;
                format!("{y} == {zero} ? {zero} : ({value})")
            }
            // The steps leave the dividend, since nothing is ever subtracted.
            _ => {
                delay += timing::CHOOSE;
                format!("{y} == {zero} ? {x} : ({value})")
            }
        };
        self.result(inst.results[0], value, delay);
    }

    fn by_product(&mut self, width: u32, n: &str, by: u64) -> (String, String) {
        let bits = 64 - (by - 1).leading_zeros();
        let factor = (1u128 << (width + bits)).div_ceil(u128::from(by));
        let wide = 2 * width + 1;
        let product = format!("{{{}, {n}}} * {wide}'h{factor:x}", number(width + 1, 0));
        let product = self.wire("product", wide, product, timing::bin(BinOp::Mul, width, true));
        let quotient = format!("{width}'({product} >> {})", width + bits);
        let quotient = self.wire("quotient", width, quotient, 0);
        let times = format!("{quotient} * {}", number(width, by));
        let times = self.wire("times", width, times, timing::bin(BinOp::Mul, width, true));
        let rest = self.wire("remainder", width, format!("{n} - {times}"), timing::carry(width));
        (quotient, rest)
    }

    fn by_steps(&mut self, width: u32, n: &str, d: &str) -> (String, String) {
        let n = self.wire("dividend", width, n.to_string(), 0);
        let mut rest = number(width, 0);
        let mut bits = Vec::new();
        for at in (0..width).rev() {
            let next = self.wire("with_bit", width + 1, format!("{{{rest}, {n}[{at}]}}"), 0);
            let less = self.wire(
                "less",
                width + 1,
                format!("{next} - {{1'b0, {d}}}"),
                timing::carry(width),
            );
            let rested = format!("{less}[{width}] ? {next}[{0}:0] : {less}[{0}:0]", width - 1);
            rest = self.wire("rest", width, rested, timing::CHOOSE);
            bits.push(format!("!{less}[{width}]"));
        }
        let quotient = self.wire("quotient", width, format!("{{{}}}", bits.join(", ")), 0);
        (quotient, rest)
    }
}
