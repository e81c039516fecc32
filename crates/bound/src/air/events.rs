//! Internal events: the handler that receives one follows the handler that generates it.
//!
//! One event at a time: what is sent waits in the receiver's parameters until the sender has ended,
//! as queues do.

use nicforge_ir::{self as ir, Body, Direction, EventId, HandlerId, InstId, Op, ValueId};

use super::{Front, Refused};
use crate::graph::{Effect, Expr};
use crate::term::Op as TermOp;

impl Front<'_> {
    /// Refuses handlers that send events in a circle: their values would be overwritten while they
    /// are in use.
    pub fn chain(&self, handler: HandlerId, above: &mut Vec<HandlerId>) -> Result<(), Refused> {
        let place = self.program.place(self.program.handlers[handler].span);
        if above.contains(&handler) {
            let name = &self.program.handlers[handler].name;
            return Err(Refused {
                place,
                reason: format!("`{name}` generates events that come back to it"),
            });
        }
        above.push(handler);
        let body = &self.program.handlers[handler].body;
        for receiver in self.receivers(handler) {
            self.chain(receiver, above)?;
        }
        above.pop();
        let (through, left) = self.generated(body, body.entry());
        if through.max(left) > 1 {
            let reason = "more than one internal event of one event is not analysed".to_string();
            return Err(Refused { place, reason });
        }
        Ok(())
    }

    /// Handlers that a handler's internal events go to.
    fn receivers(&self, handler: HandlerId) -> Vec<HandlerId> {
        let body = &self.program.handlers[handler].body;
        let mut found = Vec::new();
        body.for_each_inst(body.entry(), &mut |inst| {
            if let Op::Generate { event, .. } = &body.insts[inst].op
                && let Some(receiver) = self.internal(*event)
                && !found.contains(&receiver)
            {
                found.push(receiver);
            }
        });
        found
    }

    pub fn internal(&self, event: EventId) -> Option<HandlerId> {
        let internal = self.program.events[event].direction == Direction::Internal;
        self.program.handler_of(event).filter(|_| internal)
    }

    /// Most internal events on ways through a region, and on ways that end the handler in it.
    fn generated(&self, body: &Body, region: ir::BlockId) -> (u32, u32) {
        let (mut through, mut left) = (0u32, 0u32);
        for inst in &body.blocks[region].insts {
            match &body.insts[*inst].op {
                Op::Generate { event, .. } if self.internal(*event).is_some() => through += 1,
                Op::If { then, other, .. } => {
                    let (a, b) = (self.generated(body, *then), self.generated(body, *other));
                    left = left.max(through + a.1.max(b.1));
                    through += a.0.max(b.0);
                }
                Op::Loop { max_trips, body: inner, .. } => {
                    let each = self.generated(body, *inner);
                    through = through.saturating_add(each.0.saturating_mul(*max_trips));
                    left = left.max(through.saturating_add(each.1));
                }
                Op::Return(_) => return (0, left.max(through)),
                _ => {}
            }
        }
        (through, left)
    }

    /// Hands values to the handler that runs next.
    pub fn send(&mut self, receiver: HandlerId, args: &[ValueId]) -> Vec<Effect> {
        let sources: Vec<Vec<Expr>> = args.iter().map(|arg| self.parts(*arg)).collect();
        let body = &self.program.handlers[receiver].body;
        self.enter(receiver);
        let mut effects =
            vec![Effect::Set(self.next, Expr::Const(32, u64::from(receiver.as_u32()) + 1))];
        let sender = std::mem::replace(&mut self.handler, receiver);
        for (sources, param) in sources.into_iter().zip(&body.blocks[body.entry()].params) {
            let targets = self.slots(*param).to_vec();
            effects.extend(
                targets.into_iter().zip(sources).map(|(slot, value)| Effect::Set(slot, value)),
            );
        }
        self.handler = sender;
        effects
    }

    /// The end of a handler: the one that was sent to goes on, if one was.
    pub fn leave(&mut self, inst: InstId) {
        for receiver in self.receivers(self.handler) {
            let number = Expr::Const(32, u64::from(receiver.as_u32()) + 1);
            let (taken, fall) =
                self.branch(Expr::binary(TermOp::Eq, Expr::Slot(self.next), number));
            let to = self.enter(receiver);
            self.at = taken;
            self.free(inst, vec![Effect::Set(self.next, Expr::Const(32, 0))]);
            self.goto(to);
            self.at = fall;
        }
    }
}
