//! `nicforge doctor`: what this machine has of what Nicforge uses, what needs the rest, and the
//! command that installs it.
//!
//! Tools are looked for by the code that calls them (`nicforge_run::needs`). The kernel is asked by
//! a program that goes the whole road: generated, compiled, loaded, run on one packet.

use nicforge_codegen::{LineStyle, xdp};
use nicforge_driver::options::Source;
use nicforge_driver::{Failure, Runtime, program};
use nicforge_ir::{Input, InputEvent};
use nicforge_run::compile::Mode;
use nicforge_run::needs::{self, Found, Need};
use nicforge_run::netns::Sandbox;
use nicforge_run::temp::Folder;
use nicforge_run::xdp::compile_bpf;
use nicforge_run::xdp::{LoadOptions, Loaded};
use serde_json::json;

use super::{new, sweep};
use crate::args::Doctor;

/// Prints the table. Fails where the first program, in the interpreter, could not run.
pub fn run(args: &Doctor) -> Result<(), Failure> {
    let clang = needs::clang();
    let ready = clang.found.is_ok();
    let mut all = vec![clang, kernel(), network()];
    all.extend(needs::others());
    all.push(dask());
    let install = install(&all);
    if args.json {
        let rows: Vec<_> = all.iter().map(row_json).collect();
        let value = json!({ "ready": ready, "needs": rows, "install": install });
        outln!("{value:#}");
    } else {
        print(&all, &install, ready);
    }
    if ready { Ok(()) } else { Err(Failure { code: 3, message: String::new() }) }
}

/// Tries whether the kernel loads a program and runs it on a packet.
fn kernel() -> Need {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let found = || Found { version: release.trim().to_string(), place: "test run works".into() };
    Need {
        name: "XDP in the kernel",
        for_what: "run and verify on xdp (not for --target interp)",
        found: in_kernel().map(|()| found()).map_err(|failure| failure.reason().to_string()),
    }
}

fn in_kernel() -> Result<(), Failure> {
    let folder = Folder::new("doctor").map_err(Failure::temporary)?;
    let path = folder.path().join("doctor.c");
    std::fs::write(&path, new::starter("doctor")).map_err(Failure::temporary)?;
    let runtime = Runtime::unpack()?;
    let source = Source { program: path, ..Source::default() };
    let program = program::lower(&program::load(&source, &runtime)?.program)?;
    let artifact = xdp::generate(&program, LineStyle::Directives)
        .map_err(|errors| program::unsupported(&program, &errors))?;
    let headers = runtime.target_headers("xdp");
    let object = compile_bpf(&program.name, &artifact.source, Mode::Replay, &headers)
        .map_err(|e| Failure::of(e.fault(), e))?;
    let options = LoadOptions { mode: Mode::Replay, ifindex: Vec::new() };
    let loaded = Loaded::load(&program, &artifact, &object, &options)
        .map_err(|e| program::kernel_failure(&program, e))?;
    let input = Input::Net { port: 0, frame: vec![0; 64] };
    let event = InputEvent { time_ns: 0, seed: 0, input };
    loaded.test_run(&event).map(|_| ()).map_err(|e| Failure::of(e.fault(), e))
}

/// Tries whether packets can go through interfaces of our own.
fn network() -> Need {
    let found = Found { version: String::new(), place: "namespaces with veth work".into() };
    Need {
        name: "test networks",
        for_what: "captures on xdp, and plans of several stages there",
        found: Sandbox::new(1).map(|_| found).map_err(|error| error.to_string()),
    }
}

