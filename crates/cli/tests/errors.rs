//! docs/errors.md, which `nicforge explain-error` prints: every program in it causes the code of
//! its section and no other, says what the page has, and its mended form says nothing.
//! `NICFORGE_BLESS=1` writes what they say anew.

mod common;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use common::{Place, Ran, can_load, capture, frame};

/// No program causes these: clang is missing, or the front end has a gap.
const WITHOUT_PROGRAM: [&str; 2] = ["NF0002", "NF0003"];

/// The kernel causes it, in its own words, and only where programs can be loaded.
const BY_KERNEL: &str = "NF0901";

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md")
}

/// A section of the page: its code, and for its three fences where their contents lie.
struct Section<'a> {
    code: &'a str,
    blocks: Vec<&'a str>,
}

fn sections(page: &str) -> Vec<Section<'_>> {
    let parts = page.split("\n### ").skip(1);
    parts
        .map(|part| {
            let fenced = part.split("```").skip(1).step_by(2);
            let blocks = fenced.map(|block| block.split_once('\n').expect("a fence has lines").1);
            Section { code: &part[..6], blocks: blocks.collect() }
        })
        .collect()
}

/// Runs a program as its first line or that of the wrong one says.
fn run(place: &Place, wrong: &str, program: &str) -> Ran {
    place.file("example.c", program);
    let command = wrong.lines().next().and_then(|line| line.strip_prefix("// nicforge "));
    let words: Vec<&str> = command.unwrap_or("check example.c").split(' ').collect();
    place.run(&words)
}

/// What a command said, without the names of this run's files.
fn said(ran: &Ran) -> String {
    let text = if ran.err.is_empty() { &ran.out } else { &ran.err };
    let mut kept = String::new();
    for line in text.trim_end().lines() {
        match line.split_once("log is in ") {
            Some((before, _)) => writeln!(kept, "{before}log is in FILE"),
            None => writeln!(kept, "{line}"),
        }
        .expect("text takes text");
    }
    kept
}

/// The codes of a text, as `NF0023`.
fn codes(text: &str) -> BTreeSet<&str> {
    let starts = text.match_indices("NF0").map(|(at, _)| &text[at..]);
    starts.filter_map(|rest| rest.get(..6)).collect()
}

/// What is wrong with a section's programs, and what the wrong one says now.
fn judge(section: &Section) -> Result<String, String> {
    let [wrong, _, mended] = section.blocks[..] else {
        return Err(format!("{}: wrong program, message, mended program", section.code));
    };
    let place = Place::new();
    place.file("packets.pcap", capture(&[frame(5)]));
    let ran = run(&place, wrong, wrong);
    let text = said(&ran);
    if codes(&text) != BTreeSet::from([section.code]) {
        return Err(format!("{}: another code: {ran:?}", section.code));
    }
    let ran = run(&place, wrong, mended);
    let clean = ran.err.lines().all(|line| line.starts_with("note: "));
    if ran.code() != 0 || !clean || !codes(&ran.out).is_empty() {
        return Err(format!("{}: the mended program: {ran:?}", section.code));
    }
    Ok(text)
}

/// Two runs a code: 34 s with builds beside it.
#[test]
fn programs_cause_the_code_of_their_section() {
    let text = std::fs::read_to_string(page()).unwrap();
    let all = sections(&text);
    let bless = nicforge_filetest::blesses();
    let work = Mutex::new(all.iter());
    let (wrong, changed) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(section) = { work.lock().unwrap().next() } {
                    let by_kernel = section.code == BY_KERNEL;
                    if WITHOUT_PROGRAM.contains(&section.code) || by_kernel && !can_load() {
                        continue;
                    }
                    match judge(section) {
                        Err(why) => wrong.lock().unwrap().push(why),
                        Ok(now) if (bless || !by_kernel) && now != section.blocks[1] => {
                            changed.lock().unwrap().push((section.code, section.blocks[1], now));
                        }
                        Ok(_) => {}
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let changed = changed.into_inner().unwrap();
    if bless {
        std::fs::write(page(), blessed(&text, &changed)).unwrap();
    } else {
        assert!(changed.is_empty(), "NICFORGE_BLESS=1 writes docs/errors.md anew: {changed:#?}");
    }
}

/// The page with other messages.
fn blessed(page: &str, changed: &[(&str, &str, String)]) -> String {
    let mut page = page.to_string();
    for (code, old, new) in changed {
        let section = page.find(&format!("\n### {code}: ")).expect("a section");
        let mark = "```text\n";
        let at = section + page[section..].find(mark).expect("a message") + mark.len();
        page.replace_range(at..at + old.len(), new);
    }
    page
}

#[test]
fn explain_error_prints_a_section_or_the_list() {
    let place = Place::new();
    let ran = place.run(&["explain-error"]);
    let listed: Vec<&str> = ran.ok().lines().map(|line| &line[..6]).collect();
    let text = std::fs::read_to_string(page()).unwrap();
    assert_eq!(listed, sections(&text).iter().map(|section| section.code).collect::<Vec<_>>());
    for wanted in ["NF0023", "23", "error[NF0023]"] {
        let ran = place.run(&["explain-error", wanted]);
        assert!(ran.ok().starts_with("NF0023: loop without a provable bound\n"), "{ran:?}");
        assert!(ran.out.contains("while (n > 1) {\n            NF_BOUND(64);\n"), "{ran:?}");
        assert!(!ran.out.contains("```") && !ran.out.contains("NF0024"), "{ran:?}");
    }
    place.run(&["explain-error", "NF7777"]).fails(2, &["there is no code `NF7777`"]);
}

/// Codes are written in the two tables alone, so the page knows all that can be printed.
#[test]
fn no_code_is_written_beside_the_tables() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let tables = ["frontend/src/diagnostics/codes.rs", "driver/src/codes.rs"];
    let mut folders: Vec<PathBuf> = std::fs::read_dir(&crates)
        .unwrap()
        .map(|entry| entry.unwrap().path().join("src"))
        .filter(|path| path.is_dir())
        .collect();
    assert!(folders.len() > 10);
    let mut beside = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if !tables.iter().any(|table| path.ends_with(table))
                && path.extension().is_some_and(|ending| ending == "rs")
            {
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]").next().unwrap();
                if code.lines().any(|line| !line.trim().starts_with("//") && line.contains("\"NF0"))
                {
                    beside.push(path);
                }
            }
        }
    }
    assert_eq!(beside, Vec::<PathBuf>::new());
}
