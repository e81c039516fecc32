//! What the sPIN datapath in hardware costs: cycles as measured in its simulation, and area as
//! yosys has it, beside FPsPIN's tables.

use std::time::Duration;

use nicforge_driver::Failure;
use nicforge_run::spin::datapath::{Cycles, Latencies, Model, SOURCES};
use nicforge_run::temp::Folder;
use nicforge_spin::machine::Machine;
use serde_json::{Value, json};

use crate::cmd::rows::{Row, records};
use crate::text::table;

/// yosys' results, as [`remake`] prints them.
const YOSYS: &str = include_str!("../../../../../docs/validation/spin_rtl_yosys.csv");
const HEADER: &str = "module,lut_cells,lut_sites,lut_memory,flip_flops,half_brams,urams,dsps,depth";
/// What is sized: modules with what is inside them; the last is all of it.
const MODULES: [&str; 10] = [
    "nf_spin_match",
    "nf_spin_alloc",
    "nf_spin_ingress",
    "nf_spin_memory",
    "nf_spin_her",
    "nf_spin_scheduler",
    "nf_spin_egress",
    "nf_spin_host_dma",
    "nf_spin_registers",
    "nf_spin_top",
];
/// FPsPIN's Tables II and III.
const WHOLE: &str = "FPsPIN's whole design on a VU9P, with clusters and Corundum (Table III): 645k LUTs, 490k flip-flops, 1141 BRAM, 206 URAM; \
                     modules are not published";

/// Cycles that FPsPIN publishes, and ours: least and most, where it measures.
fn published(module: &str, latencies: &Latencies) -> (Option<(u64, u64)>, Option<Cycles>) {
    let some = |cycles: Cycles| (cycles.most > 0).then_some(cycles);
    // The answer is there in the cycle of the question; a cocotb test each says so.
    let at_once = Some(Cycles::default());
    match module {
        "nf_spin_match" => (Some((4, 4)), some(latencies.matching)),
        "nf_spin_alloc" => (Some((0, 0)), at_once),
        "nf_spin_ingress" => (Some((8, 70)), some(latencies.ingress)),
        "nf_spin_her" => (Some((0, 0)), at_once),
        "nf_spin_scheduler" => (None, some(latencies.scheduler)),
        "nf_spin_host_dma" => (None, some(latencies.host)),
        _ => (None, None),
    }
}

fn span(least: u64, most: u64) -> String {
    if least == most { least.to_string() } else { format!("{least} to {most}") }
}

/// A table of cycles and sizes.
pub fn text(latencies: &Latencies, machine: &Machine) -> String {
    let mut rows = Vec::new();
    for module in MODULES {
        let (theirs, ours) = published(module, latencies);
        let dash = || "-".to_string();
        let mut row = vec![
            module.to_string(),
            ours.map_or_else(dash, |cycles| span(cycles.least, cycles.most)),
            theirs.map_or_else(dash, |(least, most)| span(least, most)),
        ];
        match records(YOSYS).find(|fields| fields[0] == module) {
            Some(fields) => {
                let number = |at: usize| fields[at].parse::<f64>().unwrap_or(f64::NAN);
                row.push(format!("{:.0}", number(2) + number(3)));
                row.push(fields[4].to_string());
                row.push(format!("{}", number(5) / 2.0));
                row.push(fields[6].to_string());
                row.push(fields[8].to_string());
            }
            None => row.extend(std::iter::repeat_with(dash).take(5)),
        }
        rows.push(row);
    }
    let head = ["module", "cycles", "Table II", "LUTs", "flip-flops", "BRAM", "URAM", "levels"];
    format!(
        "datapath in hardware (cycles measured in this run, {:.0} ns each; stalls and full memories included; areas by yosys 0.23, not placed)\n{}{WHOLE}\n",
        machine.cycle_ns(),
        table(&head, &rows)
    )
}

