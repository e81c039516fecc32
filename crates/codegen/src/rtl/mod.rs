//! SystemVerilog for FPGAs.
//!
//! A design is a folder: `nf_handlers.sv` with the handlers, `nf_top.sv` with the packet path, tables and registers around them, the
//! library modules of `rtl/` these use, and the register map. `engine` makes a state machine of the handlers, which runs one event at
//! a time and can do everything; everything the modules take is plain SystemVerilog for Verilator, Icarus and yosys.
//!
//! One packet through it: `nf_ingress` writes the frame into a slot of the packet buffer and queues a descriptor; the handlers take it,
//! read header bytes through `nf_access`, use tables, and give `nf_egress` a command with the new headers; that puts them in front of
//! the rest of the payload, which goes from the buffer to the stream.

pub mod cfg;
mod engine;
mod expr;
mod limits;
mod module;
pub mod pipe;
mod registers;
mod shape;
mod state;
mod tables;
mod timing;
mod top;
mod words;

use nicforge_ir::{HandlerId, Program, ReasonId, Span, TableKind, Verified};

use crate::artifact::LogFormat;
use crate::c::body::Unsupported;
use crate::c::names::Names;
use engine::Engine;
pub use engine::kind;
use expr::{Lower, used};
use module::Port;
pub use pipe::dag::NoPipe;
use shape::Bits;
use state::{Arm, States};
pub use tables::{ByteStore, TableForm};

/// Bits of the address of a line in any memory.
const ADDRESS_BITS: u32 = 20;
/// Slots of the packet buffer, and lines of 64 bytes in each.
const SLOTS: u32 = 32;
const SLOT_LINES: u32 = 24;
/// Frames that the design takes, in bytes; others are dropped and counted.
pub const SHORTEST: usize = 14;
pub const LONGEST: usize = 1518;

/// A generated design, with what is needed to run and read it.
#[derive(Clone, Debug)]
pub struct RtlArtifact {
    /// Name and text of each generated file.
    pub files: Vec<(String, String)>,
    /// Names of the library modules in use, with `.sv`.
    pub library: Vec<&'static str>,
    pub tables: Vec<TableForm>,
    /// Names of counters behind the register 0x100, in order.
    pub counters: Vec<String>,
    pub reasons: Vec<ReasonId>,
    /// Format of each `nf_log`, by its number.
    pub logs: Vec<LogFormat>,
    /// Bytes of a message from the host side, if the program takes such.
    pub message_bytes: Option<u32>,
    /// Cycles from what an event changes in tables to its record.
    pub change_before_record: u32,
    pub form: Form,
}

/// What the handlers became.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// A packet every `interval` cycles.
    Pipe { stages: u32, interval: u32 },
    /// One event at a time, and why no pipe.
    Engine { states: usize, why: NoPipe },
}

/// Which form handlers are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// A pipe where the program can be one.
    #[default]
    Best,
    /// An engine in any case.
    Engine,
}

/// The design of a program whose calls are all inlined.
///
/// # Errors
/// Everything that hardware cannot do, with its place and what to do instead.
pub fn generate(program: &Verified<Program>, wanted: Wanted) -> Result<RtlArtifact, Vec<Unsupported>> {
    let program: &Program = program;
    let bits = Bits::new(program);
    let tables = tables::forms(program, &bits);
    limits::tables(program, &tables)?;
    let room = limits::room(program, &bits)?;
    let mut names = Names::new(words::TAKEN.iter().map(|word| word.to_string()));
    reserve(&tables, &mut names);
    if wanted == Wanted::Engine {
        let why = NoPipe { reason: "an engine is wanted".to_string(), span: Span::default() };
        return engine_design(program, &bits, tables, room, names, why);
    }
    match pipe::pipe(program, &bits, &tables, names.clone()) {
        Ok(made) => Ok(pipe_design(program, tables, &made)),
        Err(why) => engine_design(program, &bits, tables, room, names, why),
    }
}

