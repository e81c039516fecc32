//! Settings of network interfaces, asked of the kernel by `ioctl` (netdevice(7), linux/ethtool.h).

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// MTU in bytes of an interface of the calling thread's network namespace.
pub(super) fn mtu_of(interface: &str) -> Option<u32> {
    let mut request = request(interface);
    ask(libc::SIOCGIFMTU, &mut request)?;
    // SAFETY: the kernel filled in the MTU.
    u32::try_from(unsafe { request.ifr_ifru.ifru_mtu }).ok()
}

/// True if VLAN tags are taken out of received frames and kept beside them, where an XDP program
/// does not see them (`ethtool -k`: rx-vlan-offload).
pub fn takes_vlan_tags(interface: &str) -> bool {
    const GET_FLAGS: u32 = 0x25;
    const RX_VLAN: u32 = 1 << 8;
    /// `struct ethtool_value`.
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    let mut value = Value { command: GET_FLAGS, data: 0 };
    let mut request = request(interface);
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    ask(libc::SIOCETHTOOL, &mut request).is_some() && value.data & RX_VLAN != 0
}

fn request(interface: &str) -> libc::ifreq {
    // SAFETY: all-zero is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()).take(libc::IFNAMSIZ - 1) {
        *to = from as libc::c_char;
    }
    request
}

/// One question about an interface; the answer is in the request, or where it points.
fn ask(question: libc::c_ulong, request: &mut libc::ifreq) -> Option<()> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return None;
    }
    // SAFETY: a new descriptor, owned from here on.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: the request, and what it points to, live through the call.
    let status =
        unsafe { libc::ioctl(socket.as_raw_fd(), question as _, std::ptr::from_mut(request)) };
    (status == 0).then_some(())
}
