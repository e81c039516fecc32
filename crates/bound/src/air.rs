//! Front end for αIR: from a handler to the block language.
//!
//! The handler's regions become blocks; integers become slots of their width and aggregates a slot
//! per byte, so that members are cut out of bytes whatever the layout. The packet is the packet
//! memory; cursor and end of it are slots, constants as long as the program makes them so, and
//! every check against them is a branch, so that what follows knows how it ended. Handlers that
//! receive the internal event a handler generates follow it in the same graph: a packet's whole way
//! is one path.
//!
//! # Why the bound holds
//! The graph has every path the program has, at the same costs. Table contents, hashes, checksums,
//! time, randomness and ports are new unknown values ([`Lowered::unknown`]): more may seem possible
//! than is, never less.
//!
//! Cost: linear in the program; unrolling comes later.

mod entries;
mod events;
pub mod exact;
mod mixed;
mod packet;
mod value;

pub use mixed::crc_tables;
pub use packet::PORT;

use std::collections::HashMap;

use nicforge_ir::interp::Shapes;
use nicforge_ir::{self as ir, Body, HandlerId, InstId, Op, Program, ValueId};

use crate::analysis::HEADROOM;
use crate::graph::{
    Block, BlockId, BranchCost, Contents, Cost, Effect, Expr, Graph, Next, Place, Region, Slot,
    Step,
};
use crate::term::Op as TermOp;

/// Address of packet byte 0.
const PACKET: u64 = 0x10_0000;
/// Address of the first constant array; each has a range of [`ARRAYS_EACH`].
const ARRAYS: u64 = 1 << 40;
const ARRAYS_EACH: u64 = 1 << 33;
/// Largest aggregate that is taken apart.
const MOST_BYTES: usize = 4096;

/// Why a program is not analysed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct Refused {
    pub place: String,
    pub reason: String,
}

/// An αIR program in the block language.
#[derive(Clone, Debug)]
pub struct Lowered {
    pub graph: Graph,
    /// Places whose results are taken as unknown, and what they are.
    pub unknown: Vec<(u32, &'static str)>,
    /// Handler and instruction of each place.
    pub origin: Vec<(HandlerId, InstId)>,
}

/// The block language's form of a handler and of the handlers it sends internal events to.
/// Functions must have been inlined. `cost` gives what one execution of an instruction costs.
///
/// # Errors
/// What is not handled, with its place.
pub fn graph(
    program: &Program,
    handler: HandlerId,
    cost: &dyn Fn(HandlerId, InstId) -> Cost,
) -> Result<Lowered, Refused> {
    Front::new(program, handler, cost).run(handler)
}

/// A loop being translated.
struct Around<'p> {
    header: BlockId,
    after: BlockId,
    params: &'p [ValueId],
    results: &'p [ValueId],
}

struct Front<'p> {
    program: &'p Program,
    shapes: Shapes,
    cost: &'p dyn Fn(HandlerId, InstId) -> Cost,
    out: Graph,
    /// Block being filled, of which handler.
    at: BlockId,
    handler: HandlerId,
    queue: Vec<(HandlerId, BlockId)>,
    entered: HashMap<HandlerId, BlockId>,
    values: HashMap<(HandlerId, ValueId), Vec<Slot>>,
    loops: Vec<Around<'p>>,
    /// First place of each handler.
    places: HashMap<HandlerId, u32>,
    origin: Vec<(HandlerId, InstId)>,
    unknown: Vec<(u32, &'static str)>,
    /// Packet offsets, 32 bits.
    cursor: Slot,
    end: Slot,
    /// The handler that runs when this one is done, plus one; 32 bits.
    next: Slot,
    /// Where packets' bytes arrive, 64 bits.
    temp: Slot,
    now: Slot,
    port: Slot,
    /// Address of packet byte 0.
    packet: u64,
    /// Ops have all of their meaning.
    exact: Option<exact::Exact<'p>>,
}

