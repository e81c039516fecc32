//! Sets of regular expressions: which of them matches first in bytes of a packet.
//!
//! Syntax and construction of automata are those of `regex-automata`. [`Patterns::first`] says what
//! a set means and walks an automaton that grows as it is needed. [`Automaton`] is the whole of it,
//! minimal, as arrays for generated code.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use regex_automata::dfa::{Automaton as _, StartKind, dense};
use regex_automata::hybrid::dfa as lazy;
use regex_automata::nfa::thompson::{self, NFA};
use regex_automata::util::primitives::PatternID;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind};

/// Entries of the largest automaton: numbers of entries and of patterns fit 16 bits together.
const MOST_ENTRIES: usize = 1 << 15;
/// Patterns of the largest set.
const MOST_PATTERNS: usize = 1 << 10;
/// Bytes that an automaton may take before it is minimal, and that finding its states may take.
const MOST_BYTES: usize = 16 << 20;
/// Sets that a thread keeps.
const KEPT: usize = 64;

/// A set of patterns.
pub struct Patterns {
    nfa: NFA,
    count: usize,
    automaton: OnceCell<Result<Rc<Automaton>, String>>,
    lazy: RefCell<Option<(lazy::DFA, lazy::Cache)>>,
}

/// A minimal automaton that reads bytes until a pattern has matched or none can any more.
///
/// The state is the number of an entry of `next`, 0 at first. A byte's class is added, and what
/// stands there is the next state. From [`Automaton::ends`] on it is an end, and the difference is
/// the pattern that matched: 0 for none. When there are no more bytes, class [`Automaton::last`]
/// follows, and leads to an end always.
#[derive(Debug, PartialEq, Eq)]
pub struct Automaton {
    /// Class of each byte.
    pub classes: [u8; 256],
    /// Next state, by state and class.
    pub next: Vec<u16>,
    /// Class of the end: one more than a byte may have.
    pub last: u16,
}

impl Automaton {
    /// The first number that is an end.
    pub fn ends(&self) -> u16 {
        self.next.len() as u16
    }

    /// The pattern that matches first, as [`Patterns::first`] has it: what generated code does.
    pub fn first(&self, bytes: &[u8]) -> u32 {
        let mut state = 0;
        let classes = bytes.iter().map(|byte| self.classes[usize::from(*byte)].into());
        for class in classes.chain([self.last]) {
            state = self.next[usize::from(state) + usize::from(class)];
            if state >= self.ends() {
                break;
            }
        }
        u32::from(state - self.ends())
    }
}

/// The target of a step: a row, or an end with the pattern that matched.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum To {
    State(usize),
    End(u16),
}

thread_local! {
    static KNOWN: RefCell<HashMap<String, Result<Rc<Patterns>, String>>> = RefCell::default();
}

impl Patterns {
    /// The set that a text stands for, one pattern a line.
    ///
    /// # Errors
    /// The pattern that is wrong and why, in a few words.
    pub fn of(text: &str) -> Result<Rc<Patterns>, String> {
        if let Some(known) = KNOWN.with_borrow(|known| known.get(text).cloned()) {
            return known;
        }
        let made = Patterns::parse(text).map(Rc::new);
        KNOWN.with_borrow_mut(|known| {
            if known.len() >= KEPT {
                known.clear();
            }
            known.insert(text.to_string(), made.clone());
        });
        made
    }

