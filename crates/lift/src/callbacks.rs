//! Helpers that call functions of the program, as functions written in instructions: a loop around
//! an indirect call. What the walk, the flow and the rest know of functions and loops then holds
//! for callbacks too.

use nicforge_isa::ebpf::{Insn, MOST_TRIPS};
use nicforge_isa::object::Program;

use crate::error::{Halt, refuse};
use crate::flow::{CALL, CALL_REGISTER, EXIT};
use crate::helpers::number as n;
use crate::kind;
use crate::lifter::Lifter;
use crate::value::Abs;

const MOV: u8 = 0xbf;
const MOV32: u8 = 0xbc;
const MOV_IMM: u8 = 0xb7;
const MOV32_IMM: u8 = 0xb4;
const ADD_IMM: u8 = 0x07;
const LOAD_64: u8 = 0x79;
const STORE_32: u8 = 0x63;
const STORE_64: u8 = 0x7b;
const JEQ_IMM: u8 = 0x15;
const JNE_IMM: u8 = 0x55;
const JGT_IMM: u8 = 0x25;
const JGE: u8 = 0x3d;

const fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn { code, dst, src, off, imm }
}

/// `bpf_loop(trips, callback, context, flags)`.
const LOOP: [Insn; 18] = [
    insn(JNE_IMM, 4, 0, 13, 0),
    insn(MOV32, 6, 1, 0, 0),
    insn(JGT_IMM, 6, 0, 13, MOST_TRIPS as i32),
    insn(MOV, 7, 2, 0, 0),
    insn(MOV, 8, 3, 0, 0),
    insn(MOV_IMM, 9, 0, 0, 0),
    insn(JGE, 9, 6, 5, 0),
    insn(MOV, 1, 9, 0, 0),
    insn(MOV, 2, 8, 0, 0),
    insn(CALL_REGISTER, 7, 0, 0, 2),
    insn(ADD_IMM, 9, 0, 0, 1),
    insn(JEQ_IMM, 0, 0, -6, 0),
    insn(MOV, 0, 9, 0, 0),
    insn(EXIT, 0, 0, 0, 0),
    insn(MOV_IMM, 0, 0, 0, -22),
    insn(EXIT, 0, 0, 0, 0),
    // As the kernel writes the loop into a program: without a sign in the upper half.
    insn(MOV32_IMM, 0, 0, 0, -7),
    insn(EXIT, 0, 0, 0, 0),
];

/// `bpf_for_each_map_elem(map, callback, context, flags)`, of an array.
const EACH: [Insn; 26] = [
    insn(JNE_IMM, 4, 0, 23, 0),
    insn(MOV, 6, 1, 0, 0),
    insn(MOV, 7, 2, 0, 0),
    insn(MOV, 8, 3, 0, 0),
    insn(CALL, 0, 0, 0, n::ENTRIES),
    insn(STORE_64, 10, 0, -16, 0),
    insn(MOV_IMM, 9, 0, 0, 0),
    insn(LOAD_64, 1, 10, -16, 0),
    insn(JGE, 9, 1, 13, 0),
    insn(STORE_32, 10, 9, -4, 0),
    insn(MOV, 1, 6, 0, 0),
    insn(MOV, 2, 10, 0, 0),
    insn(ADD_IMM, 2, 0, 0, -4),
    insn(CALL, 0, 0, 0, n::MAP_LOOKUP),
    insn(MOV, 3, 0, 0, 0),
    insn(MOV, 1, 6, 0, 0),
    insn(MOV, 2, 10, 0, 0),
    insn(ADD_IMM, 2, 0, 0, -4),
    insn(MOV, 4, 8, 0, 0),
    insn(CALL_REGISTER, 7, 0, 0, 4),
    insn(ADD_IMM, 9, 0, 0, 1),
    insn(JEQ_IMM, 0, 0, -15, 0),
    insn(MOV, 0, 9, 0, 0),
    insn(EXIT, 0, 0, 0, 0),
    insn(MOV_IMM, 0, 0, 0, -22),
    insn(EXIT, 0, 0, 0, 0),
];

/// Makes calls of such helpers calls of functions behind the program.
pub fn write_out(program: &mut Program) {
    for (helper, function) in [(n::LOOP, &LOOP[..]), (n::FOR_EACH_MAP_ELEM, &EACH[..])] {
        let calls = |insn: &Insn| insn.code == CALL && insn.src == 0 && insn.imm == helper;
        let entry = program.insns.len();
        let found = program.insns.iter().enumerate().filter(|(_, insn)| calls(insn));
        let found: Vec<usize> = found.map(|(at, _)| at).collect();
        for at in &found {
            let by = (entry - at - 1) as i32;
            program.insns[*at] = Insn { src: 1, imm: by, ..program.insns[*at] };
        }
        if !found.is_empty() {
            program.insns.extend(function);
            program.lines.resize(program.insns.len(), None);
        }
    }
}

impl Lifter<'_> {
    /// Entries that `bpf_for_each_map_elem` goes through: αIR asks for entries by their key.
    pub fn entries(&mut self, map: Abs) -> Result<Abs, Halt> {
        let map = self.map(map, "bpf_for_each_map_elem")?;
        if !matches!(self.map_kind(map), kind::ARRAY | kind::PERCPU_ARRAY) {
            let name = self.map_name(map);
            return refuse(format!(
                "goes through map `{name}` by bpf_for_each_map_elem, which arrays only allow here"
            ));
        }
        Ok(Abs::known(self.object.maps[map].max_entries.into()))
    }
}
