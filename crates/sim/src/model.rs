//! A plan on a target as a network of queues and servers: everything that does not change while it
//! is simulated.

use nicforge_ir::critical;
use nicforge_ir::{Direction, EventId, HandlerId, Op, Program};
use nicforge_plan::{Edge, Plan, Replication, Stage};
use nicforge_target::{Device, LinkKind, Scope, Target, cost};

use crate::handlers::Line;
use crate::price::{self, LinePrice, TablePrice};
use crate::steer::Steer;

/// Why a plan cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    #[error("the plan has no stage for the handler `{0}`; plan the program again")]
    NoStage(String),
    #[error("stage `{stage}`: the target has no units `{group}`")]
    NoGroup { stage: String, group: String },
    #[error("table `{table}`: the target has no memory `{memory}`")]
    NoMemory { table: String, memory: String },
    #[error(
        "stage `{from}` sends `{event}` to `{to}`, but there is no link from `{from_group}` to `{to_group}`"
    )]
    NoLink { from: String, to: String, event: String, from_group: String, to_group: String },
    #[error("edge `{event}`: {reason}")]
    Steering { event: String, reason: String },
    #[error("the program takes no frames: it has no handler for `net_recv`")]
    NoFrames,
    #[error("event {number} of the workload, at {at_ns} ns: {reason}")]
    Handler { number: u64, at_ns: u64, reason: String },
}

/// A stage and its units.
pub struct StageModel {
    pub name: String,
    pub group: usize,
    pub device: Device,
    /// The first of its units, and how many it has.
    pub first_unit: usize,
    pub replicas: u32,
    pub threads: u32,
    pub cycle_ps: f64,
    pub switch_cycles: f64,
    /// Hardware pipelines: picoseconds between events of one replica, whatever they do.
    pub interval_ps: Option<u64>,
    /// Cycles of generated locks per event.
    pub lock_cycles: f64,
    /// By table.
    pub tables: Vec<Option<TablePrice>>,
    /// By table: an event that uses an entry waits for the event that used it before.
    pub gated: Vec<bool>,
    /// By table number: one lock keeps events from all of its entries.
    pub whole: Vec<bool>,
    /// Events its queues hold.
    pub depth: u32,
    /// Threads, and the places of a hardware pipeline, hand on what they made in the order in which
    /// they took up events.
    pub in_turn: bool,
}

/// A unit: one processor or pipeline.
pub struct UnitModel {
    pub stage: usize,
    /// Server of each memory of the target, or none where it has no limit.
    pub servers: Vec<Option<u32>>,
}

/// An event between stages, or from the ports.
pub struct EventModel {
    pub stage: usize,
    pub steer: Steer,
    /// Cycles of the receiver per event.
    pub receive_cycles: f64,
    /// By sending stage; nothing for a stage's events to itself.
    pub from: Vec<Option<LinkModel>>,
    /// Index of the reorder point in front of the stage.
    pub reorder: Option<usize>,
}

/// Costs of an event on its way.
#[derive(Clone, Debug)]
pub struct LinkModel {
    pub send_cycles: f64,
    /// Of the receiver, besides those that do not depend on the sender.
    pub receive_cycles: f64,
    pub latency_ps: u64,
    /// A full queue loses events; otherwise the sender waits.
    pub lossy: bool,
    /// Crosses the host link, with so many bytes besides the packet.
    pub crosses: Option<(Crossing, u32)>,
    /// Cycles of either end for a byte that crosses.
    byte_cycles: f64,
}

impl LinkModel {
    /// Cycles that either end is spared, since so many zeros at the ends of byte strings do not
    /// cross.
    pub fn saved(&self, zeros: u32) -> f64 {
        if self.crosses.is_some() { self.byte_cycles * f64::from(zeros) } else { 0.0 }
    }
}

/// Ways across the host link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crossing {
    ToHost,
    ToNic,
}

