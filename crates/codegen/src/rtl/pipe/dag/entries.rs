//! Entries of tables on a way: asked for once, changed in place, written at the end.

use super::super::super::limits::{MOST_COMPARED, MOST_ROWS};
use super::super::exclusive::exclude;
use super::range::meet;
use super::*;

impl<'a> Walk<'a, '_, '_> {
    /// The entry of a table under a key: the key's number, and signals that say whether it is there
    /// and what it is. Asks for it if nobody has yet.
    pub(super) fn entry(
        &mut self,
        table: TableId,
        key: ValueId,
        way: &Way,
    ) -> Result<(usize, String, String), NoPipe> {
        let at = table.as_u32() as usize;
        let form = &self.dag.tables[at];
        let signals = form.signals.clone();
        let text = self.low.bytes_of(key);
        let access = &mut self.dag.access[at];
        if !access.written {
            let number = match access.lookups.iter().position(|known| *known == text) {
                Some(number) => number,
                None => {
                    access.lookups.push(text);
                    access.lookups.len() - 1
                }
            };
            let (rows, keys) = (form.capacity, number as u64 + 1);
            let compared = keys * form.compared_bits();
            if compared > MOST_COMPARED || (rows > MOST_ROWS && form.kind == TableKind::Ternary) {
                return self.no(&format!(
                    "table `{}` of kind {} has {rows} rows, which a pipe compares with {keys} key(s) at once, in {compared} flip-flops; \
                     {MOST_ROWS} rows and {MOST_COMPARED} flip-flops at most",
                    form.name,
                    form.kind.name()
                ));
            }
            let [hit, value] =
                ["hit", "value"].map(|field| mark(&format!("{signals}_{field}{number}")));
            return Ok((0, hit, value));
        }
        let given = self.given(way);
        let span = self.span;
        let array = self.dag.tables[at].kind == TableKind::Array;
        let range = if array { self.range(key) } else { (0, u64::MAX) };
        let in_turn = self.dag.in_turn.contains(&at);
        let of_table = self.slots.entries.range((at, 0)..(at + 1, 0));
        // In turn, a way asks for no key again once it has asked for one behind it.
        let least = of_table.map(|((_, key), _)| *key).max().filter(|_| in_turn).unwrap_or(0);
        let access = &mut self.dag.access[at];
        let known =
            access.keys.iter().enumerate().skip(least).find(|(_, known)| known.text == text);
        let key = match known.map(|(key, _)| key) {
            Some(key) => key,
            None => {
                access.keys.push(Key { text, given: Vec::new(), range, span });
                access.keys.len() - 1
            }
        };
        let places = &mut access.keys[key].given;
        if !places.iter().any(|known| known.is_subset(&given)) {
            places.push(given);
        }
        let keys = &access.keys;
        let same = |other: usize| other != key && meet(keys[other].range, keys[key].range);
        let others =
            self.slots.entries.range((at, 0)..(at + 1, 0)).filter(|((_, other), _)| same(*other));
        if !in_turn && others.into_iter().any(|(_, slot)| !slot.changes.is_empty()) {
            let form = &self.dag.tables[at];
            let reason = format!(
                "an entry of table `{}` is asked for after another one may have changed",
                form.name
            );
            self.dag.again = Some(at);
            return self.no(&reason);
        }
        let slot =
            self.slots.entries.get(&(at, key)).cloned().unwrap_or_else(|| self.untouched(at, key));
        self.slots.entries.insert((at, key), slot.clone());
        Ok((key, slot.hit, slot.value))
    }

    /// An entry as the table has it.
    pub(super) fn untouched(&self, at: usize, key: usize) -> Slot {
        let signals = &self.dag.tables[at].signals;
        let [hit, value] = ["hit", "value"].map(|field| mark(&under(signals, field, key)));
        Slot { hit, value, changes: Vec::new() }
    }

