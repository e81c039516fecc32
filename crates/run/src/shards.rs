//! Tables that replicas have parts of, as the one table they stand for.

use std::collections::BTreeMap;

use nicforge_ir::{CommuteOp, Entry, Match, Program, TableId, TableKind, Type};

/// The identity of an entry in its table.
pub(crate) type Place = (Vec<u8>, Match);

/// Entries by what tells them apart.
pub(crate) fn places<'a>(entries: impl Iterator<Item = &'a Entry>) -> BTreeMap<Place, Entry> {
    entries.map(|entry| ((entry.key.clone(), entry.matching.clone()), entry.clone())).collect()
}

/// A table in parts.
pub(crate) struct Parts<'a> {
    pub program: &'a Program,
    pub table: TableId,
    /// How many parts there are.
    pub owners: usize,
    /// The one commutative op that writes it, if that is all.
    pub commutes: Option<CommuteOp>,
}

impl Parts<'_> {
    /// One table of the entries `found` in all parts, each of which began with `filled`. An entry
    /// belongs to the part that changed it, the others still have what it was filled with; where
    /// all only ever applied one commutative op, their results are combined.
    pub fn merged(
        &self,
        filled: &BTreeMap<Place, Entry>,
        found: impl Iterator<Item = Entry>,
    ) -> Vec<Entry> {
        let mut by_place: BTreeMap<Place, Vec<Entry>> = BTreeMap::new();
        for entry in found {
            by_place.entry((entry.key.clone(), entry.matching.clone())).or_default().push(entry);
        }
        let table = &self.program.tables[self.table];
        let zero = vec![0; self.program.size_of(table.value) as usize];
        let mut entries = Vec::new();
        for (place, mut found) in by_place {
            let was = filled.get(&place);
            if was.is_some() && found.len() < self.owners {
                // Somebody deleted it: those that did not touch it still have it. Of arrays zeroes
                // are left out.
                if table.kind != TableKind::Array {
                    continue;
                }
                let nothing = Entry {
                    value: zero.clone(),
                    buf: found[0].buf.as_ref().map(|_| Vec::new()),
                    ..found[0].clone()
                };
                found.resize(self.owners, nothing);
            }
            let base = was.map_or(&zero, |entry| &entry.value);
            let merged = match self.commutes {
                Some(op) if found.len() > 1 => self.combine(op, base, &found),
                _ => {
                    let changed = |e: &&Entry| match was {
                        Some(was) => {
                            e.value != was.value
                                || e.buf.as_deref().unwrap_or(&[])
                                    != was.buf.as_deref().unwrap_or(&[])
                        }
                        None => e.value != zero || e.buf.as_ref().is_some_and(|b| !b.is_empty()),
                    };
                    found.iter().find(changed).unwrap_or(&found[0]).clone()
                }
            };
            let empty = merged.value == zero && merged.buf.as_ref().is_none_or(Vec::is_empty);
            if !(table.kind == TableKind::Array && empty) {
                entries.push(merged);
            }
        }
        entries.sort();
        entries
    }

    /// The entry that all workers' commutative updates make together, from the value `base`.
    fn combine(&self, op: CommuteOp, base: &[u8], found: &[Entry]) -> Entry {
        let mut merged = found[0].clone();
        for (at, size, signed) in integers(self.program, self.program.tables[self.table].value, 0) {
            let read = |bytes: &[u8]| {
                let raw = bytes[at..at + size]
                    .iter()
                    .rev()
                    .fold(0u64, |word, byte| word << 8 | *byte as u64);
                let shift = 64 - 8 * size as u32;
                if signed { ((raw << shift) as i64 >> shift) as i128 } else { raw as i128 }
            };
            let start = read(base);
            let parts = found.iter().map(|entry| read(&entry.value));
            let all = match op {
                CommuteOp::Add => start + parts.map(|part| part - start).sum::<i128>(),
                CommuteOp::Or => parts.fold(start, |all, part| all | part),
                CommuteOp::Min => parts.fold(start, i128::min),
                CommuteOp::Max => parts.fold(start, i128::max),
            };
            merged.value[at..at + size].copy_from_slice(&all.to_le_bytes()[..size]);
        }
        merged
    }
}

/// Offset, size and signedness of each integer in a type that can be updated commutatively:
/// bit-fields cannot be, and stay as they were.
fn integers(program: &Program, ty: Type, base: usize) -> Vec<(usize, usize, bool)> {
    match ty {
        Type::Int { signed, .. } => vec![(base, program.size_of(ty) as usize, signed)],
        Type::Struct(id) => {
            let slots = program.struct_layout(id).1;
            let fields = program.structs[id].fields.iter().zip(slots);
            fields
                .filter(|(field, _)| field.bit_width.is_none())
                .flat_map(|(f, slot)| integers(program, f.ty, base + slot.bit_offset as usize / 8))
                .collect()
        }
        Type::Array(id) => {
            let def = program.arrays[id];
            let size = program.size_of(def.elem) as usize;
            (0..def.len as usize)
                .flat_map(|i| integers(program, def.elem, base + i * size))
                .collect()
        }
        Type::Packet => Vec::new(),
    }
}
