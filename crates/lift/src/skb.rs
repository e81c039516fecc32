//! Helpers that read and change packet bytes, most of them of tc programs, which work on socket
//! buffers (`net/core/filter.c`).

use nicforge_ir::{BinOp, CmpOp, Op};
use nicforge_isa::ebpf::Insn;

use crate::error::{Halt, refuse};
use crate::helpers::number as n;
use crate::helpers::{EINVAL, HEADROOM, MOST_OFFSET};
use crate::lifter::Lifter;
use crate::memory::halves;
use crate::state::{Change, ChangeKind, First, Fork, State};
use crate::value::{Abs, Cond, Num, Place, low};

const EFAULT: u64 = -14i64 as u64;
const ENOMEM: u64 = -12i64 as u64;
const ENOTSUPP: u64 = -524i64 as u64;

/// `BPF_ADJ_ROOM_MAC`, and bytes that are taken away at most.
const ROOM_MAC: u64 = 1;
const MOST_OFF: i64 = 0xfff;
/// Flags of `bpf_skb_adjust_room` whose bytes are those of the call without them.
mod room {
    const FIXED_GSO: u64 = 1;
    const NO_CSUM_RESET: u64 = 1 << 5;
    pub const IN_V4: u64 = 1 << 1;
    pub const IN_V6: u64 = 1 << 2;
    pub const GRE: u64 = 1 << 3;
    pub const UDP: u64 = 1 << 4;
    pub const GROW: u64 = SHRINK | IN_V4 | IN_V6 | GRE | UDP;
    pub const SHRINK: u64 = FIXED_GSO | NO_CSUM_RESET;
}
/// EtherTypes of IPv4 and IPv6, in network byte order.
const IPV4: u64 = 0x0008;
const IPV6_TYPE: u64 = 0xdd86;
/// Bytes of an Ethernet header, behind which the network header begins.
const ETHERNET: i64 = 14;
/// Bytes of a socket buffer at most, for `bpf_skb_change_tail` (`SKB_MAX_ALLOC`).
const LONGEST: u64 = 4 * 4096 - 320;
/// `BPF_HDR_START_NET`.
const START_NET: u64 = 1;

/// Flags of the checksum helpers.
const FIELD: u64 = 0xf;
const PSEUDO: u64 = 0x10;
const MANGLED_ZERO: u64 = 0x20;
const ENFORCE: u64 = 0x40;
const IPV6: u64 = 0x80;

