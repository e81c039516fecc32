/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * gre_decap: takes GRE (RFC 2784, with the optional parts of RFC 2890) off IPv4 packets.
 */
#include "xdp.h"

struct gre {
    __be16 flags, protocol;
};

SEC("xdp") int gre_decap(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    struct iphdr *ip = take(&p, sizeof(*ip));
    struct gre *gre = take(&p, sizeof(*gre));
    if (!eth || !ip || !gre || eth->h_proto != bpf_htons(ETH_P_IP) || ip->protocol != 47)
        return XDP_PASS;
    if (ip->ihl != 5 || gre->protocol != bpf_htons(ETH_P_IP) || gre->flags & bpf_htons(7))
        return XDP_DROP;
    int length = sizeof(*ip) + sizeof(*gre);
    if (gre->flags & bpf_htons(0x8000))
        length += 4;
    if (gre->flags & bpf_htons(0x2000))
        length += 4;
    if (gre->flags & bpf_htons(0x1000))
        length += 4;
    struct ethhdr kept = *eth;
    if (bpf_xdp_adjust_head(ctx, length))
        return XDP_DROP;
    p = packet_of(ctx);
    eth = take(&p, sizeof(*eth));
    if (!eth)
        return XDP_ABORTED;
    *eth = kept;
    return XDP_PASS;
}
