//! The oracle for C's meaning is clang itself: random functions are compiled natively and by this
//! front end, and must give the same results. The programs avoid what C leaves undefined; signed
//! overflow wraps in both. `NICFORGE_SEED=n` tries other programs.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use nicforge_frontend::{Options, compile_source};
use nicforge_ir::io::{Input, InputEvent, Output};
use nicforge_ir::{Interp, verify};

/// Functions in the generated program, and inputs each gets.
const FUNCTIONS: u32 = 16;
const INPUTS: u32 = 24;

fn seed() -> u64 {
    let given = std::env::var("NICFORGE_SEED").ok();
    given.map_or(0x6e69_6366_6f72_6765, |text| text.parse().expect("NICFORGE_SEED is a number"))
}

/// What all generated functions share.
const PRELUDE: &str = r#"
#ifdef __NICFORGE__
#include <nicforge.h>
#else
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#endif

struct inner { uint8_t q; int16_t r[4]; };
struct in { uint64_t g; int64_t h; uint32_t e; int32_t f; uint16_t c; int16_t d; uint8_t a; int8_t b; uint16_t which; };
struct out { uint64_t r[4]; };
struct local { uint32_t bits : 5; uint32_t more : 11; int32_t sign : 7; struct inner in; uint64_t w[4]; bool t; };
enum color { RED, GREEN = 5, BLUE };

static const uint16_t table[8] = { 1, 2, 4, 0x8000, 0xffff, 77, [7] = 9 };
static const struct inner inners[2] = { { 3, { -1, 2 } }, { .r = { [2] = 7 } } };
static const int offset = -3;

static inline int32_t clamp(int32_t x, int32_t low, int32_t high)
{
    if (x < low)
        return low;
    return x > high ? high : x;
}

static inline void bump(uint32_t *value, int by)
{
    if (by < 0) {
        *value -= 1;
        return;
    }
    *value += by;
}

static inline bool fix(struct local *s, const struct inner *from)
{
    s->in = *from;
    s->bits++;
    return s->bits == 0;
}
"#;

/// A stream of random numbers.
struct Random {
    seed: u64,
    count: u64,
}

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.count += 1;
        nicforge_ir::io::random(self.seed, self.count) % limit
    }

    fn pick<'a>(&mut self, options: &[&'a str]) -> &'a str {
        options[self.below(options.len() as u32) as usize]
    }
}

const TYPES: [&str; 9] = [
    "uint8_t", "int8_t", "uint16_t", "int16_t", "uint32_t", "int32_t", "uint64_t", "int64_t",
    "bool",
];
const READABLE: [&str; 23] = [
    "x.a",
    "x.b",
    "x.c",
    "x.d",
    "x.e",
    "x.f",
    "x.g",
    "x.h",
    "u8",
    "i8",
    "u16",
    "i16",
    "u32",
    "i32",
    "u64",
    "i64",
    "flag",
    "s.bits",
    "s.more",
    "s.sign",
    "s.in.q",
    "s.t",
    "(int)color",
];
const WRITABLE: [&str; 15] = [
    "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "flag", "s.bits", "s.more", "s.sign",
    "s.in.q", "s.t", "x.e",
];
const CONSTANTS: [&str; 14] = [
    "0",
    "1",
    "-1",
    "2u",
    "7",
    "0x7f",
    "0x80",
    "255",
    "0xffff",
    "0x7fffffff",
    "0x80000000u",
    "0xffffffffffffffffull",
    "BLUE",
    "'A'",
];

struct Generator {
    random: Random,
    /// Loops around, whose counters are readable.
    loops: u32,
}

impl Generator {
    fn expr(&mut self, depth: u32) -> String {
        if depth == 0 {
            return match self.random.below(6) {
                0 => self.random.pick(&CONSTANTS).to_string(),
                1 if self.loops > 0 => format!("i{}", self.random.below(self.loops)),
                _ => self.random.pick(&READABLE).to_string(),
            };
        }
        let a = self.expr(depth - 1);
        let small = |g: &mut Self| {
            let depth = g.random.below(depth);
            g.expr(depth)
        };
        match self.random.below(20) {
            0..=4 => format!("({a} {} {})", self.random.pick(&["+", "-", "*"]), small(self)),
            5 | 6 => format!("({a} {} {})", self.random.pick(&["&", "|", "^"]), small(self)),
            7 | 8 => {
                format!(
                    "({a} {} {})",
                    self.random.pick(&["<", "<=", ">", ">=", "==", "!="]),
                    small(self)
                )
            }
            9 => format!("({a} {} {})", self.random.pick(&["&&", "||"]), small(self)),
            // The promoted left operand has at least 32 bits. A signed left shift of a negative
            // number is undefined.
            10 => format!("((uint32_t){a} << ({} & 31))", small(self)),
            11 => format!("({a} >> ({} & 31))", small(self)),
            12 => {
                format!(
                    "((uint64_t){a} {} ((uint64_t){} | 1))",
                    self.random.pick(&["/", "%"]),
                    small(self)
                )
            }
            13 => format!(
                "((int16_t){a} {} ((int16_t){} | 1))",
                self.random.pick(&["/", "%"]),
                small(self)
            ),
            14 => format!("(({})({a}))", self.random.pick(&TYPES)),
            15 => format!("({}({a}))", self.random.pick(&["-", "~", "!", "+"])),
            16 => format!("({a} ? {} : {})", small(self), small(self)),
            17 => format!("table[{a} & 7]"),
            18 => match self.random.below(3) {
                0 => format!("s.w[{a} & 3]"),
                1 => format!("inners[{a} & 1].r[{} & 3]", small(self)),
                _ => format!("s.in.r[{a} & 3]"),
            },
            _ => format!("clamp({a}, {} & 0xff, 300 + offset)", small(self)),
        }
    }

