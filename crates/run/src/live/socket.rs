//! AF_PACKET sockets: putting frames on the wire, and seeing what the program passed to the network
//! stack.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::xdp::XdpError;

/// Receive buffer of a tap. The kernel counts a frame with all its bookkeeping, so this is some
/// 60,000 small frames.
const TAP_BYTES: libc::c_int = 64 << 20;
/// Frames one system call sends at most.
const BATCH: usize = 64;

const PACKET_QDISC_BYPASS: libc::c_int = 20;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const PACKET_AUXDATA: libc::c_int = 8;
const PACKET_STATISTICS: libc::c_int = 6;
const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;

fn open(protocol: u16) -> Result<OwnedFd, XdpError> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, libc::c_int::from(protocol.to_be())) };
    if fd < 0 {
        return Err(XdpError::last("open a packet socket"));
    }
    // SAFETY: a new descriptor, owned from here on.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn set(
    fd: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let size = size_of_val(&value) as libc::socklen_t;
    // SAFETY: a value and its size.
    match unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const value).cast(), size)
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Puts frames on interfaces of the namespace it was opened in.
pub struct Sender {
    fd: OwnedFd,
}

impl Sender {
    /// Opens it in the calling thread's network namespace.
    pub fn open() -> Result<Sender, XdpError> {
        // Protocol 0 receives nothing.
        let fd = open(0)?;
        set(&fd, libc::SOL_PACKET, PACKET_QDISC_BYPASS, 1).map_err(|error| {
            XdpError::kernel("send packets without a queueing discipline", error)
        })?;
        Ok(Sender { fd })
    }

    /// Sends all frames by one interface, in order.
    pub fn send(&self, ifindex: u32, frames: &[&[u8]]) -> Result<(), XdpError> {
        // SAFETY: all-zero is a valid value.
        let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_ifindex = ifindex as i32;
        for batch in frames.chunks(BATCH) {
            let mut parts: Vec<libc::iovec> = batch
                .iter()
                .map(|frame| libc::iovec {
                    iov_base: frame.as_ptr().cast_mut().cast(),
                    iov_len: frame.len(),
                })
                .collect();
            let mut messages: Vec<libc::mmsghdr> = parts
                .iter_mut()
                .map(|part| {
                    // SAFETY: all-zero is a valid value.
                    let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
                    message.msg_hdr.msg_name = (&raw mut to).cast();
                    message.msg_hdr.msg_namelen = size_of_val(&to) as u32;
                    message.msg_hdr.msg_iov = part;
                    message.msg_hdr.msg_iovlen = 1;
                    message
                })
                .collect();
            let mut sent = 0;
            while sent < messages.len() {
                let rest = &mut messages[sent..];
                // SAFETY: messages, addresses and frames live through the call; the kernel only
                // reads the frames.
                let more = unsafe {
                    libc::sendmmsg(self.fd.as_raw_fd(), rest.as_mut_ptr(), rest.len() as u32, 0)
                };
                if more > 0 {
                    sent += more as usize;
                    continue;
                }
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // The interface's queue is full for a moment.
                    Some(libc::EAGAIN | libc::ENOBUFS) => std::thread::yield_now(),
                    _ => return Err(XdpError::kernel("send a packet", error)),
                }
            }
        }
        Ok(())
    }
}

/// Sees every frame that interfaces of the namespace it was opened in hand to the network stack.
pub struct Tap {
    fd: OwnedFd,
    buffer: Vec<u8>,
    lost: u64,
}

impl Tap {
    pub fn open() -> Result<Tap, XdpError> {
        let fd = open(libc::ETH_P_ALL as u16)?;
        let failed = |error| XdpError::kernel("prepare a packet socket", error);
        // The forced form passes the system's limit and needs CAP_NET_ADMIN, which attaching needs
        // too.
        set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, TAP_BYTES)
            .or_else(|_| set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUF, TAP_BYTES))
            .map_err(failed)?;
        set(&fd, libc::SOL_PACKET, PACKET_AUXDATA, 1).map_err(failed)?;
        set(&fd, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1).map_err(failed)?;
        Ok(Tap { fd, buffer: vec![0; 1 << 16], lost: 0 })
    }

    /// Everything that is there.
    pub fn drain(&mut self, mut take: impl FnMut(Vec<u8>)) -> Result<(), XdpError> {
        while let Some(frame) = self.receive()? {
            take(frame);
        }
        Ok(())
    }

    /// Frames lost so far because the buffer was full.
    pub fn lost(&mut self) -> u64 {
        let mut counts = [0u32; 2];
        let mut size = size_of_val(&counts) as libc::socklen_t;
        // SAFETY: a buffer and its size.
        let status = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                PACKET_STATISTICS,
                counts.as_mut_ptr().cast(),
                &mut size,
            )
        };
        // Reading the counters resets them.
        if status == 0 {
            self.lost += u64::from(counts[1]);
        }
        self.lost
    }

    fn receive(&mut self) -> Result<Option<Vec<u8>>, XdpError> {
        let mut part =
            libc::iovec { iov_base: self.buffer.as_mut_ptr().cast(), iov_len: self.buffer.len() };
        let mut control = [0u64; 16];
        // SAFETY: all-zero is a valid value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        // SAFETY: the buffers live through the call.
        let got = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &mut message, 0) };
        if got < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => Ok(None),
                _ => Err(XdpError::kernel("receive a packet", error)),
            };
        }
        let mut frame = self.buffer[..got as usize].to_vec();
        if let Some(tag) = vlan_tag(&message)
            && frame.len() >= 12
        {
            frame.splice(12..12, tag);
        }
        Ok(Some(frame))
    }
}

/// The outer VLAN tag, which the kernel takes out of every frame before sockets see it.
fn vlan_tag(message: &libc::msghdr) -> Option<[u8; 4]> {
    // SAFETY: the kernel filled the control buffer, which the macros walk over inside its length.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(message);
        while !at.is_null() {
            if (*at).cmsg_level == libc::SOL_PACKET && (*at).cmsg_type == PACKET_AUXDATA {
                // struct tpacket_auxdata: status, len, snaplen (u32), mac, net, vlan_tci, vlan_tpid
                // (u16).
                let data = libc::CMSG_DATA(at);
                let status = data.cast::<u32>().read_unaligned();
                let tci = data.add(16).cast::<u16>().read_unaligned();
                let tpid = data.add(18).cast::<u16>().read_unaligned();
                let tpid = if status & TP_STATUS_VLAN_TPID_VALID != 0 {
                    tpid
                } else {
                    libc::ETH_P_8021Q as u16
                };
                let [a, b] = tpid.to_be_bytes();
                let [c, d] = tci.to_be_bytes();
                return (status & TP_STATUS_VLAN_VALID != 0).then_some([a, b, c, d]);
            }
            at = libc::CMSG_NXTHDR(message, at);
        }
    }
    None
}
