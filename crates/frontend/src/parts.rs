//! Ranges of integers in structs that functions get and give back by pointers: lengths and places
//! that one function sets and another one's loops end by.

use nicforge_ir::{Program, Proj, Type};

/// Ranges of integers of a value, by their ways through its fields.
pub type Parts = Vec<(Vec<u32>, (i128, i128))>;

/// Knowledge of what a function gives back.
#[derive(Clone, Debug, Default)]
pub struct Returned {
    pub parts: Parts,
    /// Ways to integers that are as they were in the variable that it got.
    pub kept: Vec<Vec<u32>>,
}

/// Most integers of a value that are looked at.
const MOST: usize = 32;

/// Knowledge that holds of either of two values.
pub fn join(all: &mut Parts, other: &Parts) {
    all.retain_mut(|(way, range)| {
        let same = other.iter().find(|(other, _)| other == way);
        same.is_some_and(|(_, other)| {
            *range = (range.0.min(other.0), range.1.max(other.1));
            true
        })
    });
}

/// A way as steps through a value.
pub fn path(way: &[u32]) -> Vec<Proj> {
    way.iter().map(|field| Proj::Field(*field)).collect()
}

/// Adds the ways to the integers of a type that are in no array.
pub fn leaves(program: &Program, ty: Type, way: &mut Vec<u32>, found: &mut Vec<Vec<u32>>) {
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
