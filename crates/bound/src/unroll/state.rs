//! One state from several: equal values stay, others become phis; of what was known the weaker part
//! holds.

use super::conditions::bounds;
use super::{Node, State};
use crate::hash::HashMap;
use crate::term::{Mem, Op, Term, Terms};

/// A byte of private memory: byte `at` of a value. Addresses come back from memory as what they
/// were, which their bytes do not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    pub whole: Term,
    pub at: u8,
}

impl Cell {
    pub fn byte(self, terms: &mut Terms) -> Term {
        terms.extract(self.whole, 8 * self.at, 8)
    }
}

/// One state from several: equal values stay, others become phis.
pub(super) fn merge(
    terms: &mut Terms,
    id: u32,
    node: &mut Node,
    arrivals: &[(Option<u32>, &State)],
) -> State {
    let (_, first) = arrivals[0];
    if arrivals.len() == 1 {
        return first.clone();
    }
    let mut made: HashMap<Vec<Term>, Term> = HashMap::default();
    let mut join = |terms: &mut Terms, node: &mut Node, values: Vec<Term>| {
        if values.iter().all(|value| *value == values[0]) {
            return values[0];
        }
        if let Some(phi) = made.get(&values) {
            return *phi;
        }
        // Addresses in one memory stay addresses in it.
        let parts: Option<Vec<_>> = values.iter().map(|value| terms.strip(*value)).collect();
        let parts = parts.filter(|parts| parts.iter().all(|(base, _)| *base == parts[0].0));
        let original = values.clone();
        let (base, values) = match parts {
            Some(parts) => {
                (terms.base_of(values[0]), parts.into_iter().map(|(_, rest)| rest).collect())
            }
            None => (None, values),
        };
        // What conditions said of the values on their ways holds for the choice between them.
        let spans =
            values.iter().zip(arrivals).map(|(value, (_, state))| bounds(terms, state, *value));
        let (low, high) = spans
            .fold((u64::MAX, 0), |(low, high), (least, most)| (low.min(least), high.max(most)));
        let phi = terms.phi(id, node.phis.len() as u32, terms.bits(values[0]), (low, high));
        node.phis.push(values.clone());
        let phi = match base {
            Some(base) => terms.binary(Op::Add, base, phi),
            None => phi,
        };
        made.insert(original, phi);
        phi
    };
    let mut state = first.clone();
    for (slot, value) in state.slots.iter_mut().enumerate() {
        // A slot that is unknown on one way is unknown.
        let values: Option<Vec<Term>> =
            arrivals.iter().map(|(_, state)| state.slots[slot]).collect();
        *value = values.map(|values| join(terms, node, values));
    }
    state.lost = arrivals.iter().any(|(_, state)| state.lost);
    state
        .cells
        .retain(|address, _| arrivals.iter().all(|(_, state)| state.cells.contains_key(address)));
    for (address, cell) in &mut state.cells {
        let cells: Vec<Cell> = arrivals.iter().map(|(_, state)| state.cells[address]).collect();
        let alike =
            |other: &Cell| other.at == cell.at && terms.bits(other.whole) == terms.bits(cell.whole);
        if cells.iter().all(alike) {
            cell.whole = join(terms, node, cells.iter().map(|cell| cell.whole).collect());
        } else {
            let bytes = cells.iter().map(|cell| cell.byte(terms)).collect();
            *cell = Cell { whole: join(terms, node, bytes), at: 0 };
        }
    }
    for (region, mem) in state.mems.iter_mut().enumerate() {
        let mems: Vec<Mem> = arrivals.iter().filter_map(|(_, state)| state.mems[region]).collect();
        if mems.len() < arrivals.len() {
            // Unknown on one way is unknown.
            *mem = None;
        } else if mems.iter().any(|other| Some(*other) != *mem) {
            *mem = Some(terms.mem_phi(id, node.mem_phis.len() as u32, mems.clone()));
            node.mem_phis.push(mems);
        }
    }
    for (_, other) in &arrivals[1..] {
        state.bounds.retain(|term, (low, high)| match other.bounds.get(term) {
            Some((least, most)) => {
                (*low, *high) = ((*low).min(*least), (*high).max(*most));
                true
            }
            None => false,
        });
        state.assumed.retain(|term| other.assumed.binary_search(term).is_ok());
    }
    state
}