impl<'p> Front<'p> {
    fn new(
        program: &'p Program,
        handler: HandlerId,
        cost: &'p dyn Fn(HandlerId, InstId) -> Cost,
    ) -> Front<'p> {
        let mut out = Graph::default();
        let (cursor, end, next) = (out.slot(32), out.slot(32), out.slot(32));
        let (temp, now, port) = (out.slot(64), out.slot(64), out.slot(32));
        out.start = vec![
            (cursor, Expr::Const(32, 0)),
            (end, Expr::zext(Expr::Size(0), 32)),
            (next, Expr::Const(32, 0)),
            (now, Expr::Fresh(64)),
            (port, Expr::Fresh(32)),
        ];
        let packet = Region {
            name: "packet".to_string(),
            base: PACKET - HEADROOM,
            size: 0x2_0000 + HEADROOM,
            contents: Contents::Packet,
        };
        out.regions.push(packet);
        let mut front = Front {
            program,
            shapes: Shapes::new(program),
            cost,
            out,
            at: BlockId(0),
            handler,
            queue: Vec::new(),
            entered: HashMap::new(),
            values: HashMap::new(),
            loops: Vec::new(),
            places: HashMap::new(),
            origin: Vec::new(),
            unknown: Vec::new(),
            cursor,
            end,
            next,
            temp,
            now,
            port,
            packet: PACKET,
            exact: None,
        };
        front.arrays();
        front
    }

    /// Memory of constant arrays.
    fn arrays(&mut self) {
        for (index, array) in self.program.consts.values().enumerate() {
            let base = ARRAYS + index as u64 * ARRAYS_EACH;
            let region = self.out.regions.len() as u32;
            let bytes = array.bytes.iter().enumerate();
            self.out.given.extend(bytes.map(|(at, byte)| (region, base + at as u64, *byte)));
            let (name, contents) = (array.name.clone(), Contents::Table);
            self.out.regions.push(Region { name, base, size: ARRAYS_EACH, contents });
        }
    }

    /// Translates a handler and those it sends internal events to.
    fn run(mut self, handler: HandlerId) -> Result<Lowered, Refused> {
        let entry = self.enter(handler);
        self.out.entry = entry;
        self.begin(handler);
        let mut arrived = false;
        while let Some((handler, at)) = self.queue.pop() {
            self.chain(handler, &mut Vec::new())?;
            (self.handler, self.at) = (handler, at);
            let body = self.body();
            if !std::mem::replace(&mut arrived, true)
                && let Some(first) = body.blocks[body.entry()].insts.first()
            {
                self.arrive(*first);
            }
            self.region(body.entry(), None)?;
        }
        self.finish()
    }

    fn body(&self) -> &'p Body {
        &self.program.handlers[self.handler].body
    }

    fn refuse<T>(&self, inst: InstId, reason: impl Into<String>) -> Result<T, Refused> {
        let place = self.program.place(self.body().insts[inst].span);
        Err(Refused { place, reason: reason.into() })
    }

    /// The block a handler begins with.
    fn enter(&mut self, handler: HandlerId) -> BlockId {
        if let Some(known) = self.entered.get(&handler) {
            return *known;
        }
        let block = self.reserve();
        self.entered.insert(handler, block);
        self.queue.push((handler, block));
        self.places.insert(handler, self.origin.len() as u32);
        for (id, inst) in &self.program.handlers[handler].body.insts {
            self.origin.push((handler, id));
            let line = inst.span.file.map(|file| {
                let source = &self.program.files[file];
                let name = source.path.rsplit('/').next().unwrap_or(&source.path);
                Place { file: name.to_string(), line: inst.span.line_col(&source.text).0 }
            });
            self.out.lines.push(line);
        }
        block
    }

    /// Parameters of the first handler are whatever comes from outside.
    fn begin(&mut self, handler: HandlerId) {
        let body = &self.program.handlers[handler].body;
        for param in &body.blocks[body.entry()].params {
            let unknown = self.unknown_bytes(body.ty(*param));
            let bits = body.ty(*param).bits();
            let slots = self.slots(*param).to_vec();
            match bits {
                Some(bits) => self.out.start.push((slots[0], Expr::Fresh(bits))),
                None => self.out.start.extend(slots.into_iter().zip(unknown)),
            }
        }
    }

    fn reserve(&mut self) -> BlockId {
        let id = BlockId(self.out.blocks.len() as u32);
        let branch = BranchCost::default();
        self.out.blocks.push(Block { steps: Vec::new(), next: Next::Exit, branch, place: None });
        id
    }

    fn block(&mut self) -> &mut Block {
        &mut self.out.blocks[self.at.0 as usize]
    }

    fn place(&self, inst: InstId) -> u32 {
        self.places[&self.handler] + inst.as_u32()
    }

    /// One execution of an instruction.
    fn charged(&mut self, inst: InstId, effects: Vec<Effect>) {
        let (cost, place) = ((self.cost)(self.handler, inst), self.place(inst));
        self.block().steps.push(Step { effects, cost, place });
    }

    /// More effects of an instruction that was charged.
    fn free(&mut self, inst: InstId, effects: Vec<Effect>) {
        let place = self.place(inst);
        self.block().steps.push(Step { effects, cost: Cost::default(), place });
    }

    fn goto(&mut self, to: BlockId) {
        self.block().next = Next::Goto(to);
    }

    /// Ends the block with a branch; gives the two blocks it goes to.
    fn branch(&mut self, cond: Expr) -> (BlockId, BlockId) {
        let (taken, fall) = (self.reserve(), self.reserve());
        self.block().next = Next::Branch { cond, taken, fall };
        (taken, fall)
    }

    /// Two ways to one place, each with its effects.
    fn either(&mut self, inst: InstId, cond: Expr, yes: Vec<Effect>, no: Vec<Effect>) {
        let (taken, fall) = self.branch(cond);
        let after = self.reserve();
        for (block, effects) in [(taken, yes), (fall, no)] {
            self.at = block;
            self.free(inst, effects);
            self.goto(after);
        }
        self.at = after;
    }

    /// Assignments of values to values, all at once.
    fn copies(&mut self, from: &[ValueId], to: &[ValueId]) -> Vec<Effect> {
        let (mut first, mut then) = (Vec::new(), Vec::new());
        let overlap = from.iter().any(|value| to.contains(value));
        for (from, to) in from.iter().zip(to) {
            let sources = self.parts(*from);
            let targets = self.slots(*to).to_vec();
            for (source, target) in sources.into_iter().zip(targets) {
                if overlap {
                    let between = self.out.slot(self.out.slots[target.0 as usize]);
                    first.push(Effect::Set(between, source));
                    then.push(Effect::Set(target, Expr::Slot(between)));
                } else {
                    then.push(Effect::Set(target, source));
                }
            }
        }
        first.extend(then);
        first
    }

    /// Translates a region; what it yields goes to `yields` and on to that block.
    fn region(
        &mut self,
        region: ir::BlockId,
        yields: Option<(BlockId, &'p [ValueId])>,
    ) -> Result<(), Refused> {
        let body = self.body();
        for &id in &body.blocks[region].insts {
            let inst = &body.insts[id];
            match &inst.op {
                Op::If { cond, then, other, .. } => {
                    self.charged(id, Vec::new());
                    let cond = self.int(*cond);
                    let place = self.place(id);
                    self.block().place = Some(place);
                    let (taken, fall) = self.branch(cond);
                    let after = self.reserve();
                    for (block, region) in [(taken, *then), (fall, *other)] {
                        self.at = block;
                        self.region(region, Some((after, &inst.results)))?;
                    }
                    self.at = after;
                }
                Op::Loop { init, max_trips, body: inner } => {
                    self.run_loop(id, init, *max_trips, *inner)?;
                }
                Op::Yield(values) => {
                    let Some((after, results)) = yields else {
                        return self.refuse(id, "a yield outside an `if`");
                    };
                    let effects = self.copies(values, results);
                    self.charged(id, effects);
                    self.goto(after);
                }
                Op::Break { depth, values } | Op::Continue { depth, values } => {
                    let leaves = matches!(inst.op, Op::Break { .. });
                    let around = self.loops.iter().rev().nth(*depth as usize);
                    let Some(around) = around else {
                        return self.refuse(id, "a jump out of no loop");
                    };
                    let (to, targets) = match leaves {
                        true => (around.after, around.results),
                        false => (around.header, around.params),
                    };
                    let effects = self.copies(values, targets);
                    self.charged(id, effects);
                    self.goto(to);
                }
                Op::Return(_) => {
                    self.charged(id, Vec::new());
                    self.leave(id);
                    self.returns(id);
                }
                Op::Generate { event, args } => {
                    let mut effects = Vec::new();
                    match self.internal(*event) {
                        Some(receiver) => effects = self.send(receiver, args),
                        None => self.exact_event(id, *event, args),
                    }
                    self.charged(id, effects);
                }
                _ => self.op(id)?,
            }
        }
        Ok(())
    }

    fn run_loop(
        &mut self,
        id: InstId,
        init: &[ValueId],
        max_trips: u32,
        inner: ir::BlockId,
    ) -> Result<(), Refused> {
        let body = self.body();
        let (params, results) = (&body.blocks[inner].params[..], &body.insts[id].results[..]);
        let trip = self.out.slot(32);
        let mut effects = self.copies(init, params);
        effects.push(Effect::Set(trip, Expr::Const(32, 0)));
        self.charged(id, effects);
        let (header, after) = (self.reserve(), self.reserve());
        self.goto(header);
        self.at = header;
        let more = Expr::binary(TermOp::Ult, Expr::Slot(trip), Expr::Const(32, max_trips.into()));
        let (again, done) = self.branch(more);
        self.at = done;
        let effects = self.copies(params, results);
        self.free(id, effects);
        self.goto(after);
        self.at = again;
        let count = Effect::Set(trip, Expr::add(Expr::Slot(trip), Expr::Const(32, 1)));
        self.free(id, vec![count]);
        self.loops.push(Around { header, after, params, results });
        self.region(inner, None)?;
        self.loops.pop();
        self.at = after;
        Ok(())
    }

    /// The graph without blocks that nothing leads to, which regions that never yield leave behind.
    fn finish(mut self) -> Result<Lowered, Refused> {
        let mut number: Vec<Option<u32>> = vec![None; self.out.blocks.len()];
        let (mut order, mut open) = (Vec::new(), vec![self.out.entry]);
        while let Some(block) = open.pop() {
            let known = &mut number[block.0 as usize];
            if known.is_none() {
                *known = Some(order.len() as u32);
                order.push(block);
                open.extend(self.out.successors(block));
            }
        }
        let renamed = |block: &mut BlockId| {
            *block = BlockId(number[block.0 as usize].unwrap_or_default());
        };
        let mut blocks = Vec::with_capacity(order.len());
        for old in &order {
            let mut block = self.out.blocks[old.0 as usize].clone();
            match &mut block.next {
                Next::Goto(to) => renamed(to),
                Next::Branch { taken, fall, .. } => {
                    renamed(taken);
                    renamed(fall);
                }
                Next::Switch { targets, .. } => targets.iter_mut().for_each(|(_, to)| renamed(to)),
                Next::Exit => {}
            }
            blocks.push(block);
        }
        self.out.blocks = blocks;
        renamed(&mut self.out.entry);
        Ok(Lowered { graph: self.out, unknown: self.unknown, origin: self.origin })
    }
}
