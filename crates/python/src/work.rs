//! Long work, which Ctrl-C in Python ends, and its failures as exceptions.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nicforge_driver::Failure;
use nicforge_driver::stop::STOP;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(
    nicforge,
    Error,
    PyException,
    "A program, its input, a target or the machine is at fault. `code` is the exit status that the \
     command has for it: 1 the program or its input, 2 wrong usage, 3 the machine lacks something."
);

/// Time between two looks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);
/// Stack of the thread that works, in bytes: as much as a main thread has.
const STACK: usize = 8 << 20;

/// A failure as an exception.
pub fn raised(py: Python, failure: Failure) -> PyErr {
    let error = PyErr::new::<Error, _>(failure.reason().trim_end().to_string());
    match error.value(py).setattr("code", failure.code) {
        Ok(()) => error,
        Err(other) => other,
    }
}

/// Works on a thread of its own, while other threads of Python may run.
pub fn work<T: Send>(py: Python, task: impl FnOnce() -> Result<T, Failure> + Send) -> PyResult<T> {
    std::thread::scope(|scope| {
        let (done, waits) = channel();
        let run = move || {
            // Nobody waits any more where the interpreter ends.
            let _ = done.send(task());
        };
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run)?;
        let waits = Mutex::new(waits);
        let look = || waits.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LOOK);
        let mut signal = None;
        loop {
            let found = py.detach(look);
            match found {
                Ok(result) => {
                    if let Some(signal) = signal {
                        STOP.store(false, Ordering::Relaxed);
                        return Err(signal);
                    }
                    return result.map_err(|failure| raised(py, failure));
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let (None, Err(error)) = (&signal, py.check_signals()) {
                        STOP.store(true, Ordering::Relaxed);
                        signal = Some(error);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    // What it panicked with is on standard error.
                    let _ = thread.join();
                    let text = "internal error: the work ended without a result";
                    return Err(PyErr::new::<Error, _>(text));
                }
            }
        }
    })
}
