//! What is in every key that a stage uses, which decides whether its tables can be divided among
//! replicas.
//!
//! Two events meet in an entry if their keys are equal member by member. So what decides the
//! replica must be the same member of every key of one table; between tables it only has to be the
//! same value. An array's index has no members, but it may be made of two numbers, `group * SIZE +
//! within`: then the group counts as one ([`group`]).
//!
//! Handlers that share tables make one stage. Each has an event of its own; the stage can be
//! divided if each event has one part that is in the same member of the keys of all tables, and
//! that whoever sends the event can compute.

use std::collections::{BTreeMap, BTreeSet};

use nicforge_ir::{Body, HandlerId, InstId, Program, TableId, TableKind, Type};

use crate::names::describe;
use crate::origin::{Origin, Shape, Site, sites};
use crate::stages::calls_c;
use crate::steer::computable;
use crate::tables::{mutable, table_of};

/// Ways in which a stage may be replicated.
#[derive(Clone, Debug, PartialEq)]
pub enum Ability {
    /// No state that must not be divided.
    Free,
    /// Parts of the event that are in every key, in terms of the stage's own event.
    Sharded(BTreeSet<Origin>),
    /// Several handlers with events of their own: the part of each that is in every key.
    Meeting(BTreeMap<HandlerId, Origin>),
    /// One replica, and why.
    Single(String),
}

/// A member of a key, and the size of the groups that it numbers: 1 for the member itself.
type Member = (usize, u64);

/// What is in every key that a handler uses for a table, and the first access.
struct Common {
    parts: BTreeSet<(Member, Origin)>,
    first: InstId,
}

/// Decides by the keys of all accesses.
pub fn ability(program: &Program, handlers: &[HandlerId]) -> Ability {
    let mutable = mutable(program);
    let touched = |handler: HandlerId| {
        sites(program, handler, &|op| table_of(op).is_some_and(|table| mutable.contains(&table)))
    };
    if let Some(name) = handlers.iter().find_map(|handler| calls_c(program, *handler)) {
        return Ability::Single(format!(
            "`{name}` is a function of C that may have state (its declaration has no __attribute__((const)))"
        ));
    }
    let with_state: Vec<(HandlerId, Vec<Site>)> =
        handlers.iter().map(|h| (*h, touched(*h))).filter(|(_, sites)| !sites.is_empty()).collect();
    let decided = match &with_state[..] {
        [] => return Ability::Free,
        [(handler, sites)] => {
            keys(program, *handler, sites).and_then(|keys| alone(program, *handler, keys))
        }
        several => meeting(program, several),
    };
    decided.unwrap_or_else(Ability::Single)
}

/// Origins that are in every key, table by table.
///
/// # Errors
/// Why there is nothing for one of them.
fn keys(
    program: &Program,
    handler: HandlerId,
    touched: &[Site],
) -> Result<BTreeMap<TableId, Common>, String> {
    let body = &program.handlers[handler].body;
    let mut of_table: BTreeMap<TableId, Common> = BTreeMap::new();
    for site in touched {
        let op = &body.insts[site.inst].op;
        let Some(table) = table_of(op) else { continue };
        if op.scans() {
            let (name, place) = (&program.tables[table].name, place(program, body, site.inst));
            return Err(format!("all entries of `{name}` are looked at ({place})"));
        }
        if program.tables[table].kind.is_filled_from_outside() {
            let (name, place) = (&program.tables[table].name, place(program, body, site.inst));
            return Err(format!("keys that differ may find one entry of `{name}` ({place})"));
        }
        let key = site.operands.first().cloned().unwrap_or(Shape::Other);
        let array = program.tables[table].kind == TableKind::Array;
        let mut parts = BTreeSet::new();
        for (at, leaf) in key.leaves().into_iter().enumerate() {
            let grouped = if array { group(leaf) } else { None };
            let both = [Some((1, leaf.clone())), grouped];
            parts.extend(both.into_iter().flatten().map(|(size, part)| ((at, size), part)));
        }
        parts.retain(|(_, part)| {
            !matches!(part, Origin::Const(_)) && part.is_pure() && site.trusts(part)
        });
        let name = &program.tables[table].name;
        if parts.is_empty() {
            let constant = key.leaves().iter().all(|leaf| matches!(leaf, Origin::Const(_)));
            let why = if constant && !key.leaves().is_empty() {
                "always the same entry"
            } else {
                "by a key that is not a function of the event"
            };
            return Err(format!(
                "`{name}` is accessed {why} ({})",
                place(program, body, site.inst)
            ));
        }
        match of_table.get_mut(&table) {
            None => {
                of_table.insert(table, Common { parts, first: site.inst });
            }
            Some(known) => {
                known.parts.retain(|part| parts.contains(part));
                if known.parts.is_empty() {
                    return Err(format!(
                        "`{name}` is accessed by keys that have no member in common ({} and {})",
                        place(program, body, known.first),
                        place(program, body, site.inst)
                    ));
                }
            }
        }
    }
    Ok(of_table)
}

