//! Internal events: handlers joined by them are one piece of logic, and the queue between them is
//! nothing but registers.
//!
//! Which events wait, and in which order, is known when the logic is made: a place that generates
//! an event does so under a condition, and all such places stand in one order, whichever ways are
//! taken. So handlers are walked in that order, first in, first out, each once for every place,
//! under the condition of the place. That is what the interpreter does, event by event; nothing has
//! to be proven about what handlers share. A packet follows another one through all of it, so
//! queues need no room, and none is ever full.
//!
//! What handlers find in tables, and where the stream of random numbers is, comes from wherever
//! handlers before them ended. Events that go round, or are too many, leave a program to engines.

use super::super::exclusive::exclude;
use super::*;

/// Events that one outside event leads to, on all its ways together.
const MOST_EVENTS: u32 = 32;

/// An event that waits for its handler.
pub(super) struct Waiting {
    event: EventId,
    way: Way,
    values: Vec<Handed>,
    packet: Option<Packet>,
    span: Span,
}

/// A value that an event carries, and between which numbers it lies.
struct Handed {
    known: Known,
    range: Option<Range>,
}

impl<'a> Walk<'a, '_, '_> {
    /// Generates an internal event.
    pub(super) fn enqueue(
        &mut self,
        event: EventId,
        args: &[ValueId],
        way: &Way,
    ) -> Result<(), NoPipe> {
        let mut packet = None;
        let mut values = Vec::new();
        for arg in args {
            if self.low.ty(*arg) == Type::Packet {
                self.settle();
                packet = Some(self.packet());
            }
            let range = self.low.ty(*arg).is_int().then(|| self.range_here(*arg));
            values.push(Handed { known: self.known(*arg), range });
        }
        self.waiting.push_back(Waiting {
            event,
            way: way.clone(),
            values,
            packet,
            span: self.span,
        });
        Ok(())
    }

    /// Runs the handlers of all events that wait, and of those they generate.
    pub(super) fn receive_all(&mut self) -> Result<(), NoPipe> {
        while let Some(next) = self.waiting.pop_front() {
            self.received += 1;
            if self.received > MOST_EVENTS {
                self.span = next.span;
                return self.no(&format!(
                    "a packet leads to more than {MOST_EVENTS} internal events, or they go round"
                ));
            }
            self.receive(next)?;
        }
        Ok(())
    }

    fn receive(&mut self, next: Waiting) -> Result<(), NoPipe> {
        let program = self.dag.program;
        let Some(handler) = program.handler_of(next.event) else { return Ok(()) };
        let given = self.given(&next.way);
        let before = std::mem::take(&mut self.ended);
        let ends: Vec<Given> = before.iter().map(|(way, _)| self.given(way)).collect();
        let together =
            |end: &Given| !exclude(std::slice::from_ref(end), std::slice::from_ref(&given));
        let from = before.iter().zip(&ends).filter(|(_, end)| together(end));
        let from: Vec<(Way, Slots)> = from.map(|(end, _)| end.clone()).collect();
        if from.is_empty() {
            // Conditions that exclude each other: nobody comes here.
            self.ended = before;
            return Ok(());
        }
        self.slots = self.join_slots(from);
        self.body = &program.handlers[handler].body;
        let (names, declared) =
            (std::mem::take(&mut self.low.names), std::mem::take(&mut self.low.declared));
        self.low = Lower::new(self.dag.bits, self.body, names);
        self.low.declared = declared;
        self.bounds.clear();
        self.span = next.span;
        let params = &self.body.blocks[self.body.entry()].params;
        for (param, Handed { known, range }) in params.iter().zip(next.values) {
            // The same signal, so that a key is known to be the one that another handler asked for.
            match known.text.strip_prefix('‹').and_then(|rest| rest.strip_suffix('›')) {
                Some(name) if known.number.is_none() && !name.contains('‹') => {
                    self.low.rename_to(*param, name)
                }
                _ => self.choose(*param, &[(None, known)]),
            }
            self.bounds.extend(range.map(|range| (*param, range)));
        }
        self.packet = next.packet;
        self.region(self.body.entry(), next.way)?;
        // Where it ran, its ends count.
        let older = before.into_iter().zip(ends).filter(|(_, end)| !end.is_superset(&given));
        self.ended.extend(older.map(|(end, _)| end));
        Ok(())
    }

    /// The next number of the event's random stream.
    pub(super) fn draw(&mut self, result: ValueId) {
        let before = self.slots.stream.take().unwrap_or_else(|| "seed".to_string());
        let mut wires = Vec::new();
        let (state, number) = self.low.random(&before, &mut wires);
        for wire in wires {
            self.put(&wire.name, wire.width, wire.value, wire.delay);
        }
        self.slots.stream = Some(state);
        self.result(result, number, timing::tree(2));
    }

    /// The stream where ways join.
    pub(super) fn join_streams(&mut self, ways: &[(Way, Slots)]) -> Option<String> {
        let (_, last) = ways.last()?;
        if ways.iter().all(|(_, slots)| slots.stream == last.stream) {
            return last.stream.clone();
        }
        let text = |slots: &Slots| mark(slots.stream.as_deref().unwrap_or("seed"));
        let mut value = String::new();
        for (way, slots) in &ways[..ways.len() - 1] {
            value.push_str(&format!("{} ? {} : ", way.as_deref().unwrap_or("1'b1"), text(slots)));
        }
        value.push_str(&text(last));
        let delay = timing::mux(2 * ways.len() as u32 - 2).max(timing::CHOOSE);
        let name = self.wire("stream", 64, value, delay);
        used(&name).next().map(String::from)
    }
}
