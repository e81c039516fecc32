//! Every problem in a program, as data.

use nicforge_frontend as frontend;
use nicforge_ir::{Diagnostic, Direction, Span, Type};
use nicforge_planner::cut;
use nicforge_target::Target;
use serde_json::{Value, json};

use crate::by_target::Programs;
use crate::options::Source;
use crate::program::{self, Loaded};
use crate::support::{self, Support};
use crate::{Failure, Runtime};

/// Results of the front end.
#[derive(Default)]
struct Found {
    ok: bool,
    list: Vec<Value>,
    /// What functions with `NF_FIRES` call.
    fires: Vec<Value>,
    /// It is good and has queues.
    queues: bool,
}

/// Diagnostics of a program, and which of `targets` take it, if they are asked for.
///
/// Schema `nicforge/check`; `ok` says whether there are no errors.
///
/// # Errors
/// There is no such file, or a pass failed.
pub fn check(
    source: &Source,
    targets: Option<&[Target]>,
    runtime: &Runtime,
) -> Result<Value, Failure> {
    let Found { ok, list, fires, queues } = diagnostics(source, runtime)?;
    let mut answer =
        json!({ "schema": "nicforge/check", "version": 1, "ok": ok, "diagnostics": list });
    if !fires.is_empty() {
        answer["fires"] = fires.into();
    }
    if queues || ok && targets.is_some() {
        let programs = Programs::load(source, targets.unwrap_or_default(), runtime)?;
        if queues {
            answer["queues"] = carried(&programs.general)?;
        }
        if let Some(targets) = targets {
            let answers = support::of(&programs, targets, runtime)?;
            answer["targets"] = answers.iter().map(Support::json).collect();
        }
    }
    Ok(answer)
}

/// Tells what a function of C outside the subset does with its state, as flow programs ask.
///
/// Schema `nicforge/opaque`; `ok` says whether it could be read.
pub fn opaque(source: &Source, function: &str, runtime: &Runtime) -> Value {
    let options = program::options(source, runtime);
    let (ok, found) = match frontend::opaque::read(&source.program, function, &options) {
        Ok(found) => {
            let line =
                |span: &Span| found.files.get(span.file?).map(|file| span.line_col(&file.text).0);
            let uses = found.uses.iter().map(|one| {
                let (read, written) =
                    (one.read.as_ref().and_then(line), one.written.as_ref().and_then(line));
                json!({ "path": one.path, "read": read, "written": written, "kept": one.kept })
            });
            let statics: Vec<_> = found.statics.iter().filter_map(line).collect();
            (
                true,
                json!({ "diagnostics": [], "uses": uses.collect::<Vec<_>>(), "statics": statics }),
            )
        }
        Err(found) => (false, json!({ "diagnostics": listed(&found.diagnostics, &found.files) })),
    };
    let mut answer = json!({ "schema": "nicforge/opaque", "version": 1, "ok": ok });
    answer
        .as_object_mut()
        .into_iter()
        .for_each(|map| map.extend(found.as_object().cloned().unwrap_or_default()));
    answer
}

/// Diagnostics, each with what plain C has there and the subset lacks, if it is about that.
fn listed(list: &[Diagnostic], files: &frontend::SourceFiles) -> Vec<Value> {
    let one = |diagnostic: &Diagnostic| {
        let mut value = diagnostic.to_json(files);
        if let Some(title) = frontend::diagnostics::codes::outside_subset(diagnostic.code) {
            value["outside_subset"] = title.into();
        }
        value
    };
    list.iter().map(one).collect()
}

/// What each of the program's queues carries before anything is cut: the values that live behind
/// it, and their bytes.
fn carried(loaded: &Loaded) -> Result<Value, Failure> {
    let prepared = cut::trimmed(&loaded.program).map_err(|e| Failure::rendered(e.to_string()))?;
    let queues =
        prepared.events.values().filter(|event| event.direction == Direction::Internal).map(
            |event| {
                let values = event.params.iter().filter(|param| param.ty != Type::Packet);
                let values: Vec<(&str, u32)> =
                    values.map(|param| (param.name.as_str(), prepared.size_of(param.ty))).collect();
                let bytes: u32 = values.iter().map(|(_, bytes)| bytes).sum();
                let values: Vec<Value> = values
                    .into_iter()
                    .map(|(name, bytes)| json!({ "name": name, "bytes": bytes }))
                    .collect();
                json!({ "queue": event.name, "bytes": bytes, "values": values })
            },
        );
    Ok(queues.collect::<Vec<_>>().into())
}

/// Compiles the program.
fn diagnostics(source: &Source, runtime: &Runtime) -> Result<Found, Failure> {
    let path = program::locate(&source.program)?;
    if program::object_of(source).is_some() || path.extension().is_some_and(|e| e == "air") {
        return Ok(match program::load(source, runtime) {
            Ok(_) => Found { ok: true, ..Found::default() },
            Err(failure) => {
                let list = vec![json!({ "severity": "error", "message": failure.reason() })];
                Found { list, ..Found::default() }
            }
        });
    }
    Ok(match frontend::compile(&path, &program::options(source, runtime)) {
        Ok(frontend::Output { program, warnings, fires }) => Found {
            ok: true,
            list: listed(&warnings, &program.files),
            fires: fires
                .iter()
                .map(|f| json!({ "function": f.function, "outputs": f.outputs, "class": f.class }))
                .collect(),
            queues: program.events.values().any(|event| event.direction == Direction::Internal),
        },
        Err(found) => Found { list: listed(&found.diagnostics, &found.files), ..Found::default() },
    })
}
