//! Programs as hardware: `build`, `verify` and `run` for targets whose code generator is the RTL
//! one.

mod report;

use nicforge_codegen::Unsupported;
use nicforge_codegen::rtl::{Form, LONGEST, MOST_ENGINES, SHORTEST, Stage, Wanted};
use nicforge_ir::{Direction, Handler, HandlerId, Input, InputEvent, Output, Program, Verified};
use nicforge_plan::{Plan, Replication, Steering};
use nicforge_planner::assemble;
use nicforge_planner::stages::in_a_row;
use nicforge_run::rtl::{Drive, RtlError, RtlProgram, RtlRun, takes};
use nicforge_target::Target;
use nicforge_target::area::{AreaCosts, TooLarge};
use nicforge_target::spec::Generator;

use super::run::control;
use super::run::summary::{Summary, TableSize};
use super::verify::Subject;
use super::{compare, plan, synth, verify_dpdk};
use crate::args::{Build, Emit, Planned, Run};
use crate::backend::Case;
use crate::context::Failure;
use crate::program::{self, Loaded};
use crate::{events, interrupt, out, text};

/// What hardware cannot do is shown on source lines, everything else as it is.
pub(super) fn failure(program: &Program, error: RtlError) -> Failure {
    match &error {
        RtlError::Unsupported(list) => program::unsupported(program, list),
        _ => Failure::of(error.fault(), error),
    }
}

/// The design of a program, with as many engines as its plan says, or as are worth it and fit.
pub(super) fn design(
    source: &Verified<Program>,
    planned: &Planned,
    target: &Target,
) -> Result<RtlProgram, Failure> {
    // The generator says more of what it refuses.
    let design = generated(source, planned, target)?;
    program::taken(source, target)?;
    Ok(design)
}

fn generated(
    source: &Verified<Program>,
    planned: &Planned,
    target: &Target,
) -> Result<RtlProgram, Failure> {
    let area = synth::costs(target)?;
    let source = program::to_plan(source, target)?;
    if planned.plan.is_none() && planned.candidate.is_none() {
        let compiled = program::lower_planned(&source)?;
        if has_internal(&compiled) {
            return staged(&compiled, &in_a_row(&compiled), Wanted::Best, area);
        }
        let one = sized(&compiled, 1, area)?;
        let replicas = engines(&compiled, &one, target)?;
        return if replicas == 1 { Ok(one) } else { sized(&compiled, replicas, area) };
    }
    with(&source, &plan::chosen(planned, &source, target)?, area)
}

/// Whether handlers stay behind others.
fn has_internal(program: &Program) -> bool {
    program
        .handlers
        .values()
        .any(|handler| program.events[handler.event].direction == Direction::Internal)
}

/// The design of a plan.
pub(super) fn with(
    source: &Verified<Program>,
    plan: &Plan,
    area: &AreaCosts,
) -> Result<RtlProgram, Failure> {
    let cut = assemble::program_with(plan, source)
        .map_err(|e| Failure::user(format!("internal error: the planned program is wrong: {e}")))?;
    if has_internal(&cut) {
        let compiled = program::lower_planned(&cut)?;
        let stages = of_plan(&compiled, plan)?;
        // Several stages are what the plan wants.
        let wanted = if stages.len() == 1 { Wanted::Best } else { Wanted::Engine };
        return staged(&compiled, &stages, wanted, area);
    }
    let [stage] = &plan.stages[..] else {
        let message = "the plan has several stages, but nothing goes from one to another";
        return Err(Failure::user(message));
    };
    if stage.replicas > MOST_ENGINES {
        let message = format!(
            "the plan has {} replicas; a design has at most {MOST_ENGINES}",
            stage.replicas
        );
        return Err(Failure::user(message));
    }
    with_engines(source, stage.replicas, area)
}

