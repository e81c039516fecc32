//! What a program sends to the host through ring buffers and perf events, read back.

use std::cell::RefCell;
use std::rc::Rc;

use libbpf_rs::{
    MapCore, MapHandle, MapType, Object, PerfBuffer, PerfBufferBuilder, RingBuffer,
    RingBufferBuilder,
};

use super::error::XdpError;

/// Pages of each CPU's perf events.
const PAGES: usize = 64;

/// Bytes that a program sent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message {
    pub bytes: Vec<u8>,
    /// The kernel put up to 7 bytes behind it.
    pub padded: bool,
}

impl Message {
    /// True if these bytes were sent. `fixed` ones are as long as the program's longest message,
    /// with zeros behind the bytes that the kernel sends.
    pub fn is(&self, bytes: &[u8], fixed: bool) -> bool {
        let sure = self.bytes.len().saturating_sub(if self.padded { 7 } else { 0 });
        if !fixed {
            return (sure..=self.bytes.len()).contains(&bytes.len())
                && self.bytes.starts_with(bytes);
        }
        let both = sure.min(bytes.len());
        let rest = bytes.get(self.bytes.len()..).unwrap_or_default();
        self.bytes[..both] == bytes[..both] && rest.iter().all(|byte| *byte == 0)
    }
}

type Read = Rc<RefCell<Vec<Message>>>;

/// Readers of all of an object's maps for messages.
pub struct Messages {
    rings: Vec<RingBuffer<'static>>,
    perf: Vec<PerfBuffer<'static>>,
    read: Read,
    /// There are maps that cannot be read.
    some_unread: bool,
}

impl Messages {
    /// # Errors
    /// A map that has no descriptor.
    pub fn of(object: &Object) -> Result<Messages, XdpError> {
        let read = Read::default();
        let mut messages =
            Messages { rings: Vec::new(), perf: Vec::new(), read, some_unread: false };
        for map in object.maps() {
            let fail = |e: libbpf_rs::Error| XdpError::Contract(e.to_string());
            let into = Rc::clone(&messages.read);
            let take = move |bytes: &[u8], padded: bool| {
                into.borrow_mut().push(Message { bytes: bytes.to_vec(), padded });
            };
            match map.map_type() {
                MapType::RingBuf => {
                    let map = MapHandle::try_from(&map).map_err(fail)?;
                    let mut builder = RingBufferBuilder::new();
                    let each = move |bytes: &[u8]| {
                        take(bytes, false);
                        0
                    };
                    match builder.add(&map, each).map(|_| ()).and_then(|()| builder.build()) {
                        Ok(ring) => messages.rings.push(ring),
                        Err(_) => messages.some_unread = true,
                    }
                }
                MapType::PerfEventArray => {
                    let map = MapHandle::try_from(&map).map_err(fail)?;
                    let each = move |_, bytes: &[u8]| take(bytes, true);
                    match PerfBufferBuilder::new(&map).pages(PAGES).sample_cb(each).build() {
                        Ok(perf) => messages.perf.push(perf),
                        Err(_) => messages.some_unread = true,
                    }
                }
                _ => {}
            }
        }
        Ok(messages)
    }

    /// Takes what was sent since it was last asked for, of one map in its order.
    ///
    /// # Errors
    /// The kernel's buffers cannot be read.
    pub fn take(&self) -> Result<Option<Vec<Message>>, XdpError> {
        let fail = |e: libbpf_rs::Error| XdpError::Contract(format!("messages: {e}"));
        for ring in &self.rings {
            ring.consume().map_err(fail)?;
        }
        for perf in &self.perf {
            perf.consume().map_err(fail)?;
        }
        let found = std::mem::take(&mut *self.read.borrow_mut());
        Ok((!self.some_unread).then_some(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_and_samples_are_told_from_other_bytes() {
        let ring = Message { bytes: vec![1, 2, 3], padded: false };
        assert!(ring.is(&[1, 2, 3], false) && !ring.is(&[1, 2], false));
        let perf = Message { bytes: vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0], padded: true };
        assert!(perf.is(&[1, 2, 3, 4, 5, 6, 7, 8, 9], false));
        assert!(!perf.is(&[1, 2, 3], false) && !perf.is(&[1, 2, 3, 4, 5, 7], false));
        assert!(perf.is(&[1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0], true));
        assert!(!perf.is(&[1, 2, 3, 4, 9], true));
        assert!(!perf.is(&[1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 1], true));
    }
}
