//! Loads and stores that copy memory: `load R, [a + i]; store [b + i], R`, again and again.
//!
//! Pairs that go on, upwards or downwards, with one width and the same registers, become one read
//! and one or two writes. What is copied comes from the packet or a map value and goes to the
//! packet. Nothing may be jumped to in between, and no pair may load what an earlier one stored.

use super::memory::mem;
use super::{Lower, high, low};
use crate::ebpf::Insn;
use crate::ebpf::insn::{class, targets, width};
use crate::ebpf::kinds::{Kind, State};
use crate::nfp::{AluOp, MemOp, Op, Operand, Shift};

/// Bytes after which a copy ends.
const LONGEST: i64 = 128;

/// A copy, at its first load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Lowest offsets.
    from: i16,
    to: i16,
    /// The register with the target's address.
    target: u8,
    bytes: i64,
    /// Pairs go downwards.
    down: bool,
}

/// An instruction in a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    No,
    First(Copy),
    /// Done by the first load.
    Other,
}

#[derive(Clone, Copy)]
struct Open {
    load: usize,
    /// The last pair.
    last: usize,
    bytes: i64,
    pairs: usize,
}

/// Parts of copies, by instruction.
pub fn copies(insns: &[Insn], states: &[Option<State>]) -> Vec<Part> {
    let targets = targets(insns);
    let pointer = |at: usize, register: u8| {
        states[at].as_ref().map_or(Kind::Nothing, |state| state.regs[usize::from(register.min(10))])
    };
    let pair = |at: usize| {
        let (load, store) = (&insns[at], &insns[at + 1]);
        let sizes = 0x18u8;
        load.code & !sizes == 0x60 | class::LDX
            && store.code & !sizes == 0x60 | class::STX
            && matches!(pointer(at, load.src), Kind::Packet { .. } | Kind::Value(_))
            && matches!(pointer(at + 1, store.dst), Kind::Packet { .. })
            && width(load.code) == width(store.code)
            && load.dst == store.src
            && !targets[at + 1]
    };
    let mut parts = vec![Part::No; insns.len()];
    let mut open: Option<Open> = None;
    let mut at = 0;
    while at + 1 < insns.len() {
        let is_pair = pair(at);
        let bytes = width(insns[at].code) as i64;
        let goes_on = is_pair
            && open.is_none_or(|open| {
                continues(insns, open.last, at)
                    && !targets[at]
                    && !crosses(insns, &pointer, open.load, at)
                    && open.bytes < LONGEST
            });
        if !goes_on {
            close(insns, open.take(), &mut parts);
        }
        if !is_pair {
            at += 1;
            continue;
        }
        open = Some(match open {
            Some(open) => {
                Open { last: at, bytes: open.bytes + bytes, pairs: open.pairs + 1, ..open }
            }
            None => Open { load: at, last: at, bytes, pairs: 1 },
        });
        at += 2;
    }
    close(insns, open, &mut parts);
    parts
}

/// True if the pair at `at` goes on where the one at `before` ended, or ends where it began.
fn continues(insns: &[Insn], before: usize, at: usize) -> bool {
    let [load, store, next_load, next_store] =
        [before, before + 1, at, at + 1].map(|index| insns[index]);
    let bytes = width(load.code) as i32;
    let behind = |a: Insn, b: Insn| i32::from(a.off) + bytes == i32::from(b.off);
    (next_load.dst, next_load.src, next_store.dst) == (load.dst, load.src, store.dst)
        && width(next_load.code) == width(load.code)
        && (behind(load, next_load) && behind(store, next_store)
            || behind(next_load, load) && behind(next_store, store))
}

/// True if the load at `at` may read what the copy that begins at `first` has stored.
fn crosses(insns: &[Insn], pointer: &impl Fn(usize, u8) -> Kind, first: usize, at: usize) -> bool {
    let (load, store) = (insns[first], insns[first + 1]);
    let (Kind::Packet { id, offset }, Kind::Packet { id: target, offset: by }) =
        (pointer(first, load.src), pointer(first + 1, store.dst))
    else {
        return false;
    };
    if id != target {
        return true;
    }
    let from = i64::from(load.off) + offset;
    let to = i64::from(store.off) + by;
    let now = i64::from(insns[at].off) + offset;
    now > from && from < to && now >= to || now < from && from > to && now <= to
}