    fn block(&mut self, depth: u32, out: &mut String) {
        for _ in 0..=self.random.below(3) {
            self.stmt(depth, out);
        }
    }

    fn stmt(&mut self, depth: u32, out: &mut String) {
        let value = self.expr(3);
        let target = match self.random.below(6) {
            0 => format!("s.w[{} & 3]", self.expr(1)),
            1 => format!("s.in.r[{} & 3]", self.expr(1)),
            2 => "out.r[1]".to_string(),
            _ => self.random.pick(&WRITABLE).to_string(),
        };
        let kind = if depth == 0 { self.random.below(6) } else { self.random.below(16) };
        match kind {
            0 | 1 => out.push_str(&format!("{target} = {value};\n")),
            2 => {
                let op = self.random.pick(&["+=", "-=", "*=", "&=", "|=", "^="]);
                out.push_str(&format!("{target} {op} {value};\n"));
            }
            3 => {
                out.push_str(&format!("out.r[2] += {target}{};\n", self.random.pick(&["++", "--"])))
            }
            4 => out.push_str(&match self.random.below(4) {
                0 => format!("bump(&u32, {value});\n"),
                1 => format!("flag = fix(&s, &inners[{value} & 1]);\n"),
                2 => format!(
                    "s = (struct local){{ .more = {value}, .in = {{ .r = {{ 1, {value} }} }} }};\n"
                ),
                _ => format!(
                    "out.r[3] ^= {target} {} ({value} & 7);\n",
                    self.random.pick(&[">>=", ">>"])
                ),
            }),
            5 => out.push_str(&format!("if ({value} && (u16 = {})) u64 += u16;\n", self.expr(2))),
            6..=8 => {
                out.push_str(&format!("if ({value}) {{\n"));
                self.block(depth - 1, out);
                if self.random.below(2) == 0 {
                    out.push_str("} else {\n");
                    self.block(depth - 1, out);
                }
                out.push_str("}\n");
            }
            9 | 10 => self.counted_loop(depth, out),
            11 => {
                out.push_str(&format!("for (uint8_t k = {value} & 15; k; k >>= 1) {{\n"));
                self.block(depth - 1, out);
                out.push_str("}\n");
            }
            12 | 13 => self.switch(&value, depth, out),
            14 => {
                out.push_str(&format!(
                    "if ({value}) {{ out.r[0] = {}; return out; }}\n",
                    self.expr(2)
                ));
            }
            _ => {
                out.push_str("do {\n");
                self.block(depth - 1, out);
                out.push_str(&format!("if ({value}) break;\nu8++;\n}} while (0);\n"));
            }
        }
    }

    fn counted_loop(&mut self, depth: u32, out: &mut String) {
        let (name, trips) = (self.loops, 1 + self.random.below(5));
        let value = self.expr(2);
        let head = match self.random.below(6) {
            0 => format!("for (int i{name} = 0; i{name} < {trips}; i{name}++)"),
            1 => format!("for (uint16_t i{name} = {trips}; i{name} > 0; --i{name})"),
            2 => format!(
                "uint32_t n{name}_{depth} = {value}; if (n{name}_{depth} > 9) n{name}_{depth} = 9;\n\
                 for (uint16_t i{name} = 0; i{name} != n{name}_{depth}; i{name}++)"
            ),
            3 => {
                format!("for (int64_t i{name} = (uint8_t){value} & 7; i{name} >= -2; i{name} -= 2)")
            }
            4 => format!(
                "for (int i{name} = (uint8_t){value} >> 5; i{name} < (int)(x.c & 7); i{name} = i{name} + 1)"
            ),
            _ => {
                format!(
                    "for (uint32_t i{name} = 0, n = {} % 5; i{name} < n; i{name} += 1)",
                    "(uint32_t)u64"
                )
            }
        };
        out.push_str(&format!("{{ {head} {{\n"));
        self.loops += 1;
        self.block(depth - 1, out);
        let cond = self.expr(2);
        out.push_str(&format!("if ({cond}) {};\n", self.random.pick(&["break", "continue"])));
        self.block(depth - 1, out);
        self.loops -= 1;
        out.push_str("} }\n");
    }

