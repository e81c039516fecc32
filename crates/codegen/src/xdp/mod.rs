//! C for the Linux kernel's XDP hook.
//!
//! One C function per handler, with packets and tables [in place](crate::inplace); [`target`] has
//! what is the kernel's. Programs with several stages are [pipelines](pipeline) of programs joined
//! by CPU maps.

mod aligned;
mod forms;
mod pipeline;
mod process;
mod refused;
mod target;

use std::collections::HashMap;
use std::fmt::Write;

use nicforge_ir::{
    CommuteOp, ConstId, Direction, HandlerId, Program, ReasonId, Table, TableId, TableKind, Type,
};

use crate::artifact::{
    LogFormat, XdpArtifact, XdpBuf, XdpMapShape, XdpProgram, XdpSource, XdpTable,
};
use crate::c::body::{Kept, Unsupported};
use crate::c::globals::{self, clock_use};
use crate::c::names::Names;
use crate::c::types::CTypes;
use crate::c::{Emitter, LineStyle};
use crate::dpdk::Pipeline;
use crate::inplace::InPlace;
use crate::inplace::state::{Cursor, Emits, State};
use forms::{Writing, in_every_form};
use pipeline::{Form, Handover, Pipe};
use target::Xdp;

/// Bytes that clang copies and clears by itself for certain: it has no functions to call for more.
const FAR: u32 = 512;

/// How what lies in a handler's frame is written.
const FRAME: &str = "nf_frame->";

/// Slack behind a byte string in a map value: one packet may be copied in before the verifier
/// believes the length.
const BUF_SLACK: u32 = 4096;

/// C and its description for a program whose calls are all inlined.
///
/// # Errors
/// Every op that XDP cannot do, with its place and what to do instead.
pub fn generate(program: &Program, lines: LineStyle) -> Result<XdpArtifact, Vec<Unsupported>> {
    in_every_form(|form| Generator { form, ..Generator::new(program, lines, None) }.run())
}

/// C for a planned program: a BPF program for every stage of the pipeline.
///
/// # Errors
/// As [`generate`], and events between stages that a CPU map cannot carry.
pub fn generate_pipeline(
    program: &Program,
    pipeline: &Pipeline,
    lines: LineStyle,
) -> Result<XdpArtifact, Vec<Unsupported>> {
    generate_split(program, pipeline, &[], lines)
}

/// Generates a program of which some stages, by number, run in a process: their C is the host
/// dialect's, and here is what joins both.
///
/// # Errors
/// As [`generate_pipeline`], and what stages of the process and behind it cannot do.
pub fn generate_split(
    program: &Program,
    pipeline: &Pipeline,
    in_process: &[usize],
    lines: LineStyle,
) -> Result<XdpArtifact, Vec<Unsupported>> {
    in_every_form(|form| {
        let pipe = Some(Pipe::new(program, pipeline, in_process)?);
        Generator { form, ..Generator::new(program, lines, pipe) }.run()
    })
}

struct Generator<'a> {
    program: &'a Program,
    lines: LineStyle,
    types: CTypes<'a>,
    globals: Names,
    consts: HashMap<ConstId, String>,
    maps: HashMap<TableId, XdpTable>,
    pipe: Option<Pipe>,
    form: Writing,
    /// Tables whose values cannot lie so that the kernel changes their numbers in place.
    unaligned: Vec<Unsupported>,
}

/// State that handlers share while they are printed one after the other.
#[derive(Default)]
struct Shared {
    logs: Vec<LogFormat>,
    /// What each place that hands an event on knows about the packet.
    handovers: Vec<Handover>,
    scans: Vec<target::Scan>,
}

