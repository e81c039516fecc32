//! Where two ways meet again: numbers that differ become results of the `if`, pointers that differ
//! in numbers alone become pointers with such results in them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use nicforge_ir::{BlockId, InstId, Op, Type, Value, ValueDef, ValueId};

use crate::alike::differ;
use crate::error::Halt;
use crate::lifter::Lifter;
use crate::state::{Lookup, Memory, State, Target};
use crate::value::{Abs, Cond, Num, Place};

/// Where a way may end, and what is known there.
///
/// What cannot be one, such as packets with and without a header put in front, is kept apart: the
/// label of an end is its place and, times [`Lifter::labels`], which of the states there it is.
#[derive(Clone)]
pub struct Ends {
    /// The label, as a number like others.
    pub next: Num,
    pub states: BTreeMap<usize, State>,
}

impl Ends {
    /// One place.
    pub fn at(place: usize, state: State) -> Ends {
        Ends { next: Num::known(place as u64), states: BTreeMap::from([(place, state)]) }
    }
}

/// One of two ways: where it ends, and the region that ends there, unless it ended.
pub struct Way {
    pub ends: Ends,
    pub region: Option<BlockId>,
}

/// Facts that both ways give the instruction behind them.
pub struct Meeting<'l, 'a> {
    pub lifter: &'l mut Lifter<'a>,
    pub inst: InstId,
    /// The place, for what cannot be one.
    pub name: usize,
    /// Values from this one on were made in a region and are not seen outside.
    pub inner: u32,
    numbers: Vec<(Num, Num, u32)>,
    raw: Vec<(ValueId, ValueId)>,
    known: HashMap<(Num, Num), Num>,
    /// Results in the order in which regions yield them.
    order: Vec<Yielded>,
    pub sides: [BTreeMap<u32, Lookup>; 2],
    regions: [Option<BlockId>; 2],
    lookups: BTreeMap<u32, Lookup>,
    pairs: HashMap<(Option<u32>, Option<u32>), u32>,
}

#[derive(Clone, Copy)]
enum Yielded {
    Number(usize),
    Raw(usize),
}

