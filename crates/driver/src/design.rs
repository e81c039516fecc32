//! Programs as hardware: the design of a program or of its plan, what it takes of the device, and
//! what it costs a plan.

use nicforge_codegen::Unsupported;
use nicforge_codegen::rtl::{Form, MOST_ENGINES, Stage, Wanted};
use nicforge_ir::{Direction, Handler, HandlerId, Program, Verified};
use nicforge_plan::{Plan, Replication, Steering};
use nicforge_planner::assemble;
use nicforge_planner::stages::in_a_row;
use nicforge_run::rtl::{RtlError, RtlProgram};
use nicforge_target::Target;
use nicforge_target::area::{AreaCosts, Estimate, TooLarge};
use nicforge_target::spec::Generator;

use crate::{Failure, program};

/// Shows what hardware cannot do on source lines, everything else as it is.
pub fn failure(program: &Program, error: RtlError) -> Failure {
    match &error {
        RtlError::Unsupported(list) => program::unsupported(program, list),
        _ => Failure::of(error.fault(), error),
    }
}

/// The design of a program, with as many engines as are worth it and fit.
///
/// # Errors
/// The device has no room for it, or the generator refuses it.
pub fn of_program(source: &Verified<Program>, target: &Target) -> Result<RtlProgram, Failure> {
    let area = costs(target)?;
    let source = program::to_plan(source, target)?;
    let compiled = program::lower_planned(&source)?;
    if has_internal(&compiled) {
        return staged(&compiled, &in_a_row(&compiled), Wanted::Best, area);
    }
    let one = sized(&compiled, 1, area)?;
    let replicas = engines(&compiled, &one, target)?;
    if replicas == 1 { Ok(one) } else { sized(&compiled, replicas, area) }
}

/// True if handlers stay behind others.
fn has_internal(program: &Program) -> bool {
    program
        .handlers
        .values()
        .any(|handler| program.events[handler.event].direction == Direction::Internal)
}

/// The design of a plan.
pub fn with(
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
pub fn of_engines(
    source: &Verified<Program>,
    replicas: u32,
    area: &AreaCosts,
) -> Result<RtlProgram, Failure> {
    let compiled = program::lower(source)?;
    fits(&compiled, area, 1.0)?;
    RtlProgram::replicated(&compiled, Wanted::Engine, replicas).map_err(|e| failure(&compiled, e))
}

/// The design with so many engines, if it is not a pipe.
pub fn with_engines(
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
    Ok(costs(target)?.engines(compiled, most).max(1))
}

/// Refuses tables that are too large for the device.
fn fits(program: &Program, area: &AreaCosts, slots: f64) -> Result<(), Failure> {
    let refusal = |found: TooLarge| {
        let table = &program.tables[found.table];
        let [takes, all, device] =
            [found.takes, found.all, found.device].map(|n| grouped(n.ceil() as u64));
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

/// The device's costs of designs, by the spec.
pub fn costs(target: &Target) -> Result<&AreaCosts, Failure> {
    let missing = || {
        Failure::user(format!("target `{}` has no section [area], which designs need", target.name))
    };
    target.area.as_ref().ok_or_else(missing)
}

/// Estimates what a program's design takes, by the spec.
pub fn estimate(
    program: &Verified<Program>,
    design: &RtlProgram,
    costs: &AreaCosts,
) -> Result<Estimate, Failure> {
    let lowered = program::lower(program)?;
    Ok(costs.estimate(&lowered, &design.handlers()))
}

/// The form that the handlers became, and why if it is not the fast one.
pub fn form_of(program: &Program, form: &Form) -> String {
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
    let design = of_program(source, target)?;
    program::taken(source, target)?;
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
            let between = (cycles / f64::from(*replicas)).max(f64::from(length.in_turn));
            // What ticks of timers leave of a second; a design that they fill does next to nothing.
            let left = 1.0 - length.ticking as f64 / group.clock.value;
            (cycles, between / left.max(0.001))
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

/// Prices stages that are engines, of which each has one event at a time.
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

/// A whole number with commas: `1,303,680`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn thousands_have_commas() {
        assert_eq!([0, 999, 1000, 1_303_680].map(grouped), ["0", "999", "1,000", "1,303,680"]);
    }
}
