//! What becomes of packets when a worker dies, a queue is full, or keys are skewed: each is counted
//! somewhere, and order is kept where the pipeline says so.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use nicforge_codegen::dpdk::{Pipeline, SteerBy, Steering};
use nicforge_ir::generate::events;
use nicforge_ir::text::parse;
use nicforge_ir::{Input, InputEvent, Program, Verified, verify};
use nicforge_passes::PassManager;
use nicforge_run::dpdk::{DpdkProgram, DpdkStats, Ports, verify_dpdk};
use nicforge_tests::dpdk_is_missing;
use nicforge_tests::pipes::{endless, event, program, stage};

/// Packets received, and packets of which is known what became of them.
fn balance(stats: &DpdkStats) -> (u64, u64) {
    let refused: u64 =
        stats.workers.iter().map(|worker| worker.tx_failed + worker.lost + worker.overrun).sum();
    let left = stats.sent.iter().sum::<u64>() + stats.to_stack + stats.to_host;
    (stats.received, left + stats.dropped() + stats.no_port + refused + stats.stranded)
}

fn spread_pipeline(program: &Program) -> Pipeline {
    let steer = |name: &str, by| Steering { event: event(program, name), by };
    Pipeline {
        stages: vec![
            stage(program, &["net_recv"], 2, false),
            stage(program, &["count"], 2, true),
            stage(program, &["note"], 1, true),
            stage(program, &["last"], 1, true),
        ],
        steering: vec![
            steer("net_recv", SteerBy::Frame(vec![(0, 1)])),
            steer("count", SteerBy::Params(vec![(1, vec![])])),
        ],
        ordered_output: true,
        context: Default::default(),
    }
}

/// Each of six workers in turn ends in the middle of the traffic: the run ends by itself, says
/// which worker it was, and what had come in and did not go out was in flight.
#[test]
fn a_dead_worker_loses_nothing_silently() {
    if dpdk_is_missing() {
        return;
    }
    let program = program("spread");
    let app =
        DpdkProgram::new(&program, &spread_pipeline(&program)).unwrap_or_else(|e| panic!("{e}"));
    let dir = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    let vdevs = vec![endless(dir.path()), "net_null1,no-rx=1".to_string()];
    let limit = 20_000;
    let mut ports = Ports { vdevs, limit, longest_frame: 2048, halt: None };
    let run = app.run_ports(&ports, &[]).unwrap_or_else(|e| panic!("{e}"));
    let (received, known) = balance(&run.stats);
    assert_eq!(received, known, "{:?}", run.stats);
    assert!(
        received >= limit && run.stats.stranded == 0 && run.stats.workers.iter().all(|w| !w.gone)
    );
    let mut all_in_flight = 0;
    for worker in 0..6 {
        ports.halt = Some((worker, 500));
        let run = app.run_ports(&ports, &[]).unwrap_or_else(|e| panic!("worker {worker}: {e}"));
        let (received, known) = balance(&run.stats);
        assert_eq!(received, known, "worker {worker}: {:?}", run.stats);
        assert!((500..limit).contains(&received), "worker {worker}: {received}");
        let gone: Vec<usize> = run
            .stats
            .workers
            .iter()
            .enumerate()
            .filter(|(_, w)| w.gone)
            .map(|(at, _)| at)
            .collect();
        assert_eq!(gone, [worker as usize]);
        let in_flight = run.stats.stranded + run.stats.stranded_events;
        let named = run
            .stats
            .losses()
            .iter()
            .any(|(why, count)| why.contains("in flight") && *count == in_flight);
        assert_eq!(named, in_flight > 0, "{:?}", run.stats.losses());
        all_in_flight += in_flight;
    }
    // One worker may be so lucky as to die with empty hands, hardly all of them.
    assert!(all_in_flight > 0);
}

