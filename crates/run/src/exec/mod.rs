//! The packet protocol: events and table entries go into a command as lines of text, outputs and
//! tables come out of it (`docs/dev/port.md`).
//!
//! What runs behind the command may be a program built here, an image in an emulator, or a user's
//! own simulator or board. Only lines that begin with `nf` count; others are the console's.

mod lines;

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nicforge_codegen::LineStyle;
use nicforge_codegen::dpdk::{DpdkArtifact, Pipeline, generate};
use nicforge_ir::{Entry, InputEvent, Interp, Program, TableBackend as _, TableId, Verified};

use crate::control;
use crate::dpdk::{Difference, DpdkError, DpdkRun, compare, files};

use lines::{Answer, Line};

/// Lines of the console that are shown if a run fails.
const CONSOLE: usize = 20;

/// A run, and whether the command told what is in the tables.
pub struct Played {
    pub run: DpdkRun,
    pub has_tables: bool,
}

/// A shell command as a process group of its own, with words in braces replaced.
pub fn shell(text: &str, words: &[(&str, &str)]) -> Command {
    let text = words.iter().fold(text.to_string(), |text, (word, with)| {
        text.replace(&format!("{{{word}}}"), &format!("'{}'", with.replace('\'', "'\\''")))
    });
    let mut command = Command::new("sh");
    command.arg("-c").arg(text);
    command
}

/// A command as people write it: a shell's by its text.
fn named(command: &Command) -> String {
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    match words.as_slice() {
        [shell, flag, text] if shell == "sh" && flag == "-c" => text.clone(),
        _ => words.join(" "),
    }
}

/// Plays events into a command and gives what it said.
///
/// # Errors
/// It cannot be started, ends before `nf done`, says `nf failed`, or says what makes no sense.
pub fn play(
    mut command: Command,
    base: &DpdkArtifact,
    program: &Program,
    (events, entries): (&[InputEvent], &[(TableId, Entry)]),
    in_turn: bool,
) -> Result<Played, DpdkError> {
    let text = lines::input(program, base, events, entries, in_turn);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    // SAFETY: a system call that may be made between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
    let name = named(&command);
    let failed = |message: String| DpdkError::Exec { command: name.clone(), message };
    let mut group = Group::start(command).map_err(|e| failed(e.to_string()))?;
    let (stdin, stdout) = (group.0.stdin.take(), group.0.stdout.take());
    let mut stderr = group.0.stderr.take().expect("a pipe");
    stdout.iter().for_each(widen);
    let said = std::thread::scope(|scope| {
        // A command that reads nothing more has said why.
        scope.spawn(move || {
            let _ = stdin.expect("a pipe").write_all(text.as_bytes());
        });
        let errors = scope.spawn(move || {
            let mut bytes = Vec::new();
            let _ = stderr.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).trim().to_string()
        });
        let answer = listen(BufReader::new(stdout.expect("a pipe")), base, program, events.len());
        // Whatever else it does, it has nothing more to say; only then do both threads end.
        let status = group.end(matches!(answer, Ok((_, true))));
        let errors = errors.join().unwrap_or_default();
        answer.map_err(&failed).and_then(|(answer, done)| match done {
            true => Ok(answer),
            false => {
                let mut message = format!("it ended ({status}) before `nf done`");
                for text in [errors, answer.console()].iter().filter(|text| !text.is_empty()) {
                    message = format!("{message}\n{text}");
                }
                Err(failed(message))
            }
        })
    })?;
    let Answer { recorded, shards, stats, has_tables, .. } = said;
    let stats = files::stats(&stats).map_err(failed)?;
    let tables = files::Shards::of(shards).merged(program, base, entries);
    let run = DpdkRun {
        outputs: recorded.outputs,
        departures: recorded.departures,
        tables,
        stats,
        ..DpdkRun::default()
    };
    Ok(Played { run, has_tables })
}

/// A program on a device that only speaks the protocol: one stage, whatever the device makes of it.
pub struct Device {
    base: DpdkArtifact,
    program: Verified<Program>,
}

impl Device {
    /// Of a program whose calls are all inlined.
    ///
    /// # Errors
    /// Ops that no generated C has.
    pub fn new(program: &Verified<Program>) -> Result<Device, DpdkError> {
        let pipeline = Pipeline::single(program);
        let base =
            generate(program, &pipeline, LineStyle::Comments).map_err(DpdkError::Unsupported)?;
        Ok(Device { base, program: program.clone() })
    }

