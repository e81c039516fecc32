//! From a possible path to what causes it: a packet, what its tables hold, and the branches to
//! expect.

use std::collections::HashSet;

use crate::check::leaves;
use crate::graph::{Contents, Graph, Next};
use crate::resolve::Resolver;
use crate::search::Found;
use crate::term::{MemNode, Node, Term, Terms, Var};
use crate::timing::Work;
use crate::unroll::Dag;

/// A read of a table on the path, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRead {
    pub place: u32,
    /// Which of the executed instructions it is.
    pub step: usize,
    pub region: u32,
    /// Address in the graph's space.
    pub address: u64,
    pub bytes: Vec<u8>,
}

/// A block of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    pub block: u32,
    /// Index of its first instruction.
    pub first: Option<u32>,
    /// True if it was left by a taken branch.
    pub taken: bool,
}

/// A path and the packet that takes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Witness {
    pub packet: Vec<u8>,
    /// 0xff where the byte matters.
    pub mask: Vec<u8>,
    pub reads: Vec<TableRead>,
    pub visits: Vec<Visit>,
    /// Instructions executed, in order.
    pub places: Vec<u32>,
    /// Conditional branches: instruction, taken.
    pub branches: Vec<(u32, bool)>,
    pub work: Work,
    /// Cycles of `work` that this packet may not need.
    pub spare: u64,
    /// Bytes of the packet's memory outside of it that matter: offset, byte.
    pub beyond: Vec<(i64, u8)>,
    /// Sizes of the packets after the first.
    pub sizes: Vec<u64>,
    /// Bytes of private and kept memory at the start that matter: the graph's address, byte.
    pub private: Vec<(u64, u8)>,
    /// Where memories begin, by base.
    pub bases: Vec<u64>,
    /// What slots hold at the start.
    pub start: Vec<u64>,
}

/// Makes the witness of a path. `base` is the address of packet byte 0.
pub fn witness(graph: &Graph, dag: &Dag, terms: &mut Terms, found: &Found, base: u64) -> Witness {
    let size = found.size as usize;
    let (mut packet, mut mask, mut beyond) = (vec![0u8; size], vec![0u8; size], Vec::new());
    let mut private = Vec::new();
    let mut set = |address: u64, value: u8| {
        let at = address.wrapping_sub(base) as usize;
        match (packet.get_mut(at), mask.get_mut(at)) {
            (Some(byte), Some(bits)) => (*byte, *bits) = (value, 0xff),
            _ => beyond.push((address.wrapping_sub(base) as i64, value)),
        }
    };
    for (region, address, byte) in terms.given() {
        match graph.regions[region as usize].contents {
            Contents::Packet => set(address, byte),
            Contents::Kept => private.push((address, byte)),
            _ => {}
        }
    }
    for (term, value) in &found.model.values {
        match terms.node(*term) {
            Node::Var(var) => {
                if let Var::Byte { region, address } = terms.var_info(var) {
                    match graph.regions[region as usize].contents {
                        Contents::Packet => set(address, *value as u8),
                        Contents::Private | Contents::Kept => {
                            private.push((address, *value as u8));
                        }
                        _ => {}
                    }
                }
            }
            Node::Load(mem, address) => {
                if let MemNode::Init(region) = terms.mem(mem) {
                    let address = found.model.value(terms, address);
                    match graph.regions[region as usize].contents {
                        Contents::Packet => set(address, *value as u8),
                        Contents::Kept => private.push((address, *value as u8)),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    let mut result = Witness {
        packet,
        mask,
        reads: Vec::new(),
        visits: Vec::new(),
        places: Vec::new(),
        branches: Vec::new(),
        work: found.work,
        spare: 0,
        beyond,
        sizes: Vec::new(),
        private,
        bases: Vec::new(),
        start: dag.start.iter().map(|(_, term)| found.model.value(terms, *term)).collect(),
    };
    for (index, base) in graph.unchecked.iter().flat_map(|unchecked| &unchecked.bases).enumerate() {
        let term = terms.base(index as u32, (base.low, base.high), base.aligned);
        result.bases.push(found.model.value(terms, term));
    }
    for packet in 1..=graph.later {
        let size = terms.packet_size(packet);
        result.sizes.push(found.model.value(terms, size));
    }
    let mut resolver = Resolver::new(dag, &found.path);
    for edge in &found.path {
        let edge = dag.edges[*edge as usize];
        let node = &dag.nodes[edge.from as usize];
        let block = &graph.blocks[node.block.0 as usize];
        for (term, counted) in &node.delays {
            let (term, _) = resolver.term(terms, *term);
            // A byte at an address that the packet decides, and no condition mentions, may be any
            // of the packet's.
            let open = |leaf: &Term| {
                matches!(terms.node(*leaf), Node::Load(..))
                    && !found.model.values.contains_key(leaf)
            };
            let least = match leaves(terms, &[term]).iter().any(open) {
                true => 0,
                false => found.model.value(terms, term),
            };
            result.spare += counted.saturating_sub(least);
        }
        result.spare += node.uncertain;
        let steps = block.steps.iter().take(node.steps).map(|step| step.place);
        let end = block.place.filter(|_| node.steps >= block.steps.len());
        let mut own: Vec<u32> = steps.chain(end).collect();
        own.dedup();
        for read in &node.reads {
            let step = result.places.len()
                + own.iter().position(|place| *place == read.place).unwrap_or(0);
            let (address, _) = resolver.term(terms, read.address);
            let (value, _) = resolver.term(terms, read.value);
            let bytes = usize::from(terms.bits(value).div_ceil(8));
            let value = found.model.value(terms, value).to_le_bytes()[..bytes].to_vec();
            let address = found.model.value(terms, address);
            result.reads.push(TableRead {
                place: read.place,
                step,
                region: read.region,
                address,
                bytes: value,
            });
        }
        result.visits.push(Visit {
            block: node.block.0,
            first: own.first().copied(),
            taken: edge.taken,
        });
        result.places.extend(own);
        if let (Next::Branch { .. }, Some(place)) = (&block.next, block.place) {
            result.branches.push((place, edge.taken));
        }
    }
    result
}

/// Source lines a path visits, in order of their first visit, without repetition.
pub fn lines(graph: &Graph, places: &[u32]) -> Vec<String> {
    let mut seen = HashSet::new();
    let known = places.iter().filter_map(|place| graph.lines.get(*place as usize)?.as_ref());
    known
        .filter(|line| seen.insert((*line).clone()))
        .map(|line| format!("{}:{}", line.file, line.line))
        .collect()
}