/// Keeps names of the module's ports from signals.
fn reserve(tables: &[TableForm], names: &mut Names) {
    let fields = [
        "req", "op", "key", "value", "index", "done", "ok", "r_value", "r_index", "k_valid", "k_key", "hit",
        "room", "w_write", "w_delete", "w_value", "refused",
    ];
    for form in tables {
        for field in fields {
            names.fresh(&format!("{}_{field}", form.signals));
        }
    }
    for word in ["a", "c", "d", "rec"]
        .iter()
        .flat_map(|start| WORDS.iter().map(move |word| format!("{start}_{word}")))
    {
        names.fresh(&word);
    }
}

/// The files of a design, generated ones and what they use of the library.
fn artifact(
    program: &Program,
    tables: Vec<TableForm>,
    counters: Vec<String>,
    (handlers, top): (String, String),
    mut library: Vec<&'static str>,
    form: Form,
) -> RtlArtifact {
    if handlers.contains("nf_divider") {
        library.push("nf_divider.sv");
    }
    library.sort_unstable();
    library.dedup();
    let list: String =
        library.iter().chain(&["nf_handlers.sv", "nf_top.sv"]).map(|f| format!("{f}\n")).collect();
    let files = vec![
        ("nf_handlers.sv".to_string(), handlers),
        ("nf_top.sv".to_string(), top),
        ("files.f".to_string(), list),
        ("registers.json".to_string(), registers::json(program, &tables, &counters)),
        ("registers.h".to_string(), registers::header(program, &tables, &counters)),
    ];
    RtlArtifact {
        files,
        library,
        tables,
        counters,
        reasons: program.reasons.keys().collect(),
        logs: Vec::new(),
        message_bytes: None,
        change_before_record: 0,
        form,
    }
}

fn pipe_design(program: &Program, tables: Vec<TableForm>, made: &pipe::schedule::Pipe) -> RtlArtifact {
    let counters = registers::counters(program, &tables);
    let handlers = pipe::print::print(program, made, &tables);
    let top = pipe::top::print(program, &tables, &counters, made);
    let mut library = vec![
        "nf_queue.sv",
        "nf_line_ram.sv",
        "nf_ingress.sv",
        "nf_slots.sv",
        "nf_egress.sv",
        "nf_control.sv",
    ];
    library.extend(tables.iter().map(|form| match form.kind {
        TableKind::Array => "nf_pipe_array.sv",
        TableKind::Lpm => "nf_pipe_lpm.sv",
        _ => "nf_pipe_hash.sv",
    }));
    if tables.iter().any(TableForm::pipe_hashes) {
        library.push("nf_pipe_hash_port.sv");
    }
    let form = Form::Pipe { stages: made.exit + 1, interval: made.interval };
    let message_bytes = made.message_bytes;
    RtlArtifact {
        message_bytes,
        change_before_record: made.exit - made.last,
        ..artifact(program, tables, counters, (handlers, top), library, form)
    }
}