impl Lifter<'_> {
    /// Ends both regions and says what is known behind them.
    ///
    /// # Errors
    /// The ways must be kept apart.
    pub fn meet(&mut self, inst: InstId, inner: u32, mut ways: [Way; 2]) -> Result<Ends, Halt> {
        self.weigh(ways.iter().flat_map(|way| way.ends.states.values()))?;
        self.relabel(&mut ways);
        let labels = ways[0].ends.states.keys();
        let common = labels.filter(|label| ways[1].ends.states.contains_key(label));
        for label in common.copied().collect::<Vec<_>>() {
            self.settle(&mut ways, label)?;
        }
        let [a, b] = ways;
        let mut meeting = Meeting {
            inst,
            name: 0,
            inner,
            numbers: Vec::new(),
            raw: Vec::new(),
            known: HashMap::new(),
            order: Vec::new(),
            regions: [a.region, b.region],
            sides: [BTreeMap::new(), BTreeMap::new()],
            lookups: BTreeMap::new(),
            pairs: HashMap::new(),
            lifter: self,
        };
        let next = meeting.number(a.ends.next, b.ends.next);
        let mut states = BTreeMap::new();
        let mut others = b.ends.states;
        for (label, one) in a.ends.states {
            let place = label % meeting.lifter.labels();
            let state = match others.remove(&label) {
                Some(other) => meeting.state(place, one, other),
                None => meeting.carried(place, one, true),
            };
            states.insert(label, state);
        }
        for (label, other) in others {
            let place = label % meeting.lifter.labels();
            states.insert(label, meeting.carried(place, other, false));
        }
        let Meeting { numbers, raw, order, .. } = meeting;
        for (region, first) in [(a.region, true), (b.region, false)] {
            let Some(region) = region else { continue };
            self.at = region;
            let one = |lifter: &mut Self, yielded: &Yielded| match yielded {
                Yielded::Number(at) => {
                    let (a, b, bits) = numbers[*at];
                    lifter.value(if first { a } else { b }, bits)
                }
                Yielded::Raw(at) => {
                    if first {
                        raw[*at].0
                    } else {
                        raw[*at].1
                    }
                }
            };
            let values = order.iter().map(|yielded| one(self, yielded)).collect();
            self.build().push0(Op::Yield(values));
        }
        Ok(Ends { next, states })
    }

    /// Gives ends of the second way the labels of those of the first that they can be one with,
    /// and others labels that the first way does not have.
    fn relabel(&mut self, ways: &mut [Way; 2]) {
        let labels = self.labels();
        let [first, second] = ways;
        let mut free: Vec<usize> = first.ends.states.keys().copied().collect();
        let mut taken: BTreeSet<usize> = free.iter().copied().collect();
        let mut renamed = Vec::new();
        let mut states = BTreeMap::new();
        for (label, state) in std::mem::take(&mut second.ends.states) {
            let place = label % labels;
            let live = self.live(&[place]);
            let kinds = self.apart.contains(&place).then_some(live);
            let nulls = !self.rolled.is_empty();
            let fits = |other: &usize| {
                let other_state = &first.ends.states[other];
                other % labels == place && !differ(other_state, &state, kinds, nulls)
            };
            let own = free.iter().position(|other| *other == label && fits(other));
            let new = match own.or_else(|| free.iter().position(&fits)) {
                Some(at) => free.swap_remove(at),
                None => {
                    let mut all = (0..).map(|nth| place + nth * labels);
                    all.find(|label| !taken.contains(label)).unwrap_or(label)
                }
            };
            taken.insert(new);
            if new != label {
                renamed.push((label, new));
            }
            states.insert(new, state);
        }
        second.ends.states = states;
        if let Some(region) = second.region {
            self.at = region;
            let old = second.ends.next;
            for (label, new) in renamed {
                let same = self.equals(old, label as u64);
                let new = Num::known(new as u64);
                second.ends.next = self.select(same, new, second.ends.next);
            }
        }
    }

    /// Writes back what only one way to a place changed, or what both cannot give on.
    fn settle(&mut self, ways: &mut [Way; 2], place: usize) -> Result<(), Halt> {
        let dirty = |way: &Way| -> BTreeSet<u32> {
            let lookups = &way.ends.states[&place].lookups;
            lookups.iter().filter(|(_, l)| l.dirty).map(|(id, _)| *id).collect()
        };
        let all: BTreeSet<u32> = dirty(&ways[0]).union(&dirty(&ways[1])).copied().collect();
        for id in all {
            // An entry that is not there must not be written.
            let there = |l: &Lookup| l.dirty || l.hit == Cond::Known(true);
            let both = ways.iter().all(|way| {
                let found = way.ends.states[&place].lookups.get(&id);
                found.is_some_and(|l| l.value.is_some() && l.is_there() && there(l))
            });
            let key = |way: &Way| way.ends.states[&place].lookups[&id].key;
            if both && key(&ways[0]) == key(&ways[1]) {
                continue;
            }
            for way in ways.iter_mut() {
                let Some(region) = way.region else { continue };
                self.at = region;
                let here = self.equals(way.ends.next, place as u64);
                let Some(state) = way.ends.states.get_mut(&place) else { continue };
                // A way that may end elsewhere writes only if it ends here.
                let Cond::Value(cond) = here else {
                    self.flush(state, id)?;
                    continue;
                };
                if state.lookups.get(&id).is_none_or(|found| !found.dirty) {
                    continue;
                }
                let (then, other) = (self.build().new_block(), self.build().new_block());
                self.build().push0(Op::If { cond, likely: None, then, other });
                self.at = then;
                self.flush(state, id)?;
                self.build().push0(Op::Yield(Vec::new()));
                self.at = other;
                self.build().push0(Op::Yield(Vec::new()));
            }
        }
        Ok(())
    }
}

