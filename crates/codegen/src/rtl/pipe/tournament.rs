//! The least of many values, side by side instead of one behind the other.
//!
//! A loop that looks for the least element, written out, is a chain: each step compares one more
//! value with the least so far, and keeps it and its index, or not. In hardware that is as long as
//! there are elements. `x < least ? x : least`, and what is chosen along with it under the same
//! condition, is associative (a later value wins if it is strictly less), so the chain may be a
//! tree. Here it is a tree of groups of four, in each of which all pairs are compared at once: two
//! levels where pairs would need three, for half as many more comparators.
//!
//! Chains are found in the wires, whatever the program looked like: a step is `C ? X : M` where `C`
//! is `X < M`, and `M` is a step or the start.

use std::collections::{BTreeMap, HashMap};

use super::super::expr::{Wire, mark};
use super::super::timing;
use crate::c::names::Names;

/// Steps from which on a tree is shorter.
const SHORTEST: usize = 4;
/// Values that are compared with each other at once.
const GROUP: usize = 4;

/// One step of a chain of choices: `cond ? new : old`.
#[derive(Clone, Debug)]
struct Step {
    cond: String,
    new: String,
    old: String,
}

struct Finder<'a> {
    wires: HashMap<&'a str, &'a Wire>,
}

impl Finder<'_> {
    /// The text of a signal or constant, followed through wires that only pass it on.
    fn source(&self, text: &str) -> String {
        let mut text = text.to_string();
        while let Some(name) = single(&text)
            && let Some(wire) = self.wires.get(name)
            && (single(&wire.value).is_some() || is_number(&wire.value))
        {
            text = wire.value.clone();
        }
        text
    }

    fn step(&self, wire: &Wire) -> Option<Step> {
        let (cond, rest) = wire.value.split_once(" ? ")?;
        let (new, old) = rest.split_once(" : ")?;
        let plain = |text: &str| single(text).is_some() || is_number(text);
        (plain(cond) && plain(new) && plain(old)).then(|| Step {
            cond: self.source(cond),
            new: self.source(new),
            old: self.source(old),
        })
    }

    /// True if a step keeps the lesser of its values.
    fn keeps_least(&self, step: &Step) -> bool {
        let compared = single(&step.cond).and_then(|name| self.wires.get(name));
        let sides = compared.and_then(|wire| wire.value.split_once(" < "));
        sides.is_some_and(|(a, b)| self.source(a) == step.new && self.source(b) == step.old)
    }
}

/// The name in an expression that is nothing else.
fn single(text: &str) -> Option<&str> {
    let name = text.strip_prefix('‹')?.strip_suffix('›')?;
    (!name.contains('‹')).then_some(name)
}

fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit()) && !text.contains(' ')
}

/// A chain: names of its last wires (the least value first), and what each starts from and is
/// offered, in order.
struct Chain {
    ends: Vec<String>,
    rows: Vec<Vec<String>>,
}

fn chains(wires: &[Wire]) -> Vec<Chain> {
    let finder = Finder { wires: wires.iter().map(|wire| (wire.name.as_str(), wire)).collect() };
    let steps: BTreeMap<String, (String, Step)> = wires
        .iter()
        .filter_map(|wire| Some((mark(&wire.name), (wire.name.clone(), finder.step(wire)?))))
        .collect();
    let least: BTreeMap<&String, &Step> = steps
        .iter()
        .map(|(text, (_, step))| (text, step))
        .filter(|(_, step)| finder.keeps_least(step))
        .collect();
    let mut found = Vec::new();
    for (end, step) in &least {
        if least.values().any(|other| other.old == **end) {
            continue;
        }
        // Back to the start.
        let (mut conds, mut values) = (vec![step.cond.clone()], vec![step.new.clone()]);
        let mut old = &step.old;
        while let Some(before) = least.get(old) {
            conds.push(before.cond.clone());
            values.push(before.new.clone());
            old = &before.old;
        }
        if conds.len() < SHORTEST {
            continue;
        }
        values.push(old.clone());
        values.reverse();
        let mut chain = Chain { ends: vec![steps[*end].0.clone()], rows: vec![values] };
        // What is chosen along with the least, under the same conditions.
        for (text, (name, first)) in &steps {
            if first.cond != conds[0] || text == *end {
                continue;
            }
            let mut row = vec![first.new.clone()];
            let mut old = first.old.clone();
            for cond in &conds[1..] {
                let Some((_, step)) = steps.get(&old).filter(|(_, step)| step.cond == *cond) else {
                    break;
                };
                row.push(step.new.clone());
                old.clone_from(&step.old);
            }
            if row.len() == conds.len() {
                row.push(old);
                row.reverse();
                chain.ends.push(name.clone());
                chain.rows.push(row);
            }
        }
        found.push(chain);
    }
    found
}

