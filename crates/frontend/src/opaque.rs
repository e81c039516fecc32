//! What a function of C outside the subset does with the state it is given: an element of a flow
//! program whose body the subset has no words for.
//!
//! Such a function stays C and is called ([`nicforge_ir::Op::Extern`]) with those members of the
//! state that it uses. Which these are is read from clang's tree of the function: every use of its
//! parameter `state`, by the path of members, with whether some way reads it before it is written
//! and whether every way writes it ([`walk`]). The file is compiled as a process has it, with the C
//! library's headers.
//!
//! The conventions are those of `python/nicforge/flow/opaque.py`, which writes the file: the state
//! is a parameter `state`, outputs are functions `nf_called_NAME` (`nf_counted_NAME` if they may be
//! called several times), and the packet (`nf_pkt`) goes nowhere but into them.

mod expr;
mod shape;
mod walk;

use std::path::Path;

use nicforge_ir::{Diagnostic, Severity, SourceFile, Span, diag};

use crate::ast::{Files, Node};
use crate::diagnostics::codes;
use crate::{Diagnostics, Options, SourceFiles, clang, to_text};

/// Uses that a function makes of one member of its state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Members from the outermost on; none for the state as a whole.
    pub path: Vec<String>,
    /// Where its value from before the function is read first.
    pub read: Option<Span>,
    /// Where it is written first.
    pub written: Option<Span>,
    /// Some way leaves it as it was, or only a part of it is written.
    pub kept: bool,
}

/// Effects of a function.
#[derive(Clone, Debug)]
pub struct Opaque {
    /// Sorted by path.
    pub uses: Vec<Use>,
    /// Variables of the function that keep their values from call to call.
    pub statics: Vec<Span>,
    pub files: SourceFiles,
}

/// Reads one function of a file.
///
/// # Errors
/// clang's own errors; what opaque code cannot do, such as looking into the packet; that there is
/// no such function.
pub fn read(path: &Path, function: &str, options: &Options) -> Result<Opaque, Diagnostics> {
    crate::with_stack(|| read_here(path, function, options))
}

fn read_here(path: &Path, function: &str, options: &Options) -> Result<Opaque, Diagnostics> {
    let text_of = |path: &str| {
        let text = std::fs::read(path).map(to_text).unwrap_or_default();
        SourceFile { path: path.to_string(), text }
    };
    let shown = path.to_string_lossy().into_owned();
    let is_user = |path: &str| path == shown;
    let mut files = Files::new(&text_of, &is_user);
    files.open(&shown);
    let all = match clang::parse_hosted(&shown, function, options, &mut files) {
        Ok(all) => all,
        Err(diagnostics) => return Err(Diagnostics { diagnostics, files: files.map }),
    };
    let wanted = |node: &&Node| {
        node.kind == "FunctionDecl"
            && node.name == function
            && node.inner.iter().any(|n| n.kind == "CompoundStmt")
    };
    let Some(node) = all.iter().find(wanted) else {
        let message = format!("`{shown}` has no function `{function}`");
        let diagnostic = Diagnostic::error(codes::OPAQUE.id, Span::default(), message);
        return Err(Diagnostics { diagnostics: vec![diagnostic], files: files.map });
    };
    let mut found = walk::function(node);
    diag::sort(&mut found.diagnostics);
    if found.diagnostics.iter().any(|d| d.severity == Severity::Error) {
        return Err(Diagnostics { diagnostics: found.diagnostics, files: files.map });
    }
    Ok(Opaque { uses: found.uses, statics: found.statics, files: files.map })
}
