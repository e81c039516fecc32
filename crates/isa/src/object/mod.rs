//! BPF object files: programs with everything they call, and maps.
//!
//! A program comes out as one instruction stream: the function, then the functions it calls, with
//! calls made relative to it. `lddw` of a map gets source 1 and the map's index, `lddw` of global
//! data source 2, the index of its section among the maps, and the offset. Legacy (`maps`) and BTF
//! (`.maps`) definitions are read. Members of the kernel's structures are where the kernel has
//! them.

mod btf;
mod fields;
mod older;
mod programs;
pub mod riscv;
mod slots;

pub use btf::Shape;
pub use older::for_libbpf;
pub use slots::Slots;

use std::collections::HashMap;

use object::read::elf::{ElfFile64, FileHeader};
use object::{
    Endianness, Object as _, ObjectSection, ObjectSymbol, RelocationTarget, SectionIndex,
    SymbolKind,
};

use crate::ebpf::{self, Insn};

/// A source line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    pub file: String,
    pub line: u32,
    /// What stands there.
    pub text: String,
}

/// A program that can be entered.
#[derive(Clone, Debug)]
pub struct Program {
    pub name: String,
    pub section: String,
    pub insns: Vec<Insn>,
    pub lines: Vec<Option<Line>>,
}

/// A map of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    pub name: String,
    /// Number of the map type in the kernel's interface; `None` for global data.
    pub kind: Option<u32>,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    /// Initial contents of global data.
    pub data: Vec<u8>,
    /// Global data that programs cannot write.
    pub constant: bool,
}

/// Divisions of a map's keys and values into members, where BTF says them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shapes {
    pub key: Option<Shape>,
    pub value: Option<Shape>,
}

impl Map {
    /// True if global data is zero at first, or the map has none.
    pub fn is_zero(&self) -> bool {
        self.data.iter().all(|byte| *byte == 0)
    }

    /// Takes a map with a value per CPU, or one that evicts, for the plain hash map or array.
    pub fn make_plain(&mut self) {
        // Hash map: per CPU, with eviction, both. Array: per CPU.
        self.kind = self.kind.map(|kind| match kind {
            5 | 9 | 10 => 1,
            6 => 2,
            kind => kind,
        });
    }
}

/// An object file.
#[derive(Clone, Debug, Default)]
pub struct Object {
    pub programs: Vec<Program>,
    pub maps: Vec<Map>,
    /// One for each map.
    pub shapes: Vec<Shapes>,
    pub globals: Vec<Global>,
    /// Functions and addresses that it names and does not hold: those of the kernel.
    pub externs: Vec<String>,
    pub slots: Slots,
}

/// A variable of global data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    pub name: String,
    /// The map of its section.
    pub map: usize,
    pub off: usize,
    pub size: usize,
}

/// Map types from number 1 on, as the kernel's interface numbers them.
const MAP_TYPES: [&str; 33] = [
    "hash",
    "array",
    "prog_array",
    "perf_event_array",
    "percpu_hash",
    "percpu_array",
    "stack_trace",
    "cgroup_array",
    "lru_hash",
    "lru_percpu_hash",
    "lpm_trie",
    "array_of_maps",
    "hash_of_maps",
    "devmap",
    "sockmap",
    "cpumap",
    "xskmap",
    "sockhash",
    "cgroup_storage",
    "reuseport_sockarray",
    "percpu_cgroup_storage",
    "queue",
    "stack",
    "sk_storage",
    "devmap_hash",
    "struct_ops",
    "ringbuf",
    "inode_storage",
    "task_storage",
    "bloom_filter",
    "user_ringbuf",
    "cgrp_storage",
    "arena",
];

/// A map type's name, or its number where the name is not known.
pub fn map_type_name(kind: u32) -> String {
    let name = (kind as usize).checked_sub(1).and_then(|index| MAP_TYPES.get(index));
    name.map_or_else(|| format!("number {kind}"), |name| (*name).to_string())
}

