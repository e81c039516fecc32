//! What a program takes of a device of programmable logic, estimated without running yosys.
//!
//! # Model
//!
//! A design is the packet path, which every program has, and logic that grows with sizes of the
//! program: bits of headers that are read or written, and bits of keys and values of tables. What
//! the generator made of handlers decides which: a table of a pipe has logic for each of its lookup
//! ports (comparing ways, choosing a value, forwarding), with a copy of its memory; engines read
//! tables of one port, and copies of those that nothing changes are there for each engine. LUTs and
//! flip-flops are linear in these sizes, with factors of their own for pipes and for engines; they
//! are in the spec and were fitted to yosys' results for some of the examples (`nicforge validate
//! fpga` shows how well, and how well they do on the others). Block memory is counted from what
//! tables store: rows of slots, `slots` per entry where a pipe hashes keys, in memories of 18 Kbit.
//! Multiplications of more than 16 bits, unless by a constant, hashes, and divisions by constants
//! take DSP blocks.

use std::collections::BTreeSet;

use nicforge_ir::{BinOp, Body, Op, Program, Table, TableId, TableKind, Work};
use serde::Deserialize;

/// LUTs or flip-flops of a design.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Linear {
    /// The packet path.
    pub base: f64,
    /// A bit of a header that is read or written.
    pub header_bit: f64,
    /// An op that emits a header.
    #[serde(default)]
    pub emit: f64,
    /// A bit of keys and values of tables that hash or search.
    pub table_bit: f64,
    /// A bit of values of arrays.
    pub array_bit: f64,
    /// A bit of keys of longest prefixes.
    pub prefix_bit: f64,
    /// A bit of a row's key where every row has a mask and all are compared at once, as a pipe
    /// does.
    #[serde(default)]
    pub row_bit: f64,
}

/// `[area]`: what the device has and what designs take of it.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AreaCosts {
    pub device_luts: f64,
    pub device_flip_flops: f64,
    /// Block memories of 36 Kbit, and UltraRAMs, which hold eight times as much each.
    pub device_brams: f64,
    pub device_urams: f64,
    pub device_dsps: f64,
    pub pipe_luts: Linear,
    pub pipe_flip_flops: Linear,
    /// LUTs of a pipe whose deparser moves payload; that of engines always does.
    pub payload_luts: f64,
    /// LUTs of a pipe whose deparser also puts bytes into strings of tables, beside that, and of a
    /// sum of payload.
    pub string_luts: f64,
    pub sum_luts: f64,
    /// Of the strings of a table: a memory, and its banks behind the first.
    pub store_luts: Store,
    pub store_flip_flops: Store,
    /// Of what tells packets apart that read and append strings, for a slot of the packet buffer,
    /// and of a queue in front of a gate, for a bit of it.
    pub string_lock_slot_luts: f64,
    pub string_lock_slot_flip_flops: f64,
    pub queue_bit_luts: f64,
    /// Of a value from anywhere in a packet, and of one that is overwritten anywhere.
    pub far_luts: Far,
    pub far_flip_flops: Far,
    pub patch_luts: Far,
    pub patch_flip_flops: Far,
    pub engine_luts: Linear,
    pub engine_flip_flops: Linear,
    /// Of the packet path, of each engine, and of each sum of a pipe's payload: the packet buffer.
    pub base_half_brams: f64,
    /// Slots of a pipe's table that hashes, per entry.
    pub slots: f64,
    /// DSP blocks of a multiplication, of a hash, and of a division by a constant.
    pub multiplication_dsps: f64,
    pub hash_dsps: f64,
    pub division_dsps: f64,
}

/// What a module beside the pipe takes: for itself, and for each byte of its values.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Far {
    pub base: f64,
    pub byte: f64,
}

impl Far {
    /// So many of them, with so many bytes altogether.
    fn of(self, count: f64, bytes: f64) -> f64 {
        count * self.base + bytes * self.byte
    }
}

