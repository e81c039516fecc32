//! A machine that programs run on: packets, maps and helpers, and a count of what is executed.
//!
//! It does for packets what the kernel does where nothing is behind the hook: maps of devices, CPUs
//! and sockets are empty, program arrays too. Units of a helper's work are bytes: of the key for
//! lookups and deletions, of key and value for updates, of what is copied or summed for others.
//! For tries they are levels of a balanced tree of as many entries.

mod helpers;
mod maps;
#[cfg(test)]
mod tests;

use super::context::{Layout, XDP};
use super::insn::class;
use super::tally::Tally;
use super::{Fault, Host, Insn, Machine, Memory, Pipeline, Processor};
use crate::object::{self, Map, PSEUDO_MAP, PSEUDO_VALUE};
use maps::Contents;
use nicforge_util::Random;

/// Room in front of a packet, and behind it, as the kernel's test run has it.
const HEADROOM: u64 = 256;
const TAILROOM: u64 = 320;
/// Offset of `ingress_ifindex` in `struct xdp_md`, and the interface that test runs have there.
const INTERFACE: u64 = 12;
const LOOPBACK: u64 = 1;
/// Instructions of one run at most, so that a count ends.
const LIMIT: u64 = 10_000_000;

/// Maps, and what was executed on them.
pub struct World<'a> {
    program: &'a object::Program,
    memory: Memory,
    core: Core<'a>,
}

/// The surroundings of one run.
struct Core<'a> {
    maps: &'a [Map],
    contents: Vec<Contents>,
    insns: &'a [Insn],
    layout: Layout,
    tally: Tally,
    pipeline: Pipeline,
    /// Regions from here on are packet and stack.
    near: u64,
    /// An instruction that will access memory.
    waiting: Option<Insn>,
    /// Where the packet's memory begins, and addresses of the packet in it.
    room: u64,
    data: u64,
    end: u64,
    meta: u64,
    time_ns: u64,
    random: Random,
}

impl<'a> World<'a> {
    /// A program of an object, with its maps as the object has them.
    ///
    /// # Errors
    /// It gets no packets.
    pub fn new(
        program: &'a object::Program,
        maps: &'a [Map],
        processor: Processor,
    ) -> Result<World<'a>, String> {
        let layout = Layout::of(&program.section)?;
        let mut memory = Memory::default();
        let contents = maps.iter().map(|map| Contents::new(map, &mut memory)).collect();
        let core = Core {
            maps,
            contents,
            insns: &program.insns,
            layout,
            tally: Tally::default(),
            pipeline: Pipeline::new(processor),
            near: 0,
            waiting: None,
            room: 0,
            data: 0,
            end: 0,
            meta: 0,
            time_ns: 0,
            random: Random::new(0),
        };
        Ok(World { program, memory, core })
    }

    /// Puts an entry into a map; variables have the one key 0.
    ///
    /// # Errors
    /// There is no such map, or it does not take the entry.
    pub fn install(&mut self, map: &str, key: &[u8], value: &[u8]) -> Result<(), String> {
        let at = self.core.maps.iter().position(|one| one.name == map);
        let at = at.ok_or_else(|| format!("there is no map `{map}`"))?;
        let shape = &self.core.maps[at];
        self.core.contents[at]
            .update(shape, &mut self.memory, key, value)
            .ok_or_else(|| format!("map `{map}` does not take an entry"))
    }

    /// Runs the program on a packet that came at a time; its verdict.
    ///
    /// # Errors
    /// It does what this world does not have.
    pub fn run(&mut self, frame: &[u8], time_ns: u64) -> Result<u64, Fault> {
        let mut room = vec![0; (HEADROOM + TAILROOM) as usize + frame.len()];
        room[HEADROOM as usize..][..frame.len()].copy_from_slice(frame);
        let core = &mut self.core;
        core.room = self.memory.add(room).address();
        core.data = core.room + HEADROOM;
        (core.meta, core.end) = (core.data, core.data + frame.len() as u64);
        core.time_ns = time_ns;
        let first = core.data >> 6;
        core.pipeline.begin(first..first + (frame.len() as u64).div_ceil(64));
        core.near = core.room >> 32;
        let machine = Machine { program: &self.program.insns, limit: LIMIT };
        machine.run(&mut self.memory, core).map(|run| run.result)
    }

    /// The packet as the last run left it.
    pub fn packet(&self) -> &[u8] {
        let (data, end) = (self.core.data, self.core.end);
        self.memory.read(data, (end - data) as usize).unwrap_or_default()
    }

    /// What was executed since the last time; begins anew.
    pub fn take(&mut self) -> Tally {
        self.core.tally.cycles = self.core.pipeline.take();
        std::mem::take(&mut self.core.tally)
    }
}

impl Host for Core<'_> {
    fn address(&mut self, _: &mut Memory, src: u8, imm: i32, next: i32) -> Result<u64, Fault> {
        let map = imm as usize;
        match (src, self.contents.get(map)) {
            (PSEUDO_MAP, Some(_)) => Ok(map as u64),
            (PSEUDO_VALUE, Some(Contents::Variables(region))) => {
                Ok(region.address() + u64::from(next as u32))
            }
            _ => Err(missing(0, "an address of the kernel")),
        }
    }

    fn context(&mut self, _: &mut Memory, offset: u64, _: usize) -> Result<u64, Fault> {
        let Layout { data, data_end, data_meta, .. } = self.layout;
        Ok(match offset {
            at if at == data => self.data,
            at if at == data_end => self.end,
            at if at == data_meta => self.meta,
            INTERFACE if self.layout == XDP => LOOPBACK,
            _ => 0,
        })
    }

    fn context_store(&mut self, _: u64, _: usize, _: u64) -> Result<(), Fault> {
        Ok(())
    }

    fn call(&mut self, memory: &mut Memory, helper: i32, args: [u64; 5]) -> Result<u64, Fault> {
        self.helper(memory, helper, args)
    }

    fn at(&mut self, pc: usize) {
        let insn = self.insns[pc];
        match insn.code & 7 {
            class::LDX | class::ST | class::STX => self.waiting = Some(insn),
            // Calls of helpers: see there.
            class::JMP if insn.code == 0x85 && insn.src == 0 => {}
            _ => self.pipeline.step(insn, None, true),
        }
    }

    fn access(&mut self, address: u64) {
        if let Some(insn) = self.waiting.take() {
            self.pipeline.step(insn, Some(address), address >> 32 >= self.near);
        }
    }

    fn branch(&mut self, place: usize, taken: bool) {
        self.pipeline.jump(place, taken);
    }
}

fn missing(helper: i32, what: &str) -> Fault {
    Fault::Helper { helper, message: format!("{what} is not in this world") }
}
