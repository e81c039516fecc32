//! Frames on their way into packet memory: matched, given a place, written, described to the
//! scheduler.
//!
//! One frame is written at a time, in order of arrival, so what finds no room holds up or is
//! dropped ([`super::Full`]).

use std::collections::VecDeque;

use super::out::{Dropped, Out, Times};
use super::{Arrival, Event, Full, Nic};
use crate::matching::Matched;
use crate::memory::Refused as NoRoom;
use crate::messages::{self, Refused};

/// A frame for handlers that is not yet in packet memory.
#[derive(Debug)]
struct Waiting {
    arrival: Arrival,
    matched: Matched,
    arrived: u64,
    /// Matching is done.
    from: u64,
    held_up: bool,
}

/// A packet in packet memory.
#[derive(Debug)]
pub(super) struct Packet {
    pub user: u64,
    pub bytes: u32,
    /// How much of it goes to clusters.
    pub copied: u32,
    pub matched: Matched,
    /// Until it is written.
    frame: Vec<u8>,
    pub times: Times,
}

impl Packet {
    /// One that a datapath has written.
    pub fn written(user: u64, bytes: u32, copied: u32, matched: Matched, times: Times) -> Packet {
        Packet { user, bytes, copied, matched, frame: Vec::new(), times }
    }
}

#[derive(Debug, Default)]
pub(super) struct Ingress {
    /// By time.
    pub coming: VecDeque<(u64, Arrival)>,
    queue: VecDeque<Waiting>,
    matcher_free: u64,
    path_free: u64,
    /// Described, but the scheduler has no room: addresses.
    stuck: VecDeque<u32>,
}

impl Nic {
    fn waits(&self) -> bool {
        self.options.full == Full::Wait || self.options.compat.bugs
    }

    pub(super) fn drop_frame(&mut self, user: u64, why: Dropped) {
        self.stats.drop_counted(why);
        self.out.push(Out::Dropped { time: self.now, user, why });
    }

    pub(super) fn arrived(&mut self) {
        let Some((_, arrival)) = self.ingress.coming.pop_front() else { return };
        let (now, bytes) = (self.now, arrival.frame.len() as u32);
        self.stats.frames += 1;
        self.stats.frame_bytes += u64::from(bytes);
        if self.datapath.is_some() {
            return self.arrive_at_datapath(arrival.user, arrival.frame, arrival.copied);
        }
        let machine = &self.world.machine;
        let mut from = now;
        let matched = arrival.matched.or_else(|| {
            let beats = machine.beats(bytes);
            let stored = if machine.match_stores { beats } else { 0 };
            let begin = self.ingress.matcher_free.max(now);
            from = begin + machine.match_cycles + stored;
            self.ingress.matcher_free = from + machine.match_gap;
            self.matcher.find(&arrival.frame)
        });
        let Some(matched) = matched else {
            self.stats.to_host += 1;
            self.out.push(Out::ToHost { time: from, user: arrival.user, frame: arrival.frame });
            return;
        };
        self.stats.matched += 1;
        if matched.context >= self.tenants.len() {
            return self.drop_frame(arrival.user, Dropped::NoContext);
        }
        self.ingress.queue.push_back(Waiting {
            arrival,
            matched,
            arrived: now,
            from,
            held_up: false,
        });
        self.at(from, Event::Ingress);
    }

