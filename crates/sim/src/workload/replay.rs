//! A capture as it was, faster or slower.

use nicforge_ir::{Input, InputEvent, Program};

use super::{Arrival, Workload};

/// Uses of a capture's times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timed {
    /// As recorded, from its first frame on, divided by a factor.
    Scaled(f64),
    /// At equal distances, in picoseconds; handlers read the recorded times.
    Apart(f64),
}

/// Frames and ticks of a capture, in order; messages of the host side are left out.
pub struct Replay<'a> {
    program: &'a Program,
    events: &'a [InputEvent],
    timed: Timed,
    /// How often the capture is sent, and how often it was.
    rounds: u64,
    round: u64,
    next: usize,
    sent: u64,
    /// Time of a round.
    span_ps: f64,
    current: usize,
}

impl<'a> Replay<'a> {
    pub fn new(
        program: &'a Program,
        events: &'a [InputEvent],
        timed: Timed,
        rounds: u64,
    ) -> Replay<'a> {
        let first = events.first().map_or(0, |event| event.time_ns);
        let last = events.last().map_or(0, |event| event.time_ns);
        let span = (last - first) as f64 * 1e3;
        // The gap between rounds is as long as the gaps in it are on average.
        let span_ps = span + span / events.len().max(2) as f64;
        Replay { program, events, timed, rounds, round: 0, next: 0, sent: 0, span_ps, current: 0 }
    }
}

impl Workload for Replay<'_> {
    fn next(&mut self) -> Option<Arrival> {
        loop {
            if self.next == self.events.len() {
                self.next = 0;
                self.round += 1;
            }
            if self.round >= self.rounds {
                return None;
            }
            let event = self.events.get(self.next)?;
            self.current = self.next;
            self.next += 1;
            let (port, timer) = match &event.input {
                Input::Net { port, .. } => (*port, None),
                Input::Tick { timer } => (0, self.program.event_named(timer)),
                Input::Host { .. } => continue,
            };
            let since = event.time_ns.saturating_sub(self.events[0].time_ns) as f64 * 1e3;
            let at = match self.timed {
                Timed::Scaled(factor) => (since + self.span_ps * self.round as f64) / factor,
                Timed::Apart(ps) => ps * self.sent as f64,
            };
            self.sent += 1;
            return Some(Arrival {
                at: at as u64,
                port,
                bytes: event.input.bytes().len() as u32,
                time_ns: event.time_ns,
                seed: event.seed,
                timer,
            });
        }
    }

    fn frame(&self) -> &[u8] {
        match self.events.get(self.current).map(|event| &event.input) {
            Some(Input::Net { frame, .. }) => frame,
            _ => &[],
        }
    }
}