/// The stages of a plan.
fn of_plan(compiled: &Program, plan: &Plan) -> Result<Vec<Vec<HandlerId>>, Failure> {
    let mut stages = Vec::new();
    for stage in &plan.stages {
        if stage.replicas != 1 {
            let message = format!(
                "stage `{}` has {} replicas; where a design has several stages, each has one engine",
                stage.name, stage.replicas
            );
            return Err(Failure::user(message));
        }
        let of_stage =
            |(_, handler): &(HandlerId, &Handler)| stage.handlers.contains(&handler.name);
        stages.push(compiled.handlers.iter().filter(of_stage).map(|(id, _)| id).collect());
    }
    Ok(stages)
}

/// The design of a program with internal events, checked against the device.
fn staged(
    compiled: &Verified<Program>,
    stages: &[Vec<HandlerId>],
    wanted: Wanted,
    area: &AreaCosts,
) -> Result<RtlProgram, Failure> {
    fits(compiled, area, 1.0)?;
    let design =
        RtlProgram::in_stages(compiled, stages, wanted).map_err(|e| failure(compiled, e))?;
    checked(compiled, design, area)
}

/// A pipe has more places for entries than engines.
fn checked(
    compiled: &Verified<Program>,
    design: RtlProgram,
    area: &AreaCosts,
) -> Result<RtlProgram, Failure> {
    if matches!(design.artifact().form, Form::Pipe { .. }) {
        fits(compiled, area, area.slots)?;
    }
    Ok(design)
}

/// The design with so many engines, also of what could be a pipe.
pub(super) fn of_engines(
    source: &Verified<Program>,
    replicas: u32,
    area: &AreaCosts,
) -> Result<RtlProgram, Failure> {
    let compiled = program::lower(source)?;
    fits(&compiled, area, 1.0)?;
    RtlProgram::replicated(&compiled, Wanted::Engine, replicas).map_err(|e| failure(&compiled, e))
}

/// The design with so many engines, if it is not a pipe.
pub(super) fn with_engines(
    source: &Verified<Program>,
    replicas: u32,
    area: &AreaCosts,
) -> Result<RtlProgram, Failure> {
    sized(&program::lower(source)?, replicas, area)
}

/// The design with so many engines, if it is not a pipe, checked against the device.
fn sized(
    compiled: &Verified<Program>,
    replicas: u32,
    area: &AreaCosts,
) -> Result<RtlProgram, Failure> {
    // Engines keep one place for an entry; a design that does not fit like that never does.
    fits(compiled, area, 1.0)?;
    let design = RtlProgram::replicated(compiled, Wanted::Best, replicas)
        .map_err(|e| failure(compiled, e))?;
    checked(compiled, design, area)
}

/// How many engines are worth it: as many as leave nothing but turns, or reach the ports' rate of
/// shortest frames, and fit on the device.
fn engines(compiled: &Program, one: &RtlProgram, target: &Target) -> Result<u32, Failure> {
    let Form::Engine { length, .. } = &one.artifact().form else { return Ok(1) };
    let clock = target.units.iter().map(|group| group.clock.value).fold(1.0, f64::max);
    let bits = f64::from(target.ports.min_frame + target.ports.overhead_bytes) * 8.0;
    let line = bits / target.ports.rate.value * clock;
    let worth = f64::from(length.cycles) / f64::from(length.in_turn).max(line);
    let asked = compiled.handlers.values().filter_map(|handler| handler.max_replicas);
    let asked = asked.chain(compiled.tables.values().filter_map(|table| table.max_replicas)).min();
    let most = (worth.ceil() as u32).min(MOST_ENGINES).min(asked.unwrap_or(u32::MAX)).max(1);
    Ok(synth::costs(target)?.engines(compiled, most).max(1))
}

