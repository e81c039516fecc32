//! Functions of the kernel that programs call by name (kfuncs), and helpers of the same kind:
//! dynamic pointers, and iterators over numbers (`kernel/bpf/helpers.c`, `bpf_iter.c`).
//!
//! Both are structs on the stack that programs look at through these functions alone. A dynamic
//! pointer's two words hold where its bytes begin and where they end, as pointers into a packet, a
//! record of a ring buffer or a map's value; zeros say that it is null. An iterator's word holds
//! the number it is at, and the one where it ends.

use nicforge_ir::{BinOp, CmpOp};

use crate::error::{Halt, refuse};
use crate::helpers::{EINVAL, MOST_OFFSET};
use crate::lifter::Lifter;
use crate::state::{First, Fork, State};
use crate::value::{Abs, Cond, Num, Place};

const E2BIG: u64 = -7i64 as u64;
const ERANGE: u64 = -34i64 as u64;
/// Numbers that an iterator goes through at most (`BPF_MAX_LOOPS`).
const MOST_NUMBERS: u64 = 8 << 20;

/// The function that takes an iterator on.
pub const NEXT_NUMBER: &str = "bpf_iter_num_next";

/// Functions that have a meaning here.
#[derive(Clone, Copy)]
pub enum Function {
    DynptrNew,
    DynptrSize,
    DynptrIsNull,
    DynptrIsReadOnly,
    DynptrClone,
    DynptrAdjust,
    DynptrSlice,
    NumbersNew,
    NumbersNext,
    NumbersDestroy,
}

impl Function {
    /// A function by its name in the kernel.
    pub fn named(name: &str) -> Option<Function> {
        Some(match name {
            "bpf_dynptr_from_xdp" | "bpf_dynptr_from_skb" => Function::DynptrNew,
            "bpf_dynptr_size" => Function::DynptrSize,
            "bpf_dynptr_is_null" => Function::DynptrIsNull,
            "bpf_dynptr_is_rdonly" => Function::DynptrIsReadOnly,
            "bpf_dynptr_clone" => Function::DynptrClone,
            "bpf_dynptr_adjust" => Function::DynptrAdjust,
            "bpf_dynptr_slice" | "bpf_dynptr_slice_rdwr" => Function::DynptrSlice,
            "bpf_iter_num_new" => Function::NumbersNew,
            NEXT_NUMBER => Function::NumbersNext,
            "bpf_iter_num_destroy" => Function::NumbersDestroy,
            _ => return None,
        })
    }
}

/// A dynamic pointer: its bytes, unless it is null.
#[derive(Clone, Copy)]
struct Bytes {
    start: Abs,
    end: Abs,
}

/// Ways of a call that may fail: where its condition is known there is one, in `state`.
fn ways(succeeds: Cond, state: &mut State, fails: State) -> Option<Fork> {
    match succeeds {
        Cond::Known(true) => {}
        Cond::Known(false) => *state = fails,
        Cond::Value(cond) => return Some(Fork { cond, fails, again: false }),
    }
    None
}

