//! What every register holds before every instruction: a forward analysis with joins.
//!
//! Pointers carry their region and, where all ways agree, a constant offset; numbers carry an
//! unsigned interval, which comparisons with constants narrow. Loops end because an interval that keeps growing becomes everything. The
//! kernel's verifier knows more (it splits by path), so a `Mixed` here is no proof that a program
//! is wrong, only that one instruction serves several kinds of memory.

use super::insn::{Insn, LDDW, class, width};
use crate::object::{PSEUDO_MAP, PSEUDO_VALUE};

/// Kinds of contents of a register or a spilled double word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Never written.
    Nothing,
    /// A number in an interval.
    Number(u64, u64),
    Context(i64),
    /// Into the packet: which unknown part is added to its start, and the constant part.
    Packet {
        id: u32,
        offset: i64,
    },
    PacketEnd,
    /// Distance from the frame's top.
    Stack(i64),
    /// A map.
    Map(u32),
    /// Into a value of a map, or of one of several ([`SOME_MAP`]); perhaps null.
    Value(u32),
    /// Different things on different ways.
    Mixed,
}

/// A map that depends on the way.
pub const SOME_MAP: u32 = u32::MAX;

const ANY: Kind = Kind::Number(0, u64::MAX);

/// Registers, and double words of the stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub regs: [Kind; 11],
    spilled: Vec<(i64, Kind)>,
}

/// States before every instruction; `None` where control never comes.
///
/// Helper calls give numbers, but `bpf_map_lookup_elem` a pointer into its map. Jumps out of the
/// program are ignored.
pub fn kinds(insns: &[Insn]) -> Vec<Option<State>> {
    let mut states: Vec<Option<State>> = vec![None; insns.len()];
    let mut visits = vec![0u32; insns.len()];
    let targets = super::insn::targets(insns);
    let mut regs = [Kind::Nothing; 11];
    regs[1] = Kind::Context(0);
    regs[10] = Kind::Stack(0);
    let mut queue = vec![(0usize, State { regs, spilled: Vec::new() })];
    while let Some((at, incoming)) = queue.pop() {
        let Some(slot) = states.get_mut(at) else { continue };
        let merged = match slot {
            None => incoming,
            // Only one way leads here: what comes along it now replaces what came before.
            Some(old) if !targets[at] && at > 0 => {
                if incoming == *old {
                    continue;
                }
                incoming
            }
            Some(old) => {
                let wide = visits[at] > 12;
                let merged = join(old, &incoming, at as u32, wide);
                if merged == *old {
                    continue;
                }
                merged
            }
        };
        visits[at] += 1;
        *slot = Some(merged.clone());
        let insn = insns[at];
        let mut next = merged;
        step(insns, at, &mut next);
        let jump = |by: i64| usize::try_from(at as i64 + 1 + by).unwrap_or(usize::MAX);
        match insn.code {
            0x95 => {}
            0x05 => queue.push((jump(insn.off.into()), next)),
            0x06 => queue.push((jump(insn.imm.into()), next)),
            LDDW => queue.push((at + 2, next)),
            0x85 => queue.push((at + 1, next)),
            code if matches!(code & 7, class::JMP | class::JMP32) => {
                let way = |taken| {
                    let mut state = next.clone();
                    narrow(insn, taken, &mut state);
                    state
                };
                queue.push((jump(insn.off.into()), way(true)));
                queue.push((at + 1, way(false)));
            }
            _ => queue.push((at + 1, next)),
        }
    }
    states
}

