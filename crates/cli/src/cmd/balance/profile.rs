//! `nicforge balance profile`: what a function costs on either side.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use nicforge_balance::profile::{Power, Profile, Side};
use nicforge_driver::Failure;
use nicforge_run::balance::functions::{Function, FunctionName};
use nicforge_run::balance::library::{Pipeline, compile};
use nicforge_run::balance::measure::{Cost, measure};
use nicforge_run::temp::Folder;

use crate::out;

/// `nicforge balance profile`.
#[derive(Args)]
pub struct ProfileArgs {
    /// digest, count, kvs, ema, or a C file (see examples/balance); several files with commas are a
    /// pipeline
    function: String,
    /// Write the profile here instead of printing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Bytes of a request's frame
    #[arg(long, default_value_t = 1476, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(96..=4000))]
    frame: u32,
    /// Cores of the NIC and of the host that run the function
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    nic_cores: u32,
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    host_cores: u32,
    /// How many times slower a core of the NIC is than one of this machine; 1 on the NIC itself
    #[arg(long, default_value_t = 3.0, value_name = "FACTOR")]
    nic_slowdown: f64,
    /// Time for each side
    #[arg(long, default_value_t = 2.0, value_name = "S")]
    seconds: f64,
    /// Power of the idle server, and more when the NIC or the host works, W (default: the published
    /// server's)
    #[arg(long, default_value = "199.9,1,60", value_name = "IDLE,NIC,HOST", value_parser = watts)]
    watts: Power,
}

fn watts(text: &str) -> Result<Power, String> {
    let numbers: Vec<f64> = text.split(',').filter_map(|number| number.parse().ok()).collect();
    match numbers[..] {
        [idle_watts, nic_watts, host_watts] => Ok(Power { idle_watts, nic_watts, host_watts }),
        _ => Err("expected three numbers, as 199.9,1,60".to_string()),
    }
}

/// A function, called with a payload.
type Call = Box<dyn FnMut(&[u8]) -> u64>;

/// Headers and the fixed part of a request.
const IN_FRONT: usize = 82;

/// Compiles the C files of a function; none if it is built in.
pub fn objects(function: &str, folder: &std::path::Path) -> Result<Option<Vec<PathBuf>>, Failure> {
    if FunctionName::named(function).is_some() {
        return Ok(None);
    }
    let compiled: Result<Vec<_>, _> =
        function.split(',').map(|file| compile(file.as_ref(), folder)).collect();
    compiled.map(Some).map_err(|e| Failure::of(e.fault(), e))
}

/// Measures and writes.
pub fn run(args: &ProfileArgs) -> Result<(), Failure> {
    if !(args.nic_slowdown >= 1.0 && args.nic_slowdown <= 1000.0) {
        return Err(Failure::usage("--nic-slowdown is 1 to 1000"));
    }
    if !(args.seconds > 0.0 && args.seconds <= 3600.0) {
        return Err(Failure::usage("--seconds is above 0 and at most 3600"));
    }
    let environment = |e: std::io::Error| Failure::environment(format!("temporary folder: {e}"));
    let folder = Folder::new("profile").map_err(environment)?;
    let mut call: Call = match objects(&args.function, folder.path())? {
        Some(objects) => {
            let mut pipeline = Pipeline::load(&objects).map_err(|e| Failure::of(e.fault(), e))?;
            Box::new(move |payload| pipeline.run(payload))
        }
        None => {
            let name = FunctionName::named(&args.function).unwrap_or(FunctionName::Digest);
            let mut function =
                Function::new(name, &folder.path().join("table")).map_err(environment)?;
            let mut key = 0u64;
            Box::new(move |payload| {
                key = (key + 7919) % 1000;
                function.run((key % 2) as u8, key, key, payload)
            })
        }
    };
    let bytes = args.frame as usize - IN_FRONT;
    let time = Duration::from_secs_f64(args.seconds);
    let host = measure(&mut call, bytes, 1.0, time, 1);
    let nic = measure(&mut call, bytes, args.nic_slowdown, time, 2);
    let packet_bytes = args.frame + 24;
    let side = |cost: &Cost, cores: u32, base_us: f64| Side {
        gbps: round(f64::from(packet_bytes) * 8.0 / cost.mean_ns * f64::from(cores)),
        queues: cores,
        ring: 256,
        base_us,
        cv: round(cost.cv.min(4.0)),
        measured_p99_us: round(cost.p99_ns / 1e3),
    };
    let stem =
        |file: &str| file.rsplit('/').next().unwrap_or(file).trim_end_matches(".c").to_string();
    let profile = Profile {
        function: args.function.split(',').map(stem).collect::<Vec<_>>().join("+"),
        source: format!(
            "measured by nicforge balance profile: {} and {} calls on one core; times cores (modelled), NIC {} times slower (modelled), latency of the path and power as published",
            host.calls, nic.calls, args.nic_slowdown
        ),
        packet_bytes,
        threshold_gbps: 0.0,
        nic: side(&nic, args.nic_cores, 11.1),
        host: side(&host, args.host_cores, 12.05),
        power: args.watts.clone(),
    };
    let text = profile.to_toml();
    // What is written must be readable.
    Profile::parse("profile", &text)
        .map_err(|e| Failure::user(format!("what was measured is no profile: {e}")))?;
    match &args.out {
        Some(path) => std::fs::write(path, text)
            .map_err(|e| Failure::user(format!("{}: {e}", path.display())))?,
        None => out::text(&text),
    }
    errln!(
        "host: {:.0} ns a call, p99 {:.1} us at half load; NIC: {:.0} ns, {:.1} us",
        host.mean_ns,
        host.p99_ns / 1e3,
        nic.mean_ns,
        nic.p99_ns / 1e3
    );
    Ok(())
}

/// Four digits are more than a measurement has.
fn round(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}
