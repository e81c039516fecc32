//! Loops that move one byte a trip, from one place to the next: *runs*.
//!
//! A run's trips are known before the first one, so what they do together is done at once, in
//! words. Found on αIR: one region, in which exits that compare a counter with what stays come
//! first, then one effect on the byte of this trip. Counters start at a constant and step by one;
//! [`affine`] proves that no value wraps on its way to an index, so the bytes lie next to each
//! other. Whatever does not have this form stays a loop.

mod affine;
mod compare;

use nicforge_ir::{BlockId, Body, CmpOp, InstId, Op, Program, Proj, Type, UnOp, ValueId};

pub use affine::Offset;
use affine::{Affine, Trips};

use super::vars::Vars;

/// A loop of this kind. The number of its trips is the least of `most` and what each of `stops`
/// leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Trips at most.
    pub most: u32,
    pub stops: Vec<Stop>,
    /// Carried values that count trips, and the loop's results of them.
    pub counters: Vec<(ValueId, ValueId)>,
    pub does: Does,
}

/// The loop ends where a number that counts along from `from` reaches a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    pub limit: ValueId,
    pub from: i64,
    /// It ends at the limit itself, not beyond it: one that lies before `from` is never met.
    pub exactly: bool,
}

/// Bytes of an array, the first of which belongs to the first trip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bytes {
    pub agg: ValueId,
    /// The array in the aggregate.
    pub path: Vec<Proj>,
    /// Element of the first trip.
    pub at: u32,
    /// Elements from there to the array's end.
    pub room: u32,
    /// Bytes from the aggregate's start to the first element.
    pub offset: u32,
}

/// Joint effects of the trips.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Does {
    /// Bytes of the packet go to an array.
    Load {
        from: Offset,
        to: Bytes,
    },
    /// Bytes of an array go to the packet.
    Store {
        from: Bytes,
        to: Offset,
    },
    /// Bytes of an array are emitted.
    Emit(Bytes),
    /// Bytes of the packet are emitted.
    EmitPacket(Offset),
    Copy {
        from: Bytes,
        to: Bytes,
    },
    Fill {
        to: Bytes,
        byte: u8,
    },
    /// `differs |= a ^ b`, for each byte.
    Differ {
        a: Bytes,
        b: Bytes,
        differs: ValueId,
    },
    /// The carried value becomes a constant if any two bytes differ.
    Verdict {
        a: Bytes,
        b: Bytes,
        carried: ValueId,
        becomes: i64,
    },
    /// The loop is left where two bytes differ: trips in front of that do nothing but count.
    Same {
        a: Bytes,
        b: Bytes,
    },
}

impl Does {
    /// Arrays it touches.
    pub fn arrays(&self) -> Vec<&Bytes> {
        match self {
            Does::Load { to: one, .. }
            | Does::Store { from: one, .. }
            | Does::Emit(one)
            | Does::Fill { to: one, .. } => vec![one],
            Does::EmitPacket(_) => Vec::new(),
            Does::Copy { from: a, to: b }
            | Does::Differ { a, b, .. }
            | Does::Verdict { a, b, .. }
            | Does::Same { a, b } => vec![a, b],
        }
    }
}

/// A way out of the loop: taken if `cond` is `holds`.
struct Exit<'a> {
    cond: ValueId,
    holds: bool,
    /// What a `break` out of this loop gives.
    values: Option<&'a [ValueId]>,
}

/// The loop of `inst` as a run.
pub fn find(program: &Program, body: &Body, vars: &Vars, inst: InstId) -> Option<Run> {
    let mut trips = Trips::new(program, body, vars, inst)?;
    let Op::Loop { body: region, .. } = body.insts[inst].op else { return None };
    let (exits, effects) = parts(body, region)?;
    let stops = stops(&mut trips, &exits, &body.insts[inst].results)?;
    let changed: Vec<usize> = (0..trips.params.len())
        .filter(|at| trips.next[*at] != trips.params[*at] && !trips.counts(*at))
        .filter(|at| body.ty(trips.params[*at]) != Type::Packet)
        .collect();
    let others: Vec<&Exit<'_>> = exits.iter().filter(|exit| stop(&trips, exit).is_none()).collect();
    let does = match (effects.as_slice(), changed.as_slice()) {
        ([], []) => compare::same(&trips, &others)?,
        ([], [at]) if others.is_empty() => {
            moved(&trips, *at).or_else(|| compare::collected(&trips, *at, region))?
        }
        (effects, changed) => with_packet(&trips, effects, changed, &others)?,
    };
    let skips = matches!(does, Does::Same { .. });
    if does.arrays().iter().any(|bytes| bytes.room == 0 || (skips && bytes.room < trips.most)) {
        return None;
    }
    let results = &body.insts[inst].results;
    let counts = (0..trips.params.len()).filter(|at| trips.counts(*at));
    let counters = counts.map(|at| (trips.params[at], results[at])).collect();
    Some(Run { most: trips.most, stops, counters, does })
}

