//! What can be asked, and the answers.

use std::path::PathBuf;

use nicforge_ir::{Program, TableBackend, TableError, json};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json as object};

use crate::control::{EntryError, dump_json, find_table, parse_entry, parse_key};

/// A request. `entry` has the form of an entry in a table file; for `get` and `delete` its key is
/// enough.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Request {
    List,
    Dump {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        table: Option<String>,
    },
    Get {
        table: String,
        entry: Value,
    },
    Set {
        table: String,
        entry: Value,
    },
    Delete {
        table: String,
        entry: Value,
    },
    Metrics,
    /// Replace the program by the one in the file (or folder) `program`, an absolute path.
    Reload {
        program: PathBuf,
        /// Macros for clang, as `NAME=VALUE`.
        #[serde(default)]
        define: Vec<String>,
        /// Further folders for #include, absolute.
        #[serde(default)]
        include: Vec<PathBuf>,
        /// Contents for tables that start empty; else what is beside the program.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tables: Option<PathBuf>,
    },
    Stop,
}

/// A run that can be controlled.
pub trait ControlTarget {
    /// The program and its tables.
    fn parts(&mut self) -> (&Program, &mut dyn TableBackend);
    /// Counters and rates so far.
    fn metrics(&mut self) -> Value;
    /// Replaces the program, for a [`Request::Reload`]; the answer tells what became of each table.
    /// An error leaves the run as it was.
    fn reload(&mut self, _request: Request) -> Result<Value, String> {
        Err("this run cannot take another program; one on interfaces (`nicforge run --dev`) can"
            .to_string())
    }
    /// Asks the run to end; it may take a moment.
    fn stop(&mut self);
}

/// Answers a request; the error is a message for people.
pub fn answer(target: &mut dyn ControlTarget, request: Request) -> Result<Value, String> {
    let (program, tables) = match request {
        Request::Metrics => return Ok(target.metrics()),
        Request::Stop => {
            target.stop();
            return Ok(object!(true));
        }
        Request::Reload { .. } => return target.reload(request),
        _ => target.parts(),
    };
    let table_error = |error: TableError| error.to_string();
    let entry_error = |error: EntryError| error.message;
    Ok(match request {
        Request::List | Request::Metrics | Request::Reload { .. } | Request::Stop => list(program),
        Request::Dump { table: None } => dump_json(program, tables).map_err(table_error)?,
        Request::Dump { table: Some(name) } => {
            let table = find_table(program, &name)?;
            json::entries(program, table, &tables.dump(table).map_err(table_error)?)
        }
        Request::Get { table, entry } => {
            let table = find_table(program, &table)?;
            let (key, matching) = parse_key(program, table, &entry).map_err(entry_error)?;
            let found = tables.get(table, &key, &matching).map_err(table_error)?;
            found.map_or(Value::Null, |entry| json::entries(program, table, &[entry])[0].take())
        }
        Request::Set { table, entry } => {
            let table = find_table(program, &table)?;
            let entry = parse_entry(program, table, &entry).map_err(entry_error)?;
            tables.set(table, &entry).map_err(table_error)?;
            object!(true)
        }
        Request::Delete { table, entry } => {
            let table = find_table(program, &table)?;
            let (key, matching) = parse_key(program, table, &entry).map_err(entry_error)?;
            object!(tables.delete(table, &key, &matching).map_err(table_error)?)
        }
    })
}

fn list(program: &Program) -> Value {
    let row = |table: &nicforge_ir::Table| {
        object!({
            "table": table.name,
            "kind": table.kind.name(),
            "key": program.type_name(table.key),
            "value": program.type_name(table.value),
            "capacity": table.capacity,
            "buf": table.buf,
        })
    };
    Value::Array(program.tables.values().map(row).collect())
}
