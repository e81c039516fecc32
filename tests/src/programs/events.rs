//! Inputs of generated programs: frames that are truncated, ordinary and large, with bytes that
//! repeat; messages; entries.

use nicforge_ir::{Entry, Input, InputEvent, Match, Program, TableId, TableKind, Type, timers};

use super::rng::Rng;

/// A byte that is often small, so that keys repeat.
fn byte(r: &mut Rng) -> u8 {
    match r.below(8) {
        0 => r.bits() as u8,
        1 => 0xff,
        2 => (r.bits() as u8) & 0xf0,
        _ => r.below(4) as u8,
    }
}

/// Events for a program, ticks of its timers among them.
pub fn events(program: &Program, seed: u64, count: usize) -> Vec<InputEvent> {
    let mut r = Rng::new(seed ^ 0xeeee);
    let taken =
        |name: &str| program.event_named(name).filter(|event| program.handler_of(*event).is_some());
    let message = taken("host_send").map(|event| {
        program.events[event].params.iter().map(|p| program.size_of(p.ty)).sum::<u32>()
    });
    let mut time_ns = 1_000_000;
    let event = |_| {
        let input = match message {
            Some(size) if r.percent(15) => {
                Input::Host { message: (0..size).map(|_| byte(&mut r)).collect() }
            }
            _ => {
                let length = match r.below(12) {
                    0 => r.below(14),
                    1 => 14 + r.below(20),
                    2 => 1000 + r.below(500),
                    3 => 128 + r.below(128),
                    _ => 34 + r.below(60),
                };
                Input::Net {
                    port: r.below(2) as u32,
                    frame: (0..length).map(|_| byte(&mut r)).collect(),
                }
            }
        };
        time_ns += r.below(100_000) as u64;
        InputEvent { time_ns, seed: u64::from(r.bits()), input }
    };
    let events = (0..count).map(event).collect();
    timers::with_ticks(program, events).expect("few ticks, for periods are not far below gaps")
}

/// Entries for the tables that handlers cannot write, and some for the others.
pub fn entries(program: &Program, seed: u64) -> Vec<(TableId, Entry)> {
    let mut r = Rng::new(seed ^ 0x7ab1e);
    let mut found = Vec::new();
    for (id, table) in &program.tables {
        let count = match table.kind {
            TableKind::Lpm | TableKind::Ternary => 1 + r.below(6),
            _ if r.percent(30) => 1,
            _ => 0,
        };
        for _ in 0..count.min(table.capacity as usize) {
            let mut bytes = |ty: Type| {
                let raw: Vec<u8> = (0..program.size_of(ty)).map(|_| byte(&mut r)).collect();
                canonical(program, ty, raw)
            };
            let (mut key, value) = (bytes(table.key), bytes(table.value));
            let matching = match table.kind {
                TableKind::Lpm => Match::Prefix(r.below(8 * key.len() + 1) as u32),
                TableKind::Ternary => {
                    let mask: Vec<u8> = key.iter().map(|_| *r.pick(&[0, 0xff, 3, 0xf0])).collect();
                    Match::Mask {
                        mask: canonical(program, table.key, mask),
                        priority: r.below(3) as u32,
                    }
                }
                _ => Match::Exact,
            };
            if table.kind == TableKind::Array {
                key = (r.below(table.capacity as usize) as u32).to_le_bytes().to_vec();
            }
            found.push((id, Entry { key, matching, value, buf: table.buf.map(|_| Vec::new()) }));
        }
    }
    found
}

/// Bytes without padding.
fn canonical(program: &Program, ty: Type, bytes: Vec<u8>) -> Vec<u8> {
    let shapes = nicforge_ir::interp::Shapes::new(program);
    shapes.encode(ty, &shapes.decode(ty, &bytes)).to_vec()
}
