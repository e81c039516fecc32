//! The engine of a program: states of all handlers, and around them waiting for an event and ending
//! it.

use nicforge_ir::{HandlerId, Program, TableKind};

use super::super::expr::{self, Lower, used};
use super::super::module::{self, Port};
use super::super::shape::Bits;
use super::super::state::{Arm, StateId, States};
use super::super::tables::TableForm;
use super::super::trigger::Trigger;
use super::super::{ADDRESS_BITS, Form, RtlArtifact, artifact, limits, registers};
use super::length::{length, passed};
use super::row::Row;
use super::{Engine, top};
use crate::abi::left as kind;
use crate::artifact::LogFormat;
use crate::c::body::Unsupported;
use crate::c::names::Names;
use crate::rtl::NoPipe;

/// Sources of the states of a module.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub program: &'a Program,
    pub bits: &'a Bits<'a>,
    pub tables: &'a [TableForm],
    pub room: limits::Room,
}

/// Beginning of a handler.
pub struct Start {
    pub handler: HandlerId,
    pub state: StateId,
    pub trigger: Trigger,
    /// Names of its parameters' registers.
    pub params: Vec<String>,
}

/// The states of handlers, which all end in `finish`.
///
/// # Errors
/// Everything that hardware cannot do.
pub fn bodies<'a>(
    source: Source<'a>,
    (states, finish): (&mut States, StateId),
    handlers: &[HandlerId],
    row: Option<(&'a Row, usize)>,
    (logs, names): (&mut Vec<LogFormat>, &mut Names),
) -> Result<(Vec<Start>, Vec<expr::Wire>), Vec<Unsupported>> {
    let Source { program, bits, tables, room } = source;
    let mut errors = Vec::new();
    let mut constants = Vec::new();
    let mut starts = Vec::new();
    for &id in handlers {
        let handler = &program.handlers[id];
        let trigger = match Trigger::of(program, bits, id) {
            Some(Trigger::Internal) if row.is_none() => None,
            trigger => trigger,
        };
        let Some(trigger) = trigger else {
            let name = &program.events[handler.event].name;
            errors.push(Unsupported {
                message: format!("hardware has no event `{name}`, and stages have one handler"),
                help: "events between handlers are function calls in a design of one stage"
                    .to_string(),
                span: handler.span,
            });
            continue;
        };
        let entry = states.reserve();
        let mut low = Lower::new(bits, &handler.body, std::mem::take(names));
        let mut engine = Engine {
            program,
            low: &mut low,
            states: &mut *states,
            tables,
            logs: &mut *logs,
            finish,
            bits,
            access_bytes: room.access,
            header_bytes: room.header,
            row,
            errors: Vec::new(),
        };
        engine.states.enter(entry);
        match trigger {
            Trigger::Message(_) => engine.message(&handler.body),
            Trigger::Tick(_) => {
                let period = program.events[handler.event].period.unwrap_or(u64::MAX);
                engine.states.ticks.push((entry, period));
                engine.gives_slot_back();
            }
            Trigger::Frame | Trigger::Internal => {}
        }
        let start = engine.states.now;
        engine.body(&handler.body, start);
        let entry_params = &handler.body.blocks[handler.body.entry()].params;
        let params: Vec<String> =
            entry_params.iter().map(|param| engine.low.name(*param)).collect();
        if row.is_some() {
            for (name, param) in params.iter().zip(entry_params) {
                let width = engine.low.width(*param);
                if width > 0 && trigger.message().is_none() {
                    engine.states.register(name, width);
                }
            }
        }
        errors.append(&mut engine.errors);
        constants.append(&mut low.declared);
        *names = low.names;
        starts.push(Start { handler: id, state: entry, trigger, params });
    }
    if errors.is_empty() { Ok((starts, constants)) } else { Err(errors) }
}

/// States of an engine without any yet, with the registers of a packet.
pub fn begin(room: limits::Room) -> States {
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
    states
}

/// The design with so many engines.
///
/// # Errors
/// Everything that hardware cannot do.
pub fn design<'a>(
    program: &'a Program,
    bits: &'a Bits<'a>,
    tables: Vec<TableForm>,
    room: limits::Room,
    mut names: Names,
    (replicas, why): (u32, NoPipe),
) -> Result<RtlArtifact, Vec<Unsupported>> {
    let mut states = begin(room);
    let (idle, finish, refused) = (states.reserve(), states.reserve(), states.reserve());
    let mut logs = Vec::new();
    let all: Vec<HandlerId> = program.handlers.keys().collect();
    let source = Source { program, bits, tables: &tables, room };
    let (starts, constants) =
        bodies(source, (&mut states, finish), &all, None, (&mut logs, &mut names))?;
    let message_bytes = starts.iter().find_map(|start| start.trigger.message());
    outside(&mut states, (idle, refused), &starts, finish);
    ended(&mut states, finish, idle);
    let length = length(&states, &tables);
    passed(&mut states, &tables);
    let ports = ports(&tables, room);
    let head = head(program, &states, "its handlers as an engine");
    let text = print(&head, "nf_handlers", ports, &states, &constants, "");
    let counters = registers::counters(program, &tables);
    let top = top::print(program, &tables, &counters, &top::Around { room, replicas, row: None });
    let library = library(&tables);
    let form = Form::Engine { replicas, length, why };
    let handlers = vec![("nf_handlers.sv".to_string(), text)];
    Ok(RtlArtifact {
        logs,
        message_bytes,
        ..artifact(program, tables, counters, (handlers, top), library, form)
    })
}

