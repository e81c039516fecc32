//! The greatest rate without loss.
//!
//! Bisection of the offered rate until the interval is within a share of its upper end: RFC 2544's
//! throughput test with a loss that is small instead of none, since a simulated start or a burst
//! may cost a few packets at any rate. A simulation is too short to fill deep queues, so packets
//! that pile up in them count too.

use crate::report::Report;
use crate::workload::Rate;

/// Loss below this share counts as none.
pub const LOSS: f64 = 0.001;
/// The interval at the end, as a share of the rate.
pub const WITHIN: f64 = 0.005;

/// True if a rate can last: hardly anything is lost, and queues grow by no more than `within` of
/// what was offered, and what chance makes of that many packets.
fn lasts(report: &Report, loss: f64, within: f64) -> bool {
    let offered = report.offered.pps * (report.seconds - report.warm_up_seconds);
    report.loss < loss && report.piled_up <= within + 1.0 / offered.max(1.0).sqrt()
}

/// The greatest rate at or below `most` with a loss below `loss`, and its report; nothing if no
/// rate tried was so slow. `run` simulates one rate.
///
/// # Errors
/// What `run` says.
pub fn max<E>(
    most: Rate,
    loss: f64,
    within: f64,
    mut run: impl FnMut(Rate) -> Result<Report, E>,
) -> Result<Option<(Rate, Report)>, E> {
    let at = |value: f64| match most {
        Rate::Wire(_) => Rate::Wire(value),
        Rate::Frames(_) => Rate::Frames(value),
    };
    let (Rate::Wire(top) | Rate::Frames(top)) = most;
    let report = run(most)?;
    if lasts(&report, loss, within) {
        return Ok(Some((most, report)));
    }
    // What came out under overload is near what can come out without.
    let mut best = None;
    let (mut low, mut high) = (0.0, top);
    let mut next = top * (1.0 - report.loss - report.piled_up).max(0.01);
    while high - low > within * high {
        let report = run(at(next))?;
        if report.interrupted {
            break;
        }
        if lasts(&report, loss, within) {
            low = next;
            best = Some((at(next), report));
        } else {
            high = next;
        }
        // The first guess is good: its surroundings are tried before halves.
        next = match (low, high) {
            (0.0, _) => high * 0.9,
            _ if high - low > 0.1 * high => (low * 1.02).min((low + high) / 2.0),
            _ => (low + high) / 2.0,
        };
        if high < top * 1e-6 {
            break;
        }
    }
    Ok(best)
}
