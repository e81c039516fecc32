//! Prints what generated code costs against hand-written code: `nicforge-bench [--json]
//! [PROGRAM]...`.
//!
//! Exit status: 0 the gate holds, 1 it does not or the programs differ, 2 wrong usage, 3 not root.

use std::process::ExitCode;

use nicforge_bench::case::Case;
use nicforge_bench::report::{GATE, Row, table, to_json};
use nicforge_bench::{Failure, PROGRAMS, agree, count, time};

fn main() -> ExitCode {
    let mut as_json = false;
    let mut chosen = Vec::new();
    for argument in std::env::args().skip(1) {
        match PROGRAMS.iter().find(|name| **name == argument) {
            Some(name) => chosen.push(*name),
            None if argument == "--json" => as_json = true,
            None => {
                eprintln!(
                    "error: `{argument}` is neither `--json` nor one of the programs: {}",
                    PROGRAMS.join(", ")
                );
                return ExitCode::from(2);
            }
        }
    }
    // SAFETY: `geteuid` has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("error: loading BPF programs needs root; run `make bench`, or this with sudo");
        return ExitCode::from(3);
    }
    let names = if chosen.is_empty() { PROGRAMS.to_vec() } else { chosen };
    let rows: Result<Vec<Row>, Failure> = names.into_iter().map(measure).collect();
    let rows = match rows {
        Ok(rows) => rows,
        Err(failure) => {
            eprintln!("error: {failure}");
            return ExitCode::from(1);
        }
    };
    if as_json {
        println!("{:#}", to_json(&rows));
    } else {
        print!("{}", table(&rows));
    }
    let broken = GATE.broken(&rows);
    for sentence in &broken {
        eprintln!("error: {sentence}");
    }
    ExitCode::from(u8::from(!broken.is_empty()))
}

fn measure(name: &'static str) -> Result<Row, Failure> {
    let case = Case::new(name)?;
    agree::agree(&case)?;
    let counts = count::count(&case)?;
    let times = Some(time::time(&case)?);
    Ok(Row { name, counts, times })
}
