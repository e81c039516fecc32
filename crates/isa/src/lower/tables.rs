//! Maps: where they are in DRAM, lookups, updates, deletions.
//!
//! The first map a program uses begins at `gprB_23`, the others 4 GiB apart. An array is as
//! published: the index, masked and shifted, is the offset, and no lookup fails. How the firmware
//! does hash maps is not published. Here a hash map is an array of entries of one word (1: used),
//! the key, and the value; a key is hashed word by word with a multiplication and has one place,
//! which an access reads whole as far as the key goes. Keys that fall on one another's place do not
//! find room. Results are therefore called modelled.

use super::memory::mem;
use super::stack::StackWord;
use super::{Driver, Lower, high, low, other};
use crate::ebpf::Insn;
use crate::ebpf::kinds::Kind;
use crate::nfp::{AluOp, Cond, MemOp, MulStep, Op, Operand, Shift, Target};
use crate::object::{Map, map_type_name};

const HASH: u32 = 1;
const ARRAY: u32 = 2;
/// Maps that fit beside each other.
const MAPS: usize = 64;
/// Words that one memory instruction moves.
const WORDS: u32 = 32;
/// Longest value an update writes, in words.
const LONGEST: u32 = 256;
/// What a word of a key is multiplied with: 2^32 divided by the golden ratio (Knuth, vol. 3,
/// section 6.4).
const GOLDEN: u32 = 0x9e37_79b1;

/// What helpers return.
const NOT_FOUND: i32 = -2;
const NO_ROOM: i32 = -7;
const INVALID: i32 = -22;

/// The entry of a hash map.
struct Entry {
    /// Words of the key.
    key: u32,
    /// Distance of entries, as a power of two.
    shift: u8,
}

