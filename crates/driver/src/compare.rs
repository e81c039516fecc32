//! The interpreter beside a target: expected outputs, and where they differ.

use std::collections::BTreeSet;

use nicforge_ir::interp::Interp;
use nicforge_ir::{Entry, InputEvent, Output, Program, TableBackend, TableId, json};
use nicforge_run::live::Streams;
use serde_json::Value;

use crate::Failure;
use crate::align::{Pair, align};
use crate::given_up::GivenUp;

/// Agreement between a target's run and the interpreter's.
#[derive(Clone, Debug, Default)]
pub struct Agreement {
    pub events: usize,
    pub matching: usize,
    pub tables: usize,
    pub matching_tables: usize,
    /// Events that were left out, since they hang on entries that a full LRU table gave up.
    pub given_up: usize,
    /// The first differences, as text for people.
    pub differences: Vec<String>,
}

impl Agreement {
    /// Everything is equal.
    pub fn complete(&self) -> bool {
        self.events == self.matching && self.tables == self.matching_tables
    }

    /// Everything is equal, and there was something to compare: what a check needs to pass.
    pub fn passes(&self) -> bool {
        self.events > 0 && self.complete()
    }

    /// Says how it went, as the end of a sentence about who ran.
    pub fn verdict(&self) -> String {
        let (events, tables) = (self.events, self.tables);
        if self.complete() && events == 0 {
            return "was not compared with the reference: no events".to_string();
        }
        if self.complete() {
            return format!(
                "matches the reference: {events} of {events} events, {tables} of {tables} tables"
            );
        }
        let wrong = (events - self.matching.min(events), tables - self.matching_tables.min(tables));
        format!(
            "does not match the reference: {} of {events} events differ, {} of {tables} tables differ",
            wrong.0, wrong.1
        )
    }

    /// Says how many events were left out, if some were.
    pub fn left_out(&self) -> Option<String> {
        (self.given_up > 0).then(|| {
            format!(
                "{} events were not compared: they hang on entries that a full lru table gave up",
                self.given_up
            )
        })
    }

    /// How a check ends; `beyond` events were left out, since the target does not take them.
    ///
    /// # Errors
    /// Something differs, or nothing was compared, which proves nothing.
    pub fn end(&self, beyond: usize) -> Result<(), Failure> {
        match (self.passes(), self.complete(), beyond + self.given_up) {
            (true, ..) => Ok(()),
            (_, false, _) => Err(Failure::rendered(String::new())),
            (_, _, 0) => Err(Failure::user(
                "nothing was compared: the captures have no packets; give others with --pcap, or \
                 messages with --events",
            )),
            _ if self.given_up > 0 => Err(Failure::user(
                "nothing was compared: every event hangs on entries that a full LRU table gave up; \
                 give it more room",
            )),
            _ => Err(Failure::user(
                "nothing was compared: every event is beyond what the target takes; give other \
                 packets with --pcap",
            )),
        }
    }

    /// Adds a difference, as far as some are shown.
    pub fn differ(&mut self, text: String) {
        if self.differences.len() < 10 {
            self.differences.push(text);
        }
    }
}

/// Outputs of the interpreter for every event.
pub fn expected(interp: &mut Interp, events: &[InputEvent]) -> Result<Vec<Vec<Output>>, Failure> {
    let mut all = Vec::with_capacity(events.len());
    for (i, event) in events.iter().enumerate() {
        let outputs =
            interp.run(event).map_err(|e| Failure::user(format!("event {}: {e}", i + 1)))?;
        all.push(outputs);
    }
    Ok(all)
}

