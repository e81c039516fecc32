//! Arithmetic and comparisons, of numbers and of pointers.

use nicforge_ir::{BinOp, CmpOp, Op, Type, ValueId};
use nicforge_isa::ebpf::Insn;
use nicforge_isa::ebpf::insn::{SOURCE_REGISTER, class};

use crate::emit::holds;
use crate::error::{Halt, refuse};
use crate::helpers::MOST_OFFSET;
use crate::lifter::Lifter;
use crate::memory::alive;
use crate::state::State;
use crate::value::{Abs, Cond, Num, Place, low, sign_extend};

/// The low half of a pointer, which compilers move about where it is not needed.
const HALF: Abs = Abs::Unusable("half of a pointer");

fn is_unusable(abs: Abs) -> bool {
    matches!(abs, Abs::Unusable(_))
}

impl Lifter<'_> {
    /// Arithmetic: what the destination holds afterwards.
    pub fn arithmetic(
        &mut self,
        state: &State,
        insn: Insn,
        first: Abs,
        second: Abs,
    ) -> Result<Abs, Halt> {
        let narrow = insn.code & 7 == class::ALU;
        let (bits, operation) = (if narrow { 32 } else { 64 }, insn.code & 0xf0);
        if operation == 0xb0 {
            if !narrow && insn.off == 0 {
                return Ok(second);
            }
            // The low half of a packet pointer is good for distances only, which fit it.
            if narrow && insn.off == 0 && in_packet(second) {
                return Ok(second);
            }
            let second = self.read(second)?;
            let Abs::Num(num) = second else { return Ok(HALF) };
            return Ok(Abs::Num(match insn.off {
                0 => self.truncate(num, 32),
                from @ (8 | 16 | 32) => self.extend(num, from as u32, bits),
                _ => return refuse("a move that is not known"),
            }));
        }
        // What is made of it is as little used as it is.
        if let Some(unusable) = [first, second].into_iter().find(|abs| is_unusable(*abs)) {
            return Ok(unusable);
        }
        let first = self.read(first)?;
        if matches!(operation, 0x80 | 0xd0) {
            let num = self.num(first)?;
            return Ok(Abs::Num(match operation {
                0x80 => self.binary(BinOp::Sub, Num::known(0), num, bits),
                // To little-endian is no change; `bswap` has the wide class.
                _ if narrow && insn.code & SOURCE_REGISTER == 0 => {
                    self.truncate(num, insn.imm as u32)
                }
                _ => match insn.imm {
                    16 | 32 | 64 => self.swap(num, insn.imm as u32),
                    _ => return refuse("a byte swap that is not known"),
                },
            }));
        }
        let second = self.read(second)?;
        if let (Abs::Num(a), Abs::Num(b)) = (first, second) {
            return self.numbers(operation, insn.off != 0, a, b, bits).map(Abs::Num);
        }
        if narrow && operation == 0x10 && in_packet(first) && in_packet(second) {
            let distance = self.distance(state, first, second)?;
            return Ok(Abs::Num(self.truncate(distance, 32)));
        }
        if narrow && !(in_packet(first) && matches!(operation, 0x00 | 0x10)) {
            return Ok(HALF);
        }
        match (operation, first, second) {
            (0x00, pointer, Abs::Num(by)) | (0x00, Abs::Num(by), pointer) => {
                self.move_pointer(pointer, by, false)
            }
            (0x10, pointer, Abs::Num(by)) => self.move_pointer(pointer, by, true),
            (0x10, a, b) => self.distance(state, a, b).map(Abs::Num),
            _ => refuse(format!("arithmetic with {}", first.kind())),
        }
    }

    fn numbers(
        &mut self,
        operation: u8,
        signed: bool,
        a: Num,
        b: Num,
        bits: u32,
    ) -> Result<Num, Halt> {
        let shift = matches!(operation, 0x60 | 0x70 | 0xc0);
        let b =
            if shift { self.binary(BinOp::And, b, Num::known(u64::from(bits) - 1), 64) } else { b };
        let op = match operation {
            0x00 => BinOp::Add,
            0x10 => BinOp::Sub,
            0x20 => BinOp::Mul,
            0x30 => BinOp::Div,
            0x40 => BinOp::Or,
            0x50 => BinOp::And,
            0x60 => BinOp::Shl,
            0x70 | 0xc0 => BinOp::Shr,
            0x90 => BinOp::Rem,
            0xa0 => BinOp::Xor,
            _ => return refuse("an arithmetic instruction that is not known"),
        };
        // A negative number is added to take its opposite away.
        let (op, b) = match b.constant() {
            Some(by) if op == BinOp::Add && by >> (bits - 1) & 1 == 1 => {
                (BinOp::Sub, Num::known(by.wrapping_neg() & low(bits)))
            }
            _ => (op, b),
        };
        let signed = operation == 0xc0 || signed && matches!(op, BinOp::Div | BinOp::Rem);
        Ok(if signed { self.signed_binary(op, a, b, bits) } else { self.binary(op, a, b, bits) })
    }

    pub fn move_pointer(&mut self, pointer: Abs, by: Num, back: bool) -> Result<Abs, Halt> {
        let mut shift = |place: Place| -> Place {
            if let Some(by) = by.constant() {
                return place.plus(if back { (by as i64).wrapping_neg() } else { by as i64 });
            }
            let (op, old) = (if back { BinOp::Sub } else { BinOp::Add }, place.var);
            let var = self.binary(op, old.unwrap_or(Num::known(0)), by, 64);
            Place { var: Some(var), ..place }
        };
        Ok(match pointer {
            Abs::Packet { place, epoch } => Abs::Packet { place: shift(place), epoch },
            Abs::Stack { frame, place } => Abs::Stack { frame, place: shift(place) },
            Abs::Value { lookup, place } => Abs::Value { lookup, place: shift(place) },
            Abs::Record { record, place } => Abs::Record { record, place: shift(place) },
            Abs::Constant { map, place } => Abs::Constant { map, place: shift(place) },
            Abs::Context(off) if by.id.is_none() => {
                let by = by.lo as i64;
                Abs::Context(off.wrapping_add(if back { by.wrapping_neg() } else { by }))
            }
            Abs::PacketEnd { off, epoch } if by.id.is_none() => {
                let by = by.lo as i64;
                let off = off.wrapping_add(if back { by.wrapping_neg() } else { by });
                Abs::PacketEnd { off, epoch }
            }
            other => return refuse(format!("adds to {}", other.kind())),
        })
    }

    /// Bytes of a packet pointer behind the packet's start.
    pub fn position(&mut self, state: &State, pointer: Abs) -> Result<Num, Halt> {
        match state.renewed(pointer) {
            Abs::Packet { place, epoch } => {
                alive(state, epoch)?;
                let off = Num::known(place.off as u64);
                Ok(place.var.map_or(off, |var| self.add(var, off)))
            }
            Abs::PacketEnd { off, epoch } => {
                alive(state, epoch)?;
                let len = self.packet_len(state);
                Ok(self.add(len, Num::known(off as u64)))
            }
            other => refuse(format!("compares {} with a packet pointer", other.kind())),
        }
    }

    pub fn distance(&mut self, state: &State, a: Abs, b: Abs) -> Result<Num, Halt> {
        let offsets = |p: Place, q: Place| (p.var == q.var).then(|| p.off.wrapping_sub(q.off));
        match (a, b) {
            (Abs::Stack { frame: f, place: p }, Abs::Stack { frame: g, place: q }) if f == g => {
                match offsets(p, q) {
                    Some(by) => Ok(Num::known(by as u64)),
                    None => refuse("subtracts stack pointers"),
                }
            }
            // Both from before the packet's ends moved.
            (Abs::Packet { place: p, epoch: e }, Abs::Packet { place: q, epoch: f }) if e == f => {
                let [x, y] = [p, q].map(|place| {
                    let off = Num::known(place.off as u64);
                    place.var.map_or(off, |var| self.add(var, off))
                });
                Ok(self.sub(x, y))
            }
            _ => {
                let (x, y) = (self.position(state, a)?, self.position(state, b)?);
                Ok(self.sub(x, y))
            }
        }
    }

    /// The condition under which a branch is taken.
    pub fn condition(&mut self, insn: Insn, state: &mut State) -> Result<Cond, Halt> {
        let (a, b) = operands(insn, state);
        let (a, b) = (self.read(a)?, self.read(b)?);
        let bits = if insn.code & 7 == class::JMP32 { 32 } else { 64 };
        let Some((op, signed)) = comparison(insn) else {
            if insn.code & 0xf0 != 0x40 {
                return refuse("a jump that is not known");
            }
            let (x, y) = (self.num(a)?, self.num(b)?);
            let both = self.binary(BinOp::And, x, y, bits);
            return Ok(self.compare(CmpOp::Ne, false, both, Num::known(0), bits));
        };
        match (a, b) {
            (Abs::Num(x), Abs::Num(y)) => Ok(self.compare(op, signed, x, y, bits)),
            (Abs::Value { lookup, .. }, Abs::Num(null)) if null == Num::known(0) => {
                let hit = state.lookups.get(&lookup).map_or(Cond::Known(true), |found| found.hit);
                match op {
                    CmpOp::Eq | CmpOp::Le => Ok(self.negate(hit)),
                    CmpOp::Ne | CmpOp::Gt => Ok(hit),
                    _ => refuse("compares a pointer to a map value with null"),
                }
            }
            // Nothing is at addresses of small numbers, positive or negative.
            (pointer, Abs::Num(number))
                if matches!(op, CmpOp::Eq | CmpOp::Ne)
                    && number.constant().is_some_and(|at| at != 0 && no_address(at))
                    && !may_be_null(state, pointer) =>
            {
                Ok(Cond::Known(op == CmpOp::Ne))
            }
            // No other pointer is null.
            (_, Abs::Num(null)) if null == Num::known(0) => Ok(Cond::Known(match op {
                CmpOp::Eq | CmpOp::Lt | CmpOp::Le => false,
                CmpOp::Ne | CmpOp::Gt | CmpOp::Ge => true,
            })),
            (Abs::Packet { place, epoch }, Abs::PacketEnd { off, .. }) => {
                alive(state, epoch)?;
                self.against_end(state, op, place.plus(off.wrapping_neg()))
            }
            (Abs::PacketEnd { off, epoch }, Abs::Packet { place, .. }) => {
                alive(state, epoch)?;
                self.against_end(state, op.mirrored(), place.plus(off.wrapping_neg()))
            }
            (Abs::Packet { .. } | Abs::PacketEnd { .. }, _) => {
                let (x, y) = (self.position(state, a)?, self.position(state, b)?);
                Ok(self.compare(op, true, x, y, 64))
            }
            (Abs::Stack { place: p, .. }, Abs::Stack { place: q, .. })
                if p.var.is_none() && q.var.is_none() =>
            {
                let (x, y) = (Num::known(p.off as u64), Num::known(q.off as u64));
                Ok(self.compare(op, true, x, y, 64))
            }
            // One address, whatever it is.
            (Abs::Context(_), Abs::Context(_)) if a == b => {
                Ok(self.compare(op, false, Num::known(0), Num::known(0), 64))
            }
            _ => refuse(format!("compares {} with {}", a.kind(), b.kind())),
        }
    }

    /// Compares a place in the packet with the packet's end.
    fn against_end(&mut self, state: &State, op: CmpOp, place: Place) -> Result<Cond, Halt> {
        let known = place.var.and_then(|var| state.varying.get(&var.id?));
        let is = |off: i64| match known {
            Some((within, _)) if off <= *within => Some(true),
            Some((_, beyond)) if off >= *beyond => Some(false),
            _ => None,
        };
        let said = match op {
            CmpOp::Le => is(place.off),
            CmpOp::Lt => is(place.off.saturating_add(1)),
            CmpOp::Gt => is(place.off).map(|fits| !fits),
            CmpOp::Ge => is(place.off.saturating_add(1)).map(|fits| !fits),
            _ => None,
        };
        if let Some(said) = said {
            return Ok(Cond::Known(said));
        }
        if place.var.is_some() || matches!(op, CmpOp::Eq | CmpOp::Ne) {
            let len = self.packet_len(state);
            let off = Num::known(place.off as u64);
            let at = place.var.map_or(off, |var| self.add(var, off));
            return Ok(self.compare(op, place.off < 0, at, len, 64));
        }
        Ok(match op {
            CmpOp::Le => self.fits(state, place.off),
            CmpOp::Lt => self.fits(state, place.off.saturating_add(1)),
            CmpOp::Gt => {
                let fits = self.fits(state, place.off);
                self.negate(fits)
            }
            _ => {
                let fits = self.fits(state, place.off.saturating_add(1));
                self.negate(fits)
            }
        })
    }

    /// Condition that the packet has so many bytes.
    pub fn fits(&mut self, state: &State, bytes: i64) -> Cond {
        if bytes <= state.at_least || bytes <= state.front.bytes {
            return Cond::Known(true);
        }
        if bytes > 0xffff || bytes >= state.too_many {
            return Cond::Known(false);
        }
        let last = (bytes - 1 - state.front.bytes) as u64;
        let off = self.build().int(last, Type::U32);
        let pkt = self.pkt;
        let (ok, _) = self.build().push2(Op::Load { pkt, off }, Type::BOOL, Type::U8);
        Cond::Value(ok)
    }

    /// Facts on one way of a branch.
    pub fn refine(&mut self, state: &State, insn: Insn, taken: bool) -> State {
        let mut state = state.clone();
        let (a, b) = operands(insn, &state);
        let Some((op, signed)) = comparison(insn) else { return state };
        let op = if taken { op } else { op.inverse() };
        let bits = if insn.code & 7 == class::JMP32 { 32 } else { 64 };
        match (a, b) {
            (Abs::Num(x), Abs::Num(y)) => {
                let whole = crate::value::low(bits);
                let most = if signed { whole >> 1 } else { whole };
                for (num, op, by) in [(x, op, y), (y, op.mirrored(), x)] {
                    // What is above a number without sign has none either.
                    let above = matches!(op, CmpOp::Eq | CmpOp::Gt | CmpOp::Ge) && num.hi <= whole;
                    if by.hi > most || num.hi > most && !above {
                        continue;
                    }
                    let num = Num { hi: num.hi.min(most), ..num };
                    if let Some((id, range)) = bound(num, op, by) {
                        self.narrow(&mut state, id, range);
                    }
                }
                if let Some(by) = y.constant() {
                    self.leave_of_few(&mut state, x, |value| {
                        low_holds(op, signed, value, by, bits)
                    });
                }
            }
            (Abs::Value { lookup, .. }, Abs::Num(_)) => {
                state.found(lookup, matches!(op, CmpOp::Ne | CmpOp::Gt));
            }
            (Abs::Packet { place, .. }, Abs::PacketEnd { off, .. }) => {
                note_end(&mut state, op, place, off);
            }
            (Abs::PacketEnd { off, .. }, Abs::Packet { place, .. }) => {
                note_end(&mut state, op.mirrored(), place, off);
            }
            _ => {}
        }
        state
    }

    /// Notes which of the few numbers that a number is one of are left.
    fn leave_of_few(&self, state: &mut State, num: Num, left: impl Fn(u64) -> bool) {
        let Some(few) = num.id.and_then(|id| self.choice(id, 0)) else { return };
        let few = few.into_iter().filter(|value| (num.lo..=num.hi).contains(value) && left(*value));
        let few: Vec<u64> = few.collect();
        if let (Some(id), Some(lo), Some(hi)) = (num.id, few.first(), few.last()) {
            state.narrow(id, *lo, *hi);
        }
    }
}

