//! One table as it lies in memory of cores of 32 bits (`runtime/host/nf_tables.h`): filled before a
//! program starts, read when it has ended.

use std::collections::BTreeMap;

use nicforge_codegen::abi::{entry as head, table as field};
use nicforge_ir::{Entry, Match, TableId, TableKind};

use super::steer::key_hash;
use super::tables::{PlaceError, Source};

const NONE: u32 = u32::MAX;

/// Little-endian word at an offset; zero behind the end.
pub fn word(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).unwrap_or(&[0; 4]);
    u32::from_le_bytes([four[0], four[1], four[2], four[3]])
}

/// Writes bytes at an offset, if they fit.
pub fn put(bytes: &mut [u8], at: u32, what: &[u8]) {
    let at = at as usize;
    if let Some(place) = bytes.get_mut(at..at + what.len()) {
        place.copy_from_slice(what);
    }
}

/// Layout of a table's entries.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    kind: TableKind,
    pub capacity: u32,
    key_size: u32,
    value_size: u32,
    /// With the byte string.
    entry_size: u32,
    len_at: u32,
    has_buf: bool,
    value_at: u32,
    pub stride: u32,
}

impl Shape {
    /// An entry's key as it lies in memory: bits that do not count are zero, so keys that differ in
    /// them only are one entry's.
    fn own_key(&self, entry: &Entry) -> Vec<u8> {
        match &entry.matching {
            Match::Exact => entry.key.clone(),
            Match::Prefix(bits) => prefix(&entry.key, *bits, self.key_size),
            Match::Mask { mask, .. } => {
                let masked = entry.key.iter().zip(mask).map(|(key, mask)| key & mask);
                masked.chain(mask.iter().copied()).collect()
            }
        }
    }

    pub fn new(source: &Source, table: TableId) -> Shape {
        let def = &source.program.tables[table];
        let lies = &source.artifact.host.tables[table.as_u32() as usize];
        let (key, round) = (lies.key_size, |size: u32| size.next_multiple_of(8));
        let stored = match def.kind {
            TableKind::Lpm => key + 1 + u32::from(key > 31),
            TableKind::Ternary => 2 * key,
            _ => key,
        };
        let value_at = if def.kind == TableKind::Array { 0 } else { head::KEY + round(stored) };
        Shape {
            kind: def.kind,
            capacity: def.capacity,
            key_size: key,
            value_size: lies.value_size,
            entry_size: lies.entry_size,
            len_at: lies.len_at,
            has_buf: lies.buf_capacity > 0,
            value_at,
            stride: value_at + round(lies.entry_size),
        }
    }

    /// Live entries of the array of them.
    pub fn read(&self, bytes: &[u8]) -> Vec<Entry> {
        let mut found = Vec::new();
        let key_size = self.key_size as usize;
        for (number, entry) in bytes.chunks_exact(self.stride.max(1) as usize).enumerate() {
            let (key, matching) = if self.kind == TableKind::Array {
                ((number as u32).to_le_bytes().to_vec(), Match::Exact)
            } else {
                if word(entry, head::LIVE as usize) == 0 {
                    continue;
                }
                let key = entry[head::KEY as usize..][..key_size].to_vec();
                let matching = match self.kind {
                    TableKind::Lpm => Match::Prefix(word(entry, head::DETAIL as usize)),
                    TableKind::Ternary => {
                        let mask = entry[head::KEY as usize + key_size..][..key_size].to_vec();
                        Match::Mask { mask, priority: word(entry, head::DETAIL as usize) }
                    }
                    _ => Match::Exact,
                };
                (key, matching)
            };
            let value = &entry[self.value_at as usize..];
            let buf = self.has_buf.then(|| {
                let at = self.len_at as usize;
                let size = word(value, at).min(self.entry_size - self.len_at - 4) as usize;
                value[at + 4..at + 4 + size].to_vec()
            });
            found.push(Entry {
                key,
                matching,
                value: value[..self.value_size as usize].to_vec(),
                buf,
            });
        }
        found
    }
}