/// Why an object cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    #[error("not a readable ELF object: {0}")]
    Elf(String),
    #[error("an object for machine {0}, not for BPF (247); compile with `clang -target bpf`")]
    Machine(u16),
    #[error("big-endian BPF; compile with `clang -target bpfel`")]
    BigEndian,
    #[error("section `{section}`: {reason}")]
    Section { section: String, reason: String },
}

/// Source of `lddw`: a map's address, and the address of a value in it.
pub const PSEUDO_MAP: u8 = 1;
pub const PSEUDO_VALUE: u8 = 2;
/// The address of something that the kernel has, or that nobody knows.
pub const PSEUDO_KERNEL: u8 = 3;
/// The immediate is where a function is, as in a call.
pub const PSEUDO_FUNCTION: u8 = 4;
const PSEUDO_CALL: u8 = 1;
/// Source of a call of a function of the kernel, whose number the loader fills in.
const KERNEL_CALL: u8 = 2;
const RELOCATE_ADDRESS: u32 = 1;
const RELOCATE_CALL: u32 = 10;
/// Most instructions of a program, as in the kernel.
const MAX_INSNS: usize = 1_000_000;

/// The machine that BPF objects are for.
pub const MACHINE: u16 = object::elf::EM_BPF;

/// True if bytes begin as ELF files do.
pub fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

/// Places of an object's instructions in its file, 8 bytes each; none if it is no ELF file.
pub fn instructions(bytes: &[u8]) -> Vec<usize> {
    let Ok(elf) = ElfFile64::<Endianness>::parse(bytes) else { return Vec::new() };
    let ranges = elf.sections().filter(|section| is_code(&elf, section.index()));
    let ranges = ranges.filter_map(|section| section.file_range());
    ranges
        .flat_map(|(from, size)| (from..from + size / 8 * 8).step_by(8))
        .map(|at| at as usize)
        .collect()
}

/// Targets of relocations of instructions.
#[derive(Clone, Copy)]
enum Reference {
    Map(usize),
    Value(usize, i64),
    Call(SectionIndex, u64),
    Function(SectionIndex, u64),
    /// Something that the object names and does not hold, by its number in `externs`.
    Extern(usize),
    Unknown,
}

struct Code {
    insns: Vec<Insn>,
    references: HashMap<usize, Reference>,
    lines: HashMap<usize, Line>,
    name: String,
}

