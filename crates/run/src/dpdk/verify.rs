//! A DPDK run against the interpreter.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use nicforge_codegen::dpdk::{PipeStage, Pipeline, SteerBy};
use nicforge_ir::interp::{Access, Tracer};
use nicforge_ir::{
    Direction, Entry, HandlerId, InputEvent, Interp, Op, Output, Program, TableBackend, TableError,
    TableId, Verified,
};

use super::{Departure, DpdkError, DpdkProgram, DpdkRun, Machine, Refusal};
use crate::{capacity, control};

/// Where a run differs from the interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// What an event led to, by its index.
    Outputs {
        event: usize,
        want: Vec<Output>,
        got: Vec<Output>,
    },
    /// Packets of one key, or any where all are in order, did not leave in order: the later event's
    /// index came before.
    Order {
        before: usize,
        after: usize,
    },
    Table {
        table: TableId,
        want: Vec<Entry>,
        got: Vec<Entry>,
    },
    /// The interpreter could not run an event, or a table take an entry.
    Interpreter {
        event: usize,
        message: String,
    },
}

/// Runs events as a DPDK process and in the interpreter; gives the run and what differs, which is
/// nothing if all is right.
///
/// `program` is what the interpreter runs, `compiled` what passes and cutting made of it. The
/// outputs of one event are compared as sets where several stages made them.
pub fn verify_dpdk(
    program: &Verified<Program>,
    compiled: &Verified<Program>,
    pipeline: &Pipeline,
    entries: &[(TableId, Entry)],
    events: &[InputEvent],
) -> Result<(DpdkRun, Vec<Difference>), DpdkError> {
    verify_on(Machine::Here, program, compiled, pipeline, entries, events)
}

/// Verifies on another machine.
pub fn verify_on(
    machine: Machine,
    program: &Verified<Program>,
    compiled: &Verified<Program>,
    pipeline: &Pipeline,
    entries: &[(TableId, Entry)],
    events: &[InputEvent],
) -> Result<(DpdkRun, Vec<Difference>), DpdkError> {
    let built = DpdkProgram::new_on(machine, compiled, pipeline)?;
    run_and_compare(built, (program, compiled), pipeline, entries, events)
}

/// Verifies with the stages of the host in a process of their own, see [`DpdkProgram::apart`] and
/// [`DpdkProgram::with_dma`].
pub fn verify_apart(
    program: &Verified<Program>,
    compiled: &Verified<Program>,
    pipeline: &Pipeline,
    dma: Option<&str>,
    entries: &[(TableId, Entry)],
    events: &[InputEvent],
) -> Result<(DpdkRun, Vec<Difference>), DpdkError> {
    let built = DpdkProgram::new(compiled, pipeline)?.apart()?.with_dma(dma);
    run_and_compare(built, (program, compiled), pipeline, entries, events)
}

fn run_and_compare(
    built: DpdkProgram,
    programs: (&Verified<Program>, &Program),
    pipeline: &Pipeline,
    entries: &[(TableId, Entry)],
    events: &[InputEvent],
) -> Result<(DpdkRun, Vec<Difference>), DpdkError> {
    let built = built.in_turn(full_among_replicas(programs.0, pipeline, entries, events));
    let run = built.run(events, entries)?;
    let found = compare(&run, programs, pipeline, entries, events);
    Ok((run, found))
}

/// True if a hash table is full and replicas run side by side: which key is refused then depends on
/// who is first, so events are compared one after the other.
pub(crate) fn full_among_replicas(
    program: &Verified<Program>,
    pipeline: &Pipeline,
    entries: &[(TableId, Entry)],
    events: &[InputEvent],
) -> bool {
    pipeline.stages.iter().any(|stage| stage.replicas > 1)
        && capacity::refuses(program, entries, events)
}

/// A table and a key.
type Place = (TableId, Vec<u8>);

/// The keys that events use of tables whose entries depend on the order of their users: packets of
/// one key leave in order.
struct Keys {
    ordered: BTreeSet<TableId>,
    event: usize,
    /// By event, each with whether it changed the entry: events that only read one may leave in any
    /// order.
    used: HashMap<usize, BTreeMap<Place, bool>>,
}

