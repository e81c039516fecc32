//! Records of the ring buffer `nf_host`, which is everything but packets that a program gives
//! out; copies of packets are among them.

use nicforge_codegen::LogFormat;
use nicforge_codegen::abi::record::{DMA_WRITE, HOST_MSG, HOST_RECV, LOG, NET_COPY};
use nicforge_ir::Output;

use super::error::XdpError;
use crate::ring::Ring;

/// `{ u32 kind; u32 length; u64 addr; }`
const HEAD: usize = 16;

/// Everything new in the ring, oldest first.
pub(crate) fn drain(ring: &mut Ring, formats: &[LogFormat]) -> Result<Vec<Output>, XdpError> {
    let mut outputs = Vec::new();
    ring.drain(|record| outputs.push(decode(record, formats)));
    outputs.into_iter().collect()
}

/// The output event a record stands for. `formats` are the artifact's `nf_log` formats.
fn decode(record: &[u8], formats: &[LogFormat]) -> Result<Output, XdpError> {
    let problem = || {
        XdpError::Contract(format!(
            "a record of {} bytes in `nf_host` makes no sense",
            record.len()
        ))
    };
    let word = |at: usize| Some(u32::from_le_bytes(record.get(at..at + 4)?.try_into().ok()?));
    let (kind, length) = word(0).zip(word(4)).ok_or_else(problem)?;
    let data = record.get(HEAD..HEAD + length as usize).ok_or_else(problem)?;
    Ok(match kind {
        HOST_RECV => Output::HostPacket { frame: data.to_vec() },
        HOST_MSG => Output::HostMessage { bytes: data.to_vec() },
        NET_COPY => Output::Send { port: word(8).ok_or_else(problem)?, frame: data.to_vec() },
        DMA_WRITE => {
            let addr = record[8..HEAD].try_into().map(u64::from_le_bytes).map_err(|_| problem())?;
            Output::DmaWrite { addr, data: data.to_vec() }
        }
        LOG => {
            let id = word(HEAD).ok_or_else(problem)?;
            let format = formats.get(id as usize).ok_or_else(problem)?;
            let args: Vec<u64> = data
                .get(8..)
                .ok_or_else(problem)?
                .as_chunks::<8>()
                .0
                .iter()
                .map(|arg| u64::from_le_bytes(*arg))
                .collect();
            Output::Log { text: format.line(&args) }
        }
        _ => return Err(problem()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, addr: u64, data: &[u8]) -> Vec<u8> {
        [&kind.to_le_bytes()[..], &(data.len() as u32).to_le_bytes(), &addr.to_le_bytes(), data]
            .concat()
    }

    #[test]
    fn every_kind() {
        let formats = [LogFormat { text: "flow {} of {}".to_string(), signed: vec![true, false] }];
        let read = |kind, addr, data: &[u8]| decode(&record(kind, addr, data), &formats).unwrap();
        assert_eq!(read(1, 0, b"pkt"), Output::HostPacket { frame: b"pkt".to_vec() });
        assert_eq!(read(2, 0, b"msg"), Output::HostMessage { bytes: b"msg".to_vec() });
        assert_eq!(read(3, 9, b"dma"), Output::DmaWrite { addr: 9, data: b"dma".to_vec() });
        let log = [&[0u8; 8][..], &(-7i64).to_le_bytes(), &u64::MAX.to_le_bytes()].concat();
        assert_eq!(
            read(4, 0, &log),
            Output::Log { text: "flow -7 of 18446744073709551615".to_string() }
        );
    }

    #[test]
    fn nonsense_is_an_error() {
        let formats = [LogFormat { text: "x".to_string(), signed: Vec::new() }];
        for bad in [&[][..], &[1; 15], &record(9, 0, b""), &record(4, 0, &[1, 0, 0, 0, 0, 0, 0, 0])]
        {
            assert!(decode(bad, &formats).is_err());
        }
        let mut short = record(1, 0, b"12345678");
        short.pop();
        assert!(decode(&short, &[]).is_err());
    }
}