/// Reads an object.
///
/// # Errors
/// See [`ObjectError`]. Sections that hold no programs are not looked at.
pub fn parse(bytes: &[u8]) -> Result<Object, ObjectError> {
    let elf: ElfFile64<Endianness> =
        ElfFile64::parse(bytes).map_err(|e| ObjectError::Elf(e.to_string()))?;
    let machine = elf.elf_header().e_machine(elf.endian());
    if machine != object::elf::EM_BPF {
        return Err(ObjectError::Machine(machine));
    }
    if elf.endian() == Endianness::Big {
        return Err(ObjectError::BigEndian);
    }
    let contents = |name: &str| elf.section_by_name(name).and_then(|section| section.data().ok());
    let btf = contents(".BTF").and_then(btf::Btf::parse);
    let mut maps = Vec::new();
    let mut places: HashMap<(SectionIndex, u64), usize> = HashMap::new();
    let shapes = btf.as_ref().map(|btf| btf.maps()).unwrap_or_default();
    let mut divided = Vec::new();
    find_maps(&elf, &shapes, &mut maps, &mut divided, &mut places);
    let data = find_data(&elf, btf.as_ref(), &mut maps, &mut divided);
    let undefined = elf.symbols().filter(ObjectSymbol::is_undefined);
    let externs: Vec<String> =
        undefined.filter_map(|symbol| symbol.name().ok().map(str::to_string)).collect();

    let mut code: HashMap<SectionIndex, Code> = HashMap::new();
    for section in elf.sections() {
        if !is_code(&elf, section.index()) || section.size() == 0 {
            continue;
        }
        let name = section.name().unwrap_or_default().to_string();
        let fail = |reason: String| ObjectError::Section { section: name.clone(), reason };
        let bytes = section.data().map_err(|e| fail(e.to_string()))?;
        let insns = ebpf::decode(bytes).map_err(fail)?;
        let mut references = HashMap::new();
        for (offset, relocation) in section.relocations() {
            let at = (offset / 8) as usize;
            let reference = reference(&elf, &relocation, insns.get(at), &places, &data, &externs);
            references.insert(at, reference);
        }
        code.insert(
            section.index(),
            Code { insns, references, lines: HashMap::new(), name: name.clone() },
        );
    }
    if let (Some(btf), Some(ext)) = (&btf, contents(".BTF.ext")) {
        for found in btf.lines(ext) {
            if let Some(code) = code.values_mut().find(|code| code.name == found.section) {
                let (file, text) = (found.file.to_string(), found.text.to_string());
                let line = Line { file, line: found.line, text };
                code.lines.insert((found.offset / 8) as usize, line);
            }
        }
        for used in btf.fields(ext) {
            let of = |code: &&mut Code| code.name == used.section;
            let insns = code.values_mut().find(of).map(|code| &mut code.insns);
            if let Some(insn) = insns.and_then(|insns| insns.get_mut((used.at / 8) as usize)) {
                fields::relocate(insn, &used);
            }
        }
    }
    let programs = programs::find(&elf, &code)?;
    let slots = slots::find(&elf, btf.as_ref(), &maps, &programs);
    let (programs, globals) = (programs.list, globals(&elf, &data));
    Ok(Object { programs, maps, shapes: divided, globals, externs, slots })
}

type Elf<'a> = ElfFile64<'a, Endianness>;

fn find_maps(
    elf: &Elf,
    shapes: &HashMap<String, btf::MapShape>,
    maps: &mut Vec<Map>,
    divided: &mut Vec<Shapes>,
    places: &mut HashMap<(SectionIndex, u64), usize>,
) {
    for symbol in elf.symbols() {
        let Some(index) = symbol.section_index() else { continue };
        let Ok(section) = elf.section_by_index(index) else { continue };
        let (section_name, name) =
            (section.name().unwrap_or_default(), symbol.name().unwrap_or_default());
        if name.is_empty() || symbol.kind() == SymbolKind::Section {
            continue;
        }
        let shape = match section_name {
            ".maps" => shapes.get(name).cloned().unwrap_or_default(),
            "maps" => {
                let data = section.data().unwrap_or_default();
                let at = |word: u64| {
                    let start = usize::try_from(symbol.address() + 4 * word).ok()?;
                    Some(u32::from_le_bytes(
                        data.get(start..start.checked_add(4)?)?.try_into().ok()?,
                    ))
                };
                let word = |n| at(n).unwrap_or(0);
                btf::MapShape {
                    kind: word(0),
                    key_size: word(1),
                    value_size: word(2),
                    max_entries: word(3),
                    ..Default::default()
                }
            }
            _ => continue,
        };
        places.insert((index, symbol.address()), maps.len());
        maps.push(Map {
            name: name.to_string(),
            kind: Some(shape.kind),
            key_size: shape.key_size,
            value_size: shape.value_size,
            max_entries: shape.max_entries,
            data: Vec::new(),
            constant: false,
        });
        divided.push(Shapes { key: shape.key, value: shape.value });
    }
}

