//! Programs of an object: a function with everything it calls, as one instruction stream.

use std::collections::{HashMap, HashSet};

use object::read::elf::ElfSymbol64;
use object::{
    Endianness, Object as _, ObjectSection, ObjectSymbol, SectionIndex, SymbolIndex, SymbolKind,
};

use super::{
    Code, Elf, KERNEL_CALL, MAX_INSNS, ObjectError, PSEUDO_CALL, PSEUDO_FUNCTION, PSEUDO_KERNEL,
    PSEUDO_MAP, PSEUDO_VALUE, Program, Reference, is_code,
};
use crate::ebpf;

/// A function of an object, and the symbol that names it.
pub struct Function {
    pub symbol: SymbolIndex,
    pub section: SectionIndex,
    pub start: u64,
    pub size: u64,
    pub name: String,
}

/// Functions that have a symbol. Old compilers (clang 8 and before) gave functions neither type nor
/// size: there a function is what such a symbol begins, unless it is a label, and ends where the
/// next one or the section does.
pub fn functions(elf: &Elf) -> Vec<Function> {
    let of = |symbol: &ElfSymbol64<Endianness>| {
        let section = symbol.section_index()?;
        let name = symbol.name().ok().filter(|name| !name.is_empty())?.to_string();
        Some(Function {
            symbol: symbol.index(),
            section,
            start: symbol.address(),
            size: symbol.size(),
            name,
        })
    };
    let typed =
        |symbol: &ElfSymbol64<Endianness>| symbol.kind() == SymbolKind::Text && symbol.size() > 0;
    let mut found: Vec<Function> =
        elf.symbols().filter(typed).filter_map(|symbol| of(&symbol)).collect();
    let known: HashSet<SectionIndex> = found.iter().map(|function| function.section).collect();
    let untyped = |symbol: &ElfSymbol64<Endianness>| {
        let name = symbol.name().unwrap_or_default();
        symbol.kind() == SymbolKind::Unknown
            && !["LBB", ".L"].iter().any(|label| name.starts_with(label))
            && symbol
                .section_index()
                .is_some_and(|section| !known.contains(&section) && is_code(elf, section))
    };
    let mut others: Vec<Function> =
        elf.symbols().filter(untyped).filter_map(|symbol| of(&symbol)).collect();
    others.sort_by_key(|function| (function.section.0, function.start));
    others.dedup_by_key(|function| (function.section, function.start));
    for at in 0..others.len() {
        let (section, start) = (others[at].section, others[at].start);
        let next = others.get(at + 1).filter(|next| next.section == section);
        let end = || elf.section_by_index(section).map_or(0, |section| section.size());
        others[at].size = next.map_or_else(end, |next| next.start).saturating_sub(start);
    }
    others.retain(|function| function.size > 0);
    found.extend(others);
    found
}

/// Programs of an object, and the section and place of each.
pub struct Programs {
    pub list: Vec<Program>,
    pub starts: Vec<(SectionIndex, u64)>,
}

/// Programs: functions outside of `.text`, or those in it if there are no others.
///
/// # Errors
/// A call that leads nowhere; more than [`MAX_INSNS`] instructions.
pub fn find(elf: &Elf, code: &HashMap<SectionIndex, Code>) -> Result<Programs, ObjectError> {
    let mut functions: Vec<(SectionIndex, u64, u64, String)> = functions(elf)
        .into_iter()
        .filter(|found| code.contains_key(&found.section))
        .map(|found| (found.section, found.start, found.size, found.name))
        .collect();
    // A section without a symbol is a program.
    for (index, section) in code {
        if !functions.iter().any(|(section, ..)| section == index) && section.name != ".text" {
            functions.push((*index, 0, 8 * section.insns.len() as u64, section.name.clone()));
        }
    }
    let mut entries: Vec<_> =
        functions.iter().filter(|(section, ..)| code[section].name != ".text").collect();
    if entries.is_empty() {
        entries = functions.iter().collect();
    }
    entries.sort_by_key(|(section, start, ..)| (section.0, *start));
    let starts = entries.iter().map(|(section, start, ..)| (*section, *start)).collect();
    let list = entries.into_iter().map(|entry| link(code, &functions, entry));
    Ok(Programs { list: list.collect::<Result<_, _>>()?, starts })
}

