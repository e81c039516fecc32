//! A socket on which clients ask in lines. Nothing here blocks: its owner's loop calls
//! [`Lines::poll`] whenever it has a moment.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest request; longer ones are no requests.
const LONGEST_REQUEST: usize = 1 << 20;
/// Most connections at a time; more wait.
const MOST_CLIENTS: usize = 16;
/// Where all places are taken, a connection on which nothing moved for this long loses its place to
/// one that waits.
const IDLE: Duration = Duration::from_secs(1);

/// A listening socket; its name goes when this is dropped.
pub struct Lines {
    listener: UnixListener,
    path: PathBuf,
    clients: Vec<Client>,
}

struct Client {
    stream: UnixStream,
    asked: Vec<u8>,
    answers: Vec<u8>,
    closed: bool,
    /// When something was last read or written.
    moved: Instant,
}

impl Lines {
    /// Listens at a path.
    ///
    /// # Errors
    /// What the system says, as [`io::ErrorKind::AddrInUse`] where the name is taken.
    pub fn bind(path: PathBuf) -> io::Result<Lines> {
        let listener = UnixListener::bind(&path)?;
        let lines = Lines { listener, path, clients: Vec::new() };
        lines.listener.set_nonblocking(true)?;
        Ok(lines)
    }

    /// The socket's name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Has `answer` answer all lines that have come meanwhile. Answers are sent as they are.
    pub fn poll(&mut self, mut answer: impl FnMut(&[u8]) -> Vec<u8>) {
        while self.has_place() {
            let Ok((stream, _)) = self.listener.accept() else { break };
            if stream.set_nonblocking(true).is_ok() {
                let (asked, answers, moved) = (Vec::new(), Vec::new(), Instant::now());
                self.clients.push(Client { stream, asked, answers, closed: false, moved });
            }
        }
        for client in &mut self.clients {
            client.read();
            client.answer(&mut answer);
            client.write();
        }
        self.clients.retain(|client| !client.closed);
    }

    /// True if there is a place for one more, made of an idle one's if somebody waits for it.
    fn has_place(&mut self) -> bool {
        if self.clients.len() < MOST_CLIENTS {
            return true;
        }
        let idle = self.clients.iter().enumerate().min_by_key(|(_, client)| client.moved);
        let Some((at, _)) =
            idle.filter(|(_, client)| client.moved.elapsed() > IDLE && self.is_waited_for())
        else {
            return false;
        };
        self.clients.swap_remove(at);
        true
    }

    fn is_waited_for(&self) -> bool {
        let mut poll =
            libc::pollfd { fd: self.listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor, and no waiting.
        unsafe { libc::poll(&raw mut poll, 1, 0) > 0 }
    }

    /// Sends answers that are still waiting, before a run ends; for at most a second.
    pub fn finish(&mut self) {
        let until = Instant::now() + Duration::from_secs(1);
        while self.clients.iter().any(|client| !client.answers.is_empty()) && Instant::now() < until
        {
            self.clients.iter_mut().for_each(Client::write);
            self.clients.retain(|client| !client.closed);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Client {
    fn read(&mut self) {
        let mut chunk = [0; 4096];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => self.closed = self.answers.is_empty(),
                Ok(got) => {
                    self.moved = Instant::now();
                    self.asked.extend(&chunk[..got]);
                    self.closed |= self.asked.len() > LONGEST_REQUEST;
                    if !self.closed {
                        continue;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => self.closed = true,
            }
            return;
        }
    }

    fn answer(&mut self, answer: &mut impl FnMut(&[u8]) -> Vec<u8>) {
        while let Some(end) = self.asked.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.asked.drain(..=end).collect();
            self.answers.extend(answer(&line[..end]));
            self.closed = false;
        }
    }

    fn write(&mut self) {
        while !self.answers.is_empty() {
            match self.stream.write(&self.answers) {
                Ok(sent) => {
                    self.moved = Instant::now();
                    self.answers.drain(..sent);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.closed = true;
                    self.answers.clear();
                }
            }
        }
    }
}