/// One handler with state: all that its keys have in common.
fn alone(
    program: &Program,
    handler: HandlerId,
    keys: BTreeMap<TableId, Common>,
) -> Result<Ability, String> {
    let body = &program.handlers[handler].body;
    let mut common: Option<(BTreeSet<Origin>, TableId, InstId)> = None;
    for (table, Common { parts, first: inst }) in keys {
        let leaves: BTreeSet<Origin> =
            parts.into_iter().map(|(_, leaf)| leaf.undressed().clone()).collect();
        common = Some(match common {
            None => (leaves, table, inst),
            Some((known, other, first)) => {
                let both: BTreeSet<Origin> = known.intersection(&leaves).cloned().collect();
                if both.is_empty() {
                    return Err(format!(
                        "the keys of `{}` ({}) and `{}` ({}) have nothing in common",
                        program.tables[other].name,
                        place(program, body, first),
                        program.tables[table].name,
                        place(program, body, inst)
                    ));
                }
                (both, other, first)
            }
        });
    }
    let Some((leaves, ..)) = common else { return Ok(Ability::Free) };
    if !leaves.iter().any(|leaf| varied(program, handler, leaf)) {
        let names: Vec<String> =
            leaves.iter().map(|leaf| describe(program, &[handler], leaf)).collect();
        return Err(format!(
            "all that its keys have in common is {}, which has few values",
            names.join(", ")
        ));
    }
    Ok(Ability::Sharded(leaves))
}

/// Several handlers with state.
fn meeting(program: &Program, several: &[(HandlerId, Vec<Site>)]) -> Result<Ability, String> {
    let name = |n: usize| &program.handlers[several[n].0].name;
    let shared = |why: &str| format!("`{}` and `{}` share tables{why}", name(0), name(1));
    if let Some((ordered, _)) =
        several.iter().find(|(handler, _)| !program.handlers[*handler].unordered)
    {
        let ordered = &program.handlers[*ordered].name;
        return Err(shared(&format!(
            ", and `{ordered}` wants events in order (it has no NF_UNORDERED)"
        )));
    }
    let mut all = Vec::new();
    for (handler, sites) in several {
        all.push((*handler, keys(program, *handler, sites)?));
    }
    let mut chosen = BTreeMap::new();
    if choose(program, &all, &BTreeMap::new(), &mut chosen) {
        Ok(Ability::Meeting(chosen))
    } else {
        Err(shared(", and no part of their events that a sender could compute is in all keys"))
    }
}

/// A part for each of the handlers, so that the parts are in the same member of every table.
/// `known`: members that are left.
fn choose(
    program: &Program,
    handlers: &[(HandlerId, BTreeMap<TableId, Common>)],
    known: &BTreeMap<TableId, BTreeSet<Member>>,
    chosen: &mut BTreeMap<HandlerId, Origin>,
) -> bool {
    let Some(((handler, keys), rest)) = handlers.split_first() else { return true };
    let parts: BTreeSet<&Origin> =
        keys.values().flat_map(|c| &c.parts).map(|(_, part)| part.widened()).collect();
    parts.into_iter().filter(|part| varied(program, *handler, part) && computable(part)).any(
        |part| {
            let mut left = known.clone();
            for (table, common) in keys {
                let of_part = common.parts.iter().filter(|(_, other)| other.widened() == part);
                let here: BTreeSet<Member> = of_part.map(|(member, _)| *member).collect();
                let both = known.get(table).map_or(here.clone(), |known| known & &here);
                if both.is_empty() {
                    return false;
                }
                left.insert(*table, both);
            }
            chosen.insert(*handler, part.clone());
            choose(program, rest, &left, chosen)
        },
    )
}