/// What byte strings of a table take: their memory, and each further bank of 32,768 lines of 64
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    pub base: f64,
    pub bank: f64,
}

impl Store {
    fn of(self, lines: u64) -> f64 {
        self.base + self.bank * (lines.div_ceil(BANK_LINES).max(1) - 1) as f64
    }
}

/// Lines of a bank of byte strings, see rtl/nf_line_banks.sv.
const BANK_LINES: u64 = 32768;
/// Words of a memory that is made of LUTs.
const QUEUE_WORDS: u32 = 32;

/// Sizes of a program that area depends on; those of tables are of the whole design, others of one
/// copy of the handlers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sizes {
    pub header_bits: f64,
    pub emits: f64,
    pub table_bits: f64,
    pub array_bits: f64,
    pub prefix_bits: f64,
    pub row_bits: f64,
    pub multiplications: f64,
    pub hashes: f64,
    pub divisions: f64,
}

/// An estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub luts: f64,
    pub flip_flops: f64,
    pub half_brams: f64,
    pub dsps: f64,
}

/// The form that handlers become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handlers {
    /// A pipe, of which a design has one: for each table its lookup ports, and whether they give
    /// values. For each table its memories, where a packet changes several entries at once; else 1.
    /// Whether payload is moved, because headers of another length are put in front of it. How many
    /// sums of payload are asked for, and the bytes of each value from anywhere in a packet. Of
    /// each read of byte strings the number of the table, and bytes. Values that may be overwritten
    /// anywhere in payload, and bytes of each. Slots of the packet buffer. Modules that tell
    /// packets apart by their strings, and bits and depth of each queue in front of a gate.
    Pipe {
        ports: Vec<Vec<bool>>,
        copies: Vec<u32>,
        moves_payload: bool,
        sums: u32,
        far: Vec<u32>,
        stored: Vec<(u32, u32)>,
        patches: (u32, u32),
        slots: u32,
        string_locks: u32,
        queues: Vec<(u32, u32)>,
    },
    /// So many engines, each with a packet buffer and copies of the tables that nothing changes.
    Engines(u32),
}

/// Lookup ports of a table in a design, and whether each gives values. Every copy of an engine's
/// table has one.
fn ports(program: &Program, handlers: &Handlers, id: TableId) -> Vec<bool> {
    match handlers {
        Handlers::Pipe { ports, .. } => {
            ports.get(id.as_u32() as usize).cloned().unwrap_or_default()
        }
        Handlers::Engines(_) if changed(program).contains(&id) => vec![true],
        Handlers::Engines(count) => vec![true; *count as usize],
    }
}

/// Memories of a table of which a packet is given several entries at once; else 1.
fn memories(handlers: &Handlers, id: TableId) -> usize {
    match handlers {
        Handlers::Pipe { copies, .. } => {
            copies.get(id.as_u32() as usize).map_or(1, |count| *count as usize)
        }
        Handlers::Engines(_) => 1,
    }
}

/// Sizes of a program whose calls are inlined.
pub fn sizes(program: &Program, handlers: &Handlers) -> Sizes {
    let mut sizes = Sizes::default();
    for handler in program.handlers.values() {
        add(&mut sizes, program, &handler.body);
    }
    for (id, table) in &program.tables {
        let [key, value] = [table.key, table.value].map(|ty| 8.0 * f64::from(program.size_of(ty)));
        let ports = ports(program, handlers, id);
        let values = value * ports.iter().filter(|valued| **valued).count() as f64;
        let keys = key * ports.len() as f64;
        match table.kind {
            TableKind::Array => sizes.array_bits += values,
            TableKind::Lpm => sizes.prefix_bits += keys,
            TableKind::Ternary if matches!(handlers, Handlers::Pipe { .. }) => {
                // What fills it is like another eight.
                sizes.row_bits += keys * (8.0 + f64::from(table.capacity));
            }
            _ => sizes.table_bits += keys + values,
        }
    }
    sizes
}

