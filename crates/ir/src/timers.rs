//! Timers: events that time itself brings (`NF_TIMER`).
//!
//! Time is that of the events. It begins with the first event from outside; then every timer is
//! armed. A timer with period `P` is due `P`, `2P`, `3P`, … after that. Before an event of time `t`
//! every tick that is due by `t` has fired, each of them, in order of the times at which they are
//! due; of those due at one time the timer declared first goes first. `nf_now()` in a tick is the
//! time at which it was due. Behind the last event no timer fires. An event that is older than the
//! one before it moves no time.
//!
//! So a run on a capture repeats exactly. A machine that runs by a real clock fires the same ticks,
//! some of them late: as with Linux's timerfd, those it missed while it was busy are one.

use nicforge_util::random;

use crate::io::{Input, InputEvent};
use crate::program::{EventId, Program};

/// Most ticks of a run on a capture: gaps in captures may be long, and periods short.
pub const MOST_TICKS: u64 = 1 << 20;

/// The timers would fire more often than [`MOST_TICKS`] in one run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the timer `{timer}` would fire {ticks} times in the {span_ns} ns of these events, and a run has at most \
     {MOST_TICKS} ticks; give a longer period or a shorter capture"
)]
pub struct TooManyTicks {
    pub timer: String,
    pub ticks: u64,
    pub span_ns: u64,
}

/// A tick of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    pub timer: EventId,
    /// Nanoseconds, on the clock of the events.
    pub due: u64,
    /// Start of its random stream.
    pub seed: u64,
}

/// The timers of a program, armed.
#[derive(Clone, Debug)]
pub struct Timers(Vec<Timer>);

#[derive(Clone, Debug)]
struct Timer {
    event: EventId,
    period: u64,
    /// The next tick, from 1, and when it is due; never beyond the end of time.
    tick: u64,
    due: Option<u64>,
}

