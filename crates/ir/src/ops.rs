//! The closed set of operations.
//!
//! Every op lists its operands, its regions and its effects; passes work on those and rarely on the variant.
//! Adding an op means: a variant here, a row in [`crate::effects`], the verifier, the text form, the interpreter,
//! and each code generator, all of which match exhaustively.

use crate::native::Passing;
use crate::program::{BlockId, ConstId, EventId, FuncId, ReasonId, TableId, ValueId};

/// Two-operand integer arithmetic; operands and result have one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinOp {
    Add,
    Sub,
    Mul,
    /// Quotient; by zero it is 0. `iN`: truncates, and MIN / -1 = MIN.
    Div,
    /// Remainder; by zero it is the dividend. `iN`: sign of the dividend, and MIN % -1 = 0.
    Rem,
    And,
    Or,
    Xor,
    /// Shift left; by the width or more it is 0. The amount is read as unsigned.
    Shl,
    /// Shift right, logical for `uN`, arithmetic for `iN`; by the width or more it is 0 (or the sign).
    Shr,
}

/// Integer comparison by the operands' signedness; gives `u1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CmpOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl CmpOp {
    /// The comparison with its operands in the other order.
    pub fn mirrored(self) -> CmpOp {
        match self {
            CmpOp::Lt => CmpOp::Gt,
            CmpOp::Le => CmpOp::Ge,
            CmpOp::Gt => CmpOp::Lt,
            CmpOp::Ge => CmpOp::Le,
            CmpOp::Eq | CmpOp::Ne => self,
        }
    }
}

/// One-operand integer operations; operand and result have one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnOp {
    /// Bitwise complement.
    Not,
    /// Two's complement negation.
    Neg,
    /// Byte swap of a 16-, 32- or 64-bit integer.
    Bswap,
}

/// Commutative read-modify-write of one integer member of a table entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommuteOp {
    Add,
    Min,
    Max,
    Or,
}

/// One step from an aggregate to a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Proj {
    /// Member number of a struct.
    Field(u32),
    /// Element of an array; beyond the end it reads zero and writes nothing.
    Index(ValueId),
}

/// What is appended to a table entry's byte string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BufSource {
    /// The first `len` bytes of the packet's unread rest (all of it if it is shorter); the packet is not consumed.
    Packet { pkt: ValueId, len: ValueId },
    /// The bytes of a value.
    Value(ValueId),
}

