//! What an op touches besides its operands and results.
//!
//! Two ops may change places if neither writes what the other reads or writes. Only an op with no
//! effects at all may be merged with an equal one or dropped when unused; one that only reads may
//! be dropped when unused.

use crate::ops::row::{
    COMMUTES, CONTROL, NOTHING, ORDERED, READS_ENTRY, READS_PACKET, Touch, WRITES_ENTRY,
    WRITES_PACKET,
};
use crate::ops::{CryptoOp, Op};
use crate::program::{TableId, ValueId};

/// The effects of one op, without those of its regions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    pub table_read: Option<TableId>,
    pub table_write: Option<TableId>,
    /// The table write commutes with itself (`add`, `min`, `max`, `or`).
    pub commutes: bool,
    pub packet_read: Option<ValueId>,
    /// Moves the cursor, changes bytes or gives the packet away.
    pub packet_write: Option<ValueId>,
    /// Ordered with every other such op: events, logs, the random stream.
    pub ordered: bool,
    /// Ends the region or owns regions, whose effects are theirs.
    pub control: bool,
}

impl Effects {
    /// No effect at all: may be merged, moved and dropped.
    pub fn is_pure(&self) -> bool {
        *self == Effects::default()
    }

    /// Reads at most: may be dropped when nothing uses its results.
    pub fn only_reads(&self) -> bool {
        self.table_write.is_none() && self.packet_write.is_none() && !self.ordered && !self.control
    }
}

impl Op {
    /// The op's own effects, as its row states them.
    pub fn effects(&self) -> Effects {
        let touch = self.row().touch;
        if touch == NOTHING {
            return Effects::default();
        }
        let has = |bits: Touch| touch & bits != 0;
        let table = if has(READS_ENTRY | WRITES_ENTRY) { self.table() } else { None };
        let packet = if has(READS_PACKET | WRITES_PACKET) { self.packet() } else { None };
        Effects {
            table_read: table.filter(|_| has(READS_ENTRY)),
            table_write: table.filter(|_| has(WRITES_ENTRY)),
            commutes: has(COMMUTES),
            packet_read: packet.filter(|_| has(READS_PACKET)),
            packet_write: packet.filter(|_| {
                has(WRITES_PACKET) && self.crypto().is_none_or(CryptoOp::changes_packet)
            }),
            ordered: has(ORDERED) && !self.says_pure(),
            control: has(CONTROL),
        }
    }
}
