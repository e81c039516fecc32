//! Disassembly against GNU objdump: every compressed encoding, and random words of every row and of
//! none.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

use nicforge_isa::object::riscv;
use nicforge_isa::rv32::{Class, Decoder, Insn, Op, RV32IMA, csr, print, word_at};

use crate::programs;

const AS: &str = "riscv64-unknown-elf-as";
const OBJDUMP: &str = "riscv64-unknown-elf-objdump";

/// Compares what objdump and we say about words, and gives how many both refuse.
fn compare(words: &[u32]) -> usize {
    if Command::new(OBJDUMP).arg("--version").output().is_err() {
        println!("skipped: {OBJDUMP} is missing: run scripts/bootstrap.sh");
        return usize::MAX;
    }
    let dir = tempfile::tempdir().unwrap();
    let (source, object) = (dir.path().join("words.s"), dir.path().join("words.o"));
    let mut text = String::new();
    for word in words {
        writeln!(text, ".insn {word:#x}").unwrap();
    }
    std::fs::write(&source, text).unwrap();
    let assembled = Command::new(AS)
        .args(["-march=rv32imac_zicsr_zifencei", "-mabi=ilp32", "-o"])
        .args([&object, &source])
        .output()
        .unwrap();
    assert!(assembled.status.success(), "{}", String::from_utf8_lossy(&assembled.stderr));
    let bytes = std::fs::read(&object).unwrap();
    let image = riscv::parse(&bytes).unwrap();
    let section = image.sections.iter().find(|section| section.name == ".text").unwrap();
    let listing = Command::new(OBJDUMP).args(["-d", "-z"]).arg(&object).output().unwrap();
    let listing = String::from_utf8(listing.stdout).unwrap();

    let decoder = Decoder::rv32imac();
    let (mut refused, mut seen) = (0, 0);
    let mut wrong: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in listing.lines() {
        let Some((at, rest)) = line.trim().split_once(":\t") else { continue };
        let Ok(at) = u32::from_str_radix(at, 16) else { continue };
        let said = rest.split_once('\t').map_or("", |(_, said)| said);
        let said = said.split(" #").next().unwrap().split(" <").next().unwrap().trim();
        let word = word_at(&section.bytes[at as usize..]).unwrap();
        let insn = decoder.decode(word);
        let ours = insn.map(|insn| print(&decoder, &insn, at));
        seen += 1;
        let unknown =
            said.starts_with('.') || said == "c.unimp" || said == "unimp" || said.starts_with("0x");
        // Shifts by 32 and more are reserved; objdump shows them as if for RV64.
        let far = said.rsplit_once(",0x").is_some_and(|(name, far)| {
            (name.starts_with('s') || name.starts_with("c.s"))
                && u32::from_str_radix(far, 16).is_ok_and(|far| far > 31)
        });
        if (unknown || far) && ours.is_none() {
            refused += 1;
        } else if !insn.is_some_and(|insn| same(&decoder, &insn, at, said)) {
            let name = said.split('\t').next().unwrap_or_default().to_string();
            wrong
                .entry(name)
                .or_default()
                .push(format!("{word:#010x} at {at:#x}: `{said}`, here {ours:?}"));
        }
    }
    assert_eq!(seen, words.len(), "lines of the listing");
    let total: usize = wrong.values().map(Vec::len).sum();
    let examples: Vec<String> =
        wrong.values().map(|lines| format!("{} x {}", lines.len(), lines[0])).collect();
    assert!(wrong.is_empty(), "{total} of {seen} differ:\n{}", examples.join("\n"));
    refused
}

/// True if objdump says what we say, as far as it can: it names hints, registers of other
/// extensions, and refuses fences with fields that cores are to ignore.
fn same(decoder: &Decoder, insn: &Insn, at: u32, said: &str) -> bool {
    let ours = print(decoder, insn, at);
    let (name, operands) = said.split_once('\t').unwrap_or((said, ""));
    match insn.op {
        _ if name.starts_with("c.") => insn.rd == 0 || insn.imm == 0,
        Op::Fence | Op::FenceI if said.starts_with(".4byte") => true,
        _ if decoder.row(insn).class == Class::Csr && csr::name(insn.imm as u16).is_none() => {
            let number = format!("{:#x}", insn.imm);
            let mut operands: Vec<&str> = operands.split(',').collect();
            let place = usize::from(operands.len() == 3 || name == "csrr");
            operands[place] = &number;
            ours == format!("{name}\t{}", operands.join(","))
        }
        _ => ours == said,
    }
}

#[test]
fn every_compressed_instruction_reads_as_objdump_says() {
    // 0x6101 moves the stack pointer by nothing, which is reserved; objdump shows it all the same.
    let words: Vec<u32> =
        (0..=u32::from(u16::MAX)).filter(|word| word & 3 != 3 && *word != 0x6101).collect();
    let refused = compare(&words);
    assert!(refused > 0);
}

#[test]
fn rows_read_as_objdump_says() {
    let mut random = programs::Random::new(1);
    let mut words = Vec::new();
    for row in RV32IMA {
        for _ in 0..300 {
            words.push(row.value | random.word() & !row.mask);
        }
        // Registers zero and one and small immediates have short forms.
        for _ in 0..100 {
            let few = random.word() & random.word() & random.word() & 0x01f0_8080;
            words.push(row.value | few & !row.mask);
        }
    }
    compare(&words);
}

#[test]
fn noise_is_refused_where_objdump_refuses() {
    let mut random = programs::Random::new(2);
    let words: Vec<u32> = (0..20_000)
        .map(|_| random.word() | 3)
        // Beginnings of longer instructions, of which there are none here.
        .filter(|word| word & 0x1f != 0x1f)
        .collect();
    compare(&words);
}
