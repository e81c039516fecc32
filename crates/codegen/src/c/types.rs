//! αIR types in C.
//!
//! Structs keep their names and members. They are declared packed with explicit padding members, so
//! that the bytes are exactly [`nicforge_ir::layout`]'s on every compiler and padding is copied
//! like data. An array that is a value of its own (C arrays cannot be assigned) is a struct with
//! the one member `v`.

use std::collections::HashMap;
use std::fmt::Write;

use nicforge_ir::interp::Shapes;
use nicforge_ir::{ArrayId, Program, StructId, Type};

use super::names::Names;

/// The C spelling of every type of a program.
pub struct CTypes<'a> {
    pub program: &'a Program,
    shapes: Shapes,
    structs: HashMap<StructId, String>,
    members: HashMap<StructId, Vec<String>>,
}

impl<'a> CTypes<'a> {
    /// Names for all struct types and members of `program`.
    pub fn new(program: &'a Program) -> CTypes<'a> {
        let mut tags = Names::default();
        let mut structs = HashMap::new();
        let mut members = HashMap::new();
        for (id, def) in &program.structs {
            structs.insert(id, tags.fresh(&format!("t_{}", def.name)));
            let mut names = Names::new([]);
            members.insert(id, def.fields.iter().map(|f| names.fresh(&f.name)).collect());
        }
        CTypes { program, shapes: Shapes::new(program), structs, members }
    }

    /// A type for a variable: `u16`, `struct t_conn`, `struct nf_array_u8_6`.
    pub fn name(&self, ty: Type) -> String {
        match ty {
            Type::Int { bits, signed } => int_name(bits, signed),
            Type::Struct(id) => format!("struct {}", self.structs[&id]),
            Type::Array(id) => format!("struct {}", self.array_tag(id)),
            Type::Packet => "struct nf_packet *".to_string(),
        }
    }

    fn array_tag(&self, id: ArrayId) -> String {
        let def = self.program.arrays[id];
        let elem = match def.elem {
            Type::Array(inner) => self.array_tag(inner).trim_start_matches("nf_array_").to_string(),
            Type::Struct(s) => self.structs[&s].clone(),
            other => self.name(other),
        };
        format!("nf_array_{elem}_{}", def.len)
    }

    /// The type through which a struct is read where it lies: wide accesses whatever the address.
    pub fn at_name(&self, id: StructId) -> String {
        format!("{}_at", self.structs[&id])
    }

    /// The name of a struct's member.
    pub fn member(&self, id: StructId, field: u32) -> &str {
        &self.members[&id][field as usize]
    }

    /// A member or variable declarator; raw C arrays for array types.
    fn declarator(&self, ty: Type, name: &str) -> String {
        match ty {
            Type::Array(id) => {
                let def = self.program.arrays[id];
                self.declarator(def.elem, &format!("{name}[{}]", def.len))
            }
            other => format!("{} {name}", self.name(other)),
        }
    }

    /// Statements that turn bytes from outside into a proper value of the type: padding, and bits
    /// that an integer narrower than its carrier does not have, become zero. Most types need none.
    pub fn canonical(&self, ty: Type, place: &str) -> Vec<String> {
        let mut lines = Vec::new();
        match ty {
            Type::Int { bits, .. } if !matches!(bits, 8 | 16 | 32 | 64) => {
                let carrier = int_name(if bits == 1 { 8 } else { bits }, false);
                let mask = literal(nicforge_ir::build::mask(u64::MAX, bits), Type::U64);
                lines.push(format!("*({carrier} *)&{place} &= {mask};"));
            }
            Type::Struct(_) | Type::Array(_) => {
                self.clear(
                    ty,
                    &Bytes { base: format!("(u8 *)&{place}"), at: 0, loops: 0 },
                    &mut lines,
                );
            }
            _ => {}
        }
        lines
    }

    /// True if bytes from outside may be no proper value of the type.
    pub fn has_padding(&self, ty: Type) -> bool {
        self.shapes.meaning(ty).iter().any(|byte| *byte != 0xff)
    }

    /// Statements that clear the bits at `to` that mean nothing in a value of the type.
    fn clear(&self, ty: Type, to: &Bytes, lines: &mut Vec<String>) {
        let meaning = self.shapes.meaning(ty);
        if meaning.iter().all(|byte| *byte == 0xff) {
            return;
        }
        match ty {
            Type::Array(id) if self.program.arrays[id].len > WRITTEN_OUT => {
                let def = self.program.arrays[id];
                let index = format!("nf_i{}", to.loops);
                let base =
                    format!("{} + {index} * {}", to.address(0), self.program.size_of(def.elem));
                lines.push(format!("for (u32 {index} = 0; {index} < {}; {index}++) {{", def.len));
                let mut inner = Vec::new();
                self.clear(def.elem, &Bytes { base, at: 0, loops: to.loops + 1 }, &mut inner);
                lines.extend(inner.iter().map(|line| format!("    {line}")));
                lines.push("}".to_string());
            }
            Type::Array(id) => {
                let def = self.program.arrays[id];
                let size = self.program.size_of(def.elem);
                (0..def.len).for_each(|i| self.clear(def.elem, &to.behind(i * size), lines));
            }
            Type::Struct(id) => {
                let (_, slots) = self.program.struct_layout(id);
                // What members clear themselves is left out here.
                let mut own = meaning;
                for (field, slot) in self.program.structs[id].fields.iter().zip(slots) {
                    if field.ty.is_aggregate() {
                        let (start, size) = (slot.bit_offset / 8, slot.bits / 8);
                        own[start as usize..(start + size) as usize].fill(0xff);
                        self.clear(field.ty, &to.behind(start), lines);
                    }
                }
                mask_bytes(&own, to, lines);
            }
            _ => mask_bytes(&meaning, to, lines),
        }
    }

    /// Declarations of all struct and array types, with a check of each size.
    pub fn declarations(&self) -> String {
        let mut out = String::new();
        for (id, def) in &self.program.structs {
            let (layout, slots) = self.program.struct_layout(id);
            let tag = &self.structs[&id];
            let _ = writeln!(out, "struct {tag} {{");
            let mut bit = 0;
            let mut pads = 0;
            let mut pad_to = |out: &mut String, bit: &mut u32, target: u32| {
                // Holes between bit-fields of one unit are bits, all others whole bytes.
                if !(*bit).is_multiple_of(8) && *bit < target {
                    let bits = (target - *bit).min(8 - *bit % 8);
                    let _ = writeln!(out, "    u8 nf_pad{pads} : {bits};");
                    pads += 1;
                    *bit += bits;
                }
                if *bit < target {
                    let _ = writeln!(out, "    u8 nf_pad{pads}[{}];", (target - *bit) / 8);
                    pads += 1;
                    *bit = target;
                }
            };
            for ((field, slot), name) in def.fields.iter().zip(&slots).zip(&self.members[&id]) {
                pad_to(&mut out, &mut bit, slot.bit_offset);
                match field.bit_width {
                    Some(width) => {
                        let _ = writeln!(out, "    {} {name} : {width};", self.name(field.ty));
                    }
                    None => {
                        let _ = writeln!(out, "    {};", self.declarator(field.ty, name));
                    }
                }
                bit = slot.bit_offset + slot.bits;
            }
            pad_to(&mut out, &mut bit, layout.size * 8);
            let _ = writeln!(out, "}} __attribute__((packed));");
            let _ = writeln!(out, "typedef struct {tag} {tag}_at NF_AT;");
            let _ = writeln!(
                out,
                "_Static_assert(sizeof(struct {tag}) == {}, \"layout of {tag}\");\n",
                layout.size
            );
        }
        for (id, def) in &self.program.arrays {
            let raw = self.declarator(def.elem, &format!("v[{}]", def.len));
            let _ = writeln!(
                out,
                "struct {} {{\n    {raw};\n}} __attribute__((packed));\n",
                self.array_tag(id)
            );
        }
        out
    }
}

/// Arrays of more elements are cleared in a loop.
const WRITTEN_OUT: u32 = 8;

/// Bytes in memory: `at` behind an address, within `loops` loops.
struct Bytes {
    base: String,
    at: u32,
    loops: u32,
}

impl Bytes {
    fn behind(&self, offset: u32) -> Bytes {
        Bytes { base: self.base.clone(), at: self.at + offset, loops: self.loops }
    }

