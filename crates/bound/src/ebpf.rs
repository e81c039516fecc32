//! Front end: eBPF programs to the block language, executed instructions as cost.
//!
//! Functions are inlined by context: a block exists once for every chain of calls that leads to it.
//! Pointers are numbers: packet and context below 2^32 (as the context's members are), stack and
//! map values above. What the program does not decide (hits of lookups, results of helpers, fields
//! of the context) is read from tables, so that a witness says it. The context says where the
//! packet is; packets of tc programs are taken to be in one piece.

pub(crate) mod helpers;
pub(crate) mod row;

use std::collections::{BTreeMap, HashMap};

use nicforge_isa::ebpf::insn::{SOURCE_REGISTER, class, width};
use nicforge_isa::ebpf::kinds::{self, Kind};
use nicforge_isa::ebpf::{Insn, LDDW};

use nicforge_isa::object::{Map, PSEUDO_FUNCTION, PSEUDO_MAP, PSEUDO_VALUE, Program};

use crate::analysis::HEADROOM;
use crate::graph::{
    Block, BlockId, BranchCost, Contents, Cost, Effect, Expr, Graph, Next, Region, Slot, Step,
    Walked,
};
use crate::term::Op;

pub use nicforge_isa::ebpf::context::Layout;
pub(crate) use nicforge_isa::ebpf::context::XDP;
pub use row::{MOST_PACKETS, in_a_row, kept};

/// Address of packet byte 0.
pub const PACKET: u64 = 1 << 31;
/// Bytes of a packet's memory, its headroom included.
const PACKET_BYTES: u64 = 0x12000 + HEADROOM;
/// The context: the packet's ends first, then what the program cannot know.
pub const CONTEXT: u64 = 1 << 41;
pub(crate) const STACK: u64 = 1 << 42;
/// Results of helpers and hits of lookups: so many bytes an instruction.
const OUTSIDE: u64 = 1 << 43;
pub const OUTSIDE_EACH: u64 = 512;
/// The packet after a helper changed it in ways that are not followed.
const CHANGED: u64 = 1 << 30;
/// Records of ring buffers: so many bytes an instruction.
pub(crate) const RESERVED: u64 = 3 << 42;
pub(crate) const RESERVED_EACH: u64 = 1 << 20;
/// Bytes of what a map holds that is found in a map of maps.
pub const INNER_BYTES: u64 = 4096;
/// Values of map N are at `VALUES + N * VALUES_EACH`.
pub const VALUES: u64 = 1 << 44;
pub const VALUES_EACH: u64 = 1 << 36;
/// Bits of the number of a value in a map.
const INDEX_BITS: u8 = 24;
pub const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;
const FRAME: u64 = 512;
const DEEPEST: usize = 8;
/// Most copies of instructions by inlining.
const MAX_COPIES: usize = 200_000;

/// A program that cannot be analysed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct EbpfError {
    pub insn: usize,
    /// Source line, or section and instruction.
    pub place: String,
    pub reason: String,
}

/// Returns of the calls on the way to a block.
type Chain = Vec<usize>;

/// Programs in slots of program arrays: map, slot, first instruction.
pub type Tails = BTreeMap<usize, BTreeMap<u32, usize>>;

struct Front<'a> {
    program: &'a Program,
    maps: &'a [Map],
    tails: &'a Tails,
    graph: Graph,
    regs: Vec<Slot>,
    temp: Slot,
    /// Begin or end that the packet is to have, and its other end.
    moved: [Slot; 2],
    layout: Layout,
    /// Address of byte 0 of the packet that is handled.
    packet: u64,
    /// Regions of maps whose contents go from packet to packet.
    kept: Vec<bool>,
    /// Calls of helpers are left to whoever walks the graph.
    open: bool,
    /// Registers 6 to 10 of each caller.
    saved: Vec<[Slot; 5]>,
    blocks: HashMap<(usize, Chain), BlockId>,
    queue: Vec<(usize, Chain, BlockId)>,
    leaders: Vec<bool>,
    copies: usize,
}

