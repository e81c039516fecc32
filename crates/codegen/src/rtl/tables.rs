//! How tables of a program become modules of the library.

use std::fmt::Write as _;

use nicforge_ir::{Program, TableKind};

use super::shape::{Bits, literal};
use crate::c::names::Names;

/// Operations of table modules, see `rtl/nf_table_array.sv`.
pub mod op {
    pub const FIND: u64 = 0;
    pub const UPDATE: u64 = 1;
    pub const DELETE: u64 = 2;
    pub const ENSURE: u64 = 3;
    pub const WRITE: u64 = 4;
    pub const NEXT: u64 = 6;
}

/// Where byte strings of a table's entries are.
#[derive(Clone, Debug)]
pub struct ByteStore {
    /// Number of the memory; 0 is the packet buffer.
    pub memory: u64,
    /// Number of the table.
    pub table: usize,
    /// Lines of 64 bytes of each entry.
    pub lines: u32,
    pub capacity: u32,
}

/// A table as a module.
#[derive(Clone, Debug)]
pub struct TableForm {
    pub name: String,
    pub kind: TableKind,
    pub capacity: u32,
    /// What the names of its signals start with.
    pub signals: String,
    pub key_bits: u32,
    pub value_bits: u32,
    /// Length of the byte string, above the value.
    pub extra_bits: u32,
    pub bytes: Option<ByteStore>,
    /// Handlers change it, so events use it in their order.
    pub changed: bool,
    /// Handlers look at all of its entries.
    pub scanned: bool,
}

/// Tables that handlers look through.
fn scanned(program: &Program) -> Vec<bool> {
    let mut list = vec![false; program.tables.len()];
    for op in program.handlers.values().flat_map(|handler| handler.body.insts.values()) {
        if let Some(table) = op.op.table().filter(|_| op.op.scans()) {
            list[table.as_u32() as usize] = true;
        }
    }
    list
}

/// Tables that handlers change: an LRU table also by looking something up.
fn changed(program: &Program) -> Vec<bool> {
    let mut list: Vec<bool> = program
        .tables
        .values()
        .map(|table| table.kind == TableKind::Lru || table.buf.is_some())
        .collect();
    for handler in program.handlers.values() {
        let body = &handler.body;
        body.for_each_inst(body.entry(), &mut |inst| {
            if let Some(table) = body.insts[inst].op.effects().table_write {
                list[table.as_u32() as usize] = true;
            }
        });
    }
    list
}

/// The tables of a program.
pub fn forms(program: &Program, bits: &Bits) -> Vec<TableForm> {
    let mut names = Names::new(Vec::new());
    let mut memory = 0;
    let (changed, scanned) = (changed(program), scanned(program));
    let form = |(number, table): (usize, &nicforge_ir::Table)| {
        let bytes = table.buf.map(|capacity| {
            memory += 1;
            ByteStore { memory, table: number, lines: capacity.div_ceil(64).max(1), capacity }
        });
        TableForm {
            name: table.name.clone(),
            kind: table.kind,
            capacity: table.capacity,
            signals: format!("t_{}", names.fresh(&table.name)),
            key_bits: 8 * bits.bytes(table.key),
            value_bits: 8 * bits.bytes(table.value),
            extra_bits: if bytes.is_some() { 32 } else { 0 },
            bytes,
            changed: changed[number],
            scanned: scanned[number],
        }
    };
    program.tables.values().enumerate().map(form).collect()
}

/// Bits of a key's hash in nf_string_lock.
const STRING_TAG: u32 = 12;
/// Places of nf_pipe_hash beside its rows.
const STASH: u32 = 8;

/// Bits of a number below `count`, at least one.
pub fn bits_below(count: u32) -> u32 {
    (32 - count.saturating_sub(1).leading_zeros()).max(1)
}

impl TableForm {
    /// Bits of an entry.
    pub fn entry_bits(&self) -> u32 {
        self.value_bits + self.extra_bits
    }

