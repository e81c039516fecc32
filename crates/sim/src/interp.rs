//! Handlers run by the reference interpreter: slow, and right by definition.

use std::collections::HashMap;

use nicforge_ir::interp::{Access, BodyOf, Pending, Step as OpStep, Tracer};
use nicforge_ir::{Event, EventId, InstId, Interp, Output, Program, Verified, io};

use crate::handlers::{Effect, HandlerError, Handlers, Line, Message, Step, Trace};

/// A program in the interpreter, its events one by one.
pub struct InterpHandlers<'p> {
    interp: Interp<'p>,
    net_recv: Option<EventId>,
    slots: Vec<Option<Waiting>>,
    free: Vec<u32>,
    steer: HashMap<EventId, (usize, bool)>,
    /// Number of the line that holds an instruction: every instruction has one of its own.
    first_line: Vec<u32>,
    /// Outputs in the order handlers made them, if they are kept.
    /// By event its parameters that are byte strings.
    strings: Vec<Vec<usize>>,
    outputs: Option<Vec<Output>>,
}

fn strings(program: &Program, event: &Event) -> Vec<usize> {
    let params = event.params.iter().enumerate();
    params.filter(|(_, param)| program.is_string(param.ty)).map(|(at, _)| at).collect()
}

struct Waiting {
    pending: Pending,
    time_ns: u64,
    seed: u64,
}

impl<'p> InterpHandlers<'p> {
    /// The program with empty tables. `keep`: outputs are kept for [`InterpHandlers::outputs`].
    pub fn new(program: &'p Verified<Program>, keep: bool) -> InterpHandlers<'p> {
        let mut first_line = Vec::new();
        let mut next = 0;
        for handler in program.handlers.values() {
            first_line.push(next);
            next += handler.body.insts.len() as u32;
        }
        InterpHandlers {
            interp: Interp::new(program),
            net_recv: program.event_named("net_recv"),
            slots: Vec::new(),
            free: Vec::new(),
            steer: HashMap::new(),
            strings: program.events.values().map(|event| strings(program, event)).collect(),
            first_line,
            outputs: keep.then(Vec::new),
        }
    }

    /// The interpreter with its tables.
    pub fn interp(&mut self) -> &mut Interp<'p> {
        &mut self.interp
    }

    /// Outputs so far.
    pub fn outputs(&self) -> &[Output] {
        self.outputs.as_deref().unwrap_or_default()
    }

    fn store(&mut self, waiting: Waiting) -> Message {
        match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = Some(waiting);
                Message(at)
            }
            None => {
                self.slots.push(Some(waiting));
                Message(self.slots.len() as u32 - 1)
            }
        }
    }

    fn take(&mut self, message: Message) -> Option<Waiting> {
        let waiting = self.slots.get_mut(message.0 as usize)?.take();
        if waiting.is_some() {
            self.free.push(message.0);
        }
        waiting
    }
}

/// Writes down what the interpreter does.
struct Watch<'a> {
    first_line: &'a [u32],
    steps: &'a mut Vec<Step>,
    program: &'a Program,
    /// Per output: whether it is a frame of its own, made of a byte string or of a packet that
    /// stays.
    made: Vec<bool>,
}

impl Tracer for Watch<'_> {
    fn op(&mut self, step: &OpStep) {
        if let BodyOf::Handler(handler) = step.body {
            let first = self.first_line[handler.as_u32() as usize];
            // The price of a line is that of the lines before the accesses in it.
            self.steps.push(Step::Line(first + step.id.as_u32()));
        }
        let copies = |event: EventId| {
            matches!(self.program.events[event].name.as_str(), "net_copy" | "host_copy")
        };
        let op = &step.inst.op;
        if (op.makes_packet() || op.event().is_some_and(copies))
            && let Some(last) = self.made.last_mut()
        {
            *last = true;
        }
    }

    fn table(&mut self, access: &Access) {
        let key = io::hash(0, access.key);
        self.steps.push(match access.writes {
            false => Step::Read { table: access.table, key },
            true => Step::Write { table: access.table, key: Some(key) },
        });
    }

    fn output(&mut self, _output: &Output) {
        self.made.push(false);
    }
}

