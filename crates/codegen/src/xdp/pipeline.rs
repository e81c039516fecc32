//! Handlers of planned programs as stages: where each runs, and what an event carries from one to
//! the next.
//!
//! Packets come in at the first stage, a program on the interface. Every other stage, and the first
//! if it has replicas, is a program on the entries of a CPU map (`nf_queue_N`): handing an event on
//! is putting its values into the packet's metadata and redirecting the packet to the queue of the
//! CPU that the replica runs on. The receiver takes the metadata off again before it looks at the
//! packet, so that stages see the same room for headers.
//!
//! Besides its values an event carries what is known at run time only: the cursor, unless all
//! senders agree on it; time and seed of the event from outside, if a later stage reads them (the
//! first stage asks the kernel, so all stages read the same time); and in recorded runs the number
//! of the event and the way it took. Headers that were emitted and not sent yet wait in front of
//! the frame.
//!
//! Stages of the [`process`](super::process) get their events by AF_XDP, and stages behind it take
//! theirs from CPU maps like others.
//!
//! What all senders agree on is found by generating every handler once, senders first, and noting
//! the state at each place that generates the event; the second time is for good. Cost: twice the
//! time of one handler.

mod print;

use std::collections::HashMap;

use nicforge_ir::{Direction, EventId, HandlerId, Op, Program, Span, Type, ValueId};

use super::target::Xdp;
use crate::artifact::XdpSteer;
use crate::artifact::{XdpPipeline, XdpStage};
use crate::c::body::Unsupported;
use crate::c::globals::clock_use;
use crate::c::names::Names;
use crate::dpdk::{Pipeline, SteerBy};
use crate::inplace::state::{Cursor, Emits, State};
use crate::inplace::{E, packet};

/// Most bytes of metadata: the headroom of 256 bytes less the kernel's frame header.
const METADATA: u32 = 216;
/// Bytes that a recorded run adds to an event.
const RECORDED: u32 = 8;

/// Form in which the cursor and pending headers of an event's packet reach its handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// The cursor, where all senders agree.
    pub cursor: Option<u32>,
    /// Headers may wait in front of the frame.
    pub staged: bool,
}

/// Facts about the packet at a place that generates an event.
pub type Handover = (EventId, Form);

/// An internal event on its way.
pub struct Edge {
    /// C name of its struct.
    pub name: String,
    /// C names of the parameters that are carried; `None`: the packet, or nobody reads it.
    pub members: Vec<Option<String>>,
    /// Parameter that chooses the replica; none: in turn.
    pub steer: Option<(usize, XdpSteer)>,
    pub stage: usize,
    /// What tells it from other events of its stage, if there are any.
    pub kind: Option<usize>,
    pub now: bool,
    pub seed: bool,
    pub draws: bool,
    /// It carries the port, since the packet comes from the process.
    pub in_port: bool,
    pub packet: bool,
    /// Its values lie packed: the process reads or writes them.
    pub packed: bool,
    /// Parameters of which only what counts crosses to or from the process.
    pub strings: Vec<usize>,
    /// So many values that they are not copied to the receiver's stack as a whole.
    pub large: bool,
}

/// Bytes of values that a receiver takes to its stack beside the variables they become: an eighth
/// of what there is. Of larger events a larger value stays where it is.
pub(super) const SMALL: u32 = 64;

impl Edge {
    /// C of a member of the event that a handler was given.
    pub fn member(&self, name: &str) -> String {
        format!("event{}{name}", if self.large { "->" } else { "." })
    }
}

/// A program's stages.
pub struct Pipe {
    pub stages: Vec<XdpStage>,
    /// Handlers by stage.
    pub handlers: Vec<Vec<HandlerId>>,
    pub edges: HashMap<EventId, Edge>,
    /// Known once the senders were generated.
    pub forms: HashMap<EventId, Form>,
    /// By port the bytes that choose the first stage's replica; none: it runs where packets come
    /// in.
    pub spread: Option<Vec<Vec<(u32, u32)>>>,
}

