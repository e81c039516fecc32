//! `nicforge validate fpga`: the planner's estimates of area beside what yosys makes of the same designs.

use super::validate::{Row, records};
use super::{fpga, synth};
use crate::args::Source;
use crate::context::{Failure, Runtime};
use crate::program::{self, Loaded};

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
/// yosys' results: program, LUT sites, flip-flops, block memories of 18 Kbit, DSP blocks, depth.
const YOSYS: &str = include_str!("../../../../docs/validation/fpga_yosys.csv");
const HEADER: &str = "program,lut_cells,lut_sites,lut_memory,flip_flops,half_brams,urams,dsps,depth";

fn load(name: &str, text: &str, runtime: &Runtime) -> Result<Loaded, Failure> {
    let dir = tempfile::tempdir()
        .map_err(|e| Failure::environment(format!("a temporary folder cannot be made: {e}")))?;
    let path = dir.path().join(format!("{name}.c"));
    std::fs::write(&path, text).map_err(|e| Failure::environment(format!("{}: {e}", path.display())))?;
    program::load(&Source { program: path, define: Vec::new(), include: Vec::new() }, runtime)
}

/// Estimate and result of every example that yosys has been run on.
pub fn rows() -> Result<Vec<Row>, Failure> {
    let runtime = Runtime::unpack()?;
    let mut rows = Vec::new();
    for fields in records(YOSYS) {
        let [name, _, sites, memory, flip_flops, half_brams, _, dsps, _] = fields[..] else {
            return Err(Failure::user(format!(
                "internal error: a line of the committed results is not {HEADER}"
            )));
        };
        let Some((_, text)) = EXAMPLES.iter().find(|(known, _)| *known == name) else { continue };
        let loaded = load(name, text, &runtime)?;
        let estimate = synth::estimate(&loaded.program)?;
        let number = |text: &str| text.parse::<f64>().unwrap_or(f64::NAN);
        let mut row = |metric, published, ours| {
            let calibrated = matches!(metric, "LUTs" | "flip-flops");
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

/// Runs yosys on all examples and prints the table that is committed.
pub fn remake() -> Result<(), Failure> {
    let runtime = Runtime::unpack()?;
    outln!("{HEADER}");
    for (name, text) in EXAMPLES {
        let loaded = load(name, text, &runtime)?;
        let area = synth::area(&fpga::design(&loaded.program)?)?;
        outln!(
            "{name},{},{},{},{},{},{},{},{}",
            area.luts,
            area.lut_sites,
            area.lut_memory,
            area.flip_flops,
            area.half_brams,
            area.urams,
            area.dsps,
            area.depth
        );
    }
    Ok(())
}
