//! Prices of executed eBPF.

use std::collections::BTreeMap;

use serde::Deserialize;

/// `[bpf]`: cycles of executed eBPF on the first units. `nicforge targets measure` writes it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bpf {
    /// Instructions that enter in a cycle, and those under way at most.
    pub width: f64,
    pub window: f64,
    /// Until a value from L1 is there, a product, a quotient, and what an atomic operation takes.
    pub load: f64,
    pub mul: f64,
    pub div: f64,
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
    /// Instructions of the driver between two packets: they overlap with the program's.
    pub between: f64,
    /// By helper, and type of map where it has one (`map_lookup_elem hash`): cycles of a call, and
    /// of a byte that it goes over; of a level for tries.
    pub helpers: BTreeMap<String, [f64; 2]>,
}