fn add(sizes: &mut Sizes, program: &Program, body: &Body) {
    let bits = |value| 8.0 * f64::from(program.size_of(body.ty(value)));
    body.for_each_inst(body.entry(), &mut |inst| {
        let inst = &body.insts[inst];
        match &inst.op {
            Op::Bin(op, a, b) => {
                let constant = |value| match body.def_op(value) {
                    Some(Op::Int(number)) => Some(*number),
                    _ => None,
                };
                let wide = inst.results.first().is_some_and(|value| bits(*value) > 16.0);
                match (op, constant(*a), constant(*b)) {
                    // By a constant it is a few adders.
                    (BinOp::Mul, None, None) if wide => sizes.multiplications += 1.0,
                    // Multiplied by the reciprocal, unless it is a power of two; a divisor that is
                    // none is subtracted.
                    (BinOp::Div | BinOp::Rem, _, Some(by)) if !by.is_power_of_two() => {
                        sizes.divisions += 1.0
                    }
                    _ => {}
                }
            }
            op => match op.work() {
                Work::Hash => sizes.hashes += 1.0,
                Work::Read => {
                    sizes.header_bits += inst.results.get(1).map_or(0.0, |value| bits(*value))
                }
                Work::Write => {
                    sizes.header_bits += op.operands().last().map_or(0.0, bits);
                    sizes.emits += f64::from(u8::from(matches!(op, Op::Emit { .. })));
                }
                _ => {}
            },
        }
    });
}

/// Tables that handlers change.
fn changed(program: &Program) -> BTreeSet<TableId> {
    let mut list = BTreeSet::new();
    for handler in program.handlers.values() {
        let body = &handler.body;
        body.for_each_inst(body.entry(), &mut |inst| {
            list.extend(body.insts[inst].op.effects().table_write)
        });
    }
    list
}

/// Block memories of 18 Kbit behind a lookup port of a table, with or without values, whose hashed
/// entries have `slots` places each.
fn half_brams(program: &Program, table: &Table, slots: f64, valued: bool) -> f64 {
    let (key, value) = (program.size_of(table.key), program.size_of(table.value));
    let hashed = matches!(table.kind, TableKind::Hash | TableKind::Lru);
    let entries = f64::from(table.capacity) * if hashed { slots } else { 1.0 };
    let key_bits = if table.kind == TableKind::Array { 0.0 } else { 8.0 * f64::from(key) + 1.0 };
    let width = key_bits + if valued { 8.0 * f64::from(value) } else { 0.0 };
    // 512 rows of 36 bits; fewer than 32 entries are registers or distributed memory.
    if entries > 32.0 { (width / 36.0).ceil() * (entries / 512.0).ceil() } else { 0.0 }
}

/// Block memories that 512 lines of 64 bytes take, of which each byte is written by itself.
const LINE_HALF_BRAMS: u64 = 16;

/// Lines of a table's byte strings. Where keys are hashed a pipe has eight more strings than
/// places.
fn string_lines(table: &Table, piped: bool) -> u64 {
    let hashed = matches!(table.kind, TableKind::Hash | TableKind::Lru);
    let strings = match piped && hashed {
        true => 2 * u64::from(table.capacity.next_power_of_two()) + 8,
        false => u64::from(table.capacity),
    };
    strings * u64::from(table.buf.unwrap_or(0).div_ceil(64))
}

/// Block memories of a table's byte strings, which are there once.
fn string_half_brams(table: &Table, piped: bool) -> f64 {
    (LINE_HALF_BRAMS * string_lines(table, piped).div_ceil(512)) as f64
}

/// Those of a copy of a pipe's byte strings, in two banks.
fn copy_half_brams(table: &Table) -> f64 {
    (2 * LINE_HALF_BRAMS * (string_lines(table, true) / 2).div_ceil(512)) as f64
}

