//! A balancer's control socket: one request a line, an answer that ends with an empty line.
//!
//! ```text
//! metrics                    Prometheus text
//! status                     one line for people
//! threshold GBPS | auto      by order, or by the policy again
//! route nic | host | auto
//! stop
//! ```
//!
//! The socket is in the user's own directory, as those of runs are ([`crate::socket`]); its name is
//! `balance.PID.ctl`.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nicforge_balance::director::Route;

use super::{daemon::Daemon, metrics};
use crate::socket::{Lines, SocketError, directory};

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Request {
    Metrics,
    Status,
    /// bit/s; none: the policy's.
    Threshold(Option<f64>),
    /// None: as policy and heartbeats say.
    Route(Option<Route>),
    Stop,
}

impl Request {
    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn parse(line: &str) -> Result<Request, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["metrics"] => Ok(Request::Metrics),
            ["status"] => Ok(Request::Status),
            ["stop"] => Ok(Request::Stop),
            ["threshold", "auto"] => Ok(Request::Threshold(None)),
            ["threshold", gbps] => match gbps.parse() {
                Ok(gbps) if (0.0..=1e5).contains(&gbps) => Ok(Request::Threshold(Some(gbps * 1e9))),
                _ => Err(format!("`{gbps}` is no threshold; give Gbit/s, or `auto`")),
            },
            ["route", "auto"] => Ok(Request::Route(None)),
            ["route", "nic"] => Ok(Request::Route(Some(Route::Nic))),
            ["route", "host"] => Ok(Request::Route(Some(Route::Host))),
            _ => Err("known are `metrics`, `status`, `threshold GBPS|auto`, `route nic|host|auto`, `stop`"
                .to_string()),
        }
    }
}

/// Any bytes as a request, for the fuzzer.
pub fn fuzz(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = Request::parse(text);
    }
}

/// A balancer's control socket; its name goes when this is dropped.
pub struct Server(Lines);

impl Server {
    /// Listens in the user's directory.
    pub fn start() -> Result<Server, SocketError> {
        let path = directory()?.join(format!("balance.{}.ctl", std::process::id()));
        // Left behind by a process of the same number.
        let _ = std::fs::remove_file(&path);
        let fail = |source| SocketError::Io { what: "make the socket", path: path.clone(), source };
        Lines::bind(path.clone()).map(Server).map_err(fail)
    }

    /// Answers everything that was asked meanwhile; true if somebody asked to stop.
    pub fn poll(&mut self, daemon: &mut Daemon) -> bool {
        let mut stop = false;
        self.0.poll(|line| {
            let request = Request::parse(&String::from_utf8_lossy(line));
            stop |= request == Ok(Request::Stop);
            let text = request.map(|request| answer(request, daemon));
            let text = text.unwrap_or_else(|message| format!("error: {message}"));
            format!("{}\n\n", text.trim_end()).into_bytes()
        });
        if stop {
            self.0.finish();
        }
        stop
    }
}

fn answer(request: Request, daemon: &mut Daemon) -> String {
    match request {
        Request::Metrics => return metrics::prometheus(daemon.status()),
        Request::Status => return metrics::line(daemon.status()),
        Request::Threshold(bits) => daemon.order_threshold = bits,
        Request::Route(route) => daemon.order = route,
        Request::Stop => {}
    }
    "ok".to_string()
}

/// Control sockets of balancers that run now.
pub fn running() -> Result<Vec<PathBuf>, SocketError> {
    let entries = std::fs::read_dir(directory()?).into_iter().flatten().flatten();
    let named = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("balance.") && name.ends_with(".ctl")
    };
    Ok(entries
        .map(|entry| entry.path())
        .filter(named)
        .filter(|path| UnixStream::connect(path).is_ok())
        .collect())
}

/// Asks a balancer.
pub fn ask(path: &Path, request: &str) -> Result<String, SocketError> {
    let fail = |source| SocketError::Io { what: "ask", path: path.to_path_buf(), source };
    let mut stream = UnixStream::connect(path).map_err(fail)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(fail)?;
    stream.write_all(format!("{request}\n").as_bytes()).map_err(fail)?;
    // The balancer ends the connection when it has answered all of it.
    stream.shutdown(Shutdown::Write).map_err(fail)?;
    let mut text = String::new();
    let read = stream.read_to_string(&mut text);
    if read.is_err() || !text.ends_with("\n\n") {
        return Err(SocketError::NoAnswer { seconds: PATIENCE.as_secs() });
    }
    match text.strip_prefix("error: ") {
        Some(message) => Err(SocketError::Answer(message.trim_end().to_string())),
        None => Ok(text.trim_end().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read() {
        assert_eq!(Request::parse("threshold 2.5"), Ok(Request::Threshold(Some(2.5e9))));
        assert_eq!(Request::parse(" route host "), Ok(Request::Route(Some(Route::Host))));
        assert!(Request::parse("threshold -1").unwrap_err().contains("`-1` is no threshold"));
        assert!(Request::parse("").is_err() && Request::parse("threshold NaN").is_err());
    }
}
