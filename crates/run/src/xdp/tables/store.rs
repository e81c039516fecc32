//! Maps by key and value as bytes: the kernel's, or a list in memory.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use libbpf_rs::{MapCore, MapHandle, libbpf_sys};
use nicforge_codegen::XdpMapShape;
use nicforge_ir::TableError;

use super::Result;

/// A map's entries.
pub trait Store: Send + Sync {
    /// The value under a key; values per CPU are added up.
    fn lookup(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// Writes a value; of values per CPU, the first CPU gets it and the others zero.
    fn update(&self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Removes a key; true if it was there.
    fn remove(&self, key: &[u8]) -> Result<bool>;
    /// The key behind a key, or the first one.
    fn next_key(&self, key: Option<&[u8]>) -> Result<Option<Vec<u8>>>;
    /// All entries of a list in memory.
    fn entries(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        Vec::new()
    }
}

/// A map of the kernel.
pub struct InKernel {
    /// The table's name.
    name: String,
    fd: OwnedFd,
    key_size: usize,
    value_size: usize,
    capacity: u32,
    per_cpu: bool,
    /// Bit offset and width of each integer in the value, for adding per CPU.
    integers: Vec<(usize, usize)>,
}

impl InKernel {
    /// The map of a table.
    ///
    /// # Errors
    /// There is no room for another file descriptor.
    pub fn new(
        map: &MapHandle,
        name: String,
        shape: XdpMapShape,
        integers: Vec<(usize, usize)>,
    ) -> io::Result<InKernel> {
        Ok(InKernel {
            name,
            fd: map.as_fd().try_clone_to_owned()?,
            key_size: map.key_size() as usize,
            value_size: map.value_size() as usize,
            capacity: map.max_entries(),
            per_cpu: shape == XdpMapShape::PerCpuSum,
            integers,
        })
    }

    fn target(&self, message: String) -> TableError {
        TableError::Target { table: self.name.clone(), message }
    }

    fn failed(&self, what: &str, status: i32) -> TableError {
        self.target(format!("cannot {what} it: {}", io::Error::from_raw_os_error(-status)))
    }

    /// Bytes of a value as the kernel exchanges it: per CPU, each padded to eight bytes.
    fn exchanged(&self) -> Result<(usize, usize)> {
        if !self.per_cpu {
            return Ok((self.value_size, 1));
        }
        let cpus =
            libbpf_rs::num_possible_cpus().map_err(|error| self.target(error.to_string()))?;
        Ok((self.value_size.next_multiple_of(8), cpus))
    }
}

impl Store for InKernel {
    fn lookup(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        debug_assert_eq!(key.len(), self.key_size);
        let (stride, cpus) = self.exchanged()?;
        let mut raw = vec![0u8; stride * cpus];
        // SAFETY: key and value have the sizes the kernel knows for this map.
        let status = unsafe {
            libbpf_sys::bpf_map_lookup_elem(
                self.fd.as_raw_fd(),
                key.as_ptr().cast(),
                raw.as_mut_ptr().cast(),
            )
        };
        match status {
            0 if cpus == 1 => Ok(Some(raw)),
            0 => {
                let mut sum = vec![0; self.value_size];
                raw.chunks(stride).for_each(|one| add_integers(&self.integers, &mut sum, one));
                Ok(Some(sum))
            }
            _ if -status == libc::ENOENT => Ok(None),
            _ => Err(self.failed("read", status)),
        }
    }

    fn update(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let (stride, cpus) = self.exchanged()?;
        let mut raw = vec![0u8; stride * cpus];
        raw[..value.len()].copy_from_slice(value);
        // SAFETY: key and value have the sizes the kernel knows for this map.
        let status = unsafe {
            libbpf_sys::bpf_map_update_elem(
                self.fd.as_raw_fd(),
                key.as_ptr().cast(),
                raw.as_ptr().cast(),
                0,
            )
        };
        match -status {
            0 => Ok(()),
            libc::E2BIG | libc::ENOSPC => {
                Err(TableError::Full { table: self.name.clone(), capacity: self.capacity })
            }
            _ => Err(self.failed("write", status)),
        }
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        // SAFETY: the key has the size the kernel knows for this map.
        let status =
            unsafe { libbpf_sys::bpf_map_delete_elem(self.fd.as_raw_fd(), key.as_ptr().cast()) };
        match -status {
            0 => Ok(true),
            libc::ENOENT => Ok(false),
            _ => Err(self.failed("delete from", status)),
        }
    }

    fn next_key(&self, key: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        let mut next = vec![0u8; self.key_size];
        let key = key.map_or(std::ptr::null(), |key| key.as_ptr());
        // SAFETY: both keys have the size the kernel knows for this map.
        let status = unsafe {
            libbpf_sys::bpf_map_get_next_key(
                self.fd.as_raw_fd(),
                key.cast(),
                next.as_mut_ptr().cast(),
            )
        };
        match -status {
            0 => Ok(Some(next)),
            libc::ENOENT => Ok(None),
            _ => Err(self.failed("walk over", status)),
        }
    }
}

/// A map in memory; arrays have a value for keys that were never written.
pub struct Listed {
    zero: Option<Vec<u8>>,
    entries: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl Listed {
    /// An empty map, or an array of zeroes.
    pub fn new(zero: Option<Vec<u8>>) -> Listed {
        Listed { zero, entries: Mutex::default() }
    }

    fn of<T>(&self, take: impl FnOnce(&mut BTreeMap<Vec<u8>, Vec<u8>>) -> T) -> T {
        take(&mut self.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Store for Listed {
    fn lookup(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.of(|entries| entries.get(key).cloned()).or_else(|| self.zero.clone()))
    }

    fn update(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.of(|entries| entries.insert(key.to_vec(), value.to_vec()));
        Ok(())
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        Ok(self.of(|entries| entries.remove(key)).is_some())
    }

    fn next_key(&self, key: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        let behind = |one: &&Vec<u8>| key.is_none_or(|key| one.as_slice() > key);
        Ok(self.of(|entries| entries.keys().find(behind).cloned()))
    }

    fn entries(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.of(|entries| entries.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}

/// Adds each integer of `one` to the same of `sum`, wrapping at its width.
fn add_integers(integers: &[(usize, usize)], sum: &mut [u8], one: &[u8]) {
    for (at, bits) in integers {
        let mut carry = 0;
        for bit in *at..at + bits {
            let bit_of = |bytes: &[u8]| (bytes[bit / 8] >> (bit % 8)) & 1;
            let total = bit_of(sum) + bit_of(one) + carry;
            carry = total >> 1;
            sum[bit / 8] = sum[bit / 8] & !(1 << (bit % 8)) | (total & 1) << (bit % 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_added_at_their_width() {
        let mut sum = vec![0xff, 1, 0, 0];
        add_integers(&[(0, 8), (8, 16), (24, 4)], &mut sum, &[2, 0xff, 0, 0x3f]);
        assert_eq!(sum, [1, 0, 1, 0x0f], "each wraps alone, bits outside stay");
    }
}
