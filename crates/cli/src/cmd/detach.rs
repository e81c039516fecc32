//! `nicforge detach`: the end of a program that outlives its run.

use nicforge_driver::Failure;
use nicforge_run::dev::pins;
use serde_json::json;

use crate::args::Detach;

/// Detaches it and says what is gone.
pub fn run(args: Detach) -> Result<(), Failure> {
    let known = pins::names();
    let name = match (args.name, known.as_slice()) {
        (Some(name), _) => name,
        (None, [only]) => only.clone(),
        (None, []) => {
            return Err(Failure::user("nothing is pinned; `nicforge run --pin` does that"));
        }
        (None, several) => {
            let several = several.join(", ");
            return Err(Failure::user(format!(
                "several programs are pinned, say which: {several}"
            )));
        }
    };
    let gone = pins::detach(&name).map_err(|e| Failure::of(e.fault(), e))?;
    if args.json {
        let result =
            json!({ "folder": gone.folder, "interfaces": gone.interfaces, "tables": gone.tables });
        outln!("{:#}", json!({ "schema": "nicforge/detach", "version": 1, "result": result }));
        return Ok(());
    }
    match gone.interfaces.as_slice() {
        [] => outln!("removed what was left at {}", gone.folder.display()),
        list => {
            let tables = match gone.tables.as_slice() {
                [] => String::new(),
                tables => format!("; its tables are gone: {}", tables.join(", ")),
            };
            outln!("{name} is detached from {}{tables}", list.join(", "));
        }
    }
    Ok(())
}
