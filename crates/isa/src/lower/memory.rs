//! Loads, stores and atomics.

use super::{Lower, high, low, other};
use crate::ebpf::Insn;
use crate::ebpf::insn::{class, width};
use crate::ebpf::kinds::Kind;
use crate::nfp::{AluOp, Cond, MemOp, Op, Operand, Shift};

impl Lower<'_> {
    pub(super) fn load(&mut self, insn: Insn) -> Result<(), String> {
        if insn.code & 0xe0 != 0x60 {
            return Err(
                "sign-extending loads (cpu v4) are not supported on the NFP; compile with -mcpu=v3"
                    .to_string(),
            );
        }
        let bytes = width(insn.code) as u8;
        match self.kind(insn.src) {
            Kind::Context(base) => self.load_context(insn.dst, base + i64::from(insn.off), bytes),
            Kind::Packet { .. } => self.load_packet(insn, bytes),
            Kind::Stack(base) => self.load_stack(insn.dst, base + i64::from(insn.off), bytes),
            Kind::Value(_) => {
                let (b, a) = self.value_address(insn.src, insn.off);
                let count = bytes.div_ceil(4);
                self.one(mem(MemOp::Read32, b, true, a, count, false));
                self.take(insn.dst, 0, bytes);
                Ok(())
            }
            Kind::Number(..) | Kind::Nothing => {
                Err(format!("a load through r{}, which is no pointer", insn.src))
            }
            other => Err(format!("a load through r{}, which is {}", insn.src, name(other))),
        }
    }

    fn load_context(&mut self, dst: u8, offset: i64, bytes: u8) -> Result<(), String> {
        let data = Operand::Local { index: 1, word: 2 };
        match (offset, bytes) {
            (0, 4) => self.alu(low(dst), Operand::None, AluOp::B, data),
            (4, 4) => self.alu(low(dst), Operand::B(22), AluOp::Add, data),
            _ => {
                return Err(format!(
                    "{bytes} bytes of the context ({}) are not supported on the NFP: the offload has data and data_end only",
                    context_field(offset)
                ));
            }
        }
        self.clear(high(dst));
        Ok(())
    }

    fn load_packet(&mut self, insn: Insn, bytes: u8) -> Result<(), String> {
        let place = self.cached[self.at].ok_or("a packet load outside every group")?;
        if place.first {
            let words = (place.bytes + 3) / 4;
            let offset = self.small_operand(place.start as u32);
            if words > 8 {
                // More words than the instruction can say: it takes the count from the instruction
                // before.
                self.one(Op::Immed {
                    dst: Operand::None,
                    value: 0x80 | ((words - 1) << 8) as u32,
                    shift: 0,
                });
            }
            self.one(mem(
                MemOp::Read32,
                low(insn.src),
                false,
                offset,
                // The field has three bits, whatever the length.
                ((words - 1) & 7) as u8 + 1,
                words > 8,
            ));
        }
        self.take(insn.dst, (i64::from(insn.off) - place.start) as u8, bytes);
        Ok(())
    }

    /// Bytes of the transfer registers into a register.
    fn take(&mut self, dst: u8, at: u8, bytes: u8) {
        if bytes == 8 {
            self.take_word(low(dst), at, 4);
            self.take_word(high(dst), at + 4, 4);
        } else {
            self.take_word(low(dst), at, bytes);
            self.clear_upper(dst);
        }
    }

    fn take_word(&mut self, dst: Operand, at: u8, bytes: u8) {
        let (xfer, byte) = (at / 4, at % 4);
        let field = |dst, mask, xfer, shift, clear| Op::LdField {
            dst,
            mask,
            src: Operand::Xfer(xfer),
            shift,
            clear,
        };
        if bytes == 4 && byte == 0 {
            self.alu(dst, Operand::None, AluOp::B, Operand::Xfer(xfer));
            return;
        }
        let here = bytes.min(4 - byte);
        let shift = if byte == 0 { Shift::None } else { Shift::Right(8 * byte) };
        self.both(field(dst, (1 << here) - 1, xfer, shift, true));
        if here < bytes {
            let mask = ((1u8 << bytes) - 1) & !((1 << here) - 1);
            self.both(field(dst, mask, xfer + 1, Shift::Left(8 * here), false));
        }
    }

    pub(super) fn store(&mut self, insn: Insn) -> Result<(), String> {
        let bytes = width(insn.code) as u8;
        let atomic = insn.code & 7 == class::STX && insn.code & 0xe0 == 0xc0;
        if insn.code & 0xe0 != 0x60 && !atomic {
            return Err(format!("eBPF instruction {:#04x} is not supported on the NFP", insn.code));
        }
        match self.kind(insn.dst) {
            Kind::Value(_) if atomic => self.add_atomically(insn),
            _ if atomic => Err("atomic operations are supported on map values only".to_string()),
            Kind::Packet { .. } => self.store_packet(insn, bytes),
            Kind::Stack(base) => self.store_stack(insn, base + i64::from(insn.off), bytes),
            Kind::Value(_) => self.store_value(insn, bytes),
            Kind::Context(base) => Err(format!(
                "a store to the context ({}) is not supported on the NFP",
                context_field(base + i64::from(insn.off))
            )),
            other => Err(format!("a store through r{}, which is {}", insn.dst, name(other))),
        }
    }

    fn store_packet(&mut self, insn: Insn, bytes: u8) -> Result<(), String> {
        let offset = self.small_operand(insn.off as i32 as u32);
        self.put(insn, bytes);
        self.one(mem(MemOp::Write8, low(insn.dst), false, offset, bytes, false));
        Ok(())
    }

    /// A write of DRAM, which the published costs do not have: it is priced as a read.
    fn store_value(&mut self, insn: Insn, bytes: u8) -> Result<(), String> {
        self.put(insn, bytes);
        let (b, a) = self.value_address(insn.dst, insn.off);
        self.one(mem(MemOp::Write8, b, true, a, bytes, false));
        self.writes = true;
        Ok(())
    }

    /// Puts what is stored into transfer registers.
    fn put(&mut self, insn: Insn, bytes: u8) {
        let constants = [insn.imm as u32, (insn.imm >> 31) as u32];
        for word in 0..bytes.div_ceil(4) {
            let xfer = Operand::Xfer(word);
            if insn.code & 7 == class::STX {
                let src = if word == 0 { low(insn.src) } else { high(insn.src) };
                self.one(Op::Alu { dst: xfer, a: Operand::None, op: AluOp::B, b: src });
            } else {
                self.immediate_one(xfer, constants[usize::from(word)]);
            }
        }
    }

    /// The two parts of a map value's address.
    pub(super) fn value_address(&mut self, pointer: u8, offset: i16) -> (Operand, Operand) {
        if offset == 0 {
            return (other(high(pointer)), low(pointer));
        }
        let by = self.small_operand(offset as i32 as u32);
        self.value_address_by(pointer, by)
    }

    pub(super) fn value_address_by(&mut self, pointer: u8, by: Operand) -> (Operand, Operand) {
        if by == Operand::Imm(0) {
            return (other(high(pointer)), low(pointer));
        }
        let (a, b) = (Operand::A(21), Operand::B(21));
        self.one(Op::Alu { dst: a, a: low(pointer), op: AluOp::Add, b: by });
        let upper = other(high(pointer));
        self.one(Op::Alu { dst: b, a: upper, op: AluOp::AddCarry, b: Operand::Imm(0) });
        (b, a)
    }

    /// An atomic addition. What fits 16 bits goes with the command; where that is not known, code
    /// decides.
    fn add_atomically(&mut self, insn: Insn) -> Result<(), String> {
        if insn.imm != 0 {
            return Err(
                "only atomic additions that return nothing are supported on the NFP".to_string()
            );
        }
        self.writes = true;
        let wide = width(insn.code) == 8;
        let (known, open) = match self.kind(insn.src) {
            Kind::Number(least, most) => known_bits(least, most),
            _ => (0, u64::MAX),
        };
        let (always, never) = (known <= 0xffff && open <= 0xffff, known & !open > 0xffff);
        let src = other(low(insn.src));
        let by = self.operand(insn.off as i32 as u32);
        let full = (!always && !never).then(|| {
            let most = Operand::A(21);
            self.one(Op::Immed { dst: most, value: 0xffff, shift: 0 });
            self.test(most, AluOp::Sub, src);
            self.test(Operand::Imm(0), AluOp::SubCarry, other(high(insn.src)));
            self.inner_branch(Cond::CarryClear, if insn.off == 0 { 0 } else { 2 })
        });
        let (mut a, mut b) = (low(insn.dst), other(high(insn.dst)));
        if insn.off != 0 {
            let upper = high(insn.dst);
            self.one(Op::Alu { dst: Operand::A(20), a, op: AluOp::Add, b: by });
            (a, b) = (Operand::A(20), Operand::B(20));
            self.one(Op::Alu { dst: b, a: upper, op: AluOp::AddCarry, b: Operand::Imm(0) });
        }
        let command = |op, count, indirect| Op::Mem {
            op,
            xfer: 0,
            base: b,
            far: true,
            offset: a,
            count,
            indirect,
            swap: op == MemOp::Add,
            defer: if op == MemOp::Add { 1 + u8::from(wide) } else { 0 },
        };
        if !never {
            let with = Operand::A(21);
            self.one(Op::Immed { dst: with, value: if wide { 0xc90 } else { 0x890 }, shift: 0 });
            let (mask, shift) = (0b1100, Shift::Left(16));
            self.one(Op::LdField { dst: with, mask, src, shift, clear: false });
            self.one(command(MemOp::AddImm, 1, true));
        }
        let end = full.map(|full| {
            let end = self.inner_branch(Cond::Always, 0);
            self.land(full);
            end
        });
        if !always {
            self.add_register(insn, wide, command(MemOp::Add, if wide { 5 } else { 1 }, false));
        }
        if let Some(end) = end {
            self.land(end);
        }
        Ok(())
    }

    /// The command waits for the words behind it.
    fn add_register(&mut self, insn: Insn, wide: bool, command: Op) {
        self.one(command);
        for (word, src) in
            [low(insn.src), high(insn.src)].into_iter().take(1 + usize::from(wide)).enumerate()
        {
            let dst = Operand::Xfer(word as u8);
            self.one(Op::Alu { dst, a: Operand::None, op: AluOp::B, b: src });
        }
    }
}

