//! The block language: what every analysable program is compiled to.
//!
//! A program is blocks of steps; a step is one instruction: assignments to slots (registers,
//! flags), loads and stores, what it costs, and where it stands in the source. Blocks end in a
//! two-way branch on one bit, a jump, or an exit. Memory is one flat space of addresses in which
//! regions never touch; an address must be a constant, or a region's address plus something, when
//! the program is unrolled. Uninitialised slots and cells hold unknown values.

use crate::term::Op;

/// Names a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u32);

/// Names a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

/// Bit-vector expressions over slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expr {
    Const(u8, u64),
    Slot(Slot),
    /// A packet's length, 16 bits; there is more than one only where packets are [`in_a_row`].
    ///
    /// [`in_a_row`]: crate::ebpf::in_a_row
    Size(u32),
    /// A new unknown value each time it is evaluated.
    Fresh(u8),
    /// Where memory [`Unchecked::bases`] of this index begins, 32 bits: unknown within an interval.
    Base(u32),
    Binary(Op, Box<Expr>, Box<Expr>),
    Sub(Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
    Zext(Box<Expr>, u8),
    Sext(Box<Expr>, u8),
    Extract(Box<Expr>, u8, u8),
    Concat(Box<Expr>, Box<Expr>),
    Ite(Box<Expr>, Box<Expr>, Box<Expr>),
}

impl Expr {
    pub fn binary(op: Op, a: Expr, b: Expr) -> Expr {
        Expr::Binary(op, Box::new(a), Box::new(b))
    }

    #[allow(clippy::should_implement_trait)]
    pub fn sub(a: Expr, b: Expr) -> Expr {
        Expr::Sub(Box::new(a), Box::new(b))
    }

    #[allow(clippy::should_implement_trait)]
    pub fn add(a: Expr, b: Expr) -> Expr {
        Expr::binary(Op::Add, a, b)
    }

    #[allow(clippy::should_implement_trait)]
    pub fn not(a: Expr) -> Expr {
        Expr::Not(Box::new(a))
    }

    pub fn zext(a: Expr, bits: u8) -> Expr {
        Expr::Zext(Box::new(a), bits)
    }

    pub fn sext(a: Expr, bits: u8) -> Expr {
        Expr::Sext(Box::new(a), bits)
    }

    /// `bits` bits from bit `low` on.
    pub fn extract(a: Expr, low: u8, bits: u8) -> Expr {
        Expr::Extract(Box::new(a), low, bits)
    }

    pub fn concat(high: Expr, low: Expr) -> Expr {
        Expr::Concat(Box::new(high), Box::new(low))
    }

    pub fn ite(cond: Expr, a: Expr, b: Expr) -> Expr {
        Expr::Ite(Box::new(cond), Box::new(a), Box::new(b))
    }

    /// Calls `f` for every slot the expression reads.
    pub fn slots(&self, f: &mut dyn FnMut(Slot)) {
        match self {
            Expr::Slot(slot) => f(*slot),
            Expr::Const(..) | Expr::Size(_) | Expr::Fresh(_) | Expr::Base(_) => {}
            Expr::Binary(_, a, b) | Expr::Sub(a, b) | Expr::Concat(a, b) => {
                a.slots(f);
                b.slots(f);
            }
            Expr::Not(a) | Expr::Zext(a, _) | Expr::Sext(a, _) | Expr::Extract(a, ..) => a.slots(f),
            Expr::Ite(a, b, c) => {
                a.slots(f);
                b.slots(f);
                c.slots(f);
            }
        }
    }
}

/// Contents of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// The packet.
    Packet,
    /// Known only as the program writes it; kept byte by byte, so constants stay constants.
    /// Addresses must be constants.
    Private,
    /// A table nobody changes while the packet is handled: the same address reads the same value.
    Table,
    /// Unknown at first, and then what the program writes.
    Kept,
    /// A table others may change: every read is a new value.
    Shared,
}

