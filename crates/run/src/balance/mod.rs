//! The load balancer on real interfaces: XDP director and merger, and the daemon that runs a
//! policy.
//!
//! [`Balancer`] is the object in the kernel, [`daemon`] what runs beside it, [`heartbeat`] how both
//! sides say that they are alive and how full their queues are. [`peer`] and [`demo`] are a NIC
//! side, a host side and a client of our own.

pub mod control;
pub mod daemon;
pub mod demo;
pub mod functions;
pub mod handoff;
pub mod heartbeat;
pub mod library;
pub mod measure;
pub mod metrics;
pub mod peer;
pub mod program;
pub mod raw;

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use libbpf_rs::{MapCore, MapFlags, Object};
use nicforge_balance::director::checksum::delta;
use nicforge_balance::director::flows::BUCKETS;
use nicforge_balance::director::meter::{Mode as Metering, Setting};
use nicforge_balance::director::{Counters, Route, Verdict, Vip, check};

use crate::compile::Mode;
use crate::xdp::attach::{Attached, attach, index_of, set_ports};
use crate::xdp::compile_bpf;
use crate::xdp::{Globals, XdpError, load_object, open_object, run_once};

/// The programs' source.
const SOURCE: &str = include_str!("../../../../runtime/xdp/balance.bpf.c");
/// Bytes of a bucket in its map, and where its members are.
const BUCKET: usize = 24;
const BUCKET_WANTED: usize = 4;
const BUCKET_BYTES: usize = 16;

/// Settings that do not change while it runs.
#[derive(Clone, Debug)]
pub struct Config {
    pub vips: Vec<Vip>,
    pub mode: Metering,
    pub lazy: bool,
    /// Decides and counts, changes and diverts nothing.
    pub shadow: bool,
    /// The NIC side is this machine's own network stack.
    pub nic_is_stack: bool,
    /// For single packets through the kernel's test run.
    pub test: bool,
}

/// Interfaces by name, in the calling thread's network namespace.
#[derive(Clone, Debug)]
pub struct Interfaces {
    pub uplink: String,
    /// None: the NIC side is this machine's own network stack.
    pub nic: Option<String>,
    pub host: String,
}

/// Director, monitor and merger in the kernel; they leave it when this is dropped.
pub struct Balancer {
    set: Globals,
    buckets: Globals,
    attached: Vec<Attached>,
    object: Object,
}

fn contract(what: impl std::fmt::Display) -> XdpError {
    XdpError::Contract(format!("balance.bpf.c: {what}"))
}

/// Errors of other parts, with what could not be done for them.
fn other<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> XdpError {
    move |error| XdpError::Kernel {
        what: what.to_string(),
        source: std::io::Error::other(error.to_string()),
    }
}

/// Offsets in `nfb_set`.
mod place {
    pub const WINDOW: usize = 0;
    pub const CREDIT: usize = 8;
    pub const RATE: usize = 16;
    pub const BURST: usize = 24;
    pub const HOST_SHARE: usize = 32;
    pub const DRAIN: usize = 40;
    pub const NOW: usize = 48;
    pub const ROUTE: usize = 56;
    pub const SIZE: usize = 64;
}

impl Balancer {
    /// Compiles and loads.
    ///
    /// # Errors
    /// [`XdpError::Kernel`] for VIPs that [`check`] refuses; whatever compiling and loading may
    /// fail with.
    pub fn load(config: &Config) -> Result<Balancer, XdpError> {
        Balancer::load_source(config, SOURCE)
    }

