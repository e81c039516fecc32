//! A server for GDB's remote protocol: cores of a simulated NIC are threads of one program.
//!
//! The protocol is the crate gdbstub's, in a thread of its own. While cores stand, the simulation
//! answers what that thread asks; while they run, it looks at the breakpoints before each
//! instruction of a handler.

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use gdbstub::common::{Signal, Tid};
use gdbstub::conn::{Connection, ConnectionExt};
use gdbstub::stub::run_blocking::{BlockingEventLoop, Event, WaitForStopReasonError};
use gdbstub::stub::{GdbStub, MultiThreadStopReason};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadResume, MultiThreadResumeOps, MultiThreadSchedulerLocking,
    MultiThreadSchedulerLockingOps, MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, SwBreakpoint, SwBreakpointOps,
};
use gdbstub::target::{Target, TargetError, TargetResult};
use gdbstub_arch::riscv::Riscv32;
use gdbstub_arch::riscv::reg::RiscvCoreRegs;
use nicforge_spin::nic::{Cores, Debugger, Halt, PC};

/// Time between two looks for what GDB says while cores run.
const LOOK: Duration = Duration::from_millis(5);

/// A socket where GDB is awaited.
#[derive(Debug)]
pub struct Gdb {
    listener: TcpListener,
    cores: usize,
}

/// GDB's side of a session; ends when the simulation's side is gone and GDB knows.
#[derive(Debug)]
pub struct Session(JoinHandle<()>);

impl Gdb {
    /// A socket of this machine alone, at a port or, for 0, any.
    ///
    /// # Errors
    /// The port is in use.
    pub fn listen(port: u16, cores: usize) -> io::Result<Gdb> {
        Ok(Gdb { listener: TcpListener::bind(("127.0.0.1", port))?, cores })
    }

    /// Address at which GDB finds it.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Waits for GDB, and gives what watches the cores.
    ///
    /// # Errors
    /// There is no connection.
    pub fn accept(self) -> io::Result<(Box<dyn Debugger>, Session)> {
        let (stream, _) = self.listener.accept()?;
        stream.set_nodelay(true)?;
        let (asks, asked) = channel();
        let (answers, answered) = channel();
        let (stops, stopped) = channel();
        let shared = Arc::new(Shared::default());
        let watch = Watch {
            shared: shared.clone(),
            asked,
            answers,
            stops,
            step: None,
            alone: false,
            begun: false,
        };
        let mut stub =
            Stub { cores: self.cores, shared, asks, answered, stopped, step: None, alone: false };
        let session = std::thread::spawn(move || {
            // Whatever ends it, the cores go on without.
            let _ = GdbStub::new(stream).run_blocking::<Loop>(&mut stub);
            stub.shared.gone.store(true, Ordering::Release);
        });
        Ok((Box::new(watch), Session(session)))
    }
}

impl Session {
    /// Waits until GDB knows that the simulation has ended.
    pub fn end(self) {
        let _ = self.0.join();
    }
}

/// State that both sides see.
#[derive(Debug, Default)]
struct Shared {
    breakpoints: Mutex<BTreeSet<u32>>,
    interrupt: AtomicBool,
    gone: AtomicBool,
}

/// A question of GDB, or a command.
#[derive(Debug)]
enum Ask {
    Registers(usize),
    SetRegisters(usize, Vec<u32>),
    Read(usize, u32, usize),
    Write(usize, u32, Vec<u8>),
    /// Cores go on, or only the one that stands at its instruction; `step` by one instruction.
    Resume {
        step: Option<usize>,
        alone: bool,
    },
}

#[derive(Debug)]
enum Answer {
    Registers(Vec<u32>),
    Bytes(Vec<u8>),
    Done(bool),
}

/// The simulation's side.
#[derive(Debug)]
struct Watch {
    shared: Arc<Shared>,
    asked: Receiver<Ask>,
    answers: Sender<Answer>,
    stops: Sender<(usize, Halt)>,
    /// A core that goes on by one instruction, and whether it has.
    step: Option<(usize, bool)>,
    /// Other cores than the one that stood stand still.
    alone: bool,
    /// GDB knows that cores stand before the first instruction.
    begun: bool,
}

