//! `nicforge validate flow`: cache hit rates of a key-value store, beside Floem's (OSDI'18, section
//! 5.1 and its table of configurations).
//!
//! Each configuration is a flow program (`docs/validation/flow/hits.py`, made by Python as any
//! other), compiled for this computer and run on the paper's load: 100,000 keys, Zipf with exponent
//! 0.9, 90 % reads. Nothing is modelled but the load, whose generator was not published.
//!
//! **What a hit is.** The share of requests, reads and writes, that the NIC answers by itself. In a
//! write-back cache every write is one; in a write-through cache none is. That is our reading: the
//! paper does not define it, but no hit rate of reads alone fits its figures, and this fits all of
//! them, the two that are printed for one configuration included (its second is then the
//! write-through cache).

use std::process::{Command, Stdio};

use include_dir::{Dir, include_dir};
use nicforge_driver::options::Source;
use nicforge_driver::{Failure, Runtime, program};
use nicforge_ir::{Input, InputEvent, Output, Program, Verified};
use nicforge_passes::fuse::fuse;
use nicforge_run::host::HostProgram;
use nicforge_run::temp::Folder;

use super::rows::Row;
use super::validate_flow_load::{KEYS, Load};
use super::validate_flow_sim;

static PYTHON: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../python");
static PROGRAMS: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../docs/validation/flow");
/// Where examples find Python's modules, and what they are.
const EXAMPLES: [(&str, &str); 3] = [
    ("examples/flow/kvs/kvs.py", include_str!("../../../../examples/flow/kvs/kvs.py")),
    ("examples/flow/kvs/elements.py", include_str!("../../../../examples/flow/kvs/elements.py")),
    (
        "examples/flow/analytics/analytics.py",
        include_str!("../../../../examples/flow/analytics/analytics.py"),
    ),
];

/// Requests before those that count, and those.
const WARM: usize = 600_000;
const COUNTED: usize = 400_000;

/// Buckets, ways, policy, published per cent. `unbounded` is 16 ways: no bucket of 2^15 gets so
/// many of 100,000 keys.
const CONFIGURATIONS: [(&str, u32, u32, &str, f64); 7] = [
    ("2^15 buckets, unbounded, write-back", 1 << 15, 16, "write-back", 100.0),
    ("2^15 buckets of 5, write-back", 1 << 15, 5, "write-back", 97.2),
    ("2^15 buckets of 5, write-through", 1 << 15, 5, "write-through", 90.3),
    ("2^15 buckets of 2, write-back", 1 << 15, 2, "write-back", 88.4),
    ("2^15 buckets of 1, write-back", 1 << 15, 1, "write-back", 75.3),
    ("2^14 buckets of 1, write-back", 1 << 14, 1, "write-back", 65.0),
    ("2^14 buckets of 1, write-through", 1 << 14, 1, "write-through", 55.2),
];

/// All rows.
///
/// # Errors
/// Python is missing, or something is wrong with the programs.
pub fn rows() -> Result<Vec<Row>, Failure> {
    let place = Place::new()?;
    let load = Load::new();
    let row = |(case, buckets, ways, policy, published): (&str, u32, u32, &str, f64)| {
        let ours = hits(&place, &load, buckets, ways, policy)?;
        let case = case.to_string();
        Ok(Row {
            source: "Floem",
            case,
            metric: "answered by the NIC, %",
            published,
            ours,
            calibrated: false,
        })
    };
    let mut rows = CONFIGURATIONS.into_iter().map(row).collect::<Result<Vec<_>, Failure>>()?;
    rows.extend(validate_flow_sim::rows(&place, &load)?);
    Ok(rows)
}

/// Python's modules and programs, unpacked.
pub struct Place {
    dir: Folder,
    runtime: Runtime,
}

impl Place {
    fn new() -> Result<Place, Failure> {
        let fail = |e: std::io::Error| {
            Failure::environment(format!("cannot unpack Python's modules: {e}"))
        };
        let dir = Folder::new("validate-flow").map_err(fail)?;
        let python = dir.path().join("python");
        std::fs::create_dir(&python).map_err(fail)?;
        PYTHON.extract(&python).map_err(fail)?;
        PROGRAMS.extract(dir.path()).map_err(fail)?;
        for (name, text) in EXAMPLES {
            let path = dir.path().join(name);
            path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(fail)?;
            std::fs::write(path, text).map_err(fail)?;
        }
        Ok(Place { dir, runtime: Runtime::unpack()? })
    }

    /// The program that a script prints.
    pub fn program(&self, script: &str, args: &[&str]) -> Result<Verified<Program>, Failure> {
        let dir = self.dir.path();
        let modules = [dir.join("python"), dir.join("examples/flow/analytics")];
        let modules =
            std::env::join_paths(modules).map_err(|e| Failure::environment(e.to_string()))?;
        let mut python = Command::new("python3");
        python.arg(dir.join(script)).args(args).env("PYTHONPATH", modules).stdin(Stdio::null());
        let made = python.output().map_err(|e| {
            Failure::environment(format!("python3: {e}; install it: apt install python3"))
        })?;
        if !made.status.success() {
            return Err(Failure::environment(
                String::from_utf8_lossy(&made.stderr).trim().to_string(),
            ));
        }
        let source = dir.join("program.c");
        std::fs::write(&source, &made.stdout).map_err(|e| Failure::environment(e.to_string()))?;
        let source = Source { program: source, ..Source::default() };
        Ok(program::load(&source, &self.runtime)?.program)
    }
}

/// Per cent of requests that the cache answers by itself.
fn hits(place: &Place, load: &Load, buckets: u32, ways: u32, policy: &str) -> Result<f64, Failure> {
    let loaded = place.program("hits.py", &[&buckets.to_string(), &ways.to_string(), policy])?;
    let fused = fuse(loaded).map_err(program::pass_failure)?;
    let mut program = HostProgram::build(&fused).map_err(|e| Failure::of(e.fault(), e))?;
    let (mut near, mut all) = (0, 0);
    for (at, (key, write)) in load.requests().take(KEYS + WARM + COUNTED).enumerate() {
        // Every key is stored first.
        let (key, write) = if at < KEYS { (at as u32, true) } else { (key, write) };
        let mut frame = vec![0u8; 64];
        frame[..4].copy_from_slice(&key.to_le_bytes());
        frame[4..8].copy_from_slice(&u32::from(write).to_le_bytes());
        let event = InputEvent {
            input: Input::Net { port: 0, frame },
            time_ns: at as u64,
            seed: at as u64,
        };
        let outputs = program.run_one(&event).map_err(|e| Failure::of(e.fault(), e))?;
        if at >= KEYS + WARM {
            all += 1;
            near += usize::from(
                outputs.iter().any(|output| matches!(output, Output::Send { port: 1, .. })),
            );
        }
    }
    Ok(100.0 * near as f64 / all as f64)
}
