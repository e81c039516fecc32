//! The host side of a program whose NIC is the kernel's hook: handlers in this process, joined to
//! the kernel's by AF_XDP.
//!
//! A thread receives from its sockets and from its ring of events without a packet, puts the events
//! in the order in which they were made ([`merge`]), runs their handlers, and gives on what they
//! lead to: packets leave by the AF_XDP socket of the interface that is the port, events for the
//! NIC side go back over a veth pair of our own, whose program redirects to the CPU of their stage,
//! and everything for the program's user is kept until somebody asks. The pair lies in network
//! namespaces without a name, so nothing of it survives us.
//!
//! There are as many threads as the stage with most replicas has
//! ([`XdpProcess::threads`](nicforge_codegen::XdpProcess)), each with tables of its own: whoever
//! makes an event chooses the thread as it chooses a replica, by the key. A thread that makes one
//! for another hands it over ([`Channel`]); stages of one replica are the first thread's.
//!
//! **Counting.** A packet that the process took is sent, dropped, given to the user, handed on, or
//! lost, and counted as such; what never got here is counted by the kernel. **Order.** Events of a
//! thread run one at a time in the order in which the kernel's side made them. **Back-pressure.**
//! There is none towards the kernel: full queues lose, counted. On the way back the sender waits,
//! and a thread takes nothing in while much of what it handed to others waits.

mod merge;
#[cfg(test)]
mod tests;
mod values;
mod worker;
pub mod xsk;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;

use nicforge_codegen::{XdpArtifact, XdpPipeline};
use nicforge_ir::{
    CommuteOp, Entry, Match, Output, Program, TableBackend, TableError, TableId, Verified, verify,
};

use crate::host::{HostError, HostProgram, Stepper, Watch, fresh_dir};
use crate::shards::{Parts, Place};
use crate::unix::Event;
use crate::xdp::{StageCount, XdpError};
pub(crate) use values::Edge;
pub use values::Trip;
use worker::Arrival;
pub(crate) use worker::{Channel, Kernel, Link};

/// Queues of one interface that may have a socket, as `NF_QUEUES` of `runtime/xdp/nf_rt.h`.
pub const QUEUES: u32 = 64;

/// A program's handlers in this process with their tables. The threads end when this is dropped.
pub struct Process {
    pub(crate) shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<mpsc::Receiver<Arrival>>>>,
}

/// State that the threads and their owner see.
pub(crate) struct Shared {
    pub parts: Vec<Part>,
    program: Verified<Program>,
    /// Tables of which every thread has a part, see
    /// [`XdpProcess::shards`](nicforge_codegen::XdpProcess).
    sharded: Vec<(TableId, Option<CommuteOp>)>,
    /// What those were filled with from outside.
    filled: Mutex<BTreeMap<TableId, BTreeMap<Place, Entry>>>,
    pub edges: Vec<Edge>,
    /// Stage of each event that stays in the process, by event number.
    pub local: Vec<Option<usize>>,
    pub pipeline: XdpPipeline,
    pub recorded: bool,
    stop: AtomicBool,
    kept: Mutex<Kept>,
    /// Events that threads handed to each other and that are not done.
    passing: AtomicU64,
    /// In recorded runs: held while a frame leaves, so that frames leave a port in the order in
    /// which they are kept.
    leaving: Mutex<()>,
    /// Readable when something was kept for the owner.
    pub(crate) news: Event,
}

/// State of one thread.
pub(crate) struct Part {
    program: Mutex<Owned>,
    counts: Mutex<Counts>,
    /// Events of the kernel's side that are done, by their number.
    done: AtomicU64,
    /// The thread has nothing in hand.
    idle: AtomicBool,
    /// Packets that full sockets lost: those of threads that ended, and of the one there is.
    lost: [AtomicU64; 2],
    running: AtomicBool,
    /// Wakes it for what other threads hand to it.
    wake: Event,
}

/// The program, which only one thread at a time uses.
struct Owned(Stepper);

// SAFETY: its pointers lead to memory that it owns, and generated code keeps nothing about threads.
unsafe impl Send for Owned {}

/// Items that wait for the owner.
#[derive(Default)]
struct Kept {
    outputs: Vec<Output>,
    sent: Vec<VecDeque<Trip>>,
    refusals: Vec<(u32, TableId)>,
    failure: Option<XdpError>,
}

/// Events that went to a program's process and came back, and the bytes of their values: not of
/// packets, nor of what tells events apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crossed {
    pub up: (u64, u64),
    pub back: (u64, u64),
}

impl Crossed {
    pub(crate) fn since(self, before: Crossed) -> Crossed {
        let less = |now: (u64, u64), before: (u64, u64)| {
            (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1))
        };
        Crossed { up: less(self.up, before.up), back: less(self.back, before.back) }
    }
}

