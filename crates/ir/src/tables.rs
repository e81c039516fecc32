//! Table contents from outside: the one interface that the interpreter and every running target
//! offer to the control plane (`nicforge table`, `--tables`).

use crate::program::TableId;

/// Ways in which an entry's key matches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Match {
    /// `hash`, `lru`, `array`: the whole key.
    Exact,
    /// `lpm`: the first so many bits, first byte first, most significant bit first.
    Prefix(u32),
    /// `ternary`: the key's bits where `mask` has ones. The highest priority wins, then the entry
    /// set first.
    Mask { mask: Vec<u8>, priority: u32 },
}

/// One entry; key and value are the bytes of the table's key and value types.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub key: Vec<u8>,
    pub matching: Match,
    pub value: Vec<u8>,
    /// The entry's byte string, in tables that have one.
    pub buf: Option<Vec<u8>>,
}

/// Why a table operation from outside failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    #[error("table `{table}` is full: its capacity is {capacity}")]
    Full { table: String, capacity: u32 },
    #[error("index {index} is beyond the capacity {capacity} of array table `{table}`")]
    OutOfRange { table: String, index: u32, capacity: u32 },
    #[error("table `{table}`: {message}")]
    Target { table: String, message: String },
}

/// Reads and writes tables of a running or interpreted program.
pub trait TableBackend {
    /// The value (and byte string) stored under exactly this key and match.
    fn get(
        &self,
        table: TableId,
        key: &[u8],
        matching: &Match,
    ) -> Result<Option<Entry>, TableError>;
    /// Inserts or overwrites.
    fn set(&mut self, table: TableId, entry: &Entry) -> Result<(), TableError>;
    /// Deletes an entry; false if there was none. Entries of arrays are zeroed.
    fn delete(&mut self, table: TableId, key: &[u8], matching: &Match) -> Result<bool, TableError>;
    /// All entries (of arrays: those that are not all zero), sorted by key.
    fn dump(&self, table: TableId) -> Result<Vec<Entry>, TableError>;
}