/// Modules of the library around engines.
pub fn library(tables: &[TableForm]) -> Vec<&'static str> {
    let mut library = vec![
        "nf_queue.sv",
        "nf_line_ram.sv",
        "nf_ingress.sv",
        "nf_slots.sv",
        "nf_egress.sv",
        "nf_access.sv",
        "nf_control.sv",
    ];
    for form in tables {
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
    library
}

/// The states that wait for an event from outside and give up messages of the wrong length, after
/// which `finish` comes.
pub fn outside(
    states: &mut States,
    (idle, refused): (StateId, StateId),
    starts: &[Start],
    finish: StateId,
) {
    let text = |s: &str| s.to_string();
    states.enter(idle);
    states.note("wait for an event");
    let state = states.current();
    state.until = Some(text("d_valid"));
    state.outputs = vec![(text("idle"), text("1'b1"))];
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
    let mut arms: Vec<Arm> = starts
        .iter()
        .filter_map(|start| {
            let when = match start.trigger {
                Trigger::Frame => "!d_host && !d_tick".to_string(),
                Trigger::Message(size) => format!("d_host && d_length == 16'd{size}"),
                Trigger::Tick(number) => format!("d_tick && d_port == 8'd{number}"),
                Trigger::Internal => return None,
            };
            Some(arm(Some(when), start.state))
        })
        .collect();
    arms.push(arm(None, refused));
    state.arms = arms;
    states.enter(refused);
    states.note("no handler takes it");
    let state = states.current();
    state.until = Some(text("free_ok"));
    state.outputs = vec![(text("frees"), text("1'b1"))];
    state.arms = vec![arm(None, finish)];
}

/// The state that tells of an event's end, in its turn.
fn ended(states: &mut States, finish: StateId, idle: StateId) {
    states.enter(finish);
    states.note("the event is done");
    let state = states.current();
    state.until = Some("turn".to_string());
    state.outputs = vec![("rec_kind".to_string(), format!("5'd{}", kind::END + 24))];
    state.arms = vec![Arm { when: None, to: idle, writes: Vec::new() }];
}

/// Ports of an engine.
pub fn ports(tables: &[TableForm], room: limits::Room) -> Vec<Port> {
    let mut ports = vec![
        Port::input("clk", 1),
        Port::input("rst", 1),
        Port::input("turn", 1),
        Port::input("free_ok", 1),
        Port::input("c_done", 1),
        Port::output("idle", 1),
        Port::input("d_valid", 1),
        Port::input("d_slot", 5),
        Port::input("d_length", 16),
        Port::input("d_port", 8),
        Port::input("d_host", 1),
        Port::input("d_tick", 1),
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
        if form.changed {
            ports.push(Port::output(&name("passed"), 1));
        }
        if form.scanned {
            ports.push(Port::input(&name("r_key"), form.key_bits));
        }
    }
    ports
}

/// The head of a module.
pub fn head(program: &Program, states: &States, what: &str) -> String {
    format!(
        "// Generated by nicforge from {}: {what} of {} states, one event at a time.\n//\n\
         // Signals have the names of the source's variables; NAME_q is what a later state sees of NAME. d_: the event's descriptor,\n\
         // turn: no older event is left, which tables that are changed and all that leaves wait for; a_: bytes of the packet (nf_access), c_: commands to the deparser (nf_egress), t_TABLE_: tables, rec_: what happened, in order.\n",
        program.name,
        states.list.len()
    )
}

/// The text of an engine's module; `more` stands before its end.
pub fn print(
    head: &str,
    name: &str,
    ports: Vec<Port>,
    states: &States,
    constants: &[expr::Wire],
    more: &str,
) -> String {
    let mut extra = "\n  assign rec_valid = advance && rec_kind[3];\n  assign frees_now = advance && frees;\n  assign free_slot = slot;\n".to_string();
    extra.push_str(more);
    let divides =
        states.list.iter().any(|state| state.outputs.iter().any(|(name, _)| name == "div_req"));
    if divides {
        extra.push_str(
            "\n  nf_divider u_divider (\n      .clk(clk),\n      .rst(rst),\n      .req(div_req),\n      .dividend(div_dividend),\n      \
             .divisor(div_divisor),\n      .done(div_done),\n      .quotient(div_quotient),\n      .remainder(div_remainder)\n  );\n",
        );
    }
    debug_assert!(
        states.list.iter().flat_map(|s| &s.wires).all(|w| used(&w.value).all(|n| n != w.name))
    );
    module::print(head, name, &ports, constants, states, &extra)
}
