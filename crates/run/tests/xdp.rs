//! Loading, test runs, tables, costs, and what refused programs say.

mod common;

use common::{Fixture, can_load, fixture, frame, includes, net};
use nicforge_ir::{Entry, Input, InputEvent, Match, Output, TableBackend, TableError, TableId};
use nicforge_run::Fault;
use nicforge_run::compile::Mode;
use nicforge_run::xdp::compile_bpf;
use nicforge_run::xdp::{LoadOptions, Loaded, XdpError, bench};

fn exact(key: &[u8], value: &[u8]) -> Entry {
    Entry { key: key.to_vec(), matching: Match::Exact, value: value.to_vec(), buf: None }
}

#[test]
fn every_verdict_of_a_test_run() {
    if !can_load() {
        return;
    }
    let f = fixture();
    let loaded = f.load(Mode::Replay, vec![]);
    let run = |port, ether_type| loaded.test_run(&net(port, frame(ether_type, 1)));
    let sent = |port, ether_type| Output::Send { port, frame: frame(ether_type, 1) };

    assert_eq!(run(0, 0x0800).unwrap(), [sent(1, 0x0800)]);
    assert_eq!(run(1, 0x0800).unwrap(), [sent(0, 0x0800)]);
    assert_eq!(run(0, 0x0806).unwrap(), [Output::Stack { frame: frame(0x0806, 1) }]);
    assert_eq!(run(0, 0xdea1).unwrap(), [Output::Drop { reason: f.unwanted }]);
    assert_eq!(
        run(0, 0xbee1).unwrap(),
        [Output::HostPacket { frame: frame(0xbee1, 1)[..14].to_vec() }]
    );
    let log = Output::Log { text: "port 1 at 1234".into() };
    let dma = Output::DmaWrite { addr: 0x1000, data: frame(0, 1)[..6].to_vec() };
    assert_eq!(run(1, 0xbee2).unwrap(), [log, dma, sent(1, 0xbee2)]);
    let [Output::Send { frame: grown, .. }] = &run(0, 0xc0de).unwrap()[..] else { panic!() };
    assert_eq!(grown[8..], frame(0xc0de, 1));
    assert!(matches!(run(0, 0xdea2), Err(XdpError::NoRoom(text)) if text == "no room for headers"));

    let message = InputEvent {
        input: Input::Host { message: vec![5, 0, 0, 0, 0, 0, 0, 9] },
        ..net(0, vec![])
    };
    let echoed = Output::HostMessage { bytes: vec![6, 0, 0, 0, 0, 0, 0, 9] };
    assert_eq!(loaded.test_run(&message).unwrap(), [echoed]);

    let counts: Vec<(String, u64)> =
        loaded.drops().into_iter().map(|(_, text, count)| (text, count)).collect();
    assert_eq!(counts, [("unwanted".into(), 1), ("no room for headers".into(), 1)]);
}

#[test]
fn events_a_program_cannot_be_given() {
    if !can_load() {
        return;
    }
    let loaded = fixture().load(Mode::Replay, vec![]);
    let refused = |event: InputEvent| loaded.test_run(&event).unwrap_err();
    let message = refused(net(0, vec![0; 13])).to_string();
    assert_eq!(message, "a frame of 13 bytes: the kernel takes frames of 14 to 3520 bytes here");
    assert!(loaded.test_run(&net(0, vec![0; 14])).is_ok());
    assert!(loaded.test_run(&net(0, vec![0; 3520])).is_ok());
    assert!(matches!(refused(net(0, vec![0; 3521])), XdpError::FrameLength { .. }));
    assert_eq!(refused(net(2, frame(0, 0))).to_string(), "port 2: the program has ports 0 to 1");
}

