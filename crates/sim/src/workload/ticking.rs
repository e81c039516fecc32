//! The timers of a program between the frames of a workload.

use nicforge_ir::Program;
use nicforge_ir::timers::Timers;

use super::{Arrival, Workload};

/// A workload with the ticks of a program's timers where they are due: time is when frames come in.
pub struct Ticking<'a, W> {
    inner: W,
    program: &'a Program,
    /// Armed with the first frame.
    timers: Option<Timers>,
    /// The next frame, once it is known.
    ahead: Option<Arrival>,
}

impl<'a, W: Workload> Ticking<'a, W> {
    pub fn new(program: &'a Program, inner: W) -> Ticking<'a, W> {
        Ticking { inner, program, timers: None, ahead: None }
    }
}

impl<W: Workload> Workload for Ticking<'_, W> {
    fn next(&mut self) -> Option<Arrival> {
        let frame = match self.ahead.take() {
            Some(frame) => frame,
            None => self.inner.next()?,
        };
        let now = frame.at / 1000;
        let timers = self.timers.get_or_insert_with(|| Timers::armed(self.program, now));
        let Some(tick) = timers.fire(now) else { return Some(frame) };
        self.ahead = Some(frame);
        let (at, timer) = (tick.due * 1000, Some(tick.timer));
        Some(Arrival { at, port: 0, bytes: 0, time_ns: tick.due, seed: tick.seed, timer })
    }

    /// Of the frame: a tick has none.
    fn frame(&self) -> &[u8] {
        self.inner.frame()
    }
}