/// Translates a program.
///
/// # Errors
/// The first instruction, helper or map that is not supported.
pub fn graph(program: &Program, maps: &[Map]) -> Result<Graph, EbpfError> {
    chained(program, maps, &Tails::new())
}

/// Translates a program with those behind it that its tail calls lead to.
///
/// # Errors
/// The first instruction, helper or map that is not supported.
pub fn chained(program: &Program, maps: &[Map], tails: &Tails) -> Result<Graph, EbpfError> {
    let mut front = Front::new(program, maps, tails, layout(program)?);
    front.graph.entry = front.run()?;
    Ok(front.graph)
}

/// Translates a program with its calls of helpers left open, each the last step of its block.
/// Registers are the first eleven slots, and atomic operations are what they are. Calls of programs
/// in `tails` are written out.
///
/// # Errors
/// The first instruction or map that is not supported.
pub fn open(program: &Program, maps: &[Map], tails: &Tails) -> Result<Graph, EbpfError> {
    let mut front = Front::new(program, maps, tails, layout(program)?);
    front.open = true;
    front.graph.entry = front.run()?;
    Ok(front.graph)
}

fn layout(program: &Program) -> Result<Layout, EbpfError> {
    Layout::of(&program.section).map_err(|reason| EbpfError {
        insn: 0,
        place: program.name.clone(),
        reason,
    })
}

/// Map of maps (an array or a hash map of them), or not.
pub fn of_maps(map: &Map) -> bool {
    matches!(map.kind, Some(12 | 13))
}

/// Assumptions that a bound of this program rests on besides its instructions, in words.
pub fn presumed(program: &Program, maps: &[Map], tails: &Tails) -> Vec<&'static str> {
    let mut list = Vec::new();
    if Layout::of(&program.section) == Ok(nicforge_isa::ebpf::context::SKB) {
        list.push("packets are in one piece, as after bpf_skb_pull_data");
    }
    if leaves(program, maps, tails) {
        list.push("a tail call ends the path: the program it calls has a bound of its own");
    }
    list
}

/// Tail calls that may leave for a program that is not known: whether there are any.
fn leaves(program: &Program, maps: &[Map], tails: &Tails) -> bool {
    // Kind 3: program array.
    let open = |(index, map): (usize, &Map)| map.kind == Some(3) && !tails.contains_key(&index);
    let calls = |insn: &Insn| (insn.code, insn.src, insn.imm) == (0x85, 0, 12);
    program.insns.iter().any(calls) && maps.iter().enumerate().any(open)
}

/// Distance between values of a map.
pub fn stride(map: &Map) -> u64 {
    if of_maps(map) {
        return INNER_BYTES;
    }
    u64::from(map.value_size.max(1)).next_power_of_two().max(8)
}

fn word(value: u64) -> Expr {
    Expr::Const(64, value)
}

