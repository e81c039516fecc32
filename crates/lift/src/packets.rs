//! Packets that a program tells apart: usual headers, cut and changed by numbers that the program
//! itself compares with.

use nicforge_isa::ebpf::insn::{LDDW, class};
use nicforge_isa::object::Program;
use nicforge_util::checksum::{fold, sum};
use nicforge_util::random::Random;

/// Longest packet that is made.
const LONGEST: u64 = 400;

/// Makes `count` packets; always the same ones for a program.
pub fn packets(program: &Program, count: usize) -> Vec<Vec<u8>> {
    let numbers = numbers(program);
    let mut random = Random::new(program.insns.len() as u64);
    let mut made = Vec::with_capacity(count);
    for nth in 0..count {
        let mut packet = whole(&mut random);
        // The first ones are as they should be.
        if nth >= 16 {
            for _ in 0..random.below(4) {
                change(&mut packet, &numbers, &mut random);
            }
            if random.below(4) == 0 {
                packet.truncate(14 + random.index(packet.len() - 13));
            }
        }
        made.push(packet);
    }
    made
}

/// Numbers that instructions name.
fn numbers(program: &Program) -> Vec<u64> {
    let mut found = Vec::new();
    for insn in &program.insns {
        let compares = matches!(insn.code & 7, class::JMP | class::JMP32);
        if (compares || insn.code == LDDW) && insn.imm != 0 {
            found.push(insn.imm as u32 as u64);
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn change(packet: &mut [u8], numbers: &[u64], random: &mut Random) {
    let at = random.index(packet.len().min(90));
    let number = if numbers.is_empty() { 0 } else { random.pick(numbers) };
    let (value, bytes): (u64, usize) = match random.below(6) {
        0 => (random.next(), 1),
        1 => (number, 1),
        2 => (number, 2),
        3 => (u64::from((number as u16).swap_bytes()), 2),
        4 => (number, 4),
        _ => (u64::from((number as u32).swap_bytes()), 4),
    };
    for (byte, new) in packet[at..].iter_mut().zip(&value.to_le_bytes()[..bytes]) {
        *byte = *new;
    }
}

/// A packet with headers as they should be, of one of a few hosts.
fn whole(random: &mut Random) -> Vec<u8> {
    let mut packet = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, random.below(3) as u8];
    for _ in 0..random.below(5).saturating_sub(2) {
        packet.extend([0x81, 0x00, 0, random.below(8) as u8]);
    }
    let payload = random.below(LONGEST - 150) as usize;
    match random.below(8) {
        0 => {
            packet.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
            packet.extend((0..20).map(|_| random.below(4) as u8));
        }
        1 | 2 => {
            packet.extend([0x86, 0xdd]);
            let next = random.pick(&[6, 17, 58, 0, 4, 41, 43, 43]);
            ipv6(&mut packet, next, payload, random);
            let next = if next == 43 { routing(&mut packet, random) } else { next };
            match next {
                4 => ipv4(&mut packet, 17, payload, random),
                41 => ipv6(&mut packet, 17, payload, random),
                _ => {}
            }
            transport(&mut packet, if matches!(next, 4 | 41) { 17 } else { next }, payload, random);
        }
        _ => {
            packet.extend([8, 0]);
            let next = random.pick(&[6, 6, 17, 17, 1, 4, 47, 50]);
            ipv4(&mut packet, next, payload, random);
            if next == 4 {
                ipv4(&mut packet, 17, payload, random);
            }
            transport(&mut packet, next, payload, random);
        }
    }
    packet.resize(packet.len().max(14), 0);
    packet
}

fn ipv6(packet: &mut Vec<u8>, next: u8, payload: usize, random: &mut Random) {
    packet.extend([0x60, 0, 0, 0, (payload >> 8) as u8, payload as u8, next, 64]);
    for host in [1, 2] {
        address(packet, host, random);
    }
}

fn address(packet: &mut Vec<u8>, host: u8, random: &mut Random) {
    packet.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    packet.push(random.below(4) as u8);
}

/// A list of segments (RFC 8754); gives what follows it.
fn routing(packet: &mut Vec<u8>, random: &mut Random) -> u8 {
    let (next, segments) = (random.pick(&[41, 41, 4, 17]), 1 + random.below(3) as u8);
    let left = random.below(2).min(u64::from(segments) - 1) as u8;
    packet.extend([next, 2 * segments, 4, left, segments - 1, 0, 0, 0]);
    for _ in 0..segments {
        address(packet, 2, random);
    }
    next
}

fn ipv4(packet: &mut Vec<u8>, next: u8, payload: usize, random: &mut Random) {
    let total = payload + 40;
    let start = packet.len();
    packet.extend([0x45, 0, (total >> 8) as u8, total as u8, 0, 1, 0x40, 0, 64, next, 0, 0]);
    packet.extend([10, 0, 0, random.below(4) as u8, 10, 0, 1, random.below(4) as u8]);
    let sum = !fold(sum(&packet[start..]));
    packet[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
}

fn transport(packet: &mut Vec<u8>, next: u8, payload: usize, random: &mut Random) {
    let ports = [80u16, 443, 53, 22, 4789, 11211, 1234, 9, 7];
    let (from, to) = (random.pick(&ports), random.pick(&ports));
    match next {
        6 => {
            packet.extend(from.to_be_bytes());
            packet.extend(to.to_be_bytes());
            packet.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, random.below(64) as u8]);
            packet.extend([0xff, 0xff, 0x12, 0x34, 0, 0]);
        }
        17 => {
            packet.extend(from.to_be_bytes());
            packet.extend(to.to_be_bytes());
            packet.extend([((payload + 8) >> 8) as u8, (payload + 8) as u8, 0x12, 0x34]);
        }
        1 | 58 => {
            let kind = random.pick(&[8, 0, 3, 128, 129, 135]);
            packet.extend([kind, 0, 0x12, 0x34, 0, 1, 0, random.below(4) as u8]);
        }
        _ => packet.extend([0, 0, 8, 0]),
    }
    packet.extend((0..payload).map(|at| at as u8));
}