    fn parse(text: &str) -> Result<Patterns, String> {
        let lines: Vec<&str> = text.strip_suffix('\n').unwrap_or(text).split('\n').collect();
        if lines.len() > MOST_PATTERNS {
            return Err(format!("{} patterns are more than {MOST_PATTERNS}", lines.len()));
        }
        let syntax = syntax::Config::new().unicode(false).utf8(false);
        let mut read = Vec::new();
        for (line, number) in lines.iter().zip(1..) {
            let pattern = syntax::parse_with(line, &syntax)
                .map_err(|e| format!("pattern {number} (`{line}`): {}", reason(&e)))?;
            if pattern.properties().minimum_len() == Some(0) {
                return Err(format!(
                    "pattern {number} (`{line}`) matches where there is nothing, so always"
                ));
            }
            read.push(pattern);
        }
        let nfa = thompson::Compiler::new()
            .configure(thompson::Config::new().utf8(false).nfa_size_limit(Some(MOST_BYTES)))
            .build_many_from_hir(&read)
            .map_err(|e| format!("the patterns are too large: {e}"))?;
        let count = lines.len();
        Ok(Patterns { nfa, count, automaton: OnceCell::new(), lazy: RefCell::default() })
    }

    /// The number, from 1, of the pattern that matches first in `bytes`: whose match ends first; of
    /// those that end there, the first of the set. 0 if none matches.
    pub fn first(&self, bytes: &[u8]) -> u32 {
        const FITS: &str = "a cache that is emptied when it is full never gives up";
        let mut lazy = self.lazy.borrow_mut();
        let (dfa, cache) = lazy.get_or_insert_with(|| {
            let config = lazy::Config::new().match_kind(MatchKind::All);
            let config = config.skip_cache_capacity_check(true);
            let built = lazy::Builder::new().configure(config).build_from_nfa(self.nfa.clone());
            let dfa = built.expect("the automaton has no state that gives up");
            let cache = dfa.create_cache();
            (dfa, cache)
        });
        let start = Input::new(bytes).anchored(Anchored::No);
        let mut state = dfa.start_state_forward(cache, &start).expect(FITS);
        for at in 0..=bytes.len() {
            state = match bytes.get(at) {
                Some(byte) => dfa.next_state(cache, state, *byte).expect(FITS),
                None => dfa.next_eoi_state(cache, state).expect(FITS),
            };
            if state.is_match() {
                let numbers = 0..dfa.match_len(cache, state);
                return least(numbers.map(|n| dfa.match_pattern(cache, state, n)));
            }
            if state.is_dead() {
                break;
            }
        }
        0
    }

    /// The automaton of the set.
    ///
    /// # Errors
    /// That it is larger than any may be.
    pub fn automaton(&self) -> Result<Rc<Automaton>, String> {
        self.automaton.get_or_init(|| self.build().map(Rc::new)).clone()
    }

    fn build(&self) -> Result<Automaton, String> {
        let remedy = "ask for fewer of them in one call, or repeat less in them";
        let config = dense::Config::new()
            .match_kind(MatchKind::All)
            .start_kind(StartKind::Unanchored)
            .dfa_size_limit(Some(MOST_BYTES))
            .determinize_size_limit(Some(MOST_BYTES));
        let dfa =
            dense::Builder::new().configure(config).build_from_nfa(&self.nfa).map_err(|_| {
                format!("the patterns make an automaton of more than {MOST_BYTES} bytes: {remedy}")
            })?;
        let (classes, mut rows) = reachable(&dfa);
        settle(&mut rows);
        keep_reached(&mut rows);
        merge_states(&mut rows);
        let (classes, last) = merge_columns(&classes, &mut rows);
        let width = usize::from(last) + 1;
        let entries = rows.len() * width;
        if entries > MOST_ENTRIES || entries + self.count >= usize::from(u16::MAX) {
            return Err(format!(
                "the patterns make an automaton of {} states with {entries} entries, and \
                 {MOST_ENTRIES} are the most: {remedy}",
                rows.len()
            ));
        }
        let number = |to: &To| match to {
            To::State(row) => (row * width) as u16,
            To::End(pattern) => entries as u16 + pattern,
        };
        let next = rows.iter().flatten().map(number).collect();
        Ok(Automaton { classes, next, last })
    }
}

/// The least of some patterns, from 1.
fn least(patterns: impl Iterator<Item = PatternID>) -> u32 {
    patterns.map(|pattern| pattern.as_u32()).min().map_or(0, |number| number + 1)
}

