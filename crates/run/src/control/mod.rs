//! Table contents between people and programs: files that fill tables before a run, and dumps of
//! what is in them.
//!
//! ```toml
//! [[hosts]]                 # the table's name; one such part per entry
//! key = "02:00:00:00:00:01" # in the form of the key's type; structs as { member = value }
//! value = 3
//!
//! [[routes]]                # lpm: a prefix in the key, or as `prefix = 8`
//! key = "10.0.0.0/8"
//! value = { port = 1 }
//!
//! [[acl]]                   # ternary: bits that are 1 in the mask must match; without one, all must
//! key = 80
//! mask = 0xffff
//! priority = 10
//! value = 1
//! ```
//!
//! A JSON file has the same shape, `{ "hosts": [ { "key": ..., "value": ... } ] }`, which is also
//! what a dump has, so a dump can be loaded again. Byte strings of tables that have them are `buf`,
//! in hex.

mod entry;
mod file;

use std::path::{Path, PathBuf};

use nicforge_ir::{Entry, Program, TableBackend, TableError, TableId, json};
use serde_json::{Map, Value};

pub use entry::{EntryError, find_table, parse_entry, parse_key};
use file::Place;

use crate::fault::Fault;

/// Mistakes in a table file.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{place}: {message}")]
    Syntax { place: String, message: String },
    #[error("{place}: {message}")]
    Table { place: String, message: String },
    #[error("{place}: table `{table}`: {message}")]
    Entry { place: String, table: String, message: String },
    #[error(transparent)]
    Backend(#[from] TableError),
}

impl ControlError {
    /// Table files come from the user; so do entries a table has no room for.
    pub fn fault(&self) -> Fault {
        Fault::User
    }
}

/// Reads a table file: JSON if its name ends in `.json`, else TOML. The entries come in the file's
/// order per table.
pub fn load_tables(program: &Program, path: &Path) -> Result<Vec<(TableId, Entry)>, ControlError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ControlError::Io { path: path.into(), source })?;
    parse_tables(program, path, &text)
}

/// Reads a table file's text; `path` names it in errors and decides the format.
pub fn parse_tables(
    program: &Program,
    path: &Path,
    text: &str,
) -> Result<Vec<(TableId, Entry)>, ControlError> {
    let document = if path.extension().is_some_and(|extension| extension == "json") {
        file::json(path, text)?
    } else {
        file::toml(path, text)?
    };
    let mut entries = Vec::new();
    let mut known = std::collections::BTreeMap::new();
    for (name, place, rows) in document {
        let table = find_table(program, &name)
            .map_err(|message| ControlError::Table { place: place.to_string(), message })?;
        for (place, row) in rows {
            let problem = |place: &Place, message: String| ControlError::Entry {
                place: place.to_string(),
                table: name.clone(),
                message,
            };
            let row = row.map_err(|message| problem(&place, message))?;
            let entry = parse_entry(program, table, &row)
                .map_err(|error| problem(place.member(error.member), error.message))?;
            let same = (table, entry.key.clone(), entry.matching.clone());
            if let Some(before) = known.insert(same, place.clone()) {
                let message = format!("the same key as at {before}; an entry is either of them");
                return Err(problem(&place, message));
            }
            entries.push((table, entry));
        }
    }
    Ok(entries)
}

/// Puts entries into the tables of a program.
pub fn apply(
    backend: &mut dyn TableBackend,
    entries: &[(TableId, Entry)],
) -> Result<(), TableError> {
    entries.iter().try_for_each(|(table, entry)| backend.set(*table, entry))
}

/// Everything in all tables, as a JSON table file has it; empty tables are there with no entries.
pub fn dump_json(program: &Program, backend: &dyn TableBackend) -> Result<Value, TableError> {
    let mut tables = Map::new();
    for (id, table) in program.tables.iter() {
        tables.insert(table.name.clone(), json::entries(program, id, &backend.dump(id)?));
    }
    Ok(Value::Object(tables))
}

/// Entry for fuzzing: the first byte chooses the format, the rest is a table file for a program
/// with a table of each kind. Anything may come, nothing may panic, and what is read must be
/// written and read back the same.
pub fn fuzz_tables(program: &Program, bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let path = Path::new(if first % 2 == 0 { "fuzz.toml" } else { "fuzz.json" });
    let Ok(entries) = parse_tables(program, path, text) else { return };
    for (table, entry) in &entries {
        let written = json::entries(program, *table, std::slice::from_ref(entry));
        let again = parse_entry(program, *table, &written[0]).expect("a written entry reads back");
        assert_eq!(again, *entry);
    }
}

#[cfg(test)]
mod tests;
