//! Helpers that programs call.

use std::collections::BTreeMap;

use nicforge_ir::{BinOp, CmpOp, Op, Type};
use nicforge_isa::ebpf::helper_name;

use crate::error::{Halt, refuse};
use crate::helpers::number as n;
use crate::helpers::{EINVAL, HEADROOM, MOST_OFFSET, TC_ACT_REDIRECT, XDP_REDIRECT};
use crate::kind::is_ring;
use crate::lifter::Lifter;
use crate::memory::halves;
use crate::state::{First, Fork, State, Target};
use crate::value::{Abs, Cond, Num, Place};

/// Bytes of a frame's header: no packet becomes shorter.
const SHORTEST: i64 = 14;
/// Bytes that are kept at most of those that are taken off the front, if their number varies.
const MOST_SEEN: u64 = 128;
/// Bytes that one call copies or sums at most.
pub const MOST_BYTES: u64 = 512;

const EACCES: u64 = -13i64 as u64;
/// Bytes of metadata that every kernel grants.
const MOST_METADATA: i64 = 32;
/// Where the kernel's data behind a frame begins, from the first byte of a frame as it came: no
/// packet grows beyond. Pages have 4096 bytes, of which 256 are in front and 320 behind.
const HARD_END: u64 = 4096 - 256 - 320;

/// Registers with arguments that have to be known, such as sizes and flags: one that is among a few
/// numbers makes a way of each.
fn known_arguments(helper: i32) -> &'static [usize] {
    match helper {
        n::REDIRECT | n::PROBE_READ | n::PROBE_READ_KERNEL => &[2],
        n::RINGBUF_RESERVE | n::RINGBUF_RESERVE_DYNPTR => &[2],
        n::RINGBUF_OUTPUT => &[3],
        n::FIB_LOOKUP => &[3, 4],
        n::CSUM_DIFF => &[2, 4],
        n::LOAD_BYTES | n::STORE_BYTES | n::SKB_LOAD_BYTES | n::SKB_LOAD_BYTES_RELATIVE => &[4],
        n::SKB_STORE_BYTES => &[4, 5],
        n::PERF_EVENT_OUTPUT | n::L3_CSUM_REPLACE | n::L4_CSUM_REPLACE => &[5],
        _ => &[],
    }
}

