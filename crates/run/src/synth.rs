//! Area and logic depth of designs: yosys maps them to the cells of an UltraScale+ device, and its
//! netlist is counted here.
//!
//! yosys places and routes nothing, and 0.23 maps carry chains to the older device's cells, so all
//! figures are estimates. LUTs are given twice: as cells, and as sites, since a site holds two
//! small ones that share inputs (yosys' own estimate). Depth is counted in the netlist: LUTs one
//! behind the other between two registers, memories or ports; a carry chain counts as one.

mod netlist;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::fault::Fault;
use crate::temp::{self, Folder};
pub use netlist::{Depth, fuzz, measure};

/// The program that maps designs.
pub(crate) const YOSYS: &str = "yosys";

/// Why a design has no area.
#[derive(Debug, thiserror::Error)]
pub enum SynthError {
    #[error("`{YOSYS}` cannot be started ({0}); install it with `apt-get install yosys`")]
    NoYosys(std::io::Error),
    #[error("internal error: yosys refuses the design: {0}")]
    Refused(String),
    #[error("yosys takes longer than the {} s it is given; raise --limit", .0.as_secs())]
    TooLong(Duration),
    #[error("internal error: yosys' netlist cannot be read: line {line}: {what}")]
    Netlist { line: usize, what: String },
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
}

impl SynthError {
    /// The party that has to act.
    pub fn fault(&self) -> Fault {
        match self {
            SynthError::NoYosys(_) | SynthError::TooLong(_) | SynthError::Io { .. } => {
                Fault::Environment
            }
            _ => Fault::User,
        }
    }
}

/// A design's share of the device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Area {
    /// LUTs of logic, as cells.
    pub luts: u64,
    /// LUT sites of logic when small LUTs share one, as yosys estimates it.
    pub lut_sites: u64,
    /// LUT sites used as memory.
    pub lut_memory: u64,
    pub flip_flops: u64,
    /// Block memories of 36 Kbit, twice: one of 18 Kbit counts as one.
    pub half_brams: u64,
    pub urams: u64,
    pub dsps: u64,
    /// Most LUTs between registers.
    pub depth: u32,
    /// Where that is, and the depth in front of each group of registers; deepest first.
    pub depths: Vec<Depth>,
}

/// How often a running yosys is looked at.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits for a process, at most so long; it is ended then.
fn within(command: &mut Command, limit: Option<Duration>) -> Result<ExitStatus, SynthError> {
    let mut child = command.spawn().map_err(SynthError::NoYosys)?;
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(SynthError::NoYosys)? {
            return Ok(status);
        }
        if let Some(limit) = limit.filter(|limit| started.elapsed() >= *limit) {
            // It may have ended just now.
            let _ = child.kill();
            let _ = child.wait();
            return Err(SynthError::TooLong(limit));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Synthesizes the SystemVerilog files of a folder. `hidden` are outputs of the top that hardware
/// does not have.
///
/// # Errors
/// yosys is missing, refuses the design or takes longer than `limit`.
pub fn synthesize(
    dir: &Path,
    top: &str,
    hidden: &[&str],
    limit: Option<Duration>,
) -> Result<Area, SynthError> {
    let io = |path: &Path| {
        let path = path.to_path_buf();
        move |source| SynthError::Io { path, source }
    };
    let mut sources: Vec<String> = std::fs::read_dir(dir)
        .map_err(io(dir))?
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".sv"))
        .collect();
    sources.sort();
    let work = Folder::new("synth").map_err(io(&temp::place()))?;
    let blif = work.path().join("netlist.blif");
    let hide: String =
        hidden.iter().map(|port| format!("delete -output {top}/w:{port}; ")).collect();
    let script = format!(
        "read_verilog -sv {}; hierarchy -check -top {top}; {hide}synth_xilinx -family xcup -flatten -nosrl -nowidelut -noiopad \
         -noclkbuf -top {top}; tee -o {stat} stat -tech xilinx; write_blif {blif}",
        sources.join(" "),
        stat = work.path().join("stat").display(),
        blif = blif.display(),
    );
    // Its messages go to a file: nobody reads a pipe meanwhile.
    let messages = work.path().join("messages");
    let mut command = Command::new(YOSYS);
    command
        .arg("-q")
        .arg("-p")
        .arg(script)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command.stderr(File::create(&messages).map_err(io(&messages))?);
    if !within(&mut command, limit)?.success() {
        let text = std::fs::read(&messages).map_err(io(&messages))?;
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().find(|line| line.contains("ERROR")).unwrap_or_else(|| text.trim());
        return Err(SynthError::Refused(line.to_string()));
    }
    let netlist = std::fs::read_to_string(&blif).map_err(io(&blif))?;
    let stat = std::fs::read_to_string(work.path().join("stat")).map_err(io(work.path()))?;
    let mut area = netlist::measure(&netlist)?;
    area.lut_sites = stat
        .lines()
        .find_map(|line| line.trim().strip_prefix("Estimated number of LCs:"))
        .and_then(|count| count.trim().parse().ok())
        .unwrap_or(area.luts);
    Ok(area)
}