impl Debugger for Watch {
    fn stops(&mut self, hpu: usize, pc: u32) -> Option<Halt> {
        if self.shared.gone.load(Ordering::Acquire) {
            return None;
        }
        if !self.begun {
            return Some(Halt::Breakpoint);
        }
        match &mut self.step {
            Some((core, true)) if *core == hpu => return Some(Halt::Step),
            Some((core, done)) if *core == hpu => *done = true,
            _ => {}
        }
        if self.shared.interrupt.swap(false, Ordering::AcqRel) {
            return Some(Halt::Interrupt);
        }
        let breakpoints = self.shared.breakpoints.lock().unwrap_or_else(PoisonError::into_inner);
        breakpoints.contains(&pc).then_some(Halt::Breakpoint)
    }

    fn alone(&self) -> bool {
        self.alone && !self.shared.gone.load(Ordering::Acquire)
    }

    fn halted(&mut self, cores: &mut Cores, hpu: usize, why: Halt) {
        if self.shared.gone.load(Ordering::Acquire) {
            return;
        }
        if std::mem::replace(&mut self.begun, true) && self.stops.send((hpu, why)).is_err() {
            return;
        }
        while let Ok(ask) = self.asked.recv() {
            let answer = match ask {
                Ask::Registers(hpu) => {
                    Answer::Registers((0..=PC).map(|at| cores.register(hpu, at)).collect())
                }
                Ask::SetRegisters(hpu, values) => {
                    (0..=PC).zip(values).for_each(|(at, to)| cores.set_register(hpu, at, to));
                    Answer::Done(true)
                }
                Ask::Read(hpu, address, size) => {
                    let mut bytes = vec![0; size];
                    let there = cores.read(hpu, address, &mut bytes);
                    bytes.truncate(there);
                    Answer::Bytes(bytes)
                }
                Ask::Write(hpu, address, bytes) => Answer::Done(cores.write(hpu, address, &bytes)),
                Ask::Resume { step, alone } => {
                    self.alone = alone;
                    // The core that stands here executes its instruction at once.
                    self.step = step.map(|core| (core, core == hpu));
                    return;
                }
            };
            if self.answers.send(answer).is_err() {
                return;
            }
        }
    }
}

/// GDB's side.
struct Stub {
    cores: usize,
    shared: Arc<Shared>,
    asks: Sender<Ask>,
    answered: Receiver<Answer>,
    stopped: Receiver<(usize, Halt)>,
    step: Option<usize>,
    alone: bool,
}

const OVER: &str = "the simulation is over";
/// `EFAULT`.
const BAD_ADDRESS: u8 = 14;

fn core(tid: Tid) -> usize {
    tid.get() - 1
}

fn thread(core: usize) -> Tid {
    Tid::MIN.saturating_add(core)
}

impl Stub {
    fn ask(&mut self, ask: Ask) -> Result<Answer, TargetError<&'static str>> {
        let over = TargetError::Fatal(OVER);
        match self.asks.send(ask) {
            Ok(()) => self.answered.recv().map_err(|_| over),
            Err(_) => Err(over),
        }
    }
}

impl Target for Stub {
    type Arch = Riscv32;
    type Error = &'static str;

