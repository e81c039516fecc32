//! What the NIC's matching engine can decide before any handler runs: frames that the program hands
//! to the operating system unread.
//!
//! A handler of `net_recv` that begins with header checks (`if (eth.type != ...) { to the stack;
//! return; }`) is followed from its start as long as it only reads headers at fixed places and
//! branches. A check that compares a part of a header with a constant, and gives the frame to the
//! stack unchanged if they differ, is a rule on bytes of the frame. A frame that breaks a rule
//! would go to the stack in the handler, too: branches that leave before the check either do just
//! that, or leave because the frame is too short for a header, and frames shorter than
//! [`Rules::least`] get a handler whatever the rules say. Checks that are no rules, and rules that
//! the engine has no place for, are left to the handler, which makes all its checks in any case.

use std::collections::BTreeMap;

use nicforge_ir::{BinOp, BlockId, Body, CmpOp, Op, Program, Proj, Type, UnOp, ValueId};

/// One masked word of the frame, in network order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordRule {
    /// Bytes `4 * word` to `4 * word + 3`.
    pub word: u8,
    pub mask: u32,
    pub value: u32,
}

/// Demands on frames that need a handler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// All of them must hold.
    pub words: Vec<WordRule>,
    /// Bytes of the shortest frame that the rules speak of.
    pub least: u32,
}

/// Rules the engine has beside the one for ends of messages, and bytes of the frame that they see.
const RULES: usize = 3;
const REACH: u32 = 128;

/// A part of a header: where its first byte is in the frame, and which bits of the bytes from there
/// on, little-endian.
#[derive(Clone, Copy, Debug)]
struct Part {
    byte: u32,
    shift: u32,
    mask: u64,
}

/// A header that was read, or what came of it.
#[derive(Clone, Copy, Debug)]
enum Known {
    /// The frame is long enough.
    Fits,
    /// It is not.
    Short,
    /// A header at an offset.
    Header(u32, Type),
    Part(Part),
    /// The part differs from a number.
    Differs(Part, u64),
    /// It is equal.
    Equal(Part, u64),
}

struct Follow<'a> {
    program: &'a Program,
    body: &'a Body,
    known: BTreeMap<ValueId, Known>,
    cursor: u32,
    /// Masked bytes of the frame, in the order in which they were compared.
    bytes: Vec<(u32, u8, u8)>,
    least: u32,
}

/// The rules of a program; none if its frames all need a handler.
pub fn rules(program: &Program) -> Rules {
    let entry = program.event_named("net_recv").and_then(|event| program.handler_of(event));
    let Some(entry) = entry else { return Rules::default() };
    let body = &program.handlers[entry].body;
    let mut follow =
        Follow { program, body, known: BTreeMap::new(), cursor: 0, bytes: Vec::new(), least: 0 };
    follow.block(body.entry());
    let mut words: Vec<WordRule> = Vec::new();
    for (byte, mask, value) in follow.bytes {
        let (word, shift) = (byte / 4, 24 - 8 * (byte % 4));
        let (mask, value) = (u32::from(mask) << shift, u32::from(value) << shift);
        let room = words.len() < RULES;
        match words.iter_mut().find(|rule| u32::from(rule.word) == word) {
            Some(rule) if rule.mask & mask == 0 => {
                rule.mask |= mask;
                rule.value |= value;
            }
            // Compared twice: the first comparison is enough.
            Some(_) => {}
            None if room => words.push(WordRule { word: word as u8, mask, value }),
            None => {}
        }
    }
    let least = if words.is_empty() { 0 } else { follow.least };
    Rules { words, least }
}

