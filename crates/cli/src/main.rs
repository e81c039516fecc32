//! `nicforge`: write a packet program once, compile it, run it, check it.
//!
//! Exit status: 0 ok; 1 the program or its input is at fault; 2 wrong usage; 3 the machine lacks something.

mod args;
mod cmd;
mod context;
mod events;
mod program;
mod text;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let args = args::Args::parse();
    match cmd::dispatch(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.message.is_empty() {
                eprintln!("{}", failure.message.trim_end());
            }
            ExitCode::from(failure.code)
        }
    }
}