impl Meeting<'_, '_> {
    fn result(&mut self, ty: Type) -> ValueId {
        let body = &mut self.lifter.body;
        let number = body.insts[self.inst].results.len() as u32;
        let def = ValueDef::Result(self.inst, number);
        let id = body.values.push(Value { ty, name: None, def });
        body.insts[self.inst].results.push(id);
        id
    }

    pub fn number(&mut self, a: Num, b: Num) -> Num {
        if a == b && a.id.is_none_or(|id| id.as_u32() < self.inner) {
            return a;
        }
        if let Some(known) = self.known.get(&(a, b)) {
            return *known;
        }
        let (lo, hi) = (a.lo.min(b.lo), a.hi.max(b.hi));
        let outer = a.id.is_some_and(|id| id.as_u32() < self.inner) && a.id == b.id;
        let found = if outer {
            // One value of which the ways know different ranges.
            Num { id: a.id, lo, hi }
        } else {
            let bits = self.lifter.bits(a).max(self.lifter.bits(b));
            self.order.push(Yielded::Number(self.numbers.len()));
            self.numbers.push((a, b, bits));
            Num { id: Some(self.result(Type::u(bits as u8))), lo, hi }
        };
        self.known.insert((a, b), found);
        found
    }

    pub fn raw(&mut self, a: ValueId, b: ValueId) -> ValueId {
        if a == b && a.as_u32() < self.inner {
            return a;
        }
        if let Some(at) = self.raw.iter().position(|pair| *pair == (a, b)) {
            let body = &self.lifter.body;
            let nth = self.order.iter().position(|y| matches!(y, Yielded::Raw(r) if *r == at));
            return body.insts[self.inst].results[nth.unwrap_or(0)];
        }
        self.order.push(Yielded::Raw(self.raw.len()));
        self.raw.push((a, b));
        let ty = self.lifter.body.ty(a);
        self.result(ty)
    }

    pub fn cond(&mut self, a: Cond, b: Cond) -> Cond {
        let num = |cond| match cond {
            Cond::Known(known) => Num::known(known.into()),
            Cond::Value(id) => Num::of(id, 1),
        };
        if let (Cond::Known(a), Cond::Known(b)) = (a, b)
            && a == b
        {
            return Cond::Known(a);
        }
        let (a, b) = (num(a), num(b));
        if a == b && a.id.is_some_and(|id| id.as_u32() < self.inner) {
            return a.id.map_or(Cond::Known(false), Cond::Value);
        }
        self.order.push(Yielded::Number(self.numbers.len()));
        self.numbers.push((a, b, 1));
        Cond::Value(self.result(Type::BOOL))
    }

    fn place(&mut self, a: Place, b: Place) -> Option<Place> {
        match (a.var, b.var) {
            (None, None) if a.off == b.off => Some(a),
            (Some(x), Some(y)) if a.off == b.off => {
                Some(Place { off: a.off, var: Some(self.number(x, y)) })
            }
            // The part that differs varies.
            (x, y) => {
                let base = a.off.min(b.off);
                let mut part = |at: i64, var: Option<Num>, side: usize| {
                    let more = Num::known((at - base) as u64);
                    let Some(var) = var else { return Some(more) };
                    if at != base {
                        self.lifter.at = self.regions[side]?;
                    }
                    Some(self.lifter.add(var, more))
                };
                let (x, y) = (part(a.off, x, 0)?, part(b.off, y, 1)?);
                Some(Place { off: base, var: Some(self.number(x, y)) })
            }
        }
    }

    /// A place that one way alone has: the other holds null.
    fn of_one(&mut self, place: Place, first: bool) -> Place {
        Place { var: place.var.map(|var| self.unread_number(var, first)), ..place }
    }

