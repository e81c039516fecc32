//! `nicforge spin run`: a sPIN NIC on a TAP interface.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use nicforge_driver::{Failure, stop};
use nicforge_run::spin::live::{Happening, LineFaults, Live, LiveOptions, Lived, Setup};
use nicforge_run::spin::{Lines, handlers_of};
use nicforge_spin::nic::{Compat, HostRegion, Options};

use super::build::{self, EngineArg};
use super::machine::{self, Chosen};
use super::rules;
use super::sim::{self, DatapathArg};
use crate::interrupt;

/// `nicforge spin run`.
#[derive(Args)]
pub struct Run {
    /// Handlers in C, or an image (.elf); without, programs load theirs through --device
    file: Option<PathBuf>,
    /// Interface that is made: what the kernel sends to it comes to the NIC
    #[arg(long, value_name = "NAME")]
    tap: Option<String>,
    /// Address of the kernel's side of it; the NIC has the next one
    #[arg(long, value_name = "A.B.C.D/BITS", requires = "tap")]
    address: Option<String>,
    /// The NIC's address, for which it answers ARP requests [default: the one behind --address]
    #[arg(long, value_name = "A.B.C.D")]
    nic_address: Option<std::net::Ipv4Addr>,
    /// Interface that is made for packets that no rule wants: the host's side of the NIC
    #[arg(long, value_name = "NAME")]
    host_tap: Option<String>,
    /// Packets for the handlers: all, ipv4, icmp, udp[:PORT], tcp[:PORT], slmp
    #[arg(long = "match", default_value = "all", value_name = "RULE")]
    matching: String,
    /// Socket where programs on this computer find the NIC (NICFORGE_PSPIN for them)
    #[arg(long, value_name = "PATH")]
    device: Option<PathBuf>,
    /// pspin, fpspin, or a target file with a section [spin]
    #[arg(long, value_name = "NAME|FILE.toml", default_value = "fpspin")]
    machine: String,
    /// What runs handlers
    #[arg(long, value_enum, default_value = "iss")]
    engine: EngineArg,
    /// What matches, stores and schedules packets; rtl is hardware (of fpspin), simulated cycle by
    /// cycle by Verilator
    #[arg(long, value_enum, default_value = "software")]
    datapath: DatapathArg,
    /// Bytes of host memory that the handlers reach
    #[arg(long, default_value_t = 1 << 20, value_name = "BYTES")]
    host_memory: u32,
    /// Cycles after which a handler is ended; 0: never. Handlers that wait for a program on the
    /// host need time
    #[arg(long, default_value_t = 400_000_000, value_name = "CYCLES")]
    watchdog: u64,
    /// With the faults of the published hardware and libraries
    #[arg(long)]
    bugs: bool,
    /// Lose this share of packets on the line, either way: 1%, 0.01
    #[arg(long, default_value = "0", value_parser = share, value_name = "SHARE")]
    loss: f64,
    /// Double this share
    #[arg(long, default_value = "0", value_parser = share, value_name = "SHARE")]
    duplicate: f64,
    /// Hold this share back until the next packet has passed
    #[arg(long, default_value = "0", value_parser = share, value_name = "SHARE")]
    reorder: f64,
    /// Of what is lost, doubled and held back
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// End after so many packets
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// End after so long
    #[arg(long, value_parser = crate::args::seconds, value_name = "SECONDS")]
    duration: Option<Duration>,
    /// For the compiler: -DNAME=VALUE, -I DIR, -O2 and so on
    #[arg(last = true, value_name = "FLAGS")]
    flags: Vec<String>,
}