    /// All input of a run.
    pub fn input(&self, events: &[InputEvent], entries: &[(TableId, Entry)]) -> String {
        lines::input(&self.program, &self.base, events, entries, false)
    }

    /// What the interpreter makes of the reference, as lines. Logs are left out: they have numbers
    /// that only generated code knows.
    ///
    /// # Errors
    /// An event that the interpreter refuses, by its number from 1.
    pub fn expected(
        &self,
        reference: &Verified<Program>,
        entries: &[(TableId, Entry)],
        events: &[InputEvent],
    ) -> Result<String, String> {
        let mut interp = Interp::new(reference);
        control::apply(&mut interp, entries).map_err(|e| e.to_string())?;
        let mut text = String::new();
        for (at, event) in events.iter().enumerate() {
            let outputs = interp.run(event).map_err(|e| format!("event {}: {e}", at + 1))?;
            outputs.iter().for_each(|output| lines::output(&mut text, at, output));
        }
        for (table, declared) in &reference.tables {
            for entry in interp.dump(table).map_err(|e| e.to_string())? {
                lines::entry(&mut text, &declared.name, &entry);
            }
        }
        text.push_str("nf done\n");
        Ok(text)
    }

    /// Plays events into a shell command and into the interpreter; gives what differs, and whether
    /// tables were compared.
    ///
    /// # Errors
    /// As [`play`].
    pub fn verify(
        &self,
        command: &str,
        reference: &Verified<Program>,
        entries: &[(TableId, Entry)],
        events: &[InputEvent],
    ) -> Result<(Vec<Difference>, bool), DpdkError> {
        let played =
            play(shell(command, &[]), &self.base, &self.program, (events, entries), false)?;
        let pipeline = Pipeline::single(&self.program);
        let mut found =
            compare(&played.run, (reference, &self.program), &pipeline, entries, events);
        found.retain(|one| played.has_tables || !matches!(one, Difference::Table { .. }));
        Ok((found, played.has_tables))
    }
}

/// Reads lines until the last; says whether that came.
fn listen(
    output: impl std::io::Read,
    base: &DpdkArtifact,
    program: &Program,
    events: usize,
) -> Result<(Answer, bool), String> {
    let mut answer = Answer::new(events);
    let mut console = VecDeque::new();
    let mut done = false;
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while !done {
        line.clear();
        let read = output.read_until(b'\n', &mut line).map_err(|e| e.to_string())?;
        if read == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        match answer.take(text.trim_end(), base, program)? {
            Line::Done => done = true,
            Line::Protocol => {}
            Line::Console => {
                console.push_back(text.trim_end().to_string());
                if console.len() > CONSOLE {
                    console.pop_front();
                }
            }
        }
    }
    answer.console = console;
    Ok((answer, done))
}

/// Gives a pipe as much room as anybody may. qemu's UART loses bytes that find it full, as they do
/// where the machine is busy and this process reads late.
fn widen(pipe: &ChildStdout) {
    const ROOM: libc::c_int = 1 << 20;
    // SAFETY: a descriptor that lives through the call. Where it is refused, the room is 64 KiB.
    unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, ROOM) };
}

/// Leaders of groups that run.
static RUNNING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

fn running() -> MutexGuard<'static, Vec<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends all commands of this process, which is about to end. Nobody starts another one behind this.
pub fn end_all() {
    let groups = running();
    groups.iter().for_each(|group| kill(*group));
    std::mem::forget(groups);
}

fn kill(group: u32) {
    // SAFETY: the group is that of a child that is not waited for yet, so its number is its own.
    unsafe { libc::kill(-(group as i32), libc::SIGKILL) };
}

/// A process group, ended when this is dropped.
struct Group(Child);

impl Group {
    fn start(mut command: Command) -> std::io::Result<Group> {
        let mut groups = running();
        let child = command.spawn()?;
        groups.push(child.id());
        Ok(Group(child))
    }

    /// Waits for a process that ended by itself, or ends it.
    fn end(mut self, now: bool) -> std::process::ExitStatus {
        if now {
            kill(self.0.id());
        }
        self.wait()
    }

    fn wait(&mut self) -> std::process::ExitStatus {
        let id = self.0.id();
        // Not under the lock, which a signal's handler wants; the number stays ours until `wait`.
        let ended = loop {
            match self.0.try_wait() {
                Ok(Some(status)) => break status,
                _ => std::thread::sleep(std::time::Duration::from_millis(5)),
            }
        };
        running().retain(|other| *other != id);
        ended
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if running().contains(&self.0.id()) {
            kill(self.0.id());
            self.wait();
        }
    }
}
