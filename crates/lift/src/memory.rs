//! Loads and stores by kind of pointer.

use nicforge_ir::{BinOp, CmpOp, ConstArray, Op, Type, ValueId};

use crate::error::{Halt, refuse};
use crate::helpers::MOST_OFFSET;
use crate::lifter::Lifter;
use crate::state::{Memory, State};
use crate::value::{Abs, Num, Place};

/// Which memory with constant places is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Frame(usize),
    Front,
    Context,
    Record(u32),
}

fn room(state: &mut State, room: Room) -> Result<&mut Memory, Halt> {
    match room {
        Room::Front => Ok(&mut state.front.memory),
        Room::Context => Ok(&mut state.context),
        Room::Record(record) => match state.records.get_mut(&record) {
            Some(record) => Ok(&mut record.memory),
            None => refuse("uses a record that was given away"),
        },
        Room::Frame(frame) => match state.frames.get_mut(frame) {
            Some(frame) => Ok(&mut frame.memory),
            None => refuse("uses the stack of a function that ended"),
        },
    }
}

/// The first place that a varying one may be.
fn least(off: i64, var: Num) -> i64 {
    if var.hi > MOST_OFFSET { off } else { off.saturating_add(var.lo as i64) }
}

impl Lifter<'_> {
    /// Reads `bytes` bytes.
    pub fn load(
        &mut self,
        state: &mut State,
        pointer: Abs,
        off: i64,
        bytes: u32,
    ) -> Result<Abs, Halt> {
        match self.read(pointer)? {
            Abs::Context(base) => self.load_context(state, base + off, bytes),
            Abs::Packet { place, epoch } => {
                alive(state, epoch)?;
                self.load_packet(state, place.plus(off), bytes).map(Abs::Num)
            }
            Abs::Stack { frame, place } => {
                self.load_room(state, Room::Frame(frame), place.plus(off), bytes)
            }
            Abs::Record { record, place } => {
                self.load_room(state, Room::Record(record), place.plus(off), bytes)
            }
            Abs::Value { lookup, place } => {
                let place = place.plus(off);
                let found = self.load_entry(state, lookup, place, bytes)?;
                self.over_first(lookup, place, bytes, found).map(Abs::Num)
            }
            Abs::Constant { map, place } => {
                self.load_constant(map, place.plus(off), bytes).map(Abs::Num)
            }
            other => refuse(format!("reads through {}", other.kind())),
        }
    }

    /// Writes `bytes` bytes.
    pub fn store(
        &mut self,
        state: &mut State,
        pointer: Abs,
        off: i64,
        bytes: u32,
        value: Abs,
    ) -> Result<(), Halt> {
        match self.read(pointer)? {
            Abs::Context(base) => self.store_context(state, base + off, bytes, value),
            Abs::Stack { frame, place } => {
                self.store_room(state, Room::Frame(frame), place.plus(off), bytes, value)
            }
            Abs::Record { record, place } => {
                self.store_room(state, Room::Record(record), place.plus(off), bytes, value)
            }
            Abs::Packet { place, epoch } => {
                alive(state, epoch)?;
                let num = self.cut(value, bytes)?;
                self.store_packet(state, place.plus(off), bytes, num)
            }
            Abs::Value { lookup, place } => {
                let (num, place) = (self.cut(value, bytes)?, place.plus(off));
                let num = self.over_first(lookup, place, bytes, num)?;
                self.store_entry(state, lookup, place, bytes, num)
            }
            Abs::Constant { map, .. } if self.object.maps[map].constant => {
                let name = self.map_name(map);
                refuse(format!("writes constant data (`{name}`)"))
            }
            // From the start, then.
            Abs::Constant { map, .. } => Err(Halt::Split(self.data_name(map))),
            other => refuse(format!("writes through {}", other.kind())),
        }
    }

    /// True if the program writes global data that is not zero at first. Tables are, so its table
    /// holds what is different: every number by exclusive or with what was there.
    pub fn is_written(&self, map: usize) -> bool {
        self.apart.contains(&self.data_name(map))
    }

    /// Names global data among places where ways are kept apart, behind those of maps.
    fn data_name(&self, map: usize) -> usize {
        self.labels() + self.object.maps.len() + map
    }

    /// A number of a map value as its table has it, or as the program does.
    fn over_first(&mut self, lookup: u32, place: Place, bytes: u32, num: Num) -> Result<Num, Halt> {
        let map = (u32::MAX - lookup) as usize;
        if !self.is_global(lookup) || !self.is_written(map) {
            return Ok(num);
        }
        let first = self.load_constant(map, place, bytes)?;
        Ok(self.binary(BinOp::Xor, num, first, 8 * bytes))
    }

    /// Bytes of the packet, with those in front.
    pub fn packet_len(&mut self, state: &State) -> Num {
        let pkt = self.pkt;
        let len = self.push1(Op::Len { pkt }, Type::U32);
        let len = Num::within(len, 0, 0xffff);
        self.binary(BinOp::Add, len, Num::known(state.front.bytes as u64), 32)
    }

    /// An offset behind the cursor as a value.
    fn offset(&mut self, state: &State, place: Place) -> Result<ValueId, Halt> {
        let fixed = place.off.wrapping_sub(state.front.bytes);
        let fixed = Num::known(fixed as u64 & 0xffff_ffff);
        let off = match place.var {
            None => fixed,
            Some(var) => self.binary(BinOp::Add, var, fixed, 32),
        };
        Ok(self.value(off, 32))
    }

    fn load_packet(&mut self, state: &mut State, place: Place, bytes: u32) -> Result<Num, Halt> {
        let front = state.front.bytes;
        if place.var.is_none() && place.off < -state.metadata {
            return refuse("reads in front of the packet");
        }
        if place.var.is_none() && place.off < front {
            let inside = (front - place.off).min(bytes.into()) as u32;
            let low = self.load_room(state, Room::Front, place, inside)?;
            let low = self.num(low)?;
            if inside == bytes {
                return Ok(low);
            }
            let mut parts = vec![(low, 0)];
            for (at, size) in halves(inside, bytes) {
                let part = self.load_packet(state, place.plus(at.into()), size)?;
                parts.push((part, at));
            }
            return Ok(self.combine(&parts, bytes));
        }
        if place.var.is_some_and(|var| least(place.off, var) < front) {
            let Some(places) = place.var.and_then(|var| Some((var, self.places(var)?))) else {
                return refuse("reads at a varying place of headers that were put in front");
            };
            let (var, places) = places;
            let mut found: Option<Num> = None;
            for (at, known) in places.into_iter().rev() {
                let here = Place::at(place.off.wrapping_add(at as i64));
                let one = self.load_packet(state, here, bytes)?;
                found = Some(match found {
                    None => one,
                    Some(other) => {
                        let same = self.compare(CmpOp::Eq, false, var, known, 64);
                        self.select(same, one, other)
                    }
                });
            }
            return Ok(found.unwrap_or(Num::known(0)));
        }
        let off = self.offset(state, place)?;
        let pkt = self.pkt;
        let ty = Type::u(8 * bytes as u8);
        let (_, value) = self.build().push2(Op::Load { pkt, off }, Type::BOOL, ty);
        if place.var.is_none() {
            self.note_load(value, (place.off - front) as u64, bytes);
        }
        Ok(Num::of(value, 8 * bytes))
    }

    fn store_packet(
        &mut self,
        state: &mut State,
        place: Place,
        bytes: u32,
        num: Num,
    ) -> Result<(), Halt> {
        let front = state.front.bytes;
        if place.var.is_none() && place.off < -state.metadata {
            return refuse("writes in front of the packet");
        }
        if place.var.is_none() && place.off < front {
            let inside = (front - place.off).min(bytes.into()) as u32;
            for (at, size) in halves(0, inside) {
                let part = self.piece(num, at, size);
                self.store_room(state, Room::Front, place.plus(at.into()), size, Abs::Num(part))?;
            }
            for (at, size) in halves(inside, bytes) {
                let part = self.piece(num, at, size);
                self.store_packet(state, place.plus(at.into()), size, part)?;
            }
            return Ok(());
        }
        if place.var.is_some_and(|var| least(place.off, var) < front) {
            let Some(places) = place.var.and_then(|var| Some((var, self.places(var)?))) else {
                return refuse("writes at a varying place of headers that were put in front");
            };
            let (var, places) = places;
            for (at, known) in places {
                let here = Place::at(place.off.wrapping_add(at as i64));
                let old = self.load_packet(state, here, bytes)?;
                let same = self.compare(CmpOp::Eq, false, var, known, 64);
                let new = self.select(same, num, old);
                self.store_packet(state, here, bytes, new)?;
            }
            return Ok(());
        }
        let off = self.offset(state, place)?;
        let value = self.value(num, 8 * bytes);
        let pkt = self.pkt;
        self.push1(Op::Store { pkt, off, value }, Type::BOOL);
        self.version += 1;
        Ok(())
    }

    /// Bytes of a number from byte `from` on.
    pub fn piece(&mut self, num: Num, from: u32, bytes: u32) -> Num {
        let shifted = self.binary(BinOp::Shr, num, Num::known(u64::from(8 * from)), 64);
        if matches!(bytes, 1 | 2 | 4 | 8) {
            return self.truncate(shifted, 8 * bytes);
        }
        let mask = Num::known(crate::value::low(8 * bytes));
        self.binary(BinOp::And, shifted, mask, 64)
    }

    /// Numbers at bytes of a number of `bytes` bytes.
    pub fn combine(&mut self, parts: &[(Num, u32)], bytes: u32) -> Num {
        let bits = if bytes > 4 { 64 } else { 32 };
        let mut whole = Num::known(0);
        for (part, at) in parts {
            let moved = self.binary(BinOp::Shl, *part, Num::known(u64::from(8 * at)), bits);
            whole = self.binary(BinOp::Or, whole, moved, bits);
        }
        self.truncate(whole, 8 * bytes)
    }

    fn load_room(
        &mut self,
        state: &mut State,
        which: Room,
        place: Place,
        bytes: u32,
    ) -> Result<Abs, Halt> {
        if let Some(var) = place.var {
            let mut found: Option<Num> = None;
            for (at, value) in self.stack_places(var)?.into_iter().rev() {
                let here = Place::at(place.off.wrapping_add(at as i64));
                let one = self.load_room(state, which, here, bytes)?;
                let one = self.num(one)?;
                found = Some(match found {
                    None => one,
                    Some(other) => {
                        let same = self.compare(CmpOp::Eq, false, var, value, 64);
                        self.select(same, one, other)
                    }
                });
            }
            return Ok(Abs::Num(found.unwrap_or(Num::known(0))));
        }
        let memory = room(state, which)?;
        if let Some(abs) = memory.exact(place.off, bytes) {
            return Ok(abs);
        }
        let mut parts = Vec::new();
        for (at, size, abs) in memory.overlapping(place.off, bytes) {
            let num = match abs {
                Abs::Num(num) => num,
                other => self.num(other)?,
            };
            let from = (place.off - at).max(0) as u32;
            let to = (place.off + i64::from(bytes) - at).min(size.into()) as u32;
            let part = self.piece(num, from, to - from);
            parts.push((part, (at - place.off).max(0) as u32));
        }
        // What was never written is zero.
        Ok(Abs::Num(self.combine(&parts, bytes)))
    }

    /// Reads a member of the context that is the program's own memory.
    pub fn load_member(&mut self, state: &mut State, off: i64, bytes: u32) -> Result<Abs, Halt> {
        self.load_room(state, Room::Context, Place::at(off), bytes)
    }

    /// Writes a member of the context that is the program's own memory.
    pub fn store_member(
        &mut self,
        state: &mut State,
        off: i64,
        bytes: u32,
        value: Abs,
    ) -> Result<(), Halt> {
        self.store_room(state, Room::Context, Place::at(off), bytes, value)
    }

    fn stack_places(&self, var: Num) -> Result<Vec<(u64, Num)>, Halt> {
        match self.places(var) {
            Some(places) => Ok(places),
            None => refuse("uses the stack at a place that may be anywhere in it"),
        }
    }

    fn store_room(
        &mut self,
        state: &mut State,
        which: Room,
        place: Place,
        bytes: u32,
        value: Abs,
    ) -> Result<(), Halt> {
        if let Some(var) = place.var {
            let new = self.cut(value, bytes)?;
            for (at, known) in self.stack_places(var)? {
                let here = Place::at(place.off.wrapping_add(at as i64));
                let old = self.load_room(state, which, here, bytes)?;
                let old = self.num(old)?;
                let same = self.compare(CmpOp::Eq, false, var, known, 64);
                let chosen = self.select(same, new, old);
                self.store_room(state, which, here, bytes, Abs::Num(chosen))?;
            }
            return Ok(());
        }
        let value = match value {
            Abs::Num(_) => Abs::Num(self.cut(value, bytes)?),
            value => value,
        };
        // What is left of slots that are overwritten in part.
        for (at, size, abs) in room(state, which)?.overlapping(place.off, bytes) {
            room(state, which)?.slots.remove(&at);
            let ends = [
                (0, (place.off - at).max(0) as u32),
                ((place.off + i64::from(bytes) - at).min(size.into()) as u32, size),
            ];
            for (from, to) in ends.into_iter().filter(|(from, to)| from < to) {
                for (part, bytes) in halves(from, to) {
                    let left = match abs {
                        Abs::Num(num) => Abs::Num(self.piece(num, part, bytes)),
                        other => other,
                    };
                    room(state, which)?.slots.insert(at + i64::from(part), (bytes, left));
                }
            }
        }
        room(state, which)?.slots.insert(place.off, (bytes, value));
        Ok(())
    }

    fn load_constant(&mut self, map: usize, place: Place, bytes: u32) -> Result<Num, Halt> {
        let data = &self.object.maps[map].data;
        let Some(var) = place.var else {
            let from = usize::try_from(place.off).ok();
            let found = from.and_then(|from| data.get(from..from.checked_add(bytes as usize)?));
            let Some(found) = found else { return refuse("reads beyond constant data") };
            let mut whole = [0; 8];
            whole[..bytes as usize].copy_from_slice(found);
            return Ok(Num::known(u64::from_le_bytes(whole)));
        };
        // An array of numbers that begins at the first place meant, or the last before it in steps.
        let stride = self.stride(var);
        if place.off < 0 || !stride.is_multiple_of(bytes.into()) && bytes > 1 {
            return refuse("reads numbers of constant data at places that are not in steps");
        }
        let key = (map, bytes, place.off);
        let array = match self.arrays.get(&key) {
            Some(array) => *array,
            None => {
                let rest = data.get(place.off as usize..).unwrap_or_default();
                let whole = rest.len() - rest.len() % bytes as usize;
                let most = var.hi.saturating_add(bytes.into());
                let kept = whole.min(usize::try_from(most).unwrap_or(whole));
                if kept == 0 {
                    return refuse("reads beyond constant data");
                }
                let array = ConstArray {
                    name: format!("data_{}", self.arrays.len()),
                    elem: Type::u(8 * bytes as u8),
                    bytes: rest[..kept - kept % bytes as usize].to_vec(),
                    span: self.span,
                };
                let id = self.program.consts.push(array);
                self.arrays.insert(key, id);
                id
            }
        };
        let index = self.binary(BinOp::Shr, var, Num::known(bytes.trailing_zeros().into()), 64);
        let index = self.value(index, 32);
        let ty = Type::u(8 * bytes as u8);
        Ok(Num::of(self.push1(Op::ConstElem { array, index }, ty), 8 * bytes))
    }

    /// Atomic operations on memory: a handler is alone, so they are a load and a store.
    pub fn atomic(
        &mut self,
        insn: nicforge_isa::ebpf::Insn,
        state: &mut State,
    ) -> Result<(), Halt> {
        let bytes = nicforge_isa::ebpf::insn::width(insn.code) as u32;
        let (dst, src) = (usize::from(insn.dst.min(10)), usize::from(insn.src.min(10)));
        let pointer = self.read(state.regs[dst])?;
        let off = i64::from(insn.off);
        let amount = self.cut(state.regs[src], bytes)?;
        if insn.imm == 0
            && let Abs::Value { lookup, place } = pointer
            && self.count(state, lookup, place.plus(off), bytes, amount)?
        {
            return Ok(());
        }
        let old = self.load(state, pointer, off, bytes)?;
        let old = self.num(old)?;
        let op = match insn.imm & !1 {
            0x00 => Some(BinOp::Add),
            0x40 => Some(BinOp::Or),
            0x50 => Some(BinOp::And),
            0xa0 => Some(BinOp::Xor),
            0xe0 | 0xf0 => None,
            _ => return refuse("an atomic operation that is not known"),
        };
        let new = match op {
            Some(op) => {
                let whole = self.binary(op, old, amount, 8 * bytes);
                self.truncate(whole, 8 * bytes)
            }
            None if insn.imm == 0xe1 => amount,
            None => {
                let wanted = self.cut(state.regs[0], bytes)?;
                let same = self.compare(CmpOp::Eq, false, old, wanted, 8 * bytes);
                self.select(same, amount, old)
            }
        };
        self.store(state, pointer, off, bytes, Abs::Num(new))?;
        match insn.imm {
            0xf1 => state.regs[0] = Abs::Num(old),
            imm if imm & 1 != 0 => state.regs[src] = Abs::Num(old),
            _ => {}
        }
        Ok(())
    }
}

/// Packet pointers die when the packet's ends move.
pub fn alive(state: &State, epoch: u32) -> Result<(), Halt> {
    if state.epoch == epoch {
        return Ok(());
    }
    refuse("uses a packet pointer from before the packet's ends moved")
}

/// Bytes from `from` to `to` in parts of 1, 2, 4 and 8 bytes.
pub fn halves(from: u32, to: u32) -> Vec<(u32, u32)> {
    let mut parts = Vec::new();
    let mut at = from;
    while at < to {
        let size = [8, 4, 2, 1].into_iter().find(|size| *size <= to - at).unwrap_or(1);
        parts.push((at, size));
        at += size;
    }
    parts
}