/// A table that makes a program too large for the device; block memories of 36 Kbit, larger ones as
/// so many of these.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TooLarge {
    pub table: TableId,
    /// What this table takes.
    pub takes: f64,
    /// What all of the program takes.
    pub all: f64,
    pub device: f64,
}

impl AreaCosts {
    /// Estimates what a program whose calls are inlined takes.
    pub fn estimate(&self, program: &Program, handlers: &Handlers) -> Estimate {
        let sizes = sizes(program, handlers);
        let (luts, flip_flops, copies, slots) = match handlers {
            Handlers::Pipe { .. } => (&self.pipe_luts, &self.pipe_flip_flops, 1.0, self.slots),
            Handlers::Engines(count) => {
                (&self.engine_luts, &self.engine_flip_flops, f64::from(*count), 1.0)
            }
        };
        let linear = |c: &Linear| {
            c.base
                + copies * (c.header_bit * sizes.header_bits + c.emit * sizes.emits)
                + c.table_bit * sizes.table_bits
                + c.array_bit * sizes.array_bits
                + c.prefix_bit * sizes.prefix_bits
                + c.row_bit * sizes.row_bits
        };
        let changed = changed(program);
        let memory = |(id, table): (TableId, &Table)| {
            // Nothing looks up what only the host uses.
            let mut ports = ports(program, handlers, id);
            // An array that is changed has parts, not copies, unless a packet is given several
            // entries at once.
            match memories(handlers, id) {
                1 if table.kind == TableKind::Array && changed.contains(&id) => ports.truncate(1),
                1 => {}
                copies => ports = vec![true; copies],
            }
            if ports.is_empty() {
                ports.push(true);
            }
            let entries =
                ports.iter().map(|valued| half_brams(program, table, slots, *valued)).sum::<f64>();
            entries + string_half_brams(table, slots > 1.0)
        };
        let moves = matches!(handlers, Handlers::Pipe { moves_payload: true, .. });
        // Lines of each table's strings.
        let strings: Vec<u64> = match handlers {
            Handlers::Pipe { .. } => {
                let some = program.tables.values().filter(|table| table.buf.is_some());
                some.map(|table| string_lines(table, true)).collect()
            }
            Handlers::Engines(_) => Vec::new(),
        };
        let stores = |store: Store| strings.iter().map(|lines| store.of(*lines)).sum::<f64>();
        let (sums, far, stored, patches, buffer_slots) = match handlers {
            Handlers::Pipe { sums, far, stored, patches, slots, .. } => {
                (f64::from(*sums), &far[..], &stored[..], *patches, *slots)
            }
            Handlers::Engines(_) => (0.0, &[][..], &[][..], (0, 0), 0),
        };
        let (locked, queued) = match handlers {
            Handlers::Pipe { string_locks, queues, slots, .. } => {
                let words = |(bits, depth): &(u32, u32)| bits * depth.div_ceil(QUEUE_WORDS);
                (f64::from(string_locks * slots), f64::from(queues.iter().map(words).sum::<u32>()))
            }
            Handlers::Engines(_) => (0.0, 0.0),
        };
        let (patches, patched) = (f64::from(patches.0), f64::from(patches.0 * patches.1));
        // A block memory has so many lines of 24 to a slot.
        let buffers = f64::from((24 * buffer_slots).div_ceil(1024).max(1));
        let read = || far.iter().chain(stored.iter().map(|(_, bytes)| bytes));
        let (reads, read_bytes) =
            (read().count() as f64, read().map(|bytes| f64::from(*bytes)).sum::<f64>());
        let beside = far.len() as f64;
        // Each read of strings has a copy of them.
        let copied =
            |(table, _): &(u32, u32)| copy_half_brams(&program.tables[TableId::from_u32(*table)]);
        Estimate {
            luts: linear(luts)
                + if moves { self.payload_luts } else { 0.0 }
                + if strings.is_empty() { 0.0 } else { self.string_luts }
                + stores(self.store_luts)
                + self.string_lock_slot_luts * locked
                + self.queue_bit_luts * queued
                + self.sum_luts * sums
                + self.far_luts.of(reads, read_bytes)
                + self.patch_luts.of(patches, patched),
            flip_flops: linear(flip_flops)
                + stores(self.store_flip_flops)
                + self.string_lock_slot_flip_flops * locked
                + self.far_flip_flops.of(reads, read_bytes)
                + self.patch_flip_flops.of(patches, patched),
            half_brams: self.base_half_brams * buffers * (copies + sums + beside)
                + program.tables.iter().map(memory).sum::<f64>()
                + stored.iter().map(copied).sum::<f64>(),
            dsps: copies
                * (self.multiplication_dsps * sizes.multiplications
                    + self.hash_dsps * sizes.hashes
                    + self.division_dsps * sizes.divisions),
        }
    }

