//! What a run executes, by what it costs: kinds of instructions and calls of helpers.

use std::collections::BTreeMap;

use super::insn::{Insn, LDDW, class};
use super::{LOOP, helper_name};
use crate::object::map_type_name;

/// Something that is paid for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// An instruction of a kind that [`INSTRUCTIONS`] has.
    Instruction(&'static str),
    /// A call of a helper, as `csum_diff` or `map_lookup_elem hash`.
    Call(String),
    /// A unit of its work: see [`super::world::World`].
    Unit(String),
}

/// Kinds of instructions. Conditional jumps are `branch`, and `taken` beside it where they jump.
pub const INSTRUCTIONS: [&str; 10] =
    ["alu", "mul", "div", "load", "store", "atomic", "jump", "branch", "taken", "call"];

/// How often each item occurs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    pub items: BTreeMap<Item, f64>,
    /// Of the processor, without the helpers' own.
    pub cycles: f64,
}

impl Tally {
    fn add(&mut self, item: Item, by: f64) {
        *self.items.entry(item).or_default() += by;
    }

    /// Counts an instruction before it runs. Calls of helpers and ends of programs are no
    /// instructions here.
    pub fn instruction(&mut self, insn: Insn) {
        let kind = match (insn.code & 7, insn.code & 0xf0) {
            (class::ALU | class::ALU64, 0x20) => "mul",
            (class::ALU | class::ALU64, 0x30 | 0x90) => "div",
            (class::ALU | class::ALU64, _) => "alu",
            (class::LD, _) if insn.code == LDDW => "alu",
            (class::LDX, _) => "load",
            (class::STX, _) if insn.code & 0xe0 == 0xc0 => "atomic",
            (class::ST | class::STX, _) => "store",
            (_, 0x80) if insn.src == 1 || insn.imm == LOOP => "call",
            (_, 0x80 | 0x90) => return,
            (_, 0x00) => "jump",
            _ => "branch",
        };
        self.add(Item::Instruction(kind), 1.0);
    }

    /// Counts a conditional jump that was taken.
    pub fn taken(&mut self) {
        self.add(Item::Instruction("taken"), 1.0);
    }

    /// Counts a call of a helper, on a map of some type, with so many units of work.
    pub fn call(&mut self, helper: i32, map: Option<u32>, units: f64) {
        let name = helper_name(helper);
        let name = name.strip_prefix("bpf_").unwrap_or(&name);
        let name = match map {
            Some(kind) => format!("{name} {}", map_type_name(kind)),
            None => name.to_string(),
        };
        self.add(Item::Call(name.clone()), 1.0);
        if units > 0.0 {
            self.add(Item::Unit(name), units);
        }
    }
}
