//! The fuzz targets on their corpus, with mutations that are the same in every run. `fuzz/` runs
//! them without end.

use std::path::{Path, PathBuf};

use nicforge_util::Random;

/// Mutations of each file.
const MUTATIONS: u64 = 1000;

/// The files of folders beside this crate, with those endings.
fn corpus(folder: &str, endings: &[&str]) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| endings.iter().any(|ending| e == *ending)))
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

/// A few changes of the kinds that find mistakes: bits, numbers at their limits, cuts, repeats,
/// pieces of other files.
fn mutate(file: &[u8], all: &[(PathBuf, Vec<u8>)], random: &mut Random) -> Vec<u8> {
    const NUMBERS: [u32; 8] = [0, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0x8000_0000, u32::MAX];
    const WORDS: [&str; 8] = ["4294967296", "-1", "[", "{", "\"", "%0", "65", "\n"];
    let mut bytes = file.to_vec();
    for _ in 0..=random.index(4) {
        let at = random.index(bytes.len());
        let to = (at + random.index(24)).min(bytes.len());
        match random.index(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.index(8),
            1 if at + 4 <= bytes.len() => {
                bytes[at..at + 4].copy_from_slice(&NUMBERS[random.index(8)].to_le_bytes());
            }
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..to)),
            4 => {
                let piece = bytes[at..to].to_vec();
                let place = random.index(bytes.len());
                bytes.splice(place..place, piece);
            }
            5 => drop(bytes.splice(at..to, WORDS[random.index(8)].bytes())),
            _ => {
                let other = &all[random.index(all.len())].1;
                let from = random.index(other.len());
                let until = (from + random.index(48)).min(other.len());
                bytes.splice(at..at, other[from..until].iter().copied());
            }
        }
    }
    bytes
}

/// Runs a target on every file and its mutations; what makes it panic is printed.
fn replay(files: &[(PathBuf, Vec<u8>)], target: impl Fn(&[u8])) {
    for (number, (path, bytes)) in files.iter().enumerate() {
        let mut random = Random::new(number as u64);
        target(bytes);
        for mutation in 0..MUTATIONS {
            let mutated = mutate(bytes, files, &mut random);
            let run = std::panic::AssertUnwindSafe(|| target(&mutated));
            if let Err(panic) = std::panic::catch_unwind(run) {
                eprintln!("{}, mutation {mutation}: {}", path.display(), mutated.escape_ascii());
                std::panic::resume_unwind(panic);
            }
        }
    }
}

#[test]
fn air() {
    let mut files = corpus("../crates/ir/src/text", &["air"]);
    files.extend(corpus("../crates/passes/tests/fixtures", &["air"]));
    replay(&files, nicforge_ir::fuzz::text);
}

#[test]
fn pcap() {
    let files = corpus("corpus/pcap", &["pcap", "pcapng"]);
    replay(&files, nicforge_run::pcap::fuzz_pcap);
    let path = Path::new("whole");
    let read =
        files.iter().filter(|(_, bytes)| nicforge_run::pcap::parse(path, bytes).is_ok()).count();
    assert_eq!(read, files.len() - 1, "all but the one of another link type are captures");
}

#[test]
fn tables() {
    let program = nicforge_ir::text::parse(include_str!("corpus/tables.air")).unwrap();
    let files = corpus("corpus/tables", &["toml", "json"]);
    replay(&files, |bytes| nicforge_run::control::fuzz_tables(&program, bytes));
    for (path, bytes) in &files {
        // The first byte, white space here, is the target's choice of the format.
        let text = std::str::from_utf8(bytes).unwrap();
        let read = nicforge_run::control::parse_tables(&program, path, text);
        let mistakes = path.ends_with("mistakes.toml");
        assert_eq!(read.is_err(), mistakes, "{:?}", read.map_err(|error| error.to_string()));
    }
}

#[test]
fn netlists() {
    let files = corpus("corpus/netlist", &["blif"]);
    replay(&files, nicforge_run::synth::fuzz);
    for (path, bytes) in &files {
        let area = nicforge_run::synth::measure(std::str::from_utf8(bytes).unwrap());
        let area = area.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(
            area.luts > 0 && area.depth > 0 && area.flip_flops > 0,
            "{}: {area:?}",
            path.display()
        );
    }
}

#[test]
fn specs() {
    replay(&corpus("../targets", &["toml"]), nicforge_target::load::fuzz);
}

#[test]
fn plans() {
    let files = corpus("corpus/plans", &["json"]);
    replay(&files, nicforge_plan::check::fuzz);
    let panic = nicforge_target::find("panic").unwrap();
    for (path, bytes) in &files {
        let file = path.display().to_string();
        let plan = nicforge_plan::parse(&file, std::str::from_utf8(bytes).unwrap()).unwrap();
        nicforge_plan::check(&file, &plan, &panic).unwrap();
    }
}
