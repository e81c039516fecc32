//! Random RV32 programs that end and touch only their own memory.
//!
//! A program sets every register, runs a few hundred random instructions, writes its data out and
//! exits. Instructions come in units of which only beginnings are jumped to; jumps go forward, or
//! back over a counted loop. `x2`, `x8` and `x9` point into the data, `x31` counts loops; nothing
//! else is fixed.

use nicforge_isa::object::riscv;
use nicforge_isa::rv32::{Class, Decoder, Format, Insn, Op, RV32IMA, encode::encode};

/// Where programs stand, and their data behind.
pub const BASE: u32 = 0x1_0000;
pub const DATA: u32 = BASE + 0x8000;
pub const DATA_BYTES: u32 = 0x1000;

const POINTERS: [u8; 3] = [2, 8, 9];
const COUNTER: u8 = 31;

/// Numbers from a seed.
pub struct Random(nicforge_util::Random);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(nicforge_util::Random::new(seed))
    }

    pub fn word(&mut self) -> u32 {
        (self.0.next() >> 32) as u32
    }

    pub fn below(&mut self, limit: u32) -> u32 {
        self.word() % limit
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u32) as usize]
    }
}

/// The word of an instruction with these operands.
pub fn word(op: Op, rd: u8, rs1: u8, rs2: u8, imm: i32) -> u32 {
    let at = RV32IMA.iter().position(|row| row.op == op).expect("a base instruction");
    let insn = Insn { op, row: at as u16, rd, rs1, rs2, imm, len: 4 };
    encode(&RV32IMA[at], &insn)
}

type Unit = Vec<u8>;

fn long(unit: &mut Unit, op: Op, rd: u8, rs1: u8, rs2: u8, imm: i32) {
    unit.extend_from_slice(&word(op, rd, rs1, rs2, imm).to_le_bytes());
}

/// Puts a constant into a register.
fn set(unit: &mut Unit, rd: u8, value: u32) {
    let low = (value << 20) as i32 >> 20;
    long(unit, Op::Lui, rd, 0, 0, value.wrapping_sub(low as u32) as i32);
    long(unit, Op::Addi, rd, rd, 0, low);
}

fn destination(random: &mut Random) -> u8 {
    loop {
        let rd = random.below(31) as u8;
        if !POINTERS.contains(&rd) {
            return rd;
        }
    }
}

/// An operand that is often special.
fn value(random: &mut Random) -> u32 {
    match random.below(4) {
        0 => random.pick(&[0, 1, u32::MAX, 0x8000_0000, 0x7fff_ffff, 2, 31, 32]),
        1 => random.below(256),
        _ => random.word(),
    }
}

fn arithmetic(random: &mut Random) -> Unit {
    let mut unit = Unit::new();
    let rows: Vec<_> = RV32IMA
        .iter()
        .filter(|row| {
            matches!(
                row.class,
                Class::Alu | Class::Multiply | Class::MultiplyHigh | Class::Divide | Class::System
            ) && (row.format != Format::Bare || row.op == Op::FenceI)
        })
        .collect();
    let row = rows[random.below(rows.len() as u32) as usize];
    let (rd, rs1, rs2) = (destination(random), random.below(32) as u8, random.below(32) as u8);
    // A fence that orders nothing is a hint, which emulators need not know.
    let imm = if row.format == Format::Fence { 0xff } else { random.word() as i32 };
    long(&mut unit, row.op, rd, rs1, rs2, imm);
    unit
}

fn compressed(random: &mut Random, decoder: &Decoder) -> Unit {
    loop {
        let half = random.word() as u16;
        let Some(insn) = decoder.decode(u32::from(half)).filter(|insn| insn.len == 2) else {
            continue;
        };
        let row = decoder.row(&insn);
        let memory = matches!(row.class, Class::Load | Class::Store);
        let fits = match row.class {
            Class::Alu => !POINTERS.contains(&insn.rd) && insn.rd != COUNTER,
            Class::Load => !POINTERS.contains(&insn.rd) && insn.rd != COUNTER,
            Class::Store => true,
            _ => false,
        };
        if fits && (!memory || POINTERS.contains(&insn.rs1)) {
            return half.to_le_bytes().to_vec();
        }
    }
}

fn memory(random: &mut Random) -> Unit {
    let mut unit = Unit::new();
    let op = random.pick(&[Op::Lb, Op::Lh, Op::Lw, Op::Lbu, Op::Lhu, Op::Sb, Op::Sh, Op::Sw]);
    let offset = random.below(600) as i32 - 300;
    let (rd, rs1, rs2) = (destination(random), random.pick(&POINTERS), random.below(32) as u8);
    long(&mut unit, op, rd, rs1, rs2, offset);
    unit
}

fn atomic(random: &mut Random) -> Unit {
    let mut unit = Unit::new();
    let base = random.pick(&POINTERS);
    let ordering = random.below(4) as i32;
    if random.below(4) == 0 {
        long(&mut unit, Op::LrW, destination(random), base, 0, ordering);
        for _ in 0..random.below(3) {
            unit.extend(arithmetic(random));
        }
        let other = if random.below(3) == 0 { random.pick(&POINTERS) } else { base };
        long(&mut unit, Op::ScW, destination(random), other, random.below(32) as u8, ordering);
        return unit;
    }
    let op = random.pick(&[
        Op::ScW,
        Op::AmoSwap,
        Op::AmoAdd,
        Op::AmoXor,
        Op::AmoAnd,
        Op::AmoOr,
        Op::AmoMin,
        Op::AmoMax,
        Op::AmoMinu,
        Op::AmoMaxu,
    ]);
    long(&mut unit, op, destination(random), base, random.below(32) as u8, ordering);
    unit
}

