//! The BPF stack: words of local memory behind pointer 0, whose lowest byte `gprA_22` holds.
//!
//! The lowest 64 bytes are reached directly. For others pointer 3 is set, to the window of 32 bytes
//! they are in, or to their word where they cross a window; then it moves on word by word.

use super::{Lower, high, low, other};
use crate::ebpf::Insn;
use crate::ebpf::insn::class;
use crate::nfp::{AluOp, Op, Operand, Shift};

/// Bytes behind pointer 0 that instructions reach.
const NEAR: i64 = 64;
/// Words that sub-word instructions reach; their windows are aligned, since offsets are not added.
const FIELD_WORDS: u8 = 8;
const WINDOW: i64 = 4 * FIELD_WORDS as i64;

/// A part of an access: bytes of one word of the stack and of one word of a register.
#[derive(Clone, Copy)]
struct Part {
    register: Operand,
    /// First byte in the register's word, and in the stack's.
    byte: u8,
    offset: i64,
    bytes: u8,
    first: bool,
    /// The first part that touches this word of the register.
    fresh: bool,
    last: bool,
}

/// Ways to reach words.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Near,
    Window,
    Moving,
}

impl Reach {
    /// The word of a part, counted from the pointer.
    fn word(self, part: Part) -> u8 {
        if self == Reach::Moving { 0 } else { (part.offset / 4) as u8 }
    }
}

/// Where a word of the stack is.
pub(super) struct StackWord {
    pub operand: Operand,
    /// Byte in the word.
    pub byte: u8,
    /// Sub-word instructions reach it.
    pub near: bool,
}

