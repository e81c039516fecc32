//! Table operations: which table, keys and values of the right types, members for commutative
//! updates.

use nicforge_ir::{
    BufSource, CommuteOp, Diagnostic, Direction, Op, Proj, TableId, TableKind, Type, ValueId,
};

use crate::ast::Node;
use crate::calls::unpromoted;
use crate::consts::limits;
use crate::ctypes::CType;
use crate::diagnostics::codes::{self, Code};
use crate::func::FnLower;
use crate::unit::{Failed, Global, Lowered};

impl<'a> FnLower<'_, 'a, '_> {
    /// A table operation of `nicforge.h`, if `name` is one.
    pub fn table_call(
        &mut self,
        name: &str,
        node: &'a Node,
        args: &'a [Node],
    ) -> Option<Lowered<Option<ValueId>>> {
        let commute = |op| Some(op);
        let op = match name {
            "__nf_commute_add" => commute(CommuteOp::Add),
            "__nf_commute_min" => commute(CommuteOp::Min),
            "__nf_commute_max" => commute(CommuteOp::Max),
            "__nf_commute_or" => commute(CommuteOp::Or),
            _ => None,
        };
        if name == "__nf_least" {
            return Some(self.least(node, args).map(Some));
        }
        if let Some(op) = op {
            return Some(self.commute(op, node, args).map(|()| None));
        }
        let usage = match name {
            "nf_lookup" => "nf_lookup(&table, key, &value)",
            "nf_lookup_bits" => "nf_lookup_bits(&table, key, bits, &value)",
            "nf_contains" => "nf_contains(&table, key)",
            "nf_update" => "nf_update(&table, key, value)",
            "nf_delete" => "nf_delete(&table, key)",
            "nf_buf_append_pkt" => "nf_buf_append_pkt(&table, key, pkt, len)",
            "nf_buf_append" => "nf_buf_append(&table, key, value)",
            "nf_buf_len" => "nf_buf_len(&table, key)",
            "nf_buf_read" => "nf_buf_read(&table, key, off, &value)",
            "nf_buf_clear" => "nf_buf_clear(&table, key)",
            "nf_buf_send" => "nf_buf_send(&table, key, port)",
            "nf_buf_to_host" => "nf_buf_to_host(&table, key)",
            _ => return None,
        };
        Some(self.plain_op(name, usage, node, args))
    }

    fn plain_op(
        &mut self,
        name: &str,
        usage: &str,
        node: &'a Node,
        args: &'a [Node],
    ) -> Lowered<Option<ValueId>> {
        let count = usage.matches(',').count() + 1;
        self.expect_args(node, args, count, usage)?;
        let table = self.table(&args[0])?;
        self.check_kind(name, table, node)?;
        let key = self.key(table, &args[1])?;
        let value_ty = self.unit.prog.tables[table].value;
        let truth = |f: &mut Self, op| Ok(Some(f.op(op, Type::BOOL)));
        match name {
            "nf_lookup" | "nf_lookup_bits" => {
                let bits = (count == 4).then(|| self.unsigned(&args[2])).transpose()?;
                let target = self.target(&args[count - 1])?;
                if target.ty != value_ty {
                    return Err(self.mismatch(
                        codes::TABLE_VALUE,
                        table,
                        value_ty,
                        target.ty,
                        &args[count - 1],
                    ));
                }
                let op = match bits {
                    Some(bits) => Op::LookupBits { table, key, bits },
                    None => Op::Lookup { table, key },
                };
                let (hit, value) = self.b.push2(op, Type::BOOL, value_ty);
                self.write(&target, value, node.span)?;
                Ok(Some(hit))
            }
            "nf_contains" => truth(self, Op::Contains { table, key }),
            "nf_update" => {
                let value = self.argument(table, &args[2], value_ty, codes::TABLE_VALUE)?;
                truth(self, Op::Update { table, key, value })
            }
            "nf_delete" => truth(self, Op::Delete { table, key }),
            "nf_buf_append_pkt" => {
                let pkt = self.packet(&args[2]);
                let len = self.unsigned(&args[3])?;
                let source = BufSource::Packet { pkt: pkt?, len };
                truth(self, Op::BufAppend { table, key, source })
            }
            "nf_buf_append" => {
                let value = self.expr(unpromoted(&args[2]))?;
                truth(self, Op::BufAppend { table, key, source: BufSource::Value(value) })
            }
            "nf_buf_len" => Ok(Some(self.op(Op::BufLen { table, key }, Type::U32))),
            "nf_buf_read" => {
                let off = self.unsigned(&args[2])?;
                let target = self.target(&args[3])?;
                let (ok, value) =
                    self.b.push2(Op::BufRead { table, key, off }, Type::BOOL, target.ty);
                self.write(&target, value, node.span)?;
                Ok(Some(ok))
            }
            "nf_buf_clear" => {
                self.b.push0(Op::BufClear { table, key });
                Ok(None)
            }
            "nf_buf_send" => {
                let port = Some(self.unsigned(&args[2])?);
                let event = self.net_send();
                truth(self, Op::BufGenerate { event, table, key, port })
            }
            _ => {
                let event = self.unit.event("host_recv", Direction::Out, &[("pkt", Type::Packet)]);
                truth(self, Op::BufGenerate { event, table, key, port: None })
            }
        }
    }

