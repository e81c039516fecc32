//! Running a program one handler at a time, for those who decide themselves when an internal event
//! arrives.

use super::exec::Exec;
use super::{Interp, InterpError, Packet, Tracer, Val};
use crate::io::Output;
use crate::program::EventId;
use crate::types::Type;

/// An event that waits for its handler, with the packets it carries.
#[derive(Clone, Debug)]
pub struct Pending {
    pub event: EventId,
    /// Packets are numbered by their place in `packets`.
    pub args: Vec<Val>,
    pub packets: Vec<Packet>,
    /// Numbers that the event from outside has drawn from its random stream so far.
    pub drawn: u64,
}

/// Effects of one handler.
#[derive(Clone, Debug, Default)]
pub struct Stepped {
    pub outputs: Vec<Output>,
    /// Internal events, in the order they were generated.
    pub generated: Vec<Pending>,
}

impl Pending {
    /// A frame that came in by a port.
    pub fn frame(event: EventId, frame: Vec<u8>, port: u32) -> Pending {
        Pending {
            event,
            args: vec![Val::Packet(0)],
            packets: vec![Packet::new(frame, port)],
            drawn: 0,
        }
    }
}

impl Interp<'_> {
    /// Runs the handler of one event, and no other; an event without a handler does nothing.
    /// `time_ns` and `seed` are those of the event from outside.
    pub fn step<T: Tracer + ?Sized>(
        &mut self,
        pending: Pending,
        time_ns: u64,
        seed: u64,
        tracer: &mut T,
    ) -> Result<Stepped, InterpError> {
        self.state.evictions.clear();
        self.state.growth = 0;
        let Some(handler) = self.program.handler_of(pending.event) else {
            return Ok(Stepped::default());
        };
        let packets = pending.packets.into_iter().map(Some).collect();
        let mut exec = Exec::new(self.program, &self.shapes, &mut self.state, packets, tracer);
        exec.set_event(time_ns, seed, self.max_steps);
        exec.set_drawn(pending.drawn);
        exec.step(handler, pending.args)
    }

    /// The bytes of an event's argument; nothing for packets.
    pub fn argument_bytes(&self, pending: &Pending, number: usize) -> Vec<u8> {
        let param = self.program.events[pending.event].params.get(number);
        match (param.map(|param| param.ty), pending.args.get(number)) {
            (None | Some(Type::Packet), _) | (_, None) => Vec::new(),
            (Some(ty), Some(value)) => self.shapes.encode(ty, value).to_vec(),
        }
    }
}
