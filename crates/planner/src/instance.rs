//! A cut program on a target, as numbers for [`mapping`](crate::mapping).

use std::collections::BTreeMap;

use nicforge_ir::critical;
use nicforge_ir::{
    Body, Direction, Event, Handler, HandlerId, InstId, Program, Side, Table, TableId, TableKind,
};
use nicforge_target::accelerate;
use nicforge_target::cost::{self, HandlerCost, Traffic};
use nicforge_target::{Device, Generator, OpCosts, TableLayout, Target, UnitGroup};

use crate::ability::Ability;
use crate::mapping::{Edge, Instance, LinkCost, StageNeed, TableNeed, UnitCost};
use crate::shard::Steer;
use crate::stages::calls_c;
use crate::tables;
use crate::{skew, steer};

/// Options of planning.
#[derive(Clone, Debug, Default)]
pub struct Config {
    pub traffic: Traffic,
    /// Cores of the host that may be used, where the target is a NIC.
    pub host_cores: u32,
    /// Table name to memory name.
    pub pin_tables: BTreeMap<String, String>,
    /// Handler name to the greatest number of replicas.
    pub pin_replicas: BTreeMap<String, u32>,
    pub context: ContextUse,
    /// Keys are taken to spread evenly over replicas, whatever the hash: `traffic.flows` then only
    /// limits how many are of use.
    pub evenly: bool,
    pub optimisations: Optimisations,
}

/// Uses that plans make of the memory that stays with a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContextUse {
    /// Everything is copied with events.
    None,
    /// Values have bytes of their own.
    Own,
    /// Values that never meet share bytes.
    #[default]
    Shared,
}

/// Changes that the search makes to its stages, to be switched off one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Optimisations {
    /// Simplifying passes across each cut.
    pub clean: bool,
    /// Events go without the packet behind what was done with it.
    pub without_packet: bool,
    /// Headers are read again downstream instead of carried, where that is cheaper.
    pub reread: bool,
}

impl Default for Optimisations {
    fn default() -> Optimisations {
        Optimisations { clean: true, without_packet: true, reread: true }
    }
}

/// Frames per second that all ports a program uses take together.
pub fn line_rate(target: &Target, ports: u32, traffic: Traffic) -> f64 {
    let frame =
        f64::from(traffic.frame_bytes.max(target.ports.min_frame) + target.ports.overhead_bytes);
    // What comes in by one port is what one port can carry away again.
    let used = f64::from(ports.min(target.ports.count).div_ceil(2));
    let rate = used * target.ports.rate.value / (8.0 * frame);
    target.ports.packet_rate.map_or(rate, |most| rate.min(most.value))
}

/// The unit groups of a target that may be used.
pub fn groups(target: &Target, config: &Config) -> Vec<UnitGroup> {
    let primary = target.units[0].device;
    let mut groups = target.units.clone();
    for group in &mut groups {
        if group.device != primary {
            group.count = group.count.min(config.host_cores);
        }
    }
    groups
}

/// Expected cost of every handler on every group.
pub fn handler_costs(
    program: &Program,
    groups: &[UnitGroup],
    target: &Target,
    traffic: Traffic,
) -> Vec<Vec<HandlerCost>> {
    program
        .handlers
        .keys()
        .map(|handler| {
            groups
                .iter()
                .map(|group| cost::handler_cost_on(program, handler, target, group, traffic))
                .collect()
        })
        .collect()
}

/// Events of every handler per packet that enters. Events that come from elsewhere than the network
/// are taken to be as frequent as packets, but for timers, whose packets come at `pps` a second.
pub fn handler_weights(program: &Program, costs: &[Vec<HandlerCost>], pps: f64) -> Vec<f64> {
    let mut weights: Vec<f64> = program
        .handlers
        .values()
        .map(|handler| match &program.events[handler.event] {
            Event { period: Some(period), .. } => 1e9 / *period as f64 / pps,
            Event { direction: Direction::In, .. } => 1.0,
            _ => 0.0,
        })
        .collect();
    // The graph has no cycles that matter: as many rounds as handlers reach everything.
    for _ in 0..program.handlers.len() {
        let mut next: Vec<f64> = weights.clone();
        for (handler, data) in program.handlers.iter() {
            if program.events[data.event].direction == Direction::Internal {
                next[handler.as_u32() as usize] = program
                    .handlers
                    .keys()
                    .map(|sender| {
                        let sent = costs[sender.as_u32() as usize]
                            .first()
                            .map_or(&[][..], |cost| &cost.generates);
                        let rate: f64 =
                            sent.iter().filter(|(e, _)| *e == data.event).map(|(_, r)| r).sum();
                        weights[sender.as_u32() as usize] * rate
                    })
                    .sum();
            }
        }
        weights = next;
    }
    // A branch thought never taken still has to be mapped; how often timers fire is known.
    let least = |handler: &Handler| match program.events[handler.event].period {
        Some(_) => 0.0,
        None => 1e-3,
    };
    let handlers = program.handlers.values().zip(weights);
    handlers.map(|(handler, weight)| weight.max(least(handler))).collect()
}

