//! The object's global data: where each variable is (from the object's BTF), and reading and
//! writing `.bss` while the program runs, through the kernel's own memory.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{DataSec, Var};
use serde::{Deserialize, Serialize};

use super::error::XdpError;

/// Place of a global variable in its section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub offset: usize,
    pub size: usize,
}

/// Finds variable `name` of section `section`.
pub(super) fn find(btf: &Btf, section: &str, name: &str) -> Option<Place> {
    let section = btf.type_by_name::<DataSec>(section)?;
    section.iter().find_map(|entry| {
        let var = btf.type_by_id::<Var>(entry.ty)?;
        let place = Place { offset: entry.offset as usize, size: entry.size };
        (var.name()?.to_str()? == name).then_some(place)
    })
}

/// `.bss` of a loaded object, mapped into this process.
pub(crate) struct Globals {
    base: *mut u8,
    length: usize,
}

// SAFETY: the mapping is shared memory of its own; all access is atomic.
unsafe impl Send for Globals {}
// SAFETY: as above.
unsafe impl Sync for Globals {}

impl Globals {
    /// Maps the value of `.bss`, `length` bytes.
    pub(crate) fn map(fd: BorrowedFd, length: usize) -> Result<Globals, XdpError> {
        let length = length.next_multiple_of(4096);
        // SAFETY: a fresh mapping, owned by the result.
        let base = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(XdpError::last("map the program's global data"));
        }
        Ok(Globals { base: base.cast(), length })
    }

    pub(crate) fn u32(&self, offset: usize) -> u32 {
        self.cell32(offset).load(Ordering::Acquire)
    }

    pub(crate) fn set_u32(&self, offset: usize, value: u32) {
        self.cell32(offset).store(value, Ordering::Release);
    }

    pub(crate) fn u64(&self, offset: usize) -> u64 {
        self.cell64(offset).load(Ordering::Acquire)
    }

    pub(crate) fn set_u64(&self, offset: usize, value: u64) {
        self.cell64(offset).store(value, Ordering::Release);
    }

    fn cell32(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.length);
        // SAFETY: inside the mapping and aligned; the kernel side uses plain or atomic accesses of
        // the same width.
        unsafe { &*self.base.add(offset).cast::<AtomicU32>() }
    }

    fn cell64(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.length);
        // SAFETY: as above.
        unsafe { &*self.base.add(offset).cast::<AtomicU64>() }
    }
}

impl Drop for Globals {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `map`, unmapped once.
        unsafe { libc::munmap(self.base.cast(), self.length) };
    }
}