/// Lives until Ctrl-C or a limit.
pub fn run(args: Run) -> Result<(), Failure> {
    if args.file.is_none() && args.device.is_none() {
        return Err(Failure::usage(
            "nothing to run: give handlers (a .c file or an image), or --device PATH for programs that bring theirs",
        ));
    }
    if args.tap.is_none() && args.device.is_none() {
        return Err(Failure::usage(
            "no packets would come: name an interface to make with --tap NAME",
        ));
    }
    let Chosen { machine, layout } = machine::find(&args.machine)?;
    let name = machine.name.clone();
    let mut setup = Setup::default();
    if let Some(file) = &args.file {
        let image = match args.engine {
            EngineArg::Iss => {
                let (image, lines) = sim::load(file, layout, &args.flags)?;
                setup.lines = lines;
                image
            }
            EngineArg::Native => {
                let native = build::native(file, layout, &args.flags)?;
                setup.lines = Lines::new(&native.elf);
                setup.native.insert(native).image.clone()
            }
        };
        setup.handlers = handlers_of(&image);
        setup.image = Some(image);
        setup.ruleset = Some(rules::parse(&args.matching).map_err(Failure::usage)?);
        setup.host = HostRegion { address: 0, bytes: args.host_memory };
    }
    let options = LiveOptions {
        nic: Options {
            compat: Compat { bugs: args.bugs },
            watchdog: (args.watchdog > 0).then_some(args.watchdog),
            ..Options::default()
        },
        native: args.engine == EngineArg::Native,
        rtl: args.datapath == DatapathArg::Rtl,
        setup,
        tap: args.tap.clone(),
        address: args.address.clone(),
        host_tap: args.host_tap.clone(),
        nic_address: args.nic_address.map(|address| address.octets()),
        device: args.device.clone(),
        faults: LineFaults {
            loss: args.loss,
            duplicate: args.duplicate,
            reorder: args.reorder,
            seed: args.seed,
        },
        frames: args.count,
        duration: args.duration,
        machine,
    };
    interrupt::stop_in_order();
    let mut live = Live::new(options).map_err(|e| Failure::of(e.fault(), e))?;
    let cores = live.machine().cores;
    if let Some(tap) = &args.tap {
        let address = live.nic_address().map(std::net::Ipv4Addr::from);
        let reached =
            address.map_or_else(String::new, |address| format!(", NIC address {address}"));
        errln!("{} on {tap}{reached}; Ctrl-C ends it", name);
    }
    if let Some(path) = &args.device {
        errln!("programs: NICFORGE_PSPIN={}", path.display());
    }
    let lived = live.run(&stop::STOP, &mut |happening| match happening {
        Happening::Printed { hpu, text } => outln!("[{}.{}] {text}", hpu / cores, hpu % cores),
        Happening::Fault(fault) => errln!("{fault}"),
        Happening::Dropped(why) => errln!("dropped: {why}"),
        Happening::Device(text) => errln!("{text}"),
    });
    let lived = lived.map_err(|e| Failure::of(e.fault(), e))?;
    print(&lived);
    Ok(())
}

/// Reads `1%` or `0.01`.
fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let share = number.parse::<f64>().map(|number| number / unit).ok();
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "expected a share: 1%, or 0.01".to_string())
}

fn print(lived: &Lived) {
    outln!("from the line   {:8} packets, {} ARP requests answered", lived.received, lived.arp);
    outln!(
        "to handlers     {:8}, {} handlers ran, {} failed",
        lived.matched,
        lived.handlers,
        lived.failed
    );
    outln!("to the line     {:8} packets, {} not taken", lived.sent, lived.refused);
    outln!(
        "host's side     {:8} to it, {} from it, {} for nobody",
        lived.to_host,
        lived.from_host,
        lived.nobodys
    );
    if lived.spoilt != [0; 3] {
        let [lost, doubled, held] = lived.spoilt;
        outln!("on the line     {lost:8} lost, {doubled} doubled, {held} held back, as asked");
    }
    outln!("dropped         {:8}", lived.dropped);
    outln!("host memory     {:8} bytes written, {} read", lived.host_written, lived.host_read);
    outln!("{} cycles simulated in {:.1} s", lived.cycles, lived.seconds);
}
