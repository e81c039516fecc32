//! Packet loads that are read together.
//!
//! Loads through one pointer (the same unknown part, the same constant part) form a group until
//! something ends it: a place that is jumped to, a store to the packet, a call, a copy, another
//! kind of load, a load through another pointer, or a range of more than 64 bytes. The first load of a
//! group reads the range, the others take their bytes from transfer registers.

use super::copies::Part;
use crate::ebpf::Insn;
use crate::ebpf::insn::{class, targets, width};
use crate::ebpf::kinds::{Kind, State};

/// Bytes one read can bring.
const MOST: i64 = 64;

/// Where a load's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The range, relative to the pointer; read by the first load.
    pub start: i64,
    pub bytes: i64,
    /// True if this load is the first.
    pub first: bool,
}

/// Places of all packet loads, by instruction.
pub fn groups(insns: &[Insn], states: &[Option<State>], parts: &[Part]) -> Vec<Option<Place>> {
    let targets = targets(insns);
    let mut places = vec![None; insns.len()];
    let mut group: Option<(Kind, Vec<usize>, i64, i64)> = None;
    for (at, (insn, state)) in insns.iter().zip(states).enumerate() {
        let Some(state) = state else { continue };
        let pointer =
            |register: u8| state.regs.get(usize::from(register)).copied().unwrap_or(Kind::Mixed);
        if targets[at] {
            close(&mut group, &mut places);
        }
        match parts[at] {
            Part::No => {}
            Part::First(_) => {
                close(&mut group, &mut places);
                continue;
            }
            Part::Other => continue,
        }
        match insn.code & 7 {
            class::LDX => match pointer(insn.src) {
                kind @ Kind::Packet { .. } => {
                    let (start, end) =
                        (i64::from(insn.off), i64::from(insn.off) + width(insn.code) as i64);
                    if let Some((open, members, from, to)) = &mut group
                        && *open == kind
                        && end.max(*to) - start.min(*from) <= MOST
                    {
                        members.push(at);
                        (*from, *to) = (start.min(*from), end.max(*to));
                        continue;
                    }
                    close(&mut group, &mut places);
                    group = Some((kind, vec![at], start, end));
                }
                _ => close(&mut group, &mut places),
            },
            class::ST | class::STX if matches!(pointer(insn.dst), Kind::Packet { .. }) => {
                close(&mut group, &mut places)
            }
            class::JMP if insn.code == 0x85 => close(&mut group, &mut places),
            _ => {}
        }
    }
    close(&mut group, &mut places);
    places
}

fn close(group: &mut Option<(Kind, Vec<usize>, i64, i64)>, places: &mut [Option<Place>]) {
    if let Some((_, members, start, end)) = group.take() {
        for (index, at) in members.iter().enumerate() {
            places[*at] = Some(Place { start, bytes: end - start, first: index == 0 });
        }
    }
}
