//! An independent checker of Internet checksums: plain sums over bytes as RFC 1071 has them,
//! sharing nothing with the interpreter or the code generators.

/// True if every checksum in an Ethernet frame is right: IPv4 headers, TCP, UDP and ICMP over IPv4
/// and IPv6, behind VLAN tags and inside VXLAN. A header that is cut short or whose lengths do not
/// fit is not right; of fragments only the header is looked at; what is neither IPv4 nor IPv6 has
/// nothing to be wrong.
pub fn are_right(frame: &[u8]) -> bool {
    ethernet(frame).is_some_and(|right| right)
}

/// `None`: cut short.
fn ethernet(frame: &[u8]) -> Option<bool> {
    let mut kind = word(frame, 12)?;
    let mut at = 14;
    while kind == 0x8100 {
        kind = word(frame, at + 2)?;
        at += 4;
    }
    let packet = &frame[at..];
    match kind {
        0x0800 => ipv4(packet),
        0x86dd => ipv6(packet),
        _ => Some(true),
    }
}

fn ipv4(packet: &[u8]) -> Option<bool> {
    let header = (packet.first()? & 15) as usize * 4;
    let total = word(packet, 2)? as usize;
    if packet[0] >> 4 != 4 || header < 20 || total < header {
        return None;
    }
    let segment = packet.get(header..total)?;
    if sum(&packet[..header]) != 0xffff {
        return Some(false);
    }
    if word(packet, 6)? & 0x3fff != 0 {
        return Some(true);
    }
    let (protocol, addresses) = (packet[9], &packet[12..20]);
    match protocol {
        1 => Some(segment.len() >= 8 && sum(segment) == 0xffff),
        // Zero: the sender computed none.
        17 if word(segment, 6)? == 0 => inside(segment),
        6 | 17 => transport(protocol, addresses, segment),
        _ => Some(true),
    }
}

fn ipv6(packet: &[u8]) -> Option<bool> {
    let length = word(packet, 4)? as usize;
    let segment = packet.get(40..40 + length)?;
    if packet[0] >> 4 != 6 {
        return None;
    }
    let (protocol, addresses) = (packet[6], &packet[8..40]);
    match protocol {
        17 if word(segment, 6)? == 0 => Some(false),
        6 | 17 | 58 => transport(protocol, addresses, segment),
        _ => Some(true),
    }
}

/// A checksum that covers the addresses, the protocol and the length too.
fn transport(protocol: u8, addresses: &[u8], segment: &[u8]) -> Option<bool> {
    let covered = if protocol == 17 { word(segment, 4)? as usize } else { segment.len() };
    let least = if protocol == 6 { 20 } else { 8 };
    if covered < least || covered > segment.len() {
        return None;
    }
    let mut bytes = addresses.to_vec();
    bytes.extend((covered as u32).to_be_bytes());
    bytes.extend([0, 0, 0, protocol]);
    bytes.extend(&segment[..covered]);
    if sum(&bytes) != 0xffff {
        return Some(false);
    }
    if protocol == 17 { inside(segment) } else { Some(true) }
}

/// What a UDP datagram carries, if that is a VXLAN frame.
fn inside(datagram: &[u8]) -> Option<bool> {
    if word(datagram, 2)? == 4789 { ethernet(datagram.get(16..)?) } else { Some(true) }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// The ones-complement sum of 16-bit words; 0xffff over data with its checksum in it.
fn sum(bytes: &[u8]) -> u32 {
    let mut total = 0u32;
    for pair in bytes.chunks(2) {
        total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        total = (total & 0xffff) + (total >> 16);
    }
    total
}

/// A UDP datagram over IPv4 whose checksums were computed by hand: 0x66cd and 0x835e.
#[cfg(test)]
const BY_HAND: &[u8] = &[
    2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, // Ethernet
    0x45, 0, 0, 30, 0, 0, 0, 0, 64, 17, 0x66, 0xcd, 10, 0, 0, 1, 10, 0, 0, 2, // IPv4
    0, 7, 0, 9, 0, 10, 0x83, 0x5e, 0x68, 0x69, // UDP, "hi"
];

#[test]
fn the_checker_finds_every_wrong_byte() {
    assert!(are_right(BY_HAND));
    // Sums cover everything behind the Ethernet header.
    for at in 14..BY_HAND.len() {
        let mut damaged = BY_HAND.to_vec();
        damaged[at] ^= 0x10;
        assert!(!are_right(&damaged), "byte {at}");
    }
    assert!(!are_right(&BY_HAND[..BY_HAND.len() - 1]));
}
