//! Source locations: every op, table and handler knows where the user wrote it.

use cranelift_entity::entity_impl;

/// A source file of the program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(u32);
entity_impl!(FileId, "f");

/// Path and whole text of a source file; diagnostics quote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    pub path: String,
    pub text: String,
}

/// A byte range in a source file. `start == end == 0` with no file means "made by the compiler".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    pub file: Option<FileId>,
    pub start: u32,
    pub end: u32,
}

impl Span {
    /// A span of `file` from byte `start` up to, not including, byte `end`.
    pub fn new(file: FileId, start: u32, end: u32) -> Span {
        Span { file: Some(file), start, end }
    }

    /// 1-based line and column of the first byte, given the text of its file.
    pub fn line_col(&self, text: &str) -> (u32, u32) {
        let upto = &text.as_bytes()[..(self.start as usize).min(text.len())];
        let line = memchr::memchr_iter(b'\n', upto).count() as u32 + 1;
        let col = upto.iter().rev().take_while(|b| **b != b'\n').count() as u32 + 1;
        (line, col)
    }
}
