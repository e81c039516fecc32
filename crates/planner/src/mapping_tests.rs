//! Mapping against enumeration of every choice, on random small instances.

use nicforge_ir::TableId;
use nicforge_target::quantity::{Frequency, Power, Rate, Size, Time};
use nicforge_target::{Access, Generator};

use super::*;

/// Instances come from a seed.
struct Random(nicforge_util::Random);

impl Random {
    /// 0 to n - 1.
    fn below(&mut self, n: u64) -> u64 {
        self.0.next() % n
    }

    fn flip(&mut self) -> bool {
        self.below(2) == 0
    }
}

fn instance(r: &mut Random) -> Instance {
    let two_groups = r.below(4) == 0;
    let group_count = if two_groups { 2 } else { 1 };
    let stages = if two_groups { 1 + r.below(3) } else { 2 + r.below(3) } as usize;
    let groups: Vec<UnitGroup> = (0..group_count)
        .map(|g| {
            let count = if two_groups { 2 + r.below(4) as u32 } else { 12 };
            UnitGroup {
                name: format!("g{g}"),
                codegen: Generator::Dpdk,
                device: Device::Nic,
                count,
                per_island: Some(if count.is_multiple_of(2) { count / 2 } else { count }),
                clock: Frequency::of(1e9 * (1 + r.below(3)) as f64),
                cpu: None,
                threads: if r.flip() { 1 } else { 4 },
                switch_cycles: 2.0,
                initiation_interval: None,
                update_interval: None,
                costs: "c".to_string(),
                active_power: Power::of(1.0),
                idle_power: Power::of(0.1),
                features: Vec::new(),
            }
        })
        .collect();
    let scopes = [Scope::Unit, Scope::Island, Scope::Device];
    let memories: Vec<Memory> = (0..3)
        .map(|m| {
            let fast = 2.0 + 30.0 * m as f64 + r.below(20) as f64;
            let limited = r.flip();
            Memory {
                name: format!("m{m}"),
                device: Device::Nic,
                scope: scopes[m],
                size: Size::of(if m == 2 { 1e9 } else { 1000.0 * (1 + r.below(4)) as f64 }),
                max_entries: (m == 0 && r.flip()).then_some(16),
                access: vec![Access {
                    bytes: 8,
                    read: Time::of(fast),
                    write: Time::of(fast / 2.0),
                }],
                operations: limited.then(|| Rate::of(1e6 * (20 + r.below(400)) as f64)),
                operation_bytes: limited.then_some(8),
                associative: m == 0,
                blocking: r.flip(),
                buffers: true,
                search_reads: 0,
            }
        })
        .collect();
    let table_count = 1 + r.below(3) as usize;
    let tables: Vec<TableNeed> = (0..table_count)
        .map(|_| TableNeed {
            bytes: 100 * (1 + r.below(25)),
            entries: 4 << r.below(4),
            read_only: r.flip(),
            commutative: false,
            buffers: false,
            only: None,
        })
        .collect();
    let mut needs: Vec<StageNeed> = (0..stages)
        .map(|s| StageNeed {
            cost: (0..group_count)
                .map(|g| {
                    let here = g == 0 || r.flip();
                    here.then(|| UnitCost {
                        cycles: (10 + r.below(500)) as f64,
                        updates: false,
                        wait_ns: r.below(200) as f64,
                        waits: r.below(3) as f64,
                    })
                })
                .collect(),
            weight: if s > 0 && r.below(3) == 0 { 0.5 } else { 1.0 },
            max_replicas: if r.below(3) == 0 { 1 } else { 12 },
            asked_replicas: 1,
            worth: if r.flip() { crate::skew::worth(1 + r.below(60) as u32, 12) } else { vec![] },
            flows: if r.flip() { f64::INFINITY } else { (1 + r.below(16)) as f64 },
            served: (0..group_count)
                .map(
                    |_| {
                        if r.below(3) == 0 { vec![(0, 1e-9 * r.below(300) as f64)] } else { vec![] }
                    },
                )
                .collect(),
            lockable: r.below(3) == 0,
            by_entry: if r.flip() { vec![0, 1] } else { vec![] },
            uses: vec![],
        })
        .collect();
    for t in 0..table_count {
        let s = r.below(stages as u64) as usize;
        needs[s].uses.push((
            t,
            TableAccess {
                table: TableId::from_u32(t as u32),
                reads: 1.0,
                writes: r.below(2) as f64,
                bytes: 4 << r.below(3),
                buffer_bytes: 0.0,
                search_cycles: r.below(40) as f64,
                searches: 0.0,
                held_cycles: r.below(100) as f64,
                one_entry: r.below(8) == 0,
            },
        ));
    }
    // Stages in a row; in one instance of three the last also sends back, as a host does to a NIC.
    let mut ends: Vec<(usize, usize)> = (1..stages).map(|to| (to - 1, to)).collect();
    if stages > 1 && r.below(3) == 0 {
        ends.push((stages - 1, r.below(stages as u64 - 1) as usize));
    }
    let edges: Vec<Edge> = ends
        .into_iter()
        .map(|(from, to)| Edge {
            from,
            to,
            weight: needs[to.max(from)].weight,
            bytes: r.below(40) as u32,
            zeros: 0,
            wire_bytes: 0.0,
            reorder: r.flip(),
        })
        .collect();
    let mut link = || LinkCost {
        send: r.below(40) as f64,
        receive: r.below(40) as f64,
        byte: 0.25 * r.below(4) as f64,
        incast: if r.flip() { r.below(9) as f64 } else { 0.0 },
        reorder: r.below(20) as f64,
        max_bytes: if r.below(6) == 0 { 20 } else { 1000 },
    };
    let links =
        (0..group_count).map(|_| (0..group_count).map(|_| Some(link())).collect()).collect();
    Instance {
        links,
        edges,
        host_link: f64::INFINITY,
        stages: needs,
        tables,
        groups,
        memories,
        locks: r.flip().then_some(Locks { cycles: 30.0, contention_cycles: 10.0 }),
        accelerators: vec![1 + r.below(3) as u32],
        ceiling: if r.flip() { f64::INFINITY } else { 1e6 * (1 + r.below(60)) as f64 },
        whole_shards: false,
    }
}

