//! The walk: follows the program as a processor would, with what is known instead of what is, and
//! writes αIR as it goes.
//!
//! A branch that is not decided becomes an `if`; both ways are followed to the first instruction
//! that they share, or to where all ways meet, and what they know is [joined](crate::join). Where
//! ways end at different places, the place is a number like others, and a choice by it follows; what
//! is known is kept for each place. Ways of a loop end where the next trip begins.
//! What cannot be joined is found only when it is read; then everything begins again, and at one
//! place more ways that hold different kinds of pointers are kept apart (the program behind it is
//! written once for each), so the walk ends. Loops
//! are followed trip by trip. [`MOST_STEPS`] bounds all of it.

use std::collections::{BTreeMap, BTreeSet};

use nicforge_ir::{Op, ValueId};
use nicforge_isa::ebpf::Insn;
use nicforge_isa::ebpf::insn::{LDDW, SOURCE_REGISTER, class, width};
use nicforge_isa::object::{PSEUDO_FUNCTION, PSEUDO_MAP, PSEUDO_VALUE};

use crate::error::{Halt, refuse};
use crate::flow::{CALL, CALL_REGISTER, EXIT, jumps, target};
use crate::helpers::number::TAIL_CALL;
use crate::join::{Ends, Way};
use crate::kernel_functions::Function;
use crate::lifter::Lifter;
use crate::maps::global;
use crate::state::{Fork, Frame, Memory, State};
use crate::value::{Abs, Cond, Num, Place, low};

/// Functions within functions at most: as many as in the kernel, and those that call callbacks.
const MOST_FRAMES: usize = 16;

/// Where a walk ends before the program does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stops {
    /// Instructions that it does not follow; one behind the last is the function's end.
    pub at: Vec<usize>,
    /// Number of frames there.
    pub depth: usize,
    /// Where trips of rolled loops around end, and the number of frames there.
    pub around: Vec<(usize, usize)>,
}

impl Stops {
    /// None: the walk goes on until the packet left.
    pub fn never() -> Stops {
        Stops { at: Vec::new(), depth: usize::MAX, around: Vec::new() }
    }

    pub fn contain(&self, at: usize, depth: usize) -> bool {
        self.depth == depth && self.at.contains(&at) || self.around.contains(&(at, depth))
    }

    /// True if nothing is said.
    fn is_empty(&self) -> bool {
        self.at.is_empty() && self.around.is_empty()
    }
}

/// Ends of a walk.
pub enum Ended {
    /// The packet left on all ways.
    Left,
    Here(Box<Ends>),
}

