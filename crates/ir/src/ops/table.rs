//! The table of ops: one row says everything about an op that is not how to run it.
//!
//! A row holds documentation, variant, fields in order with what operands must be, how the text
//! form writes them, results, and what the op touches. Traversals, effects, the verifier, the
//! text form and `docs/ops.md` follow from it.

use super::field::{Arg, BufSource, Field, Proj};
use super::row::Gives::{Any, AnyInt, OkAndAny, Own, Types};
use super::row::Must::{Aggregate, Data, Have, Int, Named, Packet};
use super::row::Ty::{Element, Entry, Key, Of, U1, U32, U64};
use super::row::{
    CLOCK, COMMUTES, CONTROL, CURSOR, Class, FieldRow, LOG, Must, NOTHING, ORDERED, OVERWRITES,
    RANDOM, READS_ENTRY, READS_PACKET, ROUTES, Row, Ty, WRITES_ENTRY, WRITES_PACKET, Work, ops,
};
use super::words::{BinOp, CmpOp, CommuteOp, CryptoOp, UnOp};
use crate::ids::{BlockId, ConstId, EventId, FuncId, ReasonId, TableId, ValueId};
use crate::native::Passing;

fn nth(field: &impl Field, left: &mut usize) -> Option<ValueId> {
    let found = field.operand(*left);
    if found.is_none() {
        *left -= field.count();
    }
    found
}

const KEY: Must = Have("the key", Key);
const OFFSET: Must = Have("the offset", Ty::U32);
const LENGTH: Must = Have("the length", Ty::U32);
const VALUE: Must = Data("the value");