impl Lower<'_> {
    pub(super) fn call(&mut self, insn: Insn) -> Result<(), String> {
        let helper = match (insn.src, insn.imm) {
            (0, helper @ 1..=3) => helper,
            (0, helper) => {
                return Err(format!(
                    "helper {} is not supported on the NFP",
                    crate::ebpf::helper_name(helper)
                ));
            }
            _ => return Err("kernel functions are not supported on the NFP".to_string()),
        };
        let Kind::Map(map) = self.kind(1) else {
            return Err("a lookup in a map that is not known here".to_string());
        };
        let maps = self.maps;
        let shape = maps.get(map as usize).ok_or("a map that is not in the object")?;
        if shape.max_entries == 0 || shape.value_size == 0 {
            return Err(format!("map `{}` has no entries or no values", shape.name));
        }
        let Kind::Stack(key) = self.kind(2) else {
            return Err("a lookup whose key is not on the stack".to_string());
        };
        self.writes |= helper != 1;
        if self.driver == Driver::Linux61 {
            return self.firmware(helper, key);
        }
        match shape.kind {
            Some(ARRAY) if shape.key_size == 4 && helper == 3 => {
                self.give(INVALID);
                Ok(())
            }
            Some(ARRAY) if shape.key_size == 4 => {
                self.array_entry(map, shape, key)?;
                if helper == 2 {
                    self.write_value(shape, 0)?;
                    self.give(0);
                }
                Ok(())
            }
            Some(HASH) => self.hash_access(helper, map, shape, key),
            kind => Err(format!(
                "map `{}` is of type {}: the NFP's offload has arrays and hash maps only; {}",
                shape.name,
                kind.map_or("global data".to_string(), map_type_name),
                if matches!(kind, Some(5 | 6 | 9 | 10)) {
                    "--what-if plain-maps takes it as one"
                } else {
                    "run it on --target xdp"
                }
            )),
        }
    }

    /// A call of the firmware: the key behind pointer 0, a new value behind pointer 2, the map in
    /// `gprA_0` and where to go on in `gprB_0`.
    fn firmware(&mut self, helper: i32, key: i64) -> Result<(), String> {
        if key % 4 != 0 {
            return Err("a key that is not at a whole word of the stack".to_string());
        }
        let far = key + self.depth != 0;
        if far {
            self.one(Op::CsrWrite { index: 0, src: other(low(2)) });
        }
        if helper == 2 {
            self.one(Op::CsrWrite { index: 2, src: other(low(3)) });
        }
        let target = Target::Helper(helper as u32);
        self.one(Op::Branch { cond: Cond::Always, target, defer: 2 });
        let back = self.out.len() as u32 + 2;
        self.one(Op::Alu { dst: low(0), a: Operand::None, op: AluOp::B, b: low(1) });
        self.one(Op::Immed { dst: other(low(0)), value: back, shift: 0 });
        if far {
            self.one(Op::CsrWrite { index: 0, src: Operand::A(22) });
            for _ in 0..3 {
                self.one(Op::Nop);
            }
        }
        Ok(())
    }

    /// The upper part of a map's address, into both banks.
    pub(super) fn map_base(&mut self, map: u32, dst: Operand) -> Result<(), String> {
        let place = match self.looked_up.iter().position(|known| *known == map) {
            Some(place) => place,
            None if self.looked_up.len() == MAPS => return Err(format!("more than {MAPS} maps")),
            None => {
                self.looked_up.push(map);
                self.looked_up.len() - 1
            }
        };
        if place == 0 {
            self.alu(dst, Operand::None, AluOp::B, Operand::B(23));
            return Ok(());
        }
        // 2^24 of what is counted in 256 bytes.
        self.immediate_one(Operand::A(21), (place as u32) << 24);
        self.alu(dst, Operand::A(21), AluOp::Add, Operand::B(23));
        Ok(())
    }

    /// The address of an array's entry in r0.
    fn array_entry(&mut self, map: u32, shape: &Map, key: i64) -> Result<(), String> {
        let shift = shape.value_size.next_power_of_two().trailing_zeros() as u8;
        // Below the shifted key are zeroes anyway, and a mask of ones is one instruction.
        let mask = (u64::from(shape.max_entries.next_power_of_two()) << shift) - 1;
        let (result, scratch) = (low(0), Operand::A(21));
        let word = Operand::Local { index: 0, word: 0 };
        let shift = if shift == 0 { Shift::None } else { Shift::Left(shift.min(31)) };
        let index = Op::AluShf { dst: result, a: scratch, op: AluOp::And, b: word, shift };
        let far = key + self.depth != 0;
        if far {
            self.one(Op::CsrWrite { index: 0, src: other(low(2)) });
        }
        self.map_base(map, high(0))?;
        if far {
            self.one(Op::Nop);
        }
        self.immediate_one(scratch, mask.min(u32::MAX.into()) as u32);
        self.both(index);
        if far {
            self.one(Op::CsrWrite { index: 0, src: Operand::A(22) });
            for _ in 0..3 {
                self.one(Op::Nop);
            }
        }
        Ok(())
    }

    fn hash_access(&mut self, helper: i32, map: u32, shape: &Map, key: i64) -> Result<(), String> {
        self.modelled = true;
        let words = shape.key_size.div_ceil(4);
        if words == 0 || words >= WORDS {
            return Err(format!(
                "map `{}` has keys of {} bytes; 1 to 124 fit",
                shape.name, shape.key_size
            ));
        }
        let value = (4 + 4 * words).next_multiple_of(8);
        let size = value.checked_add(shape.value_size).and_then(u32::checked_next_power_of_two);
        let shift = size
            .ok_or_else(|| format!("map `{}` has too large values", shape.name))?
            .trailing_zeros();
        let places = shape.max_entries.checked_next_power_of_two().unwrap_or(1 << 31);
        if places.trailing_zeros() + shift > 32 {
            return Err(format!("map `{}` takes more than 4 GiB", shape.name));
        }
        let entry = Entry { key: words, shift: shift as u8 };
        self.hash_place(map, shape, key, &entry, places)?;
        let (same, found) = (low(1), low(0));
        // The entry's first word must be 1, and all words of its key the same.
        self.read_words(entry.key + 1);
        self.alu(same, Operand::None, AluOp::B, Operand::Xfer(0));
        self.alu(same, same, AluOp::Xor, Operand::Imm(1));
        for word in 0..entry.key {
            let here = self.key_word(shape, key, word)?;
            self.alu(low(2), Operand::None, AluOp::B, here);
            self.alu(low(2), low(2), AluOp::Xor, Operand::Xfer(word as u8 + 1));
            self.alu(same, same, AluOp::Or, other(low(2)));
        }
        let other_key = self.inner_branch(Cond::Ne, 0);
        match helper {
            1 => {
                self.alu(found, found, AluOp::Add, Operand::Imm(value));
                let end = self.inner_branch(Cond::Always, 0);
                self.land(other_key);
                self.give(0);
                self.land(end);
            }
            2 => {
                let write = self.inner_branch(Cond::Always, 0);
                self.land(other_key);
                self.test(Operand::Xfer(0), AluOp::Or, Operand::Imm(0));
                let full = self.inner_branch(Cond::Ne, 0);
                self.land(write);
                self.one(Op::Immed { dst: Operand::Xfer(0), value: 1, shift: 0 });
                for word in 0..entry.key {
                    let here = self.key_word(shape, key, word)?;
                    let dst = Operand::Xfer(word as u8 + 1);
                    self.one(Op::Alu { dst, a: Operand::None, op: AluOp::B, b: here });
                }
                self.write_words(0, entry.key + 1);
                self.write_value(shape, value)?;
                self.give(0);
                let end = self.inner_branch(Cond::Always, 0);
                self.land(full);
                self.give(NO_ROOM);
                self.land(end);
            }
            _ => {
                self.one(Op::Immed { dst: Operand::Xfer(0), value: 0, shift: 0 });
                self.write_words(0, 1);
                self.give(0);
                let end = self.inner_branch(Cond::Always, 0);
                self.land(other_key);
                self.give(NOT_FOUND);
                self.land(end);
            }
        }
        Ok(())
    }

    /// The address of a key's entry in r0.
    fn hash_place(
        &mut self,
        map: u32,
        shape: &Map,
        key: i64,
        entry: &Entry,
        places: u32,
    ) -> Result<(), String> {
        let hash = low(0);
        for word in 0..entry.key {
            let here = self.key_word(shape, key, word)?;
            let (a, op) = if word == 0 { (Operand::None, AluOp::B) } else { (hash, AluOp::Xor) };
            self.alu(hash, a, op, here);
            let b = self.operand(GOLDEN);
            self.one(Op::Mul { a: hash, b, step: MulStep::Start });
            for n in 1..=4 {
                self.one(Op::Mul { a: hash, b, step: MulStep::Wide(n) });
            }
            self.both(Op::Mul { a: hash, b: Operand::None, step: MulStep::WideLast });
            let shift = Shift::Right(16);
            self.both(Op::AluShf { dst: hash, a: hash, op: AluOp::Xor, b: other(hash), shift });
        }
        let mask = self.operand(places - 1);
        self.alu(hash, hash, AluOp::And, mask);
        let shift = Shift::Left(entry.shift.min(31));
        self.both(Op::AluShf { dst: hash, a: Operand::None, op: AluOp::B, b: other(hash), shift });
        self.map_base(map, high(0))
    }

    /// A word of the key, what is past its end cleared.
    fn key_word(&mut self, shape: &Map, key: i64, word: u32) -> Result<Operand, String> {
        let here = aligned(self.stack_word(key + 4 * i64::from(word))?, 4)?;
        let left = shape.key_size - 4 * word;
        if left >= 4 {
            return Ok(here.operand);
        }
        let mut src = here.operand;
        let part = Operand::A(21);
        if !here.near {
            self.one(Op::Alu { dst: part, a: Operand::None, op: AluOp::B, b: src });
            src = part;
        }
        self.one(Op::LdField {
            dst: part,
            mask: (1 << left) - 1,
            src,
            shift: Shift::None,
            clear: true,
        });
        Ok(part)
    }

    /// Copies what r3 points to to the value of the entry at r0.
    fn write_value(&mut self, shape: &Map, value: u32) -> Result<(), String> {
        let words = shape.value_size.div_ceil(4);
        if words > LONGEST {
            let bytes = 4 * LONGEST;
            return Err(format!(
                "an update of map `{}`: values of more than {bytes} bytes",
                shape.name
            ));
        }
        let from = self.kind(3);
        for start in (0..words).step_by(WORDS as usize) {
            let count = (words - start).min(WORDS);
            match from {
                Kind::Stack(base) => {
                    for word in 0..count {
                        let here =
                            aligned(self.stack_word(base + 4 * i64::from(start + word))?, 4)?
                                .operand;
                        self.one(Op::Alu {
                            dst: Operand::Xfer(word as u8),
                            a: Operand::None,
                            op: AluOp::B,
                            b: here,
                        });
                    }
                }
                Kind::Packet { .. } | Kind::Value(_) => {
                    let far = matches!(from, Kind::Value(_));
                    let offset = self.small_operand(4 * start);
                    let (base, offset) = if far {
                        self.alu(low(2), low(3), AluOp::Add, offset);
                        (other(high(3)), low(2))
                    } else {
                        (low(3), offset)
                    };
                    self.move_words(MemOp::Read32, base, far, offset, count);
                    for word in 0..count as u8 {
                        let xfer = Operand::Xfer(word);
                        self.one(Op::Alu { dst: xfer, a: Operand::None, op: AluOp::B, b: xfer });
                    }
                }
                _ => return Err("an update with a value from nowhere known".to_string()),
            }
            self.write_words(value + 4 * start, count);
        }
        Ok(())
    }

    fn read_words(&mut self, count: u32) {
        self.move_words(MemOp::Read32, other(high(0)), true, low(0), count);
    }

    /// Transfer registers to the entry at r0.
    fn write_words(&mut self, at: u32, count: u32) {
        let mut offset = low(0);
        if at > 0 {
            let by = self.operand(at);
            offset = low(2);
            self.alu(offset, low(0), AluOp::Add, by);
        }
        self.move_words(MemOp::Write32, other(high(0)), true, offset, count);
    }

    fn move_words(&mut self, op: MemOp, base: Operand, far: bool, offset: Operand, count: u32) {
        if count > 8 {
            // More words than the instruction can say: it takes the count from the instruction
            // before.
            self.one(Op::Immed { dst: Operand::None, value: 0x80 | (count - 1) << 8, shift: 0 });
        }
        self.one(mem(op, base, far, offset, ((count - 1) & 7) as u8 + 1, count > 8));
    }

    /// A constant result.
    fn give(&mut self, value: i32) {
        self.immediate(low(0), value as u32);
        self.immediate(high(0), (value >> 31) as u32);
    }

    /// A branch within this eBPF instruction, to where [`Self::land`] says.
    pub(super) fn inner_branch(&mut self, cond: Cond, defer: u8) -> usize {
        self.one(Op::Branch { cond, target: Target::Exit, defer });
        self.out.len() - 1
    }

    /// A branch on a bit within this eBPF instruction.
    pub(super) fn inner_bit_branch(&mut self, src: Operand, bit: u8) -> usize {
        self.one(Op::BranchBit { src, bit, target: Target::Exit });
        self.out.len() - 1
    }

    pub(super) fn land(&mut self, branch: usize) {
        self.inner.push((branch, self.out.len() as u32));
    }
}

fn aligned(word: StackWord, bytes: u8) -> Result<StackWord, String> {
    if word.byte + bytes > 4 {
        return Err("a stack access across words; align the variable".to_string());
    }
    Ok(word)
}
