//! Names of the kernel's objects in a BPF file system: what has one there outlives the process that
//! made it (bpf(2), BPF_OBJ_PIN).

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libbpf_rs::libbpf_sys;

use super::error::XdpError;

/// Gives a map, program or link a name.
pub(crate) fn pin(fd: BorrowedFd, path: &Path) -> Result<(), XdpError> {
    let what = || format!("pin `{}`", path.display());
    let name = c_path(path).map_err(|error| XdpError::kernel(what(), error))?;
    // SAFETY: a descriptor and a C string that live through the call.
    let status = unsafe { libbpf_sys::bpf_obj_pin(fd.as_raw_fd(), name.as_ptr()) };
    match status {
        0 => Ok(()),
        _ => Err(XdpError::kernel(what(), io::Error::from_raw_os_error(-status))),
    }
}

/// The map, program or link of that name.
pub(crate) fn open_pin(path: &Path) -> Result<OwnedFd, XdpError> {
    let what = || format!("open what is pinned at `{}`", path.display());
    let name = c_path(path).map_err(|error| XdpError::kernel(what(), error))?;
    // SAFETY: a C string that lives through the call.
    let fd = unsafe { libbpf_sys::bpf_obj_get(name.as_ptr()) };
    if fd < 0 {
        return Err(XdpError::kernel(what(), io::Error::from_raw_os_error(-fd)));
    }
    // SAFETY: a new descriptor, owned from here on.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}
