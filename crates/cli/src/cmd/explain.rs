//! `nicforge explain`: why a plan is as it is.

use nicforge_driver::{Failure, Runtime, planning, program, targets};
use nicforge_ir::Program;
use nicforge_plan::{Carried, Plan, Replication, Stage, TablePlan};
use nicforge_target::{Target, accelerate};

use crate::args::Explain;

/// Plans, and answers what the question's words name.
pub fn run(args: Explain) -> Result<(), Failure> {
    let runtime = Runtime::unpack()?;
    let target = targets::find(&args.target)?;
    let mut loaded = program::load(&args.source.on(&target), &runtime)?;
    planning::profile(&mut loaded, &args.planning, &args.inputs)?;
    drop(runtime);
    let (found, _) = planning::find(&loaded, &target, &args.planning)?;
    let words: Vec<String> = args
        .question
        .iter()
        .flat_map(|part| part.split_whitespace())
        .map(|word| {
            word.trim_matches(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-'))
                .to_lowercase()
        })
        .collect();
    let named = |name: &str| words.iter().any(|word| *word == name.to_lowercase());
    let stages: Vec<&Stage> = found.stages.iter().filter(|s| named(&s.name)).collect();
    let tables: Vec<&TablePlan> = found.tables.iter().filter(|t| named(&t.name)).collect();
    let everything = words.is_empty();
    let rate = ["rate", "limit", "limits", "slow", "fast", "faster"].iter().any(|word| named(word));
    if !everything && stages.is_empty() && tables.is_empty() && !rate {
        let names: Vec<&str> = found
            .stages
            .iter()
            .map(|s| s.name.as_str())
            .chain(found.tables.iter().map(|t| t.name.as_str()))
            .collect();
        return Err(Failure::usage(format!(
            "the question names no stage or table of this plan; it has {}, and `rate`",
            names.join(", ")
        )));
    }
    for stage in if everything { found.stages.iter().collect() } else { stages } {
        explain_stage(stage, &found);
    }
    for table in if everything { found.tables.iter().collect() } else { tables } {
        explain_table(table);
    }
    if everything || rate {
        explain_rate(&found);
        explain_accelerators(&loaded.program, &target);
    }
    Ok(())
}

fn explain_stage(stage: &Stage, plan: &Plan) {
    let n = stage.replicas;
    outln!("stage {}: {n} replica{} on {}", stage.name, if n == 1 { "" } else { "s" }, stage.group);
    match &stage.replication {
        Replication::Free => {
            outln!("  it may have any number: it writes no table that must stay whole")
        }
        Replication::Sharded { by } => {
            outln!(
                "  it may have any number: every key of its tables contains {}, which steers its events",
                by.join(", ")
            );
        }
        Replication::Locked { tables } => {
            outln!("  replicas share {} under generated locks", tables.join(", "))
        }
        Replication::Single { reason } => outln!("  it must have one: {reason}"),
    }
    outln!(
        "  {:.0} cycles an event ({:.0} of processing, {:.0} ns waiting for memory), {:.2} events a packet: {:.2} Mpps",
        stage.cycles,
        stage.busy_cycles,
        stage.wait_ns,
        stage.share,
        stage.rate_pps / 1e6
    );
    let enough = stage.rate_pps > plan.predicted.rate_pps * 1.001;
    if enough && !matches!(stage.replication, Replication::Single { .. }) {
        outln!("  more would not help: the plan is limited by {}", plan.predicted.limit);
    }
    for edge in plan.edges.iter().filter(|edge| edge.to == stage.name && !edge.from.is_empty()) {
        let values: Vec<String> = edge.values.iter().map(carried).collect();
        outln!("  from {} it gets the packet and {}", edge.from.join(", "), values.join(", "));
        if let Some(who) = &edge.reorder {
            outln!(
                "  arrival order is restored in front of it, in {who}: replicas before it may overtake one another"
            );
        }
    }
}

fn carried(value: &Carried) -> String {
    match value.context {
        None => format!("{} ({} bytes)", value.name, value.bytes),
        Some(slot) => {
            format!("{} ({} bytes, in the context at {})", value.name, value.bytes, slot.at)
        }
    }
}

fn explain_table(table: &TablePlan) {
    let shards = if table.per_replica { ", one instance per replica" } else { "" };
    outln!("table {}: in {} ({} bytes{shards})", table.name, table.memory, table.bytes);
    for other in &table.rejected {
        outln!("  not in {}: {}", other.memory, other.reason);
    }
}

fn explain_rate(plan: &Plan) {
    outln!("rate: {:.2} Mpps, limited by {}", plan.predicted.rate_pps / 1e6, plan.predicted.limit);
    let mut others: Vec<_> = plan.search.iter().filter(|step| !step.chosen).collect();
    others.sort_by(|a, b| b.rate_pps.total_cmp(&a.rate_pps));
    for step in others.into_iter().take(3) {
        let replicas: Vec<String> = step.replicas.iter().map(u32::to_string).collect();
        outln!(
            "  candidate {}: {:.2} Mpps with {} replicas ({}), limited by {}",
            step.iteration,
            step.rate_pps / 1e6,
            replicas.join("+"),
            step.action,
            step.limit
        );
    }
}

/// Which ops do not run on the units' instructions.
fn explain_accelerators(program: &Program, target: &Target) {
    for (name, op, span) in accelerate::uses(program, target) {
        outln!(
            "accelerator {name}: does {} for {}, which keeps a unit busy for less than its instructions would",
            op.name(),
            program.place(span)
        );
    }
}