/// Packets of the usual size that all ports bring at most, in a second.
fn most_packets(target: &Target, traffic: Traffic) -> f64 {
    let bits = 8.0 * f64::from(traffic.frame_bytes + target.ports.overhead_bytes);
    f64::from(target.ports.count) * target.ports.rate.value / bits
}

/// The instance.
pub fn instance(
    program: &Program,
    target: &Target,
    config: &Config,
    stages: &[Vec<HandlerId>],
    steers: &[Steer],
) -> Instance {
    let mut groups = groups(target, config);
    let on_host = |h: &HandlerId| program.handlers[*h].side == Some(Side::Host);
    let pinned = stages.iter().filter(|stage| stage.iter().any(on_host)).count() as u32;
    for (group, spec) in groups.iter_mut().zip(&target.units) {
        // What must run on the host finds a core there, whatever else the plan may have.
        if group.device == Device::Host {
            group.count = group.count.max(pinned.min(spec.count));
        }
    }
    // A design has one pipe, or an engine for each of its stages. Whether handlers are engines
    // instead, of which there may be several, their generator says afterwards.
    for group in groups.iter_mut().filter(|group| group.codegen == Generator::Rtl) {
        group.count = group.count.min(stages.len() as u32);
    }
    let groups = groups;
    let costs = handler_costs(program, &groups, target, config.traffic);
    let weights = handler_weights(program, &costs, most_packets(target, config.traffic));
    let read_only = tables::read_only(program);
    let mutable = tables::mutable(program);
    let of = |handler: HandlerId| handler.as_u32() as usize;
    let flows = config.traffic.flows.max(1);
    let largest = groups.iter().map(|group| group.count).max().unwrap_or(1);
    let worth = |steer: &Steer| match steer.instances {
        _ if steer.by.is_empty() => Vec::new(),
        Some(instances) => skew::worth_of_ranges(instances, largest),
        None if config.evenly => Vec::new(),
        None => skew::worth(flows.min(steer::distinct(&steer.by)), largest),
    };
    let stage_of =
        |handler: HandlerId| stages.iter().position(|handlers| handlers.contains(&handler));
    let needs: Vec<StageNeed> = stages
        .iter()
        .zip(steers)
        .map(|(handlers, steer)| {
            let weight = handlers.iter().map(|h| weights[of(*h)]).fold(0.0, f64::max);
            let share = |h: HandlerId| weights[of(h)] / weight;
            let per_group = groups.iter().enumerate().map(|(g, group)| {
                let allowed =
                    handlers.iter().all(|h| may_run(program, *h, target, group)) && group.count > 0;
                allowed.then(|| {
                    let prices = &target.costs[&group.costs];
                    let (mut cycles, mut wait_ns, mut waits) = (0.0, 0.0, 0.0);
                    for handler in handlers {
                        let data = &program.handlers[*handler];
                        let event = &program.events[data.event];
                        let mut own = costs[of(*handler)][g].cycles;
                        if event.direction == Direction::In {
                            own += prices.receive;
                            if !steer.by.is_empty() && steer.most > 1 {
                                own += target.spread.cycles;
                            }
                        }
                        for (event, rate) in &costs[of(*handler)][g].generates {
                            let to =
                                program.handler_of(*event).and_then(|to| Some((to, stage_of(to)?)));
                            own += to.map_or(0.0, |(handler, to)| {
                                rate * steering_cycles(&steers[to], handler, prices)
                            });
                        }
                        cycles += own * share(*handler);
                        wait_ns += costs[of(*handler)][g].wait_ns * share(*handler);
                        waits += costs[of(*handler)][g].waits * share(*handler);
                    }
                    let updates = handlers.iter().any(|h| {
                        !tables::of_handler(program, *h).iter().all(|t| !mutable.contains(t))
                    });
                    UnitCost { cycles, updates, wait_ns, waits }
                })
            });
            let cost: Vec<Option<UnitCost>> = per_group.collect();
            let first = cost.iter().position(Option::is_some).unwrap_or(0);
            let mut uses = Vec::new();
            for handler in handlers {
                for access in &costs[of(*handler)][first].accesses {
                    let mut access = *access;
                    access.reads *= share(*handler);
                    access.writes *= share(*handler);
                    access.buffer_bytes *= share(*handler);
                    access.search_cycles *= share(*handler);
                    access.searches *= share(*handler);
                    uses.push((access.table.as_u32() as usize, access));
                }
            }
            let pinned = handlers
                .iter()
                .filter_map(|h| config.pin_replicas.get(&program.handlers[*h].name))
                .min();
            // A flow stays with one replica.
            let by_flows = match steer.ability {
                Ability::Sharded(_) | Ability::Meeting(_) => flows,
                _ => u32::MAX,
            };
            // Threads of the host are what a program asks for; units of a NIC are what it may use.
            let instances = handlers.iter().map(|h| &program.handlers[*h]).filter_map(|handler| {
                handler.max_replicas.filter(|_| handler.side == Some(Side::Host))
            });
            let unordered = handlers.iter().all(|h| program.handlers[*h].unordered);
            let locked_whole = critical::locked_whole(program, handlers);
            let served = |g: usize| {
                let mut list = Vec::new();
                for handler in handlers {
                    let own = costs[of(*handler)][g].served.iter();
                    list.extend(
                        own.map(|(accelerator, seconds)| (*accelerator, seconds * share(*handler))),
                    );
                }
                list
            };
            StageNeed {
                served: (0..groups.len()).map(served).collect(),
                cost,
                weight,
                asked_replicas: instances.min().unwrap_or(1),
                max_replicas: steer.most.min(pinned.copied().unwrap_or(u32::MAX)).min(by_flows),
                worth: worth(steer),
                flows: f64::from(flows),
                // Locks keep tables whole but not arrival order.
                lockable: unordered
                    && matches!(steer.ability, Ability::Single(_))
                    && pinned.is_none()
                    && handlers.iter().all(|h| calls_c(program, *h).is_none()),
                by_entry: program
                    .tables
                    .keys()
                    .filter(|table| !locked_whole.contains(table))
                    .map(|table| table.as_u32() as usize)
                    .collect(),
                uses,
            }
        })
        .collect();
    Instance {
        tables: program
            .tables
            .keys()
            .map(|table| table_need(program, table, target, config, &read_only, &mutable))
            .collect(),
        edges: edges(program, stages, steers, &weights, &costs, config.traffic),
        links: links(target, &groups),
        host_link: target.host_link.as_ref().map_or(f64::INFINITY, |link| link.rate.value),
        stages: needs,
        memories: target.memories.clone(),
        locks: target.locks.clone(),
        accelerators: target.accelerators.iter().map(|accelerator| accelerator.count).collect(),
        ceiling: line_rate(target, program.ports, config.traffic),
        whole_shards: target.table_layout.is_some(),
        groups,
    }
}