fn unsupported(message: String, help: &str, span: Span) -> Unsupported {
    Unsupported { message, help: help.to_string(), span }
}

impl Pipe {
    /// Lays a pipeline out.
    ///
    /// # Errors
    /// Events that a CPU map cannot carry, with what to do instead.
    pub fn new(
        program: &Program,
        pipeline: &Pipeline,
        in_process: &[usize],
    ) -> Result<Pipe, Vec<Unsupported>> {
        let stage_of =
            |handler: HandlerId| pipeline.stages.iter().position(|s| s.handlers.contains(&handler));
        let mut errors = Vec::new();
        let mut pipe = Pipe {
            stages: Vec::new(),
            handlers: pipeline.stages.iter().map(|stage| stage.handlers.clone()).collect(),
            edges: HashMap::new(),
            forms: HashMap::new(),
            spread: None,
        };
        let mut names = Names::default();
        let mut first = 0;
        for (at, stage) in pipeline.stages.iter().enumerate() {
            // Messages of the host side and ticks come straight to their handler, whatever stage it
            // shares tables with.
            let takes = |wanted: Direction| {
                stage.handlers.iter().any(|h| {
                    let event = &program.events[program.handlers[*h].event];
                    event.direction == wanted && !event.is_aside()
                })
            };
            let process = in_process.contains(&at);
            let spread = takes(Direction::In) && stage.replicas > 1;
            let queued = !process && (takes(Direction::Internal) || spread);
            let both = takes(Direction::In) && takes(Direction::Internal);
            if both && (spread || process) {
                let handler = &program.handlers[stage.handlers[0]];
                errors.push(unsupported(
                    format!("stage `{}` takes packets from outside and events of other stages", handler.name),
                    "choose another plan: on xdp the first stage runs on the interface, the others behind queues; with one replica \
                     it may take events of the process as well",
                    handler.span,
                ));
            }
            let name =
                stage.handlers.first().map_or("", |h| &program.handlers[*h].name).to_string();
            pipe.stages.push(XdpStage {
                name,
                program: format!("nf_stage_{at}"),
                queue: queued.then(|| format!("nf_queue_{at}")),
                replicas: stage.replicas.max(1),
                first,
                entry: takes(Direction::In) && !spread,
                process,
            });
            first += stage.replicas.max(1);
            if spread {
                let event = program.event_named("net_recv");
                let by = pipeline.steering.iter().find(|s| Some(s.event) == event).map(|s| &s.by);
                pipe.spread = Some(match by {
                    Some(SteerBy::FrameByPort(ports)) => ports.clone(),
                    Some(SteerBy::Frame(fields)) => {
                        vec![fields.clone(); program.ports.max(1) as usize]
                    }
                    _ => Vec::new(),
                });
            }
        }
        for (id, event) in &program.events {
            if event.direction != Direction::Internal {
                continue;
            }
            let Some((handler, stage)) =
                program.handler_of(id).and_then(|h| stage_of(h).map(|stage| (h, stage)))
            else {
                continue;
            };
            let span = program.handlers[handler].span;
            let packets = event.params.iter().filter(|p| p.ty == Type::Packet).count();
            let sender_inside = |inside: bool| {
                let mut senders =
                    program.handlers.keys().filter(|from| generated(program, *from).contains(&id));
                senders
                    .any(|from| stage_of(from).is_some_and(|at| in_process.contains(&at)) == inside)
            };
            let (to_process, from_process) = (in_process.contains(&stage), sender_inside(true));
            if packets > 1 || packets == 0 && !to_process && sender_inside(false) {
                errors.push(unsupported(
                    format!("event `{}` between stages carries {packets} packets", event.name),
                    "the kernel's queues between CPUs carry packets, one an event; choose another plan",
                    span,
                ));
            }
            let steer =
                pipeline.steering.iter().find(|s| s.event == id).and_then(|s| match &s.by {
                    SteerBy::Params(list) => list.first().map(|(param, _)| {
                        let whole = event.params[*param].ty.is_int();
                        (*param, if whole { XdpSteer::Integer } else { XdpSteer::Bytes })
                    }),
                    SteerBy::Number(param, instances) => {
                        Some((*param, XdpSteer::Number(*instances)))
                    }
                    _ => None,
                });
            let body = &program.handlers[handler].body;
            let params = &body.blocks[body.entry()].params;
            let mut used = std::collections::HashSet::new();
            body.for_each_inst(body.entry(), &mut |inst| {
                used.extend(body.insts[inst].op.operands())
            });
            let mut list = Names::new([]);
            let members = event.params.iter().zip(params).map(|(param, value)| {
                (param.ty != Type::Packet && used.contains(value)).then(|| list.fresh(&param.name))
            });
            let inside = |h: &&HandlerId| {
                program.events[program.handlers[**h].event].direction == Direction::Internal
            };
            let kinds = pipeline.stages[stage].handlers.iter().filter(inside).count() > 1;
            let needs = needs(program, handler, &mut Vec::new());
            let drawing = program.handlers.values().filter(|h| clock_use(h).1).count();
            let members: Vec<Option<String>> = members.collect();
            let carried = event.params.iter().zip(&members).filter(|(_, member)| member.is_some());
            let bytes: u32 = carried.map(|(param, _)| program.size_of(param.ty)).sum();
            let packed = to_process || from_process;
            let strings =
                if packed { super::process::strings(program, id, &members) } else { Vec::new() };
            let edge = Edge {
                name: names.fresh(&event.name),
                members,
                steer,
                stage,
                kind: kinds
                    .then(|| pipeline.stages[stage].handlers.iter().position(|h| *h == handler))
                    .flatten(),
                now: needs.0,
                seed: needs.1,
                draws: needs.1 && drawing > 1,
                in_port: false,
                packet: packets == 1,
                packed,
                strings,
                large: bytes > SMALL,
            };
            let bytes = edge.bytes(program, id);
            if bytes > METADATA {
                let params =
                    event.params.iter().zip(&edge.members).filter(|(_, member)| member.is_some());
                let values: Vec<String> = params
                    .map(|(p, _)| format!("`{}` ({} bytes)", p.name, program.size_of(p.ty)))
                    .collect();
                errors.push(unsupported(
                    format!(
                        "event `{}` carries {bytes} bytes in packet metadata, which has room for {METADATA}: {}",
                        event.name,
                        values.join(", ")
                    ),
                    "choose a plan that carries less, or read these values from the packet again in the later stage",
                    span,
                ));
            }
            pipe.edges.insert(id, edge);
        }
        errors.extend(backward(program, &stage_of, in_process));
        errors.extend(super::process::check(program, &mut pipe));
        if errors.is_empty() { Ok(pipe) } else { Err(errors) }
    }

