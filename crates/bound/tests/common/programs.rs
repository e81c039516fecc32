//! Random eBPF programs.

use nicforge_isa::ebpf::{self as isa, Insn};
use nicforge_isa::object::{Map, PSEUDO_MAP, PSEUDO_VALUE, Program};
use nicforge_util::Random;

/// Entries of the array, and bytes of each and of the variables.
pub const ENTRIES: u64 = 4;
pub const BYTES: u64 = 16;

pub fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn { code, dst, src, off, imm }
}

/// An array of `ENTRIES` values, and variables.
pub fn maps() -> Vec<Map> {
    let map = |name: &str, kind, max_entries| Map {
        name: name.to_string(),
        kind,
        key_size: 4,
        value_size: BYTES as u32,
        max_entries,
        data: if kind.is_none() { vec![0; BYTES as usize] } else { Vec::new() },
        constant: false,
    };
    vec![map("array", Some(2), ENTRIES as u32), map(".bss", None, 1)]
}

/// `lddw` of a map or of the address of its value.
pub fn lddw(dst: u8, source: u8, map: i32) -> Vec<Insn> {
    vec![insn(isa::LDDW, dst, source, 0, map), insn(0, 0, 0, 0, 0)]
}

/// A program: r6 is the packet's address, r7 and r8 are values, r9 is where memory is.
pub fn program(random: &mut Random) -> Program {
    let mut code = vec![
        insn(0x61, 6, 1, 0, 0), // r6 = data
        insn(0x61, 2, 1, 4, 0), // r2 = data_end
        insn(0xbf, 3, 6, 0, 0), // r3 = r6 + 32
        insn(0x07, 3, 0, 0, 32),
        insn(0x2d, 3, 2, 0, 0), // past the end: leave
        insn(0xb7, 7, 0, 0, 5),
        insn(0x71, 8, 6, 3, 0),
        insn(0x7a, 10, 0, -16, 0), // the stack begins as zero
        insn(0x7a, 10, 0, -8, 0),
        insn(0x7b, 10, 1, -32, 0), // the context
    ];
    code.extend(lddw(9, PSEUDO_VALUE, 1));
    let mut leaving = vec![4];
    for _ in 0..6 + random.below(10) {
        let (a, b) = if random.below(2) == 0 { (7, 8) } else { (8, 7) };
        let width = random.pick(&[0u8, 0x08, 0x10, 0x18]); // 4, 2, 1, 8 bytes
        let bytes = [4, 2, 1, 8][usize::from(width >> 3)];
        let off = (random.below(BYTES / bytes) * bytes) as i16;
        match random.below(14) {
            0 => code.push(insn(0x71, a, 6, random.below(32) as i16, 0)),
            1 => {
                let op = random.pick(&[0x07u8, 0x47, 0x57, 0xa7, 0x77]);
                code.push(insn(op, a, 0, 0, random.below(8) as i32));
            }
            2 => code.push(insn(random.pick(&[0x0fu8, 0x1f, 0x5f, 0xaf]), a, b, 0, 0)),
            3 | 4 => code.push(insn(0x61 | width, a, 9, off, 0)),
            5 => code.push(insn(0x63 | width, 9, a, off, 0)),
            6 => {
                let wide = random.below(2) == 0;
                let off =
                    (random.below(if wide { 2 } else { 4 }) * if wide { 8 } else { 4 }) as i16;
                let kind = random.pick(&[0x00, 0x01, 0x40, 0x51, 0xa1, 0xe1, 0xf1]);
                code.push(insn(0xb7, 0, 0, 0, random.below(3) as i32));
                code.push(insn(if wide { 0xdb } else { 0xc3 }, 9, a, off, kind));
                if kind == 0xf1 {
                    code.push(insn(0xbf, b, 0, 0, 0));
                }
            }
            7 => {
                // A value of the array; a key beyond it finds none.
                code.push(insn(0xbf, 1, a, 0, 0));
                code.push(insn(0x57, 1, 0, 0, random.pick(&[0, 1, 3, 7])));
                code.push(insn(0x63, 10, 1, -20, 0));
                code.push(insn(0xbf, 2, 10, 0, 0));
                code.push(insn(0x07, 2, 0, 0, -20));
                code.extend(lddw(1, PSEUDO_MAP, 0));
                code.push(insn(0x85, 0, 0, 0, 1));
                code.push(insn(0x15, 0, 0, 1, 0));
                code.push(insn(0xbf, 9, 0, 0, 0));
            }
            8 => {
                // A byte of the stack at an index.
                code.push(insn(0xbf, 1, a, 0, 0));
                code.push(insn(0x57, 1, 0, 0, 7));
                code.push(insn(0x0f, 1, 10, 0, 0));
                code.push(match random.below(2) {
                    0 => insn(0x73, 1, b, -16, 0),
                    _ => insn(0x71, b, 1, -12, 0),
                });
            }
            9 => {
                // What nobody knows, perhaps twice.
                for _ in 0..1 + random.below(2) {
                    code.push(insn(0x85, 0, 0, 0, 7));
                    code.push(insn(0xaf, a, 0, 0, 0));
                }
            }
            10 => {
                // Bytes of the packet to the stack, as many as a value says.
                code.push(insn(0xbf, 4, a, 0, 0));
                code.push(insn(0x57, 4, 0, 0, random.pick(&[3, 7])));
                code.extend([
                    insn(0x79, 1, 10, -32, 0),
                    insn(0xb7, 2, 0, 0, 0),
                    insn(0xbf, 3, 10, 0, 0),
                    insn(0x07, 3, 0, 0, -16),
                    insn(0x85, 0, 0, 0, 189),
                    insn(0x71, b, 10, -16 + random.below(8) as i16, 0),
                ]);
            }
            11 => {
                // The packet's head or end moves; where it is then has to be asked.
                let helper = random.pick(&[44, 65]);
                code.push(insn(0xbf, 2, a, 0, 0));
                code.push(insn(0x57, 2, 0, 0, random.pick(&[0, 4, 31])));
                code.push(insn(0x07, 2, 0, 0, random.pick(&[-8, 0])));
                code.extend([insn(0x79, 1, 10, -32, 0), insn(0x85, 0, 0, 0, helper)]);
                leaving.push(code.len());
                code.push(insn(0x55, 0, 0, 0, 0));
                code.extend([
                    insn(0x79, 1, 10, -32, 0),
                    insn(0x61, 6, 1, 0, 0),
                    insn(0x61, 2, 1, 4, 0),
                    insn(0xbf, 3, 6, 0, 0),
                    insn(0x07, 3, 0, 0, 32),
                ]);
                leaving.push(code.len());
                code.push(insn(0x2d, 3, 2, 0, 0));
            }
            12 => {
                // A turn in every few is longer.
                let more = 5 + random.below(40) as i16;
                code.extend(lddw(1, PSEUDO_VALUE, 1));
                code.push(insn(0xb7, a, 0, 0, 1));
                match random.below(2) {
                    0 => code.push(insn(0xc3, 1, a, off & 12, 1)),
                    _ => code.extend([
                        insn(0x61, a, 1, off & 12, 0),
                        insn(0x07, a, 0, 0, 1),
                        insn(0x63, 1, a, off & 12, 0),
                    ]),
                }
                code.push(insn(0x57, a, 0, 0, random.pick(&[1, 3, 7])));
                code.push(insn(0x55, a, 0, more, 0));
                code.extend((0..more).map(|_| insn(0x07, b, 0, 0, 1)));
            }
            _ => {
                // Some way more for some.
                let mask = random.pick(&[1, 3, 7]);
                let more = 1 + random.below(30) as i16;
                code.push(insn(0xbf, 1, a, 0, 0));
                code.push(insn(0x57, 1, 0, 0, mask));
                let is = random.below(mask as u64 + 1) as i32;
                code.push(insn(random.pick(&[0x15u8, 0x55]), 1, 0, more, is));
                code.extend((0..more).map(|_| insn(0x07, b, 0, 0, 1)));
                if random.below(6) == 0 {
                    leaving.push(code.len());
                    code.push(insn(0x15, a, 0, 0, 9));
                }
            }
        }
    }
    let end = code.len();
    code.push(insn(0xb7, 0, 0, 0, 2));
    code.push(insn(0x95, 0, 0, 0, 0));
    for at in leaving {
        code[at].off = (end - at - 1) as i16;
    }
    Program {
        name: "random".to_string(),
        section: "xdp".to_string(),
        lines: vec![None; code.len()],
        insns: code,
    }
}
