//! The contents of one table.
//!
//! Hash, array and LRU tables are maps from key bytes; an array's absent entries are zero. LRU
//! order is a second map from the time of the last use, so that both using and evicting cost O(log
//! n). LPM tables are one map per prefix length, longest first; ternary tables a list in order of
//! insertion.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::program::TableKind;
use crate::tables::{Entry, Match};

/// Value and byte string of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    pub value: Vec<u8>,
    pub buf: Vec<u8>,
    /// LRU: when it was used last.
    used: u64,
}

/// Results of an insertion.
#[derive(Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The entry is there now; in LRU tables another one's key may have gone.
    Done {
        evicted: Option<Vec<u8>>,
    },
    Full,
}

/// A number by which a key is known: FNV-1a of 32 bits.
fn key_digest(key: &[u8]) -> u32 {
    key.iter()
        .fold(2_166_136_261, |digest, byte| (digest ^ u32::from(*byte)).wrapping_mul(16_777_619))
}

#[derive(Clone, Debug)]
struct TernaryRow {
    key: Vec<u8>,
    mask: Vec<u8>,
    priority: u32,
    slot: Slot,
}

/// Entries of one table.
#[derive(Clone, Debug)]
pub struct Store {
    kind: TableKind,
    capacity: usize,
    value_size: usize,
    exact: HashMap<Vec<u8>, Slot>,
    /// LRU: keys by time of last use.
    order: BTreeMap<u64, Vec<u8>>,
    clock: u64,
    prefixes: BTreeMap<u32, HashMap<Vec<u8>, Slot>>,
    rows: Vec<TernaryRow>,
    /// Of a hash table: how many of the next insertions are refused, in place of what the capacity
    /// says.
    pub refusing: Option<u32>,
    /// How many there are in front of these that are not.
    pub accepting: u32,
    /// Digests of keys that are refused beside these, each once.
    pub refused_keys: Vec<u32>,
    /// Of an LRU table: new keys and those whose places they take next, instead of what the
    /// capacity says.
    pub evicting: Option<VecDeque<(Vec<u8>, Vec<u8>)>>,
}

impl Store {
    pub fn new(kind: TableKind, capacity: u32, value_size: usize) -> Store {
        Store {
            kind,
            capacity: capacity as usize,
            value_size,
            exact: HashMap::new(),
            order: BTreeMap::new(),
            clock: 0,
            prefixes: BTreeMap::new(),
            rows: Vec::new(),
            refusing: None,
            accepting: 0,
            refused_keys: Vec::new(),
            evicting: None,
        }
    }

    pub fn len(&self) -> usize {
        self.exact.len() + self.prefixes.values().map(HashMap::len).sum::<usize>() + self.rows.len()
    }

    fn new_slot(&self) -> Slot {
        Slot { value: vec![0; self.value_size], buf: Vec::new(), used: 0 }
    }

    /// True if a key is a valid index of an array table (true for other kinds).
    pub fn in_range(&self, key: &[u8]) -> bool {
        self.kind != TableKind::Array || (index_of(key) as usize) < self.capacity
    }

    /// Notes a use of the entry under `key`, for LRU tables.
    fn touch(&mut self, key: &[u8]) {
        if self.kind != TableKind::Lru {
            return;
        }
        if let Some(slot) = self.exact.get_mut(key) {
            self.clock += 1;
            self.order.remove(&slot.used);
            slot.used = self.clock;
            self.order.insert(self.clock, key.to_vec());
        }
    }

    /// The entry of the longest prefix of `key` that has at most so many bits.
    pub fn find_prefix(&mut self, key: &[u8], most: u32) -> Option<&mut Slot> {
        let longest_first = self.prefixes.range_mut(..=most).rev();
        longest_first.map(|(bits, map)| map.get_mut(&prefix(key, *bits))).find_map(|slot| slot)
    }

