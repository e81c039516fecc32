//! Byte strings of entries: how long one is stands above the entry's value, and is changed with it;
//! its bytes lie in a memory of their own, at the number of the entry's place in the table, which
//! of arrays is the key.
//!
//! The pipe only says which bytes go where. The deparser moves them, 64 a cycle, from the packet
//! buffer into that memory and from there out, in the order of packets. So what a packet appends is
//! there when a later one gives it out, and no packet waits for another's bytes. Bytes that the
//! pipe itself reads come from a copy of that memory. They may still be on their way: who may read
//! them waits in the gate for those that may have appended under the same key (`gate`).

use super::beside::STORED_BITS;
use super::edits::{Count, Leaving};
use super::reread::{Own, OwnBytes};
use super::*;
use nicforge_ir::BufSource;

/// Bits of a length, above the value.
pub const LENGTH_BITS: u32 = 32;
/// Bits of lengths that are computed with: no string is longer.
const COUNT_BITS: u32 = 16;

/// Bytes that the deparser moves between a packet and a string.
#[derive(Clone, Debug)]
pub struct Moved {
    /// From the packet into the string; else the string leaves.
    pub into: bool,
    /// Number of the strings' memory.
    pub memory: u64,
    /// The string's line, or the one in which the next byte goes; 20 bits.
    pub line: String,
}

