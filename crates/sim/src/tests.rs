//! The model against what can be computed by hand, and counts that must add up.

use nicforge_ir::{Program, Verified, text, verify};
use nicforge_plan::{
    Carried, Edge, HeaderField, Objective, Plan, PortFields, Predicted, Replication, Stage,
    Steering, TablePlan,
};
use nicforge_target::quantity::{BitRate, Rate as PerSecond, Time};
use nicforge_target::{AcceleratedOp, Accelerator, OpCosts, Target};

use crate::workload::{Rate, Replay, Spec, Synthetic, Templates, Timed, parse};
use crate::{InterpHandlers, Options, Report, find};

const ECHO: &str = "
program echo
event net_recv(pkt: packet) in
event net_send(pkt: packet, port: u32) out
handler net_recv on net_recv(%pkt: packet) {
  %zero: u32 = 0
  generate net_send(%pkt, %zero)
  return
}";

/// Counts packets per source address.
const COUNT: &str = "
program count
table flows: hash[u32 -> u32] capacity 65536
event net_recv(pkt: packet) in
event net_send(pkt: packet, port: u32) out
handler net_recv on net_recv(%pkt: packet) {
  %at: u32 = 26
  %ok: u1, %source: u32 = load %pkt, %at
  %hit: u1, %n: u32 = lookup flows[%source]
  %one: u32 = 1
  %more: u32 = add %n, %one
  %kept: u1 = update flows[%source], %more
  %zero: u32 = 0
  generate net_send(%pkt, %zero)
  return
}";

/// Two stages; the first divides for packets from odd addresses.
const TWO: &str = "
program two
table last: array[u32 -> u32] capacity 1
event net_recv(pkt: packet) in
event rest(pkt: packet, source: u32) internal
event net_send(pkt: packet, port: u32) out
handler net_recv on net_recv(%pkt: packet) {
  %at: u32 = 26
  %ok: u1, %source: u32 = load %pkt, %at
  %bit: u32 = 16777216
  %odd: u32 = and %source, %bit
  %zero: u32 = 0
  %is: u1 = ne %odd, %zero
  if %is {
    %b: u32 = div %source, %odd
    generate rest(%pkt, %b)
  } else {
    generate rest(%pkt, %source)
  }
  return
}
handler rest on rest(%pkt: packet, %source: u32) {
  %zero: u32 = 0
  %hit: u1, %n: u32 = lookup last[%zero]
  %one: u32 = 1
  %more: u32 = add %n, %one
  %kept: u1 = update last[%zero], %more
  emit %pkt, %more
  generate net_send(%pkt, %zero)
  return
}";

fn program(source: &str) -> Verified<Program> {
    let program = text::parse(source).unwrap_or_else(|e| panic!("line {}: {}", e.line, e.message));
    verify(program).unwrap_or_else(|e| panic!("{e:?}"))
}

/// A target whose ops cost nothing but `receive` cycles per packet.
fn target(name: &str, receive: f64) -> Target {
    let mut target = nicforge_target::find(name).unwrap();
    for costs in target.costs.values_mut() {
        *costs = OpCosts { receive, ..OpCosts::default() };
    }
    target.spread.cycles = 0.0;
    target
}

