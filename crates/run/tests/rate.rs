//! The in-kernel generator: everything offered is accounted for.

mod common;

use std::time::Duration;

use common::{can_load, fixture, frame, includes};
use nicforge_run::rate::{LARGEST_RATE_FRAME, RateSession};
use nicforge_run::xdp::XdpError;

#[test]
fn every_generated_frame_is_accounted_for() {
    if !can_load() {
        return;
    }
    let f = fixture();
    let mut session = RateSession::start(&f.program, &f.artifact, &includes()).unwrap();
    let (forwarded, dropped, mut bounced) = (frame(0x0800, 1), frame(0xdea1, 1), frame(0xbee2, 1));
    bounced.resize(LARGEST_RATE_FRAME, 0);
    let frames = [(0, &forwarded[..]), (1, &forwarded[..]), (1, &dropped[..]), (0, &bounced[..])];
    let report = session.run(&frames, Duration::from_secs(60), &mut || false).unwrap();
    assert_eq!(report.offered, 1 << 20);
    assert!(report.packets > report.offered / 2 && report.packets <= report.offered, "{report:?}");
    assert_eq!(
        report.packets,
        report.sent + report.passed + report.dropped + report.failed,
        "{report:?}"
    );
    assert_eq!(report.arrived, report.sent, "{report:?}");
    // Each frame in turn: a quarter is dropped. (The first 256 measured what starting costs.)
    let quarter = report.packets / 4;
    assert!(report.dropped.abs_diff(quarter) <= 1 + report.offered - report.packets, "{report:?}");
    assert!(session.loaded().drops()[0].2 >= report.dropped);
    assert!(report.packets_per_second() > 1000.0, "{report:?}");

    let long = vec![0; LARGEST_RATE_FRAME + 1];
    let error = session.run(&[(0, &long)], Duration::ZERO, &mut || true).unwrap_err();
    assert!(matches!(error, XdpError::FrameLength { .. }));
}
