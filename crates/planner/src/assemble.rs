//! From a candidate of the search to a plan, with the reasons a person asks for.

use std::collections::HashSet;

use cranelift_entity::PrimaryMap;
use nicforge_ir::{Direction, FileId, Program, SourceFile, Type, Verified, text, verify};
use nicforge_plan::{
    Carried, Edge, HeaderField, Objective, Plan, PortFields, Predicted, Rejected, Replication,
    Stage, Steering, TablePlan, VERSION,
};
use nicforge_target::{Device, Scope, SpreadKind, Target};

use crate::ability::Ability;
use crate::context;
use crate::instance::{Config, ContextUse};
use crate::mapping::{self, Limit};
use crate::names;
use crate::origin::Origin;
use crate::search::{Candidate, Found, limit_words};
use crate::shard::Steer;
use crate::steer;
use crate::tables;
use crate::toeplitz;

/// The plan of a candidate. `source` is the program before planning.
pub fn plan(
    source: &Verified<Program>,
    target: &Target,
    config: &Config,
    objective: Objective,
    found: &Found,
    number: usize,
) -> Plan {
    let candidate = &found.candidates[number];
    let mapping = &candidate.mapping;
    let mut program = candidate.program.clone().into_inner();
    let stages = stages(candidate, target);
    let mut edges = edges(&mut program, candidate, target);
    // A context stays where its packet is; what crosses to another device is copied.
    let devices: HashSet<Device> = stages
        .iter()
        .filter_map(|s| target.units.iter().find(|g| g.name == s.group))
        .map(|g| g.device)
        .collect();
    let room =
        target.context.as_ref().filter(|_| devices.len() == 1).map_or(0, |size| size.value as u32);
    let context_bytes = match config.context {
        ContextUse::None => 0,
        ContextUse::Own => context::assign(&program, &mut edges, room, false),
        ContextUse::Shared => context::assign(&program, &mut edges, room, true),
    };
    let sorted = |(s, steer): (usize, &Steer)| steer.sorted_output && mapping.replicas[s] > 1;
    let ordered_output = candidate.steers.iter().enumerate().any(sorted);
    // What was added was built from verified parts; the test of all examples checks it.
    program.prune_files();
    let air = text::print(&program, text::PrintOptions { spans: true });
    let mut steps = found.steps.clone();
    for (n, step) in steps.iter_mut().enumerate() {
        step.chosen = n == number;
    }
    Plan {
        schema: "nicforge/plan".to_string(),
        version: VERSION,
        program: source.name.clone(),
        target: target.name.clone(),
        objective,
        program_hash: program_hash(source),
        frame_bytes: config.traffic.frame_bytes,
        stages,
        tables: tables(candidate, target),
        edges,
        context_bytes,
        ordered_output,
        predicted: Predicted {
            rate_pps: mapping.rate,
            bit_rate_bps: mapping.rate * 8.0 * f64::from(config.traffic.frame_bytes),
            unlimited_pps: mapping.unlimited,
            line_rate: mapping.limit == Limit::Ports,
            latency_ns: latency_ns(candidate, target, config),
            nj_per_packet: watts(candidate, target) / mapping.rate * 1e9,
            limit: limit_words(&candidate.program, &candidate.stages, target, mapping),
            guaranteed_pps: None,
        },
        air,
        search: steps,
    }
}

