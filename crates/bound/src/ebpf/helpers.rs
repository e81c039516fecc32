//! Calls of helpers: what comes back, and what they do to the packet and to memory.
//!
//! Whether a helper succeeds is read from outside, so that a witness says it, but within what the
//! kernel checks first. Where the packet is after `bpf_xdp_adjust_*` is known; after helpers that
//! change a socket buffer's data, nothing is: the packet is then somewhere else and each byte of it
//! is unknown.

use nicforge_isa::ebpf::helper_name;
use nicforge_isa::ebpf::insn::class;
use nicforge_isa::ebpf::kinds::{self, Kind};
use nicforge_isa::ebpf::{Insn, LDDW};
use nicforge_isa::object::PSEUDO_MAP;

use super::{
    CHANGED, CONTEXT, Chain, EbpfError, Front, INDEX_BITS, OUTSIDE, OUTSIDE_EACH, RESERVED,
    RESERVED_EACH, VALUES, VALUES_EACH, of_maps, stride, word,
};
use crate::analysis::HEADROOM;
use crate::graph::{Block, BlockId, BranchCost, Cost, Effect, Expr, Next, Slot, Step};
use crate::term::Op;

/// Helpers whose only effect on the program is their result.
const PLAIN: [i32; 47] = [
    2, 3, 5, 6, 7, 8, 14, 15, 16, 17, 21, 23, 24, 25, 28, 32, 33, 34, 35, 40, 41, 42, 46, 47, 48,
    51, 79, 80, 83, 87, 93, 94, 100, 110, 118, 125, 130, 132, 133, 135, 152, 155, 160, 177, 188,
    201, 208,
];
/// Helpers that change what a socket buffer holds, or move it.
pub const CHANGE: [i32; 11] = [9, 10, 11, 13, 18, 19, 31, 38, 43, 50, 190];
/// Helpers that write to memory: the argument that points there, and the one that says how much.
pub const FILL: [(i32, u8, u8); 5] = [(20, 2, 3), (26, 3, 4), (68, 3, 4), (69, 2, 3), (189, 3, 4)];
/// Most bytes that such a helper writes here.
const MOST_FILLED: u64 = 256;

/// Bytes in front of the packet that a program may get, as in the kernel.
pub const HEAD: u64 = 256;
/// Bytes that a packet keeps, an Ethernet header.
pub const LEAST: u64 = 14;
/// Most bytes of metadata.
pub const META: u64 = 255;
/// Packets end before this offset, however they grow.
pub const END: u64 = 0x10000;

/// What a helper returns if it fails: `-EINVAL`.
pub const FAILED: u64 = -22i64 as u64;

/// Where a helper's call stands, and what follows it.
struct Call {
    at: usize,
    after: BlockId,
    /// Address of what comes from outside.
    outside: u64,
    /// In a function that the program calls.
    deep: bool,
}

fn at_most(a: Expr, b: Expr) -> Expr {
    Expr::not(Expr::binary(Op::Ult, b, a))
}

fn both(a: Expr, b: Expr) -> Expr {
    Expr::binary(Op::And, a, b)
}

