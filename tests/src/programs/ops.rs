//! What programs do with packets, tables, queues and the host side.

use super::patterns::patterns;
use super::types::Ty;
use super::{Gen, Helper, Of, Table, Var};

impl Gen {
    /// A variable whose address may be taken, of any type or of one.
    fn target(&mut self, ty: Option<&Ty>) -> Option<String> {
        let fits = |v: &&Var| {
            v.writable && ty.is_none_or(|ty| *ty == v.ty) && !matches!(v.ty, Ty::Array(..))
        };
        let vars: Vec<Var> = self.scope.iter().filter(fits).cloned().collect();
        let var = vars.get(self.r.below(vars.len().max(1)))?;
        Some(if var.dot == "->" { var.text.clone() } else { format!("&{}", var.text) })
    }

    /// A fresh variable of a type.
    fn fresh(&mut self, ty: &Ty) -> String {
        let text = format!("v{}", self.made);
        self.made += 1;
        let declared = super::types::declare(ty, &text);
        self.line(&format!("{declared};"));
        self.scope.push(Var { text: text.clone(), dot: ".", ty: ty.clone(), writable: true });
        format!("&{text}")
    }

    /// An operation's truth: looked at, kept, or ignored.
    fn truth(&mut self, call: &str) {
        match self.r.below(5) {
            0 | 1 if self.of == Of::Packet => {
                self.open(&format!("if (!{call})"));
                if self.r.percent(60) {
                    self.leave();
                } else {
                    self.block();
                }
                self.close("");
            }
            2 => {
                let text = format!("v{}", self.made);
                self.made += 1;
                self.line(&format!("bool {text} = {call};"));
                self.scope.push(Var { text, dot: ".", ty: Ty::Int("bool"), writable: true });
            }
            3 => {
                self.open(&format!("if ({call})"));
                self.block();
                self.close("");
            }
            _ => self.line(&format!("{call};")),
        }
    }

    pub fn packet_op(&mut self) {
        let off = match self.r.below(3) {
            0 => self.expr(1),
            1 => format!("{}", self.r.below(70)),
            _ => format!("({}) & 31", self.expr(1)),
        };
        if self.far && self.r.percent(10) {
            let addr = self.expr(1);
            return self
                .line(&format!("nf_dma_write(pkt, {}, ({off}) & 63);", super::expr::paren(&addr)));
        }
        if self.copies && self.r.percent(15) {
            let sent = match self.r.percent(70) {
                true => format!("nf_send(nf_clone(pkt), ({off}) & 1);"),
                false => "nf_to_host(nf_clone(pkt));".to_string(),
            };
            return self.line(&sent);
        }
        if self.ciphers && self.r.percent(25) {
            return self.cipher(&off);
        }
        let Some(target) = self.target(None) else { return };
        match self.r.below(13) {
            0..4 => self.truth(&format!("nf_extract(pkt, {target})")),
            4..6 => self.line(&format!("nf_emit(pkt, {target});")),
            6 => self.truth(&format!("nf_load(pkt, {off}, {target})")),
            7 => self.truth(&format!("nf_store(pkt, {off}, {target})")),
            8 => self.truth(&format!("nf_strip(pkt, {})", small(&off))),
            9 if self.options.trim => self.truth(&format!("nf_trim(pkt, {off})")),
            10 => self.line("nf_reset(pkt);"),
            11 => self.search(&off),
            _ => {
                let (seed, text) = (self.expr(1), format!("v{}", self.made));
                self.made += 1;
                self.line(&format!(
                    "uint32_t {text} = nf_csum_payload(pkt, (uint16_t)({seed}), {off});"
                ));
                self.scope.push(Var { text, dot: ".", ty: Ty::Int("uint32_t"), writable: true });
            }
        }
    }

    /// A search for a few patterns.
    fn search(&mut self, len: &str) {
        let patterns = patterns(&mut self.r).replace('\\', r"\\").replace('\n', r"\n");
        self.read_into("uint32_t", &format!("nf_regex(pkt, {len}, \"{patterns}\")"));
    }

    /// An array of bytes, of which the first is computed.
    fn octets(&mut self, size: usize) -> String {
        let text = format!("v{}", self.made);
        self.made += 1;
        let (first, second) = (self.expr(1), self.r.below(256));
        self.line(&format!("uint8_t {text}[{size}] = {{(uint8_t)({first}), {second}}};"));
        text
    }

