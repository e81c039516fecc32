//! Programs that call each other by tail calls, as one stream of instructions.

use std::collections::{BTreeMap, BTreeSet};

use nicforge_ir::Op;
use nicforge_isa::object::{Object, Program};

use crate::choose;
use crate::emit::Cond;
use crate::error::{Halt, LiftError, refuse};
use crate::maps::kind;
use crate::state::State;
use crate::value::Abs;
use crate::walk::{Lifter, MOST_DEPTH, Stops};

/// Programs of a chain at most, by instructions: as many as the kernel takes of one.
const MOST_INSNS: usize = 1_000_000;

/// Tail calls at most, one after the other, as in the kernel.
const MOST_TAIL_CALLS: u32 = 33;

/// The program that is lifted and, behind it, those that tail calls lead to.
pub struct Chain {
    pub program: Program,
    /// First instructions by program array and slot.
    pub slots: BTreeMap<usize, BTreeMap<u32, usize>>,
    /// Maps of programs or maps in which nothing is: neither the object nor the user put anything
    /// there, and the object has no other program that its loader could.
    pub empty: BTreeSet<usize>,
    /// Map, slot and function.
    pub names: Vec<(String, u32, String)>,
}

impl Chain {
    /// # Errors
    /// A map or program that is not there.
    pub fn of(
        object: &Object,
        chosen: usize,
        calls: &[(String, u32, String)],
        filled: &[String],
    ) -> Result<Chain, LiftError> {
        let mut program = object.programs[chosen].clone();
        let mut placed = BTreeMap::from([(chosen, 0)]);
        let mut slots: BTreeMap<usize, BTreeMap<u32, usize>> = BTreeMap::new();
        let mut names = Vec::new();
        for (map, slot, function) in calls {
            let index = object.maps.iter().position(|known| known.name == *map);
            let index = index.ok_or_else(|| LiftError::NoMap { name: map.clone() })?;
            let callee = choose(object, Some(function))?;
            let other = &object.programs[callee];
            let entry = *placed.entry(callee).or_insert_with(|| {
                let entry = program.insns.len();
                program.insns.extend(&other.insns);
                program.lines.extend(other.lines.iter().cloned());
                entry
            });
            if program.insns.len() > MOST_INSNS {
                let reason = format!("more than {MOST_INSNS} instructions with its tail calls");
                return Err(crate::refused(&program.name, "", &reason));
            }
            // Slots beyond the array are never called.
            if *slot < object.maps[index].max_entries {
                slots.entry(index).or_default().insert(*slot, entry);
                names.push((map.clone(), *slot, other.name.clone()));
            }
        }
        let alone = object.programs.len() == 1;
        let empty = object.maps.iter().enumerate().filter(|(_, map)| match map.kind {
            Some(kind::PROG_ARRAY) => alone && !filled.contains(&map.name),
            Some(kind::ARRAY_OF_MAPS | kind::HASH_OF_MAPS) => !filled.contains(&map.name),
            _ => false,
        });
        let empty = empty.map(|(index, _)| index).collect();
        Ok(Chain { program, slots, empty, names })
    }

    /// First instructions of all programs.
    pub fn entries(&self) -> Vec<usize> {
        let others = self.slots.values().flat_map(BTreeMap::values).copied();
        std::iter::once(0).chain(others).collect()
    }
}

impl Lifter<'_> {
    /// A tail call: where the program goes on if that is known. Programs that may be called and
    /// never come back are followed at once, each in a region of its own.
    pub fn tail_call(&mut self, at: usize, state: &mut State) -> Result<Option<usize>, Halt> {
        let Abs::Map(map) = self.read(state.regs[2])? else {
            return refuse("bpf_tail_call without a map");
        };
        if state.frames.len() > 1 {
            return refuse("calls bpf_tail_call in a function");
        }
        let none = BTreeMap::new();
        let known = self.slots.get(&map);
        let Some(slots) = known.or(self.empty.contains(&map).then_some(&none)) else {
            let name = self.map_name(map);
            return refuse(format!(
                "calls bpf_tail_call with map `{name}`, whose programs are not known; say \
                 --tail-call {name}[SLOT]=SECTION"
            ));
        };
        let index = self.cut(state.regs[3], 4)?;
        let (span, here) = (self.span, self.here);
        for (slot, entry) in slots {
            if state.tail_calls >= MOST_TAIL_CALLS {
                break;
            }
            let cond = match self.equals(index, u64::from(*slot)) {
                Cond::Known(false) => continue,
                Cond::Known(true) => {
                    *state = state.called();
                    return Ok(Some(*entry));
                }
                Cond::Value(cond) => cond,
            };
            self.depth += 1;
            if self.depth > MOST_DEPTH {
                return refuse(format!("more than {MOST_DEPTH} branches within each other"));
            }
            let outside = self.at;
            let (then, other) = (self.build().new_block(), self.build().new_block());
            self.build().push0(Op::If { cond, likely: None, then, other });
            self.at = then;
            self.walk(*entry, state.called(), &Stops::never())?;
            self.at = other;
            self.build().push0(Op::Yield(Vec::new()));
            (self.at, self.span, self.here) = (outside, span, here);
            self.depth -= 1;
        }
        debug_assert_eq!(self.here, at);
        state.regs[1..6].fill(Abs::Nothing);
        state.regs[0] = Abs::Unusable("what bpf_tail_call returned");
        Ok(None)
    }
}
