//! Bytes of the frame that are overwritten where they lie.
//!
//! The packet buffer is not written: the bytes that may be other ones than there, one stretch from
//! the first to the last, are a signal, which reads look at, and which leaves as the end of the new
//! headers. So payload begins behind the stretch, or where the frame ends before. What is
//! overwritten elsewhere is kept apart (`patches`).

use super::super::super::tables::bits_below;
use super::*;

/// Bytes `from..to` of the frame as they are now, byte `from` lowest, and what was overwritten
/// anywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Edited {
    pub from: u32,
    pub to: u32,
    pub bytes: String,
    /// Those of them that may be other ones than those that came in.
    pub touched: BTreeSet<u32>,
    pub patches: Vec<Patch>,
}

impl Walk<'_, '_, '_> {
    /// Bytes `from..to` of the frame, wherever they are, the first one lowest.
    pub(super) fn frame(&mut self, edited: Option<&Edited>, from: u32, to: u32) -> String {
        let window = mark("window");
        let patches = edited.map_or(&[][..], |edited| &edited.patches);
        let mut parts = Vec::new();
        let mut piece = |walk: &mut Self, signal: &str, low: u32, high: u32| {
            if low < high {
                let value = format!("{signal}[{}:{}]", 8 * high - 1, 8 * low);
                let mut bytes = walk.wire("bytes", 8 * (high - low), value, 0);
                if signal == window {
                    bytes = walk.patched(patches, bytes, low, high);
                }
                parts.push(bytes);
            }
        };
        match edited.filter(|edited| edited.from < to && from < edited.to) {
            None => piece(self, &window, from, to),
            Some(edited) => {
                piece(self, &window, from, edited.from);
                let (low, high) = (from.max(edited.from), to.min(edited.to));
                piece(self, &edited.bytes.clone(), low - edited.from, high - edited.from);
                piece(self, &window, edited.to, to);
            }
        }
        parts.reverse();
        match &parts[..] {
            [one] => one.clone(),
            _ => self.wire("bytes", 8 * (to - from), format!("{{{}}}", parts.join(", ")), 0),
        }
    }

    /// Overwrites bytes `off` behind the cursor, if they are all there.
    pub(super) fn store(
        &mut self,
        ok: ValueId,
        off: ValueId,
        value: ValueId,
    ) -> Result<(), NoPipe> {
        let packet = self.packet();
        let size = self.dag.bits.bytes(self.low.ty(value));
        let within = |range: &Range| range.1 <= u64::from(MOST_WINDOW);
        let (least, far) =
            Some(self.range(off)).filter(within).unwrap_or_else(|| self.range_here(off));
        let start = if let Cursor::At(at) = packet.cursor { at } else { 0 };
        let last = far.saturating_add(u64::from(most(&packet.cursor) + size));
        if last > u64::from(MOST_WINDOW) {
            return self.store_anywhere(ok, off, value);
        }
        // The stretch of bytes of which some are overwritten.
        let (from, to) = (start + least as u32, last as u32);
        self.dag.window = self.dag.window.max(to);
        let bytes = self.low.bytes_of(value);
        let old = self.frame(packet.edited.as_ref(), from, to);
        let (fits, delay, new, later) = match &packet.cursor {
            Cursor::At(_) if to - from == size => {
                let (fits, delay) = at_least(&packet.end, 16, u64::from(to));
                (fits, delay, bytes, 0)
            }
            cursor => {
                let place = format!("{} + 16'({})", text(cursor), self.low.u32(off));
                let place = self.wire("place", 16, place, timing::carry(12));
                let fits = format!("{} >= {place} + {}", packet.end, number(16, u64::from(size)));
                let width = 8 * (to - from);
                let shift = format!("{place} - {}", number(16, u64::from(from)));
                let shift = self.wire("shift", 16, shift, timing::carry(12));
                let mask = Lower::resize(&format!("{{{}{{1'b1}}}}", 8 * size), 8 * size, width);
                let moved = |what: &str| format!("({what} << {{{shift}, 3'b000}})");
                let new = format!(
                    "({old} & ~{}) | {}",
                    moved(&mask),
                    moved(&Lower::resize(&bytes, 8 * size, width))
                );
                let later = timing::mux(to - from - size + 1) + timing::CHOOSE;
                (fits, timing::carry(16), self.wire("edited", width, new, later), timing::CHOOSE)
            }
        };
        let name = self.low.rename(ok);
        if matches!(packet.cursor, Cursor::At(_)) && to <= packet.has {
            self.low.know(ok, 1);
            self.edit(from, to, new);
        } else {
            self.put(&name, 1, fits, delay);
            let new = format!("{} ? {new} : {old}", mark(&name));
            let new = self.wire("edited", 8 * (to - from), new, later.max(timing::CHOOSE));
            self.edit(from, to, new);
        }
        Ok(())
    }

    /// Bytes `from..to` become other ones.
    fn edit(&mut self, from: u32, to: u32, bytes: String) {
        let mut packet = self.packet();
        let before = packet.edited.take().unwrap_or_default();
        let mut touched: BTreeSet<u32> = (from..to).collect();
        let mut stretch = (from, to, bytes);
        if before.from < before.to {
            let mut parts = Vec::new();
            let (first, last) = (before.from.min(from), before.to.max(to));
            if first < from {
                parts.push(self.frame(Some(&before), first, from));
            }
            parts.push(stretch.2);
            if to < last {
                parts.push(self.frame(Some(&before), to, last));
            }
            parts.reverse();
            let bytes =
                self.wire("edited", 8 * (last - first), format!("{{{}}}", parts.join(", ")), 0);
            touched.extend(&before.touched);
            if !before.patches.is_empty() {
                touched.extend(first..last);
            }
            stretch = (first, last, bytes);
        }
        let (from, to, bytes) = stretch;
        let stretch = Edited { from, to, bytes, touched, patches: before.patches };
        packet.edited = Some(stretch);
        self.packet = Some(packet);
    }

    /// Overwritten bytes where ways join, one of which was taken.
    pub(super) fn join_edits(&mut self, ways: &[Way], list: Vec<Option<Edited>>) -> Option<Edited> {
        if list.iter().all(|edited| *edited == list[0]) {
            return list.into_iter().next()?;
        }
        let patches = self.join_patches(ways, &list);
        let some = || list.iter().flatten().filter(|edited| edited.from < edited.to);
        let (Some(from), Some(to)) =
            (some().map(|edited| edited.from).min(), some().map(|edited| edited.to).max())
        else {
            return Some(Edited { patches, ..Edited::default() });
        };
        let mut touched: BTreeSet<u32> =
            some().flat_map(|edited| edited.touched.iter().copied()).collect();
        if !patches.is_empty() {
            touched.extend(from..to);
        }
        let texts: Vec<String> =
            list.iter().map(|edited| self.frame(edited.as_ref(), from, to)).collect();
        let from_ways: Vec<(&Way, &str)> =
            ways.iter().zip(texts.iter().map(String::as_str)).collect();
        let width = 8 * (to - from);
        let (value, delay) = taken(width, &from_ways);
        let bytes = self.wire("edited", width, value, delay);
        Some(Edited { from, to, bytes, touched, patches })
    }

    /// Patches of all ways, those that not all have in common under the condition of theirs.
    fn join_patches(&mut self, ways: &[Way], list: &[Option<Edited>]) -> Vec<Patch> {
        let all: Vec<&[Patch]> = list
            .iter()
            .map(|edited| edited.as_ref().map_or(&[][..], |edited| &edited.patches))
            .collect();
        let common = (0..all[0].len())
            .take_while(|at| all.iter().all(|patches| patches.get(*at) == all[0].get(*at)))
            .count();
        let mut joined = all[0][..common].to_vec();
        // The last way is what remains: none of the others was taken.
        let others: Vec<String> = ways[..ways.len() - 1].iter().flatten().cloned().collect();
        let last = match &others[..] {
            [one] => opposite(one),
            _ => format!("!({})", others.join(" || ")),
        };
        for (at, patches) in all.iter().enumerate() {
            let way = if at + 1 < ways.len() {
                ways[at].as_deref().unwrap_or("1'b1").to_string()
            } else {
                last.clone()
            };
            for patch in &patches[common..] {
                let when = self.wire(
                    "when",
                    1,
                    format!("{} && {way}", patch.when),
                    timing::tree(ways.len() as u32),
                );
                joined.push(Patch { when, ..patch.clone() });
            }
        }
        joined
    }

    /// How a packet leaves: the overwritten bytes as one more header, and where payload is then.
    pub(super) fn leaving(&mut self, packet: &Packet) -> Leaving {
        let cursor = text(&packet.cursor);
        let Some(edited) =
            packet.edited.as_ref().filter(|edited| edited.to > start_of(&packet.cursor))
        else {
            return Leaving { part: None, count: Count::Known(0), from: cursor };
        };
        let to = number(16, u64::from(edited.to));
        let end = &packet.end;
        let Cursor::At(at) = packet.cursor else {
            // From the frame's first byte on: those behind the cursor.
            let low = bits_below(edited.to + 1) - 1;
            let frame = self.frame(Some(edited), 0, edited.to);
            let part = format!("{frame} >> {{{cursor}[{low}:0], 3'b000}}");
            let part = self.wire("overwritten", 8 * edited.to, part, timing::mux(edited.to));
            let (fits, delay) = at_least(end, 16, u64::from(edited.to));
            let fits = self.wire("fits", 1, fits, delay);
            let stop = self.wire("stop", 16, format!("{fits} ? {to} : {end}"), timing::CHOOSE);
            let within = self.wire("within", 1, format!("{cursor} < {stop}"), timing::carry(8));
            let from =
                self.wire("from", 16, format!("{within} ? {stop} : {cursor}"), timing::CHOOSE);
            let count = self.wire("count", 16, format!("{from} - {cursor}"), timing::carry(16));
            return Leaving { part: Some((part, edited.to)), count: Count::Data(count), from };
        };
        let bytes = edited.to - at;
        let part = Some((self.frame(Some(edited), at, edited.to), bytes));
        if edited.to <= packet.has {
            return Leaving { part, count: Count::Known(bytes), from: to };
        }
        let (fits, delay) = at_least(end, 16, u64::from(edited.to));
        let fits = self.wire("fits", 1, fits, delay);
        let from = self.wire("from", 16, format!("{fits} ? {to} : {end}"), timing::CHOOSE);
        Leaving { part, count: Count::Fits { fits, bytes, end: end.clone(), at }, from }
    }
}

