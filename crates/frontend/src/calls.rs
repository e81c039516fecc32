//! Calls: the packet, event and helper functions of `nicforge.h`. Table operations are in
//! [`crate::table_calls`], the user's own functions in [`crate::user_calls`].

use nicforge_ir::{Diagnostic, Direction, DropReason, Op, Span, Type, UnOp, ValueId};

use crate::ast::Node;
use crate::atomics::is_fence;
use crate::ctypes::CType;
use crate::diagnostics::codes;
use crate::func::{FnLower, VarKind, is_struct_named};
use crate::order::is_of_arpa_inet;
use crate::overflow_calls::Checked;
use crate::strings::unescape;
use crate::unit::{Failed, Global, Lowered};

impl<'a> FnLower<'_, 'a, '_> {
    /// A call; `None` if it returns nothing.
    pub fn call(&mut self, node: &'a Node) -> Lowered<Option<ValueId>> {
        let Some(callee) = node.callee() else {
            let named = node.inner[0].strip_casts().referenced.as_ref();
            if named.is_some_and(|r| matches!(self.unit.globals.get(&r.id), Some(Global::Broken))) {
                return Err(Failed);
            }
            return Err(self.refuse(
                codes::FUNCTION_POINTER,
                node.span,
                "no function is ever given to pointers of this kind",
                "let it lead to functions of this file: `int (*f)(int) = add;`",
            ));
        };
        let args = &node.inner[1..];
        let name = callee.name.as_str();
        if let Some(result) = self.packet_call(name, node, args) {
            return result;
        }
        if let Some(result) = self.crypto_call(name, args) {
            return result;
        }
        if let Some(result) = self.alkali_call(name, node, args) {
            return result;
        }
        if let Some(result) = self.helper_call(name, node, args) {
            return result;
        }
        if let Some(result) = self.memory_call(name, node, args) {
            return result;
        }
        if let Some(result) = self.table_call(name, node, args) {
            return result;
        }
        self.user_call(name, node, args)
    }

    /// Checks the number of arguments of a function with a variable part.
    pub fn expect_args(
        &mut self,
        node: &Node,
        args: &[Node],
        count: usize,
        usage: &str,
    ) -> Lowered<()> {
        if args.len() == count {
            return Ok(());
        }
        let message = format!("this call has {} arguments, not {count}", args.len());
        Err(self.refuse(codes::ARGUMENTS, node.span, message, &format!("write {usage}")))
    }

    /// The packet a call works on.
    pub fn packet(&mut self, node: &'a Node) -> Lowered<ValueId> {
        let mut inner = node.strip_casts();
        if cloned(inner).is_some() {
            return Err(self.misplaced_clone(node));
        }
        if made(inner).is_some() {
            return Err(self.misplaced_new(node));
        }
        if self.unit.alkali.is && inner.kind == "UnaryOperator" && inner.opcode == "&" {
            inner = inner.inner[0].strip();
        }
        let var = inner.referenced.as_ref().and_then(|r| self.var_of.get(&r.id)).copied();
        match var {
            Some(var) if self.vars[var].kind == VarKind::Packet => Ok(self.env[var]),
            // A refused copy of a packet was reported where it is declared.
            _ if self.ctype(inner) == CType::Packet && inner.kind == "DeclRefExpr" => Err(Failed),
            _ => Err(self.refuse(
                codes::PACKET_EXPECTED,
                node.span,
                "this is not a packet",
                "pass the handler's or function's nf_pkt parameter",
            )),
        }
    }

    fn ok(&mut self, op: Op) -> Option<ValueId> {
        Some(self.op(op, Type::BOOL))
    }

