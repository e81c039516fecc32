//! The host side of a running program in a program of somebody's own: the run's end of
//! `runtime/host/nf_attach.h`.
//!
//! Two queues in a file in memory, whose format is `nf_link.h`'s (plain: who an entry belongs to is
//! said in its first word), and a Unix socket that wakes whoever sleeps and whose end says that the
//! other is gone. The file outlives whoever is attached: what waits in it waits for the next one.
//! The other side may write anything into the file at any time, so nothing that is read there is
//! believed: positions and sizes are kept here, and an entry that makes no sense never comes.
//!
//! Tables that are `NF_SHARED` are maps of the kernel that can be mapped: whoever attaches gets
//! their descriptors beside the file's, in the order of the program's tables, and the program goes
//! on in the same memory.

mod queue;

use std::ffi::CStr;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nicforge_ir::{Output, Program, Table, TableId};

use crate::fault::Fault;
use crate::netns::LARGEST_FRAME;
use crate::unix::{ListenError, MOST_PASSED, SharedFile, listen, pass};
use crate::xdp::Loaded;
use queue::{Consumer, Memory, Producer};

const NAME: &CStr = c"nicforge-host-side";
/// Entries of each queue.
const COUNT: u32 = 1024;
/// Head of an entry.
const HEAD: u32 = 8;
/// "NFA1", as `NF_ATTACH_MAGIC`.
const MAGIC: u32 = 0x3141_464e;
/// What stands in front of the queues, and in it the words about who sleeps.
const SHARED: usize = 192;
const UP_SLEEPS: usize = 64;
const DOWN_SLEEPS: usize = 128;
/// Where sizes of regions stand, behind how many there are.
const REGIONS: usize = 24;
/// What an entry holds.
const MESSAGE: u8 = 0;
const PACKET: u8 = 1;

/// Why there is no socket for the host side.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    #[error(
        "`{0}` has nothing for a host side: no `nf_host_msg`, `nf_to_host`, `host_send` or `NF_SHARED`"
    )]
    Nothing(String),
    #[error("`{program}` shares {count} regions, and a program that attaches maps {} at most", MOST_PASSED - 1)]
    Regions { program: String, count: usize },
    #[error(
        "region `{0}` is in the process beside the kernel, where no program can map it: let the elements that use it run on the \
         NIC side, or do not share it"
    )]
    Elsewhere(String),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("make shared memory: {0}")]
    Memory(#[from] std::io::Error),
}

impl AttachError {
    /// The party that has to act.
    pub fn fault(&self) -> Fault {
        match self {
            AttachError::Memory(_) | AttachError::Listen(ListenError::Io { .. }) => {
                Fault::Environment
            }
            _ => Fault::User,
        }
    }
}

/// Counts of what went through the socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttachCounts {
    /// Messages and packets given to the program attached.
    pub given: u64,
    /// Lost since the queue was full, or since they fit no entry.
    pub lost: u64,
    /// Messages that came back, and those whose size was wrong.
    pub taken: u64,
    pub wrong: u64,
    /// How many programs attached, one after the other.
    pub attached: u64,
}

/// Sizes of what a program says to its host side and hears from it; 0 where it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Messages {
    pub message: u32,
    pub answer: u32,
    pub packets: bool,
}

impl Messages {
    /// Those of a program.
    pub fn of(program: &Program) -> Messages {
        let size = |name| {
            let event = program.event_named(name).map(|event| &program.events[event]);
            event
                .and_then(|event| event.params.first())
                .map_or(0, |param| program.size_of(param.ty))
        };
        let packets = program.events.values().any(|event| event.name == "host_recv");
        Messages { message: size("host_msg"), answer: size("host_send"), packets }
    }
}

/// A socket where one program at a time attaches.
pub struct HostSocket {
    path: PathBuf,
    listener: UnixListener,
    attached: Option<UnixStream>,
    memory: Memory,
    up: Producer,
    down: Consumer,
    answer: u32,
    regions: Vec<OwnedFd>,
    counts: AttachCounts,
}

/// Tables that programs which attach may map, in the order in which they get them.
fn shared(program: &Program) -> impl Iterator<Item = (TableId, &Table)> {
    program.tables.iter().filter(|(_, table)| table.shared)
}

