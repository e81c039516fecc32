//! Outputs as runtimes write them down.

use nicforge_codegen::LogFormat;
use nicforge_codegen::abi::output;
use nicforge_codegen::host::HostArtifact;
use nicforge_ir::{Output, ReasonId};

/// The output of a record of process or core; none of a drop by the runtime's own reason, which is
/// in the counters.
pub fn output(
    kind: u32,
    number: u64,
    bytes: Vec<u8>,
    host: &HostArtifact,
) -> Result<Option<Output>, String> {
    Ok(Some(match kind {
        output::SEND => Output::Send { port: number as u32, frame: bytes },
        output::STACK => Output::Stack { frame: bytes },
        output::HOST => Output::HostPacket { frame: bytes },
        output::MSG => Output::HostMessage { bytes },
        output::DMA => Output::DmaWrite { addr: number, data: bytes },
        // The runtime's own reason is the last one.
        output::DROP if number + 1 == host.reasons.len() as u64 => return Ok(None),
        output::DROP if number >= host.reasons.len() as u64 => {
            return Err(format!("a drop for the unknown reason {number}"));
        }
        output::DROP => Output::Drop { reason: ReasonId::from_u32(number as u32) },
        output::LOG => log(&host.logs, number, &bytes)?,
        kind => return Err(format!("an output of kind {kind}")),
    }))
}

/// A line of `nf_log`: its format by number, and its arguments as words of eight bytes.
pub fn log(formats: &[LogFormat], number: u64, bytes: &[u8]) -> Result<Output, String> {
    let format = formats.get(number as usize).ok_or("an unknown log")?;
    let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    Ok(Output::Log { text: format.line(&words.collect::<Vec<u64>>()) })
}