    fn base_ops(&mut self) -> BaseOps<'_, Riscv32, &'static str> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Stub {
    fn read_registers(
        &mut self,
        regs: &mut RiscvCoreRegs<u32>,
        tid: Tid,
    ) -> TargetResult<(), Self> {
        let Answer::Registers(values) = self.ask(Ask::Registers(core(tid)))? else {
            return Err(TargetError::NonFatal);
        };
        for (register, value) in regs.x.iter_mut().chain([&mut regs.pc]).zip(values) {
            *register = value;
        }
        Ok(())
    }

    fn write_registers(&mut self, regs: &RiscvCoreRegs<u32>, tid: Tid) -> TargetResult<(), Self> {
        let values = regs.x.iter().chain([&regs.pc]).copied().collect();
        self.ask(Ask::SetRegisters(core(tid), values)).map(|_| ())
    }

    fn read_addrs(&mut self, start: u32, data: &mut [u8], tid: Tid) -> TargetResult<usize, Self> {
        match self.ask(Ask::Read(core(tid), start, data.len()))? {
            Answer::Bytes(bytes) if !bytes.is_empty() => {
                data[..bytes.len()].copy_from_slice(&bytes);
                Ok(bytes.len())
            }
            _ => Err(TargetError::Errno(BAD_ADDRESS)),
        }
    }

    fn write_addrs(&mut self, start: u32, data: &[u8], tid: Tid) -> TargetResult<(), Self> {
        match self.ask(Ask::Write(core(tid), start, data.to_vec()))? {
            Answer::Done(true) => Ok(()),
            _ => Err(TargetError::Errno(BAD_ADDRESS)),
        }
    }

    fn list_active_threads(&mut self, each: &mut dyn FnMut(Tid)) -> Result<(), &'static str> {
        (0..self.cores).for_each(|core| each(thread(core)));
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadResume for Stub {
    fn resume(&mut self) -> Result<(), &'static str> {
        let resume = Ask::Resume { step: self.step, alone: self.alone };
        self.asks.send(resume).map_err(|_| OVER)
    }

    fn clear_resume_actions(&mut self) -> Result<(), &'static str> {
        (self.step, self.alone) = (None, false);
        Ok(())
    }

    fn set_resume_action_continue(
        &mut self,
        _: Tid,
        _: Option<Signal>,
    ) -> Result<(), &'static str> {
        Ok(())
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSchedulerLocking for Stub {
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), &'static str> {
        self.alone = true;
        Ok(())
    }
}

impl MultiThreadSingleStep for Stub {
    fn set_resume_action_step(&mut self, tid: Tid, _: Option<Signal>) -> Result<(), &'static str> {
        self.step = Some(core(tid));
        Ok(())
    }
}

impl Breakpoints for Stub {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Stub {
    fn add_sw_breakpoint(&mut self, address: u32, _: usize) -> TargetResult<bool, Self> {
        let breakpoints = &self.shared.breakpoints;
        Ok(breakpoints.lock().unwrap_or_else(PoisonError::into_inner).insert(address))
    }

    fn remove_sw_breakpoint(&mut self, address: u32, _: usize) -> TargetResult<bool, Self> {
        let breakpoints = &self.shared.breakpoints;
        Ok(breakpoints.lock().unwrap_or_else(PoisonError::into_inner).remove(&address))
    }
}

/// Events while cores run.
enum Loop {}

impl BlockingEventLoop for Loop {
    type Target = Stub;
    type Connection = TcpStream;
    type StopReason = MultiThreadStopReason<u32>;

    fn wait_for_stop_reason(
        stub: &mut Stub,
        stream: &mut TcpStream,
    ) -> Result<
        Event<MultiThreadStopReason<u32>>,
        WaitForStopReasonError<&'static str, <TcpStream as Connection>::Error>,
    > {
        loop {
            if stream.peek().map_err(WaitForStopReasonError::Connection)?.is_some() {
                let byte = ConnectionExt::read(stream);
                return byte.map(Event::IncomingData).map_err(WaitForStopReasonError::Connection);
            }
            return Ok(Event::TargetStopped(match stub.stopped.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => MultiThreadStopReason::Exited(0),
                Ok((core, Halt::Breakpoint)) => MultiThreadStopReason::SwBreak(thread(core)),
                Ok((core, why)) => {
                    let signal = match why {
                        Halt::Interrupt => Signal::SIGINT,
                        Halt::Trap => Signal::SIGSEGV,
                        Halt::Breakpoint | Halt::Step => Signal::SIGTRAP,
                    };
                    MultiThreadStopReason::SignalWithThread { tid: thread(core), signal }
                }
            }));
        }
    }

    fn on_interrupt(stub: &mut Stub) -> Result<Option<MultiThreadStopReason<u32>>, &'static str> {
        stub.shared.interrupt.store(true, Ordering::Release);
        Ok(None)
    }
}
