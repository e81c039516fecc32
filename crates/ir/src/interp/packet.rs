//! A packet while handlers work on it.

use crate::verify::MAX_FRAME;

/// `emitted ++ data[cursor..]`, and the port it came in by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    data: Vec<u8>,
    cursor: usize,
    emitted: Vec<u8>,
    pub port: u32,
}

impl Packet {
    pub fn new(data: Vec<u8>, port: u32) -> Packet {
        Packet { data, cursor: 0, emitted: Vec::new(), port }
    }

    /// The rest that was not read yet.
    pub fn rest(&self) -> &[u8] {
        &self.data[self.cursor..]
    }

    /// The first `len` bytes of the rest, or all of it if it is shorter.
    pub fn prefix(&self, len: u32) -> &[u8] {
        let rest = self.rest();
        &rest[..rest.len().min(len as usize)]
    }

    /// The same bytes, to be changed.
    pub fn prefix_mut(&mut self, len: u32) -> &mut [u8] {
        let rest = &mut self.data[self.cursor..];
        let len = rest.len().min(len as usize);
        &mut rest[..len]
    }

    /// `len` bytes that start `off` bytes behind the cursor, if they are all there.
    pub fn load(&self, off: u32, len: usize) -> Option<&[u8]> {
        self.rest().get(off as usize..)?.get(..len)
    }

    pub fn store(&mut self, off: u32, bytes: &[u8]) -> bool {
        let rest = &mut self.data[self.cursor..];
        let target = rest.get_mut(off as usize..).and_then(|rest| rest.get_mut(..bytes.len()));
        target.map(|target| target.copy_from_slice(bytes)).is_some()
    }

    pub fn skip(&mut self, len: u32) -> bool {
        let enough = len as usize <= self.rest().len();
        self.cursor += if enough { len as usize } else { 0 };
        enough
    }

    pub fn trim(&mut self, len: u32) -> bool {
        let enough = len as usize <= self.rest().len();
        if enough {
            self.data.truncate(self.cursor + len as usize);
        }
        enough
    }

    /// Appends zeros to the rest, unless the frame would become too long: with all of its head,
    /// which `reset` brings back, or with what was emitted.
    pub fn extend(&mut self, len: u32) -> bool {
        let longest = self.data.len().max(self.emitted.len() + self.rest().len());
        let enough = longest as u64 + u64::from(len) <= u64::from(MAX_FRAME);
        if enough {
            self.data.resize(self.data.len() + len as usize, 0);
        }
        enough
    }

    /// Appends to what goes before the rest, unless the frame would become too long.
    pub fn emit(&mut self, bytes: &[u8]) {
        if self.emitted.len() + bytes.len() + self.rest().len() <= MAX_FRAME as usize {
            self.emitted.extend_from_slice(bytes);
        }
    }

    pub fn reset(&mut self) {
        self.emitted.clear();
        self.cursor = 0;
    }

    /// Bytes it takes up in memory, read ones and emitted ones included.
    pub fn size(&self) -> usize {
        self.emitted.len() + self.data.len()
    }

    /// Bytes by which its head has grown: emitted ones beyond those read.
    pub fn growth(&self) -> usize {
        self.emitted.len().saturating_sub(self.cursor)
    }

    /// The frame as it leaves.
    pub fn into_frame(self) -> Vec<u8> {
        let mut frame = self.emitted;
        frame.extend_from_slice(&self.data[self.cursor..]);
        frame
    }
}
