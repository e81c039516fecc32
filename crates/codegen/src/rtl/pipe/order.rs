//! In which order tables answer: behind those whose entries they need.
//!
//! A table needs another one's entry if its key or what decides about its change depends on it.
//! Tables that need each other, directly or by others, are one group; groups are in an order in
//! which each is behind all that it needs.

use std::collections::{BTreeSet, HashMap};

use super::super::expr::{Wire, used};
use super::dag::Dag;
use super::leave::Commit;
use super::ports::Port;

/// Reasons that keep stages together.
#[derive(Debug, PartialEq, Eq)]
pub enum Group {
    /// A port, by number, of a table that nothing changes.
    Fixed(usize),
    /// Tables that are changed, by number, and ports of others that are asked for what these say,
    /// before they are changed.
    Changed(Vec<usize>, Vec<usize>),
}

/// Names that a signal depends on, itself included.
pub fn cone<'a>(
    wires: &HashMap<&'a str, &'a Wire>,
    roots: impl Iterator<Item = &'a str>,
) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut stack: Vec<&str> = roots.collect();
    while let Some(name) = stack.pop() {
        if found.insert(name)
            && let Some(wire) = wires.get(name)
        {
            stack.extend(used(&wire.value));
        }
    }
    found
}

/// Names that depend on some of these, themselves included.
pub fn above<'a>(wires: &HashMap<&'a str, &'a Wire>, roots: &'a [String]) -> BTreeSet<&'a str> {
    let mut users: HashMap<&str, Vec<&'a str>> = HashMap::new();
    for wire in wires.values() {
        used(&wire.value).for_each(|name| users.entry(name).or_default().push(&wire.name));
    }
    let mut found = BTreeSet::new();
    let mut stack: Vec<&'a str> = roots.iter().map(String::as_str).collect();
    while let Some(name) = stack.pop() {
        if found.insert(name) {
            stack.extend(users.get(name).into_iter().flatten());
        }
    }
    found
}

/// One table that is changed, or one port of another.
struct Node {
    /// The port's number, or the table's.
    number: usize,
    fixed: bool,
    answers: Vec<String>,
    /// Names that it depends on.
    needs: BTreeSet<String>,
}

fn nodes(dag: &Dag, wires: &HashMap<&str, &Wire>, ports: &[Port], commits: &[Commit]) -> Vec<Node> {
    let names = |roots: Vec<&str>| -> BTreeSet<String> {
        cone(wires, roots.into_iter().flat_map(used)).into_iter().map(String::from).collect()
    };
    let mut nodes = Vec::new();
    for commit in commits {
        let own: Vec<&Port> =
            ports.iter().filter(|port| !port.fixed && port.table == commit.table).collect();
        let keys = own.iter().map(|port| port.key.as_str());
        let needs = names(keys.chain(commit.deciding().map(String::as_str)).collect());
        let answers = own.iter().flat_map(|port| port.answers(dag)).collect();
        nodes.push(Node { number: commit.table, fixed: false, answers, needs });
    }
    for (number, port) in ports.iter().enumerate().filter(|(_, port)| port.fixed) {
        let needs = names(vec![&port.key]);
        nodes.push(Node { number, fixed: true, answers: port.answers(dag), needs });
    }
    nodes
}

/// Groups, each behind all that it needs.
pub fn order(
    dag: &Dag,
    wires: &HashMap<&str, &Wire>,
    ports: &[Port],
    commits: &[Commit],
) -> Vec<Group> {
    let nodes = nodes(dag, wires, ports, commits);
    let count = nodes.len();
    let mut needs: Vec<Vec<bool>> = (0..count)
        .map(|at| {
            (0..count)
                .map(|of| nodes[of].answers.iter().any(|name| nodes[at].needs.contains(name)))
                .collect()
        })
        .collect();
    for through in 0..count {
        let further = needs[through].clone();
        for all in needs.iter_mut().filter(|all| all[through]) {
            all.iter_mut().zip(&further).for_each(|(one, other)| *one |= other);
        }
    }
    let mut open: Vec<usize> = (0..count).collect();
    let mut groups = Vec::new();
    while let Some(first) =
        open.iter().copied().find(|at| open.iter().all(|of| !needs[*at][*of] || needs[*of][*at]))
    {
        let together = |at: &usize| *at == first || (needs[first][*at] && needs[*at][first]);
        let (group, rest): (Vec<usize>, Vec<usize>) = open.into_iter().partition(together);
        open = rest;
        let of = |fixed: bool| -> Vec<usize> {
            group
                .iter()
                .filter(|at| nodes[**at].fixed == fixed)
                .map(|at| nodes[*at].number)
                .collect()
        };
        groups.push(match (of(false), of(true)) {
            (changed, fixed) if changed.is_empty() => Group::Fixed(fixed[0]),
            (changed, fixed) => Group::Changed(changed, fixed),
        });
    }
    groups
}
