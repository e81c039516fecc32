//! Expressions. clang has written every implicit conversion into the tree, so C's promotions and
//! usual arithmetic conversions need no rules here; each operator works on operands of one type.

use nicforge_ir::{BinOp, CmpOp, Op, Type, UnOp, ValueId};

use crate::ast::Node;
use crate::ctypes::CType;
use crate::diagnostics::codes;
use crate::effects::is_pure;
use crate::func::{FnLower, VarKind};
use crate::likely::likely_of;
use crate::unit::{Failed, Lowered};

impl<'a> FnLower<'_, 'a, '_> {
    /// The value of an expression.
    pub fn expr(&mut self, node: &'a Node) -> Lowered<ValueId> {
        let node = node.strip();
        self.at(node.span, |f| match f.expr_or_nothing(node)? {
            Some(value) => Ok(value),
            None => Err(f.refuse(codes::EXPRESSION, node.span, "this has no value", "")),
        })
    }

    /// An expression for its effects.
    pub fn effect(&mut self, node: &'a Node) -> Lowered<()> {
        let node = node.strip();
        if node.kind == "CStyleCastExpr" && node.cast == "ToVoid" {
            // `(void)x` says that x is meant to be unused, `(void)(&x == &y)` that types agree.
            let inner = node.inner[0].strip_casts();
            if inner.kind == "DeclRefExpr" || only_addresses(inner) {
                return Ok(());
            }
            return self.effect(&node.inner[0]);
        }
        self.at(node.span, |f| match (node.kind.as_str(), node.opcode.as_str()) {
            ("CompoundAssignOperator", _) => f.compound_assign(node, false).map(|_| ()),
            ("UnaryOperator", "++" | "--") => f.step(node, false).map(|_| ()),
            _ => match f.atomic(node, false) {
                Some(done) => done.map(|_| ()),
                None => f.expr_or_nothing(node).map(|_| ()),
            },
        })
    }

    /// The value of an expression, `None` if its type is `void`.
    pub fn expr_or_nothing(&mut self, node: &'a Node) -> Lowered<Option<ValueId>> {
        if matches!(self.ctype(node), CType::Refused(_)) && self.is_broken(node) {
            return Err(Failed);
        }
        if let Some(value) = self.unit.eval(node) {
            let ty = self.type_of(node)?;
            return Ok(Some(self.b.int(value as u64, ty)));
        }
        match node.kind.as_str() {
            "ImplicitCastExpr" | "CStyleCastExpr" => self.cast(node).map(Some),
            "BinaryOperator" => self.binary(node),
            "CompoundAssignOperator" => self.compound_assign(node, true),
            "UnaryOperator" if matches!(node.opcode.as_str(), "++" | "--") => self.step(node, true),
            "UnaryOperator" => self.unary(node).map(Some),
            "ConditionalOperator" => self.conditional(node),
            "BinaryConditionalOperator" => self.elvis(node).map(Some),
            "CallExpr" => self.call(node),
            "InitListExpr" | "ImplicitValueInitExpr" => {
                let ty = self.type_of(node)?;
                self.initial_value(node, ty).map(Some)
            }
            "DeclRefExpr"
            | "MemberExpr"
            | "ArraySubscriptExpr"
            | "CompoundLiteralExpr"
            | "StringLiteral"
            | "PredefinedExpr" => {
                let place = self.place(node)?;
                self.check_no_packet(&place, node)?;
                Ok(Some(self.read(&place)))
            }
            "FloatingLiteral" | "ImaginaryLiteral" => {
                self.unit.value_type("double", node.span)?;
                Err(Failed)
            }
            "StmtExpr" => self.statement_expr(node),
            "AtomicExpr" => self.atomic(node, true).unwrap_or(Err(Failed)),
            "VAArgExpr" => {
                let help = "give the function a fixed list of parameters";
                Err(self.refuse(
                    codes::VARARGS,
                    node.span,
                    "variable arguments are outside the subset",
                    help,
                ))
            }
            "AddrLabelExpr" => Err(self.refuse(
                codes::GOTO,
                node.span,
                "labels have no address",
                "use if, switch and loops",
            )),
            "UnaryExprOrTypeTraitExpr" | "OffsetOfExpr" => {
                let help = "take the size of an integer, struct or array type";
                Err(self.refuse(
                    codes::EXPRESSION,
                    node.span,
                    "only types of values have a size",
                    help,
                ))
            }
            kind => {
                let message = format!("this expression is outside the subset ({kind})");
                Err(self.refuse(
                    codes::EXPRESSION,
                    node.span,
                    message,
                    "write it with integer operators and calls",
                ))
            }
        }
    }

