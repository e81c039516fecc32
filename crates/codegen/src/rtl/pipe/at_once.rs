//! Several entries of a table that one packet changes, all of them shown at once and changed at once.
//!
//! Keys of such a table have an order in which every way asks for them, as if they were asked for in turn. What the table shows is what
//! packets before this one left. What this packet itself has made of an entry under an earlier key is put in here: the entry behind a key is that of
//! the last key before it that is the same and was written, else what the table shows. And of several keys that are the same only the last
//! one that is written changes the table. So nobody needs to know beforehand whether two keys are the same, and packets of other entries need not wait.
//!
//! A chain of `n` keys takes `n` squared halves comparisons of keys, which are there before entries are, and a choice for each link.

use std::collections::HashMap;

use super::super::expr::{Wire, mark};
use super::super::timing;
use super::dag::Dag;
use super::leave::Commit;
use super::ports::Ports;
use crate::c::names::Names;

/// What never holds.
const NEVER: &str = "1'b0";

/// Joins the keys of all such tables. Names of signals of entries as tables show them, with those of what they are behind the changes before.
pub fn join(
    dag: &mut Dag,
    names: &mut Names,
    ports: &Ports,
    commits: &mut [Commit],
) -> HashMap<String, String> {
    let mut behind = HashMap::new();
    for commit in commits.iter_mut().filter(|commit| commit.at_once) {
        let (signals, width) = {
            let form = &dag.tables[commit.table];
            (form.signals.clone(), form.value_bits)
        };
        let own = ports.list.iter().filter(|port| port.table == commit.table);
        let keys: Vec<String> = own.map(|port| port.key.clone()).collect();
        let key_bits = dag.tables[commit.table].key_bits;
        let mut add = |wanted: &str, width: u32, value: String, delay: u32| {
            let name = names.fresh(wanted);
            dag.wires.push(Wire { name: name.clone(), width, value, delay });
            mark(&name)
        };
        let written: Vec<String> = commit.writes.clone();
        // Per key, by the keys before it: it is the same one, and that was written.
        let mut same: Vec<Vec<Option<String>>> = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            let mut with = |before: usize| {
                (written[before] != NEVER)
                    .then(|| add("same", 1, format!("{key} == {}", keys[before]), timing::tree(2 * key_bits)))
            };
            same.push((0..at).map(&mut with).collect());
        }
        for (at, end) in commit.ends.iter().enumerate() {
            let shown = format!("{signals}_value{end}");
            let mut text = String::new();
            let mut count = 0;
            for (before, same) in same[at].iter().enumerate().rev() {
                let Some(same) = same else { continue };
                let taken = add("taken", 1, format!("{same} && {}", written[before]), timing::CHOOSE);
                text.push_str(&format!("{taken} ? {} : ", commit.values[before]));
                count += 1;
            }
            if count > 0 {
                text.push_str(&mark(&shown));
                let name = add("behind", width, text, timing::mux(2 * count + 1));
                behind.insert(shown, name.trim_matches(['‹', '›']).to_string());
            }
        }
        // The last one of the same number changes the table.
        for before in 0..keys.len() {
            if written[before] == NEVER {
                continue;
            }
            let later = (before + 1..keys.len()).filter(|at| written[*at] != NEVER);
            let but: Vec<String> = later
                .filter_map(|at| {
                    let same = same[at][before].clone()?;
                    Some(add("later", 1, format!("{same} && {}", written[at]), timing::CHOOSE))
                })
                .collect();
            if !but.is_empty() {
                let text = format!("{} && !{}", written[before], but.join(" && !"));
                commit.writes[before] = add("write", 1, text, timing::tree(1 + but.len() as u32));
            }
        }
    }
    behind
}
