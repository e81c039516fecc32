use super::*;
use crate::text::parse;

/// Declarations for the bodies below.
const DECLS: &str = r#"program p ports 2
struct mac { b: u8[6] }
struct eth packed { dst: mac, src: mac, type: u16 be }
struct conn { count: u32, small: u8 : 4, wide: u64[2] }
table conns: hash[u32 -> conn] capacity 4 buf 100
table slots: array[u32 -> u32] capacity 4
table routes: lpm[u32 -> u32] capacity 4
const weights: u16 = [1, 2, 3]
event net_recv(pkt: packet) in
event net_send(pkt: packet, port: u32) out
event dma_write(pkt: packet borrowed, addr: u64, len: u32) out
event host_recv(pkt: packet) out
event again(pkt: packet) internal
reason "no"
func eat(%p: packet) { drop %p, "no" return }
func look(%p: packet) -> (u32) { %n: u32 = len %p return %n }
handler again on again(%p: packet) { drop %p, "no" return }
"#;

/// The messages of a program whose handler has this body.
fn errors_of(body: &str) -> Vec<String> {
    errors(&format!("{DECLS}handler net_recv on net_recv(%pkt: packet) {{ {body} }}"))
}

fn errors(text: &str) -> Vec<String> {
    match verify(parse(text).unwrap()) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.into_iter().map(|e| e.message).collect(),
    }
}

/// Each body must have exactly one error, with this text in it.
fn refused(cases: &[(&str, &str)]) {
    for (body, expected) in cases {
        let found = errors_of(body);
        assert!(
            found.len() == 1 && found[0].contains(expected),
            "{body}\n  expected: {expected}\n  found: {found:?}"
        );
    }
}

fn accepted(bodies: &[&str]) {
    for body in bodies {
        assert_eq!(errors_of(body), Vec::<String>::new(), "{body}");
    }
}

const DROP: &str = "drop %pkt, \"no\" return";

fn with_drop<'a>(cases: &[(&'a str, &'a str)]) -> Vec<(String, &'a str)> {
    cases.iter().map(|(body, message)| (format!("{body} {DROP}"), *message)).collect()
}

fn refused_then_drop(cases: &[(&str, &str)]) {
    let cases = with_drop(cases);
    refused(&cases.iter().map(|(body, message)| (body.as_str(), *message)).collect::<Vec<_>>());
}

#[test]
fn good_bodies() {
    accepted(&[
        DROP,
        "%ok: u1, %e: eth = extract %pkt if %ok { call eat(%pkt) return } generate again(%pkt) return",
        "%n: u32 = call look(%pkt) generate net_send(%pkt, %n) return",
        "%a: u32 = 0 loop 8 (%i: u32 = %a) -> (%j: u32) { %c: u1 = eq %i, %i if %c { drop %pkt, \"no\" return } \
         continue 0 (%i) } drop %pkt, \"no\" return",
        // A loop that runs once may give packets away, if all ways out agree: inlined functions
        // look like this.
        "%c: u1 = 1 loop 1 { if %c { drop %pkt, \"no\" break 0 } generate again(%pkt) break 0 } return",
        // A loop without `continue` runs once at most.
        "loop 5 { drop %pkt, \"no\" break 0 } return",
        "%k: u32 = 1 %i: u32 = 1 %v: u64 = 5 commute add conns[%k].wide[%i], %v drop %pkt, \"no\" return",
        "%a: u64 = 0 %n: u32 = 4 generate dma_write(%pkt, %a, %n) generate host_recv(%pkt) return",
    ]);
}

#[test]
fn places_and_spans_are_given() {
    let text = format!(
        "{DECLS}handler net_recv on net_recv(%pkt: packet) {{ %a: u8 = 1 %b: u16 = add %a, %a {DROP} }}"
    );
    let text = text.replace("ports 2", "ports 2 file \"x.c\"").replace("%a, %a", "%a, %a @0:7-9");
    let found = verify(parse(&text).unwrap()).unwrap_err();
    assert_eq!(found[0].place, "handler `net_recv`, `%b: u16 = add %a, %a`");
    assert_eq!(
        (found[0].span.start, found[0].message.as_str()),
        (7, "the results are (u16) but must be (u8)")
    );
}