impl Lifter<'_> {
    /// A helper call: registers afterwards, or two ways if the program asks whether it failed.
    pub fn helper(&mut self, helper: i32, state: &mut State) -> Result<Option<Fork>, Halt> {
        let name = helper_name(helper);
        for register in known_arguments(helper) {
            let varies = self.num(state.regs[*register])?.constant().is_none();
            if varies && let Some(fork) = self.split(state, *register)? {
                return Ok(Some(fork));
            }
        }
        let args: [Abs; 5] = std::array::from_fn(|at| state.regs[at + 1]);
        let result = match helper {
            n::MAP_LOOKUP => {
                let map = self.map(args[0], &name)?;
                self.lookup(state, map, args[1])?
            }
            n::MAP_UPDATE => {
                let map = self.map(args[0], &name)?;
                Abs::Num(self.update(state, map, [args[1], args[2], args[3]])?)
            }
            n::MAP_DELETE => {
                let map = self.map(args[0], &name)?;
                Abs::Num(self.delete(state, map, args[1])?)
            }
            n::PUSH_ELEM => {
                let map = self.ring(args[0], &name)?;
                self.push_element(state, map, [args[1], args[2]])?
            }
            n::POP_ELEM | n::PEEK_ELEM => {
                let map = self.ring(args[0], &name)?;
                self.pop_element(state, map, args[1], helper == n::POP_ELEM)?
            }
            n::KTIME_GET_NS | n::KTIME_GET_BOOT_NS | n::KTIME_GET_COARSE_NS => {
                Abs::Num(Num::of(self.push1(Op::Now, Type::U64), 64))
            }
            n::PRANDOM => Abs::Num(Num::of(self.push1(Op::Random, Type::U32), 32)),
            // A program is as if it ran alone on one processor.
            n::PROCESSOR => Abs::known(0),
            // A handler runs alone.
            n::SPIN_LOCK | n::SPIN_UNLOCK => Abs::Unusable("the result of a lock"),
            n::TRACE_PRINTK => self.log(state, [args[0], args[1]], &args[2..])?,
            n::TRACE_VPRINTK => {
                let values = self.words_of(state, args[2], args[3])?;
                self.log(state, [args[0], args[1]], &values)?
            }
            n::CSUM_DIFF => Abs::Num(self.csum_diff(state, args)?),
            n::REDIRECT => {
                let port = self.cut(args[0], 4)?;
                if self.num(args[1])?.constant() != Some(0) {
                    return refuse(format!("{name} with flags"));
                }
                state.redirect = Some(Target::Port(self.port(port)));
                Abs::known(if self.is_tc() { TC_ACT_REDIRECT } else { XDP_REDIRECT })
            }
            n::REDIRECT_MAP => return self.redirect_map(state, args),
            n::PROBE_READ | n::PROBE_READ_KERNEL => {
                self.copy(state, args[2], args[0], args[1])?;
                Abs::known(0)
            }
            n::GET_BUFF_LEN => Abs::Num(self.packet_len(state)),
            n::PERF_EVENT_OUTPUT | n::RINGBUF_OUTPUT => self.message(state, helper, args)?,
            n::RINGBUF_RESERVE => self.reserve(state, args)?,
            n::RINGBUF_SUBMIT | n::RINGBUF_DISCARD => {
                self.give_record(state, args[0], helper == n::RINGBUF_SUBMIT)?
            }
            n::ENTRIES => self.entries(args[0])?,
            n::FIB_LOOKUP => return self.fib_lookup(state, args),
            n::SKB_LOAD_BYTES | n::SKB_STORE_BYTES | n::SKB_LOAD_BYTES_RELATIVE => {
                return self.packet_bytes(state, helper, args);
            }
            n::LOAD_BYTES | n::STORE_BYTES => return self.packet_bytes(state, helper, args),
            n::L3_CSUM_REPLACE | n::L4_CSUM_REPLACE => {
                return self.replace_checksum(state, helper == n::L4_CSUM_REPLACE, args);
            }
            n::SKB_ADJUST_ROOM => return self.adjust_room(state, args),
            n::SKB_PULL_DATA => self.pull_data(state, args[1])?,
            n::CSUM_UPDATE => self.csum_update(),
            n::CLONE_REDIRECT => self.clone_redirect(state, args)?,
            n::ADJUST_HEAD => return self.adjust_head(state, args[1]),
            n::ADJUST_TAIL => return self.adjust_tail(state, args[1]),
            n::SKB_CHANGE_TAIL => return self.change_tail(state, args),
            n::DYNPTR_READ => return self.dynptr_bytes(state, args, false),
            n::DYNPTR_WRITE => return self.dynptr_bytes(state, args, true),
            n::DYNPTR_DATA => return self.dynptr_data(state, args),
            n::DYNPTR_FROM_MEM => self.dynptr_from_mem(state, args)?,
            n::RINGBUF_RESERVE_DYNPTR => self.reserve_dynptr(state, args)?,
            n::RINGBUF_SUBMIT_DYNPTR | n::RINGBUF_DISCARD_DYNPTR => {
                self.give_dynptr(state, args[0], helper == n::RINGBUF_SUBMIT_DYNPTR)?
            }
            n::ADJUST_META => Abs::Num(self.adjust_meta(state, args[1])?),
            _ => return refuse(format!("calls {name}, which has no meaning here")),
        };
        state.done(result);
        Ok(None)
    }

    pub fn map(&self, abs: Abs, helper: &str) -> Result<usize, Halt> {
        match self.read(abs)? {
            Abs::Map(map) => Ok(map),
            other => refuse(format!("{helper} with {} for a map", other.kind())),
        }
    }

    /// A map that is a queue or a stack.
    fn ring(&self, abs: Abs, helper: &str) -> Result<usize, Halt> {
        let map = self.map(abs, helper)?;
        if is_ring(self.map_kind(map)) {
            return Ok(map);
        }
        let kind = nicforge_isa::object::map_type_name(self.map_kind(map));
        refuse(format!("{helper} with map `{}` of type {kind}", self.map_name(map)))
    }

    /// The port that an interface index means.
    pub fn port(&mut self, ifindex: Num) -> Num {
        self.binary(BinOp::Sub, ifindex, Num::known(1), 32)
    }

    /// A number of bytes that is known, and not too large.
    pub fn size(&self, abs: Abs) -> Result<u32, Halt> {
        match self.num(abs)?.constant() {
            Some(size) if size <= MOST_BYTES => Ok(size as u32),
            Some(size) => refuse(format!("works on {size} bytes at once")),
            None => refuse("works on a number of bytes that varies"),
        }
    }

    /// A number of bytes of a memory that may vary, and is not too large. The kernel's verifier
    /// has seen that they are in it, whatever is known of them here.
    pub fn most_bytes(&self, state: &State, memory: Abs, bytes: Abs) -> Result<Num, Halt> {
        let mut found = self.num(bytes)?;
        if found.constant().is_none() {
            found.hi = found.hi.min(self.room_from(state, memory)).max(found.lo);
        }
        if found.hi <= MOST_BYTES {
            return Ok(found);
        }
        self.size(bytes).map(|size| Num::known(size.into()))
    }

    /// Bytes of a memory behind a pointer, at most.
    fn room_from(&self, state: &State, pointer: Abs) -> u64 {
        let (place, size) = match pointer {
            Abs::Stack { place, .. } => (place, 0),
            Abs::Record { record, place } => {
                (place, state.records.get(&record).map_or(i64::MAX, |record| record.bytes.into()))
            }
            Abs::Value { lookup, place } => {
                let map = match state.lookups.get(&lookup) {
                    Some(found) => found.map,
                    None => (u32::MAX - lookup) as usize,
                };
                let map = self.object.maps.get(map);
                (place, map.map_or(i64::MAX, |map| map.value_size.into()))
            }
            _ => return u64::MAX,
        };
        let from = place.off.saturating_add_unsigned(place.var.map_or(0, |var| var.lo));
        u64::try_from(size.saturating_sub(from)).unwrap_or(0)
    }

    fn copy(&mut self, state: &mut State, from: Abs, to: Abs, size: Abs) -> Result<(), Halt> {
        let (from, to) = (self.read(from)?, self.read(to)?);
        let bytes = self.most_bytes(state, to, size)?;
        self.copy_bytes(state, from, to, bytes)
    }

    /// Four bytes of so many, in memory order; those that are too many are zero.
    fn word(&mut self, state: &mut State, from: Abs, at: u64, size: Num) -> Result<Num, Halt> {
        let mut parts = Vec::new();
        if at + 4 <= size.lo {
            let word = self.load(state, from, at as i64, 4)?;
            return self.num(word);
        }
        for byte in at..(at + 4).min(size.hi) {
            let found = self.load(state, from, byte as i64, 1)?;
            let found = self.num(found)?;
            let counts = self.compare(CmpOp::Lt, false, Num::known(byte), size, 64);
            parts.push((self.select(counts, found, Num::known(0)), (byte - at) as u32));
        }
        Ok(self.combine(&parts, 4))
    }

    /// Words of memory added to `sum`, folded to 32 bits.
    fn words(
        &mut self,
        state: &mut State,
        pointer: Abs,
        size: Num,
        mut sum: Num,
    ) -> Result<Num, Halt> {
        let pointer = self.read(pointer)?;
        for at in (0..size.hi).step_by(4) {
            let word = self.word(state, pointer, at, size)?;
            sum = self.add(sum, word);
        }
        Ok(self.folded(sum, 32))
    }

    /// The ones' complement sum of a number's halves of so many bits.
    fn folded(&mut self, mut sum: Num, bits: u8) -> Num {
        for _ in 0..2 {
            let high = self.binary(BinOp::Shr, sum, Num::known(bits.into()), 64);
            let low = self.binary(BinOp::And, sum, Num::known((1 << bits) - 1), 64);
            sum = self.add(low, high);
        }
        self.truncate(sum, 32)
    }

    fn inverted(&mut self, num: Num) -> Num {
        self.binary(BinOp::Xor, num, Num::known(u32::MAX.into()), 32)
    }

    /// `bpf_csum_diff` as Linux has it since 6.13: folded to 16 bits, of any number of bytes.
    /// Before, how far it was folded differed between machines, and bytes came by four.
    fn csum_diff(&mut self, state: &mut State, args: [Abs; 5]) -> Result<Num, Halt> {
        let to = self.read(args[2])?;
        let (old, new) = (self.size(args[1])?.into(), self.most_bytes(state, to, args[3])?);
        let old = Num::known(old);
        if new.constant().is_none() && (new.lo == 0 && old.lo > 0) {
            return refuse("takes a checksum of a number of bytes that varies and may be none");
        }
        let mut sum = self.cut(args[4], 4)?;
        // Which of the two zeros it is depends on what is inverted.
        if new.hi == 0 && old.lo > 0 {
            let without = self.inverted(sum);
            let from = self.words(state, args[0], old, without)?;
            sum = self.inverted(from);
        } else if new.hi > 0 {
            sum = self.words(state, args[2], new, sum)?;
            if old.lo > 0 {
                let from = self.words(state, args[0], old, Num::known(0))?;
                let without = self.inverted(from);
                let all = self.add(sum, without);
                sum = self.folded(all, 32);
            }
        }
        Ok(self.folded(sum, 16))
    }

    fn adjust_head(&mut self, state: &mut State, by: Abs) -> Result<Option<Fork>, Halt> {
        let mut by = self.cut(by, 4)?;
        let nothing_in_front = state.front.bytes == 0 && state.metadata == 0;
        if by.constant().is_none() && (by.lo == 0 || by.hi > MOST_OFFSET || !nothing_in_front) {
            if let Some(fork) = self.split(state, 2)? {
                return Ok(Some(fork));
            }
            by = self.cut(state.regs[2], 4)?;
        }
        let Some(by) = by.constant().map(|by| i64::from(by as u32 as i32)) else {
            return self.behead_by(state, by);
        };
        if by <= 0 {
            let room = state.front.bytes + state.metadata - by <= HEADROOM;
            if room {
                self.put_in_front(state, -by)?;
                if state.skipped.is_none() {
                    state.front.unknown(-by);
                }
            }
            state.done(Abs::known(if room { 0 } else { EINVAL }));
            return Ok(None);
        }
        let fits = self.fits(state, by + SHORTEST);
        self.may_fail(state, fits, First::Behead(by))
    }

    /// Makes a packet longer in front, where there is room for sure.
    pub fn put_in_front(&mut self, state: &mut State, bytes: i64) -> Result<(), Halt> {
        self.leave_end(state);
        self.shift_front(state, bytes)?;
        state.front.bytes += bytes;
        state.at_least += bytes;
        state.ends_moved((!self.is_tc()).then_some(-bytes));
        Ok(())
    }

    /// Takes bytes off the front whose number varies: what they were is not seen again.
    fn behead_by(&mut self, state: &mut State, by: Num) -> Result<Option<Fork>, Halt> {
        if by.lo == 0 || by.hi > MOST_OFFSET {
            return refuse("bpf_xdp_adjust_head by a number that varies and may not be positive");
        }
        if state.front.bytes > 0 || state.metadata > 0 {
            return refuse(
                "bpf_xdp_adjust_head by a number that varies, with headers or metadata in front",
            );
        }
        let fits = self.place_fits(state, Place { off: 0, var: Some(by) }, SHORTEST as u32);
        self.may_fail(state, fits, First::BeheadBy(by))
    }

    /// Metadata is memory in front of the packet that lasts as long as the program.
    fn adjust_meta(&mut self, state: &mut State, by: Abs) -> Result<Num, Halt> {
        let by = self.cut(by, 4)?;
        let Some(by) = by.constant().map(|by| i64::from(by as u32 as i32)) else {
            return refuse("bpf_xdp_adjust_meta by a number that varies");
        };
        let bytes = state.metadata - by;
        if bytes < 0 || state.front.bytes + bytes > HEADROOM {
            return Ok(Num::known(EINVAL));
        }
        if bytes % 4 != 0 {
            return Ok(Num::known(EACCES));
        }
        if bytes > MOST_METADATA {
            return refuse(format!("{bytes} bytes of metadata, for which kernels differ"));
        }
        self.leave_end(state);
        state.metadata = bytes;
        state.ends_moved(Some(0));
        Ok(Num::known(0))
    }

    fn adjust_tail(&mut self, state: &mut State, by: Abs) -> Result<Option<Fork>, Halt> {
        let by = self.cut(by, 4)?;
        let by = self.extend(by, 32, 64);
        let shrinks = match by.constant() {
            Some(by) => (by as i64) < 0,
            None => true,
        };
        if shrinks && state.front.bytes > SHORTEST {
            return refuse("shortens a packet behind headers that were put in front");
        }
        let fits = match by.constant().map(|by| by as i64) {
            Some(by) if by <= 0 => self.fits(state, SHORTEST - by),
            _ => self.new_end_fits(state, by)?,
        };
        self.may_fail(state, fits, First::Resize(by))
    }

    /// Condition that a packet that is longer, or shorter, by a signed number of bytes is one.
    fn new_end_fits(&mut self, state: &State, by: Num) -> Result<Cond, Halt> {
        let Some(skipped) = state.skipped else {
            return refuse("makes a packet longer that lost a number of bytes that varies");
        };
        let len = self.packet_len(state);
        let new = self.add(len, by);
        let start = skipped - state.front.bytes;
        let most = Num::known(HARD_END.wrapping_sub(start as u64));
        let short = Num::known(SHORTEST as u64);
        let enough = self.compare(CmpOp::Ge, true, new, short, 64);
        let few = self.compare(CmpOp::Le, true, new, most, 64);
        Ok(self.both(enough, few))
    }

    pub fn both(&mut self, a: Cond, b: Cond) -> Cond {
        match (a, b) {
            (Cond::Known(false), _) | (_, Cond::Known(false)) => Cond::Known(false),
            (Cond::Known(true), other) | (other, Cond::Known(true)) => other,
            (Cond::Value(a), Cond::Value(b)) => {
                Cond::Value(self.push1(Op::Bin(BinOp::And, a, b), Type::BOOL))
            }
        }
    }

    /// Gives the packet its new end, for which there is room.
    fn resize(&mut self, by: Num) {
        let shrinks = self.compare(CmpOp::Lt, true, by, Num::known(0), 64);
        let outside = self.at;
        let cond = match shrinks {
            Cond::Known(shrinks) => {
                return self.resize_so(by, shrinks);
            }
            Cond::Value(cond) => cond,
        };
        let (then, other) = (self.build().new_block(), self.build().new_block());
        self.build().push0(Op::If { cond, likely: None, then, other });
        for (region, shrinks) in [(then, true), (other, false)] {
            self.at = region;
            self.resize_so(by, shrinks);
            self.build().push0(Op::Yield(Vec::new()));
        }
        self.at = outside;
    }

    fn resize_so(&mut self, by: Num, shrinks: bool) {
        let pkt = self.pkt;
        if shrinks {
            let len = self.push1(Op::Len { pkt }, Type::U32);
            let len = match by.constant() {
                Some(by) => {
                    let off = Num::known(by.wrapping_neg());
                    self.binary(BinOp::Sub, Num::of(len, 32), off, 32)
                }
                None => self.binary(BinOp::Add, Num::of(len, 32), by, 32),
            };
            let len = self.value(len, 32);
            self.push1(Op::Trim { pkt, len }, Type::BOOL);
        } else if by != Num::known(0) {
            let len = self.truncate(by, 32);
            let len = self.value(len, 32);
            self.push1(Op::Extend { pkt, len }, Type::BOOL);
        }
    }

    pub fn may_fail(
        &mut self,
        state: &mut State,
        fits: Cond,
        first: First,
    ) -> Result<Option<Fork>, Halt> {
        let mut fails = state.clone();
        fails.done(Abs::known(EINVAL));
        state.done(Abs::known(0));
        match fits {
            Cond::Known(true) => self.begin(state, first)?,
            Cond::Known(false) => *state = fails,
            Cond::Value(cond) => {
                state.first = Some(first);
                return Ok(Some(Fork { cond, fails, again: false }));
            }
        }
        Ok(None)
    }

    /// Does what a way of a call begins with.
    pub fn begin(&mut self, state: &mut State, first: First) -> Result<(), Halt> {
        match first {
            First::Behead(_) | First::BeheadBy(_) | First::Resize(_) => {
                self.change_ends(state, first)
            }
            First::Copy { from, to, bytes } => self.copy_bytes(state, from, to, bytes),
            First::Clear { at, bytes } => self.clear_bytes(state, at, bytes),
            First::Checksum(change) => self.change_checksum(state, change),
            First::Room { by, outer } => self.make_room(state, by, outer),
        }
    }

    /// Moves one of the packet's ends, for which there is room.
    pub fn change_ends(&mut self, state: &mut State, first: First) -> Result<(), Halt> {
        let pkt = self.pkt;
        self.leave_end(state);
        match first {
            First::Behead(by) => {
                state.at_least = state.at_least.max(by + SHORTEST);
                // What goes off the front is seen again if the program makes room.
                let mut at = state.front.bytes;
                for (_, bytes) in halves(0, (by - state.front.bytes).max(0) as u32) {
                    let pointer = Abs::Packet { place: Place::at(at), epoch: state.epoch };
                    let value = self.load(state, pointer, 0, bytes)?;
                    state.front.memory.slots.insert(at, (bytes, value));
                    at += i64::from(bytes);
                }
                let off = by - state.front.bytes;
                if off > 0 {
                    state.skipped = state.skipped.map(|skipped| skipped + off);
                    let len = self.build().int(off as u64, Type::U32);
                    self.push1(Op::Skip { pkt, len }, Type::BOOL);
                }
                self.shift_front(state, -by)?;
                state.front.bytes = (state.front.bytes - by).max(0);
                state.at_least -= by;
            }
            First::BeheadBy(by) => {
                let seen = self.seen_again(state, by)?;
                let len = self.value(by, 32);
                self.push1(Op::Skip { pkt, len }, Type::BOOL);
                state.front.memory.slots = seen;
                state.skipped = None;
                state.at_least = (state.at_least - by.hi as i64).max(SHORTEST);
            }
            First::Resize(by) => {
                self.resize(by);
                let by = by.constant().map_or(i64::MIN, |by| by as i64);
                state.at_least = state.at_least.saturating_add(by).max(SHORTEST);
            }
            First::Copy { .. } | First::Clear { .. } | First::Checksum(_) | First::Room { .. } => {}
        }
        // The kernel may copy the bytes of a socket buffer elsewhere.
        let start = match first {
            First::Behead(by) if !self.is_tc() => Some(by),
            First::Resize(_) if !self.is_tc() => Some(0),
            _ => None,
        };
        state.ends_moved(start);
        self.version += 1;
        Ok(())
    }

    /// Bytes in front of a packet that loses a number of them that varies, at negative places: the
    /// last ones, and zeros where there were fewer, if nothing was in front of it before.
    fn seen_again(
        &mut self,
        state: &mut State,
        by: Num,
    ) -> Result<BTreeMap<i64, (u32, Abs)>, Halt> {
        let mut seen = BTreeMap::new();
        let last = by.lo.min(MOST_SEEN) as u32;
        for (at, bytes) in halves(0, last) {
            let off = i64::from(at) - i64::from(last);
            let pointer = Abs::Packet { place: Place { off, var: Some(by) }, epoch: state.epoch };
            seen.insert(off, (bytes, self.load(state, pointer, 0, bytes)?));
        }
        if state.skipped != Some(0) || !state.front.memory.slots.is_empty() {
            return Ok(seen);
        }
        for back in u64::from(last) + 1..=MOST_SEEN {
            let mut found = Num::known(0);
            if back <= by.hi {
                // In front of the packet this is far behind it, where nothing is.
                let off = self.binary(BinOp::Sub, by, Num::known(back), 32);
                let (pkt, off) = (self.pkt, self.value(off, 32));
                let (ok, byte) = self.build().push2(Op::Load { pkt, off }, Type::BOOL, Type::U8);
                found = self.select(Cond::Value(ok), Num::of(byte, 8), found);
            }
            seen.insert(-(back as i64), (1, Abs::Num(found)));
        }
        Ok(seen)
    }

    /// What held the packet's end from now on says where that was: distances from old pointers to
    /// it are still asked for.
    fn leave_end(&mut self, state: &mut State) {
        if !state.holds_end() {
            return;
        }
        let (len, now) = (self.packet_len(state), state.epoch);
        state.each(&mut |abs| match *abs {
            Abs::PacketEnd { off, epoch } if epoch == now => {
                let place = Place { off, var: Some(len) };
                *abs = Abs::Packet { place, epoch };
            }
            _ => {}
        });
    }

    /// Moves what is known of bytes in front. Metadata stays in front of the packet, over whatever
    /// was there, and leaves its bytes behind.
    fn shift_front(&mut self, state: &mut State, by: i64) -> Result<(), Halt> {
        let mut metadata = Vec::new();
        for (at, bytes) in halves(0, state.metadata as u32) {
            let at = i64::from(at) - state.metadata;
            let pointer = Abs::Packet { place: Place::at(at), epoch: state.epoch };
            metadata.push((at, bytes, self.load(state, pointer, 0, bytes)?));
        }
        let slots = std::mem::take(&mut state.front.memory.slots);
        state.front.memory.slots = slots
            .into_iter()
            .map(|(at, slot)| (at + by, slot))
            .filter(|(at, _)| *at >= -256)
            .collect();
        for (at, bytes, value) in metadata {
            let pointer = Abs::Packet { place: Place::at(at), epoch: state.epoch };
            self.store(state, pointer, 0, bytes, value)?;
        }
        Ok(())
    }

    /// A comparison with a known number, as a condition.
    pub fn equals(&mut self, num: Num, known: u64) -> Cond {
        self.compare(CmpOp::Eq, false, num, Num::known(known), 64)
    }
}