    /// The stages, as the artifact describes them.
    pub fn describe(&self) -> XdpPipeline {
        let entry = self.spread.is_some().then(|| "nf_spread".to_string());
        XdpPipeline { stages: self.stages.clone(), spread: entry }
    }

    /// True if a handler's event comes out of a queue.
    pub fn queued(&self, program: &Program, handler: HandlerId) -> bool {
        let Some(stage) = self.stage_of(handler).map(|at| &self.stages[at]) else { return false };
        let event = &program.events[program.handlers[handler].event];
        stage.queue.is_some()
            && !event.is_aside()
            && !(stage.entry && event.direction != Direction::Internal)
    }

    pub fn stage_of(&self, handler: HandlerId) -> Option<usize> {
        self.handlers.iter().position(|list| list.contains(&handler))
    }

    /// True if the handlers that a handler sends to read time, and random numbers; its own use
    /// included.
    pub fn needs(&self, program: &Program, handler: HandlerId) -> (bool, bool) {
        needs(program, handler, &mut Vec::new())
    }

    /// The packet's state when a handler starts.
    pub fn entry_state(&self, program: &Program, handler: HandlerId) -> State {
        let event = program.handlers[handler].event;
        if program.events[event].direction != Direction::Internal {
            return State::default();
        }
        if self.edges.get(&event).is_some_and(|edge| !edge.packet) {
            return State::default();
        }
        let form = self.forms.get(&event).copied().unwrap_or(Form { cursor: None, staged: true });
        let cursor = match form.cursor {
            Some(at) => Cursor::Static { at, unless: None },
            None => Cursor::Dynamic,
        };
        let emits = if form.staged { Emits::Staged } else { Emits::List(Vec::new()) };
        State { cursor, emits, ..State::default() }
    }

