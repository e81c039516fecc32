//! Packets in a row: the program once for each, with what maps keep between them.
//!
//! Arrays and variables whose values the program reads and writes in place are memory that begins
//! unknown and then holds what was written. Other maps may hold anything at every read. Each
//! packet has bytes and a size of its own, and nothing else is left of the one before.
//!
//! # Why the bound holds
//! The graph has every way that this many packets in a row can take, if one core handles them and
//! only this program changes those maps meanwhile. Any stretch of N packets takes at most the work
//! of ceil(N / n) rows of n.

use std::collections::HashMap;

use nicforge_isa::ebpf::Insn;
use nicforge_isa::ebpf::insn::width;
use nicforge_isa::ebpf::kinds::{Kind, SOME_MAP, kinds};
use nicforge_isa::object::{Map, Program};

use super::helpers::FILL;
use super::{
    CONTEXT, DEEPEST, EbpfError, FRAME, Front, PACKET, PACKET_BYTES, STACK, Tails, VALUES,
    VALUES_EACH, layout, leaves, of_maps, stride, word,
};
use crate::analysis::HEADROOM;
use crate::graph::{
    Block, BlockId, BranchCost, Contents, Cost, Effect, Expr, Graph, Next, Region, Step,
};
use crate::term::Op;

/// Distance between packets.
const PACKETS_EACH: u64 = 1 << 20;
/// Most packets in a row.
pub const MOST_PACKETS: u32 = 256;
/// Largest map that is followed, in bytes.
const MOST_KEPT: u64 = 1 << 24;

/// Address of byte 0 of a packet.
pub fn packet_at(index: u32) -> u64 {
    PACKET + PACKETS_EACH * u64::from(index)
}

/// Maps of which reads see what was written before. A program that a tail call leads to and that is
/// not known may write any of them.
pub fn kept(program: &Program, maps: &[Map], tails: &Tails) -> Vec<bool> {
    let leaves = leaves(program, maps, tails);
    let inner = maps.iter().any(of_maps);
    let of = |(index, map): (usize, &Map)| {
        let bytes = stride(map).saturating_mul(map.max_entries.max(1).into());
        match map.kind {
            _ if leaves => false,
            None => !map.constant && !updated(program, index),
            // Kinds 2 and 6: array, array per CPU. A helper that updates writes where this does
            // not look, and a map of maps may hold the array.
            Some(2 | 6) => {
                map.key_size == 4 && !inner && bytes <= MOST_KEPT && !updated(program, index)
            }
            _ => false,
        }
    };
    maps.iter().enumerate().map(of).collect()
}

/// An update of a map by a helper, or whether there may be one: it takes this map or one that is not
/// known, or bytes of its values.
fn updated(program: &Program, map: usize) -> bool {
    let states = kinds(&program.insns);
    program.insns.iter().zip(&states).any(|(insn, state)| {
        if (insn.code, insn.src) != (0x85, 0) {
            return false;
        }
        let kind = |register: u8| state.as_ref().map(|state| state.regs[usize::from(register)]);
        if insn.imm == 2 {
            return !matches!(kind(1), Some(Kind::Map(other)) if other as usize != map);
        }
        let fills = FILL.iter().find(|(helper, ..)| *helper == insn.imm);
        fills.is_some_and(|(_, pointer, _)| match kind(*pointer) {
            Some(Kind::Value(other)) => other == SOME_MAP || other as usize == map,
            Some(Kind::Stack(_) | Kind::Packet { .. }) => false,
            _ => true,
        })
    })
}

/// Translates a program as that many packets in a row, with those behind it that its tail calls
/// lead to. Every packet has the bytes `given`: offset, byte.
///
/// # Errors
/// The first instruction, helper or map that is not supported.
pub fn in_a_row(
    program: &Program,
    maps: &[Map],
    tails: &Tails,
    packets: u32,
    given: &[(u64, u8)],
) -> Result<Graph, EbpfError> {
    let mut front = Front::new(program, maps, tails, layout(program)?);
    front.kept = kept(program, maps, tails);
    front.keep(packets, given);
    front.graph.later = packets - 1;
    let mut begin = 0;
    front.graph.entry = front.run()?;
    for index in 1..packets {
        let exits = begin..front.graph.blocks.len();
        front.packet = packet_at(index);
        front.blocks = HashMap::new();
        begin = exits.end;
        let next = front.next_packet(index)?;
        for block in &mut front.graph.blocks[exits] {
            if block.next == Next::Exit {
                block.next = Next::Goto(next);
            }
        }
    }
    // The verifier counts for one packet.
    if let Some(walked) = &mut front.graph.walked {
        walked.most *= u64::from(packets);
    }
    Ok(front.graph)
}