/// An operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    // ---- integers and aggregates: pure -----------------------------------------------------------------
    /// An integer constant of the result's type (bits above its width are zero).
    Int(u64),
    /// The all-zero value of the result's type.
    Zero,
    Bin(BinOp, ValueId, ValueId),
    Cmp(CmpOp, ValueId, ValueId),
    Un(UnOp, ValueId),
    /// Integer to integer: truncate, or extend by the operand's signedness. To `u1` it truncates; C's conversion to
    /// `bool` is a comparison with zero.
    Cast(ValueId),
    Select {
        cond: ValueId,
        then: ValueId,
        other: ValueId,
    },
    /// Reads a part of an aggregate.
    Get {
        agg: ValueId,
        path: Vec<Proj>,
    },
    /// The aggregate with one part replaced.
    Set {
        agg: ValueId,
        path: Vec<Proj>,
        value: ValueId,
    },
    /// Element of a constant array; beyond the end it is zero.
    ConstElem {
        array: ConstId,
        index: ValueId,
    },
    /// `nf_hash(seed, value)`: u32, a mixed CRC32C.
    Hash {
        seed: ValueId,
        value: ValueId,
    },
    /// Adds the value's bytes, as 16-bit words in network order, to a ones-complement sum: u32, folded to 16 bits.
    /// An odd last byte counts as the high half of a word (RFC 1071).
    CsumAdd {
        sum: ValueId,
        value: ValueId,
    },

    // ---- fields of the event ---------------------------------------------------------------------------
    /// Nanoseconds of the event's arrival: u64.
    Now,
    /// The next number of the event's random stream: u32.
    Random,
    /// Port the packet came in by: u32.
    InPort {
        pkt: ValueId,
    },

    // ---- packets ---------------------------------------------------------------------------------------
    /// Reads a value at the cursor and advances it: `(ok: u1, value)`.
    Extract {
        pkt: ValueId,
    },
    /// Reads a value `off` bytes after the cursor: `(ok: u1, value)`.
    Load {
        pkt: ValueId,
        off: ValueId,
    },
    /// Overwrites bytes `off` after the cursor: `ok: u1`.
    Store {
        pkt: ValueId,
        off: ValueId,
        value: ValueId,
    },
    /// Advances the cursor by `len` bytes: `ok: u1`.
    Skip {
        pkt: ValueId,
        len: ValueId,
    },
    /// Cuts the unread rest to its first `len` bytes: `ok: u1` (0 and no change if it is shorter).
    Trim {
        pkt: ValueId,
        len: ValueId,
    },
    /// Appends a value's bytes to what goes before the unread rest.
    Emit {
        pkt: ValueId,
        value: ValueId,
    },
    /// Forgets every emit and puts the cursor on the first byte of the frame.
    Reset {
        pkt: ValueId,
    },
    /// Bytes of the unread rest: u32.
    Len {
        pkt: ValueId,
    },
    /// Ones-complement sum over the first `len` bytes of the unread rest (all of it if it is shorter), added to
    /// `sum`: u32, folded to 16 bits.
    PktCsum {
        pkt: ValueId,
        sum: ValueId,
        len: ValueId,
    },
    /// Gives the packet up, counted under a reason.
    Drop {
        pkt: ValueId,
        reason: ReasonId,
    },

    // ---- tables ----------------------------------------------------------------------------------------
    /// `(hit: u1, value)`; a miss reads zero.
    Lookup {
        table: TableId,
        key: ValueId,
    },
    /// `hit: u1`.
    Contains {
        table: TableId,
        key: ValueId,
    },
    /// Inserts or overwrites: `ok: u1`, 0 if the table refused (full, or array index out of range).
    Update {
        table: TableId,
        key: ValueId,
        value: ValueId,
    },
    /// `existed: u1`.
    Delete {
        table: TableId,
        key: ValueId,
    },
    /// Commutative read-modify-write of the integer at `path` (constant indices only) of the entry's value.
    Commute {
        op: CommuteOp,
        table: TableId,
        key: ValueId,
        path: Vec<Proj>,
        amount: ValueId,
    },
    /// Appends to the entry's byte string: `ok: u1`, 0 and no change if the key is absent or the bytes do not fit.
    BufAppend {
        table: TableId,
        key: ValueId,
        source: BufSource,
    },
    /// Bytes in the entry's byte string, 0 if the key is absent: u32.
    BufLen {
        table: TableId,
        key: ValueId,
    },
    /// Reads a value `off` bytes into the byte string: `(ok: u1, value)`.
    BufRead {
        table: TableId,
        key: ValueId,
        off: ValueId,
    },
    /// Empties the byte string.
    BufClear {
        table: TableId,
        key: ValueId,
    },

    // ---- events ----------------------------------------------------------------------------------------
    /// Generates an event; packet arguments are consumed unless the parameter is borrowed.
    Generate {
        event: EventId,
        args: Vec<ValueId>,
    },
    /// Generates `net_send` (with `port`) or `host_recv` (without) with the entry's byte string as the packet, then
    /// empties it: `ok: u1`, 0 if the key is absent.
    BufGenerate {
        event: EventId,
        table: TableId,
        key: ValueId,
        port: Option<ValueId>,
    },
    /// Prints a line for the developer; `{}` in the format takes an argument.
    Log {
        format: String,
        args: Vec<ValueId>,
    },
    /// The kernel's forwarding and neighbour lookup, on targets that have it. `query` is a `struct nf_fib_query`;
    /// results `(ok: u1, answer: struct nf_fib_answer)`.
    FibLookup {
        query: ValueId,
    },

    /// Calls a function of C that is not αIR (see [`native`](crate::native)): its result, if it has one, then what it left behind every
    /// address that it may write to. Not pure: it may have state of its own, so all calls of a program are in order.
    Extern {
        name: String,
        /// Only its arguments decide what it gives, and it may run anywhere any number of times.
        pure: bool,
        passing: Vec<Passing>,
        args: Vec<ValueId>,
    },

    // ---- control ---------------------------------------------------------------------------------------
    /// Runs one of two regions; results are what it yields.
    If {
        cond: ValueId,
        then: BlockId,
        other: BlockId,
        /// Probability that `cond` holds, from `NF_LIKELY`.
        likely: Option<f32>,
    },
    /// Runs a region up to `max_trips` times. Its parameters are the carried values: `init` at first, then what
    /// `continue` gives (the region's end is a `continue` too). `break` ends it with the results; so does the last
    /// trip, with the carried values, so that carried values and results have the same types.
    Loop {
        init: Vec<ValueId>,
        max_trips: u32,
        body: BlockId,
    },
    /// Calls a function; packets passed remain the caller's unless the function consumes them.
    Call {
        func: FuncId,
        args: Vec<ValueId>,
    },
    /// End of an `if` region.
    Yield(Vec<ValueId>),
    /// Leaves the loop `depth` levels out (0: the innermost) with its results.
    Break {
        depth: u32,
        values: Vec<ValueId>,
    },
    /// Next trip of the loop `depth` levels out, with its carried values.
    Continue {
        depth: u32,
        values: Vec<ValueId>,
    },
    /// Ends the handler or function.
    Return(Vec<ValueId>),
}

