//! Ways that cannot both be taken, and choosing by what tells them apart.
//!
//! Two ways exclude each other if a condition holds on one and not on the other. What is chosen
//! between them may be chosen by such conditions alone, however deep the ways themselves are.

use std::collections::BTreeSet;

use super::dag::{Given, opposite};

/// A condition that holds in `a` and not in `b`.
fn difference<'a>(a: &'a Given, b: &Given) -> Option<&'a String> {
    a.iter().find(|atom| b.contains(&opposite(atom)))
}

/// True if no way of one list can be taken together with one of the other.
pub fn exclude(a: &[Given], b: &[Given]) -> bool {
    a.iter().all(|a| b.iter().all(|b| difference(a, b).is_some()))
}

/// Conditions that say which one of these, each a list of ways, is meant, if one is; of all but the
/// last. None if some do not exclude each other.
pub fn select(list: &[Vec<Given>]) -> Option<Vec<String>> {
    let mut conditions = Vec::new();
    for (at, ways) in list.iter().enumerate() {
        let others: Vec<&Given> = list[at + 1..].iter().flatten().collect();
        let mut texts = Vec::new();
        for way in ways {
            let atoms: Option<BTreeSet<&String>> =
                others.iter().map(|other| difference(way, other)).collect();
            texts.push(atoms?.into_iter().cloned().collect::<Vec<_>>().join(" && "));
        }
        if at + 1 < list.len() {
            conditions.push(match &texts[..] {
                [one] => one.clone(),
                _ => texts.iter().map(|text| format!("({text})")).collect::<Vec<_>>().join(" || "),
            });
        }
    }
    Some(conditions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(atoms: &[&str]) -> Given {
        atoms.iter().map(|atom| atom.to_string()).collect()
    }

    #[test]
    fn ways_are_told_apart_by_what_differs() {
        let (tcp_out, tcp_in) =
            (given(&["‹f›", "‹tcp›", "‹out›"]), given(&["‹f›", "‹tcp›", "!‹out›"]));
        let udp = given(&["‹f›", "!‹tcp›", "‹out›"]);
        let (outward, both) = (vec![tcp_out.clone()], vec![tcp_out.clone(), tcp_in.clone()]);
        assert!(exclude(&outward, &[tcp_in.clone(), udp.clone()]));
        assert!(!exclude(&both, &outward));
        let list = [outward.clone(), vec![tcp_in], vec![udp]];
        assert_eq!(select(&list), Some(vec!["‹out› && ‹tcp›".to_string(), "!‹out›".to_string()]));
        assert_eq!(select(&[outward.clone(), outward]), None);
    }
}
