//! `bpf_trace_printk` and `bpf_trace_vprintk`, as `log`.
//!
//! `log` prints decimal numbers. What it cannot print (`%s` of bytes that are not known, a pointer)
//! stays in the line as the format has it: only a developer reads it.

use nicforge_ir::{Op, Type};

use crate::calls::MOST_BYTES;
use crate::error::{Halt, refuse};
use crate::lifter::Lifter;
use crate::state::State;
use crate::value::Abs;

/// Bytes of a string at most.
const LONGEST: i64 = 64;

/// A place of a format.
enum Place {
    Number {
        bits: u32,
        signed: bool,
    },
    /// `%pI4`, `%pI6`: bytes of each number, and how many.
    Address {
        bytes: u32,
        numbers: i64,
        between: char,
    },
    Text,
    /// A pointer, which means nothing here.
    Pointer,
}

impl Lifter<'_> {
    /// Words of 8 bytes that a helper is given in memory.
    pub fn words_of(&mut self, state: &mut State, at: Abs, bytes: Abs) -> Result<Vec<Abs>, Halt> {
        let bytes = self.num(bytes)?.constant().filter(|bytes| *bytes <= MOST_BYTES);
        let Some(bytes) = bytes else { return refuse("prints a number of values that varies") };
        (0..bytes as i64 / 8).map(|word| self.load(state, at, 8 * word, 8)).collect()
    }

    /// A line for the developer, from a format and its arguments.
    pub fn log(
        &mut self,
        state: &mut State,
        [text, size]: [Abs; 2],
        given: &[Abs],
    ) -> Result<Abs, Halt> {
        let (pointer, size) = (self.read(text)?, self.size(size)?);
        let text = self.text(state, pointer, size.into())?;
        let text = text.unwrap_or_else(|| "one of several messages".to_string());
        let (mut format, mut args) = (String::new(), Vec::new());
        let mut given = given.iter();
        for (before, place, as_written) in pieces(&text) {
            // `{}` is a place of `log`'s own.
            format.push_str(&before.replace("{}", "{ }"));
            let Some(place) = place else { continue };
            match (place, given.next()) {
                (Place::Number { bits, signed }, Some(arg)) => {
                    let num = self.cut(*arg, bits / 8)?;
                    let ty = if signed { Type::i(bits as u8) } else { Type::u(bits as u8) };
                    let value = self.value(num, bits);
                    args.push(self.build().cast(value, ty));
                    format.push_str("{}");
                }
                (Place::Address { bytes, numbers, between }, Some(arg)) => {
                    let pointer = self.read(*arg)?;
                    for nth in 0..numbers {
                        let part = self.load(state, pointer, nth * i64::from(bytes), bytes)?;
                        let part = self.num(part)?;
                        let part = if bytes == 2 { self.swap(part, 16) } else { part };
                        args.push(self.value(part, 8 * bytes));
                        format.extend((nth > 0).then_some(between));
                        format.push_str("{}");
                    }
                }
                (Place::Text, Some(arg)) => {
                    let pointer = self.read(*arg)?;
                    let text = self.text(state, pointer, LONGEST).unwrap_or_default();
                    format.push_str(&text.unwrap_or(as_written).replace("{}", "{ }"));
                }
                _ => format.push_str(&as_written),
            }
        }
        self.build().push0(Op::Log { format, args });
        Ok(Abs::Unusable("how much bpf_trace_printk printed"))
    }

    /// The string that a pointer points to, if its bytes are known.
    fn text(&mut self, state: &mut State, pointer: Abs, most: i64) -> Result<Option<String>, Halt> {
        let mut text = Vec::new();
        for at in 0..most {
            let byte = self.load(state, pointer, at, 1)?;
            match self.num(byte)?.constant() {
                Some(0) => break,
                Some(byte) => text.push(byte as u8),
                None => return Ok(None),
            }
        }
        Ok(Some(String::from_utf8_lossy(&text).into_owned()))
    }
}

/// A format of the kernel's in pieces: the text before a place, the place, and how it is written.
fn pieces(text: &str) -> Vec<(String, Option<Place>, String)> {
    let (mut made, mut before) = (Vec::new(), String::new());
    let mut rest = text.trim_end_matches('\n');
    while let Some((text, place)) = rest.split_once('%') {
        before.push_str(text);
        let flags = |c: char| c.is_ascii_digit() || "#-+ .lzh".contains(c);
        let at = place.find(|c| !flags(c)).unwrap_or(place.len());
        let (modifiers, kind) = place.split_at(at);
        let long = modifiers.contains(['l', 'z']);
        let bits = match modifiers.matches('h').count() {
            _ if long => 64,
            0 => 32,
            1 => 16,
            _ => 8,
        };
        let mut length = kind.chars().next().map_or(0, char::len_utf8);
        let found = match kind.chars().next() {
            Some('%') => {
                before.push('%');
                None
            }
            Some(sign @ ('d' | 'i' | 'u' | 'x' | 'X' | 'o' | 'c')) => {
                Some(Place::Number { bits, signed: matches!(sign, 'd' | 'i') })
            }
            Some('s') => Some(Place::Text),
            Some('p') => {
                let more = kind[1..].find(|c: char| !c.is_ascii_alphanumeric());
                length = more.map_or(kind.len(), |more| 1 + more);
                Some(match kind.get(..3) {
                    Some("pI4" | "pi4") => {
                        length = 3;
                        Place::Address { bytes: 1, numbers: 4, between: '.' }
                    }
                    Some("pI6" | "pi6") => {
                        length = 3;
                        Place::Address { bytes: 2, numbers: 8, between: ':' }
                    }
                    _ => Place::Pointer,
                })
            }
            _ => {
                before.push('%');
                length = 0;
                None
            }
        };
        let written = format!("%{modifiers}{}", &kind[..length]);
        rest = &kind[length..];
        if found.is_some() {
            made.push((std::mem::take(&mut before), found, written));
        }
    }
    before.push_str(rest);
    made.push((before, None, String::new()));
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_of_the_kernel() {
        let read = |text: &str| -> Vec<String> {
            let one = |(before, place, written): (String, Option<Place>, String)| match place {
                None => before,
                Some(Place::Number { bits, signed }) => format!("{before}[{bits} {signed}]"),
                Some(Place::Address { numbers, .. }) => format!("{before}[{numbers} numbers]"),
                Some(Place::Text) => format!("{before}[text]"),
                Some(Place::Pointer) => format!("{before}[{written}]"),
            };
            pieces(text).into_iter().map(one).collect()
        };
        assert_eq!(read("a %d, %-08llx%%\n"), ["a [32 true]", ", [64 false]", "%"]);
        assert_eq!(read("%hhu%hd"), ["[8 false]", "[16 true]", ""]);
        assert_eq!(read("%pI4:%d %pi6"), ["[4 numbers]", ":[32 true]", " [8 numbers]", ""]);
        assert_eq!(read("%s at %p, %pks."), ["[text]", " at [%p]", ", [%pks]", "."]);
        assert_eq!(read("100%"), ["100%"]);
        assert_eq!(read("%!é%"), ["%!é%"]);
    }
}
