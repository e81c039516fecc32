//! Objects of older compilers and loaders in the form that libbpf takes.

use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSection, ObjectSymbol, SymbolKind};

use super::Elf;
use super::btf::{ARRAY, DATASEC, INT, PTR, STRUCT, VAR, behind, word};
use super::programs::functions;

/// Words of a definition, in the order of `struct bpf_map_def`, and of iproute2's structure too.
const MEMBERS: [&str; 5] = ["type", "key_size", "value_size", "max_entries", "map_flags"];
/// Bytes of a definition that BTF describes: a pointer for each member.
const SIZE: u32 = 8 * MEMBERS.len() as u32;
/// Bytes of a section's header, and of a symbol, in 64-bit ELF.
const HEADER: usize = 64;
const SYMBOL: usize = 24;

/// The object with what libbpf wants of it, for one that it may refuse: every function has a symbol
/// with type and size, entries are global, maps are described by BTF in section `.maps`. Bytes that
/// are no object come back as they are.
pub fn for_libbpf(bytes: &[u8]) -> Vec<u8> {
    let mut named = with_functions(bytes).unwrap_or_else(|| bytes.to_vec());
    without_pinning(&mut named);
    with_btf_maps(&named).unwrap_or(named)
}

/// Gives the member of maps another name that says how loaders pin them: some know more ways than
/// libbpf.
fn without_pinning(bytes: &mut [u8]) -> Option<()> {
    const NAME: &[u8] = b"\0pinning\0";
    let elf: Elf = ElfFile64::parse(&*bytes).ok()?;
    let (start, size) = elf.section_by_name(".BTF")?.file_range()?;
    let (start, size) = (usize::try_from(start).ok()?, usize::try_from(size).ok()?);
    let types = bytes.get_mut(start..start.checked_add(size)?)?;
    let at = types.windows(NAME.len()).position(|name| name == NAME)?;
    types[at + 1] = b'P';
    Some(())
}

/// The object with symbols that say where its functions are, as compilers write them since clang 9.
/// Programs with internal linkage, which loaders in other languages take, become global.
fn with_functions(bytes: &[u8]) -> Option<Vec<u8>> {
    let elf: Elf = ElfFile64::parse(bytes).ok()?;
    let symbols = usize::try_from(elf.section_by_name(".symtab")?.file_range()?.0).ok()?;
    let mut out = bytes.to_vec();
    for function in functions(&elf) {
        let section = elf.section_by_index(function.section).ok()?;
        let symbol = elf.symbol_by_index(function.symbol).ok()?;
        let is_entry = section.name().ok()? != ".text";
        let binding = match symbol.is_local() && !is_entry {
            true => object::elf::STB_LOCAL,
            false => object::elf::STB_GLOBAL,
        };
        let at = symbols.checked_add(SYMBOL * function.symbol.0)?;
        put(&mut out, at + 4, &[binding << 4 | object::elf::STT_FUNC])?;
        put(&mut out, at + 16, &function.size.to_le_bytes())?;
    }
    Some(out)
}

/// The object with its maps in section `.maps`, described by BTF; nothing if they are there, or it
/// is no such object.
fn with_btf_maps(bytes: &[u8]) -> Option<Vec<u8>> {
    let elf: Elf = ElfFile64::parse(bytes).ok()?;
    let section = elf.section_by_name("maps")?;
    let definitions = section.data().ok()?;
    let mut maps = Vec::new();
    let mut out = bytes.to_vec();
    let symbols = elf.section_by_name(".symtab")?.file_range()?.0 as usize;
    for symbol in elf.symbols() {
        let named = symbol.kind() != SymbolKind::Section && symbol.name().is_ok();
        if symbol.section_index() != Some(section.index()) || !named {
            continue;
        }
        let at = symbols.checked_add(SYMBOL * (symbol.index().0 + 1))? - SYMBOL;
        let info = object::elf::STB_GLOBAL << 4 | object::elf::STT_OBJECT;
        put(&mut out, at + 4, &[info])?;
        put(&mut out, at + 8, &(u64::from(SIZE) * maps.len() as u64).to_le_bytes())?;
        put(&mut out, at + 16, &u64::from(SIZE).to_le_bytes())?;
        let start = usize::try_from(symbol.address()).ok()?;
        let member = |n| word(definitions, start.saturating_add(4 * n)).unwrap_or(0);
        maps.push((symbol.name().ok()?.to_string(), std::array::from_fn(member)));
    }
    let of = |at: usize| {
        usize::try_from(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?)).ok()
    };
    let half =
        |at: usize| Some(usize::from(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?)));
    let (table, count, names) = (of(0x28)?, half(0x3c)?, half(0x3e)?);

    // Sections that change go to the end, with their headers.
    let mut headers = bytes.get(table..table.checked_add(HEADER * count)?)?.to_vec();
    let mut place = |headers: &mut Vec<u8>, index: usize, contents: &[u8]| {
        out.resize(out.len().next_multiple_of(8), 0);
        put(headers, HEADER * index + 24, &(out.len() as u64).to_le_bytes())?;
        put(headers, HEADER * index + 32, &(contents.len() as u64).to_le_bytes())?;
        out.extend(contents);
        Some(())
    };
    let mut strings = elf.section_by_index(object::SectionIndex(names)).ok()?.data().ok()?.to_vec();
    let name = strings.len() as u32;
    strings.extend(b".maps\0.BTF\0");
    place(&mut headers, names, &strings)?;
    put(&mut headers, HEADER * section.index().0, &name.to_le_bytes())?;
    place(&mut headers, section.index().0, &vec![0; SIZE as usize * maps.len()])?;
    let known = elf.section_by_name(".BTF");
    let btf = known.as_ref().and_then(|section| section.data().ok()).unwrap_or(&NO_TYPES);
    let index = known.as_ref().map_or(count, |section| section.index().0);
    if known.is_none() {
        headers.resize(HEADER * (count + 1), 0);
        put(&mut headers, HEADER * index, &(name + 6).to_le_bytes())?;
        put(&mut headers, HEADER * index + 4, &object::elf::SHT_PROGBITS.to_le_bytes())?;
        put(&mut headers, HEADER * index + 48, &1u64.to_le_bytes())?;
    }
    place(&mut headers, index, &described(btf, &maps)?)?;
    out.resize(out.len().next_multiple_of(8), 0);
    let table = out.len() as u64;
    out.extend(&headers);
    put(&mut out, 0x28, &table.to_le_bytes())?;
    put(&mut out, 0x3c, &((headers.len() / HEADER) as u16).to_le_bytes())?;
    Some(out)
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) -> Option<()> {
    bytes.get_mut(at..at.checked_add(value.len())?)?.copy_from_slice(value);
    Some(())
}

