//! Random programs of what the offload takes: numbers, packet bytes, copies, stack, map look-ups.

use nicforge_isa::ebpf::Insn;
use nicforge_isa::object::{Map, PSEUDO_MAP, Program};
use nicforge_util::Random;

const ALU: u8 = 4;
const ALU64: u8 = 7;
const JMP: u8 = 5;
const JMP32: u8 = 6;
const LDDW: u8 = 0x18;
/// Loads and stores of 8, 4, 2 and 1 bytes: bits of the code, width.
const SIZES: [(u8, i16); 4] = [(0x18, 8), (0, 4), (8, 2), (0x10, 1)];
/// Registers that hold numbers. Packet pointers are in r6 and r9.
const NUMBERS: [u8; 7] = [0, 2, 3, 4, 5, 7, 8];
/// Bytes of a map's value that are read; what is added to lies behind.
const READ: i16 = 24;

pub fn maps() -> Vec<Map> {
    let map = |kind, key_size, value_size| Map {
        name: "map".to_string(),
        kind: Some(kind),
        key_size,
        value_size,
        max_entries: 16,
        data: Vec::new(),
        constant: false,
    };
    vec![map(2, 4, 2 * READ as u32), map(1, 8, 2 * READ as u32)]
}

fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn { code, dst, src, off, imm }
}

struct Make<'a>(&'a mut Random);

