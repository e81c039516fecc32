//! What a run takes: cycles of the processor, and calls of helpers.

use std::collections::BTreeMap;

use super::helper_name;
use crate::object::map_type_name;

/// Something beside the processor's cycles that is paid for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// A call of a helper, as `csum_diff` or `map_lookup_elem hash`.
    Call(String),
    /// A unit of its work: see [`super::world::World`].
    Unit(String),
}

/// How often each item occurs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    pub items: BTreeMap<Item, f64>,
    /// Of the processor, without the helpers' own.
    pub cycles: f64,
}

impl Tally {
    /// Counts a call of a helper, on a map of some type, with so many units of work.
    pub fn call(&mut self, helper: i32, map: Option<u32>, units: f64) {
        let name = helper_name(helper);
        let name = name.strip_prefix("bpf_").unwrap_or(&name);
        let name = match map {
            Some(kind) => format!("{name} {}", map_type_name(kind)),
            None => name.to_string(),
        };
        if units > 0.0 {
            *self.items.entry(Item::Unit(name.clone())).or_default() += units;
        }
        *self.items.entry(Item::Call(name)).or_default() += 1.0;
    }
}
