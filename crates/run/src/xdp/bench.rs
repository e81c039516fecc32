//! What a packet costs, by the kernel's test run.
//!
//! A test run has a cost of its own (about 30 ns), which an empty program measured in the same
//! moments tells and which is subtracted. Program and empty program take turns and each keeps its
//! least time of [`ROUNDS`]: whatever else the machine does only ever adds.
//!
//! Runs of one call repeat on the packet the run before left behind. That is harmless if the
//! program leaves a packet as it was; otherwise later runs would see a packet that never came. Such
//! a program is called by one of ours that restores the packet first, which is then subtracted too.
//! Programs that no XDP program can call are run once per call. The clock then has ticks of up to
//! some ten nanoseconds, so many runs are averaged, those left out that something interrupted.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
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
pub const ROUNDS: u32 = 7;

/// Cost of a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrameCost {
    /// Nanoseconds of the program alone.
    pub ns: f64,
    /// Nanoseconds of the empty program, already subtracted.
    pub harness_ns: f64,
    /// Runs per turn.
    pub repeat: u32,
    /// What the program returned for the frame, the first time.
    pub verdict: u32,
}

/// Measures the cost of a packet, on average over frames that come in order, over and over. The
/// first turn does not count.
///
/// The program should have mode [`Mode::Live`]; its tables see every run.
///
/// # Errors
/// The kernel refuses a program, or a frame has a length the test run does not take.
pub fn bench(
    loaded: &Loaded,
    frames: &[Vec<u8>],
    includes: &[PathBuf],
) -> Result<FrameCost, XdpError> {
    frames.iter().try_for_each(|frame| fits(frame))?;
    let harness = Harness::new(includes, frames.len() as u32)?;
    harness.give(frames)?;
    let program = loaded.handler_fd("net_recv")?;
    harness.subject(SUBJECT, program)?;
    let repeat = (frames.len() as u32).max(1) * LEAST_RUNS.div_ceil(frames.len().max(1) as u32);
    // Frames of all lengths fit where the longest was.
    let longest = frames.iter().max_by_key(|frame| frame.len()).map_or(&[][..], Vec::as_slice);
    let verdict = run_once(program, longest, None, 1)?.verdict;
    harness.run(SUBJECT, longest, repeat)?;
    let (mut ns, mut harness_ns) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..ROUNDS {
        harness_ns = harness_ns.min(harness.run(EMPTY, longest, repeat)?);
        ns = ns.min(harness.run(SUBJECT, longest, repeat)?);
        // A program that writes to its host ring must find room in it.
        loaded.drain_host()?;
    }
    Ok(FrameCost { ns: (ns - harness_ns).max(0.0), harness_ns, repeat, verdict })
}

fn fits(frame: &[u8]) -> Result<(), XdpError> {
    if (SMALLEST_FRAME..=LARGEST_TEST_FRAME).contains(&frame.len()) {
        return Ok(());
    }
    let (smallest, largest) = (SMALLEST_FRAME, LARGEST_TEST_FRAME);
    Err(XdpError::FrameLength { length: frame.len(), smallest, largest })
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
    let harness = Harness::new(includes, 1)?;
    let mut costs = Vec::with_capacity(frames.len());
    each_frame(object, name, entries, frames, |program, frame| {
        costs.push(harness.time_frame(program, frame, repeat)?);
        Ok(())
    })?;
    Ok(costs)
}

/// Measures a frame on every program of an object, each with the maps as those before left them.
/// All leave the frame as it was. When `stopped` says so, what was measured so far is all.
///
/// # Errors
/// As [`bench_object`], or a program changes the frame.
pub fn bench_programs(
    object: &[u8],
    frame: &[u8],
    repeat: u32,
    includes: &[PathBuf],
    stopped: &dyn Fn() -> bool,
) -> Result<Vec<(String, FrameCost)>, XdpError> {
    let harness = Harness::new(includes, 1)?;
    let loaded = object::load(object::open(object)?)?;
    let mut costs = Vec::new();
    for program in loaded.progs() {
        let name = program.name().to_string_lossy().into_owned();
        let Some(verdict) = keeps(program.as_fd(), frame)? else {
            return Err(XdpError::Contract(format!("program `{name}` changes its frame")));
        };
        let (ns, harness_ns) = (f64::INFINITY, f64::INFINITY);
        costs.push((name, FrameCost { ns, harness_ns, repeat, verdict }));
    }
    // What disturbs the machine for a while then disturbs one turn of many programs.
    for _ in 0..ROUNDS {
        let empty = time(harness.program("nf_empty")?, frame, repeat)?;
        for (program, (_, cost)) in loaded.progs().zip(&mut costs) {
            if stopped() {
                return Ok(costs);
            }
            cost.harness_ns = cost.harness_ns.min(empty);
            cost.ns = cost.ns.min(time(program.as_fd(), frame, repeat)?);
        }
    }
    costs.iter_mut().for_each(|(_, cost)| cost.ns = (cost.ns - cost.harness_ns).max(0.0));
    Ok(costs)
}

/// The verdict of a program that leaves a frame as it was.
fn keeps(program: BorrowedFd, frame: &[u8]) -> Result<Option<u32>, XdpError> {
    let mut after = vec![0; 2 * 4096];
    let first = run_once(program, frame, Some(&mut after), 1)?;
    Ok((after[..first.length] == frame[..]).then_some(first.verdict))
}

