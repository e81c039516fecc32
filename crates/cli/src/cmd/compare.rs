//! The interpreter beside a target: expected outputs, and where they differ.

use nicforge_ir::interp::Interp;
use nicforge_ir::{Entry, InputEvent, Output, Program, TableBackend, TableId, json};
use nicforge_run::live::Streams;
use serde_json::Value;

use crate::context::Failure;

/// How well a target's run agrees with the interpreter's.
#[derive(Clone, Debug, Default)]
pub struct Agreement {
    pub events: usize,
    pub matching: usize,
    pub tables: usize,
    pub matching_tables: usize,
    /// The first differences, as text for people.
    pub differences: Vec<String>,
}

impl Agreement {
    /// Everything is equal.
    pub fn complete(&self) -> bool {
        self.events == self.matching && self.tables == self.matching_tables
    }

    fn differ(&mut self, text: String) {
        if self.differences.len() < 10 {
            self.differences.push(text);
        }
    }
}

/// Outputs of the interpreter for every event.
pub fn expected(interp: &mut Interp, events: &[InputEvent]) -> Result<Vec<Vec<Output>>, Failure> {
    let mut all = Vec::with_capacity(events.len());
    for (i, event) in events.iter().enumerate() {
        let outputs = interp.run(event).map_err(|e| Failure::user(format!("event {}: {e}", i + 1)))?;
        all.push(outputs);
    }
    Ok(all)
}

/// Compares what each event should cause with the streams a live run gave. Drops are not in the streams; their counters
/// are compared by the caller.
pub fn streams(program: &Program, expected: &[Vec<Output>], got: &Streams) -> Agreement {
    let mut result = Agreement { events: expected.len(), ..Agreement::default() };
    let mut sent = vec![0usize; got.sent.len()];
    let (mut stack, mut host) = (0usize, 0usize);
    for (i, outputs) in expected.iter().enumerate() {
        let mut good = true;
        for want in outputs {
            let seen = match want {
                Output::Send { port, frame } => {
                    let at = *port as usize;
                    let next = got.sent.get(at).and_then(|list| list.get(sent[at]));
                    if let Some(next) = next {
                        sent[at] += 1;
                        (next == frame)
                            .then_some(())
                            .ok_or(Some(Output::Send { port: *port, frame: next.clone() }))
                    } else {
                        Err(None)
                    }
                }
                Output::Stack { frame } => {
                    let next = got.stack.get(stack);
                    stack += 1;
                    match next {
                        Some(next) if next == frame => Ok(()),
                        other => Err(other.map(|frame| Output::Stack { frame: frame.clone() })),
                    }
                }
                Output::Drop { .. } => Ok(()),
                _ => {
                    let next = got.host.get(host);
                    host += 1;
                    if next == Some(want) { Ok(()) } else { Err(next.cloned()) }
                }
            };
            if let Err(seen) = seen {
                good = false;
                let seen = seen.map_or("nothing".to_string(), |o| describe(program, &o));
                result.differ(format!("event {}: expected {}, got {seen}", i + 1, describe(program, want)));
            }
        }
        result.matching += usize::from(good);
    }
    let surplus: usize =
        got.sent.iter().zip(&sent).map(|(list, used)| list.len().saturating_sub(*used)).sum();
    if surplus > 0 {
        result.matching = result.matching.saturating_sub(surplus);
        result.differ(format!("{surplus} frames were sent that the reference does not send"));
    }
    result
}

/// Compares all tables of two backends. Entries that an LRU table keeps although the other evicted them are not a
/// difference: capacity is a minimum.
pub fn tables(
    program: &Program,
    want: &dyn TableBackend,
    got: &dyn TableBackend,
    result: &mut Agreement,
) -> Result<(), Failure> {
    for id in program.tables.keys() {
        let fail = |e: nicforge_ir::TableError| Failure::environment(e.to_string());
        let (want, got) = (want.dump(id).map_err(fail)?, got.dump(id).map_err(fail)?);
        result.tables += 1;
        let lines = table_differences(program, id, &want, &got);
        result.matching_tables += usize::from(lines.is_empty());
        lines.into_iter().for_each(|line| result.differ(line));
    }
    Ok(())
}

/// Entries that one table has and the other has not, a few of each kind. A full LRU table may hold more than asked for.
pub fn table_differences(program: &Program, id: TableId, want: &[Entry], got: &[Entry]) -> Vec<String> {
    let table = &program.tables[id];
    let full = table.kind == nicforge_ir::TableKind::Lru && want.len() as u32 >= table.capacity;
    let missing: Vec<_> = want.iter().filter(|e| !got.contains(e)).collect();
    let surplus: Vec<_> = if full { Vec::new() } else { got.iter().filter(|e| !want.contains(e)).collect() };
    let mut lines = Vec::new();
    for (kind, list) in [("missing", missing), ("unexpected", surplus)] {
        for entry in list.iter().take(3) {
            let (key, value) =
                (json::key_value(program, id, &entry.key), json::value(program, table.value, &entry.value));
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
    let l4: &[(usize, usize, &'static str)] = match (frame.get(14).copied(), frame.get(23).copied()) {
        (Some(0x45), Some(6)) => &tcp,
        (Some(0x45), Some(17)) => &udp,
        _ => &[],
    };
    find(&ipv4).or_else(|| find(&ports).filter(|_| !l4.is_empty())).or_else(|| find(l4)).unwrap_or("payload")
}