impl Keys {
    fn new(program: &Program) -> Keys {
        let mut ordered = BTreeSet::new();
        if !program.handlers.values().any(|handler| handler.unordered) {
            for body in program.handlers.values().map(|handler| &handler.body) {
                body.for_each_inst(body.entry(), &mut |inst| {
                    let effects = body.insts[inst].op.effects();
                    ordered.extend(effects.table_write.filter(|_| !effects.commutes));
                });
            }
        }
        Keys { ordered, event: 0, used: HashMap::new() }
    }

    /// The first packet that left before an earlier one of the same key.
    fn overtaken(&self, departures: &[Departure]) -> Option<Difference> {
        // The latest event of a key that left so far, and the latest of those that changed its
        // entry.
        let mut last: HashMap<&Place, (usize, Option<usize>)> = HashMap::new();
        for departure in departures {
            let event = departure.event;
            for (key, changes) in self.used.get(&event).into_iter().flatten() {
                let (any, changed) = last.entry(key).or_insert((event, None));
                let before = if *changes { Some(*any) } else { *changed };
                if let Some(before) = before.filter(|before| *before > event) {
                    return Some(Difference::Order { before, after: event });
                }
                *any = event.max(*any);
                *changed = if *changes { Some(event).max(*changed) } else { *changed };
            }
        }
        None
    }
}

impl Tracer for Keys {
    fn table(&mut self, access: &Access) {
        if self.ordered.contains(&access.table) {
            let used = self.used.entry(self.event).or_default();
            *used.entry((access.table, access.key.to_vec())).or_default() |= access.writes;
        }
    }
}

/// True if packets of one key leave in order: by one stage, all of whose events of a key go to one
/// replica, and not through replicas on their way there that take events in turn, or by ways of
/// different lengths that meet where nothing sorts them. Else they may overtake each other on their
/// way out, whatever the order in which they used the entry.
fn leave_by_key(compiled: &Program, pipeline: &Pipeline) -> bool {
    let handler = |id: &HandlerId| {
        let body = &compiled.handlers[*id].body;
        let mut found = false;
        body.for_each_inst(body.entry(), &mut |inst| found |= compiled.sends(&body.insts[inst].op));
        found
    };
    let exits: Vec<_> =
        pipeline.stages.iter().filter(|stage| stage.handlers.iter().any(handler)).collect();
    let steered = |id: &HandlerId| {
        let by = pipeline.steering.iter().find(|s| s.event == compiled.handlers[*id].event);
        by.is_some_and(|steering| steering.by != SteerBy::RoundRobin)
    };
    let internal = |id: &HandlerId| {
        compiled.events[compiled.handlers[*id].event].direction == Direction::Internal
    };
    let mixes = |stage: &PipeStage| {
        let in_turn =
            stage.replicas > 1 && stage.handlers.iter().any(|id| internal(id) && !steered(id));
        let senders = pipeline.stages.iter().filter(|from| sends_to(compiled, from, stage));
        in_turn || !stage.ordered && senders.count() > 1
    };
    match exits[..] {
        [] => true,
        _ if pipeline.stages.iter().any(mixes) => false,
        [exit] => exit.replicas == 1 || exit.handlers.iter().all(steered),
        _ => false,
    }
}

/// True if a stage generates events for another.
fn sends_to(program: &Program, from: &PipeStage, to: &PipeStage) -> bool {
    let events: Vec<_> = to.handlers.iter().map(|id| program.handlers[*id].event).collect();
    from.handlers.iter().any(|id| {
        let body = &program.handlers[*id].body;
        let mut found = false;
        body.for_each_inst(body.entry(), &mut |inst| {
            let op = &body.insts[inst].op;
            found |= matches!(op, Op::Generate { event, .. } if events.contains(event));
        });
        found
    })
}

/// Places that a pipe's hash table looks at for a key, and those of its stash
/// (rtl/nf_pipe_hash.sv): with fewer entries it has room.
const LEAST_TO_REFUSE: usize = 16;

/// A refusal of a table that must have had room.
fn unfounded(
    program: &Program,
    interp: &Interp,
    refused: &[Refusal],
    event: usize,
) -> Option<Difference> {
    refused.iter().find_map(|Refusal { table, inserted }| {
        let entries = interp.dump(*table).map_or(0, |entries| entries.len()) + *inserted as usize;
        let def = &program.tables[*table];
        (entries < LEAST_TO_REFUSE.min(def.capacity as usize)).then(|| Difference::Interpreter {
            event,
            message: format!("`{}` refused a key with {entries} entries", def.name),
        })
    })
}

