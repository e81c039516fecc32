//! Random eBPF programs that the kernel's verifier takes: every register keeps its kind, so that
//! any sequence of parts is a program.

mod parts;
mod source;

use nicforge_util::Random;

use super::{Insn, LDDW};
use crate::object::{Map, PSEUDO_MAP, PSEUDO_VALUE, Program};

use parts::Body;
pub use source::source;

/// Source register of a call of one of the program's own functions.
pub const PSEUDO_CALL: u8 = 1;

/// Entries of the array and of the hash map.
pub const ENTRIES: u64 = 4;
/// Bytes of their values, and of the variables.
pub const BYTES: u64 = 16;

/// Numbers of maps: an array, variables; what only [`any_program`] has.
const ARRAY: i32 = 0;
const VARIABLES: i32 = 1;
const HASH: i32 = 2;
const RING: i32 = 3;
const PER_CPU: i32 = 4;
const LRU: i32 = 5;

/// Kinds of parts that [`program`] has, and that [`any_program`] has.
const FEW: u64 = 14;
const ALL: u64 = 48;

/// An instruction of its fields.
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
    vec![insn(LDDW, dst, source, 0, map), insn(0, 0, 0, 0, 0)]
}

/// A program over [`maps`], of parts that proofs know; it passes every packet.
pub fn program(random: &mut Random) -> Program {
    let mut body = Body::begin(&[-16, -8]);
    for _ in 0..6 + random.below(10) {
        body.part(FEW, random);
    }
    body.end(vec![insn(0xb7, 0, 0, 0, 2)])
}

/// Functions of a program.
const FUNCTIONS: u64 = 2;

/// A program and the functions that it calls: a call with [`PSEUDO_CALL`] has their number as its
/// constant.
#[derive(Clone, Debug)]
pub struct Any {
    pub program: Program,
    pub functions: Vec<Vec<Insn>>,
}

/// A program over an array, variables, a hash map, a ring buffer, an array per CPU and an LRU hash
/// map with room for all keys, in this order. The variables hold its values at the end; one of them
/// decides its verdict. Nothing depends on time or random numbers, and sizes are constant.
pub fn any_program(random: &mut Random) -> Any {
    let mut body = Body::begin(&[-16, -8, -48, -56]);
    for _ in 0..4 + random.below(16) {
        body.part(ALL, random);
    }
    let mut ending = seen(random);
    let verdict = ending.split_off(ending.len() - 2);
    ending.extend(match random.below(4) {
        0 => redirect(random),
        1 => tell(random, RING),
        _ => Vec::new(),
    });
    ending.extend(verdict);
    let functions = (0..FUNCTIONS).map(|_| function(random)).collect();
    Any { program: body.end(ending), functions }
}

/// A function of two values, and of 16 bytes of its caller's stack.
fn function(random: &mut Random) -> Vec<Insn> {
    let mut body = Body { code: vec![insn(0xbf, 0, 1, 0, 0)], leaving: Vec::new() };
    for _ in 0..1 + random.below(6) {
        let (a, b) = if random.below(2) == 0 { (0, 2) } else { (2, 0) };
        let (width, bytes) = size(random);
        let off = (random.below(16 / bytes) * bytes) as i16;
        match random.below(3) {
            0 => body.code.push(match random.below(2) {
                0 => insn(0x61 | width, a, 3, off, 0),
                _ => insn(0x63 | width, 3, a, off, 0),
            }),
            _ => {
                let kind = random.pick(&[14, 17, 18, 19, 25, 26, 31]);
                body.more(kind, (a, b), (width, bytes), random);
            }
        }
    }
    body.end(Vec::new()).insns
}

/// Bits of an instruction for a width, and its bytes.
fn size(random: &mut Random) -> (u8, u64) {
    let width = random.pick(&[0u8, 0x08, 0x10, 0x18]);
    (width, [4, 2, 1, 8][usize::from(width >> 3)])
}

/// Makes values seen: variables hold them, and the verdict is one.
pub fn seen(random: &mut Random) -> Vec<Insn> {
    let mut code = lddw(1, PSEUDO_VALUE, VARIABLES);
    code.extend([insn(0x7b, 1, 7, 0, 0), insn(0x7b, 1, 8, 8, 0)]);
    code.extend([insn(0xbf, 0, 7, 0, 0), insn(0x57, 0, 0, 0, random.pick(&[3, 4, 7]))]);
    code
}

/// A redirect to the interface that a value says.
pub fn redirect(random: &mut Random) -> Vec<Insn> {
    vec![
        insn(0xbf, 1, 8, 0, 0),
        insn(0x57, 1, 0, 0, random.pick(&[1, 3])),
        insn(0xb7, 2, 0, 0, 0),
        insn(0x85, 0, 0, 0, 23),
    ]
}

/// Bytes of the stack as a message by a ring buffer.
pub fn tell(random: &mut Random, ring: i32) -> Vec<Insn> {
    let mut code = lddw(1, PSEUDO_MAP, ring);
    code.extend([
        insn(0xbf, 2, 10, 0, 0),
        insn(0x07, 2, 0, 0, -16),
        insn(0xb7, 3, 0, 0, random.pick(&[4, 12, 16])),
        insn(0xb7, 4, 0, 0, 0),
        insn(0x85, 0, 0, 0, 130),
    ]);
    code
}
