//! The memories of a NIC, and how addresses find them.
//!
//! Images are all linked to the same addresses. What an image has for itself (program, handler memory, the runtime's part of every
//! cluster's memory) is therefore a [`Space`] of its own, and an address means what it means in the space of who uses it. Packets and
//! scratchpads are there once.

use std::ops::Range;

use nicforge_isa::object::riscv::Image;

use crate::machine::{Machine, map};

/// Why an image cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    #[error(
        "the image wants {bytes} bytes at {address:#010x}, where the NIC has no memory for it: link program at {:#010x}, data at {:#010x}, \
         data of clusters at {:#010x}",
        map::PROGRAM,
        map::L2,
        map::L1_ALIAS
    )]
    NoMemory { address: u32, bytes: u32 },
    #[error("the image has no segments to load: link it, objects alone do not run")]
    NotLinked,
    #[error("the image's entry {0:#010x} is not in program memory")]
    Entry(u32),
}

/// A piece of memory that an address leads to; offsets are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    L1 { cluster: usize, at: u32 },
    Handler { at: u32 },
    Packet { at: u32 },
    Program { at: u32 },
}

/// What one image has for itself.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    pub entry: u32,
    program: Vec<u8>,
    handler: Vec<u8>,
    /// The runtime's part, by cluster.
    runtime: Vec<Vec<u8>>,
    /// Offsets in handler memory that handlers only read.
    pub constants: Vec<Range<u32>>,
    /// End of what the image loads into handler memory before the part shared with the host, and in that part.
    pub image_end: u32,
    pub shared_end: u32,
    /// End of what it has in clusters.
    pub runtime_end: u32,
}

impl Space {
    /// Loads an image. `all` loads initialised data too, which FPsPIN's loader forgets.
    pub fn new(machine: &Machine, image: &Image, all: bool) -> Result<Space, ImageError> {
        if image.segments.is_empty() {
            return Err(ImageError::NotLinked);
        }
        let mut space = Space {
            entry: image.entry,
            program: vec![0; machine.program_bytes as usize],
            handler: vec![0; machine.l2_bytes as usize],
            runtime: vec![vec![0; map::L1_PACKETS as usize]; machine.clusters],
            constants: Vec::new(),
            image_end: 0,
            shared_end: machine.handler_data,
            runtime_end: 0,
        };
        for segment in image.segments.iter().filter(|segment| segment.size > 0) {
            let fail = ImageError::NoMemory { address: segment.address, bytes: segment.size };
            let room = |base: u32, bytes: u32| {
                let at = segment.address.checked_sub(base)?;
                (at.checked_add(segment.size)? <= bytes).then_some(at)
            };
            if let Some(at) = room(map::PROGRAM, machine.program_bytes) {
                put(&mut space.program, at, &segment.bytes);
            } else if let Some(at) = room(map::L2, machine.l2_bytes) {
                let end = at + segment.size;
                put(&mut space.handler, at, &segment.bytes);
                if at >= machine.handler_data {
                    space.shared_end = space.shared_end.max(end);
                } else {
                    space.image_end = space.image_end.max(end);
                }
            } else if let Some(at) =
                room(map::L1_ALIAS, map::L1_PACKETS).or_else(|| room(map::L1, map::L1_PACKETS))
            {
                space.runtime_end = space.runtime_end.max(at + segment.size);
                for runtime in &mut space.runtime {
                    put(runtime, at, &segment.bytes);
                }
            } else {
                return Err(fail);
            }
        }
        // Sections say more than segments, which hold constants and data together; an image may have none.
        let pieces: Vec<(u32, u32, bool)> = match image.sections.is_empty() {
            false => image.sections.iter().map(|piece| (piece.address, piece.size, piece.writable)).collect(),
            true => image.segments.iter().map(|piece| (piece.address, piece.size, piece.writable)).collect(),
        };
        for (address, size, writable) in pieces {
            let Some(at) = address.checked_sub(map::L2).filter(|at| *at < machine.handler_data) else {
                continue;
            };
            let range = at..at.saturating_add(size).min(machine.l2_bytes);
            if !writable {
                space.constants.push(range);
            } else if !all {
                space.handler[range.start as usize..range.end as usize].fill(0);
            }
        }
        let entry = image.entry.checked_sub(map::PROGRAM).filter(|at| *at < machine.program_bytes);
        if entry.is_none() {
            return Err(ImageError::Entry(image.entry));
        }
        Ok(space)
    }

