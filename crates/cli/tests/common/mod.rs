//! The real binary in a folder of its own, with its temporary files and control sockets there, so
//! that whatever it leaves behind is seen.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub const NICFORGE: &str = env!("CARGO_BIN_EXE_nicforge");

/// How scripts begin. A script that fails while something runs behind it would never be at its
/// end: its output stays open.
const SCRIPT: &str = r#"set -eu
trap 'left=$(jobs -p); if [ -n "$left" ]; then kill -KILL $left; fi' EXIT
until_so() {
    for _ in $(seq 6000); do if eval "$1" 2>/dev/null; then return 0; fi; sleep 0.05; done
    echo "not so: $1"; exit 9
}
"#;

/// A folder with room for files, temporary files and sockets.
pub struct Place {
    dir: tempfile::TempDir,
}

/// What a command did.
#[derive(Debug)]
pub struct Ran {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }

    /// Asserts the exit status; returns standard output.
    #[track_caller]
    pub fn ok(&self) -> &str {
        assert_eq!(self.code(), 0, "{self:?}");
        &self.out
    }

    /// Asserts a failure with this exit status and each of these texts in its message, and no trace
    /// of a panic.
    #[track_caller]
    pub fn fails(&self, code: i32, texts: &[&str]) {
        assert_eq!(self.code(), code, "{self:?}");
        for text in texts {
            assert!(self.err.contains(text), "`{text}` is missing: {self:?}");
        }
        assert!(!self.err.contains("panicked"), "{self:?}");
    }
}

impl Place {
    pub fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        for name in ["tmp", "run"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        // Other users may look for programs here; their temporary files too.
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::set_permissions(dir.path().join("tmp"), PermissionsExt::from_mode(0o1777))
            .unwrap();
        Place { dir }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    pub fn command(&self, args: &[&str]) -> Command {
        self.prepare(NICFORGE, args)
    }

    /// Some other command with the same surroundings.
    pub fn prepare(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        command
            .env("TMPDIR", self.path().join("tmp"))
            .env("XDG_RUNTIME_DIR", self.path().join("run"));
        command.env("NO_COLOR", "1");
        command
    }

    /// A bash script in a network namespace of its own, with `until_so CONDITION` to wait for
    /// something. What it started and left running ends with it.
    pub fn script(&self, text: &str) -> Command {
        self.file("script", format!("{SCRIPT}{text}"));
        let mut command = self.prepare("unshare", &["--net", "bash", "script"]);
        command.env("NICFORGE", NICFORGE);
        command
    }

    /// Runs `nicforge` and waits.
    pub fn run(&self, args: &[&str]) -> Ran {
        finish(self.command(args))
    }

    /// Names of temporary files.
    pub fn temporary(&self) -> Vec<String> {
        let (tmp, own) = (self.path().join("tmp"), temporary_place(self.path()));
        let mut all = names(&tmp);
        if own.is_dir() {
            // An empty one goes with the last folder in it.
            all.retain(|name| !own.ends_with(name));
            let inside = names(&own);
            all.extend(if inside.is_empty() { vec!["an empty place".to_string()] } else { inside });
        }
        all.sort();
        all
    }

    /// Names of control sockets.
    pub fn sockets(&self) -> Vec<String> {
        names(&self.path().join("run/nicforge"))
    }

    /// Asserts that no temporary file and no socket is left.
    #[track_caller]
    pub fn is_clean(&self) {
        assert_eq!((self.temporary(), self.sockets()), (vec![], vec![]));
    }
}

/// Where commands run in `place` make their temporary folders.
pub fn temporary_place(place: &Path) -> PathBuf {
    // SAFETY: no arguments.
    place.join("tmp").join(format!("nicforge-{}", unsafe { libc::geteuid() }))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

pub fn finish(mut command: Command) -> Ran {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { status: output.status, out: text(output.stdout), err: text(output.stderr) }
}

/// A command in the background, ended with the test at the latest.
pub struct Background {
    child: Child,
    out: Heard,
    err: Heard,
}

/// One stream of a command, read while it runs: a full pipe would stop the command.
struct Heard {
    text: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Heard {
    fn start(mut stream: impl Read + Send + 'static) -> Heard {
        let text = Arc::new(Mutex::new(Vec::new()));
        let into = text.clone();
        let reader = std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut some) {
                into.lock().unwrap().extend_from_slice(&some[..count]);
            }
        });
        Heard { text, reader: Some(reader) }
    }

