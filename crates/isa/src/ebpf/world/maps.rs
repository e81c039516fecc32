//! Contents of maps. A value per CPU is one value, since there is one CPU.

use std::collections::HashMap;

use crate::ebpf::{Memory, RegionId};
use crate::object::Map;

/// Types of maps, as the kernel's interface numbers them.
const HASHES: [u32; 4] = [1, 5, LRU, LRU_PERCPU];
pub const ARRAYS: [u32; 2] = [2, 6];
const LRU: u32 = 9;
const LRU_PERCPU: u32 = 10;
pub const TRIE: u32 = 11;

/// Contents of one map.
pub enum Contents {
    /// Variables: one value, where programs know its place.
    Variables(RegionId),
    /// Zeroes where nothing was written.
    Array(HashMap<u64, RegionId>),
    Hash {
        entries: HashMap<Vec<u8>, Slot>,
        uses: u64,
    },
    Trie(HashMap<Vec<u8>, RegionId>),
    /// Things behind the hook.
    Nothing,
}

/// An entry of a hash map.
#[derive(Clone, Copy)]
pub struct Slot {
    value: RegionId,
    /// Number of its last use.
    used: u64,
}

/// True if the first bits of two keys are equal.
fn agree(a: &[u8], b: &[u8], bits: usize) -> bool {
    let (whole, rest) = (bits / 8, bits % 8);
    let rest_agrees = || {
        let mask = !(0xffu16 >> rest) as u8;
        a.get(whole).zip(b.get(whole)).is_some_and(|(a, b)| (a ^ b) & mask == 0)
    };
    a.get(..whole) == b.get(..whole) && (rest == 0 || rest_agrees())
}

/// The length and the bytes of a trie's key.
fn prefix(key: &[u8]) -> Option<(usize, &[u8])> {
    let (bits, bytes) = key.split_first_chunk()?;
    Some((u32::from_le_bytes(*bits) as usize, bytes))
}

impl Contents {
    /// As an object has a map.
    pub fn new(map: &Map, memory: &mut Memory) -> Contents {
        match map.kind {
            None => {
                let mut data = map.data.clone();
                data.resize(data.len().max(map.value_size as usize), 0);
                Contents::Variables(memory.add(data))
            }
            Some(kind) if ARRAYS.contains(&kind) => Contents::Array(HashMap::new()),
            Some(kind) if HASHES.contains(&kind) => {
                Contents::Hash { entries: HashMap::new(), uses: 0 }
            }
            Some(TRIE) => Contents::Trie(HashMap::new()),
            Some(_) => Contents::Nothing,
        }
    }

    /// Entries that a search goes through.
    pub fn len(&self) -> usize {
        match self {
            Contents::Trie(entries) => entries.len(),
            Contents::Hash { entries, .. } => entries.len(),
            _ => 0,
        }
    }

    /// Where a hash map has a key's value.
    pub fn place(&self, key: &[u8]) -> Option<RegionId> {
        match self {
            Contents::Hash { entries, .. } => entries.get(key).map(|slot| slot.value),
            _ => None,
        }
    }

    /// The value of a key, where one is.
    pub fn lookup(&mut self, map: &Map, memory: &mut Memory, key: &[u8]) -> Option<RegionId> {
        match self {
            Contents::Variables(region) => Some(*region),
            Contents::Array(values) => {
                let index = u32::from_le_bytes(*key.first_chunk()?);
                let zero = || memory.add(vec![0; map.value_size as usize]);
                (index < map.max_entries).then(|| *values.entry(index.into()).or_insert_with(zero))
            }
            Contents::Hash { entries, uses } => {
                *uses += 1;
                let slot = entries.get_mut(key)?;
                slot.used = *uses;
                Some(slot.value)
            }
            Contents::Trie(entries) => {
                let (bits, wanted) = prefix(key)?;
                let fits = |(key, region): (&Vec<u8>, &RegionId)| {
                    let (length, bytes) = prefix(key)?;
                    (length <= bits && agree(bytes, wanted, length)).then_some((length, *region))
                };
                let best = entries.iter().filter_map(fits).max_by_key(|(length, _)| *length);
                best.map(|(_, region)| region)
            }
            Contents::Nothing => None,
        }
    }

    /// Sets the value of a key; nothing if there is no room or no such key.
    pub fn update(
        &mut self,
        map: &Map,
        memory: &mut Memory,
        key: &[u8],
        value: &[u8],
    ) -> Option<()> {
        let known = match self {
            // Not the longest that fits, but this very prefix.
            Contents::Trie(entries) => entries.get(key).copied(),
            _ => self.lookup(map, memory, key),
        };
        if let Some(region) = known {
            let bytes = memory.bytes_mut(region);
            let size = bytes.len().min(value.len());
            bytes[..size].copy_from_slice(&value[..size]);
            return Some(());
        }
        let full = self.len() >= map.max_entries as usize;
        match self {
            Contents::Hash { entries, uses } => {
                if full && !matches!(map.kind, Some(LRU | LRU_PERCPU)) {
                    return None;
                }
                if full {
                    let oldest = entries.iter().min_by_key(|(_, slot)| slot.used)?.0.clone();
                    entries.remove(&oldest);
                }
                let slot = Slot { value: memory.add(value.to_vec()), used: *uses };
                entries.insert(key.to_vec(), slot);
                Some(())
            }
            Contents::Trie(entries) if !full => {
                entries.insert(key.to_vec(), memory.add(value.to_vec()));
                Some(())
            }
            _ => None,
        }
    }

    /// Removes a key; nothing if it was not there.
    pub fn delete(&mut self, key: &[u8]) -> Option<()> {
        match self {
            Contents::Hash { entries, .. } => entries.remove(key).map(|_| ()),
            Contents::Trie(entries) => entries.remove(key).map(|_| ()),
            _ => None,
        }
    }
}
