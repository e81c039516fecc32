//! Files of sPIN handlers given to commands for packet programs: which file is one, and what to
//! type in the command's place.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use nicforge_driver::{Failure, program};
use nicforge_run::spin::Api;

/// What only files of handlers have.
const MARKS: [&str; 3] = ["__handler__", "init_handlers", "handler_args_t"];
/// Names that FPsPIN's headers have and PsPIN's lack.
const FPSPIN: [&str; 6] =
    ["spin_host.h", "eth_hdr", "slmp_", "push_counter", "__host_data", "bswap_16"];

/// Machines whose headers there are.
pub const MACHINES: [&str; 2] = ["fpspin", "pspin"];

/// Handlers in C.
pub struct Handlers {
    pub path: PathBuf,
    /// Whose headers they seem to be written for.
    pub api: Api,
}

/// The handlers that a path names, if it names any.
pub fn at(path: &Path) -> Option<Handlers> {
    let path = program::locate(path).ok()?;
    if path.extension().is_none_or(|ending| ending != "c") {
        return None;
    }
    let text = std::fs::read(&path).ok()?;
    let text = String::from_utf8_lossy(&text);
    let has = |names: &[&str]| names.iter().any(|name| text.contains(name));
    if text.contains("nicforge.h") || !has(&MARKS) {
        return None;
    }
    let api = if has(&FPSPIN) { Api::Fpspin } else { Api::Pspin };
    Some(Handlers { path, api })
}

impl Handlers {
    /// The machine with these headers.
    pub fn machine(&self) -> &'static str {
        match self.api {
            Api::Pspin => "pspin",
            Api::Fpspin => "fpspin",
        }
    }
}

/// Advice of a command for packet programs about handlers: the command to type in its place. It
/// looks at the words as typed, since `plan` without a target is wrong before anything is read.
pub fn instead(words: &[OsString]) -> Option<Failure> {
    let command = words.first()?.to_str()?;
    let rest = &words[1..];
    let handlers = rest.iter().find_map(|word| at(Path::new(word)))?;
    let capture = value(rest, "--pcap").map(|file| format!(" --pcap {file}"));
    let simulate = || ("spin sim", capture.clone().unwrap_or_default());
    let verify = || ("spin verify", capture.clone().unwrap_or_default());
    let (why, (form, more)) = match command {
        "build" => ("this is for programs with nicforge.h", ("spin build", String::new())),
        "run" if capture.is_none() => {
            let tap = " --tap spin0 --address 10.9.0.1/24";
            ("this is for programs with nicforge.h", ("spin run", tap.to_string()))
        }
        "run" | "sim" | "trace" | "reload" | "kit" => {
            ("this is for programs with nicforge.h", simulate())
        }
        "verify" => ("this is for programs with nicforge.h", verify()),
        "plan" | "explain" => ("a sPIN NIC runs them as they are, without a plan", simulate()),
        "report" => ("a sPIN NIC runs them as they are, without plans to compare", simulate()),
        _ => return None,
    };
    let file = handlers.path.display();
    let mut line = format!("nicforge {form} {file} --machine {}{more}", handlers.machine());
    let flags = flags(rest);
    if !flags.is_empty() {
        line.push_str(&format!(" -- {}", flags.join(" ")));
    }
    Some(Failure::usage(format!("{file}: these are sPIN handlers; {why}. Type:\n  {line}")))
}

/// The value of an option, as typed.
fn value(words: &[OsString], name: &str) -> Option<String> {
    let at = words.iter().position(|word| word == name)?;
    words.get(at + 1).map(|word| word.to_string_lossy().into_owned())
}

/// Flags for the compiler.
fn flags(words: &[OsString]) -> Vec<String> {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let Some(rest) = word.strip_prefix("-D").or_else(|| word.strip_prefix("-I")) else {
            continue;
        };
        let next = words.get(at + 1).filter(|_| rest.is_empty());
        found.push(format!("{word}{}", next.map_or("", |next| next)));
    }
    found
}
