//! Random verified programs, for differential tests of passes and code generators.
//!
//! A program is a function of a list of numbers, its *decisions*: whenever the generator must
//! choose, it takes the next one, and 0 when there are none left, which always stands for the
//! simplest choice. So every list gives a valid program, shorter lists give smaller programs, and
//! [`shrink`] can make a failing program small by cutting the list without knowing anything about
//! programs.
//!
//! Every program has one handler, of `net_recv`, everything in it is bounded, and what it computes
//! shows: values are emitted, logged and stored in tables before the packet leaves.

mod body;
mod bytes;
mod ops;

use crate::io::{Input, InputEvent, random};
use crate::program::{
    Body, ConstArray, Direction, DropReason, Event, Func, Handler, Param, Program, Table, TableKind,
};
use crate::span::Span;
use crate::types::{Field, StructDef, Type};
use crate::verify::{Verified, verify};

/// Constructs that random programs may contain.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Integers of widths that C has no type for.
    pub odd_widths: bool,
    /// Byte strings in table entries.
    pub bufs: bool,
    /// LRU tables, whose evictions only the interpreter defines.
    pub lru: bool,
    /// `log`, whose lines are outputs.
    pub logs: bool,
    /// `random` and `now`.
    pub time_and_random: bool,
    /// `extend`, which hardware lacks.
    pub software: bool,
    /// `new_packet` and `least`.
    pub made: bool,
    /// Nothing but arithmetic and aggregates on values from the packet, every one of which shows:
    /// for rules about single ops, which control flow would hide.
    pub arithmetic_only: bool,
    /// Loops of one byte a trip: copies, comparisons, moves from and to the packet, and loops that
    /// differ from these in a little.
    pub byte_loops: bool,
    /// Copies of packets, to ports and to the host.
    pub copies: bool,
}

impl Options {
    /// Everything the interpreter and every code generator run, each what it can.
    pub const ALL: Options = Options {
        odd_widths: true,
        bufs: true,
        lru: true,
        logs: true,
        time_and_random: true,
        software: false,
        made: false,
        arithmetic_only: false,
        byte_loops: false,
        copies: false,
    };
    /// What every code generator runs the same way: no odd widths, no LRU tables.
    pub const PORTABLE: Options = Options { odd_widths: false, lru: false, ..Options::ALL };
    /// Portable programs with packets that become longer at their end or are made from nothing.
    pub const GROWING: Options = Options { software: true, made: true, ..Options::PORTABLE };
    /// Growing programs with loops over bytes.
    pub const BYTES: Options = Options { byte_loops: true, ..Options::GROWING };
    /// Arithmetic and aggregates only.
    pub const ARITHMETIC: Options = Options { arithmetic_only: true, ..Options::ALL };

    /// Options for a seed: the programs of every fifth have loops over bytes too, those of another
    /// fifth copies of packets.
    pub fn for_seed(self, seed: u64) -> Options {
        Options { byte_loops: seed % 5 == 2, copies: seed % 5 == 3, ..self }
    }
}

/// Decisions that have not been taken yet.
pub struct Decisions<'a> {
    rest: std::slice::Iter<'a, u32>,
}

impl<'a> Decisions<'a> {
    pub fn new(list: &'a [u32]) -> Decisions<'a> {
        Decisions { rest: list.iter() }
    }

    /// A number below `n` (which is not 0); 0 when the list is at its end.
    fn below(&mut self, n: usize) -> usize {
        self.raw() as usize % n
    }

    /// True if decisions are left: without, only what ends the program is still made.
    fn are_left(&self) -> bool {
        self.rest.len() > 0
    }

    fn raw(&mut self) -> u32 {
        self.rest.next().copied().unwrap_or(0)
    }

    /// True once in `n` times.
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }
}

/// The decisions of a seed: enough for a program of some 80 ops.
pub fn decisions(seed: u64) -> Vec<u32> {
    // Some seeds give short lists, so that small programs are common too.
    let len = 50 + random(seed, 0) as u64 % 600;
    (1..=len).map(|i| random(seed, i)).collect()
}

/// The program of a seed.
pub fn generate(seed: u64, options: Options) -> Verified<Program> {
    generate_from(&decisions(seed), options)
}

