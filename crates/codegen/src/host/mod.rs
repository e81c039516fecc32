//! C for processes: DPDK applications, simulators, threads, shims of devices.
//!
//! One function per handler, all with the C ABI of `runtime/host/nf_rt.h`, and packets and tables
//! [in place](crate::inplace). Programs may have several handlers joined by internal events. A
//! packet that goes from one to another keeps its cursor and emitted headers in memory; where every
//! sender has read the same number of bytes and emitted nothing, the receiver starts from that
//! constant, so that cutting a handler costs its later stages no offsets. For that, handlers are
//! generated senders first; in a cycle of events the receiver assumes nothing.
//!
//! Deviations from the interpreter: a frame that headers would make longer than 65535 bytes, or
//! than its buffer, is dropped whole, counted under a reason of the runtime's own, where the
//! interpreter leaves out the header that does not fit.

mod context;
mod file;
pub(crate) mod locks;
mod target;

use std::collections::HashMap;

use nicforge_ir::{
    ConstId, Direction, EventId, HandlerId, InstId, Op, Program, ReasonId, TableId, Type,
};

use crate::artifact::LogFormat;
use crate::c::body::Unsupported;
use crate::c::globals::clock_use;
use crate::c::names::Names;
use crate::c::types::CTypes;
use crate::c::{Emitter, LineStyle};
use crate::inplace::InPlace;
use crate::inplace::state::{Cursor, Emits, State};
pub use context::{Context, InContext};
use locks::Locks;
use target::{Handover, Host};

/// Words of the functions around handlers' bodies.
const TAKEN: [&str; 8] = ["env", "event", "pkt", "clock", "staged", "staged_len", "params", "NULL"];

/// C for a process, with what is needed to call it. `runtime/host/nf_rt.h` is its interface.
#[derive(Clone, Debug)]
pub struct HostArtifact {
    pub source: String,
    pub handlers: Vec<HostHandler>,
    /// By table number.
    pub tables: Vec<HostTable>,
    /// Bytes of parameters of each event, by event number: a struct whose members follow each other
    /// without padding, packets as pointers to `struct nf_packet`.
    pub event_sizes: Vec<u32>,
    /// Text of each drop reason, by its number in `nf_drop`. The last one is the runtime's own: no
    /// room for headers.
    pub reasons: Vec<(Option<ReasonId>, String)>,
    /// Format of each `nf_log`, by its number.
    pub logs: Vec<LogFormat>,
    /// Bytes that `staged` of every packet must have room for.
    pub staged_bytes: u32,
    /// Locks that handlers take, counted from 0.
    pub locks: u32,
    /// The straight lines that `NF_BLOCK` numbers.
    pub blocks: Vec<HostBlock>,
}

/// A handler's C function, `void NAME(struct nf_env *env, const struct nf_event_EVENT *event)`.
#[derive(Clone, Debug)]
pub struct HostHandler {
    pub name: String,
    pub handler: HandlerId,
    pub event: EventId,
}

/// A table's entries in memory, sizes and offsets in bytes.
#[derive(Clone, Debug)]
pub struct HostTable {
    pub name: String,
    /// Its name in C.
    pub c_name: String,
    pub key_size: u32,
    pub value_size: u32,
    /// Value and byte string.
    pub entry_size: u32,
    /// Offset of the byte string's `u32` length; the bytes follow. 0 in tables that have none.
    pub len_at: u32,
    pub buf_capacity: u32,
}

/// Instructions that are all executed if the first one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostBlock {
    pub handler: HandlerId,
    pub insts: Vec<InstId>,
}

/// C and its description for a program whose calls are all inlined.
///
/// # Errors
/// Every op that a process cannot do, with its place and what to do instead.
pub fn generate(program: &Program, lines: LineStyle) -> Result<HostArtifact, Vec<Unsupported>> {
    generate_with(program, &Context::default(), &Locks::default(), Pointers::Plain, lines)
}

/// Kinds of pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointers<'a> {
    Plain,
    /// Those into tables say by `NF_SPACE_TABLE` in which address space they are, but in handlers
    /// on cores of the `host`, which the chip's compiler does not see.
    Spaces {
        host: &'a [HandlerId],
    },
    /// They have four bytes; events keep eight for each, so that what lies behind it is where it is
    /// elsewhere.
    Narrow,
}

/// Generates C with values in the packets' context, tables under locks, and other pointers.
pub fn generate_with(
    program: &Program,
    context: &Context,
    locks: &Locks,
    pointers: Pointers<'_>,
    lines: LineStyle,
) -> Result<HostArtifact, Vec<Unsupported>> {
    Generator { pointers, ..Generator::new(program, context, locks, lines) }.run()
}

