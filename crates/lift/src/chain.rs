//! Programs that call each other by tail calls, as one stream of instructions.

use std::collections::{BTreeMap, BTreeSet};

use nicforge_isa::object::{Object, Program};

use crate::choose;
use crate::error::LiftError;
use crate::kind;

/// Programs of a chain at most, by instructions: as many as the kernel takes of one.
const MOST_INSNS: usize = 1_000_000;

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
    ) -> Result<Chain, LiftError> {
        let mut program = object.programs[chosen].clone();
        let mut placed = BTreeMap::from([(chosen, 0)]);
        let mut slots: BTreeMap<usize, BTreeMap<u32, usize>> = BTreeMap::new();
        let mut names = Vec::new();
        // What the user says goes before what the object does.
        let mut all = object.slots.programs.clone();
        let mut emptied = BTreeSet::new();
        for (map, slot, function) in calls {
            let index = object.maps.iter().position(|known| known.name == *map);
            let index = index.ok_or_else(|| LiftError::NoMap { name: map.clone() })?;
            if function.is_empty() {
                all.retain(|(known, _), _| *known != index);
                emptied.insert(index);
            } else {
                all.insert((index, *slot), choose(object, Some(function))?);
            }
        }
        for ((index, slot), callee) in all {
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
            if slot < object.maps[index].max_entries {
                slots.entry(index).or_default().insert(slot, entry);
                names.push((object.maps[index].name.clone(), slot, other.name.clone()));
            }
        }
        let alone = object.programs.len() == 1;
        let filled = |index: &usize| object.slots.filled.contains(index);
        let empty = object.maps.iter().enumerate().filter(|(index, map)| match map.kind {
            Some(kind::PROG_ARRAY) => alone && !filled(index),
            Some(kind::ARRAY_OF_MAPS | kind::HASH_OF_MAPS) => !filled(index),
            _ => false,
        });
        let empty = empty.map(|(index, _)| index).chain(emptied).collect();
        Ok(Chain { program, slots, empty, names })
    }

    /// First instructions of all programs.
    pub fn entries(&self) -> Vec<usize> {
        let others = self.slots.values().flat_map(BTreeMap::values).copied();
        std::iter::once(0).chain(others).collect()
    }
}
