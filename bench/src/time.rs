//! Nanoseconds per packet in the kernel.
//!
//! A test run repeats a program on one buffer, which the program changes. So the repeated program
//! is `replay`, which writes the next packet of the capture into the buffer and calls the program
//! under test as its tail: both programs see the capture in a loop, on tables that go on from loop
//! to loop alike, since both do the same. The same loop with an empty program at the end is what a
//! packet costs without the program and is subtracted. The three take turns [`ROUNDS`] times and
//! each keeps its least time: whatever else the machine does only ever adds, and short turns fit
//! between it. The kernel leaves out time in which something else ran, and gives whole nanoseconds
//! per run.
//!
//! A test run's packets all come in by one interface, which is that of port 0, so only those
//! packets are timed.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, ProgramInput};
use nicforge_run::compile::Mode;
use nicforge_run::xdp::compile_bpf;

use crate::case::{Author, Case};
use crate::{Failure, at};

/// Turns each program gets.
pub const ROUNDS: usize = 150;
/// Packets in a turn, about.
const PACKETS: usize = 20_000;
/// As in `replay.bpf.c`.
const LARGEST_FRAME: usize = 4096;

/// Least nanoseconds per packet, without the harness.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    pub generated: f64,
    pub by_hand: f64,
    /// What was subtracted.
    pub harness: f64,
}

impl Times {
    /// Generated over hand-written; `None` if a program takes less than the kernel's clock can
    /// tell, one nanosecond.
    pub fn ratio(&self) -> Option<f64> {
        (self.generated >= 1.0 && self.by_hand >= 1.0).then(|| self.generated / self.by_hand)
    }
}

/// Times both programs.
pub fn time(case: &Case) -> Result<Times, Failure> {
    let frames: Vec<&[u8]> =
        case.packets().filter(|(_, port, _)| *port == 0).map(|(_, _, frame)| frame).collect();
    if frames.is_empty() {
        return Err(Failure(format!("{}: no packet for port 0", case.name)));
    }
    let (ours, theirs) =
        (case.load(Author::Generated, Mode::Live)?, case.load(Author::ByHand, Mode::Live)?);
    let generated = ours.handler_fd("net_recv").map_err(at(case.name))?;
    let by_hand = theirs.handler_fd("net_recv").map_err(at(case.name))?;
    let least = least(&frames, &[generated, by_hand])?;
    let without = |time: f64| (time - least[0]).max(0.0);
    Ok(Times { generated: without(least[1]), by_hand: without(least[2]), harness: least[0] })
}

/// Least nanoseconds per packet, harness included: of an empty program first, then of each program,
/// all in turn.
pub fn least(frames: &[&[u8]], programs: &[BorrowedFd]) -> Result<Vec<f64>, Failure> {
    let longest = frames.iter().copied().max_by_key(|frame| frame.len()).unwrap_or_default();
    let repeat = PACKETS.next_multiple_of(frames.len()) as u32;
    let empty = Replay::new(frames)?;
    empty.measure(empty.program("empty")?.as_fd())?;
    let mut turns = vec![(empty, f64::INFINITY)];
    for program in programs {
        let replay = Replay::new(frames)?;
        replay.measure(*program)?;
        turns.push((replay, f64::INFINITY));
    }
    for _ in 0..ROUNDS {
        for (replay, least) in &mut turns {
            *least = least.min(replay.run(longest, repeat)?);
        }
    }
    Ok(turns.into_iter().map(|(_, least)| least).collect())
}

/// The loop over a capture.
struct Replay {
    object: Object,
}

impl Replay {
    fn new(frames: &[&[u8]]) -> Result<Replay, Failure> {
        let source = include_str!("replay.bpf.c");
        let object = compile_bpf("replay", source, Mode::Live, &[]).map_err(at("replay"))?;
        let failed = || at::<libbpf_rs::Error>("replay");
        let mut open = ObjectBuilder::default().open_memory(&object).map_err(failed())?;
        for mut map in open.maps_mut() {
            if map.name() == "frames" {
                map.set_max_entries(frames.len() as u32).map_err(failed())?;
            }
        }
        let replay = Replay { object: open.load().map_err(failed())? };
        for (index, frame) in frames.iter().enumerate() {
            let mut value = (frame.len() as u32).to_le_bytes().to_vec();
            value.extend_from_slice(frame);
            value.resize(4 + LARGEST_FRAME, 0);
            replay.set("frames", index as u32, &value)?;
        }
        let position = [0u32.to_le_bytes(), (frames.len() as u32).to_le_bytes()].concat();
        replay.set("position", 0, &position)?;
        Ok(replay)
    }

    fn set(&self, map: &str, key: u32, value: &[u8]) -> Result<(), Failure> {
        let found = self.object.maps().find(|candidate| candidate.name() == map);
        let found = found.ok_or_else(|| Failure(format!("replay has no map `{map}`")))?;
        found.update(&key.to_le_bytes(), value, MapFlags::ANY).map_err(at("replay"))
    }

    fn program(&self, name: &str) -> Result<libbpf_rs::Program<'_>, Failure> {
        let found = self.object.progs().find(|program| program.name() == name);
        found.ok_or_else(|| Failure(format!("replay has no program `{name}`")))
    }

    /// Puts a program at the end of the loop.
    fn measure(&self, program: BorrowedFd) -> Result<(), Failure> {
        self.set("measured", 0, &program.as_raw_fd().to_le_bytes())
    }

    /// Nanoseconds per packet of one turn.
    fn run(&mut self, longest: &[u8], repeat: u32) -> Result<f64, Failure> {
        let input = ProgramInput { data_in: Some(longest), repeat, ..ProgramInput::default() };
        self.set("starts", 0, &[0; 16])?;
        let replay = self.object.progs_mut().find(|program| program.name() == "replay");
        let replay = replay.ok_or_else(|| Failure("replay has no program `replay`".to_string()))?;
        let output = replay.test_run(input).map_err(at("replay"))?;
        Ok(output.duration.as_nanos() as f64)
    }
}
