//! DPDK applications as processes: hand-written ones, testpmd, and how many instructions one
//! executes per packet.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::case::root;
use crate::{Failure, at};

/// What an application did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ran {
    pub received: u64,
    pub sent: u64,
    pub to_host: u64,
    pub cycles: u64,
}

impl Ran {
    pub fn cycles_per_packet(&self) -> f64 {
        self.cycles as f64 / self.received.max(1) as f64
    }
}

/// The middle one.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Builds a program of `bench/handwritten/dpdk` with the flags that generated ones get.
pub fn build_by_hand(name: &str, dir: &Path) -> Result<PathBuf, Failure> {
    let folder = root().join("bench/handwritten/dpdk");
    let app = dir.join(name);
    let host = root().join("runtime/host");
    let mut clang = Command::new(nicforge_clang::name());
    clang.args(["-std=gnu11", "-O3", "-fno-strict-aliasing", "-o"]).arg(&app);
    clang.arg(folder.join(format!("{name}.c")));
    if name == "tables" {
        let common = root().join("runtime/common");
        clang.arg("-I").arg(&host).arg("-I").arg(common).arg(host.join("nf_tables.c"));
    }
    let ran = clang.args(pkg_config()?).output().map_err(at("clang-19"))?;
    if ran.status.success() {
        Ok(app)
    } else {
        Err(Failure(String::from_utf8_lossy(&ran.stderr).into_owned()))
    }
}

fn pkg_config() -> Result<Vec<String>, Failure> {
    let ran = Command::new("pkg-config").args(["--cflags", "--libs", "libdpdk"]).output();
    let ran = ran.map_err(at("pkg-config"))?;
    Ok(String::from_utf8_lossy(&ran.stdout).split_whitespace().map(String::from).collect())
}

/// Arguments of the environment layer, the same for every application that is compared.
fn eal(lcores: &str, vdevs: &[String]) -> Vec<String> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let words = [
        "--no-huge",
        "-m",
        "256",
        "--no-pci",
        "--no-telemetry",
        "--no-shconf",
        "--log-level",
        "error",
    ];
    let mut all: Vec<String> = words.map(String::from).to_vec();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    all.extend(["--file-prefix".into(), format!("nicforge-bench-{}-{number}", std::process::id())]);
    all.extend(["--lcores".to_string(), lcores.to_string()]);
    vdevs.iter().for_each(|vdev| all.extend(["--vdev".to_string(), vdev.clone()]));
    all.push("--".to_string());
    all
}

/// The command of a hand-written program that takes `limit` packets and writes its counts into a
/// file.
pub fn by_hand(app: &Path, vdevs: &[String], limit: u64, counts: &Path) -> Command {
    let mut command = Command::new(app);
    command.args(eal("0@0", vdevs)).arg(limit.to_string()).arg(counts);
    command
}

/// Runs it.
pub fn run_by_hand(app: &Path, vdevs: &[String], limit: u64, dir: &Path) -> Result<Ran, Failure> {
    let counts = dir.join("counts");
    let ran =
        by_hand(app, vdevs, limit, &counts).output().map_err(at("the hand-written program"))?;
    let text = std::fs::read_to_string(&counts).unwrap_or_default();
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    let [received, sent, to_host, cycles] = numbers[..] else {
        return Err(Failure(format!("by hand: {}", String::from_utf8_lossy(&ran.stderr))));
    };
    Ok(Ran { received, sent, to_host, cycles })
}

/// Instructions that a command executes, by callgrind; none where that is not installed.
fn instructions(command: &Command, dir: &Path) -> Option<u64> {
    let mut valgrind = Command::new("valgrind");
    valgrind
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", dir.join("callgrind").display()));
    valgrind.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    let ran = valgrind.output().ok()?;
    let text = String::from_utf8_lossy(&ran.stderr).into_owned();
    let line = text.lines().find_map(|line| line.split_once("Collected :"))?.1;
    line.split_whitespace().next()?.parse().ok()
}

/// Instructions per packet: what `more` packets execute beyond what `few` do, so that starting and
/// ending cancel out. Exact, drivers included. `command` makes the application that takes so many
/// packets.
pub fn instructions_per_packet(
    (few, more): (u64, u64),
    dir: &Path,
    mut command: impl FnMut(u64) -> Result<Command, Failure>,
) -> Result<Option<f64>, Failure> {
    let less = instructions(&command(few)?, dir);
    let all = instructions(&command(more)?, dir);
    Ok(less.zip(all).map(|(less, all)| (all as f64 - less as f64) / (more - few) as f64))
}

/// testpmd's macswap on the same kind of port, burst, rings, buffers and lcore; cycles per packet
/// as it counts them: from before a burst is received to behind its transmission, bursts without
/// packets left out, as the others do.
pub fn testpmd(vdev: &str, run: Duration) -> Result<f64, Failure> {
    // Its main lcore waits for a key; the other one forwards, on the CPU that all others run on.
    let words = eal("0@1,1@0", &[vdev.to_string()]);
    let mut child = Command::new("dpdk-testpmd")
        .args(&words)
        .args(["--forward-mode=macswap", "--total-num-mbufs=8192", "--mbcache=256", "--burst=32"])
        .args(["--rxd=512", "--txd=512", "--record-core-cycles"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(at("dpdk-testpmd"))?;
    std::thread::sleep(run);
    // The key it waits for.
    drop(child.stdin.take());
    let ran = child.wait_with_output().map_err(at("dpdk-testpmd"))?;
    // It leaves its folder behind, empty.
    let prefix = words.iter().skip_while(|word| *word != "--file-prefix").nth(1);
    let _ = prefix.map(|prefix| std::fs::remove_dir(Path::new("/var/run/dpdk").join(prefix)));
    let text = String::from_utf8_lossy(&ran.stdout);
    let found = text.lines().find_map(|line| line.split_once("CPU cycles/packet="));
    let number = found.and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| Failure(format!("dpdk-testpmd gives no cycles per packet:\n{text}")))
}

/// Median cycles per lookup of each kind of table that `tables.c` measures.
pub fn tables(app: &Path, rounds: u32) -> Result<Vec<(String, f64)>, Failure> {
    let ran = Command::new(app).args(eal("0@0", &[])).arg(rounds.to_string()).output();
    let ran = ran.map_err(at("tables"))?;
    if !ran.status.success() {
        return Err(Failure(format!("tables: {}", String::from_utf8_lossy(&ran.stderr))));
    }
    let text = String::from_utf8_lossy(&ran.stdout);
    let row = |line: &str| {
        let (name, rest) = line.split_once(' ')?;
        Some((name.to_string(), median(rest.split(' ').filter_map(|n| n.parse().ok()).collect())))
    };
    Ok(text.lines().filter_map(row).collect())
}
