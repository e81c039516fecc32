//! The memories of a NIC, and how addresses find them.
//!
//! Images are all linked to the same addresses. What an image has for itself (program, handler
//! memory, the runtime's part of every cluster's memory) is therefore a [`Space`] of its own, and
//! an address means what it means in the space of who uses it. Packets and scratchpads are there
//! once.

use std::ops::{Deref, DerefMut, Range};

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
    #[error(
        "this engine runs one image at a time, and there is one; run several with the instruction set simulator (--engine iss)"
    )]
    One,
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

/// Memories that an engine brings, because its handlers reach them at the NIC's addresses without
/// asking.
#[derive(Debug)]
pub struct Backing {
    /// By cluster; longer than the machine says, with stacks behind the rest.
    pub l1: Vec<&'static mut [u8]>,
    pub handler: &'static mut [u8],
    pub packets: &'static mut [u8],
    pub stacks: Stacks,
}

/// Where stacks lie in a cluster's memory; offsets and sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stacks {
    pub first: u32,
    /// From one to the next; between them may be guards.
    pub stride: u32,
    pub bytes: u32,
}

impl Stacks {
    /// As images are linked.
    pub const HARDWARE: Stacks = Stacks { first: 0, stride: map::STACK, bytes: map::STACK };

    /// A core's.
    pub fn of(&self, core: usize) -> Range<u32> {
        let start = self.first + core as u32 * self.stride;
        start..start + self.bytes
    }

    /// True if bytes lie in one of them.
    pub(crate) fn hold(&self, at: u32, size: u32) -> bool {
        const CORES: u32 = 32;
        let Some(offset) = at.checked_sub(self.first) else { return false };
        offset / self.stride < CORES
            && u64::from(offset % self.stride) + u64::from(size) <= self.bytes.into()
    }
}

/// A memory's bytes: the NIC's own, or brought by an engine.
#[derive(Debug)]
pub(crate) enum Bytes {
    Own(Vec<u8>),
    Given(&'static mut [u8]),
}

impl Bytes {
    fn zeros(size: u32) -> Bytes {
        Bytes::Own(vec![0; size as usize])
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Own(bytes) => bytes,
            Bytes::Given(bytes) => bytes,
        }
    }
}

impl DerefMut for Bytes {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Bytes::Own(bytes) => bytes,
            Bytes::Given(bytes) => bytes,
        }
    }
}

/// State of one image.
#[derive(Debug)]
pub(crate) struct Space {
    pub entry: u32,
    program: Vec<u8>,
    handler: Bytes,
    /// The runtime's part, by cluster.
    runtime: Vec<Vec<u8>>,
    /// Offsets in handler memory that handlers only read.
    pub constants: Vec<Range<u32>>,
    /// End of what the image loads into handler memory before the part shared with the host, and in
    /// that part.
    pub image_end: u32,
    pub shared_start: u32,
    pub shared_end: u32,
    /// What it has in clusters, without stacks.
    pub cluster_data: Vec<Range<u32>>,
}

