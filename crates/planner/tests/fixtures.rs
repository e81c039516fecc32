//! `tests/fixtures/NAME.air` says on its first line which cuts to make, one behind the other;
//! `NAME.expect` is what must come out. Each is also run, before and after. `NICFORGE_BLESS=1`
//! writes what comes out.

mod common;

use common::{behaviour, cut_with, difference, shared_table, text};
use nicforge_ir::generate::events;
use nicforge_ir::text::parse;
use nicforge_ir::verify;
use nicforge_planner::cut::{Objective, Options, crossing, cursor_at_event, prepare};

/// The text after the cuts that the first line asks for: `// cut objective=tables balance=0.5
/// handler=net_recv packet=always reread=2; cut …`.
fn run(text_before: &str) -> Result<String, String> {
    let command =
        text_before.lines().next().and_then(|line| line.strip_prefix("// ")).ok_or("no command")?;
    let program = parse(text_before).map_err(|e| e.to_string())?;
    let program = verify(program).map_err(|errors| errors[0].to_string())?;
    let input = events(7, 300);
    let want = behaviour(&program, &input, &|_| {});
    let mut program = prepare(&program).map_err(|e| e.to_string())?;
    let mut notes = String::new();
    for step in command.split(';') {
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
    Ok(notes + &text(&program))
}

#[test]
fn fixtures() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    let bless = std::env::var_os("NICFORGE_BLESS").is_some();
    let (mut failed, mut count) = (Vec::new(), 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "air") {
            continue;
        }
        count += 1;
        let found = run(&std::fs::read_to_string(&path).unwrap())
            .unwrap_or_else(|e| format!("error: {e}\n"));
        let expect = path.with_extension("expect");
        if bless {
            std::fs::write(&expect, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&expect).unwrap_or_default();
        if found != expected || found.starts_with("error") {
            failed.push(format!("{}\n--- expected\n{expected}--- found\n{found}", path.display()));
        }
    }
    assert!(count >= 8, "only {count} fixtures were found");
    assert!(failed.is_empty(), "{}\nNICFORGE_BLESS=1 accepts what was found", failed.join("\n"));
}
