//! What this process may do, as far as running programs is concerned.
//!
//! Loading and attaching takes CAP_BPF, CAP_PERFMON (programs compare pointers) and CAP_NET_ADMIN;
//! namespaces and packet sockets of captures take CAP_SYS_ADMIN and CAP_NET_RAW, and so does
//! counting time. A long run needs the first three only, so it gives the others up.

use std::io;

/// Capabilities that replacing a running program and changing its tables take: CAP_NET_ADMIN,
/// CAP_PERFMON, CAP_BPF.
const NEEDED: [u32; 3] = [12, 38, 39];
/// CAP_DAC_READ_SEARCH: under `sudo` the program's source is somebody else's file, and is read
/// again when it changes.
const READ_FILES: u32 = 2;
/// CAP_DAC_OVERRIDE: a socket in somebody else's folder is removed at the end.
const CHANGE_FILES: u32 = 1;
/// The highest number that may be asked about.
const LAST: u32 = 63;

const VERSION_3: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

/// Of 32 capabilities.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Gives up what a running program does not need, for this thread, those it starts and the commands
/// it runs. What the process does not have it does not get. `files` is whether it must remove a
/// file in a folder of somebody else.
///
/// # Errors
/// The kernel's, which has no reason to refuse.
pub fn give_up(files: bool) -> io::Result<()> {
    let mut keep: u64 = NEEDED.iter().chain([&READ_FILES]).map(|number| 1u64 << number).sum();
    if files {
        keep |= 1 << CHANGE_FILES;
    }
    for number in (0..=LAST).filter(|number| keep & (1 << number) == 0) {
        // SAFETY: plain numbers. Who may not change the bounding set runs no commands with more
        // than it has either.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number as libc::c_ulong, 0, 0, 0) };
    }
    let mut sets = [Sets::default(); 2];
    let mut header = Header { version: VERSION_3, pid: 0 };
    // SAFETY: a header and room for two sets, as version 3 has them.
    if unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    for (at, set) in sets.iter_mut().enumerate() {
        let mask = (keep >> (32 * at)) as u32;
        set.effective &= mask;
        set.permitted &= mask;
        set.inheritable &= mask;
    }
    // SAFETY: as above; the kernel only reads.
    match unsafe { libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
