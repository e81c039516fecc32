//! What is nested too deeply for clang, found in the text before it runs.
//!
//! clang's parser and its printer of trees walk expressions by recursion without a limit of their
//! own (brackets apart): some thousands of operators in one expression overflow its stack, and
//! before that its tree is so large that reading it takes minutes, since each level is indented. So
//! the words of the file are counted: operators between two ends of a statement, and `else` behind
//! `else`. What macros make of little text is not seen here; a clang that crashes is told apart by
//! its signal.

use nicforge_ir::{Diagnostic, FileId, Span};

use crate::diagnostics::codes;

/// Operators of one expression at most.
const MOST_OPERATORS: usize = 1000;
/// Links of one chain of `if … else if …` at most; control flow is limited to less, which is said
/// later with the place.
const MOST_ELSE: usize = 1000;

/// The first place that is too deep, if any.
pub fn check(text: &str, file: Option<FileId>) -> Option<Diagnostic> {
    let mut operators = 0;
    // By depth of braces: links of the chain that is open, and whether a statement has just ended.
    let mut chains = vec![(0usize, false)];
    let words = Words { text: text.as_bytes(), at: 0 };
    for (start, word) in words {
        let span = || Span { file, start: start as u32, end: (start + word.len()) as u32 };
        match word {
            b";" | b"{" | b"}" | b"," => operators = 0,
            _ if is_operator(word[0]) => operators += 1,
            _ => {}
        }
        if operators > MOST_OPERATORS {
            let what = format!("an expression has more than {MOST_OPERATORS} operators here");
            return Some(too_deep(
                span(),
                what,
                "compute parts of it in variables of their own, or in a loop",
            ));
        }
        let last = chains.len() - 1;
        match word {
            b"{" => {
                // A body in braces belongs to the chain around it.
                chains.push((0, false));
                continue;
            }
            b"}" => {
                if last > 0 {
                    chains.pop();
                }
                let outer = chains.len() - 1;
                chains[outer].1 = true;
                continue;
            }
            b"else" => chains[last].0 += 1,
            _ if chains[last].1 => chains[last].0 = 0,
            _ => {}
        }
        chains[last].1 = word == b";";
        if chains[last].0 > MOST_ELSE {
            let what = format!("more than {MOST_ELSE} `else` follow each other here");
            return Some(too_deep(span(), what, "use a switch, or a table"));
        }
    }
    None
}

/// clang was killed by a signal: it does that on what is nested too deeply.
pub fn crashed(signal: i32) -> Diagnostic {
    let message = format!(
        "clang crashed on this program (signal {signal}): something in it is nested too deeply"
    );
    Diagnostic::error(codes::NESTING.id, Span::default(), message).help(
        "look for macros that expand to thousands of operators or brackets, and take them apart",
    )
}

fn too_deep(span: Span, message: String, help: &str) -> Diagnostic {
    Diagnostic::error(codes::NESTING.id, span, message).help(help)
}

fn is_operator(byte: u8) -> bool {
    b"+-*/%&|^~!<>=?(.[".contains(&byte)
}

/// Words of C: identifiers and numbers whole, everything else byte by byte; no comments, strings
/// and lines of the preprocessor.
struct Words<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Words<'t> {
    fn skip_to(&mut self, end: &[u8]) {
        let rest = &self.text[self.at.min(self.text.len())..];
        let found = rest.windows(end.len()).position(|window| window == end);
        self.at += found.map_or(rest.len(), |at| at + end.len());
    }

    /// Skips a string or character up to its quote or the end of its line.
    fn skip_quoted(&mut self, quote: u8) {
        self.at += 1;
        while let Some(&byte) = self.text.get(self.at) {
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == quote || byte == b'\n' {
                break;
            }
        }
    }

    /// Skips a line of the preprocessor with those that continue it.
    fn skip_directive(&mut self) {
        while let Some(&byte) = self.text.get(self.at) {
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == b'\n' {
                break;
            }
        }
    }

    fn starts_line(&self) -> bool {
        let before = &self.text[..self.at];
        let blank = before.iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        matches!(before.get(before.len().wrapping_sub(blank + 1)), None | Some(b'\n'))
    }
}

impl<'t> Iterator for Words<'t> {
    type Item = (usize, &'t [u8]);

    fn next(&mut self) -> Option<(usize, &'t [u8])> {
        loop {
            let rest = self.text.get(self.at..)?;
            let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
            match rest {
                [] => return None,
                [b'/', b'/', ..] => self.skip_to(b"\n"),
                [b'/', b'*', ..] => {
                    self.at += 2;
                    self.skip_to(b"*/");
                }
                [quote @ (b'"' | b'\''), ..] => self.skip_quoted(*quote),
                [b'#', ..] if self.starts_line() => self.skip_directive(),
                [byte, ..] if byte.is_ascii_whitespace() => self.at += 1,
                _ => {
                    let start = self.at;
                    let len = rest.iter().take_while(|byte| word(byte)).count().max(1);
                    self.at += len;
                    return Some((start, &rest[..len]));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Option<String> {
        check(text, None).map(|diagnostic| diagnostic.message)
    }

    #[test]
    fn deep_expressions_and_chains_are_found() {
        for deep in ["~", "a + ", "!", "a ? 1 : ", "- ", "(", "*", "a = ", "f(", "a["] {
            let text = format!("int x = {}a;", deep.repeat(20_000));
            assert!(message(&text).is_some_and(|m| m.contains("1000 operators")), "{deep}");
            let some = format!("int x = {}a;", deep.repeat(400));
            assert_eq!(message(&some), None, "{deep}");
        }
        for arm in ["if (a == 1) b += 1; else ", "if (a) { b = 1; } else "] {
            let text = format!("void f(void) {{ {} b = 2; }}", arm.repeat(5000));
            assert!(message(&text).is_some_and(|m| m.contains("`else`")), "{arm}");
            let apart =
                format!("void f(void) {{ {} }}", "if (a == 1) b += 1; else b = 2; ".repeat(5000));
            assert_eq!(message(&apart), None);
        }
    }

    #[test]
    fn long_is_not_deep() {
        let list = format!("int a[] = {{ {} }};", "-1, (2 + 3), ".repeat(5000));
        assert_eq!(message(&list), None);
        let lines = "a = b + c * (d - 1);\n".repeat(5000);
        assert_eq!(message(&lines), None);
        let quiet = format!(
            "/* {0} */ // {0}\nchar *s = \"{0}\";\n#define X {0} \\\n {0}\nint a;",
            "+".repeat(5000)
        );
        assert_eq!(message(&quiet), None);
        assert_eq!(message("int x = '\\"), None);
        assert_eq!(message("/* open"), None);
    }
}
