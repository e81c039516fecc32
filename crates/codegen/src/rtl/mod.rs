//! SystemVerilog for FPGAs.
//!
//! A design is a folder: `nf_handlers.sv` with the handlers, `nf_top.sv` with the packet path,
//! tables and registers around them, the library modules of `rtl/` these use, and the register map.
//! `pipe` makes handlers a pipe, if they can be one; `engine` makes a state machine of them, which
//! runs one event at a time and can do everything, and of which there may be several. All of it is
//! plain SystemVerilog for Verilator, Icarus and yosys.
//!
//! One packet through it: `nf_ingress` writes the frame into a slot of the packet buffer and queues
//! a descriptor; the handlers take it, read header bytes through `nf_access`, use tables, and give
//! `nf_egress` a command with the new headers; that puts them in front of the rest of the payload,
//! which goes from the buffer to the stream.

pub mod cfg;
mod device;
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
mod trigger;
mod words;

use nicforge_ir::{HandlerId, Program, ReasonId, Span, TableKind, Verified};

pub use crate::abi::left as kind;
use crate::artifact::LogFormat;
use crate::c::body::Unsupported;
use crate::c::names::Names;
pub use engine::length::Length;
pub use pipe::dag::NoPipe;
pub use pipe::dag::beside::What;
pub use pipe::dag::patches::Patches;
use shape::Bits;
pub use tables::{ByteStore, TableForm};

/// Bits of the address of a line in any memory.
const ADDRESS_BITS: u32 = 20;
/// Slots of the packet buffer, of which long pipes have more, and lines of 64 bytes in each.
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
    /// Of a pipe, by table: its lookup ports, and whether each gives values.
    pub ports: Vec<Vec<bool>>,
    /// Of a pipe, by table: memories of its size for the same entries, where a packet changes
    /// several of them at once; else 1.
    pub copies: Vec<u32>,
    /// Of a pipe: payload may leave at another place of its words than it came in at.
    pub moves_payload: bool,
    /// Of a pipe: what modules beside it are asked.
    pub asked: Vec<What>,
    /// Slots of the packet buffer.
    pub slots: u32,
    /// Of a pipe: modules that tell packets apart by their strings, and bits and depth of each
    /// queue in front of a gate.
    pub string_locks: u32,
    pub queues: Vec<(u32, u32)>,
    /// Of a pipe: bytes that are put into payload on its way out.
    pub patches: Patches,
    /// Of a pipe, by table: cycles from its first change by an event to the last.
    pub change_span: Vec<u32>,
    pub form: Form,
}

impl RtlArtifact {
    /// Of a question about bytes of strings: the number of their table, and how many bytes.
    pub fn stored(&self, asked: What) -> Option<(u32, u32)> {
        let (memory, bytes) = asked.stored()?;
        let own =
            |form: &TableForm| form.bytes.as_ref().is_some_and(|store| store.memory == memory);
        Some((self.tables.iter().position(own)? as u32, bytes))
    }
}

/// Forms of the handlers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// A packet every `interval` cycles, or `meeting` if it may use the same entries as the one
    /// before. Tables of which packets ask for several entries in turn, though they could be given
    /// at once, and why they are not.
    Pipe { stages: u32, interval: u32, meeting: u32, in_turn: Vec<NoPipe> },
    /// So many state machines of one event at a time each, and why no pipe.
    Engine { replicas: u32, length: Length, why: NoPipe },
    /// Several stages, one behind the other, and why no pipe.
    Stages { stages: Vec<Stage>, why: NoPipe },
}

/// A stage of several: an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The name of its first handler.
    pub name: String,
    pub length: Length,
}

/// Most engines of a design: each has an event in one of the slots, and the others are on their way
/// in and out.
pub const MOST_ENGINES: u32 = SLOTS / 2;

/// Which form handlers are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// A pipe where the program can be one.
    #[default]
    Best,
    /// An engine in any case.
    Engine,
}

/// The design of a program whose calls are all inlined. If it is an engine, it is there `replicas`
/// times, 1 to [`MOST_ENGINES`].
///
/// # Errors
/// Everything that hardware cannot do, with its place and what to do instead.
pub fn generate(
    program: &Verified<Program>,
    wanted: Wanted,
    replicas: u32,
) -> Result<RtlArtifact, Vec<Unsupported>> {
    let program: &Program = program;
    let bits = Bits::new(program);
    let (tables, room, names) = begin(program, &bits)?;
    match pipe_of(program, &bits, &tables, &names, wanted) {
        Ok(made) => Ok(pipe_design(program, tables, &made)),
        Err(why) => {
            let engines = (replicas.clamp(1, MOST_ENGINES), why);
            engine::design::design(program, &bits, tables, room, names, engines)
        }
    }
}

