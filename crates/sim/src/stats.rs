//! What is counted while a simulation runs.
//!
//! Packets are counted from the first to the last moment, so that they add up. Rates, latencies and
//! loads are those after the warm-up.

use crate::histogram::Histogram;
use crate::model::{Crossing, Model};

/// Where a frame is lost, other than by the program's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In front of the port: more came than its line carries.
    Wire,
    /// More frames came than the ports take per second.
    PacketRate,
    /// In the receive queue of a stage.
    Receive(usize),
    /// On the way to a stage whose queue is full.
    Link(usize),
    /// In front of the port it was to leave by.
    Transmit,
    /// There is no such port.
    NoPort,
    /// Its headers did not fit.
    NoRoom,
}

/// Counters of packets, from the first moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub offered: u64,
    pub offered_bytes: u64,
    pub sent: u64,
    pub sent_bytes: u64,
    /// Frames sent that no packet came in for: byte strings of tables.
    pub made: u64,
    pub stack: u64,
    pub host: u64,
    pub messages: u64,
    /// By the program's reasons.
    pub dropped: Vec<u64>,
    pub lost: Vec<(Place, u64)>,
    /// Frames that had been made and were lost on their way out.
    pub made_lost: u64,
}

impl Counts {
    pub fn all_lost(&self) -> u64 {
        self.lost.iter().map(|(_, n)| n).sum()
    }
}

/// A stage since the warm-up.
#[derive(Clone, Debug, Default)]
pub struct StageStats {
    pub events: u64,
    pub busy_ps: f64,
    pub occupied_ps: f64,
    pub waiting: u64,
    pub deepest: usize,
    pub depth_ps: f64,
    changed: u64,
}

#[derive(Clone, Debug, Default)]
struct UnitStats {
    working: u32,
    since: u64,
}

/// A memory server since the warm-up.
#[derive(Clone, Debug, Default)]
pub struct ServerStats {
    pub accesses: u64,
    pub busy_ps: f64,
    pub waited_ps: f64,
    pub longest_wait_ps: u64,
}

pub struct Stats {
    pub counts: Counts,
    /// Counters at the end of the warm-up.
    pub before: Counts,
    pub latency: Histogram,
    pub stages: Vec<StageStats>,
    units: Vec<UnitStats>,
    pub servers: Vec<ServerStats>,
    pub host_link_ps: [f64; 2],
    /// Events of the simulation.
    pub events: u64,
    pub started: u64,
    /// Packets that were under way then.
    pub started_with: u64,
    pub ended: u64,
    pub interrupted: bool,
}

impl Stats {
    pub fn new(model: &Model, reasons: usize) -> Stats {
        let counts = Counts { dropped: vec![0; reasons], ..Counts::default() };
        Stats {
            before: counts.clone(),
            counts,
            latency: Histogram::default(),
            stages: vec![StageStats::default(); model.stages.len()],
            units: vec![UnitStats::default(); model.units.len()],
            servers: vec![ServerStats::default(); model.servers.len()],
            host_link_ps: [0.0; 2],
            events: 0,
            started: 0,
            started_with: 0,
            ended: 0,
            interrupted: false,
        }
    }

    /// The warm-up is over; so many packets are under way.
    pub fn start(&mut self, now: u64, under_way: u64) {
        self.before = self.counts.clone();
        self.latency = Histogram::default();
        for stage in &mut self.stages {
            *stage = StageStats { waiting: stage.waiting, changed: now, ..StageStats::default() };
        }
        for unit in &mut self.units {
            unit.since = now;
        }
        self.servers.fill(ServerStats::default());
        self.host_link_ps = [0.0; 2];
        (self.started, self.started_with) = (now, under_way);
    }

    /// Nothing happens any more.
    pub fn end(&mut self, now: u64) {
        self.ended = now;
        for stage in &mut self.stages {
            stage.depth_ps += stage.waiting as f64 * (now - stage.changed) as f64;
            stage.changed = now;
        }
    }

    /// Units at work at the end are counted up to it.
    pub fn close_units(&mut self, model: &Model) {
        for (unit, data) in self.units.iter_mut().zip(&model.units) {
            if unit.working > 0 {
                self.stages[data.stage].occupied_ps += (self.ended - unit.since) as f64;
                unit.since = self.ended;
            }
        }
    }

    pub fn event(&mut self) {
        self.events += 1;
    }

    pub fn offered(&mut self, bytes: u32) {
        self.counts.offered += 1;
        self.counts.offered_bytes += u64::from(bytes);
    }

    pub fn lost(&mut self, place: Place) {
        match self.counts.lost.iter_mut().find(|(known, _)| *known == place) {
            Some((_, count)) => *count += 1,
            None => self.counts.lost.push((place, 1)),
        }
    }

    /// A frame that was to leave is lost; it counts as a packet only if it came in as one.
    pub fn lost_frame(&mut self, place: Place, packet: bool) {
        if packet {
            self.lost(place);
        } else {
            self.counts.made_lost += 1;
        }
    }

    pub fn dropped(&mut self, reason: usize) {
        if let Some(count) = self.counts.dropped.get_mut(reason) {
            *count += 1;
        }
    }

    pub fn sent(&mut self, bytes: u32, latency_ps: u64, packet: bool) {
        if packet {
            self.counts.sent += 1;
        } else {
            self.counts.made += 1;
        }
        self.counts.sent_bytes += u64::from(bytes);
        self.latency.record(latency_ps);
    }

    pub fn passed(&mut self, to_stack: bool, latency_ps: u64) {
        if to_stack {
            self.counts.stack += 1;
        } else {
            self.counts.host += 1;
        }
        self.latency.record(latency_ps);
    }

    pub fn message(&mut self) {
        self.counts.messages += 1;
    }

    /// A queue of a stage changed; it has `depth` now.
    pub fn queued(&mut self, now: u64, stage: usize, by: i64, depth: usize) {
        let stage = &mut self.stages[stage];
        stage.depth_ps += stage.waiting as f64 * (now - stage.changed) as f64;
        stage.changed = now;
        stage.waiting = stage.waiting.saturating_add_signed(by);
        stage.deepest = stage.deepest.max(depth);
    }

    /// A unit takes up an event.
    pub fn begun(&mut self, now: u64, unit: usize, stage: usize) {
        self.stages[stage].events += 1;
        let unit = &mut self.units[unit];
        if unit.working == 0 {
            unit.since = now;
        }
        unit.working += 1;
    }

    /// A unit is done with one.
    pub fn finished(&mut self, now: u64, unit: usize, stage: usize) {
        let unit = &mut self.units[unit];
        unit.working -= 1;
        if unit.working == 0 {
            self.stages[stage].occupied_ps += (now - unit.since) as f64;
        }
    }

    /// A processor works for so long.
    pub fn ran(&mut self, stage: usize, ps: u64) {
        self.stages[stage].busy_ps += ps as f64;
    }

    pub fn memory(&mut self, server: usize, busy_ps: f64, waited_ps: u64) {
        let server = &mut self.servers[server];
        server.accesses += 1;
        server.busy_ps += busy_ps;
        server.waited_ps += waited_ps as f64;
        server.longest_wait_ps = server.longest_wait_ps.max(waited_ps);
    }

    pub fn crossed(&mut self, way: Crossing, ps: f64) {
        self.host_link_ps[way as usize] += ps;
    }
}
