//! Planned programs under simulated traffic.

use nicforge_ir::{Entry, Input, InputEvent, Interp, Op, Program, TableBackend, TableId, Verified};
use nicforge_plan::Plan;
use nicforge_planner::assemble;
use nicforge_run::sim::Compiled;
use nicforge_sim::workload::{
    self, Rate, Replay, Sizes, Spec, Synthetic, Templates, Ticking, Timed,
};
use nicforge_sim::{InterpHandlers, Options, Report, Workload as _, find};
use nicforge_target::Target;

use crate::options::{Inputs, Planning};
use crate::program::Loaded;
use crate::{Failure, events, stop};

/// Traffic that a simulated plan is offered, and for how long.
#[derive(Clone, Debug)]
pub struct Offered {
    /// Sizes, flows and seed of made traffic.
    pub spec: Spec,
    /// What is offered; the rate of the spec, or one port's line, if it is not said.
    pub rate: Option<Rate>,
    /// The capture as it is, in place of made traffic.
    pub replay: bool,
    /// A rate from each time on, in seconds.
    pub rates: Vec<(f64, Rate)>,
    /// Simulated seconds, unless a number of frames is to be seen through.
    pub duration: f64,
    pub packets: Option<u64>,
    /// Handlers run in the interpreter, not as compiled code.
    pub interpreted: bool,
}

impl Offered {
    /// Frames of one size, as far as programs' captures have some that can be made so long, in so
    /// many flows as a plan is for, at the ports' rate.
    ///
    /// # Errors
    /// There are no such frames.
    pub fn planned(planning: &Planning, duration: f64) -> Result<Offered, Failure> {
        let spec = format!("size={},flows={}", planning.frame, planning.flows);
        Ok(Offered {
            spec: workload::parse(&spec).map_err(Failure::usage)?,
            rate: None,
            replay: false,
            rates: Vec::new(),
            duration,
            packets: None,
            interpreted: false,
        })
    }
}

/// A plan's program, with the tables and packets that its simulation begins with.
pub struct Ready {
    pub program: Verified<Program>,
    pub entries: Vec<(TableId, Entry)>,
    pub capture: Vec<InputEvent>,
}

impl Ready {
    /// Makes a plan's program and reads its inputs; a capture may be missing unless it is `needed`.
    ///
    /// # Errors
    /// The plan does not suit the program, or inputs cannot be read.
    pub fn of(
        plan: &Plan,
        loaded: &Loaded,
        inputs: &Inputs,
        needed: bool,
    ) -> Result<Ready, Failure> {
        let program = assemble::program_with(plan, &loaded.program).map_err(Failure::user)?;
        let entries = events::tables(inputs, &loaded.program, &loaded.path)?;
        let capture = events::captures(inputs, &loaded.program, &loaded.path);
        let capture = if needed { capture? } else { capture.unwrap_or_default() };
        let entries = by_name(&loaded.program, &program, entries);
        Ok(Ready { program, entries, capture })
    }
}

/// Tables of the source as the planned program numbers them.
fn by_name(
    source: &Program,
    planned: &Program,
    entries: Vec<(TableId, Entry)>,
) -> Vec<(TableId, Entry)> {
    let find = |(table, entry): (TableId, Entry)| {
        planned.table_named(&source.tables[table].name).map(|table| (table, entry))
    };
    entries.into_iter().filter_map(find).collect()
}

/// The greatest rate, in packets per second, at which the simulated plan loses hardly anything;
/// `None` if it always does.
///
/// # Errors
/// The plan cannot be simulated.
pub fn greatest(
    offered: &Offered,
    inputs: &Inputs,
    target: &Target,
    plan: &Plan,
    loaded: &Loaded,
) -> Result<Option<f64>, Failure> {
    let ready = Ready::of(plan, loaded, inputs, false)?;
    let found = Simulation::new(offered.clone(), target, plan, &ready)?.find_max()?;
    Ok(found.map(|(_, report)| report.offered.pps))
}

