//! The classic format: a 24-byte file header, then packets of a 16-byte header and data each.

use std::io::Write;

use super::{Frame, LINKTYPE_ETHERNET, MAX_FRAME, Order, Problem, Reader};

const FILE_HEADER: usize = 24;
const PACKET_HEADER: usize = 16;
const MAGIC_NS: u32 = 0xa1b2_3c4d;

/// Reads the whole file; the caller found the byte order by the magic number.
pub(super) fn parse(bytes: &[u8], order: Order) -> Result<Vec<Frame>, Problem> {
    let reader = Reader { bytes, order };
    let nanoseconds = reader.u32(0) == Some(MAGIC_NS);
    let Some(link_type) = reader.u32(20) else {
        let reason = format!("the file header has {FILE_HEADER} bytes, the file ends before");
        return Err(Problem::Damaged { offset: bytes.len(), packet: 1, reason });
    };
    // The upper bits say whether frames end with a check sequence and how long it is.
    let link_type = link_type & 0x03ff_ffff;
    if link_type != LINKTYPE_ETHERNET {
        return Err(Problem::LinkType(link_type));
    }

    let mut frames = Vec::new();
    let mut at = FILE_HEADER;
    while at < bytes.len() {
        let damaged =
            |reason: String| Problem::Damaged { offset: at, packet: frames.len() + 1, reason };
        let fields = (reader.u32(at), reader.u32(at + 4), reader.u32(at + 8), reader.u32(at + 12));
        let (Some(seconds), Some(fraction), Some(captured), Some(original_length)) = fields else {
            return Err(damaged(format!(
                "the file ends inside the packet's {PACKET_HEADER}-byte header"
            )));
        };
        if captured > MAX_FRAME {
            return Err(damaged(format!(
                "length {captured} is beyond the format's limit of {MAX_FRAME}"
            )));
        }
        let Some(data) = reader.slice(at + PACKET_HEADER, captured as usize) else {
            let left = bytes.len() - at - PACKET_HEADER;
            return Err(damaged(format!(
                "the packet has {captured} bytes, the file has only {left} more"
            )));
        };
        if original_length < captured {
            return Err(damaged(format!(
                "{captured} bytes captured of a packet of {original_length}"
            )));
        }
        let fraction_ns = u64::from(fraction) * if nanoseconds { 1 } else { 1000 };
        frames.push(Frame {
            time_ns: u64::from(seconds) * 1_000_000_000 + fraction_ns,
            data: data.to_vec(),
            original_length,
        });
        at += PACKET_HEADER + captured as usize;
    }
    Ok(frames)
}

/// Writes frames as a little-endian pcap file with nanosecond time stamps.
///
/// # Errors
/// What `out` reports, and `InvalidInput` for a frame the format cannot hold (time beyond 2106,
/// length beyond [`MAX_FRAME`]).
pub fn write(out: &mut dyn Write, frames: &[Frame]) -> std::io::Result<()> {
    let mut buffer = Vec::with_capacity(FILE_HEADER + frames.len() * 80);
    buffer.extend(MAGIC_NS.to_le_bytes());
    buffer.extend(2u16.to_le_bytes());
    buffer.extend(4u16.to_le_bytes());
    buffer.extend([0; 8]);
    buffer.extend(MAX_FRAME.to_le_bytes());
    buffer.extend(LINKTYPE_ETHERNET.to_le_bytes());
    for (index, frame) in frames.iter().enumerate() {
        let seconds = u32::try_from(frame.time_ns / 1_000_000_000);
        let captured = u32::try_from(frame.data.len()).ok().filter(|len| *len <= MAX_FRAME);
        let (Ok(seconds), Some(captured)) = (seconds, captured) else {
            let message = format!(
                "packet {} (time {} ns, {} bytes) does not fit the pcap format",
                index + 1,
                frame.time_ns,
                frame.data.len()
            );
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, message));
        };
        buffer.extend(seconds.to_le_bytes());
        buffer.extend(((frame.time_ns % 1_000_000_000) as u32).to_le_bytes());
        buffer.extend(captured.to_le_bytes());
        buffer.extend(frame.original_length.max(captured).to_le_bytes());
        buffer.extend(&frame.data);
    }
    out.write_all(&buffer)
}