/// Everything goes into a ring port that gives all of it back: soon it is full, and what it does
/// not take is counted.
#[test]
fn a_full_queue_loses_nothing_silently() {
    if dpdk_is_missing() {
        return;
    }
    let text = "program pile ports 2\n\
        event net_recv(pkt: packet) in\n\
        event net_send(pkt: packet, port: u32) out\n\
        handler net_recv on net_recv(%pkt: packet) {\n\
        \x20 %one: u32 = 1\n\
        \x20 generate net_send(%pkt, %one)\n\
        \x20 return\n\
        }\n";
    let program: Verified<Program> = verify(parse(text).unwrap_or_else(|e| panic!("{e}")))
        .unwrap_or_else(|e| panic!("{}", e[0]));
    let dir = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    for replicas in [1, 2] {
        let stages = vec![stage(&program, &["net_recv"], replicas, false)];
        let pipeline = Pipeline {
            stages,
            steering: Vec::new(),
            ordered_output: false,
            context: Default::default(),
        };
        let app = DpdkProgram::new(&program, &pipeline).unwrap_or_else(|e| panic!("{e}"));
        let vdevs = vec![endless(dir.path()), "net_ring0".to_string()];
        let ports = Ports { vdevs, limit: 20_000, longest_frame: 2048, halt: None };
        let run = app.run_ports(&ports, &[]).unwrap_or_else(|e| panic!("{e}"));
        let (received, known) = balance(&run.stats);
        assert_eq!(received, known, "{:?}", run.stats);
        let refused: u64 = run.stats.workers.iter().map(|worker| worker.tx_failed).sum();
        assert!(refused > 0, "{:?}", run.stats);
        assert!(
            run.stats.losses().contains(&("not taken by a port", refused)),
            "{:?}",
            run.stats.losses()
        );
    }
}

/// Four of five frames have the same key.
fn skewed(count: usize) -> Vec<InputEvent> {
    let mut list = events(11, count);
    for (i, event) in list.iter_mut().enumerate() {
        if let Input::Net { frame, .. } = &mut event.input {
            frame.resize(frame.len().max(60), 0);
            frame[0] = if i % 5 < 4 { 1 } else { (i / 5) as u8 };
        }
    }
    list
}

/// Receive-side scaling of skewed keys: one replica has most of the work, the others run ahead of
/// it, and still everything leaves in the order in which it came; without that demand the packets
/// of each key do.
#[test]
fn skewed_keys_keep_their_order() {
    if dpdk_is_missing() {
        return;
    }
    let program = program("per_source");
    let compiled =
        PassManager::new().run_default(program.clone()).unwrap_or_else(|e| panic!("{e}"));
    let list = skewed(6000);
    let key = |at: usize| match &list[at].input {
        Input::Net { frame, .. } => frame[0],
        Input::Host { .. } | Input::Tick { .. } => 0,
    };
    for ordered_output in [true, false] {
        let steering = vec![Steering {
            event: event(&compiled, "net_recv"),
            by: SteerBy::Frame(vec![(0, 1)]),
        }];
        let stages = vec![stage(&compiled, &["net_recv"], 3, false)];
        let pipeline = Pipeline { stages, steering, ordered_output, context: Default::default() };
        let (run, differences) = verify_dpdk(&program, &compiled, &pipeline, &[], &list)
            .unwrap_or_else(|e| panic!("{e}"));
        assert!(differences.is_empty(), "{:?}", differences[0]);
        let shares: Vec<u64> = run.stats.workers[..3].iter().map(|worker| worker.events).collect();
        let most = shares.iter().max().copied().unwrap_or(0);
        assert!(most > 4700 && shares.iter().all(|events| *events > 100), "{shares:?}");
        let mut last: HashMap<u8, usize> = HashMap::new();
        let mut before = None;
        for departure in &run.departures {
            let of_key = last.insert(key(departure.event), departure.event);
            assert!(of_key < Some(departure.event), "event {} left late", departure.event);
            assert!(
                !ordered_output || before < Some(departure.event),
                "event {} left late",
                departure.event
            );
            before = Some(departure.event);
        }
        assert!(run.departures.len() > 4000, "{}", run.departures.len());
    }
}

