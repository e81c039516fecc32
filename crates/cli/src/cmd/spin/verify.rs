//! `nicforge spin verify`: the same handlers on several machines, and what the host's memory has to
//! hold at the end.

use std::path::PathBuf;

use clap::Args;
use nicforge_driver::Failure;
use nicforge_run::Fault;
use nicforge_run::spin::agree::{Outcome, Reference, outcome};
use nicforge_run::spin::datapath::Rtl;
use nicforge_run::spin::{HostProgram, Native, Simulation};
use nicforge_spin::nic::{Arrival, Engine, Full, HostMemory, Iss, Nic, NicError, Options};
use serde_json::json;

use super::input::Input;
use super::machine::{self, Chosen};
use super::{build, sim};

/// `nicforge spin verify`.
#[derive(Args)]
pub struct Verify {
    /// Handlers in C, or an image (.elf)
    file: PathBuf,
    /// pspin, fpspin, or a target file with a section [spin]
    #[arg(long, value_name = "NAME|FILE.toml", default_value = "fpspin")]
    machine: String,
    /// Also behind the datapath in hardware (of fpspin), simulated cycle by cycle by Verilator
    #[arg(long)]
    rtl: bool,
    #[command(flatten)]
    input: Input,
    /// What the host's memory has to hold at the end, from an offset of the context's memory on: as
    /// hexadecimal digits, or @FILE
    #[arg(long = "expect-host", value_name = "OFFSET=HEX|@FILE", value_parser = expectation)]
    expected: Vec<Expected>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// For the compiler: -DNAME=VALUE, -I DIR, -O2 and so on
    #[arg(last = true, value_name = "FLAGS")]
    flags: Vec<String>,
}

/// Bytes that the host's memory has to hold.
#[derive(Clone, Debug)]
struct Expected {
    offset: u64,
    bytes: Vec<u8>,
}

fn expectation(text: &str) -> Result<Expected, String> {
    let (offset, value) = text.split_once('=').ok_or("expected OFFSET=HEX or OFFSET=@FILE")?;
    let parsed = match offset.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => offset.parse(),
    };
    let offset =
        parsed.map_err(|_| format!("`{offset}` is no offset: a number, or 0x and digits"))?;
    let bytes = match value.strip_prefix('@') {
        Some(file) => std::fs::read(file).map_err(|e| format!("{file}: {e}"))?,
        None => hexadecimal(value)
            .ok_or_else(|| format!("`{value}` is not an even number of hexadecimal digits"))?,
    };
    if bytes.is_empty() {
        return Err("there are no bytes to expect".to_string());
    }
    Ok(Expected { offset, bytes })
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// How the times of packets are stretched for further runs of the reference: all at once, and far
/// apart.
const STRETCHES: [u64; 2] = [0, 7];

