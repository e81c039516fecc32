//! Checksums over payload, which passes the pipe by: sums that `nf_prefix_sum` has made of it as it came in.
//!
//! It says what the bytes of a frame add up to before any place, apart for even and odd places, so sums over any stretch are differences, and
//! exact: a stretch of zeros is told from one that is a multiple of 65535. Where the stretch begins at a place that is the same for all packets
//! of a way, it is asked for its end alone. Questions on ways that exclude each other share a module, as keys of tables share a port.

use super::super::exclusive::{exclude, select};
use super::super::ports::stateful;
use super::*;
use crate::c::names::Names;

/// Cycles from a question to its answer, see `rtl/nf_prefix_sum.sv`.
const LATENCY: u32 = 7;
/// Most questions of one packet; for each there is a copy of the packet buffer.
const MOST_SUMS: usize = 8;

/// A place of every frame up to which bytes are added up.
#[derive(Clone, Debug)]
pub struct Sum {
    /// The answer, `{even, odd}`, which is a wire whose value is the place.
    pub name: String,
    /// The first byte that counts.
    pub start: u32,
    /// What is known wherever it is asked for.
    pub given: Vec<Given>,
    span: Span,
}

/// Width of an answer: two sums.
pub const SUM_BITS: u32 = 36;

impl Walk<'_, '_, '_> {
    /// `sum` and up to `len` bytes behind the cursor.
    pub(super) fn payload_sum(
        &mut self,
        way: &Way,
        result: ValueId,
        sum: ValueId,
        len: ValueId,
    ) -> Result<(), NoPipe> {
        let packet = self.packet();
        if packet.edited.is_some() {
            return self.no("a checksum over a payload of which bytes were overwritten in place");
        }
        let (_, end) = self.prefix_end(&packet, len);
        let (even, odd) = match &packet.cursor {
            Cursor::At(at) => {
                let sums = self.sum_before(way, *at, &end);
                let [even, odd] = ["even", "odd"].map(|name| self.half(name, &sums));
                if at % 2 == 0 { (even, odd) } else { (odd, even) }
            }
            Cursor::Signal(from, _) => {
                let (to, from_sums) = (self.sum_before(way, 0, &end), self.sum_before(way, 0, from));
                let [even, odd] = ["even", "odd"].map(|name| {
                    let (to, from) = (self.half(name, &to), self.half(name, &from_sums));
                    self.wire(name, SUM_BITS / 2, format!("{to} - {from}"), timing::carry(SUM_BITS / 2))
                });
                // Words begin at the cursor.
                let mut pick = |name: &str, one: &str, other: &str| {
                    let value = format!("{from}[0] ? {other} : {one}");
                    self.wire(name, SUM_BITS / 2, value, timing::CHOOSE)
                };
                (pick("high", &even, &odd), pick("low", &odd, &even))
            }
        };
        let sum = self.low.u32(sum);
        let all = format!("{{8'h0, {sum}}} + {{14'h0, {even}, 8'h0}} + {{22'h0, {odd}}}");
        let all = self.wire("csum", 40, all, timing::word_sum(2));
        let mut list = Vec::new();
        let (value, delay) = self.low.folded(&all, &mut list);
        for wire in list {
            self.put(&wire.name, wire.width, wire.value, wire.delay);
        }
        self.result(result, value, delay);
        Ok(())
    }

    /// Both sums of the bytes from `start` up to `to`.
    fn sum_before(&mut self, way: &Way, start: u32, to: &str) -> String {
        let (given, span) = (self.given(way), self.span);
        let dag = &mut *self.dag;
        let asks = |sum: &&mut Sum| {
            sum.start == start && dag.wires.iter().any(|wire| wire.name == sum.name && wire.value == to)
        };
        if let Some(sum) = dag.sums.iter_mut().find(asks) {
            sum.given.push(given);
            return mark(&sum.name);
        }
        let name = self.low.fresh("payload_sum");
        self.put(&name, SUM_BITS, to.to_string(), 0);
        self.dag.sums.push(Sum { name: name.clone(), start, given: vec![given], span });
        mark(&name)
    }

    fn half(&mut self, which: &str, sums: &str) -> String {
        let value = if which == "even" { format!("{sums}[35:18]") } else { format!("{sums}[17:0]") };
        self.wire(which, SUM_BITS / 2, value, 0)
    }
}

/// Lets questions from the same place on ways that exclude each other share a module.
pub fn share(dag: &mut Dag, names: &mut Names) -> Result<(), NoPipe> {
    let stateful = stateful(dag);
    let mut groups: Vec<Vec<Sum>> = Vec::new();
    for mut sum in std::mem::take(&mut dag.sums) {
        // What tells the ways apart must be known before any table answers.
        let early = |atom: &String| !used(atom).any(|name| stateful.contains(name));
        sum.given = sum.given.into_iter().map(|given| given.into_iter().filter(early).collect()).collect();
        let joins = |group: &Vec<Sum>| {
            group.iter().all(|other| {
                other.start == sum.start
                    && !stateful.contains(&other.name)
                    && exclude(&sum.given, &other.given)
            })
        };
        let known =
            if stateful.contains(&sum.name) { None } else { groups.iter_mut().find(|group| joins(group)) };
        match known {
            Some(group) => group.push(sum),
            None => groups.push(vec![sum]),
        }
        if groups.len() > MOST_SUMS {
            let reason = format!("checksums over payload ask for more than {MOST_SUMS} sums at once");
            return Err(NoPipe { reason, span: groups[MOST_SUMS][0].span });
        }
    }
    for group in groups {
        let [first, rest @ ..] = &group[..] else { continue };
        if rest.is_empty() {
            dag.sums.push(first.clone());
            continue;
        }
        let ways: Vec<Vec<Given>> = group.iter().map(|sum| sum.given.clone()).collect();
        let conditions = select(&ways).unwrap_or_default();
        let [place, answer] = ["place", "payload_sum"].map(|name| names.fresh(name));
        let mut text = String::new();
        for (at, sum) in group.iter().enumerate() {
            let Some(wire) = dag.wires.iter_mut().find(|wire| wire.name == sum.name) else { continue };
            let to = std::mem::replace(&mut wire.value, mark(&answer));
            match conditions.get(at) {
                Some(condition) => text.push_str(&format!("({condition}) ? {to} : ")),
                None => text.push_str(&to),
            }
        }
        let delay = timing::mux(2 * group.len() as u32 - 1).max(timing::CHOOSE);
        dag.wires.push(Wire { name: place.clone(), width: 16, value: text, delay });
        dag.wires.push(Wire { name: answer.clone(), width: SUM_BITS, value: mark(&place), delay: 0 });
        dag.sums.push(Sum { name: answer, start: first.start, given: Vec::new(), span: first.span });
    }
    Ok(())
}

/// Stages that answers are behind their questions, by name.
pub fn latencies(sums: &[Sum]) -> HashMap<String, u32> {
    sums.iter().map(|sum| (sum.name.clone(), LATENCY)).collect()
}

/// The stage in which a sum is asked for that is there in this one.
pub fn asked_in(stage: u32) -> u32 {
    stage - LATENCY
}
