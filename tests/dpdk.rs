//! Programs as real DPDK processes against the interpreter: the examples on one lcore, pipelines of
//! several stages with replicas, steering and restored order, and packets through DPDK's own ports.

use nicforge_codegen::dpdk::{Pipeline, SteerBy, Steering};
use nicforge_ir::generate::events;
use nicforge_ir::{Input, InputEvent, Output, verify};
use nicforge_passes::PassManager;
use nicforge_run::dpdk::{DpdkProgram, Ports, verify_dpdk};
use nicforge_run::pcap;
use nicforge_tests::example::{Example, for_each};
use nicforge_tests::pipes::{event, program, stage};
use nicforge_tests::{dpdk_is_missing, root};

#[test]
fn examples_do_the_same_on_dpdk() {
    if dpdk_is_missing() {
        return;
    }
    for_each(|example| {
        let compiled = PassManager::new()
            .run_default(example.program.clone())
            .unwrap_or_else(|e| panic!("{e}"));
        let pipeline = Pipeline::single(&compiled);
        let (run, differences) =
            verify_dpdk(&example.program, &compiled, &pipeline, &example.entries, &example.events)
                .unwrap_or_else(|e| panic!("{}: {e}", example.name));
        assert!(differences.is_empty(), "{}: {:?}", example.name, differences[0]);
        assert!(
            run.stats.workers.iter().all(|w| w.lost == 0 && w.tx_failed == 0),
            "{:?}",
            run.stats
        );
    });
}

/// Stages with replicas whose tables are sharded by the events' parameters, and packets that leave
/// in order.
#[test]
fn pipelines_keep_state_and_order() {
    if dpdk_is_missing() {
        return;
    }
    let program = program("spread");
    let steer = |name: &str, by| Steering { event: event(&program, name), by };
    let steering = vec![
        steer("count", SteerBy::Params(vec![(1, vec![])])),
        steer("note", SteerBy::Params(vec![(0, vec![0])])),
        steer("net_recv", SteerBy::Frame(vec![(0, 1), (2, 1)])),
    ];
    let (front, count, note, last) = (["net_recv"], ["count"], ["note"], ["last"]);
    for (first, middle, side, ordered) in
        [(1, 1, 1, true), (2, 3, 2, true), (3, 1, 1, false), (1, 4, 1, false)]
    {
        let pipeline = Pipeline {
            stages: vec![
                stage(&program, &front, first, false),
                stage(&program, &count, middle, true),
                stage(&program, &note, side, true),
                stage(&program, &last, 1, true),
            ],
            steering: steering.clone(),
            ordered_output: ordered,
            context: Default::default(),
        };
        let events = events(7, 5000);
        let (run, differences) = verify_dpdk(&program, &program, &pipeline, &[], &events)
            .unwrap_or_else(|e| panic!("{pipeline:?}: {e}"));
        assert!(differences.is_empty(), "{pipeline:?}: {:?}", differences[0]);
        let of_stage = |stage| {
            let workers = run.stats.workers.iter().filter(move |w| w.stage == Some(stage));
            workers.map(|w| w.events).collect::<Vec<u64>>()
        };
        assert_eq!(of_stage(0).iter().sum::<u64>(), 5000);
        let busy = of_stage(1).iter().filter(|events| **events > 100).count();
        assert_eq!(busy as u32, middle, "{:?}: every replica has work", of_stage(1));
    }
}

/// An example by name.
fn example(name: &str) -> Example {
    Example::load(root().join("examples").join(name))
}

/// One handler on several lcores: packets of one flow stay together, and all leave in the order in
/// which they came.
#[test]
fn replicas_share_a_handler() {
    if dpdk_is_missing() {
        return;
    }
    let program = program("per_source");
    let compiled =
        PassManager::new().run_default(program.clone()).unwrap_or_else(|e| panic!("{e}"));
    let by = SteerBy::Frame(vec![(0, 1)]);
    let steering = vec![Steering { event: event(&compiled, "net_recv"), by }];
    let stages = vec![stage(&compiled, &["net_recv"], 3, false)];
    let pipeline = Pipeline { stages, steering, ordered_output: true, context: Default::default() };
    let (run, differences) = verify_dpdk(&program, &compiled, &pipeline, &[], &events(3, 5000))
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(differences.is_empty(), "{:?}", differences[0]);
    let shares: Vec<u64> = run.stats.workers[..3].iter().map(|w| w.events).collect();
    assert!(shares.iter().all(|events| *events > 0), "{shares:?}");
}

