//! Commands of a sweep as processes of this machine, some at a time.

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc;
use std::time::Instant;

use nicforge_driver::{Failure, stop};

use super::spec::Job;
use super::{Done, last_line, since};

/// Runs the jobs `todo` names, `at_a_time` beside each other. Ctrl-C reaches the processes too; no
/// further one starts.
pub fn run(
    at_a_time: usize,
    jobs: &[Job],
    todo: &[usize],
    on_done: &mut dyn FnMut(Done),
) -> Result<(), Failure> {
    let program = std::env::current_exe()
        .map_err(|e| Failure::environment(format!("nicforge itself: {e}")))?;
    let next = Mutex::new(todo.iter().copied());
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..at_a_time.min(todo.len()) {
            let sender = sender.clone();
            let (next, program) = (&next, &program);
            scope.spawn(move || {
                while !stop::stopped() {
                    let Some(job) = next.lock().unwrap_or_else(|p| p.into_inner()).next() else {
                        break;
                    };
                    let start = Instant::now();
                    let ran = Command::new(program)
                        .args(&jobs[job].arguments)
                        .stdin(Stdio::null())
                        .output();
                    if stop::stopped() {
                        break;
                    }
                    let output = match ran {
                        Err(error) => Err(error.to_string()),
                        Ok(ran) if ran.status.success() => {
                            Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
                        }
                        Ok(ran) => Err(last_line(&ran.stderr)),
                    };
                    if sender.send(Done { job, seconds: since(start), output }).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        receiver.iter().for_each(on_done);
    });
    Ok(())
}