/// Most insertions of an event into a table: what it tries after a refusal is refused too, in a
/// pipe. The same place may insert several times.
fn insertions(program: &Program, table: TableId) -> usize {
    let mut count = 0;
    for handler in program.handlers.values() {
        let body = &handler.body;
        body.for_each_inst(body.entry(), &mut |inst| {
            count += usize::from(body.insts[inst].op.effects().table_write == Some(table));
        });
    }
    count * MOST_TIMES
}

/// How often one place inserts at most, in a pipe: its loops and events are written out.
const MOST_TIMES: usize = 64;

/// What of a run is not as the interpreter says. `program` is the interpreter's, `compiled` what
/// ran in the pipeline.
pub fn compare(
    run: &DpdkRun,
    (program, compiled): (&Verified<Program>, &Program),
    pipeline: &Pipeline,
    entries: &[(TableId, Entry)],
    events: &[InputEvent],
) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut interp = Interp::new(program);
    let problem = |event, message| Difference::Interpreter { event, message };
    if let Err(error) = control::apply(&mut interp, entries) {
        found.push(problem(0, TableError::to_string(&error)));
        return found;
    }
    let one_stage = pipeline.stages.len() == 1;
    let mut keys = Keys::new(program);
    for (i, (event, got)) in events.iter().zip(&run.outputs).enumerate() {
        keys.event = i;
        if let Some(evicted) = &run.evicted {
            interp.evict_next(&evicted[i]);
        }
        if let Some(refused) = &run.refused {
            found.extend(unfounded(program, &interp, &refused[i], i));
            let all = refused[i]
                .iter()
                .flat_map(|one| std::iter::repeat_n(one.table, insertions(compiled, one.table)));
            interp.refuse_next(&all.collect::<Vec<_>>());
            refused[i].iter().for_each(|one| interp.refuse_behind(one.table, one.inserted));
        }
        let mut want = match interp.run_traced(event, &mut keys) {
            Ok(want) => want,
            Err(error) => {
                found.push(problem(i, error.to_string()));
                continue;
            }
        };
        let mut got = got.clone();
        if !one_stage {
            want.sort_by_key(|output| format!("{output:?}"));
            got.sort_by_key(|output| format!("{output:?}"));
        }
        if want != got {
            found.push(Difference::Outputs { event: i, want, got });
        }
    }
    if pipeline.ordered_output || pipeline.workers() == 1 {
        let late = run.departures.windows(2).find(|pair| pair[0].event > pair[1].event);
        found.extend(
            late.map(|pair| Difference::Order { before: pair[0].event, after: pair[1].event }),
        );
    } else if leave_by_key(compiled, pipeline) {
        found.extend(keys.overtaken(&run.departures));
    }
    for table in program.tables.keys() {
        let want = interp.dump(table).unwrap_or_default();
        let got = run.tables.get(&table).cloned().unwrap_or_default();
        if want != got {
            found.push(Difference::Table { table, want, got });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets that found their entry go by another way than those that did not.
    const TWO_WAYS: &str = "program two_ways ports 1
table counts: array[u32 -> u32] capacity 4
event net_recv(pkt: packet) in
event net_send(pkt: packet, port: u32) out
event aside(pkt: packet) internal
event away(pkt: packet) internal

handler net_recv on net_recv(%pkt: packet) {
  %ok: u1, %key: u32 = extract %pkt
  %hit: u1, %x: u32 = lookup counts[%key]
  %one: u32 = 1
  %more: u32 = add %x, %one
  %stored: u1 = update counts[%key], %more
  if %hit {
    generate aside(%pkt)
    yield
  } else {
    generate away(%pkt)
    yield
  }
  return
}

handler aside on aside(%pkt: packet) {
  generate away(%pkt)
  return
}

handler away on away(%pkt: packet) {
  %zero: u32 = 0
  generate net_send(%pkt, %zero)
  return
}
";

    #[test]
    fn ways_of_different_lengths_mix_packets_where_nothing_sorts_them() {
        let program = nicforge_ir::text::parse(TWO_WAYS).unwrap_or_else(|e| panic!("{e}"));
        let mut pipeline = Pipeline::single(&program);
        let one = pipeline.stages[0].clone();
        let stage = |handler| PipeStage { handlers: vec![handler], ..one.clone() };
        pipeline.stages = program.handlers.keys().map(stage).collect();
        assert!(!leave_by_key(&program, &pipeline));
        pipeline.stages[2].ordered = true;
        assert!(leave_by_key(&program, &pipeline));
    }
}