/// The best rate by trying everything; its own formulas, straight from the head of `mapping.rs`.
fn exhaustive(instance: &Instance) -> Option<f64> {
    let n = instance.stages.len();
    let mut best: Option<f64> = None;
    for groups in product(n, instance.groups.len()) {
        if (0..n).any(|s| instance.stages[s].cost[groups[s]].is_none()) {
            continue;
        }
        for locks in product(n, 2) {
            let locked: Vec<bool> = locks.iter().map(|l| *l == 1).collect();
            if (0..n)
                .any(|s| locked[s] && !(instance.stages[s].lockable && instance.locks.is_some()))
            {
                continue;
            }
            for memories in product(instance.tables.len(), instance.memories.len()) {
                let placed: Vec<Option<usize>> = memories.iter().map(|m| Some(*m)).collect();
                let allowed = (0..memories.len()).all(|t| {
                    rejection(instance, &groups, &locked, &placed, t, memories[t]).is_none()
                });
                if !allowed {
                    continue;
                }
                let mut replicas = vec![1u32; n];
                if !enough(&replicas, instance, &groups) {
                    continue;
                }
                loop {
                    if let Some(rate) = rate(instance, &groups, &locked, &memories, &replicas) {
                        best = Some(best.map_or(rate, |b: f64| b.max(rate)));
                    }
                    if !count_up(&mut replicas, instance, &groups) {
                        break;
                    }
                }
            }
        }
    }
    best
}

fn product(digits: usize, base: usize) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for _ in 0..digits {
        all = all
            .into_iter()
            .flat_map(|v| (0..base).map(move |d| [v.clone(), vec![d]].concat()))
            .collect();
    }
    all
}

/// The next vector of counts whose sum fits; false at the end.
fn count_up(replicas: &mut [u32], instance: &Instance, groups: &[usize]) -> bool {
    for s in 0..replicas.len() {
        replicas[s] += 1;
        if enough(replicas, instance, groups) {
            return true;
        }
        replicas[s] = 1;
    }
    false
}

fn enough(replicas: &[u32], instance: &Instance, groups: &[usize]) -> bool {
    let used = |g: usize| -> u32 {
        (0..replicas.len()).filter(|s| groups[*s] == g).map(|s| replicas[s]).sum()
    };
    (0..instance.groups.len()).all(|g| used(g) <= instance.groups[g].count)
}

