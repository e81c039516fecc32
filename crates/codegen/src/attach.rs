//! The header by which a program of somebody's own is a program's host side
//! (`runtime/host/nf_attach.h`): its messages as plain C structs, and functions that know their
//! sizes.
//!
//! Structs lie as C lays them out, so there is no attribute; every size and offset is checked where
//! the header is compiled.

use std::collections::BTreeSet;
use std::fmt::Write;

use nicforge_ir::{Program, StructId, Table, Type};

/// The header; none if nothing goes to the host side or comes from there.
pub fn header(program: &Program) -> Option<String> {
    let of = |name: &str| {
        let event = &program.events[program.event_named(name)?];
        match event.params.first()?.ty {
            Type::Struct(id) => Some(id),
            _ => None,
        }
    };
    let (message, answer) = (of("host_msg"), of("host_send"));
    let packets = program.events.values().any(|event| event.name == "host_recv");
    let regions: Vec<&Table> = program.tables.values().filter(|table| table.shared).collect();
    if message.is_none() && answer.is_none() && !packets && regions.is_empty() {
        return None;
    }
    let name = &prefix(program);
    let guard = format!("{}_HOST_H", name.to_uppercase());
    let mut out = format!(
        "/* The host side of `{name}`: `nicforge run` listens with --host-socket PATH. Errors are those of nf_attach.h. */\n\
         #ifndef {guard}\n#define {guard}\n\n#include <assert.h>\n#include \"nf_attach.h\"\n\n"
    );
    let mut known = BTreeSet::new();
    for id in message.into_iter().chain(answer) {
        structs(program, id, &mut known, &mut out);
    }
    let size = |id: Option<StructId>| match id {
        Some(id) => format!("sizeof(struct {})", tag(program, id)),
        None => "0".to_string(),
    };
    let _ = write!(
        out,
        "/* Attaches to the run that listens at a path; nf_detach ends it. */\n\
         static inline int {name}_attach(struct nf_attach *to, const char *path)\n{{\n\
         \x20   return nf_attach(to, path, {}, {});\n}}\n\n",
        size(message),
        size(answer)
    );
    match message {
        Some(id) if !packets => {
            let tag = tag(program, id);
            let _ = write!(
                out,
                "/* The next message: 0, or a negative errno. */\n\
                 static inline int {name}_receive(struct nf_attach *from, struct {tag} *message)\n{{\n\
                 \x20   enum nf_attach_kind kind;\n\
                 \x20   int got = nf_attach_receive(from, &kind, message, sizeof(*message));\n\
                 \x20   return got < 0 ? got : 0;\n}}\n\n"
            );
        }
        None if !packets => {}
        _ => {
            let _ = write!(
                out,
                "/* The next packet{}: its length, or a negative errno. */\n\
                 static inline int {name}_receive(struct nf_attach *from, enum nf_attach_kind *kind, void *bytes, uint32_t room)\n{{\n\
                 \x20   return nf_attach_receive(from, kind, bytes, room);\n}}\n\n",
                message.map_or(String::new(), |id| format!(
                    ", or message (struct {})",
                    tag(program, id)
                ))
            );
        }
    }
    if let Some(id) = answer {
        let tag = tag(program, id);
        let _ = write!(
            out,
            "/* Sends a message: 0, or a negative errno. */\n\
             static inline int {name}_send(struct nf_attach *to, const struct {tag} *message)\n{{\n\
             \x20   return nf_attach_send(to, message, sizeof(*message));\n}}\n\n"
        );
    }
    for (number, table) in regions.into_iter().enumerate() {
        let bytes = u64::from(table.capacity) * u64::from(program.size_of(table.value));
        let _ = write!(
            out,
            "/* The memory of `{0}`, {bytes} bytes, until nf_detach; NULL if the run is of another program. */\n\
             static inline void *{name}_{0}(const struct nf_attach *at)\n{{\n    return nf_attach_region(at, {number}, {bytes});\n}}\n\n",
            table.name
        );
    }
    out.push_str("#endif\n");
    Some(out)
}

