//! Tables of a loaded program, as the control plane sees them.

mod store;

use std::sync::Arc;

use libbpf_rs::{MapCore, MapHandle};
use nicforge_codegen::{XdpArtifact, XdpBuf, XdpMapShape, XdpRule, XdpTable};
use nicforge_ir::{Entry, Match, Program, TableBackend, TableError, TableId, Type};
use nicforge_isa::object;

use super::error::XdpError;
use crate::process::Shared;
use store::{InKernel, Listed, Store};

/// The tables of one loaded program. Clones are the same tables; they stay readable after the
/// program is gone.
#[derive(Clone)]
pub struct Tables {
    maps: Arc<[TableMap]>,
    process: Option<Inside>,
}

/// Tables of the handlers that run in this process.
#[derive(Clone)]
struct Inside {
    shared: Arc<Shared>,
    own: Arc<[TableId]>,
    /// There are two of each, with the same entries.
    copied: Arc<[TableId]>,
}

/// One table's map and everything that is known about its layout.
struct TableMap {
    table: TableId,
    /// The table's name, and that of its map.
    name: String,
    map: String,
    shape: XdpMapShape,
    buf: Option<XdpBuf>,
    store: Box<dyn Store>,
    /// Bytes of αIR's key and value, and those in front of the value in the map's.
    key_size: usize,
    value_size: usize,
    front: usize,
    /// Bytes of the map's value.
    map_value: usize,
    capacity: u32,
    /// Offsets of key, mask and value in an entry of a [`XdpMapShape::TernaryList`].
    ternary: (usize, usize, usize),
}

type Result<T> = std::result::Result<T, TableError>;

impl Tables {
    /// Tables of a program in the kernel's maps, which `map` finds by their names.
    pub(crate) fn new(
        program: &Program,
        tables: &[XdpTable],
        map: &dyn Fn(&str) -> Option<MapHandle>,
    ) -> std::result::Result<Tables, XdpError> {
        let in_kernel = |table: &XdpTable| {
            let map = map(&table.map).ok_or_else(|| missing(program, table))?;
            let sizes = [map.key_size(), map.value_size(), map.max_entries()];
            let integers = match table.shape {
                XdpMapShape::PerCpuSum => integers(program, program.tables[table.table].value, 0),
                _ => Vec::new(),
            };
            let name = program.tables[table.table].name.clone();
            let store = InKernel::new(&map, name, table.shape, integers);
            let store =
                store.map_err(|error| XdpError::kernel("duplicate a file descriptor", error))?;
            TableMap::new(program, table, sizes, Box::new(store))
        };
        let maps: std::result::Result<Vec<TableMap>, XdpError> =
            tables.iter().map(in_kernel).collect();
        Ok(Tables { maps: maps?.into(), process: None })
    }

    /// Tables that are lists in memory, with the maps of an object in no kernel.
    ///
    /// # Errors
    /// The object lacks a map of the program.
    pub fn listed(
        program: &Program,
        tables: &[XdpTable],
        maps: &[object::Map],
    ) -> std::result::Result<Tables, XdpError> {
        let in_memory = |table: &XdpTable| {
            let map = maps.iter().find(|map| map.name == table.map);
            let map = map.ok_or_else(|| missing(program, table))?;
            let sizes = [map.key_size, map.value_size, map.max_entries];
            let zero = match table.shape {
                XdpMapShape::Exact | XdpMapShape::Lpm => None,
                _ => Some(vec![0; map.value_size as usize]),
            };
            TableMap::new(program, table, sizes, Box::new(Listed::new(zero)))
        };
        let maps: std::result::Result<Vec<TableMap>, XdpError> =
            tables.iter().map(in_memory).collect();
        Ok(Tables { maps: maps?.into(), process: None })
    }

    /// What maps hold that are lists in memory: map, key and value.
    pub fn entries(&self) -> Vec<(String, Vec<u8>, Vec<u8>)> {
        let all = self.maps.iter().flat_map(|map| {
            map.store.entries().into_iter().map(|(key, value)| (map.map.clone(), key, value))
        });
        all.collect()
    }

    /// The same with those of handlers that run in this process.
    pub(super) fn and_of(mut self, process: Option<Arc<Shared>>, artifact: &XdpArtifact) -> Tables {
        self.process = process.zip(artifact.process.as_ref()).map(|(shared, process)| Inside {
            shared,
            own: process.tables.clone().into(),
            copied: process.copied.clone().into(),
        });
        self
    }

