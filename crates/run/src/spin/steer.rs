//! Which replica gets an input event, as the path into the NIC decides it: the hash of
//! `runtime/host/nf_tables.h` for cores of 32 bits, over the bytes the plan steers by.

use nicforge_codegen::dpdk::{Pipeline, SteerBy, param_bytes};
use nicforge_ir::{EventId, Input, Program};

/// `nf_key_hash` on cores of 32 bits.
pub fn key_hash(key: &[u8]) -> u32 {
    let mut hash = 0x9e37_79b9 ^ key.len() as u32;
    for word in key.chunks(4) {
        let word = word.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        hash = (hash ^ word).wrapping_mul(0x85eb_ca6b);
        hash ^= hash >> 15;
    }
    hash = hash.wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// Spreads input events over replicas.
pub struct Steering<'a> {
    program: &'a Program,
    pipeline: &'a Pipeline,
    turn: u32,
}

impl<'a> Steering<'a> {
    pub fn new(program: &'a Program, pipeline: &'a Pipeline) -> Steering<'a> {
        Steering { program, pipeline, turn: 0 }
    }

    /// The event an input is, if the program takes it.
    pub fn event(&self, input: &Input) -> Option<EventId> {
        let found = self.program.event_named(input.event());
        found.filter(|event| self.program.handler_of(*event).is_some())
    }

    /// Stage of an input and the bits that choose its replica; `None` if the program has no handler
    /// for it.
    pub fn bits_of(&mut self, input: &Input) -> Option<(usize, u32)> {
        let event = self.event(input)?;
        let stage = self.pipeline.stage_of(self.program, event)?;
        let several = self.pipeline.stages[stage].replicas > 1;
        Some((stage, if several { self.bits(event, input) } else { 0 }))
    }

    /// Stage and replica of an input.
    pub fn worker(&mut self, input: &Input) -> Option<(usize, u32)> {
        let (stage, bits) = self.bits_of(input)?;
        let replicas = u64::from(self.pipeline.stages[stage].replicas);
        Some((stage, ((u64::from(bits) * replicas) >> 32) as u32))
    }

    fn bits(&mut self, event: EventId, input: &Input) -> u32 {
        let steering = self.pipeline.steering.iter().find(|steering| steering.event == event);
        let bytes = input.bytes();
        let port = if let Input::Net { port, .. } = input { *port } else { 0 };
        let parts: Vec<(u32, u32)> = match steering.map(|steering| &steering.by) {
            Some(SteerBy::Frame(parts)) => parts.clone(),
            Some(SteerBy::FrameByPort(ports)) => match ports.get(port as usize) {
                Some(parts) => parts.clone(),
                None => return 0,
            },
            Some(SteerBy::Params(paths)) => {
                let part = |(at, path): &(usize, Vec<u32>)| {
                    param_bytes(self.program, self.pipeline, event, *at, path)
                };
                paths.iter().map(part).collect()
            }
            // Of internal events only.
            Some(SteerBy::Number(..)) => return 0,
            None | Some(SteerBy::RoundRobin) => {
                self.turn = self.turn.wrapping_add(0x9e37_79b9);
                return self.turn;
            }
        };
        let mut key = Vec::new();
        for (at, size) in parts {
            let (at, size) = (at as usize, size as usize);
            match bytes.get(at..at + size) {
                Some(part) => key.extend_from_slice(part),
                None => key.resize(key.len() + size, 0),
            }
        }
        key_hash(&key)
    }
}