#[test]
fn tables_of_every_shape() {
    if !can_load() {
        return;
    }
    let f = fixture();
    let loaded = f.load(Mode::Replay, vec![]);
    let mut tables = loaded.tables();
    for source in 1..=6 {
        loaded.test_run(&net(0, frame(0x0800, source))).unwrap();
    }
    // hash: four fit, two were refused and counted.
    let hits = tables.dump(f.hits).unwrap();
    let value = [&1u64.to_le_bytes()[..], &60u32.to_le_bytes(), &[0; 4]].concat();
    assert_eq!(hits, (1..=4u32).map(|key| exact(&key.to_le_bytes(), &value)).collect::<Vec<_>>());
    assert_eq!(loaded.refused()[0], (f.hits, 2));
    let fifth = exact(&9u32.to_le_bytes(), &value);
    assert_eq!(
        tables.set(f.hits, &fifth),
        Err(TableError::Full { table: "hits".into(), capacity: 4 })
    );
    assert!(tables.delete(f.hits, &1u32.to_le_bytes(), &Match::Exact).unwrap());
    assert!(!tables.delete(f.hits, &1u32.to_le_bytes(), &Match::Exact).unwrap());
    tables.set(f.hits, &fifth).unwrap();
    assert_eq!(tables.get(f.hits, &fifth.key, &Match::Exact).unwrap(), Some(fifth));

    // array: counted by the program, dumps skip zeros, deleting zeroes.
    assert_eq!(tables.dump(f.slots).unwrap(), [exact(&0u32.to_le_bytes(), &6u32.to_le_bytes())]);
    tables.set(f.slots, &exact(&7u32.to_le_bytes(), &[1, 0, 0, 0])).unwrap();
    assert!(tables.delete(f.slots, &0u32.to_le_bytes(), &Match::Exact).unwrap());
    assert_eq!(tables.dump(f.slots).unwrap().len(), 1);
    let beyond = tables.set(f.slots, &exact(&8u32.to_le_bytes(), &[1, 0, 0, 0]));
    assert_eq!(
        beyond,
        Err(TableError::OutOfRange { table: "slots".into(), index: 8, capacity: 8 })
    );

    // per CPU: the sum is read, writing replaces the sum.
    let key = 1u32.to_le_bytes();
    assert_eq!(tables.dump(f.total).unwrap(), [exact(&key, &360u64.to_le_bytes())]);
    tables.set(f.total, &exact(&key, &5u64.to_le_bytes())).unwrap();
    loaded.test_run(&net(0, frame(0x0806, 1))).unwrap();
    assert_eq!(tables.dump(f.total).unwrap(), [exact(&key, &65u64.to_le_bytes())]);
    assert_eq!(
        tables.get(f.hits, &[1], &Match::Exact).unwrap_err().to_string(),
        "table `hits`: its keys have 4 bytes, 1 were given"
    );

    lpm(&mut tables, &f);
    ternary(&mut tables, f.acl);

    // byte strings
    let text = Entry { buf: Some(b"hello".to_vec()), ..exact(&key, &[7, 0]) };
    tables.set(f.texts, &text).unwrap();
    assert_eq!(tables.dump(f.texts).unwrap(), std::slice::from_ref(&text));
    let long = Entry { buf: Some(b"hello!!".to_vec()), ..text };
    assert!(
        tables
            .set(f.texts, &long)
            .unwrap_err()
            .to_string()
            .contains("at most 6 bytes, 7 were given")
    );
}

fn lpm(tables: &mut dyn TableBackend, f: &Fixture) {
    let route = |key: [u8; 4], bits, value: u32| Entry {
        matching: Match::Prefix(bits),
        ..exact(&key, &value.to_le_bytes())
    };
    tables.set(f.routes, &route([10, 1, 2, 3], 8, 1)).unwrap();
    tables.set(f.routes, &route([10, 1, 0, 0], 16, 2)).unwrap();
    let expected = [route([10, 0, 0, 0], 8, 1), route([10, 1, 0, 0], 16, 2)];
    assert_eq!(tables.dump(f.routes).unwrap(), expected, "bits behind the prefix are cleared");
    assert_eq!(
        tables.get(f.routes, &[10, 9, 9, 9], &Match::Prefix(8)).unwrap(),
        Some(expected[0].clone())
    );
    assert_eq!(
        tables.get(f.routes, &[10, 1, 0, 0], &Match::Prefix(24)).unwrap(),
        None,
        "no longest match"
    );
    assert!(tables.delete(f.routes, &[10, 1, 9, 9], &Match::Prefix(16)).unwrap());
    assert!(!tables.delete(f.routes, &[10, 1, 9, 9], &Match::Prefix(16)).unwrap());
    assert!(
        tables
            .set(f.routes, &exact(&[1; 4], &[0; 4]))
            .unwrap_err()
            .to_string()
            .contains("needs a prefix")
    );
    assert!(
        tables
            .get(f.routes, &[1; 4], &Match::Prefix(33))
            .unwrap_err()
            .to_string()
            .contains("have 32 bits")
    );
}

