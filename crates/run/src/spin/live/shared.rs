//! Host memory that handlers and programs share: files in memory, mapped here and by the program.

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};

use nicforge_spin::nic::{HostMemory, HostRegion};

use crate::unix::SharedFile;

const NAME: &CStr = c"nicforge-spin-host";

/// A region, mapped.
#[derive(Debug)]
struct Mapping {
    region: HostRegion,
    file: SharedFile,
}

impl Mapping {
    /// Where an address lies in the mapping, if all bytes from there on do.
    fn at(&self, address: u64, bytes: usize) -> Option<*mut u8> {
        let offset = address.checked_sub(self.region.address)?;
        let end = offset.checked_add(bytes as u64)?;
        // SAFETY: offset and end are within the mapping.
        (end <= self.region.bytes.into())
            .then(|| unsafe { self.file.address().add(offset as usize) })
    }
}

/// The regions of all contexts. Clones are the same memory.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    mappings: Arc<Mutex<Vec<Mapping>>>,
}

impl Shared {
    /// Makes a region, in the place of one that begins at the same address, and gives a descriptor
    /// for the program.
    ///
    /// # Errors
    /// No memory or no descriptors are left.
    pub fn make(&self, region: HostRegion) -> std::io::Result<OwnedFd> {
        let mapping = Mapping { region, file: SharedFile::new(NAME, region.bytes as usize)? };
        let file = mapping.file.file()?;
        let mut mappings = self.lock();
        mappings.retain(|other| other.region.address != region.address);
        mappings.push(mapping);
        Ok(file)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Mapping>> {
        self.mappings.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl HostMemory for Shared {
    fn read(&mut self, address: u64, bytes: &mut [u8]) {
        bytes.fill(0);
        if let Some(from) = self.lock().iter().find_map(|mapping| mapping.at(address, bytes.len()))
        {
            // SAFETY: `at` gives so many bytes of a mapping that lives while the lock is held. The
            // program may write them meanwhile: then what is read is some of both, as with a
            // device.
            unsafe { std::ptr::copy(from, bytes.as_mut_ptr(), bytes.len()) };
        }
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        if let Some(to) = self.lock().iter().find_map(|mapping| mapping.at(address, bytes.len())) {
            // SAFETY: as above. Eight bytes are one store, so that a program that polls a flag sees
            // all of it or nothing.
            unsafe {
                if bytes.len() == 8 && to.addr() % 8 == 0 {
                    let value = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
                    to.cast::<u64>().write_volatile(value);
                } else {
                    std::ptr::copy(bytes.as_ptr(), to, bytes.len());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_region_are_shared_and_others_are_nobodys() {
        let mut shared = Shared::default();
        let region = HostRegion { address: 0x1_0000_0000, bytes: 8192 };
        let file = std::fs::File::from(shared.make(region).unwrap());
        shared.write(0x1_0000_0ffc, &[1, 2, 3, 4, 5]);
        let mut there = [0; 5];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut there, 0xffc).unwrap();
        assert_eq!(there, [1, 2, 3, 4, 5]);
        std::os::unix::fs::FileExt::write_all_at(&file, &[9; 8], 8).unwrap();
        let mut back = [0; 8];
        shared.read(0x1_0000_0008, &mut back);
        assert_eq!(back, [9; 8]);
        for outside in [0x1_0000_1ffc, 0xffff_ffff, u64::MAX] {
            back = [7; 8];
            shared.write(outside, &[1; 8]);
            shared.read(outside, &mut back);
            assert_eq!(back, [0; 8], "{outside:#x}");
        }
    }
}
