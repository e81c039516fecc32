//! What the kernel itself counts about a program: runs and the time they took.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys;

use super::error::XdpError;
use super::loaded::Loaded;
use super::object::program_info;

/// The kernel counts runs of all programs while this lives. Counting costs some 30 ns per run.
pub struct RunStats {
    _on: OwnedFd,
}

/// Runs of a program while they were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunCount {
    pub runs: u64,
    /// Nanoseconds spent in them.
    pub ns: u64,
}

impl RunStats {
    /// Turns counting on.
    pub fn enable() -> Result<RunStats, XdpError> {
        // SAFETY: no pointers.
        let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        if fd < 0 {
            let source = io::Error::from_raw_os_error(-fd);
            return Err(XdpError::kernel("count runs of BPF programs", source));
        }
        // SAFETY: a new descriptor, owned from here on.
        Ok(RunStats { _on: unsafe { OwnedFd::from_raw_fd(fd) } })
    }
}

impl Loaded {
    /// Runs of the handler of `net_recv` so far, as far as they were counted. Time in later stages
    /// counts too.
    pub fn run_count(&self) -> Result<RunCount, XdpError> {
        let entry = program_info(self.handler_fd("net_recv")?)?;
        let ns = match self.stage_runs()?.as_slice() {
            [] => entry.run_time_ns,
            stages => stages.iter().map(|stage| stage.ns).sum(),
        };
        Ok(RunCount { runs: entry.run_cnt, ns })
    }

    /// Runs of every stage's program, in order, then of the one that spreads packets over the first
    /// stage's replicas. The kernel counts programs behind queues like all others.
    pub fn stage_runs(&self) -> Result<Vec<RunCount>, XdpError> {
        let mut list = Vec::new();
        for programs in self.stage_programs() {
            let mut sum = RunCount::default();
            for fd in programs {
                let info = program_info(fd)?;
                sum.runs += info.run_cnt;
                sum.ns += info.run_time_ns;
            }
            list.push(sum);
        }
        if let Some(process) = &self.process {
            // The thread's time, shared out by events: receiving and sending are all stages'
            // together.
            let counts = process.shared.counts();
            let all = counts.runs.iter().sum::<u64>().max(1);
            for (sum, runs) in list.iter_mut().zip(counts.runs) {
                sum.runs += runs;
                sum.ns += (u128::from(counts.busy_ns) * u128::from(runs) / u128::from(all)) as u64;
            }
        }
        Ok(list)
    }
}