    /// Under the condition `when` the entry gets a value, or goes (none); behind that it is there
    /// if `hit`.
    pub(super) fn change(
        &mut self,
        (table, key): (TableId, usize),
        when: String,
        hit: String,
        value: Option<String>,
    ) {
        let at = table.as_u32() as usize;
        let mut slot =
            self.slots.entries.get(&(at, key)).cloned().unwrap_or_else(|| self.untouched(at, key));
        slot.hit = hit;
        let width = self.dag.tables[at].value_bits;
        let value = value.map(|value| self.wire("entry", width, value, 0));
        if let Some(value) = &value {
            slot.value.clone_from(value);
        }
        let given = self.given(&Some(when.clone()));
        let changes = &mut self.dag.access[at].changes;
        for before in &slot.changes {
            changes[*before].unless.push(when.clone());
        }
        slot.changes.push(changes.len());
        changes.push(Change { key, when, unless: Vec::new(), value, given });
        self.slots.entries.insert((at, key), slot);
    }

    /// The entry under a key that is there or may be made: whether it can be, and the condition of
    /// doing so, refusals noted.
    fn room(&mut self, table: TableId, key: usize, hit: &str, way: &Way) -> (String, String) {
        let at = table.as_u32() as usize;
        let room = mark(&under(&self.dag.tables[at].signals, "room", key));
        let hashed = self.dag.in_turn.contains(&at) && self.dag.tables[at].kind == TableKind::Hash;
        // What was refused on other ways does not count, and may not be known yet.
        let here = [self.given(way)];
        let refused = self.dag.access[at].refused.iter();
        let together = refused.filter(|(_, given)| !exclude(std::slice::from_ref(given), &here));
        let before: Vec<String> = together.map(|(condition, _)| condition.clone()).collect();
        let room = match hashed && !before.is_empty() {
            true => {
                let before =
                    self.wire("refused", 1, gate("|", &before), timing::tree(before.len() as u32));
                self.wire("room", 1, format!("{room} && !{before}"), timing::CHOOSE)
            }
            false => room,
        };
        let ok = self.wire("ok", 1, format!("{hit} || {room}"), timing::CHOOSE);
        let no = self.and(way, &format!("!{ok}"));
        let given = self.given(&no);
        self.dag.access[at].refused.extend(no.map(|no| (no, given)));
        let when = self.and(way, &ok).unwrap_or_else(|| ok.clone());
        if hashed {
            let inserted = self.and(&Some(when.clone()), &format!("!{hit}"));
            self.dag.access[at].inserted.extend(inserted);
        }
        (ok, when)
    }

    /// Notes that an entry is used, if it is there.
    pub(super) fn used(&mut self, table: TableId, key: usize, way: &Way) {
        let at = table.as_u32() as usize;
        if self.dag.tables[at].kind == TableKind::Lru {
            let way = way.clone().unwrap_or_else(|| "1'b1".to_string());
            let used = (key, way);
            if !self.dag.access[at].uses.contains(&used) {
                self.dag.access[at].uses.push(used);
            }
        }
    }

