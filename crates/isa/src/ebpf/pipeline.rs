//! Time of a run on a processor that executes out of order.
//!
//! Instructions enter in order, so many a cycle, and start when their operands are there; what a
//! store wrote is an operand of loads from there. They leave in order, and no more are under way
//! than the window holds, across packets too. Branches are predicted, and lines of maps' memory are
//! in L1 or in L2. It is the model of llvm-mca with fewer kinds of ports. The
//! kernel's compilers turn nearly every eBPF instruction into one of the processor's.

use std::collections::{HashMap, VecDeque};

use super::insn::{Insn, LDDW, SOURCE_REGISTER, class};
use super::predictor::{Cache, Predictor};

/// What a processor does in how many cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Processor {
    /// Instructions that enter in a cycle, and those under way at most.
    pub width: f64,
    pub window: f64,
    /// Until a value from L1 is there, or one that was just stored.
    pub load: f64,
    pub mul: f64,
    pub div: f64,
    /// An atomic operation, which waits for all before it.
    pub atomic: f64,
    /// Between two stores at least, between two conditional jumps, and more where one is taken.
    pub store: f64,
    pub branch: f64,
    pub taken: f64,
    /// A call of another function, and the way back.
    pub call: f64,
    /// Lost where a branch was not predicted.
    pub mispredict: f64,
    /// Until a value from L2 is there, and the size of L1.
    pub l2: f64,
    pub l1_kib: f64,
    /// Instructions of the caller between two packets.
    pub between: f64,
}

/// Words that are remembered between packets, at most.
const MOST_STORED: usize = 4096;

/// A processor at work.
#[derive(Clone, Debug)]
pub struct Pipeline {
    processor: Processor,
    /// When the next instruction may enter, the next store and the next jump.
    entry: f64,
    store: f64,
    branch: f64,
    /// When the last jump was decided.
    jumped: f64,
    /// When each register's value is there, and each double word of memory that was stored to.
    registers: [f64; 11],
    memory: HashMap<u64, f64>,
    /// When those under way leave.
    leaving: VecDeque<f64>,
    cache: Cache,
    predictor: Predictor,
    /// Where counting began.
    since: f64,
}

impl Pipeline {
    /// An idle processor.
    pub fn new(processor: Processor) -> Pipeline {
        Pipeline {
            processor,
            entry: 0.0,
            store: 0.0,
            branch: 0.0,
            jumped: 0.0,
            registers: [0.0; 11],
            memory: HashMap::new(),
            leaving: VecDeque::new(),
            cache: Cache::new(processor.l1_kib),
            predictor: Predictor::new(),
            since: 0.0,
        }
    }

    /// Begins with a packet, behind what its caller does: it has the packet's lines in L1.
    pub fn begin(&mut self, lines: std::ops::Range<u64>) {
        for line in lines {
            self.cache.touch(line);
        }
        for _ in 0..self.processor.between as u32 {
            let done = self.start(0.0) + 1.0;
            self.leave(done);
        }
        // They are no part of the time.
        self.since += self.processor.between / self.processor.width;
        self.registers.fill(self.entry);
        // What maps hold is waited for across packets; what was written long ago is there.
        if self.memory.len() > MOST_STORED {
            self.memory.clear();
        }
    }

    /// Cycles since the last time, without those of callers.
    pub fn take(&mut self) -> f64 {
        let cycles = self.entry - self.since;
        self.since = self.entry;
        cycles
    }

    fn ready(&self, register: u8) -> f64 {
        self.registers[usize::from(register).min(10)]
    }

    /// Enters an instruction: when it starts.
    fn start(&mut self, operands: f64) -> f64 {
        let full = self.leaving.len() >= self.processor.window as usize;
        let room = if full { self.leaving.pop_front().unwrap_or(0.0) } else { 0.0 };
        self.entry = self.entry.max(room) + 1.0 / self.processor.width;
        self.entry.max(operands)
    }

    fn leave(&mut self, done: f64) {
        let last = self.leaving.back().copied().unwrap_or(0.0);
        self.leaving.push_back(last.max(done));
    }

    /// Executes an instruction, with the address where it accesses memory; `near` is memory that is
    /// always in L1.
    pub fn step(&mut self, insn: Insn, address: Option<u64>, near: bool) {
        let Processor { load, mul, div, atomic, store, branch, .. } = self.processor;
        let (dst, src) = (insn.dst, insn.src);
        let second = if insn.code & SOURCE_REGISTER != 0 { self.ready(src) } else { 0.0 };
        let word = address.unwrap_or(0) >> 3;
        let there = near || address.is_none() || self.cache.touch(word >> 3);
        let load = if there { load } else { self.processor.l2 };
        match (insn.code & 7, insn.code & 0xf0) {
            (class::LD, _) if insn.code == LDDW => self.result(dst, 0.0, 1.0),
            (class::LDX, _) => {
                let stored = self.memory.get(&word).copied().unwrap_or(0.0);
                let operands = self.ready(src).max(stored);
                self.result(dst, operands, load);
            }
            (class::STX, _) if insn.code & 0xe0 == 0xc0 => {
                let older = self.leaving.back().copied().unwrap_or(0.0);
                let done = self.start(older.max(self.ready(src))) + atomic;
                self.entry = self.entry.max(done);
                self.memory.insert(word, done);
                self.leave(done);
            }
            (class::ST | class::STX, _) => {
                let data = if insn.code & 7 == class::STX { self.ready(src) } else { 0.0 };
                let done = self.start(data.max(self.ready(dst)).max(self.store)) + 1.0;
                self.store = self.store.max(self.entry) + store;
                self.memory.insert(word, done);
                self.leave(done);
            }
            (class::ALU | class::ALU64, 0xb0) => self.result(dst, second, 1.0),
            (class::ALU | class::ALU64, kind) => {
                let time = match kind {
                    0x20 => mul,
                    0x30 | 0x90 => div,
                    _ => 1.0,
                };
                self.result(dst, self.ready(dst).max(second), time);
            }
            (_, 0x80) => self.entry += self.processor.call,
            // Jumps.
            _ => {
                let done = self.start(self.ready(dst).max(second).max(self.branch)) + 1.0;
                self.branch = self.branch.max(self.entry) + branch;
                self.jumped = done;
                self.leave(done);
            }
        }
    }

