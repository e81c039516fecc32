//! From the engine's stack to a handler's and back: by the handler's request, by a timer, by a
//! fault.
//!
//! A switch saves what a function keeps for its caller on the stack it leaves. A handler that asks
//! for nothing is interrupted by a timer of its thread's processor time: the signal's frame lies on
//! the handler's stack, and the switch out of it is an ordinary one, so the handler goes on where
//! it was when the signal returns, with all registers. Only code of handlers is interrupted so:
//! their requests and the switches themselves lie outside it. A fault goes back to the engine
//! instead, and what it interrupted is given up. Signals that do not come from handlers go where
//! they went before.

use std::arch::naked_asm;
use std::cell::Cell;
use std::ops::Range;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Why the engine runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Back {
    /// The handler has returned.
    Ended,
    /// It asks for what lies at this address.
    Asks(u32),
    /// Its time slice is over; it was at this address.
    Preempted(u32),
    /// It cannot go on.
    Faulted(Trouble),
}

/// A signal that a handler raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub signal: i32,
    pub pc: u32,
    pub address: u64,
    pub write: bool,
}

const ENDED: u64 = 0;
const PREEMPTED: u64 = 1;
const FAULTED: u64 = 2;
const PAGE_FAULT_WRITES: i64 = 2;
/// Processor time of a slice. It is what a handler that waits in a loop costs the others, and far
/// above a signal's cost.
pub const SLICE_NS: i64 = 1_000_000;

// One engine is in a process (`memory`), so one set of these; the signal handler reads them.
static ENGINE: AtomicU64 = AtomicU64::new(0);
static HANDLER: AtomicU64 = AtomicU64::new(0);
static CODE: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
static STACKS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
static TROUBLE: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
static PC: AtomicU64 = AtomicU64::new(0);
static TIMER_SIGNAL: AtomicI32 = AtomicI32::new(0);

/// Leaves this stack, noting it in `save`, for the one at `to`; whoever comes back gives a value.
#[unsafe(naked)]
unsafe extern "sysv64" fn switch(to: u64, save: *mut u64) -> u64 {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rsi], rsp",
        "mov rsp, rdi",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// From a handler to the engine, which gets the argument.
#[unsafe(naked)]
unsafe extern "sysv64" fn gate(value: u64) {
    naked_asm!(
        "push rbp", "push rbx", "push r12", "push r13", "push r14", "push r15",
        "mov rax, rdi",
        "mov [rip + {handler}], rsp",
        "mov rsp, [rip + {engine}]",
        "pop r15", "pop r14", "pop r13", "pop r12", "pop rbx", "pop rbp",
        "ret",
        handler = sym HANDLER,
        engine = sym ENGINE,
    )
}

/// Where a fault goes on, on the engine's stack.
#[unsafe(naked)]
unsafe extern "sysv64" fn give_up() {
    naked_asm!("pop r15", "pop r14", "pop r13", "pop r12", "pop rbx", "pop rbp", "ret",)
}

/// The first thing on a new stack: function in r12, its argument in r13.
#[unsafe(naked)]
unsafe extern "sysv64" fn enter() {
    naked_asm!(
        "cld",
        "mov rdi, r13",
        "call r12",
        "xor edi, edi",
        "call {gate}",
        "ud2",
        gate = sym gate,
    )
}

/// Address of the way from handlers to the engine.
pub fn gate_address() -> u64 {
    gate as *const () as u64
}

/// Prepares a stack that ends below `top` (16 bytes aligned) so that a switch to it calls a
/// function; gives the stack pointer.
///
/// # Safety
/// At least 72 bytes below `top` are mapped and nobody else's.
pub unsafe fn prepare(top: u32, function: u32, argument: u32) -> u64 {
    // As `switch` pops them: r15, r14, r13, r12, rbx, rbp, then where to.
    let words = [0, 0, argument.into(), function.into(), 0, 0, enter as *const () as u64, 0, 0];
    // What `enter` finds is aligned as calls want it.
    let start = u64::from(top) - 72;
    // SAFETY: as the caller says.
    unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), start as *mut u64, 9) };
    start
}