#[test]
fn operand_and_result_types() {
    refused_then_drop(&[
        ("%a: u8 = 1 %b: u16 = 1 %c: u8 = add %a, %b", "the second operand must be u8, not u16"),
        ("%a: mac = zero %b: mac = add %a, %a", "an operand must be an integer, not mac"),
        ("%a: u8 = 1 %b: u8 = lt %a, %a", "the results are (u8) but must be (u1)"),
        ("%a: u8 = 1 %b: i8 = not %a", "the results are (i8) but must be (u8)"),
        ("%a: u8 = 1 %b: u8 = bswap %a", "bytes of u8 cannot be swapped"),
        ("%a: mac = zero %b: u8 = cast %a", "the operand must be an integer"),
        ("%a: u8 = 1 %b: mac = cast %a", "an integer cannot become a mac"),
        ("%a: u8 = 1 %b: u8 = select %a, %a, %a", "the condition must be u1, not u8"),
        ("%c: u1 = 1 %b: packet = select %c, %pkt, %pkt", "no operation makes a packet"),
        ("%a: mac = 5", "an integer constant cannot be a mac"),
        ("int 5", "there must be one result, not 0"),
        ("%a: eth = zero %b: u8 = get %a.type", "the results are (u8) but must be (u16)"),
        ("%a: eth = zero %b: u8 = get %a.#9", "the path does not fit type eth"),
        ("%a: eth = zero %i: u8 = 1 %b: u8 = get %a[%i]", "the path does not fit type eth"),
        ("%a: eth = zero %i: mac = zero %b: u8 = get %a.dst.b[%i]", "an index must be an integer"),
        ("%a: eth = zero %v: u8 = 1 %b: eth = set %a.type, %v", "the new part must be u16, not u8"),
        ("%i: u8 = 1 %b: u8 = const_elem weights[%i]", "the results are (u8) but must be (u16)"),
        ("%i: u8 = 1 %b: u32 = hash %i, %i", "the first operand must be u32, not u8"),
        ("%i: u32 = 1 %b: u32 = csum_add %i, %pkt", "the value cannot be a packet"),
        ("%b: u32 = now", "the results are (u32) but must be (u64)"),
        ("%b: u64 = random", "the results are (u64) but must be (u32)"),
        ("%c: u8 = 1 if %c { }", "the condition must be u1, not u8"),
        ("%c: u8 = 1 log \"{} {}\"(%c)", "the format has 2 places {} for 1 arguments"),
        ("log \"{}\"(%pkt)", "an argument must be an integer, not packet"),
        ("%q: u8 = 1 %a: u1, %b: u8 = fib_lookup %q", "the query must be a struct"),
        ("%n: u8 = call look(%pkt)", "the results are (u8) but must be (u32)"),
        ("%n: u32 = call look()", "function `look` takes (packet), not ()"),
    ]);
}

#[test]
fn packet_ops() {
    refused_then_drop(&[
        ("%n: u32 = 1 %m: u32 = len %n", "expected a packet, not u32"),
        ("%e: eth = extract %pkt", "the results must be (u1, value), not (eth)"),
        ("%n: u16 = 1 %a: u1, %b: u8 = load %pkt, %n", "the offset must be u32, not u16"),
        ("%n: u32 = 1 store %pkt, %n, %n", "the results are () but must be (u1)"),
        ("%n: u64 = 1 %a: u1 = skip %pkt, %n", "the length must be u32, not u64"),
        ("emit %pkt, %pkt", "the value cannot be a packet"),
        ("%n: u64 = 1 %m: u32 = 1 %a: u32 = pkt_csum %pkt, %n, %m", "the sum must be u32, not u64"),
        ("%a: u16 = in_port %pkt", "the results are (u16) but must be (u32)"),
    ]);
}

