//! Pure ops as C expressions.
//!
//! Nested operands are always parenthesised, so nobody has to know C's precedences to read or check
//! them. Results narrower than C's `int` are cut back to their width. Signed arithmetic wraps in
//! αIR and is undefined in C, so it is done in unsigned types and cast back.

use nicforge_ir::build::mask;
use nicforge_ir::layout::int_layout;
use nicforge_ir::{BinOp, CmpOp, InstId, Op, Proj, Type, UnOp, ValueDef, ValueId};

use super::body::{Dialect, Emitter};
use super::types::{int_name, literal};

/// A C expression and whether it can stand as an operand without parentheses.
pub struct Expr {
    pub text: String,
    pub atom: bool,
}

impl Expr {
    pub fn atom(text: impl Into<String>) -> Expr {
        Expr { text: text.into(), atom: true }
    }

    pub fn compound(text: impl Into<String>) -> Expr {
        Expr { text: text.into(), atom: false }
    }

    /// Fit to be an operand.
    pub fn operand(self) -> String {
        if self.atom { self.text } else { format!("({})", self.text) }
    }
}

impl<D: Dialect> Emitter<'_, D> {
    /// A value where it is used.
    pub fn value(&self, value: ValueId) -> Expr {
        match self.body.def_inst(value) {
            Some(inst) if self.vars.is_inline(value) => self.expression(inst),
            _ => Expr::atom(self.vars.name(value)),
        }
    }

    /// A value as an operand of a larger expression.
    pub fn operand(&self, value: ValueId) -> String {
        self.value(value).operand()
    }

    /// A value as a whole expression: an argument or the right side of an assignment.
    pub fn text(&self, value: ValueId) -> String {
        self.value(value).text
    }

    /// The constant a value is, if it is one.
    pub fn constant(&self, value: ValueId) -> Option<u64> {
        match self.body.def_op(value) {
            Some(Op::Int(c)) => Some(*c),
            Some(Op::Zero) if self.body.ty(value).is_int() => Some(0),
            _ => None,
        }
    }

    /// The expression an integer-valued pure instruction computes.
    pub fn expression(&self, inst: InstId) -> Expr {
        let data = &self.body.insts[inst];
        let ty = self.body.ty(data.results[0]);
        match &data.op {
            Op::Int(value) => {
                let text = literal(*value, ty);
                Expr { atom: !text.starts_with('-'), text }
            }
            Op::Zero => Expr::atom(literal(0, ty)),
            Op::Bin(op, a, b) => self.binary(*op, *a, *b, ty),
            Op::Cmp(op, a, b) => self.comparison(*op, *a, *b),
            Op::Un(UnOp::Not, a) if ty == Type::BOOL => {
                Expr::compound(format!("!{}", self.operand(*a)))
            }
            // Compilers warn of a complement of truth.
            Op::Un(UnOp::Not, a) if matches!(self.body.def_op(*a), Some(Op::Cast(b)) if self.body.ty(*b) == Type::BOOL) =>
            {
                let ones = literal(u64::MAX >> (64 - u32::from(ty.bits().unwrap_or(64))), ty);
                wrap(Expr::compound(format!("{} ^ {ones}", self.operand(*a))), ty)
            }
            Op::Un(UnOp::Not, a) => wrap(Expr::compound(format!("~{}", self.operand(*a))), ty),
            Op::Un(UnOp::Neg, a) if ty.is_signed() => {
                let unsigned = self.types.name(carrier(ty));
                let cast = self.types.name(ty);
                wrap(Expr::compound(format!("({cast})-({unsigned}){}", self.operand(*a))), ty)
            }
            Op::Un(UnOp::Neg, a) => wrap(Expr::compound(format!("-{}", self.operand(*a))), ty),
            Op::Un(UnOp::Bswap, a) => {
                let swap = format!("__builtin_bswap{}({})", ty.bits().unwrap_or(64), self.text(*a));
                match ty.is_signed() {
                    // Builtins give unsigned numbers.
                    true => Expr::compound(format!("({}){swap}", self.types.name(ty))),
                    false => Expr::atom(swap),
                }
            }
            Op::Un(UnOp::Popcount, a) => {
                // Above the width of a signed type stand copies of its sign.
                let all = u64::MAX >> (64 - ty.bits().unwrap_or(64));
                let value = if ty.is_signed() {
                    format!("{} & {all:#x}ull", self.operand(*a))
                } else {
                    self.text(*a)
                };
                wrap(
                    Expr::compound(format!(
                        "({})__builtin_popcountll({value})",
                        self.types.name(ty)
                    )),
                    ty,
                )
            }
            Op::Cast(a) => self.cast(*a, ty),
            Op::Select { cond, then, other } => Expr::compound(format!(
                "{} ? {} : {}",
                self.operand(*cond),
                self.operand(*then),
                self.operand(*other)
            )),
            Op::Get { agg, path } => self.read(*agg, path),
            Op::ConstElem { array, index } => {
                let name = &self.const_names[array];
                let len = self.program.consts[*array].bytes.len() as u32
                    / self.program.size_of(self.program.consts[*array].elem);
                match self.constant(*index) {
                    Some(i) if i < len as u64 => Expr::atom(format!("{name}[{i}]")),
                    Some(_) => Expr::atom("0"),
                    None if self.below(*index, len) => {
                        Expr::atom(format!("{name}[{}]", self.index(*index, len)))
                    }
                    None => {
                        let (check, at) = (self.operand(*index), self.index(*index, len));
                        Expr::compound(format!("{check} < {len} ? {name}[{at}] : 0"))
                    }
                }
            }
            Op::Now => Expr::atom("clock.now"),
            other => unreachable!("{other:?} is not an expression"),
        }
    }

    fn binary(&self, op: BinOp, a: ValueId, b: ValueId, ty: Type) -> Expr {
        let Type::Int { bits, signed } = ty else { return Expr::atom("0") };
        let infix =
            |sign: &str| Expr::compound(format!("{} {sign} {}", self.operand(a), self.operand(b)));
        let call = |name: &str| format!("{name}({}, {})", self.text(a), self.text(b));
        let amount = self.constant(b);
        let exact = match op {
            BinOp::And => return infix("&"),
            BinOp::Or => return infix("|"),
            BinOp::Xor => return infix("^"),
            BinOp::Add => return self.wrapping("+", a, b, ty),
            BinOp::Sub => return self.wrapping("-", a, b, ty),
            BinOp::Mul => return self.wrapping("*", a, b, ty),
            BinOp::Div if !signed && amount.is_some_and(|n| n > 0) => return infix("/"),
            BinOp::Rem if !signed && amount.is_some_and(|n| n > 0) => return infix("%"),
            BinOp::Div => Expr::atom(call(if signed { "nf_sdiv" } else { "nf_udiv" })),
            BinOp::Rem => Expr::atom(call(if signed { "nf_srem" } else { "nf_urem" })),
            BinOp::Shl => match amount {
                Some(n) if n < bits as u64 => return self.wrapping("<<", a, b, ty),
                Some(_) => return Expr::atom("0"),
                None => Expr::atom(format!("nf_shl({}, {}, {bits})", self.text(a), self.amount(b))),
            },
            BinOp::Shr => match amount {
                Some(n) if n < bits as u64 => return infix(">>"),
                Some(_) if !signed => return Expr::atom("0"),
                _ => {
                    let name = if signed { "nf_sar" } else { "nf_shr" };
                    Expr::atom(format!("{name}({}, {}, {bits})", self.text(a), self.amount(b)))
                }
            },
        };
        wrap(exact, ty)
    }

    /// An operation whose result wraps. Where C would compute it in a signed type that can overflow
    /// (which `int` is for products of `u16`), the operands are made unsigned first.
    fn wrapping(&self, sign: &str, a: ValueId, b: ValueId, ty: Type) -> Expr {
        let (left, right) = (self.operand(a), self.operand(b));
        let short_product = sign == "*" && ty.bits().is_some_and(|bits| (9..=16).contains(&bits));
        if !ty.is_signed() && !short_product {
            return wrap(Expr::compound(format!("{left} {sign} {right}")), ty);
        }
        let unsigned = self.types.name(carrier(ty));
        let right = if sign == "<<" { right } else { format!("({unsigned}){right}") };
        let exact = Expr::compound(format!("({unsigned}){left} {sign} {right}"));
        let cast = Expr::compound(format!("({}){}", self.types.name(ty), exact.operand()));
        if native(ty.bits().unwrap_or(64)) { cast } else { wrap(cast, ty) }
    }

    /// A shift amount, read as unsigned whatever its type.
    fn amount(&self, value: ValueId) -> String {
        match self.body.ty(value) {
            Type::Int { bits, signed: true } => {
                format!("({}){}", int_name(bits, false), self.operand(value))
            }
            _ => self.text(value),
        }
    }

    fn comparison(&self, op: CmpOp, a: ValueId, b: ValueId) -> Expr {
        let sign = match op {
            CmpOp::Eq => "==",
            CmpOp::Ne => "!=",
            CmpOp::Lt => "<",
            CmpOp::Le => "<=",
            CmpOp::Gt => ">",
            CmpOp::Ge => ">=",
        };
        if self.body.ty(a) == Type::BOOL && self.constant(b) == Some(0) {
            match op {
                CmpOp::Eq => return Expr::compound(format!("!{}", self.operand(a))),
                CmpOp::Ne => return self.value(a),
                _ => {}
            }
        }
        // A counter is compared with a count: what the verifier learns about the count when the
        // loop ends would differ for every number of trips, and so would everything behind the
        // loop.
        let counts = |counter: ValueId, count: ValueId| {
            matches!(self.body.values[counter].def, ValueDef::Param(..))
                && self.constant(count).is_none()
        };
        let unlinked = |value: ValueId| {
            format!("({})nf_unlinked({})", self.types.name(self.body.ty(value)), self.text(value))
        };
        let (left, right) = match (counts(a, b), counts(b, a)) {
            (true, _) => (self.operand(a), unlinked(b)),
            (_, true) => (unlinked(a), self.operand(b)),
            _ => (self.operand(a), self.operand(b)),
        };
        Expr::compound(format!("{left} {sign} {right}"))
    }

    fn cast(&self, a: ValueId, ty: Type) -> Expr {
        let Some(to) = ty.bits() else { return self.value(a) };
        if ty == Type::BOOL {
            return Expr::compound(format!("{} & 1", self.operand(a)));
        }
        // Written out even where C would widen by itself: the operand must have exactly this type
        // in what follows, or C's promotion to int would turn unsigned comparisons and shifts into
        // signed ones.
        let cast = Expr::compound(format!("({}){}", int_name(to, ty.is_signed()), self.operand(a)));
        if native(to) { cast } else { wrap(cast, ty) }
    }

    /// The part of an aggregate at a path, which is an integer.
    fn read(&self, agg: ValueId, path: &[Proj]) -> Expr {
        let (place, checks) = self.place(agg, path);
        if checks.is_empty() {
            match self.bit_field_type(agg, path) {
                // C promotes a short bit-field to int even if it is declared u32 or u64.
                Some(ty) => Expr::compound(format!("({}){place}", self.types.name(ty))),
                None => Expr::atom(place),
            }
        } else {
            Expr::compound(format!("{} ? {place} : 0", checks.join(" && ")))
        }
    }

    /// The declared type of the bit-field of 32 bits and more that a path ends in, if it does.
    fn bit_field_type(&self, agg: ValueId, path: &[Proj]) -> Option<Type> {
        let (last, outer) = path.split_last()?;
        let Type::Struct(id) = self.program.project(self.body.ty(agg), outer)? else { return None };
        let Proj::Field(field) = last else { return None };
        let field = &self.program.structs[id].fields[*field as usize];
        (field.bit_width.is_some() && field.ty.bits()? >= 32).then_some(field.ty)
    }

    /// The lvalue of a part of an aggregate for reading, and the conditions under which its indices
    /// are inside.
    pub fn place(&self, agg: ValueId, path: &[Proj]) -> (String, Vec<String>) {
        let base = D::source(self, agg).unwrap_or_else(|| self.vars.name(agg).to_string());
        self.place_from(base, self.body.ty(agg), path)
    }

    /// Like [`Emitter::place`], from any C lvalue of the type.
    pub fn place_from(
        &self,
        mut text: String,
        mut ty: Type,
        path: &[Proj],
    ) -> (String, Vec<String>) {
        let mut checks = Vec::new();
        let mut wrapped = matches!(ty, Type::Array(_));
        for step in path {
            match (step, ty) {
                (Proj::Field(field), Type::Struct(id)) => {
                    let member = self.types.member(id, *field);
                    text = match text.strip_prefix("(*").and_then(|t| t.strip_suffix(')')) {
                        Some(pointer) if !pointer.contains('(') => format!("{pointer}->{member}"),
                        _ => format!("{text}.{member}"),
                    };
                    ty = self.program.structs[id].fields[*field as usize].ty;
                    wrapped = false;
                }
                (Proj::Index(index), Type::Array(id)) => {
                    let def = self.program.arrays[id];
                    if wrapped {
                        text.push_str(".v");
                    }
                    let at = match self.constant(*index) {
                        // Out of range at compile time: the check below keeps it from being read.
                        Some(i) if i >= def.len as u64 => {
                            checks.push("false".to_string());
                            "0".to_string()
                        }
                        Some(i) => i.to_string(),
                        None => {
                            if !self.below(*index, def.len) {
                                checks.push(format!("{} < {}", self.unsigned(*index), def.len));
                            }
                            self.index(*index, def.len)
                        }
                    };
                    text = format!("{text}[{at}]");
                    ty = def.elem;
                    wrapped = false;
                }
                _ => unreachable!("the verifier checked the path"),
            }
        }
        (text, checks)
    }

    /// An index that is below `len`. Loop counters are constants to the verifier, which walks every
    /// trip; all others go through a check that clang cannot remove because of what it knows about
    /// the value and the verifier does not.
    pub fn index(&self, index: ValueId, len: u32) -> String {
        let at = self.text(index);
        match self.body.values[index].def {
            ValueDef::Param(..) if !self.forgets => at,
            _ => format!("nf_index({at}, {len})"),
        }
    }

    fn unsigned(&self, value: ValueId) -> String {
        match self.body.ty(value) {
            Type::Int { bits, signed: true } => {
                format!("({}){}", int_name(bits, false), self.operand(value))
            }
            _ => self.operand(value),
        }
    }

    /// True if an index is below `len` by its type or a mask.
    fn below(&self, index: ValueId, len: u32) -> bool {
        let Type::Int { bits, signed: false } = self.body.ty(index) else { return false };
        if bits < 32 && (1u64 << bits) <= len as u64 {
            return true;
        }
        match self.body.def_op(index) {
            Some(Op::Bin(BinOp::And, a, b)) => {
                [a, b].into_iter().any(|v| self.constant(*v).is_some_and(|c| c < len as u64))
            }
            Some(Op::Bin(BinOp::Rem, _, b)) => {
                self.constant(*b).is_some_and(|c| c > 0 && c <= len as u64)
            }
            Some(Op::Cast(a)) => !self.body.ty(*a).is_signed() && self.below(*a, len),
            _ => false,
        }
    }
}

