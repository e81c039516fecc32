//! Tables that handlers read and write, and how.

use std::collections::{BTreeMap, BTreeSet};

use nicforge_ir::{CommuteOp, HandlerId, Op, Program, TableId};

/// Tables that handlers write other than by one commutative op, or read as well, per program; and
/// all that they change of what is filled from outside: no replica makes a part of its own of it.
pub fn mutable(program: &Program) -> BTreeSet<TableId> {
    let mut set = BTreeSet::new();
    for_each_op(program, |op| {
        let effects = op.effects();
        if let (Some(table), false) = (effects.table_write, effects.commutes) {
            set.insert(table);
        }
    });
    // What is added to and read by handlers must be seen by the reader.
    let mut added = BTreeSet::new();
    let mut read = BTreeSet::new();
    for_each_op(program, |op| {
        let effects = op.effects();
        added.extend(effects.table_write.filter(|_| effects.commutes));
        read.extend(effects.table_read);
    });
    set.extend(added.intersection(&read));
    let outside = |table: &&TableId| program.tables[**table].kind.is_filled_from_outside();
    set.extend(added.iter().filter(outside));
    // Only of one operation are parts combined.
    let mut ops: BTreeMap<TableId, Vec<CommuteOp>> = BTreeMap::new();
    for_each_op(program, |op| {
        if let Op::Commute { op, table, .. } = op {
            let known = ops.entry(*table).or_default();
            if !known.contains(op) {
                known.push(*op);
            }
        }
    });
    set.extend(ops.into_iter().filter(|(_, ops)| ops.len() > 1).map(|(table, _)| table));
    set
}

/// Tables that no handler writes.
pub fn read_only(program: &Program) -> BTreeSet<TableId> {
    let mut set: BTreeSet<TableId> = program.tables.keys().collect();
    for_each_op(program, |op| {
        if let Some(table) = op.effects().table_write {
            set.remove(&table);
        }
    });
    set
}

fn for_each_op(program: &Program, mut visit: impl FnMut(&Op)) {
    let bodies =
        program.handlers.values().map(|h| &h.body).chain(program.funcs.values().map(|f| &f.body));
    for body in bodies {
        body.for_each_inst(body.entry(), &mut |inst| visit(&body.insts[inst].op));
    }
}

/// The table an op touches.
pub fn table_of(op: &Op) -> Option<TableId> {
    let effects = op.effects();
    effects.table_write.or(effects.table_read)
}

/// Tables a handler touches.
pub fn of_handler(program: &Program, handler: HandlerId) -> Vec<TableId> {
    let body = &program.handlers[handler].body;
    let mut list = Vec::new();
    body.for_each_inst(body.entry(), &mut |inst| {
        if let Some(table) = table_of(&body.insts[inst].op)
            && !list.contains(&table)
        {
            list.push(table);
        }
    });
    list
}

#[cfg(test)]
mod tests {
    use nicforge_ir::text::parse;

    use super::*;

    #[test]
    fn parts_of_two_operations_are_not_combined() {
        let program = |kind: &str, second: &str| {
            let text = format!(
                "program ops ports 1
table counts: {kind}[u32 -> u32] capacity 64
reason \"done\"
event net_recv(pkt: packet) in
handler net_recv on net_recv(%pkt: packet) {{
  %key: u32 = 1
  commute add counts[%key], %key
  commute {second} counts[%key], %key
  drop %pkt, \"done\"
  return
}}
"
            );
            mutable(&parse(&text).unwrap()).len()
        };
        assert_eq!((program("hash", "add"), program("hash", "max")), (0, 1));
        // Every replica would begin with what the control plane put there.
        assert_eq!((program("lpm", "add"), program("ternary", "add")), (1, 1));
    }
}
