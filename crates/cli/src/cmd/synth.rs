//! `nicforge build --synth`: what a design takes of the device, and how deep its logic is.

use std::time::Duration;

use nicforge_driver::program::Loaded;
use nicforge_driver::{Failure, design, pipelines};
use nicforge_run::rtl::RtlProgram;
use nicforge_run::synth::{self, Area};
use nicforge_run::temp::Folder;
use nicforge_target::Target;
use nicforge_target::area::AreaCosts;
use serde_json::json;

use crate::args::Build;
use crate::text;

/// Outputs of a design that only simulations read.
const RECORD: [&str; 3] = ["rec_valid", "rec_kind", "rec_data"];
/// Groups of registers that are shown.
const SHOWN: usize = 8;

/// Synthesizes a design, in the time there is.
pub fn area(design: &RtlProgram, limit: Option<Duration>) -> Result<Area, Failure> {
    let dir = Folder::new("design").map_err(Failure::temporary)?;
    design.write(dir.path()).map_err(|e| Failure::of(e.fault(), e))?;
    synth::synthesize(dir.path(), "nf_top", &RECORD, limit).map_err(|e| Failure::of(e.fault(), e))
}

/// Synthesizes and prints.
pub fn run(target: &Target, args: &Build, loaded: &Loaded) -> Result<(), Failure> {
    let design = pipelines::design(&args.planned, &loaded.program, target)?;
    if let Some(path) = &args.output {
        design.write(path).map_err(|e| design::failure(&loaded.program, e))?;
    }
    let estimate = design::estimate(&loaded.program, &design, design::costs(target)?)?;
    let area = area(&design, None)?;
    if args.json {
        outln!(
            "{:#}",
            json!({ "schema": "nicforge/synth", "version": 1, "target": target.name, "program": loaded.program.name,
                "tool": "yosys", "area": area,
                "estimate": { "luts": estimate.luts, "flip_flops": estimate.flip_flops, "half_brams": estimate.half_brams,
                    "dsps": estimate.dsps } })
        );
        return Ok(());
    }
    print(&area, design::costs(target)?);
    outln!(
        "the planner's estimate: {:.0} LUTs, {:.0} flip-flops, {} BRAM, {} DSP",
        estimate.luts,
        estimate.flip_flops,
        estimate.half_brams / 2.0,
        estimate.dsps
    );
    Ok(())
}

fn print(area: &Area, device: &AreaCosts) {
    let brams = area.half_brams as f64 / 2.0;
    let rows = [
        ("LUT sites", (area.lut_sites + area.lut_memory) as f64, device.device_luts),
        ("flip-flops", area.flip_flops as f64, device.device_flip_flops),
        ("BRAM", brams, device.device_brams),
        ("URAM", area.urams as f64, device.device_urams),
        ("DSP", area.dsps as f64, device.device_dsps),
    ];
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|(name, taken, most)| {
            vec![
                name.to_string(),
                format!("{taken}"),
                most.to_string(),
                format!("{:.2} %", 100.0 * taken / most.max(1.0)),
            ]
        })
        .collect();
    outln!("{}", text::table(&["of the device", "taken", "there are", "share"], &rows).trim_end());
    outln!(
        "LUT cells: {}, of them packed {} sites; {} sites of memory",
        area.luts,
        area.lut_sites,
        area.lut_memory
    );
    outln!(
        "\nlogic depth, LUTs between registers (a carry chain counts one): {} at most",
        area.depth
    );
    let rows: Vec<Vec<String>> = area
        .depths
        .iter()
        .take(SHOWN)
        .map(|depth| {
            vec![
                depth.group.clone(),
                depth.levels.to_string(),
                depth.from.clone(),
                depth.to.clone(),
            ]
        })
        .collect();
    outln!("{}", text::table(&["registers of", "depth", "from", "to"], &rows).trim_end());
    outln!("estimates: mapped by yosys, nothing placed or routed");
}
