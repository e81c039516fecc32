//! AF_XDP sockets: packets that a program in the kernel redirects to this process, and packets back
//! out by the interface.
//!
//! A socket has memory that it shares with the kernel (the umem), cut into chunks, and four rings
//! of chunk numbers: the process fills in free chunks and gets them back with packets in them
//! (receive), or gives chunks to send and gets them back when they were (completion). Each ring has
//! one producer and one consumer, so positions are all that is shared. (Linux,
//! Documentation/networking/af_xdp.rst.)
//!
//! Several sockets may share one queue of an interface: each has rings of its own for what it
//! receives and sends, and the chunks with the rings for free and sent ones are all sockets'
//! together ([`Umem`]). Those have one producer and one consumer here too, so a lock stands for
//! that; it is taken once for a batch.
//!
//! What stands in front of a packet, its metadata, is copied with it: 256 bytes of every chunk are
//! headroom. Plain system calls, since it is four mappings and a bind: libxdp and the crates around
//! it bring a program loader with them.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::xdp::XdpError;

/// Bytes of a chunk: a page holds the longest frame with its headroom.
const CHUNK: usize = 4096;
/// Packets that wait to be received, and to be sent, in each socket.
pub const RECEIVED: u32 = 1024;
const SENT: u32 = 512;
/// Packets taken out at a time, so that one queue does not keep others waiting.
pub const BATCH: usize = 64;
/// Bytes in front of a received packet, which the kernel reserves for metadata.
pub const HEADROOM: usize = 256;

/// A mapping that goes with its owner.
struct Mapping {
    at: *mut u8,
    length: usize,
}

impl Mapping {
    fn new(length: usize, fd: Option<&OwnedFd>, offset: libc::off_t) -> io::Result<Mapping> {
        let anonymous =
            if fd.is_none() { libc::MAP_PRIVATE | libc::MAP_ANONYMOUS } else { libc::MAP_SHARED };
        let fd = fd.map_or(-1, AsRawFd::as_raw_fd);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping, owned by the result.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                anonymous | libc::MAP_POPULATE,
                fd,
                offset,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { at: at.cast(), length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, unmapped once.
        unsafe { libc::munmap(self.at.cast(), self.length) };
    }
}

/// One of the four rings, with entries of `T`.
struct Ring<T> {
    mapping: Mapping,
    producer: usize,
    consumer: usize,
    entries: usize,
    size: u32,
    _entry: std::marker::PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    fn map(
        fd: &OwnedFd,
        offset: libc::off_t,
        size: u32,
        places: &libc::xdp_ring_offset,
    ) -> io::Result<Ring<T>> {
        let length = places.desc as usize + size as usize * size_of::<T>();
        Ok(Ring {
            mapping: Mapping::new(length, Some(fd), offset)?,
            producer: places.producer as usize,
            consumer: places.consumer as usize,
            entries: places.desc as usize,
            size,
            _entry: std::marker::PhantomData,
        })
    }

    fn position(&self, at: usize) -> &AtomicU32 {
        // SAFETY: inside the mapping, aligned, shared with the kernel by atomic access.
        unsafe { &*self.mapping.at.add(at).cast::<AtomicU32>() }
    }

    fn entry(&self, position: u32) -> *mut T {
        let at = (position & (self.size - 1)) as usize;
        // SAFETY: below `size`, which the mapping was made for.
        unsafe { self.mapping.at.add(self.entries).cast::<T>().add(at) }
    }

    /// Gives an entry to the kernel; false if the ring is full.
    fn push(&mut self, entry: T) -> bool {
        let (at, taken) = (self.position(self.producer), self.position(self.consumer));
        let position = at.load(Ordering::Relaxed);
        if position.wrapping_sub(taken.load(Ordering::Acquire)) >= self.size {
            return false;
        }
        // SAFETY: the kernel does not look at the entry before the position moves.
        unsafe { self.entry(position).write(entry) };
        at.store(position.wrapping_add(1), Ordering::Release);
        true
    }

    /// Takes an entry of the kernel's.
    fn pop(&mut self) -> Option<T> {
        let (given, at) = (self.position(self.producer), self.position(self.consumer));
        let position = at.load(Ordering::Relaxed);
        if position == given.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: the kernel wrote it before it moved its position.
        let entry = unsafe { self.entry(position).read() };
        at.store(position.wrapping_add(1), Ordering::Release);
        Some(entry)
    }

