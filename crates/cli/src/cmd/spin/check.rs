//! `nicforge check` of sPIN handlers: the compiler and headers of `spin build`, messages at lines
//! of the user's files.

use nicforge_driver::color::color;
use nicforge_driver::{Failure, Runtime, codes, targets};
use nicforge_frontend::{SourceFiles, render_all};
use nicforge_ir::{Diagnostic, Severity, SourceFile, Span};
use nicforge_run::spin::{self, ImageOptions, Place, Said};
use serde_json::json;

use super::build::contents;
use super::handlers::{Handlers, MACHINES};
use super::machine::{self, Chosen};
use crate::args::Check;
use crate::out;

/// Results of handlers on one target.
struct Checked {
    target: String,
    /// What an image holds, or that there is none.
    image: Result<String, String>,
    said: Vec<Said>,
}

/// Compiles and tells.
pub fn run(handlers: &Handlers, args: &Check) -> Result<(), Failure> {
    let source = &args.source;
    let mut flags: Vec<String> = source.define.iter().map(|d| format!("-D{d}")).collect();
    flags.extend(source.include.iter().map(|dir| format!("-I{}", dir.display())));
    let runtime = Runtime::whole()?;
    let on = |target: &str| one(handlers, target, &flags, &runtime);
    let checked = match &args.target {
        Some(name) => {
            let targets = targets::named(name)?;
            targets.iter().map(|target| on(&target.name)).collect::<Result<Vec<_>, _>>()?
        }
        None => vec![guessed(handlers.machine(), on)?],
    };
    let ok = match args.target.as_deref() {
        Some("all") => checked.iter().any(|checked| checked.image.is_ok()),
        _ => checked.iter().all(|checked| checked.image.is_ok()),
    };
    // What one machine's headers lack is no mistake if the other's have it.
    let told = |checked: &&Checked| !ok || checked.image.is_ok();
    let (diagnostics, files) = diagnostics(checked.iter().filter(told));
    if args.json {
        let targets = checked.iter().map(|checked| {
            json!({
                "target": checked.target,
                "runs": checked.image.is_ok(),
                "reason": checked.image.as_ref().err(),
            })
        });
        let list: Vec<_> = diagnostics.iter().map(|found| found.to_json(&files)).collect();
        let answer = json!({
            "schema": "nicforge/check", "version": 1, "ok": ok, "kind": "spin",
            "diagnostics": list, "targets": targets.collect::<Vec<_>>(),
        });
        outln!("{answer:#}");
        return if ok { Ok(()) } else { Err(Failure::rendered(String::new())) };
    }
    let rendered = render_all(&diagnostics, &files, color());
    if !ok && diagnostics.iter().any(|found| found.severity == Severity::Error) {
        return Err(Failure::rendered(rendered));
    }
    out::notes(&rendered);
    let path = handlers.path.display();
    let mut refused = Vec::new();
    for Checked { target, image, .. } in &checked {
        match image {
            Ok(contents) => outln!("{path}: sPIN handlers for {target}: {contents}"),
            Err(reason) if ok => outln!("{path}: not on {target}: {reason}"),
            Err(reason) => refused.push(format!("{path}: not on {target}: {reason}")),
        }
    }
    if ok { Ok(()) } else { Err(Failure::user(refused.join("\n"))) }
}

/// Compiles for the machine that the headers' names speak for, then for the other one.
fn guessed(first: &str, on: impl Fn(&str) -> Result<Checked, Failure>) -> Result<Checked, Failure> {
    let checked = on(first)?;
    if checked.image.is_ok() {
        return Ok(checked);
    }
    for other in MACHINES.into_iter().filter(|name| *name != first) {
        let other = on(other)?;
        if other.image.is_ok() {
            return Ok(other);
        }
    }
    Ok(checked)
}

fn one(
    handlers: &Handlers,
    target: &str,
    flags: &[String],
    runtime: &Runtime,
) -> Result<Checked, Failure> {
    let target = target.to_string();
    let Chosen { layout, .. } = match machine::find(&target) {
        Ok(chosen) => chosen,
        Err(failure) => {
            let image = Err(failure.reason().to_string());
            return Ok(Checked { target, image, said: Vec::new() });
        }
    };
    let options =
        ImageOptions { sources: vec![handlers.path.clone()], layout, flags: flags.to_vec() };
    let (image, said) = match spin::check(runtime.path(), &options) {
        Ok((Some(built), said)) => (Ok(contents(&built.image)), said),
        Ok((None, said)) => {
            let first = said.iter().find(|said| said.error);
            let first = first.map_or(String::new(), |said| format!(": {}", said.message));
            (Err(format!("they do not compile{first}")), said)
        }
        Err(e) if e.fault() == nicforge_run::Fault::User => {
            let said = vec![Said { error: true, message: e.to_string(), place: None }];
            (Err("there is no image".to_string()), said)
        }
        Err(e) => return Err(Failure::of(e.fault(), e)),
    };
    Ok(Checked { target, image, said })
}

/// Diagnostics on source lines; once, where several targets say the same.
fn diagnostics<'a>(checked: impl Iterator<Item = &'a Checked>) -> (Vec<Diagnostic>, SourceFiles) {
    let mut files = SourceFiles::default();
    let mut list: Vec<Diagnostic> = Vec::new();
    for said in checked.flat_map(|checked| &checked.said) {
        let severity = if said.error { Severity::Error } else { Severity::Warning };
        let span = said.place.as_ref().and_then(|place| span(&mut files, place));
        let message = match &said.place {
            Some(Place { file, line, .. }) if span.is_none() => {
                format!("{file}:{line}: {}", said.message)
            }
            _ => said.message.clone(),
        };
        let found = Diagnostic::error(codes::SPIN.id, span.unwrap_or_default(), message);
        let found = Diagnostic { severity, ..found };
        if !list.contains(&found) {
            list.push(found);
        }
    }
    (list, files)
}

/// A place as bytes of its file, which is read at its first message; `None` if it cannot be read.
fn span(files: &mut SourceFiles, place: &Place) -> Option<Span> {
    let known = files.iter().find(|(_, file)| file.path == place.file).map(|(id, _)| id);
    let id = match known {
        Some(id) => id,
        None => {
            let text = std::fs::read_to_string(&place.file).ok()?;
            files.push(SourceFile { path: place.file.clone(), text })
        }
    };
    let (start, end) = word(&files[id].text, place.line, place.column);
    Some(Span::new(id, start, end))
}

/// First byte, and the one behind the last, of the word at a place; of the line without a column.
fn word(text: &str, line: u32, column: u32) -> (u32, u32) {
    let lines = text.split_inclusive('\n');
    let before: usize = lines.take(line.saturating_sub(1) as usize).map(str::len).sum();
    let rest = text[before..].lines().next().unwrap_or_default();
    if column == 0 {
        let start = before + rest.len() - rest.trim_start().len();
        return (start as u32, (before + rest.trim_end().len()) as u32);
    }
    // Columns count bytes.
    let at = (column as usize - 1).min(rest.len());
    let at = (0..=at).rev().find(|at| rest.is_char_boundary(*at)).unwrap_or_default();
    // An operator belongs to the name behind it.
    let operator: usize =
        rest[at..].chars().take_while(|c| "-.>&*!".contains(*c)).map(char::len_utf8).sum();
    let name = rest[at + operator..].chars().take_while(|c| c.is_alphanumeric() || *c == '_');
    let length = (operator + name.map(char::len_utf8).sum::<usize>()).max(1);
    ((before + at) as u32, (before + at + length) as u32)
}