/// The part of the register's interval that an unsigned comparison with a constant leaves on one
/// way.
fn narrow(insn: Insn, taken: bool, state: &mut State) {
    let register = usize::from(insn.dst).min(10);
    let Kind::Number(low, high) = state.regs[register] else { return };
    let narrow = insn.code & 7 == class::JMP32;
    if insn.code & super::insn::SOURCE_REGISTER != 0 || narrow && high > u64::from(u32::MAX) {
        return;
    }
    let with = if narrow { u64::from(insn.imm as u32) } else { insn.imm as i64 as u64 };
    let above = (with.checked_add(1), Some(u64::MAX));
    let (from, below) = ((Some(with), Some(u64::MAX)), (Some(0), with.checked_sub(1)));
    let (least, most) = match (insn.code & 0xf0, taken) {
        (0x10, true) | (0x50, false) => (Some(with), Some(with)),
        (0x20, true) | (0xb0, false) => above,
        (0x20, false) | (0xb0, true) => (Some(0), Some(with)),
        (0x30, true) | (0xa0, false) => from,
        (0x30, false) | (0xa0, true) => below,
        _ => return,
    };
    if let (Some(least), Some(most)) = (least, most)
        && low.max(least) <= high.min(most)
    {
        state.regs[register] = Kind::Number(low.max(least), high.min(most));
    }
}

fn join(a: &State, b: &State, at: u32, wide: bool) -> State {
    let find =
        |offset: i64| b.spilled.iter().find(|(other, _)| *other == offset).map(|(_, kind)| *kind);
    let spilled = a.spilled.iter().filter_map(|(at, kind)| Some((*kind, find(*at)?)));
    let pairs: Vec<(Kind, Kind)> =
        a.regs.iter().copied().zip(b.regs.iter().copied()).chain(spilled).collect();
    // What is the same pointer on each way is the same behind the meeting.
    let name = |pair: &(Kind, Kind)| {
        let first = pairs.iter().position(|other| other == pair).unwrap_or_default();
        (at + 1) << 8 | first as u32
    };
    let joined: Vec<Kind> =
        pairs.iter().map(|pair| join_kind(pair.0, pair.1, name(pair), wide)).collect();
    let (regs, slots) = joined.split_at(a.regs.len());
    let offsets = a.spilled.iter().map(|(offset, _)| *offset).filter(|at| find(*at).is_some());
    let mut state = State { regs: a.regs, spilled: offsets.zip(slots.iter().copied()).collect() };
    state.regs.copy_from_slice(regs);
    state
}

fn join_kind(a: Kind, b: Kind, name: u32, wide: bool) -> Kind {
    match (a, b) {
        _ if a == b => a,
        (Kind::Nothing, _) | (_, Kind::Nothing) => Kind::Nothing,
        (Kind::Number(..), Kind::Number(..)) if wide => ANY,
        (Kind::Number(l, h), Kind::Number(m, i)) => Kind::Number(l.min(m), h.max(i)),
        // Where ways with different offsets meet, the pointer has an unknown part of its own.
        (Kind::Packet { .. }, Kind::Packet { .. }) => Kind::Packet { id: name, offset: 0 },
        // Null and a value: a lookup before its test, or a variable that starts as null.
        (Kind::Value(map), Kind::Number(0, 0)) | (Kind::Number(0, 0), Kind::Value(map)) => {
            Kind::Value(map)
        }
        (Kind::Value(_), Kind::Value(_)) => Kind::Value(SOME_MAP),
        _ => Kind::Mixed,
    }
}

