//! What stages cost and reach under partial choices, and the counts of replicas that follow.

use super::*;

/// How many replicas of a stage have room for shards of its tables, each as large as the whole
/// table, beside all other tables.
fn shards(instance: &Instance, partial: &Partial, s: usize, group: &UnitGroup) -> u32 {
    let mut most = u32::MAX;
    for (m, memory) in instance.memories.iter().enumerate().filter(|(_, m)| m.scope != Scope::Unit)
    {
        let (mut own, mut others) = (0, 0);
        for (t, need) in
            instance.tables.iter().enumerate().filter(|(t, _)| partial.memories[*t] == Some(m))
        {
            let sharded =
                !need.read_only && instance.stages[s].uses.iter().any(|(used, _)| *used == t);
            *(if sharded { &mut own } else { &mut others }) += need.bytes;
        }
        if let Some(room) = (memory.size.value as u64).saturating_sub(others).checked_div(own) {
            let islands = match memory.scope {
                Scope::Island => {
                    (group.count / group.per_island.unwrap_or(group.count).max(1)).max(1)
                }
                Scope::Device | Scope::Unit => 1,
            };
            most = most.min(u32::try_from(room).unwrap_or(u32::MAX).saturating_mul(islands).max(1));
        }
    }
    most
}

/// Costs of the stages under partial choices; open tables cost what they would in their fastest
/// memory.
pub(super) struct View {
    loads: Vec<Load>,
    stages: Vec<Priced>,
    /// Operations per packet on each memory of device scope.
    operations: Vec<f64>,
    /// Seconds per packet of each accelerator.
    served: Vec<f64>,
    /// Bits per packet between NIC and host.
    wire_bits: f64,
}

/// Inputs from which a number of replicas is computed.
struct Priced {
    group: usize,
    clock: f64,
    weight: f64,
    cycles: f64,
    /// Cycles per event for every sender beyond the first, and the senders.
    incast: Vec<(f64, usize)>,
    /// Cycles per event for every further replica.
    contention: f64,
    /// Cycles where the lock of an entry was last used by another replica.
    wandering: f64,
    most: u32,
    asked: u32,
    /// Replicas per event rate that memories of smaller scope need: operations, rate of an
    /// instance, units per instance.
    near: Vec<(f64, f64, u32)>,
    /// By number of replicas, from 1.
    worth: Vec<f64>,
    /// Packets per second that entries in use allow.
    entries: f64,
}

/// What replicas under locks keep each other from: the accesses of all tables that an event holds
/// locks of.
struct Section {
    seconds: f64,
    /// Events that may be inside at a time.
    at_once: f64,
}

impl Default for Section {
    fn default() -> Section {
        Section { seconds: 0.0, at_once: f64::INFINITY }
    }
}

