//! Bytes that are overwritten at places without a bound within the window.
//!
//! They are kept beside the packet, each stretch with its place, and put where they belong whenever
//! bytes of the packet are looked at: in the window and the bytes overwritten there (`edits`), in
//! what is read from anywhere, in sums, and in payload on its way out (`nf_patch`).

use super::beside::What;
use super::*;

/// How patches are told to the deparser's: most of one command, and bytes of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patches {
    pub count: u32,
    pub bytes: u32,
}

impl Patches {
    /// Numbers and sizes that the commands of all exits need.
    pub fn of(exits: &[Exit]) -> Patches {
        let all = || exits.iter().map(|exit| &exit.patches);
        Patches {
            count: all().map(Vec::len).max().unwrap_or(0) as u32,
            bytes: all().flatten().map(|patch| patch.size).max().unwrap_or(0),
        }
    }

    /// Bits of one: how many bytes count, where, and the bytes.
    fn each(self) -> u32 {
        7 + 16 + 8 * self.bytes
    }

    /// Bits of all.
    pub fn bits(self) -> u32 {
        self.count * self.each()
    }

    /// Those of a command, the first one lowest.
    pub fn text(self, patches: &[Patch]) -> String {
        let of = |at: u32| match patches.get(at as usize) {
            None => number(self.each(), 0),
            Some(patch) => {
                let bytes = Lower::resize(&patch.bytes, 8 * patch.size, 8 * self.bytes);
                format!("{{{} ? 7'd{} : 7'd0, {}, {bytes}}}", patch.when, patch.size, patch.place)
            }
        };
        format!("{{{}}}", (0..self.count).rev().map(of).collect::<Vec<_>>().join(", "))
    }
}

/// Most stretches of one packet: each is one more way that a byte of payload may come from, which
/// it takes on its way through the deparser.
const MOST_PATCHES: usize = 8;
/// Bytes of one stretch; longer values are several.
pub const MOST_BYTES: u32 = 64;

/// A stretch of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Signal: it was overwritten.
    pub when: String,
    /// Where in the frame, 16 bits, and the least that can be.
    pub place: String,
    pub least: u32,
    pub bytes: String,
    pub size: u32,
}