/// What serves one after the other: an instance of a memory of limited bandwidth, or the
/// accelerators of one name.
pub struct ServerModel {
    pub serves: Serves,
    pub operation_ps: f64,
    /// Operations that may wait before who asks stands still.
    pub queue: Option<u32>,
}

/// By number in the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    Memory(usize),
    Accelerator(usize),
}

/// Order restored in front of a stage.
pub struct ReorderModel {
    pub stage: usize,
}

/// All of it.
pub struct Model {
    pub stages: Vec<StageModel>,
    pub units: Vec<UnitModel>,
    pub servers: Vec<ServerModel>,
    /// Server of each accelerator of the target.
    pub accelerators: Vec<u32>,
    pub lines: Vec<LinePrice>,
    /// By event.
    pub events: Vec<Option<EventModel>>,
    pub reorders: Vec<ReorderModel>,
    pub entry: EventId,
    pub ports: PortsModel,
    pub host_link: Option<HostLinkModel>,
}

/// Ports, in picoseconds.
pub struct PortsModel {
    pub count: usize,
    pub bit_ps: f64,
    pub overhead_bytes: u32,
    pub min_frame: u32,
    /// Between any two frames that come in.
    pub frame_ps: Option<f64>,
}

pub struct HostLinkModel {
    pub bit_ps: f64,
    pub latency_ps: u64,
}

/// Events that a queue drops when full: the kernel's do, rings of programs and hardware make the
/// sender wait.
fn lossy(kind: LinkKind) -> bool {
    matches!(kind, LinkKind::Cpumap | LinkKind::AfXdp | LinkKind::Ringbuf)
}

/// Tables that handlers write other than by commutative ops.
fn mutable(program: &Program) -> Vec<bool> {
    let mut found = vec![false; program.tables.len()];
    for handler in program.handlers.values() {
        handler.body.for_each_inst(handler.body.entry(), &mut |inst| {
            let effects = handler.body.insts[inst].op.effects();
            if let Some(table) = effects.table_write.filter(|_| !effects.commutes) {
                found[table.as_u32() as usize] = true;
            }
        });
    }
    found
}

/// Picoseconds between events of one replica of hardware: what the plan says its generator found,
/// and never less than the target's interval.
fn between_ps(interval_ps: f64, stage: &Stage) -> u64 {
    let planned =
        if stage.rate_pps > 0.0 { 1e12 * f64::from(stage.replicas) / stage.rate_pps } else { 0.0 };
    interval_ps.max(planned).round() as u64
}

impl Model {
    /// Puts a plan's program on a target. `lines` are the handlers'; `receive_depth` is how many
    /// frames wait in front of each unit of the first stage.
    pub fn new(
        target: &Target,
        plan: &Plan,
        program: &Program,
        lines: &[Line],
        receive_depth: u32,
    ) -> Result<Model, SimError> {
        let stage_of = |handler: &str| {
            plan.stages.iter().position(|s| s.handlers.iter().any(|h| h == handler))
        };
        let groups = groups(target, plan)?;
        let written = mutable(program);
        let entry = program.event_named("net_recv").filter(|e| program.handler_of(*e).is_some());
        let entry = entry.ok_or(SimError::NoFrames)?;
        let mut model = Model {
            stages: Vec::new(),
            units: Vec::new(),
            servers: Vec::new(),
            accelerators: Vec::new(),
            lines: Vec::new(),
            events: Vec::new(),
            reorders: Vec::new(),
            entry,
            ports: ports(target, program),
            host_link: target.host_link.as_ref().map(|link| HostLinkModel {
                bit_ps: 1e12 / link.rate.value,
                latency_ps: (link.latency.value * 1e3) as u64,
            }),
        };
        for (s, stage) in plan.stages.iter().enumerate() {
            let stage =
                model.stage(target, plan, program, stage, groups[s], &written, receive_depth)?;
            model.stages.push(stage);
        }
        model.units(target, plan);
        for line in lines {
            let name = &program.handlers[line.handler].name;
            let stage = stage_of(name).ok_or_else(|| SimError::NoStage(name.clone()))?;
            let group = &target.units[groups[stage]];
            model.lines.push(LinePrice::new(program, line, target, group));
        }
        for (event, data) in &program.events {
            let handler = program.handler_of(event).filter(|_| data.direction != Direction::Out);
            let Some(handler) = handler else {
                model.events.push(None);
                continue;
            };
            let name = &program.handlers[handler].name;
            let to = stage_of(name).ok_or_else(|| SimError::NoStage(name.clone()))?;
            let event = model.event(target, plan, program, event, to)?;
            model.events.push(Some(event));
        }
        Ok(model)
    }

