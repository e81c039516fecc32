//! A capture through a planned program in the kernel: stages on several CPUs, and the interpreter
//! beside them.

use nicforge_driver::program::Loaded;
use nicforge_driver::verify::kernel;
use nicforge_driver::{Failure, Runtime, events, pipelines};
use nicforge_ir::InputEvent;
use nicforge_run::compile::Mode;
use nicforge_run::live::{Crossed, LiveOutputs, StageReport};
use nicforge_target::Target;
use serde_json::{Value, json};

use super::summary::Promised;
use super::{control, live};
use crate::args::Run;

/// Plans, loads, runs, compares and reports.
pub fn run(target: &Target, args: &Run, loaded: &Loaded, runtime: Runtime) -> Result<(), Failure> {
    let source = &loaded.program;
    let list: Vec<InputEvent> = events::captures(&args.inputs, source, &loaded.path)?;
    let entries = events::tables(&args.inputs, source, &loaded.path)?;
    let Some(mut job) = pipelines::xdp(&args.planned, source, target)? else {
        return Err(Failure::usage("a planned run needs --plan or --candidate"));
    };
    let reference = job.room_for_shards(target, source, &entries, &list)?;
    let mut session = kernel::session(source, target, &job, &entries, &runtime, Mode::Record)?;
    let mut result = kernel::live(&mut session, &list)?;
    if !result.report.stopped {
        // Recording is not what a packet costs: times are those of a second run without it.
        let mut plain = kernel::session(source, target, &job, &entries, &runtime, Mode::Live)?;
        let timed = kernel::live(&mut plain, &list)?;
        for (stage, timed) in result.report.stages.iter_mut().zip(timed.report.stages) {
            stage.ns_per_packet = timed.ns_per_packet;
        }
    }
    drop(runtime);
    let mut summary = live::summarise(target, source, &result);
    let inside = pipelines::in_process(&job, target).len();
    let stages = job.plan.stages.len() - inside;
    summary.setting = match inside {
        0 => format!("Linux kernel, {stages} stages joined by CPU maps, on veth"),
        _ => format!(
            "Linux kernel, {stages} stages, and {inside} in a process behind AF_XDP, on veth"
        ),
    };
    summary.promised = Promised::of(&job.plan, source, target);
    let mut tables = session.loaded().tables();
    summary.read_tables(source, &tables)?;
    summary.agreement = Some(kernel::agreement(&reference, &entries, &result, &session)?);
    if let LiveOutputs::Streams(streams) = &result.outputs {
        if args.events {
            live::print_events(source, streams);
        }
        if let Some(out) = &args.out {
            let sent: Vec<Vec<(u64, Vec<u8>)>> = streams
                .sent
                .iter()
                .map(|list| list.iter().map(|frame| (0, frame.clone())).collect())
                .collect();
            events::write(out, &sent)?;
        }
    }
    let stages = &result.report.stages;
    if args.json {
        let mut value = summary.json(source);
        value["stages"] = stages.iter().map(stage_json).collect();
        if let Some(Crossed { up, back }) = result.report.crossed {
            let way = |(entries, bytes): (u64, u64)| json!({ "entries": entries, "bytes": bytes });
            value["link"] = json!({ "to_process": way(up), "to_kernel": way(back) });
        }
        outln!("{value:#}");
    } else {
        summary.show(source, false, args.metrics);
        print_stages(stages);
        if let Some(Crossed { up, back }) = result.report.crossed {
            outln!(
                "to the process: {} entries with {} bytes of values; back: {} with {}",
                up.0,
                up.1,
                back.0,
                back.1
            );
        }
    }
    if args.hold {
        control::hold(source, &mut tables, summary.clone())?;
    }
    match &summary.agreement {
        Some(agreement) if !agreement.complete() => Err(Failure::rendered(String::new())),
        _ => Ok(()),
    }
}

fn stage_json(stage: &StageReport) -> Value {
    let drops: serde_json::Map<String, Value> =
        stage.drops.iter().map(|(reason, n)| (reason.clone(), json!(n))).collect();
    json!({
        "name": stage.name, "replicas": stage.replicas, "packets_in": stage.packets_in, "handed_on": stage.handed,
        "sent": stage.sent, "stack": stage.stack, "ended": stage.ended, "drops": drops,
        "turned_away": stage.turned_away, "ns_per_packet": stage.ns_per_packet,
    })
}

fn print_stages(stages: &[StageReport]) {
    let row = |stage: &StageReport| {
        vec![
            stage.name.clone(),
            stage.replicas.to_string(),
            stage.packets_in.to_string(),
            stage.handed.to_string(),
            stage.sent.to_string(),
            stage.stack.to_string(),
            stage.ended.to_string(),
            stage.turned_away.to_string(),
            format!("{:.0}", stage.ns_per_packet),
        ]
    };
    let cells: Vec<Vec<String>> = stages.iter().map(row).collect();
    let head = [
        "stage",
        "replicas",
        "in",
        "handed on",
        "sent",
        "stack",
        "ended",
        "queue full",
        "ns/packet",
    ];
    outln!("{}", crate::text::table(&head, &cells).trim_end());
}