    /// The process, if the table lives there.
    fn inside(&self, table: TableId) -> Option<&Shared> {
        self.process
            .as_ref()
            .filter(|inside| inside.own.contains(&table))
            .map(|inside| &*inside.shared)
    }

    /// The process, if it has the table too.
    fn copied(&self, table: TableId) -> Option<&Shared> {
        self.process
            .as_ref()
            .filter(|inside| inside.copied.contains(&table))
            .map(|inside| &*inside.shared)
    }

    fn map(&self, table: TableId) -> Result<&TableMap> {
        self.maps.iter().find(|map| map.table == table).ok_or_else(|| TableError::Target {
            table: format!("number {}", table.as_u32()),
            message: "the loaded program does not have it: nothing uses it".to_string(),
        })
    }
}

impl TableBackend for Tables {
    fn get(&self, table: TableId, key: &[u8], matching: &Match) -> Result<Option<Entry>> {
        if let Some(process) = self.inside(table) {
            return process.get(table, key, matching);
        }
        let map = self.map(table)?;
        map.check(key, matching)?;
        match map.shape {
            XdpMapShape::Exact => {
                map.store.lookup(key).map(|found| found.map(|raw| map.entry(key, &raw)))
            }
            XdpMapShape::Array | XdpMapShape::PerCpuSum => {
                let index = map.index(key)?;
                let raw = map.store.lookup(&index.to_le_bytes())?;
                Ok(raw.map(|raw| map.entry(key, &raw)))
            }
            XdpMapShape::Lpm | XdpMapShape::TernaryList => {
                let (key, matching) = normal(key, matching);
                Ok(map
                    .dump()?
                    .into_iter()
                    .find(|entry| entry.key == key && entry.matching == matching))
            }
        }
    }

    fn set(&mut self, table: TableId, entry: &Entry) -> Result<()> {
        if let Some(process) = self.inside(table).or(self.copied(table)) {
            process.set(table, entry)?;
        }
        if self.inside(table).is_some() {
            return Ok(());
        }
        let map = self.map(table)?;
        map.check(&entry.key, &entry.matching)?;
        let raw = map.raw_value(entry)?;
        match map.shape {
            XdpMapShape::Exact => map.store.update(&entry.key, &raw),
            XdpMapShape::Array | XdpMapShape::PerCpuSum => {
                map.store.update(&map.index(&entry.key)?.to_le_bytes(), &raw)
            }
            XdpMapShape::Lpm => map.store.update(&lpm_key(&entry.key, &entry.matching), &raw),
            XdpMapShape::TernaryList => map.ternary_set(entry),
        }
    }

    fn delete(&mut self, table: TableId, key: &[u8], matching: &Match) -> Result<bool> {
        if let Some(process) = self.inside(table).or(self.copied(table)) {
            let was = process.delete(table, key, matching)?;
            if self.inside(table).is_some() {
                return Ok(was);
            }
        }
        let map = self.map(table)?;
        map.check(key, matching)?;
        match map.shape {
            XdpMapShape::Exact => map.store.remove(key),
            XdpMapShape::Array | XdpMapShape::PerCpuSum => {
                let index = map.index(key)?.to_le_bytes();
                let was =
                    map.store.lookup(&index)?.is_some_and(|raw| raw.iter().any(|byte| *byte != 0));
                map.store.update(&index, &vec![0; map.map_value])?;
                Ok(was)
            }
            XdpMapShape::Lpm => map.store.remove(&lpm_key(key, matching)),
            XdpMapShape::TernaryList => map.ternary_delete(key, matching),
        }
    }

    fn dump(&self, table: TableId) -> Result<Vec<Entry>> {
        if let Some(process) = self.inside(table) {
            return process.dump(table);
        }
        let mut entries = self.map(table)?.dump()?;
        entries.sort();
        Ok(entries)
    }
}