impl View {
    pub(super) fn new(instance: &Instance, partial: &Partial) -> Option<View> {
        let mut view = View {
            loads: Vec::new(),
            stages: Vec::new(),
            operations: vec![0.0; instance.memories.len()],
            served: vec![0.0; instance.accelerators.len()],
            wire_bits: 0.0,
        };
        for (s, stage) in instance.stages.iter().enumerate() {
            let g = partial.groups[s];
            let group = &instance.groups[g];
            let unit = stage.cost[g]?;
            let locked = partial.locked[s];
            let mut load = Load { cycles: unit.cycles, wait_ns: unit.wait_ns, waits: unit.waits };
            for (accelerator, seconds) in &stage.served[g] {
                view.served[*accelerator] += stage.weight * seconds;
            }
            let mut incast = Vec::new();
            for edge in &instance.edges {
                if edge.from != s && edge.to != s {
                    continue;
                }
                let link = instance.links[partial.groups[edge.from]][partial.groups[edge.to]]?;
                if edge.bytes > link.max_bytes {
                    return None;
                }
                let per_event = edge.weight / stage.weight;
                let ends =
                    [edge.from, edge.to].map(|stage| device(instance, partial.groups[stage]));
                let carried =
                    f64::from(edge.bytes - if ends[0] == ends[1] { 0 } else { edge.zeros });
                let bytes = link.byte * carried;
                if edge.from == s {
                    load.cycles += per_event * (link.send + bytes);
                } else {
                    let order = if edge.reorder { link.reorder } else { 0.0 };
                    load.cycles += per_event * (link.receive + bytes + order);
                    incast.push((per_event * link.incast, edge.from));
                    if ends[0] != ends[1] {
                        view.wire_bits += edge.weight * 8.0 * (edge.wire_bytes + carried);
                    }
                }
            }
            let mut near = Vec::new();
            let mut entries = f64::INFINITY;
            let mut section = Section::default();
            let waits = group.initiation_interval.is_none() && (group.threads > 1 || locked);
            let (mut locks, mut by_entry) = (0.0, 0.0);
            let mut most = if locked { group.count } else { stage.max_replicas.min(group.count) };
            for (table, access) in &stage.uses {
                let need = &instance.tables[*table];
                if !need.read_only {
                    let fine = stage.by_entry.contains(table);
                    *(if fine { &mut by_entry } else { &mut locks }) += 1.0;
                }
                let Some(m) = partial.memories[*table] else {
                    load = fastest(instance, group, load, access, need)?;
                    continue;
                };
                let memory = &instance.memories[m];
                load.add_access(group, memory, access);
                if locked && !need.read_only {
                    let one = access.one_entry || !stage.by_entry.contains(table);
                    let used = if one { 1.0 } else { stage.flows.min(f64::from(need.entries)) };
                    section.seconds += stage.weight * cost::held_seconds(group, memory, access);
                    section.at_once = section.at_once.min(used);
                } else if waits && !need.read_only && !need.commutative {
                    let held = stage.weight * cost::held_seconds(group, memory, access);
                    let used = if access.one_entry {
                        1.0
                    } else {
                        stage.flows.min(f64::from(need.entries))
                    };
                    if held > 0.0 {
                        entries = entries.min(used / held);
                    }
                }
                let operations = cost::memory_operations(memory, access);
                let per_island = group.per_island.unwrap_or(group.count);
                match (memory.scope, memory.operations) {
                    (Scope::Device, Some(_)) => view.operations[m] += stage.weight * operations,
                    (Scope::Island, Some(rate)) => near.push((operations, rate.value, per_island)),
                    (Scope::Unit, Some(rate)) => near.push((operations, rate.value, 1)),
                    (_, None) => {}
                }
                if locked && memory.scope == Scope::Island {
                    most = most.min(per_island);
                }
            }
            if instance.whole_shards && !locked {
                most = most.min(shards(instance, partial, s, group));
            }
            if section.seconds > 0.0 {
                entries = entries.min(section.at_once / section.seconds);
            }
            let price = instance.locks.as_ref().filter(|_| locked);
            if let Some(price) = price {
                load.cycles += (locks + by_entry) * price.cycles;
            }
            let cycles = match (group.initiation_interval, group.update_interval) {
                (Some(_), Some(update)) if unit.updates => update,
                (Some(interval), _) => interval,
                (None, _) => load.unit_cycles(group),
            };
            view.stages.push(Priced {
                group: g,
                clock: group.clock.value,
                weight: stage.weight,
                cycles,
                incast,
                contention: price.map_or(0.0, |price| locks * price.contention_cycles),
                wandering: price.map_or(0.0, |price| by_entry * price.contention_cycles),
                most,
                asked: stage.asked_replicas,
                near,
                worth: if locked { Vec::new() } else { stage.worth.clone() },
                entries,
            });
            view.loads.push(load);
        }
        Some(view)
    }