ops! {
    Value {
        /// An integer constant of the result's type (bits above its width are zero).
        Int(raw: u64 = Named("an integer")) "int {raw}", Any, NOTHING, Free;

        /// The all-zero value of the result's type.
        Zero "zero", Any, NOTHING, Free;

        /// Arithmetic on two integers of one type.
        Bin(op: BinOp, a: ValueId = Int("an operand"), b: ValueId = Have("the second operand", Of(0)))
            "{op} {a}, {b}", Types(&[Of(0)]), NOTHING, Alu;

        /// Comparison of two integers of one type.
        Cmp(op: CmpOp, a: ValueId = Int("an operand"), b: ValueId = Have("the second operand", Of(0)))
            "{op} {a}, {b}", Types(&[U1]), NOTHING, Compare;

        /// Arithmetic on one integer.
        Un(op: UnOp, a: ValueId = Int("the operand")) "{op} {a}", Types(&[Of(0)]), NOTHING, Alu;

        /// Integer to integer: truncate, or extend by the operand's signedness. To `u1` it
        /// truncates; C's conversion to `bool` is a comparison with zero.
        Cast(a: ValueId = Int("the operand")) "cast {a}", AnyInt, NOTHING, Free;

        /// One of two values.
        Select {
            cond: ValueId = Have("the condition", U1),
            then: ValueId = Data("a choice"),
            other: ValueId = Have("the second choice", Of(1)),
        } "select {cond}, {then}, {other}", Types(&[Of(1)]), NOTHING, Alu;

        /// Reads a part of an aggregate.
        Get {
            agg: ValueId = Data("the operand"),
            path: Vec<Proj>,
        } "get {agg}{path}", Types(&[Ty::Part]), NOTHING, Member;

        /// The aggregate with one part replaced.
        Set {
            agg: ValueId = Data("the operand"),
            path: Vec<Proj>,
            value: ValueId = Have("the new part", Ty::Part),
        } "set {agg}{path}, {value}", Types(&[Of(0)]), NOTHING, Replace;

        /// Element of a constant array; beyond the end it is zero.
        ConstElem {
            array: ConstId,
            index: ValueId = Int("an index"),
        } "const_elem {array}[{index}]", Types(&[Element]), NOTHING, Element;

        /// `nf_hash(seed, value)`: u32, a mixed CRC32C.
        Hash {
            seed: ValueId = Have("the first operand", U32),
            value: ValueId = VALUE,
        } "hash {seed}, {value}" as "hash", Types(&[U32]), NOTHING, Hash;

        /// Adds the value's bytes, as 16-bit words in network order, to a ones-complement sum:
        /// u32, folded to 16 bits. An odd last byte counts as the high half of a word (RFC 1071).
        CsumAdd {
            sum: ValueId = Have("the first operand", U32),
            value: ValueId = VALUE,
        } "csum_add {sum}, {value}" as "sum", Types(&[U32]), NOTHING, Sum;

        /// Nanoseconds of the event's arrival: u64.
        Now "now" as "now", Types(&[U64]), CLOCK, Clock;

        /// The next number of the event's random stream: u32.
        Random "random" as "random", Types(&[U32]), ORDERED | RANDOM, Draw;
    }

    Packet {
        /// Port the packet came in by: u32.
        InPort {
            pkt: ValueId = Packet,
        } "in_port {pkt}" as "in_port", Types(&[U32]), NOTHING, Port;

        /// Reads a value at the cursor and advances it: `(ok: u1, value)`.
        Extract {
            pkt: ValueId = Packet,
        } "extract {pkt}" as "ok", OkAndAny, READS_PACKET | WRITES_PACKET | CURSOR, Read;

        /// Reads a value `off` bytes after the cursor: `(ok: u1, value)`.
        Load {
            pkt: ValueId = Packet,
            off: ValueId = OFFSET,
        } "load {pkt}, {off}" as "ok", OkAndAny, READS_PACKET, Read;

        /// Overwrites bytes `off` after the cursor: `ok: u1`.
        Store {
            pkt: ValueId = Packet,
            off: ValueId = OFFSET,
            value: ValueId = VALUE,
        } "store {pkt}, {off}, {value}" as "ok", Types(&[U1]), READS_PACKET | WRITES_PACKET | OVERWRITES, Write;

        /// Advances the cursor by `len` bytes: `ok: u1`.
        Skip {
            pkt: ValueId = Packet,
            len: ValueId = LENGTH,
        } "skip {pkt}, {len}" as "ok", Types(&[U1]), READS_PACKET | WRITES_PACKET | CURSOR, Cursor;

        /// Cuts the unread rest to its first `len` bytes: `ok: u1` (0 and no change if it is
        /// shorter).
        Trim {
            pkt: ValueId = Packet,
            len: ValueId = LENGTH,
        } "trim {pkt}, {len}" as "ok", Types(&[U1]), READS_PACKET | WRITES_PACKET, Cursor;

        /// Lengthens the unread rest by `len` zero bytes: `ok: u1` (0 and no change if the frame
        /// would become longer than any may be).
        Extend {
            pkt: ValueId = Packet,
            len: ValueId = LENGTH,
        } "extend {pkt}, {len}" as "ok", Types(&[U1]), READS_PACKET | WRITES_PACKET, Cursor;

        /// Appends a value's bytes to what goes before the unread rest.
        Emit {
            pkt: ValueId = Packet,
            value: ValueId = VALUE,
        } "emit {pkt}, {value}", Types(&[]), READS_PACKET | WRITES_PACKET, Write;

        /// Forgets every emit and puts the cursor on the first byte of the frame.
        Reset {
            pkt: ValueId = Packet,
        } "reset {pkt}", Types(&[]), READS_PACKET | WRITES_PACKET | CURSOR, Cursor;

        /// Bytes of the unread rest: u32.
        Len {
            pkt: ValueId = Packet,
        } "len {pkt}" as "len", Types(&[U32]), READS_PACKET, Cursor;

        /// Ones-complement sum over the first `len` bytes of the unread rest (all of it if it is
        /// shorter), added to `sum`: u32, folded to 16 bits.
        PktCsum {
            pkt: ValueId = Packet,
            sum: ValueId = Have("the sum", U32),
            len: ValueId = LENGTH,
        } "pkt_csum {pkt}, {sum}, {len}" as "sum", Types(&[U32]), READS_PACKET, PacketSum;

        /// Encrypts, decrypts or digests the first `len` bytes of the unread rest (all of it if it
        /// is shorter), in place: `ok: u1`, and what it gives besides. Where it is 0 nothing was
        /// changed, and the rest is zero. Digests change no packet.
        Crypto {
            pkt: ValueId = Packet,
            op: CryptoOp,
            len: ValueId = LENGTH,
            args: Vec<ValueId> = Data("an argument"),
        } "crypto {pkt}, {op}, {len}{ (args)}" as "ok", Own, READS_PACKET | WRITES_PACKET | OVERWRITES, Crypto;

        /// Searches for regular expressions, one a line, in the first `len` bytes of the unread
        /// rest (all of it if it is shorter): the number, from 1, of the one whose match ends
        /// first, and of those that end there of the first; 0 if none matches: u32.
        Regex {
            pkt: ValueId = Packet,
            patterns: String = Named("the patterns in quotes"),
            len: ValueId = LENGTH,
        } "regex {pkt}, {patterns}, {len}" as "pattern", Types(&[U32]), READS_PACKET, Regex;

        /// Gives the packet up, counted under a reason.
        Drop {
            pkt: ValueId = Packet,
            reason: ReasonId,
        } "drop {pkt}, {reason}", Types(&[]), WRITES_PACKET | ORDERED, Leave;
    }

    Entry {
        /// `(hit: u1, value)`; a miss reads zero.
        Lookup {
            table: TableId,
            key: ValueId = KEY,
        } "lookup {table}[{key}]" as "hit", Types(&[U1, Entry]), READS_ENTRY, Entry;

        /// `hit: u1`.
        Contains {
            table: TableId,
            key: ValueId = KEY,
        } "contains {table}[{key}]" as "hit", Types(&[U1]), READS_ENTRY, Entry;

        /// As `lookup`, but prefixes of more than `bits` bits do not count: `(hit: u1, value)`.
        LookupBits {
            table: TableId = Must::Lpm,
            key: ValueId = KEY,
            bits: ValueId = Have("the number of bits", Ty::U32),
        } "lookup_bits {table}[{key}], {bits}" as "hit", Types(&[U1, Entry]), READS_ENTRY, Entry;

        /// Inserts or overwrites: `ok: u1`, 0 if the table refused (full, or array index out of
        /// range). In lpm and ternary tables, overwrites what `lookup` finds: 0 if that is nothing.
        Update {
            table: TableId,
            key: ValueId = KEY,
            value: ValueId = Have("the value", Entry),
        } "update {table}[{key}], {value}" as "ok", Types(&[U1]), READS_ENTRY | WRITES_ENTRY, Entry;

        /// `existed: u1`.
        Delete {
            table: TableId = Must::Removable,
            key: ValueId = KEY,
        } "delete {table}[{key}]" as "deleted", Types(&[U1]), READS_ENTRY | WRITES_ENTRY, Entry;

        /// The entry whose integer at `path` (constant indices only) is least; of equal ones that
        /// whose key comes first, byte by byte: `(found: u1, key, value)`, zero in an empty table.
        Least {
            table: TableId = Must::Hash,
            path: Vec<Proj> = Must::Whole,
        } "least {table}{path}" as "found", Types(&[U1, Key, Entry]), READS_ENTRY, Scan;

        /// Commutative read-modify-write of the integer at `path` (constant indices only) of the
        /// entry's value. An entry that is not there begins with zeros; in lpm and ternary tables
        /// nothing is done then.
        Commute {
            op: CommuteOp,
            table: TableId,
            key: ValueId = KEY,
            path: Vec<Proj> = Must::Whole,
            amount: ValueId = Have("the amount", Ty::Part),
        } "commute {op} {table}[{key}]{path}, {amount}", Types(&[]), WRITES_ENTRY | COMMUTES, Entry;
    }

    Bytes {
        /// Appends to the entry's byte string: `ok: u1`, 0 and no change if the key is absent or
        /// the bytes do not fit.
        BufAppend {
            table: TableId,
            key: ValueId = KEY,
            source: BufSource,
        } "buf_append {table}[{key}], {source}" as "ok", Types(&[U1]), READS_ENTRY | WRITES_ENTRY | READS_PACKET, Append;

        /// Bytes in the entry's byte string, 0 if the key is absent: u32.
        BufLen {
            table: TableId,
            key: ValueId = KEY,
        } "buf_len {table}[{key}]" as "len", Types(&[U32]), READS_ENTRY, Length;

        /// Reads a value `off` bytes into the byte string: `(ok: u1, value)`.
        BufRead {
            table: TableId,
            key: ValueId = KEY,
            off: ValueId = OFFSET,
        } "buf_read {table}[{key}], {off}" as "hit", OkAndAny, READS_ENTRY, Bytes;

        /// Empties the byte string.
        BufClear {
            table: TableId,
            key: ValueId = KEY,
        } "buf_clear {table}[{key}]", Types(&[]), READS_ENTRY | WRITES_ENTRY, Length;

        /// Generates `net_send` (with `port`) or `host_recv` (without) with the entry's byte
        /// string as the packet, then empties it: `ok: u1`, 0 if the key is absent.
        BufGenerate {
            event: EventId,
            table: TableId,
            key: ValueId = KEY,
            port: Option<ValueId> = Have("the port", U32),
        } "buf_generate {event} {table}[{key}]{port}", Types(&[U1]), READS_ENTRY | WRITES_ENTRY | ORDERED, Leave;
    }

    Outside {
        /// Generates an event; packet arguments are consumed unless the parameter is borrowed.
        // Which packets it takes the event declares; being ordered keeps it in place either way.
        Generate {
            event: EventId,
            args: Vec<ValueId>,
        } "generate {event}{(args)}", Types(&[]), ORDERED, Leave;

        /// Generates `net_send` with the first `len` bytes of a value (all, if it has fewer) as the
        /// packet.
        NewPacket {
            event: EventId,
            value: ValueId = Aggregate("the bytes"),
            len: ValueId = LENGTH,
            port: ValueId = Have("the port", U32),
        } "new_packet {event} {value}, {len}, {port}", Types(&[]), ORDERED, Leave;

        /// Prints a line for the developer; `{}` in the format takes an argument.
        Log {
            format: String = Must::Format("the format in quotes"),
            args: Vec<ValueId> = Int("an argument"),
        } "log {format}{(args)}", Types(&[]), ORDERED | LOG, Log;

        /// The kernel's forwarding and neighbour lookup, on targets that have it. `query` is a
        /// `struct nf_fib_query`; results `(ok: u1, answer: struct nf_fib_answer)`.
        FibLookup {
            query: ValueId = Aggregate("the query"),
        } "fib_lookup {query}", OkAndAny, ORDERED | ROUTES, Routes;

        /// Calls a function of C that is not αIR (see [`native`](crate::native)): its result, if
        /// it has one, then what it left behind every address that it may write to. Not pure: it
        /// may have state of its own, so all calls of a program are in order.
        Extern {
            /// Only its arguments decide what it gives, and it may run anywhere any number of
            /// times.
            pure: bool,
            name: String = Named("the function's name in quotes"),
            passing: Vec<Passing>,
            args: Vec<ValueId>,
        } "extern {pure}{name}{passing}{(args)}", Own, ORDERED, Call;
    }

    Control {
        /// Runs one of two regions; results are what it yields.
        If {
            cond: ValueId = Have("the condition", U1),
            /// Probability that `cond` holds, from `NF_LIKELY`.
            likely: Option<f32>,
            then: BlockId,
            other: BlockId,
        } "if {cond}{likely}", Own, CONTROL, Branch;

        /// Runs a region up to `max_trips` times. Its parameters are the carried values: `init` at
        /// first, then what `continue` gives (the region's end is a `continue` too). `break` ends
        /// it with the results; so does the last trip, with the carried values, so that carried
        /// values and results have the same types.
        Loop {
            max_trips: u32 = Named("the number of trips"),
            init: Vec<ValueId>,
            body: BlockId,
        } "loop {max_trips}{ (init)}", Own, CONTROL, Branch;

        /// Calls a function; packets passed remain the caller's unless the function consumes them.
        Call {
            func: FuncId,
            args: Vec<ValueId>,
        } "call {func}{(args)}", Own, ORDERED | CONTROL, Call;

        /// End of an `if` region.
        Yield(values: Vec<ValueId>) "yield{ values}", Own, CONTROL, Free;

        /// Leaves the loop `depth` levels out (0: the innermost) with its results.
        Break {
            depth: u32 = Named("how many loops out"),
            values: Vec<ValueId>,
        } "break {depth}{ (values)}", Own, CONTROL, Branch;

        /// Next trip of the loop `depth` levels out, with its carried values.
        Continue {
            depth: u32 = Named("how many loops out"),
            values: Vec<ValueId>,
        } "continue {depth}{ (values)}", Own, CONTROL, Branch;

        /// Ends the handler or function.
        Return(values: Vec<ValueId>) "return{ values}", Own, CONTROL, Free;
    }
}