    /// All of program memory.
    pub fn program(&self) -> &[u8] {
        &self.program
    }
}

fn put(memory: &mut [u8], at: u32, bytes: &[u8]) {
    let at = at as usize;
    if let Some(place) = memory.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// All memories.
#[derive(Clone, Debug)]
pub(crate) struct Memories {
    pub spaces: Vec<Space>,
    l1: Vec<Vec<u8>>,
    packets: Vec<u8>,
    l1_bytes: u32,
    l2_bytes: u32,
    packet_bytes: u32,
    program_bytes: u32,
}

impl Memories {
    pub fn new(machine: &Machine) -> Memories {
        Memories {
            spaces: Vec::new(),
            l1: vec![vec![0; machine.l1_bytes as usize]; machine.clusters],
            packets: vec![0; machine.packet_bytes as usize],
            l1_bytes: machine.l1_bytes,
            l2_bytes: machine.l2_bytes,
            packet_bytes: machine.packet_bytes,
            program_bytes: machine.program_bytes,
        }
    }

    /// Where `size` bytes at an address lie, seen from a cluster; `None` if nothing holds them in one piece.
    #[inline]
    pub fn place(&self, cluster: usize, address: u32, size: u32) -> Option<Place> {
        let fits = |at: u32, bytes: u32| at.checked_add(size).is_some_and(|end| end <= bytes);
        let l1 = |cluster: usize, at: u32| {
            let one_piece = at >= map::L1_PACKETS || fits(at, map::L1_PACKETS);
            (fits(at, self.l1_bytes) && one_piece).then_some(Place::L1 { cluster, at })
        };
        match address >> 24 {
            0x10 => {
                let offset = address - map::L1;
                let owner = (offset / map::L1_STRIDE) as usize;
                if owner < self.l1.len() { l1(owner, offset % map::L1_STRIDE) } else { None }
            }
            0x1b => l1(cluster, address - map::L1_ALIAS),
            0x1c => {
                let at = address - map::L2;
                if fits(at, self.l2_bytes) {
                    return Some(Place::Handler { at });
                }
                let at = at.checked_sub(self.l2_bytes)?;
                fits(at, self.packet_bytes).then_some(Place::Packet { at })
            }
            0x1d => {
                let at = address - map::PROGRAM;
                fits(at, self.program_bytes).then_some(Place::Program { at })
            }
            _ => None,
        }
    }

    /// The bytes at a place, as a space sees it; empty where [`Memories::place`] would have given none.
    #[inline]
    pub fn bytes(&self, space: usize, place: Place, size: u32) -> &[u8] {
        let (memory, at) = match place {
            Place::L1 { cluster, at } if at < map::L1_PACKETS => (&self.spaces[space].runtime[cluster], at),
            Place::L1 { cluster, at } => (&self.l1[cluster], at),
            Place::Handler { at } => (&self.spaces[space].handler, at),
            Place::Packet { at } => (&self.packets, at),
            Place::Program { at } => (&self.spaces[space].program, at),
        };
        memory.get(at as usize..at as usize + size as usize).unwrap_or_default()
    }

    /// The same, to be changed.
    #[inline]
    pub fn bytes_mut(&mut self, space: usize, place: Place, size: u32) -> &mut [u8] {
        let (memory, at) = match place {
            Place::L1 { cluster, at } if at < map::L1_PACKETS => {
                (&mut self.spaces[space].runtime[cluster], at)
            }
            Place::L1 { cluster, at } => (&mut self.l1[cluster], at),
            Place::Handler { at } => (&mut self.spaces[space].handler, at),
            Place::Packet { at } => (&mut self.packets, at),
            Place::Program { at } => (&mut self.spaces[space].program, at),
        };
        memory.get_mut(at as usize..at as usize + size as usize).unwrap_or_default()
    }

    /// Copies within the NIC.
    pub fn copy(&mut self, space: usize, from: Place, to: Place, size: u32) {
        let bytes = self.bytes(space, from, size).to_vec();
        self.write(space, to, &bytes);
    }

    /// Writes bytes at a place.
    pub fn write(&mut self, space: usize, to: Place, bytes: &[u8]) {
        let target = self.bytes_mut(space, to, bytes.len() as u32);
        if target.len() == bytes.len() {
            target.copy_from_slice(bytes);
        }
    }
}