impl Follow<'_> {
    fn number(&self, value: ValueId) -> Option<u64> {
        match self.body.def_op(value) {
            Some(Op::Int(number)) => Some(*number),
            _ => None,
        }
    }

    /// Follows a block until something happens that is no check.
    fn block(&mut self, block: BlockId) {
        for inst in self.body.blocks[block].insts.clone() {
            let data = &self.body.insts[inst];
            match &data.op {
                Op::Extract { .. } => {
                    let [ok, value] = data.results[..] else { return };
                    let ty = self.body.ty(value);
                    self.known.insert(ok, Known::Fits);
                    self.known.insert(value, Known::Header(self.cursor, ty));
                    self.cursor += self.program.size_of(ty);
                }
                Op::If { cond, then, other, .. } => {
                    let inner = match (self.leaves(*then), self.leaves(*other)) {
                        (Some(unread), None) if self.check(*cond, true, unread) => *other,
                        (None, Some(unread)) if self.check(*cond, false, unread) => *then,
                        _ => return,
                    };
                    if self.body.blocks[inner].insts.len() > 1 {
                        return self.block(inner);
                    }
                    if !data.results.is_empty() {
                        return;
                    }
                }
                op if op.effects().is_pure() => {
                    let [result] = data.results[..] else { return };
                    if let Some(known) = self.computed(op, self.body.ty(result)) {
                        self.known.insert(result, known);
                    }
                }
                _ => return,
            }
        }
    }

    /// Tells whether a region ends the handler, and if it does, whether all it does is to hand the
    /// frame to the stack as it came.
    fn leaves(&self, block: BlockId) -> Option<bool> {
        let insts = &self.body.blocks[block].insts;
        let ops = || insts.iter().map(|inst| &self.body.insts[*inst].op);
        let last = insts.last().map(|inst| &self.body.insts[*inst].op);
        if !matches!(last, Some(Op::Return(_))) {
            return None;
        }
        let to_stack = |op: &Op| match op {
            Op::Generate { event, .. } => self.program.events[*event].name == "stack_recv",
            _ => false,
        };
        let plain = |op: &Op| to_stack(op) || matches!(op, Op::Reset { .. } | Op::Return(_));
        let resets = self.cursor == 0 || ops().any(|op| matches!(op, Op::Reset { .. }));
        Some(ops().all(plain) && ops().filter(|op| to_stack(op)).count() == 1 && resets)
    }

    /// Takes a branch that leaves if `cond` is `when`; says whether what follows can still be
    /// followed.
    fn check(&mut self, cond: ValueId, when: bool, unread: bool) -> bool {
        match (self.known.get(&cond).copied(), when) {
            (Some(Known::Fits), false) | (Some(Known::Short), true) => {
                self.least = self.least.max(self.cursor);
                self.cursor <= REACH
            }
            (Some(Known::Differs(part, number)), true)
            | (Some(Known::Equal(part, number)), false)
                if unread =>
            {
                self.rule(part, number);
                true
            }
            _ => unread,
        }
    }

    fn rule(&mut self, part: Part, number: u64) {
        let (mask, value) = (part.mask << part.shift, (number & part.mask) << part.shift);
        // A number that the part cannot have: no frame gets past, and no rule says so.
        if number & !part.mask != 0 {
            return;
        }
        for at in 0..8 {
            let (mask, value) = ((mask >> (8 * at)) as u8, (value >> (8 * at)) as u8);
            if mask != 0 && part.byte + at < REACH {
                self.bytes.push((part.byte + at, mask, value));
                self.least = self.least.max((part.byte + at) / 4 * 4 + 4);
            }
        }
    }

    fn part(&self, value: ValueId) -> Option<Part> {
        match self.known.get(&value) {
            Some(Known::Part(part)) => Some(*part),
            Some(Known::Header(at, Type::Int { bits, .. })) if *bits <= 64 => {
                Some(Part { byte: *at, shift: 0, mask: u64::MAX >> (64 - u32::from(*bits)) })
            }
            _ => None,
        }
    }

    /// Facts about a pure op's result.
    fn computed(&self, op: &Op, ty: Type) -> Option<Known> {
        match op {
            Op::Un(UnOp::Not, value) => match self.known.get(value)? {
                Known::Fits => Some(Known::Short),
                Known::Short => Some(Known::Fits),
                Known::Equal(part, number) => Some(Known::Differs(*part, *number)),
                Known::Differs(part, number) => Some(Known::Equal(*part, *number)),
                _ => None,
            },
            Op::Get { agg, path } => {
                let Some(Known::Header(at, ty)) = self.known.get(agg) else { return None };
                self.field(*at, *ty, path).map(Known::Part)
            }
            Op::Cast(value) => {
                let (part, bits) = (self.part(*value)?, u32::from(ty.bits()?));
                let mask = part.mask & u64::MAX >> 64u32.saturating_sub(bits).min(63);
                Some(Known::Part(Part { mask, ..part }))
            }
            Op::Bin(BinOp::And, a, b) => {
                let (part, mask) = match (self.number(*a), self.number(*b)) {
                    (_, Some(mask)) => (self.part(*a)?, mask),
                    (Some(mask), _) => (self.part(*b)?, mask),
                    _ => return None,
                };
                Some(Known::Part(Part { mask: part.mask & mask, ..part }))
            }
            Op::Cmp(op @ (CmpOp::Eq | CmpOp::Ne), a, b) => {
                let (part, number) = match (self.number(*a), self.number(*b)) {
                    (_, Some(number)) => (self.part(*a)?, number),
                    (Some(number), _) => (self.part(*b)?, number),
                    _ => return None,
                };
                Some(if *op == CmpOp::Eq {
                    Known::Equal(part, number)
                } else {
                    Known::Differs(part, number)
                })
            }
            _ => None,
        }
    }

    /// Where an integer member of a header is. Headers are packed; what a struct leaves out between
    /// members is in no frame.
    fn field(&self, at: u32, ty: Type, path: &[Proj]) -> Option<Part> {
        let (mut bit, mut ty, mut width) = (8 * at, ty, None);
        for step in path {
            match (step, ty) {
                (Proj::Field(number), Type::Struct(id)) => {
                    let field = &self.program.structs[id].fields[*number as usize];
                    bit += self.program.struct_layout(id).1.get(*number as usize)?.bit_offset;
                    (ty, width) = (field.ty, field.bit_width.map(u32::from));
                }
                (Proj::Index(index), Type::Array(id)) => {
                    let array = &self.program.arrays[id];
                    let index =
                        self.number(*index).filter(|index| *index < u64::from(array.len))?;
                    bit += 8 * index as u32 * self.program.size_of(array.elem);
                    ty = array.elem;
                }
                _ => return None,
            }
        }
        let Type::Int { bits, signed: false, .. } = ty else { return None };
        let width = width.unwrap_or(u32::from(bits));
        // A part that begins inside a byte and has all 64 bits would not fit a word.
        if width + bit % 8 > 64 {
            return None;
        }
        Some(Part { byte: bit / 8, shift: bit % 8, mask: u64::MAX >> (64 - width) })
    }
}