impl Space {
    /// Loads an image. `all` loads initialised data too, which FPsPIN's loader forgets.
    pub fn new(
        machine: &Machine,
        image: &Image,
        all: bool,
        handler: Bytes,
    ) -> Result<Space, ImageError> {
        if image.segments.is_empty() {
            return Err(ImageError::NotLinked);
        }
        let mut space = Space {
            entry: image.entry,
            program: vec![0; machine.program_bytes as usize],
            handler,
            runtime: vec![vec![0; map::L1_PACKETS as usize]; machine.clusters],
            constants: Vec::new(),
            image_end: 0,
            shared_start: machine.handler_data,
            shared_end: machine.handler_data,
            cluster_data: Vec::new(),
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
                for runtime in &mut space.runtime {
                    put(runtime, at, &segment.bytes);
                }
            } else {
                return Err(fail);
            }
        }
        for section in image.sections.iter().filter(|section| !section.name.starts_with(".stack")) {
            let at =
                section.address.checked_sub(map::L1_ALIAS).or(section.address.checked_sub(map::L1));
            if let Some(at) = at.filter(|at| *at < map::L1_PACKETS) {
                space.cluster_data.push(at..at.saturating_add(section.size).min(map::L1_PACKETS));
            }
        }
        // Sections say more than segments, which hold constants and data together; an image may
        // have none.
        let pieces: Vec<(u32, u32, bool)> = match image.sections.is_empty() {
            false => image
                .sections
                .iter()
                .map(|piece| (piece.address, piece.size, piece.writable))
                .collect(),
            true => image
                .segments
                .iter()
                .map(|piece| (piece.address, piece.size, piece.writable))
                .collect(),
        };
        for (address, size, writable) in pieces {
            let Some(at) = address.checked_sub(map::L2).filter(|at| *at < machine.handler_data)
            else {
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
#[derive(Debug)]
pub(crate) struct Memories {
    pub spaces: Vec<Space>,
    l1: Vec<Bytes>,
    packets: Bytes,
    /// For the one image that there is where memories were brought; then taken.
    handler: Option<Bytes>,
    brought: bool,
    /// Of handlers, where they lie behind the rest of clusters' memories.
    pub stacks: Option<Stacks>,
    l1_bytes: u32,
    l2_bytes: u32,
    packet_bytes: u32,
    program_bytes: u32,
}

impl Memories {
    pub fn new(machine: &Machine, backing: Option<Backing>) -> Memories {
        let stacks = backing.as_ref().map(|backing| backing.stacks);
        let brought = stacks.is_some();
        let (l1, packets, handler): (Vec<Bytes>, Bytes, Option<Bytes>) = match backing {
            Some(Backing { l1, handler, packets, .. }) => {
                let l1 = l1.into_iter().map(Bytes::Given).collect();
                (l1, Bytes::Given(packets), Some(Bytes::Given(handler)))
            }
            None => {
                let l1 = (0..machine.clusters).map(|_| Bytes::zeros(machine.l1_bytes)).collect();
                (l1, Bytes::zeros(machine.packet_bytes), None)
            }
        };
        Memories {
            spaces: Vec::new(),
            l1_bytes: machine.l1_bytes,
            l1,
            stacks,
            packets,
            handler,
            brought,
            l2_bytes: machine.l2_bytes,
            packet_bytes: machine.packet_bytes,
            program_bytes: machine.program_bytes,
        }
    }

    /// Handler memory for another image.
    ///
    /// # Errors
    /// The engine's memory has an image.
    pub fn handler(&mut self) -> Result<Bytes, ImageError> {
        match (self.brought, self.handler.take()) {
            (_, Some(bytes)) => Ok(bytes),
            (true, None) => Err(ImageError::One),
            (false, None) => Ok(Bytes::zeros(self.l2_bytes)),
        }
    }

    /// Where `size` bytes at an address lie, seen from a cluster; `None` if nothing holds them in
    /// one piece.
    #[inline]
    pub fn place(&self, cluster: usize, address: u32, size: u32) -> Option<Place> {
        let fits = |at: u32, bytes: u32| at.checked_add(size).is_some_and(|end| end <= bytes);
        let l1 = |cluster: usize, at: u32| {
            let one_piece = at >= map::L1_PACKETS || fits(at, map::L1_PACKETS);
            let fits =
                fits(at, self.l1_bytes) || self.stacks.is_some_and(|stacks| stacks.hold(at, size));
            (fits && one_piece).then_some(Place::L1 { cluster, at })
        };
        match address >> 24 {
            0x10 | 0x11 => {
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

    /// The bytes at a place, as a space sees it; empty where [`Memories::place`] would have given
    /// none.
    #[inline]
    pub fn bytes(&self, space: usize, place: Place, size: u32) -> &[u8] {
        let (memory, at): (&[u8], u32) = match place {
            Place::L1 { cluster, at } if at < map::L1_PACKETS => {
                (&self.spaces[space].runtime[cluster], at)
            }
            Place::L1 { cluster, at } => (&self.l1[cluster], at),
            Place::Handler { at } => (&self.spaces[space].handler, at),
            Place::Packet { at } => (&self.packets, at),
            Place::Program { at } => (&self.spaces[space].program, at),
        };
        memory.get(at as usize..at as usize + size as usize).unwrap_or_default()
    }

    /// Bytes of a place, to be changed.
    #[inline]
    pub fn bytes_mut(&mut self, space: usize, place: Place, size: u32) -> &mut [u8] {
        let (memory, at): (&mut [u8], u32) = match place {
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
        // What every packet takes needs no memory between.
        if let (Place::Packet { at: start }, Place::L1 { cluster, at }) = (from, to)
            && at >= map::L1_PACKETS
            && let Some(from) = self.packets.get(start as usize..start as usize + size as usize)
            && let Some(to) = self.l1[cluster].get_mut(at as usize..at as usize + size as usize)
        {
            return to.copy_from_slice(from);
        }
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
