//! `tests/fixtures/NAME.air`: `// test: cut objective=tables balance=0.5 handler=net_recv
//! packet=always reread=2; cut …` makes these cuts one behind the other. Each is also run, before
//! and after.

mod common;

use std::path::Path;

use common::{behaviour, cut_with, difference, shared_table, text};
use nicforge_filetest::{Made, Test, fixtures};
use nicforge_ir::generate::events;
use nicforge_ir::text::parse;
use nicforge_ir::verify;
use nicforge_planner::cut::{Objective, Options, crossing, cursor_at_event, prepare};

/// The text after the cuts that a test asks for.
fn run(test: &Test) -> Result<Vec<Made>, String> {
    let program = parse(test.text).map_err(|e| e.to_string())?;
    let program = verify(program).map_err(|errors| errors[0].to_string())?;
    let input = events(7, 300);
    let want = behaviour(&program, &input, &|_| {});
    let mut program = prepare(&program).map_err(|e| e.to_string())?;
    let mut notes = String::new();
    for step in test.words.join(" ").split(';') {
        let (mut options, mut handler) = (Options::default(), "net_recv");
        for word in step.split_whitespace().filter(|word| *word != "cut") {
            match word.split_once('=').ok_or_else(|| format!("what is {word}?"))? {
                ("objective", name) => {
                    options.objective = Objective::ALL
                        .into_iter()
                        .find(|o| o.name() == name)
                        .ok_or("no such objective")?;
                }
                ("balance", share) => {
                    options.balance = share.parse().map_err(|_| "no such share")?
                }
                ("reread", bytes) => {
                    options.reread_bytes = Some(bytes.parse().map_err(|_| "how many?")?)
                }
                ("packet", "always") => options.without_packet = false,
                ("handler", name) => handler = name,
                (other, _) => return Err(format!("what is {other}?")),
            }
        }
        let found = program.handlers.iter().find(|(_, data)| data.name == handler);
        let id = found.ok_or_else(|| format!("no handler {handler}"))?.0;
        let again = program.clone();
        let cut = match cut_with(&program, id, &options) {
            Ok(cut) => cut,
            Err(why) => {
                notes.push_str(&format!("// {why}\n"));
                break;
            }
        };
        if let Some(wrong) =
            difference(&want, &cut.program, &input, &|_| {}).or(shared_table(&cut.program))
        {
            return Err(wrong);
        }
        let twice = cut_with(&again, id, &options).map_err(|e| e.to_string())?;
        if text(&twice.program) != text(&cut.program) {
            return Err("the same cut gave another program".to_string());
        }
        notes.push_str(&format!(
            "// {}: {} bytes, shares {:.2} and {:.2}, {}\n",
            cut.program.handlers[cut.downstream].name,
            cut.bytes,
            cut.shares.0,
            cut.shares.1,
            match cursor_at_event(&cut.program, cut.event) {
                Some(at) => format!("{} bytes consumed and {} emitted", at.consumed, at.emitted),
                None => "no constant cursor".to_string(),
            }
        ));
        for value in crossing(&cut.program, cut.downstream) {
            let maker = value.made_by.unwrap_or_else(|| "its own event".to_string());
            notes.push_str(&format!("//   {} ({} bytes) from {maker}\n", value.name, value.bytes));
        }
        program = cut.program;
    }
    Ok(Made::only(notes + &text(&program)))
}

#[test]
fn cuts() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures"));
    fixtures(folder, "air", run);
}
