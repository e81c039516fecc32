//! `nicforge explain-error`: what a diagnostic's code means, with a program that causes it and the
//! same program mended. The text is that of `docs/errors.md`.

use nicforge_driver::{Failure, codes};

use crate::args::ExplainError;

const PAGE: &str = include_str!("../../../../docs/errors.md");

pub fn run(args: &ExplainError) -> Result<(), Failure> {
    let Some(wanted) = &args.code else {
        for code in codes::all() {
            outln!("{}  {}", code.id, code.title);
        }
        return Ok(());
    };
    let Some(code) = codes::all().find(|code| names(wanted, code.id)) else {
        return Err(Failure::usage(format!(
            "there is no code `{wanted}`; `nicforge explain-error` lists all, such as NF0023"
        )));
    };
    let text = section(PAGE, code.id).expect("a test finds every code in docs/errors.md");
    crate::out::text(&for_terminal(text));
    Ok(())
}

/// True if `wanted` means the code: `NF0023`, `nf0023`, `23` or `error[NF0023]`.
fn names(wanted: &str, id: &str) -> bool {
    let wanted = wanted.rsplit('[').next().unwrap_or(wanted).trim_end_matches(']');
    let wanted = wanted.to_ascii_uppercase();
    let digits = wanted.strip_prefix("NF").unwrap_or(&wanted);
    !digits.is_empty()
        && digits.bytes().all(|b| b.is_ascii_digit())
        && format!("NF{digits:0>4}") == id
}

/// The manual's section of a code, in Markdown.
pub fn markdown(code: &str) -> Option<String> {
    section(PAGE, code).map(|text| format!("### {text}"))
}

/// The section of a code, from its heading up to the next heading.
fn section<'a>(page: &'a str, id: &str) -> Option<&'a str> {
    let start = page.find(&format!("\n### {id}: "))? + "\n### ".len();
    let rest = &page[start..];
    // Lines of C that begin with # have no space behind it.
    let end = ["\n## ", "\n### "].iter().filter_map(|mark| rest.find(mark)).min();
    Some(rest[..end.unwrap_or(rest.len())].trim_end())
}

/// Markdown as plain text: what is fenced is indented instead.
fn for_terminal(markdown: &str) -> String {
    let mut text = String::new();
    let mut fenced = false;
    for line in markdown.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else {
            text.push_str(if fenced && !line.is_empty() { "    " } else { "" });
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_section_with_its_title_and_no_section_is_left_over() {
        let headings: Vec<&str> =
            PAGE.lines().filter_map(|line| line.strip_prefix("### ")).collect();
        let table: Vec<String> =
            codes::all().map(|code| format!("{}: {}", code.id, code.title)).collect();
        assert_eq!(headings, table);
    }

    #[test]
    fn codes_are_found_as_people_write_them() {
        for wanted in ["NF0023", "nf0023", "23", "0023", "nf23", "error[NF0023]"] {
            assert!(names(wanted, "NF0023"), "{wanted}");
        }
        for wanted in ["", "NF", "x23", "230", "2 3"] {
            assert!(!names(wanted, "NF0023"), "{wanted}");
        }
    }

    #[test]
    fn a_section_ends_where_the_next_begins() {
        let page = "\n### NF0001: a\n\n```c\n#include <a.h>\n```\n\n## More\n\n### NF0002: b\n";
        assert_eq!(section(page, "NF0001"), Some("NF0001: a\n\n```c\n#include <a.h>\n```"));
        assert_eq!(section(page, "NF0002"), Some("NF0002: b"));
        assert_eq!(for_terminal("a\n```c\nb\n\n```\nc"), "a\n    b\n\nc\n");
    }
}