/// True if a comparison of the low bits of two numbers holds.
fn low_holds(op: CmpOp, signed: bool, a: u64, b: u64, bits: u32) -> bool {
    let of = |value: u64| {
        let cut = value & low(bits);
        // Numbers with signs in the order of numbers without.
        if signed { sign_extend(cut, bits) ^ 1 << 63 } else { cut }
    };
    holds(op, of(a), of(b))
}

/// True of a number that is the address of nothing.
fn no_address(number: u64) -> bool {
    (number as i64).unsigned_abs() <= MOST_OFFSET
}

fn may_be_null(state: &State, pointer: Abs) -> bool {
    let Abs::Value { lookup, .. } = pointer else { return false };
    state.lookups.get(&lookup).is_some_and(|found| found.hit != Cond::Known(true))
}

fn in_packet(abs: Abs) -> bool {
    matches!(abs, Abs::Packet { .. } | Abs::PacketEnd { .. })
}

/// Notes what a comparison of a place with the packet's end said.
fn note_end(state: &mut State, op: CmpOp, place: Place, end: i64) {
    let bytes = place.off.wrapping_sub(end);
    let (within, beyond) = match op {
        CmpOp::Le | CmpOp::Eq => (bytes, i64::MAX),
        CmpOp::Lt => (bytes.saturating_add(1), i64::MAX),
        CmpOp::Gt => (i64::MIN, bytes),
        CmpOp::Ge => (i64::MIN, bytes.saturating_add(1)),
        CmpOp::Ne => return,
    };
    match place.var {
        None => {
            state.at_least = state.at_least.max(within);
            state.too_many = state.too_many.min(beyond);
        }
        Some(Num { id: Some(id), .. }) => {
            let known = state.varying.entry(id).or_insert((i64::MIN, i64::MAX));
            *known = (known.0.max(within), known.1.min(beyond));
        }
        Some(_) => {}
    }
}