/// A range of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    pub name: String,
    pub base: u64,
    pub size: u64,
    pub contents: Contents,
}

/// One effect of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Set(Slot, Expr),
    /// `slot` becomes `bytes` bytes, the lowest address in its lowest bits, and zero above.
    Load {
        slot: Slot,
        address: Expr,
        bytes: u8,
    },
    /// The value has `8 * bytes` bits.
    Store {
        address: Expr,
        bytes: u8,
        value: Expr,
    },
    /// Nobody knows how many bytes are written from this address on: only shared memory may be
    /// there.
    Fill(Expr),
    /// The time of an access, which depends on the memory it goes to; for unchecked programs.
    Access {
        address: Expr,
        bytes: u8,
        write: bool,
    },
    /// So many cycles pass; the most there may be, if the number is not known on this way.
    Delay(Expr),
    /// A call of a helper that whoever walks the graph answers: slots 1 to 5 of these are what it
    /// is told, slot 0 becomes what it gives, and the others are lost.
    Call {
        helper: i32,
        slots: [Slot; 6],
    },
    /// A call returns to this address. Where memory may have been overwritten that is taken for
    /// granted, and noted.
    Returns(Expr, u64),
    /// Only what fulfils this bit goes on; only in graphs that are walked path by path.
    Presume(Expr),
    /// How the slot's value comes about is forgotten, here and where it is computed again: it is
    /// mixed so well that no solver sees through it; only there, too.
    Forget(Slot),
    /// What comes next is not followed, and why; only there, too.
    Open(String),
}

/// Costs of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Cycles of a core, in thousandths; unused if there is a latency.
    pub milli: u64,
    /// A wait in whole cycles: what is left of it after the cycles since the last memory
    /// instruction.
    pub latency: Option<u32>,
    /// It is a memory instruction.
    pub memory: bool,
    /// It writes flags, which makes a branch right behind it dearer.
    pub flags: bool,
    /// Work of the shared engine, in millionths of its cycles.
    pub engine_micro: u64,
}

impl Cost {
    /// So many cycles and nothing else.
    pub fn cycles(cycles: u64) -> Cost {
        Cost { milli: 1000 * cycles, ..Cost::default() }
    }

    /// So many cycles and nothing else, rounded up to thousandths; negative ones are none.
    pub fn fraction(cycles: f64) -> Cost {
        // What floating point makes of a thousandth is not a reason to round up.
        Cost { milli: (cycles.max(0.0) * 1e3 - 1e-6).ceil() as u64, ..Cost::default() }
    }
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub effects: Vec<Effect>,
    pub cost: Cost,
    /// Index of the instruction in the program it came from.
    pub place: u32,
}

/// Ends of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    Goto(BlockId),
    Branch {
        cond: Expr,
        taken: BlockId,
        fall: BlockId,
    },
    /// To the block whose number the value is. It must be decided by constants which numbers there
    /// are.
    Switch {
        value: Expr,
        targets: Vec<(u64, BlockId)>,
    },
    Exit,
}

/// Cycles of the way out of a block, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BranchCost {
    pub taken: u64,
    pub fall: u64,
    /// More if taken right after the flags were written.
    pub fresh: u64,
}

/// Straight-line code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub steps: Vec<Step>,
    pub next: Next,
    pub branch: BranchCost,
    /// Place of the instruction that ends the block, if it is one.
    pub place: Option<u32>,
}

/// A program.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Bits of each slot.
    pub slots: Vec<u8>,
    /// Values at the start; other slots are unknown.
    pub start: Vec<(Slot, Expr)>,
    /// Private bytes at the start.
    pub bytes: Vec<(u64, Expr)>,
    pub regions: Vec<Region>,
    /// Bytes of tables that never change: region, address, byte.
    pub given: Vec<(u32, u64, u8)>,
    /// Packets after the first.
    pub later: u32,
    pub blocks: Vec<Block>,
    pub entry: BlockId,
    /// Source line of each place, where known.
    pub lines: Vec<Option<Place>>,
    /// Names of places without a line.
    pub names: Vec<String>,
    /// Set if nobody has checked that addresses stay in the region their constant part is in.
    pub unchecked: Option<Unchecked>,
    /// How often anything may be executed, if somebody else has checked that.
    pub walked: Option<Walked>,
}

