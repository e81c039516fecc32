//! `unroll`: writes short loops out, trip by trip.
//!
//! A loop of n ≤ 8 trips becomes a loop of one trip that holds n copies of the region, one behind
//! the other, each in a loop of one trip of its own: `continue` leaves the inner one with the
//! carried values for the next copy, `break` leaves the outer one with the results.
//! `simplify-control` removes the frames. Inner loops first; a loop whose copies would have more
//! than [`MAX_COPIED`] instructions, or nest too deep, stays.
//!
//! `unroll-short` does the same for loops of up to [`FEW_TRIPS`] trips that stay below
//! [`MAX_SHORT`] instructions: where the index becomes a constant, table keys, hash seeds and
//! checksum words do.

use std::collections::HashMap;

use nicforge_ir::text::MAX_NESTING;
use nicforge_ir::{BlockId, Body, InstId, Op, Program, Type, Value, ValueDef, ValueId};

use crate::Pass;
use crate::rewrite::{copy_region, for_each_body, for_each_exit, height, new_inst, size};

/// Loops of more trips stay.
pub const MAX_TRIPS: u32 = 8;

/// Instructions that one loop may become.
const MAX_COPIED: usize = 1024;

/// Limits of `unroll-short`: trips, and instructions of all of them.
const FEW_TRIPS: u32 = 4;
const MAX_SHORT: usize = 256;

pub struct Unroll;

pub struct UnrollShort;

impl Pass for Unroll {
    fn name(&self) -> &'static str {
        "unroll"
    }

    fn description(&self) -> &'static str {
        "writes loops of up to 8 trips out, trip by trip"
    }

    fn run(&self, program: &mut Program) -> bool {
        for_each_body(program, |_, body| unroll_block(body, body.entry(), 1, MAX_TRIPS, MAX_COPIED))
    }
}

impl Pass for UnrollShort {
    fn name(&self) -> &'static str {
        "unroll-short"
    }

    fn description(&self) -> &'static str {
        "writes loops of up to 4 trips out that stay short"
    }

    fn run(&self, program: &mut Program) -> bool {
        for_each_body(program, |_, body| unroll_block(body, body.entry(), 1, FEW_TRIPS, MAX_SHORT))
    }
}

fn unroll_block(body: &mut Body, block: BlockId, depth: usize, trips: u32, most: usize) -> bool {
    let mut changed = false;
    for inst in body.blocks[block].insts.clone() {
        for region in body.insts[inst].op.regions() {
            changed |= unroll_block(body, region, depth + 1, trips, most);
        }
        if let Op::Loop { max_trips, body: region, .. } = body.insts[inst].op
            && (2..=trips).contains(&max_trips)
            && size(body, region) * max_trips as usize <= most
            // The frames are one more level around the region.
            && depth + height(body, region) < MAX_NESTING
        {
            unroll(body, inst, max_trips, region);
            changed = true;
        }
    }
    changed
}

fn unroll(body: &mut Body, inst: InstId, trips: u32, region: BlockId) {
    let span = body.insts[inst].span;
    let params = body.blocks[region].params.clone();
    let types: Vec<Type> = params.iter().map(|param| body.ty(*param)).collect();
    let outer = body.blocks.push(Default::default());
    let mut carried: Vec<ValueId> =
        params.iter().enumerate().map(|(i, param)| copy_param(body, outer, i, *param)).collect();
    for _ in 0..trips {
        let mut values = HashMap::new();
        let copy = {
            // The parameters need their copies before the region is copied, and the region's id
            // after it.
            let copies: Vec<ValueId> =
                params.iter().map(|param| body.values.push(body.values[*param].clone())).collect();
            values.extend(params.iter().copied().zip(copies.iter().copied()));
            let copy = copy_region(None, region, body, &mut values);
            for (i, param) in copies.iter().enumerate() {
                body.values[*param].def = ValueDef::Param(copy, i as u32);
            }
            body.blocks[copy].params = copies;
            copy
        };
        redirect_exits(body, copy);
        let trip =
            new_inst(body, Op::Loop { init: carried, max_trips: 1, body: copy }, &types, span);
        body.blocks[outer].insts.push(trip);
        carried = body.insts[trip].results.clone();
    }
    let end = new_inst(body, Op::Break { depth: 0, values: carried }, &[], span);
    body.blocks[outer].insts.push(end);
    if let Op::Loop { max_trips, body: region, .. } = &mut body.insts[inst].op {
        *max_trips = 1;
        *region = outer;
    }
}

fn copy_param(body: &mut Body, block: BlockId, index: usize, like: ValueId) -> ValueId {
    let Value { ty, name, .. } = body.values[like].clone();
    let value = body.values.push(Value { ty, name, def: ValueDef::Param(block, index as u32) });
    body.blocks[block].params.push(value);
    value
}

/// In a copy of the region: `continue` leaves the inner loop, everything else has one more loop to
/// leave.
fn redirect_exits(body: &mut Body, region: BlockId) {
    let mut exits = Vec::new();
    for_each_exit(body, region, 0, &mut |inst, inside| exits.push((inst, inside)));
    for (inst, inside) in exits {
        let op = match body.insts[inst].op.clone() {
            Op::Continue { depth, values } if depth == inside => Op::Break { depth, values },
            Op::Continue { depth, values } if depth > inside => {
                Op::Continue { depth: depth + 1, values }
            }
            Op::Break { depth, values } if depth >= inside => {
                Op::Break { depth: depth + 1, values }
            }
            other => other,
        };
        body.insts[inst].op = op;
    }
}
