//! A document in the editor: its text, its problems, and places in it.

use std::path::{Path, PathBuf};

use lsp_server::RequestId;
use lsp_types::{
    Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, Hover, HoverContents, Location,
    MarkupContent, MarkupKind, NumberOrString, Position, Range, Url,
};
use nicforge_driver::options::Source;
use nicforge_driver::{Runtime, program};
use nicforge_frontend::{self as frontend, SourceFiles};
use nicforge_ir::{self as ir, Severity, Span};

use super::Part;
use super::costs::Costs;
use crate::cmd::explain_error;

/// Name of the server in what editors show.
pub const NAME: &str = "nicforge";

/// A document as the editor has it.
pub struct Document {
    pub path: PathBuf,
    /// The editor's number of the text.
    pub version: i32,
    text: String,
    /// True until the text is compiled.
    pub changed: bool,
    found: Vec<Diagnostic>,
    /// Of what was saved last.
    pub costs: Costs,
    /// Number of the analysis that is under way.
    pub analysis: Option<u64>,
    /// Requests that wait for it.
    pub waiting: Vec<(RequestId, Part)>,
}

impl Document {
    /// A document that was opened and not compiled yet.
    pub fn new(uri: &Url, text: String, version: i32) -> Document {
        Document {
            path: uri.to_file_path().unwrap_or_default(),
            version,
            text,
            changed: true,
            found: Vec::new(),
            costs: Costs::default(),
            analysis: None,
            waiting: Vec::new(),
        }
    }

    /// Takes another text for it.
    pub fn change(&mut self, text: String, version: i32) {
        (self.text, self.version, self.changed) = (text, version, true);
    }

    /// Finds the problems of the text. Files that are no programs of Nicforge's have none.
    pub fn compile(&mut self, uri: &Url) {
        self.changed = false;
        self.found = match is_program(&self.text).then(Runtime::unpack) {
            None => Vec::new(),
            Some(Err(failure)) => vec![plain(DiagnosticSeverity::ERROR, failure.message)],
            Some(Ok(runtime)) => self.problems_now(uri, &runtime),
        };
    }

    fn problems_now(&self, uri: &Url, runtime: &Runtime) -> Vec<Diagnostic> {
        let name = self.path.display().to_string();
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let include = vec![folder.to_path_buf()];
        let source = Source { program: self.path.clone(), include, ..Source::default() };
        let options = program::options(&source, runtime);
        let (list, files) = match frontend::compile_source(&name, &self.text, &options) {
            Ok(output) => (output.warnings, output.program.files),
            Err(failed) => (failed.diagnostics, failed.files),
        };
        list.iter().map(|found| shown(found, &files, &name, uri)).collect()
    }

    /// What the editor shows: of the text, and of targets that do not take what was saved.
    pub fn problems(&self) -> Vec<Diagnostic> {
        self.found.iter().chain(&self.costs.refused).cloned().collect()
    }

    /// What the code of the problem at a place means.
    pub fn explanation(&self, at: Position) -> Option<Hover> {
        let here = |found: &&Diagnostic| found.range.start <= at && at <= found.range.end;
        let found = self.found.iter().find(here)?;
        let Some(NumberOrString::String(code)) = &found.code else { return None };
        let value = explain_error::markdown(code)?;
        let contents = HoverContents::Markup(MarkupContent { kind: MarkupKind::Markdown, value });
        Some(Hover { contents, range: Some(found.range) })
    }
}

/// Headers by which a program is known: Nicforge's own, and those of Alkali's programs.
const HEADERS: [&str; 3] = ["nicforge.h", "alkali.h", "generic_handlers.h"];

/// True if a text includes one of them.
pub fn is_program(text: &str) -> bool {
    let included = text.lines().filter_map(|line| line.trim_start().strip_prefix("#include"));
    let name = |rest: &str| rest.trim().trim_matches(['<', '>', '"']).to_string();
    included.map(name).any(|name| HEADERS.contains(&name.as_str()))
}

/// A problem of the whole document.
pub fn plain(severity: DiagnosticSeverity, message: String) -> Diagnostic {
    Diagnostic {
        severity: Some(severity),
        source: Some(NAME.to_string()),
        message: message.trim_end().to_string(),
        ..Diagnostic::default()
    }
}

/// A diagnostic of the front end. What lies in another file is shown at the document's beginning.
fn shown(found: &ir::Diagnostic, files: &SourceFiles, name: &str, uri: &Url) -> Diagnostic {
    let severity = match found.severity {
        Severity::Error => DiagnosticSeverity::ERROR,
        Severity::Warning => DiagnosticSeverity::WARNING,
    };
    let file = |span: Span| span.file.and_then(|file| files.get(file));
    let mut lines = vec![found.message.clone()];
    let here = file(found.primary.span).filter(|file| file.path == name);
    if let (None, Some(other)) = (here, file(found.primary.span)) {
        let line = position(&other.text, found.primary.span.start).line + 1;
        lines[0] = format!("{}:{line}: {}", other.path, lines[0]);
    }
    lines.extend(Some(found.primary.text.clone()).filter(|text| !text.is_empty()));
    lines.extend(found.notes.iter().map(|note| format!("note: {note}")));
    lines.extend(found.help.iter().map(|help| format!("help: {help}")));
    let related = found.secondary.iter().filter_map(|label| {
        let file = file(label.span).filter(|file| file.path == name)?;
        let location = Location { uri: uri.clone(), range: range(&file.text, label.span) };
        Some(DiagnosticRelatedInformation { location, message: label.text.clone() })
    });
    Diagnostic {
        range: here.map(|file| range(&file.text, found.primary.span)).unwrap_or_default(),
        code: Some(NumberOrString::String(found.code.to_string())),
        related_information: Some(related.collect()),
        ..plain(severity, lines.join("\n"))
    }
}

fn range(text: &str, span: Span) -> Range {
    Range { start: position(text, span.start), end: position(text, span.end) }
}

/// Line and UTF-16 unit in it of a byte, both from 0.
fn position(text: &str, byte: u32) -> Position {
    let before = text.as_bytes().get(..byte as usize).unwrap_or(text.as_bytes());
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let line = before.iter().filter(|byte| **byte == b'\n').count();
    let units = String::from_utf8_lossy(&before[start..]).encode_utf16().count();
    Position { line: line as u32, character: units as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_utf16_units() {
        let text = "a\n\u{e4}\u{1f600}b\n";
        let at = |byte| (position(text, byte).line, position(text, byte).character);
        assert_eq!((at(0), at(1), at(2)), ((0, 0), (0, 1), (1, 0)));
        assert_eq!((at(4), at(8), at(9), at(99)), ((1, 1), (1, 3), (1, 4), (2, 0)));
    }
}
