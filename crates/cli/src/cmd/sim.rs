//! `nicforge sim`: a planned program under simulated traffic.

use nicforge_ir::{Entry, Input, InputEvent, Interp, Program, TableBackend, TableId, Verified};
use nicforge_plan::Plan;
use nicforge_planner::assemble;
use nicforge_run::sim::Compiled;
use nicforge_sim::workload::{
    self, Rate, Replay, Sizes, Spec, Synthetic, Templates, Ticking, Timed,
};
use nicforge_sim::{InterpHandlers, Options, Report, Workload as _, find};
use nicforge_target::Target;
use serde_json::{Value, json};

use super::{matrix, plan, sim_print};
use crate::args::{self, Planning};
use crate::context::{Failure, Runtime};
use crate::{events, interrupt, out, program};

/// Simulates and prints.
pub fn run(args: args::Sim) -> Result<(), Failure> {
    let mut spec = workload::parse(&args.workload).map_err(Failure::usage)?;
    spec.seed = args.seed.unwrap_or(spec.seed);
    let sweep = args.sweep.as_deref().map(points).transpose()?;
    let runtime = Runtime::unpack()?;
    let target = one_target(&args.target)?;
    let mut loaded = program::load(&args.source.on(&target), &runtime)?;
    plan::profile(&mut loaded, &args.planning, &args.inputs)?;
    drop(runtime);
    out::notes(&loaded.warnings);
    let plan = match &args.plan {
        Some(path) => {
            let file = path.display().to_string();
            let content =
                std::fs::read_to_string(path).map_err(|e| Failure::user(format!("{file}: {e}")))?;
            plan::read(&file, &content, &loaded.program, &target)?
        }
        None => plan::find(&loaded, &target, &args.planning)?.0,
    };
    let planned = assemble::program_with(&plan, &loaded.program).map_err(Failure::user)?;
    let entries = events::tables(&args.inputs, &loaded.program, &loaded.path)?;
    let capture = if args.replay || !args.inputs.pcap.is_empty() {
        events::captures(&args.inputs, &loaded.program, &loaded.path)?
    } else {
        events::captures(&args.inputs, &loaded.program, &loaded.path).unwrap_or_default()
    };
    let entries = by_name(&loaded.program, &planned, entries);
    let mut simulation =
        Simulation::new(&args, &target, &plan, &planned, &entries, &capture, spec)?;
    interrupt::stop_in_order();
    if args.find_max {
        return simulation.find_max(args.json);
    }
    let Some(points) = sweep else {
        let report = simulation.run(simulation.rate)?;
        if args.json {
            outln!("{:#}", report.json());
        } else {
            sim_print::report(&report, &plan);
        }
        return Ok(());
    };
    let mut reports = Vec::new();
    for point in points {
        if interrupt::stopped() {
            break;
        }
        let (name, rate) = match point {
            Point::Rate(rate) => (rate.to_string(), rate),
            Point::Flows(flows) => {
                simulation.spec.flows = flows;
                (flows.to_string(), simulation.rate)
            }
        };
        reports.push((name, simulation.run(rate)?));
    }
    if args.json {
        let runs: Vec<Value> = reports
            .iter()
            .map(|(at, report)| json!({ "at": at, "report": report.json() }))
            .collect();
        let name = args.sweep.as_deref().and_then(|text| text.split('=').next());
        outln!(
            "{:#}",
            json!({ "schema": "nicforge/sims", "version": 1, "sweep": name, "runs": runs })
        );
    } else {
        sim_print::sweep(&reports, &plan);
    }
    Ok(())
}

