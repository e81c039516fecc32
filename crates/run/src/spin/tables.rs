//! Tables in the memory of cores of 32 bits: laid out and filled before a program starts, and read when it has ended.
//!
//! An image allocates nothing. For every worker there is its block, and for every table its description and arrays, all as
//! `runtime/host/nf_tables.h` has them; where they lie follows from the plan. A table that replicas have shards of is there once for each
//! of them; one that nobody writes once for each piece of near memory, or once at all in far memory; every other once.

use std::collections::BTreeMap;
use std::ops::Range;

use nicforge_codegen::dpdk::DpdkArtifact;
use nicforge_ir::{Entry, Match, Program, TableId, TableKind};
use nicforge_isa::object::riscv::Image;

use super::steer::key_hash;

/// Bytes of `struct nf_table`.
const TABLE: u32 = 88;
/// Bytes in front of every entry.
const HEAD: u32 = 16;
const NONE: u32 = u32::MAX;

/// What `nf_layout` of an image says.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub worker_bytes: u32,
    pub number_at: u32,
    pub events_at: u32,
    pub lost_at: u32,
    pub drops_at: u32,
    pub reasons: u32,
    pub tables_at: u32,
    /// What every core has for itself at the start of its near memory.
    pub core_bytes: u32,
}

impl Layout {
    /// Reads it from an image; `None` if the image has none.
    pub fn of(image: &Image) -> Option<Layout> {
        let symbol = image.symbol("nf_layout")?;
        let segment = image.segments.iter().find(|segment| {
            symbol
                .address
                .checked_sub(segment.address)
                .is_some_and(|at| at + 36 <= segment.bytes.len() as u32)
        })?;
        let at = (symbol.address - segment.address) as usize;
        let word = |n: usize| word(&segment.bytes, at + 4 * n);
        Some(Layout {
            worker_bytes: word(0),
            number_at: word(1),
            events_at: word(2),
            lost_at: word(3),
            drops_at: word(4),
            reasons: word(5),
            tables_at: word(6),
            core_bytes: word(8),
        })
    }
}

/// Little-endian word at an offset; zero behind the end.
pub fn word(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).unwrap_or(&[0; 4]);
    u32::from_le_bytes([four[0], four[1], four[2], four[3]])
}

/// A piece of memory that is given out from its start.
#[derive(Clone, Debug)]
pub struct Room {
    /// For people: `l1 of cluster 2`.
    pub name: String,
    pub free: Range<u32>,
}

/// A table does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    #[error(
        "table `{table}` needs {wanted} bytes with its index, and {memory} has {left} left; make the table smaller, or pin it to \
         another memory (`plan --pin {table}=MEMORY`)"
    )]
    NoRoom { table: String, wanted: u32, left: u32, memory: String },
    #[error(
        "table `{table}` cannot take an entry of the table file: it holds {capacity}, and this is one more"
    )]
    Full { table: String, capacity: u32 },
}

impl Room {
    fn take(&mut self, table: &str, bytes: u64) -> Result<u32, PlaceError> {
        let at = self.free.start.next_multiple_of(16);
        let left = self.free.end.saturating_sub(at);
        if bytes > u64::from(left) {
            let wanted = bytes.min(u64::from(u32::MAX)) as u32;
            return Err(PlaceError::NoRoom {
                table: table.to_string(),
                wanted,
                left,
                memory: self.name.clone(),
            });
        }
        self.free.start = at + bytes as u32;
        Ok(at)
    }
}

/// A worker and where its memory is.
#[derive(Clone, Copy, Debug)]
pub struct Worker {
    pub stage: usize,
    /// Number of its piece of near memory.
    pub near: usize,
}

/// Where tables are to be.
pub struct Rooms {
    /// Memory beside workers.
    pub near: Vec<Room>,
    /// Larger memory farther away: one that all share, one for each piece of near memory, or none.
    pub far: Vec<Room>,
    /// By table number: it is to be in near memory.
    pub is_near: Vec<bool>,
}

