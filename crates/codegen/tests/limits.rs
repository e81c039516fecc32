//! Where hardware refuses: for each limit the largest number that fits, and what is said of the
//! next one.

use std::path::Path;

use nicforge_codegen::rtl::{self, Form, Wanted};
use nicforge_filetest::expect_table;
use nicforge_ir::{Program, Verified, text};

/// A program of one handler that looks up a key of the packet.
fn program(declared: &str, body: &str) -> Verified<Program> {
    let text = format!(
        "program limits ports 2
        {declared}
        event net_recv(pkt: packet) in
        event net_send(pkt: packet, port: u32) out
        event every() in period 1000
        reason \"no\"
        handler net_recv on net_recv(%pkt: packet) {{
            %here: u1, %key: u32 = extract %pkt
            %port: u32 = 0
            {body}
            generate net_send(%pkt, %port)
            return
        }}"
    );
    let program = text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    nicforge_ir::verify(program).unwrap_or_else(|e| panic!("{}\n{text}", e[0]))
}

/// What becomes of a program: the form it gets, or why none.
fn said(program: &Verified<Program>, wanted: Wanted) -> String {
    match rtl::generate(program, wanted, 2) {
        Ok(made) => match made.form {
            Form::Pipe { in_turn, .. } if in_turn.is_empty() => "a pipe".to_string(),
            Form::Pipe { in_turn, .. } => format!("a pipe in turn: {}", in_turn[0].reason),
            Form::Engine { why, .. } => format!("an engine: {}", why.reason),
            Form::Stages { why, .. } => format!("stages: {}", why.reason),
        },
        Err(errors) => {
            let all: Vec<&str> = errors.iter().map(|error| error.message.as_str()).collect();
            format!("refused: {}", all.join("; "))
        }
    }
}

/// The largest number up to `most` of which the same is said as of the first one, and what is said
/// of the next.
fn edge(first: u32, most: u32, of: &dyn Fn(u32) -> String) -> String {
    let fits = of(first);
    let (mut low, mut high) = (first, most);
    if of(most) == fits {
        return format!("{fits} up to {most}, and more");
    }
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if of(middle) == fits { low = middle } else { high = middle }
    }
    format!("{fits} up to {low}; with {high}: {}", of(high))
}

fn expect(file: &str, lines: &[String]) {
    expect_table(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file), lines);
}

const FOUND: &str = "%ok: u1, %v: u64 = lookup t[%key]\nemit %pkt, %v";
const COUNTED: &str = "%one: u64 = 1\ncommute add t[%key], %one";
const WRITTEN: &str = "%v: u64 = 5\n%ok: u1 = update t[%key], %v";

#[test]
fn tables() {
    let mut lines = Vec::new();
    let mut line = |name: &str, wanted: Wanted, of: &dyn Fn(u32) -> Verified<Program>| {
        for wanted in [wanted, Wanted::Engine] {
            let said = edge(1, 1 << 26, &|n| said(&of(n), wanted));
            lines.push(format!("{name}, {wanted:?}: {said}"));
        }
    };
    for kind in ["array", "hash", "lru", "lpm", "ternary"] {
        let key = if kind == "lpm" { "u32 be" } else { "u32" };
        for (what, body) in [("read", FOUND), ("added to", COUNTED), ("written", WRITTEN)] {
            if matches!(kind, "lpm" | "ternary") && what != "read" {
                continue;
            }
            line(&format!("entries of {kind} of 8 bytes, {what}"), Wanted::Best, &|n| {
                program(&format!("table t: {kind}[{key} -> u64] capacity {n}"), body)
            });
        }
        line(&format!("entries of {kind} beside an array"), Wanted::Best, &|n| {
            let tables = format!(
                "table t: {kind}[{key} -> u64] capacity {n}
                table u: array[u32 -> u64] capacity 1000000"
            );
            program(&tables, &format!("{FOUND}\n%1: u1, %2: u64 = lookup u[%key]\nemit %pkt, %2"))
        });
    }
    for bytes in [1, 64, 65, 4096] {
        line(&format!("entries with strings of {bytes} bytes"), Wanted::Best, &|n| {
            program(
                &format!("table t: hash[u32 -> u64] capacity {n} buf {bytes}"),
                "%len: u32 = buf_len t[%key]\nemit %pkt, %len",
            )
        });
    }
    expect("limits_tables.txt", &lines);
}

