//! A capture through the interpreter with queues in a random order: what NIC and host may do at
//! their own pace.
//!
//! Each step runs one handler: of the next event from outside, or of the oldest event between two
//! sides. Which one, a seed decides. Events from one side to another stay in order, as on every
//! link; those of different links overtake each other. Handlers that are not pinned are the NIC's.
//! Time is the number of the step: `nf_now` is the step in which a packet came in, and captures say
//! in which one it left (as nanoseconds), so what happened at once can be seen from outside.
//!
//! Queues have the room that `NF_QUEUE` gives them, others have room for everything. A full queue
//! that loses drops the entry, counted. At one that waits, the side that enqueued stops: nothing
//! else runs there until there is room. If all that could run is stopped, the queues wait for one
//! another, which is an error. (A stopped handler has done all else it does, where a real one would
//! stop in the middle; nothing on its side sees the difference.)

use std::collections::{BTreeMap, VecDeque};

use nicforge_driver::Failure;
use nicforge_ir::interp::{Interp, NoTrace, Pending};
use nicforge_ir::{EventId, Input, InputEvent, Output, Program, Room, Side};
use nicforge_util::Random;

/// A way between two sides; `true` is the host.
type Link = (bool, bool);

/// An internal event under way, with the event from outside that led to it.
struct Waiting {
    origin: usize,
    began: u64,
    pending: Pending,
}

/// A program whose queues are run in a random order.
pub struct Interleaved<'a, 'p> {
    interp: &'a mut Interp<'p>,
    events: &'a [InputEvent],
    next: usize,
    links: BTreeMap<Link, VecDeque<Waiting>>,
    /// What each side waits to enqueue.
    stopped: BTreeMap<bool, VecDeque<(Link, Waiting)>>,
    /// Entries that full queues lost.
    lost: BTreeMap<EventId, u64>,
    step: u64,
    random: Random,
}

/// What one step did: the number of the event from outside, the step, and what went to outside.
pub struct Done {
    pub origin: usize,
    pub step: u64,
    pub outputs: Vec<Output>,
}

impl<'a, 'p> Interleaved<'a, 'p> {
    pub fn new(
        interp: &'a mut Interp<'p>,
        events: &'a [InputEvent],
        seed: u64,
    ) -> Interleaved<'a, 'p> {
        Interleaved {
            interp,
            events,
            next: 0,
            links: BTreeMap::new(),
            stopped: BTreeMap::new(),
            lost: BTreeMap::new(),
            step: 0,
            random: Random::new(seed),
        }
    }

    /// Runs one handler; none if everything is done.
    ///
    /// # Errors
    /// What the interpreter refuses, with the number of the event, messages from the host side,
    /// which have no step, and queues that wait for one another.
    pub fn step(&mut self) -> Result<Option<Done>, Failure> {
        self.go_on();
        let runs = |side: bool| self.stopped.get(&side).is_none_or(VecDeque::is_empty);
        let open: Vec<Link> = self
            .links
            .iter()
            .filter(|(_, queue)| !queue.is_empty())
            .map(|(link, _)| *link)
            .collect();
        let open: Vec<Link> = open.into_iter().filter(|(_, to)| runs(*to)).collect();
        let more = usize::from(self.next < self.events.len() && runs(false));
        if open.len() + more == 0 {
            return self.stuck();
        }
        self.step += 1;
        let choice = self.draw(open.len() + more);
        let waiting = match open.get(choice) {
            Some(link) => self.links.get_mut(link).and_then(VecDeque::pop_front),
            None => Some(self.arrival()?),
        };
        let Some(Waiting { origin, began, pending }) = waiting else { return Ok(None) };
        let program = self.interp.program();
        let from = on_host(program, &pending);
        let stepped = self
            .interp
            .step(pending, began, self.events[origin].seed, &mut NoTrace)
            .map_err(|e| Failure::user(format!("event {}: {e}", origin + 1)))?;
        for pending in stepped.generated {
            let link = (from, on_host(program, &pending));
            let waiting = Waiting { origin, began, pending };
            match self.room(link, waiting.pending.event) {
                Some(Room { loses: true, .. }) => {
                    *self.lost.entry(waiting.pending.event).or_default() += 1
                }
                Some(_) => self.stopped.entry(from).or_default().push_back((link, waiting)),
                None => self.links.entry(link).or_default().push_back(waiting),
            }
        }
        Ok(Some(Done { origin, step: self.step, outputs: stepped.outputs }))
    }

    /// The queue's room, if it is full.
    fn room(&self, link: Link, event: EventId) -> Option<Room> {
        let program = self.interp.program();
        let room = program.handlers[program.handler_of(event)?].room?;
        let queue = self.links.get(&link)?;
        let waiting = queue.iter().filter(|waiting| waiting.pending.event == event).count();
        (waiting >= room.entries as usize).then_some(room)
    }

    /// Entries that waited for room are enqueued, in their order, as far as there is some.
    fn go_on(&mut self) {
        for side in [false, true] {
            while let Some((link, waiting)) =
                self.stopped.get_mut(&side).and_then(VecDeque::pop_front)
            {
                if self.room(link, waiting.pending.event).is_some() {
                    self.stopped.entry(side).or_default().push_front((link, waiting));
                    break;
                }
                self.links.entry(link).or_default().push_back(waiting);
            }
        }
    }

    /// Nothing can run: everything is done, or the queues wait for one another.
    fn stuck(&self) -> Result<Option<Done>, Failure> {
        let program = self.interp.program();
        let waiting = self.stopped.values().filter_map(|queue| queue.front());
        let names: Vec<String> = waiting
            .map(|(_, waiting)| format!("`{}`", program.events[waiting.pending.event].name))
            .collect();
        if names.is_empty() {
            return Ok(None);
        }
        let step = self.step;
        let message = format!(
            "after step {step} the full queues {} wait for one another",
            names.join(" and ")
        );
        Err(Failure::user(format!(
            "{message}; let one of them lose (NF_QUEUE), or give them more room"
        )))
    }

    /// Queues that were full, and how many entries they lost.
    pub fn lost(&self) -> Vec<(String, u64)> {
        let name =
            |event: EventId| format!("queue {} full", self.interp.program().events[event].name);
        self.lost.iter().map(|(event, count)| (name(*event), *count)).collect()
    }

    /// Events from outside that were taken in.
    pub fn begun(&self) -> u64 {
        self.next as u64
    }

    /// The next event from outside.
    fn arrival(&mut self) -> Result<Waiting, Failure> {
        let origin = self.next;
        self.next += 1;
        let event = self.interp.program().event_named("net_recv");
        match (&self.events[origin].input, event) {
            (Input::Net { port, frame }, Some(event)) => {
                let pending = Pending::frame(event, frame.clone(), *port);
                Ok(Waiting { origin, began: self.step, pending })
            }
            _ => Err(Failure::usage(
                "--interleave takes packets only, no timers and no messages of the host side",
            )),
        }
    }

    /// A number below `below`; the bias is far below what matters here.
    fn draw(&mut self, below: usize) -> usize {
        (self.random.next() % below as u64) as usize
    }
}

fn on_host(program: &Program, pending: &Pending) -> bool {
    let handler = program.handler_of(pending.event);
    handler.is_some_and(|handler| program.handlers[handler].side == Some(Side::Host))
}
