//! Where a frame has what director and merger look at.
//!
//! Ethernet II with up to two VLAN tags; IPv4 with options; IPv6 with up to four extension headers;
//! TCP, UDP, ICMPv6, and any other protocol without a checksum over addresses. A frame that is cut
//! off before the last field that would be touched is no packet of these.

/// VLAN tags that are looked through.
pub const MOST_TAGS: usize = 2;
/// IPv6 extension headers that are looked through.
pub const MOST_EXTENSIONS: usize = 4;

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// The checksum of the fourth layer that covers addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover {
    /// None in this packet.
    None,
    /// At this offset.
    Always(usize),
    /// At this offset, of UDP: 0 means there is none, and a sum of 0 is written as 0xffff.
    Udp(usize),
}

/// Offsets from the frame's start, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Of the IP header.
    pub ip: usize,
    pub version6: bool,
    pub protocol: u8,
    /// Part of a packet that was cut into fragments.
    pub fragment: bool,
    /// Of the ports, if the protocol has some and this is no fragment.
    pub ports: Option<usize>,
    pub cover: Cover,
}

impl Packet {
    /// Offsets of source and destination address.
    pub fn addresses(&self) -> (usize, usize) {
        if self.version6 { (self.ip + 8, self.ip + 24) } else { (self.ip + 12, self.ip + 16) }
    }

    /// Bytes of an address.
    pub fn address_bytes(&self) -> usize {
        if self.version6 { 16 } else { 4 }
    }

    /// Finds everything; none if the frame is not one of these.
    pub fn find(frame: &[u8]) -> Option<Packet> {
        let word = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
        let mut at = 12;
        let mut kind = word(at)?;
        for _ in 0..MOST_TAGS {
            if kind == 0x8100 || kind == 0x88a8 {
                at += 4;
                kind = word(at)?;
            }
        }
        let ip = at + 2;
        match kind {
            0x0800 => find4(frame, ip),
            0x86dd => find6(frame, ip),
            _ => None,
        }
    }
}

fn find4(frame: &[u8], ip: usize) -> Option<Packet> {
    let header = frame.get(ip..ip + 20)?;
    let length = usize::from(header[0] & 15) * 4;
    if header[0] >> 4 != 4 || length < 20 || frame.len() < ip + length {
        return None;
    }
    let place = u16::from_be_bytes([header[6], header[7]]);
    // More fragments, or not the first one.
    let (fragment, first) = (place & 0x3fff != 0, place & 0x1fff == 0);
    fourth(
        frame,
        Packet {
            ip,
            version6: false,
            protocol: header[9],
            fragment,
            ports: None,
            cover: Cover::None,
        },
        ip + length,
        first,
    )
}

fn find6(frame: &[u8], ip: usize) -> Option<Packet> {
    let header = frame.get(ip..ip + 40)?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let (mut next, mut at) = (header[6], ip + 40);
    let (mut fragment, mut first) = (false, true);
    for _ in 0..MOST_EXTENSIONS {
        match next {
            // Hop by hop, destination options. A routing header changes which destination the
            // checksum covers: not ours.
            0 | 60 => {
                let extension = frame.get(at..at + 2)?;
                next = extension[0];
                at += 8 + 8 * usize::from(extension[1]);
            }
            44 => {
                let extension = frame.get(at..at + 8)?;
                let place = u16::from_be_bytes([extension[2], extension[3]]);
                next = extension[0];
                fragment |= place & 0xfff9 != 0;
                first &= place & 0xfff8 == 0;
                at += 8;
            }
            _ => break,
        }
    }
    if matches!(next, 0 | 43 | 44 | 60) {
        return None;
    }
    fourth(
        frame,
        Packet { ip, version6: true, protocol: next, fragment, ports: None, cover: Cover::None },
        at,
        first,
    )
}

/// Adds what the fourth layer, which begins at `at`, has.
fn fourth(frame: &[u8], mut packet: Packet, at: usize, first: bool) -> Option<Packet> {
    if !first {
        return Some(packet);
    }
    packet.cover = match packet.protocol {
        TCP => Cover::Always(at + 16),
        UDP => Cover::Udp(at + 6),
        ICMPV6 if packet.version6 => Cover::Always(at + 2),
        _ => return Some(packet),
    };
    let (Cover::Always(sum) | Cover::Udp(sum)) = packet.cover else { return Some(packet) };
    if frame.len() < sum + 2 {
        return None;
    }
    if packet.protocol != ICMPV6 && !packet.fragment {
        packet.ports = Some(at);
    }
    Some(packet)
}
