//! Several entries of a table that one packet changes, all of them shown at once and changed at
//! once.
//!
//! Keys of such a table have an order in which every way asks for them, as if they were asked for
//! in turn. What the table shows is what packets before this one left. What this packet itself has
//! made of an entry under an earlier key is put in here: the entry behind a key is that of the last
//! key before it that is the same and was written, else what the table shows. And of several keys
//! that are the same only the last one that is written changes the table. So nobody needs to know
//! beforehand whether two keys are the same, and packets of other entries need not wait.
//!
//! Tables that hash find places for new entries beside the lookup, a key a cycle
//! (`nf_pipe_hash_entries`), so between an entry and its change lie [`places`] cycles at least.
//! Where byte strings lie by places these are told that late too; keys that are the same are told
//! the same one, so nothing is put in for them here.
//!
//! A chain of `n` keys takes `n` squared halves comparisons of keys, which are there before entries
//! are, and a choice for each link.

use std::collections::{BTreeMap, HashMap};

use super::super::expr::{Wire, mark};
use super::super::shape::number;
use super::super::timing;
use super::dag::Dag;
use super::leave::Commit;
use super::ports::Ports;
use crate::c::names::Names;

/// Cycles from an entry of such a table that hashes to its change, at least, for so many keys.
pub fn places(keys: usize) -> u32 {
    keys as u32 - 1
}

/// What never holds.
const NEVER: &str = "1'b0";

/// Joins the keys of all such tables. Names of signals of entries as tables show them, with those
/// of what they are behind the changes before.
pub fn join(
    dag: &mut Dag,
    names: &mut Names,
    ports: &Ports,
    commits: &mut [Commit],
) -> HashMap<String, String> {
    let mut behind = HashMap::new();
    for commit in commits.iter_mut().filter(|commit| commit.at_once) {
        let form = &dag.tables[commit.table];
        let (signals, key_bits, value_bits) =
            (form.signals.clone(), form.key_bits, form.value_bits);
        let own = ports.list.iter().filter(|port| port.table == commit.table);
        let keys: Vec<String> = own.map(|port| port.key.clone()).collect();
        let mut add = |wanted: &str, width: u32, value: String, delay: u32| {
            let name = names.fresh(wanted);
            dag.wires.push(Wire { name: name.clone(), width, value, delay });
            name
        };
        let (writes, deletes) = (commit.writes.clone(), commit.deletes.clone());
        let changes = |at: usize| writes[at] != NEVER || deletes[at] != NEVER;
        // By key, and by the keys before it that are changed: whether it is the same one.
        let mut same: Vec<BTreeMap<usize, String>> = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            let mut compare = |before: usize| {
                mark(&add(
                    "same",
                    1,
                    format!("{key} == {}", keys[before]),
                    timing::tree(2 * key_bits),
                ))
            };
            same.push(
                (0..at).filter(|at| changes(*at)).map(|before| (before, compare(before))).collect(),
            );
        }
        for (at, end) in commit.ends.iter().enumerate() {
            let (mut hit, mut value, mut count) = (String::new(), String::new(), 0);
            for (before, same) in same[at].iter().rev() {
                let (write, delete) = (&writes[*before], &deletes[*before]);
                if write != NEVER {
                    let taken =
                        mark(&add("taken", 1, format!("{same} && {write}"), timing::CHOOSE));
                    value.push_str(&format!("{taken} ? {} : ", commit.values[*before]));
                    hit.push_str(&format!("{taken} ? 1'b1 : "));
                    count += 1;
                }
                if delete != NEVER {
                    let gone = mark(&add("gone", 1, format!("{same} && {delete}"), timing::CHOOSE));
                    value.push_str(&format!("{gone} ? {} : ", number(value_bits, 0)));
                    hit.push_str(&format!("{gone} ? 1'b0 : "));
                    count += 1;
                }
            }
            // Entries of arrays are always there.
            let fields = [("value", value_bits, value), ("hit", 1, hit)];
            let fields =
                fields.into_iter().take(if dag.tables[commit.table].pipe_hashes() { 2 } else { 1 });
            for (field, width, text) in fields.filter(|_| count > 0) {
                let shown = format!("{signals}_{field}{end}");
                let text = format!("{text}{}", mark(&shown));
                behind.insert(shown, add("behind", width, text, timing::mux(2 * count + 1)));
            }
        }
        // The last one of the same number changes the table.
        for at in (0..keys.len()).filter(|at| changes(*at)) {
            let mut but = String::new();
            let mut count = 1;
            for later in at + 1..keys.len() {
                let either: Vec<&str> = [&writes[later], &deletes[later]]
                    .into_iter()
                    .map(String::as_str)
                    .filter(|one| *one != NEVER)
                    .collect();
                if let (Some(same), false) = (same[later].get(&at), either.is_empty()) {
                    let value = format!("{same} && ({})", either.join(" || "));
                    but.push_str(&format!(
                        " && !{}",
                        mark(&add("later", 1, value, timing::CHOOSE))
                    ));
                    count += 1;
                }
            }
            for (wanted, signal) in
                [("write", &mut commit.writes[at]), ("delete", &mut commit.deletes[at])]
            {
                if signal != NEVER && count > 1 {
                    *signal = mark(&add(wanted, 1, format!("{signal}{but}"), timing::tree(count)));
                }
            }
        }
    }
    behind
}