fn close(insns: &[Insn], open: Option<Open>, parts: &mut [Part]) {
    let Some(open) = open.filter(|open| open.pairs > 1) else { return };
    let down = insns[open.last].off < insns[open.load].off;
    let lowest = if down { open.last } else { open.load };
    parts[open.load..open.last + 2].fill(Part::Other);
    parts[open.load] = Part::First(Copy {
        from: insns[lowest].off,
        to: insns[lowest + 1].off,
        target: insns[open.load + 1].dst,
        bytes: open.bytes,
        down,
    });
}

impl Lower<'_> {
    pub(super) fn copy(&mut self, insn: Insn, copy: Copy) {
        let words = (copy.bytes + 3) / 4;
        let mut address = (low(insn.src), self.small_operand(copy.from as i32 as u32));
        let far = matches!(self.kind(insn.src), Kind::Value(_));
        if far {
            address = self.value_address_by(insn.src, address.1);
        }
        self.transfer(MemOp::Read32, (far, address), 0, words);
        for word in 0..words as u8 {
            let xfer = Operand::Xfer(word);
            self.one(Op::Alu { dst: xfer, a: Operand::None, op: AluOp::B, b: xfer });
        }
        let base = low(copy.target);
        let write = |lower: &mut Self, op, at: i64, first: u8, count| {
            let offset = lower.small_operand((i64::from(copy.to) + at) as u32);
            lower.transfer(op, (false, (base, offset)), first, count);
        };
        let whole = copy.bytes % 4 == 0;
        match copy.bytes {
            bytes @ 0..=8 => write(self, MemOp::Write8, 0, 0, bytes),
            _ if whole => write(self, MemOp::Write32, 0, 0, words),
            bytes @ ..=32 => write(self, MemOp::Write8, 0, 0, bytes),
            bytes => {
                // Words first, then up to eight bytes, or what is left of the last word.
                let first = if bytes <= 40 { 8 } else { words - 1 };
                write(self, MemOp::Write32, 0, 0, first);
                write(self, MemOp::Write8, 4 * first, first as u8, bytes - 4 * first);
            }
        }
        self.reload(insn, copy, words as u8);
    }

    /// A read or write; what the count's three bits do not hold is taken from the instruction
    /// before.
    fn transfer(
        &mut self,
        op: MemOp,
        (far, (base, offset)): (bool, (Operand, Operand)),
        first: u8,
        count: i64,
    ) {
        let indirect = count > 8;
        if indirect {
            let value = 0x80 | ((count - 1) << 8) as u32;
            self.one(Op::Immed { dst: Operand::None, value, shift: 0 });
        }
        let count = ((count - 1) & 7) as u8 + 1;
        let mut command = mem(op, base, far, offset, count, indirect);
        if let Op::Mem { xfer, .. } = &mut command {
            *xfer = first;
        }
        self.one(command);
    }

    /// The register keeps what the last load would have left in it.
    fn reload(&mut self, insn: Insn, copy: Copy, words: u8) {
        let (l, h) = (low(insn.dst), high(insn.dst));
        let size = width(insn.code) as u8;
        let word = match size {
            _ if copy.down => 0,
            8 => words - 2,
            _ => words - 1,
        };
        let rest = (copy.bytes % 4) as u8;
        let field = |bytes: u8, at: u8| Op::LdField {
            dst: l,
            mask: (1 << bytes) - 1,
            src: Operand::Xfer(word),
            shift: if at == 0 { Shift::None } else { Shift::Right(8 * at) },
            clear: true,
        };
        match size {
            1 => self.both(field(1, if rest == 0 { 3 } else { rest - 1 })),
            2 => self.both(field(2, rest ^ 2)),
            // As the driver has it, the first word.
            4 => self.alu(l, Operand::None, AluOp::B, Operand::Xfer(0)),
            _ => {
                self.alu(l, Operand::None, AluOp::B, Operand::Xfer(word));
                self.alu(h, Operand::None, AluOp::B, Operand::Xfer(word + 1));
            }
        }
        if size < 8 {
            self.clear(h);
        }
    }
}
