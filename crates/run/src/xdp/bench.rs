//! What a packet costs, by the kernel's test run.
//!
//! A test run has a cost of its own (about 30 ns), which an empty program measured in the same
//! moments tells and which is subtracted. Program and empty program take turns and each keeps its
//! least time of [`ROUNDS`]: whatever else the machine does only ever adds.
//!
//! Runs of one call repeat on the packet the run before left behind. That is harmless if the
//! program leaves a packet as it was; otherwise later runs would see a packet that never came, so
//! such packets are run once per call. The clock then has ticks of up to some ten nanoseconds, so
//! many runs are averaged, those left out that something interrupted.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::OnceLock;

use libbpf_rs::{MapCore, MapFlags};

use super::HARNESS_SOURCE;
use super::error::XdpError;
use super::loaded::Loaded;
use super::object;
use super::test_run::{LARGEST_TEST_FRAME, SMALLEST_FRAME, run_once};
use crate::compile::Mode;
use crate::pin::Pinned;
use crate::xdp::compile_bpf;

/// Turns each program gets.
pub const ROUNDS: u32 = 15;

/// Cost of one frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrameCost {
    /// Nanoseconds of the program alone.
    pub ns: f64,
    /// Nanoseconds of the empty program, already subtracted.
    pub harness_ns: f64,
    /// Runs per turn: 1 if the program changes the frame.
    pub repeat: u32,
    /// What the program returned for the frame, the first time.
    pub verdict: u32,
}

/// Measures each frame's cost, `repeat` runs per turn where possible.
///
/// The program should have mode [`Mode::Live`]; its tables see every run.
pub fn bench(
    loaded: &Loaded,
    frames: &[Vec<u8>],
    repeat: u32,
    includes: &[PathBuf],
) -> Result<Vec<FrameCost>, XdpError> {
    let harness = load_harness(includes, &["nf_empty"])?;
    let empty =
        harness.progs().find(|prog| prog.name() == "nf_empty").ok_or_else(harness_contract)?;
    let program = loaded.handler_fd("net_recv")?;
    let mut costs = Vec::with_capacity(frames.len());
    for frame in frames {
        if !(SMALLEST_FRAME..=LARGEST_TEST_FRAME).contains(&frame.len()) {
            let (smallest, largest) = (SMALLEST_FRAME, LARGEST_TEST_FRAME);
            return Err(XdpError::FrameLength { length: frame.len(), smallest, largest });
        }
        costs.push(time_frame(program, empty.as_fd(), frame, repeat)?);
        // A program that writes to its host ring must find room in it.
        loaded.drain_host()?;
    }
    Ok(costs)
}

/// Measures frames on a program of any BPF object. Its tables are as the object has them, and
/// `entries` (map, key, value; values of maps per CPU on every CPU) besides.
///
/// # Errors
/// The kernel refuses the object or an entry, there is no such program in it, or a frame has a
/// length the test run does not take.
pub fn bench_object(
    object: &[u8],
    name: &str,
    entries: &[(&str, &[u8], &[u8])],
    frames: &[Vec<u8>],
    repeat: u32,
    includes: &[PathBuf],
) -> Result<Vec<FrameCost>, XdpError> {
    let harness = load_harness(includes, &["nf_empty"])?;
    let empty =
        harness.progs().find(|prog| prog.name() == "nf_empty").ok_or_else(harness_contract)?;
    let mut costs = Vec::with_capacity(frames.len());
    each_frame(object, name, entries, frames, |program, frame| {
        costs.push(time_frame(program, empty.as_fd(), frame, repeat)?);
        Ok(())
    })?;
    Ok(costs)
}

/// What a program of any BPF object returns for frames one after the other, on one core, with
/// `entries` in its tables at first.
///
/// # Errors
/// As [`bench_object`].
pub fn verdicts_in_order(
    object: &[u8],
    name: &str,
    entries: &[(&str, &[u8], &[u8])],
    frames: &[Vec<u8>],
) -> Result<Vec<u32>, XdpError> {
    let _pinned = Pinned::to_this_cpu();
    let mut verdicts = Vec::with_capacity(frames.len());
    each_frame(object, name, entries, frames, |program, frame| {
        verdicts.push(run_once(program, frame, None, 1)?.verdict);
        Ok(())
    })?;
    Ok(verdicts)
}

/// Loads an object, fills its tables and hands each frame to `run` with the program.
fn each_frame(
    object: &[u8],
    name: &str,
    entries: &[(&str, &[u8], &[u8])],
    frames: &[Vec<u8>],
    mut run: impl FnMut(BorrowedFd, &[u8]) -> Result<(), XdpError>,
) -> Result<(), XdpError> {
    let loaded = object::load(object::open(object)?)?;
    let program = loaded.progs().find(|prog| prog.name() == name);
    let program =
        program.ok_or_else(|| XdpError::Contract(format!("there is no program `{name}`")))?;
    for (map, key, value) in entries {
        install(&loaded, map, key, value)?;
    }
    for frame in frames {
        if !(SMALLEST_FRAME..=LARGEST_TEST_FRAME).contains(&frame.len()) {
            let (smallest, largest) = (SMALLEST_FRAME, LARGEST_TEST_FRAME);
            return Err(XdpError::FrameLength { length: frame.len(), smallest, largest });
        }
        run(program.as_fd(), frame)?;
    }
    Ok(())
}