/// Latencies as JSON: cycles only.
pub fn json(latencies: &Latencies) -> Value {
    let cycles = |c: Cycles| json!({ "min": c.least, "mean": c.mean, "max": c.most });
    json!({
        "matching": cycles(latencies.matching),
        "ingress": cycles(latencies.ingress),
        "scheduler": cycles(latencies.scheduler),
        "host_dma": cycles(latencies.host),
    })
}

/// Cycles of single frames through the model, and areas.
pub fn rows() -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    let fail = |e: nicforge_run::rtl::RtlError| Failure::of(e.fault(), e);
    for (bytes, ingress) in [(64, 8.0), (1536, 70.0)] {
        let mut model = Model::new(0).map_err(fail)?;
        // All frames are for context 0, whose handler is somewhere.
        model.write("options", 0, &[2]);
        model.write("contexts", 0, &[1]);
        model.write("context_table", 1, &[0x1d00_0000]);
        model.write("sets", 0, &[1 | 44 << 16]);
        model.write("home_limit", 0, &[20]);
        model.write("apply", 0, &[1]);
        model.arrive(0, 20, &vec![1; bytes]);
        while let Some(next) = model.next() {
            model.run(next, next + 1);
        }
        let latencies = model.latencies();
        let mut row = |metric, published, ours: Cycles| {
            let case = format!("{bytes} bytes");
            rows.push(Row {
                source: "FPsPIN Tab. II",
                case,
                metric,
                published,
                ours: ours.most as f64,
                calibrated: false,
            });
        };
        row("matching, cycles", 4.0, latencies.matching);
        row("ingress DMA, cycles", ingress, latencies.ingress);
        row("scheduler, cycles", f64::NAN, latencies.scheduler);
    }
    for fields in records(YOSYS) {
        let number = |at: usize| fields[at].parse::<f64>().unwrap_or(f64::NAN);
        let values = [
            ("LUTs", number(2) + number(3)),
            ("flip-flops", number(4)),
            ("BRAM", number(5) / 2.0),
            ("URAM", number(6)),
            ("levels", number(8)),
        ];
        for (metric, ours) in values {
            let case = fields[0].to_string();
            rows.push(Row {
                source: "yosys 0.23",
                case,
                metric,
                published: f64::NAN,
                ours,
                calibrated: false,
            });
        }
    }
    Ok(rows)
}

/// Runs yosys on the modules (of these names, if there are any), and prints the table that is
/// committed. What takes longer than `limit` is left out and named.
pub fn remake(only: &[String], limit: Option<Duration>) -> Result<(), Failure> {
    if let Some(name) = only.iter().find(|name| !MODULES.contains(&name.as_str())) {
        return Err(Failure::usage(format!("`{name}` is none of {}", MODULES.join(", "))));
    }
    let dir = Folder::new("datapath").map_err(Failure::temporary)?;
    for (name, text) in SOURCES {
        let path = dir.path().join(name.rsplit('/').next().unwrap_or(name));
        std::fs::write(&path, text)
            .map_err(|e| Failure::environment(format!("{}: {e}", path.display())))?;
    }
    outln!("{HEADER}");
    for name in MODULES.iter().filter(|name| only.is_empty() || only.iter().any(|one| one == *name))
    {
        // What is only observed in simulation is no hardware.
        let hidden: &[&str] = if *name == "nf_spin_top" { &OBSERVED } else { &[] };
        match nicforge_run::synth::synthesize(dir.path(), name, hidden, limit) {
            Ok(area) => outln!(
                "{name},{},{},{},{},{},{},{},{}",
                area.luts,
                area.lut_sites,
                area.lut_memory,
                area.flip_flops,
                area.half_brams,
                area.urams,
                area.dsps,
                area.depth
            ),
            Err(error) if limit.is_some() => errln!("{name}: {error}"),
            Err(error) => return Err(Failure::of(error.fault(), error)),
        }
    }
    Ok(())
}

const OBSERVED: [&str; 13] = [
    "x_arrived",
    "x_line",
    "x_bytes",
    "x_tag",
    "x_drop",
    "x_dropped",
    "x_why",
    "x_freed",
    "x_freed_line",
    "x_stuck",
    "x_in",
    "x_grant",
    "x_held",
];
