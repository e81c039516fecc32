//! Rules whose conditions are about widths and signs, on all combinations of some types.

use nicforge_ir::text::{PrintOptions, parse, print};
use nicforge_ir::{Input, InputEvent, Interp, Program, Verified, verify};
use nicforge_passes::PassManager;

const TYPES: [&str; 10] = ["u1", "i1", "u5", "i5", "u8", "i8", "u16", "i16", "u64", "i64"];

/// Frames whose first bytes are edges of all these types.
const VALUES: [u64; 8] = [0, 1, 0x0f, 0x10, 0x7f, 0x80, 0x8000, u64::MAX];

fn outputs(program: &Verified<Program>) -> Vec<String> {
    let mut interp = Interp::new(program);
    let run = |value: &u64| {
        let input = Input::Net { port: 0, frame: value.to_le_bytes().to_vec() };
        format!("{:?}", interp.run(&InputEvent { time_ns: 0, seed: 0, input }))
    };
    VALUES.iter().map(run).collect()
}

/// Folds a handler that computes `%out` from `%x: from` and compares.
fn check(from: &str, ops: &str) {
    let text = format!(
        "program p ports 1 event net_recv(pkt: packet) in event stack_recv(pkt: packet) out
         handler h on net_recv(%pkt: packet) {{ %ok: u1, %x: {from} = extract %pkt reset %pkt {ops}
           emit %pkt, %out generate stack_recv(%pkt) return }}"
    );
    let program = verify(parse(&text).unwrap()).unwrap_or_else(|e| panic!("{}\n{text}", e[0]));
    let folded = PassManager::new().run(program.clone(), &["fold", "dce"]).unwrap();
    let shown = || print(&folded, PrintOptions::default());
    assert_eq!(outputs(&program), outputs(&folded), "{from}: {ops}\nbecame\n{}", shown());
}

#[test]
fn chains_of_casts() {
    for from in TYPES {
        for over in TYPES {
            for to in TYPES {
                check(from, &format!("%y: {over} = cast %x %out: {to} = cast %y"));
            }
        }
    }
}

#[test]
fn comparisons_of_casts() {
    for from in TYPES {
        for over in TYPES {
            for op in ["eq", "ne", "lt", "le", "gt", "ge"] {
                for constant in [0, 1] {
                    let constant = if over == "i1" { -constant } else { constant };
                    check(
                        from,
                        &format!(
                            "%y: {over} = cast %x %c: {over} = {constant} %out: u1 = {op} %y, %c"
                        ),
                    );
                    check(
                        from,
                        &format!(
                            "%y: {over} = cast %x %c: {over} = {constant} %out: u1 = {op} %c, %y"
                        ),
                    );
                }
            }
        }
    }
}

#[test]
fn arithmetic_with_constants() {
    for ty in TYPES {
        let constants: &[i64] = match ty {
            "u1" => &[0, 1],
            "i1" => &[0, -1],
            _ if ty.starts_with('i') => &[0, 1, -1, 7, -16],
            _ => &[0, 1, 7, 31],
        };
        for op in ["add", "sub", "mul", "div", "rem", "and", "or", "xor", "shl", "shr"] {
            for c in constants {
                check(ty, &format!("%c: {ty} = {c} %out: {ty} = {op} %x, %c"));
                check(ty, &format!("%c: {ty} = {c} %out: {ty} = {op} %c, %x"));
                check(
                    ty,
                    &format!("%c: {ty} = {c} %y: {ty} = {op} %x, %c %out: {ty} = {op} %y, %c"),
                );
            }
            check(ty, &format!("%out: {ty} = {op} %x, %x"));
        }
    }
}

#[test]
fn masks_of_casts() {
    for from in TYPES {
        for over in ["u16", "i16", "u64", "i64"] {
            for op in ["and", "or", "xor"] {
                for c in [0, 1, 15, 255, 4096, 32767] {
                    check(
                        from,
                        &format!(
                            "%y: {over} = cast %x %c: {over} = {c} %out: {over} = {op} %y, %c"
                        ),
                    );
                    let zero = format!("%z: {over} = 0 %out: u1 = ne %m, %z");
                    check(
                        from,
                        &format!(
                            "%y: {over} = cast %x %c: {over} = {c} %m: {over} = {op} %y, %c {zero}"
                        ),
                    );
                }
            }
        }
    }
}
