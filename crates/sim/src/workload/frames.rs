//! Frames that flows are made of: conversations of a capture, or plain ones, rewritten so that
//! every flow is another.

use nicforge_util::checksum::fold;
use std::collections::HashMap;

/// Where things are in a frame of IPv4 without tags.
const ETH: usize = 14;
const SOURCE: usize = 26;
const SOURCE_PORT: usize = 34;
const DESTINATION: usize = 30;
const DESTINATION_PORT: usize = 36;
const IP_CHECKSUM: usize = 24;

/// Bytes of a frame that are changed from flow to flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewrite {
    /// Address and port of the side that spoke first.
    Both,
    /// Its port.
    Port,
    Nothing,
}

/// A frame of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pub port: u32,
    pub frame: Vec<u8>,
    /// It goes to the side that spoke first: what is rewritten is the destination.
    pub answer: bool,
}

/// Frames that belong together, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    pub frames: Vec<Template>,
    pub rewrite: Rewrite,
}

/// All conversations that flows are taken from; flow `k` is a copy of number `k` modulo their
/// count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Templates {
    pub conversations: Vec<Conversation>,
}

impl Templates {
    /// Groups the frames of a capture, given with their ports, by the addresses and ports of both
    /// sides. A frame that is no plain IPv4 is a conversation of its own.
    pub fn of_capture(frames: &[(u32, Vec<u8>)]) -> Templates {
        let mut conversations: Vec<(Conversation, [u8; 12])> = Vec::new();
        let mut known: HashMap<(u8, [u8; 12]), usize> = HashMap::new();
        for (port, frame) in frames {
            let mut template = Template { port: *port, frame: frame.clone(), answer: false };
            let Some(ends) = ends(frame) else {
                let frames = vec![template];
                conversations.push((Conversation { frames, rewrite: Rewrite::Nothing }, [0; 12]));
                continue;
            };
            let mut turned = [0; 12];
            for (to, from) in [(0, 4), (4, 0)] {
                turned[to..to + 4].copy_from_slice(&ends[from..from + 4]);
            }
            for (to, from) in [(8, 10), (10, 8)] {
                turned[to..to + 2].copy_from_slice(&ends[from..from + 2]);
            }
            let protocol = frame[ETH + 9];
            let at = known.get(&(protocol, ends)).or_else(|| known.get(&(protocol, turned)));
            match at.copied() {
                Some(at) => {
                    template.answer = conversations[at].1 != ends;
                    conversations[at].0.frames.push(template);
                }
                None => {
                    known.insert((protocol, ends), conversations.len());
                    let frames = vec![template];
                    conversations.push((Conversation { frames, rewrite: Rewrite::Both }, ends));
                }
            }
        }
        Templates {
            conversations: conversations
                .into_iter()
                .map(|(conversation, _)| conversation)
                .collect(),
        }
    }

    /// One conversation of one frame from 10.0.0.1 to 10.128.0.1.
    pub fn plain(tcp: bool) -> Templates {
        let frames = vec![Template { port: 0, frame: plain(tcp, 60), answer: false }];
        Templates { conversations: vec![Conversation { frames, rewrite: Rewrite::Both }] }
    }
}

/// Addresses and ports of a whole IPv4 packet of TCP or UDP without options or tags.
fn ends(frame: &[u8]) -> Option<[u8; 12]> {
    let usual = frame.len() >= ETH + 28 && frame[12..ETH] == [8, 0] && frame[ETH] == 0x45;
    let whole = usual && u16::from_be_bytes([frame[20], frame[21]]) & 0x3fff == 0;
    if !whole || !matches!(frame[ETH + 9], 6 | 17) {
        return None;
    }
    frame[SOURCE..SOURCE + 12].try_into().ok()
}

/// A frame of IPv4 with TCP or UDP and a payload of zeros.
pub fn plain(tcp: bool, bytes: u32) -> Vec<u8> {
    let mut frame = vec![0u8; (bytes as usize).max(54)];
    frame[..ETH].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    frame[ETH] = 0x45;
    frame[ETH + 8] = 64;
    frame[ETH + 9] = if tcp { 6 } else { 17 };
    frame[SOURCE..SOURCE + 4].copy_from_slice(&[10, 0, 0, 1]);
    frame[DESTINATION..DESTINATION + 4].copy_from_slice(&[10, 128, 0, 1]);
    frame[SOURCE_PORT..SOURCE_PORT + 4].copy_from_slice(&[0x10, 0, 0, 80]);
    if tcp {
        frame[46] = 5 << 4;
        frame[47] = 0x10;
        frame[48..50].copy_from_slice(&[0xff, 0xff]);
    }
    resize(&frame, bytes)
}