impl Lower<'_> {
    pub(super) fn load_stack(&mut self, dst: u8, offset: i64, bytes: u8) -> Result<(), String> {
        let (reach, at) = self.reach(offset, bytes)?;
        let clears = bytes < 8 && self.upper_is_read(dst);
        // Clearing fills a cycle of the new pointer's delay.
        self.wait(reach, if clears { 2 } else { 3 });
        if bytes < 8 {
            self.clear_upper(dst);
        }
        for part in parts([low(dst), high(dst)], at, bytes) {
            self.load_part(reach, part);
        }
        Ok(())
    }

    pub(super) fn store_stack(&mut self, insn: Insn, offset: i64, bytes: u8) -> Result<(), String> {
        if insn.code & 7 != class::STX {
            return self.store_constant(insn.imm, offset, bytes);
        }
        let (reach, at) = self.reach(offset, bytes)?;
        self.wait(reach, 3);
        for part in parts([other(low(insn.src)), other(high(insn.src))], at, bytes) {
            self.store_part(reach, part);
        }
        Ok(())
    }

    /// A constant to the stack, which the driver does not have.
    fn store_constant(&mut self, value: i32, offset: i64, bytes: u8) -> Result<(), String> {
        for part in 0..i64::from(bytes.div_ceil(4)) {
            let (reach, at) = self.reach(offset + 4 * part, bytes.min(4))?;
            self.wait(reach, 3);
            let word = if part == 0 { value } else { value >> 31 } as u32;
            self.immediate_one(Operand::B(21), word);
            for part in parts([Operand::B(21); 2], at, bytes.min(4)) {
                self.store_part(reach, part);
            }
        }
        Ok(())
    }

    /// Sets pointer 3 if it is needed; the offset from where words are counted.
    fn reach(&mut self, offset: i64, bytes: u8) -> Result<(Reach, i64), String> {
        let at = self.depth + offset;
        let end = at + i64::from(bytes);
        if at < 0 || offset + i64::from(bytes) > 0 {
            return Err(format!("stack access at {offset} is outside the frame"));
        }
        let (reach, base, rest) = if end <= NEAR {
            return Ok((Reach::Near, at));
        } else if at / WINDOW == (end - 1) / WINDOW {
            (Reach::Window, at / WINDOW * WINDOW, at % WINDOW)
        } else {
            (Reach::Moving, at / 4 * 4, at % 4)
        };
        let base = self.operand(base as u32);
        let pointer = Operand::B(21);
        self.one(Op::Alu { dst: pointer, a: Operand::A(22), op: AluOp::Add, b: base });
        self.one(Op::CsrWrite { index: 3, src: pointer });
        Ok((reach, rest))
    }

    fn wait(&mut self, reach: Reach, cycles: usize) {
        for _ in 0..if reach == Reach::Near { 0 } else { cycles } {
            self.one(Op::Nop);
        }
    }

    fn load_part(&mut self, reach: Reach, part: Part) {
        let word = reach.word(part);
        let moves = reach == Reach::Moving && part.fresh && !part.last;
        if part.bytes == 4 {
            let src = if moves { Operand::LocalNext { index: 3 } } else { local(reach, word) };
            self.alu(part.register, Operand::None, AluOp::B, src);
            return;
        }
        let from = (part.offset % 4) as u8;
        let mut src = local(reach, word);
        if word >= FIELD_WORDS {
            // A word that two parts read is moved once.
            let moved = Operand::A(21);
            if part.first || !part.fresh {
                self.one(Op::Alu { dst: moved, a: Operand::None, op: AluOp::B, b: src });
            }
            src = moved;
        }
        let mask = ((1u8 << part.bytes) - 1) << part.byte;
        self.both(Op::LdField {
            dst: if matches!(src, Operand::A(_)) { other(part.register) } else { part.register },
            mask,
            src,
            shift: shift(from, part.byte),
            clear: part.fresh,
        });
        if moves {
            self.move_on();
        }
    }

    fn store_part(&mut self, reach: Reach, part: Part) {
        let word = reach.word(part);
        let moves = reach == Reach::Moving && part.fresh && !part.last;
        if part.bytes == 4 {
            let dst = if moves { Operand::LocalNext { index: 3 } } else { local(reach, word) };
            self.one(Op::Alu { dst, a: Operand::None, op: AluOp::B, b: part.register });
            return;
        }
        let to = (part.offset % 4) as u8;
        let mask = ((1u8 << part.bytes) - 1) << to;
        let there = local(reach, word);
        let far = word >= FIELD_WORDS;
        let dst = if far { Operand::A(21) } else { there };
        if far && (part.first || part.last) {
            self.one(Op::Alu { dst, a: Operand::None, op: AluOp::B, b: there });
        }
        let shift = shift(part.byte, to);
        self.one(Op::LdField { dst, mask, src: part.register, shift, clear: false });
        if part.fresh || part.last {
            if far {
                self.one(Op::Alu { dst: there, a: Operand::None, op: AluOp::B, b: dst });
            }
            if moves {
                self.move_on();
            }
        }
    }

    fn move_on(&mut self) {
        let b = Operand::LocalNext { index: 3 };
        self.one(Op::Alu { dst: Operand::None, a: Operand::None, op: AluOp::B, b });
    }

    /// The operand of the stack word with a byte at `offset` from the frame's top.
    pub(super) fn stack_word(&mut self, offset: i64) -> Result<StackWord, String> {
        let (reach, at) = self.reach(offset & !3, 4)?;
        self.wait(reach, 3);
        let word = (at / 4) as u8;
        Ok(StackWord {
            operand: local(reach, word),
            byte: (offset & 3) as u8,
            near: word < FIELD_WORDS,
        })
    }
}

fn local(reach: Reach, word: u8) -> Operand {
    Operand::Local { index: if reach == Reach::Near { 0 } else { 3 }, word }
}

/// The shift that brings byte `from` of a word to byte `to`.
fn shift(from: u8, to: u8) -> Shift {
    match from.cmp(&to) {
        std::cmp::Ordering::Less => Shift::Left(8 * (to - from)),
        std::cmp::Ordering::Equal => Shift::None,
        std::cmp::Ordering::Greater => Shift::Right(8 * (from - to)),
    }
}

/// An access in parts that lie in one word on both sides.
fn parts(words: [Operand; 2], start: i64, bytes: u8) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut done = 0;
    while done < bytes {
        let (byte, offset) = (done % 4, start + i64::from(done));
        let here = (bytes - done).min(4 - byte).min(4 - (offset % 4) as u8);
        parts.push(Part {
            register: words[usize::from(done / 4)],
            byte,
            offset,
            bytes: here,
            first: done == 0,
            fresh: byte == 0,
            last: done + here == bytes,
        });
        done += here;
    }
    parts
}
