//! Values, outputs and table entries as JSON: what `--json` prints and table files hold.
//!
//! Integers are numbers, as strings where they may exceed 2^53; members in network order are shown
//! and read in host meaning. Structs are objects; a missing member is zero. Arrays of `u8` are
//! hexadecimal strings, those of six bytes and `nf_mac` MAC addresses, `nf_ip6` an IPv6 address. A
//! string of the form `10.0.0.1` stands for the four bytes in that order wherever an `nf_be32`
//! member or a bare 32-bit integer (a table key, say) is expected.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Map, Value, json};

use crate::build::mask;
use crate::interp::arith::sign_extend;
use crate::interp::{Part, Shapes, Val, bits};
use crate::io::Output;
use crate::layout::int_layout;
use crate::program::{Program, TableId};
use crate::tables::{Entry, Match};
use crate::types::{Field, StructId, Type};

/// Integers up to here are exact in every JSON reader.
const MAX_NUMBER: u64 = 1 << 53;

/// A value from its bytes, which must be `size_of(ty)` many.
pub fn value(program: &Program, ty: Type, bytes: &[u8]) -> Value {
    match ty {
        Type::Int { bits: width, signed } => {
            int_value(mask(bits::get(bytes, 0, int_layout(width).size * 8), width), width, signed)
        }
        Type::Array(id) => {
            let def = program.arrays[id];
            match def.elem {
                Type::U8 if def.len == 6 => Value::String(mac_text(bytes)),
                Type::U8 => Value::String(hex(bytes)),
                elem => bytes
                    .chunks(program.size_of(elem) as usize)
                    .map(|b| value(program, elem, b))
                    .collect(),
            }
        }
        Type::Struct(id) if is_address(program, id, "nf_mac", 6) => Value::String(mac_text(bytes)),
        Type::Struct(id) if is_address(program, id, "nf_ip6", 16) => Value::String(
            <[u8; 16]>::try_from(bytes)
                .map_or_else(|_| hex(bytes), |b| Ipv6Addr::from(b).to_string()),
        ),
        Type::Struct(id) => {
            let mut object = Map::new();
            for (field, part) in fields(program, id) {
                object.insert(field.name.clone(), member_value(program, field, part, bytes));
            }
            Value::Object(object)
        }
        Type::Packet => Value::Null,
    }
}

/// A key of a table from its bytes. An integer in network order is shown as people write it: 32
/// bits as an IPv4 address, others as a number in host order.
pub fn key_value(program: &Program, table: TableId, bytes: &[u8]) -> Value {
    let def = &program.tables[table];
    match (def.key_big_endian, <[u8; 4]>::try_from(bytes)) {
        (false, _) => value(program, def.key, bytes),
        (true, Ok(octets)) => Value::String(Ipv4Addr::from(octets).to_string()),
        (true, Err(_)) => {
            value(program, def.key, &bytes.iter().rev().copied().collect::<Vec<u8>>())
        }
    }
}

/// A key of a table from JSON, in the form of [`key_value`]; 32 bits may also be a number in host
/// order.
pub fn parse_key(program: &Program, table: TableId, json: &Value) -> Result<Vec<u8>, String> {
    let def = &program.tables[table];
    let mut bytes = parse_value(program, def.key, json)?;
    if def.key_big_endian && dotted(json, def.key.bits().unwrap_or(0)).is_none() {
        bytes.reverse();
    }
    Ok(bytes)
}

/// The members of a struct with their places, without padding.
fn fields(program: &Program, id: StructId) -> impl Iterator<Item = (&Field, Part)> {
    let slots = program.struct_layout(id).1;
    program.structs[id]
        .fields
        .iter()
        .zip(slots)
        .filter(|(field, _)| !field.is_padding())
        .map(|(field, slot)| (field, Part { at: slot.bit_offset, bits: slot.bits, ty: field.ty }))
}

fn part_bytes(part: Part) -> std::ops::Range<usize> {
    (part.at / 8) as usize..((part.at + part.bits) / 8) as usize
}