    /// `nf_` functions on packets and events.
    fn packet_call(
        &mut self,
        name: &str,
        node: &'a Node,
        args: &'a [Node],
    ) -> Option<Lowered<Option<ValueId>>> {
        Some(match name {
            "nf_extract" => self.extract(node, args),
            "nf_load" => self.load(node, args),
            "nf_emit" => self.emit(args).map(|()| None),
            "nf_store" => self.store(args),
            "nf_strip" | "nf_trim" | "nf_extend" => self.packet_and_int(args).map(|(pkt, len)| {
                self.ok(match name {
                    "nf_strip" => Op::Skip { pkt, len },
                    "nf_trim" => Op::Trim { pkt, len },
                    _ => Op::Extend { pkt, len },
                })
            }),
            "nf_reset" => self.packet(&args[0]).map(|pkt| {
                self.b.push0(Op::Reset { pkt });
                None
            }),
            "nf_len" => self.packet(&args[0]).map(|pkt| Some(self.op(Op::Len { pkt }, Type::U32))),
            "nf_port" => {
                self.packet(&args[0]).map(|pkt| Some(self.op(Op::InPort { pkt }, Type::U32)))
            }
            "nf_csum_payload" => self.packet_csum(args).map(Some),
            "nf_regex" => self.regex(args).map(Some),
            "nf_send" => self.send(args).map(|()| None),
            "nf_pass" => self.give("stack_recv", &args[0]),
            "nf_to_host" => match cloned(&args[0]) {
                Some(original) => self.give("host_copy", original),
                None => self.give("host_recv", &args[0]),
            },
            "nf_clone" => Err(self.misplaced_clone(node)),
            "__nf_new" => Err(self.misplaced_new(node)),
            "nf_drop" => self.drop(node, args).map(|()| None),
            "__nf_host_msg" => self.host_message(node, args).map(|()| None),
            "nf_dma_write" => self.dma_write(args).map(|()| None),
            _ => return None,
        })
    }

    pub fn net_send(&mut self) -> nicforge_ir::EventId {
        self.unit.event("net_send", Direction::Out, &[("pkt", Type::Packet), ("port", Type::U32)])
    }

    pub fn dma_write_event(&mut self) -> nicforge_ir::EventId {
        let params = [("pkt", Type::Packet), ("addr", Type::U64), ("len", Type::U32)];
        self.unit.event("dma_write", Direction::Out, &params)
    }

    fn packet_and_int(&mut self, args: &'a [Node]) -> Lowered<(ValueId, ValueId)> {
        let pkt = self.packet(&args[0]);
        let value = self.expr(&args[1])?;
        Ok((pkt?, value))
    }

    /// `nf_send` of a packet, of a copy of one, or of a new one.
    fn send(&mut self, args: &'a [Node]) -> Lowered<()> {
        if let Some(new) = made(&args[0]) {
            return self.send_new(&args[0], new, &args[1]);
        }
        let original = cloned(&args[0]);
        let pkt = self.packet(original.unwrap_or(&args[0]));
        let port = self.expr(&args[1])?;
        let params = [("pkt", Type::Packet), ("port", Type::U32)];
        let event = match original {
            Some(_) => self.unit.event("net_copy", Direction::Out, &params),
            None => self.net_send(),
        };
        self.b.push0(Op::Generate { event, args: vec![pkt?, port] });
        Ok(())
    }

    /// `nf_send(nf_new(frame, len), port)`.
    fn send_new(&mut self, call: &'a Node, args: &'a [Node], port: &'a Node) -> Lowered<()> {
        if args.len() != 1 {
            self.expect_args(call, args, 2, "nf_new(frame) or nf_new(frame, len)")?;
        }
        let value = self.expr(&args[0])?;
        let ty = self.b.body.ty(value);
        if !matches!(ty, Type::Struct(_)) {
            return Err(self.refuse(
                codes::PACKET_EXPECTED,
                args[0].span,
                "a new packet is made of a struct",
                "put its headers and payload into a struct, and pass that by value",
            ));
        }
        let len = match args.get(1) {
            Some(at) => {
                let len = self.expr(at)?;
                if !self.b.body.ty(len).is_int() {
                    return Err(self.refuse(
                        codes::ARGUMENTS,
                        at.span,
                        "the length of a new packet is an integer",
                        "write nf_new(frame, len), with the number of bytes to be sent",
                    ));
                }
                self.b.cast(len, Type::U32)
            }
            None => self.b.int(u64::from(self.unit.prog.size_of(ty)), Type::U32),
        };
        let port = self.expr(port)?;
        let event = self.net_send();
        self.b.push0(Op::NewPacket { event, value, len, port });
        Ok(())
    }

