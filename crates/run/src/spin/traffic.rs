//! Frames for handlers, made up: PsPIN's packets, which start at IP, or Ethernet with ICMP, UDP or
//! SLMP.

use nicforge_ir::io::checksum_add;
use nicforge_spin::matching::Matched;
use nicforge_spin::nic::Arrival;

/// Traffic: kinds of generated frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// An IP header as PsPIN's drivers write it: header length in the high half of its first byte,
    /// lengths in the machine's order.
    Pspin,
    /// ICMP echo requests.
    Icmp,
    Udp,
    /// UDP to port 9330 with message number, offset and flags.
    Slmp,
}

/// A load: how many, how large, how fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    pub traffic: Traffic,
    pub messages: u32,
    /// Of each message.
    pub packets: u32,
    /// Bytes of a frame.
    pub bytes: usize,
    /// Cycles between two packets, and between the last of a message and the first of the next.
    pub packet_delay: u64,
    pub message_delay: u64,
}

impl Traffic {
    /// Bytes of all headers: no frame is shorter.
    pub fn least(self) -> usize {
        match self {
            Traffic::Pspin => 28,
            Traffic::Icmp | Traffic::Udp => 42,
            Traffic::Slmp => 52,
        }
    }
}

/// The load's frames with their times in cycles and the messages they belong to. Payload bytes
/// count up.
pub fn generate(load: &Load) -> Vec<Arrival> {
    let mut time = 0;
    let mut arrivals = Vec::new();
    for message in 0..load.messages {
        for packet in 0..load.packets {
            let last = packet + 1 == load.packets;
            let user = arrivals.len() as u64;
            let matched = Some(Matched { context: 0, message, last });
            let frame = frame(load, message, packet, last);
            arrivals.push(Arrival { time, frame, matched, copied: None, user });
            time += if last { load.message_delay } else { load.packet_delay };
        }
    }
    arrivals
}

/// Why a trace cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line}: {reason}; a trace begins with `SOURCES PACKETS LARGEST`, then each line is `SOURCE TARGET BYTES GAP MESSAGE LAST`"
)]
pub struct TraceError {
    pub line: usize,
    pub reason: String,
}

/// Packets of a trace as PsPIN's drivers replay: bytes, cycles to the next packet, message and
/// whether it is its last (1) or not (0); a line of 0 bytes only waits. The first line's counts
/// must be right. Frames are filled as [`generate`] does.
///
/// # Errors
/// The first line that is wrong.
pub fn read_trace(text: &str, traffic: Traffic) -> Result<Vec<Arrival>, TraceError> {
    let wrong = |line: usize, reason: String| Err(TraceError { line: line + 1, reason });
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let Some((_, head)) = lines.next() else { return wrong(0, "the file is empty".to_string()) };
    let head: Vec<u64> = head.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let [_, count, largest] = head[..] else {
        return wrong(0, "there are no three numbers".to_string());
    };
    let (mut time, mut seen, mut arrivals) = (0u64, 0, Vec::new());
    for (at, line) in lines {
        seen += 1;
        let words: Vec<&str> = line.split_whitespace().collect();
        let numbers: Vec<u32> = words.iter().skip(2).map_while(|word| word.parse().ok()).collect();
        let [bytes, gap, message, last] = numbers[..] else {
            return wrong(at, "there are no two names and four numbers".to_string());
        };
        if bytes > 0 {
            if u64::from(bytes) > largest || (bytes as usize) < traffic.least() || bytes > 65_535 {
                let least = traffic.least();
                return wrong(
                    at,
                    format!("{bytes} bytes; packets here have {least} to {}", largest.min(65_535)),
                );
            }
            let load = Load {
                traffic,
                messages: 1,
                packets: 1,
                bytes: bytes as usize,
                packet_delay: 0,
                message_delay: 0,
            };
            let matched = Some(Matched { context: 0, message, last: last != 0 });
            let frame = frame(&load, message, 0, last != 0);
            arrivals.push(Arrival {
                time,
                frame,
                matched,
                copied: None,
                user: arrivals.len() as u64,
            });
        }
        time += u64::from(gap);
    }
    match seen == count {
        true => Ok(arrivals),
        false => wrong(0, format!("it announces {count} lines and there are {seen}")),
    }
}

