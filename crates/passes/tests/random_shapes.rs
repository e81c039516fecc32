//! Passes on random programs of shapes that `nicforge_ir::generate` makes seldom or never: control
//! flow whose `break`, `continue` and `return` leave any depth, sums that are folded as checksums
//! are, and handlers of several internal events. What runs show must not change; what the passes
//! make is told by hashes.

use std::fmt::Write;
use std::path::Path;

use nicforge_filetest::{digest, expect_table};
use nicforge_ir::io::random;
use nicforge_ir::text::{PrintOptions, parse, print};
use nicforge_ir::{Input, InputEvent, Interp, Program, TableBackend, Verified, verify};
use nicforge_passes::PassManager;
use nicforge_passes::fuse::fuse;

/// Programs of each shape.
const COUNT: u64 = 300;
/// Programs that share a line of hashes.
const GROUP: u64 = 50;

const HEAD: &str = "program p ports 1 event net_recv(pkt: packet) in reason \"no\"
    event net_send(pkt: packet, port: u32) out event one(x: u32) internal event two(x: u32) internal
    table seen: array[u32 -> u64] capacity 4 table sums: hash[u32 -> u64] capacity 4\n";

/// A random text, written piece by piece.
struct Random {
    seed: u64,
    taken: u64,
    text: String,
}

impl Random {
    fn new(seed: u64) -> Random {
        Random { seed, taken: 0, text: HEAD.to_string() }
    }

    fn below(&mut self, n: usize) -> usize {
        self.taken += 1;
        random(self.seed, self.taken) as usize % n
    }

    fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// Defines a value of an op; gives its name.
    fn value(&mut self, ty: &str, op: &str) -> String {
        self.taken += 1;
        let name = format!("%v{}", self.taken);
        let _ = writeln!(self.text, "{name}: {ty} = {op}");
        name
    }

    /// A region inside so many loops; gives the value that it ends with. The caller writes what
    /// ends it, unless it was left.
    fn region(&mut self, depth: usize, loops: usize, mut value: String) -> Option<String> {
        for _ in 0..1 + self.below(3) {
            match self.below(6) {
                0 => {
                    let op = self.one_of(&["add", "xor", "shr"]);
                    value = self.value("u32", &format!("{op} {value}, %x"));
                }
                1 => {
                    let _ = writeln!(self.text, "log \"{{}}\"({value})");
                }
                2..=4 if depth > 0 => {
                    let op = self.one_of(&["lt", "eq", "ge"]);
                    let with = self.one_of(&["%x", "%two"]);
                    let condition = self.value("u1", &format!("{op} {value}, {with}"));
                    self.taken += 1;
                    let result = format!("%v{}", self.taken);
                    let _ = writeln!(self.text, "if {condition} -> ({result}: u32) {{");
                    self.arm(depth, loops, value.clone());
                    self.text += "} else {\n";
                    self.arm(depth, loops, value);
                    self.text += "}\n";
                    value = result;
                }
                _ if depth > 0 => {
                    self.taken += 1;
                    let number = self.taken;
                    let trips = self.one_of(&[1, 1, 2, 3, 5]);
                    let _ = writeln!(
                        self.text,
                        "loop {trips} (%i{number}: u32 = {value}) -> (%v{number}: u32) {{"
                    );
                    if let Some(end) = self.region(depth - 1, loops + 1, format!("%i{number}")) {
                        let how = self.one_of(&["break", "continue"]);
                        let _ = writeln!(self.text, "{how} 0 ({end})");
                    }
                    self.text += "}\n";
                    value = format!("%v{number}");
                }
                _ => {}
            }
        }
        match self.below(8) {
            0 | 1 if loops > 0 => {
                let how = self.one_of(&["break", "continue"]);
                let out = self.below(loops);
                let _ = writeln!(self.text, "{how} {out} ({value})");
                None
            }
            2 => {
                self.text += "drop %pkt, \"no\" return\n";
                None
            }
            _ => Some(value),
        }
    }

    fn arm(&mut self, depth: usize, loops: usize, value: String) {
        if let Some(end) = self.region(depth - 1, loops, value) {
            let _ = writeln!(self.text, "yield {end}");
        }
    }

