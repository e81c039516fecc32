//! `nicforge validate fpga`: the planner's estimates of area beside what yosys makes of the same
//! designs.

use std::time::Duration;

use nicforge_driver::options::Source;
use nicforge_driver::program::{self, Loaded};
use nicforge_driver::{Failure, Runtime, design, targets};
use nicforge_ir::{Program, Verified};
use nicforge_run::rtl::RtlProgram;
use nicforge_run::synth::Area;
use nicforge_run::temp::Folder;
use nicforge_target::area::AreaCosts;

use super::rows::{Row, records};
use super::synth;

macro_rules! examples {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../../examples/", $name, "/", $name, ".c")))),*]
    };
}

/// The examples that become designs.
const EXAMPLES: &[(&str, &str)] = &examples!(
    "l2_forward",
    "jsq_steering",
    "icmp_echo",
    "firewall",
    "conn_limiter",
    "flow_stats",
    "nat",
    "l4lb",
    "nf_chain",
    "tcp_rx_offload",
    "kv_cache",
    "dns_cache",
    "quic_lb",
    "vxlan_gw",
    "rpc_reassembly",
);
/// The load balancer, which no program is behind.
const BALANCE: &str = "nf_balance";
macro_rules! library {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../../rtl/", $name)))),*]
    };
}
const BALANCE_FILES: &[(&str, &str)] = &library!(
    "nf_balance.sv",
    "nf_balance_flows.sv",
    "nf_balance_meter.sv",
    "nf_balance_rewrite.sv",
    "nf_axil_registers.sv",
);
/// Rows by which the factors of `[area]` were fitted; all others are held out.
const FITTED: &[&str] = &[
    "l2_forward",
    "icmp_echo",
    "jsq_steering",
    "conn_limiter",
    "firewall",
    "nat",
    "nf_chain",
    "tcp_rx_offload*1",
    "tcp_rx_offload",
];
/// The card that the published results are for.
const TARGET: &str = "u280";
/// What has fitted factors.
const FACTORS: [&str; 2] = ["LUTs", "flip-flops"];
/// yosys' results, see [`HEADER`]. A program may have how many engines were built behind it, as in
/// `quic_lb*3`; else it is in its best form.
const YOSYS: &str = include_str!("../../../../docs/validation/fpga_yosys.csv");
const HEADER: &str =
    "program,lut_cells,lut_sites,lut_memory,flip_flops,half_brams,urams,dsps,depth";

fn load(name: &str, text: &str, runtime: &Runtime) -> Result<Loaded, Failure> {
    let dir = Folder::new("validate-fpga").map_err(Failure::temporary)?;
    let path = dir.path().join(format!("{name}.c"));
    std::fs::write(&path, text)
        .map_err(|e| Failure::environment(format!("{}: {e}", path.display())))?;
    program::load(&Source { program: path, ..Source::default() }, runtime)
}

/// The program of a row, and how many engines, if the row says so.
fn engines_of(row: &str) -> (&str, Option<u32>) {
    match row.split_once('*').and_then(|(name, count)| Some((name, count.parse().ok()?))) {
        Some((name, count)) => (name, Some(count)),
        None => (row, None),
    }
}

/// The design of a row.
fn design(
    program: &Verified<Program>,
    engines: Option<u32>,
    area: &AreaCosts,
) -> Result<RtlProgram, Failure> {
    match engines {
        Some(count) => design::of_engines(program, count, area),
        None => design::with_engines(program, 1, area),
    }
}

