//! Calls of helpers, as the kernel answers them. What it answers from outside is a question: the
//! same question of both programs gets the same answer.

use nicforge_isa::ebpf::helper_name;

use crate::air::exact::{FRAME, REDIRECT};
use crate::ebpf::helpers::{END, FAILED, HEAD, LEAST, META};
use crate::ebpf::{MAP_POINTER, PACKET, RESERVED, RESERVED_EACH, XDP};
use crate::graph::Slot;
use crate::term::{Op, Term};

use super::Prover;
use super::side::Side;
use super::state::{Asked, End, Message, State, Target};

/// States behind a call, or states that make the call (again).
pub type Called = Result<Vec<State>, Vec<State>>;

/// Clocks and random numbers: each call gives another value.
const FLOWING: [i32; 6] = [5, 7, 118, 125, 160, 208];
/// Helpers that say the same at every call: processor and memory node.
const STANDING: [i32; 2] = [8, 42];
/// Bytes of the kernel's `struct bpf_fib_lookup`.
const FIB: u64 = 64;
/// Most bytes that a call reads or writes here.
pub const MOST_BYTES: u64 = 4096;
pub const LONG: &str = "a message of more than 4096 bytes";

impl Prover<'_> {
    pub fn arg(&mut self, state: &mut State, n: u32) -> Term {
        match state.slots[n as usize] {
            Some(value) => value,
            None => {
                let value = self.terms.fresh(64);
                state.slots[n as usize] = Some(value);
                value
            }
        }
    }

    /// A term's value, if a path knows it.
    pub fn fixed(&self, state: &State, term: Term) -> Option<u64> {
        self.terms.value(term).or_else(|| state.path.fixed.get(&term).copied())
    }

    /// An argument that has to be a constant on a path.
    pub fn number(&mut self, mut state: State, n: u32) -> Result<(State, u64), Vec<State>> {
        let term = self.arg(&mut state, n);
        match self.fixed(&state, term) {
            Some(value) => Ok((state, value)),
            None => {
                let ways = self.split(state, term, "what a helper is told");
                Err(ways.into_iter().map(|(_, state)| state).collect())
            }
        }
    }

    /// The map that an argument names.
    pub fn map(&mut self, mut state: State, n: u32) -> Result<(State, usize), Vec<State>> {
        let term = self.arg(&mut state, n);
        let map = self.terms.value(term).and_then(|at| at.checked_sub(MAP_POINTER));
        match map.map(|map| map as usize).filter(|map| *map < self.maps.len()) {
            Some(map) => Ok((state, map)),
            None => Err(vec![state.stuck("a map that is not known here")]),
        }
    }

    /// Ends a call with its result.
    pub fn returns(&self, mut state: State, result: Term) -> State {
        for n in 1..=5 {
            state.slots[n] = None;
        }
        state.slots[Slot(0).0 as usize] = Some(result);
        state
    }

    pub fn returns_number(&mut self, state: State, result: u64) -> State {
        let result = self.terms.constant(64, result);
        self.returns(state, result)
    }

    /// Asks the world: answers of so many bits each. Questions that may or may not be one asked
    /// before make two paths.
    pub fn ask(
        &mut self,
        mut state: State,
        helper: i32,
        inputs: Vec<Term>,
        bits: &[u8],
    ) -> Vec<(State, Vec<Term>)> {
        let same = |asked: &&Asked| asked.helper == helper && asked.inputs == inputs;
        if let Some(asked) = state.asked.iter().find(same) {
            let outputs = asked.outputs.clone();
            return vec![(state, outputs)];
        }
        let mut found = Vec::new();
        for index in 0..state.asked.len() {
            let asked = &state.asked[index];
            if asked.helper != helper || asked.inputs.len() != inputs.len() {
                continue;
            }
            let (theirs, outputs) = (asked.inputs.clone(), asked.outputs.clone());
            let equal = self.all_equal(&theirs, &inputs);
            let [yes, no] = self.branch(state, equal);
            found.extend(yes.map(|state| (state, outputs)));
            match no {
                Some(no) => state = no,
                None => return found,
            }
        }
        let outputs: Vec<Term> = bits.iter().map(|bits| self.terms.fresh(*bits)).collect();
        state.asked.push(Asked { helper, inputs, outputs: outputs.clone() });
        found.push((state, outputs));
        found
    }

    /// Equality of two lists, member by member; lists of other lengths or widths are not equal.
    pub fn all_equal(&mut self, a: &[Term], b: &[Term]) -> Term {
        let mut all = self.terms.boolean(a.len() == b.len());
        for (x, y) in a.iter().zip(b) {
            if self.terms.bits(*x) != self.terms.bits(*y) {
                return self.terms.boolean(false);
            }
            let equal = self.terms.eq(*x, *y);
            all = self.terms.and(all, equal);
        }
        all
    }

    /// The first question of a helper, the second, and so on.
    pub fn ask_next(
        &mut self,
        mut state: State,
        helper: i32,
        bits: &[u8],
    ) -> Vec<(State, Vec<Term>)> {
        let count = state.calls.entry(helper).or_default();
        let nth = *count;
        *count += 1;
        let nth = self.terms.constant(64, nth);
        self.ask(state, helper, vec![nth], bits)
    }

    /// One call.
    pub fn call(&mut self, side: &Side, state: State, at: usize, helper: i32) -> Called {
        match helper {
            1 => self.lookup(state),
            2 => self.update(state),
            3 => self.delete(state),
            6 => self.trace(state),
            12 => self.tail_call(state),
            23 => self.redirect(state),
            25 => self.perf_output(state),
            28 => self.checksum(state),
            44 | 54 | 65 => self.adjust(state, helper),
            51 => self.redirect_map(state),
            69 => self.fib_lookup(state),
            93 | 94 => Ok(vec![self.returns_number(state, 0)]),
            130..=133 => self.ring(state, helper),
            FRAME => self.record(state),
            189 | 190 => self.copy(state, helper),
            188 => {
                let mut state = state;
                let length = self.length(&mut state);
                let length = self.terms.zext(length, 64);
                Ok(vec![self.returns(state, length)])
            }
            _ if FLOWING.contains(&helper) => {
                let bits = if helper == 7 { 32 } else { 64 };
                let answers = self.ask_next(state, helper, &[bits]);
                Ok(self.results(answers))
            }
            _ if STANDING.contains(&helper) => {
                let answers = self.ask(state, helper, Vec::new(), &[32]);
                Ok(self.results(answers))
            }
            _ => {
                let place = match side.program.lines.get(at) {
                    Some(Some(line)) => format!("{}:{}", line.file, line.line),
                    _ => format!("instruction {at}"),
                };
                let name = helper_name(helper);
                Ok(vec![state.stuck(format!("{place}: helper {name} is not followed"))])
            }
        }
    }

    pub fn results(&mut self, answers: Vec<(State, Vec<Term>)>) -> Vec<State> {
        let result = |(state, outputs): (State, Vec<Term>)| {
            let result = self.terms.zext(outputs[0], 64);
            self.returns(state, result)
        };
        answers.into_iter().map(result).collect()
    }

    /// Asks whether something succeeds, and goes on both ways.
    pub fn forked(
        &mut self,
        state: State,
        helper: i32,
        inputs: Vec<Term>,
        mut go: impl FnMut(&mut Self, State, bool) -> Vec<State>,
    ) -> Vec<State> {
        let mut done = Vec::new();
        for (state, outputs) in self.ask(state, helper, inputs, &[1]) {
            let [yes, no] = self.branch(state, outputs[0]);
            done.extend(yes.into_iter().flat_map(|state| go(self, state, true)));
            done.extend(no.into_iter().flat_map(|state| go(self, state, false)));
        }
        done
    }

    /// The packet's length, 32 bits.
    pub fn length(&mut self, state: &mut State) -> Term {
        let begin = self.end_of_packet(state, XDP.data);
        let end = self.end_of_packet(state, XDP.data_end);
        self.terms.sub(end, begin)
    }

    /// Moves the packet's head, its metadata's or its end.
    fn adjust(&mut self, mut state: State, helper: i32) -> Called {
        let by = self.arg(&mut state, 2);
        let by = self.terms.extract(by, 0, 32);
        if helper == 65 {
            // How much is added has to be known, for that is zero.
            let one = self.terms.constant(32, 1);
            let cuts = self.terms.binary(Op::Slt, by, one);
            state = match self.branch(state, cuts) {
                [Some(cuts), None] => cuts,
                [None, Some(adds)] => {
                    let known = |state: &State| state.path.fixed.contains_key(&by);
                    if self.terms.value(by).is_none() && !known(&adds) {
                        let ways = self.split(adds, by, "by how much the packet grows");
                        return Err(ways.into_iter().map(|(_, state)| state).collect());
                    }
                    adds
                }
                ways => return Err(ways.into_iter().flatten().collect()),
            };
        }
        let ends = [XDP.data, XDP.data_end, XDP.data_meta];
        let [data, end, meta] = ends.map(|member| self.end_of_packet(&mut state, member));
        if helper == 44 && data != meta {
            return Err(vec![state.stuck("bpf_xdp_adjust_head also moves metadata")]);
        }
        let t = &mut self.terms;
        let at_most = |t: &mut crate::term::Terms, a: Term, b: Term| {
            let more = t.ult(b, a);
            t.not(more)
        };
        let number = |t: &mut crate::term::Terms, value: u64| t.constant(32, value);
        let old = match helper {
            44 => data,
            54 => meta,
            _ => end,
        };
        let new = t.binary(Op::Add, old, by);
        let (lowest, highest) = (number(t, PACKET - HEAD), number(t, PACKET + END));
        let (least, most) = (number(t, LEAST), number(t, META));
        let low = at_most(t, lowest, new);
        let high = t.ult(new, highest);
        let inside = match helper {
            44 => {
                let shortest = t.binary(Op::Add, new, least);
                at_most(t, shortest, end)
            }
            54 => {
                let furthest = t.binary(Op::Add, new, most);
                let (a, b) = (at_most(t, new, data), at_most(t, data, furthest));
                t.and(a, b)
            }
            _ => {
                let shortest = t.binary(Op::Add, data, least);
                at_most(t, shortest, new)
            }
        };
        let range = t.and(low, high);
        let allowed = t.and(range, inside);
        let [yes, no] = self.branch(state, allowed);
        let mut done: Vec<State> =
            no.map(|no| self.returns_number(no, FAILED)).into_iter().collect();
        let Some(state) = yes else { return Ok(done) };
        let by = state.path.fixed.get(&by).copied().or_else(|| self.terms.value(by));
        done.extend(self.forked(state, helper, vec![data, end, meta, new], |me, mut state, ok| {
            if !ok && me.pair.reference.is_some() {
                // αIR knows no kernel that refuses: such frames are left out.
                return Vec::new();
            }
            if !ok {
                return vec![me.returns_number(state, FAILED)];
            }
            if helper == 65 {
                let more = by.map_or(0, |by| by as u32 as i32).max(0);
                for byte in 0..(more as u64).min(END) {
                    let at = me.terms.zext(end, 64);
                    let at = me.beyond(at, byte);
                    let zero = me.terms.constant(8, 0);
                    me.write(&mut state, 0, at, zero);
                }
            }
            let moved = match helper {
                44 => vec![XDP.data, XDP.data_meta],
                54 => vec![XDP.data_meta],
                _ => vec![XDP.data_end],
            };
            for member in moved {
                me.set_end(&mut state, member, new);
            }
            vec![me.returns_number(state, 0)]
        }));
        Ok(done)
    }

    /// To a program that is not known, or on behind the call.
    fn tail_call(&mut self, state: State) -> Called {
        let (mut state, map) = self.map(state, 2)?;
        let slot = self.arg(&mut state, 3);
        let slot = self.terms.extract(slot, 0, 32);
        let inputs = vec![self.terms.constant(64, map as u64), slot];
        Ok(self.forked(state, 12, inputs, |me, state, success| {
            if success {
                return vec![state.ended(End::Call { map, slot })];
            }
            vec![me.returns_number(state, FAILED)]
        }))
    }

    fn redirect(&mut self, state: State) -> Called {
        let (mut state, flags) = self.number(state, 2)?;
        let to = self.arg(&mut state, 1);
        let to = self.terms.extract(to, 0, 32);
        let verdict = if flags == 0 { REDIRECT } else { 0 };
        if flags == 0 {
            state.target = Some(Target { map: None, words: vec![to] });
        }
        Ok(vec![self.returns_number(state, verdict)])
    }

    fn trace(&mut self, state: State) -> Called {
        let (mut state, size) = self.number(state, 2)?;
        if size > MOST_BYTES {
            return Err(vec![state.stuck(LONG)]);
        }
        let format = self.arg(&mut state, 1);
        let (mut state, mut words) = self.words(state, format, size)?;
        for n in 3..=5 {
            words.push(self.arg(&mut state, n));
        }
        state.messages.push(Message { map: None, words, packet: None });
        let answers = self.ask_next(state, 6, &[64]);
        Ok(self.results(answers))
    }

    fn perf_output(&mut self, state: State) -> Called {
        let (state, map) = self.map(state, 2)?;
        let (mut state, size) = self.number(state, 5)?;
        if size > MOST_BYTES {
            return Err(vec![state.stuck(LONG)]);
        }
        let data = self.arg(&mut state, 4);
        let (mut state, mut words) = self.words(state, data, size)?;
        let flags = self.arg(&mut state, 3);
        words.push(self.terms.extract(flags, 0, 32));
        let length = self.terms.extract(flags, 32, 32);
        let packet = match self.terms.value(length) {
            Some(0) => None,
            _ => {
                let begin = self.end_of_packet(&mut state, XDP.data);
                Some((self.mem(&state, 0), begin, length))
            }
        };
        state.messages.push(Message { map: Some(map), words, packet });
        let answers = self.ask_next(state, 25, &[64]);
        Ok(self.results(answers))
    }

    fn checksum(&mut self, state: State) -> Called {
        let (state, from) = self.number(state, 2)?;
        let (mut state, to) = self.number(state, 4)?;
        let (a, b) = (self.arg(&mut state, 1), self.arg(&mut state, 3));
        if from.max(to) > MOST_BYTES {
            return Err(vec![state.stuck("a checksum of more than 4096 bytes")]);
        }
        let (state, old) = self.words(state, a, from)?;
        let (mut state, new) = self.words(state, b, to)?;
        let seed = self.arg(&mut state, 5);
        let mut inputs = vec![self.terms.constant(64, from), self.terms.constant(64, to)];
        inputs.extend(old);
        inputs.extend(new);
        inputs.push(self.terms.extract(seed, 0, 32));
        let answers = self.ask(state, 28, inputs, &[64]);
        Ok(self.results(answers))
    }

    fn fib_lookup(&mut self, state: State) -> Called {
        let (mut state, size) = self.number(state, 3)?;
        if size != FIB {
            return Err(vec![state.stuck("bpf_fib_lookup with parameters of another size")]);
        }
        let (at, flags) = (self.arg(&mut state, 2), self.arg(&mut state, 4));
        let (state, mut inputs) = self.words(state, at, FIB)?;
        inputs.push(self.terms.extract(flags, 0, 32));
        let mut done = Vec::new();
        for (mut state, outputs) in self.ask(state, 69, inputs, &[64; 9]) {
            let mut stuck = None;
            for (nth, word) in outputs[1..].iter().enumerate() {
                let place = self.beyond(at, 8 * nth as u64);
                match self.store(state.clone(), place, *word) {
                    Ok(next) => state = next,
                    Err(_) => stuck = Some("bpf_fib_lookup's parameters in memory of others"),
                }
            }
            done.push(match stuck {
                Some(reason) => state.stuck(reason),
                None => self.returns(state, outputs[0]),
            });
        }
        Ok(done)
    }

    fn redirect_map(&mut self, state: State) -> Called {
        let (state, map) = self.map(state, 1)?;
        let (mut state, flags) = self.number(state, 3)?;
        // Kinds 14, 16, 17, 25: maps of devices, processors, sockets; devices by hash.
        if !matches!(self.maps[map].kind, Some(14 | 16 | 17 | 25)) {
            return Err(vec![state.stuck("bpf_redirect_map through another kind of map")]);
        }
        // Maps of devices alone have all of their entries as a target.
        let known = if matches!(self.maps[map].kind, Some(14 | 25)) { 3 | 24 } else { 3 };
        if flags & !known != 0 {
            return Ok(vec![self.returns_number(state, 0)]);
        }
        let key = self.arg(&mut state, 2);
        let key = self.terms.extract(key, 0, 32);
        if flags & 8 != 0 {
            let flags = self.terms.constant(64, flags);
            state.target = Some(Target { map: Some(map), words: vec![flags] });
            return Ok(vec![self.returns_number(state, REDIRECT)]);
        }
        let mut done = Vec::new();
        for (state, known) in self.find(state, map, vec![key]) {
            let entry = state.entry(known);
            let [yes, no] = self.branch(state, entry.present);
            if let Some(mut state) = yes {
                state.target = Some(Target { map: Some(map), words: vec![key] });
                done.push(self.returns_number(state, REDIRECT));
            }
            if let Some(mut state) = no {
                state.target = None;
                done.push(self.returns_number(state, flags & 3));
            }
        }
        Ok(done)
    }

    /// Records of ring buffers: 130 sends bytes, 131 makes a record, 132 sends it, 133 does not.
    fn ring(&mut self, state: State, helper: i32) -> Called {
        match helper {
            130 => self.ring_output(state),
            131 => {
                let (state, map) = self.map(state, 1)?;
                let (mut state, size) = self.number(state, 2)?;
                if size > self.maps[map].max_entries.into() {
                    return Ok(vec![self.returns_number(state, 0)]);
                }
                if size > RESERVED_EACH - 16 {
                    return Err(vec![state.stuck("a record of more than a megabyte")]);
                }
                let nth = state.made;
                state.made += 1;
                let inputs = vec![
                    self.terms.constant(64, map as u64),
                    self.terms.constant(64, nth),
                    self.terms.constant(64, size),
                ];
                Ok(self.forked(state, 131, inputs, |me, mut state, ok| {
                    let record = RESERVED + RESERVED_EACH * nth;
                    // What a record is of, at its end: nobody else looks there.
                    for (at, value) in [(16, map as u64), (8, size)] {
                        let whole = me.terms.constant(64, value);
                        for byte in 0..8 {
                            let place = record + RESERVED_EACH - at + u64::from(byte);
                            state.cells.insert(place, crate::unroll::Cell { whole, at: byte });
                        }
                    }
                    vec![me.returns_number(state, if ok { record } else { 0 })]
                }))
            }
            _ => {
                let (mut state, record) = self.number(state, 1)?;
                if helper == 132 {
                    let end = record + RESERVED_EACH;
                    let map = self.cells(&mut state, end - 16, 8);
                    let size = self.cells(&mut state, end - 8, 8);
                    let parts = (self.terms.value(map), self.terms.value(size));
                    let (Some(map), Some(size)) = parts else {
                        return Err(vec![state.stuck("a record that is not known here")]);
                    };
                    if size > MOST_BYTES {
                        return Err(vec![state.stuck(LONG)]);
                    }
                    let from = self.terms.constant(64, record);
                    let sent = self.words(state, from, size)?;
                    state = sent.0;
                    let map = Some(map as usize);
                    state.messages.push(Message { map, words: sent.1, packet: None });
                }
                Ok(vec![self.returns_number(state, 0)])
            }
        }
    }
}
