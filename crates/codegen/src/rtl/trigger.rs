//! Triggers of handlers: what the way in tells apart.

use nicforge_ir::{Direction, HandlerId, Program};

use super::shape::Bits;

/// Trigger of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    Frame,
    /// A message of the host side of so many bytes.
    Message(u32),
    /// The timer with this number, in the order in which they are declared.
    Tick(usize),
    /// Another handler.
    Internal,
}

impl Trigger {
    /// The trigger of a handler; none if hardware has no such event.
    pub fn of(program: &Program, bits: &Bits, handler: HandlerId) -> Option<Trigger> {
        let id = program.handlers[handler].event;
        let event = &program.events[id];
        if let Some(number) = program.timers().position(|(timer, _)| timer == id) {
            return Some(Trigger::Tick(number));
        }
        match event.name.as_str() {
            "net_recv" => Some(Trigger::Frame),
            "host_send" => {
                let bytes = event.params.iter().map(|param| bits.bytes(param.ty)).sum();
                Some(Trigger::Message(bytes))
            }
            _ => (event.direction == Direction::Internal).then_some(Trigger::Internal),
        }
    }

    /// Bytes of messages from the host side.
    pub fn message(self) -> Option<u32> {
        if let Trigger::Message(bytes) = self { Some(bytes) } else { None }
    }
}