#[test]
fn table_ops_fit_the_kind() {
    refused_then_drop(&[
        ("%k: u16 = 1 %h: u1, %v: conn = lookup conns[%k]", "the key must be u32, not u16"),
        (
            "%k: u32 = 1 %h: u1, %v: u32 = lookup conns[%k]",
            "the results are (u1, u32) but must be (u1, conn)",
        ),
        ("%k: u32 = 1 %h: u1 = update conns[%k], %k", "the value must be conn, not u32"),
        (
            "%k: u32 = 1 %h: u1 = delete routes[%k]",
            "table `routes` is of kind lpm, which only the control plane fills and empties",
        ),
        (
            "%k: u32 = 1 %h: u1, %v: conn = lookup_bits conns[%k], %k",
            "`lookup_bits` is for lpm tables, unlike `conns`",
        ),
        ("%k: u32 = 1 %h: u1 = delete slots[%k]", "always exist and cannot be deleted"),
        (
            "%k: u32 = 1 %v: u8 = 1 commute add conns[%k].small, %v",
            "bit-field `small` cannot be updated",
        ),
        (
            "%k: u32 = 1 %v: u64 = 1 commute add conns[%k].wide[%k], %k",
            "the amount must be u64, not u32",
        ),
        (
            "%k: u32 = 2 %v: u64 = 1 commute add conns[%k].wide[%k], %v",
            "must be a constant in range",
        ),
        (
            "%k: u32 = random %v: u64 = 1 commute add conns[%k].wide[%k], %v",
            "must be a constant in range",
        ),
        (
            "%k: u32 = 1 %v: conn = zero commute add conns[%k], %v",
            "`commute` takes the path to an integer",
        ),
        (
            "%k: u32 = 1 %n: u32 = buf_len slots[%k]",
            "the entries of table `slots` have no byte strings",
        ),
        (
            "%k: u32 = 1 %h: u1 = buf_append slots[%k], %k",
            "the entries of table `slots` have no byte strings",
        ),
        (
            "%k: u32 = 1 %h: u1 = buf_generate net_send conns[%k]",
            "leaves as net_send with a port or host_recv",
        ),
        (
            "%k: u32 = 1 %h: u1 = buf_generate host_recv conns[%k], port %k",
            "leaves as net_send with a port",
        ),
    ]);
}

#[test]
fn events() {
    refused(&[
        ("generate net_send(%pkt) return", "event `net_send` takes (packet, u32), not (packet)"),
        ("generate net_recv(%pkt) return", "event `net_recv` comes from outside"),
    ]);
    let text = format!(
        "{DECLS}event other(pkt: packet) internal handler net_recv on net_recv(%p: packet) {{ generate other(%p) return }}"
    );
    assert_eq!(errors(&text), ["no handler reacts to event `other`"]);
}

#[test]
fn regions_and_terminators() {
    refused(&[
        ("drop %pkt, \"no\"", "a region must end in yield, break, continue or return"),
        ("", "a region must end in yield, break, continue or return"),
        ("drop %pkt, \"no\" return return", "nothing may follow a terminator"),
        ("yield", "a body ends with `return`"),
        ("break 0", "depth 0 is out of range: 0 loops are around"),
        ("loop 2 { break 1 } return", "depth 1 is out of range: 1 loops are around"),
        ("loop 2 { yield } return", "a loop's region ends with `continue`"),
        ("%a: u8 = 1 return %a", "(u8) is given where () is due"),
    ]);
    refused_then_drop(&[
        (
            "%c: u1 = 1 if %c -> (%x: u8) { yield %c } else { %a: u8 = 1 yield %a }",
            "(u1) is given where (u8) is due",
        ),
        ("%c: u1 = 1 if %c -> (%x: u8) { %a: u8 = 1 yield %a }", "() is given where (u8) is due"),
        (
            "%c: u1 = 1 loop 2 (%i: u1 = %c) -> (%j: u1) { continue 0 }",
            "() is given where (u1) is due",
        ),
        (
            "%c: u1 = 1 loop 2 (%i: u1 = %c) -> (%j: u1) { break 0 }",
            "() is given where (u1) is due",
        ),
        ("%c: u1 = 1 loop 2 (%i: u1 = %c) { break 0 (%c) }", "of a loop must have the same types"),
        (
            "%c: u1 = 1 loop 2 (%i: u8 = %c) -> (%j: u1) { break 0 (%c) }",
            "of a loop must have the same types",
        ),
    ]);
}

