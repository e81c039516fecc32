//! Bytes that a packet reads of a string behind those that it has appended itself: they are not in
//! memory before it has left, so what it appended is put in beside what memory says. What it
//! appended under another key counts if that key is the same one. Nobody needs to know what became
//! of the entry in between: of a string that was emptied only bytes can be read that were appended
//! since, and these lie over those before.

use super::super::exclusive::exclude;
use super::*;

/// Bytes that a packet has appended to a string.
#[derive(Clone)]
pub struct Own {
    /// Number of the table, and of the entry's key.
    pub table: usize,
    pub key: usize,
    /// The condition of it, and what is known then.
    pub when: String,
    pub given: Given,
    /// How many bytes the string had before, 16 bits.
    pub length: String,
    pub bytes: OwnBytes,
}

/// Bytes that were appended: a value of so many, or the packet's from the cursor on.
#[derive(Clone)]
pub enum OwnBytes {
    Value(String, u32),
    Packet(Box<Packet>),
}

impl Walk<'_, '_, '_> {
    /// `size` bytes from `off` of a string on, as memory has them, with those that the packet has
    /// appended on its way here; `off` has 16 bits.
    pub(super) fn with_own(
        &mut self,
        way: &Way,
        (table, key): (usize, usize),
        off: &str,
        (mut found, size): (String, u32),
    ) -> Result<String, NoPipe> {
        let given = [self.given(way)];
        let here =
            |own: &&Own| own.table == table && !exclude(std::slice::from_ref(&own.given), &given);
        let list: Vec<Own> = self.appended.iter().filter(here).cloned().collect();
        if list.is_empty() {
            return Ok(found);
        }
        let end = format!("{{1'b0, {off}}} + {}", number(17, u64::from(size)));
        let end = self.wire("behind", 17, end, timing::carry(17));
        for own in list {
            let when = self.when_same(&own, key);
            let behind = format!("{end} - {{1'b0, {}}}", own.length);
            let behind = self.wire("behind", 17, behind, timing::carry(17));
            found = match &own.bytes {
                OwnBytes::Value(value, count) => {
                    self.overlaid((value, *count), &behind, &when, (found, size))
                }
                OwnBytes::Packet(packet) => {
                    let place = format!("{} + {off} - {}", super::text(&packet.cursor), own.length);
                    let place = self.wire("place", 16, place, 2 * timing::carry(16));
                    let bytes = self.far_bytes(way, packet, &place, 0, size);
                    self.last_bytes((&bytes, &when), &behind, (found, size))
                }
            };
        }
        Ok(found)
    }

    /// The condition of it, and that it was done under this key too.
    fn when_same(&mut self, own: &Own, key: usize) -> String {
        let keys = &self.dag.access[own.table].keys;
        let [before, here] = [own.key, key].map(|key| keys[key].text.clone());
        if before == here {
            return own.when.clone();
        }
        let bits = self.dag.tables[own.table].key_bits;
        let same = self.wire("same", 1, format!("{before} == {here}"), timing::tree(2 * bits));
        self.wire("here", 1, format!("{} && {same}", own.when), timing::CHOOSE)
    }

    /// So many bytes that were found, of which the last `behind` ones are others, if a condition
    /// holds; 17 bits with sign.
    fn last_bytes(
        &mut self,
        (others, when): (&str, &str),
        behind: &str,
        (found, size): (String, u32),
    ) -> String {
        let ones = format!("{{{size}{{1'b1}}}}");
        let mask = format!("{behind}[16] || !{when} ? {} : ~({ones} >> {behind})", number(size, 0));
        let mask = self.wire("meets", size, mask, timing::mux(size) + timing::CHOOSE);
        let keep: Vec<String> =
            (0..size).rev().map(|at| format!("{{8{{{mask}[{at}]}}}}")).collect();
        let keep = self.wire("keep", 8 * size, format!("{{{}}}", keep.join(", ")), 0);
        let bytes = format!("({found} & ~{keep}) | ({others} & {keep})");
        self.wire("bytes", 8 * size, bytes, timing::CHOOSE)
    }
}
