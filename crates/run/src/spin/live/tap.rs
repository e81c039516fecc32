//! A TAP interface: what the kernel sends to it comes here as frames, and the other way round.
//!
//! Source: the kernel's Documentation/networking/tuntap.rst. The interface goes away with the file
//! that made it.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

/// Longest frame that is read.
const LONGEST: usize = 65_536;

/// Why there is no interface.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    #[error("`{0}` is no interface's name: 1 to 15 letters, digits, `.`, `-` or `_`")]
    Name(String),
    #[error(
        "interface `{name}` cannot be made: {source}; run as root (or with CAP_NET_ADMIN), under a name that is free"
    )]
    Create { name: String, source: std::io::Error },
    #[error("`ip {what}` fails: {message}")]
    Ip { what: String, message: String },
    #[error("interface `{name}`: {source}")]
    Io { name: String, source: std::io::Error },
}

/// An interface.
#[derive(Debug)]
pub struct Tap {
    name: String,
    file: File,
}

impl Tap {
    /// Makes an interface and brings it up, with an address such as `10.9.0.1/24` if one is given.
    ///
    /// # Errors
    /// The name, privilege, or the address.
    pub fn new(name: &str, address: Option<&str>) -> Result<Tap, TapError> {
        let legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || !name.chars().all(legal) {
            return Err(TapError::Name(name.to_string()));
        }
        let create = |source| TapError::Create { name: name.to_string(), source };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun")
            .map_err(create)?;
        // SAFETY: all-zero is a valid value of the structure.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the structure lives through the call, which reads and writes it only.
        if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request) } < 0 {
            return Err(create(std::io::Error::last_os_error()));
        }
        let tap = Tap { name: name.to_string(), file };
        // What the kernel says of itself on a new interface (router solicitations and the like) is
        // of no use to handlers.
        let quiet = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
        let _ = std::fs::write(quiet, "1");
        if let Some(address) = address {
            ip(&["address", "add", address, "dev", name])?;
        }
        ip(&["link", "set", name, "up"])?;
        Ok(tap)
    }

    /// The next frame, if there is one.
    ///
    /// # Errors
    /// The interface is gone or down.
    pub fn receive(&mut self) -> Result<Option<Vec<u8>>, TapError> {
        let mut frame = vec![0; LONGEST];
        match self.file.read(&mut frame) {
            Ok(length) => {
                frame.truncate(length);
                Ok(Some(frame))
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Ok(None)
            }
            Err(source) => Err(TapError::Io { name: self.name.clone(), source }),
        }
    }

    /// Gives a frame to the kernel. False: it did not take it (the interface is down, or the frame
    /// is none).
    pub fn send(&mut self, frame: &[u8]) -> bool {
        self.file.write(frame).is_ok()
    }

    pub fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

fn ip(args: &[&str]) -> Result<(), TapError> {
    let fail = |message: String| TapError::Ip { what: args.join(" "), message };
    let ran = Command::new("ip")
        .args(args)
        .output()
        .map_err(|e| fail(format!("{e}; install it with `apt-get install iproute2`")))?;
    if ran.status.success() {
        Ok(())
    } else {
        Err(fail(String::from_utf8_lossy(&ran.stderr).trim().to_string()))
    }
}
