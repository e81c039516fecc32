//! `nicforge validate lift`: the XDP programs of all objects below a folder. Whether they lift, do in
//! the interpreter what the kernel makes of the original, and which targets take them.

use std::path::Path;
use std::time::Instant;

use nicforge_driver::compare::Agreement;
use nicforge_driver::verify::kernel;
use nicforge_driver::{Failure, Runtime, stop};
use nicforge_target::{Target, support};
use serde_json::{Value, json};

use super::{below, lifted};
use crate::args::{self, Validate};
use crate::out;
use crate::text::{first_line, table};

/// A program's row.
struct Row {
    program: String,
    lifted: Result<(), String>,
    /// Milliseconds of lifting.
    ms: u128,
    /// Basic blocks that packets come through, and all of them, where that is known.
    blocks: Option<(usize, usize)>,
    /// The reason, where the kernel did not run it.
    kernel: Option<Result<Agreement, String>>,
    /// Comparison of what was compiled again, where that is asked for.
    recompiled: Option<Result<Agreement, String>>,
    targets: Vec<String>,
}

/// Prints what becomes of the programs below a folder.
///
/// # Errors
/// No program there, or one that does something else than in the kernel.
pub fn run(from: &Path, args: &Validate) -> Result<(), Failure> {
    let objects = below::files(from, |path| Ok(below::ends(path, "o")))?;
    let targets = below::targets(&args.targets)?;
    let runtime = args.recompile.then(Runtime::unpack).transpose()?;
    let (mut rows, mut programs) = (Vec::new(), Vec::new());
    for path in &objects {
        let name = path.strip_prefix(from).unwrap_or(path).display().to_string();
        let bytes =
            std::fs::read(path).map_err(|e| Failure::user(format!("{}: {e}", path.display())))?;
        let found = match nicforge_lift::programs(&bytes) {
            Ok(found) => found,
            // Objects of other machines lie beside those of BPF.
            Err(_) if !is_bpf(&bytes) => continue,
            Err(error) => {
                rows.push(Row::refused(name, error.to_string(), 0));
                continue;
            }
        };
        let taken = found.into_iter().filter(|(_, section)| nicforge_lift::is_taken(section));
        programs.extend(taken.map(|(function, _)| (format!("{name}:{function}"), path, function)));
    }
    let all = programs.len();
    for (at, (name, path, function)) in programs.into_iter().enumerate() {
        if stop::stopped() {
            break;
        }
        rows.push(of_program(name, path, function, (&targets, runtime.as_ref())));
        out::progress(at + 1, all);
    }
    if rows.is_empty() {
        let message = format!("no XDP or tc program in the objects below {}", from.display());
        return Err(Failure::user(message));
    }
    print(&rows, targets.len(), args);
    match rows.iter().filter(|row| row.disagrees()).count() {
        0 => Ok(()),
        count => Err(Failure::user(format!("{count} programs do not do what the kernel says"))),
    }
}

/// True if a file says that it is an ELF object of BPF (EM_BPF, 247).
fn is_bpf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF") && bytes.get(18..20) == Some(&[247, 0])
}

fn of_program(
    name: String,
    path: &Path,
    function: String,
    (targets, runtime): (&[Target], Option<&Runtime>),
) -> Row {
    let start = Instant::now();
    let subject = lifted::Subject::read(path, Some(function.clone()), &args::Loader::default());
    let ms = start.elapsed().as_millis();
    let subject = match subject {
        Ok(subject) => subject,
        Err(error) => {
            let reason = first_line(error.reason());
            let place = format!("{}: ", path.display());
            let reason = reason.strip_prefix(&place).map(str::to_string).unwrap_or(reason);
            return Row::refused(name, reason, ms);
        }
    };
    let source = args::Source {
        program: path.to_path_buf(),
        function: Some(function),
        ..args::Source::default()
    };
    let (events, wanted) = subject.events(&source);
    let because = |error: Failure| first_line(error.reason());
    let made = subject.entries(&events, wanted).map_err(because);
    let kernel = match subject.not_alone() {
        Some(reason) => Err(reason),
        None => made
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|entries| subject.judge(&events, entries).map_err(because)),
    };
    let program = subject.program();
    let covered = subject.covered(&source, &events, made.as_deref().unwrap_or_default());
    let covered = covered.ok().and_then(Result::ok).map(|(coverage, _)| coverage);
    let blocks = covered.map(|of| (of.reached.len(), of.reached.len() + of.missed.len()));
    let recompiled = runtime.map(|runtime| {
        let entries = made.as_deref().unwrap_or_default();
        let compared = kernel::beside(program, program, (&events, entries), runtime);
        compared.map(|(agreement, _)| agreement).map_err(because)
    });
    let takes = |target: &&Target| support::missing(program, target).is_empty();
    let targets = targets.iter().filter(takes).map(|target| target.name.clone()).collect();
    Row { program: name, lifted: Ok(()), ms, blocks, kernel: Some(kernel), recompiled, targets }
}

