//! One of two programs that are compared.

use nicforge_isa::object::{Map, Program};

use crate::ebpf::Tails;

/// A program with the programs behind it that its tail calls lead to.
#[derive(Clone, Debug)]
pub struct Side {
    pub program: Program,
    pub maps: Vec<Map>,
    pub tails: Tails,
}