    /// A length, offset or port: any integer, as `u32`. Larger values saturate, so that they stay
    /// out of range.
    fn unsigned(&mut self, node: &'a Node) -> Lowered<ValueId> {
        if let Some(value) = self.unit.eval(node) {
            let value = u32::try_from(value).unwrap_or(u32::MAX);
            return Ok(self.at(node.span, |f| f.b.int(value.into(), Type::U32)));
        }
        let value = self.expr(unpromoted(node))?;
        match self.b.body.ty(value) {
            Type::Int { bits: 33.., .. } => {
                let wide = self.b.cast(value, Type::U64);
                let limit = self.b.int(u32::MAX.into(), Type::U64);
                let fits = self.b.cmp(nicforge_ir::CmpOp::Lt, wide, limit);
                let low = self.b.cast(wide, Type::U32);
                let largest = self.b.int(u32::MAX.into(), Type::U32);
                Ok(self.op(Op::Select { cond: fits, then: low, other: largest }, Type::U32))
            }
            Type::Int { .. } => Ok(self.b.cast(value, Type::U32)),
            _ => Err(self.refuse(
                codes::ARGUMENTS,
                node.span,
                "an integer is needed here",
                "pass an integer",
            )),
        }
    }

    /// The table whose address an argument is.
    pub fn table(&mut self, node: &'a Node) -> Lowered<TableId> {
        let mut inner = node.strip_casts();
        // Tables of Alkali are pointers, which may be cast.
        while inner.kind == "CStyleCastExpr" {
            inner = inner.inner[0].strip_casts();
        }
        let address = inner.kind == "UnaryOperator" && inner.opcode == "&";
        if address || inner.kind == "DeclRefExpr" {
            let named = if address { inner.inner[0].strip() } else { inner };
            let global = named.referenced.as_ref().and_then(|r| self.unit.globals.get(&r.id));
            match global {
                Some(Global::Table(id)) => return Ok(*id),
                Some(Global::Broken) => return Err(Failed),
                _ => {}
            }
        }
        let help = "pass `&name` of a table declared with NF_TABLE; a table cannot be a function's parameter";
        Err(self.refuse(
            codes::TABLE_EXPECTED,
            node.span,
            "this is not the address of a table",
            help,
        ))
    }

    fn check_kind(&mut self, name: &str, table: TableId, node: &Node) -> Lowered<()> {
        let def = &self.unit.prog.tables[table];
        let (kind, span, label) = (def.kind, def.span, format!("table `{}`", def.name));
        if name.starts_with("nf_buf") && def.buf.is_none() {
            let message = format!("{label} has no byte string");
            let diagnostic = Diagnostic::error(codes::TABLE_BUF.id, node.span, message)
                .also(span, "declared here")
                .help("declare it with NF_BUF_TABLE(kind, name, key, value, capacity, bytes)");
            return Err(self.report(diagnostic));
        }
        let (note, help) = match kind {
            TableKind::Lpm | TableKind::Ternary if name == "nf_delete" => (
                "such tables are filled and emptied by the control plane only",
                "use a hash table for what packets write",
            ),
            kind if name == "nf_lookup_bits" && kind != TableKind::Lpm => {
                ("only lpm tables hold prefixes", "write nf_lookup(&table, key, &value)")
            }
            TableKind::Array if name == "nf_least" => {
                ("an array has all of its entries", "go through it by its indices")
            }
            TableKind::Lru if name == "nf_least" => (
                "which of its entries are left is not the same on every target",
                "use a hash table, and delete what is old: nf_delete(&table, key)",
            ),
            TableKind::Lpm | TableKind::Ternary if name == "nf_least" => {
                ("such tables are filled by the control plane only", "use a hash table")
            }
            TableKind::Array if name == "nf_delete" => (
                "the entries of an array always exist",
                "write an empty value: nf_update(&table, key, (struct T){})",
            ),
            _ => return Ok(()),
        };
        let message =
            format!("{label} is of kind `{}` and does not take this operation", kind.name());
        let diagnostic = Diagnostic::error(codes::TABLE_READ_ONLY.id, node.span, message)
            .also(span, "declared here")
            .note(note)
            .help(help);
        Err(self.report(diagnostic))
    }

