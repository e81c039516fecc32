//! What GCC and the linker say of handlers, each message at a line of the user's own files.
//!
//! Mistakes in the use of a macro or an inline function of our headers are reported inside the
//! header. The user's line is then in a line before the message (`inlined from`, `from`) or in a
//! note behind it (`in expansion of macro`).

use std::path::Path;

/// A place in a file of the user's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub file: String,
    pub line: u32,
    /// From 1; 0 if unknown.
    pub column: u32,
}

/// A message of the compiler or the linker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub error: bool,
    pub message: String,
    /// `None` if it is about no line of the user's.
    pub place: Option<Place>,
}

/// The messages in what was printed. Files in the folders `ours` are not the user's.
pub fn said(printed: &str, ours: &[&Path]) -> Vec<Said> {
    let users =
        |place: &Place| !ours.iter().any(|folder| Path::new(&place.file).starts_with(folder));
    let mut list: Vec<Said> = Vec::new();
    let mut before: Option<Place> = None;
    let mut in_header = false;
    for line in printed.lines() {
        let lead = ["In file included from ", "                 from "];
        let way = lead.iter().find_map(|lead| line.strip_prefix(lead)).or_else(|| {
            line.trim_start().strip_prefix("inlined from ")?.split_once(" at ").map(|(_, at)| at)
        });
        if let Some(way) = way {
            if line.starts_with("In file") {
                before = None;
            }
            // The last of them is nearest to the user.
            before = place(way).map(|(place, _)| place).filter(users).or(before);
            continue;
        }
        let Some((named, rest)) = split(line) else { continue };
        // What is said of a line of ours is about the user's that leads to it.
        let led = before.clone().filter(|_| named.is_some());
        let at = named.filter(users);
        match rest.split_once(": ").unwrap_or(("", rest)) {
            (kind @ ("error" | "fatal error" | "warning"), message) => {
                in_header = at.is_none();
                push(&mut list, kind != "warning", message, at.or(led));
            }
            // Nearer than the line that includes the header.
            ("note", note) if in_header && note.starts_with("in expansion") && at.is_some() => {
                if let Some(mut last) = list.pop() {
                    last.place = at;
                    push(&mut list, last.error, &last.message, last.place);
                }
            }
            _ if rest.starts_with("undefined reference") => push(&mut list, true, rest, at),
            _ => {}
        }
    }
    let linker = |said: &Said| said.message.starts_with("ld returned");
    if list.iter().any(|said| said.error && !linker(said)) {
        list.retain(|said| !linker(said));
    }
    list
}

fn push(list: &mut Vec<Said>, error: bool, message: &str, place: Option<Place>) {
    let said = Said { error, message: message.to_string(), place };
    if !list.contains(&said) {
        list.push(said);
    }
}

/// A message's place, where it has one, and the rest. Lines of source text are none.
fn split(line: &str) -> Option<(Option<Place>, &str)> {
    if let Some((place, rest)) = place(line) {
        return Some((Some(place), rest.trim_start()));
    }
    // `cc1: error: …`, `…/ld: FILE:LINE: …` and `…/ld: …`.
    let (_, rest) = line.split_once(": ").filter(|(tool, _)| !tool.contains(' '))?;
    match place(rest) {
        Some((place, rest)) => Some((Some(place), rest.trim_start())),
        None => Some((None, rest)),
    }
}

/// `FILE:LINE:COLUMN:`, `FILE:LINE:` or `FILE:LINE,` at the beginning of a line, and the rest.
fn place(text: &str) -> Option<(Place, &str)> {
    let (file, rest) = text.split_once(':')?;
    let (line, rest) = number(rest)?;
    let (column, rest) = rest.strip_prefix(':').and_then(number).unwrap_or((0, rest));
    let rest = rest.trim_start_matches([':', ',']);
    Some((Place { file: file.to_string(), line, column }, rest))
}

/// The number at the beginning, and what follows.
fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok().map(|number| (number, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_at_the_users_lines() {
        let printed = "\
In file included from /rt/include/handler.h:9,
                 from bad.c:1:
In function 'amo_add',
    inlined from 'x_ph' at bad.c:8:5:
/rt/include/pspin.h:107:31: warning: writing 4 bytes
  107 | NF_SPIN_AMO(amo_add, int32_t, __atomic_fetch_add)
bad.c: In function 'x_ph':
bad.c:7:26: error: no member named 'tusk'; did you mean: 'task'?
/rt/include/handler.h:26:41: error: wrong in a macro
bad.c:9:3: note: in expansion of macro 'GET'
/usr/bin/ld: /tmp/x.o: in function `x_ph':
/w/bad.c:5: undefined reference to `f'
/usr/bin/ld: /w/bad.c:5: undefined reference to `f'
cc1: error: no such option
collect2: error: ld returned 1 exit status
";
        let found = said(printed, &[Path::new("/rt")]);
        let row = |said: &Said| {
            let place = said.place.as_ref().map(|place| (place.line, place.column));
            (said.error, said.message.clone(), place)
        };
        let rows: Vec<_> = found.iter().map(row).collect();
        assert_eq!(
            rows,
            [
                (false, "writing 4 bytes".to_string(), Some((8, 5))),
                (true, "no member named 'tusk'; did you mean: 'task'?".to_string(), Some((7, 26))),
                (true, "wrong in a macro".to_string(), Some((9, 3))),
                (true, "undefined reference to `f'".to_string(), Some((5, 0))),
                (true, "no such option".to_string(), None),
            ]
        );
    }
}