    fn check_no_packet(&mut self, place: &crate::place::Place, node: &Node) -> Lowered<()> {
        if place.ty == Type::Packet { Err(self.packet_copied(node.span)) } else { Ok(()) }
    }

    fn cast(&mut self, node: &'a Node) -> Lowered<ValueId> {
        let inner = &node.inner[0];
        match node.cast.as_str() {
            "LValueToRValue" | "NoOp" => {
                if node.cast == "NoOp" && !is_lvalue(inner) {
                    return self.expr(inner);
                }
                if let CType::Pointer { .. } = self.ctype(node) {
                    let stripped = inner.strip();
                    let known = stripped.referenced.as_ref().and_then(|r| self.var_of.get(&r.id));
                    return Err(match known {
                        Some(&v) if matches!(self.vars[v].kind, VarKind::Target { .. }) => {
                            self.pointer_param_use(stripped)
                        }
                        _ => self.pointer_use(node.span),
                    });
                }
                let place = self.place(inner)?;
                self.check_no_packet(&place, node)?;
                Ok(self.read(&place))
            }
            "IntegralCast" => {
                let ty = self.type_of(node)?;
                let value = self.expr(inner)?;
                Ok(self.b.cast(value, ty))
            }
            "IntegralToBoolean" => self.cond(inner),
            "AtomicToNonAtomic" | "NonAtomicToAtomic" => self.expr(inner),
            "FloatingToIntegral" | "FloatingToBoolean" if self.is_broken(inner) => Err(Failed),
            "FloatingToIntegral" | "IntegralToFloating" | "FloatingCast" | "FloatingToBoolean" => {
                let float = if node.cast == "IntegralToFloating" { node } else { inner };
                self.unit.value_type("double", float.span)?;
                Err(Failed)
            }
            "ArrayToPointerDecay" => Err(self.refuse(
                codes::DECAY,
                node.span,
                "an array cannot be used as a pointer to its first element",
                "index it, or put it into a struct and pass the struct",
            )),
            "FunctionToPointerDecay" | "BuiltinFnToFnPtr" => Err(self.refuse(
                codes::FUNCTION_POINTER,
                node.span,
                "a function is used as a value",
                "call the function by its name; choose between functions with `if` or `switch`",
            )),
            "PointerToBoolean" | "NullToPointer" | "BitCast" | "PointerToIntegral"
            | "IntegralToPointer" => {
                if self.ctype(inner) == CType::Packet || self.ctype(node) == CType::Packet {
                    return Err(self.packet_copied(node.span));
                }
                let address = inner.strip_casts();
                if address.kind == "UnaryOperator" && address.opcode == "&" {
                    return Err(self.address_of(address));
                }
                Err(self.pointer_use(node.span))
            }
            kind => {
                let message = format!("this conversion is outside the subset ({kind})");
                Err(self.refuse(
                    codes::EXPRESSION,
                    node.span,
                    message,
                    "convert between integers only",
                ))
            }
        }
    }

    /// The truth of an expression as `u1`.
    pub fn cond(&mut self, node: &'a Node) -> Lowered<ValueId> {
        let node = node.strip();
        if let Some(value) = self.unit.eval(node) {
            return Ok(self.at(node.span, |f| f.b.int((value != 0).into(), Type::BOOL)));
        }
        self.at(node.span, |f| match node.kind.as_str() {
            "BinaryOperator" if comparison(&node.opcode).is_some() => f.compare(node),
            "BinaryOperator" if node.opcode == "&&" || node.opcode == "||" => f.short_circuit(node),
            "UnaryOperator" if node.opcode == "!" => {
                let inner = node.inner[0].strip();
                if inner.kind == "UnaryOperator" && inner.opcode == "!" {
                    return f.cond(&inner.inner[0]);
                }
                let value = f.cond(inner)?;
                Ok(f.op(Op::Un(UnOp::Not, value), Type::BOOL))
            }
            // Widening does not change whether a value is zero.
            "ImplicitCastExpr" if node.cast == "IntegralCast" && f.widens(node) => {
                f.cond(&node.inner[0])
            }
            "ImplicitCastExpr" if node.cast == "IntegralToBoolean" => f.cond(&node.inner[0]),
            "CallExpr" if likely_of(node).is_some() => f.cond(&node.inner[1]),
            _ => {
                let ty = f.ctype(node);
                if matches!(ty, CType::Packet) {
                    return Err(f.packet_copied(node.span));
                }
                if matches!(ty, CType::Pointer { .. }) {
                    return Err(f.pointer_use(node.span));
                }
                let value = f.expr(node)?;
                Ok(f.b.truth(value))
            }
        })
    }

