//! What comes out of a NIC: frames, writes to the host, text, and what happened when.

use nicforge_isa::rv32::Trap;

use super::driver::Failure;
use crate::messages::Handler;

/// Something that left the NIC, or became known. Times are cycles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Out {
    /// A frame is on the line, whole.
    Sent {
        time: u64,
        hpu: usize,
        frame: Vec<u8>,
    },
    /// No rule wants the frame: it is the host's.
    ToHost {
        time: u64,
        user: u64,
        frame: Vec<u8>,
    },
    /// Bytes have arrived in the host's memory.
    HostWritten {
        time: u64,
        context: usize,
        address: u64,
        bytes: u32,
    },
    /// A handler has ended.
    Handler(Record),
    /// A packet's memory is free.
    Feedback {
        user: u64,
        context: usize,
        message: u32,
        bytes: u32,
        times: Times,
    },
    Fault(Fault),
    /// Output of handlers, by line.
    Stdout {
        time: u64,
        hpu: usize,
        text: String,
    },
    Dropped {
        time: u64,
        user: u64,
        why: Dropped,
    },
    /// A message without an end was given up.
    Abandoned {
        time: u64,
        context: usize,
        message: u32,
    },
}

/// When a packet, or a task, was where; zero where it was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Given to the NIC.
    pub arrived: u64,
    /// Its first beat is written to packet memory.
    pub written: u64,
    /// Its task is described (HER).
    pub described: u64,
    /// The copy into the cluster starts.
    pub copied: u64,
    /// The handler starts.
    pub started: u64,
    /// The handler rings the doorbell.
    pub ended: u64,
    /// The NIC hears of it.
    pub feedback: u64,
}

/// A handler that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub context: usize,
    pub message: u32,
    pub handler: Handler,
    pub hpu: usize,
    pub user: u64,
    pub bytes: u32,
    pub instructions: u64,
    pub times: Times,
    pub failed: bool,
}

/// A handler, or a command of one, that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub time: u64,
    pub hpu: usize,
    pub context: usize,
    pub message: u32,
    pub handler: Handler,
    pub cause: FaultCause,
    /// Address of the instruction.
    pub pc: u32,
    /// Function and offset, where the image has symbols: `ping_ph+0x12`.
    pub symbol: Option<String>,
    /// Line of the user's source, where somebody has looked it up: `ping.c:12`.
    pub line: Option<String>,
}

impl Fault {
    /// Where it happened, as people look for it: the line, or else the address.
    pub fn place(&self) -> String {
        let at = self.line.clone().unwrap_or_else(|| format!("pc {:#010x}", self.pc));
        match &self.symbol {
            Some(symbol) => format!("{at} ({symbol})"),
            None => at,
        }
    }

    /// True if two are one mistake: the same kind of handler fails at the same place for the same
    /// reason.
    pub fn is_like(&self, other: &Fault) -> bool {
        let reason = |fault: &Fault| match fault.cause {
            FaultCause::Handler(Failure::Trap(Trap { cause, reason, .. })) => Some((cause, reason)),
            _ => None,
        };
        let kind = |fault: &Fault| match &fault.cause {
            FaultCause::Handler(failure) => (0, std::mem::discriminant(failure), None),
            FaultCause::Command(refused) => {
                (1, std::mem::discriminant(&Failure::Exit), Some(std::mem::discriminant(refused)))
            }
        };
        let at = match (&self.line, &other.line) {
            (Some(line), Some(others)) => line == others,
            _ => self.pc == other.pc,
        };
        at && self.handler == other.handler
            && kind(self) == kind(other)
            && reason(self) == reason(other)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultCause {
    Handler(Failure),
    /// A command was refused; the handler goes on.
    Command(CommandRefused),
}

/// Why a command is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandRefused {
    #[error("{bytes} bytes at {address:#010x}: {reason}")]
    Memory { address: u32, bytes: u32, reason: &'static str },
    #[error(
        "the packet at {address:#010x} is free, its handlers have ended; send before the last of them ends"
    )]
    Freed { address: u32 },
    #[error("{bytes} bytes at host address {address:#x} are not in the context's host memory")]
    Host { address: u64, bytes: u32 },
    #[error("a frame of {bytes} bytes; the longest that can be sent has {most}")]
    TooLong { bytes: u32, most: u32 },
    #[error("no command has the kind {info:#x}; there are host DMA 0, send 2 and host write 4")]
    Unknown { info: u32 },
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "cycle {}: {} of context {}, message {:#x}, HPU {}, pc {:#010x}",
            self.time,
            self.handler.name(),
            self.context,
            self.message,
            self.hpu,
            self.pc
        )?;
        match (&self.symbol, &self.line) {
            (Some(symbol), Some(line)) => write!(f, " ({symbol}, {line})")?,
            (Some(only), None) | (None, Some(only)) => write!(f, " ({only})")?,
            (None, None) => {}
        }
        write!(f, ": {}", self.cause)
    }
}

