//! A program on interfaces, as `--dev` runs it; the interfaces are those of a test network.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{can_load, fixture, frame, includes};
use nicforge_ir::Output;
use nicforge_run::dev::{DevOptions, DevSession};
use nicforge_run::live::Sender;
use nicforge_run::netns::Sandbox;
use nicforge_run::xdp::XdpError;

#[test]
fn counts_by_the_second_and_detaches_at_the_end() {
    if !can_load() {
        return;
    }
    let f = fixture();
    let sandbox = Sandbox::new(2).unwrap();
    let interfaces = ["nf0".to_string(), "nf1".to_string()];
    let start = || {
        sandbox.nic.enter(|| DevSession::start(&f.program, &f.artifact, &includes(), &interfaces))
    };
    let mut session = start().unwrap();
    assert!(matches!(start(), Err(XdpError::Busy { .. })), "a second one is refused");

    let wire = sandbox.wire.enter(Sender::open).unwrap();
    let stop = AtomicBool::new(false);
    let (mut seconds, mut hosts, mut sent) = (Vec::new(), Vec::new(), 0);
    let (dropped, to_host) = (frame(0xdea1, 1), frame(0xbee1, 1));
    // What comes before anybody waits for it counts as well.
    wire.send(sandbox.ports[0].wire_ifindex, &[&dropped]).unwrap();
    let totals = session
        .run(&mut DevOptions {
            wait_interface: false,
            interface: &mut |_, _| {},
            duration: Some(Duration::from_secs(300)),
            stop: &stop,
            every_second: &mut |_, stats| {
                seconds.push(stats.packets);
                let all = seconds.iter().sum::<u64>() == 11 && stats.packets == 0;
                stop.store(all, Ordering::Relaxed);
            },
            idle: &mut |_| {
                if sent < 10 {
                    wire.send(sandbox.ports[0].wire_ifindex, &[&dropped, &to_host]).unwrap();
                    sent += 2;
                }
            },
            host: &mut |output| hosts.push(output.clone()),
            attach: None,
        })
        .unwrap();
    assert_eq!(seconds.iter().sum::<u64>(), 11, "packets of each second, not of all: {seconds:?}");
    assert_eq!((totals.packets, totals.host.packets, totals.drops[0].1), (11, 5, 6));
    assert!(totals.busy_ns > 0 && totals.seconds >= seconds.len() as f64, "{totals:?}");
    assert!(
        hosts.iter().all(|output| matches!(output, Output::HostPacket { .. })) && hosts.len() == 5
    );

    drop(session);
    start().unwrap();
}

#[test]
fn every_port_needs_an_interface_that_exists() {
    if !can_load() {
        return;
    }
    let f = fixture();
    let start = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        let Err(error) = DevSession::start(&f.program, &f.artifact, &includes(), &names) else {
            panic!("it runs")
        };
        error.to_string()
    };
    assert_eq!(start(&["lo"]), "the program has 2 ports, so it needs 2 interfaces; given: lo");
    assert!(start(&["lo", "nf-none"]).starts_with("there is no network interface `nf-none`"));
}