    /// Entries that the kernel has not taken yet.
    fn waiting(&self) -> u32 {
        let (given, taken) = (self.position(self.producer), self.position(self.consumer));
        given.load(Ordering::Relaxed).wrapping_sub(taken.load(Ordering::Acquire))
    }
}

/// The memory that the sockets of one queue share with the kernel.
struct Umem {
    mapping: Mapping,
    chunks: Mutex<Chunks>,
}

/// Chunks on their way to and from the kernel.
struct Chunks {
    fill: Ring<u64>,
    completion: Ring<u64>,
    /// Addresses of chunks that may be sent.
    free: Vec<u64>,
}

// SAFETY: the mappings are owned; rings are used under the lock, and a chunk's bytes by whoever has
// its number.
unsafe impl Send for Umem {}
// SAFETY: as above.
unsafe impl Sync for Umem {}

impl Umem {
    fn chunks(&self) -> MutexGuard<'_, Chunks> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A socket on one queue of an interface.
pub struct Socket {
    rx: Ring<libc::xdp_desc>,
    tx: Ring<libc::xdp_desc>,
    /// Chunks that this socket may send.
    free: Vec<u64>,
    /// Chunks that were received and go back.
    emptied: Vec<u64>,
    fd: OwnedFd,
    // Last: the kernel writes into it until the sockets are closed.
    umem: Arc<Umem>,
}

// SAFETY: the mappings are owned, and every access takes `&mut self`.
unsafe impl Send for Socket {}

impl Socket {
    /// Opens `many` sockets on a queue of an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`XdpError::Feature`] on kernels without AF_XDP; who has the queue already, if somebody
    /// does.
    pub fn open(
        ifindex: u32,
        queue: u32,
        interface: &str,
        many: u32,
    ) -> Result<Vec<Socket>, XdpError> {
        let first = Socket::bind((ifindex, queue), interface, many, None)?;
        let others =
            (1..many).map(|_| Socket::bind((ifindex, queue), interface, many, Some(&first)));
        let mut list = others.collect::<Result<Vec<Socket>, XdpError>>()?;
        list.insert(0, first);
        Ok(list)
    }

    /// Opens a socket; `with` is the one whose memory it shares. `many` sockets will.
    fn bind(
        (ifindex, queue): (u32, u32),
        interface: &str,
        many: u32,
        with: Option<&Socket>,
    ) -> Result<Socket, XdpError> {
        let fail = |what: &str, error: io::Error| {
            let what = format!("{what} for queue {queue} of interface `{interface}`");
            match error.raw_os_error() {
                Some(libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT | libc::EOPNOTSUPP) => XdpError::Feature {
                    what: "AF_XDP".to_string(),
                    how: "use a kernel with CONFIG_XDP_SOCKETS=y, or keep all handlers on the NIC side"
                        .to_string(),
                },
                Some(libc::EBUSY) => XdpError::Kernel {
                    what: format!("{what}: another process has a socket on it; end that one"),
                    source: error,
                },
                _ => XdpError::kernel(what, error),
            }
        };
        // SAFETY: no pointers.
        let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(fail("open an AF_XDP socket", io::Error::last_os_error()));
        }
        // SAFETY: a new descriptor, owned from here on.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let umem = match with {
            Some(with) => Arc::clone(&with.umem),
            None => {
                let umem =
                    Umem::share(&fd, many).map_err(|e| fail("share memory with the kernel", e))?;
                Arc::new(umem)
            }
        };
        for (option, size) in [(libc::XDP_RX_RING, RECEIVED), (libc::XDP_TX_RING, SENT)] {
            set(&fd, option, &size).map_err(|e| fail("make a ring", e))?;
        }
        let places = places(&fd).map_err(|e| fail("ask for the rings", e))?;
        let map = |e| fail("map a ring", e);
        let rx = Ring::map(&fd, libc::XDP_PGOFF_RX_RING, RECEIVED, &places.rx).map_err(map)?;
        let tx = Ring::map(&fd, libc::XDP_PGOFF_TX_RING, SENT, &places.tx).map_err(map)?;
        // SAFETY: all-zero is a valid value.
        let mut address: libc::sockaddr_xdp = unsafe { std::mem::zeroed() };
        address.sxdp_family = libc::AF_XDP as u16;
        (address.sxdp_ifindex, address.sxdp_queue_id) = (ifindex, queue);
        if let Some(with) = with {
            address.sxdp_flags = libc::XDP_SHARED_UMEM;
            address.sxdp_shared_umem_fd = with.fd.as_raw_fd() as u32;
        }
        // SAFETY: an address and its size.
        let status = unsafe {
            libc::bind(
                fd.as_raw_fd(),
                (&raw const address).cast(),
                size_of_val(&address) as libc::socklen_t,
            )
        };
        if status != 0 {
            return Err(fail("bind an AF_XDP socket", io::Error::last_os_error()));
        }
        Ok(Socket { rx, tx, free: Vec::new(), emptied: Vec::new(), fd, umem })
    }