    fn widens(&mut self, node: &Node) -> bool {
        let bits = |ty: CType| ty.int_type().and_then(Type::bits);
        let (to, from) = (self.ctype(node), self.ctype(&node.inner[0]));
        matches!((bits(to), bits(from)), (Some(to), Some(from)) if to >= from)
    }

    fn compare(&mut self, node: &'a Node) -> Lowered<ValueId> {
        let [left, right] = &node.inner[..] else { return Err(Failed) };
        for side in [left, right] {
            match self.ctype(side.strip_casts()) {
                CType::Packet => return Err(self.packet_copied(node.span)),
                CType::Pointer { .. } => {
                    let op = comparison(&node.opcode).ok_or(Failed)?;
                    let (a, b) = self.indices(node)?;
                    return Ok(self.b.cmp(op, a, b));
                }
                _ => {}
            }
        }
        // `(c) != 0`, as NF_LIKELY writes, is c's truth.
        if node.opcode == "!=" && self.unit.eval(right) == Some(0) {
            return self.cond(left);
        }
        let (a, b) = (self.expr(left), self.expr(right));
        let (a, b) = (a?, b?);
        match comparison(&node.opcode) {
            Some(op) => Ok(self.b.cmp(op, a, b)),
            None => Err(Failed),
        }
    }

    /// `a && b` is `a ? b : 0`, `a || b` is `a ? 1 : b`.
    fn short_circuit(&mut self, node: &'a Node) -> Lowered<ValueId> {
        let [left, right] = &node.inner[..] else { return Err(Failed) };
        let a = self.cond(left)?;
        let and = node.opcode == "&&";
        let constant = |f: &mut Self| Ok(vec![f.b.int((!and).into(), Type::BOOL)]);
        let evaluate = |f: &mut Self| f.cond(right).map(|v| vec![v]);
        let values = if and {
            self.branch(a, None, &[Type::BOOL], evaluate, constant)?
        } else {
            self.branch(a, None, &[Type::BOOL], constant, evaluate)?
        };
        Ok(values[0])
    }

    fn conditional(&mut self, node: &'a Node) -> Lowered<Option<ValueId>> {
        let [cond, then, other] = &node.inner[..] else { return Err(Failed) };
        if let Some(truth) = self.unit.eval(cond) {
            let arm = if truth == 0 { other } else { then };
            return self.expr_or_nothing(arm.strip());
        }
        let likely = self.likely(cond);
        let cond = self.cond(cond)?;
        if self.ctype(node) == CType::Void {
            self.branch(
                cond,
                likely,
                &[],
                |f| f.effect(then).map(|()| vec![]),
                |f| f.effect(other).map(|()| vec![]),
            )?;
            return Ok(None);
        }
        let ty = self.type_of(node)?;
        let values = self.branch(
            cond,
            likely,
            &[ty],
            |f| f.expr(then).map(|v| vec![v]),
            |f| f.expr(other).map(|v| vec![v]),
        )?;
        Ok(Some(values[0]))
    }

    /// `a ?: b`. clang repeats `a` behind the condition; it is evaluated once.
    fn elvis(&mut self, node: &'a Node) -> Lowered<ValueId> {
        let (Some(first), Some(last)) = (node.inner.first(), node.inner.last()) else {
            return Err(Failed);
        };
        let ty = self.type_of(node)?;
        let value = self.expr(first)?;
        let cond = self.b.truth(value);
        let converted = self.b.cast(value, ty);
        let values = self.branch(
            cond,
            None,
            &[ty],
            |_| Ok(vec![converted]),
            |f| f.expr(last).map(|v| vec![v]),
        )?;
        Ok(values[0])
    }