impl Row {
    fn refused(program: String, reason: String, ms: u128) -> Row {
        let (blocks, kernel, recompiled, targets) = (None, None, None, Vec::new());
        Row { program, lifted: Err(reason), ms, blocks, kernel, recompiled, targets }
    }

    fn agrees(&self) -> bool {
        passes(self.kernel.as_ref())
    }

    /// The original or what was compiled again is not as the lifted program.
    fn disagrees(&self) -> bool {
        differs(self.kernel.as_ref()) || differs(self.recompiled.as_ref())
    }

    fn json(&self) -> Value {
        json!({
            "program": self.program, "lifted": self.lifted.is_ok(),
            "reason": self.lifted.as_ref().err(), "ms": self.ms as u64,
            "blocks_reached": self.blocks.map(|(reached, _)| reached),
            "blocks": self.blocks.map(|(_, all)| all),
            "agrees": agreement(self.kernel.as_ref()).map(Agreement::passes),
            "kernel": text(self.kernel.as_ref()),
            "recompiled_agrees": agreement(self.recompiled.as_ref()).map(Agreement::passes),
            "recompiled": self.recompiled.as_ref().map(|compared| text(Some(compared))),
            "targets": self.targets,
        })
    }
}

type Compared<'a> = Option<&'a Result<Agreement, String>>;

fn agreement(compared: Compared<'_>) -> Option<&Agreement> {
    compared?.as_ref().ok()
}

fn passes(compared: Compared) -> bool {
    agreement(compared).is_some_and(Agreement::passes)
}

fn differs(compared: Compared) -> bool {
    agreement(compared).is_some_and(|agreement| !agreement.complete())
}

fn text(compared: Compared) -> String {
    let agreement = match compared {
        None => return "-".to_string(),
        Some(Err(reason)) => return reason.clone(),
        Some(Ok(agreement)) => agreement,
    };
    match agreement.differences.first() {
        Some(difference) => format!("differs: {difference}"),
        None => format!(
            "{} of {} events, {} of {} maps",
            agreement.matching, agreement.events, agreement.matching_tables, agreement.tables
        ),
    }
}

fn print(rows: &[Row], targets: usize, args: &Validate) {
    if args.json {
        let list: Vec<Value> = rows.iter().map(Row::json).collect();
        let suite = "lift";
        outln!(
            "{:#}",
            json!({ "schema": "nicforge/validate", "version": 1, "suite": suite, "rows": list })
        );
        return;
    }
    let mut head =
        vec!["program", "lifted", "ms", "blocks", "targets", "as in the kernel, or why not"];
    head.extend(args.recompile.then_some("compiled again"));
    let shown: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let mut cells = vec![
                row.program.clone(),
                if row.lifted.is_ok() { "yes" } else { "no" }.to_string(),
                row.ms.to_string(),
                row.blocks.map_or("-".to_string(), |(reached, all)| format!("{reached} of {all}")),
                format!("{} of {targets}", row.targets.len()),
                row.lifted.as_ref().map_or_else(String::clone, |()| text(row.kernel.as_ref())),
            ];
            cells.extend(args.recompile.then(|| text(row.recompiled.as_ref())));
            cells
        })
        .collect();
    if args.markdown {
        outln!("| {} |\n|{}", head.join(" | "), "---|".repeat(head.len()));
        shown.iter().for_each(|row| outln!("| {} |", row.join(" | ")));
    } else {
        out::text(&table(&head, &shown));
    }
    let count = |like: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| like(row)).count();
    outln!(
        "{} of {} lifted, {} as in the kernel, {} otherwise, {} not run there",
        count(&|row| row.lifted.is_ok()),
        rows.len(),
        count(&Row::agrees),
        count(&|row| differs(row.kernel.as_ref())),
        count(&|row| row.lifted.is_ok() && !row.agrees() && !differs(row.kernel.as_ref())),
    );
    if args.recompile {
        let rows: Vec<Compared> = rows.iter().map(|row| row.recompiled.as_ref()).collect();
        let count = |like: &dyn Fn(Compared) -> bool| rows.iter().filter(|row| like(**row)).count();
        let (alike, otherwise) = (count(&passes), count(&differs));
        let not = count(&|row| row.is_some()) - alike - otherwise;
        outln!("compiled again: {alike} alike, {otherwise} otherwise, {not} not run");
    }
}