    /// Facts that all places that generate an event agree on.
    pub fn agree(&mut self, event: EventId, places: &[Handover]) {
        let mut common: Option<Form> = None;
        for (_, one) in places.iter().filter(|(to, _)| *to == event) {
            common = Some(match common {
                None => *one,
                Some(all) => Form {
                    cursor: if all.cursor == one.cursor { all.cursor } else { None },
                    staged: all.staged || one.staged,
                },
            });
        }
        if self.edges.get(&event).is_some_and(|edge| !edge.packet) {
            common = Some(Form { cursor: Some(0), staged: false });
        }
        self.forms.insert(event, common.unwrap_or_default());
    }
}

/// True if a handler, or one that gets an event because of it, reads the time and random numbers.
fn needs(program: &Program, handler: HandlerId, seen: &mut Vec<HandlerId>) -> (bool, bool) {
    if seen.contains(&handler) {
        return (false, false);
    }
    seen.push(handler);
    let mut all = clock_use(&program.handlers[handler]);
    for event in generated(program, handler) {
        if let Some(next) = program.handler_of(event) {
            let more = needs(program, next, seen);
            all = (all.0 | more.0, all.1 | more.1);
        }
    }
    all
}

/// Internal events that a handler generates.
pub fn generated(program: &Program, handler: HandlerId) -> Vec<EventId> {
    let body = &program.handlers[handler].body;
    let mut list = Vec::new();
    body.for_each_inst(body.entry(), &mut |inst| {
        if let Op::Generate { event, .. } = body.insts[inst].op
            && program.events[event].direction == Direction::Internal
            && !list.contains(&event)
        {
            list.push(event);
        }
    });
    list
}

/// Events that go to their own stage or an earlier one. A queue whose program feeds it would keep
/// itself in the kernel for ever; what goes round through the process ends with it.
fn backward(
    program: &Program,
    stage_of: &dyn Fn(HandlerId) -> Option<usize>,
    in_process: &[usize],
) -> Vec<Unsupported> {
    let mut errors = Vec::new();
    for (from, handler) in &program.handlers {
        for event in generated(program, from) {
            let to = program.handler_of(event).and_then(stage_of);
            let inside = stage_of(from).is_some_and(|at| in_process.contains(&at));
            if to.is_some() && to <= stage_of(from) && !inside {
                errors.push(unsupported(
                    format!(
                        "`{}` sends event `{}` to its own or an earlier stage",
                        handler.name, program.events[event].name
                    ),
                    "choose another plan: on xdp events go forward only",
                    handler.span,
                ));
            }
        }
    }
    errors
}

impl Edge {
    /// Bytes in packet metadata, at most.
    fn bytes(&self, program: &Program, event: EventId) -> u32 {
        let params = program.events[event].params.iter().zip(&self.members);
        let values: u32 =
            params.filter(|(_, m)| m.is_some()).map(|(p, _)| program.size_of(p.ty)).sum();
        let clock = 8 * (u32::from(self.now) + u32::from(self.seed)) + 4 * u32::from(self.draws);
        // The cursor, the length of what waits in front, the kind, the port, order and event for
        // the process, and padding.
        let packed = if self.packed { 3 * 4 } else { 0 };
        let strings =
            self.strings.iter().map(|at| program.size_of(program.events[event].params[*at].ty));
        let ends: u32 = strings.map(|bytes| bytes.next_multiple_of(8) - bytes).sum();
        let words = if self.strings.is_empty() { 0 } else { 4 };
        (values + clock + 3 * 4 + packed + ends + words + RECORDED).next_multiple_of(8)
    }
}

/// Kinds of handing an event on.
pub enum Handed {
    /// The packet went with it: the C expression of the verdict.
    Packet(String),
    /// Values only; the handler goes on.
    Values,
}