/// The program of a list of decisions.
///
/// # Panics
///
/// If the generator made a program that does not verify, which would be a bug in it.
pub fn generate_from(list: &[u32], options: Options) -> Verified<Program> {
    let program = build(&mut Decisions::new(list), options);
    let text = crate::text::print(&program, crate::text::PrintOptions::default());
    verify(program)
        .unwrap_or_else(|errors| panic!("the generator made a bad program: {}\n{text}", errors[0]))
}

/// The smallest list found by cutting and zeroing decisions for which `fails` still holds. `fails`
/// must hold for `list`. Takes at most some thousand calls of `fails`.
pub fn shrink(list: &[u32], mut fails: impl FnMut(&[u32]) -> bool) -> Vec<u32> {
    let mut best = list.to_vec();
    let mut calls = 0;
    let mut size = best.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < best.len() && calls < 3000 {
            let end = (at + size).min(best.len());
            let cut: Vec<u32> = best[..at].iter().chain(&best[end..]).copied().collect();
            let mut zeroed = best.clone();
            zeroed[at..end].fill(0);
            let smaller = [cut, zeroed].into_iter().find(|list| {
                calls += 1;
                *list != best && fails(list)
            });
            match smaller {
                Some(list) => best = list,
                None => at += size,
            }
        }
        size /= 2;
    }
    best
}

/// Random events for a random program: short and longer frames whose bytes are often small, so that
/// keys repeat.
pub fn events(seed: u64, count: usize) -> Vec<InputEvent> {
    (0..count as u64)
        .map(|i| {
            let number = |n| random(seed ^ 0x5eed, i * 128 + n);
            let len = [0, 3, 14, 20, 33, 60, 64, 100][number(0) as usize % 8];
            let byte = |n: u64| match number(n + 5) {
                raw if raw % 3 == 0 => (raw >> 8) as u8,
                raw => (raw >> 8) as u8 & 3,
            };
            let frame = (0..len).map(byte).collect();
            let input = Input::Net { port: number(1) % 2, frame };
            InputEvent {
                time_ns: 1_000_000 + i * 1000 + number(2) as u64 % 1000,
                seed: number(3) as u64,
                input,
            }
        })
        .collect()
}

fn build(d: &mut Decisions, options: Options) -> Program {
    let mut program = Program::new("generated");
    program.ports = 2;
    declare(&mut program, options);
    if !options.arithmetic_only {
        mixed(&mut program, d);
    }
    let types = types(&mut program, d, options);
    // A function of integers, one that reads the packet, one that gives it away.
    let funcs = d.below(4);
    for i in 0..funcs {
        let (params, results, gives): (Vec<Type>, Vec<Type>, bool) = match i {
            0 => (vec![Type::U32, Type::i(16)], vec![Type::U32], false),
            1 => (vec![Type::Packet, Type::U32], vec![Type::BOOL, Type::U64], false),
            _ => (vec![Type::Packet], Vec::new(), true),
        };
        let mut func_body = Body::default();
        body::Gen::new(&program, &mut func_body, d, options, &types)
            .function(&params, &results, gives);
        let name = ["mix", "peek", "finish"][i].to_string();
        program.funcs.push(Func { name, results, body: func_body, span: Span::default() });
    }
    let mut handler_body = Body::default();
    body::Gen::new(&program, &mut handler_body, d, options, &types).handler();
    program.handlers.push(Handler {
        name: "net_recv".to_string(),
        event: program.event_named("net_recv").expect("declared above"),
        body: handler_body,
        max_replicas: None,
        unordered: false,
        side: None,
        room: None,
        span: Span::default(),
    });
    program
}

fn field(name: &str, ty: Type) -> Field {
    Field { name: name.to_string(), ty, bit_width: None, big_endian: false }
}

