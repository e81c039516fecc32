//! Ways between stages and out: room in queues, reorder points, the host link, the wires.
//!
//! A handler that is over keeps its thread until everything it made is on its way. Where there is
//! no room it waits in the queue of senders of the unit or of the reorder point, and goes on from
//! the same effect when it is woken.

use super::{Engine, Item, What};
use crate::context::Context;
use crate::handlers::{Effect, Message};
use crate::model::{Crossing, SimError};
use crate::stats::Place;

impl Engine<'_> {
    /// A handler is over: what it made goes on its way when it is its turn, as far as there is
    /// room.
    pub(super) fn finish(&mut self, number: u32) -> Result<(), SimError> {
        let Context { ticket, unit, stage, .. } = self.contexts[number as usize];
        let in_turn = self.model.stages[stage as usize].in_turn;
        let state = &mut self.units[unit as usize];
        if in_turn && state.handed_on != ticket {
            state.early.insert(ticket, number);
            return Ok(());
        }
        loop {
            let context = &mut self.contexts[number as usize];
            let (root, stage, unit) = (context.root, context.stage as usize, context.unit);
            let Some(effect) = context.effects.get(context.done as usize).copied() else { break };
            context.done += 1;
            match effect {
                Effect::Generate { event, message, steer, bytes, zeros } => {
                    let item = self.route(
                        event.as_u32(),
                        message,
                        steer,
                        (bytes, zeros),
                        root,
                        stage,
                        unit,
                    );
                    if !self.send(item, number, stage)? {
                        self.contexts[number as usize].done -= 1;
                        return Ok(());
                    }
                }
                other => self.leave(other, root, stage),
            }
        }
        let context = &mut self.contexts[number as usize];
        let (root, stage, unit) = (context.root, context.stage as usize, context.unit);
        self.free_contexts.push(number);
        self.stats.finished(self.now, unit as usize, stage);
        self.settle(root, stage)?;
        let state = &mut self.units[unit as usize];
        state.handed_on += 1;
        let next = if in_turn { state.early.remove(&state.handed_on) } else { None };
        if self.model.stages[stage].interval_ps.is_none() {
            self.units[unit as usize].free_threads += 1;
            self.feed(unit)?;
        }
        next.map_or(Ok(()), |next| self.finish(next))
    }

    /// One event of a root is over.
    fn settle(&mut self, root: u32, stage: usize) -> Result<(), SimError> {
        let state = &mut self.roots[root as usize];
        state.live -= 1;
        let (sequence, live) = (state.sequence, state.live);
        if live == 0 {
            self.free_roots.push(root);
        }
        for point in 0..self.reorder.len() {
            if stage < self.model.reorders[point].stage {
                self.reorder[point].less(sequence);
                self.flush(point)?;
                self.wake(point)?;
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn route(
        &mut self,
        event: u32,
        message: Message,
        steer: u32,
        (bytes, zeros): (Option<u32>, u32),
        root: u32,
        stage: usize,
        unit: u32,
    ) -> Item {
        let to = self.model.events[event as usize].as_ref();
        let unit = match to {
            Some(to) if to.stage != stage => {
                let receiver = &self.model.stages[to.stage];
                let replica =
                    to.steer.event(steer, receiver.replicas, &mut self.turns[event as usize]);
                (receiver.first_unit + replica as usize) as u32
            }
            _ => unit,
        };
        Item { message, root, unit, event, bytes: bytes.unwrap_or(0), zeros, from: stage as u32 }
    }

    /// Sends an event to a unit; whether it could be.
    fn send(&mut self, item: Item, context: u32, stage: usize) -> Result<bool, SimError> {
        let Some(to) = &self.model.events[item.event as usize] else {
            self.handlers.discard(item.message);
            return Ok(true);
        };
        let Some(link) = to.from.get(stage).and_then(Option::as_ref) else {
            // To its own stage: the same unit runs it next.
            self.roots[item.root as usize].live += 1;
            self.more(item.root, stage);
            self.fly(item, self.now);
            return Ok(true);
        };
        let room = self.has_room(item.unit);
        let sequence = self.roots[item.root as usize].sequence;
        match to.reorder {
            Some(point) if !self.reorder[point].admits(sequence, self.window(to.stage)) => {
                self.reorder[point].waiting.push_back(context);
                return Ok(false);
            }
            // A stage that comes earlier in the plan might wait for this one: such events always
            // have room.
            None if !room && to.stage > stage => {
                if link.lossy {
                    self.stats.lost_frame(Place::Link(to.stage), item.bytes > 0);
                    self.handlers.discard(item.message);
                    return Ok(true);
                }
                self.units[item.unit as usize].senders.push_back(context);
                return Ok(false);
            }
            _ => {}
        }
        let mut arrives = self.now + link.latency_ps;
        if let Some((way, bytes)) = link.crosses {
            arrives =
                self.cross(way, bytes.saturating_sub(item.zeros) + item.bytes) + link.latency_ps;
        }
        self.roots[item.root as usize].live += 1;
        self.more(item.root, to.stage);
        match to.reorder {
            Some(point) => {
                self.reorder[point].hold(sequence, item, arrives);
                self.flush(point)?;
            }
            None => {
                self.units[item.unit as usize].promised += 1;
                self.fly(item, arrives);
            }
        }
        Ok(true)
    }

    fn has_room(&self, unit: u32) -> bool {
        let state = &self.units[unit as usize];
        let depth = self.model.stages[self.model.units[unit as usize].stage].depth;
        state.queue.len() as u32 + state.promised < depth
    }

    /// Packets that may be open in front of a reordered stage.
    fn window(&self, stage: usize) -> u64 {
        let stage = &self.model.stages[stage];
        u64::from(stage.depth) * u64::from(stage.replicas)
    }

    /// A root has one more event at a stage.
    fn more(&mut self, root: u32, stage: usize) {
        let sequence = self.roots[root as usize].sequence;
        for (state, point) in self.reorder.iter_mut().zip(&self.model.reorders) {
            if stage < point.stage {
                state.more(sequence);
            }
        }
    }

    /// Messages whose turn it is leave a reorder point; senders that were too far ahead may go on.
    pub(super) fn flush(&mut self, point: usize) -> Result<(), SimError> {
        while let Some(item) = self.reorder[point].front() {
            if !self.has_room(item.unit) {
                break;
            }
            if let Some((item, at)) = self.reorder[point].leave(self.now) {
                self.units[item.unit as usize].promised += 1;
                self.fly(item, at);
            }
        }
        Ok(())
    }

    /// Senders that were too far ahead of a reorder point try again, each once.
    pub(super) fn wake(&mut self, point: usize) -> Result<(), SimError> {
        for _ in 0..self.reorder[point].waiting.len() {
            let Some(context) = self.reorder[point].waiting.pop_front() else { break };
            self.finish(context)?;
        }
        Ok(())
    }

    fn fly(&mut self, item: Item, at: u64) {
        let number = match self.free_flights.pop() {
            Some(number) => {
                self.flights[number as usize] = item;
                number
            }
            None => {
                self.flights.push(item);
                self.flights.len() as u32 - 1
            }
        };
        self.schedule(at, What::Arrived, number);
    }

    /// When so many bytes are through the host link.
    fn cross(&mut self, way: Crossing, bytes: u32) -> u64 {
        let Some(link) = &self.model.host_link else { return self.now };
        let free = &mut self.host_link[way as usize];
        *free = free.max(self.now as f64) + f64::from(bytes) * 8.0 * link.bit_ps;
        self.stats.crossed(way, f64::from(bytes) * 8.0 * link.bit_ps);
        *free as u64
    }

    /// Something leaves the program.
    fn leave(&mut self, effect: Effect, root: u32, stage: usize) {
        self.stats.event();
        let on_host = self.model.stages[stage].device == nicforge_target::Device::Host;
        let started = self.roots[root as usize].at;
        match effect {
            Effect::Generate { .. } => {}
            Effect::Send { port, bytes } => {
                if let Some(departed) = self.options.departed {
                    departed(self.roots[root as usize].sequence, port);
                }
                self.transmit(port, bytes, started, on_host, true);
            }
            Effect::Made { port: Some(port), bytes } => {
                self.transmit(port, bytes, started, on_host, false)
            }
            Effect::Drop { reason } => {
                self.stats.dropped(reason.as_u32() as usize);
            }
            Effect::NoRoom => {
                self.stats.lost(Place::NoRoom);
            }
            Effect::Stack { bytes } | Effect::Host { bytes } => {
                let at = if on_host { self.now } else { self.hand_to_host(bytes) };
                self.stats.passed(matches!(effect, Effect::Stack { .. }), at - started);
            }
            Effect::Made { port: None, bytes } | Effect::ToHost { bytes } => {
                if !on_host {
                    self.hand_to_host(bytes);
                }
                self.stats.message();
            }
        }
    }

    fn hand_to_host(&mut self, bytes: u32) -> u64 {
        let latency = self.model.host_link.as_ref().map_or(0, |link| link.latency_ps);
        self.cross(Crossing::ToHost, bytes) + latency
    }

    /// A frame goes to the wire of a port.
    fn transmit(&mut self, port: u32, bytes: u32, started: u64, on_host: bool, packet: bool) {
        let ports = &self.model.ports;
        let Some(free) = self.wires_out.get(port as usize).copied() else {
            self.stats.lost_frame(Place::NoPort, packet);
            return;
        };
        let wire = ports.wire_ps(bytes);
        // The ports of a target without a host link are on the host.
        let from = if on_host && self.model.host_link.is_some() {
            let latency = self.model.host_link.as_ref().map_or(0, |link| link.latency_ps);
            self.cross(Crossing::ToNic, bytes) + latency
        } else {
            self.now
        };
        let begins = free.max(from);
        if begins - from > wire.saturating_mul(u64::from(self.options.wire_depth)) {
            self.stats.lost_frame(Place::Transmit, packet);
            return;
        }
        self.wires_out[port as usize] = begins + wire;
        self.stats.sent(bytes, begins + wire - started, packet);
    }
}
