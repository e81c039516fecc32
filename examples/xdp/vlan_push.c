/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * vlan_push: gives frames the VLAN of the port they come by (IEEE 802.1Q).
 */
#include "xdp.h"

struct tag {
    __be16 tci, protocol;
};

TABLE(vlans, __u16, 16);

SEC("xdp") int vlan_push(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    if (!eth)
        return XDP_DROP;
    __u32 port = ctx->ingress_ifindex & 15;
    __u16 *vlan = bpf_map_lookup_elem(&vlans, &port);
    if (!vlan)
        return XDP_DROP;
    struct ethhdr kept = *eth;
    if (bpf_xdp_adjust_head(ctx, -(int)sizeof(struct tag)))
        return XDP_ABORTED;
    p = packet_of(ctx);
    eth = take(&p, sizeof(*eth));
    struct tag *tag = take(&p, sizeof(*tag));
    if (!eth || !tag)
        return XDP_ABORTED;
    *eth = kept;
    eth->h_proto = bpf_htons(ETH_P_8021Q);
    tag->tci = bpf_htons(*vlan & 0xfff);
    tag->protocol = kept.h_proto;
    return XDP_PASS;
}
