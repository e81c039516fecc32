//! Changes of maps' keys, and what they do to pointers to entries: an entry whose key was deleted or
//! replaced keeps what it held, and nobody else sees what is written to it.

use std::collections::BTreeSet;

use nicforge_ir::{BinOp, CmpOp, Op, TableKind, Type};

use crate::error::{Halt, refuse};
use crate::lifter::Lifter;
use crate::maps::forget;
use crate::state::State;
use crate::value::{Abs, Cond, Num, Place};

impl Lifter<'_> {
    /// `bpf_map_update_elem`: 0, or the error.
    pub fn update(
        &mut self,
        state: &mut State,
        map: usize,
        [key, value, flags]: [Abs; 3],
    ) -> Result<Num, Halt> {
        let known = self.table(map)?;
        let kind = self.program.tables[known.table].kind;
        if kind == TableKind::Lpm {
            let name = self.map_name(map);
            return refuse(format!("changes keys of map `{name}`, an LPM trie"));
        }
        let flags = self.num(flags)?;
        let Some(flags) = flags.constant().filter(|flags| *flags <= 2) else {
            return refuse("updates a map with flags that are not known");
        };
        let (key, parts) = self.key(state, map, key)?;
        let ty = self.program.tables[known.table].value;
        self.note_unwritten(state, map, value, known.value.size());
        let (value, _) = self.gather(state, value, 0, ty, &known.value)?;
        // An entry that is there stays where only new ones are taken.
        self.before_change(state, map, (flags != 1).then_some(&parts))?;
        let table = known.table;
        let put = |lifter: &mut Self| {
            let ok = lifter.push1(Op::Update { table, key, value }, Type::BOOL);
            let (zero, full) = (Num::known(0), Num::known(-7i64 as u64));
            lifter.select(Cond::Value(ok), zero, full)
        };
        if flags == 0 {
            let done = put(self);
            self.after_insertion(state, map)?;
            return Ok(done);
        }
        // Only if the key is absent (1), or there (2).
        let cond = self.push1(Op::Contains { table, key }, Type::BOOL);
        let error = Num::known(if flags == 1 { -17i64 as u64 } else { -2i64 as u64 });
        let goes = if flags == 1 { self.negate(Cond::Value(cond)) } else { Cond::Value(cond) };
        let done = self.either(goes, put, error)?;
        self.after_insertion(state, map)?;
        Ok(done)
    }

    /// Notes bytes of a value that the program never wrote on its stack: the kernel copies whatever
    /// is there.
    fn note_unwritten(&mut self, state: &State, map: usize, pointer: Abs, bytes: u32) {
        let Abs::Stack { frame, place: Place { off, var: None } } = pointer else { return };
        let Some(frame) = state.frames.get(frame) else { return };
        let mut left: BTreeSet<u32> = (0..bytes).collect();
        for (at, size, abs) in frame.memory.overlapping(off, bytes) {
            if !matches!(abs, Abs::Nothing) {
                left.retain(|byte| !(at..at + i64::from(size)).contains(&(off + i64::from(*byte))));
            }
        }
        if !left.is_empty() {
            self.unwritten.entry(map).or_default().extend(left);
        }
    }

    /// The value that `then` gives where the condition holds, else a number.
    fn either(
        &mut self,
        cond: Cond,
        then: impl FnOnce(&mut Self) -> Num,
        other: Num,
    ) -> Result<Num, Halt> {
        let Cond::Value(cond) = cond else { return refuse("a condition that is decided") };
        let outside = self.at;
        let (inside, beside) = (self.build().new_block(), self.build().new_block());
        self.at = inside;
        let found = then(self);
        let bits = self.bits(found).max(self.bits(other));
        let found = self.value(found, bits);
        self.build().push0(Op::Yield(vec![found]));
        self.at = beside;
        let other = self.value(other, bits);
        self.build().push0(Op::Yield(vec![other]));
        self.at = outside;
        let op = Op::If { cond, likely: None, then: inside, other: beside };
        Ok(Num::of(self.push1(op, Type::u(bits as u8)), bits))
    }

    /// `bpf_map_delete_elem`: 0, or the error.
    pub fn delete(&mut self, state: &mut State, map: usize, key: Abs) -> Result<Num, Halt> {
        let known = self.table(map)?;
        if !self.program.tables[known.table].kind.takes_inserts() {
            let name = self.map_name(map);
            return refuse(format!("deletes keys of map `{name}`, which nobody can"));
        }
        let (key, parts) = self.key(state, map, key)?;
        self.before_change(state, map, Some(&parts))?;
        let existed = self.push1(Op::Delete { table: known.table, key }, Type::BOOL);
        Ok(self.select(Cond::Value(existed), Num::known(0), Num::known(-2i64 as u64)))
    }

    /// A key of a map is about to change, or a new one to come: a pointer to the entry that was
    /// under it keeps what it sees, but nobody else sees what it writes. Entries of arrays stay
    /// where they are.
    fn before_change(
        &mut self,
        state: &mut State,
        map: usize,
        key: Option<&[Num]>,
    ) -> Result<(), Halt> {
        let table = self.table(map)?.table;
        if self.program.tables[table].kind == TableKind::Array {
            self.flush_map(state, map, None)?;
            forget(state, map);
            return Ok(());
        }
        let used = pointed(state, map);
        for id in &used {
            self.current(state, *id)?;
        }
        self.flush_map(state, map, None)?;
        state.lookups.retain(|id, found| found.map != map || used.contains(id));
        for id in used {
            let Some(found) = state.lookups.get(&id) else { continue };
            let (gone, parts) = (found.gone, found.parts.clone());
            let same = match key {
                None => Some(Cond::Known(false)),
                Some(key) => self.same_key(&parts, key),
            };
            let gone = same.map(|same| self.or(gone, same));
            if let Some(found) = state.lookups.get_mut(&id) {
                found.kept = found.value;
                found.stale |= gone.is_none();
                found.gone = gone.unwrap_or(found.gone);
            }
        }
        Ok(())
    }

    /// A new key may have made an LRU map give up entries that pointers point to.
    fn after_insertion(&mut self, state: &mut State, map: usize) -> Result<(), Halt> {
        let table = self.table(map)?.table;
        if self.program.tables[table].kind != TableKind::Lru {
            return Ok(());
        }
        for id in pointed(state, map) {
            let Some(found) = state.lookups.get(&id) else { continue };
            let (key, gone) = (found.key, found.gone);
            let there = self.push1(Op::Contains { table, key }, Type::BOOL);
            let lost = self.negate(Cond::Value(there));
            let gone = self.or(gone, lost);
            if let Some(found) = state.lookups.get_mut(&id) {
                found.gone = gone;
            }
        }
        Ok(())
    }

    /// Condition that two keys are one; nothing if the numbers of one of them are not known.
    fn same_key(&mut self, a: &[Num], b: &[Num]) -> Option<Cond> {
        if a.is_empty() || a.len() != b.len() {
            return None;
        }
        let mut all = Cond::Known(true);
        for (a, b) in a.iter().zip(b) {
            let bits = self.bits(*a).max(self.bits(*b));
            let one = self.compare(CmpOp::Ne, false, *a, *b, bits);
            let differs = self.negate(all);
            let differs = self.or(differs, one);
            all = self.negate(differs);
        }
        Some(all)
    }

    fn or(&mut self, a: Cond, b: Cond) -> Cond {
        match (a, b) {
            (Cond::Known(true), _) | (_, Cond::Known(true)) => Cond::Known(true),
            (Cond::Known(false), other) | (other, Cond::Known(false)) => other,
            (Cond::Value(a), Cond::Value(b)) => {
                Cond::Value(self.push1(Op::Bin(BinOp::Or, a, b), Type::BOOL))
            }
        }
    }
}

/// Lookups of a map that some pointer points to.
fn pointed(state: &mut State, map: usize) -> BTreeSet<u32> {
    let mut used = BTreeSet::new();
    state.each(&mut |abs| {
        if let Abs::Value { lookup, .. } = abs {
            used.insert(*lookup);
        }
    });
    used.retain(|id| state.lookups.get(id).is_some_and(|found| found.map == map));
    used
}