/// Events of the traffic that [`greatest`] offers at the ports' rate, and the mean size of their
/// frames. As many again come first, so that flows have begun.
pub fn traffic(
    planning: &Planning,
    target: &Target,
    loaded: &Loaded,
    inputs: &Inputs,
    count: usize,
) -> Result<Traffic, Failure> {
    let program = &loaded.program;
    let entries = events::tables(inputs, program, &loaded.path)?;
    let capture = events::captures(inputs, program, &loaded.path).unwrap_or_default();
    let spec = Offered::planned(planning, 0.0)?.spec;
    let templates = workload::accepted(program, &entries, &capture, planning.frame, spec.tcp);
    let rate = Rate::Wire(target.ports.rate.value);
    let made = Synthetic::new(spec, rate, templates, target.ports.overhead_bytes, u64::MAX);
    let mut ticking = Ticking::new(program, made);
    let mut events = Vec::with_capacity(2 * count);
    while events.len() < 2 * count {
        let Some(arrival) = ticking.next() else { break };
        let input = match arrival.timer {
            Some(event) => Input::Tick { timer: program.events[event].name.clone() },
            None => Input::Net { port: arrival.port, frame: ticking.frame().to_vec() },
        };
        events.push(InputEvent { time_ns: arrival.time_ns, seed: arrival.seed, input });
    }
    let events_after = events.split_off(events.len() / 2);
    let frames = events_after.iter().filter_map(|event| match &event.input {
        Input::Net { frame, .. } => Some(frame.len()),
        Input::Host { .. } | Input::Tick { .. } => None,
    });
    let (count, bytes) = frames.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes));
    let mean = bytes.checked_div(count).map_or(planning.frame, |mean| mean as u32);
    Ok(Traffic { before: events, events: events_after, entries, frame_bytes: mean })
}

/// Traffic that a simulated port offers.
pub struct Traffic {
    pub before: Vec<InputEvent>,
    pub events: Vec<InputEvent>,
    pub entries: Vec<(TableId, Entry)>,
    pub frame_bytes: u32,
}

/// An engine that runs handlers.
enum Engine<'p> {
    Compiled(Box<Compiled<'p>>),
    Interpreted,
}

/// A simulation but for the rate.
pub struct Simulation<'a> {
    pub offered: Offered,
    target: &'a Target,
    plan: &'a Plan,
    ready: &'a Ready,
    /// What is offered if nothing else is said.
    pub rate: Rate,
    templates: Templates,
    engine: Engine<'a>,
}

