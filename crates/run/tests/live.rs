//! The fixture attached to a test network: every frame in is a frame out, a drop, or an error.

mod common;

use std::time::Duration;

use common::{can_load, fixture, frame, includes, net};
use nicforge_ir::{Input, InputEvent, Output, TableBackend};
use nicforge_run::compile::Mode;
use nicforge_run::live::{LiveError, LiveOptions, LiveOutputs, LiveRun, Session};
use nicforge_run::netns::{LARGEST_FRAME, Sandbox};
use nicforge_run::xdp::XdpError;

/// Longest wait of a run for something to come out: long, since machines are busy.
const PATIENCE: Duration = Duration::from_secs(120);

fn session(mode: Mode) -> Session {
    let f = fixture();
    Session::start(&f.program, &f.artifact, mode, &includes()).unwrap()
}

fn run(
    session: &mut Session,
    events: &[InputEvent],
    window: usize,
    per_event: bool,
) -> Result<LiveRun, LiveError> {
    let (patience, keep_going) = (PATIENCE, &mut |_: usize| true);
    session.run(events, &mut LiveOptions { window, per_event, patience, keep_going })
}

/// Runs events of which some never come out, so that the wait for them is short.
fn run_losing(session: &mut Session, events: &[InputEvent]) -> Result<LiveRun, LiveError> {
    let (patience, keep_going) = (Duration::from_secs(3), &mut |_: usize| true);
    session.run(events, &mut LiveOptions { window: 1, per_event: false, patience, keep_going })
}

fn message(byte: u8) -> InputEvent {
    InputEvent { input: Input::Host { message: vec![byte, 0, 0, 0, 0, 0, 0, 0] }, ..net(0, vec![]) }
}

#[test]
fn one_event_at_a_time() {
    if !can_load() {
        return;
    }
    let mut session = session(Mode::Record);
    let events = [
        net(0, frame(0x0800, 1)),
        net(1, frame(0x0800, 2)),
        net(1, frame(0x0806, 3)),
        net(0, frame(0xdea1, 4)),
        message(7),
        net(0, frame(0xbee1, 5)),
        net(1, frame(0xbee2, 6)),
        net(0, frame(0xdea2, 7)),
    ];
    let run = run(&mut session, &events, 1, true).unwrap();
    let LiveOutputs::PerEvent(outputs) = &run.outputs else { panic!() };
    let unwanted = fixture().unwanted;
    let log = format!("port 1 at {}", run.seen[6].time_ns);
    let expected = [
        vec![Output::Send { port: 1, frame: frame(0x0800, 1) }],
        vec![Output::Send { port: 0, frame: frame(0x0800, 2) }],
        vec![Output::Stack { frame: frame(0x0806, 3) }],
        vec![Output::Drop { reason: unwanted }],
        vec![Output::HostMessage { bytes: vec![8, 0, 0, 0, 0, 0, 0, 0] }],
        vec![Output::HostPacket { frame: frame(0xbee1, 5)[..14].to_vec() }],
        vec![
            Output::Log { text: log },
            Output::DmaWrite { addr: 0x1000, data: frame(0, 0)[..6].to_vec() },
            Output::Send { port: 1, frame: frame(0xbee2, 6) },
        ],
        vec![],
    ];
    assert_eq!(outputs[..], expected);

    // What was recorded is what the program saw: rising kernel times, the fixture's constant seed.
    assert!(run.seen.windows(2).all(|pair| pair[0].time_ns < pair[1].time_ns));
    assert!(run.seen.iter().all(|event| event.seed == 42));
    assert_eq!(run.seen[4].input, events[4].input);

    let report = &run.report;
    assert_eq!((report.packets_in, report.messages_in, report.bytes_in), (7, 1, 420));
    assert_eq!((&report.sent[..], report.stack, report.dropped()), (&[1, 2][..], 1, 2));
    assert_eq!(
        (report.host_packets, report.host_messages, report.dma_writes, report.logs),
        (1, 1, 1, 1)
    );
    assert_eq!(report.unaccounted, 0);
    assert_eq!(report.drops[1], (None, "no room for headers".into(), 1));
}

#[test]
fn many_in_flight_keep_their_order_and_none_is_lost() {
    if !can_load() {
        return;
    }
    let f = fixture();
    let mut session = session(Mode::Live);
    let numbered = |i: u32| {
        let ether_type = [0x0800, 0x0806, 0x0800, 0xdea1][i as usize % 4];
        let mut frame = frame(ether_type, (i % 7) as u8);
        frame[20..24].copy_from_slice(&i.to_be_bytes());
        net((i / 50) % 2, frame)
    };
    let events: Vec<InputEvent> = (0..20_000).map(numbered).collect();
    let run = run(&mut session, &events, 128, false).unwrap();
    let LiveOutputs::Streams(streams) = &run.outputs else { panic!() };
    let expected = |ether_type: u16, port: Option<u32>| -> Vec<&[u8]> {
        let fits = |event: &&InputEvent| match &event.input {
            Input::Net { port: from, frame } => {
                frame[12..14] == ether_type.to_be_bytes() && port.is_none_or(|port| port != *from)
            }
            Input::Host { .. } | Input::Tick { .. } => false,
        };
        events.iter().filter(fits).map(|event| event.input.bytes()).collect()
    };
    assert!(streams.sent[0].iter().eq(expected(0x0800, Some(0))), "frames out of port 0, in order");
    assert!(streams.sent[1].iter().eq(expected(0x0800, Some(1))), "frames out of port 1, in order");
    assert!(streams.stack.iter().eq(expected(0x0806, None)), "frames to the stack, in order");
    assert_eq!(run.report.dropped(), 5_000);
    assert_eq!(run.report.packets_in, 20_000);
    assert!(run.report.packets_per_second() > 1_000.0, "{}", run.report.packets_per_second());
    // Four of seven sources fit the table.
    let hits = session.loaded().tables().dump(f.hits).unwrap();
    assert_eq!(hits.len(), 4);
    assert!(run.report.refused.iter().any(|(table, count)| *table == f.hits && *count > 0));

    // A second run counts from its own start.
    let again = self::run(&mut session, &events[..10], 4, false).unwrap();
    assert_eq!(again.report.packets_in, 10);
    assert_eq!(again.report.dropped(), 2);
}