/// Runs on all machines and compares.
pub fn run(args: Verify) -> Result<(), Failure> {
    let Chosen { machine, layout } = machine::find(&args.machine)?;
    let (image, _) = sim::load(&args.file, layout, &args.flags)?;
    let memory = args.input.memory()?;
    let (arrivals, what) = args.input.arrivals(layout.api, &machine, args.rtl)?;
    let mut simulation = Simulation {
        machine: &machine,
        image: &image,
        handlers: args.input.handlers(&args.file, &image)?,
        ruleset: Some(args.input.ruleset()?),
        // What is dropped depends on time alone.
        options: Options {
            full: Full::Wait,
            watchdog: args.input.watchdog(),
            memory: args.input.memory_rules(layout.api),
            ..Options::default()
        },
        host: args.input.answer_after.map_or(HostProgram::Absent, HostProgram::After),
        memory: &memory,
    };
    let options = simulation.options.clone();
    let interpreted = |host: Box<dyn HostMemory>| {
        let engine: Box<dyn Engine> = Box::new(Iss::new(&machine, options.slice));
        Nic::with_engine(&machine, options.clone(), host, engine)
    };
    let refused = |error: Refused| match error {
        Refused::Nic(error) => sim::refused(&args.file, &error),
        Refused::Machine(failure) => failure,
    };
    let iss = |arrivals: Vec<Arrival>| {
        outcome::<Refused>(&simulation, arrivals, |host| Ok(interpreted(host))).map_err(refused)
    };
    let stretched = STRETCHES.iter().map(|stretch| {
        let at = |arrival: &Arrival| Arrival { time: arrival.time * stretch, ..arrival.clone() };
        iss(arrivals.iter().map(at).collect())
    });
    let reference =
        Reference::new(iss(arrivals.clone())?, &stretched.collect::<Result<Vec<_>, _>>()?);
    let mut others: Vec<(&str, Outcome)> = Vec::new();
    if args.rtl {
        let made = outcome::<Refused>(&simulation, arrivals.clone(), |host| {
            let path = Rtl::new(&machine, &options, 0);
            let path = path.map_err(|e| Failure::of(e.fault(), e))?;
            Ok(interpreted(host).with_datapath(Box::new(path)))
        });
        others.push(("rtl", made.map_err(refused)?));
    }
    let native = build::native(&args.file, layout, &args.flags);
    let mut left_out = None;
    match &native {
        Ok(native) => {
            simulation.image = &native.image;
            let made = outcome::<Refused>(&simulation, arrivals, |host| {
                let engine = Native::new(&machine, native)
                    .map_err(|e| Failure::of(Fault::Environment, e))?;
                Ok(Nic::with_engine(&machine, options.clone(), host, Box::new(engine)))
            });
            others.push(("native", made.map_err(refused)?));
        }
        Err(failure) if args.rtl => left_out = Some(failure.reason().to_string()),
        Err(failure) => {
            return Err(Failure {
                message: format!(
                    "{}\nwithout it there is nothing to compare with; --rtl adds hardware",
                    failure.message
                ),
                ..*failure
            });
        }
    }
    let mut differences: Vec<(String, String)> = Vec::new();
    for (name, outcome) in &others {
        let found = reference.differences(outcome).into_iter();
        differences.extend(found.map(|difference| (name.to_string(), difference)));
    }
    let timely = reference.timely();
    let mut all = vec![("iss", reference.outcome)];
    all.extend(others);
    for (name, outcome) in &mut all {
        for Expected { offset, bytes } in &args.expected {
            let found = outcome.host(*offset, bytes.len());
            if let Some(at) = (0..bytes.len()).find(|at| found[*at] != bytes[*at]) {
                let show = |bytes: &[u8]| -> String {
                    bytes[at..].iter().take(8).map(|byte| format!("{byte:02x}")).collect()
                };
                let difference = format!(
                    "host memory, offset {:#x}: {} instead of the {} expected",
                    offset + at as u64,
                    show(&found),
                    show(bytes)
                );
                differences.push((name.to_string(), difference));
            }
        }
    }
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    let outcome = &all[0].1;
    if args.json {
        let list =
            differences.iter().map(|(on, what)| json!({ "machine": on, "difference": what }));
        outln!(
            "{:#}",
            json!({
                "schema": "nicforge/spin-verify", "version": 1, "ok": differences.is_empty(),
                "machines": names, "left_out": left_out, "handlers": outcome.handlers,
                "sent": outcome.sent(), "host_bytes": outcome.host_bytes(),
                "expected": args.expected.len(), "depends_on_time": timely,
                "differences": list.collect::<Vec<_>>(),
            })
        );
    } else {
        outln!("{} on {}: {what}", args.file.display(), machine.name);
        if let Some(reason) = left_out {
            outln!("not run on this computer: {reason}");
        }
        outln!(
            "compared {}: {} handlers, {} frames sent, {} bytes in host memory that are not zero",
            names.join(", "),
            outcome.handlers,
            outcome.sent(),
            outcome.host_bytes()
        );
        if !timely.is_empty() {
            outln!("not compared, since it depends on when packets come: {}", timely.join(", "));
        }
        differences.iter().for_each(|(on, what)| outln!("{on}: {what}"));
    }
    match differences.len() {
        0 if args.json => Ok(()),
        0 => {
            let expected = args.expected.len();
            let held =
                if expected > 0 { format!("; {expected} expected hold") } else { String::new() };
            outln!("no differences{held}");
            Ok(())
        }
        _ if args.json => Err(Failure::rendered(String::new())),
        count => Err(Failure::user(format!("{count} differences"))),
    }
}

/// Why a machine does not run.
enum Refused {
    Nic(NicError),
    Machine(Failure),
}

impl From<NicError> for Refused {
    fn from(error: NicError) -> Refused {
        Refused::Nic(error)
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Refused {
        Refused::Machine(failure)
    }
}