impl Walk<'_, '_, '_> {
    /// The length of an entry's string, all bits; zero if it is not there.
    fn length_of(&mut self, table: TableId, hit: &str, value: &str) -> String {
        let width = self.dag.tables[table.as_u32() as usize].value_bits;
        let length = format!("{value}[{}:{}]", width - 1, width - LENGTH_BITS);
        let length = self.wire("string", LENGTH_BITS, length, 0);
        self.wire(
            "string",
            LENGTH_BITS,
            format!("{hit} ? {length} : {}", number(LENGTH_BITS, 0)),
            timing::CHOOSE,
        )
    }

    /// The entry's value without the length.
    pub(super) fn value_of(&mut self, table: TableId, value: &str) -> String {
        let form = &self.dag.tables[table.as_u32() as usize];
        let (width, strings) = (form.value_bits, form.bytes.is_some());
        let entry = self.whole(table, value);
        if !strings {
            return entry;
        }
        let width = width - LENGTH_BITS;
        self.wire("entry", width, format!("{entry}[{}:0]", width - 1), 0)
    }

    /// A new value of an entry, whose string stays.
    pub(super) fn with_string(
        &mut self,
        table: TableId,
        bytes: String,
        hit: &str,
        old: &str,
    ) -> String {
        if self.dag.tables[table.as_u32() as usize].bytes.is_none() {
            return bytes;
        }
        let entry = self.whole(table, old);
        let length = self.length_of(table, hit, &entry);
        format!("{{{length}, {bytes}}}")
    }

    fn whole(&mut self, table: TableId, value: &str) -> String {
        let width = self.dag.tables[table.as_u32() as usize].value_bits;
        self.wire("entry", width, value.to_string(), 0)
    }

    /// Changes an entry. Where it was changed on the way here already, that change becomes this
    /// one: it is written if it was to be written anyway, which is known earlier than what this
    /// condition adds.
    fn change_string(
        &mut self,
        (table, key): (TableId, usize),
        when: String,
        hit: String,
        value: String,
    ) {
        let at = table.as_u32() as usize;
        let width = self.dag.tables[at].value_bits;
        let last = self.slots.entries.get(&(at, key)).and_then(|slot| slot.changes.last().copied());
        let before = last.map(|last| (last, self.dag.access[at].changes[last].clone()));
        let Some((last, Change { when: first, value: Some(old), unless, .. })) = before else {
            return self.change((table, key), when, hit, Some(value));
        };
        let Some(added) = self.beyond(&when, &first).filter(|_| unless.is_empty()) else {
            return self.change((table, key), when, hit, Some(value));
        };
        let value = self.wire("entry", width, value, 0);
        let mut chosen = value.clone();
        if !added.is_empty() {
            let added = self.wire("added", 1, gate("&", &added), timing::tree(added.len() as u32));
            chosen =
                self.wire("entry", width, format!("{added} ? {value} : {old}"), timing::CHOOSE);
        }
        self.dag.access[at].changes[last].value = Some(chosen);
        if let Some(slot) = self.slots.entries.get_mut(&(at, key)) {
            (slot.hit, slot.value) = (hit, value);
        }
    }

    /// What has to hold besides `first` for `way` to be taken, which is behind it; none if it may
    /// not be.
    fn beyond(&self, way: &str, first: &str) -> Option<Vec<String>> {
        let all =
            |way: &str| self.conditions.get(way).cloned().unwrap_or_else(|| vec![way.to_string()]);
        let (mine, first) = (all(way), all(first));
        let known: Vec<String> = mine.iter().map(|atom| self.plain(atom)).collect();
        let first: Vec<String> = first.iter().map(|atom| self.plain(atom)).collect();
        first.iter().all(|atom| known.contains(atom)).then(|| {
            let added = mine.iter().zip(&known).filter(|(_, plain)| !first.contains(plain));
            added.map(|(atom, _)| atom.clone()).collect()
        })
    }

    /// A condition by the signal it is another name of, or the opposite of.
    fn plain(&self, atom: &str) -> String {
        let mut atom = atom.to_string();
        loop {
            let (holds, name) = match atom.strip_prefix('!') {
                Some(name) => (false, name),
                None => (true, atom.as_str()),
            };
            let Some(wire) = self.dag.wires.iter().rev().find(|wire| mark(&wire.name) == name)
            else {
                return atom;
            };
            let (same, inner) = match wire.value.strip_prefix('~') {
                Some(inner) => (false, inner),
                None => (true, wire.value.as_str()),
            };
            let is_name = inner.strip_prefix('‹').and_then(|rest| rest.strip_suffix('›'));
            if wire.width != 1 || is_name.is_none_or(|name| name.contains('‹')) {
                return atom;
            }
            atom = if holds == same { inner.to_string() } else { format!("!{inner}") };
        }
    }

    pub(super) fn string_op(&mut self, id: InstId, way: &Way) -> Result<(), NoPipe> {
        let inst = &self.body.insts[id];
        let Some((table, key)) = inst.op.entry() else { return Ok(()) };
        self.settle();
        let at = table.as_u32() as usize;
        let text = self.low.bytes_of(key);
        let (key, hit, value) = self.entry(table, key, way)?;
        self.used(table, key, way);
        let form = self.dag.tables[at].clone();
        let Some(store) = &form.bytes else { return Ok(()) };
        let entry = self.whole(table, &value);
        let length = self.length_of(table, &hit, &entry);
        let value_bits = form.value_bits - LENGTH_BITS;
        let with = |length: &str| format!("{{{length}, {entry}[{}:0]}}", value_bits - 1);
        let emptied = with(&number(LENGTH_BITS, 0));
        let when = |walk: &mut Self, condition: &str| {
            walk.and(way, condition).unwrap_or_else(|| condition.to_string())
        };
        let access = &self.dag.access[at];
        let shown = |field: &str| match access
            .lookups
            .iter()
            .position(|known| !access.written && *known == text)
        {
            Some(number) => mark(&format!("{}_{field}{number}", form.signals)),
            None => mark(&under(&form.signals, field, key)),
        };
        let place = match form.pipe_hashes() {
            true => shown("place"),
            // A number is a place, but known as late as the entry, when bytes that were waited for
            // in the gate are in memory.
            false => {
                self.wire("place", 32, format!("{} ? {text} : 32'h0", shown("hit")), timing::CHOOSE)
            }
        };
        let line = format!("20'({place} * {})", number(32, u64::from(store.lines)));
        match &inst.op {
            Op::BufLen { .. } => self.result(inst.results[0], length, 0),
            Op::BufRead { off, .. } => {
                let given = self.given(way);
                self.dag.access[at].read.push((key, given));
                let line = self.wire("line", 20, line, 1500);
                let results = [inst.results[0], inst.results[1]];
                self.string_read(way, (at, key), (&hit, &length, &line), *off, results)?;
            }
            Op::BufClear { .. } => {
                let when = when(self, &hit);
                self.change_string((table, key), when, hit, emptied);
            }
            Op::BufGenerate { event, port, .. } => {
                self.result(inst.results[0], hit.clone(), 0);
                let when = when(self, &hit);
                let (kind, port) = match (self.dag.program.events[*event].name.as_str(), port) {
                    ("net_send", Some(port)) => (kind::SEND, self.low.u32(*port)),
                    _ => (kind::HOST_PACKET, number(32, 0)),
                };
                let line = self.wire("line", 20, line, 1500);
                self.dag.exits.push(Exit {
                    when: Some(when.clone()),
                    given: self.given(&Some(when.clone())),
                    kind,
                    stays: false,
                    number: port,
                    addr: None,
                    moved: Some(Moved { into: false, memory: store.memory, line }),
                    header: Vec::new(),
                    hlen: number(16, 0),
                    from: number(16, 0),
                    end: format!("{length}[{}:0]", COUNT_BITS - 1),
                    patches: Vec::new(),
                    cursor: None,
                    emitted: 0,
                });
                self.change_string((table, key), when, hit, emptied);
            }
            Op::BufAppend { source, .. } => {
                let Appended { count, header, bytes, from, end, patches } = self.appended(source);
                // By what there is room for, which is known before the length is.
                let most = format!("{} - {{1'b0, {count}}}", number(17, u64::from(store.capacity)));
                let most = self.wire("room_for", 17, most, timing::carry(17));
                let fits = format!(
                    "{hit} && !{most}[16] && {{1'b0, {length}[{}:0]}} <= {most}",
                    COUNT_BITS - 1
                );
                let ok = self.wire("fits", 1, fits, timing::carry(9) + timing::CHOOSE);
                self.result(inst.results[0], ok.clone(), 0);
                let when = when(self, &ok);
                let line = format!("{line} + {{10'h0, {length}[{}:6]}}", COUNT_BITS - 1);
                // Bytes of the last line that are there already are in front of the header.
                let in_line = format!("{{10'h0, {length}[5:0]}}");
                let (header, hlen) = match header {
                    None => (Vec::new(), in_line),
                    Some((header, most)) => {
                        let wide = Lower::resize(&header, 8 * most, 8 * (most + 63));
                        let moved = format!("{wide} << {{{length}[5:0], 3'b000}}");
                        let moved = self.wire("appended", 8 * (most + 63), moved, timing::mux(64));
                        let hlen = format!("{in_line} + {}", bytes.behind(self, 0));
                        (vec![(moved, most + 63)], self.wire("hlen", 16, hlen, timing::carry(16)))
                    }
                };
                let line = self.wire("line", 20, line, 2300);
                let given = self.given(&Some(when.clone()));
                self.dag.access[at].stored.push((key, given.clone()));
                let own = match source {
                    BufSource::Packet { .. } => OwnBytes::Packet(Box::new(self.packet())),
                    BufSource::Value(value) => OwnBytes::Value(
                        self.low.bytes_of(*value),
                        self.dag.bits.bytes(self.low.ty(*value)),
                    ),
                };
                let filled =
                    self.wire("filled", COUNT_BITS, format!("{length}[{}:0]", COUNT_BITS - 1), 0);
                self.appended.push(Own {
                    table: at,
                    key,
                    when: when.clone(),
                    given,
                    length: filled,
                    bytes: own,
                });
                self.dag.exits.push(Exit {
                    when: Some(when.clone()),
                    given: self.given(&Some(when.clone())),
                    kind: kind::STORE,
                    stays: false,
                    number: format!("{{26'h0, {length}[5:0]}}"),
                    addr: None,
                    moved: Some(Moved { into: true, memory: store.memory, line }),
                    header,
                    hlen,
                    from,
                    end,
                    patches,
                    cursor: None,
                    emitted: 0,
                });
                let total = format!("{length}[{0}:0] + {count}", COUNT_BITS - 1);
                let total = self.wire("string", COUNT_BITS, total, timing::carry(COUNT_BITS));
                let longer = with(&format!("{}, {total}", number(LENGTH_BITS - COUNT_BITS, 0)));
                // Later ops look at it whether there was room or not.
                let now = format!("{ok} ? {longer} : {entry}");
                let now = self.wire("entry", form.value_bits, now, timing::CHOOSE);
                self.change_string((table, key), when, hit, now);
            }
            _ => {}
        }
        Ok(())
    }

    /// A value at `off` of a string, of which are known: whether it is there, its length, and its
    /// line in the memory.
    fn string_read(
        &mut self,
        way: &Way,
        (table, key): (usize, usize),
        (hit, length, line): (&str, &str, &str),
        off: ValueId,
        [ok, value]: [ValueId; 2],
    ) -> Result<(), NoPipe> {
        let ty = self.low.ty(value);
        let (size, width) = (self.dag.bits.bytes(ty), self.dag.bits.width(ty));
        // No string has a byte that far away.
        let (base, plus) = match self.low.constant(off) {
            Some(off) if off < 1 << COUNT_BITS => (None, off as u32),
            Some(_) => (None, 1 << COUNT_BITS),
            None => {
                let (base, plus) = self.apart(off);
                (Some(base), plus)
            }
        };
        let (end, delay) = match base {
            None => (number(33, u64::from(plus + size)), 0),
            Some(base) => {
                let base = self.low.u32(base);
                (
                    format!("{{1'b0, {base}}} + {}", number(33, u64::from(plus + size))),
                    timing::carry(32),
                )
            }
        };
        let end = self.wire("end", 33, end, delay);
        let fits = format!("{hit} && {end} <= {{1'b0, {length}}}");
        let fits = self.wire("fits", 1, fits, timing::carry(17) + timing::CHOOSE);
        let place = match base {
            None => format!("{{{line}, 6'd0}}"),
            Some(base) => format!("{{{line}, 6'd0}} + {STORED_BITS}'({})", self.low.u32(base)),
        };
        let delay = if base.is_some() { timing::carry(STORED_BITS) } else { 0 };
        let place = self.wire("place", STORED_BITS, place, delay);
        let memory = self.dag.tables[table].bytes.as_ref().map_or(0, |store| store.memory);
        let bytes = self.stored_bytes(way, memory, (&place, plus), size);
        let from = match base {
            None => number(COUNT_BITS, u64::from(plus & 0xffff)),
            Some(base) => {
                let base = self.low.u32(base);
                let more = number(COUNT_BITS, u64::from(plus & 0xffff));
                self.wire(
                    "off",
                    COUNT_BITS,
                    format!("{COUNT_BITS}'({base}) + {more}"),
                    timing::carry(COUNT_BITS),
                )
            }
        };
        let bytes = self.with_own(way, (table, key), &from, (bytes, size))?;
        let read = self.low.of_bytes(ty, &bytes);
        self.result(ok, fits.clone(), 0);
        self.result(value, format!("{fits} ? {read} : {}", number(width, 0)), timing::CHOOSE);
        Ok(())
    }

    /// Bytes that are appended: up to so many behind the cursor, or a value.
    fn appended(&mut self, source: &BufSource) -> Appended {
        match source {
            BufSource::Packet { len, .. } => {
                let mut packet = self.packet();
                (_, packet.end) = self.prefix_end(&packet, *len);
                packet.has = 0;
                let end = packet.end.clone();
                let from = super::text(&packet.cursor);
                let count =
                    self.wire("count", COUNT_BITS, format!("{end} - {from}"), timing::carry(16));
                let Leaving { part, count: bytes, from } = self.leaving(&packet);
                Appended { count, header: part, bytes, from, end, patches: packet.patches() }
            }
            BufSource::Value(value) => {
                let size = self.dag.bits.bytes(self.low.ty(*value));
                let header = self.low.bytes_of(*value);
                let header = self.wire("value", 8 * size, header, 0);
                let [count, none] = [size, 0].map(|count| number(16, u64::from(count)));
                let bytes = Count::Known(size);
                let header = Some((header, size));
                Appended {
                    count,
                    header,
                    bytes,
                    from: none.clone(),
                    end: none,
                    patches: Vec::new(),
                }
            }
        }
    }
}

/// Bytes that are appended to a string.
struct Appended {
    /// How many there are, 16 bits.
    count: String,
    /// Those that do not come from the packet buffer, and how many of them count.
    header: Option<(String, u32)>,
    bytes: Count,
    /// Where those of the packet buffer begin and end.
    from: String,
    end: String,
    patches: Vec<Patch>,
}