/// Exits and effects of a region, if all else in it is pure and the exits that count come before
/// the first effect.
fn parts(body: &Body, region: BlockId) -> Option<(Vec<Exit<'_>>, Vec<InstId>)> {
    let (mut exits, mut effects) = (Vec::new(), Vec::new());
    let insts = &body.blocks[region].insts;
    for &inst in &insts[..insts.len() - 1] {
        let data = &body.insts[inst];
        match &data.op {
            Op::If { cond, then, other, .. } if data.results.is_empty() => {
                let (leaves, holds) = match (goes_on(body, *then), goes_on(body, *other)) {
                    (false, true) => (*then, true),
                    (true, false) => (*other, false),
                    _ => return None,
                };
                exits.push(exit(body, leaves, *cond, holds)?);
            }
            Op::If { then, other, .. } => {
                for arm in [then, other] {
                    let mut pure = true;
                    body.for_each_inst(*arm, &mut |inst| pure &= harmless(&body.insts[inst].op));
                    if !pure {
                        return None;
                    }
                }
            }
            op if op.regions().next().is_some() || op.is_terminator() => return None,
            op if op.effects().is_pure() && !matches!(op, Op::Extern { .. }) => {}
            _ => effects.push(inst),
        }
    }
    Some((exits, effects))
}

fn harmless(op: &Op) -> bool {
    matches!(op, Op::Yield(_))
        || (op.effects().is_pure() && op.regions().next().is_none() && !op.is_terminator())
}

/// True if a region does nothing and goes on behind it.
fn goes_on(body: &Body, region: BlockId) -> bool {
    match body.blocks[region].insts.as_slice() {
        [] => true,
        [only] => matches!(&body.insts[*only].op, Op::Yield(values) if values.is_empty()),
        _ => false,
    }
}

/// A region that never goes on behind it.
fn exit(body: &Body, region: BlockId, cond: ValueId, holds: bool) -> Option<Exit<'_>> {
    let insts = &body.blocks[region].insts;
    let values = match &body.insts[*insts.last()?].op {
        Op::Break { depth: 0, values }
            if insts[..insts.len() - 1].iter().all(|i| harmless(&body.insts[*i].op)) =>
        {
            Some(values.as_slice())
        }
        Op::Break { .. } | Op::Return(_) => None,
        _ => return None,
    };
    Some(Exit { cond, holds, values })
}

/// The exits that end the loop after a number of trips. Those with a constant lower `most`; `None`
/// if one of them gives something else than what is carried.
fn stops(trips: &mut Trips<'_>, exits: &[Exit<'_>], results: &[ValueId]) -> Option<Vec<Stop>> {
    let mut found = Vec::new();
    for exit in exits {
        let Some(one) = stop(trips, exit) else { continue };
        let carried = exit.values?.iter().zip(trips.params).all(|(value, param)| value == param);
        if !carried && !results.is_empty() {
            return None;
        }
        match trips.constant(one.limit) {
            None => found.push(one),
            Some(limit) if one.exactly && limit < one.from => {}
            Some(limit) => {
                trips.most = trips.most.min((limit - one.from).clamp(0, i64::from(u32::MAX)) as u32)
            }
        }
    }
    (trips.most > 0).then_some(found)
}

/// An exit that compares what counts along with what stays.
fn stop(trips: &Trips<'_>, exit: &Exit<'_>) -> Option<Stop> {
    let Op::Cmp(op, a, b) = trips.body.def_op(exit.cond)? else { return None };
    let (op, counts, limit) = match (trips.affine(*a), trips.affine(*b)) {
        (Some(Affine { slope: 1, at }), _) => (*op, at, *b),
        (_, Some(Affine { slope: 1, at })) => (op.mirrored(), at, *a),
        _ => return None,
    };
    let op = if exit.holds { op } else { op.inverse() };
    let wide = trips.body.ty(limit).bits() == Some(64);
    if !trips.stays(limit) || (wide && op == CmpOp::Gt) {
        return None;
    }
    match op {
        CmpOp::Ge => Some(Stop { limit, from: counts, exactly: false }),
        CmpOp::Gt => Some(Stop { limit, from: counts - 1, exactly: false }),
        CmpOp::Eq => Some(Stop { limit, from: counts, exactly: true }),
        CmpOp::Ne | CmpOp::Lt | CmpOp::Le => None,
    }
}

