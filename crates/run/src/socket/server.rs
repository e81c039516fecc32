//! The run's end of the socket. Nothing here blocks: the run's loop calls [`Server::poll`] whenever
//! it has a moment.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{ControlTarget, Request, SocketError, answer, directory};

/// Longest request; longer ones are no requests.
const LONGEST_REQUEST: usize = 1 << 20;
/// Most connections at a time; more wait.
const MOST_CLIENTS: usize = 16;
/// Where all places are taken, a connection on which nothing moved for this long loses its place to
/// one that waits.
const IDLE: Duration = Duration::from_secs(1);

/// A listening control socket; its name goes when this is dropped.
pub struct Server {
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

impl Server {
    /// Listens for a run of `program` in the user's directory.
    pub fn start(program: &str) -> Result<Server, SocketError> {
        Server::start_in(&directory()?, program)
    }

    pub(super) fn start_in(directory: &Path, program: &str) -> Result<Server, SocketError> {
        let allowed =
            |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
        let name: String = program.chars().take(40).map(allowed).collect();
        let pid = std::process::id();
        // One process may have several runs.
        let mut tries = (0..1000).map(|n| match n {
            0 => directory.join(format!("{name}.{pid}.sock")),
            n => directory.join(format!("{name}-{n}.{pid}.sock")),
        });
        let (listener, path) = loop {
            let Some(path) = tries.next() else {
                return Err(SocketError::TooLong(directory.join(name)));
            };
            match UnixListener::bind(&path) {
                Ok(listener) => break (listener, path),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    // Left behind by a process of the same number, or ours.
                    if super::client::is_stale(&path) {
                        let _ = std::fs::remove_file(&path);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    return Err(SocketError::TooLong(path));
                }
                Err(error) => return Err(SocketError::io("make the socket", path)(error)),
            }
        };
        let server = Server { listener, path, clients: Vec::new() };
        server
            .listener
            .set_nonblocking(true)
            .map_err(SocketError::io("listen on", &server.path))?;
        Ok(server)
    }

    /// The socket's name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Answers everything that was asked meanwhile.
    pub fn poll(&mut self, target: &mut dyn ControlTarget) {
        while self.has_place() {
            let Ok((stream, _)) = self.listener.accept() else { break };
            if stream.set_nonblocking(true).is_ok() {
                let (asked, answers, moved) = (Vec::new(), Vec::new(), Instant::now());
                self.clients.push(Client { stream, asked, answers, closed: false, moved });
            }
        }
        for client in &mut self.clients {
            client.read();
            client.answer(target);
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

impl Drop for Server {
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

    fn answer(&mut self, target: &mut dyn ControlTarget) {
        while let Some(end) = self.asked.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.asked.drain(..=end).collect();
            let result = serde_json::from_slice::<Request>(&line)
                .map_err(|error| format!("not a request: {error}"))
                .and_then(|request| answer(target, request));
            let reply = match result {
                Ok(value) => json!({ "ok": value }),
                Err(message) => json!({ "error": message }),
            };
            self.answers.extend(reply.to_string().into_bytes());
            self.answers.push(b'\n');
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