impl Handlers for InterpHandlers<'_> {
    fn lines(&self) -> Vec<Line> {
        let handlers = self.interp.program().handlers.iter();
        let one = |(handler, data): (_, &nicforge_ir::Handler)| -> Vec<Line> {
            data.body.insts.keys().map(|inst: InstId| Line { handler, insts: vec![inst] }).collect()
        };
        handlers.flat_map(one).collect()
    }

    fn steer_by(&mut self, event: EventId, param: usize, number: bool) {
        self.steer.insert(event, (param, number));
    }

    fn arrive(&mut self, port: u32, frame: &[u8], time_ns: u64, seed: u64) -> Message {
        // A program without a handler for frames lets them vanish, as an event without a handler
        // does.
        let event = self.net_recv.unwrap_or(EventId::from_u32(u32::MAX - 1));
        self.store(Waiting { pending: Pending::frame(event, frame.to_vec(), port), time_ns, seed })
    }

    fn tick(&mut self, timer: EventId, time_ns: u64, seed: u64) -> Message {
        let pending = Pending { event: timer, args: Vec::new(), packets: Vec::new(), drawn: 0 };
        self.store(Waiting { pending, time_ns, seed })
    }

    fn run(&mut self, message: Message, trace: &mut Trace) -> Result<(), HandlerError> {
        let Some(waiting) = self.take(message) else { return Ok(()) };
        let Waiting { pending, time_ns, seed } = waiting;
        let program = self.interp.program();
        let mut watch = Watch {
            program,
            first_line: &self.first_line,
            steps: &mut trace.steps,
            made: Vec::new(),
        };
        let done = self.interp.step(pending, time_ns, seed, &mut watch);
        let done = done.map_err(|e| HandlerError(e.to_string()))?;
        let made = watch.made;
        for (output, made) in done.outputs.iter().zip(made) {
            let effect = match output {
                Output::Send { port, frame } if made => {
                    Effect::Made { port: Some(*port), bytes: frame.len() as u32 }
                }
                Output::HostPacket { frame } if made => {
                    Effect::Made { port: None, bytes: frame.len() as u32 }
                }
                Output::Send { port, frame } => {
                    Effect::Send { port: *port, bytes: frame.len() as u32 }
                }
                Output::Stack { frame } => Effect::Stack { bytes: frame.len() as u32 },
                Output::HostPacket { frame } => Effect::Host { bytes: frame.len() as u32 },
                Output::HostMessage { bytes } => Effect::ToHost { bytes: bytes.len() as u32 },
                Output::DmaWrite { data, .. } => Effect::ToHost { bytes: data.len() as u32 },
                Output::Drop { reason } => Effect::Drop { reason: *reason },
                Output::Log { .. } => continue,
            };
            trace.effects.push(effect);
        }
        if let Some(outputs) = &mut self.outputs {
            outputs.extend(done.outputs);
        }
        for pending in done.generated {
            let event = pending.event;
            let steer = self.steer.get(&event);
            let steer = steer.map_or(0, |(param, number)| {
                let bytes = self.interp.argument_bytes(&pending, *param);
                if *number { io::number(&bytes) } else { io::hash(0, &bytes) }
            });
            let bytes = pending.packets.first().map(|packet| packet.size() as u32);
            let strings = self.strings[event.as_u32() as usize].iter();
            let zeros = strings
                .map(|at| io::string_zeros(&self.interp.argument_bytes(&pending, *at)))
                .sum();
            let message = self.store(Waiting { pending, time_ns, seed });
            trace.effects.push(Effect::Generate { event, message, steer, bytes, zeros });
        }
        Ok(())
    }

    fn discard(&mut self, message: Message) {
        self.take(message);
    }
}
