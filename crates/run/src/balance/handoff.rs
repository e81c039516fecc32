//! State that stays with its flows: a bucket of flows has one owner, and the entries of its flows
//! move with it.
//!
//! Directors in mode flow-affine move buckets between sides. A side that gets a packet of a bucket
//! it does not own asks the other side as soon as the packet is there, which first finishes the
//! packets of that bucket that wait in its queue, in order, then takes the entries its packets
//! touched out of its tables and gives them away. So an entry is on one side at a time, and a
//! flow's packets meet its state in the order they came, however long queues are: the director's
//! drain time has to cover only how late a side may look at what arrived. At first the NIC side
//! owns everything. A side whose other side is gone owns all, with what it has: the dead side's
//! entries are lost, as its packets are.
//!
//! Which entries belong to a bucket is what its packets read or wrote: programs are built to tell
//! ([`crate::host::Watch::Keys`]). Only tables that handlers write count; a program whose flows
//! share entries of those is refused before ([`super::program`]).
//!
//! Sides talk through a Unix socket, in JSON, a line per message.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use nicforge_balance::director::flows::BUCKETS;
use nicforge_ir::{Entry, Match, Program, TableBackend, TableId};
use serde::{Deserialize, Serialize};

use super::heartbeat::Side;
use crate::host::Tables;

/// How long the other side may take to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// Messages of sides.
#[derive(Debug, Serialize, Deserialize)]
enum Message {
    Ask { bucket: usize },
    Give { bucket: usize, entries: Vec<Moved> },
}

/// An entry on its way.
#[derive(Debug, Serialize, Deserialize)]
struct Moved {
    table: u32,
    key: Vec<u8>,
    value: Vec<u8>,
    buf: Option<Vec<u8>>,
}

/// One side's part.
pub struct Handoff {
    /// None once the other side is gone.
    peer: Option<UnixStream>,
    received: Vec<u8>,
    owned: Vec<bool>,
    /// Asked for and not here yet.
    asked: Vec<bool>,
    touched: Vec<BTreeSet<(TableId, Vec<u8>)>>,
    /// Tables whose entries move, by number.
    moves: Vec<bool>,
}

impl Handoff {
    /// Meets the other side at `path`. `moves` are the tables whose entries go with flows.
    ///
    /// # Errors
    /// The machine's, and silence of the other side.
    pub fn meet(
        side: Side,
        path: &Path,
        program: &Program,
        moves: &[TableId],
    ) -> std::io::Result<Handoff> {
        let until = Instant::now() + PATIENCE;
        let listener = if side == Side::Nic { Some(UnixListener::bind(path)?) } else { None };
        if let Some(listener) = &listener {
            listener.set_nonblocking(true)?;
        }
        let peer = loop {
            let met = match &listener {
                Some(listener) => listener.accept().map(|(stream, _)| stream),
                None => UnixStream::connect(path),
            };
            match met {
                Ok(stream) => break stream,
                Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
                Err(error) => return Err(error),
            }
        };
        peer.set_nonblocking(true)?;
        Ok(Handoff {
            peer: Some(peer),
            received: Vec::new(),
            owned: vec![side == Side::Nic; BUCKETS],
            asked: vec![false; BUCKETS],
            touched: vec![BTreeSet::new(); BUCKETS],
            moves: program.tables.keys().map(|table| moves.contains(&table)).collect(),
        })
    }

    /// The descriptor to wait for besides frames.
    pub fn fd(&self) -> Option<RawFd> {
        self.peer.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// True if packets of a bucket may be handled here.
    pub fn owns(&self, bucket: usize) -> bool {
        self.owned[bucket] || self.peer.is_none()
    }

    /// Asks for a bucket once; after [`Handoff::hear`] it may be here.
    pub fn ask(&mut self, bucket: usize) {
        if !std::mem::replace(&mut self.asked[bucket], true) {
            self.say(&Message::Ask { bucket });
        }
    }

    /// A packet of a bucket touched entries.
    pub fn note(&mut self, bucket: usize, touched: &[(TableId, Vec<u8>)]) {
        for (table, key) in touched {
            let entry = (*table, key.clone());
            if self.moves[table.as_u32() as usize] && !self.touched[bucket].contains(&entry) {
                self.touched[bucket].insert(entry);
            }
        }
    }

    /// Gives a bucket away with its entries.
    pub fn give(&mut self, bucket: usize, tables: &mut Tables) {
        let mut entries = Vec::new();
        for (table, key) in std::mem::take(&mut self.touched[bucket]) {
            let Ok(Some(entry)) = tables.get(table, &key, &Match::Exact) else { continue };
            // An entry that was found can be taken out.
            let _ = tables.delete(table, &key, &Match::Exact);
            entries.push(Moved { table: table.as_u32(), key, value: entry.value, buf: entry.buf });
        }
        self.owned[bucket] = false;
        self.say(&Message::Give { bucket, entries });
    }

    /// Takes what the other side said: buckets it gave are here afterwards. Returns those it asks
    /// for.
    pub fn hear(&mut self, tables: &mut Tables) -> Vec<usize> {
        self.receive();
        let mut asked = Vec::new();
        while let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.received.drain(..=end).collect();
            match serde_json::from_slice(&line) {
                Ok(Message::Ask { bucket }) if bucket < BUCKETS => asked.push(bucket),
                Ok(Message::Give { bucket, entries }) if bucket < BUCKETS => {
                    (self.owned[bucket], self.asked[bucket]) = (true, false);
                    entries.into_iter().for_each(|moved| self.put(bucket, moved, tables));
                }
                // Not from this program.
                _ => self.peer = None,
            }
        }
        asked
    }

    fn put(&mut self, bucket: usize, moved: Moved, tables: &mut Tables) {
        let table = TableId::from_u32(moved.table);
        if self.moves.get(moved.table as usize) == Some(&true) {
            let Moved { key, value, buf, .. } = moved;
            self.touched[bucket].insert((table, key.clone()));
            // A full table refuses it; the program counts on entries that it may not get.
            let _ = tables.set(table, &Entry { key, matching: Match::Exact, value, buf });
        }
    }

    fn receive(&mut self) {
        let mut part = [0; 16384];
        while let Some(peer) = &mut self.peer {
            match peer.read(&mut part) {
                Ok(0) => self.peer = None,
                Ok(length) => self.received.extend_from_slice(&part[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.peer = None,
            }
        }
    }

    /// Sends all of a message; the other side reads whenever it waits.
    fn say(&mut self, message: &Message) {
        let Ok(mut line) = serde_json::to_vec(message) else { return };
        line.push(b'\n');
        let mut rest = &line[..];
        while let (Some(peer), false) = (&mut self.peer, rest.is_empty()) {
            match peer.write(rest) {
                Ok(length) => rest = &rest[length..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // Both may be sending: what comes in must not wait for what goes out.
                    self.receive();
                    std::thread::yield_now();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.peer = None,
            }
        }
    }
}