    fn misplaced_new(&mut self, node: &'a Node) -> Failed {
        self.refuse(
            codes::PACKET_EXPECTED,
            node.span,
            "a new packet can only be sent",
            "write nf_send(nf_new(frame), port); values go to the host with nf_host_msg(message)",
        )
    }

    fn misplaced_clone(&mut self, node: &'a Node) -> Failed {
        self.refuse(
            codes::PACKET_EXPECTED,
            node.span,
            "a copy of a packet can only be sent, or go to the host",
            "write nf_send(nf_clone(pkt), port) or nf_to_host(nf_clone(pkt)); what a copy shall \
             have that the packet has not, emit before, and nf_reset(pkt) behind it",
        )
    }

    fn give(&mut self, event: &str, pkt: &'a Node) -> Lowered<Option<ValueId>> {
        let pkt = self.packet(pkt)?;
        let event = self.unit.event(event, Direction::Out, &[("pkt", Type::Packet)]);
        self.b.push0(Op::Generate { event, args: vec![pkt] });
        Ok(None)
    }

    fn extract(&mut self, node: &'a Node, args: &'a [Node]) -> Lowered<Option<ValueId>> {
        let pkt = self.packet(&args[0]);
        let target = self.target(&args[1])?;
        let (ok, value) = self.b.push2(Op::Extract { pkt: pkt? }, Type::BOOL, target.ty);
        self.write(&target, value, node.span)?;
        Ok(Some(ok))
    }

    fn load(&mut self, node: &'a Node, args: &'a [Node]) -> Lowered<Option<ValueId>> {
        let pkt = self.packet(&args[0]);
        let off = self.expr(&args[1])?;
        let target = self.target(&args[2])?;
        let (ok, value) = self.b.push2(Op::Load { pkt: pkt?, off }, Type::BOOL, target.ty);
        self.write(&target, value, node.span)?;
        Ok(Some(ok))
    }

    fn emit(&mut self, args: &'a [Node]) -> Lowered<()> {
        let pkt = self.packet(&args[0]);
        let place = self.target(&args[1])?;
        let value = self.read(&place);
        self.b.push0(Op::Emit { pkt: pkt?, value });
        Ok(())
    }

    fn store(&mut self, args: &'a [Node]) -> Lowered<Option<ValueId>> {
        let pkt = self.packet(&args[0]);
        let off = self.expr(&args[1])?;
        let place = self.target(&args[2])?;
        let value = self.read(&place);
        Ok(self.ok(Op::Store { pkt: pkt?, off, value }))
    }

    fn packet_csum(&mut self, args: &'a [Node]) -> Lowered<ValueId> {
        let pkt = self.packet(&args[0]);
        let sum = self.expr(&args[1])?;
        let len = self.expr(&args[2])?;
        Ok(self.op(Op::PktCsum { pkt: pkt?, sum, len }, Type::U32))
    }

    fn dma_write(&mut self, args: &'a [Node]) -> Lowered<()> {
        let pkt = self.packet(&args[0]);
        let addr = self.expr(&args[1])?;
        let len = self.expr(&args[2])?;
        let event = self.dma_write_event();
        self.b.push0(Op::Generate { event, args: vec![pkt?, addr, len] });
        Ok(())
    }

