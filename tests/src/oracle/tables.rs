//! Tables as plain maps and lists, as docs/language.md has them. Nothing is fast here.

use std::collections::BTreeMap;

use nicforge_ir::{Entry, Match};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Hash,
    Lru,
    Array,
    Lpm,
    Ternary,
}

/// What is stored under a key.
#[derive(Clone, Debug, Default)]
pub struct Slot {
    pub value: Vec<u8>,
    pub string: Vec<u8>,
    used: u64,
}

#[derive(Clone, Debug)]
struct Row {
    key: Vec<u8>,
    mask: Vec<u8>,
    matching: Match,
    slot: Slot,
}

#[derive(Clone, Debug)]
pub struct Table {
    pub name: String,
    pub kind: Kind,
    pub capacity: usize,
    /// Most bytes of a string; 0 where there are none.
    pub room: usize,
    pub key_mask: Vec<u8>,
    pub value_mask: Vec<u8>,
    pub refused: u64,
    pub evicted: u64,
    map: BTreeMap<Vec<u8>, Slot>,
    rows: Vec<Row>,
    clock: u64,
}

impl Table {
    pub fn new(
        name: String,
        kind: Kind,
        capacity: usize,
        room: usize,
        masks: [Vec<u8>; 2],
    ) -> Table {
        let [key_mask, value_mask] = masks;
        let (map, rows) = (BTreeMap::new(), Vec::new());
        Table {
            name,
            kind,
            capacity,
            room,
            key_mask,
            value_mask,
            refused: 0,
            evicted: 0,
            map,
            rows,
            clock: 0,
        }
    }

    /// True if an array has this index.
    fn exists(&self, key: &[u8]) -> bool {
        let index = key.try_into().map_or(u32::MAX, u32::from_le_bytes);
        (index as usize) < self.capacity
    }

    /// The entry that a look-up finds.
    pub fn find(&mut self, key: &[u8]) -> Option<&mut Slot> {
        self.find_bits(key, u32::MAX)
    }

    /// The entry that a look-up finds if prefixes of more than so many bits do not count.
    pub fn find_bits(&mut self, key: &[u8], bits: u32) -> Option<&mut Slot> {
        let fits =
            |row: &Row| key.iter().zip(&row.mask).zip(&row.key).all(|((k, m), r)| k & m == *r);
        match self.kind {
            Kind::Hash => self.map.get_mut(key),
            Kind::Lru => {
                self.clock += 1;
                let slot = self.map.get_mut(key)?;
                slot.used = self.clock;
                Some(slot)
            }
            Kind::Array => {
                let (exists, size) = (self.exists(key), self.value_mask.len());
                let zero = || Slot { value: vec![0; size], ..Slot::default() };
                exists.then(|| self.map.entry(key.to_vec()).or_insert_with(zero))
            }
            Kind::Lpm => {
                let length = |row: &Row| row.mask.iter().map(|byte| byte.count_ones()).sum::<u32>();
                self.rows
                    .iter_mut()
                    .filter(|row| fits(row) && length(row) <= bits)
                    .max_by_key(|row| length(row))
                    .map(|r| &mut r.slot)
            }
            Kind::Ternary => {
                let mut best: Option<&mut Row> = None;
                for row in self.rows.iter_mut().filter(|row| fits(row)) {
                    if best
                        .as_ref()
                        .is_none_or(|best| priority(&row.matching) > priority(&best.matching))
                    {
                        best = Some(row);
                    }
                }
                best.map(|row| &mut row.slot)
            }
        }
    }

    /// The entry under a key, a new one of zeros if there was none; none if a full table refuses
    /// it.
    pub fn make(&mut self, key: &[u8]) -> Option<&mut Slot> {
        if matches!(self.kind, Kind::Array | Kind::Lpm | Kind::Ternary) {
            return self.find(key);
        }
        self.clock += 1;
        if !self.map.contains_key(key) {
            if self.map.len() >= self.capacity {
                if self.kind == Kind::Hash {
                    self.refused += 1;
                    return None;
                }
                let oldest =
                    self.map.iter().min_by_key(|(_, slot)| slot.used).map(|(key, _)| key.clone());
                self.map.remove(&oldest.expect("a full table has an entry"));
                self.evicted += 1;
            }
            let value = vec![0; self.value_mask.len()];
            self.map.insert(key.to_vec(), Slot { value, ..Slot::default() });
        }
        let slot = self.map.get_mut(key)?;
        slot.used = self.clock;
        Some(slot)
    }