    /// The entry that matches `key`, as a handler looks it up. Entries of arrays come into being
    /// here.
    pub fn find(&mut self, key: &[u8]) -> Option<&mut Slot> {
        match self.kind {
            TableKind::Hash => self.exact.get_mut(key),
            TableKind::Lru => {
                self.touch(key);
                self.exact.get_mut(key)
            }
            TableKind::Array => {
                if !self.in_range(key) {
                    return None;
                }
                let fresh = self.new_slot();
                Some(self.exact.entry(key.to_vec()).or_insert(fresh))
            }
            TableKind::Lpm => self.find_prefix(key, u32::MAX),
            TableKind::Ternary => {
                // `max_by_key` gives the last of equals; the first one set must win.
                let best = self
                    .rows
                    .iter_mut()
                    .rev()
                    .filter(|row| matches(row, key))
                    .max_by_key(|row| row.priority);
                best.map(|row| &mut row.slot)
            }
        }
    }

    /// Makes sure that there is an entry under `key` (hash, LRU and array tables), zero if it is
    /// new.
    pub fn ensure(&mut self, key: &[u8]) -> Inserted {
        if self.find(key).is_some() {
            return Inserted::Done { evicted: None };
        }
        if !self.kind.takes_inserts() {
            return Inserted::Full;
        }
        let mut evicted = None;
        if let (TableKind::Hash, Some(left)) = (self.kind, &mut self.refusing) {
            let digest = key_digest(key);
            if let Some(at) = self.refused_keys.iter().position(|refused| *refused == digest) {
                self.refused_keys.swap_remove(at);
                return Inserted::Full;
            }
            if self.accepting > 0 {
                self.accepting -= 1;
            } else if *left > 0 {
                *left -= 1;
                return Inserted::Full;
            }
        } else if let (TableKind::Lru, Some(keys)) = (self.kind, &mut self.evicting) {
            if let Some((_, gone)) = keys.pop_front_if(|(by, _)| by == key)
                && self.remove(&gone)
            {
                evicted = Some(gone);
            }
        } else if self.exact.len() >= self.capacity {
            if self.kind != TableKind::Lru {
                return Inserted::Full;
            }
            if let Some((_, oldest)) = self.order.pop_first() {
                self.exact.remove(&oldest);
                evicted = Some(oldest);
            }
        }
        self.exact.insert(key.to_vec(), self.new_slot());
        if self.kind == TableKind::Lru {
            self.clock += 1;
            self.order.insert(self.clock, key.to_vec());
            if let Some(slot) = self.exact.get_mut(key) {
                slot.used = self.clock;
            }
        }
        Inserted::Done { evicted }
    }

    /// Key and value of the entry that comes first by a number, then by its key.
    pub fn least(&self, order: impl Fn(&Slot) -> u64) -> Option<(Vec<u8>, Vec<u8>)> {
        let first = self.exact.iter().min_by_key(|(key, slot)| (order(slot), *key));
        first.map(|(key, slot)| (key.clone(), slot.value.clone()))
    }

