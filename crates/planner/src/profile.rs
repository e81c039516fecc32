//! Branch frequencies of a program on a capture, in place of guesses, and how much of byte strings
//! counts.
//!
//! The interpreter runs the capture once and counts which way every `if` goes; the shares are
//! written into the program as the probabilities it is cut and mapped by. What the user said with
//! `NF_LIKELY` stays. A branch that was seen always or never one way keeps a small share for the
//! other one: a capture is a sample, and (n + 1) / (m + 2) is what one expects after n of m
//! (Laplace).

use std::collections::HashMap;

use nicforge_ir::interp::{BodyOf, Tracer, Val};
use nicforge_ir::{
    Entry, Handler, HandlerId, InputEvent, InstId, Interp, Op, Program, TableBackend, TableId,
    Verified, io, verify,
};

/// The program with the frequencies that `events` show, with `entries` in its tables and after
/// `before`, which does not count.
///
/// # Errors
/// A table that does not take an entry, an event that cannot be run; in words.
pub fn measured(
    program: &Verified<Program>,
    entries: &[(TableId, Entry)],
    before: &[InputEvent],
    events: &[InputEvent],
) -> Result<Verified<Program>, String> {
    let mut interp = Interp::new(program);
    for (table, entry) in entries {
        interp.set(*table, entry).map_err(|e| e.to_string())?;
    }
    let strings = |handler: &Handler| {
        let params = program.events[handler.event].params.iter().enumerate();
        params.filter(|(_, param)| program.is_string(param.ty)).map(|(at, _)| at).collect()
    };
    let mut counts =
        Counts { strings: program.handlers.values().map(strings).collect(), ..Counts::default() };
    let place = |number: usize| move |e| format!("event {}: {e}", number + 1);
    for (number, event) in before.iter().enumerate() {
        interp.run(event).map_err(place(number))?;
    }
    for (number, event) in events.iter().enumerate() {
        interp.run_traced(event, &mut counts).map_err(place(number))?;
    }
    let mut known = program.clone().into_inner();
    for (handler, [zeros, times]) in counts.zeros {
        let event = known.handlers[handler].event;
        known.events[event].zeros = (zeros / times) as u32;
    }
    for ((body, inst), [taken, not]) in counts.branches {
        let body = match body {
            BodyOf::Handler(handler) => &mut known.handlers[handler].body,
            BodyOf::Func(func) => &mut known.funcs[func].body,
        };
        if let Op::If { likely: likely @ None, .. } = &mut body.insts[inst].op {
            *likely = Some(((taken + 1) as f64 / (taken + not + 2) as f64) as f32);
        }
    }
    verify(known).map_err(|errors| errors.first().map_or(String::new(), ToString::to_string))
}

/// Counts of what was seen.
#[derive(Default)]
struct Counts {
    /// How often each `if` went either way.
    branches: HashMap<(BodyOf, InstId), [u64; 2]>,
    /// By handler the parameters that are byte strings.
    strings: Vec<Vec<usize>>,
    /// Zeros at their ends, and how many events that were.
    zeros: HashMap<HandlerId, [u64; 2]>,
}

impl Tracer for Counts {
    fn branch(&mut self, body: BodyOf, inst: InstId, taken: bool) {
        self.branches.entry((body, inst)).or_default()[usize::from(!taken)] += 1;
    }

    fn handler(&mut self, handler: HandlerId, args: &[Val]) {
        let strings = &self.strings[handler.as_u32() as usize];
        if strings.is_empty() {
            return;
        }
        let zeros = |at: &usize| match args.get(*at) {
            Some(Val::Bytes(bytes)) => u64::from(io::string_zeros(bytes)),
            _ => 0,
        };
        let counted = self.zeros.entry(handler).or_default();
        counted[0] += strings.iter().map(zeros).sum::<u64>();
        counted[1] += 1;
    }
}