/// Counts of the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// By stage of the plan; those of the kernel stay zero.
    pub stages: Vec<StageCount>,
    /// By drop reason of the program, the runtime's own last; by stage.
    pub drops: Vec<Vec<u64>>,
    /// Events without a packet that went back.
    pub values_back: u64,
    /// Packets and events that could not leave: too long for the way, or refused by the interface's
    /// queue.
    pub unsent: u64,
    /// Time of the threads, in nanoseconds of their CPUs.
    pub busy_ns: u64,
    /// Events that were run, by stage.
    pub runs: Vec<u64>,
    /// Events that came from the NIC side or another thread, by edge.
    pub arrived: Vec<u64>,
    pub crossed: Crossed,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        for (all, one) in self.stages.iter_mut().zip(&other.stages) {
            all.verdicts.iter_mut().zip(one.verdicts).for_each(|(all, one)| *all += one);
            all.handed += one.handed;
        }
        for (all, one) in self.drops.iter_mut().zip(&other.drops) {
            all.iter_mut().zip(one).for_each(|(all, one)| *all += one);
        }
        self.values_back += other.values_back;
        self.unsent += other.unsent;
        self.busy_ns += other.busy_ns;
        self.runs.iter_mut().zip(&other.runs).for_each(|(all, one)| *all += one);
        self.arrived.iter_mut().zip(&other.arrived).for_each(|(all, one)| *all += one);
        for (all, one) in
            [(&mut self.crossed.up, other.crossed.up), (&mut self.crossed.back, other.crossed.back)]
        {
            *all = (all.0 + one.0, all.1 + one.1);
        }
    }
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
            reason: format!(
                "internal error: {}",
                errors.first().map_or(String::new(), ToString::to_string)
            ),
        })?;
        // Compiled once, with the code in memory once, and tables for every thread.
        let dir = fresh_dir()?;
        let object = dir.path().join("program.so");
        HostProgram::compile(&verified, Watch::Nothing, &object)?;
        let programs = (0..process.threads.max(1)).map(|_| HostProgram::open(&verified, &object));
        let programs = programs.collect::<Result<Vec<_>, _>>()?;
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
            arrived: vec![0; process.edges.len()],
            ..Counts::default()
        };
        let part = |built| -> std::io::Result<Part> {
            Ok(Part {
                program: Mutex::new(Owned(Stepper::new(built, true))),
                counts: Mutex::new(counts.clone()),
                done: AtomicU64::new(0),
                idle: AtomicBool::new(true),
                lost: [AtomicU64::new(0), AtomicU64::new(0)],
                running: AtomicBool::new(false),
                wake: Event::new()?,
            })
        };
        let no_descriptor = |error| HostError::Load { reason: format!("no descriptor: {error}") };
        let parts =
            programs.into_iter().map(part).collect::<Result<Vec<_>, _>>().map_err(no_descriptor)?;
        let kept = Kept { sent: vec![VecDeque::new(); program.ports as usize], ..Kept::default() };
        let shared = Shared {
            parts,
            program: verified,
            sharded: process.shards.clone(),
            filled: Mutex::default(),
            edges,
            local: local.collect(),
            pipeline: pipeline.clone(),
            recorded,
            stop: AtomicBool::new(false),
            kept: Mutex::new(kept),
            passing: AtomicU64::new(0),
            leaving: Mutex::new(()),
            news: Event::new().map_err(no_descriptor)?,
        };
        Ok(Some(Process { shared: Arc::new(shared), threads: Mutex::default() }))
    }

    /// Starts the threads, each with its way to the kernel.
    pub(crate) fn start(&self, kernels: Vec<Kernel>) -> Result<(), XdpError> {
        self.shared.stop.store(false, Ordering::Release);
        let (senders, receivers): (Vec<_>, Vec<_>) =
            kernels.iter().map(|_| mpsc::channel()).unzip();
        for (at, (kernel, from_others)) in kernels.into_iter().zip(receivers).enumerate() {
            let (shared, to_others) = (Arc::clone(&self.shared), senders.clone());
            shared.parts[at].running.store(true, Ordering::Release);
            let thread = std::thread::Builder::new().name(format!("nicforge-host-{at}"));
            let channel = Channel { to_others, from_others };
            let started = thread.spawn(move || worker::run(&shared, at, kernel, channel));
            match started {
                Ok(thread) => lock(&self.threads).push(thread),
                Err(error) => {
                    self.shared.parts[at].running.store(false, Ordering::Release);
                    self.stop();
                    return Err(XdpError::kernel("start a thread", error));
                }
            }
        }
        Ok(())
    }

    /// Number and way of the event that the next frame sent by a port comes from; kept in recorded
    /// runs.
    pub(crate) fn next_sent(&self, port: usize) -> Option<(u32, u32)> {
        self.shared.next_sent(port).map(|trip| (trip.number, trip.route))
    }

    /// Ends the threads after what they have in hand; everything they would have got later is lost,
    /// counted by the kernel, and what they had handed to each other as what could not leave.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        let ended: Vec<_> = lock(&self.threads)
            .drain(..)
            // They end by themselves; that one panicked is known by now.
            .filter_map(|thread| thread.join().ok())
            .collect();
        let left: usize = ended.iter().map(|waiting| waiting.try_iter().count()).sum();
        lock(&self.shared.parts[0].counts).unsent += left as u64;
        self.shared.passing.store(0, Ordering::Release);
        self.shared.stop.store(false, Ordering::Release);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    /// Of all threads together.
    pub(crate) fn counts(&self) -> Counts {
        let mut all = lock(&self.parts[0].counts).clone();
        self.parts[1..].iter().for_each(|part| all.add(&lock(&part.counts)));
        all
    }

    /// Packets that full sockets lost.
    pub(crate) fn lost(&self) -> u64 {
        self.parts
            .iter()
            .flat_map(|part| &part.lost)
            .map(|count| count.load(Ordering::Acquire))
            .sum()
    }

    /// True if the first `made` events of each thread are done and nothing is in hand. Without
    /// threads nothing will be.
    pub(crate) fn settled(&self, made: &[u64]) -> bool {
        let done = |(part, made): (&Part, &u64)| {
            !part.running.load(Ordering::Acquire)
                || part.done.load(Ordering::Acquire) >= *made && part.idle.load(Ordering::Acquire)
        };
        self.parts.iter().zip(made).all(done) && self.passing.load(Ordering::Acquire) == 0
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

    /// Inserts that full tables of the process refused, by number of the event; kept in recorded
    /// runs.
    pub(crate) fn take_refusals(&self) -> Vec<(u32, TableId)> {
        std::mem::take(&mut lock(&self.kept).refusals)
    }

    /// Runs `work` on a thread's tables between two events.
    pub(crate) fn with_program<T>(
        &self,
        part: usize,
        work: impl FnOnce(&mut HostProgram) -> T,
    ) -> T {
        work(lock(&self.parts[part].program).0.program())
    }

    /// Inserts that a table's parts refused so far.
    pub(crate) fn refused(&self, table: TableId) -> u64 {
        (0..self.parts.len())
            .map(|part| self.with_program(part, |program| program.refused(table)))
            .sum()
    }
}