    /// The library module that keeps it.
    pub fn module(&self) -> &'static str {
        match self.kind {
            TableKind::Array => "nf_table_array",
            TableKind::Hash | TableKind::Lru => "nf_table_hash",
            TableKind::Lpm => "nf_table_lpm",
            TableKind::Ternary => "nf_table_ternary",
        }
    }

    /// Bits of memory that entries and what finds them take.
    pub fn memory_bits(&self) -> u64 {
        let link = u64::from(bits_below(self.capacity)) + 1;
        let (key, entry) = (u64::from(self.key_bits), u64::from(self.entry_bits()));
        let each = match self.kind {
            TableKind::Array => entry,
            TableKind::Hash => key + entry + 2 * link + 1,
            TableKind::Lru => key + entry + 4 * link + 1,
            TableKind::Lpm => key + 16 + entry + 2 * link + 1,
            TableKind::Ternary => 2 * key + 32 + entry,
        };
        let strings = self.bytes.as_ref().map_or(0, |store| u64::from(store.lines) * 512);
        u64::from(self.capacity) * (each + strings)
    }

    /// The module's parameters.
    pub fn parameters(&self) -> String {
        let mut out = format!(
            ".KEY({}), .VALUE({}), .EXTRA({}), .CAPACITY({})",
            self.key_bits, self.value_bits, self.extra_bits, self.capacity
        );
        let hashed = match self.kind {
            TableKind::Hash | TableKind::Lru => self.key_bits,
            TableKind::Lpm => self.key_bits + 16,
            TableKind::Array | TableKind::Ternary => return out,
        };
        if self.kind == TableKind::Lru {
            out.push_str(", .LRU(1)");
        }
        let buckets = bits_below(self.capacity);
        let _ = write!(out, ",\n      .H3({})", masks(hashed * buckets));
        out
    }
}

