//! What an op touches besides its operands and results.
//!
//! Two ops may change places if neither writes what the other reads or writes. Only an op with no effects at all may
//! be merged with an equal one or dropped when unused; one that only reads may be dropped when unused.

use crate::ops::{BufSource, Op};
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
    /// The op's own effects.
    pub fn effects(&self) -> Effects {
        let none = Effects::default();
        match self {
            Op::Int(_)
            | Op::Zero
            | Op::Bin(..)
            | Op::Cmp(..)
            | Op::Un(..)
            | Op::Cast(_)
            | Op::Select { .. }
            | Op::Get { .. }
            | Op::Set { .. }
            | Op::ConstElem { .. }
            | Op::Hash { .. }
            | Op::CsumAdd { .. }
            | Op::Now
            | Op::InPort { .. } => none,
            Op::Random | Op::Log { .. } => Effects { ordered: true, ..none },
            Op::Extern { pure, .. } => Effects { ordered: !pure, ..none },
            Op::FibLookup { .. } => Effects { ordered: true, ..none },
            Op::Load { pkt, .. } | Op::Len { pkt } | Op::PktCsum { pkt, .. } => {
                Effects { packet_read: Some(*pkt), ..none }
            }
            Op::Extract { pkt }
            | Op::Store { pkt, .. }
            | Op::Skip { pkt, .. }
            | Op::Trim { pkt, .. }
            | Op::Emit { pkt, .. }
            | Op::Reset { pkt } => Effects { packet_read: Some(*pkt), packet_write: Some(*pkt), ..none },
            Op::Drop { pkt, .. } => Effects { packet_write: Some(*pkt), ordered: true, ..none },
            Op::Lookup { table, .. }
            | Op::Contains { table, .. }
            | Op::BufLen { table, .. }
            | Op::BufRead { table, .. } => Effects { table_read: Some(*table), ..none },
            Op::Update { table, .. } | Op::Delete { table, .. } | Op::BufClear { table, .. } => {
                Effects { table_read: Some(*table), table_write: Some(*table), ..none }
            }
            Op::Commute { table, .. } => Effects { table_write: Some(*table), commutes: true, ..none },
            Op::BufAppend { table, source, .. } => {
                let packet_read = match source {
                    BufSource::Packet { pkt, .. } => Some(*pkt),
                    BufSource::Value(_) => None,
                };
                Effects { table_read: Some(*table), table_write: Some(*table), packet_read, ..none }
            }
            Op::BufGenerate { table, .. } => {
                Effects { table_read: Some(*table), table_write: Some(*table), ordered: true, ..none }
            }
            // Which packets an event takes is declared by the event; `ordered` keeps it in place either way.
            Op::Generate { .. } => Effects { ordered: true, ..none },
            Op::Call { .. } => Effects { ordered: true, control: true, ..none },
            Op::If { .. }
            | Op::Loop { .. }
            | Op::Yield(_)
            | Op::Break { .. }
            | Op::Continue { .. }
            | Op::Return(_) => Effects { control: true, ..none },
        }
    }
}
