//! Kinds of maps: their numbers in the kernel's interface, and what they become.

use nicforge_ir::TableKind;
use nicforge_isa::object::Map;

pub const HASH: u32 = 1;
pub const ARRAY: u32 = 2;
pub const PROG_ARRAY: u32 = 3;
pub const PERCPU_HASH: u32 = 5;
pub const PERCPU_ARRAY: u32 = 6;
pub const LRU_HASH: u32 = 9;
pub const LRU_PERCPU_HASH: u32 = 10;
pub const LPM_TRIE: u32 = 11;
pub const ARRAY_OF_MAPS: u32 = 12;
pub const HASH_OF_MAPS: u32 = 13;
pub const DEVMAP: u32 = 14;
pub const CPUMAP: u32 = 16;
pub const XSKMAP: u32 = 17;
pub const QUEUE: u32 = 22;
pub const STACK: u32 = 23;
pub const DEVMAP_HASH: u32 = 25;

/// True if a map holds entries that programs can find.
pub fn has_entries(map: &Map) -> bool {
    map.kind.is_some_and(|kind| table_kind(kind).is_some() || kind == PROG_ARRAY)
}

/// True if a map's entries are keys and values that anybody may put there.
pub fn is_settable(map: &Map) -> bool {
    const SETTABLE: [u32; 7] =
        [HASH, ARRAY, PERCPU_HASH, PERCPU_ARRAY, LRU_HASH, LRU_PERCPU_HASH, LPM_TRIE];
    // Sections of global data are maps whose names have a dot.
    map.kind.is_some_and(|kind| SETTABLE.contains(&kind)) && !map.name.contains('.')
}

/// The kind of table that a map becomes.
pub fn table_kind(kind: u32) -> Option<TableKind> {
    Some(match kind {
        HASH | PERCPU_HASH => TableKind::Hash,
        ARRAY | PERCPU_ARRAY | QUEUE | STACK => TableKind::Array,
        LRU_HASH | LRU_PERCPU_HASH => TableKind::Lru,
        LPM_TRIE => TableKind::Lpm,
        // Entries that nobody set are absent there.
        DEVMAP | DEVMAP_HASH | CPUMAP | XSKMAP => TableKind::Hash,
        _ => return None,
    })
}

/// True if a kind of map is a queue or a stack.
pub fn is_ring(number: u32) -> bool {
    matches!(number, QUEUE | STACK)
}
