//! Memory of the interpreted machine: separate regions, so that every access is checked.
//!
//! An address is `region << 32 | START + offset`. Region 0 does not exist, so null and small
//! integers are never valid, and neither half of a valid address is zero: programs test packet
//! pointers by their lower half.

use super::machine::Fault;

/// Names a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionId(u32);

impl RegionId {
    /// The address of the region's first byte.
    pub fn address(self) -> u64 {
        (self.0 as u64) << 32 | START
    }
}

/// Lower half of a region's first address.
const START: u64 = 1 << 16;

/// Accesses that are tried at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

/// Byte regions with bounds.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    regions: Vec<Vec<u8>>,
}

impl Memory {
    /// A new region with these bytes.
    pub fn add(&mut self, bytes: Vec<u8>) -> RegionId {
        self.regions.push(bytes);
        RegionId(self.regions.len() as u32)
    }

    /// The bytes of a region.
    pub fn bytes(&self, region: RegionId) -> &[u8] {
        &self.regions[region.0 as usize - 1]
    }

    /// The bytes of a region, to change or resize.
    pub fn bytes_mut(&mut self, region: RegionId) -> &mut Vec<u8> {
        &mut self.regions[region.0 as usize - 1]
    }

    fn find(&self, address: u64, size: usize) -> Option<(usize, usize)> {
        let region = ((address >> 32) as usize).checked_sub(1)?;
        let offset = (address & 0xffff_ffff).checked_sub(START)? as usize;
        (offset + size <= self.regions.get(region)?.len()).then_some((region, offset))
    }

    /// The `size` bytes at an address.
    ///
    /// # Errors
    /// They are not all inside one region.
    pub fn read(&self, address: u64, size: usize) -> Result<&[u8], Fault> {
        let (region, at) = self.find(address, size).ok_or(Fault::Memory {
            address,
            size,
            access: Access::Read,
        })?;
        Ok(&self.regions[region][at..at + size])
    }

    /// Overwrites bytes at an address.
    ///
    /// # Errors
    /// They are not all inside one region.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        let size = bytes.len();
        let (region, at) = self.find(address, size).ok_or(Fault::Memory {
            address,
            size,
            access: Access::Write,
        })?;
        self.regions[region][at..at + size].copy_from_slice(bytes);
        Ok(())
    }

    /// A little-endian integer of 1, 2, 4 or 8 bytes.
    pub fn load(&self, address: u64, size: usize) -> Result<u64, Fault> {
        let mut word = [0u8; 8];
        word[..size].copy_from_slice(self.read(address, size)?);
        Ok(u64::from_le_bytes(word))
    }

    /// Stores the low bytes of an integer.
    pub fn store(&mut self, address: u64, size: usize, value: u64) -> Result<(), Fault> {
        self.write(address, &value.to_le_bytes()[..size])
    }
}
