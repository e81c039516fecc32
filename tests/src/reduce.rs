//! Making a failing program small: lines, blocks and operands go as long as it fails in the same
//! way.
//!
//! Whatever is left out, the rest must still be a program, which the front end says; so any cut may
//! be tried. It knows how our generator writes; a program of other origin is made small by `cvise`,
//! which nothing here needs.

/// The smallest text found for which `fails` holds, as it does for `text`.
pub fn reduce(text: &str, fails: impl Fn(&str) -> bool) -> String {
    let mut best = text.to_string();
    loop {
        let before = best.len();
        best = without_lines(best, &fails);
        best = without_operands(best, &fails);
        if best.len() >= before {
            return best;
        }
    }
}

/// The last line of the block that line `at` opens, or `at` itself.
fn end_of_block(lines: &[String], at: usize) -> usize {
    let mut depth = 0i32;
    for (number, line) in lines.iter().enumerate().skip(at) {
        depth += line.matches('{').count() as i32 - line.matches('}').count() as i32;
        if depth <= 0 && (number > at || !opens_next(lines, at)) {
            return number;
        }
    }
    at
}

/// True if a function's head, whose brace is on the next line.
fn opens_next(lines: &[String], at: usize) -> bool {
    lines.get(at + 1).is_some_and(|line| line.trim() == "{")
}

fn join(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

/// Takes out blocks and lines, and the lines around a block.
fn without_lines(text: String, fails: &impl Fn(&str) -> bool) -> String {
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    let mut at = 0;
    while at < lines.len() {
        // The count of trips is what makes a loop end.
        if ["TRIP", "NF_BOUND", "#include"]
            .iter()
            .any(|start| lines[at].trim_start().starts_with(start))
        {
            at += 1;
            continue;
        }
        let end = end_of_block(&lines, at);
        let mut without = lines.clone();
        without.drain(at..=end);
        if fails(&join(&without)) {
            lines = without;
            continue;
        }
        if end > at {
            let mut bare = lines.clone();
            bare.remove(end);
            bare.remove(at);
            if fails(&join(&bare)) {
                lines = bare;
                continue;
            }
        }
        at += 1;
    }
    join(&lines)
}

/// Puts a constant in place of what is in parentheses.
fn without_operands(text: String, fails: &impl Fn(&str) -> bool) -> String {
    let mut best = text;
    let mut from = 0;
    while let Some(open) = best[from..].find('(').map(|at| at + from) {
        let mut depth = 0;
        let close = best[open..].char_indices().find(|(_, c)| {
            depth += i32::from(*c == '(') - i32::from(*c == ')');
            depth == 0
        });
        let Some(close) = close.map(|(at, _)| at + open) else { break };
        let inner = &best[open + 1..close];
        for shorter in ["0", "1"] {
            let simple = inner.len() > 1 && !inner.contains('\n') && !inner.contains("pkt");
            let cut = format!("{}{shorter}{}", &best[..open + 1], &best[close..]);
            if simple && fails(&cut) {
                best = cut;
                break;
            }
        }
        from = open + 1;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_stays() {
        let text = "a;\nif (x) {\n    b;\n    bad(f(1 + 2), 3);\n}\nvoid g()\n{\n    c;\n}\n";
        assert_eq!(reduce(text, |text| text.contains("bad(")), "    bad(0);\n");
        let balanced = |text: &str| text.matches('{').count() == text.matches('}').count();
        let kept = reduce(text, |text| balanced(text) && text.contains("void g()\n{"));
        assert_eq!(kept, "void g()\n{\n}\n");
    }
}
