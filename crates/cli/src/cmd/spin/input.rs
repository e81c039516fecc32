//! What `spin sim` and `spin verify` are given alike: handlers by name, packets, and what is around
//! them.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use nicforge_driver::Failure;
use nicforge_isa::object::riscv::Image;
use nicforge_run::pcap;
use nicforge_run::spin::{Api, Load, Traffic, generate, handlers_of, read_trace};
use nicforge_spin::machine::Machine;
use nicforge_spin::matching::Ruleset;
use nicforge_spin::nic::{Arrival, Handlers, MemoryRules};

use super::rules;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TrafficArg {
    Pspin,
    Icmp,
    Udp,
    Slmp,
}

/// Whose rules say which memory a handler may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MemoryArg {
    /// The context's own, to the byte, on the NIC and on the host
    Strict,
    /// Pages of 4 KiB around it, and any address on the host
    Pspin,
}

/// Packets and handlers.
#[derive(Args)]
pub struct Input {
    /// Packets of each message
    #[arg(short = 'p', long, default_value_t = 32, value_name = "N")]
    packets: u32,
    /// Bytes of a packet, all headers included
    #[arg(short = 's', long, default_value_t = 1024, value_name = "BYTES")]
    size: usize,
    /// Messages
    #[arg(short = 'm', long, default_value_t = 1, value_name = "N")]
    messages: u32,
    /// Cycles between packets
    #[arg(short = 'd', long, default_value_t = 20, value_name = "CYCLES")]
    packet_delay: u64,
    /// Cycles between messages
    #[arg(short = 'l', long, default_value_t = 40, value_name = "CYCLES")]
    message_delay: u64,
    /// What packets are [default: what the machine's handlers take: pspin, or udp]
    #[arg(long, value_enum)]
    traffic: Option<TrafficArg>,
    /// Take packets and times from a capture
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Take packets, messages and gaps from a trace as PsPIN's drivers replay
    #[arg(long, value_name = "FILE", conflicts_with = "pcap")]
    trace: Option<PathBuf>,
    /// Packets that are for handlers: all, ipv4, icmp, udp[:PORT], tcp[:PORT], slmp [default: all
    /// of a capture; made-up packets come with their message, in hardware as --traffic says]
    #[arg(long = "match", value_name = "RULE")]
    matching: Option<String>,
    /// Handlers by name [default: the functions that end in _hh, _ph, _th]
    #[arg(long, value_name = "NAME")]
    hh: Option<String>,
    #[arg(long, value_name = "NAME")]
    ph: Option<String>,
    #[arg(long, value_name = "NAME")]
    th: Option<String>,
    /// Cycles after which a handler is ended; 0: never
    #[arg(long, default_value_t = 4_000_000, value_name = "CYCLES")]
    watchdog: u64,
    /// What the handlers' memory holds at the beginning: tables and the like
    #[arg(long, value_name = "FILE")]
    handler_memory: Option<PathBuf>,
    /// Which memory a handler may touch [default: pspin where the headers are PsPIN's, else strict]
    #[arg(long, value_enum, value_name = "RULES")]
    memory: Option<MemoryArg>,
    /// A host program answers handlers' requests after so many cycles
    #[arg(long, value_name = "CYCLES")]
    pub answer_after: Option<u64>,
}

impl Input {
    /// Which packets are for handlers, where they do not come with their message.
    pub fn ruleset(&self) -> Result<Ruleset, Failure> {
        let rule = match (&self.matching, self.traffic, self.pcap.is_some() || self.trace.is_some())
        {
            (Some(rule), ..) => rule,
            (None, _, true) => "all",
            (None, Some(TrafficArg::Icmp), _) => "icmp",
            (None, Some(TrafficArg::Slmp), _) => "slmp",
            (None, Some(TrafficArg::Udp) | None, _) => "udp",
            (None, Some(TrafficArg::Pspin), _) => "all",
        };
        rules::parse(rule).map_err(Failure::usage)
    }

    /// Cycles after which a handler is ended.
    pub fn watchdog(&self) -> Option<u64> {
        (self.watchdog > 0).then_some(self.watchdog)
    }

