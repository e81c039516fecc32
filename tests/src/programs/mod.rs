//! Random programs in C, from a seed: what users may write, in all its corners. After the manner of
//! Csmith (Yang et al., PLDI 2011) and YARPGen (Livinskii et al., OOPSLA 2020): programs are right
//! by construction and end, and what C leaves open is written by macros that say what it means here
//! (`tests/oracle/defined.h`).

mod bytes;
mod chosen;
mod events;
mod expr;
mod ops;
mod patterns;
mod pointers;
mod rng;
mod scaled;
mod statics;
mod stmt;
mod types;

use std::fmt::Write;

pub use events::{entries, events};
pub use patterns::patterns;
pub use rng::Rng;
use types::{Def, Ty};

/// The handler of a program's timer.
const TIMER: &str = "h7";
/// The function that is called with entries that go with time.
const GONE: &str = "h6";

/// A program's text, and the names at file scope.
#[derive(Clone, Debug)]
pub struct Generated {
    pub seed: u64,
    pub text: String,
}

impl Generated {
    /// Names that programs of one object must not share.
    pub fn names() -> Vec<String> {
        let number = |prefix: char| (0..8).map(move |n| format!("{prefix}{n}"));
        ['s', 't', 'h', 'k', 'q', 'e', 'g'].into_iter().flat_map(number).collect()
    }
}

/// What programs may have. `NICFORGE_RANDOM_WITHOUT` names what they shall not (`padding`, `trim`),
/// to look behind a fault that is known.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bit-fields, truth values in structs, members that are aligned.
    pub padding: bool,
    pub trim: bool,
}

impl Options {
    pub fn from_environment() -> Options {
        let without = std::env::var("NICFORGE_RANDOM_WITHOUT").unwrap_or_default();
        let has = |name| !without.split(',').any(|off| off == name);
        Options { padding: has("padding"), trim: has("trim") }
    }
}

/// A variable in scope.
#[derive(Clone, Debug)]
struct Var {
    text: String,
    /// Behind it, in front of a member.
    dot: &'static str,
    ty: Ty,
    writable: bool,
}

#[derive(Clone, Debug)]
struct Table {
    kind: &'static str,
    key: Ty,
    value: Ty,
    strings: bool,
}

#[derive(Clone, Debug)]
struct Helper {
    result: &'static str,
    values: Vec<Ty>,
    /// Struct it gets a pointer to, and whether it may write there.
    pointer: Option<(usize, bool)>,
    packet: bool,
}

/// What a body is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// Gives its packet away on each way.
    Packet,
    /// Reads and changes a packet that it does not give away.
    Borrowed,
    /// Has none.
    Values,
}

