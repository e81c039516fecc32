//! Ops on tables and on the byte strings of their entries.

use super::*;

impl<'a> Engine<'a, '_> {
    /// A wait for a table.
    pub(super) fn table(
        &mut self,
        table: TableId,
        op: u64,
        when: Option<String>,
        fields: Vec<(&str, String)>,
        results: Vec<(String, u32, String)>,
    ) {
        let signals = self.tables[table.as_u32() as usize].signals.clone();
        let named: Vec<(String, String)> = fields
            .into_iter()
            .map(|(field, value)| (format!("{signals}_{field}"), value))
            .collect();
        let (req, op_name) = (format!("{signals}_req"), format!("{signals}_op"));
        let mut outputs = vec![
            (req.as_str(), when.clone().unwrap_or("1'b1".to_string())),
            (op_name.as_str(), number(4, op)),
        ];
        outputs.extend(named.iter().map(|(name, value)| (name.as_str(), value.clone())));
        let done = format!("{signals}_done");
        let until = when.map_or(done.clone(), |when| format!("(!({when}) || {done})"));
        self.states.note(&format!("table {}", self.program.tables[table].name));
        self.states.wait(until, outputs, results);
    }

    /// Finds an entry: names of registers with `ok`, the whole entry and its number.
    pub(super) fn find(
        &mut self,
        table: TableId,
        how: u64,
        key: ValueId,
    ) -> (String, String, String) {
        let form = &self.tables[table.as_u32() as usize];
        let (signals, wide) = (form.signals.clone(), form.value_bits + form.extra_bits);
        let names = ["hit", "entry", "place"].map(|name| self.low.fresh(name));
        let [hit, entry, place] = names;
        let key = self.low.bytes_of(key);
        let results = vec![
            (hit.clone(), 1, format!("{signals}_ok")),
            (entry.clone(), wide, format!("{signals}_r_value")),
            (place.clone(), 32, format!("{signals}_r_index")),
        ];
        self.table(table, how, None, vec![("key", key)], results);
        (mark(&hit), mark(&entry), mark(&place))
    }

    pub(super) fn table_op(&mut self, inst: &Inst) {
        match &inst.op {
            Op::Lookup { table, key } | Op::LookupBits { table, key, .. } => {
                let form = &self.tables[table.as_u32() as usize];
                let (signals, whole) = (form.signals.clone(), form.key_bits);
                let mut fields = vec![("key", self.low.bytes_of(*key))];
                if let Op::LookupBits { bits, .. } = &inst.op {
                    // The table is told how many bits at the key's end do not count.
                    let bits = self.low.operand(*bits);
                    let (key, none) = (number(32, whole.into()), number(32, 0));
                    fields.push(("index", format!("{bits} < {key} ? {key} - {bits} : {none}")));
                }
                let ty = self.low.ty(inst.results[1]);
                let value = self.low.of_bytes(ty, &format!("{signals}_r_value"));
                let results = vec![
                    (self.low.name(inst.results[0]), 1, format!("{signals}_ok")),
                    (self.low.name(inst.results[1]), self.bits.width(ty), value),
                ];
                self.table(*table, op::FIND, None, fields, results);
            }
            Op::Contains { table, key } | Op::Delete { table, key } => {
                let signals = self.tables[table.as_u32() as usize].signals.clone();
                let how = if matches!(inst.op, Op::Delete { .. }) { op::DELETE } else { op::FIND };
                let key = self.low.bytes_of(*key);
                let results = vec![(self.low.name(inst.results[0]), 1, format!("{signals}_ok"))];
                self.table(*table, how, None, vec![("key", key)], results);
            }
            Op::Update { table, key, value } => {
                let form = self.tables[table.as_u32() as usize].clone();
                let key = self.low.bytes_of(*key);
                let bytes = self.low.bytes_of(*value);
                let value =
                    Lower::resize(&bytes, form.value_bits, form.value_bits + form.extra_bits);
                if form.kind.is_filled_from_outside() {
                    let signals = &form.signals;
                    let (ok, place) = (self.low.name(inst.results[0]), self.low.fresh("place"));
                    let results = vec![
                        (ok.clone(), 1, format!("{signals}_ok")),
                        (place.clone(), 32, format!("{signals}_r_index")),
                    ];
                    self.table(*table, op::FIND, None, vec![("key", key)], results);
                    let fields = vec![("value", value), ("index", mark(&place))];
                    self.table(*table, op::WRITE, Some(mark(&ok)), fields, Vec::new());
                    return;
                }
                let results =
                    vec![(self.low.name(inst.results[0]), 1, format!("{}_ok", form.signals))];
                self.table(*table, op::UPDATE, None, vec![("key", key), ("value", value)], results);
            }
            Op::Commute { .. } => self.commute(inst),
            _ => self.bytes_op(inst),
        }
    }

    pub(super) fn commute(&mut self, inst: &Inst) {
        let Op::Commute { op: how, table, key, path, amount } = &inst.op else { return };
        let form = self.tables[table.as_u32() as usize].clone();
        let ensure = if form.kind.is_filled_from_outside() { op::FIND } else { op::ENSURE };
        let (hit, entry, place) = self.find(*table, ensure, *key);
        let def = self.program.tables[*table].value;
        let Some(part) = self.bits.locate(def, path, |v| self.low.constant(v)) else { return };
        let (width, signed) = (self.low.width(*amount), self.low.ty(*amount).is_signed());
        let kept = part.bits.min(width);
        let field = format!("{entry}[{}:{}]", part.at + kept - 1, part.at);
        let old = match () {
            () if kept == width => field,
            () if signed => {
                format!("{{{{{}{{{entry}[{}]}}}}, {field}}}", width - kept, part.at + kept - 1)
            }
            () => Lower::resize(&field, kept, width),
        };
        let old = self.wire("old", width, old, 0);
        let amount = self.low.operand(*amount);
        let less = |a: &str, b: &str| {
            if signed { format!("$signed({a}) < $signed({b})") } else { format!("{a} < {b}") }
        };
        let new = match how {
            CommuteOp::Add => format!("{old} + {amount}"),
            CommuteOp::Or => format!("{old} | {amount}"),
            CommuteOp::Min => format!("{} ? {amount} : {old}", less(&amount, &old)),
            CommuteOp::Max => format!("{} ? {amount} : {old}", less(&old, &amount)),
        };
        let new = self.wire("new", width, new, timing::cmp(CmpOp::Lt, width) + timing::CHOOSE);
        let new = Lower::resize(&new, width, part.bits);
        let whole = form.value_bits + form.extra_bits;
        let mut pieces = Vec::new();
        if part.at + part.bits < whole {
            pieces.push(format!("{entry}[{}:{}]", whole - 1, part.at + part.bits));
        }
        pieces.push(new);
        if part.at > 0 {
            pieces.push(format!("{entry}[{}:0]", part.at - 1));
        }
        let value = format!("{{{}}}", pieces.join(", "));
        self.table(
            *table,
            op::WRITE,
            Some(hit),
            vec![("value", value), ("index", place)],
            Vec::new(),
        );
    }

    /// Ops on the byte strings of entries: their length is in the entry's extra bits, their bytes
    /// in a memory of their own.
    pub(super) fn bytes_op(&mut self, inst: &Inst) {
        let Some((table, key)) = inst.op.entry() else { return };
        let form = self.tables[table.as_u32() as usize].clone();
        let Some(store) = form.bytes.clone() else { return };
        let (hit, entry, place) = self.find(table, op::FIND, key);
        let (value_bits, extra) = (form.value_bits, form.extra_bits);
        let value = format!("{entry}[{}:0]", value_bits.max(1) - 1);
        let len = format!("{entry}[{}:{value_bits}]", value_bits + extra - 1);
        let len = self.wire("length", 32, Lower::resize(&len, extra, 32), 0);
        let line = format!(
            "{}'({place} * {})",
            crate::rtl::ADDRESS_BITS,
            number(32, u64::from(store.lines))
        );
        let line = self.wire("line", crate::rtl::ADDRESS_BITS, line, 1500);
        match &inst.op {
            Op::BufLen { .. } => {
                self.result(inst.results[0], format!("{hit} ? {len} : 32'h0"), timing::CHOOSE);
            }
            Op::BufRead { off, .. } => {
                let size = self.bits.bytes(self.low.ty(inst.results[1]));
                let off = self.low.u32(*off);
                let off = self.wire("off", 32, off, 0);
                let check = format!(
                    "{hit} && {{1'b0, {off}}} + {} <= {{1'b0, {len}}}",
                    number(33, u64::from(size))
                );
                let ok = self.wire("fits", 1, check, 2 * timing::carry(32));
                self.read(inst, store.memory, (line, &ok), &off, size);
            }
            Op::BufClear { .. } => {
                let value = format!("{{{}, {value}}}", number(extra, 0));
                self.table(
                    table,
                    op::WRITE,
                    Some(hit),
                    vec![("value", value), ("index", place)],
                    Vec::new(),
                );
            }
            Op::BufGenerate { event, port, .. } => {
                self.result(inst.results[0], hit.clone(), 0);
                let to_net = self.program.events[*event].name == "net_send";
                let port = match port {
                    Some(port) => self.low.u32(*port),
                    None => number(32, 0),
                };
                let port = self.wire("out_port", 32, port, 0);
                let kind = if to_net { kind::SEND } else { kind::HOST_PACKET };
                let outputs = vec![
                    ("c_valid", hit.clone()),
                    ("c_kind", number(8, kind)),
                    ("c_host", number(1, u64::from(!to_net))),
                    ("c_port", format!("{port}[7:0]")),
                    ("c_mem", number(4, store.memory)),
                    ("c_line", line),
                    ("c_rest", format!("{len}[15:0]")),
                    ("rec_kind", format!("{hit} ? {} : 5'h0", number(5, kind + 8))),
                    ("rec_data", format!("{{32'h0, {port}}}")),
                ];
                self.states.wait(format!("(!{hit} || c_ready)"), outputs, Vec::new());
                // The entry may change when its bytes have been asked for.
                self.states.wait("c_done".to_string(), Vec::new(), Vec::new());
                let value = format!("{{{}, {value}}}", number(extra, 0));
                self.table(
                    table,
                    op::WRITE,
                    Some(hit),
                    vec![("value", value), ("index", place)],
                    Vec::new(),
                );
            }
            Op::BufAppend { source, .. } => {
                let count = match source {
                    BufSource::Packet { len, .. } => self.prefix(*len),
                    BufSource::Value(value) => {
                        number(16, u64::from(self.bits.bytes(self.low.ty(*value))))
                    }
                };
                let count = self.wire("count", 16, count, 0);
                let check = format!(
                    "{hit} && {len} + {{16'h0, {count}}} <= {}",
                    number(32, u64::from(store.capacity))
                );
                let ok = self.wire("fits", 1, check, 2 * timing::carry(32));
                self.result(inst.results[0], ok.clone(), 0);
                let moved = format!("{ok} ? {count} : 16'h0");
                let mut outputs = vec![("a_length", moved)];
                match source {
                    BufSource::Packet { .. } => outputs.extend([
                        ("a_op", number(2, 3)),
                        ("a_line", "slot_line".to_string()),
                        ("a_from", self.at()),
                        ("a_to_mem", number(4, store.memory)),
                        ("a_to_line", line),
                        ("a_to", format!("{len}[15:0]")),
                    ]),
                    BufSource::Value(value) => {
                        let wide = 8 * self.bits.bytes(self.low.ty(*value));
                        let bytes = self.low.bytes_of(*value);
                        outputs.extend([
                            ("a_op", number(2, 1)),
                            ("a_mem", number(4, store.memory)),
                            ("a_line", line),
                            ("a_from", format!("{len}[15:0]")),
                            ("a_value", Lower::resize(&bytes, wide, 8 * self.access_bytes)),
                        ]);
                    }
                }
                self.access(outputs, Vec::new());
                let total = self.wire(
                    "total",
                    32,
                    format!("{len} + {{16'h0, {count}}}"),
                    timing::carry(32),
                );
                let value = format!("{{{total}[{}:0], {value}}}", extra - 1);
                self.table(
                    table,
                    op::WRITE,
                    Some(ok),
                    vec![("value", value), ("index", place)],
                    Vec::new(),
                );
            }
            other => self.refuse(
                inst.span,
                &format!("an engine asks no table so: `{}`", other.row().word()),
                "ask for an entry by its key",
            ),
        }
    }

    /// The message of a host event into the registers of the handler's parameters; its slot is free
    /// then.
    pub fn message(&mut self, body: &Body) {
        let params: Vec<(ValueId, Type)> = body.blocks[body.entry()]
            .params
            .iter()
            .map(|param| (*param, body.ty(*param)))
            .collect();
        let size: u32 = params.iter().map(|(_, ty)| self.bits.bytes(*ty)).sum();
        let mut results = Vec::new();
        let mut at = 0;
        for (param, ty) in params {
            let bytes = self.bits.bytes(ty);
            if bytes > 0 {
                let width = self.bits.width(ty);
                let low = format!("a_r_value[{}:{}]", 8 * at + width - 1, 8 * at);
                let value = match self.bits.meaning(ty).filter(|_| !ty.is_int()) {
                    Some(mask) => format!("{low} & {}", literal(width, &mask)),
                    None => low,
                };
                results.push((self.low.name(param), width, value));
            }
            at += bytes;
        }
        let outputs =
            vec![("a_line", "slot_line".to_string()), ("a_length", number(16, u64::from(size)))];
        self.states.note("the message");
        self.access(outputs, results);
        self.gives_slot_back();
    }

    /// The state that gives the event's slot back: nothing of it is read any more.
    pub(super) fn gives_slot_back(&mut self) {
        self.states.wait("free_ok".to_string(), vec![("frees", "1'b1".to_string())], Vec::new());
    }
}
