//! Contents of maps of programs and maps, as far as the object says them.

use std::collections::BTreeMap;

use object::read::elf::ElfSymbol64;
use object::{Endianness, Object as _, ObjectSection, ObjectSymbol, RelocationTarget, SymbolKind};

use super::btf::{Btf, word};
use super::programs::Programs;
use super::{Elf, Map};

/// Contents of maps that the object itself decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// Programs by map and slot, as places in the object's lists.
    pub programs: BTreeMap<(usize, u32), usize>,
    /// Maps into which the object puts something, known or not.
    pub filled: Vec<usize>,
}

/// Finds what is in the maps. There are three ways to say it: the `values` of libbpf's definitions,
/// which are relocated; declaration tags `tail:MAP/SLOT` on functions, as Cilium's loader reads
/// them; sections `ID/SLOT`, with the map's number in `struct bpf_elf_map`, as iproute2's does.
pub fn find(elf: &Elf, btf: Option<&Btf>, maps: &[Map], programs: &Programs) -> Slots {
    let mut found = Slots::default();
    of_values(elf, btf, maps, programs, &mut found);
    let of_name = |name: &str| programs.list.iter().position(|program| program.name == name);
    for (function, tag) in btf.map(Btf::tags).unwrap_or_default() {
        let place = tag.strip_prefix("tail:").and_then(|place| place.rsplit_once('/'));
        let place = place.and_then(|(map, slot)| {
            Some((maps.iter().position(|known| known.name == map)?, slot.parse().ok()?))
        });
        if let (Some(place), Some(program)) = (place, of_name(function)) {
            found.programs.insert(place, program);
        }
    }
    let ids = ids(elf, maps);
    for (nth, program) in programs.list.iter().enumerate() {
        let Some((id, slot)) = program.section.split_once('/') else { continue };
        let (Some(id), Some(slot)) = (number(id), number(slot)) else { continue };
        if let Some((_, map)) = ids.iter().find(|(own, _)| *own == id) {
            found.programs.insert((*map, slot), nth);
        }
    }
    found.filled.extend(found.programs.keys().map(|(map, _)| *map));
    found.filled.sort_unstable();
    found.filled.dedup();
    found
}

/// A number as iproute2 reads it.
fn number(text: &str) -> Option<u32> {
    text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u32::from_str_radix(hex, 16)).ok()
}

fn of_values(
    elf: &Elf,
    btf: Option<&Btf>,
    maps: &[Map],
    programs: &Programs,
    found: &mut Slots,
) -> Option<()> {
    let section = elf.section_by_name(".maps")?;
    let inside = |symbol: &ElfSymbol64<Endianness>, place: u64| {
        symbol.kind() != SymbolKind::Section
            && symbol.section_index() == Some(section.index())
            && (symbol.address()..symbol.address().saturating_add(symbol.size())).contains(&place)
    };
    for (place, relocation) in section.relocations() {
        let Some(symbol) = elf.symbols().find(|symbol| inside(symbol, place)) else { continue };
        let name = symbol.name().unwrap_or_default();
        let Some(map) = maps.iter().position(|known| known.name == name) else { continue };
        found.filled.push(map);
        let slot = btf.and_then(|btf| btf.place_of(name, "values")).and_then(|first| {
            let place = (place - symbol.address()).checked_sub(first.into())?;
            u32::try_from(place / 8).ok()
        });
        let RelocationTarget::Symbol(target) = relocation.target() else { continue };
        let Ok(target) = elf.symbol_by_index(target) else { continue };
        // Of a section's symbol the function's place in it stands where the relocation is.
        let data = section.data().unwrap_or_default();
        let added = usize::try_from(place).ok().and_then(|at| word(data, at)).unwrap_or(0);
        let start = target.address().wrapping_add(added.into());
        let program = target
            .section_index()
            .and_then(|section| programs.starts.iter().position(|own| *own == (section, start)));
        if let (Some(slot), Some(program)) = (slot, program) {
            found.programs.insert((map, slot), program);
        }
    }
    Some(())
}

/// Numbers of maps in section `maps`, which iproute2's definitions have behind five other words.
fn ids(elf: &Elf, maps: &[Map]) -> Vec<(u32, usize)> {
    const ID: usize = 4 * 5;
    let Some(section) = elf.section_by_name("maps") else { return Vec::new() };
    let data = section.data().unwrap_or_default();
    let of = |symbol: ElfSymbol64<Endianness>| {
        if symbol.section_index() != Some(section.index()) || symbol.kind() == SymbolKind::Section {
            return None;
        }
        let id = word(data, usize::try_from(symbol.address()).ok()?.checked_add(ID)?)?;
        let map = maps.iter().position(|known| Ok(known.name.as_str()) == symbol.name())?;
        Some((id, map))
    };
    elf.symbols().filter_map(of).collect()
}
