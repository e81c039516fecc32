//! Ops that only compute, as wires.
//!
//! An op becomes one wire, or several where it takes longer than a clock cycle may (a hash, a
//! checksum, the random stream), so that those who schedule wires may put registers between them.
//! Names of other wires stand in marks, `‹name›`: whether that is the wire itself or a register
//! that keeps it is known only when all are scheduled ([`resolve`]).

mod parts;

use std::collections::BTreeSet;

use cranelift_entity::SecondaryMap;
use nicforge_ir::{BinOp, Body, CmpOp, Inst, InstId, Op, Proj, Type, UnOp, ValueId};

use super::shape::{Bits, literal, number};
use super::timing;
use crate::c::names::Names;

/// A named signal and what it is.
#[derive(Clone, Debug)]
pub struct Wire {
    pub name: String,
    pub width: u32,
    /// SystemVerilog, other wires in marks.
    pub value: String,
    /// Picoseconds behind its operands.
    pub delay: u32,
}

/// A wire's name in an expression.
pub fn mark(name: &str) -> String {
    format!("‹{name}›")
}

/// The names in an expression.
pub fn used(value: &str) -> impl Iterator<Item = &str> {
    value.split('‹').skip(1).filter_map(|rest| rest.split('›').next())
}

/// The expression with every name replaced.
pub fn resolve(value: &str, name: impl Fn(&str) -> String) -> String {
    let mut parts = value.split('‹');
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (inner, rest) = part.split_once('›').unwrap_or((part, ""));
        out.push_str(&name(inner));
        out.push_str(rest);
    }
    out
}

/// Turns a body's ops into wires.
pub struct Lower<'a> {
    pub bits: &'a Bits<'a>,
    pub body: &'a Body,
    pub names: Names,
    values: SecondaryMap<ValueId, Option<String>>,
    /// Constants that something needs as a signal.
    constants: BTreeSet<String>,
    pub declared: Vec<Wire>,
    /// Numbers that values are found to be where loops are written out.
    known: SecondaryMap<ValueId, Option<u64>>,
}