fn declare(program: &mut Program, options: Options) {
    let four = program.array_of(Type::U8, 4);
    let three = program.array_of(Type::U16, 3);
    let head = program.add_struct(StructDef {
        name: "head".to_string(),
        packed: true,
        fields: vec![
            field("a", Type::U8),
            Field { big_endian: true, ..field("b", Type::U16) },
            field("c", Type::U32),
            field("m", four),
        ],
    });
    let state = program.add_struct(StructDef {
        name: "state".to_string(),
        packed: false,
        fields: vec![
            field("x", Type::U64),
            Field { bit_width: Some(3), ..field("f", Type::U8) },
            // A bit of the byte is left over.
            Field { bit_width: Some(4), ..field("g", Type::U8) },
            field("n", Type::i(32)),
            field("list", three),
            field("inner", Type::Struct(head)),
        ],
    });
    program.add_struct(StructDef {
        name: "key".to_string(),
        packed: false,
        // Unused bits and a hole.
        fields: vec![
            Field { bit_width: Some(11), ..field("lo", Type::U16) },
            field("hi", Type::U32),
        ],
    });
    let key = program.structs.keys().next_back().map(Type::Struct).unwrap_or(Type::U32);
    let mut table = |name: &str, kind, key, value, buf| {
        let name = name.to_string();
        program.tables.push(Table {
            key_big_endian: false,
            name,
            kind,
            key,
            value,
            capacity: 4,
            buf,
            max_replicas: None,
            by_number: false,
            shared: false,
            span: Span::default(),
        });
    };
    table("states", TableKind::Hash, Type::U32, Type::Struct(state), options.bufs.then_some(64));
    table("pairs", TableKind::Hash, key, Type::U32, None);
    table("slots", TableKind::Array, Type::U32, Type::Struct(state), None);
    if options.lru {
        table("recent", TableKind::Lru, Type::U32, Type::U64, None);
    }
    program.consts.push(ConstArray {
        name: "weights".to_string(),
        elem: Type::U16,
        bytes: (0..10).collect(),
        span: Span::default(),
    });
    let packet = |borrowed| Param { name: "pkt".to_string(), ty: Type::Packet, borrowed };
    let port = Param { name: "port".to_string(), ty: Type::U32, borrowed: false };
    let mut event = |name: &str, direction, params| {
        program.events.push(Event {
            name: name.to_string(),
            direction,
            params,
            zeros: 0,
            period: None,
        });
    };
    event("net_recv", Direction::In, vec![packet(false)]);
    event("net_send", Direction::Out, vec![packet(false), port.clone()]);
    event("stack_recv", Direction::Out, vec![packet(false)]);
    if options.copies {
        event("net_copy", Direction::Out, vec![packet(true), port]);
        event("host_copy", Direction::Out, vec![packet(true)]);
    }
    for text in ["first", "second"] {
        program.reasons.push(DropReason { text: text.to_string(), span: Span::default() });
    }
}

/// A struct of anything: numbers, parts of a byte, arrays, structs in arrays.
fn mixed(program: &mut Program, d: &mut Decisions) {
    let mut fields = Vec::new();
    let mut bytes = 0;
    for at in 0..1 + d.below(4) {
        let bits = [8, 16, 32, 64][d.below(4)];
        let number = if d.one_in(3) { Type::i(bits) } else { Type::u(bits) };
        let of = match d.below(6) {
            5 => Type::Struct(program.structs.keys().nth(d.below(3)).expect("they are declared")),
            _ => number,
        };
        let ty = match d.below(3) {
            2 => program.array_of(of, 1 + d.below(12) as u32),
            _ => of,
        };
        // What a variable of the stack may take.
        bytes += program.size_of(ty);
        if bytes > 64 {
            break;
        }
        let narrow = ty == number && d.one_in(3);
        fields.push(Field {
            bit_width: narrow.then(|| 1 + d.below(usize::from(bits)) as u8),
            big_endian: !narrow && ty == number && bits > 8 && d.one_in(4),
            ..field(&format!("m{at}"), ty)
        });
    }
    if fields.is_empty() {
        fields.push(field("m0", Type::U8));
    }
    let packed = d.one_in(3);
    program.add_struct(StructDef { name: "mixed".to_string(), packed, fields });
}

