//! Regular expressions.

use super::rng::Rng;

const ATOMS: [&str; 9] = [
    r"\x00",
    r"[\x00-\x7f]",
    r"[^\x00]",
    ".",
    r"[\x01\x80-\xff]",
    "[a-z0-9]",
    r"(\x00|[\x80-\xff]{2})",
    r"([^\xff]\x00|\x01)",
    "(?i:[a-f])",
];
/// How often an atom may be there; the first is there at least once.
const COUNTS: [&str; 7] = ["", "", "+", "{2}", "{1,3}", "?", "*"];

/// One to three patterns, one a line, none of which matches nothing.
pub fn patterns(r: &mut Rng) -> String {
    let lines: Vec<String> = (0..1 + r.below(3)).map(|_| pattern(r)).collect();
    lines.join("\n")
}

fn pattern(r: &mut Rng) -> String {
    let mut text = if r.percent(30) { "^" } else { "" }.to_string();
    for at in 0..1 + r.below(4) {
        text += r.of(&ATOMS);
        text += r.of(&COUNTS[..if at == 0 { 5 } else { COUNTS.len() }]);
    }
    text + if r.percent(20) { r"\z" } else { "" }
}