impl<'a> Generator<'a> {
    fn new(program: &'a Program, lines: LineStyle, pipe: Option<Pipe>) -> Self {
        let mut globals = Names::new([]);
        let consts = globals.of_constants(program);
        let elsewhere =
            pipe.as_ref().map(|pipe| process::tables(program, pipe).0).unwrap_or_default();
        let (mut maps, mut unaligned) = (HashMap::new(), Vec::new());
        for (id, table) in &program.tables {
            let (map, shape) = (globals.fresh(&table.name), shape(program, id));
            let front = match shape {
                XdpMapShape::PerCpuSum => Ok(0),
                _ if elsewhere.contains(&id) => Ok(0),
                _ => aligned::front(program, id),
            };
            let front = front.unwrap_or_else(|error| {
                unaligned.push(error);
                0
            });
            let buf = buf_place(program, table, front);
            maps.insert(id, XdpTable { table: id, map, shape, front, buf });
        }
        let types = CTypes::new(program);
        Generator {
            program,
            lines,
            types,
            globals,
            consts,
            maps,
            pipe,
            form: Writing::Plain,
            unaligned,
        }
    }

    fn run(mut self) -> Result<XdpArtifact, Vec<Unsupported>> {
        let program = self.program;
        let prefix = if self.pipe.is_some() { "nf_handle_" } else { "nf_" };
        let names: HashMap<HandlerId, String> = program
            .handlers
            .iter()
            .map(|(id, h)| (id, format!("{prefix}{}", self.globals.fresh(&h.name))))
            .collect();
        self.agree(&names);
        let mut shared = Shared::default();
        let mut errors = std::mem::take(&mut self.unaligned);
        let mut functions = String::new();
        let mut programs = Vec::new();
        let mut uses_time_or_random = false;
        for (id, handler) in &program.handlers {
            if self.pipe.as_ref().is_some_and(|pipe| pipe.inside(id)) {
                continue;
            }
            let clock = clock_use(handler);
            uses_time_or_random |= clock.0 || clock.1;
            match self.handler(id, &names[&id], &mut shared) {
                Ok(text) => functions.push_str(&text),
                Err(error) => errors.push(error),
            }
            let name = self.entry_program(id, &names[&id]);
            programs.extend(name.map(|name| XdpProgram {
                name,
                handler: id,
                event: handler.event,
            }));
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        if let Some(pipe) = &self.pipe {
            functions.push_str(&pipe.programs(program, &names));
            functions.push_str(&pipe.spreading(program));
            functions.push_str(&process::returning(pipe));
        }
        let scans: String = shared.scans.iter().map(target::Scan::declaration).collect();
        functions.insert_str(0, &scans);
        let uses_host_ring =
            ["nf_host", "nf_buf_deliver", "nf_copy_frame"].iter().any(|to| functions.contains(to));
        let source = self.file(&functions, uses_host_ring);
        let process = self.pipe.as_ref().and_then(|pipe| process::describe(program, pipe));
        let mut tables: Vec<XdpTable> = self.maps.into_values().collect();
        tables
            .retain(|t| process.as_ref().is_none_or(|process| !process.tables.contains(&t.table)));
        tables.sort_by_key(|t| t.table);
        let mut reasons: Vec<(Option<ReasonId>, String)> =
            program.reasons.iter().map(|(id, r)| (Some(id), r.text.clone())).collect();
        reasons.push((None, "no room for the headers".to_string()));
        let (logs, pipeline) = (shared.logs, self.pipe.as_ref().map(Pipe::describe));
        Ok(XdpArtifact {
            source: XdpSource { plain: source, others: Vec::new() },
            programs,
            tables,
            reasons,
            logs,
            uses_time_or_random,
            uses_host_ring,
            process,
            pipeline,
        })
    }

    /// Finds what the senders of each event agree on: prints every handler once, senders first.
    fn agree(&mut self, names: &HashMap<HandlerId, String>) {
        let Some(pipe) = &self.pipe else { return };
        let mut rest: Vec<HandlerId> = pipe.handlers.concat();
        let senders = |id: HandlerId, rest: &[HandlerId]| {
            let event = self.program.handlers[id].event;
            rest.iter().any(|from| {
                *from != id && pipeline::generated(self.program, *from).contains(&event)
            })
        };
        let mut order = Vec::new();
        while !rest.is_empty() {
            // What goes round through the process may have no first: then nothing is known about
            // its packet.
            let ready = rest.iter().position(|id| !senders(*id, &rest));
            order.push((rest.remove(ready.unwrap_or(0)), ready.is_some()));
        }
        let mut shared = Shared::default();
        for (id, known) in order {
            let event = self.program.handlers[id].event;
            if self.program.events[event].direction == Direction::Internal
                && let Some(pipe) = &mut self.pipe
            {
                if !known || pipeline::generated(self.program, id).contains(&event) {
                    shared.handovers.push((event, Form { cursor: None, staged: true }));
                }
                pipe.agree(event, &shared.handovers);
            }
            let known = shared.handovers.clone();
            // What is wrong is reported when it is printed for good.
            if self.handler(id, &names[&id], &mut shared).is_err() {
                // A handler of the process may do more than the kernel: what it hands on is known
                // at run time.
                shared.handovers = known;
                let sent = pipeline::generated(self.program, id).into_iter();
                shared
                    .handovers
                    .extend(sent.map(|event| (event, Form { cursor: None, staged: true })));
            }
        }
    }

    /// The BPF program that takes the handler's event from outside, if that is where it comes from.
    fn entry_program(&self, id: HandlerId, function: &str) -> Option<String> {
        let Some(pipe) = &self.pipe else { return Some(function.to_string()) };
        let event = &self.program.events[self.program.handlers[id].event];
        match (event.name.as_str(), event.direction) {
            (_, Direction::Internal) => None,
            ("net_recv", _) if pipe.spread.is_some() => Some("nf_spread".to_string()),
            ("net_recv", _) => pipe.stage_of(id).map(|at| match pipe.stages[at].queue {
                Some(_) => format!("nf_enter_{at}"),
                None => pipe.stages[at].program.clone(),
            }),
            _ => Some(function.to_string()),
        }
    }

    /// The whole file around the handlers' functions.
    fn file(&self, functions: &str, host_ring: bool) -> String {
        let program = self.program;
        let mut out =
            format!("/* Generated by nicforge from {}; for the xdp target. */\n\n", program.name);
        let parts = [
            (host_ring, "HOST_RING"),
            (functions.contains("nf_staging"), "STAGING"),
            (functions.contains("nf_event_room"), "ROOM"),
            (functions.contains("nf_raised_room"), "RAISED_ROOM"),
            (functions.contains("nf_zeroes"), "ZEROES"),
            (functions.contains("nf_csum_frame"), "FRAME_SUM"),
        ];
        for (_, part) in parts.iter().filter(|(used, _)| *used) {
            let _ = writeln!(out, "#define NF_{part}");
        }
        let stages = self.pipe.as_ref().map_or(1, |pipe| pipe.stages.len());
        if let Some(pipe) = &self.pipe {
            let _ = writeln!(out, "#define NF_STAGES {stages}");
            if pipe.has_process() {
                let _ = writeln!(out, "#define NF_PROCESS\n#define NF_THREADS {}", pipe.threads());
            }
        }
        out.push_str("#include \"nf_rt.h\"\n\n");
        out.push_str("char LICENSE[] SEC(\"license\") = \"Dual MIT/GPL\";\n\n");
        out.push_str("const volatile struct nf_config nf_config = {0};\n");
        out.push_str("struct nf_event nf_event = {0};\n");
        let _ = writeln!(out, "u64 nf_drops[{}] = {{0}};", (program.reasons.len() + 1) * stages);
        let _ = writeln!(out, "u64 nf_refused[{}] = {{0}};", program.tables.len().max(1));
        if functions.contains("NF_CLEAR") || functions.contains("NF_FORGET") || self.pipe.is_some()
        {
            out.push_str("u64 nf_zero = 0;\n");
        }
        if self.pipe.as_ref().is_some_and(Pipe::has_process) {
            out.push_str(
                "u64 nf_order[NF_THREADS] = {0};\nu64 nf_unsent[NF_THREADS] = {0};\nu64 nf_asleep[NF_THREADS] = {0};\n\
                 u64 nf_values = 0;\n",
            );
        }
        let refusals = if self.pipe.is_some() { "u64 nf_refusals_count = 0;\n" } else { "" };
        let _ = write!(out, "#if NF_MODE == 1\nu64 nf_recorded = 0;\n{refusals}#endif\n\n");
        if functions.contains("nf_hash_") {
            out.push_str(&globals::crc_tables());
        }
        out.push_str(&self.types.declarations());
        out.push_str(&globals::constants(&self.types, &self.consts));
        let elsewhere =
            self.pipe.as_ref().map(|pipe| process::tables(program, pipe).0).unwrap_or_default();
        for (id, table) in program.tables.iter().filter(|(id, _)| !elsewhere.contains(id)) {
            out.push_str(&self.map(id, table));
        }
        if let Some(pipe) = &self.pipe {
            out.push_str(&pipe.declarations(program, &self.types));
        }
        out.push_str(functions);
        out
    }

    /// The declaration of a table's map.
    fn map(&self, id: TableId, table: &Table) -> String {
        let XdpTable { map, shape, front, buf, .. } = &self.maps[&id];
        let (key, value) = (self.types.name(table.key), self.types.name(table.value));
        let mut out = String::new();
        let mut value_type = value.clone();
        let mut key_type = key.clone();
        let before = match front {
            0 => String::new(),
            bytes => format!("    u8 nf_front[{bytes}] NF_LOCAL;\n"),
        };
        if let Some(buf) = buf {
            let _ = writeln!(
                out,
                "struct nf_entry_{map} {{\n{before}    {value} value;\n    u32 nf_len NF_LOCAL;\n    struct nf_record_head nf_head NF_LOCAL;\n    u8 nf_buf[{}];\n}};\n",
                buf.capacity + BUF_SLACK
            );
            value_type = format!("struct nf_entry_{map}");
        } else if *front > 0 && *shape != XdpMapShape::TernaryList {
            let _ = writeln!(out, "struct nf_entry_{map} {{\n{before}    {value} value;\n}};\n");
            value_type = format!("struct nf_entry_{map}");
        }
        match shape {
            XdpMapShape::Lpm => {
                let _ = writeln!(
                    out,
                    "struct nf_lpm_{map} {{\n    u32 bits;\n    {key} key;\n}} __attribute__((packed));\n"
                );
                key_type = format!("struct nf_lpm_{map}");
            }
            XdpMapShape::TernaryList => {
                let at =
                    |ty| format!(" __attribute__((aligned({})))", self.program.layout(ty).align);
                let (key_at, value_at) = (at(table.key), at(table.value));
                let _ = writeln!(
                    out,
                    "struct nf_rule_{map} {{\n    u32 used;\n    u32 priority;\n    {key} key{key_at};\n    {key} mask{key_at};\n{before}    {value} value{value_at};\n}};\n"
                );
                key_type = "u32".to_string();
                value_type = format!("struct nf_rule_{map}");
            }
            _ => {}
        }
        let kind = match (shape, table.kind) {
            (XdpMapShape::Exact, TableKind::Lru) => "BPF_MAP_TYPE_LRU_HASH",
            (XdpMapShape::Exact, _) => "BPF_MAP_TYPE_HASH",
            (XdpMapShape::PerCpuSum, _) => "BPF_MAP_TYPE_PERCPU_ARRAY",
            (XdpMapShape::Lpm, _) => "BPF_MAP_TYPE_LPM_TRIE",
            (XdpMapShape::Array | XdpMapShape::TernaryList, _) => "BPF_MAP_TYPE_ARRAY",
        };
        // The kernel's LRU evicts in batches from lists of its own and before it is full; room
        // beside the capacity keeps the promise that at least this many entries stay.
        let entries = if table.kind == TableKind::Lru {
            table.capacity as u64 * 2 + 4096
        } else {
            table.capacity as u64
        };
        let _ = writeln!(
            out,
            "struct {{\n    __uint(type, {kind});\n    __uint(max_entries, {entries});"
        );
        if *shape == XdpMapShape::Lpm {
            out.push_str("    __uint(map_flags, BPF_F_NO_PREALLOC);\n");
        }
        if table.shared {
            out.push_str("    __uint(map_flags, BPF_F_MMAPABLE);\n");
        }
        let _ = writeln!(
            out,
            "    __type(key, {key_type});\n    __type(value, {value_type});\n}} {map} SEC(\".maps\");\n"
        );
        out
    }

    fn handler(
        &self,
        id: HandlerId,
        name: &str,
        shared: &mut Shared,
    ) -> Result<String, Unsupported> {
        let program = self.program;
        let handler = &program.handlers[id];
        let event = &program.events[handler.event];
        let known = match event.direction {
            Direction::In => {
                matches!(event.name.as_str(), "net_recv" | "host_send") || event.period.is_some()
            }
            Direction::Internal => self.pipe.is_some(),
            Direction::Out => false,
        };
        if !known {
            return Err(refused::handled(event, handler.span));
        }
        let body = &handler.body;
        let pipe = self.pipe.as_ref();
        let stage = pipe.and_then(|pipe| pipe.stage_of(id)).unwrap_or(0);
        let drop_base = (stage * (program.reasons.len() + 1)) as u32;
        let target = Xdp {
            maps: &self.maps,
            handler: id,
            pipe,
            stage,
            drop_base,
            logs: std::mem::take(&mut shared.logs),
            handovers: std::mem::take(&mut shared.handovers),
            uses_verdict: false,
            no_room: drop_base + program.reasons.len() as u32,
            scans: std::mem::take(&mut shared.scans),
        };
        let state = pipe.map_or(State::default(), |pipe| pipe.entry_state(program, id));
        let dialect = InPlace::new(body, target);
        let taken =
            ["data", "end", "clock", "draws", "cursor", "staged", "staged_len", "event", "start"];
        let names = Names::new(taken.map(String::from));
        let mut emitter = Emitter::new(
            &self.types,
            body,
            &self.consts,
            names,
            dialect,
            state.clone(),
            self.lines,
        );
        let mut framed = match self.form {
            Writing::Plain => Vec::new(),
            form => emitter.vars.move_out(body, FRAME, form.forgets()),
        };
        emitter.far = (self.form != Writing::Plain).then_some(FAR);
        emitter.forgets = self.form.forgets();
        emitter.open_loops = self.form == Writing::Open;
        let kept = Kept::default();
        emitter.kept = emitter.forgets.then(|| (FRAME, Kept::clone(&kept)));
        let (text, dialect) = emitter.run()?;
        framed.append(&mut kept.borrow_mut());
        shared.logs = dialect.target.logs.clone();
        shared.handovers = dialect.target.handovers.clone();
        shared.scans = dialect.target.scans.clone();
        let mut out = self.frame(name, &framed);
        out.push_str(&self.head(id, name, &state));
        if !framed.is_empty() {
            let _ = writeln!(out, "    u32 nf_first = 0;");
            let _ = writeln!(
                out,
                "    struct nf_frame_{name} *nf_frame = bpf_map_lookup_elem(&nf_frames_{name}, &nf_first);"
            );
            out.push_str("    if (!nf_frame)\n        return XDP_ABORTED;\n");
        }
        if dialect.uses_cursor && state.cursor != Cursor::Dynamic {
            out.push_str("    u64 cursor = 0;\n");
        }
        if dialect.uses_start {
            out.push_str("    u64 start = 0;\n");
        }
        if dialect.uses_staging && state.emits != Emits::Staged {
            out.push_str("    u32 staged_len = 0;\n    u8 *staged = nf_staging();\n");
            out.push_str("    if (!staged)\n        return XDP_ABORTED;\n");
        }
        if dialect.target.uses_verdict {
            out.push_str("    int verdict = XDP_DROP;\n");
        }
        out.push_str(&self.clock(id));
        let message: u32 =
            body.blocks[body.entry()].params.iter().map(|p| program.size_of(body.ty(*p))).sum();
        if event.direction == Direction::In && message > 0 {
            let _ = writeln!(out, "    if (data + {message} > end)\n        return XDP_ABORTED;");
        }
        out.push('\n');
        out.push_str(&text);
        out.push_str("}\n\n");
        Ok(out)
    }

    /// The map that holds what a handler keeps beside the stack.
    fn frame(&self, name: &str, variables: &[(String, Type)]) -> String {
        if variables.is_empty() {
            return String::new();
        }
        let mut out = format!("struct nf_frame_{name} {{\n");
        for (variable, ty) in variables {
            let _ = writeln!(out, "    {} {variable} NF_LOCAL;", self.types.name(*ty));
        }
        let _ = writeln!(
            out,
            "}};\n\nstruct {{\n    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);\n    __uint(max_entries, 1);\n    \
             __type(key, u32);\n    __type(value, struct nf_frame_{name});\n}} nf_frames_{name} SEC(\".maps\");\n"
        );
        out
    }

    /// The first lines of a handler's function: where its packet is.
    fn head(&self, id: HandlerId, name: &str, state: &State) -> String {
        let program = self.program;
        let handler = &program.handlers[id];
        let aside = program.events[handler.event].is_aside();
        let mut out = String::new();
        match &self.pipe {
            Some(pipe) if !aside => {
                let shared = pipe.stage_of(id).is_some_and(|at| pipe.handlers[at].len() > 2);
                let how = if shared { "NF_APART" } else { "NF_INLINE" };
                let _ = writeln!(out, "{how} int {name}(struct xdp_md *ctx)\n{{");
                if pipe.queued(program, id) {
                    out.push_str(&pipe.receive(program, id, state, clock_use(handler)));
                    return out;
                }
            }
            _ => {
                let _ = writeln!(out, "SEC(\"xdp\")\nint {name}(struct xdp_md *ctx)\n{{");
            }
        }
        let _ = writeln!(out, "    u8 *data = (u8 *)(long)ctx->data;");
        let _ = writeln!(out, "    u8 *end = (u8 *)(long)ctx->data_end;");
        out
    }

    /// The event's time and random stream, for handlers of events from outside.
    fn clock(&self, id: HandlerId) -> String {
        let program = self.program;
        let handler = &program.handlers[id];
        let own = clock_use(handler);
        let mut out = String::new();
        let (time, random) = match &self.pipe {
            Some(pipe) if pipe.queued(program, id) => return out,
            Some(pipe) => pipe.needs(program, id),
            None => own,
        };
        if time || random || self.pipe.is_some() {
            let _ = writeln!(out, "    struct nf_clock clock = nf_clock({time}, {random});");
        } else {
            // In record mode every event is counted, so that runs line up with what was recorded.
            out.push_str("#if NF_MODE == 1\n    nf_clock(false, false);\n#endif\n");
        }
        if random {
            out.push_str("    u64 draws = 0;\n");
        }
        out
    }
}

/// How a table is kept: merged per CPU where it is an array that handlers only ever add to.
fn shape(program: &Program, id: TableId) -> XdpMapShape {
    let table = &program.tables[id];
    match table.kind {
        TableKind::Hash | TableKind::Lru => XdpMapShape::Exact,
        TableKind::Lpm => XdpMapShape::Lpm,
        TableKind::Ternary => XdpMapShape::TernaryList,
        TableKind::Array => {
            let mut touched = false;
            let only_adds = program.handlers.values().all(|handler| {
                handler.body.insts.values().all(|inst| {
                    let effects = inst.op.effects();
                    let this = [effects.table_read, effects.table_write].contains(&Some(id));
                    touched |= this;
                    !this || inst.op.commute() == Some(CommuteOp::Add)
                })
            });
            if touched && only_adds && table.buf.is_none() && !table.shared {
                XdpMapShape::PerCpuSum
            } else {
                XdpMapShape::Array
            }
        }
    }
}

fn buf_place(program: &Program, table: &Table, front: u32) -> Option<XdpBuf> {
    table.buf.map(|capacity| {
        let len_offset = (front + program.size_of(table.value)).next_multiple_of(8);
        // `nf_len` (4, padded to 8) and the record head (16) stand in front of the bytes.
        let bytes_offset = len_offset + 8 + 16;
        let value_size = (bytes_offset + capacity + BUF_SLACK).next_multiple_of(8);
        XdpBuf { capacity, len_offset, bytes_offset, value_size }
    })
}