fn member_value(program: &Program, field: &Field, part: Part, bytes: &[u8]) -> Value {
    match field.ty {
        Type::Int { bits: width, signed } => {
            let raw = bits::get(bytes, part.at, part.bits);
            let short = signed && part.bits < width as u32;
            let raw =
                mask(if short { sign_extend(raw, part.bits as u8) as u64 } else { raw }, width);
            int_value(if field.big_endian { swapped(raw, width) } else { raw }, width, signed)
        }
        ty => value(program, ty, &in_host_order(program, field, &bytes[part_bytes(part)])),
    }
}

/// The bytes of a member that is no integer with the elements of an array in network order turned
/// round; the other way too.
fn in_host_order(program: &Program, field: &Field, bytes: &[u8]) -> Vec<u8> {
    let mut turned = bytes.to_vec();
    if let (true, Type::Array(id)) = (field.big_endian, field.ty) {
        let size = program.size_of(program.arrays[id].elem) as usize;
        turned.chunks_mut(size).for_each(<[u8]>::reverse);
    }
    turned
}

/// The other byte order of a 16-, 32- or 64-bit integer.
fn swapped(raw: u64, width: u8) -> u64 {
    raw.swap_bytes() >> (64 - width as u32)
}

fn int_value(raw: u64, width: u8, signed: bool) -> Value {
    if signed {
        let value = sign_extend(raw, width);
        return if value.unsigned_abs() > MAX_NUMBER {
            json!(value.to_string())
        } else {
            json!(value)
        };
    }
    if raw > MAX_NUMBER { json!(raw.to_string()) } else { json!(raw) }
}

fn is_address(program: &Program, id: StructId, name: &str, size: u32) -> bool {
    program.structs[id].name == name && program.size_of(Type::Struct(id)) == size
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn mac_text(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":")
}

/// The bytes of a value; the message says what is wrong and where in the value.
pub fn parse_value(program: &Program, ty: Type, json: &Value) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; program.size_of(ty) as usize];
    match ty {
        Type::Int { bits: width, signed } => {
            let raw = match dotted(json, width) {
                Some(raw) => raw,
                None => parse_int(json, width, signed)?,
            };
            bytes.copy_from_slice(&raw.to_le_bytes()[..int_layout(width).size as usize]);
        }
        Type::Array(id) => parse_array(program, id, json, &mut bytes)?,
        Type::Struct(id) => match json {
            Value::String(text) if is_address(program, id, "nf_mac", 6) => {
                bytes = parse_mac(text)
                    .ok_or_else(|| expected("a MAC address such as \"02:00:00:00:00:01\"", json))?;
            }
            Value::String(text) if is_address(program, id, "nf_ip6", 16) => {
                let address: Ipv6Addr = text
                    .parse()
                    .map_err(|_| expected("an IPv6 address such as \"2001:db8::1\"", json))?;
                bytes.copy_from_slice(&address.octets());
            }
            Value::Object(object) => parse_struct(program, id, object, &mut bytes)?,
            _ => {
                return Err(expected(
                    &format!("an object with the members of {}", program.type_name(ty)),
                    json,
                ));
            }
        },
        Type::Packet => return Err("packets cannot be written as values".to_string()),
    }
    Ok(bytes)
}

fn expected(what: &str, found: &Value) -> String {
    format!("expected {what}, found {found}")
}