    fn key(&mut self, table: TableId, node: &'a Node) -> Lowered<ValueId> {
        let ty = self.unit.prog.tables[table].key;
        self.argument(table, node, ty, codes::TABLE_KEY)
    }

    /// A key or value: a struct of just the declared type, or an integer that fits the declared
    /// one.
    fn argument(
        &mut self,
        table: TableId,
        node: &'a Node,
        ty: Type,
        code: Code,
    ) -> Lowered<ValueId> {
        let node = unpromoted(node);
        let given = self.ctype(node);
        let Type::Int { bits, signed } = ty else {
            if matches!(given, CType::Struct(_) | CType::Int { .. })
                && self.unit.ir_type(&given) != Some(ty)
            {
                let given = self.type_of(node)?;
                return Err(self.mismatch(code, table, ty, given, node));
            }
            return self.expr(node);
        };
        let CType::Int { bits: given_bits, .. } = given else {
            let given = self.type_of(node);
            if let Ok(given) = given {
                return Err(self.mismatch(code, table, ty, given, node));
            }
            return Err(Failed);
        };
        let (low, high) = self.range(node);
        let (least, most) = limits(bits, signed);
        if given_bits != bits && (low < least || high > most) {
            let given = self.type_of(node)?;
            return Err(self.mismatch(code, table, ty, given, node));
        }
        self.expr_as(node, ty)
    }

    pub fn mismatch(
        &mut self,
        code: Code,
        table: TableId,
        want: Type,
        given: Type,
        node: &Node,
    ) -> Failed {
        let def = &self.unit.prog.tables[table];
        let (name, span) = (def.name.clone(), def.span);
        let what = if code.id == codes::TABLE_KEY.id { "key" } else { "value" };
        let (want_name, given_name) =
            (self.unit.prog.type_name(want), self.unit.prog.type_name(given));
        let help = if matches!(self.unit.ctype(&node.ty), CType::Pointer { .. }) {
            format!(
                "declare the variable as `{}`",
                if want.is_int() { c_name(want) } else { want_name.clone() }
            )
        } else if want.is_int() && given.is_int() {
            format!("convert it if no bits are lost: `({})...`", c_name(want))
        } else {
            format!("pass a `{want_name}`")
        };
        let message =
            format!("the {what} of table `{name}` is a `{want_name}`, this is a `{given_name}`");
        let diagnostic =
            Diagnostic::error(code.id, node.span, message).also(span, "declared here").help(help);
        self.report(diagnostic)
    }

    fn least(&mut self, node: &'a Node, args: &'a [Node]) -> Lowered<ValueId> {
        self.expect_args(node, args, 4, "nf_least(&table, member, &key, &value)")?;
        let table = self.table(&args[0])?;
        self.check_kind("nf_least", table, node)?;
        let path = self.integer_member(table, &args[1], node)?.0;
        let (key, value) = (self.target(&args[2])?, self.target(&args[3])?);
        let def = &self.unit.prog.tables[table];
        let (key_ty, value_ty) = (def.key, def.value);
        if key.ty != key_ty {
            return Err(self.mismatch(codes::TABLE_KEY, table, key_ty, key.ty, &args[2]));
        }
        if value.ty != value_ty {
            return Err(self.mismatch(codes::TABLE_VALUE, table, value_ty, value.ty, &args[3]));
        }
        let inst = self.b.push(Op::Least { table, path }, &[Type::BOOL, key_ty, value_ty]);
        let found = self.b.body.insts[inst].results.clone();
        self.write(&key, found[1], node.span)?;
        self.write(&value, found[2], node.span)?;
        Ok(found[0])
    }

