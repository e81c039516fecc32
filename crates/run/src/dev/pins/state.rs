//! What a process leaves to the next one, as the only value of a map.

use std::io;
use std::path::Path;

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, libbpf_sys};
use nicforge_codegen::{LogFormat, XdpBuf, XdpMapShape};
use serde::{Deserialize, Serialize};

use super::super::received::Count;
use super::super::stats::DevStats;
use crate::xdp::{Place, XdpError};

/// The form of [`State`]; another one is not read.
pub(super) const FORM: u32 = 1;

/// What a process leaves to the next.
#[derive(Serialize, Deserialize)]
pub(super) struct State {
    pub(super) form: u32,
    pub(super) generation: u64,
    /// Of the ports, by name.
    pub(super) interfaces: Vec<String>,
    /// αIR of the program, which says what the tables' bytes mean.
    pub(super) program: String,
    pub(super) tables: Vec<PinnedTable>,
    /// Counters in the global data: their place, and a name for each.
    pub(super) drops: (Option<Place>, Vec<String>),
    pub(super) refused: (Option<Place>, Vec<String>),
    pub(super) logs: Vec<LogFormat>,
    /// Counts of programs before this one.
    pub(super) earlier: DevStats,
    /// Counts of all, when they were last written, and what the interfaces had received then.
    pub(super) counts: DevStats,
    pub(super) received: Vec<Option<Count>>,
    /// When that was, in seconds since the machine started.
    pub(super) written: f64,
}

#[derive(Serialize, Deserialize)]
pub(super) struct PinnedTable {
    pub(super) name: String,
    pub(super) map: String,
    pub(super) shape: XdpMapShape,
    pub(super) front: u32,
    pub(super) buf: Option<XdpBuf>,
}

/// Seconds since the machine started.
pub(super) fn uptime() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A map with a state, and room for what its counters may become.
pub(super) fn make(state: &State) -> Result<MapHandle, XdpError> {
    // SAFETY: all-zero is the defined initial state of the options.
    let mut options: libbpf_sys::bpf_map_create_opts = unsafe { std::mem::zeroed() };
    options.sz = size_of_val(&options) as _;
    let size = room(state) as u32;
    let map = MapHandle::create(MapType::Array, Some("nf_state"), 4, size, 1, &options);
    let map = map.map_err(|error| failed("make a map", error))?;
    put(&map, state)?;
    Ok(map)
}

/// Bytes that a state may take later. Counters grow: names come to those of programs before, and
/// digits to all.
fn room(state: &State) -> usize {
    let names = (&state.drops.1, &state.refused.1);
    let earlier = state.earlier.drops.len() + state.earlier.refused.len();
    let counters = names.0.len() + names.1.len() + earlier + state.interfaces.len() + 16;
    let names = serde_json::to_vec(&names).map_or(0, |text| text.len());
    json(state).len() + names + 64 * counters
}

fn json(state: &State) -> Vec<u8> {
    serde_json::to_vec(state).unwrap_or_default()
}

/// Writes the one value of the state's map, zeros behind it.
pub(super) fn put(map: &MapHandle, state: &State) -> Result<(), XdpError> {
    let mut value = json(state);
    if value.len() > map.value_size() as usize {
        return Err(XdpError::Contract("the pinned state outgrows its map".to_string()));
    }
    value.resize(map.value_size() as usize, 0);
    map.update(&0u32.to_ne_bytes(), &value, MapFlags::ANY)
        .map_err(|error| failed("write what the next start must know", error))
}

/// The state in a folder, if there is one.
pub(super) fn read_state(folder: &Path) -> Result<Option<(State, MapHandle)>, XdpError> {
    let path = folder.join("state");
    if !path.exists() {
        return Ok(None);
    }
    let map = MapHandle::from_pinned_path(&path).map_err(|error| failed("open a map", error))?;
    let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten().unwrap_or_default();
    let text = value.split(|byte| *byte == 0).next().unwrap_or_default();
    match serde_json::from_slice::<State>(text) {
        Ok(state) if state.form == FORM => Ok(Some((state, map))),
        _ => Err(XdpError::PinnedForeign(folder.to_path_buf())),
    }
}

fn failed(what: &str, error: libbpf_rs::Error) -> XdpError {
    let code = std::error::Error::source(&error)
        .and_then(|source| source.downcast_ref::<io::Error>())
        .and_then(io::Error::raw_os_error);
    let source = code.map_or_else(|| io::Error::other(error), io::Error::from_raw_os_error);
    XdpError::kernel(what, source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dev::HostCounts;

    #[test]
    fn a_state_has_room_for_its_counters() {
        let names = |list: &[&str]| list.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        let counters =
            |list: &[&str], n| list.iter().map(|name| (name.to_string(), n)).collect::<Vec<_>>();
        let (old, new) = (["old", "both"], ["both", "a \"new\"\\one\n"]);
        let earlier = DevStats {
            drops: counters(&old, 0),
            refused: counters(&["flows"], 0),
            ..DevStats::default()
        };
        let mut state = State {
            form: FORM,
            generation: 1,
            interfaces: names(&["eth0", "eth1"]),
            program: String::new(),
            tables: Vec::new(),
            drops: (None, names(&new)),
            refused: (None, names(&["flows", "routes"])),
            logs: Vec::new(),
            earlier: earlier.clone(),
            counts: earlier,
            received: vec![None, None],
            written: 0.0,
        };
        let room = room(&state);
        let most = u64::MAX;
        state.counts = DevStats {
            seconds: f64::MIN_POSITIVE,
            packets: most,
            timed: most,
            busy_ns: most,
            drops: counters(&["old", "both", new[1]], most),
            refused: counters(&["flows", "routes"], most),
            host: HostCounts { packets: most, messages: most, dma_writes: most, logs: most },
            copies: most,
            copies_lost: most,
        };
        state.received = vec![Some((u32::MAX, most)); 2];
        state.written = f64::MIN_POSITIVE;
        assert!(json(&state).len() <= room, "{} of {room}", json(&state).len());
    }
}
