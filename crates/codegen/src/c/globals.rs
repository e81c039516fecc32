//! What generated files have beside types and functions: constants, and what handlers read of their
//! event.

use std::collections::HashMap;
use std::fmt::Write;

use nicforge_ir::{ConstId, Handler, Op, Type};

use super::types::CTypes;
use super::types::literal;

/// The table that `nf_hash_bytes` of the runtimes reads: what a byte does to a CRC32C.
pub fn crc_table() -> String {
    format!("const u32 nf_crc32c[256] = {{\n{}}};\n\n", rows(&nicforge_ir::io::CRC32C))
}

/// Eight such tables: what a byte does to the CRC32C that 0 to 7 bytes behind it find, for hashing
/// eight bytes at a time.
pub fn crc_tables() -> String {
    let mut out = "const u32 nf_crc32c[8][256] = {\n".to_string();
    let mut table = nicforge_ir::io::CRC32C;
    for _ in 0..8 {
        let _ = write!(out, "{{\n{}}},\n", rows(&table));
        table = table.map(|crc| crc >> 8 ^ nicforge_ir::io::CRC32C[(crc & 0xff) as usize]);
    }
    out.push_str("};\n\n");
    out
}

fn rows(table: &[u32; 256]) -> String {
    let mut out = String::new();
    for row in table.chunks(8) {
        let words: Vec<String> = row.iter().map(|w| format!("0x{w:08x}")).collect();
        let _ = writeln!(out, "    {},", words.join(", "));
    }
    out
}

/// The program's constant arrays under their C names.
pub fn constants(types: &CTypes<'_>, names: &HashMap<ConstId, String>) -> String {
    let mut out = String::new();
    let program = types.program;
    for (id, konst) in &program.consts {
        let (elem, name) = (types.name(konst.elem), &names[&id]);
        let size = program.size_of(konst.elem).max(1) as usize;
        let len = konst.bytes.len() / size;
        if konst.elem.is_int() {
            let _ = writeln!(out, "static const {elem} {name}[{len}] = {{");
            let items: Vec<String> =
                konst.bytes.chunks(size).map(|b| int_text(b, konst.elem)).collect();
            for row in items.chunks(8) {
                let _ = writeln!(out, "    {},", row.join(", "));
            }
            out.push_str("};\n\n");
        } else {
            // Initialised as bytes: members would need one initialiser syntax per shape of struct.
            let bytes: Vec<String> = konst.bytes.iter().map(|b| b.to_string()).collect();
            let bytes_len = konst.bytes.len();
            let _ = writeln!(
                out,
                "static const union {{ u8 bytes[{bytes_len}]; {elem} items[{len}]; }}"
            );
            let _ = writeln!(out, "    {name} = {{ .bytes = {{ {} }} }};\n", bytes.join(", "));
        }
    }
    out
}

/// True if a handler reads the time, and the random stream.
pub fn clock_use(handler: &Handler) -> (bool, bool) {
    let has = |wanted: fn(&Op) -> bool| {
        let mut found = false;
        let body = &handler.body;
        body.for_each_inst(body.entry(), &mut |inst| found |= wanted(&body.insts[inst].op));
        found
    };
    (has(Op::reads_clock), has(Op::draws))
}

fn int_text(bytes: &[u8], ty: Type) -> String {
    let mut word = [0u8; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    literal(u64::from_le_bytes(word), ty)
}