/// Why a pattern is refused, without the drawing around it.
fn reason(error: &regex_syntax::Error) -> String {
    match error {
        regex_syntax::Error::Parse(error) => error.kind().to_string(),
        regex_syntax::Error::Translate(error) => error.kind().to_string(),
        other => other.to_string(),
    }
}

/// Classes of bytes, and a row for each state that can be reached, the first that one begins with:
/// where each class leads, and behind them the end of all bytes. What matched goes on to nowhere.
fn reachable(dfa: &dense::DFA<Vec<u32>>) -> ([u8; 256], Vec<Vec<To>>) {
    let known = dfa.byte_classes();
    let classes: [u8; 256] = std::array::from_fn(|byte| known.get(byte as u8));
    let bytes: Vec<u8> = known.representatives(0..=255).filter_map(|unit| unit.as_u8()).collect();
    let start = Input::new("").anchored(Anchored::No);
    let start = dfa.start_state_forward(&start).expect("automata without quitting bytes start");
    let mut numbers = HashMap::from([(start, 0)]);
    let mut states = vec![start];
    let mut rows = Vec::new();
    while let Some(state) = states.get(rows.len()).copied() {
        let mut to = |next| {
            if dfa.is_match_state(next) {
                let matched = (0..dfa.match_len(next)).map(|n| dfa.match_pattern(next, n));
                return To::End(least(matched) as u16);
            }
            if dfa.is_dead_state(next) {
                return To::End(0);
            }
            let number = *numbers.entry(next).or_insert_with(|| {
                states.push(next);
                states.len() - 1
            });
            To::State(number)
        };
        let mut row: Vec<To> = bytes.iter().map(|byte| to(dfa.next_state(state, *byte))).collect();
        let end = dfa.next_eoi_state(state);
        row.push(if dfa.is_match_state(end) { to(end) } else { To::End(0) });
        rows.push(row);
    }
    (classes, rows)
}

/// Makes an end of each state from which all leads to one: what matched is known there already.
fn settle(rows: &mut [Vec<To>]) {
    loop {
        let decided = |row: &Vec<To>| match row[0] {
            end @ To::End(_) if row.iter().all(|to| *to == end) => Some(end),
            _ => None,
        };
        let ends: Vec<Option<To>> = rows.iter().map(decided).collect();
        let mut changed = false;
        for to in rows.iter_mut().flatten() {
            if let To::State(state) = *to
                && let Some(end) = ends[state]
            {
                *to = end;
                changed = true;
            }
        }
        if !changed {
            return;
        }
    }
}

/// Leaves states out that the first does not lead to.
fn keep_reached(rows: &mut Vec<Vec<To>>) {
    let mut numbers = HashMap::from([(0, 0)]);
    let mut reached = vec![0];
    let mut kept = Vec::new();
    while let Some(state) = reached.get(kept.len()).copied() {
        let mut renamed = |to: &To| match *to {
            To::State(state) => To::State(*numbers.entry(state).or_insert_with(|| {
                reached.push(state);
                reached.len() - 1
            })),
            end => end,
        };
        kept.push(rows[state].iter().map(&mut renamed).collect());
    }
    *rows = kept;
}

/// Makes one of states that nothing tells apart (Moore 1956): they begin as one and are parted by
/// where they lead until all that are left together lead to the same.
fn merge_states(rows: &mut Vec<Vec<To>>) {
    let mut group = vec![0; rows.len()];
    let mut count = 1;
    loop {
        let mut seen = HashMap::new();
        let next: Vec<usize> = rows
            .iter()
            .zip(&group)
            .map(|(row, own)| {
                let leads: Vec<To> = row.iter().map(|to| within(*to, &group)).collect();
                let fresh = seen.len();
                *seen.entry((*own, leads)).or_insert(fresh)
            })
            .collect();
        let parts = seen.len();
        group = next;
        if parts == count {
            break;
        }
        count = parts;
    }
    // Groups are numbered as they are met, so the first state's is the first.
    let mut merged: Vec<Vec<To>> = Vec::new();
    for (row, own) in rows.iter().zip(&group) {
        if *own == merged.len() {
            merged.push(row.iter().map(|to| within(*to, &group)).collect());
        }
    }
    *rows = merged;
}