    fn binary(&mut self, node: &'a Node) -> Lowered<Option<ValueId>> {
        let [left, right] = &node.inner[..] else { return Err(Failed) };
        match node.opcode.as_str() {
            "=" => self.assign_expr(node, left, right).map(Some),
            "," => {
                if let Some(call) = node.enqueued() {
                    return self.enqueue(call).map(|()| None);
                }
                self.effect(left)?;
                if self.ctype(right) == CType::Void {
                    return self.effect(right).map(|()| None);
                }
                self.expr(right).map(Some)
            }
            "&&" | "||" => {
                let value = self.cond(node)?;
                let ty = self.type_of(node)?;
                Ok(Some(self.b.cast(value, ty)))
            }
            op if comparison(op).is_some() => {
                let value = self.cond(node)?;
                let ty = self.type_of(node)?;
                Ok(Some(self.b.cast(value, ty)))
            }
            op => {
                if op == "-" && [left, right].iter().all(|side| side.ty.ends_with('*')) {
                    let (a, b) = self.indices(node)?;
                    let (ty, steps) = (self.type_of(node)?, self.arithmetic(op, a, b)?);
                    // Backwards it is negative.
                    let steps = self.b.cast(steps, Type::i(32));
                    return Ok(Some(self.b.cast(steps, ty)));
                }
                self.check_arithmetic(node)?;
                // Both sides are looked at even if one has an error.
                let (a, b) = (self.expr(left), self.expr(right));
                self.arithmetic(op, a?, b?).map(Some)
            }
        }
    }

    /// Refuses pointers and floats as operands before they cause stranger messages.
    fn check_arithmetic(&mut self, node: &Node) -> Lowered<()> {
        if self.is_broken(node) {
            return Err(Failed);
        }
        for side in std::iter::once(node).chain(&node.inner) {
            match self.ctype(side) {
                CType::Pointer { .. } => return Err(self.pointer_use(node.span)),
                CType::Packet => return Err(self.packet_copied(node.span)),
                CType::Int { .. } => {}
                ty => {
                    self.unit.value_type_of(&ty, node.span)?;
                }
            }
        }
        Ok(())
    }

    /// One integer operator; shifts may have an amount of another type.
    fn arithmetic(&mut self, opcode: &str, a: ValueId, b: ValueId) -> Lowered<ValueId> {
        let op = match opcode {
            "+" => BinOp::Add,
            "-" => BinOp::Sub,
            "*" => BinOp::Mul,
            "/" => BinOp::Div,
            "%" => BinOp::Rem,
            "&" => BinOp::And,
            "|" => BinOp::Or,
            "^" => BinOp::Xor,
            "<<" => BinOp::Shl,
            ">>" => BinOp::Shr,
            _ => {
                let span = self.b.span;
                let message = format!("operator `{opcode}` is outside the subset");
                return Err(self.refuse(
                    codes::EXPRESSION,
                    span,
                    message,
                    "use the operators of C's integers",
                ));
            }
        };
        let ty = self.b.body.ty(a);
        let b = if matches!(op, BinOp::Shl | BinOp::Shr) { self.shift_amount(b, ty) } else { b };
        Ok(self.op(Op::Bin(op, a, b), ty))
    }

    /// A shift amount in the type of what is shifted. An amount too large for that type becomes its
    /// width, so that the result is still 0 (or the sign); a negative one is read as a large one.
    fn shift_amount(&mut self, amount: ValueId, ty: Type) -> ValueId {
        let (Some(width), Some(bits)) = (ty.bits(), self.b.body.ty(amount).bits()) else {
            return amount;
        };
        if let Some(&Op::Int(constant)) = self.b.body.def_op(amount) {
            return self.b.int(constant.min(width.into()), ty);
        }
        let amount = self.b.cast(amount, Type::u(bits));
        if bits <= width {
            return self.b.cast(amount, ty);
        }
        let limit = self.b.int(width.into(), Type::u(bits));
        let fits = self.b.cmp(CmpOp::Lt, amount, limit);
        let small = self.b.cast(amount, ty);
        let large = self.b.int(width.into(), ty);
        self.op(Op::Select { cond: fits, then: small, other: large }, ty)
    }

    fn assign_expr(&mut self, node: &'a Node, left: &'a Node, right: &'a Node) -> Lowered<ValueId> {
        match self.ctype(left) {
            CType::Packet => return Err(self.packet_copied(node.span)),
            CType::Pointer { .. } => return Err(self.pointer_use(node.span)),
            _ => {}
        }
        let value = self.expr(right)?;
        let place = self.place(left)?;
        self.write(&place, value, node.span)?;
        Ok(if place.narrow { self.read(&place) } else { value })
    }