#[test]
fn vlan_tags_and_long_frames_survive() {
    if !can_load() {
        return;
    }
    let mut session = session(Mode::Live);
    let mut longest = frame(0x0800, 1);
    longest.resize(LARGEST_FRAME, 0x55);
    let mut longest_up = longest.clone();
    longest_up[12..14].copy_from_slice(&[0x08, 0x06]);
    let shortest = frame(0x0800, 2)[..14].to_vec();
    // The kernel takes the tag out before sockets see the frame; it must come back.
    let mut tagged = frame(0x8100, 3);
    tagged[14..18].copy_from_slice(&[0x20, 0x07, 0x08, 0x06]);
    let events = [
        net(0, longest.clone()),
        net(0, longest_up.clone()),
        net(1, shortest.clone()),
        net(0, tagged.clone()),
    ];
    let run = self::run(&mut session, &events, 8, true).unwrap();
    let LiveOutputs::PerEvent(outputs) = run.outputs else { panic!() };
    assert_eq!(outputs[0], [Output::Send { port: 1, frame: longest }]);
    assert_eq!(outputs[1], [Output::Stack { frame: longest_up }]);
    assert_eq!(outputs[2], [Output::Send { port: 0, frame: shortest }]);
    assert_eq!(outputs[3], [Output::Stack { frame: tagged }]);
}

#[test]
fn frames_that_cannot_leave_are_reported() {
    if !can_load() {
        return;
    }
    let mut session = session(Mode::Live);
    let too_long = [net(0, vec![0; LARGEST_FRAME + 1])];
    let error = run(&mut session, &too_long, 1, false).unwrap_err().to_string();
    assert_eq!(
        error,
        "event 1 (counted from 1): a frame of 3521 bytes: the kernel takes frames of 14 to 3520 bytes here"
    );
    assert!(matches!(
        run(&mut session, &[net(3, frame(0x0800, 1))], 1, false),
        Err(LiveError::Event { source: XdpError::NoPort { port: 3, last: 1 }, .. })
    ));
    let vanishes = [net(0, frame(0xbad0, 1)), net(0, frame(0xdea1, 1)), net(0, frame(0xbee1, 1))];
    assert_eq!(
        run_losing(&mut session, &vanishes).unwrap().report.unaccounted,
        1,
        "there is no port 5"
    );
    // The fixture grows this one beyond what the port carries.
    let mut grows = frame(0xc0de, 1);
    grows.resize(LARGEST_FRAME, 0);
    let Err(error) = run_losing(&mut session, &[net(0, grows)]) else { panic!("it left") };
    assert!(
        matches!(&error, LiveError::Missing { event: 1, detail, .. } if detail.contains("saw 1")),
        "{error}"
    );
}

#[test]
fn a_run_can_be_stopped() {
    if !can_load() {
        return;
    }
    let mut session = session(Mode::Live);
    let events: Vec<InputEvent> = (0..1000).map(|_| net(0, frame(0x0800, 1))).collect();
    let keep_going = &mut |done| done < 100;
    let mut options = LiveOptions { window: 10, per_event: false, patience: PATIENCE, keep_going };
    let run = session.run(&events, &mut options).unwrap();
    assert!(run.report.stopped);
    assert_eq!((run.report.packets_in, run.report.sent[1], run.seen.len()), (100, 100, 100));
}

#[test]
fn interfaces_that_are_taken_say_by_whom() {
    if !can_load() {
        return;
    }
    let f = fixture();
    let sandbox = Sandbox::new(2).unwrap();
    let port = sandbox.ports[0].clone();
    let loaded = f.load(Mode::Live, sandbox.ifindex());
    let attach = || {
        let (sandbox, loaded, port) = (&sandbox, &loaded, &port);
        sandbox.nic.enter(|| loaded.attach(port.ifindex, &port.name))
    };
    let first = attach().unwrap();
    let message = attach().unwrap_err().to_string();
    assert!(message.starts_with("interface `nf0` already runs XDP program "), "{message}");
    assert!(
        message.contains("(nf_net_recv)") && message.contains("ip link set dev nf0 xdp off"),
        "{message}"
    );
    drop(first);
    attach().unwrap();
}

#[test]
fn programs_may_be_for_messages_only() {
    if !can_load() {
        return;
    }
    let mut f = fixture();
    f.artifact.programs.retain(|program| program.name == "nf_host_send");
    let mut session = Session::start(&f.program, &f.artifact, Mode::Live, &includes()).unwrap();
    let answered = run(&mut session, &[message(1), message(2)], 8, false).unwrap();
    assert_eq!(answered.report.host_messages, 2);
    let error = run(&mut session, &[message(1), net(0, frame(0x0800, 1))], 8, false).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("event 2 (counted from 1): the program has no handler for `net_recv`"),
        "{error}"
    );
}
