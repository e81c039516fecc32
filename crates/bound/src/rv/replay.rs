//! Runs a witness: instructions and cycles must be those claimed.

use std::collections::VecDeque;

use super::memory::{OUTSIDE, STACK_HOME, Surroundings};
use super::text::Program;
use super::world::{self, Asked, Start};
use crate::graph::Graph;
use crate::witness::{TableRead, Witness};

/// Runs a witness of a program's graph.
///
/// # Errors
/// What differs from the claim.
pub fn replay(
    program: &Program,
    around: &Surroundings,
    graph: &Graph,
    witness: &Witness,
) -> Result<(), String> {
    let mut reads: VecDeque<&TableRead> = witness.reads.iter().collect();
    let outside = |read: &TableRead| (OUTSIDE..OUTSIDE + 0x1000_0000).contains(&read.address);
    let anywhere = graph.unchecked.as_ref().map_or(0, |unchecked| unchecked.anywhere);
    let mut values = |asked: Asked| {
        let fits = |read: &mut &TableRead| {
            let from_outside = outside(read) && read.region != anywhere;
            read.step == asked.step && from_outside == asked.outside
        };
        let read = reads.pop_front_if(fits)?;
        let mut bytes = [0; 4];
        bytes[..read.bytes.len().min(4)].copy_from_slice(&read.bytes[..read.bytes.len().min(4)]);
        Some(u32::from_le_bytes(bytes))
    };
    let steps = witness.places.len();
    let run = world::run(program, around, &start(witness), &mut values, (steps + 1, steps))?;
    if let Some((index, (ran, claimed))) = run
        .places
        .iter()
        .zip(&witness.places)
        .enumerate()
        .find(|(_, (ran, claimed))| ran != claimed)
    {
        let (ran, claimed) = (graph.describe(*ran), graph.describe(*claimed));
        return Err(format!("instruction {index} of the path is {ran}; claimed was {claimed}"));
    }
    if run.places.len() != steps {
        return Err(format!(
            "{} instructions are executed, {steps} were claimed",
            run.places.len()
        ));
    }
    let claimed = witness.work.milli / 1000;
    if run.cycles > claimed || run.cycles + witness.spare < claimed {
        return Err(format!(
            "it takes {} cycles, not {claimed} (of which {} may be spare)",
            run.cycles, witness.spare
        ));
    }
    Ok(())
}

/// The witness's words on the start.
pub fn start(witness: &Witness) -> Start {
    let word = |index: usize| witness.start.get(index).copied().unwrap_or(0) as u32;
    Start {
        packet: witness.packet.clone(),
        beyond: witness.beyond.clone(),
        stack: witness
            .private
            .iter()
            .map(|(at, byte)| (*at as i64 - STACK_HOME as i64, *byte))
            .collect(),
        bases: witness.bases.clone(),
        regs: (0..31).map(word).collect(),
        cluster: word(31),
        core: word(32),
        task: (33..witness.start.len()).map(word).collect(),
    }
}
