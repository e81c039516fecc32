//! The two rtnetlink requests a sandbox needs (linux/rtnetlink.h, linux/if_link.h), each
//! acknowledged by the kernel.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::xdp::XdpError;

/// Attribute numbers that libc lacks.
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const IN6_ADDR_GEN_MODE_NONE: u8 = 1;

/// A rtnetlink socket of the namespace it was opened in.
pub(super) struct Socket {
    fd: OwnedFd,
    sequence: u32,
}

impl Socket {
    pub(super) fn open() -> Result<Socket, XdpError> {
        // SAFETY: no pointers.
        let fd = unsafe {
            libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE)
        };
        if fd < 0 {
            return Err(XdpError::last("open a netlink socket"));
        }
        // SAFETY: a new descriptor, owned from here on.
        Ok(Socket { fd: unsafe { OwnedFd::from_raw_fd(fd) }, sequence: 0 })
    }

    /// Makes a veth pair: `name` here, `peer` in another namespace.
    pub(super) fn add_veth(
        &mut self,
        name: &str,
        peer: &str,
        peer_namespace: BorrowedFd,
    ) -> Result<(), XdpError> {
        let mut message = Message::new(libc::NLM_F_CREATE | libc::NLM_F_EXCL, 0, 0, 0);
        message.string(libc::IFLA_IFNAME, name);
        message.nested(libc::IFLA_LINKINFO, |message| {
            message.string(IFLA_INFO_KIND, "veth");
            message.nested(IFLA_INFO_DATA, |message| {
                message.nested(VETH_INFO_PEER, |message| {
                    message.interface(0, 0, 0);
                    message.string(libc::IFLA_IFNAME, peer);
                    let fd = peer_namespace.as_raw_fd() as u32;
                    message.attribute(libc::IFLA_NET_NS_FD, &fd.to_ne_bytes());
                });
            });
        });
        self.request(message).map_err(|error| match error.raw_os_error() {
            Some(libc::EOPNOTSUPP) => XdpError::Feature {
                what: "virtual Ethernet pairs".to_string(),
                how: "use a kernel with CONFIG_VETH, or load the module `veth`".to_string(),
            },
            _ => XdpError::kernel("make a veth pair", error),
        })
    }

    /// Sets the MTU, gives the interface no address of its own and brings it up, receiving frames
    /// for anybody and answering no ARP.
    pub(super) fn bring_up(&mut self, ifindex: u32, mtu: u32) -> Result<(), XdpError> {
        let flags = (libc::IFF_UP | libc::IFF_PROMISC | libc::IFF_NOARP) as u32;
        let mut message = Message::new(0, ifindex, flags, flags);
        message.attribute(libc::IFLA_MTU, &mtu.to_ne_bytes());
        if std::path::Path::new("/proc/sys/net/ipv6").exists() {
            message.nested(libc::IFLA_AF_SPEC, |message| {
                message.nested(libc::AF_INET6 as u16, |message| {
                    message.attribute(IFLA_INET6_ADDR_GEN_MODE, &[IN6_ADDR_GEN_MODE_NONE]);
                });
            });
        }
        self.request(message).map_err(|error| XdpError::kernel("bring a veth interface up", error))
    }

    fn request(&mut self, message: Message) -> io::Result<()> {
        self.sequence += 1;
        let bytes = message.finish(self.sequence);
        // SAFETY: a buffer and its length.
        let sent =
            unsafe { libc::send(self.fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut answer = [0u8; 8192];
        // SAFETY: a buffer and its length.
        let got =
            unsafe { libc::recv(self.fd.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
        if got < 0 {
            return Err(io::Error::last_os_error());
        }
        // The acknowledgement is an error message, with error 0 for success, behind a 16-byte
        // header.
        let kind = u16::from_ne_bytes([answer[4], answer[5]]);
        let error = i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]);
        match (got >= 20 && i32::from(kind) == libc::NLMSG_ERROR, error) {
            (true, 0) => Ok(()),
            (true, error) => Err(io::Error::from_raw_os_error(-error)),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "netlink gave no acknowledgement")),
        }
    }
}

/// A request about one interface being written.
struct Message {
    bytes: Vec<u8>,
    flags: i32,
}

impl Message {
    /// RTM_NEWLINK with interface flags `flags` where `change` has ones.
    fn new(message_flags: i32, ifindex: u32, flags: u32, change: u32) -> Message {
        let mut message = Message { bytes: vec![0; 16], flags: message_flags };
        message.interface(ifindex, flags, change);
        message
    }

    /// `struct ifinfomsg`
    fn interface(&mut self, ifindex: u32, flags: u32, change: u32) {
        self.bytes.extend([0; 4]);
        for word in [ifindex, flags, change] {
            self.bytes.extend(word.to_ne_bytes());
        }
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.nested(kind, |message| message.bytes.extend(value));
    }

    fn string(&mut self, kind: u16, value: &str) {
        self.nested(kind, |message| {
            message.bytes.extend(value.as_bytes());
            message.bytes.push(0);
        });
    }

    /// An attribute whose value `fill` writes; its length is set afterwards, the padding does not
    /// count.
    fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Message)) {
        let start = self.bytes.len();
        self.bytes.extend([0; 2]);
        self.bytes.extend(kind.to_ne_bytes());
        fill(self);
        let length = (self.bytes.len() - start) as u16;
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = self.bytes.len() as u32;
        self.bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[4..6].copy_from_slice(&libc::RTM_NEWLINK.to_ne_bytes());
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | self.flags) as u16;
        self.bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}
