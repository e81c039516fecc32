//! How many events one event from outside may lead to that are alive at once, outputs among them.
//!
//! Where events go from stage to stage and back, queues that wait when they are full could wait for
//! one another. They never do if each has room for all events that can be alive: so many events
//! from outside are let in that this is so, and nothing is lost. An event is alive until what it
//! led to is sent, so the count of an event is 1, or the sum of what one way through its handler
//! generates if that is more; loops count their trips. Handlers that lead to themselves have no
//! such count.
//!
//! Cost: linear in the program.

use crate::ops::Op;
use crate::program::{BlockId, Body, EventId, HandlerId, Program};

/// With more events than these for one from outside nothing goes round: queues of 4,096 have room
/// for 16 such.
pub const MOST_ROUND: u32 = 255;

/// Most events that are alive at once for one event from outside (at least 1); none if handlers
/// lead round.
pub fn most_alive(program: &Program) -> Option<u32> {
    let mut counts = Counts { program, known: vec![Count::Unknown; program.events.len()] };
    let each: Option<Vec<u32>> =
        program.handlers.keys().map(|handler| counts.handler(handler)).collect();
    Some(each?.into_iter().max().unwrap_or(1))
}

#[derive(Clone, Copy)]
enum Count {
    Unknown,
    /// Its handler is being looked at.
    Open,
    Found(u32),
}

struct Counts<'a> {
    program: &'a Program,
    /// By event.
    known: Vec<Count>,
}

impl Counts<'_> {
    fn handler(&mut self, handler: HandlerId) -> Option<u32> {
        let handler = &self.program.handlers[handler];
        let at = handler.event.as_u32() as usize;
        match self.known[at] {
            Count::Open => return None,
            Count::Found(count) => return Some(count),
            Count::Unknown => {}
        }
        self.known[at] = Count::Open;
        let ways = self.block(&handler.body, handler.body.entry())?;
        let count = ways.through.max(ways.returned).unwrap_or(0).max(1);
        self.known[at] = Count::Found(count);
        Some(count)
    }

    fn event(&mut self, event: EventId) -> Option<u32> {
        self.program.handler_of(event).map_or(Some(1), |handler| self.handler(handler))
    }

    fn block(&mut self, body: &Body, block: BlockId) -> Option<Ways> {
        let mut so_far = 0u32;
        let mut ways = Ways::default();
        for &inst in &body.blocks[block].insts {
            match &body.insts[inst].op {
                Op::Generate { event, .. } => so_far = so_far.saturating_add(self.event(*event)?),
                op if op.makes_packet() => so_far = so_far.saturating_add(1),
                Op::Return(_) => {
                    ways.returned = ways.returned.max(Some(so_far));
                    return Some(ways);
                }
                Op::Break { .. } | Op::Continue { .. } => {
                    ways.jumped = ways.jumped.max(Some(so_far));
                    return Some(ways);
                }
                op => {
                    let Some(through) = self.regions(body, op, so_far, &mut ways)? else {
                        return Some(ways);
                    };
                    so_far = through;
                }
            }
        }
        ways.through = Some(so_far);
        Some(ways)
    }

    /// Adds what an op with regions does to what a way has so far, if one goes on behind it.
    fn regions(
        &mut self,
        body: &Body,
        op: &Op,
        so_far: u32,
        ways: &mut Ways,
    ) -> Option<Option<u32>> {
        let trips = if let Op::Loop { max_trips, .. } = op { Some(*max_trips) } else { None };
        let mut inner = Ways::default();
        let mut none = true;
        for region in op.regions() {
            none = false;
            let of = self.block(body, region)?;
            inner.through = inner.through.max(of.through);
            inner.returned = inner.returned.max(of.returned);
            inner.jumped = inner.jumped.max(of.jumped);
        }
        if none {
            return Some(Some(so_far));
        }
        // Jumps end trips of this loop or of one around it.
        let trip = if trips.is_some() { inner.through.max(inner.jumped) } else { inner.through };
        let all = trip.map(|trip| so_far.saturating_add(trip.saturating_mul(trips.unwrap_or(1))));
        let before = if trips.is_some() { all.unwrap_or(so_far) } else { so_far };
        let with = |last: Option<u32>| last.map(|last| before.saturating_add(last));
        ways.returned = ways.returned.max(with(inner.returned));
        ways.jumped = ways.jumped.max(with(inner.jumped));
        Some(all)
    }
}

/// Most events of ways through a region, by how they end: at its end, by a return, by a jump to a
/// loop around; none if no way does.
#[derive(Default)]
struct Ways {
    through: Option<u32>,
    returned: Option<u32>,
    jumped: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{text, verify};

    const HEAD: &str = "program t ports 1\nevent net_recv(pkt: packet) in\nreason \"no\"\nevent up(pkt: packet) internal\n\
        event back(pkt: packet, n: u32) internal\nevent note(n: u32) internal\nevent net_send(pkt: packet, port: u32) out\n";
    const UP: &str = "handler up on up(%p: packet) { %n: u32 = 1 generate back(%p, %n) generate note(%n) return }\n";
    const BACK: &str = "handler back on back(%p: packet, %n: u32) { generate net_send(%p, %n) generate note(%n) return }\n";
    const NOTE: &str = "handler note on note(%n: u32) { return }\n";

    fn alive(recv: &str, rest: &[&str]) -> Option<u32> {
        let source = format!(
            "{HEAD}handler net_recv on net_recv(%p: packet) {{ {recv} }}\n{}",
            rest.concat()
        );
        let program = verify(text::parse(&source).unwrap_or_else(|e| panic!("{e:?}")));
        most_alive(&program.unwrap_or_else(|e| panic!("{}", e[0])))
    }

    #[test]
    fn what_an_event_leads_to_counts_until_it_is_sent() {
        let drop = "drop %p, \"no\" return";
        assert_eq!(alive(drop, &[]), Some(1));
        assert_eq!(alive("generate up(%p) return", &[UP, BACK, NOTE]), Some(3));
    }

    #[test]
    fn ways_that_exclude_each_other_do_not_add_up() {
        let early = "%n: u32 = 1 %c: u1 = eq %n, %n if %c { generate up(%p) return } \
                     generate note(%n) generate net_send(%p, %n) return";
        assert_eq!(alive(early, &[UP, BACK, NOTE]), Some(3));
    }

    #[test]
    fn loops_count_their_trips_and_breaks_go_on_behind_them() {
        let all = "%n: u32 = 1 loop 5 { generate note(%n) continue 0 () } generate net_send(%p, %n) return";
        assert_eq!(alive(all, &[NOTE]), Some(6));
        let one = "%n: u32 = 1 %c: u1 = eq %n, %n \
                   loop 1 { if %c { generate note(%n) break 0 () } drop %p, \"no\" return } \
                   generate note(%n) generate net_send(%p, %n) return";
        assert_eq!(alive(one, &[NOTE]), Some(3));
    }

    #[test]
    fn what_leads_round_has_no_bound() {
        let again = "handler back on back(%p: packet, %n: u32) { generate up(%p) return }\n";
        assert_eq!(alive("generate up(%p) return", &[UP, again, NOTE]), None);
    }
}