/// Prints the hand-over of an event.
pub fn hand_over(e: &mut E<'_, Xdp<'_>>, event: EventId, args: &[ValueId]) -> Option<Handed> {
    let pipe = e.dialect.target.pipe?;
    let edge = pipe.edges.get(&event)?;
    let form = pipe.forms.get(&event).copied().unwrap_or(Form { cursor: None, staged: true });
    let emits_nothing = matches!(&e.state.emits, Emits::List(list) if list.is_empty());
    let cursor = match e.state.cursor {
        Cursor::Static { at, unless: None } => Some(at),
        _ => None,
    };
    if edge.packet {
        e.dialect.target.handovers.push((event, Form { cursor, staged: !emits_nothing }));
    }
    if pipe.stages[edge.stage].process && !edge.packet {
        raise(e, edge, &pipe.stages[edge.stage], event, args);
        return Some(Handed::Values);
    }
    let made = e.names.fresh("made");
    e.line(&format!("struct nf_event_{} {made} NF_LOCAL = {{0}};", edge.name));
    for (member, arg) in edge.members.iter().zip(args) {
        if let Some(member) = member {
            let value = e.text(*arg);
            e.line(&format!("{made}.{member} = {value};"));
        }
    }
    if edge.packet && form.cursor.is_none() {
        let cursor = packet::cursor_text(e);
        e.line(&format!("{made}.nf_cursor = (u32){cursor};"));
    }
    for text in clocks(edge) {
        e.line(&format!("{made}.{text}"));
    }
    if let Some(kind) = edge.kind {
        e.line(&format!("{made}.nf_kind = {kind};"));
    }
    if edge.in_port {
        let own = e.program.handlers[e.dialect.target.handler].event;
        let port = port_of(pipe, e.program, own);
        e.line(&format!("{made}.nf_in_port = {port};"));
    }
    if edge.packet && form.staged && !emits_nothing {
        packet::materialise_emits(e).into_iter().for_each(|line| e.line(&line));
        e.dialect.uses_staging = true;
        e.line(&format!("{made}.nf_staged = staged_len;"));
        let fail = e.dialect.target.no_room();
        e.line("if (!nf_stage_in_front(ctx, staged, staged_len))");
        e.line(&format!("    return {fail};"));
    }
    let stage = &pipe.stages[edge.stage];
    let own = e.dialect.target.stage;
    let replica = replica(e, edge, stage, args);
    e.line(&format!("NF_TRIP_TO({made}, clock, {replica});"));
    e.state.wire.clear();
    let [first, second] = super::process::words(e.program, event, edge);
    if stage.process {
        let id = event.as_u32();
        let port = format!("nf_in_port(ctx, {})", e.program.ports.max(1));
        let to = format!("ctx, {own}, {port}, {replica}, {id}, &{made}, sizeof({made})");
        let call = if edge.strings.is_empty() {
            format!("nf_hand_to_process({to})")
        } else {
            let used = e.names.fresh("words");
            count_words(&used, &made, ".", edge, [first, second])
                .iter()
                .for_each(|line| e.line(line));
            format!("nf_hand_strings_to_process({to}, {first}, {second}, {used})")
        };
        return Some(Handed::Packet(call));
    }
    if !edge.strings.is_empty() {
        e.line(&format!("{made}.nf_words = {};", first | second << 8));
    }
    let cpu = if stage.replicas == 1 {
        stage.first.to_string()
    } else {
        format!("{} + nf_index({replica}, {})", stage.first, stage.replicas)
    };
    let queue = stage.queue.as_deref().unwrap_or("");
    Some(Handed::Packet(format!("nf_hand(ctx, {own}, &{queue}, {cpu}, &{made}, sizeof({made}))")))
}

