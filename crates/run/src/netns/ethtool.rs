//! The ethtool requests a sandbox needs: turning offloads off, and veth's own XDP counters
//! (linux/ethtool.h).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::xdp::XdpError;

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETH_SS_STATS: u32 = 1;
const STRING: usize = 32;
/// Statistics a veth interface can have at most here: eleven per queue and a few of the device.
const MOST_STATS: usize = 1024;

/// Requests that turn an offload off: checksums in and out, scatter-gather, segmentation (two
/// kinds), receive aggregation, and the flags (VLAN tags moved out of the frame, among others).
const OFF: [u32; 7] = [0x15, 0x17, 0x19, 0x1f, 0x24, 0x2c, 0x26];

/// Counts of veth about native XDP on one interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct XdpStats {
    /// Frames the program saw.
    pub packets: u64,
    /// Of them, frames that could not be turned into what native XDP takes, or whose verdict could
    /// not be carried out.
    pub lost: u64,
    /// Verdicts XDP_REDIRECT and XDP_DROP, and XDP_TX by success. All others are XDP_PASS.
    pub redirected: u64,
    pub dropped: u64,
    pub bounced: u64,
    pub bounce_errors: u64,
    /// Redirected frames that did not get into the peer's queue.
    pub send_errors: u64,
}

impl XdpStats {
    /// Frames that left by XDP_TX or XDP_REDIRECT.
    pub(crate) fn sent(&self) -> u64 {
        (self.redirected + self.bounced).saturating_sub(self.send_errors)
    }

    /// Frames that went to the network stack.
    pub(crate) fn passed(&self) -> u64 {
        let elsewhere =
            self.lost + self.redirected + self.dropped + self.bounced + self.bounce_errors;
        self.packets.saturating_sub(elsewhere)
    }

    pub(crate) fn add(&mut self, other: &XdpStats) {
        *self = self.zip(other, |a, b| a + b);
    }

    /// Counts since `before`.
    pub(crate) fn since(&self, before: &XdpStats) -> XdpStats {
        self.zip(before, |now, before| now.wrapping_sub(before))
    }

    fn zip(&self, other: &XdpStats, f: impl Fn(u64, u64) -> u64) -> XdpStats {
        XdpStats {
            packets: f(self.packets, other.packets),
            lost: f(self.lost, other.lost),
            redirected: f(self.redirected, other.redirected),
            dropped: f(self.dropped, other.dropped),
            bounced: f(self.bounced, other.bounced),
            bounce_errors: f(self.bounce_errors, other.bounce_errors),
            send_errors: f(self.send_errors, other.send_errors),
        }
    }
}

/// Turns off everything that changes frames between two veth interfaces. Offloads the driver does
/// not know are off.
pub(super) fn no_offloads(interface: &str) -> Result<(), XdpError> {
    let socket = socket()?;
    for command in OFF {
        let mut value = [command, 0];
        match request(&socket, interface, value.as_mut_ptr().cast()) {
            Err(error)
                if !matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL)) =>
            {
                return Err(XdpError::kernel(format!("turn off offloads of `{interface}`"), error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The place a counter adds to.
type Member = fn(&mut XdpStats) -> &mut u64;

/// Reads one interface's counters repeatedly; made in its namespace, usable from anywhere.
pub(crate) struct StatsReader {
    socket: OwnedFd,
    interface: String,
    /// For each counter of the interface, which member it adds to.
    members: Vec<Option<Member>>,
    buffer: Vec<u64>,
}

/// A reader of `interface`'s counters; call it in the interface's namespace.
pub(crate) fn xdp_stats(interface: &str) -> Result<StatsReader, XdpError> {
    let failed = |error| XdpError::kernel(format!("read the statistics of `{interface}`"), error);
    let socket = socket()?;
    // struct ethtool_gstrings { u32 cmd, string_set, len; u8 data[]; }, as whole words for
    // alignment.
    let mut strings = vec![0u32; 3 + MOST_STATS * STRING / 4];
    (strings[0], strings[1]) = (ETHTOOL_GSTRINGS, ETH_SS_STATS);
    request(&socket, interface, strings.as_mut_ptr().cast()).map_err(failed)?;
    let count = (strings[2] as usize).min(MOST_STATS);
    let bytes: Vec<u8> = strings[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let members: Vec<_> = bytes.chunks(STRING).take(count).map(member).collect();
    if members.iter().flatten().count() == 0 {
        return Err(XdpError::Feature {
            what: "veth's counters of XDP".to_string(),
            how: "use Linux 5.15 or newer".to_string(),
        });
    }
    Ok(StatsReader {
        socket,
        interface: interface.to_string(),
        members,
        buffer: vec![0; 1 + MOST_STATS],
    })
}

impl StatsReader {
    /// The counters now.
    pub(crate) fn read(&mut self) -> Result<XdpStats, XdpError> {
        // struct ethtool_stats { u32 cmd, n_stats; u64 data[]; }
        self.buffer[0] = u64::from(ETHTOOL_GSTATS) | (self.members.len() as u64) << 32;
        request(&self.socket, &self.interface, self.buffer.as_mut_ptr().cast()).map_err(
            |error| XdpError::kernel(format!("read the statistics of `{}`", self.interface), error),
        )?;
        let mut stats = XdpStats::default();
        for (member, value) in self.members.iter().zip(&self.buffer[1..]) {
            if let Some(member) = member {
                *member(&mut stats) += value;
            }
        }
        Ok(stats)
    }
}

/// The member a counter such as `rx_queue_0_xdp_tx` adds to.
fn member(name: &[u8]) -> Option<Member> {
    let name = name.split(|byte| *byte == 0).next()?;
    let name = std::str::from_utf8(name).ok()?;
    let counter = name.strip_prefix("rx_queue_").or(name.strip_prefix("tx_queue_"))?;
    match counter.split_once('_')?.1 {
        "xdp_packets" => Some(|stats| &mut stats.packets),
        "drops" => Some(|stats| &mut stats.lost),
        "xdp_redirect" => Some(|stats| &mut stats.redirected),
        "xdp_drops" => Some(|stats| &mut stats.dropped),
        "xdp_tx" => Some(|stats| &mut stats.bounced),
        "xdp_tx_errors" => Some(|stats| &mut stats.bounce_errors),
        "xdp_xmit_errors" => Some(|stats| &mut stats.send_errors),
        _ => None,
    }
}

fn socket() -> Result<OwnedFd, XdpError> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(XdpError::last("open a socket"));
    }
    // SAFETY: a new descriptor, owned from here on.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn request(socket: &OwnedFd, interface: &str, data: *mut libc::c_char) -> io::Result<()> {
    // SAFETY: all-zero is a valid value.
    let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.len() >= ifreq.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in ifreq.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    ifreq.ifr_ifru.ifru_data = data;
    // SAFETY: `data` points to a buffer as large as the request in it says; both live through the
    // call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &mut ifreq) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