/// The target of a step, by the groups that states are in.
fn within(to: To, group: &[usize]) -> To {
    match to {
        To::State(state) => To::State(group[state]),
        end => end,
    }
}

/// Makes one of classes that lead to the same everywhere; the new classes of bytes, and of the end.
fn merge_columns(classes: &[u8; 256], rows: &mut [Vec<To>]) -> ([u8; 256], u16) {
    let width = rows[0].len();
    let column = |rows: &[Vec<To>], at: usize| rows.iter().map(|row| row[at]).collect::<Vec<To>>();
    let mut firsts: Vec<usize> = Vec::new();
    let mut renamed = Vec::new();
    for at in 0..width - 1 {
        let like = firsts.iter().position(|first| column(rows, *first) == column(rows, at));
        renamed.push(like.unwrap_or(firsts.len()) as u8);
        if like.is_none() {
            firsts.push(at);
        }
    }
    let last = firsts.len() as u16;
    firsts.push(width - 1);
    for row in rows {
        *row = firsts.iter().map(|at| row[*at]).collect();
    }
    (classes.map(|class| renamed[usize::from(class)]), last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(patterns: &str, bytes: &[u8]) -> u32 {
        let patterns = Patterns::of(patterns).expect("they are patterns");
        let found = patterns.first(bytes);
        assert_eq!(patterns.automaton().expect("it is small").first(bytes), found);
        found
    }

    #[test]
    fn what_ends_first_counts() {
        assert_eq!(first("abc", b"xxabcxx"), 1);
        assert_eq!(first("abc", b"xxab"), 0);
        assert_eq!(first("abc\n", b"abc"), 1);
        // The second begins later and ends first; of two that end together the first counts.
        assert_eq!(first("a.*d\nbc", b"abcd"), 2);
        assert_eq!(first("bc\na.*c", b"abcd"), 1);
        assert_eq!(first("a.*c\nbc", b"abcd"), 1);
        assert_eq!(first("^GET /admin\ncmd\\.exe", b"POST /cmd.exe"), 2);
        assert_eq!(first("^GET", b" GET"), 0);
        assert_eq!(first("end$", b"end end"), 1);
        assert_eq!(first("end$", b"end ends"), 0);
        assert_eq!(first(r"\x90{8,}", &[0x90; 8]), 1);
        assert_eq!(first(r"(?i)select\s+\*", b"SeLeCt  *"), 1);
        assert_eq!(first(r"\bcat\b", b"concat cat!"), 1);
        assert_eq!(first(r"\bcat\b", b"concatenate"), 0);
        assert_eq!(first(r"[^\x00-\xff]|a", b"bca"), 1);
    }

    #[test]
    fn automata_are_minimal() {
        // Two letters lead to the same everywhere: one class, and one for all other bytes.
        let automaton = Patterns::of("[ab]x").unwrap().automaton().unwrap();
        assert_eq!((automaton.next.len(), automaton.last), (2 * 4, 3));
        // What begins with a letter ends after a mismatch, and does not read on.
        let anchored = Patterns::of("^ax").unwrap().automaton().unwrap();
        assert_eq!(anchored.first(b"bax"), 0);
        assert!(anchored.next[usize::from(anchored.classes[usize::from(b'b')])] >= anchored.ends());
    }

    #[test]
    fn wrong_patterns_are_refused() {
        let refused = |text| Patterns::of(text).err().expect("it is refused");
        assert_eq!(refused("ab\n(c"), "pattern 2 (`(c`): unclosed group");
        assert!(refused("a*").contains("always"));
        assert!(refused("a\n\nb").contains("pattern 2"));
        assert!(refused(r"a(?=b)").contains("look-around"));
        let large = Patterns::of("a.{40}b").unwrap().automaton();
        assert!(large.unwrap_err().contains("fewer"));
    }
}