    /// Cycles per event of a stage with these counts.
    fn cycles(&self, s: usize, replicas: &[u32]) -> f64 {
        let stage = &self.stages[s];
        let incast = |(each, sender): &(f64, usize)| each * f64::from(replicas[*sender] - 1);
        stage.cycles
            + stage.incast.iter().map(incast).sum::<f64>()
            + stage.contention * f64::from(replicas[s] - 1)
            + stage.wandering * cost::elsewhere(replicas[s])
    }

    /// Packets per second a stage keeps up with.
    fn stage_rate(&self, s: usize, replicas: &[u32]) -> f64 {
        let stage = &self.stages[s];
        let n = replicas[s];
        let worth = stage.worth.get(n as usize - 1).copied().unwrap_or(f64::from(n));
        let cycles = self.cycles(s, replicas);
        let mut rate = if cycles > 0.0 {
            worth * stage.clock / (stage.weight * cycles)
        } else {
            f64::INFINITY
        };
        rate = rate.min(stage.entries);
        for (operations, per_second, units) in &stage.near {
            if *operations > 0.0 {
                let instances = f64::from(replicas[s].div_ceil(*units));
                rate = rate.min(instances * per_second / (stage.weight * operations));
            }
        }
        rate
    }

    fn memory_rate(&self, instance: &Instance, m: usize) -> f64 {
        match instance.memories[m].operations {
            Some(rate) if self.operations[m] > 0.0 => rate.value / self.operations[m],
            _ => f64::INFINITY,
        }
    }

    /// The rate of a vector of counts, the ports apart, and what limits it.
    fn rate(&self, instance: &Instance, replicas: &[u32]) -> (f64, Limit) {
        let mut best = (f64::INFINITY, Limit::Ports);
        for s in 0..self.stages.len() {
            let rate = self.stage_rate(s, replicas);
            if rate < best.0 {
                best = (rate, Limit::Stage(s));
            }
        }
        for m in 0..instance.memories.len() {
            let rate = self.memory_rate(instance, m);
            if rate < best.0 {
                best = (rate, Limit::Memory(m));
            }
        }
        for a in 0..instance.accelerators.len() {
            let rate = self.accelerator_rate(instance, a);
            if rate < best.0 {
                best = (rate, Limit::Accelerator(a));
            }
        }
        let link = self.link_rate(instance);
        if link < best.0 { (link, Limit::HostLink) } else { best }
    }

    fn accelerator_rate(&self, instance: &Instance, a: usize) -> f64 {
        if self.served[a] > 0.0 {
            f64::from(instance.accelerators[a]) / self.served[a]
        } else {
            f64::INFINITY
        }
    }

    fn link_rate(&self, instance: &Instance) -> f64 {
        if self.wire_bits > 0.0 { instance.host_link / self.wire_bits } else { f64::INFINITY }
    }

    /// The rate that no number of replicas changes.
    fn shared_rate(&self, instance: &Instance) -> f64 {
        let memories = (0..instance.memories.len()).map(|m| self.memory_rate(instance, m));
        let accelerators =
            (0..instance.accelerators.len()).map(|a| self.accelerator_rate(instance, a));
        memories.chain(accelerators).fold(self.link_rate(instance), f64::min)
    }

    /// The smallest counts that reach more than `rate` (or exactly it with `strict` off), if units
    /// suffice.
    fn least(&self, instance: &Instance, rate: f64, strict: bool) -> Option<Vec<u32>> {
        // A rate that differs by less than rounding is reached.
        let wanted = if strict { rate * (1.0 + 1e-9) } else { rate * (1.0 - 1e-9) };
        let mut replicas = vec![1; self.stages.len()];
        let mut taken = vec![0; self.stages.len()];
        let mut free: Vec<u32> = instance.groups.iter().map(|group| group.count).collect();
        // Replicas of a stage that sends back cost the stages before it, which were counted by
        // then: again, until none needs more.
        loop {
            let before = taken.clone();
            for s in 0..self.stages.len() {
                let stage = &self.stages[s];
                let most = stage.most.min(free[stage.group] + taken[s]);
                // Below this many it cannot be; contention only makes it more.
                let alone = stage.weight * self.cycles(s, &replicas) * wanted / stage.clock;
                let first = (alone.floor() as u32).clamp(1, stage.most.max(1));
                let first = first.max(stage.asked.min(most)).max(replicas[s]);
                let found = (first..=most).find(|n| {
                    replicas[s] = *n;
                    self.stage_rate(s, &replicas) >= wanted
                })?;
                replicas[s] = found;
                free[stage.group] -= found - taken[s];
                taken[s] = found;
            }
            if taken == before {
                break;
            }
        }
        Some(replicas)
    }

