//! What maps hold: arrays are memory by index; of others, the keys that a program looked for, each
//! with an entry or none. Keys that may or may not be one that is known make two paths.

use crate::ebpf::{VALUES, VALUES_EACH, of_maps, stride};
use crate::term::{Op, Term};

use super::Prover;
use super::calls::Called;
use super::memory::LPM;
use super::state::{Entry, Key, State};

/// Results of updates and deletes that fail, as the kernel numbers them.
const NOT_THERE: u64 = -2i64 as u64;
const TOO_MUCH: u64 = -7i64 as u64;
const THERE: u64 = -17i64 as u64;
const INVALID: u64 = -22i64 as u64;
/// Values that updates make have numbers from here on.
const MADE: u64 = 1 << 20;
/// Kinds whose entries are found by key: hash, per CPU, LRU, both, and LPM for lookups.
const HASHES: [u32; 4] = [1, 5, 9, 10];
/// Question whether a map has room for one entry more; no helper has this number.
pub const ROOM: i32 = -1;

impl Prover<'_> {
    /// An array whose index is its key.
    pub fn array(&self, map: usize) -> bool {
        // Kinds 2 and 6: array, array per CPU.
        matches!(self.maps[map].kind, Some(2 | 6)) && self.maps[map].key_size == 4
    }

    /// Region of a map's values.
    pub fn region_of(&self, map: usize) -> u32 {
        let base = VALUES + map as u64 * VALUES_EACH;
        self.regions.iter().position(|region| region.base == base).unwrap_or(0) as u32
    }

    /// Address of a value by its number.
    pub fn value_at(&self, map: usize, slot: u64) -> u64 {
        VALUES + map as u64 * VALUES_EACH + slot * stride(&self.maps[map])
    }

    /// Where an array's value is whose index an argument points to; a state where the array has that
    /// index, and one where not.
    fn element(
        &mut self,
        mut state: State,
        map: usize,
    ) -> Result<(Term, [Option<State>; 2]), Vec<State>> {
        let at = self.arg(&mut state, 2);
        let (state, index) = self.load(state, at, 4)?;
        let limit = self.terms.constant(32, self.maps[map].max_entries.into());
        let inside = self.terms.ult(index, limit);
        let ways = self.branch(state, inside);
        let wide = self.terms.zext(index, 64);
        let stride = self.terms.constant(64, stride(&self.maps[map]));
        let base = self.terms.constant(64, VALUES + map as u64 * VALUES_EACH);
        let at = self.terms.binary(Op::Mul, wide, stride);
        Ok((self.terms.binary(Op::Add, at, base), ways))
    }

    /// The key of a map in what is known of it: in which states it is which.
    pub fn find(&mut self, mut state: State, map: usize, words: Vec<Term>) -> Vec<(State, usize)> {
        let same = |key: &Key| key.map == map && key.words == words;
        if let Some(known) = state.keys.iter().position(same) {
            return vec![(state, known)];
        }
        let mut found = Vec::new();
        for known in 0..state.keys.len() {
            if state.keys[known].map != map {
                continue;
            }
            let theirs = state.keys[known].words.clone();
            let equal = self.all_equal(&theirs, &words);
            let [yes, no] = self.branch(state, equal);
            found.extend(yes.map(|state| (state, known)));
            match no {
                Some(no) => state = no,
                None => return found,
            }
        }
        let present = self.terms.fresh(1);
        let slot = state.keys.iter().filter(|key| key.map == map).count() as u64;
        state.keys.push(Key { map, words, present, slot });
        let last = state.keys.len() - 1;
        found.push((state, last));
        found
    }

    /// Bytes of a map's key that an argument points to.
    fn key(&mut self, mut state: State, map: usize) -> Result<(State, Vec<Term>), Vec<State>> {
        let at = self.arg(&mut state, 2);
        self.words(state, at, self.maps[map].key_size.into())
    }

    pub fn lookup(&mut self, state: State) -> Called {
        let (state, map) = self.map(state, 1)?;
        let shape = &self.maps[map];
        // Kinds 22 and 23: queue and stack; they have no keys.
        if of_maps(shape) || matches!(shape.kind, None | Some(3 | 4 | 22 | 23)) {
            let reason = format!("map `{}`: maps of maps are not followed", shape.name);
            return Err(vec![state.stuck(reason)]);
        }
        let null = self.terms.constant(64, 0);
        if self.array(map) {
            let (place, [yes, no]) = self.element(state, map)?;
            let found = yes.map(|state| self.returns(state, place));
            let missed = no.map(|state| self.returns(state, null));
            return Ok(found.into_iter().chain(missed).collect());
        }
        let (state, words) = self.key(state, map)?;
        let written = state.written.contains_key(&self.region_of(map));
        let lpm = self.maps[map].kind == Some(LPM);
        let mut done = Vec::new();
        for (state, key) in self.find(state, map, words) {
            let several = state.keys.iter().filter(|key| key.map == map).count() > 1;
            if lpm && written && several {
                done.push(state.stuck("several LPM entries, of which one was written"));
                continue;
            }
            let entry = state.entry(key);
            let [yes, no] = self.branch(state, entry.present);
            let place = self.terms.constant(64, self.value_at(map, entry.slot));
            done.extend(yes.map(|state| self.returns(state, place)));
            done.extend(no.map(|state| self.returns(state, null)));
        }
        Ok(done)
    }

    pub fn update(&mut self, state: State) -> Called {
        let (state, map) = self.map(state, 1)?;
        let (state, flags) = self.number(state, 4)?;
        let size = u64::from(self.maps[map].value_size);
        let name = self.maps[map].name.clone();
        if flags > 2 {
            return Ok(vec![self.returns_number(state, INVALID)]);
        }
        let array = self.array(map);
        if !array && !self.maps[map].kind.is_some_and(|kind| HASHES.contains(&kind)) {
            return Err(vec![state.stuck(format!("an update of map `{name}`, of this kind"))]);
        }
        let mut state = state;
        let from = self.arg(&mut state, 3);
        let (state, value) = self.words(state, from, size)?;
        if array {
            let (place, [yes, no]) = self.element(state, map)?;
            let mut done = Vec::new();
            if let Some(mut state) = yes {
                if flags == 1 {
                    done.push(self.returns_number(state, THERE));
                } else {
                    self.put(&mut state, map, place, &value);
                    done.push(self.returns_number(state, 0));
                }
            }
            done.extend(no.map(|state| self.returns_number(state, TOO_MUCH)));
            return Ok(done);
        }
        let (state, words) = self.key(state, map)?;
        let mut done = Vec::new();
        for (state, key) in self.find(state, map, words) {
            let entry = state.entry(key);
            let [yes, no] = self.branch(state, entry.present);
            if let Some(state) = yes {
                done.push(match flags {
                    1 => self.returns_number(state, THERE),
                    _ => self.replace(state, map, key, &value),
                });
            }
            let Some(state) = no else { continue };
            if flags == 2 {
                done.push(self.returns_number(state, NOT_THERE));
                continue;
            }
            // Kinds 9 and 10 make room.
            if matches!(self.maps[map].kind, Some(9 | 10)) {
                done.push(self.replace(state, map, key, &value));
                continue;
            }
            let more = state.grown.get(&map).copied().unwrap_or(0);
            let inputs =
                vec![self.terms.constant(64, map as u64), self.terms.constant(64, more as u64)];
            done.extend(self.forked(state, ROOM, inputs, |me, mut state, ok| {
                if !ok {
                    return vec![me.returns_number(state, TOO_MUCH)];
                }
                *state.grown.entry(map).or_default() += 1;
                vec![me.replace(state, map, key, &value)]
            }));
        }
        Ok(done)
    }

    /// A new value for a key. What points to the old one points to nothing that is seen.
    fn replace(&mut self, mut state: State, map: usize, key: usize, value: &[Term]) -> State {
        let slot = MADE + state.made;
        state.made += 1;
        let place = self.terms.constant(64, self.value_at(map, slot));
        self.put(&mut state, map, place, value);
        let present = self.terms.boolean(true);
        state.now.insert(key, Entry { present, slot });
        self.returns_number(state, 0)
    }

    fn put(&mut self, state: &mut State, map: usize, place: Term, value: &[Term]) {
        let (region, mut at) = (self.region_of(map), 0);
        for word in value {
            let to = self.beyond(place, at);
            self.write(state, region, to, *word);
            at += u64::from(self.terms.bits(*word) / 8);
        }
    }

    pub fn delete(&mut self, state: State) -> Called {
        let (state, map) = self.map(state, 1)?;
        if self.array(map) {
            return Ok(vec![self.returns_number(state, INVALID)]);
        }
        if !self.maps[map].kind.is_some_and(|kind| HASHES.contains(&kind)) {
            let name = &self.maps[map].name;
            let reason = format!("a deletion in map `{name}`, of this kind");
            return Err(vec![state.stuck(reason)]);
        }
        let (state, words) = self.key(state, map)?;
        let mut done = Vec::new();
        for (state, key) in self.find(state, map, words) {
            let entry = state.entry(key);
            let [yes, no] = self.branch(state, entry.present);
            if let Some(mut state) = yes {
                let present = self.terms.boolean(false);
                state.now.insert(key, Entry { present, ..entry });
                *state.grown.entry(map).or_default() -= 1;
                done.push(self.returns_number(state, 0));
            }
            done.extend(no.map(|state| self.returns_number(state, NOT_THERE)));
        }
        Ok(done)
    }
}