/// Cycles of a sender for the number that steers one event to a replica. A receiver that may have
/// several is taken to have them.
fn steering_cycles(steer: &Steer, handler: HandlerId, prices: &OpCosts) -> f64 {
    let parts = if steer.most > 1 { steer.hashed(handler) } else { 0 };
    parts as f64 * (prices.field + prices.hash + prices.hash_byte * 8.0)
}

/// `NF_ON` decides; packets from the network are otherwise received where the ports are.
fn may_run(program: &Program, handler: HandlerId, target: &Target, group: &UnitGroup) -> bool {
    let primary = target.units[0].device;
    let data = &program.handlers[handler];
    match data.side {
        Some(Side::Nic) => group.device == primary,
        Some(Side::Host) => group.device == Device::Host,
        None => {
            program.events[data.event].direction == Direction::Internal || group.device == primary
        }
    }
}

fn table_need(
    program: &Program,
    table: TableId,
    target: &Target,
    config: &Config,
    read_only: &std::collections::BTreeSet<TableId>,
    mutable: &std::collections::BTreeSet<TableId>,
) -> TableNeed {
    let data = &program.tables[table];
    let pinned = config.pin_tables.get(&data.name);
    TableNeed {
        bytes: table_bytes(program, table, target),
        entries: data.capacity,
        read_only: read_only.contains(&table),
        commutative: !mutable.contains(&table) && !read_only.contains(&table),
        buffers: data.buf.is_some(),
        only: pinned
            .and_then(|name| target.memories.iter().position(|memory| &memory.name == name)),
    }
}

/// Bytes of a table with its index and lists.
fn laid_out(program: &Program, data: &Table, layout: &TableLayout) -> u64 {
    let round = |bytes: u32| u64::from(bytes.next_multiple_of(8));
    let (entries, key) = (u64::from(data.capacity), program.size_of(data.key));
    let value = program.size_of(data.value);
    let value = match data.buf {
        // A length, and the bytes behind it.
        Some(most) => round(value) + round(4 + most),
        None => round(value),
    };
    let slots = u64::from(layout.slot) * (2 * entries).next_power_of_two().max(8);
    let keyed = |key: u32| u64::from(layout.entry) + round(key) + value;
    let list = |many: u64| 4 * many;
    u64::from(layout.table)
        + match data.kind {
            TableKind::Array => entries * value,
            TableKind::Hash => entries * keyed(key) + slots,
            TableKind::Lru => entries * (keyed(key) + u64::from(layout.use_order)) + slots,
            TableKind::Lpm => entries * keyed(key + 2) + slots + 2 * list(8 * u64::from(key) + 1),
            TableKind::Ternary => entries * keyed(2 * key) + list(entries),
        }
}

