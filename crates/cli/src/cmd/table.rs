//! `nicforge table`: the tables of a running program, through its control socket.

use nicforge_driver::Failure;
use nicforge_run::socket::Request;
use serde_json::{Map, Value, json};

use super::ask::ask;
use crate::args::{Matching, Table, TableAction};
use crate::{out, text};

/// Asks the run and prints its answer.
pub fn run(args: Table) -> Result<(), Failure> {
    let answer = ask(&args.running, question(&args.action))?;
    if args.json {
        outln!("{:#}", json!({ "schema": "nicforge/table", "version": 1, "result": answer }));
        return Ok(());
    }
    match (&args.action, answer) {
        (TableAction::List, Value::Array(rows)) => {
            let columns = ["table", "kind", "key", "value", "capacity"];
            let rows: Vec<Vec<String>> =
                rows.iter().map(|row| columns.iter().map(|c| plain(&row[*c])).collect()).collect();
            out::text(&text::table(&columns, &rows));
        }
        (TableAction::Dump { .. }, Value::Array(rows)) => {
            for row in &rows {
                outln!("{}", entry_line(row));
            }
        }
        (TableAction::Get { key, .. }, Value::Null) => {
            return Err(Failure::user(format!("no entry for {key}")));
        }
        (TableAction::Get { .. }, row) => outln!("{}", entry_line(&row)),
        (TableAction::Delete { key, .. }, Value::Bool(false)) => {
            return Err(Failure::user(format!("no entry for {key}")));
        }
        _ => {}
    }
    Ok(())
}

fn question(action: &TableAction) -> Request {
    match action {
        TableAction::List => Request::List,
        TableAction::Get { table, key, matching } => {
            Request::Get { table: table.clone(), entry: entry(key, None, matching) }
        }
        TableAction::Set { table, key, value, matching } => {
            Request::Set { table: table.clone(), entry: entry(key, Some(value), matching) }
        }
        TableAction::Delete { table, key, matching } => {
            Request::Delete { table: table.clone(), entry: entry(key, None, matching) }
        }
        TableAction::Dump { table } => Request::Dump { table: Some(table.clone()) },
    }
}

fn entry(key: &str, value: Option<&str>, matching: &Matching) -> Value {
    let mut map = Map::new();
    map.insert("key".to_string(), parse(key));
    if let Some(value) = value {
        map.insert("value".to_string(), parse(value));
    }
    if let Some(mask) = &matching.mask {
        map.insert("mask".to_string(), parse(mask));
    }
    if let Some(priority) = matching.priority {
        map.insert("priority".to_string(), json!(priority));
    }
    Value::Object(map)
}

/// A key or value from the command line: JSON, or a bare word such as 10.0.0.1.
fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_string()))
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}

fn entry_line(row: &Value) -> String {
    let mut line = plain(&row["key"]);
    for part in ["prefix", "mask", "priority"] {
        if let Some(value) = row.get(part) {
            line.push_str(&format!(" {part} {}", plain(value)));
        }
    }
    line.push_str(&format!(" -> {}", plain(&row["value"])));
    if let Some(bytes) = row.get("buf") {
        line.push_str(&format!(" buf {}", plain(bytes)));
    }
    line
}