/// Makes trees of all chains.
pub fn trees(wires: &mut Vec<Wire>, names: &mut Names) {
    for chain in chains(wires) {
        let widths: Vec<u32> = chain
            .ends
            .iter()
            .map(|end| wires.iter().find(|wire| wire.name == *end).map_or(1, |wire| wire.width))
            .collect();
        let mut made = Vec::new();
        let mut add = |wanted: &str, width: u32, value: String, delay: u32| {
            let name = names.fresh(wanted);
            made.push(Wire { name: name.clone(), width, value, delay });
            mark(&name)
        };
        let mut rows = chain.rows;
        while rows[0].len() > 1 {
            let count = rows[0].len();
            let mut next: Vec<Vec<String>> = vec![Vec::new(); rows.len()];
            for start in (0..count).step_by(GROUP) {
                let group: Vec<usize> = (start..(start + GROUP).min(count)).collect();
                // less[(a, b)]: b, which comes later, is less than a.
                let mut less = HashMap::new();
                for (at, a) in group.iter().enumerate() {
                    for b in &group[at + 1..] {
                        let value = format!("{} < {}", rows[0][*b], rows[0][*a]);
                        let delay = timing::cmp(nicforge_ir::CmpOp::Lt, widths[0]);
                        less.insert((*a, *b), add("less", 1, value, delay));
                    }
                }
                let wins: Vec<String> = group
                    .iter()
                    .map(|me| {
                        let terms: Vec<String> = group
                            .iter()
                            .filter(|other| *other != me)
                            .map(|other| match other < me {
                                true => less[&(*other, *me)].clone(),
                                false => format!("!{}", less[&(*me, *other)]),
                            })
                            .collect();
                        let delay = timing::tree(terms.len() as u32);
                        let value =
                            if terms.is_empty() { "1'b1".to_string() } else { terms.join(" && ") };
                        add("wins", 1, value, delay)
                    })
                    .collect();
                for (row, (values, width)) in next.iter_mut().zip(rows.iter().zip(&widths)) {
                    let terms: Vec<String> = group
                        .iter()
                        .zip(&wins)
                        .map(|(at, win)| format!("({{{width}{{{win}}}}} & {})", values[*at]))
                        .collect();
                    let delay = timing::tree(2 * terms.len() as u32);
                    row.push(add("best", *width, terms.join(" | "), delay));
                }
            }
            rows = next;
        }
        for (end, row) in chain.ends.iter().zip(rows) {
            if let Some(wire) = wires.iter_mut().find(|wire| wire.name == *end) {
                wire.value.clone_from(&row[0]);
                wire.delay = 0;
            }
        }
        wires.extend(made);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(name: &str, value: &str) -> Wire {
        Wire { name: name.into(), width: 8, value: value.into(), delay: 400 }
    }

    /// Six values one behind the other: with their indices they become one tree; five would not be
    /// found under another comparison.
    #[test]
    fn chains_of_the_least_are_found_with_their_indices() {
        let mut wires = vec![wire("m0", "‹x0›"), wire("i0", "8'h0")];
        for k in 1..6 {
            wires.push(wire(&format!("c{k}"), &format!("‹x{k}› < ‹m{}›", k - 1)));
            wires.push(wire(&format!("m{k}"), &format!("‹c{k}› ? ‹x{k}› : ‹m{}›", k - 1)));
            wires.push(wire(&format!("i{k}"), &format!("‹c{k}› ? 8'h{k} : ‹i{}›", k - 1)));
        }
        let found = chains(&wires);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].ends, ["m5", "i5"]);
        assert_eq!(found[0].rows[0], ["‹x0›", "‹x1›", "‹x2›", "‹x3›", "‹x4›", "‹x5›"]);
        assert_eq!(found[0].rows[1], ["8'h0", "8'h1", "8'h2", "8'h3", "8'h4", "8'h5"]);
        trees(&mut wires, &mut Names::new([]));
        let end = wires.iter().find(|wire| wire.name == "m5").map(|wire| wire.value.as_str());
        assert!(end.is_some_and(|value| value.starts_with("‹best")), "{end:?}");
        let mut greatest = wires.clone();
        greatest.truncate(2);
        greatest.push(wire("c1", "‹m0› < ‹x1›"));
        greatest.push(wire("m1", "‹c1› ? ‹x1› : ‹m0›"));
        assert!(chains(&greatest).is_empty());
    }
}
