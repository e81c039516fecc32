//! Tables of a program in this process.

use nicforge_codegen::host::HostTable;
use nicforge_ir::{Entry, Match, Program, Table, TableBackend, TableError, TableId, TableKind};

use super::error::HostError;
use super::ffi::{self, TableFunctions};

/// All tables of one program; entries are made, read and deleted through the runtime's own
/// functions.
pub struct Tables {
    functions: TableFunctions,
    pointers: Box<[*mut ffi::Table]>,
    shapes: Vec<Shape>,
}

/// A table as the program declares it and as it lies in memory.
struct Shape {
    def: Table,
    lies: HostTable,
}

type Result<T> = std::result::Result<T, TableError>;

impl Tables {
    pub fn new(
        program: &Program,
        lies: &[HostTable],
        functions: TableFunctions,
    ) -> std::result::Result<Tables, HostError> {
        let mut pointers = Vec::new();
        let mut shapes = Vec::new();
        for (def, lies) in program.tables.values().zip(lies) {
            // SAFETY: plain numbers.
            let table = unsafe {
                (functions.new)(
                    def.kind.number(),
                    def.capacity,
                    lies.key_size,
                    lies.entry_size,
                    lies.buf_capacity,
                )
            };
            if table.is_null() {
                let made = Tables { functions, pointers: pointers.into(), shapes };
                drop(made);
                return Err(HostError::TooLarge {
                    table: def.name.clone(),
                    capacity: def.capacity,
                });
            }
            pointers.push(table);
            shapes.push(Shape { def: def.clone(), lies: lies.clone() });
        }
        Ok(Tables { functions, pointers: pointers.into(), shapes })
    }

    /// The handles, by table number, for `struct nf_env`.
    pub fn handles(&mut self) -> *mut *mut ffi::Table {
        self.pointers.as_mut_ptr()
    }

    /// Insertions that a table refused.
    pub fn refused(&self, table: TableId) -> u64 {
        // SAFETY: a live table.
        unsafe { (self.functions.refused)(self.pointer(table)) }
    }

    /// Entries that a table evicted.
    pub fn evicted(&self, table: TableId) -> u64 {
        // SAFETY: a live table.
        unsafe { (self.functions.evicted)(self.pointer(table)) }
    }

    fn pointer(&self, table: TableId) -> *mut ffi::Table {
        self.pointers[table.as_u32() as usize]
    }

    fn shape(&self, table: TableId) -> &Shape {
        &self.shapes[table.as_u32() as usize]
    }

    /// The value's memory under exactly this key and match; null if there is none.
    fn find(&self, table: TableId, key: &[u8], matching: &Match, make: bool) -> *mut u8 {
        let (mask, detail) = self.shape(table).detail(key, matching);
        let call = if make { self.functions.put } else { self.functions.get };
        // SAFETY: key and mask have the table's key size, checked before.
        unsafe { call(self.pointer(table), key.as_ptr(), mask.as_ptr(), detail) }
    }

    /// Reads the entry whose value lies at `value`.
    fn entry(&self, table: TableId, key: Vec<u8>, matching: Match, value: *const u8) -> Entry {
        let lies = &self.shape(table).lies;
        // SAFETY: an entry's memory has entry_size bytes.
        let bytes = unsafe { std::slice::from_raw_parts(value, lies.entry_size as usize) };
        let buf = (lies.len_at > 0 || lies.buf_capacity > 0).then(|| {
            let at = lies.len_at as usize;
            let len = bytes[at..at + 4].try_into().map_or(0, u32::from_le_bytes) as usize;
            bytes[at + 4..at + 4 + len].to_vec()
        });
        Entry { key, matching, value: bytes[..lies.value_size as usize].to_vec(), buf }
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        for table in &self.pointers {
            // SAFETY: made by `new`, freed once.
            unsafe { (self.functions.free)(*table) };
        }
    }
}

impl Shape {
    /// Mask and prefix length or priority as the runtime takes them. A match that names less is
    /// exact.
    fn detail(&self, key: &[u8], matching: &Match) -> (Vec<u8>, u32) {
        match (self.def.kind, matching) {
            (TableKind::Lpm, Match::Prefix(bits)) => (Vec::new(), *bits),
            (TableKind::Lpm, _) => (Vec::new(), key.len() as u32 * 8),
            (TableKind::Ternary, Match::Mask { mask, priority }) => (mask.clone(), *priority),
            (TableKind::Ternary, _) => (vec![0xff; key.len()], 0),
            _ => (Vec::new(), 0),
        }
    }

