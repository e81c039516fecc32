//! The host's memory, as the NIC's DMA sees it.

use std::collections::BTreeMap;

/// Memory behind the link to the host. Contexts are kept to their regions by the NIC.
pub trait HostMemory: std::fmt::Debug + Send {
    /// Fills bytes from an address on.
    fn read(&mut self, address: u64, bytes: &mut [u8]);

    fn write(&mut self, address: u64, bytes: &[u8]);
}

const PAGE: u64 = 4096;

/// Memory of any size; what was never written is zero.
#[derive(Clone, Debug, Default)]
pub struct SparseMemory {
    pages: BTreeMap<u64, Box<[u8]>>,
}

impl SparseMemory {
    /// Pages that were written, with their addresses.
    pub fn pages(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.pages.iter().map(|(page, bytes)| (page * PAGE, &**bytes))
    }
}

/// Splits a range where pages end: page, offset in it, and which bytes.
fn pieces(
    address: u64,
    bytes: usize,
) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == bytes {
            return None;
        }
        let at = address.wrapping_add(done as u64);
        let offset = (at % PAGE) as usize;
        let piece = done..(done + PAGE as usize - offset).min(bytes);
        done = piece.end;
        Some((at / PAGE, offset, piece))
    })
}

impl HostMemory for SparseMemory {
    fn read(&mut self, address: u64, bytes: &mut [u8]) {
        for (page, offset, piece) in pieces(address, bytes.len()) {
            let target = &mut bytes[piece];
            match self.pages.get(&page) {
                Some(page) => target.copy_from_slice(&page[offset..offset + target.len()]),
                None => target.fill(0),
            }
        }
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        for (page, offset, piece) in pieces(address, bytes.len()) {
            let page = self.pages.entry(page).or_insert_with(|| vec![0; PAGE as usize].into());
            page[offset..offset + piece.len()].copy_from_slice(&bytes[piece]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_across_pages() {
        let mut memory = SparseMemory::default();
        let bytes: Vec<u8> = (0..10_000).map(|at| (at % 251) as u8).collect();
        memory.write(0xdead_beef_dead_beef, &bytes);
        let mut back = vec![1; 10_002];
        memory.read(0xdead_beef_dead_beee, &mut back);
        assert_eq!((back[0], back[10_001]), (0, 0));
        assert_eq!(back[1..10_001], bytes[..]);
        memory.write(u64::MAX, &[1, 2]);
        memory.read(u64::MAX, &mut back[..2]);
        assert_eq!(back[..2], [1, 2], "addresses go around");
    }
}
