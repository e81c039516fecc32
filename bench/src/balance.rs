//! The load balancer's director against one that was written by hand for a single mode:
//! instructions and nanoseconds per packet, kept and diverted.
//!
//! Both have the same maps and settings and see the same packets. First they must agree on every
//! verdict and frame.

use nicforge_balance::director::meter::{Mode, Setting};
use nicforge_balance::director::packet::Packet;
use nicforge_balance::director::sample::frame;
use nicforge_balance::director::{Route, sample_vips};
use nicforge_balance::rng::Rng;
use nicforge_isa::ebpf::{Insn, Machine, Memory, decode};
use nicforge_run::balance::{Balancer, Config};

use crate::host::Outside;
use crate::{Failure, at};

/// Packets that are compared.
const PACKETS: usize = 500;
/// More than any of the programs may execute for a packet.
const LIMIT: u64 = 100_000;
/// Modes that the hand-written director has, by the number it knows them by.
pub const MODES: [Mode; 4] =
    [Mode::Window, Mode::TokenBucket, Mode::Proportional, Mode::FlowAffine];
/// Most instructions over those of the hand-written director.
pub const GATE: f64 = 1.1;

/// What one mode costs, packets kept or diverted.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub mode: Mode,
    pub kept: bool,
    /// Instructions over all packets.
    pub ours: u64,
    pub by_hand: u64,
    pub packets: usize,
    /// Least ns per packet, if times were taken.
    pub times: Option<(f64, f64)>,
}

impl Row {
    /// Ours over those by hand.
    pub fn ratio(&self) -> f64 {
        self.ours as f64 / self.by_hand as f64
    }
}

/// Whole TCP and UDP packets of both IP versions without options and with at most one tag: what the
/// hand-written director knows.
pub fn packets() -> Vec<Vec<u8>> {
    let vips = sample_vips();
    let mut rng = Rng::new(31);
    let plain = |frame: &Vec<u8>| {
        let Some(packet) = Packet::find(frame) else { return false };
        let header = if packet.version6 { 40 } else { 20 };
        let simple = packet.version6 || frame[packet.ip] == 0x45;
        let ports = packet.ports == Some(packet.ip + header);
        packet.ip <= 18 && simple && ports && !packet.fragment && matches!(packet.protocol, 6 | 17)
    };
    std::iter::repeat_with(|| frame(&mut rng, &vips, false)).filter(plain).take(PACKETS).collect()
}

/// A director with what keeps or diverts everything.
fn load(mode: Mode, kept: bool, source: Option<&str>) -> Result<Balancer, Failure> {
    let config = Config {
        vips: sample_vips(),
        mode,
        lazy: true,
        shadow: false,
        nic_is_stack: false,
        test: false,
    };
    let loaded = match source {
        None => Balancer::load(&config),
        Some(source) => Balancer::load_source(&config, source),
    };
    let loaded = loaded.map_err(at(mode.name()))?;
    let much = if kept { 1 << 40 } else { 0 };
    let host_share = if kept { 0 } else { 1 << 16 };
    let set =
        Setting { window_ns: 100_000, credit: much, rate: much >> 8, burst: much, host_share };
    loaded.apply(&set, 1, Route::Metered);
    loaded.place(!kept);
    Ok(loaded)
}

/// The hand-written director of a mode.
fn by_hand(mode: Mode) -> Result<String, Failure> {
    let path = crate::case::root().join("bench/handwritten/balance.bpf.c");
    let source = std::fs::read_to_string(&path).map_err(at(&path.display().to_string()))?;
    let number = MODES.iter().position(|known| *known == mode).unwrap_or(0);
    Ok(format!("#define MODE {number}\n{source}"))
}

/// Counts one mode.
///
/// # Errors
/// The directors differ, or cannot be loaded.
pub fn count(mode: Mode, kept: bool, packets: &[Vec<u8>]) -> Result<Row, Failure> {
    let source = by_hand(mode)?;
    let (ours, theirs) = (load(mode, kept, None)?, load(mode, kept, Some(&source))?);
    let program = |loaded: &Balancer| -> Result<Vec<Insn>, Failure> {
        let bytes = loaded.instructions("nfb_ingress").ok_or(Failure("no program".to_string()))?;
        decode(&bytes).map_err(at(mode.name()))
    };
    let programs = [program(&ours)?, program(&theirs)?];
    let mut executed = [0; 2];
    for (number, frame) in packets.iter().enumerate() {
        let mut outcomes = Vec::new();
        for (program, executed) in programs.iter().zip(&mut executed) {
            let mut memory = Memory::default();
            let time = 1_000_000_000 + number as u64 * 1000;
            let mut outside = Outside::new(&mut memory, frame, 1, time);
            let run = Machine { program, limit: LIMIT }
                .run(&mut memory, &mut outside)
                .map_err(at(mode.name()))?;
            outside.flush(&memory).map_err(at(mode.name()))?;
            *executed += run.executed;
            outcomes.push((outside.port, outside.frame(&memory).to_vec()));
        }
        if outcomes[0] != outcomes[1] {
            return Err(Failure(format!(
                "{}, packet {number}: the directors differ: {outcomes:x?}",
                mode.name()
            )));
        }
    }
    Ok(Row {
        mode,
        kept,
        ours: executed[0],
        by_hand: executed[1],
        packets: packets.len(),
        times: None,
    })
}

/// Takes the times of one mode as well.
///
/// # Errors
/// As [`count`].
pub fn time(row: &mut Row, packets: &[Vec<u8>]) -> Result<(), Failure> {
    let source = by_hand(row.mode)?;
    let (ours, theirs) =
        (load(row.mode, row.kept, None)?, load(row.mode, row.kept, Some(&source))?);
    let frames: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    let fds =
        [&ours, &theirs].map(|loaded| loaded.program("nfb_ingress").map_err(at(row.mode.name())));
    let [ours, theirs] = fds;
    let times = crate::time::least(&frames, &[ours?, theirs?])?;
    row.times = Some((times[1] - times[0], times[2] - times[0]));
    Ok(())
}