fn dask() -> Need {
    let python = sweep::python(None);
    let shown = python.display().to_string();
    let ran = std::process::Command::new(&python)
        .args(["-c", "import distributed; print(distributed.__version__)"])
        .output();
    let found = match ran {
        Ok(ran) if ran.status.success() => {
            let version = String::from_utf8_lossy(&ran.stdout).trim().to_string();
            Ok(Found { version, place: shown })
        }
        Ok(_) => Err(format!(
            "`{shown}` has no Dask; `pip install distributed` into it, or name another with --python"
        )),
        Err(error) => Err(format!(
            "`{shown}` cannot be started ({error}); install it with `apt-get install python3`"
        )),
    };
    Need { name: "Python with Dask", for_what: "sweep --scheduler", found }
}

/// What installs what is missing: packages in one command, then scripts of the repository. Read
/// from the errors, which say it.
fn install(all: &[Need]) -> Vec<String> {
    let errors = || all.iter().filter_map(|need| need.found.as_ref().err());
    let mut packages: Vec<&str> = Vec::new();
    let mut scripts: Vec<String> = Vec::new();
    for error in errors() {
        for word in error.split("`apt-get install ").skip(1).flat_map(words) {
            if !packages.contains(&word) {
                packages.push(word);
            }
        }
        if !error.contains("apt-get install")
            && let Some(at) = error.find("scripts/")
        {
            let name = error[at..].split(|c: char| !(c.is_alphanumeric() || "/-_.".contains(c)));
            let script = name.take(1).collect::<String>().trim_end_matches('.').to_string();
            if !scripts.contains(&script) {
                scripts.push(script);
            }
        }
    }
    let mut commands = Vec::new();
    if !packages.is_empty() {
        commands.push(format!("apt-get install -y --no-install-recommends {}", packages.join(" ")));
    }
    commands.extend(scripts);
    commands
}

/// The packages of a command up to its closing quote.
fn words(command: &str) -> impl Iterator<Item = &str> {
    let end = command.find('`').unwrap_or(command.len());
    command[..end].split_whitespace().filter(|word| !word.starts_with('-'))
}

fn row_json(need: &Need) -> serde_json::Value {
    let (found, missing) = match &need.found {
        Ok(found) => (Some(found), None),
        Err(why) => (None, Some(why)),
    };
    json!({
        "name": need.name,
        "version": found.map(|found| &found.version),
        "where": found.map(|found| &found.place),
        "missing": missing,
        "for": need.for_what,
    })
}

fn print(all: &[Need], install: &[String], ready: bool) {
    let version = |need: &Need| match &need.found {
        Ok(found) if found.version.is_empty() => "there".to_string(),
        Ok(found) => found.version.clone(),
        Err(_) => "MISSING".to_string(),
    };
    let width = |text: &dyn Fn(&Need) -> usize| all.iter().map(text).max().unwrap_or_default();
    let names = width(&|need| need.name.len());
    let versions = width(&|need| version(need).len());
    for need in all {
        let rest = match &need.found {
            Ok(found) => found.place.clone(),
            Err(_) => format!("needed for {}", need.for_what),
        };
        outln!("{:names$}  {:versions$}  {rest}", need.name, version(need));
    }
    for need in all {
        if let Err(why) = &need.found {
            outln!("\n{}: {}", need.name, why.trim_end());
        }
    }
    if !install.is_empty() {
        outln!("\nto install what is missing:");
        install.iter().for_each(|command| outln!("  {command}"));
    }
    outln!(
        "\n{}",
        match ready {
            true => "ready: nicforge new hello, then nicforge run hello --target interp",
            false => "not ready: without clang no program can be read",
        }
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_command_installs_what_the_errors_name() {
        let missing = |why: &str| Need { name: "a", for_what: "b", found: Err(why.to_string()) };
        let all = [
            missing("no x; install it with `apt-get install x y`, or run scripts/x.sh"),
            missing("no y; `apt-get install --no-install-recommends y z` has it"),
            missing("no v: run scripts/v.sh, or set V"),
            missing("no permission: run as root"),
        ];
        let commands = install(&all);
        assert_eq!(commands, ["apt-get install -y --no-install-recommends x y z", "scripts/v.sh"]);
        assert!(install(&all[3..]).is_empty());
    }
}