/// Runs a handler until it comes back; `stack` is its stack pointer then.
///
/// # Safety
/// The stack is one of [`prepare`] or one left by this function, with what it needs still mapped,
/// and signals are taken ([`Signals::take`], [`on_this_thread`]).
pub unsafe fn resume(stack: &mut u64) -> Back {
    // SAFETY: as the caller says; the address is valid for a word.
    let value = unsafe { switch(*stack, ENGINE.as_ptr()) };
    *stack = HANDLER.load(Ordering::Relaxed);
    match value {
        ENDED => Back::Ended,
        PREEMPTED => Back::Preempted(PC.load(Ordering::Relaxed) as u32),
        FAULTED => {
            let [signal, pc, address, write] =
                [0, 1, 2, 3].map(|at: usize| TROUBLE[at].load(Ordering::Relaxed));
            Back::Faulted(Trouble {
                signal: signal as i32,
                pc: pc as u32,
                address,
                write: write != 0,
            })
        }
        request => Back::Asks(request as u32),
    }
}

fn within(range: &[AtomicU64; 2], address: u64) -> bool {
    (range[0].load(Ordering::Relaxed)..range[1].load(Ordering::Relaxed)).contains(&address)
}

const FAULTS: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];

/// Where faults went before.
struct Before([libc::sigaction; FAULTS.len()]);

// SAFETY: plain values, written once before anybody reads them.
unsafe impl Sync for Before {}

static BEFORE: std::sync::OnceLock<Before> = std::sync::OnceLock::new();

unsafe extern "C" fn on_signal(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel gives a context to handlers with SA_SIGINFO.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let pc = registers[libc::REG_RIP as usize] as u64;
    let handlers = within(&STACKS, registers[libc::REG_RSP as usize] as u64);
    if signal == TIMER_SIGNAL.load(Ordering::Relaxed) {
        if handlers && within(&CODE, pc) {
            PC.store(pc, Ordering::Relaxed);
            // SAFETY: this runs on the handler's stack, which the engine comes back to.
            unsafe { gate(PREEMPTED) };
        }
        return;
    }
    if handlers {
        // SAFETY: as above.
        let address = unsafe { (*info).si_addr() } as u64;
        let write = registers[libc::REG_ERR as usize] & PAGE_FAULT_WRITES != 0;
        for (place, value) in TROUBLE.iter().zip([signal as u64, pc, address, write.into()]) {
            place.store(value, Ordering::Relaxed);
        }
        registers[libc::REG_RIP as usize] = give_up as *const () as i64;
        registers[libc::REG_RSP as usize] = ENGINE.load(Ordering::Relaxed) as i64;
        registers[libc::REG_RAX as usize] = FAULTED as i64;
        // Direction up and no single steps, as functions expect.
        registers[libc::REG_EFL as usize] &= !0x500;
        return;
    }
    let at = FAULTS.iter().position(|fault| *fault == signal);
    let Some(before) = BEFORE.get().zip(at).map(|(before, at)| before.0[at]) else { return };
    // SAFETY: what was installed is called as its flags say; the default is put back, and the fault
    // happens again.
    unsafe {
        match before.sa_sigaction {
            libc::SIG_DFL | libc::SIG_IGN => {
                libc::sigaction(signal, &raw const before, std::ptr::null_mut());
            }
            function if before.sa_flags & libc::SA_SIGINFO != 0 => {
                type Function = unsafe extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);
                std::mem::transmute::<libc::sighandler_t, Function>(function)(
                    signal, info, context,
                );
            }
            function => {
                std::mem::transmute::<libc::sighandler_t, unsafe extern "C" fn(i32)>(function)(
                    signal,
                );
            }
        }
    }
}

/// Takes signals that handlers raise with code and stacks in these ranges, until dropped.
#[derive(Debug)]
pub struct Signals;