    fn result(&mut self, register: u8, operands: f64, time: f64) {
        let done = self.start(operands) + time;
        self.registers[usize::from(register).min(10)] = done;
        self.leave(done);
    }

    /// Goes one way at a conditional jump, behind its instruction.
    pub fn jump(&mut self, place: usize, taken: bool) {
        if taken {
            self.branch += self.processor.taken;
        }
        if !self.predictor.update(place, taken) {
            let done = self.jumped;
            self.entry = self.entry.max(done) + self.processor.mispredict;
        }
    }

    /// Waits for lines of memory one behind the other, where they are not in L1.
    pub fn lines(&mut self, lines: &[u64]) {
        let missing = lines.iter().filter(|line| !self.cache.touch(**line)).count();
        let more = (self.processor.l2 - self.processor.load).max(0.0);
        self.entry += missing as f64 * more;
    }

    /// When a helper's arguments are there, with the key that one points to.
    fn arguments(&self, key: u64) -> f64 {
        let stored = self.memory.get(&(key >> 3)).copied().unwrap_or(0.0);
        (1..6).map(|register| self.ready(register)).fold(stored, f64::max)
    }

    /// Looks an array's entry up, which the kernel's compilers put in place: the key is loaded, and
    /// some instructions follow one behind the other.
    pub fn index(&mut self, key: u64) {
        let mut done = self.start(self.arguments(key)) + self.processor.load;
        self.leave(done);
        for _ in 0..4 {
            done = self.start(done) + 1.0;
            self.leave(done);
        }
        self.registers[0] = done;
    }

    /// Calls a helper: what comes behind starts behind its arguments. Its own time is not counted.
    pub fn call(&mut self, key: u64) {
        let arguments = self.arguments(key);
        self.entry = self.entry.max(arguments);
        self.registers[..6].fill(self.entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Processor = Processor {
        width: 4.0,
        window: 64.0,
        load: 5.0,
        mul: 3.0,
        div: 20.0,
        atomic: 18.0,
        store: 0.5,
        branch: 0.5,
        taken: 0.0,
        call: 4.0,
        mispredict: 15.0,
        l2: 14.0,
        l1_kib: 48.0,
        between: 0.0,
    };

    fn insn(code: u8, dst: u8, src: u8) -> Insn {
        Insn { code, dst, src, off: 0, imm: 1 }
    }

    /// Cycles of one instruction among many of them.
    fn each(insns: &[(Insn, Option<u64>)]) -> f64 {
        let mut pipeline = Pipeline::new(PLAIN);
        for (insn, address) in insns.iter().cycle().take(4000) {
            pipeline.step(*insn, *address, true);
        }
        pipeline.take() / 4000.0
    }

    fn near(found: f64, wanted: f64) {
        assert!((found / wanted - 1.0).abs() < 0.05, "{found} for {wanted}");
    }

    #[test]
    fn what_waits_for_nothing_is_as_fast_as_it_enters() {
        let add = |register| (insn(0x07, register, 0), None);
        near(each(&[add(0), add(1), add(2), add(3), add(4), add(5), add(6)]), 0.25);
        // r0 += 1, one behind the other; a product.
        near(each(&[add(0)]), 1.0);
        near(each(&[(insn(0x27, 0, 0), None)]), 3.0);
        // Two stores a cycle.
        near(each(&[(insn(0x7b, 10, 1), Some(64))]), 0.5);
    }

    #[test]
    fn what_was_stored_is_waited_for() {
        let (store, load) = (insn(0x7b, 10, 0), insn(0x79, 0, 10));
        near(each(&[(store, Some(64)), (load, Some(64))]), 3.0);
        near(each(&[(store, Some(64)), (load, Some(128))]), 0.25);
    }

    #[test]
    fn packets_overlap_within_the_window() {
        let chain = |window: f64| {
            let mut pipeline = Pipeline::new(Processor { window, between: 100.0, ..PLAIN });
            for _ in 0..50 {
                pipeline.begin(0..2);
                (0..32).for_each(|_| pipeline.step(insn(0x07, 0, 0), None, true));
            }
            pipeline.take() / 50.0
        };
        // 32 cycles one behind the other, of which the window hides all or nothing.
        near(chain(400.0), 8.0);
        assert!(chain(16.0) > 20.0, "{}", chain(16.0));
    }

    #[test]
    fn a_misprediction_costs_once() {
        let mut pipeline = Pipeline::new(PLAIN);
        let mut random = nicforge_util::Random::new(3);
        let mut jumps = |taken: &mut dyn FnMut() -> bool| {
            for _ in 0..4000 {
                pipeline.step(insn(0x15, 1, 0), None, true);
                pipeline.jump(3, taken());
            }
            pipeline.take() / 4000.0
        };
        jumps(&mut || true);
        near(jumps(&mut || true), 0.5);
        let lost = jumps(&mut || random.next() & 1 == 0);
        assert!((7.0..9.5).contains(&lost), "{lost}");
    }
}
