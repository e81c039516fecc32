//! An example on live interfaces, by the command line tool that users have.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread::JoinHandle;

use serde_json::Value;
use tempfile::TempDir;

use crate::net::{Daemon, Namespace};
use crate::root;

/// Seconds after which a run ends by itself if nobody ends it.
const LONGEST: &str = "600";

/// The command line tool, built once in the folder and profile of the running test.
pub fn tool() -> &'static Path {
    static TOOL: OnceLock<PathBuf> = OnceLock::new();
    TOOL.get_or_init(|| {
        let test = std::env::current_exe().expect("the test's path");
        let profile = test.ancestors().nth(2).expect("TARGET/PROFILE/deps/TEST");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        // Together with the module, as scripts build it: alone, dependencies have fewer features, and
        // all of them would be built again.
        cargo.args(["build", "-q", "-p", "nicforge-cli", "-p", "nicforge-python", "--target-dir"]);
        cargo.arg(profile.join(".."));
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(
            cargo.current_dir(root()).status().expect("cargo").success(),
            "the tool does not build"
        );
        profile.join("nicforge")
    })
}

/// A running example.
pub struct Nic {
    // Ends before its folder goes.
    child: Daemon,
    folder: TempDir,
    output: Option<JoinHandle<String>>,
    errors: Option<JoinHandle<String>>,
}

impl Nic {
    /// Runs the program in the folder `example`, seen from `examples/`, on interfaces of a
    /// namespace, with these tables in it, and waits until it is attached.
    pub fn start(namespace: &Namespace, example: &str, interfaces: &[&str], tables: &Value) -> Nic {
        let folder = TempDir::new().expect("a folder");
        let file = folder.path().join("tables.json");
        std::fs::write(&file, tables.to_string()).expect("a table file");
        let mut command = namespace.command(tool().to_str().expect("a path in UTF-8"));
        command.arg("run").arg(root().join("examples").join(example)).arg("--tables").arg(file);
        command.args(["--duration", LONGEST]);
        for interface in interfaces {
            command.args(["--dev", interface]);
        }
        // A control socket that is not among those of the user's own runs.
        command.env("XDG_RUNTIME_DIR", folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Daemon(command.spawn().expect("nsenter"));
        let mut errors = BufReader::new(child.0.stderr.take().expect("a pipe"));
        let mut said = String::new();
        let name = example.rsplit('/').next().unwrap_or(example);
        while !said.contains(&format!("{name} runs on")) {
            let read = errors.read_line(&mut said).expect("lines");
            assert!(read > 0, "{example} does not start: {said}");
        }
        let rest = |mut from: Box<dyn Read + Send>| {
            std::thread::spawn(move || {
                let mut text = String::new();
                let _ = from.read_to_string(&mut text);
                text
            })
        };
        let output = Some(rest(Box::new(child.0.stdout.take().expect("a pipe"))));
        Nic { child, folder, output, errors: Some(rest(Box::new(errors))) }
    }

    /// Entries of a table, by `nicforge table dump`.
    pub fn dump(&self, table: &str) -> Vec<Value> {
        let id = self.child.0.id().to_string();
        let mut command = Command::new(tool());
        command.args(["table", "dump", table, "--json", "--run", &id]);
        let output = command.env("XDG_RUNTIME_DIR", self.folder.path()).output().expect("the tool");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        answer["result"].as_array().expect("entries").clone()
    }

    /// Ends it as Ctrl-C does; returns its report.
    pub fn stop(mut self) -> String {
        let kill =
            Command::new("sh").arg("-c").arg(format!("kill -INT {}", self.child.0.id())).status();
        assert!(kill.expect("sh").success());
        let status = self.child.0.wait().expect("its end");
        let text = |handle: &mut Option<JoinHandle<String>>| {
            handle.take().and_then(|handle| handle.join().ok()).unwrap_or_default()
        };
        let errors = text(&mut self.errors);
        assert!(status.success(), "{errors}");
        text(&mut self.output)
    }
}

/// A number of a run's report, such as that of `packets in` or of a drop reason; 0 if it is not
/// there.
pub fn reported(report: &str, name: &str) -> u64 {
    let line = report.lines().find_map(|line| line.trim_start().strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
