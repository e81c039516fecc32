//! What `nicforge --help` shows: the commands by job, on a screen of 24 lines.
//!
//! clap lists subcommands in one column without headings, so the screen is made here from one table
//! of names, as cargo does it; what a command is for stays its doc comment. `--list` is the long
//! form: every command with that comment.

use std::fmt::Write as _;

use clap::{Command, CommandFactory, FromArgMatches};

use super::Args;

/// What people use most, in the order in which they meet it.
const MOST_USED: &[&str] = &["new", "check", "run", "verify", "plan", "report"];

/// All other commands by job.
const JOBS: &[(&str, &[&str])] = &[
    ("Write and look inside", &["build", "trace", "explain-error", "targets", "lsp"]),
    ("Plan and predict", &["sim", "bound", "explain", "sweep", "validate"]),
    ("While it runs", &["table", "metrics", "reload", "detach"]),
    ("Hosts, sPIN, boards", &["balance", "spin", "kit"]),
    ("This machine", &["doctor", "completions", "man"]),
];

/// Reads the command line.
pub fn parse() -> Args {
    let mut command = command();
    let matches = command.get_matches_mut();
    Args::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit())
}

/// The whole command line, whose own help is the screen.
pub fn command() -> Command {
    let command = Args::command();
    let template = screen(&command);
    command.help_template(template)
}

/// The whole command line with clap's own form of help, for pages of `man`.
pub fn plain() -> Command {
    Args::command()
}

/// Every command with what it is for, by job.
pub fn list() -> String {
    let command = Args::command();
    let mut text = String::new();
    for (job, names) in [("Most used", MOST_USED)].iter().chain(JOBS) {
        let _ = writeln!(text, "{job}:\n{}", rows(&command, names));
    }
    text.trim_end().to_string() + "\n"
}

fn screen(command: &Command) -> String {
    let mut text = String::from("{about}\n\nUsage: nicforge COMMAND [ARGUMENT]...\n\nMost used:\n");
    text.push_str(&rows(command, MOST_USED));
    text.push_str("\nAll others by job (nicforge --list says what each is for):\n");
    let width = JOBS.iter().map(|(job, _)| job.len()).max().unwrap_or_default();
    for (job, names) in JOBS {
        let _ = writeln!(text, "  {job:width$}  {}", names.join(", "));
    }
    text.push_str(
        "\nnicforge help COMMAND says all of one; nicforge --version which this is.\n\
         First steps: nicforge new hello, then nicforge run hello --target interp.",
    );
    text
}

/// A line for each command: its name and what it is for.
fn rows(command: &Command, names: &[&str]) -> String {
    let mut text = String::new();
    for name in names {
        let about = command.find_subcommand(name).and_then(Command::get_about);
        let about = about.map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(text, "  {name:13}  {about}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(text: &str, lines: usize) {
        assert!(text.lines().count() <= lines, "{} lines:\n{text}", text.lines().count());
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn help_fits_a_screen_and_the_list_another() {
        let short = command().render_help().to_string();
        fits(&short, 24);
        assert_eq!(command().render_long_help().to_string(), short);
        fits(&list(), 40);
    }

    #[test]
    fn every_command_is_listed_once_and_says_what_it_is_for() {
        let command = command();
        let mut listed: Vec<&str> =
            MOST_USED.iter().chain(JOBS.iter().flat_map(|(_, names)| *names)).copied().collect();
        let mut there: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        listed.sort_unstable();
        there.sort_unstable();
        assert_eq!(listed, there);
        assert!(command.get_subcommands().all(|one| one.get_about().is_some()));
    }
}
