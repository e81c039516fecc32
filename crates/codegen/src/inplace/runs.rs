//! Runs of bytes as calls of the runtime, which moves them in words.
//!
//! The kernel's verifier takes words on the stack only at their own multiples. Aggregates begin at
//! a multiple of eight, so a call says how far behind one its first byte lies (the *skew*), and the
//! widest word that suits both of its arrays.

use super::packet::cursor_text;
use super::{E, InPlace, Target};
use crate::c::Dialect;
use crate::c::body::AtOnce;
use crate::c::runs::{Bytes, Does, Offset, Run, Stop};
use crate::c::types::literal;

/// Most bytes that a run stages: what the staging area of every target has room for behind its last
/// header.
const STAGED: u32 = 512;

/// Bytes of a word: the difference at which a comparison ends is in one, or behind the last whole
/// word.
const WORD: u32 = 8;

/// See [`crate::c::Dialect::run`].
pub fn run<T: Target>(e: &mut E<'_, T>, run: &Run) -> Option<AtOnce> {
    let stages = matches!(run.does, Does::Emit(_) | Does::EmitPacket(_));
    if stages && run.most > STAGED {
        return None;
    }
    let arrays = run.does.arrays().into_iter().map(|bytes| bytes.room);
    let fits = arrays.min().unwrap_or(u32::MAX);
    // Beyond an array's end elements are zero and nothing is written.
    let inside = (fits < run.most).then_some(fits);
    if inside.is_some() && run.stops.is_empty() {
        return None;
    }
    let most = run.most.min(fits);
    let n = number(e, run);
    let counts: Vec<String> = run
        .counters
        .iter()
        .filter(|(_, result)| matches!(run.does, Does::Same { .. }) || e.is_used(*result))
        .map(|(param, _)| e.vars.name(*param).to_string())
        .filter(|name| !name.is_empty())
        .collect();
    let count = |n: &str| counts.iter().map(|name| format!("{name} += {n};")).collect::<Vec<_>>();
    if let Does::Same { a, b } = &run.does {
        let done = e.names.fresh("equal");
        let call = format!(
            "nf_same_run({}, {}, {n}, {most}, {})",
            address(e, a),
            address(e, b),
            words(e, a, b)
        );
        let mut lines = vec![format!("u64 {done} = {call};")];
        lines.extend(count(&done));
        // Where all trips are counted, none is done at once.
        let left = T::TRACED.is_none().then_some(WORD);
        return Some(AtOnce::First { done, left, lines });
    }
    let (check, line) = text(e, run, &n, most);
    let mut conditions: Vec<String> =
        inside.map(|fits| format!("{n} <= {fits}")).into_iter().collect();
    conditions.extend(check);
    if conditions.is_empty() {
        conditions.extend(T::TRACED.map(String::from));
    }
    let mut lines: Vec<String> = line.into_iter().collect();
    lines.extend(count(&n));
    let condition = (!conditions.is_empty()).then(|| conditions.join(" && "));
    Some(AtOnce::Whole { condition, lines })
}

/// Declares the number of trips: the least that the loop's ends leave.
fn number<T: Target>(e: &mut E<'_, T>, run: &Run) -> String {
    let Some((first, others)) = run.stops.split_first() else {
        return run.most.to_string();
    };
    let n = e.names.fresh("run");
    let line = format!("u64 {n} = {};", left(e, *first));
    e.line(&line);
    for stop in others {
        let other = left(e, *stop);
        e.line(&format!("if ({other} < {n})"));
        e.line(&format!("    {n} = {other};"));
    }
    e.line(&format!("if ({n} > {})", run.most));
    e.line(&format!("    {n} = {};", run.most));
    n
}

/// Trips until a counter reaches a limit.
fn left<T: Target>(e: &E<'_, T>, stop: Stop) -> String {
    let limit = e.operand(stop.limit);
    let signed = e.body.ty(stop.limit).is_signed();
    match (signed, stop.from) {
        (_, 0) if stop.exactly => format!("(u64){limit}"),
        (_, from) if stop.exactly => format!("(u64){limit} - {from}"),
        (false, 0) => format!("(u64){limit}"),
        (false, -1) => format!("(u64){limit} + 1"),
        (signed, from) => {
            let limit = format!("({}){limit}", if signed { "s64" } else { "u64" });
            format!("({limit} > {from} ? (u64)({limit} - {from}) : 0)")
        }
    }
}

