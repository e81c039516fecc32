/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * vlan_pop: takes the outer tag off, also of frames with two (QinQ), and drops VLANs of a list.
 */
#include "xdp.h"

struct tag {
    __be16 tci, protocol;
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 128);
    __type(key, __u16);
    __type(value, __u8);
} closed SEC(".maps");

SEC("xdp") int vlan_pop(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    struct tag *tag = take(&p, sizeof(*tag));
    if (!eth || !tag)
        return XDP_PASS;
    if (eth->h_proto != bpf_htons(ETH_P_8021Q) && eth->h_proto != bpf_htons(ETH_P_8021AD))
        return XDP_PASS;
    __u16 vlan = bpf_ntohs(tag->tci) & 0xfff;
    if (bpf_map_lookup_elem(&closed, &vlan))
        return XDP_DROP;
    struct ethhdr kept = *eth;
    kept.h_proto = tag->protocol;
    if (bpf_xdp_adjust_head(ctx, sizeof(*tag)))
        return XDP_DROP;
    p = packet_of(ctx);
    eth = take(&p, sizeof(*eth));
    if (!eth)
        return XDP_ABORTED;
    *eth = kept;
    return XDP_PASS;
}
