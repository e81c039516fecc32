//! The message scheduler: which handler starts next, on which packet and in which cluster.
//!
//! Packets of a message wait in its queue, which goes through header, payload and completion: the
//! header handler runs alone on the first packet; then payload handlers run on every packet in
//! order of arrival, the first and the last too, as many at a time as there is room for; when the
//! last packet is known and all of them have ended, the completion handler runs on the last packet.
//! Handlers a context does not have are passed over. A packet is freed by its payload handler, the
//! last by the completion handler. The context that is furthest behind its share goes first
//! (`shares`), its queues in turn; a task goes to the message's home cluster while that has room,
//! else to the least occupied one.
//!
//! No message is stuck: what a queue waits for is its own running handlers, which end (a watchdog
//! sees to it), or packets. One whose last packet is lost keeps its queue until another message
//! needs it. Cost: logarithmic in queues, linear in contexts and clusters.
//!
//! Source: PsPIN's scheduler, RTL. [`Faults`] names where this differs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::matching::Matched;
use shares::{Charge, Shares};

pub use config::{Config, Context, Faults};

mod config;
mod shares;
#[cfg(test)]
mod tests;

/// A packet in packet memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    pub address: u32,
    pub matched: Matched,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handler {
    Header,
    Payload,
    Completion,
}

impl Handler {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Handler::Header => "header handler",
            Handler::Payload => "payload handler",
            Handler::Completion => "completion handler",
        }
    }
}

/// A handler to run on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Counts up; names the task when it is done.
    pub number: u64,
    pub handler: Handler,
    pub context: usize,
    pub message: u32,
    /// Where the packet lies.
    pub address: u32,
    /// What handlers see as the flow's number.
    pub queue: usize,
    pub cluster: usize,
}

/// Why a packet cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("execution context {0} is not set up; give it handlers before rules that match")]
    NoContext(usize),
    /// Comes free when a handler of the queue starts.
    #[error("all cells for waiting packets are taken")]
    NoCell,
    /// Comes free when a message ends or runs out of patience.
    #[error("all message queues are in use")]
    NoQueue,
}

/// No such task is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("task {number} is not running; each is done once, by the number it was given")]
pub struct NotRunning {
    pub number: u64,
}

/// Counts so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub packets: u64,
    /// Times a packet was refused.
    pub refused: u64,
    /// Messages that began.
    pub messages: u64,
    /// Messages that came to their end.
    pub ended: u64,
    /// Messages without an end that gave their queue to another.
    pub abandoned: u64,
    /// Packets that came after their message had closed.
    pub late: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Free,
    Header,
    HeaderRunning,
    Payload,
    /// The packet that waits is the last to start; only with [`Faults::drains_early`].
    Draining,
    /// Completion can start, on the packet at an address.
    Completion(u32),
    CompletionRunning,
}

#[derive(Clone, Debug, Default)]
struct Queue {
    state: State,
    context: usize,
    message: u32,
    /// Whose queue this is, where queues are not shared.
    owner: Option<(usize, u32)>,
    /// Packets whose payload handlers did not start, by arrival.
    waiting: VecDeque<Packet>,
    /// Packets that came after the message had closed.
    late: VecDeque<Packet>,
    /// Payload handlers.
    running: u32,
    /// The last packet has come.
    ended: bool,
    /// Where the packet lies that completion will run on.
    kept: Option<u32>,
    /// When something came or ended.
    used: u64,
}

impl Queue {
    fn held(&self) -> usize {
        self.waiting.len() + self.late.len()
    }

    fn idle(&self) -> bool {
        self.waiting.is_empty() && self.running == 0
    }

    fn ready(&self) -> bool {
        match self.state {
            State::Header | State::Completion(_) => true,
            State::Payload | State::Draining => !self.waiting.is_empty(),
            State::Free | State::HeaderRunning | State::CompletionRunning => false,
        }
    }
}

