//! αIR, the representation in the middle of the road.
//!
//! A [`Program`] is a *stateful handler graph*: handlers react to [`Event`]s, run to completion,
//! read and write [`Table`]s, and generate events. A fresh program has one handler per external
//! event.
//!
//! # Meaning
//!
//! The interpreter ([`interp`]) is the definition; this page is its summary.
//!
//! * **One event at a time**, in arrival order, on one thread. A handler runs to completion.
//! * **Integers** are `uN`/`iN`, 1 ≤ N ≤ 64, two's complement, wrapping. Division by zero gives 0,
//!   the remainder by zero gives the dividend (as eBPF does). A shift by the width or more gives 0
//!   (for `iN` right shifts: the sign). Signedness sits in the type and decides division,
//!   remainder, right shift, comparison and extension.
//! * **Aggregates** (structs, arrays) are values, not memory. Their bytes follow [`layout`]:
//!   natural alignment unless packed, little-endian integers, padding always zero. Reading an array
//!   beyond its end gives zero; setting beyond its end changes nothing.
//! * **Packets** are linear handles. A packet is `emitted ++ data[cursor..]`: `extract` reads at
//!   the cursor and advances it, `emit` appends to `emitted`, and what is sent is the emitted bytes
//!   followed by the unread rest. A read beyond the end fails as a whole: its `ok` result is 0, its
//!   value zero, the cursor stays. `reset` forgets every emit and moves the cursor back to the
//!   first byte of the frame.
//! * **Tables** have a fixed minimum capacity. A miss reads the zero value. `update` of an absent
//!   key in a full table is refused (result 0, counted), except in `lru` tables, which evict.
//!   Commutative ops on an absent key start from zero and insert it; they return nothing.
//! * **Time and randomness** are fields of the event, so that a run can be replayed. Timers fire by
//!   the times of the events ([`timers`]).
//!
//! # Shape
//!
//! Bodies are structured SSA: a [`Block`] is a region with parameters, a straight line of
//! instructions and a terminator (`yield`, `break`, `continue`, `return`). `if` and `loop` own
//! their regions. Only ops without [effects](Op::effects) may be merged, moved or dropped.
//!
//! # Around it
//!
//! People read and write programs as [`text`]. [`verify`](mod@verify) decides whether a program
//! means something, and what later parts take is [`Verified`]. [`json`] shows values; [`generate`]
//! makes random programs for tests.
//!
//! Architecture invariant: nothing here knows a source language, a target or a plan.

pub mod alive;
pub mod build;
pub mod critical;
mod crypto;
pub mod diag;
pub mod effects;
pub mod fuzz;
pub mod generate;
pub mod ids;
pub mod interp;
pub mod io;
pub mod json;
pub mod layout;
pub mod native;
pub mod ops;
pub mod patterns;
pub mod program;
pub mod row;
pub mod span;
pub mod tables;
pub mod text;
pub mod timers;
pub mod types;
pub mod verify;

pub use build::BodyBuilder;
pub use diag::{Diagnostic, Label, Severity};
pub use effects::Effects;
pub use interp::{Eviction, Interp, InterpError};
pub use io::{Input, InputEvent, Output};
pub use layout::Layout;
pub use native::Passing;
pub use ops::{BinOp, BufSource, Class, CmpOp, CommuteOp, CryptoOp, Op, Proj, UnOp, Words, Work};
pub use program::*;
pub use span::{FileId, SourceFile, Span};
pub use tables::{Entry, Match, TableBackend, TableError};
pub use types::{ArrayId, Field, StructDef, StructId, Type};
pub use verify::{Verified, VerifyError, verify};
