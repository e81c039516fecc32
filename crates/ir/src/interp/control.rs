//! Running regions: `if`, `loop`, calls and the ways out of them.

use cranelift_entity::EntityRef;

use super::InterpError;
use super::exec::{Exec, Frame};
use super::trace::{BodyOf, Tracer};
use super::{State, Val};
use crate::ops::Op;
use crate::program::{BlockId, FuncId, InstId, ValueId};

/// Ends of a region; the terminator's operands are still in the frame.
pub enum Flow {
    Yield(InstId),
    Break(u32, InstId),
    Continue(u32, InstId),
    Return(InstId),
}

impl<T: Tracer + ?Sized> Exec<'_, '_, T> {
    /// Runs a region up to its terminator.
    pub fn block(&mut self, frame: &mut Frame, block: BlockId) -> Result<Flow, InterpError> {
        let body = frame.body;
        for &id in &body.blocks[block].insts {
            self.count_step()?;
            match &body.insts[id].op {
                Op::If { cond, then, other, .. } => {
                    self.trace_op(frame, id);
                    let taken = frame.int(*cond) != 0;
                    self.tracer.branch(frame.of, id, taken);
                    match self.block(frame, if taken { *then } else { *other })? {
                        Flow::Yield(end) => self.give(frame, end, &body.insts[id].results),
                        leaving => return Ok(leaving),
                    }
                }
                Op::Loop { init, max_trips, body: region } => {
                    self.trace_op(frame, id);
                    if let Some(leaving) = self.run_loop(frame, id, init, *max_trips, *region)? {
                        return Ok(leaving);
                    }
                }
                Op::Call { func, args } => {
                    self.trace_op(frame, id);
                    let args = args.iter().map(|v| frame.get(*v).clone()).collect();
                    let results = self.call(*func, args)?;
                    for (value, result) in body.insts[id].results.iter().zip(results) {
                        frame.set(*value, result);
                    }
                }
                Op::Extern { name, passing, args, .. } => {
                    self.call_native(frame, id, name, passing, args)?;
                    self.trace_op(frame, id);
                }
                Op::Yield(_) => return Ok(self.leave(frame, id, Flow::Yield(id))),
                Op::Break { depth, .. } => {
                    return Ok(self.leave(frame, id, Flow::Break(*depth, id)));
                }
                Op::Continue { depth, .. } => {
                    return Ok(self.leave(frame, id, Flow::Continue(*depth, id)));
                }
                Op::Return(_) => return Ok(self.leave(frame, id, Flow::Return(id))),
                _ => {
                    self.op(frame, id);
                    self.trace_op(frame, id);
                }
            }
        }
        unreachable!("a verified region ends in a terminator")
    }

    fn leave(&mut self, frame: &Frame, id: InstId, flow: Flow) -> Flow {
        self.trace_op(frame, id);
        flow
    }

    /// Gives the operands of terminator `end` to `targets`, all at once: a target may be an operand
    /// too.
    fn give(&mut self, frame: &mut Frame, end: InstId, targets: &[ValueId]) {
        let values = match &frame.body.insts[end].op {
            Op::Yield(values) | Op::Break { values, .. } | Op::Continue { values, .. } => values,
            _ => return,
        };
        match (&values[..], targets) {
            ([], _) => {}
            ([value], [target]) => {
                let value = frame.get(*value).clone();
                frame.set(*target, value);
            }
            _ => {
                let given: Vec<Val> = values.iter().map(|v| frame.get(*v).clone()).collect();
                for (target, value) in targets.iter().zip(given) {
                    frame.set(*target, value);
                }
            }
        }
    }

    /// Runs a loop; `Some` if it was left for something further out.
    fn run_loop(
        &mut self,
        frame: &mut Frame,
        id: InstId,
        init: &[ValueId],
        max_trips: u32,
        region: BlockId,
    ) -> Result<Option<Flow>, InterpError> {
        let body = frame.body;
        let (params, results) = (&body.blocks[region].params, &body.insts[id].results);
        for (param, value) in params.iter().zip(init) {
            let value = frame.get(*value).clone();
            frame.set(*param, value);
        }
        for trip in 0..max_trips {
            self.count_step()?;
            self.tracer.trip(frame.of, id, trip);
            match self.block(frame, region)? {
                Flow::Continue(0, end) => self.give(frame, end, params),
                Flow::Break(0, end) => {
                    self.give(frame, end, results);
                    return Ok(None);
                }
                Flow::Continue(depth, end) => return Ok(Some(Flow::Continue(depth - 1, end))),
                Flow::Break(depth, end) => return Ok(Some(Flow::Break(depth - 1, end))),
                leaving => return Ok(Some(leaving)),
            }
        }
        for (param, result) in params.iter().zip(results) {
            let value = frame.get(*param).clone();
            frame.set(*result, value);
        }
        Ok(None)
    }

    /// Runs a function; its results.
    fn call(&mut self, func: FuncId, args: Vec<Val>) -> Result<Vec<Val>, InterpError> {
        let body = &self.program.funcs[func].body;
        let mut frame = self.frame(body, BodyOf::Func(func), args);
        let flow = self.block(&mut frame, body.entry())?;
        let results = match flow {
            Flow::Return(end) => match &body.insts[end].op {
                Op::Return(values) => values.iter().map(|v| frame.get(*v).clone()).collect(),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        self.recycle(frame);
        Ok(results)
    }
}

impl State {
    pub fn table(&mut self, table: crate::program::TableId) -> &mut super::store::Store {
        &mut self.tables[table.index()]
    }
}