fn frame(load: &Load, message: u32, packet: u32, last: bool) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..load.bytes).map(|at| at as u8).collect();
    let bytes = load.bytes as u16;
    if load.traffic == Traffic::Pspin {
        frame[..28].fill(0);
        frame[0] = 5 << 4;
        frame[2..4].copy_from_slice(&bytes.to_le_bytes());
        frame[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        return frame;
    }
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[8, 0]);
    let protocol = if load.traffic == Traffic::Icmp { 1 } else { 17 };
    frame[14..34].copy_from_slice(&[
        0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ]);
    frame[16..18].copy_from_slice(&(bytes - 14).to_be_bytes());
    let sum = checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum);
    match load.traffic {
        Traffic::Icmp => {
            frame[34..42].copy_from_slice(&[8, 0, 0, 0, 0, message as u8, 0, packet as u8]);
            let sum = checksum(&frame[34..]);
            frame[36..38].copy_from_slice(&sum);
        }
        _ => {
            let port: u16 = if load.traffic == Traffic::Slmp { 9330 } else { 7 };
            frame[34..36].copy_from_slice(&(40_000 + message as u16).to_be_bytes());
            frame[36..38].copy_from_slice(&port.to_be_bytes());
            frame[38..40].copy_from_slice(&(bytes - 34).to_be_bytes());
            frame[40..42].fill(0);
        }
    }
    if load.traffic == Traffic::Slmp {
        let flags: u16 = if last { 0xc000 } else { 0x4000 };
        frame[42..44].copy_from_slice(&flags.to_be_bytes());
        frame[44..48].copy_from_slice(&message.to_le_bytes());
        frame[48..52].copy_from_slice(&(packet * (u32::from(bytes) - 52)).to_be_bytes());
    }
    frame
}

fn checksum(bytes: &[u8]) -> [u8; 2] {
    (!(checksum_add(0, bytes) as u16)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_what_a_receiver_takes() {
        let load = |traffic| Load {
            traffic,
            messages: 2,
            packets: 3,
            bytes: 101,
            packet_delay: 20,
            message_delay: 40,
        };
        for traffic in [Traffic::Icmp, Traffic::Udp, Traffic::Slmp] {
            for arrival in generate(&load(traffic)) {
                assert_eq!(checksum_add(0, &arrival.frame[14..34]) as u16, 0xffff, "IP header");
                if traffic == Traffic::Icmp {
                    assert_eq!(checksum_add(0, &arrival.frame[34..]) as u16, 0xffff);
                }
                if traffic == Traffic::Slmp {
                    let engine = nicforge_spin::matching::Engine {
                        rulesets: [Some(nicforge_spin::matching::Ruleset::SLMP), None, None, None],
                        ..Default::default()
                    };
                    assert_eq!(engine.find(&arrival.frame), arrival.matched);
                }
            }
        }
        let times: Vec<u64> =
            generate(&load(Traffic::Pspin)).iter().map(|arrival| arrival.time).collect();
        assert_eq!(times, [0, 20, 40, 80, 100, 120]);
    }

    #[test]
    fn traces_are_read_or_refused_with_the_line() {
        let text = "2 4 1024\na b 64 10 7 0\na b 0 100 0 0\nc b 1024 5 8 1\na b 64 0 7 1\n";
        let arrivals = read_trace(text, Traffic::Pspin).unwrap();
        let seen: Vec<_> = arrivals
            .iter()
            .map(|arrival| {
                (arrival.time, arrival.frame.len(), arrival.matched.map(|m| (m.message, m.last)))
            })
            .collect();
        assert_eq!(
            seen,
            [(0, 64, Some((7, false))), (110, 1024, Some((8, true))), (115, 64, Some((7, true)))]
        );
        for (text, line, reason) in [
            ("", 1, "empty"),
            ("1 2", 1, "three numbers"),
            ("1 1 64\na b 64 0 1", 2, "four numbers"),
            ("1 1 64\na b 65 0 1 1", 2, "65 bytes"),
            ("1 1 64\na b 20 0 1 1", 2, "20 bytes"),
            ("1 2 64\na b 64 0 1 1", 1, "announces 2 lines and there are 1"),
            ("1 1 64\na b -1 0 1 1", 2, "four numbers"),
        ] {
            let error = read_trace(text, Traffic::Pspin).unwrap_err();
            assert_eq!(error.line, line, "{text}");
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
}
