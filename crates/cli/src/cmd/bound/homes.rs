//! Where the tables of a program alone on a target are: each in the nearest memory with room for
//! it, small ones first.
//!
//! A program that changes tables runs on one unit, and what nobody changes may have copies, so
//! memories of a unit take both.

use std::collections::BTreeMap;

use nicforge_bound::unit::Unit;
use nicforge_planner::instance::table_bytes;

/// Memories of tables, by name. Tables that fit nowhere are left out.
pub fn homes(unit: &Unit) -> BTreeMap<String, String> {
    let (program, target) = (unit.program, unit.target);
    let near = target.memories.iter().filter(|memory| memory.device == unit.group.device);
    let mut room: Vec<_> = near.map(|memory| (memory, memory.size.value as u64)).collect();
    let mut tables: Vec<_> =
        program.tables.keys().map(|table| (table_bytes(program, table, target), table)).collect();
    tables.sort_unstable();
    let mut homes = BTreeMap::new();
    for (bytes, table) in tables {
        let def = &program.tables[table];
        let home = room.iter_mut().find(|(memory, left)| {
            *left >= bytes
                && memory.max_entries.is_none_or(|most| def.capacity <= most)
                && (def.buf.is_none() || memory.buffers)
        });
        if let Some((memory, left)) = home {
            *left -= bytes;
            homes.insert(def.name.clone(), memory.name.clone());
        }
    }
    homes
}