impl TableMap {
    fn new(
        program: &Program,
        table: &XdpTable,
        [map_key, map_value, capacity]: [u32; 3],
        store: Box<dyn Store>,
    ) -> std::result::Result<TableMap, XdpError> {
        let def = &program.tables[table.table];
        let (key, value) = (program.layout(def.key), program.layout(def.value));
        let rule = XdpRule::of(program, table.table, table.front);
        let with_buf = match table.buf {
            None => table.front + value.size,
            Some(buf) => buf.value_size,
        };
        let expected = match table.shape {
            XdpMapShape::Exact => (key.size, with_buf),
            XdpMapShape::Array | XdpMapShape::PerCpuSum => (4, with_buf),
            XdpMapShape::Lpm => (4 + key.size, with_buf),
            XdpMapShape::TernaryList => (4, rule.value + value.size),
        };
        // The C compiler may pad the end of a map value that is a struct.
        let fits = map_value >= expected.1 && map_value < expected.1 + 8;
        if map_key != expected.0 || !fits {
            return Err(XdpError::Contract(format!(
                "table `{}`: map `{}` has keys of {map_key} and values of {map_value} bytes, \
                 {} and {} were expected",
                def.name, table.map, expected.0, expected.1
            )));
        }
        Ok(TableMap {
            table: table.table,
            name: def.name.clone(),
            map: table.map.clone(),
            shape: table.shape,
            buf: table.buf,
            store,
            key_size: key.size as usize,
            value_size: value.size as usize,
            front: table.front as usize,
            map_value: map_value as usize,
            capacity,
            ternary: (rule.key as usize, rule.mask as usize, rule.value as usize),
        })
    }

    fn target(&self, message: impl Into<String>) -> TableError {
        TableError::Target { table: self.name.clone(), message: message.into() }
    }

    /// Checks that the key has the right length and the match the table's kind.
    fn check(&self, key: &[u8], matching: &Match) -> Result<()> {
        if key.len() != self.key_size {
            let (given, wanted) = (key.len(), self.key_size);
            return Err(self.target(format!("its keys have {wanted} bytes, {given} were given")));
        }
        match (self.shape, matching) {
            (XdpMapShape::Exact | XdpMapShape::Array | XdpMapShape::PerCpuSum, Match::Exact) => {
                Ok(())
            }
            (XdpMapShape::Lpm, Match::Prefix(bits)) if *bits as usize <= 8 * self.key_size => {
                Ok(())
            }
            (XdpMapShape::Lpm, Match::Prefix(bits)) => {
                Err(self
                    .target(format!("its keys have {} bits, the prefix {bits}", 8 * self.key_size)))
            }
            (XdpMapShape::TernaryList, Match::Mask { mask, .. }) if mask.len() == self.key_size => {
                Ok(())
            }
            (XdpMapShape::Lpm, _) => {
                Err(self.target("it is an lpm table: an entry needs a prefix length"))
            }
            (XdpMapShape::TernaryList, _) => Err(self.target(
                "it is a ternary table: an entry needs a mask as long as the key, and a priority",
            )),
            _ => Err(self.target("its keys match exactly: no prefix, no mask")),
        }
    }

    /// The index an array's key stands for.
    fn index(&self, key: &[u8]) -> Result<u32> {
        let mut wide = [0; 8];
        let taken = key.len().min(8);
        wide[..taken].copy_from_slice(&key[..taken]);
        let index = u32::try_from(u64::from_le_bytes(wide)).unwrap_or(u32::MAX);
        if index < self.capacity {
            return Ok(index);
        }
        Err(TableError::OutOfRange { table: self.name.clone(), index, capacity: self.capacity })
    }

