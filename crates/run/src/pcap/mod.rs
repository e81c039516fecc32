//! Captures: reading and writing pcap, reading pcapng, and merging several captures into one stream
//! of events.
//!
//! The readers are our own because errors must name the byte offset and because time stamps must be
//! exact: the stable release of the usual crate takes every pcapng time stamp for nanoseconds
//! whatever the file says.

mod classic;
mod merge;
mod pcapng;

use std::path::{Path, PathBuf};

pub use classic::write;
pub use merge::{Source, SourceKind, event_seed, merge, parse_source};

use crate::fault::Fault;

/// Largest frame accepted. Longer lengths are damage: libpcap's own limit is the same.
pub const MAX_FRAME: u32 = 262_144;

/// Link type of Ethernet in both formats.
const LINKTYPE_ETHERNET: u32 = 1;

/// One captured frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Nanoseconds since 1970, as the capture says.
    pub time_ns: u64,
    pub data: Vec<u8>,
    /// Bytes the frame had on the wire; more than `data` has if the capture was cut short
    /// ("snapped").
    pub original_length: u32,
}

/// Mistakes in a capture.
#[derive(Debug, thiserror::Error)]
pub enum PcapError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error(
        "{path}: not a capture: the first bytes are {magic}, not those of pcap or pcapng; record one with \
         `tcpdump -w FILE` or convert with `editcap -F pcap`"
    )]
    NotACapture { path: PathBuf, magic: String },
    #[error("{path}: damaged at byte {offset}, in packet {packet} (counted from 1): {reason}")]
    Damaged { path: PathBuf, offset: usize, packet: usize, reason: String },
    #[error(
        "{path}: link type {link_type}{name} is not Ethernet (1); record on an Ethernet interface, not on `any`"
    )]
    LinkType { path: PathBuf, link_type: u32, name: &'static str },
    #[error(
        "{path}: packet {packet} was cut to {captured} of its {original} bytes ({count} such packets); record again \
         with `tcpdump -s 0`"
    )]
    Snapped { path: PathBuf, packet: usize, captured: usize, original: u32, count: usize },
    #[error("`{text}`: expected FILE, PORT=FILE or host=FILE{detail}")]
    Source { text: String, detail: String },
}

impl PcapError {
    /// Captures come from the user.
    pub fn fault(&self) -> Fault {
        Fault::User
    }
}

/// Reads a capture, pcap or pcapng, whatever its byte order and time resolution.
pub fn read(path: &Path) -> Result<Vec<Frame>, PcapError> {
    let bytes =
        std::fs::read(path).map_err(|source| PcapError::Io { path: path.into(), source })?;
    parse(path, &bytes)
}

/// Reads a capture and refuses it if packets were cut short: a program would see bytes missing that
/// were there.
pub fn read_whole(path: &Path) -> Result<Vec<Frame>, PcapError> {
    let frames = read(path)?;
    let snapped = |frame: &Frame| frame.original_length as usize > frame.data.len();
    match frames.iter().position(snapped) {
        None => Ok(frames),
        Some(first) => Err(PcapError::Snapped {
            path: path.into(),
            packet: first + 1,
            captured: frames[first].data.len(),
            original: frames[first].original_length,
            count: frames.iter().filter(|frame| snapped(frame)).count(),
        }),
    }
}

/// Reads a capture from memory; `path` is for messages.
pub fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<Frame>, PcapError> {
    let parsed = match bytes.get(..4) {
        Some([0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d]) => {
            classic::parse(bytes, Order::Big)
        }
        Some([0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1]) => {
            classic::parse(bytes, Order::Little)
        }
        Some([0x0a, 0x0d, 0x0d, 0x0a]) => pcapng::parse(bytes),
        _ => {
            let first: Vec<String> =
                bytes.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
            let magic =
                if first.is_empty() { "missing (empty file)".to_string() } else { first.join(" ") };
            return Err(PcapError::NotACapture { path: path.into(), magic });
        }
    };
    parsed.map_err(|problem| match problem {
        Problem::Damaged { offset, packet, reason } => {
            PcapError::Damaged { path: path.into(), offset, packet, reason }
        }
        Problem::LinkType(link_type) => {
            PcapError::LinkType { path: path.into(), link_type, name: link_type_name(link_type) }
        }
    })
}

/// Entry for fuzzing: any bytes may come; none may panic, and what is read must survive writing and
/// reading again.
pub fn fuzz_pcap(bytes: &[u8]) {
    if let Ok(frames) = parse(Path::new("fuzz"), bytes) {
        let mut out = Vec::new();
        if write(&mut out, &frames).is_ok() {
            let again = parse(Path::new("fuzz"), &out).expect("a written capture reads back");
            assert_eq!(again, frames);
        }
    }
}

/// Byte order of a file or section.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Big,
    Little,
}

/// A problem before the path is known.
enum Problem {
    Damaged { offset: usize, packet: usize, reason: String },
    LinkType(u32),
}

/// Reads integers of one byte order at absolute offsets; `None` beyond the end.
#[derive(Clone, Copy)]
struct Reader<'a> {
    bytes: &'a [u8],
    order: Order,
}

impl<'a> Reader<'a> {
    fn u16(&self, at: usize) -> Option<u16> {
        let raw = self.slice(at, 2)?.try_into().ok()?;
        Some(if self.order == Order::Big {
            u16::from_be_bytes(raw)
        } else {
            u16::from_le_bytes(raw)
        })
    }

    fn u32(&self, at: usize) -> Option<u32> {
        let raw = self.slice(at, 4)?.try_into().ok()?;
        Some(if self.order == Order::Big {
            u32::from_be_bytes(raw)
        } else {
            u32::from_le_bytes(raw)
        })
    }

    fn slice(&self, at: usize, len: usize) -> Option<&'a [u8]> {
        self.bytes.get(at..at.checked_add(len)?)
    }
}

/// Names of link types people meet by accident.
fn link_type_name(link_type: u32) -> &'static str {
    match link_type {
        0 => " (BSD loopback)",
        101 | 12 | 14 => " (raw IP)",
        105 | 127 => " (IEEE 802.11)",
        113 | 276 => " (Linux cooked capture)",
        _ => "",
    }
}

#[cfg(test)]
mod tests;
