//! Copies between the packet and memory, and records of ring buffers with such copies.
//!
//! Lengths of copies need not be known on a path. Then bytes are not looked at one by one: the
//! path knows that from an address on memory holds so many bytes of the packet, and a record that
//! ends with them is one of bytes and of a part of the packet ([`Message`]). Whoever reads the copy
//! in another way reads unknown bytes.

use crate::ebpf::helpers::FAILED;
use crate::ebpf::{VALUES, VALUES_EACH, XDP, stride};
use crate::term::{Mem, Op, Term};

use super::Prover;
use super::calls::{Called, LONG, MOST_BYTES};
use super::state::{Message, State};

/// `-EFAULT`, which copies beyond 64 KiB give.
const BAD_ADDRESS: u64 = -14i64 as u64;
/// `bpf_ringbuf_output`.
const RING_OUTPUT: i32 = 130;
/// `bpf_xdp_load_bytes`.
const LOAD_BYTES: i32 = 189;
/// Most bytes in front of a copy of unknown length that the path goes on to know.
const MOST_KEPT: u64 = 1024;

/// A part of the packet that a value of a map ends with.
#[derive(Clone, Copy, Debug)]
pub struct Copied {
    /// Region of the map's values, and where in it the copy begins.
    region: u32,
    to: u64,
    /// Memory of the packet then, where in it, and how many bytes, both 32 bits.
    packet: (Mem, Term, Term),
}

impl Copied {
    /// True if a write leaves the copy as it is.
    pub fn stays(&self, region: u32, address: Option<u64>, bytes: u64) -> bool {
        region != self.region || address.is_some_and(|at| at + bytes <= self.to)
    }
}