impl Timers {
    /// Those that have a handler, armed at a time.
    pub fn armed(program: &Program, start: u64) -> Timers {
        let handled = program.timers().filter(|(event, _)| program.handler_of(*event).is_some());
        let timer =
            |(event, period)| Timer { event, period, tick: 1, due: start.checked_add(period) };
        Timers(handled.map(timer).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// When the next tick is due.
    pub fn next_due(&self) -> Option<u64> {
        self.0.iter().filter_map(|timer| timer.due).min()
    }

    /// The next tick that is due by a time, and no longer due then.
    pub fn fire(&mut self, by: u64) -> Option<Tick> {
        // The first of those that are due earliest.
        let armed = self.0.iter_mut().filter(|timer| timer.due.is_some());
        let timer = armed.min_by_key(|timer| timer.due)?;
        let due = timer.due.filter(|due| *due <= by)?;
        let seed = random::nth(!u64::from(timer.event.as_u32()), timer.tick);
        timer.tick += 1;
        timer.due = due.checked_add(timer.period);
        Some(Tick { timer: timer.event, due, seed })
    }

    /// Forgets ticks that were due before a time: those that a busy machine missed.
    pub fn skip(&mut self, before: u64) {
        for timer in &mut self.0 {
            let missed = timer.due.map_or(0, |due| before.saturating_sub(due) / timer.period);
            timer.tick += missed;
            timer.due = timer.due.and_then(|due| due.checked_add(missed * timer.period));
        }
    }
}

/// Events from outside with the ticks of the program's timers where they fire.
///
/// # Errors
/// There would be too many.
pub fn with_ticks(
    program: &Program,
    events: Vec<InputEvent>,
) -> Result<Vec<InputEvent>, TooManyTicks> {
    let Some(start) = events.first().map(|event| event.time_ns) else { return Ok(events) };
    let mut timers = Timers::armed(program, start);
    if timers.is_empty() {
        return Ok(events);
    }
    let span_ns = events.iter().map(|event| event.time_ns).max().unwrap_or(start) - start;
    let ticks = |timer: &Timer| span_ns / timer.period;
    let all = timers.0.iter().fold(0u64, |all, timer| all.saturating_add(ticks(timer)));
    let most = timers.0.iter().max_by_key(|timer| ticks(timer));
    if let Some(most) = most.filter(|_| all > MOST_TICKS) {
        let timer = program.events[most.event].name.clone();
        return Err(TooManyTicks { timer, ticks: ticks(most), span_ns });
    }
    let mut out = Vec::with_capacity(events.len() + all as usize);
    for event in events {
        while let Some(Tick { timer, due, seed }) = timers.fire(event.time_ns) {
            let timer = program.events[timer].name.clone();
            out.push(InputEvent { time_ns: due, seed, input: Input::Tick { timer } });
        }
        out.push(event);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time_ns: u64) -> InputEvent {
        InputEvent { time_ns, seed: time_ns, input: Input::Net { port: 0, frame: vec![0; 60] } }
    }

    fn program(text: &str) -> Program {
        crate::text::parse(text).expect("a program")
    }

    const TWO: &str = "program p ports 1
        event slow() in period 20
        event quick() in period 10
        handler slow on slow() { return }
        handler quick on quick() { return }";

    fn fired(text: &str, times: &[u64]) -> Vec<(u64, String)> {
        let events = times.iter().map(|time| at(*time)).collect();
        let with = with_ticks(&program(text), events).expect("few ticks");
        with.iter().map(|event| (event.time_ns, event.input.event().to_string())).collect()
    }

    #[test]
    fn ticks_fire_where_they_are_due() {
        let list = |list: &[(u64, &str)]| -> Vec<(u64, String)> {
            list.iter().map(|(time, name)| (*time, name.to_string())).collect()
        };
        // Due at the time of an event: before it. Missed ones: each. At one time: as declared.
        assert_eq!(
            fired(TWO, &[100, 109, 110, 131, 120]),
            list(&[
                (100, "net_recv"),
                (109, "net_recv"),
                (110, "quick"),
                (110, "net_recv"),
                (120, "slow"),
                (120, "quick"),
                (130, "quick"),
                (131, "net_recv"),
                (120, "net_recv"),
            ])
        );
    }

    #[test]
    fn what_has_no_timers_stays_as_it_is() {
        let events = vec![at(5), at(u64::MAX)];
        assert_eq!(with_ticks(&program("program p ports 1"), events.clone()), Ok(events));
        assert_eq!(with_ticks(&program(TWO), Vec::new()), Ok(Vec::new()));
    }

    #[test]
    fn time_may_end() {
        let last = u64::MAX;
        let found = fired(TWO, &[last - 15, last]);
        assert_eq!(found[1..], [(last - 5, "quick".to_string()), (last, "net_recv".to_string())]);
    }

    #[test]
    fn too_many_are_refused() {
        let events = vec![at(0), at(11 * MOST_TICKS)];
        let error = with_ticks(&program(TWO), events).expect_err("more than a run has");
        assert_eq!((error.timer.as_str(), error.ticks), ("quick", 11 * MOST_TICKS / 10));
    }

    #[test]
    fn missed_ticks_are_one() {
        let two = program(TWO);
        let mut timers = Timers::armed(&two, 100);
        timers.skip(157);
        // Of `slow` those of 120, 140 and of `quick` those of 110 to 150 were due.
        let mut fired =
            || timers.fire(160).map(|tick| (two.events[tick.timer].name.clone(), tick.due));
        let wanted = [("slow", 140), ("quick", 150), ("slow", 160), ("quick", 160)];
        for (name, due) in wanted {
            assert_eq!(fired(), Some((name.to_string(), due)));
        }
        assert_eq!((fired(), timers.next_due()), (None, Some(170)));
    }

    #[test]
    fn every_tick_draws_its_own_numbers() {
        let with = with_ticks(&program(TWO), vec![at(0), at(100)]).expect("few ticks");
        let ticks = with.iter().filter(|event| matches!(event.input, Input::Tick { .. }));
        let mut seeds: Vec<u64> = ticks.map(|event| event.seed).collect();
        assert_eq!(seeds.len(), 15);
        seeds.sort();
        seeds.dedup();
        assert_eq!(seeds.len(), 15);
    }
}
