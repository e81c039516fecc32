//! Random packets with right checksums, and a check of checksums from scratch: for comparing
//! directors.

use super::checksum::{fold, sum};
use super::packet::{Cover, Packet};
use super::{Address, Vip, bytes};
use crate::rng::Rng;

/// A packet to or from some address; what its checksums are computed over comes from the packet
/// alone.
pub fn frame(rng: &mut Rng, vips: &[Vip], egress: bool) -> Vec<u8> {
    let vip = &vips[rng.below(vips.len() as u32) as usize];
    let six = !vip.address.is_ipv4();
    let other: Vec<u8> = (0..if six { 16 } else { 4 }).map(|_| rng.bits() as u8).collect();
    let served = bytes(if egress { &vip.host_address } else { &vip.address });
    // One in eight is for somebody else.
    let served = if rng.below(8) == 0 { other.iter().map(|byte| !byte).collect() } else { served };
    let (from, to) = if egress { (served, other) } else { (other, served) };
    let protocol = [6, 6, 17, 17, 17, if six { 58 } else { 1 }, 132][rng.below(7) as usize];
    let fourth_bytes = rng.below(200) as usize;
    let mut fourth: Vec<u8> = (0..20 + fourth_bytes).map(|_| rng.bits() as u8).collect();
    let fragment = match rng.below(8) {
        0 => [0x2000u16, 0x2010, 0x0010][rng.below(3) as usize],
        _ => 0,
    };
    let mut frame: Vec<u8> = (0..12).map(|_| rng.bits() as u8).collect();
    for _ in 0..rng.below(3) {
        frame.extend([0x81, 0x00, rng.bits() as u8, rng.bits() as u8]);
    }
    let first = fragment & 0x1fff == 0;
    if first {
        checksum_fourth(rng, &mut fourth, protocol, &from, &to, six);
    }
    if six {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        let options = rng.below(3) as usize;
        let mut next: Vec<u8> = vec![60; options];
        if fragment != 0 {
            next.push(44);
        }
        next.push(protocol);
        let extensions = next.len() - 1;
        frame.extend(((fourth.len() + 8 * extensions) as u16).to_be_bytes());
        frame.extend([next[0], 64]);
        frame.extend(from);
        frame.extend(to);
        for at in 0..extensions {
            let more = u16::from(fragment & 0x2000 != 0);
            let place = if next[at] == 44 { ((fragment & 0x1fff) << 3) | more } else { 0x0104 };
            frame.extend([next[at + 1], 0]);
            frame.extend(place.to_be_bytes());
            frame.extend([0; 4]);
        }
    } else {
        frame.extend([0x08, 0x00]);
        let ip = frame.len();
        let options = 4 * rng.below(4) as usize;
        frame.extend([0x45 + (options / 4) as u8, 0]);
        frame.extend(((20 + options + fourth.len()) as u16).to_be_bytes());
        frame.extend([rng.bits() as u8, rng.bits() as u8]);
        frame.extend(fragment.to_be_bytes());
        frame.extend([64, protocol, 0, 0]);
        frame.extend(from);
        frame.extend(to);
        frame.extend((0..options).map(|_| 1));
        let header = !fold(sum(&frame[ip..]));
        frame[ip + 10..ip + 12].copy_from_slice(&header.to_be_bytes());
    }
    frame.extend(fourth);
    // Some are cut off somewhere.
    if rng.below(64) == 0 {
        frame.truncate(14 + rng.below(frame.len() as u32 - 14) as usize);
    }
    frame
}

fn checksum_fourth(
    rng: &mut Rng,
    fourth: &mut [u8],
    protocol: u8,
    from: &[u8],
    to: &[u8],
    six: bool,
) {
    let at = match protocol {
        6 => 16,
        17 => 6,
        58 => 2,
        _ => return,
    };
    // A third of the sums are 0 or 0xffff: where the special cases are.
    fourth[at..at + 2].fill(0);
    let pseudo = sum(from) + sum(to) + u64::from(protocol) + fourth.len() as u64;
    if rng.below(3) == 0 {
        fourth[8..10].fill(0);
        let rest = fold(pseudo + sum(fourth));
        let wanted = !rest.wrapping_sub(rng.below(2) as u16);
        fourth[8..10].copy_from_slice(&wanted.to_be_bytes());
    }
    let value = !fold(pseudo + sum(fourth));
    let value = match protocol {
        17 if !six && rng.below(5) == 0 => 0,
        17 if value == 0 => 0xffff,
        _ => value,
    };
    fourth[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// True if all checksums of a whole packet are right, computed from scratch; those of fragments
/// cannot be.
pub fn checksums_are_right(frame: &[u8]) -> bool {
    let Some(packet) = Packet::find(frame) else { return true };
    if !packet.version6 {
        let length = usize::from(frame[packet.ip] & 15) * 4;
        if fold(sum(&frame[packet.ip..packet.ip + length])) != 0xffff {
            return false;
        }
    }
    let at = match packet.cover {
        Cover::Always(at) => at,
        Cover::Udp(at) if frame[at..at + 2] != [0, 0] => at,
        _ => return true,
    };
    if packet.fragment {
        return true;
    }
    let start = at
        - match packet.protocol {
            6 => 16,
            17 => 6,
            _ => 2,
        };
    let (from, to) = packet.addresses();
    let size = packet.address_bytes();
    let fourth = &frame[start..];
    let pseudo = sum(&frame[from..from + size]) + sum(&frame[to..to + size]);
    fold(pseudo + u64::from(packet.protocol) + fourth.len() as u64 + sum(fourth)) == 0xffff
}

/// The address of the other side of a served one, for a frame that may have been rewritten.
pub fn destination(frame: &[u8]) -> Option<Address> {
    let packet = Packet::find(frame)?;
    let (_, to) = packet.addresses();
    Some(match packet.version6 {
        true => Address::from(<[u8; 16]>::try_from(&frame[to..to + 16]).ok()?),
        false => Address::from(<[u8; 4]>::try_from(&frame[to..to + 4]).ok()?),
    })
}
