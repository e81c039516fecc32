//! Objects and the kernel: opening, loading, what a refusal means, what the kernel knows.

use std::cell::RefCell;
use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

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
    // Members of maps that libbpf does not know are other loaders'.
    ObjectBuilder::default().relaxed_maps(true).open_memory(bytes).map_err(|error| {
        let said = MESSAGES.with_borrow(|all| all.clone());
        let said = said.trim().trim_start_matches("libbpf: ");
        XdpError::Contract(if said.is_empty() { error.to_string() } else { said.to_string() })
    })
}

/// Outcome of loading.
enum Verdict {
    /// With libbpf's status and messages.
    Answered(c_int, String),
    /// The kernel faulted and ended the thread that asked.
    Faulted,
}

/// `bpf_object__load` in a thread of its own. A fault of the kernel ends the thread that is in it,
/// without a word to the others, which would wait for ever (Linux 6.18.44: `maybe_fork_scalars`,
/// where a program has too many jumps). What libbpf holds of the object is lost then.
fn bpf_object_load(object: NonNull<libbpf_sys::bpf_object>) -> Verdict {
    let answer = apart(|| {
        MESSAGES.with_borrow_mut(String::clear);
        // SAFETY: the object is open, and nobody else uses it while we wait.
        let status = unsafe { libbpf_sys::bpf_object__load(object.as_ptr()) };
        (status, MESSAGES.with_borrow(|all| all.clone()))
    });
    answer.map_or(Verdict::Faulted, |(status, messages)| Verdict::Answered(status, messages))
}

/// Does `work` in a thread of its own and waits for it; nothing if the thread ended before. (A
/// thread of the standard library does not tell.)
fn apart<R>(work: impl FnOnce() -> R) -> Option<R> {
    struct Call<W, R> {
        work: Option<W>,
        result: Option<R>,
    }
    extern "C" fn start<W: FnOnce() -> R, R>(call: *mut c_void) -> *mut c_void {
        // SAFETY: the thread that made the call waits until this one has ended.
        let call = unsafe { &mut *call.cast::<Call<W, R>>() };
        call.result = call.work.take().map(|work| work());
        std::ptr::null_mut()
    }
    fn call<W: FnOnce() -> R, R>(call: &mut Call<W, R>) {
        let mut thread = 0;
        // SAFETY: what `start` gets lives until the thread has ended, and is used by it alone.
        unsafe {
            let made = libc::pthread_create(
                &raw mut thread,
                std::ptr::null(),
                start::<W, R>,
                std::ptr::from_mut(call).cast(),
            );
            if made == 0 {
                libc::pthread_join(thread, std::ptr::null_mut());
            } else {
                call.result = call.work.take().map(|work| work());
            }
        }
    }
    let mut one = Call { work: Some(work), result: None };
    call(&mut one);
    one.result
}

/// Loads an opened object and explains a refusal.
pub(crate) fn load(open: OpenObject) -> Result<Object, XdpError> {
    let object = open.take_ptr();
    let (status, messages) = match bpf_object_load(object) {
        // SAFETY: the object is loaded now, and still ours alone.
        Verdict::Answered(0, _) => return Ok(unsafe { Object::from_ptr(object) }),
        Verdict::Answered(status, messages) => (status, messages),
        Verdict::Faulted => {
            let why = "the verifier of this kernel faults (dmesg), perhaps since the program is \
                       too complex";
            // SAFETY: the name is the object's, which nobody frees any more.
            let name = unsafe { CStr::from_ptr(libbpf_sys::bpf_object__name(object.as_ptr())) };
            return Err(refused(&name.to_string_lossy(), why));
        }
    };
    // SAFETY: ours alone and used no more.
    unsafe { libbpf_sys::bpf_object__close(object.as_ptr()) };
    Err(explain(io::Error::from_raw_os_error(-status), &messages))
}

/// True if the kernel takes the programs of an object as they are. Also true where it cannot be
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
    match bpf_object_load(object) {
        Verdict::Faulted => false,
        Verdict::Answered(status, messages) => {
            // SAFETY: `take_ptr` gave us the only reference to it.
            unsafe { libbpf_sys::bpf_object__close(object.as_ptr()) };
            status == 0 || !messages.lines().any(|line| line.starts_with("processed "))
        }
    }
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

/// A refusal of the verifier, with its log.
fn refused(program: &str, log: &str) -> XdpError {
    verifier::refused(program, log).unwrap_or_else(|source| XdpError::Kernel {
        what: "keep the verifier's log".to_string(),
        source,
    })
}

/// The meaning of a failed load, from the error number and libbpf's messages.
fn explain(error: io::Error, messages: &str) -> XdpError {
    if let Some(log) = verifier::log_of(messages) {
        return refused(verifier::program_of(messages).unwrap_or("?"), log);
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

/// The kernel's information about a program.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_ended_is_not_waited_for() {
        assert_eq!(apart(|| 7), Some(7));
        // SAFETY: ends this thread as a fault of the kernel does; it holds nothing.
        let ended = apart(|| unsafe { libc::syscall(libc::SYS_exit, 0) });
        assert_eq!(ended, None);
    }
}