    /// True if there was such an entry. An array's entry becomes zero instead.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        match self.exact.remove(key) {
            Some(slot) => {
                if self.kind == TableKind::Lru {
                    self.order.remove(&slot.used);
                }
                true
            }
            None => self.kind == TableKind::Array && self.in_range(key),
        }
    }

    // ---- from outside ----------------------------------------------------------------------------------

    /// The entry stored under exactly this key and match; not a use.
    pub fn stored(&self, key: &[u8], matching: &Match) -> Option<Slot> {
        match self.kind {
            TableKind::Array => self
                .in_range(key)
                .then(|| self.exact.get(key).cloned().unwrap_or_else(|| self.new_slot())),
            TableKind::Hash | TableKind::Lru => self.exact.get(key).cloned(),
            TableKind::Lpm => {
                let bits = prefix_bits(key, matching);
                self.prefixes.get(&bits)?.get(&prefix(key, bits)).cloned()
            }
            TableKind::Ternary => {
                let (mask, priority) = mask_of(key, matching);
                self.row(key, &mask, priority).map(|i| self.rows[i].slot.clone())
            }
        }
    }

    fn row(&self, key: &[u8], mask: &[u8], priority: u32) -> Option<usize> {
        let same = |row: &TernaryRow| {
            row.mask == mask && row.priority == priority && row.key == masked(key, mask)
        };
        self.rows.iter().position(same)
    }

    /// The entry to write under this key and match, made if it is new; `None` if the table is full.
    pub fn writable(&mut self, key: &[u8], matching: &Match) -> Option<&mut Slot> {
        let full = self.len() >= self.capacity;
        let fresh = self.new_slot();
        match self.kind {
            TableKind::Hash | TableKind::Lru | TableKind::Array => match self.ensure(key) {
                Inserted::Done { .. } => self.exact.get_mut(key),
                Inserted::Full => None,
            },
            TableKind::Lpm => {
                let bits = prefix_bits(key, matching);
                let key = prefix(key, bits);
                let map = self.prefixes.entry(bits).or_default();
                if full && !map.contains_key(&key) {
                    return None;
                }
                Some(map.entry(key).or_insert(fresh))
            }
            TableKind::Ternary => {
                let (mask, priority) = mask_of(key, matching);
                let at = match self.row(key, &mask, priority) {
                    Some(at) => at,
                    None if full => return None,
                    None => {
                        self.rows.push(TernaryRow {
                            key: masked(key, &mask),
                            mask,
                            priority,
                            slot: fresh,
                        });
                        self.rows.len() - 1
                    }
                };
                Some(&mut self.rows[at].slot)
            }
        }
    }

    /// True if there was such an entry.
    pub fn remove_stored(&mut self, key: &[u8], matching: &Match) -> bool {
        match self.kind {
            TableKind::Hash | TableKind::Lru | TableKind::Array => self.remove(key),
            TableKind::Lpm => {
                let bits = prefix_bits(key, matching);
                self.prefixes
                    .get_mut(&bits)
                    .is_some_and(|map| map.remove(&prefix(key, bits)).is_some())
            }
            TableKind::Ternary => {
                let (mask, priority) = mask_of(key, matching);
                self.row(key, &mask, priority).map(|at| self.rows.remove(at)).is_some()
            }
        }
    }

    /// All entries, sorted by key; an array's that are all zero are left out.
    pub fn entries(&self, with_buf: bool) -> Vec<Entry> {
        let entry = |key: &[u8], matching, slot: &Slot| Entry {
            key: key.to_vec(),
            matching,
            value: slot.value.clone(),
            buf: with_buf.then(|| slot.buf.clone()),
        };
        let zero = |slot: &Slot| slot.buf.is_empty() && slot.value.iter().all(|b| *b == 0);
        let exact =
            self.exact.iter().filter(|(_, slot)| self.kind != TableKind::Array || !zero(slot));
        let mut found: Vec<Entry> =
            exact.map(|(key, slot)| entry(key, Match::Exact, slot)).collect();
        for (bits, map) in &self.prefixes {
            found.extend(map.iter().map(|(key, slot)| entry(key, Match::Prefix(*bits), slot)));
        }
        for row in &self.rows {
            let matching = Match::Mask { mask: row.mask.clone(), priority: row.priority };
            found.push(entry(&row.key, matching, &row.slot));
        }
        found.sort_by(|a, b| (&a.key, &a.matching).cmp(&(&b.key, &b.matching)));
        found
    }
}

/// The index in an array's key.
pub fn index_of(key: &[u8]) -> u32 {
    key.try_into().map_or(u32::MAX, u32::from_le_bytes)
}

/// The key with everything behind its first `bits` bits zero; bits count from the most significant
/// of the first byte.
fn prefix(key: &[u8], bits: u32) -> Vec<u8> {
    let keep = |i: usize| match (bits as usize).saturating_sub(i * 8) {
        0 => 0u8,
        n if n >= 8 => 0xff,
        n => !(0xff >> n),
    };
    key.iter().enumerate().map(|(i, byte)| byte & keep(i)).collect()
}

fn masked(key: &[u8], mask: &[u8]) -> Vec<u8> {
    key.iter().zip(mask).map(|(k, m)| k & m).collect()
}

fn matches(row: &TernaryRow, key: &[u8]) -> bool {
    key.iter().zip(&row.mask).zip(&row.key).all(|((k, m), r)| k & m == *r)
}

/// An exact match in an LPM table is the longest prefix.
fn prefix_bits(key: &[u8], matching: &Match) -> u32 {
    match matching {
        Match::Prefix(bits) => *bits,
        _ => key.len() as u32 * 8,
    }
}

/// An exact match in a ternary table has all bits in its mask and the lowest priority.
fn mask_of(key: &[u8], matching: &Match) -> (Vec<u8>, u32) {
    match matching {
        Match::Mask { mask, priority } => (mask.clone(), *priority),
        _ => (vec![0xff; key.len()], 0),
    }
}
