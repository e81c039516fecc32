//! Stages in a row: what one hands to the next.
//!
//! A stage is an engine of its own. It takes messages from a queue: an internal event with the
//! packet's state and the event's values, or word that an outside event leads to no more of them
//! (*last*). It runs the handlers of events that are for it, one behind the other, hands the others
//! on, and says *last* to the next stage when it is done with what came and with what its handlers
//! sent to themselves. So every stage sees every outside event, in order, and no tickets are
//! needed. The packet's bytes stay in the packet buffer; the headers that were emitted go with the
//! event.

use nicforge_ir::row::{together, waiting};
use nicforge_ir::{Direction, EventId, HandlerId, Op, Program, Type};

use crate::c::body::Unsupported;
use crate::rtl::shape::{Bits, number};

/// Most events that wait in a stage for itself.
const MOST_WAITING: u32 = 64;

/// What is counted of each stage: outside events that came by, cycles they were there in sum, how
/// many were there at a time at most, and cycles in which the next stage's queue was full.
pub const COUNTERS: [&str; 4] = ["events", "cycles", "most", "next_full"];

/// Stages one behind the other.
#[derive(Clone, Debug)]
pub struct Row {
    pub stages: Vec<Vec<HandlerId>>,
    /// Names of the stages: of their first handlers.
    pub names: Vec<String>,
    /// Of each stage, events that may wait for itself.
    pub waiting: Vec<u32>,
    /// Bits of the longest list of values.
    values: u32,
    /// Bits of emitted headers.
    header: u32,
}

/// Parts of a message from the lowest bit on, behind values and headers.
const PARTS: [(&str, u32); 10] = [
    ("emitted", 16),
    ("cursor", 16),
    ("pkt_end", 16),
    ("slot", 5),
    ("port", 8),
    ("now", 64),
    ("stream", 64),
    ("event", 8),
    ("last", 1),
    ("", 0),
];

impl Row {
    /// The name of a stage's module.
    pub fn module(&self, number: usize) -> String {
        format!("nf_stage_{number}_{}", self.names[number])
    }

    /// A row of these stages; `header` bytes are emitted at most.
    ///
    /// # Errors
    /// Stages that have to be one, and events that wait without bound, with their places.
    pub fn new(
        program: &Program,
        bits: &Bits,
        stages: &[Vec<HandlerId>],
        header: u32,
    ) -> Result<Row, Vec<Unsupported>> {
        let refuse = |handler: HandlerId, message: String, help: &str| {
            let span = program.handlers[handler].span;
            Err(vec![Unsupported { message, help: help.to_string(), span }])
        };
        if let Some(found) = together(program, stages) {
            let message = format!("{}, so they cannot be stages of their own", found.why);
            return refuse(found.handler, message, "let them be one stage of the plan");
        }
        let mut counts = Vec::new();
        for (at, stage) in stages.iter().enumerate() {
            match waiting(program, stages, at, MOST_WAITING) {
                Some(count) => counts.push(count),
                None => {
                    let message = format!(
                        "no bound below {MOST_WAITING} is known for how many events wait in the stage of `{}`, for one packet",
                        program.handlers[stage[0]].name
                    );
                    return refuse(
                        stage[0],
                        message,
                        "send fewer events, or call a function in place of some",
                    );
                }
            }
        }
        let internal =
            program.events.values().filter(|event| event.direction == Direction::Internal);
        let values = internal
            .map(|event| event.params.iter().map(|param| bits.width(param.ty)).sum::<u32>())
            .max()
            .unwrap_or(0);
        let name = |stage: &Vec<HandlerId>| program.handlers[stage[0]].name.replace('.', "_");
        let names = stages.iter().map(name).collect();
        let header = if carries_headers(program) { 8 * header } else { 0 };
        Ok(Row { stages: stages.to_vec(), names, waiting: counts, values, header })
    }

    /// Bits of a message.
    pub fn width(&self) -> u32 {
        self.values + self.header + PARTS.iter().map(|part| part.1).sum::<u32>()
    }

    /// The stage that handles an event, if any does.
    pub fn stage_of(&self, program: &Program, event: EventId) -> Option<usize> {
        let handler = program.handler_of(event)?;
        self.stages.iter().position(|stage| stage.contains(&handler))
    }

    /// The bits of a part in the signal `message`.
    pub fn part(&self, message: &str, name: &str) -> String {
        let mut at = self.values + self.header;
        if name == "header" {
            return if self.header == 0 {
                "'0".to_string()
            } else {
                format!("{message}[{}:{}]", at - 1, self.values)
            };
        }
        for (part, width) in PARTS {
            if part == name {
                return match width {
                    1 => format!("{message}[{at}]"),
                    _ => format!("{message}[{}:{at}]", at + width - 1),
                };
            }
            at += width;
        }
        unreachable!("a message has no part `{name}`")
    }

    /// Widths of an event's values with the places of their lowest bits, and the number of the
    /// parameter.
    pub fn values(&self, program: &Program, bits: &Bits, event: EventId) -> Vec<(usize, u32, u32)> {
        let mut at = 0;
        let params = program.events[event].params.iter().enumerate();
        params
            .map(|(number, param)| {
                let width = bits.width(param.ty);
                at += width;
                (number, width, at - width)
            })
            .filter(|(_, width, _)| *width > 0)
            .collect()
    }

    /// A message: the event's values from the first on, and what says how the packet is.
    pub fn event(
        &self,
        event: EventId,
        values: &[(u32, String)],
        header: &str,
        of: impl Fn(&str) -> String,
    ) -> String {
        let mut list: Vec<String> = values.iter().map(|(_, text)| text.clone()).collect();
        let used: u32 = values.iter().map(|(width, _)| *width).sum();
        if used < self.values {
            list.push(number_wide(self.values - used));
        }
        if self.header > 0 {
            list.push(header.to_string());
        }
        for (part, width) in PARTS.iter().filter(|part| part.1 > 0) {
            list.push(match *part {
                "event" => number(*width, u64::from(event.as_u32())),
                "last" => number(1, 0),
                name => of(name),
            });
        }
        list.reverse();
        format!("{{{}}}", list.join(", "))
    }

    /// Word that nothing more comes of an outside event; `stream` is where its random numbers are.
    pub fn last(&self, stream: &str) -> String {
        let below = self.values
            + self.header
            + PARTS.iter().take_while(|part| part.0 != "stream").map(|part| part.1).sum::<u32>();
        format!("{{1'b1, 8'h0, {stream}, {}}}", number_wide(below))
    }
}

/// So many zeros.
fn number_wide(bits: u32) -> String {
    format!("{bits}'h0")
}

/// True if a packet may have emitted headers when an internal event takes it along.
fn carries_headers(program: &Program) -> bool {
    program.handlers.values().any(|handler| {
        let body = &handler.body;
        let (mut emits, mut sends) = (false, false);
        body.for_each_inst(body.entry(), &mut |inst| match &body.insts[inst].op {
            Op::Emit { .. } => emits = true,
            Op::Generate { event, args } => {
                let internal = program.events[*event].direction == Direction::Internal;
                sends |= internal && args.iter().any(|arg| body.ty(*arg) == Type::Packet);
            }
            _ => {}
        });
        emits && sends
    })
}
