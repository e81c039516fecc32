//! How sides say that they are alive, how full their queues are and what they did: datagrams of 40
//! bytes on a Unix socket.
//!
//! ```text
//! 0  magic "nfbb"      8  sequence number         24  packets done so far
//! 4  version 1         16 packets in the fullest  32  p99 since the last, ns; 0: too few
//! 5  side: 0 NIC, 1 host  queue
//! 6  host: 1 asleep until packets come
//! 7  0
//! ```
//!
//! Who may write to the socket's folder may say anything; nobody else can. Whatever is no heartbeat
//! is counted and thrown away.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// Bytes of a heartbeat.
pub const BYTES: usize = 40;
const MAGIC: &[u8; 4] = b"nfbb";

/// Who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Nic,
    Host,
}

/// The heartbeat of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    pub side: Side,
    /// It will send nothing more until packets come.
    pub asleep: bool,
    pub sequence: u64,
    /// Packets in the fullest queue.
    pub queue: u64,
    /// Packets so far.
    pub done: u64,
    /// Since the last heartbeat, ns; 0 if there were too few packets.
    pub p99_ns: u64,
}

impl Heartbeat {
    /// As bytes.
    pub fn write(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4] = 1;
        bytes[5] = u8::from(self.side == Side::Host);
        bytes[6] = self.asleep.into();
        for (at, value) in
            [(8, self.sequence), (16, self.queue), (24, self.done), (32, self.p99_ns)]
        {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// From bytes; none if they are no heartbeat.
    pub fn read(bytes: &[u8]) -> Option<Heartbeat> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        if &bytes[..4] != MAGIC || bytes[4] != 1 || bytes[5] > 1 || bytes[6] > 1 || bytes[7] != 0 {
            return None;
        }
        Some(Heartbeat {
            side: if bytes[5] == 0 { Side::Nic } else { Side::Host },
            asleep: bytes[6] == 1,
            sequence: at(8),
            queue: at(16),
            done: at(24),
            p99_ns: at(32),
        })
    }
}

/// Any bytes as a heartbeat, for the fuzzer: what is read is written as it was.
pub fn fuzz(data: &[u8]) {
    if let Some(beat) = Heartbeat::read(data) {
        assert_eq!(beat.write(), data);
    }
}

/// Where heartbeats arrive; the socket's name goes when this is dropped.
pub struct Receiver {
    socket: UnixDatagram,
    path: PathBuf,
    /// Datagrams that were no heartbeats.
    pub refused: u64,
}

impl Receiver {
    /// Listens at a path that does not exist yet.
    pub fn bind(path: &Path) -> io::Result<Receiver> {
        let socket = UnixDatagram::bind(path)?;
        socket.set_nonblocking(true)?;
        Ok(Receiver { socket, path: path.to_path_buf(), refused: 0 })
    }

    /// The next heartbeat that has come.
    pub fn receive(&mut self) -> Option<Heartbeat> {
        let mut bytes = [0; BYTES + 1];
        while let Ok(got) = self.socket.recv(&mut bytes) {
            match Heartbeat::read(&bytes[..got]) {
                Some(beat) => return Some(beat),
                None => self.refused += 1,
            }
        }
        None
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Sends heartbeats of one side.
pub struct Sender {
    socket: UnixDatagram,
    path: PathBuf,
    sequence: u64,
}

impl Sender {
    pub fn new(path: &Path) -> io::Result<Sender> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Sender { socket, path: path.to_path_buf(), sequence: 0 })
    }

    /// Sends one; that nobody listens is no error of a side's.
    pub fn send(&mut self, mut beat: Heartbeat) {
        self.sequence += 1;
        beat.sequence = self.sequence;
        let _ = self.socket.send_to(&beat.write(), &self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_survive_the_wire_and_garbage_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("beats");
        let mut receiver = Receiver::bind(&path).unwrap();
        let mut sender = Sender::new(&path).unwrap();
        let beat = Heartbeat {
            side: Side::Host,
            asleep: true,
            sequence: 1,
            queue: 2,
            done: 1 << 40,
            p99_ns: 4,
        };
        sender.socket.send_to(b"nfbb", &path).unwrap();
        sender.socket.send_to(&[0; 100], &path).unwrap();
        sender.send(beat);
        assert_eq!(receiver.receive(), Some(beat));
        assert_eq!((receiver.receive(), receiver.refused), (None, 2));
        fuzz(&beat.write());
        assert_eq!(Heartbeat::read(&[b'n'; BYTES]), None);
    }

    /// What services of others include.
    #[test]
    fn the_header_in_c_says_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("nf_balance.h"), include_str!("../../../../runtime/host/nf_balance.h"))
            .unwrap();
        let source = "#define _GNU_SOURCE\n#include \"nf_balance.h\"\n\
                      int main(int c, char **v)\n{\n    struct nf_beats b;\n    if (c != 2 || nf_beats_open(&b, v[1])) return 1;\n    \
                      nf_beats_send(&b, NF_HOST_SIDE, 1, 2, 3000000000u, 4);\n    nf_beats_close(&b);\n    return 0;\n}\n";
        std::fs::write(at("beat.c"), source).unwrap();
        let mut clang = std::process::Command::new(nicforge_clang::name());
        clang
            .args(["-std=c11", "-Wall", "-Wextra", "-Werror"])
            .arg(at("beat.c"))
            .arg("-o")
            .arg(at("beat"));
        assert!(clang.status().unwrap().success());
        let mut receiver = Receiver::bind(&at("beats")).unwrap();
        assert!(
            std::process::Command::new(at("beat")).arg(at("beats")).status().unwrap().success()
        );
        let want = Heartbeat {
            side: Side::Host,
            asleep: true,
            sequence: 1,
            queue: 2,
            done: 3_000_000_000,
            p99_ns: 4,
        };
        assert_eq!(receiver.receive(), Some(want));
    }
}