impl Front<'_> {
    /// A helper call ends its block: many branch.
    pub(super) fn call(
        &mut self,
        at: usize,
        insn: Insn,
        chain: &Chain,
        mut steps: Vec<Step>,
    ) -> Result<Block, EbpfError> {
        if insn.src != 0 {
            return Err(self.error(at, "kernel functions are not supported"));
        }
        let after = self.block(at + 1, chain.clone());
        let outside = OUTSIDE + OUTSIDE_EACH * at as u64;
        let call = Call { at, after, outside, deep: !chain.is_empty() };
        let (effects, next) = match insn.imm {
            helper if self.open && !(helper == 12 && self.known_array(at)) => {
                let slots = std::array::from_fn(|n| self.regs[n]);
                (vec![Effect::Call { helper, slots }], Next::Goto(after))
            }
            1 => self.lookup(&call)?,
            12 => self.tail_call(&call)?,
            44 | 54 | 65 => self.adjust(&call, insn.imm)?,
            131 => self.reserve_record(&call),
            helper if PLAIN.contains(&helper) => (vec![self.result(&call)], Next::Goto(after)),
            // The packet is taken to be in one piece anyway.
            39 => (vec![self.result(&call)], Next::Goto(after)),
            helper if CHANGE.contains(&helper) => (self.change(&call), Next::Goto(after)),
            helper => match FILL.iter().find(|(number, ..)| *number == helper) {
                Some((_, pointer, length)) => {
                    (self.fill(&call, *pointer, *length), Next::Goto(after))
                }
                None => {
                    let reason = format!("helper {} is not supported", helper_name(helper));
                    return Err(self.error(at, reason));
                }
            },
        };
        let place = at as u32;
        steps.push(Step { effects, cost: Cost::cycles(1), place });
        let branches = matches!(next, Next::Branch { .. });
        let place = branches.then_some(place);
        Ok(Block { steps, next, branch: BranchCost::default(), place })
    }

    /// `r0` from outside.
    fn result(&self, call: &Call) -> Effect {
        Effect::Load { slot: self.regs[0], address: word(call.outside), bytes: 8 }
    }

    /// A bit from outside: whether the helper succeeds.
    fn asked(&self, call: &Call) -> (Effect, Expr) {
        let load = Effect::Load { slot: self.temp, address: word(call.outside), bytes: 4 };
        (load, Expr::extract(Expr::Slot(self.temp), 31, 1))
    }

    /// Goes on behind the call with the effects of one of two outcomes.
    fn fork(&mut self, call: &Call, cond: Expr, ways: [Vec<Effect>; 2]) -> Next {
        let [taken, fall] = ways.map(|effects| {
            let id = self.reserve();
            self.graph.blocks[id.0 as usize] = Block {
                steps: vec![Step { effects, cost: Cost::default(), place: call.at as u32 }],
                next: Next::Goto(call.after),
                branch: BranchCost::default(),
                place: None,
            };
            id
        });
        Next::Branch { cond, taken, fall }
    }

    fn lookup(&mut self, call: &Call) -> Result<(Vec<Effect>, Next), EbpfError> {
        let map = self.map_of_call(call.at, 1)?;
        let shape = &self.maps[map];
        let base = VALUES + map as u64 * VALUES_EACH;
        // Kinds 2 and 6: array, array per CPU.
        let array = matches!(shape.kind, Some(2 | 6)) && shape.key_size == 4;
        let address = if array { self.reg(2) } else { word(call.outside) };
        let load = Effect::Load { slot: self.temp, address, bytes: 4 };
        let key = Expr::extract(Expr::Slot(self.temp), 0, 32);
        let cond = if array {
            Expr::binary(Op::Ult, key.clone(), Expr::Const(32, shape.max_entries.into()))
        } else {
            Expr::extract(key.clone(), 31, 1)
        };
        let index = Expr::zext(Expr::extract(key, 0, INDEX_BITS), 64);
        let address = Expr::add(Expr::binary(Op::Mul, index, word(stride(shape))), word(base));
        let ways = [vec![self.set(0, address)], vec![self.set(0, word(0))]];
        Ok((vec![load], self.fork(call, cond, ways)))
    }

    /// The map a call names in a register, from the last `lddw` of it before it in straight line or by
    /// analysis. What a lookup in a map of maps gives is looked into as that map.
    fn map_of_call(&self, at: usize, reg: u8) -> Result<usize, EbpfError> {
        let holds_maps = |map: u32| self.maps.get(map as usize).is_some_and(of_maps);
        let mut found = match self.kind(at, reg) {
            Some(Kind::Map(map)) => Some(map as usize),
            Some(Kind::Value(map)) if holds_maps(map) => Some(map as usize),
            _ => None,
        };
        if found.is_none() {
            // A called function is not seen by that analysis: look back along the line.
            found = self.program.insns[..at].iter().rev().take(64).find_map(|insn| {
                (insn.code == LDDW && insn.dst == reg && insn.src == PSEUDO_MAP)
                    .then_some(insn.imm as usize)
            });
        }
        found
            .filter(|map| *map < self.maps.len())
            .ok_or_else(|| self.error(at, "a map that is not known here"))
    }

    /// Tells of a tail call whether the programs of its array are known.
    fn known_array(&self, at: usize) -> bool {
        self.map_of_call(at, 2).is_ok_and(|map| self.tails.contains_key(&map))
    }

    /// To the program in the slot asked for; slots without one make the call fail. Where nothing
    /// is known of the array, a call that succeeds ends the path: what is called has a bound of its
    /// own.
    fn tail_call(&mut self, call: &Call) -> Result<(Vec<Effect>, Next), EbpfError> {
        let failed = self.set(0, word(FAILED));
        if !self.tails.is_empty()
            && let Some(slots) = self.tails.get(&self.map_of_call(call.at, 2)?)
        {
            if call.deep {
                return Err(self.error(call.at, "a tail call in a function"));
            }
            let index = Expr::extract(self.reg(3), 0, 32);
            let place = call.at as u32;
            let step = |effects| vec![Step { effects, cost: Cost::default(), place }];
            let mut next = Next::Goto(self.reserve());
            if let Next::Goto(fails) = next {
                let block = &mut self.graph.blocks[fails.0 as usize];
                (block.steps, block.next) = (step(vec![failed]), Next::Goto(call.after));
            }
            for (slot, entry) in slots.iter().rev() {
                let fall = match next {
                    Next::Goto(block) => block,
                    next => {
                        let asks = self.reserve();
                        let block = &mut self.graph.blocks[asks.0 as usize];
                        (block.next, block.place) = (next, Some(place));
                        asks
                    }
                };
                let taken = self.reserve();
                let begins = Next::Goto(self.block(*entry, Vec::new()));
                let effects = vec![self.set(1, word(CONTEXT))];
                let block = &mut self.graph.blocks[taken.0 as usize];
                (block.steps, block.next) = (step(effects), begins);
                let cond = Expr::binary(Op::Eq, index.clone(), Expr::Const(32, (*slot).into()));
                next = Next::Branch { cond, taken, fall };
            }
            return Ok((Vec::new(), next));
        }
        let (load, cond) = self.asked(call);
        let next = match self.fork(call, cond, [Vec::new(), vec![failed]]) {
            Next::Branch { cond, taken, fall } => {
                self.graph.blocks[taken.0 as usize].next = Next::Exit;
                Next::Branch { cond, taken, fall }
            }
            next => next,
        };
        Ok((vec![load], next))
    }

    /// Moves the packet's head, its metadata's or its end.
    fn adjust(&mut self, call: &Call, helper: i32) -> Result<(Vec<Effect>, Next), EbpfError> {
        let calls = |helper| {
            self.program
                .insns
                .iter()
                .any(|insn| (insn.code, insn.src, insn.imm) == (0x85, 0, helper))
        };
        if helper == 44 && calls(54) {
            let reason = "bpf_xdp_adjust_head also moves metadata, which is not followed here";
            return Err(self.error(call.at, reason));
        }
        let layout = self.layout;
        let [data, end] = [layout.data, layout.data_end];
        let moving = match helper {
            44 => data,
            54 => layout.data_meta,
            _ => end,
        };
        let load = |slot: Slot, member: u64| Effect::Load {
            slot,
            address: word(CONTEXT + member),
            bytes: 4,
        };
        let by = Expr::extract(self.reg(2), 0, 32);
        let fixed = |value: u64| Expr::Const(32, value);
        let [moved, other] = self.moved;
        let (ask, success) = self.asked(call);
        let (new, other_end) = (Expr::Slot(moved), Expr::Slot(other));
        // Everything lies in the lower half of the address space, so 32 bits are enough.
        let inside = both(
            at_most(fixed(self.packet - HEADROOM), new.clone()),
            Expr::binary(Op::Ult, new.clone(), fixed(self.packet + END)),
        );
        let within = match helper {
            44 => both(
                at_most(Expr::add(new.clone(), fixed(LEAST)), other_end),
                at_most(fixed(self.packet - HEAD), new.clone()),
            ),
            54 => both(
                at_most(new.clone(), other_end.clone()),
                at_most(other_end, Expr::add(new.clone(), fixed(META))),
            ),
            _ => at_most(Expr::add(other_end, fixed(LEAST)), new.clone()),
        };
        let effects = vec![
            load(moved, moving),
            Effect::Set(moved, Expr::add(Expr::Slot(moved), by)),
            load(other, if helper == 44 { end } else { data }),
            ask,
        ];
        let store = |member: u64| Effect::Store {
            address: word(CONTEXT + member),
            bytes: 4,
            value: new.clone(),
        };
        let mut done = vec![store(moving), self.set(0, word(0))];
        if helper == 44 {
            done.push(store(layout.data_meta));
        }
        let ways = [done, vec![self.set(0, word(FAILED))]];
        Ok((effects, self.fork(call, both(success, both(within, inside)), ways)))
    }

    /// A record of a ring buffer, or null.
    fn reserve_record(&mut self, call: &Call) -> (Vec<Effect>, Next) {
        let (load, cond) = self.asked(call);
        let record = word(RESERVED + RESERVED_EACH * call.at as u64);
        let ways = [vec![self.set(0, record)], vec![self.set(0, word(0))]];
        (vec![load], self.fork(call, cond, ways))
    }

    /// Nothing is known of the packet any more, not even its length.
    fn change(&self, call: &Call) -> Vec<Effect> {
        let store =
            |member: u64, value| Effect::Store { address: word(CONTEXT + member), bytes: 4, value };
        let length = Expr::extract(Expr::Slot(self.temp), 0, 16);
        let begin = Expr::Const(32, CHANGED);
        vec![
            self.result(call),
            Effect::Load { slot: self.temp, address: word(call.outside + 8), bytes: 2 },
            store(self.layout.data, begin.clone()),
            store(self.layout.data_meta, begin),
            store(self.layout.data_end, Expr::concat(Expr::Const(16, CHANGED >> 16), length)),
        ]
    }

    /// The kind of value that a register holds at an instruction, by analysis.
    fn kind(&self, at: usize, register: u8) -> Option<Kind> {
        let states = kinds::kinds(&self.program.insns);
        states[at].as_ref().map(|state| state.regs[usize::from(register)])
    }

    /// The interval of the number a register holds at a call: by analysis, or from the last
    /// instruction that wrote it, since functions that are called are not seen by the analysis.
    fn number(&self, at: usize, register: u8) -> Option<(u64, u64)> {
        match self.kind(at, register) {
            Some(Kind::Number(low, high)) => return Some((low, high)),
            Some(_) => return None,
            None => {}
        }
        let insns = &self.program.insns;
        let before = (0..at).rev().take_while(|before| !self.leaders[before + 1]);
        let writer = before
            .map(|at| insns[at])
            .find(|insn| insn.dst == register && !matches!(insn.code & 7, class::ST | class::STX));
        // A move of a constant, to the whole register or its lower half.
        let moved = writer.filter(|insn| matches!(insn.code, 0xb4 | 0xb7))?;
        let value = u64::try_from(moved.imm).ok()?;
        Some((value, value))
    }

    /// Bytes from outside where a pointer says: each may be written, as far as the length goes.
    fn fill(&self, call: &Call, pointer: u8, length: u8) -> Vec<Effect> {
        let mut effects = vec![self.result(call)];
        let followed =
            matches!(self.kind(call.at, pointer), Some(Kind::Stack(_) | Kind::Packet { .. }));
        let length_of = self.number(call.at, length);
        let known =
            length_of.filter(|(low, high)| *high <= MOST_FILLED && (low == high || followed));
        let Some((least, most)) = known else {
            effects.push(Effect::Fill(self.reg(pointer)));
            return effects;
        };
        let [old, _] = self.moved;
        for byte in 0..most {
            let address = word(call.outside + 8 + byte);
            effects.push(Effect::Load { slot: self.temp, address, bytes: 1 });
            let address = Expr::add(self.reg(pointer), word(byte));
            let mut value = Expr::extract(Expr::Slot(self.temp), 0, 8);
            if byte >= least {
                effects.push(Effect::Load { slot: old, address: address.clone(), bytes: 1 });
                let written = Expr::binary(Op::Ult, word(byte), self.reg(length));
                value = Expr::ite(written, value, Expr::extract(Expr::Slot(old), 0, 8));
            }
            effects.push(Effect::Store { address, bytes: 1, value });
        }
        effects
    }
}
