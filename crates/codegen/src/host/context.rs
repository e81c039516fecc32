//! Parameters that do not travel with their event but wait in the packet's context, and how events'
//! parameters lie in memory.

use nicforge_ir::{Body, Event, EventId, Op, Program, Type};

/// Bytes of a pointer in an event's parameters.
const POINTER: u32 = 8;

/// Memory that stays with each packet, and what is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    pub bytes: u32,
    pub values: Vec<InContext>,
}

/// A parameter of an internal event, `at` bytes into the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InContext {
    pub event: EventId,
    pub param: usize,
    pub at: u32,
}

impl Context {
    /// Where a parameter lies, if it does not travel with its event.
    pub fn at(&self, event: EventId, param: usize) -> Option<u32> {
        self.values
            .iter()
            .find(|value| value.event == event && value.param == param)
            .map(|value| value.at)
    }

    /// Bytes of a parameter in the event's struct: none if it waits in the context.
    pub fn size(&self, program: &Program, event: EventId, param: usize) -> u32 {
        match program.events[event].params[param].ty {
            _ if self.at(event, param).is_some() => 0,
            Type::Packet => POINTER,
            ty => program.size_of(ty),
        }
    }

    /// Offset of a parameter in the event's struct.
    pub fn offset(&self, program: &Program, event: EventId, param: usize) -> u32 {
        (0..param).map(|before| self.size(program, event, before)).sum()
    }

    /// Bytes of an event's struct, which is never empty.
    pub fn event_size(&self, program: &Program, event: EventId) -> u32 {
        self.offset(program, event, program.events[event].params.len()).max(1)
    }

    /// Parameters that travel.
    pub fn travelling<'e>(
        &'e self,
        id: EventId,
        event: &'e Event,
    ) -> impl Iterator<Item = usize> + 'e {
        (0..event.params.len()).filter(move |param| self.at(id, *param).is_none())
    }

    /// True if a handler needs a parameter of its event in a variable: it does more with it than to
    /// leave it where it is.
    pub fn reads(&self, body: &Body, own: EventId, param: usize) -> bool {
        let value = body.blocks[body.entry()].params[param];
        let mut reads = false;
        body.for_each_inst(body.entry(), &mut |inst| {
            reads |= match &body.insts[inst].op {
                Op::Generate { event, args } => {
                    let stays = |to| self.stays((own, param), (*event, to));
                    args.iter().enumerate().any(|(to, arg)| *arg == value && !stays(to))
                }
                op => op.uses(value),
            };
        });
        reads
    }

    /// True if a parameter that is handed on as one of another event is already where that event
    /// has it.
    pub fn stays(&self, (event, param): (EventId, usize), (to, at): (EventId, usize)) -> bool {
        let from = self.at(event, param);
        from.is_some() && from == self.at(to, at)
    }
}
