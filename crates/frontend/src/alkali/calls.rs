//! Calls of `alkali.h` and `generic_handlers.h`.

use nicforge_ir::{Direction, Op, Type, ValueId};

use super::source::literal;
use crate::ast::Node;
use crate::diagnostics::codes;
use crate::func::FnLower;
use crate::functions::signature;
use crate::place::Place;
use crate::signatures::ParamKind;
use crate::unit::{Failed, Lowered};

impl<'a> FnLower<'_, 'a, '_> {
    /// A call of the interface, if the program is written in it and `name` is one.
    pub fn alkali_call(
        &mut self,
        name: &str,
        node: &'a Node,
        args: &'a [Node],
    ) -> Option<Lowered<Option<ValueId>>> {
        if !self.unit.alkali.is {
            return None;
        }
        let done = match name {
            "bufextract" => self.extract_header(node, args),
            "bufemit" => self.emit_data(node, args),
            "table_lookup" => self.table_lookup(node, args),
            "table_update" => self.table_update(node, args),
            "send_packet" => self.send_whole(node, args),
            "generate" => self.generate(node, args),
            "bufinit" => Err(self.packet_copied(node.span)),
            _ => match name.strip_prefix("EXT__")?.split_once("__") {
                Some(("NET_SEND", _)) => self.send_whole(node, args),
                Some(("DMA_WRITE_REQ", _)) => self.write_memory(node, args),
                _ => self.tell_host(node, args),
            },
        };
        Some(done.map(|()| None))
    }

    fn extract_header(&mut self, node: &'a Node, args: &'a [Node]) -> Lowered<()> {
        self.expect_args(node, args, 2, "bufextract(packet, &header)")?;
        let pkt = self.packet(&args[0])?;
        let target = self.target(&args[1])?;
        let (_, value) = self.b.push2(Op::Extract { pkt }, Type::BOOL, target.ty);
        self.buffers.read = true;
        self.write(&target, value, node.span)
    }

    fn emit_data(&mut self, node: &'a Node, args: &'a [Node]) -> Lowered<()> {
        self.expect_args(node, args, 2, "bufemit(packet, &header)")?;
        if self.is_buffer(&args[1]) {
            return self.join(node, args);
        }
        let pkt = self.packet(&args[0])?;
        self.check_emit(node, &args[0])?;
        let place = self.target(&args[1])?;
        let value = self.read(&place);
        self.b.push0(Op::Emit { pkt, value });
        Ok(())
    }

    fn table_lookup(&mut self, node: &'a Node, args: &'a [Node]) -> Lowered<()> {
        self.expect_args(node, args, 3, "table_lookup(&table, &key, &value)")?;
        let table = self.table(&args[0])?;
        let (key, value) = (self.unit.prog.tables[table].key, self.unit.prog.tables[table].value);
        let key = self.behind(&args[1], table, key, codes::TABLE_KEY)?;
        let target = self.target(&args[2])?;
        if !alike(target.ty, value) {
            return Err(self.mismatch(codes::TABLE_VALUE, table, value, target.ty, &args[2]));
        }
        let (_, found) = self.b.push2(Op::Lookup { table, key }, Type::BOOL, value);
        let found = self.converted(found, target.ty);
        self.write(&target, found, node.span)
    }

    fn table_update(&mut self, node: &'a Node, args: &'a [Node]) -> Lowered<()> {
        self.expect_args(node, args, 3, "table_update(&table, &key, &value)")?;
        let table = self.table(&args[0])?;
        let (key, value) = (self.unit.prog.tables[table].key, self.unit.prog.tables[table].value);
        let key = self.behind(&args[1], table, key, codes::TABLE_KEY)?;
        let value = self.behind(&args[2], table, value, codes::TABLE_VALUE)?;
        self.op(Op::Update { table, key, value }, Type::BOOL);
        Ok(())
    }

    /// The key or value that an address leads to.
    fn behind(
        &mut self,
        node: &'a Node,
        table: nicforge_ir::TableId,
        want: Type,
        code: codes::Code,
    ) -> Lowered<ValueId> {
        let place = self.target(node)?;
        if !alike(place.ty, want) {
            return Err(self.mismatch(code, table, want, place.ty, node));
        }
        let value = self.read(&place);
        Ok(self.converted(value, want))
    }

    /// Integers of as many bits differ in how they are read, not in their bytes.
    fn converted(&mut self, value: ValueId, ty: Type) -> ValueId {
        if ty.is_int() { self.b.cast(value, ty) } else { value }
    }