fn plan(
    program: &Program,
    target: &Target,
    stages: &[(&str, u32, Steering)],
    memory: &str,
) -> Plan {
    let group = &target.units[0].name;
    let mut next = 0;
    let stage = |(name, replicas, _): &(&str, u32, Steering)| {
        let units = (next..next + replicas).map(|n| format!("{group}.{n}")).collect();
        next += replicas;
        Stage {
            name: name.to_string(),
            handlers: vec![name.to_string()],
            group: group.clone(),
            replicas: *replicas,
            units,
            tables: program.tables.values().map(|t| t.name.clone()).collect(),
            cycles: 0.0,
            busy_cycles: 0.0,
            wait_ns: 0.0,
            share: 1.0,
            rate_pps: 0.0,
            replication: Replication::Free,
        }
    };
    let edge = |n: usize, (name, _, steering): &(&str, u32, Steering)| Edge {
        event: program
            .handlers
            .values()
            .find(|h| h.name == *name)
            .map(|h| program.events[h.event].name.clone())
            .unwrap(),
        from: if n == 0 { vec![] } else { vec![stages[n - 1].0.to_string()] },
        to: name.to_string(),
        steering: steering.clone(),
        values: vec![Carried { name: String::new(), bytes: 4, context: None }],
        bytes: 4,
        reorder: (n > 0 && stages[n - 1].1 > 1).then(|| "software".to_string()),
    };
    Plan {
        context_bytes: 0,
        ordered_output: false,
        schema: "nicforge/plan".into(),
        version: nicforge_plan::VERSION,
        program: program.name.clone(),
        target: target.name.clone(),
        objective: Objective::Rate,
        program_hash: String::new(),
        frame_bytes: 256,
        stages: stages.iter().map(stage).collect(),
        tables: program
            .tables
            .values()
            .map(|table| TablePlan {
                name: table.name.clone(),
                memory: memory.to_string(),
                per_replica: false,
                read_only: false,
                bytes: 0,
                rejected: vec![],
            })
            .collect(),
        edges: stages.iter().enumerate().map(|(n, stage)| edge(n, stage)).collect(),
        predicted: Predicted {
            rate_pps: 0.0,
            bit_rate_bps: 0.0,
            unlimited_pps: 0.0,
            line_rate: false,
            latency_ns: 0.0,
            nj_per_packet: 0.0,
            limit: String::new(),
            guaranteed_pps: None,
        },
        air: String::new(),
        search: vec![],
    }
}

fn spec(text: &str) -> Spec {
    parse(text).unwrap()
}

/// Offers `rate` frames per second for a number of frames, half of which warm up; nothing is
/// drained.
fn simulate(
    source: &str,
    target: &Target,
    stages: &[(&str, u32, Steering)],
    memory: &str,
    what: &str,
    rate: f64,
) -> Report {
    simulate_for(source, target, stages, memory, what, rate, 20_000.0, Options::default())
}

#[allow(clippy::too_many_arguments)]
fn simulate_for(
    source: &str,
    target: &Target,
    stages: &[(&str, u32, Steering)],
    memory: &str,
    what: &str,
    rate: f64,
    frames: f64,
    options: Options,
) -> Report {
    let program = program(source);
    let plan = plan(&program, target, stages, memory);
    simulate_plan(&program, target, &plan, what, rate, frames, options)
}

fn simulate_plan(
    program: &Verified<Program>,
    target: &Target,
    plan: &Plan,
    what: &str,
    rate: f64,
    frames: f64,
    options: Options,
) -> Report {
    let mut handlers = InterpHandlers::new(program, false);
    let mut traffic = Synthetic::new(
        spec(what),
        Rate::Frames(rate),
        Templates::plain(false),
        target.ports.overhead_bytes,
        u64::MAX,
    );
    let duration = (frames / rate * 1e12) as u64;
    let options =
        Options { duration_ps: Some(duration), warm_up_ps: duration / 2, drain: false, ..options };
    let report = crate::run(target, plan, program, &mut handlers, &mut traffic, &options).unwrap();
    assert_eq!(report.packets.missing(), 0, "{:?}", report.packets);
    report
}

fn near(got: f64, want: f64, share: f64) {
    assert!((got / want - 1.0).abs() <= share, "{got} is not within {share} of {want}");
}

fn one() -> Vec<(&'static str, u32, Steering)> {
    vec![("net_recv", 1, Steering::One)]
}

#[test]
fn a_server_saturates_at_clock_over_cycles() {
    let target = target("dpdk", 300.0);
    let report = simulate(ECHO, &target, &one(), "", "", 15e6);
    near(report.delivered.pps, 3e9 / 300.0, 0.005);
    near(report.stages[0].busy, 1.0, 0.001);
    let three = vec![("net_recv", 3, Steering::RoundRobin)];
    let report = simulate(ECHO, &target, &three, "", "", 40e6);
    near(report.delivered.pps, 3.0 * 3e9 / 300.0, 0.005);
}

/// A run so short that the queue never fills loses nothing above what the unit can do.
#[test]
fn the_greatest_rate_is_not_what_a_deep_queue_takes_in() {
    let target = target("dpdk", 300.0);
    let at = |rate| match rate {
        Rate::Frames(rate) => Ok::<_, ()>(simulate_for(
            ECHO,
            &target,
            &one(),
            "",
            "",
            rate,
            2000.0,
            Options::default(),
        )),
        Rate::Wire(_) => Err(()),
    };
    assert_eq!(at(Rate::Frames(12e6)).unwrap().loss, 0.0, "the queue is deep enough to hide it");
    let (rate, _) = find::max(Rate::Frames(15e6), find::LOSS, find::WITHIN, at).unwrap().unwrap();
    let Rate::Frames(found) = rate else { panic!("{rate}") };
    near(found, 3e9 / 300.0, 0.05);
}

