//! pcapng: a sequence of blocks `{ type, length, body, length }`. A section header starts a section
//! with its own byte order and interfaces; packets name their interface, whose options say the unit
//! of its time stamps.
//!
//! Blocks that carry no packet (name resolution, statistics, unknown ones) are skipped by their
//! length.

use super::{Frame, LINKTYPE_ETHERNET, MAX_FRAME, Order, Problem, Reader};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Options of an interface that change how its time stamps read.
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;

struct Interface {
    link_type: u32,
    snap_length: u32,
    /// Units of the time stamp per second.
    units_per_second: u128,
    offset_seconds: i64,
}

/// Reads the whole file; it starts with a section header's type.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<Frame>, Problem> {
    let mut frames: Vec<Frame> = Vec::new();
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut reader = Reader { bytes, order: Order::Little };
    let mut at = 0;
    while at < bytes.len() {
        let packet = frames.len() + 1;
        let damaged =
            |reason: &str| Problem::Damaged { offset: at, packet, reason: reason.to_string() };
        let Some(kind) = reader.u32(at) else {
            return Err(damaged("the file ends inside a block's header"));
        };
        if kind == SECTION_HEADER {
            reader.order = match reader.slice(at + 8, 4) {
                Some([0x1a, 0x2b, 0x3c, 0x4d]) => Order::Big,
                Some([0x4d, 0x3c, 0x2b, 0x1a]) => Order::Little,
                _ => return Err(damaged("the section header has no byte-order magic")),
            };
            interfaces.clear();
        }
        let Some(length) = reader.u32(at + 4).map(|length| length as usize) else {
            return Err(damaged("the file ends inside a block's header"));
        };
        if length < 12 || !length.is_multiple_of(4) {
            return Err(damaged(&format!("a block cannot have a length of {length} bytes")));
        }
        let Some(block) = reader.slice(at, length) else {
            return Err(damaged(&format!("a block has {length} bytes, the file ends before")));
        };
        let block = Reader { bytes: &block[..length - 4], order: reader.order };
        if reader.u32(at + length - 4) != Some(length as u32) {
            return Err(damaged("a block's length at its end differs from that at its start"));
        }
        match kind {
            INTERFACE => interfaces
                .push(interface(block).ok_or_else(|| damaged("an interface block is too short"))?),
            ENHANCED_PACKET | OLD_PACKET | SIMPLE_PACKET => {
                let raw = packet_block(block, kind)
                    .ok_or_else(|| damaged("a packet block is too short"))?;
                let Some(from) = interfaces.get(raw.interface as usize) else {
                    let reason = format!(
                        "the packet names interface {}, which the file does not have",
                        raw.interface
                    );
                    return Err(damaged(&reason));
                };
                if from.link_type != LINKTYPE_ETHERNET {
                    return Err(Problem::LinkType(from.link_type));
                }
                frames.push(
                    frame(block, &raw, from, frames.last()).map_err(|reason| damaged(&reason))?,
                );
            }
            _ => {}
        }
        at += length;
    }
    Ok(frames)
}

fn interface(block: Reader) -> Option<Interface> {
    let mut found = Interface {
        link_type: u32::from(block.u16(8)?),
        snap_length: block.u32(12)?,
        units_per_second: 1_000_000,
        offset_seconds: 0,
    };
    let mut at = 16;
    while let (Some(code), Some(len)) = (block.u16(at), block.u16(at + 2)) {
        let value = block.slice(at + 4, len as usize)?;
        match (code, value) {
            (0, _) => break,
            // The top bit chooses powers of two; 10^-38 and 2^-126 are the smallest units that fit
            // the arithmetic.
            (IF_TSRESOL, [unit]) if unit & 0x80 == 0 => {
                found.units_per_second = 10u128.pow((*unit).min(38) as u32)
            }
            (IF_TSRESOL, [unit]) => found.units_per_second = 1u128 << (unit & 0x7f).min(126),
            (IF_TSOFFSET, [..]) if len == 8 => {
                let (first, second) = (block.u32(at + 4)?, block.u32(at + 8)?);
                let (high, low) =
                    if block.order == Order::Big { (first, second) } else { (second, first) };
                found.offset_seconds = ((u64::from(high) << 32) | u64::from(low)) as i64;
            }
            _ => {}
        }
        at += 4 + (len as usize).next_multiple_of(4);
    }
    Some(found)
}

/// The header of a packet block of any of the three kinds.
struct RawPacket {
    interface: u32,
    /// Absent in simple packet blocks.
    time: Option<u64>,
    /// Absent in simple packet blocks: as much as the interface's snap length allows.
    captured: Option<u32>,
    original: u32,
    data_at: usize,
}

fn packet_block(block: Reader, kind: u32) -> Option<RawPacket> {
    if kind == SIMPLE_PACKET {
        return Some(RawPacket {
            interface: 0,
            time: None,
            captured: None,
            original: block.u32(8)?,
            data_at: 12,
        });
    }
    let interface = if kind == OLD_PACKET { u32::from(block.u16(8)?) } else { block.u32(8)? };
    Some(RawPacket {
        interface,
        time: Some(u64::from(block.u32(12)?) << 32 | u64::from(block.u32(16)?)),
        captured: Some(block.u32(20)?),
        original: block.u32(24)?,
        data_at: 28,
    })
}

fn frame(
    block: Reader,
    raw: &RawPacket,
    from: &Interface,
    before: Option<&Frame>,
) -> Result<Frame, String> {
    let limit = if from.snap_length == 0 { u32::MAX } else { from.snap_length };
    let captured = raw.captured.unwrap_or(raw.original.min(limit));
    if captured > MAX_FRAME {
        return Err(format!("length {captured} is beyond the format's limit of {MAX_FRAME}"));
    }
    if raw.original < captured {
        return Err(format!("{captured} bytes captured of a packet of {}", raw.original));
    }
    let data = block
        .slice(raw.data_at, captured as usize)
        .ok_or_else(|| format!("the packet has {captured} bytes, its block ends before"))?;
    let time_ns = match raw.time {
        // A packet without a time stamp came with the one before it.
        None => before.map_or(0, |frame| frame.time_ns),
        Some(time) => nanoseconds(time, from)
            .ok_or_else(|| format!("time stamp {time} is outside the years 1970 to 2554"))?,
    };
    Ok(Frame { time_ns, data: data.to_vec(), original_length: raw.original })
}

/// Nanoseconds since 1970, or `None` if 64 bits do not hold them.
fn nanoseconds(time: u64, from: &Interface) -> Option<u64> {
    let units = from.units_per_second;
    let seconds = u128::from(time) / units;
    let rest = u128::from(time) % units;
    // `rest` is below 2^64 and 2^64 × 10^9 fits 128 bits.
    let total = seconds as i128 * 1_000_000_000
        + (rest * 1_000_000_000 / units) as i128
        + from.offset_seconds as i128 * 1_000_000_000;
    u64::try_from(total).ok()
}