struct Generator<'a> {
    program: &'a Program,
    context: &'a Context,
    locks: &'a Locks,
    pointers: Pointers<'a>,
    lines: LineStyle,
    types: CTypes<'a>,
    consts: HashMap<ConstId, String>,
    tables: HashMap<TableId, String>,
    /// C name of each event and its members.
    events: HashMap<EventId, (String, Vec<String>)>,
    handlers: Vec<HostHandler>,
}

impl<'a> Generator<'a> {
    fn new(program: &'a Program, context: &'a Context, locks: &'a Locks, lines: LineStyle) -> Self {
        let mut globals = Names::new(TAKEN.map(String::from));
        let consts = globals.of_constants(program);
        let tables = program.tables.iter().map(|(id, t)| (id, globals.fresh(&t.name))).collect();
        let mut event_names = Names::default();
        let events = program.events.iter().map(|(id, event)| {
            let mut members = Names::new([]);
            let members = event.params.iter().map(|p| members.fresh(&p.name)).collect();
            (id, (event_names.fresh(&event.name), members))
        });
        let events = events.collect();
        let mut handler_names = Names::default();
        let handlers = program.handlers.iter().map(|(handler, h)| {
            let name = format!("nf_handler_{}", handler_names.fresh(&h.name));
            HostHandler { name, handler, event: h.event }
        });
        let handlers = handlers.collect();
        Generator {
            program,
            context,
            locks,
            pointers: Pointers::Plain,
            lines,
            types: CTypes::new(program),
            consts,
            tables,
            events,
            handlers,
        }
    }