/// Tables as if there were one of each. What is set is set in every part; a part that changes an
/// entry has it from then on.
impl Shared {
    pub(crate) fn get(
        &self,
        table: TableId,
        key: &[u8],
        matching: &Match,
    ) -> Result<Option<Entry>, TableError> {
        let of =
            |part| self.with_program(part, |program| program.tables().get(table, key, matching));
        let Some(parts) = self.parts_of(table) else { return of(0) };
        let found = (0..self.parts.len()).map(of).collect::<Result<Vec<_>, _>>()?;
        let is_array = self.program.tables[table].kind == nicforge_ir::TableKind::Array;
        let any = found[0].clone().filter(|_| is_array);
        let filled = lock(&self.filled);
        let filled = filled.get(&table).cloned().unwrap_or_default();
        Ok(parts.merged(&filled, found.into_iter().flatten()).into_iter().next().or(any))
    }

    pub(crate) fn set(&self, table: TableId, entry: &Entry) -> Result<(), TableError> {
        for part in 0..self.parts.len() {
            self.with_program(part, |program| program.tables_mut().set(table, entry))?;
        }
        if self.parts_of(table).is_some() {
            let place = (entry.key.clone(), entry.matching.clone());
            lock(&self.filled).entry(table).or_default().insert(place, entry.clone());
        }
        Ok(())
    }

    pub(crate) fn delete(
        &self,
        table: TableId,
        key: &[u8],
        matching: &Match,
    ) -> Result<bool, TableError> {
        let mut was = false;
        for part in 0..self.parts.len() {
            was |= self
                .with_program(part, |program| program.tables_mut().delete(table, key, matching))?;
        }
        if let Some(filled) = lock(&self.filled).get_mut(&table) {
            filled.remove(&(key.to_vec(), matching.clone()));
        }
        Ok(was)
    }

    pub(crate) fn dump(&self, table: TableId) -> Result<Vec<Entry>, TableError> {
        let of = |part| self.with_program(part, |program| program.tables().dump(table));
        let Some(parts) = self.parts_of(table) else { return of(0) };
        let found = (0..self.parts.len()).map(of).collect::<Result<Vec<_>, _>>()?;
        let filled = lock(&self.filled);
        Ok(parts
            .merged(filled.get(&table).unwrap_or(&BTreeMap::new()), found.into_iter().flatten()))
    }

    /// The parts of a table, if every thread has one.
    fn parts_of(&self, table: TableId) -> Option<Parts<'_>> {
        let (_, commutes) = self.sharded.iter().find(|(sharded, _)| *sharded == table)?;
        Some(Parts { program: &self.program, table, owners: self.parts.len(), commutes: *commutes })
    }
}