    fn commute(&mut self, op: CommuteOp, node: &'a Node, args: &'a [Node]) -> Lowered<()> {
        self.expect_args(node, args, 4, "nf_add(&table, key, member, amount)")?;
        let table = self.table(&args[0])?;
        self.check_kind("__nf_commute", table, node)?;
        let key = self.key(table, &args[2])?;
        let (path, ty) = self.integer_member(table, &args[1], node)?;
        let amount = unpromoted(&args[3]);
        if !matches!(self.ctype(amount), CType::Int { .. }) {
            self.type_of(amount)?;
            return Err(self.refuse(
                codes::ARGUMENTS,
                amount.span,
                "the amount must be an integer",
                "pass an integer",
            ));
        }
        let amount = self.expr_as(amount, ty)?;
        self.b.push0(Op::Commute { op, table, key, path, amount });
        Ok(())
    }

    /// The path from a table's value to an integer of it, whose address is `&table->value->member`,
    /// and its type.
    fn integer_member(
        &mut self,
        table: TableId,
        member: &'a Node,
        node: &'a Node,
    ) -> Lowered<(Vec<Proj>, Type)> {
        let (path, ty) = self.member_path(table, member)?;
        let (message, help) = match ty {
            Type::Int { bits: 8.., .. } => return Ok((path, ty)),
            Type::Int { .. } => ("a _Bool cannot be used so", "use uint8_t to uint64_t"),
            _ => (
                "only integers can be used so",
                "name an integer member; integer values have functions of their own, such as \
                 nf_add_value(&table, key, amount)",
            ),
        };
        Err(self.refuse(codes::TABLE_MEMBER, node.span, message, help))
    }

    /// The path from a table's value to the member whose address `&table->value->member` is.
    fn member_path(&mut self, table: TableId, node: &'a Node) -> Lowered<(Vec<Proj>, Type)> {
        let node = node.strip_casts();
        match node.kind.as_str() {
            "UnaryOperator" if node.opcode == "&" => self.member_path(table, &node.inner[0]),
            "MemberExpr" if node.flags.arrow && self.is_table_address(&node.inner[0]) => {
                Ok((Vec::new(), self.unit.prog.tables[table].value))
            }
            "MemberExpr" => {
                let (mut path, ty) = self.member_path(table, &node.inner[0])?;
                if self.unit.lies_over.contains_key(&node.member) {
                    return Err(self.refuse(
                        codes::TABLE_MEMBER,
                        node.span,
                        format!("the union is not kept as its member `{}`", node.name),
                        "make this member the union's first",
                    ));
                }
                let (Type::Struct(id), Some(field)) = (ty, self.unit.field(node.member)) else {
                    return Err(Failed);
                };
                path.push(Proj::Field(field));
                Ok((path, self.unit.prog.structs[id].fields[field as usize].ty))
            }
            "ArraySubscriptExpr" => {
                let (mut path, ty) = self.member_path(table, &node.inner[0])?;
                let Type::Array(id) = ty else { return Err(Failed) };
                let def = self.unit.prog.arrays[id];
                match self.unit.eval(&node.inner[1]) {
                    Some(index) if (0..i128::from(def.len)).contains(&index) => {
                        path.push(Proj::Index(self.b.int(index as u64, Type::U32)));
                        Ok((path, def.elem))
                    }
                    _ => {
                        let message = "the member must be at a fixed place";
                        let help = "use a constant index below the length, or make the index part of the key";
                        Err(self.refuse(codes::TABLE_MEMBER, node.inner[1].span, message, help))
                    }
                }
            }
            _ => {
                let help = "write nf_add(&table, key, member, amount)";
                Err(self.refuse(
                    codes::TABLE_MEMBER,
                    node.span,
                    "this is no member of the table's value",
                    help,
                ))
            }
        }
    }

    fn is_table_address(&self, node: &Node) -> bool {
        let node = node.strip_casts();
        let named = match node.inner.first() {
            Some(inner) if node.kind == "UnaryOperator" && node.opcode == "&" => inner.strip(),
            _ => return false,
        };
        named
            .referenced
            .as_ref()
            .is_some_and(|r| matches!(self.unit.globals.get(&r.id), Some(Global::Table(_))))
    }
}

/// The C name of an integer type.
fn c_name(ty: Type) -> String {
    match ty {
        Type::Int { bits, signed } => format!("{}int{bits}_t", if signed { "" } else { "u" }),
        _ => String::new(),
    }
}
