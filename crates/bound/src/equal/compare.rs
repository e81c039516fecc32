//! What two paths give: where they may differ, as conditions.

use std::collections::{BTreeMap, BTreeSet};

use crate::air::exact::{ARRIVAL, REDIRECT, TX};
use crate::ebpf::XDP;
use crate::term::{Mem, Term};

use super::Prover;
use super::state::{End, Message, State, Target};

/// Conditions under which the results of two paths differ; or why that cannot be said.
pub type Differences = Result<Vec<Term>, String>;

impl Prover<'_> {
    /// Where the ends of two paths differ.
    pub fn differences(&mut self, old: &mut State, new: &mut State) -> Differences {
        let [one, other] = self.pair.sides();
        let (a, b) = match (old.end.clone(), new.end.clone()) {
            (Some(End::Stuck(reason)), _) => return Err(format!("{one}: {reason}")),
            (_, Some(End::Stuck(reason))) => return Err(format!("{other}: {reason}")),
            (Some(a), Some(b)) => (a, b),
            _ => return Err("a path without an end".to_string()),
        };
        let always = self.terms.boolean(true);
        let mut list = Vec::new();
        match (a, b) {
            (End::Verdict(a), End::Verdict(b)) => {
                let (a, b) = (self.verdict(a), self.verdict(b));
                let arrival = self.pair.reference.is_some().then(|| self.cells(old, ARRIVAL, 4));
                let (a, b) = (self.by_port(a, old, arrival), self.by_port(b, new, arrival));
                self.unequal(a, b, &mut list);
                // Aborted and dropped packets go nowhere.
                let gone = self.terms.constant(32, 2);
                let gone = self.terms.ult(a, gone);
                let leaves = self.terms.not(gone);
                let redirected = self.terms.constant(32, REDIRECT);
                let redirected = self.terms.eq(a, redirected);
                self.under(leaves, &mut list, |me, list| me.packets(old, new, list))?;
                self.under(redirected, &mut list, |me, list| {
                    me.targets(old, new, list);
                    Ok(())
                })?;
            }
            (End::Call { map: a, slot: x }, End::Call { map: b, slot: y }) => {
                if a != b {
                    return Ok(vec![always]);
                }
                self.unequal(x, y, &mut list);
                self.packets(old, new, &mut list)?;
                // The program behind may redirect to what was chosen before.
                self.targets(old, new, &mut list);
            }
            _ => return Ok(vec![always]),
        }
        let elsewhere = self.pair.lifted && self.pair.reference.is_none();
        if elsewhere && !(old.messages.is_empty() && new.messages.is_empty()) {
            return Err("messages, which go another way".to_string());
        }
        self.messages(old, new, &mut list);
        self.contents(old, new, &mut list);
        Ok(list)
    }

    /// A verdict, with one for all that drop the packet where that is not compared.
    fn verdict(&mut self, verdict: Term) -> Term {
        if !self.pair.lifted {
            return verdict;
        }
        let (two, five) = (self.terms.constant(32, 2), self.terms.constant(32, 5));
        let (low, inside) = (self.terms.ult(verdict, two), self.terms.ult(verdict, five));
        let high = self.terms.not(inside);
        let gone = self.terms.or(low, high);
        let drop = self.terms.constant(32, 1);
        self.terms.ite(gone, drop, verdict)
    }

    /// Against αIR, packets that go back leave by the port of arrival, as others by theirs.
    fn by_port(&mut self, verdict: Term, state: &mut State, arrival: Option<Term>) -> Term {
        let (Some(reference), Some(port)) = (&self.pair.reference, arrival) else { return verdict };
        if self.terms.value(verdict) != Some(TX) {
            return verdict;
        }
        state.target = Some(Target { map: reference.kernel.ports, words: vec![port] });
        self.terms.constant(32, REDIRECT)
    }

    fn unequal(&mut self, a: Term, b: Term, list: &mut Vec<Term>) {
        let equal = self.terms.eq(a, b);
        let unequal = self.terms.not(equal);
        if self.terms.value(unequal) != Some(0) {
            list.push(unequal);
        }
    }

    /// Differences that count under a condition.
    fn under(
        &mut self,
        condition: Term,
        list: &mut Vec<Term>,
        find: impl FnOnce(&mut Self, &mut Vec<Term>) -> Result<(), String>,
    ) -> Result<(), String> {
        if self.terms.value(condition) == Some(0) {
            return Ok(());
        }
        let mut found = Vec::new();
        find(self, &mut found)?;
        for difference in found {
            list.push(self.terms.and(condition, difference));
        }
        Ok(())
    }

    /// The packets that leave: from their metadata to their end.
    fn packets(
        &mut self,
        old: &mut State,
        new: &mut State,
        list: &mut Vec<Term>,
    ) -> Result<(), String> {
        let ends = |me: &mut Self, state: &mut State| {
            [XDP.data, XDP.data_end, XDP.data_meta].map(|end| me.end_of_packet(state, end))
        };
        let (a, b) = (ends(self, old), ends(self, new));
        // If a packet begins elsewhere, it is almost always another one: that is what is looked for.
        for (x, y) in a.iter().zip(&b) {
            self.unequal(*x, *y, list);
        }
        let (mem, other) = (self.mem(old, 0), self.mem(new, 0));
        let (from, to) = (a[2], a[1]);
        self.memories(old, new, (mem, other), Some((from, to)), list);
        Ok(())
    }

    /// Bytes of the packet's memory that were written, between two addresses.
    fn memories(
        &mut self,
        old: &State,
        new: &State,
        (a, b): (Mem, Mem),
        span: Option<(Term, Term)>,
        list: &mut Vec<Term>,
    ) {
        if a == b {
            return;
        }
        let written = |state: &State| state.written.get(&0).cloned().unwrap_or_default();
        let places: BTreeSet<Term> = written(old).into_iter().chain(written(new)).collect();
        for at in places {
            let (x, y) = (self.terms.load_resolved(a, at), self.terms.load_resolved(b, at));
            let equal = self.terms.eq(x, y);
            let mut unequal = self.terms.not(equal);
            if self.terms.value(unequal) == Some(0) {
                continue;
            }
            if let Some((from, to)) = span {
                let low = self.terms.extract(at, 0, 32);
                let before = self.terms.ult(low, from);
                let (after, inside) = (self.terms.not(before), self.terms.ult(low, to));
                let within = self.terms.and(after, inside);
                unequal = self.terms.and(unequal, within);
            }
            if self.terms.value(unequal) != Some(0) {
                list.push(unequal);
            }
        }
    }

    fn targets(&mut self, old: &State, new: &State, list: &mut Vec<Term>) {
        let always = self.terms.boolean(true);
        match (&old.target, &new.target) {
            (None, None) => {}
            (Some(a), Some(b)) if a.map == b.map => {
                let equal = self.all_equal(&a.words, &b.words);
                let unequal = self.terms.not(equal);
                if self.terms.value(unequal) != Some(0) {
                    list.push(unequal);
                }
            }
            _ => list.push(always),
        }
    }

    /// Messages, in their order for each way they go.
    fn messages(&mut self, old: &State, new: &State, list: &mut Vec<Term>) {
        let by_map = |state: &State| {
            let mut found: BTreeMap<Option<usize>, Vec<Message>> = BTreeMap::new();
            for message in &state.messages {
                found.entry(message.map).or_default().push(message.clone());
            }
            found
        };
        let (a, b) = (by_map(old), by_map(new));
        let always = self.terms.boolean(true);
        if a.len() != b.len() {
            return list.push(always);
        }
        for ((one, x), (other, y)) in a.iter().zip(&b) {
            if one != other || x.len() != y.len() {
                return list.push(always);
            }
            for (x, y) in x.iter().zip(y) {
                self.message((old, x), (new, y), list);
            }
        }
    }

    /// Two messages.
    fn message(
        &mut self,
        (old, x): (&State, &Message),
        (new, y): (&State, &Message),
        list: &mut Vec<Term>,
    ) {
        let mut unequal = |me: &mut Self, a: &[Term], b: &[Term]| {
            let equal = me.all_equal(a, b);
            let unequal = me.terms.not(equal);
            if me.terms.value(unequal) != Some(0) {
                list.push(unequal);
            }
        };
        match (x.packet, y.packet) {
            (None, None) => unequal(self, &x.words, &y.words),
            (Some((mem, from, size)), Some((other, begin, length)))
                if x.words.len() == y.words.len() =>
            {
                unequal(self, &x.words, &y.words);
                unequal(self, &[from, size], &[begin, length]);
                let to = self.terms.binary(crate::term::Op::Add, from, size);
                self.memories(old, new, (mem, other), Some((from, to)), list);
            }
            // One of the two programs knows how much of the packet it is, or both do.
            _ => match (self.whole(new, x), self.whole(new, y)) {
                (Some(a), Some(b)) => unequal(self, &a, &b),
                _ => list.push(self.terms.boolean(true)),
            },
        }
    }

    /// All bytes of a message, if the path knows how many they are.
    fn whole(&mut self, state: &State, message: &Message) -> Option<Vec<Term>> {
        let mut bytes = Vec::new();
        for word in &message.words {
            let count = self.terms.bits(*word) / 8;
            bytes.extend((0..count).map(|byte| self.terms.extract(*word, 8 * byte, 8)));
        }
        if let Some((mem, from, size)) = message.packet {
            let from = self.terms.zext(from, 64);
            for byte in 0..self.fixed(state, size)? {
                let at = self.beyond(from, byte);
                bytes.push(self.bytes(mem, at, 1));
            }
        }
        Some(bytes)
    }

    /// Contents of maps afterwards.
    fn contents(&mut self, old: &State, new: &State, list: &mut Vec<Term>) {
        for map in 0..self.maps.len() {
            if self.maps[map].constant || !self.pair.compared[map] {
                continue;
            }
            let region = self.region_of(map);
            let (a, b) = (self.mem(old, region), self.mem(new, region));
            if self.maps[map].kind.is_none() || self.array(map) {
                self.arrays(old, new, region, (a, b), list);
                continue;
            }
            // Keys that the new program alone knows are not in the old one's list.
            for key in 0..new.keys.len() {
                if new.keys[key].map == map {
                    self.entries(old, new, key, (a, b), list);
                }
            }
        }
    }

    fn arrays(
        &mut self,
        old: &State,
        new: &State,
        region: u32,
        (a, b): (Mem, Mem),
        list: &mut Vec<Term>,
    ) {
        if a == b {
            return;
        }
        let written = |state: &State| state.written.get(&region).cloned().unwrap_or_default();
        let places: BTreeSet<Term> = written(old).into_iter().chain(written(new)).collect();
        for at in places {
            let (x, y) = (self.terms.load_resolved(a, at), self.terms.load_resolved(b, at));
            self.unequal(x, y, list);
        }
    }

    fn entries(
        &mut self,
        old: &State,
        new: &State,
        key: usize,
        (a, b): (Mem, Mem),
        list: &mut Vec<Term>,
    ) {
        let before = if key < old.keys.len() {
            old.entry(key)
        } else {
            let key = &new.keys[key];
            super::state::Entry { present: key.present, slot: key.slot }
        };
        let after = new.entry(key);
        let map = new.keys[key].map;
        self.unequal(before.present, after.present, list);
        let gone = self.terms.value(after.present) == Some(0)
            || self.terms.value(before.present) == Some(0);
        if gone || a == b && before.slot == after.slot {
            return;
        }
        let mut found = Vec::new();
        for byte in 0..u64::from(self.maps[map].value_size) {
            let at = |me: &mut Self, slot| {
                let at = me.value_at(map, slot) + byte;
                me.terms.constant(64, at)
            };
            let (x, y) = (at(self, before.slot), at(self, after.slot));
            let (x, y) = (self.terms.load_resolved(a, x), self.terms.load_resolved(b, y));
            self.unequal(x, y, &mut found);
        }
        for difference in found {
            let difference = self.terms.and(after.present, difference);
            list.push(self.terms.and(before.present, difference));
        }
    }
}