#[test]
fn bytes() {
    let mut lines = Vec::new();
    let mut line = |name: &str, first: u32, most: u32, of: &dyn Fn(u32) -> Verified<Program>| {
        for wanted in [Wanted::Best, Wanted::Engine] {
            lines.push(format!(
                "{name}, {wanted:?}: {}",
                edge(first, most, &|n| said(&of(n), wanted))
            ));
        }
    };
    let emits = |n: u32| "emit %pkt, %key\n".repeat(n as usize);
    line("headers of 4 bytes", 1, 600, &|n| program("", &emits(n)));
    line("headers behind a reset", 1, 600, &|n| {
        program("", &format!("{}reset %pkt\n{}", emits(n), emits(3)))
    });
    line("headers in one way of an if", 1, 600, &|n| {
        program("", &format!("if %here {{\n{}}}\n{}", emits(n), emits(5)))
    });
    line("headers in a way that ends", 1, 600, &|n| {
        let ends = format!("if %here {{\n{}drop %pkt, \"no\"\nreturn\n}}\n", emits(n));
        program("", &format!("{ends}{}", emits(100)))
    });
    line("trips that emit", 1, 600, &|n| {
        let trip = "loop T (%a: u32 = %key) -> (%b: u32) {\nemit %pkt, %a\ncontinue 0 (%key)\n}\n";
        program("", &trip.replace('T', &n.to_string()))
    });
    line("bytes that are extracted", 1, 4000, &|n| {
        program(
            &format!("struct big {{ b: u8[{n}] }}"),
            "%ok: u1, %v: big = extract %pkt\n%i: u32 = 0\n%x: u8 = get %v.b[%i]\nemit %pkt, %x",
        )
    });
    line("bytes that are stored", 1, 4000, &|n| {
        program(
            &format!("struct big {{ b: u8[{n}] }}"),
            "%ok: u1, %v: big = load %pkt, %key\n%i: u32 = 4\n%x: u1 = store %pkt, %i, %v\n\
             emit %pkt, %x",
        )
    });
    line("values of a log line", 1, 200, &|n| {
        let holes = "{}".repeat(n as usize);
        let values = vec!["%key"; n as usize].join(", ");
        program("", &format!("log \"{holes}\"({values})"))
    });
    expect("limits_bytes.txt", &lines);
}

#[test]
fn entries_at_once() {
    let mut lines = Vec::new();
    let mut line = |name: &str, most: u32, of: &dyn Fn(u32) -> Verified<Program>| {
        lines.push(format!("{name}: {}", edge(1, most, &|n| said(&of(n), Wanted::Best))));
    };
    // Each asks for an entry of its own and changes it.
    let several = |n: u32, op: &str| {
        let one = |at: u32| {
            format!(
                "%h{at}: u1, %k{at}: u32 = extract %pkt\n{}\n",
                op.replace("KEY", &format!("%k{at}")).replace("AT", &at.to_string())
            )
        };
        (0..n).map(one).collect::<String>()
    };
    let read_and_written = "%oAT: u1, %vAT: u64 = lookup t[KEY]\n%wAT: u64 = add %vAT, %vAT\n\
                            %uAT: u1 = update t[KEY], %wAT";
    let added = "%oneAT: u64 = 1\ncommute add t[KEY], %oneAT";
    for kind in ["array", "hash", "lru"] {
        for (what, op) in [("read and written", read_and_written), ("added to", added)] {
            for capacity in [4, 1000, 100_000] {
                line(&format!("entries of {kind} of {capacity}, {what}"), 20, &|n| {
                    let table = format!("table t: {kind}[u32 -> u64] capacity {capacity}");
                    program(&table, &several(n, op))
                });
            }
        }
        line(&format!("capacity of {kind} of which three are asked for"), 1 << 22, &|n| {
            let table = format!("table t: {kind}[u32 -> u64] capacity {n}");
            program(&table, &several(3, read_and_written))
        });
        line(&format!("capacity of {kind} beside another table"), 1 << 22, &|n| {
            let tables = format!(
                "table t: {kind}[u32 -> u64] capacity {n}
                table u: array[u32 -> u64] capacity 3000000"
            );
            let other = "%x: u1, %y: u64 = lookup u[%key]\nemit %pkt, %y\n";
            program(&tables, &format!("{other}{}", several(2, read_and_written)))
        });
    }
    for (kind, key) in [("array", "u32"), ("hash", "u32"), ("lpm", "u32 be"), ("ternary", "u32")] {
        let read = "%oAT: u1, %vAT: u64 = lookup t[KEY]\nemit %pkt, %vAT";
        line(&format!("keys of {kind} that are looked up"), 70, &|n| {
            program(&format!("table t: {kind}[{key} -> u64] capacity 500"), &several(n, read))
        });
        line(&format!("capacity of {kind} with two keys"), 1 << 22, &|n| {
            program(&format!("table t: {kind}[{key} -> u64] capacity {n}"), &several(2, read))
        });
    }
    for capacity in [4, 20_000, 100_000] {
        let read = "%zAT: u32 = 0\n%oAT: u1, %vAT: u64 = buf_read t[KEY], %zAT\nemit %pkt, %vAT";
        line(&format!("strings of {capacity} that are read"), 70, &|n| {
            let table = format!("table t: hash[u32 -> u64] capacity {capacity} buf 128");
            program(&table, &several(n, read))
        });
    }
    expect("limits_entries.txt", &lines);
}

#[test]
fn timers() {
    let timed = program("", "");
    let text = text::print(&timed, text::PrintOptions::default())
        + "\nhandler tick on every() {\nreturn\n}\n";
    let timed = nicforge_ir::verify(text::parse(&text).unwrap()).unwrap();
    expect("limits_timers.txt", &[said(&timed, Wanted::Best), said(&timed, Wanted::Engine)]);
}