/// The same through stages with replicas steered by something else than what the frames were spread
/// by: order is restored in between.
#[test]
fn skewed_keys_keep_their_order_through_stages() {
    if dpdk_is_missing() {
        return;
    }
    let program = program("spread");
    let mut pipeline = spread_pipeline(&program);
    pipeline.stages[0].replicas = 3;
    pipeline.steering[0].by = SteerBy::Frame(vec![(1, 1)]);
    let (run, differences) = verify_dpdk(&program, &program, &pipeline, &[], &skewed(6000))
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(differences.is_empty(), "{:?}", differences[0]);
    assert!(run.departures.windows(2).all(|pair| pair[0].event < pair[1].event));
    assert_eq!(run.departures.len(), 6000);
}

const DIVIDED: &str = "program divided ports 1
table seen: array[u32 -> u64] capacity 4
event net_recv(pkt: packet) in
event net_send(pkt: packet, port: u32) out
event work(pkt: packet, first: u8) internal

handler net_recv on net_recv(%pkt: packet) {
  %ok: u1, %first: u8 = extract %pkt
  generate work(%pkt, %first)
  return
}

handler work on work(%pkt: packet, %first: u8) side host {
  %zero: u32 = 0
  %one: u64 = 1
  commute add seen[%zero], %one
  emit %pkt, %first
  generate net_send(%pkt, %zero)
  return
}
";

/// A queue has the room it says: what comes on top waits, or is lost and counted, and a comparison
/// loses nothing.
#[test]
fn a_queue_has_the_room_it_says() {
    if dpdk_is_missing() {
        return;
    }
    let run = |room: &str| {
        let text = DIVIDED.replace(" side host {", &format!("{room} {{"));
        let program = verify(parse(&text).unwrap_or_else(|e| panic!("{e}")))
            .unwrap_or_else(|e| panic!("{}", e[0]));
        let pipeline = two_stages(&program);
        let app = DpdkProgram::new(&program, &pipeline).unwrap_or_else(|e| panic!("{e}"));
        let dir = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
        let out =
            format!("{},tx_pcap={}", endless(dir.path()), dir.path().join("out.pcap").display());
        let ports = Ports { vdevs: vec![out], limit: 10_000, longest_frame: 1514, halt: None };
        let run = app.run_ports(&ports, &[]).unwrap_or_else(|e| panic!("{e}"));
        let (received, known) = balance(&run.stats);
        assert_eq!((received, run.stats.stranded), (known, 0), "{:?}", run.stats);
        let seen = &run.tables[&program.table_named("seen").unwrap()][0].value;
        let overrun: u64 = run.stats.workers.iter().map(|worker| worker.overrun).sum();
        assert_eq!(
            u64::from_le_bytes(seen[..8].try_into().unwrap()) + overrun,
            received,
            "{:?}",
            run.stats
        );
        let frame = |n: u64| Input::Net { port: 0, frame: vec![n as u8; 60] };
        let list: Vec<InputEvent> =
            (0..100).map(|n| InputEvent { time_ns: n, seed: 0, input: frame(n) }).collect();
        let (compared, differences) = verify_dpdk(&program, &program, &pipeline, &[], &list)
            .unwrap_or_else(|e| panic!("{e}"));
        assert!(differences.is_empty(), "{differences:?}");
        assert_eq!(compared.stats.workers.iter().map(|worker| worker.overrun).sum::<u64>(), 0);
        let full: u64 = run.stats.workers.iter().map(|worker| worker.full).sum();
        (overrun, received, full, run.stats.workers[1].depth)
    };
    // Bursts of 32 come at once.
    let (lost, received, ..) = run(" room 4 loses");
    assert!(lost > 0 && lost < received, "{lost} of {received}");
    let (lost, _, full, depth) = run(" room 4 waits");
    assert!(lost == 0 && full > 0 && depth <= 4, "{full} times full, {depth} entries");
}