fn engine_design<'a>(
    program: &'a Program,
    bits: &'a Bits<'a>,
    tables: Vec<TableForm>,
    room: limits::Room,
    mut names: Names,
    why: NoPipe,
) -> Result<RtlArtifact, Vec<Unsupported>> {
    let mut states = States::new();
    for (name, width) in [
        ("cursor", 16),
        ("pkt_end", 16),
        ("emitted", 16),
        ("header", 8 * room.header),
        ("stream", 64),
        ("now", 64),
        ("port", 8),
        ("slot", 5),
        ("slot_line", ADDRESS_BITS),
    ] {
        states.register(name, width);
    }
    let (idle, finish, refused) = (states.reserve(), states.reserve(), states.reserve());
    let mut logs = Vec::new();
    let mut errors = Vec::new();
    let mut constants = Vec::new();
    let mut starts: [Option<(usize, Option<u32>)>; 2] = [None, None];
    for (id, handler) in &program.handlers {
        let host = match program.events[handler.event].name.as_str() {
            "net_recv" => false,
            "host_send" => true,
            name => {
                errors.push(Unsupported {
                    message: format!("hardware has no event `{name}`, and stages have one handler"),
                    help: "events between handlers are function calls in a design of one stage".to_string(),
                    span: handler.span,
                });
                continue;
            }
        };
        let entry = states.reserve();
        let mut low = Lower::new(bits, &handler.body, names);
        let mut engine = Engine {
            program,
            low: &mut low,
            states: &mut states,
            tables: &tables,
            logs: &mut logs,
            finish,
            bits,
            access_bytes: room.access,
            header_bytes: room.header,
            errors: Vec::new(),
        };
        engine.states.enter(entry);
        let mut size = None;
        let mut start = entry;
        if host {
            size = Some(message_bytes(program, bits, id));
            engine.message(&handler.body);
            start = engine.states.now;
        }
        engine.body(&handler.body, start);
        errors.append(&mut engine.errors);
        constants.append(&mut low.declared);
        names = low.names;
        starts[usize::from(host)] = Some((entry, size));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let message_bytes = starts[1].and_then(|(_, size)| size);
    around(&mut states, (idle, finish, refused), starts);
    let text = handlers(program, &states, &constants, &tables, room);
    let counters = registers::counters(program, &tables);
    let top = top::print(program, &tables, &counters, room);
    let mut library = vec![
        "nf_queue.sv",
        "nf_line_ram.sv",
        "nf_ingress.sv",
        "nf_slots.sv",
        "nf_egress.sv",
        "nf_access.sv",
        "nf_control.sv",
    ];
    for form in &tables {
        library.push(match form.module() {
            "nf_table_array" => "nf_table_array.sv",
            "nf_table_ternary" => "nf_table_ternary.sv",
            "nf_table_lpm" => "nf_table_lpm.sv",
            _ => "nf_table_hash.sv",
        });
        if form.kind == TableKind::Lpm {
            library.push("nf_table_hash.sv");
        }
    }
    let form = Form::Engine { states: states.list.len(), why };
    Ok(RtlArtifact { logs, message_bytes, ..artifact(program, tables, counters, (text, top), library, form) })
}

/// Last words of the module's ports.
const WORDS: &[&str] = &[
    "req", "op", "mem", "line", "from", "length", "value", "sum", "to_mem", "to_line", "to", "done",
    "r_value", "r_sum", "valid", "ready", "host", "kind", "port", "addr", "hlen", "hdr", "rest", "free",
    "slot", "time", "seed", "take", "data",
];

fn message_bytes(program: &Program, bits: &Bits, handler: HandlerId) -> u32 {
    program.events[program.handlers[handler].event].params.iter().map(|param| bits.bytes(param.ty)).sum()
}

/// The states around handlers: waiting for an event, ending it, and giving up messages of the wrong length.
fn around(
    states: &mut States,
    (idle, finish, refused): (usize, usize, usize),
    starts: [Option<(usize, Option<u32>)>; 2],
) {
    let text = |s: &str| s.to_string();
    states.enter(idle);
    states.note("wait for an event");
    let state = states.current();
    state.until = Some(text("d_valid && go"));
    state.outputs = vec![(text("idle"), text("1'b1")), (text("d_take"), text("d_valid && go"))];
    state.writes = [
        ("slot", "d_slot"),
        ("slot_line", "20'(d_slot * 24)"),
        ("now", "d_time"),
        ("stream", "d_seed"),
        ("port", "d_port"),
        ("pkt_end", "d_length"),
        ("cursor", "16'h0"),
        ("emitted", "16'h0"),
        ("header", "'0"),
    ]
    .map(|(name, value)| (text(name), text(value)))
    .to_vec();
    let arm = |when: Option<String>, to| Arm { when, to, writes: Vec::new() };
    let mut arms = Vec::new();
    if let Some((start, Some(size))) = starts[1] {
        arms.push(arm(Some(format!("d_host && d_length == 16'd{size}")), start));
    }
    match starts[0] {
        Some((start, _)) => {
            arms.push(arm(Some(text("!d_host")), start));
            arms.push(arm(None, refused));
        }
        None => arms.push(arm(None, refused)),
    }
    state.arms = arms;
    states.enter(refused);
    states.note("no handler takes it");
    let state = states.current();
    state.outputs = vec![(text("frees"), text("1'b1"))];
    state.arms = vec![arm(None, finish)];
    states.enter(finish);
    states.note("the event is done");
    let state = states.current();
    state.outputs = vec![(text("rec_kind"), format!("5'd{}", kind::END + 24))];
    state.arms = vec![arm(None, idle)];
}

fn handlers(
    program: &Program,
    states: &States,
    constants: &[expr::Wire],
    tables: &[TableForm],
    room: limits::Room,
) -> String {
    let mut ports = vec![
        Port::input("clk", 1),
        Port::input("rst", 1),
        Port::input("go", 1),
        Port::output("idle", 1),
        Port::input("d_valid", 1),
        Port::output("d_take", 1),
        Port::input("d_slot", 5),
        Port::input("d_length", 16),
        Port::input("d_port", 8),
        Port::input("d_host", 1),
        Port::input("d_time", 64),
        Port::input("d_seed", 64),
        Port::output("frees", 1),
        Port::output("frees_now", 1),
        Port::output("free_slot", 5),
        Port::output("a_req", 1),
        Port::output("a_op", 2),
        Port::output("a_mem", 4),
        Port::output("a_line", ADDRESS_BITS),
        Port::output("a_from", 16),
        Port::output("a_length", 16),
        Port::output("a_value", 8 * room.access),
        Port::output("a_sum", 32),
        Port::output("a_to_mem", 4),
        Port::output("a_to_line", ADDRESS_BITS),
        Port::output("a_to", 16),
        Port::input("a_done", 1),
        Port::input("a_r_value", 8 * room.access),
        Port::input("a_r_sum", 32),
        Port::output("c_valid", 1),
        Port::input("c_ready", 1),
        Port::output("c_host", 1),
        Port::output("c_kind", 8),
        Port::output("c_port", 8),
        Port::output("c_addr", 64),
        Port::output("c_hlen", 16),
        Port::output("c_hdr", 8 * room.header),
        Port::output("c_mem", 4),
        Port::output("c_line", ADDRESS_BITS),
        Port::output("c_from", 16),
        Port::output("c_rest", 16),
        Port::output("c_free", 1),
        Port::output("rec_valid", 1),
        Port::output("rec_kind", 5),
        Port::output("rec_data", 64),
    ];
    for form in tables {
        let name = |field: &str| format!("{}_{field}", form.signals);
        ports.extend([
            Port::output(&name("req"), 1),
            Port::output(&name("op"), 4),
            Port::output(&name("key"), form.key_bits),
            Port::output(&name("value"), form.entry_bits()),
            Port::output(&name("index"), 32),
            Port::input(&name("done"), 1),
            Port::input(&name("ok"), 1),
            Port::input(&name("r_value"), form.entry_bits()),
            Port::input(&name("r_index"), 32),
        ]);
    }
    let mut extra = "\n  assign rec_valid = advance && rec_kind[3];\n  assign frees_now = advance && frees;\n  assign free_slot = slot;\n".to_string();
    let divides = states.list.iter().any(|state| state.outputs.iter().any(|(name, _)| name == "div_req"));
    if divides {
        extra.push_str(
            "\n  logic div_req, div_done;\n  logic [63:0] div_dividend, div_divisor, div_quotient, div_remainder;\n  \
             nf_divider u_divider (\n      .clk(clk),\n      .rst(rst),\n      .req(div_req),\n      .dividend(div_dividend),\n      \
             .divisor(div_divisor),\n      .done(div_done),\n      .quotient(div_quotient),\n      .remainder(div_remainder)\n  );\n",
        );
    }
    let head = format!(
        "// Generated by nicforge from {}: its handlers as one engine of {} states, one event at a time.\n//\n\
         // Signals have the names of the source's variables; NAME_q is what a later state sees of NAME. d_: the event's descriptor,\n\
         // a_: bytes of the packet (nf_access), c_: commands to the deparser (nf_egress), t_TABLE_: tables, rec_: what happened, in order.\n",
        program.name,
        states.list.len()
    );
    debug_assert!(states.list.iter().flat_map(|s| &s.wires).all(|w| used(&w.value).all(|n| n != w.name)));
    module::print(&head, "nf_handlers", &ports, constants, states, &extra)
}