/// Refuses tables that are too large for the device.
fn fits(program: &Program, area: &AreaCosts, slots: f64) -> Result<(), Failure> {
    let refusal = |found: TooLarge| {
        let table = &program.tables[found.table];
        let [takes, all, device] =
            [found.takes, found.all, found.device].map(|n| text::grouped(n.ceil() as u64));
        let message = format!(
            "table `{}` takes {takes} of {device} block memories, the whole design {all}",
            table.name
        );
        Unsupported {
            message,
            help: "give it fewer or smaller entries".to_string(),
            span: table.span,
        }
    };
    let refused: Vec<Unsupported> =
        area.too_large(program, slots).into_iter().map(refusal).collect();
    if refused.is_empty() { Ok(()) } else { Err(program::unsupported(program, &refused)) }
}

/// The folder of a design, or its text.
pub fn build(target: &Target, args: &Build, loaded: &Loaded) -> Result<(), Failure> {
    let design = design(&loaded.program, &args.planned, target)?;
    if args.emit == Emit::C {
        let files = design.artifact().files.iter();
        let text: String = files.map(|(name, text)| format!("// ---- {name}\n{text}\n")).collect();
        out::text(&text);
        return Ok(());
    }
    let path = args.output.clone().unwrap_or_else(|| loaded.program.name.clone().into());
    design.write(&path).map_err(|e| failure(&loaded.program, e))?;
    outln!("wrote {}: {}", path.display(), form_of(&loaded.program, &design.artifact().form));
    Ok(())
}

/// What the handlers became, and why if it is not the fast form.
fn form_of(program: &Program, form: &Form) -> String {
    match form {
        Form::Pipe { stages, interval, meeting, in_turn } => {
            let every = |cycles: u32| match cycles {
                1 => "every cycle".to_string(),
                _ => format!("every {cycles} cycles"),
            };
            let mut pipe = format!("a pipe of {stages} stages, a packet {}", every(*interval));
            if meeting > interval {
                pipe = format!("{pipe}, of the same entry {}", every(*meeting));
            }
            for why in in_turn {
                let place = program.place(why.span);
                pipe = format!("{pipe}; entries in turn, since at {place}: {}", why.reason);
            }
            pipe
        }
        Form::Engine { replicas, length, why } => {
            let many = match replicas {
                1 => "an engine".to_string(),
                _ => format!("{replicas} engines"),
            };
            let states = length.states;
            let place = program.place(why.span);
            format!(
                "{many} of {states} states, each one packet at a time; no pipe, since at {place}: {}",
                why.reason
            )
        }
        Form::Stages { stages, why } => {
            let one = |stage: &Stage| {
                format!("`{}`, an engine of {} states", stage.name, stage.length.states)
            };
            let list: Vec<String> = stages.iter().map(one).collect();
            let place = program.place(why.span);
            format!(
                "{} stages, one behind the other: {}; no pipe, since at {place}: {}",
                stages.len(),
                list.join("; "),
                why.reason
            )
        }
    }
}