impl Walk<'_, '_, '_> {
    /// Overwrites bytes `off` behind the cursor, wherever that is, if they are all there.
    pub(super) fn store_anywhere(
        &mut self,
        ok: ValueId,
        off: ValueId,
        value: ValueId,
    ) -> Result<(), NoPipe> {
        let packet = self.packet();
        let size = self.dag.bits.bytes(self.low.ty(value));
        let (least, most) = self.range_here(off);
        let least =
            u32::try_from(least).unwrap_or(BEYOND).min(BEYOND) + edits::start_of(&packet.cursor);
        let name = self.low.rename(ok);
        if least >= BEYOND {
            self.put(&name, 1, "1'b0".to_string(), 0);
            return Ok(());
        }
        let off = self.low.u32(off);
        let off = self.wire("off", 32, off, 0);
        let mut near = String::new();
        if most >= u64::from(BEYOND) {
            near =
                format!("!{} && ", self.wire("far", 1, format!("|{off}[31:15]"), timing::tree(17)));
        }
        let place = format!("{} + 16'({off})", text(&packet.cursor));
        let place = self.wire("place", 16, place, timing::carry(12));
        let fits = format!("{near}{} >= {place} + {}", packet.end, number(16, u64::from(size)));
        self.put(&name, 1, fits, timing::carry(16));
        let bytes = self.low.bytes_of(value);
        let bytes = self.wire("value", 8 * size, bytes, 0);
        let mut edited = packet.edited.clone().unwrap_or_default();
        for at in (0..size).step_by(MOST_BYTES as usize) {
            let size = MOST_BYTES.min(size - at);
            let place = self.wire(
                "place",
                16,
                format!("{place} + {}", number(16, at.into())),
                timing::carry(16),
            );
            let bytes = format!("{bytes}[{}:{}]", 8 * (at + size) - 1, 8 * at);
            let bytes = self.wire("value", 8 * size, bytes, 0);
            let patch = Patch { when: mark(&name), place, least: least + at, bytes, size };
            if edited.from < edited.to {
                let (from, to) = (edited.from, edited.to);
                edited.bytes = self.patched(std::slice::from_ref(&patch), edited.bytes, from, to);
                edited.touched = (from..to).collect();
            }
            edited.patches.push(patch);
        }
        if edited.patches.len() > MOST_PATCHES {
            return self.no(&format!(
                "a packet is overwritten at more than {MOST_PATCHES} places of which nothing bounds where in it they are"
            ));
        }
        let mut packet = packet;
        packet.edited = Some(edited);
        self.packet = Some(packet);
        Ok(())
    }

    /// Bytes `from..to` of the frame, with those that lie in patches.
    pub(super) fn patched(
        &mut self,
        patches: &[Patch],
        mut bytes: String,
        from: u32,
        to: u32,
    ) -> String {
        for patch in patches.iter().filter(|patch| patch.least < to) {
            let behind = format!("{} - {{1'b0, {}}}", number(17, u64::from(to)), patch.place);
            let behind = self.wire("behind", 17, behind, timing::carry(17));
            bytes =
                self.overlaid((&patch.bytes, patch.size), &behind, &patch.when, (bytes, to - from));
        }
        bytes
    }

    /// Bytes that were read of the packet buffer from `place` on, with those that were overwritten
    /// since.
    pub(super) fn overwritten_since(
        &mut self,
        edited: &Edited,
        place: &str,
        (mut found, bytes): (String, u32),
    ) -> String {
        let place = self.wire("place", 16, place.to_string(), timing::carry(16));
        let end = format!("{{1'b0, {place}}} + {}", number(17, u64::from(bytes)));
        let end = self.wire("behind", 17, end, timing::carry(17));
        for patch in &edited.patches {
            let behind = self.wire(
                "behind",
                17,
                format!("{end} - {{1'b0, {}}}", patch.place),
                timing::carry(17),
            );
            found = self.overlaid((&patch.bytes, patch.size), &behind, &patch.when, (found, bytes));
        }
        if edited.from < edited.to {
            let count = edited.to - edited.from;
            let behind = format!("{end} - {}", number(17, u64::from(edited.from)));
            let behind = self.wire("behind", 17, behind, timing::carry(17));
            found = self.overlaid((&edited.bytes, count), &behind, "1'b1", (found, bytes));
        }
        found
    }

    /// So many bytes that were found, with those that lie in others, which begin `behind` bytes
    /// before the end of the former; 17 bits with sign.
    pub(super) fn overlaid(
        &mut self,
        (over, count): (&str, u32),
        behind: &str,
        when: &str,
        (found, bytes): (String, u32),
    ) -> String {
        let delay = timing::mux(count + bytes) + timing::CHOOSE;
        let meets = format!("{{{{{count}{{{when}}}}}, {}}} >> {behind}", number(bytes, 0));
        let meets = format!("{behind}[16] ? {} : {bytes}'({meets})", number(bytes, 0));
        let meets = self.wire("meets", bytes, meets, delay);
        let moved = format!("{{{over}, {}}} >> {{{behind}, 3'b000}}", number(8 * bytes, 0));
        let moved = self.wire("moved", 8 * bytes, format!("{}'({moved})", 8 * bytes), delay);
        let keep: Vec<String> =
            (0..bytes).rev().map(|at| format!("{{8{{{meets}[{at}]}}}}")).collect();
        let keep = self.wire("keep", 8 * bytes, format!("{{{}}}", keep.join(", ")), 0);
        self.wire(
            "bytes",
            8 * bytes,
            format!("({found} & ~{keep}) | ({moved} & {keep})"),
            timing::CHOOSE,
        )
    }

    /// What patches make of the sums of the bytes from the cursor to `end`, but for those that are
    /// a stretch of their own (`edits`).
    pub(super) fn patched_sums(
        &mut self,
        way: &Way,
        packet: &Packet,
        end: &str,
        mut sums: [String; 2],
        bits: u32,
    ) -> [String; 2] {
        let Some(edited) = packet.edited.clone() else { return sums };
        let cursor = text(&packet.cursor);
        for (number_of, patch) in edited.patches.iter().enumerate() {
            // What was there before: as it came in, and as earlier ones left it.
            let before =
                Edited { patches: edited.patches[..number_of].to_vec(), ..Edited::default() };
            let old = self.ask(way, What::Bytes(patch.size), &patch.place);
            let old = self.overwritten_since(&before, &patch.place, (old, patch.size));
            let mut halves = [Vec::new(), Vec::new()];
            for at in 0..patch.size {
                let place = self.wire(
                    "place",
                    16,
                    format!("{} + {}", patch.place, number(16, u64::from(at))),
                    timing::carry(16),
                );
                let mut counts =
                    format!("{} && {cursor} <= {place} && {place} < {end}", patch.when);
                if edited.from < edited.to {
                    let [from, to] =
                        [edited.from, edited.to].map(|place| number(16, u64::from(place)));
                    counts.push_str(&format!(" && ({place} < {from} || {place} >= {to})"));
                }
                let counts = self.wire("counts", 1, counts, timing::carry(16) + timing::CHOOSE);
                let [new, old] = [&patch.bytes, &old].map(|bytes| {
                    let byte = format!("{bytes}[{}:{}] & {{8{{{counts}}}}}", 8 * at + 7, 8 * at);
                    self.wire("byte", 8, byte, timing::CHOOSE)
                });
                halves[at as usize % 2].push((new, old));
            }
            let [first, second] = halves.map(|pairs| {
                let (new, old): (Vec<String>, Vec<String>) = pairs.into_iter().unzip();
                let [new, old] = [new, old].map(|bytes| self.total(bytes));
                self.wire("changed", bits, format!("{new} - {old}"), timing::carry(bits))
            });
            // The first byte lies at an odd place, or at an even one.
            let odd = self.wire("odd", 1, format!("{}[0]", patch.place), 0);
            sums = [(0, &second, &first), (1, &first, &second)].map(|(at, if_odd, if_even)| {
                let more = self.wire(
                    "more",
                    bits,
                    format!("{odd} ? {if_odd} : {if_even}"),
                    timing::CHOOSE,
                );
                self.wire("changed", bits, format!("{} + {more}", sums[at]), timing::carry(bits))
            });
        }
        sums
    }
}
