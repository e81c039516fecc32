//! Packets that interfaces received, as the system counts them: what a run reports where it may not
//! count runs of programs.

use std::cell::RefCell;
use std::ffi::CStr;

/// An interface's number and its packets received, a counter of 32 bits, which goes round.
type Count = (i32, u32);

/// What the system counts for each interface that is there; `struct rtnl_link_stats` begins with
/// the packets received.
fn now(names: &[String]) -> Vec<Option<Count>> {
    let mut counts = vec![None; names.len()];
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
                let address = entry.ifa_addr.cast::<libc::sockaddr_ll>().read_unaligned();
                counts[place] =
                    Some((address.sll_ifindex, entry.ifa_data.cast::<u32>().read_unaligned()));
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
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    last: Vec<Option<Count>>,
    total: u64,
}

impl State {
    /// Adds what came since the last look. An interface with another number is a new one, which
    /// counts from zero.
    fn look(&mut self, now: &[Option<Count>]) {
        for (last, now) in self.last.iter_mut().zip(now) {
            let Some((index, count)) = *now else { continue };
            let before = last.filter(|(known, _)| *known == index).map_or(0, |(_, count)| count);
            self.total += u64::from(count.wrapping_sub(before));
            *last = Some((index, count));
        }
    }
}

impl Received {
    pub(super) fn start(names: Vec<String>) -> Received {
        let last = now(&names);
        Received { names, state: RefCell::new(State { last, total: 0 }) }
    }

    pub(super) fn packets(&self) -> u64 {
        let mut state = self.state.borrow_mut();
        state.look(&now(&self.names));
        state.total
    }
}

#[cfg(test)]
mod tests {
    use super::State;

    #[test]
    fn counters_go_round_and_interfaces_come_back() {
        let mut state = State { last: vec![Some((1, u32::MAX - 1)), Some((2, 5))], total: 0 };
        state.look(&[Some((1, 3)), Some((2, 7))]);
        assert_eq!(state.total, 5 + 2);
        state.look(&[None, Some((2, 8))]);
        assert_eq!(state.total, 8);
        state.look(&[Some((9, 4)), Some((2, 8))]);
        assert_eq!(state.total, 12);
    }
}