    fn send_whole(&mut self, node: &'a Node, args: &'a [Node]) -> Lowered<()> {
        self.expect_args(node, args, 1, "EXT__NET_SEND__net_send(packet)")?;
        let pkt = self.whole(&args[0])?;
        let port = self.b.int(0, Type::U32);
        let event = self.net_send();
        self.b.push0(Op::Generate { event, args: vec![pkt, port] });
        Ok(())
    }

    /// `EXT__DMA_WRITE_REQ__x(packet, &command)`; the packet stays.
    fn write_memory(&mut self, node: &'a Node, args: &'a [Node]) -> Lowered<()> {
        self.expect_args(node, args, 2, "EXT__DMA_WRITE_REQ__dma_write(packet, &command)")?;
        let pkt = self.packet(&args[0])?;
        let command = self.target(&args[1])?;
        let (addr, size) = (self.member(&command, "addr"), self.member(&command, "size"));
        let (Some(addr), Some(size)) = (addr, size) else {
            let message = "the command of a DMA write has no members `addr` and `size`";
            let help = "pass the address of a struct with integers `addr` and `size`";
            return Err(self.refuse(codes::ARGUMENTS, args[1].span, message, help));
        };
        let addr = self.b.cast(addr, Type::U64);
        let len = self.b.cast(size, Type::U32);
        let event = self.dma_write_event();
        self.b.push0(Op::Generate { event, args: vec![pkt, addr, len] });
        Ok(())
    }

    /// An integer member of a struct by its name.
    fn member(&mut self, of: &Place, name: &str) -> Option<ValueId> {
        let Type::Struct(id) = of.ty else { return None };
        let fields = &self.unit.prog.structs[id].fields;
        let at = fields.iter().position(|field| field.name == name && field.ty.is_int())?;
        let ty = fields[at].ty;
        let agg = self.read(of);
        Some(self.op(Op::Get { agg, path: vec![nicforge_ir::Proj::Field(at as u32)] }, ty))
    }

    /// Any other event for the outside: data alone is a message to the host, data of a packet goes
    /// to it in front of what the packet is.
    fn tell_host(&mut self, node: &'a Node, args: &'a [Node]) -> Lowered<()> {
        match args {
            [packet] if self.is_buffer(packet) => {
                let pkt = self.whole(packet)?;
                self.give_to_host(pkt)
            }
            [packet, data] if self.is_buffer(packet) => {
                let place = self.target(data)?;
                let value = self.read(&place);
                self.check_emit(node, packet)?;
                let pkt = self.whole(packet)?;
                self.b.push0(Op::Emit { pkt, value });
                self.give_to_host(pkt)
            }
            [data] => {
                let place = self.target(data)?;
                let value = self.read(&place);
                self.message(value, data)
            }
            _ => {
                let usage = "EXT__EVENT__name(packet, &data)";
                self.expect_args(node, args, 2, usage)
            }
        }
    }

    fn give_to_host(&mut self, pkt: ValueId) -> Lowered<()> {
        let event = self.unit.event("host_recv", Direction::Out, &[("pkt", Type::Packet)]);
        self.b.push0(Op::Generate { event, args: vec![pkt] });
        Ok(())
    }

    /// `generate("event", arguments)`.
    fn generate(&mut self, node: &'a Node, args: &'a [Node]) -> Lowered<()> {
        let Some(event) = args.first().and_then(literal) else {
            let help = "write generate(\"EVENT\", packet)";
            return Err(self.refuse(
                codes::STRING,
                node.span,
                "the event must be a string literal",
                help,
            ));
        };
        let handler = self.unit.generated_handler(&event, node)?;
        let of = signature(self.unit, handler)?;
        let usage = format!("generate(\"{event}\", {} arguments)", of.params.len());
        self.expect_args(node, args, of.params.len() + 1, &usage)?;
        let event = self.unit.alkali_event(handler, &of)?;
        let mut values = Vec::new();
        for (arg, kind) in args[1..].iter().zip(&of.params) {
            let value = match kind {
                ParamKind::Packet => self.whole(arg)?,
                ParamKind::Value(ty) => self.expr_as(arg, *ty)?,
                ParamKind::InOut { ty, .. } => {
                    let place = self.target(arg)?;
                    if place.ty != *ty {
                        return Err(self.pointer_use(arg.span));
                    }
                    self.read(&place)
                }
            };
            values.push(value);
        }
        if values.len() != of.params.len() {
            return Err(Failed);
        }
        self.b.push0(Op::Generate { event, args: values });
        Ok(())
    }
}

/// True if values of two types have the same bytes.
fn alike(a: Type, b: Type) -> bool {
    a == b || (a.is_int() && b.is_int() && a.bits() == b.bits())
}
