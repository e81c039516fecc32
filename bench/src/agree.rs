//! Whether both programs do the same: every packet of the capture, in order, one at a time through
//! the kernel's test run.

use nicforge_ir::TableBackend;
use nicforge_run::compile::Mode;

use crate::case::{Author, Case};
use crate::{Failure, at};

/// Runs all packets through both programs and compares verdicts, bytes, drop counters and, at the
/// end, all tables.
///
/// # Errors
/// The first difference.
pub fn agree(case: &Case) -> Result<(), Failure> {
    let generated = case.load(Author::Generated, Mode::Replay)?;
    let by_hand = case.load(Author::ByHand, Mode::Replay)?;
    for (number, (event, ..)) in case.packets().enumerate() {
        let what = format!("{}, packet {}", case.name, number + 1);
        let want = generated.test_run(event).map_err(at(&what))?;
        let got = by_hand.test_run(event).map_err(at(&what))?;
        if want != got {
            return Err(Failure(format!(
                "{what}: generated code gives {want:?}, hand-written code {got:?}"
            )));
        }
    }
    let (drops, other) = (generated.drops(), by_hand.drops());
    if drops != other {
        return Err(Failure(format!("{}: drops are {drops:?} and {other:?}", case.name)));
    }
    let (tables, others) = (generated.tables(), by_hand.tables());
    for (id, table) in &case.program.tables {
        let what = format!("{}, table {}", case.name, table.name);
        let (want, got) =
            (tables.dump(id).map_err(at(&what))?, others.dump(id).map_err(at(&what))?);
        if let Some(entry) = want.iter().find(|entry| !got.contains(entry)) {
            return Err(Failure(format!("{what}: only generated code has {entry:?}")));
        }
        if let Some(entry) = got.iter().find(|entry| !want.contains(entry)) {
            return Err(Failure(format!("{what}: only hand-written code has {entry:?}")));
        }
    }
    Ok(())
}