/// Packets through DPDK's own drivers: from one capture file into another.
#[test]
fn captures_go_through_ports() {
    if dpdk_is_missing() {
        return;
    }
    let example = example("l2_forward");
    let compiled =
        PassManager::new().run_default(example.program.clone()).unwrap_or_else(|e| panic!("{e}"));
    let mut interp = example.interp();
    let sent =
        example.outputs(&mut interp).into_iter().flatten().filter_map(|output| match output {
            Output::Send { frame, .. } => Some(frame),
            _ => None,
        });
    let want: Vec<Vec<u8>> = sent.collect();
    let dir = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    let out = dir.path().join("out.pcap");
    let (from, to) = (example.folder.join("traffic.pcap"), out.display());
    let vdev = format!("net_pcap0,rx_pcap={},tx_pcap={to}", from.display());
    for replicas in [1, 2] {
        let stages = vec![stage(&compiled, &["net_recv"], replicas, false)];
        let pipeline = Pipeline {
            stages,
            steering: Vec::new(),
            ordered_output: true,
            context: Default::default(),
        };
        let app = DpdkProgram::new(&compiled, &pipeline).unwrap_or_else(|e| panic!("{e}"));
        let count = example.events.len() as u64;
        let ports =
            Ports { vdevs: vec![vdev.clone()], limit: count, longest_frame: 9216, halt: None };
        let run = app.run_ports(&ports, &[]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(run.stats.received, count, "{:?}", run.stats);
        assert_eq!(run.stats.sent[0], want.len() as u64, "{:?}", run.stats);
        let got = pcap::read(&out).unwrap_or_else(|e| panic!("{e}"));
        let got: Vec<Vec<u8>> = got.into_iter().map(|packet| packet.data).collect();
        assert!(want == got, "{replicas} replicas: the frames differ");
    }
}

/// Least recently used entries go, whatever uses, insertions and deletions came before; full tables
/// refuse.
#[test]
fn evictions_are_exact() {
    if dpdk_is_missing() {
        return;
    }
    let options = nicforge_frontend::Options::new(root().join("runtime/include"));
    let path = root().join("tests/programs/small_tables/small_tables.c");
    let output = nicforge_frontend::compile(&path, &options)
        .unwrap_or_else(|e| panic!("{}", e.render(false)));
    let program = verify(output.program).unwrap_or_else(|e| panic!("{e:?}"));
    let compiled =
        PassManager::new().run_default(program.clone()).unwrap_or_else(|e| panic!("{e}"));
    let packet = |i: u32| {
        // Some keys come often, most seldom, and one packet in eleven deletes its key.
        let random = i.wrapping_mul(0x9e37_79b9) >> 8;
        let key = if random.is_multiple_of(3) { random % 20 } else { random % 3000 };
        let mut frame = key.to_le_bytes().to_vec();
        frame.extend(u32::from(i.is_multiple_of(11)).to_le_bytes());
        frame.resize(60, 0);
        InputEvent { time_ns: 0, seed: 0, input: Input::Net { port: 0, frame } }
    };
    let events: Vec<InputEvent> = (0..20_000).map(packet).collect();
    let pipeline = Pipeline::single(&compiled);
    let (run, differences) =
        verify_dpdk(&program, &compiled, &pipeline, &[], &events).unwrap_or_else(|e| panic!("{e}"));
    assert!(differences.is_empty(), "{:?}", differences[0]);
    let evicted: u64 = run.stats.workers.iter().flat_map(|worker| worker.evicted.values()).sum();
    assert!(evicted > 1000, "{evicted}");
}
