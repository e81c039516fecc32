//! `nicforge validate`: published measurements beside our figures, row by row.

use nicforge_driver::Failure;
use serde_json::json;

use super::rows::Row;
use super::{
    originals, validate_alkali, validate_balance, validate_flow, validate_fpga, validate_lift,
    validate_nfp, validate_predict, validate_spin,
};
use crate::args::{Suite, Validate};
use crate::cmd::spin::datapath;
use crate::out;
use crate::text::table;

/// Prints a suite.
pub fn run(args: Validate) -> Result<(), Failure> {
    if args.remake {
        return match args.suite {
            Suite::Fpga => validate_fpga::remake(&args.only, args.limit),
            Suite::SpinRtl => datapath::remake(&args.only, args.limit),
            _ => Err(Failure::usage("--remake is for the suites fpga and spin-rtl")),
        };
    }
    if let (Suite::Originals, Some(from)) = (args.suite, &args.from) {
        return originals::run(from, &args);
    }
    if let (Suite::Lift, Some(from)) = (args.suite, &args.from) {
        return validate_lift::run(from, &args);
    }
    if let (Suite::Predict, Some(from)) = (args.suite, &args.from) {
        return validate_predict::run(from, &args);
    }
    let rows = match args.suite {
        Suite::Nfp => validate_nfp::rows()?,
        Suite::Alkali => validate_alkali::rows()?,
        Suite::Spin => validate_spin::rows()?,
        Suite::Balance => validate_balance::rows()?,
        Suite::Flow => validate_flow::rows()?,
        Suite::Fpga => validate_fpga::rows()?,
        Suite::SpinRtl => datapath::rows()?,
        Suite::Originals | Suite::Lift | Suite::Predict => {
            return Err(Failure::usage("name the folder of programs with --from"));
        }
    };
    let suite = match args.suite {
        Suite::Nfp => "nfp",
        Suite::Alkali => "alkali",
        Suite::Spin => "spin",
        Suite::Balance => "balance",
        Suite::Flow => "flow",
        Suite::Fpga => "fpga",
        Suite::SpinRtl => "spin-rtl",
        Suite::Originals => "originals",
        Suite::Lift => "lift",
        Suite::Predict => "predict",
    };
    if args.json {
        let list: Vec<_> = rows
            .iter()
            .map(|row| {
                json!({
                    "source": row.source, "case": row.case, "metric": row.metric,
                    "published": row.published, "ours": row.ours, "error": row.error(),
                    "calibrated": row.calibrated,
                })
            })
            .collect();
        outln!(
            "{:#}",
            json!({ "schema": "nicforge/validate", "version": 1, "suite": suite, "rows": list })
        );
        return Ok(());
    }
    let show = |row: &Row| {
        let (published, error) = match row.published.is_nan() {
            true => ("-".to_string(), "-".to_string()),
            false => (number(row.published), format!("{:+.1} %", 100.0 * row.error())),
        };
        vec![
            row.source.to_string(),
            row.case.clone(),
            row.metric.to_string(),
            published,
            number(row.ours),
            error,
            if row.calibrated { "yes" } else { "" }.to_string(),
        ]
    };
    let shown: Vec<Vec<String>> = rows.iter().map(show).collect();
    if args.markdown {
        outln!(
            "| case | metric | published | ours | error | calibrated |\n|---|---|---|---|---|---|"
        );
        for row in &shown {
            outln!("| {} |", row[1..].join(" | "));
        }
        return Ok(());
    }
    out::text(&table(
        &["source", "case", "metric", "published", "ours", "error", "calibrated"],
        &shown,
    ));
    if args.suite == Suite::Fpga {
        out::text(&validate_fpga::summary(&rows));
    }
    Ok(())
}

fn number(value: f64) -> String {
    if value.is_nan() {
        return "-".to_string();
    }
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}