    /// The handler of `net_recv` around what `inside` writes, which gives what is emitted.
    fn handler(mut self, inside: impl FnOnce(&mut Random) -> Option<String>) -> String {
        self.text += "handler net_recv on net_recv(%pkt: packet) {
            %ok: u1, %x: u32 = extract %pkt %two: u32 = 2 %port: u32 = 0\n";
        if let Some(value) = inside(&mut self) {
            let _ = writeln!(self.text, "emit %pkt, {value} generate net_send(%pkt, %port) return");
        }
        self.text + "}\n"
    }

    /// A handler of an internal event, which may read, write, count, log and generate another one.
    fn inner(&mut self, event: &str, further: Option<&str>) {
        let _ = writeln!(self.text, "handler {event} on {event}(%x: u32) {{ %w: u64 = cast %x");
        for _ in 0..self.below(3) {
            self.effect(further.as_slice());
        }
        self.text += "return }\n";
    }

    /// One thing that other handlers can see.
    fn effect(&mut self, events: &[&str]) {
        let table = self.one_of(&["seen", "sums"]);
        match self.below(6) {
            0 => {
                let (hit, found) = (self.below(1000), self.taken);
                let _ = writeln!(
                    self.text,
                    "%h{found}_{hit}: u1, %r{found}_{hit}: u64 = lookup {table}[%x]
                     log \"{{}}\"(%r{found}_{hit})"
                );
            }
            1 => drop(self.value("u1", &format!("update {table}[%x], %w"))),
            2 => {
                let _ = writeln!(self.text, "commute add {table}[%x], %w");
            }
            3 => self.text += "log \"{}\"(%x)\n",
            _ if events.is_empty() => {}
            _ => {
                let event = self.one_of(events);
                match self.below(4) {
                    0 => {
                        let _ = writeln!(self.text, "loop 2 {{ generate {event}(%x) continue 0 }}");
                    }
                    1 => {
                        let small = self.value("u1", "cast %x");
                        let _ = writeln!(self.text, "if {small} {{ generate {event}(%x) }}");
                    }
                    _ => {
                        let _ = writeln!(self.text, "generate {event}(%x)");
                    }
                }
            }
        }
    }
}

/// Everything that some runs leave.
fn behaviour(program: &Verified<Program>) -> Vec<String> {
    let mut interp = Interp::new(program);
    let mut seen = Vec::new();
    for number in 0..12u64 {
        let value =
            [0, 1, 2, 3, 0xffff, 0x1_0000, u64::MAX, number << 33 | number][number as usize % 8];
        let frame = [value.to_le_bytes(), u64::from(random(value, number)).to_le_bytes()].concat();
        let input = Input::Net { port: 0, frame };
        seen.push(format!("{:?}", interp.run(&InputEvent { time_ns: number, seed: 0, input })));
    }
    seen.extend(program.tables.keys().map(|table| format!("{:?}", interp.dump(table))));
    seen
}

type Transformation<'a> = &'a dyn Fn(Verified<Program>) -> Verified<Program>;