    pub(super) fn table_op(&mut self, id: InstId, way: &Way) -> Result<(), NoPipe> {
        let inst = &self.body.insts[id];
        if let Some(table) = inst.op.effects().table_write
            && self.dag.program.tables[table].kind.is_filled_from_outside()
        {
            let name = &self.dag.program.tables[table].name;
            return self.no(&format!("it changes entries of `{name}`, which the host fills"));
        }
        match &inst.op {
            Op::Lookup { table, key } => {
                let at = table.as_u32() as usize;
                let (key, hit, value) = self.entry(*table, *key, way)?;
                self.used(*table, key, way);
                let ty = self.low.ty(inst.results[1]);
                let width = self.dag.bits.width(ty);
                self.result(inst.results[0], hit.clone(), 0);
                let low = self.value_of(*table, &value);
                let value = self.low.of_bytes(ty, &low);
                // In tables an entry that is not there is zero.
                let fresh =
                    self.slots.entries.get(&(at, key)).is_none_or(|slot| slot.changes.is_empty());
                let (value, delay) = match fresh {
                    true => (value, 0),
                    false => (format!("{hit} ? {value} : {}", number(width, 0)), timing::CHOOSE),
                };
                self.result(inst.results[1], value, delay);
            }
            Op::Contains { table, key } => {
                let (key, hit, _) = self.entry(*table, *key, way)?;
                self.used(*table, key, way);
                self.result(inst.results[0], hit, 0);
            }
            Op::Update { table, key, value } => {
                let (key, hit, old) = self.entry(*table, *key, way)?;
                let (ok, when) = self.room(*table, key, &hit, way);
                self.result(inst.results[0], ok.clone(), 0);
                let bytes = self.low.bytes_of(*value);
                let bytes = self.with_string(*table, bytes, &hit, &old);
                self.change((*table, key), when, ok, Some(bytes));
            }
            Op::Delete { table, key } => {
                let (key, hit, _) = self.entry(*table, *key, way)?;
                self.result(inst.results[0], hit.clone(), 0);
                let form = &self.dag.tables[table.as_u32() as usize];
                if form.kind == TableKind::Array {
                    let zero = number(form.value_bits, 0);
                    let when = self.and(way, &hit).unwrap_or_else(|| hit.clone());
                    self.change((*table, key), when, hit, Some(zero));
                } else {
                    let when = way.clone().unwrap_or_else(|| "1'b1".to_string());
                    self.change((*table, key), when, "1'b0".to_string(), None);
                }
            }
            Op::Commute { op, table, key, path, amount } => {
                let (key, hit, value) = self.entry(*table, *key, way)?;
                let form = self.dag.tables[table.as_u32() as usize].clone();
                let def = self.dag.program.tables[*table].value;
                let Some(part) = self.dag.bits.locate(def, path, |v| self.low.constant(v)) else {
                    return Ok(());
                };
                // Never a bit-field, as the verifier says; a member may have more bits than its
                // type.
                let (width, signed) = (self.low.width(*amount), self.low.ty(*amount).is_signed());
                let entry = format!("{hit} ? {value} : {}", number(form.value_bits, 0));
                let entry = self.wire("entry", form.value_bits, entry, timing::CHOOSE);
                let old = self.wire(
                    "old",
                    width,
                    format!("{entry}[{}:{}]", part.at + width - 1, part.at),
                    0,
                );
                let amount = self.low.operand(*amount);
                let less = |a: &str, b: &str| {
                    if signed {
                        format!("$signed({a}) < $signed({b})")
                    } else {
                        format!("{a} < {b}")
                    }
                };
                let new = match op {
                    CommuteOp::Add => format!("{old} + {amount}"),
                    CommuteOp::Or => format!("{old} | {amount}"),
                    CommuteOp::Min => format!("{} ? {amount} : {old}", less(&amount, &old)),
                    CommuteOp::Max => format!("{} ? {amount} : {old}", less(&old, &amount)),
                };
                let new = self.wire("new", width, new, timing::carry(width));
                let mut pieces = Vec::new();
                if part.at + part.bits < form.value_bits {
                    pieces.push(format!(
                        "{entry}[{}:{}]",
                        form.value_bits - 1,
                        part.at + part.bits
                    ));
                }
                pieces.push(Lower::resize(&new, width, part.bits));
                if part.at > 0 {
                    pieces.push(format!("{entry}[{}:0]", part.at - 1));
                }
                let (ok, when) = self.room(*table, key, &hit, way);
                self.change((*table, key), when, ok, Some(format!("{{{}}}", pieces.join(", "))));
            }
            op => {
                let word = op.row().word();
                return self.no(&format!("`{word}` asks a table otherwise than a pipe can"));
            }
        }
        Ok(())
    }
}