/// Compares what each event should cause with the streams a live run gave. Frames carry no number
/// there, so the streams are aligned by content: one that is lost is one difference. Drops are not
/// in the streams; their counters are compared by the caller.
pub fn streams(
    program: &Program,
    expected: &[Vec<Output>],
    got: &Streams,
    given_up: Option<&GivenUp>,
) -> Agreement {
    let left_out = given_up.map_or(0, GivenUp::events);
    let events = expected.len().saturating_sub(left_out);
    let mut result = Agreement { events, given_up: left_out, ..Agreement::default() };
    let mut wrong = BTreeSet::new();
    let sent =
        |port: usize, frame: &Vec<u8>| Output::Send { port: port as u32, frame: frame.clone() };
    let mut lists: Vec<Vec<Output>> = got
        .sent
        .iter()
        .enumerate()
        .map(|(port, list)| list.iter().map(|f| sent(port, f)).collect())
        .collect();
    let ports = lists.len();
    lists.push(got.stack.iter().map(|frame| Output::Stack { frame: frame.clone() }).collect());
    lists.push(got.host.clone());
    // Where an output shows up; what is sent by a port that is not there shows up nowhere.
    let place = |output: &Output| match output {
        Output::Send { port, .. } => *port as usize,
        Output::Stack { .. } => ports,
        _ => ports + 1,
    };
    let mut surplus = 0;
    let mut found: Vec<(usize, String)> = Vec::new();
    let all = || expected.iter().enumerate().flat_map(|(i, list)| list.iter().map(move |o| (i, o)));
    for (event, want) in
        all().filter(|(_, o)| matches!(o, Output::Send { port, .. } if *port as usize >= ports))
    {
        found.push((event, format!("expected {}, got nothing", describe(program, want))));
    }
    for (at, list) in lists.iter().enumerate() {
        let here = |o: &Output| {
            let nowhere = matches!(o, Output::Send { port, .. } if *port as usize >= ports);
            !nowhere && !matches!(o, Output::Drop { .. }) && place(o) == at
        };
        let (events, want): (Vec<usize>, Vec<&Output>) = all().filter(|(_, o)| here(o)).unzip();
        let copies: Vec<&Output> = got.copies.iter().filter(|copy| place(copy) == at).collect();
        let list = with_copies(&want, list.iter().collect(), copies);
        for pair in align(&want, &list) {
            match pair {
                Pair::Same(..) => {}
                // Frames may be alike, and then nobody sees of which event one is.
                Pair::Missing(i, _) if given_up.is_some_and(|all| all.explains(want[i])) => {}
                Pair::Missing(i, other) => {
                    let seen = other.map_or("nothing".to_string(), |j| describe(program, list[j]));
                    found.push((
                        events[i],
                        format!("expected {}, got {seen}", describe(program, want[i])),
                    ));
                }
                Pair::Surplus(j) if given_up.is_some_and(|all| all.explains(list[j])) => {}
                Pair::Surplus(j) => {
                    surplus += 1;
                    result.differ(format!("unexpected: {}", describe(program, list[j])));
                }
            }
        }
    }
    found.retain(|(event, _)| !given_up.is_some_and(|all| all.decides(*event)));
    found.sort_by_key(|(event, _)| *event);
    for (event, text) in found {
        wrong.insert(event);
        result.differ(format!("event {}: {text}", event + 1));
    }
    result.matching = result.events.saturating_sub(wrong.len() + surplus);
    result
}

/// Frames that a port sent with the copies of packets among them, where they are wanted: the process
/// sends copies, and nobody sees when.
fn with_copies<'o>(
    want: &[&'o Output],
    sent: Vec<&'o Output>,
    mut copies: Vec<&'o Output>,
) -> Vec<&'o Output> {
    if copies.is_empty() {
        return sent;
    }
    let mut all = Vec::with_capacity(sent.len() + copies.len());
    let mut sent = sent.into_iter().peekable();
    for want in want {
        match (sent.next_if_eq(want), copies.iter().position(|copy| copy == want)) {
            (Some(frame), _) => all.push(frame),
            (None, Some(at)) => all.push(copies.remove(at)),
            (None, None) => {}
        }
    }
    all.extend(sent);
    all.extend(copies);
    all
}

/// A table's entries in the interpreter and on a target.
#[derive(Clone, Debug)]
pub struct Held {
    pub table: TableId,
    pub want: Vec<Entry>,
    pub got: Vec<Entry>,
}

/// Entries of all tables of two backends.
pub fn tables(
    program: &Program,
    want: &dyn TableBackend,
    got: &dyn TableBackend,
) -> Result<Vec<Held>, Failure> {
    let fail = |e: nicforge_ir::TableError| Failure::environment(e.to_string());
    let held = |table| {
        let (want, got) = (want.dump(table).map_err(fail)?, got.dump(table).map_err(fail)?);
        Ok(Held { table, want, got })
    };
    program.tables.keys().map(held).collect()
}

/// Entries that one table has and the other has not, a few of each kind. A full LRU table may hold
/// more than asked for: capacity is a minimum.
pub fn table_differences(program: &Program, held: &Held) -> Vec<String> {
    let Held { table: id, want, got } = held;
    let (id, table) = (*id, &program.tables[*id]);
    let full = table.kind == nicforge_ir::TableKind::Lru && want.len() as u32 >= table.capacity;
    let missing: Vec<_> = want.iter().filter(|e| !got.contains(e)).collect();
    let surplus: Vec<_> =
        if full { Vec::new() } else { got.iter().filter(|e| !want.contains(e)).collect() };
    let mut lines = Vec::new();
    for (kind, list) in [("missing", missing), ("unexpected", surplus)] {
        for entry in list.iter().take(3) {
            let (key, value) = (
                json::key_value(program, id, &entry.key),
                json::value(program, table.value, &entry.value),
            );
            lines.push(format!("table {}: {kind} {key} -> {value}", table.name));
        }
    }
    lines
}

