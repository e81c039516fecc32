//! A design of several stages: the states around the handlers of each, and its files.
//!
//! A stage waits in its first state for the first message that an outside event leads to, and in
//! `more` for the others. What its handlers sent to itself is run when word came that there are no
//! others (`drain`); then it tells the next stage that it is done (`done`).

use nicforge_ir::{Direction, EventId, HandlerId, Program};

use super::super::module::Port;
use super::super::shape::Bits;
use super::super::state::{Arm, StateId, States};
use super::super::tables::TableForm;
use super::super::{Form, NoPipe, RtlArtifact, Stage, artifact, limits, registers};
use super::design::{Source, Start, begin, bodies, head, library, outside, ports, print};
use super::length::length;
use super::row::{COUNTERS, Row};
use super::top;
use crate::c::body::Unsupported;
use crate::c::names::Names;

/// Ports of stages beside those of engines.
fn more_ports(row: &Row) -> Vec<Port> {
    let wide = row.width();
    vec![
        // from the stage before, from itself
        Port::input("i_valid", 1),
        Port::input("i_data", wide),
        Port::output("i_take", 1),
        Port::input("q_valid", 1),
        Port::input("q_data", wide),
        Port::output("q_take", 1),
        // to the next stage, to itself
        Port::output("n_valid", 1),
        Port::input("n_ready", 1),
        Port::output("n_data", wide),
        Port::output("p_valid", 1),
        Port::input("p_ready", 1),
        Port::output("p_data", wide),
        Port::output("ends", 1),
        Port::output("ended", 1),
    ]
}