/// The types that values of a program have: few, so that values meet others of their type. All of
/// them where rules about single ops are the matter.
fn types(program: &mut Program, d: &mut Decisions, options: Options) -> Vec<Type> {
    let mut ints: Vec<Type> =
        [8, 16, 32, 64].into_iter().flat_map(|bits| [Type::u(bits), Type::i(bits)]).collect();
    if options.odd_widths {
        ints.extend([Type::u(12), Type::i(5), Type::u(33)]);
    }
    let mut aggregates: Vec<Type> = program.structs.keys().map(Type::Struct).collect();
    aggregates.push(program.array_of(Type::U16, 3));
    if !options.arithmetic_only {
        few(d, &mut ints, 3);
        few(d, &mut aggregates, 2);
    }
    if options.byte_loops {
        aggregates.push(program.array_of(Type::U8, 16));
        let bytes = program.array_of(Type::U8, 12);
        let text = StructDef {
            name: "text".to_string(),
            packed: false,
            fields: vec![
                field("len", Type::U8),
                field("kind", Type::U16),
                field("bytes", bytes),
                field("sum", Type::U32),
            ],
        };
        aggregates.push(Type::Struct(program.add_struct(text)));
    }
    // Most ops give truth, or are about numbers of this width.
    let always = [Type::BOOL, Type::U32].into_iter().filter(|ty| !ints.contains(ty));
    let mut types: Vec<Type> = always.collect();
    types.extend(ints);
    types.extend(aggregates);
    types
}

/// Leaves so many of a list.
fn few(d: &mut Decisions, list: &mut Vec<Type>, count: usize) {
    while list.len() > count {
        list.remove(d.below(list.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interp::Interp;
    use crate::io::Output;
    use crate::ops::ROWS;
    use crate::text::{PrintOptions, parse, print};

    #[test]
    fn programs_verify_round_trip_and_run() {
        let options = PrintOptions { spans: true };
        let (mut sends, mut drops, mut insts) = (0, 0, 0);
        for seed in 0..400 {
            let of = if seed % 4 == 3 { Options::BYTES } else { Options::ALL };
            let program = generate(seed, of);
            let text = print(&program, options);
            let again = verify(parse(&text).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}")))
                .unwrap();
            assert_eq!(print(&again, options), text, "seed {seed}");
            insts += program.handlers.values().map(|h| h.body.insts.len()).max().unwrap_or(0);
            let (mut one, mut two) = (Interp::new(&program), Interp::new(&again));
            for event in events(seed, 8) {
                let outputs = one.run(&event).unwrap();
                assert_eq!(
                    outputs,
                    two.run(&event).unwrap(),
                    "seed {seed}: the text form loses meaning"
                );
                sends += outputs.iter().filter(|o| matches!(o, Output::Send { .. })).count();
                drops += outputs.iter().filter(|o| matches!(o, Output::Drop { .. })).count();
            }
        }
        assert!(
            sends > 400 && drops > 100,
            "{sends} sends and {drops} drops: the programs are too much alike"
        );
        assert!((20_000..80_000).contains(&insts), "{insts} instructions in 400 programs");
    }

    #[test]
    fn every_op_occurs() {
        let mut text = String::new();
        for seed in 0..300 {
            text.push_str(&print(&generate(seed, Options::ALL), PrintOptions::default()));
            text.push_str(&print(&generate(seed, Options::GROWING), PrintOptions::default()));
        }
        // Constants have no word, generated C has ciphers and tables of prefixes, and the rest is
        // not the same in every run.
        let absent = ["int", "crypto", "extern", "fib_lookup", "lookup_bits", ""];
        let words = ROWS.iter().flat_map(|row| row.words().iter().copied().chain([row.word()]));
        let missing: Vec<&str> = words
            .filter(|word| !absent.contains(word))
            .filter(|word| !text.split_whitespace().any(|found| found == *word))
            .collect();
        assert_eq!(missing, [""; 0]);
    }

    #[test]
    fn shrinking_finds_what_matters() {
        let list = decisions(3);
        let fails = |list: &[u32]| {
            print(&generate_from(list, Options::ALL), PrintOptions::default()).contains("emit")
        };
        let seed = (0..).find(|seed| fails(&decisions(*seed))).unwrap_or(0);
        let small = shrink(&decisions(seed), fails);
        assert!(
            fails(&small) && small.len() < list.len() / 4,
            "{} decisions are left",
            small.len()
        );
    }
}
