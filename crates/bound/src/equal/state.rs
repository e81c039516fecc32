//! Where a program is on a path, and what it has done so far.

use std::collections::BTreeMap;

use crate::graph::{BlockId, Graph};
use crate::term::{Mem, Term};
use crate::unroll::Cell;
use crate::values;

use super::Prover;
use super::copies::Copied;
use super::path::Path;
use super::side::Side;

/// A question to the world outside: what both programs are told if they ask the same.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Number of the helper.
    pub helper: i32,
    pub inputs: Vec<Term>,
    pub outputs: Vec<Term>,
}

/// A key of a map that a program looked for, and what the map held at first.
#[derive(Clone, Debug)]
pub struct Key {
    pub map: usize,
    pub words: Vec<Term>,
    /// One bit: there was an entry.
    pub present: Term,
    /// Number of its value.
    pub slot: u64,
}

/// A map's entry for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub present: Term,
    pub slot: u64,
}

/// A program's message to others about a packet.
#[derive(Clone, Debug)]
pub struct Message {
    /// The map it goes through; none: the kernel's trace.
    pub map: Option<usize>,
    pub words: Vec<Term>,
    /// The packet that goes with it: its memory, where it begins, and how many bytes.
    pub packet: Option<(Mem, Term, Term)>,
}

/// Where a redirected packet goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub map: Option<usize>,
    pub words: Vec<Term>,
}

/// Ends of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With a verdict, 32 bits.
    Verdict(Term),
    /// To a program in a slot of a program array that is not known.
    Call { map: usize, slot: Term },
    /// In something that is not followed.
    Stuck(String),
}

/// A program on a path.
#[derive(Clone)]
pub struct State {
    pub block: BlockId,
    /// Step of the block, and effect of the step, that comes next.
    pub at: (usize, usize),
    pub slots: Vec<Option<Term>>,
    /// Bytes of the stack, of records and of where the packet is.
    pub cells: BTreeMap<u64, Cell>,
    /// Memories by region that are not as at the start, and what was written there.
    pub mems: BTreeMap<u32, Mem>,
    pub written: BTreeMap<u32, Vec<Term>>,
    /// Copies of the packet of open length in them.
    pub copied: Vec<Copied>,
    pub path: Path,
    pub asked: Vec<Asked>,
    pub keys: Vec<Key>,
    /// What maps hold now, by key.
    pub now: BTreeMap<usize, Entry>,
    /// Entries that a map has more than at first.
    pub grown: BTreeMap<usize, i64>,
    /// Calls so far, by helper.
    pub calls: BTreeMap<i32, u64>,
    /// Values and records made so far.
    pub made: u64,
    pub messages: Vec<Message>,
    pub target: Option<Target>,
    pub steps: u64,
    pub end: Option<End>,
}

impl State {
    /// A program before its first instruction.
    pub fn begin(prover: &mut Prover, side: &Side, graph: &Graph) -> State {
        let mut slots = vec![None; graph.slots.len()];
        for (slot, value) in &graph.start {
            slots[slot.0 as usize] =
                Some(values::evaluate(&mut prover.terms, graph, &mut slots.clone(), value));
        }
        let mut cells = BTreeMap::new();
        for (address, value) in &graph.bytes {
            let whole = values::evaluate(&mut prover.terms, graph, &mut slots, value);
            for at in 0..prover.terms.bits(whole) / 8 {
                cells.insert(address + u64::from(at), Cell { whole, at });
            }
        }
        debug_assert_eq!(side.maps.len(), prover.maps.len());
        State {
            block: graph.entry,
            at: (0, 0),
            slots,
            cells,
            mems: BTreeMap::new(),
            written: BTreeMap::new(),
            copied: Vec::new(),
            path: Path::default(),
            asked: Vec::new(),
            keys: Vec::new(),
            now: BTreeMap::new(),
            grown: BTreeMap::new(),
            calls: BTreeMap::new(),
            made: 0,
            messages: Vec::new(),
            target: None,
            steps: 0,
            end: None,
        }
    }

    /// The other program's beginning in the world that this path has learned of.
    pub fn handed(&self, begin: &State) -> State {
        State {
            path: self.path.clone(),
            asked: self.asked.clone(),
            keys: self.keys.clone(),
            ..begin.clone()
        }
    }

    /// A map's entry for a key.
    pub fn entry(&self, key: usize) -> Entry {
        let first = &self.keys[key];
        let first = Entry { present: first.present, slot: first.slot };
        self.now.get(&key).copied().unwrap_or(first)
    }

    /// The path ends here.
    pub fn ended(mut self, end: End) -> State {
        self.end = Some(end);
        self
    }

    /// The path ends here: what comes next is not followed.
    pub fn stuck(self, reason: impl Into<String>) -> State {
        self.ended(End::Stuck(reason.into()))
    }
}