    /// Waits for the end of the stream.
    fn end(&mut self) -> String {
        self.reader.take().unwrap().join().unwrap();
        String::from_utf8(std::mem::take(&mut self.text.lock().unwrap())).unwrap()
    }
}

impl Background {
    pub fn start(mut command: Command) -> Background {
        // Tests that run under `nohup` would pass on that hangups are ignored.
        // SAFETY: signal(2) is safe between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGHUP, libc::SIG_DFL);
                Ok(())
            });
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = Heard::start(child.stdout.take().unwrap());
        let err = Heard::start(child.stderr.take().unwrap());
        Background { child, out, err }
    }

    /// Waits until standard error has `text`.
    #[track_caller]
    pub fn says(&self, text: &str) {
        within(text, || String::from_utf8_lossy(&self.err.text.lock().unwrap()).contains(text));
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: libc::c_int) {
        // SAFETY: a process of ours that was not waited for yet.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    /// Waits for the end.
    pub fn end(mut self) -> Ran {
        let mut status = None;
        within("the command ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        Ran { status: status.unwrap(), out: self.out.end(), err: self.err.end() }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Waits until a process has used so much of a processor, however busy the machine is.
#[track_caller]
pub fn worked(pid: u32, seconds: u64) {
    within("the process works", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // User and system time, the 14th and 15th field (proc_pid_stat(5)), in hundredths; the name
        // before may have spaces.
        let fields = stat.rsplit(')').next().unwrap_or_default().split(' ').skip(12).take(2);
        fields.filter_map(|field| field.parse::<u64>().ok()).sum::<u64>() >= 100 * seconds
    });
}

/// Waits until something is so. The cap is for what never comes, not for what is slow.
#[track_caller]
pub fn within(what: &str, mut so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(300);
    while !so() {
        assert!(Instant::now() < until, "not within five minutes: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A folder of the repository.
pub fn example(name: &str) -> String {
    format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The long runs are asked for: `make soak`.
pub fn soak() -> bool {
    std::env::var_os("NICFORGE_SOAK").is_some()
}

/// Events of a capture that [`cut`] leaves.
const EVENTS: usize = 300;

/// The first packets of a capture in the classic form: a head of 24 bytes, 16 bytes before each
/// packet with its length.
fn first(capture: &[u8]) -> &[u8] {
    let mut at = 24;
    for _ in 0..EVENTS {
        let Some(length) = capture.get(at + 8..at + 12).and_then(|b| b.try_into().ok()) else {
            break;
        };
        at += 16 + u32::from_le_bytes(length) as usize;
    }
    &capture[..at.min(capture.len())]
}

/// Copies an example with its captures cut short.
pub fn cut(place: &Place, name: &str) -> PathBuf {
    let to = place.path().join(name);
    std::fs::create_dir_all(&to).unwrap();
    for entry in std::fs::read_dir(example(name)).unwrap().flatten() {
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        let capture = entry.path().extension().is_some_and(|extension| extension == "pcap");
        let bytes = if capture { first(&bytes) } else { &bytes };
        std::fs::write(to.join(entry.file_name()), bytes).unwrap();
    }
    to
}

/// True if programs for Arm cores can be compiled and emulated here; says so if not. In CI
/// everything must run.
pub fn can_emulate_arm() -> bool {
    are_there(&["qemu-aarch64", "aarch64-linux-gnu-gcc"])
}

/// True if programs can be run here; says so if not. In CI everything must run.
pub fn are_there(programs: &[&str]) -> bool {
    let missing = |program: &&&str| Command::new(program).arg("--version").output().is_err();
    let Some(missing) = programs.iter().find(missing) else { return true };
    let why = format!("{missing} is missing: run scripts/bootstrap.sh");
    assert!(std::env::var_os("CI").is_none(), "{why}");
    eprintln!("SKIPPED: {why}");
    false
}

/// True if programs can be loaded into the kernel here; says loudly if not. In CI everything must
/// run.
pub fn can_load() -> bool {
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } == 0 {
        return true;
    }
    let why = "this test loads BPF programs and makes network namespaces: run it as root";
    assert!(std::env::var_os("CI").is_none(), "{why}");
    eprintln!("SKIPPED: {why}");
    false
}

/// A program with one port that counts frames by EtherType and then does `fate` with them.
pub fn counter(fate: &str) -> String {
    format!(
        "#include <nicforge.h>\n\
         NF_PORTS(1);\n\
         NF_TABLE(hash, by_type, uint16_t, uint32_t, 64);\n\
         NF_TABLE(lpm, routes, nf_be32, uint32_t, 8);\n\
         void net_recv(nf_pkt pkt)\n\
         {{\n\
         \x20   struct nf_eth eth;\n\
         \x20   uint32_t route;\n\
         \x20   if (!nf_extract(pkt, &eth)) {{\n\
         \x20       nf_drop(pkt, \"short\");\n\
         \x20       return;\n\
         \x20   }}\n\
         \x20   nf_add_value(&by_type, nf_ntohs(eth.type), 1);\n\
         \x20   if (nf_lookup(&routes, nf_htonl(7), &route)) {{\n\
         \x20       nf_add_value(&by_type, 1, 1);\n\
         \x20   }}\n\
         \x20   nf_reset(pkt);\n\
         \x20   {fate}\n\
         }}\n"
    )
}

/// A frame of 60 bytes of an EtherType.
pub fn frame(ether_type: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(ether_type.to_be_bytes());
    frame.resize(60, 0);
    frame
}

/// A capture of frames.
pub fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let frames: Vec<nicforge_run::pcap::Frame> = (0..)
        .zip(frames)
        .map(|(i, data)| nicforge_run::pcap::Frame {
            time_ns: i * 1000,
            data: data.clone(),
            original_length: data.len() as u32,
        })
        .collect();
    let mut out = Vec::new();
    nicforge_run::pcap::write(&mut out, &frames).unwrap();
    out
}

/// A program that is too long for the kernel's verifier, however it is written.
pub const TOO_LONG: &str = "#include <nicforge.h>
struct block {
    uint64_t words[3500];
};
NF_TABLE(array, blocks, uint32_t, struct block, 4);
#define EIGHT(x) x x x x x x x x
void net_recv(nf_pkt pkt)
{
    struct block block;
    uint32_t sum = nf_len(pkt);
    nf_lookup(&blocks, sum & 3, &block);
    EIGHT(EIGHT(sum = nf_hash(sum, block);))
    nf_send(pkt, sum & 1);
}
";

/// A program with more tables than the kernel lets it have, which it says at once.
pub const TOO_MANY_TABLES: &str = "#include <nicforge.h>
NF_PORTS(1);
#define TABLE(n) NF_TABLE(array, t##n, uint32_t, uint64_t, 4);
#define COUNT(n) nf_add_value(&t##n, 0, 1);
#define EIGHT(of, n) \\
    of(n##0) of(n##1) of(n##2) of(n##3) of(n##4) of(n##5) of(n##6) of(n##7)
#define ALL(of) \\
    EIGHT(of, 0) EIGHT(of, 1) EIGHT(of, 2) EIGHT(of, 3) \\
    EIGHT(of, 4) EIGHT(of, 5) EIGHT(of, 6) EIGHT(of, 7)
ALL(TABLE)
void net_recv(nf_pkt pkt)
{
    ALL(COUNT)
    nf_send(pkt, 0);
}
";

/// Removes the verifier's log that a message names.
#[track_caller]
pub fn remove_log(ran: &Ran) {
    let rest = ["complete log is in ", "complete log: "]
        .into_iter()
        .find_map(|mark| Some(ran.err.split_once(mark)?.1));
    let log = rest.and_then(|rest| rest.split_whitespace().next());
    let log = log.expect("the message names the log");
    assert!(std::fs::metadata(log).unwrap().len() > 0, "the log is there");
    let folder = Path::new(log).parent().unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    let _ = std::fs::remove_dir(folder.parent().unwrap());
}

/// The text with single spaces.
pub fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
