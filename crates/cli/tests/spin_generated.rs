//! Generated handlers in C for sPIN NICs: the same packets leave, the same is counted and kept,
//! whether they run as code of this computer, on the instruction set simulator, or behind the
//! datapath in hardware.
//!
//! `NICFORGE_RANDOM_HANDLERS` says how many, `NICFORGE_RANDOM_SEED` is the first seed. Every eighth
//! also runs behind the hardware, the first of them among these.

mod common;

use std::fmt::Write;

use common::Place;
use nicforge_util::Random;
use serde_json::Value;

/// Of how many one runs behind the hardware.
const HARDWARE: u64 = 8;

/// Bytes in front of a datagram's payload.
const HEADERS: u32 = 42;

const TYPES: [&str; 8] =
    ["uint8_t", "int8_t", "uint16_t", "int16_t", "uint32_t", "int32_t", "uint64_t", "int64_t"];

/// A handler's text while it is written.
struct Handlers {
    choice: Random,
    out: String,
    /// Variables in scope.
    vars: usize,
    loops: usize,
}

impl Handlers {
    /// An integer expression. What C leaves open is written by the macros of `defined.h`.
    fn expr(&mut self, depth: u32) -> String {
        if depth == 0 || self.choice.below(5) == 0 {
            return match self.choice.below(3) {
                0 => format!("{}", self.choice.below(300) as i64 - 40),
                1 => format!("list[{} & 7]", self.choice.below(99)),
                _ => format!("v{}", self.choice.below(self.vars as u64)),
            };
        }
        let (a, b) = (self.expr(depth - 1), self.expr(depth - 1));
        match self.choice.below(9) {
            0 => format!("DIV({a}, {b})"),
            1 => format!("REM({a}, {b})"),
            2 => format!("SHL({a}, {b})"),
            3 => format!("SHR({a}, {b})"),
            4 => format!("({}) ({a})", self.choice.pick(&TYPES)),
            5 => format!("help({a}, {b})"),
            6 => format!("({a} {} {b})", self.choice.pick(&["<", "==", ">=", "!=", "&&", "||"])),
            7 => format!("(bits.b{} ^ ({a}))", self.choice.below(3)),
            _ => format!("({a} {} {b})", self.choice.pick(&["+", "-", "*", "&", "|", "^"])),
        }
    }

    fn statement(&mut self, depth: u32) {
        let value = self.expr(2);
        let line = match self.choice.below(8) {
            0 => format!("v{} = {value};", self.choice.below(self.vars as u64)),
            1 => format!("list[({}) & 7] = {value};", self.expr(1)),
            2 => format!("bits.b{} = {value};", self.choice.below(3)),
            3 => format!(
                "packet[{HEADERS} + (uint32_t)({}) % room] = (uint8_t)({value});",
                self.expr(1)
            ),
            4 if depth > 0 => {
                let _ = writeln!(self.out, "if ({value}) {{");
                self.block(depth - 1);
                self.out.push_str("} else {\n");
                self.block(depth - 1);
                "}".to_string()
            }
            5 if depth > 0 => {
                let (at, most) = (self.loops, 1 + self.choice.below(12));
                self.loops += 1;
                let _ = writeln!(self.out, "for (int i{at} = 0; i{at} < {most}; i{at}++) {{");
                let end = self.expr(1);
                let _ = writeln!(self.out, "if (list[i{at} & 7] == {end}) break;");
                self.block(depth - 1);
                "}".to_string()
            }
            _ => format!(
                "v{} {}= {value};",
                self.choice.below(self.vars as u64),
                self.choice.pick(&["+", "-", "^", "*"])
            ),
        };
        let _ = writeln!(self.out, "{line}");
    }

    fn block(&mut self, depth: u32) {
        for _ in 0..1 + self.choice.below(3) {
            self.statement(depth);
        }
    }
}