#[test]
fn values_are_seen_where_they_are_visible() {
    refused_then_drop(&[
        (
            "%c: u1 = 1 if %c { %a: u8 = 1 } %b: u8 = not %a",
            "an operand is not defined before this point",
        ),
        (
            "%c: u1 = 1 if %c { %a: u8 = 1 } else { %b: u8 = not %a }",
            "an operand is not defined before this point",
        ),
        (
            "%c: u1 = 1 loop 1 (%i: u1 = %c) -> (%j: u1) { break 0 (%j) }",
            "an operand is not defined before",
        ),
    ]);
    // Text cannot use a value before its definition; a pass could.
    let text = format!("{DECLS}func f(%a: u8) {{ %b: u8 = not %a %c: u8 = not %b return }}");
    let mut program = parse(&text).unwrap();
    let body = &mut program.funcs.values_mut().last().unwrap().body;
    let entry = body.entry();
    body.blocks[entry].insts.swap(0, 1);
    assert!(verify(program.clone()).unwrap_err()[0].message.contains("not defined before"));
    let body = &mut program.funcs.values_mut().last().unwrap().body;
    let first = body.blocks[entry].insts[0];
    body.blocks[entry].insts[1] = first;
    assert!(
        verify(program).unwrap_err().iter().any(|e| e.message.contains("stands in two places"))
    );
}

#[test]
fn regions_have_one_owner() {
    let text = format!("{DECLS}func f(%a: u1) {{ if %a {{ log \"x\"() }} return }}");
    let mut program = parse(&text).unwrap();
    let body = &mut program.funcs.values_mut().last().unwrap().body;
    let branch = body.blocks[body.entry()].insts[0];
    let entry = body.entry();
    if let crate::Op::If { then, other, .. } = &mut body.insts[branch].op {
        *other = *then;
    }
    assert!(verify(program.clone()).unwrap_err()[0].message.contains("has another owner"));
    let body = &mut program.funcs.values_mut().last().unwrap().body;
    if let crate::Op::If { other, .. } = &mut body.insts[branch].op {
        *other = entry;
    }
    let inside_itself = verify(program.clone()).unwrap_err();
    assert!(inside_itself.iter().any(|e| e.message.contains("has another owner")));
    program.funcs.values_mut().last().unwrap().body.entry = None;
    assert!(verify(program).unwrap_err()[0].message.contains("no entry region"));
}

#[test]
fn packets_are_linear() {
    refused(&[
        ("return", "packet `pkt` is not given away on a path to here"),
        (
            "drop %pkt, \"no\" drop %pkt, \"no\" return",
            "packet `pkt` is used here but was given away before",
        ),
        (
            "drop %pkt, \"no\" %n: u32 = len %pkt return",
            "packet `pkt` is used here but was given away before",
        ),
        (
            "%c: u1 = 1 if %c { drop %pkt, \"no\" } return",
            "in one arm of this `if` but not in the other",
        ),
        ("%c: u1 = 1 if %c { return } drop %pkt, \"no\" return", "packet `pkt` is not given away"),
        ("loop 2 { drop %pkt, \"no\" continue 0 } return", "the loop may run once more"),
        (
            "%c: u1 = 1 loop 1 { if %c { drop %pkt, \"no\" break 0 } break 0 } return",
            "on one way out of the loop",
        ),
        (
            "%c: u1 = 1 loop 2 { if %c { drop %pkt, \"no\" break 0 } continue 0 } return",
            "on one way out of the loop",
        ),
        (
            "call eat(%pkt) call eat(%pkt) return",
            "packet `pkt` is used here but was given away before",
        ),
    ]);
    let twice = format!(
        "{DECLS}func two(%a: packet, %b: packet) {{ drop %a, \"no\" drop %b, \"no\" return }}
        handler net_recv on net_recv(%pkt: packet) {{ call two(%pkt, %pkt) return }}"
    );
    assert_eq!(
        errors(&twice),
        ["packet `pkt` is passed twice", "packet `pkt` is given away twice"]
    );
    let maybe = format!(
        "{DECLS}func maybe(%p: packet, %c: u1) {{ if %c {{ drop %p, \"no\" return }} return }}"
    );
    assert_eq!(
        errors(&maybe),
        ["packet `p` is given away on one way to return but not on another"]
    );
}

