//! Ops that are neither control flow nor of one kind of their own.

use nicforge_ir::Class;

use super::*;

impl Walk<'_, '_, '_> {
    pub(super) fn inst(&mut self, id: InstId, way: &Way) -> Result<(), NoPipe> {
        let inst = &self.body.insts[id];
        match &inst.op {
            Op::Int(_) | Op::Zero => Ok(()),
            Op::Extern { .. } => self.no("a function of C"),
            Op::Bin(nicforge_ir::BinOp::Div | nicforge_ir::BinOp::Rem, a, b)
                if !divides_by_wires(self.low.ty(*a), self.low.constant(*b)) =>
            {
                self.divide(id);
                Ok(())
            }
            op if op.effects().is_pure() => {
                if let Some(number) = self.folded(id) {
                    let result = inst.results[0];
                    self.low.rename(result);
                    self.low.know(result, number);
                    return Ok(());
                }
                if let Op::Cmp(op, a, b) = op
                    && self.compare_elapsed(inst.results[0], *op, *a, *b)
                {
                    return Ok(());
                }
                // Operands are read before the result gets its name: a loop's next trip uses its
                // last one's.
                let result = inst.results[0];
                let name = self.low.fresh_of(result);
                let mut wires = self.low.wires(id);
                self.low.rename_to(result, &name);
                if let Some(last) = wires.last_mut() {
                    last.name = name;
                }
                // What another handler has made of the same bits may be a key, which is to be the
                // same one here.
                if let [wire] = &wires[..]
                    && (wire.delay > 0 || self.received > 0)
                    && let Some(known) = self.dag.made.get(&(wire.width, wire.value.clone()))
                {
                    let known = known.clone();
                    self.low.rename_to(result, &known);
                    return Ok(());
                }
                for wire in wires {
                    self.dag.made.insert((wire.width, wire.value.clone()), wire.name.clone());
                    self.put(&wire.name, wire.width, wire.value, wire.delay);
                }
                Ok(())
            }
            Op::PktCsum { sum, len, .. } => {
                self.settle();
                self.payload_sum(way, inst.results[0], *sum, *len)
            }
            Op::Drop { reason, .. } => {
                self.exit(way, kind::DROP, false, number(32, u64::from(reason.as_u32())));
                Ok(())
            }
            Op::Generate { event, args }
                if self.dag.program.events[*event].direction == Direction::Internal =>
            {
                self.enqueue(*event, args, way)
            }
            Op::Generate { event, args } => {
                let def = &self.dag.program.events[*event];
                let (name, stays) = (def.name.clone(), def.params[0].borrowed);
                self.settle();
                let (kind, number) = match name.as_str() {
                    "net_send" | "net_copy" => (kind::SEND, self.low.u32(args[1])),
                    "stack_recv" => (kind::STACK, number(32, 0)),
                    "host_recv" | "host_copy" => (kind::HOST_PACKET, number(32, 0)),
                    "host_msg" => {
                        let size = self.dag.bits.bytes(self.low.ty(args[0]));
                        let hlen = number(16, u64::from(size));
                        self.made(way, (kind::HOST_MESSAGE, number(32, 0)), args[0], hlen);
                        return Ok(());
                    }
                    "dma_write" => {
                        self.dma_write(way, args[1], args[2]);
                        return Ok(());
                    }
                    _ => return self.no(&format!("`{name}` is no event of hardware")),
                };
                self.exit(way, kind, stays, number);
                Ok(())
            }
            Op::Random => {
                self.draw(inst.results[0]);
                Ok(())
            }
            Op::Crypto { .. } => self.no("hardware has no ciphers or digests"),
            Op::NewPacket { value, len, port, .. } => {
                let size = self.dag.bits.bytes(self.low.ty(*value));
                let len = self.low.u32(*len);
                let len = self.wire("length", 32, len, 0);
                let (all, most) = (number(32, u64::from(size)), number(16, u64::from(size)));
                let hlen = format!("{len} > {all} ? {most} : {len}[15:0]");
                let hlen = self.wire("hlen", 16, hlen, timing::carry(32) + timing::CHOOSE);
                let port = self.low.u32(*port);
                self.made(way, (kind::SEND, port), *value, hlen);
                Ok(())
            }
            Op::Log { format, args } => {
                self.log(format, args, way);
                Ok(())
            }
            op => match op.class() {
                Class::Packet => self.packet_op(id, way),
                Class::Entry => self.table_op(id, way),
                Class::Bytes => self.string_op(id, way),
                _ => self.no("an operation that only engines know of"),
            },
        }
    }

    /// The number that an op on numbers gives.
    fn folded(&self, id: InstId) -> Option<u64> {
        let inst = &self.body.insts[id];
        let ty = |value: ValueId| (self.low.width(value) as u8, self.low.ty(value).is_signed());
        match &inst.op {
            Op::Bin(op, a, b) => {
                let (bits, signed) = ty(*a);
                Some(arith::bin(*op, bits, signed, self.low.constant(*a)?, self.low.constant(*b)?))
            }
            Op::Cmp(op, a, b) => {
                let (bits, signed) = ty(*a);
                Some(u64::from(arith::cmp(
                    *op,
                    bits,
                    signed,
                    self.low.constant(*a)?,
                    self.low.constant(*b)?,
                )))
            }
            Op::Un(op, a) => Some(arith::un(*op, ty(*a).0, self.low.constant(*a)?)),
            Op::Cast(a) => {
                let (bits, signed) = ty(*a);
                Some(arith::cast(self.low.constant(*a)?, bits, signed, ty(inst.results[0]).0))
            }
            _ => None,
        }
    }
}