/// Puts what the generator makes of the program into a plan whose stage is hardware: the planner
/// prices operators as wires, and only the generator knows whether handlers become a pipe or an
/// engine that takes a packet at a time.
pub fn price(plan: &mut Plan, source: &Verified<Program>, target: &Target) -> Result<(), Failure> {
    if !target.in_a_row() {
        return Ok(());
    }
    let design = design(source, &Planned::default(), target)?;
    if let Form::Stages { stages, .. } = &design.artifact().form {
        price_stages(plan, stages, target);
        return Ok(());
    }
    if matches!(design.artifact().form, Form::Pipe { .. }) {
        join(plan);
    }
    let [stage] = &mut plan.stages[..] else { return Ok(()) };
    let group = target.units.iter().find(|group| group.name == stage.group);
    let Some(group) = group.filter(|group| group.codegen == Generator::Rtl) else { return Ok(()) };
    let form = &design.artifact().form;
    let what = form_of(source, form);
    let (cycles, between) = match form {
        Form::Stages { .. } => return Ok(()),
        // If all packets are of one entry.
        Form::Pipe { meeting, .. } => (f64::from(*meeting), f64::from(*meeting)),
        // Its longest way: most packets leave earlier.
        Form::Engine { replicas, length, .. } => {
            let cycles = f64::from(length.cycles);
            (cycles, (cycles / f64::from(*replicas)).max(f64::from(length.in_turn)))
        }
    };
    if let Form::Engine { replicas: replicas @ 2.., .. } = form {
        stage.replicas = *replicas;
        stage.units = (0..*replicas).map(|unit| format!("{}.{unit}", group.name)).collect();
        let changed: Vec<String> = plan
            .tables
            .iter()
            .filter(|table| !table.read_only)
            .map(|table| table.name.clone())
            .collect();
        stage.replication = if changed.is_empty() {
            Replication::Free
        } else {
            // Events use them one behind the other, in their order.
            Replication::Locked { tables: changed }
        };
        for table in plan.tables.iter_mut().filter(|table| table.read_only) {
            table.per_replica = true;
        }
        for edge in plan.edges.iter_mut().filter(|edge| edge.to == stage.name) {
            edge.steering = Steering::RoundRobin;
            edge.reorder = Some("hardware".to_string());
        }
    }
    stage.cycles = cycles;
    stage.busy_cycles = cycles;
    stage.rate_pps = group.clock.value / between;
    let predicted = &mut plan.predicted;
    predicted.unlimited_pps = stage.rate_pps / stage.share.max(f64::MIN_POSITIVE);
    if predicted.unlimited_pps < predicted.rate_pps {
        predicted.bit_rate_bps *= predicted.unlimited_pps / predicted.rate_pps;
        predicted.rate_pps = predicted.unlimited_pps;
        predicted.line_rate = false;
        predicted.limit = format!("`{}`: {what}", stage.name);
    }
    Ok(())
}

/// Makes stages one, which a pipe is.
fn join(plan: &mut Plan) {
    let others = plan.stages.split_off(1);
    if others.is_empty() {
        return;
    }
    for other in others {
        plan.stages[0].handlers.extend(other.handlers);
        plan.stages[0].tables.extend(other.tables);
    }
    plan.stages[0].tables.sort();
    plan.stages[0].tables.dedup();
    plan.edges.retain(|edge| edge.from.is_empty());
}

/// The same for stages that are engines, of which each has one event at a time.
fn price_stages(plan: &mut Plan, made: &[Stage], target: &Target) {
    for (stage, made) in plan.stages.iter_mut().zip(made) {
        let Some(group) = target.units.iter().find(|group| group.name == stage.group) else {
            continue;
        };
        stage.cycles = f64::from(made.length.cycles);
        stage.busy_cycles = stage.cycles;
        stage.rate_pps = group.clock.value / stage.cycles.max(1.0);
    }
    let rate = |stage: &nicforge_plan::Stage| stage.rate_pps / stage.share.max(f64::MIN_POSITIVE);
    let Some(slowest) = plan.stages.iter().min_by(|a, b| rate(a).total_cmp(&rate(b))) else {
        return;
    };
    let predicted = &mut plan.predicted;
    predicted.unlimited_pps = rate(slowest);
    if predicted.unlimited_pps < predicted.rate_pps {
        predicted.bit_rate_bps *= predicted.unlimited_pps / predicted.rate_pps;
        predicted.rate_pps = predicted.unlimited_pps;
        predicted.line_rate = false;
        predicted.limit =
            format!("`{}`: an engine of {:.0} cycles an event", slowest.name, slowest.cycles);
    }
}

/// Simulates the subject with streams that wait at random, and compares it with the source.
pub fn verify(
    target: &Target,
    stands_in: Option<&'static str>,
    case: &Case,
) -> Result<(), Failure> {
    let taken: Vec<InputEvent> = case.events.iter().filter(|event| takes(event)).cloned().collect();
    let design = design(case.subject, &case.args.planned, target)?;
    let drive = Drive { pressure: 1, ..Drive::default() };
    let (_, differences) = design
        .verify(case.source, case.entries, &taken, &drive)
        .map_err(|e| failure(case.source, e))?;
    let limits = format!("the design takes (frames under {SHORTEST} or over {LONGEST} bytes)");
    let what = Subject { target: &target.name, stands_in, limits };
    verify_dpdk::finish(
        case,
        &what,
        None,
        taken.len(),
        case.events.len() - taken.len(),
        differences,
    )
}