struct Gen {
    r: Rng,
    out: String,
    indent: usize,
    structs: Vec<Def>,
    tables: Vec<Table>,
    helpers: Vec<Helper>,
    /// Constant arrays: element type and length.
    consts: Vec<(&'static str, u32)>,
    queues: Vec<Helper>,
    /// Element types of functions that take pointers to elements.
    walkers: Vec<&'static str>,
    /// Element type of the function that gives a pointer back, and whether it may be null.
    finds: &'static str,
    null: bool,
    message: Option<usize>,
    /// Variables outside functions.
    statics: Vec<Var>,
    scope: Vec<Var>,
    /// Variables made so far in this function.
    made: usize,
    loops: usize,
    /// Labels that `goto` may lead to.
    labels: Vec<String>,
    /// Inside an index.
    indexing: bool,
    /// What may still be written.
    budget: i32,
    of: Of,
    /// Result of the function around.
    result: Option<&'static str>,
    /// Queues that may be written to: later ones only, so that programs end.
    queue_from: usize,
    /// Queues that something is written to.
    fed: Vec<usize>,
    /// All handlers of queues are written: what was not fed has none.
    closed: bool,
    /// True if it writes to the host's memory and sends byte strings, which few targets do.
    far: bool,
    /// True if it sends copies of packets.
    copies: bool,
    /// True if it sends packets made from nothing.
    news: bool,
    /// True if it encrypts and digests.
    ciphers: bool,
    /// True if it has variables that outlive events.
    keeps: bool,
    /// Number of those variables so far.
    kept: usize,
    options: Options,
}

/// The program of a seed.
pub fn generate(seed: u64) -> Generated {
    let mut r = Rng::new(seed ^ 0xc0de);
    let options = Options::from_environment();
    let far = r.percent(8);
    let structs = types::structs(&mut r, options.padding);
    let mut g = Gen {
        r,
        out: String::new(),
        indent: 0,
        structs,
        tables: Vec::new(),
        helpers: Vec::new(),
        consts: Vec::new(),
        queues: Vec::new(),
        walkers: Vec::new(),
        finds: "uint8_t",
        null: false,
        message: None,
        statics: Vec::new(),
        scope: Vec::new(),
        made: 0,
        loops: 0,
        labels: Vec::new(),
        indexing: false,
        budget: 0,
        of: Of::Values,
        result: None,
        queue_from: 0,
        fed: Vec::new(),
        closed: false,
        far,
        copies: Rng::new(seed ^ 0xc09e).percent(15),
        news: Rng::new(seed ^ 0x9e77).percent(15),
        ciphers: Rng::new(seed ^ 0xae50).percent(8),
        keeps: Rng::new(seed ^ 0x57a7).percent(25),
        kept: 0,
        options,
    };
    g.program();
    Generated { seed, text: g.out }
}

impl Gen {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:width$}{text}", "", width = 4 * self.indent);
    }

    fn open(&mut self, text: &str) {
        self.line(&format!("{text} {{"));
        self.indent += 1;
    }

    fn close(&mut self, text: &str) {
        self.indent -= 1;
        self.line(&format!("}}{text}"));
    }

    fn program(&mut self) {
        self.out.push_str("#include <nicforge.h>\n\n#include \"defined.h\"\n\n");
        let text = types::print(&self.structs);
        self.out.push_str(&text);
        self.out.push_str(
            "struct s7 {\n    uint8_t at;\n    uint16_t sum;\n    uint32_t used : 3;\n};\n\n",
        );
        self.out.push_str(bytes::STRUCT);
        self.constants();
        self.declare_tables();
        self.declare_statics();
        self.walkers();
        if self.r.percent(30) {
            self.message = Some(self.r.below(self.structs.len()));
        }
        for _ in 0..self.r.below(3) {
            self.helper();
        }
        if self.r.percent(25) {
            self.declare_queues();
        }
        let handler = Helper { result: "void", values: Vec::new(), pointer: None, packet: true };
        self.queue_from = 0;
        self.function("void net_recv(nf_pkt pkt)", &handler, Of::Packet, 14);
        if self.r.percent(20) {
            let of = self.r.below(self.structs.len());
            let handler = Helper {
                result: "void",
                values: vec![Ty::Struct(of)],
                pointer: None,
                packet: false,
            };
            self.function(&format!("void host_send(struct s{of} a0)"), &handler, Of::Values, 8);
        }
        for number in 0..self.queues.len() {
            // A handler that nothing is handed to is an error.
            if !self.fed.contains(&number) {
                continue;
            }
            let queue = self.queues[number].clone();
            self.queue_from = number + 1;
            let head = self.queue_head(number);
            let of = if queue.packet { Of::Packet } else { Of::Values };
            self.function(&head, &queue, of, 6);
        }
        // Last, so that programs without one are as they were.
        if self.r.percent(12) {
            let period = 20 + self.r.below(2_000);
            self.queue_from = 0;
            self.closed = true;
            let none = Helper { result: "void", values: Vec::new(), pointer: None, packet: false };
            self.function(
                &format!("NF_TIMER(NF_US({period}))\nvoid {TIMER}(void)"),
                &none,
                Of::Values,
                6,
            );
        }
        if self.r.percent(12) {
            self.expires();
        }
    }

    /// Entries of a hash table go with time.
    fn expires(&mut self) {
        let number = self.r.below(self.tables.len());
        let table = self.tables[number].clone();
        let Some(Some(member)) = self.counter(&table).filter(|_| table.kind == "hash") else {
            return;
        };
        let time = 500 + self.r.below(20_000);
        (self.queue_from, self.closed) = (0, true);
        let (key, value) = (types::named(&table.key), types::named(&table.value));
        let values = vec![table.key.clone(), table.value.clone()];
        let gone = Helper { result: "void", values, pointer: None, packet: false };
        let head = format!("static void {GONE}({key} a0, {value} a1)");
        self.function(&head, &gone, Of::Values, 4);
        self.line(&format!("NF_EXPIRES(t{number}, {member}, NF_US({time}), {GONE})"));
    }

    fn constants(&mut self) {
        for number in 0..self.r.below(2) {
            let int = self.r.of(&["uint8_t", "uint32_t", "int16_t", "uint64_t"]);
            let len = 1 + self.r.below(8) as u32;
            let values: Vec<String> = (0..len).map(|_| (self.r.bits() as u8).to_string()).collect();
            self.line(&format!(
                "static const {int} k{number}[{len}] = {{{}}};\n",
                values.join(", ")
            ));
            self.consts.push((int, len));
        }
    }

    fn declare_tables(&mut self) {
        for number in 0..1 + self.r.below(3) {
            let kind = self
                .r
                .of(&["hash", "hash", "hash", "lru", "lru", "array", "array", "lpm", "ternary"]);
            let of = self.r.below(self.structs.len());
            let int =
                Ty::Int(self.r.of(&["uint32_t", "uint64_t", "uint16_t", "uint8_t", "int32_t"]));
            let key = match kind {
                "array" => Ty::Int("uint32_t"),
                _ if self.r.percent(60) => Ty::Struct(of),
                _ => int,
            };
            let of = self.r.below(self.structs.len());
            let value = match self.r.percent(60) {
                true => Ty::Struct(of),
                false => {
                    Ty::Int(self.r.of(&["uint32_t", "uint64_t", "int64_t", "uint16_t", "uint8_t"]))
                }
            };
            let capacity =
                if self.r.percent(40) { 1 + self.r.below(8) } else { 16 + self.r.below(50) };
            let strings = !matches!(kind, "lpm" | "ternary") && self.r.percent(15);
            let (macro_name, room) = if strings {
                ("NF_BUF_TABLE", format!(", {}", 8 * (1 + self.r.below(16))))
            } else {
                ("NF_TABLE", String::new())
            };
            let (k, v) = (types::named(&key), types::named(&value));
            self.line(&format!("{macro_name}({kind}, t{number}, {k}, {v}, {capacity}{room});"));
            self.tables.push(Table { kind, key, value, strings });
        }
        self.line("");
    }

    fn helper(&mut self) {
        let result = self.r.of(&["uint32_t", "uint64_t", "int32_t", "bool", "uint8_t", "int16_t"]);
        let values = (0..self.r.below(3)).map(|_| self.some_type(30)).collect();
        let of = self.r.below(self.structs.len());
        let writes = self.r.percent(70);
        let pointer = self.r.percent(70).then_some((of, writes));
        let packet = self.r.percent(30);
        let helper = Helper { result, values, pointer, packet };
        let mut params: Vec<String> = Vec::new();
        if packet {
            params.push("nf_pkt pkt".into());
        }
        params.extend(
            helper.values.iter().enumerate().map(|(i, ty)| types::declare(ty, &format!("a{i}"))),
        );
        if let Some((of, writes)) = pointer {
            params.push(format!("{}struct s{of} *p", if writes { "" } else { "const " }));
        }
        let params = if params.is_empty() { "void".into() } else { params.join(", ") };
        let head = format!("static {result} h{}({params})", self.helpers.len());
        let of = if packet { Of::Borrowed } else { Of::Values };
        self.function(&head, &helper, of, 5);
        self.helpers.push(helper);
    }

    fn declare_queues(&mut self) {
        for number in 0..1 + self.r.below(2) {
            let packet = self.r.percent(70);
            let count = self.r.below(3).max(usize::from(!packet));
            let values = (0..count).map(|_| self.some_type(40)).collect();
            self.queues.push(Helper { result: "void", values, pointer: None, packet });
            let head = self.queue_head(number);
            self.line(&format!("{head};"));
        }
        self.line("");
    }

    fn queue_head(&self, number: usize) -> String {
        let queue = &self.queues[number];
        let packet = queue.packet.then(|| "nf_pkt pkt".to_string());
        let values =
            queue.values.iter().enumerate().map(|(i, ty)| types::declare(ty, &format!("a{i}")));
        format!(
            "void q{number}({})",
            packet.into_iter().chain(values).collect::<Vec<_>>().join(", ")
        )
    }

    /// An integer's type, or a struct's with so many percent.
    fn some_type(&mut self, structs: u32) -> Ty {
        if self.r.percent(structs) {
            Ty::Struct(self.r.below(self.structs.len()))
        } else {
            Ty::Int(self.r.of(&types::INTS))
        }
    }

    fn function(&mut self, head: &str, function: &Helper, of: Of, budget: i32) {
        self.scope = self.statics.clone();
        self.made = 0;
        (self.of, self.budget) = (of, budget);
        self.result = (function.result != "void").then_some(function.result);
        for (i, ty) in function.values.iter().enumerate() {
            self.scope.push(Var {
                text: format!("a{i}"),
                dot: ".",
                ty: ty.clone(),
                writable: true,
            });
        }
        if let Some((of, writes)) = function.pointer {
            self.scope.push(Var {
                text: "p".into(),
                dot: "->",
                ty: Ty::Struct(of),
                writable: writes,
            });
        }
        self.line(head);
        self.line("{");
        self.indent += 1;
        for _ in 0..2 + self.r.below(3) {
            self.local();
        }
        self.block();
        self.leave();
        self.indent -= 1;
        self.line("}\n");
    }
}

#[cfg(test)]
mod tests {
    use super::generate;

    /// Seed 30008 once had no end: all its variables were arrays, which were read by indices that
    /// were read from arrays.
    #[test]
    fn programs_end_and_are_the_same_twice() {
        for seed in (30_000..30_400).chain(0..400) {
            let text = generate(seed).text;
            assert!(text.len() < 100_000, "seed {seed}: {} bytes", text.len());
            assert_eq!(text, generate(seed).text);
        }
    }
}
