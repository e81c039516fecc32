//! Headers of which it is data how many bytes were emitted: a loop emits in each of its trips, and
//! how many there are the packet says.
//!
//! Where the loop is left, what was emitted on one way is the beginning of what was emitted on
//! another. So the longest of these is kept, with how many of its bytes count, and what is emitted
//! later is moved there when the packet leaves. Where neither is the beginning of the other, or too
//! many lists would be kept apart, one is made of all.

use super::super::super::tables::bits_below;
use super::edits::Leaving;
use super::*;

/// The first `parts` of a list of emitted headers are `least` to `most` bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ragged {
    parts: usize,
    least: u32,
    most: u32,
    /// How many bytes they are, 16 bits.
    length: String,
    /// The length on each way, and what tells it from the others, where that is known.
    ways: Vec<(u32, Vec<String>)>,
}

fn joined(parts: &[(String, u32)]) -> String {
    let parts: Vec<&str> = parts.iter().rev().map(|part| part.0.as_str()).collect();
    format!("{{{}}}", parts.join(", "))
}

fn bytes(parts: &[(String, u32)]) -> u32 {
    parts.iter().map(|part| part.1).sum()
}

impl Walk<'_, '_, '_> {
    /// What was emitted behind a loop, of what was emitted on the ways that leave it: of each list
    /// that there was before the loop, the longest.
    pub(super) fn leave_loop(&mut self, left: Vec<(Way, Vec<Emitted>)>) -> Vec<Emitted> {
        let Some((_, first)) = left.first() else { return Vec::new() };
        if left.iter().any(|(_, lists)| lists.len() != first.len()) {
            return self.flattened(left);
        }
        let mut joined = Vec::new();
        for (at, list) in first.iter().enumerate() {
            let all: Vec<Option<&Emitted>> = left.iter().map(|(_, lists)| lists.get(at)).collect();
            if all.iter().all(|other| *other == Some(list)) {
                joined.push(list.clone());
                continue;
            }
            let plain = all
                .into_iter()
                .flatten()
                .filter(|one| one.ragged.is_none() && one.when == list.when);
            let parts: Vec<&Vec<(String, u32)>> = plain.map(|one| &one.parts).collect();
            if parts.len() < left.len() {
                return self.flattened(left);
            }
            let longest = parts.iter().max_by_key(|parts| parts.len()).map(|parts| parts.to_vec());
            let longest = longest.unwrap_or_default();
            if !parts.iter().all(|parts| longest.starts_with(parts)) {
                return self.flattened(left);
            }
            let lengths: Vec<u32> = parts.iter().map(|parts| bytes(parts)).collect();
            let ways = left.iter().map(|(way, _)| way);
            let ragged = self.ragged(ways.zip(&lengths), longest.len());
            joined.push(Emitted { when: list.when.clone(), parts: longest, ragged: Some(ragged) });
        }
        joined
    }

    /// One list of what was emitted on several ways: bytes of whichever was taken, and how many of
    /// them count.
    pub(super) fn flattened(&mut self, ways: Vec<(Way, Vec<Emitted>)>) -> Vec<Emitted> {
        let (mut apart, mut all) = (Vec::new(), Vec::new());
        for (way, lists) in ways {
            for list in lists {
                apart.push(
                    list.when.iter().fold(way.clone(), |way, condition| self.and(&way, condition)),
                );
                let (parts, length, least) = match &list.ragged {
                    None => {
                        let count = bytes(&list.parts);
                        (list.parts.clone(), number(16, u64::from(count)), count)
                    }
                    Some(ragged) => {
                        let after = bytes(&list.parts[ragged.parts..]);
                        let length =
                            format!("{} + {}", ragged.length, number(16, u64::from(after)));
                        let length = self.wire("emitted", 16, length, timing::carry(16));
                        (self.closed_up(&list.parts, ragged), length, ragged.least + after)
                    }
                };
                all.push((parts, length, least));
            }
        }
        let (least, most) = (
            all.iter().map(|one| one.2).min().unwrap_or(0),
            all.iter().map(|one| bytes(&one.0)).max().unwrap_or(0),
        );
        if most == 0 {
            return vec![Emitted::default()];
        }
        let apart = self.among(apart);
        let wide = |parts: &[(String, u32)]| match bytes(parts) {
            0 => number(8 * most, 0),
            count => Lower::resize(&joined(parts), 8 * count, 8 * most),
        };
        let texts: Vec<String> = all.iter().map(|one| wide(&one.0)).collect();
        let from: Vec<(&Way, &str)> = apart.iter().zip(texts.iter().map(String::as_str)).collect();
        let (text, delay) = taken(8 * most, &from);
        let front = self.wire("front", 8 * most, text, delay);
        let from: Vec<(&Way, &str)> =
            apart.iter().zip(all.iter().map(|one| one.1.as_str())).collect();
        let (text, delay) = taken(16, &from);
        let length = self.wire("emitted", 16, text, delay);
        let ragged = Some(Ragged { parts: 1, least, most, length, ways: Vec::new() });
        vec![Emitted { when: Vec::new(), parts: vec![(front, most)], ragged }]
    }

    /// As many bytes as there are on whichever way was taken.
    fn ragged<'w>(
        &mut self,
        ways: impl Iterator<Item = (&'w Way, &'w u32)>,
        parts: usize,
    ) -> Ragged {
        let (ways, lengths): (Vec<Way>, Vec<u32>) =
            ways.map(|(way, length)| (way.clone(), *length)).unzip();
        let apart = self.conditions_apart(&ways).unwrap_or_default();
        let apart = lengths.iter().copied().zip(apart).collect();
        let ways = self.among(ways);
        let ways: Vec<(&Way, u32)> = ways.iter().zip(lengths).collect();
        let lengths = ways.iter().map(|(_, length)| *length);
        let (least, most) =
            (lengths.clone().min().unwrap_or(0), lengths.clone().max().unwrap_or(0));
        let texts: Vec<String> = lengths.map(|length| number(16, u64::from(length))).collect();
        let from: Vec<(&Way, &str)> =
            ways.iter().zip(&texts).map(|((way, _), text)| (*way, text.as_str())).collect();
        let (text, delay) = taken(16, &from);
        let length = self.wire("emitted", 16, text, delay);
        Ragged { parts, least, most, length, ways: apart }
    }

    /// Such headers with those behind them where they belong: the bytes of the longest, of which as
    /// many count as there are.
    fn closed_up(&mut self, parts: &[(String, u32)], ragged: &Ragged) -> Vec<(String, u32)> {
        let (front, behind) = parts.split_at(ragged.parts);
        let (Ragged { least, most, .. }, after) = (ragged, bytes(behind));
        let all = self.wire("front", 8 * most, joined(front), 0);
        let width = 8 * (most - least + after);
        let mut delay = 0;
        let mut kept = Vec::new();
        for at in (0..most - least).rev() {
            let counts = self.counts(ragged, at);
            let low = 8 * (least + at);
            kept.push(format!("{all}[{}:{low}] & {{8{{{counts}}}}}", low + 7));
            delay = timing::CHOOSE;
        }
        let mut text = match most - least {
            0 => number(width, 0),
            some => Lower::resize(&format!("{{{}}}", kept.join(", ")), 8 * some, width),
        };
        if after > 0 {
            let shift = self.there(ragged);
            let tail = self.wire("behind", 8 * after, joined(behind), 0);
            text = format!(
                "{text} | ({} << {{{shift}, 3'b000}})",
                Lower::resize(&tail, 8 * after, width)
            );
            delay = timing::mux(most - least + 1) + timing::CHOOSE;
        }
        let rest = self.wire("header", width, text, delay);
        let mut header = Vec::new();
        if *least > 0 {
            header.push((
                self.wire("front", 8 * least, format!("{all}[{}:0]", 8 * least - 1), 0),
                *least,
            ));
        }
        header.push((rest, most - least + after));
        header
    }

    /// How many of the bytes that may be missing are there.
    fn there(&mut self, ragged: &Ragged) -> String {
        let Ragged { least, most, length, .. } = ragged;
        let bits = bits_below(most - least + 1);
        let value = format!("{bits}'({length} - {})", number(16, u64::from(*least)));
        self.wire("there", bits, value, timing::carry(12))
    }

    /// Signal: of the bytes that may be missing more than `at` are there. Ways say so sooner than
    /// their number.
    fn counts(&mut self, ragged: &Ragged, at: u32) -> String {
        let more = |way: &&(u32, Vec<String>)| way.0 > ragged.least + at;
        let longer: Vec<Vec<String>> =
            ragged.ways.iter().filter(more).map(|way| way.1.clone()).collect();
        if !longer.is_empty() {
            return self.any_of(longer);
        }
        let there = self.there(ragged);
        let (counts, delay) =
            at_least(&there, bits_below(ragged.most - ragged.least + 1), u64::from(at) + 1);
        self.wire("counts", 1, counts, delay)
    }

    /// How a packet leaves behind such headers; the way, and where to, are the caller's.
    pub(super) fn ragged_exit(
        &mut self,
        packet: &Packet,
        mut parts: Vec<(String, u32)>,
        ragged: &Ragged,
    ) -> Exit {
        let Leaving { part, count, from } = self.leaving(packet);
        let emitted = bytes(&parts[ragged.parts..]);
        parts.extend(part);
        let header = self.closed_up(&parts, ragged);
        let hlen = match count.behind(self, emitted) {
            none if none == number(16, 0) => ragged.length.clone(),
            behind => {
                let hlen = format!("{} + {behind}", ragged.length);
                self.wire("hlen", 16, hlen, timing::carry(16))
            }
        };
        let emitted = bytes(&header);
        let end = packet.end.clone();
        // Payload begins anywhere in its words.
        Exit {
            when: None,
            given: Given::new(),
            kind: 0,
            stays: false,
            number: String::new(),
            addr: None,
            moved: None,
            header,
            hlen,
            from,
            end,
            patches: packet.patches(),
            cursor: None,
            emitted,
        }
    }
}
