//! Test networks: network namespaces without a name, and in them a pair of veth interfaces per
//! port.
//!
//! ```text
//!   NIC namespace                         wire namespace
//!   port 0 = nf0  <---- veth pair ---->   wire0
//!   port 1 = nf1  <---- veth pair ---->   wire1
//! ```
//!
//! A namespace lives as long as somebody holds a descriptor of it (or a thread runs in it), so
//! nothing survives this process, however it ends: no name under /run/netns, no interface, no
//! helper process.
//!
//! The interfaces carry exactly the bytes that are sent: checksum, segmentation and VLAN offloads
//! are off, as is all that would send packets by itself (ARP, IPv6).

mod ethtool;
mod netlink;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

pub(crate) use ethtool::{StatsReader, XdpStats, xdp_stats};

use crate::xdp::{MAX_PORTS, XdpError};

/// Largest MTU with which veth takes a native XDP program: a page less 256 bytes of headroom, 320
/// bytes the kernel keeps behind the packet, and the Ethernet header.
pub const MTU: u32 = 4096 - 256 - 320 - 14;

/// Longest frame a port of a sandbox carries.
pub const LARGEST_FRAME: usize = MTU as usize + 14;

/// An anonymous network namespace.
#[derive(Debug)]
pub struct Namespace {
    fd: OwnedFd,
}

impl Namespace {
    /// Makes a namespace.
    pub fn new() -> Result<Namespace, XdpError> {
        on_own_thread(|| {
            // SAFETY: affects this short-lived thread only.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(XdpError::last("make a network namespace"));
            }
            let file = File::open("/proc/thread-self/ns/net");
            let file =
                file.map_err(|error| XdpError::kernel("open the new network namespace", error))?;
            Ok(Namespace { fd: file.into() })
        })?
    }

    /// Runs `work` in the namespace, on a thread of its own: sockets made there stay in the
    /// namespace.
    pub fn enter<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, XdpError> + Send,
    ) -> Result<T, XdpError> {
        let fd = self.fd.as_raw_fd();
        on_own_thread(move || {
            // SAFETY: affects this short-lived thread only.
            if unsafe { libc::setns(fd, libc::CLONE_NEWNET) } != 0 {
                return Err(XdpError::last("enter a network namespace"));
            }
            work()
        })?
    }
}

fn on_own_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, XdpError> {
    std::thread::scope(|scope| {
        let thread =
            std::thread::Builder::new().name("netns".to_string()).spawn_scoped(scope, work);
        let thread = thread.map_err(|error| XdpError::kernel("start a thread", error))?;
        match thread.join() {
            Ok(result) => Ok(result),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// A port of a sandbox.
#[derive(Clone, Debug)]
pub struct Port {
    /// Name and index of the interface in the NIC namespace, where programs are attached.
    pub name: String,
    pub ifindex: u32,
    /// Index of its peer in the wire namespace.
    pub wire_ifindex: u32,
}

/// A test network of some ports.
#[derive(Debug)]
pub struct Sandbox {
    pub nic: Namespace,
    pub wire: Namespace,
    pub ports: Vec<Port>,
}

impl Sandbox {
    /// Makes both namespaces and a veth pair per port, all up.
    ///
    /// # Errors
    /// [`XdpError::Privilege`] without CAP_SYS_ADMIN, [`XdpError::Feature`] on kernels without
    /// veth.
    pub fn new(ports: u32) -> Result<Sandbox, XdpError> {
        if ports == 0 || ports as usize > MAX_PORTS {
            return Err(XdpError::NoPort {
                port: ports.saturating_sub(1),
                last: MAX_PORTS as u32 - 1,
            });
        }
        let (nic, wire) = (Namespace::new()?, Namespace::new()?);
        nic.enter(quiet)?;
        wire.enter(quiet)?;
        let wire_fd = wire.fd.as_fd();
        let indices = nic.enter(|| {
            let mut link = netlink::Socket::open()?;
            (0..ports)
                .map(|port| {
                    link.add_veth(&format!("nf{port}"), &format!("wire{port}"), wire_fd)?;
                    start(&mut link, &format!("nf{port}"))
                })
                .collect::<Result<Vec<u32>, XdpError>>()
        })?;
        let wire_indices = wire.enter(|| {
            let mut link = netlink::Socket::open()?;
            (0..ports)
                .map(|port| start(&mut link, &format!("wire{port}")))
                .collect::<Result<Vec<u32>, _>>()
        })?;
        let port = |(port, (ifindex, wire_ifindex))| Port {
            name: format!("nf{port}"),
            ifindex,
            wire_ifindex,
        };
        let ports = indices.into_iter().zip(wire_indices).enumerate().map(port).collect();
        Ok(Sandbox { nic, wire, ports })
    }

    /// Index of each port's interface in the NIC namespace.
    pub fn ifindex(&self) -> Vec<u32> {
        self.ports.iter().map(|port| port.ifindex).collect()
    }
}

/// Prepares an interface of the calling thread's namespace and brings it up.
fn start(link: &mut netlink::Socket, name: &str) -> Result<u32, XdpError> {
    let index = crate::xdp::attach::index_of(name)?;
    ethtool::no_offloads(name)?;
    link.bring_up(index, MTU)?;
    Ok(index)
}

/// Keeps the calling thread's namespace from sending anything by itself. Kernels without IPv6 need
/// nothing; where /proc/sys is read-only, interfaces without a link-local address (see [`netlink`])
/// do.
fn quiet() -> Result<(), XdpError> {
    for scope in ["all", "default"] {
        let path = format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6");
        match std::fs::write(path, "1") {
            Err(error)
                if !matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                return Err(XdpError::kernel("turn off IPv6 in a network namespace", error));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