    #[allow(clippy::too_many_arguments)]
    fn stage(
        &self,
        target: &Target,
        plan: &Plan,
        program: &Program,
        stage: &Stage,
        group: usize,
        written: &[bool],
        receive_depth: u32,
    ) -> Result<StageModel, SimError> {
        let unit = &target.units[group];
        let mut tables = vec![None; program.tables.len()];
        for (table, def) in &program.tables {
            if !stage.tables.contains(&def.name) {
                continue;
            }
            let Some(placed) = plan.tables.iter().find(|t| t.name == def.name) else { continue };
            let memory = target.memories.iter().position(|m| m.name == placed.memory);
            let memory = memory.ok_or_else(|| SimError::NoMemory {
                table: def.name.clone(),
                memory: placed.memory.clone(),
            })?;
            let price = TablePrice::new(program, table, memory, target, unit);
            tables[table.as_u32() as usize] = Some(price);
        }
        let own_written: Vec<bool> = tables
            .iter()
            .zip(written)
            .map(|(price, written)| price.is_some() && *written)
            .collect();
        let updates = own_written.iter().any(|w| *w);
        let named = program.handlers.iter().filter(|(_, h)| stage.handlers.contains(&h.name));
        let ids: Vec<HandlerId> = named.map(|(id, _)| id).collect();
        let locked = matches!(stage.replication, Replication::Locked { .. });
        let locked_whole = if locked { critical::locked_whole(program, &ids) } else { Vec::new() };
        let lock_cycles = match &target.locks {
            Some(locks) if locked => {
                let mutable =
                    plan.tables.iter().filter(|t| stage.tables.contains(&t.name) && !t.read_only);
                let price = |name: &String| {
                    let by_entry = program
                        .table_named(name)
                        .is_some_and(|table| !locked_whole.contains(&table));
                    let more = f64::from(stage.replicas - 1);
                    let more = if by_entry { cost::elsewhere(stage.replicas) } else { more };
                    locks.cycles + locks.contention_cycles * more
                };
                mutable.map(|table| price(&table.name)).sum()
            }
            _ => 0.0,
        };
        // Where one thread takes one event after the other nobody else can be at an entry.
        let pipeline = unit.initiation_interval.is_some();
        let gates = !pipeline && (unit.threads > 1 || locked);
        let interval = match (unit.initiation_interval, unit.update_interval) {
            (Some(_), Some(update)) if updates => Some(update),
            (interval, _) => interval,
        };
        let from_ports = stage.handlers.iter().any(|name| {
            let handler = program.handlers.values().find(|h| &h.name == name);
            handler.is_some_and(|h| program.events[h.event].direction == Direction::In)
        });
        let handler = |name: &String| program.handlers.values().find(|h| &h.name == name);
        let unordered = stage.handlers.iter().filter_map(handler).all(|handler| handler.unordered);
        let links = target.links.iter().filter(|link| link.to == unit.name);
        let link_depth = links.map(|link| link.depth).min().unwrap_or(receive_depth);
        Ok(StageModel {
            name: stage.name.clone(),
            group,
            device: unit.device,
            first_unit: 0,
            replicas: stage.replicas,
            threads: unit.threads.max(1),
            cycle_ps: price::cycle_ps(unit),
            switch_cycles: if unit.threads > 1 { unit.switch_cycles } else { 0.0 },
            interval_ps: interval.map(|cycles| between_ps(cycles * price::cycle_ps(unit), stage)),
            lock_cycles,
            tables,
            gated: own_written.iter().map(|written| *written && gates).collect(),
            whole: program.tables.keys().map(|table| locked_whole.contains(&table)).collect(),
            depth: if from_ports { receive_depth } else { link_depth },
            in_turn: pipeline || (unit.threads > 1 && !unordered && written.contains(&true)),
        })
    }

