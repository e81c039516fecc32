//! Headers of which it is data how many bytes were emitted: a loop emits in each of its trips, and how many there are the packet says.
//!
//! Where the loop is left, what was emitted on one way is the beginning of what was emitted on another. So the longest of these is kept, with
//! how many of its bytes count, and what is emitted later is moved there when the packet leaves.

use super::super::super::tables::bits_below;
use super::*;

/// The first `parts` of a list of emitted headers are `least` to `most` bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ragged {
    parts: usize,
    least: u32,
    most: u32,
    /// How many bytes they are, 16 bits.
    length: String,
}

fn bytes(parts: &[(String, u32)]) -> u32 {
    parts.iter().map(|part| part.1).sum()
}

impl Walk<'_, '_, '_> {
    /// What was emitted behind a loop, of what was emitted on the ways that leave it.
    pub(super) fn leave_loop(&mut self, left: Vec<(Way, Vec<Emitted>)>) -> Result<(), NoPipe> {
        let Some((_, first)) = left.first() else { return Ok(()) };
        if left.iter().all(|(_, emitted)| emitted == first) {
            let first = first.clone();
            self.packet.iter_mut().for_each(|packet| packet.emitted.clone_from(&first));
            return Ok(());
        }
        let one = |emitted: &Vec<Emitted>| match &emitted[..] {
            [one] if one.ragged.is_none() && one.when == first[0].when => Some(one.parts.clone()),
            _ => None,
        };
        let lists: Option<Vec<Vec<(String, u32)>>> = left.iter().map(|(_, emitted)| one(emitted)).collect();
        let Some(lists) = lists else {
            return self.no("a loop emits headers behind others of which it is data which they are");
        };
        let longest = lists.iter().max_by_key(|parts| parts.len()).cloned().unwrap_or_default();
        if !lists.iter().all(|parts| longest.starts_with(parts)) {
            return self.no("a loop is left on ways on which different headers were emitted");
        }
        let lengths: Vec<u32> = lists.iter().map(|parts| bytes(parts)).collect();
        let [Some(least), Some(most)] = [lengths.iter().min(), lengths.iter().max()] else { return Ok(()) };
        let mut text = String::new();
        let (last, others) = (lengths.len() - 1, left.iter().zip(&lengths));
        for ((way, _), length) in others.take(last) {
            let length = number(16, u64::from(*length));
            text.push_str(&format!("{} ? {length} : ", way.as_deref().unwrap_or("1'b1")));
        }
        text.push_str(&number(16, u64::from(lengths[last])));
        let length = self.wire("emitted", 16, text, timing::mux(2 * lengths.len() as u32));
        let ragged = Ragged { parts: longest.len(), least: *least, most: *most, length };
        let emitted = Emitted { when: first[0].when.clone(), parts: longest, ragged: Some(ragged) };
        self.packet.iter_mut().for_each(|packet| packet.emitted = vec![emitted.clone()]);
        Ok(())
    }

    /// How a packet leaves behind such headers; the way, and where to, are the caller's.
    pub(super) fn ragged_exit(
        &mut self,
        packet: &Packet,
        parts: &[(String, u32)],
        ragged: &Ragged,
    ) -> Result<Exit, NoPipe> {
        if packet.edited.is_some() {
            return self.no("bytes are overwritten in place, and headers end at a place that is data");
        }
        let joined = |parts: &[(String, u32)]| {
            let parts: Vec<&str> = parts.iter().rev().map(|part| part.0.as_str()).collect();
            format!("{{{}}}", parts.join(", "))
        };
        let (front, behind) = parts.split_at(ragged.parts);
        let (Ragged { least, most, length, .. }, after) = (ragged, bytes(behind));
        let all = self.wire("front", 8 * most, joined(front), 0);
        let width = 8 * (most - least + after);
        // How many of the bytes that may be missing are there.
        let bits = bits_below(most - least + 1);
        let shift = self.wire(
            "there",
            bits,
            format!("{bits}'({length} - {})", number(16, u64::from(*least))),
            timing::carry(12),
        );
        let mut delay = 0;
        let mut kept = Vec::new();
        for at in (0..most - least).rev() {
            let (counts, later) = at_least(&shift, bits, u64::from(at) + 1);
            let counts = self.wire("counts", 1, counts, later);
            let low = 8 * (least + at);
            kept.push(format!("{all}[{}:{low}] & {{8{{{counts}}}}}", low + 7));
            delay = timing::CHOOSE;
        }
        let mut text = match most - least {
            0 => number(width, 0),
            some => Lower::resize(&format!("{{{}}}", kept.join(", ")), 8 * some, width),
        };
        if after > 0 {
            let tail = self.wire("behind", 8 * after, joined(behind), 0);
            text = format!("{text} | ({} << {{{shift}, 3'b000}})", Lower::resize(&tail, 8 * after, width));
            delay = timing::mux(most - least + 1) + timing::CHOOSE;
        }
        let rest = self.wire("header", width, text, delay);
        let mut header = Vec::new();
        if *least > 0 {
            header.push((self.wire("front", 8 * least, format!("{all}[{}:0]", 8 * least - 1), 0), *least));
        }
        header.push((rest, most - least + after));
        let hlen = format!("{length} + {}", number(16, u64::from(after)));
        let hlen = self.wire("hlen", 16, hlen, timing::carry(16));
        let emitted = bytes(&header);
        let (from, end) = (super::text(&packet.cursor), packet.end.clone());
        // Payload begins anywhere in its words.
        Ok(Exit {
            when: None,
            kind: 0,
            number: String::new(),
            header,
            hlen,
            from,
            end,
            cursor: None,
            emitted,
        })
    }
}
