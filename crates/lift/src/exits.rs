//! Chains of branches that leave for a few places, as loops make that are left early.
//!
//! Each link is done whether it was reached or not, and a condition says whose results count. Links
//! within links would nest as deep as there are trips.

use nicforge_ir::{BinOp, Op, Type, ValueId};
use nicforge_isa::ebpf::Insn;
use nicforge_isa::ebpf::insn::{LDDW, class};

use crate::alike::differ;
use crate::error::{Halt, limit, refuse};
use crate::flow::{CALL, CALL_REGISTER, EXIT, jumps, target};
use crate::join::{Ends, Way};
use crate::kernel_functions::NEXT_NUMBER;
use crate::lifter::Lifter;
use crate::state::{Fork, State};
use crate::value::{Abs, Cond};
use crate::walk::{Ended, Next, Stops};

/// Links from which on a chain is worth it: fewer may nest, and end as soon as they can.
const FEW: usize = 24;
/// Places that a chain leaves for, at most.
const PLACES: usize = 3;
/// Links at most.
const MOST: usize = 4096;
/// Instructions that are looked at for so many links.
const FAR: usize = 1000;

/// A chain of branches that leave early, before it is followed.
pub struct Early {
    /// Its first branch leaves where its condition holds.
    taken: bool,
    exits: Vec<usize>,
    inner: Stops,
}

