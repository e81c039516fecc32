//! Ranges of integers in structs that functions get and give back by pointers: lengths and places
//! that one function sets and another one's loops end by.

use nicforge_ir::{Program, Proj, Type, ValueId};

use crate::bounds::MAX_TRIPS;
use crate::func::FnLower;
use crate::intervals::Range;

/// Ranges of integers of a value, by their ways through its fields.
pub type Parts = Vec<(Vec<u32>, Range)>;

/// Knowledge of what a function gives back.
#[derive(Clone, Debug, Default)]
pub struct Returned {
    parts: Parts,
    /// Ways to integers that are as they were in the variable that it got.
    kept: Vec<Vec<u32>>,
}

/// Most integers of a value that are looked at.
const MOST: usize = 32;

impl FnLower<'_, '_, '_> {
    /// The integers of a value of which more is known than their types say.
    pub fn parts_of(&self, value: ValueId) -> Parts {
        let mut ways = Vec::new();
        leaves(&self.unit.prog, self.b.body.ty(value), &mut Vec::new(), &mut ways);
        let known = |way: Vec<u32>| {
            let (low, high) = self.range_of_part(value, &path(&way))?;
            (high.saturating_sub(low) <= MAX_TRIPS).then_some((way, (low, high)))
        };
        ways.into_iter().filter_map(known).collect()
    }

    /// Adds what is known of values that are returned here; `entered` are those of the variables
    /// that the last ones are of.
    pub fn note_returned(&mut self, values: &[ValueId]) {
        let results = values.len() - self.entered.len();
        let of = |(number, value): (usize, &ValueId)| {
            let mut kept = Vec::new();
            if let Some(entered) = number.checked_sub(results).map(|at| self.entered[at]) {
                leaves(&self.unit.prog, self.b.body.ty(*value), &mut Vec::new(), &mut kept);
                kept.retain(|way| self.is_kept(*value, entered, &path(way)));
            }
            Returned { parts: self.parts_of(*value), kept }
        };
        let here: Vec<Returned> = values.iter().enumerate().map(of).collect();
        if self.returned.is_empty() {
            self.returned = here;
            return;
        }
        for (all, here) in self.returned.iter_mut().zip(&here) {
            join(&mut all.parts, &here.parts);
            all.kept.retain(|way| here.kept.contains(way));
        }
    }

    /// Notes what is known of what a call gave for a variable, or as its result.
    pub fn note_result(&mut self, value: ValueId, of: &Returned, before: Option<ValueId>) {
        if let Some(before) = before {
            self.kept.insert(value, (before, of.kept.iter().map(|way| path(way)).collect()));
        }
        self.note_parts(value, &of.parts);
    }

    /// Notes what is known of a value.
    pub fn note_parts(&mut self, value: ValueId, parts: &Parts) {
        for (way, range) in parts {
            self.counters.insert((value, path(way)), *range);
        }
    }
}

/// Knowledge that holds of either of two values.
fn join(all: &mut Parts, other: &Parts) {
    all.retain_mut(|(way, range)| {
        let same = other.iter().find(|(other, _)| other == way);
        same.is_some_and(|(_, other)| {
            *range = (range.0.min(other.0), range.1.max(other.1));
            true
        })
    });
}

fn path(way: &[u32]) -> Vec<Proj> {
    way.iter().map(|field| Proj::Field(*field)).collect()
}

/// Adds the ways to the integers of a type that are in no array.
fn leaves(program: &Program, ty: Type, way: &mut Vec<u32>, found: &mut Vec<Vec<u32>>) {
    match ty {
        Type::Int { .. } if found.len() < MOST => found.push(way.clone()),
        Type::Struct(id) => {
            for (number, field) in program.structs[id].fields.iter().enumerate() {
                way.push(number as u32);
                leaves(program, field.ty, way, found);
                way.pop();
            }
        }
        _ => {}
    }
}