fn rate(
    instance: &Instance,
    groups: &[usize],
    locked: &[bool],
    memories: &[usize],
    replicas: &[u32],
) -> Option<f64> {
    let mut slowest = instance.ceiling;
    let mut operations = vec![0.0; instance.memories.len()];
    let mut served = 0.0;
    for (s, stage) in instance.stages.iter().enumerate() {
        let group = &instance.groups[groups[s]];
        let unit = stage.cost[groups[s]]?;
        let n = replicas[s];
        if n > if locked[s] { group.count } else { stage.max_replicas } {
            return None;
        }
        let mut load = Load { cycles: unit.cycles, wait_ns: unit.wait_ns, waits: unit.waits };
        served +=
            stage.weight * stage.served[groups[s]].iter().map(|(_, seconds)| seconds).sum::<f64>();
        let mut extra = 0.0;
        let (mut inside, mut at_once) = (0.0, f64::INFINITY);
        for (t, access) in &stage.uses {
            let memory = &instance.memories[memories[*t]];
            load.add_access(group, memory, access);
            let each = cost::memory_operations(memory, access);
            if !instance.tables[*t].read_only && (group.threads > 1 || locked[s]) {
                let time = &memory.access[0];
                let pieces = (f64::from(access.bytes) / 8.0).ceil();
                let memory_ns =
                    pieces * (access.reads * time.read.value + access.writes * time.write.value);
                let held = access.held_cycles / group.clock.value + memory_ns * 1e-9;
                let whole = locked[s] && !stage.by_entry.contains(t);
                let keys = if access.one_entry || whole {
                    1.0
                } else {
                    stage.flows.min(f64::from(instance.tables[*t].entries))
                };
                if locked[s] {
                    inside += stage.weight * held;
                    at_once = keys.min(at_once);
                } else {
                    slowest = slowest.min(keys / (stage.weight * held));
                }
            }
            let island = group.per_island.unwrap_or(group.count);
            if locked[s] && memory.scope == Scope::Island && n > island {
                return None;
            }
            if let Some(limit) = memory.operations {
                match memory.scope {
                    Scope::Device => operations[memories[*t]] += stage.weight * each,
                    Scope::Island => {
                        slowest = slowest.min(
                            f64::from(n.div_ceil(island)) * limit.value / (stage.weight * each),
                        );
                    }
                    Scope::Unit => {
                        slowest = slowest.min(f64::from(n) * limit.value / (stage.weight * each))
                    }
                }
            }
            if let (true, false, Some(locks)) =
                (locked[s], instance.tables[*t].read_only, &instance.locks)
            {
                load.cycles += locks.cycles;
                let others = f64::from(n - 1);
                let wait = if stage.by_entry.contains(t) { others / f64::from(n) } else { others };
                extra += locks.contention_cycles * wait;
            }
        }
        for edge in instance.edges.iter().filter(|edge| edge.from == s || edge.to == s) {
            let link = instance.links[groups[edge.from]][groups[edge.to]]?;
            if edge.bytes > link.max_bytes {
                return None;
            }
            let share = edge.weight / stage.weight;
            let each = link.byte * f64::from(edge.bytes);
            if edge.from == s {
                load.cycles += share * (link.send + each);
            } else {
                load.cycles +=
                    share * (link.receive + each + if edge.reorder { link.reorder } else { 0.0 });
                extra += share * link.incast * f64::from(replicas[edge.from] - 1);
            }
        }
        if inside > 0.0 {
            slowest = slowest.min(at_once / inside);
        }
        let cycles = load.unit_cycles(group) + extra;
        // Events under locks go to any replica.
        let worth = if locked[s] { None } else { stage.worth.get(n as usize - 1) };
        let worth = worth.copied().unwrap_or(f64::from(n));
        slowest = slowest.min(worth * group.clock.value / (stage.weight * cycles));
    }
    if served > 0.0 {
        slowest = slowest.min(f64::from(instance.accelerators[0]) / served);
    }
    for (m, memory) in instance.memories.iter().enumerate() {
        if let (Some(limit), true) = (memory.operations, operations[m] > 0.0) {
            slowest = slowest.min(limit.value / operations[m]);
        }
    }
    Some(slowest)
}

#[test]
fn mapping_is_as_good_as_trying_everything() {
    let mut random = Random(nicforge_util::Random::new(1));
    let (mut mapped, mut several) = (0, 0);
    for number in 0..400 {
        let instance = instance(&mut random);
        let ours = map(&instance, Goal::Rate);
        let best = exhaustive(&instance);
        match (&ours, best) {
            (None, None) => {}
            (Some(ours), Some(best)) => {
                mapped += 1;
                several += usize::from(ours.replicas.iter().any(|n| *n > 1));
                let same = (ours.rate - best).abs() <= 1e-6 * best;
                assert!(
                    same,
                    "instance {number}: {} instead of {best}\n{instance:#?}\n{ours:#?}",
                    ours.rate
                );
                // What is claimed is what the answer gives.
                let given =
                    rate(&instance, &ours.groups, &ours.locked, &ours.memories, &ours.replicas);
                assert!((given.unwrap() - ours.rate).abs() <= 1e-6 * best, "instance {number}");
            }
            _ => panic!("instance {number}: {ours:?} against {best:?}\n{instance:#?}"),
        }
    }
    assert!(
        mapped > 300 && several > 200,
        "{mapped} mapped, {several} replicated: too few to mean anything"
    );
}