impl<'a> Front<'a> {
    fn new(program: &'a Program, maps: &'a [Map], tails: &'a Tails, layout: Layout) -> Front<'a> {
        let walked = Some(Walked::by_verifier(Vec::new()));
        let mut graph = Graph { walked, ..Graph::default() };
        let regs: Vec<Slot> = (0..11).map(|_| graph.slot(64)).collect();
        let temp = graph.slot(64);
        let moved = [graph.slot(32), graph.slot(32)];
        let saved = (0..DEEPEST).map(|_| std::array::from_fn(|_| graph.slot(64))).collect();
        graph.start =
            vec![(regs[1], word(CONTEXT)), (regs[10], word(STACK + FRAME * DEEPEST as u64))];
        // The sum, but the stack keeps bytes, and from a sum's bytes the sum does not come back.
        let data_end = Expr::concat(Expr::Const(16, PACKET >> 16), Expr::Size(0));
        graph.bytes = vec![
            (CONTEXT + layout.data, Expr::Const(32, PACKET)),
            (CONTEXT + layout.data_end, data_end),
            (CONTEXT + layout.data_meta, Expr::Const(32, PACKET)),
        ];
        let region = |name: &str, base, size, contents| Region {
            name: name.to_string(),
            base,
            size,
            contents,
        };
        graph.regions = vec![
            region("packet", PACKET - HEADROOM, PACKET_BYTES, Contents::Packet),
            region("changed packet", CHANGED, 0x20000, Contents::Shared),
            region("stack", STACK, FRAME * DEEPEST as u64, Contents::Private),
            region("outside", OUTSIDE, 1 << 30, Contents::Shared),
            region("ring buffer", RESERVED, 1 << 40, Contents::Shared),
        ];
        // Programs may keep things in the context.
        let kept = if writes_maps(program) { Contents::Shared } else { Contents::Table };
        let mut from = 0;
        for end in layout.ends() {
            if end > from {
                graph.regions.push(region("context", CONTEXT + from, end - from, kept));
            }
            graph.regions.push(region("packet ends", CONTEXT + end, 4, Contents::Private));
            from = end + 4;
        }
        graph.regions.push(region("context", CONTEXT + from, layout.size - from, kept));
        let first_map = graph.regions.len();
        let contents = kept;
        for (index, map) in maps.iter().enumerate() {
            let contents = match (map.kind, map.constant) {
                _ if of_maps(map) => Contents::Shared,
                (None, true) => Contents::Table,
                (None, false) => Contents::Shared,
                _ => contents,
            };
            graph.regions.push(region(
                &map.name,
                VALUES + index as u64 * VALUES_EACH,
                VALUES_EACH,
                contents,
            ));
            if map.constant {
                let region = (first_map + index) as u32;
                let base = VALUES + index as u64 * VALUES_EACH;
                graph.given.extend(
                    map.data.iter().enumerate().map(|(at, byte)| (region, base + at as u64, *byte)),
                );
            }
        }
        let leaders = leaders(&program.insns);
        let (blocks, queue) = (HashMap::new(), Vec::new());
        Front {
            program,
            maps,
            tails,
            graph,
            regs,
            temp,
            moved,
            layout,
            packet: PACKET,
            kept: vec![false; maps.len()],
            open: false,
            saved,
            blocks,
            queue,
            leaders,
            copies: 0,
        }
    }

    /// Translates the program, its entry first.
    fn run(&mut self) -> Result<BlockId, EbpfError> {
        let entry = self.block(0, Vec::new());
        while let Some((at, chain, id)) = self.queue.pop() {
            let block = self.translate(at, &chain)?;
            self.graph.blocks[id.0 as usize] = block;
        }
        Ok(entry)
    }

    fn error(&self, at: usize, reason: impl Into<String>) -> EbpfError {
        let place = match self.program.lines.get(at) {
            Some(Some(line)) => format!("{}:{}", line.file, line.line),
            _ => format!("section `{}`, instruction {at}", self.program.section),
        };
        EbpfError { insn: at, place, reason: reason.into() }
    }

    fn block(&mut self, at: usize, chain: Chain) -> BlockId {
        if let Some(id) = self.blocks.get(&(at, chain.clone())) {
            return *id;
        }
        let id = self.reserve();
        self.blocks.insert((at, chain.clone()), id);
        self.queue.push((at, chain, id));
        id
    }

    fn reserve(&mut self) -> BlockId {
        let id = BlockId(self.graph.blocks.len() as u32);
        self.graph.blocks.push(Block {
            steps: Vec::new(),
            next: Next::Exit,
            branch: BranchCost::default(),
            place: None,
        });
        id
    }

    fn target(&self, at: usize, by: i64) -> Result<usize, EbpfError> {
        let to =
            usize::try_from(at as i64 + 1 + by).ok().filter(|to| *to < self.program.insns.len());
        to.ok_or_else(|| self.error(at, "a jump out of the program"))
    }

    fn reg(&self, n: u8) -> Expr {
        Expr::Slot(self.regs[usize::from(n)])
    }

    fn set(&self, n: u8, value: Expr) -> Effect {
        Effect::Set(self.regs[usize::from(n)], value)
    }

    fn translate(&mut self, start: usize, chain: &Chain) -> Result<Block, EbpfError> {
        let mut steps: Vec<Step> = Vec::new();
        let mut at = start;
        let end = |steps, next, place, cycles: u64| Block {
            steps,
            next,
            branch: BranchCost { taken: 1000 * cycles, fall: 1000 * cycles, fresh: 0 },
            place,
        };
        loop {
            let Some(insn) = self.program.insns.get(at).copied() else {
                return Err(
                    self.error(at.saturating_sub(1), "control runs past the last instruction")
                );
            };
            if at != start && self.leaders[at] {
                let next = Next::Goto(self.block(at, chain.clone()));
                return Ok(end(steps, next, None, 0));
            }
            self.copies += 1;
            if self.copies > MAX_COPIES {
                return Err(
                    self.error(at, format!("more than {MAX_COPIES} instructions after inlining"))
                );
            }
            if insn.dst > 10 || insn.src > 10 {
                return Err(self.error(at, "a register that does not exist"));
            }
            let place = at as u32;
            let plain = |effects| Step { effects, cost: Cost::cycles(1), place };
            match insn.code {
                0x95 => match chain.split_last() {
                    None => return Ok(end(steps, Next::Exit, Some(place), 1)),
                    Some((back, rest)) => {
                        let saved = self.saved[rest.len()];
                        let restore =
                            |(n, slot): (usize, &Slot)| self.set(6 + n as u8, Expr::Slot(*slot));
                        steps.push(plain(saved.iter().enumerate().map(restore).collect()));
                        let next = Next::Goto(self.block(*back, rest.to_vec()));
                        return Ok(end(steps, next, None, 0));
                    }
                },
                0x05 | 0x06 => {
                    let by = if insn.code == 0x05 { insn.off.into() } else { insn.imm.into() };
                    let to = self.target(at, by)?;
                    let next = Next::Goto(self.block(to, chain.clone()));
                    return Ok(end(steps, next, Some(place), 1));
                }
                0x85 if insn.src == 1 => {
                    if chain.len() + 1 >= DEEPEST {
                        return Err(self.error(at, "calls nest deeper than 8, or recursively"));
                    }
                    let to = self.target(at, insn.imm.into())?;
                    let saved = self.saved[chain.len()];
                    let mut effects: Vec<Effect> = saved
                        .iter()
                        .enumerate()
                        .map(|(n, slot)| Effect::Set(*slot, self.reg(6 + n as u8)))
                        .collect();
                    effects.push(self.set(10, Expr::sub(self.reg(10), word(FRAME))));
                    steps.push(plain(effects));
                    let mut inner = chain.clone();
                    inner.push(at + 1);
                    let next = Next::Goto(self.block(to, inner));
                    return Ok(end(steps, next, None, 0));
                }
                0x85 => return self.call(at, insn, chain, steps),
                code if matches!(code & 7, class::JMP | class::JMP32) => {
                    let to = self.target(at, insn.off.into())?;
                    let cond = self
                        .condition(insn)
                        .ok_or_else(|| self.error(at, format!("unknown jump {code:#04x}")))?;
                    let (taken, fall) =
                        (self.block(to, chain.clone()), self.block(at + 1, chain.clone()));
                    let next = if taken == fall {
                        Next::Goto(taken)
                    } else {
                        Next::Branch { cond, taken, fall }
                    };
                    return Ok(end(steps, next, Some(place), 1));
                }
                LDDW => {
                    steps.push(plain(vec![self.wide(at, insn)?]));
                    at += 2;
                    continue;
                }
                _ => {
                    let effects = self.effects(at, insn)?;
                    steps.push(plain(effects));
                }
            }
            at += 1;
        }
    }

    fn wide(&self, at: usize, insn: Insn) -> Result<Effect, EbpfError> {
        let high = self.program.insns.get(at + 1).map_or(0, |next| next.imm) as u32;
        let map = insn.imm as u32 as usize;
        if matches!(insn.src, PSEUDO_MAP | PSEUDO_VALUE) && map >= self.maps.len() {
            return Err(self.error(at, "a map that is not in the object"));
        }
        let value = match insn.src {
            0 => u64::from(insn.imm as u32) | u64::from(high) << 32,
            // Only helpers look at a map's address: its number tells them.
            PSEUDO_MAP => MAP_POINTER + map as u64,
            PSEUDO_VALUE => VALUES + map as u64 * VALUES_EACH + u64::from(high),
            PSEUDO_FUNCTION => return Err(self.error(at, "callbacks are not supported")),
            _ => return Err(self.error(at, "an address that only the kernel knows")),
        };
        Ok(self.set(insn.dst, word(value)))
    }

    fn effects(&mut self, at: usize, insn: Insn) -> Result<Vec<Effect>, EbpfError> {
        let unknown = || self.error(at, format!("unknown instruction {:#04x}", insn.code));
        let bytes = width(insn.code) as u8;
        let address = |register: u8| Expr::add(self.reg(register), word(insn.off as i64 as u64));
        match (insn.code & 7, insn.code & 0xe0) {
            (class::LDX, mode @ (0x60 | 0x80)) => {
                let mut effects =
                    vec![Effect::Load { slot: self.temp, address: address(insn.src), bytes }];
                let value = Expr::extract(Expr::Slot(self.temp), 0, 8 * bytes);
                let value =
                    if mode == 0x80 { Expr::sext(value, 64) } else { Expr::zext(value, 64) };
                effects.push(self.set(insn.dst, value));
                Ok(effects)
            }
            (class::ST, 0x60) => {
                let value = Expr::Const(8 * bytes, insn.imm as i64 as u64);
                Ok(vec![Effect::Store { address: address(insn.dst), bytes, value }])
            }
            (class::STX, 0x60) => {
                let value = Expr::extract(self.reg(insn.src), 0, 8 * bytes);
                Ok(vec![Effect::Store { address: address(insn.dst), bytes, value }])
            }
            (class::STX, 0xc0) if self.open || self.kept.contains(&true) => self.exchange(at, insn),
            (class::STX, 0xc0) => {
                let mut effects = Vec::new();
                let old = if insn.imm & !1 == 0xf0 {
                    Some(0)
                } else {
                    (insn.imm & 1 != 0).then_some(insn.src)
                };
                // The stored value is whatever it is; nobody else may see it before this packet is
                // done. Sums that are followed make `path_explosion` ask the solver ten times as
                // often.
                effects.push(Effect::Store {
                    address: address(insn.dst),
                    bytes,
                    value: Expr::Fresh(8 * bytes),
                });
                if let Some(old) = old {
                    effects.push(Effect::Load {
                        slot: self.temp,
                        address: word(OUTSIDE + 8 * at as u64),
                        bytes,
                    });
                    let value = Expr::extract(Expr::Slot(self.temp), 0, 8 * bytes);
                    effects.push(self.set(old, Expr::zext(value, 64)));
                }
                Ok(effects)
            }
            (class::ALU | class::ALU64, _) => {
                let value = self.arithmetic(insn).ok_or_else(unknown)?;
                Ok(vec![self.set(insn.dst, value)])
            }
            _ => Err(unknown()),
        }
    }

    fn second(&self, insn: Insn, bits: u8) -> Expr {
        if insn.code & SOURCE_REGISTER != 0 {
            Expr::extract(self.reg(insn.src), 0, bits)
        } else {
            Expr::Const(bits, insn.imm as i64 as u64)
        }
    }

    fn arithmetic(&self, insn: Insn) -> Option<Expr> {
        let narrow = insn.code & 7 == class::ALU;
        let bits: u8 = if narrow { 32 } else { 64 };
        let (a, b) = (Expr::extract(self.reg(insn.dst), 0, bits), self.second(insn, bits));
        let shift = |op, a, b| {
            Expr::binary(op, a, Expr::binary(Op::And, b, Expr::Const(bits, u64::from(bits) - 1)))
        };
        let zero = Expr::Const(bits, 0);
        let value = match insn.code & 0xf0 {
            0x00 => Expr::add(a, b),
            0x10 => Expr::sub(a, b),
            0x20 => Expr::binary(Op::Mul, a, b),
            // Division by zero gives zero.
            0x30 if insn.off == 0 => {
                let none = Expr::binary(Op::Eq, b.clone(), zero.clone());
                Expr::ite(none, zero, Expr::binary(Op::UDiv, a, b))
            }
            0x40 => Expr::binary(Op::Or, a, b),
            0x50 => Expr::binary(Op::And, a, b),
            0x60 => shift(Op::Shl, a, b),
            0x70 => shift(Op::Lshr, a, b),
            0x80 => Expr::sub(zero, a),
            0x90 if insn.off == 0 => Expr::binary(Op::URem, a, b),
            0xa0 => Expr::binary(Op::Xor, a, b),
            0xb0 => match insn.off {
                0 => b,
                8 | 16 | 32 => Expr::sext(Expr::extract(b, 0, insn.off as u8), bits),
                _ => return None,
            },
            0xc0 => shift(Op::Ashr, a, b),
            0xd0 => {
                let width =
                    u8::try_from(insn.imm).ok().filter(|width| matches!(width, 16 | 32 | 64))?;
                let whole = Expr::extract(self.reg(insn.dst), 0, width);
                let swap = insn.code & SOURCE_REGISTER != 0 || !narrow;
                let value = if swap { swapped(whole, width) } else { whole };
                return Some(Expr::zext(value, 64));
            }
            _ => return None,
        };
        Some(Expr::zext(value, 64))
    }

    fn condition(&self, insn: Insn) -> Option<Expr> {
        let bits: u8 = if insn.code & 7 == class::JMP32 { 32 } else { 64 };
        let (a, b) = (Expr::extract(self.reg(insn.dst), 0, bits), self.second(insn, bits));
        let less = |op, a, b| Expr::binary(op, a, b);
        Some(match insn.code & 0xf0 {
            0x10 => Expr::binary(Op::Eq, a, b),
            0x20 => less(Op::Ult, b, a),
            0x30 => Expr::not(less(Op::Ult, a, b)),
            0x40 => {
                Expr::not(Expr::binary(Op::Eq, Expr::binary(Op::And, a, b), Expr::Const(bits, 0)))
            }
            0x50 => Expr::not(Expr::binary(Op::Eq, a, b)),
            0x60 => less(Op::Slt, b, a),
            0x70 => Expr::not(less(Op::Slt, a, b)),
            0xa0 => less(Op::Ult, a, b),
            0xb0 => Expr::not(less(Op::Ult, b, a)),
            0xc0 => less(Op::Slt, a, b),
            0xd0 => Expr::not(less(Op::Slt, b, a)),
            _ => return None,
        })
    }
}

/// What `lddw` of map N loads is this plus N.
pub(crate) const MAP_POINTER: u64 = 1 << 60;

fn swapped(value: Expr, bits: u8) -> Expr {
    let byte = |n: u8| Expr::extract(value.clone(), 8 * n, 8);
    (1..bits / 8).fold(byte(0), |high, n| Expr::concat(high, byte(n)))
}

fn leaders(insns: &[Insn]) -> Vec<bool> {
    let mut leaders = vec![false; insns.len() + 1];
    for (at, insn) in insns.iter().enumerate() {
        let by = match insn.code {
            0x06 => i64::from(insn.imm),
            0x95 => continue,
            0x85 if insn.src == 1 => i64::from(insn.imm),
            0x85 => 0,
            code if matches!(code & 7, class::JMP | class::JMP32) => insn.off.into(),
            _ => continue,
        };
        leaders[at + 1] = true;
        if let Some(leader) =
            usize::try_from(at as i64 + 1 + by).ok().and_then(|to| leaders.get_mut(to))
        {
            *leader = true;
        }
    }
    leaders
}

/// True if the program may change a map: then others on other cores do too.
fn writes_maps(program: &Program) -> bool {
    let states = kinds::kinds(&program.insns);
    program.insns.iter().zip(&states).any(|(insn, state)| {
        let store = matches!(insn.code & 7, class::ST | class::STX);
        let changes = insn.code == 0x85 && insn.src == 0 && matches!(insn.imm, 2 | 3);
        let known = state.as_ref().and_then(|state| state.regs.get(usize::from(insn.dst)));
        changes || store && !matches!(known, Some(Kind::Stack(_) | Kind::Packet { .. }))
    })
}