/// Bytes of a table: entries times key, value and byte string, each aligned to 4, or as the target
/// lays tables out.
pub fn table_bytes(program: &Program, table: TableId, target: &Target) -> u64 {
    let data = &program.tables[table];
    if let Some(layout) = &target.table_layout {
        return laid_out(program, data, layout);
    }
    let key = match data.kind {
        TableKind::Array => 0,
        _ => program.size_of(data.key),
    };
    let entry = u64::from(key.next_multiple_of(4))
        + u64::from(program.size_of(data.value).next_multiple_of(4));
    u64::from(data.capacity) * (entry + u64::from(data.buf.unwrap_or(0)))
}

fn links(target: &Target, groups: &[UnitGroup]) -> Vec<Vec<Option<LinkCost>>> {
    let find = |from: &UnitGroup, to: &UnitGroup| {
        let link = target.links.iter().find(|link| link.from == from.name && link.to == to.name)?;
        Some(LinkCost {
            send: link.send_cycles,
            receive: link.receive_cycles,
            byte: link.byte_cycles,
            incast: link.incast_cycles,
            reorder: link.reorder_cycles,
            max_bytes: link.max_bytes.unwrap_or(u32::MAX),
        })
    };
    groups.iter().map(|from| groups.iter().map(|to| find(from, to)).collect()).collect()
}

fn edges(
    program: &Program,
    stages: &[Vec<HandlerId>],
    steers: &[Steer],
    weights: &[f64],
    costs: &[Vec<HandlerCost>],
    traffic: Traffic,
) -> Vec<Edge> {
    let stage_of =
        |handler: HandlerId| stages.iter().position(|handlers| handlers.contains(&handler));
    let mut list = Vec::new();
    for (handler, data) in program.handlers.iter() {
        let event = &program.events[data.event];
        let Some(to) = stage_of(handler).filter(|_| event.direction == Direction::Internal) else {
            continue;
        };
        for sender in program.handlers.keys() {
            let cost = &costs[sender.as_u32() as usize][0];
            let rate: f64 =
                cost.generates.iter().filter(|(e, _)| *e == data.event).map(|(_, r)| r).sum();
            let Some(from) = stage_of(sender).filter(|from| *from != to && rate > 0.0) else {
                continue;
            };
            let by = &steers[to];
            let steered = if by.most > 1 && by.hashed(handler) > 0 { steer::BYTES } else { 0 };
            let bytes =
                event.params.iter().map(|param| program.size_of(param.ty)).sum::<u32>() + steered;
            let has_packet = event.params.iter().any(|param| param.ty == nicforge_ir::Type::Packet);
            let sends = costs[handler.as_u32() as usize][0].sends;
            let packet =
                if has_packet { f64::from(traffic.frame_bytes) * (1.0 + sends) } else { 0.0 };
            let weight = weights[sender.as_u32() as usize] * rate;
            // No more than its strings have, whatever passes made of the event since it was
            // measured.
            let strings = event.params.iter().filter(|param| program.is_string(param.ty));
            let zeros = event.zeros.min(strings.map(|param| program.size_of(param.ty)).sum());
            let reorder = steers[to].reorder;
            list.push(Edge { from, to, weight, bytes, zeros, wire_bytes: packet, reorder });
        }
    }
    list
}

/// Cycles of an op with everything it accesses in the target's usual memory, for balancing cuts.
pub fn op_weight(
    program: &Program,
    body: &Body,
    inst: InstId,
    target: &Target,
    traffic: Traffic,
) -> f64 {
    let group = &target.units[0];
    let costs = &target.costs[&group.costs];
    let own = match accelerate::served(program, body, inst, target, group, traffic) {
        Some(one) => {
            one.issue_cycles + one.wait_ns * 1e-9 * group.clock.value / f64::from(group.threads)
        }
        None => cost::op_cycles(program, body, inst, costs, traffic),
    };
    let table = tables::table_of(&body.insts[inst].op).map_or(0.0, |_| {
        let memory = target.memories.iter().rfind(|memory| memory.device == group.device);
        let ns = memory.map_or(0.0, |memory| cost::access_time(memory, 16.0, false).0);
        costs.table + ns * 1e-9 * group.clock.value / f64::from(group.threads)
    });
    own + table
}