    /// Units with the memories they reach: an instance per unit, per island or for all.
    fn units(&mut self, target: &Target, plan: &Plan) {
        for (at, accelerator) in target.accelerators.iter().enumerate() {
            self.accelerators.push(self.servers.len() as u32);
            // Its operations are nanoseconds of work, which as many as there are share.
            self.servers.push(ServerModel {
                serves: Serves::Accelerator(at),
                operation_ps: 1e3 / f64::from(accelerator.count),
                queue: Some(accelerator.queue),
            });
        }
        let first = self.servers.len();
        let mut known: Vec<(usize, usize, u32)> = Vec::new();
        for (s, stage) in plan.stages.iter().enumerate() {
            let group = self.stages[s].group;
            let spec = &target.units[group];
            let per_island = spec.per_island.unwrap_or(spec.count).max(1);
            self.stages[s].first_unit = self.units.len();
            for replica in 0..stage.replicas {
                let name = stage.units.get(replica as usize);
                let number =
                    name.and_then(|unit| unit.rsplit('.').next()?.parse().ok()).unwrap_or(replica);
                let mut servers = Vec::new();
                for (m, memory) in target.memories.iter().enumerate() {
                    let Some(rate) = memory.operations.filter(|_| memory.device == spec.device)
                    else {
                        servers.push(None);
                        continue;
                    };
                    let (owner, instance) = match memory.scope {
                        Scope::Unit => (group, number),
                        Scope::Island => (group, number / per_island),
                        Scope::Device => (usize::MAX, 0),
                    };
                    let key = (m, owner, instance);
                    let at = known.iter().position(|k| *k == key).unwrap_or_else(|| {
                        known.push(key);
                        self.servers.push(ServerModel {
                            serves: Serves::Memory(m),
                            operation_ps: 1e12 / rate.value,
                            queue: None,
                        });
                        known.len() - 1
                    });
                    servers.push(Some((first + at) as u32));
                }
                self.units.push(UnitModel { stage: s, servers });
            }
        }
    }

