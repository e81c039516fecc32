//! The slowest path of a program on targets, as an editor shows it.

use std::collections::BTreeMap;
use std::path::Path;

use clap::{Args as _, Command as Line, FromArgMatches};
use lsp_types::{
    CodeLens, Command, Diagnostic, DiagnosticSeverity, InlayHint, InlayHintLabel, Position, Range,
};
use nicforge_driver::by_target::Programs;
use nicforge_driver::options::Source;
use nicforge_driver::{Failure, Runtime, support};
use nicforge_target::Target;

use super::document::{is_program, plain};
use crate::args::Bound;
use crate::cmd::bound;

/// Seconds that the search for a slowest path may take. What is found by then holds.
const SECONDS: &str = "3";

/// Lines that cost less than this share of the path get no lens.
const DEAR: f64 = 0.05;

/// Costs that an analysis found, for the editor.
#[derive(Default)]
pub struct Costs {
    /// The slowest path, at the handler; its dearest lines.
    pub lenses: Vec<CodeLens>,
    /// The share of every line of the path, behind it.
    pub hints: Vec<InlayHint>,
    /// Targets that do not take the program.
    pub refused: Vec<Diagnostic>,
}

/// Costs of the program in a file. One that does not compile has none: its problems are shown from
/// the text.
pub fn of(path: &Path, targets: &[(String, Target)]) -> Costs {
    let mut costs = Costs::default();
    let Ok(text) = std::fs::read_to_string(path) else { return costs };
    if !is_program(&text) {
        return costs;
    }
    let all: Vec<Target> = targets.iter().map(|(_, target)| target.clone()).collect();
    match refused(path, &all) {
        Ok(list) => costs.refused = list,
        Err(_) => return costs,
    }
    for (at, (word, target)) in targets.iter().enumerate() {
        match slowest(path, word) {
            // One target's shares stand behind the lines.
            Ok(slowest) => add(&mut costs, &text, target, &slowest, at == 0),
            Err(failure) => {
                let why = failure.message.lines().next().unwrap_or_default();
                let why = why.trim_start_matches("error: ");
                let title = format!("{}: no guarantee: {why}", target.name);
                costs.lenses.push(lens(handler(&text), title));
            }
        }
    }
    costs
}

/// Says which targets do not take the program, where, and what to do.
fn refused(path: &Path, targets: &[Target]) -> Result<Vec<Diagnostic>, Failure> {
    let runtime = Runtime::unpack()?;
    let source = Source { program: path.to_path_buf(), ..Source::default() };
    let programs = Programs::load(&source, targets, &runtime)?;
    let answers = support::of(&programs, targets, &runtime)?;
    let mut list = Vec::new();
    let mut add = |place: &str, text: String| {
        // As `file:line:column`, or the program's name.
        let line = place.rsplit(':').nth(1).and_then(|line| line.parse().ok()).unwrap_or(1);
        let range = whole(line);
        list.push(Diagnostic { range, ..plain(DiagnosticSeverity::WARNING, text) });
    };
    for answer in answers {
        let target = answer.target;
        for lacks in &answer.missing {
            add(&lacks.place, format!("{target} lacks {}", lacks.what));
        }
        if let Some(refused) = answer.refused {
            let text = format!("{target}: {}\nhelp: {}", refused.reason, refused.remedy);
            add(&refused.place, text);
        }
    }
    Ok(list)
}

/// The slowest path of a program on a target: one line about it, and how often it comes to each
/// line of the file.
struct Slowest {
    headline: String,
    lines: BTreeMap<u32, u64>,
    all: u64,
}

fn slowest(path: &Path, target: &str) -> Result<Slowest, Failure> {
    let words = ["bound", "--by", "packet-rate", "--timeout", SECONDS, "--target", target];
    let line = Bound::augment_args(Line::new("bound").no_binary_name(false));
    let words = words.iter().map(Into::into).chain([path.as_os_str().to_owned()]);
    let matches = line.try_get_matches_from(words).map_err(|e| Failure::usage(e.to_string()))?;
    let args = Bound::from_arg_matches(&matches).map_err(|e| Failure::usage(e.to_string()))?;
    let found = bound::slowest(&args)?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let here = found.lines.iter().filter(|(file, _)| Some(file) == name.as_ref());
    let mut lines: BTreeMap<u32, u64> = BTreeMap::new();
    here.for_each(|(_, line)| *lines.entry(*line).or_default() += 1);
    Ok(Slowest { headline: found.headline, lines, all: found.lines.len().max(1) as u64 })
}

fn add(costs: &mut Costs, text: &str, target: &Target, slowest: &Slowest, first: bool) {
    costs.lenses.push(lens(handler(text), format!("{}: {}", target.name, slowest.headline)));
    for (line, count) in &slowest.lines {
        let share = *count as f64 / slowest.all as f64;
        if share >= DEAR {
            let title = format!("{}: {:.0} % of the slowest path", target.name, 100.0 * share);
            costs.lenses.push(lens(*line, title));
        }
        if first {
            costs.hints.push(hint(text, *line, format!("{:.1} %", 100.0 * share)));
        }
    }
}

/// The line of the handler of packets, from 1.
fn handler(text: &str) -> u32 {
    text.lines().position(|line| line.contains("net_recv(")).map_or(1, |line| line as u32 + 1)
}

fn lens(line: u32, title: String) -> CodeLens {
    // Without a command the title is only shown.
    let command = Some(Command { title, command: String::new(), arguments: None });
    CodeLens { range: whole(line), command, data: None }
}

fn hint(text: &str, line: u32, label: String) -> InlayHint {
    let length = text.lines().nth(line as usize - 1).map_or(0, |text| text.encode_utf16().count());
    InlayHint {
        position: Position { line: line - 1, character: length as u32 },
        label: InlayHintLabel::String(label),
        kind: None,
        text_edits: None,
        tooltip: None,
        padding_left: Some(true),
        padding_right: None,
        data: None,
    }
}

/// A line, counted from 1.
fn whole(line: u32) -> Range {
    let at = |line| Position { line, character: 0 };
    Range { start: at(line.max(1) - 1), end: at(line.max(1)) }
}
