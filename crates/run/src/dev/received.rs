//! Packets that interfaces received, as the system counts them: what a run reports where it may not count runs of programs.

use std::ffi::CStr;

/// `struct rtnl_link_stats` begins with the packets received. Counters of 32 bits, which go round.
fn now(names: &[String]) -> Vec<u32> {
    let mut counts = vec![0; names.len()];
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: an out parameter; the list is walked as the manual says and given back.
    unsafe {
        if libc::getifaddrs(&raw mut list) != 0 {
            return counts;
        }
        let mut at = list;
        while let Some(entry) = at.as_ref() {
            at = entry.ifa_next;
            let packet = !entry.ifa_addr.is_null()
                && i32::from((*entry.ifa_addr).sa_family) == libc::AF_PACKET
                && !entry.ifa_data.is_null();
            let name = CStr::from_ptr(entry.ifa_name).to_string_lossy();
            if packet && let Some(place) = names.iter().position(|known| *known == name) {
                counts[place] = entry.ifa_data.cast::<u32>().read_unaligned();
            }
        }
        libc::freeifaddrs(list);
    }
    counts
}

/// Packets received since it was made.
#[derive(Debug)]
pub(super) struct Received {
    names: Vec<String>,
    first: Vec<u32>,
}

impl Received {
    pub(super) fn start(names: Vec<String>) -> Received {
        let first = now(&names);
        Received { names, first }
    }

    pub(super) fn packets(&self) -> u64 {
        let now = now(&self.names);
        now.iter().zip(&self.first).map(|(now, first)| u64::from(now.wrapping_sub(*first))).sum()
    }
}