impl<'a> Lower<'a> {
    /// `names` knows the words that signals must not be called.
    pub fn new(bits: &'a Bits<'a>, body: &'a Body, names: Names) -> Lower<'a> {
        Lower {
            bits,
            body,
            names,
            values: SecondaryMap::new(),
            constants: BTreeSet::new(),
            declared: Vec::new(),
            known: SecondaryMap::new(),
        }
    }

    /// The name of a value's signal: the source variable's, if it has one.
    pub fn name(&mut self, value: ValueId) -> String {
        if let Some(name) = &self.values[value] {
            return name.clone();
        }
        let name = self.fresh_of(value);
        self.values[value] = Some(name.clone());
        name
    }

    /// Gives a value a new name, for another copy of what computes it.
    pub fn rename(&mut self, value: ValueId) -> String {
        self.values[value] = None;
        self.known[value] = None;
        self.name(value)
    }

    /// A new name such as the value would get, which is not its yet.
    pub fn fresh_of(&mut self, value: ValueId) -> String {
        let wanted = self.body.values[value].name.clone();
        let mut wanted =
            wanted.map_or_else(|| format!("v{}", value.as_u32()), |name| name.replace('.', "_"));
        // NAME_q and NAME_s7 are registers that keep NAME.
        let end = wanted.rsplit('_').next().unwrap_or_default();
        if end == "q"
            || end
                .strip_prefix('s')
                .is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
        {
            wanted.push('_');
        }
        self.names.fresh(&wanted)
    }

    /// Gives a value this name.
    pub fn rename_to(&mut self, value: ValueId, name: &str) {
        self.values[value] = Some(name.to_string());
        self.known[value] = None;
    }

    /// Notes that a value is always this number.
    pub fn know(&mut self, value: ValueId, number: u64) {
        self.known[value] = Some(number);
    }

    /// A name for a signal that is no value.
    pub fn fresh(&mut self, wanted: &str) -> String {
        self.names.fresh(wanted)
    }

    pub fn ty(&self, value: ValueId) -> Type {
        self.body.ty(value)
    }

    pub fn width(&self, value: ValueId) -> u32 {
        self.bits.width(self.ty(value))
    }

    /// The number a value always is.
    pub fn constant(&self, value: ValueId) -> Option<u64> {
        if let Some(number) = self.known[value] {
            return Some(number);
        }
        match self.body.def_op(value) {
            Some(Op::Int(raw)) => Some(*raw),
            Some(Op::Zero) if self.ty(value).is_int() => Some(0),
            _ => None,
        }
    }

    fn literal_of(&self, value: ValueId) -> Option<String> {
        if let Some(raw) = self.known[value] {
            return Some(number(self.width(value), raw));
        }
        match self.body.def_op(value) {
            Some(Op::Int(raw)) => Some(number(self.width(value), *raw)),
            Some(Op::Zero) => Some(literal(self.width(value), &[])),
            _ => None,
        }
    }

    /// A value where an expression may stand.
    pub fn operand(&mut self, value: ValueId) -> String {
        self.literal_of(value).unwrap_or_else(|| mark(&self.name(value)))
    }

    /// A value where only a signal may stand, such as before a selection of bits.
    pub fn signal(&mut self, value: ValueId) -> String {
        let Some(text) = self.literal_of(value) else { return mark(&self.name(value)) };
        let name = self.name(value);
        if self.constants.insert(name.clone()) {
            let width = self.width(value);
            self.declared.push(Wire { name: name.clone(), width, value: text, delay: 0 });
        }
        name
    }

    /// A value's bytes as a vector of eight times as many bits.
    pub fn bytes_of(&mut self, value: ValueId) -> String {
        let (width, wide) = (self.width(value), 8 * self.bits.bytes(self.ty(value)));
        let text = self.operand(value);
        if wide > width { format!("{{{}, {text}}}", number(wide - width, 0)) } else { text }
    }

    /// The value of type `ty` whose bytes are the lowest of the signal `bytes`.
    pub fn of_bytes(&self, ty: Type, bytes: &str) -> String {
        let width = self.bits.width(ty);
        match self.bits.meaning(ty).filter(|_| !ty.is_int()) {
            Some(mask) => format!("{bytes}[{}:0] & {}", width - 1, literal(width, &mask)),
            None => format!("{bytes}[{}:0]", width - 1),
        }
    }

    /// `text` of `from` bits as `to` bits.
    pub fn resize(text: &str, from: u32, to: u32) -> String {
        match () {
            () if to > from => format!("{{{}, {text}}}", number(to - from, 0)),
            () if to < from => format!("{to}'({text})"),
            () => text.to_string(),
        }
    }

    /// `text` of `width` bits as a word of 64, with its sign if it has one.
    pub fn word(text: String, width: u32, signed: bool) -> String {
        match width {
            64 => text,
            _ if signed => format!("{{{{{}{{{text}[{}]}}}}, {text}}}", 64 - width, width - 1),
            _ => Self::resize(&text, width, 64),
        }
    }

    /// A value's low 32 bits, as offsets and lengths are read.
    pub fn u32(&mut self, value: ValueId) -> String {
        let width = self.width(value);
        let text = self.operand(value);
        Self::resize(&text, width, 32)
    }

    fn wire(&mut self, wanted: &str, width: u32, value: String, delay: u32) -> Wire {
        Wire { name: self.fresh(wanted), width, value, delay }
    }

    /// The wires of an instruction that only computes from its operands; the last one is its
    /// result.
    pub fn wires(&mut self, inst: InstId) -> Vec<Wire> {
        let body = self.body;
        let data = &body.insts[inst];
        let result = data.results[0];
        let (name, width) = (self.name(result), self.width(result));
        let mut list = Vec::new();
        let (value, delay) = match &data.op {
            Op::Int(_) | Op::Zero => return list,
            Op::Bin(BinOp::Mul, a, b) if width > 32 => {
                let (x, y) = (self.operand(*a), self.operand(*b));
                self.product(&x, &y, width, &mut list)
            }
            Op::Bin(op, a, b) => self.bin(*op, *a, *b),
            Op::Cmp(op, a, b) => self.cmp(*op, *a, *b),
            Op::Un(op, a) => self.un(*op, *a, &mut list),
            Op::Cast(a) => {
                let (from, signed) = (self.width(*a), self.ty(*a).is_signed());
                (self.cast(*a, from, signed, width), 0)
            }
            Op::Select { cond, then, other } => (self.choose(*cond, *then, *other), timing::CHOOSE),
            Op::Get { agg, path } => self.get(*agg, path, result, &mut list),
            Op::Set { agg, path, value } => self.set(*agg, path, *value, &mut list),
            Op::ConstElem { array, index } => self.const_elem(*array, *index, result),
            Op::Hash { .. } => self.hash(data, &mut list),
            Op::CsumAdd { sum, value } => self.csum(*sum, *value, &mut list),
            Op::Now => (mark("now"), 0),
            Op::InPort { .. } => (Self::resize(&mark("port"), 8, 32), 0),
            other => unreachable!("{other:?} does more than compute"),
        };
        list.push(Wire { name, width, value, delay });
        list
    }

    pub fn choose(&mut self, cond: ValueId, then: ValueId, other: ValueId) -> String {
        format!("{} ? {} : {}", self.operand(cond), self.operand(then), self.operand(other))
    }

    fn bin(&mut self, op: BinOp, a: ValueId, b: ValueId) -> (String, u32) {
        let (width, signed) = (self.width(a), self.ty(a).is_signed());
        let delay = timing::bin(op, width, self.constant(b).is_some());
        let (x, mut y) = (self.operand(a), self.operand(b));
        if let (BinOp::Shl | BinOp::Shr, Some(by)) = (op, self.constant(b)) {
            // Tools refuse constants of more than 32 bits here.
            y = number(7, by.min(width.into()));
        }
        let text = match op {
            BinOp::Add => format!("{x} + {y}"),
            BinOp::Sub => format!("{x} - {y}"),
            BinOp::Mul => format!("{x} * {y}"),
            BinOp::And => format!("{x} & {y}"),
            BinOp::Or => format!("{x} | {y}"),
            BinOp::Xor => format!("{x} ^ {y}"),
            BinOp::Shl => format!("{x} << {y}"),
            BinOp::Shr if signed => format!("$signed({x}) >>> {y}"),
            BinOp::Shr => format!("{x} >> {y}"),
            // Others than by powers of two are not wires, see `power_of_two`.
            BinOp::Div | BinOp::Rem => {
                let by = self.constant(b).unwrap_or(1);
                match (op, by) {
                    (BinOp::Div, 0) => number(width, 0),
                    (BinOp::Div, by) => {
                        format!("{x} >> {}", number(7, u64::from(by.trailing_zeros())))
                    }
                    (_, 0) => x,
                    (_, by) => format!("{x} & {}", number(width, by - 1)),
                }
            }
        };
        (text, delay)
    }

    /// The low bits of a product of up to 64 bits, made of products of 32 bits, which fit between
    /// two registers.
    pub fn product(&mut self, x: &str, y: &str, width: u32, list: &mut Vec<Wire>) -> (String, u32) {
        let half = |text: &str, at: u32| format!("32'(64'({text}) >> {at})");
        let wide = |text: String| format!("{{32'h0, {text}}}");
        let low =
            self.wire("low", 64, format!("{} * {}", wide(half(x, 0)), wide(half(y, 0))), 3000);
        let left = self.wire("left", 32, format!("{} * {}", half(x, 0), half(y, 32)), 3000);
        let right = self.wire("right", 32, format!("{} * {}", half(x, 32), half(y, 0)), 3000);
        let cross = self.wire(
            "cross",
            32,
            format!("{} + {}", mark(&left.name), mark(&right.name)),
            timing::carry(32),
        );
        let value = format!("{width}'({} + {{{}, 32'h0}})", mark(&low.name), mark(&cross.name));
        list.extend([low, left, right, cross]);
        (value, timing::carry(32))
    }

    /// The next number of the event's random stream (`nicforge_ir::io::random`) after the state
    /// `before`; gives the new state's wire, and the number.
    pub fn random(&mut self, before: &str, list: &mut Vec<Wire>) -> (String, String) {
        let state = self.wire(
            "stream",
            64,
            format!("{} + 64'h9e3779b97f4a7c15", mark(before)),
            timing::carry(64),
        );
        let first = mark(&state.name);
        let name = state.name.clone();
        list.push(state);
        let mut last = first;
        for (shift, factor) in [(30, "64'hbf58476d1ce4e5b9"), (27, "64'h94d049bb133111eb")] {
            let mixed = self.wire("mix", 64, format!("{last} ^ ({last} >> {shift})"), 400);
            let text = mark(&mixed.name);
            list.push(mixed);
            let (value, delay) = self.product(&text, factor, 64, list);
            let times = self.wire("mix", 64, value, delay);
            last = mark(&times.name);
            list.push(times);
        }
        (name, format!("32'(({last} ^ ({last} >> 31)) >> 32)"))
    }

    fn cmp(&mut self, op: CmpOp, a: ValueId, b: ValueId) -> (String, u32) {
        let (width, signed) = (self.width(a), self.ty(a).is_signed());
        let (x, y) = (self.operand(a), self.operand(b));
        let word = match op {
            CmpOp::Eq => "==",
            CmpOp::Ne => "!=",
            CmpOp::Lt => "<",
            CmpOp::Le => "<=",
            CmpOp::Gt => ">",
            CmpOp::Ge => ">=",
        };
        if !signed && let Some(found) = self.against_constant(op, a, b) {
            return found;
        }
        let text = if signed && !matches!(op, CmpOp::Eq | CmpOp::Ne) {
            format!("$signed({x}) {word} $signed({y})")
        } else {
            format!("{x} {word} {y}")
        };
        (text, timing::cmp(op, width))
    }

    /// An order of unsigned numbers one of which is constant.
    fn against_constant(&mut self, op: CmpOp, a: ValueId, b: ValueId) -> Option<(String, u32)> {
        let (value, limit, op) = match (self.constant(a), self.constant(b)) {
            (None, Some(limit)) => (a, limit, op),
            (Some(limit), None) => (b, limit, op.mirrored()),
            _ => return None,
        };
        // From which number on it holds, or does not.
        let (from, holds) = match op {
            CmpOp::Ge => (Some(limit), true),
            CmpOp::Gt => (limit.checked_add(1), true),
            CmpOp::Lt => (Some(limit), false),
            CmpOp::Le => (limit.checked_add(1), false),
            CmpOp::Eq | CmpOp::Ne => return None,
        };
        let width = self.width(value);
        let Some(from) = from.filter(|from| width == 64 || from >> width == 0) else {
            return Some((number(1, u64::from(!holds)), 0));
        };
        let (text, delay) = at_least(&self.signal(value), width, from);
        Some((if holds { text } else { format!("!({text})") }, delay))
    }

    fn un(&mut self, op: UnOp, a: ValueId, list: &mut Vec<Wire>) -> (String, u32) {
        let width = self.width(a);
        match op {
            UnOp::Not => (format!("~{}", self.operand(a)), 0),
            UnOp::Neg => (format!("-{}", self.operand(a)), timing::carry(width)),
            UnOp::Popcount => self.popcount(a, list),
            UnOp::Bswap => {
                let x = self.signal(a);
                let bytes: Vec<String> = (0..width / 8)
                    .map(|byte| format!("{x}[{}:{}]", 8 * byte + 7, 8 * byte))
                    .collect();
                (format!("{{{}}}", bytes.join(", ")), 0)
            }
        }
    }

    /// How many bits are one: sums of bits, then of sums, in a tree.
    fn popcount(&mut self, a: ValueId, list: &mut Vec<Wire>) -> (String, u32) {
        let (x, width) = (self.signal(a), self.width(a));
        if width == 1 {
            return (x, 0);
        }
        let mut level: Vec<String> = (0..width).map(|bit| format!("8'({x}[{bit}])")).collect();
        while level.len() > 1 {
            let sums = level
                .chunks(4)
                .map(|part| self.wire("ones", 8, part.join(" + "), 2 * timing::carry(8)));
            let sums: Vec<Wire> = sums.collect();
            level = sums.iter().map(|sum| mark(&sum.name)).collect();
            list.extend(sums);
        }
        (format!("{width}'({})", level[0]), 0)
    }

    fn cast(&mut self, a: ValueId, from: u32, signed: bool, to: u32) -> String {
        if to < from {
            return format!("{}[{}:0]", self.signal(a), to - 1);
        }
        if to > from && signed {
            let x = self.signal(a);
            return format!("{{{{{}{{{x}[{}]}}}}, {x}}}", to - from, from - 1);
        }
        let text = self.operand(a);
        Self::resize(&text, from, to)
    }

    /// `nf_hash`: every bit of the CRC is a parity of seed and bytes, since the CRC is linear; then
    /// the finaliser's two multiplications.
    fn hash(&mut self, data: &Inst, list: &mut Vec<Wire>) -> (String, u32) {
        let Op::Hash { seed, value } = data.op else { unreachable!("asked for hashes only") };
        let size = self.bits.bytes(self.ty(value)) as usize;
        let total = 32 + 8 * size as u32;
        let bytes = self.bytes_of(value);
        let seed_text = self.u32(seed);
        let input = self.wire("hash_in", total, format!("{{{bytes}, {seed_text}}}"), 0);
        let name = mark(&input.name);
        list.push(input);
        let none = raw_crc(&vec![0; 4 + size]);
        let columns: Vec<u32> = (0..total as usize)
            .map(|bit| {
                let mut with = vec![0; 4 + size];
                with[bit / 8] = 1 << (bit % 8);
                raw_crc(&with) ^ none
            })
            .collect();
        let bit = |at: u32| {
            let mut mask = vec![0u8; 4 + size];
            for (from, column) in columns.iter().enumerate() {
                mask[from / 8] |= ((column >> at & 1) as u8) << (from % 8);
            }
            let flip = if none >> at & 1 == 1 { "~" } else { "" };
            format!("{flip}^({name} & {})", literal(total, &mask))
        };
        let crc: Vec<String> = (0..32).rev().map(bit).collect();
        let crc =
            self.wire("crc", 32, format!("{{{}}}", crc.join(",\n      ")), timing::tree(total / 2));
        let h = self.wire("mix", 32, format!("{} ^ {seed_text}", mark(&crc.name)), 400);
        let a = self.wire("mix", 32, format!("{0} ^ ({0} >> 16)", mark(&h.name)), 400);
        let b = self.wire("mix", 32, format!("{} * 32'h85ebca6b", mark(&a.name)), 3000);
        let c = self.wire("mix", 32, format!("{0} ^ ({0} >> 13)", mark(&b.name)), 400);
        let d = self.wire("mix", 32, format!("{} * 32'hc2b2ae35", mark(&c.name)), 3000);
        let value = format!("{0} ^ ({0} >> 16)", mark(&d.name));
        list.extend([crc, h, a, b, c, d]);
        (value, 400)
    }

    /// A ones-complement sum over a value's bytes; an odd last byte is the high half of a word.
    fn csum(&mut self, sum: ValueId, value: ValueId, list: &mut Vec<Wire>) -> (String, u32) {
        let size = self.bits.bytes(self.ty(value));
        let bytes = self.bytes_of(value);
        let input = self.wire("csum_in", 8 * size, bytes, 0);
        let name = mark(&input.name);
        list.push(input);
        let words: Vec<String> = (0..size.div_ceil(2))
            .map(|word| {
                let (high, low) = (16 * word, 16 * word + 8);
                let low = if 2 * word + 1 < size {
                    format!("{name}[{}:{low}]", low + 7)
                } else {
                    "8'h0".to_string()
                };
                format!("{{24'h0, {name}[{}:{high}], {low}}}", high + 7)
            })
            .collect();
        let start = self.u32(sum);
        let count = words.len() as u32;
        let words = words.join("\n      + ");
        let all = if self.constant(sum).is_some() {
            self.wire("csum", 40, format!("{{8'h0, {start}}} + {words}"), timing::word_sum(count))
        } else {
            // yosys keeps what is no word out of the tree, and has one more carry chain behind it.
            let words = self.wire("words", 40, words, timing::word_sum(count.saturating_sub(1)));
            let all = format!("{{8'h0, {start}}} + {}", mark(&words.name));
            list.push(words);
            self.wire("csum", 40, all, timing::carry(20))
        };
        let last = mark(&all.name);
        list.push(all);
        self.folded(&last, list)
    }

    /// A sum of 40 bits folded to 16, in 32.
    pub fn folded(&mut self, sum: &str, list: &mut Vec<Wire>) -> (String, u32) {
        let mut last = sum.to_string();
        // 40 bits, then 25, 17 and 16 after each fold.
        for _ in 0..2 {
            let fold = self.wire(
                "fold",
                40,
                format!("{{24'h0, {last}[15:0]}} + {{16'h0, {last}[39:16]}}"),
                800,
            );
            last = mark(&fold.name);
            list.push(fold);
        }
        let fold =
            self.wire("fold", 17, format!("{{1'b0, {last}[15:0]}} + {{16'h0, {last}[16]}}"), 750);
        let value = format!("{{16'h0, {0}[15:0] + {{15'h0, {0}[16]}}}}", mark(&fold.name));
        list.push(fold);
        (value, 750)
    }
}

/// Runs of equal bits of a number from its lowest one up: first bit, the bit behind the last,
/// whether they are ones.
fn runs(width: u32, number: u64) -> Vec<(u32, u32, bool)> {
    let (mut list, mut at) = (Vec::new(), number.trailing_zeros());
    while at < width {
        let one = number >> at & 1 == 1;
        let rest = if one { !(number >> at) } else { number >> at };
        let end = (at + rest.trailing_zeros()).min(width);
        list.push((at, end, one));
        at = end;
    }
    list
}

/// Comparison: a signal is at least a number, and how long that takes: a tree of LUTs over the bits
/// that matter. A comparison would be a carry chain, behind which synthesis joins nothing. From the
/// lowest run of bits up, ones must be there beside what is below, for zeros one may be there
/// instead.
pub fn at_least(signal: &str, width: u32, limit: u64) -> (String, u32) {
    let mut text = String::new();
    for (at, end, one) in runs(width, limit) {
        let run = match (end - at, one) {
            (1, _) => format!("{signal}[{at}]"),
            (_, true) => format!("(&{signal}[{}:{at}])", end - 1),
            (_, false) => format!("(|{signal}[{}:{at}])", end - 1),
        };
        text = match (text.is_empty(), one) {
            (true, _) => run,
            (false, true) => format!("{run} && ({text})"),
            (false, false) => format!("{run} || ({text})"),
        };
    }
    if limit == 0 {
        ("1'b1".to_string(), 0)
    } else {
        (text, timing::tree(width - limit.trailing_zeros()))
    }
}

/// CRC-32C with both complements: `nf_hash` without the finaliser is this, exclusive-or the seed.
fn raw_crc(bytes: &[u8]) -> u32 {
    use nicforge_ir::io::CRC32C;
    !bytes
        .iter()
        .fold(!0u32, |crc, byte| (crc >> 8) ^ CRC32C[((crc ^ u32::from(*byte)) & 0xff) as usize])
}

/// So many ones, as bytes.
fn ones(bits: u32) -> Vec<u8> {
    (0..bits.div_ceil(8))
        .map(|byte| if bits - 8 * byte >= 8 { 0xff } else { (1 << (bits - 8 * byte)) - 1 })
        .collect()
}

/// True if a division is a matter of wires: unsigned, by a power of two (or by zero, which has a
/// defined result).
pub fn divides_by_wires(ty: Type, by: Option<u64>) -> bool {
    !ty.is_signed() && by.is_some_and(|by| by == 0 || by.is_power_of_two())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nicforge_ir::io::hash;

    #[test]
    fn crc_is_linear_and_the_hash_is_made_of_it() {
        let (a, b) = ([1, 2, 3, 4, 0x55, 0xaa], [9, 8, 7, 6, 5, 4]);
        let xor: Vec<u8> = a.iter().zip(b).map(|(a, b)| a ^ b).collect();
        assert_eq!(raw_crc(&xor), raw_crc(&a) ^ raw_crc(&b) ^ raw_crc(&[0; 6]));
        let seed = u32::from_le_bytes([1, 2, 3, 4]);
        let mut h = raw_crc(&a) ^ seed;
        h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
        h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
        assert_eq!(h ^ (h >> 16), hash(seed, &a[4..]));
    }

    #[test]
    fn at_least_is_said_by_runs_of_bits() {
        for (limit, x) in (1..32).flat_map(|limit| (0..32).map(move |x| (limit, x))) {
            let holds = runs(5, limit).iter().fold(true, |below, (at, end, one)| {
                let (bits, all) = (x >> at, (1 << (end - at)) - 1);
                if *one { bits & all == all && below } else { bits & all != 0 || below }
            });
            assert_eq!(holds, x >= limit, "{x} >= {limit}");
        }
        assert_eq!(at_least("x", 16, 14), ("(|x[15:4]) || ((&x[3:1]))".to_string(), 800));
        assert_eq!(at_least("x", 16, 0x8000).0, "x[15]");
    }

    #[test]
    fn names_are_found_and_replaced() {
        let text = format!("{} + {}[3:0]", mark("a"), mark("b"));
        assert_eq!(used(&text).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(resolve(&text, |name| format!("{name}_q")), "a_q + b_q[3:0]");
    }
}
