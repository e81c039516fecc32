use super::*;
use crate::program::Program;

const ALL: PrintOptions = PrintOptions { spans: true };

/// One program with every kind of item, name and literal, and one handler per group of ops.
const EVERYTHING: &str = include_str!("everything.air");

fn message(text: &str) -> String {
    parse(text).expect_err("the text must be refused").to_string()
}

#[test]
fn what_is_printed_parses_to_the_same_text() {
    let program = parse(EVERYTHING).unwrap();
    let text = print(&program, ALL);
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/text/everything.air");
    nicforge_filetest::expect(&path, &text).unwrap_or_else(|why| panic!("{why}"));
    let plain = print(&program, PrintOptions::default());
    assert!(!plain.contains('@') && !plain.contains("file"));
    assert_eq!(print(&parse(&plain).unwrap(), PrintOptions::default()), plain);
}

#[test]
fn names_and_spans_survive() {
    let program = parse(EVERYTHING).unwrap();
    let handler = &program.handlers.values().next().unwrap();
    let names: Vec<_> = handler.body.values.values().filter_map(|v| v.name.as_deref()).collect();
    assert_eq!(&names[..5], ["pkt", "ok", "eth", "eth", "a.b"]);
    assert_eq!((handler.span.start, handler.span.end), (10, 20));
    assert_eq!(
        program.files.values().map(|f| f.path.as_str()).collect::<Vec<_>>(),
        ["dir/a file.c", "b\"\u{7f}.h"]
    );
}

#[test]
fn items_may_refer_to_later_ones() {
    let text = "program p ports 1
        handler h on e(%a: s) { %x: u32 = call f(%a) return }
        func f(%a: s) -> (u32) { %x: u32 = get %a.m return %x }
        event e(a: s) in
        struct s { m: u32 }";
    let program = parse(text).unwrap();
    assert!(print(&program, ALL).contains("get %a.m"));
}

#[test]
fn an_empty_else_and_an_empty_yield_may_be_left_out() {
    let short = parse("program p ports 1 func f(%c: u1) { if %c { } return }").unwrap();
    let long = parse("program p ports 1 func f(%c: u1) { if %c { yield } else { yield } return }")
        .unwrap();
    assert_eq!(print(&short, ALL), print(&long, ALL));
    let body = &short.funcs.values().next().unwrap().body;
    assert_eq!(body.insts.values().filter(|i| i.op == crate::Op::Yield(vec![])).count(), 2);
}

#[test]
fn refusals_say_where_and_why() {
    let cases = [
        ("", "1:1: expected `program NAME ports N`, found the end of the text"),
        ("program p ports 1\nstruct s { a: u65 }", "2:15: there is no struct `u65`"),
        (
            "program p ports 1\nstruct s { a: u8 : 9 }",
            "2:20: a bit-field of type u8 cannot be 9 bits wide",
        ),
        (
            "program p ports 1 table t: heap[u8 -> u8] capacity 1",
            "1:28: `heap` is no table kind; there are hash, array, lru, lpm, ternary",
        ),
        ("program p ports 1 const c: u8 = [256]", "1:34: 256 does not fit u8"),
        ("program p ports 1 const c: i8 = [-129]", "1:35: -129 does not fit i8"),
        (
            "program p ports 1 func f() { %a: u8 = add %b, %b }",
            "1:43: `%b` is not defined before this point",
        ),
        (
            "program p ports 1 func f() { %a: u8 = 1 %a: u8 = 2 }",
            "1:41: `%a` is defined twice in this body",
        ),
        ("program p ports 1 func f() { jump }", "1:30: there is no operation `jump`"),
        (
            "program p ports 1 func f() { log \"x() }",
            "1:34: the string has no closing `\"` on its line",
        ),
        (
            "program p ports 1 func f(%a: u8) { %b: u8 = get %a.x }",
            "1:52: there is no member `x`: this is no struct",
        ),
        (
            "program p ports 1 func f() { return ",
            "1:37: expected an operation, found the end of the text",
        ),
        ("program p ports 1 func f() { return } }", "1:39: expected the next item, found `}`"),
        ("program p ports 1 func f() { return @0:1-2 }", "1:38: there is no file number 0"),
        ("program p ports 1 reason \"é\" $", "1:30: the character '$' means nothing here"),
        ("program p ports 99999999999", "1:17: the number of ports must fit 32 bits"),
        ("program p ports 99999999999999999999", "1:17: the number does not fit 64 bits"),
    ];
    for (text, expected) in cases {
        assert_eq!(message(text), expected, "for {text:?}");
    }
}

#[test]
fn nesting_is_limited() {
    let nested = |depth: usize| {
        let open = "if %c {".repeat(depth);
        format!("program p ports 1 func f(%c: u1) {{ {open} {} return }}", "}".repeat(depth))
    };
    let deepest = parse(&nested(MAX_NESTING)).unwrap();
    let text = print(&deepest, ALL);
    assert_eq!(print(&parse(&text).unwrap(), ALL), text);
    assert!(message(&nested(MAX_NESTING + 1)).contains("regions nest deeper than 256"));
    assert!(
        message(&format!("program p ports 1 const c: u8{} = hex \"\"", "[1]".repeat(17)))
            .contains("dimensions")
    );
}

#[test]
fn broken_programs_still_print() {
    let mut program = parse("program p ports 1 func f(%c: u1) { if %c { } return }").unwrap();
    let body = &mut program.funcs.values_mut().next().unwrap().body;
    let entry = body.entry();
    let looped = body.blocks[entry].insts[0];
    if let crate::Op::If { then, .. } = &mut body.insts[looped].op {
        *then = entry;
    }
    assert!(print(&program, ALL).contains("?region used twice"));
    program.funcs.values_mut().next().unwrap().body.entry = None;
    assert!(print(&program, ALL).contains("func f()"));
}

#[test]
fn mutilated_text_never_panics() {
    // Prefixes, and single-byte changes of a few kinds.
    for cut in (0..EVERYTHING.len()).step_by(5) {
        crate::fuzz::text(&EVERYTHING.as_bytes()[..cut]);
    }
    let mut bytes = EVERYTHING.as_bytes().to_vec();
    for i in 0..bytes.len() {
        let old = bytes[i];
        bytes[i] = [b'0', b'%', b'}', b'a', b'"', b'.', 0xff][i % 7];
        crate::fuzz::text(&bytes);
        bytes[i] = old;
    }
}

/// A program with nothing in it prints to its first line.
#[test]
fn an_empty_program_is_one_line() {
    assert_eq!(print(&Program::new("p"), ALL), "program p ports 1\n");
}
