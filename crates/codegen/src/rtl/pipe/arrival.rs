//! When signals of a pipe are there: stage, and picoseconds from its start.
//!
//! A wire is in the first stage in which its operands are there in time, a stage being what
//! [`timing::BUDGET`] says. What operators take is said by those who make wires, but for logic:
//! synthesis packs conditions, choices and bitwise operators of several wires into one LUT of six
//! inputs, so a level is not what an operator takes but what a LUT does. As FlowMap does (Cong and
//! Ding, 1994), every logic wire keeps a few *cuts*: sets of at most six signals of its stage, or
//! registers before it, of which it is a function. It is there one level after the last signal of
//! its best cut. Only a cut's size matters, since a bit of the result depends on one bit of each.
//!
//! A conjunction or disjunction of more than six signals is a tree of LUTs in which those that are
//! there first are joined first.
//!
//! Each wire costs at most `CUTS` squared unions for each operand.

use std::collections::{HashMap, HashSet};

use super::super::expr::{Wire, used};
use super::super::timing;
use super::dag::Dag;
use super::levels::Levels;
use super::ports::Port;

/// Stage, and picoseconds from its start.
pub type Time = (u32, u32);

/// What a hash function takes of the stage in which a key is given.
const HASHING: u32 = 1200;
/// Inputs of a LUT.
const INPUTS: usize = 6;
/// Cuts that are kept of a wire.
const CUTS: usize = 6;

/// Signals by number, sorted.
type Cut = Vec<u32>;

