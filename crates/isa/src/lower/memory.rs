//! Loads, stores and atomics.

use super::{Lower, high, low, other};
use crate::ebpf::Insn;
use crate::ebpf::insn::{class, width};
use crate::ebpf::kinds::Kind;
use crate::nfp::{AluOp, MemOp, Op, Operand, Shift};

/// Words behind pointer 0 that instructions reach.
const NEAR_WORDS: i64 = 16;
/// Words that sub-word instructions reach.
const FIELD_WORDS: i64 = 7;

/// Where a word of the stack is.
pub(super) struct StackWord {
    pub operand: Operand,
    /// Byte in the word.
    pub byte: u8,
    /// Sub-word instructions reach it.
    pub near: bool,
}

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
                    value: ((words - 1) << 8) as u32,
                    shift: 0,
                });
            }
            self.one(mem(
                MemOp::Read32,
                low(insn.src),
                false,
                offset,
                words.min(8) as u8,
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

    /// The operand of the stack word with a byte at `offset` from the frame's top.
    pub(super) fn stack_word(&mut self, offset: i64) -> Result<StackWord, String> {
        let at = self.depth + offset;
        if at < 0 || offset >= 0 {
            return Err(format!("stack access at {offset} is outside the frame"));
        }
        let (word, byte) = (at / 4, (at % 4) as u8);
        if word < NEAR_WORDS {
            return Ok(StackWord {
                operand: Operand::Local { index: 0, word: word as u8 },
                byte,
                near: word <= FIELD_WORDS,
            });
        }
        let address = self.operand((4 * word) as u32);
        self.one(Op::Alu { dst: Operand::A(21), a: Operand::A(22), op: AluOp::Add, b: address });
        self.one(Op::CsrWrite { index: 3, src: Operand::A(21) });
        for _ in 0..3 {
            self.one(Op::Nop);
        }
        Ok(StackWord { operand: Operand::Local { index: 3, word: 0 }, byte, near: true })
    }

    fn load_stack(&mut self, dst: u8, offset: i64, bytes: u8) -> Result<(), String> {
        if bytes == 8 {
            for (register, offset) in [(low(dst), offset), (high(dst), offset + 4)] {
                let word = aligned(self.stack_word(offset)?, 4)?;
                self.alu(register, Operand::None, AluOp::B, word.operand);
            }
            return Ok(());
        }
        self.clear_upper(dst);
        let word = aligned(self.stack_word(offset)?, bytes)?;
        if bytes == 4 {
            self.alu(low(dst), Operand::None, AluOp::B, word.operand);
        } else {
            let mut src = word.operand;
            if !word.near {
                self.one(Op::Alu { dst: Operand::A(21), a: Operand::None, op: AluOp::B, b: src });
                src = Operand::A(21);
            }
            let shift = if word.byte == 0 { Shift::None } else { Shift::Right(8 * word.byte) };
            self.both(Op::LdField {
                dst: low(dst),
                mask: (1 << bytes) - 1,
                src,
                shift,
                clear: true,
            });
        }
        Ok(())
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
        self.put(insn, bytes);
        let offset = self.small_operand(insn.off as i32 as u32);
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

    /// What is stored, into transfer registers.
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

    /// A word into a register that is not a pair of banks.
    pub(super) fn immediate_one(&mut self, dst: Operand, value: u32) {
        match Self::short(value) {
            Some((value, shift)) => self.one(Op::Immed { dst, value, shift }),
            None => {
                // Transfer registers cannot be read back, which the second half would need.
                let scratch = self.operand(value);
                self.one(Op::Alu { dst, a: Operand::None, op: AluOp::B, b: scratch });
            }
        }
    }

    fn store_stack(&mut self, insn: Insn, offset: i64, bytes: u8) -> Result<(), String> {
        let constants = [insn.imm as u32, (insn.imm >> 31) as u32];
        let register = insn.code & 7 == class::STX;
        if bytes >= 4 {
            for part in 0..i64::from(bytes / 4) {
                let src = match (register, part) {
                    (true, 0) => other(low(insn.src)),
                    (true, _) => other(high(insn.src)),
                    (false, _) => self.word_constant(constants[part as usize]),
                };
                let word = aligned(self.stack_word(offset + 4 * part)?, 4)?;
                self.one(Op::Alu { dst: word.operand, a: Operand::None, op: AluOp::B, b: src });
            }
            return Ok(());
        }
        let src = if register { other(low(insn.src)) } else { self.word_constant(constants[0]) };
        let word = aligned(self.stack_word(offset)?, bytes)?;
        let mask = ((1u8 << bytes) - 1) << word.byte;
        let shift = if word.byte == 0 { Shift::None } else { Shift::Left(8 * word.byte) };
        if word.near {
            self.one(Op::LdField { dst: word.operand, mask, src, shift, clear: false });
        } else {
            let scratch = Operand::A(21);
            self.one(Op::Alu { dst: scratch, a: Operand::None, op: AluOp::B, b: word.operand });
            self.one(Op::LdField { dst: scratch, mask, src, shift, clear: false });
            self.one(Op::Alu { dst: word.operand, a: Operand::None, op: AluOp::B, b: scratch });
        }
        Ok(())
    }

    /// A constant in bank B's scratch register, whatever its size.
    fn word_constant(&mut self, value: u32) -> Operand {
        match Self::short(value) {
            Some((value, shift)) => {
                self.one(Op::Immed { dst: Operand::B(21), value, shift });
                Operand::B(21)
            }
            None => {
                self.one(Op::Immed { dst: Operand::B(21), value: value & 0xffff, shift: 0 });
                self.one(Op::ImmedW1 { dst: Operand::B(21), value: value >> 16 });
                Operand::B(21)
            }
        }
    }

    /// The two parts of a map value's address.
    pub(super) fn value_address(&mut self, pointer: u8, offset: i16) -> (Operand, Operand) {
        if offset == 0 {
            return (other(high(pointer)), low(pointer));
        }
        let by = self.operand(offset as i32 as u32);
        self.one(Op::Alu { dst: Operand::A(20), a: low(pointer), op: AluOp::Add, b: by });
        self.one(Op::Alu {
            dst: Operand::B(21),
            a: high(pointer),
            op: AluOp::AddCarry,
            b: Operand::Imm(0),
        });
        (Operand::B(21), Operand::A(20))
    }

    fn add_atomically(&mut self, insn: Insn) -> Result<(), String> {
        if insn.imm != 0 {
            return Err(
                "only atomic additions that return nothing are supported on the NFP".to_string()
            );
        }
        self.writes = true;
        if !matches!(self.kind(insn.src), Kind::Number(_, 0..=0xffff)) {
            let wide = width(insn.code) == 8;
            self.put(insn, width(insn.code) as u8);
            let (b, a) = self.value_address(insn.dst, insn.off);
            let op = if wide { MemOp::Add64 } else { MemOp::Add };
            self.one(mem(op, b, true, a, 1, false));
            return Ok(());
        }
        let (b, a) = self.value_address(insn.dst, insn.off);
        let scratch = Operand::A(21);
        self.one(Op::Immed { dst: scratch, value: 0x890, shift: 0 });
        self.one(Op::LdField {
            dst: scratch,
            mask: 0b1100,
            src: other(low(insn.src)),
            shift: Shift::Left(16),
            clear: false,
        });
        let count = (width(insn.code) / 4) as u8;
        self.one(Op::Mem {
            op: MemOp::AddImm,
            xfer: 0,
            base: b,
            far: true,
            offset: a,
            count,
            indirect: true,
            swap: false,
        });
        Ok(())
    }
}

pub(super) fn mem(
    op: MemOp,
    base: Operand,
    far: bool,
    offset: Operand,
    count: u8,
    indirect: bool,
) -> Op {
    Op::Mem { op, xfer: 0, base, far, offset, count, indirect, swap: true }
}

pub(super) fn aligned(word: StackWord, bytes: u8) -> Result<StackWord, String> {
    if word.byte + bytes > 4 {
        return Err("a stack access across words; align the variable".to_string());
    }
    Ok(word)
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