    /// A cipher or a digest over the first bytes of the rest; what it gives is looked at.
    fn cipher(&mut self, len: &str) {
        let key = 16 + 8 * self.r.below(3);
        let long = self.r.below(100) + 2;
        let gives = match self.r.below(8) {
            0 => {
                let (key, iv) = (self.octets(key), self.octets(16));
                return self.truth(&format!("nf_aes_ctr(pkt, {len}, &{key}, &{iv})"));
            }
            way @ (1 | 2) => {
                let (key, iv) = (self.octets(key), self.octets(16));
                let way = if way == 1 { "encrypt" } else { "decrypt" };
                let len = if self.r.percent(80) { format!("({len}) & 240") } else { len.into() };
                return self.truth(&format!("nf_aes_cbc_{way}(pkt, {len}, &{key}, &{iv})"));
            }
            way @ (3 | 4) => {
                let (key, nonce) = (self.octets(key), self.octets(12));
                let (beside, tag) = (self.octets(long), self.octets(16));
                let args = format!("(pkt, {len}, &{key}, &{nonce}, &{beside}, &{tag})");
                self.truth(&format!("nf_aes_gcm_seal{args}"));
                if way == 4 {
                    return self.truth(&format!("nf_aes_gcm_open{args}"));
                }
                tag
            }
            5 => {
                let digest = self.octets(32);
                self.line(&format!("nf_sha256(pkt, {len}, &{digest});"));
                digest
            }
            6 => {
                let (key, digest) = (self.octets(long), self.octets(32));
                self.line(&format!("nf_hmac_sha256(pkt, {len}, &{key}, &{digest});"));
                digest
            }
            _ => return self.read_into("uint32_t", &format!("nf_crc32(pkt, {len})")),
        };
        self.read_into("uint16_t", &format!("(uint16_t)({gives}[2] << 8 | {gives}[15])"));
    }

    fn key(&mut self, table: &Table) -> String {
        match &table.key {
            Ty::Int("uint32_t") if table.kind == "array" => {
                format!("(uint32_t)(({}) & 15)", self.expr(2))
            }
            ty => self.value(ty),
        }
    }

    /// An integer of a value that commutative operations may change.
    pub fn counter(&mut self, table: &Table) -> Option<Option<String>> {
        match &table.value {
            Ty::Int(_) => Some(None),
            Ty::Struct(id) if self.structs[*id].union.is_some() => None,
            Ty::Struct(id) => {
                let plain = |m: &&super::types::Member| {
                    m.bits.is_none()
                        && matches!(m.ty, Ty::Int(int) if int != "bool" && !int.starts_with("nf"))
                };
                let members: Vec<String> = self.structs[*id]
                    .members
                    .iter()
                    .filter(plain)
                    .map(|m| m.name.clone())
                    .collect();
                (!members.is_empty()).then(|| Some(self.r.pick(&members).clone()))
            }
            Ty::Array(..) => None,
        }
    }

    pub fn table_op(&mut self) {
        if self.r.percent(10) {
            return self.event_op();
        }
        let number = self.r.below(self.tables.len());
        let table = self.tables[number].clone();
        let (name, key) = (format!("&t{number}"), self.key(&table));
        let key = super::expr::paren(&key);
        let fixed = matches!(table.kind, "lpm" | "ternary");
        if table.strings && self.r.percent(60) {
            return self.string_op(&name, &key);
        }
        match self.r.below(10) {
            0..3 => self.look_up(&name, &key, &table),
            3 => self.truth(&format!("nf_contains({name}, {key})")),
            6 if fixed => self.look_up(&name, &key, &table),
            4..7 => {
                let value = self.value(&table.value);
                let value = super::expr::paren(&value);
                self.truth(&format!("nf_update({name}, {key}, {value})"));
            }
            _ if table.kind == "hash" && self.r.percent(12) => self.least(&name, &table),
            7 if table.kind != "array" && !fixed => {
                self.truth(&format!("nf_delete({name}, {key})"))
            }
            _ => {
                let Some(member) = self.counter(&table) else { return };
                let (op, amount) =
                    (self.r.of(&["nf_add", "nf_min", "nf_max", "nf_or", "nf_add"]), self.expr(2));
                match member {
                    Some(member) => self.line(&format!("{op}({name}, {key}, {member}, {amount});")),
                    None => self.line(&format!("{op}_value({name}, {key}, {amount});")),
                }
            }
        }
    }

    /// Looks for the entry whose number is least.
    fn least(&mut self, name: &str, table: &Table) {
        let Some(member) = self.counter(table) else { return };
        let [key, value] = [&table.key, &table.value].map(|ty| self.fresh(ty));
        match member {
            Some(member) => self.truth(&format!("nf_least({name}, {member}, {key}, {value})")),
            None => self.truth(&format!("nf_least_value({name}, {key}, {value})")),
        }
    }

    /// Looks an entry up; often changes what was found and writes it back.
    fn look_up(&mut self, name: &str, key: &str, table: &Table) {
        let target = match self.target(Some(&table.value)) {
            Some(target) if self.r.percent(60) => target,
            _ => self.fresh(&table.value),
        };
        if table.kind == "lpm" && self.r.percent(40) {
            let bits = self.expr(1);
            return self.truth(&format!("nf_lookup_bits({name}, {key}, ({bits}) & 63, {target})"));
        }
        self.truth(&format!("nf_lookup({name}, {key}, {target})"));
    }

