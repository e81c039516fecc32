//! Small networks of namespaces, for programs between real clients and real servers.
//!
//! A namespace has no name: a child process that reads our pipe keeps it alive and ends when the
//! pipe closes, also when this process is killed. Commands in it are told to die with the thread
//! that started them. So nothing stays behind.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nicforge_run::compile::Mode;
use nicforge_run::xdp::compile_bpf;

/// A network namespace.
pub struct Namespace {
    holder: Child,
}

impl Namespace {
    /// Makes a namespace whose loopback interface is up.
    pub fn new() -> Namespace {
        let mut holder = Command::new("unshare")
            .args(["--net", "sh", "-c", "ip link set lo up; echo; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare is needed (package util-linux)");
        // The line says that the namespace is there.
        holder.stdout.as_mut().expect("a pipe").read_exact(&mut [0]).expect("a namespace");
        Namespace { holder }
    }

    /// A command in this namespace that ends at the latest with the calling thread. Its process id
    /// is that of the program, since what is in front of it ends in `exec`.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.holder.id()));
        command.args(["setpriv", "--pdeathsig", "KILL", program]);
        command
    }

    /// Runs a command line without quotes to its end.
    pub fn run(&self, line: &str) -> Done {
        let mut words = line.split_whitespace();
        let mut command = self.command(words.next().expect("a program"));
        done(command.args(words), b"")
    }

    /// Pings `to` so often, each time when the ping before was answered, and counts the answers
    /// with the data that was sent.
    ///
    /// `ping -c 5 -W 300` waits five minutes for its first answer, but for the last ones only twice
    /// as long as the slowest one took. Where other work gets in between that is too short.
    pub fn pings(&self, count: u64, size: u64, to: &str) -> u64 {
        let line = format!("ping -c 1 -W 300 -s {size} {to}");
        let is_answered = |_: &u64| {
            let ping = self.run(&line);
            ping.ok && !ping.stdout.contains("wrong data")
        };
        (0..count).filter(is_answered).count() as u64
    }

    /// Runs lines of `ip`; all must succeed.
    pub fn ip(&self, lines: &str) {
        let result = done(self.command("ip").args(["-batch", "-"]), lines.as_bytes());
        assert!(result.ok, "ip: {}\n{lines}", result.stderr);
    }
}

impl Default for Namespace {
    fn default() -> Namespace {
        Namespace::new()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

/// What a command said.
#[derive(Debug)]
pub struct Done {
    pub ok: bool,
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a command to its end with `input` (less than a pipe holds) on its standard input.
pub fn done(command: &mut Command, input: &[u8]) -> Done {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("nsenter is needed (package util-linux)");
    // A command that ends early does not read it all.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    let output = child.wait_with_output().expect("the command's output");
    Done {
        ok: output.status.success(),
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// One end of a cable: namespace, name of the interface, Ethernet address.
pub type End<'a> = (&'a Namespace, &'a str, &'a str);

/// Connects two namespaces with a veth pair, both ends up and without addresses.
///
/// XDP sees frames before a device would fill in checksums or cut segments, so that is done
/// earlier. A veth takes what an XDP program at its peer sends only if it has an XDP program too,
/// so the `host` end gets one that passes everything.
pub fn cable(host: End, nic: End) {
    host.0.ip(&format!(
        "link add {} address {} type veth peer name {} address {} netns {}",
        host.1,
        host.2,
        nic.1,
        nic.2,
        nic.0.holder.id()
    ));
    for (namespace, name, _) in [host, nic] {
        namespace.ip(&format!("link set {name} addrgenmode none up"));
        let offloads = namespace.run(&format!("ethtool -K {name} tx off tso off gso off"));
        assert!(offloads.ok, "ethtool: {}", offloads.stderr);
    }
    let object = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(object.path(), pass_all()).expect("a file");
    host.0.ip(&format!(
        "link set {} xdpdrv object {} section xdp",
        host.1,
        object.path().display()
    ));
}

/// The XDP program that passes everything to the kernel.
fn pass_all() -> &'static [u8] {
    static OBJECT: OnceLock<Vec<u8>> = OnceLock::new();
    OBJECT.get_or_init(|| {
        let source = "#include <linux/bpf.h>\n#include <bpf/bpf_helpers.h>\n\
            SEC(\"xdp\") int pass_all(struct xdp_md *ctx) { (void)ctx; return XDP_PASS; }\n";
        compile_bpf("pass_all", source, Mode::Live, &[]).expect("clang")
    })
}

/// A process that ends when it is let go.
pub struct Daemon(pub Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until `ready` gives something.
///
/// # Panics
/// After five minutes, naming `what`.
pub fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = ready() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(300), "waited five minutes for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
