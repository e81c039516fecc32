//! RV32 ELF files: linked programs as segments to load, sections and symbols; objects as sections
//! and symbols only.

use object::read::elf::{ElfFile32, FileHeader, ProgramHeader};
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, SectionFlags, elf};

/// A piece of memory that is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub address: u32,
    /// Contents, which `size` continues with zeros.
    pub bytes: Vec<u8>,
    pub size: u32,
    pub executable: bool,
    pub writable: bool,
}

/// A section that takes up memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    pub name: String,
    pub address: u32,
    /// Contents; empty for zeros.
    pub bytes: Vec<u8>,
    pub size: u32,
    pub executable: bool,
    pub writable: bool,
}

/// A named address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    pub name: String,
    pub address: u32,
    pub size: u32,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    pub entry: u32,
    /// Empty for objects that are not linked.
    pub segments: Vec<Segment>,
    pub sections: Vec<Section>,
    /// By address.
    pub symbols: Vec<Symbol>,
}

/// Why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    #[error("not a readable 32-bit ELF file: {0}; compile with `-march=rv32imac -mabi=ilp32`")]
    Elf(String),
    #[error(
        "for machine {0}, not for RISC-V (243); compile with riscv64-unknown-elf-gcc -march=rv32imac -mabi=ilp32"
    )]
    Machine(u16),
    #[error("big-endian; RISC-V is run little-endian only")]
    BigEndian,
    #[error("{what} at {address:#x}: {reason}")]
    Part { what: String, address: u64, reason: String },
}

impl Image {
    /// The symbol with this name.
    pub fn symbol(&self, name: &str) -> Option<&Symbol> {
        self.symbols.iter().find(|symbol| symbol.name == name)
    }

    /// The last symbol at or before an address, which contains it if it has a size.
    pub fn symbol_at(&self, address: u32) -> Option<&Symbol> {
        let behind = self.symbols.partition_point(|symbol| symbol.address <= address);
        self.symbols[..behind]
            .iter()
            .rev()
            .find(|symbol| symbol.size == 0 || address - symbol.address < symbol.size)
    }
}

/// Reads a file.
///
/// # Errors
/// See [`ImageError`].
pub fn parse(bytes: &[u8]) -> Result<Image, ImageError> {
    read(bytes, elf::EM_RISCV)
}

/// Reads a file of the x32 ABI: x86-64 instructions, 32-bit addresses. Handlers have this form
/// where they run on this computer itself.
///
/// # Errors
/// See [`ImageError`].
pub fn parse_x32(bytes: &[u8]) -> Result<Image, ImageError> {
    read(bytes, elf::EM_X86_64)
}

/// Contents of a section that is not loaded, by name.
pub fn contents<'a>(bytes: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let file: ElfFile32<Endianness> = ElfFile32::parse(bytes).ok()?;
    file.section_by_name(name)?.data().ok()
}

fn read(bytes: &[u8], wanted: u16) -> Result<Image, ImageError> {
    let file: ElfFile32<Endianness> =
        ElfFile32::parse(bytes).map_err(|error| ImageError::Elf(error.to_string()))?;
    let endian = file.endian();
    let header = file.elf_header();
    let machine = header.e_machine(endian);
    if machine != wanted {
        return Err(ImageError::Machine(machine));
    }
    if endian == Endianness::Big {
        return Err(ImageError::BigEndian);
    }
    let mut image = Image { entry: header.e_entry(endian), ..Image::default() };
    for program in file.elf_program_headers() {
        if program.p_type(endian) != elf::PT_LOAD {
            continue;
        }
        let (address, size) = (program.p_vaddr(endian), program.p_memsz(endian));
        let fail = |reason: &str| ImageError::Part {
            what: "segment".to_string(),
            address: u64::from(address),
            reason: reason.to_string(),
        };
        let contents =
            program.data(endian, bytes).map_err(|()| fail("its contents are outside the file"))?;
        if contents.len() > size as usize {
            return Err(fail("it has more bytes in the file than in memory"));
        }
        if address.checked_add(size).is_none() {
            return Err(fail("it does not fit 32-bit addresses"));
        }
        let flags = program.p_flags(endian);
        image.segments.push(Segment {
            address,
            bytes: contents.to_vec(),
            size,
            executable: flags & elf::PF_X != 0,
            writable: flags & elf::PF_W != 0,
        });
    }
    for section in file.sections() {
        let SectionFlags::Elf { sh_flags } = section.flags() else { continue };
        if sh_flags & u64::from(elf::SHF_ALLOC) == 0 {
            continue;
        }
        let name = section.name().unwrap_or_default().to_string();
        let (address, size) = (section.address(), section.size());
        let fail = |reason: String| ImageError::Part {
            what: format!("section `{name}`"),
            address,
            reason,
        };
        let contents = section.data().map_err(|error| fail(error.to_string()))?.to_vec();
        let (Ok(start), Ok(size)) = (u32::try_from(address), u32::try_from(size)) else {
            return Err(fail("it does not fit 32-bit addresses".to_string()));
        };
        image.sections.push(Section {
            name,
            address: start,
            bytes: contents,
            size,
            executable: sh_flags & u64::from(elf::SHF_EXECINSTR) != 0,
            writable: sh_flags & u64::from(elf::SHF_WRITE) != 0,
        });
    }
    image.symbols = file
        .symbols()
        .filter(|symbol| symbol.is_definition() || symbol.is_global() && !symbol.is_undefined())
        .filter_map(|symbol| {
            let name =
                symbol.name().ok().filter(|name| !name.is_empty() && !name.starts_with('$'))?;
            let (address, size) =
                (u32::try_from(symbol.address()).ok()?, u32::try_from(symbol.size()).ok()?);
            Some(Symbol { name: name.to_string(), address, size })
        })
        .collect();
    image.symbols.sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
    Ok(image)
}

