//! Reading a BPF ring buffer: a page with the reader's position, a page with the writer's, and the
//! data mapped twice in a row so that no record has a seam (kernel/bpf/ringbuf.c).
//!
//! A record is a `u32` length, whose top bits say "being written" and "given up", a `u32` of the
//! kernel's, and the bytes, padded to eight. The reader moves its position on only past finished
//! records, so order is the order of reservation.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

const PAGE: usize = 4096;
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEADER: usize = 8;

/// A ring buffer mapped for reading. One reader at a time.
pub(crate) struct Ring {
    consumer: *mut u8,
    producer: *mut u8,
    size: usize,
}

// SAFETY: the mappings are owned; positions are atomics and `drain` takes `&mut self`.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps ring buffer `fd` of `size` bytes (its `max_entries`).
    pub(crate) fn map(fd: BorrowedFd, size: usize) -> std::io::Result<Ring> {
        let map = |length, protection, offset| {
            // SAFETY: fresh mappings, owned by the result.
            let at = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    length,
                    protection,
                    libc::MAP_SHARED,
                    fd.as_raw_fd(),
                    offset,
                )
            };
            if at == libc::MAP_FAILED {
                Err(std::io::Error::last_os_error())
            } else {
                Ok(at.cast::<u8>())
            }
        };
        let consumer = map(PAGE, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        match map(PAGE + 2 * size, libc::PROT_READ, PAGE as libc::off_t) {
            Ok(producer) => Ok(Ring { consumer, producer, size }),
            Err(error) => {
                // SAFETY: mapped above.
                unsafe { libc::munmap(consumer.cast(), PAGE) };
                Err(error)
            }
        }
    }

    /// Gives every finished record to `take`, oldest first; returns how many there were.
    pub(crate) fn drain(&mut self, mut take: impl FnMut(&[u8])) -> usize {
        // SAFETY: the first word of each page is the position, aligned, and alive as long as the
        // mapping.
        let (read, written) = unsafe {
            (&*self.consumer.cast::<AtomicUsize>(), &*self.producer.cast::<AtomicUsize>())
        };
        let mut at = read.load(Ordering::Relaxed);
        let mut count = 0;
        while at < written.load(Ordering::Acquire) {
            // SAFETY: positions are multiples of 8, the data is mapped twice, so header and bytes
            // are inside.
            let (length, bytes) = unsafe {
                let header = self.producer.add(PAGE + (at & (self.size - 1)));
                ((*header.cast::<AtomicU32>()).load(Ordering::Acquire), header.add(HEADER))
            };
            if length & BUSY != 0 {
                break;
            }
            let size = (length & !(BUSY | DISCARDED)) as usize;
            if length & DISCARDED == 0 {
                // SAFETY: the kernel does not touch a finished record until the position moves past
                // it.
                take(unsafe { std::slice::from_raw_parts(bytes, size) });
                count += 1;
            }
            at += (size + HEADER).next_multiple_of(8);
            read.store(at, Ordering::Release);
        }
        count
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped in `map`, unmapped once.
        unsafe {
            libc::munmap(self.consumer.cast(), PAGE);
            libc::munmap(self.producer.cast(), PAGE + 2 * self.size);
        }
    }
}