/// Bits known to be set, and bits that are open, of a number in an interval.
fn known_bits(least: u64, most: u64) -> (u64, u64) {
    let differ = least ^ most;
    let open = if differ == 0 { 0 } else { u64::MAX >> differ.leading_zeros() };
    (least & !open, open)
}

pub(super) fn mem(
    op: MemOp,
    base: Operand,
    far: bool,
    offset: Operand,
    count: u8,
    indirect: bool,
) -> Op {
    Op::Mem { op, xfer: 0, base, far, offset, count, indirect, swap: true, defer: 0 }
}

/// Members of `struct xdp_md`.
fn context_field(offset: i64) -> String {
    let names =
        ["data", "data_end", "data_meta", "ingress_ifindex", "rx_queue_index", "egress_ifindex"];
    let name =
        usize::try_from(offset / 4).ok().filter(|_| offset >= 0).and_then(|at| names.get(at));
    name.map_or_else(|| format!("offset {offset}"), |name| format!("`{name}`"))
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Context(_) => "the context",
        Kind::Packet { .. } => "in the packet",
        Kind::PacketEnd => "the packet's end",
        Kind::Stack(_) => "on the stack",
        Kind::Map(_) => "a map",
        Kind::Value(_) => "a map value",
        Kind::Mixed => "a pointer to different memory on different ways",
        Kind::Number(..) | Kind::Nothing => "no pointer",
    }
}