impl Make<'_> {
    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.0.index(list.len())]
    }

    /// Constants of all lengths and signs but the least, which the driver takes for its own
    /// negative.
    fn constant(&mut self) -> i32 {
        let value = self.0.index(1 << 32) as u32 as i32;
        let short = value >> self.pick(&[0, 8, 16, 24, 28]);
        let value = self.pick(&[value, short, short, 0, 1, -1, 0xff, 0x1234, -0x1234, 0x7fff_0000]);
        value.max(-i32::MAX)
    }

    fn within(&mut self, bytes: i16, of: i16) -> i16 {
        self.0.index((of - bytes + 1) as usize) as i16
    }

    /// A place of the stack, aligned to its size.
    fn slot(&mut self, bytes: i16) -> i16 {
        let most = self.pick(&[48, 128, 512]);
        -bytes * (1 + self.0.index((most / bytes) as usize) as i16)
    }

    fn numbers(&mut self, from: std::ops::Range<usize>) -> Vec<Insn> {
        let registers: Vec<u8> = NUMBERS[from].to_vec();
        registers
            .into_iter()
            .map(|register| {
                let (code, bytes) = self.pick(&SIZES);
                insn(0x61 | code, register, 6, self.within(bytes, 40), 0)
            })
            .collect()
    }

    fn arithmetic(&mut self) -> Vec<Insn> {
        let (d, s, imm) = (self.pick(&NUMBERS), self.pick(&NUMBERS), self.constant());
        let kind = self.pick(&[ALU, ALU64]);
        match self.0.index(8) {
            0..=2 => {
                let code = self.pick(&[0x00, 0x10, 0x40, 0x50, 0xa0, 0xb0]);
                vec![if self.0.index(2) == 0 {
                    insn(code | kind | 8, d, s, 0, 0)
                } else {
                    insn(code | kind, d, 0, 0, imm)
                }]
            }
            3 => vec![insn(0x84 | kind & 3, d, 0, 0, 0)],
            4 => vec![insn(0xdc, d, 0, 0, self.pick(&[16, 32, 64]))],
            5 => {
                let code = self.pick(&[0x60, 0x70, 0xc0]);
                let most = if kind == ALU { 31 } else { 63 };
                vec![insn(code | kind, d, 0, 0, imm & most)]
            }
            6 => {
                // By a register: anything, or what is known to be near, or far, or one number.
                let code = self.pick(&[0x60, 0x70, 0xc0]) | kind | 8;
                let before = match self.0.index(4) {
                    0 => vec![],
                    1 => vec![insn(0x57, s, 0, 0, 31)],
                    2 => vec![insn(0x57, s, 0, 0, 15), insn(0x07, s, 0, 0, 32)],
                    _ => vec![insn(0xb7, s, 0, 0, imm & if kind == ALU { 31 } else { 63 })],
                };
                [before, vec![insn(code, d, s, 0, 0)]].concat()
            }
            _ => {
                let mask = self.pick(&[0xff, 0xffff, 0xf_ffff, i32::MAX]);
                let mut list = vec![insn(0x57, d, 0, 0, mask), insn(0x57, s, 0, 0, mask)];
                list.push(match self.0.index(3) {
                    0 => insn(0x28 | kind, d, s, 0, 0),
                    1 => insn(0x20 | kind, d, 0, 0, imm & i32::MAX),
                    _ => insn(0x30 | kind, d, 0, 0, (imm & i32::MAX).max(1)),
                });
                list
            }
        }
    }

    fn packet(&mut self) -> Vec<Insn> {
        let pointer = self.pick(&[6, 6, 9]);
        match self.0.index(4) {
            0 | 1 => (0..1 + self.0.index(5))
                .map(|_| {
                    let (code, bytes) = self.pick(&SIZES);
                    let of = self.pick(&[24, 60, 160, 300]);
                    let off = self.within(bytes, of);
                    insn(0x61 | code, self.pick(&NUMBERS), pointer, off, 0)
                })
                .collect(),
            2 => {
                let ((code, bytes), imm) = (self.pick(&SIZES), self.constant());
                let off = self.within(bytes, 200);
                let source = self.pick(&NUMBERS);
                vec![if self.0.index(2) == 0 {
                    insn(0x63 | code, pointer, source, off, 0)
                } else {
                    insn(0x62 | code, pointer, 0, off, imm)
                }]
            }
            _ => self.pointer(),
        }
    }

    /// Another second pointer.
    fn pointer(&mut self) -> Vec<Insn> {
        let number = self.pick(&NUMBERS);
        let mut list = vec![insn(0xbf, 9, 6, 0, 0)];
        if self.0.index(2) == 0 {
            list.push(insn(0x57, number, 0, 0, 60));
            list.push(insn(0x0f, 9, number, 0, 0));
        }
        if self.0.index(2) == 0 {
            list.push(insn(0x07, 9, 0, 0, 2 * self.0.index(20) as i32));
        }
        list
    }

    /// Pairs of loads and stores, some of which go on.
    fn copy(&mut self) -> Vec<Insn> {
        let (code, bytes) = self.pick(&SIZES);
        let (from, to) = self.pick(&[(6, 9), (9, 6), (6, 6)]);
        let through = self.pick(&NUMBERS);
        let down = self.0.index(3) == 0;
        let (mut load, mut store) = (self.within(bytes, 160), self.within(bytes, 160));
        let mut list = Vec::new();
        let pairs = self.pick(&[4, 20]);
        for _ in 0..1 + self.0.index(pairs) {
            list.push(insn(0x61 | code, through, from, load, 0));
            list.push(insn(0x63 | code, to, through, store, 0));
            let by = if down { -bytes } else { bytes };
            (load, store) = (load + by, store + if self.0.index(12) == 0 { 2 * by } else { by });
            if load.min(store) < 0 {
                break;
            }
        }
        list
    }

    fn stack(&mut self) -> Vec<Insn> {
        let (code, bytes) = self.pick(&SIZES);
        let (slot, register) = (self.slot(bytes), self.pick(&NUMBERS));
        vec![if self.0.index(2) == 0 {
            insn(0x63 | code, 10, register, slot, 0)
        } else {
            insn(0x61 | code, register, 10, slot, 0)
        }]
    }

    /// A call for a map, and what is done with the value.
    fn map(&mut self) -> Vec<Insn> {
        let map = self.0.index(2) as i32;
        let key = self.slot(8);
        let helper = self.pick(&[1, 1, 1, 2, 3]);
        let mut list = vec![insn(0x7b, 10, 7, key, 0), insn(0xbf, 2, 10, 0, 0)];
        list.push(insn(0x07, 2, 0, 0, key.into()));
        if helper == 2 {
            list.push(insn(0xbf, 3, 10, 0, 0));
            list.push(insn(0x07, 3, 0, 0, self.slot(8).min(-2 * READ).into()));
            list.push(insn(0xb7, 4, 0, 0, 0));
        }
        list.extend([insn(LDDW, 1, PSEUDO_MAP, 0, map), insn(0, 0, 0, 0, 0)]);
        list.push(insn(0x85, 0, 0, 0, helper));
        if helper == 1 {
            let mut use_it = Vec::new();
            for _ in 0..1 + self.0.index(3) {
                let (code, bytes) = self.pick(&SIZES);
                use_it.push(if self.0.index(2) == 0 {
                    insn(0x61 | code, self.pick(&[2, 3]), 0, self.within(bytes, READ), 0)
                } else {
                    let wide = self.pick(&[0x18, 0]);
                    insn(0xc3 | wide, 0, self.pick(&[7, 8]), READ + 8 * self.0.index(3) as i16, 0)
                });
            }
            let number = self.pick(&[7, 8]);
            let mask = insn(0x57, number, 0, 0, self.pick(&[1, 0xff, 0xffff, 0x1_ffff]));
            if self.0.index(2) == 0 {
                list.push(mask);
            }
            list.push(insn(0x15, 0, 0, use_it.len() as i16, 0));
            list.extend(use_it);
        }
        list.push(insn(0xb7, 0, 0, 0, 1));
        list.extend(self.numbers(1..5));
        list
    }

    fn jump(&mut self, over: i16) -> Insn {
        let op = self.pick(&[0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0xa0, 0xb0, 0xc0, 0xd0]);
        let (d, s) = (self.pick(&NUMBERS), self.pick(&NUMBERS));
        let (kind, imm) = (self.pick(&[JMP, JMP32]), self.constant());
        if self.0.index(2) == 0 {
            insn(op | kind | 8, d, s, over, 0)
        } else {
            insn(op | kind, d, 0, over, imm)
        }
    }
}

pub fn program(random: &mut Random) -> Program {
    let mut make = Make(random);
    let mut insns = vec![insn(0x61, 6, 1, 0, 0), insn(0x61, 9, 1, 4, 0), insn(0xbf, 9, 6, 0, 0)];
    insns.extend(make.numbers(0..NUMBERS.len()));
    if make.0.index(2) == 0 {
        let (d, value) = (make.pick(&NUMBERS), make.constant());
        let upper = make.pick(&[0, value, 5]);
        insns.extend([insn(LDDW, d, 0, 0, value), insn(0, 0, 0, 0, upper)]);
    }
    for _ in 0..3 + make.0.index(14) {
        let group = match make.0.index(10) {
            0..=3 => make.arithmetic(),
            4 | 5 => make.packet(),
            6 => make.copy(),
            7 | 8 => make.stack(),
            _ => make.map(),
        };
        if make.0.index(3) == 0 {
            let jump = make.jump(group.len() as i16);
            insns.push(jump);
        }
        insns.extend(group);
    }
    insns.extend([7, 8, 3, 4].map(|register| insn(0xaf, 0, register, 0, 0)));
    insns.push(insn(0x95, 0, 0, 0, 0));
    let lines = vec![None; insns.len()];
    Program { name: "random".to_string(), section: "xdp".to_string(), insns, lines }
}