    /// αIR's entry from a map value (per CPU: already added up).
    fn entry(&self, key: &[u8], raw: &[u8]) -> Entry {
        Entry {
            key: key.to_vec(),
            matching: Match::Exact,
            value: raw[self.front..][..self.value_size].to_vec(),
            buf: self.buf.map(|buf| {
                let at = buf.len_offset as usize;
                let len = u32::from_le_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]])
                    .min(buf.capacity);
                raw[buf.bytes_offset as usize..][..len as usize].to_vec()
            }),
        }
    }

    /// The map value of an entry, without the ternary list's head.
    fn raw_value(&self, entry: &Entry) -> Result<Vec<u8>> {
        if entry.value.len() != self.value_size {
            let (given, wanted) = (entry.value.len(), self.value_size);
            return Err(self.target(format!("its values have {wanted} bytes, {given} were given")));
        }
        let mut raw = vec![0; self.map_value];
        raw[self.front..][..self.value_size].copy_from_slice(&entry.value);
        match (self.buf, &entry.buf) {
            (_, None) => {}
            (None, Some(_)) => return Err(self.target("its entries have no byte string")),
            (Some(buf), Some(bytes)) if bytes.len() <= buf.capacity as usize => {
                raw[buf.len_offset as usize..][..4]
                    .copy_from_slice(&(bytes.len() as u32).to_le_bytes());
                raw[buf.bytes_offset as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            (Some(buf), Some(bytes)) => {
                let (given, most) = (bytes.len(), buf.capacity);
                return Err(self.target(format!(
                    "its byte strings have at most {most} bytes, {given} were given"
                )));
            }
        }
        Ok(raw)
    }

    /// All entries, in no order.
    fn dump(&self) -> Result<Vec<Entry>> {
        match self.shape {
            XdpMapShape::Array | XdpMapShape::PerCpuSum => {
                let mut entries = Vec::new();
                for index in 0..self.capacity {
                    let raw = self.store.lookup(&index.to_le_bytes())?.unwrap_or_default();
                    let mut key = u64::from(index).to_le_bytes().to_vec();
                    key.resize(self.key_size, 0);
                    let entry = self.entry(&key, &raw);
                    // Behind an empty byte string may be what it once was.
                    let empty = entry.buf.as_ref().is_none_or(Vec::is_empty);
                    if !empty || entry.value.iter().any(|byte| *byte != 0) {
                        entries.push(entry);
                    }
                }
                Ok(entries)
            }
            XdpMapShape::TernaryList => self.ternary_list(),
            XdpMapShape::Exact | XdpMapShape::Lpm => {
                let mut entries = std::collections::BTreeMap::new();
                let mut key = None;
                // Keys deleted meanwhile restart the kernel's walk; a bound keeps it from going
                // round for ever.
                for _ in 0..(u64::from(self.capacity) + 1) * 4 {
                    let Some(next) = self.store.next_key(key.as_deref())? else { break };
                    if let Some(raw) = self.store.lookup(&next)? {
                        entries.insert(next.clone(), raw);
                    }
                    key = Some(next);
                }
                Ok(entries.iter().map(|(key, raw)| self.walked(key, raw)).collect())
            }
        }
    }

    /// An entry found by walking over the map.
    fn walked(&self, key: &[u8], raw: &[u8]) -> Entry {
        if self.shape != XdpMapShape::Lpm {
            return self.entry(key, raw);
        }
        let (bits, key) = key.split_at(4);
        let bits = u32::from_le_bytes([bits[0], bits[1], bits[2], bits[3]]);
        Entry { matching: Match::Prefix(bits), ..self.entry(key, raw) }
    }

    // ---- ternary lists ----------------------------------------------------------------------

    /// Entries in the list's order: descending priority, then the one set first.
    fn ternary_list(&self) -> Result<Vec<Entry>> {
        let (key_at, mask_at, value_at) = self.ternary;
        let mut entries = Vec::new();
        for index in 0..self.capacity {
            let Some(raw) = self.store.lookup(&index.to_le_bytes())? else { break };
            let word =
                |at: usize| u32::from_le_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
            if word(0) == 0 {
                break;
            }
            entries.push(Entry {
                key: raw[key_at..][..self.key_size].to_vec(),
                matching: Match::Mask {
                    mask: raw[mask_at..][..self.key_size].to_vec(),
                    priority: word(4),
                },
                value: raw[value_at..][..self.value_size].to_vec(),
                buf: None,
            });
        }
        Ok(entries)
    }

    fn ternary_set(&self, entry: &Entry) -> Result<()> {
        let mut list = self.ternary_list()?;
        let (key, matching) = normal(&entry.key, &entry.matching);
        if let Some(at) =
            list.iter().position(|known| known.key == key && known.matching == matching)
        {
            list[at].value = entry.value.clone();
            return self.ternary_write(at, Some(&list[at]));
        }
        if list.len() >= self.capacity as usize {
            return Err(TableError::Full { table: self.name.clone(), capacity: self.capacity });
        }
        let at =
            list.iter().position(|known| priority(known) < priority(entry)).unwrap_or(list.len());
        list.insert(at, Entry { key, matching, value: entry.value.clone(), buf: None });
        // From the end, so that a packet meanwhile finds every old entry, one of them twice.
        (at..list.len()).rev().try_for_each(|slot| self.ternary_write(slot, Some(&list[slot])))
    }

    fn ternary_delete(&self, key: &[u8], matching: &Match) -> Result<bool> {
        let mut list = self.ternary_list()?;
        let (key, matching) = normal(key, matching);
        let Some(at) = list.iter().position(|known| known.key == key && known.matching == matching)
        else {
            return Ok(false);
        };
        list.remove(at);
        (at..list.len()).try_for_each(|slot| self.ternary_write(slot, Some(&list[slot])))?;
        self.ternary_write(list.len(), None)?;
        Ok(true)
    }

    fn ternary_write(&self, slot: usize, entry: Option<&Entry>) -> Result<()> {
        let (key_at, mask_at, value_at) = self.ternary;
        let mut raw = vec![0; self.map_value];
        if let Some(entry) = entry {
            raw[0] = 1;
            raw[4..8].copy_from_slice(&priority(entry).to_le_bytes());
            raw[key_at..][..self.key_size].copy_from_slice(&entry.key);
            if let Match::Mask { mask, .. } = &entry.matching {
                raw[mask_at..][..self.key_size].copy_from_slice(mask);
            }
            raw[value_at..][..self.value_size].copy_from_slice(&entry.value);
        }
        self.store.update(&(slot as u32).to_le_bytes(), &raw)
    }
}

fn missing(program: &Program, table: &XdpTable) -> XdpError {
    let name = &program.tables[table.table].name;
    XdpError::Contract(format!("table `{name}`: there is no map `{}`", table.map))
}

fn priority(entry: &Entry) -> u32 {
    match entry.matching {
        Match::Mask { priority, .. } => priority,
        _ => 0,
    }
}

/// Key and match with the bits that do not matter cleared, so that equal entries are equal bytes.
fn normal(key: &[u8], matching: &Match) -> (Vec<u8>, Match) {
    let mut key = key.to_vec();
    match matching {
        Match::Exact => {}
        Match::Prefix(bits) => {
            for (i, byte) in key.iter_mut().enumerate() {
                let kept = (*bits as usize).saturating_sub(8 * i).min(8);
                *byte &= (0xff00u32 >> kept) as u8;
            }
        }
        Match::Mask { mask, .. } => key.iter_mut().zip(mask).for_each(|(byte, mask)| *byte &= mask),
    }
    (key, matching.clone())
}

/// The trie's key of an lpm entry.
fn lpm_key(key: &[u8], matching: &Match) -> Vec<u8> {
    let (key, matching) = normal(key, matching);
    let bits = if let Match::Prefix(bits) = matching { bits } else { 8 * key.len() as u32 };
    [&bits.to_le_bytes()[..], &key].concat()
}

/// Bit offset and width of every integer in a type.
fn integers(program: &Program, ty: Type, at: usize) -> Vec<(usize, usize)> {
    match ty {
        Type::Int { .. } => vec![(at, 8 * program.size_of(ty) as usize)],
        Type::Struct(id) => {
            let (_, slots) = program.struct_layout(id);
            let fields = program.structs[id].fields.iter().zip(slots);
            let member = |(field, slot): (&nicforge_ir::Field, nicforge_ir::layout::FieldSlot)| {
                let at = at + slot.bit_offset as usize;
                match field.ty {
                    Type::Int { .. } => vec![(at, slot.bits as usize)],
                    ty => integers(program, ty, at),
                }
            };
            fields.flat_map(member).collect()
        }
        Type::Array(id) => {
            let def = program.arrays[id];
            let size = 8 * program.size_of(def.elem) as usize;
            (0..def.len as usize).flat_map(|i| integers(program, def.elem, at + i * size)).collect()
        }
        Type::Packet => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_masks_clear_what_does_not_matter() {
        let cut = |bits| normal(&[0xff, 0xff, 0xff], &Match::Prefix(bits)).0;
        assert_eq!(cut(0), [0, 0, 0]);
        assert_eq!(cut(9), [0xff, 0x80, 0]);
        assert_eq!(cut(24), [0xff, 0xff, 0xff]);
        let mask = Match::Mask { mask: vec![0xf0, 0x0f], priority: 1 };
        assert_eq!(normal(&[0xab, 0xcd], &mask).0, [0xa0, 0x0d]);
        assert_eq!(lpm_key(&[0xff, 0xff], &Match::Prefix(4)), [4, 0, 0, 0, 0xf0, 0]);
    }
}
