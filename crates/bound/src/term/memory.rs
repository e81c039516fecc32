//! Byte memories: stores on top of initial contents, and loads that walk past stores which cannot
//! matter.

use super::{Facts, MOST_CHOICES, Mem, MemNode, Node, Term, Terms, Var};

impl Terms {
    pub(super) fn intern_mem(&mut self, node: MemNode) -> Mem {
        if let Some(mem) = self.known_mems.get(&node) {
            return *mem;
        }
        let mem = Mem(self.mems.len() as u32);
        self.mems.push(node);
        self.known_mems.insert(node, mem);
        mem
    }

    /// A region's initial contents.
    pub fn initial(&mut self, region: u32) -> Mem {
        self.intern_mem(MemNode::Init(region))
    }

    /// A memory that differs by the edge into `node`.
    pub fn mem_phi(&mut self, node: u32, index: u32, operands: Vec<Mem>) -> Mem {
        self.operands.insert((node, index), operands);
        self.intern_mem(MemNode::Phi { node, index })
    }

    /// A memory with one byte replaced.
    pub fn store(&mut self, mem: Mem, address: Term, byte: Term) -> Mem {
        if let MemNode::Store(below, at, _) = self.mem(mem)
            && at == address
        {
            return self.store(below, address, byte);
        }
        self.intern_mem(MemNode::Store(mem, address, byte))
    }

    /// A byte of a memory.
    pub fn load(&mut self, mut mem: Mem, address: Term) -> Term {
        loop {
            match self.mem(mem) {
                MemNode::Store(below, at, byte) => {
                    if at == address {
                        return byte;
                    }
                    if !self.differ(at, address) {
                        break;
                    }
                    mem = below;
                }
                MemNode::Init(region) => {
                    if let Some(address) = self.value(address) {
                        if let Some(byte) = self.given.get(&(region, address)) {
                            return self.constant(8, (*byte).into());
                        }
                        return self.variable(Var::Byte { region, address }, Self::unknown(8));
                    }
                    if let Some(byte) = self.choose_given(region, mem, address) {
                        return byte;
                    }
                    break;
                }
                MemNode::Phi { node, index } => {
                    if let Some(known) = self.loads.get(&(mem, address)) {
                        return *known;
                    }
                    // What no way changed is the same on all of them.
                    let operands = self.operands.get(&(node, index)).cloned().unwrap_or_default();
                    let mut values = operands
                        .iter()
                        .map(|operand| self.load(*operand, address))
                        .collect::<Vec<_>>();
                    values.dedup();
                    let load = match values[..] {
                        [value] => value,
                        _ => self.intern(Node::Load(mem, address), Self::unknown(8)),
                    };
                    self.loads.insert((mem, address), load);
                    return load;
                }
            }
        }
        self.intern(Node::Load(mem, address), Self::unknown(8))
    }

    /// A byte of given contents at an address that may be several, as a choice by address.
    pub(super) fn choose_given(&mut self, region: u32, mem: Mem, address: Term) -> Option<Term> {
        let Facts { bits, zeros, ones, low, high } = self.facts(address);
        let possible = high.checked_sub(low).filter(|more| *more < MOST_CHOICES)?;
        if let Some(known) = self.loads.get(&(mem, address)) {
            return Some(*known);
        }
        let candidates = (low..=low + possible).filter(|at| at & zeros == 0 && !at & ones == 0);
        let bytes: Option<Vec<(u64, u8)>> =
            candidates.map(|at| Some((at, *self.given.get(&(region, at))?))).collect();
        let mut bytes = bytes?;
        let (_, last) = bytes.pop()?;
        let mut value = self.constant(8, last.into());
        for (at, byte) in bytes.into_iter().rev() {
            let (at, byte) = (self.constant(bits, at), self.constant(8, byte.into()));
            let hit = self.eq(address, at);
            value = self.ite(hit, byte, value);
        }
        self.loads.insert((mem, address), value);
        Some(value)
    }

    /// A byte of a memory without phis, stores that may or may not matter written out as choices.
    pub fn load_resolved(&mut self, mem: Mem, address: Term) -> Term {
        let load = self.load(mem, address);
        let Node::Load(at, _) = self.node(load) else { return load };
        let MemNode::Store(below, target, byte) = self.mem(at) else { return load };
        let (hit, rest) = (self.eq(target, address), self.load_resolved(below, address));
        self.ite(hit, byte, rest)
    }
}