fn parse_struct(
    program: &Program,
    id: StructId,
    object: &Map<String, Value>,
    bytes: &mut [u8],
) -> Result<(), String> {
    let def = &program.structs[id];
    let named = || def.fields.iter().filter(|field| !field.is_padding());
    if let Some(unknown) = object.keys().find(|key| !named().any(|field| field.name == **key)) {
        let known = named().map(|field| field.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(format!("struct {} has no member `{unknown}`; it has {known}", def.name));
    }
    for (field, part) in fields(program, id) {
        let Some(json) = object.get(&field.name) else { continue };
        let inside = |message: String| format!("member `{}`: {message}", field.name);
        match field.ty {
            Type::Int { bits: width, signed } => {
                let raw = match dotted(json, width).filter(|_| field.big_endian) {
                    Some(raw) => raw,
                    None => {
                        let width = field.bit_width.unwrap_or(width);
                        let raw = parse_int(json, width, signed).map_err(inside)?;
                        if field.big_endian { swapped(raw, width) } else { raw }
                    }
                };
                bits::set(bytes, part.at, part.bits, raw);
            }
            ty => {
                let value = parse_value(program, ty, &numbers(field, json)).map_err(inside)?;
                bytes[part_bytes(part)].copy_from_slice(&in_host_order(program, field, &value));
            }
        }
    }
    Ok(())
}

/// The JSON of a member, with dotted addresses in an array in network order as the numbers they
/// mean.
fn numbers(field: &Field, json: &Value) -> Value {
    let number = |element: &Value| match dotted(element, 32) {
        Some(raw) => json!(swapped(raw, 32)),
        None => element.clone(),
    };
    match (json, field.ty) {
        (Value::Array(elements), Type::Array(_)) if field.big_endian => {
            elements.iter().map(number).collect()
        }
        _ => json.clone(),
    }
}

fn parse_array(
    program: &Program,
    id: crate::types::ArrayId,
    json: &Value,
    bytes: &mut [u8],
) -> Result<(), String> {
    let def = program.arrays[id];
    let size = program.size_of(def.elem) as usize;
    match json {
        Value::String(text) if def.elem == Type::U8 => {
            let mac = if def.len == 6 { parse_mac(text) } else { None };
            let found = mac.or_else(|| parse_hex(text)).filter(|found| found.len() == bytes.len());
            let wanted = format!("{} bytes in hexadecimal", bytes.len());
            bytes.copy_from_slice(&found.ok_or_else(|| expected(&wanted, json))?);
        }
        Value::Array(elements) if elements.len() <= def.len as usize => {
            for (i, (element, to)) in elements.iter().zip(bytes.chunks_mut(size)).enumerate() {
                let value = parse_value(program, def.elem, element)
                    .map_err(|message| format!("element {i}: {message}"))?;
                to.copy_from_slice(&value);
            }
        }
        _ => return Err(expected(&format!("an array of up to {} elements", def.len), json)),
    }
    Ok(())
}

/// The little-endian reading of the bytes of a dotted IPv4 address, if `json` is one and the width
/// is right.
fn dotted(json: &Value, width: u8) -> Option<u64> {
    let address: Ipv4Addr = json.as_str().filter(|_| width == 32)?.parse().ok()?;
    Some(u32::from_le_bytes(address.octets()) as u64)
}

/// A number, or a string with a decimal or `0x` number; the low `width` bits hold it.
fn parse_int(json: &Value, width: u8, signed: bool) -> Result<u64, String> {
    let number: Option<i128> = match json {
        Value::Number(number) => {
            number.as_u64().map(i128::from).or_else(|| number.as_i64().map(i128::from))
        }
        Value::Bool(truth) if width == 1 => Some(*truth as i128),
        Value::String(text) => match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok().map(i128::from),
            None => text.parse().ok(),
        },
        _ => None,
    };
    let number = number.ok_or_else(|| expected("an integer", json))?;
    let (least, most) = if signed {
        (-(1i128 << (width - 1)), (1 << (width - 1)) - 1)
    } else {
        (0, (1i128 << width) - 1)
    };
    if number < least || number > most {
        return Err(format!("{number} is not between {least} and {most}"));
    }
    Ok(mask(number as u64, width))
}

fn parse_hex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|i| hex_byte(&text[i..i + 2])).collect()
}

fn hex_byte(digits: &str) -> Option<u8> {
    let plain = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if plain { u8::from_str_radix(digits, 16).ok() } else { None }
}