/// A product with a constant: the constant, the other factor, and the bits that it has.
fn times(origin: &Origin) -> Option<(u64, &Origin, u8)> {
    let Origin::Op { name, bits, of } = origin.widened() else { return None };
    match (*name, &of[..]) {
        ("mul", [a, b]) => match (&**a, &**b) {
            (group, Origin::Const(size)) | (Origin::Const(size), group) => {
                Some((*size, group, *bits))
            }
            _ => None,
        },
        ("shl", [group, by]) => match **by {
            Origin::Const(by @ ..32) => Some((1 << by, group, *bits)),
            _ => None,
        },
        _ => None,
    }
}

/// An index `group * size + within`, where `within` is below `size` and the sum does not wrap: the
/// size, and the group.
fn group(index: &Origin) -> Option<(u64, Origin)> {
    let Origin::Op { name, bits, of } = index.widened() else { return None };
    let fits = |size: u64, group: &Origin, bits: u8| {
        let room = 1u64.checked_shl(u32::from(bits)).unwrap_or(u64::MAX);
        let last = limit(group)?.checked_mul(size)?;
        (last <= room).then(|| (size, group.widened().clone()))
    };
    if let Some((size, group, bits)) = times(index) {
        return fits(size, group, bits);
    }
    let of_two = |product: &Origin, within: &Origin| {
        let (size, group, narrow) = times(product)?;
        let sum = *name == "add" || (*name == "or" && size.is_power_of_two());
        (sum && limit(within)? <= size).then_some(())?;
        fits(size, group, narrow.min(*bits))
    };
    match &of[..] {
        [a, b] => of_two(a, b).or_else(|| of_two(b, a)),
        _ => None,
    }
}

/// A number that a value is always below, where that is plain.
fn limit(origin: &Origin) -> Option<u64> {
    limit_within(origin, 16)
}

/// As [`limit`], from so many operations one inside the other.
fn limit_within(origin: &Origin, deep: u32) -> Option<u64> {
    let limit = |part: &Origin| limit_within(part, deep.checked_sub(1)?);
    match origin {
        Origin::Const(value) => value.checked_add(1),
        Origin::Op { name: "zext" | "trunc", of, .. } => limit(&of[0]),
        Origin::Op { name: name @ ("urem" | "srem"), of, .. } => {
            // What was made wider is not negative.
            let positive = *name == "urem" || matches!(&*of[0], Origin::Op { name: "zext", .. });
            match &*of[1] {
                Origin::Const(by) if positive && (1..=i32::MAX as u64).contains(by) => Some(*by),
                _ => None,
            }
        }
        Origin::Op { name: "and", of, .. } => {
            [&of[0], &of[1]].into_iter().filter_map(|part| limit(part)).min()
        }
        Origin::Frame { .. } | Origin::Op { name: "bswap", .. } => {
            1u64.checked_shl(u32::from(origin.width()?))
        }
        _ => None,
    }
}

/// True if a part of events is different enough between flows to spread them: types of protocols
/// are not.
fn varied(program: &Program, handler: HandlerId, leaf: &Origin) -> bool {
    match leaf {
        Origin::Frame { offset, bits, .. } => *bits >= 16 && *offset != 12,
        Origin::Const(_) | Origin::Port => false,
        Origin::Op {
            name: "eq" | "ne" | "ult" | "ule" | "ugt" | "uge" | "slt" | "sle" | "sgt" | "sge",
            ..
        } => false,
        Origin::Op { name: "select", .. } => {
            leaf.choices().into_iter().any(|part| varied(program, handler, part))
        }
        Origin::Op { bits, .. } => *bits >= 16,
        Origin::Param { index, path } => {
            let event = &program.events[program.handlers[handler].event];
            let mut ty = event.params.get(*index as usize).map(|param| param.ty);
            for step in path {
                ty = match ty {
                    Some(Type::Struct(id)) => {
                        program.structs[id].fields.get(*step as usize).map(|field| field.ty)
                    }
                    Some(Type::Array(id)) => Some(program.arrays[id].elem),
                    other => other,
                };
            }
            ty.is_some_and(|ty| program.size_of(ty) >= 2)
        }
        Origin::Value { .. } => true,
    }
}

fn place(program: &Program, body: &Body, inst: InstId) -> String {
    program.place(body.insts[inst].span)
}