impl Lifter<'_> {
    /// `bpf_skb_load_bytes`, `bpf_xdp_load_bytes` and those that store. Where the bytes are not
    /// there, socket buffers give zeros.
    pub fn packet_bytes(
        &mut self,
        state: &mut State,
        helper: i32,
        args: [Abs; 5],
    ) -> Result<Option<Fork>, Halt> {
        let memory = self.read(args[2])?;
        let bytes = self.most_bytes(state, memory, args[3])?;
        let mut place = self.packet_place(args[1])?;
        if helper == n::SKB_LOAD_BYTES_RELATIVE {
            match self.num(args[4])?.constant() {
                Some(0) => {}
                Some(START_NET) => place = place.plus(ETHERNET),
                _ => return refuse("loads bytes from a header that is not known"),
            }
        }
        let packet = Abs::Packet { place, epoch: state.epoch };
        let stores = matches!(helper, n::SKB_STORE_BYTES | n::STORE_BYTES);
        let (from, to) = if stores { (args[2], packet) } else { (packet, args[2]) };
        let (from, to) = (self.read(from)?, self.read(to)?);
        let clear = First::Clear { at: to, bytes };
        let fails = (!stores && self.is_tc()).then_some(clear);
        let error = if self.is_tc() { EFAULT } else { EINVAL };
        let fits = match bytes.constant() {
            Some(bytes) => self.place_fits(state, place, bytes as u32),
            None => self.varying_fits(state, place, bytes),
        };
        self.or_error(state, fits, error, (First::Copy { from, to, bytes }, fails))
    }

    /// `bpf_l3_csum_replace` and `bpf_l4_csum_replace`.
    pub fn replace_checksum(
        &mut self,
        state: &mut State,
        layer4: bool,
        args: [Abs; 5],
    ) -> Result<Option<Fork>, Halt> {
        let Some(flags) = self.num(args[4])?.constant() else {
            return refuse("changes a checksum by flags that vary");
        };
        let at = self.packet_place(args[1])?;
        let known = if layer4 { FIELD | PSEUDO | MANGLED_ZERO | ENFORCE | IPV6 } else { FIELD };
        let kind = match flags & FIELD {
            0 => ChangeKind::Difference,
            2 if layer4 => ChangeKind::Word,
            2 => ChangeKind::Half,
            4 => ChangeKind::Word,
            _ => return self.gives(state, EINVAL),
        };
        let (from, to) = match flags & FIELD {
            2 => (self.cut(args[2], 2)?, self.cut(args[3], 2)?),
            _ => (self.cut(args[2], 4)?, self.cut(args[3], 4)?),
        };
        if kind == ChangeKind::Difference && from.constant() != Some(0) {
            return refuse("changes a checksum by a difference from a number that may not be zero");
        }
        if flags & !known != 0 {
            return self.gives(state, EINVAL);
        }
        if at.var.is_none() && at.off & 1 != 0 {
            return self.gives(state, EFAULT);
        }
        let (mangled, enforced) = (flags & MANGLED_ZERO != 0, flags & ENFORCE != 0);
        let change = Change { at, from, to, kind, mangled, enforced };
        let fits = self.place_fits(state, at, 2);
        self.or_error(state, fits, EFAULT, (First::Checksum(change), None))
    }

    /// The packet instructions of classic BPF (RFC 9669, section 5.4): a number in network byte
    /// order; where it is not there, the program ends with zero.
    pub fn load_classic(&mut self, insn: Insn, state: &mut State) -> Result<(), Halt> {
        const INDIRECT: u8 = 0x40;
        let bytes = match insn.code & 0x18 {
            0x00 => 4,
            0x08 => 2,
            0x10 => 1,
            _ => return refuse("loads 8 bytes through an old packet instruction"),
        };
        if !self.is_tc() || state.frames.len() > 1 {
            return refuse("loads through an old packet instruction (ld_abs, ld_ind)");
        }
        let Ok(off) = u32::try_from(insn.imm) else {
            return refuse("loads at a place from a header on (ld_abs, ld_ind)");
        };
        let mut place = Place::at(off.into());
        if insn.code & 0xe0 == INDIRECT {
            let by = self.cut(state.regs[usize::from(insn.src.min(10))], 4)?;
            place = match by.constant() {
                Some(by) => place.plus(by as i64),
                None => Place { var: Some(by), ..place },
            };
        }
        match self.place_fits(state, place, bytes) {
            Cond::Known(true) => {}
            Cond::Known(false) => return refuse("loads bytes that are never there"),
            Cond::Value(fits) => {
                let outside = self.at;
                let (then, other) = (self.build().new_block(), self.build().new_block());
                self.build().push0(Op::If { cond: fits, likely: None, then, other });
                self.at = then;
                self.build().push0(Op::Yield(Vec::new()));
                self.at = other;
                let mut ends = state.clone();
                ends.regs[0] = Abs::known(0);
                self.verdict(&mut ends)?;
                self.at = outside;
                if place.var.is_none() {
                    state.at_least = state.at_least.max(place.off + i64::from(bytes));
                }
            }
        }
        let packet = Abs::Packet { place, epoch: state.epoch };
        let found = self.load(state, packet, 0, bytes)?;
        let found = self.num(found)?;
        let number = if bytes == 1 { found } else { self.swap(found, 8 * bytes) };
        state.done(Abs::Num(number));
        Ok(())
    }

    /// `bpf_skb_pull_data`: all of a packet is in one piece already.
    pub fn pull_data(&mut self, state: &mut State, len: Abs) -> Result<Abs, Halt> {
        let len = self.cut(len, 4)?;
        let cond = match len.constant() {
            Some(len) => self.fits(state, len as i64),
            None => {
                let all = self.packet_len(state);
                self.compare(CmpOp::Le, false, len, all, 64)
            }
        };
        Ok(Abs::Num(self.select(cond, Num::known(0), Num::known(ENOMEM))))
    }

    /// `bpf_skb_change_tail`: another length, with zeros at the end of a longer packet.
    pub fn change_tail(&mut self, state: &mut State, args: [Abs; 5]) -> Result<Option<Fork>, Halt> {
        if self.num(args[2])? != Num::known(0) {
            return refuse("bpf_skb_change_tail with flags");
        }
        if state.front.bytes > ETHERNET {
            return refuse("bpf_skb_change_tail behind headers that were put in front");
        }
        let new = self.cut(args[1], 4)?;
        let short = self.compare(CmpOp::Ge, false, new, Num::known(ETHERNET as u64), 64);
        let long = self.compare(CmpOp::Le, false, new, Num::known(LONGEST), 64);
        let fits = self.both(short, long);
        let len = self.packet_len(state);
        let by = self.binary(BinOp::Sub, new, len, 64);
        self.may_fail(state, fits, First::Resize(by))
    }

    /// `bpf_skb_adjust_room` behind the Ethernet header: tunnels in and out.
    pub fn adjust_room(&mut self, state: &mut State, args: [Abs; 5]) -> Result<Option<Fork>, Halt> {
        let by = self.cut(args[1], 4)?.constant().map(|by| i64::from(by as u32 as i32));
        let Some(by) = by.filter(|by| *by != 0) else {
            return refuse("bpf_skb_adjust_room by a number that varies");
        };
        if self.cut(args[2], 4)?.constant() != Some(ROOM_MAC) {
            return refuse("bpf_skb_adjust_room behind another header than Ethernet's");
        }
        let Some(flags) = self.num(args[3])?.constant() else {
            return refuse("bpf_skb_adjust_room by flags that vary");
        };
        let taken = if by > 0 { room::GROW } else { room::SHRINK };
        let both = |pair: u64| flags & pair == pair;
        if flags & !taken != 0 || both(room::IN_V4 | room::IN_V6) || both(room::GRE | room::UDP) {
            return refuse(format!("bpf_skb_adjust_room with flags {flags:#x}"));
        }
        let tunnel = flags & (room::IN_V4 | room::IN_V6) != 0;
        if tunnel && state.front.bytes > 0 {
            return refuse("bpf_skb_adjust_room into a tunnel within another one");
        }
        if !(-MOST_OFF..=HEADROOM).contains(&by) || state.skipped.is_none() {
            return refuse(format!("bpf_skb_adjust_room by {by} bytes"));
        }
        let protocol = self.protocol(state)?;
        let (v4, v6) = (self.equals(protocol, IPV4), self.equals(protocol, IPV6_TYPE));
        let not = self.negate(v4);
        let other = self.negate(v6);
        let neither = self.both(not, other);
        let mut fits = self.negate(neither);
        if by < 0 {
            let least = self.select(v6, Num::known(40), Num::known(20));
            let all = self.packet_len(state);
            let need = self.binary(BinOp::Add, least, Num::known((ETHERNET - by) as u64), 64);
            let enough = self.compare(CmpOp::Le, false, need, all, 64);
            fits = self.both(fits, enough);
        }
        let outer = match flags & (room::IN_V4 | room::IN_V6) {
            room::IN_V4 => Some(IPV4),
            room::IN_V6 => Some(IPV6_TYPE),
            _ => None,
        };
        self.or_error(state, fits, ENOTSUPP, (First::Room { by, outer }, None))
    }

    /// Puts zeros behind the Ethernet header, or takes bytes away there; `outer` is the EtherType
    /// that the packet has then, if it changes.
    pub fn make_room(
        &mut self,
        state: &mut State,
        by: i64,
        outer: Option<u64>,
    ) -> Result<(), Halt> {
        let mut header = Vec::new();
        for (at, size) in halves(0, ETHERNET as u32) {
            let packet = Abs::Packet { place: Place::at(at.into()), epoch: state.epoch };
            header.push((at, size, self.load(state, packet, 0, size)?));
        }
        if by > 0 {
            self.put_in_front(state, by)?;
        } else {
            self.change_ends(state, First::Behead(-by))?;
        }
        let start = Abs::Packet { place: Place::at(0), epoch: state.epoch };
        for (at, size, value) in header {
            self.store(state, start, at.into(), size, value)?;
        }
        for (at, size) in halves(0, by.max(0) as u32) {
            self.store(state, start, ETHERNET + i64::from(at), size, Abs::known(0))?;
        }
        match outer {
            Some(outer) => self.set_protocol(state, Num::known(outer)),
            None => Ok(()),
        }
    }

    /// `bpf_csum_update`, for packets whose checksum no NIC has summed up.
    pub fn csum_update(&self) -> Abs {
        Abs::known(ENOTSUPP)
    }

    /// `bpf_clone_redirect`: a copy of the packet as it is now.
    pub fn clone_redirect(&mut self, state: &State, args: [Abs; 5]) -> Result<Abs, Halt> {
        if state.front.bytes > 0 {
            return refuse("copies a packet with headers that were put in front");
        }
        if self.num(args[2])?.constant() != Some(0) {
            return refuse("bpf_clone_redirect with flags");
        }
        let ifindex = self.cut(args[1], 4)?;
        let port = self.port(ifindex);
        let most = port.constant().filter(|port| *port < 256).unwrap_or(1) as u32;
        self.program.ports = self.program.ports.max(most + 1);
        let (event, port) = (self.event("net_copy"), self.value(port, 32));
        let args = vec![self.pkt, port];
        self.build().push0(Op::Generate { event, args });
        Ok(Abs::known(0))
    }

    /// A place of the packet that a helper is given.
    fn packet_place(&mut self, off: Abs) -> Result<Place, Halt> {
        let off = self.cut(off, 4)?;
        match off.constant() {
            Some(off) if off > MOST_OFFSET => refuse("works on bytes beyond any packet"),
            Some(off) => Ok(Place::at(off as i64)),
            None => Ok(Place { off: 0, var: Some(off) }),
        }
    }

    /// Condition that so many bytes from a place on are in the packet.
    pub fn place_fits(&mut self, state: &State, place: Place, bytes: u32) -> Cond {
        let end = place.off + i64::from(bytes);
        let Some(var) = place.var else { return self.fits(state, end) };
        let all = self.packet_len(state);
        let end = self.binary(BinOp::Add, var, Num::known(end as u64), 64);
        self.compare(CmpOp::Le, false, end, all, 64)
    }

    /// Condition for a number of bytes that varies to be in the packet.
    pub fn varying_fits(&mut self, state: &State, place: Place, bytes: Num) -> Cond {
        let from = place.var.unwrap_or(Num::known(0));
        let end = self.binary(BinOp::Add, from, bytes, 64);
        let end = self.binary(BinOp::Add, end, Num::known(place.off as u64), 64);
        let all = self.packet_len(state);
        self.compare(CmpOp::Le, false, end, all, 64)
    }

    /// Ends a call with a number.
    fn gives(&mut self, state: &mut State, result: u64) -> Result<Option<Fork>, Halt> {
        state.done(Abs::known(result));
        Ok(None)
    }

    /// Does something where its bytes are there; else the call gives an error, and does something
    /// else.
    pub fn or_error(
        &mut self,
        state: &mut State,
        fits: Cond,
        error: u64,
        (then, otherwise): (First, Option<First>),
    ) -> Result<Option<Fork>, Halt> {
        let mut fails = state.clone();
        fails.done(Abs::known(error));
        state.done(Abs::known(0));
        match fits {
            Cond::Known(true) => self.begin(state, then)?,
            Cond::Known(false) => {
                *state = fails;
                if let Some(otherwise) = otherwise {
                    self.begin(state, otherwise)?;
                }
            }
            Cond::Value(cond) => {
                state.first = Some(then);
                fails.first = otherwise;
                return Ok(Some(Fork { cond, fails, again: false }));
            }
        }
        Ok(None)
    }

    /// Copies bytes from one place to another.
    pub fn copy_bytes(
        &mut self,
        state: &mut State,
        from: Abs,
        to: Abs,
        bytes: Num,
    ) -> Result<(), Halt> {
        for (at, size) in pieces(bytes) {
            let mut value = self.load(state, from, at.into(), size)?;
            if u64::from(at) >= bytes.lo {
                let new = self.num(value)?;
                value = self.instead(state, (to, at), bytes, new)?;
            }
            self.store(state, to, at.into(), size, value)?;
        }
        Ok(())
    }

    /// A byte's new value if it is one of so many from a place on, else what is there.
    fn instead(
        &mut self,
        state: &mut State,
        (place, at): (Abs, u32),
        bytes: Num,
        new: Num,
    ) -> Result<Abs, Halt> {
        let old = self.load(state, place, at.into(), 1)?;
        let old = self.num(old)?;
        let counts = self.compare(CmpOp::Lt, false, Num::known(at.into()), bytes, 64);
        Ok(Abs::Num(self.select(counts, new, old)))
    }

    /// Writes zeros.
    pub fn clear_bytes(&mut self, state: &mut State, at: Abs, bytes: Num) -> Result<(), Halt> {
        for (off, size) in pieces(bytes) {
            let value = match u64::from(off) < bytes.lo {
                true => Abs::known(0),
                false => self.instead(state, (at, off), bytes, Num::known(0))?,
            };
            self.store(state, at, off.into(), size, value)?;
        }
        Ok(())
    }

    /// Changes a checksum that is in the packet.
    pub fn change_checksum(&mut self, state: &mut State, change: Change) -> Result<(), Halt> {
        let Change { at, from, to, kind, mangled, enforced } = change;
        let field = Abs::Packet { place: at, epoch: state.epoch };
        let old = self.load(state, field, 0, 2)?;
        let old = self.num(old)?;
        let new = match kind {
            ChangeKind::Half => {
                let without = self.inverted_to(from, 16);
                let rest = self.inverted_to(old, 16);
                let rest = self.sum_within(rest, without, 16);
                let sum = self.sum_within(rest, to, 16);
                self.inverted_to(sum, 16)
            }
            ChangeKind::Word | ChangeKind::Difference => {
                let mut rest = self.inverted_to(old, 32);
                if kind == ChangeKind::Word {
                    let without = self.inverted_to(from, 32);
                    rest = self.sum_within(rest, without, 32);
                }
                let sum = self.sum_within(rest, to, 32);
                let high = self.binary(BinOp::Shr, sum, Num::known(16), 64);
                let half = self.binary(BinOp::And, sum, Num::known(0xffff), 64);
                let sum = self.sum_within(half, high, 16);
                self.inverted_to(sum, 16)
            }
        };
        let new = if mangled { self.not_zero(old, new, enforced) } else { new };
        self.store(state, field, 0, 2, Abs::Num(new))
    }

    /// A new checksum where zero means that there is none.
    fn not_zero(&mut self, old: Num, new: Num, enforced: bool) -> Num {
        let none = self.equals(new, 0);
        let new = self.select(none, Num::known(0xffff), new);
        if enforced {
            return new;
        }
        let none = self.equals(old, 0);
        self.select(none, Num::known(0), new)
    }

    /// A number of so many bits with all of them inverted.
    fn inverted_to(&mut self, num: Num, bits: u32) -> Num {
        self.binary(BinOp::Xor, num, Num::known(low(bits)), 64)
    }

    /// The ones' complement sum of two numbers of so many bits.
    fn sum_within(&mut self, a: Num, b: Num, bits: u32) -> Num {
        let sum = self.binary(BinOp::Add, a, b, 64);
        let carry = self.binary(BinOp::Shr, sum, Num::known(bits.into()), 64);
        let rest = self.binary(BinOp::And, sum, Num::known(low(bits)), 64);
        let sum = self.binary(BinOp::Add, rest, carry, 64);
        self.truncate(sum, bits)
    }
}

/// Parts of so many bytes: of as many as there are for sure, and then each byte of the others.
fn pieces(bytes: Num) -> impl Iterator<Item = (u32, u32)> {
    let varying = (bytes.lo as u32..bytes.hi as u32).map(|at| (at, 1));
    halves(0, bytes.lo as u32).into_iter().chain(varying)
}
