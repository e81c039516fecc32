//! `nicforge reload`: another program in the place of one that runs on interfaces.

use std::path::{Path, PathBuf};

use nicforge_driver::Failure;
use nicforge_run::socket::{Request, SocketError, find_run, request};
use serde_json::{Value, json};

use crate::args::Reload;
use crate::{out, text};

/// Asks the run to compile and take the program; prints what became of each table.
pub fn run(args: Reload) -> Result<(), Failure> {
    let run = find_run(args.run).map_err(|e| Failure::of(e.fault(), e))?;
    // The run has a working directory of its own.
    let absolute = |path: &Path| {
        path.canonicalize().map_err(|e| Failure::user(format!("{}: {e}", path.display())))
    };
    let question = Request::Reload {
        program: absolute(&args.source.program)?,
        define: args.source.define.clone(),
        include: args
            .source
            .include
            .iter()
            .map(|dir| absolute(dir))
            .collect::<Result<Vec<PathBuf>, _>>()?,
        tables: args.tables.as_deref().map(absolute).transpose()?,
    };
    let answer = request(&run.path, &question).map_err(|e| match e {
        SocketError::Answer(message) => Failure::user(message),
        other => Failure::of(other.fault(), other),
    })?;
    if args.json {
        outln!("{:#}", json!({ "schema": "nicforge/reload", "version": 1, "result": answer }));
        return Ok(());
    }
    outln!("process {} runs {} now", run.pid, answer["program"].as_str().unwrap_or("the program"));
    out::text(&tables(&answer));
    Ok(())
}

/// Fates of all tables, for people.
pub fn tables(answer: &Value) -> String {
    let row = |table: &Value| {
        let what = match (table["change"].as_str(), &table["entries"]) {
            (Some("kept"), _) => "kept".to_string(),
            (Some("copied"), n) => {
                format!("{n} entries copied; its capacity or representation changed")
            }
            (Some("new"), _) => "new".to_string(),
            (Some("changed"), _) => "starts anew: its kind, key or value changed".to_string(),
            (Some("removed"), _) => "removed with its entries".to_string(),
            _ => String::new(),
        };
        vec![table["table"].as_str().unwrap_or_default().to_string(), what]
    };
    let rows: Vec<Vec<String>> =
        answer["tables"].as_array().into_iter().flatten().map(row).collect();
    if rows.is_empty() { String::new() } else { text::table(&["table", "entries"], &rows) }
}
