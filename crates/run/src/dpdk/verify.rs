//! A DPDK run against the interpreter.

use nicforge_codegen::dpdk::Pipeline;
use nicforge_ir::{Entry, InputEvent, Interp, Output, Program, TableBackend, TableError, TableId, Verified};

use super::{DpdkError, DpdkProgram, DpdkRun, Machine};
use crate::control;

/// Where a run differs from the interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// What an event led to, by its index.
    Outputs {
        event: usize,
        want: Vec<Output>,
        got: Vec<Output>,
    },
    /// Packets did not leave in order although the pipeline says so: the later event's index came before.
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

/// Runs events as a DPDK process and in the interpreter; gives the run and what differs, which is nothing if all is right.
///
/// `program` is what the interpreter runs, `compiled` what passes and cutting made of it. The outputs of one event are
/// compared as sets where several stages made them.
pub fn verify_dpdk(
    program: &Verified<Program>,
    compiled: &Verified<Program>,
    pipeline: &Pipeline,
    entries: &[(TableId, Entry)],
    events: &[InputEvent],
) -> Result<(DpdkRun, Vec<Difference>), DpdkError> {
    verify_on(Machine::Here, program, compiled, pipeline, entries, events)
}

/// The same on another machine.
pub fn verify_on(
    machine: Machine,
    program: &Verified<Program>,
    compiled: &Verified<Program>,
    pipeline: &Pipeline,
    entries: &[(TableId, Entry)],
    events: &[InputEvent],
) -> Result<(DpdkRun, Vec<Difference>), DpdkError> {
    let run = DpdkProgram::new_on(machine, compiled, pipeline)?.run(events, entries)?;
    let found = compare(&run, program, pipeline, entries, events);
    Ok((run, found))
}

/// What of a run is not as the interpreter says.
pub fn compare(
    run: &DpdkRun,
    program: &Verified<Program>,
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
    for (i, (event, got)) in events.iter().zip(&run.outputs).enumerate() {
        let mut want = match interp.run(event) {
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
        found.extend(late.map(|pair| Difference::Order { before: pair[0].event, after: pair[1].event }));
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
