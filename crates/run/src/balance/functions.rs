//! What sides compute: functions with results that a client can check.
//!
//! State is in one table of a file that both processes map: packet by packet either of them may
//! serve any key, and the results are those of one process. An entry is a key and a value, both
//! atomic; a key is claimed once and never moves, so two sides that insert the same key agree on
//! its place. Only the operation on the value has to be atomic: an addition (count), a store
//! (key-value store) or a compare-and-swap (EMA).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::library::Pipeline;

/// Entries of the shared table, a power of two.
pub const ENTRIES: usize = 1 << 16;
/// Bits behind the point of an average.
pub const EMA_POINT: u32 = 16;
/// Weight of the newest value: 2^-3.
const EMA_SHIFT: u32 = 3;

/// Functions by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionName {
    /// The FNV-1a hash of the payload: no state.
    Digest,
    /// Counts a key; the result is the new count.
    Count,
    /// Operation 1 writes the value, anything else reads it.
    Kvs,
    /// The exponential moving average of a key's values.
    Ema,
    /// C functions, one after the other ([`super::library`]): the digest of what comes out.
    Library,
}

impl FunctionName {
    pub const ALL: [(FunctionName, &str); 4] = [
        (FunctionName::Digest, "digest"),
        (FunctionName::Count, "count"),
        (FunctionName::Kvs, "kvs"),
        (FunctionName::Ema, "ema"),
    ];

    /// By name.
    pub fn named(name: &str) -> Option<FunctionName> {
        FunctionName::ALL.iter().find(|(_, known)| *known == name).map(|(function, _)| *function)
    }

    pub fn name(self) -> &'static str {
        FunctionName::ALL
            .iter()
            .find(|(known, _)| *known == self)
            .map_or("library", |(_, name)| name)
    }
}

/// The shared table, mapped into this process.
struct Table {
    base: *const AtomicU64,
}

// SAFETY: shared memory that is only accessed atomically.
unsafe impl Send for Table {}

const BYTES: usize = ENTRIES * 16;

impl Table {
    fn map(path: &Path) -> io::Result<Table> {
        let file =
            File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        file.set_len(BYTES as u64)?;
        // SAFETY: a fresh mapping of a file that is as long.
        let base = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(
                std::ptr::null_mut(),
                BYTES,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Table { base: base.cast() })
    }

    fn cell(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at < 2 * ENTRIES);
        // SAFETY: within the mapping, aligned, and only accessed atomically.
        unsafe { &*self.base.add(at) }
    }

    /// The value of a key, which is entered if it is new; none if the table is full or the key is
    /// the largest number. Keys are stored plus one: 0 is free.
    fn value(&self, key: u64) -> Option<&AtomicU64> {
        let stored = key.checked_add(1)?;
        let mut at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
        for _ in 0..ENTRIES {
            at &= ENTRIES - 1;
            let found =
                self.cell(2 * at).compare_exchange(0, stored, Ordering::AcqRel, Ordering::Acquire);
            if found.is_ok() || found == Err(stored) {
                return Some(self.cell(2 * at + 1));
            }
            at += 1;
        }
        None
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: our mapping, used no more.
        unsafe { libc::munmap(self.base.cast_mut().cast(), BYTES) };
    }
}

/// A function with its state.
pub struct Function {
    name: FunctionName,
    table: Table,
    pipeline: Option<Pipeline>,
}

/// The result when the table is full.
pub const FULL: u64 = u64::MAX;

impl Function {
    /// With the table in a file, which is made if need be.
    pub fn new(name: FunctionName, table: &Path) -> io::Result<Function> {
        Ok(Function { name, table: Table::map(table)?, pipeline: None })
    }

    /// With C functions in place of a built-in one.
    pub fn with_pipeline(self, pipeline: Pipeline) -> Function {
        Function { name: FunctionName::Library, pipeline: Some(pipeline), ..self }
    }

    /// Serves a request.
    pub fn run(&mut self, operation: u8, key: u64, value: u64, payload: &[u8]) -> u64 {
        if let Some(pipeline) = &mut self.pipeline {
            return pipeline.run(payload);
        }
        if self.name == FunctionName::Digest {
            return digest(payload);
        }
        let Some(cell) = self.table.value(key) else { return FULL };
        match self.name {
            FunctionName::Count => cell.fetch_add(1, Ordering::AcqRel) + 1,
            FunctionName::Kvs if operation == 1 => {
                cell.store(value, Ordering::Release);
                value
            }
            FunctionName::Ema => {
                let step = |old: u64| Some(next_average(old, value));
                let old = cell.fetch_update(Ordering::AcqRel, Ordering::Acquire, step);
                next_average(old.unwrap_or(0), value)
            }
            FunctionName::Kvs | FunctionName::Digest | FunctionName::Library => {
                cell.load(Ordering::Acquire)
            }
        }
    }
}

/// The next average of a key: old + (value - old) / 8, with 16 bits behind the point.
pub fn next_average(old: u64, value: u64) -> u64 {
    let value = value << EMA_POINT;
    if value >= old {
        old + ((value - old) >> EMA_SHIFT)
    } else {
        old - ((old - value) >> EMA_SHIFT)
    }
}

/// FNV-1a of 64 bits.
pub fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two mappings of one file, as two processes have them, at the same time.
    #[test]
    fn two_sides_count_as_one() {
        const TIMES: u64 = 300_000;
        const KEYS: u64 = 2;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        let start = std::sync::Barrier::new(2);
        let sides: Vec<Vec<(u64, u64)>> = std::thread::scope(|scope| {
            let work = |_| {
                let mut function = Function::new(FunctionName::Count, &path).unwrap();
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    (0..TIMES).map(|n| (n % KEYS, function.run(0, n % KEYS, 0, &[]))).collect()
                })
            };
            let sides: Vec<_> = (0..2).map(work).collect();
            sides.into_iter().map(|side| side.join().unwrap()).collect()
        });
        // Every count of every key was given out once.
        let mut all: Vec<(u64, u64)> = sides.concat();
        all.sort();
        let want: Vec<(u64, u64)> = (0..KEYS)
            .flat_map(|key| (1..=2 * TIMES / KEYS).map(move |count| (key, count)))
            .collect();
        assert_eq!(all, want);
    }

    #[test]
    fn averages_and_values_are_shared() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        let mut sides: Vec<Function> =
            (0..2).map(|_| Function::new(FunctionName::Ema, &path).unwrap()).collect();
        let mut want = 0;
        for n in 0..100u64 {
            want = next_average(want, n * n);
            assert_eq!(sides[(n % 2) as usize].run(0, 7, n * n, &[]), want);
        }
        sides[0].name = FunctionName::Kvs;
        sides[1].name = FunctionName::Kvs;
        sides[0].run(1, 9, 42, &[]);
        assert_eq!((sides[1].run(0, 9, 0, &[]), sides[1].run(0, 8, 0, &[])), (42, 0));
    }

    #[test]
    fn a_full_table_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let mut function = Function::new(FunctionName::Count, &folder.path().join("t")).unwrap();
        assert!((0..ENTRIES as u64).all(|key| function.run(0, key, 0, &[]) == 1));
        assert_eq!(function.run(0, u64::from(u32::MAX), 0, &[]), FULL);
    }
}