/// A limit to how often anything may be executed, as somebody else has checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// Most instructions that one packet executes.
    pub most: u64,
    /// The instruction that each place is a part of; empty if places are instructions.
    pub part_of: Vec<u32>,
}

/// Instructions that the kernel's verifier walks at most.
const VERIFIER_STEPS: u64 = 1_000_000;

impl Walked {
    /// By the kernel's verifier.
    pub fn by_verifier(part_of: Vec<u32>) -> Walked {
        Walked { most: VERIFIER_STEPS, part_of }
    }
}

/// Addresses of unchecked programs, and costs of accesses.
#[derive(Clone, Debug, Default)]
pub struct Unchecked {
    pub bases: Vec<Base>,
    /// By region.
    pub waits: Vec<Wait>,
    /// Slots that devices use.
    pub kept: Vec<Slot>,
    /// What a device register's load gives and what is stored to it.
    pub port: Slot,
    pub devices: Vec<Device>,
    /// Region that accesses to unknown addresses are listed under.
    pub anywhere: u32,
    /// The base that return addresses have.
    pub code: u32,
    /// Cycles of what follows an access to no memory at all.
    pub fault_cycles: u64,
}

/// Memory that lies somewhere: addresses in it are this base and an offset. In the graph's own
/// space it is the region.
#[derive(Clone, Copy, Debug)]
pub struct Base {
    pub region: u32,
    /// The graph's own address of what the base points to.
    pub home: u64,
    /// Where it may be, and how many low bits are zero.
    pub low: u64,
    pub high: u64,
    pub aligned: u8,
}

/// Cycles of accesses to a region beyond those of the instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    pub load: u64,
    pub store: u64,
    /// Stores change nothing.
    pub fixed: bool,
}

/// A register that does something when it is loaded or stored.
#[derive(Clone, Debug)]
pub struct Device {
    pub region: u32,
    pub load: Vec<Effect>,
    pub store: Vec<Effect>,
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    pub file: String,
    pub line: u32,
}

impl Graph {
    /// A new slot.
    pub fn slot(&mut self, bits: u8) -> Slot {
        self.slots.push(bits);
        Slot(self.slots.len() as u32 - 1)
    }

    /// The blocks a block goes to.
    pub fn successors(&self, block: BlockId) -> Vec<BlockId> {
        match &self.blocks[block.0 as usize].next {
            Next::Goto(to) => vec![*to],
            Next::Branch { taken, fall, .. } => vec![*taken, *fall],
            Next::Switch { targets, .. } => targets.iter().map(|(_, to)| *to).collect(),
            Next::Exit => Vec::new(),
        }
    }

    /// Blocks that control reaches, each before those that only follow it.
    pub(crate) fn reverse_postorder(&self) -> Vec<BlockId> {
        let (mut post, mut seen) = (Vec::new(), vec![false; self.blocks.len()]);
        let mut stack = vec![(self.entry, 0)];
        seen[self.entry.0 as usize] = true;
        while let Some((block, next)) = stack.pop() {
            match self.successors(block).get(next) {
                Some(to) => {
                    stack.push((block, next + 1));
                    if !std::mem::replace(&mut seen[to.0 as usize], true) {
                        stack.push((*to, 0));
                    }
                }
                None => post.push(block),
            }
        }
        post.reverse();
        post
    }

    /// Where a place is: its line, or the instruction's number.
    pub fn describe(&self, place: u32) -> String {
        match self.lines.get(place as usize) {
            Some(Some(line)) => format!("{}:{}", line.file, line.line),
            _ => match self.names.get(place as usize) {
                Some(name) => name.clone(),
                None => format!("instruction {place}"),
            },
        }
    }
}
