//! ARCHITECTURE.md is true: every crate is on its map, crates use each other as it says, and what it
//! calls absent from a room is absent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap()
}

fn rooms() -> Vec<String> {
    let folders = std::fs::read_dir(root().join("crates")).unwrap();
    let mut names: Vec<String> =
        folders.map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Crates of ours that a manifest has among its dependencies.
fn uses(room: &str) -> BTreeSet<String> {
    let manifest = root().join("crates").join(room).join("Cargo.toml");
    let manifest: toml::Table = std::fs::read_to_string(manifest).unwrap().parse().unwrap();
    let dependencies = manifest.get("dependencies").and_then(|value| value.as_table());
    let names = dependencies.into_iter().flat_map(|table| table.keys());
    names.filter_map(|name| name.strip_prefix("nicforge-").map(String::from)).collect()
}

#[test]
fn the_map_has_every_crate_and_fits() {
    let page = page();
    for room in rooms() {
        assert!(page.contains(&format!("`crates/{room}`")), "{room} is on no line of the map");
    }
    assert!(page.lines().count() <= 250);
}

#[test]
fn crates_use_each_other_as_the_page_says() {
    let page = page();
    let (_, section) = page.split_once("## Who may know whom").expect("the section");
    let block = section.split("```").nth(1).expect("its list").trim_start_matches("text\n");
    let rooms = rooms();
    let mut said = BTreeMap::new();
    for line in block.lines() {
        let (room, rest) = line.split_once(' ').unwrap_or((line, ""));
        let list: BTreeSet<String> = match rest.trim().strip_prefix("all but ") {
            Some(but) => {
                let but: Vec<&str> = but.split_whitespace().chain([room]).collect();
                rooms.iter().filter(|one| !but.contains(&one.as_str())).cloned().collect()
            }
            None => rest.split_whitespace().map(String::from).collect(),
        };
        said.insert(room.to_string(), list);
    }
    let are: BTreeMap<String, BTreeSet<String>> =
        rooms.iter().map(|room| (room.clone(), uses(room))).collect();
    assert_eq!(said, are);
}

/// Code of a crate without its tests: path and lines that are no comments.
fn code(room: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("crates").join(room).join("src")];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
            if is_test || path.extension().is_some_and(|ending| ending != "rs") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            let lines = text.lines().filter(|line| !line.trim().starts_with("//"));
            found.push((path, lines.collect::<Vec<_>>().join("\n")));
        }
    }
    assert!(!found.is_empty(), "{room} has no code");
    found
}

const PRINTING: [&str; 4] = ["println!", "eprintln!", " print!", " eprint!"];
const FILES: [&str; 2] = ["std::fs", "File::open"];
const PROCESSES: [&str; 1] = ["Command::new"];
const CLOCKS: [&str; 2] = ["Instant::now", "SystemTime::now"];
const SYSTEM: [&str; 2] = ["libc::", "std::process"];
const PATTERNS: [&str; 2] = ["regex::", "Regex::"];

/// Rooms, and words that are in none of their files.
fn absent() -> Vec<(Vec<&'static str>, &'static [&'static str])> {
    let pure = vec![
        "ir", "passes", "plan", "planner", "codegen", "isa", "lift", "bound", "sim", "spin",
        "balance", "util",
    ];
    let quiet = [&pure[..], &["clang", "frontend", "target", "run", "driver", "filetest"]].concat();
    vec![
        (quiet.clone(), &PRINTING),
        (quiet.clone(), &["ExitCode", "process::exit"]),
        (pure.clone(), &FILES),
        (pure.clone(), &SYSTEM),
        ([&pure[..], &["target"]].concat(), &PROCESSES),
        (vec!["spin", "balance", "isa", "ir", "codegen", "lift", "plan"], &CLOCKS),
        (vec!["frontend", "lift"], &PATTERNS),
    ]
}

#[test]
fn what_is_absent_is_absent() {
    let mut found = Vec::new();
    for (rooms, words) in absent() {
        for room in rooms {
            for (path, text) in code(room) {
                for word in words.iter().filter(|word| text.contains(**word)) {
                    found.push(format!("{}: {word}", path.display()));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    // The search finds what is there.
    let has = |room: &str, words: &[&str]| {
        code(room).iter().any(|(_, text)| words.iter().any(|word| text.contains(word)))
    };
    assert!(has("run", &FILES) && has("run", &SYSTEM) && has("frontend", &PROCESSES));
    assert!(has("cli", &PRINTING) && has("bound", &CLOCKS));
}

/// The compiler names each file that a look-up goes through; a reader finds the op in it.
#[test]
fn a_lookup_is_found_in_three_steps() {
    let page = page();
    let (_, rest) = page.split_once("## A table look-up").expect("the section");
    let section = rest.split("\n## ").next().unwrap();
    let codegen = "crates/codegen/src/";
    for (named, folder, word) in [
        ("crates/frontend/src/table_calls.rs", "", "Op::Lookup"),
        ("crates/ir/src/interp/exec/tables.rs", "", "Op::Lookup"),
        ("crates/codegen/src/inplace/mod.rs", "", "Op::Lookup"),
        ("inplace/tables.rs", codegen, "pub fn lookup"),
        ("crates/codegen/src/xdp/target.rs", "", "bpf_map_lookup_elem"),
        ("xdp/mod.rs", codegen, "BPF_MAP_TYPE_LRU_HASH"),
        ("crates/codegen/src/host/target.rs", "", "nf_hash_find"),
        ("runtime/host/nf_tables.h", "", "nf_hash_find"),
        ("runtime/common/nf_table_core.h", "", "nf_prefix_find"),
        ("crates/codegen/src/rtl/pipe/dag/entries.rs", "", "Op::Lookup"),
        ("rtl/engine/entries.rs", codegen, "Op::Lookup"),
        ("crates/codegen/src/rtl/tables.rs", "", "nf_pipe_lpm"),
    ] {
        assert!(section.contains(&format!("`{named}")), "{named} is not in the section");
        let path = root().join(folder).join(named);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{named}: {e}"));
        assert!(text.contains(word), "{named} has no {word}");
    }
}
