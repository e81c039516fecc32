//! Bounds of αIR programs against the reference interpreter with the same costs.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nicforge_bound::air::{self, Lowered};
use nicforge_bound::analysis::{Options, Record, analyse};
use nicforge_bound::graph::Cost;
use nicforge_bound::method::Method;
use nicforge_bound::replay;
use nicforge_bound::search::{By, Machine};
use nicforge_bound::unit::Unit;
use nicforge_ir::interp::{BodyOf, Interp, Step, Tracer};
use nicforge_ir::verify::{Verified, verify};
use nicforge_ir::{HandlerId, Input, InputEvent, InstId, Program, generate, text};
use nicforge_passes::PassManager;
use nicforge_target::cost::{Traffic, handler_cost};

/// Different for neighbouring instructions, so that taking the wrong one shows.
fn odd_cost(_: HandlerId, inst: InstId) -> f64 {
    f64::from(1 + inst.as_u32().wrapping_mul(2_654_435_761) % 17)
}

fn entry(program: &Program) -> HandlerId {
    program.event_named("net_recv").and_then(|event| program.handler_of(event)).unwrap()
}

/// The slowest packet in cycles, and the program in the block language.
fn bound(
    program: &Program,
    sizes: (u64, u64),
    cost: &dyn Fn(HandlerId, InstId) -> f64,
) -> (Record, Lowered) {
    let cost = |handler: HandlerId, inst: InstId| Cost::fraction(cost(handler, inst));
    let lowered = air::graph(program, entry(program), &cost).unwrap();
    let machine = Machine { base_cycles: 0.0, cores: 1.0, hz: 1.0, port_pps: None, port_bps: None };
    (slowest(&lowered, sizes, machine), lowered)
}

fn slowest(lowered: &Lowered, sizes: (u64, u64), machine: Machine) -> Record {
    let options = Options {
        machine,
        sizes,
        by: vec![By::PacketRate],
        required: None,
        top: 0,
        all: false,
        unroll: None,
        timeout: Some(Duration::from_secs(20)),
        given: Vec::new(),
        method: Method::Default,
        path: None,
    };
    let stop = Arc::new(AtomicBool::new(false));
    let report = analyse(lowered.graph.clone(), &options, stop, &mut |_, _| {}).unwrap();
    report.records[0].clone()
}

struct Count(f64);

impl Tracer for Count {
    fn op(&mut self, step: &Step) {
        if let BodyOf::Handler(handler) = step.body {
            self.0 += odd_cost(handler, step.id);
        }
    }
}

fn cycles(interp: &mut Interp, event: &InputEvent) -> f64 {
    let mut count = Count(0.0);
    interp.run_traced(event, &mut count).unwrap();
    count.0
}

fn frame(frame: Vec<u8>) -> InputEvent {
    InputEvent { time_ns: 1, seed: 1, input: Input::Net { port: 0, frame } }
}

fn prepared(program: Verified<Program>) -> Verified<Program> {
    PassManager::new().run_default(program).unwrap()
}

fn parsed(body: &str) -> Verified<Program> {
    let head = "program p ports 1
        event net_recv(pkt: packet) in
        event net_send(pkt: packet, port: u32) out
        event stack_recv(pkt: packet) out
        event then(pkt: packet, x: u32) internal
        const squares: u16 = [0, 1, 4, 9, 16, 25, 36, 49]
        reason \"no\"";
    verify(text::parse(&format!("{head} {body}")).unwrap()).unwrap()
}

/// No packet of a random program takes longer than the bound; where nothing is unknown, its own
/// packet takes just as long.
fn check_random(seeds: std::ops::Range<u64>, kind: generate::Options, least: u32) {
    let mut exact = 0;
    for seed in seeds {
        let program = prepared(generate::generate(seed, kind));
        let (record, lowered) = bound(&program, (0, 100), &odd_cost);
        let mut interp = Interp::new(&program);
        for event in generate::events(seed, 300) {
            let took = cycles(&mut interp, &event);
            assert!(
                took <= record.bound + 1e-9,
                "seed {seed}: {took} > {}, {event:?}",
                record.bound
            );
        }
        // The generator hashes results to show them; no branch depends on that.
        if lowered.unknown.iter().all(|(_, what)| *what == "a hash") && record.exact {
            let packet = record.slowest.unwrap().witness.packet;
            let took = cycles(&mut Interp::new(&program), &frame(packet.clone()));
            assert_eq!(took, record.bound, "seed {seed}: {packet:02x?}");
            exact += 1;
        }
    }
    assert!(exact >= least, "{exact} with a packet that takes as long as the bound says");
}

#[test]
fn random_programs_never_take_longer() {
    check_random(0..60, generate::Options::ALL, 18);
}

#[test]
fn random_arithmetic_never_takes_longer() {
    check_random(0..60, generate::Options::ARITHMETIC, 60);
}