impl HostSocket {
    /// Listens at a path, for a program with these messages. A socket that nobody listens to is
    /// replaced.
    ///
    /// # Errors
    /// The program has no host side, the path is taken, or something is missing here.
    pub fn new(path: &Path, program: &Program) -> Result<HostSocket, AttachError> {
        let messages = Messages::of(program);
        let count = shared(program).count();
        if messages == (Messages { message: 0, answer: 0, packets: false }) && count == 0 {
            return Err(AttachError::Nothing(program.name.clone()));
        }
        if count >= MOST_PASSED {
            return Err(AttachError::Regions { program: program.name.clone(), count });
        }
        let listener = listen(path)?;
        let frames = if messages.packets { LARGEST_FRAME as u32 } else { 0 };
        let up_bytes = (HEAD + messages.message.max(frames).max(8)).next_multiple_of(8);
        let down_bytes = (HEAD + messages.answer.max(8)).next_multiple_of(8);
        let (up, down) = (queue::bytes(COUNT, up_bytes), queue::bytes(COUNT, down_bytes));
        let memory = Memory(SharedFile::new(NAME, SHARED + up + down)?);
        let about = [MAGIC, COUNT, up_bytes, down_bytes, messages.message, messages.answer];
        for (at, word) in about.iter().enumerate() {
            memory.word(at * 4).store(*word, std::sync::atomic::Ordering::Relaxed);
        }
        let sizes = shared(program)
            .map(|(_, table)| table.capacity.saturating_mul(program.size_of(table.value)));
        for (at, word) in std::iter::once(count as u32).chain(sizes).enumerate() {
            memory.word(REGIONS + at * 4).store(word, std::sync::atomic::Ordering::Relaxed);
        }
        Ok(HostSocket {
            path: path.to_path_buf(),
            listener,
            attached: None,
            up: Producer::new(SHARED, COUNT, up_bytes),
            down: Consumer::new(SHARED + up, COUNT, down_bytes),
            memory,
            answer: messages.answer,
            regions: Vec::new(),
            counts: AttachCounts::default(),
        })
    }

    /// Whoever attaches from now on gets the regions of a program that runs.
    ///
    /// # Errors
    /// [`AttachError::Elsewhere`]: a region has no map.
    pub fn share(&mut self, program: &Program, loaded: &Loaded) -> Result<(), AttachError> {
        let artifact = loaded.artifact();
        let copied =
            artifact.process.as_ref().map(|process| &process.copied[..]).unwrap_or_default();
        let region = |(id, table): (TableId, &Table)| {
            let maps =
                artifact.tables.iter().filter(|map| map.table == id && !copied.contains(&id));
            let found = maps.filter_map(|map| loaded.map_fd(&map.map)).next();
            found.ok_or_else(|| AttachError::Elsewhere(table.name.clone()))
        };
        self.regions = shared(program).map(region).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Counts of what went through so far.
    pub fn counts(&self) -> AttachCounts {
        self.counts
    }

    /// Puts what a program gave out into the queue, if it is for the host side.
    pub fn give(&mut self, output: &Output) {
        let (kind, bytes) = match output {
            Output::HostMessage { bytes } => (MESSAGE, bytes),
            Output::HostPacket { frame } => (PACKET, frame),
            _ => return,
        };
        if self.up.put(&self.memory, kind, bytes) {
            self.counts.given += 1;
        } else {
            self.counts.lost += 1;
        }
    }

    /// Wakes the program attached if it sleeps. After everything that was given, once.
    pub fn wake(&mut self) {
        if self.memory.taken_from_sleep(UP_SLEEPS)
            && let Some(stream) = &mut self.attached
        {
            // A socket that is full has woken it already; that it is gone is seen when it is read.
            let _ = stream.write(&[0]);
        }
    }

    /// Sees who came and who went, and takes the messages that came back.
    pub fn serve(&mut self) -> Vec<Vec<u8>> {
        while let Ok((stream, _)) = self.listener.accept() {
            self.hear();
            if self.attached.is_none() && self.introduce(&stream).is_ok() {
                self.attached = Some(stream);
                self.counts.attached += 1;
            }
        }
        self.hear();
        let mut messages = Vec::new();
        while let Some((_, bytes)) = self.down.take(&self.memory) {
            if self.answer > 0 && bytes.len() == self.answer as usize {
                messages.push(bytes);
            } else {
                self.counts.wrong += 1;
            }
        }
        self.counts.taken += messages.len() as u64;
        messages
    }

    /// Says that we sleep until somebody writes; whether nothing has come meanwhile.
    pub fn sleeps(&mut self) -> bool {
        self.memory.sleep(DOWN_SLEEPS);
        !self.down.ready(&self.memory)
    }

    /// Descriptors that become readable when there is something to do.
    pub fn fds(&self) -> impl Iterator<Item = RawFd> + '_ {
        let attached = self.attached.iter().map(AsRawFd::as_raw_fd);
        std::iter::once(self.listener.as_raw_fd()).chain(attached)
    }

    fn introduce(&self, stream: &UnixStream) -> std::io::Result<()> {
        stream.set_nonblocking(true)?;
        let file: OwnedFd = self.memory.0.file()?;
        // The second byte makes it look at the queue, where something may have waited for it.
        let files: Vec<&OwnedFd> = std::iter::once(&file).chain(&self.regions).collect();
        pass(stream, &[0], &files)?;
        let mut stream = stream;
        stream.write_all(&[0])
    }

    /// Takes what woke us off the socket; lets go of who is gone.
    fn hear(&mut self) {
        let Some(stream) = &mut self.attached else { return };
        let mut bytes = [0; 64];
        loop {
            match stream.read(&mut bytes) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => break,
            }
        }
        self.attached = None;
    }
}

impl Drop for HostSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
