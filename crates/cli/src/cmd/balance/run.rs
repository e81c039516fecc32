//! `nicforge balance run` and `ask`: the balancer on interfaces, and talking to it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use nicforge_balance::director::Vip;
use nicforge_balance::director::meter::Mode;
use nicforge_balance::policy::failover::Limits;
use nicforge_driver::{Failure, stop};
use nicforge_run::balance::daemon::{Daemon, PERIOD_NS};
use nicforge_run::balance::heartbeat::Receiver;
use nicforge_run::balance::{Balancer, Config, Interfaces, control, metrics};

use super::policies::{self, PolicyName};
use super::profiles;
use crate::interrupt;

/// `nicforge balance run`.
#[derive(Args)]
pub struct Run {
    /// Interface to the clients
    #[arg(long, value_name = "INTERFACE")]
    uplink: String,
    /// Interface to the NIC side (default: this machine's own network stack)
    #[arg(long, value_name = "INTERFACE")]
    nic: Option<String>,
    /// Interface to the host
    #[arg(long, value_name = "INTERFACE")]
    host: String,
    /// A served address and the host's for it
    #[arg(long, required = true, value_parser = vip, value_name = "ADDRESS,MAC,HOST_ADDRESS,HOST_MAC")]
    vip: Vec<Vip>,
    /// What the function costs: a built-in profile or a file that `balance profile` wrote
    #[arg(long, value_name = "PROFILE")]
    profile: String,
    #[arg(long, value_enum, default_value = "gate")]
    policy: PolicyName,
    /// p99 that is wanted on the NIC, us
    #[arg(long, default_value_t = 50.0, value_name = "US")]
    objective: f64,
    /// How packets are metered
    #[arg(long, value_enum, default_value = "token-bucket")]
    mode: ModeName,
    /// Where sides send heartbeats: a socket that is made
    #[arg(long, value_name = "PATH")]
    beats: PathBuf,
    /// Silence of a side that means death, ms
    #[arg(long, default_value_t = 40, value_name = "MS")]
    silence: u64,
    /// How long a side may hold a packet, us; flows change sides after that (mode flow-affine)
    #[arg(long, default_value_t = 1000, value_name = "US")]
    drain: u64,
    /// Only watch: decide and count, divert nothing
    #[arg(long)]
    shadow: bool,
    /// End after so many seconds
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
}

/// Modes of directors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModeName {
    Window,
    TokenBucket,
    Proportional,
    FlowAffine,
}

impl From<ModeName> for Mode {
    fn from(name: ModeName) -> Mode {
        match name {
            ModeName::Window => Mode::Window,
            ModeName::TokenBucket => Mode::TokenBucket,
            ModeName::Proportional => Mode::Proportional,
            ModeName::FlowAffine => Mode::FlowAffine,
        }
    }
}

/// `nicforge balance ask`.
#[derive(Args)]
pub struct Ask {
    /// metrics, status, threshold GBPS|auto, route nic|host|auto, stop
    #[arg(required = true, value_name = "REQUEST")]
    request: Vec<String>,
    /// Process id of the balancer, if there are several
    #[arg(long, value_name = "PID")]
    run: Option<u32>,
}

/// Reads ADDRESS,MAC,HOST_ADDRESS,HOST_MAC.
pub fn vip(text: &str) -> Result<Vip, String> {
    let fields: Vec<&str> = text.split(',').collect();
    let [address, own_mac, host_address, host_mac] = fields[..] else {
        return Err("expected ADDRESS,MAC,HOST_ADDRESS,HOST_MAC".to_string());
    };
    let address_of = |text: &str| text.parse().map_err(|_| format!("`{text}` is no IP address"));
    Ok(Vip {
        address: address_of(address)?,
        mac: mac(own_mac)?,
        host_address: address_of(host_address)?,
        host_mac: mac(host_mac)?,
    })
}

fn mac(text: &str) -> Result<[u8; 6], String> {
    let bytes: Option<Vec<u8>> =
        text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    bytes
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or(format!("`{text}` is no MAC address; write 02:00:00:00:00:01"))
}

/// Runs until it is told to stop.
pub fn run(args: &Run) -> Result<(), Failure> {
    nicforge_balance::director::check(&args.vip).map_err(|e| Failure::usage(e.to_string()))?;
    let profile = profiles::find(&args.profile)?;
    let policy = policies::make(
        args.policy,
        &profile,
        args.objective,
        nicforge_balance::traffic::LINE_GBPS,
    )?;
    let environment = |e: nicforge_run::xdp::XdpError| Failure::of(e.fault(), e);
    let mode = Mode::from(args.mode);
    let config = Config {
        vips: args.vip.clone(),
        mode,
        lazy: true,
        shadow: args.shadow,
        nic_is_stack: args.nic.is_none(),
        test: false,
    };
    let mut balancer = Balancer::load(&config).map_err(environment)?;
    balancer.set_drain(args.drain * 1000);
    let beats = Receiver::bind(&args.beats).map_err(|e| {
        Failure::environment(format!(
            "{}: cannot make the socket for heartbeats ({e}); remove what is there, or give another --beats",
            args.beats.display()
        ))
    })?;
    let mut server = control::Server::start().map_err(|e| Failure::of(e.fault(), e))?;
    interrupt::stop_in_order();
    let interfaces =
        Interfaces { uplink: args.uplink.clone(), nic: args.nic.clone(), host: args.host.clone() };
    balancer.attach(&interfaces).map_err(environment)?;
    let silence_ns = Duration::from_millis(args.silence).as_nanos() as u64;
    let limits = Limits { silence_ns, ..Limits::default() };
    let mut daemon =
        Daemon::new(balancer, beats, policy, limits, Some(profile.power), (mode, args.shadow));
    let start = Instant::now();
    let mut told = start;
    let most = args.seconds.map(Duration::from_secs_f64);
    while !stop::stopped() && most.is_none_or(|most| start.elapsed() < most) {
        daemon.step(start.elapsed().as_nanos() as u64 + 1).map_err(environment)?;
        if server.poll(&mut daemon) {
            break;
        }
        if told.elapsed() > Duration::from_secs(1) {
            told = Instant::now();
            errln!("{}", metrics::line(daemon.status()));
        }
        std::thread::sleep(Duration::from_nanos(PERIOD_NS));
    }
    outln!("{}", metrics::line(daemon.status()));
    Ok(())
}

/// Asks a balancer that runs.
pub fn ask(args: &Ask) -> Result<(), Failure> {
    let request = args.request.join(" ");
    control::Request::parse(&request).map_err(Failure::usage)?;
    let failed = |e: nicforge_run::socket::SocketError| Failure::of(e.fault(), e);
    let mut running = control::running().map_err(failed)?;
    if let Some(pid) = args.run {
        running.retain(|path| path.to_string_lossy().ends_with(&format!("balance.{pid}.ctl")));
    }
    match &running[..] {
        [] => Err(Failure::user("no balancer is running; start one with `nicforge balance run`")),
        [one] => {
            outln!("{}", control::ask(one, &request).map_err(failed)?);
            Ok(())
        }
        several => Err(Failure::user(format!(
            "{} balancers are running; say which with --run PID",
            several.len()
        ))),
    }
}
