//! Loops of many trips as loops of αIR, where writing out each trip would take too much.
//!
//! Facts where a trip begins are those before the first, but for what trips change: numbers become
//! carried values, with a range that every trip keeps; anything else that trips change is unusable.
//! A trip is followed until nothing new is found to change. A carried number that grows by at least
//! so much each trip, within a limit, bounds how many trips there are.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use nicforge_ir::{BlockId, Op, Type, ValueId};

use crate::alike::differ;
use crate::error::{Halt, refuse};
use crate::few::gcd;
use crate::join::Ends;
use crate::lifter::Lifter;
use crate::state::{Memory, State, Target};
use crate::value::{Abs, Cond, Num, Place, low};
use crate::walk::{Ended, Next, Stops};

/// Times that a trip is followed.
const MOST_ROUNDS: usize = 64;
/// Trips at most: those of `bpf_loop`, and one that ends it.
const MOST_TRIPS: u64 = nicforge_isa::ebpf::MOST_TRIPS as u64 + 1;
/// A value that trips change and that cannot be carried.
const CHANGED: Abs = Abs::Unusable("what an earlier trip of a loop left");

/// A place that holds something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Spot {
    Register(usize),
    Stack(usize, i64),
    Front(i64),
    Context(i64),
    Record(u32, i64),
}

/// A trip that was followed.
struct Trip {
    region: BlockId,
    /// Carried values at its start, in order.
    params: Vec<(Spot, ValueId)>,
    /// Values from this one on were made in it.
    mark: u32,
    ends: Ends,
    /// The end from which the next trip begins.
    back: usize,
}

/// Spots that trips change: those carried, with their ranges, and those that are unusable.
#[derive(Default)]
struct Changes {
    carried: BTreeMap<Spot, (u64, u64)>,
    lost: BTreeSet<Spot>,
    /// Stack slots that trips divide otherwise, where that was tried.
    divided: BTreeSet<Spot>,
    /// Lookups whose keys trips may change, so that another one must ask again.
    forgotten: BTreeSet<u32>,
}