impl Prover<'_> {
    /// Copies bytes from the packet ([`LOAD_BYTES`]) or to it.
    pub fn copy(&mut self, mut state: State, helper: i32) -> Called {
        let size = self.arg(&mut state, 4);
        let buffer = self.arg(&mut state, 3);
        let known = self.fixed(&state, size);
        // Where to, if the length is to stay open.
        let far = self.value_of_map(buffer).filter(|_| known.is_none() && helper == LOAD_BYTES);
        let (mut state, size) = match far {
            Some(_) => (state, self.terms.extract(size, 0, 32)),
            None => {
                let (state, size) = self.number(state, 4)?;
                (state, self.terms.constant(32, size))
            }
        };
        if self.terms.facts(size).high > MOST_BYTES {
            return Err(vec![state.stuck("a copy of more than 4096 bytes")]);
        }
        let offset = self.arg(&mut state, 2);
        let offset = self.terms.extract(offset, 0, 32);
        let offset = self.terms.zext(offset, 64);
        let length = self.length(&mut state);
        let length = self.terms.zext(length, 64);
        let wide = self.terms.zext(size, 64);
        let end = self.terms.binary(Op::Add, offset, wide);
        let limit = self.terms.constant(64, 0x1_0000);
        let near = self.terms.ult(offset, limit);
        let over = self.terms.ult(length, end);
        let [near, beyond] = self.branch(state, near);
        let mut done: Vec<State> = Vec::new();
        done.extend(beyond.map(|state| self.returns_number(state, BAD_ADDRESS)));
        let Some(state) = near else { return Ok(done) };
        let [over, inside] = self.branch(state, over);
        done.extend(over.map(|state| self.returns_number(state, FAILED)));
        let Some(mut state) = inside else { return Ok(done) };
        let begin = self.end_of_packet(&mut state, XDP.data);
        let begin = self.terms.zext(begin, 64);
        let packet = self.terms.binary(Op::Add, begin, offset);
        if let Some((map, to)) = far {
            done.push(self.copy_open(state, map, to, packet, size));
            return Ok(done);
        }
        let (from, to) = if helper == LOAD_BYTES { (packet, buffer) } else { (buffer, packet) };
        // What may have to be asked first makes the call again, on each of its ways.
        let fit = |ways: Vec<State>, mut done: Vec<State>| {
            done.extend(ways.into_iter().map(|state| state.stuck("a copy to or from many places")));
            Ok(done)
        };
        let bytes = self.terms.value(size).unwrap_or(0);
        let (mut state, words) = match self.words(state, from, bytes) {
            Ok(read) => read,
            Err(ways) => return fit(ways, done),
        };
        let mut at = 0;
        for word in words {
            let place = self.beyond(to, at);
            at += u64::from(self.terms.bits(word) / 8);
            state = match self.store(state, place, word) {
                Ok(state) => state,
                Err(ways) => return fit(ways, done),
            };
        }
        done.push(self.returns_number(state, 0));
        Ok(done)
    }

    /// The map that an address points into, if what its values hold afterwards is not compared.
    fn value_of_map(&self, address: Term) -> Option<(usize, u64)> {
        let at = self.terms.value(address)?;
        let map = (at.checked_sub(VALUES)? / VALUES_EACH) as usize;
        (map < self.maps.len() && self.array(map) && !self.pair.compared[map]).then_some((map, at))
    }

    /// A copy of so many bytes as a path leaves open.
    fn copy_open(
        &mut self,
        mut state: State,
        map: usize,
        to: u64,
        packet: Term,
        size: Term,
    ) -> State {
        let (region, each) = (self.region_of(map), stride(&self.maps[map]));
        let front = (to - VALUES) % VALUES_EACH % each;
        if front > MOST_KEPT {
            return state.stuck("a copy of open length far behind a value's beginning");
        }
        // What is in front of the copy stays; nothing else of the map's values is known after it.
        let before = self.mem(&state, region);
        let mut after = self.unknown();
        for at in to - front..to {
            let at = self.terms.constant(64, at);
            let byte = self.terms.load_resolved(before, at);
            after = self.terms.store(after, at, byte);
        }
        state.mems.insert(region, after);
        state.copied.retain(|copied| copied.region != region);
        let from = self.terms.extract(packet, 0, 32);
        let packet = (self.mem(&state, 0), from, size);
        state.copied.push(Copied { region, to, packet });
        self.returns_number(state, 0)
    }

    /// Sends bytes through a ring buffer.
    pub fn ring_output(&mut self, state: State) -> Called {
        let (mut state, map) = self.map(state, 1)?;
        let (data, size) = (self.arg(&mut state, 2), self.arg(&mut state, 3));
        if self.fixed(&state, size).is_none()
            && let Some(at) = self.terms.value(data)
            && let Some(copied) = self.copy_behind(&state, at)
        {
            return self.output_with(state, map, at, size, copied);
        }
        let (state, size) = self.number(state, 3)?;
        if size > MOST_BYTES {
            return Err(vec![state.stuck(LONG)]);
        }
        let (mut state, words) = self.words(state, data, size)?;
        state.messages.push(Message { map: Some(map), words, packet: None });
        Ok(self.was_sent(state))
    }

    /// The copy that begins not far behind an address of the same value.
    fn copy_behind(&self, state: &State, at: u64) -> Option<Copied> {
        let behind = |copied: &&Copied| (at..=at + MOST_KEPT).contains(&copied.to);
        state.copied.iter().find(behind).copied()
    }

    /// Sends what ends with a copy of part of the packet.
    fn output_with(
        &mut self,
        state: State,
        map: usize,
        at: u64,
        size: Term,
        copied: Copied,
    ) -> Called {
        let (front, (.., length)) = (copied.to - at, copied.packet);
        let size = self.terms.extract(size, 0, 32);
        let whole = self.beyond(length, front);
        let whole = self.terms.eq(size, whole);
        let [whole, part] = self.branch(state, whole);
        let mut done: Vec<State> = Vec::new();
        done.extend(part.map(|state| state.stuck("a message with a part of a copy")));
        let Some(state) = whole else { return Ok(done) };
        let from = self.terms.constant(64, at);
        let (mut state, words) = self.words(state, from, front)?;
        state.messages.push(Message { map: Some(map), words, packet: Some(copied.packet) });
        done.extend(self.was_sent(state));
        Ok(done)
    }

    /// Sends a record of bytes and a part of the packet, as the αIR side has it
    /// ([`FRAME`](crate::air::exact::FRAME)).
    pub fn record(&mut self, state: State) -> Called {
        let (state, map) = self.map(state, 1)?;
        let (mut state, size) = self.number(state, 3)?;
        let [data, from, length] = [2, 4, 5].map(|n| self.arg(&mut state, n));
        let [from, length] = [from, length].map(|term| self.terms.extract(term, 0, 32));
        let (state, words) = self.words(state, data, size)?;
        let zero = self.terms.constant(32, 0);
        let none = self.terms.eq(length, zero);
        let [none, some] = self.branch(state, none);
        let ways = [none.map(|state| (state, false)), some.map(|state| (state, true))];
        let mut done = Vec::new();
        for (mut state, some) in ways.into_iter().flatten() {
            let packet = some.then(|| (self.mem(&state, 0), from, length));
            let words = words.clone();
            state.messages.push(Message { map: Some(map), words, packet });
            done.extend(self.was_sent(state));
        }
        Ok(done)
    }

    /// Answers of the ring, of which nobody knows whether it had room.
    fn was_sent(&mut self, state: State) -> Vec<State> {
        let answers = self.ask_next(state, RING_OUTPUT, &[64]);
        self.results(answers)
    }
}