/// An output in one line.
pub fn describe(program: &Program, output: &Output) -> String {
    let value = json::output(program, output);
    match &value {
        Value::Object(map) => {
            let parts: Vec<String> = map
                .iter()
                .map(|(k, v)| match v {
                    Value::String(s) if k == "kind" => s.clone(),
                    Value::String(s) => format!("{k} {s}"),
                    other => format!("{k} {other}"),
                })
                .collect();
            parts.join(" ")
        }
        other => other.to_string(),
    }
}

/// Where two frames differ: a byte range, with both contents.
pub fn frame_difference(want: &[u8], got: &[u8]) -> String {
    if want.len() != got.len() {
        return format!("length {} instead of {}", got.len(), want.len());
    }
    let first = want.iter().zip(got).position(|(a, b)| a != b).unwrap_or(0);
    let last = want.iter().zip(got).rposition(|(a, b)| a != b).unwrap_or(0);
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    format!(
        "bytes {first} to {last} ({}) are {} instead of {}",
        header_at(want, first),
        hex(&got[first..=last]),
        hex(&want[first..=last])
    )
}

/// The header field at an offset of an Ethernet frame, as far as fixed layouts tell.
fn header_at(frame: &[u8], at: usize) -> &'static str {
    let ethernet = [(0, 6, "eth.dst"), (6, 12, "eth.src"), (12, 14, "eth.type")];
    let ipv4 = [
        (14, 15, "ip.version, ip.ihl"),
        (15, 16, "ip.tos"),
        (16, 18, "ip.length"),
        (18, 20, "ip.id"),
        (20, 22, "ip.frag"),
        (22, 23, "ip.ttl"),
        (23, 24, "ip.protocol"),
        (24, 26, "ip.csum"),
        (26, 30, "ip.src"),
        (30, 34, "ip.dst"),
    ];
    let ports = [(34, 36, "l4.sport"), (36, 38, "l4.dport")];
    let tcp = [
        (38, 42, "tcp.seq"),
        (42, 46, "tcp.ack"),
        (46, 48, "tcp.flags"),
        (48, 50, "tcp.window"),
        (50, 52, "tcp.csum"),
    ];
    let udp = [(38, 40, "udp.length"), (40, 42, "udp.csum")];
    let find = |fields: &[(usize, usize, &'static str)]| {
        fields.iter().find(|(from, to, _)| (*from..*to).contains(&at)).map(|(_, _, name)| *name)
    };
    if let Some(name) = find(&ethernet) {
        return name;
    }
    if frame.get(12..14) != Some(&[8, 0]) {
        return "behind the Ethernet header";
    }
    let l4: &[(usize, usize, &'static str)] = match (frame.get(14).copied(), frame.get(23).copied())
    {
        (Some(0x45), Some(6)) => &tcp,
        (Some(0x45), Some(17)) => &udp,
        _ => &[],
    };
    find(&ipv4)
        .or_else(|| find(&ports).filter(|_| !l4.is_empty()))
        .or_else(|| find(l4))
        .unwrap_or("payload")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_says_what_differs_and_passes_only_on_something() {
        let of = |events, matching, matching_tables| Agreement {
            events,
            matching,
            tables: 2,
            matching_tables,
            ..Agreement::default()
        };
        let none = of(0, 0, 2);
        assert!(
            !none.passes() && none.verdict() == "was not compared with the reference: no events"
        );
        let all = of(3, 3, 2);
        assert!(
            all.passes() && all.verdict() == "matches the reference: 3 of 3 events, 2 of 2 tables"
        );
        let some = of(2, 1, 2);
        let want = "does not match the reference: 1 of 2 events differ, 0 of 2 tables differ";
        assert!(!some.passes() && some.verdict() == want);
    }

    #[test]
    fn one_lost_frame_is_one_event() {
        let source = "program p\nports 1\n";
        let program = nicforge_ir::text::parse(source).expect("a program");
        let frames: Vec<Vec<u8>> = (0..100u8).map(|n| vec![n; 20]).collect();
        let send = |frame: &Vec<u8>| vec![Output::Send { port: 0, frame: frame.clone() }];
        let expected: Vec<Vec<Output>> = frames.iter().map(send).collect();
        let mut got = Streams { sent: vec![frames], ..Streams::default() };
        assert_eq!(streams(&program, &expected, &got, None).matching, 100);
        got.sent[0].remove(7);
        let result = streams(&program, &expected, &got, None);
        assert_eq!((result.events, result.matching, result.differences.len()), (100, 99, 1));
        assert!(
            result.differences[0].starts_with("event 8: expected net_send"),
            "{:?}",
            result.differences
        );
    }
}
