//! Random programs whose tables say each other's keys, and decide about each other: what the
//! interpreter does, with streams that wait and that do not.
//!
//! A failure prints the program. `NICFORGE_RANDOM_DESIGNS` sets how many there are (default 4),
//! `NICFORGE_RANDOM_SEED` the first seed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nicforge_codegen::rtl::{Form, Wanted};
use nicforge_ir::io::random;
use nicforge_ir::{Input, InputEvent};
use nicforge_passes::PassManager;
use nicforge_run::rtl::{Drive, RtlProgram};
use nicforge_tests::{root, setting, verilator_is_missing};

const PACKETS: u64 = 600;
/// Seeds that once showed a mistake; they run first.
const REMEMBERED: [u64; 1] = [158];
/// Words of a packet that keys and conditions are made of.
const WORDS: u64 = 6;

/// Numbers that follow from a seed.
struct Numbers {
    seed: u64,
    drawn: u64,
}

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.drawn += 1;
        u64::from(random(self.seed, self.drawn)) % most
    }

    fn one_of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len() as u64) as usize]
    }
}

/// A table, and how it is asked and changed.
struct Step {
    asks: String,
    /// Behind its own entry, or behind those of tables that say more about it.
    changes: String,
    late: bool,
}

/// Steps of one table; what is known so far is `x`, its entries `v0` and so on.
fn step(at: u64, numbers: &mut Numbers, tables: &mut String) -> Step {
    let kind = numbers.one_of(&["array", "hash", "hash", "lru", "buf"]);
    let size = if kind == "array" {
        numbers.one_of(&["8", "256"])
    } else {
        numbers.one_of(&["40", "300"])
    };
    let _ = match kind {
        "buf" => writeln!(tables, "NF_BUF_TABLE(hash, t{at}, uint16_t, struct value, {size}, 64);"),
        "array" => writeln!(tables, "NF_TABLE(array, t{at}, uint32_t, struct value, {size});"),
        _ => writeln!(tables, "NF_TABLE({kind}, t{at}, uint16_t, struct value, {size});"),
    };
    let mut word = || format!("head.w{}", numbers.below(WORDS));
    let (own, of_key, of_change) = (word(), word(), word());
    let mask = if kind == "array" { format!("({size} - 1)") } else { "1023".to_string() };
    let key = match numbers.below(4) {
        0 => format!("{own} & {mask}"),
        1 if numbers.below(4) == 0 => "3".to_string(),
        1 | 2 => format!("x & {mask}"),
        _ => format!("({of_key} ^ x >> 3) & {mask}"),
    };
    let when = match numbers.below(4) {
        0 => format!("if (({own} & 3) == 1) "),
        1 => format!("if ((x ^ {of_key}) & 1) "),
        _ => String::new(),
    };
    let mut asks = format!(
        "    {when}{{\n        uint32_t key = {key};\n        known{at} = nf_lookup(&t{at}, key, &v{at});\n"
    );
    if kind == "buf" {
        let append = numbers.below(3);
        if append > 0 {
            let _ = writeln!(
                asks,
                "        if ({of_change} & {append}) {{\n            uint16_t word = {own};\n            \
                 if (nf_buf_len(&t{at}, key) > 50)\n                nf_buf_clear(&t{at}, key);\n            nf_buf_append(&t{at}, key, word);\n        }} else {{"
            );
        } else {
            asks.push_str("        {\n");
        }
        let _ = writeln!(
            asks,
            "            uint16_t word = 5;\n            nf_buf_read(&t{at}, key, {own} & 31, &word);\n            x ^= word;\n        }}"
        );
    }
    // What becomes of the entry: at once, or some cycles later.
    let value = match numbers.below(4) {
        0 => format!("v{at}.level += 1;"),
        1 => format!("v{at}.level ^= {of_change};"),
        2 => format!(
            "v{at}.level = filled(v{at}.level, v{at}.last, head.amount);\n        v{at}.last = head.amount;"
        ),
        _ => format!(
            "v{at}.level = filled(filled(v{at}.level, v{at}.last, head.amount), {own}, {of_key});\n        v{at}.last = {of_change};"
        ),
    };
    let show = match numbers.below(3) {
        0 => format!("        x = x * 3 + v{at}.level;\n"),
        1 => format!("        x ^= v{at}.last + (known{at} ? 1 : 2);\n"),
        _ => String::new(),
    };
    let _ = write!(asks, "{show}        at{at} = key;\n        asked{at} = true;\n    }}\n");
    let delete = match (kind, numbers.below(3)) {
        ("hash" | "lru" | "buf", 0) => {
            format!(
                "if (({of_change} & 15) == 7)\n            nf_delete(&t{at}, at{at});\n        else "
            )
        }
        _ => String::new(),
    };
    let read_only = match numbers.below(3) {
        0 => format!(" && ({own} & 2)"),
        _ => String::new(),
    };
    let late = numbers.below(4) == 0;
    let seen = if late { format!("        v{at}.last ^= x & 7;\n") } else { String::new() };
    let changes = format!(
        "    if (asked{at}{read_only}) {{\n        {value}\n{seen}        {delete}nf_update(&t{at}, at{at}, v{at});\n        x += v{at}.level;\n    }}\n"
    );
    Step { asks, changes, late }
}

