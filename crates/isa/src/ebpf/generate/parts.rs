//! Parts of random programs.

use nicforge_util::Random;

use super::{ALL, ARRAY, BYTES, HASH, LRU, PER_CPU, PSEUDO_CALL, VARIABLES, insn, lddw, size};
use crate::ebpf::Insn;
use crate::object::{PSEUDO_MAP, PSEUDO_VALUE, Program};

/// A program as it grows. r6 is the packet's address, of which 32 bytes are there; r7 and r8 are
/// values; r9 is the address of [`BYTES`] of a map; the context is on the stack.
pub struct Body {
    pub code: Vec<Insn>,
    /// Jumps to the end.
    pub leaving: Vec<usize>,
}

impl Body {
    /// The beginning of each program; these slots of the stack begin as zero.
    pub fn begin(zero: &[i16]) -> Body {
        // Where a program leaves at once, too, values are some.
        let mut code = vec![insn(0xb7, 7, 0, 0, 0), insn(0xb7, 8, 0, 0, 0)];
        code.extend(zero.iter().map(|slot| insn(0x7a, 10, 0, *slot, 0)));
        code.extend([
            insn(0x61, 6, 1, 0, 0), // r6 = data
            insn(0x61, 2, 1, 4, 0), // r2 = data_end
            insn(0xbf, 3, 6, 0, 0), // r3 = r6 + 32
            insn(0x07, 3, 0, 0, 32),
            insn(0x2d, 3, 2, 0, 0), // past the end: leave
        ]);
        let leaving = vec![code.len() - 1];
        code.extend([insn(0xb7, 7, 0, 0, 5), insn(0x71, 8, 6, 3, 0), insn(0x7b, 10, 1, -32, 0)]);
        code.extend(lddw(9, PSEUDO_VALUE, VARIABLES));
        Body { code, leaving }
    }

    /// Ends with what makes r0, for every way.
    pub fn end(mut self, ending: Vec<Insn>) -> Program {
        let end = self.code.len();
        self.code.extend(ending);
        self.code.push(insn(0x95, 0, 0, 0, 0));
        for at in self.leaving {
            self.code[at].off = (end - at - 1) as i16;
        }
        Program {
            name: "random".to_string(),
            section: "xdp".to_string(),
            lines: vec![None; self.code.len()],
            insns: self.code,
        }
    }

    /// Loads the packet's address again and leaves if it has not 32 bytes.
    fn packet_again(&mut self) {
        self.code.extend([
            insn(0x79, 1, 10, -32, 0),
            insn(0x61, 6, 1, 0, 0),
            insn(0x61, 2, 1, 4, 0),
            insn(0xbf, 3, 6, 0, 0),
            insn(0x07, 3, 0, 0, 32),
        ]);
        self.leaving.push(self.code.len());
        self.code.push(insn(0x2d, 3, 2, 0, 0));
    }

    /// Some part, one of the first `kinds`.
    pub fn part(&mut self, kinds: u64, random: &mut Random) {
        let (a, b) = if random.below(2) == 0 { (7, 8) } else { (8, 7) };
        let (width, bytes) = size(random);
        let off = (random.below(BYTES / bytes) * bytes) as i16;
        let code = &mut self.code;
        match random.below(kinds) {
            9 | 10 if kinds == ALL => {}
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
                code.extend(lddw(1, PSEUDO_MAP, ARRAY));
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
                if kinds == ALL {
                    code.push(insn(0xb7, 2, 0, 0, random.pick(&[-40, -8, -4, 4, 14, 20])));
                } else {
                    code.push(insn(0xbf, 2, a, 0, 0));
                    code.push(insn(0x57, 2, 0, 0, random.pick(&[0, 4, 31])));
                    code.push(insn(0x07, 2, 0, 0, random.pick(&[-8, 0])));
                }
                code.extend([insn(0x79, 1, 10, -32, 0), insn(0x85, 0, 0, 0, helper)]);
                self.leaving.push(code.len());
                code.push(insn(0x55, 0, 0, 0, 0));
                self.packet_again();
            }
            12 => {
                // A turn in every few is longer.
                let more = 5 + random.below(40) as i16;
                code.extend(lddw(1, PSEUDO_VALUE, VARIABLES));
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
            13 => {
                // Some way more for some.
                let mask = random.pick(&[1, 3, 7]);
                let more = 1 + random.below(30) as i16;
                code.push(insn(0xbf, 1, a, 0, 0));
                code.push(insn(0x57, 1, 0, 0, mask));
                let is = random.below(mask as u64 + 1) as i32;
                code.push(insn(random.pick(&[0x15u8, 0x55]), 1, 0, more, is));
                code.extend((0..more).map(|_| insn(0x07, b, 0, 0, 1)));
                if random.below(6) == 0 {
                    self.leaving.push(code.len());
                    code.push(insn(0x15, a, 0, 0, 9));
                }
            }
            kind => self.more(kind, (a, b), (width, bytes), random),
        }
    }