/// Hardware that is no pipe of a packet a cycle: the plan knows how far apart events come, of all
/// replicas together.
#[test]
fn hardware_is_as_fast_as_its_plan_says() {
    let target = target("u280", 0.0);
    let program = program(ECHO);
    let mut plan = plan(&program, &target, &[("net_recv", 3, Steering::RoundRobin)], "");
    plan.stages[0].rate_pps = 5e6;
    let report = simulate_plan(&program, &target, &plan, "", 40e6, 400_000.0, Options::default());
    near(report.delivered.pps, 5e6, 0.01);
}

/// M/D/1: an event waits for rho / (2 (1 - rho)) services on average (Pollaczek and Khinchine).
#[test]
fn random_arrivals_wait_as_long_as_theory_says() {
    let mut target = target("dpdk", 300.0);
    // A wire too fast to space arrivals out.
    target.ports.rate = BitRate::of(1e15);
    target.ports.packet_rate = None;
    let (service, load) = (100.0, 0.8);
    let options = Options::default();
    let report = simulate_for(ECHO, &target, &one(), "", "poisson", 8e6, 400_000.0, options);
    let waits = load / (2.0 * (1.0 - load)) * service;
    near(report.latency.unwrap().mean, service + waits, 0.05);
    near(report.stages[0].busy, load, 0.01);
    // Little: what waits is rate times waiting.
    near(report.stages[0].queue_mean, 8e6 * waits * 1e-9, 0.08);
}

#[test]
fn threads_hide_latency_as_the_cost_model_says() {
    let mut target = target("agilio-cx", 100.0);
    target.units[0].switch_cycles = 0.0;
    for memory in &mut target.memories {
        memory.operations = None;
    }
    // 100 cycles of work, 330 + 320 ns of waiting at 800 MHz: 620 cycles in all.
    for (threads, cycles) in [(1u32, 620.0), (2, 310.0), (4, 155.0), (8, 100.0)] {
        target.units[0].threads = threads;
        let report = simulate(COUNT, &target, &one(), "emem", "flows=60000", 12e6);
        near(report.delivered.pps, 8e8 / cycles, 0.02);
    }
}

#[test]
fn a_memory_serves_no_more_than_its_operations() {
    let mut target = target("agilio-cx", 10.0);
    let emem = target.memories.iter_mut().find(|memory| memory.name == "emem").unwrap();
    emem.operations = Some(PerSecond::of(10e6));
    let stages = vec![("net_recv", 12, Steering::RoundRobin)];
    let report = simulate(COUNT, &target, &stages, "emem", "flows=60000", 20e6);
    // A lookup and an update per packet.
    near(report.delivered.pps, 5e6, 0.01);
    near(report.memories[0].busy, 1.0, 0.01);
}

#[test]
fn one_flow_serialises_on_its_state() {
    let mut target = target("agilio-cx", 20.0);
    target.units[0].switch_cycles = 0.0;
    let many = simulate(COUNT, &target, &one(), "emem", "flows=60000", 12e6);
    let single = simulate(COUNT, &target, &one(), "emem", "flows=1", 12e6);
    // From the first access to the end of the last: 330 and 320 ns.
    near(single.delivered.pps, 1e9 / 650.0, 0.02);
    near(many.delivered.pps, 8.0 * 8e8 / 540.0, 0.02);
}

#[test]
fn a_full_queue_loses_exactly_the_excess() {
    let target = target("dpdk", 300.0);
    let program = program(ECHO);
    let plan = plan(&program, &target, &one(), "");
    let mut handlers = InterpHandlers::new(&program, false);
    // A hundred frames at once, far faster than a service: one is taken up at once, so many wait,
    // the rest is lost.
    let most = 100;
    let mut traffic =
        Synthetic::new(spec(""), Rate::Frames(30e6), Templates::plain(false), 24, most);
    let options = Options { receive_depth: 10, ..Options::default() };
    let report =
        crate::run(&target, &plan, &program, &mut handlers, &mut traffic, &options).unwrap();
    // A frame comes every 33.3 ns for 3300 ns; in that time 33 services end, and 10 wait at the end
    // with one under way.
    let sent = report.packets.sent;
    assert_eq!(report.packets.lost, [("receive queue of net_recv".to_string(), 100 - sent)]);
    assert!((43..=45).contains(&sent), "{sent}");
    assert_eq!((report.stages[0].queue_max, report.packets.in_flight), (10, 0));
}