#[test]
fn impossible_ways_do_not_count() {
    let program = parsed(
        "handler net_recv on net_recv(%pkt: packet) {
          %ok: u1, %x: u32 = extract %pkt
          %seven: u32 = int 7
          %three: u32 = int 3
          %big: u1 = gt %x, %seven
          if %big { %a: u32 = random %b: u32 = random yield } else { yield }
          %small: u1 = lt %x, %three
          if %small { %c: u32 = random %d: u32 = random yield } else { yield }
          drop %pkt, \"no\"
          return
        }",
    );
    let cost =
        |handler: HandlerId, inst: InstId| match &program.handlers[handler].body.insts[inst].op {
            op if op.draws() => 100.0,
            _ => 0.0,
        };
    let (record, _) = bound(&program, (60, 1500), &cost);
    assert!(record.exact);
    assert_eq!((record.naive, record.bound), (400.0, 200.0));
}

#[test]
fn loops_take_as_many_trips_as_a_packet_can_make_them() {
    let program = parsed(
        "handler net_recv on net_recv(%pkt: packet) {
          %zero: u32 = int 0
          %one: u32 = int 1
          %ok: u1, %most: u8 = extract %pkt
          %fifth: u8 = int 5
          %times: u8 = rem %most, %fifth
          %limit: u32 = cast %times
          loop 20 (%i: u32 = %zero) -> (%n: u32) {
            %end: u1 = ge %i, %limit
            if %end { break 0(%i) } else { yield }
            %square: u16 = const_elem squares[%i]
            %next: u32 = add %i, %one
            continue 0(%next)
          }
          drop %pkt, \"no\"
          return
        }",
    );
    let cost =
        |handler: HandlerId, inst: InstId| match &program.handlers[handler].body.insts[inst].op {
            op if op.work() == nicforge_ir::Work::Element => 1.0,
            _ => 0.0,
        };
    let (record, _) = bound(&program, (60, 1500), &cost);
    assert!(record.exact);
    assert_eq!(record.bound, 4.0);
}

#[test]
fn a_packets_way_goes_on_in_the_handler_it_is_sent_to() {
    let program = parsed(
        "handler net_recv on net_recv(%pkt: packet) {
          %ok: u1, %x: u32 = extract %pkt
          if %ok { generate then(%pkt, %x) return } else { drop %pkt, \"no\" return }
          return
        }
        handler then on then(%pkt: packet, %x: u32) {
          %ok: u1, %y: u32 = extract %pkt
          %same: u1 = eq %x, %y
          if %same { generate stack_recv(%pkt) return } else { drop %pkt, \"no\" return }
          return
        }",
    );
    let (record, lowered) = bound(&program, (0, 100), &odd_cost);
    assert!(record.exact && lowered.unknown.is_empty());
    let packet = record.slowest.unwrap().witness.packet;
    assert_eq!(cycles(&mut Interp::new(&program), &frame(packet)), record.bound);
}

#[test]
fn calls_are_refused_by_place() {
    let program = parsed(
        "func f() { return }
        handler net_recv on net_recv(%pkt: packet) { call f() drop %pkt, \"no\" return }",
    );
    let refused = air::graph(&program, entry(&program), &|_, _| Cost::default()).unwrap_err();
    assert_eq!(refused.to_string(), "p: a call of `f`; inline functions first");
}

#[test]
fn examples_have_exact_answers() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for name in ["l2_forward", "flow_stats", "nf_chain"] {
        let source = root.join("examples").join(name).join(name).with_extension("c");
        let options = nicforge_frontend::Options::new(root.join("runtime/include"));
        let Ok(output) = nicforge_frontend::compile(&source, &options) else {
            panic!("{name} compiles")
        };
        let program = prepared(verify(output.program).unwrap());
        // Arm cores without threads, and micro-engines that hide latency.
        for target in ["bluefield2", "agilio-cx"] {
            let target = nicforge_target::find(target).unwrap();
            let unit = Unit::alone(&program, &target, 1500).unwrap();
            assert_eq!(unit.units > 1, name == "l2_forward", "{name} has state or not");
            let lowered = unit.graph(entry(&program)).unwrap();
            let record = slowest(&lowered, (60, 1500), unit.machine());
            assert!(record.exact, "{name} on {}", target.name);
            let found = record.slowest.unwrap();
            replay::air(&program, &lowered, &found.witness).unwrap();
            // What is expected of the same program is never more than the worst case.
            let traffic = Traffic { frame_bytes: 60, ..Traffic::default() };
            let costs = &target.costs[&unit.group.costs];
            let expected =
                handler_cost(&program, entry(&program), costs, traffic).cycles + costs.receive;
            assert!(found.witness.work.milli as f64 / 1e3 >= expected, "{name} on {}", target.name);
        }
    }
}