/// Handlers whose packet handler computes on the payload, writes into it, counts, and sends some
/// packets back.
fn generate(seed: u64) -> String {
    let choice = Random::new(seed);
    let mut all = Handlers { choice, out: String::new(), vars: 6, loops: 0 };
    let head = "#include \"pspin.h\"\n#include <handler.h>\n#include <packets.h>\n#include <spin_dma.h>\n\
                #include <spin_host.h>\n#include <string.h>\n#include \"defined.h\"\n";
    let signs = [all.choice.pick(&TYPES), all.choice.pick(&TYPES), all.choice.pick(&TYPES)];
    let widths = [1 + all.choice.below(8), 1 + all.choice.below(16), 1 + all.choice.below(31)];
    let _ = write!(
        all.out,
        "{head}struct bits {{ uint8_t b0 : {}; int16_t b1 : {}; uint32_t b2 : {}; }};\n\
         static {} __attribute__((noinline)) help({} a, {} b) {{ return a > b ? SHL(a, b) : DIV(b, a) - a; }}\n\
         __handler__ void made_ph(handler_args_t *args)\n{{\n\
         task_t *task = args->task;\nuint8_t *packet = (uint8_t *)task->pkt_mem;\n\
         uint32_t size = (uint32_t)task->pkt_mem_size;\nspin_cmd_t command;\n\
         if (size < {HEADERS} + 32) {{ push_counter(&__host_data.counters[1], 1); return; }}\n\
         uint32_t room = size - {HEADERS};\nstruct bits bits = {{0}};\n",
        widths[0], widths[1], widths[2], signs[0], signs[1], signs[2]
    );
    let list = all.choice.pick(&TYPES);
    let _ = writeln!(
        all.out,
        "{list} list[8] = {{{}, {}, 7}};",
        all.choice.below(99),
        all.choice.below(99)
    );
    for var in 0..all.vars {
        let (ty, at) = (all.choice.pick(&TYPES), HEADERS as u64 + all.choice.below(24));
        let _ = writeln!(all.out, "{ty} v{var};\nmemcpy(&v{var}, packet + {at}, sizeof v{var});");
    }
    for _ in 0..4 + all.choice.below(6) {
        all.statement(2);
    }
    let (sum, unless) = (all.expr(2), all.expr(2));
    let _ = write!(
        all.out,
        "for (int i = 0; i < 8; i++) v0 ^= (uint8_t)list[i] + v1;\nmemcpy(packet + {HEADERS}, &v0, sizeof v0);\n\
         push_counter(&__host_data.counters[0], (uint16_t)({sum}));\nif (({unless}) & 3)\n    return;\n\
         spin_send_packet(task->pkt_mem, size, &command);\nspin_cmd_wait(command);\n}}\n\
         void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **handler_mem_ptr)\n{{\n\
         volatile handler_fn handlers[] = {{NULL, made_ph, NULL}};\n*hh = handlers[0];\n*ph = handlers[1];\n\
         *th = handlers[2];\n*handler_mem_ptr = NULL;\n}}\n"
    );
    all.out
}

/// Runs everywhere and compares; how many frames left, and how many handlers ran.
fn verify(place: &Place, how: &[&str], text: &str) -> [u64; 2] {
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../tests/oracle");
    let all = ["spin", "verify", "made.c", "-m", "3", "-p", "12", "-s", "200", "--traffic", "udp"];
    let all = [&all[..], how, &["--json", "--", "-fwrapv", include]].concat();
    let ran = place.run(&all);
    let json: Value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
    let none = Value::Array(Vec::new());
    assert_eq!((&json["differences"], &json["depends_on_time"]), (&none, &none), "{text}");
    assert_eq!(json["machines"].as_array().map(Vec::len), Some(2 + how.len()), "{ran:?}");
    [&json["sent"], &json["handlers"]].map(|number| number.as_u64().unwrap())
}

#[test]
fn generated_handlers_do_the_same_everywhere() {
    let setting = |name: &str, default| {
        std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
    };
    let (first, count) =
        (setting("NICFORGE_RANDOM_SEED", 0), setting("NICFORGE_RANDOM_HANDLERS", 4));
    let (mut sent, mut ran) = (0, 0);
    for seed in first..first + count {
        let place = Place::new();
        let text = generate(seed);
        std::fs::write(place.path().join("made.c"), &text).unwrap();
        let hardware: &[&str] = match (seed - first).is_multiple_of(HARDWARE) {
            true => &["--rtl"],
            false => &[],
        };
        let [frames, handlers] = verify(&place, hardware, &format!("seed {seed}:\n{text}"));
        (sent, ran) = (sent + frames, ran + handlers);
    }
    assert!(sent > 0 && ran >= 36 * count, "{sent} packets, {ran} handlers: little was compared");
    println!("{count} programs, {sent} packets, {ran} handlers");
}