fn one_target(name: &str) -> Result<Target, Failure> {
    let mut targets = matrix::targets(name)?;
    match (targets.pop(), targets.is_empty()) {
        (Some(target), true) => Ok(target),
        _ => Err(Failure::usage("a simulation is of one target; name it")),
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
pub fn greatest(
    args: &args::Sim,
    target: &Target,
    plan: &Plan,
    loaded: &program::Loaded,
) -> Result<Option<f64>, Failure> {
    let planned = assemble::program_with(plan, &loaded.program).map_err(Failure::user)?;
    let entries = events::tables(&args.inputs, &loaded.program, &loaded.path)?;
    let entries = by_name(&loaded.program, &planned, entries);
    let capture = events::captures(&args.inputs, &loaded.program, &loaded.path).unwrap_or_default();
    let spec = workload::parse(&args.workload).map_err(Failure::usage)?;
    let mut simulation = Simulation::new(args, target, plan, &planned, &entries, &capture, spec)?;
    let most = simulation.rate;
    let found = find::max(most, find::LOSS, find::WITHIN, |rate| simulation.run(rate))?;
    Ok(found.map(|(_, report)| report.offered.pps))
}

/// Events of the traffic that [`greatest`] offers at the ports' rate, and the mean size of their
/// frames. As many again come first, so that flows have begun.
pub fn traffic(
    planning: &Planning,
    target: &Target,
    loaded: &program::Loaded,
    inputs: &args::Inputs,
    count: usize,
) -> Result<Traffic, Failure> {
    let program = &loaded.program;
    let entries = events::tables(inputs, program, &loaded.path)?;
    let capture = events::captures(inputs, program, &loaded.path).unwrap_or_default();
    let spec = workload::parse(&args::Sim::workload(planning.frame, planning.flows));
    let spec = spec.map_err(Failure::usage)?;
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

/// What a simulated port offers.
pub struct Traffic {
    pub before: Vec<InputEvent>,
    pub events: Vec<InputEvent>,
    pub entries: Vec<(TableId, Entry)>,
    pub frame_bytes: u32,
}

/// What runs handlers.
enum Engine<'p> {
    Compiled(Box<Compiled<'p>>),
    Interpreted,
}

/// Everything but the rate.
struct Simulation<'a> {
    args: &'a args::Sim,
    target: &'a Target,
    plan: &'a Plan,
    program: &'a Verified<Program>,
    entries: &'a [(TableId, Entry)],
    capture: &'a [InputEvent],
    spec: Spec,
    rate: Rate,
    templates: Templates,
    rates: Vec<(f64, Rate)>,
    engine: Engine<'a>,
}

impl<'a> Simulation<'a> {
    fn new(
        args: &'a args::Sim,
        target: &'a Target,
        plan: &'a Plan,
        program: &'a Verified<Program>,
        entries: &'a [(TableId, Entry)],
        capture: &'a [InputEvent],
        spec: Spec,
    ) -> Result<Simulation<'a>, Failure> {
        let rate = match (&args.rate, spec.rate) {
            (Some(text), _) => workload::parse_rate(text).map_err(Failure::usage)?,
            (None, Some(rate)) => rate,
            (None, None) => Rate::Wire(target.ports.rate.value),
        };
        let bytes = match spec.sizes {
            Sizes::Fixed(bytes) => bytes,
            _ => 0,
        };
        // What is left out of a capture is said nowhere: the fates it is chosen by are those of the
        // interpreter.
        let templates = workload::accepted(program, entries, capture, bytes, spec.tcp);
        let rates = match &args.rates {
            Some(path) => {
                let fail = |e: String| Failure::user(format!("{}: {e}", path.display()));
                let text = std::fs::read_to_string(path).map_err(|e| fail(e.to_string()))?;
                workload::parse_rates(&text).map_err(fail)?
            }
            None => Vec::new(),
        };
        let engine = match args.interpreted {
            true => Engine::Interpreted,
            false => Engine::Compiled(Box::new(
                Compiled::new(program, false).map_err(|e| Failure::of(e.fault(), e))?,
            )),
        };
        Ok(Simulation {
            args,
            target,
            plan,
            program,
            entries,
            capture,
            spec,
            rate,
            templates,
            rates,
            engine,
        })
    }

    /// One run, from filled tables on.
    fn run(&mut self, rate: Rate) -> Result<Report, Failure> {
        let (duration, drain) = match (self.args.packets, self.args.replay) {
            (None, false) => (Some((self.args.duration * 1e12) as u64), false),
            _ => (None, true),
        };
        let options = Options {
            duration_ps: duration,
            // Queues need some time to find their level.
            warm_up_ps: duration.map_or(0, |ps| ps / 5),
            drain,
            stop: &interrupt::stopped,
            ..Options::default()
        };
        let mut traffic: Box<dyn nicforge_sim::Workload + '_> = if self.args.replay {
            Box::new(Replay::new(self.program, self.capture, self.timed(rate), 1))
        } else {
            let most = self.args.packets.unwrap_or(u64::MAX);
            let overhead = self.target.ports.overhead_bytes;
            let made =
                Synthetic::new(self.spec.clone(), rate, self.templates.clone(), overhead, most);
            Box::new(Ticking::new(self.program, made.with_rates(self.rates.clone())))
        };
        let (target, plan, program) = (self.target, self.plan, self.program);
        let done = match &mut self.engine {
            Engine::Compiled(compiled) => {
                compiled.stepper().reset();
                empty(program, compiled.stepper().program().tables_mut())?;
                events::fill(compiled.stepper().program().tables_mut(), self.entries)?;
                nicforge_sim::run(target, plan, program, &mut **compiled, &mut *traffic, &options)
            }
            Engine::Interpreted => {
                let mut handlers = InterpHandlers::new(program, false);
                let interp: &mut Interp = handlers.interp();
                events::fill(interp, self.entries)?;
                nicforge_sim::run(target, plan, program, &mut handlers, &mut *traffic, &options)
            }
        };
        done.map_err(|e| Failure::user(e.to_string()))
    }

    /// How a capture's times become those of a rate.
    fn timed(&self, rate: Rate) -> Timed {
        if self.args.rate.is_none() {
            return Timed::Scaled(1.0);
        }
        let frames = self.capture.iter().filter_map(|event| match &event.input {
            nicforge_ir::Input::Net { frame, .. } => Some(frame.len() as f64),
            nicforge_ir::Input::Host { .. } | nicforge_ir::Input::Tick { .. } => None,
        });
        let (count, bytes) = frames.fold((0.0, 0.0), |(n, sum), bytes| (n + 1.0, sum + bytes));
        let overhead = f64::from(self.target.ports.overhead_bytes);
        let per_second = match rate {
            Rate::Frames(frames) => frames,
            Rate::Wire(bits) => bits / (8.0 * (bytes / f64::max(count, 1.0) + overhead)),
        };
        let times = self.capture.first().zip(self.capture.last());
        let recorded =
            times.map_or(0.0, |(first, last)| (last.time_ns - first.time_ns) as f64 * 1e-9);
        // Frames that were all recorded at once have no distances to keep.
        if recorded > 0.0 {
            Timed::Scaled(per_second * recorded / count)
        } else {
            Timed::Apart(1e12 / per_second)
        }
    }

    fn find_max(&mut self, as_json: bool) -> Result<(), Failure> {
        let most = self.rate;
        let found = find::max(most, find::LOSS, find::WITHIN, |rate| self.run(rate))?;
        match found {
            None => Err(Failure::user(
                "every rate loses frames: look at `nicforge sim` without --find-max for where",
            )),
            Some((rate, report)) if as_json => {
                let value = json!({
                    "schema": "nicforge/sim-max", "version": 1, "loss_below": find::LOSS, "within": find::WITHIN,
                    "rate": rate.to_string(), "reached_most": rate == most, "report": report.json(),
                });
                outln!("{value:#}");
                Ok(())
            }
            Some((rate, report)) => {
                let more = if rate == most { ", all that was offered" } else { "" };
                outln!("greatest rate with a loss below {} %: {rate}{more}", find::LOSS * 100.0);
                sim_print::report(&report, self.plan);
                Ok(())
            }
        }
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

/// One simulation of a sweep.
enum Point {
    Rate(Rate),
    Flows(u32),
}

/// Most simulations of a sweep.
const MOST_POINTS: usize = 1000;

/// Reads `rate=10G..100G/10G` or `flows=1..4096*4`.
fn points(text: &str) -> Result<Vec<Point>, Failure> {
    let wrong = |reason: &str| {
        Failure::usage(format!(
            "--sweep {text}: {reason}; write rate=10G..100G/10G, or flows=1..4096*4 (/ adds, * multiplies)"
        ))
    };
    let (name, range) = text.split_once('=').ok_or_else(|| wrong("expected NAME=FROM..TO/STEP"))?;
    let (from, rest) = range.split_once("..").ok_or_else(|| wrong("expected FROM..TO"))?;
    let at = rest.find(['/', '*']).ok_or_else(|| wrong("expected a step behind / or *"))?;
    let (to, step) = (&rest[..at], &rest[at + 1..]);
    let multiply = rest.as_bytes()[at] == b'*';
    let factor = |text: &str| text.parse::<f64>().ok().filter(|f| *f > 1.0);
    let read = |text: &str| -> Result<f64, Failure> {
        match name {
            "rate" => match workload::parse_rate(text).map_err(|e| wrong(&e))? {
                Rate::Wire(value) | Rate::Frames(value) => Ok(value),
            },
            "flows" => Ok(f64::from(
                text.parse::<u32>().map_err(|_| wrong("expected numbers of flows"))?.max(1),
            )),
            _ => Err(wrong("there is nothing of that name to sweep")),
        }
    };
    let (low, high) = (read(from)?, read(to)?);
    let step = if multiply {
        factor(step).ok_or_else(|| wrong("the factor must be above 1"))?
    } else {
        read(step)?
    };
    let frames = from.ends_with("pps");
    let mut list = Vec::new();
    let mut value = low;
    while value <= high * (1.0 + 1e-9) {
        list.push(match (name, frames) {
            ("flows", _) => Point::Flows(value as u32),
            (_, true) => Point::Rate(Rate::Frames(value)),
            (_, false) => Point::Rate(Rate::Wire(value)),
        });
        if list.len() > MOST_POINTS {
            return Err(wrong("that is more than 1000 simulations"));
        }
        value = if multiply { value * step } else { value + step };
    }
    if list.is_empty() { Err(wrong("nothing lies in that range")) } else { Ok(list) }
}