/// Nanoseconds of one of several runs of a program.
fn time(program: BorrowedFd, frame: &[u8], repeat: u32) -> Result<f64, XdpError> {
    Ok(run_once(program, frame, None, repeat)?.time.as_nanos() as f64)
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
        fits(frame)?;
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

/// Single runs of a round.
const SINGLE_RUNS: u32 = 100;

/// Programs around the program under test.
struct Harness(libbpf_rs::Object);

/// Slots of `nf_subjects`.
const SUBJECT: u32 = 0;
const EMPTY: u32 = 1;
/// Bytes in front of a frame in `nf_frames`.
const FRAME_HEAD: usize = 8;
/// Runs of a turn of [`bench`] at least.
pub const LEAST_RUNS: u32 = 10_000;

impl Harness {
    fn new(includes: &[PathBuf], frames: u32) -> Result<Harness, XdpError> {
        let harness = load_harness_for(includes, &["nf_empty", "nf_again"], frames)?;
        let harness = Harness(harness);
        harness.subject(EMPTY, harness.program("nf_empty")?)?;
        Ok(harness)
    }

    fn program(&self, name: &str) -> Result<BorrowedFd<'_>, XdpError> {
        let program = self.0.progs().find(|prog| prog.name() == name);
        let fd = program.ok_or_else(harness_contract)?.as_fd().as_raw_fd();
        // SAFETY: the object owns the descriptor and outlives the borrow of `self`.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    fn map(&self, name: &str) -> Result<libbpf_rs::MapHandle, XdpError> {
        let map = self.0.maps().find(|map| map.name() == name).ok_or_else(harness_contract)?;
        libbpf_rs::MapHandle::try_from(&map).map_err(|_| harness_contract())
    }

    /// Makes a program one that `nf_again` can call.
    fn subject(&self, slot: u32, program: BorrowedFd) -> Result<(), XdpError> {
        let fd = program.as_raw_fd().to_ne_bytes();
        let done = self.map("nf_subjects")?.update(&slot.to_ne_bytes(), &fd, MapFlags::ANY);
        done.map_err(|e| XdpError::Contract(format!("no XDP program can call it: {e}")))
    }

    /// The frames that `nf_again` gives to a subject from now on.
    fn give(&self, frames: &[Vec<u8>]) -> Result<(), XdpError> {
        let map = self.map("nf_frames")?;
        let mut record = vec![0; map.value_size() as usize];
        for (at, frame) in (0u32..).zip(frames) {
            record[4..8].copy_from_slice(&(frame.len() as u32).to_ne_bytes());
            record[FRAME_HEAD..][..frame.len()].copy_from_slice(frame);
            let done = map.update(&at.to_ne_bytes(), &record, MapFlags::ANY);
            done.map_err(|_| harness_contract())?;
        }
        Ok(())
    }

    /// Runs `nf_again` from the first frame on; nanoseconds of one run. `room` is as long as the
    /// longest frame.
    fn run(&self, subject: u32, room: &[u8], repeat: u32) -> Result<f64, XdpError> {
        let map = self.map("nf_again_state")?;
        let mut state = vec![0; map.value_size() as usize];
        state[..4].copy_from_slice(&subject.to_ne_bytes());
        let done = map.update(&0u32.to_ne_bytes(), &state, MapFlags::ANY);
        done.map_err(|_| harness_contract())?;
        let run = run_once(self.program("nf_again")?, room, None, repeat)?;
        Ok(run.time.as_nanos() as f64)
    }

    /// The time of a frame, less the empty program's: the least mean of many runs. A frame that a
    /// program changes is restored before each run, or run once at a time where that cannot be; the
    /// clock's ticks, of which a short program takes a fraction, then average out over the faster
    /// half of the runs.
    fn time_frame(
        &self,
        program: BorrowedFd,
        frame: &[u8],
        repeat: u32,
    ) -> Result<FrameCost, XdpError> {
        let mut after = vec![0; 2 * 4096];
        let first = run_once(program, frame, Some(&mut after), 1)?;
        let kept = after[..first.length] == frame[..];
        let empty = self.program("nf_empty")?;
        let (mut ns, mut harness_ns) = (f64::INFINITY, f64::INFINITY);
        let mut repeat = repeat.max(1);
        if kept && repeat > 1 {
            for _ in 0..ROUNDS {
                harness_ns = harness_ns.min(time(empty, frame, repeat)?);
                ns = ns.min(time(program, frame, repeat)?);
            }
        } else if self.subject(SUBJECT, program).is_ok() && repeat > 1 {
            self.give(&[frame.to_vec()])?;
            for _ in 0..ROUNDS {
                harness_ns = harness_ns.min(self.run(EMPTY, frame, repeat)?);
                ns = ns.min(self.run(SUBJECT, frame, repeat)?);
            }
        } else {
            repeat = 1;
            let (mut programs, mut empties) = (Vec::new(), Vec::new());
            for _ in 0..SINGLE_RUNS * ROUNDS {
                empties.push(time(empty, frame, 1)?);
                programs.push(time(program, frame, 1)?);
            }
            (ns, harness_ns) = (faster_half(programs), faster_half(empties));
        }
        let verdict = first.verdict;
        Ok(FrameCost { ns: (ns - harness_ns).max(0.0), harness_ns, repeat, verdict })
    }
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