    fn check(&self, key: &[u8], matching: &Match) -> Result<()> {
        let fail =
            |message: String| Err(TableError::Target { table: self.def.name.clone(), message });
        let size = self.lies.key_size as usize;
        if key.len() != size {
            return fail(format!("a key has {size} bytes, not {}", key.len()));
        }
        let kind = self.def.kind.name();
        match (matching, self.def.kind) {
            (Match::Prefix(bits), TableKind::Lpm) if *bits as usize > size * 8 => {
                fail(format!("a prefix of {bits} bits is longer than the key"))
            }
            (Match::Mask { mask, .. }, TableKind::Ternary) if mask.len() != size => {
                fail(format!("a mask has {size} bytes, not {}", mask.len()))
            }
            (Match::Exact, _)
            | (Match::Prefix(_), TableKind::Lpm)
            | (Match::Mask { .. }, TableKind::Ternary) => self.in_range(key),
            (Match::Prefix(_), _) => {
                fail(format!("{kind} tables do not match prefixes; lpm tables do"))
            }
            (Match::Mask { .. }, _) => {
                fail(format!("{kind} tables do not match masks; ternary tables do"))
            }
        }
    }

    fn in_range(&self, key: &[u8]) -> Result<()> {
        let (name, capacity) = (&self.def.name, self.def.capacity);
        match (self.def.kind, key.try_into().map(u32::from_le_bytes)) {
            (TableKind::Array, Ok(index)) if index >= capacity => {
                Err(TableError::OutOfRange { table: name.clone(), index, capacity })
            }
            _ => Ok(()),
        }
    }
}

impl TableBackend for Tables {
    fn get(&self, table: TableId, key: &[u8], matching: &Match) -> Result<Option<Entry>> {
        self.shape(table).check(key, matching)?;
        let value = self.find(table, key, matching, false);
        Ok((!value.is_null()).then(|| self.entry(table, key.to_vec(), matching.clone(), value)))
    }

    /// An entry without a byte string leaves that of a present one as it is.
    fn set(&mut self, table: TableId, entry: &Entry) -> Result<()> {
        let shape = self.shape(table);
        shape.check(&entry.key, &entry.matching)?;
        let lies = &shape.lies;
        let fail =
            |message: String| Err(TableError::Target { table: shape.def.name.clone(), message });
        if entry.value.len() != lies.value_size as usize {
            return fail(format!(
                "a value has {} bytes, not {}",
                lies.value_size,
                entry.value.len()
            ));
        }
        let buf = entry.buf.as_deref();
        if buf.is_some_and(|buf| buf.len() > lies.buf_capacity as usize) {
            return fail(format!("the byte string does not fit {} bytes", lies.buf_capacity));
        }
        let value = self.find(table, &entry.key, &entry.matching, true);
        if value.is_null() {
            return Err(TableError::Full {
                table: shape.def.name.clone(),
                capacity: shape.def.capacity,
            });
        }
        // SAFETY: an entry's memory has entry_size bytes.
        let bytes = unsafe { std::slice::from_raw_parts_mut(value, lies.entry_size as usize) };
        bytes[..entry.value.len()].copy_from_slice(&entry.value);
        if let Some(buf) = buf.filter(|_| lies.buf_capacity > 0) {
            let at = lies.len_at as usize;
            bytes[at..at + 4].copy_from_slice(&(buf.len() as u32).to_le_bytes());
            bytes[at + 4..at + 4 + buf.len()].copy_from_slice(buf);
        }
        Ok(())
    }

    fn delete(&mut self, table: TableId, key: &[u8], matching: &Match) -> Result<bool> {
        self.shape(table).check(key, matching)?;
        let (mask, detail) = self.shape(table).detail(key, matching);
        // SAFETY: key and mask have the table's key size.
        Ok(unsafe {
            (self.functions.remove)(self.pointer(table), key.as_ptr(), mask.as_ptr(), detail)
        })
    }

    fn dump(&self, table: TableId) -> Result<Vec<Entry>> {
        let shape = self.shape(table);
        if shape.def.kind == TableKind::Array {
            let keys = (0..shape.def.capacity).map(u32::to_le_bytes);
            let entries = keys.filter_map(|key| {
                let value = self.find(table, &key, &Match::Exact, false);
                let entry = self.entry(table, key.to_vec(), Match::Exact, value);
                let zero = entry.value.iter().all(|b| *b == 0)
                    && entry.buf.as_ref().is_none_or(Vec::is_empty);
                (!zero).then_some(entry)
            });
            let mut entries: Vec<Entry> = entries.collect();
            entries.sort();
            return Ok(entries);
        }
        let (mut entries, mut at) = (Vec::new(), 0);
        let size = shape.lies.key_size as usize;
        loop {
            // SAFETY: a live table; keys have the table's key size, with the mask behind them in
            // ternary tables.
            unsafe {
                let found = (self.functions.next)(self.pointer(table), &mut at);
                if found.is_null() {
                    break;
                }
                let key = (self.functions.key)(found);
                let detail = (self.functions.detail)(found);
                let matching = match shape.def.kind {
                    TableKind::Lpm => Match::Prefix(detail),
                    TableKind::Ternary => {
                        let mask = std::slice::from_raw_parts(key.add(size), size).to_vec();
                        Match::Mask { mask, priority: detail }
                    }
                    _ => Match::Exact,
                };
                let value = (self.functions.value)(self.pointer(table), found);
                let key = std::slice::from_raw_parts(key, size).to_vec();
                entries.push(self.entry(table, key, matching, value));
            }
        }
        entries.sort();
        Ok(entries)
    }
}
