//! The closed set of operations.
//!
//! [`table`] holds one row for each; everything that can be said of an op without running it
//! follows from its row. Passes ask the queries below and [`Effects`](crate::Effects), and name
//! a variant only where they know something about that op alone.
//!
//! A new op that is pure needs its row, an arm of the interpreter, and one of each emitter.

pub mod field;
pub mod row;
mod table;
mod words;

pub use field::{Arg, BufSource, Proj};
pub use row::{Class, Work};
pub use table::{Op, ROWS};
pub use words::{BinOp, CmpOp, CommuteOp, CryptoOp, UnOp, Words};

use crate::ids::{BlockId, EventId, TableId, ValueId};
use row::{
    CLOCK, CONTROL, CURSOR, LOG, Must, ORDERED, OVERWRITES, RANDOM, ROUTES, Touch, WRITES_PACKET,
};

/// The operands of an op, in order.
#[derive(Clone)]
pub struct Operands<'a> {
    op: &'a Op,
    next: usize,
}

impl Iterator for Operands<'_> {
    type Item = ValueId;

    fn next(&mut self) -> Option<ValueId> {
        let found = self.op.operand(self.next);
        self.next += 1;
        found
    }
}

impl Op {
    /// Operands in order, without what the regions use.
    pub fn operands(&self) -> Operands<'_> {
        Operands { op: self, next: 0 }
    }

    /// True if `value` is an operand.
    pub fn uses(&self, value: ValueId) -> bool {
        self.operands().any(|operand| operand == value)
    }

    /// Regions the op owns, in order.
    pub fn regions(&self) -> impl Iterator<Item = BlockId> + use<> {
        let mut found = [None; 2];
        let mut next = 0;
        // Most ops have none.
        if self.touches(CONTROL) {
            self.fields(&mut |field| {
                if let Arg::Region(block) = field {
                    found[next] = Some(block);
                    next += 1;
                }
                true
            });
        }
        found.into_iter().flatten()
    }

    /// The op's class.
    pub fn class(&self) -> Class {
        self.row().class
    }

    /// Kind of the op's work.
    pub fn work(&self) -> Work {
        self.row().work
    }

    fn touches(&self, touch: Touch) -> bool {
        self.row().touch & touch != 0
    }

    /// True if the op moves the packet's cursor and changes no byte.
    pub fn moves_cursor(&self) -> bool {
        self.touches(CURSOR)
    }

    /// True if the op puts other bytes where the frame's were.
    pub fn overwrites(&self) -> bool {
        self.touches(OVERWRITES) && self.crypto().is_none_or(CryptoOp::changes_packet)
    }

    /// True if the op ends its packet: nothing can be done with it any more.
    pub fn drops(&self) -> bool {
        self.touches(WRITES_PACKET) && self.touches(ORDERED)
    }

    /// True if the op reads the port its packet came in by.
    pub fn asks_port(&self) -> bool {
        self.work() == Work::Port
    }

    /// True if the op generates an event with a byte string as its packet.
    pub fn sends_string(&self) -> bool {
        self.class() == Class::Bytes && self.event().is_some()
    }

    /// True if the op generates an event with a packet that it makes itself.
    pub fn makes_packet(&self) -> bool {
        self.sends_string() || matches!(self, Op::NewPacket { .. })
    }

    /// The function of cryptography that the op is.
    pub fn crypto(&self) -> Option<CryptoOp> {
        if let Op::Crypto { op, .. } = self { Some(*op) } else { None }
    }

    /// How the op changes an entry, if it does so whatever other events do to it meanwhile.
    pub fn commute(&self) -> Option<CommuteOp> {
        if let Op::Commute { op, .. } = self { Some(*op) } else { None }
    }

    /// The way from the op's aggregate or entry to the part it means.
    pub fn path(&self) -> Option<&[Proj]> {
        let mut found = None;
        self.fields(&mut |field| {
            if let Arg::Path(path) = field {
                found = Some(path);
            }
            found.is_none()
        });
        found
    }

    /// True if the op reads the time of arrival.
    pub fn reads_clock(&self) -> bool {
        self.touches(CLOCK)
    }

    /// True if the op takes a number of the event's random stream.
    pub fn draws(&self) -> bool {
        self.touches(RANDOM)
    }

    /// True if the op prints for the developer.
    pub fn logs(&self) -> bool {
        self.touches(LOG)
    }

    /// True if the op asks the operating system's routes.
    pub fn asks_routes(&self) -> bool {
        self.touches(ROUTES)
    }

    /// True if the op ends a region.
    pub fn is_terminator(&self) -> bool {
        matches!(self, Op::Yield(_) | Op::Break { .. } | Op::Continue { .. } | Op::Return(_))
    }

    /// The first field of which `pick` makes something.
    fn first<T>(&self, pick: fn(Arg) -> Option<T>) -> Option<T> {
        let mut found = None;
        self.fields(&mut |field| {
            found = pick(field);
            found.is_none()
        });
        found
    }

    /// The table that an op on entries or byte strings names.
    pub fn table(&self) -> Option<TableId> {
        self.first(|field| if let Arg::Table(table) = field { Some(table) } else { None })
    }

    /// The table and the key of an op on one entry or its byte string: the first operand.
    pub fn entry(&self) -> Option<(TableId, ValueId)> {
        self.table().filter(|_| !self.scans()).zip(self.operand(0))
    }

    /// Search through all entries of the op's table.
    pub fn scans(&self) -> bool {
        self.work() == Work::Scan
    }

    /// The event that the op generates.
    pub fn event(&self) -> Option<EventId> {
        self.first(|field| if let Arg::Event(event) = field { Some(event) } else { None })
    }

    /// The packet that the op reads, changes or gives up; arguments are not meant.
    pub fn packet(&self) -> Option<ValueId> {
        if self.row().fields.first().is_some_and(|field| field.must == Must::Packet) {
            return self.operand(0);
        }
        self.first(|field| match field {
            Arg::Source(BufSource::Packet { pkt, .. }) => Some(pkt),
            _ => None,
        })
    }

    /// Source of the bytes that the op appends to a byte string.
    pub fn source(&self) -> Option<BufSource> {
        self.first(|field| if let Arg::Source(source) = field { Some(source) } else { None })
    }

    /// True if the op says of itself that it is pure.
    pub(crate) fn says_pure(&self) -> bool {
        self.first(|field| if let Arg::Pure(pure) = field { Some(pure) } else { None })
            .unwrap_or(false)
    }
}

#[cfg(test)]
mod tests;
