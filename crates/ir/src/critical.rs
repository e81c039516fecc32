//! Where a handler must hold locks, if other units use its tables at the same time.
//!
//! A section runs from just before the handler's first access of the tables to just after its last
//! one, so that what is read, computed and written back in between happens as one step. It begins
//! and ends in one block: the innermost one that holds all accesses and is in no loop, so it is
//! entered at most once an event. All its locks are taken together where it begins, in the order of
//! the tables' numbers; every event everywhere does the same, so none waits in a circle. A handler
//! may return inside of its section, and whoever called it gives back what it holds.
//!
//! An array's entries never move and have nothing in common, so a section that knows the index of
//! its only entry where it begins needs a lock for that entry alone. Entries of other tables share
//! counts, chains and free entries: one lock a table.
//!
//! Cost: linear in the handler.

use crate::ops::Op;
use crate::program::{
    BlockId, Body, HandlerId, InstId, Program, TableId, TableKind, ValueDef, ValueId,
};

/// Instructions of one block, first and last, between which locks are held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    pub first: InstId,
    pub last: InstId,
    /// By table number, with the key of the only entry of it that the handler uses, where that is
    /// enough to lock.
    pub locks: Vec<(TableId, Option<ValueId>)>,
}

/// The section of a handler for those of the tables that it uses; none if it uses none.
pub fn section(program: &Program, body: &Body, tables: &[TableId]) -> Option<Section> {
    let (first, last) = innermost(body, body.entry(), tables)?;
    let mut used: Vec<TableId> = Vec::new();
    body.for_each_inst(body.entry(), &mut |inst| {
        used.extend(accessed(&body.insts[inst].op, tables))
    });
    used.sort();
    used.dedup();
    let known = |table: &TableId| {
        let array = program.tables[*table].kind == TableKind::Array;
        only_key(body, *table).filter(|key| array && before(body, *key, first))
    };
    Some(Section {
        first,
        last,
        locks: used.into_iter().map(|table| (table, known(&table))).collect(),
    })
}

/// The tables that handlers of one stage write, or use in a way that writes: an LRU table notes
/// every use.
pub fn mutable_tables(program: &Program, handlers: &[HandlerId]) -> Vec<TableId> {
    let all: Vec<TableId> = program.tables.keys().collect();
    let (mut used, mut written) = (Vec::new(), Vec::new());
    for (id, handler) in &program.handlers {
        let body = &handler.body;
        body.for_each_inst(body.entry(), &mut |inst| {
            let op = &body.insts[inst].op;
            written.extend(op.effects().table_write);
            let Some(table) = accessed(op, &all) else { return };
            if handlers.contains(&id) {
                used.push(table);
            }
            if program.tables[table].kind == TableKind::Lru {
                written.push(table);
            }
        });
    }
    all.into_iter().filter(|table| used.contains(table) && written.contains(table)).collect()
}

/// The tables that one of a stage's handlers locks as a whole; of others a lock for each entry is
/// enough.
pub fn locked_whole(program: &Program, handlers: &[HandlerId]) -> Vec<TableId> {
    let tables = mutable_tables(program, handlers);
    let sections = handlers.iter().filter_map(|id| {
        let body = &program.handlers[*id].body;
        section(program, body, &tables)
    });
    let whole = |(table, key): (TableId, Option<ValueId>)| key.is_none().then_some(table);
    sections.flat_map(|section| section.locks).filter_map(whole).collect()
}

/// Of these tables, the one that an op uses.
pub fn accessed(op: &Op, tables: &[TableId]) -> Option<TableId> {
    let effects = op.effects();
    effects.table_read.or(effects.table_write).filter(|table| tables.contains(table))
}

/// First and last instruction of the innermost block outside of loops that holds all accesses.
fn innermost(body: &Body, block: BlockId, tables: &[TableId]) -> Option<(InstId, InstId)> {
    let touches = |block: BlockId| {
        let mut found = false;
        body.for_each_inst(block, &mut |inst| {
            found |= accessed(&body.insts[inst].op, tables).is_some()
        });
        found
    };
    let here = |inst: &InstId| {
        let op = &body.insts[*inst].op;
        accessed(op, tables).is_some() || op.regions().any(touches)
    };
    let list: Vec<InstId> = body.blocks[block].insts.iter().copied().filter(here).collect();
    if let [only] = list[..]
        && let Op::If { then, other, .. } = body.insts[only].op
    {
        match (touches(then), touches(other)) {
            (true, false) => return innermost(body, then, tables),
            (false, true) => return innermost(body, other, tables),
            _ => {}
        }
    }
    Some((*list.first()?, *list.last()?))
}

/// The key of all accesses of a table.
fn only_key(body: &Body, table: TableId) -> Option<ValueId> {
    let mut keys = Vec::new();
    body.for_each_inst(body.entry(), &mut |inst| {
        keys.extend(body.insts[inst].op.entry().filter(|(of, _)| *of == table).map(|(_, key)| key));
    });
    keys.dedup();
    if let [key] = keys[..] { Some(key) } else { None }
}

/// True if a value that the handler uses at or behind an instruction is there before it: it is the
/// event's, or its instruction comes first in the order of the text, which puts what is computed
/// inside of the section behind its beginning.
fn before(body: &Body, value: ValueId, first: InstId) -> bool {
    match body.values[value].def {
        ValueDef::Param(block, _) => block == body.entry(),
        ValueDef::Result(inst, _) => {
            let (mut at, mut found) = (0, [usize::MAX; 2]);
            body.for_each_inst(body.entry(), &mut |each| {
                for (slot, wanted) in [inst, first].into_iter().enumerate() {
                    if each == wanted {
                        found[slot] = at;
                    }
                }
                at += 1;
            });
            found[0] < found[1]
        }
    }
}