/// Queues of a context that have something to start.
#[derive(Clone, Debug, Default)]
struct Group {
    ready: BTreeSet<usize>,
    /// The queue after the one that started last.
    turn: usize,
    /// Queues the context has.
    owned: usize,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    task: Task,
    start: u64,
    charge: Charge,
    /// Whose turn and time it was.
    group: usize,
    /// Its packet is freed when it ends.
    frees: bool,
}

/// The scheduler.
#[derive(Clone, Debug)]
pub struct Scheduler {
    config: Config,
    queues: Vec<Queue>,
    by_owner: BTreeMap<(usize, u32), usize>,
    free: BTreeSet<usize>,
    groups: Vec<Group>,
    shares: Shares,
    /// Tasks by cluster.
    occupied: Vec<u32>,
    running: BTreeMap<u64, Running>,
    /// Cells in use.
    cells: usize,
    number: u64,
    counts: Counts,
}

impl Scheduler {
    pub fn new(mut config: Config) -> Scheduler {
        config.queues = config.queues.max(1);
        config.clusters = config.clusters.max(1);
        Scheduler {
            queues: vec![Queue::default(); config.queues],
            by_owner: BTreeMap::new(),
            free: (0..config.queues).collect(),
            groups: vec![Group::default(); config.contexts.len()],
            shares: Shares::new(config.contexts.iter().map(|context| context.weight)),
            occupied: vec![0; config.clusters],
            running: BTreeMap::new(),
            cells: 0,
            number: 0,
            counts: Counts::default(),
            config,
        }
    }

    /// Sets up another context; its number is how many there were.
    pub fn add_context(&mut self, context: Context) {
        self.config.contexts.push(context);
        self.groups.push(Group::default());
        self.shares.add(context.weight);
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Nothing waits that could start, and nothing runs: time alone changes nothing.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty() && self.groups.iter().all(|group| group.ready.is_empty())
    }

    /// Takes a packet; times are cycles and never go back.
    ///
    /// # Errors
    /// See [`Refused`]. Hardware then holds up everything behind the packet.
    pub fn arrive(&mut self, now: u64, packet: Packet) -> Result<(), Refused> {
        let taken = self.queue_for(now, packet.matched);
        let taken = taken.and_then(|at| {
            let full = self.queues[at].held() > 0 && self.cells >= self.config.cells;
            if full { Err(Refused::NoCell) } else { Ok(at) }
        });
        let at = match taken {
            Ok(at) => at,
            Err(refused) => {
                self.counts.refused += 1;
                return Err(refused);
            }
        };
        self.counts.packets += 1;
        if !self.config.faults.shared_queues {
            self.own(at, (packet.matched.context, packet.matched.message));
        }
        let queue = &mut self.queues[at];
        self.cells += usize::from(queue.held() > 0);
        queue.used = now;
        match queue.state {
            State::Free => {
                queue.waiting.push_back(packet);
                self.begin(at, packet.matched);
            }
            State::Header | State::HeaderRunning | State::Payload => {
                queue.waiting.push_back(packet);
                queue.ended |= packet.matched.last;
            }
            State::Draining | State::Completion(_) | State::CompletionRunning => {
                queue.late.push_back(packet);
                self.counts.late += 1;
            }
        }
        self.settle(at);
        Ok(())
    }

    /// Messages that have a queue; none are known where queues are shared.
    pub fn open(&self) -> usize {
        self.by_owner.len()
    }

    /// Gives up messages for which nothing came or ended for so many cycles, and which wait for
    /// packets; says which.
    pub fn expire(&mut self, now: u64, silence: u64) -> Vec<(usize, u32)> {
        let silent = |queue: &Queue| {
            let waits = queue.state == State::Payload && queue.idle();
            waits && now.saturating_sub(queue.used) >= silence
        };
        let owners = self.by_owner.iter().filter(|&(_, &at)| silent(&self.queues[at]));
        let given_up: Vec<((usize, u32), usize)> =
            owners.map(|(&owner, &at)| (owner, at)).collect();
        for (_, at) in &given_up {
            self.counts.abandoned += 1;
            self.release(*at);
        }
        given_up.into_iter().map(|(owner, _)| owner).collect()
    }

