//! Packets that start over: handlers that put the cursor back before they look.
//!
//! Whoever resets a packet first does not care where its cursor was. So a stage can read again what
//! the one before read, and an event whose cursor differs from path to path can be made to have it
//! at byte 0 on all.

use nicforge_ir::{BlockId, Body, EventId, InstId, Op, Type, ValueId};
use nicforge_passes::rewrite::new_inst;

/// Puts the cursor of a packet where it was when the cut handler started.
pub fn start_over(body: &mut Body, packet: ValueId, consumed: u32) {
    let entry = body.entry();
    let first =
        body.blocks[entry].insts.iter().find(|inst| !body.insts[**inst].op.effects().is_pure());
    if first.is_some_and(|inst| matches!(body.insts[*inst].op, Op::Reset { .. })) {
        return;
    }
    let span = Default::default();
    let mut added = vec![new_inst(body, Op::Reset { pkt: packet }, &[], span)];
    if consumed > 0 {
        let len = new_inst(body, Op::Int(consumed as u64), &[Type::U32], span);
        let value = body.insts[len].results[0];
        added.extend([
            len,
            new_inst(body, Op::Skip { pkt: packet, len: value }, &[Type::BOOL], span),
        ]);
    }
    body.blocks[entry].insts.splice(0..0, added);
}

/// True if every path through a handler that looks at its packet resets it first, so that nobody
/// cares where the cursor was when the handler started.
pub fn resets_first(body: &Body) -> bool {
    let entry = body.entry();
    let packet = body.blocks[entry].params.iter().copied().find(|v| body.ty(*v) == Type::Packet);
    packet.is_some_and(|packet| resets_in(body, packet, entry, false).is_some())
}

/// Walks a region; whether the packet was reset at its end, `None` if something looked at it
/// before.
fn resets_in(body: &Body, packet: ValueId, block: BlockId, mut reset: bool) -> Option<bool> {
    for &inst in &body.blocks[block].insts {
        match &body.insts[inst].op {
            Op::Reset { .. } => reset = true,
            op if op.drops() || op.asks_port() => {}
            Op::If { then, other, .. } => {
                let first = resets_in(body, packet, *then, reset)?;
                let second = resets_in(body, packet, *other, reset)?;
                reset = first && second;
            }
            Op::Loop { body: region, .. } => {
                resets_in(body, packet, *region, reset)?;
            }
            Op::Return(_) => return Some(true),
            op if op.uses(packet) && !reset => return None,
            _ => {}
        }
    }
    Some(reset)
}

/// Resets the packet before every place of a handler that generates the event.
pub fn reset_before(body: &mut Body, packet: ValueId, event: EventId) {
    let blocks: Vec<BlockId> = body.blocks.keys().collect();
    for block in blocks {
        let is_site = |inst: &InstId| matches!(body.insts[*inst].op, Op::Generate { event: generated, .. } if generated == event);
        if let Some(at) = body.blocks[block].insts.iter().position(is_site) {
            let reset = new_inst(body, Op::Reset { pkt: packet }, &[], Default::default());
            body.blocks[block].insts.insert(at, reset);
        }
    }
}
