//! The control socket of a program on interfaces, which may also take another program.

use std::sync::atomic::Ordering;
use std::time::Duration;

use nicforge_driver::options::{Inputs, Source};
use nicforge_driver::program::{self, Built, Loaded, build_live};
use nicforge_driver::stop::STOP;
use nicforge_driver::{Failure, Runtime, events};
use nicforge_ir::{Entry, Program, TableBackend, TableId};
use nicforge_run::dev::{DevSession, Replacement, TableChange};
use nicforge_run::socket::{ControlTarget, Request};
use nicforge_run::xdp::Tables;
use serde_json::{Value, json};

use super::dev::State;
use super::watch::Watch;
use crate::args::Run;
use crate::cmd::reload::tables as tables_text;
use crate::out;

/// The program that requests act on.
pub struct Controlled<'a> {
    state: &'a mut State,
    session: &'a mut DevSession,
    inputs: &'a Inputs,
    tables: Tables,
}

impl<'a> Controlled<'a> {
    pub fn new(
        state: &'a mut State,
        session: &'a mut DevSession,
        inputs: &'a Inputs,
    ) -> Controlled<'a> {
        let tables = session.loaded().tables();
        Controlled { state, session, inputs, tables }
    }
}

impl ControlTarget for Controlled<'_> {
    fn parts(&mut self) -> (&Program, &mut dyn TableBackend) {
        (&self.state.program, &mut self.tables)
    }

    fn metrics(&mut self) -> Value {
        let stats = self.session.stats().map_err(|e| Failure::of(e.fault(), e));
        match stats.and_then(|stats| self.state.summary(self.session, &stats)) {
            Ok(summary) => summary.metrics(&self.state.program),
            Err(_) => Value::Null,
        }
    }

    fn reload(&mut self, request: Request) -> Result<Value, String> {
        let Request::Reload { program, define, include, tables } = request else {
            return Err("this is no reload".to_string());
        };
        // The run's own table file goes with its own program.
        let same = std::fs::canonicalize(&self.state.path).is_ok_and(|path| path == program);
        let own = if same { self.inputs.tables.clone() } else { None };
        let inputs = Inputs { tables: tables.or(own), pcap: Vec::new() };
        let source = Source { program, define, include, with: Vec::new(), ..Source::default() };
        let source = source.on(&self.state.target);
        let answer = replace(self.state, self.session, &source, &inputs).map_err(|e| e.message)?;
        self.tables = self.session.loaded().tables();
        errln!("replaced by {}", source.program.display());
        Ok(answer)
    }

    fn stop(&mut self) {
        STOP.store(true, Ordering::Relaxed);
    }
}

/// Takes the changed source, or says why not and keeps the program that runs.
pub fn because_changed(args: &Run, state: &mut State, session: &mut DevSession, watch: &mut Watch) {
    match replace(state, session, &args.source, &args.inputs) {
        Ok(answer) => {
            errln!("{} changed and was replaced", args.source.program.display());
            out::notes(&tables_text(&answer));
            // It may include other files now.
            *watch = Watch::new(&state.path, &state.program);
        }
        Err(failure) => errln!("{}\nthe program from before goes on", failure.message.trim_end()),
    }
}

/// Compiles a program and puts it in the running one's place. Nothing changes if that fails.
fn replace(
    state: &mut State,
    session: &mut DevSession,
    source: &Source,
    inputs: &Inputs,
) -> Result<Value, Failure> {
    if session.loaded().artifact().pipeline.is_some() {
        return Err(Failure::user(
            "a planned program is not replaced while it runs; end it and start the new one",
        ));
    }
    let (loaded, built) = compile(session, source)?;
    let fail = |e| program::kernel_failure(&loaded.program, e);
    let entries = events::tables(inputs, &loaded.program, &loaded.path)?;
    let replacement = session
        .prepare_replacement(&built.program, &built.artifact, &built.object)
        .map_err(fail)?;
    fill(&replacement, &entries)?;
    let mut answer = changes(&replacement);
    session.replace(replacement).map_err(fail)?;
    state.path = loaded.path;
    state.program = loaded.program.into_inner();
    answer["program"] = json!(state.program.name);
    Ok(answer)
}

/// Fills the tables that start empty.
pub fn fill(new: &Replacement, entries: &[(TableId, Entry)]) -> Result<(), Failure> {
    let starts = entries.iter().filter(|(table, _)| new.starts_empty(*table));
    events::fill(&mut new.loaded().tables(), &starts.cloned().collect::<Vec<_>>())
}

/// What becomes of each table.
pub fn changes(new: &Replacement) -> Value {
    json!({ "tables": new.changes().iter().map(change).collect::<Vec<Value>>() })
}

/// Compiles on a thread of its own, while this one keeps the ring to the host side from
/// overflowing.
fn compile(session: &mut DevSession, source: &Source) -> Result<(Loaded, Built), Failure> {
    let work = || {
        let runtime = Runtime::unpack()?;
        let loaded = program::load(source, &runtime)?;
        let built = build_live(&loaded, &runtime)?;
        Ok((loaded, built))
    };
    std::thread::scope(|scope| {
        let compiling = scope.spawn(work);
        while !compiling.is_finished() {
            session.drain().map_err(|e| Failure::of(e.fault(), e))?;
            std::thread::sleep(Duration::from_millis(5));
        }
        compiling.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn change((table, change): &(String, TableChange)) -> Value {
    match change {
        TableChange::Kept => json!({ "table": table, "change": "kept" }),
        TableChange::Copied(entries) => {
            json!({ "table": table, "change": "copied", "entries": entries })
        }
        TableChange::New => json!({ "table": table, "change": "new" }),
        TableChange::Changed => json!({ "table": table, "change": "changed" }),
        TableChange::Removed => json!({ "table": table, "change": "removed" }),
    }
}
