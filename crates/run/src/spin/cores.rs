//! What running planned programs on bare RISC-V cores takes, gives and may fail by.

use nicforge_codegen::Unsupported;
use nicforge_ir::{InputEvent, Output};
use nicforge_spin::machine::NotSpin;
use nicforge_spin::nic::NicError;

use super::build::BuildError;
use super::tables::PlaceError;
use crate::dpdk::DpdkRun;
use crate::fault::Fault;

/// The longest frame, or message, that these machines take: their ports' largest frame, which with
/// what comes behind it just fits a slot of FPsPIN's packet memory.
pub const LONGEST: usize = 1514;

/// True if they take an event.
pub fn takes(event: &InputEvent) -> bool {
    event_bytes(event).len() <= LONGEST
}

/// The frame or message of an event.
pub(super) fn event_bytes(event: &InputEvent) -> &[u8] {
    event.input.bytes()
}

/// Why a program cannot be built or run.
#[derive(Debug, thiserror::Error)]
pub enum CoresError {
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Unsupported(Vec<Unsupported>),
    #[error("{0}")]
    Build(#[from] BuildError),
    #[error("the program does not fit {target}: {source}")]
    Place { target: String, source: PlaceError },
    #[error(transparent)]
    Machine(#[from] NotSpin),
    #[error("{0}")]
    Nic(#[from] NicError),
    #[error("{0}")]
    Panic(#[from] nicforge_spin::panic::PanicError),
    #[error("the plan has {wanted} replicas; {target} has {have} message queues, one for each")]
    Queues { target: String, wanted: usize, have: usize },
    #[error("internal error: {0}")]
    Internal(String),
    #[error(
        "event {event}: {bytes} bytes; these cores have room for {LONGEST}, so leave longer frames out"
    )]
    Long { event: usize, bytes: usize },
}

impl CoresError {
    /// The party that has to act.
    pub fn fault(&self) -> Fault {
        match self {
            CoresError::Build(error) => error.fault(),
            _ => Fault::User,
        }
    }
}

/// Results of a run.
#[derive(Clone, Debug, Default)]
pub struct CoresRun {
    pub run: DpdkRun,
    /// In the order in which they ended.
    pub stays: Vec<Stay>,
    /// Frames that no handler saw: the matching engine gave them to the operating system.
    pub unmatched: u64,
    /// Cycle at which all was done.
    pub end: u64,
}

/// A worker's time with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay {
    /// The input event, also where another stage handed it on.
    pub event: usize,
    pub worker: usize,
    /// The machine's, not the plan's.
    pub cycles: u64,
}

impl CoresRun {
    /// Sums stays up in the workers' counters.
    pub(super) fn sum_up(&mut self) {
        for stay in &self.stays {
            if let Some(worker) = self.run.stats.workers.get_mut(stay.worker) {
                worker.cycles += stay.cycles;
            }
        }
    }
}

/// Outputs by event, with their numbers.
pub(super) struct Outputs(Vec<Vec<(u32, Output)>>);

impl Outputs {
    pub fn new(events: usize) -> Outputs {
        Outputs(vec![Vec::new(); events])
    }

    pub fn add(&mut self, event: u32, number: u32, output: Output) -> Result<(), CoresError> {
        let list = self.0.get_mut(event as usize);
        let list = list.ok_or(CoresError::Internal("an output of an unknown event".to_string()))?;
        list.push((number, output));
        Ok(())
    }

    /// In the order in which each event made them.
    pub fn sorted(self) -> Vec<Vec<Output>> {
        let in_order = |mut list: Vec<(u32, Output)>| {
            list.sort_by_key(|(number, _)| *number);
            list.into_iter().map(|(_, output)| output).collect()
        };
        self.0.into_iter().map(in_order).collect()
    }
}
