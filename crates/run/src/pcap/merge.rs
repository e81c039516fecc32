//! Several captures become one stream of events, ordered by time.

use std::path::PathBuf;

use nicforge_ir::{Input, InputEvent};

use super::{Frame, PcapError};

/// Where a capture's packets come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// By a network port.
    Port(u32),
    /// Not packets of the network but messages of the host side: the bytes of `host_send`'s
    /// parameter.
    Host,
}

/// A capture and where its packets come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub kind: SourceKind,
    pub path: PathBuf,
}

/// Reads `FILE` (port 0), `PORT=FILE` or `host=FILE`. `ports` is the number of ports the program
/// has.
pub fn parse_source(text: &str, ports: u32) -> Result<Source, PcapError> {
    let problem = |detail: String| PcapError::Source { text: text.to_string(), detail };
    let (kind, path) = match text.split_once('=') {
        Some(("host", path)) => (SourceKind::Host, path),
        Some((port, path))
            if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            match port.parse() {
                Ok(port) if port < ports => (SourceKind::Port(port), path),
                _ => {
                    return Err(problem(format!(
                        "; the program's ports are 0 to {}",
                        ports.saturating_sub(1)
                    )));
                }
            }
        }
        // A file name may contain `=` as long as what is before it is no port.
        _ => (SourceKind::Port(0), text),
    };
    if path.is_empty() {
        return Err(problem("; the file name is missing".to_string()));
    }
    Ok(Source { kind, path: path.into() })
}

/// The start of the random stream of event number `index` (from 0): a number of SplitMix64's, so
/// that streams of neighbours have nothing in common and every run draws the same numbers.
pub fn event_seed(index: u64) -> u64 {
    nicforge_util::random::nth(0, index)
}

/// One stream ordered by time; events of the same time keep the order of the captures, then of
/// their packets.
pub fn merge(captures: &[(SourceKind, Vec<Frame>)]) -> Vec<InputEvent> {
    let mut all: Vec<(SourceKind, &Frame)> = captures
        .iter()
        .flat_map(|(kind, frames)| frames.iter().map(move |frame| (*kind, frame)))
        .collect();
    all.sort_by_key(|(_, frame)| frame.time_ns);
    let event = |(index, (kind, frame)): (usize, (SourceKind, &Frame))| InputEvent {
        time_ns: frame.time_ns,
        seed: event_seed(index as u64),
        input: match kind {
            SourceKind::Port(port) => Input::Net { port, frame: frame.data.clone() },
            SourceKind::Host => Input::Host { message: frame.data.clone() },
        },
    };
    all.into_iter().enumerate().map(event).collect()
}
