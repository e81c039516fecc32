//! `nicforge check` and `run` of a Python module in the language of Floem: what the package
//! `nicforge.floem` makes of it, which calls this program in turn.

use std::path::Path;
use std::process::Command;

use nicforge_driver::Failure;

/// True if a program is a Python module.
pub fn is(program: &Path) -> bool {
    program.extension().is_some_and(|e| e == "py")
}

/// Does `check` or `run` with a module.
pub fn run(command: &str, program: &Path) -> Result<(), Failure> {
    let own = std::env::current_exe()
        .map_err(|e| Failure::environment(format!("cannot find this program: {e}")))?;
    // Installed by pip, the package is that of the Python beside.
    let beside = own.with_file_name("python3");
    let python = if beside.is_file() { beside } else { "python3".into() };
    let status = Command::new(&python)
        .args(["-m", "nicforge.floem", command])
        .arg(program)
        .env("NICFORGE", own)
        .status()
        .map_err(|e| Failure::environment(format!("cannot start `{}`: {e}", python.display())))?;
    match status.code() {
        Some(0) => Ok(()),
        // Python has said what there is to say.
        Some(code @ (1 | 2)) => Err(Failure { code: code as u8, message: String::new() }),
        _ => Err(Failure::environment(format!("`python3 -m nicforge.floem` ended with {status}"))),
    }
}
