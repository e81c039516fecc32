//! Director and merger, packet by packet: what every one of them does.
//!
//! A packet to a configured address (a VIP) is *eligible*. It stays as it is and goes to the NIC
//! side, or it is rewritten to the host's addresses and goes there. The answers of the host are
//! rewritten back, so clients see one server. Everything else passes untouched and uncounted.
//!
//! Defects of the published hardware that are not repeated: headers are looked for (not assumed at
//! fixed places), payload is never rewritten, UDP without a checksum stays without one, TCP's
//! checksum is patched, and the merger does not depend on the threshold.

pub mod checksum;
pub mod flows;
pub mod meter;
pub mod packet;
pub mod sample;

use flows::{BUCKETS, Bucket, FlowHash};
use meter::{Meter, Mode, Setting};
use packet::{Cover, Packet};

/// Bytes on the wire beyond the frame: preamble, CRC, gap between frames.
pub const WIRE_OVERHEAD: u64 = 24;
/// Addresses that one director serves.
pub const MOST_VIPS: usize = 64;

/// An IP address as bytes of a packet.
pub type Address = std::net::IpAddr;

/// A served address and the host that helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vip {
    /// What clients send to; the NIC side has it.
    pub address: Address,
    /// MAC of the NIC side, as answers show it.
    pub mac: [u8; 6],
    /// Address of the host for this VIP: of the same version, and of no other VIP.
    pub host_address: Address,
    pub host_mac: [u8; 6],
}

/// Which way packets go whatever the meter says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Route {
    /// The meter decides.
    #[default]
    Metered,
    /// All to the NIC: balancing is off, or the host is dead.
    Nic,
    /// All to the host: the threshold is zero, or the NIC side is dead.
    Host,
}

/// Why a set of VIPs cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VipError {
    #[error("there is no address to serve; name one with its host")]
    None,
    #[error("{0} addresses are more than {MOST_VIPS}; use several directors")]
    Many(usize),
    #[error("{0} and its host {1} are of different IP versions; use two of the same")]
    Versions(Address, Address),
    #[error(
        "{0} is there twice; every address must be that of one VIP or one host, so that answers can be told apart"
    )]
    Twice(Address),
}

/// Checks what the rewriting takes for granted.
pub fn check(vips: &[Vip]) -> Result<(), VipError> {
    if vips.is_empty() {
        return Err(VipError::None);
    }
    if vips.len() > MOST_VIPS {
        return Err(VipError::Many(vips.len()));
    }
    let mut seen = std::collections::BTreeSet::new();
    for vip in vips {
        if vip.address.is_ipv4() != vip.host_address.is_ipv4() {
            return Err(VipError::Versions(vip.address, vip.host_address));
        }
        for address in [vip.address, vip.host_address] {
            if !seen.insert(address) {
                return Err(VipError::Twice(address));
            }
        }
    }
    Ok(())
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not eligible: untouched, uncounted.
    Other,
    /// To the NIC side, untouched.
    Nic,
    /// To the host, rewritten (unless only watching).
    Host,
}

/// Counters of what was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub nic_packets: u64,
    /// On the wire.
    pub nic_bytes: u64,
    pub host_packets: u64,
    pub host_bytes: u64,
    /// Answers of the host that were rewritten.
    pub merged: u64,
}

/// A director with its merger.
#[derive(Clone, Debug)]
pub struct Director {
    vips: Vec<Vip>,
    pub mode: Mode,
    pub lazy: bool,
    pub route: Route,
    /// Decides and counts, changes and diverts nothing.
    pub shadow: bool,
    pub set: Setting,
    /// How long a side may hold a packet, ns.
    pub drain_ns: u64,
    pub meter: Meter,
    pub buckets: Vec<Bucket>,
    pub counters: Counters,
}

fn bytes(address: &Address) -> Vec<u8> {
    match address {
        Address::V4(four) => four.octets().to_vec(),
        Address::V6(six) => six.octets().to_vec(),
    }
}

impl Director {
    /// For checked VIPs.
    pub fn new(vips: Vec<Vip>, mode: Mode) -> Result<Director, VipError> {
        check(&vips)?;
        Ok(Director {
            vips,
            mode,
            lazy: true,
            route: Route::Metered,
            shadow: false,
            set: Setting::default(),
            drain_ns: 1_000_000,
            meter: Meter::default(),
            buckets: vec![Bucket::default(); BUCKETS],
            counters: Counters::default(),
        })
    }

    /// A frame from the wire.
    pub fn ingress(&mut self, frame: &mut [u8], now: impl FnOnce() -> u64) -> Verdict {
        let Some(packet) = Packet::find(frame) else { return Verdict::Other };
        let (_, to) = packet.addresses();
        let wanted = &frame[to..to + packet.address_bytes()];
        let Some(vip) = self.vips.iter().position(|vip| bytes(&vip.address) == wanted) else {
            return Verdict::Other;
        };
        let wire = frame.len() as u64 + WIRE_OVERHEAD;
        let host = match self.route {
            Route::Nic => false,
            Route::Host => true,
            Route::Metered if self.mode == Mode::FlowAffine => {
                self.buckets[bucket(frame, &packet)].to_host(wire, self.drain_ns, now)
            }
            // Parts of one packet must meet again, and only the first has ports.
            Route::Metered if packet.fragment => true,
            Route::Metered => !self.meter.keep(self.mode, &self.set, self.lazy, wire, now),
        };
        if !host {
            self.counters.nic_packets += 1;
            self.counters.nic_bytes += wire;
            return Verdict::Nic;
        }
        self.counters.host_packets += 1;
        self.counters.host_bytes += wire;
        if !self.shadow {
            let vip = &self.vips[vip];
            frame[..6].copy_from_slice(&vip.host_mac);
            rewrite(frame, &packet, to, &bytes(&vip.address), &bytes(&vip.host_address));
        }
        Verdict::Host
    }