fn program(seed: u64) -> String {
    let mut numbers = Numbers { seed, drawn: 0 };
    let count = 2 + numbers.below(3);
    let mut tables = String::new();
    let steps: Vec<Step> = (0..count).map(|at| step(at, &mut numbers, &mut tables)).collect();
    let (mut body, mut behind) = (String::new(), String::new());
    for step in &steps {
        body.push_str(&step.asks);
        match step.late {
            true => behind.insert_str(0, &step.changes),
            false => body.push_str(&step.changes),
        }
    }
    let words: String = (0..WORDS).map(|at| format!("    uint16_t w{at};\n")).collect();
    let values: String =
        (0..count).map(|at| format!("    struct value v{at} = {{0, 0}};\n    bool known{at} = false, asked{at} = false;\n    uint32_t at{at} = 0;\n")).collect();
    format!(
        "#include <nicforge.h>\n\nNF_PORTS(2);\n\nstruct NF_PACKED head {{\n{words}    uint32_t amount;\n}};\n\nstruct value {{\n    uint32_t level;\n    uint32_t last;\n}};\n\n\
         {tables}\nstatic uint32_t filled(uint32_t level, uint32_t last, uint32_t amount)\n{{\n    uint32_t now = level + (amount - last) * 3;\n    return now > 100000 ? now - 100000 : now;\n}}\n\n\
         void net_recv(nf_pkt pkt)\n{{\n    struct head head;\n    uint32_t x = 1;\n{values}    if (!nf_extract(pkt, &head)) {{\n        nf_drop(pkt, \"too short\");\n        return;\n    }}\n\
         {body}{behind}    nf_emit(pkt, &x);\n    nf_send(pkt, x & 1);\n}}\n"
    )
}

/// A packet of few values, or of many.
fn frame(seed: u64, n: u64) -> Vec<u8> {
    let draw = |at: u64| random(seed ^ 0x9e37, n * 16 + at);
    let few = [2, 12, 1024][n as usize / 100 % 3];
    let mut frame: Vec<u8> =
        (0..WORDS).flat_map(|at| ((draw(at) % few) as u16).to_le_bytes()).collect();
    frame.extend((7 * n as u32 + draw(14) % 8).to_le_bytes());
    frame.resize(if draw(15) % 30 == 0 { 15 } else { 60 }, 0);
    frame
}

#[test]
fn tables_say_each_others_keys() {
    if verilator_is_missing() {
        return;
    }
    let first = setting("NICFORGE_RANDOM_SEED", 0);
    let mut forms: BTreeMap<String, u32> = BTreeMap::new();
    for seed in REMEMBERED.into_iter().chain(first..first + setting("NICFORGE_RANDOM_DESIGNS", 4)) {
        let text = program(seed);
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("chain.c");
        std::fs::write(&source, &text).unwrap();
        let options = nicforge_frontend::Options::new(root().join("runtime/include"));
        let program = nicforge_frontend::compile(&source, &options)
            .unwrap_or_else(|e| panic!("seed {seed}: {}\n{text}", e.render(false)));
        let program = nicforge_ir::verify(program.program)
            .unwrap_or_else(|e| panic!("seed {seed}: {e:?}\n{text}"));
        let compiled = PassManager::new()
            .run_default(program.clone())
            .unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
        let design = RtlProgram::new(&compiled, Wanted::Best)
            .unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
        let form = match &design.artifact().form {
            Form::Pipe { interval, .. } => {
                let handlers =
                    design.artifact().files.iter().find(|(name, _)| name == "nf_handlers.sv");
                let gates =
                    handlers.map_or(0, |(_, text)| text.matches("// In front of stage ").count());
                format!("pipe of {gates} gate(s), {interval} cycle(s)")
            }
            Form::Engine { why, .. } => format!("engine, {}", why.reason),
            form => format!("{form:?}"),
        };
        println!("seed {seed}: {form}");
        *forms.entry(form.split(',').next().unwrap_or_default().to_string()).or_default() += 1;
        let input = |n| Input::Net { port: n as u32 % 2, frame: frame(seed, n) };
        let events: Vec<InputEvent> =
            (0..PACKETS).map(|n| InputEvent { time_ns: n, seed: 0, input: input(n) }).collect();
        for pressure in [0, seed + 1] {
            let drive = Drive { pressure, ..Drive::default() };
            let (_, found) = design
                .verify(&program, &[], &events, &drive)
                .unwrap_or_else(|e| panic!("seed {seed}, {form}: {e}\n{text}"));
            assert!(
                found.is_empty(),
                "seed {seed}, {form}, pressure {pressure}: {:?}\n{text}",
                found[0]
            );
        }
    }
    println!("{forms:?}");
}
