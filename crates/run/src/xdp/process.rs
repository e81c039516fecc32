//! Joining a loaded program to its handlers in this process.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use libbpf_rs::{MapCore as _, MapFlags, MapHandle, MapType, Object, libbpf_sys};

use super::attach::attach;
use super::error::XdpError;
use super::loaded::Loaded;
use crate::process::xsk::Socket;
use crate::process::{Kernel, Link, Process, QUEUES};
use crate::ring::Ring;

impl Loaded {
    /// Opens sockets on every queue of the program's interfaces, which are those of the calling
    /// thread's network namespace, and starts the process's threads. Programs without handlers
    /// there need nothing.
    ///
    /// # Errors
    /// [`XdpError::Feature`] on kernels without AF_XDP; who has a queue already, if somebody does.
    pub(crate) fn start_process(&self, interfaces: &[(u32, String)]) -> Result<(), XdpError> {
        let Some(process) = &self.process else { return Ok(()) };
        let contract =
            |what: &str| XdpError::Contract(format!("there is no `{what}` for the process"));
        let globals = Arc::clone(self.globals.as_ref().ok_or_else(|| contract(".bss"))?);
        let place =
            |place: Option<super::globals::Place>, name: &str| place.ok_or_else(|| contract(name));
        let (order, unsent) =
            (place(self.places.order, "nf_order")?, place(self.places.unsent, "nf_unsent")?);
        let asleep = place(self.places.asleep, "nf_asleep")?;
        let threads = process.shared.parts.len() as u32;
        let sockets_map = self.map_named("nf_process").ok_or_else(|| contract("nf_process"))?;
        // By thread, then by port and queue.
        let mut sockets: Vec<Vec<Vec<Socket>>> = (0..threads).map(|_| Vec::new()).collect();
        for (port, (ifindex, name)) in (0u32..).zip(interfaces) {
            sockets.iter_mut().for_each(|ports| ports.push(Vec::new()));
            for (queue, list) in (0u32..).zip(all_queues(*ifindex, name, threads)?) {
                for (thread, socket) in (0u32..).zip(list) {
                    give(sockets_map.as_fd(), (port * QUEUES + queue) * threads + thread, &socket)?;
                    sockets[thread as usize][port as usize].push(socket);
                }
            }
        }
        let back = self.program_fd("nf_return").ok_or_else(|| contract("nf_return"))?;
        let back = Arc::new(Link::new(|ifindex, name| attach(back, ifindex, name))?);
        let mut kernels = Vec::new();
        for (thread, sockets) in sockets.into_iter().enumerate() {
            let fail = |error| XdpError::kernel("make the ring buffer of a thread", error);
            let ring = self.rings.get(thread).ok_or_else(|| contract("nf_up"))?;
            let events = Ring::map(ring.as_fd(), RING as usize).map_err(fail)?;
            let events_fd = ring.as_fd().try_clone_to_owned().map_err(fail)?;
            let (globals, at) = (Arc::clone(&globals), 8 * thread);
            let sleeping = Arc::clone(&globals);
            let sleeps = Box::new(move |now| sleeping.set_u64(asleep.offset + at, u64::from(now)));
            let made =
                Box::new(move || (globals.u64(order.offset + at), globals.u64(unsent.offset + at)));
            let (first, back, cpus) = (made(), Arc::clone(&back), self.cpus.clone());
            kernels.push(Kernel { sockets, events, events_fd, back, cpus, made, sleeps, first });
        }
        process.start(kernels)
    }

    /// The handlers in this process, if the program has any.
    pub fn process(&self) -> Option<&Process> {
        self.process.as_ref()
    }

    /// True if the process has done all that the kernel's side made for it, and the kernel's side
    /// all that came back without a packet.
    pub(crate) fn process_settled(&self) -> bool {
        let Some(process) = &self.process else { return true };
        let made = self.counters(self.places.order, process.shared.parts.len());
        let values = self.counters(self.places.values, 1)[0];
        process.shared.settled(&made) && process.shared.counts().values_back == values
    }
}

/// Sockets on every queue of an interface, one for each thread: the kernel refuses the first number
/// that is none.
fn all_queues(ifindex: u32, name: &str, threads: u32) -> Result<Vec<Vec<Socket>>, XdpError> {
    let mut list = Vec::new();
    for queue in 0..QUEUES {
        match Socket::open(ifindex, queue, name, threads) {
            Ok(sockets) => list.push(sockets),
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

/// Bytes of a ring for events without a packet, as `nf_up` of `runtime/xdp/nf_process.h` says.
const RING: u32 = 1 << 22;

/// The rings of a process's threads. One thread's is a map of its program; several are made here
/// and given to the program.
pub(super) fn rings(object: &Object, threads: usize) -> Result<Vec<MapHandle>, XdpError> {
    let mut rings = Vec::new();
    let fail = |error: libbpf_rs::Error| {
        XdpError::kernel(
            "make the ring buffer of a thread",
            std::io::Error::other(error.to_string()),
        )
    };
    let up = object.maps().find(|map| map.name() == "nf_up");
    if threads == 1 {
        let up = up.ok_or_else(|| XdpError::Contract("there is no `nf_up`".to_string()))?;
        return Ok(vec![MapHandle::try_from(&up).map_err(fail)?]);
    }
    for thread in 0..threads as u32 {
        let up =
            up.as_ref().ok_or_else(|| XdpError::Contract("there is no `nf_up`".to_string()))?;
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
            ..Default::default()
        };
        let ring = MapHandle::create(MapType::RingBuf, Some("nf_up_thread"), 0, 0, RING, &options);
        let ring = ring.map_err(fail)?;
        let value = ring.as_fd().as_raw_fd().to_ne_bytes();
        up.update(&thread.to_ne_bytes(), &value, MapFlags::ANY).map_err(fail)?;
        rings.push(ring);
    }
    Ok(rings)
}

/// Puts a socket into the map of sockets.
fn give(map: BorrowedFd, key: u32, socket: &Socket) -> Result<(), XdpError> {
    let fd = socket.fd().as_raw_fd();
    // SAFETY: the map's keys and values are u32.
    let status = unsafe {
        libbpf_sys::bpf_map_update_elem(
            map.as_raw_fd(),
            (&raw const key).cast(),
            (&raw const fd).cast(),
            0,
        )
    };
    match status {
        0 => Ok(()),
        _ => Err(XdpError::kernel(
            "give a socket to the program",
            std::io::Error::from_raw_os_error(-status),
        )),
    }
}
