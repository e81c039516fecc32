//! Source lines from BTF as files of the program: known lines where they stand, the rest empty.

use std::collections::BTreeMap;

use nicforge_ir::{Program, SourceFile, Span};
use nicforge_isa::object::Line;

/// The place of every instruction.
pub struct Lines {
    spans: Vec<Span>,
    shown: Vec<String>,
}

/// Lines beyond this number are not shown; a file has as many as its last known line says.
const MOST_LINES: u32 = 1 << 16;

impl Lines {
    /// Adds the files that lines are in to the program.
    pub fn of(lines: &[Option<Line>], program: &mut Program) -> Lines {
        let mut texts: BTreeMap<&str, BTreeMap<u32, &str>> = BTreeMap::new();
        for line in lines.iter().flatten().filter(|line| (1..MOST_LINES).contains(&line.line)) {
            texts.entry(&line.file).or_default().insert(line.line, &line.text);
        }
        let mut places = BTreeMap::new();
        for (file, known) in texts {
            let mut text = String::new();
            let mut starts = BTreeMap::new();
            for number in 1..=*known.last_key_value().map_or(&0, |(last, _)| last) {
                let line = known.get(&number).map_or("", |line| line.trim_end());
                let indent = line.len() - line.trim_start().len();
                starts.insert(number, (text.len() + indent, text.len() + line.len()));
                text.push_str(line);
                text.push('\n');
            }
            let id = program.files.push(SourceFile { path: file.to_string(), text });
            places.insert(file, (id, starts));
        }
        let span = |line: &Option<Line>| {
            let line = line.as_ref()?;
            let (file, starts) = places.get(line.file.as_str())?;
            let (start, end) = starts.get(&line.line)?;
            Some(Span::new(*file, *start as u32, *end as u32))
        };
        let shown = |line: &Option<Line>| {
            line.as_ref().map_or(String::new(), |line| format!(" ({}:{})", line.file, line.line))
        };
        Lines {
            spans: lines.iter().map(|line| span(line).unwrap_or_default()).collect(),
            shown: lines.iter().map(shown).collect(),
        }
    }

    pub fn span(&self, at: usize) -> Span {
        self.spans.get(at).copied().unwrap_or_default()
    }

    /// An instruction in words, with its source line where one is known.
    pub fn describe(&self, at: usize) -> String {
        let line = self.shown.get(at).map_or("", String::as_str);
        format!(", instruction {at}{line}")
    }
}
