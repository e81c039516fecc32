//! `nicforge completions` and `nicforge man`: what a shell and `man` want to know, made from the
//! command line itself.

use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use nicforge_driver::Failure;

use crate::args::{self, Completions, Manual};

/// Prints the completions of a shell.
pub fn completions(args: &Completions) {
    let mut bytes = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(), "nicforge", &mut bytes);
    crate::out::bytes(&bytes);
}

/// Writes a page for `nicforge`, and one for every subcommand, as `nicforge-plan.1`.
pub fn manual(args: &Manual) -> Result<(), Failure> {
    let fail = |e: std::io::Error| Failure::user(format!("{}: {e}", args.folder.display()));
    std::fs::create_dir_all(&args.folder).map_err(fail)?;
    let mut command = args::plain();
    command.build();
    let count = page(&command, &args.folder).map_err(fail)?;
    outln!("wrote {count} pages to {}", args.folder.display());
    Ok(())
}

/// A command's page and those of its subcommands; how many.
fn page(command: &Command, folder: &Path) -> std::io::Result<usize> {
    // Built commands know their whole name.
    let name = command.get_display_name().unwrap_or(command.get_name()).to_string();
    let mut text = Vec::new();
    Man::new(command.clone()).render(&mut text)?;
    std::fs::write(folder.join(format!("{name}.1")), text)?;
    let mut count = 1;
    for one in command.get_subcommands().filter(|one| one.get_name() != "help") {
        count += page(one, folder)?;
    }
    Ok(count)
}
