//! Cutting one handler in several ways.
//!
//! A search asks for the same handler's cuts by three objectives and several balances. What they
//! have in common is made once: the body taken apart, a network for each set of rules with the
//! closed sets of its groups, the smallest cut of each set that was looked at, and the two stages
//! of each division that was chosen. Objectives and balances only say which sets are looked at and
//! which division wins, so the answers are those that a [`Cutter`] for each question would give.

use std::rc::Rc;

use nicforge_ir::{
    Body, Direction, Event, EventId, Handler, HandlerId, Op, Program, Type, Verified, verify,
};
use nicforge_passes::registry::{MAX_ROUNDS, pass_named};
use nicforge_passes::{PassError, PassManager};

use super::choose::{self, Choice, Divider};
use super::graph::{self, Division, Reread, Rules};
use super::nodes::Work;
use super::{
    Cursor, Cut, NoCut, Objective, Options, Weights, cursor_at_event, no_cut, stage_names,
};
use super::{project, restart, weigh};

/// Divisions that are looked at for a constant cursor, and the bytes that one is worth: an offset
/// of two bytes in the event and the bounds checks of a variable one, in every stage behind.
const MOST_TRIED: usize = 4;
const CURSOR_WORTH: i64 = 4;

/// A handler taken apart, and what is known of its cuts.
pub struct Cutter<'a> {
    program: &'a Verified<Program>,
    handler: HandlerId,
    weights: &'a Weights<'a>,
    work: Work,
    /// By [`Objective::ALL`].
    weight: [Option<Vec<f64>>; Objective::ALL.len()],
    dividers: Vec<Divider>,
    made: Vec<Made>,
}

/// The two stages of a division.
struct Made {
    division: Rc<Division>,
    clean: bool,
    event: EventId,
    downstream: HandlerId,
    /// The packet's cursor is the same wherever the event comes from, or no packet goes along.
    constant: bool,
    program: Program,
    /// Once it was chosen: verified, and cleaned if that is wanted.
    finished: Option<Result<Verified<Program>, NoCut>>,
}

impl<'a> Cutter<'a> {
    /// Takes the handler apart.
    ///
    /// # Errors
    ///
    /// If the handler is of a form that is never cut.
    pub fn new(
        program: &'a Verified<Program>,
        handler: HandlerId,
        weights: &'a Weights<'a>,
    ) -> Result<Cutter<'a>, NoCut> {
        let work = Work::new(program, working_body(program, handler)?);
        let (weight, dividers, made) = (Default::default(), Vec::new(), Vec::new());
        Ok(Cutter { program, handler, weights, work, weight, dividers, made })
    }

    /// Cuts the handler in two.
    ///
    /// # Errors
    ///
    /// If it has no two parts, or none that the objective can weigh; the error says why.
    pub fn cut(&mut self, options: &Options) -> Result<Cut, NoCut> {
        let mut found = Vec::new();
        for pending_emits in [false, true] {
            for rules in self.rule_sets(options, pending_emits) {
                found.extend(self.choices(options, rules));
            }
            if !found.is_empty() {
                break;
            }
        }
        let ranked = choose::ranked(found, options);
        let Some(first) = ranked.first() else {
            let name = self.program.handlers[self.handler].name.clone();
            return Err(no_cut(self.program, name, &self.work, options.objective));
        };
        // Divisions that hardly carry more are as good, and a constant cursor is worth that.
        let close = |choice: &&Choice| {
            let within = (choice.share - options.balance).abs() <= options.tolerance;
            within && choice.cost <= first.cost + CURSOR_WORTH * graph::BYTE
        };
        let mut best = (first, self.made(first, options));
        if !self.made[best.1].constant {
            for choice in ranked.iter().skip(1).take(MOST_TRIED - 1).filter(close) {
                let made = self.made(choice, options);
                if self.made[made].constant {
                    best = (choice, made);
                    break;
                }
            }
        }
        self.finish(best.1, best.0.share)
    }

    /// The divisions under one set of rules.
    fn choices(&mut self, options: &Options, rules: Rules) -> Vec<Choice> {
        let objective = options.objective;
        let number = Objective::ALL.iter().position(|o| *o == objective).unwrap_or(0);
        let weight = self.weight[number]
            .get_or_insert_with(|| weigh::weigh(self.program, &self.work, self.weights, objective));
        let at =
            self.dividers.iter().position(|divider| divider.rules == rules).unwrap_or_else(|| {
                self.dividers.push(Divider::new(self.program, &self.work, rules));
                self.dividers.len() - 1
            });
        self.dividers[at].choices(weight, options)
    }

    /// Ways for the packet to go that are tried; of equal divisions the first wins.
    fn rule_sets(&self, options: &Options, pending_emits: bool) -> Vec<Rules> {
        let plain = Rules { packet_crosses: false, pending_emits, reread: None };
        if self.work.packet.is_none() {
            return vec![plain];
        }
        let mut sets = Vec::new();
        if options.without_packet {
            sets.push(plain);
        }
        sets.push(Rules { packet_crosses: true, ..plain });
        let start = cursor_at_event(self.program, self.program.handlers[self.handler].event);
        if let (Some(bytes_each), Some(Cursor { consumed: from, emitted: 0 }), false) =
            (options.reread_bytes, start, pending_emits)
        {
            sets.push(Rules {
                packet_crosses: true,
                reread: Some(Reread { from, bytes_each }),
                ..plain
            });
        }
        sets
    }

    /// The number in `made` of a division's stages.
    fn made(&mut self, choice: &Choice, options: &Options) -> usize {
        let known = |made: &Made| made.clean == options.clean && made.division == choice.division;
        if let Some(known) = self.made.iter().position(known) {
            return known;
        }
        self.made.push(stages(self.program, self.handler, &self.work, choice, options.clean));
        self.made.len() - 1
    }

    /// Verifies and cleans what was made.
    fn finish(&mut self, made: usize, share: f64) -> Result<Cut, NoCut> {
        let name = &self.program.handlers[self.handler].name;
        let Made { program, clean, finished, event, downstream, .. } = &mut self.made[made];
        let program = finished.get_or_insert_with(|| {
            complete(program.clone(), *clean)
                .map_err(|error| NoCut::Broken { handler: name.clone(), error })
        });
        let program = program.clone()?;
        let params = &program.events[*event].params;
        let bytes = params.iter().map(|param| program.size_of(param.ty)).sum();
        let shares = (share, 1.0 - share);
        let (downstream, event) = (*downstream, *event);
        Ok(Cut { program, upstream: self.handler, downstream, event, bytes, shares })
    }
}

