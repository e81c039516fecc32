//! One event being worked on: what its handler did, as segments to play.

use nicforge_ir::TableId;

use crate::engine::{Item, payload};
use crate::handlers::{Effect, Step, Trace};
use crate::model::{Model, StageModel};
use crate::price::{ServedPrice, TablePrice};

/// No entry has to be waited for.
pub const NO_GATE: u8 = u8::MAX;

/// Processor time that ends in an access, or in the end of the handler.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub processor_ps: u64,
    pub access: Option<Access>,
}

/// An access to a memory that somebody else can notice, or that others use the processor during.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub latency_ps: u64,
    /// The memory's server, if its bandwidth is limited.
    pub server: Option<u32>,
    pub operations: f32,
    /// Index of the hold that must be free.
    pub gate: u8,
    /// The processor waits with the thread.
    pub blocking: bool,
}

/// An entry of a mutable table that this event uses.
#[derive(Clone, Copy, Debug)]
pub struct Hold {
    pub key: u64,
    /// The event before is not done with it.
    pub blocked: bool,
    /// Segment of the last access.
    pub last: u32,
    /// Who waits for it: context and hold.
    pub next: Option<(u32, u32)>,
}

#[derive(Debug, Default)]
pub struct Context {
    pub unit: u32,
    pub stage: u32,
    pub root: u32,
    /// How many events its unit took up before.
    pub ticket: u64,
    pub segments: Vec<Segment>,
    pub effects: Vec<Effect>,
    pub holds: Vec<Hold>,
    /// Segment that is played, and effects that are under way.
    pub at: u32,
    pub done: u32,
    /// Waits for an entry; it let go of the processor for that although the memory blocks.
    pub parked: bool,
    pub gave_way: bool,
    /// Keys looked for, and the table's last one.
    seen: Vec<(TableId, u32)>,
}

impl Context {
    /// Turns a trace into segments.
    pub fn play(&mut self, model: &Model, item: Item, stage_number: usize, trace: &Trace) {
        let stage = &model.stages[stage_number];
        (self.unit, self.stage, self.root) = (item.unit, stage_number as u32, item.root);
        (self.at, self.done, self.parked, self.gave_way) = (0, 0, false, false);
        self.segments.clear();
        self.holds.clear();
        self.seen.clear();
        let servers = &model.units[item.unit as usize].servers;
        let mut player = Player { stage, servers, cycles: stage.lock_cycles, wait_ps: 0.0 };
        if let Some(event) = &model.events[item.event as usize] {
            let link = event.from.get(item.from as usize).and_then(Option::as_ref);
            player.cycles += event.receive_cycles
                + link.map_or(0.0, |link| link.receive_cycles - link.saved(item.zeros));
        }
        let bytes = payload(item.bytes);
        for step in &trace.steps {
            match *step {
                Step::Line(number) => {
                    let price = &model.lines[number as usize];
                    player.cycles += price.cycles + price.byte_cycles * bytes;
                    if price.only_cycles {
                        continue;
                    }
                    for one in &price.served {
                        let server = model.accelerators[one.accelerator];
                        self.accelerated(&mut player, one, one.busy_ns(bytes), server);
                    }
                    if let Some((table, constant, per_byte)) = price.stored {
                        self.buffer(&mut player, table, constant + per_byte * bytes);
                    }
                    if let Some(table) = price.read_back {
                        let made = trace.effects.iter().filter_map(|effect| match effect {
                            Effect::Made { bytes, .. } => Some(f64::from(*bytes)),
                            _ => None,
                        });
                        self.buffer(&mut player, table, made.sum());
                    }
                }
                Step::Read { table, key } => self.entry(&mut player, table, Some(key), false),
                Step::Write { table, key } => self.entry(&mut player, table, key, true),
            }
        }
        for effect in &trace.effects {
            if let Effect::Generate { event, zeros, .. } = effect
                && let Some(to) = &model.events[event.as_u32() as usize]
                && let Some(link) = to.from.get(stage_number).and_then(Option::as_ref)
            {
                player.cycles += link.send_cycles - link.saved(*zeros);
            }
        }
        self.segments.push(Segment { processor_ps: player.take(), access: None });
    }

    /// Time from start to end with nobody else around.
    pub fn total_ps(&self) -> u64 {
        let one = |s: &Segment| s.processor_ps + s.access.map_or(0, |access| access.latency_ps);
        self.segments.iter().map(one).sum()
    }

