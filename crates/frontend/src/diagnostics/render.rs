//! Diagnostics as text, in the look rustc made familiar.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use cranelift_entity::PrimaryMap;
use nicforge_ir::{Diagnostic, FileId, Label, Severity, SourceFile};

/// Columns at which source lines are cut; terminals may be narrower, files and tests are not.
const WIDTH: usize = 140;

/// One diagnostic with its source lines, without a final line break. `color` adds terminal escapes.
pub fn render(
    diagnostic: &Diagnostic,
    files: &PrimaryMap<FileId, SourceFile>,
    color: bool,
) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group =
        Group::with_title(level.primary_title(&*diagnostic.message).id(diagnostic.code));
    for (file, labels) in by_file(diagnostic) {
        let source = &files[file];
        let mut snippet = Snippet::source(&*source.text).path(&*source.path);
        for (label, primary) in labels {
            let kind = if primary { AnnotationKind::Primary } else { AnnotationKind::Context };
            let mut annotation = kind.span(clamp(label, &source.text));
            if !label.text.is_empty() {
                annotation = annotation.label(&*label.text);
            }
            snippet = snippet.annotation(annotation);
        }
        group = group.element(snippet);
    }
    for note in &diagnostic.notes {
        group = group.element(Level::NOTE.message(&**note));
    }
    for help in &diagnostic.help {
        group = group.element(Level::HELP.message(&**help));
    }
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    renderer.term_width(WIDTH).render(&[group])
}

/// Several diagnostics, separated by empty lines, with a line break at the end.
pub fn render_all(
    diagnostics: &[Diagnostic],
    files: &PrimaryMap<FileId, SourceFile>,
    color: bool,
) -> String {
    let mut text = String::new();
    for diagnostic in diagnostics {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&render(diagnostic, files, color));
        text.push('\n');
    }
    text
}

/// The labels grouped by file, the primary one's file first.
fn by_file(diagnostic: &Diagnostic) -> Vec<(FileId, Vec<(&Label, bool)>)> {
    let mut groups: Vec<(FileId, Vec<(&Label, bool)>)> = Vec::new();
    let all = std::iter::once((&diagnostic.primary, true))
        .chain(diagnostic.secondary.iter().map(|l| (l, false)));
    for (label, primary) in all {
        let Some(file) = label.span.file else { continue };
        match groups.iter_mut().find(|(id, _)| *id == file) {
            Some((_, labels)) => labels.push((label, primary)),
            None => groups.push((file, vec![(label, primary)])),
        }
    }
    groups
}

/// The label's byte range, made to fit the text: a file may have changed since clang read it.
fn clamp(label: &Label, text: &str) -> std::ops::Range<usize> {
    let floor = |at: u32| {
        let mut at = (at as usize).min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = floor(label.span.start);
    start..floor(label.span.end).max(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nicforge_ir::Span;

    #[test]
    fn shows_line_reason_and_remedy() {
        let mut files = PrimaryMap::new();
        let file = files.push(SourceFile { path: "a.c".into(), text: "float x;\n".into() });
        let diagnostic = Diagnostic::error("NF0001", Span::new(file, 0, 5), "no floating point")
            .label("this type")
            .note("NICs have none")
            .help("scale integers");
        let text = render(&diagnostic, &files, false);
        for part in [
            "error[NF0001]: no floating point",
            "a.c:1:1",
            "^^^^^ this type",
            "note: NICs",
            "help: scale",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }

    #[test]
    fn spans_beyond_the_text_do_not_panic() {
        let mut files = PrimaryMap::new();
        let file = files.push(SourceFile { path: "a.c".into(), text: "é".into() });
        let diagnostic = Diagnostic::error("NF0001", Span::new(file, 1, 99), "m");
        assert!(render(&diagnostic, &files, false).contains("error[NF0001]"));
    }
}
