//! Tail calls.

use std::collections::BTreeMap;

use nicforge_ir::Op;

use crate::error::{Halt, refuse};
use crate::lifter::Lifter;
use crate::state::State;
use crate::value::{Abs, Cond};
use crate::walk::Stops;

/// Tail calls at most, one after the other, as in the kernel.
const MOST_TAIL_CALLS: u32 = 33;

impl Lifter<'_> {
    /// A tail call: where the program goes on if that is known. Programs that may be called and
    /// never come back are followed at once, each in a region of its own.
    pub fn tail_call(&mut self, at: usize, state: &mut State) -> Result<Option<usize>, Halt> {
        let Abs::Map(map) = self.read(state.regs[2])? else {
            return refuse("bpf_tail_call without a map");
        };
        let none = BTreeMap::new();
        let known = self.slots.get(&map);
        let Some(slots) = known.or(self.empty.contains(&map).then_some(&none)) else {
            let name = self.map_name(map);
            return refuse(format!(
                "calls bpf_tail_call with map `{name}`, whose programs are not known; say \
                 --tail-call {name}[SLOT]=SECTION or {name}=empty"
            ));
        };
        let index = self.cut(state.regs[3], 4)?;
        let (span, here) = (self.span, self.here);
        for (slot, entry) in slots {
            if state.tail_calls >= MOST_TAIL_CALLS {
                break;
            }
            let cond = match self.equals(index, u64::from(*slot)) {
                Cond::Known(false) => continue,
                Cond::Known(true) => {
                    *state = state.called();
                    return Ok(Some(*entry));
                }
                Cond::Value(_) if state.frames.len() > 1 => {
                    return refuse("calls bpf_tail_call in a function, with a slot that varies");
                }
                Cond::Value(cond) => cond,
            };
            self.deeper()?;
            let outside = self.at;
            let (then, other) = (self.build().new_block(), self.build().new_block());
            self.build().push0(Op::If { cond, likely: None, then, other });
            self.at = then;
            self.walk(*entry, state.called(), &Stops::never())?;
            self.at = other;
            self.build().push0(Op::Yield(Vec::new()));
            (self.at, self.span, self.here) = (outside, span, here);
            self.depth -= 1;
        }
        debug_assert_eq!(self.here, at);
        state.regs[1..6].fill(Abs::Nothing);
        state.regs[0] = Abs::Unusable("what bpf_tail_call returned");
        Ok(None)
    }
}
