//! Attaching a program to an interface, natively, by a BPF link: the kernel detaches it some time
//! after the link's last descriptor is closed, so also when this process dies. Who lets go of it
//! here has it detached at once, unless it is pinned.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

use libbpf_rs::libbpf_sys;

use super::device::mtu_of;
use super::error::XdpError;
use super::object::program_info;
use super::pinned::{open_pin, pin};

/// Ports a generated program can have: the length of `nf_config.ifindex`.
pub const MAX_PORTS: usize = 16;

/// An attached program; when dropped, it is detached: the interface has no program from then on.
/// One that is pinned stays.
#[derive(Debug)]
pub struct Attached {
    link: OwnedFd,
    pinned: bool,
}

impl Attached {
    /// Puts another program in this one's place, atomically: each packet is processed by one or the
    /// other.
    pub(crate) fn update(&self, fd: BorrowedFd, interface: &str) -> Result<(), XdpError> {
        // SAFETY: descriptors that live through the call; no options.
        let status = unsafe {
            libbpf_sys::bpf_link_update(self.link.as_raw_fd(), fd.as_raw_fd(), std::ptr::null())
        };
        if status == 0 {
            return Ok(());
        }
        let source = io::Error::from_raw_os_error(-status);
        Err(XdpError::kernel(format!("replace the program on interface `{interface}`"), source))
    }
}

impl Attached {
    /// True if the interface is gone: the kernel then lets the link be, and forgets its number.
    pub(crate) fn is_gone(&self) -> bool {
        self.info().is_some_and(|(ifindex, _)| ifindex == 0)
    }

    /// Index of the interface, 0 if it is gone or the program was detached, and id of the program.
    pub(crate) fn info(&self) -> Option<(u32, u32)> {
        // SAFETY: all-zero is a valid value; the kernel fills in at most the length given.
        unsafe {
            let mut info: libbpf_sys::bpf_link_info = std::mem::zeroed();
            let mut size = size_of_val(&info) as u32;
            let (fd, to) = (self.link.as_raw_fd(), (&raw mut info).cast());
            let status = libbpf_sys::bpf_obj_get_info_by_fd(fd, to, &mut size);
            (status == 0).then_some((info.__bindgen_anon_1.xdp.ifindex, info.prog_id))
        }
    }

    /// Pins it: from now on it outlives this process.
    pub(crate) fn pin(&mut self, path: &Path) -> Result<(), XdpError> {
        pin(self.link.as_fd(), path)?;
        self.pinned = true;
        Ok(())
    }

    /// True if it outlives this process.
    pub(crate) fn is_pinned(&self) -> bool {
        self.pinned
    }

    /// The attached program that is pinned at `path`.
    pub(crate) fn pinned(path: &Path) -> Result<Attached, XdpError> {
        Ok(Attached { link: open_pin(path)?, pinned: true })
    }

    /// Detaches it now, pinned or not.
    pub(crate) fn detach(mut self) {
        self.pinned = false;
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if self.pinned {
            return;
        }
        // SAFETY: a descriptor that lives through the call. If the interface is gone, so is the
        // program; nothing else can fail.
        unsafe { libbpf_sys::bpf_link_detach(self.link.as_raw_fd()) };
    }
}

