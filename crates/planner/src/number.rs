//! Stages whose replicas have ranges of numbered instances (`NF_BY_NUMBER`), instead of what a hash
//! gives them.

use nicforge_ir::{HandlerId, Program};

use crate::ability::Ability;
use crate::origin::{Origin, Shape, sites};
use crate::tables::table_of;

/// What a stage's events have as their number, in terms of its own event, and how many numbers
/// there are. None if no table of the stage asks for it, if two that ask are of different sizes or
/// ask for different numbers, or if the number is no parameter that it could be read from without
/// losing its order.
pub fn of_stage(
    program: &Program,
    handlers: &[HandlerId],
    ability: &Ability,
) -> Option<(Origin, u32)> {
    let Ability::Sharded(leaves) = ability else { return None };
    let mut found: Option<(Origin, u32)> = None;
    for handler in handlers {
        let body = &program.handlers[*handler].body;
        for site in sites(program, *handler, &|op| table_of(op).is_some()) {
            let Some(table) = table_of(&body.insts[site.inst].op) else { continue };
            let table = &program.tables[table];
            if !table.by_number {
                continue;
            }
            let Some(Shape::Int(key) | Shape::Whole(key)) = site.operands.first() else {
                return None;
            };
            let number = key.widened();
            let one = (number.clone(), table.capacity);
            if !leaves.contains(number) || found.as_ref().is_some_and(|known| *known != one) {
                return None;
            }
            found = Some(one);
        }
    }
    found
}
