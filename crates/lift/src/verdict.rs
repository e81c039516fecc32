//! How a program ends: what it returned, as what becomes of the packet.

use nicforge_ir::{
    Direction, DropReason, Event, EventId, Op, Param, ReasonId, Span, Type, ValueId,
};

use crate::error::{Halt, refuse};
use crate::helpers::{TC_ACT_REDIRECT, XDP_REDIRECT};
use crate::lifter::Lifter;
use crate::memory::halves;
use crate::state::{State, Target};
use crate::value::{Abs, Cond, Place};

pub const XDP_TX: u64 = 3;

/// Ends of a packet.
#[derive(Clone, Copy)]
enum End {
    Drop(&'static str),
    /// To the operating system.
    Stack,
    /// Out of the port it came by.
    Back,
    Redirect,
}

/// Verdicts of XDP programs; whatever else they return, the kernel takes it for aborted.
const XDP: [(u64, End); 4] = [
    (1, End::Drop("XDP_DROP")),
    (2, End::Stack),
    (XDP_TX, End::Back),
    (XDP_REDIRECT, End::Redirect),
];
const XDP_ELSE: End = End::Drop("XDP_ABORTED");

/// Verdicts of tc programs in direct action; whatever else they return leaves it to the next filter,
/// of which there is none.
const TC: [(u64, End); 4] = [
    (2, End::Drop("TC_ACT_SHOT")),
    (4, End::Drop("TC_ACT_STOLEN")),
    (TC_ACT_REDIRECT, End::Redirect),
    (8, End::Drop("TC_ACT_TRAP")),
];
const TC_ELSE: End = End::Stack;

impl Lifter<'_> {
    /// Ends the handler.
    pub fn verdict(&mut self, state: &mut State) -> Result<(), Halt> {
        let returned = self.cut(state.regs[0], 4)?;
        self.flush_all(state)?;
        let (all, other): (&[(u64, End)], End) =
            if self.is_tc() { (&TC, TC_ELSE) } else { (&XDP, XDP_ELSE) };
        let possible = |(verdict, _): &&(u64, End)| (returned.lo..=returned.hi).contains(verdict);
        let mut left: Vec<(u64, End)> = all.iter().filter(possible).copied().collect();
        let mut last = other;
        if returned.hi - returned.lo < left.len() as u64 {
            last = left.pop().map_or(other, |(_, end)| end);
        }
        for (verdict, end) in left {
            let Cond::Value(cond) = self.equals(returned, verdict) else { continue };
            let outside = self.at;
            let (then, other) = (self.build().new_block(), self.build().new_block());
            self.build().push0(Op::If { cond, likely: None, then, other });
            self.at = then;
            self.leave_by(state, end)?;
            self.at = other;
            self.build().push0(Op::Yield(Vec::new()));
            self.at = outside;
        }
        self.leave_by(state, last)
    }

    fn leave_by(&mut self, state: &mut State, end: End) -> Result<(), Halt> {
        let pkt = self.pkt;
        match (end, state.redirect) {
            (End::Stack, _) => self.leave_for(state, "stack_recv", None)?,
            (End::Back, _) => {
                let port = self.push1(Op::InPort { pkt }, Type::U32);
                self.leave_for(state, "net_send", Some(port))?;
            }
            (End::Redirect, Some(Target::Port(port))) => {
                let most = port.constant().filter(|port| *port < 256).unwrap_or(1) as u32;
                self.program.ports = self.program.ports.max(most + 1);
                let port = self.value(port, 32);
                self.leave_for(state, "net_send", Some(port))?;
            }
            (End::Redirect, Some(Target::Ports { map, others })) => {
                self.leave_by_all(state, map, others)?;
            }
            (End::Redirect, Some(Target::Stack)) => self.leave_for(state, "stack_recv", None)?,
            (End::Redirect, Some(Target::Host)) => self.leave_for(state, "host_recv", None)?,
            (End::Redirect, None) => {
                let what = if self.is_tc() { "TC_ACT_REDIRECT" } else { "XDP_REDIRECT" };
                self.give_up(&format!("{what} without a target"));
            }
            (End::Drop(what), _) => self.give_up(what),
        }
        self.build().push0(Op::Return(Vec::new()));
        Ok(())
    }

    /// Drops the packet.
    fn give_up(&mut self, why: &str) {
        let (pkt, reason) = (self.pkt, self.reason(why));
        self.build().drop(pkt, reason);
    }

    pub fn reason(&mut self, text: &str) -> ReasonId {
        let known = self.program.reasons.iter().find(|(_, reason)| reason.text == text);
        let known = known.map(|(id, _)| id);
        known.unwrap_or_else(|| {
            self.program.reasons.push(DropReason { text: text.to_string(), span: Span::default() })
        })
    }

    fn leave_for(
        &mut self,
        state: &mut State,
        event: &str,
        port: Option<ValueId>,
    ) -> Result<(), Halt> {
        self.emit_front(state)?;
        let event = self.event(event);
        let args = std::iter::once(self.pkt).chain(port).collect();
        self.build().push0(Op::Generate { event, args });
        Ok(())
    }

    /// Writes the headers that were put in front.
    pub fn emit_front(&mut self, state: &mut State) -> Result<(), Halt> {
        let (pkt, bytes) = (self.pkt, state.front.bytes);
        let mut at = 0;
        while at < bytes {
            let memory = &state.front.memory;
            let next = memory.slots.range(at..).next().map_or(bytes, |(next, _)| *next);
            let mut sizes: Vec<u32> = match memory.slots.get(&at) {
                Some((size, _)) if at + i64::from(*size) <= bytes => vec![*size],
                Some(_) => halves(0, (bytes - at) as u32).into_iter().map(|(_, s)| s).collect(),
                None => {
                    let gap = next.min(bytes) - at;
                    halves(0, gap as u32).into_iter().map(|(_, size)| size).collect()
                }
            };
            sizes.truncate(64);
            for size in sizes {
                let pointer = Abs::Packet { place: Place::at(at), epoch: state.epoch };
                let value = self.load(state, pointer, 0, size)?;
                let num = match value {
                    Abs::Num(num) => num,
                    Abs::Unusable(_) | Abs::Mixed(_) => self.num(value)?,
                    _ => return refuse("puts a pointer into the packet"),
                };
                let value = self.value(num, 8 * size);
                self.build().push0(Op::Emit { pkt, value });
                at += i64::from(size);
            }
        }
        Ok(())
    }

    /// An event that leaves.
    pub fn event(&mut self, name: &str) -> EventId {
        if let Some(known) = self.program.event_named(name) {
            return known;
        }
        let param = |name: &str, ty| Param { name: name.to_string(), ty, borrowed: false };
        let copies = name == "net_copy";
        let mut params = vec![Param { borrowed: copies, ..param("pkt", Type::Packet) }];
        if copies || name == "net_send" {
            params.push(param("port", Type::U32));
        }
        let event = Event {
            name: name.to_string(),
            direction: Direction::Out,
            params,
            zeros: 0,
            period: None,
        };
        self.program.events.push(event)
    }
}
