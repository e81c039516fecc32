//! `nicforge targets fit`: prices of a specification by what programs take.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use nicforge_driver::fit::{self, Judge, Sample};
use nicforge_driver::{Failure, Runtime, stop, targets};
use nicforge_target::OpCosts;
use serde_json::{Value, json};

use super::agreement::Agreement;
use super::below;
use crate::text::{first_line, table};
use crate::{interrupt, out, parallel};

/// Agreement of prices with the judge.
fn agreement(samples: &[Sample], spec: &[f64], prices: &[f64]) -> Agreement {
    Agreement::of(samples.iter().map(|one| one.under(spec, prices) / one.judged))
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
    let sampled = |path: &PathBuf| {
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
            "no program below {} says what {name} takes{why}; name a folder of Nicforge's programs \
             with captures, such as examples",
            from.display()
        )));
    }
    let spec = fit::prices(&target);
    let prices = fit::fit(&samples, &spec);
    let (half, others) = fit::halves(&samples);
    let of_half = fit::fit(&half, &spec);
    let mut rows = vec![("as it is", agreement(&samples, &spec, &spec))];
    // One program has no other half.
    if !half.is_empty() {
        let found = agreement(&others, &spec, &of_half);
        rows.push(("fitted to half of the programs, judged on the others", found));
    }
    rows.push(("fitted to all", agreement(&samples, &spec, &prices)));
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
        outln!(
            "{what}: of {} stages {found}; half are off by at most {:.0} %",
            found.compared,
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
                "prices": what, "stages": found.compared, "within_10_percent": found.within[0],
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