/// The stages of a division, before they are verified.
fn stages(
    program: &Program,
    handler: HandlerId,
    work: &Work,
    choice: &Choice,
    clean: bool,
) -> Made {
    let mut program = program.clone();
    let division = &choice.division;
    let down = project::downstream(&program, work, division);
    let (event_name, name) = stage_names(&program, handler);
    let params = down.params.clone();
    let event = program.events.push(Event {
        name: event_name,
        direction: Direction::Internal,
        params,
        zeros: 0,
        period: None,
    });
    program.handlers[handler].body = project::upstream(work, division, &down, event);
    let second = Handler { name, event, body: down.body, ..program.handlers[handler].clone() };
    let downstream = program.handlers.push(second);
    let resets = restart::resets_first(&program.handlers[downstream].body);
    if let Some(packet) =
        work.packet.filter(|_| resets && cursor_at_event(&program, event).is_none())
    {
        // Nobody looks at the cursor, so it may as well be the same everywhere.
        restart::reset_before(&mut program.handlers[handler].body, packet, event);
    }
    // What earlier cuts and passes left behind would be copied with every candidate.
    for handler in program.handlers.values_mut() {
        handler.body.compact();
    }
    let carries = program.events[event].params.iter().any(|param| param.ty == Type::Packet);
    let constant = !carries || cursor_at_event(&program, event).is_some();
    Made { division: division.clone(), clean, event, downstream, constant, program, finished: None }
}

/// The stages verified, and simplified if that is wanted.
fn complete(program: Program, clean: bool) -> Result<Verified<Program>, String> {
    let verified = verify(program).map_err(|errors| errors[0].to_string())?;
    if clean { clean_up(verified).map_err(|error| error.to_string()) } else { Ok(verified) }
}

/// The handler's body, simplified as the analysis expects it: no unreachable regions.
fn working_body(program: &Verified<Program>, handler: HandlerId) -> Result<Body, NoCut> {
    let data = &program.handlers[handler];
    let name = data.name.clone();
    let mut calls = false;
    data.body.for_each_inst(data.body.entry(), &mut |inst| {
        calls |= matches!(data.body.insts[inst].op, Op::Call { .. });
    });
    if calls {
        return Err(NoCut::Calls { handler: name });
    }
    let packets = program.events[data.event].params.iter().filter(|param| param.ty == Type::Packet);
    if packets.count() > 1 {
        return Err(NoCut::Packets { handler: name });
    }
    Ok(project::simplified(program, data.body.clone()))
}

/// Simplifies, takes structs apart, drops needless parameters, and so on until nothing changes.
pub(super) fn clean_up(program: Verified<Program>) -> Result<Verified<Program>, PassError> {
    again(program, &["split-structs", "event-params"])
}

/// Simplifies, lets events carry living members, and so on until nothing changes.
pub(super) fn narrow(program: Verified<Program>) -> Result<Verified<Program>, PassError> {
    again(program, &["live-members"])
}

fn again(mut program: Verified<Program>, passes: &[&str]) -> Result<Verified<Program>, PassError> {
    let mut manager = PassManager::new();
    program = manager.simplify(program)?;
    for _ in 0..MAX_ROUNDS {
        let mut changed = false;
        for pass in passes.iter().filter_map(|name| pass_named(name)) {
            let mut inner = program.clone().into_inner();
            if !pass.run(&mut inner) {
                continue;
            }
            changed = true;
            program = verify(inner).map_err(|errors| PassError::Broken {
                pass: pass.name(),
                errors,
                program: Box::new(program.into_inner()),
            })?;
            program = manager.simplify(program)?;
        }
        if !changed {
            break;
        }
    }
    Ok(program)
}