/// Estimate and result of every example that yosys has been run on.
pub fn rows() -> Result<Vec<Row>, Failure> {
    let runtime = Runtime::unpack()?;
    let target = targets::find(TARGET)?;
    let device = design::costs(&target)?;
    let mut rows = Vec::new();
    for fields in records(YOSYS) {
        let [name, _, sites, memory, flip_flops, half_brams, _, dsps, _] = fields[..] else {
            return Err(Failure::user(format!(
                "internal error: a line of the committed results is not {HEADER}"
            )));
        };
        let (program, engines) = engines_of(name);
        let Some((_, text)) = EXAMPLES.iter().find(|(known, _)| *known == program) else {
            continue;
        };
        let loaded = load(program, text, &runtime)?;
        let design = design(&loaded.program, engines, device)?;
        let estimate = design::estimate(&loaded.program, &design, device)?;
        let number = |text: &str| text.parse::<f64>().unwrap_or(f64::NAN);
        let mut row = |metric, published, ours| {
            let calibrated = FACTORS.contains(&metric) && FITTED.contains(&name);
            rows.push(Row {
                source: "yosys 0.23",
                case: name.to_string(),
                metric,
                published,
                ours,
                calibrated,
            });
        };
        row("LUTs", number(sites) + number(memory), estimate.luts);
        row("flip-flops", number(flip_flops), estimate.flip_flops);
        row("BRAM", number(half_brams) / 2.0, estimate.half_brams / 2.0);
        if number(dsps) > 0.0 || estimate.dsps > 0.0 {
            row("DSP", number(dsps), estimate.dsps);
        }
    }
    Ok(rows)
}

/// How far off estimates are on the programs they were fitted by, and on those held out.
pub fn summary(rows: &[Row]) -> String {
    let mut text = String::new();
    for metric in FACTORS {
        let mean = |fitted: bool| {
            let errors: Vec<f64> = rows
                .iter()
                .filter(|row| row.metric == metric && row.calibrated == fitted)
                .map(|row| row.error().abs())
                .collect();
            match errors.len() {
                0 => "unknown".to_string(),
                n => format!("{:.0} % ({n})", 100.0 * errors.iter().sum::<f64>() / n as f64),
            }
        };
        text.push_str(&format!(
            "{metric}: mean error on programs (how many) they were fitted by {}, on those held out {}\n",
            mean(true),
            mean(false)
        ));
    }
    text
}

/// Runs yosys on the examples (of these names, if there are any) and on the load balancer, and
/// prints the table that is committed. What takes longer than `limit` is left out and named.
pub fn remake(only: &[String], limit: Option<Duration>) -> Result<(), Failure> {
    // Of those with several engines the ones that are in the table, and what is asked for.
    let rows = records(YOSYS).map(|fields| fields[0]);
    let mut several: Vec<&str> = rows
        .chain(only.iter().map(String::as_str))
        .filter(|row| engines_of(row).1.is_some())
        .collect();
    several.sort_unstable();
    several.dedup();
    let known =
        || EXAMPLES.iter().map(|example| example.0).chain([BALANCE]).chain(several.iter().copied());
    let is_known = |name: &str| known().any(|one| one == engines_of(name).0);
    if let Some(name) = only.iter().find(|name| !is_known(name)) {
        let list = known().collect::<Vec<_>>().join(", ");
        return Err(Failure::usage(format!("`{name}` is none of {list}")));
    }
    let runtime = Runtime::unpack()?;
    outln!("{HEADER}");
    for name in known().filter(|name| only.is_empty() || only.iter().any(|one| one == name)) {
        match area(name, &runtime, limit) {
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
            Err(failure) if limit.is_some() => errln!("{name}: {}", failure.reason()),
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

fn area(name: &str, runtime: &Runtime, limit: Option<Duration>) -> Result<Area, Failure> {
    let (program, engines) = engines_of(name);
    if let Some((_, text)) = EXAMPLES.iter().find(|(known, _)| *known == program) {
        let loaded = load(program, text, runtime)?;
        let target = targets::find(TARGET)?;
        let design = design(&loaded.program, engines, design::costs(&target)?)?;
        return synth::area(&design, limit);
    }
    let dir = Folder::new("validate-fpga").map_err(Failure::temporary)?;
    for (name, text) in BALANCE_FILES {
        let path = dir.path().join(name);
        std::fs::write(&path, text)
            .map_err(|e| Failure::environment(format!("{}: {e}", path.display())))?;
    }
    nicforge_run::synth::synthesize(dir.path(), BALANCE, &[], limit)
        .map_err(|e| Failure::of(e.fault(), e))
}