    /// Parts that only [`any_program`] has.
    pub fn more(
        &mut self,
        kind: u64,
        (a, b): (u8, u8),
        (width, bytes): (u8, u64),
        random: &mut Random,
    ) {
        let code = &mut self.code;
        // Arithmetic of 64 or 32 bits.
        let class = random.pick(&[0x07u8, 0x04]);
        // An index below eight as a key.
        let key = |code: &mut Vec<Insn>, map: i32| {
            code.extend([
                insn(0xbf, 1, a, 0, 0),
                insn(0x57, 1, 0, 0, 7),
                insn(0x63, 10, 1, -56, 0),
                insn(0xbf, 2, 10, 0, 0),
                insn(0x07, 2, 0, 0, -56),
            ]);
            code.extend(lddw(1, PSEUDO_MAP, map));
        };
        let hash = random.pick(&[HASH, LRU]);
        match kind {
            14..17 => {
                let op = random.pick(&[0x00u8, 0x10, 0x20, 0x30, 0x40, 0x50, 0x90, 0xa0, 0xb0]);
                match random.below(2) {
                    0 => code.push(insn(op | class | 0x08, a, b, 0, 0)),
                    _ => code.push(insn(op | class, a, 0, 0, constant(op, random))),
                }
            }
            17 => {
                // Shifts, by a number or by as much as a value says.
                let op = random.pick(&[0x60u8, 0x70, 0xc0]);
                let bits = if class == 0x07 { 64 } else { 32 };
                match random.below(2) {
                    0 => code.push(insn(op | class, a, 0, 0, random.below(bits) as i32)),
                    _ => code.extend([
                        insn(0xbf, 1, b, 0, 0),
                        insn(0x57, 1, 0, 0, bits as i32 - 1),
                        insn(op | class | 0x08, a, 1, 0, 0),
                    ]),
                }
            }
            18 => match random.below(4) {
                // Less than zero; bytes in network order, in the host's, or turned around.
                0 => code.push(insn(0x80 | class, a, 0, 0, 0)),
                which => {
                    let op = [0, 0xdc, 0xd4, 0xd7][which as usize];
                    code.push(insn(op, a, 0, 0, random.pick(&[16, 32, 64])));
                }
            },
            19 => match random.below(3) {
                // Signed: division, remainder, moves of few bits.
                0 => code.push(insn(0x3f - 0x07 + class, a, b, 1, 0)),
                1 => code.push(insn(0x9f - 0x07 + class, a, b, 1, 0)),
                _ => code.push(insn(0xbf - 0x07 + class, a, b, random.pick(&[8, 16]), 0)),
            },
            20 | 21 => {
                let off = random.below(33 - bytes) as i16;
                match random.below(4) {
                    0 => code.push(insn(0x62 | width, 6, 0, off, random.next() as i32)),
                    1 => code.push(insn(0x63 | width, 6, a, off, 0)),
                    // With its sign, but not eight bytes.
                    2 if width != 0x18 => code.push(insn(0x81 | width, a, 6, off, 0)),
                    _ => code.push(insn(0x61 | width, a, 6, off, 0)),
                }
            }
            22 => {
                // The packet at a place that a value says, if that is there.
                let place = random.pick(&[7, 31, 60]);
                code.extend([
                    insn(0xbf, 4, a, 0, 0),
                    insn(0x57, 4, 0, 0, place),
                    insn(0x0f, 4, 6, 0, 0),
                    insn(0x79, 1, 10, -32, 0),
                    insn(0x61, 2, 1, 4, 0),
                    insn(0xbf, 3, 4, 0, 0),
                    insn(0x07, 3, 0, 0, bytes as i32),
                    insn(0x2d, 3, 2, 1, 0),
                ]);
                code.push(match random.below(2) {
                    0 => insn(0x63 | width, 4, b, 0, 0),
                    _ => insn(0x61 | width, b, 4, 0, 0),
                });
            }
            23 => {
                // An entry of the hash map; where there is none, a new one, which may find no room.
                key(code, hash);
                code.extend([insn(0x85, 0, 0, 0, 1), insn(0x15, 0, 0, 2, 0)]);
                code.extend([insn(0xbf, 9, 0, 0, 0), insn(0x05, 0, 0, 0, 0)]);
                let jump = code.len() - 1;
                key(code, hash);
                code.extend([
                    insn(0xbf, 3, 10, 0, 0),
                    insn(0x07, 3, 0, 0, -16),
                    insn(0xb7, 4, 0, 0, random.below(3) as i32),
                    insn(0x85, 0, 0, 0, 2),
                    insn(0xaf, b, 0, 0, 0),
                ]);
                code[jump].off = (code.len() - jump - 1) as i16;
            }
            24 => {
                // Written or gone, and whether it was there.
                key(code, hash);
                match random.below(2) {
                    0 => code.push(insn(0x85, 0, 0, 0, 3)),
                    _ => code.extend([
                        insn(0xbf, 3, 10, 0, 0),
                        insn(0x07, 3, 0, 0, -16),
                        insn(0xb7, 4, 0, 0, random.below(3) as i32),
                        insn(0x85, 0, 0, 0, 2),
                    ]),
                }
                code.push(insn(0xaf, b, 0, 0, 0));
            }
            25 => {
                // A loop of a known number of turns.
                let body = [
                    insn(0x27, b, 0, 0, 3),
                    insn(0x0f, b, a, 0, 0),
                    insn(0x77, a, 0, 0, 1),
                    insn(0x1f, a, 1, 0, 0),
                ];
                let body = &body[random.index(4)..];
                code.push(insn(0xb7, 1, 0, 0, 1 + random.below(9) as i32));
                code.extend(body);
                code.push(insn(0x07, 1, 0, 0, -1));
                code.push(insn(0x55, 1, 0, -2 - body.len() as i16, 0));
            }
            26 => {
                // A loop of as many turns as a value says.
                code.extend([
                    insn(0xbf, 1, a, 0, 0),
                    insn(0x57, 1, 0, 0, random.pick(&[1, 3, 7])),
                    insn(0x15, 1, 0, 4, 0),
                    insn(0x27, b, 0, 0, 5),
                    insn(0x07, b, 0, 0, 1),
                    insn(0x07, 1, 0, 0, -1),
                    insn(0x05, 0, 0, -5, 0),
                ]);
            }
            27 => {
                // The checksum of words of the stack, or how two differ.
                let size = |random: &mut Random| random.pick(&[0, 4, 8, 16]);
                let (from, to) = (size(random), size(random));
                code.extend([
                    insn(0xbf, 1, 10, 0, 0),
                    insn(0x07, 1, 0, 0, -16),
                    insn(0xb7, 2, 0, 0, from),
                    insn(0xbf, 3, 6, 0, 0),
                    insn(0xb7, 4, 0, 0, to),
                    insn(0xbf, 5, a, 0, 0),
                    insn(0x85, 0, 0, 0, 28),
                    insn(0xbf, b, 0, 0, 0),
                ]);
            }
            28 | 29 => {
                // To the stack in one width and from it in another.
                let (other, size) = size(random);
                let to = -48 + (random.below(8 / bytes) * bytes) as i16;
                let from = -48 + (random.below(8 / size) * size) as i16;
                code.extend([insn(0x63 | width, 10, a, to, 0), insn(0x61 | other, b, 10, from, 0)]);
            }
            30 => {
                // Bytes of the packet to the stack or back, by calls.
                let size = random.pick(&[1, 3, 4, 8, 13]);
                let helper = random.pick(&[189, 190]);
                code.extend([
                    insn(0x79, 1, 10, -32, 0),
                    insn(0xb7, 2, 0, 0, random.below(33 - size) as i32),
                    insn(0xbf, 3, 10, 0, 0),
                    insn(0x07, 3, 0, 0, -16),
                    insn(0xb7, 4, 0, 0, size as i32),
                    insn(0x85, 0, 0, 0, helper),
                    insn(0xaf, b, 0, 0, 0),
                ]);
                self.packet_again();
            }
            32 | 33 => {
                code.extend([
                    insn(0xbf, 1, a, 0, 0),
                    insn(0xbf, 2, b, 0, 0),
                    insn(0xbf, 3, 10, 0, 0),
                    insn(0x07, 3, 0, 0, -16),
                    insn(0x85, 0, PSEUDO_CALL, 0, (kind - 32) as i32),
                    insn(0xbf, b, 0, 0, 0),
                ]);
            }
            34 => {
                // A pointer to the stack and back, with another one meanwhile.
                code.push(insn(0x7b, 10, 9, -64, 0));
                code.extend(lddw(9, PSEUDO_VALUE, VARIABLES));
                code.extend([insn(0x63 | width, 9, a, 0, 0), insn(0x79, 9, 10, -64, 0)]);
            }
            35 | 36 => {
                // A key, and perhaps a value, that lie in the packet or in a map.
                let off = random.below(29) as i32;
                code.extend([insn(0xbf, 2, 6, 0, 0), insn(0x07, 2, 0, 0, off)]);
                let load = insn(0x61 | width, b, 0, 8, 0);
                if kind == 35 {
                    code.extend(lddw(1, PSEUDO_MAP, HASH));
                    code.extend([insn(0x85, 0, 0, 0, 1), insn(0x15, 0, 0, 1, 0), load]);
                } else {
                    code.push(insn(0xbf, 3, 9, 0, 0));
                    code.extend(lddw(1, PSEUDO_MAP, HASH));
                    code.push(insn(0xb7, 4, 0, 0, random.below(3) as i32));
                    code.extend([insn(0x85, 0, 0, 0, 2), insn(0xaf, b, 0, 0, 0)]);
                }
            }
            37 => {
                // Where it came by: interface and queue.
                let off = random.pick(&[12, 16]);
                code.extend([insn(0x79, 1, 10, -32, 0), insn(0x61, a, 1, off, 0)]);
            }
            38 => {
                // A header of as many words as a value says, and what is behind it.
                code.extend([
                    insn(0xbf, 4, a, 0, 0),
                    insn(0x57, 4, 0, 0, 15),
                    insn(0x67, 4, 0, 0, 2),
                    insn(0x0f, 4, 6, 0, 0),
                    insn(0x79, 1, 10, -32, 0),
                    insn(0x61, 2, 1, 4, 0),
                    insn(0xbf, 3, 4, 0, 0),
                    insn(0x07, 3, 0, 0, 20),
                    insn(0x2d, 3, 2, 2, 0),
                    insn(0x61, b, 4, 12, 0),
                    insn(0x6b, 4, b, 10, 0),
                ]);
            }
            39 => {
                key(code, PER_CPU);
                code.push(insn(0x85, 0, 0, 0, 1));
                code.extend([insn(0x15, 0, 0, 1, 0), insn(0xbf, 9, 0, 0, 0)]);
            }
            40 => {
                // Bytes of the packet to the stack in a loop.
                code.extend([
                    insn(0xb7, 1, 0, 0, 0),
                    insn(0xbf, 2, 6, 0, 0),
                    insn(0x0f, 2, 1, 0, 0),
                    insn(0x71, 3, 2, random.below(17) as i16, 0),
                    insn(0xbf, 2, 10, 0, 0),
                    insn(0x0f, 2, 1, 0, 0),
                    insn(0x73, 2, 3, -16, 0),
                    insn(0x07, 1, 0, 0, 1),
                    insn(0x55, 1, 0, -8, 2 + random.below(15) as i32),
                ]);
            }
            41 => {
                // The stack in one width and in another, where a number of bytes is both.
                let (other, size) = size(random);
                let at = -16 + (random.below(16 / bytes) * bytes) as i16;
                let from = -16 + (random.below(16 / size) * size) as i16;
                code.extend([insn(0x63 | width, 10, a, at, 0), insn(0x61 | other, b, 10, from, 0)]);
            }
            42 => {
                // An element of the array by a place that varies, for a later part.
                code.extend([
                    insn(0xbf, 1, a, 0, 0),
                    insn(0x57, 1, 0, 0, random.pick(&[3, 6, 12])),
                    insn(0x0f, 1, 9, 0, 0),
                ]);
                code.push(match random.below(2) {
                    0 => insn(0x73, 1, b, 0, 0),
                    _ => insn(0x71, b, 1, random.below(4) as i16, 0),
                });
            }
            43 => {
                // A pointer into the packet or null, by a comparison that comes twice.
                let far = random.pick(&[20, 40, 60]);
                code.extend([
                    insn(0x79, 1, 10, -32, 0),
                    insn(0x61, 2, 1, 4, 0),
                    insn(0xbf, 4, 6, 0, 0),
                ]);
                if random.below(2) == 0 {
                    code.extend([
                        insn(0xbf, 1, a, 0, 0),
                        insn(0x57, 1, 0, 0, 12),
                        insn(0x0f, 4, 1, 0, 0),
                    ]);
                }
                code.extend([
                    insn(0xbf, 5, 4, 0, 0),
                    insn(0x07, 5, 0, 0, far),
                    insn(0xb7, 3, 0, 0, 0),
                    insn(0x2d, 5, 2, 1, 0),
                    insn(0xbf, 3, 4, 0, 0),
                    insn(0x2d, 5, 2, 1, 0),
                    insn(0x61 | width, b, 3, far as i16 - 8, 0),
                ]);
            }
            44 | 45 => {
                // A byte of the stack at what arithmetic gives that may wrap, where that is small.
                code.push(insn(0xbf, 1, a, 0, 0));
                code.push(insn(0x57, 1, 0, 0, random.pick(&[7, 31, 255])));
                for _ in 0..1 + random.below(3) {
                    code.extend(wrapping(1, random));
                }
                let read = insn(0x71, b, 1, random.pick(&[-16, -12]), 0);
                let index = [insn(0x0f, 1, 10, 0, 0), read];
                let past = index.len() as i16;
                match random.below(3) {
                    // With signs, the other way round too: 0 s> r1, and r1 s> 3.
                    0 => code.extend([
                        insn(0xb7, 2, 0, 0, random.pick(&[0, 1])),
                        insn(0x6d, 2, 1, past + 1, 0),
                        insn(0x65, 1, 0, past, 3),
                    ]),
                    1 => code.extend([insn(0xc5, 1, 0, past + 1, 0), insn(0x65, 1, 0, past, 3)]),
                    _ => code.push(insn(0x25, 1, 0, past, 3)),
                }
                code.extend(index);
            }
            46 | 47 => {
                // A byte of the stack at a number, of which a comparison of another one that was
                // computed from it says something.
                code.push(insn(0xbf, 1, a, 0, 0));
                code.push(insn(0x57, 1, 0, 0, 7));
                code.push(insn(0xbf, 2, 1, 0, 0));
                for _ in 0..1 + random.below(3) {
                    code.extend(wrapping(2, random));
                }
                let op =
                    random.pick(&[0x10u8, 0x20, 0x30, 0x50, 0x60, 0x70, 0xa0, 0xb0, 0xc0, 0xd0]);
                let class = random.pick(&[0x05u8, 0x06]);
                let index = [insn(0x0f, 1, 10, 0, 0), insn(0x71, b, 1, -16, 0)];
                let to = random.pick(&[0, 1, 3, 4, 16, -3]);
                code.push(insn(op | class, 2, 0, index.len() as i16, to));
                code.extend(index);
            }
            _ => {
                // Some way more for some, by any comparison.
                let op = random
                    .pick(&[0x10u8, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0xa0, 0xb0, 0xc0, 0xd0]);
                let class = random.pick(&[0x05u8, 0x06]);
                let more = 1 + random.below(4) as i16;
                match random.below(2) {
                    0 => code.push(insn(op | class | 0x08, a, b, more, 0)),
                    _ => code.push(insn(op | class, a, 0, more, constant(op, random))),
                }
                code.extend((0..more).map(|at| insn(0x07, b, 0, 0, 1 << at)));
            }
        }
    }
}