/// The process with the host's stages is killed in the middle of the traffic and started again: the
/// other one waits, and nothing is lost but what had been taken out of a queue.
#[test]
fn a_host_process_may_be_killed_and_come_back() {
    if dpdk_is_missing() {
        return;
    }
    let (program, pipeline) = divided();
    let app = DpdkProgram::new(&program, &pipeline)
        .and_then(DpdkProgram::apart)
        .unwrap_or_else(|e| panic!("{e}"));
    let dir = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    let out = format!("{},tx_pcap={}", endless(dir.path()), dir.path().join("out.pcap").display());
    let ports = Ports { vdevs: vec![out], limit: 40_000, longest_frame: 1514, halt: None };
    let mut nic = app.command(dir.path(), &ports, &[]).unwrap_or_else(|e| panic!("{e}"));
    let mut nic = nic.spawn().unwrap_or_else(|e| panic!("{e}"));
    let host = || {
        let mut command =
            app.host_command(dir.path(), "1514", false).unwrap_or_else(|e| panic!("{e}"));
        command.spawn().unwrap_or_else(|e| panic!("{e}"))
    };
    // Counters are in the first bytes of the file between both.
    let counters = || {
        let mut bytes = [0; 1024];
        let file = std::fs::File::open(dir.path().join("far"));
        file.and_then(|file| {
            std::os::unix::fs::FileExt::read_at(&file, &mut bytes, 0).map(|_| bytes)
        })
        .ok()
    };
    let moves = |from: Option<[u8; 1024]>| {
        let deadline = Instant::now() + Duration::from_secs(300);
        while counters() == from {
            assert!(Instant::now() < deadline, "nothing moves");
            std::thread::yield_now();
        }
    };
    let mut last = host();
    moves(None);
    for _ in 0..3 {
        // Twice: the first change may be that it attached.
        (0..2).for_each(|_| moves(counters()));
        last.kill().unwrap_or_else(|e| panic!("{e}"));
        last.wait().unwrap_or_else(|e| panic!("{e}"));
        last = host();
    }
    assert!(nic.wait().unwrap_or_else(|e| panic!("{e}")).success());
    assert!(last.wait().unwrap_or_else(|e| panic!("{e}")).success());
    let run = app.results(dir.path(), &[]).unwrap_or_else(|e| panic!("{e}"));
    let lost: u64 = run.stats.workers.iter().map(|worker| worker.lost).sum();
    let (received, known) = balance(&run.stats);
    assert_eq!((received, run.stats.stranded), (40_000, 0), "{:?}", run.stats);
    assert!(lost <= 3, "one that was taken each time: {:?}", run.stats);
    assert!((received..=received + 3).contains(&known), "{:?}", run.stats);
    // Its table began anew.
    let seen = &run.tables[&program.table_named("seen").unwrap()][0].value;
    let seen = u64::from_le_bytes(seen[..8].try_into().unwrap());
    assert!((1..40_000).contains(&seen), "{seen}");
}

/// A message that nothing comes behind crosses, and so does its answer.
#[test]
fn a_message_alone_does_not_wait_for_others() {
    if dpdk_is_missing() {
        return;
    }
    let (program, pipeline) = divided();
    let app = DpdkProgram::new(&program, &pipeline).and_then(DpdkProgram::apart);
    let mut app = app.unwrap_or_else(|e| panic!("{e}"));
    for device in [None, Some("dma_skeleton0")] {
        app = app.with_dma(device);
        let input = Input::Net { port: 0, frame: vec![7; 60] };
        let event = InputEvent { time_ns: 0, seed: 0, input };
        let run = app.run(&[event], &[]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((run.outputs[0].len(), run.stats.stranded), (1, 0), "{run:?}");
        let link = run.stats.link;
        assert_eq!((link.moved, link.commands, link.device), (1, 1, device.is_some()), "{run:?}");
    }
}

/// A program of which a part runs on the host, and its pipeline.
fn divided() -> (Verified<Program>, Pipeline) {
    let program = verify(parse(DIVIDED).unwrap_or_else(|e| panic!("{e}")))
        .unwrap_or_else(|e| panic!("{}", e[0]));
    let pipeline = two_stages(&program);
    (program, pipeline)
}

fn two_stages(program: &Program) -> Pipeline {
    Pipeline {
        stages: vec![stage(program, &["net_recv"], 1, false), stage(program, &["work"], 1, false)],
        steering: Vec::new(),
        ordered_output: false,
        context: Default::default(),
    }
}
