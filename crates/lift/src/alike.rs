//! Which states can be one where ways meet.

use crate::state::{Memory, State, Target};
use crate::value::{Abs, Num};

/// True if ways cannot go on as one; with the registers that are read later, also because they
/// hold different kinds of pointers, and with `nulls` because one holds null.
pub fn differ(a: &State, b: &State, kinds: Option<u16>, nulls: bool) -> bool {
    let targets = match (a.redirect, b.redirect) {
        (Some(Target::Port(_)), Some(Target::Port(_))) => false,
        (Some(Target::Ports { map: m, .. }), Some(Target::Ports { map: n, .. })) => m != n,
        (Some(x), Some(y)) => x != y,
        _ => false,
    };
    targets
        || a.front.bytes != b.front.bytes
        || a.metadata != b.metadata
        || a.skipped != b.skipped
        || !a.records.keys().eq(b.records.keys())
        || a.epoch != b.epoch
        || a.starts != b.starts
        || a.tail_calls != b.tail_calls
        || a.frames.len() != b.frames.len()
        || a.frames.iter().zip(&b.frames).any(|(a, b)| a.back != b.back)
        || kinds.is_some_and(|live| !alike(a, b, live, nulls))
}

/// True if both hold the same kinds of pointers everywhere.
fn alike(a: &State, b: &State, live: u16, nulls: bool) -> bool {
    let same = |x: &Abs, y: &Abs| match (x, y) {
        (Abs::Nothing | Abs::Mixed(_), _) | (_, Abs::Nothing | Abs::Mixed(_)) => true,
        (Abs::Num(_), Abs::Num(_)) => true,
        (Abs::Packet { epoch: e, .. }, Abs::Packet { epoch: f, .. }) => e == f,
        (Abs::Stack { frame: f, .. }, Abs::Stack { frame: g, .. }) => f == g,
        (Abs::Record { record: r, .. }, Abs::Record { record: s, .. }) => r == s,
        (Abs::Constant { map: m, .. }, Abs::Constant { map: n, .. }) => m == n,
        (Abs::Value { lookup: l, .. }, Abs::Value { lookup: m, .. }) => {
            let map = |state: &State, id| state.lookups.get(id).map(|found| found.map);
            l == m || map(a, l).is_some() && map(a, l) == map(b, m)
        }
        (Abs::Value { .. }, Abs::Num(num)) | (Abs::Num(num), Abs::Value { .. }) => {
            *num == Num::known(0) && !nulls
        }
        _ => x == y,
    };
    let memory = |x: &Memory, y: &Memory| {
        x.slots.iter().all(|(off, (size, abs))| match y.exact(*off, *size) {
            Some(other) => same(abs, &other),
            None => y.overlapping(*off, *size).is_empty(),
        })
    };
    let regs = a.regs.iter().zip(&b.regs).enumerate();
    regs.filter(|(at, _)| live >> at & 1 != 0).all(|(_, (x, y))| same(x, y))
        && memory(&a.front.memory, &b.front.memory)
        && memory(&a.context, &b.context)
        && a.records.values().zip(b.records.values()).all(|(x, y)| memory(&x.memory, &y.memory))
        && a.frames.iter().zip(&b.frames).all(|(x, y)| {
            memory(&x.memory, &y.memory) && x.saved.iter().zip(&y.saved).all(|(x, y)| same(x, y))
        })
}