/// A filled table that does not know yet where it will lie.
pub struct TableImage {
    shape: Shape,
    count: u32,
    clock: u64,
    entries: Vec<u8>,
    index: Vec<u8>,
    uses: Vec<u8>,
    of_length: Vec<u8>,
    order: Vec<u8>,
    ordered: u32,
}

impl TableImage {
    /// # Errors
    /// It has no room for all its entries.
    pub fn new(source: &Source, table: TableId) -> Result<TableImage, PlaceError> {
        let shape = Shape::new(source, table);
        let capacity = shape.capacity as usize;
        let indexed = matches!(shape.kind, TableKind::Hash | TableKind::Lru | TableKind::Lpm);
        let slots = if indexed { (2 * capacity).next_power_of_two().max(8) } else { 0 };
        let lengths =
            if shape.kind == TableKind::Lpm { 8 * shape.key_size as usize + 1 } else { 0 };
        let order = if shape.kind == TableKind::Ternary { capacity } else { lengths };
        let mut image = TableImage {
            shape,
            count: 0,
            clock: 0,
            entries: vec![0; shape.stride as usize * capacity],
            index: vec![0; 8 * slots],
            uses: vec![0; if shape.kind == TableKind::Lru { 16 * capacity } else { 0 }],
            of_length: vec![0; 4 * lengths],
            order: vec![0; 4 * order],
            ordered: 0,
        };
        let mut numbers: BTreeMap<(Vec<u8>, Match), u32> = BTreeMap::new();
        for (_, entry) in source.entries.iter().filter(|(other, _)| *other == table) {
            let own = (image.shape.own_key(entry), entry.matching.clone());
            let known = numbers.get(&own).copied();
            let name = &source.program.tables[table].name;
            let full = || PlaceError::Full { table: name.clone(), capacity: shape.capacity };
            let number = image.put(entry, known).ok_or_else(full)?;
            numbers.insert(own, number);
        }
        image.sort(&numbers);
        Ok(image)
    }

    /// Of its arrays.
    pub fn bytes(&self) -> u64 {
        let parts = [&self.entries, &self.index, &self.uses, &self.of_length, &self.order];
        parts.iter().map(|part| part.len() as u64).sum()
    }

    /// Writes an entry; gives its number.
    fn put(&mut self, entry: &Entry, known: Option<u32>) -> Option<u32> {
        let shape = self.shape;
        let array = shape.kind == TableKind::Array;
        let number = match known {
            _ if array => word(&entry.key, 0),
            Some(number) => number,
            None => self.count,
        };
        if number >= shape.capacity {
            return None;
        }
        let at = number * shape.stride;
        if !array && known.is_none() {
            self.count += 1;
            let key = shape.own_key(entry);
            let detail = match &entry.matching {
                Match::Exact => number,
                Match::Prefix(bits) => *bits,
                Match::Mask { priority, .. } => *priority,
            };
            put(&mut self.entries, at + head::KEY, &key);
            let detail = if shape.kind == TableKind::Hash { 0 } else { detail };
            put(&mut self.entries, at + head::DETAIL, &detail.to_le_bytes());
            put(&mut self.entries, at + head::LIVE, &1u32.to_le_bytes());
            if !self.index.is_empty() {
                self.add(key_hash(&key), number);
            }
        }
        if shape.kind == TableKind::Lru {
            self.clock += 1;
            put(&mut self.entries, at, &self.clock.to_le_bytes());
            if known.is_none() {
                put(&mut self.uses, 16 * number, &self.clock.to_le_bytes());
                put(&mut self.uses, 16 * number + 8, &u64::from(number).to_le_bytes());
            }
        }
        put(&mut self.entries, at + shape.value_at, &entry.value);
        if let Some(buf) = entry.buf.as_deref().filter(|_| shape.has_buf) {
            put(
                &mut self.entries,
                at + shape.value_at + shape.len_at,
                &(buf.len() as u32).to_le_bytes(),
            );
            put(&mut self.entries, at + shape.value_at + shape.len_at + 4, buf);
        }
        Some(number)
    }