/// Attaches program `fd` to the interface with index `ifindex` of the calling thread's network
/// namespace.
///
/// # Errors
/// [`XdpError::Busy`] with the program that is there already, [`XdpError::NoNative`] if the driver
/// cannot.
pub fn attach(fd: BorrowedFd, ifindex: u32, interface: &str) -> Result<Attached, XdpError> {
    if let Some((id, name)) = attached(ifindex)? {
        let interface = interface.to_string();
        return Err(XdpError::Busy { interface, id, name, pinned: None });
    }
    // SAFETY: all-zero is the defined initial state of the options.
    let mut opts: libbpf_sys::bpf_link_create_opts = unsafe { std::mem::zeroed() };
    opts.sz = size_of_val(&opts) as _;
    opts.flags = libbpf_sys::XDP_FLAGS_DRV_MODE;
    // SAFETY: plain values and options that live through the call.
    let link = unsafe {
        libbpf_sys::bpf_link_create(fd.as_raw_fd(), ifindex as i32, libbpf_sys::BPF_XDP, &opts)
    };
    if link >= 0 {
        // SAFETY: a new descriptor, owned from here on.
        return Ok(Attached { link: unsafe { OwnedFd::from_raw_fd(link) }, pinned: false });
    }
    let source = io::Error::from_raw_os_error(-link);
    let (mtu, largest) = (mtu_of(interface).unwrap_or(0), largest_mtu());
    let interface = interface.to_string();
    Err(match source.raw_os_error() {
        // veth looks at its peer's; other drivers have numbers of their own for what is wrong with
        // an MTU.
        Some(libc::ERANGE) => XdpError::LargeFrames { interface, mtu, largest, source },
        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::EMSGSIZE) if mtu > largest => {
            XdpError::LargeFrames { interface, mtu, largest, source }
        }
        Some(libc::EOPNOTSUPP) => XdpError::NoNative { interface, source },
        Some(libc::EBUSY | libc::EEXIST) => {
            XdpError::Busy { interface, id: 0, name: String::new(), pinned: None }
        }
        Some(libc::EINVAL | libc::EMSGSIZE) => XdpError::NoNative { interface, source },
        _ => XdpError::kernel(format!("attach to interface `{interface}`"), source),
    })
}

/// The largest MTU whose frames lie in one page with the headroom in front and the kernel's own
/// data behind.
fn largest_mtu() -> u32 {
    const HEADROOM: u32 = 256;
    /// `struct skb_shared_info`, in whole cache lines.
    const BEHIND: u32 = 320;
    const ETHERNET: u32 = 14;
    // SAFETY: a plain question.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u32::try_from(page).unwrap_or(4096) - HEADROOM - BEHIND - ETHERNET
}

/// Index of an interface of the calling thread's network namespace.
pub fn index_of(interface: &str) -> Result<u32, XdpError> {
    let missing = || XdpError::NoInterface(interface.to_string());
    let name = CString::new(interface).map_err(|_| missing())?;
    // SAFETY: a C string that lives through the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(missing()),
        index => Ok(index),
    }
}

/// Fills a program's port map with the interfaces of the calling thread's network namespace.
pub(crate) fn set_ports(map: BorrowedFd, ifindex: &[u32]) -> Result<(), XdpError> {
    (0u32..).zip(ifindex).try_for_each(|(port, ifindex)| set_port(map, port, *ifindex))
}

/// Gives one port its interface.
pub(crate) fn set_port(map: BorrowedFd, port: u32, ifindex: u32) -> Result<(), XdpError> {
    // SAFETY: the map's keys and values are u32.
    let status = unsafe {
        let (key, value) = ((&raw const port).cast(), (&raw const ifindex).cast());
        libbpf_sys::bpf_map_update_elem(map.as_raw_fd(), key, value, 0)
    };
    if status != 0 {
        let source = io::Error::from_raw_os_error(-status);
        return Err(XdpError::kernel(format!("give port {port} its interface"), source));
    }
    Ok(())
}

/// Id and name (as ` (name)`) of the XDP program an interface runs.
fn attached(ifindex: u32) -> Result<Option<(u32, String)>, XdpError> {
    let mut id = 0;
    // SAFETY: an out parameter that lives through the call.
    let status = unsafe { libbpf_sys::bpf_xdp_query_id(ifindex as i32, 0, &mut id) };
    if status != 0 {
        return Err(XdpError::kernel(
            "ask for an interface's XDP program",
            io::Error::from_raw_os_error(-status),
        ));
    }
    if id == 0 {
        return Ok(None);
    }
    let name = libbpf_rs::Program::fd_from_id(id)
        .ok()
        .and_then(|fd| program_name(fd.as_fd()))
        .unwrap_or_default();
    Ok(Some((id, name)))
}

fn program_name(fd: BorrowedFd) -> Option<String> {
    let info = program_info(fd).ok()?;
    let name: Vec<u8> =
        info.name.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
    (!name.is_empty()).then(|| format!(" ({})", String::from_utf8_lossy(&name)))
}