/// The frame with another length: payload is cut or filled with zeros, lengths and checksums
/// follow. What is no plain IPv4, or would lose headers, keeps its length.
pub fn resize(frame: &[u8], bytes: u32) -> Vec<u8> {
    let bytes = bytes as usize;
    if ends(frame).is_none() {
        return frame.to_vec();
    }
    let tcp = frame[ETH + 9] == 6;
    let headers = match frame.get(46) {
        Some(offset) if tcp => 34 + usize::from(*offset >> 4) * 4,
        _ => 42,
    };
    // Bytes behind the packet are padding of the link.
    let packet = ETH + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
    if bytes < headers || frame.len() < headers || headers < if tcp { 54 } else { 42 } {
        return frame.to_vec();
    }
    let mut out = frame[..packet.clamp(headers, frame.len())].to_vec();
    out.resize(bytes, 0);
    let length = (bytes - ETH) as u16;
    out[16..18].copy_from_slice(&length.to_be_bytes());
    out[IP_CHECKSUM..IP_CHECKSUM + 2].fill(0);
    let sum = !checksum(0, &out[ETH..34]);
    out[IP_CHECKSUM..IP_CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
    let at = if tcp { 50 } else { 40 };
    let without = !tcp && out[40..42] == [0, 0];
    if !tcp {
        out[38..40].copy_from_slice(&(length - 20).to_be_bytes());
    }
    if !without {
        out[at..at + 2].fill(0);
        let pseudo =
            checksum(u32::from(out[ETH + 9]) + u32::from(length - 20), &out[SOURCE..SOURCE + 8]);
        let sum = !checksum(u32::from(pseudo), &out[34..]);
        out[at..at + 2].copy_from_slice(&if sum == 0 { 0xffff } else { sum }.to_be_bytes());
    }
    out
}

fn checksum(sum: u32, bytes: &[u8]) -> u16 {
    nicforge_ir::io::checksum_add(sum, bytes) as u16
}

/// Makes a conversation's frame one of its copy number `copy`; 0 leaves it as it is.
pub fn rewrite(frame: &mut [u8], rewrite: Rewrite, answer: bool, copy: u32) {
    if copy == 0 || rewrite == Rewrite::Nothing {
        return;
    }
    let (address, port) =
        if answer { (DESTINATION, DESTINATION_PORT) } else { (SOURCE, SOURCE_PORT) };
    let low = copy as u16;
    match rewrite {
        // Address and port together tell 2^32 copies apart; both change from one copy to the next.
        Rewrite::Both => {
            change(frame, address + 2, low, true);
            change(frame, port, (copy >> 16) as u16 ^ (low & 0x0fff) << 2, false);
        }
        Rewrite::Port => change(frame, port, low, false),
        Rewrite::Nothing => {}
    }
}

/// Turns bits of a 16-bit word over and corrects the checksums (RFC 1624, equation 3).
fn change(frame: &mut [u8], at: usize, bits: u16, in_ip: bool) {
    let old = u16::from_be_bytes([frame[at], frame[at + 1]]);
    let new = old ^ bits;
    frame[at..at + 2].copy_from_slice(&new.to_be_bytes());
    let (l4, udp) = if frame[ETH + 9] == 6 { (50, false) } else { (40, true) };
    let mut correct = |at: usize, optional: bool| {
        let Some(field) = frame.get_mut(at..at + 2) else { return };
        let sum = u16::from_be_bytes([field[0], field[1]]);
        if optional && sum == 0 {
            return;
        }
        let total = u64::from(!sum) + u64::from(!old) + u64::from(new);
        field.copy_from_slice(&(!fold(total)).to_be_bytes());
    };
    if in_ip {
        correct(IP_CHECKSUM, false);
    }
    correct(l4, udp);
}