/// The condition and the line that do all of it.
fn text<T: Target>(
    e: &mut E<'_, T>,
    run: &Run,
    n: &str,
    most: u32,
) -> (Option<String>, Option<String>) {
    let frame = T::FRAME;
    match &run.does {
        Does::Load { from, to } => {
            let (off, to) = (place(e, from), written(e, to));
            (Some(format!("nf_load_run({frame}, {off}, {to}, {n}, {most})")), None)
        }
        Does::Store { from, to } => {
            let (off, from) = (place(e, to), address(e, from));
            (Some(format!("nf_store_run({frame}, {off}, {from}, {n}, {most})")), None)
        }
        Does::EmitPacket(from) => {
            let off = place(e, from);
            (
                Some(format!("nf_stage_frame({frame}, {off}, staged, &staged_len, {n}, {most})")),
                None,
            )
        }
        Does::Emit(from) => {
            let (skew, from) = (from.offset % 8, address(e, from));
            (None, Some(format!("nf_stage_run(staged, &staged_len, {from}, {n}, {most}, {skew});")))
        }
        Does::Copy { from, to } => {
            let words = words(e, to, from);
            let (to, from) = (written(e, to), address(e, from));
            (None, Some(format!("nf_copy_run({to}, {from}, {n}, {most}, {words});")))
        }
        Does::Fill { to, byte } => {
            let (skew, to) = (to.offset % 8, written(e, to));
            (None, Some(format!("nf_fill_run({to}, {byte}, {n}, {most}, {skew});")))
        }
        Does::Differ { a, b, differs } => {
            let call = differ(e, a, b, n, most);
            (None, Some(format!("{} |= {call};", e.vars.name(*differs))))
        }
        Does::Verdict { a, b, carried, becomes } => {
            let (call, name) = (differ(e, a, b, n, most), e.vars.name(*carried));
            let value = literal(*becomes as u64, e.body.ty(*carried));
            (None, Some(format!("{name} = {call} ? {value} : {name};")))
        }
        Does::Same { .. } => unreachable!("printed in front of the loop"),
    }
}

fn differ<T: Target>(e: &E<'_, T>, a: &Bytes, b: &Bytes, n: &str, most: u32) -> String {
    format!("nf_differ_run({}, {}, {n}, {most}, {})", address(e, a), address(e, b), words(e, a, b))
}

/// Skew of the bytes, and bytes of the widest word that lies well in both arrays. Where a read
/// array lies in the frame or in a table, any word may lie anywhere.
fn words<T: Target>(e: &E<'_, T>, a: &Bytes, b: &Bytes) -> String {
    let anywhere = |bytes: &Bytes| InPlace::<T>::source(e, bytes.agg).is_some();
    if anywhere(b) || anywhere(a) {
        let skew = if anywhere(a) { b.offset } else { a.offset };
        return format!("{}, 8", skew % 8);
    }
    let apart = (a.offset % 8).abs_diff(b.offset % 8);
    let width = if apart == 0 { 8 } else { 1 << apart.trailing_zeros() };
    format!("{}, {width}", a.offset % 8)
}

/// The offset of the first byte from the frame's start.
fn place<T: Target>(e: &mut E<'_, T>, offset: &Offset) -> String {
    let cursor = cursor_text(e);
    let mut sum: Vec<String> =
        offset.terms.iter().map(|term| format!("(u32){}", e.operand(*term))).collect();
    if offset.constant != 0 || sum.is_empty() {
        sum.insert(0, format!("{}u", offset.constant));
    }
    let sum = match sum.len() {
        1 => sum.remove(0),
        _ => format!("(u32)({})", sum.join(" + ")),
    };
    format!("(u64){cursor} + {sum}")
}

/// The address of bytes that are read: of another place where they lie, if there is one.
fn address<T: Target>(e: &E<'_, T>, bytes: &Bytes) -> String {
    let text = match T::plain_pointers(e) {
        true => e.place(bytes.agg, &bytes.path).0,
        false => {
            e.place_from(e.vars.name(bytes.agg).to_string(), e.body.ty(bytes.agg), &bytes.path).0
        }
    };
    element(bytes, text)
}

/// The address of bytes that are written.
fn written<T: Target>(e: &E<'_, T>, bytes: &Bytes) -> String {
    let text =
        e.place_from(e.vars.name(bytes.agg).to_string(), e.body.ty(bytes.agg), &bytes.path).0;
    element(bytes, text)
}

fn element(bytes: &Bytes, text: String) -> String {
    // An array that is a value of its own is a struct with one member.
    let array = if bytes.path.is_empty() { format!("{text}.v") } else { text };
    if bytes.at == 0 { array } else { format!("{array} + {}", bytes.at) }
}