impl<'a> Simulation<'a> {
    /// Compiles the handlers and chooses frames.
    ///
    /// # Errors
    /// The handlers cannot be compiled.
    pub fn new(
        offered: Offered,
        target: &'a Target,
        plan: &'a Plan,
        ready: &'a Ready,
    ) -> Result<Simulation<'a>, Failure> {
        let port = Rate::Wire(target.ports.rate.value);
        let rate = offered.rate.or(offered.spec.rate).unwrap_or(port);
        let bytes = match offered.spec.sizes {
            Sizes::Fixed(bytes) => bytes,
            _ => 0,
        };
        let Ready { program, entries, capture } = ready;
        // What is left out of a capture is said nowhere: the fates it is chosen by are those of the
        // interpreter.
        let templates = workload::accepted(program, entries, capture, bytes, offered.spec.tcp);
        // Generated code searches by loops of other instructions than the plan has a price for.
        let mut bodies = program.handlers.values().map(|handler| &handler.body);
        let searches =
            bodies.any(|body| body.insts.values().any(|inst| matches!(inst.op, Op::Regex { .. })));
        let engine = match offered.interpreted || searches {
            true => Engine::Interpreted,
            false => Engine::Compiled(Box::new(
                Compiled::new(program, false).map_err(|e| Failure::of(e.fault(), e))?,
            )),
        };
        Ok(Simulation { offered, target, plan, ready, rate, templates, engine })
    }

    /// Runs once, from filled tables on.
    ///
    /// # Errors
    /// A handler failed.
    pub fn run(&mut self, rate: Rate) -> Result<Report, Failure> {
        let (duration, drain) = match (self.offered.packets, self.offered.replay) {
            (None, false) => (Some((self.offered.duration * 1e12) as u64), false),
            _ => (None, true),
        };
        let options = Options {
            duration_ps: duration,
            // Queues need some time to find their level.
            warm_up_ps: duration.map_or(0, |ps| ps / 5),
            drain,
            stop: &stop::stopped,
            ..Options::default()
        };
        let mut traffic: Box<dyn nicforge_sim::Workload + '_> = if self.offered.replay {
            Box::new(Replay::new(&self.ready.program, &self.ready.capture, self.timed(rate), 1))
        } else {
            let Offered { spec, rates, packets, .. } = self.offered.clone();
            let overhead = self.target.ports.overhead_bytes;
            let most = packets.unwrap_or(u64::MAX);
            let made = Synthetic::new(spec, rate, self.templates.clone(), overhead, most);
            Box::new(Ticking::new(&self.ready.program, made.with_rates(rates)))
        };
        let (target, plan) = (self.target, self.plan);
        let Ready { program, entries, .. } = self.ready;
        let done = match &mut self.engine {
            Engine::Compiled(compiled) => {
                compiled.stepper().reset();
                empty(program, compiled.stepper().program().tables_mut())?;
                events::fill(compiled.stepper().program().tables_mut(), entries)?;
                nicforge_sim::run(target, plan, program, &mut **compiled, &mut *traffic, &options)
            }
            Engine::Interpreted => {
                let mut handlers = InterpHandlers::new(program, false);
                let interp: &mut Interp = handlers.interp();
                events::fill(interp, entries)?;
                nicforge_sim::run(target, plan, program, &mut handlers, &mut *traffic, &options)
            }
        };
        done.map_err(|e| Failure::user(e.to_string()))
    }

    /// How a capture's times become those of a rate.
    fn timed(&self, rate: Rate) -> Timed {
        if self.offered.rate.is_none() {
            return Timed::Scaled(1.0);
        }
        let frames = self.ready.capture.iter().filter_map(|event| match &event.input {
            nicforge_ir::Input::Net { frame, .. } => Some(frame.len() as f64),
            nicforge_ir::Input::Host { .. } | nicforge_ir::Input::Tick { .. } => None,
        });
        let (count, bytes) = frames.fold((0.0, 0.0), |(n, sum), bytes| (n + 1.0, sum + bytes));
        let overhead = f64::from(self.target.ports.overhead_bytes);
        let per_second = match rate {
            Rate::Frames(frames) => frames,
            Rate::Wire(bits) => bits / (8.0 * (bytes / f64::max(count, 1.0) + overhead)),
        };
        let times = self.ready.capture.first().zip(self.ready.capture.last());
        let recorded =
            times.map_or(0.0, |(first, last)| (last.time_ns - first.time_ns) as f64 * 1e-9);
        // Frames that were all recorded at once have no distances to keep.
        if recorded > 0.0 {
            Timed::Scaled(per_second * recorded / count)
        } else {
            Timed::Apart(1e12 / per_second)
        }
    }

    /// The greatest rate with a loss below [`find::LOSS`], and the run at it.
    ///
    /// # Errors
    /// A handler failed.
    pub fn find_max(&mut self) -> Result<Option<(Rate, Report)>, Failure> {
        let most = self.rate;
        find::max(most, find::LOSS, find::WITHIN, |rate| self.run(rate))
    }
}

/// Removes all entries.
pub fn empty(program: &Program, tables: &mut dyn TableBackend) -> Result<(), Failure> {
    let fail = |e: nicforge_ir::TableError| Failure::environment(e.to_string());
    for table in program.tables.keys() {
        for entry in tables.dump(table).map_err(fail)? {
            tables.delete(table, &entry.key, &entry.matching).map_err(fail)?;
        }
    }
    Ok(())
}
