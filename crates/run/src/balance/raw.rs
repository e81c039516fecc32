//! Frames on an interface as they are: a packet socket.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::xdp::XdpError;
use crate::xdp::attach::index_of;

/// Longest frame that is read.
const LARGEST: usize = 4096;
/// Bytes of packets the kernel keeps for us.
static BUFFER: libc::c_int = 16 << 20;

/// A packet socket on one interface; frames that leave by it are not seen.
#[derive(Debug)]
pub struct Raw {
    fd: OwnedFd,
}

impl Raw {
    /// On an interface of the calling thread's network namespace.
    pub fn open(interface: &str) -> Result<Raw, XdpError> {
        let index = index_of(interface)?;
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let all = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: plain numbers; no protocol yet, so that no frame of another interface gets in.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(XdpError::last("open a packet socket"));
        }
        // SAFETY: a new descriptor.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: all-zero is a valid address; options and address live through the calls.
        unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVBUFFORCE,
                (&raw const BUFFER).cast(),
                4,
            );
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_SNDBUFFORCE,
                (&raw const BUFFER).cast(),
                4,
            );
            let one: libc::c_int = 1;
            // PACKET_IGNORE_OUTGOING of linux/if_packet.h.
            libc::setsockopt(fd.as_raw_fd(), libc::SOL_PACKET, 23, (&raw const one).cast(), 4);
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = all;
            address.sll_ifindex = index as i32;
            if libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as u32)
                != 0
            {
                return Err(XdpError::last(format!("bind a packet socket to `{interface}`")));
            }
        }
        Ok(Raw { fd })
    }

    /// The next frame, if one is there.
    pub fn receive(&self) -> io::Result<Option<Vec<u8>>> {
        let mut frame = vec![0; LARGEST];
        // SAFETY: a buffer and its length.
        let got =
            unsafe { libc::recv(self.fd.as_raw_fd(), frame.as_mut_ptr().cast(), frame.len(), 0) };
        if got < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
        }
        frame.truncate(got as usize);
        Ok(Some(frame))
    }

    /// Sends a frame; false if the interface takes no more for now.
    pub fn send(&self, frame: &[u8]) -> io::Result<bool> {
        // SAFETY: a buffer and its length.
        let sent =
            unsafe { libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        if sent >= 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS) => Ok(false),
            _ => Err(error),
        }
    }

    /// For poll(2).
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Sleeps until a frame is there, or for at most so many ms.
    pub fn wait(&self, ms: i32) {
        let mut poll = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry that lives through the call.
        unsafe { libc::poll(&mut poll, 1, ms) };
    }
}
