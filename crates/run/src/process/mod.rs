//! The host side of a program whose NIC is the kernel's hook: handlers in this process, joined to the kernel's by AF_XDP.
//!
//! One thread receives from every socket and from the ring of events without a packet, puts the events in the order in which they were made
//! ([`merge`]), runs their handlers, and gives on what they lead to: packets leave by the AF_XDP socket of the interface that is the
//! port, events for the NIC side go back over a veth pair of our own, whose program redirects to the CPU of their stage, and everything for the
//! program's user is kept until somebody asks. The pair lies in network namespaces without a name, so nothing of it survives us.
//!
//! **Counting.** A packet that the process took is sent, dropped, given to the user, handed on, or lost, and counted as such; what
//! never got here is counted by the kernel. **Order.** Events run one at a time in the order in which the kernel's side made them.
//! **Back-pressure.** There is none towards the kernel: full queues lose, counted. On the way back the sender waits.

mod merge;
#[cfg(test)]
mod tests;
mod values;
mod worker;
pub mod xsk;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use nicforge_codegen::{XdpArtifact, XdpPipeline};
use nicforge_ir::{Output, Program, TableId, verify};

use crate::host::{HostError, HostProgram, Stepper};
use crate::unix::Event;
use crate::xdp::{StageCount, XdpError};
use values::Edge;
pub use values::Trip;
pub(crate) use worker::{Kernel, Link};

/// Queues of one interface that may have a socket, as `NF_QUEUES` of `runtime/xdp/nf_rt.h`.
pub const QUEUES: u32 = 64;

/// A program's handlers in this process with their tables. The thread ends when this is dropped.
pub struct Process {
    pub(crate) shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the thread and its owner both see.
pub(crate) struct Shared {
    program: Mutex<Owned>,
    pub edges: Vec<Edge>,
    /// Stage of each event that stays in the process, by event number.
    pub local: Vec<Option<usize>>,
    pub pipeline: XdpPipeline,
    pub recorded: bool,
    stop: AtomicBool,
    kept: Mutex<Kept>,
    counts: Mutex<Counts>,
    /// Events of the kernel's side that are done, by their number.
    done: AtomicU64,
    /// The thread has nothing in hand.
    idle: AtomicBool,
    /// Packets that full sockets lost: those of threads that ended, and of the one there is.
    lost: [AtomicU64; 2],
    running: AtomicBool,
    /// Readable when something was kept for the owner.
    pub(crate) news: Event,
}

/// The program, which only one thread at a time uses.
struct Owned(Stepper);

// SAFETY: its pointers lead to memory that it owns, and generated code keeps nothing about threads.
unsafe impl Send for Owned {}

/// What waits for the owner.
#[derive(Default)]
struct Kept {
    outputs: Vec<Output>,
    sent: Vec<VecDeque<Trip>>,
    refusals: Vec<(u32, TableId)>,
    failure: Option<XdpError>,
}

/// What the process counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// By stage of the plan; those of the kernel stay zero.
    pub stages: Vec<StageCount>,
    /// By drop reason of the program, the runtime's own last; by stage.
    pub drops: Vec<Vec<u64>>,
    /// Events without a packet that went back.
    pub values_back: u64,
    /// Packets and events that could not leave: too long for the way, or refused by the interface's queue.
    pub unsent: u64,
    /// Time of the thread, in nanoseconds of its CPU.
    pub busy_ns: u64,
    /// Events that were run, by stage.
    pub runs: Vec<u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    /// Generates, compiles and loads the process's handlers; none if all are the kernel's.
    ///
    /// # Errors
    /// Those of [`HostProgram::build`].
    pub fn build(
        program: &Program,
        artifact: &XdpArtifact,
        recorded: bool,
    ) -> Result<Option<Process>, HostError> {
        let (Some(process), Some(pipeline)) = (&artifact.process, &artifact.pipeline) else {
            return Ok(None);
        };
        let verified = verify(program.clone()).map_err(|errors| HostError::Load {
            reason: format!("internal error: {}", errors.first().map_or(String::new(), ToString::to_string)),
        })?;
        let built = HostProgram::build(&verified)?;
        let stepper = Stepper::new(built, true);
        let edges = process.edges.iter().map(|edge| Edge::new(program, edge)).collect();
        let local = program.events.keys().map(|event| {
            let handler = program.handler_of(event)?;
            process.handlers.iter().find(|(inside, _)| *inside == handler).map(|(_, stage)| *stage)
        });
        let stages = pipeline.stages.len();
        let counts = Counts {
            stages: vec![StageCount::default(); stages],
            drops: vec![vec![0; artifact.reasons.len()]; stages],
            runs: vec![0; stages],
            ..Counts::default()
        };
        let kept = Kept { sent: vec![VecDeque::new(); program.ports as usize], ..Kept::default() };
        let shared = Shared {
            program: Mutex::new(Owned(stepper)),
            edges,
            local: local.collect(),
            pipeline: pipeline.clone(),
            recorded,
            stop: AtomicBool::new(false),
            kept: Mutex::new(kept),
            counts: Mutex::new(counts),
            done: AtomicU64::new(0),
            idle: AtomicBool::new(true),
            lost: [AtomicU64::new(0), AtomicU64::new(0)],
            running: AtomicBool::new(false),
            news: Event::new()
                .map_err(|error| HostError::Load { reason: format!("no descriptor: {error}") })?,
        };
        Ok(Some(Process { shared: Arc::new(shared), thread: Mutex::new(None) }))
    }