/// The pipe of a program, if one is wanted.
fn pipe_of(
    program: &Program,
    bits: &Bits,
    tables: &[TableForm],
    names: &Names,
    wanted: Wanted,
) -> Result<pipe::schedule::Pipe, NoPipe> {
    match wanted {
        Wanted::Engine => {
            Err(NoPipe { reason: "an engine is wanted".to_string(), span: Span::default() })
        }
        Wanted::Best => pipe::pipe(program, bits, tables, names.clone()),
    }
}

/// The design of a program with internal events. A pipe handles them where they are generated; if
/// it is none, handlers stand in these stages.
///
/// # Errors
/// Everything that hardware cannot do, and stages that have to be one, with their places.
pub fn in_stages(
    program: &Verified<Program>,
    stages: &[Vec<HandlerId>],
    wanted: Wanted,
) -> Result<RtlArtifact, Vec<Unsupported>> {
    let program: &Program = program;
    let bits = Bits::new(program);
    let (tables, room, names) = begin(program, &bits)?;
    match pipe_of(program, &bits, &tables, &names, wanted) {
        Ok(made) => Ok(pipe_design(program, tables, &made)),
        Err(why) => engine::stages::design(program, &bits, tables, room, names, (stages, why)),
    }
}

/// The beginning of every form of a design: tables, room for headers, names that are taken.
fn begin(
    program: &Program,
    bits: &Bits<'_>,
) -> Result<(Vec<TableForm>, limits::Room, Names), Vec<Unsupported>> {
    let tables = tables::forms(program, bits);
    limits::tables(program, &tables)?;
    let room = limits::room(program, bits)?;
    let mut names = Names::new(words::TAKEN.iter().map(|word| word.to_string()));
    reserve(&tables, &mut names);
    Ok((tables, room, names))
}

/// Keeps names of the module's ports from signals.
fn reserve(tables: &[TableForm], names: &mut Names) {
    let fields = [
        "req", "op", "key", "value", "index", "done", "ok", "r_value", "r_index", "k_valid",
        "k_key", "hit", "room", "place", "w_write", "w_delete", "w_value", "refused", "refusals",
        "inserted", "passed",
    ];
    for form in tables {
        for field in fields {
            names.fresh(&format!("{}_{field}", form.signals));
        }
    }
    let numbered = (0..8).map(|at| format!("q{at}"));
    let starts: Vec<String> = ["a", "c", "d", "i", "n", "p", "q", "rec"]
        .into_iter()
        .map(String::from)
        .chain(numbered)
        .collect();
    for at in 0..pipe::dag::beside::MOST {
        for field in ["slot", "to", "sums", "bytes"] {
            names.fresh(&format!("b{at}_{field}"));
        }
    }
    for word in
        starts.iter().flat_map(|start| WORDS.iter().map(move |word| format!("{start}_{word}")))
    {
        names.fresh(&word);
    }
}

/// The files of a design, generated ones and what they use of the library.
fn artifact(
    program: &Program,
    tables: Vec<TableForm>,
    counters: Vec<String>,
    (handlers, top): (Vec<(String, String)>, String),
    mut library: Vec<&'static str>,
    form: Form,
) -> RtlArtifact {
    if handlers.iter().any(|(_, text)| text.contains("nf_divider")) {
        library.push("nf_divider.sv");
    }
    if program.timers().next().is_some() {
        library.push("nf_ticker.sv");
    }
    library.sort_unstable();
    library.dedup();
    let own = handlers.iter().map(|(name, _)| name.as_str()).chain(["nf_top.sv"]);
    let list: String = library.iter().copied().chain(own).map(|f| format!("{f}\n")).collect();
    let mut files = handlers;
    files.extend([
        ("nf_top.sv".to_string(), top),
        ("files.f".to_string(), list),
        ("registers.json".to_string(), registers::json(program, &tables, &counters)),
        ("registers.h".to_string(), registers::header(program, &tables, &counters)),
    ]);
    RtlArtifact {
        files,
        library,
        tables,
        counters,
        reasons: program.reasons.keys().collect(),
        logs: Vec::new(),
        message_bytes: None,
        ports: Vec::new(),
        copies: Vec::new(),
        moves_payload: false,
        string_locks: 0,
        queues: Vec::new(),
        asked: Vec::new(),
        slots: SLOTS,
        patches: Patches::default(),
        change_span: Vec::new(),
        form,
    }
}

