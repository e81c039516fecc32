//! Watching a run.

use crate::io::Output;
use crate::program::{FuncId, HandlerId, Inst, InstId, TableId};

use super::Val;

/// Whose body is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyOf {
    Handler(HandlerId),
    Func(FuncId),
}

/// One executed op.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    pub body: BodyOf,
    pub id: InstId,
    pub inst: &'a Inst,
    /// In the order of [`crate::Op::operands`].
    pub operands: &'a [Val],
    /// Empty for `if`, `loop` and `call`, which are seen before what they run.
    pub results: &'a [Val],
}

/// One access to a table.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    pub table: TableId,
    pub key: &'a [u8],
    /// The entry was there before.
    pub hit: bool,
    pub writes: bool,
}

/// Sees what a run does. Every method does nothing unless overridden.
pub trait Tracer {
    /// True if anybody looks; if not, the interpreter does not collect operands and results.
    fn active(&self) -> bool {
        true
    }
    /// A handler starts.
    fn handler(&mut self, _handler: HandlerId, _args: &[Val]) {}
    fn op(&mut self, _step: &Step) {}
    /// The `if` that was the last op takes its first (or second) arm.
    fn branch(&mut self, _body: BodyOf, _inst: InstId, _taken: bool) {}
    /// A loop starts its trip number `trip`, from 0.
    fn trip(&mut self, _body: BodyOf, _inst: InstId, _trip: u32) {}
    fn table(&mut self, _access: &Access) {}
    fn output(&mut self, _output: &Output) {}
}

/// Nobody looks.
pub struct NoTrace;

impl Tracer for NoTrace {
    fn active(&self) -> bool {
        false
    }
}