    /// The next handler to start, given how many tasks each cluster can still take; `None` if
    /// nothing is ready or has room.
    pub fn next(&mut self, now: u64, room: &[u32]) -> Option<Task> {
        if !self.occupied.iter().zip(room).any(|(_, &room)| room > 0) {
            return None;
        }
        let ready = |&group: &usize| !self.groups[group].ready.is_empty();
        let group_at = self.shares.least((0..self.groups.len()).filter(ready))?;
        let group = &self.groups[group_at];
        let at = *group.ready.range(group.turn..).next().or_else(|| group.ready.first())?;
        let cluster = self.cluster_for(self.queues[at].message, room)?;
        let queue = &mut self.queues[at];
        let (handler, address, frees) = match queue.state {
            State::Header => {
                queue.state = State::HeaderRunning;
                (Handler::Header, queue.waiting.front()?.address, false)
            }
            State::Completion(address) => {
                queue.state = State::CompletionRunning;
                (Handler::Completion, address, true)
            }
            _ => {
                let packet = queue.waiting.pop_front()?;
                queue.running += 1;
                self.cells -= usize::from(queue.held() > 0);
                let last = match self.config.faults.drains_early {
                    true => queue.state == State::Draining,
                    false => packet.matched.last && queue.kept.is_none(),
                };
                let keep = last && self.config.contexts[queue.context].completion;
                if keep {
                    queue.kept = Some(packet.address);
                }
                (Handler::Payload, packet.address, !keep)
            }
        };
        let (context, message) = (queue.context, queue.message);
        let task =
            Task { number: self.number, handler, context, message, address, queue: at, cluster };
        self.number += 1;
        self.occupied[cluster] += 1;
        self.groups[group_at].turn = at + 1;
        let charge = self.shares.start(group_at);
        self.running
            .insert(task.number, Running { task, start: now, charge, group: group_at, frees });
        self.settle(at);
        Some(task)
    }

    /// A task has ended, well or not; gives the address of the packet that nobody needs any more.
    ///
    /// # Errors
    /// There is no such task.
    pub fn done(&mut self, now: u64, number: u64) -> Result<Option<u32>, NotRunning> {
        let Running { task, start, charge, group, frees } =
            self.running.remove(&number).ok_or(NotRunning { number })?;
        self.occupied[task.cluster] -= 1;
        self.shares.end(group, charge, now.saturating_sub(start));
        let queue = &mut self.queues[task.queue];
        queue.used = now;
        match task.handler {
            Handler::Header => queue.state = State::Payload,
            Handler::Payload => queue.running -= 1,
            Handler::Completion => self.finish(task.queue),
        }
        self.settle(task.queue);
        Ok(frees.then_some(task.address))
    }

    /// The queue of a packet's message, or one it can have.
    fn queue_for(&self, now: u64, matched: Matched) -> Result<usize, Refused> {
        let Matched { context, message, .. } = matched;
        let group = self.groups.get(context).ok_or(Refused::NoContext(context))?;
        let preferred = message as usize % self.queues.len();
        if self.config.faults.shared_queues {
            return Ok(preferred);
        }
        if let Some(&at) = self.by_owner.get(&(context, message)) {
            return Ok(at);
        }
        // One queue stays for every other context that has none, so that nobody is shut out.
        let kept = self.groups.iter().filter(|group| group.owned == 0).count()
            - usize::from(group.owned == 0);
        if self.free.len() > kept {
            let first = self.free.first().copied().unwrap_or(preferred);
            return Ok(if self.free.contains(&preferred) { preferred } else { first });
        }
        // Own messages give way first: taking from others would undo what was kept for them.
        let gives_way = |queue: &&(usize, &Queue)| {
            let (_, queue) = queue;
            let patient = now.saturating_sub(queue.used) < self.config.patience;
            let lost = queue.state == State::Payload && queue.idle();
            lost && !patient && (queue.context == context || group.owned == 0)
        };
        let oldest = self
            .queues
            .iter()
            .enumerate()
            .filter(|queue| gives_way(&queue))
            .min_by_key(|(_, q)| q.used);
        oldest.map(|(at, _)| at).ok_or(Refused::NoQueue)
    }

