//! Joining a loaded program to its handlers in this process.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use libbpf_rs::{MapCore as _, libbpf_sys};

use super::attach::attach;
use super::error::XdpError;
use super::load::Loaded;
use crate::process::xsk::Socket;
use crate::process::{Kernel, Link, Process, QUEUES};
use crate::ring::Ring;

impl Loaded {
    /// Opens a socket on every queue of the program's interfaces, which are those of the calling thread's network namespace, and starts
    /// the process's thread. Programs without handlers there need nothing.
    ///
    /// # Errors
    /// [`XdpError::Feature`] on kernels without AF_XDP; who has a queue already, if somebody does.
    pub(crate) fn start_process(&self, interfaces: &[(u32, String)]) -> Result<(), XdpError> {
        let Some(process) = &self.process else { return Ok(()) };
        let contract = |what: &str| XdpError::Contract(format!("there is no `{what}` for the process"));
        let globals = Arc::clone(self.globals.as_ref().ok_or_else(|| contract(".bss"))?);
        let place = |place: Option<super::globals::Place>, name: &str| place.ok_or_else(|| contract(name));
        let (order, unsent) =
            (place(self.places.order, "nf_order")?, place(self.places.unsent, "nf_unsent")?);
        let made = Box::new(move || (globals.u64(order.offset), globals.u64(unsent.offset)));
        let first = made();
        let sockets_map = self.map_named("nf_process").ok_or_else(|| contract("nf_process"))?;
        let mut sockets = Vec::new();
        for (port, (ifindex, name)) in (0u32..).zip(interfaces) {
            let list = all_queues(*ifindex, name)?;
            for (queue, socket) in (0u32..).zip(&list) {
                give(sockets_map.as_fd(), port * QUEUES + queue, socket)?;
            }
            sockets.push(list);
        }
        let up = self.map_named("nf_up").ok_or_else(|| contract("nf_up"))?;
        let events = Ring::map(up.as_fd(), up.max_entries() as usize)
            .map_err(|error| XdpError::kernel("map the ring buffer `nf_up`", error))?;
        let events_fd = up.as_fd().try_clone_to_owned();
        let events_fd = events_fd.map_err(|error| XdpError::kernel("keep the ring buffer `nf_up`", error))?;
        let back = self.program_fd("nf_return").ok_or_else(|| contract("nf_return"))?;
        let back = Link::new(|ifindex, name| attach(back, ifindex, name))?;
        process.start(Kernel { sockets, events, events_fd, back, cpus: self.cpus.clone(), made, first })
    }

    /// The handlers in this process, if the program has any.
    pub fn process(&self) -> Option<&Process> {
        self.process.as_ref()
    }

    /// Whether the process has done all that the kernel's side made for it, and the kernel's side all that came back without a packet.
    pub(crate) fn process_settled(&self) -> bool {
        let Some(process) = &self.process else { return true };
        let count = |place| self.counters(place, 1)[0];
        let made = count(self.places.order);
        process.shared.settled(made) && process.shared.counts().values_back == count(self.places.values)
    }
}

/// A socket on every queue of an interface: the kernel refuses the first number that is none.
fn all_queues(ifindex: u32, name: &str) -> Result<Vec<Socket>, XdpError> {
    let mut list = Vec::new();
    for queue in 0..QUEUES {
        match Socket::open(ifindex, queue, name) {
            Ok(socket) => list.push(socket),
            Err(XdpError::Kernel { source, .. })
                if queue > 0 && source.raw_os_error() == Some(libc::EINVAL) =>
            {
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(list)
}

/// Puts a socket into the map of sockets.
fn give(map: BorrowedFd, key: u32, socket: &Socket) -> Result<(), XdpError> {
    let fd = socket.fd().as_raw_fd();
    // SAFETY: the map's keys and values are u32.
    let status = unsafe {
        libbpf_sys::bpf_map_update_elem(map.as_raw_fd(), (&raw const key).cast(), (&raw const fd).cast(), 0)
    };
    match status {
        0 => Ok(()),
        _ => {
            Err(XdpError::kernel("give a socket to the program", std::io::Error::from_raw_os_error(-status)))
        }
    }
}