impl Op {
    /// Replaces the regions the op owns, in order.
    pub fn map_regions(&mut self, change: &mut dyn FnMut(BlockId) -> BlockId) {
        match self {
            Op::If { then, other, .. } => (*then, *other) = (change(*then), change(*other)),
            Op::Loop { body, .. } => *body = change(*body),
            _ => {}
        }
    }

    /// Regions the op owns, in order.
    pub fn regions(&self) -> impl Iterator<Item = BlockId> + use<> {
        let (first, second) = match self {
            Op::If { then, other, .. } => (Some(*then), Some(*other)),
            Op::Loop { body, .. } => (Some(*body), None),
            _ => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// Whether the op ends a region.
    pub fn is_terminator(&self) -> bool {
        matches!(self, Op::Yield(_) | Op::Break { .. } | Op::Continue { .. } | Op::Return(_))
    }

    /// Operands in order, without what the regions use.
    pub fn operands(&self) -> Vec<ValueId> {
        let mut found = Vec::new();
        // The traversal below is written once, for mutation; a clone serves the reading case.
        self.clone().map_operands(&mut |value| {
            found.push(value);
            value
        });
        found
    }

    /// Replaces every operand by `change` of it.
    pub fn map_operands(&mut self, change: &mut dyn FnMut(ValueId) -> ValueId) {
        let mut one = |value: &mut ValueId| *value = change(*value);
        match self {
            Op::Int(_) | Op::Zero | Op::Now | Op::Random => {}
            Op::Bin(_, a, b) | Op::Cmp(_, a, b) => {
                one(a);
                one(b);
            }
            Op::Un(_, a) | Op::Cast(a) => one(a),
            Op::Select { cond, then, other } => {
                one(cond);
                one(then);
                one(other);
            }
            Op::Get { agg, path } => {
                one(agg);
                path_operands(path, &mut one);
            }
            Op::Set { agg, path, value } => {
                one(agg);
                path_operands(path, &mut one);
                one(value);
            }
            Op::ConstElem { index, .. } => one(index),
            Op::Hash { seed: a, value: b } | Op::CsumAdd { sum: a, value: b } => {
                one(a);
                one(b);
            }
            Op::InPort { pkt }
            | Op::Extract { pkt }
            | Op::Reset { pkt }
            | Op::Len { pkt }
            | Op::Drop { pkt, .. } => one(pkt),
            Op::Load { pkt, off: b }
            | Op::Skip { pkt, len: b }
            | Op::Trim { pkt, len: b }
            | Op::Emit { pkt, value: b } => {
                one(pkt);
                one(b);
            }
            Op::Store { pkt, off: b, value: c } | Op::PktCsum { pkt, sum: b, len: c } => {
                one(pkt);
                one(b);
                one(c);
            }
            Op::Lookup { key, .. }
            | Op::Contains { key, .. }
            | Op::Delete { key, .. }
            | Op::BufLen { key, .. }
            | Op::BufClear { key, .. } => one(key),
            Op::Update { key, value, .. } => {
                one(key);
                one(value);
            }
            Op::Commute { key, path, amount, .. } => {
                one(key);
                path_operands(path, &mut one);
                one(amount);
            }
            Op::BufAppend { key, source, .. } => {
                one(key);
                match source {
                    BufSource::Packet { pkt, len } => {
                        one(pkt);
                        one(len);
                    }
                    BufSource::Value(value) => one(value),
                }
            }
            Op::BufRead { key, off, .. } => {
                one(key);
                one(off);
            }
            Op::BufGenerate { key, port, .. } => {
                one(key);
                port.iter_mut().for_each(one);
            }
            Op::FibLookup { query } => one(query),
            Op::If { cond, .. } => one(cond),
            Op::Generate { args: values, .. }
            | Op::Extern { args: values, .. }
            | Op::Log { args: values, .. }
            | Op::Loop { init: values, .. }
            | Op::Call { args: values, .. }
            | Op::Yield(values)
            | Op::Break { values, .. }
            | Op::Continue { values, .. }
            | Op::Return(values) => values.iter_mut().for_each(one),
        }
    }
}

fn path_operands(path: &mut [Proj], one: &mut dyn FnMut(&mut ValueId)) {
    for step in path {
        if let Proj::Index(value) = step {
            one(value);
        }
    }
}
