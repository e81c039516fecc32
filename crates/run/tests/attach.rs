//! The host side in a program of its own: tests/link/attach.c against the run's end.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nicforge_ir::{Output, Program};
use nicforge_run::attach::{AttachCounts, AttachError, HostSocket};

fn program() -> Program {
    nicforge_ir::text::parse(
        "program p ports 1 struct number { value: u64 } event host_send(m: number) in event host_msg(m: number) out
         event host_recv(pkt: packet) out",
    )
    .unwrap()
}

fn client(place: &Path) -> PathBuf {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = place.join("attach");
    let mut gcc = Command::new("gcc");
    gcc.args([
        "-std=gnu11",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsanitize=address,undefined",
        "-I",
    ]);
    gcc.arg(repository.join("runtime/host")).arg(repository.join("tests/link/attach.c"));
    let made = gcc.arg("-o").arg(&program).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    program
}

struct Client {
    process: Child,
    said: BufReader<ChildStdout>,
}

impl Client {
    /// Starts it, and serves until it says its first line.
    fn start(program: &Path, socket: &mut HostSocket, path: &Path, most: u64) -> (Client, String) {
        let mut command = Command::new(program);
        let mut process =
            command.arg(path).arg(most.to_string()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        let reader = std::thread::spawn(move || {
            let mut line = String::new();
            said.read_line(&mut line).unwrap();
            (said, line)
        });
        until("it says something", || {
            assert_eq!(socket.serve(), Vec::<Vec<u8>>::new());
            reader.is_finished()
        });
        let (said, line) = reader.join().unwrap();
        (Client { process, said }, line)
    }

    fn ends(mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        self.process.wait().unwrap();
        line
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(300), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn number(value: u64) -> Output {
    Output::HostMessage { bytes: value.to_ne_bytes().to_vec() }
}

/// Sleeps as a run does, for so long at most, and gives the numbers that came back; whether
/// something woke it.
fn answers(socket: &mut HostSocket, milliseconds: i32) -> (Vec<u64>, bool) {
    let mut awake = true;
    if socket.sleeps() {
        let mut list: Vec<libc::pollfd> =
            socket.fds().map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
        // SAFETY: an array and its length.
        awake =
            unsafe { libc::poll(list.as_mut_ptr(), list.len() as libc::nfds_t, milliseconds) > 0 };
    }
    let bytes = socket.serve().into_iter();
    (bytes.map(|bytes| u64::from_ne_bytes(bytes.try_into().unwrap())).collect(), awake)
}

#[test]
fn everything_comes_once_and_in_order_and_nobody_sleeps_over_it() {
    let place = tempfile::tempdir().unwrap();
    let (binary, path) = (client(place.path()), place.path().join("socket"));
    let mut socket = HostSocket::new(&path, &program()).unwrap();
    let (attached, said) = Client::start(&binary, &mut socket, &path, 20_100);
    assert_eq!(said, "attached\n");
    let (_, refused) = Client::start(&binary, &mut socket, &path, 1);
    assert_eq!(refused, "refused: Device or resource busy\n");
    let (mut given, mut back) = (0u64, Vec::new());
    while back.len() < 20_000 {
        // Bursts of all lengths, so that either side finds the other asleep and awake.
        for _ in 0..given % 61 + 1 {
            if given == 20_000 || given - back.len() as u64 == 1000 {
                break;
            }
            socket.give(&number(given));
            given += 1;
            if given.is_multiple_of(200) {
                socket.give(&Output::HostPacket { frame: vec![7; 60] });
            }
        }
        socket.wake();
        let (came, awake) = answers(&mut socket, 30_000);
        assert!(awake, "all sleep: {given} given, {} back", back.len());
        back.extend(came);
    }
    assert!(back.iter().copied().eq(1..=20_000));
    let sum: u64 = (0..20_000).sum();
    assert_eq!(attached.ends(), format!("20100 messages and packets, 100 packets, sum {sum}\n"));
    let counts = AttachCounts { given: 20_100, lost: 0, taken: 20_000, wrong: 0, attached: 1 };
    assert_eq!(socket.counts(), counts);
}

#[test]
fn the_next_program_gets_what_the_last_one_left() {
    let place = tempfile::tempdir().unwrap();
    let (binary, path) = (client(place.path()), place.path().join("socket"));
    let mut socket = HostSocket::new(&path, &program()).unwrap();
    // More than fit, before anybody is there.
    (0..1030).for_each(|n| socket.give(&number(n)));
    assert_eq!((socket.counts().given, socket.counts().lost), (1024, 6));
    let mut back = Vec::new();
    for most in [300, 1, 723] {
        let mut command = Command::new(&binary);
        let mut process =
            command.arg(&path).arg(most.to_string()).stdout(Stdio::null()).spawn().unwrap();
        until("it ends by itself", || {
            back.extend(answers(&mut socket, 10).0);
            process.try_wait().unwrap().is_some()
        });
    }
    back.extend(answers(&mut socket, 10).0);
    assert!(back.iter().copied().eq(1..=1024), "each once and in order: {back:?}");
    assert_eq!(socket.counts().attached, 3);
}

#[test]
fn what_is_no_message_is_counted_and_nothing_else_happens() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("socket");
    let mut socket = HostSocket::new(&path, &program()).unwrap();
    assert!(
        matches!(HostSocket::new(&path, &program()), Err(AttachError::Listen(_))),
        "one run a path"
    );
    let too_long = Output::HostPacket { frame: vec![0; 60_000] };
    socket.give(&too_long);
    socket.give(&Output::Stack { frame: vec![1] });
    assert_eq!(socket.counts(), AttachCounts { lost: 1, ..AttachCounts::default() });
    drop(socket);
    assert!(!path.exists());
    std::fs::write(&path, "mine").unwrap();
    assert!(HostSocket::new(&path, &program()).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    let silent = nicforge_ir::text::parse("program p ports 1").unwrap();
    let Err(error) = HostSocket::new(&place.path().join("other"), &silent) else {
        panic!("it listens")
    };
    assert!(error.to_string().contains("`p` has nothing for a host side"), "{error}");
}