    /// How many engines fit, at most so many; 0 if not even one does.
    pub fn engines(&self, program: &Program, most: u32) -> u32 {
        let fits = |count: &u32| {
            self.fullest(&self.estimate(program, &Handlers::Engines(*count))).1 <= 1.0
        };
        (1..=most).take_while(fits).last().unwrap_or(0)
    }

    /// Block memories of 18 Kbit that the device has, UltraRAMs as so many of these.
    pub fn device_half_brams(&self) -> f64 {
        2.0 * self.device_brams + 16.0 * self.device_urams
    }

    /// Tables that do not fit, if hashed entries have `slots` places each: the largest ones,
    /// without which the others would.
    pub fn too_large(&self, program: &Program, slots: f64) -> Vec<TooLarge> {
        let all =
            |table| half_brams(program, table, slots, true) + string_half_brams(table, slots > 1.0);
        let mut tables: Vec<(TableId, f64)> =
            program.tables.iter().map(|(id, table)| (id, all(table))).collect();
        tables.sort_by(|a, b| b.1.total_cmp(&a.1));
        let all = self.base_half_brams + tables.iter().map(|table| table.1).sum::<f64>();
        let (mut rest, mut found) = (all, Vec::new());
        for (table, takes) in tables {
            if rest <= self.device_half_brams() {
                break;
            }
            rest -= takes;
            let (takes, all) = (takes / 2.0, all / 2.0);
            found.push(TooLarge { table, takes, all, device: self.device_half_brams() / 2.0 });
        }
        found
    }

