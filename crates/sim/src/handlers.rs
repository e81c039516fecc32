//! What executes handlers: the seam between the simulator, which knows time, and compiled or
//! interpreted code, which knows results.
//!
//! A handler runs atomically when its event is taken up; what it did is written into a [`Trace`],
//! which the timing model then plays. Packets and events belong to the implementation; the
//! simulator holds numbers of them.

use nicforge_ir::{EventId, HandlerId, InstId, ReasonId, TableId};

/// An event that waits for its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Message(pub u32);

/// Instructions that are all executed if the first one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub handler: HandlerId,
    pub insts: Vec<InstId>,
}

/// One thing a handler did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A line of [`Handlers::lines`] ran.
    Line(u32),
    /// An entry was looked for. `key` is any hash of the key.
    Read { table: TableId, key: u32 },
    /// An entry was written. Without `key` it is the one its table was last asked for.
    Write { table: TableId, key: Option<u32> },
}

/// What left a handler. Lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// An internal event. `steer` is what [`Handlers::steer_by`] asked for; `bytes` the length of
    /// the packet it carries, if it carries one; `zeros` those at the ends of its byte strings,
    /// which do not cross to another device.
    Generate { event: EventId, message: Message, steer: u32, bytes: Option<u32>, zeros: u32 },
    /// The packet was sent.
    Send { port: u32, bytes: u32 },
    /// The packet was given up.
    Drop { reason: ReasonId },
    /// The packet did not fit its buffer with the headers that were put in front.
    NoRoom,
    /// The packet went to the operating system.
    Stack { bytes: u32 },
    /// The packet went to the program's host side.
    Host { bytes: u32 },
    /// A frame made of a table's byte string was sent to a port, or to the host side.
    Made { port: Option<u32>, bytes: u32 },
    /// A message to the host side, or a write by DMA.
    ToHost { bytes: u32 },
}

/// Effects of one run of a handler.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub steps: Vec<Step>,
    pub effects: Vec<Effect>,
}

impl Trace {
    pub fn clear(&mut self) {
        self.steps.clear();
        self.effects.clear();
    }
}

/// Why a handler could not be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HandlerError(pub String);

/// A program that can be run handler by handler.
pub trait Handlers {
    /// Lines that [`Step::Line`] numbers, of the program that is simulated.
    fn lines(&self) -> Vec<Line>;
    /// From now on [`Effect::Generate`] of this event has a hash of this parameter, or its value if
    /// it is a number.
    fn steer_by(&mut self, event: EventId, param: usize, number: bool);
    /// A frame that came in by a port. `time_ns` and `seed` are what its handlers read as time and
    /// random stream.
    fn arrive(&mut self, port: u32, frame: &[u8], time_ns: u64, seed: u64) -> Message;
    /// A tick of a timer, with what its handler reads.
    fn tick(&mut self, timer: EventId, time_ns: u64, seed: u64) -> Message;
    /// Runs the handler of a message, which is then no more, and appends what it did to an empty
    /// trace.
    fn run(&mut self, message: Message, trace: &mut Trace) -> Result<(), HandlerError>;
    /// Forgets a message and its packet: it was lost on its way.
    fn discard(&mut self, message: Message);
}
