//! The engine of a program: states of all handlers, and around them waiting for an event and ending it.

use nicforge_ir::{HandlerId, Program, TableKind};

use super::super::expr::{self, Lower, used};
use super::super::module::{self, Port};
use super::super::shape::Bits;
use super::super::state::{Arm, States};
use super::super::tables::TableForm;
use super::super::{ADDRESS_BITS, Form, RtlArtifact, artifact, limits, registers};
use super::length::{length, passed};
use super::{Engine, kind, top};
use crate::c::body::Unsupported;
use crate::c::names::Names;
use crate::rtl::NoPipe;

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
    let length = length(&states, &tables);
    passed(&mut states, &tables);
    let text = handlers(program, &states, &constants, &tables, room);
    let counters = registers::counters(program, &tables);
    let top = top::print(program, &tables, &counters, &top::Around { room, replicas });
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
    let form = Form::Engine { replicas, length, why };
    Ok(RtlArtifact { logs, message_bytes, ..artifact(program, tables, counters, (text, top), library, form) })
}

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
    state.until = Some(text("free_ok"));
    state.outputs = vec![(text("frees"), text("1'b1"))];
    state.arms = vec![arm(None, finish)];
    states.enter(finish);
    states.note("the event is done");
    let state = states.current();
    state.until = Some(text("turn"));
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
        Port::input("turn", 1),
        Port::input("free_ok", 1),
        Port::input("c_done", 1),
        Port::output("idle", 1),
        Port::input("d_valid", 1),
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
        if form.changed {
            ports.push(Port::output(&name("passed"), 1));
        }
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
        "// Generated by nicforge from {}: its handlers as an engine of {} states, one event at a time.\n//\n\
         // Signals have the names of the source's variables; NAME_q is what a later state sees of NAME. d_: the event's descriptor,\n\
         // turn: no older event is left, which tables that are changed and all that leaves wait for; a_: bytes of the packet (nf_access), c_: commands to the deparser (nf_egress), t_TABLE_: tables, rec_: what happened, in order.\n",
        program.name,
        states.list.len()
    );
    debug_assert!(states.list.iter().flat_map(|s| &s.wires).all(|w| used(&w.value).all(|n| n != w.name)));
    module::print(&head, "nf_handlers", &ports, constants, states, &extra)
}