fn step(insns: &[Insn], at: usize, state: &mut State) {
    let insn = insns[at];
    let (dst, src) = (usize::from(insn.dst).min(10), usize::from(insn.src).min(10));
    match insn.code & 7 {
        class::LD if insn.code == LDDW => {
            let high = insns.get(at + 1).map_or(0, |next| next.imm);
            let value = insn.imm as u32 as u64 | (high as u32 as u64) << 32;
            state.regs[dst] = match insn.src {
                0 => Kind::Number(value, value),
                PSEUDO_MAP => Kind::Map(insn.imm as u32),
                PSEUDO_VALUE => Kind::Value(insn.imm as u32),
                _ => Kind::Mixed,
            };
        }
        class::LDX => {
            let bytes = width(insn.code);
            let any = Kind::Number(0, if bytes == 8 { u64::MAX } else { (1 << (8 * bytes)) - 1 });
            state.regs[dst] = match state.regs[src] {
                Kind::Context(base) => match base + i64::from(insn.off) {
                    // `data` and `data_meta` are in the packet, `data_end` after it.
                    0 => Kind::Packet { id: 0, offset: 0 },
                    4 => Kind::PacketEnd,
                    8 => Kind::Packet { id: u32::MAX, offset: 0 },
                    _ => any,
                },
                Kind::Stack(base) if bytes == 8 => {
                    let at = base + i64::from(insn.off);
                    state
                        .spilled
                        .iter()
                        .find(|(offset, _)| *offset == at)
                        .map_or(any, |(_, kind)| *kind)
                }
                _ => any,
            };
        }
        class::ST | class::STX => {
            if let Kind::Stack(base) = state.regs[dst] {
                let (at, bytes) = (base + i64::from(insn.off), width(insn.code) as i64);
                state.spilled.retain(|(offset, _)| *offset + 8 <= at || *offset >= at + bytes);
                if bytes == 8 && insn.code & 7 == class::STX && insn.code & 0xe0 == 0x60 {
                    state.spilled.push((at, state.regs[src]));
                    state.spilled.sort_by_key(|(offset, _)| *offset);
                }
            }
            if insn.code & 7 == class::STX && insn.code & 0xe0 == 0xc0 {
                if insn.imm & !1 == 0xf0 {
                    state.regs[0] = ANY;
                } else if insn.imm & 1 != 0 {
                    state.regs[src] = ANY;
                }
            }
        }
        class::ALU => state.regs[dst] = arithmetic(insn, state, dst, src, true, at),
        class::ALU64 => state.regs[dst] = arithmetic(insn, state, dst, src, false, at),
        class::JMP if insn.code == 0x85 => {
            let found = match (insn.src, insn.imm, state.regs[1]) {
                (0, 1, Kind::Map(map)) => Kind::Value(map),
                _ => ANY,
            };
            state.regs[1..6].fill(Kind::Nothing);
            state.regs[0] = found;
        }
        _ => {}
    }
}