    /// Gives a queue to a message; who had it has lost its end.
    fn own(&mut self, at: usize, owner: (usize, u32)) {
        if self.queues[at].owner == Some(owner) {
            return;
        }
        if self.queues[at].owner.is_some() {
            self.counts.abandoned += 1;
            self.release(at);
        }
        self.queues[at].owner = Some(owner);
        self.by_owner.insert(owner, at);
        self.free.remove(&at);
        self.groups[owner.0].owned += 1;
    }

    fn release(&mut self, at: usize) {
        let queue = &mut self.queues[at];
        queue.state = State::Free;
        if let Some(owner) = queue.owner.take() {
            self.by_owner.remove(&owner);
            self.free.insert(at);
            self.groups[owner.0].owned -= 1;
        }
    }

    /// A message begins with the packets that wait.
    fn begin(&mut self, at: usize, first: Matched) {
        let queue = &mut self.queues[at];
        (queue.context, queue.message) = (first.context, first.message);
        queue.ended = queue.waiting.iter().any(|packet| packet.matched.last);
        let header = self.config.contexts[first.context].header;
        queue.state = if header { State::Header } else { State::Payload };
        self.counts.messages += 1;
    }

    /// A message is over; what came late begins the next.
    fn finish(&mut self, at: usize) {
        self.counts.ended += 1;
        let queue = &mut self.queues[at];
        queue.state = State::Free;
        queue.waiting = std::mem::take(&mut queue.late);
        match queue.waiting.front() {
            None => self.release(at),
            Some(_) if self.config.faults.drains_early => {}
            Some(first) => {
                let first = first.matched;
                self.begin(at, first);
            }
        }
    }

    /// Goes on to where something has to start or end first. Ends, since each round moves the queue
    /// to a later state, and a new message begins only with a packet, which waits.
    fn settle(&mut self, at: usize) {
        let faults = self.config.faults;
        loop {
            let queue = &mut self.queues[at];
            let context = self.config.contexts[queue.context];
            match queue.state {
                State::Payload
                    if faults.drains_early && queue.ended && queue.waiting.len() == 1 =>
                {
                    queue.state = State::Draining;
                }
                State::Payload | State::Draining if queue.ended && queue.idle() => {
                    match queue.kept.take() {
                        Some(address) => queue.state = State::Completion(address),
                        None => self.finish(at),
                    }
                }
                // Nothing is known of such a message that would be lost with its queue: pings are
                // messages of one packet.
                State::Payload
                    if queue.idle()
                        && !context.header
                        && !context.completion
                        && !faults.shared_queues =>
                {
                    self.release(at);
                }
                _ => break,
            }
        }
        self.mark(at);
    }

    fn mark(&mut self, at: usize) {
        let queue = &self.queues[at];
        let group = if self.config.faults.no_shares { 0 } else { queue.context };
        let ready = &mut self.groups[group].ready;
        let serial = self.config.contexts.get(queue.context).is_some_and(|context| context.serial);
        if !queue.ready() || (serial && queue.running > 0) {
            ready.remove(&at);
        } else if ready.insert(at) && ready.len() == 1 {
            self.shares.wake(group);
        }
    }

    fn cluster_for(&self, message: u32, room: &[u32]) -> Option<usize> {
        let has_room = |cluster: usize| room.get(cluster).is_some_and(|&room| room > 0);
        let home = message as usize % self.occupied.len();
        if has_room(home) && self.occupied[home] < self.config.home_limit {
            return Some(home);
        }
        (0..self.occupied.len())
            .filter(|&cluster| has_room(cluster))
            .min_by_key(|&cluster| self.occupied[cluster])
    }
}
