//! Deliberate mistakes, one at a time, which a comparison with the oracle has to find: in a copy of
//! what the front end made (as if it had read the program so), and in what the interpreter gave.

use nicforge_ir::{BinOp, Body, CmpOp, CommuteOp, Op, Program, TableKind, UnOp, Verified, verify};

use super::Said;

/// A mistake in a program.
pub struct Fault {
    pub name: &'static str,
    change: fn(&mut Program),
}

/// What becomes of an operation.
enum Change {
    No,
    To(Op),
    Gone,
}

fn bodies(program: &mut Program) -> impl Iterator<Item = &mut Body> {
    let handlers = program.handlers.values_mut().map(|handler| &mut handler.body);
    handlers.chain(program.funcs.values_mut().map(|func| &mut func.body))
}

/// Changes operations everywhere. Only what has no results may go.
fn ops(program: &mut Program, change: fn(&Op) -> Change) {
    for body in bodies(program) {
        let mut gone = Vec::new();
        for (id, inst) in &mut body.insts {
            match change(&inst.op) {
                Change::No => {}
                Change::To(op) => inst.op = op,
                Change::Gone => gone.push(id),
            }
        }
        for block in body.blocks.values_mut() {
            block.insts.retain(|inst| !gone.contains(inst));
        }
    }
}

/// A fault that changes operations of one form.
macro_rules! fault {
    ($name:literal, $from:pat => $to:expr) => {
        Fault {
            name: $name,
            change: |program| {
                ops(program, |op| match op.clone() {
                    $from => $to,
                    _ => Change::No,
                })
            },
        }
    };
}

/// A binary operation that is taken for another.
macro_rules! binary {
    ($name:literal, $from:ident as $to:ident) => {
        fault!($name, Op::Bin(BinOp::$from, a, b) => Change::To(Op::Bin(BinOp::$to, a, b)))
    };
}

macro_rules! compared {
    ($name:literal, $from:ident as $to:ident) => {
        fault!($name, Op::Cmp(CmpOp::$from, a, b) => Change::To(Op::Cmp(CmpOp::$to, a, b)))
    };
}

/// All of them.
pub const FAULTS: &[Fault] = &[
    binary!("adds instead of subtracting", Sub as Add),
    binary!("subtracts instead of adding", Add as Sub),
    binary!("adds instead of multiplying", Mul as Add),
    binary!("quotient for remainder", Rem as Div),
    binary!("remainder for quotient", Div as Rem),
    binary!("shifts left instead of right", Shr as Shl),
    binary!("or for exclusive or", Xor as Or),
    binary!("exclusive or for or", Or as Xor),
    fault!("divides in the wrong order", Op::Bin(BinOp::Div, a, b) => Change::To(Op::Bin(BinOp::Div, b, a))),
    compared!("less or equal for less", Lt as Le),
    compared!("greater for greater or equal", Ge as Gt),
    compared!("always equal", Ne as Le),
    fault!("negates instead of inverting", Op::Un(UnOp::Not, a) => Change::To(Op::Un(UnOp::Neg, a))),
    fault!("forgets the byte order", Op::Un(UnOp::Bswap, a) => Change::To(Op::Bin(BinOp::And, a, a))),
    fault!("takes the other value", Op::Select { cond, then, other } =>
        Change::To(Op::Select { cond, then: other, other: then })),
    fault!("leaves out a loop's last trip", Op::Loop { init, max_trips: 2.., body } =>
        Change::To(Op::Loop { init, max_trips: 1, body })),
    fault!("strips instead of trimming", Op::Trim { pkt, len } => Change::To(Op::Skip { pkt, len })),
    fault!("forgets what is emitted", Op::Emit { .. } => Change::Gone),
    fault!("does not reset", Op::Reset { .. } => Change::Gone),
    fault!("sums the wrong bytes", Op::PktCsum { pkt, .. } => Change::To(Op::Len { pkt })),
    fault!("does not update", Op::Update { table, key, .. } => Change::To(Op::Contains { table, key })),
    fault!("does not delete", Op::Delete { table, key } => Change::To(Op::Contains { table, key })),
    fault!("deletes where it looks", Op::Contains { table, key } => Change::To(Op::Delete { table, key })),
    fault!("keeps the least instead of the sum", Op::Commute { op: CommuteOp::Add, table, key, path, amount } =>
        Change::To(Op::Commute { op: CommuteOp::Min, table, key, path, amount })),
    fault!("forgets what is counted", Op::Commute { .. } => Change::Gone),
    fault!("forgets a log line", Op::Log { .. } => Change::Gone),
    fault!("does not clear strings", Op::BufClear { .. } => Change::Gone),
    Fault {
        name: "a place too few in tables",
        change: |program| {
            program
                .tables
                .values_mut()
                .for_each(|table| table.capacity = (table.capacity - 1).max(1));
        },
    },
    Fault {
        name: "refuses instead of evicting",
        change: |program| {
            let lru = program.tables.values_mut().filter(|table| table.kind == TableKind::Lru);
            lru.for_each(|table| table.kind = TableKind::Hash);
        },
    },
    Fault {
        name: "strings with less room",
        change: |program| {
            let rooms = program.tables.values_mut().filter_map(|table| table.buf.as_mut());
            rooms.for_each(|room| *room = (*room / 2).max(1));
        },
    },
    Fault {
        name: "a wrong constant array",
        change: |program| program.consts.values_mut().for_each(|array| array.bytes[0] ^= 1),
    },
    Fault {
        name: "a wrong reason",
        change: |program| program.reasons.values_mut().for_each(|reason| reason.text.push('?')),
    },
];

impl Fault {
    /// A program with the mistake; nothing if it has no place for it.
    pub fn of(&self, program: &Verified<Program>) -> Option<Verified<Program>> {
        let before: Program = (**program).clone();
        let mut after = before.clone();
        (self.change)(&mut after);
        let same = format!("{before:?}") == format!("{after:?}");
        if same { None } else { verify(after).ok() }
    }
}

/// A mistake in what came of an event.
pub struct Tamper {
    pub name: &'static str,
    pub change: fn(&mut Vec<Said>),
}

fn frames(said: &mut [Said]) -> impl Iterator<Item = &mut Vec<u8>> {
    said.iter_mut().filter_map(|said| match said {
        Said::Send { frame, .. } | Said::Stack { frame } | Said::HostPacket { frame } => {
            Some(frame)
        }
        _ => None,
    })
}

/// All of them.
pub const TAMPERS: &[Tamper] = &[
    Tamper {
        name: "a bit of a frame",
        change: |said| {
            frames(said).filter_map(|frame| frame.last_mut()).for_each(|byte| *byte ^= 1)
        },
    },
    Tamper { name: "a byte more", change: |said| frames(said).for_each(|frame| frame.push(0)) },
    Tamper {
        name: "the other port",
        change: |said| {
            said.iter_mut().for_each(|said| {
                if let Said::Send { port, .. } = said {
                    *port ^= 1;
                }
            });
        },
    },
    Tamper { name: "an output less", change: |said| drop(said.pop()) },
    Tamper { name: "the other order", change: |said| said.reverse() },
];