#[test]
fn consumed_parameters_are_known() {
    let program = verify(parse(DECLS).unwrap()).unwrap();
    let consumed = consumed_params(&program);
    let all: Vec<bool> = program.funcs.keys().flat_map(|id| consumed[id].clone()).collect();
    assert_eq!(all, [true, false], "eat consumes, look does not");
}

#[test]
fn declarations() {
    let cases = [
        ("program p ports 0", "at least one port"),
        ("program p ports 2147483647", "at most 65536 ports, not 2147483647"),
        ("program p ports 1 struct s { a: s }", "types contain themselves"),
        ("program p ports 1 struct s { a: t } struct t { b: s[2] }", "types contain themselves"),
        ("program p ports 1 struct s { }", "struct `s` has no members"),
        ("program p ports 1 struct s { a: packet }", "a packet cannot be part of another type"),
        ("program p ports 1 struct s { a: u8[2000000] }", "larger than 1048576 bytes"),
        ("program p ports 1 struct s { a: u8[0] }", "an array has at least one element"),
        ("program p ports 1 struct s { a: u8 be }", "member `a` has no byte order"),
        ("program p ports 1 table t: hash[u8 -> u8] capacity 0", "the capacity must be at least 1"),
        (
            "program p ports 1 table t: hash[packet -> u8] capacity 1",
            "keys and values are integers",
        ),
        (
            "program p ports 1 table t: array[u8 -> u8] capacity 1",
            "the key of an array table is u32, not u8",
        ),
        ("program p ports 1 table t: hash[u8 -> u8] capacity 1 buf 0", "at least one byte"),
        (
            "program p ports 1 table t: lru[u8 -> u8] capacity 1 by_number",
            "the entries of lru tables have no numbers",
        ),
        (
            "program p ports 1 table t: lru[u8 -> u64] capacity 1 shared",
            "only arrays without byte strings are memory that a program may map",
        ),
        ("program p ports 1 table t: hash[u8 -> u8] capacity 1 buf 65536", "at most 65535 bytes"),
        (
            "program p ports 1 table t: lpm[u8 -> u8] capacity 1 buf 1",
            "lpm tables have no byte strings",
        ),
        ("program p ports 1 table t: hash[u8 -> u8] capacity 1 replicas 0", "at least one replica"),
        (
            "program p ports 1 const c: u16 = hex \"010203\"",
            "3 bytes are no whole number of 2-byte elements",
        ),
        (
            "program p ports 1 const c: u12 = hex \"ffff\"",
            "bits above an integer's width must be zero",
        ),
        ("program p ports 1 const c: packet = hex \"00\"", "elements are integers"),
        (
            "program p ports 1 event e(p: packet borrowed) in",
            "only packets in events to outside can be borrowed",
        ),
        (
            "program p ports 1 event net_send(p: packet) out",
            "no such event goes to outside; there are net_send(packet, u32)",
        ),
        (
            "program p ports 1 event net_send(p: packet, n: u32) out handler h on net_send(%p: packet, %n: u32) { return }",
            "nothing here can react to it",
        ),
        (
            "program p ports 1 event e() internal handler a on e() { return } handler b on e() { return }",
            "has another handler",
        ),
        (
            "program p ports 1 event e(a: u8) internal handler h on e(%a: u16) { return }",
            "the parameters are (u16), those of event `e` are (u8)",
        ),
        (
            "program p ports 1 event e() internal handler h on e() replicas 0 { return }",
            "at least one replica",
        ),
        (
            "program p ports 1 func f() { call g() return } func g() { call f() return }",
            "the function calls itself",
        ),
        (
            "program p ports 1 func f() -> (packet) { loop 0 { break 0 } return }",
            "results are integers",
        ),
    ];
    for (text, expected) in cases {
        let found = errors(text);
        assert!(
            found.first().is_some_and(|m| m.contains(expected)),
            "{text}\n  expected: {expected}\n  found: {found:?}"
        );
    }
}

#[test]
fn calls_count_as_nesting() {
    let chain: String =
        (0..300).map(|i| format!("func f{i}() {{ call f{}() return }}\n", i + 1)).collect();
    let text = format!("program p ports 1\n{chain}func f300() {{ return }}");
    let found = errors(&text);
    assert!(found[0].contains("counting those of called functions"), "{found:?}");
}