/// Forms of a wire's expression.
enum Form<'a> {
    /// Bits of signals, and numbers.
    Bits(Vec<&'a str>),
    /// A function of at most six signals, bit by bit.
    Logic(Vec<&'a str>),
    /// A conjunction or disjunction of groups of signals.
    Wide(Vec<Vec<&'a str>>),
    Other,
}

#[derive(Clone)]
pub struct Arrivals<'a> {
    wires: HashMap<&'a str, &'a Wire>,
    numbers: HashMap<String, u32>,
    times: Vec<Option<Time>>,
    /// Of logic wires; of others they are what they are.
    cuts: Vec<Vec<Cut>>,
    /// Stages from a wire's value, a question to a module beside the pipe, to the wire, its answer.
    answers: HashMap<String, u32>,
    /// The first stages in which something may be asked, by how many gates lie in front of it; and
    /// which of these it is of answers that are not asked in the last of them.
    pub earliest: Vec<u32>,
    pub levels: Levels,
}

impl<'a> Arrivals<'a> {
    pub fn new(
        wires: HashMap<&'a str, &'a Wire>,
        answers: HashMap<String, u32>,
        (earliest, levels): (Vec<u32>, Levels),
    ) -> Arrivals<'a> {
        Arrivals {
            wires,
            numbers: HashMap::new(),
            times: Vec::new(),
            cuts: Vec::new(),
            answers,
            earliest,
            levels,
        }
    }

    /// The first stage in which what has this answer may be asked.
    pub fn earliest(&self, answer: &str) -> u32 {
        let level = self.levels.level(answer).min(self.earliest.len() - 1);
        self.earliest[level]
    }

    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.unnamed();
        self.numbers.insert(name.to_string(), number);
        number
    }

    /// A signal that has no name: part of a tree.
    fn unnamed(&mut self) -> u32 {
        self.times.push(None);
        self.cuts.push(Vec::new());
        self.times.len() as u32 - 1
    }

    /// Says when a signal is there that no wire makes.
    pub fn set(&mut self, name: &str, time: Time) {
        let number = self.number(name);
        self.times[number as usize] = Some(time);
    }

    /// The stage of every signal that was asked for.
    pub fn stages(self) -> HashMap<String, u32> {
        let times = self.times;
        let stage = |(name, number): (String, u32)| Some((name, times[number as usize]?.0));
        self.numbers.into_iter().filter_map(stage).collect()
    }

    fn at(&self, number: u32) -> Time {
        self.times[number as usize].unwrap_or((0, 0))
    }

    /// The time of a wire, and of all it needs.
    pub fn time(&mut self, name: &str) -> Time {
        // Deep, so not by recursion: what a wire needs first.
        let mut stack = vec![self.number(name)];
        let mut names: HashMap<u32, String> = HashMap::from([(stack[0], name.to_string())]);
        // On the way down; a wire that meets itself there would never be placed.
        let mut open: HashSet<u32> = HashSet::new();
        while let Some(top) = stack.last().copied() {
            if self.times[top as usize].is_some() {
                stack.pop();
                continue;
            }
            let Some(wire) = self.wires.get(names[&top].as_str()).copied() else {
                // A source or a constant.
                self.times[top as usize] = Some((0, 0));
                continue;
            };
            let mut complete = true;
            open.insert(top);
            for below in used(&wire.value) {
                let number = self.number(below);
                if self.times[number as usize].is_none() {
                    assert!(!open.contains(&number), "wire `{below}` of a pipe needs itself");
                    names.entry(number).or_insert_with(|| below.to_string());
                    stack.push(number);
                    complete = false;
                }
            }
            if complete {
                self.place(top, wire);
                open.remove(&top);
                stack.pop();
            }
        }
        self.at(self.numbers[name])
    }

    /// The time at which all signals of an expression are there.
    pub fn expression(&mut self, value: &str) -> Time {
        let names: Vec<String> = used(value).map(String::from).collect();
        names.iter().map(|name| self.time(name)).max().unwrap_or((0, 0))
    }

    /// The stage in which a port may be given its key.
    pub fn asked(&mut self, dag: &Dag, port: &Port) -> u32 {
        let hashes = dag.tables[port.table].pipe_hashes() || port.from > 0;
        let (stage, ps) = self.expression(&port.key);
        let looking_up = if hashes { HASHING } else { 0 };
        if ps + looking_up > timing::BUDGET { stage + 1 } else { stage }
    }

    /// Picoseconds at which a signal is there in a stage.
    fn in_stage(&self, number: u32, stage: u32) -> u32 {
        let (made, ps) = self.at(number);
        if made < stage { 0 } else { ps }
    }

    fn place(&mut self, number: u32, wire: &Wire) {
        let operands: Vec<u32> = used(&wire.value).map(|name| self.numbers[name]).collect();
        let stage = operands.iter().map(|operand| self.at(*operand).0).max().unwrap_or(0);
        if let Some(stages) = self.answers.get(&wire.name) {
            self.times[number as usize] = Some((stage.max(self.earliest(&wire.name)) + stages, 0));
            return;
        }
        let form = form(wire);
        for stage in [stage, stage + 1] {
            let (ps, cuts) = match &form {
                Form::Other => {
                    let latest =
                        operands.iter().map(|operand| self.in_stage(*operand, stage)).max();
                    (latest.unwrap_or(0) + wire.delay, Vec::new())
                }
                // Bits that are only put together: there when the last one is.
                Form::Bits(names) => {
                    let inputs: Vec<u32> = names.iter().map(|name| self.numbers[*name]).collect();
                    let latest = inputs.iter().map(|input| self.in_stage(*input, stage)).max();
                    (latest.unwrap_or(0), self.packed(&inputs, stage).1)
                }
                Form::Logic(names) => {
                    let inputs: Vec<u32> = names.iter().map(|name| self.numbers[*name]).collect();
                    self.packed(&inputs, stage)
                }
                Form::Wide(groups) => {
                    let groups: Vec<Vec<u32>> = groups
                        .iter()
                        .map(|group| group.iter().map(|name| self.numbers[*name]).collect())
                        .collect();
                    self.tree(groups, stage)
                }
            };
            let latest =
                operands.iter().map(|operand| self.in_stage(*operand, stage)).max().unwrap_or(0);
            // What starts with its stage may take longer: nothing would be gained.
            if ps <= timing::BUDGET || latest == 0 {
                self.times[number as usize] = Some((stage, ps));
                self.cuts[number as usize] = cuts;
                return;
            }
        }
    }

    /// The cuts by which a signal may be seen in a stage.
    fn cuts_of(&self, number: u32, stage: u32) -> Vec<Cut> {
        let itself = vec![number];
        if self.at(number).0 < stage || self.cuts[number as usize].is_empty() {
            return vec![itself];
        }
        let mut cuts = self.cuts[number as usize].clone();
        if !cuts.contains(&itself) {
            cuts.push(itself);
        }
        cuts
    }

    /// A function of so many signals: when it is there, and its cuts.
    fn packed(&self, inputs: &[u32], stage: u32) -> (u32, Vec<Cut>) {
        let latest =
            |cut: &Cut| cut.iter().map(|leaf| self.in_stage(*leaf, stage)).max().unwrap_or(0);
        let mut cuts: Vec<Cut> = vec![Vec::new()];
        for input in inputs {
            let of_input = self.cuts_of(*input, stage);
            let mut next: Vec<Cut> = Vec::new();
            for (cut, more) in
                cuts.iter().flat_map(|cut| of_input.iter().map(move |more| (cut, more)))
            {
                let mut both: Cut = cut.iter().chain(more).copied().collect();
                both.sort_unstable();
                both.dedup();
                if both.len() <= INPUTS && !next.contains(&both) {
                    next.push(both);
                }
            }
            next.sort_by_key(|cut| (latest(cut), cut.len()));
            // The inputs themselves always fit.
            next.truncate(CUTS * 2);
            cuts = next;
        }
        let mut itself: Cut = inputs.to_vec();
        itself.sort_unstable();
        itself.dedup();
        if !cuts.contains(&itself) {
            cuts.push(itself);
        }
        cuts.sort_by_key(|cut| (latest(cut), cut.len()));
        cuts.truncate(CUTS);
        (cuts.first().map_or(0, latest) + timing::CHOOSE, cuts)
    }

    /// A conjunction or disjunction of groups, those first that are there first.
    fn tree(&mut self, groups: Vec<Vec<u32>>, stage: u32) -> (u32, Vec<Cut>) {
        let mut inputs: Vec<u32> = Vec::new();
        let several = groups.len() > 1;
        for group in groups {
            match &group[..] {
                [one] => inputs.push(*one),
                _ if several => {
                    let (ps, cuts) = self.tree(vec_of_singles(group), stage);
                    inputs.push(self.part(stage, ps, cuts));
                }
                _ => inputs.extend(group),
            }
        }
        inputs.sort_unstable();
        inputs.dedup();
        while inputs.len() > INPUTS {
            inputs.sort_by_key(|input| self.in_stage(*input, stage));
            // Full LUTs but for the first, so that the last one has room for what comes late.
            let many = ((inputs.len() - INPUTS - 1) % (INPUTS - 1) + 2).min(INPUTS);
            let first: Vec<u32> = inputs.drain(..many).collect();
            let (ps, cuts) = self.packed(&first, stage);
            let part = self.part(stage, ps, cuts);
            inputs.push(part);
        }
        // One more, so that late inputs may be seen by their cuts.
        inputs.sort_by_key(|input| self.in_stage(*input, stage));
        let early = inputs.iter().filter(|input| self.in_stage(**input, stage) == 0).count();
        if early > 1 && early < inputs.len() {
            let first: Vec<u32> = inputs.drain(..early).collect();
            let (ps, cuts) = self.packed(&first, stage);
            let part = self.part(stage, ps, cuts);
            let (joined, cuts_joined) = self.packed(&[&[part], &inputs[..]].concat(), stage);
            let (flat, cuts_flat) = self.packed(&[&first[..], &inputs[..]].concat(), stage);
            return if joined < flat { (joined, cuts_joined) } else { (flat, cuts_flat) };
        }
        self.packed(&inputs, stage)
    }

    fn part(&mut self, stage: u32, ps: u32, cuts: Vec<Cut>) -> u32 {
        let part = self.unnamed();
        self.times[part as usize] = Some((stage, ps));
        self.cuts[part as usize] = cuts;
        part
    }
}