    fn abs(&mut self, a: Abs, b: Abs) -> Abs {
        let mixed = Abs::Mixed(self.name);
        match (a, b) {
            (Abs::Num(x), Abs::Num(y)) => Abs::Num(self.number(x, y)),
            (Abs::Packet { place: p, epoch: e }, Abs::Packet { place: q, epoch: f }) if e == f => {
                self.place(p, q).map_or(mixed, |place| Abs::Packet { place, epoch: e })
            }
            (Abs::Stack { frame: f, place: p }, Abs::Stack { frame: g, place: q }) if f == g => {
                self.place(p, q).map_or(mixed, |place| Abs::Stack { frame: f, place })
            }
            (Abs::Record { record: r, place: p }, Abs::Record { record: s, place: q })
                if r == s =>
            {
                self.place(p, q).map_or(mixed, |place| Abs::Record { record: r, place })
            }
            (Abs::Constant { map: m, place: p }, Abs::Constant { map: n, place: q }) if m == n => {
                self.place(p, q).map_or(mixed, |place| Abs::Constant { map: m, place })
            }
            (Abs::Value { lookup: l, place: p }, Abs::Value { lookup: m, place: q }) => {
                let pair = self.lookup(Some(l), Some(m));
                let place = self.place(p, q);
                pair.zip(place).map_or(mixed, |(lookup, place)| Abs::Value { lookup, place })
            }
            (Abs::Value { lookup, place }, Abs::Num(num)) if num == Num::known(0) => {
                let place = self.of_one(place, true);
                self.lookup(Some(lookup), None).map_or(mixed, |lookup| Abs::Value { lookup, place })
            }
            (Abs::Num(num), Abs::Value { lookup, place }) if num == Num::known(0) => {
                let place = self.of_one(place, false);
                self.lookup(None, Some(lookup)).map_or(mixed, |lookup| Abs::Value { lookup, place })
            }
            (Abs::Mixed(_), _) => a,
            (_, Abs::Mixed(_)) => b,
            (Abs::Nothing, Abs::Nothing) => Abs::Nothing,
            (one, Abs::Nothing) => self.unread(one, true),
            (Abs::Nothing, one) => self.unread(one, false),
            _ if a == b => a,
            _ => mixed,
        }
    }

    /// One lookup for what two ways found in one map; `None` is null.
    pub fn lookup(&mut self, a: Option<u32>, b: Option<u32>) -> Option<u32> {
        if let Some(known) = self.pairs.get(&(a, b)) {
            return Some(*known);
        }
        let of = |side: &BTreeMap<u32, Lookup>, id: Option<u32>| match id {
            Some(id) => side.get(&id).cloned().map(Some),
            None => Some(None),
        };
        // Global data is there without a lookup.
        if let Some(id) = a.filter(|_| a == b)
            && self.sides.iter().any(|side| !side.contains_key(&id))
            && self.lifter.is_global(id)
        {
            return Some(id);
        }
        let (x, y) = (of(&self.sides[0], a)?, of(&self.sides[1], b)?);
        let found = match (x, y) {
            (Some(x), Some(y)) if x.map == y.map => {
                let found = self.both(x, y);
                // Each writes back what was changed through it.
                Lookup { dirty: found.dirty && a == b, ..found }
            }
            (Some(x), None) => self.or_null(x, true)?,
            (None, Some(y)) => self.or_null(y, false)?,
            _ => return None,
        };
        let id = if a == b { a? } else { self.lifter.fresh() };
        self.lookups.insert(id, found);
        self.pairs.insert((a, b), id);
        Some(id)
    }

    fn both(&mut self, x: Lookup, y: Lookup) -> Lookup {
        let same = x.parts == y.parts
            && x.parts.iter().all(|part| part.id.is_none_or(|id| id.as_u32() < self.inner));
        let key = self.raw(x.key, y.key);
        let bits = x.bits.zip(y.bits).map(|(a, b)| self.raw(a, b));
        let value = x.value.zip(y.value).map(|(a, b)| self.raw(a, b));
        let (gone, kept) = match (x.gone, y.gone) {
            (Cond::Known(false), Cond::Known(false)) => (Cond::Known(false), None),
            (a, b) => {
                // What is not gone may keep anything.
                let kept = x.kept.or(x.value).zip(y.kept.or(y.value));
                (self.cond(a, b), kept.map(|(a, b)| self.raw(a, b)))
            }
        };
        let unknown = gone != Cond::Known(false) && kept.is_none();
        Lookup {
            map: x.map,
            key,
            bits,
            parts: if same { x.parts } else { Vec::new() },
            hit: self.cond(x.hit, y.hit),
            dirty: (x.dirty || y.dirty) && value.is_some(),
            value,
            gone,
            kept,
            stale: x.stale || y.stale || unknown,
            met_null: x.met_null.or(y.met_null),
        }
    }

