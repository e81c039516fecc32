//! Timers: handlers that run when time has passed (`NF_TIMER`).

use nicforge_ir::{Direction, EventId, Span};

use crate::ast::Node;
use crate::diagnostics::codes;
use crate::queues::is_offered;
use crate::signatures::Signature;
use crate::unit::{Lowered, Unit};

/// Longest period: an hour.
const LONGEST: i128 = 3_600_000_000_000;

impl Unit<'_> {
    /// A period in nanoseconds.
    ///
    /// # Errors
    /// Reports what is no constant, or too long.
    pub fn period(&mut self, number: Option<i128>, span: Span) -> Lowered<u64> {
        let help = "write NF_TIMER(NF_MS(10)), or NF_NS, NF_US or NF_SEC of a whole number";
        match number {
            Some(period @ 1..=LONGEST) => Ok(period as u64),
            Some(period) => {
                let message = format!("a period of {period} ns is out of range: at most an hour");
                Err(self.refuse(codes::TIMER, span, message, help))
            }
            None => {
                let message = "a timer's period is an integer constant, in nanoseconds";
                Err(self.refuse(codes::TIMER, span, message, help))
            }
        }
    }

    /// The event of a timer whose handler this is; `span` is where its period stands.
    ///
    /// # Errors
    /// Reports handlers of other events, and what a timer has not: parameters and results.
    pub fn timer_event(
        &mut self,
        node: &Node,
        of: &Signature,
        period: u64,
        span: Span,
    ) -> Lowered<EventId> {
        let name = node.name.as_str();
        if is_offered(name) || self.queues.contains(name) || self.alkali.handles(name) {
            let message = format!("`{name}` handles another event, and no timer");
            let help = "put it before a function of its own: `void name(void)`";
            return Err(self.refuse(codes::TIMER, span, message, help));
        }
        if !of.params.is_empty() || of.result.is_some() || node.storage == "static" {
            let message = format!("`{name}` is the handler of a timer and must look like it");
            let help = format!("write `void {name}(void)`: nothing comes with a timer");
            return Err(self.refuse(codes::TIMER, node.name_span, message, &help));
        }
        let event = self.event(name, Direction::In, &[]);
        self.prog.events[event].period = Some(period);
        Ok(event)
    }
}