    /// The best counts for a goal.
    pub(super) fn best(&self, instance: &Instance, goal: Goal) -> Option<Vec<u32>> {
        let least = self.least(instance, 0.0, false)?;
        match goal {
            Goal::Footprint(rate) => {
                if self.shared_rate(instance) < rate * (1.0 - 1e-9) {
                    return None;
                }
                self.least(instance, rate, false)
            }
            Goal::Latency => Some(least),
            Goal::Rate | Goal::Energy { .. } => {
                let mut best = least;
                let ceiling = self.shared_rate(instance).min(instance.ceiling) * HEADROOM;
                loop {
                    let stages = (0..self.stages.len()).map(|s| self.stage_rate(s, &best));
                    let rate = stages.fold(f64::INFINITY, f64::min);
                    if rate >= ceiling {
                        // More is of no use; fewer may do.
                        return self.least(instance, ceiling, false).or(Some(best));
                    }
                    match self.least(instance, rate, true) {
                        Some(more) => best = more,
                        None => return Some(best),
                    }
                }
            }
        }
    }

    pub(super) fn mapping(
        &self,
        instance: &Instance,
        partial: &Partial,
        replicas: Vec<u32>,
    ) -> Mapping {
        let (unlimited, limit) = self.rate(instance, &replicas);
        let capped = unlimited >= instance.ceiling * (1.0 - 1e-9);
        Mapping {
            groups: partial.groups.clone(),
            locked: partial.locked.clone(),
            memories: partial.memories.iter().map(|memory| memory.unwrap_or(usize::MAX)).collect(),
            cycles: (0..self.stages.len()).map(|s| self.cycles(s, &replicas)).collect(),
            rates: (0..self.stages.len()).map(|s| self.stage_rate(s, &replicas)).collect(),
            loads: self.loads.clone(),
            rate: unlimited.min(instance.ceiling),
            unlimited,
            limit: if capped { Limit::Ports } else { limit },
            replicas,
        }
    }
}

/// `load` with a table in whichever memory keeps the unit busy least. Which one that is depends on
/// the other tables when threads hide latency, so processing and waiting are bounded separately: no
/// placement does better than the least of each.
fn fastest(
    instance: &Instance,
    group: &UnitGroup,
    load: Load,
    access: &TableAccess,
    need: &TableNeed,
) -> Option<Load> {
    let mut least: Option<Load> = None;
    for (m, memory) in instance.memories.iter().enumerate() {
        let possible = memory.device == group.device
            && need.only.is_none_or(|only| only == m)
            && (!need.buffers || memory.buffers)
            && need.bytes as f64 <= memory.size.value
            && memory.max_entries.is_none_or(|most| need.entries <= most);
        if !possible {
            continue;
        }
        let mut with = Load::default();
        with.add_access(group, memory, access);
        least = Some(least.map_or(with, |known| Load {
            cycles: known.cycles.min(with.cycles),
            wait_ns: known.wait_ns.min(with.wait_ns),
            waits: known.waits.min(with.waits),
        }));
    }
    least.map(|least| Load {
        cycles: load.cycles + least.cycles,
        wait_ns: load.wait_ns + least.wait_ns,
        waits: load.waits + least.waits,
    })
}
