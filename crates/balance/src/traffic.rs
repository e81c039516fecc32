//! Rates over time: the published workloads, sweeps, and bursts of microseconds.
//!
//! The published traces are not public. Their text gives log-normal laws of the rate in each
//! second, clipped at the line: the *stated* laws. With them the published averages of slow
//! functions cannot come out (a capped average depends on the law alone), so there are *effective*
//! laws too, fitted to the published averages. Both are used wherever results are compared.
//!
//! The stated laws (web, cache, hadoop) were checked for themselves: clipped at the line their
//! means are 1.63, 4.92 and 11.95 Gbit/s, and 1.51, 1.39 and 3.32 if rates above the line are
//! rejected instead, so the published 1.6, 5.2 and 10.9 are of clipped ones. A mean over 600 s
//! deviates by 0.25, 0.81 and 1.22 Gbit/s; hadoop is at the line in 3.6 % of its seconds.
//!
//! A rate is a mean over its second. Within it packets come as a Poisson process with the line's
//! least distance, or in bursts at the line's rate of some microseconds with exponential gaps
//! between them.

use crate::rng::Rng;

/// What the line carries, Gbit/s.
pub const LINE_GBPS: f64 = 100.0;

/// Arrivals of packets within a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    Poisson,
    /// Bursts at the line's rate for so many µs; the gaps make the mean rate.
    Bursts {
        us: f64,
    },
}

/// Rates over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    pub name: String,
    /// How long each rate holds, ns.
    pub bin_ns: f64,
    /// Gbit/s on the wire.
    pub gbps: Vec<f64>,
    pub arrivals: Arrivals,
}

/// Where a law comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// The paper's text.
    Stated,
    /// Fitted to the published averages.
    Effective,
}

/// A workload's laws: mean and deviation of the rate's logarithm (Gbit/s), and the published mean
/// rate.
struct Workload {
    name: &'static str,
    stated: (f64, f64),
    effective: (f64, f64),
    published_mean: f64,
}

const WORKLOADS: [Workload; 3] = [
    Workload { name: "web", stated: (-1.37, 1.97), effective: (-0.75, 1.58), published_mean: 1.6 },
    Workload { name: "cache", stated: (-9.0, 7.55), effective: (0.46, 1.60), published_mean: 5.2 },
    Workload {
        name: "hadoop",
        stated: (-4.18, 6.56),
        effective: (1.47, 1.41),
        published_mean: 10.9,
    },
];

/// Names of the published workloads.
pub fn workloads() -> impl Iterator<Item = &'static str> {
    WORKLOADS.iter().map(|workload| workload.name)
}

/// Seconds of a published trace.
pub const SECONDS: usize = 600;
/// Seeds that are tried for a trace like the published one.
const SEEDS: u64 = 4000;

/// A published workload of `seconds`: the first of some seeds after `seed` whose mean is within 2 %
/// of the published one and whose largest rate is above 95 Gbit/s (so the published maxima show),
/// else the one whose mean is nearest.
pub fn published(name: &str, law: Law, seconds: usize, seed: u64) -> Option<Trace> {
    let workload = WORKLOADS.iter().find(|workload| workload.name == name)?;
    let (mean, deviation) = match law {
        Law::Stated => workload.stated,
        Law::Effective => workload.effective,
    };
    let make = |seed: u64| -> Vec<f64> {
        let mut rng = Rng::new(seed);
        (0..seconds).map(|_| (mean + deviation * rng.normal()).exp().min(LINE_GBPS)).collect()
    };
    let off = |gbps: &[f64]| {
        (gbps.iter().sum::<f64>() / seconds as f64 / workload.published_mean - 1.0).abs()
    };
    let mut best: Option<(f64, Vec<f64>)> = None;
    for seed in seed.wrapping_mul(SEEDS)..seed.wrapping_mul(SEEDS) + SEEDS {
        let gbps = make(seed);
        let off = off(&gbps);
        let high = gbps.iter().any(|rate| *rate > 95.0);
        if high && off < 0.02 {
            best = Some((off, gbps));
            break;
        }
        if best.as_ref().is_none_or(|(least, _)| off < *least) {
            best = Some((off, gbps));
        }
    }
    let law = if law == Law::Stated { "stated" } else { "effective" };
    Some(Trace {
        name: format!("{name} ({law})"),
        bin_ns: 1e9,
        gbps: best?.1,
        arrivals: Arrivals::Poisson,
    })
}

