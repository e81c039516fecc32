//! Searches through a table: its entries one behind the other.

use nicforge_ir::Proj;

use super::*;

impl Engine<'_, '_> {
    /// The entry whose integer at `path` is least; of equal ones that whose key comes first.
    pub(super) fn least(&mut self, inst: &Inst, table: TableId, path: &[Proj]) {
        let form = self.tables[table.as_u32() as usize].clone();
        let s = &form.signals;
        let value_type = self.program.tables[table].value;
        // Behind the end of an array all numbers are alike.
        let part = self.bits.locate(value_type, path, |v| self.low.constant(v));
        let wide =
            [("found", 1), ("key", form.key_bits), ("least", form.value_bits), ("place", 32)];
        let [found, key, value, place] = wide.map(|(name, width)| {
            let name = self.low.fresh(name);
            self.states.register(&name, width);
            name
        });
        // Whatever is found is better than nothing.
        let begin =
            [(&found, 1), (&place, 32)].map(|(name, width)| (name.clone(), number(width, 0)));
        let zero = [(&key, form.key_bits), (&value, form.value_bits)];
        let zero = zero.map(|(name, width)| (name.clone(), number(width, 0)));
        let (next, done) = (self.states.reserve(), self.states.reserve());
        self.states.end(vec![Arm { when: None, to: next, writes: [begin, zero].concat() }]);

        self.states.enter(next);
        let [there, other_key, other, at] =
            ["there", "other_key", "other", "at"].map(|name| self.low.fresh(name));
        let results = vec![
            (there.clone(), 1, format!("{s}_ok")),
            (other_key.clone(), form.key_bits, format!("{s}_r_key")),
            (other.clone(), form.value_bits, format!("{s}_r_value[{}:0]", form.value_bits - 1)),
            (at.clone(), 32, format!("{s}_r_index")),
        ];
        self.table(table, op::NEXT, None, vec![("index", mark(&place))], results);
        // Keys are compared byte by byte, the first byte first.
        let width = part.as_ref().map_or(0, |part| part.bits) + form.key_bits;
        let [best, new] = [(&value, &key), (&other, &other_key)].map(|(value, key)| {
            let (value, key) = (mark(value), mark(key));
            let number = part.as_ref().map(|part| {
                let top = part.at + part.bits - 1;
                match part.ty.is_signed() {
                    true if part.bits == 1 => format!("~{value}[{top}]"),
                    true => format!("~{value}[{top}], {value}[{}:{}]", top - 1, part.at),
                    false => format!("{value}[{top}:{}]", part.at),
                }
            });
            let bytes =
                (0..form.key_bits / 8).map(|byte| format!("{key}[{}:{}]", 8 * byte + 7, 8 * byte));
            let parts: Vec<String> = number.into_iter().chain(bytes).collect();
            self.wire("order", width, format!("{{{}}}", parts.join(", ")), 0)
        });
        let less = format!("!{} || {new} < {best}", mark(&found));
        let less = self.wire("less", 1, less, timing::cmp(CmpOp::Lt, width));
        let there = mark(&there);
        let on = (place.clone(), format!("{} + {}", mark(&at), number(32, 1)));
        let taken = vec![
            (found.clone(), "1'b1".to_string()),
            (key.clone(), mark(&other_key)),
            (value.clone(), mark(&other)),
            on.clone(),
        ];
        self.states.loops.push((next, self.states.now, form.capacity));
        self.states.end(vec![
            Arm { when: Some(format!("{there} && {less}")), to: next, writes: taken },
            Arm { when: Some(there), to: next, writes: vec![on] },
            Arm { when: None, to: done, writes: Vec::new() },
        ]);

        self.states.enter(done);
        self.result(inst.results[0], mark(&found), 0);
        for (result, name) in inst.results[1..].iter().zip([key, value]) {
            let ty = self.low.ty(*result);
            let text = self.low.of_bytes(ty, &mark(&name));
            self.result(*result, text, 0);
        }
    }
}