impl std::fmt::Display for FaultCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FaultCause::Handler(Failure::Trap(Trap { value, reason, cause, .. })) => {
                write!(f, "{cause:?} at {value:#x}: {reason}; the handler was ended")
            }
            FaultCause::Handler(Failure::Watchdog(limit)) => {
                write!(
                    f,
                    "still running after {limit} cycles; it was ended (raise the context's watchdog if it needs more)"
                )
            }
            FaultCause::Handler(Failure::Reported(code)) => {
                write!(f, "its runtime reported error {code:#x}; the handler was ended")
            }
            FaultCause::Handler(Failure::Exit) => {
                write!(
                    f,
                    "it asked for the program's end, as failed assertions do; the handler was ended"
                )
            }
            FaultCause::Handler(Failure::Late { milliseconds }) => {
                write!(
                    f,
                    "still running after {milliseconds} ms; it was ended (raise the context's watchdog if it needs more)"
                )
            }
            FaultCause::Handler(Failure::Refused { address, reason, .. }) => {
                write!(f, "at {address:#x}: {reason}; the handler was ended")
            }
            FaultCause::Command(refused) => {
                write!(f, "command refused, the handler goes on: {refused}")
            }
        }
    }
}

/// Why a packet did not get to handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Dropped {
    #[error("packet memory is full: handlers are slower than packets arrive")]
    PacketMemory,
    #[error("longer than packet memory holds in one piece")]
    TooLong,
    #[error("all cells for waiting packets are taken")]
    NoCell,
    #[error("all message queues are in use")]
    NoQueue,
    #[error("its execution context is not set up")]
    NoContext,
}

/// Counts since the NIC was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Frames given to the NIC, and their bytes.
    pub frames: u64,
    pub frame_bytes: u64,
    /// Of those: for handlers, for the host, dropped; the rest is under way.
    pub matched: u64,
    pub to_host: u64,
    pub dropped: [u64; 5],
    /// Packets whose memory was freed.
    pub feedback: u64,
    pub feedback_bytes: u64,
    pub handlers: u64,
    /// Handlers that were ended: traps, watchdog, reported errors, exits.
    pub faults: [u64; 4],
    /// Faults inside trap handlers and between handlers, after which a unit starts afresh.
    pub restarts: u64,
    pub commands: u64,
    pub commands_refused: u64,
    pub sends_after_free: u64,
    /// Times a unit had to wait for a command of its own before it could give another.
    pub stalls: u64,
    pub sent: u64,
    pub sent_bytes: u64,
    pub host_written_bytes: u64,
    pub host_read_bytes: u64,
    pub copies: u64,
    /// Frames that waited because packet memory, cells or queues were full.
    pub held_up: u64,
    /// Most bytes of packet memory in use at any time.
    pub packet_memory_most: u32,
    /// Cycles in handlers and instructions, by unit.
    pub busy: Vec<u64>,
    pub instructions: Vec<u64>,
    pub cache_misses: u64,
}

impl Stats {
    pub(crate) fn drop_counted(&mut self, why: Dropped) {
        self.dropped[why as usize] += 1;
    }

    /// Packets dropped for one reason.
    pub fn dropped_for(&self, why: Dropped) -> u64 {
        self.dropped[why as usize]
    }
}