    fn string_op(&mut self, name: &str, key: &str) {
        let e = self.expr(1);
        match self.r.below(8) {
            0..2 if self.of != Of::Values => {
                self.truth(&format!("nf_buf_append_pkt({name}, {key}, pkt, ({e}) & 31)"));
            }
            2 | 3 => {
                let ty = self.some_type(60);
                let value = super::expr::paren(&self.value(&ty));
                self.truth(&format!("nf_buf_append({name}, {key}, {value})"));
            }
            4 => {
                let Some(target) = self.target(None) else { return };
                self.truth(&format!("nf_buf_read({name}, {key}, ({e}) & 15, {target})"));
            }
            5 => {
                let text = format!("v{}", self.made);
                self.made += 1;
                self.line(&format!("uint32_t {text} = nf_buf_len({name}, {key});"));
                self.scope.push(Var { text, dot: ".", ty: Ty::Int("uint32_t"), writable: true });
            }
            6 => self.line(&format!("nf_buf_clear({name}, {key});")),
            _ if self.far && self.r.percent(70) => {
                self.truth(&format!("nf_buf_send({name}, {key}, ({e}) & 1)"));
            }
            _ => self.truth(&format!("nf_buf_to_host({name}, {key})")),
        }
    }

    /// A message to the host side, an entry of a queue, a line of the log, the event's time or its
    /// next random number.
    fn event_op(&mut self) {
        if self.news && self.r.percent(30) {
            let of = self.r.below(self.structs.len());
            let frame = super::expr::paren(&self.struct_value(of));
            let len =
                if self.r.percent(40) { format!(", {}", self.expr(1)) } else { String::new() };
            let port = self.expr(1);
            return self.line(&format!("nf_send(nf_new({frame}{len}), ({port}) & 1);"));
        }
        match self.r.below(6) {
            3 => self.read_into("uint64_t", "nf_now()"),
            4 => self.read_into("uint32_t", "nf_random()"),
            0 | 1 => {
                let Some(of) = self.message else { return };
                let value = self.struct_value(of);
                self.line(&format!("nf_host_msg({});", super::expr::paren(&value)));
            }
            2 => {
                let Some((number, queue)) = self.queue(false) else { return };
                let args: Vec<String> =
                    queue.values.iter().map(|ty| super::expr::paren(&self.value(ty))).collect();
                self.line(&format!("nf_enqueue(q{number}, {});", args.join(", ")));
            }
            _ => {
                if let Some((text, _)) = self.readable() {
                    self.line(&format!("nf_log(\"a {{}} b {{}}\", {text}, (uint8_t)({text}));"));
                }
            }
        }
    }

    /// A variable with what a call gives. Each has a statement of its own: C leaves open which
    /// operand comes first.
    fn read_into(&mut self, int: &'static str, call: &str) {
        let text = format!("v{}", self.made);
        self.made += 1;
        self.line(&format!("{int} {text} = {call};"));
        self.scope.push(Var { text, dot: ".", ty: Ty::Int(int), writable: true });
    }

    /// A queue further on, with or without a packet.
    fn queue(&mut self, packet: bool) -> Option<(usize, Helper)> {
        // Queues are declared before handlers, behind helpers.
        let fits = |(number, queue): &(usize, Helper)| {
            *number >= self.queue_from
                && queue.packet == packet
                && (!self.closed || self.fed.contains(number))
        };
        let some: Vec<(usize, Helper)> =
            self.queues.iter().cloned().enumerate().filter(fits).collect();
        let found =
            (!some.is_empty() && self.result.is_none()).then(|| self.r.pick(&some).clone())?;
        self.fed.push(found.0);
        Some(found)
    }

    /// Gives the packet away.
    pub fn give(&mut self) {
        if self.r.percent(50)
            && let Some((number, queue)) = self.queue(true)
        {
            let values = queue.values.iter().map(|ty| super::expr::paren(&self.value(ty)));
            let args: Vec<String> = std::iter::once("pkt".to_string()).chain(values).collect();
            return self.line(&format!("nf_enqueue(q{number}, {});", args.join(", ")));
        }
        let e = self.expr(1);
        match self.r.below(10) {
            0..5 => self.line(&format!("nf_send(pkt, ({e}) & 1);")),
            5 => self.line("nf_send(pkt, nf_port(pkt));"),
            6 => self.line("nf_pass(pkt);"),
            7 => self.line("nf_to_host(pkt);"),
            8 => self.line("nf_drop(pkt, \"dropped\");"),
            _ => self.line("nf_drop(pkt);"),
        }
    }
}

/// How far to strip: seldom beyond the end.
fn small(off: &str) -> String {
    format!("({off}) & 15")
}
