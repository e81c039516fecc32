//! What programs beside a run get from it: Unix sockets, descriptors sent over them, files in
//! memory.

use std::ffi::CStr;
use std::io::Error;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// Why nobody can listen at a path.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: Error },
    #[error("{0} exists and is no socket; name another path")]
    Taken(PathBuf),
    #[error("{0} is the socket of a run that goes on; end it, or name another path")]
    Running(PathBuf),
}

/// Listens at a path without waiting, for programs of this user. A socket that nobody listens to is
/// replaced.
///
/// # Errors
/// The path is taken or cannot be made.
pub fn listen(path: &Path) -> Result<UnixListener, ListenError> {
    let fail = |source| ListenError::Io { path: path.to_path_buf(), source };
    if let Ok(found) = std::fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            return Err(ListenError::Taken(path.to_path_buf()));
        }
        if UnixStream::connect(path).is_ok() {
            return Err(ListenError::Running(path.to_path_buf()));
        }
        std::fs::remove_file(path).map_err(fail)?;
    }
    let listener = UnixListener::bind(path).map_err(fail)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(fail)?;
    listener.set_nonblocking(true).map_err(fail)?;
    Ok(listener)
}

/// Descriptors that [`pass`] sends at once, at most.
pub const MOST_PASSED: usize = 9;

/// Sends bytes with descriptors beside them; gives how many bytes went.
///
/// # Errors
/// Those of `sendmsg`.
pub fn pass(stream: &UnixStream, bytes: &[u8], files: &[&OwnedFd]) -> std::io::Result<usize> {
    assert!(files.len() <= MOST_PASSED, "room for so many descriptors");
    let size = files.len() * size_of::<RawFd>();
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = [0u64; 3 + MOST_PASSED];
    // SAFETY: all-zero is a valid value of the structure.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: the macros compute sizes and addresses within `control`, which is aligned and has
    // room for the descriptors.
    unsafe {
        message.msg_controllen = libc::CMSG_SPACE(size as u32) as usize;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size as u32) as usize;
        for (at, file) in files.iter().enumerate() {
            libc::CMSG_DATA(header).cast::<RawFd>().add(at).write_unaligned(file.as_raw_fd());
        }
    }
    // SAFETY: all that the message points to lives through the call.
    let sent = unsafe { libc::sendmsg(stream.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(Error::last_os_error()) } else { Ok(sent as usize) }
}

/// A descriptor that one thread makes readable for another.
#[derive(Debug)]
pub struct Event(OwnedFd);

impl Event {
    /// Makes one that is not readable.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new() -> std::io::Result<Event> {
        // SAFETY: a count and flags; the result is checked.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and is nobody else's.
        Ok(Event(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Makes it readable.
    pub fn signal(&self) {
        let one = 1u64;
        // SAFETY: eight bytes. It fails only where it is readable anyway.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Makes it not readable.
    pub fn clear(&self) {
        let mut count = 0u64;
        // SAFETY: room for eight bytes. It fails only where it is not readable anyway.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

impl AsRawFd for Event {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// A file in memory, mapped here and by whoever gets its descriptor. Nobody can change its size, so
/// no access to the mapping fails; its bytes may be changed by others at any time.
#[derive(Debug)]
pub struct SharedFile {
    at: NonNull<u8>,
    bytes: usize,
    file: OwnedFd,
}

// SAFETY: the mapping belongs to this structure alone, which only gives its address.
unsafe impl Send for SharedFile {}

impl SharedFile {
    /// Makes a file of zeros.
    ///
    /// # Errors
    /// No memory or no descriptors are left.
    pub fn new(name: &CStr, bytes: usize) -> std::io::Result<SharedFile> {
        // SAFETY: a C string and flags; the result is checked.
        let fd = unsafe {
            libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)
        };
        if fd < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and is nobody else's.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: an open descriptor, a size and flags.
        let sized = unsafe {
            libc::ftruncate(fd, bytes as libc::off_t) == 0
                && libc::fcntl(fd, libc::F_ADD_SEALS, seals) == 0
        };
        if !sized {
            return Err(Error::last_os_error());
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a file of this size.
        let at =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd, 0) };
        match NonNull::new(at.cast::<u8>()) {
            Some(found) if at != libc::MAP_FAILED => Ok(SharedFile { at: found, bytes, file }),
            _ => Err(Error::last_os_error()),
        }
    }

    /// The first byte, as long as this lives.
    pub fn address(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Another descriptor of it.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn file(&self) -> std::io::Result<OwnedFd> {
        self.file.try_clone()
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        // SAFETY: mapped with this size, and nothing points there any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}