    /// As [`Balancer::load`], with another director of the same maps and settings in place of ours,
    /// for comparisons.
    pub fn load_source(config: &Config, source: &str) -> Result<Balancer, XdpError> {
        check(&config.vips).map_err(other("serve these addresses"))?;
        let mode = Metering::ALL.iter().position(|(mode, _)| *mode == config.mode).unwrap_or(0);
        let macros: String = [
            ("MODE", mode),
            ("LAZY", config.lazy.into()),
            ("SHADOW", config.shadow.into()),
            ("NIC_IS_STACK", config.nic_is_stack.into()),
            ("TEST", config.test.into()),
        ]
        .map(|(name, value)| format!("#define NFB_{name} {value}\n"))
        .concat();
        let bytes = compile_bpf("balance", &format!("{macros}#line 1\n{source}"), Mode::Live, &[])?;
        let open = open_object(&bytes)?;
        let object = load_object(open)?;
        let fd = |name: &str| {
            let map = object.maps().find(|map| map.name().to_string_lossy().ends_with(name));
            map.ok_or_else(|| contract(format!("there is no map {name}")))
        };
        let set = Globals::map(fd(".data.set")?.as_fd(), place::SIZE)?;
        let buckets = Globals::map(fd("nfb_buckets")?.as_fd(), BUCKETS * BUCKET)?;
        let balancer = Balancer { set, buckets, attached: Vec::new(), object };
        balancer.fill(&config.vips)?;
        Ok(balancer)
    }

    fn fill(&self, vips: &[Vip]) -> Result<(), XdpError> {
        for vip in vips {
            for (kind, from, to, mac) in [
                ("nfb_vips", vip.address, vip.host_address, vip.host_mac),
                ("nfb_hosts", vip.host_address, vip.address, vip.mac),
            ] {
                let (key, address) = (octets(from), octets(to));
                let map = self.map(&format!("{kind}{}", if from.is_ipv4() { 4 } else { 6 }))?;
                let mut value = mac.to_vec();
                value.extend(delta(&key, &address).to_be_bytes());
                value.extend(&address);
                value.resize(24, 0);
                map.update(&key, &value, MapFlags::ANY)
                    .map_err(|error| contract(format!("{from}: {error}")))?;
            }
        }
        Ok(())
    }

    fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>, XdpError> {
        let map = self.object.maps().find(|map| map.name().to_string_lossy() == name);
        map.ok_or_else(|| contract(format!("there is no map {name}")))
    }