impl Lifter<'_> {
    /// Follows a loop from its header on; goes on behind it.
    pub fn roll(&mut self, header: usize, mut state: State, outer: &Stops) -> Result<Next, Halt> {
        self.flush_all(&mut state)?;
        for found in state.lookups.values_mut() {
            if !found.is_there() {
                return refuse("a loop behind changes of keys");
            }
            found.value = None;
        }
        self.deeper()?;
        self.rolling.push(header);
        let (outside, span) = (self.at, self.span);
        let mut changes = Changes::default();
        let limits = self.flow.limits(self.insns, header);
        for _ in 0..MOST_ROUNDS {
            let (trip, head) = self.trip(header, &state, &changes, outer)?;
            if self.find_changes(&state, &head, &trip, (&mut changes, &limits))? {
                self.at = outside;
                self.divide_as(&mut state, &trip.ends.states[&trip.back])?;
                continue;
            }
            let stops = self.ways_out(header, state.frames.len(), outer);
            let ends = self.close(&state, trip, (outside, span))?;
            self.depth -= 1;
            self.rolling.pop();
            self.version += 1;
            return self.go_on(Ended::Here(Box::new(ends)), stops, outer);
        }
        refuse("a loop whose trips change more and more")
    }

    /// Where ways leave a loop, and where somebody around goes on.
    fn ways_out(&self, header: usize, depth: usize, outer: &Stops) -> Stops {
        let mut at = self.flow.ways_out(header);
        at.retain(|to| !self.only_returns(*to, depth));
        if depth > 1 {
            at.push(self.insns.len());
        }
        if outer.depth == depth {
            at.extend(&outer.at);
        }
        self.flow.sort(header, &mut at);
        at.dedup();
        Stops { at, depth, around: outer.around.clone() }
    }

    /// Follows one trip in a region of its own.
    fn trip(
        &mut self,
        header: usize,
        state: &State,
        changes: &Changes,
        outer: &Stops,
    ) -> Result<(Trip, State), Halt> {
        let depth = state.frames.len();
        let mark = self.body.values.len() as u32;
        let region = self.build().new_block();
        let mut head = state.clone();
        let mut params = Vec::new();
        for spot in &changes.lost {
            put(&mut head, *spot, None);
        }
        for id in &changes.forgotten {
            if let Some(found) = head.lookups.get_mut(id) {
                found.parts.clear();
            }
        }
        for (spot, (lo, hi)) in &changes.carried {
            let Some((size, abs)) = get(state, *spot) else { continue };
            let param = self.build().param(region, Type::u(bits(*hi)), None);
            params.push((*spot, param));
            if let (Some((_, step)), Some(first)) = (self.steady(header, *spot), part(abs)) {
                let first = if first == Num::known(0) { 0 } else { self.stride(first) };
                self.strides.borrow_mut().insert(param, gcd(first, step));
            }
            put(&mut head, *spot, Some((size, varying(abs, Num::within(param, *lo, *hi)))));
        }
        self.at = region;
        self.version += 1;
        self.enter = Some(header);
        let mut stops = self.ways_out(header, depth, outer);
        stops.at.insert(0, header);
        stops.around.extend(stops.at.iter().map(|at| (*at, depth)));
        let Ended::Here(ends) = self.walk(header, head.clone(), &stops)? else {
            return refuse("a loop without a second trip");
        };
        let labels = self.labels();
        let mut backs = ends.states.keys().copied().filter(|label| label % labels == header);
        let (Some(back), None) = (backs.next(), backs.next()) else {
            return refuse("a loop whose trips begin with different kinds of pointers");
        };
        Ok((Trip { region, params, mark, ends: *ends, back }, head))
    }

    /// Compares a trip's start with the next one's; true if something else changes.
    fn find_changes(
        &mut self,
        state: &State,
        head: &State,
        trip: &Trip,
        (changes, limits): (&mut Changes, &BTreeSet<u64>),
    ) -> Result<bool, Halt> {
        let header = trip.back % self.labels();
        let back = &trip.ends.states[&trip.back];
        let same_target = match (head.redirect, back.redirect) {
            (a, b) if a == b => true,
            (Some(Target::Port(a)), Some(Target::Port(b))) => a == b,
            _ => false,
        };
        if differ(head, back, None, false) || !same_target {
            return refuse("a loop whose trips change the packet's ends or where it goes");
        }
        if head.lookups.keys().any(|id| back.lookups.get(id).is_some_and(|l| !l.is_there())) {
            return refuse("a loop whose trips change keys");
        }
        let live = self.live(&[header]);
        let is_read = |spot: &Spot| match spot {
            Spot::Register(at) => live >> at & 1 != 0,
            _ => true,
        };
        let (before, after) = (spots(head), spots(back));
        // What nobody wrote is zero there, where a later trip may see what an earlier one wrote.
        let is_zero = |spot: &Spot| matches!(spot, Spot::Front(_) | Spot::Context(_));
        if after.keys().any(|spot| is_zero(spot) && !before.contains_key(spot)) {
            return refuse("a loop that writes headers in front of the packet, or the context");
        }
        let mut grew = false;
        for (id, found) in &head.lookups {
            if back.lookups.get(id).is_none_or(|other| other.parts != found.parts) {
                grew |= changes.forgotten.insert(*id);
            }
        }
        for (spot, (size, abs)) in before.iter().filter(|(spot, _)| is_read(spot)) {
            if changes.lost.contains(spot) {
                continue;
            }
            let same = after.get(spot).filter(|(other, _)| other == size);
            if same.is_none() && matches!(spot, Spot::Stack(..)) && !changes.divided.contains(spot)
            {
                changes.divided.insert(*spot);
                grew = true;
                continue;
            }
            let next = same.map(|(_, abs)| *abs);
            let first = get(state, *spot).map(|(_, abs)| abs);
            let step = next.zip(first).and_then(|(next, first)| self.step_from(first, next));
            let (Some(next), Some(first)) = (step, first.and_then(part)) else {
                // Not a number, or one in a pointer of one kind.
                if let (Abs::Num(_), Some(Abs::Value { lookup, .. })) = (abs, next)
                    && let Some(place) = back.lookups.get(&lookup).and_then(|found| found.met_null)
                    && !self.apart.contains(&place)
                {
                    // Null on the ways that come back, if they are kept apart.
                    return Err(Halt::Split(place));
                }
                if next != Some(*abs) || changes.carried.contains_key(spot) {
                    changes.lost.insert(*spot);
                    changes.carried.remove(spot);
                    grew = true;
                }
                continue;
            };
            if part(*abs) == Some(next) && !changes.carried.contains_key(spot) {
                continue;
            }
            let (lo, hi) = (next.lo.min(first.lo), next.hi.max(first.hi));
            match changes.carried.get_mut(spot) {
                Some(range) if range.0 <= lo && hi <= range.1 => {}
                Some(range) => {
                    *range = (if lo < range.0 { 0 } else { range.0 }, wider(limits, range.1, hi));
                    grew = true;
                }
                None => {
                    // The same value, of which a trip knows more or less.
                    if next == first || next.id.is_some() && next.id == first.id {
                        continue;
                    }
                    changes.carried.insert(*spot, (lo, wider(limits, first.hi, hi)));
                    grew = true;
                }
            }
        }
        Ok(grew)
    }

    /// Divides numbers in stack slots as a trip does, which writes parts of them.
    fn divide_as(&mut self, state: &mut State, next: &State) -> Result<(), Halt> {
        for (frame, own) in next.frames.iter().enumerate() {
            for (off, (size, _)) in &own.memory.slots {
                let held = &state.frames[frame].memory;
                let parts = held.overlapping(*off, *size);
                let numbers = parts.iter().all(|(_, _, abs)| matches!(abs, Abs::Num(_)));
                let covered: i64 = parts
                    .iter()
                    .map(|(at, bytes, _)| {
                        (at + i64::from(*bytes)).min(off + i64::from(*size)) - at.max(off)
                    })
                    .sum();
                if held.exact(*off, *size).is_some() || !numbers || covered < i64::from(*size) {
                    continue;
                }
                let pointer = Abs::Stack { frame, place: Place::at(0) };
                let value = self.load(state, pointer, *off, *size)?;
                self.store(state, pointer, *off, *size, value)?;
            }
        }
        Ok(())
    }

    /// The varying part of what a spot holds for the next trip, as of its constant part before the
    /// first; none if it is of another kind.
    fn step_from(&mut self, first: Abs, next: Abs) -> Option<Num> {
        let place = |a: Place, b: Place| {
            let more = u64::try_from(b.off.checked_sub(a.off)?).ok()?;
            Some((b.var.unwrap_or(Num::known(0)), more))
        };
        let (num, more) = match (first, next) {
            (Abs::Num(_), Abs::Num(next)) => return Some(next),
            (Abs::Packet { place: a, epoch: e }, Abs::Packet { place: b, epoch: f }) if e == f => {
                place(a, b)?
            }
            (Abs::Stack { frame: f, place: a }, Abs::Stack { frame: g, place: b }) if f == g => {
                place(a, b)?
            }
            (Abs::Value { lookup: l, place: a }, Abs::Value { lookup: m, place: b }) if l == m => {
                place(a, b)?
            }
            (Abs::Record { record: l, place: a }, Abs::Record { record: m, place: b })
                if l == m =>
            {
                place(a, b)?
            }
            (Abs::Constant { map: l, place: a }, Abs::Constant { map: m, place: b }) if l == m => {
                place(a, b)?
            }
            _ => return None,
        };
        Some(self.add(num, Num::known(more)))
    }

    /// By how much a carried number is more at each trip, if that is known.
    fn steady(&self, header: usize, spot: Spot) -> Option<(i64, u64)> {
        match spot {
            Spot::Register(at) => self.flow.step(self.insns, header, at),
            _ => None,
        }
    }

    /// Ends the region of a trip and writes the loop; where ways left it, and what is known there.
    fn close(
        &mut self,
        state: &State,
        trip: Trip,
        (outside, span): (BlockId, nicforge_ir::Span),
    ) -> Result<Ends, Halt> {
        let Trip { region, params, mark, mut ends, back } = trip;
        let header = back % self.labels();
        self.write_back(&mut ends)?;
        let mut next = Vec::new();
        let mut trips: Option<u64> = None;
        let first = |spot: Spot| {
            let abs = get(state, spot).map(|(_, abs)| abs);
            (abs, abs.and_then(part).unwrap_or(Num::known(0)))
        };
        for (spot, param) in &params {
            let (abs, from) = first(*spot);
            let after = get(&ends.states[&back], *spot).map(|(_, abs)| abs);
            let after = abs.zip(after).and_then(|(first, next)| self.step_from(first, next));
            let after = after.unwrap_or(Num::known(0));
            let bound = match self.steady(header, *spot) {
                Some((step, _)) if step > 0 && after.hi < low(31) => {
                    Some(after.hi.saturating_sub(from.lo) / step.unsigned_abs() + 1)
                }
                Some((step, _)) if step < 0 && from.hi < low(31) && after.hi <= from.hi => {
                    Some(from.hi / step.unsigned_abs() + 1)
                }
                _ => None,
            };
            trips = [trips, bound].into_iter().flatten().min();
            let ty = self.body.ty(*param);
            next.push(self.value(after, ty.bits().unwrap_or(64).into()));
        }
        let Some(trips) = trips.filter(|trips| *trips <= MOST_TRIPS) else {
            return refuse("a loop of which nothing says how many trips it has");
        };
        let again = self.equals(ends.next, back as u64);
        ends.states.remove(&back);
        let Cond::Value(again) = again else { return refuse("a loop that is never left") };
        if ends.states.is_empty() {
            return refuse("a loop that is never left");
        }
        // Everything that was made in the trip and is known behind the loop.
        let mut inner = Vec::new();
        if let [label] = ends.states.keys().copied().collect::<Vec<_>>()[..] {
            ends.next = Num::known(label as u64);
        }
        let mut found = |id: ValueId| {
            if id.as_u32() >= mark && !inner.contains(&id) {
                inner.push(id);
            }
            id
        };
        ends.next.id.map(&mut found);
        ends.states.values_mut().for_each(|state| each_value(state, &mut found));
        let types: Vec<Type> = inner.iter().map(|id| self.body.ty(*id)).collect();
        let carried: Vec<Type> = params.iter().map(|(_, id)| self.body.ty(*id)).collect();
        for ty in &types {
            self.build().param(region, *ty, None);
        }
        let (then, other) = (self.build().new_block(), self.build().new_block());
        let zeros: Vec<ValueId> = types.iter().map(|ty| self.push1(Op::Zero, *ty)).collect();
        self.build().push0(Op::If { cond: again, likely: None, then, other });
        next.extend(&zeros);
        self.build().push0(Op::Continue { depth: 0, values: next });
        self.at = then;
        self.build().push0(Op::Yield(Vec::new()));
        self.at = other;
        let own = params.iter().map(|(_, id)| *id);
        let values = own.chain(inner.iter().copied()).collect();
        self.build().push0(Op::Break { depth: 0, values });
        (self.at, self.span) = (outside, span);
        let mut init = Vec::new();
        for ((spot, _), ty) in params.iter().zip(&carried) {
            let (_, from) = first(*spot);
            init.push(self.value(from, ty.bits().unwrap_or(64).into()));
        }
        for ty in &types {
            init.push(self.push1(Op::Zero, *ty));
        }
        let all: Vec<Type> = carried.iter().chain(&types).copied().collect();
        let op = Op::Loop { max_trips: trips as u32, init, body: region };
        let inst = self.build().push(op, &all);
        let results = self.body.insts[inst].results[params.len()..].to_vec();
        let of: HashMap<ValueId, ValueId> = inner.into_iter().zip(results).collect();
        for (inner, result) in &of {
            let stride = self.stride(Num::of(*inner, 64));
            self.strides.borrow_mut().insert(*result, stride);
        }
        let mut renamed = |id: ValueId| of.get(&id).copied().unwrap_or(id);
        ends.next.id = ends.next.id.map(&mut renamed);
        for state in ends.states.values_mut() {
            each_value(state, &mut renamed);
            state.assumed.retain(|id, _| id.as_u32() < mark);
            state.within.retain(|id, _| id.as_u32() < mark);
            state.varying.retain(|id, _| id.as_u32() < mark);
        }
        Ok(ends)
    }

    /// Writes back what each end of a trip changed in maps.
    fn write_back(&mut self, ends: &mut Ends) -> Result<(), Halt> {
        let labels: Vec<usize> = ends.states.keys().copied().collect();
        for label in labels {
            let Some(mut state) = ends.states.remove(&label) else { continue };
            if state.lookups.values().any(|found| found.dirty) {
                match self.equals(ends.next, label as u64) {
                    Cond::Known(_) => self.flush_all(&mut state)?,
                    Cond::Value(cond) => {
                        let (then, other) = (self.build().new_block(), self.build().new_block());
                        let outside = self.at;
                        self.build().push0(Op::If { cond, likely: None, then, other });
                        self.at = then;
                        self.flush_all(&mut state)?;
                        self.build().push0(Op::Yield(Vec::new()));
                        self.at = other;
                        self.build().push0(Op::Yield(Vec::new()));
                        self.at = outside;
                    }
                }
            }
            // Whoever needs it reads it again.
            for found in state.lookups.values_mut().filter(|found| found.is_there()) {
                (found.value, found.kept) = (None, None);
            }
            ends.states.insert(label, state);
        }
        Ok(())
    }
}