    fn add(&mut self, hash: u32, number: u32) {
        let mask = self.index.len() / 8 - 1;
        let mut at = hash as usize & mask;
        while word(&self.index, 8 * at + 4) != 0 {
            at = (at + 1) & mask;
        }
        put(&mut self.index, 8 * at as u32, &hash.to_le_bytes());
        put(&mut self.index, 8 * at as u32 + 4, &(number + 1).to_le_bytes());
    }

    /// Lists that lookups follow: lengths of prefixes, longest first, or entries by falling
    /// priority, then age.
    fn sort(&mut self, numbers: &BTreeMap<(Vec<u8>, Match), u32>) {
        let mut list: Vec<(u32, u32)> = Vec::new();
        for ((_, matching), number) in numbers {
            match matching {
                Match::Prefix(bits) => {
                    let now = word(&self.of_length, 4 * *bits as usize);
                    put(&mut self.of_length, 4 * bits, &(now + 1).to_le_bytes());
                    list.push((*bits, *bits));
                }
                Match::Mask { priority, .. } => list.push((*priority, *number)),
                Match::Exact => {}
            }
        }
        list.sort_by_key(|(rank, number)| (u32::MAX - rank, *number));
        list.dedup();
        self.ordered = list.len() as u32;
        for (at, (_, what)) in list.iter().enumerate() {
            put(&mut self.order, 4 * at as u32, &what.to_le_bytes());
        }
    }

    /// The table with its arrays at an address: description, arrays, and where the entries are.
    pub fn at(&self, at: u32) -> (Vec<u8>, Vec<u8>, u32) {
        let shape = &self.shape;
        let (mut bytes, mut arrays) = (vec![0; field::END as usize], Vec::new());
        let mut pointer = |part: &[u8], at_field: u32| {
            let address = at + arrays.len() as u32;
            if !part.is_empty() {
                put(&mut bytes, at_field, &address.to_le_bytes());
                arrays.extend_from_slice(part);
            }
            address
        };
        let entries = pointer(&self.entries, field::ENTRIES);
        pointer(&self.index, field::INDEX);
        pointer(&self.uses, field::USES);
        pointer(&self.of_length, field::OF_LENGTH);
        pointer(&self.order, field::ORDER);
        let mask = (self.index.len() as u32 / 8).saturating_sub(1);
        let words = [
            shape.kind.number(),
            shape.capacity,
            shape.key_size,
            shape.stride,
            shape.value_at,
            shape.entry_size,
            self.count,
            mask,
        ];
        for (at, word) in words.iter().enumerate() {
            put(&mut bytes, 4 * at as u32, &word.to_le_bytes());
        }
        put(&mut bytes, field::FREE, &NONE.to_le_bytes());
        let zeroed = if shape.has_buf { shape.len_at + 4 } else { shape.entry_size };
        put(&mut bytes, field::ZEROED, &zeroed.to_le_bytes());
        put(&mut bytes, field::CLOCK, &self.clock.to_le_bytes());
        put(&mut bytes, field::ORDERED, &self.ordered.to_le_bytes());
        (bytes, arrays, entries)
    }
}

/// A prefix as its index sees it: the bits that count, then how many there are.
fn prefix(key: &[u8], bits: u32, key_size: u32) -> Vec<u8> {
    let mut own: Vec<u8> = key
        .iter()
        .zip(0u32..)
        .map(|(byte, at)| match bits.saturating_sub(8 * at) {
            0 => 0,
            left @ 1..8 => byte & !(0xff >> left),
            _ => *byte,
        })
        .collect();
    own.push(bits as u8);
    if key_size > 31 {
        own.push((bits >> 8) as u8);
    }
    own
}