fn vec_of_singles(group: Vec<u32>) -> Vec<Vec<u32>> {
    group.into_iter().map(|one| vec![one]).collect()
}

/// The signals in an expression, each once.
fn names(value: &str) -> Vec<&str> {
    let mut list: Vec<&str> = Vec::new();
    for name in used(value) {
        if !list.contains(&name) {
            list.push(name);
        }
    }
    list
}

fn form(wire: &Wire) -> Form<'_> {
    let value = &wire.value;
    let signals = names(value);
    let few = (1..=INPUTS).contains(&signals.len());
    if wire.delay == 0 {
        return if few { Form::Bits(signals) } else { Form::Other };
    }
    for (between, within) in [(" && ", None), (" || ", Some(" && "))] {
        let mut groups = Vec::new();
        for part in value.split(between) {
            let part =
                part.strip_prefix('(').and_then(|part| part.strip_suffix(')')).unwrap_or(part);
            let literals: Vec<&str> = within.map_or(vec![part], |and| part.split(and).collect());
            let plain = |text: &&str| {
                text.trim_start_matches('!').strip_prefix('‹').is_some_and(|rest| {
                    rest.strip_suffix('›').is_some_and(|name| !name.contains('‹'))
                })
            };
            if !literals.iter().all(plain) {
                break;
            }
            groups.push(names(part));
        }
        if groups.len() > 1 && groups.len() == value.split(between).count() {
            return Form::Wide(groups);
        }
    }
    let bitwise = !value.contains(['+', '-', '*', '<', '>', '=', '/'])
        // A reduction stands before its operand.
        && !["^(", "&(", "|(", "^‹", "&‹", "|‹"].iter().any(|reduction| value.contains(reduction));
    if bitwise && few { Form::Logic(signals) } else { Form::Other }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(name: &str, value: &str, delay: u32) -> Wire {
        Wire { name: name.into(), width: 1, value: value.into(), delay }
    }

    fn times(wires: &[Wire], wanted: &[&str]) -> Vec<Time> {
        let wires = wires.iter().map(|wire| (wire.name.as_str(), wire)).collect();
        let mut arrivals = Arrivals::new(wires, HashMap::new(), (vec![0], Levels::default()));
        wanted.iter().map(|name| arrivals.time(name)).collect()
    }

    /// Three operators one behind the other are one LUT behind the sum, not three.
    #[test]
    fn logic_is_packed_into_luts() {
        let wires = [
            wire("sum", "‹a› + ‹b›", 1000),
            wire("one", "‹sum› ? ‹c› : ‹d›", 400),
            wire("two", "!‹one›", 400),
            wire("three", "‹e› && ‹two›", 400),
            wire("four", "‹three› ? ‹f› : 1'b0", 400),
            wire("five", "‹four› ? ‹g› : ‹h›", 400),
        ];
        let found = times(&wires, &["one", "three", "four", "five"]);
        assert_eq!(
            found,
            [(0, 1400), (0, 1400), (0, 1400), (0, 1800)],
            "seven inputs take a second level"
        );
    }

    #[test]
    #[should_panic(expected = "wire `one` of a pipe needs itself")]
    fn wires_in_a_circle_are_found() {
        times(&[wire("one", "!‹two›", 400), wire("two", "‹a› && ‹one›", 400)], &["one"]);
    }

    /// The late one of many conditions passes one level, the others are joined before.
    #[test]
    fn late_conditions_are_joined_last() {
        let early: Vec<String> = (0..20).map(|at| format!("‹c{at}›")).collect();
        let wires = [
            wire("late", "‹a› + ‹b›", 2000),
            wire("all", &format!("{} && ‹late›", early.join(" && ")), 800),
        ];
        assert_eq!(times(&wires, &["all"]), [(0, 2400)]);
        let flat = [wire("all", &early.join(" && "), 800)];
        assert_eq!(times(&flat, &["all"]), [(0, 800)]);
    }

    /// What does not fit goes into the next stage, where its operands are registers.
    #[test]
    fn a_stage_ends_where_time_does() {
        let wires = [
            wire("sum", "‹a› + ‹b›", 3400),
            wire("one", "‹sum› ? ‹c› : ‹d›", 400),
            wire("two", "‹one› && ‹sum›", 400),
        ];
        assert_eq!(times(&wires, &["sum", "one", "two"]), [(0, 3400), (1, 400), (1, 400)]);
    }
}