    /// The descriptor of a program.
    pub fn program(&self, name: &str) -> Result<BorrowedFd<'_>, XdpError> {
        let program = self.object.progs().find(|program| program.name().to_string_lossy() == name);
        let program = program.ok_or_else(|| contract(format!("there is no program {name}")))?;
        // SAFETY: the descriptor belongs to the object, which outlives the borrow of self.
        Ok(unsafe { BorrowedFd::borrow_raw(std::os::fd::AsRawFd::as_raw_fd(&program.as_fd())) })
    }

    /// Attaches to interfaces of the calling thread's network namespace.
    pub fn attach(&mut self, interfaces: &Interfaces) -> Result<(), XdpError> {
        let uplink = index_of(&interfaces.uplink)?;
        let nic = interfaces.nic.as_deref().map(index_of).transpose()?;
        let host = index_of(&interfaces.host)?;
        set_ports(self.map("nfb_ports")?.as_fd(), &[uplink, nic.unwrap_or(uplink), host])?;
        // Who sends back first: nothing is diverted before its answer can return.
        let mut attached = vec![attach(self.program("nfb_from_host")?, host, &interfaces.host)?];
        if let (Some(nic), Some(name)) = (nic, &interfaces.nic) {
            attached.push(attach(self.program("nfb_from_nic")?, nic, name)?);
        }
        attached.push(attach(self.program("nfb_ingress")?, uplink, &interfaces.uplink)?);
        self.attached.extend(attached);
        Ok(())
    }

    /// Attaches a program that passes everything, as veth wants it at the other end of what frames
    /// are redirected to.
    pub fn attach_pass(&self, interface: &str) -> Result<Attached, XdpError> {
        attach(self.program("nfb_pass")?, index_of(interface)?, interface)
    }

    /// Sets what the meters keep, for all of `cpus` processors together, and where packets go.
    pub fn apply(&self, set: &Setting, cpus: u64, route: Route) {
        let cpus = cpus.max(1);
        let route = match route {
            Route::Metered => 0,
            Route::Nic => 1,
            Route::Host => 2,
        };
        // A bucket that holds less than a packet keeps nothing.
        let burst = (set.burst / cpus).max(2 * 1524).min(set.burst);
        let values = [
            (place::WINDOW, set.window_ns),
            (place::CREDIT, set.credit / cpus),
            (place::RATE, set.rate / cpus),
            (place::BURST, burst),
            (place::HOST_SHARE, set.host_share),
            (place::ROUTE, route),
        ];
        values.iter().for_each(|(at, value)| self.set.set_u64(*at, *value));
    }

    /// How long a side may hold a packet, ns: buckets of flows move after that.
    pub fn set_drain(&self, ns: u64) {
        self.set.set_u64(place::DRAIN, ns);
    }

    /// Counters of each processor.
    pub fn counters(&self) -> Result<Vec<Counters>, XdpError> {
        let values = self.map("nfb_cpus")?.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
        let values = values.map_err(contract)?.ok_or_else(|| contract("no counters"))?;
        Ok(values
            .iter()
            .map(|value| {
                let at = |n: usize| u64::from_ne_bytes(std::array::from_fn(|i| value[8 * n + i]));
                Counters {
                    nic_packets: at(3),
                    nic_bytes: at(4),
                    host_packets: at(5),
                    host_bytes: at(6),
                    merged: at(7),
                }
            })
            .collect())
    }

    /// Bytes of each bucket of flows so far.
    pub fn bucket_bytes(&self) -> Vec<u64> {
        (0..BUCKETS).map(|at| self.buckets.u64(at * BUCKET + BUCKET_BYTES)).collect()
    }

    /// Which buckets of flows are to go to the host.
    pub fn want(&self, host: &[bool]) {
        for (at, host) in host.iter().enumerate().take(BUCKETS) {
            self.buckets.set_u32(at * BUCKET + BUCKET_WANTED, (*host).into());
        }
    }

    /// Puts all buckets of flows on the host or the NIC at once; only before packets come, since it
    /// may reorder flows.
    pub fn place(&self, host: bool) {
        for at in 0..BUCKETS {
            self.buckets.set_u32(at * BUCKET, host.into());
            self.buckets.set_u32(at * BUCKET + BUCKET_WANTED, host.into());
        }
    }

    /// A single frame from the wire through the kernel's test run at a time; the frame is changed
    /// in place. For a balancer with `test`.
    pub fn test_ingress(&self, frame: &mut Vec<u8>, now_ns: u64) -> Result<Verdict, XdpError> {
        self.set.set_u64(place::NOW, now_ns);
        Ok(match self.test(frame, "nfb_ingress")? {
            1 => Verdict::Other,
            2 => Verdict::Nic,
            3 => Verdict::Host,
            other => return Err(contract(format!("verdict {other}"))),
        })
    }

    /// A single frame from the host; whether it was rewritten.
    pub fn test_egress(&self, frame: &mut Vec<u8>) -> Result<bool, XdpError> {
        Ok(self.test(frame, "nfb_from_host")? == 3)
    }

    fn test(&self, frame: &mut Vec<u8>, program: &str) -> Result<u32, XdpError> {
        let mut out = vec![0; frame.len()];
        let run = run_once(self.program(program)?, frame, Some(&mut out), 1)?;
        *frame = out;
        Ok(run.verdict)
    }

    /// The instructions of a program, as they were loaded, for counting.
    pub fn instructions(&self, program: &str) -> Option<Vec<u8>> {
        let program =
            self.object.progs().find(|found| found.name().to_string_lossy() == program)?;
        let insns = program.insns();
        // SAFETY: an instruction is eight plain bytes without padding.
        let bytes =
            unsafe { std::slice::from_raw_parts(insns.as_ptr().cast::<u8>(), size_of_val(insns)) };
        Some(bytes.to_vec())
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(four) => four.octets().to_vec(),
        IpAddr::V6(six) => six.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests;
