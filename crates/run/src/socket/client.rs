//! The other end: finding runs and asking them.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::{Request, SocketError, directory};

/// How long an answer may take; a reload compiles, and the kernel's verifier takes its time.
fn patience(request: &Request) -> Duration {
    Duration::from_secs(if matches!(request, Request::Reload { .. }) { 120 } else { 10 })
}

/// A run that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningRun {
    pub program: String,
    pub pid: u32,
    pub path: PathBuf,
}

/// All runs of this user. Names of runs that are no more are removed.
pub fn list_runs() -> Result<Vec<RunningRun>, SocketError> {
    list_in(&directory()?)
}

pub(super) fn list_in(directory: &Path) -> Result<Vec<RunningRun>, SocketError> {
    let entries =
        std::fs::read_dir(directory).map_err(SocketError::io("read the directory", directory))?;
    let mut runs = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let parts = name.strip_suffix(".sock").and_then(|name| name.rsplit_once('.'));
        let Some((program, pid)) =
            parts.and_then(|(program, pid)| Some((program, pid.parse().ok()?)))
        else {
            continue;
        };
        if is_stale(&path) {
            let _ = std::fs::remove_file(&path);
        } else {
            runs.push(RunningRun { program: program.to_string(), pid, path: path.clone() });
        }
    }
    runs.sort_by(|a, b| (a.pid, &a.program).cmp(&(b.pid, &b.program)));
    Ok(runs)
}

/// True if nobody listens at a socket any more.
pub(super) fn is_stale(path: &Path) -> bool {
    matches!(UnixStream::connect(path), Err(error) if error.kind() == io::ErrorKind::ConnectionRefused)
}

/// The run of process `pid`, or the only one there is.
pub fn find_run(pid: Option<u32>) -> Result<RunningRun, SocketError> {
    pick(list_runs()?, pid)
}

pub(super) fn pick(runs: Vec<RunningRun>, pid: Option<u32>) -> Result<RunningRun, SocketError> {
    let names = |runs: &[RunningRun]| -> String {
        let name = |run: &RunningRun| format!("{} ({})", run.pid, run.program);
        if runs.is_empty() {
            "none".to_string()
        } else {
            runs.iter().map(name).collect::<Vec<_>>().join(", ")
        }
    };
    match (pid, &runs[..]) {
        (Some(pid), runs) => runs
            .iter()
            .find(|run| run.pid == pid)
            .cloned()
            .ok_or_else(|| SocketError::NoSuchRun { pid, running: names(runs) }),
        (None, []) => Err(SocketError::NoRun),
        (None, [run]) => Ok(run.clone()),
        (None, several) => Err(SocketError::Several(names(several))),
    }
}

/// Asks a run and waits for the answer.
pub fn request(path: &Path, request: &Request) -> Result<Value, SocketError> {
    let patience = patience(request);
    let failed = || SocketError::io("talk to the run at", path);
    let mut stream = UnixStream::connect(path).map_err(failed())?;
    stream.set_read_timeout(Some(patience)).map_err(failed())?;
    stream.set_write_timeout(Some(patience)).map_err(failed())?;
    let mut line = serde_json::to_string(request).map_err(|error| failed()(error.into()))?;
    line.push('\n');
    stream.write_all(line.as_bytes()).map_err(failed())?;
    let no_answer = || SocketError::NoAnswer { seconds: patience.as_secs() };
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply).map_err(|_| no_answer())?;
    let mut reply: Value = serde_json::from_str(&reply).map_err(|_| no_answer())?;
    if let Some(message) = reply.get("error").and_then(Value::as_str) {
        return Err(SocketError::Answer(message.to_string()));
    }
    match reply.get_mut("ok") {
        Some(value) => Ok(value.take()),
        None => Err(no_answer()),
    }
}