impl Lifter<'_> {
    /// Follows the program from an instruction on.
    pub fn walk(&mut self, from: usize, mut state: State, stops: &Stops) -> Result<Ended, Halt> {
        let mut at = from;
        if let Some(first) = state.first.take() {
            self.begin(&mut state, first)?;
        }
        loop {
            let depth = state.frames.len();
            let enters = self.enter.take() == Some(at);
            if stops.contain(at, depth) && !enters {
                return Ok(Ended::Here(Box::new(Ends::at(at, state))));
            }
            self.step()?;
            let Some(&insn) = self.insns.get(at) else {
                return refuse("control leaves the program");
            };
            self.here = at;
            self.span = self.lines.span(at);
            if self.flow.is_header(at) {
                *self.trips.entry(at).or_default() += 1;
                if self.rolled.contains(&at) && !enters {
                    match self.roll(at, state, stops)? {
                        Next::At(to, next) => (at, state) = (to, *next),
                        Next::Ended(ended) => return Ok(ended),
                    }
                    continue;
                }
            }
            match insn.code {
                EXIT if depth == 1 => {
                    self.verdict(&mut state)?;
                    return Ok(Ended::Left);
                }
                EXIT => {
                    let end = self.insns.len();
                    if stops.contain(end, depth) {
                        return Ok(Ended::Here(Box::new(Ends::at(end, state))));
                    }
                    at = leave(&mut state);
                }
                CALL if insn.src == 0 && insn.imm == TAIL_CALL => {
                    match self.tail_call(at, &mut state)? {
                        Some(entry) => at = entry,
                        None => at += 1,
                    }
                }
                CALL if insn.src != 1 => match self.call(insn, &mut state)? {
                    None => at += 1,
                    Some(Fork { cond, fails, again }) => {
                        let (next, like) =
                            if again { (at, None) } else { (at + 1, self.asked(at + 1)) };
                        let ways = [(next, state), (next, fails)];
                        match self.fork(cond, ways, like, stops)? {
                            Next::At(to, next) => (at, state) = (to, *next),
                            Next::Ended(ended) => return Ok(ended),
                        }
                    }
                },
                CALL => at = enter(at, beside(at, insn.imm)?, &mut state)?,
                CALL_REGISTER => match self.read(state.regs[usize::from(insn.dst.min(10))])? {
                    Abs::Function(to) => at = enter(at, to, &mut state)?,
                    other => return refuse(format!("calls {}", other.kind())),
                },
                _ if jumps(insn) => at = target(self.insns, at).unwrap_or(usize::MAX),
                code if matches!(code & 7, class::JMP | class::JMP32) => {
                    match self.branch(at, state, stops)? {
                        Next::At(to, next) => (at, state) = (to, *next),
                        Next::Ended(ended) => return Ok(ended),
                    }
                }
                _ => {
                    self.straight(insn, at, &mut state)?;
                    at += if insn.code == LDDW { 2 } else { 1 };
                }
            }
        }
    }

    /// A call of a helper, or of a function of the kernel.
    fn call(&mut self, insn: Insn, state: &mut State) -> Result<Option<Fork>, Halt> {
        if insn.src == 0 {
            return self.helper(insn.imm, state);
        }
        let name = self.object.externs.get(insn.imm as u32 as usize);
        let name = name.map_or("a function of the kernel", String::as_str);
        self.kernel_function(name, state)
    }

    /// Instructions that neither jump nor call.
    pub fn straight(&mut self, insn: Insn, at: usize, state: &mut State) -> Result<(), Halt> {
        let (dst, src) = (usize::from(insn.dst.min(10)), usize::from(insn.src.min(10)));
        let off = i64::from(insn.off);
        match insn.code & 7 {
            class::LD if insn.code == LDDW => state.regs[dst] = self.wide(insn, at)?,
            class::LD => self.load_classic(insn, state)?,
            class::LDX => {
                let bytes = width(insn.code) as u32;
                let pointer = self.read(state.regs[src])?;
                let found = self.load(state, pointer, off, bytes)?;
                state.regs[dst] = if insn.code & 0xe0 == 0x80 {
                    let num = self.num(found)?;
                    Abs::Num(self.extend(num, 8 * bytes, 64))
                } else {
                    found
                };
            }
            class::ST => {
                let pointer = self.read(state.regs[dst])?;
                let value = Abs::known(insn.imm as i64 as u64);
                self.store(state, pointer, off, width(insn.code) as u32, value)?;
            }
            class::STX if insn.code & 0xe0 == 0xc0 => self.atomic(insn, state)?,
            class::STX => {
                let pointer = self.read(state.regs[dst])?;
                let value = state.regs[src];
                self.store(state, pointer, off, width(insn.code) as u32, value)?;
            }
            _ => {
                let second = if insn.code & SOURCE_REGISTER != 0 && insn.code & 0xf0 != 0xd0 {
                    state.regs[src]
                } else {
                    Abs::known(insn.imm as i64 as u64)
                };
                state.regs[dst] = self.arithmetic(state, insn, state.regs[dst], second)?;
            }
        }
        Ok(())
    }

    fn wide(&mut self, insn: Insn, at: usize) -> Result<Abs, Halt> {
        let high = self.insns.get(at + 1).map_or(0, |next| next.imm);
        let index = insn.imm as u32 as usize;
        Ok(match insn.src {
            0 => Abs::known(u64::from(insn.imm as u32) | u64::from(high as u32) << 32),
            PSEUDO_MAP if self.object.maps.get(index).is_some_and(|map| map.kind == Some(0)) => {
                let name = self.map_name(index);
                return refuse(format!(
                    "map `{name}`, of which the object says nothing: compile it with -g, for BTF"
                ));
            }
            PSEUDO_MAP => Abs::Map(index),
            PSEUDO_FUNCTION => Abs::Function(beside(at, insn.imm)?),
            PSEUDO_VALUE => {
                let Some(map) = self.object.maps.get(index) else {
                    return refuse("refers to data that is not there");
                };
                let place = Place::at(high.into());
                // What loaders initialise and programs leave alone is constant too.
                if map.constant || !self.is_written(index) && !map.is_zero() {
                    Abs::Constant { map: index, place }
                } else {
                    Abs::Value { lookup: global(index), place }
                }
            }
            _ => {
                let name =
                    self.object.externs.get(index).map_or("an extern symbol", String::as_str);
                // Programs ask whether the kernel has a function.
                if Function::named(name).is_some() {
                    return Ok(Abs::known(1));
                }
                return refuse(format!("loads an address that only the kernel knows ({name})"));
            }
        })
    }

    /// Contents of a register, for whoever reads it.
    pub fn read(&self, abs: Abs) -> Result<Abs, Halt> {
        match abs {
            Abs::Mixed(meeting) => Err(Halt::Split(meeting)),
            Abs::Unusable(what) => refuse(format!("uses {what}")),
            Abs::Nothing => refuse("reads a register that was never written"),
            abs => Ok(abs),
        }
    }

    /// A number that is read.
    pub fn num(&self, abs: Abs) -> Result<Num, Halt> {
        match self.read(abs)? {
            Abs::Num(num) => Ok(num),
            other => refuse(format!("takes {} for a number", other.kind())),
        }
    }

    fn branch(&mut self, at: usize, state: State, stops: &Stops) -> Result<Next, Halt> {
        let insn = self.insns[at];
        let to = target(self.insns, at).unwrap_or(usize::MAX);
        let mut state = state;
        let cond = match self.condition(insn, &mut state)? {
            Cond::Known(known) => {
                let next = if known { to } else { at + 1 };
                return Ok(Next::At(next, Box::new(state)));
            }
            Cond::Value(id) => id,
        };
        let ways =
            [(to, self.refine(&state, insn, true)), (at + 1, self.refine(&state, insn, false))];
        match self.early_exits(at, to, state.frames.len(), stops) {
            Some(early) => self.leave_early(early, cond, ways, stops),
            None => self.fork(cond, ways, Some(at), stops),
        }
    }

    /// The branch that asks for what a helper returned, if it comes next.
    fn asked(&self, from: usize) -> Option<usize> {
        let asks = |at: &usize| matches!(self.insns[*at].code & 7, class::JMP | class::JMP32);
        let found = (from..self.insns.len().min(from + 16)).find(asks)?;
        (!jumps(self.insns[found]) && !matches!(self.insns[found].code, EXIT | CALL))
            .then_some(found)
    }

    /// Follows two ways that part now and meet where the ways of branch `like` do.
    fn fork(
        &mut self,
        cond: ValueId,
        ways: [(usize, State); 2],
        like: Option<usize>,
        outer: &Stops,
    ) -> Result<Next, Halt> {
        let inner = self.stops([ways[0].0, ways[1].0], ways[0].1.frames.len(), like, outer);
        self.deeper()?;
        let next = if inner.is_empty() {
            self.apart(cond, ways)
        } else {
            let found = self.together(cond, ways, &inner)?;
            self.go_on(found, inner, outer)
        };
        self.depth -= 1;
        next
    }

    /// Where two ways meet: at the first instruction that they share, or where all ways do.
    pub fn stops(
        &self,
        ways: [usize; 2],
        depth: usize,
        like: Option<usize>,
        outer: &Stops,
    ) -> Stops {
        let Some(name) = like else { return outer.clone() };
        let mut at = match self.flow.meet[name] {
            Some(meet) if !self.only_returns(meet, depth) => vec![meet],
            None if depth > 1 => vec![self.insns.len()],
            _ if outer.depth == depth || outer.at.is_empty() => outer.at.clone(),
            _ => return outer.clone(),
        };
        // Whoever is around goes on where it said.
        if outer.depth == depth {
            at.extend(&outer.at);
        }
        // A trip of a loop ends before the next one begins.
        at.extend(self.flow.headers(name));
        at.extend(self.flow.shared(ways, &at));
        self.flow.sort(name, &mut at);
        at.dedup();
        if at == outer.at {
            outer.clone()
        } else {
            Stops { at, depth, around: outer.around.clone() }
        }
    }

    /// Goes on where two ways met: at one of a few places, the first of which may lead to others.
    pub fn go_on(&mut self, ended: Ended, mut inner: Stops, outer: &Stops) -> Result<Next, Halt> {
        let Ended::Here(mut ends) = ended else { return Ok(Next::Ended(Ended::Left)) };
        let labels = self.labels();
        loop {
            // Where somebody around goes on must not be passed.
            let mut inside = inner.at.iter().filter(|at| !outer.contain(**at, inner.depth));
            let label = inside.find_map(|place| {
                ends.states.keys().find(|label| **label % labels == *place).copied()
            });
            let found = label.and_then(|label| Some((label, ends.states.remove(&label)?)));
            let Some((label, mut state)) = found else {
                return Ok(Next::Ended(Ended::Here(ends)));
            };
            let first = label % labels;
            let at = if first == self.insns.len() { leave(&mut state) } else { first };
            if ends.states.is_empty() {
                return Ok(Next::At(at, Box::new(state)));
            }
            inner.at.retain(|at| *at != first);
            let stops = inner.clone();
            if ends.states.keys().any(|label| label % labels == first) {
                inner.at.insert(0, first);
            }
            let cond = match self.equals(ends.next, label as u64) {
                Cond::Value(cond) => cond,
                Cond::Known(false) => continue,
                Cond::Known(true) => {
                    ends.states = BTreeMap::from([(label, state)]);
                    continue;
                }
            };
            let (then, stay) = (self.build().new_block(), self.build().new_block());
            let (outside, span) = (self.at, self.span);
            let mark = self.body.values.len() as u32;
            let inst = self.build().push0(Op::If { cond, likely: None, then, other: stay });
            self.at = then;
            let ended = self.walk(at, state, &stops)?;
            (self.at, self.span) = (outside, span);
            let stays = Way { ends: *ends, region: Some(stay) };
            let ways = match ended {
                Ended::Here(ends) => [Way { ends: *ends, region: Some(then) }, stays],
                Ended::Left => [Way { ends: stays.ends.clone(), region: None }, stays],
            };
            ends = Box::new(self.meet(inst, mark, ways)?);
            self.at = outside;
        }
    }

    /// More than every place where ways end: labels of ends count places by it.
    pub fn labels(&self) -> usize {
        self.insns.len() + 1
    }

    /// Registers that are read behind any of these places.
    pub fn live(&self, places: &[usize]) -> u16 {
        // Behind a function only its result is read.
        places.iter().fold(0, |all, at| all | self.flow.live.get(*at).copied().unwrap_or(1))
    }

    /// Ways that never meet: the shorter one in a region, the other behind it.
    fn apart(&mut self, cond: ValueId, ways: [(usize, State); 2]) -> Result<Next, Halt> {
        let [(to, taken), (next, not)] = ways;
        let first = self.reach(to) <= self.reach(next);
        let cond = if first { Cond::Value(cond) } else { self.negate(Cond::Value(cond)) };
        let Cond::Value(cond) = cond else { return refuse("a branch that is decided") };
        let ((short, inside), (long, behind)) =
            if first { ((to, taken), (next, not)) } else { ((next, not), (to, taken)) };
        let (outside, span) = (self.at, self.span);
        let (then, other) = (self.build().new_block(), self.build().new_block());
        self.build().push0(Op::If { cond, likely: None, then, other });
        self.at = then;
        self.walk(short, inside, &Stops::never())?;
        (self.at, self.span) = (other, span);
        self.build().push0(Op::Yield(Vec::new()));
        self.at = outside;
        Ok(Next::At(long, Box::new(behind)))
    }

    /// Ways that meet.
    fn together(
        &mut self,
        cond: ValueId,
        ways: [(usize, State); 2],
        inner: &Stops,
    ) -> Result<Ended, Halt> {
        let [(to, taken), (next, not)] = ways;
        self.weigh([&taken, &not].into_iter())?;
        let (outside, span) = (self.at, self.span);
        let mark = self.body.values.len() as u32;
        let (then, other) = (self.build().new_block(), self.build().new_block());
        let inst = self.build().push0(Op::If { cond, likely: None, then, other });
        self.at = then;
        let a = self.walk(to, taken, inner)?;
        (self.at, self.span) = (other, span);
        let b = self.walk(next, not, inner)?;
        let (a, b) = match (a, b) {
            (Ended::Left, Ended::Left) => {
                self.at = outside;
                self.build().push0(Op::Return(Vec::new()));
                return Ok(Ended::Left);
            }
            (Ended::Here(a), Ended::Left) => {
                (Way { ends: (*a).clone(), region: Some(then) }, Way { ends: *a, region: None })
            }
            (Ended::Left, Ended::Here(b)) => {
                (Way { ends: (*b).clone(), region: None }, Way { ends: *b, region: Some(other) })
            }
            (Ended::Here(a), Ended::Here(b)) => {
                (Way { ends: *a, region: Some(then) }, Way { ends: *b, region: Some(other) })
            }
        };
        let ends = self.meet(inst, mark, [a, b])?;
        self.at = outside;
        Ok(Ended::Here(Box::new(ends)))
    }

    /// True if nothing is left but to say what was decided: each way says so itself.
    pub fn only_returns(&self, from: usize, depth: usize) -> bool {
        let returns = |insn: &Insn| insn.code == EXIT;
        let copies = |insn: &Insn| matches!(insn.code, 0xb7 | 0xbf | 0xb4 | 0xbc);
        let end =
            self.insns.get(from..).unwrap_or_default().iter().take(4).find(|insn| !copies(insn));
        depth == 1 && end.is_some_and(returns)
    }

    /// How many instructions can be reached from one, up to a limit.
    fn reach(&self, from: usize) -> usize {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(at) = open.pop().filter(|_| seen.len() < 400) {
            if at >= self.insns.len() || !seen.insert(at) {
                continue;
            }
            let insn = self.insns[at];
            open.extend(target(self.insns, at));
            if insn.code != EXIT && !jumps(insn) {
                open.push(at + if insn.code == LDDW { 2 } else { 1 });
            }
        }
        seen.len()
    }

    /// Mask of a number that `bytes` bytes hold.
    pub fn cut(&mut self, abs: Abs, bytes: u32) -> Result<Num, Halt> {
        let num = self.num(abs)?;
        debug_assert!(low(8 * bytes) > 0);
        Ok(self.truncate(num, 8 * bytes))
    }
}