#[test]
fn a_footprint_is_the_smallest_that_reaches_the_rate() {
    let mut random = Random(nicforge_util::Random::new(2));
    let mut checked = 0;
    for _ in 0..150 {
        let instance = instance(&mut random);
        let Some(full) = map(&instance, Goal::Rate) else { continue };
        let wanted = full.rate / 2.0;
        let small =
            map(&instance, Goal::Footprint(wanted)).expect("half of the best rate is reachable");
        assert!(small.unlimited >= wanted * (1.0 - 1e-6));
        let units: u32 = small.replicas.iter().sum();
        assert!(units <= full.replicas.iter().sum(), "more units for less rate");
        checked += 1;
    }
    assert!(checked > 100);
}

#[test]
fn the_same_instance_gives_the_same_mapping() {
    let mut random = Random(nicforge_util::Random::new(3));
    for _ in 0..50 {
        let instance = instance(&mut random);
        assert_eq!(map(&instance, Goal::Rate), map(&instance, Goal::Rate));
    }
}

/// Stages moved one at a time, as in pipelines with too many assignments to try: on small instances
/// as good as trying all.
#[test]
fn one_at_a_time_is_as_good_where_there_is_little() {
    let mut random = Random(nicforge_util::Random::new(4));
    let (mut mapped, mut missed, mut worse) = (0, 0, 0);
    for number in 0..400 {
        let instance = instance(&mut random);
        let Some(best) = map(&instance, Goal::Rate) else {
            assert_eq!(map_within(&instance, Goal::Rate, 0), None, "instance {number}");
            continue;
        };
        mapped += 1;
        match map_within(&instance, Goal::Rate, 0) {
            None => missed += 1,
            Some(ours) => {
                assert!(ours.rate <= best.rate * (1.0 + 1e-9), "instance {number}");
                worse += usize::from(ours.rate < best.rate * (1.0 - 1e-6));
            }
        }
    }
    assert!(
        mapped > 300 && missed == 0 && worse == 0,
        "{mapped} mapped, {missed} not found, {worse} worse"
    );
}

/// More tables, used as the first one is, but that `differ` changes a use by its number.
fn with_tables(instance: &mut Instance, count: usize, differ: impl Fn(usize, &mut TableAccess)) {
    let first = instance.tables[0].clone();
    instance.tables = vec![first; count];
    for stage in &mut instance.stages {
        let used = stage.uses.iter().find(|(table, _)| *table == 0).map(|(_, access)| *access);
        stage.by_entry.clear();
        let access = |access: TableAccess| {
            (0..count).map(move |table| {
                (table, TableAccess { table: TableId::from_u32(table as u32), ..access })
            })
        };
        stage.uses = used.into_iter().flat_map(access).collect();
        stage.uses.iter_mut().for_each(|(table, access)| differ(*table, access));
    }
}

#[test]
fn tables_that_are_alike_are_placed_as_well() {
    let mut random = Random(nicforge_util::Random::new(5));
    let mut apart = 0;
    for number in 0..200 {
        let mut instance = instance(&mut random);
        with_tables(&mut instance, 3, |_, _| {});
        assert_eq!(alike(&instance), [None, Some(0), Some(1)]);
        let (ours, best) = (map(&instance, Goal::Rate), exhaustive(&instance));
        assert_eq!(ours.is_some(), best.is_some(), "instance {number}");
        let Some((ours, best)) = ours.zip(best) else { continue };
        assert!((ours.rate - best).abs() <= 1e-6 * best, "instance {number}: {best}\n{ours:#?}");
        apart += usize::from(ours.memories.iter().any(|memory| *memory != ours.memories[0]));
    }
    assert!(apart > 5, "{apart} with tables in several memories: too few to mean anything");
}

/// Choices among memories grow with each table; the search ends all the same.
#[test]
fn many_tables_are_placed() {
    let mut random = Random(nicforge_util::Random::new(6));
    let mut mapped = 0;
    for _ in 0..10 {
        let mut instance = instance(&mut random);
        with_tables(&mut instance, 60, |table, access| access.bytes += table as u32);
        instance.tables.iter_mut().for_each(|table| table.bytes = 8);
        // All of them limit the rate, and none of them alone.
        for (m, memory) in instance.memories.iter_mut().enumerate() {
            memory.scope = Scope::Device;
            memory.operations = Some(Rate::of(1e8 * (m + 1) as f64));
            memory.operation_bytes = Some(8);
        }
        mapped += usize::from(map(&instance, Goal::Rate).is_some());
    }
    assert!(mapped >= 5, "{mapped} mapped");
}