/// Numbers of overwritten bytes.
pub(super) enum Count {
    Known(u32),
    /// So many, or those from byte `at` of the frame to its end.
    Fits {
        fits: String,
        bytes: u32,
        end: String,
        at: u32,
    },
    Data(String),
}

impl Count {
    /// These and so many bytes in front of them, 16 bits.
    pub fn behind(&self, walk: &mut Walk<'_, '_, '_>, emitted: u32) -> String {
        match self {
            Count::Known(bytes) => number(16, u64::from(emitted + bytes)),
            Count::Fits { fits, bytes, end, at } => {
                let short = match emitted.checked_sub(*at) {
                    Some(more) => format!("{end} + {}", number(16, u64::from(more))),
                    None => format!("{end} - {}", number(16, u64::from(at - emitted))),
                };
                let all = number(16, u64::from(emitted + bytes));
                walk.wire("hlen", 16, format!("{fits} ? {all} : {short}"), timing::carry(16))
            }
            Count::Data(count) if emitted == 0 => count.clone(),
            Count::Data(count) => {
                let all = format!("{count} + {}", number(16, u64::from(emitted)));
                walk.wire("hlen", 16, all, timing::carry(16))
            }
        }
    }
}

/// Overwritten bytes and payload of a packet that leaves.
pub(super) struct Leaving {
    pub part: Option<(String, u32)>,
    pub count: Count,
    /// Where payload begins in the frame, 16 bits.
    pub from: String,
}

pub(super) fn start_of(cursor: &Cursor) -> u32 {
    if let Cursor::At(at) = cursor { *at } else { 0 }
}
