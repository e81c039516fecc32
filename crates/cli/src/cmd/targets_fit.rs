//! `nicforge targets fit`: prices of a specification by what programs take.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use nicforge_driver::fit::{self, Judge, Sample};
use nicforge_driver::{Failure, Runtime, stop, targets};
use nicforge_target::OpCosts;
use serde_json::{Value, json};

use super::below;
use crate::text::table;
use crate::{interrupt, out, parallel};

/// Errors that samples are counted within.
const WITHIN: [f64; 2] = [0.10, 0.25];

/// How well prices say what the judge says.
struct Agreement {
    samples: usize,
    within: [usize; WITHIN.len()],
    /// Half of the samples are off by no more.
    median: f64,
}

fn agreement(samples: &[Sample], spec: &[f64], prices: &[f64]) -> Agreement {
    let off = |one: &Sample| {
        let ratio = one.under(spec, prices) / one.judged;
        ratio.max(1.0 / ratio) - 1.0
    };
    let mut all: Vec<f64> = samples.iter().map(off).collect();
    all.sort_by(f64::total_cmp);
    Agreement {
        samples: all.len(),
        within: WITHIN.map(|most| all.iter().filter(|off| **off <= most).count()),
        median: all.get(all.len() / 2).copied().unwrap_or(0.0),
    }
}

/// Fits, prints how well that went, and writes the new specification.
///
/// # Errors
/// A target without a judge here, a folder without programs that run there, a file that cannot be
/// written.
pub fn run(name: &str, from: &Path, output: Option<&Path>, as_json: bool) -> Result<(), Failure> {
    let target = targets::find(name)?;
    let judge = fit::judge(&target)?;
    let text = super::targets::text(name)?;
    let programs = below::files(from, below::with_capture)?;
    let runtime = Runtime::unpack()?;
    interrupt::stop_in_order();
    let done = AtomicUsize::new(0);
    let sampled = |path: &std::path::PathBuf| {
        let found = (!stop::stopped()).then(|| fit::samples(path, &target, judge, &runtime));
        out::progress(done.fetch_add(1, Ordering::Relaxed) + 1, programs.len());
        found
    };
    // Two programs at a time disturb each other where time is measured.
    let found = match judge {
        Judge::Cores => parallel::each(&programs, sampled),
        Judge::Kernel => programs.iter().map(sampled).collect(),
    };
    if stop::stopped() {
        return Err(Failure { code: nicforge_driver::INTERRUPTED, message: String::new() });
    }
    let (mut samples, mut without) = (Vec::new(), Vec::new());
    for (path, found) in programs.iter().zip(found.into_iter().flatten()) {
        match found {
            Ok(found) => samples.extend(found),
            Err(failure) => without.push((path, failure)),
        }
    }
    if samples.is_empty() {
        let why = without
            .first()
            .map_or(String::new(), |(_, why)| format!(" ({})", first_line(why.reason())));
        return Err(Failure::user(format!(
            "no program below {} says what {name} takes{why}; name a folder of Nicforge's programs with captures, such as examples",
            from.display()
        )));
    }
    let spec = fit::prices(&target);
    let prices = fit::fit(&samples, &spec);
    let (half, others) = fit::halves(&samples);
    let of_half = fit::fit(&half, &spec);
    let rows = [
        ("as it is", agreement(&samples, &spec, &spec)),
        (
            "fitted to half of the programs, judged on the others",
            agreement(&others, &spec, &of_half),
        ),
        ("fitted to all", agreement(&samples, &spec, &prices)),
    ];
    if as_json {
        print_json(name, &samples, &spec, &prices, &rows);
    } else {
        print(&samples, &spec, &prices, &rows, judge);
        for (path, failure) in &without {
            outln!("{} is left out: {}", path.display(), first_line(failure.reason()));
        }
    }
    if let Some(path) = output {
        let written = fit::write(&text, &target, &prices);
        std::fs::write(path, written)
            .map_err(|e| Failure::user(format!("{}: {e}", path.display())))?;
        if !as_json {
            outln!("wrote {}; give it as --target", path.display());
        }
    }
    Ok(())
}

fn print(
    samples: &[Sample],
    spec: &[f64],
    prices: &[f64],
    rows: &[(&str, Agreement)],
    judge: Judge,
) {
    let judged = if judge == Judge::Cores { "counted" } else { "measured" };
    let shown: Vec<Vec<String>> = samples
        .iter()
        .map(|one| {
            let after = one.under(spec, prices);
            let stage = if one.stage.is_empty() { "all" } else { &one.stage };
            let cell = |cycles: f64| format!("{cycles:.0} ({:.2})", cycles / one.judged);
            vec![
                one.program.clone(),
                stage.to_string(),
                format!("{:.0}", one.judged),
                cell(one.modelled),
                cell(after),
            ]
        })
        .collect();
    out::text(&table(&["program", "stage", judged, "as it is", "fitted"], &shown));
    outln!("\nCycles an event; in brackets over what is {judged}.\n");
    let changed: Vec<Vec<String>> = OpCosts::PRICES
        .iter()
        .zip(spec.iter().zip(prices))
        .filter(|(_, (was, is))| (*was - *is).abs() > 0.005)
        .map(|((name, _), (was, is))| {
            vec![name.to_string(), format!("{was:.2}"), format!("{is:.2}")]
        })
        .collect();
    out::text(&table(&["price", "as it is", "fitted"], &changed));
    outln!();
    for (what, found) in rows {
        let within: Vec<String> = WITHIN
            .iter()
            .zip(found.within)
            .map(|(most, count)| format!("{count} within {:.0} %", 100.0 * most))
            .collect();
        outln!(
            "{what}: of {} stages {}; half are off by at most {:.0} %",
            found.samples,
            within.join(", "),
            100.0 * found.median
        );
    }
}

fn print_json(
    name: &str,
    samples: &[Sample],
    spec: &[f64],
    prices: &[f64],
    rows: &[(&str, Agreement)],
) {
    let samples: Vec<Value> = samples
        .iter()
        .map(|one| {
            json!({
                "program": one.program, "stage": one.stage, "judged_cycles": one.judged,
                "spec_cycles": one.modelled, "fitted_cycles": one.under(spec, prices),
            })
        })
        .collect();
    let of = |prices: &[f64]| -> Value {
        let named = OpCosts::PRICES.iter().zip(prices);
        named.map(|((name, _), price)| (name.to_string(), json!(price))).collect()
    };
    let rows: Vec<Value> = rows
        .iter()
        .map(|(what, found)| {
            json!({
                "prices": what, "stages": found.samples, "within_10_percent": found.within[0],
                "within_25_percent": found.within[1], "median_error": found.median,
            })
        })
        .collect();
    outln!(
        "{:#}",
        json!({
            "schema": "nicforge/fit", "version": 1, "target": name, "samples": samples,
            "spec": of(spec), "fitted": of(prices), "agreement": rows,
        })
    );
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
