//! A concrete interpreter of listings: one packet, cycles counted by the rules of
//! [`cost`](super::cost).
//!
//! It defines what the instructions mean; the symbolic front end of the bound is tested against it,
//! and every witness packet is run on it. Pointers are plain numbers: the packet at
//! [`PACKET_BASE`], so that small offsets of either sign do not wrap, and DRAM at [`DRAM_BASE`]
//! (its upper 32 of 40 bits), which makes every map pointer different from null.

use super::cost::{Clock, cost};
use super::insn::{AluOp, Cond, Insn, MemOp, MulStep, Op, Operand, Shift, Target, immediate};

/// Address of packet byte 0.
pub const PACKET_BASE: u32 = 1 << 31;
/// What `gprB_23` holds: the DRAM array's address divided by 256.
pub const DRAM_BASE: u32 = 1 << 30;
/// Byte addresses of the BPF stack (its lowest byte) and of the context in local memory.
pub const STACK_BASE: u32 = 0x400;
pub const CONTEXT_BASE: u32 = 0x800;
/// Bytes of local memory.
pub const LOCAL_BYTES: u32 = 0x1000;
/// Cycles until a new local memory pointer is in force.
pub const CSR_DELAY: u64 = 3;

/// Why a run ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NfpFault {
    #[error("instruction .{insn}: packet access at offset {offset} of {length} bytes")]
    Packet { insn: usize, offset: i64, length: usize },
    #[error("instruction .{insn}: local memory has no word at {address:#x}")]
    Local { insn: usize, address: u32 },
    #[error("instruction .{insn}: {reason}")]
    Form { insn: usize, reason: &'static str },
    #[error("more than {limit} instructions")]
    Limit { limit: u64 },
}

/// A DRAM access, for whoever supplies the contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DramRead {
    pub insn: usize,
    pub address: u64,
    pub bytes: usize,
}

/// Where a run begins.
pub struct Entry<'a> {
    /// The packet; writes change it.
    pub packet: &'a mut Vec<u8>,
    /// Supplies DRAM contents.
    pub dram: &'a mut dyn FnMut(&DramRead) -> Vec<u8>,
    /// Hears what is written to DRAM, and where.
    pub written: &'a mut dyn FnMut(u64, &[u8]),
    /// Most instructions to execute.
    pub limit: u64,
}

/// A finished run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The return value of the BPF program, `gprA_0`.
    pub result: u32,
    /// Cycles of the program part and of the DRAM engine.
    pub clock: Clock,
    pub executed: u64,
    /// Conditional branches and what they did.
    pub branches: Vec<(usize, bool)>,
}

#[derive(Default)]
struct Flags {
    n: bool,
    z: bool,
    v: bool,
    c: bool,
}

/// A core that runs a listing.
pub struct Machine {
    a: [u32; 32],
    b: [u32; 32],
    xfer_in: [u32; 32],
    xfer_out: [u32; 32],
    local: Vec<u8>,
    pointers: [u32; 4],
    pending: Vec<(u64, u8, u32)>,
    flags: Flags,
    /// Operand and result of the logical instruction right before.
    latch: Option<(u32, u32)>,
    /// Result of the latest logical instruction, from which `asr` takes its sign.
    signed: Option<u32>,
    /// Result of the last `immed`, and of the last `ld_field`.
    immed: u32,
    field: u32,
    mul: (u32, u32),
    /// An access that takes effect after so many instructions.
    waiting: Option<(u8, usize, Access)>,
    clock: Clock,
}

/// Command, first transfer register, address, whether it is in DRAM, offset, count.
type Access = (MemOp, u8, u32, bool, u32, usize);

impl Machine {
    fn new(length: u32) -> Machine {
        let mut machine = Machine {
            a: [0; 32],
            b: [0; 32],
            xfer_in: [0; 32],
            xfer_out: [0; 32],
            local: vec![0; LOCAL_BYTES as usize],
            pointers: [STACK_BASE, CONTEXT_BASE, 0, 0],
            pending: Vec::new(),
            flags: Flags::default(),
            latch: None,
            signed: None,
            immed: 0,
            field: 0,
            mul: (0, 0),
            waiting: None,
            clock: Clock::default(),
        };
        machine.a[22] = STACK_BASE;
        machine.b[23] = DRAM_BASE;
        let context = CONTEXT_BASE as usize;
        machine.local[context..context + 4].copy_from_slice(&length.to_le_bytes());
        machine.local[context + 8..context + 12].copy_from_slice(&PACKET_BASE.to_le_bytes());
        machine
    }

