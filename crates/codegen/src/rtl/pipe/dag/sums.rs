//! Checksums over payload, which passes the pipe by: sums that `nf_prefix_sum` has made of it as it
//! came in.
//!
//! It says what the bytes of a frame add up to before any place, apart for even and odd places, so
//! sums over any stretch are differences, and exact: a stretch of zeros is told from one that is a
//! multiple of 65535. Where the stretch begins at a place that is the same for all packets of a
//! way, it is asked for its end alone. Of bytes that were overwritten in place since, what they are
//! is added and what they were is taken away.

use super::beside::{SUM_BITS, What};
use super::*;

/// Bits of one of the two sums.
const HALF: u32 = SUM_BITS / 2;
/// Numbers that are added in one wire.
const ADDED: usize = 4;

impl Walk<'_, '_, '_> {
    /// `sum` and up to `len` bytes behind the cursor.
    pub(super) fn payload_sum(
        &mut self,
        way: &Way,
        result: ValueId,
        sum: ValueId,
        len: ValueId,
    ) -> Result<(), NoPipe> {
        let packet = self.packet();
        let (_, end) = self.prefix_end(&packet, len);
        let (even, odd) = match &packet.cursor {
            Cursor::At(at) => {
                let sums = self.ask(way, What::Sum { start: *at }, &end);
                let found = ["even", "odd"].map(|name| self.half(name, &sums));
                let [even, odd] = self.as_overwritten(way, &packet, &end, found);
                if at % 2 == 0 { (even, odd) } else { (odd, even) }
            }
            Cursor::Signal(from, _) => {
                let [to, from_sums] =
                    [&end, from].map(|place| self.ask(way, What::Sum { start: 0 }, place));
                let found = ["even", "odd"].map(|name| {
                    let (to, from) = (self.half(name, &to), self.half(name, &from_sums));
                    self.wire(name, HALF, format!("{to} - {from}"), timing::carry(HALF))
                });
                let [even, odd] = self.as_overwritten(way, &packet, &end, found);
                // Words begin at the cursor.
                let mut pick = |name: &str, one: &str, other: &str| {
                    let value = format!("{from}[0] ? {other} : {one}");
                    self.wire(name, HALF, value, timing::CHOOSE)
                };
                (pick("high", &even, &odd), pick("low", &odd, &even))
            }
        };
        let sum = self.low.u32(sum);
        let all = format!("{{8'h0, {sum}}} + {{14'h0, {even}, 8'h0}} + {{22'h0, {odd}}}");
        let all = self.wire("csum", 40, all, timing::word_sum(2));
        let mut list = Vec::new();
        let (value, delay) = self.low.folded(&all, &mut list);
        for wire in list {
            self.put(&wire.name, wire.width, wire.value, wire.delay);
        }
        self.result(result, value, delay);
        Ok(())
    }

    fn half(&mut self, which: &str, sums: &str) -> String {
        let value =
            if which == "even" { format!("{sums}[35:18]") } else { format!("{sums}[17:0]") };
        self.wire(which, HALF, value, 0)
    }

    /// Sums of the frame's bytes from the cursor to `end` as they are now, from those of the bytes
    /// as they came in.
    fn as_overwritten(
        &mut self,
        way: &Way,
        packet: &Packet,
        end: &str,
        [even, odd]: [String; 2],
    ) -> [String; 2] {
        let Some(edited) = &packet.edited else { return [even, odd] };
        let mut places: [Vec<(u32, String)>; 2] = Default::default();
        for at in edited.touched.iter().copied() {
            let (before, mut delay) = at_least(end, 16, u64::from(at) + 1);
            let mut counts = format!("({before})");
            match &packet.cursor {
                Cursor::At(cursor) if *cursor > at => continue,
                Cursor::At(_) => {}
                Cursor::Signal(cursor, _) => {
                    let (behind, later) = at_least(cursor, 16, u64::from(at) + 1);
                    counts.push_str(&format!(" && !({behind})"));
                    delay = delay.max(later) + timing::CHOOSE;
                }
            }
            let counts = self.wire("counts", 1, counts, delay);
            places[at as usize % 2].push((at, counts));
        }
        let mut changed = |found: String, places: &[(u32, String)]| {
            if places.is_empty() {
                return found;
            }
            let [new, old] = [Some(edited), None].map(|of| self.added_up(of, places));
            let value = format!("{found} + {new} - {old}");
            self.wire("changed", HALF, value, timing::word_sum(2))
        };
        let sums = [changed(even, &places[0]), changed(odd, &places[1])];
        self.patched_sums(way, packet, end, sums, HALF)
    }

    /// The sum of those bytes of the frame that count.
    fn added_up(&mut self, edited: Option<&Edited>, places: &[(u32, String)]) -> String {
        let mut terms = Vec::new();
        for (at, counts) in places {
            let byte = self.frame(edited, *at, at + 1);
            terms.push(self.wire("byte", 8, format!("{byte} & {{8{{{counts}}}}}"), timing::CHOOSE));
        }
        self.total(terms)
    }

    /// The sum of bytes.
    pub(super) fn total(&mut self, mut terms: Vec<String>) -> String {
        let mut bits = 8;
        if terms.is_empty() {
            return number(HALF, 0);
        }
        while terms.len() > 1 || bits < HALF {
            let wide = if terms.len() <= ADDED { HALF } else { bits + 2 };
            let sum = |group: &[String]| {
                let wider = |term: &String| Lower::resize(term, bits, wide);
                group.iter().map(wider).collect::<Vec<_>>().join(" + ")
            };
            let sums: Vec<String> = terms.chunks(ADDED).map(sum).collect();
            let delay = if terms.len() > 1 { timing::word_sum(ADDED as u32 - 1) } else { 0 };
            terms = sums.into_iter().map(|sum| self.wire("sum", wide, sum, delay)).collect();
            bits = wide;
        }
        terms.swap_remove(0)
    }
}