/// The design of a program in stages.
///
/// # Errors
/// Everything that hardware cannot do, and stages that have to be one.
pub fn design(
    program: &Program,
    bits: &Bits,
    tables: Vec<TableForm>,
    room: limits::Room,
    mut names: Names,
    (stages, why): (&[Vec<HandlerId>], NoPipe),
) -> Result<RtlArtifact, Vec<Unsupported>> {
    let row = Row::new(program, bits, stages, room.header)?;
    let mut logs = Vec::new();
    let mut errors = Vec::new();
    let mut message_bytes = None;
    let mut handlers = Vec::new();
    let mut forms = Vec::new();
    for number in 0..row.stages.len() {
        let source = Source { program, bits, tables: &tables, room };
        match stage(source, (&row, number), (&mut logs, &mut names)) {
            Ok((text, form, message)) => {
                handlers.push((format!("{}.sv", row.module(number)), text));
                forms.push(form);
                message_bytes = message_bytes.or(message);
            }
            Err(mut found) => errors.append(&mut found),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut counters = registers::counters(program, &tables);
    counters.extend(
        row.names.iter().flat_map(|name| COUNTERS.map(|what| format!("stage_{name}_{what}"))),
    );
    let top = top::print(
        program,
        &tables,
        &counters,
        &top::Around { room, replicas: row.stages.len() as u32, row: Some(&row) },
    );
    let library = library(&tables);
    let form = Form::Stages { stages: forms, why };
    Ok(RtlArtifact {
        logs,
        message_bytes,
        ..artifact(program, tables, counters, (handlers, top), library, form)
    })
}

/// One stage: its text, what it became, and the bytes of messages from the host side.
fn stage<'a>(
    source: Source<'a>,
    (row, number): (&Row, usize),
    (logs, names): (&mut Vec<crate::artifact::LogFormat>, &mut Names),
) -> Result<(String, Stage, Option<u32>), Vec<Unsupported>> {
    let Source { program, tables, room, .. } = source;
    let mut states = begin(room);
    states.register("draining", 1);
    let at = Places {
        idle: states.reserve(),
        finish: states.reserve(),
        refused: states.reserve(),
        more: states.reserve(),
        drain: states.reserve(),
        done: states.reserve(),
        pass: [states.reserve(), states.reserve()],
    };
    let handlers = &row.stages[number];
    let (starts, constants) =
        bodies(source, (&mut states, at.finish), handlers, Some((row, number)), (logs, names))?;
    let of_event = |start: &Start| program.handlers[start.handler].event;
    let (internal, entries): (Vec<Start>, Vec<Start>) = starts
        .into_iter()
        .partition(|start| program.events[of_event(start)].direction == Direction::Internal);
    let message = entries.iter().find_map(|start| start.trigger.message());
    let mut around = Around { source, row, number, at, states: &mut states };
    if number == 0 {
        outside(around.states, (at.idle, at.refused), &entries, at.finish);
        around.states.list[at.idle].writes.push(("draining".to_string(), "1'b1".to_string()));
    } else {
        around.taking(&internal);
    }
    around.ending(&internal);
    let length = length(&states, tables);
    let what = format!("stage {number}, {}, an engine", row.names[number]);
    let mut all = ports(tables, room);
    all.extend(more_ports(row));
    let text = print(
        &head(program, &states, &what),
        &row.module(number),
        all,
        &states,
        &constants,
        "  assign ended = advance && ends;\n",
    );
    Ok((text, Stage { name: row.names[number].clone(), length }, message))
}

/// States around handlers.
#[derive(Clone, Copy)]
struct Places {
    idle: StateId,
    finish: StateId,
    refused: StateId,
    more: StateId,
    drain: StateId,
    done: StateId,
    /// A message for a later stage, the first one and others.
    pass: [StateId; 2],
}

struct Around<'a, 'b> {
    source: Source<'a>,
    row: &'b Row,
    number: usize,
    at: Places,
    states: &'b mut States,
}

impl Around<'_, '_> {
    fn waits_for_itself(&self) -> bool {
        self.row.waiting[self.number] > 0
    }

    /// Signal: a message is for a handler.
    fn is(&self, message: &str, event: EventId) -> String {
        format!("{} == 8'd{}", self.row.part(message, "event"), event.as_u32())
    }

    fn fill(
        &mut self,
        state: StateId,
        note: &str,
        until: Option<&str>,
        outputs: &[(&str, String)],
        arms: Vec<Arm>,
    ) {
        self.states.enter(state);
        self.states.note(note);
        let state = self.states.current();
        state.until = until.map(str::to_string);
        state.outputs =
            outputs.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
        state.arms = arms;
    }

    /// Ways to the handlers of a message, which become the packet's state and the handlers'
    /// parameters.
    fn arms(&self, message: &str, internal: &[Start], with_stream: bool) -> Vec<Arm> {
        let program = self.source.program;
        let arm = |start: &Start| {
            let handler = &program.handlers[start.handler];
            let mut writes = Vec::new();
            let names = ["emitted", "cursor", "pkt_end", "slot", "port", "now", "header"];
            for name in names.iter().copied().chain(with_stream.then_some("stream")) {
                writes.push((name.to_string(), self.row.part(message, name)));
            }
            writes.push((
                "slot_line".to_string(),
                format!("20'({} * 24)", self.row.part(message, "slot")),
            ));
            for (number, width, at) in self.row.values(program, self.source.bits, handler.event) {
                let name = start.params[number].clone();
                writes.push((name, format!("{message}[{}:{at}]", at + width - 1)));
            }
            Arm { when: Some(self.is(message, handler.event)), to: start.state, writes }
        };
        internal.iter().map(arm).collect()
    }

    /// Takes what comes from the stage before.
    fn taking(&mut self, internal: &[Start]) {
        let program = self.source.program;
        let Places { idle, more, drain, done, pass, .. } = self.at;
        let last = self.row.part("i_data", "last");
        let mine: Vec<String> = internal
            .iter()
            .map(|start| self.is("i_data", program.handlers[start.handler].event))
            .collect();
        let mine = if mine.is_empty() { "1'b0".to_string() } else { mine.join(" || ") };
        let after = if self.waits_for_itself() { drain } else { done };
        for (state, first, pass) in [(idle, true, pass[0]), (more, false, pass[1])] {
            let mut writes = vec![("draining".to_string(), "1'b1".to_string())];
            if first {
                writes.push(("stream".to_string(), self.row.part("i_data", "stream")));
            }
            let mut arms = vec![Arm { when: Some(last.clone()), to: after, writes }];
            arms.extend(self.arms("i_data", internal, first));
            arms.push(Arm { when: None, to: pass, writes: Vec::new() });
            let mut outputs = vec![("i_take", format!("i_valid && ({last} || {mine})"))];
            if first {
                outputs.push(("idle", "1'b1".to_string()));
            }
            let note = if first { "wait for a message" } else { "wait for another message" };
            self.fill(state, note, Some("i_valid"), &outputs, arms);
            self.states.list[state].writes.push(("draining".to_string(), "1'b0".to_string()));
            let outputs = [
                ("n_valid", "1'b1".to_string()),
                ("n_data", "i_data".to_string()),
                ("i_take", "n_ready".to_string()),
            ];
            let back = vec![Arm { when: None, to: state, writes: Vec::new() }];
            self.fill(pass, "a message for a later stage", Some("n_ready"), &outputs, back);
        }
    }

    /// The text that follows a handler.
    fn ending(&mut self, internal: &[Start]) {
        let Places { idle, finish, more, drain, done, .. } = self.at;
        let arm =
            |when: Option<&str>, to| Arm { when: when.map(str::to_string), to, writes: Vec::new() };
        let after = if self.waits_for_itself() { drain } else { done };
        self.fill(
            finish,
            "the handler has ended",
            None,
            &[],
            vec![arm(Some("draining"), after), arm(None, more)],
        );
        let mut arms = self.arms("q_data", internal, false);
        let outputs = [("q_take", "q_valid".to_string())];
        arms.iter_mut()
            .for_each(|arm| arm.when = arm.when.take().map(|when| format!("q_valid && {when}")));
        arms.push(arm(None, done));
        self.fill(drain, "what handlers sent to this stage", None, &outputs, arms);
        let (note, mut outputs) =
            ("the outside event is done here", vec![("ends", "1'b1".to_string())]);
        let until = (self.number + 1 < self.row.stages.len()).then_some("n_ready");
        if until.is_some() {
            outputs.push(("n_valid", "1'b1".to_string()));
            outputs.push(("n_data", self.row.last("stream")));
        }
        self.fill(done, note, until, &outputs, vec![arm(None, idle)]);
    }
}
