//! Diagnostics as data: what went wrong, where, and what to write instead.
//!
//! Front ends, passes and targets all report in this form; rendering for people lives with the
//! front end, which knows terminals. The JSON form is the `serde` one, with spans resolved by
//! [`Diagnostic::to_json`].

use crate::program::Program;
use crate::span::{FileId, SourceFile, Span};
use cranelift_entity::PrimaryMap;
use serde_json::{Value, json};

/// Severities of diagnostics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The program cannot be compiled.
    Error,
    /// The program means something, but probably not what its author meant.
    Warning,
}

impl Severity {
    /// `error` or `warning`.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// A span and what is to be said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    pub span: Span,
    pub text: String,
}

/// One message to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: Severity,
    /// Stable identifier, such as `NF0012`.
    pub code: &'static str,
    /// One line, no full stop.
    pub message: String,
    /// The offending text.
    pub primary: Label,
    /// Other places that matter.
    pub secondary: Vec<Label>,
    /// Why.
    pub notes: Vec<String>,
    /// What to write instead.
    pub help: Vec<String>,
}

impl Diagnostic {
    /// An error at `span`.
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            code,
            message: message.into(),
            primary: Label { span, text: String::new() },
            secondary: Vec::new(),
            notes: Vec::new(),
            help: Vec::new(),
        }
    }

    /// A warning at `span`.
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }

    /// Text beside the primary underline.
    pub fn label(mut self, text: impl Into<String>) -> Diagnostic {
        self.primary.text = text.into();
        self
    }

    /// Another place that matters.
    pub fn also(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.secondary.push(Label { span, text: text.into() });
        self
    }

    /// A reason.
    pub fn note(mut self, text: impl Into<String>) -> Diagnostic {
        self.notes.push(text.into());
        self
    }

    /// Advice on what to write instead.
    pub fn help(mut self, text: impl Into<String>) -> Diagnostic {
        self.help.push(text.into());
        self
    }

    /// The JSON form: paths, 1-based lines and columns, byte offsets.
    pub fn to_json(&self, files: &PrimaryMap<FileId, SourceFile>) -> Value {
        let label = |label: &Label| {
            let mut value = json!({ "label": label.text });
            if let Some(file) = label.span.file.and_then(|id| files.get(id)) {
                let (line, column) = label.span.line_col(&file.text);
                value["file"] = json!(file.path);
                value["line"] = json!(line);
                value["column"] = json!(column);
                value["start"] = json!(label.span.start);
                value["end"] = json!(label.span.end);
            }
            value
        };
        json!({
            "severity": self.severity.name(),
            "code": self.code,
            "message": self.message,
            "primary": label(&self.primary),
            "secondary": self.secondary.iter().map(label).collect::<Vec<_>>(),
            "notes": self.notes,
            "help": self.help,
        })
    }
}

/// Sorts by place (files in the order they were read, compiler-made last), errors before warnings
/// at one place, and removes exact repetitions.
pub fn sort(diagnostics: &mut Vec<Diagnostic>) {
    diagnostics.sort_by_key(|d| {
        let span = d.primary.span;
        (span.file.is_none(), span.file, span.start, d.severity, span.end)
    });
    diagnostics.dedup();
}

impl Program {
    /// JSON forms of diagnostics about this program.
    pub fn diagnostics_json(&self, diagnostics: &[Diagnostic]) -> Value {
        diagnostics.iter().map(|d| d.to_json(&self.files)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_by_place_and_without_repetition() {
        let at = |file, start| Span::new(FileId::from_u32(file), start, start + 1);
        let mut list = vec![
            Diagnostic::error("B", at(0, 9), "later"),
            Diagnostic::warning("W", at(0, 3), "warning"),
            Diagnostic::error("N", Span::default(), "nowhere"),
            Diagnostic::error("A", at(0, 3), "first"),
            Diagnostic::error("B", at(0, 9), "later"),
        ];
        sort(&mut list);
        assert_eq!(list.iter().map(|d| d.code).collect::<Vec<_>>(), ["A", "W", "B", "N"]);
    }

    #[test]
    fn json_names_line_and_column() {
        let mut files = PrimaryMap::new();
        let file = files.push(SourceFile { path: "a.c".into(), text: "int\nx;\n".into() });
        let value =
            Diagnostic::error("NF0001", Span::new(file, 4, 5), "no").label("here").to_json(&files);
        assert_eq!(value["primary"]["line"], 2);
        assert_eq!(value["primary"]["column"], 1);
        assert_eq!(value["primary"]["file"], "a.c");
    }
}