fn parse_mac(text: &str) -> Option<Vec<u8>> {
    let bytes: Option<Vec<u8>> = text.split(':').map(hex_byte).collect();
    bytes.filter(|bytes| bytes.len() == 6)
}

/// One output as an object whose member `kind` says what it is; frames are in hexadecimal.
pub fn output(program: &Program, output: &Output) -> Value {
    match output {
        Output::Send { port, frame } => {
            json!({ "kind": "net_send", "port": port, "frame": hex(frame) })
        }
        Output::Stack { frame } => json!({ "kind": "stack_recv", "frame": hex(frame) }),
        Output::HostPacket { frame } => json!({ "kind": "host_recv", "frame": hex(frame) }),
        Output::HostMessage { bytes } => {
            let messages = program.events.values().filter(|event| event.name == "host_msg");
            let mut types = messages.filter_map(|event| event.params.first()).map(|param| param.ty);
            let fits = types.find(|ty| program.size_of(*ty) as usize == bytes.len());
            let message = fits.map_or_else(|| json!(hex(bytes)), |ty| value(program, ty, bytes));
            json!({ "kind": "host_msg", "message": message })
        }
        Output::DmaWrite { addr, data } => {
            json!({ "kind": "dma_write", "addr": int_value(*addr, 64, false), "data": hex(data) })
        }
        Output::Drop { reason } => {
            let text = program.reasons.get(*reason).map(|reason| reason.text.as_str());
            json!({ "kind": "drop", "reason": text })
        }
        Output::Log { text } => json!({ "kind": "log", "text": text }),
    }
}

/// Entries of a table as an array of objects with `key`, `value` and, where there are such,
/// `prefix` (bits), `mask` and `priority`, `buf` (hexadecimal).
pub fn entries(program: &Program, table: TableId, entries: &[Entry]) -> Value {
    let def = &program.tables[table];
    let one = |entry: &Entry| {
        let mut object = Map::new();
        object.insert("key".to_string(), key_value(program, table, &entry.key));
        match &entry.matching {
            Match::Exact => {}
            Match::Prefix(bits) => {
                object.insert("prefix".to_string(), json!(bits));
            }
            Match::Mask { mask, priority } => {
                object.insert("mask".to_string(), key_value(program, table, mask));
                object.insert("priority".to_string(), json!(priority));
            }
        }
        object.insert("value".to_string(), value(program, def.value, &entry.value));
        if let Some(buf) = &entry.buf {
            object.insert("buf".to_string(), json!(hex(buf)));
        }
        Value::Object(object)
    };
    entries.iter().map(one).collect()
}