/// A program of one segment that may be read, written and executed, entered at its first byte: what
/// tests and benchmarks give to other machines.
pub fn write(address: u32, contents: &[u8]) -> Vec<u8> {
    const HEADERS: u32 = 52 + 32;
    let size = contents.len() as u32;
    let mut file = Vec::with_capacity(HEADERS as usize + contents.len());
    file.extend_from_slice(&[0x7f, b'E', b'L', b'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    for half in [elf::ET_EXEC, elf::EM_RISCV] {
        file.extend_from_slice(&half.to_le_bytes());
    }
    for word in [1, address, 52, 0, elf::EF_RISCV_RVC] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for half in [52u16, 32, 1, 40, 0, 0] {
        file.extend_from_slice(&half.to_le_bytes());
    }
    // Loaders map whole pages, so the place in the file has the address's offset in its page.
    let offset = HEADERS.next_multiple_of(0x1000) + address % 0x1000;
    for word in [elf::PT_LOAD, offset, address, address, size, size, 7, 0x1000] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    file.resize(offset as usize, 0);
    file.extend_from_slice(contents);
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let image = parse(&write(0x1_0004, &[1, 2, 3, 4])).unwrap();
        assert_eq!(image.entry, 0x1_0004);
        let [segment] = &image.segments[..] else { panic!("{image:?}") };
        assert_eq!((segment.address, segment.size, segment.executable), (0x1_0004, 4, true));
        assert_eq!(segment.bytes, [1, 2, 3, 4]);
    }

    #[test]
    fn symbols_contain_addresses() {
        let symbol = |name: &str, address, size| Symbol { name: name.to_string(), address, size };
        let symbols = vec![symbol("label", 0x10, 0), symbol("f", 0x20, 8), symbol("g", 0x30, 8)];
        let image = Image { symbols, ..Image::default() };
        let name = |address| image.symbol_at(address).map(|symbol| symbol.name.as_str());
        assert_eq!([name(0xf), name(0x10), name(0x27)], [None, Some("label"), Some("f")]);
        assert_eq!(name(0x28), Some("label"), "not in `f`, which ends before");
        assert_eq!(image.symbol("g").map(|symbol| symbol.address), Some(0x30));
    }

    #[test]
    fn other_files_are_refused_with_a_reason() {
        let good = write(0x1000, &[0; 8]);
        let said = |at: usize, bytes: &[u8]| {
            let mut file = good.clone();
            file[at..at + bytes.len()].copy_from_slice(bytes);
            parse(&file).unwrap_err().to_string()
        };
        assert_eq!(
            said(18, &[62, 0]),
            "for machine 62, not for RISC-V (243); compile with riscv64-unknown-elf-gcc -march=rv32imac -mabi=ilp32"
        );
        assert!(said(4, &[2]).starts_with("not a readable 32-bit ELF file: "));
        // Size in the file, size in memory, address.
        assert_eq!(
            said(52 + 16, &0x1_0000u32.to_le_bytes()),
            "segment at 0x1000: its contents are outside the file"
        );
        assert_eq!(
            said(52 + 20, &7u32.to_le_bytes()),
            "segment at 0x1000: it has more bytes in the file than in memory"
        );
        assert_eq!(
            said(52 + 8, &0xffff_fffcu32.to_le_bytes()),
            "segment at 0xfffffffc: it does not fit 32-bit addresses"
        );
    }
}
