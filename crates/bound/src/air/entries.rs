//! Entries of tables as the kernel's maps have them: looked up, made, changed, deleted.

use nicforge_ir::interp::Part;
use nicforge_ir::{CommuteOp, InstId, Proj, TableId, Type, ValueId};

use super::exact::{Keys, TableMap, equal};
use super::packet::{stores, word};
use super::value::split;
use super::{Front, value};
use crate::ebpf::{MAP_POINTER, RESERVED};
use crate::graph::{BlockId, Effect, Expr, Slot};
use crate::term::Op as TermOp;

/// Addresses of keys and values of calls.
const KEY: u64 = RESERVED + (1 << 36);
const VALUE: u64 = RESERVED + (1 << 37);
/// Helpers of the kernel.
const LOOKUP: i32 = 1;
const UPDATE: i32 = 2;
const DELETE: i32 = 3;

impl Front<'_> {
    fn map_of(&self, table: TableId) -> Option<(TableMap, Expr)> {
        let map = self.exact.as_ref()?.kernel.tables.get(&table)?.clone();
        if map.keys == Keys::Index && !self.program.tables[table].key.is_int() {
            return None;
        }
        let pointer = word(MAP_POINTER + map.map as u64);
        Some((map, pointer))
    }

    /// Puts a key where calls find it; gives the condition that there is such a key.
    fn key(&mut self, id: InstId, keys: Keys, table: TableId, key: ValueId) -> Expr {
        let (bytes, there) = match keys {
            Keys::Same => (self.bytes(key), Expr::Const(1, 1)),
            Keys::Prefix => {
                let key = self.bytes(key);
                let bits = Expr::Const(32, 8 * key.len() as u64);
                (split(&bits, 32, 4).into_iter().chain(key).collect(), Expr::Const(1, 1))
            }
            Keys::Index => {
                let index = self.int_as(key, 64);
                let entries = word(self.program.tables[table].capacity.into());
                let there = Expr::binary(TermOp::Ult, index.clone(), entries);
                (split(&index, 64, 4), there)
            }
        };
        let effects = stores(word(KEY), &bytes);
        self.free(id, effects);
        there
    }

    /// Looks for an entry: goes on in a block where there is one and gives the one where not.
    fn find(
        &mut self,
        id: InstId,
        table: TableId,
        key: ValueId,
        bits: Option<ValueId>,
    ) -> Option<(TableMap, BlockId)> {
        let Some((map, pointer)) = self.map_of(table) else {
            let name = &self.program.tables[table].name;
            self.open(id, &format!("table `{name}`"));
            return None;
        };
        let there = self.key(id, map.keys, table, key);
        if let Some(bits) = bits {
            let bits = split(&self.int_as(bits, 32), 32, 4);
            let effects = stores(word(KEY), &bits);
            self.free(id, effects);
        }
        let (inside, missing) = self.branch(there);
        self.at = inside;
        self.call(id, LOOKUP, vec![pointer, word(KEY)]);
        let (null, found) = self.branch(equal(self.given(), word(0)));
        self.at = null;
        self.goto(missing);
        self.at = found;
        self.presume_padding(id, table, map.front);
        Some((map, missing))
    }

    /// Padding of values is zero: whoever writes entries keeps it so.
    fn presume_padding(&mut self, id: InstId, table: TableId, front: u32) {
        let ty = self.program.tables[table].value;
        let mut effects = Vec::new();
        for (at, mask) in (0u64..).zip(self.shapes.meaning(ty)) {
            if mask == 0xff {
                continue;
            }
            let address = Expr::add(self.given(), word(u64::from(front) + at));
            effects.push(Effect::Load { slot: self.temp, address, bytes: 1 });
            let byte = Expr::extract(Expr::Slot(self.temp), 0, 8);
            let padding = Expr::binary(TermOp::And, byte, Expr::Const(8, (!mask).into()));
            effects.push(Effect::Presume(equal(padding, Expr::Const(8, 0))));
        }
        self.free(id, effects);
    }

    /// Looks an entry up: whether it is there and, if asked for, its value.
    pub(super) fn look_up(
        &mut self,
        id: InstId,
        table: TableId,
        key: ValueId,
        bits: Option<ValueId>,
        value: Option<ValueId>,
    ) {
        let hit = self.body().insts[id].results[0];
        let Some((map, missing)) = self.find(id, table, key, bits) else { return };
        let mut yes = self.set(hit, vec![Expr::Const(1, 1)]);
        let mut no = self.set(hit, vec![Expr::Const(1, 0)]);
        if let Some(value) = value {
            let from = Expr::add(self.given(), word(map.front.into()));
            yes.extend(self.read(value, from));
            no.extend(self.set_zero(value));
        }
        self.ends(id, missing, yes, no);
    }

    /// Ends two ways in one place.
    fn ends(&mut self, id: InstId, other: BlockId, here: Vec<Effect>, there: Vec<Effect>) {
        let after = self.reserve();
        self.free(id, here);
        self.goto(after);
        self.at = other;
        self.free(id, there);
        self.goto(after);
        self.at = after;
    }

    /// Writes a whole value: makes the entry, or where entries come from outside, changes the one
    /// that is found.
    pub(super) fn put(&mut self, id: InstId, table: TableId, key: ValueId, value: Vec<Expr>) {
        let ok = self.body().insts[id].results[0];
        let no = self.set(ok, vec![Expr::Const(1, 0)]);
        if self.program.tables[table].kind.is_filled_from_outside() {
            let Some((map, missing)) = self.find(id, table, key, None) else { return };
            let to = Expr::add(self.given(), word(map.front.into()));
            let mut yes = stores(to, &value);
            yes.extend(self.set(ok, vec![Expr::Const(1, 1)]));
            return self.ends(id, missing, yes, no);
        }
        let Some((map, pointer)) = self.map_of(table) else {
            let name = &self.program.tables[table].name;
            return self.open(id, &format!("table `{name}`"));
        };
        let there = self.key(id, map.keys, table, key);
        let (inside, missing) = self.branch(there);
        self.at = inside;
        self.insert(id, &map, pointer, value);
        let yes = self.set(ok, vec![equal(Expr::extract(self.given(), 0, 32), Expr::Const(32, 0))]);
        self.ends(id, missing, yes, no);
    }

    /// Calls the kernel to make or overwrite the entry of the key that was put.
    fn insert(&mut self, id: InstId, map: &TableMap, pointer: Expr, value: Vec<Expr>) {
        let front = (0..map.front).map(|_| Expr::Const(8, 0));
        let bytes: Vec<Expr> = front.chain(value).collect();
        let effects = stores(word(VALUE), &bytes);
        self.free(id, effects);
        self.call(id, UPDATE, vec![pointer, word(KEY), word(VALUE), word(0)]);
    }

    /// Deletes an entry.
    pub(super) fn delete(&mut self, id: InstId, table: TableId, key: ValueId) {
        let existed = self.body().insts[id].results[0];
        let Some((map, pointer)) = self.map_of(table).filter(|(map, _)| map.keys == Keys::Same)
        else {
            let name = &self.program.tables[table].name;
            return self.open(id, &format!("a deletion in table `{name}`"));
        };
        self.key(id, map.keys, table, key);
        self.call(id, DELETE, vec![pointer, word(KEY)]);
        let gone = equal(Expr::extract(self.given(), 0, 32), Expr::Const(32, 0));
        let effects = self.set(existed, vec![gone]);
        self.free(id, effects);
    }

    /// Changes a number in an entry; makes the entry from zeroes where programs may.
    pub(super) fn commute(
        &mut self,
        id: InstId,
        op: CommuteOp,
        table: TableId,
        key: ValueId,
        path: &[Proj],
        amount: ValueId,
    ) {
        let ty = self.program.tables[table].value;
        let part = self.shapes.locate(ty, path, |value| self.constant(value).unwrap_or(0));
        let Some((map, missing)) = self.find(id, table, key, None) else { return };
        let Some(part) = part else { return self.open(id, "a part that is not there") };
        let amount_ty = self.body().ty(amount);
        let amount = self.int(amount);
        // The bytes that the part is in.
        let (first, last) = (part.at / 8, (part.at + part.bits - 1) / 8);
        let (mut effects, mut bytes) = (Vec::new(), vec![Expr::Const(8, 0); self.shapes.size(ty)]);
        let place = |at: u32| Expr::add(self.given(), word(u64::from(map.front + at)));
        let places: Vec<Expr> = (first..=last).map(place).collect();
        for (at, place) in (first..=last).zip(&places) {
            let slot = self.out.slot(8);
            effects.push(Effect::Load { slot, address: place.clone(), bytes: 1 });
            bytes[at as usize] = Expr::Slot(slot);
        }
        let blank = vec![Expr::Const(8, 0); bytes.len()];
        changed(op, amount_ty, &mut bytes, part, &amount);
        let value = bytes[first as usize..=last as usize].to_vec();
        // All at once: the bytes are read before the first is written.
        let new: Vec<Slot> = value.iter().map(|_| self.out.slot(8)).collect();
        effects.extend(new.iter().zip(value).map(|(slot, byte)| Effect::Set(*slot, byte)));
        effects.extend(new.iter().zip(places).map(|(slot, address)| Effect::Store {
            address,
            bytes: 1,
            value: Expr::Slot(*slot),
        }));
        let after = self.reserve();
        self.free(id, effects);
        self.goto(after);
        self.at = missing;
        if map.keys == Keys::Same && !self.program.tables[table].kind.is_filled_from_outside() {
            let mut fresh = blank;
            changed(op, amount_ty, &mut fresh, part, &amount);
            if let Some((map, pointer)) = self.map_of(table) {
                self.insert(id, &map, pointer, fresh);
            }
        }
        self.goto(after);
        self.at = after;
    }

    /// One operation of two expressions of a type.
    fn chosen(op: CommuteOp, ty: Type, old: Expr, amount: Expr) -> Expr {
        let signed = ty.is_signed();
        let less = if signed { TermOp::Slt } else { TermOp::Ult };
        match op {
            CommuteOp::Add => Expr::add(old, amount),
            CommuteOp::Or => Expr::binary(TermOp::Or, old, amount),
            CommuteOp::Min => {
                Expr::ite(Expr::binary(less, amount.clone(), old.clone()), amount, old)
            }
            CommuteOp::Max => {
                Expr::ite(Expr::binary(less, old.clone(), amount.clone()), amount, old)
            }
        }
    }
}

/// Changes a part of a value's bytes.
fn changed(op: CommuteOp, ty: Type, bytes: &mut [Expr], part: Part, amount: &Expr) {
    for old in value::read(bytes, part) {
        let new = Front::chosen(op, ty, old, amount.clone());
        value::write(bytes, part, &[new]);
    }
}