    /// The handlers that were named, or the image's.
    pub fn handlers(&self, file: &Path, image: &Image) -> Result<Handlers, Failure> {
        let found = handlers_of(image);
        let handlers = Handlers {
            header: self.hh.clone().or(found.header),
            payload: self.ph.clone().or(found.payload),
            completion: self.th.clone().or(found.completion),
        };
        if handlers == Handlers::default() {
            return Err(Failure::user(format!(
                "{}: no function's name ends in _hh, _ph or _th; name the handlers with --hh, --ph, --th",
                file.display()
            )));
        }
        Ok(handlers)
    }

    /// Which memory a handler may touch.
    pub fn memory_rules(&self, api: Api) -> MemoryRules {
        match (self.memory, api) {
            (Some(MemoryArg::Pspin), _) | (None, Api::Pspin) => MemoryRules::Pspin,
            (Some(MemoryArg::Strict), _) | (None, Api::Fpspin) => MemoryRules::Strict,
        }
    }

    /// Contents of the handlers' memory.
    pub fn memory(&self) -> Result<Vec<u8>, Failure> {
        let Some(path) = &self.handler_memory else { return Ok(Vec::new()) };
        std::fs::read(path).map_err(|e| Failure::user(format!("{}: {e}", path.display())))
    }

    /// The frames, and what they are in words. With `rules` they come without their message.
    pub fn arrivals(
        &self,
        api: Api,
        machine: &Machine,
        rules: bool,
    ) -> Result<(Vec<Arrival>, String), Failure> {
        let (mut arrivals, what) = self.frames(api, machine)?;
        if self.matching.is_some() || rules {
            arrivals.iter_mut().for_each(|arrival| arrival.matched = None);
        }
        Ok((arrivals, what))
    }

    fn frames(&self, api: Api, machine: &Machine) -> Result<(Vec<Arrival>, String), Failure> {
        let traffic = match (self.traffic, api) {
            (Some(TrafficArg::Pspin), _) | (None, Api::Pspin) => Traffic::Pspin,
            (Some(TrafficArg::Icmp), _) => Traffic::Icmp,
            (Some(TrafficArg::Udp), _) | (None, Api::Fpspin) => Traffic::Udp,
            (Some(TrafficArg::Slmp), _) => Traffic::Slmp,
        };
        if let Some(path) = &self.trace {
            let fail = |e: String| Failure::user(format!("{}: {e}", path.display()));
            let text = std::fs::read_to_string(path).map_err(|e| fail(e.to_string()))?;
            let arrivals = read_trace(&text, traffic).map_err(|e| fail(e.to_string()))?;
            let what = format!("{} packets of {}", arrivals.len(), path.display());
            return Ok((arrivals, what));
        }
        if let Some(path) = &self.pcap {
            let frames = pcap::read(path).map_err(|e| Failure::of(e.fault(), e))?;
            let began = frames.first().map_or(0, |frame| frame.time_ns);
            let what = format!("{} frames of {}", frames.len(), path.display());
            let arrival = |(at, frame): (usize, pcap::Frame)| Arrival {
                time: (frame.time_ns.saturating_sub(began) as f64 / machine.cycle_ns()) as u64,
                frame: frame.data,
                user: at as u64,
                ..Arrival::default()
            };
            return Ok((frames.into_iter().enumerate().map(arrival).collect(), what));
        }
        let least = traffic.least();
        if self.size < least || self.size > 65_535 {
            return Err(Failure::usage(format!(
                "--size {}: such packets have {least} to 65535 bytes",
                self.size
            )));
        }
        let load = Load {
            traffic,
            messages: self.messages,
            packets: self.packets,
            bytes: self.size,
            packet_delay: self.packet_delay,
            message_delay: self.message_delay,
        };
        let messages = if self.messages == 1 { "message" } else { "messages" };
        let what = format!(
            "{} {messages} of {} packets, {} bytes each",
            self.messages, self.packets, self.size
        );
        Ok((generate(&load), what))
    }
}
