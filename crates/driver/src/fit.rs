//! `targets fit`: the prices of a target's instructions, from what programs take.
//!
//! A judge that is not the model says what programs take: simulated cores count the cycles of the
//! generated code, stage by stage; this machine measures the time of a packet in the kernel. The
//! model's cycles are a sum of prices, each times how often its op runs, and of what memories and
//! ciphers take, so prices follow by least squares: errors relative to each stage's cycles, prices
//! kept near those of the spec where programs say little of them.
//!
//! Prices of half of the programs are judged on the other half before those of all are given.

use std::path::Path;

use nicforge_plan::Plan;
use nicforge_target::{OpCosts, Target};
use nicforge_util::Random;

use crate::backend::{self, first};
use crate::options::{Inputs, Planning, Source};
use crate::simulation;
use crate::{Failure, Runtime, planning, program};

/// Packets that count, after as many that do not.
const PACKETS: usize = 2048;
/// Weight of the spec's prices: that all are off by their own size is as bad as this share of a
/// stage's cycles.
const KEEP: f64 = 0.1;
/// Rounds of the descent; it is exact long before.
const ROUNDS: usize = 4000;
/// A price that the spec has at zero is kept as if it were this.
const SMALL: f64 = 0.1;
/// No price falls below this share of itself: programs pay several together, so that one would go
/// to zero in favour of another.
const LEAST: f64 = 0.5;
/// A price that changes by less of its size stays as it is.
const SAME: f64 = 0.02;
/// Prices of what a driver does with a packet.
const OF_DRIVERS: [&str; 2] = ["receive", "send"];
/// Chooses the halves.
const SEED: u64 = 1;

/// A stage, or a whole program where only that is measured.
#[derive(Clone, Debug)]
pub struct Sample {
    pub program: String,
    pub stage: String,
    /// Cycles an event by the judge, and by the model with the spec's prices.
    pub judged: f64,
    pub modelled: f64,
    /// By price, as [`OpCosts::PRICES`] lists them: how often it is paid.
    times: Vec<f64>,
}

impl Sample {
    /// Cycles under other prices than the spec's.
    pub fn under(&self, spec: &[f64], prices: &[f64]) -> f64 {
        let changes = spec.iter().zip(prices).map(|(was, is)| is - was);
        self.modelled + self.times.iter().zip(changes).map(|(times, by)| times * by).sum::<f64>()
    }
}

/// Judge of prices: simulated cores, or this machine's kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judge {
    Cores,
    Kernel,
}

/// The prices of a spec's first units.
pub fn prices(target: &Target) -> Vec<f64> {
    let mut costs = target.costs[&first(target).costs];
    OpCosts::PRICES.iter().map(|(_, price)| *price(&mut costs)).collect()
}

/// The judge of a target's figures.
///
/// # Errors
/// It has none here.
pub fn judge(target: &Target) -> Result<Judge, Failure> {
    let backend = backend::of(target)?;
    if backend.pipelined().is_some_and(|pipelined| pipelined.counts_cycles()) {
        return Ok(Judge::Cores);
    }
    if backend.measures(target) {
        return Ok(Judge::Kernel);
    }
    Err(Failure::user(format!(
        "{} has neither simulated cores nor a place on this machine to fit to; targets of codegen \
         riscv and xdp have",
        target.name
    )))
}

/// What one program says of a target's prices.
///
/// # Errors
/// The program cannot be read or has no plan, or the judge fails.
pub fn samples(
    path: &Path,
    target: &Target,
    judge: Judge,
    runtime: &Runtime,
) -> Result<Vec<Sample>, Failure> {
    let source = Source { program: path.to_path_buf(), ..Source::default() };
    let (inputs, mut planning) = (Inputs::default(), Planning::default());
    let mut loaded = program::load(&source.on(target), runtime)?;
    // The program as it is: one stage an event.
    planning.iterations = 1;
    let traffic = simulation::traffic(&planning, target, &loaded, &inputs, PACKETS)?;
    if judge == Judge::Kernel {
        planning.profile = true;
        planning::profile(&mut loaded, &planning, &inputs)?;
    } else {
        planning.frame = traffic.frame_bytes;
        planning::profile_on(&mut loaded, &traffic.entries, &traffic.before, &traffic.events)
            .map_err(Failure::user)?;
    }
    let plan_with =
        |target: &Target| planning::find(&loaded, target, &planning).map(|found| found.0);
    let plan = plan_with(target)?;
    let backend = backend::of(target)?;
    let stages: Vec<(String, f64)> = match judge {
        Judge::Cores => match backend.counted(target, &loaded, &plan, &traffic) {
            Some(count) => {
                count?.stages.into_iter().map(|stage| (stage.stage, stage.counted)).collect()
            }
            None => Vec::new(),
        },
        Judge::Kernel => match backend.measured(target, &loaded, &inputs) {
            Some(rate) => {
                let cycles = |rate: f64| (String::new(), first(target).clock.value / rate);
                rate?.map(cycles).into_iter().collect()
            }
            None => Vec::new(),
        },
    };
    let spec = prices(target);
    let mut samples: Vec<Sample> = stages
        .into_iter()
        .map(|(stage, judged)| Sample {
            program: plan.program.clone(),
            modelled: cycles(&plan, &stage),
            stage,
            judged,
            times: Vec::new(),
        })
        .collect();
    for (at, (name, price)) in OpCosts::PRICES.into_iter().enumerate() {
        let mut dearer = target.clone();
        if let Some(costs) = dearer.costs.get_mut(&first(target).costs) {
            *price(costs) += 1.0;
        }
        let dearer = plan_with(&dearer)?;
        for sample in &mut samples {
            let times = cycles(&dearer, &sample.stage) - cycles(&plan, &sample.stage);
            // The kernel's test run has no driver, so nobody pays for it there.
            if judge == Judge::Kernel && OF_DRIVERS.contains(&name) {
                sample.modelled -= times * spec[at];
                sample.times.push(0.0);
            } else {
                sample.times.push(times.max(0.0));
            }
        }
    }
    Ok(samples)
}

