//! Entries of tables on a way: asked for once, changed in place, written at the end.

use super::*;

impl<'a> Walk<'a, '_, '_> {
    /// The signals of a table's entry under a key: there, value. Asks for it if nobody has yet.
    pub(super) fn entry(&mut self, table: TableId, key: ValueId) -> Result<(String, String), NoPipe> {
        let at = table.as_u32() as usize;
        let form = &self.dag.tables[at];
        if form.kind == TableKind::Ternary {
            return self.no(&format!(
                "table `{}` of kind {} is searched in many cycles",
                form.name,
                form.kind.name()
            ));
        }
        if form.bytes.is_some() {
            return self.no("byte strings in tables");
        }
        let signals = form.signals.clone();
        let text = self.low.bytes_of(key);
        let message = usize::from(self.message);
        let access = &mut self.dag.access[at];
        if !access.written {
            let number = match access.lookups.iter().position(|known| *known == text) {
                Some(number) => number,
                None => {
                    access.lookups.push(text);
                    access.lookups.len() - 1
                }
            };
            return Ok((mark(&format!("{signals}_hit{number}")), mark(&format!("{signals}_value{number}"))));
        }
        match &access.keys[message] {
            None => access.keys[message] = Some(text),
            Some(known) if *known == text => {}
            Some(_) => {
                return self
                    .no(&format!("two keys of table `{}`, which is changed", self.dag.tables[at].name));
            }
        }
        let slot = self.slots[at].clone().unwrap_or_else(|| self.untouched(at));
        self.slots[at] = Some(slot.clone());
        Ok((slot.hit, slot.value))
    }

    /// An entry as the table has it.
    pub(super) fn untouched(&self, at: usize) -> Slot {
        let signals = &self.dag.tables[at].signals;
        Slot {
            hit: mark(&format!("{signals}_hit")),
            value: mark(&format!("{signals}_value")),
            changed: None,
            deletes: false,
        }
    }

    /// Replaces the entry: it is there if `hit`, and different if `changed`.
    pub(super) fn replace(&mut self, table: TableId, hit: String, value: Option<String>, changed: String) {
        let at = table.as_u32() as usize;
        let old = self.slots[at].clone().unwrap_or_else(|| self.untouched(at));
        let width = self.dag.tables[at].value_bits;
        let deletes = old.deletes || value.is_none();
        let value = match value {
            Some(value) => self.wire("entry", width, value, 0),
            None => old.value,
        };
        let changed = match old.changed {
            Some(before) => self.wire("changed", 1, format!("{before} || {changed}"), timing::CHOOSE),
            None => changed,
        };
        self.slots[at] = Some(Slot { hit, value, changed: Some(changed), deletes });
    }

    pub(super) fn table_op(&mut self, id: InstId, way: &Way) -> Result<(), NoPipe> {
        let inst = &self.body.insts[id];
        match &inst.op {
            Op::Lookup { table, key } => {
                let (hit, value) = self.entry(*table, *key)?;
                let ty = self.low.ty(inst.results[1]);
                let width = self.dag.bits.width(ty);
                self.result(inst.results[0], hit.clone(), 0);
                let low = self.wire("entry", self.dag.tables[table.as_u32() as usize].value_bits, value, 0);
                let value = self.low.of_bytes(ty, &low);
                // In tables an entry that is not there is zero.
                let at = table.as_u32() as usize;
                let fresh = self.slots[at].as_ref().is_none_or(|slot| slot.changed.is_none());
                let (value, delay) = match fresh {
                    true => (value, 0),
                    false => (format!("{hit} ? {value} : {}", number(width, 0)), timing::CHOOSE),
                };
                self.result(inst.results[1], value, delay);
            }
            Op::Contains { table, key } => {
                let (hit, _) = self.entry(*table, *key)?;
                self.result(inst.results[0], hit, 0);
            }
            Op::Update { table, key, value } => {
                let (hit, _) = self.entry(*table, *key)?;
                let signals = self.dag.tables[table.as_u32() as usize].signals.clone();
                let room = mark(&format!("{signals}_room"));
                let ok = self.wire("ok", 1, format!("{hit} || {room}"), timing::CHOOSE);
                self.result(inst.results[0], ok.clone(), 0);
                let no = self.and(way, &format!("!{ok}"));
                self.dag.access[table.as_u32() as usize].refused.extend(no);
                let bytes = self.low.bytes_of(*value);
                self.replace(*table, ok.clone(), Some(bytes), ok);
            }
            Op::Delete { table, key } => {
                let (hit, _) = self.entry(*table, *key)?;
                self.result(inst.results[0], hit.clone(), 0);
                if self.dag.tables[table.as_u32() as usize].kind == TableKind::Array {
                    let width = self.dag.tables[table.as_u32() as usize].value_bits;
                    self.replace(*table, hit.clone(), Some(number(width, 0)), hit);
                } else {
                    self.replace(*table, "1'b0".to_string(), None, hit);
                }
            }
            Op::Commute { op, table, key, path, amount } => {
                let (hit, value) = self.entry(*table, *key)?;
                let form = self.dag.tables[table.as_u32() as usize].clone();
                let def = self.dag.program.tables[*table].value;
                let Some(part) = self.dag.bits.locate(def, path, |v| self.low.constant(v)) else {
                    return Ok(());
                };
                let (width, signed) = (self.low.width(*amount), self.low.ty(*amount).is_signed());
                if part.bits != width || !part.indices.is_empty() {
                    return self.no("a commutative update of a bit-field");
                }
                let entry = format!("{hit} ? {value} : {}", number(form.value_bits, 0));
                let entry = self.wire("entry", form.value_bits, entry, timing::CHOOSE);
                let old = self.wire("old", width, format!("{entry}[{}:{}]", part.at + width - 1, part.at), 0);
                let amount = self.low.operand(*amount);
                let less = |a: &str, b: &str| {
                    if signed { format!("$signed({a}) < $signed({b})") } else { format!("{a} < {b}") }
                };
                let new = match op {
                    CommuteOp::Add => format!("{old} + {amount}"),
                    CommuteOp::Or => format!("{old} | {amount}"),
                    CommuteOp::Min => format!("{} ? {amount} : {old}", less(&amount, &old)),
                    CommuteOp::Max => format!("{} ? {amount} : {old}", less(&old, &amount)),
                };
                let new = self.wire("new", width, new, timing::carry(width));
                let mut pieces = Vec::new();
                if part.at + width < form.value_bits {
                    pieces.push(format!("{entry}[{}:{}]", form.value_bits - 1, part.at + width));
                }
                pieces.push(new);
                if part.at > 0 {
                    pieces.push(format!("{entry}[{}:0]", part.at - 1));
                }
                let room = mark(&format!("{}_room", form.signals));
                let ok = self.wire("ok", 1, format!("{hit} || {room}"), timing::CHOOSE);
                let no = self.and(way, &format!("!{ok}"));
                self.dag.access[table.as_u32() as usize].refused.extend(no);
                self.replace(*table, ok.clone(), Some(format!("{{{}}}", pieces.join(", "))), ok);
            }
            _ => {}
        }
        Ok(())
    }
}
