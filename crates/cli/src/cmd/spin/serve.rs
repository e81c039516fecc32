//! `nicforge spin serve`: the simulator behind drivers written for PsPIN's, which start it
//! themselves.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use nicforge_driver::Failure;
use nicforge_run::spin::serve;

/// Serves the driver at the other end of standard input.
pub fn run() -> Result<(), Failure> {
    let fail = |e: std::io::Error| {
        Failure::usage(format!(
            "standard input is no socket ({e}); drivers built with `nicforge spin sdk` start this command themselves"
        ))
    };
    let stdin = std::io::stdin().as_fd().try_clone_to_owned().map_err(fail)?;
    let stream = UnixStream::from(stdin);
    stream.peer_addr().map_err(fail)?;
    // The driver shows what it was told; here it would be shown twice.
    serve(stream).map_err(|_| Failure { code: 1, message: String::new() })
}
