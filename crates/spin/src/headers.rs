//! Where a frame's headers really lie, and rules on their fields.
//!
//! The hardware looks at fixed bytes, which are others' as soon as there is a VLAN tag, an IPv4
//! option or an IPv6 extension header. [`Headers::read`] walks the chain: up to two tags, IPv4 or
//! IPv6, up to eight extension headers, ports of TCP, UDP and SCTP, payload of TCP and UDP. What is
//! cut off, encrypted, or not in this fragment is absent, and a rule on an absent field does not
//! match. Bytes behind the IP packet's length are padding and belong to nobody. Cost: a few reads a
//! header, whatever the frame.
//!
//! Source: IEEE 802.1Q, RFC 791, RFC 8200 section 4, RFC 4302 section 2.2 (authentication header).

/// Tags that are looked through.
const TAGS: usize = 2;
/// Extension headers that are looked through; RFC 8200 has each kind once, destination options
/// twice.
const EXTENSIONS: usize = 8;

/// A part of a frame that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Number of the outer VLAN.
    Vlan,
    /// What the tags, if any, are before.
    EtherType,
    /// Addresses of IPv4 or IPv6; the former are numbers below 2^32.
    Source,
    Destination,
    /// What follows IP and its extension headers.
    Protocol,
    SourcePort,
    DestinationPort,
    /// Four bytes behind the UDP or TCP header, from an offset on, in network order.
    Payload(u16),
}

/// Compares a field under a mask with a range, ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    pub field: Field,
    pub mask: u128,
    pub start: u128,
    pub end: u128,
}

impl Rule {
    /// Matches one value.
    pub const fn equal(field: Field, value: u128) -> Rule {
        Rule { field, mask: u128::MAX, start: value, end: value }
    }

    /// True if the frame with these headers has such a field.
    pub fn hits(&self, headers: &Headers) -> bool {
        let value = headers.get(self.field).map(|value| value & self.mask);
        value.is_some_and(|value| (self.start..=self.end).contains(&value))
    }
}

/// Headers found in a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers<'a> {
    pub vlan: Option<u16>,
    pub ether_type: Option<u16>,
    pub source: Option<u128>,
    pub destination: Option<u128>,
    pub protocol: Option<u8>,
    /// Source and destination.
    pub ports: Option<(u16, u16)>,
    /// Behind the UDP or TCP header, without padding.
    pub payload: Option<&'a [u8]>,
}

impl Headers<'_> {
    /// The headers of an Ethernet frame, as far as it has them.
    pub fn read(frame: &[u8]) -> Headers<'_> {
        let mut found = Headers::default();
        let mut at = 12;
        let mut kind = number::<2>(frame, at);
        for _ in 0..TAGS {
            if !matches!(kind, Some(0x8100 | 0x88a8)) {
                break;
            }
            let tag = number::<2>(frame, at + 2).map(|tag| (tag & 0xfff) as u16);
            found.vlan = found.vlan.or(tag);
            at += 4;
            kind = number::<2>(frame, at);
        }
        found.ether_type = kind.map(|kind| kind as u16);
        let packet = frame.get(at + 2..).unwrap_or_default();
        let inner = match kind {
            Some(0x0800) => found.ipv4(packet),
            Some(0x86dd) => found.ipv6(packet),
            _ => None,
        };
        if let Some(segment) = inner {
            found.transport(segment);
        }
        found
    }

    /// A field's value.
    pub fn get(&self, field: Field) -> Option<u128> {
        match field {
            Field::Vlan => self.vlan.map(u128::from),
            Field::EtherType => self.ether_type.map(u128::from),
            Field::Source => self.source,
            Field::Destination => self.destination,
            Field::Protocol => self.protocol.map(u128::from),
            Field::SourcePort => self.ports.map(|(port, _)| port.into()),
            Field::DestinationPort => self.ports.map(|(_, port)| port.into()),
            Field::Payload(offset) => number::<4>(self.payload?, offset.into()),
        }
    }
}