    /// `a += b`; its value may not be wanted.
    fn compound_assign(&mut self, node: &'a Node, is_used: bool) -> Lowered<Option<ValueId>> {
        let [left, right] = &node.inner[..] else { return Err(Failed) };
        self.check_arithmetic(node)?;
        let compute = self.unit.value_type(&node.compute_ty, node.span)?;
        let b = self.expr(right)?;
        let place = self.place(left)?;
        let opcode = node.opcode.trim_end_matches('=');
        if !is_used && self.commute_static(&place, opcode, b) {
            return Ok(None);
        }
        let old = self.read(&place);
        let a = self.b.cast(old, compute);
        let result = self.arithmetic(opcode, a, b)?;
        let new = self.convert(result, place.ty);
        self.write(&place, new, node.span)?;
        Ok(Some(if place.narrow { self.read(&place) } else { new }))
    }

    /// `++a`, `a--` and the like; its value may not be wanted.
    fn step(&mut self, node: &'a Node, is_used: bool) -> Lowered<Option<ValueId>> {
        self.check_arithmetic(node)?;
        let place = self.place(&node.inner[0])?;
        if !is_used && place.static_variable().is_some() {
            let one = self.b.int(1, place.ty);
            if self.commute_static(&place, &node.opcode[..1], one) {
                return Ok(None);
            }
        }
        let old = self.read(&place);
        let new = if place.ty == Type::BOOL {
            // `++` sets a _Bool, `--` inverts it.
            let one = self.b.int(1, Type::BOOL);
            if node.opcode == "++" { one } else { self.op(Op::Un(UnOp::Not, old), Type::BOOL) }
        } else {
            let one = self.b.int(1, place.ty);
            self.arithmetic(&node.opcode[..1], old, one)?
        };
        self.write(&place, new, node.span)?;
        Ok(Some(match (node.flags.postfix, place.narrow) {
            (true, _) => old,
            (false, true) => self.read(&place),
            (false, false) => new,
        }))
    }

    /// C's conversion between integers: to `_Bool` it asks whether the value is zero.
    pub fn convert(&mut self, value: ValueId, ty: Type) -> ValueId {
        if ty == Type::BOOL { self.b.truth(value) } else { self.b.cast(value, ty) }
    }

    fn address_of(&mut self, node: &Node) -> Failed {
        self.refuse(
            codes::ADDRESS_OF,
            node.span,
            "an address can only be an argument of a call",
            "use the variable itself; a function may take `T *` and be given `&variable`",
        )
    }

    /// An expression converted to an integer type; constants directly.
    pub fn expr_as(&mut self, node: &'a Node, ty: Type) -> Lowered<ValueId> {
        if let Some(value) = self.unit.eval(node) {
            let value = if ty == Type::BOOL { (value != 0).into() } else { value as u64 };
            return Ok(self.at(node.span, |f| f.b.int(value, ty)));
        }
        let value = self.expr(node)?;
        Ok(self.convert(value, ty))
    }

    fn unary(&mut self, node: &'a Node) -> Lowered<ValueId> {
        let inner = &node.inner[0];
        match node.opcode.as_str() {
            "!" => {
                let value = self.cond(node)?;
                let ty = self.type_of(node)?;
                Ok(self.b.cast(value, ty))
            }
            "+" | "__extension__" => self.expr(inner),
            "-" | "~" => {
                let op = if node.opcode == "-" { UnOp::Neg } else { UnOp::Not };
                let ty = self.type_of(node)?;
                let value = self.expr(inner)?;
                Ok(self.op(Op::Un(op, value), ty))
            }
            "*" => {
                let place = self.target(inner)?;
                Ok(self.read(&place))
            }
            "&" => Err(self.address_of(node)),
            op => {
                let message = format!("operator `{op}` is outside the subset");
                Err(self.refuse(
                    codes::EXPRESSION,
                    node.span,
                    message,
                    "use the operators of C's integers",
                ))
            }
        }
    }
}

/// True for addresses, and comparisons of them, that have no effects.
pub fn only_addresses(node: &Node) -> bool {
    let is_address = |node: &Node| node.ty.ends_with('*');
    let compares = matches!(node.opcode.as_str(), "==" | "!=") && node.inner.iter().all(is_address);
    (is_address(node) || compares) && is_pure(node)
}

fn is_lvalue(node: &Node) -> bool {
    matches!(node.strip().kind.as_str(), "DeclRefExpr" | "MemberExpr" | "ArraySubscriptExpr")
}

fn comparison(opcode: &str) -> Option<CmpOp> {
    Some(match opcode {
        "==" => CmpOp::Eq,
        "!=" => CmpOp::Ne,
        "<" => CmpOp::Lt,
        "<=" => CmpOp::Le,
        ">" => CmpOp::Gt,
        ">=" => CmpOp::Ge,
        _ => return None,
    })
}
