//! A DPDK application as a process: what DPDK's environment layer is told, how the process is
//! watched and how it ends.
//!
//! It ends in order at SIGTERM: it takes no more packets, finishes those in flight and writes its
//! results. It gets that signal from here, and from the kernel if the thread that started it dies,
//! so that nothing is left running.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{DpdkError, Machine, build};

/// Megabytes of memory without huge pages; buffers for 16384 packets fit.
const MEMORY_MB: u32 = 256;
/// How long a process may take to end in order.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the stop flag is looked at.
const PAUSE: Duration = Duration::from_millis(20);

/// Processes of this one get names of their own.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Counts of a process on ports so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub received: u64,
    pub sent: u64,
    pub dropped: u64,
    pub lost: u64,
}

/// A watch of a run on ports.
pub struct Live<'a> {
    /// How long; for ever if absent.
    pub duration: Option<Duration>,
    /// Ends the run when set, within some milliseconds.
    pub stop: &'a AtomicBool,
    /// Called once a second.
    pub every_second: &'a mut dyn FnMut(Progress),
}

/// The application with the environment layer's arguments; its own come behind.
pub fn command(machine: &Machine, app: &Path, lcores: u32, vdevs: &[String]) -> Command {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    let lcores: Vec<String> =
        (0..lcores).map(|lcore| format!("{lcore}@{}", lcore % cpus)).collect();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let prefix = format!("nicforge-{}-{number}", std::process::id());
    let mut command = match machine {
        Machine::Here => Command::new(app),
        Machine::Arm64 { cpu } => {
            let mut emulator = Command::new(build::QEMU);
            // DPDK asks the kernel which instructions the CPU has.
            emulator.args(["-cpu", build::emulated(cpu)]).arg(app);
            emulator
        }
    };
    command.args([
        "--no-huge",
        "-m",
        &MEMORY_MB.to_string(),
        "--no-pci",
        "--no-telemetry",
        "--no-shconf",
    ]);
    command.args(["--log-level", "error", "--file-prefix", &prefix, "--lcores", &lcores.join(",")]);
    for vdev in vdevs {
        command.args(["--vdev", vdev]);
    }
    command.arg("--");
    command
}

/// Runs a process to its own end.
pub fn to_the_end(command: &mut Command) -> Result<(), DpdkError> {
    dies_with_us(command);
    let ran =
        command.stdin(Stdio::null()).output().map_err(|source| cannot_start(command, source))?;
    ended(ran.status, &ran.stderr)
}

/// How often a process beside the first one is started again.
const RESTARTS: u32 = 8;

/// What a process beside the first one is to do: go on, end with the first one, or end at once.
const GOING: u32 = 0;
const ENDING: u32 = 1;
const OVER: u32 = 2;

/// A process beside the one that talks to ports: it ends by itself when that one does, and is
/// started again if a signal ended it.
pub struct Helper {
    ending: Arc<AtomicU32>,
    watch: Option<JoinHandle<Result<u32, DpdkError>>>,
}

