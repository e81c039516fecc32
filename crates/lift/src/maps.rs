//! Maps as tables: a pointer into a map value is a table, a key and a place.
//!
//! What a lookup read is kept as a value of αIR and changed there; it is written back before
//! anybody else could see the entry, and when the packet leaves.

use nicforge_ir::{BinOp, CmpOp, CommuteOp, Op, Span, Table, TableId, TableKind, Type, ValueId};
use nicforge_isa::object::map_type_name;

use crate::error::{Halt, refuse};
use crate::kind::{self, is_ring, table_kind};
use crate::layout::{Leaf, Node, Step, divide, identifier, project};
use crate::lifter::{Known, Lifter};
use crate::state::{Lookup, State};
use crate::value::{Abs, Cond, Num, Place};

/// Bytes of the prefix length that keys of LPM tries begin with.
const PREFIX: u32 = 4;
/// Bytes of a key or value at most.
const MOST_BYTES: u32 = 1 << 16;

impl Lifter<'_> {
    /// Name of a map for messages.
    pub fn map_name(&self, map: usize) -> &str {
        self.object.maps.get(map).map_or("?", |map| &map.name)
    }

    /// Number of a map's type.
    pub fn map_kind(&self, map: usize) -> u32 {
        self.object.maps.get(map).and_then(|map| map.kind).unwrap_or(kind::ARRAY)
    }

    /// The table of a map.
    pub fn table(&mut self, index: usize) -> Result<Known, Halt> {
        if let Some(known) = self.tables.get(&index) {
            return Ok(known.clone());
        }
        let Some(map) = self.object.maps.get(index) else {
            return refuse("a map that is not there");
        };
        let number = map.kind.unwrap_or(kind::ARRAY);
        let Some(kind) = table_kind(number) else {
            let ty = map_type_name(number);
            if matches!(number, kind::ARRAY_OF_MAPS | kind::HASH_OF_MAPS) {
                return refuse(format!("map `{}`, an {ty}, has maps in it", map.name));
            }
            return refuse(format!("map `{}` is of type {ty}, which is no table", map.name));
        };
        let listed = self.is_listed(index);
        let (kind, slot) = if listed { (TableKind::Array, 4) } else { (kind, 0) };
        let skipped = if kind == TableKind::Lpm { PREFIX } else { 0 };
        let key_size = match number {
            // An index of the ring.
            _ if is_ring(number) => 4,
            _ => map.key_size.saturating_sub(skipped),
        };
        let sizes = [key_size, map.value_size];
        if sizes.iter().any(|size| *size == 0 || *size > MOST_BYTES) || map.max_entries == 0 {
            return refuse(format!("map `{}` has no sizes, or very large ones", map.name));
        }
        let shapes = self.object.shapes.get(index);
        let name = identifier(map.name.trim_start_matches('.'));
        let key_shape = shapes.and_then(|s| s.key.as_ref()).filter(|_| skipped == 0);
        let value_shape = shapes.and_then(|s| s.value.as_ref()).filter(|_| !listed);
        let program = &mut self.program;
        let (key, key_node) = if kind == TableKind::Array {
            (Type::U32, Node::Int(4))
        } else {
            divide(program, &format!("{name}_key"), key_size, key_shape)
        };
        let (value, value_node) =
            divide(program, &format!("{name}_value"), slot + map.value_size, value_shape);
        let table = program.tables.push(Table {
            name,
            kind,
            key,
            key_big_endian: false,
            value,
            capacity: map.max_entries,
            buf: None,
            max_replicas: None,
            by_number: false,
            shared: false,
            span: Span::default(),
        });
        let known = Known { table, key: key_node, value: value_node };
        self.tables.insert(index, known.clone());
        Ok(known)
    }

    /// True if a lookup's number stands for global data.
    pub fn is_global(&self, lookup: u32) -> bool {
        ((u32::MAX - lookup) as usize) < self.object.maps.len()
    }

    /// A lookup by number; global data needs no lookup in the program.
    fn entry(&mut self, state: &mut State, lookup: u32) -> Result<Lookup, Halt> {
        if let Some(found) = state.lookups.get(&lookup) {
            return Ok(found.clone());
        }
        let map = (u32::MAX - lookup) as usize;
        if !self.is_global(lookup) {
            return refuse("uses a map value whose lookup is not known");
        }
        self.table(map)?;
        let key = self.build().int(0, Type::U32);
        let found = Lookup::fresh(map, key, Vec::new(), Cond::Known(true));
        state.lookups.insert(lookup, found.clone());
        Ok(found)
    }

    /// A key or value made of memory: the value, and the numbers in it.
    pub fn gather(
        &mut self,
        state: &mut State,
        pointer: Abs,
        skip: i64,
        ty: Type,
        node: &Node,
    ) -> Result<(ValueId, Vec<Num>), Halt> {
        self.gather_first(state, pointer, (skip, node.size()), ty, node)
    }

    /// As [`gather`](Self::gather), of which memory has `bytes` bytes alone; the others are zero.
    pub fn gather_first(
        &mut self,
        state: &mut State,
        pointer: Abs,
        (skip, bytes): (i64, u32),
        ty: Type,
        node: &Node,
    ) -> Result<(ValueId, Vec<Num>), Halt> {
        let mut parts = Vec::new();
        if let Node::Int(size) = node
            && bytes >= *size
        {
            let num = self.load(state, pointer, skip, *size)?;
            let num = self.num(num)?;
            return Ok((self.value(num, 8 * size), vec![num]));
        }
        let mut whole = self.push1(Op::Zero, ty);
        for leaf in node.all().into_iter().filter(|leaf| leaf.off < bytes.into()) {
            let left = bytes - leaf.off as u32;
            let num = if left >= leaf.size {
                let num = self.load(state, pointer, skip + leaf.off, leaf.size)?;
                self.num(num)?
            } else {
                let mut bytes = Vec::new();
                for at in 0..left {
                    let byte = self.load(state, pointer, skip + leaf.off + i64::from(at), 1)?;
                    bytes.push((self.num(byte)?, at));
                }
                self.combine(&bytes, leaf.size)
            };
            parts.push(num);
            if num != Num::known(0) {
                whole = self.put(whole, &leaf, None, num)?;
            }
        }
        Ok((whole, parts))
    }

    fn path(&mut self, leaf: &Leaf, var: Option<Num>) -> Vec<nicforge_ir::Proj> {
        let path = leaf.path.clone();
        project(&path, |step| match step {
            Step::Varying { base, size } => {
                let var = var.unwrap_or(Num::known(0));
                let index = self.binary(BinOp::Div, var, Num::known(size.into()), 64);
                let index = self.binary(BinOp::Add, index, Num::known(base as u32 as u64), 32);
                self.value(index, 32)
            }
            Step::Element(index) | Step::Member(index) => self.build().int(index.into(), Type::U32),
        })
    }

    fn put(
        &mut self,
        agg: ValueId,
        leaf: &Leaf,
        var: Option<Num>,
        num: Num,
    ) -> Result<ValueId, Halt> {
        let value = self.value(num, 8 * leaf.size);
        if leaf.path.is_empty() {
            return Ok(value);
        }
        let path = self.path(leaf, var);
        let ty = self.body.ty(agg);
        Ok(self.push1(Op::Set { agg, path, value }, ty))
    }

    pub fn part(&mut self, agg: ValueId, leaf: &Leaf, var: Option<Num>) -> Num {
        if leaf.path.is_empty() {
            return Num::of(agg, 8 * leaf.size);
        }
        let path = self.path(leaf, var);
        let ty = Type::u(8 * leaf.size as u8);
        Num::of(self.push1(Op::Get { agg, path }, ty), 8 * leaf.size)
    }

    fn leaves(&self, map: usize, node: &Node, place: Place, bytes: u32) -> Result<Vec<Leaf>, Halt> {
        self.divided(node, place, bytes).ok_or_else(|| {
            let name = self.map_name(map);
            let how = if place.var.is_some() { "at a varying place in" } else { "beyond" };
            Halt::Refused(format!("uses {bytes} bytes {how} a value of map `{name}`"))
        })
    }

    fn divided(&self, node: &Node, place: Place, bytes: u32) -> Option<Vec<Leaf>> {
        let varying = place.var.map(|var| (self.stride(var), var.hi));
        node.leaves(place.off, bytes, varying)
    }

    /// The places that a varying one of no array may mean, if there are few: each with the
    /// condition that it is this one.
    fn choices(&mut self, node: &Node, place: Place, bytes: u32) -> Option<Vec<(Place, Cond)>> {
        let var = place.var.filter(|_| self.divided(node, place, bytes).is_none())?;
        let mut found = Vec::new();
        for (at, known) in self.places(var)? {
            let here = Place::at(place.off.wrapping_add(at as i64));
            // The kernel's verifier knows that the place is inside the value.
            if here.off >= 0 && here.off + i64::from(bytes) <= i64::from(node.size()) {
                found.push((here, self.compare(CmpOp::Eq, false, var, known, 64)));
            }
        }
        Some(found)
    }

    /// The value of an entry as it is now.
    pub fn current(&mut self, state: &mut State, id: u32) -> Result<ValueId, Halt> {
        let found = self.entry(state, id)?;
        if let Some(value) = found.value {
            return Ok(value);
        }
        if found.stale {
            return self.lost(found.map);
        }
        self.flush_map(state, found.map, Some(id))?;
        let table = self.table(found.map)?.table;
        let ty = self.program.tables[table].value;
        let read = |lifter: &mut Self| {
            let op = lifter.look_up(table, found.key, found.bits);
            lifter.build().push2(op, Type::BOOL, ty).1
        };
        let value = match (found.gone, found.kept) {
            (Cond::Value(gone), Some(kept)) => self.ways(gone, ty, |_| kept, read),
            (Cond::Known(true), Some(kept)) => kept,
            _ => read(self),
        };
        if let Some(found) = state.lookups.get_mut(&id) {
            found.value = Some(value);
        }
        Ok(value)
    }

    /// Refuses a pointer of which nobody knows whether its entry is where it was.
    fn lost<T>(&self, map: usize) -> Result<T, Halt> {
        let name = self.map_name(map);
        refuse(format!("uses a pointer into map `{name}` after keys of it were changed"))
    }

    /// One of two values, each made where it is the one.
    fn ways(
        &mut self,
        cond: ValueId,
        ty: Type,
        then: impl FnOnce(&mut Self) -> ValueId,
        other: impl FnOnce(&mut Self) -> ValueId,
    ) -> ValueId {
        let outside = self.at;
        let (inside, beside) = (self.build().new_block(), self.build().new_block());
        self.at = inside;
        let one = then(self);
        self.build().push0(Op::Yield(vec![one]));
        self.at = beside;
        let one = other(self);
        self.build().push0(Op::Yield(vec![one]));
        self.at = outside;
        self.push1(Op::If { cond, likely: None, then: inside, other: beside }, ty)
    }

    pub fn load_entry(
        &mut self,
        state: &mut State,
        id: u32,
        place: Place,
        bytes: u32,
    ) -> Result<Num, Halt> {
        let found = self.entry(state, id)?;
        let node = self.table(found.map)?.value;
        if let Some(choices) = self.choices(&node, place, bytes) {
            let mut chosen = Num::known(0);
            for (here, same) in choices {
                let one = self.load_entry(state, id, here, bytes)?;
                chosen = self.select(same, one, chosen);
            }
            return Ok(chosen);
        }
        let leaves = self.leaves(found.map, &node, place, bytes)?;
        let agg = self.current(state, id)?;
        let mut parts = Vec::new();
        for leaf in leaves {
            let whole = self.part(agg, &leaf, place.var);
            let from = (place.off - leaf.off).max(0) as u32;
            let to = (place.off + i64::from(bytes) - leaf.off).min(leaf.size.into()) as u32;
            let piece = self.piece(whole, from, to - from);
            parts.push((piece, (leaf.off - place.off).max(0) as u32));
        }
        Ok(self.combine(&parts, bytes))
    }

    pub fn store_entry(
        &mut self,
        state: &mut State,
        id: u32,
        place: Place,
        bytes: u32,
        num: Num,
    ) -> Result<(), Halt> {
        let found = self.entry(state, id)?;
        if found.stale {
            return self.lost(found.map);
        }
        let node = self.table(found.map)?.value;
        if let Some(choices) = self.choices(&node, place, bytes) {
            for (here, same) in choices {
                let old = self.load_entry(state, id, here, bytes)?;
                let new = self.select(same, num, old);
                self.store_entry(state, id, here, bytes, new)?;
            }
            return Ok(());
        }
        self.found_whole(&found)?;
        let leaves = self.leaves(found.map, &node, place, bytes)?;
        self.flush_map(state, found.map, Some(id))?;
        let mut agg = self.current(state, id)?;
        for leaf in leaves {
            let from = (place.off - leaf.off).max(0) as u32;
            let to = (place.off + i64::from(bytes) - leaf.off).min(leaf.size.into()) as u32;
            let piece = self.piece(num, (leaf.off - place.off).max(0) as u32, to - from);
            let new = if to - from == leaf.size {
                piece
            } else {
                let old = self.part(agg, &leaf, place.var);
                let mut parts = vec![(piece, from)];
                if from > 0 {
                    parts.push((self.piece(old, 0, from), 0));
                }
                if to < leaf.size {
                    parts.push((self.piece(old, to, leaf.size - to), to));
                }
                self.combine(&parts, leaf.size)
            };
            agg = self.put(agg, &leaf, place.var, new)?;
        }
        for (other, lookup) in &mut state.lookups {
            if lookup.map == found.map && *other != id {
                // Perhaps the same entry.
                lookup.value = None;
            }
        }
        if let Some(found) = state.lookups.get_mut(&id) {
            found.value = Some(agg);
            found.dirty = true;
        }
        Ok(())
    }

    /// Adds to a number of an entry without reading it, where that is one op of αIR.
    pub fn count(
        &mut self,
        state: &mut State,
        id: u32,
        place: Place,
        bytes: u32,
        amount: Num,
    ) -> Result<bool, Halt> {
        let found = self.entry(state, id)?;
        if place.var.is_some() || self.is_written(found.map) {
            return Ok(false);
        }
        let node = self.table(found.map)?.value;
        let leaves = self.leaves(found.map, &node, place, bytes)?;
        let [leaf] = &leaves[..] else { return Ok(false) };
        let whole = leaf.off == place.off && leaf.size == bytes;
        if !whole || !found.is_there() {
            return Ok(false);
        }
        self.found_whole(&found)?;
        self.flush_map(state, found.map, None)?;
        let known = self.table(found.map)?;
        let path = self.path(leaf, None);
        let amount = self.value(amount, 8 * bytes);
        let (table, key) = (known.table, found.key);
        self.build().push0(Op::Commute { op: CommuteOp::Add, table, key, path, amount });
        forget(state, found.map);
        Ok(true)
    }

    /// Refuses to change an entry of an LPM trie that was found by less than a whole address.
    fn found_whole(&self, found: &Lookup) -> Result<(), Halt> {
        let table = self.tables.get(&found.map).map(|known| known.table);
        let op = table.map(|table| self.look_up(table, found.key, found.bits));
        if !matches!(op, Some(Op::LookupBits { .. })) {
            return Ok(());
        }
        let name = self.map_name(found.map);
        refuse(format!("changes an entry of map `{name}` that less than a whole address found"))
    }

    /// Writes an entry back if it was changed.
    pub fn flush(&mut self, state: &mut State, id: u32) -> Result<(), Halt> {
        let Some(found) = state.lookups.get_mut(&id).filter(|found| found.dirty) else {
            return Ok(());
        };
        found.dirty = false;
        found.kept = found.value;
        let (map, key, gone) = (found.map, found.key, found.gone);
        let Some(value) = found.value else { return Ok(()) };
        let table = self.table(map)?.table;
        match gone {
            Cond::Known(true) => {}
            Cond::Known(false) => {
                self.push1(Op::Update { table, key, value }, Type::BOOL);
            }
            Cond::Value(gone) => {
                self.ways(
                    gone,
                    Type::BOOL,
                    |lifter| lifter.build().int(0, Type::BOOL),
                    |lifter| lifter.push1(Op::Update { table, key, value }, Type::BOOL),
                );
            }
        }
        Ok(())
    }

    /// Writes back what was changed in a map, but for one lookup.
    pub fn flush_map(
        &mut self,
        state: &mut State,
        map: usize,
        but: Option<u32>,
    ) -> Result<(), Halt> {
        let of = state.lookups.iter().filter(|(id, l)| l.map == map && Some(**id) != but);
        let ids: Vec<u32> = of.map(|(id, _)| *id).collect();
        ids.into_iter().try_for_each(|id| self.flush(state, id))
    }

    /// Writes back everything.
    pub fn flush_all(&mut self, state: &mut State) -> Result<(), Halt> {
        let ids: Vec<u32> = state.lookups.keys().copied().collect();
        ids.into_iter().try_for_each(|id| self.flush(state, id))
    }

    /// The key that a pointer points to, as the map's table has it.
    pub fn key(
        &mut self,
        state: &mut State,
        map: usize,
        pointer: Abs,
    ) -> Result<(ValueId, Vec<Num>), Halt> {
        let known = self.table(map)?;
        let ty = self.program.tables[known.table].key;
        let skipped = if self.map_kind(map) == kind::LPM_TRIE { PREFIX } else { 0 };
        self.gather(state, pointer, skipped.into(), ty, &known.key)
    }

    /// The number of bits of an address that a look-up in an LPM trie asks for.
    fn prefix(&mut self, state: &mut State, map: usize, pointer: Abs) -> Result<Option<Num>, Halt> {
        if self.map_kind(map) != kind::LPM_TRIE {
            return Ok(None);
        }
        let bits = self.load(state, pointer, 0, PREFIX)?;
        self.num(bits).map(Some)
    }

    /// The op that looks for a key, or for so many bits of it.
    fn look_up(&self, table: TableId, key: ValueId, bits: Option<ValueId>) -> Op {
        let whole = 8 * self.program.size_of(self.program.tables[table].key);
        match bits.map(|bits| (bits, self.body.def_op(bits))) {
            None => Op::Lookup { table, key },
            Some((_, Some(Op::Int(asked)))) if *asked >= whole.into() => Op::Lookup { table, key },
            Some((bits, _)) => Op::LookupBits { table, key, bits },
        }
    }

    /// `bpf_map_lookup_elem`.
    pub fn lookup(&mut self, state: &mut State, map: usize, key: Abs) -> Result<Abs, Halt> {
        if self.empty.contains(&map) {
            return Ok(Abs::known(0));
        }
        let bits = self.prefix(state, map, key)?;
        let (key, mut parts) = self.key(state, map, key)?;
        if !parts.is_empty() {
            parts.extend(bits);
        }
        let same =
            |l: &Lookup| l.map == map && l.is_there() && !parts.is_empty() && l.parts == parts;
        if let Some((id, _)) = state.lookups.iter().find(|(_, found)| same(found)) {
            return Ok(Abs::Value { lookup: *id, place: Place::at(0) });
        }
        self.flush_map(state, map, None)?;
        let table = self.table(map)?.table;
        let ty = self.program.tables[table].value;
        let bits = bits.map(|bits| self.value(bits, 32));
        let op = self.look_up(table, key, bits);
        let (hit, value) = self.build().push2(op, Type::BOOL, ty);
        let array = self.program.tables[table].kind == TableKind::Array;
        let capacity = u64::from(self.program.tables[table].capacity);
        let inside = array && parts.first().is_some_and(|index| index.hi < capacity);
        let hit = if inside { Cond::Known(true) } else { Cond::Value(hit) };
        let id = self.fresh();
        let found = Lookup { value: Some(value), bits, ..Lookup::fresh(map, key, parts, hit) };
        state.lookups.insert(id, found);
        Ok(Abs::Value { lookup: id, place: Place::at(0) })
    }
}

/// The lookup that stands for global data: numbers above those of lookups that programs make.
pub fn global(map: usize) -> u32 {
    u32::MAX - map as u32
}

/// Forgets what was read of a map and is there no longer.
pub fn forget(state: &mut State, map: usize) {
    for found in state.lookups.values_mut().filter(|found| found.map == map) {
        found.value = None;
    }
}
