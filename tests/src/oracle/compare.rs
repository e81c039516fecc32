//! The interpreter against the oracle.

use nicforge_ir::{
    Entry, InputEvent, Interp, Output, Program, TableBackend, TableId, TableKind, Verified,
};
use nicforge_run::control;

use super::statics::Values;
use super::{Oracle, Said};

/// What went to outside, in the oracle's words.
pub fn said(program: &Program, outputs: &[Output]) -> Vec<Said> {
    let one = |output: &Output| match output.clone() {
        Output::Send { port, frame } => Said::Send { port, frame },
        Output::Stack { frame } => Said::Stack { frame },
        Output::HostPacket { frame } => Said::HostPacket { frame },
        Output::HostMessage { bytes } => Said::HostMessage { bytes },
        Output::DmaWrite { addr, data } => Said::DmaWrite { addr, data },
        Output::Drop { reason } => Said::Drop { reason: program.reasons[reason].text.clone() },
        Output::Log { text } => Said::Log { text },
    };
    outputs.iter().map(one).collect()
}

/// What differs: an event's outputs, what is in the tables at the end, what they refused and
/// evicted.
pub fn difference(
    program: &Verified<Program>,
    oracle: &mut Oracle,
    entries: &[(TableId, Entry)],
    events: &[InputEvent],
) -> Option<String> {
    difference_with(program, oracle, entries, events, |_| {})
}

/// The same with a change to what the interpreter gave for each event: a comparison must find it.
pub fn difference_with(
    program: &Verified<Program>,
    oracle: &mut Oracle,
    entries: &[(TableId, Entry)],
    events: &[InputEvent],
    tamper: impl Fn(&mut Vec<Said>),
) -> Option<String> {
    let mut interp = Interp::new(program);
    if let Err(error) = control::apply(&mut interp, entries) {
        return Some(format!("the entries: {error}"));
    }
    for (table, entry) in entries {
        let def = &program.tables[*table];
        oracle.set(&def.name, &Values::of(program, def), entry);
    }
    for (i, event) in events.iter().enumerate() {
        let want = oracle.run(event);
        let mut got = match interp.run(event) {
            Ok(outputs) => said(program, &outputs),
            Err(error) => {
                return Some(format!("event {i} {event:?}: the interpreter says: {error}"));
            }
        };
        tamper(&mut got);
        if want != got {
            return Some(format!("event {i} {event:?}\noracle      {want:?}\ninterpreter {got:?}"));
        }
    }
    for (id, table) in program.tables.iter() {
        let values = Values::of(program, table);
        if !oracle.has(&table.name, &values) {
            continue;
        }
        let got = interp.dump(id).expect("the interpreter's tables");
        let Some(want) = oracle.entries(&table.name, &values) else {
            return Some(format!("table {}: plain C has not one such variable", table.name));
        };
        if want != got {
            return Some(format!(
                "table {}\noracle      {want:?}\ninterpreter {got:?}",
                table.name
            ));
        }
        let counters = interp.counters();
        let got = (counters.refused[id], counters.evicted[id]);
        let counted = matches!(table.kind, TableKind::Hash | TableKind::Lru);
        if counted && oracle.counts(&table.name) != got {
            let want = oracle.counts(&table.name);
            return Some(format!(
                "table {}: refused, evicted: oracle {want:?}, interpreter {got:?}",
                table.name
            ));
        }
    }
    None
}
