//! Contexts that XDP and tc programs are given, as the kernel lays them out.

/// Offsets of a context's members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub data: u64,
    pub data_end: u64,
    pub data_meta: u64,
    pub size: u64,
}

/// `struct xdp_md`.
pub const XDP: Layout = Layout { data: 0, data_end: 4, data_meta: 8, size: 64 };
/// `struct __sk_buff`.
pub const SKB: Layout = Layout { data: 76, data_end: 80, data_meta: 140, size: 192 };

/// How sections of programs begin that get a socket buffer.
const SKB_SECTIONS: [&str; 8] =
    ["tc", "tcx/", "classifier", "action", "sched_cls", "netkit/", "lwt_", "cgroup_skb/"];

/// How sections of programs begin that get no packet.
const OTHER_SECTIONS: [&str; 26] = [
    "kprobe",
    "kretprobe",
    "ksyscall",
    "kretsyscall",
    "uprobe",
    "uretprobe",
    "usdt",
    "tp/",
    "tp_btf",
    "tracepoint",
    "raw_tp",
    "raw_tracepoint",
    "fentry",
    "fexit",
    "fmod_ret",
    "lsm",
    "iter",
    "perf_event",
    "sockops",
    "sk_msg",
    "sk_skb",
    "sk_lookup",
    "struct_ops",
    "syscall",
    "cgroup/",
    "socket",
];

impl Layout {
    /// The context of a section's programs; sections with names of their own hold XDP programs.
    ///
    /// # Errors
    /// Programs there get no packets.
    pub fn of(section: &str) -> Result<Layout, String> {
        // `?` and `.s` say when to load and where a program may sleep.
        let name = section.trim_start_matches('?');
        let begins = |list: &[&str]| list.iter().any(|start| name.starts_with(start));
        match () {
            () if begins(&SKB_SECTIONS) => Ok(SKB),
            () if begins(&OTHER_SECTIONS) => Err(format!(
                "programs of section `{section}` get no packets; XDP and tc programs do"
            )),
            () => Ok(XDP),
        }
    }

    /// Members that say where the packet is, in order of their place.
    pub fn ends(&self) -> [u64; 3] {
        let mut ends = [self.data, self.data_end, self.data_meta];
        ends.sort_unstable();
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_say_what_programs_get() {
        for section in ["xdp", "xdp/frags", "xdp_vlan_swap", "prog", "freplace/x", ".text"] {
            assert_eq!(Layout::of(section), Ok(XDP), "{section}");
        }
        for section in ["tc", "tc/ingress", "tcx/egress", "classifier", "?tc"] {
            assert_eq!(Layout::of(section), Ok(SKB), "{section}");
        }
        let refused = Layout::of("kprobe/tcp_v4_rcv").unwrap_err();
        assert!(refused.contains("`kprobe/tcp_v4_rcv` get no packets"), "{refused}");
    }
}