/// Cycles an event of a stage, or a packet of all stages together.
fn cycles(plan: &Plan, stage: &str) -> f64 {
    let of = plan.stages.iter().filter(|one| stage.is_empty() || one.name == stage);
    of.map(|one| if stage.is_empty() { one.cycles * one.share } else { one.cycles }).sum()
}

/// Prices that follow from samples, near those of the spec.
pub fn fit(samples: &[Sample], spec: &[f64]) -> Vec<f64> {
    let size = |price: f64| price.max(SMALL);
    let mut prices = spec.to_vec();
    let mut errors: Vec<f64> =
        samples.iter().map(|one| (one.modelled - one.judged) / one.judged).collect();
    for _ in 0..ROUNDS {
        for (at, price) in prices.iter_mut().enumerate() {
            let keep = (KEEP / size(spec[at])).powi(2);
            let (mut square, mut pull) = (keep, keep * (*price - spec[at]));
            for (sample, error) in samples.iter().zip(&errors) {
                let slope = sample.times[at] / sample.judged;
                square += slope * slope;
                pull += slope * error;
            }
            let next = (*price - pull / square).max(LEAST * spec[at]);
            for (sample, error) in samples.iter().zip(&mut errors) {
                *error += sample.times[at] / sample.judged * (next - *price);
            }
            *price = next;
        }
    }
    prices
}

/// Samples of half of the programs, and those of the others.
pub fn halves(samples: &[Sample]) -> (Vec<Sample>, Vec<Sample>) {
    let mut names: Vec<&str> = samples.iter().map(|one| one.program.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let mut random = Random::new(SEED);
    for at in (1..names.len()).rev() {
        names.swap(at, random.below(at as u64 + 1) as usize);
    }
    let fitted = &names[..names.len() / 2];
    samples.iter().cloned().partition(|one| fitted.contains(&one.program.as_str()))
}

/// A spec's text with other prices of its first units, each marked `[fit]`; all else stays.
pub fn write(text: &str, target: &Target, wanted: &[f64]) -> String {
    let head = format!("[costs.{}]", first(target).costs);
    let known = prices(target);
    let mut changed: Vec<(&str, f64)> = OpCosts::PRICES
        .iter()
        .zip(known.iter().zip(wanted))
        .filter(|(_, (was, is))| (*was - *is).abs() > SAME * was.max(SMALL))
        .map(|((name, _), (_, is))| (*name, *is))
        .collect();
    let line = |(name, price): (&str, f64)| format!("{:24}# [fit]", format!("{name} = {price:.2}"));
    let (mut lines, mut inside, mut end) = (Vec::new(), false, 0);
    for old in text.lines() {
        if old.trim_start().starts_with('[') {
            inside = old.trim() == head;
        }
        let word = old.split('=').next().unwrap_or_default().trim();
        match changed.iter().position(|(name, _)| inside && *name == word) {
            Some(at) => lines.push(line(changed.remove(at))),
            None => lines.push(old.to_string()),
        }
        if inside && !old.trim().is_empty() {
            end = lines.len();
        }
    }
    // Prices that the spec left at zero.
    lines.splice(end..end, changed.into_iter().map(line));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample that pays the first two prices so often.
    fn sample(program: usize, times: [f64; 2], judged: f64, spec: &[f64]) -> Sample {
        let mut all = vec![0.0; spec.len()];
        all[..2].copy_from_slice(&times);
        let modelled = 100.0 + times[0] * spec[0] + times[1] * spec[1];
        Sample { program: program.to_string(), stage: String::new(), judged, modelled, times: all }
    }

    #[test]
    fn prices_that_made_the_samples_are_found() {
        let spec = vec![1.0; OpCosts::PRICES.len()];
        let mut random = Random::new(7);
        let samples: Vec<Sample> = (0..40)
            .map(|program| {
                let times = [random.unit() * 100.0, random.unit() * 100.0];
                sample(program, times, 100.0 + 3.0 * times[0] + 0.5 * times[1], &spec)
            })
            .collect();
        let found = fit(&samples, &spec);
        assert!((found[0] - 3.0).abs() < 0.1 && (found[1] - 0.5).abs() < 0.1, "{found:?}");
        // What nobody pays stays as it was.
        assert_eq!(found[2..], spec[2..]);
        let (one, other) = halves(&samples);
        assert_eq!((one.len(), other.len()), (20, 20));
    }

    #[test]
    fn a_spec_keeps_all_but_its_prices() {
        let target = nicforge_target::find("panic").expect("it is built in");
        let text = nicforge_target::source("panic").expect("it has a text");
        let mut wanted = prices(&target);
        wanted.iter_mut().for_each(|price| *price += 1.0);
        let written = write(text, &target, &wanted);
        let read = nicforge_target::parse("panic.toml", &written).expect("it is a spec");
        for (price, wanted) in prices(&read).iter().zip(&wanted) {
            assert!((price - wanted).abs() < 0.01, "{price} for {wanted}");
        }
        assert_eq!(read.costs[&first(&read).costs].crypto, target.costs["rv32"].crypto);
        assert!(written.contains("# PANIC: a prototype of 32 RISC-V cores"));
    }
}