    /// The resource an estimate takes the most of, and its share of the device.
    pub fn fullest(&self, of: &Estimate) -> (&'static str, f64) {
        let shares = [
            ("LUTs", of.luts / self.device_luts),
            ("flip-flops", of.flip_flops / self.device_flip_flops),
            ("block memory", of.half_brams / self.device_half_brams()),
            ("DSP blocks", of.dsps / self.device_dsps),
        ];
        shares
            .into_iter()
            .fold(("LUTs", 0.0), |most, next| if next.1 > most.1 { next } else { most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(capacity: u32) -> Program {
        let text = include_str!("area_test.air").replace("CAPACITY", &capacity.to_string());
        nicforge_ir::text::parse(&text).expect("the test's program")
    }

    /// A pipe with one table.
    fn piped(ports: usize, copies: u32, sums: u32) -> Handlers {
        Handlers::Pipe {
            ports: vec![vec![true; ports]],
            copies: vec![copies],
            moves_payload: false,
            sums,
            far: Vec::new(),
            stored: Vec::new(),
            patches: (0, 0),
            slots: 32,
            string_locks: 0,
            queues: Vec::new(),
        }
    }

    #[test]
    fn larger_tables_take_more_memory_and_so_many_engines_fit() {
        let target = crate::find("u280").unwrap();
        let area = target.area.unwrap();
        let (small, large) = (program(1000), program(200_000));
        let pipe = piped(1, 1, 0);
        let (a, b) = (area.estimate(&small, &pipe), area.estimate(&large, &pipe));
        assert!(b.half_brams > 50.0 * (a.half_brams - area.base_half_brams), "{a:?} {b:?}");
        assert_eq!((a.luts, a.flip_flops), (b.luts, b.flip_flops));
        assert_eq!(area.engines(&small, 20), 20);
        assert_eq!(area.fullest(&b).0, "block memory");
        assert_eq!(area.too_large(&small, area.slots), []);
        let huge = program(40_000_000);
        let [found] = area.too_large(&huge, 1.0)[..] else { panic!("one table is too large") };
        assert_eq!(area.engines(&huge, 200), 0);
        assert!(
            found.takes > found.device && found.all > found.takes && found.device == 9696.0,
            "{found:?}"
        );
        // Four lookup ports: four copies, or the four parts of an array.
        let four = piped(4, 1, 0);
        let text =
            include_str!("area_test.air").replace("CAPACITY", "200000").replace("hash[", "array[");
        let array = nicforge_ir::text::parse(&text).expect("the test's program");
        let memory =
            |of: &Program, handlers| area.estimate(of, handlers).half_brams - area.base_half_brams;
        assert_eq!(memory(&large, &four), 4.0 * memory(&large, &pipe));
        assert_eq!(memory(&array, &four), memory(&array, &pipe));
        // Two ports that change entries, a memory of each for each of them.
        let at_once = piped(2, 4, 0);
        assert_eq!(memory(&array, &at_once), 4.0 * memory(&array, &pipe));
        // Byte strings are there once.
        let text =
            include_str!("area_test.air").replace("capacity CAPACITY", "capacity 1000 buf 4608");
        let boxes =
            nicforge_ir::text::parse(&text.replace("hash[", "array[")).expect("the test's program");
        assert_eq!(
            (memory(&boxes, &pipe), memory(&boxes, &at_once)),
            (2256.0 + 2.0, 2256.0 + 4.0 * 2.0)
        );
        // A sum of payload has a packet buffer of its own.
        let summed = piped(1, 1, 1);
        assert_eq!(memory(&small, &summed), memory(&small, &pipe) + area.base_half_brams);
        // Byte strings of a pipe are as many as there are places, and a copy for each read has 72
        // lines for each.
        let text =
            include_str!("area_test.air").replace("capacity CAPACITY", "capacity 1000 buf 4608");
        let strings = nicforge_ir::text::parse(&text).expect("the test's program");
        let more = |handlers| memory(&strings, handlers) - memory(&small, handlers);
        assert_eq!((more(&pipe), more(&Handlers::Engines(1))), (4640.0, 2256.0));
        let mut reading = piped(1, 1, 0);
        if let Handlers::Pipe { stored, .. } = &mut reading {
            stored.push((0, 4));
        }
        assert_eq!(more(&reading) - more(&pipe), 32.0 * 145.0);
        // Their memory has five banks; a queue in front of a gate is one of LUTs, a deep one
        // several.
        let luts = |handlers: &Handlers| area.estimate(&strings, handlers).luts;
        let stored = luts(&pipe) - area.estimate(&small, &pipe).luts;
        assert!(
            (stored - area.string_luts - area.store_luts.base - 4.0 * area.store_luts.bank).abs()
                < 1e-6
        );
        let mut waiting = piped(1, 1, 0);
        if let Handlers::Pipe { string_locks, queues, .. } = &mut waiting {
            (*string_locks, *queues) = (1, vec![(100, 16), (10, 64)]);
        }
        let waits = 32.0 * area.string_lock_slot_luts + 120.0 * area.queue_bit_luts;
        assert!((luts(&waiting) - luts(&pipe) - waits).abs() < 1e-6);
        let sizes = sizes(&small, &pipe);
        assert!(sizes.table_bits > 0.0 && sizes.header_bits > 0.0);
    }
}