/// Bits of the type that holds numbers up to one.
fn bits(most: u64) -> u8 {
    [8, 16, 32].into_iter().find(|bits| most <= low(*bits)).unwrap_or(64) as u8
}

/// The next limit that holds a number, from one that did not.
fn wider(limits: &BTreeSet<u64>, limit: u64, number: u64) -> u64 {
    if number <= limit { limit } else { limits.range(number..).next().copied().unwrap_or(u64::MAX) }
}

/// The number of it that may vary: itself, or that of a pointer.
fn part(abs: Abs) -> Option<Num> {
    match abs {
        Abs::Num(num) => Some(num),
        Abs::Packet { place, .. }
        | Abs::Stack { place, .. }
        | Abs::Value { place, .. }
        | Abs::Record { place, .. }
        | Abs::Constant { place, .. } => Some(place.var.unwrap_or(Num::known(0))),
        _ => None,
    }
}

/// The same with another number.
fn varying(mut abs: Abs, num: Num) -> Abs {
    match &mut abs {
        Abs::Num(own) => *own = num,
        Abs::Packet { place, .. }
        | Abs::Stack { place, .. }
        | Abs::Value { place, .. }
        | Abs::Record { place, .. }
        | Abs::Constant { place, .. } => place.var = Some(num),
        _ => {}
    }
    abs
}