/// A table as it lies in memory.
#[derive(Clone, Debug)]
struct Lies {
    table: TableId,
    /// Whose shard it is, or the first user.
    worker: u32,
    /// Piece of near memory, for machines in which an address means different things to different cores.
    near: usize,
    at: u32,
    entries: u32,
}

/// All that was laid out.
pub struct Placed {
    /// Address of each worker's block.
    pub blocks: Vec<u32>,
    /// What is to be written before the program starts: piece of near memory, address, bytes.
    pub writes: Vec<(usize, u32, Vec<u8>)>,
    lies: Vec<Lies>,
    /// Entries that workers which do not use a table would have of it.
    elsewhere: BTreeMap<TableId, Vec<u32>>,
}

/// What of the program decides how tables lie.
pub struct Source<'a> {
    pub program: &'a Program,
    pub artifact: &'a DpdkArtifact,
    pub workers: &'a [Worker],
    pub entries: &'a [(TableId, Entry)],
}

impl Source<'_> {
    /// Stages that use a table, and whether any of them writes it.
    fn users(&self, table: TableId) -> (Vec<usize>, bool) {
        let (mut stages, mut written) = (Vec::new(), false);
        for (at, stage) in self.artifact.pipeline.stages.iter().enumerate() {
            for handler in &stage.handlers {
                let body = &self.program.handlers[*handler].body;
                body.for_each_inst(body.entry(), &mut |inst| {
                    let effects = body.insts[inst].op.effects();
                    if [effects.table_read, effects.table_write].contains(&Some(table))
                        && !stages.contains(&at)
                    {
                        stages.push(at);
                    }
                    // Reading an LRU table writes its order of use.
                    let uses = effects.table_read == Some(table)
                        && self.program.tables[table].kind == TableKind::Lru;
                    written |= effects.table_write == Some(table) || uses;
                });
            }
        }
        (stages, written)
    }
}

/// Lays out blocks and tables. `layouts` are by stage.
///
/// # Errors
/// See [`PlaceError`].
pub fn place(source: &Source, layouts: &[Layout], rooms: &mut Rooms) -> Result<Placed, PlaceError> {
    let mut placed =
        Placed { blocks: Vec::new(), writes: Vec::new(), lies: Vec::new(), elsewhere: BTreeMap::new() };
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    for (number, worker) in source.workers.iter().enumerate() {
        let layout = layouts[worker.stage];
        let mut block = vec![0; layout.worker_bytes as usize];
        put(&mut block, layout.number_at, &(number as u32).to_le_bytes());
        placed.blocks.push(rooms.near[worker.near].take("(worker)", u64::from(layout.worker_bytes))?);
        blocks.push(block);
    }
    for table in source.program.tables.keys() {
        let index = table.as_u32() as usize;
        let (stages, written) = source.users(table);
        let near = rooms.is_near.get(index).copied().unwrap_or(true) || rooms.far.is_empty();
        let image = TableImage::new(source, table)?;
        // Copies by whom they are for.
        let mut copies: BTreeMap<usize, u32> = BTreeMap::new();
        let mut others = Vec::new();
        for (number, worker) in source.workers.iter().enumerate() {
            // Tables that nobody uses are read all the same.
            let uses = stages.contains(&worker.stage) || (stages.is_empty() && number == 0);
            if !uses {
                others.push(number as u32);
                continue;
            }
            let whose = match (source.artifact.sharded[index], written, near) {
                (true, ..) => number,
                (false, true, _) => 0,
                (false, false, false) if rooms.far.len() == 1 => 0,
                (false, false, _) => worker.near,
            };
            let at = match copies.get(&whose) {
                Some(at) => *at,
                None => {
                    let room = match &mut rooms.far[..] {
                        [far] if !near => far,
                        far if !near => &mut far[worker.near],
                        _ => &mut rooms.near[worker.near],
                    };
                    let name = &source.program.tables[table].name;
                    let at = room.take(name, u64::from(TABLE) + image.bytes())?;
                    let (bytes, entries) = image.at(at);
                    placed.writes.push((worker.near, at, bytes));
                    let near = worker.near;
                    placed.lies.push(Lies { table, worker: number as u32, near, at, entries });
                    copies.insert(whose, at);
                    at
                }
            };
            let pointer = layouts[worker.stage].tables_at + 4 * table.as_u32();
            put(&mut blocks[number], pointer, &at.to_le_bytes());
        }
        if source.artifact.sharded[index] {
            placed.elsewhere.insert(table, others);
        }
    }
    for ((block, worker), at) in blocks.into_iter().zip(source.workers).zip(&placed.blocks) {
        placed.writes.push((worker.near, *at, block));
    }
    Ok(placed)
}

