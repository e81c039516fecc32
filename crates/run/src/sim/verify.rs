//! The simulator against the interpreter: every packet of a capture, as fast as the wires carry
//! them.
//!
//! Packets are numbered as they are taken in, and every message between handlers remembers the
//! packet it came of, so what handlers give out is known per packet however the simulated units
//! interleave. Queues at the ports are made deep enough that none is lost there; a queue between
//! stages that loses packets makes the comparison slower, not wrong: the capture is then replayed
//! at half the rate.

use std::cell::RefCell;

use nicforge_codegen::dpdk::Pipeline;
use nicforge_ir::{
    Entry, EventId, Input, InputEvent, Output, Program, TableBackend, TableError, TableId, Verified,
};
use nicforge_plan::Plan;
use nicforge_sim::workload::{Replay, Timed};
use nicforge_sim::{
    Effect, HandlerError, Handlers, Line, Message, Options, Report, SimError, Trace,
};
use nicforge_target::Target;

use super::Compiled;
use crate::control;
use crate::dpdk::{Departure, Difference, DpdkRun, compare};
use crate::fault::Fault;
use crate::host::HostError;

/// How often the rate is halved before losses count as the target's fault.
const ATTEMPTS: u32 = 8;

/// Why a plan could not be compared in the simulator.
#[derive(Debug, thiserror::Error)]
pub enum SimRunError {
    #[error(transparent)]
    Build(#[from] HostError),
    #[error(transparent)]
    Sim(#[from] SimError),
    #[error(transparent)]
    Table(#[from] TableError),
    #[error("queues between the simulated stages lose packets at any rate")]
    Lost,
    #[error("internal error: {missing} packets are nowhere in the simulator's counters")]
    Missing { missing: i64 },
    #[error("interrupted")]
    Interrupted,
}

impl SimRunError {
    /// The party that has to act.
    pub fn fault(&self) -> Fault {
        match self {
            SimRunError::Build(error) => error.fault(),
            SimRunError::Interrupted => Fault::Environment,
            _ => Fault::User,
        }
    }
}

/// Runs the frames of a capture through a simulated plan and through the interpreter; gives the
/// simulator's report and what differs. `reference` is what the interpreter runs, `program` the
/// plan's. Messages of the host side are left out on both sides. Where the target puts what leaves
/// in order by itself, which the simulator does not time, packets count in that order.
pub fn verify_sim(
    (target, plan, pipeline): (&Target, &Plan, &Pipeline),
    reference: &Verified<Program>,
    program: &Verified<Program>,
    entries: &[(TableId, Entry)],
    events: &[InputEvent],
    stop: &dyn Fn() -> bool,
) -> Result<(Report, Vec<Difference>), SimRunError> {
    let frames: Vec<InputEvent> =
        events.iter().filter(|event| !matches!(event.input, Input::Host { .. })).cloned().collect();
    let mut apart_ps = 0.0;
    for _ in 0..ATTEMPTS {
        let mut recorder = Recorder::new(program, frames.len())?;
        control::apply(recorder.inner.stepper().program().tables_mut(), entries)?;
        let departed = RefCell::new(Vec::new());
        let note = |packet, port| departed.borrow_mut().push((packet as usize, port));
        let options = Options {
            receive_depth: frames.len() as u32 + 1,
            wire_depth: u32::MAX,
            departed: Some(&note),
            stop,
            ..Options::default()
        };
        let mut traffic = Replay::new(program, &frames, Timed::Apart(apart_ps), 1);
        let report =
            nicforge_sim::run(target, plan, program, &mut recorder, &mut traffic, &options)?;
        if report.interrupted {
            return Err(SimRunError::Interrupted);
        }
        if report.packets.missing() != 0 {
            return Err(SimRunError::Missing { missing: report.packets.missing() });
        }
        if recorder.discarded == 0 && recorder.arrived == frames.len() {
            let mut departed = departed.into_inner();
            if target.sorts_output() {
                departed.sort_by_key(|(packet, _)| *packet);
            }
            let run = recorder.results(&departed)?;
            let found = compare(&run, (reference, program), pipeline, entries, &frames);
            return Ok((report, found));
        }
        let taken = report.seconds * 1e12 / frames.len().max(1) as f64;
        apart_ps = 2.0 * f64::max(apart_ps, taken);
    }
    Err(SimRunError::Lost)
}

/// Handlers that remember which packet everything came of.
struct Recorder<'p> {
    inner: Compiled<'p>,
    program: &'p Verified<Program>,
    /// Packet of each message.
    packets: Vec<usize>,
    arrived: usize,
    /// Messages that were lost between stages.
    discarded: u64,
    seen: usize,
    outputs: Vec<Vec<Output>>,
}

impl<'p> Recorder<'p> {
    fn new(program: &'p Verified<Program>, packets: usize) -> Result<Recorder<'p>, HostError> {
        let inner = Compiled::new(program, true)?;
        let outputs = vec![Vec::new(); packets];
        Ok(Recorder {
            inner,
            program,
            packets: Vec::new(),
            arrived: 0,
            discarded: 0,
            seen: 0,
            outputs,
        })
    }

    fn remember(&mut self, message: Message, packet: usize) {
        let at = message.0 as usize;
        if self.packets.len() <= at {
            self.packets.resize(at + 1, 0);
        }
        self.packets[at] = packet;
    }

    /// In the form that comparisons take.
    fn results(mut self, departed: &[(usize, u32)]) -> Result<DpdkRun, TableError> {
        let mut run = DpdkRun::default();
        let tables = self.inner.stepper().program().tables();
        for table in self.program.tables.keys() {
            run.tables.insert(table, tables.dump(table)?);
        }
        run.outputs = self.outputs;
        let sent = |&(event, port): &(usize, u32)| Departure { event, port, frame: Vec::new() };
        run.departures = departed.iter().map(sent).collect();
        Ok(run)
    }
}

impl Handlers for Recorder<'_> {
    fn lines(&self) -> Vec<Line> {
        self.inner.lines()
    }

    fn steer_by(&mut self, event: EventId, param: usize, number: bool) {
        self.inner.steer_by(event, param, number);
    }

    fn arrive(&mut self, port: u32, frame: &[u8], time_ns: u64, seed: u64) -> Message {
        let message = self.inner.arrive(port, frame, time_ns, seed);
        self.remember(message, self.arrived);
        self.arrived += 1;
        message
    }

    fn tick(&mut self, timer: EventId, time_ns: u64, seed: u64) -> Message {
        let message = self.inner.tick(timer, time_ns, seed);
        self.remember(message, self.arrived);
        self.arrived += 1;
        message
    }

    fn run(&mut self, message: Message, trace: &mut Trace) -> Result<(), HandlerError> {
        let packet = self.packets[message.0 as usize];
        self.inner.run(message, trace)?;
        for effect in &trace.effects {
            if let Effect::Generate { message, .. } = effect {
                self.remember(*message, packet);
            }
        }
        let outputs = self.inner.stepper().outputs();
        self.outputs[packet].extend_from_slice(&outputs[self.seen..]);
        self.seen = outputs.len();
        Ok(())
    }

    fn discard(&mut self, message: Message) {
        self.discarded += 1;
        self.inner.discard(message);
    }
}