impl<'a> Headers<'a> {
    /// Headers in IPv4, if this is its beginning.
    fn ipv4(&mut self, packet: &'a [u8]) -> Option<&'a [u8]> {
        let first = *packet.first()?;
        let header = usize::from(first & 15) * 4;
        if first >> 4 != 4 || header < 20 || packet.len() < header {
            return None;
        }
        self.source = number::<4>(packet, 12);
        self.destination = number::<4>(packet, 16);
        self.protocol = packet.get(9).copied();
        let fragment = number::<2>(packet, 6)? & 0x1fff;
        let length = number::<2>(packet, 2)? as usize;
        if fragment != 0 { None } else { packet.get(header..length.min(packet.len())) }
    }

    /// Headers in IPv6 and its extension headers, if this is its beginning.
    fn ipv6(&mut self, packet: &'a [u8]) -> Option<&'a [u8]> {
        if packet.first()? >> 4 != 6 || packet.len() < 40 {
            return None;
        }
        self.source = number::<16>(packet, 8);
        self.destination = number::<16>(packet, 24);
        let mut next = packet[6];
        let length = number::<2>(packet, 4)? as usize;
        let mut rest = &packet[40..(40 + length).min(packet.len())];
        for _ in 0..=EXTENSIONS {
            let bytes = match next {
                // Hop by hop, routing, destination options, mobility, host identity, shim.
                0 | 43 | 60 | 135 | 139 | 140 => (usize::from(*rest.get(1)?) + 1) * 8,
                // Behind the header of a later fragment lies data, whatever its first header was.
                44 if number::<2>(rest, 2)? >> 3 != 0 => {
                    self.protocol = rest.first().copied();
                    return None;
                }
                44 => 8,
                51 => (usize::from(*rest.get(1)?) + 2) * 4,
                _ => {
                    self.protocol = Some(next);
                    return Some(rest);
                }
            };
            next = *rest.first()?;
            rest = rest.get(bytes..)?;
        }
        None
    }

    fn transport(&mut self, segment: &'a [u8]) {
        let Some(protocol @ (6 | 17 | 132)) = self.protocol else { return };
        let (Some(source), Some(destination)) = (number::<2>(segment, 0), number::<2>(segment, 2))
        else {
            return;
        };
        self.ports = Some((source as u16, destination as u16));
        self.payload = match protocol {
            17 => number::<2>(segment, 4).and_then(|length| {
                // Zero is the length of a jumbogram, whose end is that of the packet.
                let end =
                    if length == 0 { segment.len() } else { segment.len().min(length as usize) };
                segment.get(8..end)
            }),
            6 => segment
                .get(12)
                .map(|at| usize::from(at >> 4) * 4)
                .filter(|&at| at >= 20)
                .and_then(|at| segment.get(at..)),
            _ => None,
        };
    }
}

/// `N` bytes in network order, if the frame has them.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u128> {
    let bytes = bytes.get(at..at.checked_add(N)?)?;
    Some(bytes.iter().fold(0, |value, byte| value << 8 | u128::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UDP: [u8; 14] = [0x12, 0x34, 0x24, 0x72, 0, 14, 0, 0, 1, 2, 3, 4, 5, 6];

    fn ethernet(tags: &[[u8; 4]], kind: [u8; 2], packet: &[u8]) -> Vec<u8> {
        [&[0xee; 12], tags.concat().as_slice(), &kind, packet].concat()
    }

    fn ipv4(options: &[u8], protocol: u8, segment: &[u8]) -> Vec<u8> {
        let length = (20 + options.len() + segment.len()) as u8;
        let first = 0x45 + options.len() as u8 / 4;
        let head = [first, 0, 0, length, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        [&head, options, segment].concat()
    }

    fn ipv6(next: u8, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, rest.len() as u8, next, 64];
        packet.extend([[0xa; 16], [0xb; 16]].concat());
        packet.extend(rest);
        packet
    }

    fn assert_udp(frame: &[u8]) {
        let headers = Headers::read(frame);
        assert_eq!(headers.protocol, Some(17));
        assert_eq!(headers.ports, Some((0x1234, 9330)));
        assert_eq!(headers.payload, Some(&[1, 2, 3, 4, 5, 6][..]));
        assert_eq!(headers.get(Field::Payload(2)), Some(0x0304_0506));
        assert_eq!(headers.get(Field::Payload(3)), None, "one byte too few");
    }

    #[test]
    fn options_tags_and_padding_are_looked_through() {
        let plain = ethernet(&[], [8, 0], &ipv4(&[], 17, &UDP));
        assert_udp(&plain);
        assert_udp(&[&plain[..], &[0; 20]].concat());
        assert_udp(&ethernet(&[], [8, 0], &ipv4(&[1; 40], 17, &UDP)));
        let tagged =
            ethernet(&[[0x88, 0xa8, 0x30, 7], [0x81, 0, 0, 9]], [8, 0], &ipv4(&[1; 4], 17, &UDP));
        assert_udp(&tagged);
        let headers = Headers::read(&tagged);
        assert_eq!((headers.vlan, headers.ether_type), (Some(7), Some(0x800)));
        assert_eq!((headers.source, headers.destination), (Some(0x0a00_0001), Some(0x0a00_0002)));
        let three = ethernet(&[[0x81, 0, 0, 9]; 3], [8, 0], &ipv4(&[], 17, &UDP));
        assert_eq!(Headers::read(&three).protocol, None);
    }

    #[test]
    fn extension_headers_are_looked_through() {
        let hop = [60, 0, 1, 4, 0, 0, 0, 0];
        let options = [[51, 1].as_slice(), &[0; 14]].concat();
        let authentication = [[44, 4].as_slice(), &[9; 22]].concat();
        let fragment = [17, 0, 0, 1, 0, 0, 0, 1];
        let rest = [&hop[..], &options, &authentication, &fragment, &UDP].concat();
        let frame = ethernet(&[[0x81, 0, 0, 9]], [0x86, 0xdd], &ipv6(0, &rest));
        assert_udp(&frame);
        assert_eq!(Headers::read(&frame).destination, Some(u128::from_be_bytes([0xb; 16])));
        for length in 0..frame.len() {
            assert_ne!(Headers::read(&frame[..length]), Headers::read(&frame), "{length}");
        }
        let many =
            [[60, 0, 1, 4, 0, 0, 0, 0].repeat(8), [17, 0, 1, 4, 0, 0, 0, 0].to_vec(), UDP.to_vec()]
                .concat();
        assert_eq!(Headers::read(&ethernet(&[], [0x86, 0xdd], &ipv6(60, &many))).protocol, None);
        assert_udp(&ethernet(&[], [0x86, 0xdd], &ipv6(60, &many[8..])));
    }

    #[test]
    fn later_fragments_and_encrypted_packets_have_no_ports() {
        let mut later = ethernet(&[], [8, 0], &ipv4(&[], 17, &UDP));
        later[21] = 1;
        let headers = Headers::read(&later);
        assert_eq!((headers.protocol, headers.ports, headers.payload), (Some(17), None, None));
        let fragment = [&[17, 0, 0, 8, 0, 0, 0, 1], &UDP[..]].concat();
        let frame = ethernet(&[], [0x86, 0xdd], &ipv6(44, &fragment));
        let headers = Headers::read(&frame);
        assert_eq!((headers.protocol, headers.ports), (Some(17), None));
        let frame = ethernet(&[], [0x86, 0xdd], &ipv6(50, &UDP));
        let headers = Headers::read(&frame);
        assert_eq!((headers.protocol, headers.ports), (Some(50), None));
    }

    #[test]
    fn tcp_has_options_and_lengths_bound_payloads() {
        let mut tcp = [0; 28];
        (tcp[3], tcp[12], tcp[24]) = (80, 0x60, 0xab);
        let frame = ethernet(&[], [8, 0], &ipv4(&[], 6, &tcp));
        let headers = Headers::read(&frame);
        assert!(Rule::equal(Field::Payload(0), 0xab00_0000).hits(&headers));
        assert!(Rule::equal(Field::DestinationPort, 80).hits(&headers));
        let mut frame = frame;
        frame[14] = 0x44;
        assert_eq!(Headers::read(&frame).protocol, None, "no IPv4 header is that short");
        let mut short = UDP;
        short[5] = 10;
        let frame = ethernet(&[], [8, 0], &ipv4(&[], 17, &short));
        assert_eq!(Headers::read(&frame).payload, Some(&[1, 2][..]));
        short[5] = 7;
        let frame = ethernet(&[], [8, 0], &ipv4(&[], 17, &short));
        assert_eq!(Headers::read(&frame).payload, None, "less than its own header");
    }

    #[test]
    fn absent_fields_match_no_rule() {
        let everything = |field| Rule { field, mask: 0, start: 0, end: u128::MAX };
        let headers = Headers::read(&[0; 13]);
        for field in
            [Field::Vlan, Field::EtherType, Field::Source, Field::SourcePort, Field::Payload(0)]
        {
            assert!(!everything(field).hits(&headers));
        }
        let ports = Rule { field: Field::DestinationPort, mask: 0xffff, start: 9000, end: 9330 };
        assert!(ports.hits(&Headers::read(&ethernet(&[], [8, 0], &ipv4(&[], 17, &UDP)))));
    }
}
