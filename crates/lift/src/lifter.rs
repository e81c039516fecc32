//! The program as far as it is lifted, and how much of that there may be.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use nicforge_ir::{
    BlockId, Body, BodyBuilder, ConstId, InstId, Op, Program, Span, TableId, Type, ValueId,
};
use nicforge_isa::ebpf::Insn;
use nicforge_isa::ebpf::context::{Layout, XDP};
use nicforge_isa::object::Object;

use crate::chain::Chain;
use crate::error::{Halt, limit};
use crate::flow::Flow;
use crate::layout::Node;
use crate::lines::Lines;
use crate::sections::layout;
use crate::state::State;

/// Instructions followed at most, ways and trips counted one by one.
pub const MOST_STEPS: u32 = 400_000;
/// Cost of following a program at most, over all attempts: of each step, and of each thing known of
/// ways where they part and meet, which is copied there. An optimised build takes 1 to 5 s for it.
const MOST_COST: u64 = 32_000_000;
/// Cost of a step; that of a thing is 1.
const STEP_COST: u64 = 64;
/// Steps after which loops are looked at, and trips of one that are many then.
const LONG: u32 = 40_000;
const MANY_TRIPS: u32 = 256;
/// Trips from which on a loop is better not written out.
const LONG_LOOP: u32 = 48;
/// Regions within regions at most, which bounds the thread's stack.
pub const MOST_DEPTH: u32 = 1500;

/// A table of the program with how its bytes are divided.
#[derive(Clone, Debug)]
pub struct Known {
    pub table: TableId,
    pub key: Node,
    pub value: Node,
}

/// Messages to the host.
pub struct Message {
    pub size: u32,
    /// Bytes of the packet follow.
    pub packet: bool,
    /// Some have fewer bytes, and zeros behind them.
    pub fixed: bool,
    pub ty: Type,
    pub node: Node,
}

/// A value is `count` bytes of the packet from `off` behind the cursor on, `shift` bytes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    pub off: u64,
    pub count: u32,
    pub shift: u32,
    pub version: u32,
}

/// The program as far as it is lifted.
pub struct Lifter<'a> {
    pub object: &'a Object,
    pub insns: &'a [Insn],
    /// First instructions by program array and slot.
    pub slots: &'a BTreeMap<usize, BTreeMap<u32, usize>>,
    /// Maps of programs or maps in which nothing is.
    pub empty: &'a BTreeSet<usize>,
    pub flow: &'a Flow,
    pub lines: &'a Lines,
    pub program: Program,
    pub body: Body,
    /// The region that is being written.
    pub at: BlockId,
    pub span: Span,
    pub pkt: ValueId,
    /// The context that the program gets.
    pub layout: Layout,
    pub tables: BTreeMap<usize, Known>,
    /// Tables of the ends of rings, by their maps.
    pub rings: BTreeMap<usize, TableId>,
    /// Bytes of map values that were never written, by map.
    pub unwritten: BTreeMap<usize, BTreeSet<u32>>,
    /// Constant arrays by map, element's bytes and first byte.
    pub arrays: HashMap<(usize, u32, i64), ConstId>,
    pub message: Option<Message>,
    /// Values that are packet bytes, by which a value of more bytes can be read at once.
    pub bytes: HashMap<ValueId, Bytes>,
    /// Results that did not wrap and lost no bits.
    pub whole: HashSet<ValueId>,
    /// Factors that values are multiples of, as far as somebody asked.
    pub strides: RefCell<HashMap<ValueId, u64>>,
    /// How often the packet was changed.
    pub version: u32,
    /// Places where ways with different kinds of pointers are kept apart.
    pub apart: &'a BTreeSet<usize>,
    /// Loops that are not written out, by their headers.
    pub rolled: &'a BTreeSet<usize>,
    /// The header whose trip begins, where the walk does.
    pub enter: Option<usize>,
    /// Headers of rolled loops whose trips are followed, outer ones first.
    pub rolling: Vec<usize>,
    /// Loops of many trips are given up early.
    pub gives_up: bool,
    /// Times that the walk came to each header.
    pub trips: BTreeMap<usize, u32>,
    /// The instruction that is followed.
    pub here: usize,
    steps: u32,
    /// What it cost so far, with the attempts before.
    pub cost: u64,
    /// Regions around.
    pub depth: u32,
    lookups: u32,
}

impl<'a> Lifter<'a> {
    pub fn new(
        object: &'a Object,
        chain: &'a Chain,
        (flow, lines): (&'a Flow, &'a Lines),
        (apart, rolled): (&'a BTreeSet<usize>, &'a BTreeSet<usize>),
        program: Program,
    ) -> Lifter<'a> {
        let mut body = Body::default();
        let mut builder = BodyBuilder::new(&mut body);
        let at = builder.current();
        let pkt = builder.param(at, Type::Packet, Some("pkt"));
        Lifter {
            object,
            insns: &chain.program.insns,
            slots: &chain.slots,
            empty: &chain.empty,
            flow,
            lines,
            program,
            body,
            at,
            span: Span::default(),
            pkt,
            layout: layout(&chain.program.section).unwrap_or(XDP),
            tables: BTreeMap::new(),
            rings: BTreeMap::new(),
            unwritten: BTreeMap::new(),
            arrays: HashMap::new(),
            message: None,
            bytes: HashMap::new(),
            whole: HashSet::new(),
            strides: RefCell::default(),
            version: 0,
            apart,
            rolled,
            enter: None,
            rolling: Vec::new(),
            gives_up: false,
            trips: BTreeMap::new(),
            here: 0,
            steps: 0,
            cost: 0,
            depth: 0,
            lookups: 0,
        }
    }

    /// A number for a lookup.
    pub fn fresh(&mut self) -> u32 {
        self.lookups += 1;
        self.lookups
    }

    /// The other region of an `if`.
    pub fn opposite(&self, inst: InstId, first: bool) -> BlockId {
        match self.body.insts[inst].op {
            Op::If { then, other, .. } => {
                if first {
                    other
                } else {
                    then
                }
            }
            _ => self.at,
        }
    }

    /// Headers of loops that are better not written out.
    pub fn long_loops(&self) -> BTreeSet<usize> {
        let long = self.trips.iter().filter(|(_, trips)| **trips >= LONG_LOOP);
        long.map(|(header, _)| *header).collect()
    }

    /// Counts an instruction that is followed.
    pub fn step(&mut self) -> Result<(), Halt> {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            return limit(format!("more than {MOST_STEPS} steps on all ways and trips"));
        }
        self.costs(STEP_COST)?;
        let takes_long = self.gives_up && self.steps.is_multiple_of(LONG);
        if takes_long && self.trips.values().any(|trips| *trips >= MANY_TRIPS) {
            return Err(Halt::ManyTrips);
        }
        Ok(())
    }

    /// Counts what is known of ways that part or meet.
    pub fn weigh<'s>(&mut self, ways: impl Iterator<Item = &'s State>) -> Result<(), Halt> {
        self.costs(ways.map(State::size).sum())
    }

    fn costs(&mut self, more: u64) -> Result<(), Halt> {
        self.cost += more;
        if self.cost > MOST_COST {
            return limit("too many ways and trips, with too much known on each, to follow");
        }
        Ok(())
    }

    /// Counts a branch within others.
    pub fn deeper(&mut self) -> Result<(), Halt> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return limit(format!("more than {MOST_DEPTH} branches within each other"));
        }
        Ok(())
    }
}