fn ternary(tables: &mut dyn TableBackend, acl: TableId) {
    let rule = |key: [u8; 2], priority, value| Entry {
        matching: Match::Mask { mask: vec![0xff, 0], priority },
        ..exact(&key, &[value])
    };
    for (key, priority, value) in [([1, 9], 5, 1), ([2, 0], 9, 2), ([3, 0], 5, 3), ([4, 0], 1, 4)] {
        tables.set(acl, &rule(key, priority, value)).unwrap();
    }
    assert_eq!(
        tables.set(acl, &rule([5, 0], 1, 5)),
        Err(TableError::Full { table: "acl".into(), capacity: 4 })
    );
    tables.set(acl, &rule([3, 7], 5, 33)).unwrap();
    let expected =
        [rule([1, 0], 5, 1), rule([2, 0], 9, 2), rule([3, 0], 5, 33), rule([4, 0], 1, 4)];
    assert_eq!(tables.dump(acl).unwrap(), expected);
    assert!(tables.delete(acl, &[2, 0], &rule([2, 0], 9, 0).matching).unwrap());
    assert!(!tables.delete(acl, &[2, 0], &rule([2, 0], 9, 0).matching).unwrap());
    assert_eq!(tables.dump(acl).unwrap().len(), 3);
}

#[test]
fn a_refused_program_names_the_users_line() {
    if !can_load() {
        return;
    }
    let f = fixture();
    let source = include_str!("fixtures/refused.bpf.c");
    let object = compile_bpf("refused", source, Mode::Live, &includes()).unwrap();
    let options = LoadOptions { mode: Mode::Live, ifindex: vec![] };
    let Err(error) = Loaded::load(&f.program, &f.artifact, &object, &options) else {
        panic!("it was loaded")
    };
    assert_eq!(error.fault(), Fault::User);
    let XdpError::Refused { source_line, reason, log_path, program } = &error else {
        panic!("{error}")
    };
    assert_eq!(source_line.as_ref().unwrap(), &("user.c".to_string(), 31));
    assert_eq!(program, "nf_net_recv");
    assert!(reason.contains("outside of the packet"), "{reason}");
    assert!(std::fs::read_to_string(log_path).unwrap().contains("user.c:31"));
    std::fs::remove_file(log_path).unwrap();
}

#[test]
fn an_object_that_does_not_fit_the_artifact_is_an_internal_error() {
    if !can_load() {
        return;
    }
    let mut f = fixture();
    f.program.tables[f.slots].value = nicforge_ir::Type::U64;
    let options = LoadOptions { mode: Mode::Live, ifindex: vec![] };
    let Err(error) = Loaded::load(&f.program, &f.artifact, &f.object(Mode::Live), &options) else {
        panic!()
    };
    let expected =
        "table `slots`: map `slots` has keys of 4 and values of 4 bytes, 4 and 8 were expected";
    assert!(error.to_string().ends_with(expected), "{error}");
    assert!(Loaded::load(&f.program, &f.artifact, b"\x7fELF", &options).is_err());
}

/// Times themselves are not held to anything: on a busy machine the empty program, which is
/// subtracted, can take longer than the one that is measured.
#[test]
fn costs_of_frames_that_stay_and_that_change() {
    if !can_load() {
        return;
    }
    let loaded = fixture().load(Mode::Live, vec![]);
    let mut verdicts = Vec::new();
    for ether_type in [0xdea1, 0xc0de] {
        let cost = bench::bench(&loaded, &[frame(ether_type, 1)], &includes()).unwrap();
        assert!(cost.harness_ns > 0.0 && cost.ns.is_finite() && cost.repeat > 1, "{cost:?}");
        verdicts.push(cost.verdict);
    }
    assert_ne!(verdicts[0], verdicts[1], "one frame is dropped, one is sent");
}