/// C of the replica that an event goes to.
fn replica(e: &mut E<'_, Xdp<'_>>, edge: &Edge, stage: &XdpStage, args: &[ValueId]) -> String {
    if stage.replicas == 1 {
        return "0".to_string();
    }
    let choose = match edge.steer {
        None => format!("nf_in_turn({}, {})", e.dialect.target.stage, stage.replicas),
        Some((param, XdpSteer::Number(instances))) => {
            format!(
                "(u64)((u32){} % {instances}) * {} / {instances}",
                e.text(args[param]),
                stage.replicas
            )
        }
        Some((param, XdpSteer::Integer)) => {
            format!("nf_replica({}, {})", e.text(args[param]), stage.replicas)
        }
        Some((param, XdpSteer::Bytes)) => {
            let key = packet::variable(e, args[param]);
            format!("nf_replica(nf_mix(0, &{key}, sizeof({key})), {})", stage.replicas)
        }
    };
    let replica = e.names.fresh("replica");
    e.line(&format!("u32 {replica} = {choose};"));
    replica
}

/// Parts of its packet's clock that an event carries.
fn clocks(edge: &Edge) -> impl Iterator<Item = &'static str> {
    let all = [
        (edge.now, "nf_now = clock.now;"),
        (edge.seed, "nf_seed = clock.seed;"),
        (edge.draws, "nf_draws = draws;"),
    ];
    all.into_iter().filter_map(|(carried, text)| carried.then_some(text))
}

/// Prints an event without a packet for the process, where it lies in the ring: the stack has no
/// room for another copy.
fn raise(e: &mut E<'_, Xdp<'_>>, edge: &Edge, stage: &XdpStage, event: EventId, args: &[ValueId]) {
    let thread = replica(e, edge, stage, args);
    let made = e.names.fresh("made");
    let name = format!("struct nf_event_{}", edge.name);
    if edge.strings.is_empty() {
        e.line(&format!(
            "{name} *{made} = nf_raised({thread}, {}, sizeof({name}));",
            event.as_u32()
        ));
    } else {
        e.line(&format!("{name} *{made} = nf_raised_room();"));
    }
    e.line(&format!("if ({made}) {{"));
    e.line(&format!("    __builtin_memset({made}, 0, sizeof(*{made}));"));
    for (member, arg) in edge.members.iter().zip(args) {
        if let Some(member) = member {
            let value = e.text(*arg);
            e.line(&format!("    {made}->{member} = {value};"));
        }
    }
    for text in clocks(edge) {
        e.line(&format!("    {made}->{text}"));
    }
    if let Some(kind) = edge.kind {
        e.line(&format!("    {made}->nf_kind = {kind};"));
    }
    e.line(&format!("    NF_TRIP_TO(*{made}, clock, {thread});"));
    if edge.strings.is_empty() {
        e.line(&format!("    nf_raise({made}, {thread});"));
    } else {
        let [first, second] = super::process::words(e.program, event, edge);
        let used = e.names.fresh("words");
        for line in count_words(&used, &made, "->", edge, [first, second]) {
            e.line(&format!("    {line}"));
        }
        e.line(&format!(
            "    nf_raise_strings({thread}, {}, {made}, sizeof(*{made}), {first}, {second}, {used});",
            event.as_u32()
        ));
    }
    e.line("}");
}

/// C that counts the words of an event's byte strings up to the last that is not zero.
fn count_words(used: &str, made: &str, of: &str, edge: &Edge, most: [u32; 2]) -> [String; 2] {
    let strings = edge.strings.iter().zip(most).enumerate().map(|(number, (at, words))| {
        let name = edge.members[*at].as_deref().unwrap_or("nf_string");
        let counted = format!("nf_words_used(&{made}{of}{name}, {words})");
        if number == 0 { counted } else { format!("{counted} << {}", 8 * number) }
    });
    let counted = strings.collect::<Vec<_>>().join(" | ");
    [format!("u32 {used} = {counted};"), format!("{made}{of}nf_words = {used};")]
}

/// C of the port by which the packet of an event came in.
pub fn port_of(pipe: &Pipe, program: &Program, event: EventId) -> String {
    match pipe.edges.get(&event) {
        Some(edge) if edge.in_port => edge.member("nf_in_port"),
        _ => format!("nf_in_port(ctx, {})", program.ports.max(1)),
    }
}