    /// For maps of sockets, and to wait on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.fd.as_fd()
    }

    /// Gives each packet that is there, up to [`BATCH`], to `take`: the bytes in front of it, of
    /// which the last ones are its metadata, and the frame.
    pub fn receive(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> usize {
        let mut count = 0;
        while count < BATCH
            && let Some(entry) = self.rx.pop()
        {
            let (at, length) = (entry.addr as usize, entry.len as usize);
            let front = at % CHUNK;
            // SAFETY: the kernel gave an address and a length inside one chunk, which is ours until
            // it is filled in again.
            unsafe {
                let data = self.umem.mapping.at.add(at);
                let meta = std::slice::from_raw_parts(data.sub(front), front);
                take(meta, std::slice::from_raw_parts(data, length));
            }
            self.emptied.push((at - front) as u64);
            count += 1;
        }
        if count > 0 {
            let mut chunks = self.umem.chunks();
            for chunk in self.emptied.drain(..) {
                chunks.fill.push(chunk);
            }
        }
        count
    }

    /// Puts a frame into the ring of those to send; false if there is no room. [`Socket::kick`]
    /// sends them.
    pub fn send(&mut self, frame: &[u8]) -> bool {
        if frame.len() > CHUNK {
            return false;
        }
        if self.free.is_empty() {
            self.umem.chunks().take(&mut self.free);
        }
        let Some(chunk) = self.free.pop() else { return false };
        // SAFETY: the chunk is free, and the frame is no longer than it.
        unsafe {
            std::ptr::copy_nonoverlapping(
                frame.as_ptr(),
                self.umem.mapping.at.add(chunk as usize),
                frame.len(),
            );
        }
        let entry = libc::xdp_desc { addr: chunk, len: frame.len() as u32, options: 0 };
        let sent = self.tx.push(entry);
        if !sent {
            self.free.push(chunk);
        }
        sent
    }

    /// Has the kernel send what waits. Returns how many frames it gave up because the interface's
    /// queue was full.
    pub fn kick(&mut self) -> u64 {
        let mut given_up = 0;
        let mut idle = 0;
        while self.tx.waiting() > 0 && idle < 10_000 {
            // SAFETY: no buffer.
            let status = unsafe {
                libc::sendto(
                    self.fd.as_raw_fd(),
                    std::ptr::null(),
                    0,
                    libc::MSG_DONTWAIT,
                    std::ptr::null(),
                    0,
                )
            };
            let error = io::Error::last_os_error().raw_os_error();
            match error.filter(|_| status < 0) {
                // In copy mode: the driver took the frame and dropped it.
                Some(libc::EBUSY) => given_up += 1,
                Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => {
                    idle += 1;
                    std::thread::yield_now();
                }
                // The interface is down or gone: the frames stay until it is back.
                Some(_) => break,
                None => {}
            }
        }
        given_up
    }

    /// Packets that never got into the ring so far, because it was full or no chunk was free.
    pub fn lost(&self) -> u64 {
        // SAFETY: all-zero is a valid value.
        let mut counts: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        match get(&self.fd, libc::XDP_STATISTICS, &mut counts) {
            Ok(()) => counts.rx_dropped + counts.rx_ring_full,
            Err(_) => 0,
        }
    }
}

impl Umem {
    /// Gives memory for `many` sockets to the kernel, by the first one.
    fn share(fd: &OwnedFd, many: u32) -> io::Result<Umem> {
        let (received, sent) = (many * RECEIVED, many * SENT);
        let mapping = Mapping::new((received + sent) as usize * CHUNK, None, 0)?;
        // SAFETY: all-zero is a valid value.
        let mut region: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
        (region.addr, region.len) = (mapping.at as u64, mapping.length as u64);
        region.chunk_size = CHUNK as u32;
        set(fd, libc::XDP_UMEM_REG, &region)?;
        let (fill, completion) = (received.next_power_of_two(), sent.next_power_of_two());
        set(fd, libc::XDP_UMEM_FILL_RING, &fill)?;
        set(fd, libc::XDP_UMEM_COMPLETION_RING, &completion)?;
        let places = places(fd)?;
        let at = |offset| offset as libc::off_t;
        let mut fill = Ring::map(fd, at(libc::XDP_UMEM_PGOFF_FILL_RING), fill, &places.fr)?;
        let completion =
            Ring::map(fd, at(libc::XDP_UMEM_PGOFF_COMPLETION_RING), completion, &places.cr)?;
        let address = |chunk: u32| u64::from(chunk) * CHUNK as u64;
        for chunk in 0..received {
            fill.push(address(chunk));
        }
        let free = (received..received + sent).map(address).collect();
        Ok(Umem { mapping, chunks: Mutex::new(Chunks { fill, completion, free }) })
    }
}

impl Chunks {
    /// Takes a batch of chunks that may be sent, as far as there are any.
    fn take(&mut self, to: &mut Vec<u64>) {
        while let Some(chunk) = self.completion.pop() {
            self.free.push(chunk - chunk % CHUNK as u64);
        }
        to.extend(self.free.drain(self.free.len().saturating_sub(BATCH)..));
    }
}

/// Where a socket's rings have their positions and entries.
fn places(fd: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: all-zero is a valid value.
    let mut places: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    get(fd, libc::XDP_MMAP_OFFSETS, &mut places)?;
    Ok(places)
}

fn set<T>(fd: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    // SAFETY: a value and its size.
    let status = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_XDP,
            option,
            std::ptr::from_ref(value).cast(),
            size,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn get<T>(fd: &OwnedFd, option: libc::c_int, value: &mut T) -> io::Result<()> {
    let mut size = size_of::<T>() as libc::socklen_t;
    // SAFETY: room for a value, and its size.
    let status = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_XDP,
            option,
            std::ptr::from_mut(value).cast(),
            &mut size,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