/// A struct's C tag: other headers may have one of the same name.
fn tag(program: &Program, id: StructId) -> String {
    format!("{}_{}", prefix(program), program.structs[id].name)
}

/// The program's name as C can have it.
fn prefix(program: &Program) -> String {
    program.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// Defines a struct behind those of its members.
fn structs(program: &Program, id: StructId, known: &mut BTreeSet<StructId>, out: &mut String) {
    if !known.insert(id) {
        return;
    }
    let def = &program.structs[id];
    for field in &def.fields {
        let mut ty = field.ty;
        while let Type::Array(array) = ty {
            ty = program.arrays[array].elem;
        }
        if let Type::Struct(inner) = ty {
            structs(program, inner, known, out);
        }
    }
    let (layout, slots) = program.struct_layout(id);
    let tag = tag(program, id);
    let _ = writeln!(out, "struct {tag} {{");
    for field in &def.fields {
        let width = field.bit_width.map_or(String::new(), |bits| format!(" : {bits}"));
        let _ =
            writeln!(out, "    {}{width};", declarator(program, field.ty, &field.name).trim_end());
    }
    let packed = if def.packed { " __attribute__((packed))" } else { "" };
    let _ = writeln!(out, "}}{packed};");
    let _ = writeln!(
        out,
        "static_assert(sizeof(struct {tag}) == {}, \"layout of {tag}\");",
        layout.size
    );
    for (field, slot) in
        def.fields.iter().zip(&slots).filter(|(field, _)| field.bit_width.is_none())
    {
        let at = slot.bit_offset / 8;
        let name = &field.name;
        let _ = writeln!(
            out,
            "static_assert(offsetof(struct {tag}, {name}) == {at}, \"layout of {tag}\");"
        );
    }
    out.push('\n');
}

fn declarator(program: &Program, ty: Type, name: &str) -> String {
    match ty {
        Type::Array(id) => {
            let def = program.arrays[id];
            declarator(program, def.elem, &format!("{name}[{}]", def.len))
        }
        Type::Struct(id) => format!("struct {} {name}", tag(program, id)),
        Type::Int { bits: 1, signed: false } => format!("bool {name}"),
        Type::Int { bits, signed } => {
            let size = nicforge_ir::layout::int_layout(bits).size * 8;
            format!("{}int{size}_t {name}", if signed { "" } else { "u" })
        }
        Type::Packet => format!("uint64_t {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_for_what_crosses() {
        let text = "
            program store ports 1
            struct key { bytes: u8[6], part: u8 }
            struct ask { slot: u32, key: key, at: i64 }
            struct say { slot: u32, good: u1 }
            table board: array[u32 -> u64] capacity 4 shared
            event host_send(m: say) in
            event host_msg(m: ask) out
        ";
        let program = nicforge_ir::text::parse(text).unwrap();
        let header = header(&program).unwrap();
        for line in [
            "struct store_key {\n    uint8_t bytes[6];\n    uint8_t part;\n};",
            "    struct store_key key;\n    int64_t at;\n};",
            "static_assert(sizeof(struct store_ask) == 24,",
            "static_assert(offsetof(struct store_ask, at) == 16,",
            "    bool good;",
            "store_receive(struct nf_attach *from, struct store_ask *message)",
            "store_send(struct nf_attach *to, const struct store_say *message)",
            "store_board(const struct nf_attach *at)\n{\n    return nf_attach_region(at, 0, 32);",
        ] {
            assert!(header.contains(line), "{line}\n{header}");
        }
    }

    #[test]
    fn nothing_for_programs_without_a_host_side() {
        let program =
            nicforge_ir::text::parse("program p ports 1 event net_recv(pkt: packet) in").unwrap();
        assert_eq!(header(&program), None);
    }
}
