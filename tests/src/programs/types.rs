//! Types of generated programs: integers, structs with members of all kinds, arrays.

use std::fmt::Write;

use super::rng::Rng;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ty {
    Int(&'static str),
    Struct(usize),
    Array(Box<Ty>, u32),
}

pub const INTS: [&str; 12] = [
    "uint8_t", "uint16_t", "uint32_t", "uint64_t", "int8_t", "int16_t", "int32_t", "int64_t",
    "bool", "nf_be16", "nf_be32", "uint32_t",
];

#[derive(Clone, Debug)]
pub struct Member {
    pub name: String,
    pub ty: Ty,
    /// Width of a bit-field.
    pub bits: Option<u32>,
}

#[derive(Clone, Debug)]
pub struct Def {
    pub packed: bool,
    pub members: Vec<Member>,
    /// At most so many bytes.
    pub size: u32,
    /// Its members are those of a union, which it has with a name or without.
    pub union: Option<bool>,
}

impl Def {
    /// True if each bit is a member's.
    fn is_dense(&self, before: &[Def]) -> bool {
        self.packed && self.members.iter().all(|m| m.bits.is_none() && is_dense(&m.ty, before))
    }

    /// Members with all its bytes.
    pub fn whole(&self, defs: &[Def]) -> Vec<Member> {
        self.members.iter().filter(|m| size(&m.ty, defs) == self.size).cloned().collect()
    }
}

fn is_dense(ty: &Ty, before: &[Def]) -> bool {
    match ty {
        Ty::Int(int) => *int != "bool",
        Ty::Struct(id) => before[*id].is_dense(before),
        Ty::Array(elem, _) => is_dense(elem, before),
    }
}

fn size(ty: &Ty, defs: &[Def]) -> u32 {
    match ty {
        Ty::Int(int) => width(int) / 8,
        Ty::Struct(id) => defs[*id].size,
        Ty::Array(elem, len) => size(elem, defs) * len,
    }
}

pub fn width(int: &str) -> u32 {
    match int {
        "uint8_t" | "int8_t" | "bool" => 8,
        "uint16_t" | "int16_t" | "nf_be16" => 16,
        "uint64_t" | "int64_t" => 64,
        _ => 32,
    }
}

/// Structs, later ones with earlier ones inside; with bits that mean nothing, or without.
pub fn structs(r: &mut Rng, padding: bool) -> Vec<Def> {
    let mut found: Vec<Def> = Vec::new();
    for number in 0..2 + r.below(3) {
        let packed = r.percent(40) || !padding;
        if number > 0 && padding && r.percent(30) {
            let union = Some(r.percent(50));
            found.push(union_of(r, &found, Def { packed, members: Vec::new(), size: 0, union }));
            continue;
        }
        let mut def = Def { packed, members: Vec::new(), size: 0, union: None };
        for m in 0..1 + r.below(5) {
            let (ty, bits, size) = member(r, &found[..number], padding);
            if def.size + size > 28 {
                break;
            }
            def.size += size;
            def.members.push(Member { name: format!("m{m}"), ty, bits });
        }
        if def.members.is_empty() {
            def.members.push(Member { name: "m0".into(), ty: Ty::Int("uint32_t"), bits: None });
            def.size = 4;
        }
        found.push(def);
    }
    found
}

/// Members that lie over each other, without bits that are nobody's: C does not say what becomes of
/// those of the others.
fn union_of(r: &mut Rng, before: &[Def], mut def: Def) -> Def {
    let name = |m: usize| if def.union == Some(true) { format!("u.m{m}") } else { format!("m{m}") };
    let mut members = Vec::new();
    while members.len() < 2 || (members.len() < 4 && r.percent(50)) {
        let (ty, bits, bytes) = member(r, before, false);
        if bytes <= 16 && is_dense(&ty, before) {
            def.size = def.size.max(bytes);
            members.push(Member { name: name(members.len()), ty, bits });
        }
    }
    def.members = members;
    def
}

/// A member's type, bits, and most bytes it takes with what is in front.
fn member(r: &mut Rng, before: &[Def], padding: bool) -> (Ty, Option<u32>, u32) {
    let int = *r.pick(&INTS);
    let int = if int == "bool" && !padding { "uint8_t" } else { int };
    let bytes = width(int) / 8;
    match r.below(10) {
        0..4 => (Ty::Int(int), None, bytes),
        4..7 if padding => {
            let base = r.of(&[
                "uint8_t", "uint16_t", "uint32_t", "uint64_t", "int8_t", "int16_t", "int32_t",
                "int64_t",
            ]);
            let wide = width(base);
            let bits = if r.percent(50) {
                1 + r.below(7) as u32
            } else {
                1 + r.below(wide as usize) as u32
            };
            (Ty::Int(base), Some(bits.min(wide)), wide / 8)
        }
        7 => {
            let len = 1 + r.below(4) as u32;
            (Ty::Array(Box::new(Ty::Int(int)), len), None, bytes * len)
        }
        4..7 => (Ty::Int(int), None, bytes),
        _ if before.is_empty() => (Ty::Int(int), None, bytes),
        8 => {
            let of = r.below(before.len());
            (Ty::Struct(of), None, before[of].size)
        }
        _ => {
            let (of, len) = (r.below(before.len()), 1 + r.below(3) as u32);
            (Ty::Array(Box::new(Ty::Struct(of)), len), None, before[of].size * len)
        }
    }
}

/// `type name` as C declares it.
pub fn declare(ty: &Ty, name: &str) -> String {
    match ty {
        Ty::Int(int) => format!("{int} {name}"),
        Ty::Struct(id) => format!("struct s{id} {name}"),
        Ty::Array(elem, len) => declare(elem, &format!("{name}[{len}]")),
    }
}

/// The name of a type that is no array.
pub fn named(ty: &Ty) -> String {
    declare(ty, "").trim_end().to_string()
}

pub fn print(defs: &[Def]) -> String {
    let mut text = String::new();
    for (number, def) in defs.iter().enumerate() {
        let packed = if def.packed { " __attribute__((packed))" } else { "" };
        let _ = writeln!(text, "struct s{number} {{");
        if def.union.is_some() {
            let _ = writeln!(text, "union {{");
        }
        for member in &def.members {
            let bits = member.bits.map_or(String::new(), |bits| format!(" : {bits}"));
            let name = member.name.trim_start_matches("u.");
            let _ = writeln!(text, "    {}{bits};", declare(&member.ty, name));
        }
        if let Some(named) = def.union {
            let _ = writeln!(text, "}}{packed} {};", if named { "u" } else { "" });
        }
        let _ = writeln!(text, "}}{packed};\n");
    }
    text
}
