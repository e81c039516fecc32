//! A packet: the bytes that came, how many were read, what was put in front.

#[derive(Clone, Debug, Default)]
pub struct Packet {
    pub bytes: Vec<u8>,
    pub read: usize,
    pub emitted: Vec<u8>,
    pub port: u32,
}

impl Packet {
    /// The unread rest.
    pub fn rest(&mut self) -> &mut [u8] {
        &mut self.bytes[self.read..]
    }

    /// `size` bytes of the rest from `off` on, if they are all there.
    pub fn part(&mut self, off: u32, size: u32) -> Option<&mut [u8]> {
        let (off, end) = (off as usize, off as usize + size as usize);
        self.rest().get_mut(off..end)
    }

    /// The first bytes of the rest, as many as there are of `len`.
    pub fn first(&mut self, len: u32) -> Vec<u8> {
        let rest = self.rest();
        rest[..rest.len().min(len as usize)].to_vec()
    }

    /// The frame as it leaves.
    pub fn leave(mut self) -> Vec<u8> {
        let rest = self.rest().to_vec();
        [self.emitted, rest].concat()
    }
}
