//! What the nodes of a handler weigh under an objective.

use cranelift_entity::SecondaryMap;
use nicforge_ir::{Body, InstId, Op, Program, TableId};

use super::nodes::{What, Work, is_mutable};
use super::{Objective, Weights};

/// The weight of every node. A table's weight lies on the nodes that access it, in equal parts.
///
/// * `State`: bytes of the tables (capacity times key, value and byte string);
/// * `Instructions`: cycles per event: how often a node runs, estimated, times the cycles of its
///   ops; a loop counts all its trips;
/// * `Tables`: 1 for each mutable table, a quarter for one that only the control plane fills, as it
///   can be in several memories at once.
pub fn weigh(program: &Program, work: &Work, weights: &Weights, objective: Objective) -> Vec<f64> {
    if objective == Objective::Instructions {
        let cycles = |node: &super::nodes::Node| match node.what {
            What::Inst(inst) => node.frequency * op_cycles(program, &work.body, inst, weights),
            What::Result(..) => 0.0,
        };
        return work.nodes.iter().map(cycles).collect();
    }
    let mut accesses: SecondaryMap<TableId, u32> = SecondaryMap::new();
    for table in work.nodes.iter().flat_map(|node| &node.touches.tables) {
        accesses[*table] += 1;
    }
    let mut weight: SecondaryMap<TableId, f64> = SecondaryMap::new();
    for (id, table) in &program.tables {
        let whole = match objective {
            Objective::State => {
                let bytes = program.size_of(table.key)
                    + program.size_of(table.value)
                    + table.buf.unwrap_or(0);
                table.capacity as f64 * bytes as f64
            }
            _ if is_mutable(program, id) => 1.0,
            _ => 0.25,
        };
        weight[id] = whole / accesses[id].max(1) as f64;
    }
    work.nodes
        .iter()
        .map(|node| node.touches.tables.iter().map(|table| weight[*table]).sum())
        .collect()
}

/// Cycles of an instruction with its regions, all trips of loops counted.
fn op_cycles(program: &Program, body: &Body, inst: InstId, weights: &Weights) -> f64 {
    let own = (weights.op)(program, body, inst);
    let region = |block| -> f64 {
        body.blocks[block].insts.iter().map(|inner| op_cycles(program, body, *inner, weights)).sum()
    };
    match body.insts[inst].op {
        Op::Loop { max_trips, body: block, .. } => own + max_trips as f64 * region(block),
        // One arm runs; without knowing which, the longer one.
        Op::If { then, other, .. } => own + region(then).max(region(other)),
        _ => own,
    }
}