fn arithmetic(insn: Insn, state: &State, dst: usize, src: usize, narrow: bool, at: usize) -> Kind {
    let immediate = insn.imm as i64 as u64;
    let second = if insn.code & super::insn::SOURCE_REGISTER != 0 && insn.code & 0xf0 != 0xd0 {
        state.regs[src]
    } else {
        Kind::Number(immediate, immediate)
    };
    let first = state.regs[dst];
    let operation = insn.code & 0xf0;
    if operation == 0xb0 && !narrow {
        return if insn.off == 0 { second } else { ANY };
    }
    let most = if narrow { u64::from(u32::MAX) } else { u64::MAX };
    let cut = |kind: Kind| match kind {
        Kind::Number(low, high) if high <= most => (low, high),
        Kind::Number(low, high) if low == high => (low & most, high & most),
        _ => (0, most),
    };
    let pointer = |kind: Kind, by: Kind, sign: i64| -> Option<Kind> {
        let constant = match by {
            Kind::Number(low, high) if low == high => Some(sign * low as i64),
            _ => None,
        };
        Some(match (kind, constant) {
            (Kind::Packet { id, offset }, Some(by)) => {
                Kind::Packet { id, offset: offset.wrapping_add(by) }
            }
            (Kind::Packet { .. }, None) => Kind::Packet { id: (at as u32 + 1) << 8, offset: 0 },
            (Kind::Stack(offset), Some(by)) => Kind::Stack(offset.wrapping_add(by)),
            (Kind::Context(offset), Some(by)) => Kind::Context(offset.wrapping_add(by)),
            (Kind::Value(map), _) => Kind::Value(map),
            (Kind::PacketEnd, _) => Kind::PacketEnd,
            (Kind::Stack(_) | Kind::Context(_) | Kind::Map(_) | Kind::Mixed, _) => Kind::Mixed,
            _ => return None,
        })
    };
    if !narrow {
        let moved = match operation {
            0x00 => pointer(first, second, 1).or_else(|| pointer(second, first, 1)),
            0x10 if matches!(second, Kind::Number(..)) => pointer(first, second, -1),
            _ => None,
        };
        if let Some(kind) = moved {
            return kind;
        }
    }
    let ((a, b), (c, d)) = (cut(first), cut(second));
    let within = |low: Option<u64>, high: Option<u64>| match (low, high) {
        (Some(low), Some(high)) if high <= most => Kind::Number(low, high),
        _ => Kind::Number(0, most),
    };
    let bits = |value: u64| if value == 0 { 0 } else { u64::MAX >> value.leading_zeros() };
    match operation {
        0x00 => within(a.checked_add(c), b.checked_add(d)),
        0x10 => within(a.checked_sub(d), b.checked_sub(c)),
        0x20 => within(a.checked_mul(c), b.checked_mul(d)),
        0x30 if c > 0 && insn.off == 0 => Kind::Number(a / d, b / c),
        0x40 | 0xa0 => Kind::Number(0, bits(b) | bits(d)),
        0x50 => Kind::Number(0, b.min(d)),
        0x60 if c == d && c < 64 && b.leading_zeros() as u64 > c => {
            within(Some(a << c), Some(b << c))
        }
        0x70 if c == d && c < 64 => Kind::Number(a >> c, b >> c),
        0x70 => Kind::Number(0, b),
        0x90 if c > 0 && insn.off == 0 => Kind::Number(0, (d - 1).min(b)),
        0xb0 => Kind::Number(c, d),
        0xd0 => match insn.imm {
            16 => Kind::Number(0, 0xffff),
            32 => Kind::Number(0, u32::MAX.into()),
            _ => ANY,
        },
        _ => Kind::Number(0, most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
        Insn { code, dst, src, off, imm }
    }

    /// Behind the meeting of two ways a pointer stays one pointer, also where the second way came
    /// after what follows had been looked at.
    #[test]
    fn what_follows_a_meeting_has_one_pointer() {
        let program = [
            insn(0x61, 2, 1, 0, 0),  // r2 = data
            insn(0x61, 3, 1, 12, 0), // r3 = something
            insn(0x15, 3, 0, 1, 0),  // if r3 == 0 goto +1
            insn(0x07, 2, 0, 0, 4),  // r2 += 4
            insn(0x71, 4, 2, 0, 0),  // r4 = *(u8 *)r2
            insn(0x71, 5, 2, 1, 0),  // r5 = *(u8 *)(r2 + 1)
            insn(0x95, 0, 0, 0, 0),
        ];
        let states = kinds(&program);
        let pointer = |at: usize| states[at].as_ref().unwrap().regs[2];
        assert!(matches!(pointer(4), Kind::Packet { id: 1.., offset: 0 }), "{:?}", pointer(4));
        assert_eq!(pointer(5), pointer(4));
    }

    #[test]
    fn different_pointers_stay_different_behind_a_meeting() {
        let program = [
            insn(0x61, 2, 1, 0, 0),  // r2 = data
            insn(0xbf, 4, 2, 0, 0),  // r4 = r2
            insn(0x07, 4, 0, 0, 8),  // r4 += 8
            insn(0x61, 3, 1, 12, 0), // r3 = something
            insn(0x15, 3, 0, 2, 0),  // if r3 == 0 goto +2
            insn(0x07, 2, 0, 0, 4),  // r2 += 4
            insn(0x07, 4, 0, 0, 2),  // r4 += 2
            insn(0xbf, 5, 4, 0, 0),  // r5 = r4
            insn(0x95, 0, 0, 0, 0),
        ];
        let regs = kinds(&program)[8].clone().unwrap().regs;
        assert_eq!(regs[5], regs[4]);
        assert_ne!(regs[2], regs[4]);
    }

    #[test]
    fn comparisons_narrow() {
        let program = [
            insn(0x71, 2, 10, -1, 0), // r2 = a byte
            insn(0x25, 2, 0, 2, 31),  // if r2 > 31 goto +2
            insn(0xa5, 2, 0, 1, 4),   // if r2 < 4 goto +1
            insn(0x95, 0, 0, 0, 0),
            insn(0x95, 0, 0, 0, 0),
        ];
        let states = kinds(&program);
        let number = |at: usize| states[at].as_ref().unwrap().regs[2];
        assert_eq!(number(2), Kind::Number(0, 31));
        assert_eq!(number(3), Kind::Number(4, 31));
        assert_eq!(number(4), Kind::Number(0, 255));
    }
}
