//! NFP programs of the CoNEXT'21 artifact: `NAME.bpf.o` beside the listing `NAME.asm` that its
//! driver made of it. Each listing is bounded, and so is what our translation makes of the object.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nicforge_bound::analysis;
use nicforge_driver::{Failure, stop};
use nicforge_isa::nfp::{Insn, Op, Target};
use serde_json::{Value, json};

use super::bound::load::{self, Subject};
use super::{below, validate_nfp};
use crate::args::Validate;
use crate::out;
use crate::text::table;

struct Row {
    program: String,
    /// Instructions of the listing, and how many have no equal in the same order on the other side.
    instructions: usize,
    different: usize,
    /// Everything is equal, also where branches go.
    equal: bool,
    listing: Bounded,
    object: Bounded,
}

struct Bounded {
    cycles: f64,
    bits_per_second: f64,
    seconds: f64,
}

/// True if a file is a listing that has an object.
///
/// # Errors
/// It cannot be known whether there is one.
pub fn has_object(path: &Path) -> std::io::Result<bool> {
    Ok(below::ends(path, "asm") && path.with_extension("bpf.o").try_exists()?)
}

/// Prints a row for each.
///
/// # Errors
/// A listing or an object that cannot be read, translated or bounded.
pub fn run(from: &Path, listings: &[PathBuf], args: &Validate) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for listing in listings.iter().take_while(|_| !stop::stopped()) {
        let name = listing.strip_prefix(from).unwrap_or(listing).with_extension("");
        rows.push(compare(name.display().to_string(), listing)?);
    }
    print(&rows, args);
    Ok(())
}

fn compare(program: String, path: &Path) -> Result<Row, Failure> {
    let fail = |path: &Path, e: std::io::Error| Failure::user(format!("{}: {e}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| fail(path, e))?;
    let other = path.with_extension("bpf.o");
    let bytes = std::fs::read(&other).map_err(|e| fail(&other, e))?;
    let listing = load::listed(path, &text)?;
    let object = load::object_plain(&other, &bytes)?;
    let (theirs, ours) = (listing.listing.as_deref(), object.listing.as_deref());
    let (theirs, ours) = (theirs.unwrap_or_default(), ours.unwrap_or_default());
    Ok(Row {
        program,
        instructions: theirs.len(),
        different: theirs.len().max(ours.len()) - in_common(&shapes(theirs), &shapes(ours)),
        equal: theirs == ours,
        listing: bounded(&listing)?,
        object: bounded(&object)?,
    })
}

/// Instructions without where branches go, which what is inserted before changes.
fn shapes(insns: &[Insn]) -> Vec<Insn> {
    let mut shapes = insns.to_vec();
    for insn in &mut shapes {
        if let Op::Branch { target, .. } | Op::BranchBit { target, .. } = &mut insn.op {
            *target = Target::Exit;
        }
    }
    shapes
}

/// Length of the longest common subsequence.
fn in_common(a: &[Insn], b: &[Insn]) -> usize {
    let mut before = vec![0; b.len() + 1];
    for x in a {
        let mut now = vec![0; b.len() + 1];
        for (at, y) in b.iter().enumerate() {
            now[at + 1] = if x == y { before[at] + 1 } else { now[at].max(before[at + 1]) };
        }
        before = now;
    }
    before.last().copied().unwrap_or_default()
}

fn bounded(subject: &Subject) -> Result<Bounded, Failure> {
    let (graph, stop) = (subject.graph.clone(), Arc::new(AtomicBool::new(false)));
    let options = validate_nfp::options(subject.machine);
    let report = analysis::analyse(graph, &options, stop, &mut |_, _| {})
        .map_err(|e| Failure::user(e.to_string()))?;
    let path = report.records[0].slowest.as_ref().filter(|_| report.records[0].exact);
    let path = path.ok_or_else(|| Failure::user("no exact bound".to_string()))?;
    subject.replay(&path.witness).map_err(|e| Failure::user(format!("internal error: {e}")))?;
    Ok(Bounded {
        cycles: analysis::cycles(path.witness.work).0 + subject.machine.base_cycles,
        bits_per_second: 8.0 * path.size as f64 / path.seconds,
        seconds: report.seconds,
    })
}

fn error(row: &Row) -> f64 {
    row.object.cycles / row.listing.cycles - 1.0
}

fn print(rows: &[Row], args: &Validate) {
    if args.json {
        let one = |row: &Row| {
            let of = |bounded: &Bounded| {
                json!({ "cycles": bounded.cycles, "bit_rate_bps": bounded.bits_per_second,
                    "seconds": bounded.seconds })
            };
            json!({ "program": row.program, "instructions": row.instructions,
                "different": row.different, "equal": row.equal, "listing": of(&row.listing),
                "object": of(&row.object), "error": error(row) })
        };
        let list: Vec<Value> = rows.iter().map(one).collect();
        let (schema, suite) = ("nicforge/validate", "originals-nfp");
        outln!("{:#}", json!({ "schema": schema, "version": 1, "suite": suite, "rows": list }));
        return;
    }
    let head =
        ["program", "instructions", "different", "cycles", "of the object", "error", "Gbit/s"];
    let cells = |row: &Row| {
        vec![
            row.program.clone(),
            row.instructions.to_string(),
            row.different.to_string(),
            row.listing.cycles.to_string(),
            row.object.cycles.to_string(),
            format!("{:+.2} %", 100.0 * error(row)),
            format!("{:.3}", row.listing.bits_per_second / 1e9),
        ]
    };
    let list: Vec<Vec<String>> = rows.iter().map(cells).collect();
    if args.markdown {
        outln!("| {} |\n|{}", head.join(" | "), "---|".repeat(head.len()));
        list.iter().for_each(|row| outln!("| {} |", row.join(" | ")));
    } else {
        out::text(&table(&head, &list));
    }
    let equal = rows.iter().filter(|row| row.equal).count();
    let mean = rows.iter().map(|row| error(row).abs()).sum::<f64>() / rows.len().max(1) as f64;
    let seconds: f64 = rows.iter().map(|row| row.object.seconds).sum();
    outln!(
        "{equal} of {} listings equal; cycles differ by {:.2} % on average; objects bounded in {seconds:.2} s",
        rows.len(),
        100.0 * mean
    );
}