/// Plays captures into the simulated design and reports what it did and how fast.
pub fn run(target: &Target, args: &Run, loaded: &Loaded) -> Result<(), Failure> {
    let events = events::captures(&args.inputs, &loaded.program, &loaded.path)?;
    let entries = events::tables(&args.inputs, &loaded.program, &loaded.path)?;
    let taken: Vec<InputEvent> = events.iter().filter(|event| takes(event)).cloned().collect();
    let design = design(&loaded.program, &args.planned, target)?;
    let drive = Drive { trace: args.trace.clone(), ..Drive::default() };
    let fail = |e| failure(&loaded.program, e);
    let (run, mut held) = if args.hold {
        let (run, held) = design.hold(&taken, &entries, &drive).map_err(fail)?;
        (run, Some(held))
    } else {
        (design.run(&taken, &entries, &drive).map_err(fail)?, None)
    };
    if args.events {
        for (number, outputs) in run.run.outputs.iter().enumerate() {
            for output in outputs {
                outln!("{}: {}", number + 1, compare::describe(&loaded.program, output));
            }
        }
    }
    if let Some(path) = &args.out {
        write(path, loaded, &taken, &run)?;
    }
    let left_out = events.len() - taken.len();
    let summary = summary(target, &loaded.program, &taken, &run);
    if args.metrics {
        out::text(&summary.prometheus(&loaded.program));
    } else if args.json {
        outln!(
            "{:#}",
            report::report(target, loaded, report::stages_of(&design), &run.stats, left_out)
        );
    } else {
        outln!("{}: {}", loaded.program.name, form_of(&loaded.program, &design.artifact().form));
        report::print(target, loaded, report::stages_of(&design), &run.stats, left_out);
    }
    if let Some(held) = &mut held {
        // The design must end in order, for the sake of its waveforms.
        interrupt::stop_in_order();
        control::hold(&loaded.program, held, summary)?;
    }
    Ok(())
}

/// The run as other targets report theirs.
fn summary(target: &Target, program: &Program, events: &[InputEvent], run: &RtlRun) -> Summary {
    let mut summary = Summary::new(&target.name, "simulated by Verilator".to_string(), program);
    for event in events {
        match event.input {
            Input::Net { .. } => summary.packets_in += 1,
            Input::Host { .. } => summary.messages_in += 1,
            Input::Tick { .. } => summary.ticks += 1,
        }
    }
    run.run.outputs.iter().flatten().for_each(|output| summary.count(program, output));
    for (id, table) in &program.tables {
        let refused =
            run.stats.counters.get(&format!("refused_{}", table.name)).copied().unwrap_or(0);
        if refused > 0 {
            summary.refused.push((table.name.clone(), refused));
        }
        summary.tables.push(TableSize {
            name: table.name.clone(),
            kind: table.kind.name(),
            entries: run.run.tables.get(&id).map_or(0, Vec::len),
            capacity: table.capacity,
        });
    }
    summary
}

/// What was sent, by port, with the times at which packets came in.
fn write(
    path: &std::path::Path,
    loaded: &Loaded,
    events: &[InputEvent],
    run: &RtlRun,
) -> Result<(), Failure> {
    let mut sent = vec![Vec::new(); loaded.program.ports as usize];
    for (event, outputs) in events.iter().zip(&run.run.outputs) {
        for output in outputs {
            if let Output::Send { port, frame } = output
                && let Some(list) = sent.get_mut(*port as usize)
            {
                list.push((event.time_ns, frame.clone()));
            }
        }
    }
    events::write(path, &sent)
}
