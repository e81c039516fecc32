//! nginx as the server behind a program, and curl as its client.

use std::process::Stdio;

use tempfile::TempDir;

use crate::net::{Daemon, Namespace, wait_for};

/// A running nginx.
pub struct Web {
    // Ends before its folder goes.
    _child: Daemon,
    folder: TempDir,
}

/// One line of its access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    pub address: String,
    pub port: u16,
    pub path: String,
    pub status: u16,
}

impl Web {
    /// Serves files, given by name and content, at addresses of a namespace. Returns when it
    /// listens.
    pub fn start(namespace: &Namespace, listen: &[&str], files: &[(&str, &[u8])]) -> Web {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().display();
        let listen: String = listen.iter().map(|address| format!("listen {address};")).collect();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {path}/{kind};"))
            .concat();
        let configuration = format!(
            "daemon off; master_process off; pid {path}/pid; error_log {path}/error.log;
             events {{ }}
             http {{
                 {temporary}
                 log_format plain '$remote_addr $remote_port $request_uri $status';
                 access_log {path}/access.log plain;
                 server {{ {listen} root {path}; }}
             }}"
        );
        std::fs::write(folder.path().join("nginx.conf"), configuration).expect("a configuration");
        for (name, content) in files {
            std::fs::write(folder.path().join(name), content).expect("a file to serve");
        }
        let mut command = namespace.command("nginx");
        command
            .arg("-e")
            .arg(folder.path().join("error.log"))
            .arg("-c")
            .arg(folder.path().join("nginx.conf"));
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("nginx");
        let web = Web { _child: Daemon(child), folder };
        // nginx writes its process id after it began to listen.
        wait_for("nginx", || web.folder.path().join("pid").exists().then_some(()));
        web
    }

    /// The access log, once it has `count` lines: nginx writes them after the client got its
    /// answer.
    pub fn log(&self, count: usize) -> Vec<Access> {
        let file = self.folder.path().join("access.log");
        let text = wait_for(&format!("{count} requests in nginx's log"), || {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            (text.lines().count() >= count).then_some(text)
        });
        let access = |line: &str| {
            let mut words = line.split(' ').map(str::to_string);
            Some(Access {
                address: words.next()?,
                port: words.next()?.parse().ok()?,
                path: words.next()?,
                status: words.next()?.parse().ok()?,
            })
        };
        text.lines().map(|line| access(line).expect("the log's format")).collect()
    }
}

/// Runs curl with these words; returns what it got.
///
/// # Panics
/// Unless every request succeeds within five minutes.
pub fn curl(namespace: &Namespace, words: &str) -> Vec<u8> {
    let mut command = namespace.command("curl");
    command.args(["-q", "-sS", "--fail", "--max-time", "300"]).args(words.split_whitespace());
    let output = command.stdin(Stdio::null()).output().expect("curl");
    assert!(output.status.success(), "curl {words}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}
