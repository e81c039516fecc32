//! `nicforge`: write a packet program once, compile it, run it, check it.
//!
//! Exit status: 0 ok; 1 the program or its input is at fault; 2 wrong usage; 3 the machine lacks
//! something; 4 an interface went away; 5 neither proved nor refuted (`verify --against`); 130 ended
//! by Ctrl-C; 141 nobody reads the output any more.

#[macro_use]
mod out;

mod args;
mod cmd;
mod interrupt;
mod parallel;
mod text;

use std::io::IsTerminal;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;

use nicforge_driver::{codes, color, stop};

fn main() -> ExitCode {
    color::set(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    let words: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    if let Some(failure) = cmd::spin::handlers::instead(&words) {
        eprintln!("{}", failure.message);
        return ExitCode::from(failure.code);
    }
    let args = args::parse();
    // Output into a closed pipe unwinds, so that everything that was made is removed; see `out`.
    let result = catch_unwind(AssertUnwindSafe(|| {
        let result = interrupt::catch().and_then(|()| cmd::dispatch(args));
        result.map_err(|failure| {
            // What Ctrl-C broke (a compiler gets it too) is no news.
            if stop::stopped() {
                return nicforge_driver::INTERRUPTED;
            }
            if !failure.message.is_empty() {
                errln!("{}", failure.message.trim_end());
                explain(&failure.message);
            }
            failure.code
        })
    }));
    match result {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(code)) => ExitCode::from(code),
        Err(panic) if panic.is::<out::Closed>() => ExitCode::from(out::CLOSED_STATUS),
        Err(panic) => resume_unwind(panic),
    }
}

/// Says how to learn more about a diagnostic, to a person at a terminal.
fn explain(message: &str) {
    if let Some(code) = codes::in_message(message)
        && std::io::stderr().is_terminal()
    {
        errln!("\nnicforge explain-error {} says more", code.id);
    }
}