    /// Key and value of the entry with the least number at a place of its value; of equal ones the
    /// first key.
    pub fn least(&self, at: usize, size: usize, signed: bool) -> Option<(Vec<u8>, Vec<u8>)> {
        let number = |slot: &Slot| {
            let mut bytes = [0; 16];
            bytes[..size].copy_from_slice(&slot.value[at..at + size]);
            let number = i128::from_le_bytes(bytes);
            if signed && number >> (8 * size - 1) != 0 {
                number - (1 << (8 * size))
            } else {
                number
            }
        };
        let least = self.map.iter().min_by_key(|(_, slot)| number(slot));
        least.map(|(key, slot)| (key.clone(), slot.value.clone()))
    }

    pub fn remove(&mut self, key: &[u8]) -> bool {
        self.map.remove(key).is_some() || (self.kind == Kind::Array && self.exists(key))
    }

    /// Puts an entry from outside.
    pub fn set(&mut self, entry: &Entry) {
        let string = entry.buf.clone();
        if !matches!(self.kind, Kind::Lpm | Kind::Ternary) {
            if let Some(slot) = self.make(&entry.key) {
                slot.value.clone_from(&entry.value);
                slot.string = string.unwrap_or_default();
            }
            return;
        }
        let bits = 8 * entry.key.len() as u32;
        let (matching, mask) = match (&entry.matching, self.kind) {
            (Match::Prefix(bits), _) => (entry.matching.clone(), ones(*bits, entry.key.len())),
            (Match::Mask { mask, .. }, _) => (entry.matching.clone(), mask.clone()),
            (Match::Exact, Kind::Lpm) => (Match::Prefix(bits), ones(bits, entry.key.len())),
            (Match::Exact, _) => {
                let mask = ones(bits, entry.key.len());
                (Match::Mask { mask: mask.clone(), priority: 0 }, mask)
            }
        };
        let key: Vec<u8> = entry.key.iter().zip(&mask).map(|(k, m)| k & m).collect();
        let slot = Slot { value: entry.value.clone(), string: string.unwrap_or_default(), used: 0 };
        match self.rows.iter_mut().find(|row| row.key == key && row.matching == matching) {
            Some(row) => row.slot = slot,
            None => self.rows.push(Row { key, mask, matching, slot }),
        }
    }

    /// What is in it, sorted; an array's entries that are zero are left out.
    pub fn entries(&self) -> Vec<Entry> {
        let entry = |key: &Vec<u8>, matching: Match, slot: &Slot| Entry {
            key: key.clone(),
            matching,
            value: slot.value.clone(),
            buf: (self.room > 0).then(|| slot.string.clone()),
        };
        let zero = |slot: &Slot| slot.string.is_empty() && slot.value.iter().all(|byte| *byte == 0);
        let shown = self.map.iter().filter(|(_, slot)| self.kind != Kind::Array || !zero(slot));
        let mut found: Vec<Entry> =
            shown.map(|(key, slot)| entry(key, Match::Exact, slot)).collect();
        found.extend(self.rows.iter().map(|row| entry(&row.key, row.matching.clone(), &row.slot)));
        found.sort_by(|a, b| (&a.key, &a.matching).cmp(&(&b.key, &b.matching)));
        found
    }
}

fn priority(matching: &Match) -> u32 {
    match matching {
        Match::Mask { priority, .. } => *priority,
        _ => 0,
    }
}

/// The first `bits` bits, the most significant of each byte first.
fn ones(bits: u32, bytes: usize) -> Vec<u8> {
    let byte = |at: usize| {
        (0..8).filter(|bit| ((8 * at + bit) as u32) < bits).map(|bit| 0x80u8 >> bit).sum()
    };
    (0..bytes).map(byte).collect()
}