/// All places that hold something, but for those of callers.
fn spots(state: &State) -> BTreeMap<Spot, (u32, Abs)> {
    let mut found = BTreeMap::new();
    let mut memory = |memory: &Memory, spot: &dyn Fn(i64) -> Spot| {
        found.extend(memory.slots.iter().map(|(off, held)| (spot(*off), *held)));
    };
    for (nth, frame) in state.frames.iter().enumerate() {
        memory(&frame.memory, &|off| Spot::Stack(nth, off));
    }
    memory(&state.front.memory, &Spot::Front);
    memory(&state.context, &Spot::Context);
    for (id, record) in &state.records {
        memory(&record.memory, &|off| Spot::Record(*id, off));
    }
    let registers = state.regs.iter().enumerate().take(10);
    found.extend(registers.map(|(at, abs)| (Spot::Register(at), (8, *abs))));
    found
}

fn memory(state: &mut State, spot: Spot) -> Option<(&mut Memory, i64)> {
    Some(match spot {
        Spot::Register(_) => return None,
        Spot::Stack(nth, off) => (&mut state.frames.get_mut(nth)?.memory, off),
        Spot::Front(off) => (&mut state.front.memory, off),
        Spot::Context(off) => (&mut state.context, off),
        Spot::Record(id, off) => (&mut state.records.get_mut(&id)?.memory, off),
    })
}

