//! Objects and the kernel: opening, loading, what a refusal means, what the kernel knows.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_rs::{
    AsRawLibbpf, Object, ObjectBuilder, OpenObject, PrintLevel, libbpf_sys, set_print,
};

use super::error::XdpError;
use super::verifier;

thread_local! {
    /// What libbpf said while it worked for this thread.
    static MESSAGES: RefCell<String> = const { RefCell::new(String::new()) };
}

fn collect(_: PrintLevel, message: String) {
    MESSAGES.with_borrow_mut(|all| all.push_str(&message));
}

/// Opens an object without libbpf printing anything.
pub(crate) fn open(bytes: &[u8]) -> Result<OpenObject, XdpError> {
    set_print(Some((PrintLevel::Info, collect)));
    MESSAGES.with_borrow_mut(String::clear);
    ObjectBuilder::default().open_memory(bytes).map_err(|error| {
        let said = MESSAGES.with_borrow(|all| all.clone());
        let said = said.trim().trim_start_matches("libbpf: ");
        XdpError::Contract(if said.is_empty() { error.to_string() } else { said.to_string() })
    })
}

/// Loads an opened object and explains a refusal.
pub(crate) fn load(open: OpenObject) -> Result<Object, XdpError> {
    MESSAGES.with_borrow_mut(String::clear);
    let object = open.take_ptr();
    // SAFETY: `take_ptr` gave us the only reference to an opened object.
    let status = unsafe { libbpf_sys::bpf_object__load(object.as_ptr()) };
    if status == 0 {
        // SAFETY: the object is loaded now, and still ours alone.
        return Ok(unsafe { Object::from_ptr(object) });
    }
    // SAFETY: ours alone and used no more.
    unsafe { libbpf_sys::bpf_object__close(object.as_ptr()) };
    let messages = MESSAGES.with_borrow(|all| all.clone());
    Err(explain(io::Error::from_raw_os_error(-status), &messages))
}

/// Whether the kernel takes the programs of an object as they are. Also true where it cannot be
/// asked.
pub(crate) fn takes(object: &[u8]) -> bool {
    /// Only how much the verifier did: its whole walk takes seconds to write down.
    const STATISTICS: u32 = 4;
    let Ok(mut opened) = open(object) else { return true };
    for program in opened.progs_mut() {
        // SAFETY: the program is of an object that is open, and ours alone.
        unsafe {
            libbpf_sys::bpf_program__set_log_level(program.as_libbpf_object().as_ptr(), STATISTICS)
        };
    }
    let object = opened.take_ptr();
    // SAFETY: `take_ptr` gave us the only reference to an opened object, which is used no more
    // after it is closed.
    let status = unsafe {
        let status = libbpf_sys::bpf_object__load(object.as_ptr());
        libbpf_sys::bpf_object__close(object.as_ptr());
        status
    };
    status == 0
        || !MESSAGES.with_borrow(|all| all.lines().any(|line| line.starts_with("processed ")))
}

/// What the kernel's verifier has against an object, if anything; its log is not kept. None where
/// it cannot be asked.
pub fn refusal(object: &[u8]) -> Option<XdpError> {
    let refused =
        open(object).and_then(load).err().filter(|error| matches!(error, XdpError::Refused { .. }));
    if let Some(XdpError::Refused { log_path, .. }) = &refused
        && let Some(folder) = log_path.parent()
    {
        let _ = std::fs::remove_dir_all(folder);
    }
    refused
}

/// What a failed load means, from the error number and libbpf's messages.
fn explain(error: io::Error, messages: &str) -> XdpError {
    if let Some(log) = verifier::log_of(messages) {
        let program = verifier::program_of(messages).unwrap_or("?");
        return verifier::refused(program, log).unwrap_or_else(|source| XdpError::Kernel {
            what: "keep the verifier's log".to_string(),
            source,
        });
    }
    if error.raw_os_error() == Some(libc::EPERM) {
        return XdpError::Privilege { what: "load BPF programs".to_string() };
    }
    let map = messages.split("failed to create map").nth(1).or(messages.split("map '").nth(1));
    if let (Some(libc::EINVAL), Some(map)) = (error.raw_os_error(), map) {
        let name =
            map.trim_start_matches([':', ' ', '\'']).split(['\'', ':']).next().unwrap_or("?");
        return XdpError::Feature {
            what: format!("the kind of BPF map that `{name}` is, or takes it only smaller"),
            how: "use Linux 5.15 or newer, or a smaller table".to_string(),
        };
    }
    let said = messages.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("");
    XdpError::kernel(format!("load the program ({})", said.trim_start_matches("libbpf: ")), error)
}

/// What the kernel knows about a program.
pub(super) fn program_info(fd: BorrowedFd) -> Result<libbpf_sys::bpf_prog_info, XdpError> {
    // SAFETY: all-zero is the defined initial state of the structure.
    let mut info: libbpf_sys::bpf_prog_info = unsafe { std::mem::zeroed() };
    let mut size = size_of_val(&info) as u32;
    // SAFETY: the kernel writes at most `size` bytes.
    let status = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(fd.as_raw_fd(), (&raw mut info).cast(), &mut size)
    };
    if status != 0 {
        return Err(XdpError::kernel(
            "ask about a BPF program",
            io::Error::from_raw_os_error(-status),
        ));
    }
    Ok(info)
}
