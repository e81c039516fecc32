//! Events that a target cannot be given, or whose outcome it cannot give out, told before anything
//! runs.
//!
//! What such an event does to tables must be left out on both sides, or later events differ. The
//! interpreter says how long the frames are that an event leads to; it then goes back to before the
//! event. Going back is by a copy of its state made every so often and running the events since
//! then again: copies are rarer where tables are larger, so that copying costs about as much as
//! running, and few events are left out.

use std::ops::RangeInclusive;

use nicforge_ir::{Entry, Input, InputEvent, Interp, Output, Program, TableId, Verified};

use crate::{Failure, events};

/// Events run between two copies of the interpreter's state, at least.
const APART: usize = 64;

/// Indices of the events that the target takes, those whose frames have a length in `lengths` as
/// they come and as they leave, and grow by at most `growth` bytes at their heads. `entries` are in
/// the tables when the first comes. Where functions of C may have state, which nothing takes back,
/// only the frames that come count.
///
/// # Errors
/// The interpreter cannot run an event.
pub fn taken(
    program: &Verified<Program>,
    entries: &[(TableId, Entry)],
    events: &[InputEvent],
    lengths: &RangeInclusive<usize>,
    growth: usize,
) -> Result<Vec<usize>, Failure> {
    let mut interp = Interp::new(program);
    events::fill(&mut interp, entries)?;
    let (mut before, mut since): (Interp, Vec<&InputEvent>) = (interp.fork(), Vec::new());
    let apart = |interp: &Interp| APART + interp.entries() / 8;
    let mut next = apart(&interp);
    let stateful = program.calls_in_order();
    let mut taken = Vec::with_capacity(events.len());
    for (i, event) in events.iter().enumerate() {
        let fail =
            |e: nicforge_ir::interp::InterpError| Failure::user(format!("event {}: {e}", i + 1));
        if matches!(&event.input, Input::Net { frame, .. } if !lengths.contains(&frame.len())) {
            continue;
        }
        if stateful {
            taken.push(i);
            continue;
        }
        let fits = |output: &Output| match output {
            Output::Send { frame, .. } | Output::Stack { frame } => lengths.contains(&frame.len()),
            _ => true,
        };
        if interp.run(event).map_err(fail)?.iter().all(fits) && interp.growth() <= growth {
            taken.push(i);
            since.push(event);
            if since.len() >= next {
                (before, next) = (interp.fork(), apart(&interp));
                since.clear();
            }
        } else {
            interp = before.fork();
            for event in &since {
                interp.run(event).map_err(fail)?;
            }
        }
    }
    Ok(taken)
}
