//! Relocations of fields ("compile once, run everywhere", `.BTF.ext`): a program that was compiled
//! with its own idea of a kernel's structure is given the kernel's, as libbpf does it.
//!
//! Known are the contexts and the packet headers of `include/uapi/linux`, the structures that
//! packet programs see. Members of others stay where the compiler saw them.

use super::btf::{Field, FieldUse};
use crate::ebpf::Insn;
use crate::ebpf::insn::{class, width};

/// A member: its name, its place and its size in bytes.
type Member = (&'static str, u32, u32);

const XDP_MD: &[Member] = &[
    ("data", 0, 4),
    ("data_end", 4, 4),
    ("data_meta", 8, 4),
    ("ingress_ifindex", 12, 4),
    ("rx_queue_index", 16, 4),
    ("egress_ifindex", 20, 4),
];

const SK_BUFF: &[Member] = &[
    ("len", 0, 4),
    ("pkt_type", 4, 4),
    ("mark", 8, 4),
    ("queue_mapping", 12, 4),
    ("protocol", 16, 4),
    ("vlan_present", 20, 4),
    ("vlan_tci", 24, 4),
    ("vlan_proto", 28, 4),
    ("priority", 32, 4),
    ("ingress_ifindex", 36, 4),
    ("ifindex", 40, 4),
    ("tc_index", 44, 4),
    ("cb", 48, 20),
    ("hash", 68, 4),
    ("tc_classid", 72, 4),
    ("data", 76, 4),
    ("data_end", 80, 4),
    ("napi_id", 84, 4),
    ("family", 88, 4),
    ("remote_ip4", 92, 4),
    ("local_ip4", 96, 4),
    ("remote_ip6", 100, 16),
    ("local_ip6", 116, 16),
    ("remote_port", 132, 4),
    ("local_port", 136, 4),
    ("data_meta", 140, 4),
    ("flow_keys", 144, 8),
    ("tstamp", 152, 8),
    ("wire_len", 160, 4),
    ("gso_segs", 164, 4),
    ("sk", 168, 8),
    ("gso_size", 176, 4),
    ("tstamp_type", 180, 1),
    ("hwtstamp", 184, 8),
];

/// Structures by name. Of the headers bit-fields are left out: compilers cut them out themselves.
const KNOWN: &[(&str, &[Member])] = &[
    ("xdp_md", XDP_MD),
    ("__sk_buff", SK_BUFF),
    ("ethhdr", &[("h_dest", 0, 6), ("h_source", 6, 6), ("h_proto", 12, 2)]),
    ("vlan_hdr", &[("h_vlan_TCI", 0, 2), ("h_vlan_encapsulated_proto", 2, 2)]),
    (
        "arphdr",
        &[("ar_hrd", 0, 2), ("ar_pro", 2, 2), ("ar_hln", 4, 1), ("ar_pln", 5, 1), ("ar_op", 6, 2)],
    ),
    (
        "iphdr",
        &[
            ("tos", 1, 1),
            ("tot_len", 2, 2),
            ("id", 4, 2),
            ("frag_off", 6, 2),
            ("ttl", 8, 1),
            ("protocol", 9, 1),
            ("check", 10, 2),
            ("saddr", 12, 4),
            ("daddr", 16, 4),
            ("addrs", 12, 8),
        ],
    ),
    (
        "ipv6hdr",
        &[
            ("flow_lbl", 1, 3),
            ("payload_len", 4, 2),
            ("nexthdr", 6, 1),
            ("hop_limit", 7, 1),
            ("saddr", 8, 16),
            ("daddr", 24, 16),
            ("addrs", 8, 32),
        ],
    ),
    (
        "tcphdr",
        &[
            ("source", 0, 2),
            ("dest", 2, 2),
            ("seq", 4, 4),
            ("ack_seq", 8, 4),
            ("window", 14, 2),
            ("check", 16, 2),
            ("urg_ptr", 18, 2),
        ],
    ),
    ("udphdr", &[("source", 0, 2), ("dest", 2, 2), ("len", 4, 2), ("check", 6, 2)]),
    ("icmphdr", &[("type", 0, 1), ("code", 1, 1), ("checksum", 2, 2), ("un", 4, 4)]),
    (
        "icmp6hdr",
        &[
            ("icmp6_type", 0, 1),
            ("icmp6_code", 1, 1),
            ("icmp6_cksum", 2, 2),
            ("icmp6_dataun", 4, 4),
        ],
    ),
];

/// Gives an instruction the kernel's place or size of the field that it uses.
pub fn relocate(insn: &mut Insn, used: &FieldUse) {
    // Names of one's own for a kernel's structure have a flavour behind three underscores.
    let name = used.of.split("___").next().unwrap_or_default();
    let Some((_, members)) = KNOWN.iter().find(|(known, _)| *known == name) else { return };
    let member = members.iter().find(|(known, ..)| *known == used.member);
    match (used.what, member) {
        // Members that are not listed are bit-fields, and contexts have none.
        (Field::Exists, None) if matches!(name, "xdp_md" | "__sk_buff") => {
            patch(insn, used.value(), 0, None);
        }
        (Field::Offset, Some((_, place, size))) => {
            let size = if used.whole { *size } else { used.size };
            patch(insn, used.value(), place + used.within, Some((used.size, size)));
        }
        (Field::Size, Some((.., size))) if used.whole => patch(insn, used.value(), *size, None),
        _ => {}
    }
}

/// Replaces a number of an instruction; loads and stores move as many bytes as the field has.
fn patch(insn: &mut Insn, was: u32, is: u32, size: Option<(u32, u32)>) {
    let memory = matches!(insn.code & 7, class::LDX | class::ST | class::STX);
    if !memory {
        if matches!(insn.code & 7, class::ALU | class::ALU64) && insn.imm == was as i32 {
            insn.imm = is as i32;
        }
        return;
    }
    let Ok(is) = i16::try_from(is) else { return };
    if i64::from(insn.off) != i64::from(was) {
        return;
    }
    insn.off = is;
    if let Some((was, is)) = size
        && was != is
        && width(insn.code) == was as usize
        && let Some(bits) = [(4, 0x00), (2, 0x08), (1, 0x10), (8, 0x18)]
            .iter()
            .find_map(|(bytes, bits)| (*bytes == is).then_some(bits))
    {
        insn.code = insn.code & !0x18 | bits;
    }
}