/// Ways behind a branch.
pub enum Next {
    At(usize, Box<State>),
    Ended(Ended),
}

/// The instruction that an immediate says from another one on.
fn beside(at: usize, by: i32) -> Result<usize, Halt> {
    usize::try_from(at as i64 + 1 + i64::from(by))
        .map_err(|_| Halt::Refused("calls something before the program".to_string()))
}

fn enter(at: usize, to: usize, state: &mut State) -> Result<usize, Halt> {
    if state.frames.len() >= MOST_FRAMES {
        return refuse(format!("calls functions more than {MOST_FRAMES} deep"));
    }
    let mut saved = [Abs::Nothing; 5];
    saved.copy_from_slice(&state.regs[6..11]);
    let frame = state.frames.len();
    state.frames.push(Frame { back: at + 1, saved, memory: Memory::default() });
    state.regs[6..10].fill(Abs::Nothing);
    state.regs[10] = Abs::Stack { frame, place: Place::at(0) };
    Ok(to)
}

/// Back to the caller: where it goes on.
fn leave(state: &mut State) -> usize {
    let Some(frame) = state.frames.pop() else { return usize::MAX };
    state.regs[1..6].fill(Abs::Nothing);
    state.regs[6..11].copy_from_slice(&frame.saved);
    frame.back
}