    fn run(self) -> Result<HostArtifact, Vec<Unsupported>> {
        let (mut errors, mut functions) = (Vec::new(), vec![String::new(); self.handlers.len()]);
        let (mut logs, mut blocks, mut handovers) = (Vec::new(), Vec::new(), Vec::new());
        let mut senders_known = HashMap::new();
        for at in self.senders_first(&mut senders_known) {
            let item = &self.handlers[at];
            let state = self.entry_state(item.event, senders_known[&at], &handovers);
            let mut target = Host {
                handler: item.handler,
                names: &self.tables,
                event_names: &self.events,
                context: self.context,
                locks: self.locks,
                spaces: self.on_the_chip(item.handler),
                logs: std::mem::take(&mut logs),
                blocks: std::mem::take(&mut blocks),
                handovers: std::mem::take(&mut handovers),
                uses_tables: Vec::new(),
                no_room: self.program.reasons.len() as u32,
            };
            match self.handler(item, state, &mut target) {
                Ok(text) => functions[at] = self.beside_the_chip(item.handler, text),
                Err(error) => errors.push(error),
            }
            (logs, blocks, handovers) = (target.logs, target.blocks, target.handovers);
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let tables: Vec<HostTable> = self.program.tables.keys().map(|id| self.table(id)).collect();
        let event_sizes =
            self.program.events.keys().map(|e| self.context.event_size(self.program, e)).collect();
        let staged_bytes = self.staged_bytes(senders_known.values().any(|known| !known));
        let source = self.file(&functions.concat(), &tables, staged_bytes);
        let mut reasons: Vec<(Option<ReasonId>, String)> =
            self.program.reasons.iter().map(|(id, r)| (Some(id), r.text.clone())).collect();
        reasons.push((None, "no room for the headers".to_string()));
        let handlers = self.handlers;
        Ok(HostArtifact {
            source,
            handlers,
            tables,
            event_sizes,
            reasons,
            logs,
            staged_bytes,
            locks: self.locks.count,
            blocks,
        })
    }

    /// True if a handler is for the chip's compiler.
    fn on_the_chip(&self, handler: HandlerId) -> bool {
        matches!(self.pointers, Pointers::Spaces { host } if !host.contains(&handler))
    }

    /// Text about a handler, where only those that have it see it.
    fn beside_the_chip(&self, handler: HandlerId, text: String) -> String {
        match self.pointers {
            Pointers::Spaces { host } if host.contains(&handler) => {
                format!("#ifndef NF_CHIP\n{text}#endif\n")
            }
            _ => text,
        }
    }

    /// Handlers in an order in which, cycles apart, those that generate an event come before those
    /// that take it; says for each whether all its senders did.
    fn senders_first(&self, known: &mut HashMap<usize, bool>) -> Vec<usize> {
        let mut order = Vec::new();
        let sends = |from: &HostHandler, to: &HostHandler| {
            let body = &self.program.handlers[from.handler].body;
            let mut found = false;
            body.for_each_inst(body.entry(), &mut |inst| {
                found |= matches!(&body.insts[inst].op, Op::Generate { event, .. } if *event == to.event);
            });
            found
        };
        let mut rest: Vec<usize> = (0..self.handlers.len()).collect();
        while !rest.is_empty() {
            let ready = rest.iter().position(|to| {
                !rest.iter().any(|from| sends(&self.handlers[*from], &self.handlers[*to]))
            });
            let at = rest.remove(ready.unwrap_or(0));
            known.insert(at, ready.is_some());
            order.push(at);
        }
        order
    }

    /// Facts about the packet when a handler starts.
    fn entry_state(
        &self,
        event: EventId,
        senders_known: bool,
        handovers: &[(EventId, Handover)],
    ) -> State {
        if self.program.events[event].direction == Direction::In {
            return State::default();
        }
        let mut common: Option<Handover> = None;
        for (_, one) in handovers.iter().filter(|(to, _)| *to == event) {
            common = Some(match common {
                None => *one,
                Some(all) => Handover {
                    cursor: if all.cursor == one.cursor { all.cursor } else { None },
                    proved: all.proved.min(one.proved),
                },
            });
        }
        match common {
            Some(Handover { cursor: Some(at), proved }) if senders_known => {
                State { cursor: Cursor::Static { at, unless: None }, proved, ..State::default() }
            }
            _ => State { cursor: Cursor::Dynamic, emits: Emits::Staged, ..State::default() },
        }
    }

    fn handler(
        &self,
        item: &HostHandler,
        state: State,
        kept: &mut Host<'_>,
    ) -> Result<String, Unsupported> {
        let handler = &self.program.handlers[item.handler];
        let event = &self.program.events[handler.event];
        let packets = event.params.iter().filter(|p| p.ty == Type::Packet).count();
        let known_input =
            matches!(event.name.as_str(), "net_recv" | "host_send") || event.period.is_some();
        if event.direction == Direction::In && !known_input {
            return Err(Unsupported {
                message: format!("host targets have no event `{}`", event.name),
                help:
                    "they offer `net_recv` (a packet came in), `host_send` (the host side sent a message) and timers"
                        .into(),
                span: handler.span,
            });
        }
        if packets > 1 {
            return Err(Unsupported {
                message: format!("event `{}` carries {packets} packets", event.name),
                help: "let each event carry one".into(),
                span: handler.span,
            });
        }
        let body = &handler.body;
        let dynamic = state.cursor == Cursor::Dynamic;
        let names = TAKEN.map(String::from).into_iter().chain(self.tables.values().cloned());
        let names = Names::new(names.chain(self.consts.values().cloned()));
        let target = Host {
            logs: std::mem::take(&mut kept.logs),
            blocks: std::mem::take(&mut kept.blocks),
            handovers: std::mem::take(&mut kept.handovers),
            uses_tables: Vec::new(),
            ..*kept
        };
        let dialect = InPlace::new(body, target);
        let emitter =
            Emitter::new(&self.types, body, &self.consts, names, dialect, state, self.lines);
        let (text, dialect) = emitter.run()?;
        let (uses_cursor, uses_staging) = (dialect.uses_cursor, dialect.uses_staging);
        let prologue = self.prologue(
            item,
            &dialect.target,
            packets == 1,
            uses_cursor || dynamic,
            uses_staging || dynamic,
        );
        *kept = dialect.target;
        Ok(format!("{prologue}\n{text}}}\n\n"))
    }

    /// Head of a handler's function with the variables that its body reads.
    fn prologue(
        &self,
        item: &HostHandler,
        target: &Host<'_>,
        packet: bool,
        cursor: bool,
        staging: bool,
    ) -> String {
        let event = &self.program.events[item.event];
        let (name, members) = &self.events[&item.event];
        let mut out = format!(
            "NF_HANDLER void {}(struct nf_env *env, const struct nf_event_{name} *event)\n{{\n",
            item.name
        );
        out.push_str("    (void)env;\n    (void)event;\n");
        if packet {
            let at = event.params.iter().position(|p| p.ty == Type::Packet).unwrap_or(0);
            out.push_str(&format!("    struct nf_packet *pkt = event->{};\n", members[at]));
            out.push_str("    u8 *data = pkt->data;\n    u8 *end = pkt->end;\n");
            if cursor {
                out.push_str("    u64 cursor = pkt->cursor;\n");
            }
            if staging {
                out.push_str(
                    "    u8 *staged = pkt->staged;\n    u32 staged_len = pkt->staged_len;\n",
                );
            }
        }
        for table in &target.uses_tables {
            let name = &self.tables[table];
            out.push_str(&format!(
                "    struct nf_table *{name} = env->tables[{}];\n",
                table.as_u32()
            ));
        }
        if clock_use(&self.program.handlers[item.handler]).0 {
            out.push_str("    struct nf_clock clock = {env->now};\n");
        }
        out
    }
}