/// FNV-1a of the program's text: changes when the program does.
pub fn program_hash(program: &Program) -> String {
    let text = text::print(program, text::PrintOptions { spans: false });
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// The verified program of a plan. Places in source files have no lines; see [`program_with`].
pub fn program_of(plan: &Plan) -> Result<Verified<Program>, String> {
    read(plan, &PrimaryMap::new())
}

/// The verified program of a plan with the texts of the source it was made of, so that places have
/// lines.
pub fn program_with(plan: &Plan, source: &Program) -> Result<Verified<Program>, String> {
    read(plan, &source.files)
}

fn read(plan: &Plan, files: &PrimaryMap<FileId, SourceFile>) -> Result<Verified<Program>, String> {
    let mut program =
        text::parse(&plan.air).map_err(|e| format!("line {}: {}", e.line, e.message))?;
    for file in program.files.values_mut() {
        // The same program may have been named by another path.
        let name = |file: &SourceFile| file.path.rsplit('/').next().map(str::to_string);
        let same = files.values().find(|known| known.path == file.path);
        if let Some(known) = same.or_else(|| files.values().find(|known| name(known) == name(file)))
        {
            file.text.clone_from(&known.text);
        }
    }
    verify(program).map_err(|errors| errors.first().map_or(String::new(), ToString::to_string))
}

fn stages(candidate: &Candidate, target: &Target) -> Vec<Stage> {
    let (program, mapping) = (&candidate.program, &candidate.mapping);
    let mut used = vec![0u32; target.units.len()];
    let numbered = candidate.stages.iter().zip(&candidate.steers).enumerate();
    numbered
        .map(|(s, (handlers, steer))| {
            let g = mapping.groups[s];
            let group = &target.units[g];
            let replicas = mapping.replicas[s];
            let first = used[g];
            used[g] += replicas;
            let load = mapping.loads[s];
            let need = &candidate.instance.stages[s];
            let replication = match &steer.ability {
                _ if mapping.locked[s] => Replication::Locked {
                    tables: names(program, &candidate.stages[s], |t| {
                        !candidate.instance.tables[t].read_only
                    }),
                },
                Ability::Free => Replication::Free,
                Ability::Sharded(_) => Replication::Sharded {
                    by: steer
                        .by
                        .iter()
                        .map(|leaf| names::describe(program, handlers, leaf))
                        .collect(),
                },
                Ability::Meeting(parts) => {
                    let mut by: Vec<String> = parts
                        .iter()
                        .map(|(handler, part)| names::describe(program, &[*handler], part))
                        .collect();
                    by.dedup();
                    Replication::Sharded { by: vec![by.join(" = ")] }
                }
                Ability::Single(reason) => Replication::Single { reason: reason.clone() },
            };
            let cycles = mapping.cycles[s];
            Stage {
                name: program.handlers[handlers[0]].name.clone(),
                handlers: handlers.iter().map(|h| program.handlers[*h].name.clone()).collect(),
                group: group.name.clone(),
                replicas,
                units: (first..first + replicas).map(|n| format!("{}.{n}", group.name)).collect(),
                tables: names(program, handlers, |_| true),
                cycles,
                busy_cycles: load.cycles,
                wait_ns: load.wait_ns,
                share: need.weight,
                rate_pps: mapping.rates[s].min(1e15),
                replication,
            }
        })
        .collect()
}

fn names(
    program: &Program,
    handlers: &[nicforge_ir::HandlerId],
    keep: impl Fn(usize) -> bool,
) -> Vec<String> {
    let mut list: Vec<String> = Vec::new();
    for table in handlers.iter().flat_map(|h| tables::of_handler(program, *h)) {
        let name = &program.tables[table].name;
        if keep(table.as_u32() as usize) && !list.contains(name) {
            list.push(name.clone());
        }
    }
    list
}

fn tables(candidate: &Candidate, target: &Target) -> Vec<TablePlan> {
    let (instance, mapping) = (&candidate.instance, &candidate.mapping);
    let numbered = candidate.program.tables.values().enumerate();
    numbered
        .map(|(t, data)| {
            let chosen = mapping.memories[t];
            let memory = &target.memories[chosen];
            let users = || {
                (0..candidate.stages.len())
                    .filter(|s| instance.stages[*s].uses.iter().any(|(u, _)| *u == t))
            };
            let replicated = users().any(|s| mapping.replicas[s] > 1);
            let rejected = (0..target.memories.len()).filter(|m| *m != chosen).map(|m| {
                let placed: Vec<Option<usize>> =
                    mapping.memories.iter().map(|m| Some(*m)).collect();
                let reason =
                    mapping::rejection(instance, &mapping.groups, &mapping.locked, &placed, t, m)
                        .unwrap_or_else(|| slower(candidate, t, m));
                Rejected { memory: target.memories[m].name.clone(), reason }
            });
            TablePlan {
                name: data.name.clone(),
                memory: memory.name.clone(),
                per_replica: replicated && memory.scope != Scope::Device,
                read_only: instance.tables[t].read_only,
                bytes: instance.tables[t].bytes,
                rejected: rejected.collect(),
            }
        })
        .collect()
}

/// Effect of another memory on the plan.
fn slower(candidate: &Candidate, table: usize, memory: usize) -> String {
    let mapping = &candidate.mapping;
    let mut memories = mapping.memories.clone();
    memories[table] = memory;
    let other =
        mapping::evaluate(&candidate.instance, &mapping.groups, &memories, &mapping.replicas);
    match other {
        Some(other) if other.rate < mapping.rate * 0.999 => {
            format!("{:.2} Mpps instead of {:.2}", other.rate / 1e6, mapping.rate / 1e6)
        }
        Some(other) => {
            let time = |m: &mapping::Mapping| m.loads.iter().map(|l| l.wait_ns).sum::<f64>();
            let more = time(&other) - time(mapping);
            if more > 0.0 {
                format!("as fast, but {more:.0} ns more latency")
            } else {
                "no faster".to_string()
            }
        }
        None => "does not fit".to_string(),
    }
}

fn edges(program: &mut Program, candidate: &Candidate, target: &Target) -> Vec<Edge> {
    let mut list = Vec::new();
    for (s, handlers) in candidate.stages.iter().enumerate() {
        let replicas = candidate.mapping.replicas[s];
        let steer = &candidate.steers[s];
        for handler in handlers {
            let event = program.handlers[*handler].event;
            let inside = program.events[event].direction == Direction::Internal;
            let sender_names: Vec<String> = candidate
                .stages
                .iter()
                .enumerate()
                .filter(|(from, _)| {
                    candidate.instance.edges.iter().any(|e| e.from == *from && e.to == s)
                })
                .map(|(_, handlers)| program.handlers[handlers[0]].name.clone())
                .collect();
            let steering = if replicas == 1 {
                Steering::One
            } else if steer.by.is_empty() || candidate.mapping.locked[s] {
                Steering::RoundRobin
            } else if inside {
                let by = steer.of(*handler);
                let param = match steer.instances {
                    Some(_) => steer::number_param(program, event, by),
                    None => steer::by_param(program, event, by, steer.hashed(*handler) > 0),
                };
                Steering::Key { param, instances: steer.instances }
            } else {
                spread(program, &steer.by, target.spread.kind)
            };
            let values: Vec<Carried> = program.events[event]
                .params
                .iter()
                .filter(|param| inside && param.ty != Type::Packet)
                .map(|param| Carried {
                    name: param.name.clone(),
                    bytes: program.size_of(param.ty),
                    context: None,
                })
                .collect();
            let reorder = steer.reorder;
            let kind = target
                .links
                .iter()
                .find(|link| link.from == target.units[candidate.mapping.groups[s]].name);
            list.push(Edge {
                event: program.events[event].name.clone(),
                from: if inside { sender_names } else { vec![] },
                to: program.handlers[handlers[0]].name.clone(),
                steering,
                bytes: values.iter().map(|value| value.bytes).sum(),
                values,
                reorder: reorder.then(|| {
                    kind.map_or("software", |link| match link.reorder {
                        nicforge_target::Reorder::Hardware => "hardware",
                        _ => "software",
                    })
                    .to_string()
                }),
            });
        }
    }
    list
}

/// Steering of packets at the ports.
fn spread(
    program: &Program,
    by: &std::collections::BTreeSet<Origin>,
    kind: SpreadKind,
) -> Steering {
    let of_port = |port: u32| {
        let mut fields: Vec<HeaderField> = by
            .iter()
            .filter_map(|leaf| match leaf.at_port(port) {
                Origin::Frame { offset, bits, .. } => Some(HeaderField {
                    name: names::frame_name(offset, bits),
                    offset,
                    bytes: bits.div_ceil(8),
                }),
                _ => None,
            })
            .collect();
        fields.dedup();
        PortFields { port, fields }
    };
    let fields: Vec<PortFields> = (0..program.ports).map(of_port).collect();
    match kind {
        SpreadKind::Any => Steering::Header { fields },
        SpreadKind::Rss => Steering::Rss { keys: toeplitz::keys(&fields), fields },
    }
}

/// Port to port, nothing else going on: the frame in and out, processing, waiting and messages on
/// the longest way.
fn latency_ns(candidate: &Candidate, target: &Target, config: &Config) -> f64 {
    let mapping = &candidate.mapping;
    let own = |s: usize| {
        let group = &target.units[mapping.groups[s]];
        mapping.loads[s].wait_ns + mapping.loads[s].cycles / group.clock.value * 1e9
    };
    let mut at: Vec<f64> = (0..candidate.stages.len()).map(own).collect();
    for edge in &candidate.instance.edges {
        let (from, to) = (
            &target.units[mapping.groups[edge.from]].name,
            &target.units[mapping.groups[edge.to]].name,
        );
        let link = target.links.iter().find(|link| &link.from == from && &link.to == to);
        let arrives = at[edge.from] + link.map_or(0.0, |link| link.latency.value);
        at[edge.to] = at[edge.to].max(arrives + own(edge.to));
    }
    let frame = f64::from(config.traffic.frame_bytes + target.ports.overhead_bytes) * 8.0
        / target.ports.rate.value
        * 1e9;
    2.0 * frame + at.iter().copied().fold(0.0, f64::max)
}

/// Everything that is switched on, while packets come at the plan's rate.
fn watts(candidate: &Candidate, target: &Target) -> f64 {
    let mapping = &candidate.mapping;
    let groups = &candidate.instance.groups;
    let mut total = target.power.nic_base.value;
    let on_host = mapping.groups.iter().any(|g| groups[*g].device == Device::Host);
    if on_host {
        total += target.power.host_base.value;
    }
    for (g, group) in groups.iter().enumerate() {
        let busy: u32 = (0..mapping.groups.len())
            .filter(|s| mapping.groups[*s] == g)
            .map(|s| mapping.replicas[s])
            .sum();
        total += f64::from(busy) * group.active_power.value;
        total += f64::from(group.count - busy) * group.idle_power.value;
    }
    total
}
