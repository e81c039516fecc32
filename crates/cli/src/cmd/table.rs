//! `nicforge table`: the tables of a running program, through its control socket.

use nicforge_run::socket::{Request, find_run, request};
use serde_json::{Map, Value, json};

use crate::args::{Table, TableAction};
use crate::context::Failure;
use crate::text;

/// Asks the run and prints its answer.
pub fn run(args: Table) -> Result<(), Failure> {
    let run = find_run(args.run).map_err(|e| Failure::of(e.fault(), e))?;
    let entry = |key: &str, value: Option<&str>| {
        let mut map = Map::new();
        map.insert("key".to_string(), parse(key));
        if let Some(value) = value {
            map.insert("value".to_string(), parse(value));
        }
        Value::Object(map)
    };
    let question = match &args.action {
        TableAction::List => Request::List,
        TableAction::Get { table, key } => Request::Get { table: table.clone(), entry: entry(key, None) },
        TableAction::Set { table, key, value } => {
            Request::Set { table: table.clone(), entry: entry(key, Some(value)) }
        }
        TableAction::Delete { table, key } => {
            Request::Delete { table: table.clone(), entry: entry(key, None) }
        }
        TableAction::Dump { table } => Request::Dump { table: Some(table.clone()) },
    };
    let answer = request(&run.path, &question).map_err(|e| Failure::of(e.fault(), e))?;
    if args.json {
        println!("{:#}", json!({ "schema": "nicforge/table", "version": 1, "result": answer }));
        return Ok(());
    }
    match (&args.action, answer) {
        (TableAction::List, Value::Array(rows)) => {
            let columns = ["table", "kind", "key", "value", "capacity"];
            let rows: Vec<Vec<String>> =
                rows.iter().map(|row| columns.iter().map(|c| plain(&row[*c])).collect()).collect();
            print!("{}", text::table(&columns, &rows));
        }
        (TableAction::Dump { .. }, Value::Array(rows)) => {
            for row in &rows {
                println!("{}", entry_line(row));
            }
        }
        (TableAction::Get { key, .. }, Value::Null) => {
            return Err(Failure::user(format!("no entry for {key}")));
        }
        (TableAction::Get { .. }, row) => println!("{}", entry_line(&row)),
        (TableAction::Delete { key, .. }, Value::Bool(false)) => {
            return Err(Failure::user(format!("no entry for {key}")));
        }
        _ => {}
    }
    Ok(())
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
    format!("{line} -> {}", plain(&row["value"]))
}