    /// Takes in the next frame, if the path is free and there is room.
    pub(super) fn take_in(&mut self) {
        self.unstick();
        let now = self.now;
        while let Some(first) = self.ingress.queue.front_mut() {
            if !self.ingress.stuck.is_empty() || first.from > now {
                return;
            }
            if self.ingress.path_free > now {
                let free = self.ingress.path_free;
                return self.at(free, Event::Ingress);
            }
            let bytes = first.arrival.frame.len() as u32;
            let taken = self.packet_memory.take(bytes);
            if taken == Err(NoRoom::Full)
                && (self.options.full == Full::Wait || self.options.compat.bugs)
            {
                self.stats.held_up += u64::from(!std::mem::replace(&mut first.held_up, true));
                // Goes on when a packet is freed.
                return;
            }
            let Some(Waiting { arrival, matched, arrived, .. }) = self.ingress.queue.pop_front()
            else {
                return;
            };
            let address = match taken {
                Ok(address) => address,
                Err(NoRoom::Full) => {
                    self.drop_frame(arrival.user, Dropped::PacketMemory);
                    continue;
                }
                Err(NoRoom::TooLong { .. }) => {
                    self.drop_frame(arrival.user, Dropped::TooLong);
                    continue;
                }
            };
            let machine = &self.world.machine;
            let beats = machine.beats(bytes);
            let described = now + machine.ingress_cycles + beats;
            self.ingress.path_free = now + beats + machine.ingress_gap;
            let packet = Packet {
                user: arrival.user,
                bytes,
                copied: arrival.copied.unwrap_or(bytes).min(bytes),
                matched,
                frame: arrival.frame,
                times: Times { arrived, written: now, ..Times::default() },
            };
            self.packets.insert(address, packet);
            self.at(described, Event::Described(address));
        }
    }

    /// A packet is in memory.
    pub(super) fn described(&mut self, address: u32) {
        let Some(packet) = self.packets.get_mut(&address) else { return };
        packet.times.described = self.now;
        let frame = std::mem::take(&mut packet.frame);
        if let Some(place) = self.world.memories.place(0, address, frame.len() as u32) {
            self.world.memories.write(0, place, &frame);
        }
        self.ingress.stuck.push_back(address);
        self.unstick();
    }

    /// Gives the scheduler packets that are in memory.
    fn unstick(&mut self) {
        while let Some(&address) = self.ingress.stuck.front() {
            let Some(packet) = self.packets.get(&address) else {
                self.ingress.stuck.pop_front();
                continue;
            };
            let (user, matched) = (packet.user, packet.matched);
            let why = match self.scheduler.arrive(self.now, messages::Packet { address, matched }) {
                Ok(()) => {
                    self.ingress.stuck.pop_front();
                    self.want_schedule();
                    self.want_expire();
                    continue;
                }
                Err(Refused::NoContext(_)) => Dropped::NoContext,
                Err(Refused::NoCell) => Dropped::NoCell,
                Err(Refused::NoQueue) => Dropped::NoQueue,
            };
            if self.waits() && why != Dropped::NoContext {
                self.stats.held_up += u64::from(!self.retrying);
                if why == Dropped::NoQueue && !std::mem::replace(&mut self.retrying, true) {
                    let patience = self.world.machine.patience.max(1);
                    self.at(self.now + patience, Event::Retry);
                }
                return;
            }
            self.ingress.stuck.pop_front();
            self.packets.remove(&address);
            // It was taken when the frame came in.
            let _ = self.packet_memory.free(address);
            self.drop_frame(user, why);
        }
    }

    /// Room was made.
    pub(super) fn room_made(&mut self) {
        if !self.ingress.stuck.is_empty() || !self.ingress.queue.is_empty() {
            self.take_in();
        }
    }

    pub(super) fn retry(&mut self) {
        self.retrying = false;
        self.room_made();
    }

    pub(super) fn want_expire(&mut self) {
        if let Some(timeout) = self.options.end_timeout
            && !std::mem::replace(&mut self.expiring, true)
        {
            self.at(self.now.saturating_add(timeout), Event::Expire);
        }
    }

    /// Gives up messages that have been silent for too long.
    pub(super) fn expire(&mut self) {
        self.expiring = false;
        let Some(timeout) = self.options.end_timeout else { return };
        let time = self.now;
        let silent = self.scheduler.expire(time, timeout);
        self.out.extend(silent.into_iter().map(|(context, message)| Out::Abandoned {
            time,
            context,
            message,
        }));
        if self.scheduler.open() > 0 {
            self.want_expire();
        }
        self.room_made();
    }
}
