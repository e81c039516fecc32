//! Ways: the conditions under which something runs, as wires.
//!
//! Of each wire it is kept which conditions it is made of, all at once instead of one behind the
//! other, and which are known to hold where it does. So ways that exclude each other are found, and
//! what tells two ways apart is asked without what they have in common.

use super::*;

impl Walk<'_, '_, '_> {
    /// Facts on a way.
    pub(super) fn given(&self, way: &Way) -> Given {
        let Some(way) = way else { return Given::new() };
        self.given.get(way).cloned().unwrap_or_else(|| Given::from([way.clone()]))
    }

    /// `way` and a condition.
    pub(super) fn and(&mut self, way: &Way, condition: &str) -> Way {
        let mut given = self.given(way);
        given.insert(condition.to_string());
        let Some(way) = way else { return Some(condition.to_string()) };
        // All conditions on the way at once, not one behind the other.
        let mut all = self.conditions.get(way).cloned().unwrap_or_else(|| vec![way.clone()]);
        all.push(condition.to_string());
        let wire = self.wire("way", 1, gate("&", &all), timing::tree(all.len() as u32));
        self.conditions.insert(wire.clone(), all);
        self.given.insert(wire.clone(), given);
        Some(wire)
    }

    /// Either of several ways.
    pub(super) fn or(&mut self, ways: Vec<Way>) -> Way {
        let texts: Option<Vec<String>> = ways.iter().cloned().collect();
        let texts = texts?;
        if let [one] = &texts[..] {
            return Some(one.clone());
        }
        let (common, apart) = self.told_apart(&texts);
        if let Some(whole) = apart.iter().position(Vec::is_empty) {
            // The others lie within it.
            return Some(texts[whole].clone());
        }
        let any = match common.is_empty() {
            true => self.wire("way", 1, gate("|", &texts), timing::tree(texts.len() as u32)),
            false => {
                let apart: Vec<String> = apart.into_iter().map(|own| self.joint(own)).collect();
                self.wire("way", 1, gate("|", &apart), timing::tree(apart.len() as u32))
            }
        };
        let wire = match common.is_empty() {
            true => any,
            false => {
                let all: Vec<String> = common.into_iter().chain([any]).collect();
                let wire = self.joint(all.clone());
                self.conditions.insert(wire.clone(), all);
                wire
            }
        };
        let sets: Vec<Given> = ways.iter().map(|way| self.given(way)).collect();
        let all = |atom: &&String| sets.iter().all(|given| given.contains(*atom));
        let given = sets[0].iter().filter(all).cloned().collect();
        self.given.insert(wire.clone(), given);
        Some(wire)
    }

    /// All of several conditions.
    pub(super) fn joint(&mut self, conditions: Vec<String>) -> String {
        match &conditions[..] {
            [one] => one.clone(),
            all => self.wire("way", 1, gate("&", all), timing::tree(all.len() as u32)),
        }
    }

    /// The conditions that ways have in common, and those of each besides.
    pub(super) fn told_apart(&self, ways: &[String]) -> (Vec<String>, Vec<Vec<String>>) {
        let of =
            |way: &String| self.conditions.get(way).cloned().unwrap_or_else(|| vec![way.clone()]);
        let mut lists: Vec<Vec<String>> = ways.iter().map(of).collect();
        let sets: Vec<BTreeSet<String>> =
            lists.iter().map(|list| list.iter().cloned().collect()).collect();
        let shared: BTreeSet<String> = sets[0]
            .iter()
            .filter(|one| sets.iter().all(|set| set.contains(*one)))
            .cloned()
            .collect();
        let common = lists[0].iter().filter(|one| shared.contains(*one)).cloned().collect();
        lists.iter_mut().for_each(|list| list.retain(|one| !shared.contains(one)));
        (common, lists)
    }

    /// What tells ways from each other: which of them was taken, if one was. What is chosen by that
    /// does not wait for what they have in common, such as an entry that is there.
    pub(super) fn among(&mut self, ways: Vec<Way>) -> Vec<Way> {
        let texts: Option<Vec<String>> = ways.iter().cloned().collect();
        let Some(texts) = texts.filter(|texts| texts.len() > 1) else { return ways };
        let (common, apart) = self.told_apart(&texts);
        if common.is_empty() || apart.iter().any(Vec::is_empty) {
            return ways;
        }
        apart.into_iter().map(|own| Some(self.joint(own))).collect()
    }

    /// What tells ways from each other, as conditions of each.
    pub(super) fn conditions_apart(&self, ways: &[Way]) -> Option<Vec<Vec<String>>> {
        let texts: Option<Vec<String>> = ways.iter().cloned().collect();
        let (_, apart) = self.told_apart(&texts.filter(|texts| texts.len() > 1)?);
        (!apart.iter().any(Vec::is_empty)).then_some(apart)
    }

    /// Signal: all conditions of one of several lists hold. Lists of a loop's later trips have what
    /// led to them in common: where one ends in a condition and the next one in its opposite, both
    /// together are what is in front of it.
    pub(super) fn any_of(&mut self, mut lists: Vec<Vec<String>>) -> String {
        for at in (1..lists.len()).rev() {
            if let (Some((a, before)), Some((b, same))) =
                (lists[at - 1].split_last(), lists[at].split_last())
                && before == same
                && *b == opposite(a)
            {
                lists[at - 1].pop();
                lists.remove(at);
            }
        }
        if lists.iter().any(Vec::is_empty) {
            return "1'b1".to_string();
        }
        let all: Vec<String> = lists.into_iter().map(|list| self.joint(list)).collect();
        match &all[..] {
            [one] => one.clone(),
            _ => self.wire("way", 1, gate("|", &all), timing::tree(all.len() as u32)),
        }
    }
}

/// All or any of several conditions. Of many a tree: a chain that others share the beginning of
/// would stay a chain.
pub(super) fn gate(op: &str, conditions: &[String]) -> String {
    match conditions.len() {
        ..=6 => conditions.join(&format!(" {op}{op} ")),
        _ => format!("{op}{{{}}}", conditions.join(", ")),
    }
}

/// The other truth value of a condition.
pub fn opposite(atom: &str) -> String {
    atom.strip_prefix('!').map_or_else(|| format!("!{atom}"), String::from)
}
