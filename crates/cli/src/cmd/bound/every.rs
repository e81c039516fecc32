//! `--all`: every program of an object, with its bound or the reason why there is none.

use std::time::{Duration, Instant};

use nicforge_bound::analysis::Report;
use nicforge_bound::search::By;
use nicforge_driver::{Failure, stop};
use nicforge_isa::object::{self, Program};
use serde_json::{Value, json};

use super::load;
use crate::args::Bound;
use crate::text::{si, table};
use crate::{interrupt, out};

/// Most time of one program, if no other is given; with reading and translating it ends in ten.
const TIMEOUT: Duration = Duration::from_secs(7);

/// A program, its result and the seconds it took.
struct Row {
    name: String,
    section: String,
    result: Result<Report, String>,
    seconds: f64,
}

/// Prints a row for every program.
pub fn run(args: &Bound) -> Result<(), Failure> {
    let bytes = load::object(&args.file, &args.define)?.ok_or_else(|| {
        Failure::usage(format!("{}: --all is for BPF objects", args.file.display()))
    })?;
    let parsed = object::parse(&bytes)
        .map_err(|e| Failure::user(format!("{}: {e}", args.file.display())))?;
    if parsed.programs.is_empty() {
        return Err(Failure::user(format!("{}: no program in this object", args.file.display())));
    }
    interrupt::stop_in_order();
    let mut rows = Vec::new();
    for program in &parsed.programs {
        if stop::stopped() {
            break;
        }
        let start = Instant::now();
        let result = one(args, &bytes, program).map_err(|failure| plain(args, &failure));
        let (name, section) = (program.name.clone(), program.section.clone());
        rows.push(Row { name, section, result, seconds: start.elapsed().as_secs_f64() });
    }
    if args.json {
        let rows: Vec<Value> = rows.iter().map(Row::json).collect();
        outln!("{:#}", json!({ "schema": "nicforge/bound-all", "version": 1, "programs": rows }));
    } else {
        let cells: Vec<Vec<String>> = rows.iter().map(Row::cells).collect();
        out::text(&table(&["program", "section", "bit rate", "packet rate", "s", ""], &cells));
    }
    Ok(())
}

fn one(args: &Bound, bytes: &[u8], program: &Program) -> Result<Report, Failure> {
    let subject = load::from_object(args, bytes, Some(&program.name))?;
    let mut options = super::options(args, &subject)?;
    options.timeout = Some(args.timeout.unwrap_or(TIMEOUT));
    let report = super::analyse(args, &subject, &options, None)?;
    super::replay(&subject, &report)?;
    Ok(report)
}

/// The mistake without the file's name, which every row would repeat.
fn plain(args: &Bound, failure: &Failure) -> String {
    let text = failure.reason();
    text.strip_prefix(&format!("{}: ", args.file.display())).unwrap_or(text).to_string()
}

impl Row {
    fn rates(report: &Report) -> (f64, f64, bool) {
        let rate = |by: By| {
            let record = report.records.iter().find(|record| record.by == by);
            record.map_or((0.0, false), |record| (1.0 / record.bound, record.exact))
        };
        let ((bytes, exact), (packets, too)) = (rate(By::BitRate), rate(By::PacketRate));
        (8.0 * bytes, packets, exact && too)
    }

    fn status(report: &Report) -> String {
        match (&report.gave_up, Row::rates(report).2) {
            (Some(reason), _) => format!("at least; {reason}"),
            (None, true) => "exactly".to_string(),
            (None, false) => "at least; the time was over".to_string(),
        }
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.name.clone(), self.section.clone()];
        match &self.result {
            Ok(report) => {
                let (bits, packets, _) = Row::rates(report);
                cells.push(format!("{}bit/s", si(bits)));
                cells.push(format!("{}packet/s", si(packets)));
                cells.push(format!("{:.2}", self.seconds));
                cells.push(Row::status(report));
            }
            Err(reason) => {
                cells.extend(["-".to_string(), "-".to_string()]);
                cells.push(format!("{:.2}", self.seconds));
                cells.push(reason.clone());
            }
        }
        cells
    }

    fn json(&self) -> Value {
        let mut value = json!({
            "program": self.name,
            "section": self.section,
            "seconds": self.seconds,
        });
        match &self.result {
            Ok(report) => {
                let (bits, packets, exact) = Row::rates(report);
                value["status"] = json!(if exact { "exact" } else { "lower_bound" });
                value["bit_rate_bps"] = json!(bits);
                value["packet_rate_pps"] = json!(packets);
                value["reason"] = json!(report.gave_up.as_ref().map(ToString::to_string));
            }
            Err(reason) => {
                value["status"] = json!("refused");
                value["reason"] = json!(reason);
            }
        }
        value
    }
}