/// The bytes that are element `path` of `agg`, trip by trip.
fn bytes(trips: &Trips<'_>, agg: ValueId, path: &[Proj]) -> Option<Bytes> {
    let Some((Proj::Index(index), path)) = path.split_last() else { return None };
    let Affine { slope: 1, at } = trips.affine(*index)? else { return None };
    let (mut ty, mut offset) = (trips.body.ty(agg), 0);
    for step in path {
        match (step, ty) {
            (Proj::Field(field), Type::Struct(id)) => {
                let (_, slots) = trips.program.struct_layout(id);
                offset += slots[*field as usize].bit_offset / 8;
                ty = trips.program.structs[id].fields[*field as usize].ty;
            }
            _ => return None,
        }
    }
    let Type::Array(id) = ty else { return None };
    let array = trips.program.arrays[id];
    let at = u32::try_from(at).ok()?;
    let room = array.len.saturating_sub(at);
    let byte = array.elem.bits() == Some(8);
    byte.then(|| Bytes { agg, path: path.to_vec(), at, room, offset: offset + at })
}

/// The bytes that a read of an array's element gives, trip by trip, without what the loop changes.
fn read(trips: &Trips<'_>, value: ValueId) -> Option<Bytes> {
    let Op::Get { agg, path } = trips.body.def_op(value)? else { return None };
    let found = bytes(trips, *agg, path)?;
    trips.stays(*agg).then_some(found)
}

/// The bytes that a carried aggregate gets, and what each becomes.
fn written(trips: &Trips<'_>, param: usize) -> Option<(Bytes, ValueId)> {
    let Op::Set { agg, path, value } = trips.body.def_op(trips.next[param])? else { return None };
    let own = trips.params[param];
    if *agg != own || !trips.vars.same(own, trips.next[param]) {
        return None;
    }
    Some((bytes(trips, own, path)?, *value))
}

/// A copy from array to array, or one byte for all.
fn moved(trips: &Trips<'_>, param: usize) -> Option<Does> {
    let (to, value) = written(trips, param)?;
    if let Some(byte) = trips.constant(value) {
        return Some(Does::Fill { to, byte: byte as u8 });
    }
    let Op::Get { agg, path } = trips.body.def_op(value)? else { return None };
    let from = bytes(trips, *agg, path)?;
    if *agg == to.agg {
        // Trips that read what earlier ones wrote repeat it.
        let repeats = from.path == to.path && to.at > from.at && to.at - from.at < trips.most;
        return (!repeats).then_some(Does::Copy { from, to });
    }
    let apart = trips.stays(*agg) && !trips.vars.same(*agg, to.agg);
    apart.then_some(Does::Copy { from, to })
}

/// Runs from, to and through the packet.
fn with_packet(
    trips: &Trips<'_>,
    effects: &[InstId],
    changed: &[usize],
    exits: &[&Exit<'_>],
) -> Option<Does> {
    let data = |inst: &InstId| &trips.body.insts[*inst];
    let first = data(effects.first()?);
    // An exit may ask whether the byte was there; where all are, none is taken.
    let ok = match &first.op {
        Op::Load { .. } | Op::Store { .. } => Some(first.results[0]),
        _ => None,
    };
    if !exits.iter().all(|exit| ok.is_some_and(|ok| fails(trips.body, exit.cond, exit.holds, ok))) {
        return None;
    }
    match (&first.op, &effects[1..], changed) {
        (Op::Load { off, .. }, [], [param]) => {
            let (to, value) = written(trips, *param)?;
            let own = value == first.results[1];
            own.then_some(Does::Load { from: trips.offset(*off)?, to })
        }
        (Op::Load { off, .. }, [second], []) => match &data(second).op {
            Op::Emit { value, .. }
                if *value == first.results[1] && trips.body.ty(*value).bits() == Some(8) =>
            {
                Some(Does::EmitPacket(trips.offset(*off)?))
            }
            _ => None,
        },
        (Op::Emit { value, .. }, [], []) => Some(Does::Emit(read(trips, *value)?)),
        (Op::Store { off, value, .. }, [], []) => {
            Some(Does::Store { from: read(trips, *value)?, to: trips.offset(*off)? })
        }
        _ => None,
    }
}

/// True if `cond` being `holds` says that `ok` is false.
fn fails(body: &Body, cond: ValueId, holds: bool, ok: ValueId) -> bool {
    if cond == ok {
        return !holds;
    }
    matches!(body.def_op(cond), Some(Op::Un(UnOp::Not, of)) if fails(body, *of, !holds, ok))
}
