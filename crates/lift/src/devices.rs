//! Device maps: redirects to one of their ports, or to all of them.

use nicforge_ir::{BinOp, CmpOp, Op, TableId, Type, ValueId};
use nicforge_isa::object::map_type_name;

use crate::error::{Halt, refuse};
use crate::helpers::XDP_REDIRECT;
use crate::kind;
use crate::layout::Leaf;
use crate::lifter::{Known, Lifter};
use crate::state::{Fork, State, Target};
use crate::value::{Abs, Cond, Num};
use crate::verdict::XDP_TX;

/// Flags of `bpf_redirect_map`.
const BROADCAST: u64 = 8;
const EXCLUDE_INGRESS: u64 = 16;
/// Entries at most of a device map that is gone through.
const MOST_PORTS: u32 = 256;
/// Ports of a program that sends to all in a map.
const PORTS: u32 = 4;

impl Lifter<'_> {
    /// `bpf_redirect_map`: by a key, to all ports, or as flags that vary say.
    pub fn redirect_map(
        &mut self,
        state: &mut State,
        args: [Abs; 5],
    ) -> Result<Option<Fork>, Halt> {
        let map = self.map(args[0], "bpf_redirect_map")?;
        let flags = self.num(args[2])?;
        let device = matches!(self.map_kind(map), kind::DEVMAP | kind::DEVMAP_HASH);
        if flags.hi <= XDP_TX {
            self.redirect_one(state, map, args[1], flags)?;
            return Ok(None);
        }
        let mask = BROADCAST | EXCLUDE_INGRESS | XDP_TX;
        if !device || flags.hi > mask {
            return refuse("bpf_redirect_map with flags besides a verdict and BPF_F_BROADCAST");
        }
        self.listed(map)?;
        let mut one = state.clone();
        let verdict = self.binary(BinOp::And, flags, Num::known(XDP_TX), 64);
        let broadcast = self.has(flags, BROADCAST);
        let others = self.has(flags, EXCLUDE_INGRESS);
        let others = self.select(others, Num::known(1), Num::known(0));
        state.redirect = Some(Target::Ports { map, others });
        state.done(Abs::known(XDP_REDIRECT));
        match broadcast {
            Cond::Known(true) => Ok(None),
            Cond::Known(false) => {
                self.redirect_one(&mut one, map, args[1], verdict)?;
                *state = one;
                Ok(None)
            }
            Cond::Value(cond) => {
                self.redirect_one(&mut one, map, args[1], verdict)?;
                Ok(Some(Fork { cond, fails: one, again: false }))
            }
        }
    }

    fn has(&mut self, flags: Num, flag: u64) -> Cond {
        let found = self.binary(BinOp::And, flags, Num::known(flag), 64);
        self.compare(CmpOp::Ne, false, found, Num::known(0), 64)
    }

    /// To what a map has for a key; `absent` is what the helper returns where it has nothing.
    fn redirect_one(
        &mut self,
        state: &mut State,
        map: usize,
        key: Abs,
        absent: Num,
    ) -> Result<(), Halt> {
        let key = self.cut(key, 4)?;
        let known = self.table(map)?;
        let (hit, target) = if self.is_listed(map) {
            self.find_listed(map, &known, key)?
        } else {
            self.find_keyed(map, &known, key)?
        };
        state.redirect = Some(target);
        let verdict = self.select(hit, Num::known(XDP_REDIRECT), absent);
        state.done(Abs::Num(verdict));
        Ok(())
    }

    fn find_keyed(&mut self, map: usize, known: &Known, key: Num) -> Result<(Cond, Target), Halt> {
        let (table, ty) = (known.table, self.program.tables[known.table].value);
        let key = self.value(key, 32);
        let (hit, value) = self.build().push2(Op::Lookup { table, key }, Type::BOOL, ty);
        let target = match self.map_kind(map) {
            kind::DEVMAP | kind::DEVMAP_HASH => {
                let leaf = self.ifindex(map, known)?;
                let ifindex = self.part(value, &leaf, None);
                Target::Port(self.port(ifindex))
            }
            kind::CPUMAP => Target::Stack,
            kind::XSKMAP => Target::Host,
            other => {
                let ty = map_type_name(other);
                return refuse(format!("bpf_redirect_map with a map of type {ty}"));
            }
        };
        Ok((Cond::Value(hit), target))
    }

    /// Where a device map's entries say their interface.
    fn ifindex(&self, map: usize, known: &Known) -> Result<Leaf, Halt> {
        let off = if self.is_listed(map) { 4 } else { 0 };
        match known.value.leaves(off, 4, None).unwrap_or_default().as_slice() {
            [leaf] => Ok(leaf.clone()),
            _ => refuse("a device map without ports"),
        }
    }

    /// True if a map is an array of slots, each with its key in front of its value: what a device
    /// hash map is where all of its entries are gone through.
    pub fn is_listed(&self, map: usize) -> bool {
        self.map_kind(map) == kind::DEVMAP_HASH && self.apart.contains(&self.list_name(map))
    }

    /// Names a map among places where ways are kept apart, behind the last of which it is.
    fn list_name(&self, map: usize) -> usize {
        self.labels() + map
    }

    /// Makes a device hash map such an array, for which the walk begins again.
    fn listed(&self, map: usize) -> Result<(), Halt> {
        if self.map_kind(map) == kind::DEVMAP_HASH && !self.is_listed(map) {
            return Err(Halt::Split(self.list_name(map)));
        }
        Ok(())
    }

    fn slots(&self, map: usize, table: TableId) -> Result<u32, Halt> {
        let count = self.program.tables[table].capacity;
        if count <= MOST_PORTS {
            return Ok(count);
        }
        let name = self.map_name(map);
        refuse(format!("goes through all {count} entries of map `{name}`, over {MOST_PORTS}"))
    }

    /// The entry for a key where keys are in slots.
    fn find_listed(&mut self, map: usize, known: &Known, key: Num) -> Result<(Cond, Target), Halt> {
        let leaf = self.ifindex(map, known)?;
        let own = known.value.leaves(0, 4, None).unwrap_or_default();
        let [own] = own.as_slice() else { return refuse("a device map without keys") };
        let mut ifindex = Num::known(0);
        let (table, ty) = (known.table, self.program.tables[known.table].value);
        for slot in 0..self.slots(map, table)? {
            let at = self.build().int(slot.into(), Type::U32);
            let (_, value) = self.build().push2(Op::Lookup { table, key: at }, Type::BOOL, ty);
            let (one, here) = (self.part(value, own, None), self.part(value, &leaf, None));
            let same = self.compare(CmpOp::Eq, false, one, key, 32);
            let used = self.compare(CmpOp::Ne, false, here, Num::known(0), 32);
            let goes = self.both(same, used);
            ifindex = self.select(goes, here, ifindex);
        }
        let hit = self.compare(CmpOp::Ne, false, ifindex, Num::known(0), 32);
        Ok((hit, Target::Port(self.port(ifindex))))
    }

    /// Copies to all ports in a map but the last, to which the packet itself goes; it is dropped
    /// if there is none.
    pub fn leave_by_all(&mut self, state: &mut State, map: usize, others: Num) -> Result<(), Halt> {
        self.emit_front(state)?;
        self.program.ports = self.program.ports.max(PORTS);
        let (found, port) = self.copy_to_all(map, others)?;
        let (pkt, outside) = (self.pkt, self.at);
        let (then, other) = (self.build().new_block(), self.build().new_block());
        self.build().push0(Op::If { cond: found, likely: None, then, other });
        self.at = then;
        let event = self.event("net_send");
        self.build().push0(Op::Generate { event, args: vec![pkt, port] });
        self.build().push0(Op::Return(Vec::new()));
        self.at = other;
        self.build().push0(Op::Yield(Vec::new()));
        self.at = outside;
        let reason = self.reason("XDP_REDIRECT without a target");
        self.build().drop(pkt, reason);
        Ok(())
    }

    /// The loop over a map's entries: whether there is a port, and the last one.
    fn copy_to_all(&mut self, map: usize, others: Num) -> Result<(ValueId, ValueId), Halt> {
        let known = self.table(map)?;
        let leaf = self.ifindex(map, &known)?;
        let (table, ty) = (known.table, self.program.tables[known.table].value);
        let (pkt, count) = (self.pkt, self.slots(map, table)?);
        let (zero, none) = (self.build().int(0, Type::U32), self.build().int(0, Type::BOOL));
        let (outside, body) = (self.at, self.build().new_block());
        let at = self.build().param(body, Type::U32, None);
        let found = self.build().param(body, Type::BOOL, None);
        let port = self.build().param(body, Type::U32, None);
        self.at = body;
        let (hit, value) = self.build().push2(Op::Lookup { table, key: at }, Type::BOOL, ty);
        let ifindex = self.part(value, &leaf, None);
        let mut goes = if self.is_listed(map) {
            self.compare(CmpOp::Ne, false, ifindex, Num::known(0), 32)
        } else {
            Cond::Value(hit)
        };
        let here = self.port(ifindex);
        if others != Num::known(0) {
            let own = self.push1(Op::InPort { pkt }, Type::U32);
            let same = self.compare(CmpOp::Eq, false, here, Num::of(own, 32), 32);
            let left_out = self.compare(CmpOp::Ne, false, others, Num::known(0), 32);
            let back = self.both(same, left_out);
            let other = self.negate(back);
            goes = self.both(goes, other);
        }
        let Cond::Value(goes) = goes else { return refuse("a device map without ports") };
        let copies = self.push1(Op::Bin(BinOp::And, goes, found), Type::BOOL);
        let (then, other) = (self.build().new_block(), self.build().new_block());
        self.build().push0(Op::If { cond: copies, likely: None, then, other });
        self.at = then;
        let event = self.event("net_copy");
        self.build().push0(Op::Generate { event, args: vec![pkt, port] });
        self.build().push0(Op::Yield(Vec::new()));
        self.at = other;
        self.build().push0(Op::Yield(Vec::new()));
        self.at = body;
        let more = self.push1(Op::Bin(BinOp::Or, found, goes), Type::BOOL);
        let here = self.value(here, 32);
        let last = Op::Select { cond: goes, then: here, other: port };
        let last = self.push1(last, Type::U32);
        let one = self.build().int(1, Type::U32);
        let next = self.push1(Op::Bin(BinOp::Add, at, one), Type::U32);
        self.build().push0(Op::Continue { depth: 0, values: vec![next, more, last] });
        self.at = outside;
        let op = Op::Loop { max_trips: count, init: vec![zero, none, zero], body };
        let inst = self.build().push(op, &[Type::U32, Type::BOOL, Type::U32]);
        let results = &self.body.insts[inst].results;
        Ok((results[1], results[2]))
    }
}
