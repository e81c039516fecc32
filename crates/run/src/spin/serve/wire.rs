//! The socket to a driver: messages, and host memory that is the driver's own.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard};

use nicforge_spin::nic::HostMemory;

/// Kinds of messages.
pub mod kind {
    pub const START: u32 = 1;
    pub const IMAGE: u32 = 2;
    pub const PACKET: u32 = 3;
    pub const END: u32 = 4;
    pub const RUN: u32 = 5;
    pub const WRITE: u32 = 6;
    pub const READ: u32 = 7;
    pub const CONTINUE: u32 = 8;
    pub const STOP: u32 = 9;
    pub const PRIORITY: u32 = 10;
    pub const OUT: u32 = 64;
    pub const FEEDBACK: u32 = 65;
    pub const HOST_WRITE: u32 = 66;
    pub const HOST_READ: u32 = 67;
    pub const WRITTEN: u32 = 68;
    pub const READ_DONE: u32 = 69;
    pub const DONE: u32 = 70;
    pub const FAILED: u32 = 71;
    pub const TEXT: u32 = 72;
}

/// Bits of the events that a driver wants.
pub mod wanted {
    pub const OUT: u64 = 1;
    pub const FEEDBACK: u64 = 2;
    pub const HOST_WRITE: u64 = 4;
    pub const HOST_READ: u64 = 8;
}

const HEADER: usize = 24;
const MOST: u32 = 64 << 20;
/// Bytes of one beat on the link to the host.
const BEAT: usize = 64;

/// A message.
#[derive(Clone, Debug, Default)]
pub struct Message {
    pub kind: u32,
    pub value: u64,
    pub tag: u64,
    pub data: Vec<u8>,
}

/// The socket, and what was asked while an answer was waited for.
#[derive(Debug)]
pub struct Wire {
    stream: UnixStream,
    pub later: VecDeque<Message>,
    /// Bits of the events that the driver wants.
    pub wanted: u64,
}

impl Driver {
    pub fn new(stream: UnixStream) -> Driver {
        Driver(Arc::new(Mutex::new(Wire { stream, later: VecDeque::new(), wanted: 0 })))
    }
}

impl Wire {
    pub fn receive(&mut self) -> std::io::Result<Message> {
        let mut head = [0; HEADER];
        self.stream.read_exact(&mut head)?;
        let size = word(&head, 4);
        if size > MOST {
            return Err(std::io::Error::other(format!("a message of {size} bytes")));
        }
        let mut data = vec![0; size as usize];
        self.stream.read_exact(&mut data)?;
        Ok(Message { kind: word(&head, 0), value: long(&head, 8), tag: long(&head, 16), data })
    }

    pub fn send(&mut self, kind: u32, value: u64, tag: u64, data: &[u8]) -> std::io::Result<()> {
        let mut bytes = Vec::with_capacity(HEADER + data.len());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((data.len() as u32).to_ne_bytes());
        bytes.extend(value.to_ne_bytes());
        bytes.extend(tag.to_ne_bytes());
        bytes.extend(data);
        self.stream.write_all(&bytes)
    }

    /// Text for the driver's standard output.
    pub fn say(&mut self, text: &str) -> std::io::Result<()> {
        self.tell(kind::TEXT, 0, 0, text.as_bytes()).map(|_| ())
    }

    /// Tells an event and waits until the driver is done with it. Gives what it says then.
    pub fn tell(
        &mut self,
        kind: u32,
        value: u64,
        tag: u64,
        data: &[u8],
    ) -> std::io::Result<Vec<u8>> {
        self.send(kind, value, tag, data)?;
        loop {
            let message = self.receive()?;
            if message.kind == kind::CONTINUE {
                return Ok(message.data);
            }
            self.later.push_back(message);
        }
    }
}

pub fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |four| u32::from_ne_bytes(four.try_into().unwrap_or_default()))
}

pub fn long(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at + 8)
        .map_or(0, |eight| u64::from_ne_bytes(eight.try_into().unwrap_or_default()))
}

/// Host memory that is the driver's: it is told of writes and asked for what is read. A driver that
/// is gone is noticed by the next message.
#[derive(Clone, Debug)]
pub struct Driver(Arc<Mutex<Wire>>);

impl Driver {
    pub fn lock(&self) -> MutexGuard<'_, Wire> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl HostMemory for Driver {
    fn read(&mut self, address: u64, bytes: &mut [u8]) {
        bytes.fill(0);
        let mut wire = self.lock();
        if wire.wanted & wanted::HOST_READ == 0 {
            return;
        }
        for (at, beat) in bytes.chunks_mut(BEAT).enumerate() {
            let address = address.wrapping_add((at * BEAT) as u64);
            if let Ok(data) = wire.tell(kind::HOST_READ, address, beat.len() as u64, &[]) {
                let length = data.len().min(beat.len());
                beat[..length].copy_from_slice(&data[..length]);
            }
        }
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        let mut wire = self.lock();
        if wire.wanted & wanted::HOST_WRITE == 0 {
            return;
        }
        for (at, beat) in bytes.chunks(BEAT).enumerate() {
            let _ = wire.tell(kind::HOST_WRITE, address.wrapping_add((at * BEAT) as u64), 0, beat);
        }
    }
}
