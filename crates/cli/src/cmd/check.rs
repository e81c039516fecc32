//! `nicforge check`: every problem in a program, in one go.

use nicforge_frontend as frontend;
use nicforge_ir::{Direction, Type};
use nicforge_planner::cut;
use serde_json::{Value, json};

use super::matrix;
use crate::args::Check;
use crate::context::{Failure, Runtime};
use crate::program::Loaded;
use crate::{out, program};

/// Prints diagnostics; succeeds if there are no errors.
pub fn run(args: Check) -> Result<(), Failure> {
    let runtime = Runtime::unpack()?;
    if !args.json {
        let loaded = program::load(&args.source, &runtime)?;
        out::notes(&loaded.warnings);
        let p = &loaded.program;
        outln!(
            "{}: {} handler{}, {} table{}, {} port{}",
            loaded.path.display(),
            p.handlers.len(),
            plural(p.handlers.len()),
            p.tables.len(),
            plural(p.tables.len()),
            p.ports,
            plural(p.ports as usize)
        );
        if let Some(name) = &args.target {
            matrix::print(p, &matrix::targets(name)?);
        }
        return Ok(());
    }
    let (ok, list, fires) = diagnostics(&args, &runtime)?;
    let mut answer = json!({ "schema": "nicforge/check", "version": 1, "ok": ok, "diagnostics": list });
    if !fires.is_empty() {
        answer["fires"] = fires.into();
    }
    if ok {
        let loaded = program::load(&args.source, &runtime)?;
        if loaded.program.events.values().any(|event| event.direction == Direction::Internal) {
            answer["queues"] = carried(&loaded)?;
        }
        if let Some(name) = &args.target {
            answer["targets"] = matrix::json(&loaded.program, &matrix::targets(name)?);
        }
    }
    outln!("{answer:#}");
    if ok { Ok(()) } else { Err(Failure::rendered(String::new())) }
}

/// What each of the program's queues carries before anything is cut: the values that live behind it, and their bytes.
fn carried(loaded: &Loaded) -> Result<Value, Failure> {
    let prepared = cut::prepare(&loaded.program).map_err(|e| Failure::rendered(e.to_string()))?;
    let queues =
        prepared.events.values().filter(|event| event.direction == Direction::Internal).map(|event| {
            let values = event.params.iter().filter(|param| param.ty != Type::Packet);
            let values: Vec<(&str, u32)> =
                values.map(|param| (param.name.as_str(), prepared.size_of(param.ty))).collect();
            let bytes: u32 = values.iter().map(|(_, bytes)| bytes).sum();
            let values: Vec<Value> =
                values.into_iter().map(|(name, bytes)| json!({ "name": name, "bytes": bytes })).collect();
            json!({ "queue": event.name, "bytes": bytes, "values": values })
        });
    Ok(queues.collect::<Vec<_>>().into())
}

/// Whether the program is good, everything there is to say about it, and what functions with `NF_FIRES` call.
fn diagnostics(args: &Check, runtime: &Runtime) -> Result<(bool, Vec<Value>, Vec<Value>), Failure> {
    let path = program::locate(&args.source.program)?;
    if path.extension().is_some_and(|e| e == "air") {
        return Ok(match program::load(&args.source, runtime) {
            Ok(_) => (true, Vec::new(), Vec::new()),
            Err(failure) => {
                (false, vec![json!({ "severity": "error", "message": failure.message })], Vec::new())
            }
        });
    }
    let (list, files, fires) = match frontend::compile(&path, &program::options(&args.source, runtime)) {
        Ok(output) => (output.warnings, output.program.files, Some(output.fires)),
        Err(diagnostics) => (diagnostics.diagnostics, diagnostics.files, None),
    };
    let list = list.iter().map(|d| d.to_json(&files)).collect();
    let ok = fires.is_some();
    let found = fires.unwrap_or_default().into_iter();
    let found = found.map(|f| json!({ "function": f.function, "outputs": f.outputs, "class": f.class }));
    Ok((ok, list, found.collect()))
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}