    fn address(&self, offset: u32) -> String {
        match self.at + offset {
            0 => self.base.clone(),
            at => format!("{} + {at}", self.base),
        }
    }
}

/// Statements that keep of each byte the bits of its mask.
fn mask_bytes(masks: &[u8], to: &Bytes, lines: &mut Vec<String>) {
    let mut at = 0;
    while at < masks.len() {
        let run = masks[at..].iter().take_while(|mask| **mask == masks[at]).count();
        match masks[at] {
            0xff => {}
            0 => lines.push(format!("__builtin_memset({}, 0, {run});", to.address(at as u32))),
            mask => {
                let each = at..at + run;
                lines.extend(each.map(|at| format!("*({}) &= {mask};", to.address(at as u32))));
            }
        }
        at += run;
    }
}

/// An integer literal of a type.
pub fn literal(value: u64, ty: Type) -> String {
    let Type::Int { bits, signed } = ty else { return "0".to_string() };
    if bits == 1 && !signed {
        return if value != 0 { "true" } else { "false" }.to_string();
    }
    if signed {
        let shift = 64 - bits as u32;
        let signed_value = ((value << shift) as i64) >> shift;
        return match signed_value {
            i64::MIN => "(-9223372036854775807ll - 1)".to_string(),
            v if bits > 32 => format!("{v}ll"),
            -2147483648 => "(-2147483647 - 1)".to_string(),
            v => v.to_string(),
        };
    }
    let suffix = match bits {
        0..=16 => "",
        17..=32 => "u",
        _ => "ull",
    };
    if value > 255 { format!("0x{value:x}{suffix}") } else { format!("{value}{suffix}") }
}

/// The C integer that holds `uN`/`iN`.
pub fn int_name(bits: u8, signed: bool) -> String {
    if bits == 1 && !signed {
        return "bool".to_string();
    }
    let size = nicforge_ir::layout::int_layout(bits).size * 8;
    format!("{}{size}", if signed { 's' } else { 'u' })
}