impl Placed {
    /// All tables as workers have them, from memory: `read` gives bytes of a piece of near memory, or of any that address leads to.
    pub fn shards(
        &self,
        source: &Source,
        read: &mut dyn FnMut(usize, u32, u32) -> Vec<u8>,
    ) -> (BTreeMap<TableId, Vec<(u32, Entry)>>, Vec<(u32, TableId, u64, u64)>) {
        let mut found: BTreeMap<TableId, Vec<(u32, Entry)>> = BTreeMap::new();
        let mut counts = Vec::new();
        let mut seen: Vec<TableId> = Vec::new();
        for lies in &self.lies {
            let image = Shape::new(source, lies.table);
            let head = read(lies.near, lies.at, TABLE);
            counts.push((lies.worker, lies.table, u64::from(word(&head, 72)), u64::from(word(&head, 80))));
            // Copies that nobody writes are all the same.
            if seen.contains(&lies.table) && !source.artifact.sharded[lies.table.as_u32() as usize] {
                continue;
            }
            seen.push(lies.table);
            let bytes = read(lies.near, lies.entries, image.stride * image.capacity);
            let list = found.entry(lies.table).or_default();
            list.extend(image.read(&bytes).into_iter().map(|entry| (lies.worker, entry)));
        }
        for (table, workers) in &self.elsewhere {
            let filled = source.entries.iter().filter(|(other, _)| other == table);
            let list = found.entry(*table).or_default();
            for (_, entry) in filled {
                list.extend(workers.iter().map(|worker| (*worker, entry.clone())));
            }
        }
        (found, counts)
    }
}

fn put(bytes: &mut [u8], at: u32, what: &[u8]) {
    let at = at as usize;
    if let Some(place) = bytes.get_mut(at..at + what.len()) {
        place.copy_from_slice(what);
    }
}

/// How a table's entries lie.
#[derive(Clone, Copy, Debug)]
struct Shape {
    kind: TableKind,
    capacity: u32,
    key_size: u32,
    value_size: u32,
    /// With the byte string.
    entry_size: u32,
    len_at: u32,
    has_buf: bool,
    value_at: u32,
    stride: u32,
}

