//! Positions of exits: what a packet leads to, one behind the other.
//!
//! Two exits that may both be taken have different positions, the earlier the first. So a packet
//! has at most one command for each.

use std::slice::from_ref;

use nicforge_ir::Span;

use super::dag::{Exit, NoPipe};
use super::exclusive::exclude;

/// Most commands for one packet.
const MOST_COMMANDS: usize = 8;

/// Exits by position.
pub fn positions(exits: &[Exit], span: Span) -> Result<Vec<Vec<Exit>>, NoPipe> {
    let mut places: Vec<usize> = Vec::new();
    for (at, exit) in exits.iter().enumerate() {
        // What becomes of the packet becomes of it once.
        let both = |other: &Exit| {
            (exit.beside() || other.beside())
                && !exclude(from_ref(&exit.given), from_ref(&other.given))
        };
        let before = |of: &usize| both(&exits[*of]);
        places.push((0..at).filter(before).map(|of| places[of] + 1).max().unwrap_or(0));
    }
    let count = places.iter().max().map_or(1, |most| most + 1);
    if count > MOST_COMMANDS {
        let reason = format!("a packet may lead to {count} things; {MOST_COMMANDS} at most");
        return Err(NoPipe { reason, span });
    }
    let of = |place: usize| {
        exits
            .iter()
            .zip(&places)
            .filter(|(_, at)| **at == place)
            .map(|(exit, _)| exit.clone())
            .collect()
    };
    Ok((0..count).map(of).collect())
}

impl Exit {
    /// True if it comes beside what becomes of the packet.
    pub fn beside(&self) -> bool {
        self.stays || self.moved.is_some()
    }
}
