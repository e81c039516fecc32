//! What `verify --against` prints.

use std::fmt::Write;

use nicforge_bound::equal::{Example, Report, entry_name, hex};
use nicforge_isa::ebpf::helper_name;
use nicforge_isa::object::Map;
use serde_json::{Value, json};

use super::kernel::Checked;
use super::version::{Guarantee, Version};

/// Reasons for open pairs that are printed.
const MOST_REASONS: usize = 5;

/// What the first of them is called if it is a program of ours.
const PROGRAM: &str = "program";
/// Most bytes of a value that are printed with all of their zeroes.
const SHOWN: usize = 16;

/// Everything there is to say.
pub struct View<'a> {
    pub versions: [&'a Version; 2],
    /// What they are called.
    pub sides: [&'static str; 2],
    pub maps: &'a [Map],
    /// Maps that the old version alone has, and the new one: nothing is there to compare them with.
    pub alone: [Vec<String>; 2],
    pub result: &'a Report,
    /// Smallest and largest frames.
    pub sizes: (u64, u64),
    pub checked: Checked,
    pub rates: [Option<Guarantee>; 2],
}

impl View<'_> {
    /// True if both are proved to give the same.
    pub fn proved(&self) -> bool {
        self.result.equal() && self.alone.iter().all(Vec::is_empty)
    }

    /// As text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let result = self.result;
        for (side, version) in self.sides.iter().zip(self.versions) {
            let _ = writeln!(text, "{side}: {}", version.name);
        }
        let spent = format!("{:.1} s", result.seconds);
        let _ = match &result.example {
            Some(example) => {
                let _ = writeln!(text, "they differ ({spent}):");
                self.example(example, &mut text)
            }
            None if result.equal() => writeln!(
                text,
                "{} for every frame of {} to {} bytes and all that maps may hold: {} of {} pairs of \
                 paths, {spent}",
                if self.proved() { "proved equal" } else { "not proved: but for some maps equal" },
                self.sizes.0,
                self.sizes.1,
                result.proved,
                result.pairs
            ),
            None => self.open(&spent, &mut text),
        };
        for (side, names) in self.sides.iter().zip(&self.alone) {
            for name in names {
                let _ = writeln!(
                    text,
                    "  only {side} has map `{name}`; if what it holds does not matter, add \
                     --ignore-map {name}"
                );
            }
        }
        for (side, rate) in self.sides.iter().zip(&self.rates) {
            if *side == PROGRAM {
                // Its rate is its object's.
                continue;
            }
            let _ = match rate {
                None => writeln!(text, "{side}: no guarantee (see `nicforge bound`)"),
                Some(rate) => writeln!(
                    text,
                    "{side}: at most {} instructions a packet{}, {:.1} Mpps guaranteed",
                    rate.instructions,
                    if rate.exact { "" } else { ", perhaps fewer" },
                    rate.pps / 1e6
                ),
            };
        }
        text.push_str("rates are modelled: executed instructions, one nanosecond each\n");
        text
    }

    fn open(&self, spent: &str, text: &mut String) -> std::fmt::Result {
        let result = self.result;
        if result.pairs == 0 && !result.open.is_empty() {
            let reasons: Vec<&str> = result.open.keys().map(String::as_str).collect();
            return writeln!(text, "not proved: {}", reasons.join("; "));
        }
        let rest = if result.whole { "" } else { ", and more there was no time for" };
        writeln!(
            text,
            "not proved: {} of {} pairs of paths are proved{rest}; {} packets of others give the \
             same, {spent}",
            result.proved, result.pairs, result.tested
        )?;
        for (reason, count) in result.open.iter().take(MOST_REASONS) {
            writeln!(text, "  {reason} ({count} {})", if *count == 1 { "pair" } else { "pairs" })?;
        }
        Ok(())
    }

    fn example(&self, example: &Example, text: &mut String) -> std::fmt::Result {
        let (old, new) = &example.difference;
        let [one, other] = self.sides;
        writeln!(text, "  {one}: {old}\n  {other}: {new}")?;
        let packet = &example.world.packet;
        writeln!(text, "for the packet of {} bytes", packet.len())?;
        // Zeroes at the end say nothing.
        let shown = packet.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
        for (line, bytes) in packet[..shown].chunks(16).enumerate() {
            writeln!(text, "  {:04x}  {}", 16 * line, hex(bytes))?;
        }
        if shown < packet.len() {
            writeln!(text, "  and zeroes")?;
        }
        for (name, value) in self.entries(example) {
            writeln!(text, "with {name} = {value}")?;
        }
        for (what, value) in told(example) {
            writeln!(text, "if {what} gives {value}")?;
        }
        match &self.checked {
            _ if self.sides[0] == PROGRAM => writeln!(
                text,
                "checked: the program ran on it in the reference interpreter, the object in one of \
                 eBPF"
            ),
            Checked::Not(reason) => {
                writeln!(text, "checked: both ran on it in the interpreter; the kernel: {reason}")
            }
            _ => writeln!(text, "checked: both ran on it in the kernel's test run"),
        }
    }

    fn entries(&self, example: &Example) -> Vec<(String, String)> {
        let entry = |((map, key), value): (&(usize, Vec<u8>), &Vec<u8>)| {
            (entry_name(self.maps, *map, key), shortened(value))
        };
        let own = |((map, _), _): &(&(usize, Vec<u8>), &Vec<u8>)| !self.maps[*map].constant;
        example.world.entries.iter().filter(own).map(entry).collect()
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let result = self.result;
        let outcome = match () {
            () if result.example.is_some() => "differ",
            () if self.proved() => "proved",
            () => "open",
        };
        let open = result.open.iter().map(|(why, count)| json!({ "reason": why, "pairs": count }));
        let mut value = json!({
            "schema": "nicforge/verify-against", "version": 1, "outcome": outcome,
            "sizes": [self.sizes.0, self.sizes.1], "pairs": result.pairs,
            "proved": result.proved, "all_pairs_seen": result.whole, "tested": result.tested,
            "only_old_has": self.alone[0], "only_new_has": self.alone[1],
            "open": open.collect::<Vec<_>>(), "seconds": result.seconds,
        });
        for (at, side) in self.sides.into_iter().enumerate() {
            value[side] = json!({ "program": self.versions[at].name });
            if let Some(rate) = &self.rates[at] {
                value[side]["instructions"] = rate.instructions.into();
                value[side]["guaranteed_pps"] = rate.pps.into();
                value[side]["exact"] = rate.exact.into();
            }
        }
        if let Some(example) = &result.example {
            let entries = self.entries(example);
            let entries =
                entries.iter().map(|(name, held)| json!({ "entry": name, "value": held }));
            let answers =
                told(example).into_iter().map(|(what, gives)| json!({ "of": what, "is": gives }));
            value["example"] = json!({
                "packet": hex(&example.world.packet), "entries": entries.collect::<Vec<_>>(),
                "answers": answers.collect::<Vec<_>>(), self.sides[0]: example.difference.0,
                self.sides[1]: example.difference.1,
                "checked": match self.checked {
                    Checked::Not(_) => "interpreter",
                    _ => "kernel",
                },
            });
        }
        value
    }
}

/// Answers of helpers and the context.
fn told(example: &Example) -> Vec<(String, u64)> {
    let helpers = example.old.told.union(&example.new.told).map(|(helper, answer)| {
        let name = match *helper {
            number if number < 0 => "whether the map has room".to_string(),
            number => helper_name(number),
        };
        (name, *answer)
    });
    // Members of `struct xdp_md` behind those that say where the packet is.
    let members = [(12, "ingress_ifindex"), (16, "rx_queue_index"), (20, "egress_ifindex")];
    let context = members.iter().filter_map(|(at, name)| {
        let word = example.world.context.get(at).filter(|word| **word != 0)?;
        Some(((*name).to_string(), u64::from(*word)))
    });
    helpers.chain(context).collect()
}

/// Bytes as text, but for zeroes at the end of many.
fn shortened(bytes: &[u8]) -> String {
    let shown = bytes.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
    match bytes.len() > SHOWN && shown < bytes.len() {
        true => format!("{} and {} zeroes", hex(&bytes[..shown]), bytes.len() - shown),
        false => hex(bytes),
    }
}
