//! Tables in the memory of cores of 32 bits: laid out and filled before a program starts, and read
//! when it has ended.
//!
//! An image allocates nothing. For every worker there is its block, and for every table its
//! description and arrays, all as `runtime/host/nf_tables.h` has them; where they lie follows from
//! the plan. A table that replicas have shards of is there once for each of them; one that nobody
//! writes once for each piece of near memory, or once at all in far memory; every other once.

use std::collections::BTreeMap;
use std::ops::Range;

use nicforge_codegen::abi::table as field;
use nicforge_codegen::dpdk::DpdkArtifact;
use nicforge_ir::{Entry, Program, TableId, TableKind};
use nicforge_isa::object::riscv::Image;

use super::table::{Shape, TableImage, put, word};

/// The layout that `nf_layout` of an image tells.
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
    /// Piece of near memory, for machines in which an address means different things to different
    /// cores.
    near: usize,
    at: u32,
    entries: u32,
}

/// Entries with the workers that have them.
pub type ByWorker = BTreeMap<TableId, Vec<(u32, Entry)>>;

/// Counts of a table.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    pub worker: u32,
    pub table: TableId,
    pub refused: u64,
    pub evicted: u64,
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

/// Properties of the program that decide how tables lie.
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
    let mut placed = Placed {
        blocks: Vec::new(),
        writes: Vec::new(),
        lies: Vec::new(),
        elsewhere: BTreeMap::new(),
    };
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    for (number, worker) in source.workers.iter().enumerate() {
        let layout = layouts[worker.stage];
        let mut block = vec![0; layout.worker_bytes as usize];
        put(&mut block, layout.number_at, &(number as u32).to_le_bytes());
        placed
            .blocks
            .push(rooms.near[worker.near].take("(worker)", u64::from(layout.worker_bytes))?);
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
                    let name = &source.program.tables[table].name;
                    // What only one worker reads of a far table at every use lies beside it.
                    let own = source.artifact.sharded[index] || rooms.far.len() > 1;
                    let beside = (own && !near)
                        .then(|| rooms.near[worker.near].take(name, u64::from(field::END)).ok())
                        .flatten();
                    let room = match &mut rooms.far[..] {
                        [far] if !near => far,
                        far if !near => &mut far[worker.near],
                        _ => &mut rooms.near[worker.near],
                    };
                    let front = if beside.is_some() { 0 } else { field::END };
                    let arrays_at = room.take(name, u64::from(front) + image.bytes())? + front;
                    let at = beside.unwrap_or(arrays_at - front);
                    let (bytes, arrays, entries) = image.at(arrays_at);
                    placed.writes.push((worker.near, at, bytes));
                    placed.writes.push((worker.near, arrays_at, arrays));
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
    /// All tables as workers have them, from memory: `read` gives bytes of a piece of near memory,
    /// or of any that address leads to.
    pub fn shards(
        &self,
        source: &Source,
        read: &mut dyn FnMut(usize, u32, u32) -> Vec<u8>,
    ) -> (ByWorker, Vec<Counted>) {
        let mut found = ByWorker::new();
        let mut counts = Vec::new();
        let mut seen: Vec<TableId> = Vec::new();
        for lies in &self.lies {
            let image = Shape::new(source, lies.table);
            let head = read(lies.near, lies.at, field::END);
            let counted = |at: u32| u64::from(word(&head, at as usize));
            let (refused, evicted) = (counted(field::REFUSED), counted(field::EVICTED));
            counts.push(Counted { worker: lies.worker, table: lies.table, refused, evicted });
            // Copies that nobody writes are all the same.
            if seen.contains(&lies.table) && !source.artifact.sharded[lies.table.as_u32() as usize]
            {
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