#[test]
fn a_port_carries_its_line_rate() {
    let target = target("dpdk", 30.0);
    let report = simulate(ECHO, &target, &one(), "", "", 60e6);
    near(report.delivered.pps, 100e9 / 8.0 / 280.0, 0.005);
    assert!(
        report.packets.lost.iter().any(|(place, n)| place == "wire" && *n > 0),
        "{:?}",
        report.packets
    );
}

fn field() -> Steering {
    let field = HeaderField { name: "ip.src".into(), offset: 26, bytes: 4 };
    Steering::Header { fields: vec![PortFields { port: 0, fields: vec![field] }] }
}

/// Sources of the frames that a plan of `TWO` sends, in the order in which its second stage took
/// them, and as they came.
fn sources(target: &Target, plan: &Plan) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let program = program(TWO);
    let traffic =
        || Synthetic::new(spec("flows=64"), Rate::Frames(2e6), Templates::plain(false), 24, 500);
    let mut handlers = InterpHandlers::new(&program, true);
    let report =
        crate::run(target, plan, &program, &mut handlers, &mut traffic(), &Options::default())
            .unwrap();
    assert_eq!((report.packets.sent, report.packets.missing()), (500, 0));
    let out = handlers.outputs().iter().map(|output| match output {
        nicforge_ir::Output::Send { frame, .. } => frame[30..34].to_vec(),
        other => panic!("{other:?}"),
    });
    let mut came = Vec::new();
    let mut again = traffic();
    while crate::Workload::next(&mut again).is_some() {
        came.push(crate::Workload::frame(&again)[26..30].to_vec());
    }
    (out.collect(), came)
}

/// Replicas of the first stage take different times; behind the reorder point packets are in the
/// order they came.
#[test]
fn a_reorder_point_restores_arrival_order() {
    let mut target = target("dpdk", 20.0);
    for costs in target.costs.values_mut() {
        costs.div = 3000.0;
    }
    let stages = vec![("net_recv", 4, Steering::RoundRobin), ("rest", 1, Steering::One)];
    let mut plan = plan(&program(TWO), &target, &stages, "host-l3");
    let (out, came) = sources(&target, &plan);
    assert_eq!(out, came);
    plan.edges[1].reorder = None;
    let (out, came) = sources(&target, &plan);
    assert_ne!(out, came, "without the point the order is another one");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let target = target("agilio-cx", 50.0);
    let stages = vec![("net_recv", 5, field())];
    let once = |seed: u32| {
        let what = format!("flows=500,zipf=1.1,poisson,burst=4,size=imix,seed={seed}");
        let mut report = simulate(COUNT, &target, &stages, "emem", &what, 9e6);
        report.wall_seconds = 0.0;
        report.json().to_string()
    };
    assert_eq!(once(7), once(7));
    assert_ne!(once(7), once(8));
}

/// Slowly fed, the simulator sends what the interpreter sends.
#[test]
fn slow_traffic_gives_the_interpreters_outputs() {
    let target = target("dpdk", 20.0);
    let program = program(TWO);
    let stages = vec![("net_recv", 1, Steering::One), ("rest", 1, Steering::One)];
    let plan = plan(&program, &target, &stages, "host-l3");
    let mut traffic =
        Synthetic::new(spec("flows=9"), Rate::Frames(1e5), Templates::plain(true), 24, 50);
    let mut events = Vec::new();
    while let Some(arrival) = crate::Workload::next(&mut traffic) {
        let frame = crate::Workload::frame(&traffic).to_vec();
        let input = nicforge_ir::Input::Net { port: 0, frame };
        events.push(nicforge_ir::InputEvent {
            time_ns: arrival.time_ns,
            seed: arrival.seed,
            input,
        });
    }
    let mut handlers = InterpHandlers::new(&program, true);
    let mut replay = Replay::new(&program, &events, Timed::Scaled(1.0), 1);
    crate::run(&target, &plan, &program, &mut handlers, &mut replay, &Options::default()).unwrap();
    let mut interp = nicforge_ir::Interp::new(&program);
    let want: Vec<_> = events.iter().flat_map(|event| interp.run(event).unwrap()).collect();
    assert_eq!(handlers.outputs(), want);
}