/// A constant rate for so many seconds.
pub fn constant(gbps: f64, seconds: f64) -> Trace {
    Trace {
        name: format!("{gbps} Gbit/s"),
        bin_ns: seconds * 1e9,
        gbps: vec![gbps],
        arrivals: Arrivals::Poisson,
    }
}

impl Trace {
    /// A trace of equal rates in bursts of `us` µs at the line's rate.
    pub fn in_bursts(self, us: f64) -> Trace {
        Trace {
            name: format!("{}, bursts of {us} us", self.name),
            arrivals: Arrivals::Bursts { us },
            ..self
        }
    }

    /// Mean rate, Gbit/s.
    pub fn mean_gbps(&self) -> f64 {
        self.gbps.iter().sum::<f64>() / self.gbps.len().max(1) as f64
    }

    /// Reads rates, one a line, as the published sender does; `seconds` each.
    pub fn parse(name: &str, text: &str, seconds: f64) -> Result<Trace, TraceError> {
        let mut gbps = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            let rate = line.parse().ok().filter(|rate: &f64| (0.0..=1000.0).contains(rate));
            let error = || TraceError::Line {
                place: format!("{name}:{number}"),
                text: line.chars().take(40).collect(),
            };
            gbps.push(rate.ok_or_else(error)?);
        }
        if gbps.is_empty() {
            return Err(TraceError::Empty(name.to_string()));
        }
        Ok(Trace {
            name: name.to_string(),
            bin_ns: seconds * 1e9,
            gbps,
            arrivals: Arrivals::Poisson,
        })
    }
}

/// Why a trace cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    #[error("{place}: `{text}` is no rate; write one number a line, Gbit/s from 0 to 1000")]
    Line { place: String, text: String },
    #[error("{0}: there is no rate in it; write one number a line, Gbit/s")]
    Empty(String),
}

/// Any bytes as a trace, for the fuzzer.
pub fn fuzz(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(trace) = Trace::parse("fuzz", text, 1.0)
    {
        assert!(trace.mean_gbps() <= 1000.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effective_traces_have_the_published_means() {
        for workload in &WORKLOADS {
            let trace = published(workload.name, Law::Effective, SECONDS, 1).unwrap();
            let off = trace.mean_gbps() / workload.published_mean - 1.0;
            assert!(off.abs() < 0.02, "{}: {off}", trace.name);
            assert!(trace.gbps.iter().all(|rate| (0.0..=LINE_GBPS).contains(rate)));
            assert_eq!(trace, published(workload.name, Law::Effective, SECONDS, 1).unwrap());
        }
    }

    #[test]
    fn stated_laws_have_the_means_they_must() {
        // Of the laws, not of one trace: 1.64, 4.91, 12.0.
        for (workload, want) in WORKLOADS.iter().zip([1.64, 4.91, 12.0]) {
            let mut rng = Rng::new(9);
            let (mean, deviation) = workload.stated;
            let n = 400_000;
            let sum: f64 =
                (0..n).map(|_| (mean + deviation * rng.normal()).exp().min(LINE_GBPS)).sum();
            assert!(
                (sum / f64::from(n) / want - 1.0).abs() < 0.03,
                "{}: {}",
                workload.name,
                sum / f64::from(n)
            );
        }
    }

    #[test]
    fn rates_are_read() {
        let trace = Trace::parse("t", "# Gbit/s\n1.5\n\n 40 # much\n", 1.0).unwrap();
        assert_eq!(trace.gbps, [1.5, 40.0]);
        assert_eq!(
            Trace::parse("t", "1\nfast\n", 1.0).unwrap_err().to_string(),
            "t:2: `fast` is no rate; write one number a line, Gbit/s from 0 to 1000"
        );
        assert!(Trace::parse("t", "-1\n", 1.0).is_err() && Trace::parse("t", "", 1.0).is_err());
    }
}