fn install(
    loaded: &libbpf_rs::Object,
    name: &str,
    key: &[u8],
    value: &[u8],
) -> Result<(), XdpError> {
    let fail =
        |reason: String| XdpError::Contract(format!("map `{name}` cannot be filled: {reason}"));
    // Variables of a section: the loader puts the object's name in front.
    let section = |map: &str| name.starts_with('.') && map.ends_with(name);
    let map =
        loaded.maps().find(|map| map.name() == name || map.name().to_str().is_some_and(section));
    let map = map.ok_or_else(|| fail("it is not in the object".to_string()))?;
    let done = if map.map_type().is_percpu() {
        let cpus = libbpf_rs::num_possible_cpus().map_err(|e| fail(e.to_string()))?;
        map.update_percpu(key, &vec![value.to_vec(); cpus], MapFlags::ANY)
    } else {
        map.update(key, value, MapFlags::ANY)
    };
    done.map_err(|e| fail(e.to_string()))
}

/// Single runs of a round, for frames that the program changes.
const SINGLE_RUNS: u32 = 100;

/// The time of a frame, less the empty program's: the least mean of many runs. A frame that the
/// program changes is run once at a time; the clock's ticks, of which a short program takes a
/// fraction, then average out over the faster half of the runs.
fn time_frame(
    program: BorrowedFd,
    empty: BorrowedFd,
    frame: &[u8],
    repeat: u32,
) -> Result<FrameCost, XdpError> {
    let mut after = vec![0; 2 * 4096];
    let first = run_once(program, frame, Some(&mut after), 1)?;
    let repeat = if after[..first.length] == frame[..] { repeat.max(1) } else { 1 };
    let once =
        |fd: BorrowedFd| run_once(fd, frame, None, repeat).map(|run| run.time.as_nanos() as f64);
    if repeat > 1 {
        let (mut ns, mut harness_ns) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..ROUNDS {
            harness_ns = harness_ns.min(once(empty)?);
            ns = ns.min(once(program)?);
        }
        return Ok(FrameCost {
            ns: (ns - harness_ns).max(0.0),
            harness_ns,
            repeat,
            verdict: first.verdict,
        });
    }
    let (mut programs, mut empties) = (Vec::new(), Vec::new());
    for _ in 0..SINGLE_RUNS * ROUNDS {
        empties.push(once(empty)?);
        programs.push(once(program)?);
    }
    let (ns, harness_ns) = (faster_half(programs), faster_half(empties));
    Ok(FrameCost { ns: (ns - harness_ns).max(0.0), harness_ns, repeat, verdict: first.verdict })
}

/// The mean of the faster half of some times; interruptions are in the other.
fn faster_half(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    let half = times.len().div_ceil(2).max(1);
    times.iter().take(half).sum::<f64>() / half as f64
}

/// Compiles and loads the named programs of the harness.
pub(crate) fn load_harness(
    includes: &[PathBuf],
    wanted: &[&str],
) -> Result<libbpf_rs::Object, XdpError> {
    load_harness_for(includes, wanted, 1)
}

/// Loads the harness with room for so many frames to generate.
pub(crate) fn load_harness_for(
    includes: &[PathBuf],
    wanted: &[&str],
    frames: u32,
) -> Result<libbpf_rs::Object, XdpError> {
    // Compiled once in a process: it is always the same, and clang takes longer than everything
    // else here.
    static COMPILED: OnceLock<Vec<u8>> = OnceLock::new();
    let object = match COMPILED.get() {
        Some(object) => object,
        None => {
            let object = compile_bpf("harness", HARNESS_SOURCE, Mode::Live, includes)?;
            COMPILED.get_or_init(|| object)
        }
    };
    let mut open = object::open(object)?;
    for mut prog in open.progs_mut() {
        let needed = wanted.iter().any(|name| prog.name() == *name);
        prog.set_autoload(needed);
    }
    for mut map in open.maps_mut() {
        if map.name() == "nf_frames" {
            map.set_max_entries(frames).map_err(|_| harness_contract())?;
        } else if map.name().to_string_lossy().ends_with(".rodata") {
            // The harness has one constant, `nf_frame_count`.
            let value = map.initial_value_mut().and_then(|value| value.first_chunk_mut());
            *value.ok_or_else(harness_contract)? = frames.to_ne_bytes();
        }
    }
    object::load(open)
}

pub(crate) fn harness_contract() -> XdpError {
    XdpError::Contract("the harness lacks a program or map".to_string())
}