    /// Finds on the other way, too, what one way found and the other did not look for.
    fn or_null(&mut self, found: Lookup, first: bool) -> Option<Lookup> {
        let null = Cond::Known(false);
        let stale = !found.is_there();
        let met_null = Some(self.name);
        let found = Lookup { gone: Cond::Known(false), kept: None, stale, met_null, ..found };
        let hit = if first { self.cond(found.hit, null) } else { self.cond(null, found.hit) };
        let known = |value: ValueId| value.as_u32() < self.inner;
        if known(found.key) && found.bits.is_none_or(known) {
            // What was read on that way only is not seen here.
            let value = found.value.filter(|value| value.as_u32() < self.inner);
            return Some(Lookup { hit, parts: Vec::new(), value, dirty: false, ..found });
        }
        self.lifter.at = self.lifter.opposite(self.inst, first);
        let [key, bits] = [Some(found.key), found.bits].map(|own| {
            let own = own?;
            let zero = self.lifter.push1(Op::Zero, self.lifter.body.ty(own));
            Some(if first { self.raw(own, zero) } else { self.raw(zero, own) })
        });
        Some(Lookup { key: key?, bits, hit, parts: Vec::new(), value: None, dirty: false, ..found })
    }

    /// A number of the first way as the second divides its bytes, or a part of a number of the
    /// second as the first does.
    fn finer(
        &mut self,
        (off, size, abs): (i64, u32, Abs),
        others: &[(i64, u32, Abs)],
    ) -> Option<Vec<(i64, (u32, Abs))>> {
        let end = off + i64::from(size);
        let Abs::Num(own) = abs else { return None };
        let number = |abs: &Abs| if let Abs::Num(num) = abs { Some(*num) } else { None };
        if let [(at, bytes, other)] = others
            && *at <= off
            && end <= at + i64::from(*bytes)
        {
            let other = number(other)?;
            self.lifter.at = self.regions[1]?;
            let part = self.lifter.piece(other, (off - at) as u32, size);
            return Some(vec![(off, (size, Abs::Num(self.number(own, part))))]);
        }
        let covered: u32 = others.iter().map(|(_, bytes, _)| bytes).sum();
        let inside = |(at, bytes, _): &(i64, u32, Abs)| off <= *at && at + i64::from(*bytes) <= end;
        if covered != size || !others.iter().all(inside) {
            return None;
        }
        let mut parts = Vec::new();
        for (at, bytes, other) in others {
            let other = number(other)?;
            self.lifter.at = self.regions[0]?;
            let part = self.lifter.piece(own, (at - off) as u32, *bytes);
            parts.push((*at, (*bytes, Abs::Num(self.number(part, other)))));
        }
        Some(parts)
    }

    /// Memory that both ways have; `absent` is what bytes hold that nobody wrote.
    fn memory(&mut self, a: &Memory, b: &Memory, absent: Abs) -> Memory {
        let mut joined = Memory::default();
        for (off, (size, x)) in &a.slots {
            let abs = match b.exact(*off, *size) {
                Some(y) => self.abs(*x, y),
                None => match b.overlapping(*off, *size) {
                    over if over.is_empty() => self.abs(*x, absent),
                    // Divided differently.
                    over => match self.finer((*off, *size, *x), &over) {
                        Some(parts) => {
                            joined.slots.extend(parts);
                            continue;
                        }
                        None => Abs::Mixed(self.name),
                    },
                },
            };
            joined.slots.insert(*off, (*size, abs));
        }
        for (off, (size, y)) in &b.slots {
            if a.exact(*off, *size).is_none() && a.overlapping(*off, *size).is_empty() {
                let abs = self.abs(absent, *y);
                joined.slots.insert(*off, (*size, abs));
            }
        }
        joined
    }