impl Lifter<'_> {
    /// A call of a kernel function by its name, as [`Lifter::helper`] has it.
    pub fn kernel_function(&mut self, name: &str, state: &mut State) -> Result<Option<Fork>, Halt> {
        let args: [Abs; 5] = std::array::from_fn(|at| state.regs[at + 1]);
        let Some(function) = Function::named(name) else {
            return refuse(format!("calls {name}, which the object does not hold (kfunc)"));
        };
        let result = match function {
            Function::DynptrNew => self.dynptr_new(state, args)?,
            Function::DynptrSize => match self.dynptr(state, args[0])? {
                Some(bytes) => Abs::Num(self.dynptr_size(state, bytes)?),
                None => Abs::known(EINVAL),
            },
            Function::DynptrIsNull => Abs::known(self.dynptr(state, args[0])?.is_none().into()),
            Function::DynptrIsReadOnly => {
                self.dynptr(state, args[0])?;
                Abs::known(0)
            }
            Function::DynptrClone => {
                let bytes = self.dynptr(state, args[0])?;
                self.set_dynptr(state, args[1], bytes)?;
                Abs::known(if bytes.is_some() { 0 } else { EINVAL })
            }
            Function::DynptrAdjust => return self.dynptr_adjust(state, args),
            Function::DynptrSlice => return self.dynptr_slice(state, args),
            Function::NumbersNew => return self.numbers_from(state, args),
            Function::NumbersNext => return self.next_number(state, args[0]),
            Function::NumbersDestroy => {
                self.set_numbers(state, args[0], [Num::known(0); 2])?;
                Abs::Unusable("the result of a function without one")
            }
        };
        state.done(result);
        Ok(None)
    }

    /// `bpf_dynptr_read` and `bpf_dynptr_write`, which are helpers.
    pub fn dynptr_bytes(
        &mut self,
        state: &mut State,
        args: [Abs; 5],
        writes: bool,
    ) -> Result<Option<Fork>, Halt> {
        let [memory, size, pointer, off] = match writes {
            true => [args[2], args[3], args[0], args[1]],
            false => [args[0], args[1], args[2], args[3]],
        };
        let flags = self.num(args[4])?.constant();
        let Some(bytes) = self.dynptr(state, pointer)?.filter(|_| flags == Some(0)) else {
            if flags.is_none_or(|flags| flags != 0 && writes) {
                return refuse("reads or writes through a dynamic pointer with flags");
            }
            state.done(Abs::known(EINVAL));
            return Ok(None);
        };
        let memory = self.read(memory)?;
        let size = self.most_bytes(state, memory, size)?;
        let (packet, fits) = self.dynptr_part(state, bytes, off, size)?;
        let (from, to) = if writes { (memory, packet) } else { (packet, memory) };
        self.or_error(state, fits, E2BIG, (First::Copy { from, to, bytes: size }, None))
    }

    /// `bpf_dynptr_from_mem`: bytes of a map's value.
    pub fn dynptr_from_mem(&mut self, state: &mut State, args: [Abs; 5]) -> Result<Abs, Halt> {
        let start = self.read(args[0])?;
        let size = self.num(args[1])?.constant().filter(|size| *size <= MOST_OFFSET);
        let (Abs::Value { .. }, Some(size), Some(flags)) =
            (start, size, self.num(args[2])?.constant())
        else {
            return refuse(format!("makes a dynamic pointer of {}", start.kind()));
        };
        let bytes = Bytes { start, end: self.move_pointer(start, Num::known(size), false)? };
        self.set_dynptr(state, args[3], (flags == 0).then_some(bytes))?;
        Ok(Abs::known(if flags == 0 { 0 } else { EINVAL }))
    }

    /// `bpf_ringbuf_reserve_dynptr`: there is always room.
    pub fn reserve_dynptr(&mut self, state: &mut State, args: [Abs; 5]) -> Result<Abs, Halt> {
        let start = self.reserve(state, args)?;
        let size = self.num(args[1])?;
        let bytes = Bytes { start, end: self.move_pointer(start, size, false)? };
        self.set_dynptr(state, args[3], Some(bytes))?;
        Ok(Abs::known(0))
    }

    /// `bpf_ringbuf_submit_dynptr` and `bpf_ringbuf_discard_dynptr`: of the whole record, wherever
    /// the pointer begins by now.
    pub fn give_dynptr(&mut self, state: &mut State, at: Abs, sent: bool) -> Result<Abs, Halt> {
        let result = match self.dynptr(state, at)? {
            Some(Bytes { start: Abs::Record { record, .. }, .. }) => {
                let whole = Abs::Record { record, place: Place::at(0) };
                self.give_record(state, whole, sent)?
            }
            Some(other) => return refuse(format!("gives {} away", other.start.kind())),
            None => Abs::Unusable("the result of giving a record away"),
        };
        self.set_dynptr(state, at, None)?;
        Ok(result)
    }

    /// `bpf_dynptr_data`: a pointer to a part, or null; packets are for slices.
    pub fn dynptr_data(&mut self, state: &mut State, args: [Abs; 5]) -> Result<Option<Fork>, Halt> {
        match self.dynptr(state, args[0])? {
            Some(bytes) if !matches!(bytes.start, Abs::Packet { .. }) => {
                self.part_or_null(state, bytes, args[1], args[2])
            }
            _ => {
                state.done(Abs::known(0));
                Ok(None)
            }
        }
    }

    /// The packet as it is now.
    fn dynptr_new(&mut self, state: &mut State, args: [Abs; 5]) -> Result<Abs, Halt> {
        if !matches!(self.read(args[0])?, Abs::Context(0)) {
            return refuse("makes a dynamic pointer of something else than the context");
        }
        let fine = match self.num(args[1])?.constant() {
            Some(flags) => flags == 0,
            None => return refuse("makes a dynamic pointer by flags that vary"),
        };
        let epoch = state.epoch;
        let start = Abs::Packet { place: Place::at(0), epoch };
        let bytes = Bytes { start, end: Abs::PacketEnd { off: 0, epoch } };
        self.set_dynptr(state, args[2], fine.then_some(bytes))?;
        Ok(Abs::known(if fine { 0 } else { EINVAL }))
    }

    fn set_dynptr(&mut self, state: &mut State, at: Abs, to: Option<Bytes>) -> Result<(), Halt> {
        let null = Bytes { start: Abs::known(0), end: Abs::known(0) };
        let Bytes { start, end } = to.unwrap_or(null);
        self.store(state, at, 0, 8, start)?;
        self.store(state, at, 8, 8, end)
    }

    /// The bytes of a dynamic pointer; none if it is null.
    fn dynptr(&mut self, state: &mut State, at: Abs) -> Result<Option<Bytes>, Halt> {
        let (start, end) = (self.load(state, at, 0, 8)?, self.load(state, at, 8, 8)?);
        match (self.read(start)?, self.read(end)?) {
            (Abs::Num(zero), _) if zero == Num::known(0) => Ok(None),
            (Abs::Packet { epoch, .. }, end) if epoch == state.epoch => {
                Ok(Some(Bytes { start, end }))
            }
            (Abs::Record { .. } | Abs::Value { .. }, end) => {
                let start = self.read(start)?;
                Ok(Some(Bytes { start, end }))
            }
            (Abs::Packet { .. }, _) => {
                refuse("uses a dynamic pointer from before the packet's ends moved")
            }
            (other, _) => refuse(format!("uses {} as a dynamic pointer", other.kind())),
        }
    }

    fn dynptr_size(&mut self, state: &State, bytes: Bytes) -> Result<Num, Halt> {
        let size = match bytes.start {
            Abs::Packet { .. } => self.distance(state, bytes.end, bytes.start)?,
            _ => {
                let (start, end) = (self.offset_in(bytes.start)?, self.offset_in(bytes.end)?);
                self.sub(end, start)
            }
        };
        // Never less than nothing, and no packet is longer.
        Ok(match size.id {
            Some(id) => Num::within(id, size.lo.min(MOST_OFFSET), size.hi.min(MOST_OFFSET)),
            None => size,
        })
    }

    /// Bytes of a pointer behind the start of its memory.
    fn offset_in(&mut self, pointer: Abs) -> Result<Num, Halt> {
        match pointer {
            Abs::Packet { place, .. } | Abs::Record { place, .. } | Abs::Value { place, .. } => {
                let off = Num::known(place.off as u64);
                Ok(place.var.map_or(off, |var| self.add(var, off)))
            }
            other => refuse(format!("uses {} in a dynamic pointer", other.kind())),
        }
    }

    /// A part of a dynamic pointer's bytes, and the condition that it is there.
    fn dynptr_part(
        &mut self,
        state: &State,
        bytes: Bytes,
        off: Abs,
        size: Num,
    ) -> Result<(Abs, Cond), Halt> {
        let off = self.cut(off, 4)?;
        if off.constant().is_some_and(|off| off > MOST_OFFSET) {
            return Ok((bytes.start, Cond::Known(false)));
        }
        let start = self.move_pointer(bytes.start, off, false)?;
        // A number that varies may be so large that the sum is small again.
        let near = match off.hi > MOST_OFFSET {
            true => self.compare(CmpOp::Le, false, off, Num::known(MOST_OFFSET), 64),
            false => Cond::Known(true),
        };
        let fits = match (start, bytes.end, size.constant()) {
            (Abs::Packet { place, .. }, Abs::PacketEnd { .. }, Some(size)) => {
                self.place_fits(state, place, size as u32)
            }
            (Abs::Packet { place, .. }, Abs::PacketEnd { .. }, None) => {
                self.varying_fits(state, place, size)
            }
            (_, end, _) => {
                let from = self.offset_in(start)?;
                let (last, end) = (self.add(from, size), self.offset_in(end)?);
                self.compare(CmpOp::Le, false, last, end, 64)
            }
        };
        Ok((start, self.both(near, fits)))
    }

    /// A pointer to a part, or null; all of a packet is in one piece, so no buffer is needed.
    fn dynptr_slice(&mut self, state: &mut State, args: [Abs; 5]) -> Result<Option<Fork>, Halt> {
        match self.dynptr(state, args[0])? {
            Some(bytes) => self.part_or_null(state, bytes, args[1], args[3]),
            None => {
                state.done(Abs::known(0));
                Ok(None)
            }
        }
    }

    fn part_or_null(
        &mut self,
        state: &mut State,
        bytes: Bytes,
        off: Abs,
        size: Abs,
    ) -> Result<Option<Fork>, Halt> {
        let Some(size) = self.cut(size, 4)?.constant() else {
            return refuse("takes a part of a dynamic pointer of a number of bytes that varies");
        };
        let (start, fits) = self.dynptr_part(state, bytes, off, Num::known(size))?;
        let mut fails = state.clone();
        fails.done(Abs::known(0));
        state.done(start);
        if let (Cond::Value(_), Abs::Packet { place: Place { off, var: None }, .. }) = (fits, start)
        {
            state.at_least = state.at_least.max(off.saturating_add_unsigned(size));
        }
        Ok(ways(fits, state, fails))
    }

    /// Another start and end, both from the start on.
    fn dynptr_adjust(&mut self, state: &mut State, args: [Abs; 5]) -> Result<Option<Fork>, Halt> {
        let (from, to) = (self.num(args[1])?, self.num(args[2])?);
        let (from, to) = (self.truncate(from, 32), self.truncate(to, 32));
        let bytes = self.dynptr(state, args[0])?;
        let ordered = self.compare(CmpOp::Le, false, from, to, 64);
        let Some(bytes) = bytes.filter(|_| ordered != Cond::Known(false)) else {
            state.done(Abs::known(EINVAL));
            return Ok(None);
        };
        let size = self.dynptr_size(state, bytes)?;
        let within = self.compare(CmpOp::Le, false, to, size, 64);
        let fits = self.both(ordered, within);
        let (start, end) = (
            self.move_pointer(bytes.start, from, false)?,
            self.move_pointer(bytes.start, to, false)?,
        );
        let mut fails = state.clone();
        let error = self.select(ordered, Num::known(ERANGE), Num::known(EINVAL));
        fails.done(Abs::Num(error));
        self.set_dynptr(state, args[0], Some(Bytes { start, end }))?;
        state.done(Abs::known(0));
        Ok(ways(fits, state, fails))
    }

    fn set_numbers(&mut self, state: &mut State, at: Abs, to: [Num; 2]) -> Result<(), Halt> {
        self.store(state, at, 0, 4, Abs::Num(to[0]))?;
        self.store(state, at, 4, 4, Abs::Num(to[1]))
    }

    /// An iterator from one number up to another one; it begins in front of the first.
    fn numbers_from(&mut self, state: &mut State, args: [Abs; 5]) -> Result<Option<Fork>, Halt> {
        let (start, end) = (self.cut(args[1], 4)?, self.cut(args[2], 4)?);
        let ordered = self.compare(CmpOp::Le, true, start, end, 32);
        let (wide_start, wide_end) = (self.extend(start, 32, 64), self.extend(end, 32, 64));
        let count = self.sub(wide_end, wide_start);
        let few = self.compare(CmpOp::Le, true, count, Num::known(MOST_NUMBERS), 64);
        let fine = self.both(ordered, few);
        let before = self.binary(BinOp::Sub, start, Num::known(1), 32);
        let error = self.select(ordered, Num::known(E2BIG), Num::known(EINVAL));
        let mut fails = state.clone();
        self.set_numbers(&mut fails, args[0], [Num::known(0); 2])?;
        fails.done(Abs::Num(error));
        self.set_numbers(state, args[0], [before, end])?;
        state.done(Abs::known(0));
        Ok(ways(fine, state, fails))
    }

    /// A pointer to the next number, which is in the iterator, or null at the end.
    fn next_number(&mut self, state: &mut State, at: Abs) -> Result<Option<Fork>, Halt> {
        let at = self.read(at)?;
        let (before, end) = (self.load(state, at, 0, 4)?, self.load(state, at, 4, 4)?);
        let (before, end) = (self.num(before)?, self.num(end)?);
        let next = self.binary(BinOp::Add, before, Num::known(1), 32);
        let more = self.compare(CmpOp::Lt, true, next, end, 32);
        let mut ends = state.clone();
        self.set_numbers(&mut ends, at, [Num::known(0); 2])?;
        ends.done(Abs::known(0));
        self.store(state, at, 0, 4, Abs::Num(next))?;
        state.done(at);
        Ok(ways(more, state, ends))
    }
}