impl Shape {
    fn new(source: &Source, table: TableId) -> Shape {
        let def = &source.program.tables[table];
        let lies = &source.artifact.host.tables[table.as_u32() as usize];
        let (key, round) = (lies.key_size, |size: u32| size.next_multiple_of(8));
        let stored = match def.kind {
            TableKind::Lpm => key + 1 + u32::from(key > 31),
            TableKind::Ternary => 2 * key,
            _ => key,
        };
        let value_at = if def.kind == TableKind::Array { 0 } else { HEAD + round(stored) };
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
    fn read(&self, bytes: &[u8]) -> Vec<Entry> {
        let mut found = Vec::new();
        let key_size = self.key_size as usize;
        for (number, entry) in bytes.chunks_exact(self.stride.max(1) as usize).enumerate() {
            let (key, matching) = if self.kind == TableKind::Array {
                ((number as u32).to_le_bytes().to_vec(), Match::Exact)
            } else {
                if word(entry, 12) == 0 {
                    continue;
                }
                let key = entry[HEAD as usize..][..key_size].to_vec();
                let matching = match self.kind {
                    TableKind::Lpm => Match::Prefix(word(entry, 8)),
                    TableKind::Ternary => {
                        let mask = entry[HEAD as usize + key_size..][..key_size].to_vec();
                        Match::Mask { mask, priority: word(entry, 8) }
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
            found.push(Entry { key, matching, value: value[..self.value_size as usize].to_vec(), buf });
        }
        found
    }
}

/// A filled table that does not know yet where it will lie.
struct TableImage {
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
    fn new(source: &Source, table: TableId) -> Result<TableImage, PlaceError> {
        let shape = Shape::new(source, table);
        let capacity = shape.capacity as usize;
        let indexed = matches!(shape.kind, TableKind::Hash | TableKind::Lru | TableKind::Lpm);
        let slots = if indexed { (2 * capacity).next_power_of_two().max(8) } else { 0 };
        let lengths = if shape.kind == TableKind::Lpm { 8 * shape.key_size as usize + 1 } else { 0 };
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
            let known = numbers.get(&(entry.key.clone(), entry.matching.clone())).copied();
            let name = &source.program.tables[table].name;
            let full = || PlaceError::Full { table: name.clone(), capacity: shape.capacity };
            let number = image.put(entry, known).ok_or_else(full)?;
            numbers.insert((entry.key.clone(), entry.matching.clone()), number);
        }
        image.sort(&numbers);
        Ok(image)
    }

    fn bytes(&self) -> u64 {
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
            let (key, detail) = match &entry.matching {
                Match::Exact => (entry.key.clone(), number),
                Match::Prefix(bits) => (prefix(&entry.key, *bits, shape.key_size), *bits),
                Match::Mask { mask, priority } => {
                    let masked = entry.key.iter().zip(mask).map(|(key, mask)| key & mask);
                    (masked.chain(mask.iter().copied()).collect(), *priority)
                }
            };
            put(&mut self.entries, at + HEAD, &key);
            let detail = if shape.kind == TableKind::Hash { 0 } else { detail };
            put(&mut self.entries, at + 8, &detail.to_le_bytes());
            put(&mut self.entries, at + 12, &1u32.to_le_bytes());
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
            put(&mut self.entries, at + shape.value_at + shape.len_at, &(buf.len() as u32).to_le_bytes());
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

    /// Lists that lookups follow: lengths of prefixes, longest first, or entries by falling priority, then age.
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

    /// The table for an address: description and arrays, and where the entries are.
    fn at(&self, at: u32) -> (Vec<u8>, u32) {
        let shape = &self.shape;
        let mut bytes = vec![0; TABLE as usize];
        let mut pointer = |part: &[u8], field: u32| {
            let address = at + bytes.len() as u32;
            if !part.is_empty() {
                put(&mut bytes, field, &address.to_le_bytes());
                bytes.extend_from_slice(part);
            }
            address
        };
        let entries = pointer(&self.entries, 36);
        pointer(&self.index, 32);
        pointer(&self.uses, 56);
        pointer(&self.of_length, 60);
        pointer(&self.order, 64);
        let kind = match shape.kind {
            TableKind::Hash => 0,
            TableKind::Array => 1,
            TableKind::Lru => 2,
            TableKind::Lpm => 3,
            TableKind::Ternary => 4u32,
        };
        let mask = (self.index.len() as u32 / 8).saturating_sub(1);
        let words = [
            kind,
            shape.capacity,
            shape.key_size,
            shape.stride,
            shape.value_at,
            shape.entry_size,
            self.count,
            mask,
        ];
        for (field, word) in words.iter().enumerate() {
            put(&mut bytes, 4 * field as u32, &word.to_le_bytes());
        }
        put(&mut bytes, 40, &NONE.to_le_bytes());
        put(&mut bytes, 48, &self.clock.to_le_bytes());
        put(&mut bytes, 68, &self.ordered.to_le_bytes());
        (bytes, entries)
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