    /// The state at a place that both ways come to.
    fn state(&mut self, place: usize, a: State, b: State) -> State {
        self.name = place;
        self.sides = [a.lookups.clone(), b.lookups.clone()];
        self.pairs.clear();
        let live = self.lifter.live(&[place]);
        let mut joined = a.clone();
        for (at, slot) in joined.regs.iter_mut().enumerate() {
            *slot = if live >> at & 1 != 0 || at == 10 {
                self.abs(a.regs[at], b.regs[at])
            } else {
                Abs::Nothing
            };
        }
        for (at, frame) in joined.frames.iter_mut().enumerate() {
            frame.memory = self.memory(&a.frames[at].memory, &b.frames[at].memory, Abs::Nothing);
            for (nth, slot) in frame.saved.iter_mut().enumerate() {
                *slot = self.abs(a.frames[at].saved[nth], b.frames[at].saved[nth]);
            }
        }
        joined.front.memory = self.memory(&a.front.memory, &b.front.memory, Abs::known(0));
        joined.context = self.memory(&a.context, &b.context, Abs::known(0));
        for (id, record) in &mut joined.records {
            let [x, y] = [&a, &b].map(|state| &state.records[id].memory);
            record.memory = self.memory(x, y, Abs::Nothing);
        }
        joined.at_least = a.at_least.min(b.at_least);
        joined.too_many = a.too_many.max(b.too_many);
        joined.assumed.retain(|id, value| b.assumed.get(id) == Some(value));
        joined.within.retain(|id, range| b.within.get(id) == Some(range));
        joined.varying.retain(|id, _| b.varying.contains_key(id));
        for (id, (within, beyond)) in &mut joined.varying {
            let (other, far) = b.varying[id];
            (*within, *beyond) = ((*within).min(other), (*beyond).max(far));
        }
        joined.redirect = match (a.redirect, b.redirect) {
            (Some(Target::Port(x)), Some(Target::Port(y))) => Some(Target::Port(self.number(x, y))),
            (Some(Target::Ports { map, others: x }), Some(Target::Ports { others: y, .. })) => {
                Some(Target::Ports { map, others: self.number(x, y) })
            }
            (Some(Target::Ports { map, others }), None) => {
                Some(Target::Ports { map, others: self.number(others, Num::known(0)) })
            }
            (None, Some(Target::Ports { map, others })) => {
                Some(Target::Ports { map, others: self.number(Num::known(0), others) })
            }
            (x, None) if x.is_none() => None,
            // Whoever was not redirected says so by its verdict.
            (Some(Target::Port(x)), None) => Some(Target::Port(self.number(x, Num::known(0)))),
            (None, Some(Target::Port(y))) => Some(Target::Port(self.number(Num::known(0), y))),
            (x, y) if x == y => x,
            (x, y) => x.or(y),
        };
        // Dirty entries that no register points to must still be written.
        let outer = |found: &Lookup| {
            let known = |value: ValueId| value.as_u32() < self.inner;
            known(found.key)
                && found.bits.is_none_or(known)
                && found.value.is_none_or(known)
                && found.is_there()
        };
        let kept = |id: &u32| {
            let sides = [self.sides[0].get(id), self.sides[1].get(id)];
            sides.iter().all(Option::is_some)
                && (sides.iter().flatten().any(|l| l.dirty)
                    || sides.iter().flatten().all(|l| outer(l)))
        };
        let shared: Vec<u32> = self.sides[0].keys().copied().filter(kept).collect();
        for id in shared {
            self.lookup(Some(id), Some(id));
        }
        joined.lookups = std::mem::take(&mut self.lookups);
        joined
    }
}
