//! What the generator knows at a point of a handler: where the packet's cursor is, which headers
//! wait to be written, how many bytes of the frame are there for certain, and which table entries
//! it has pointers to.

use nicforge_ir::{TableId, ValueId};

/// Where the read cursor is, in bytes from `data`.
#[derive(Clone, Debug, PartialEq)]
pub enum Cursor {
    /// A constant. With `unless`, a read has just been tried: if that value is false, the cursor
    /// still is at `before`.
    Static { at: u32, unless: Option<(ValueId, u32)> },
    /// In the C variable `cursor`.
    Dynamic,
}

/// The headers emitted so far.
#[derive(Clone, Debug, PartialEq)]
pub enum Emits {
    /// C variables, in order.
    List(Vec<Emitted>),
    /// Bytes in the staging area; their number is in the C variable `staged_len`.
    Staged,
}

/// One emitted value.
#[derive(Clone, Debug, PartialEq)]
pub struct Emitted {
    pub value: ValueId,
    /// The C variable that holds its bytes.
    pub name: String,
    pub size: u32,
}

/// A pointer to an entry of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryPointer {
    pub table: TableId,
    pub key: ValueId,
    /// The C variable, null on a miss.
    pub name: String,
    /// The truth value that says whether it hit.
    pub hit: Option<ValueId>,
    /// True if it hit, where this path knows.
    pub known: Option<bool>,
    /// The value the entry holds if it hit, where no other write came between.
    pub content: Option<ValueId>,
}

/// See the module's head.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub cursor: Cursor,
    pub emits: Emits,
    /// Bytes from `data` on that are known to be before `end`.
    pub proved: u32,
    pub entries: Vec<EntryPointer>,
    /// Extracted values that still lie in the frame: value, C pointer to it, bytes of the frame
    /// that must be proved.
    pub wire: Vec<(ValueId, String, u32)>,
    /// Inside a loop that moves the packet: cursor and headers must stay in their C variables.
    pub pinned: bool,
    /// The frame may begin before where it began when it came: offsets are not those of what was
    /// received.
    pub moved: bool,
    /// The entry that was used last in each table, where an entry's uses count.
    pub recent: Vec<(TableId, String)>,
    /// C variables that hold the hash of a key, where tables with the same key share it.
    pub hashes: Vec<(ValueId, String)>,
}

impl Default for State {
    fn default() -> State {
        State {
            cursor: Cursor::Static { at: 0, unless: None },
            emits: Emits::List(Vec::new()),
            proved: 0,
            entries: Vec::new(),
            wire: Vec::new(),
            pinned: false,
            moved: false,
            recent: Vec::new(),
            hashes: Vec::new(),
        }
    }
}

impl State {
    /// Forgets what entries of a table hold, after a write that may have been to any of them.
    pub fn contents_changed(&mut self, table: TableId) {
        for entry in self.entries.iter_mut().filter(|e| e.table == table) {
            entry.content = None;
        }
    }

    /// Forgets pointers into a table, after entries may have moved.
    pub fn entries_moved(&mut self, table: TableId) {
        self.entries.retain(|e| e.table != table);
    }

    /// Forgets what an insert of some key made wrong: pointers that may have missed, and all
    /// contents.
    pub fn entry_came(&mut self, table: TableId) {
        self.entries.retain(|e| e.table != table || e.known == Some(true));
        self.contents_changed(table);
    }

    /// The pointer to the entry of exactly this key value.
    pub fn entry(&self, table: TableId, key: ValueId) -> Option<&EntryPointer> {
        self.entries.iter().find(|e| e.table == table && e.key == key)
    }
}