    fn drop(&mut self, node: &'a Node, args: &'a [Node]) -> Lowered<()> {
        let pkt = self.packet(&args[0]);
        if args.len() > 2 {
            self.expect_args(node, args, 2, "nf_drop(pkt, \"reason\")")?;
        }
        let text = match args.get(1) {
            Some(arg) => {
                self.literal(arg, "the reason of nf_drop", "nf_drop(pkt, \"no such flow\")")?
            }
            None => format!("dropped at {}", self.line_of(node.span)),
        };
        let known = self.unit.prog.reasons.iter().find(|(_, r)| r.text == text).map(|(id, _)| id);
        let reason = known
            .unwrap_or_else(|| self.unit.prog.reasons.push(DropReason { text, span: node.span }));
        self.b.drop(pkt?, reason);
        Ok(())
    }

    /// `file:line` of a span, without directories: reasons are shown in statistics.
    fn line_of(&self, span: Span) -> String {
        let place = self.unit.prog.place(span);
        let file_and_line = place.rsplit_once(':').map_or(place.as_str(), |(head, _)| head);
        file_and_line.rsplit('/').next().unwrap_or_default().to_string()
    }

    /// The text of a string literal argument.
    pub fn literal(&mut self, node: &Node, what: &str, example: &str) -> Lowered<String> {
        let inner = node.strip_casts();
        match (&inner.kind[..], &inner.value) {
            ("StringLiteral", Some(value)) => {
                Ok(String::from_utf8_lossy(&unescape(value)).into_owned())
            }
            _ if self.is_broken(inner) => Err(Failed),
            _ => {
                let message = format!("{what} must be a string literal");
                Err(self.refuse(codes::STRING, node.span, message, &format!("write {example}")))
            }
        }
    }

    fn host_message(&mut self, node: &'a Node, args: &'a [Node]) -> Lowered<()> {
        self.expect_args(node, args, 2, "nf_host_msg(message)")?;
        let value = self.expr(&args[1])?;
        self.message(value, &args[1])
    }

    /// A message to the host, whose text is `at`.
    pub fn message(&mut self, value: ValueId, at: &Node) -> Lowered<()> {
        let ty = self.b.body.ty(value);
        if !matches!(ty, Type::Struct(_)) {
            let help = "put the values into a struct";
            return Err(self.refuse(
                codes::HOST_MESSAGE,
                at.span,
                "a host message is a struct",
                help,
            ));
        }
        let event = self.unit.event("host_msg", Direction::Out, &[("msg", ty)]);
        let declared = self.unit.prog.events[event].params[0].ty;
        if declared != ty {
            let names = (self.unit.prog.type_name(declared), self.unit.prog.type_name(ty));
            let diagnostic = Diagnostic::error(
                codes::HOST_MESSAGE.id,
                at.span,
                format!("this message is a `{}`, others are a `{}`", names.1, names.0),
            )
            .note("the host side reads messages of one type")
            .help("use one struct for all messages, with a member that says which kind it is");
            return Err(self.report(diagnostic));
        }
        self.b.push0(Op::Generate { event, args: vec![value] });
        Ok(())
    }

    /// Hashes, checksums, time, logging and compiler builtins.
    fn helper_call(
        &mut self,
        name: &str,
        node: &'a Node,
        args: &'a [Node],
    ) -> Option<Lowered<Option<ValueId>>> {
        Some(match name {
            "nf_hash" => self
                .seeded(node, args, "nf_hash(seed, value)")
                .map(|(seed, value)| Some(self.op(Op::Hash { seed, value }, Type::U32))),
            "nf_csum_add" => self
                .seeded(node, args, "nf_csum_add(sum, value)")
                .map(|(sum, value)| Some(self.op(Op::CsumAdd { sum, value }, Type::U32))),
            "nf_now" => Ok(Some(self.op(Op::Now, Type::U64))),
            "nf_random" => Ok(Some(self.op(Op::Random, Type::U32))),
            "nf_log" => self.log(node, args).map(|()| None),
            "nf_fib_lookup" => self.fib_lookup(node, args),
            "__nf_bound" => Err(self.refuse(
                codes::BOUND_MISUSE,
                node.span,
                "NF_BOUND belongs to a loop",
                "make it the first statement of the loop's body",
            )),
            "__builtin_bswap16" | "__builtin_bswap32" | "__builtin_bswap64" => {
                self.swapped(&args[0])
            }
            name if is_of_arpa_inet(name) && !self.unit.index.functions.contains_key(name) => {
                self.swapped(args.first()?)
            }
            "__builtin_expect" | "__builtin_expect_with_probability" => {
                self.expr(&args[0]).map(Some)
            }
            name if is_fence(name) => Ok(None),
            _ => match Checked::of(name) {
                Some(op) => self.overflow_call(op, node, args),
                None => return self.atomic(node, true).or_else(|| self.bits_call(name, args)),
            },
        })
    }

