//! A simulated design that goes on after its events: its tables are read and changed through its
//! registers.
//!
//! The simulator's process answers one request after the other; the other end of both pipes is
//! `runtime/rtl/nf_tables.h`. It ends when its input does.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout};

use nicforge_codegen::rtl::RtlArtifact;
use nicforge_ir::{Entry, Match, Program, Table, TableBackend, TableError, TableId, TableKind};

use super::{RtlError, files};

/// Requests to a design about an entry.
#[derive(Clone, Copy)]
enum Request {
    Update = 1,
    Delete = 2,
    Get = 5,
    List = 6,
}

/// A design whose events are all done and whose tables can still be used.
pub struct Held<'a> {
    artifact: &'a RtlArtifact,
    program: &'a Program,
    child: Child,
    /// Requests and answers; absent once the process is told to end. Only one thread asks.
    pipes: Option<RefCell<(ChildStdin, ChildStdout)>>,
}

/// Reads an answer: whether it was done, and entries.
fn answer(out: &mut ChildStdout) -> std::io::Result<(bool, Vec<u8>)> {
    let mut word = [0; 4];
    out.read_exact(&mut word)?;
    let done = u32::from_le_bytes(word) != 0;
    out.read_exact(&mut word)?;
    let mut entries = vec![0; u32::from_le_bytes(word) as usize];
    out.read_exact(&mut entries)?;
    Ok((done, entries))
}

impl<'a> Held<'a> {
    /// Waits until a simulator's events are done.
    pub(super) fn new(
        mut child: Child,
        artifact: &'a RtlArtifact,
        program: &'a Program,
    ) -> Result<Held<'a>, RtlError> {
        let pipes = child.stdin.take().zip(child.stdout.take());
        let Some((stdin, mut stdout)) = pipes else {
            return Err(RtlError::Failed("the simulator has no pipes".to_string()));
        };
        if answer(&mut stdout).is_err() {
            drop(stdin);
            let mut message = String::new();
            // Without a message there is the status.
            let _ = child.stderr.take().map(|mut err| err.read_to_string(&mut message));
            let status = child.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
            return Err(RtlError::Failed(if message.is_empty() {
                status
            } else {
                message.trim().into()
            }));
        }
        Ok(Held { artifact, program, child, pipes: Some(RefCell::new((stdin, stdout))) })
    }

    fn ask(
        &self,
        what: Request,
        table: TableId,
        entry: &Entry,
    ) -> Result<(bool, Vec<Entry>), TableError> {
        let fail =
            |message: String| TableError::Target { table: self.table(table).name.clone(), message };
        let (key, value) = (
            self.program.size_of(self.table(table).key),
            self.program.size_of(self.table(table).value),
        );
        if entry.key.len() != key as usize || entry.value.len() != value as usize {
            return Err(fail(format!("keys have {key} bytes and values {value}")));
        }
        let ended = |e: std::io::Error| fail(format!("the simulated design does not answer: {e}"));
        let Some(pipes) = &self.pipes else {
            return Err(fail("the simulated design has ended".to_string()));
        };
        let (stdin, stdout) = &mut *pipes.borrow_mut();
        let mut request = (what as u32).to_le_bytes().to_vec();
        request.extend(files::entry(self.artifact, table, entry));
        stdin.write_all(&request).and_then(|()| stdin.flush()).map_err(ended)?;
        let (done, bytes) = answer(stdout).map_err(ended)?;
        let mut found = files::tables(&bytes, self.program, self.artifact).map_err(fail)?;
        Ok((done, found.remove(&table).unwrap_or_default()))
    }

    fn table(&self, table: TableId) -> &Table {
        &self.program.tables[table]
    }

    /// An entry of zeroes under a key.
    fn blank(&self, table: TableId, key: &[u8], matching: &Match) -> Result<Entry, TableError> {
        let def = self.table(table);
        let value = vec![0; self.program.size_of(def.value) as usize];
        let entry = Entry { key: key.to_vec(), matching: matching.clone(), value, buf: None };
        match (def.kind, <[u8; 4]>::try_from(key).map(u32::from_le_bytes)) {
            (TableKind::Array, Ok(index)) if index >= def.capacity => Err(TableError::OutOfRange {
                table: def.name.clone(),
                index,
                capacity: def.capacity,
            }),
            _ => Ok(entry),
        }
    }
}

impl TableBackend for Held<'_> {
    fn get(
        &self,
        table: TableId,
        key: &[u8],
        matching: &Match,
    ) -> Result<Option<Entry>, TableError> {
        let blank = self.blank(table, key, matching)?;
        let (there, mut found) = self.ask(Request::Get, table, &blank)?;
        Ok(found.pop().filter(|_| there))
    }

    /// An entry without a byte string leaves that of a present one as it is.
    fn set(&mut self, table: TableId, entry: &Entry) -> Result<(), TableError> {
        self.blank(table, &entry.key, &entry.matching)?;
        let def = self.table(table);
        let (has, room) = (entry.buf.as_ref().map_or(0, Vec::len), def.buf.unwrap_or(0) as usize);
        if has > room {
            let message = format!("a byte string of {has} bytes does not fit {room}");
            return Err(TableError::Target { table: def.name.clone(), message });
        }
        match self.ask(Request::Update, table, entry)? {
            (true, _) => Ok(()),
            (false, _) => Err(TableError::Full { table: def.name.clone(), capacity: def.capacity }),
        }
    }

    fn delete(&mut self, table: TableId, key: &[u8], matching: &Match) -> Result<bool, TableError> {
        let blank = self.blank(table, key, matching)?;
        Ok(self.ask(Request::Delete, table, &blank)?.0)
    }

    fn dump(&self, table: TableId) -> Result<Vec<Entry>, TableError> {
        let key = vec![0; self.program.size_of(self.table(table).key) as usize];
        let blank = self.blank(table, &key, &Match::Exact)?;
        Ok(self.ask(Request::List, table, &blank)?.1)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.pipes = None;
        // It ends by itself now, and closes its waveforms.
        let _ = self.child.wait();
    }
}