    /// Runs a program on a packet until a branch leaves the listing.
    ///
    /// # Errors
    /// See [`NfpFault`].
    pub fn run(program: &[Insn], mut entry: Entry) -> Result<Run, NfpFault> {
        let mut machine = Machine::new(entry.packet.len() as u32);
        let (mut pc, mut executed, mut branches) = (0usize, 0u64, Vec::new());
        // A branch whose slots are executed: how many are left, condition, where control goes.
        let mut deferred: Option<(u8, Cond, Option<usize>)> = None;
        loop {
            let insn = *program
                .get(pc)
                .ok_or(NfpFault::Form { insn: pc, reason: "ran past the last instruction" })?;
            executed += 1;
            if executed > entry.limit {
                return Err(NfpFault::Limit { limit: entry.limit });
            }
            let branch = match insn.op {
                Op::Branch { cond, target, defer } => {
                    Some((cond, target, defer, machine.taken(cond)))
                }
                Op::BranchBit { src, bit, target } => {
                    let set = machine.read(pc, src)? >> bit & 1 != 0;
                    machine.clock.fresh = false;
                    Some((Cond::Ne, target, 0, set))
                }
                _ => None,
            };
            let Some((cond, target, defer, taken)) = branch else {
                machine.execute(pc, &insn, &mut entry)?;
                machine.clock.step(cost(&insn.op));
                pc += 1;
                match &mut deferred {
                    Some((1, cond, to)) => {
                        machine.clock.branch(*cond, to.is_some());
                        machine.latch = None;
                        pc = to.unwrap_or(pc);
                        deferred = None;
                    }
                    Some((left, ..)) => *left -= 1,
                    None => {}
                }
                continue;
            };
            if deferred.is_some() {
                return Err(NfpFault::Form { insn: pc, reason: "a branch in a branch's slot" });
            }
            if cond != Cond::Always {
                branches.push((pc, taken));
            }
            let to = match (taken, target) {
                (true, Target::Insn(index)) => Some(index as usize),
                (true, Target::Exit) => {
                    machine.clock.branch(cond, taken);
                    return Ok(Run {
                        result: machine.a[0],
                        clock: machine.clock,
                        executed,
                        branches,
                    });
                }
                (true, Target::Helper(_)) => {
                    return Err(NfpFault::Form { insn: pc, reason: "firmware's code is not here" });
                }
                (false, _) => None,
            };
            if defer > 0 {
                deferred = Some((defer, cond, to));
                pc += 1;
                continue;
            }
            machine.clock.branch(cond, taken);
            machine.latch = None;
            pc = to.unwrap_or(pc + 1);
        }
    }

    fn taken(&self, cond: Cond) -> bool {
        let Flags { n, z, v, c } = self.flags;
        match cond {
            Cond::Always => true,
            Cond::Eq => z,
            Cond::Ne => !z,
            Cond::CarryClear => !c,
            Cond::CarrySet => c,
            Cond::Lt => n != v,
            Cond::Ge => n == v,
            Cond::Gt => !z && n == v,
            Cond::Le => z || n != v,
            Cond::Minus => n,
            Cond::Plus => !n,
            Cond::OverflowClear => !v,
            Cond::OverflowSet => v,
        }
    }

    fn local_word(&mut self, insn: usize, index: u8, word: u8) -> Result<usize, NfpFault> {
        let now = self.clock.cycles;
        let due: Vec<(u8, u32)> = self
            .pending
            .iter()
            .filter(|(at, ..)| *at <= now)
            .map(|(_, index, value)| (*index, *value))
            .collect();
        self.pending.retain(|(at, ..)| *at > now);
        for (index, value) in due {
            self.pointers[usize::from(index)] = value;
        }
        let address = self.pointers[usize::from(index)].wrapping_add(4 * u32::from(word));
        if address > LOCAL_BYTES - 4 || !address.is_multiple_of(4) {
            return Err(NfpFault::Local { insn, address });
        }
        Ok(address as usize)
    }

