//! The README's commands do what it says: each ```console block is run line by line in one folder,
//! and what is printed is compared with what stands below the command.
//!
//! `…` alone on a line stands for any lines, at the end of a line for the rest of it. `sudo` is
//! left out: the test is root where it runs such commands.

mod common;

use std::path::Path;

use common::{NICFORGE, Place, can_load, finish};

/// A command and the lines below it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Step {
    command: String,
    expected: Vec<String>,
}

fn steps(page: &str) -> Vec<Step> {
    let mut all: Vec<Step> = Vec::new();
    for block in page.split("\n```console\n").skip(1) {
        let block = block.split("\n```\n").next().expect("a split has a first part");
        for line in block.lines() {
            match (line.strip_prefix("$ "), all.last_mut()) {
                (Some(command), _) => {
                    all.push(Step { command: command.to_string(), expected: Vec::new() });
                }
                (None, Some(step)) => step.expected.push(line.to_string()),
                (None, None) => panic!("a block begins with a command: {line}"),
            }
        }
    }
    all
}

/// True if printed lines are those expected.
fn fits(expected: &[String], printed: &[&str]) -> bool {
    match (expected.first(), printed.first()) {
        (None, None) => true,
        (Some(line), _) if line == "…" => {
            (0..=printed.len()).any(|skip| fits(&expected[1..], &printed[skip..]))
        }
        (Some(line), Some(print)) => {
            let same = match line.strip_suffix('…') {
                Some(start) => print.starts_with(start),
                None => line == print,
            };
            same && fits(&expected[1..], &printed[1..])
        }
        _ => false,
    }
}

#[test]
fn dots_stand_for_what_changes() {
    let fit = |expected: &str, printed: &str| {
        let expected: Vec<String> = expected.lines().map(String::from).collect();
        fits(&expected, &printed.lines().collect::<Vec<_>>())
    };
    assert!(fit("a\n…\nc", "a\nb\nb\nc") && fit("a\n…", "a") && fit("took …", "took 3 s"));
    assert!(!fit("a\n…\nc", "a\nb") && !fit("a", "a\nb") && !fit("a\nb", "a") && !fit("b…", "a"));
}

/// Some 3 s.
#[test]
fn the_readme_is_true() {
    if !can_load() {
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let page = std::fs::read_to_string(page).unwrap();
    let steps = steps(&page);
    assert!(steps.len() >= 6, "{steps:?}");
    assert!(page.lines().count() <= 150, "the README is {} lines", page.lines().count());
    for code in page.split("\n```c\n").skip(1) {
        let code = code.split("\n```\n").next().unwrap();
        assert!(include_str!("../src/cmd/starter.c").contains(code), "not in starter.c:\n{code}");
    }
    let place = Place::new();
    let binary = Path::new(NICFORGE).parent().unwrap().display().to_string();
    let path = format!("{binary}:{}", std::env::var("PATH").unwrap_or_default());
    for step in &steps {
        let command = step.command.strip_prefix("sudo ").unwrap_or(&step.command);
        let mut shell = place.prepare("bash", &["-o", "pipefail", "-c", command]);
        shell.env("PATH", &path);
        let ran = finish(shell);
        // `head` closes the pipe, which is no failure.
        assert!([0, 141].contains(&ran.code()), "{step:?}: {ran:?}");
        let printed = ran.out.trim_end();
        assert!(
            fits(&step.expected, &printed.lines().collect::<Vec<_>>()),
            "{}\nsays now:\n{printed}\n{}",
            step.command,
            ran.err
        );
    }
    place.is_clean();
}

/// Every file that pages name is there.
#[test]
fn links_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec!["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "examples/README.md"];
    let docs: Vec<String> = ["docs", "docs/dev"]
        .iter()
        .flat_map(|folder| {
            let files = std::fs::read_dir(root.join(folder)).unwrap();
            files.map(move |file| format!("{folder}/{}", file.unwrap().file_name().display()))
        })
        .filter(|name| name.ends_with(".md"))
        .collect();
    pages.extend(docs.iter().map(String::as_str));
    let mut checked = 0;
    for page in pages {
        let path = root.join(page);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{page}: {e}"));
        for link in text.split("](").skip(1) {
            let link = link.split(')').next().unwrap().split('#').next().unwrap();
            // Pages that are made from rustdoc have its links.
            if link.is_empty() || link.contains("://") || link.contains("::") {
                continue;
            }
            let target = path.parent().unwrap().join(link);
            assert!(target.exists(), "{page}: there is no {link}");
            checked += 1;
        }
    }
    assert!(checked > 50, "{checked}");
}
