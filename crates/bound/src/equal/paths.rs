//! Packets for the paths of one program.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::ebpf::{self, Layout, XDP};

use super::link::Pair;
use super::side::Side;
use super::state::State;
use super::walk::Walker;
use super::world::World;
use super::{Options, Prover, in_time};

/// Worlds that lead a program along its paths, one for each of `most` paths at most. Paths into
/// blocks where none was before come first. When the time is over, those found so far.
///
/// # Errors
/// A program that is not followed at all, with the place.
pub fn worlds(
    side: &Side,
    options: &Options,
    most: usize,
    user: &Arc<AtomicBool>,
) -> Result<Vec<World>, String> {
    if Layout::of(&side.program.section)? != XDP {
        return Err(format!("`{}` is no XDP program", side.program.name));
    }
    let graph = ebpf::open(&side.program, &side.maps, &side.tails).map_err(|e| e.to_string())?;
    // Nothing is compared, so the other side is never looked at.
    let pair = Pair {
        maps: side.maps.clone(),
        compared: vec![false; side.maps.len()],
        alone: Default::default(),
        lifted: false,
        reference: None,
        old: side.clone(),
        new: side.clone(),
    };
    in_time(options.time, user, |stop| {
        let mut prover = Prover::new(&pair, &graph, options, stop);
        let start = State::begin(&mut prover, side, &graph);
        let mut walker = Walker::new(side, &graph, start);
        let (mut seen, mut found) = (HashSet::new(), Vec::new());
        while found.len() < most
            && let Some(state) = walker.next_new(&mut prover, &mut seen)
        {
            let always = prover.terms.boolean(true);
            if let Some(Some(model)) = prover.example(&state.path, always) {
                found.push(prover.world(&state, &model));
            }
        }
        found
    })
}