    fn swapped(&mut self, arg: &'a Node) -> Lowered<Option<ValueId>> {
        let value = self.expr(arg)?;
        let ty = self.b.body.ty(value);
        Ok(Some(self.op(Op::Un(UnOp::Bswap, value), ty)))
    }

    fn seeded(
        &mut self,
        node: &'a Node,
        args: &'a [Node],
        usage: &str,
    ) -> Lowered<(ValueId, ValueId)> {
        self.expect_args(node, args, 2, usage)?;
        let seed = self.expr(&args[0])?;
        let value = self.expr(unpromoted(&args[1]))?;
        Ok((seed, value))
    }

    fn log(&mut self, node: &'a Node, args: &'a [Node]) -> Lowered<()> {
        let format = self.literal(&args[0], "the format of nf_log", "nf_log(\"flow {}\", id)")?;
        let mut values = Vec::new();
        for arg in &args[1..] {
            let arg = unpromoted(arg);
            let value = self.expr(arg)?;
            if !self.b.body.ty(value).is_int() {
                let help = "log its members one by one";
                return Err(self.refuse(
                    codes::LOG_FORMAT,
                    arg.span,
                    "only integers can be logged",
                    help,
                ));
            }
            values.push(value);
        }
        let holes = format.matches("{}").count();
        if holes != values.len() {
            let message =
                format!("the format has {holes} `{{}}`, but there are {} values", values.len());
            let help = "write one `{}` for each value";
            return Err(self.refuse(codes::LOG_FORMAT, node.span, message, help));
        }
        self.b.push0(Op::Log { format, args: values });
        Ok(())
    }

    fn fib_lookup(&mut self, node: &'a Node, args: &'a [Node]) -> Lowered<Option<ValueId>> {
        let query = self.target(&args[0])?;
        let answer = self.target(&args[1])?;
        let prog = &self.unit.prog;
        if !is_struct_named(prog, query.ty, "nf_fib_query")
            || !is_struct_named(prog, answer.ty, "nf_fib_answer")
        {
            return Err(self.pointer_use(node.span));
        }
        let query = self.read(&query);
        let (ok, value) = self.b.push2(Op::FibLookup { query }, Type::BOOL, answer.ty);
        self.write(&answer, value, node.span)?;
        Ok(Some(ok))
    }
}

/// An argument of a variable part without C's default promotion: the value the user wrote.
pub fn unpromoted(node: &Node) -> &Node {
    let stripped = node.strip();
    if stripped.kind == "ImplicitCastExpr" && stripped.cast == "IntegralCast" {
        stripped.inner[0].strip()
    } else {
        stripped
    }
}

/// The packet of `nf_clone(packet)`.
fn cloned(node: &Node) -> Option<&Node> {
    let inner = node.strip_casts();
    let is = inner.callee().is_some_and(|callee| callee.name == "nf_clone");
    inner.inner.get(1).filter(|_| is)
}

/// The arguments of `nf_new(frame, len)`.
fn made(node: &Node) -> Option<&[Node]> {
    let inner = node.strip_casts();
    let is = inner.callee().is_some_and(|callee| callee.name == "__nf_new");
    inner.inner.get(2..).filter(|_| is)
}