impl Helper {
    /// `again`: whether it is started again.
    pub fn start(mut command: Command, again: bool) -> Helper {
        dies_with_us(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let ending = Arc::new(AtomicU32::new(GOING));
        let told = Arc::clone(&ending);
        // It dies with the thread that started it, so that thread stays.
        let watch = std::thread::spawn(move || {
            let mut restarts = 0;
            loop {
                let (status, text) = keep(&mut command, &told)?;
                if status.signal().is_none()
                    || told.load(Ordering::Acquire) != GOING
                    || !again
                    || restarts == RESTARTS
                {
                    let of_host = |error| DpdkError::Host(Box::new(error));
                    return ended(status, &text).map(|()| restarts).map_err(of_host);
                }
                restarts += 1;
            }
        });
        Helper { ending, watch: Some(watch) }
    }

    /// Waits for its end; how often it was started again.
    pub fn end(mut self) -> Result<u32, DpdkError> {
        self.ending.store(ENDING, Ordering::Release);
        let watched = self.watch.take().and_then(|watch| watch.join().ok());
        watched.unwrap_or_else(|| Err(DpdkError::Results("its watcher ended".to_string())))
    }
}

impl Drop for Helper {
    /// Where the first process failed nobody asks what became of this one.
    fn drop(&mut self) {
        self.ending.store(OVER, Ordering::Release);
        let _ = self.watch.take().map(JoinHandle::join);
    }
}

/// Runs a process to its end, which is soon when `ending` is set: what it says on standard error,
/// and how it ended.
fn keep(command: &mut Command, ending: &AtomicU32) -> Result<(ExitStatus, Vec<u8>), DpdkError> {
    let fail = |command: &Command| {
        let program = PathBuf::from(command.get_program());
        move |source| DpdkError::Io { path: program, source }
    };
    let mut child = command.spawn().map_err(fail(command))?;
    let mut told = None;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(fail(command))? {
            break status;
        }
        let now = ending.load(Ordering::Acquire);
        if now == OVER
            || now == ENDING && told.get_or_insert_with(Instant::now).elapsed() > PATIENCE
        {
            child.kill().map_err(fail(command))?;
        }
        std::thread::sleep(PAUSE);
    };
    let mut text = Vec::new();
    // What was read before an error is all there is to show.
    let _ = child.stderr.take().map(|mut err| err.read_to_end(&mut text));
    Ok((status, text))
}

/// Runs a process until it ends, its time is up or somebody stops it.
pub fn watched(command: &mut Command, live: &mut Live) -> Result<(), DpdkError> {
    dies_with_us(command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|source| cannot_start(command, source))?;
    let (report, reports) = mpsc::channel();
    let out = child.stdout.take();
    let lines = std::thread::spawn(move || {
        for line in
            out.into_iter().flat_map(|out| BufReader::new(out).lines()).map_while(Result::ok)
        {
            if let Some(progress) = progress(&line)
                && report.send(progress).is_err()
            {
                break;
            }
        }
    });
    let err = child.stderr.take();
    let errors = std::thread::spawn(move || {
        let mut text = Vec::new();
        // What was read before an error is all there is to show.
        let _ = err.map(|mut err| err.read_to_end(&mut text));
        text
    });
    let status = wait(&mut child, &reports, live);
    let _ = lines.join();
    let text = errors.join().unwrap_or_default();
    let status = status.map_err(|source| cannot_start(command, source))?;
    ended(status, &text)
}

fn wait(
    child: &mut Child,
    reports: &mpsc::Receiver<Progress>,
    live: &mut Live,
) -> std::io::Result<ExitStatus> {
    let started = Instant::now();
    let mut told: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let over = live.stop.load(Ordering::Relaxed)
            || live.duration.is_some_and(|d| started.elapsed() >= d);
        match told {
            None if over => {
                // SAFETY: the child was not waited for, so the number is still its own.
                unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
                told = Some(Instant::now());
            }
            Some(when) if when.elapsed() >= PATIENCE => child.kill()?,
            _ => {}
        }
        match reports.recv_timeout(PAUSE) {
            Ok(progress) => (live.every_second)(progress),
            // Nothing more is reported while the process ends.
            Err(mpsc::RecvTimeoutError::Disconnected) => std::thread::sleep(PAUSE),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
    }
}

fn progress(line: &str) -> Option<Progress> {
    let numbers: Vec<u64> = line.split(' ').map(|n| n.parse().ok()).collect::<Option<_>>()?;
    let [received, sent, dropped, lost] = numbers[..] else { return None };
    Some(Progress { received, sent, dropped, lost })
}

/// Has the kernel stop the process in order if the thread that starts it dies.
fn dies_with_us(command: &mut Command) {
    // SAFETY: prctl may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            Ok(())
        });
    }
}

fn cannot_start(command: &Command, source: std::io::Error) -> DpdkError {
    DpdkError::Io { path: PathBuf::from(command.get_program()), source }
}

fn ended(status: ExitStatus, stderr: &[u8]) -> Result<(), DpdkError> {
    if status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = message.lines().filter(|line| !line.is_empty()).collect();
    let message = lines[lines.len().saturating_sub(3)..].join("; ");
    Err(DpdkError::Failed { status, message })
}