#[cfg(test)]
mod tests {
    use nicforge_ir::text::parse;

    use super::*;

    const HEAD: &str = "program checks ports 1
struct eth packed { dst: u32, low: u16, src: u32, rest: u16, type: u16 be }
struct ip packed { ihl: u8 : 4, version: u8 : 4, tos: u8 }
event net_recv(pkt: packet) in
event net_send(pkt: packet, port: u32) out
event stack_recv(pkt: packet) out
reason \"short\"

handler net_recv on net_recv(%pkt: packet) {
  %0: u1, %eth: eth = extract %pkt
  %1: u1 = not %0
  if %1 {
    drop %pkt, \"short\"
    return
  }
";
    const TYPE: &str = "  %7: u16 = get %eth.type
  %8: u16 = 8
  %9: u1 = ne %7, %8
  if %9 {
    reset %pkt
    generate stack_recv(%pkt)
    return
  }
";
    const VERSION: &str = "  %ok: u1, %ip: ip = extract %pkt
  if %ok {
  } else {
    reset %pkt
    generate stack_recv(%pkt)
    return
  }
  %10: u8 = get %ip.version
  %11: u8 = 4
  %12: u1 = eq %10, %11
  if %12 {
  } else {
    reset %pkt
    generate stack_recv(%pkt)
    return
  }
";
    const END: &str = "  reset %pkt
  %port: u32 = 0
  generate net_send(%pkt, %port)
  return
}
";

    fn of(parts: &[&str]) -> Rules {
        let program = parse(&parts.concat()).unwrap_or_else(|e| panic!("{e}"));
        rules(&program)
    }

    #[test]
    fn checks_of_one_word_are_one_rule() {
        let found = of(&[HEAD, TYPE, VERSION, END]);
        assert_eq!(found.words, [WordRule { word: 3, mask: 0xffff_f000, value: 0x0800_4000 }]);
        assert_eq!(found.least, 16);
    }

    #[test]
    fn what_does_something_else_ends_the_rules() {
        let sends = "  %on: u32 = 0
  %d: u32 = get %eth.dst
  %z: u32 = 7
  %e: u1 = eq %d, %z
  if %e {
    reset %pkt
    generate net_send(%pkt, %on)
    return
  }
";
        assert_eq!(
            of(&[HEAD, sends, TYPE, END]),
            Rules::default(),
            "some frames of other types are sent"
        );
        let before = of(&[HEAD, TYPE, sends, VERSION, END]);
        assert_eq!(before.words, [WordRule { word: 3, mask: 0xffff_0000, value: 0x0800_0000 }]);
    }

    #[test]
    fn checks_that_are_no_rules_are_left_to_the_handler() {
        let less = "  %l: u32 = get %eth.src
  %m: u32 = 9
  %n: u1 = lt %l, %m
  if %n {
    reset %pkt
    generate stack_recv(%pkt)
    return
  }
";
        assert_eq!(of(&[HEAD, less, TYPE, VERSION, END]), of(&[HEAD, TYPE, VERSION, END]));
        let changed = "  reset %pkt
  generate stack_recv(%pkt)
  return
}
";
        assert_eq!(of(&[HEAD, changed]), Rules::default());
    }
}