impl Front<'_> {
    /// Makes room for packets, and memory of the maps that are kept. The rest of the context may be
    /// different for each packet.
    fn keep(&mut self, packets: u32, given: &[(u64, u8)]) {
        for region in &mut self.graph.regions {
            if region.base >= CONTEXT && region.base < STACK && region.contents == Contents::Table {
                region.contents = Contents::Shared;
            }
            let map = region.base.checked_sub(VALUES).map(|at| (at / VALUES_EACH) as usize);
            if map.is_some_and(|map| self.kept.get(map) == Some(&true)) {
                region.contents = Contents::Kept;
            }
        }
        let first = self.graph.regions.len() as u32;
        for index in 1..packets {
            let byte =
                |(offset, byte): &(u64, u8)| (first + index - 1, packet_at(index) + offset, *byte);
            self.graph.given.extend(given.iter().map(byte));
        }
        self.graph.regions.extend((1..packets).map(|index| Region {
            name: format!("packet {}", index + 1),
            base: packet_at(index) - HEADROOM,
            size: PACKET_BYTES,
            contents: Contents::Kept,
        }));
    }

    /// The program for one packet more.
    fn next_packet(&mut self, index: u32) -> Result<BlockId, EbpfError> {
        let begins = self.reserve();
        let base = packet_at(index);
        let store =
            |member: u64, value| Effect::Store { address: word(CONTEXT + member), bytes: 4, value };
        let end = Expr::concat(Expr::Const(16, base >> 16), Expr::Size(index));
        let effects = vec![
            store(self.layout.data, Expr::Const(32, base)),
            store(self.layout.data_meta, Expr::Const(32, base)),
            store(self.layout.data_end, end),
            self.set(1, word(CONTEXT)),
            self.set(10, word(STACK + FRAME * DEEPEST as u64)),
        ];
        let next = Next::Goto(self.run()?);
        self.graph.blocks[begins.0 as usize] = Block {
            steps: vec![Step { effects, cost: Cost::default(), place: 0 }],
            next,
            branch: BranchCost::default(),
            place: None,
        };
        Ok(begins)
    }

    /// An atomic operation on memory that nobody else changes.
    pub(super) fn exchange(&self, at: usize, insn: Insn) -> Result<Vec<Effect>, EbpfError> {
        let bytes = width(insn.code) as u8;
        let bits = 8 * bytes;
        let address = Expr::add(self.reg(insn.dst), word(insn.off as i64 as u64));
        let old = Expr::extract(Expr::Slot(self.temp), 0, bits);
        let given = Expr::extract(self.reg(insn.src), 0, bits);
        let with = |op| Expr::binary(op, old.clone(), given.clone());
        // The instruction set's numbers (RFC 9669, section 5.3).
        let value = match insn.imm & !1 {
            0x00 => with(Op::Add),
            0x40 => with(Op::Or),
            0x50 => with(Op::And),
            0xa0 => with(Op::Xor),
            0xe0 => given,
            0xf0 => {
                let expected = Expr::extract(self.reg(0), 0, bits);
                Expr::ite(Expr::binary(Op::Eq, old.clone(), expected), given, old.clone())
            }
            _ => return Err(self.error(at, "an atomic operation that is not known")),
        };
        let gives = match insn.imm {
            0xf0 | 0xf1 => Some(0),
            imm => (imm & 1 != 0).then_some(insn.src),
        };
        let load = Effect::Load { slot: self.temp, address: address.clone(), bytes };
        let mut effects = vec![load, Effect::Store { address, bytes, value }];
        effects.extend(gives.map(|register| self.set(register, Expr::zext(old, 64))));
        Ok(effects)
    }
}