/// A jump over some of the units that follow, `behind` being where each of them ends as seen from
/// the first.
fn jump(random: &mut Random, behind: &[i32]) -> Unit {
    let mut unit = Unit::new();
    let over = if behind.is_empty() { 0 } else { random.pick(&behind[..behind.len().min(6)]) };
    let (rd, a, b) = (destination(random), random.below(32) as u8, random.below(32) as u8);
    match random.below(7) {
        6 => {
            // c.j and c.jal.
            let offset = (2 + over) as u16;
            let parts = [
                (11, 12),
                (4, 11),
                (9, 10),
                (8, 9),
                (10, 8),
                (6, 7),
                (7, 6),
                (3, 5),
                (2, 4),
                (1, 3),
                (5, 2),
            ];
            let bits = parts.iter().fold(0, |bits, (from, to)| bits | (offset >> from & 1) << to);
            unit.extend_from_slice(&(random.pick(&[0xa001u16, 0x2001]) | bits).to_le_bytes());
        }
        0 => long(&mut unit, Op::Jal, rd, 0, 0, 4 + over),
        1 => {
            let link = loop {
                let link = destination(random);
                if link != 0 {
                    break link;
                }
            };
            long(&mut unit, Op::Auipc, link, 0, 0, 0);
            // The lowest bit of a computed target is dropped.
            long(&mut unit, Op::Jalr, rd, link, 0, 8 + over + random.below(2) as i32);
        }
        2 if over < 200 => {
            // c.beqz and c.bnez.
            let offset = (2 + over) as u16;
            let bits = (offset >> 8 & 1) << 12
                | (offset >> 3 & 3) << 10
                | (offset >> 6 & 3) << 5
                | (offset >> 1 & 3) << 3
                | (offset >> 5 & 1) << 2;
            let op = random.pick(&[0xc001u16, 0xe001]);
            let register = (random.below(8) as u16) << 7;
            unit.extend_from_slice(&(op | register | bits).to_le_bytes());
        }
        _ => {
            let op = random.pick(&[Op::Beq, Op::Bne, Op::Blt, Op::Bge, Op::Bltu, Op::Bgeu]);
            long(&mut unit, op, 0, a, b, 4 + over);
        }
    }
    unit
}

/// A piece of code that is entered at its start and left at its end.
fn block(random: &mut Random, decoder: &Decoder, units: u32) -> Vec<u8> {
    // Made from the end, so that jumps know what they jump over.
    let mut made: Vec<Unit> = Vec::new();
    let mut behind: Vec<i32> = Vec::new();
    for _ in 0..units {
        let unit = match random.below(16) {
            0..=4 => arithmetic(random),
            5..=8 => compressed(random, decoder),
            9..=11 => memory(random),
            12 => atomic(random),
            13 => {
                let mut unit = Unit::new();
                set(&mut unit, destination(random), value(random));
                unit
            }
            _ => jump(random, &behind),
        };
        let length = unit.len() as i32;
        behind.iter_mut().for_each(|end| *end += length);
        behind.insert(0, length);
        made.push(unit);
    }
    made.into_iter().rev().flatten().collect()
}

/// The instructions and data of a program, for [`BASE`].
pub fn program(seed: u64) -> Vec<u8> {
    let (mut random, decoder) = (Random::new(seed), Decoder::rv32imac());
    let mut code = Unit::new();
    for number in 1..32 {
        let middle = DATA + DATA_BYTES / 2 + random.below(64) * 4 - 128;
        let start = if POINTERS.contains(&number) { middle } else { value(&mut random) };
        set(&mut code, number, start);
    }
    for _ in 0..2 + random.below(4) {
        let length = 5 + random.below(25);
        code.extend(block(&mut random, &decoder, length));
        let length = 1 + random.below(12);
        let body = block(&mut random, &decoder, length);
        long(&mut code, Op::Addi, COUNTER, 0, 0, 1 + random.below(5) as i32);
        let size = body.len() as i32;
        code.extend(body);
        long(&mut code, Op::Addi, COUNTER, COUNTER, 0, -1);
        long(&mut code, Op::Bne, 0, COUNTER, 0, -size - 4);
    }
    // write(1, DATA, DATA_BYTES); exit(7)
    for (register, value) in [(10, 1), (11, DATA), (12, DATA_BYTES), (17, 64)] {
        set(&mut code, register, value);
    }
    long(&mut code, Op::Ecall, 0, 0, 0, 0);
    set(&mut code, 10, 7);
    set(&mut code, 17, 93);
    long(&mut code, Op::Ecall, 0, 0, 0, 0);
    assert!(code.len() < (DATA - BASE) as usize, "seed {seed}: {} bytes of code", code.len());
    code.resize((DATA - BASE) as usize, 0);
    for _ in 0..DATA_BYTES / 4 {
        code.extend_from_slice(&random.word().to_le_bytes());
    }
    code
}

/// The program as a file.
pub fn file(seed: u64) -> Vec<u8> {
    riscv::write(BASE, &program(seed))
}