/// A function and all it calls in one stream.
fn link(
    code: &HashMap<SectionIndex, Code>,
    functions: &[(SectionIndex, u64, u64, String)],
    entry: &(SectionIndex, u64, u64, String),
) -> Result<Program, ObjectError> {
    let (section, start, _, name) = entry;
    let own = &code[section];
    let fail = |reason: String| ObjectError::Section { section: own.name.clone(), reason };
    let mut program = Program {
        name: name.clone(),
        section: own.name.clone(),
        insns: Vec::new(),
        lines: Vec::new(),
    };
    let mut placed: HashMap<(SectionIndex, u64), usize> = HashMap::new();
    let mut wanted = vec![(*section, *start)];
    let mut calls: Vec<(usize, (SectionIndex, u64))> = Vec::new();
    while let Some((section, start)) = wanted.pop() {
        if placed.contains_key(&(section, start)) {
            continue;
        }
        let function = functions.iter().find(|(s, at, ..)| (*s, *at) == (section, start));
        let Some((_, _, size, _)) = function else {
            return Err(fail(format!(
                "`{name}` calls something that is no function of this object"
            )));
        };
        let from = &code[&section];
        let (first, last) = ((start / 8) as usize, ((start + size) / 8) as usize);
        let insns = from
            .insns
            .get(first..last.max(first))
            .ok_or_else(|| fail("a function runs out of its section".to_string()))?;
        let base = program.insns.len();
        placed.insert((section, start), base);
        if base + insns.len() > MAX_INSNS {
            return Err(fail(format!("more than {MAX_INSNS} instructions")));
        }
        let mut line = None;
        for (offset, insn) in insns.iter().enumerate() {
            let mut insn = *insn;
            if let Some(here) = from.lines.get(&(first + offset)) {
                line = Some(here.clone());
            }
            // Without a relocation, a call within the section is already relative.
            if insn.code == 0x85
                && insn.src == PSEUDO_CALL
                && !from.references.contains_key(&(first + offset))
            {
                let target = (first + offset) as i64 + 1 + i64::from(insn.imm);
                let target = u64::try_from(8 * target)
                    .map_err(|_| fail("a call out of the section".to_string()))?;
                calls.push((base + offset, (section, target)));
                wanted.push((section, target));
            }
            match from.references.get(&(first + offset)) {
                Some(Reference::Call(to, at)) => {
                    insn.src = PSEUDO_CALL;
                    calls.push((base + offset, (*to, *at)));
                    wanted.push((*to, *at));
                }
                Some(Reference::Function(to, at)) => {
                    insn.src = PSEUDO_FUNCTION;
                    calls.push((base + offset, (*to, *at)));
                    wanted.push((*to, *at));
                }
                Some(Reference::Map(map)) => {
                    insn.src = PSEUDO_MAP;
                    insn.imm = *map as i32;
                }
                Some(Reference::Value(map, _)) => {
                    insn.src = PSEUDO_VALUE;
                    insn.imm = *map as i32;
                }
                Some(Reference::Extern(name)) => {
                    insn.src = if insn.code == 0x85 { KERNEL_CALL } else { PSEUDO_KERNEL };
                    insn.imm = *name as i32;
                }
                Some(Reference::Unknown) if insn.code == 0x85 => insn.src = KERNEL_CALL,
                Some(Reference::Unknown) if insn.code == ebpf::LDDW => insn.src = PSEUDO_KERNEL,
                _ => {}
            }
            if offset > 0
                && let Some(Reference::Value(_, value)) = from.references.get(&(first + offset - 1))
                && insns[offset - 1].code == ebpf::LDDW
            {
                insn.imm = *value as i32;
            }
            program.insns.push(insn);
            program.lines.push(line.clone());
        }
    }
    for (at, target) in calls {
        let to = placed.get(&target).ok_or_else(|| fail("a call to nowhere".to_string()))?;
        program.insns[at].imm = *to as i32 - at as i32 - 1;
    }
    Ok(program)
}
