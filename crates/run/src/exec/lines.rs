//! Lines of the packet protocol, written and read.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use nicforge_codegen::dpdk::DpdkArtifact;
use nicforge_ir::{Entry, Input, InputEvent, Match, Output, Program, TableId};

use crate::dpdk::files::{Recorded, detail, matching, timer_number};

/// The kinds of outputs, in the order of their numbers in `runtime/host/nf_log.h`, from 1.
const KINDS: [&str; 8] = ["send", "stack", "host", "message", "write", "drop", "log", "left"];

/// Bytes as a word.
fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "-".to_string();
    }
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn bytes(word: &str) -> Result<Vec<u8>, String> {
    if word == "-" {
        return Ok(Vec::new());
    }
    let pair = |at| word.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
    (0..word.len())
        .step_by(2)
        .map(pair)
        .collect::<Option<_>>()
        .ok_or(format!("`{word}` is no bytes"))
}

/// All input of a run.
pub fn input(
    program: &Program,
    base: &DpdkArtifact,
    events: &[InputEvent],
    entries: &[(TableId, Entry)],
    in_turn: bool,
) -> String {
    let longest = events.iter().map(|event| event.input.bytes().len());
    let mut text = format!("frame {}\nturn {}\n", longest.max().unwrap_or(0), u32::from(in_turn));
    for (table, entry) in entries {
        let lies = &base.host.tables[table.as_u32() as usize];
        let (detail, mask) = detail(entry, lies.key_size as usize);
        let buf = entry.buf.as_deref().unwrap_or(&[]);
        let parts = [&entry.key, &mask, &entry.value, buf].map(hex).join(" ");
        let _ = writeln!(text, "entry {} {detail} {parts}", lies.name);
    }
    for InputEvent { input, time_ns, seed } in events {
        let _ = match input {
            Input::Net { port, frame } => {
                writeln!(text, "packet {time_ns} {seed} {port} {}", hex(frame))
            }
            Input::Host { message } => writeln!(text, "message {time_ns} {seed} {}", hex(message)),
            Input::Tick { timer } => {
                writeln!(text, "tick {time_ns} {seed} {} -", timer_number(program, timer))
            }
        };
    }
    text.push_str("run\n");
    text
}

/// Adds an output of an event, by its number from 0; logs are left out.
pub fn output(text: &mut String, event: usize, output: &Output) {
    let (kind, number, data) = match output {
        Output::Send { port, frame } => ("send", u64::from(*port), frame.as_slice()),
        Output::Stack { frame } => ("stack", 0, frame.as_slice()),
        Output::HostPacket { frame } => ("host", 0, frame.as_slice()),
        Output::HostMessage { bytes } => ("message", 0, bytes.as_slice()),
        Output::DmaWrite { addr, data } => ("write", *addr, data.as_slice()),
        Output::Drop { reason } => ("drop", u64::from(reason.as_u32()), &[][..]),
        Output::Log { .. } => return,
    };
    let _ = writeln!(text, "nf {kind} {event} {number} {}", hex(data));
}

/// Adds an entry of a table, of worker 0.
pub fn entry(text: &mut String, table: &str, entry: &Entry) {
    let (detail, mask) = match &entry.matching {
        Match::Exact => (0, &[][..]),
        Match::Prefix(bits) => (*bits, &[][..]),
        Match::Mask { mask, priority } => (*priority, mask.as_slice()),
    };
    let buf = entry.buf.as_deref().unwrap_or(&[]);
    let parts = [&entry.key, mask, &entry.value, buf].map(hex).join(" ");
    let _ = writeln!(text, "nf entry 0 {table} {detail} {parts}");
}

/// Kinds of lines.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    Protocol,
    Done,
    Console,
}

/// The answer of a command so far.
pub struct Answer {
    pub recorded: Recorded,
    pub shards: BTreeMap<TableId, Vec<(u32, Entry)>>,
    /// Counters as in the file of a process.
    pub stats: String,
    pub has_tables: bool,
    pub console: VecDeque<String>,
}

impl Answer {
    pub fn new(events: usize) -> Answer {
        Answer {
            recorded: Recorded::new(events),
            shards: BTreeMap::new(),
            stats: String::new(),
            has_tables: true,
            console: VecDeque::new(),
        }
    }

    /// The last lines of the console.
    pub fn console(&self) -> String {
        Vec::from_iter(self.console.iter().cloned()).join("\n")
    }

    /// Takes a line in.
    ///
    /// # Errors
    /// It begins with `nf` and is none of the protocol's, or says that the run failed.
    pub fn take(
        &mut self,
        line: &str,
        base: &DpdkArtifact,
        program: &Program,
    ) -> Result<Line, String> {
        let Some(rest) = line.strip_prefix("nf ") else { return Ok(Line::Console) };
        let wrong = |why: &str| {
            format!("{why} in the line `{}`", line.chars().take(200).collect::<String>())
        };
        let words: Vec<&str> = rest.split_whitespace().collect();
        match words[..] {
            ["done"] => return Ok(Line::Done),
            ["failed", ..] => return Err(rest.trim_start_matches("failed").trim().to_string()),
            ["count", name, value] => {
                let _ = writeln!(self.stats, "{name} {value}");
            }
            ["no-tables"] => self.has_tables = false,
            ["entry", ref words @ ..] => {
                self.entry(words, base, program).map_err(|why| wrong(&why))?
            }
            [kind, event, number, data] => {
                let kind =
                    KINDS.iter().position(|word| *word == kind).ok_or(wrong("an unknown word"))?;
                let event = event.parse().map_err(|_| wrong("no number of an event"))?;
                let number = number.parse().map_err(|_| wrong("no number"))?;
                let data = bytes(data).map_err(|why| wrong(&why))?;
                let added = self.recorded.add(kind as u32 + 1, event, number, data, base);
                added.map_err(|why| wrong(&why))?;
            }
            _ => return Err(wrong("an unknown word, or a wrong number of words,")),
        }
        Ok(Line::Protocol)
    }

    fn entry(
        &mut self,
        words: &[&str],
        base: &DpdkArtifact,
        program: &Program,
    ) -> Result<(), String> {
        let [worker, table, detail, key, mask, value, buf] = *words else {
            return Err("a wrong number of words".into());
        };
        let at = base.host.tables.iter().position(|lies| lies.name == table);
        let at = at.ok_or(format!("no table `{table}`"))?;
        let (lies, table) = (&base.host.tables[at], TableId::from_u32(at as u32));
        let number = |word: &str| word.parse::<u32>().map_err(|_| format!("`{word}` is no number"));
        let (worker, detail) = (number(worker)?, number(detail)?);
        let (key, mask, value, buf) = (bytes(key)?, bytes(mask)?, bytes(value)?, bytes(buf)?);
        if (key.len(), value.len()) != (lies.key_size as usize, lies.value_size as usize) {
            return Err(format!(
                "the table has keys of {} bytes and values of {}",
                lies.key_size, lies.value_size
            ));
        }
        let matching = matching(program.tables[table].kind, detail, mask);
        let buf = (lies.buf_capacity > 0).then_some(buf);
        self.shards.entry(table).or_default().push((worker, Entry { key, matching, value, buf }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_they_are_written() {
        for some in [&[][..], &[0], &[0x0a, 0xff, 0x10]] {
            assert_eq!(bytes(&hex(some)), Ok(some.to_vec()));
        }
        for wrong in ["a", "0g", "é0", "0a0"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
