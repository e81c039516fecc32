//! What a live run gives back.

use nicforge_ir::{InputEvent, Output, ReasonId, TableId};

use crate::fault::Fault;
use crate::process::Crossed;
use crate::xdp::{Refusal, XdpError};

/// Ports that are counted one by one; packets copied to others are no port's.
const MOST_PORTS: usize = 256;

/// Result of a live run.
#[derive(Clone, Debug)]
pub struct LiveRun {
    /// The events as the program saw them: in record mode with the time and seed it read, so that
    /// the interpreter can replay the run. Shorter than what was given if the run was stopped.
    pub seen: Vec<InputEvent>,
    pub outputs: LiveOutputs,
    /// Inserts that full tables refused, by index of the event; of recorded runs of planned
    /// programs, where it is the target's choice.
    pub refusals: Vec<Refusal>,
    pub report: LiveReport,
}

/// Outputs of a run on a live NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveOutputs {
    /// One event at a time: what each caused, logs, messages and DMA writes before the packet's own
    /// fate. A packet the runtime had to drop because its headers found no room has none.
    PerEvent(Vec<Vec<Output>>),
    /// Many events in flight: streams, each in its order.
    Streams(Streams),
}

/// Outputs by where they came out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// Frames that left by each port.
    pub sent: Vec<Vec<Vec<u8>>>,
    /// Copies of packets that the process sends (`nf_clone`).
    pub copies: Vec<Output>,
    /// Frames for the operating system.
    pub stack: Vec<Vec<u8>>,
    /// Packets and messages for the host side, DMA writes and logs.
    pub host: Vec<Output>,
    /// For each frame in `sent` what it comes from, in recorded runs of planned programs; else
    /// empty lists.
    pub trips: Vec<Vec<Trip>>,
}

/// The origin of a frame that left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trip {
    /// Index of the input event.
    pub event: usize,
    /// Frames with the same number passed the same replicas, so they leave in the order in which
    /// they came.
    pub route: u32,
}

/// Counts of one stage of a planned program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageReport {
    pub name: String,
    pub replicas: u32,
    pub packets_in: u64,
    /// Handed on to a later stage.
    pub handed: u64,
    /// Sent by a port.
    pub sent: u64,
    pub stack: u64,
    /// Ended here: dropped, or given to the host side.
    pub ended: u64,
    /// By reason, those that happened.
    pub drops: Vec<(String, u64)>,
    /// Packets that the full queue in front of it turned away.
    pub turned_away: u64,
    /// Mean time of its program for one packet, as the kernel counts it.
    pub ns_per_packet: f64,
}

/// Numbers of a live run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveReport {
    /// Frames and messages given to the program.
    pub packets_in: u64,
    pub bytes_in: u64,
    pub messages_in: u64,
    /// How often timers fired.
    pub ticks: u64,
    /// Frames that left by each port.
    pub sent: Vec<u64>,
    pub bytes_sent: u64,
    /// Frames for the operating system.
    pub stack: u64,
    pub host_packets: u64,
    pub host_messages: u64,
    pub dma_writes: u64,
    pub logs: u64,
    /// Packets dropped during this run, by reason (none for the runtime's own) and text.
    pub drops: Vec<(Option<ReasonId>, String, u64)>,
    /// Packets that ended without being sent, passed, given to the host or dropped for a reason:
    /// sent by a port that the program does not have, or for the host when its ring was full. 0 in
    /// a run where all is well.
    pub unaccounted: u64,
    /// Stages of a planned program, in order; last what spreads packets over replicas of the first,
    /// if it has several.
    pub stages: Vec<StageReport>,
    /// What went between the kernel and the program's process, if it has one.
    pub crossed: Option<Crossed>,
    /// Inserts that full tables refused during this run.
    pub refused: Vec<(TableId, u64)>,
    /// Wall time from the first event to the last output.
    pub seconds: f64,
    /// True if the run was stopped before its last event.
    pub stopped: bool,
}

impl LiveReport {
    /// Packets per second through the whole test network, which is no measure of the program:
    /// sockets feed it.
    pub fn packets_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.packets_in as f64 / self.seconds } else { 0.0 }
    }

    /// Packets dropped for whatever reason.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(|(_, _, count)| count).sum()
    }

    pub(super) fn count(&mut self, output: &Output) {
        match output {
            Output::Send { port, frame } => {
                // Tables may name ports that the program does not have.
                let port = *port as usize;
                if port < MOST_PORTS {
                    self.sent.resize(self.sent.len().max(port + 1), 0);
                    self.sent[port] += 1;
                }
                self.bytes_sent += frame.len() as u64;
            }
            Output::Stack { .. } => self.stack += 1,
            Output::HostPacket { .. } => self.host_packets += 1,
            Output::HostMessage { .. } => self.host_messages += 1,
            Output::DmaWrite { .. } => self.dma_writes += 1,
            Output::Log { .. } => self.logs += 1,
            // Counted by the program itself, see `drops`.
            Output::Drop { .. } => {}
        }
    }
}

/// Why a live run ended early.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    #[error(transparent)]
    Xdp(#[from] XdpError),
    #[error("event {event} (counted from 1): {source}")]
    Event { event: usize, source: XdpError },
    #[error(
        "packets went missing after event {event}: {detail}; nothing moved for {seconds} s. Run again with less load \
         on this machine or a smaller window; if it stays, the program's verdicts and its counters disagree"
    )]
    Missing { event: usize, detail: String, seconds: f64 },
}

impl LiveError {
    /// The party that has to act.
    pub fn fault(&self) -> Fault {
        match self {
            LiveError::Xdp(error) | LiveError::Event { source: error, .. } => error.fault(),
            LiveError::Missing { .. } => Fault::Environment,
        }
    }
}