    fn event(
        &mut self,
        target: &Target,
        plan: &Plan,
        program: &Program,
        event: EventId,
        to: usize,
    ) -> Result<EventModel, SimError> {
        let data = &program.events[event];
        let spec = &target.units[self.stages[to].group];
        let costs = &target.costs[&spec.costs];
        let edge = plan
            .edges
            .iter()
            .find(|edge| edge.event == data.name && edge.to == plan.stages[to].name);
        let fail = |reason: String| SimError::Steering { event: data.name.clone(), reason };
        let steer = edge.map_or(Ok(Steer::One), |edge| Steer::new(&edge.steering)).map_err(fail)?;
        // Ticks come beside what packets lead to, whatever replicas there are.
        let ticks = program.timers().next().is_some();
        if data.direction == Direction::In {
            // What comes from outside waits where events that came before it may be on longer ways.
            let name = &plan.stages[to].name;
            let ordered = ticks && plan.edges.iter().any(|e| &e.to == name && e.reorder.is_some());
            let reorder = ordered.then(|| self.reorder_point(to));
            let by_key = matches!(steer, Steer::Header(_) | Steer::Rss(_));
            let receive_cycles = costs.receive + if by_key { target.spread.cycles } else { 0.0 };
            return Ok(EventModel { stage: to, steer, receive_cycles, from: Vec::new(), reorder });
        }
        let mut reorder = None;
        let bytes: u32 = data.params.iter().map(|param| program.size_of(param.ty)).sum();
        let mut from = Vec::new();
        for (s, stage) in plan.stages.iter().enumerate() {
            if s == to || !sends(program, stage, event) {
                from.push(None);
                continue;
            }
            let sender = &target.units[self.stages[s].group];
            let link =
                target.links.iter().find(|link| link.from == sender.name && link.to == spec.name);
            let link = link.ok_or_else(|| SimError::NoLink {
                from: stage.name.clone(),
                to: plan.stages[to].name.clone(),
                event: data.name.clone(),
                from_group: sender.name.clone(),
                to_group: spec.name.clone(),
            })?;
            let ordered =
                edge.is_some_and(|edge| edge.reorder.is_some()) && (stage.replicas > 1 || ticks);
            if ordered {
                reorder = Some(self.reorder_point(to));
            }
            let copied =
                |of: fn(&Edge) -> u32| link.byte_cycles * edge.map_or(0.0, |edge| of(edge).into());
            let crosses = match (sender.device, spec.device) {
                (Device::Nic, Device::Host) => Some((Crossing::ToHost, bytes)),
                (Device::Host, Device::Nic) => Some((Crossing::ToNic, bytes)),
                _ => None,
            };
            from.push(Some(LinkModel {
                send_cycles: link.send_cycles + copied(Edge::sent_bytes),
                receive_cycles: link.receive_cycles
                    + copied(Edge::received_bytes)
                    + link.incast_cycles * f64::from(stage.replicas - 1)
                    + if ordered { link.reorder_cycles } else { 0.0 },
                latency_ps: (link.latency.value * 1e3) as u64,
                // A sender that comes later in the plan would wait for itself.
                lossy: lossy(link.kind),
                crosses,
                byte_cycles: link.byte_cycles,
            }));
            // One ring per sender is polled, each as deep.
            if link.incast_cycles > 0.0 {
                self.stages[to].depth = self.stages[to].depth.max(link.depth * stage.replicas);
            }
        }
        Ok(EventModel { stage: to, steer, receive_cycles: 0.0, from, reorder })
    }

    /// Number of the reorder point in front of a stage.
    fn reorder_point(&mut self, stage: usize) -> usize {
        let known = self.reorders.iter().position(|point| point.stage == stage);
        known.unwrap_or_else(|| {
            self.reorders.push(ReorderModel { stage });
            self.reorders.len() - 1
        })
    }
}

fn groups(target: &Target, plan: &Plan) -> Result<Vec<usize>, SimError> {
    let find = |stage: &Stage| {
        let fail = || SimError::NoGroup { stage: stage.name.clone(), group: stage.group.clone() };
        target.units.iter().position(|group| group.name == stage.group).ok_or_else(fail)
    };
    plan.stages.iter().map(find).collect()
}

fn sends(program: &Program, stage: &Stage, event: EventId) -> bool {
    let handlers = program.handlers.values().filter(|h| stage.handlers.contains(&h.name));
    let mut found = false;
    for handler in handlers {
        handler.body.for_each_inst(handler.body.entry(), &mut |inst| {
            found |= matches!(&handler.body.insts[inst].op, Op::Generate { event: e, .. } if *e == event);
        });
    }
    found
}

fn ports(target: &Target, program: &Program) -> PortsModel {
    PortsModel {
        count: target.ports.count.max(program.ports) as usize,
        bit_ps: 1e12 / target.ports.rate.value,
        overhead_bytes: target.ports.overhead_bytes,
        min_frame: target.ports.min_frame,
        frame_ps: target.ports.packet_rate.map(|rate| 1e12 / rate.value),
    }
}

impl PortsModel {
    /// Picoseconds of a frame on the wire of a port.
    pub fn wire_ps(&self, frame_bytes: u32) -> u64 {
        let bytes = frame_bytes.max(self.min_frame) + self.overhead_bytes;
        (f64::from(bytes) * 8.0 * self.bit_ps).round() as u64
    }
}
