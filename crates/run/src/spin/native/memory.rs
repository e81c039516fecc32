//! The NIC's memories at the NIC's own addresses in this process, so that addresses mean the same
//! to handlers and to the NIC.
//!
//! Clusters' memories, handler and packet memory lie where RISC-V units see them; stacks lie in
//! clusters' memories behind the rest, each with a guard page below. Everything is below 4 GiB,
//! which x32 code needs. The addresses are fixed, so a process has one set.

use std::sync::atomic::{AtomicBool, Ordering};

use nicforge_spin::machine::{Machine, map};
use nicforge_spin::nic::{Backing, Stacks};

/// Where code of handlers lies (`runtime/spin/native/link.ld.in`), and how much of it there may be.
pub const CODE: u32 = 0x2000_0000;
const MOST_CODE: usize = 16 << 20;
const PAGE: u32 = 4096;
/// A stack and its guard. Handlers of RISC-V units have 1 KiB; here a preempted one has its
/// signal's frame there too.
pub const STACKS: Stacks =
    Stacks { first: 0x20_0000 + PAGE, stride: 0x1_0000, bytes: 0x1_0000 - PAGE };

static TAKEN: AtomicBool = AtomicBool::new(false);

/// Why the memories are not to be had.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    #[error(
        "a native engine runs in this process already, and handlers' addresses are fixed: end it first, or use --engine iss"
    )]
    Taken,
    #[error(
        "{bytes} bytes at {address:#x}, where the NIC's memories have to be, cannot be mapped ({source}); use --engine iss"
    )]
    Map { address: usize, bytes: usize, source: std::io::Error },
    #[error("handlers have {0} bytes of code; the native engine has room for {MOST_CODE}")]
    Code(usize),
    #[error(
        "machine `{0}` has clusters of more memory than the native engine has room for; use --engine iss"
    )]
    Machine(String),
}

/// A range of addresses that is mapped here.
#[derive(Debug)]
struct Range {
    address: usize,
    bytes: usize,
}

impl Range {
    fn new(address: u32, bytes: usize) -> Result<Range, MemoryError> {
        let address = address as usize;
        let bytes = bytes.max(1).next_multiple_of(PAGE as usize);
        let flags = libc::MAP_PRIVATE
            | libc::MAP_ANONYMOUS
            | libc::MAP_NORESERVE
            | libc::MAP_FIXED_NOREPLACE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping that replaces none.
        let mapped =
            unsafe { libc::mmap(address as *mut libc::c_void, bytes, protection, flags, -1, 0) };
        if mapped.addr() != address {
            let source = std::io::Error::last_os_error();
            return Err(MemoryError::Map { address, bytes, source });
        }
        Ok(Range { address, bytes })
    }

    fn protect(&self, from: usize, bytes: usize, protection: i32) -> Result<(), MemoryError> {
        // SAFETY: pages of this mapping, whose contents nobody refers to yet, or that are code.
        let done = unsafe {
            libc::mprotect((self.address + from) as *mut libc::c_void, bytes, protection)
        };
        if done < 0 {
            let source = std::io::Error::last_os_error();
            return Err(MemoryError::Map { address: self.address + from, bytes, source });
        }
        Ok(())
    }

    /// A part of it, for as long as it is mapped.
    ///
    /// # Safety
    /// Parts do not overlap, and are not used once this is dropped.
    unsafe fn part(&self, from: usize, bytes: usize) -> &'static mut [u8] {
        // SAFETY: mapped, and as the caller says.
        unsafe { std::slice::from_raw_parts_mut((self.address + from) as *mut u8, bytes) }
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nothing refers to it any more.
        unsafe { libc::munmap(self.address as *mut libc::c_void, self.bytes) };
    }
}

/// Held while a process has the memories.
#[derive(Debug)]
struct Taken;

impl Drop for Taken {
    fn drop(&mut self) {
        TAKEN.store(false, Ordering::Release);
    }
}

/// The memories. The NIC that has their [`Backing`] goes before they do.
#[derive(Debug)]
pub struct Memory {
    clusters: Range,
    l2: Range,
    code: Range,
    code_bytes: usize,
    handler_bytes: usize,
    packet_bytes: usize,
    count: usize,
    given: bool,
    _taken: Taken,
}

impl Memory {
    /// Maps memories for a machine, with code.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub fn new(machine: &Machine, code: &[u8]) -> Result<Memory, MemoryError> {
        let stacks = STACKS.first - PAGE + STACKS.stride * machine.cores as u32;
        if machine.l1_bytes > STACKS.first - PAGE || stacks > map::L1_STRIDE {
            return Err(MemoryError::Machine(machine.name.clone()));
        }
        if code.len() > MOST_CODE {
            return Err(MemoryError::Code(code.len()));
        }
        if TAKEN.swap(true, Ordering::Acquire) {
            return Err(MemoryError::Taken);
        }
        let taken = Taken;
        let stride = map::L1_STRIDE as usize;
        let clusters = Range::new(map::L1, machine.clusters * stride)?;
        for cluster in 0..machine.clusters {
            for core in 0..machine.cores {
                let guard = STACKS.of(core).start - PAGE;
                clusters.protect(
                    cluster * stride + guard as usize,
                    PAGE as usize,
                    libc::PROT_NONE,
                )?;
            }
        }
        let (handler_bytes, packet_bytes) =
            (machine.l2_bytes as usize, machine.packet_bytes as usize);
        let l2 = Range::new(map::L2, handler_bytes + packet_bytes)?;
        let place = Range::new(CODE, code.len())?;
        // SAFETY: the mapping is new, and only this refers to it.
        unsafe { place.part(0, code.len()) }.copy_from_slice(code);
        place.protect(0, place.bytes, libc::PROT_READ | libc::PROT_EXEC)?;
        let count = machine.clusters;
        Ok(Memory {
            clusters,
            l2,
            code: place,
            code_bytes: code.len(),
            handler_bytes,
            packet_bytes,
            count,
            given: false,
            _taken: taken,
        })
    }

    /// Gives the NIC what it works on; once.
    pub fn backing(&mut self) -> Option<Backing> {
        if std::mem::replace(&mut self.given, true) {
            return None;
        }
        let stride = map::L1_STRIDE as usize;
        // SAFETY: parts that do not overlap, given out once; the NIC drops its memories before its
        // engine, which has this.
        unsafe {
            Some(Backing {
                l1: (0..self.count)
                    .map(|cluster| self.clusters.part(cluster * stride, stride))
                    .collect(),
                handler: self.l2.part(0, self.handler_bytes),
                packets: self.l2.part(self.handler_bytes, self.packet_bytes),
                stacks: STACKS,
            })
        }
    }

    /// Addresses of code.
    pub fn code(&self) -> std::ops::Range<u64> {
        self.code.address as u64..(self.code.address + self.code_bytes) as u64
    }

    /// Addresses among which stacks lie, with their guards.
    pub fn clusters(&self) -> std::ops::Range<u64> {
        self.clusters.address as u64..(self.clusters.address + self.clusters.bytes) as u64
    }
}
