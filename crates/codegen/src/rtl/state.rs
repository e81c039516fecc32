//! The states of an engine while they are made.
//!
//! Wires are put into the current state as long as signals arrive in time; then a new one begins. A
//! state ends when what it waits for is done; in that cycle it writes registers and says which
//! state is next.

use std::collections::HashMap;

use super::expr::{Wire, mark, used};
use super::timing::BUDGET;

/// Number of a state.
pub type StateId = usize;

/// Registers written when a state ends: name and value.
pub type Writes = Vec<(String, String)>;

/// One way on.
#[derive(Clone, Debug)]
pub struct Arm {
    /// Taken if this holds and no earlier one did; none: always.
    pub when: Option<String>,
    pub to: StateId,
    pub writes: Writes,
}

/// A state.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub wires: Vec<Wire>,
    /// The module's outputs that are not zero in this state.
    pub outputs: Vec<(String, String)>,
    /// It ends when this holds; none: after one cycle.
    pub until: Option<String>,
    pub writes: Writes,
    pub arms: Vec<Arm>,
    /// What it does and the source line it comes from.
    pub note: String,
}

/// Where a signal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// A wire that means something in this state only.
    State(StateId),
    /// A register, or an input that does not change.
    Register,
}

/// A packet at a place: names of the signals that hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub at: String,
    pub end: String,
    pub emitted: String,
    pub header: String,
    pub stream: String,
}

impl Cursor {
    /// The registers.
    pub fn registers() -> Cursor {
        let name = |name: &str| name.to_string();
        Cursor {
            at: name("cursor"),
            end: name("pkt_end"),
            emitted: name("emitted"),
            header: name("header"),
            stream: name("stream"),
        }
    }

    fn pairs(&self) -> [(String, &String); 5] {
        let base = Cursor::registers();
        [
            (base.at, &self.at),
            (base.end, &self.end),
            (base.emitted, &self.emitted),
            (base.header, &self.header),
            (base.stream, &self.stream),
        ]
    }
}

/// States in the making.
pub struct States {
    pub list: Vec<State>,
    pub homes: HashMap<String, Home>,
    /// Widths of registers that hold values across states without being wires first.
    pub registers: Vec<(String, u32)>,
    /// Loops: the first state of a trip, the last one, and most trips.
    pub loops: Vec<(StateId, StateId, u32)>,
    /// Handlers of timers: where they begin, and nanoseconds from one tick to the next.
    pub ticks: Vec<(StateId, u64)>,
    pub now: StateId,
    pub packet: Cursor,
    arrival: HashMap<String, u32>,
}

impl States {
    pub fn new() -> States {
        States {
            list: Vec::new(),
            homes: HashMap::new(),
            registers: Vec::new(),
            loops: Vec::new(),
            ticks: Vec::new(),
            now: 0,
            packet: Cursor::registers(),
            arrival: HashMap::new(),
        }
    }

    /// A state that is filled later.
    pub fn reserve(&mut self) -> StateId {
        self.list.push(State::default());
        self.list.len() - 1
    }

    /// Goes on in a reserved state.
    pub fn enter(&mut self, state: StateId) {
        self.now = state;
        self.arrival.clear();
        self.packet = Cursor::registers();
    }

    pub fn current(&mut self) -> &mut State {
        &mut self.list[self.now]
    }

    /// Adds a register that the program writes by name.
    pub fn register(&mut self, name: &str, width: u32) {
        self.homes.insert(name.to_string(), Home::Register);
        self.registers.push((name.to_string(), width));
    }

    fn ready(&self, value: &str) -> u32 {
        used(value).filter_map(|name| self.arrival.get(name)).copied().max().unwrap_or(0)
    }

    /// Puts a wire into the current state, or a new one if it would come too late.
    pub fn wire(&mut self, wire: Wire) {
        if self.ready(&wire.value) > 0 && self.ready(&wire.value) + wire.delay > BUDGET {
            self.next_state();
        }
        let arrival = self.ready(&wire.value) + wire.delay;
        self.arrival.insert(wire.name.clone(), arrival);
        self.homes.insert(wire.name.clone(), Home::State(self.now));
        let now = self.now;
        self.list[now].wires.push(wire);
    }

    /// Ends the current state; the next one follows it.
    pub fn next_state(&mut self) {
        let next = self.reserve();
        self.end(vec![Arm { when: None, to: next, writes: Vec::new() }]);
        self.enter(next);
    }

    /// Ends the current state. What it did to the packet goes into the registers.
    pub fn end(&mut self, arms: Vec<Arm>) {
        let packet = self.packet.clone();
        let changed = packet.pairs().into_iter().filter(|(base, now)| base != *now);
        let writes: Writes = changed.map(|(base, now)| (base, mark(now))).collect();
        let state = self.current();
        state.writes.extend(writes);
        state.arms = arms;
    }

    /// Ends the current state when `until` holds, with these outputs until then; registers keep the
    /// results.
    pub fn wait(
        &mut self,
        until: String,
        outputs: Vec<(&str, String)>,
        results: Vec<(String, u32, String)>,
    ) {
        let state = self.current();
        state.until = Some(until);
        state.outputs.extend(outputs.into_iter().map(|(name, value)| (name.to_string(), value)));
        for (name, width, value) in results {
            self.current().writes.push((name.clone(), value));
            self.register(&name, width);
        }
        self.next_state();
    }

    /// Adds to the current state's note.
    pub fn note(&mut self, text: &str) {
        let note = &mut self.current().note;
        if !note.split("; ").any(|old| old == text) {
            if !note.is_empty() {
                note.push_str("; ");
            }
            note.push_str(text);
        }
    }
}
