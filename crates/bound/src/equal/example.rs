//! From values that the solver found to a world in which programs can run.

use crate::ebpf::{CONTEXT, PACKET, STACK, VALUES, VALUES_EACH, stride};
use crate::solver::Model;
use crate::term::{MemNode, Node, Term, Var};

use super::Prover;
use super::state::State;
use super::world::World;

/// A value of a map that existed at first: map, number, and its place in the world.
type Slot = (usize, u64, (usize, Vec<u8>));

impl Prover<'_> {
    /// The world of a path's end.
    pub fn world(&mut self, state: &State, model: &Model) -> World {
        let mut world = World::default();
        let size = self.terms.packet_size(0);
        world.packet = vec![0; model.value(&self.terms, size) as usize];
        let bytes = |me: &mut Self, words: &[Term]| {
            let mut list = Vec::new();
            for word in words {
                let size = usize::from(me.terms.bits(*word) / 8);
                list.extend(&model.value(&me.terms, *word).to_le_bytes()[..size]);
            }
            list
        };
        let mut slots = Vec::new();
        for key in &state.keys {
            let name = (key.map, bytes(self, &key.words));
            if model.value(&self.terms, key.present) == 1 {
                let size = self.maps[key.map].value_size as usize;
                world.entries.insert(name.clone(), vec![0; size]);
                slots.push((key.map, key.slot, name));
            }
        }
        for (term, value) in &model.values {
            let place = match self.terms.node(*term) {
                Node::Var(var) => match self.terms.var_info(var) {
                    Var::Byte { region, address } if (region as usize) < self.regions.len() => {
                        Some(address)
                    }
                    _ => None,
                },
                Node::Load(mem, address) => match self.terms.mem(mem) {
                    // Memories that nothing is known about are no part of a world.
                    MemNode::Init(region) if (region as usize) < self.regions.len() => {
                        Some(model.value(&self.terms, address))
                    }
                    _ => None,
                },
                _ => None,
            };
            if let Some(address) = place {
                self.put_byte(&mut world, &slots, address, *value as u8);
            }
        }
        for asked in &state.asked {
            let numbers = |list: &[Term]| -> Vec<u64> {
                list.iter().map(|term| model.value(&self.terms, *term)).collect()
            };
            let question = (asked.helper, numbers(&asked.inputs));
            world.answers.insert(question, numbers(&asked.outputs));
        }
        world
    }

    /// Puts a byte of a memory where it belongs.
    fn put_byte(&self, world: &mut World, slots: &[Slot], address: u64, byte: u8) {
        if (CONTEXT..STACK).contains(&address) {
            let member = (address - CONTEXT) & !3;
            let word = world.context.entry(member).or_default();
            *word |= u32::from(byte) << (8 * (address & 3));
            return;
        }
        if address < CONTEXT {
            let at = address.wrapping_sub(PACKET) as i64;
            match usize::try_from(at).ok().and_then(|at| world.packet.get_mut(at)) {
                Some(place) => *place = byte,
                None => {
                    world.around.insert(at, byte);
                }
            }
            return;
        }
        let Some(at) = address.checked_sub(VALUES) else { return };
        let map = (at / VALUES_EACH) as usize;
        // Constants are what they are, also where a path leaves open which byte is read.
        let Some(shape) = self.maps.get(map).filter(|shape| !shape.constant) else { return };
        let (at, each) = (at % VALUES_EACH, stride(shape));
        let (name, offset) = match shape.kind {
            None => ((map, vec![0; 4]), at),
            Some(_) if self.array(map) => {
                ((map, ((at / each) as u32).to_le_bytes().to_vec()), at % each)
            }
            Some(_) => {
                let slot = at / each;
                let known = slots.iter().find(|(m, s, _)| (*m, *s) == (map, slot));
                let Some((.., name)) = known else { return };
                (name.clone(), at % each)
            }
        };
        let size = match shape.kind {
            None => shape.data.len().max(shape.value_size as usize),
            Some(_) => shape.value_size as usize,
        };
        let first = if shape.kind.is_none() { shape.data.clone() } else { Vec::new() };
        let value = world.entries.entry(name).or_insert_with(|| {
            let mut value = first;
            value.resize(size, 0);
            value
        });
        if let Some(place) = value.get_mut(offset as usize) {
            *place = byte;
        }
    }
}
