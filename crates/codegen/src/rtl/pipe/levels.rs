//! How many gates lie in front of what is asked.
//!
//! Where packets wait only for those of the same entry of a table, its keys must be known in front
//! of a gate (`gate`), and the table is asked behind it. What says these keys is asked in front of
//! that gate then, and if it is a table of that kind too, behind a gate of its own. So a *level*,
//! the number of gates in front, is the longest way from one such table's keys to the next one's,
//! and everything else has the highest level that those who need it allow: what nobody needs for a
//! key lies behind all gates, where it holds nobody up.
//!
//! Tables that decide about each other have one level. A key among them that depends on what they
//! say is no pipe (`schedule`).

use std::collections::{BTreeSet, HashMap};

use super::super::expr::{Wire, used};
use super::dag::{Access, Dag};
use super::leave::Commit;
use super::order::{self, Group, cone};
use super::ports::Port;

/// Levels of all that is asked.
#[derive(Clone, Debug, Default)]
pub struct Levels {
    /// The highest: how many gates there are.
    pub gates: usize,
    /// By name of an answer; others have the highest.
    of: HashMap<String, usize>,
}

/// A group of `order`, by what it needs: names below the keys that its gate compares, and below
/// everything else.
struct Needs {
    answers: Vec<String>,
    compared: BTreeSet<String>,
    other: BTreeSet<String>,
    gated: bool,
}

/// Tables of whose byte strings packets read what others append, by number.
pub fn string_tables(dag: &Dag) -> impl Iterator<Item = usize> {
    let both =
        |(_, access): &(usize, &Access)| !access.read.is_empty() && !access.stored.is_empty();
    dag.access.iter().enumerate().filter(both).map(|(table, _)| table)
}

impl Levels {
    /// Finds them; `told_apart` are tables whose packets wait for those of the same entry only, and
    /// of byte strings that are waited for readers wait in a gate in any case.
    pub fn of(
        dag: &Dag,
        wires: &HashMap<&str, &Wire>,
        (ports, commits): (&[Port], &[Commit]),
        told_apart: &BTreeSet<usize>,
    ) -> Levels {
        let below = |texts: Vec<&str>| -> BTreeSet<String> {
            cone(wires, texts.into_iter().flat_map(used)).into_iter().map(String::from).collect()
        };
        let strings: BTreeSet<usize> = string_tables(dag).collect();
        let needs = |group: &Group| {
            let (tables, fixed): (&[usize], Vec<usize>) = match group {
                Group::Fixed(port) => (&[], vec![*port]),
                Group::Changed(tables, between) => (tables, between.clone()),
            };
            let own = |port: &&Port| !port.fixed && tables.contains(&port.table);
            let changed = || ports.iter().filter(own);
            let compared = changed().filter(|port| told_apart.contains(&port.table));
            let others = changed().filter(|port| !told_apart.contains(&port.table));
            let fixed = || fixed.iter().map(|port| &ports[*port]);
            let deciding = commits.iter().filter(|commit| tables.contains(&commit.table));
            let other = others.chain(fixed()).map(|port| port.key.as_str());
            let other = other.chain(deciding.flat_map(Commit::deciding).map(String::as_str));
            Needs {
                answers: changed().chain(fixed()).flat_map(|port| port.answers(dag)).collect(),
                compared: below(compared.map(|port| port.key.as_str()).collect()),
                other: below(other.collect()),
                gated: tables
                    .iter()
                    .any(|table| told_apart.contains(table) || strings.contains(table)),
            }
        };
        let groups: Vec<Needs> =
            order::order(dag, wires, ports, commits).iter().map(needs).collect();
        // The fewest gates in front of each group, in their order.
        let mut fewest: HashMap<&str, usize> = HashMap::new();
        for group in &groups {
            let most = |names: &BTreeSet<String>| {
                names
                    .iter()
                    .filter_map(|name| fewest.get(name.as_str()).copied())
                    .max()
                    .unwrap_or(0)
            };
            let level = (most(&group.compared) + 1).min(if group.gated { usize::MAX } else { 0 });
            let level = level.max(most(&group.other));
            fewest.extend(group.answers.iter().map(|name| (name.as_str(), level)));
        }
        let gates = fewest.values().copied().max().unwrap_or(0);
        let mut levels = Levels { gates, of: HashMap::new() };
        for group in groups.iter().rev() {
            let level = group.answers.iter().map(|name| levels.level(name)).min().unwrap_or(gates);
            levels.at_most(level, &group.answers);
            levels.at_most(level, &group.other);
            levels.at_most(level.saturating_sub(1), &group.compared);
        }
        levels
    }

    fn at_most<'a>(&mut self, level: usize, names: impl IntoIterator<Item = &'a String>) {
        for name in names {
            let of = self.of.entry(name.clone()).or_insert(level);
            *of = (*of).min(level);
        }
    }

    /// Of an answer.
    pub fn level(&self, answer: &str) -> usize {
        self.of.get(answer).copied().unwrap_or(self.gates)
    }

    /// Of what a table says at this port.
    pub fn of_port(&self, dag: &Dag, port: &Port) -> usize {
        self.level(&port.answers(dag)[0])
    }

    /// Of a table that is changed.
    pub fn of_table(&self, dag: &Dag, ports: &[Port], table: usize) -> usize {
        let own = ports.iter().find(|port| !port.fixed && port.table == table);
        own.map_or(self.gates, |port| self.of_port(dag, port))
    }
}