#[test]
fn full_links_hold_senders_back() {
    let mut target = target("dpdk", 30.0);
    let link = &mut target.links[0];
    (link.depth, link.latency) = (4, Time::of(50.0));
    (link.send_cycles, link.receive_cycles, link.byte_cycles, link.incast_cycles) =
        (0.0, 600.0, 0.0, 0.0);
    let stages = vec![("net_recv", 1, Steering::One), ("rest", 1, Steering::One)];
    let report = simulate(TWO, &target, &stages, "host-l3", "", 10e6);
    // The second stage: 600 cycles, and a read and a write of 18 and 5 ns.
    near(report.delivered.pps, 1e9 / 223.0, 0.005);
    assert!(report.stages[1].queue_max <= 4, "{:?}", report.stages);
    assert_eq!(
        report.packets.lost.len(),
        1,
        "only the receive queue loses: {:?}",
        report.packets.lost
    );
}

#[test]
fn power_follows_the_load() {
    let target = target("dpdk", 300.0);
    let idle = simulate(ECHO, &target, &one(), "", "", 1e5);
    let busy = simulate(ECHO, &target, &one(), "", "", 9.9e6);
    near(busy.power.watts - idle.power.watts, 0.98 * 8.0, 0.02);
}

/// Sums its payload up.
const SUM: &str = "
program sum
event net_recv(pkt: packet) in
event net_send(pkt: packet, port: u32) out
handler net_recv on net_recv(%pkt: packet) {
  %zero: u32 = 0
  %all: u32 = 1500
  %sum: u32 = pkt_csum %pkt, %zero, %all
  emit %pkt, %sum
  generate net_send(%pkt, %zero)
  return
}";

/// Checksums on one engine of 100 cycles a packet: 400 cycles in software, or an accelerator of so
/// many a second.
fn summing(per_second: Option<f64>) -> Target {
    let mut target = target("agilio-cx", 100.0);
    target.units[0].count = 1;
    target.units[0].switch_cycles = 0.0;
    let costs = target.units[0].costs.clone();
    target.costs.get_mut(&costs).unwrap().checksum = 400.0;
    target.accelerators = per_second
        .map(|rate| Accelerator {
            name: "sums".to_string(),
            ops: vec![AcceleratedOp::PacketChecksum],
            units: vec![target.units[0].name.clone()],
            count: 1,
            issue_cycles: 10.0,
            operations: PerSecond::of(rate),
            throughput: BitRate::of(1e12),
            latency: Time::of(100.0),
            queue: 16,
            software: "nf_csum".to_string(),
        })
        .into_iter()
        .collect();
    target
}

#[test]
fn accelerators_take_work_off_units_up_to_their_rate() {
    let run = |per_second| simulate(SUM, &summing(per_second), &one(), "", "", 10e6);
    let software = run(None);
    near(software.delivered.pps, 8e8 / 500.0, 0.01);
    assert!(software.accelerators.is_empty());
    // Threads hide its latency; what is left is the hand-over.
    let fast = run(Some(1e9));
    near(fast.delivered.pps, 8e8 / 110.0, 0.01);
    near(fast.accelerators[0].accesses_per_second, 8e8 / 110.0, 0.01);
    // Its rate is less than what the engine could ask for.
    let slow = run(Some(4e6));
    near(slow.delivered.pps, 4e6, 0.01);
    near(slow.accelerators[0].busy, 1.0, 0.01);
    // Instructions are faster than this one.
    near(run(Some(1e6)).delivered.pps, 8e8 / 500.0, 0.01);
}

/// Where a packet is summed up changes when it leaves and not what it is.
#[test]
fn accelerators_change_times_and_nothing_else() {
    let run = |per_second| simulate(SUM, &summing(per_second), &one(), "", "", 1e5);
    let (software, fast) = (run(None), run(Some(1e9)));
    assert_eq!(
        (software.packets.offered, software.packets.lost),
        (fast.packets.offered, fast.packets.lost)
    );
    near(software.delivered.pps, fast.delivered.pps, 0.001);
    let (slow, quick) = (software.latency.unwrap(), fast.latency.unwrap());
    // 500 cycles against 110 and 101 ns, and the bytes of a frame at a terabit.
    near(slow.mean - quick.mean, 625.0 - 137.5 - 102.0, 0.01);
}