    /// Where an operand in local memory is; its pointer moves on if it says so.
    fn local_operand(&mut self, insn: usize, operand: Operand) -> Result<usize, NfpFault> {
        match operand {
            Operand::LocalNext { index } => {
                let at = self.local_word(insn, index, 0)?;
                self.pointers[usize::from(index)] += 4;
                Ok(at)
            }
            Operand::Local { index, word } => self.local_word(insn, index, word),
            _ => Err(NfpFault::Form { insn, reason: "an operand outside local memory" }),
        }
    }

    fn read(&mut self, insn: usize, operand: Operand) -> Result<u32, NfpFault> {
        Ok(match operand {
            Operand::None => 0,
            Operand::A(n) => self.a[usize::from(n) & 31],
            Operand::B(n) => self.b[usize::from(n) & 31],
            Operand::Xfer(n) => self.xfer_in[usize::from(n) & 31],
            Operand::Local { .. } | Operand::LocalNext { .. } => {
                let at = self.local_operand(insn, operand)?;
                let bytes =
                    [self.local[at], self.local[at + 1], self.local[at + 2], self.local[at + 3]];
                u32::from_le_bytes(bytes)
            }
            Operand::Imm(value) => value,
        })
    }

    fn write(
        &mut self,
        insn: usize,
        operand: Operand,
        both: bool,
        value: u32,
    ) -> Result<(), NfpFault> {
        match operand {
            Operand::A(n) | Operand::B(n) if both => {
                self.a[usize::from(n) & 31] = value;
                self.b[usize::from(n) & 31] = value;
            }
            Operand::A(n) => self.a[usize::from(n) & 31] = value,
            Operand::B(n) => self.b[usize::from(n) & 31] = value,
            Operand::Xfer(n) => self.xfer_out[usize::from(n) & 31] = value,
            Operand::Local { .. } | Operand::LocalNext { .. } => {
                let at = self.local_operand(insn, operand)?;
                self.local[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
            Operand::None | Operand::Imm(_) => {}
        }
        Ok(())
    }

    fn shift(&self, value: u32, shift: Shift) -> u32 {
        let indirect = self.latch.map_or(0, |(a, _)| a & 31);
        match shift {
            Shift::None => value,
            Shift::Left(n) => value << n,
            Shift::Right(n) => value >> n,
            Shift::Rotate(n) => value.rotate_right(n.into()),
            Shift::LeftIndirect => value << indirect,
            Shift::RightIndirect => value >> indirect,
        }
    }

    fn set_nz(&mut self, value: u32) {
        self.flags.n = value >> 31 != 0;
        self.flags.z = value == 0;
    }

    fn alu(&mut self, op: AluOp, a: u32, b: u32) -> u32 {
        let carry = u32::from(self.flags.c);
        let sum = |x: u32, y: u32, carry: u32| {
            let wide = u64::from(x) + u64::from(y) + u64::from(carry);
            let value = wide as u32;
            (value, wide >> 32 != 0, (x ^ value) & (y ^ value) & 1 << 31 != 0)
        };
        let (value, c, v) = match op {
            AluOp::B => (b, false, false),
            AluOp::NotB => (!b, false, false),
            AluOp::And => (a & b, false, false),
            AluOp::NotAnd => (!a & b, false, false),
            AluOp::AndNot => (a & !b, false, false),
            AluOp::Or => (a | b, false, false),
            AluOp::Xor => (a ^ b, false, false),
            AluOp::Add => sum(a, b, 0),
            AluOp::AddCarry => sum(a, b, carry),
            AluOp::Add8 => sum(a, b & 0xff, 0),
            AluOp::Add16 => sum(a, b & 0xffff, 0),
            // Subtraction adds the complement; carry means that nothing was borrowed.
            AluOp::Sub => sum(a, !b, 1),
            AluOp::SubCarry => sum(a, !b, carry),
            AluOp::Reverse => sum(b, !a, 1),
        };
        (self.flags.c, self.flags.v) = (c, v);
        self.set_nz(value);
        value
    }

    fn execute(&mut self, at: usize, insn: &Insn, entry: &mut Entry) -> Result<(), NfpFault> {
        let mut latch = None;
        let both = insn.both;
        match insn.op {
            Op::Alu { dst, a, op, b } => {
                let (a, b) = (self.read(at, a)?, self.read(at, b)?);
                let value = self.alu(op, a, b);
                latch = (!op.is_arithmetic()).then_some((a, value));
                self.write(at, dst, both, value)?;
            }
            Op::AluShf { dst, a, op, b, shift } => {
                let (a, b) = (self.read(at, a)?, self.read(at, b)?);
                let b = self.shift(b, shift);
                let value = self.alu(op, a, b);
                latch = Some((a, value));
                self.write(at, dst, both, value)?;
            }
            Op::Asr { dst, src, shift } => {
                let sign = self
                    .signed
                    .ok_or(NfpFault::Form { insn: at, reason: "asr without a sign before it" })?;
                let value = self.read(at, src)?;
                let bits = match shift {
                    Shift::Right(n) => u32::from(n),
                    _ => self.latch.map_or(0, |(a, _)| a & 31),
                };
                let fill = if sign >> 31 != 0 && bits > 0 { !0u32 << (32 - bits) } else { 0 };
                let value = value >> bits | fill;
                (self.flags.c, self.flags.v) = (false, false);
                self.set_nz(value);
                self.write(at, dst, both, value)?;
            }
            Op::DblShf { dst, high, low, shift } => {
                let (high, low) = (self.read(at, high)?, self.read(at, low)?);
                let bits = match shift {
                    Shift::Right(n) => u32::from(n),
                    _ => self.latch.map_or(0, |(a, _)| a & 31),
                };
                let value = ((u64::from(high) << 32 | u64::from(low)) >> bits) as u32;
                self.set_nz(value);
                self.write(at, dst, both, value)?;
            }
            Op::Immed { dst, value, shift } => {
                self.immed = immediate(value, shift);
                let value = self.immed;
                self.write(at, dst, both, value)?;
            }
            Op::ImmedW1 { dst, value } => {
                let old = match dst {
                    Operand::Xfer(n) => self.xfer_out[usize::from(n) & 31],
                    _ => self.read(at, dst)?,
                };
                self.write(at, dst, both, old & 0xffff | value << 16)?;
            }
            Op::LdField { dst, mask, src, shift, clear } => {
                let src = self.read(at, src)?;
                let src = self.shift(src, shift);
                let bits = field_mask(mask);
                let old = if clear { 0 } else { self.read(at, dst)? };
                let value = old & !bits | src & bits;
                self.field = value;
                self.set_nz(value);
                self.write(at, dst, both, value)?;
            }
            Op::Mul { a, b, step } => {
                let product = |(x, y): (u32, u32)| u64::from(x) * u64::from(y);
                match step {
                    MulStep::Start => self.mul = (self.read(at, a)?, self.read(at, b)?),
                    MulStep::Narrow(_) | MulStep::Wide(_) => {}
                    MulStep::NarrowLast | MulStep::WideLast | MulStep::WideHigh => {
                        let whole = product(self.mul);
                        let value =
                            if step == MulStep::WideHigh { whole >> 32 } else { whole } as u32;
                        self.set_nz(value);
                        self.write(at, a, both, value)?;
                    }
                }
            }
            Op::CsrWrite { index, src } => {
                let value = self.read(at, src)?;
                self.pending.push((self.clock.cycles + 1 + CSR_DELAY, index, value));
            }
            Op::Mem { op, xfer, base, far, offset, count, indirect, defer, .. } => {
                let (base, offset) = (self.read(at, base)?, self.read(at, offset)?);
                let count = if indirect && op != MemOp::AddImm {
                    let latch = self.latch.map_or(self.immed, |(_, result)| result);
                    (latch >> 8 & 31) as usize + 1
                } else {
                    usize::from(count)
                };
                let access = (op, xfer, base, far, offset, count);
                if defer > 0 {
                    // It also counts this instruction.
                    self.waiting = Some((defer + 1, at, access));
                } else {
                    self.memory(at, access, entry)?;
                }
            }
            Op::Nop | Op::Branch { .. } | Op::BranchBit { .. } => {}
        }
        match &mut self.waiting {
            Some((1, at, access)) => {
                let (at, access) = (*at, *access);
                self.waiting = None;
                self.memory(at, access, entry)?;
            }
            Some((left, ..)) => *left -= 1,
            None => {}
        }
        self.latch = latch;
        self.signed = latch.map(|(_, result)| result).or(self.signed);
        Ok(())
    }

    fn memory(
        &mut self,
        at: usize,
        (op, xfer, base, far, offset, count): Access,
        entry: &mut Entry,
    ) -> Result<(), NfpFault> {
        let first = usize::from(xfer);
        if first + count.div_ceil(if op == MemOp::Write8 { 4 } else { 1 }) > 32 {
            return Err(NfpFault::Form { insn: at, reason: "more words than transfer registers" });
        }
        if far {
            let address = (u64::from(base) << 8) + u64::from(offset);
            self.far(at, op, first, count, address, entry);
            return Ok(());
        }
        let packet = &mut *entry.packet;
        let start = i64::from(base.wrapping_add(offset)) - i64::from(PACKET_BASE);
        let length = packet.len();
        let fault = NfpFault::Packet { insn: at, offset: start, length };
        let bytes = if op == MemOp::Write8 { count } else { 4 * count };
        match op {
            MemOp::Read32 => {
                // A read may go on past the packet: its buffer is larger, and what is there is not
                // used.
                let start =
                    usize::try_from(start).ok().filter(|start| *start < length).ok_or(fault)?;
                for word in 0..count {
                    let byte = |i: usize| packet.get(start + 4 * word + i).copied().unwrap_or(0);
                    self.xfer_in[first + word] =
                        u32::from_le_bytes([byte(0), byte(1), byte(2), byte(3)]);
                }
            }
            MemOp::Write8 | MemOp::Write32 => {
                let start = usize::try_from(start)
                    .ok()
                    .filter(|start| start + bytes <= length)
                    .ok_or(fault)?;
                for i in 0..bytes {
                    packet[start + i] = self.xfer_out[first + i / 4].to_le_bytes()[i % 4];
                }
            }
            MemOp::AddImm | MemOp::Add => {
                return Err(NfpFault::Form { insn: at, reason: "atomic addition to the packet" });
            }
        }
        Ok(())
    }

    /// An access to DRAM.
    fn far(
        &mut self,
        at: usize,
        op: MemOp,
        first: usize,
        count: usize,
        address: u64,
        entry: &mut Entry,
    ) {
        let mut read = |bytes: usize| {
            let mut found = (entry.dram)(&DramRead { insn: at, address, bytes });
            found.resize(bytes, 0);
            found
        };
        let out = |words: usize| -> Vec<u8> {
            self.xfer_out[first..first + words].iter().flat_map(|word| word.to_le_bytes()).collect()
        };
        let bytes = match op {
            MemOp::Read32 => {
                for (word, bytes) in read(4 * count).chunks_exact(4).enumerate() {
                    self.xfer_in[first + word] =
                        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                }
                return;
            }
            MemOp::Write8 => out(count.div_ceil(4))[..count].to_vec(),
            MemOp::Write32 => out(count),
            MemOp::AddImm | MemOp::Add => {
                let (width, by) = match op {
                    // The length stands in the word with the number.
                    MemOp::AddImm if self.field & 0x400 != 0 => (8, u64::from(self.field >> 16)),
                    MemOp::AddImm => (4, u64::from(self.field >> 16)),
                    _ if count < 5 => (4, self.xfer_out[first].into()),
                    _ => {
                        let upper = self.xfer_out.get(first + 1).copied().unwrap_or(0);
                        (8, u64::from(self.xfer_out[first]) | u64::from(upper) << 32)
                    }
                };
                let mut old = [0; 8];
                old[..width].copy_from_slice(&read(width));
                u64::from_le_bytes(old).wrapping_add(by).to_le_bytes()[..width].to_vec()
            }
        };
        (entry.written)(address, &bytes);
    }
}

/// The bits a byte mask covers.
pub fn field_mask(mask: u8) -> u32 {
    (0..4).filter(|byte| mask >> byte & 1 != 0).map(|byte| 0xff << (8 * byte)).sum()
}