/// Arithmetic that may wrap in 32 bits, and casts as compilers write them.
fn wrapping(register: u8, random: &mut Random) -> Vec<Insn> {
    let class = random.pick(&[0x07u8, 0x04, 0x04]);
    let one = |op: u8, by: i32| vec![insn(op | class, register, 0, 0, by)];
    match random.below(6) {
        0 => one(0x20, random.pick(&[3, 4, 12, 0x2000_0003, 0x4000_0004])),
        1 => one(0x00, random.pick(&[1, -1, 4, -8, 0x7fff_fff0])),
        2 => one(0x60, random.pick(&[1, 2, 28, 30])),
        3 => one(0x80, 0),
        4 => one(0x50, random.pick(&[6, 12, 0xff, 0xffff])),
        _ => {
            let (by, right) = (random.pick(&[32, 48, 56]), random.pick(&[0x77u8, 0xc7]));
            vec![insn(0x67, register, 0, 0, by), insn(right, register, 0, 0, by)]
        }
    }
}

/// A constant of an instruction: small, a bound of some width, or any. None divides by zero.
fn constant(op: u8, random: &mut Random) -> i32 {
    let any = random.next() as i32;
    let one = random.pick(&[1, 2, -1, 7, 0x7f, 0xff, 0x8000, 0xffff, i32::MAX, i32::MIN, any]);
    if one == 0 && matches!(op, 0x30 | 0x90) { 1 } else { one }
}