impl Signals {
    pub fn take(code: Range<u64>, stacks: Range<u64>) -> Signals {
        static INSTALL: Once = Once::new();
        INSTALL.call_once(install);
        for (place, range) in [(&CODE, code), (&STACKS, stacks)] {
            place[0].store(range.start, Ordering::Relaxed);
            place[1].store(range.end, Ordering::Relaxed);
        }
        Signals
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for range in [&CODE, &STACKS] {
            range[1].store(0, Ordering::Relaxed);
        }
    }
}

/// Handlers of signals stay once they are there: without an engine they pass everything on.
fn install() {
    let timer = libc::SIGRTMIN() + 9;
    TIMER_SIGNAL.store(timer, Ordering::Relaxed);
    // SAFETY: all-zero is a valid value of the structures, and the functions are given valid ones.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
        // The handler of a fault may have no room on its stack; the timer's frame has to be there.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        let mut before = Before([std::mem::zeroed(); FAULTS.len()]);
        for (signal, before) in FAULTS.iter().zip(&mut before.0) {
            libc::sigaction(*signal, std::ptr::null(), before);
        }
        let _ = BEFORE.set(before);
        for signal in FAULTS {
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_NODEFER;
        libc::sigaction(timer, &raw const action, std::ptr::null_mut());
    }
}

/// What a thread that runs handlers has: the timer, and a stack for signals if it had none.
struct OfThread {
    timer: Option<libc::timer_t>,
    stack: Option<Box<[u8]>>,
}

impl Drop for OfThread {
    fn drop(&mut self) {
        // SAFETY: made by this thread and nobody else's; the stack for signals is not in use where
        // a thread ends.
        unsafe {
            if let Some(timer) = self.timer {
                libc::timer_delete(timer);
            }
            if self.stack.is_some() {
                let mut none: libc::stack_t = std::mem::zeroed();
                none.ss_flags = libc::SS_DISABLE;
                libc::sigaltstack(&raw const none, std::ptr::null_mut());
            }
        }
    }
}

thread_local! {
    static READY: Cell<bool> = const { Cell::new(false) };
    static THREAD: Cell<Option<OfThread>> = const { Cell::new(None) };
}

/// Makes this thread ready to run handlers; cheap when it is. The timer counts time in which the
/// thread runs, so it is silent while the NIC waits. Without one, handlers that wait in loops of
/// their own would not come back, so there is an error.
///
/// # Errors
/// The system gives no timer.
pub fn on_this_thread() -> std::io::Result<()> {
    if READY.get() {
        return Ok(());
    }
    let mut thread = OfThread { timer: None, stack: None };
    // SAFETY: all-zero is a valid value of the structures, and the functions are given valid ones;
    // the stack lives as long as the thread.
    unsafe {
        let mut present: libc::stack_t = std::mem::zeroed();
        libc::sigaltstack(std::ptr::null(), &raw mut present);
        if present.ss_flags & libc::SS_DISABLE != 0 {
            let mut bytes = vec![0u8; 64 << 10].into_boxed_slice();
            present.ss_sp = bytes.as_mut_ptr().cast();
            (present.ss_size, present.ss_flags) = (bytes.len(), 0);
            libc::sigaltstack(&raw const present, std::ptr::null_mut());
            thread.stack = Some(bytes);
        }
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = TIMER_SIGNAL.load(Ordering::Relaxed);
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer: libc::timer_t = std::mem::zeroed();
        if libc::timer_create(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut event, &raw mut timer) < 0 {
            return Err(std::io::Error::last_os_error());
        }
        thread.timer = Some(timer);
        let slice = libc::timespec { tv_sec: 0, tv_nsec: SLICE_NS };
        let times = libc::itimerspec { it_interval: slice, it_value: slice };
        if libc::timer_settime(timer, 0, &raw const times, std::ptr::null_mut()) < 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    THREAD.set(Some(thread));
    READY.set(true);
    Ok(())
}
