//! A table file as rows of JSON values that know their places: TOML's by line, JSON's by number.

use std::borrow::Borrow as _;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ControlError;

/// Where something is in a file.
#[derive(Clone, Debug)]
pub(super) struct Place {
    text: String,
    /// Places of an entry's members.
    members: BTreeMap<String, Place>,
}

impl Place {
    fn new(text: String) -> Place {
        Place { text, members: BTreeMap::new() }
    }

    /// Place of a member, or of the whole if it has none.
    pub(super) fn member(&self, name: Option<&str>) -> &Place {
        name.and_then(|name| self.members.get(name)).unwrap_or(self)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Name and place of each table, and its entries or what is wrong with them.
pub(super) type Document = Vec<(String, Place, Vec<(Place, Result<Value, String>)>)>;

pub(super) fn toml(path: &Path, text: &str) -> Result<Document, ControlError> {
    let line = |at: usize| {
        1 + text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
    };
    let place = |at: usize| Place::new(format!("{}:{}", path.display(), line(at)));
    let document = DeTable::parse(text).map_err(|error| ControlError::Syntax {
        place: place(error.span().map_or(0, |span| span.start)).to_string(),
        message: error.message().trim().replace('\n', ", "),
    })?;
    let mut tables = Vec::new();
    for (name, rows) in document.get_ref() {
        let name_place = place(name.span().start);
        let name: &str = name.get_ref().borrow();
        let DeValue::Array(rows) = rows.get_ref() else {
            let message = format!("expected entries, each under `[[{name}]]`");
            return Err(ControlError::Entry {
                place: name_place.text,
                table: name.to_string(),
                message,
            });
        };
        let row = |row: &Spanned<DeValue>| {
            let mut at = place(row.span().start);
            if let DeValue::Table(members) = row.get_ref() {
                for (name, value) in members {
                    at.members.insert(name.get_ref().to_string(), place(value.span().start));
                }
            }
            (at, value(row.get_ref()))
        };
        tables.push((name.to_string(), name_place, rows.iter().map(row).collect()));
    }
    Ok(tables)
}

/// A TOML value as JSON.
fn value(toml: &DeValue) -> Result<Value, String> {
    Ok(match toml {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Boolean(truth) => Value::Bool(*truth),
        DeValue::Integer(number) => {
            let (digits, radix) = (number.as_str(), number.radix());
            let unsigned = u64::from_str_radix(digits, radix).map(Number::from);
            let number = unsigned.or_else(|_| i64::from_str_radix(digits, radix).map(Number::from));
            Value::Number(number.map_err(|_| format!("the number {digits} has more than 64 bits"))?)
        }
        DeValue::Float(number) => return Err(format!("{} is no whole number", number.as_str())),
        DeValue::Datetime(time) => return Err(format!("{time} is a date; put text in quotes")),
        DeValue::Array(values) => {
            Value::Array(values.iter().map(|one| value(one.get_ref())).collect::<Result<_, _>>()?)
        }
        DeValue::Table(members) => {
            let member = |(name, one): (&Spanned<_>, &Spanned<DeValue>)| {
                let name: &std::borrow::Cow<str> = name.get_ref();
                Ok::<_, String>((name.to_string(), value(one.get_ref())?))
            };
            Value::Object(members.iter().map(member).collect::<Result<Map<_, _>, _>>()?)
        }
    })
}

pub(super) fn json(path: &Path, text: &str) -> Result<Document, ControlError> {
    let document: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| ControlError::Syntax {
            place: format!("{}:{}:{}", path.display(), error.line().max(1), error.column().max(1)),
            message: format!(
                "{error}; expected {{ \"table\": [ {{ \"key\": ..., \"value\": ... }} ] }}"
            ),
        })?;
    let mut tables = Vec::new();
    for (name, rows) in document {
        let place = Place::new(path.display().to_string());
        let Value::Array(rows) = rows else {
            let message = "expected a list of entries".to_string();
            return Err(ControlError::Entry { place: place.text, table: name, message });
        };
        let row = |(index, row)| {
            (Place::new(format!("{}, entry {}", path.display(), index + 1)), Ok(row))
        };
        tables.push((name, place, rows.into_iter().enumerate().map(row).collect()));
    }
    Ok(tables)
}