/// A value as the interpreter holds it; packets show their number.
pub fn val(program: &Program, shapes: &Shapes, ty: Type, val: &Val) -> Value {
    match val {
        Val::Packet(number) => json!({ "packet": number }),
        _ => value(program, ty, &shapes.encode(ty, val)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parse;

    const DECLS: &str = "program p ports 1
        struct nf_mac { b: u8[6] }
        struct nf_ip6 { w: u32[4] }
        struct flow { src: u32 be, port: u16 be, low: i8 : 3, high: u8 : 5, raw: u8[3], mac: nf_mac, ip: nf_ip6,
                      big: u64, list: u16[2], flag: u1, net: u32[2] be }
        table t: lpm[u32 -> flow] capacity 3
        event host_msg(m: u16) out
        reason \"why\"";

    fn flow(program: &Program) -> Type {
        Type::Struct(program.structs.iter().find(|(_, s)| s.name == "flow").unwrap().0)
    }

    #[test]
    fn values_round_trip() {
        let program = parse(DECLS).unwrap();
        let ty = flow(&program);
        let shown = json!({
            "src": 0x0a00_0001, "port": 80, "low": -4, "high": 31, "raw": "01ff00", "mac": "02:00:00:00:00:0a",
            "ip": "2001:db8::1", "big": "18446744073709551615", "list": [1, 65535], "flag": 1,
            "net": [1, 0x0a00_0001]
        });
        let bytes = parse_value(&program, ty, &shown).unwrap();
        assert_eq!(
            &bytes[..6],
            [10, 0, 0, 1, 0, 80],
            "network order in memory, host meaning outside"
        );
        assert_eq!(bytes[6], 0xfc);
        assert_eq!(
            bytes[bytes.len() - 8..],
            [0, 0, 0, 1, 10, 0, 0, 1],
            "elements in network order too"
        );
        assert_eq!(value(&program, ty, &bytes), shown);
        let dotted = parse_value(&program, ty, &json!({ "net": [1, "10.0.0.1"] })).unwrap();
        assert_eq!(dotted[dotted.len() - 8..], bytes[bytes.len() - 8..]);
    }

    #[test]
    fn addresses_and_gaps() {
        let program = parse(DECLS).unwrap();
        let ty = flow(&program);
        let bytes = parse_value(&program, ty, &json!({ "src": "10.0.0.1", "list": [7] })).unwrap();
        assert_eq!(value(&program, ty, &bytes)["src"], json!(0x0a00_0001));
        assert_eq!(value(&program, ty, &bytes)["list"], json!([7, 0]));
        assert_eq!(parse_value(&program, Type::U32, &json!("10.0.0.1")).unwrap(), [10, 0, 0, 1]);
        assert_eq!(parse_value(&program, Type::U32, &json!("0x10")).unwrap(), [16, 0, 0, 0]);
        assert_eq!(parse_value(&program, Type::i(8), &json!(-1)).unwrap(), [0xff]);
    }

    #[test]
    fn refusals_name_the_member() {
        let program = parse(DECLS).unwrap();
        let ty = flow(&program);
        let message = |json: Value| parse_value(&program, ty, &json).unwrap_err();
        assert_eq!(
            message(json!({ "sorce": 1 })),
            "struct flow has no member `sorce`; it has src, port, low, high, raw, mac, ip, big, list, flag, net"
        );
        assert_eq!(
            message(json!({ "port": 65536 })),
            "member `port`: 65536 is not between 0 and 65535"
        );
        assert_eq!(message(json!({ "low": 4 })), "member `low`: 4 is not between -4 and 3");
        assert_eq!(
            message(json!({ "high": "10.0.0.1" })),
            "member `high`: expected an integer, found \"10.0.0.1\""
        );
        assert!(message(json!({ "mac": "02:00" })).contains("expected a MAC address"));
        assert!(message(json!({ "ip": "x" })).contains("expected an IPv6 address"));
        assert!(message(json!({ "raw": "0é" })).contains("expected 3 bytes in hexadecimal"));
        assert!(message(json!({ "list": [1, 2, 3] })).contains("an array of up to 2 elements"));
        assert!(
            message(json!({ "list": ["x"] }))
                .contains("member `list`: element 0: expected an integer")
        );
        assert!(message(json!(5)).contains("an object with the members of flow"));
    }

    #[test]
    fn outputs_and_entries() {
        let program = parse(DECLS).unwrap();
        let shown = output(&program, &Output::Send { port: 1, frame: vec![1, 0xab] });
        assert_eq!(shown, json!({ "kind": "net_send", "port": 1, "frame": "01ab" }));
        let shown = output(&program, &Output::HostMessage { bytes: vec![1, 1] });
        assert_eq!(shown["message"], json!(257));
        let reason = program.reasons.keys().next().unwrap();
        assert_eq!(output(&program, &Output::Drop { reason })["reason"], json!("why"));
        let table = program.table_named("t").unwrap();
        let value = vec![0; program.size_of(program.tables[table].value) as usize];
        let entry = Entry { key: vec![1, 0, 0, 0], matching: Match::Prefix(8), value, buf: None };
        let shown = entries(&program, table, &[entry]);
        assert_eq!((&shown[0]["key"], &shown[0]["prefix"]), (&json!(1), &json!(8)));
        assert!(shown[0].get("buf").is_none() && shown[0]["value"]["flag"] == json!(0));
    }
}
