//! Packets that a handler neither sent nor handed on: they end with it.
//!
//! Where one arm of an `if` gives a packet away and the other does not, the other one drops it: no
//! code behind may use it, which the check of packets shows. Handlers' returns drop what is left.

use nicforge_ir::{BlockId, Body, BodyBuilder, DropReason, Op, ReasonId, Span, Type, ValueId};

use crate::unit::Unit;

/// Packets that are gone; nothing where control does not come.
type State = Option<Vec<ValueId>>;

struct Walk<'p> {
    body: &'p mut Body,
    packets: Vec<ValueId>,
    reason: ReasonId,
    borrowing: Vec<nicforge_ir::EventId>,
}

impl Unit<'_> {
    /// Drops what a handler's body keeps.
    pub fn drop_kept(&mut self, body: &mut Body, span: Span) {
        let params = &body.blocks[body.entry()].params;
        let packets: Vec<ValueId> =
            params.iter().copied().filter(|v| body.ty(*v) == Type::Packet).collect();
        let text = "not sent".to_string();
        let known = self.prog.reasons.iter().find(|(_, r)| r.text == text).map(|(id, _)| id);
        let reason = known.unwrap_or_else(|| self.prog.reasons.push(DropReason { text, span }));
        let borrows = |event: &nicforge_ir::Event| event.params.iter().any(|p| p.borrowed);
        let borrowing =
            self.prog.events.iter().filter(|(_, e)| borrows(e)).map(|(id, _)| id).collect();
        let entry = body.entry();
        Walk { body, packets, reason, borrowing }.block(entry, Some(Vec::new()));
    }
}

impl Walk<'_> {
    /// Walks a region; what is gone where it yields.
    fn block(&mut self, block: BlockId, mut state: State) -> State {
        for inst in self.body.blocks[block].insts.clone() {
            let Some(gone) = state else { break };
            let op = self.body.insts[inst].op.clone();
            state = match op {
                Op::If { then, other, .. } => self.arms(then, other, gone),
                Op::Loop { body, .. } => {
                    self.block(body, Some(gone.clone()));
                    Some(gone)
                }
                Op::Return(_) => {
                    let kept = self.packets.iter().filter(|v| !gone.contains(v)).copied();
                    let kept = kept.collect::<Vec<_>>();
                    self.drop_at_end(block, &kept);
                    None
                }
                Op::Break { .. } | Op::Continue { .. } => None,
                op => Some(self.after(&op, gone)),
            };
        }
        state
    }

    fn arms(&mut self, then: BlockId, other: BlockId, gone: Vec<ValueId>) -> State {
        let first = self.block(then, Some(gone.clone()));
        let second = self.block(other, Some(gone));
        let (Some(a), Some(b)) = (&first, &second) else { return first.or(second) };
        let only = |a: &[ValueId], b: &[ValueId]| -> Vec<ValueId> {
            a.iter().filter(|v| !b.contains(v)).copied().collect()
        };
        let (lost, kept) = (only(a, b), only(b, a));
        self.drop_at_end(other, &lost);
        self.drop_at_end(then, &kept);
        first.map(|gone| [gone, kept].concat())
    }

    /// Values that are gone behind an op.
    fn after(&self, op: &Op, mut gone: Vec<ValueId>) -> Vec<ValueId> {
        let gives = match op {
            Op::Generate { event, .. } => !self.borrowing.contains(event),
            op => op.drops(),
        };
        if gives {
            gone.extend(op.operands().filter(|v| self.body.ty(*v) == Type::Packet));
        }
        gone
    }

    /// Drops packets in front of a region's terminator.
    fn drop_at_end(&mut self, block: BlockId, packets: &[ValueId]) {
        let Some(end) = self.body.blocks[block].insts.pop() else { return };
        let span = self.body.insts[end].span;
        let mut b = BodyBuilder::new(self.body);
        b.switch_to(block);
        b.span = span;
        packets.iter().for_each(|pkt| b.drop(*pkt, self.reason));
        self.body.blocks[block].insts.push(end);
    }
}
