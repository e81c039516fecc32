//! One entry of a table as a JSON object.

use nicforge_ir::{Entry, Match, Program, TableId, TableKind, json};
use serde_json::Value;

/// Mistakes in an entry, and in which member.
#[derive(Debug, PartialEq, Eq)]
pub struct EntryError {
    pub member: Option<&'static str>,
    pub message: String,
}

/// The table of that name, or a message that lists those there are.
pub fn find_table(program: &Program, name: &str) -> Result<TableId, String> {
    program.table_named(name).ok_or_else(|| {
        let known: Vec<String> =
            program.tables.values().map(|table| format!("`{}`", table.name)).collect();
        let known = if known.is_empty() {
            "it has none".to_string()
        } else {
            format!("it has {}", known.join(", "))
        };
        format!("the program has no table `{name}`; {known}")
    })
}

/// Members an entry of a table may have.
fn members(program: &Program, table: TableId) -> Vec<&'static str> {
    let mut members = vec!["key", "value"];
    match program.tables[table].kind {
        TableKind::Lpm => members.push("prefix"),
        TableKind::Ternary => members.extend(["mask", "priority"]),
        _ => {}
    }
    if program.tables[table].buf.is_some() {
        members.push("buf");
    }
    members
}

/// Reads an entry; `value` may be left out for zero.
pub fn parse_entry(program: &Program, table: TableId, row: &Value) -> Result<Entry, EntryError> {
    let (key, matching) = parse_key(program, table, row)?;
    let def = &program.tables[table];
    let value = match row.get("value") {
        None => vec![0; program.size_of(def.value) as usize],
        Some(value) => json::parse_value(program, def.value, value).map_err(at("value"))?,
    };
    let buf = match (def.buf, row.get("buf")) {
        (None, _) => None,
        (Some(_), None) => Some(Vec::new()),
        (Some(most), Some(text)) => Some(parse_buf(text, most).map_err(at("buf"))?),
    };
    Ok(Entry { key, matching, value, buf })
}

/// Reads what identifies an entry: key, prefix or mask and priority.
pub fn parse_key(
    program: &Program,
    table: TableId,
    row: &Value,
) -> Result<(Vec<u8>, Match), EntryError> {
    let whole = |message: String| EntryError { member: None, message };
    let known = members(program, table);
    let Value::Object(row) = row else {
        return Err(whole(format!("expected an entry with {}", list(&known))));
    };
    if let Some(unknown) = row.keys().find(|name| !known.contains(&name.as_str())) {
        let kind = program.tables[table].kind.name();
        return Err(whole(format!(
            "`{unknown}` is no member of an entry; a {kind} table has {}",
            list(&known)
        )));
    }
    let ty = program.tables[table].key;
    let key = row.get("key").ok_or_else(|| whole("the entry has no `key`".to_string()))?;
    let bits = 8 * program.size_of(ty);
    match program.tables[table].kind {
        TableKind::Lpm => {
            let (key, in_key) = split_prefix(key).map_err(at("key"))?;
            let key = json::parse_key(program, table, &key).map_err(at("key"))?;
            let length = match (in_key, row.get("prefix")) {
                (Some(_), Some(_)) => {
                    return Err(at("prefix")("the key has a prefix length already".to_string()));
                }
                (Some(length), None) => length,
                (None, Some(length)) => whole_number(length).map_err(at("prefix"))?,
                (None, None) => bits,
            };
            if length > bits {
                return Err(at("prefix")(format!(
                    "prefix length {length}, but keys have {bits} bits"
                )));
            }
            let mut mask = vec![0xff; key.len()];
            clear_behind(&mut mask, length);
            Ok((masked(key, &mask), Match::Prefix(length)))
        }
        TableKind::Ternary => {
            let key = json::parse_key(program, table, key).map_err(at("key"))?;
            let mask = match row.get("mask") {
                None => vec![0xff; key.len()],
                Some(mask) => json::parse_key(program, table, mask).map_err(at("mask"))?,
            };
            let priority =
                row.get("priority").map_or(Ok(0), whole_number).map_err(at("priority"))?;
            Ok((masked(key, &mask), Match::Mask { mask, priority }))
        }
        TableKind::Hash | TableKind::Array | TableKind::Lru => {
            Ok((json::parse_key(program, table, key).map_err(at("key"))?, Match::Exact))
        }
    }
}

fn at(member: &'static str) -> impl Fn(String) -> EntryError {
    move |message| EntryError { member: Some(member), message: format!("`{member}`: {message}") }
}

fn list(members: &[&str]) -> String {
    members.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Takes the `/8` off a key such as `"10.0.0.0/8"`.
fn split_prefix(key: &Value) -> Result<(Value, Option<u32>), String> {
    let Some((address, length)) = key.as_str().and_then(|text| text.rsplit_once('/')) else {
        return Ok((key.clone(), None));
    };
    let length = length.parse().map_err(|_| format!("`{length}` is no prefix length"))?;
    Ok((Value::String(address.to_string()), Some(length)))
}

fn whole_number(value: &Value) -> Result<u32, String> {
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| format!("expected a whole number from 0 to {}, not {value}", u32::MAX))
}

fn parse_buf(text: &Value, most: u32) -> Result<Vec<u8>, String> {
    let expected = || format!("expected bytes in hex, as \"0a1b\", not {text}");
    let digits = text.as_str().ok_or_else(expected)?;
    let digits: Option<Vec<u8>> =
        digits.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
    let (pairs, []) = digits.as_deref().ok_or_else(expected)?.as_chunks::<2>() else {
        return Err(expected());
    };
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    if bytes.len() > most as usize {
        return Err(format!(
            "{} bytes, but the table's byte strings have at most {most}",
            bytes.len()
        ));
    }
    Ok(bytes)
}

fn clear_behind(mask: &mut [u8], bits: u32) {
    for (i, byte) in mask.iter_mut().enumerate() {
        let kept = (bits as usize).saturating_sub(8 * i).min(8);
        *byte = (0xff00u32 >> kept) as u8;
    }
}

/// Key bits that the match does not look at are zero, so that equal entries are equal bytes.
fn masked(mut key: Vec<u8>, mask: &[u8]) -> Vec<u8> {
    key.iter_mut().zip(mask).for_each(|(byte, mask)| *byte &= mask);
    key
}