/// Global data: one map per section.
fn find_data(
    elf: &Elf,
    btf: Option<&btf::Btf>,
    maps: &mut Vec<Map>,
    divided: &mut Vec<Shapes>,
) -> HashMap<SectionIndex, usize> {
    let mut found = HashMap::new();
    for section in elf.sections() {
        let name = section.name().unwrap_or_default();
        let constant = name.starts_with(".rodata");
        // A section of zeroes takes no room in the file and may claim any size.
        if section.size() > 1 << 24
            || !(constant || name.starts_with(".data") || name.starts_with(".bss"))
        {
            continue;
        }
        let mut data = section.data().unwrap_or_default().to_vec();
        data.resize(section.size() as usize, 0);
        found.insert(section.index(), maps.len());
        let value_size = data.len() as u32;
        let shape = btf.filter(|_| !constant).and_then(|btf| btf.section(name));
        let value = shape.map(|members| Shape::Struct {
            size: value_size,
            members: placed(elf, section.index(), members),
        });
        maps.push(Map {
            name: name.to_string(),
            kind: None,
            key_size: 4,
            value_size,
            max_entries: 1,
            data,
            constant,
        });
        divided.push(Shapes { key: None, value });
    }
    found
}

/// Variables that have a symbol.
fn globals(elf: &Elf, data: &HashMap<SectionIndex, usize>) -> Vec<Global> {
    let one = |symbol: object::read::elf::ElfSymbol64<'_, '_, Endianness>| {
        let map = *data.get(&symbol.section_index()?)?;
        let name = symbol.name().ok().filter(|name| !name.is_empty())?.to_string();
        let (off, size) = (symbol.address().try_into().ok()?, symbol.size().try_into().ok()?);
        (symbol.kind() == SymbolKind::Data).then_some(Global { name, map, off, size })
    };
    elf.symbols().filter_map(one).collect()
}

/// Variables of a section where its symbols say they are: in BTF compilers leave places to loaders.
fn placed(
    elf: &Elf,
    section: SectionIndex,
    mut members: Vec<(String, u32, Shape)>,
) -> Vec<(String, u32, Shape)> {
    members.retain_mut(|(name, place, _)| {
        let found = elf.symbols().find(|symbol| {
            symbol.section_index() == Some(section) && symbol.name() == Ok(name.as_str())
        });
        *place = found.map_or(0, |symbol| symbol.address() as u32);
        found.is_some()
    });
    members
}

fn reference(
    elf: &Elf,
    relocation: &object::Relocation,
    insn: Option<&Insn>,
    places: &HashMap<(SectionIndex, u64), usize>,
    data: &HashMap<SectionIndex, usize>,
    externs: &[String],
) -> Reference {
    let (RelocationTarget::Symbol(symbol), Some(insn)) = (relocation.target(), insn) else {
        return Reference::Unknown;
    };
    let Ok(symbol) = elf.symbol_by_index(symbol) else { return Reference::Unknown };
    let Some(section) = symbol.section_index() else {
        let named = symbol.name().ok().and_then(|name| externs.iter().position(|e| e == name));
        return named.map_or(Reference::Unknown, Reference::Extern);
    };
    let kind = match relocation.flags() {
        object::RelocationFlags::Elf { r_type } => r_type,
        _ => 0,
    };
    match kind {
        RELOCATE_CALL => {
            // Calls to a section's symbol have the target in the immediate, one too few.
            let inside = if symbol.kind() == SymbolKind::Section {
                8 * (i64::from(insn.imm) + 1)
            } else {
                0
            };
            Reference::Call(section, symbol.address().wrapping_add_signed(inside))
        }
        RELOCATE_ADDRESS => match (places.get(&(section, symbol.address())), data.get(&section)) {
            (Some(map), _) => Reference::Map(*map),
            (_, Some(map)) => Reference::Value(*map, symbol.address() as i64 + i64::from(insn.imm)),
            // The function's address in its section is in the symbol or, of a section's symbol, in
            // the immediate.
            _ if insn.code == ebpf::LDDW && is_code(elf, section) => {
                Reference::Function(section, symbol.address().wrapping_add_signed(insn.imm.into()))
            }
            _ => Reference::Unknown,
        },
        _ => Reference::Unknown,
    }
}

fn is_code(elf: &Elf, section: SectionIndex) -> bool {
    elf.section_by_index(section).is_ok_and(|found| found.kind() == object::SectionKind::Text)
}
