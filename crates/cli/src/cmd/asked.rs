//! Entries that the packets of a lifted program ask for.
//!
//! Without entries look-ups find nothing, and what a program does with what it finds is not tested.
//! Packets go through the interpreter; most keys that they ask for get entries, with which the
//! packets ask for more.

use std::collections::BTreeSet;

use nicforge_driver::{Failure, events};
use nicforge_ir::interp::{Access, Interp, Tracer};
use nicforge_ir::{Entry, InputEvent, Match, Program, TableId, TableKind, Verified};
use nicforge_util::random::Random;

/// Times that packets ask.
const ROUNDS: usize = 3;
/// Entries of a table that are made each time.
const MOST: usize = 24;

/// Keys that were asked for, by table.
#[derive(Default)]
struct Asked(BTreeSet<(TableId, Vec<u8>)>);

impl Tracer for Asked {
    fn table(&mut self, access: &Access) {
        if !access.writes {
            self.0.insert((access.table, access.key.to_vec()));
        }
    }
}

/// Entries for those tables that `settable` takes: first keys and values that are `wanted` by
/// paths, as far as tables are no arrays, whose entries all packets share. Always the same ones
/// for a program, packets and what is wanted.
///
/// # Errors
/// The interpreter cannot run an event.
pub fn entries(
    program: &Verified<Program>,
    packets: &[InputEvent],
    wanted: impl IntoIterator<Item = (TableId, Vec<u8>, Vec<u8>)>,
    settable: impl Fn(TableId) -> bool,
) -> Result<Vec<(TableId, Entry)>, Failure> {
    let mut random = Random::new(packets.len() as u64);
    let mut made: Vec<(TableId, Entry)> = Vec::new();
    let mut known: BTreeSet<(TableId, Vec<u8>)> = BTreeSet::new();
    let held = |made: &[(TableId, Entry)], table| made.iter().filter(|one| one.0 == table).count();
    let room = |made: &[(TableId, Entry)], table: TableId| {
        let capacity = program.tables[table].capacity as usize;
        (capacity / 2).max(1).saturating_sub(held(made, table)).min(MOST)
    };
    for (table, key, value) in wanted {
        let def = &program.tables[table];
        let keyed = !matches!(def.kind, TableKind::Array | TableKind::Lpm);
        let sized = |ty, bytes: &[u8]| program.size_of(ty) as usize == bytes.len();
        if settable(table)
            && keyed
            && sized(def.key, &key)
            && sized(def.value, &value)
            && held(&made, table) < MOST
            && room(&made, table) > 0
            && known.insert((table, key.clone()))
        {
            made.push((table, Entry { key, matching: Match::Exact, value, buf: None }));
        }
    }
    for _ in 0..ROUNDS {
        let mut interp = Interp::new(program);
        events::fill(&mut interp, &made)?;
        let mut asked = Asked::default();
        for event in packets {
            let ran = interp.run_traced(event, &mut asked);
            ran.map_err(|e| Failure::user(e.to_string()))?;
        }
        let before = made.len();
        for (table, def) in program.tables.iter().filter(|(table, _)| settable(*table)) {
            let room = room(&made, table);
            // Of arrays only what is there can be set.
            let there = |key: &[u8]| {
                let index = key.iter().rev().fold(0, |index, byte| index << 8 | u64::from(*byte));
                def.kind != TableKind::Array || index < u64::from(def.capacity)
            };
            let keys = asked.0.iter().filter(|one| one.0 == table && !known.contains(one));
            let keys = keys.filter(|one| there(&one.1));
            let mut keys: Vec<_> = keys.cloned().collect();
            while keys.len() > room {
                keys.swap_remove(random.index(keys.len()));
            }
            for one in keys {
                let value = value(program.size_of(def.value) as usize, &mut random);
                let (key, matching) = match def.kind {
                    TableKind::Lpm => prefix(one.1.clone(), &mut random),
                    _ => (one.1.clone(), Match::Exact),
                };
                known.insert(one);
                made.push((table, Entry { key, matching, value, buf: None }));
            }
        }
        if made.len() == before {
            break;
        }
    }
    Ok(made)
}

/// A prefix of a key, as long as it is, as long as its bytes are not zero, or shorter: programs may
/// ask for less than a whole key.
fn prefix(mut key: Vec<u8>, random: &mut Random) -> (Vec<u8>, Match) {
    let bits = key.len() * 8;
    let kept = match random.below(4) {
        0 | 1 => bits,
        2 => key.iter().rposition(|byte| *byte != 0).map_or(0, |last| 8 * (last + 1)),
        _ => random.index(bits + 1),
    };
    for (at, byte) in key.iter_mut().enumerate() {
        let within = kept.saturating_sub(8 * at).min(8) as u32;
        *byte &= !0xffu8.checked_shr(within).unwrap_or(0);
    }
    (key, Match::Prefix(kept as u32))
}

/// A value: its words are small numbers, any numbers, or zero.
fn value(size: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size + 4);
    while bytes.len() < size {
        let word = match random.below(4) {
            0 => 0,
            1 => random.next() as u32,
            _ => 1 + random.below(4) as u32,
        };
        bytes.extend(word.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}
