//! What becomes of packets when the process is gone, and when its queue is full.

use std::time::{Duration, Instant};

use nicforge_codegen::dpdk::{PipeStage, Pipeline};
use nicforge_codegen::{LineStyle, xdp};
use nicforge_ir::{Input, InputEvent, text};

use super::xsk::{BATCH, RECEIVED};
use crate::compile::Mode;
use crate::live::{LiveOptions, LiveOutputs, LiveRun, Session};
use crate::netns::Sandbox;
use crate::xdp::compile_bpf;
use crate::xdp::{LoadOptions, Loaded};

const PROGRAM: &str = "program two ports 2
event net_recv(pkt: packet, port: u32) in
event net_send(pkt: packet, port: u32) out
event second(pkt: packet) internal

handler net_recv on net_recv(%pkt: packet, %port: u32) {
  generate second(%pkt)
  return
}

handler second on second(%pkt: packet) {
  %one: u32 = 1
  generate net_send(%pkt, %one)
  return
}
";

/// The program above with its second handler in so many threads of the process; none without the
/// rights it takes.
fn session(threads: u32) -> Option<Session> {
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!(
            "SKIPPED: this test loads BPF programs and makes network namespaces: run it as root"
        );
        return None;
    }
    let program = text::parse(PROGRAM).unwrap();
    let stages = program.handlers.keys().map(|h| PipeStage {
        handlers: vec![h],
        replicas: if program.handlers[h].name == "second" { threads } else { 1 },
        ordered: false,
        locked: false,
    });
    let pipeline = Pipeline {
        stages: stages.collect(),
        steering: Vec::new(),
        ordered_output: false,
        context: Default::default(),
    };
    let artifact = xdp::generate_split(&program, &pipeline, &[1], LineStyle::Comments).unwrap();
    let includes = [concat!(env!("CARGO_MANIFEST_DIR"), "/../../runtime/xdp").into()];
    let object = compile_bpf("two", &artifact.source, Mode::Live, &includes).unwrap();
    let sandbox = Sandbox::new(2).unwrap();
    let options = LoadOptions { mode: Mode::Live, ifindex: sandbox.ifindex() };
    let loaded = Loaded::load(&program, &artifact, &object, &options).unwrap();
    Some(Session::new(sandbox, loaded, &includes).unwrap())
}

fn run(session: &mut Session, many: usize) -> LiveRun {
    let event =
        InputEvent { time_ns: 0, seed: 0, input: Input::Net { port: 0, frame: vec![7; 60] } };
    let keep_going = &mut |_| true;
    let patience = Duration::from_secs(30);
    let mut options = LiveOptions { window: 64, per_event: false, patience, keep_going };
    session.run(&vec![event; many], &mut options).unwrap_or_else(|e| panic!("{e}"))
}

fn sent(run: &LiveRun) -> usize {
    let LiveOutputs::Streams(streams) = &run.outputs else { panic!("no streams") };
    streams.sent[1].len()
}

/// Packets for a process that is gone end at once, counted; a new one takes over, and nothing else
/// is lost.
#[test]
fn a_process_may_go_and_come_back() {
    for threads in [1, 3] {
        let Some(mut session) = session(threads) else { return };
        assert_eq!(sent(&run(&mut session, 500)), 500);
        let runs = |part: &super::Part| super::lock(&part.counts).runs[1];
        let shared = session.loaded().process().unwrap().shared.clone();
        assert!(shared.parts.iter().all(|part| runs(part) >= 500 / u64::from(threads)), "in turn");
        session.loaded().process().unwrap().stop();
        let without = run(&mut session, 300);
        assert_eq!(sent(&without), 0);
        assert_eq!(
            (without.report.dropped(), without.report.unaccounted),
            (300, 0),
            "{:?}",
            without.report
        );
        assert_eq!(without.report.stages[1].turned_away, 300);
        session.restart_process().unwrap();
        let after = run(&mut session, 500);
        assert_eq!(sent(&after), 500);
        assert_eq!(
            (after.report.dropped(), after.report.unaccounted),
            (0, 0),
            "{:?}",
            after.report
        );
    }
}

/// While nobody takes anything out, a socket keeps what fits into its ring and loses the rest:
/// counted, and the stream goes on behind the gap.
#[test]
fn a_full_queue_loses_what_it_counts() {
    let Some(mut session) = session(1) else { return };
    let many = 2 * RECEIVED as usize;
    let shared = session.loaded().process().unwrap().shared.clone();
    let wait = |done: &dyn Fn() -> bool| {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !done() {
            assert!(Instant::now() < deadline, "nothing moves");
            std::thread::yield_now();
        }
    };
    // The thread stands still with its first batch in hand.
    shared.with_program(0, |_| {
        session.send_only(&vec![&[7; 60][..]; many]).unwrap();
        wait(&|| session.loaded().stage_counts().unwrap()[0].handed >= many as u64);
    });
    wait(&|| session.loaded().process_settled());
    let after = run(&mut session, 100);
    let lost = session.loaded().turned_away()[1];
    let least = (many - RECEIVED as usize - BATCH) as u64;
    assert!((least..=RECEIVED.into()).contains(&lost), "{lost} lost");
    let done = session.loaded().stage_counts().unwrap()[1].packets();
    assert_eq!(done + lost, many as u64 + 100, "{:?}", after.report);
}