fn pipe_design(
    program: &Program,
    tables: Vec<TableForm>,
    made: &pipe::schedule::Pipe,
) -> RtlArtifact {
    let counters = registers::counters(program, &tables);
    let forms: Vec<TableForm> = tables.iter().map(TableForm::in_pipe).collect();
    let (handlers, queues) = pipe::print::print(program, made, &forms);
    let top = pipe::top::print(program, &forms, &counters, made);
    let mut library = vec![
        "nf_queue.sv",
        "nf_line_ram.sv",
        "nf_ingress.sv",
        "nf_slots.sv",
        "nf_egress.sv",
        "nf_control.sv",
    ];
    let at_once =
        |table: usize| made.commits.iter().any(|commit| commit.table == table && commit.at_once);
    library.extend(tables.iter().enumerate().map(|(table, form)| match form.kind {
        TableKind::Array if at_once(table) => "nf_pipe_entries.sv",
        TableKind::Array => "nf_pipe_array.sv",
        TableKind::Hash if at_once(table) => "nf_pipe_hash_entries.sv",
        TableKind::Lpm => "nf_pipe_lpm.sv",
        TableKind::Ternary => "nf_pipe_ternary.sv",
        _ => "nf_pipe_hash.sv",
    }));
    if made
        .commits
        .iter()
        .any(|commit| commit.values.len() > 1 && commit.pace == 0 && !commit.at_once)
    {
        library.push("nf_pipe_parts.sv");
    }
    if made.gates.iter().any(|gate| !gate.locks.is_empty()) {
        library.push("nf_pipe_lock.sv");
    }
    if made.gates.iter().any(|gate| !gate.strings.is_empty()) {
        library.push("nf_string_lock.sv");
    }
    if tables.iter().any(|form| form.bytes.is_some()) {
        library.extend(["nf_byte_store.sv", "nf_line_banks.sv"]);
    }
    if made.asked.iter().any(|asked| matches!(asked.what, What::Sum { .. })) {
        library.extend(["nf_prefix_sum.sv", "nf_line_sum.sv"]);
    }
    if made.asked.iter().any(|asked| matches!(asked.what, What::Bytes(_) | What::Stored { .. })) {
        library.push("nf_frame_bytes.sv");
    }
    if made.patches.count > 0 {
        library.push("nf_patch.sv");
    }
    if library.contains(&"nf_pipe_hash.sv") {
        library.push("nf_pipe_hash_port.sv");
    }
    let form = Form::Pipe {
        stages: made.exit + 1,
        interval: made.interval,
        meeting: made.meeting,
        in_turn: made.in_turn.clone(),
    };
    let message_bytes = made.message_bytes;
    let span = |table| {
        let commit = made.commits.iter().find(|commit| commit.table == table);
        commit.map_or(0, |commit| commit.end() - commit.last)
    };
    let copies = |table| {
        made.commits
            .iter()
            .find(|commit| commit.table == table)
            .map_or(1, pipe::leave::Commit::copies)
    };
    let of_table = |table| {
        let own = move |port: &&pipe::ports::Port| port.table == table && port.turn == 0;
        made.ports.iter().filter(own).map(|port| port.valued)
    };
    RtlArtifact {
        message_bytes,
        ports: (0..tables.len()).map(|table| of_table(table).collect()).collect(),
        copies: (0..tables.len()).map(copies).collect(),
        moves_payload: made.aligned == 0,
        string_locks: made.gates.iter().map(|gate| gate.strings.len() as u32).sum(),
        queues,
        logs: made.logs.clone(),
        slots: made.slots,
        patches: made.patches,
        asked: made.asked.iter().map(|asked| asked.what).collect(),
        change_span: (0..tables.len()).map(span).collect(),
        ..artifact(
            program,
            tables,
            counters,
            (vec![("nf_handlers.sv".to_string(), handlers)], top),
            library,
            form,
        )
    }
}

/// Last words of the module's ports.
const WORDS: &[&str] = &[
    "req", "op", "mem", "line", "from", "length", "value", "sum", "to_mem", "to_line", "to",
    "done", "r_value", "r_sum", "valid", "ready", "host", "kind", "port", "addr", "hlen", "hdr",
    "rest", "free", "slot", "time", "seed", "take", "data", "number", "sums", "there", "open",
    "pick", "more", "step", "patch",
];