fn get(state: &State, spot: Spot) -> Option<(u32, Abs)> {
    let held = |memory: &Memory, off: i64| memory.slots.get(&off).copied();
    match spot {
        Spot::Register(at) => Some((8, state.regs[at])),
        Spot::Stack(nth, off) => held(&state.frames.get(nth)?.memory, off),
        Spot::Front(off) => held(&state.front.memory, off),
        Spot::Context(off) => held(&state.context, off),
        Spot::Record(id, off) => held(&state.records.get(&id)?.memory, off),
    }
}

/// Sets what a spot holds; nothing that can be used if nothing is given.
fn put(state: &mut State, spot: Spot, held: Option<(u32, Abs)>) {
    if let Spot::Register(at) = spot {
        state.regs[at] = held.map_or(CHANGED, |(_, abs)| abs);
    } else if let Some((memory, off)) = memory(state, spot) {
        let size = memory.slots.get(&off).map_or(8, |(size, _)| *size);
        memory.slots.insert(off, held.unwrap_or((size, CHANGED)));
    }
}

/// Every value of αIR in a state.
fn each_value(state: &mut State, visit: &mut impl FnMut(ValueId) -> ValueId) {
    state.each_num(&mut |num| num.id = num.id.map(&mut *visit));
    if let Some(Target::Port(num) | Target::Ports { others: num, .. }) = &mut state.redirect {
        num.id = num.id.map(&mut *visit);
    }
    for found in state.lookups.values_mut() {
        found.key = visit(found.key);
        found.bits = found.bits.map(&mut *visit);
        found.value = found.value.map(&mut *visit);
        found.kept = found.kept.map(&mut *visit);
        for cond in [&mut found.hit, &mut found.gone] {
            if let Cond::Value(id) = cond {
                *id = visit(*id);
            }
        }
        for part in &mut found.parts {
            part.id = part.id.map(&mut *visit);
        }
    }
}
