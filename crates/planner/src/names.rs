//! Names that people know for what a key is made of.

use nicforge_ir::{HandlerId, Program};

use crate::origin::Origin;

/// The field that receive-side scaling hashes which holds these bytes: IPv4 without options, or
/// IPv6, after Ethernet.
pub fn rss_field(offset: u32, bits: u32) -> Option<&'static str> {
    let end = offset + bits / 8;
    match (offset, end) {
        (26..30, ..=30) => Some("ip.src"),
        (30..34, ..=34) => Some("ip.dst"),
        (34..36, ..=36) => Some("sport"),
        (36..38, ..=38) => Some("dport"),
        _ => None,
    }
}

/// A name people know for bytes of a frame.
pub fn frame_name(offset: u32, bits: u32) -> String {
    let known = match (offset, bits) {
        (0, 48) => "eth.dst",
        (6, 48) => "eth.src",
        (12, 16) => "eth.type",
        (14, 4) => "ip.ihl",
        (16, 16) => "ip.length",
        (23, 8) => "ip.protocol",
        _ => rss_field(offset, bits).unwrap_or(""),
    };
    if known.is_empty() {
        return format!("frame[{offset}..{}]", offset + bits.div_ceil(8));
    }
    known.to_string()
}

/// Most operations that are told one by one.
const MOST_OPERATIONS: u32 = 32;

/// An origin in words.
pub fn describe(program: &Program, handlers: &[HandlerId], origin: &Origin) -> String {
    in_words(program, handlers, origin, &mut { MOST_OPERATIONS })
}

fn in_words(program: &Program, handlers: &[HandlerId], origin: &Origin, left: &mut u32) -> String {
    if matches!(origin, Origin::Op { .. }) {
        if *left == 0 {
            return "...".to_string();
        }
        *left -= 1;
    }
    let mut words = |part: &Origin| in_words(program, handlers, part, left);
    match origin {
        Origin::Const(value) => value.to_string(),
        Origin::Frame { offset, bits, .. } => frame_name(*offset, *bits),
        Origin::Port => "port".to_string(),
        Origin::Param { index, path } => {
            let event = &program.events[program.handlers[handlers[0]].event];
            let Some(param) = event.params.get(*index as usize) else {
                return format!("parameter {index}");
            };
            let mut name = param.name.clone();
            let mut ty = param.ty;
            for step in path {
                match ty {
                    nicforge_ir::Type::Struct(id) => {
                        let field = &program.structs[id].fields[*step as usize];
                        name.push_str(&format!(".{}", field.name));
                        ty = field.ty;
                    }
                    nicforge_ir::Type::Array(id) => {
                        name.push_str(&format!("[{step}]"));
                        ty = program.arrays[id].elem;
                    }
                    _ => break,
                }
            }
            name
        }
        Origin::Value { value, .. } => format!("%{value}"),
        Origin::Op { name: "select", of, .. } => {
            format!("({} or {})", words(&of[1]), words(&of[2]))
        }
        // Of its seed, its size and one value as a whole.
        Origin::Op { name: "hash", of, .. } if of.len() == 3 => format!("hash({})", words(&of[2])),
        Origin::Op { name: "urem", of, .. } => format!("{} % {}", words(&of[0]), words(&of[1])),
        Origin::Op { name, of, .. } => {
            let parts: Vec<String> = of.iter().map(|part| words(part)).collect();
            format!("{name}({})", parts.join(", "))
        }
    }
}