/// The unsigned type that arithmetic of a type is done in: at least C's `unsigned int`.
fn carrier(ty: Type) -> Type {
    if ty.bits().unwrap_or(64) > 32 { Type::U64 } else { Type::U32 }
}

fn native(bits: u8) -> bool {
    matches!(bits, 8 | 16 | 32 | 64)
}

/// Cuts an expression computed in C's `int` or wider back to the width of `ty`.
fn wrap(expr: Expr, ty: Type) -> Expr {
    let Type::Int { bits, signed } = ty else { return expr };
    let carrier = int_layout(bits).size * 8;
    if native(bits) {
        // 32-bit and wider arithmetic happens in its own type already, unless a helper widened it.
        let widened = expr.atom && expr.text.starts_with("nf_");
        if bits >= 32 && !widened {
            return expr;
        }
        return Expr::compound(format!("({}){}", int_name(bits, signed), expr.operand()));
    }
    if bits == 1 && !signed {
        return Expr::compound(format!("{} & 1", expr.operand()));
    }
    if signed {
        let shift = carrier - bits as u32;
        let name = int_name(bits, true);
        return Expr::compound(format!("({name})((u64){} << {shift}) >> {shift}", expr.operand()));
    }
    let name = int_name(bits, false);
    Expr::compound(format!(
        "({name})({} & {})",
        expr.operand(),
        literal(mask(u64::MAX, bits), Type::U64)
    ))
}