/// BTF of nothing: magic number, version, length of the header, no types, one empty string.
const NO_TYPES: [u8; 25] =
    [0x9f, 0xeb, 1, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];

/// Types and strings of BTF that grow.
struct Types {
    types: Vec<u8>,
    strings: Vec<u8>,
    /// Number of the next type.
    next: u32,
}

impl Types {
    fn string(&mut self, text: &str) -> u32 {
        let at = self.strings.len() as u32;
        self.strings.extend(text.bytes().chain([0]));
        at
    }

    /// Adds a type with `size` (or the type it refers to) and the words behind it; its number.
    fn add(&mut self, name: u32, kind: u32, count: u32, size: u32, behind: &[u32]) -> u32 {
        for word in [name, kind << 24 | count, size].iter().chain(behind) {
            self.types.extend(word.to_le_bytes());
        }
        self.next += 1;
        self.next - 1
    }
}

/// BTF with definitions of the maps.
fn described(btf: &[u8], maps: &[(String, [u32; 5])]) -> Option<Vec<u8>> {
    let header = word(btf, 4)? as usize;
    let part = |at: usize| {
        let start = header.checked_add(word(btf, at)? as usize)?;
        btf.get(start..start.checked_add(word(btf, at + 4)? as usize)?)
    };
    let (types, strings) = (part(8)?.to_vec(), part(16)?.to_vec());
    let mut all = Types { types, strings, next: 1 };
    // Where each type begins, and where section `maps` is.
    let (mut starts, mut section, mut at) = (vec![0], None, 0);
    while let (Some(name), Some(info)) = (word(&all.types, at), word(&all.types, at + 4)) {
        let (kind, count) = (info >> 24 & 31, info as usize & 0xffff);
        if kind == DATASEC && all.strings.get(name as usize..)?.starts_with(b"maps\0") {
            section = Some((at, count));
        }
        starts.push(at);
        at += 12 + behind(kind, count);
        all.next += 1;
    }
    let int = all.string("int");
    let int = all.add(int, INT, 0, 4, &[1 << 24 | 32]);
    let members = MEMBERS.map(|name| all.string(name));
    let dotted = all.string(".maps");
    let mut listed = Vec::new();
    for (nth, (name, values)) in maps.iter().enumerate() {
        let mut of = Vec::new();
        for (nth, (member, value)) in members.iter().zip(values).enumerate() {
            let array = all.add(0, ARRAY, 0, 0, &[int, int, *value]);
            let pointer = all.add(0, PTR, 0, array, &[]);
            of.extend([*member, pointer, 64 * nth as u32]);
        }
        let structure = all.add(0, STRUCT, MEMBERS.len() as u32, SIZE, &of);
        let own = format!("{name}\0");
        match section {
            // Of the section's variables only the types change.
            Some((at, count)) => {
                for entry in (0..count).map(|entry| at + 12 + 12 * entry) {
                    let var = *starts.get(word(&all.types, entry)? as usize)?;
                    let name = word(&all.types, var)? as usize;
                    if all.strings.get(name..)?.starts_with(own.as_bytes()) {
                        put(&mut all.types, var + 8, &structure.to_le_bytes())?;
                        put(&mut all.types, entry + 8, &SIZE.to_le_bytes())?;
                    }
                }
            }
            None => {
                let name = all.string(name);
                let var = all.add(name, VAR, 0, structure, &[1]);
                listed.extend([var, SIZE * nth as u32, SIZE]);
            }
        }
    }
    match section {
        Some((at, _)) => put(&mut all.types, at, &dotted.to_le_bytes())?,
        None => _ = all.add(dotted, DATASEC, maps.len() as u32, 0, &listed),
    }
    let mut out = btf.get(..8)?.to_vec();
    let (types, strings) = (all.types.len() as u32, all.strings.len() as u32);
    for word in [0, types, types, strings] {
        out.extend(word.to_le_bytes());
    }
    out.resize(header, 0);
    out.extend(all.types.iter().chain(&all.strings));
    Some(out)
}