/// Compares behaviour before and behind each of some transformations of random texts, and what
/// comes out with the file of a name.
fn check(name: &str, text: impl Fn(u64) -> String, transformations: &[(&str, Transformation<'_>)]) {
    let mut lines = Vec::new();
    for first in (0..COUNT).step_by(GROUP as usize) {
        let mut made = vec![String::new(); transformations.len()];
        for seed in first..first + GROUP {
            let text = text(seed);
            let program = parse(&text).unwrap_or_else(|e| panic!("{name} {seed}: {e}\n{text}"));
            let program =
                verify(program).unwrap_or_else(|e| panic!("{name} {seed}: {}\n{text}", e[0]));
            let before = behaviour(&program);
            for ((pass, run), made) in transformations.iter().zip(&mut made) {
                let after = run(program.clone());
                let shown = print(&after, PrintOptions { spans: false });
                let now = behaviour(&after);
                assert_eq!(before, now, "{name} {seed}: {pass} makes of\n{text}\nthis:\n{shown}");
                *made += &shown;
            }
        }
        for ((pass, _), made) in transformations.iter().zip(made) {
            lines.push(format!("{name:8} {first:4} {pass:20} {}", digest(&made)));
        }
    }
    let file = format!("tests/digests_{name}.txt");
    expect_table(&Path::new(env!("CARGO_MANIFEST_DIR")).join(file), &lines);
}

fn passes(program: Verified<Program>, names: &[&str]) -> Verified<Program> {
    PassManager::new().run(program, names).unwrap_or_else(|e| panic!("{e}"))
}

fn default(program: Verified<Program>) -> Verified<Program> {
    PassManager::new().run_default(program).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn control_flow_of_any_shape() {
    let text = |seed| Random::new(seed).handler(|r| r.region(4, 0, "%x".to_string()));
    let unrolled = ["simplify-control", "unroll", "simplify-control", "fold", "unroll"];
    check(
        "control",
        text,
        &[
            ("simplify-control", &|one| passes(one, &["simplify-control"])),
            ("thread-branches", &|one| passes(one, &["fold", "thread-branches"])),
            ("unroll", &|one| passes(one, &unrolled)),
            ("unroll-short", &|one| passes(one, &["unroll-short", "simplify-control", "dce"])),
            ("split-paths", &|one| passes(one, &["simplify-control", "split-paths"])),
            ("default", &default),
        ],
    );
}

/// The sums have up to 90 steps, so that limits on how far definitions are followed are met.
fn sums(r: &mut Random) -> Option<String> {
    r.text += "%p: u1, %h: u16 = extract %pkt %q: u1, %y: u64 = extract %pkt
        %low: u64 = 65535 %half: u64 = 16 %low32: u32 = 65535 %half32: u32 = 16\n";
    let mut sum = r.value("u64", "cast %x");
    for _ in 0..r.one_of(&[4, 9, 20, 90]) {
        sum = match r.below(8) {
            0..=2 => {
                let (lower, upper) = (
                    r.value("u64", &format!("and {sum}, %low")),
                    r.value("u64", &format!("shr {sum}, %half")),
                );
                r.value("u64", &format!("add {lower}, {upper}"))
            }
            3 => {
                let (by, mask) = (r.one_of(&[1, 8, 16, 48, 63, 64, 70]), r.one_of(&["%y", "%low"]));
                let by = r.value("u64", &by.to_string());
                let shifted = r.value("u64", &format!("shr {mask}, {by}"));
                r.value("u64", &format!("add {sum}, {shifted}"))
            }
            4 => {
                let ty = r.one_of(&["u16", "u32", "i32"]);
                let word = r.value(ty, &format!("cast {sum}"));
                let word = r.value(ty, &format!("not {word}"));
                let word = if r.below(2) == 0 { r.value(ty, &format!("not {word}")) } else { word };
                r.value("u64", &format!("cast {word}"))
            }
            5 => {
                let constant = r.one_of(&[0u64, 1, 0xfffe, 0xffff, 0x1_0000, 0xffff_ffff]);
                let other = r.value("u64", &constant.to_string());
                let op = r.one_of(&["add", "and"]);
                r.value("u64", &format!("{op} {sum}, {other}"))
            }
            _ => {
                let word = r.one_of(&["%h", "%x"]);
                let word = r.value("u64", &format!("cast {word}"));
                r.value("u64", &format!("add {word}, {sum}"))
            }
        };
    }
    Some(sum)
}

#[test]
fn sums_of_any_shape() {
    let merge = ["merge-checksums", "dce", "merge-checksums", "dce"];
    check(
        "sums",
        |seed| Random::new(seed).handler(sums),
        &[("merge-checksums", &|one| passes(one, &merge)), ("default", &default)],
    );
}

#[test]
fn internal_events_of_any_shape() {
    let text = |seed| {
        let mut r = Random::new(seed);
        let further = r.one_of(&[None, Some("two")]);
        r.inner("one", further);
        r.inner("two", None);
        r.handler(|r| {
            r.text += "%w: u64 = cast %x\n";
            for _ in 0..2 + r.below(3) {
                r.effect(&["one", "two"]);
            }
            Some("%x".to_string())
        })
    };
    let fused = |one| fuse(one).unwrap_or_else(|e| panic!("{e}"));
    check("events", text, &[("fuse", &fused)]);
}