    fn entry(&mut self, player: &mut Player, table: TableId, key: Option<u32>, write: bool) {
        let Some(price) = &player.stage.tables[table.as_u32() as usize] else { return };
        // Without a key it is the table's last one, which was looked for already.
        let known = match key {
            Some(key) => self.seen.contains(&(table, key)).then_some(key),
            None => self.last_key(table),
        };
        let key = known.or(key).unwrap_or(0);
        if known.is_none() {
            self.seen.push((table, key));
            // The second access with one key finds the entry where the first one did.
            player.cycles += price.search;
        }
        let ps = if write { price.write_ps } else { price.read_ps };
        self.access(player, table, price, key, ps, price.operations);
    }

    fn last_key(&self, table: TableId) -> Option<u32> {
        self.seen.iter().rev().find(|(known, _)| *known == table).map(|(_, key)| *key)
    }

    /// Bytes moved between packet and byte string.
    fn buffer(&mut self, player: &mut Player, table: TableId, bytes: f64) {
        let Some(price) = &player.stage.tables[table.as_u32() as usize] else { return };
        if bytes > 0.0 {
            let key = self.last_key(table).unwrap_or(0);
            self.access(
                player,
                table,
                price,
                key,
                price.byte_ps * bytes,
                price.byte_operations * bytes,
            );
        }
    }

    fn access(
        &mut self,
        player: &mut Player,
        table: TableId,
        price: &TablePrice,
        key: u32,
        ps: f64,
        operations: f64,
    ) {
        let gated = player.stage.gated[table.as_u32() as usize];
        let server = player.servers[price.memory].filter(|_| operations > 0.0);
        let alone = player.stage.threads == 1;
        if !gated && server.is_none() && (alone || price.blocking) {
            // Nobody sees where processing ends and waiting begins.
            player.wait_ps += ps;
            return;
        }
        if !price.blocking {
            player.cycles += player.stage.switch_cycles;
        }
        let key = if player.stage.whole[table.as_u32() as usize] { 0 } else { key };
        let gate = if gated {
            self.hold(u64::from(table.as_u32()) << 32 | u64::from(key))
        } else {
            NO_GATE
        };
        let access = Access {
            latency_ps: rounded(ps),
            server,
            operations: operations as f32,
            gate,
            blocking: price.blocking,
        };
        self.segments.push(Segment { processor_ps: player.take(), access: Some(access) });
    }

    /// An op that an accelerator does while the thread waits.
    fn accelerated(&mut self, player: &mut Player, price: &ServedPrice, busy_ns: f64, server: u32) {
        player.cycles += price.issue_cycles + player.stage.switch_cycles;
        let access = Access {
            latency_ps: rounded((price.latency_ns + busy_ns) * 1e3),
            server: Some(server),
            operations: busy_ns as f32,
            gate: NO_GATE,
            blocking: false,
        };
        self.segments.push(Segment { processor_ps: player.take(), access: Some(access) });
    }

    /// The hold on an entry, which the segment about to be made uses.
    fn hold(&mut self, key: u64) -> u8 {
        let segment = self.segments.len() as u32;
        match self.holds.iter().position(|hold| hold.key == key) {
            Some(at) => {
                self.holds[at].last = segment;
                at as u8
            }
            // More entries than a gate can name are let through.
            None if self.holds.len() >= usize::from(NO_GATE) => NO_GATE,
            None => {
                self.holds.push(Hold { key, blocked: false, last: segment, next: None });
                self.holds.len() as u8 - 1
            }
        }
    }

    /// Packets that are in what this event has not sent on yet.
    pub fn packets(&self) -> u64 {
        let packet = |effect: &&Effect| {
            matches!(
                effect,
                Effect::Generate { bytes: Some(_), .. }
                    | Effect::Send { .. }
                    | Effect::Drop { .. }
                    | Effect::NoRoom
                    | Effect::Stack { .. }
                    | Effect::Host { .. }
            )
        };
        self.effects[self.done as usize..].iter().filter(packet).count() as u64
    }
}

/// A player, with sums since the last segment.
struct Player<'a> {
    stage: &'a StageModel,
    servers: &'a [Option<u32>],
    cycles: f64,
    wait_ps: f64,
}

impl Player<'_> {
    fn take(&mut self) -> u64 {
        let ps = self.cycles * self.stage.cycle_ps + self.wait_ps;
        (self.cycles, self.wait_ps) = (0.0, 0.0);
        rounded(ps)
    }
}

/// To the nearest number; `f64::round` is a function call on processors of the common kind.
fn rounded(ps: f64) -> u64 {
    (ps + 0.5) as u64
}