    /// Starts the thread.
    pub(crate) fn start(&self, kernel: Kernel) -> Result<(), XdpError> {
        let shared = Arc::clone(&self.shared);
        shared.running.store(true, Ordering::Release);
        let thread = std::thread::Builder::new().name("nicforge-host".to_string());
        let thread = thread
            .spawn(move || worker::run(&shared, kernel))
            .map_err(|error| XdpError::kernel("start a thread", error))?;
        *lock(&self.thread) = Some(thread);
        Ok(())
    }

    /// Number and way of the event that the next frame sent by a port comes from; kept in recorded runs.
    pub(crate) fn next_sent(&self, port: usize) -> Option<(u32, u32)> {
        self.shared.next_sent(port).map(|trip| (trip.number, trip.route))
    }

    /// Ends the thread after what it has in hand; everything it would have got later is lost, counted by the kernel.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = lock(&self.thread).take() {
            // It ends by itself; that it panicked is known by now.
            let _ = thread.join();
        }
        self.shared.stop.store(false, Ordering::Release);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    pub(crate) fn counts(&self) -> Counts {
        lock(&self.counts).clone()
    }

    /// Packets that full sockets lost.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.iter().map(|count| count.load(Ordering::Acquire)).sum()
    }

    /// Whether the first `made` events are done and nothing is in hand. Without a thread nothing will be.
    pub(crate) fn settled(&self, made: u64) -> bool {
        !self.running.load(Ordering::Acquire)
            || self.done.load(Ordering::Acquire) >= made && self.idle.load(Ordering::Acquire)
    }

    /// Everything for the program's user since the last call.
    ///
    /// # Errors
    /// What ended the thread, if anything did.
    pub(crate) fn take_outputs(&self) -> Result<Vec<Output>, XdpError> {
        let mut kept = lock(&self.kept);
        match kept.failure.take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut kept.outputs)),
        }
    }

    fn next_sent(&self, port: usize) -> Option<Trip> {
        lock(&self.kept).sent.get_mut(port)?.pop_front()
    }

    /// Inserts that full tables of the process refused, by number of the event; kept in recorded runs.
    pub(crate) fn take_refusals(&self) -> Vec<(u32, TableId)> {
        std::mem::take(&mut lock(&self.kept).refusals)
    }

    /// Runs `work` on the process's tables between two events.
    pub(crate) fn with_program<T>(&self, work: impl FnOnce(&mut HostProgram) -> T) -> T {
        work(lock(&self.program).0.program())
    }
}
