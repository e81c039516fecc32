//! `if` and `loop` in C.
//!
//! Each arm of an `if` is printed into a buffer of its own with the state it starts from; what the
//! dialect then wants done so that both states become one goes to the arms' ends. A loop's `break`
//! and `continue` are C's where that does the same, else jumps to labels behind the loop or at the
//! end of its body.

use std::fmt::Write;

use nicforge_ir::{BlockId, InstId, ValueId};

use super::body::{AtOnce, Dialect, Emitter, Flow, Unsupported};
use super::runs;

pub(super) struct LoopLabels {
    pub(super) params: Vec<ValueId>,
    pub(super) results: Vec<ValueId>,
    /// Label behind the loop, if a plain `break` does not do.
    pub(super) exit: String,
    pub(super) exit_used: bool,
    /// Label at the end of the loop's body.
    pub(super) next: String,
    pub(super) next_used: bool,
    pub(super) plain_break: bool,
}

impl<D: Dialect> Emitter<'_, D> {
    fn append(text: &mut String, lines: &[String], indent: usize) {
        for line in lines {
            let _ = writeln!(text, "{:1$}{line}", "", indent * 4);
        }
    }

    pub(super) fn if_else(
        &mut self,
        inst: InstId,
        cond: ValueId,
        then: BlockId,
        other: BlockId,
        likely: Option<f32>,
        last: bool,
    ) -> Result<Flow, Unsupported> {
        let results = self.body.insts[inst].results.clone();
        let before = self.state.clone();
        let arm = |e: &mut Self, region: BlockId, holds: bool| {
            e.state = before.clone();
            D::assume(e, cond, holds);
            e.capture(|e| e.block(region, &results, last))
        };
        let (then_ends, mut then_text) = arm(self, then, true)?;
        let then_state = self.state.clone();
        let (other_ends, mut other_text) = arm(self, other, false)?;
        let other_state = self.state.clone();
        match (then_ends, other_ends) {
            (true, true) => {
                let joined = D::join(self, &then_state, &other_state);
                Self::append(&mut then_text, &joined.first, self.indent + 1);
                Self::append(&mut other_text, &joined.second, self.indent + 1);
                self.state = joined.state;
            }
            (true, false) => self.state = then_state,
            (false, _) => self.state = other_state,
        }
        self.last_line = None;
        let (negate, first, second) = if then_text.is_empty() {
            (true, other_text, then_text)
        } else {
            (false, then_text, other_text)
        };
        let test = if negate { negated(self, cond) } else { self.text(cond) };
        let test = match likely {
            Some(p) if p >= 0.9 => format!("__builtin_expect({test}, {})", u8::from(!negate)),
            Some(p) if p <= 0.1 => format!("__builtin_expect({test}, {})", u8::from(negate)),
            _ => test,
        };
        if !first.is_empty() {
            self.line(&format!("if ({test}) {{"));
            self.out.push_str(&first);
            // An arm that leaves needs no else.
            let first_ends = if negate { other_ends } else { then_ends };
            if second.is_empty() {
                self.line("}");
            } else if !first_ends {
                self.line("}");
                self.out.push_str(&dedent(&second));
            } else {
                self.line("} else {");
                self.out.push_str(&second);
                self.line("}");
            }
        }
        if then_ends || other_ends { Ok(Flow::Next) } else { Ok(Flow::Leaves) }
    }

    pub(super) fn loop_(
        &mut self,
        inst: InstId,
        init: &[ValueId],
        trips: u32,
        body: BlockId,
    ) -> Result<(), Unsupported> {
        let params = self.body.blocks[body].params.clone();
        self.copy(&params, init);
        let before = self.state.clone();
        D::enter_loop(self, body);
        let run = runs::find(self.program, self.body, &self.vars, inst);
        let at_once = run.and_then(|run| D::run(self, &run));
        let (first, last) = match at_once {
            Some(AtOnce::Whole { condition, lines }) => {
                self.whole_run(inst, body, trips, condition, &lines)?;
                D::leave_loop(self, &before);
                return Ok(());
            }
            Some(AtOnce::First { done, left, lines }) => {
                lines.iter().for_each(|line| self.line(line));
                match left {
                    Some(left) => {
                        (format!("{done} + {left} > {trips} ? {done} + {left} - {trips} : 0"), left)
                    }
                    None => (done, trips),
                }
            }
            None => ("0".to_string(), trips),
        };
        self.trips(inst, body, &first, last)?;
        D::leave_loop(self, &before);
        Ok(())
    }

    /// A run, and the loop it stands for where it cannot be done at once.
    fn whole_run(
        &mut self,
        inst: InstId,
        body: BlockId,
        trips: u32,
        condition: Option<String>,
        lines: &[String],
    ) -> Result<(), Unsupported> {
        let results = self.body.insts[inst].results.clone();
        let params = self.body.blocks[body].params.clone();
        let (_, then) = self.capture(|e| {
            lines.iter().for_each(|line| e.line(line));
            e.copy(&results, &params);
            Ok(())
        })?;
        let Some(condition) = condition else {
            self.out.push_str(&dedent(&then));
            self.last_line = None;
            return Ok(());
        };
        let (_, other) = self.capture(|e| e.trips(inst, body, "0", trips))?;
        if then.is_empty() {
            let single = !condition.contains("&&");
            let condition = if single { condition } else { format!("({condition})") };
            self.line(&format!("if (!{condition}) {{"));
        } else {
            self.line(&format!("if ({condition}) {{"));
            self.out.push_str(&then);
            self.line("} else {");
        }
        self.out.push_str(&other);
        self.line("}");
        self.last_line = None;
        Ok(())
    }

    /// The loop as such, from trip `first` to trip `last`, and the copies to its results.
    fn trips(
        &mut self,
        inst: InstId,
        body: BlockId,
        first: &str,
        last: u32,
    ) -> Result<(), Unsupported> {
        let params = self.body.blocks[body].params.clone();
        let results = self.body.insts[inst].results.clone();
        let state = self.state.clone();
        // A plain break may be used if running out of trips leaves nothing to copy.
        let plain_break =
            params.iter().zip(&results).all(|(p, r)| self.vars.same(*p, *r) || !self.is_used(*r));
        let labels = LoopLabels {
            params: params.clone(),
            results: results.clone(),
            exit: self.names.fresh("done"),
            exit_used: false,
            next: self.names.fresh("again"),
            next_used: false,
            plain_break,
        };
        self.loops.push(labels);
        let trip = self.names.fresh("trip");
        let (_, mut text) = self.capture(|e| {
            D::trip_starts(e, &params);
            e.block(body, &[], false)
        })?;
        let labels = self.loops.pop().expect("pushed above");
        self.state = state;
        // The jump to the next trip at the very end of the body goes without saying.
        let last_jump = format!("goto {};\n", labels.next);
        if let Some(rest) = text.strip_suffix(&last_jump) {
            text = format!("{}\n", rest.trim_end());
        }
        if text.contains(&last_jump) {
            let _ = writeln!(text, "{}:;", labels.next);
        }
        // A number that is known is one for each trip.
        let first = match self.open_loops {
            true => format!("nf_unknown({first})"),
            false => first.to_string(),
        };
        self.line(&format!("for (u32 {trip} = {first}; {trip} < {last}; {trip}++) {{"));
        self.out.push_str(&text);
        self.line("}");
        if !labels.plain_break {
            self.copy(&results, &params);
        }
        if labels.exit_used {
            self.line(&format!("{}:;", labels.exit));
        }
        self.last_line = None;
        Ok(())
    }
}

fn negated<D: Dialect>(e: &Emitter<'_, D>, cond: ValueId) -> String {
    let text = e.value(cond);
    match text.text.strip_prefix('!') {
        Some(rest) if !text.atom => rest.to_string(),
        _ => format!("!{}", text.operand()),
    }
}

/// A region without its braces: all names of a body differ, so its declarations may join those
/// around it.
fn dedent(text: &str) -> String {
    text.lines().map(|l| format!("{}\n", l.strip_prefix("    ").unwrap_or(l))).collect()
}