/// The range that a comparison leaves to a number that varies.
fn bound(num: Num, op: CmpOp, by: Num) -> Option<(ValueId, (u64, u64))> {
    let (lo, hi) = match op {
        CmpOp::Eq => (by.lo, by.hi),
        CmpOp::Lt => (0, by.hi.saturating_sub(1)),
        CmpOp::Le => (0, by.hi),
        CmpOp::Gt => (by.lo.saturating_add(1), u64::MAX),
        CmpOp::Ge => (by.lo, u64::MAX),
        CmpOp::Ne if by.id.is_none() && by.lo == num.lo => (num.lo.saturating_add(1), num.hi),
        CmpOp::Ne if by.id.is_none() && by.lo == num.hi => (num.lo, num.hi.saturating_sub(1)),
        CmpOp::Ne => return None,
    };
    let (lo, hi) = (lo.max(num.lo), hi.min(num.hi));
    // Ways that nothing takes keep what they had.
    num.id.filter(|_| lo <= hi).map(|id| (id, (lo, hi)))
}

fn operands(insn: Insn, state: &State) -> (Abs, Abs) {
    let first = state.regs[usize::from(insn.dst.min(10))];
    let second = if insn.code & SOURCE_REGISTER != 0 {
        state.regs[usize::from(insn.src.min(10))]
    } else {
        Abs::known(insn.imm as i64 as u64)
    };
    (state.renewed(first), state.renewed(second))
}

/// Comparison of a jump, and whether its numbers have signs.
fn comparison(insn: Insn) -> Option<(CmpOp, bool)> {
    Some(match insn.code & 0xf0 {
        0x10 => (CmpOp::Eq, false),
        0x20 => (CmpOp::Gt, false),
        0x30 => (CmpOp::Ge, false),
        0x50 => (CmpOp::Ne, false),
        0x60 => (CmpOp::Gt, true),
        0x70 => (CmpOp::Ge, true),
        0xa0 => (CmpOp::Lt, false),
        0xb0 => (CmpOp::Le, false),
        0xc0 => (CmpOp::Lt, true),
        0xd0 => (CmpOp::Le, true),
        _ => return None,
    })
}