    fn switch(&mut self, value: &str, depth: u32, out: &mut String) {
        out.push_str(&format!("switch ({value} & 7) {{\n"));
        let default = self.random.below(4);
        for number in 0..4 {
            if number == default {
                out.push_str("default:\n");
            }
            out.push_str(&match self.random.below(3) {
                0 => format!("case {number}: case {}:\n", number + 4),
                1 => format!("case {number}:\n"),
                _ => format!("case {number}: ;\n"),
            });
            self.block(depth - 1, out);
            if self.random.below(3) > 0 {
                out.push_str("break;\n");
            }
        }
        out.push_str("}\n");
    }

    fn function(&mut self, number: u32) -> String {
        let mut text = format!("static struct out f{number}(struct in x)\n{{\n");
        text.push_str("struct out out = {};\nuint8_t u8 = x.a; int8_t i8 = x.b; uint16_t u16 = x.c; int16_t i16 = x.d;\n");
        text.push_str(
            "uint32_t u32 = x.e; int32_t i32 = x.f; uint64_t u64 = x.g; int64_t i64 = x.h;\n",
        );
        text.push_str("bool flag = x.a & 1; struct local s = { .bits = x.a, .w = { x.g, 1 } }; enum color color = GREEN;\n");
        for _ in 0..5 {
            self.stmt(3, &mut text);
        }
        text.push_str("out.r[0] += u8 ^ i8 ^ u16 ^ i16 ^ u32 ^ i32 ^ u64 ^ i64;\n");
        text.push_str(
            "out.r[3] += s.bits + s.more + s.sign + s.in.q + s.in.r[1] + s.w[0] + s.w[3] + s.t + flag;\n",
        );
        text.push_str("return out;\n}\n\n");
        text
    }
}

/// The program: functions and a dispatcher.
fn program() -> String {
    let mut generator = Generator { random: Random { seed: seed(), count: 0 }, loops: 0 };
    let mut text = PRELUDE.to_string();
    for number in 0..FUNCTIONS {
        text.push_str(&generator.function(number));
    }
    text.push_str("static struct out run(struct in x)\n{\nswitch (x.which) {\n");
    for number in 0..FUNCTIONS {
        text.push_str(&format!("case {number}: return f{number}(x);\n"));
    }
    text.push_str("}\nreturn (struct out){};\n}\n");
    text.push_str(
        "#ifdef __NICFORGE__\nvoid host_send(struct in message) { nf_host_msg(run(message)); }\n#else\n",
    );
    text.push_str(
        "int main(void)\n{\nstruct in x;\nwhile (fread(&x, sizeof x, 1, stdin) == 1) {\n",
    );
    text.push_str(
        "struct out r = run(x);\nfwrite(&r, sizeof r, 1, stdout);\n}\nreturn 0;\n}\n#endif\n",
    );
    text
}

/// Inputs, 32 bytes each: random, with many small and extreme bytes; the last two bytes choose the
/// function.
fn inputs() -> Vec<[u8; 32]> {
    let mut random = Random { seed: !seed(), count: 0 };
    let mut found = Vec::new();
    for number in 0..FUNCTIONS * INPUTS {
        let mut bytes = [0; 32];
        let extreme = number % 3 == 0;
        for byte in &mut bytes {
            *byte = if extreme {
                [0, 1, 0x7f, 0x80, 0xff][random.below(5) as usize]
            } else {
                random.below(256) as u8
            };
        }
        bytes[30..].copy_from_slice(&((number % FUNCTIONS) as u16).to_le_bytes());
        found.push(bytes);
    }
    found
}

fn native(source: &str, inputs: &[[u8; 32]]) -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let (file, binary) = (dir.path().join("oracle.c"), dir.path().join("oracle"));
    std::fs::write(&file, source).expect("a temporary file can be written");
    let built = Command::new(nicforge_clang::name())
        .args(["-std=gnu11", "-O1", "-fwrapv", "-w", "-o"])
        .args([&binary, &file])
        .status()
        .expect("clang-19 is installed (apt install clang-19)");
    assert!(built.success(), "the generated program does not compile natively: {}", file.display());
    let mut child = Command::new(&binary)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the native program starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let bytes = inputs.concat();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(&bytes));
        child.wait_with_output().expect("the native program ends")
    });
    output.stdout
}

#[test]
fn random_functions_mean_what_clang_says() {
    let source = program();
    let inputs = inputs();
    let expected = native(&source, &inputs);
    assert_eq!(expected.len(), inputs.len() * 32);
    let options = Options::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtime/include"));
    let output = compile_source("oracle.c", &source, &options).unwrap_or_else(|d| panic!("{d}"));
    let verified = verify(output.program).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let mut interp = Interp::new(&verified);
    for (input, expected) in inputs.iter().zip(expected.chunks(32)) {
        let event =
            InputEvent { time_ns: 0, seed: 0, input: Input::Host { message: input.to_vec() } };
        let outputs = interp.run(&event).unwrap_or_else(|e| panic!("{e}"));
        let which = u16::from_le_bytes([input[30], input[31]]);
        let [Output::HostMessage { bytes }] = &outputs[..] else {
            panic!("f{which} sent {outputs:?}")
        };
        assert_eq!(bytes, expected, "f{which} of the program below, input {input:02x?}\n{source}");
    }
}
