//! `--need`: the cores and NICs that guarantee a rate.
//!
//! With `c` cores a packet takes the longer of its core time over `c` and its time at what all
//! cores share. The maximum over packets is therefore the longer of two maxima, each found with the
//! other resource out of the way: by one core so slow that only it counts, and by cores without
//! end.

use nicforge_bound::analysis::Options;
use nicforge_bound::search::By;
use nicforge_driver::Failure;

use super::load::Subject;
use crate::args::{Bound, RequiredRate};

/// Cores at which nothing else counts, and cores that never count.
const SLOW: f64 = 1e-9;
const FAST: f64 = 1e12;

/// Needs of a guaranteed rate.
pub struct Needed {
    /// Cores together.
    pub cores: u64,
    /// NICs by cores, by what cores share, by ports.
    pub nics: [u64; 3],
    /// Each of these is the least there may be; else fewer may do.
    pub exact: bool,
}

impl Needed {
    /// NICs that do.
    pub fn whole(&self) -> u64 {
        self.nics.into_iter().max().unwrap_or(1)
    }
}

/// Finds how many cores and NICs it takes.
pub fn find(
    args: &Bound,
    subject: &Subject,
    options: &Options,
    rate: RequiredRate,
) -> Result<Needed, Failure> {
    let by = options.by[0];
    let slowest = |cores: f64| {
        let mut options = Options { by: vec![by], top: 1, all: false, ..options.clone() };
        options.machine.cores = cores;
        let report = super::analyse(args, subject, &options, None)?;
        let record = &report.records[0];
        Ok::<(f64, bool), Failure>((record.bound, record.exact))
    };
    let (alone, exact) = slowest(SLOW)?;
    let (shared, exact_shared) = slowest(FAST)?;
    let allowed = rate.slowness();
    let up = |x: f64| (x - 1e-9).ceil().max(1.0) as u64;
    let cores = up(alone * SLOW / allowed);
    let machine = &options.machine;
    let port = match (by, rate) {
        (By::BitRate, RequiredRate::BitsPerSecond(rate)) => {
            machine.port_bps.map_or(1, |most| up(rate / most))
        }
        (_, RequiredRate::PacketsPerSecond(rate)) => {
            machine.port_pps.map_or(1, |most| up(rate / most))
        }
        _ => 1,
    };
    let nics = [up(cores as f64 / machine.cores), up(shared / allowed), port];
    Ok(Needed { cores, nics, exact: exact && exact_shared && !subject.timers })
}