    /// A frame from the host to the wire; whether it was rewritten.
    pub fn egress(&mut self, frame: &mut [u8]) -> bool {
        let Some(packet) = Packet::find(frame) else { return false };
        let (from, _) = packet.addresses();
        let source = &frame[from..from + packet.address_bytes()];
        let Some(vip) = self.vips.iter().find(|vip| bytes(&vip.host_address) == source) else {
            return false;
        };
        frame[6..12].copy_from_slice(&vip.mac);
        rewrite(frame, &packet, from, &bytes(&vip.host_address), &bytes(&vip.address));
        self.counters.merged += 1;
        true
    }
}

/// The bucket of a frame's flow as directors see it, so with the VIP's address; none if the frame
/// is no such packet.
pub fn flow_bucket(frame: &[u8]) -> Option<usize> {
    Packet::find(frame).map(|packet| bucket(frame, &packet))
}

/// Gives a frame to `old` the destination `new`, checksums patched; whether it was one.
pub fn change_destination(frame: &mut [u8], old: &Address, new: &Address) -> bool {
    let Some(packet) = Packet::find(frame) else { return false };
    let (_, to) = packet.addresses();
    replace(frame, &packet, to, old, new)
}

/// Gives a frame from `old` the source `new`, checksums patched; whether it was one.
pub fn change_source(frame: &mut [u8], old: &Address, new: &Address) -> bool {
    let Some(packet) = Packet::find(frame) else { return false };
    let (from, _) = packet.addresses();
    replace(frame, &packet, from, old, new)
}

fn replace(frame: &mut [u8], packet: &Packet, at: usize, old: &Address, new: &Address) -> bool {
    let same = frame[at..at + packet.address_bytes()] == bytes(old);
    if same {
        rewrite(frame, packet, at, &bytes(old), &bytes(new));
    }
    same
}

/// The bucket of a packet: fragments by addresses alone, since most of them have no ports.
fn bucket(frame: &[u8], packet: &Packet) -> usize {
    let word =
        |at: usize| u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
    let (from, _) = packet.addresses();
    let mut hash = FlowHash::new(packet.protocol);
    for at in (from..from + 2 * packet.address_bytes()).step_by(4) {
        hash = hash.mix(word(at));
    }
    packet.ports.map_or(hash, |ports| hash.mix(word(ports))).bucket()
}

/// Replaces an address and patches the checksums that cover it.
fn rewrite(frame: &mut [u8], packet: &Packet, at: usize, old: &[u8], new: &[u8]) {
    let delta = checksum::delta(old, new);
    let mut patch = |at: usize, udp: bool| {
        let before = u16::from_be_bytes([frame[at], frame[at + 1]]);
        if udp && before == 0 {
            return;
        }
        let after = match checksum::patch(before, delta) {
            0 if udp => 0xffff,
            after => after,
        };
        frame[at..at + 2].copy_from_slice(&after.to_be_bytes());
    };
    if !packet.version6 {
        patch(packet.ip + 10, false);
    }
    match packet.cover {
        Cover::None => {}
        Cover::Always(sum) => patch(sum, false),
        Cover::Udp(sum) => patch(sum, true),
    }
    frame[at..at + new.len()].copy_from_slice(new);
}

/// Any bytes as a frame, for the fuzzer: nothing panics, and packets that stay are not changed.
pub fn fuzz(data: &[u8]) {
    let Some((first, frame)) = data.split_first() else { return };
    let vips = sample_vips();
    let mode = Mode::ALL[usize::from(first & 3)].0;
    let Ok(mut director) = Director::new(vips, mode) else { return };
    director.route = if first & 4 != 0 { Route::Host } else { Route::Metered };
    let mut changed = frame.to_vec();
    let verdict = director.ingress(&mut changed, || 5);
    if verdict != Verdict::Host {
        assert_eq!(changed, frame, "a packet that stays was changed");
    }
    director.egress(&mut changed);
    assert_eq!(changed.len(), frame.len());
}

/// Two VIPs of both versions, for tests and fuzzers.
pub fn sample_vips() -> Vec<Vip> {
    let six = |last: u16| Address::from([0xfd00, 0, 0, 0, 0, 0, 7, last]);
    vec![
        Vip {
            address: Address::from([10, 9, 200, 34]),
            mac: [2, 0, 0, 0, 0, 0x34],
            host_address: Address::from([192, 168, 17, 32]),
            host_mac: [2, 0, 0, 0, 0, 0x32],
        },
        Vip {
            address: six(1),
            mac: [2, 0, 0, 0, 6, 1],
            host_address: six(0xfe02),
            host_mac: [2, 0, 0, 0, 6, 2],
        },
    ]
}

#[cfg(test)]
mod tests;
