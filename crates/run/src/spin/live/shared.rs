//! Host memory that handlers and programs share: files in memory, mapped here and by the program.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};

use nicforge_spin::nic::{HostMemory, HostRegion};

const NAME: &CStr = c"nicforge-spin-host";

/// A region, mapped.
#[derive(Debug)]
struct Mapping {
    region: HostRegion,
    bytes: NonNull<u8>,
    file: OwnedFd,
}

// SAFETY: the mapping belongs to this structure alone and its bytes are only copied to and from.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(region: HostRegion) -> std::io::Result<Mapping> {
        // SAFETY: a C string and flags; the result is checked.
        let fd = unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and is nobody else's.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: a descriptor that is open and a size.
        if unsafe { libc::ftruncate(fd, region.bytes.into()) } < 0 {
            return Err(std::io::Error::last_os_error());
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a file that has this size; the program on the other side may change its bytes at any time, but
        // not its size below this one's (that only costs it the signal it asked for, see `copy`).
        let bytes = unsafe {
            libc::mmap(std::ptr::null_mut(), region.bytes as usize, protection, libc::MAP_SHARED, fd, 0)
        };
        match NonNull::new(bytes.cast::<u8>()) {
            Some(bytes) if bytes.as_ptr().cast() != libc::MAP_FAILED => Ok(Mapping { region, bytes, file }),
            _ => Err(std::io::Error::last_os_error()),
        }
    }

    /// Where an address lies in the mapping, if all bytes from there on do.
    fn at(&self, address: u64, bytes: usize) -> Option<*mut u8> {
        let offset = address.checked_sub(self.region.address)?;
        let end = offset.checked_add(bytes as u64)?;
        // SAFETY: offset and end are within the mapping.
        (end <= self.region.bytes.into()).then(|| unsafe { self.bytes.as_ptr().add(offset as usize) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped with this size, and nothing points there any more.
        unsafe { libc::munmap(self.bytes.as_ptr().cast(), self.region.bytes as usize) };
    }
}

/// The regions of all contexts. Clones are the same memory.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    mappings: Arc<Mutex<Vec<Mapping>>>,
}

impl Shared {
    /// Makes a region, in the place of one that begins at the same address, and gives a descriptor for the program.
    ///
    /// # Errors
    /// No memory or no descriptors are left.
    pub fn make(&self, region: HostRegion) -> std::io::Result<OwnedFd> {
        let mapping = Mapping::new(region)?;
        // Nobody can make the file shorter any more, so reading it here cannot fail.
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
        // SAFETY: an open descriptor and flags.
        unsafe { libc::fcntl(mapping.file.as_raw_fd(), libc::F_ADD_SEALS, seals) };
        let file = mapping.file.try_clone()?;
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
        if let Some(from) = self.lock().iter().find_map(|mapping| mapping.at(address, bytes.len())) {
            // SAFETY: `at` gives so many bytes of a mapping that lives while the lock is held. The program may write them meanwhile:
            // then what is read is some of both, as with a device.
            unsafe { std::ptr::copy(from, bytes.as_mut_ptr(), bytes.len()) };
        }
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        if let Some(to) = self.lock().iter().find_map(|mapping| mapping.at(address, bytes.len())) {
            // SAFETY: as above. Eight bytes are one store, so that a program that polls a flag sees all of it or nothing.
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
