//! Entries for fuzzing: any bytes may come; none may panic or run on.

use super::bus::FlatMemory;
use super::code::Code;
use super::decode::{Decoder, word_at};
use super::encode::encode;
use super::hart::Hart;
use super::insn::Format;
use super::print::print;
use super::run::Stop;
use super::runner::Runner;
use super::timing::Timing;
use crate::object::riscv;

const CYCLES: u64 = 20_000;
const BASE: u32 = 0x1000;

/// Bytes as code: every halfword decodes or is refused, prints, and encodes to itself; then the
/// code runs where it stands, on memory that holds it.
pub fn code(bytes: &[u8]) {
    let decoder = Decoder::rv32imac();
    for half in 0..bytes.len() / 2 {
        let Some(word) = word_at(&bytes[half * 2..]) else { continue };
        let Some(insn) = decoder.decode(word) else { continue };
        assert!(!print(&decoder, &insn, BASE).is_empty());
        let row = decoder.row(&insn);
        if insn.len == 4 && !matches!(row.format, Format::Fence | Format::Bare) {
            assert_eq!(encode(row, &insn), word, "{}", row.name);
        }
        let again = decoder.decode(encode(row, &insn)).expect("an instruction of the table");
        assert_eq!((again.op, again.rd, again.imm), (insn.op, insn.rd, insn.imm), "{word:#010x}");
    }
    let mut memory = FlatMemory::new(BASE, bytes.len());
    if let Some(place) = memory.bytes_mut(BASE, bytes.len()) {
        place.copy_from_slice(bytes);
    }
    let code = Code::new(BASE, bytes, &decoder, &Timing::RI5CY);
    let mut hart = Hart::new(0, BASE);
    hart.csrs.mtvec = BASE;
    for number in 1..32 {
        hart.set_x(number, BASE + u32::from(number) * 4);
    }
    while hart.cycle < CYCLES {
        match hart.run(&code, &mut memory, CYCLES) {
            // A handler that traps at its first instruction would go round without counting cycles.
            Stop::Trap(trap) => {
                hart.take(&trap);
                hart.cycle += 1;
            }
            Stop::Blocked => return,
            _ => {}
        }
    }
}

/// Bytes as an ELF file: they give a program, which is run for a while, or a reason.
pub fn image(bytes: &[u8]) {
    match riscv::parse(bytes) {
        Ok(image) => {
            image.symbol_at(image.entry);
            match Runner::new(&image, &Decoder::rv32imac(), &Timing::RI5CY) {
                Ok(mut runner) => {
                    if let Err(error) = runner.run(CYCLES) {
                        assert!(!error.to_string().contains('\n'));
                    }
                }
                Err(error) => assert!(!error.to_string().contains('\n')),
            }
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}
