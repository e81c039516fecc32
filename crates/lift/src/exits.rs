//! Chains of branches that leave for one place, as loops make that are written out and left early:
//! each link is done whether it was reached or not, and a condition says whose results count. Links
//! within links would nest as deep as there are trips.

use nicforge_ir::{BinOp, Op, Type, ValueId};
use nicforge_isa::ebpf::Insn;
use nicforge_isa::ebpf::insn::{LDDW, class};

use crate::alike::differ;
use crate::emit::Cond;
use crate::error::{Halt, refuse};
use crate::flow::{CALL, CALL_REGISTER, EXIT, jumps, target};
use crate::state::State;
use crate::value::Abs;
use crate::walk::{Ended, Lifter, Stops};

/// Links from which on a chain is worth it.
const FEW: usize = 8;
/// Links at most.
const MOST: usize = 2048;
/// Instructions that are looked at for so many links.
const FAR: usize = 400;

impl Lifter<'_> {
    /// Whether a chain of branches to `exit` begins at an instruction.
    pub fn begins_chain(&self, mut at: usize, exit: usize) -> bool {
        let mut links = 0;
        for _ in 0..FAR {
            let Some(&insn) = self.insns.get(at) else { return false };
            let next = at + if insn.code == LDDW { 2 } else { 1 };
            at = match target(self.insns, at) {
                Some(to) if jumps(insn) => to,
                Some(to) if to == exit || next == exit => {
                    links += 1;
                    if links == FEW {
                        return true;
                    }
                    if to == exit { next } else { to }
                }
                Some(_) => return false,
                None if matches!(insn.code, CALL | CALL_REGISTER | EXIT) => return false,
                None => next,
            };
        }
        false
    }

    /// Follows a chain from its second link on: `cur` at `at` is where `active` holds, `out` what is
    /// known of the others at `exit`.
    pub fn chain(
        &mut self,
        mut active: ValueId,
        (mut at, mut cur): (usize, State),
        (exit, mut out): (usize, State),
        (inner, outer): (&Stops, &Stops),
    ) -> Result<Ended, Halt> {
        let depth = cur.frames.len();
        let live = self.live(&[exit]);
        let mut links = 0;
        // Trips of a loop are links like others.
        while at != exit && !outer.contain(at, depth) {
            self.step()?;
            let Some(&insn) = self.insns.get(at) else {
                return refuse("control leaves the program");
            };
            (self.here, self.span) = (at, self.lines.span(at));
            if !matches!(insn.code & 7, class::JMP | class::JMP32) {
                if !self.is_without_effect(&cur, insn) {
                    break;
                }
                self.straight(insn, at, &mut cur)?;
                at += if insn.code == LDDW { 2 } else { 1 };
                continue;
            }
            let Some(to) = target(self.insns, at) else { break };
            if jumps(insn) {
                at = to;
                continue;
            }
            if to != exit && at + 1 != exit {
                break;
            }
            let leaves = match self.condition(insn, &mut cur)? {
                Cond::Known(taken) => {
                    at = if taken { to } else { at + 1 };
                    continue;
                }
                Cond::Value(cond) if to == exit => Cond::Value(cond),
                Cond::Value(cond) => self.negate(Cond::Value(cond)),
            };
            let gone = self.refine(&cur, insn, to == exit);
            if differ(&gone, &out, Some(live)) {
                break;
            }
            let Ended::Here(ends) =
                self.together(active, [(exit, gone), (exit, out.clone())], inner)?
            else {
                return refuse("a chain of branches that ends nowhere");
            };
            links += 1;
            if links > MOST {
                return refuse(format!("a loop of more than {MOST} trips that is left early"));
            }
            let Some(joined) = ends.only() else { return refuse("ways that cannot be one") };
            out = joined;
            let Cond::Value(stays) = self.negate(leaves) else { break };
            active = self.push1(Op::Bin(BinOp::And, active, stays), Type::BOOL);
            cur = self.refine(&cur, insn, to != exit);
            at = if to == exit { at + 1 } else { to };
        }
        self.together(active, [(at, cur), (exit, out)], inner)
    }

    /// Whether an instruction changes nothing but what is known: it may be done in vain.
    fn is_without_effect(&self, state: &State, insn: Insn) -> bool {
        let holds = |register: u8| state.regs[usize::from(register.min(10))];
        match insn.code & 7 {
            class::LD => insn.code == LDDW,
            class::LDX => matches!(
                holds(insn.src),
                Abs::Context(_) | Abs::Packet { .. } | Abs::Stack { .. } | Abs::Constant { .. }
            ),
            class::ST => matches!(holds(insn.dst), Abs::Stack { .. }),
            class::STX => insn.code & 0xe0 != 0xc0 && matches!(holds(insn.dst), Abs::Stack { .. }),
            _ => true,
        }
    }
}