impl TableForm {
    /// The library module that keeps it in a pipe in which it has so many lookup ports, which may
    /// `shared` be given the same key.
    pub fn pipe_module(&self, ports: usize, shared: bool) -> &'static str {
        match self.kind {
            TableKind::Array if shared => "nf_pipe_entries",
            TableKind::Hash if shared => "nf_pipe_hash_entries",
            TableKind::Array if ports > 1 => "nf_pipe_parts",
            TableKind::Array => "nf_pipe_array",
            TableKind::Lpm => "nf_pipe_lpm",
            TableKind::Ternary => "nf_pipe_ternary",
            _ => "nf_pipe_hash",
        }
    }

    /// Cycles from a key to its entry in that module.
    pub fn pipe_stages(&self) -> u32 {
        match self.kind {
            TableKind::Array => 3,
            // Four bits of the key a cycle.
            TableKind::Lpm => self.key_bits / 4 + 2,
            // A tree of 16 to one.
            TableKind::Ternary => 3 + bits_below(self.capacity).div_ceil(4),
            _ => 5,
        }
    }

    /// Flip-flops of keys and masks in that module, for each lookup.
    pub fn compared_bits(&self) -> u64 {
        match self.kind {
            TableKind::Ternary => 2 * u64::from(self.key_bits) * u64::from(self.capacity),
            _ => 0,
        }
    }

    /// Bits of an array's numbers.
    pub fn number_bits(&self) -> u32 {
        bits_below(self.capacity).min(self.key_bits)
    }

    /// Stages from the one in which a lock is given keys to the gate.
    pub fn stages_of_lock(&self) -> u32 {
        if self.pipe_hashes() { 2 } else { 1 }
    }

    /// Parameters of that lock, for so many ports, which may `shared` be given the same number of
    /// an array, of a table that is changed so many cycles after it shows an entry.
    pub fn lock_parameters(&self, ports: usize, apart: u32, shared: bool) -> String {
        let hashed = self.pipe_hashes();
        let bits = if hashed { self.row_bits() } else { self.number_bits() };
        let mut out = format!(
            ".KEY({}), .PORTS({ports}), .APART({apart}), .HASHED({}), .R({bits})",
            self.key_bits,
            u32::from(hashed)
        );
        if shared && !hashed {
            out.push_str(", .SHARED(1)");
        }
        if hashed {
            let bits = 2 * self.key_bits * bits;
            let _ = write!(out, ",\n      .H3({})", masks(bits));
        }
        out
    }

    /// The hash by which a lock of its byte strings tells keys apart, as a parameter.
    pub fn string_lock_masks(&self) -> String {
        let bits = STRING_TAG * self.key_bits;
        format!(".T({STRING_TAG}), .H3({})", masks(bits))
    }

    /// The form of a pipe, in which lengths of byte strings are part of values.
    pub fn in_pipe(&self) -> TableForm {
        TableForm { value_bits: self.entry_bits(), extra_bits: 0, ..self.clone() }
    }

    /// Lines of 64 bytes of a pipe's byte strings: each place has as many, those of a stash
    /// included, which nf_pipe_hash_entries has not.
    pub fn pipe_lines(&self) -> u32 {
        let places =
            if self.pipe_hashes() { (8 << self.row_bits()) + STASH } else { self.capacity };
        self.bytes.as_ref().map_or(0, |store| store.lines * places)
    }

    /// True if that module says in which places entries with byte strings are.
    pub fn gives_places(&self) -> bool {
        self.bytes.is_some() && self.pipe_hashes()
    }

    /// True if that module hashes keys, in the cycle in which they are given.
    pub fn pipe_hashes(&self) -> bool {
        matches!(self.kind, TableKind::Hash | TableKind::Lru)
    }

    /// Bits of row numbers, where that module hashes.
    fn row_bits(&self) -> u32 {
        if self.capacity > 8 { bits_below(self.capacity) - 2 } else { 1 }
    }

    /// How likely two packets meet in that module that are given so many entries each, if keys are
    /// random: in an entry, or in a row of either side.
    pub fn meeting_chance(&self, entries: usize) -> f64 {
        let pairs = (entries * entries) as f64;
        let rows = f64::from(1u32 << self.row_bits());
        let each =
            if self.pipe_hashes() { 2.0 / rows } else { 1.0 / f64::from(self.capacity.max(1)) };
        (pairs * each).min(1.0)
    }

    /// Bits of memory of that module with so many copies of its entries, whose byte strings are
    /// there once.
    pub fn pipe_memory_bits(&self, copies: u64) -> u64 {
        let entries = match self.pipe_hashes() {
            true => {
                u64::from(8u32 << self.row_bits()) * u64::from(1 + self.key_bits + self.value_bits)
            }
            false => TableForm { bytes: None, ..self.clone() }.memory_bits(),
        };
        copies * entries + 512 * u64::from(self.pipe_lines())
    }

    /// That module's parameters; `valued` says of each port whether it gives values, `from` where
    /// its part of an array starts, `apart` how many cycles after its entry is shown it is changed,
    /// `changing` of each port whether it changes entries, if all are given at once.
    pub fn pipe_parameters(
        &self,
        number: usize,
        valued: &[bool],
        from: &[u64],
        apart: u32,
        changing: Option<&[bool]>,
    ) -> String {
        let mut out = format!(
            ".KEY({}), .VALUE({}), .CAPACITY({})",
            self.key_bits, self.value_bits, self.capacity
        );
        if apart > 0 {
            let _ = write!(out, ", .APART({apart})");
        }
        if let Some(changing) = changing {
            let _ =
                write!(out, ", .PORTS({0}), .WRITTEN({0}'b{1})", changing.len(), binary(changing));
        } else if self.kind == TableKind::Array && from.len() > 1 {
            let starts: Vec<String> =
                from.iter().rev().map(|start| format!("32'd{start}")).collect();
            let _ = write!(out, ", .PARTS({}), .FROM({{{}}})", from.len(), starts.join(", "));
        }
        if self.bytes.is_some() {
            out.push_str(", .KEPT(32)");
        }
        if self.pipe_hashes() && changing.is_some() {
            let bits = 2 * self.key_bits * self.row_bits();
            let _ = write!(out, ",\n      .H3({})", masks(bits));
        } else if self.pipe_hashes() {
            let bits = 2 * self.key_bits * self.row_bits();
            let lru = u32::from(self.kind == TableKind::Lru);
            let _ = write!(
                out,
                ", .LRU({lru}), .TABLE({number}), .PORTS({0}), .VALUED({0}'b{1}),\n      .H3({2})",
                valued.len(),
                binary(valued),
                masks(bits)
            );
        }
        out
    }
}

/// Bits, the first one lowest.
fn binary(bits: &[bool]) -> String {
    bits.iter().rev().map(|bit| if *bit { '1' } else { '0' }).collect()
}

/// So many bits that look random and are the same every time, as a constant: SplitMix64 from zero.
/// Keys have whole bytes, so masks for them do.
fn masks(bits: u32) -> String {
    let words =
        (0..bits.div_ceil(32)).flat_map(|n| nicforge_ir::io::random(0, u64::from(n)).to_le_bytes());
    let bytes: Vec<u8> = words.take(bits as usize / 8).collect();
    literal(bits, &bytes)
}