impl Lifter<'_> {
    /// The chain that begins with the branch at `at` to `to`, if one does.
    pub fn early_exits(&self, at: usize, to: usize, depth: usize, outer: &Stops) -> Option<Early> {
        // Links are trips, which are not written out.
        if !self.rolled.is_empty() {
            return None;
        }
        let inner = self.stops([to, at + 1], depth, Some(at), outer);
        let leaves = |way| inner.contain(way, depth) || self.only_returns(way, depth);
        let [taken, not] = [to, at + 1].map(leaves);
        if taken == not || inner.depth != depth && !inner.at.is_empty() {
            return None;
        }
        let [exit, next] = if taken { [to, at + 1] } else { [at + 1, to] };
        let exits = self.exits(next, exit)?;
        let mut inner = Stops { depth, ..inner };
        inner.at.extend(&exits);
        self.flow.sort(at, &mut inner.at);
        inner.at.dedup();
        Some(Early { taken, exits, inner })
    }

    /// Follows a chain from its first branch on.
    pub fn leave_early(
        &mut self,
        Early { taken, exits, inner }: Early,
        cond: ValueId,
        [first, second]: [(usize, State); 2],
        outer: &Stops,
    ) -> Result<Next, Halt> {
        let (gone, on) = if taken { (first, second) } else { (second, first) };
        let active = Cond::Value(cond);
        let active = if taken { self.negate(active) } else { active };
        let Cond::Value(active) = active else { return refuse("a branch that is decided") };
        self.deeper()?;
        let out = Ends::at(gone.0, gone.1);
        let found = self.chain(active, on, out, &exits, (&inner, outer))?;
        let next = self.go_on(found, inner, outer);
        self.depth -= 1;
        next
    }

    /// The places that a chain of branches leaves for, if one begins at an instruction and leaves
    /// for `exit` among others: those that lie ahead of a branch which else goes on.
    fn exits(&self, mut at: usize, exit: usize) -> Option<Vec<usize>> {
        let (mut exits, mut links) = (vec![exit], 0);
        for _ in 0..FAR {
            let &insn = self.insns.get(at)?;
            let next = at + if insn.code == LDDW { 2 } else { 1 };
            at = match target(self.insns, at) {
                Some(to) if jumps(insn) => to,
                Some(to) => {
                    links += 1;
                    if links == FEW {
                        return Some(exits);
                    }
                    if exits.contains(&next) {
                        to
                    } else {
                        if !exits.contains(&to) {
                            if exits.len() == PLACES || to < next {
                                return None;
                            }
                            exits.push(to);
                        }
                        next
                    }
                }
                None if self.is_next_number(insn) => next,
                None if matches!(insn.code, CALL | CALL_REGISTER | EXIT) => return None,
                None => next,
            };
        }
        None
    }

    /// Follows a chain from its second link on: `cur` at `at` is where `active` holds, `out` where
    /// the others are. `inner` has all `exits`; `outer` is where somebody around goes on.
    fn chain(
        &mut self,
        mut active: ValueId,
        (mut at, mut cur): (usize, State),
        mut out: Ends,
        exits: &[usize],
        (inner, outer): (&Stops, &Stops),
    ) -> Result<Ended, Halt> {
        let depth = cur.frames.len();
        let mut links = 0;
        // Trips of a loop are links like others.
        while !exits.contains(&at) && !outer.contain(at, depth) {
            self.step()?;
            if links > MOST {
                return limit(format!("a loop that may be left at more than {MOST} places"));
            }
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
            if self.is_next_number(insn) {
                let before = cur.clone();
                match self.kernel_function(NEXT_NUMBER, &mut cur)? {
                    None => at += 1,
                    Some(fork) => match self.asked_at_once(at + 1, &mut cur, fork)? {
                        Some((stays, exit, gone, next)) if exits.contains(&exit) => {
                            if self.clashes(&out, exit, &gone) {
                                cur = before;
                                break;
                            }
                            links += 1;
                            out = self.beside(active, (exit, gone), out, inner)?;
                            active = self.push1(Op::Bin(BinOp::And, active, stays), Type::BOOL);
                            at = next;
                        }
                        _ => {
                            cur = before;
                            break;
                        }
                    },
                }
                continue;
            }
            let Some(to) = target(self.insns, at) else { break };
            if jumps(insn) {
                at = to;
                continue;
            }
            let taken = exits.contains(&to);
            if taken == exits.contains(&(at + 1)) {
                break;
            }
            let cond = match self.condition(insn, &mut cur)? {
                Cond::Known(taken) => {
                    at = if taken { to } else { at + 1 };
                    continue;
                }
                cond => cond,
            };
            let (exit, next) = if taken { (to, at + 1) } else { (at + 1, to) };
            let gone = self.refine(&cur, insn, taken);
            if self.clashes(&out, exit, &gone) {
                break;
            }
            links += 1;
            out = self.beside(active, (exit, gone), out, inner)?;
            let stays = if taken { self.negate(cond) } else { cond };
            let Cond::Value(stays) = stays else { break };
            active = self.push1(Op::Bin(BinOp::And, active, stays), Type::BOOL);
            cur = self.refine(&cur, insn, !taken);
            at = next;
        }
        self.beside(active, (at, cur), out, inner).map(|ends| Ended::Here(Box::new(ends)))
    }

    /// True if a state at a place cannot be one with what is known there.
    fn clashes(&self, out: &Ends, exit: usize, gone: &State) -> bool {
        let live = self.live(&[exit]);
        out.states.get(&exit).is_some_and(|other| differ(gone, other, Some(live), false))
    }

    fn is_next_number(&self, insn: Insn) -> bool {
        let named = |at: i32| self.object.externs.get(at as u32 as usize);
        insn.code == CALL && insn.src == 2 && named(insn.imm).is_some_and(|n| n == NEXT_NUMBER)
    }

    /// Ways of a call by the branch behind it, if that asks what the call gave: the condition of
    /// the one that goes on, where the other one goes, its state, and where the first one goes.
    fn asked_at_once(
        &mut self,
        at: usize,
        on: &mut State,
        Fork { cond, mut fails, .. }: Fork,
    ) -> Result<Option<(ValueId, usize, State, usize)>, Halt> {
        let Some(&insn) = self.insns.get(at) else { return Ok(None) };
        let Some(to) = target(self.insns, at).filter(|_| !jumps(insn)) else { return Ok(None) };
        let place = |taken| if taken { to } else { at + 1 };
        Ok(match (self.condition(insn, on)?, self.condition(insn, &mut fails)?) {
            (Cond::Known(goes_on), Cond::Known(ends)) if goes_on != ends => {
                Some((cond, place(ends), fails, place(goes_on)))
            }
            _ => None,
        })
    }

    /// Follows a way where a condition holds; elsewhere ways have ended already.
    fn beside(
        &mut self,
        cond: ValueId,
        (at, state): (usize, State),
        others: Ends,
        stops: &Stops,
    ) -> Result<Ends, Halt> {
        let (outside, span) = (self.at, self.span);
        let mark = self.body.values.len() as u32;
        let (then, other) = (self.build().new_block(), self.build().new_block());
        let inst = self.build().push0(Op::If { cond, likely: None, then, other });
        self.at = then;
        let ended = self.walk(at, state, stops)?;
        (self.at, self.span) = (outside, span);
        let ways = match ended {
            Ended::Here(ends) => {
                [Way { ends: *ends, region: Some(then) }, Way { ends: others, region: Some(other) }]
            }
            Ended::Left => [
                Way { ends: others.clone(), region: None },
                Way { ends: others, region: Some(other) },
            ],
        };
        let ends = self.meet(inst, mark, ways)?;
        self.at = outside;
        Ok(ends)
    }

    /// True if an instruction changes nothing but what is known: it may be done in vain.
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
